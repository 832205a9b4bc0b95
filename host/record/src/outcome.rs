//! Outcomes of a case.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::case::{CaseSpec, InputSource, part};
use crate::check::{DifferenceKind, Parity};
use crate::conditions::Conditions;
use crate::device_state::DeviceSample;
use crate::environment::{ClockFacts, Environment};
use crate::file::FileId;
use crate::gap::Gap;
use crate::key::CaseKey;
use crate::load::{Lateness, Pace, RateSearch, Verdict, WarmUpFacts};
use crate::number::Rate;
use crate::numbered::is_first;
use crate::pair::{Paired, Side};
use crate::phase::{ErrorCode, Phase};
use crate::placement::ProfiledOperator;
use crate::warning::{Fallback, Warning};

/// Reason why a case failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Failure {
    /// The worker exited early.
    #[error("the worker exited with code {code} in phase {phase}")]
    ExitCode {
        /// The exit code.
        code: i32,
        /// Its phase.
        phase: Phase,
    },
    /// A signal killed the worker.
    #[error("the worker was killed by signal {signal} ({name}) in phase {phase}{}", last_words(.said))]
    Signal {
        /// The signal's number.
        signal: i32,
        /// Its name, such as `SIGSEGV`.
        name: String,
        /// Its phase.
        phase: Phase,
        /// The reason that the worker wrote before it aborted, such as the text of an exception that nobody
        /// caught; possibly empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        said: String,
    },
    /// The worker made no progress in time.
    #[error("no progress for {} s in phase {phase}; the worker was killed", .limit_ns / 1_000_000_000)]
    TimedOut {
        /// Its phase.
        phase: Phase,
        /// The limit in nanoseconds.
        limit_ns: u64,
    },
    /// The worker ran out of memory.
    #[error("out of memory in phase {phase}: {detail}")]
    OutOfMemory {
        /// Its phase.
        phase: Phase,
        /// The limit in bytes, if known.
        limit_bytes: Option<u64>,
        /// Highest use that was observed, in bytes.
        peak_bytes: Option<u64>,
        /// The part that noticed it, and how.
        detail: String,
    },
    /// Plugin and host have incompatible versions.
    #[error("incompatible version: {detail}")]
    RefusedVersion {
        /// The version of each side, and which one to update.
        detail: String,
    },
    /// The library has no entry point.
    #[error("missing symbol `{symbol}`: {detail}")]
    MissingSymbol {
        /// The symbol that was looked up.
        symbol: String,
        /// The loader's error.
        detail: String,
    },
    /// The file is not a shared library.
    #[error("not a plugin: {detail}")]
    NotAPlugin {
        /// The kind of file.
        detail: String,
    },
    /// The library is for another processor or system.
    #[error("wrong architecture: the plugin is for {plugin}, this machine is {machine}")]
    WrongArchitecture {
        /// Platform that the library was built for.
        plugin: String,
        /// Platform of this machine.
        machine: String,
    },
    /// A library that the plugin needs could not be loaded.
    #[error("a required library is missing: {detail}")]
    MissingLibrary {
        /// The loader's error.
        detail: String,
    },
    /// The plugin's library has changed since the run was planned.
    #[error("the plugin has changed: {detail}")]
    PluginChanged {
        /// The library, and how the change was noticed.
        detail: String,
    },
    /// The plugin reported an error.
    #[error("the backend reported {code} in phase {phase}: {call}: {message}")]
    Backend {
        /// The phase in which it was called.
        phase: Phase,
        /// The call of the ABI that failed, such as `load`.
        call: String,
        /// The kind of error.
        code: ErrorCode,
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
    /// The worker found that the case is a gap, which is how it is recorded.
    #[error("{gap}")]
    Gap {
        /// The gap.
        gap: Box<Gap>,
    },
    /// An input is missing, unreadable or does not fit the model.
    #[error("input: {detail}")]
    Input {
        /// The error, and the expectation.
        detail: String,
    },
    /// The worker broke the protocol.
    #[error("the worker broke the protocol in phase {phase}: {detail}")]
    Protocol {
        /// Its phase.
        phase: Phase,
        /// Expected and received data.
        detail: String,
    },
    /// The worker could not be bound to the processors that the manifest names.
    #[error("cannot pin the worker: {detail}")]
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
    /// The outputs differ from the reference's.
    #[error("the outputs differ from the reference's ({difference}): {detail}{}", tolerance(*.difference))]
    Differs {
        /// The kind of difference.
        difference: DifferenceKind,
        /// Which output, and the figures.
        detail: String,
        /// All available figures.
        parity: Box<Parity>,
    },
    /// The model differs from itself, so its outputs cannot be compared.
    #[error(
        "the model differs from itself: the reference ran it twice with the same inputs, and {differing} of \
         {values} values of output `{output}` differ; it has random numbers, or its engine does not compute the \
         same twice, and nothing can agree with it. Measure it without `[check]`"
    )]
    Varies {
        /// The output.
        output: String,
        /// Values that differ; 0 if the shape does.
        differing: u64,
        /// All values.
        values: u64,
    },
    /// The reference has no outputs to compare with.
    #[error("no reference outputs to compare with: {detail}")]
    NoReference {
        /// The reference, and how it failed.
        detail: String,
    },
    /// Operators ran off the device, which the manifest forbids.
    #[error("placement is strict: {}", misplaced(.fallback.as_ref()))]
    Misplaced {
        /// The operators; `None` if the session does not name its provider, so placement is unknown.
        fallback: Option<Fallback>,
    },
    /// The other side of its pair ended early.
    #[error(
        "not measured: the other side of the pair, {other}, ended early, while both were loaded: {detail}"
    )]
    OtherSide {
        /// Its backend, model or precision.
        other: String,
        /// Its failure, and what to do.
        detail: String,
    },
    /// The task of a cluster that measured the case ended before the case did.
    #[error("the task ended while the case was measured: {detail}")]
    TaskEnded {
        /// The state that the engine names, such as `OUT_OF_MEMORY`; `UNKNOWN` if it names none.
        state: String,
        /// How it ended, where, and how often the case was tried.
        detail: String,
    },
    /// The worker could not be started.
    #[error("could not start the worker: {detail}")]
    NotStarted {
        /// The operating system's error.
        detail: String,
    },
}

