/*!
Overhead of the sandbox: the latency metric over ten million samples, as a guest and natively.

    cargo run --release --package host-wasm --example latency_metric -- target/release/plugins/latency.wasm

Both run the same code. The guest's time includes instantiating it and passing its columns; the native time reads the
columns in place. They alternate, so that other load on the machine affects both, and the medians are printed as one
line of JSON.
*/

use std::hint::black_box;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use host_record::{CaseColumns, Column, ColumnData};
use host_statistics::median;
use host_wasm::{Sandbox, SandboxOptions};
use metric_latency::Latency;
use plugin_guest::{Case, Columns, Metric, NoOptions};

const SAMPLES: usize = 10_000_000;
const ROUNDS: usize = 9;

#[expect(clippy::print_stdout, reason = "this is what the example is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: latency_metric LATENCY.wasm")?;
    let cache = tempfile::tempdir()?;
    let options =
        SandboxOptions { cache: Some(cache.path().join("compiled")), ..SandboxOptions::default() };
    let sandbox = Sandbox::new(options)?;

    let start = Instant::now();
    sandbox.load(Path::new(&path))?;
    let compile_seconds = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let plugin = sandbox.load(Path::new(&path))?;
    let load_seconds = start.elapsed().as_secs_f64();

    let latencies = latencies();
    let host_column = |data| CaseColumns {
        case_id: "0123456789abcdef".into(),
        attributes: [("scenario".to_owned(), "single-stream".to_owned())].into(),
        columns: vec![Column { name: "latency".into(), unit: "ns".into(), width: 1, data }],
    };
    let columns = Rc::new(host_column(ColumnData::U64(latencies.clone())));
    let nothing = Rc::new(host_column(ColumnData::U64(Vec::new())));
    let case = Case { id: columns.case_id.clone(), attributes: columns.attributes.clone() };
    let native_columns = Columns::from(vec![plugin_guest::Column {
        name: "latency".into(),
        unit: "ns".into(),
        width: 1,
        data: plugin_guest::ColumnData::Unsigned(latencies),
    }]);

    let (mut native, mut guest, mut call) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let start = Instant::now();
        let natively = Latency::compute(&case, black_box(&native_columns), NoOptions {})?;
        let native_seconds = start.elapsed().as_secs_f64();

        let start = Instant::now();
        let sandboxed = sandbox.compute(&plugin, black_box(&columns), &serde_json::Value::Null)?;
        let guest_seconds = start.elapsed().as_secs_f64();

        let start = Instant::now();
        sandbox.compute(&plugin, black_box(&nothing), &serde_json::Value::Null)?;
        let call_seconds = start.elapsed().as_secs_f64();

        for (native, sandboxed) in natively.iter().zip(&sandboxed) {
            let same = native.metric == sandboxed.metric
                && native.value.as_ref().ok() == sandboxed.value.as_ref().ok()
                && native.interval == sandboxed.interval;
            assert!(same, "{native:?} is not {sandboxed:?}");
        }
        // The first round warms the caches of both.
        if round > 0 {
            native.push(native_seconds);
            guest.push(guest_seconds);
            call.push(call_seconds);
        }
    }
    let of = |times: &[f64]| median(times).expect("there are rounds");
    let line = serde_json::json!({
        "samples": SAMPLES,
        "rounds": ROUNDS,
        "native_seconds": of(&native),
        "guest_seconds": of(&guest),
        "ratio": of(&guest) / of(&native),
        "empty_call_seconds": of(&call),
        "compile_seconds": compile_seconds,
        "load_seconds": load_seconds,
    });
    println!("{line}");
    Ok(())
}

/// Returns typical latencies: most of them close to each other, with a tail and occasional outliers.
fn latencies() -> Vec<u64> {
    let mut state = 7_u64;
    let mut draw = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    (0..SAMPLES)
        .map(|_| {
            let tail = -draw().max(f64::MIN_POSITIVE).ln();
            let outlier = if draw() < 1e-4 { 50_000_000.0 * draw() } else { 0.0 };
            (1_200_000.0 + 40_000.0 * draw() + 60_000.0 * tail + outlier) as u64
        })
        .collect()
}
