//! Load of a case, and the verdict on its result.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::key::Scenario;
use crate::names::names;
use crate::number::Rate;
use crate::numbered::{in_process, is_first};
use crate::rules::RuleDeparture;
use crate::settings::RuleSet;
use crate::words::{count, percent, percentile, rate, time};

/// Pace of an open loop. Rates are of *n* queries over the *n − 1* gaps from the
/// first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Pace {
    /// Requested rate. A Poisson schedule offers it only on average.
    pub asked: Rate,
    /// Scheduled queries per second; `None` if fewer than two were scheduled.
    pub offered_per_second: Option<f64>,
    /// Completed queries per second; `None` if fewer than two completed.
    pub achieved_per_second: Option<f64>,
    /// Queries that were due but had not started when the maximum ended the loop.
    pub unserved: u64,
    /// Lateness of the generator itself; `None` without queries.
    pub lateness: Option<Lateness>,
}

/// Lateness of the load generator: the delay of queries against a generator that is never late. Waiting for
/// a busy backend does not count.
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
        /// The maximum duration ended the measurement before it had enough queries.
        CutShort = "cut-short",
        /// The measurement was shorter than the rules require.
        TooShort = "too-short",
        /// There were fewer queries than the rules require.
        TooFewQueries = "too-few-queries",
        /// There were fewer examples than the rules require.
        TooFewExamples = "too-few-examples",
        /// The latency exceeds its limit.
        OverLimit = "over-limit",
        /// The load generator was late.
        Late = "late",
        /// Queries completed more slowly than they arrived.
        TooSlow = "too-slow",
        /// Queries were due but never started.
        Unserved = "unserved",
        /// The rules do not cover the case.
        NoRules = "no-rules",
        /// The case differs from the rules.
        AgainstRules = "against-rules",
        /// The search did not finish.
        NotFound = "not-found",
        /// Runs return long before the device is done, by the device's own events.
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
    /// `maximum-duration` ended the measurement before it had enough queries.
    CutShort,
    /// The measurement was shorter than the rules require.
    TooShort {
        /// Measured time.
        timed_ns: u64,
        /// Required time.
        minimum_ns: u64,
    },
    /// There were fewer queries than the rules require.
    TooFewQueries {
        /// Measured queries.
        queries: u64,
        /// Required queries.
        minimum_queries: u64,
    },
    /// There were fewer examples than the rules require.
    TooFewExamples {
        /// Measured examples.
        examples: u64,
        /// Required examples.
        minimum_examples: u64,
    },
    /// Too many latencies exceed the limit.
    OverLimit {
        /// Queries over the limit.
        over_queries: u64,
        /// All queries.
        queries: u64,
        /// Queries that may exceed the limit.
        allowed_queries: u64,
    },
    /// The load generator was late.
    Late {
        /// 99th percentile of its lateness.
        p99_ns: u64,
        /// Greatest lateness allowed.
        bound_ns: u64,
    },
    /// Queries completed more slowly than they arrived.
    TooSlow {
        /// Rate of arrivals.
        offered_per_second: f64,
        /// Rate of completions.
        achieved_per_second: f64,
        /// Part of the offered rate that must be achieved, from 0 to 1.
        bound_ratio: f64,
    },
    /// Queries were due but never started.
    Unserved {
        /// Number of queries.
        queries: u64,
    },
    /// The rules do not cover the case.
    NoRules {
        /// The rules.
        rules: RuleSet,
        /// The scenario without rules.
        scenario: Scenario,
    },
    /// The case differs from the rules.
    AgainstRules {
        /// The rules.
        rules: RuleSet,
        /// The case's scenario.
        scenario: Scenario,
        /// The difference.
        difference: RuleDifference,
    },
    /// The search found no rate.
    NotFound {
        /// End of the search.
        end: SearchEnd,
        /// Rate at which the search ended, in queries per second.
        rate: Option<Rate>,
        /// Number of probes.
        probes: u64,
        /// `maximum-duration`, the time limit of each.
        maximum_ns: u64,
    },
    /// Runs return long before the device is done, by the device's own events.
    Unsynchronised {
        /// Longest plain run.
        run_ns: u64,
        /// Shortest time that the device needs for a run.
        device_ns: u64,
    },
    /// `run` returned before the work was done, so latencies do not contain it.
    ReturnedEarly {
        /// The call.
        #[serde(default)]
        call: TimedCall,
        /// Shortest run.
        run_ns: u64,
        /// Shortest time from its return until its output was read.
        output_ns: u64,
        /// Longest time to read the output once more.
        copy_ns: u64,
    },
    /// All values of an output are NaN.
    NotANumber {
        /// The output's name.
        output: String,
        /// Number of values.
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

names! {
    /// A call whose return ends a latency.
    TimedCall {
        /// `run`, which returns when its batch is done.
        Run = "run",
        /// `synchronise`, which returns when all batches are done that were enqueued.
        Synchronise = "synchronise",
    }
}

/// Older records are of `run`.
impl Default for TimedCall {
    fn default() -> Self {
        Self::Run
    }
}

impl TimedCall {
    /// Returns the beginning of a sentence about its return.
    pub(crate) fn returned(self) -> &'static str {
        match self {
            Self::Run => "a run returned",
            Self::Synchronise => "enqueued runs were said to be done",
        }
    }
}

