//! Detection of runs that return early.
//!
//! A backend that returns while its device is still at work gets latencies without the work,
//! the commonest lie of the field. It is detected after measuring, when nothing is timed any more: with
//! nothing in flight, a run is made and its output read, and then read once more. The first read must
//! wait for the rest of the run; the second only copies.

use std::io;
use std::time::Duration;

use host_measure::{Clock, SystemClock};
use host_record::{Breach, Doubt};
use plugin_api::client::Error;

use crate::backend::BackendTarget;
use crate::connection::Connection;

/// Rest of a run after it had returned, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AfterReturn {
    /// The run itself.
    pub(crate) run_ns: u64,
    /// Time from its return until its output was read.
    pub(crate) output_ns: u64,
    /// Time to read the output once more.
    pub(crate) copy_ns: u64,
}

/// Tests a few runs; only one if a query takes so long that more would be noticeable. A backend that
/// fails now is not judged: its work has been done.
pub(crate) fn test(
    connection: &mut Connection,
    clock: &SystemClock,
    target: &mut BackendTarget,
    typical_ns: f64,
    interval: Duration,
) -> io::Result<Vec<AfterReturn>> {
    const RUNS: usize = 5;
    const LONG_NS: f64 = 1e8;

    let mut once = || -> Result<AfterReturn, Error> {
        let start = clock.now();
        let call = target.run_one()?;
        let returned = clock.now();
        target.read(call)?;
        let read = clock.now();
        target.read(call)?;
        let again = clock.now();
        Ok(AfterReturn {
            run_ns: returned.saturating_sub(start),
            output_ns: read.saturating_sub(returned),
            copy_ns: again.saturating_sub(read),
        })
    };
    // The first one waits for what the last queries may have left behind, and is not looked at.
    let runs = if typical_ns < LONG_NS { RUNS } else { 1 };
    let mut found = Vec::with_capacity(runs + 1);
    for _ in 0..=runs {
        let Ok(run) = once() else { return Ok(Vec::new()) };
        found.push(run);
        connection.progress(interval)?;
    }
    found.remove(0);
    Ok(found)
}

/// Returns the doubt if, in every run, the time after the return exceeds half of a query's stated latency,
/// the time to read the output, and 20 µs, which touching a page for the first time can cost as well.
pub(crate) fn doubt(runs: &[AfterReturn], typical_ns: f64) -> Option<(Doubt, Breach)> {
    const LEAST_NS: f64 = 20_000.0;

    let copy_ns = runs.iter().map(|run| run.copy_ns).max()?;
    let output_ns = runs.iter().map(|run| run.output_ns).min()?;
    let run_ns = runs.iter().map(|run| run.run_ns).min()?;
    let left = output_ns.saturating_sub(copy_ns) as f64;
    (left > LEAST_NS.max(copy_ns as f64).max(0.5 * typical_ns)).then_some((
        Doubt::ReturnedEarly { run_ns, output_ns, copy_ns },
        Breach::ReturnedEarly { run_ns, output_ns, copy_ns },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(runs: &[(u64, u64, u64)], typical_ns: f64) -> Option<Doubt> {
        let runs: Vec<AfterReturn> = runs
            .iter()
            .map(|&(run_ns, output_ns, copy_ns)| AfterReturn { run_ns, output_ns, copy_ns })
            .collect();
        doubt(&runs, typical_ns).map(|(doubt, _)| doubt)
    }

    #[test]
    fn work_that_is_left_is_told_from_a_copy() {
        assert_eq!(
            said(&[(900, 2_000_000, 3000), (1000, 2_100_000, 2500)], 1e3),
            Some(Doubt::ReturnedEarly { run_ns: 900, output_ns: 2_000_000, copy_ns: 3000 })
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