fn last_words(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": {said}") }
}

/// Writes which key of the manifest judges a difference.
fn tolerance(difference: DifferenceKind) -> &'static str {
    match difference {
        DifferenceKind::BeyondTolerance => "; `[check] tolerance` sets how much they may differ",
        _ => "",
    }
}

fn misplaced(fallback: Option<&Fallback>) -> String {
    fallback.map_or_else(
        || "the session does not name its provider, so placement cannot be checked".to_owned(),
        ToString::to_string,
    )
}

/// Start-up times of a case, each measured once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Timings {
    /// Opening the plugin's library.
    pub open_ns: Option<u64>,
    /// Loading the model.
    pub load_ns: Option<u64>,
    /// Preparing the model: optimising, compiling.
    pub prepare_ns: Option<u64>,
    /// The first run.
    pub first_run_ns: Option<u64>,
}

/// A worker's report at the end of a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct WorkerReport {
    /// Start-up times.
    pub timings: Timings,
    /// The worker's highest resident memory in bytes.
    pub peak_memory_bytes: Option<u64>,
    /// The worker's resident memory in bytes just before it opened the plugin.
    pub baseline_memory_bytes: Option<u64>,
    /// Class labels of the data set, if it has them; one per example.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<i64>,
    /// Clock, and the harness's own cost, measured in this worker before the plugin was opened.
    pub clock: ClockFacts,
    /// Warnings about the measurement.
    pub warnings: Vec<Warning>,
    /// Settings that the backend used, as opposed to those requested: precision,
    /// threads, engine and its version.
    #[serde(default)]
    pub used: BTreeMap<String, String>,
    /// Pace of an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// Verdict on the result; `None` in records of hosts without verdicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Search for the highest rate, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<RateSearch>,
    /// Facts about the warm-up, if it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUpFacts>,
    /// Comparison with the case that this one was measured in turns with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paired: Option<Box<Paired>>,
    /// Conditions of the measurement.
    #[serde(default)]
    pub conditions: Conditions,
    /// Operators of one run, if the backend makes a profile. Kept in a file beside the journal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profile: Vec<ProfiledOperator>,
    /// Samples of the device's state. Kept in a file beside the journal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_states: Vec<DeviceSample>,
}

