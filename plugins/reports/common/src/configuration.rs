//! Configurations: what a person can choose. A case is a configuration under one scenario.

use crate::{Case, Labels, MetricResult, Run};

/// The scenario in which a latency is that of one query after another.
pub const SINGLE_STREAM: &str = "single-stream";

/// The scenario in which throughput is all that counts.
pub const OFFLINE: &str = "offline";

/// Cases that differ in nothing but the scenario.
#[derive(Debug, Clone)]
pub struct Configuration<'a> {
    /// Its finished cases, one for each scenario, in the order of the plan. Never empty.
    pub cases: Vec<&'a Case>,
}

/// The configurations of a run that have a finished case, in the order of the plan.
#[must_use]
pub fn configurations(run: &Run) -> Vec<Configuration<'_>> {
    let mut configurations: Vec<Configuration<'_>> = Vec::new();
    let mut positions = std::collections::BTreeMap::new();
    for case in run.cases.iter().filter(|case| case.outcome == crate::Outcome::Finished) {
        let key = (
            (&case.model, &case.backend, &case.device, &case.precision),
            (case.batch, case.sequence_length, &case.mode),
        );
        let position = *positions.entry(key).or_insert(configurations.len());
        match configurations.get_mut(position) {
            Some(configuration) => configuration.cases.push(case),
            None => configurations.push(Configuration { cases: vec![case] }),
        }
    }
    configurations
}

impl<'a> Configuration<'a> {
    /// Any of its cases, for the coordinates that they share.
    #[must_use]
    pub fn first(&self) -> &'a Case {
        self.cases[0]
    }

    /// The case that speaks for the configuration about a metric, with the entry.
    ///
    /// - A latency is that of the single-stream scenario and of no other: an offline query is
    ///   many batches at once, and its latency answers another question.
    /// - A throughput is that of the offline scenario, or where that was not measured, of
    ///   single-stream.
    /// - Anything else is whichever scenario shows the worse value, since it must hold in both; a
    ///   metric without a direction is the first's.
    #[must_use]
    pub fn result(&self, metric: &str) -> Option<(&'a Case, &'a MetricResult)> {
        let of = |scenario: &str| self.result_in(scenario, metric);
        if metric.starts_with("latency.") {
            return of(SINGLE_STREAM);
        }
        if metric.starts_with("throughput.") {
            let offline = of(OFFLINE).filter(|(_, result)| result.value.is_ok());
            return offline.or_else(|| of(SINGLE_STREAM)).or_else(|| of(OFFLINE));
        }
        let entries = self.cases.iter().filter_map(|case| Some((*case, case.result(metric)?)));
        entries.reduce(|worst, other| {
            let (Ok(this), Ok(that)) = (&worst.1.value, &other.1.value) else {
                return if worst.1.value.is_ok() { worst } else { other };
            };
            let other_is_worse = match worst.1.direction {
                crate::Direction::Lower => that > this,
                crate::Direction::Higher => that < this,
                crate::Direction::Neutral => false,
            };
            if other_is_worse { other } else { worst }
        })
    }

    /// A metric in one scenario, with its case. Where a latency has to hold at the same time, that is
    /// single-stream for a throughput too: the throughput of an offline case was had without anyone
    /// waiting.
    #[must_use]
    pub fn result_in(&self, scenario: &str, metric: &str) -> Option<(&'a Case, &'a MetricResult)> {
        let case = self.cases.iter().find(|case| case.scenario == scenario)?;
        Some((*case, case.result(metric)?))
    }

    /// Its name among other configurations: what differs among them.
    #[must_use]
    pub fn label(&self, labels: &Labels) -> String {
        labels.label(self.first())
    }

    /// Names for configurations that are seen together.
    #[must_use]
    pub fn labels(configurations: &[Self]) -> Labels {
        // The first cases only: that scenarios differ does not tell configurations apart.
        let first = configurations.iter().map(|configuration| configuration.first());
        Labels::new(first).without_scenario()
    }
}
