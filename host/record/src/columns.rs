//! The columns of a case, as metric plugins read them.

use std::collections::BTreeMap;

/// Names of the columns that the host can offer. A case lacks a column that was not measured.
pub mod column {
    /// `u64`, ns: latency of each measured query, in order of issue.
    pub const LATENCY: &str = "latency";
    /// `u64`, ns: start of each measured query since the worker's origin.
    pub const START: &str = "start";
    /// `u64`, ns: scheduled start of each measured query, since the worker's origin; only in open
    /// loops, whose latencies count from it.
    pub const SCHEDULED: &str = "scheduled";
    /// `u64`, 1: which client or server made each measured query.
    pub const LANE: &str = "lane";
    /// `f64`, 1/s, a row for each process: completed queries per second in an open loop, without the
    /// harness's own pauses.
    pub const ACHIEVED_RATE: &str = "achieved-rate";
    /// `f64`, 1/s, a row for each process: queries per second that were scheduled, in an open loop.
    pub const OFFERED_RATE: &str = "offered-rate";
    /// `u64`, 1: process of each measured query, if there are several.
    pub const PROCESS: &str = "process";
    /// `u64`, 1: samples in each measured query.
    pub const ITEMS: &str = "items";
    /// `u64`, ns: latency of each query of the warm-up, in order of issue.
    pub const WARM_UP_LATENCY: &str = "warm-up-latency";
    /// `u64`, ns: start of each query of the warm-up since the worker's origin.
    pub const WARM_UP_START: &str = "warm-up-start";
    /// `f32`, `bool` or text, 1: the model's first output for each example of the data set, flattened; the
    /// column's width is the number of values per example.
    pub const OUTPUT: &str = "output";
    /// All outputs, each as `output.NAME`, of the same types as the first.
    pub const OUTPUTS: &str = "output.*";
    /// `u64`, ns: how long each phase of each measured query took, as `phase.NAME`; only in modes whose
    /// queries have phases.
    pub const PHASES: &str = "phase.*";
    /// `u64`, 1: how many tokens, or other moments that count, each measured query has; only in modes whose
    /// queries have such.
    pub const TOKENS: &str = "tokens";
    /// `u64`, ns: when each of them was complete, since its query began, one query after the other.
    pub const TOKEN_TIME: &str = "token-time";
    /// `f64`, 1: loss of each step of training epoch by epoch, before its update; NaN if it is not finite. Absent if
    /// the steps are too many to be kept.
    pub const STEP_LOSS: &str = "step-loss";
    /// `f64`, 1: mean loss of the steps of each epoch; NaN if it is not finite.
    pub const EPOCH_LOSS: &str = "epoch-loss";
    /// `u64`, ns: time of each epoch, with reading its examples, without the test after it.
    pub const EPOCH_TIME: &str = "epoch-time";
    /// `u64`, ns: time of each epoch in which examples were read and handed to the backend.
    pub const EPOCH_READING: &str = "epoch-reading";
    /// `f64`, 1: part of the test examples whose label has the highest score after each epoch.
    pub const EPOCH_ACCURACY: &str = "epoch-accuracy";
    /// `u64`, 1, one row: examples that are trained on in each epoch.
    pub const EPOCH_EXAMPLES: &str = "epoch-examples";
    /// `u64`, B, one row: the most that tensors took on the device during each phase of a training step, as
    /// `phase-memory.NAME`.
    pub const PHASE_MEMORY: &str = "phase-memory.*";
    /// `s64`, 1: class label of each example of the data set.
    pub const LABEL: &str = "label";
    /// All of the above. Besides these there is a column, with a row for each process, for each of
    /// [`QUANTITIES`](crate::QUANTITIES) of which [`is_column`](crate::Quantity::is_column) is true.
    pub const ALL: &[&str] = &[
        LATENCY,
        START,
        SCHEDULED,
        LANE,
        PROCESS,
        ACHIEVED_RATE,
        OFFERED_RATE,
        ITEMS,
        WARM_UP_LATENCY,
        WARM_UP_START,
        OUTPUT,
        OUTPUTS,
        PHASES,
        TOKENS,
        TOKEN_TIME,
        STEP_LOSS,
        EPOCH_LOSS,
        EPOCH_TIME,
        EPOCH_READING,
        EPOCH_ACCURACY,
        EPOCH_EXAMPLES,
        PHASE_MEMORY,
        LABEL,
    ];
}

/// Returns whether a request for `name` includes this column. `phase.*` stands for all names that begin so.
#[must_use]
pub fn asks_for(asked: &str, name: &str) -> bool {
    match asked.strip_suffix('*') {
        Some(prefix) => name.len() > prefix.len() && name.starts_with(prefix),
        None => asked == name,
    }
}

/// Values of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnData {
    /// Unsigned integers.
    U64(Vec<u64>),
    /// Signed integers.
    S64(Vec<i64>),
    /// 32-bit floats.
    F32(Vec<f32>),
    /// 64-bit floats.
    F64(Vec<f64>),
    /// Booleans.
    Boolean(Vec<bool>),
    /// Texts.
    Text(Vec<String>),
}

/// A named column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// One of [`column`]'s names, or a quantity's.
    pub name: String,
    /// Unit by its symbol.
    pub unit: String,
    /// Values per row.
    pub width: u64,
    /// `rows * width` values.
    pub data: ColumnData,
}

/// A metric's input for one case.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseColumns {
    /// The case's id.
    pub case_id: String,
    /// Coordinates of the case by the names of their axes. Under `missing.COLUMN` why a column that
    /// was requested does not exist, if that is known.
    pub attributes: BTreeMap<String, String>,
    /// The columns that were asked for and exist.
    pub columns: Vec<Column>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_all_of_a_kind() {
        assert!(asks_for("latency", "latency") && !asks_for("latency", "latency.x"));
        assert!(asks_for(column::PHASES, "phase.forward") && asks_for(column::OUTPUTS, "output.y"));
        assert!(!asks_for(column::PHASES, "phase.") && !asks_for(column::OUTPUTS, "output"));
    }
}