/// Outcome of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// Measured to the end.
    Finished(Box<WorkerReport>),
    /// Started and did not finish.
    Failed {
        /// The reason.
        failure: Failure,
    },
    /// Not started, because something is missing.
    Gap {
        /// The gap.
        gap: Gap,
    },
}

impl Outcome {
    /// Returns its name in tables and files.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Finished(_) => "finished",
            Self::Failed { .. } => "failed",
            Self::Gap { .. } => "gap",
        }
    }
}

impl Failure {
    /// Returns the name of its kind, as in the journal.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::ExitCode { .. } => "exit-code",
            Self::Signal { .. } => "signal",
            Self::TimedOut { .. } => "timed-out",
            Self::OutOfMemory { .. } => "out-of-memory",
            Self::RefusedVersion { .. } => "refused-version",
            Self::MissingSymbol { .. } => "missing-symbol",
            Self::NotAPlugin { .. } => "not-a-plugin",
            Self::WrongArchitecture { .. } => "wrong-architecture",
            Self::MissingLibrary { .. } => "missing-library",
            Self::PluginChanged { .. } => "plugin-changed",
            Self::Backend { .. } => "backend",
            Self::Impossible { .. } => "impossible",
            Self::Gap { .. } => "gap",
            Self::Input { .. } => "input",
            Self::Protocol { .. } => "protocol",
            Self::NotPinned { .. } => "not-pinned",
            Self::NotPrioritised { .. } => "not-prioritised",
            Self::Differs { .. } => "differs",
            Self::Varies { .. } => "varies",
            Self::NoReference { .. } => "no-reference",
            Self::Misplaced { .. } => "misplaced",
            Self::OtherSide { .. } => "other-side",
            Self::TaskEnded { .. } => "task-ended",
            Self::NotStarted { .. } => "not-started",
        }
    }
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
    /// The process of the case, from 0.
    #[serde(default, skip_serializing_if = "is_first")]
    pub process: u32,
    /// Start of the case, RFC 3339 in UTC.
    pub started_at: String,
    /// Its total duration in nanoseconds.
    pub elapsed_ns: u64,
    /// Its outcome.
    pub outcome: Outcome,
    /// The end of the worker's standard error, limited in size.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub standard_error: String,
    /// The machine when the case started; absent for a gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// Reports of the case's further processes, after they have been merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<WorkerReport>,
}

impl CaseRecord {
    /// Returns the rates that the case's processes found and were measured at, in the order of the processes.
    /// If a search found none, the rate is the one measured as evidence. Empty if the manifest set the rate,
    /// and if the case did not finish.
    #[must_use]
    pub fn searched_rates(&self) -> Vec<Rate> {
        let Outcome::Finished(first) = &self.outcome else { return Vec::new() };
        std::iter::once(&**first)
            .chain(&self.further)
            .filter(|report| report.search.is_some())
            .filter_map(|report| report.pace.as_ref().map(|pace| pace.asked))
            .collect()
    }

    /// Returns the report of the case's first process; `None` unless it finished.
    #[must_use]
    pub fn report(&self) -> Option<&WorkerReport> {
        match &self.outcome {
            Outcome::Finished(report) => Some(report),
            Outcome::Failed { .. } | Outcome::Gap { .. } => None,
        }
    }

    /// Iterates over the reports of all its processes, in order.
    pub fn reports(&self) -> impl Iterator<Item = &WorkerReport> {
        self.report().into_iter().chain(&self.further)
    }

    /// Returns a record of each of its processes alone, in order; of a case that did not finish, the record itself.
    #[must_use]
    pub fn each_process(&self) -> Vec<Self> {
        if self.further.is_empty() {
            return vec![self.clone()];
        }
        let alone = |report: &WorkerReport| Self {
            outcome: Outcome::Finished(Box::new(report.clone())),
            further: Vec::new(),
            ..self.clone()
        };
        self.reports().map(alone).collect()
    }

    /// Returns the kind of the failure or gap that ended the case, and the reason in one sentence.
    #[must_use]
    pub fn reason(&self) -> Option<(&'static str, String)> {
        match &self.outcome {
            Outcome::Finished(_) => None,
            Outcome::Failed { failure } => Some((failure.kind(), failure.to_string())),
            Outcome::Gap { gap } => Some((gap.kind().name(), gap.to_string())),
        }
    }

