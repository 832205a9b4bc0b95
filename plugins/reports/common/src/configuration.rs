//! Configurations, among which a user chooses. A case is a configuration under one scenario.

use host_record::{Axis, AxisRole, Direction, MetricValue, Scenario};

use crate::{Case, Labels, Run};

/// Cases that differ only in the scenario.
#[derive(Debug, Clone)]
pub struct Configuration<'a> {
    /// Its finished cases, one for each scenario, in the order of the plan. Never empty.
    pub cases: Vec<&'a Case>,
}

/// Returns the configurations of a run that have a finished case, in the order of the plan.
#[must_use]
pub fn configurations(run: &Run) -> Vec<Configuration<'_>> {
    let mut configurations: Vec<Configuration<'_>> = Vec::new();
    let mut positions = std::collections::BTreeMap::new();
    for case in run.cases.iter().filter(|case| case.is_finished()) {
        let axes = Axis::ALL.iter().filter(|axis| axis.role() != AxisRole::Load);
        let key: Vec<_> = axes.map(|axis| axis.value(&case.key)).collect();
        let position = *positions.entry(key).or_insert(configurations.len());
        match configurations.get_mut(position) {
            Some(configuration) => configuration.cases.push(case),
            None => configurations.push(Configuration { cases: vec![case] }),
        }
    }
    configurations
}

impl<'a> Configuration<'a> {
    /// Returns one of its cases, for the shared coordinates.
    #[must_use]
    pub fn first(&self) -> &'a Case {
        self.cases[0]
    }

    /// Returns the case that represents the configuration for a metric, with the entry.
    ///
    /// - A latency comes only from the single-stream scenario: an offline query is many batches at once, and its
    ///   latency has another meaning.
    /// - A throughput comes from the offline scenario, or if that was not measured, from single-stream.
    /// - Any other metric comes from the scenario with the worse value, because it must hold in both; a metric
    ///   without a direction comes from the first.
    #[must_use]
    pub fn result(&self, metric: &str) -> Option<(&'a Case, &'a MetricValue)> {
        let of = |scenario| self.result_in(scenario, metric);
        if metric.starts_with("latency.") {
            return of(Scenario::SingleStream);
        }
        if metric.starts_with("throughput.") {
            let offline = of(Scenario::Offline).filter(|(_, result)| result.value.is_ok());
            return offline
                .or_else(|| of(Scenario::SingleStream))
                .or_else(|| of(Scenario::Offline));
        }
        let entries = self.cases.iter().filter_map(|case| Some((*case, case.result(metric)?)));
        entries.reduce(|worst, other| {
            let (Ok(this), Ok(that)) = (&worst.1.value, &other.1.value) else {
                return if worst.1.value.is_ok() { worst } else { other };
            };
            let other_is_worse = match worst.1.direction {
                Direction::Lower => that > this,
                Direction::Higher => that < this,
                Direction::Neutral => false,
            };
            if other_is_worse { other } else { worst }
        })
    }

    /// Returns a metric in one scenario, with its case. If a latency limit must hold at the same time, a throughput
    /// also comes from single-stream: an offline throughput is achieved without waiting users.
    #[must_use]
    pub fn result_in(
        &self,
        scenario: Scenario,
        metric: &str,
    ) -> Option<(&'a Case, &'a MetricValue)> {
        let case = self.cases.iter().find(|case| case.key.scenario == scenario)?;
        Some((*case, case.result(metric)?))
    }

    /// Returns its name among other configurations: the coordinates that differ.
    #[must_use]
    pub fn label(&self, labels: &Labels) -> String {
        labels.label(self.first())
    }

    /// Returns the names for configurations that are shown together.
    #[must_use]
    pub fn labels(configurations: &[Self]) -> Labels {
        // Only the first cases count, since scenarios do not distinguish configurations.
        let first: Vec<_> =
            configurations.iter().map(|configuration| configuration.first()).collect();
        Labels::new(first).without(Axis::Scenario)
    }
}
