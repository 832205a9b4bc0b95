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

impl MetricValue {
    /// Returns the value of each process, if the case was measured in several and the metric states them.
    #[must_use]
    pub fn process_values(&self) -> Option<Vec<f64>> {
        process_values(self.attributes.get("process-values")?)
    }

    /// Returns the bounds between which another process's value will lie, if the metric states them.
    #[must_use]
    pub fn prediction(&self) -> Option<(f64, f64)> {
        let bound = |name: &str| self.attributes.get(name)?.parse().ok();
        Some((bound("prediction-low")?, bound("prediction-high")?))
    }
}

/// Reads the attribute `process-values`: the value of each process, if there are several and all are numbers.
#[must_use]
pub fn process_values(text: &str) -> Option<Vec<f64>> {
    let values: Option<Vec<f64>> = text.split(' ').map(|value| value.parse().ok()).collect();
    values.filter(|values| values.len() > 1 && values.iter().all(|value| value.is_finite()))
}

/// A value that was not measured. It never stands among results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Prediction {
    /// Coordinates of the configuration, by the names of axes.
    pub coordinates: BTreeMap<String, String>,
    /// The metric that a measurement would state.
    pub metric: String,
    /// The value, in `unit`.
    pub value: f64,
    /// Bounds between which a measurement would lie, with this confidence.
    pub interval: (f64, f64),
    /// The part of such measurements that lie in such intervals, between 0 and 1.
    pub confidence: f64,
    /// Unit by its symbol.
    pub unit: String,
    /// Ids of the cases that it was made from.
    pub cases: Vec<String>,
    /// Other facts from the recommender.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_read_from_attributes() {
        let of = |attributes: &[(&str, &str)]| MetricValue {
            metric: "latency.p50".into(),
            value: Ok(2.0),
            interval: None,
            unit: "ns".into(),
            direction: Direction::Lower,
            attributes: attributes
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect(),
        };
        let values = |text: &str| of(&[("process-values", text)]).process_values();
        assert_eq!(values("1.5 2.5"), Some(vec![1.5, 2.5]));
        for text in ["", "1.5", "1.5 x", "1.5 NaN"] {
            assert_eq!(values(text), None, "{text}");
        }
        assert_eq!(of(&[("prediction-low", "1")]).prediction(), None);
        let both = of(&[("prediction-low", "1"), ("prediction-high", "3")]);
        assert_eq!(both.prediction(), Some((1.0, 3.0)));
    }
}
