//! What defines a case, and what the worker is told about it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::pin::Pin;
use crate::table::Cell;

macro_rules! names {
    ($(#[$meta:meta])* $type:ident { $($(#[$variant_meta:meta])* $variant:ident = $name:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $type { $($(#[$variant_meta])* #[serde(rename = $name)] $variant),+ }

        impl $type {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name used in manifests, files and tables.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.pad(self.name())
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|value| value.name() == text).ok_or_else(|| {
                    let known: Vec<_> = Self::ALL.iter().map(|value| value.name()).collect();
                    format!("`{text}` is none of: {}", known.join(", "))
                })
            }
        }
    };
}
pub(crate) use names;

names! {
    /// The number format in which a model computes.
    Precision {
        /// IEEE 754 binary32.
        Fp32 = "fp32",
        /// IEEE 754 binary16.
        Fp16 = "fp16",
        /// bfloat16: the upper half of a binary32.
        Bf16 = "bf16",
        /// 8-bit integers with scales, from a quantised model.
        Int8 = "int8",
    }
}

names! {
    /// What is done with the model.
    Mode {
        /// Forward passes only.
        Inference = "inference",
    }
}

names! {
    /// How queries are issued, with the meaning that MLPerf Inference gives these words.
    Scenario {
        /// One query of one batch at a time; the next is issued when the last completes.
        SingleStream = "single-stream",
        /// All samples are available at once; the backend may pipeline the batches.
        Offline = "offline",
    }
}

/// The coordinates of a case in the matrix: what a reader calls the case by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CaseKey {
    /// The `id` of the `[[model]]`.
    pub model: String,
    /// The `id` of the `[[backend]]`.
    pub backend: String,
    /// The device as resolved, such as `cpu:0`.
    pub device: String,
    /// The precision asked for.
    pub precision: Precision,
    /// Samples per batch.
    pub batch: u32,
    /// Length of the sequence axis in tokens, where the matrix has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence_length: Option<u32>,
    /// What is done with the model.
    pub mode: Mode,
    /// How queries are issued.
    pub scenario: Scenario,
}

impl CaseKey {
    /// Names of the coordinates where they are columns of a table.
    pub const COLUMNS: [&'static str; 8] =
        ["model", "backend", "device", "precision", "batch", "sequence_length", "mode", "scenario"];

    /// The coordinates as cells, in the order of [`CaseKey::COLUMNS`].
    #[must_use]
    pub fn cells(&self) -> [Cell; 8] {
        let text = |text: &str| Cell::Text(text.to_owned());
        [
            text(&self.model),
            text(&self.backend),
            text(&self.device),
            text(self.precision.name()),
            Cell::Integer(self.batch.into()),
            self.sequence_length.map_or(Cell::Null, |length| Cell::Integer(length.into())),
            text(self.mode.name()),
            text(self.scenario.name()),
        ]
    }
}

impl fmt::Display for CaseKey {
    /// `digits · cpu · cpu:0 · fp32 · batch 8 · offline`
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, backend, device, precision, batch, .. } = self;
        write!(formatter, "{model} · {backend} · {device} · {precision} · batch {batch}")?;
        if let Some(length) = self.sequence_length {
            write!(formatter, " · sequence {length}")?;
        }
        write!(formatter, " · {}", self.scenario)
    }
}

/// A count or a time, whichever a manifest gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// A number of queries.
    Iterations(u64),
    /// A time in nanoseconds.
    Nanoseconds(u64),
}

/// How a case is measured, with every default resolved.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MeasureSettings {
    /// Queries or time discarded before measuring (kept in the raw samples, marked as warm-up).
    pub warm_up: Quantity,
    /// Measuring goes on for at least this many nanoseconds.
    pub minimum_duration_ns: u64,
    /// Measuring stops after this many nanoseconds, even if too few queries have been made.
    pub maximum_duration_ns: u64,
    /// Measuring goes on until at least this many queries have been made.
    pub minimum_queries: u64,
    /// Samples that one `offline` query holds at least; rounded up to whole batches.
    /// `None` means: the whole data set, or 24 batches where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offline_samples: Option<u64>,
    /// A worker that makes no progress for this long, in nanoseconds, is ended.
    pub timeout_ns: u64,
    /// A worker whose resident memory exceeds this, in bytes, is ended. `None`: what the machine
    /// has available when the case starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// Processors to measure on.
    #[serde(default, skip_serializing_if = "Pin::is_none")]
    pub pin: Pin,
}

/// Seeded input for one model input that has no data file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SyntheticInput {
    /// Sizes of named or numbered dynamic axes other than batch and sequence length.
    #[serde(default)]
    pub dimensions: BTreeMap<String, u64>,
    /// Lowest value.
    pub low: f64,
    /// Highest value.
    pub high: f64,
}

/// Where a model's inputs come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InputSource {
    /// NumPy `.npy` files whose first axis counts examples, by input name, and the labels beside
    /// them.
    Files {
        /// Input name → file.
        inputs: BTreeMap<String, PathBuf>,
        /// Class labels: integers, shape `[examples]`.
        labels: Option<PathBuf>,
    },
    /// Values drawn from the seed. Inputs not named here are drawn uniformly from 0 to 1.
    Synthetic(BTreeMap<String, SyntheticInput>),
}

/// Which plugin took part: enough to tell that two results came from the same code.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PluginIdentity {
    /// The plugin's id.
    pub id: String,
    /// Its version, semver.
    pub version: String,
    /// SHA-256 of its library or component, in hexadecimal.
    pub sha256: String,
}

/// A device as a backend describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DeviceInfo {
    /// Stable within a machine, such as `cpu:0`.
    pub id: String,
    /// `cpu`, `gpu`, `npu` or another word for the kind of hardware.
    pub kind: String,
    /// The full name that the vendor gives it.
    pub name: String,
    /// Memory in bytes; `None` where the backend cannot tell.
    pub memory_bytes: Option<u64>,
    /// Precisions in which it computes here.
    pub precisions: Vec<Precision>,
    /// Whatever else the backend says: driver, runtime, compute capability.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
}

/// A case, with everything that a worker needs to measure it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CaseSpec {
    /// Sixteen hexadecimal digits: a hash of all that defines the case. Two cases with the same
    /// id did the same work, whichever run they are from.
    pub id: String,
    /// Position in the plan, from 0.
    pub index: u64,
    /// Coordinates in the matrix.
    pub key: CaseKey,
    /// The model file.
    pub model_path: PathBuf,
    /// SHA-256 of the model file, in hexadecimal.
    pub model_sha256: String,
    /// The plugin that runs it.
    pub plugin: PluginIdentity,
    /// The plugin's library.
    pub plugin_library: PathBuf,
    /// The device as its backend described it when the plan was made.
    pub device: DeviceInfo,
    /// Threads that the backend may use; `None` leaves it to the backend.
    pub threads: Option<u32>,
    /// Options passed through to the backend.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// Where inputs come from.
    pub inputs: InputSource,
    /// How to measure.
    pub measure: MeasureSettings,
    /// Seed for whatever is random in this case.
    pub seed: u64,
}
