//! Samples as the worker streams them: in blocks, so that nothing is sent while the clock runs.

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
    /// Moments within them, in modes whose queries have such.
    pub marks: Option<Marks>,
}

/// Moments within a block's queries, in nanoseconds since the worker's own origin. All lie between the
/// beginning and the end of their query, and none of a query's is before the one that precedes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks {
    /// Names of the phases that make up a query, in order: the same for all queries of a case.
    pub phases: Vec<String>,
    /// End of each phase of each query: as many times as there are phases, query by query.
    pub ends_ns: Vec<u64>,
    /// For each query, how many of `within_ns` are its own.
    pub counts: Vec<u32>,
    /// Completion times of counted items such as tokens, query by query.
    pub within_ns: Vec<u64>,
}

impl Marks {
    /// Returns the size of the marks in memory, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(self.ends_ns.as_slice())
            + size_of_val(self.counts.as_slice())
            + size_of_val(self.within_ns.as_slice())
    }

    /// Iterates over the phases' ends and the times within of each query.
    pub fn queries(&self) -> impl Iterator<Item = (&[u64], &[u64])> {
        let mut within = self.within_ns.as_slice();
        self.counts.iter().enumerate().map(move |(index, count)| {
            let ends = index * self.phases.len()..(index + 1) * self.phases.len();
            let (own, rest) = within.split_at_checked(*count as usize).unwrap_or((within, &[]));
            within = rest;
            (self.ends_ns.get(ends).unwrap_or_default(), own)
        })
    }
}

/// Times of a block's queries, in nanoseconds since the worker's own origin. Clock readings never
/// decrease: a block in which they do is refused by its reader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SampleTimes {
    /// Of a closed loop: one chain of readings, one more than there are queries. Query *i* began at
    /// reading *i* and ended at reading *i + 1*: one reading ends a query and begins the next, so
    /// an iteration costs one reading. The chain ends when the loop pauses to send it.
    Chain(Vec<u64>),
    /// Of an open loop, in the order in which they began.
    Scheduled(Vec<ScheduledTimes>),
}

/// Times of a query that was to begin at a given time, in nanoseconds since the worker's origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledTimes {
    /// Scheduled start.
    pub scheduled_ns: u64,
    /// Its actual start; never before the scheduled time.
    pub begun_ns: u64,
    /// Its end; never before its start.
    pub ended_ns: u64,
}

/// Times of one query, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryTimes {
    /// Scheduled start since the worker's origin; `None` in a closed loop.
    pub scheduled_ns: Option<u64>,
    /// Start since the worker's origin.
    pub start_ns: u64,
    /// From when it was to begin to its end; in a closed loop, from its beginning to its end.
    pub latency_ns: u64,
}

impl SampleBlock {
    /// Returns the number of queries.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.times {
            SampleTimes::Chain(edges) => edges.len().saturating_sub(1),
            SampleTimes::Scheduled(queries) => queries.len(),
        }
    }

    /// Returns whether the block holds no query.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the size of its times in memory, in bytes, without marks.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match &self.times {
            SampleTimes::Chain(edges) => size_of_val(edges.as_slice()),
            SampleTimes::Scheduled(queries) => size_of_val(queries.as_slice()),
        }
    }

    /// Iterates over the start and end of each query since the worker's origin.
    pub fn spans(&self) -> impl ExactSizeIterator<Item = (u64, u64)> + '_ {
        (0..self.len()).map(|index| match &self.times {
            SampleTimes::Chain(edges) => (edges[index], edges[index + 1]),
            SampleTimes::Scheduled(queries) => (queries[index].begun_ns, queries[index].ended_ns),
        })
    }

    /// Iterates over the times of each query.
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
    /// Returns the bytes per element.
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

/// The model's outputs for consecutive examples, outside the timed part.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputBlock {
    /// Name of the output.
    pub name: String,
    /// Index, in the data set, of the first example.
    pub first_example: u64,
    /// Values per example: the product of the output's axes after the first.
    pub width: u64,
    /// `examples * width` values.
    pub values: OutputValues,
}

/// Values of an output.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputValues {
    /// Numbers, widened or rounded to 32-bit floats.
    Numbers(Vec<f32>),
    /// Booleans.
    Booleans(Vec<bool>),
    /// Texts.
    Texts(Vec<String>),
}

impl OutputValues {
    /// Returns the number of queries.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Numbers(values) => values.len(),
            Self::Booleans(values) => values.len(),
            Self::Texts(values) => values.len(),
        }
    }

    /// Returns whether there is no query.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends values of the same type. Whether they are.
    pub fn extend(&mut self, more: Self) -> bool {
        match (self, more) {
            (Self::Numbers(values), Self::Numbers(more)) => values.extend(more),
            (Self::Booleans(values), Self::Booleans(more)) => values.extend(more),
            (Self::Texts(values), Self::Texts(more)) => values.extend(more),
            _ => return false,
        }
        true
    }
}

impl From<Vec<f32>> for OutputValues {
    fn from(values: Vec<f32>) -> Self {
        Self::Numbers(values)
    }
}