/// A point in which a case differs from what the rules ask for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum RuleDifference {
    /// The examples of a query.
    Examples {
        /// Examples in the case.
        examples: u64,
        /// Examples by the rules.
        ruled_examples: u64,
    },
    /// The rules limit the latency, but the case sets no limit.
    NoLatencyLimit,
    /// The percentile that the limit is on.
    Percentile {
        /// Percentile in the case, as a share from 0 to 1.
        percentile: f64,
        /// Percentile by the rules, as a share from 0 to 1.
        ruled_percentile: f64,
    },
}

impl Breach {
    /// Returns the kind of breach.
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
    /// Returns the kind of breach.
    #[must_use]
    pub fn kind(&self) -> InvalidKind {
        self.breach.kind()
    }
}

impl From<Breach> for InvalidReason {
    /// Attributes the breach to the first process.
    fn from(breach: Breach) -> Self {
        Self { process: 0, breach }
    }
}

impl fmt::Display for InvalidReason {
    /// Writes the figures in words, with the process if it is not the first.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        in_process(formatter, self.process)?;
        self.breach.fmt(formatter)
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |nanoseconds: u64| time(nanoseconds as f64);
        match self {
            Self::CutShort => formatter
                .write_str("`maximum-duration` ended the measurement before it had enough queries"),
            Self::TooShort { timed_ns, minimum_ns } => write!(
                formatter,
                "measured {}; the rules require {}",
                shown(*timed_ns),
                shown(*minimum_ns)
            ),
            Self::TooFewQueries { queries, minimum_queries } => write!(
                formatter,
                "{}; the rules require {minimum_queries}",
                count(*queries, "query", "queries")
            ),
            Self::TooFewExamples { examples, minimum_examples } => write!(
                formatter,
                "{}; the rules require {minimum_examples}",
                count(*examples, "example", "examples")
            ),
            Self::OverLimit { over_queries, queries, allowed_queries } => write!(
                formatter,
                "{over_queries} of {queries} queries exceeded the latency limit; at most {allowed_queries} may"
            ),
            Self::Late { p99_ns, bound_ns } => write!(
                formatter,
                "the load generator was {} late (p99); at most {} is allowed",
                shown(*p99_ns),
                shown(*bound_ns)
            ),
            Self::TooSlow { offered_per_second, achieved_per_second, bound_ratio } => write!(
                formatter,
                "achieved {} of {} offered; at least {} is required",
                rate(*achieved_per_second),
                rate(*offered_per_second),
                percent(*bound_ratio)
            ),
            Self::Unserved { queries } => write!(
                formatter,
                "{} due but never started",
                count(*queries, "query was", "queries were")
            ),
            Self::NoRules { rules, scenario } => {
                write!(formatter, "{rules} has no rules for the scenario {scenario}")
            }
            Self::AgainstRules { rules, scenario, difference } => {
                write!(formatter, "against the rules of {rules}: ")?;
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
                        "the latency limit of {scenario} applies to {}, not {}",
                        percentile(*ruled_percentile),
                        percentile(*own)
                    ),
                }
            }
            Self::NotFound { end, rate: at, probes, maximum_ns } => {
                let at = at.map_or_else(|| "an unknown rate".to_owned(), |at| rate(at.get()));
                match end {
                    SearchEnd::Found => write!(formatter, "{at} was found")?,
                    SearchEnd::Inconclusive => {
                        formatter.write_str("the search for the highest rate was inconclusive")?;
                    }
                    SearchEnd::GeneratorLate => {
                        write!(formatter, "the load generator could not keep up with {at}")?;
                    }
                    SearchEnd::NoAcceptedRate => {
                        write!(
                            formatter,
                            "the latency limit is exceeded at the lowest rate, {at}"
                        )?;
                    }
                    SearchEnd::LimitedByDuration => write!(
                        formatter,
                        "the latency limit is exceeded at {at}, and `maximum-duration` ({}) is too short for \
                         lower rates",
                        shown(*maximum_ns)
                    )?,
                    SearchEnd::NoRejectedRate => {
                        write!(
                            formatter,
                            "the latency limit is met even at the highest rate, {at}"
                        )?;
                    }
                }
                write!(formatter, " ({})", count(*probes, "probe", "probes"))
            }
            Self::Unsynchronised { run_ns, device_ns } => write!(
                formatter,
                "runs returned within {}, but the device needs at least {}: they do not wait for the device",
                shown(*run_ns),
                shown(*device_ns)
            ),
            Self::ReturnedEarly { call, run_ns, output_ns, copy_ns } => write!(
                formatter,
                "{} after {}, but its output was ready {} later ({} of that to read it): latencies \
                 miss part of the work",
                call.returned(),
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
    /// MLPerf's early stopping, which applies at any number of queries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_stopping: Option<EarlyStopping>,
    /// In what the measurement differs from the rules, whatever its figures: it is not a result of their authors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub departures: Vec<RuleDeparture>,
}

