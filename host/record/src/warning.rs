//! Typed doubts about a measurement, with their figures.
//!
//! A warning is data: it goes through the journal, the store and the views as it was found, and becomes text only
//! when somebody reads it, with [`Warning`]'s `Display`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::device_state::SlowedBy;
use crate::gap::Gap;
use crate::load::{Breach, SteadyClass, TimedCall};
use crate::names::names;
use crate::numbered::{in_process, is_first};
use crate::peaks::PeakSource;
use crate::phase::ErrorCode;
use crate::placement::ProviderShare;
use crate::words::{
    about, bytes, change, count, flops, list, percent, percentile, time, time_change,
};

names! {
    /// A kind of doubt about a measurement.
    WarningKind {
        /// The result is invalid: it broke its limit, or the rules, or its load was not kept up, or the work
        /// was not done.
        Invalid = "invalid",
        /// No hardware of its kind computed: the device is a simulator, or is made of software.
        Simulated = "simulated",
        /// Fewer queries, or less time, than was asked for.
        FewSamples = "few-samples",
        /// The interval around a percentile is wider than was asked for.
        WideInterval = "wide-interval",
        /// Too few queries to tell whether the limited percentile keeps to its limit.
        LimitUndecided = "limit-undecided",
        /// A query takes so little time that the harness's own cost shows.
        OverheadVisible = "overhead-visible",
        /// A query takes less than a few steps of the clock.
        ClockTooCoarse = "clock-too-coarse",
        /// The latencies reached no steady state while warming up.
        NoSteadyState = "no-steady-state",
        /// Latencies drifted between the first and the last part of the measurement.
        Drift = "drift",
        /// The first of the measured queries belong to the warm-up.
        WarmingUp = "warming-up",
        /// From some query on all were slower, as on a machine that lowers its clocks.
        SlowedDown = "slowed-down",
        /// Queries take one of two times, so no single number describes them.
        Bimodal = "bimodal",
        /// Queries stall at regular intervals.
        Stalls = "stalls",
        /// `run` returned before the work was done, so latencies do not contain it.
        ReturnedEarly = "returned-early",
        /// Runs outside the measurement took another time than those within it.
        PassesDisagree = "passes-disagree",
        /// More operations for each second than the device can do: its peak or their count is wrong.
        AbovePeak = "above-peak",
        /// The backend reported figures that cannot be, which are refused.
        Impossible = "impossible",
        /// Operators ran elsewhere than on the requested device.
        FellBack = "fell-back",
        /// Some of the model's outputs are NaN.
        NotANumber = "not-a-number",
        /// An output has one value only, or infinite ones.
        TrivialOutput = "trivial-output",
        /// The backend wrote to standard output or standard error while it was measured.
        OutputWritten = "output-written",
        /// The backend left processes behind.
        ProcessesLeft = "processes-left",
        /// Other work kept the machine busy.
        MachineBusy = "machine-busy",
        /// More threads compute than there are processors.
        Oversubscribed = "oversubscribed",
        /// The kernel kept taking the processor from the threads that were measured.
        Preempted = "preempted",
        /// A reading of the clock costs more than it should.
        ClockSlow = "clock-slow",
        /// Heat, a quota or a power limit slowed the processors or the device.
        Throttled = "throttled",
        /// The processors' frequency changed.
        FrequencyChanged = "frequency-changed",
        /// Pages of memory were missing while measuring.
        PageFaults = "page-faults",
        /// The backend used another setting than requested.
        NotAsAsked = "not-as-asked",
        /// Other jobs of the cluster may run on the node.
        NodeShared = "node-shared",
        /// The device was to be sampled while measuring, and was not.
        DeviceNotSampled = "device-not-sampled",
        /// The outputs over the data set were not collected.
        OutputsNotCollected = "outputs-not-collected",
        /// The backend failed to end a session, the model or itself.
        EndFailed = "end-failed",
        /// A file of the case is no longer in the run folder.
        FileLost = "file-lost",
    }
}

impl WarningKind {
    /// Returns whether a warning of this kind casts doubt on a metric: on its value, and not only on its precision,
    /// which the interval states. A metric that the host does not know may be touched by any.
    #[must_use]
    pub fn touches(self, metric: &str) -> bool {
        let plugin = metric.split('.').next().unwrap_or(metric);
        match plugin {
            // They are computed in a session of their own, and not from times.
            "training" if ["training.loss", "training.test-accuracy"].contains(&metric) => {
                self == Self::Invalid || self == Self::Simulated
            }
            "training" => self.is_of_time(),
            "latency" | "throughput" | "energy" | "stability" | "startup" | "scaling" => {
                self.is_of_time()
            }
            "model" => self == Self::AbovePeak || self.is_of_time(),
            "memory" => self.is_of_memory(),
            "accuracy" => self.is_of_outputs(),
            _ => true,
        }
    }

    fn is_of_time(self) -> bool {
        match self {
            Self::Invalid
            | Self::Simulated
            | Self::FewSamples
            | Self::OverheadVisible
            | Self::ClockTooCoarse
            | Self::NoSteadyState
            | Self::Drift
            | Self::WarmingUp
            | Self::SlowedDown
            | Self::Bimodal
            | Self::Stalls
            | Self::ReturnedEarly
            | Self::PassesDisagree
            | Self::Impossible
            | Self::FellBack
            | Self::OutputWritten
            | Self::MachineBusy
            | Self::NodeShared
            | Self::Oversubscribed
            | Self::Preempted
            | Self::ClockSlow
            | Self::Throttled
            | Self::FrequencyChanged
            | Self::PageFaults
            | Self::NotAsAsked
            | Self::TrivialOutput
            | Self::FileLost => true,
            Self::AbovePeak
            | Self::WideInterval
            | Self::LimitUndecided
            | Self::NotANumber
            | Self::ProcessesLeft
            | Self::DeviceNotSampled
            | Self::OutputsNotCollected
            | Self::EndFailed => false,
        }
    }

    fn is_of_memory(self) -> bool {
        use WarningKind as Kind;
        matches!(
            self,
            Kind::Invalid
                | Kind::Simulated
                | Kind::FellBack
                | Kind::ProcessesLeft
                | Kind::NotAsAsked
                | Kind::Impossible
        )
    }

    fn is_of_outputs(self) -> bool {
        use WarningKind as Kind;
        matches!(
            self,
            Kind::NotANumber
                | Kind::TrivialOutput
                | Kind::FellBack
                | Kind::NotAsAsked
                | Kind::OutputsNotCollected
                | Kind::FileLost
        )
    }
}

/// A warning about one process of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Warning {
    /// The process that was measured, from 0.
    #[serde(default, skip_serializing_if = "is_first")]
    pub process: u32,
    /// The doubt, with its figures.
    #[serde(flatten)]
    pub doubt: Doubt,
}

