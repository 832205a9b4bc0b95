//! Overhead of the harness per query: the null backend through the real ABI and the real loop,
//! beside a bare loop that reads the operating system's clock.
//!
//! `overhead LIBRARY [SECONDS [RATE]]` prints one JSON line, in nanoseconds: `bare_ns` is a bare reading
//! of `CLOCK_MONOTONIC`, the clock of every tool that is compared; `reading_ns` one of our clock, which `clock`
//! names; `query_ns` is the latency of the null backend's queries; `iteration_ns` is the whole
//! cost of an iteration, with samples encoded and written (to nowhere) after each block. Ratios are to
//! `bare_ns`. All figures are medians over repetitions that take turns.
//!
//! With `SECONDS`, `server` holds a second of the server scenario each, at 150,000 queries per second
//! by default: offered and achieved rate, the generator's lateness, and how often the
//! kernel took the processor away meanwhile.

use std::convert::Infallible;
use std::fs::OpenOptions;
use std::hint::black_box;
use std::path::PathBuf;

use host_measure::{Anchor, Block, Clock, Meter, Pattern, StopRule, SystemClock, Times};
use host_record::Rate;
use host_record::SamplePhase;
use host_record::protocol::{ChainBlock, write_chain};
use host_statistics::median;
use host_worker::BackendTarget;
use plugin_api::client::{DataType, LoadRequest, TensorView};

/// A repetition is one block, a quarter of a millisecond: on a machine that gives its processors to
/// others every few milliseconds, most repetitions are undisturbed, and so are medians over them.
const REPETITIONS: usize = 501;
const QUERIES: u64 = Meter::<SystemClock>::BLOCK as u64;

#[expect(clippy::print_stdout, reason = "the line is what this example is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    const USAGE: &str = "usage: overhead LIBRARY [SECONDS [RATE]]";
    let mut arguments = std::env::args().skip(1);
    let library = PathBuf::from(arguments.next().ok_or(USAGE)?);
    let seconds: u32 = arguments.next().map_or(Ok(0), |argument| argument.parse())?;
    let rate: f64 = arguments.next().map_or(Ok(150_000.0), |argument| argument.parse())?;
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

    let system = SystemClock::new();
    let clock = Anchor::take().map_or_else(SystemClock::new, SystemClock::on_counter);
    let mut meter = Meter::new(&clock, Meter::<SystemClock>::BLOCK, u64::MAX);
    let rule = StopRule { minimum_ns: 0, minimum_queries: QUERIES, maximum_ns: u64::MAX };
    let mut buffer = Vec::new();
    let mut nowhere = OpenOptions::new().write(true).open("/dev/null")?;
    let (mut bare, mut reading) = (Vec::new(), Vec::new());
    let (mut query, mut iteration) = (Vec::new(), Vec::new());
    for _ in 0..REPETITIONS {
        for (clock, costs) in [(&system, &mut bare), (&clock, &mut reading)] {
            let start = clock.now();
            for _ in 0..QUERIES {
                black_box(clock.now());
            }
            costs.push((clock.now() - start) as f64 / QUERIES as f64);
        }

        let mut sink = |block: Block<'_>| {
            let Times::Chain(edges) = block.times else {
                return Err(std::io::Error::other("a closed loop times in chains"));
            };
            let phase = SamplePhase::Measured;
            let block = ChainBlock { phase, items_per_query: 1, lane: block.lane, edges };
            write_chain(&mut nowhere, &mut buffer, block)
        };
        let summary = meter.run(&mut target, Pattern::SingleStream, &rule, &mut sink)?;
        query.push(summary.timed_ns as f64 / summary.queries as f64);
        iteration.push(summary.elapsed_ns as f64 / summary.queries as f64);
    }
    // The loop alone, for telling the ABI's part from ours.
    let empty = host_measure::calibrate(&clock)?.loop_ns;

    let second = StopRule { minimum_ns: 1_000_000_000, minimum_queries: 0, maximum_ns: u64::MAX };
    let mut server = Vec::new();
    for seed in 0..u64::from(seconds) {
        let pattern = Pattern::Server { rate: Rate::per_second(rate)?, seed };
        let before = taken_away();
        let summary = meter.run(&mut target, pattern, &second, &mut |block: Block<'_>| {
            black_box(block);
            Ok::<_, Infallible>(())
        })?;
        let taken_away = taken_away() - before;
        let pace = summary.pace.ok_or("an open loop has a pace")?;
        let late = pace.lateness.ok_or("there were no queries")?;
        server.push(serde_json::json!({
            "asked": rate,
            "queries": summary.queries,
            "offered": pace.offered_per_second,
            "achieved": pace.achieved_per_second,
            "p50_ns": late.median_ns,
            "p99_ns": late.p99_ns,
            "maximum_ns": late.maximum_ns,
            "taken_away": taken_away,
        }));
    }

    let of = |values: &[f64]| median(values).ok_or("no repetitions");
    let (bare, query, iteration) = (of(&bare)?, of(&query)?, of(&iteration)?);
    let line = serde_json::json!({
        "clock": clock.source(),
        "bare_ns": bare,
        "reading_ns": median(&reading).ok_or("no repetitions")?,
        "empty_loop_ns": empty,
        "query_ns": query,
        "iteration_ns": iteration,
        "query_ratio": query / bare,
        "ratio": iteration / bare,
        "server": server,
    });
    println!("{line}");
    Ok(())
}

/// Returns how often the kernel has taken the processor away from this thread.
fn taken_away() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid, and a zeroed `rusage` is a valid one should the call fail.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_nivcsw
}