/// MLPerf's early stopping for a percentile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct EarlyStopping {
    /// Queries made.
    pub queries: u64,
    /// The least number of queries that is enough.
    pub minimum: u64,
    /// The percentile's estimate in nanoseconds, which is the result by the rules: the latency that as many queries
    /// reach or exceed as the bound allows. `None` if the latency has a limit, which is then the tested value.
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
        /// The border lies between the two rates, both of which were probed at least twice.
        Found = "found",
        /// Probes ran out before the bracket was narrow and confirmed, or no rate held in whole measurements.
        Inconclusive = "inconclusive",
        /// The load generator could not keep up, so the search says nothing about the target.
        GeneratorLate = "generator-late",
        /// Even the lowest rate was rejected.
        NoAcceptedRate = "no-accepted-rate",
        /// Even the lowest rate that fits into the maximum duration was rejected.
        LimitedByDuration = "limited-by-duration",
        /// Even the highest rate was accepted.
        NoRejectedRate = "no-rejected-rate",
    }
}

/// Result of a search for the highest rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RateSearch {
    /// End of the search.
    pub end: SearchEnd,
    /// Highest accepted rate, whose latency stayed within the limit. The case was measured at it.
    pub accepted: Option<Rate>,
    /// Lowest rejected rate, above the accepted one.
    pub rejected: Option<Rate>,
    /// Probes of the search, in order.
    pub probes: Vec<Probe>,
    /// Rates at which the case's processes were measured, in order: each process searches for itself. The
    /// other fields are those of the first process. Empty in older records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<Rate>,
    /// Evidence that the accepted rate holds; absent if none was found, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldRate>,
    /// Curve of the latency over the rate, as the probes show it; absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curve: Option<RateCurve>,
}

/// Evidence that a rate holds: its latency stays within the limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HeldRate {
    /// Measurements as long as the case, at the rate and near it.
    pub measurements: u32,
    /// Their limited percentile at this rate, in nanoseconds: the geometric mean.
    pub latency_ns: u64,
    /// Upper bound of the latency, in nanoseconds.
    pub bound_ns: u64,
    /// Confidence of the bound, from 0 to 1.
    pub confidence: f64,
    /// The latency that the bound is of.
    pub of: HeldLatency,
}

names! {
    /// A latency that has a bound.
    HeldLatency {
        /// That of all measurements at the rate, in the mean.
        Mean = "mean",
        /// That of the next measurement, because rules judge it alone.
        Next = "next",
    }
}

names! {
    /// Limit that bounds a rate.
    RateBound {
        /// The latency: at higher rates it exceeds its limit, while queries complete as fast as they arrive.
        Latency = "latency",
        /// The throughput: at higher rates queries complete more slowly than they arrive.
        Throughput = "throughput",
        /// The load generator, which could not keep up itself.
        Generator = "generator",
    }
}

names! {
    /// Shape of the latency over the rate near its limit.
    CurveShape {
        /// From half of the limit to the limit the rate grows by less than a tenth.
        Cliff = "cliff",
        /// It grows by more: a somewhat lower latency costs little throughput.
        Slope = "slope",
    }
}

/// Latency over the rate, by an isotonic fit of all probes: the curve that never falls with the rate and is nearest to
/// them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RateCurve {
    /// Rate at which the fitted latency reaches its limit; half of all measurements there stay within it.
    pub border: Option<Rate>,
    /// Rate at which it reaches half of its limit.
    pub half: Option<Rate>,
    /// Limit that bounds the rate; absent if no probe was rejected.
    pub bound_by: Option<RateBound>,
    /// Shape near the limit, if both rates are known.
    pub shape: Option<CurveShape>,
}

/// One measurement of the search for a rate.
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
    /// Completed queries per second; `None` if fewer than two completed, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub achieved_per_second: Option<f64>,
    /// Lateness of the generator itself; `None` in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Lateness>,
}

names! {
    /// Behaviour of latencies over time, by the classes of Barrett et al. (OOPSLA 2017).
    SteadyClass {
        /// One level throughout.
        Flat = "flat",
        /// A steady state at the end, at the lowest level of all.
        WarmUp = "warm-up",
        /// A steady state at the end, after a lower level.
        SlowDown = "slow-down",
        /// No level that lasted to the end.
        NoSteadyState = "no-steady-state",
    }
}

/// Facts about a warm-up that ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct WarmUpFacts {
    /// Behaviour of latencies during warm-up; `None` if there were too few.
    pub class: Option<SteadyClass>,
    /// Queries of the warm-up.
    pub queries: u64,
    /// Its duration in nanoseconds.
    pub elapsed_ns: u64,
    /// Whether a steady state was reached; otherwise the maximum time ended the warm-up.
    pub steady: bool,
}
