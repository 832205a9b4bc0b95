//! What defines a case, and what the worker is told about it.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::axis::Axis;
use crate::check::Check;
use crate::pin::Pin;

macro_rules! names {
    ($(#[$meta:meta])* $type:ident { $($(#[$variant_meta:meta])* $variant:ident = $name:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $type { $($(#[$variant_meta])* #[serde(rename = $name)] $variant),+ }

        impl $type {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name used in manifests, files and tables.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.pad(self.name())
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|value| value.name() == text).ok_or_else(|| {
                    let known: Vec<_> = Self::ALL.iter().map(|value| value.name()).collect();
                    format!("`{text}` is none of: {}", known.join(", "))
                })
            }
        }
    };
}
pub(crate) use names;

names! {
    /// The number format in which a model computes.
    Precision {
        /// IEEE 754 binary32.
        Fp32 = "fp32",
        /// IEEE 754 binary16.
        Fp16 = "fp16",
        /// bfloat16: the upper half of a binary32.
        Bf16 = "bf16",
        /// 8-bit integers with scales, from a quantised model.
        Int8 = "int8",
    }
}

names! {
    /// What is done with the model.
    Mode {
        /// Forward passes only.
        Inference = "inference",
    }
}

names! {
    /// How queries are issued, with the meaning that MLPerf Inference gives these words.
    Scenario {
        /// One query of one batch at a time; the next is issued when the last completes.
        SingleStream = "single-stream",
        /// All samples are available at once; the backend may pipeline the batches.
        Offline = "offline",
        /// One query of several samples at a time; the next is issued when all of the last are
        /// done.
        MultiStream = "multi-stream",
        /// Queries of one batch arrive at random, as a Poisson process, whether or not the last is
        /// done.
        Server = "server",
        /// Queries of one batch arrive at equal intervals, whether or not the last is done.
        ConstantRate = "constant-rate",
        /// Several clients, each of which issues a query of one batch when its last one is done.
        ClosedLoop = "closed-loop",
    }
}

impl Scenario {
    /// Whether queries arrive by a schedule of their own, whether or not the backend is ready.
    #[must_use]
    pub fn is_open_loop(self) -> bool {
        matches!(self, Self::Server | Self::ConstantRate)
    }
}

/// What a checked positive number needs to be stored, compared and hashed: it is never NaN and never a
/// negative zero, so that equal bits are equal numbers.
macro_rules! number {
    ($type:ident, $checked:ident) => {
        impl TryFrom<f64> for $type {
            type Error = String;

            fn try_from(number: f64) -> Result<Self, String> {
                Self::$checked(number)
            }
        }

        impl From<$type> for f64 {
            fn from(number: $type) -> Self {
                number.0
            }
        }

        impl PartialEq for $type {
            fn eq(&self, other: &Self) -> bool {
                self.0.to_bits() == other.0.to_bits()
            }
        }

        impl Eq for $type {}

        impl Hash for $type {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.0.to_bits().hash(state);
            }
        }
    };
}

/// A rate of queries per second: above 0 and at most one per nanosecond.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Rate(f64);

impl Rate {
    /// So many queries per second.
    ///
    /// # Errors
    ///
    /// Where it is not above zero, or more than the one per nanosecond that a clock can tell apart.
    pub fn per_second(queries: f64) -> Result<Self, String> {
        if queries > 0.0 && queries <= 1e9 {
            Ok(Self(queries))
        } else {
            Err(format!("{queries} queries per second is not above 0 and at most 1,000,000,000"))
        }
    }

    /// Queries per second.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }

    /// Queries per second to four digits, as a person would write them.
    fn rounded(self) -> f64 {
        let scale = 10_f64.powi((3.0 - self.0.log10().floor()) as i32);
        let rounded = (self.0 * scale).round() / scale;
        // A whole number that somebody chose stays as it is.
        if self.0.fract() == 0.0 { self.0 } else { rounded }
    }
}

number!(Rate, per_second);

impl PartialOrd for Rate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Every rate is a positive number, so that the total order is the usual one.
impl Ord for Rate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl fmt::Display for Rate {
    /// The number alone.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

/// The coordinates of a case in the matrix: what a reader calls the case by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CaseKey {
    /// The `id` of the `[[model]]`.
    pub model: String,
    /// The `id` of the `[[backend]]`.
    pub backend: String,
    /// The device as resolved, such as `cpu:0`.
    pub device: String,
    /// The precision asked for.
    pub precision: Precision,
    /// Samples per batch.
    pub batch: u32,
    /// Length of the sequence axis in tokens, where the matrix has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence_length: Option<u32>,
    /// What is done with the model.
    pub mode: Mode,
    /// How queries are issued.
    pub scenario: Scenario,
    /// Queries per second of an open loop; `None` where the rate is searched, and in every other
    /// scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Clients of a closed loop; `None` in every other scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
}