/// A doubt about a measurement, with the figures that raise it. Each kind is a [`WarningKind`] of the same name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Doubt {
    /// The result is invalid.
    Invalid {
        /// The breach.
        breach: Breach,
    },
    /// The device is a simulator, or is implemented in software.
    Simulated {
        /// The backend's description.
        backend_message: String,
    },
    /// The measurement ended before it reached its minimum of queries or time.
    FewSamples {
        /// Measured queries.
        queries: u64,
        /// Minimum of queries.
        minimum_queries: u64,
        /// Measured time.
        timed_ns: u64,
        /// Minimum of time.
        minimum_ns: u64,
        /// `maximum-duration`, which ended the measurement.
        maximum_ns: u64,
    },
    /// The measurement ended before the interval around a percentile was narrow enough.
    WideInterval {
        /// The percentile, as a share from 0 to 1.
        percentile: f64,
        /// The requested half width, as a share of the percentile's value.
        half_width: f64,
        /// The interval's confidence, from 0 to 1.
        level: f64,
        /// `maximum-duration`, which ended the measurement.
        maximum_ns: u64,
    },
    /// The latency limit is on a percentile that needs more queries.
    LimitUndecided {
        /// The percentile, as a share from 0 to 1.
        percentile: f64,
        /// Measured queries.
        queries: u64,
        /// Queries that are needed.
        needed_queries: u64,
    },
    /// The measuring loop is a visible part of a query's latency.
    OverheadVisible {
        /// Median latency of a query.
        query_ns: f64,
        /// Time that the loop adds to each.
        loop_ns: f64,
    },
    /// The clock's steps are a visible part of a query's latency.
    ClockTooCoarse {
        /// Median latency of a query.
        query_ns: f64,
        /// Smallest step between readings.
        resolution_ns: u64,
    },
    /// Warming up ended without a steady state.
    NoSteadyState {
        /// The class of the latencies; `None` if there were too few.
        class: Option<SteadyClass>,
        /// Queries of the warm-up.
        queries: u64,
        /// Duration of the warm-up.
        elapsed_ns: u64,
    },
    /// The median latency of the last third differs from that of the first third.
    Drift {
        /// Median of the first third.
        from_ns: f64,
        /// Median of the last third.
        to_ns: f64,
        /// Median absolute deviation within a third, the greater of the two.
        scatter_ns: f64,
    },
    /// The first queries were slower, as during a warm-up.
    WarmingUp {
        /// Number of slower queries at the beginning.
        first_queries: u64,
        /// Measured queries.
        queries: u64,
        /// Median latency of the first queries.
        first_ns: f64,
        /// Median latency of the others.
        later_ns: f64,
    },
    /// Queries became slower and stayed slower.
    SlowedDown {
        /// The first of the fast queries, from 0.
        fast_from_query: u64,
        /// The first of the slow queries, which continue to the end.
        slow_from_query: u64,
        /// Measured queries.
        queries: u64,
        /// Typical latency of the fast ones.
        from_ns: f64,
        /// Typical latency of the slow ones.
        to_ns: f64,
    },
    /// Queries take one of two times.
    Bimodal {
        /// Part of the queries that are fast, from 0 to 1.
        fast_ratio: f64,
        /// Median latency of the fast ones.
        fast_ns: u64,
        /// Median latency of the slow ones.
        slow_ns: u64,
    },
    /// Queries stall at regular intervals.
    Stalls {
        /// Distance between stalls, in queries.
        every_queries: f64,
        /// Median latency of stalled queries.
        stalled_ns: f64,
        /// Median latency of all queries.
        typical_ns: f64,
        /// Part of the total time that stalls took, from 0 to 1.
        time_ratio: f64,
        /// Number of clients. Only queries of the first are examined.
        clients: u32,
        /// Whether latencies count from the start of queries rather than from their scheduled time.
        since_begun: bool,
    },
    /// `run` returned before the work was done.
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
    /// Every run outside the measurement was much faster than the median within it, or every one much slower.
    PassesDisagree {
        /// Median latency of the measured queries.
        measured_ns: f64,
        /// Number of runs outside, made one by one between runs that the device timed.
        runs: u64,
        /// Fastest of them.
        least_ns: f64,
        /// Slowest of them.
        greatest_ns: f64,
    },
    /// The case computed faster than the device's peak.
    AbovePeak {
        /// Operations for each second, by the median latency.
        flops_per_second: f64,
        /// The device's peak.
        peak_flops_per_second: f64,
        /// Source of the peak.
        source: PeakSource,
    },
    /// The backend reported an impossible figure.
    Impossible {
        /// The gap in place of the figure.
        gap: Gap,
    },
    /// Operators did not run on the requested device.
    FellBack {
        /// Placement of the operators.
        fallback: Fallback,
    },
    /// Some values of an output are NaN.
    NotANumber {
        /// The output's name.
        output: String,
        /// Number of NaN values.
        nan_values: u64,
        /// Whether a comparison has found them in the reference's output, too.
        #[serde(default)]
        in_reference: bool,
        /// Number of all values.
        values: u64,
    },
    /// An output is empty, or has one value only, or infinite ones, so that it says little about the work.
    TrivialOutput {
        /// The output's name.
        output: String,
        /// Number of all values; 0 if it is empty.
        values: u64,
        /// Number of infinite values.
        infinite_values: u64,
        /// The value that all have, if they are finite.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        constant: Option<f64>,
    },
    /// The backend wrote output in the part that is timed.
    OutputWritten {
        /// Bytes on standard output.
        standard_output_bytes: u64,
        /// Bytes on standard error.
        standard_error_bytes: u64,
    },
    /// Processes that the backend started were there when the case had ended.
    ProcessesLeft {
        /// Processes that nobody had waited for.
        processes: u64,
        /// Those of them that were still running, and were ended.
        running: u64,
    },
    /// Other work kept processors busy, or the hypervisor withheld them.
    MachineBusy {
        /// Processors of the machine.
        processors: u32,
        /// Processor time of other work, in processors; `None` if small.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        other_processors: Option<f64>,
        /// Part of the processor time that the hypervisor withheld, from 0 to 1; `None` if small.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stolen_ratio: Option<f64>,
    },
    /// More threads compute than there are processors.
    Oversubscribed {
        /// Threads of each client.
        threads: u32,
        /// Clients.
        clients: u32,
        /// Processors that the worker may use.
        processors: u32,
        /// The control group's quota, in processors.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        quota_processors: Option<f64>,
        /// Processors that other work kept busy before the measurement; `None` if few.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        other_processors: Option<f64>,
        /// Whether idle threads spin (`allow-spinning`).
        spins: bool,
    },
    /// The kernel preempted the worker's threads.
    Preempted {
        /// Number of times.
        times: u64,
        /// Duration of the measurement.
        elapsed_ns: u64,
    },
    /// A reading of the clock costs more than it should.
    ClockSlow {
        /// Cost of a reading.
        read_ns: f64,
        /// The kernel's clock source, if it names one.
        kernel_source: Option<String>,
    },
    /// Processors or the device were slowed.
    Throttled {
        /// Cause and frequency.
        by: Throttle,
    },
    /// The highest frequency of the processors changed.
    FrequencyChanged {
        /// Frequency at the start of the measurement.
        from_hertz: u64,
        /// Frequency at its end.
        to_hertz: u64,
    },
    /// Page faults slowed the measurement.
    PageFaults {
        /// Pages that were read from disk; `None` if few.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        disk_pages: Option<u64>,
        /// Pages that were newly mapped; `None` if few.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mapped_pages: Option<u64>,
        /// Lower bound of the part of the processor time that mapping took, from 0 to 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mapping_ratio: Option<f64>,
    },
    /// The backend used another setting than requested.
    NotAsAsked {
        /// The setting, such as `precision`.
        setting: String,
        /// The requested value.
        asked: String,
        /// The value that the backend used; `None` if it does not report it.
        used: Option<String>,
    },
    /// The job does not have its node for itself.
    NodeShared {
        /// The node.
        node: String,
        /// Other jobs on it when the task began.
        jobs: Vec<u64>,
    },
    /// The device was to be sampled while measuring, and was not.
    DeviceNotSampled {
        /// The reason.
        gap: Gap,
    },
    /// The outputs over the data set were not collected.
    OutputsNotCollected {
        /// The reason.
        obstacle: OutputObstacle,
    },
    /// The backend failed to end a session, the model or itself, after everything was measured.
    EndFailed {
        /// The function of the ABI, such as `release`.
        call: String,
        /// The kind of error.
        code: ErrorCode,
        /// The backend's message.
        message: String,
    },
    /// A file of the case is no longer in the run folder as it was written.
    FileLost {
        /// Content of the file, such as `samples`.
        file: String,
        /// Its path in the run folder.
        path: String,
        /// State of the file.
        loss: FileLoss,
    },
    /// An earlier host recorded it in words, without figures.
    Earlier {
        /// Its kind.
        warning: WarningKind,
        /// Its words.
        evidence: String,
    },
}

