//! Detection of calls that return early.
//!
//! A backend that returns while its device is still at work gets latencies without the work,
//! the commonest lie of the field. It is detected after measuring, when nothing is timed any more: with
//! nothing in flight, a run is made and its output read, and then read once more. The first read must
//! wait for the rest of the run; the second only copies.
//!
//! In `offline` and `multi-stream` latencies end when `synchronise` returns, after several enqueued runs. Then that call
//! is tested as well, and the output is read without another call to it.

use std::time::Duration;

use host_measure::{Clock, SystemClock};
use host_record::{Breach, Doubt, Phase, TimedCall};
use plugin_api::client::Error;

use crate::backend::BackendTarget;
use crate::connection::Connection;
use crate::failure::{self, Stop};

/// Rest of the work after a call had returned, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AfterReturn {
    /// The call itself, with what was enqueued before it.
    pub(crate) run_ns: u64,
    /// Time from its return until its output was read.
    pub(crate) output_ns: u64,
    /// Time to read the output once more.
    pub(crate) copy_ns: u64,
}

/// Tests of one call.
#[derive(Debug)]
pub(crate) struct Tested {
    call: TimedCall,
    /// Typical time of the tested work, as latencies state it.
    typical_ns: f64,
    found: Vec<AfterReturn>,
}

/// Most runs that are enqueued for a test.
const ENQUEUED: u64 = 8;

/// A run of a test; only one if a query takes so long that more would be noticeable.
const RUNS: usize = 5;
const LONG_NS: f64 = 1e8;

/// Tests a few runs, and a few bursts of enqueued runs if queries of `batches` batches were timed as such. A backend
/// that fails now is not judged: its work has been done.
pub(crate) fn test(
    connection: &mut Connection,
    clock: &SystemClock,
    target: &mut BackendTarget,
    query_ns: f64,
    batches: Option<u64>,
    interval: Duration,
) -> Result<Vec<Tested>, Stop> {
    let batch_ns = query_ns / batches.unwrap_or(1).max(1) as f64;
    let mut run = || -> Result<[u64; 4], Error> {
        let start = clock.now();
        let call = target.run_one()?;
        let returned = clock.now();
        target.read(call)?;
        let read = clock.now();
        target.read(call)?;
        Ok([start, returned, read, clock.now()])
    };
    let found = several(connection, batch_ns, interval, &mut run)?;
    let mut tested = vec![Tested { call: TimedCall::Run, typical_ns: batch_ns, found }];
    if let Some(batches) = batches {
        let enqueued = batches.clamp(1, ENQUEUED);
        let typical_ns = batch_ns * enqueued as f64;
        let mut burst = || -> Result<[u64; 4], Error> {
            let start = clock.now();
            let call = target.run_burst(enqueued)?;
            let returned = clock.now();
            target.read_at_once(call)?;
            let read = clock.now();
            target.read_at_once(call)?;
            Ok([start, returned, read, clock.now()])
        };
        let found = several(connection, typical_ns, interval, &mut burst)?;
        tested.push(Tested { call: TimedCall::Synchronise, typical_ns, found });
    }
    Ok(tested)
}

/// Makes a test several times, which returns when it started, when its call returned, and when its output was read,
/// once and twice.
fn several(
    connection: &mut Connection,
    typical_ns: f64,
    interval: Duration,
    once: &mut dyn FnMut() -> Result<[u64; 4], Error>,
) -> Result<Vec<AfterReturn>, Stop> {
    // The first one waits for what the last queries may have left behind, and is not looked at.
    let runs = if typical_ns < LONG_NS { RUNS } else { 1 };
    let mut found = Vec::with_capacity(runs + 1);
    for _ in 0..=runs {
        let [start, returned, read, again] = once().map_err(failure::backend(Phase::Outputs))?;
        found.push(AfterReturn {
            run_ns: returned.saturating_sub(start),
            output_ns: read.saturating_sub(returned),
            copy_ns: again.saturating_sub(read),
        });
        connection.progress(interval)?;
    }
    found.remove(0);
    Ok(found)
}

impl Tested {
    /// Returns the doubt if, in every test, the time after the return exceeds half of the stated latency,
    /// the time to read the output, and 20 µs, which touching a page for the first time can cost as well.
    pub(crate) fn doubt(&self) -> Option<(Doubt, Breach)> {
        const LEAST_NS: f64 = 20_000.0;

        let call = self.call;
        let copy_ns = self.found.iter().map(|run| run.copy_ns).max()?;
        let output_ns = self.found.iter().map(|run| run.output_ns).min()?;
        let run_ns = self.found.iter().map(|run| run.run_ns).min()?;
        let left = output_ns.saturating_sub(copy_ns) as f64;
        (left > LEAST_NS.max(copy_ns as f64).max(0.5 * self.typical_ns)).then_some((
            Doubt::ReturnedEarly { call, run_ns, output_ns, copy_ns },
            Breach::ReturnedEarly { call, run_ns, output_ns, copy_ns },
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(runs: &[(u64, u64, u64)], typical_ns: f64) -> Option<Doubt> {
        let runs: Vec<AfterReturn> = runs
            .iter()
            .map(|&(run_ns, output_ns, copy_ns)| AfterReturn { run_ns, output_ns, copy_ns })
            .collect();
        let tested = Tested { call: TimedCall::Run, typical_ns, found: runs };
        tested.doubt().map(|(doubt, _)| doubt)
    }

    #[test]
    fn work_that_is_left_is_told_from_a_copy() {
        assert_eq!(
            said(&[(900, 2_000_000, 3000), (1000, 2_100_000, 2500)], 1e3),
            Some(Doubt::ReturnedEarly {
                call: TimedCall::Run,
                run_ns: 900,
                output_ns: 2_000_000,
                copy_ns: 3000
            })
        );
        // A large output takes long to read, both times.
        assert_eq!(said(&[(1000, 2_000_000, 1_900_000)], 1e3), None);
        // Once is chance.
        assert_eq!(said(&[(1000, 2_000_000, 2000), (1000, 2500, 2000)], 1e3), None);
        // A little is a page that is touched for the first time.
        assert_eq!(said(&[(1000, 15_000, 2000)], 1e3), None);
        assert_eq!(said(&[(1_000_000, 300_000, 2000)], 1e6), None);
        assert_eq!(said(&[], 1e6), None);
    }
}
