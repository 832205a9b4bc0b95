//! Peaks of a device: the most operations and bytes for each second, and their source.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::gap::Gap;
use crate::key::Precision;
use crate::words::bytes;

/// Peaks of a device in the precision of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Peaks {
    /// Operations for each second.
    pub flops_per_second: Result<f64, Gap>,
    /// Bytes of its memory for each second.
    pub bytes_per_second: Result<f64, Gap>,
    /// Format of numbers that the operations are of, such as `fp32` or `tf32`.
    pub format: String,
    /// Their source.
    pub source: PeakSource,
}

/// Source of peaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum PeakSource {
    /// A table of published peaks.
    Table {
        /// The device, as the table names it.
        device: String,
        /// The publication.
        publication: String,
    },
    /// Measured on the processor before the case.
    Calibrated {
        /// Threads that computed.
        threads: u32,
        /// Instructions that computed, such as `AVX-512 FMA`; `None` if the processor was not calibrated in the
        /// precision of the case.
        instructions: Option<String>,
        /// Bytes that were read from memory.
        buffer_bytes: u64,
    },
}

impl fmt::Display for PeakSource {
    /// Writes `published for NVIDIA H200 (…)` or `calibrated with 2 threads (…)`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table { device, publication } => {
                write!(formatter, "published for {device} ({publication})")
            }
            Self::Calibrated { threads, instructions, buffer_bytes } => {
                let plural = if *threads == 1 { "" } else { "s" };
                write!(formatter, "calibrated with {threads} thread{plural} (")?;
                if let Some(instructions) = instructions {
                    write!(formatter, "{instructions}; ")?;
                }
                write!(formatter, "reads of {})", bytes(*buffer_bytes))
            }
        }
    }
}

/// Peaks of the processor, measured by a worker that computes nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Calibration {
    /// Threads: one for each processor that the worker may use.
    pub threads: u32,
    /// Operations for each second, by precision. Others were not measured.
    pub compute: BTreeMap<Precision, ComputePeak>,
    /// Bytes read from memory for each second.
    pub bytes_per_second: Result<f64, Gap>,
    /// Bytes that were read, more than the caches hold.
    pub buffer_bytes: u64,
}

/// Measured operations for each second in one precision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ComputePeak {
    /// Operations for each second.
    pub flops_per_second: f64,
    /// Instructions that computed.
    pub instructions: String,
}
