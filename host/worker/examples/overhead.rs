//! What the harness costs per query: the null backend through the real ABI and the real loop,
//! beside a bare loop that reads the clock.
//!
//! `overhead LIBRARY` prints one JSON line, in nanoseconds: `bare_ns` is a bare reading of the
//! clock; `query_ns` is what the null backend's queries measure; `iteration_ns` is all that an
//! iteration costs, with samples encoded and written (to nowhere) after each block. Ratios are to
//! `bare_ns`. All figures are medians over repetitions that take turns.

use std::fs::OpenOptions;
use std::hint::black_box;
use std::path::PathBuf;

use host_measure::{Block, Clock, Meter, Scenario, StopRule, SystemClock, Times};
use host_record::protocol::{Message, write_message};
use host_record::{SampleBlock, SamplePhase, SampleTimes};
use host_statistics::median;
use host_worker::BackendTarget;
use plugin_api::client::{DataType, LoadRequest, TensorView};

const REPETITIONS: usize = 51;
const QUERIES: u64 = 100_000;

#[expect(clippy::print_stdout, reason = "the line is what this example is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let library = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: overhead LIBRARY")?);
    let backend = host_worker::open(&library)?;
    let device = backend.devices()?.into_iter().next().ok_or("the backend has no device")?;
    // The null backend takes any file for a model.
    let path = library.to_str().ok_or("the path is not UTF-8")?;
    let request = LoadRequest { path, device: &device.id, threads: None, options: &[] };
    let model = backend.load(&request)?;
    let shape = [1, 1];
    let session = model.prepare("fp32", &[shape.to_vec()])?;
    let view = TensorView { dtype: DataType::F32, shape: &shape, strides: None, bytes: &[0; 4] };
    let call = session.call(vec![model.tensor(view)?])?;
    let mut target = BackendTarget::new(session, vec![call]);

    let clock = SystemClock::new();
    let mut meter = Meter::new(&clock, Meter::<SystemClock>::BLOCK, u64::MAX);
    let rule = StopRule { minimum_ns: 0, minimum_queries: QUERIES, maximum_ns: u64::MAX };
    let mut nowhere = OpenOptions::new().write(true).open("/dev/null")?;
    let (mut bare, mut query, mut iteration) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..REPETITIONS {
        let start = clock.now();
        for _ in 0..QUERIES {
            black_box(clock.now());
        }
        bare.push((clock.now() - start) as f64 / QUERIES as f64);

        let mut sink = |block: Block<'_>| {
            let Times::Chain(edges) = block.times else {
                return Err(std::io::Error::other("a closed loop times in chains"));
            };
            let block = SampleBlock {
                phase: SamplePhase::Measured,
                items_per_query: 1,
                lane: block.lane,
                times: SampleTimes::Chain(edges.to_vec()),
            };
            write_message(&mut nowhere, &Message::Samples(block))
        };
        let summary = meter.run(&mut target, Scenario::SingleStream, &rule, &mut sink)?;
        query.push(summary.timed_ns as f64 / summary.queries as f64);
        iteration.push(summary.elapsed_ns as f64 / summary.queries as f64);
    }
    // The loop alone, for telling the ABI's part from ours.
    let empty = host_measure::calibrate(&clock)?.loop_ns;

    let of = |values: &[f64]| median(values).ok_or("no repetitions");
    let (bare, query, iteration) = (of(&bare)?, of(&query)?, of(&iteration)?);
    let line = serde_json::json!({
        "bare_ns": bare,
        "empty_loop_ns": empty,
        "query_ns": query,
        "iteration_ns": iteration,
        "query_ratio": query / bare,
        "ratio": iteration / bare,
    });
    println!("{line}");
    Ok(())
}
