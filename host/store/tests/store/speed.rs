//! Speed of the store. Prints and asserts nothing about time; run it with
//! `cargo test --release -p host-store --test store -- --ignored --nocapture`.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::common::*;
use host_record::{
    ColumnData, Outcome, OutputBlock, OutputValues, Recorder, SamplePhase, Views, column,
};
use host_store::{Database, ResultsFolder, RunFolder, RunViews};

fn say(what: &str, elapsed: Duration, count: u64, unit: &str) {
    let rate = count as f64 / elapsed.as_secs_f64();
    let mut output = std::io::stdout().lock();
    writeln!(output, "{what:<44} {elapsed:>10.2?} {rate:>14.0} {unit}/s").expect("a line");
}

fn peak_memory_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a size") / 1024
}

#[test]
#[ignore = "it measures, and takes a minute"]
fn speed() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut writer = RunFolder::create(results.path(), new_run()).expect("a run");

    let started = Instant::now();
    write_plan(&writer, 1_000_000, 0);
    say("plan.jsonl, a million lines", started.elapsed(), 1_000_000, "lines");

    // Ten million queries around 1 µs, with the noise of a real clock.
    let count = 10_000_000_u64;
    let mut noise = 1_u64;
    let block_latencies = |noise: &mut u64| -> Vec<u64> {
        (0..8192)
            .map(|_| {
                *noise ^= *noise << 13;
                *noise ^= *noise >> 7;
                *noise ^= *noise << 17;
                900 + *noise % 200 + if noise.is_multiple_of(1000) { 20_000 } else { 0 }
            })
            .collect()
    };
    writer.case_started(&spec(0)).expect("a case");
    let (mut pushing, mut edge, mut pushed) = (Duration::ZERO, 0, 0);
    while pushed < count {
        let block = block(SamplePhase::Measured, edge, &block_latencies(&mut noise));
        let last = block.queries().last().expect("a query");
        edge = last.start_ns + last.latency_ns;
        let started = Instant::now();
        writer.samples(&block).expect("samples");
        pushing += started.elapsed();
        pushed += 8192;
    }
    let started = Instant::now();
    let record = record(&spec(0), Outcome::Finished(Box::new(report())));
    writer.case_finished(&record).expect("a case");
    say("samples to Parquet", pushing + started.elapsed(), pushed, "rows");
    let path = writer.folder().path().join(format!("samples/{}.parquet", spec(0).id));
    let bytes = std::fs::metadata(path).expect("a file").len();
    let mut output = std::io::stdout().lock();
    writeln!(
        output,
        "  {:.2} bytes a row, peak memory {} MiB",
        bytes as f64 / pushed as f64,
        peak_memory_mib()
    )
    .expect("a line");
    drop(output);

    for names in [&[column::LATENCY][..], &[column::LATENCY, column::START, column::ITEMS][..]] {
        let started = Instant::now();
        let columns = writer.folder().columns(&record, names).expect("columns");
        assert!(
            matches!(&columns.columns[0].data, ColumnData::U64(data) if data.len() as u64 == pushed)
        );
        say(&format!("columns: {names:?}"), started.elapsed(), pushed, "rows");
    }

    writer.case_started(&spec(1)).expect("a case");
    let started = Instant::now();
    for first_example in (0..50_000).step_by(50) {
        let values = (0..50 * 1000).map(|value| (value % 977) as f32 * 0.37);
        let values = OutputValues::Numbers(values.collect());
        let block = OutputBlock { name: "logits".into(), first_example, width: 1000, values };
        writer.outputs(&block).expect("outputs");
    }
    let mut wide = report();
    wide.labels = (0..50_000).collect();
    let outputs = crate::common::record(&spec(1), Outcome::Finished(Box::new(wide)));
    writer.case_finished(&outputs).expect("a case");
    say("outputs to Parquet, 50,000 × 1000", started.elapsed(), 50_000_000, "values");
    let started = Instant::now();
    writer.folder().columns(&outputs, &[column::OUTPUT, column::LABEL]).expect("columns");
    say("columns: output, label", started.elapsed(), 50_000_000, "values");

    let started = Instant::now();
    let views = RunViews::open(writer.folder()).expect("views");
    say("views opened", started.elapsed(), 1, "runs");
    let started = Instant::now();
    views.read("latency_quantiles").expect("quantiles");
    say("distributions of all cases", started.elapsed(), pushed, "rows");
    let started = Instant::now();
    views.query("SELECT avg(latency_ns) FROM raw_benchmark_data").expect("an average");
    say("DuckDB: average over raw_benchmark_data", started.elapsed(), pushed, "rows");
    drop(views);

    for index in 2..1002 {
        write_case(&mut writer, index, 100);
        let values = (0..12).map(|number| metric(&format!("latency.p{number}"), 5.0)).collect();
        writer.record_result(&result(index, values)).expect("a result");
    }
    writer.finish().expect("a run");
    let folder = ResultsFolder::new(results.path());
    let started = Instant::now();
    let mut database = Database::open(&folder, Duration::ZERO).expect("a database");
    say("database made", started.elapsed(), 1, "files");
    let started = Instant::now();
    database.sync(writer.folder()).expect("a sync");
    say("import of 1002 cases, 12,000 results", started.elapsed(), 13_002, "rows");
    let started = Instant::now();
    database.sync_all().expect("a sync");
    say("import of what has not changed", started.elapsed(), 1, "runs");
    database.close().expect("a closed database");

    // As many as in the quickstart.
    let mut small = RunFolder::create(results.path(), new_run()).expect("a run");
    let started = Instant::now();
    for index in 0..6 {
        write_case(&mut small, index, 10_000);
    }
    say("six cases of 10,000 queries recorded", started.elapsed(), 6, "cases");
    let started = Instant::now();
    let views = RunViews::open(small.folder()).expect("views");
    say("views opened, quickstart", started.elapsed(), 1, "runs");
    let started = Instant::now();
    for name in views.names() {
        views.read(&name).expect("a view");
    }
    say("all views read, quickstart", started.elapsed(), 1, "runs");
    let started = Instant::now();
    Database::open(&folder, Duration::ZERO)
        .and_then(|mut database| {
            database.sync(small.folder())?;
            database.close()
        })
        .expect("a sync");
    say("database opened, synced, closed, quickstart", started.elapsed(), 1, "runs");
}
