//! Verdicts on results of a case: by rules such as MLPerf's, or by the user's own limit.

use host_measure::{Evidence, Rules, Summary, within};
use host_record::{
    Breach, EarlyStopping, HeldLatency, HeldRate, InvalidReason, RateSearch, Requirement,
    RuleDifference, Scenario, Verdict,
};
use host_statistics::{Quantile, median, order_statistics, over_limit_allowed, queries_needed};

use super::breaches::not_found;
use super::driver::Sink;
use super::query::Load;
use crate::percentile::{limited_percentile, quantile};

impl Load<'_> {
    /// Returns the rules, if they cover the scenario.
    pub(super) fn rules(&self) -> Option<Rules> {
        Rules::of(self.case.measure.rules?, self.case.key.scenario)
    }

    /// Returns the percentile that a limit on the latency applies to.
    pub(super) fn percentile(&self) -> Quantile {
        let ruled = self.rules().and_then(|rules| match rules.requirement {
            Requirement::Percentile { percentile, .. } => Some(percentile),
            _ => None,
        });
        limited_percentile(&self.case.measure, ruled)
    }

    /// Returns the settings of the case that differ from the rules.
    fn against_rules(&self, rules: &Rules) -> Vec<RuleDifference> {
        let (key, settings) = (&self.case.key, &self.case.measure);
        let mut against = Vec::new();
        let single = matches!(key.scenario, Scenario::SingleStream | Scenario::Server);
        if single && key.batch != 1 {
            let examples = u64::from(key.batch);
            against.push(RuleDifference::Examples { examples, ruled_examples: 1 });
        }
        let ruled_examples = Scenario::MULTI_STREAM_EXAMPLES;
        let examples = self.items_per_query;
        if key.scenario == Scenario::MultiStream && examples != ruled_examples {
            against.push(RuleDifference::Examples { examples, ruled_examples });
        }
        if key.scenario == Scenario::Server && settings.latency_limit.is_none() {
            against.push(RuleDifference::NoLatencyLimit);
        }
        let stated = settings.latency_limit.and_then(|limit| limit.percentile);
        if let (Some(stated), Requirement::Percentile { percentile, .. }) =
            (stated, rules.requirement)
            && quantile(stated.get()) != quantile(percentile)
        {
            against.push(RuleDifference::Percentile {
                percentile: stated.get(),
                ruled_percentile: percentile,
            });
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
        let scenario = self.case.key.scenario;
        let mut breaches = Vec::new();
        let limited = settings.latency_limit.is_some();
        let rules = match (settings.rules, self.rules()) {
            (Some(ruled), Some(rules)) => {
                let against = self.against_rules(&rules).into_iter();
                breaches.extend(against.map(|difference| Breach::AgainstRules {
                    rules: ruled,
                    scenario,
                    difference,
                }));
                rules
            }
            (ruled, _) => {
                breaches.extend(ruled.map(|rules| Breach::NoRules { rules, scenario }));
                // A limit of the user's own is judged by the percentile itself.
                let requirement = if limited {
                    let percentile = percentile.probability();
                    Requirement::Percentile { percentile, confidence: None, queries: 0 }
                } else {
                    Requirement::Nothing
                };
                Rules { requirement, ..Rules::default() }
            }
        };
        let evidence = Evidence {
            timed_ns: summary.timed_ns,
            last_ns: sink.last_ns,
            shortest_ns: sink.shortest_ns.unwrap_or(0),
            queries: summary.queries,
            examples: summary.queries.saturating_mul(self.items_per_query),
            over_limit: limited.then_some(sink.over_limit),
            // Without rules, too few queries are doubtful and not invalid: a warning says so.
            cut_short: settings.rules.is_some() && !summary.enough,
            pace: summary.pace,
        };
        let needed =
            |percentile, confidence, over| queries_needed(quantile(percentile), over, confidence);
        let judgement = rules.judge(&evidence, needed);
        let early_stopping = match rules.requirement {
            Requirement::Percentile { confidence: Some(confidence), .. } if judgement.stops => {
                Some(early(summary, sink, percentile, confidence, limited))
            }
            _ => None,
        };
        let holds = |breach: &Breach| {
            !matches!(breach, Breach::TooSlow { .. }) || grows(sink.latencies.kept())
        };
        let held = search.and_then(|search| search.held.as_ref());
        let held = held.filter(|held| held.of == HeldLatency::Mean);
        // The rate holds by all of its measurements, of which the case's own is one more.
        let within = held.is_some_and(|held| self.is_within(held, sink));
        breaches.extend(
            judgement
                .breaches
                .into_iter()
                .filter(holds)
                .filter(|breach| !(within && matches!(breach, Breach::OverLimit { .. }))),
        );
        breaches.extend(search.and_then(|search| not_found(search, settings.maximum_duration_ns)));
        let reasons = breaches.into_iter().map(InvalidReason::from).collect();
        let departures = settings.rules.map_or_else(Vec::new, |rules| rules.departures(scenario));
        Verdict { rules: settings.rules, reasons, early_stopping, departures }
    }

    /// Returns whether a searched rate stays within the limit by its measurements and the case's own.
    fn is_within(&self, held: &HeldRate, sink: &Sink) -> bool {
        let latencies = sink.latencies.kept();
        let rank = self.percentile().rank(latencies.len());
        let (Some(limit), true) = (self.case.measure.latency_limit, rank > 0) else { return false };
        let own_ns = order_statistics(latencies, &[rank])[0];
        within(held.measurements, held.latency_ns, limit.at_most_ns, own_ns)
    }
}

/// Returns whether latencies grow like those of a queue that keeps getting longer: in proportion to the
/// elapsed time, so that those of the last third are five times those of the first. Otherwise, different
/// rates come from a short measurement, whose first and last latency differ.
pub(super) fn grows(latencies: &[u64]) -> bool {
    let third = latencies.len() / 3;
    let (first, last) = (&latencies[..third], &latencies[latencies.len() - third..]);
    median(first).zip(median(last)).is_none_or(|(first, last)| last > 2.0 * first)
}

/// Returns the result of early stopping. If all latencies were kept, the estimate is exact.
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
}
