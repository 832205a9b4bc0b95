//! Overhead of the loops themselves, with a target that does nothing.
//!
//! `server [SECONDS [RATE]]` prints one JSON line. `bare_ns` is one reading of the clock in a bare
//! loop, `single_stream_ns` one iteration of the single-stream loop, both medians over repetitions
//! that take turns. The rest is for the server scenario on one thread, for 5 s at 150,000 queries
//! per second by default: offered and achieved rate and their relative
//! difference, the generator's lateness in nanoseconds, and the time of a query from its scheduled
//! start to its end.

use std::convert::Infallible;
use std::hint::black_box;

use host_measure::{Block, Clock, Meter, Pattern, StopRule, SystemClock, Target};
use host_record::Rate;

const REPETITIONS: usize = 51;
const QUERIES: u64 = 100_000;

struct Nothing;

impl Target for Nothing {
    type Error = Infallible;

    #[inline]
    fn run(&mut self) -> Result<(), Infallible> {
        black_box(());
        Ok(())
    }
}

#[expect(clippy::print_stdout, reason = "the line is what this example is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds: f64 = arguments.next().map_or(Ok(5.0), |argument| argument.parse())?;
    let rate: f64 = arguments.next().map_or(Ok(150_000.0), |argument| argument.parse())?;

    let clock = SystemClock::new();
    let mut meter = Meter::new(&clock, Meter::<SystemClock>::BLOCK, 1_000_000_000);
    let mut nowhere = |block: Block<'_>| {
        black_box(block);
        Ok::<_, Infallible>(())
    };
    let rule = StopRule { minimum_ns: 0, minimum_queries: QUERIES, maximum_ns: u64::MAX };
    let (mut bare, mut single) = (Vec::new(), Vec::new());
    for _ in 0..REPETITIONS {
        let start = clock.now();
        for _ in 0..QUERIES {
            black_box(clock.now());
        }
        bare.push((clock.now() - start) as f64 / QUERIES as f64);
        let summary = meter.run(&mut Nothing, Pattern::SingleStream, &rule, &mut nowhere)?;
        // With the pauses between blocks, so that nothing is left out.
        single.push(summary.elapsed_ns as f64 / summary.queries as f64);
    }
    let (bare, single) = (median(&mut bare), median(&mut single));

    let pattern = Pattern::Server { rate: Rate::per_second(rate)?, seed: 1 };
    let minimum_ns = (seconds * 1e9) as u64;
    let rule = StopRule { minimum_ns, minimum_queries: 0, maximum_ns: u64::MAX };
    let mut latencies = Vec::with_capacity((rate * seconds * 1.1) as usize);
    let mut keep = |block: Block<'_>| {
        latencies.extend(block.times.latencies());
        Ok::<_, Infallible>(())
    };
    let summary = meter.run(&mut Nothing, pattern, &rule, &mut keep)?;
    latencies.sort_unstable();
    let quantile = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];

    let pace = summary.pace.ok_or("an open loop has a pace")?;
    let late = pace.lateness.ok_or("there were no queries")?;
    let offered = pace.offered_per_second.ok_or("too few queries")?;
    let achieved = pace.achieved_per_second.ok_or("too few queries")?;
    println!(
        "{{\"bare_ns\":{bare:.2},\"single_stream_ns\":{single:.2},\"ratio\":{:.3},\
         \"queries\":{},\"asked\":{rate},\"offered\":{offered:.3},\"achieved\":{achieved:.3},\
         \"rate_error\":{:.3e},\"lateness_p50_ns\":{},\"lateness_p99_ns\":{},\
         \"lateness_max_ns\":{},\"latency_p50_ns\":{},\"latency_p99_ns\":{},\"latency_p999_ns\":{},\
         \"paused_share\":{:.5}}}",
        single / bare,
        summary.queries,
        achieved / offered - 1.0,
        late.median_ns,
        late.p99_ns,
        late.maximum_ns,
        quantile(0.5),
        quantile(0.99),
        quantile(0.999),
        1.0 - summary.timed_ns as f64 / summary.elapsed_ns as f64,
    );
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