    /// Returns the coordinates as they are shown, with the rate that a search found. If several processes
    /// each found one, it is their mean, as every other value over processes.
    #[must_use]
    pub fn shown_key(&self) -> CaseKey {
        let rates = self.searched_rates();
        let mean = || {
            let sum: f64 = rates.iter().map(|rate| rate.get()).sum();
            match rates.as_slice() {
                [] => None,
                [rate] => Some(*rate),
                several => Rate::per_second(sum / several.len() as f64).ok(),
            }
        };
        CaseKey { rate: self.key.rate.or_else(mean), ..self.key.clone() }
    }

    /// Returns the confidence of intervals over the case: the manifest's, or 0.95.
    #[must_use]
    pub fn confidence(&self) -> f64 {
        const USUAL: f64 = 0.95;
        let chosen = self.spec.as_ref().and_then(|spec| spec.measure.confidence);
        chosen.map_or(USUAL, |confidence| confidence.level.get())
    }

    /// Returns the pace over all its processes: means of the rates, the sum of the unserved queries, and the
    /// worst lateness. A rate that one process lacks is missing.
    #[must_use]
    pub fn pace(&self) -> Option<Pace> {
        let paces: Vec<&Pace> = self.reports().filter_map(|report| report.pace.as_ref()).collect();
        let mean = |rate: &dyn Fn(&Pace) -> Option<f64>| {
            let rates: Option<Vec<f64>> = paces.iter().map(|pace| rate(pace)).collect();
            rates.map(|rates| rates.iter().sum::<f64>() / rates.len() as f64)
        };
        let late: Vec<&Lateness> = paces.iter().filter_map(|pace| pace.lateness.as_ref()).collect();
        let worst = |time: fn(&Lateness) -> u64| late.iter().map(|late| time(late)).max();
        let lateness = worst(|late| late.median_ns).map(|median_ns| Lateness {
            median_ns,
            p99_ns: worst(|late| late.p99_ns).unwrap_or_default(),
            maximum_ns: worst(|late| late.maximum_ns).unwrap_or_default(),
        });
        Some(Pace {
            asked: Rate::per_second(mean(&|pace| Some(pace.asked.get()))?).ok()?,
            offered_per_second: mean(&|pace| pace.offered_per_second),
            achieved_per_second: mean(&|pace| pace.achieved_per_second),
            unserved: paces.iter().map(|pace| pace.unserved).sum(),
            lateness,
        })
    }

    /// Returns the record as reports read it: without data that has its own files, with file names
    /// instead of paths, and with the last standard error of a case that failed.
    #[must_use]
    pub fn for_reports(mut self) -> Self {
        fn shorten(file: &mut FileId) {
            let name = Path::new(&file.name).file_name().unwrap_or_default();
            file.name = name.to_string_lossy().into_owned();
        }
        if let Some(spec) = &mut self.spec {
            shorten(&mut spec.model);
            if let InputSource::Files { inputs, labels, .. } = &mut spec.inputs {
                inputs.values_mut().chain(labels).for_each(shorten);
            }
            if let Some(check) = &mut spec.check {
                shorten(&mut check.model);
            }
        }
        let first = match &mut self.outcome {
            Outcome::Finished(report) => Some(&mut **report),
            Outcome::Failed { .. } | Outcome::Gap { .. } => None,
        };
        for report in first.into_iter().chain(&mut self.further) {
            report.labels = Vec::new();
            report.profile = Vec::new();
            report.device_states = Vec::new();
        }
        self.standard_error = match self.outcome {
            Outcome::Failed { .. } => self.last_words(Self::LAST_LINES).join("\n"),
            Outcome::Finished(_) | Outcome::Gap { .. } => String::new(),
        };
        self
    }

    /// Lines of a failed case's standard error that reports get.
    pub const LAST_LINES: usize = 20;

    /// Returns the last lines of the worker's standard error that are not empty, at most so many. A line is cut at
    /// 500 bytes, where its end is kept.
    #[must_use]
    pub fn last_words(&self, lines: usize) -> Vec<&str> {
        const LONGEST: usize = 500;
        let cut = |line: &'_ str| line.ceil_char_boundary(line.len().saturating_sub(LONGEST));
        // A bar of progress writes over its own line.
        let all = self.standard_error.split(['\n', '\r']).map(str::trim_end);
        let all = all.filter(|line| !line.is_empty());
        let mut last: Vec<_> = all.rev().take(lines).map(|line| &line[cut(line)..]).collect();
        last.reverse();
        last
    }

