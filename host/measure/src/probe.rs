//! Probes: the measurements of the search for a rate.

use host_record::{Lateness, Pace, Rate};

use crate::rules::KeepUp;
use crate::stop::StopRule;

/// Distance of a latency from the limit within which it decides nothing, relative to the limit.
pub(crate) const DOUBT: f64 = 0.1;

/// Rule for the duration of a probe, from the percentile that is limited and the rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbeDuration {
    /// Percentile of the latency that is limited, as a share: 0.99 is the 99th.
    pub percentile: f64,
    /// Least time of a probe, in nanoseconds. At most half of the maximum is used.
    pub short_ns: u64,
    /// Least time of the measurement of the result, in nanoseconds.
    pub whole_ns: u64,
    /// Time limit of each measurement, in nanoseconds.
    pub maximum_ns: u64,
}

/// Number of queries beyond the percentile in a probe, so that one stall does not decide, and their number
/// if the time limit has no room for more.
const BEYOND: f64 = 5.0;
const BEYOND_AT_LEAST: f64 = 1.0;

impl ProbeDuration {
    /// Returns the number of queries of which `beyond` are beyond the percentile. It is lowered slightly
    /// before rounding up, since 1 − 0.9 is not 0.1 in binary.
    fn queries(&self, beyond: f64) -> f64 {
        (beyond / (1.0 - self.percentile) - 1e-6).ceil().max(1.0)
    }

    /// Returns half of the maximum, in nanoseconds: a growing queue makes the loop longer than its
    /// schedule, and twice as long is enough to detect it.
    fn room_ns(&self) -> f64 {
        self.maximum_ns as f64 / 2.0
    }

    /// Returns the lowest rate with room for enough queries.
    #[must_use]
    pub fn lowest_rate(&self) -> Rate {
        let lowest = self.queries(BEYOND_AT_LEAST) * 1e9 / self.room_ns();
        Rate::per_second(lowest.clamp(1e-9, 1e9)).unwrap_or(Rate::HIGHEST)
    }

    /// Returns the stop rule of a probe.
    #[must_use]
    pub fn short(&self, rate: Rate) -> StopRule {
        let minimum_ns = self.short_ns.min(self.maximum_ns / 2);
        self.rule(rate, minimum_ns, self.minimum_queries(rate))
    }

    /// Returns the stop rule for the measurement of the result, with the case's minimum of queries.
    #[must_use]
    pub fn whole(&self, rate: Rate, minimum_queries: u64) -> StopRule {
        let minimum_queries = self.minimum_queries(rate).max(minimum_queries);
        self.rule(rate, self.whole_ns, minimum_queries)
    }

    fn minimum_queries(&self, rate: Rate) -> u64 {
        let room = (rate.get() * self.room_ns() / 1e9).floor();
        room.clamp(self.queries(BEYOND_AT_LEAST), self.queries(BEYOND)) as u64
    }

    fn rule(&self, rate: Rate, minimum_ns: u64, minimum_queries: u64) -> StopRule {
        let schedule_ns = (minimum_queries as f64 * 1e9 / rate.get()).max(minimum_ns as f64);
        let maximum_ns = ((2.0 * schedule_ns) as u64).min(self.maximum_ns);
        StopRule { minimum_ns, minimum_queries, maximum_ns }
    }
}

/// Result of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeResult {
    /// Latency at the percentile that is limited, in nanoseconds.
    Latency(u64),
    /// The target could not keep up with the rate.
    CouldNotKeepUp,
    /// The load generator could not keep up, so the probe says nothing about the target.
    GeneratorLate,
}

impl ProbeResult {
    /// Judges a probe by the latency at its limited percentile, if it has one.
    ///
    /// If the generator was late, by [`KeepUp`] and by more than the doubt of a latency, the probe counts only
    /// if the latency exceeds the limit by more than the generator's greatest lateness: if the target is too
    /// slow, queries follow one another without pause, and the generator's time between them adds up.
    #[must_use]
    pub fn judge(latency_ns: Option<u64>, kept_up: bool, pace: &Pace, limit_ns: u64) -> Self {
        let counts = |late: &Lateness| {
            KeepUp::default().is_late(pace) && late.p99_ns as f64 > DOUBT * limit_ns as f64
        };
        if let Some(late) = pace.lateness.filter(counts)
            && latency_ns.is_none_or(|latency| latency.saturating_sub(late.maximum_ns) <= limit_ns)
        {
            return Self::GeneratorLate;
        }
        latency_ns.filter(|_| kept_up).map_or(Self::CouldNotKeepUp, Self::Latency)
    }
}
