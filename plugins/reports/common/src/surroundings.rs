//! What a case was measured under besides its settings, as the host's JSON has it: where the worker ran,
//! what came between, where the time of a whole query goes, and how the load of an open loop was kept up.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::humanise;
use crate::run::Gap;

/// What a case was measured under. What a host or a machine does not tell is not there.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Surroundings {
    /// Where the worker ran.
    pub scheduling: Option<Scheduling>,
    /// What came between.
    pub disturbance: Option<Disturbance>,
    /// Where the time of a whole query goes, or why that is not known.
    pub stages: Option<Result<QueryStages, Gap>>,
}

/// Where a worker ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Scheduling {
    /// Processors that it could use, as the kernel lists them.
    pub processors: Option<String>,
    /// Whether it was bound to them because the manifest asked for it.
    pub pinned: bool,
}

/// What the kernel counted while a case was measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Disturbance {
    /// How often a thread gave its processor up, to wait for something.
    pub voluntary_switches: Option<u64>,
    /// How often the kernel took the processor from a thread.
    pub involuntary_switches: Option<u64>,
    /// Pages that were mapped without reading a disk.
    pub minor_faults: Option<u64>,
    /// Pages that had to be read from a disk.
    pub major_faults: Option<u64>,
    /// Time in nanoseconds that a hypervisor kept from the machine.
    pub stolen_ns: Option<u64>,
    /// How often heat slowed one of the processors.
    pub thermal_throttles: Option<u64>,
    /// How often the control group's quota stopped the worker.
    pub quota_throttles: Option<u64>,
    /// Highest frequency in hertz among the worker's processors when measuring began.
    pub frequency_start_hertz: Option<u64>,
    /// The same when it ended.
    pub frequency_end_hertz: Option<u64>,
}

/// Means over whole queries, from inputs to outputs in the host's memory, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct QueryStages {
    /// From the host's memory to the device.
    pub copy_in_ns: f64,
    /// On the device.
    pub compute_ns: f64,
    /// From the device to the host's memory.
    pub copy_out_ns: f64,
}

/// How the load of an open loop was kept up. Rates are in queries per second, lateness is that of the
/// load's generator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct OpenLoop {
    /// The rate that was asked for.
    pub asked_rate: Option<f64>,
    /// The rate that was scheduled.
    pub offered_rate: Option<f64>,
    /// The rate at which queries ended.
    pub achieved_rate: Option<f64>,
    /// Queries that were due and never begun.
    pub unserved: Option<i64>,
    /// Median lateness in nanoseconds.
    pub lateness_p50_ns: Option<i64>,
    /// Its 99th percentile.
    pub lateness_p99_ns: Option<i64>,
    /// The greatest.
    pub lateness_max_ns: Option<i64>,
}

/// What a search for the highest rate came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RateSearch {
    /// How it ended.
    pub end: String,
    /// The highest rate at which the latency kept to its limit.
    pub fine: Option<f64>,
    /// The lowest rate above it at which it did not.
    pub too_much: Option<f64>,
    /// What was measured on the way, in order.
    pub probes: Vec<Probe>,
    /// The rates that the case's processes were measured at; all else is of the first of them. Empty of a
    /// host of before they were kept.
    #[serde(default)]
    pub rates: Vec<f64>,
}

/// One measurement of a search. A host of before they were kept has no achieved rate and no lateness.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Probe {
    /// Queries per second.
    pub rate: f64,
    /// Queries made.
    pub queries: u64,
    /// The limited percentile of the latency; `None` where the load could not be kept up.
    pub latency_ns: Option<u64>,
    /// Queries per second that ended.
    #[serde(default)]
    pub achieved_per_second: Option<f64>,
    /// How late the generator of the load was.
    #[serde(default)]
    pub lateness: Option<Lateness>,
}

/// How late a generator of a load was, in nanoseconds.
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

impl Scheduling {
    /// The processors, for people.
    #[must_use]
    pub fn written(&self) -> Option<String> {
        let pinned = if self.pinned { "pinned" } else { "not pinned" };
        self.processors.as_ref().map(|processors| format!("{processors}, {pinned}"))
    }
}

impl OpenLoop {
    /// What is known of it: names and values for people.
    #[must_use]
    pub fn written(&self) -> Vec<(&'static str, String)> {
        let rate = |name, rate: Option<f64>| rate.map(|rate| (name, humanise(rate, "1/s")));
        let late = |name, time: Option<i64>| time.map(|time| (name, humanise(time as f64, "ns")));
        let unserved = self.unserved.filter(|count| *count > 0);
        [
            rate("rate asked for", self.asked_rate),
            rate("rate offered", self.offered_rate),
            rate("rate achieved", self.achieved_rate),
            unserved.map(|count| ("queries never begun", count.to_string())),
            late("generator's lateness, median", self.lateness_p50_ns),
            late("generator's lateness, p99", self.lateness_p99_ns),
            late("generator's lateness, maximum", self.lateness_max_ns),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

impl RateSearch {
    /// The result for people: `found: 412/s is fine, 430/s too much, in 9 measurements`.
    #[must_use]
    pub fn written(&self) -> String {
        let rate = |rate: Option<f64>, what: &str| {
            rate.map(|rate| format!("{} {what}", humanise(rate, "1/s")))
        };
        let rates = [rate(self.fine, "is fine"), rate(self.too_much, "is too much")];
        let rates: Vec<_> = rates.into_iter().flatten().collect();
        let end = self.end.replace('-', " ");
        let mut written =
            format!("{end}: {}; {} measurements", rates.join(", "), self.probes.len());
        if self.rates.len() > 1 {
            let rates: Vec<_> = self.rates.iter().map(|rate| humanise(*rate, "1/s")).collect();
            written.push_str(&format!("; the processes found {}", rates.join(", ")));
        }
        written
    }

    /// The least of the rates that processes found, which all of them kept to.
    #[must_use]
    pub fn least(&self) -> Option<f64> {
        self.rates.iter().copied().min_by(f64::total_cmp)
    }
}

/// A JSON object of the host; `None` where it is none, or one of a kind that is not known here.
pub(crate) fn parsed<T: DeserializeOwned>(text: Option<&str>) -> Option<T> {
    serde_json::from_str(text?).ok()
}
