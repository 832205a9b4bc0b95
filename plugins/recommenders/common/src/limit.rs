//! Limits as manifests write them.

use serde::Deserialize;

/// A limit as written.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LimitOption {
    /// The metric.
    pub metric: String,
    /// The highest value that will do.
    #[serde(default)]
    pub at_most: Option<Quantity>,
    /// The lowest value that will do.
    #[serde(default)]
    pub at_least: Option<Quantity>,
}

/// A number in the metric's own unit, or text with a unit.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "a number in the metric's unit, or text such as \"5ms\"")]
pub enum Quantity {
    /// In the metric's own unit.
    Number(f64),
    /// With a unit.
    Text(String),
}
