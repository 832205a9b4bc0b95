//! How a case ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::case::{CaseSpec, is_first, part};
use crate::check::{DifferenceKind, Parity};
use crate::conditions::Conditions;
use crate::device_state::DeviceSample;
use crate::environment::{ClockFacts, Environment};
use crate::gap::Gap;
use crate::key::CaseKey;
use crate::load::{Pace, RateSearch, Verdict, WarmUpFacts};
use crate::names::names;
use crate::number::Rate;
use crate::placement::ProfiledOperator;
use crate::warning::Warning;

names! {
    /// What a worker is busy with.
    Phase {
        /// Starting the process and shaking hands.
        Start = "start",
        /// Opening the plugin's library.
        Open = "open",
        /// Asking for devices.
        Devices = "devices",
        /// Loading the model.
        Load = "load",
        /// Reading or making the inputs.
        Inputs = "inputs",
        /// Preparing the model for a batch size and precision; compiling it.
        Prepare = "prepare",
        /// The first run.
        FirstRun = "first-run",
        /// Comparing outputs with the reference's, or making the reference's.
        Check = "check",
        /// Warming up.
        WarmUp = "warm-up",
        /// Searching the load.
        Search = "search",
        /// Measuring.
        Measure = "measure",
        /// Timing the copies and the computation of whole queries apart, and the device.
        Stages = "stages",
        /// Finding out which operators ran where.
        Profile = "profile",
        /// Collecting outputs over the data set, untimed.
        Outputs = "outputs",
        /// Releasing the model and the plugin.
        Unload = "unload",
    }
}

/// Why a case failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Failure {
    /// The worker ended by itself without having finished.
    #[error("the worker exited with code {code} while in phase {phase}")]
    ExitCode {
        /// The exit code.
        code: i32,
        /// What it was busy with.
        phase: Phase,
    },
    /// The worker was ended by a signal.
    #[error("the worker was ended by signal {signal} ({name}) while in phase {phase}")]
    Signal {
        /// The signal's number.
        signal: i32,
        /// Its name, such as `SIGSEGV`.
        name: String,
        /// What it was busy with.
        phase: Phase,
    },
    /// The worker made no progress in time.
    #[error("no progress within {} s in phase {phase}; the worker was ended", .limit_ns / 1_000_000_000)]
    TimedOut {
        /// What it was busy with.
        phase: Phase,
        /// The limit in nanoseconds.
        limit_ns: u64,
    },
    /// The worker needed more memory than it may have.
    #[error("out of memory in phase {phase}: {detail}")]
    OutOfMemory {
        /// What it was busy with.
        phase: Phase,
        /// The limit in bytes, where it is known.
        limit_bytes: Option<u64>,
        /// The most that was seen in use, in bytes.
        peak_bytes: Option<u64>,
        /// Who found out, and how.
        detail: String,
    },
    /// Plugin and host do not speak the same version.
    #[error("refused version: {detail}")]
    RefusedVersion {
        /// What each side speaks, and which has to move.
        detail: String,
    },
    /// The library has no entry point.
    #[error("missing symbol `{symbol}`: {detail}")]
    MissingSymbol {
        /// The symbol that was looked up.
        symbol: String,
        /// What the loader said.
        detail: String,
    },
    /// The file is not a shared library.
    #[error("not a plugin: {detail}")]
    NotAPlugin {
        /// What it is instead.
        detail: String,
    },
    /// The library is for another processor or system.
    #[error("wrong architecture: the plugin is for {plugin}, this machine is {machine}")]
    WrongArchitecture {
        /// What the library was built for.
        plugin: String,
        /// What runs here.
        machine: String,
    },
    /// A library that the plugin needs could not be loaded.
    #[error("a library is missing: {detail}")]
    MissingLibrary {
        /// What the loader said.
        detail: String,
    },
    /// The plugin's library is no longer the one that was admitted when the run was planned.
    #[error("the plugin has changed: {detail}")]
    PluginChanged {
        /// The library, and how the change was found out.
        detail: String,
    },
    /// The plugin reported an error.
    #[error("the backend reported {code} in phase {phase}: {message}")]
    Backend {
        /// What was being done.
        phase: Phase,
        /// The error code's name.
        code: String,
        /// The plugin's message.
        message: String,
        /// Further details, possibly empty.
        #[serde(default)]
        details: String,
    },
    /// A measured value that cannot be true.
    #[error("impossible measurement: {detail}")]
    Impossible {
        /// The value, and what it contradicts.
        detail: String,
    },
    /// An input is missing, unreadable or does not fit the model.
    #[error("input: {detail}")]
    Input {
        /// What is wrong and what was expected.
        detail: String,
    },
    /// Something other than the protocol came from the worker.
    #[error("the worker broke the protocol in phase {phase}: {detail}")]
    Protocol {
        /// What it was busy with.
        phase: Phase,
        /// What was expected, and what came.
        detail: String,
    },
    /// The worker could not be bound to the processors that the manifest names.
    #[error("cannot pin: {detail}")]
    NotPinned {
        /// Which processors, and why not.
        detail: String,
    },
    /// The worker could not be given the nice value that the manifest asks for.
    #[error("cannot set the priority: {detail}")]
    NotPrioritised {
        /// Which value, why not, and what to do.
        detail: String,
    },
    /// The outputs are not those of the reference.
    #[error("the outputs are not the reference's ({difference}): {detail}")]
    Differs {
        /// In what way.
        difference: DifferenceKind,
        /// Which output, and the figures.
        detail: String,
        /// All figures, as far as they could be had.
        parity: Box<Parity>,
    },
    /// There are no outputs of the reference to compare with.
    #[error("there is nothing to compare the outputs with: {detail}")]
    NoReference {
        /// The reference, and how it failed.
        detail: String,
    },
    /// Operators ran elsewhere than on the device, which the manifest rules out.
    #[error("placement is strict: {detail}")]
    Misplaced {
        /// How many operators ran where, and their names.
        detail: String,
    },
    /// The worker could not be started at all.
    #[error("the worker could not be started: {detail}")]
    NotStarted {
        /// What the operating system said.
        detail: String,
    },
}

