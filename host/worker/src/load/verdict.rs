//! Whether the result of a case is valid: by rules such as MLPerf's, or by the user's own limit.

use host_measure::{self as measure, Requirement, Rules, Summary};
use host_record::{EarlyStopping, RateSearch, RuleSet, Scenario, Verdict};
use host_statistics::{Quantile, median, order_statistics, over_limit_allowed, queries_needed};

use super::driver::Sink;
use super::query::Load;
use super::words::{no_rules, not_by_the_rules, reason, unfinished};
use crate::percentile::{USUAL_PERCENTILE, limited_percentile, quantile};

impl Load<'_> {
    /// The rules, where they know the scenario.
    pub(super) fn rules(&self) -> Option<Rules> {
        let scenario = self.scenario.unwrap_or(measure::Scenario::SingleStream);
        match self.case.measure.rules? {
            RuleSet::MlPerf => match self.case.key.scenario {
                // Searched rates are those of servers.
                Scenario::Server if self.scenario.is_none() => {
                    let rate = measure::Rate::per_second(1.0).ok()?;
                    Rules::mlperf(measure::Scenario::Server { rate, seed: 0 })
                }
                _ => Rules::mlperf(scenario),
            },
        }
    }

    /// The percentile that a limit on the latency is about.
    pub(super) fn percentile(&self) -> Quantile {
        let ruled = self.rules().and_then(|rules| match rules.requirement {
            Requirement::Percentile { percentile, .. } => Some(percentile),
            _ => None,
        });
        limited_percentile(&self.case.measure, ruled)
    }

    /// What of the case is not as the rules have it.
    fn against_rules(&self, rules: &Rules) -> Vec<String> {
        let (key, settings) = (&self.case.key, &self.case.measure);
        let mut against = Vec::new();
        let single = matches!(key.scenario, Scenario::SingleStream | Scenario::Server);
        if single && key.batch != 1 {
            against.push(format!("a query of {} has one sample, not {}", key.scenario, key.batch));
        }
        let usual = measure::Scenario::MULTI_STREAM_SAMPLES;
        if key.scenario == Scenario::MultiStream && self.items_per_query != usual {
            let samples = self.items_per_query;
            against.push(format!("a query of multi-stream has {usual} samples, not {samples}"));
        }
        if key.scenario == Scenario::Server && settings.latency_limit.is_none() {
            against.push("the latency of server has a limit, and none is set".to_owned());
        }
        let stated = settings.latency_limit.and_then(|limit| limit.percentile);
        if let (Some(stated), Requirement::Percentile { percentile, .. }) =
            (stated, rules.requirement)
            && quantile(stated.get()) != quantile(percentile)
        {
            let ruled = quantile(percentile);
            against.push(format!("the percentile of {} is {ruled}", key.scenario));
        }
        against
    }

    /// Judges a measurement, and the search before it.
    pub(super) fn judge(
        &self,
        summary: &Summary,
        sink: &Sink,
        search: Option<&RateSearch>,
    ) -> Verdict {
        let settings = &self.case.measure;
        let percentile = self.percentile();
        let mut reasons = Vec::new();
        let limited = settings.latency_limit.is_some();
        let rules = match (settings.rules, self.rules()) {
            (Some(ruled), Some(rules)) => {
                let against = self.against_rules(&rules);
                reasons.extend(against.iter().map(|what| not_by_the_rules(ruled, what)));
                rules
            }
            (ruled, _) => {
                reasons.extend(ruled.map(|ruled| no_rules(ruled, self.case.key.scenario)));
                // A limit of the user's own is judged by the percentile itself.
                let requirement = if limited {
                    let percentile = percentile.probability();
                    Requirement::Percentile { percentile, confidence: 0.99, queries: 0 }
                } else {
                    Requirement::Nothing
                };
                Rules { requirement, ..Rules::default() }
            }
        };
        let evidence = measure::Evidence {
            timed_ns: summary.timed_ns,
            queries: summary.queries,
            samples: summary.queries.saturating_mul(self.items_per_query),
            over_limit: limited.then_some(sink.over_limit),
            // Without rules, too few queries are doubtful and not invalid: a warning says so.
            cut_short: settings.rules.is_some() && !summary.enough,
            pace: summary.pace,
        };
        let needed =
            |percentile, confidence, over| queries_needed(quantile(percentile), over, confidence);
        let mut early_stopping = None;
        match rules.judge(&evidence, needed) {
            measure::Verdict::Valid(measure::Basis::Count) => {}
            measure::Verdict::Valid(measure::Basis::EarlyStopping) => {
                let confidence = match rules.requirement {
                    Requirement::Percentile { confidence, .. } => confidence,
                    _ => USUAL_PERCENTILE,
                };
                early_stopping = Some(early(summary, sink, percentile, confidence, limited));
            }
            measure::Verdict::Invalid(found) => {
                let grows = grows(sink.latencies.kept());
                let holds = |found: &&measure::Reason| {
                    grows || !matches!(found, measure::Reason::TooSlow { .. })
                };
                reasons.extend(found.iter().filter(holds).map(reason));
            }
        }
        reasons.extend(search.and_then(|search| unfinished(search, settings.maximum_duration_ns)));
        Verdict { rules: settings.rules, reasons, early_stopping }
    }
}