/// State of a file that the journal lists and that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "loss", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum FileLoss {
    /// Missing.
    Missing,
    /// Present, but with another length than recorded.
    WrongLength {
        /// Its length.
        found_bytes: u64,
        /// The length in the journal.
        recorded_bytes: u64,
    },
    /// Present, but not a Parquet file of its kind.
    Unreadable {
        /// The reader's message.
        reader_message: String,
    },
    /// The operating system refuses to read it.
    Refused {
        /// The operating system's message.
        system_message: String,
    },
}

/// Cause that slows processors or a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Throttle {
    /// The processors were too hot.
    Heat {
        /// Number of times.
        times: u64,
    },
    /// The control group's quota stopped its processes.
    Quota {
        /// Number of times.
        times: u64,
        /// Total time.
        stopped_ns: u64,
    },
    /// The device lowered its clocks.
    Device {
        /// The reason.
        by: SlowedBy,
        /// Samples of the device's state with lowered clocks.
        samples: u64,
        /// All samples.
        of_samples: u64,
    },
}

/// Operators that did not run on the requested device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Fallback {
    /// Providers of the requested device.
    pub requested: Vec<String>,
    /// Number of all operators.
    pub operators: u64,
    /// Total time of all operators.
    pub time_ns: u64,
    /// Shares of other providers, the longest time first.
    pub elsewhere: Vec<ProviderShare>,
    /// Names of operators that ran elsewhere, the slowest first. Limited in number.
    pub names: Vec<String>,
}

impl Fallback {
    /// Returns the number of operators that ran elsewhere.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.elsewhere.iter().map(|share| share.operators).sum()
    }

    /// Returns the part of the operators' time that ran elsewhere, from 0 to 1.
    #[must_use]
    pub fn time_ratio(&self) -> f64 {
        self.elsewhere.iter().map(|share| self.ratio(share)).sum()
    }

    fn ratio(&self, share: &ProviderShare) -> f64 {
        if self.time_ns == 0 { 0.0 } else { share.time_ns as f64 / self.time_ns as f64 }
    }
}

/// Reason why outputs cannot be kept for each example.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "obstacle", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum OutputObstacle {
    /// The model has no outputs.
    NoOutput,
    /// The first axis is not the batch.
    NoBatchAxis {
        /// The output's name.
        output: String,
        /// Its shape.
        shape: Vec<i64>,
        /// Examples in the batch.
        batch: u64,
    },
    /// The output is not a tensor.
    NotATensor {
        /// The output's name.
        output: String,
        /// The kind of value, such as `map`.
        value_kind: String,
    },
    /// The output is too large.
    TooLarge {
        /// The output's name.
        output: String,
        /// Bytes over the whole data set.
        bytes: u64,
    },
    /// The element type is not supported.
    ElementType {
        /// The output's name.
        output: String,
        /// The type, as NumPy names it.
        element_type: String,
    },
    /// An example has no values, or too many to keep.
    Width {
        /// The output's name.
        output: String,
        /// Values of an example.
        values: u64,
    },
    /// Examples have different numbers of values.
    WidthChanged {
        /// The output's name.
        output: String,
        /// The first example that differs.
        example: u64,
        /// Its values.
        values: u64,
        /// Values of each example before it.
        before: u64,
    },
}

impl Warning {
    /// Returns the kind of doubt.
    #[must_use]
    pub fn kind(&self) -> WarningKind {
        self.doubt.kind()
    }
}

impl From<Doubt> for Warning {
    /// Attributes the doubt to the first process.
    fn from(doubt: Doubt) -> Self {
        Self { process: 0, doubt }
    }
}

impl Doubt {
    /// Returns the kind of doubt.
    #[must_use]
    pub fn kind(&self) -> WarningKind {
        match self {
            Self::Invalid { .. } => WarningKind::Invalid,
            Self::Simulated { .. } => WarningKind::Simulated,
            Self::FewSamples { .. } => WarningKind::FewSamples,
            Self::WideInterval { .. } => WarningKind::WideInterval,
            Self::LimitUndecided { .. } => WarningKind::LimitUndecided,
            Self::OverheadVisible { .. } => WarningKind::OverheadVisible,
            Self::ClockTooCoarse { .. } => WarningKind::ClockTooCoarse,
            Self::NoSteadyState { .. } => WarningKind::NoSteadyState,
            Self::Drift { .. } => WarningKind::Drift,
            Self::WarmingUp { .. } => WarningKind::WarmingUp,
            Self::SlowedDown { .. } => WarningKind::SlowedDown,
            Self::Bimodal { .. } => WarningKind::Bimodal,
            Self::Stalls { .. } => WarningKind::Stalls,
            Self::ReturnedEarly { .. } => WarningKind::ReturnedEarly,
            Self::PassesDisagree { .. } => WarningKind::PassesDisagree,
            Self::AbovePeak { .. } => WarningKind::AbovePeak,
            Self::Impossible { .. } => WarningKind::Impossible,
            Self::FellBack { .. } => WarningKind::FellBack,
            Self::NotANumber { .. } => WarningKind::NotANumber,
            Self::TrivialOutput { .. } => WarningKind::TrivialOutput,
            Self::OutputWritten { .. } => WarningKind::OutputWritten,
            Self::ProcessesLeft { .. } => WarningKind::ProcessesLeft,
            Self::MachineBusy { .. } => WarningKind::MachineBusy,
            Self::Oversubscribed { .. } => WarningKind::Oversubscribed,
            Self::Preempted { .. } => WarningKind::Preempted,
            Self::ClockSlow { .. } => WarningKind::ClockSlow,
            Self::Throttled { .. } => WarningKind::Throttled,
            Self::FrequencyChanged { .. } => WarningKind::FrequencyChanged,
            Self::PageFaults { .. } => WarningKind::PageFaults,
            Self::NotAsAsked { .. } => WarningKind::NotAsAsked,
            Self::NodeShared { .. } => WarningKind::NodeShared,
            Self::DeviceNotSampled { .. } => WarningKind::DeviceNotSampled,
            Self::OutputsNotCollected { .. } => WarningKind::OutputsNotCollected,
            Self::EndFailed { .. } => WarningKind::EndFailed,
            Self::FileLost { .. } => WarningKind::FileLost,
            Self::Earlier { warning, .. } => *warning,
        }
    }

