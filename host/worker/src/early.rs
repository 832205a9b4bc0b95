//! Whether a run has ended when it returns.
//!
//! A backend that returns while its device is still at work gets latencies in which the work is missing,
//! the commonest lie of the field. It is found after measuring, when nothing is timed any more: with
//! nothing under way, a run is made and its output read, and then read once more. The first reading has
//! to wait for whatever was left of the run; the second only copies.

use std::io;
use std::time::Duration;

use host_measure::{Clock, SystemClock};
use host_record::{InvalidKind, InvalidReason, Warning, WarningKind};
use plugin_api::client::Error;

use crate::backend::BackendTarget;
use crate::connection::Connection;
use crate::words::time;

/// What was left of a run when it had returned, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AfterReturn {
    /// The run itself.
    pub(crate) run_ns: u64,
    /// From its return until its output was read.
    pub(crate) output_ns: u64,
    /// Reading the output again.
    pub(crate) copy_ns: u64,
}

/// Looks at a few runs; at one where a query takes so long that more would be noticed. A backend that
/// fails now is not judged: what it was asked for has been done.
pub(crate) fn look(
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

/// The warning, if in every run more was left than half of what a query is said to take, than reading
/// the output takes, and than 20 µs, which a page that is touched for the first time can cost as well.
pub(crate) fn warning(runs: &[AfterReturn], typical_ns: f64) -> Option<Warning> {
    const LEAST_NS: f64 = 20_000.0;

    let copy = runs.iter().map(|run| run.copy_ns).max()?;
    let output = runs.iter().map(|run| run.output_ns).min()?;
    let run = runs.iter().map(|run| run.run_ns).min()?;
    let left = output.saturating_sub(copy) as f64;
    (left > LEAST_NS.max(copy as f64).max(0.5 * typical_ns)).then(|| Warning {
        kind: WarningKind::ReturnedEarly,
        evidence: format!(
            "A run returned after {} and its output came {} later, of which {} is reading it: \
             latencies do not contain all of the work.",
            time(run as f64),
            time(output as f64),
            time(copy as f64)
        ),
    })
}

/// What such a run makes of the result; the figures are in the warning.
pub(crate) fn reason() -> InvalidReason {
    let evidence = "Runs returned before their work was done, so that it is not in the latencies.";
    InvalidReason { kind: InvalidKind::ReturnedEarly, evidence: evidence.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(runs: &[(u64, u64, u64)], typical_ns: f64) -> Option<String> {
        let runs: Vec<AfterReturn> = runs
            .iter()
            .map(|&(run_ns, output_ns, copy_ns)| AfterReturn { run_ns, output_ns, copy_ns })
            .collect();
        warning(&runs, typical_ns).map(|warning| warning.evidence)
    }

    #[test]
    fn work_that_is_left_is_told_from_a_copy() {
        insta::assert_snapshot!(
            said(&[(900, 2_000_000, 3000), (1000, 2_100_000, 2500)], 1e3).expect("a lie"),
            @"A run returned after 900 ns and its output came 2.00 ms later, of which 3.00 µs is reading it: latencies do not contain all of the work."
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
