//! Load of a case, and the verdict on its result.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::key::Scenario;
use crate::names::names;
use crate::number::Rate;
use crate::numbered::{in_process, is_first};
use crate::settings::RuleSet;
use crate::words::{count, percent, percentile, rate, time};

/// Pace of an open loop. Rates are of *n* queries over the *n − 1* gaps from the
/// first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Pace {
    /// The rate that was asked for. A Poisson schedule offers it only on average.
    pub asked: Rate,
    /// Scheduled queries per second; `None` if fewer than two were scheduled.
    pub offered_per_second: Option<f64>,
    /// Completed queries per second; `None` if fewer than two completed.
    pub achieved_per_second: Option<f64>,
    /// Queries whose time had come, and that had not begun, when the maximum cut the loop short.
    pub unserved: u64,
    /// Lateness of the generator itself; `None` if no query was made.
    pub lateness: Option<Lateness>,
}

/// How much later queries began than with a generator that is never late, in
/// nanoseconds. Waiting for a busy backend is not lateness.
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
    /// Reasons why a result is invalid.
    InvalidKind {
        /// The maximum was over before there was enough.
        CutShort = "cut-short",
        /// Less time was measured than the rules ask for.
        TooShort = "too-short",
        /// Fewer queries were made than the rules ask for.
        TooFewQueries = "too-few-queries",
        /// Fewer examples were measured than the rules ask for.
        TooFewExamples = "too-few-examples",
        /// The latency is over its limit.
        OverLimit = "over-limit",
        /// The generator of the load was late.
        Late = "late",
        /// Queries completed more slowly than they arrived.
        TooSlow = "too-slow",
        /// Queries were due and never began.
        Unserved = "unserved",
        /// The rules do not cover such a case.
        NoRules = "no-rules",
        /// The case is not as the rules have it.
        AgainstRules = "against-rules",
        /// The search did not finish.
        NotFound = "not-found",
        /// A run returns long before its device is done, by the device's own events.
        Unsynchronised = "unsynchronised",
        /// `run` returned before the work was done, so latencies do not contain it.
        ReturnedEarly = "returned-early",
        /// All of the model's outputs are NaN, so no useful work was measured.
        NotANumber = "not-a-number",
    }
}

/// A reason why a result is invalid, of one process of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct InvalidReason {
    /// The process that was measured, from 0.
    #[serde(default, skip_serializing_if = "is_first")]
    pub process: u32,
    /// The breach, with its figures.
    #[serde(flatten)]
    pub breach: Breach,
}

/// A requirement that a result breaks, with the figures. Each kind is an [`InvalidKind`] of the same name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Breach {
    /// `maximum-duration` was over before there was enough.
    CutShort,
    /// Less time was measured than the rules ask for.
    TooShort {
        /// Time that was measured.
        timed_ns: u64,
        /// Time that the rules ask for.
        minimum_ns: u64,
    },
    /// Fewer queries were made than the rules ask for.
    TooFewQueries {
        /// Queries that were made.
        queries: u64,
        /// Queries that the rules ask for.
        minimum_queries: u64,
    },
    /// Fewer examples were measured than the rules ask for.
    TooFewExamples {
        /// Examples that were measured.
        examples: u64,
        /// Examples that the rules ask for.
        minimum_examples: u64,
    },
    /// Too many latencies are over their limit.
    OverLimit {
        /// Queries over the limit.
        over_queries: u64,
        /// Queries that were made.
        queries: u64,
        /// Queries that may be over it.
        allowed_queries: u64,
    },
    /// The generator of the load was late.
    Late {
        /// 99th percentile of its lateness.
        p99_ns: u64,
        /// The most that it may be.
        bound_ns: u64,
    },
    /// Queries ended more slowly than they came.
    TooSlow {
        /// Rate at which they came.
        offered_per_second: f64,
        /// Rate at which they ended.
        achieved_per_second: f64,
        /// Part of the offered rate that has to be achieved, from 0 to 1.
        bound_ratio: f64,
    },
    /// Queries were due and never begun.
    Unserved {
        /// Number of queries.
        queries: u64,
    },
    /// The rules say nothing of such a case.
    NoRules {
        /// The rules.
        rules: RuleSet,
        /// The scenario that they do not know.
        scenario: Scenario,
    },
    /// The case is not as the rules have it.
    AgainstRules {
        /// The rules.
        rules: RuleSet,
        /// The case's scenario.
        scenario: Scenario,
        /// What differs.
        difference: RuleDifference,
    },
    /// The search for the highest rate came to no end.
    NotFound {
        /// How it ended.
        end: SearchEnd,
        /// The rate at which it ended, in queries per second.
        rate: Option<Rate>,
        /// Measurements that were made.
        measurements: u64,
        /// `maximum-duration` of each.
        maximum_ns: u64,
    },
    /// A run returns long before its device is done, by the device's own events.
    Unsynchronised {
        /// The longest that a plain run took.
        run_ns: u64,
        /// The least time that the device needs for it.
        device_ns: u64,
    },
    /// `run` returned before the work was done, so that latencies do not contain it.
    ReturnedEarly {
        /// The shortest run.
        run_ns: u64,
        /// The least time from its return until its output was read.
        output_ns: u64,
        /// The longest that reading the output again took.
        copy_ns: u64,
    },
    /// All values of an output are NaN.
    NotANumber {
        /// The output's name.
        output: String,
        /// How many values it has.
        values: u64,
    },
}