impl CaseKey {
    /// A key of inference in fp32, a sample at a time, one query after the other.
    #[must_use]
    pub fn new(
        model: impl Into<String>,
        backend: impl Into<String>,
        device: impl Into<String>,
    ) -> Self {
        Self {
            model: model.into(),
            backend: backend.into(),
            device: device.into(),
            precision: Precision::Fp32,
            batch: 1,
            sequence_length: None,
            mode: Mode::Inference,
            scenario: Scenario::SingleStream,
            rate: None,
            clients: None,
        }
    }

    /// The scenario with what it is issued at or by: `server at 500/s`, `closed-loop of 4 clients`.
    #[must_use]
    pub fn load(&self) -> String {
        let Self { scenario, rate, clients, .. } = self;
        match (rate, clients) {
            (Some(rate), _) => format!("{scenario} at {}/s", rate.rounded()),
            (None, Some(1)) => format!("{scenario} of 1 client"),
            (None, Some(clients)) => format!("{scenario} of {clients} clients"),
            (None, None) => scenario.to_string(),
        }
    }
}

impl fmt::Display for CaseKey {
    /// `digits · cpu · cpu:0 · fp32 · batch 8 · offline`
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The mode goes without saying while there is one.
        let axes = Axis::shown().filter(|axis| *axis != Axis::Mode);
        let words: Vec<String> = axes.filter_map(|axis| axis.labelled(self)).collect();
        formatter.write_str(&words.join(" · "))
    }
}

/// When warming up is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WarmUp {
    /// After a number of queries.
    Iterations(u64),
    /// After a time in nanoseconds.
    Nanoseconds(u64),
    /// When the latencies have reached a steady state, which is looked for while warming up.
    Auto,
}

/// A percentile as a share, above 0 and below 1: 0.99 is the 99th. Also a level of confidence.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Share(f64);

impl Share {
    /// This share.
    ///
    /// # Errors
    ///
    /// Where it is not above 0 and below 1.
    pub fn new(share: f64) -> Result<Self, String> {
        if share > 0.0 && share < 1.0 {
            Ok(Self(share))
        } else {
            Err(format!("{share} is not a share above 0 and below 1"))
        }
    }

    /// The share.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

number!(Share, new);

impl fmt::Display for Share {
    /// Without the rounding that binary fractions bring: `99.9 %` of 0.999.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} %", (self.0 * 1e8).round() / 1e6)
    }
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

/// A limit on the latency of a case: its percentile may be this much or less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LatencyLimit {
    /// The latency in nanoseconds.
    pub at_most_ns: u64,
    /// Which percentile of the latencies is limited. `None`: that of the rules for the scenario,
    /// and without rules the 99th.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentile: Option<Share>,
}

names! {
    /// Public rules that a result can be judged by.
    RuleSet {
        /// Those of MLPerf Inference: the least time, queries and samples that each scenario needs.
        MlPerf = "mlperf",
    }
}

names! {
    /// In which order the processes of cases are run.
    Order {
        /// All processes of a case, then those of the next.
        Planned = "planned",
        /// In rounds: the first process of each case, then the second of each, so that a drift of
        /// the machine falls on all cases alike.
        Interleaved = "interleaved",
    }
}

names! {
    /// Where operators may run.
    PlacementRule {
        /// Wherever the backend puts them; what fell back from the device is a warning.
        Any = "any",
        /// On the device that was asked for, or the case fails.
        Strict = "strict",
    }
}

names! {
    /// What is searched, where a case is not measured at a given load.
    Find {
        /// The highest rate of queries at which the latency keeps to its limit.
        MaxRate = "max-rate",
    }
}

/// How a case is measured, with every default resolved.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MeasureSettings {
    /// What is discarded before measuring (kept in the raw samples, marked as warm-up).
    pub warm_up: WarmUp,
    /// Measuring goes on for at least this many nanoseconds.
    pub minimum_duration_ns: u64,
    /// Measuring stops after this many nanoseconds, even if too few queries have been made.
    pub maximum_duration_ns: u64,
    /// Measuring goes on until at least this many queries have been made.
    pub minimum_queries: u64,
    /// Samples that one `offline` query holds at least; rounded up to whole batches.
    /// `None` means: the whole data set, or 24 batches where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offline_samples: Option<u64>,
    /// Samples of one `multi-stream` query; rounded up to whole batches. `None` means 8, MLPerf's
    /// number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multi_stream_samples: Option<u64>,
    /// Measuring goes on, beyond its minima, until an interval is as narrow as this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// What the latency may be. A case beyond it is invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_limit: Option<LatencyLimit>,
    /// Public rules that the case is judged by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<RuleSet>,
    /// What is searched in the open-loop scenarios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub find: Option<Find>,
    /// In how many processes, one after the other, the case is measured.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub processes: u32,
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
    /// How long it is from one look at the device to the next while queries are timed, in
    /// nanoseconds. `None`: it is not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_sampling_ns: Option<u64>,
}

