/*!
The summary of a case: the metrics that most readers want to know first, in the order in which the
terminal and the reports show them.
*/

use crate::quantity::{QUANTITIES, Shown};

/// A metric of the summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SummaryMetric {
    /// Its name.
    pub metric: &'static str,
    /// Prefix of metrics' names; the first such metric stands in for it: of accuracies, the one that was asked
    /// for.
    pub or_first_of: Option<&'static str>,
    /// The metric whose value is shown for a case in which this one is a gap, and the word that tells so.
    pub instead: Option<(&'static str, &'static str)>,
    /// The heading of its column.
    pub heading: &'static str,
    /// Its place.
    pub shown: Shown,
}

/// The metrics of the summary that are computed and are not quantities themselves.
const COMPUTED: &[SummaryMetric] = &[
    computed("latency.p50", "p50", Shown::at(10, 0)),
    computed("latency.p90", "p90", Shown::at(11, 4)),
    computed("latency.p99", "p99", Shown::at(12, 1)),
    // How many samples a query has may be unknown.
    SummaryMetric {
        instead: Some(("throughput.queries", "queries")),
        ..computed("throughput.samples", "throughput", Shown::at(20, 1))
    },
    computed("model.flops-utilisation", "MFU", Shown::at(25, 4).if_measured()),
    computed("model.bandwidth-utilisation", "bandwidth used", Shown::at(26, 5).if_measured()),
    computed("training.throughput", "trained", Shown::at(22, 2).if_measured()),
    computed("training.cost-of-looking", "cost of looking", Shown::at(23, 4).if_measured()),
    computed("scaling.training-to-inference", "step to pass", Shown::at(24, 4).if_measured()),
    computed(
        "energy.device-per-sample",
        "device energy per sample",
        Shown::at(40, 3).if_measured(),
    ),
    computed(
        "energy.package-per-sample",
        "processor energy per sample",
        Shown::at(41, 3).if_measured(),
    ),
    SummaryMetric {
        or_first_of: Some("accuracy."),
        ..computed("accuracy.top1", "accuracy", Shown::at(50, 2))
    },
    computed("training.test-accuracy", "test accuracy", Shown::at(51, 2).if_measured()),
    computed("stability.changes", "steadiness", Shown::at(60, 5)),
];

const fn computed(metric: &'static str, heading: &'static str, shown: Shown) -> SummaryMetric {
    SummaryMetric { metric, or_first_of: None, instead: None, heading, shown }
}

/// The metric plugins that come with the tool; every other one is someone's own.
const BUNDLED: &[&str] = &[
    "latency",
    "throughput",
    "memory",
    "energy",
    "accuracy",
    "startup",
    "stability",
    "scaling",
    "model",
    "training",
];

/// Returns whether a metric is of a plugin that comes with the tool.
#[must_use]
pub fn is_bundled(metric: &str) -> bool {
    metric.split('.').next().is_some_and(|plugin| BUNDLED.contains(&plugin))
}

/// Returns the metrics of the summary, from left to right.
#[must_use]
pub fn summary() -> Vec<SummaryMetric> {
    let stated = QUANTITIES.iter().filter_map(|quantity| {
        let (metric, shown) = quantity.metric?;
        Some(computed(metric, quantity.heading, shown?))
    });
    let mut all: Vec<_> = COMPUTED.iter().copied().chain(stated).collect();
    all.sort_by_key(|metric| metric.shown.order);
    all
}

impl SummaryMetric {
    /// Returns the metric to show, among the available ones.
    pub fn find<'a>(&self, metrics: impl IntoIterator<Item = &'a str> + Clone) -> Option<&'a str> {
        let exact = metrics.clone().into_iter().find(|metric| *metric == self.metric);
        exact.or_else(|| {
            let start = self.or_first_of?;
            metrics.into_iter().find(|metric| metric.starts_with(start))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_stand_in_their_order() {
        let headings: Vec<_> = summary().iter().map(|metric| metric.heading).collect();
        assert_eq!(
            headings.join(", "),
            "p50, p90, p99, throughput, trained, cost of looking, step to pass, MFU, bandwidth used, peak memory, device \
             memory, allocator's memory, device energy per sample, processor energy per sample, accuracy, test accuracy, \
             steadiness"
        );
        let accuracy = summary().into_iter().find(|metric| metric.heading == "accuracy");
        let accuracy = accuracy.expect("a metric");
        assert_eq!(accuracy.find(["latency.p50", "accuracy.top5"]), Some("accuracy.top5"));
        assert_eq!(accuracy.find(["accuracy.top5", "accuracy.top1"]), Some("accuracy.top1"));
        assert_eq!(accuracy.find(["latency.p50"]), None);
    }
}
