//! Busy time of the device for a run, by its own events, beside wall-clock time.
//!
//! The pass is short and comes after measuring. Plain runs and timed runs are made in turn, each with
//! nothing in flight, so a run that returns before its device is done shows: it takes a fraction of
//! the time that the device needs for the same work.

use std::time::{Duration, Instant};

use host_measure::{Clock, SystemClock};
use host_record::{Breach, DeviceTime, Doubt, Gap, Impossible};
use host_statistics::median;
use plugin_api::client::{Error, Model, Session, TensorData};

use crate::backend::tensors;
use crate::surroundings::{not_offered, refused};

/// Enough for a median, and short compared with the measurement.
const RUNS: usize = 10;
/// For long runs fewer are enough; one of each is made in any case.
const LIMIT: Duration = Duration::from_millis(500);

/// A plain run and a timed one, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pair {
    plain: u64,
    device: u64,
    wall: u64,
}

/// Times a few runs with this batch.
///
/// # Errors
///
/// A gap with the backend's error: earlier measurements stay valid. Also if the backend reports a
/// busy time longer than the call, which is impossible.
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
            return Err(Impossible::DeviceTime { device_ns: device, call_ns: wall }.into());
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

/// Summarises them for the record.
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

/// Returns why latencies do not contain the work: no plain run took at least half of the device's time.
/// A device that is busy for less than 20 µs is not judged, because events have a resolution of their
/// own.
pub(crate) fn unsynchronised(pairs: &[Pair]) -> Option<Breach> {
    const LEAST_NS: u64 = 20_000;

    let plain = pairs.iter().map(|pair| pair.plain).max()?;
    let device = pairs.iter().map(|pair| pair.device).min()?;
    (device > LEAST_NS && plain < device / 2)
        .then_some(Breach::Unsynchronised { run_ns: plain, device_ns: device })
}

/// Returns a doubt if no plain run took about as long as a measured query did: all were faster than it, or slower, by more
/// than a quarter. Fewer than three runs are not judged.
pub(crate) fn disagreement(pairs: &[Pair], measured_ns: f64) -> Option<Doubt> {
    const LEAST_RUNS: usize = 3;
    const RATIO: f64 = 1.25;

    let least_ns = pairs.iter().map(|pair| pair.plain).min()? as f64;
    let greatest_ns = pairs.iter().map(|pair| pair.plain).max()? as f64;
    let runs = pairs.len() as u64;
    let disagree = measured_ns > RATIO * greatest_ns || RATIO * measured_ns < least_ns;
    (pairs.len() >= LEAST_RUNS && disagree).then_some(Doubt::PassesDisagree {
        measured_ns,
        runs,
        least_ns,
        greatest_ns,
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
        let expected = Breach::Unsynchronised { run_ns: 90_000, device_ns: 4_000_000 };
        assert_eq!(reason, Some(expected));
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
    fn runs_that_all_differ_from_the_measured_ones_are_doubtful() {
        let runs = pairs(&[(1_990, 900, 1_995), (2_000, 900, 2_005), (2_040, 900, 2_045)]);
        let doubt = |measured_ns| {
            let (least_ns, greatest_ns) = (1_990.0, 2_040.0);
            Some(Doubt::PassesDisagree { measured_ns, runs: 3, least_ns, greatest_ns })
        };
        assert_eq!(disagreement(&runs, 3_250.0), doubt(3_250.0));
        assert_eq!(disagreement(&runs, 1_500.0), doubt(1_500.0));
        assert_eq!(disagreement(&runs, 2_500.0), None);
        assert_eq!(disagreement(&runs, 1_600.0), None);
        // One run as slow as the measured queries is enough to believe them.
        let mixed = pairs(&[(1_990, 900, 1_995), (2_000, 900, 2_005), (3_000, 900, 3_005)]);
        assert_eq!(disagreement(&mixed, 3_250.0), None);
        assert_eq!(disagreement(&runs[..2], 3_250.0), None);
    }

    #[test]
    fn medians_are_recorded() {
        let summary = summary(&pairs(&[(1, 2, 3), (4, 5, 6), (7, 8, 9)]));
        let expected = DeviceTime { runs: 3, device_ns: 5.0, wall_ns: 6.0, plain_ns: 4.0 };
        assert_eq!(summary, expected);
    }
}