/// One measurement of a search is this long in nanoseconds, unless the case itself is shorter or the
/// percentile needs more queries.
const PROBE_NS: u64 = 2_000_000_000;

impl MeasureSettings {
    /// How long one measurement of a search for a rate takes at least, in nanoseconds.
    #[must_use]
    pub fn probe_ns(&self) -> u64 {
        PROBE_NS.min(self.minimum_duration_ns).min(self.maximum_duration_ns / 2)
    }
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_one(count: &u32) -> bool {
    *count == 1
}

/// What a manifest without `[measure]` gets.
impl Default for MeasureSettings {
    fn default() -> Self {
        Self {
            warm_up: WarmUp::Nanoseconds(1_000_000_000),
            minimum_duration_ns: 5_000_000_000,
            maximum_duration_ns: 50_000_000_000,
            minimum_queries: 100,
            offline_samples: None,
            multi_stream_samples: None,
            confidence: None,
            latency_limit: None,
            rules: None,
            find: None,
            processes: 1,
            timeout_ns: 60_000_000_000,
            memory_limit_bytes: None,
            pin: Pin::None,
            nice: None,
            device_sampling_ns: None,
        }
    }
}

/// Seeded input for one model input that has no data file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SyntheticInput {
    /// Sizes of named or numbered dynamic axes other than batch and sequence length.
    #[serde(default)]
    pub dimensions: BTreeMap<String, u64>,
    /// Lowest value.
    pub low: f64,
    /// Highest value.
    pub high: f64,
}

/// Where a model's inputs come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InputSource {
    /// NumPy `.npy` files whose first axis counts examples, by input name, and the labels beside
    /// them.
    Files {
        /// Input name → file.
        inputs: BTreeMap<String, PathBuf>,
        /// Class labels: integers, shape `[examples]`.
        labels: Option<PathBuf>,
    },
    /// Values drawn from the seed. Inputs not named here are drawn uniformly from 0 to 1.
    Synthetic(BTreeMap<String, SyntheticInput>),
}

/// Which plugin took part: enough to tell that two results came from the same code.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PluginIdentity {
    /// The plugin's id.
    pub id: String,
    /// Its version, semver.
    pub version: String,
    /// SHA-256 of its library or component, in hexadecimal.
    pub sha256: String,
}

/// A device as a backend describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DeviceInfo {
    /// Stable within a machine, such as `cpu:0`.
    pub id: String,
    /// `cpu`, `gpu`, `npu` or another word for the kind of hardware.
    pub kind: String,
    /// The full name that the vendor gives it.
    pub name: String,
    /// Memory in bytes; `None` where the backend cannot tell.
    pub memory_bytes: Option<u64>,
    /// Precisions in which it computes here.
    pub precisions: Vec<Precision>,
    /// Whatever else the backend says: driver, runtime, compute capability.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
}

/// A case, with everything that a worker needs to measure it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CaseSpec {
    /// Sixteen hexadecimal digits: a hash of all that defines the case. Two cases with the same
    /// id did the same work, whichever run they are from.
    pub id: String,
    /// Position in the plan, from 0.
    pub index: u64,
    /// Coordinates in the matrix.
    pub key: CaseKey,
    /// The model file.
    pub model_path: PathBuf,
    /// SHA-256 of the model file, in hexadecimal.
    pub model_sha256: String,
    /// The plugin that runs it.
    pub plugin: PluginIdentity,
    /// The plugin's library.
    pub plugin_library: PathBuf,
    /// The device as its backend described it when the plan was made.
    pub device: DeviceInfo,
    /// Threads that the backend may use; `None` leaves it to the backend.
    pub threads: Option<u32>,
    /// Options passed through to the backend.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// Where operators may run.
    #[serde(default = "anywhere", skip_serializing_if = "is_anywhere")]
    pub placement: PlacementRule,
    /// What its outputs are compared with before it is timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Box<Check>>,
    /// Where inputs come from.
    pub inputs: InputSource,
    /// How to measure.
    pub measure: MeasureSettings,
    /// Seed for whatever is random in this case.
    pub seed: u64,
    /// Which of its processes is to measure it, from 0.
    #[serde(default, skip_serializing_if = "crate::outcome::is_first")]
    pub process: u32,
}

fn anywhere() -> PlacementRule {
    PlacementRule::Any
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_anywhere(rule: &PlacementRule) -> bool {
    *rule == PlacementRule::Any
}

impl CaseSpec {
    /// What the files of this process of the case are named by.
    #[must_use]
    pub fn part(&self) -> String {
        crate::outcome::part(&self.id, self.process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_written_as_a_person_would() {
        let shown = |rate: f64| Rate::per_second(rate).expect("a rate").rounded().to_string();
        assert_eq!(shown(24.799_588_326_833_774), "24.8");
        assert_eq!(shown(0.012_345_6), "0.01235");
        assert_eq!(shown(123_456.7), "123500");
        assert_eq!(shown(150_001.0), "150001");
        assert_eq!(shown(0.5), "0.5");
    }
}
