/*!
Whether a result is valid, and by which rules.

Every open loop has to keep up with its schedule ([`KeepUp`]). Beyond that, a set of rules may ask
for a minimum of time and of queries or examples; which, is in [`RuleSet`]. For a percentile that is early stopping: so
few queries may be over the limit that a binomial bound gives the confidence. It applies at any number of queries, as in
LoadGen. The bound belongs to statistics; it is passed in as a function.
*/

use host_record::{Breach, Pace, Requirement, RuleSet, Scenario};

/// Rules for the result of one case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// Time in nanoseconds that the measurement takes at least.
    pub minimum_ns: u64,
    /// Required amount of measurement.
    pub requirement: Requirement,
    /// Required pace of an open loop.
    pub keep_up: KeepUp,
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
    /// Allows a lateness of 100 µs, which a generator with its own core does not come near and few models'
    /// latencies would show, and requires 99 % of the offered rate. Both rates are taken from the first query
    /// to the last, whose latencies differ: in ten seconds by at most a hundredth of it, unless a queue is
    /// growing.
    fn default() -> Self {
        Self { lateness_ns: 100_000, achieved: 0.99 }
    }
}

impl Default for Rules {
    /// Requires only that an open loop keeps up.
    fn default() -> Self {
        Self { minimum_ns: 0, requirement: Requirement::Nothing, keep_up: KeepUp::default() }
    }
}

impl Rules {
    /// Returns the rules of a set for a scenario; `None` if it does not cover the scenario.
    #[must_use]
    pub fn of(rules: RuleSet, scenario: Scenario) -> Option<Self> {
        let requirement = rules.requirement(scenario)?;
        Some(Self { minimum_ns: rules.minimum_duration_ns(), requirement, ..Self::default() })
    }

    /// Judges a measurement.
    ///
    /// `needed(percentile, confidence, over)` is how many queries it takes in all to say with that
    /// confidence that the percentile is within its limit, if `over` of them were not: MLPerf's
    /// early stopping. At a confidence of 0.99 and one query over, that is 64 for the 90th
    /// percentile and 662 for the 99th.
    #[must_use]
    pub fn judge(
        &self,
        evidence: &Evidence,
        needed: impl FnOnce(f64, f64, u64) -> u64,
    ) -> Judgement {
        let Evidence { timed_ns, queries, examples, over_limit, cut_short, pace, .. } = *evidence;
        let mut breaches = Vec::new();
        let mut stops = false;
        if cut_short {
            breaches.push(Breach::CutShort);
        }
        // In `offline` a query is the whole set, and the shortest of several counts, as if it was the only one. In other
        // closed loops the last query begins after the time, as LoadGen's does, and in open ones it is due then.
        let lasted_ns = match (self.requirement, pace) {
            (Requirement::Examples(_), _) => evidence.shortest_ns,
            (_, None) => timed_ns.saturating_sub(evidence.last_ns),
            (_, Some(_)) => timed_ns,
        };
        if lasted_ns < self.minimum_ns {
            breaches.push(Breach::TooShort { timed_ns: lasted_ns, minimum_ns: self.minimum_ns });
        }
        match self.requirement {
            Requirement::Nothing => {}
            Requirement::Examples(minimum) => {
                let examples = examples / queries.max(1);
                if examples < minimum {
                    breaches.push(Breach::TooFewExamples { examples, minimum_examples: minimum });
                }
            }
            Requirement::Percentile { percentile, confidence, queries: least } => {
                // A hair is added, since 0.1 is not 1 − 0.9 in binary.
                let allowed = ((1.0 - percentile) * queries as f64 * (1.0 + 1e-9)) as u64;
                if let Some(over) = over_limit.filter(|over| *over > allowed) {
                    breaches.push(Breach::OverLimit {
                        over_queries: over,
                        queries,
                        allowed_queries: allowed,
                    });
                } else if let Some(confidence) = confidence {
                    // Without a limit the bound serves to state the percentile itself, by the value
                    // that all but a few queries stay under: it takes one that may be over.
                    let minimum =
                        needed(percentile, confidence, over_limit.unwrap_or(1)).max(least);
                    if queries < minimum {
                        breaches.push(Breach::TooFewQueries { queries, minimum_queries: minimum });
                    }
                    stops = queries >= minimum;
                }
            }
        }
        let few = |breach: &Breach| matches!(breach, Breach::TooFewQueries { .. });
        if queries == 0 && !breaches.iter().any(few) {
            breaches.push(Breach::TooFewQueries { queries, minimum_queries: 1 });
        }
        if let Some(pace) = pace {
            self.keep_up.check(&pace, &mut breaches);
        }
        Judgement { breaches, stops }
    }
}

