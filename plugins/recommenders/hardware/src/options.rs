//! Options of the recommender.

use plugin_guest::Error;
use recommender_common::limit::{LimitOption, Quantity};
use report_common::host_record::summary;
use report_common::{Direction, Run, humanise_metric, parse_quantity};
use serde::Deserialize;

/// The options, as the manifest's `[[recommend]]` table gives them.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Options {
    /// Limits for a configuration.
    pub limits: Vec<LimitOption>,
    /// Objectives: metrics to be best in; each has a direction of its own.
    pub objectives: Vec<String>,
    /// Metrics in which no clear loss may go unmentioned.
    pub considered: Vec<String>,
    /// Prices of backends, which the manifest has.
    pub prices: Vec<PriceOption>,
}

/// The price of an hour of a backend.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PriceOption {
    /// The backend's id.
    pub backend: String,
    /// One of its devices; otherwise all.
    #[serde(default)]
    pub device: Option<String>,
    /// The price of an hour.
    pub per_hour: f64,
}

/// The price of a million samples.
pub(crate) const COST: &str = "cost.per-million-samples";
/// The device's memory, by its driver.
const DEVICE_MEMORY: &str = "memory.device-peak";
/// The device's memory, by the allocator of the engine.
const ALLOCATOR_MEMORY: &str = "memory.allocator-peak";
/// The device's energy.
const DEVICE_ENERGY: &str = "energy.device-per-sample";
/// The energy of the processors' packages.
const PACKAGE_ENERGY: &str = "energy.package-per-sample";

/// Returns whether a metric depends on the kind of device and its counters. A device without memory
/// of its own, or without a counter, is not worse than one with it: the metric is compared between
/// those that have it.
pub(crate) fn is_of_device(metric: &str) -> bool {
    let mut summary = summary().into_iter();
    summary.any(|known| known.metric == metric && known.shown.only_if_measured)
}

/// Returns the metric that is more exact than this one. A driver knows more about the device's memory
/// than an allocator does; and if a device counts its energy, that of the processors is not the
/// configuration's.
pub(crate) fn said_better_by(metric: &str) -> Option<&'static str> {
    match metric {
        ALLOCATOR_MEMORY => Some(DEVICE_MEMORY),
        PACKAGE_ENERGY => Some(DEVICE_ENERGY),
        _ => None,
    }
}

impl Default for Options {
    fn default() -> Self {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Self {
            limits: Vec::new(),
            objectives: names(&["latency.p99", "throughput.samples"]),
            considered: names(&[
                "memory.peak",
                DEVICE_MEMORY,
                ALLOCATOR_MEMORY,
                DEVICE_ENERGY,
                PACKAGE_ENERGY,
                "accuracy.top1",
            ]),
            prices: Vec::new(),
        }
    }
}

/// A limit that is understood: one bound on one metric.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Limit {
    pub(crate) metric: String,
    pub(crate) unit: String,
    pub(crate) bound: f64,
    pub(crate) side: Side,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    AtMost,
    AtLeast,
}

impl Limit {
    /// The metric's name beside a bound, whose unit says that it is a latency: `p99`.
    pub(crate) fn name(&self) -> String {
        match self.metric.split_once('.') {
            Some(("latency", statistic)) => statistic.to_owned(),
            _ => metric_name(&self.metric),
        }
    }

    /// `p99 ≤ 5 ms`.
    pub(crate) fn text(&self) -> String {
        let side = if self.side == Side::AtMost { '≤' } else { '≥' };
        let bound = humanise_metric(&self.metric, self.bound, &self.unit);
        // A bound is exact: zeros that stand for precision would be out of place.
        let (number, rest) = bound.split_at(
            bound.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(bound.len()),
        );
        let number = match number.contains('.') {
            true => number.trim_end_matches('0').trim_end_matches('.'),
            false => number,
        };
        format!("{} {side} {number}{rest}", self.name())
    }
}

