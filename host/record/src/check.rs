//! The reference for a case's outputs before it is timed, and the result of the comparison.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::backend::{DeviceInfo, PluginIdentity};
use crate::file::FileId;
use crate::key::Precision;
use crate::names::names;

/// Largest accepted difference from the reference's output. A value is within it if
/// |output − reference| ≤ `absolute` + `of_scale` · scale + `relative` · |reference|, as in NumPy's `allclose`, but
/// with a part that follows the size of the output. The scale is the contraharmonic mean of the reference's sizes,
/// Σ reference² / Σ |reference|: their mean, each weighted by itself. Unlike the root mean square it does not shrink
/// with the number of values that are nearly zero, of which a softmax over many classes has many.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Tolerance {
    /// Error allowed for values of any size, in the output's own unit.
    pub absolute: f64,
    /// Additional error, as a part of the scale of the reference's output. Records from before it
    /// existed have 0.
    #[serde(default)]
    pub of_scale: f64,
    /// Additional error, relative to the reference's value.
    pub relative: f64,
    /// Share of values that may be off by up to ten times as much: the errors of rounding have a tail, and the
    /// greatest of many values lies in it. Records from before it existed have 0.
    #[serde(default)]
    pub outliers: f64,
    /// The cosine of the angle between output and reference, each as one vector, is at least this. So is their
    /// correlation: the cosine after subtracting the mean of each.
    pub cosine: f64,
    /// Smallest accepted share of rows that have the same class, for outputs that are class scores, and of equal
    /// values, for outputs that are whole numbers. Records from before it existed have 0.
    #[serde(default)]
    pub top1: f64,
}

impl fmt::Display for Tolerance {
    /// Writes `1e-4 of the scale + 1e-3 of the value, 0.5 % of values ten times as much, cosine 0.9999, top-1 99.9 %`,
    /// without the parts that are 0.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { absolute, of_scale, relative, outliers, cosine, top1 } = *self;
        if absolute > 0.0 {
            write!(formatter, "{absolute:e} + ")?;
        }
        if of_scale > 0.0 {
            write!(formatter, "{of_scale:e} of the scale + ")?;
        }
        write!(formatter, "{relative:e} of the value")?;
        if outliers > 0.0 {
            let percent = (1e4 * outliers).round() / 1e2;
            write!(formatter, ", {percent} % of values ten times as much")?;
        }
        write!(formatter, ", cosine {cosine}")?;
        if top1 > 0.0 {
            let percent = (1e3 * top1).round() / 10.0;
            write!(formatter, ", top-1 {percent} %")?;
        }
        Ok(())
    }
}

impl Tolerance {
    /// How many times as much an outlier may be off.
    pub const OUTLIER: f64 = 10.0;

    /// Returns the default tolerance. Floating-point precisions get a few tens or hundreds of their own
    /// rounding steps, because errors of long sums add up; the error of quantisation depends on the
    /// model, so `int8` is judged mainly by direction, correlation and class. So is `bf16`: where it is honest, logits
    /// err by 1 % of their spread, and large probabilities by tens of per cent. None depends on the unit of the
    /// output: all its values times a constant pass or fail as before, unless they lie between 0 and 1. Engines that
    /// compute in fp32 are apart by these amounts on public models: see `docs/reference/field.md`.
    #[must_use]
    pub const fn of(precision: Precision) -> Self {
        let (of_scale, relative, outliers, cosine, top1) = match precision {
            Precision::Fp32 => (1e-4, 1e-3, 5e-3, 0.9999, 0.999),
            Precision::Fp16 => (3e-2, 2e-2, 0.0, 0.999, 0.99),
            Precision::Bf16 => (3e-1, 1e-1, 0.0, 0.99, 0.98),
            Precision::Int8 => (1.0, 0.5, 0.0, 0.95, 0.9),
        };
        Self { absolute: 0.0, of_scale, relative, outliers, cosine, top1 }
    }

    /// Returns the greatest accepted error of a row as a part of the row's size: twice the error that takes as much from
    /// the cosine as it may lose over all rows, because a single row may err more than all together.
    #[must_use]
    pub fn row_error(&self) -> f64 {
        (2.0 * (2.0 * (1.0 - self.cosine)).max(0.0).sqrt()).max(self.relative)
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
    /// Values that are further off than the tolerance allows, outliers included.
    pub beyond: u64,
    /// Values that are further off than it allows to outliers. Records from before they existed have 0.
    #[serde(default)]
    pub far_beyond: u64,
    /// Greatest difference.
    pub max_absolute_error: Option<f64>,
    /// Greatest difference as a part of the reference's value, over values that are larger than the part of the
    /// tolerance that is the same for all values.
    pub max_relative_error: Option<f64>,
    /// Contraharmonic mean of the sizes of the reference's values.
    pub scale: Option<f64>,
    /// Cosine similarity of output and reference; absent if either is zero.
    pub cosine: Option<f64>,
    /// Correlation of output and reference (Pearson's); absent if the reference's values differ by little more
    /// than the rounding of the precision.
    pub correlation: Option<f64>,
    /// Greatest error of a row as a part of its own size, both root mean square; of a quarter of the typical row's size
    /// if the row is smaller. Rows lie along the last axis; an output with more than three axes has a row for each
    /// example. Absent if there are no rows, for whole numbers, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_error: Option<f64>,
    /// Share of rows along the last axis whose largest value is in the same place; absent if the
    /// output has no such rows.
    pub top1: Option<f64>,
    /// The same share among rows whose largest value clearly stands out in the reference; absent if the output
    /// is not class scores, or no row is clear. For whole numbers, the share of equal values.
    pub same_class: Option<f64>,
}

impl OutputParity {
    /// Returns the share of rows whose largest value is in the same place, if the rows are class scores. Of other
    /// outputs, such as the map of a detector, it means nothing.
    #[must_use]
    pub fn shown_top1(&self) -> Option<f64> {
        self.top1.filter(|_| self.same_class.is_some())
    }
}