    /// Returns the severity among doubts of the same kind; higher is worse. Severities of different kinds
    /// cannot be compared. Kinds without a figure return 0.
    #[must_use]
    pub fn severity(&self) -> f64 {
        let missing = |has: u64, needs: u64| needs as f64 / (has as f64).max(1.0);
        match *self {
            Self::FewSamples { queries, minimum_queries, timed_ns, minimum_ns, .. } => {
                missing(queries, minimum_queries).max(missing(timed_ns, minimum_ns))
            }
            Self::WideInterval { percentile, .. } => percentile,
            Self::LimitUndecided { queries, needed_queries, .. } => {
                missing(queries, needed_queries)
            }
            Self::OverheadVisible { query_ns, loop_ns } => loop_ns / query_ns.max(1.0),
            Self::ClockTooCoarse { query_ns, resolution_ns } => {
                resolution_ns as f64 / query_ns.max(1.0)
            }
            Self::NoSteadyState { elapsed_ns, .. } => elapsed_ns as f64,
            Self::Drift { from_ns, to_ns, .. } => (to_ns / from_ns).ln().abs(),
            Self::WarmingUp { first_ns, later_ns, .. } => first_ns / later_ns,
            Self::SlowedDown { from_ns, to_ns, .. } => to_ns / from_ns,
            Self::Bimodal { fast_ns, slow_ns, .. } => slow_ns as f64 / (fast_ns as f64).max(1.0),
            Self::Stalls { time_ratio, .. } => time_ratio,
            Self::ReturnedEarly { run_ns, output_ns, .. } => missing(run_ns, output_ns),
            Self::PassesDisagree { measured_ns, least_ns, greatest_ns, .. } => {
                (measured_ns / least_ns).max(greatest_ns / measured_ns)
            }
            Self::AbovePeak { flops_per_second, peak_flops_per_second, .. } => {
                flops_per_second / peak_flops_per_second
            }
            Self::FellBack { ref fallback } => fallback.time_ratio(),
            Self::NotANumber { nan_values, values, .. } => nan_values as f64 / values as f64,
            Self::TrivialOutput { infinite_values, values, constant, .. } => match constant {
                Some(_) => 1.0,
                None if values == 0 => 1.0,
                None => infinite_values as f64 / values.max(1) as f64,
            },
            Self::OutputWritten { standard_output_bytes, standard_error_bytes } => {
                standard_output_bytes as f64 + standard_error_bytes as f64
            }
            Self::ProcessesLeft { processes, .. } => processes as f64,
            Self::NodeShared { ref jobs, .. } => jobs.len() as f64,
            Self::MachineBusy { processors, other_processors, stolen_ratio } => {
                let others = other_processors.unwrap_or(0.0) / f64::from(processors.max(1));
                others + stolen_ratio.unwrap_or(0.0)
            }
            Self::Oversubscribed {
                threads,
                clients,
                processors,
                quota_processors,
                other_processors,
                ..
            } => {
                let available =
                    f64::from(processors).min(quota_processors.unwrap_or(f64::INFINITY));
                let needed = f64::from(threads) * f64::from(clients);
                (needed + other_processors.unwrap_or(0.0)) / available
            }
            Self::Preempted { times, elapsed_ns } => times as f64 / elapsed_ns as f64,
            Self::ClockSlow { read_ns, .. } => read_ns,
            Self::Throttled { ref by } => match *by {
                Throttle::Heat { times } => times as f64,
                Throttle::Quota { stopped_ns, .. } => stopped_ns as f64,
                Throttle::Device { samples, of_samples, .. } => samples as f64 / of_samples as f64,
            },
            Self::FrequencyChanged { from_hertz, to_hertz } => {
                (to_hertz as f64 / from_hertz as f64).ln().abs()
            }
            Self::PageFaults { disk_pages, mapped_pages, .. } => {
                // A page from a disk costs some hundred times as much.
                100.0 * disk_pages.unwrap_or(0) as f64 + mapped_pages.unwrap_or(0) as f64
            }
            Self::Invalid { ref breach } => breach.severity(),
            Self::Earlier { .. }
            | Self::Simulated { .. }
            | Self::Impossible { .. }
            | Self::NotAsAsked { .. }
            | Self::DeviceNotSampled { .. }
            | Self::OutputsNotCollected { .. }
            | Self::EndFailed { .. }
            | Self::FileLost { .. } => 0.0,
        }
    }
}

/// All warnings of one kind in a run.
#[derive(Debug, Clone, PartialEq)]
pub struct WarningGroup<'a, T> {
    /// The kind.
    pub kind: WarningKind,
    /// Number of warnings.
    pub count: usize,
    /// Number of places, such as cases.
    pub places: usize,
    /// The worst warning and its place; the first if several are equally bad.
    pub worst: (T, &'a Warning),
}

/// Groups warnings by kind, in the order of [`WarningKind::ALL`]. Each comes with its place, such as its case; those
/// of one place follow each other.
pub fn by_kind<'a, T: PartialEq>(
    warnings: impl IntoIterator<Item = (T, &'a Warning)>,
) -> Vec<WarningGroup<'a, T>> {
    /// A group, with the place of its latest warning.
    struct Open<'a, T> {
        group: WarningGroup<'a, T>,
        latest: Option<T>,
    }

    let mut groups: Vec<Open<'a, T>> = Vec::new();
    for (place, warning) in warnings {
        let kind = warning.kind();
        let Some(Open { group, latest }) = groups.iter_mut().find(|open| open.group.kind == kind)
        else {
            let group = WarningGroup { kind, count: 1, places: 1, worst: (place, warning) };
            groups.push(Open { group, latest: None });
            continue;
        };
        group.count += 1;
        let is_new = *latest.as_ref().unwrap_or(&group.worst.0) != place;
        group.places += usize::from(is_new);
        if warning.doubt.severity() > group.worst.1.doubt.severity() {
            // The place that was the worst is only the latest one if no other came since.
            group.worst = (place, warning);
            *latest = None;
        } else if is_new {
            *latest = Some(place);
        }
    }
    groups.sort_by_key(|open| open.group.kind);
    groups.into_iter().map(|open| open.group).collect()
}

impl fmt::Display for Warning {
    /// Writes the figures in words, without the kind, and with the process if it is not the first.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        in_process(formatter, self.process)?;
        self.doubt.fmt(formatter)
    }
}

