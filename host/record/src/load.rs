//! How the load of a case was kept up, and whether its result is valid.

use serde::{Deserialize, Serialize};

use crate::names::names;
use crate::number::Rate;
use crate::settings::RuleSet;

/// How an open loop kept to its schedule. Rates are of *n* queries over the *n − 1* gaps from the
/// first to the last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Pace {
    /// The rate that was asked for. A Poisson schedule offers it only on average.
    pub asked: Rate,
    /// Queries per second that were scheduled; `None` where fewer than two were.
    pub offered_per_second: Option<f64>,
    /// Queries per second that ended; `None` where fewer than two did.
    pub achieved_per_second: Option<f64>,
    /// Queries whose time had come, and that had not begun, when the maximum cut the loop short.
    pub unserved: u64,
    /// How late the generator itself was; `None` where no query was made.
    pub lateness: Option<Lateness>,
}

/// How much later queries began than they would have with a generator that is never late, in
/// nanoseconds. A wait behind a busy backend is no lateness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Lateness {
    /// Median.
    pub median_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Greatest.
    pub maximum_ns: u64,
}

names! {
    /// Why a result is invalid.
    InvalidKind {
        /// The maximum was over before there was enough.
        CutShort = "cut-short",
        /// Less time was measured than the rules ask for.
        TooShort = "too-short",
        /// Fewer queries were made than the rules ask for.
        TooFewQueries = "too-few-queries",
        /// Fewer samples were measured than the rules ask for.
        TooFewSamples = "too-few-samples",
        /// The latency is over its limit.
        OverLimit = "over-limit",
        /// The generator of the load was late.
        Late = "late",
        /// Queries ended more slowly than they came.
        TooSlow = "too-slow",
        /// Queries were due and never begun.
        Unserved = "unserved",
        /// The rules say nothing of such a case.
        NoRules = "no-rules",
        /// The search came to no end.
        NotFound = "not-found",
        /// A run returns long before its device is done, by the device's own events.
        Unsynchronised = "unsynchronised",
        /// `run` returned before the work was done, so that latencies do not contain it.
        ReturnedEarly = "returned-early",
        /// All that the model answered is NaN, so that no work of worth was measured.
        NotANumber = "not-a-number",
    }
}

/// A reason why a result is invalid, with its evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct InvalidReason {
    /// What is wrong.
    pub kind: InvalidKind,
    /// The figures that say so, in one sentence.
    pub evidence: String,
}

/// Whether a result is valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Verdict {
    /// The public rules that it was judged by; `None`: only that it is whole, that its latency keeps
    /// to the limit set, that an open loop was kept up, and that the backend did the work and ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<RuleSet>,
    /// Why it is invalid; empty where it is valid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<InvalidReason>,
    /// The validity rests on fewer queries than the rules count, which by a binomial bound are
    /// enough: MLPerf's early stopping.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_stopping: Option<EarlyStopping>,
}

/// What MLPerf's early stopping says of a percentile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct EarlyStopping {
    /// Queries made.
    pub queries: u64,
    /// The least number of queries that is enough.
    pub minimum: u64,
    /// The percentile's estimate in nanoseconds: the latency that as many queries are above as the
    /// bound allows. `None` where the latency has a limit, which is then what was tested.
    pub estimate_ns: Option<u64>,
}

impl Verdict {
    /// Whether the result is valid.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.reasons.is_empty()
    }
}

names! {
    /// How a search for the highest rate ended.
    SearchEnd {
        /// The border lies between the two rates, both of which were measured twice at least.
        Found = "found",
        /// Measurements ran out before the bracket was narrow and confirmed, or before a rate held.
        Unsettled = "unsettled",
        /// The generator of the load could not keep up, so that nothing was learned of the target.
        GeneratorLate = "generator-late",
        /// Even the lowest rate is too much.
        NotEvenLowest = "not-even-lowest",
        /// Even the lowest rate is too much that the maximum duration has room to tell of.
        CutShort = "cut-short",
        /// The highest rate is still fine.
        FineAtHighest = "fine-at-highest",
    }
}

/// What a search for the highest rate came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RateSearch {
    /// How it ended.
    pub end: SearchEnd,
    /// The highest rate at which the latency kept to its limit; the case was measured at it.
    pub fine: Option<Rate>,
    /// The lowest rate at which it did not, which lies above.
    pub too_much: Option<Rate>,
    /// What was measured on the way, in order.
    pub probes: Vec<Probe>,
    /// The rates that the case's processes were measured at, in their order: each searches for itself. The
    /// other fields are those of the first. Empty in records from before it was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<Rate>,
}

/// One measurement of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Probe {
    /// Queries per second.
    pub rate: Rate,
    /// Queries made.
    pub queries: u64,
    /// The limited percentile of the latency in nanoseconds; `None` where the load could not be
    /// kept up, by the target or by its generator.
    pub latency_ns: Option<u64>,
    /// Queries per second that ended; `None` where fewer than two did, and in records from before it was
    /// kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub achieved_per_second: Option<f64>,
    /// How late the generator itself was; `None` in records from before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Lateness>,
}

names! {
    /// What latencies do over time, by the classes of Barrett et al. (OOPSLA 2017).
    SteadyClass {
        /// One level throughout.
        Flat = "flat",
        /// They end in a steady state, and have never been lower.
        WarmUp = "warm-up",
        /// They end in a steady state, and have been lower.
        SlowDown = "slow-down",
        /// Their last level has not lasted.
        NoSteadyState = "no-steady-state",
    }
}

/// What was seen of warming up, where its end was looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct WarmUpFacts {
    /// What the latencies did while warming up; `None` where there were too few.
    pub class: Option<SteadyClass>,
    /// Queries of warming up.
    pub queries: u64,
    /// How long it took, in nanoseconds.
    pub elapsed_ns: u64,
    /// Whether a steady state was reached; otherwise the maximum time ended it.
    pub steady: bool,
}