impl Breach {
    /// The factor by which a bound is missed, so that the worst of many can be chosen. Breaches without such a
    /// figure give 0.
    #[must_use]
    pub fn severity(&self) -> f64 {
        let factor = |greater: f64, smaller: f64| greater / smaller.max(1.0);
        match *self {
            Self::TooShort { timed_ns, minimum_ns } => factor(minimum_ns as f64, timed_ns as f64),
            Self::TooFewQueries { queries, minimum_queries } => {
                factor(minimum_queries as f64, queries as f64)
            }
            Self::TooFewExamples { examples, minimum_examples } => {
                factor(minimum_examples as f64, examples as f64)
            }
            Self::OverLimit { over_queries, allowed_queries, .. } => {
                factor(over_queries as f64, allowed_queries as f64)
            }
            Self::Late { p99_ns, bound_ns } => factor(p99_ns as f64, bound_ns as f64),
            Self::TooSlow { offered_per_second, achieved_per_second, bound_ratio } => {
                // Rates may be below one per second.
                let achieved = achieved_per_second.max(f64::MIN_POSITIVE);
                offered_per_second * bound_ratio / achieved
            }
            Self::Unserved { queries } => queries as f64,
            Self::Unsynchronised { run_ns, device_ns } => factor(device_ns as f64, run_ns as f64),
            Self::ReturnedEarly { run_ns, output_ns, .. } => {
                factor(output_ns as f64, run_ns as f64)
            }
            // Nothing of the output can be right.
            Self::NotANumber { .. } => f64::INFINITY,
            Self::CutShort
            | Self::NoRules { .. }
            | Self::AgainstRules { .. }
            | Self::NotFound { .. } => 0.0,
        }
    }
}

/// A point in which a case differs from what the rules ask for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum RuleDifference {
    /// The examples of a query.
    Examples {
        /// Those of the case.
        examples: u64,
        /// Those of the rules.
        ruled_examples: u64,
    },
    /// The latency has a limit by the rules, and none is set.
    NoLatencyLimit,
    /// The percentile that the limit is on.
    Percentile {
        /// That of the case, as a share from 0 to 1.
        percentile: f64,
        /// That of the rules, as a share from 0 to 1.
        ruled_percentile: f64,
    },
}

impl Breach {
    /// The kind of breach.
    #[must_use]
    pub fn kind(&self) -> InvalidKind {
        match self {
            Self::CutShort => InvalidKind::CutShort,
            Self::TooShort { .. } => InvalidKind::TooShort,
            Self::TooFewQueries { .. } => InvalidKind::TooFewQueries,
            Self::TooFewExamples { .. } => InvalidKind::TooFewExamples,
            Self::OverLimit { .. } => InvalidKind::OverLimit,
            Self::Late { .. } => InvalidKind::Late,
            Self::TooSlow { .. } => InvalidKind::TooSlow,
            Self::Unserved { .. } => InvalidKind::Unserved,
            Self::NoRules { .. } => InvalidKind::NoRules,
            Self::AgainstRules { .. } => InvalidKind::AgainstRules,
            Self::NotFound { .. } => InvalidKind::NotFound,
            Self::Unsynchronised { .. } => InvalidKind::Unsynchronised,
            Self::ReturnedEarly { .. } => InvalidKind::ReturnedEarly,
            Self::NotANumber { .. } => InvalidKind::NotANumber,
        }
    }
}

