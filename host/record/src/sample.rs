//! Samples as the worker streams them: blocks, so that nothing is sent while the clock runs.

use serde::{Deserialize, Serialize};

use crate::case::names;
use std::fmt;
use std::str::FromStr;

names! {
    /// Which part of a case a sample belongs to.
    SamplePhase {
        /// Before the measurement; kept, and left out of every metric that does not ask for it.
        WarmUp = "warm-up",
        /// Measured.
        Measured = "measured",
    }
}

/// Consecutive queries, timed by one chain of clock readings.
///
/// Readings never decrease: a block in which they do is refused where it is read.
/// `edges_ns` has one entry more than there are queries: query *i* began at `edges_ns[i]` and
/// ended at `edges_ns[i + 1]`, in nanoseconds since the worker's own origin. One clock reading
/// ends a query and begins the next, so an iteration costs one reading. A block ends where the
/// loop paused to send it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleBlock {
    /// Which part of the case.
    pub phase: SamplePhase,
    /// Samples (examples) in each query of this block.
    pub items_per_query: u64,
    /// Clock readings in nanoseconds; never empty.
    pub edges_ns: Vec<u64>,
}

impl SampleBlock {
    /// Number of queries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.edges_ns.len().saturating_sub(1)
    }

    /// Whether the block holds no query.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Start and latency of each query, in nanoseconds.
    pub fn queries(&self) -> impl ExactSizeIterator<Item = (u64, u64)> + '_ {
        self.edges_ns.windows(2).map(|edge| (edge[0], edge[1].saturating_sub(edge[0])))
    }
}

names! {
    /// Element types of tensors, by NumPy's names.
    TensorType {
        /// 32-bit float.
        F32 = "float32",
        /// 64-bit float.
        F64 = "float64",
        /// 16-bit float.
        F16 = "float16",
        /// bfloat16.
        Bf16 = "bfloat16",
        /// 64-bit signed integer.
        I64 = "int64",
        /// 32-bit signed integer.
        I32 = "int32",
        /// 16-bit signed integer.
        I16 = "int16",
        /// 8-bit signed integer.
        I8 = "int8",
        /// 8-bit unsigned integer.
        U8 = "uint8",
        /// Boolean, a byte each.
        Bool = "bool",
    }
}

impl TensorType {
    /// Bytes per element.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 | Self::I16 => 2,
            Self::I8 | Self::U8 | Self::Bool => 1,
        }
    }
}

/// A dense tensor in C order, in host memory, little-endian.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorData {
    /// Element type.
    pub element: TensorType,
    /// Size of each axis.
    pub shape: Vec<u64>,
    /// `shape.product() * element.size()` bytes.
    pub bytes: Vec<u8>,
}

/// What the model answered to consecutive examples, outside the timed part.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputBlock {
    /// Name of the output.
    pub name: String,
    /// Index, in the data set, of the first example.
    pub first_example: u64,
    /// Values per example: the product of the output's axes after the first.
    pub width: u64,
    /// `examples * width` values, widened or rounded to 32-bit floats.
    pub values: Vec<f32>,
}