impl fmt::Display for Doubt {
    /// Writes the figures in words, without the kind.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { breach } => breach.fmt(formatter),
            Self::Earlier { evidence, .. } => formatter.write_str(evidence),
            Self::Simulated { backend_message } => {
                write!(formatter, "the times are not those of real hardware: {backend_message}")
            }
            Self::FewSamples { queries, minimum_queries, timed_ns, minimum_ns, maximum_ns } => {
                write!(
                    formatter,
                    "{} in {}, instead of at least {minimum_queries} in at least {}; raise \
                     `maximum-duration` ({})",
                    count(*queries, "query", "queries"),
                    time(*timed_ns as f64),
                    time(*minimum_ns as f64),
                    time(*maximum_ns as f64)
                )
            }
            Self::WideInterval { percentile: share, half_width, level, maximum_ns } => write!(
                formatter,
                "the {} interval of {} is wider than ±{}; raise `maximum-duration` ({})",
                crate::words::level(*level),
                percentile(*share),
                percent(*half_width),
                time(*maximum_ns as f64)
            ),
            Self::LimitUndecided { percentile: share, queries, needed_queries } => write!(
                formatter,
                "{queries} queries are too few to decide whether {} is within the limit; it takes {needed_queries}",
                percentile(*share)
            ),
            Self::OverheadVisible { query_ns, loop_ns } => write!(
                formatter,
                "the measuring loop adds {} to a query of {} ({})",
                time(*loop_ns),
                time(*query_ns),
                percent(loop_ns / query_ns.max(1.0))
            ),
            Self::ClockTooCoarse { query_ns, resolution_ns } => write!(
                formatter,
                "a query takes {}, but the clock's resolution is only {}",
                time(*query_ns),
                time(*resolution_ns as f64)
            ),
            Self::NoSteadyState { class, queries, elapsed_ns } => {
                write!(
                    formatter,
                    "no steady state after a warm-up of {} in {}",
                    count(*queries, "query", "queries"),
                    time(*elapsed_ns as f64)
                )?;
                match class {
                    Some(class) => write!(formatter, " (class `{class}`)"),
                    None => formatter.write_str(" (too few queries to classify)"),
                }
            }
            Self::Drift { from_ns, to_ns, scatter_ns } => write!(
                formatter,
                "p50 {} ({}) from the first to the last third of the queries; scatter within a third: {}",
                change(*from_ns, *to_ns),
                time_change(*from_ns, *to_ns),
                time(*scatter_ns)
            ),
            Self::WarmingUp { first_queries, queries, first_ns, later_ns } => write!(
                formatter,
                "the first {first_queries} of {queries} measured queries took {}, the others {}; use a longer \
                 warm-up",
                time(*first_ns),
                time(*later_ns)
            ),
            Self::SlowedDown { fast_from_query, slow_from_query, queries, from_ns, to_ns } => {
                write!(
                    formatter,
                    "latency {} ({}) at query {slow_from_query} of {queries}",
                    change(*from_ns, *to_ns),
                    time_change(*from_ns, *to_ns)
                )?;
                match fast_from_query {
                    0 => Ok(()),
                    query => write!(formatter, "; it was low from query {query} on"),
                }
            }
            Self::Bimodal { fast_ratio, fast_ns, slow_ns } => write!(
                formatter,
                "{} of the queries took about {}, {} about {}, and few took a time between",
                percent((100.0 * fast_ratio).round() / 100.0),
                time(*fast_ns as f64),
                percent((100.0 * (1.0 - fast_ratio)).round() / 100.0),
                time(*slow_ns as f64)
            ),
            Self::Stalls {
                every_queries,
                stalled_ns,
                typical_ns,
                time_ratio,
                clients,
                since_begun,
            } => {
                write!(formatter, "1 query in {}", about(*every_queries))?;
                if *clients > 1 {
                    write!(formatter, " of the first of {clients} clients")?;
                }
                write!(formatter, " took {} instead of {}", time(*stalled_ns), time(*typical_ns))?;
                if *since_begun {
                    formatter.write_str(" after it started")?;
                }
                write!(formatter, " ({} of the total time)", percent(*time_ratio))
            }
            Self::ReturnedEarly { call, run_ns, output_ns, copy_ns } => write!(
                formatter,
                "{} after {}, but its output was ready {} later ({} of that to read it): latencies \
                 miss part of the work",
                call.returned(),
                time(*run_ns as f64),
                time(*output_ns as f64),
                time(*copy_ns as f64)
            ),
            Self::PassesDisagree { measured_ns, runs, least_ns, greatest_ns } => write!(
                formatter,
                "the same query took {} in the measurement (median), and {} to {} in {} outside it",
                time(*measured_ns),
                time(*least_ns),
                time(*greatest_ns),
                count(*runs, "run", "runs")
            ),
            Self::AbovePeak { flops_per_second, peak_flops_per_second, source } => write!(
                formatter,
                "{} are {} of the device's peak, {}; the peak or the count of operations is wrong",
                flops(*flops_per_second),
                percent(flops_per_second / peak_flops_per_second),
                source
            ),
            Self::Impossible { gap } => {
                write!(formatter, "an impossible figure from the backend was rejected: {gap}")
            }
            Self::FellBack { fallback } => fallback.fmt(formatter),
            Self::NotANumber { output, nan_values, values, in_reference } => {
                write!(formatter, "{nan_values} of {values} values of output `{output}` are NaN")?;
                match in_reference {
                    true => formatter.write_str(
                        ", in the reference as well: the model answers so, and the comparison covers the others only",
                    ),
                    false => Ok(()),
                }
            }
            Self::TrivialOutput { output, values, infinite_values, constant } => {
                match constant {
                    Some(value) => {
                        write!(formatter, "all {values} values of output `{output}` are {value}")?;
                    }
                    None if *values == 0 => write!(formatter, "output `{output}` is empty")?,
                    None => write!(
                        formatter,
                        "{infinite_values} of {values} values of output `{output}` are infinite"
                    )?,
                }
                formatter.write_str(
                    ", which any engine could answer; inputs with other values may tell more",
                )
            }
            Self::OutputWritten { standard_output_bytes, standard_error_bytes } => {
                let streams = [
                    (*standard_output_bytes, "standard output"),
                    (*standard_error_bytes, "standard error"),
                ];
                let written: Vec<_> = streams
                    .into_iter()
                    .filter(|(written, _)| *written > 0)
                    .map(|(written, stream)| format!("{} to {stream}", bytes(written)))
                    .collect();
                write!(
                    formatter,
                    "the backend wrote {} while it was measured, and latencies include that; switch its messages off",
                    list(&written, "and")
                )
            }
            Self::ProcessesLeft { processes, running } => {
                write!(
                    formatter,
                    "the backend did not wait for {} that it had started",
                    count(*processes, "process", "processes")
                )?;
                match running {
                    0 => Ok(()),
                    _ => write!(formatter, "; {running} of them still ran and had to be ended"),
                }
            }
            Self::MachineBusy { processors, other_processors, stolen_ratio } => {
                let others = other_processors
                    .map(|used| format!("other work used {used:.2} of {processors} processors"));
                let stolen = stolen_ratio.map(|ratio| {
                    format!("the hypervisor withheld {} of the processors' time", percent(ratio))
                });
                let both: Vec<_> = others.into_iter().chain(stolen).collect();
                formatter.write_str(&both.join("; "))
            }
            Self::Oversubscribed {
                threads,
                clients,
                processors,
                quota_processors,
                other_processors,
                spins,
            } => {
                let all = u64::from(*threads) * u64::from(*clients);
                write!(formatter, "{}", count(all, "thread", "threads"))?;
                if *clients > 1 {
                    write!(formatter, " ({threads} for each of {clients} clients)")?;
                }
                write!(
                    formatter,
                    " on {}",
                    count((*processors).into(), "processor", "processors")
                )?;
                if let Some(quota) = quota_processors {
                    write!(formatter, " with a quota of {quota:.2}")?;
                }
                if let Some(others) = other_processors {
                    write!(formatter, "; other work used {others:.2} of them before measuring")?;
                }
                if *spins {
                    formatter.write_str("; idle threads spin (`allow-spinning`)")?;
                }
                Ok(())
            }
            Self::Preempted { times, elapsed_ns } => write!(
                formatter,
                "the kernel preempted the worker's threads {times} times ({:.0} per second)",
                *times as f64 / (*elapsed_ns as f64 / 1e9)
            ),
            Self::ClockSlow { read_ns, kernel_source } => {
                write!(formatter, "reading the clock takes {}", time(read_ns.round()))?;
                match kernel_source {
                    Some(source) => {
                        write!(formatter, " with the kernel's clock source `{source}`")?
                    }
                    None => formatter.write_str(" with an unknown clock source")?,
                }
                formatter.write_str("; see `host doctor`")
            }
            Self::Throttled { by } => by.fmt(formatter),
            Self::FrequencyChanged { from_hertz, to_hertz } => {
                let (from, to) = (*from_hertz as f64, *to_hertz as f64);
                write!(
                    formatter,
                    "the highest processor frequency {} ({:.2} → {:.2} GHz) while measuring",
                    change(from, to),
                    from / 1e9,
                    to / 1e9
                )
            }
            Self::PageFaults { disk_pages, mapped_pages, mapping_ratio } => {
                let disk = disk_pages.map(|pages| {
                    format!("{} read from disk", count(pages, "page was", "pages were"))
                });
                let mapped = mapped_pages.map(|pages| {
                    let mapped = count(pages, "page was", "pages were");
                    let part = mapping_ratio.map(percent).unwrap_or_default();
                    format!(
                        "{mapped} newly mapped, which took at least {part} of the processor time"
                    )
                });
                let both: Vec<_> = disk.into_iter().chain(mapped).collect();
                formatter.write_str(&both.join("; "))
            }
            Self::NotAsAsked { setting, asked, used } => match used {
                Some(used) => {
                    write!(formatter, "{setting} {asked} was requested, but {used} was used")
                }
                None => write!(
                    formatter,
                    "{setting} {asked} was requested; the backend does not report what it used"
                ),
            },
            Self::NodeShared { node, jobs } => {
                write!(formatter, "the job does not have the node {node} for itself")?;
                match jobs.len() as u64 {
                    0 => formatter.write_str(", and no other job was there when its task began"),
                    1 => formatter.write_str("; 1 other job was there when its task began"),
                    jobs => write!(formatter, "; {jobs} other jobs were there when its task began"),
                }
            }
            Self::DeviceNotSampled { gap } => {
                write!(formatter, "the device was not sampled while measuring: {gap}")
            }
            Self::OutputsNotCollected { obstacle } => {
                write!(formatter, "outputs were not collected: {obstacle}")
            }
            Self::EndFailed { call, code, message } => {
                write!(
                    formatter,
                    "the backend failed in `{call}` after measuring ({code}): {message}"
                )
            }
            Self::FileLost { file, path, loss } => {
                write!(formatter, "the {file} are lost: `{path}` ")?;
                match loss {
                    FileLoss::Missing => formatter.write_str("is missing"),
                    FileLoss::WrongLength { found_bytes, recorded_bytes } => {
                        write!(formatter, "has {found_bytes} bytes instead of {recorded_bytes}")
                    }
                    FileLoss::Unreadable { reader_message } => {
                        write!(formatter, "is unreadable: {reader_message}")
                    }
                    FileLoss::Refused { system_message } => {
                        write!(formatter, "cannot be read: {system_message}")
                    }
                }
            }
        }
    }
}