impl InvalidReason {
    /// The kind of breach.
    #[must_use]
    pub fn kind(&self) -> InvalidKind {
        self.breach.kind()
    }
}

impl From<Breach> for InvalidReason {
    /// Of the first process.
    fn from(breach: Breach) -> Self {
        Self { process: 0, breach }
    }
}

impl fmt::Display for InvalidReason {
    /// The figures in words, with the process if it is not the first.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        in_process(formatter, self.process)?;
        self.breach.fmt(formatter)
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |nanoseconds: u64| time(nanoseconds as f64);
        match self {
            Self::CutShort => {
                formatter.write_str("`maximum-duration` was over before there was enough")
            }
            Self::TooShort { timed_ns, minimum_ns } => write!(
                formatter,
                "measured {}; the rules ask for {}",
                shown(*timed_ns),
                shown(*minimum_ns)
            ),
            Self::TooFewQueries { queries, minimum_queries } => write!(
                formatter,
                "{}; the rules ask for {minimum_queries}",
                count(*queries, "query", "queries")
            ),
            Self::TooFewExamples { examples, minimum_examples } => write!(
                formatter,
                "{}; the rules ask for {minimum_examples}",
                count(*examples, "example", "examples")
            ),
            Self::OverLimit { over_queries, queries, allowed_queries } => write!(
                formatter,
                "{over_queries} of {queries} queries were over the latency limit; at most {allowed_queries} may be"
            ),
            Self::Late { p99_ns, bound_ns } => write!(
                formatter,
                "the load generator was late by {} (p99); at most {} is allowed",
                shown(*p99_ns),
                shown(*bound_ns)
            ),
            Self::TooSlow { offered_per_second, achieved_per_second, bound_ratio } => write!(
                formatter,
                "achieved {} of the offered {}; at least {} is needed",
                rate(*achieved_per_second),
                rate(*offered_per_second),
                percent(*bound_ratio)
            ),
            Self::Unserved { queries } => write!(
                formatter,
                "{} due and never begun",
                count(*queries, "query was", "queries were")
            ),
            Self::NoRules { rules, scenario } => {
                write!(formatter, "{rules} has no rules for {scenario}")
            }
            Self::AgainstRules { rules, scenario, difference } => {
                write!(formatter, "not by the rules of {rules}: ")?;
                match difference {
                    RuleDifference::Examples { examples, ruled_examples } => write!(
                        formatter,
                        "a query of {scenario} has {}, not {examples}",
                        count(*ruled_examples, "example", "examples")
                    ),
                    RuleDifference::NoLatencyLimit => {
                        write!(formatter, "{scenario} needs a latency limit")
                    }
                    RuleDifference::Percentile { percentile: own, ruled_percentile } => write!(
                        formatter,
                        "the latency limit of {scenario} is on {}, not {}",
                        percentile(*ruled_percentile),
                        percentile(*own)
                    ),
                }
            }
            Self::NotFound { end, rate: at, measurements, maximum_ns } => {
                let at = at.map_or_else(|| "an unknown rate".to_owned(), |at| rate(at.get()));
                match end {
                    SearchEnd::Found => write!(formatter, "{at} was found")?,
                    SearchEnd::Unsettled => formatter.write_str("no rate was settled on")?,
                    SearchEnd::GeneratorLate => {
                        write!(formatter, "the load generator could not keep up with {at}")?;
                    }
                    SearchEnd::NotEvenLowest => {
                        write!(formatter, "even the lowest rate tried, {at}, is too much")?;
                    }
                    SearchEnd::CutShort => write!(
                        formatter,
                        "{at} is too much, and `maximum-duration` ({}) is too short for a lower rate",
                        shown(*maximum_ns)
                    )?,
                    SearchEnd::FineAtHighest => {
                        write!(formatter, "the limit was kept at the highest rate searched, {at}")?;
                    }
                }
                write!(formatter, " ({})", count(*measurements, "measurement", "measurements"))
            }
            Self::Unsynchronised { run_ns, device_ns } => write!(
                formatter,
                "runs returned after {} at most, and the device needs at least {}: they return before it is \
                 done",
                shown(*run_ns),
                shown(*device_ns)
            ),
            Self::ReturnedEarly { run_ns, output_ns, copy_ns } => write!(
                formatter,
                "a run returned after {}, and its output came {} later, {} of it for reading: latencies miss \
                 a part of the work",
                shown(*run_ns),
                shown(*output_ns),
                shown(*copy_ns)
            ),
            Self::NotANumber { output, values } => {
                write!(formatter, "all {values} values of output `{output}` are NaN")
            }
        }
    }
}

