//! Options of the recommender, and its limits.

use plugin_guest::Error;
use recommender_common::limit::{LimitOption, Quantity};
use report_common::host_record::Precision;
use report_common::{Run, humanise_metric, parse_quantity};
use serde::Deserialize;

/// The options.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Options {
    /// Limits that a batch has to meet.
    pub limits: Vec<LimitOption>,
    /// Relative width of the interval at which the search for the largest batch ends.
    pub resolution: f64,
    /// The largest batch that is tried.
    pub up_to: u32,
    /// Precisions to try besides those of the matrix.
    pub precisions: Vec<Precision>,
    /// Loss of accuracy that is accepted, as a part of all examples.
    pub accuracy_within: Option<f64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Vec::new(),
            resolution: 0.05,
            up_to: 65_536,
            precisions: Vec::new(),
            accuracy_within: None,
        }
    }
}

/// A limit in the unit of its metric.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Limit {
    pub(crate) metric: String,
    pub(crate) unit: String,
    pub(crate) bound: f64,
    pub(crate) is_upper: bool,
}

impl Limit {
    pub(crate) fn keeps(&self, value: f64) -> bool {
        if self.is_upper { value <= self.bound } else { value >= self.bound }
    }

    /// `memory.peak ≤ 2.00 GiB`.
    pub(crate) fn text(&self) -> String {
        let side = if self.is_upper { '≤' } else { '≥' };
        let bound = humanise_metric(&self.metric, self.bound, &self.unit);
        format!("{} {side} {bound}", self.metric)
    }
}

impl Options {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong = |text: &str| Err(Error::Options(text.to_owned()));
        if !(self.resolution > 0.0 && self.resolution < 1.0) {
            return wrong("`resolution` lies between 0 and 1, such as 0.05");
        }
        if self.up_to == 0 {
            return wrong("`up-to` is a batch of at least 1");
        }
        if self.accuracy_within.is_some_and(|part| !(0.0..1.0).contains(&part)) {
            return wrong("`accuracy-within` is a part of all examples from 0 to 1, such as 0.01");
        }
        for limit in &self.limits {
            if limit.at_most.is_some() == limit.at_least.is_some() {
                return Err(Error::Options(format!(
                    "limits: `{}` needs one of `at-most` and `at-least`",
                    limit.metric
                )));
            }
        }
        Ok(())
    }

    /// Returns the limits in the units of the run's metrics.
    pub(crate) fn limits(&self, run: &Run) -> Result<Vec<Limit>, Error> {
        let limit = |option: &LimitOption| {
            let results = run.cases.iter().filter_map(|case| case.result(&option.metric));
            let unit = results.map(|result| result.unit.clone()).find(|unit| !unit.is_empty());
            let has_none = run.metrics().is_empty();
            let unit = unit.or_else(|| has_none.then(|| unit_of(option))).ok_or_else(|| {
                let names: Vec<_> = run.metrics().iter().map(|it| format!("`{it}`")).collect();
                Error::Options(format!(
                    "limits: this run has no metric `{}`; it has: {}",
                    option.metric,
                    names.join(", ")
                ))
            })?;
            let (quantity, is_upper) = match (&option.at_most, &option.at_least) {
                (Some(most), _) => (most, true),
                (None, Some(least)) => (least, false),
                (None, None) => return Err(Error::Options("limits: no bound".to_owned())),
            };
            let bound = match quantity {
                Quantity::Number(number) => *number,
                Quantity::Text(text) => parse_quantity(text, &unit).map_err(|reason| {
                    Error::Options(format!("limits: `{}`: {reason}", option.metric))
                })?,
            };
            Ok(Limit { metric: option.metric.clone(), unit, bound, is_upper })
        };
        self.limits.iter().map(limit).collect()
    }
}

/// Returns the unit of a bound, if no case was measured to tell that of its metric: then only failures and gaps are judged,
/// and the bound is shown.
fn unit_of(option: &LimitOption) -> String {
    let text = match option.at_most.as_ref().or(option.at_least.as_ref()) {
        Some(Quantity::Text(text)) => text.as_str(),
        Some(Quantity::Number(_)) | None => return "1".to_owned(),
    };
    let fits = |unit: &&str| parse_quantity(text, unit).is_ok();
    ["B", "ns"].into_iter().find(fits).unwrap_or("1").to_owned()
}