impl KeepUp {
    /// Returns whether the load generator itself could not keep up, regardless of the target.
    #[must_use]
    pub fn is_late(self, pace: &Pace) -> bool {
        pace.lateness.is_some_and(|late| late.p99_ns > self.lateness_ns)
    }

    /// Returns whether the target kept up: every query that was due was begun, and they completed as fast
    /// as they arrived. If they did not, `grows` returns whether latencies grow like those of a queue.
    /// Otherwise the rates differ by the latencies of the first and the last query alone.
    #[must_use]
    pub fn is_kept_up(self, pace: &Pace, grows: impl FnOnce() -> bool) -> bool {
        pace.unserved == 0 && (self.too_slow(pace).is_none() || !grows())
    }

    fn too_slow(self, pace: &Pace) -> Option<Breach> {
        let (offered, achieved) = pace.offered_per_second.zip(pace.achieved_per_second)?;
        let bound = self.achieved;
        (achieved < bound * offered).then_some(Breach::TooSlow {
            offered_per_second: offered,
            achieved_per_second: achieved,
            bound_ratio: bound,
        })
    }

    fn check(self, pace: &Pace, breaches: &mut Vec<Breach>) {
        if let Some(late) = pace.lateness.filter(|_| self.is_late(pace)) {
            breaches.push(Breach::Late { p99_ns: late.p99_ns, bound_ns: self.lateness_ns });
        }
        breaches.extend(self.too_slow(pace));
        if pace.unserved > 0 {
            breaches.push(Breach::Unserved { queries: pace.unserved });
        }
    }
}

/// Evidence for a verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    /// Time under the clock in nanoseconds, as in [`crate::Summary::timed_ns`].
    pub timed_ns: u64,
    /// Latency of the last query in nanoseconds.
    pub last_ns: u64,
    /// Latency of the shortest query in nanoseconds.
    pub shortest_ns: u64,
    /// Queries made.
    pub queries: u64,
    /// Examples in them.
    pub examples: u64,
    /// Number of queries with a latency over the limit; `None` without a limit.
    pub over_limit: Option<u64>,
    /// Whether the maximum ended the loop before its rule was met.
    pub cut_short: bool,
    /// Pace of an open loop.
    pub pace: Option<Pace>,
}