    /// Returns the number of processes in which the case is measured; of a pair, the most that may be needed, until the
    /// record says that they are enough.
    #[must_use]
    pub fn processes(&self) -> u32 {
        let planned = self.spec.as_ref().map_or(1, |spec| spec.measure.processes);
        let paired = self.report().and_then(|report| report.paired.as_ref());
        let enough = paired.filter(|paired| paired.result.end.is_some());
        enough.map_or(planned, |paired| paired.result.processes)
    }

    /// Returns the comparison with the first side of its pair, if this case is the second.
    #[must_use]
    pub fn pair(&self) -> Option<&Paired> {
        let paired = self.report()?.paired.as_deref()?;
        (paired.side == Side::Second).then_some(paired)
    }

    /// Returns the name for its files: see [`CaseSpec::part`].
    #[must_use]
    pub fn part(&self) -> String {
        part(&self.case_id, self.process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_called_as_the_journal_has_them() {
        let detail = String::new;
        let failures = [
            Failure::ExitCode { code: 1, phase: Phase::Load },
            Failure::Signal {
                signal: 6,
                name: "SIGABRT".into(),
                phase: Phase::Load,
                said: String::new(),
            },
            Failure::TimedOut { phase: Phase::Load, limit_ns: 1 },
            Failure::NotAPlugin { detail: detail() },
            Failure::NotPrioritised { detail: detail() },
            Failure::Varies { output: detail(), differing: 1, values: 2 },
            Failure::NoReference { detail: detail() },
            Failure::OtherSide { other: detail(), detail: detail() },
            Failure::NotStarted { detail: detail() },
        ];
        for failure in failures {
            let json = serde_json::to_value(&failure).expect("JSON");
            assert_eq!(json["kind"], failure.kind());
        }
    }

    #[test]
    fn reports_get_no_path_and_no_long_list() {
        let spec: CaseSpec = serde_json::from_value(serde_json::json!({
            "id": "c", "index": 0,
            "key": CaseKey::new("m", "b", "d"),
            "model": { "name": "/home/me/m.onnx", "sha256": "" },
            "threads": null, "plugin": { "id": "b", "version": "1.0.0", "sha256": "" },
            "device": { "id": "d", "kind": "cpu", "name": "", "memory-bytes": null, "precisions": [] },
            "inputs": { "files": {
                "inputs": { "x": { "name": "/home/me/x.npy", "sha256": "" } },
                "labels": { "name": "/home/me/y.npy", "sha256": "" }
            } },
            "measure": crate::MeasureSettings::default(), "seed": 0
        }))
        .expect("a case");
        let report = WorkerReport { labels: vec![1; 1000], ..WorkerReport::default() };
        let record = CaseRecord {
            record_version: crate::RECORD_VERSION,
            case_id: "c".into(),
            key: spec.key.clone(),
            spec: Some(spec),
            process: 0,
            started_at: String::new(),
            elapsed_ns: 1,
            outcome: Outcome::Finished(Box::new(report)),
            standard_error: "/home/me".into(),
            environment: None,
            further: Vec::new(),
        };
        let text = serde_json::to_string(&record.clone().for_reports()).expect("JSON");
        assert!(!text.contains("/home"), "{text}");
        assert!(text.contains("x.npy") && !text.contains("labels\":[1"), "{text}");
        assert!(serde_json::from_str::<CaseRecord>(&text).is_ok(), "{text}");

        let failure = Failure::ExitCode { code: 1, phase: Phase::Load };
        let long = "é".repeat(300);
        let standard_error =
            (0..30).map(|line| format!("line {line}\r\n\n")).collect::<String>() + &long;
        let failed = CaseRecord { outcome: Outcome::Failed { failure }, standard_error, ..record };
        assert_eq!(failed.last_words(2), ["line 29", &"é".repeat(250)]);
        let shown = failed.for_reports().standard_error;
        assert!(shown.starts_with("line 11\nline 12\n") && shown.ends_with("éé"), "{shown}");
    }
}
