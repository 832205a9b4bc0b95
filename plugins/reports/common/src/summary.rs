//! The table that every report opens with: a row for each case, a column for what most readers
//! want to know first.

use crate::{Case, Run, class, humanise_interval, humanise_metric};

/// A column of the summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryColumn {
    /// What stands above it.
    pub heading: &'static str,
    /// The metric that it shows.
    pub metric: String,
}

/// A cell of the summary.
#[derive(Debug, Clone, PartialEq)]
pub enum SummaryCell<'a> {
    /// A value, and the interval around it where there is one.
    Value {
        /// The value with its unit.
        value: String,
        /// The interval in words.
        interval: Option<String>,
    },
    /// Why there is no value.
    Gap(&'a str),
    /// The metric says nothing about this case, which did not finish or was not asked about.
    Nothing,
}

/// Wanted columns: heading, the metric's name, and the prefix of a name that will do as well.
const COLUMNS: [(&str, &str, &str); 11] = [
    ("p50", "latency.p50", ""),
    ("p90", "latency.p90", ""),
    ("p99", "latency.p99", ""),
    ("throughput", "throughput.samples", ""),
    ("peak memory", "memory.peak", "memory.peak"),
    ("device memory", "memory.device-peak", ""),
    ("allocator's memory", "memory.allocator-peak", ""),
    ("device energy per sample", "energy.device-per-sample", ""),
    ("processor energy per sample", "energy.package-per-sample", ""),
    ("accuracy", "accuracy.top1", "accuracy."),
    ("steadiness", "stability.changes", ""),
];

/// Metrics that many machines cannot have, such as the memory of a device where there is none beside the
/// processor. A column of nothing but gaps would say no more than that.
const WHERE_THERE_IS: [&str; 4] = [
    "memory.device-peak",
    "memory.allocator-peak",
    "energy.device-per-sample",
    "energy.package-per-sample",
];

/// The columns for which some case has a value or a gap; of memory and energy of the device, of what its
/// engine's allocator counted and of the processor's energy, those for which some case has a value.
#[must_use]
pub fn summary_columns(run: &Run) -> Vec<SummaryColumn> {
    let metrics = run.metrics();
    let find = |name: &str, prefix: &str| {
        let exact = metrics.iter().find(|metric| **metric == name);
        let close =
            || metrics.iter().find(|metric| !prefix.is_empty() && metric.starts_with(prefix));
        exact.or_else(close).map(|metric| (*metric).to_owned())
    };
    let has_value = |metric: &str| run.cases.iter().any(|case| case.value(metric).is_some());
    COLUMNS
        .iter()
        .filter_map(|(heading, name, prefix)| {
            let metric = find(name, prefix)?;
            let is_wanted = !WHERE_THERE_IS.contains(&&*metric) || has_value(&metric);
            is_wanted.then_some(SummaryColumn { heading, metric })
        })
        .collect()
}

impl SummaryColumn {
    /// The cell for a case.
    #[must_use]
    pub fn cell<'a>(&self, case: &'a Case) -> SummaryCell<'a> {
        let Some(result) = case.result(&self.metric).filter(|_| case.is_finished())
        else {
            return SummaryCell::Nothing;
        };
        match &result.value {
            // The number is what the word was made of.
            Ok(value) => match class(result) {
                Some(class) => SummaryCell::Value { value: class.to_owned(), interval: None },
                None => SummaryCell::Value {
                    value: humanise_metric(&result.metric, *value, &result.unit),
                    interval: result.interval.map(|interval| {
                        humanise_interval(&result.metric, *value, interval, &result.unit)
                    }),
                },
            },
            Err(gap) => SummaryCell::Gap(&gap.reason),
        }
    }
}
