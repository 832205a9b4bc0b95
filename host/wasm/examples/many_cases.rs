/*!
Cost of the sandbox in a large run: all metrics over a case, for a thousand cases, and loading them from the cache.

    cargo run --release --package host-wasm --example many_cases -- target/release/plugins

Each case has a thousand queries. One line of JSON has the medians over the rounds.
*/

use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use host_record::{CaseColumns, Column, ColumnData};
use host_statistics::median;
use host_wasm::{Plugin, Sandbox, SandboxOptions};
use serde_json::Value;

const CASES: usize = 1000;
const QUERIES: u64 = 1000;
const ROUNDS: usize = 3;

/// The metrics over a case; those over a run are not called for each.
const METRICS: [&str; 9] = [
    "accuracy",
    "energy",
    "latency",
    "memory",
    "model",
    "stability",
    "startup",
    "throughput",
    "training",
];

#[expect(clippy::print_stdout, reason = "this is what the example is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: many_cases FOLDER")?;
    let cache = tempfile::tempdir()?;
    let sandbox = || {
        let cache = Some(cache.path().join("compiled"));
        Sandbox::new(SandboxOptions { cache, ..SandboxOptions::default() })
    };
    let paths = METRICS.map(|id| Path::new(&folder).join(format!("{id}.wasm")));
    let first = sandbox()?;
    for path in &paths {
        first.load(path)?;
    }
    let (mut loads, mut seconds) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // As in another run of the host.
        let sandbox = sandbox()?;
        let mut plugins: Vec<Plugin> = Vec::new();
        for path in &paths {
            let start = Instant::now();
            plugins.push(sandbox.load(path)?);
            loads.push(start.elapsed().as_secs_f64());
        }
        let start = Instant::now();
        for number in 0..CASES {
            let case = case(number as u64 + round as u64);
            for plugin in &plugins {
                sandbox.compute(plugin, &case, &Value::Null)?;
            }
        }
        seconds.push(start.elapsed().as_secs_f64());
    }
    let of = |times: &[f64]| median(times).expect("there are rounds");
    let line = serde_json::json!({
        "cases": CASES,
        "metrics": METRICS.len(),
        "queries": QUERIES,
        "seconds": of(&seconds),
        "call_seconds": of(&seconds) / (CASES * METRICS.len()) as f64,
        "load_seconds": of(&loads),
    });
    println!("{line}");
    Ok(())
}

/// Returns a case with the columns that most of the metrics read.
fn case(seed: u64) -> Rc<CaseColumns> {
    let column = |name: &str, unit: &str, data| Column {
        name: name.into(),
        unit: unit.into(),
        width: 1,
        data,
    };
    let latency = |index: u64| 1_000_000 + (index.wrapping_mul(2_654_435_761) ^ seed) % 50_000;
    let latencies: Vec<u64> = (0..QUERIES).map(latency).collect();
    let starts = latencies.iter().scan(0, |start, latency| {
        let this = *start;
        *start += latency;
        Some(this)
    });
    Rc::new(CaseColumns {
        case_id: format!("{seed:016x}"),
        attributes: [("scenario".to_owned(), "single-stream".to_owned())].into(),
        columns: vec![
            column("start", "ns", ColumnData::U64(starts.collect())),
            column("items", "1", ColumnData::U64(vec![8; latencies.len()])),
            column("latency", "ns", ColumnData::U64(latencies)),
            column("peak-memory", "B", ColumnData::U64(vec![5_000_000])),
            column("baseline-memory", "B", ColumnData::U64(vec![2_000_000])),
        ],
    })
}
