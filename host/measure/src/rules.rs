/*!
Whether a result is valid, and by which rules.

Every open loop has to keep up with its schedule ([`KeepUp`]). Beyond that, a set of rules may ask
for a minimum of time and of queries or samples. MLPerf's are those of the MLCommons inference
policies (`inference_rules.adoc`, scenarios and "number of queries") and of LoadGen's `mlperf.conf`:
600 s, the 90th percentile for `single-stream` and the 99th for `multi-stream` and `server`. Their
numbers of queries state a percentile to a twentieth of its distance from 100 % at 99 % confidence.
With early stopping fewer do: if so few of them are over the limit that a binomial bound already
gives the same confidence. The bound belongs to statistics; it is passed in as a function.
*/

use crate::pace::Pace;
use crate::scenario::Scenario;

/// Rules for the result of one case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// Time in nanoseconds that the measurement takes at least.
    pub minimum_ns: u64,
    /// How much is to be measured.
    pub requirement: Requirement,
    /// How well an open loop keeps to its schedule.
    pub keep_up: KeepUp,
}

/// How much is to be measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Requirement {
    /// Anything will do.
    Nothing,
    /// Enough queries for a percentile.
    Percentile {
        /// Which, as a share: 0.99 is the 99th percentile.
        percentile: f64,
        /// With which confidence, as a share.
        confidence: f64,
        /// How many queries are enough in any case. Fewer are where the binomial bound says so.
        queries: u64,
    },
    /// Enough samples.
    Samples(u64),
}

/// Bounds within which an open loop keeps up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeepUp {
    /// The 99th percentile of the generator's own lateness, in nanoseconds, is at most this.
    pub lateness_ns: u64,
    /// The achieved rate is at least this share of the offered one.
    pub achieved: f64,
}

impl Default for KeepUp {
    /// 100 µs, which a generator that is not pushed off its core does not come near and which few
    /// models' latencies would notice; and 99 %, since both rates are taken from the first query
    /// to the last, whose latencies differ: in ten seconds by a hundredth of it at most, unless a
    /// queue is growing.
    fn default() -> Self {
        Self { lateness_ns: 100_000, achieved: 0.99 }
    }
}

impl Default for Rules {
    /// Nothing is asked for, except that an open loop keeps up.
    fn default() -> Self {
        Self { minimum_ns: 0, requirement: Requirement::Nothing, keep_up: KeepUp::default() }
    }
}

impl Rules {
    /// MLPerf's rules for a scenario; `None` for those that it does not have.
    #[must_use]
    pub fn mlperf(scenario: Scenario) -> Option<Self> {
        let percentile =
            |percentile, queries| Requirement::Percentile { percentile, confidence: 0.99, queries };
        let requirement = match scenario {
            Scenario::SingleStream => percentile(0.9, 24_576),
            Scenario::MultiStream { .. } | Scenario::Server { .. } => percentile(0.99, 270_336),
            Scenario::Offline { .. } => Requirement::Samples(24_576),
            Scenario::ConstantRate { .. } | Scenario::ClosedLoop => return None,
        };
        Some(Self { minimum_ns: 600_000_000_000, requirement, ..Self::default() })
    }

    /// Judges a measurement.
    ///
    /// `needed(percentile, confidence, over)` is how many queries it takes in all to say with that
    /// confidence that the percentile is within its limit, if `over` of them were not: MLPerf's
    /// early stopping. At a confidence of 0.99 and one query over, that is 64 for the 90th
    /// percentile and 662 for the 99th.
    #[must_use]
    pub fn judge(&self, evidence: &Evidence, needed: impl FnOnce(f64, f64, u64) -> u64) -> Verdict {
        let Evidence { timed_ns, queries, samples, over_limit, cut_short, pace } = *evidence;
        let mut reasons = Vec::new();
        let mut basis = Basis::Count;
        if cut_short {
            reasons.push(Reason::CutShort);
        }
        if timed_ns < self.minimum_ns {
            reasons.push(Reason::TooShort { timed_ns, minimum_ns: self.minimum_ns });
        }
        match self.requirement {
            Requirement::Nothing => {}
            Requirement::Samples(minimum) => {
                if samples < minimum {
                    reasons.push(Reason::TooFewSamples { samples, minimum });
                }
            }
            Requirement::Percentile { percentile, confidence, queries: enough } => {
                // Without a limit the bound serves to state the percentile itself, by the value
                // that all but a few queries stay under: it takes one that may be over.
                let over = over_limit.unwrap_or(1);
                // A hair is added, since 0.1 is not 1 − 0.9 in binary.
                let allowed = ((1.0 - percentile) * queries as f64 * (1.0 + 1e-9)) as u64;
                if let Some(over) = over_limit.filter(|over| *over > allowed) {
                    reasons.push(Reason::OverLimit { over, queries, allowed });
                } else if queries < enough {
                    let minimum = needed(percentile, confidence, over).min(enough);
                    if queries < minimum {
                        reasons.push(Reason::TooFewQueries { queries, minimum });
                    }
                    basis = Basis::EarlyStopping;
                }
            }
        }
        let few = |reason: &Reason| matches!(reason, Reason::TooFewQueries { .. });
        if queries == 0 && !reasons.iter().any(few) {
            reasons.push(Reason::TooFewQueries { queries, minimum: 1 });
        }
        if let Some(pace) = pace {
            self.keep_up.check(&pace, &mut reasons);
        }
        if reasons.is_empty() { Verdict::Valid(basis) } else { Verdict::Invalid(reasons) }
    }
}