/// Whether a requirement by which fewer queries are enough would take so many, of which so many were over the
/// limit. Where not even queries none of which is over it would do, no lower rate would either, and it is no
/// matter of the rate.
pub(super) fn stops_early_enough(requirement: Requirement, queries: u64, over_limit: u64) -> bool {
    let Requirement::Percentile { percentile, confidence, queries: enough } = requirement else {
        return true;
    };
    let needed = |over| queries_needed(quantile(percentile), over, confidence).min(enough);
    queries >= needed(over_limit) || queries < needed(0)
}

/// Whether latencies grow as those of a queue do that gets longer all the time: in proportion to the time
/// that has passed, so that those of the last third are five times those of the first. Without that, rates
/// that differ are those of a short measurement, whose first and last latency differ.
pub(super) fn grows(latencies: &[u64]) -> bool {
    let third = latencies.len() / 3;
    let (first, last) = (&latencies[..third], &latencies[latencies.len() - third..]);
    median(first).zip(median(last)).is_none_or(|(first, last)| last > 2.0 * first)
}

/// What early stopping says. Where all latencies were kept, the estimate is exact.
fn early(
    summary: &Summary,
    sink: &Sink,
    percentile: Quantile,
    confidence: f64,
    limited: bool,
) -> EarlyStopping {
    let queries = summary.queries;
    let over = if limited { sink.over_limit } else { 1 };
    let minimum = queries_needed(percentile, over, confidence);
    let latencies = sink.latencies.kept();
    let estimate_ns = over_limit_allowed(percentile, queries, confidence)
        .filter(|_| !limited && latencies.len() as u64 == queries)
        .and_then(|allowed| latencies.len().checked_sub(allowed.max(1) as usize))
        .map(|below| order_statistics(latencies, &[below + 1])[0]);
    EarlyStopping { queries, minimum, estimate_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_gets_longer_grows_and_one_that_varies_does_not() {
        let growing: Vec<u64> = (0..300).map(|index| 1000 + index * 50).collect();
        assert!(grows(&growing));
        let varying: Vec<u64> = (0..300).map(|index| 1000 + index % 7 * 500).collect();
        assert!(!grows(&varying));
        assert!(grows(&[5, 6]), "too few to say otherwise");
    }

    /// MLPerf's numbers: 662 queries are enough for the 99th percentile where one is over the limit.
    #[test]
    fn a_rate_holds_where_so_few_queries_are_enough_for_the_rules() {
        let server = measure::Scenario::Server {
            rate: measure::Rate::per_second(1.0).expect("a rate"),
            seed: 0,
        };
        let requirement = Rules::mlperf(server).expect("rules").requirement;
        assert!(stops_early_enough(requirement, 662, 1));
        assert!(!stops_early_enough(requirement, 661, 1), "a lower rate has none over");
        assert!(stops_early_enough(requirement, 661, 0));
        assert!(!stops_early_enough(requirement, 10_000, 99));
        assert!(stops_early_enough(requirement, 100, 1), "too few at any rate");
        assert!(stops_early_enough(requirement, 270_336, 2703), "enough by number");
        assert!(stops_early_enough(Requirement::Nothing, 1, 1));
    }
}
