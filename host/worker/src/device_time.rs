//! How long the device was busy with a run, by its own events, beside the clock.
//!
//! The pass is short and comes after measuring. Plain runs are made in turn with timed ones, each with
//! nothing under way, so that a run that returns before its device is done shows: it takes a fraction of
//! the time that the device needs for the same work.

use std::time::{Duration, Instant};

use host_measure::{Clock, SystemClock};
use host_record::{DeviceTime, Gap, GapKind, InvalidKind, InvalidReason};
use host_statistics::median;
use plugin_api::client::{Error, Model, Session, TensorData};

use crate::backend::tensors;
use crate::surroundings::{not_offered, refused};
use crate::words::time;

/// Enough for a median, and little beside what was measured.
const RUNS: usize = 10;
/// Where runs take long, fewer will do; one of each is made in any case.
const LIMIT: Duration = Duration::from_millis(500);

/// A plain run and a timed one, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pair {
    plain: u64,
    device: u64,
    wall: u64,
}

/// Times a few runs of this batch.
///
/// # Errors
///
/// A gap with what the backend said: what was measured before stays true. Also where it says that the
/// device was busy for longer than the call took, which cannot be.
pub(crate) fn pairs(
    clock: &SystemClock,
    model: &Model,
    session: &Session,
    batch: &[TensorData],
) -> Result<Vec<Pair>, Gap> {
    let refused = |error: Error| refused(&error);
    let mut call = session.call(tensors(model, batch).map_err(refused)?).map_err(refused)?;
    let mut pairs = Vec::with_capacity(RUNS);
    let start = Instant::now();
    while pairs.len() < RUNS && (pairs.is_empty() || start.elapsed() < LIMIT) {
        let before = clock.now();
        let device = call.run_timed().ok_or_else(|| not_offered(plugin_api::abi::DEVICE_TIMER))?;
        let wall = clock.now().saturating_sub(before);
        let device = device.map_err(refused)?;
        if device > wall {
            return Err(Gap {
                kind: GapKind::Impossible,
                reason: format!(
                    "the backend said that the device was busy for {device} ns with a run that took \
                     {wall} ns"
                ),
            });
        }
        session.synchronise().map_err(refused)?;
        let before = clock.now();
        call.run().map_err(refused)?;
        let plain = clock.now().saturating_sub(before);
        session.synchronise().map_err(refused)?;
        pairs.push(Pair { plain, device, wall });
    }
    Ok(pairs)
}

/// What is recorded of them.
pub(crate) fn summary(pairs: &[Pair]) -> DeviceTime {
    let middle = |of: fn(&Pair) -> u64| {
        median(&pairs.iter().map(of).collect::<Vec<_>>()).expect("at least one pair")
    };
    DeviceTime {
        runs: pairs.len() as u64,
        device_ns: middle(|pair| pair.device),
        wall_ns: middle(|pair| pair.wall),
        plain_ns: middle(|pair| pair.plain),
    }
}

/// Why latencies do not contain the work: no plain run took half of the time that the device needs at
/// least. A device that is busy for less than 20 µs is left alone, since events have steps of their own.
pub(crate) fn unsynchronised(pairs: &[Pair]) -> Option<InvalidReason> {
    const LEAST_NS: u64 = 20_000;

    let plain = pairs.iter().map(|pair| pair.plain).max()?;
    let device = pairs.iter().map(|pair| pair.device).min()?;
    (device > LEAST_NS && plain < device / 2).then(|| InvalidReason {
        kind: InvalidKind::Unsynchronised,
        evidence: format!(
            "A run returned after {} at most, and by the device's own events it takes {} at least: it \
             returns before the device is done.",
            time(plain as f64),
            time(device as f64)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(times: &[(u64, u64, u64)]) -> Vec<Pair> {
        times.iter().map(|&(plain, device, wall)| Pair { plain, device, wall }).collect()
    }

    #[test]
    fn a_run_that_takes_less_than_its_device_has_not_waited() {
        let reason = unsynchronised(&pairs(&[
            (2_000, 5_000_000, 5_001_000),
            (90_000, 4_000_000, 4_001_000),
        ]));
        let reason = reason.expect("a lie");
        assert_eq!(reason.kind, InvalidKind::Unsynchronised);
        insta::assert_snapshot!(reason.evidence, @"A run returned after 90.00 µs at most, and by the device's own events it takes 4.00 ms at least: it returns before the device is done.");
        // Clocks may rise between the two.
        assert_eq!(unsynchronised(&pairs(&[(3_000_000, 5_000_000, 5_001_000)])), None);
        // Once is chance.
        assert_eq!(
            unsynchronised(&pairs(&[
                (2_000, 5_000_000, 5_001_000),
                (5_000_000, 5_000_000, 5_001_000)
            ])),
            None
        );
        assert_eq!(unsynchronised(&pairs(&[(2_000, 15_000, 16_000)])), None);
        assert_eq!(unsynchronised(&[]), None);
    }

    #[test]
    fn medians_are_recorded() {
        let summary = summary(&pairs(&[(1, 2, 3), (4, 5, 6), (7, 8, 9)]));
        let expected = DeviceTime { runs: 3, device_ns: 5.0, wall_ns: 6.0, plain_ns: 4.0 };
        assert_eq!(summary, expected);
    }
}
