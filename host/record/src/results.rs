//! Answers of metrics and recommenders.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::gap::Gap;
use crate::names::names;

names! {
    /// Which way is better.
    Direction {
        /// Lower is better.
        Lower = "lower",
        /// Higher is better.
        Higher = "higher",
        /// Neither: the value only describes.
        Neutral = "neutral",
    }
}

/// One value of a metric for one case: a number or a gap, never both and never neither.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MetricValue {
    /// Dotted name, such as `latency.p99`; the part before the dot is the metric plugin's id.
    pub metric: String,
    /// The value in `unit`, or the reason why there is none.
    pub value: Result<f64, Gap>,
    /// Bounds of the interval around the value in the same unit, if the metric states one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
    /// Unit by its symbol: `ns`, `1/s`, `B`, `1` for a plain ratio.
    pub unit: String,
    /// Which way is better.
    pub direction: Direction,
    /// Other facts from the metric, such as the definition of the quantile.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
}

/// Advice of a recommender, with the cases that it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Recommendation {
    /// The advice in one line.
    pub title: String,
    /// The explanation, with the figures.
    pub explanation: String,
    /// Ids of the cases that support it; never empty for advice that states a number.
    pub cases: Vec<String>,
    /// Other facts from the recommender.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
}