impl fmt::Display for Throttle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Heat { times } => write!(formatter, "heat slowed the processors {times} times"),
            Self::Quota { times, stopped_ns } => write!(
                formatter,
                "the control group's quota stopped its processes {times} times, {} in all",
                time(*stopped_ns as f64)
            ),
            Self::Device { by, samples, of_samples } => {
                let cause = match by {
                    SlowedBy::Power => "its power limit",
                    SlowedBy::Heat => "heat",
                    SlowedBy::Idleness => "idleness",
                    SlowedBy::Setting => "a setting",
                    SlowedBy::Other => "an unknown cause",
                };
                write!(formatter, "{cause} slowed the device in {samples} of {of_samples} samples")
            }
        }
    }
}

impl fmt::Display for Fallback {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares: Vec<_> = self
            .elsewhere
            .iter()
            .map(|share| {
                let part = percent(self.ratio(share));
                format!("{} on {} ({part} of the time)", share.operators, share.provider)
            })
            .collect();
        let count = self.count();
        write!(
            formatter,
            "{count} of {} operators did not run on {}: {}: {}",
            self.operators,
            list(&self.requested, "or"),
            shares.join(", "),
            self.names.join(", ")
        )?;
        match count.saturating_sub(self.names.len() as u64) {
            0 => Ok(()),
            more => write!(formatter, " and {more} more"),
        }
    }
}

