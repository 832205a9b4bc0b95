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
    /// `f32`, 1: the model's first output for each example of the data set, flattened; the
    /// column's width is the number of values per example.
    pub const OUTPUT: &str = "output";
    /// `s64`, 1: class label of each example of the data set.
    pub const LABEL: &str = "label";
    /// All of the above. Besides these there is a column of one row for each of
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
        LABEL,
    ];
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

/// What a metric gets for one case.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseColumns {
    /// The case's id.
    pub case_id: String,
    /// Coordinates of the case by the names of their axes. Under `missing.COLUMN` why a column that
    /// was asked for does not exist, where that is known.
    pub attributes: BTreeMap<String, String>,
    /// The columns that were asked for and exist.
    pub columns: Vec<Column>,
}
