//! Writes a database of many results without run folders, to measure queries over it: `many_results FOLDER RUNS CASES`. Each
//! run has each case once, with a median latency; the tenth case gets 5 % slower in the middle.

use duckdb::Connection;
use host_store::{Database, ResultsFolder};
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, runs, cases] = &arguments[..] else {
        return Err("usage: many_results FOLDER RUNS CASES".into());
    };
    let (runs, cases): (u32, u32) = (runs.parse()?, cases.parse()?);
    let results = ResultsFolder::new(folder);
    Database::open(&results, Duration::from_secs(1))?.close()?;
    let connection = Connection::open(results.database_path())?;
    // DuckDB's `hash` stands in for noise: a sum of four uniform numbers.
    let noise: Vec<String> = (0..4)
        .map(|part| format!("(hash(r.range, c.range, {part}) % 1000000)::DOUBLE / 1000000"))
        .collect();
    connection.execute_batch(&format!(
        "BEGIN;
         INSERT INTO benchmark_runs SELECT format('run-{{:06}}', range), 'nightly', '',
             TIMESTAMP '2026-01-01' + INTERVAL (range) HOUR, NULL, '0.1.0', format('{{:040x}}', range),
             'manifest.toml', '', {cases}, {cases}, 0, 0, 1, '', false FROM range({runs});
         INSERT INTO benchmark_cases BY NAME SELECT format('run-{{:06}}', r.range) AS run_id,
             format('{{:016x}}', c.range) AS case_id, c.range AS case_index, 'model-' || c.range AS model,
             'cpu' AS backend, 'cpu:0' AS device, 'fp32' AS precision, 1 AS batch, 'inference' AS mode,
             'single-stream' AS scenario, 'finished' AS outcome, '0.1.0' AS plugin_version, true AS valid,
             5 AS processes, repeat('a', 64) AS model_sha256, 'Processor' AS device_name
             FROM range({runs}) AS r, range({cases}) AS c;
         INSERT INTO benchmark_results BY NAME SELECT format('run-{{:06}}', r.range) AS run_id,
             format('{{:016x}}', c.range) AS case_id, 'latency.p50' AS metric,
             1e6 * (1 + 0.02 * ({} - 2)) * (CASE WHEN c.range % 10 = 9 AND r.range >= {runs} / 2 THEN 1.05 ELSE 1 END)
             AS value, 'ns' AS unit, 'lower' AS direction, '{{}}' AS attributes, 'latency' AS plugin_id,
             '0.1.0' AS plugin_version, '' AS plugin_sha256 FROM range({runs}) AS r, range({cases}) AS c;
         INSERT INTO hardware_info SELECT format('run-{{:06}}', r.range), name, value FROM range({runs}) AS r,
             (VALUES ('machine', 'laptop'), ('processor.name', 'Processor'), ('processor.governor', 'performance'),
             ('kernel', 'Linux 6.1'), ('processor.logical', '8'), ('load-average', '0.5'), ('memory-bytes', '8'),
             ('operating-system', 'Debian'), ('c-library', 'glibc 2.36'), ('clock-source', 'tsc')) AS f (name, value);
         COMMIT; CHECKPOINT",
        noise.join(" + ")
    ))?;
    Ok(())
}
