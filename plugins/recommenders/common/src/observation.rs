//! Measured cases as observations that predictions are made from.

use report_common::{Axis, AxisRole, Case, CaseKey, Scenario};

use crate::roofline::{Ideal, Observation};

/// Nanoseconds of a second.
const NANOSECONDS: f64 = 1e9;

/// The metric that a time of a batch is taken from, by the scenario; `None` for scenarios whose times depend on the load.
#[must_use]
pub fn metric_of(scenario: Scenario) -> Option<&'static str> {
    match scenario {
        Scenario::SingleStream => Some("latency.p50"),
        Scenario::Offline => Some("throughput.samples"),
        _ => None,
    }
}

/// Returns the value of the scenario's metric for a time of a batch.
#[must_use]
pub fn metric_value(scenario: Scenario, batch: f64, seconds: f64) -> f64 {
    match scenario {
        Scenario::Offline => batch / seconds,
        _ => seconds * NANOSECONDS,
    }
}

/// Returns the seconds of a batch for a value of the scenario's metric.
#[must_use]
pub fn seconds_of(scenario: Scenario, batch: f64, value: f64) -> f64 {
    match scenario {
        Scenario::Offline => batch / value,
        _ => value / NANOSECONDS,
    }
}

/// Returns a measured case as an observation; `None` if it has no time of a batch that counts.
#[must_use]
pub fn observation(case: &Case) -> Option<Observation> {
    let report = case.report()?;
    if case.valid() == Some(false) || report.used.contains_key("simulated") {
        return None;
    }
    // With the coordinates of the plan: a searched rate is none of them.
    let key = &case.record.key;
    let batch = f64::from(key.batch);
    let value = case.value(metric_of(key.scenario)?)?;
    Some(Observation {
        case: case.id.clone(),
        family: family_of(key),
        group: group_of(key),
        batch,
        seconds: seconds_of(key.scenario, batch, value),
        ideal: work_of(case).zip(peaks_of(case)).map(|(work, peaks)| work.at(&peaks)),
    })
}

/// Returns the name of the family: all coordinates but the batch.
#[must_use]
pub fn family_of(key: &CaseKey) -> String {
    let axes = Axis::ALL.iter().filter(|axis| **axis != Axis::Batch);
    let words: Vec<String> = axes.filter_map(|axis| axis.labelled(key)).collect();
    words.join(" · ")
}

/// Returns the name of the group of families that are fitted together.
#[must_use]
pub fn group_of(key: &CaseKey) -> String {
    format!("{} · {} · {}", key.backend, key.mode, key.scenario)
}

/// Operations and bytes of a pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Operations.
    pub operations: f64,
    /// Bytes that move at least.
    pub bytes: f64,
    /// Bytes of weights among them, which do not grow with the batch.
    pub weight_bytes: f64,
}

/// Peaks of a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DevicePeaks {
    /// Operations for each second.
    pub operations: f64,
    /// Bytes for each second.
    pub bytes: f64,
}

impl Work {
    /// Returns the least times by the peaks of a device.
    #[must_use]
    pub fn at(&self, peaks: &DevicePeaks) -> Ideal {
        Ideal { compute: self.operations / peaks.operations, memory: self.bytes / peaks.bytes }
    }

    /// Returns the work of another batch: operations, inputs and outputs grow with it, and weights are read once.
    #[must_use]
    pub fn of_batch(&self, measured: f64, wanted: f64) -> Self {
        let growth = wanted / measured;
        Self {
            operations: self.operations * growth,
            bytes: self.weight_bytes + (self.bytes - self.weight_bytes) * growth,
            weight_bytes: self.weight_bytes,
        }
    }

    /// Returns the work if each number has another size.
    #[must_use]
    pub fn of_width(&self, factor: f64) -> Self {
        Self {
            operations: self.operations,
            bytes: self.bytes * factor,
            weight_bytes: self.weight_bytes * factor,
        }
    }
}

/// Returns the work of a case's pass, if the model's graph tells it.
#[must_use]
pub fn work_of(case: &Case) -> Option<Work> {
    let card = case.conditions()?.model.as_ref()?.card.as_ref()?.as_ref().ok()?;
    let operations = *card.cost.flops.as_ref().ok()? as f64;
    let bytes = *card.cost.least_bytes.as_ref().ok()? as f64;
    let weight_bytes: u64 = card.weights.values().map(|weights| weights.bytes).sum();
    // Weights that are only looked up in are not read as a whole.
    Some(Work { operations, bytes, weight_bytes: (weight_bytes as f64).min(bytes) })
}

/// Returns the peaks of a case's device in its precision, if they are known.
#[must_use]
pub fn peaks_of(case: &Case) -> Option<DevicePeaks> {
    let peaks = case.conditions()?.peaks.as_ref()?.as_ref().ok()?;
    Some(DevicePeaks {
        operations: *peaks.flops_per_second.as_ref().ok()?,
        bytes: *peaks.bytes_per_second.as_ref().ok()?,
    })
}

/// Returns whether two cases are of the same task: model, mode and input shape.
#[must_use]
pub fn is_same_task(one: &CaseKey, other: &CaseKey) -> bool {
    let mut axes = Axis::ALL.iter().filter(|axis| axis.role() == AxisRole::Task);
    axes.all(|axis| axis.of(one) == axis.of(other))
}
