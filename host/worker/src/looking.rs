//! Cost of marking the phases of a training step, and the memory that they take.
//!
//! A marked step waits for the device after each phase, so it can be slower than training really is. After measuring,
//! steps with marks and without are made in turn, on the same batches, in alternating order. The unmarked ones have the
//! throughput of training; the difference is the cost of looking.

use std::time::{Duration, Instant};

use host_measure::{Clock, SystemClock, Target};
use host_record::{Gap, LookingCost, PhaseMemory};
use host_statistics::moments;
use plugin_api::abi;
use plugin_api::client::Error;

use crate::backend::BackendTarget;
use crate::marks::Marking;
use crate::surroundings::{not_offered, refused};

/// Limit on the turns.
const MOST: usize = 1000;
/// Turns that are made however long they take.
const LEAST: usize = 3;

/// Makes turns for about this long.
///
/// # Errors
///
/// A gap with the backend's error: earlier measurements stay valid.
pub(crate) fn cost(
    clock: &SystemClock,
    target: &mut BackendTarget,
    marking: &Marking,
    time: Duration,
    mut between: impl FnMut() -> std::io::Result<()>,
) -> std::io::Result<Result<LookingCost, Gap>> {
    let mut turns: Vec<[u64; 2]> = Vec::new();
    let start = Instant::now();
    while turns.len() < MOST && (turns.len() < LEAST || start.elapsed() < time) {
        between()?;
        // Marked first in every other turn, so that neither has the batch in the caches more often.
        let turn = match turn(clock, target, marking, turns.len().is_multiple_of(2)) {
            Ok(turn) => turn,
            Err(error) => return Ok(Err(refused(&error))),
        };
        turns.push(turn);
    }
    Ok(Ok(summary(&turns)))
}

/// Makes a step with marks and one without, on the same batch; returns both times.
fn turn(
    clock: &SystemClock,
    target: &mut BackendTarget,
    marking: &Marking,
    marked_first: bool,
) -> Result<[u64; 2], Error> {
    let mut times = [0; 2];
    let call = target.next_call();
    for is_marked in [marked_first, !marked_first] {
        let begun = clock.now();
        if is_marked {
            for phase in 0..marking.phases.len() as u32 {
                call.run_phase(marking.run, phase, &mut || {})?;
                // As the timed loop does.
                std::hint::black_box(clock.now());
            }
        } else {
            call.run()?;
        }
        times[usize::from(!is_marked)] = clock.now().saturating_sub(begun);
    }
    target.synchronise()?;
    Ok(times)
}

/// Makes a step whose phases report what tensors take on the device.
///
/// # Errors
///
/// A gap if the backend does not tell, or with its error: earlier measurements stay valid.
pub(crate) fn memory(
    target: &mut BackendTarget,
    marking: &Marking,
) -> Result<Vec<PhaseMemory>, Gap> {
    let call = target.next_call();
    let mut found = Vec::new();
    for (number, phase) in (0..).zip(&marking.phases) {
        let counted =
            call.run_phase_counted(number).ok_or_else(|| not_offered(abi::PHASE_MEMORY))?;
        let counted = counted.map_err(|error| refused(&error))?;
        let (peak_bytes, used_bytes) = (counted.peak_bytes, counted.used_bytes);
        found.push(PhaseMemory { phase: phase.clone(), peak_bytes, used_bytes });
    }
    Ok(found)
}

fn summary(turns: &[[u64; 2]]) -> LookingCost {
    let mean = |which: usize| {
        turns.iter().map(|turn| turn[which] as f64).sum::<f64>() / turns.len() as f64
    };
    let differences: Vec<f64> =
        turns.iter().map(|[marked, unmarked]| *marked as f64 - *unmarked as f64).collect();
    let deviation = moments(&differences).and_then(|found| found.deviation);
    LookingCost {
        turns: turns.len() as u64,
        marked_ns: mean(0),
        unmarked_ns: mean(1),
        error_ns: deviation.map(|deviation| deviation / (turns.len() as f64).sqrt()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_that_of_the_difference_within_turns() {
        let found = summary(&[[110, 100], [1_012, 1_000], [58, 50]]);
        assert_eq!((found.turns, found.unmarked_ns), (3, 1150.0 / 3.0));
        assert_eq!(found.marked_ns - found.unmarked_ns, 10.0);
        // The differences are 10, 12 and 8: their deviation is 2.
        let error = found.error_ns.expect("several turns");
        assert!((error - 2.0 / 3.0_f64.sqrt()).abs() < 1e-9, "{error}");
        assert_eq!(summary(&[[3, 2]]).error_ns, None);
    }
}
