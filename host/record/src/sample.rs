//! Samples as the worker streams them: blocks, so that nothing is sent while the clock runs.

use serde::{Deserialize, Serialize};

use crate::names::names;

names! {
    /// Which part of a case a sample belongs to.
    SamplePhase {
        /// Before the measurement; kept, and left out of every metric that does not ask for it.
        WarmUp = "warm-up",
        /// While the load was searched; kept, and left out of every metric.
        Search = "search",
        /// Measured.
        Measured = "measured",
    }
}

/// Queries of one client or server, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleBlock {
    /// Which part of the case.
    pub phase: SamplePhase,
    /// Samples (examples) in each query of this block.
    pub items_per_query: u64,
    /// Which client (of a closed loop) or server (of an open one) made these queries, from 0.
    pub lane: u32,
    /// Their times.
    pub times: SampleTimes,
}

/// Times of a block's queries, in nanoseconds since the worker's own origin. Clock readings never
/// decrease: a block in which they do is refused where it is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SampleTimes {
    /// Of a closed loop: one chain of readings, one more than there are queries. Query *i* began at
    /// reading *i* and ended at reading *i + 1*: one reading ends a query and begins the next, so
    /// an iteration costs one reading. The chain ends where the loop paused to send it.
    Chain(Vec<u64>),
    /// Of an open loop, in the order in which they began.
    Scheduled(Vec<ScheduledTimes>),
}

/// Times of a query that was to begin at a given time, in nanoseconds since the worker's origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledTimes {
    /// When it was to begin.
    pub scheduled_ns: u64,
    /// When it did begin; never before it was scheduled.
    pub begun_ns: u64,
    /// When it ended; never before it began.
    pub ended_ns: u64,
}

/// Times of one query, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryTimes {
    /// When it was to begin, since the worker's origin; `None` in a closed loop.
    pub scheduled_ns: Option<u64>,
    /// When it began, since the worker's origin.
    pub start_ns: u64,
    /// From when it was to begin to its end; in a closed loop, from its beginning to its end.
    pub latency_ns: u64,
}

impl SampleBlock {
    /// Number of queries.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.times {
            SampleTimes::Chain(edges) => edges.len().saturating_sub(1),
            SampleTimes::Scheduled(queries) => queries.len(),
        }
    }

    /// Whether the block holds no query.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory that its times take, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match &self.times {
            SampleTimes::Chain(edges) => size_of_val(edges.as_slice()),
            SampleTimes::Scheduled(queries) => size_of_val(queries.as_slice()),
        }
    }

    /// Times of each query.
    pub fn queries(&self) -> impl ExactSizeIterator<Item = QueryTimes> + '_ {
        (0..self.len()).map(|index| match &self.times {
            SampleTimes::Chain(edges) => QueryTimes {
                scheduled_ns: None,
                start_ns: edges[index],
                latency_ns: edges[index + 1].saturating_sub(edges[index]),
            },
            SampleTimes::Scheduled(queries) => {
                let ScheduledTimes { scheduled_ns, begun_ns, ended_ns } = queries[index];
                QueryTimes {
                    scheduled_ns: Some(scheduled_ns),
                    start_ns: begun_ns,
                    latency_ns: ended_ns.saturating_sub(scheduled_ns),
                }
            }
        })
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
