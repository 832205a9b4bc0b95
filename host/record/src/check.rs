//! The reference for a case's outputs before it is timed, and the result of the comparison.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::backend::{DeviceInfo, PluginIdentity};
use crate::file::FileId;
use crate::key::Precision;
use crate::names::names;

/// Largest accepted difference from the reference's output. A value is within it if
/// |output − reference| ≤ `absolute` + `relative` · |reference|, as in NumPy's `allclose`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Tolerance {
    /// Largest absolute error, for values of any size.
    pub absolute: f64,
    /// Additional error, relative to the reference's value.
    pub relative: f64,
    /// The cosine of the angle between output and reference, each as one vector, is at least this.
    pub cosine: f64,
}

impl fmt::Display for Tolerance {
    /// Writes `1e-4 + 1e-3 of the value, cosine 0.9999`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { absolute, relative, cosine } = self;
        write!(formatter, "{absolute:e} + {relative:e} of the value, cosine {cosine}")
    }
}

impl Tolerance {
    /// Returns the default tolerance. Floating-point precisions get a few hundred of their own
    /// rounding steps, because errors of long sums add up; the error of quantisation depends on the
    /// model, so `int8` is judged mainly by the direction.
    #[must_use]
    pub const fn of(precision: Precision) -> Self {
        let (absolute, relative, cosine) = match precision {
            Precision::Fp32 => (1e-4, 1e-3, 0.9999),
            Precision::Fp16 => (1e-2, 1e-2, 0.999),
            Precision::Bf16 => (1e-1, 5e-2, 0.99),
            Precision::Int8 => (1.0, 0.5, 0.95),
        };
        Self { absolute, relative, cosine }
    }
}

/// The backend that made the reference's outputs, and their inputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Check {
    /// Names the reference's outputs: a hash of all that defines them.
    pub id: String,
    /// The plugin that makes them.
    pub plugin: PluginIdentity,
    /// The device that they are made on.
    pub device: DeviceInfo,
    /// The precision that they are made in.
    pub precision: Precision,
    /// The model's file.
    pub model: FileId,
    /// Threads that the reference may use; `None` leaves it to the backend.
    pub threads: Option<u32>,
    /// Options passed through to the reference.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// Largest accepted difference from the reference's outputs.
    pub tolerance: Tolerance,
}

impl Check {
    /// Returns the reference in words: `cpu 0.1.0 on cpu:0 in fp32`.
    #[must_use]
    pub fn reference(&self) -> String {
        let Self { plugin, device, precision, .. } = self;
        format!("{} {} on {} in {precision}", plugin.id, plugin.version, device.id)
    }
}

names! {
    /// In what way outputs differ from the reference's.
    DifferenceKind {
        /// There are other outputs, or of another shape.
        Shape = "shape",
        /// Values are infinite or not a number, and the reference's are finite.
        NotFinite = "not-finite",
        /// All values are zero.
        Zeros = "zeros",
        /// The outputs do not follow the inputs: two batches have the same.
        Stale = "stale",
        /// Values are further off than the tolerance allows.
        BeyondTolerance = "beyond-tolerance",
    }
}

/// Comparison of a case's outputs with the reference's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Parity {
    /// The reference in words.
    pub reference: String,
    /// The tolerance.
    pub tolerance: Tolerance,
    /// Different batches that were compared.
    pub batches: u64,
    /// Each output.
    pub outputs: Vec<OutputParity>,
}

/// Comparison of one output with the reference's, over all batches. An infinite or undefined error is
/// absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct OutputParity {
    /// The output's name.
    pub name: String,
    /// Values compared.
    pub values: u64,
    /// Values that are further off than the tolerance allows.
    pub beyond: u64,
    /// Greatest difference.
    pub max_absolute_error: Option<f64>,
    /// Greatest difference as a part of the reference's value, over values whose size is more than the
    /// absolute tolerance.
    pub max_relative_error: Option<f64>,
    /// Cosine similarity of output and reference; absent if either is zero.
    pub cosine: Option<f64>,
    /// Share of rows along the last axis whose largest value is in the same place; absent if the
    /// output has no such rows.
    pub top1: Option<f64>,
}