/// Verdict on a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Verdict {
    /// The public rules that it was judged by; `None`: only that it is whole, that its latency keeps
    /// to the limit set, that an open loop was kept up, and that the backend did the work and ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<RuleSet>,
    /// Reasons why it is invalid; empty if it is valid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<InvalidReason>,
    /// The verdict relies on fewer queries than the rules require, which a binomial bound shows to
    /// be enough: MLPerf's early stopping.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_stopping: Option<EarlyStopping>,
}

/// MLPerf's early stopping for a percentile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct EarlyStopping {
    /// Queries made.
    pub queries: u64,
    /// The least number of queries that is enough.
    pub minimum: u64,
    /// The percentile's estimate in nanoseconds: the latency that as many queries exceed as the
    /// bound allows. `None` if the latency has a limit, which is then the tested value.
    pub estimate_ns: Option<u64>,
}

impl Verdict {
    /// Returns whether the result is valid.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.reasons.is_empty()
    }
}

names! {
    /// Ends of a search for the highest rate.
    SearchEnd {
        /// The border lies between the two rates, both of which were measured twice at least.
        Found = "found",
        /// Measurements ran out before the bracket was narrow and confirmed, or before a rate held.
        Unsettled = "unsettled",
        /// The load generator could not keep up, so nothing was learnt about the target.
        GeneratorLate = "generator-late",
        /// Even the lowest rate is too much.
        NotEvenLowest = "not-even-lowest",
        /// Even the lowest rate that fits into the maximum duration is too high.
        CutShort = "cut-short",
        /// The highest rate is still fine.
        FineAtHighest = "fine-at-highest",
    }
}

/// Result of a search for the highest rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RateSearch {
    /// How it ended.
    pub end: SearchEnd,
    /// The highest rate at which the latency kept to its limit; the case was measured at it.
    pub fine: Option<Rate>,
    /// The lowest rate that failed; it lies above.
    pub too_much: Option<Rate>,
    /// Measurements of the search, in order.
    pub probes: Vec<Probe>,
    /// The rates at which the case's processes were measured, in order: each searches for itself. The
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
    /// The limited percentile of the latency in nanoseconds; `None` if the target or its generator
    /// could not keep up.
    pub latency_ns: Option<u64>,
    /// Completed queries per second; `None` if fewer than two completed, and in records from before it
    /// was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub achieved_per_second: Option<f64>,
    /// Lateness of the generator itself; `None` in records from before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Lateness>,
}

names! {
    /// Behaviour of latencies over time, by the classes of Barrett et al. (OOPSLA 2017).
    SteadyClass {
        /// One level throughout.
        Flat = "flat",
        /// They end in a steady state, and were never lower before.
        WarmUp = "warm-up",
        /// They end in a steady state, and have been lower.
        SlowDown = "slow-down",
        /// Their last level has not lasted.
        NoSteadyState = "no-steady-state",
    }
}

/// Facts about a warm-up whose end was searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct WarmUpFacts {
    /// Behaviour of latencies during warm-up; `None` if there were too few.
    pub class: Option<SteadyClass>,
    /// Queries of warming up.
    pub queries: u64,
    /// Its duration in nanoseconds.
    pub elapsed_ns: u64,
    /// Whether a steady state was reached; if not, the maximum time ended it.
    pub steady: bool,
}