impl KeepUp {
    /// Whether the generator of the load itself could not keep up, whatever the target did.
    #[must_use]
    pub fn is_late(self, pace: &Pace) -> bool {
        pace.lateness.is_some_and(|late| late.p99_ns > self.lateness_ns)
    }

    /// Whether the target kept the load up: every query that was due was begun, and they ended as fast as
    /// they came. Where they did not, `grows` says whether latencies grow as those of a queue do. Otherwise
    /// the rates differ by the latencies of the first and the last query alone.
    #[must_use]
    pub fn is_kept_up(self, pace: &Pace, grows: impl FnOnce() -> bool) -> bool {
        pace.unserved == 0 && (self.too_slow(pace).is_none() || !grows())
    }

    fn too_slow(self, pace: &Pace) -> Option<Reason> {
        let (offered, achieved) = pace.offered_per_second.zip(pace.achieved_per_second)?;
        let bound = self.achieved;
        (achieved < bound * offered).then_some(Reason::TooSlow { offered, achieved, bound })
    }

    fn check(self, pace: &Pace, reasons: &mut Vec<Reason>) {
        if let Some(late) = pace.lateness.filter(|_| self.is_late(pace)) {
            reasons.push(Reason::Late { p99_ns: late.p99_ns, bound_ns: self.lateness_ns });
        }
        reasons.extend(self.too_slow(pace));
        if pace.unserved > 0 {
            reasons.push(Reason::Unserved { queries: pace.unserved });
        }
    }
}

/// What a verdict is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    /// Time under the clock in nanoseconds, as [`crate::Summary::timed_ns`] has it.
    pub timed_ns: u64,
    /// Queries made.
    pub queries: u64,
    /// Samples in them.
    pub samples: u64,
    /// Queries whose latency was over the limit; `None` where there is no limit.
    pub over_limit: Option<u64>,
    /// Whether the maximum ended the loop, and not its rule.
    pub cut_short: bool,
    /// How an open loop kept to its schedule.
    pub pace: Option<Pace>,
}

/// Whether a result is valid.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It is.
    Valid(Basis),
    /// It is not, for all of these reasons.
    Invalid(Vec<Reason>),
}

/// What the validity rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// There is as much as the rules ask for.
    Count,
    /// There are fewer queries, and the binomial bound says that they are enough. A percentile
    /// without a limit must then be stated as the bound's estimate: the value that as many
    /// queries as the bound allows are at or above.
    EarlyStopping,
}

