//! What the outputs of a case are compared with before it is timed, and what came of it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::backend::{DeviceInfo, PluginIdentity};
use crate::case::FileId;
use crate::key::Precision;
use crate::names::names;

/// How far an output may be from the reference's. A value is within it where
/// |output − reference| ≤ `absolute` + `relative` · |reference|, as NumPy's `allclose` has it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Tolerance {
    /// What a value may be off by, whatever its size.
    pub absolute: f64,
    /// What it may be off by besides, as a part of the reference's value.
    pub relative: f64,
    /// The cosine of the angle between output and reference, each as one vector, is at least this.
    pub cosine: f64,
}

impl fmt::Display for Tolerance {
    /// `1e-4 + 1e-3 of the value, cosine 0.9999`
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { absolute, relative, cosine } = self;
        write!(formatter, "{absolute:e} + {relative:e} of the value, cosine {cosine}")
    }
}

impl Tolerance {
    /// What is allowed where a manifest says nothing. Precisions of floating point are given a few
    /// hundred of their own rounding steps, as errors of long sums add up; what quantising costs
    /// depends on the model, so that `int8` is judged by the direction above all.
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

/// Which backend made the outputs that those of a case are compared with, and of what.
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
    /// How far outputs may be from the reference's.
    pub tolerance: Tolerance,
}

impl Check {
    /// The reference in words: `cpu 0.1.0 on cpu:0 in fp32`.
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
        /// Values are infinite or not a number, where the reference's are finite.
        NotFinite = "not-finite",
        /// All values are zero.
        Zeros = "zeros",
        /// The outputs do not follow the inputs: two batches have the same.
        Stale = "stale",
        /// Values are further off than the tolerance allows.
        BeyondTolerance = "beyond-tolerance",
    }
}

/// How the outputs of a case compare with the reference's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Parity {
    /// The reference in words.
    pub reference: String,
    /// What was allowed.
    pub tolerance: Tolerance,
    /// Different batches that were compared.
    pub batches: u64,
    /// Each output.
    pub outputs: Vec<OutputParity>,
}

/// How one output compares with the reference's, over all batches. An error that is infinite or not a
/// number is absent.
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
    /// Cosine of the angle between output and reference; absent where either is zero.
    pub cosine: Option<f64>,
    /// Share of rows along the last axis whose greatest value is in the same place; absent where the
    /// output has no such rows.
    pub top1: Option<f64>,
}