/// A metric to be best in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Objective {
    pub(crate) metric: String,
    pub(crate) direction: Direction,
}

impl Objective {
    /// Returns whether `one` is better than `other`.
    pub(crate) fn better(&self, one: f64, other: f64) -> bool {
        if self.direction == Direction::Higher { one > other } else { one < other }
    }

    /// `lowest p99 latency`.
    pub(crate) fn best(&self) -> String {
        let word = if self.direction == Direction::Higher { "highest" } else { "lowest" };
        format!("{word} {}", metric_name(&self.metric))
    }
}

/// Returns the common name of the host's metrics; others keep their own name.
pub(crate) fn metric_name(metric: &str) -> String {
    match metric.split_once('.') {
        Some(("latency", statistic)) => format!("{statistic} latency"),
        _ => {
            let known = summary().into_iter().find(|known| known.metric == metric);
            known.map_or(metric, |known| known.heading).to_owned()
        }
    }
}

/// Returns the limits of the options, in the units of the run's metrics.
pub(crate) fn limits(options: &Options, run: &Run) -> Result<Vec<Limit>, Error> {
    let mut limits = Vec::new();
    for option in &options.limits {
        let metric = option.metric.clone();
        let (unit, _) = known(run, "limits", &metric)?;
        let bounds = [(Side::AtMost, &option.at_most), (Side::AtLeast, &option.at_least)];
        let before = limits.len();
        for (side, quantity) in bounds {
            let bound = match quantity {
                None => continue,
                Some(Quantity::Number(number)) => *number,
                Some(Quantity::Text(text)) => parse_quantity(text, &unit)
                    .map_err(|reason| Error::Options(format!("limits: `{metric}`: {reason}")))?,
            };
            limits.push(Limit { metric: metric.clone(), unit: unit.clone(), bound, side });
        }
        if limits.len() == before {
            return Err(Error::Options(format!(
                "limits: `{metric}` has neither `at-most` nor `at-least`"
            )));
        }
    }
    Ok(limits)
}

/// Returns the objectives of the options, with the directions of the run's metrics. A default that
/// was not measured is left out; one that was named must exist.
pub(crate) fn objectives(
    names: &[String],
    by_default: bool,
    option: &str,
    run: &Run,
) -> Result<Vec<Objective>, Error> {
    let mut objectives = Vec::new();
    for name in names {
        let name = &in_full(name, run);
        let direction = match known(run, option, name) {
            Ok((_, direction)) => direction,
            Err(_) if by_default => continue,
            Err(error) => return Err(error),
        };
        if direction == Direction::Neutral {
            return Err(Error::Options(format!(
                "{option}: neither a low nor a high `{name}` is better, so nothing can be best in it"
            )));
        }
        objectives.push(Objective { metric: name.clone(), direction });
    }
    Ok(objectives)
}

/// Returns the metric that a word for an objective stands for; of energy, the more exact that the run has. Another text is a
/// metric already.
fn in_full(name: &str, run: &Run) -> String {
    match name {
        "latency" => "latency.p99",
        "throughput" => "throughput.samples",
        "cost" => COST,
        "energy" => {
            let has = |metric: &str| run.cases.iter().any(|case| case.value(metric).is_some());
            if has(DEVICE_ENERGY) { DEVICE_ENERGY } else { PACKAGE_ENERGY }
        }
        metric => metric,
    }
    .to_owned()
}

/// Returns unit and direction of a metric of this run.
fn known(run: &Run, option: &str, metric: &str) -> Result<(String, Direction), Error> {
    let result = run.cases.iter().filter_map(|case| case.result(metric));
    let mut described = result.filter(|result| !result.unit.is_empty());
    described.next().map(|result| (result.unit.clone(), result.direction)).ok_or_else(|| {
        let names: Vec<_> = run.metrics().iter().map(|name| format!("`{name}`")).collect();
        Error::Options(format!(
            "{option}: this run has no metric `{metric}`; it has: {}",
            names.join(", ")
        ))
    })
}