/// Why a result is invalid.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum Reason {
    /// The maximum ended the loop before its rule was satisfied.
    #[error("the maximum was over before there was enough")]
    CutShort,
    /// It took too little time.
    #[error("{timed_ns} ns were measured and not {minimum_ns} ns")]
    TooShort {
        /// Time under the clock in nanoseconds.
        timed_ns: u64,
        /// Least time in nanoseconds.
        minimum_ns: u64,
    },
    /// There are too few queries to say where the percentile is.
    #[error("{queries} queries were made and not {minimum}")]
    TooFewQueries {
        /// Queries made.
        queries: u64,
        /// Least number, if no further one is over the limit.
        minimum: u64,
    },
    /// There are too few samples.
    #[error("{samples} samples were measured and not {minimum}")]
    TooFewSamples {
        /// Samples measured.
        samples: u64,
        /// Least number.
        minimum: u64,
    },
    /// The percentile is over the limit.
    #[error("{over} of {queries} queries were over the limit on their latency and not {allowed}")]
    OverLimit {
        /// Queries over the limit.
        over: u64,
        /// Queries made.
        queries: u64,
        /// How many of them may be over it.
        allowed: u64,
    },
    /// Could not keep up: the generator itself was late.
    #[error(
        "could not keep up: the generator was {p99_ns} ns late (99th percentile), more than {bound_ns} ns"
    )]
    Late {
        /// The 99th percentile of its lateness in nanoseconds.
        p99_ns: u64,
        /// What is allowed, in nanoseconds.
        bound_ns: u64,
    },
    /// Could not keep up: queries ended more slowly than they came.
    #[error(
        "could not keep up: {achieved} of {offered} queries per second ended, less than a share of {bound}"
    )]
    TooSlow {
        /// Queries per second that came.
        offered: f64,
        /// Queries per second that ended.
        achieved: f64,
        /// The least share of the one in the other.
        bound: f64,
    },
    /// Could not keep up: queries were never begun.
    #[error("could not keep up: {queries} queries were due and never begun")]
    Unserved {
        /// How many.
        queries: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::Lateness;
    use crate::testing::rate;

    const MINUTES_10: u64 = 600_000_000_000;

    /// The numbers that MLPerf publishes for its bound, at 99 % confidence.
    fn needed(percentile: f64, confidence: f64, over: u64) -> u64 {
        assert_eq!(confidence, 0.99);
        match (percentile, over) {
            (0.9, 1) => 64,
            (0.99, 0) => 459,
            (0.99, 1) => 662,
            _ => u64::MAX,
        }
    }

    fn evidence(queries: u64, over_limit: Option<u64>) -> Evidence {
        Evidence {
            timed_ns: MINUTES_10,
            queries,
            samples: queries,
            over_limit,
            cut_short: false,
            pace: None,
        }
    }

    fn server() -> Rules {
        Rules::mlperf(Scenario::Server { rate: rate(1.0), seed: 0 }).expect("MLPerf has it")
    }

    #[test]
    fn counts_make_a_result_valid_and_so_does_the_bound() {
        use Basis::{Count, EarlyStopping};
        let single = Rules::mlperf(Scenario::SingleStream).expect("MLPerf has it");
        let multi = Rules::mlperf(Scenario::MultiStream { batches: 8 }).expect("MLPerf has it");
        let valid = Verdict::Valid;
        let few =
            |queries, minimum| Verdict::Invalid(vec![Reason::TooFewQueries { queries, minimum }]);
        for (rules, queries, over, verdict) in [
            (Rules::default(), 1, None, valid(Count)),
            (Rules::default(), 0, None, few(0, 1)),
            (single, 0, None, few(0, 64)),
            (single, 24_576, None, valid(Count)),
            (single, 24_575, None, valid(EarlyStopping)),
            (single, 64, None, valid(EarlyStopping)),
            (single, 63, None, few(63, 64)),
            (multi, 662, None, valid(EarlyStopping)),
            (multi, 661, None, few(661, 662)),
            (server(), 270_336, Some(2703), valid(Count)),
            (server(), 459, Some(0), valid(EarlyStopping)),
            (server(), 662, Some(1), valid(EarlyStopping)),
            (server(), 661, Some(1), few(661, 662)),
            // So many over the limit that only the full number tells.
            (server(), 270_335, Some(2703), few(270_335, 270_336)),
        ] {
            assert_eq!(rules.judge(&evidence(queries, over), needed), verdict, "{queries}");
        }
    }

    #[test]
    fn every_reason_is_given() {
        let pace = Pace {
            asked: rate(100.0),
            offered_per_second: Some(100.0),
            achieved_per_second: Some(98.9),
            unserved: 3,
            lateness: Some(Lateness {
                queries: 9,
                median_ns: 10,
                p99_ns: 100_001,
                maximum_ns: 200_000,
            }),
        };
        let evidence = Evidence {
            timed_ns: MINUTES_10 - 1,
            cut_short: true,
            pace: Some(pace),
            ..evidence(1000, Some(11))
        };
        let Verdict::Invalid(reasons) = server().judge(&evidence, needed) else {
            panic!("nothing is right")
        };
        let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
        assert_eq!(
            reasons,
            [
                "the maximum was over before there was enough",
                "599999999999 ns were measured and not 600000000000 ns",
                "11 of 1000 queries were over the limit on their latency and not 10",
                "could not keep up: the generator was 100001 ns late (99th percentile), more than \
                 100000 ns",
                "could not keep up: 98.9 of 100 queries per second ended, less than a share of 0.99",
                "could not keep up: 3 queries were due and never begun",
            ]
        );
    }

    #[test]
    fn offline_counts_samples_and_other_scenarios_have_no_such_rules() {
        let offline = Rules::mlperf(Scenario::Offline { batches: 1 }).expect("MLPerf has it");
        let of = |samples| Evidence { samples, ..evidence(1, None) };
        assert_eq!(offline.judge(&of(24_576), needed), Verdict::Valid(Basis::Count));
        let reason = Reason::TooFewSamples { samples: 24_575, minimum: 24_576 };
        assert_eq!(offline.judge(&of(24_575), needed), Verdict::Invalid(vec![reason]));
        assert_eq!(Rules::mlperf(Scenario::ClosedLoop), None);
        assert_eq!(Rules::mlperf(Scenario::ConstantRate { rate: rate(1.0) }), None);
    }

    #[test]
    fn without_rules_an_open_loop_still_has_to_keep_up() {
        let pace = |achieved| Pace {
            asked: rate(100.0),
            offered_per_second: Some(100.0),
            achieved_per_second: Some(achieved),
            unserved: 0,
            lateness: None,
        };
        let of = |achieved| Evidence { pace: Some(pace(achieved)), ..evidence(10, None) };
        let rules = Rules::default();
        assert_eq!(rules.judge(&of(99.0), needed), Verdict::Valid(Basis::Count));
        let reason = Reason::TooSlow { offered: 100.0, achieved: 98.0, bound: 0.99 };
        assert_eq!(rules.judge(&of(98.0), needed), Verdict::Invalid(vec![reason]));
    }
}
