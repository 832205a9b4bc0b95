//! Settings of a measurement.

use serde::{Deserialize, Serialize};

use crate::names::names;
use crate::number::Share;
use crate::pair::Pair;
use crate::pin::Pin;

/// Rules that end the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WarmUp {
    /// After a number of queries.
    Iterations(u64),
    /// After a time in nanoseconds.
    Nanoseconds(u64),
    /// Until latencies have reached a steady state.
    Auto,
}

/// Measuring goes on until an interval is narrow enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Confidence {
    /// Confidence of the interval.
    pub level: Share,
    /// Half of the interval's width, as a share of the estimate, that is narrow enough.
    pub half_width: Share,
    /// Which percentile of the latencies the interval is around.
    pub percentile: Share,
}

/// A limit on the latency of a case: its percentile may be at most this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LatencyLimit {
    /// The latency in nanoseconds.
    pub at_most_ns: u64,
    /// Percentile of the latencies to limit. `None`: that of the rules for the scenario,
    /// and without rules the 99th.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentile: Option<Share>,
}

names! {
    /// Public rules that a result can be judged by.
    RuleSet {
        /// Rules of MLPerf Inference: the least time, queries and examples that each scenario needs.
        MlPerf = "mlperf",
    }
}

names! {
    /// In which order the processes of cases are run.
    Order {
        /// All processes of a case, then those of the next.
        Planned = "planned",
        /// In rounds: the first process of each case, then the second of each, so that a drift of
        /// the machine affects all cases alike.
        Interleaved = "interleaved",
        /// Two cases at a time: a process of each is started, and they are measured in turns of a few milliseconds.
        Paired = "paired",
    }
}

names! {
    /// Quantity to search for, instead of measuring a case at a given load.
    Find {
        /// The highest rate of queries at which the latency keeps to its limit.
        MaxRate = "max-rate",
    }
}

/// Settings for the measurement of a case, with every default resolved.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MeasureSettings {
    /// Warm-up before measuring (kept in the raw samples, marked).
    pub warm_up: WarmUp,
    /// Measuring goes on for at least this many nanoseconds.
    pub minimum_duration_ns: u64,
    /// Measuring stops after this many nanoseconds, even if too few queries have been made.
    pub maximum_duration_ns: u64,
    /// Measuring goes on until at least this many queries have been made.
    pub minimum_queries: u64,
    /// Examples that one `offline` query holds at least; rounded up to whole batches.
    /// `None` means the whole data set, or 24 batches without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offline_examples: Option<u64>,
    /// Examples of one `multi-stream` query; rounded up to whole batches. `None` means 8, MLPerf's
    /// number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multi_stream_examples: Option<u64>,
    /// Measuring goes on, beyond its minima, until an interval is as narrow as this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// Limit on the latency. A slower case is invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_limit: Option<LatencyLimit>,
    /// Public rules that the case is judged by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<RuleSet>,
    /// Quantity to search for in the open-loop scenarios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub find: Option<Find>,
    /// In how many processes, one after the other, the case is measured.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub processes: u32,
    /// In which order the processes of cases are run.
    #[serde(default = "planned", skip_serializing_if = "is_planned")]
    pub order: Order,
    /// The two sides of each pair, if the order is [`Order::Paired`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<Pair>,
    /// A worker that makes no progress for this long, in nanoseconds, is ended.
    pub timeout_ns: u64,
    /// A worker whose resident memory exceeds this, in bytes, is ended. `None`: what the machine
    /// has available when the case starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// Processors to measure on.
    #[serde(default, skip_serializing_if = "Pin::is_none")]
    pub pin: Pin,
    /// Nice value of the worker: −20 is served first, 19 last. `None`: the host's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nice: Option<i32>,
    /// Interval at which the device's state is sampled while queries are timed, in
    /// nanoseconds. `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_sampling_ns: Option<u64>,
    /// Whether the pages of the model's files are dropped from memory before it is loaded, so that loading reads them
    /// from the disk.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cold_cache: bool,
    /// Epochs for which a model is trained after measuring, from the weights of the file. `None`: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// Examples at the end of the data set that are not trained on, and are the test after each epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_examples: Option<u64>,
}

/// One measurement of a search is this long in nanoseconds, unless the case itself is shorter or the
/// percentile needs more queries.
const PROBE_NS: u64 = 2_000_000_000;

impl MeasureSettings {
    /// Returns the minimum time of one measurement of a rate search, in nanoseconds.
    #[must_use]
    pub fn probe_ns(&self) -> u64 {
        PROBE_NS.min(self.minimum_duration_ns).min(self.maximum_duration_ns / 2)
    }
}

fn one() -> u32 {
    1
}

fn planned() -> Order {
    Order::Planned
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_planned(order: &Order) -> bool {
    *order == Order::Planned
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_one(count: &u32) -> bool {
    *count == 1
}

/// Settings of a manifest without `[measure]`.
impl Default for MeasureSettings {
    fn default() -> Self {
        Self {
            warm_up: WarmUp::Nanoseconds(1_000_000_000),
            minimum_duration_ns: 5_000_000_000,
            maximum_duration_ns: 50_000_000_000,
            minimum_queries: 100,
            offline_examples: None,
            multi_stream_examples: None,
            confidence: None,
            latency_limit: None,
            rules: None,
            find: None,
            processes: 1,
            order: Order::Planned,
            pair: None,
            timeout_ns: 60_000_000_000,
            memory_limit_bytes: None,
            pin: Pin::None,
            nice: None,
            device_sampling_ns: None,
            cold_cache: false,
            epochs: None,
            test_examples: None,
        }
    }
}