/// Judgement of a measurement by the rules.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// All that it breaks; empty if the result is valid.
    pub breaches: Vec<Breach>,
    /// Early stopping accepts the number of queries. A percentile without a limit is then stated as the bound's
    /// estimate: the value that as many queries as the bound allows are at or above.
    pub stops: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use host_record::Lateness;

    use crate::testing::rate;

    const MINUTES_10: u64 = 600_000_000_000;

    /// Returns MLPerf's published numbers for its bound, at 99 % confidence.
    fn needed(percentile: f64, confidence: f64, over: u64) -> u64 {
        assert_eq!(confidence, 0.99);
        match (percentile, over) {
            (0.9, 1) => 64,
            (0.99, 0) => 459,
            (0.99, 1) => 662,
            (0.99, 2583) => 270_336,
            _ => u64::MAX,
        }
    }

    fn evidence(queries: u64, over_limit: Option<u64>) -> Evidence {
        Evidence {
            timed_ns: MINUTES_10,
            last_ns: 0,
            shortest_ns: MINUTES_10,
            queries,
            examples: queries,
            over_limit,
            cut_short: false,
            pace: None,
        }
    }

    fn mlperf(scenario: Scenario) -> Rules {
        Rules::of(RuleSet::MlPerf, scenario).expect("MLPerf has it")
    }

    fn broken(breaches: Vec<Breach>) -> Judgement {
        Judgement { breaches, stops: false }
    }

    fn server() -> Rules {
        mlperf(Scenario::Server)
    }

    #[test]
    fn the_bound_makes_a_result_valid_at_any_count() {
        let (single, multi) = (mlperf(Scenario::SingleStream), mlperf(Scenario::MultiStream));
        let valid = |stops| Judgement { breaches: Vec::new(), stops };
        let few = |queries, minimum| {
            broken(vec![Breach::TooFewQueries { queries, minimum_queries: minimum }])
        };
        for (rules, queries, over, verdict) in [
            (Rules::default(), 1, None, valid(false)),
            (Rules::default(), 0, None, few(0, 1)),
            (single, 0, None, few(0, 100)),
            (single, 24_576, None, valid(true)),
            (single, 100, None, valid(true)),
            (single, 99, None, few(99, 100)),
            (multi, 662, None, valid(true)),
            (multi, 661, None, few(661, 662)),
            (server(), 459, Some(0), valid(true)),
            (server(), 662, Some(1), valid(true)),
            (server(), 661, Some(1), few(661, 662)),
            // The bound counts, and not the percentile of these queries, however many there are.
            (server(), 270_336, Some(2583), valid(true)),
            (server(), 270_336, Some(2584), few(270_336, u64::MAX)),
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
            lateness: Some(Lateness { median_ns: 10, p99_ns: 100_001, maximum_ns: 200_000 }),
        };
        let evidence = Evidence {
            timed_ns: MINUTES_10 - 1,
            cut_short: true,
            pace: Some(pace),
            ..evidence(1000, Some(11))
        };
        let judgement = server().judge(&evidence, needed);
        assert_eq!(
            judgement.breaches,
            [
                Breach::CutShort,
                Breach::TooShort { timed_ns: MINUTES_10 - 1, minimum_ns: MINUTES_10 },
                Breach::OverLimit { over_queries: 11, queries: 1000, allowed_queries: 10 },
                Breach::Late { p99_ns: 100_001, bound_ns: 100_000 },
                Breach::TooSlow {
                    offered_per_second: 100.0,
                    achieved_per_second: 98.9,
                    bound_ratio: 0.99,
                },
                Breach::Unserved { queries: 3 },
            ]
        );
        assert!(!judgement.stops);
    }

    /// LoadGen goes on until a query begins after the time.
    #[test]
    fn the_last_query_begins_after_the_time() {
        let single = mlperf(Scenario::SingleStream);
        let ended = Evidence { last_ns: 1, ..evidence(1000, None) };
        let reason = Breach::TooShort { timed_ns: MINUTES_10 - 1, minimum_ns: MINUTES_10 };
        assert_eq!(single.judge(&ended, needed).breaches, [reason]);
        let begun = Evidence { timed_ns: MINUTES_10 + 1, ..ended };
        assert_eq!(single.judge(&begun, needed).breaches, []);
    }

    /// One query of at least 600 s, and not many short ones for as long.
    #[test]
    fn offline_is_one_query() {
        let offline = mlperf(Scenario::Offline);
        let repeated = Evidence { shortest_ns: MINUTES_10 / 192, ..evidence(192, None) };
        let repeated = Evidence { examples: 192 * 128, ..repeated };
        let short = Breach::TooShort { timed_ns: MINUTES_10 / 192, minimum_ns: MINUTES_10 };
        let few = Breach::TooFewExamples { examples: 128, minimum_examples: 24_576 };
        assert_eq!(offline.judge(&repeated, needed).breaches, [short, few]);
    }

    #[test]
    fn offline_counts_samples_and_other_scenarios_have_no_such_rules() {
        let offline = mlperf(Scenario::Offline);
        let of = |examples| Evidence { examples, ..evidence(1, None) };
        assert_eq!(offline.judge(&of(24_576), needed), broken(Vec::new()));
        let reason = Breach::TooFewExamples { examples: 24_575, minimum_examples: 24_576 };
        assert_eq!(offline.judge(&of(24_575), needed), broken(vec![reason]));
        assert_eq!(Rules::of(RuleSet::MlPerf, Scenario::ClosedLoop), None);
        assert_eq!(Rules::of(RuleSet::MlPerf, Scenario::ConstantRate), None);
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
        assert_eq!(rules.judge(&of(99.0), needed), broken(Vec::new()));
        let reason = Breach::TooSlow {
            offered_per_second: 100.0,
            achieved_per_second: 98.0,
            bound_ratio: 0.99,
        };
        assert_eq!(rules.judge(&of(98.0), needed), broken(vec![reason]));
    }
}
