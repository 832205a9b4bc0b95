//! The columns of a case, as metric plugins read them.

use std::collections::BTreeMap;

/// Names of the columns that the host can offer. A case lacks a column where it was not measured.
pub mod column {
    /// `u64`, ns: latency of each measured query, in order of issue.
    pub const LATENCY: &str = "latency";
    /// `u64`, ns: start of each measured query since the worker's origin.
    pub const START: &str = "start";
    /// `u64`, ns: when each measured query was to begin, since the worker's origin; only in open
    /// loops, where the latency counts from it.
    pub const SCHEDULED: &str = "scheduled";
    /// `u64`, 1: which client or server made each measured query.
    pub const LANE: &str = "lane";
    /// `f64`, 1/s, a row for each process: queries per second that ended, in an open loop, without the
    /// harness's own pauses.
    pub const ACHIEVED_RATE: &str = "achieved-rate";
    /// `f64`, 1/s, a row for each process: queries per second that were scheduled, in an open loop.
    pub const OFFERED_RATE: &str = "offered-rate";
    /// `u64`, 1: which process made each measured query, where there are several.
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
    /// `s64`, 1: class label of each example of the data set.
    pub const LABEL: &str = "label";
    /// `u64`, B, one row: the worker's highest resident memory; of several processes, the highest of
    /// all. The other columns of one row are then the first process's.
    pub const PEAK_MEMORY: &str = "peak-memory";
    /// `u64`, B, one row: the worker's resident memory before the plugin was opened.
    pub const BASELINE_MEMORY: &str = "baseline-memory";
    /// `u64`, B, one row: the worker's mean resident memory while it measured.
    pub const AVERAGE_MEMORY: &str = "average-memory";
    /// `u64`, B, one row: the worker's resident memory just after measuring, shared pages divided.
    pub const PROPORTIONAL_MEMORY: &str = "proportional-memory";
    /// `u64`, B, one row: the most memory on the device that the backend says it held.
    pub const DEVICE_MEMORY: &str = "device-memory";
    /// `u64`, B, one row: the most memory on the device that its engine's own allocator counted.
    pub const DEVICE_ALLOCATOR: &str = "device-allocator";
    /// `f64`, J, one row: energy of the processors' packages over the measured part.
    pub const PACKAGE_ENERGY: &str = "package-energy";
    /// `f64`, J, one row: energy of the memory, where the processor counts it apart.
    pub const MEMORY_ENERGY: &str = "memory-energy";
    /// `f64`, J, one row: energy of the device, as the backend counts it.
    pub const DEVICE_ENERGY: &str = "device-energy";
    /// `f64`, s, one row: how long energy was counted for.
    pub const ENERGY_TIME: &str = "energy-time";
    /// `f64`, ns, one row: mean time of a query's copies to the device, measured apart.
    pub const COPY_IN_TIME: &str = "copy-in-time";
    /// `f64`, ns, one row: mean time of its computation, measured apart.
    pub const COMPUTE_TIME: &str = "compute-time";
    /// `f64`, ns, one row: mean time of its copies from the device, measured apart.
    pub const COPY_OUT_TIME: &str = "copy-out-time";
    /// `u64`, ns, one row: time to open the plugin's library.
    pub const OPEN_TIME: &str = "open-time";
    /// `u64`, ns, one row: time to load the model.
    pub const LOAD_TIME: &str = "load-time";
    /// `u64`, ns, one row: time to prepare it.
    pub const PREPARE_TIME: &str = "prepare-time";
    /// `u64`, ns, one row: time of the first run.
    pub const FIRST_RUN_TIME: &str = "first-run-time";

    /// All of the above.
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
        LABEL,
        PEAK_MEMORY,
        BASELINE_MEMORY,
        AVERAGE_MEMORY,
        PROPORTIONAL_MEMORY,
        DEVICE_MEMORY,
        DEVICE_ALLOCATOR,
        PACKAGE_ENERGY,
        MEMORY_ENERGY,
        DEVICE_ENERGY,
        ENERGY_TIME,
        COPY_IN_TIME,
        COMPUTE_TIME,
        COPY_OUT_TIME,
        OPEN_TIME,
        LOAD_TIME,
        PREPARE_TIME,
        FIRST_RUN_TIME,
    ];
}

/// Whether somebody who asks for columns by this name wants this one. `phase.*` stands for all whose names
/// begin with `phase.`.
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
    /// One of [`column`]'s names.
    pub name: String,
    /// Unit by its symbol.
    pub unit: String,
    /// Values per row.
    pub width: u64,
    /// `rows * width` values.
    pub data: ColumnData,
}

/// What a metric gets for one case.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseColumns {
    /// The case's id.
    pub case_id: String,
    /// Coordinates of the case by name: `model`, `backend`, `device`, `precision`, `batch`,
    /// `sequence-length`, `mode`, `scenario`, `rate`, `clients`. Under `missing.COLUMN` why a column that
    /// was asked for does not exist, where that is known.
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
