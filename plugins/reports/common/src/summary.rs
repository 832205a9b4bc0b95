//! The first table of every report: a row for each case, and columns for the most important values.

use host_record::summary;

use crate::{Case, Run, class, humanise_interval, humanise_metric};

/// A column of the summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryColumn {
    /// Heading of the column.
    pub heading: &'static str,
    /// The metric that it shows.
    pub metric: String,
    /// The metric that it shows for a case in which that one is a gap, and the word that tells so.
    pub instead: Option<(&'static str, &'static str)>,
    /// Order in which columns are dropped if there is little room: higher is sooner; 0 stays.
    pub gives_way: u8,
}

/// A cell of the summary.
#[derive(Debug, Clone, PartialEq)]
pub enum SummaryCell {
    /// A value, and the interval around it if there is one.
    Value {
        /// The value with its unit.
        value: String,
        /// The interval as text.
        interval: Option<String>,
    },
    /// Reason why there is no value.
    Gap(String),
    /// The metric has no entry for this case, because the case did not finish or the metric was not computed.
    Nothing,
}

/// Returns the columns for which some case has a value or a gap. Quantities that many machines lack get a column only
/// if some case has a value.
#[must_use]
pub fn summary_columns(run: &Run) -> Vec<SummaryColumn> {
    let metrics = run.metrics();
    let has_value = |metric: &str| run.cases.iter().any(|case| case.value(metric).is_some());
    summary()
        .into_iter()
        .filter_map(|wanted| {
            let metric = wanted.find(metrics.iter().copied())?;
            let is_wanted = !wanted.shown.only_if_measured || has_value(metric);
            let heading = wanted.heading;
            let (instead, gives_way) = (wanted.instead, wanted.shown.gives_way);
            is_wanted.then(|| SummaryColumn {
                heading,
                metric: metric.to_owned(),
                instead,
                gives_way,
            })
        })
        .collect()
}

impl SummaryColumn {
    /// Returns the value that the cell for a case shows.
    #[must_use]
    pub fn value(&self, case: &Case) -> Option<f64> {
        let instead = || self.instead.and_then(|(metric, _)| case.value(metric));
        case.value(&self.metric).or_else(instead).filter(|_| case.is_finished())
    }

    /// Returns the cell for a case.
    #[must_use]
    pub fn cell(&self, case: &Case) -> SummaryCell {
        let Some(result) = case.result(&self.metric).filter(|_| case.is_finished()) else {
            return SummaryCell::Nothing;
        };
        match &result.value {
            // The class is derived from this number.
            Ok(value) => match class(result) {
                Some(class) => SummaryCell::Value { value: class.to_owned(), interval: None },
                None => SummaryCell::Value {
                    value: humanise_metric(&result.metric, *value, &result.unit),
                    interval: result.interval.map(|interval| {
                        humanise_interval(&result.metric, *value, interval, &result.unit)
                    }),
                },
            },
            Err(gap) => {
                let other = self.instead.and_then(|(name, word)| Some((case.result(name)?, word)));
                let Some((other, word)) = other else { return SummaryCell::Gap(gap.to_string()) };
                let Ok(value) = other.value else { return SummaryCell::Gap(gap.to_string()) };
                let written = humanise_metric(&other.metric, value, &other.unit);
                let interval = other
                    .interval
                    .map(|interval| humanise_interval(&other.metric, value, interval, &other.unit));
                SummaryCell::Value { value: format!("{written} ({word})"), interval }
            }
        }
    }
}
