//! The tool's own loop and a bare loop over a runtime, in one process and in turns of some milliseconds.

use std::convert::Infallible;
use std::time::Duration;

use host_measure::{Block, Clock, Meter, Pattern, StopRule, SystemClock, Times};
use host_worker::BackendTarget;
use plugin_api::client::{Backend, LoadRequest, Model, Tensor};

/// Untimed, of each side, so that everything is allocated and warm.
const WARM_UP: Duration = Duration::from_millis(500);
/// A turn ends with the query in which this has passed: disturbances last longer, and hit both sides alike.
const TURN: Duration = Duration::from_millis(5);

/// Prepares a model for single-stream queries with these inputs.
pub(crate) fn prepare(
    backend: &Backend,
    request: &LoadRequest<'_>,
    shapes: &[Vec<i64>],
    inputs: impl FnOnce(&Model) -> Vec<Tensor>,
) -> BackendTarget {
    let model = backend.load(request).expect("a model");
    let session = model.prepare("fp32", shapes).expect("a session");
    let call = session.call(inputs(&model)).expect("a call");
    BackendTarget::new(session, vec![call])
}

/// Measures both sides in turns, and prints one line of JSON: `ratio`, the median over pairs of turns of the quotient of
/// their median latencies, ours over the bare loop's; the number of `pairs`; and the median latency of each side in
/// nanoseconds.
#[expect(clippy::print_stdout, reason = "the answer")]
pub(crate) fn compare(mut target: BackendTarget, mut bare: impl FnMut(), duration: Duration) {
    let clock = SystemClock::new();
    let mut meter = Meter::new(&clock, Meter::<SystemClock>::BLOCK, u64::MAX);
    let mut ours = |time: Duration| {
        let minimum_ns = time.as_nanos() as u64;
        let rule = StopRule { minimum_ns, minimum_queries: 1, maximum_ns: u64::MAX };
        let mut latencies = Vec::new();
        let mut sink = |block: Block<'_>| {
            let Times::Chain(edges) = block.times else { panic!("a closed loop times in chains") };
            latencies.extend(edges.windows(2).map(|edge| edge[1] - edge[0]));
            Ok::<_, Infallible>(())
        };
        meter.run(&mut target, Pattern::SingleStream, &rule, &mut sink).expect("a turn");
        latencies
    };
    let mut bare = |time: Duration| {
        let mut latencies = Vec::new();
        let mut before = clock.now();
        let end = before + time.as_nanos() as u64;
        while before < end {
            bare();
            let after = clock.now();
            latencies.push(after - before);
            before = after;
        }
        latencies
    };
    bare(WARM_UP);
    ours(WARM_UP);
    let (mut ratios, mut our_latencies, mut bare_latencies) = (Vec::new(), Vec::new(), Vec::new());
    let end = clock.now() + duration.as_nanos() as u64;
    while clock.now() < end || ratios.len() < 5 {
        // Each side goes first as often as the other.
        let (our_turn, bare_turn) = if ratios.len() % 2 == 0 {
            let first = ours(TURN);
            (first, bare(TURN))
        } else {
            let first = bare(TURN);
            (ours(TURN), first)
        };
        ratios.push(middle(&our_turn) / middle(&bare_turn));
        our_latencies.extend(our_turn);
        bare_latencies.extend(bare_turn);
    }
    println!(
        "{{\"ratio\": {}, \"pairs\": {}, \"ours_ns\": {}, \"theirs_ns\": {}}}",
        median(ratios.clone()),
        ratios.len(),
        middle(&our_latencies),
        middle(&bare_latencies)
    );
}

fn middle(latencies: &[u64]) -> f64 {
    median(latencies.iter().map(|&latency| latency as f64).collect())
}

/// Returns the median of values, which must not be empty.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}
