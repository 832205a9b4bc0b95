//! Results of metrics without what comparisons do not need.

use host_record::{Direction, Gap};
use host_statistics::outcomes_of_text;
use serde::Deserialize;

/// A line of `results.jsonl`, without what comparisons do not need.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct GlancedResult {
    pub(super) record_version: u32,
    /// The case.
    pub(super) case_id: String,
    pub(super) plugin: PluginPart,
    #[serde(default)]
    pub(super) options: serde_json::Value,
    /// The plugin's values.
    pub(super) values: Vec<GlancedValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PluginPart {
    pub(super) id: String,
}

/// A value of a metric, without most of its attributes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct GlancedValue {
    /// The metric.
    pub metric: String,
    /// The value in `unit`, or the reason why there is none.
    pub value: Result<f64, Gap>,
    /// Bounds of its interval.
    #[serde(default)]
    pub interval: Option<(f64, f64)>,
    /// Unit by its symbol.
    pub unit: String,
    /// Which way is better.
    pub direction: Direction,
    #[serde(default)]
    attributes: AttributesPart,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct AttributesPart {
    #[serde(default)]
    process_values: Option<String>,
    #[serde(default)]
    confidence: Option<String>,
    #[serde(default)]
    examples: Option<String>,
    #[serde(default)]
    outcomes: Option<String>,
    #[serde(default)]
    labels_hash: Option<String>,
}

/// Outcomes of the labelled examples of an accuracy: right or wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExampleOutcomes {
    /// A hash of the labels: outcomes of other examples are not comparable.
    pub labels: String,
    /// Whether each example is right.
    pub right: Vec<bool>,
}

impl GlancedValue {
    /// Returns the value of each process, if there are several and the metric states them.
    #[must_use]
    pub fn process_values(&self) -> Option<Vec<f64>> {
        host_record::process_values(self.attributes.process_values.as_deref()?)
    }

    /// Returns whether each labelled example is right, if the metric states it.
    #[must_use]
    pub fn outcomes(&self) -> Option<ExampleOutcomes> {
        let AttributesPart { examples, outcomes, labels_hash, .. } = &self.attributes;
        let right = outcomes_of_text(outcomes.as_ref()?, examples.as_ref()?.parse().ok()?)?;
        Some(ExampleOutcomes { labels: labels_hash.clone()?, right })
    }

    /// Returns the confidence of its interval, if the metric states it.
    #[must_use]
    pub fn confidence(&self) -> Option<f64> {
        self.attributes.confidence.as_ref()?.parse().ok()
    }
}

impl From<&host_record::MetricValue> for GlancedValue {
    fn from(value: &host_record::MetricValue) -> Self {
        let attribute = |name: &str| value.attributes.get(name).cloned();
        Self {
            metric: value.metric.clone(),
            value: value.value.clone(),
            interval: value.interval,
            unit: value.unit.clone(),
            direction: value.direction,
            attributes: AttributesPart {
                process_values: attribute("process-values"),
                confidence: attribute("confidence"),
                examples: attribute("examples"),
                outcomes: attribute("outcomes"),
                labels_hash: attribute("labels-hash"),
            },
        }
    }
}