impl fmt::Display for OutputObstacle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoOutput => formatter.write_str("the model has no outputs"),
            Self::NoBatchAxis { output, shape, batch } => write!(
                formatter,
                "output `{output}` has shape {shape:?}, whose first axis is not the batch of {batch}"
            ),
            Self::NotATensor { output, value_kind } => {
                write!(formatter, "output `{output}` is a {value_kind}, not a tensor")
            }
            Self::TooLarge { output, bytes: size } => {
                write!(formatter, "output `{output}` is too large to keep: {}", bytes(*size))
            }
            Self::ElementType { output, element_type } => {
                write!(
                    formatter,
                    "output `{output}` has the unsupported element type {element_type}"
                )
            }
            Self::Width { output, values } => {
                write!(
                    formatter,
                    "output `{output}` has {values} values per example, which is not supported"
                )
            }
            Self::WidthChanged { output, example, values, before } => write!(
                formatter,
                "output `{output}` has {values} values for example {example}, but {before} for earlier examples"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::gap::NotMeasured;
    use crate::key::Scenario;
    use crate::load::{InvalidKind, InvalidReason, RuleDifference, SearchEnd};
    use crate::number::Rate;
    use crate::settings::RuleSet;

    fn gap() -> Gap {
        NotMeasured::ThreadPanicked.into()
    }

    /// One doubt of each kind at least, with its words.
    fn doubts() -> Vec<(Doubt, &'static str)> {
        let share = |provider: &str, operators, time_ns| ProviderShare {
            provider: provider.into(),
            operators,
            time_ns,
        };
        vec![
            (
                Doubt::Invalid { breach: Breach::Unserved { queries: 3 } },
                "3 queries were due but never started",
            ),
            (
                Doubt::Simulated { backend_message: "it is made of software".into() },
                "the times are not those of real hardware: it is made of software",
            ),
            (
                Doubt::FewSamples {
                    queries: 1,
                    minimum_queries: 100,
                    timed_ns: 500_000_000,
                    minimum_ns: 1_000_000_000,
                    maximum_ns: 5_000_000_000,
                },
                "1 query in 500 ms, instead of at least 100 in at least 1 s; raise `maximum-duration` (5 s)",
            ),
            (
                Doubt::WideInterval {
                    percentile: 0.99,
                    half_width: 0.01,
                    level: 0.95,
                    maximum_ns: 5_000_000_000,
                },
                "the 95 % interval of p99 is wider than ±1 %; raise `maximum-duration` (5 s)",
            ),
            (
                Doubt::LimitUndecided { percentile: 0.99, queries: 300, needed_queries: 368 },
                "300 queries are too few to decide whether p99 is within the limit; it takes 368",
            ),
            (
                Doubt::OverheadVisible { query_ns: 150.0, loop_ns: 33.0 },
                "the measuring loop adds 33 ns to a query of 150 ns (22 %)",
            ),
            (
                Doubt::ClockTooCoarse { query_ns: 150.0, resolution_ns: 20 },
                "a query takes 150 ns, but the clock's resolution is only 20 ns",
            ),
            (
                Doubt::NoSteadyState {
                    class: Some(SteadyClass::SlowDown),
                    queries: 500,
                    elapsed_ns: 3_000_000_000,
                },
                "no steady state after a warm-up of 500 queries in 3 s (class `slow-down`)",
            ),
            (
                Doubt::NoSteadyState { class: None, queries: 1, elapsed_ns: 3_000_000_000 },
                "no steady state after a warm-up of 1 query in 3 s (too few queries to classify)",
            ),
            (
                Doubt::Drift { from_ns: 1.2e6, to_ns: 1.29e6, scatter_ns: 24_900.0 },
                "p50 rose 7.5 % (1.20 → 1.29 ms) from the first to the last third of the queries; scatter \
                 within a third: 24.9 µs",
            ),
            (
                Doubt::WarmingUp {
                    first_queries: 200,
                    queries: 1000,
                    first_ns: 1.52e6,
                    later_ns: 1.01e6,
                },
                "the first 200 of 1000 measured queries took 1.52 ms, the others 1.01 ms; use a longer warm-up",
            ),
            (
                Doubt::SlowedDown {
                    fast_from_query: 100,
                    slow_from_query: 500,
                    queries: 1000,
                    from_ns: 1.01e6,
                    to_ns: 1.52e6,
                },
                "latency rose 50 % (1.01 → 1.52 ms) at query 500 of 1000; it was low from query 100 on",
            ),
            (
                Doubt::Bimodal { fast_ratio: 0.708, fast_ns: 1_020_000, slow_ns: 2_030_000 },
                "71 % of the queries took about 1.02 ms, 29 % about 2.03 ms, and few took a time between",
            ),
            (
                Doubt::Stalls {
                    every_queries: 5.62,
                    stalled_ns: 10.1e6,
                    typical_ns: 1.02e6,
                    time_ratio: 0.31,
                    clients: 1,
                    since_begun: false,
                },
                "1 query in 5.6 took 10.1 ms instead of 1.02 ms (31 % of the total time)",
            ),
            (
                Doubt::ReturnedEarly {
                    call: TimedCall::Run,
                    run_ns: 900,
                    output_ns: 2_000_000,
                    copy_ns: 3000,
                },
                "a run returned after 900 ns, but its output was ready 2 ms later (3 µs of that to read it): \
                 latencies miss part of the work",
            ),
            (
                Doubt::PassesDisagree {
                    measured_ns: 3_250_000.0,
                    runs: 10,
                    least_ns: 1_990_000.0,
                    greatest_ns: 2_040_000.0,
                },
                "the same query took 3.25 ms in the measurement (median), and 1.99 ms to 2.04 ms in 10 runs \
                 outside it",
            ),
            (
                Doubt::AbovePeak {
                    flops_per_second: 184.3e9,
                    peak_flops_per_second: 153.6e9,
                    source: PeakSource::Table {
                        device: "a card".into(),
                        publication: "its sheet".into(),
                    },
                },
                "184 GFLOP/s are 120 % of the device's peak, published for a card (its sheet); the peak or the \
                 count of operations is wrong",
            ),
            (
                Doubt::Impossible { gap: gap() },
                "an impossible figure from the backend was rejected: the measuring thread panicked",
            ),
            (
                Doubt::FellBack {
                    fallback: Fallback {
                        requested: vec!["Trt".into(), "Gpu".into()],
                        operators: 9,
                        time_ns: 200,
                        elsewhere: vec![share("Cpu", 3, 50)],
                        names: vec!["a".into(), "b".into()],
                    },
                },
                "3 of 9 operators did not run on Trt or Gpu: 3 on Cpu (25 % of the time): a, b and 1 more",
            ),
            (
                Doubt::NotANumber {
                    output: "y".into(),
                    nan_values: 1,
                    values: 2,
                    in_reference: true,
                },
                "1 of 2 values of output `y` are NaN, in the reference as well: the model answers so, and the \
                 comparison covers the others only",
            ),
            (
                Doubt::TrivialOutput {
                    output: "y".into(),
                    values: 8,
                    infinite_values: 0,
                    constant: Some(0.5),
                },
                "all 8 values of output `y` are 0.5, which any engine could answer; inputs with other values may \
                 tell more",
            ),
            (
                Doubt::OutputWritten { standard_output_bytes: 52_000, standard_error_bytes: 7 },
                "the backend wrote 50.8 KiB to standard output and 7 B to standard error while it was measured, and \
                 latencies include that; switch its messages off",
            ),
            (
                Doubt::ProcessesLeft { processes: 3, running: 2 },
                "the backend did not wait for 3 processes that it had started; 2 of them still ran and had to be \
                 ended",
            ),
            (
                Doubt::MachineBusy {
                    processors: 4,
                    other_processors: Some(2.0),
                    stolen_ratio: Some(0.025),
                },
                "other work used 2.00 of 4 processors; the hypervisor withheld 2.5 % of the processors' time",
            ),
            (
                Doubt::Oversubscribed {
                    threads: 4,
                    clients: 3,
                    processors: 8,
                    quota_processors: Some(1.5),
                    other_processors: Some(0.75),
                    spins: true,
                },
                "12 threads (4 for each of 3 clients) on 8 processors with a quota of 1.50; other work used \
                 0.75 of them before measuring; idle threads spin (`allow-spinning`)",
            ),
            (
                Doubt::Preempted { times: 400, elapsed_ns: 2_000_000_000 },
                "the kernel preempted the worker's threads 400 times (200 per second)",
            ),
            (
                Doubt::ClockSlow { read_ns: 431.4, kernel_source: Some("xen".into()) },
                "reading the clock takes 431 ns with the kernel's clock source `xen`; see `host doctor`",
            ),
            (
                Doubt::Throttled { by: Throttle::Heat { times: 3 } },
                "heat slowed the processors 3 times",
            ),
            (
                Doubt::Throttled { by: Throttle::Quota { times: 5, stopped_ns: 50_000_000 } },
                "the control group's quota stopped its processes 5 times, 50 ms in all",
            ),
            (
                Doubt::Throttled {
                    by: Throttle::Device { by: SlowedBy::Power, samples: 1, of_samples: 2 },
                },
                "its power limit slowed the device in 1 of 2 samples",
            ),
            (
                Doubt::FrequencyChanged { from_hertz: 2_000_000_000, to_hertz: 1_500_000_000 },
                "the highest processor frequency fell 25 % (2.00 → 1.50 GHz) while measuring",
            ),
            (
                Doubt::PageFaults {
                    disk_pages: Some(10),
                    mapped_pages: Some(400_000),
                    mapping_ratio: Some(0.1),
                },
                "10 pages were read from disk; 400000 pages were newly mapped, which took at least 10 % of the \
                 processor time",
            ),
            (
                Doubt::NotAsAsked {
                    setting: "precision".into(),
                    asked: "fp32".into(),
                    used: Some("fp16".into()),
                },
                "precision fp32 was requested, but fp16 was used",
            ),
            (
                Doubt::NodeShared { node: "n7".into(), jobs: vec![11, 12] },
                "the job does not have the node n7 for itself; 2 other jobs were there when its task began",
            ),
            (
                Doubt::DeviceNotSampled { gap: gap() },
                "the device was not sampled while measuring: the measuring thread panicked",
            ),
            (
                Doubt::OutputsNotCollected {
                    obstacle: OutputObstacle::NoBatchAxis {
                        output: "loss".into(),
                        shape: vec![2],
                        batch: 3,
                    },
                },
                "outputs were not collected: output `loss` has shape [2], whose first axis is not the batch of 3",
            ),
            (
                Doubt::EndFailed {
                    call: "release".into(),
                    code: ErrorCode::Internal,
                    message: "the device is gone".into(),
                },
                "the backend failed in `release` after measuring (internal): the device is gone",
            ),
            (
                Doubt::FileLost {
                    file: "samples".into(),
                    path: "samples/1.parquet".into(),
                    loss: FileLoss::WrongLength { found_bytes: 3, recorded_bytes: 9 },
                },
                "the samples are lost: `samples/1.parquet` has 3 bytes instead of 9",
            ),
        ]
    }

    #[test]
    fn warnings_touch_the_figures_that_they_are_about() {
        use WarningKind as Kind;
        let slowing =
            [Kind::SlowedDown, Kind::WarmingUp, Kind::Throttled, Kind::Preempted, Kind::Bimodal];
        for kind in slowing.into_iter().chain([Kind::Drift, Kind::MachineBusy]) {
            let touched = ["latency.p99", "throughput.samples", "energy.device-per-sample"];
            assert!(touched.iter().all(|metric| kind.touches(metric)), "{kind}");
            assert!(!kind.touches("accuracy.top1") && !kind.touches("memory.peak"), "{kind}");
            // The host does not know what another plugin's metric depends on.
            assert!(kind.touches("mine.value"), "{kind}");
        }
        assert!(
            Kind::NotANumber.touches("accuracy.top1") && !Kind::NotANumber.touches("latency.p50")
        );
        assert!(Kind::ProcessesLeft.touches("memory.peak"));
        // The interval says how precise a figure is.
        assert!(!Kind::WideInterval.touches("latency.p99"));
    }

    #[test]
    fn each_kind_has_its_figures_in_json_and_in_words() {
        let mut kinds = BTreeSet::new();
        for (doubt, words) in doubts() {
            assert_eq!(doubt.to_string(), words);
            let warning = Warning { process: 1, doubt };
            assert_eq!(warning.to_string(), format!("in process 2: {words}"));
            assert_round_trip(&warning, warning.kind().name());
            kinds.insert(warning.kind());
        }
        assert_eq!(kinds, WarningKind::ALL.iter().copied().collect());
    }

    /// Asserts that a value has this kind in JSON, and is read as it was written.
    fn assert_round_trip<T>(value: &T, kind: &str)
    where
        T: Serialize + serde::de::DeserializeOwned + fmt::Debug + PartialEq,
    {
        let json = serde_json::to_value(value).expect("JSON");
        assert_eq!(json["kind"], kind, "{json}");
        let read: T = serde_json::from_value(json).expect("a value that was written");
        assert_eq!(read, *value);
    }

    #[test]
    fn each_breach_has_its_figures_in_json_and_in_words() {
        let (rules, scenario) = (RuleSet::MlPerf, Scenario::Server);
        let breaches = [
            (
                Breach::CutShort,
                "`maximum-duration` ended the measurement before it had enough queries",
            ),
            (
                Breach::TooShort { timed_ns: 60_000_000_000, minimum_ns: 600_000_000_000 },
                "measured 60 s; the rules require 10 min",
            ),
            (
                Breach::TooFewQueries { queries: 1, minimum_queries: 64 },
                "1 query; the rules require 64",
            ),
            (
                Breach::TooFewExamples { examples: 5, minimum_examples: 24_576 },
                "5 examples; the rules require 24576",
            ),
            (
                Breach::OverLimit { over_queries: 9, queries: 100, allowed_queries: 1 },
                "9 of 100 queries exceeded the latency limit; at most 1 may",
            ),
            (
                Breach::Late { p99_ns: 2_000_000, bound_ns: 100_000 },
                "the load generator was 2 ms late (p99); at most 100 µs is allowed",
            ),
            (
                Breach::TooSlow {
                    offered_per_second: 1000.0,
                    achieved_per_second: 199.5,
                    bound_ratio: 0.99,
                },
                "achieved 200/s of 1000/s offered; at least 99 % is required",
            ),
            (Breach::Unserved { queries: 1 }, "1 query was due but never started"),
            (Breach::NoRules { rules, scenario }, "mlperf has no rules for the scenario server"),
            (
                Breach::AgainstRules {
                    rules,
                    scenario,
                    difference: RuleDifference::Percentile {
                        percentile: 0.9,
                        ruled_percentile: 0.99,
                    },
                },
                "against the rules of mlperf: the latency limit of server applies to p99, not p90",
            ),
            (
                Breach::NotFound {
                    end: SearchEnd::LimitedByDuration,
                    rate: Rate::per_second(1000.0).ok(),
                    probes: 2,
                    maximum_ns: 200_000_000,
                },
                "the latency limit is exceeded at 1000/s, and `maximum-duration` (200 ms) is too short for \
                 lower rates (2 probes)",
            ),
            (
                Breach::Unsynchronised { run_ns: 90_000, device_ns: 4_000_000 },
                "runs returned within 90 µs, but the device needs at least 4 ms: they do not wait for the device",
            ),
            (
                Breach::ReturnedEarly {
                    call: TimedCall::Synchronise,
                    run_ns: 900,
                    output_ns: 2_000_000,
                    copy_ns: 3000,
                },
                "enqueued runs were said to be done after 900 ns, but its output was ready 2 ms later (3 µs of that to read it): \
                 latencies miss part of the work",
            ),
            (
                Breach::NotANumber { output: "y".into(), values: 2 },
                "all 2 values of output `y` are NaN",
            ),
        ];
        let mut kinds = BTreeSet::new();
        for (breach, words) in breaches {
            assert_eq!(breach.to_string(), words);
            assert!(!breach.severity().is_nan(), "{breach:?}");
            let reason = InvalidReason::from(breach);
            assert_round_trip(&reason, reason.kind().name());
            kinds.insert(reason.kind());
        }
        assert_eq!(kinds, InvalidKind::ALL.iter().copied().collect());
    }

    #[test]
    fn each_kind_is_grouped_with_its_count_and_its_worst_case() {
        let drift =
            |to_ns: f64| Warning::from(Doubt::Drift { from_ns: 1e6, to_ns, scatter_ns: 1e3 });
        let heat = Warning::from(Doubt::Throttled { by: Throttle::Heat { times: 1 } });
        let warnings =
            [drift(1.1e6), drift(1.2e6), heat.clone(), drift(0.5e6), drift(1.1e6), drift(1.1e6)];
        let cases = ["a", "a", "a", "b", "b", "c"];
        let groups = by_kind(cases.into_iter().zip(&warnings));
        assert_eq!(
            groups,
            [
                WarningGroup {
                    kind: WarningKind::Drift,
                    count: 5,
                    places: 3,
                    // Half the time is a greater change than a fifth more.
                    worst: ("b", &warnings[3]),
                },
                WarningGroup {
                    kind: WarningKind::Throttled,
                    count: 1,
                    places: 1,
                    worst: ("a", &heat),
                },
            ]
        );
        assert_eq!(by_kind::<()>([]), []);
    }

    #[test]
    fn a_limit_that_is_missed_by_more_is_worse() {
        let over =
            |over_queries| Breach::OverLimit { over_queries, queries: 100, allowed_queries: 2 };
        let slow = |achieved_per_second| Breach::TooSlow {
            offered_per_second: 100.0,
            achieved_per_second,
            bound_ratio: 0.99,
        };
        let pairs = [
            (Breach::CutShort, over(3)),
            (over(3), over(9)),
            (over(9), slow(9.9)),
            (slow(9.9), slow(0.5)),
            (slow(0.5), Breach::NotANumber { output: "y".into(), values: 1 }),
        ];
        for (better, worse) in pairs {
            let severity = |breach: &Breach| Doubt::Invalid { breach: breach.clone() }.severity();
            assert!(severity(&worse) > severity(&better), "{worse:?} and {better:?}");
        }
    }

    /// A NaN could not be compared with other severities.
    #[test]
    fn severity_is_a_number() {
        for (doubt, _) in doubts() {
            assert!(!doubt.severity().is_nan(), "{doubt:?}");
        }
        let nothing = Doubt::FewSamples {
            queries: 0,
            minimum_queries: 0,
            timed_ns: 0,
            minimum_ns: 0,
            maximum_ns: 0,
        };
        assert!(nothing.severity().is_finite());
    }
}
