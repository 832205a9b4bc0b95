//! Overhead of the clock and the loop, measured in place.

use std::convert::Infallible;
use std::hint::black_box;

use crate::block::Block;
use crate::clock::Clock;
use crate::error::MeasureError;
use crate::meter::Meter;
use crate::pattern::Pattern;
use crate::stop::StopRule;
use crate::target::Target;

/// Overhead of the clock and the loop on this machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// Smallest step seen between two different readings, in nanoseconds.
    pub resolution_ns: u64,
    /// Median cost of one reading, in nanoseconds.
    pub read_ns: f64,
    /// Median cost of one iteration of the measuring loop with an empty target, in nanoseconds.
    pub loop_ns: f64,
    /// Number of consecutive readings that were compared, none of which went back.
    pub checked_readings: u64,
}

const REPETITIONS: usize = 31;
const READINGS: u32 = 256;

/// A clock coarser than this many readings per step is given up on.
const READINGS_PER_STEP: u32 = 10_000_000;

/// Measures clock and loop in one or two milliseconds.
///
/// # Errors
///
/// If the clock goes back, or does not move within ten million readings.
pub fn calibrate(clock: &impl Clock) -> Result<Calibration, CalibrationError> {
    let (resolution_ns, mut checked_readings) = resolution(clock)?;

    let mut reads = [0.0; REPETITIONS];
    for read in &mut reads {
        let start = clock.now();
        for _ in 0..READINGS {
            black_box(clock.now());
        }
        *read = (clock.now().saturating_sub(start)) as f64 / f64::from(READINGS + 1);
    }

    let rule =
        StopRule { minimum_ns: 0, minimum_queries: u64::from(READINGS), maximum_ns: u64::MAX };
    let mut meter = Meter::new(clock, READINGS as usize, u64::MAX);
    let mut nowhere = |_: Block<'_>| Ok::<_, Infallible>(());
    let mut loops = [0.0; REPETITIONS];
    for cost in &mut loops {
        let summary =
            meter.run(&mut Empty, Pattern::SingleStream, &rule, &mut nowhere).map_err(|error| {
                match error {
                    MeasureError::ClockWentBack { before_ns, after_ns } => {
                        CalibrationError::ClockWentBack { before_ns, after_ns }
                    }
                    MeasureError::Target(never) | MeasureError::Sink(never) => match never {},
                }
            })?;
        *cost = summary.timed_ns as f64 / summary.queries as f64;
        // The loop compares each reading with the one before.
        checked_readings += summary.queries;
    }
    Ok(Calibration {
        resolution_ns,
        read_ns: median(&mut reads),
        loop_ns: median(&mut loops),
        checked_readings,
    })
}

/// Reasons why the clock is unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CalibrationError {
    /// The clock went back.
    #[error("the clock went back from {before_ns} ns to {after_ns} ns")]
    ClockWentBack {
        /// The earlier reading.
        before_ns: u64,
        /// The later reading, which is smaller.
        after_ns: u64,
    },
    /// The clock stands still.
    #[error("the clock stood still for {READINGS_PER_STEP} readings")]
    StandsStill,
}

/// Returns the smallest step, and how many readings were compared to find it.
fn resolution(clock: &impl Clock) -> Result<(u64, u64), CalibrationError> {
    let mut smallest: Option<u64> = None;
    let mut compared = 0;
    let mut still = 0;
    let mut previous = clock.now();
    for _ in 0..READINGS {
        // A coarse clock needs many readings for one step; seeing a few steps is then enough.
        while still < READINGS_PER_STEP {
            let now = clock.now();
            let step = now
                .checked_sub(previous)
                .ok_or(CalibrationError::ClockWentBack { before_ns: previous, after_ns: now })?;
            previous = now;
            compared += 1;
            if step > 0 {
                smallest = Some(smallest.map_or(step, |smallest| smallest.min(step)));
                break;
            }
            still += 1;
        }
    }
    smallest.map(|smallest| (smallest, compared)).ok_or(CalibrationError::StandsStill)
}

struct Empty;

impl Target for Empty {
    type Error = Infallible;

    #[inline]
    fn run(&mut self) -> Result<(), Infallible> {
        black_box(());
        Ok(())
    }
}

fn median(values: &mut [f64; REPETITIONS]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[REPETITIONS / 2]
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::SystemClock;

    /// A clock that moves by `step` at every `reads`-th reading.
    struct Stepping {
        reads: Cell<u64>,
        every: u64,
        step: u64,
    }

    impl Clock for Stepping {
        fn now(&self) -> u64 {
            self.reads.set(self.reads.get() + 1);
            self.reads.get() / self.every * self.step
        }
    }

    #[test]
    fn a_virtual_clock_is_calibrated_exactly() {
        let clock = Stepping { reads: Cell::new(0), every: 1, step: 25 };
        let calibration = calibrate(&clock).expect("a good clock");
        let checked_readings = u64::from(READINGS) * (1 + REPETITIONS as u64);
        let expected =
            Calibration { resolution_ns: 25, read_ns: 25.0, loop_ns: 25.0, checked_readings };
        assert_eq!(calibration, expected);
    }

    #[test]
    fn a_coarse_clock_shows_its_step() {
        let clock = Stepping { reads: Cell::new(0), every: 1000, step: 15_000 };
        assert_eq!(calibrate(&clock).expect("a good clock").resolution_ns, 15_000);
    }

    #[test]
    fn a_clock_that_stands_still_is_refused() {
        let clock = Stepping { reads: Cell::new(0), every: u64::MAX, step: 1 };
        assert_eq!(calibrate(&clock), Err(CalibrationError::StandsStill));
    }

    #[test]
    fn the_system_clock_is_calibrated() {
        let calibration = calibrate(&SystemClock::new()).expect("a good clock");
        assert!(calibration.resolution_ns > 0);
        assert!(calibration.read_ns > 0.0);
        assert!(calibration.loop_ns > 0.0);
    }
}