/// Start-up times of a case in nanoseconds, each measured once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Timings {
    /// Opening the plugin's library.
    pub open_ns: Option<u64>,
    /// Loading the model.
    pub load_ns: Option<u64>,
    /// Preparing it: optimising, compiling.
    pub prepare_ns: Option<u64>,
    /// The first run.
    pub first_run_ns: Option<u64>,
}

/// What a worker says when it has finished a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct WorkerReport {
    /// Start-up times.
    pub timings: Timings,
    /// The worker's highest resident memory in bytes.
    pub peak_memory_bytes: Option<u64>,
    /// Its resident memory in bytes just before the plugin was opened.
    pub baseline_memory_bytes: Option<u64>,
    /// Class labels of the data set, where it has them; one per example.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<i64>,
    /// Clock, and the harness's own cost, measured in this worker before the plugin was opened.
    pub clock: ClockFacts,
    /// What was unsteady or doubtful.
    pub warnings: Vec<Warning>,
    /// What the backend says that it used, as opposed to what it was asked for: precision,
    /// threads, engine and its version.
    #[serde(default)]
    pub used: BTreeMap<String, String>,
    /// How an open loop kept to its schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// Whether the result is valid; `None` in records of hosts that did not judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The search for the highest rate, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<RateSearch>,
    /// What was seen of warming up, where its end was looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUpFacts>,
    /// What it was measured under.
    #[serde(default)]
    pub conditions: Conditions,
    /// The operators of one run, where the backend makes a profile. Kept in a file beside the journal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profile: Vec<ProfiledOperator>,
    /// What the device did, look by look. Kept in a file beside the journal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_states: Vec<DeviceSample>,
}

/// How a case ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// Measured to the end.
    Finished(Box<WorkerReport>),
    /// Started and did not finish.
    Failed {
        /// Why.
        failure: Failure,
    },
    /// Could not be started, for want of something.
    Gap {
        /// What is missing.
        gap: Gap,
    },
}

/// A line of the journal: one finished case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CaseRecord {
    /// [`crate::RECORD_VERSION`] of the writer.
    pub record_version: u32,
    /// The case's id.
    pub case_id: String,
    /// Coordinates in the matrix.
    pub key: CaseKey,
    /// The case as planned; absent for a gap, which has no plugin or device to name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<CaseSpec>,
    /// Which of the case's processes this is about, from 0.
    #[serde(default, skip_serializing_if = "is_first")]
    pub process: u32,
    /// When the case started, RFC 3339 in UTC.
    pub started_at: String,
    /// How long it took in all, in nanoseconds.
    pub elapsed_ns: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// The worker's last standard error, cut to a size that a reader can bear.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub standard_error: String,
    /// The machine when the case started; absent for a gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// Reports of the case's further processes, where they have been put together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<WorkerReport>,
}

impl CaseRecord {
    /// The rates that the case's processes found and were measured at, in queries per second and in the order
    /// of the processes. Where a search came to no end, it is the rate that was measured as evidence. Empty
    /// where the rate was given, and where the case did not finish.
    #[must_use]
    pub fn searched_rates(&self) -> Vec<Rate> {
        let Outcome::Finished(first) = &self.outcome else { return Vec::new() };
        std::iter::once(&**first)
            .chain(&self.further)
            .filter(|report| report.search.is_some())
            .filter_map(|report| report.pace.as_ref().map(|pace| pace.asked))
            .collect()
    }

    /// In how many processes the case is measured.
    #[must_use]
    pub fn processes(&self) -> u32 {
        self.spec.as_ref().map_or(1, |spec| spec.measure.processes)
    }

    /// What its files are named by: see [`CaseSpec::part`].
    #[must_use]
    pub fn part(&self) -> String {
        part(&self.case_id, self.process)
    }
}
