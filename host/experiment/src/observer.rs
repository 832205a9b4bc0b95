//! Notices and progress for callers.

use host_plan::Plan;
use host_record::{CaseKey, CaseRecord, CaseSpec, Phase};
use host_registry::{BackendPlugin, RegistryError};
use host_runtime::{Outcome, Step};
use host_slurm::SlurmError;
use host_store::{LostFile, LostReference, StoreError, TornLine};
use host_wasm::{Compiling, GuestError};

use crate::computed::KeptReason;
use crate::error::Change;
use crate::outlook::NoiseOfRun;
use crate::shadow::{PassedOver, Shadow};

/// Something that a person should know, and that does not stop the work.
#[derive(Debug)]
pub enum Notice<'a> {
    /// A native plugin is used for the first time; its hash is now in the lock file.
    FirstUse(&'a BackendPlugin),
    /// A plugin is used instead of a built-in one.
    Shadow(&'a Shadow),
    /// A plugin that bears the wanted name cannot be used, and another one is used instead.
    PassedOver(&'a PassedOver),
    /// A WASM plugin is being compiled, once, and it takes long.
    Compiling(&'a Compiling),
    /// A backend of the manifest is not installed, so its cases are gaps; or it is broken.
    BackendMissing(&'a RegistryError),
    /// A metric fails without columns, so that its limits cannot be checked before the run.
    Unstated {
        /// The metric plugin's id.
        plugin: &'a str,
        /// Why it failed.
        error: &'a GuestError,
    },
    /// A runtime is installed, or was found whole.
    RuntimeInstalled {
        /// The id of the plugin that uses it.
        plugin: &'a str,
        /// The outcome.
        outcome: &'a Outcome,
    },
    /// The plan of a new run.
    Planned(&'a Plan),
    /// What the noise of this machine, measured before, means for the run.
    Noise(NoiseOfRun),
    /// A crash had cut a line short; it is dropped, and its case is measured again.
    TornLine(&'a TornLine),
    /// Outputs of a reference are lost; they are made again for the cases left.
    LostReference(&'a LostReference),
    /// A file of a finished case is lost; the case is measured again.
    LostCase(&'a LostFile),
    /// An interrupted run goes on.
    Resuming {
        /// Its id.
        run: &'a str,
        /// Processes of cases, and gaps, that are done.
        done: u64,
        /// All of them.
        total: u64,
    },
    /// A metric plugin failed. Told once if it says the same of the next case.
    MetricFailed {
        /// The metric plugin's id.
        plugin: &'a str,
        /// The case; `None` for a metric over the run, which fails for all cases at once.
        case: Option<&'a CaseKey>,
        /// Why.
        error: &'a str,
        /// Whether its earlier values are kept.
        stays: bool,
    },
    /// A metric was not recomputed and keeps its values.
    MetricKept {
        /// The metric plugin's id.
        plugin: &'a str,
        /// The case.
        case: &'a CaseKey,
        /// Why.
        reason: &'a KeptReason,
    },
    /// A metric plugin answered with a number that is not finite, which costs it its output.
    NotFinite(&'a StoreError),
    /// A recommender has asked for cases beyond the matrix, which are measured now.
    AskedFor {
        /// Its id.
        plugin: &'a str,
        /// The cases.
        cases: &'a [CaseSpec],
    },
    /// A recommender failed.
    AdviceFailed {
        /// Its id.
        plugin: &'a str,
        /// Why.
        error: &'a GuestError,
    },
    /// A report was not written.
    ReportFailed {
        /// The report plugin's id.
        plugin: &'a str,
        /// Why.
        error: &'a GuestError,
    },
    /// A report was made, and could not be written to its folder.
    ReportNotKept {
        /// The report plugin's id.
        plugin: &'a str,
        /// Why.
        error: &'a StoreError,
    },
    /// A report of an old run is made by another build of its plugin.
    OtherReport(&'a Change),
    /// A job was submitted that tells what nodes of a kind have.
    GatheringFacts {
        /// The kind of node, in words.
        kind: &'a str,
        /// The job's id.
        job: u64,
    },
    /// A job was submitted that measures.
    Submitted {
        /// The job's id.
        job: u64,
        /// Its number of tasks.
        tasks: u64,
        /// The kind of node, in words.
        kind: &'a str,
    },
    /// The cluster does not answer; it is asked again.
    Unreachable(&'a SlurmError),
    /// A task ended while it measured a case.
    TaskDied {
        /// The case.
        case: &'a CaseKey,
        /// The node.
        node: &'a str,
        /// How it ended, in the engine's word.
        state: &'a str,
        /// Whether the case is tried again.
        again: bool,
    },
    /// The user stopped following, and jobs go on.
    LeftRunning {
        /// The ids of the jobs.
        jobs: &'a [u64],
    },
    /// The user stopped the run, and jobs are cancelled.
    Cancelled {
        /// The ids of the jobs.
        jobs: &'a [u64],
    },
    /// The run is kept in its folder, and not in the database.
    NotIndexed(&'a StoreError),
}

/// Progress of the application.
#[derive(Debug)]
pub enum Progress<'a> {
    /// Cases are about to be measured.
    Measuring {
        /// The plan.
        plan: &'a Plan,
        /// Processes of cases, and gaps, that are done.
        done: u64,
        /// All of them.
        total: u64,
    },
    /// Cases that a recommender has asked for are about to be measured.
    MeasuringMore {
        /// The cases.
        cases: &'a [CaseSpec],
        /// Processes of all of them.
        total: u64,
    },
    /// Called when a case starts.
    CaseStarted(&'a CaseSpec),
    /// The worker has entered a phase. The observer must be quick, and quiet while the phase is one in
    /// which the clock runs: the worker measures on the same machine.
    PhaseEntered(&'a CaseSpec, Phase),
    /// Called when a case has ended and is recorded; or was a gap, and never started.
    CaseFinished(&'a CaseRecord),
    /// States of the tasks on a cluster that measure.
    Tasks {
        /// Waiting.
        queued: u64,
        /// Running.
        running: u64,
        /// Ended, with all their cases recorded.
        done: u64,
        /// Ended without.
        failed: u64,
    },
    /// No further case will be measured.
    Measured,
    /// The files of an architecture are being written.
    Writing {
        /// The architecture.
        model: &'a str,
        /// The size of its files.
        bytes: u64,
    },
    /// This many bytes more are written.
    WrittenBytes(u64),
    /// They are written, or cannot be.
    WritingEnded,
    /// A runtime is being installed.
    Installing(Step<'a>),
    /// This many bytes of the step are done.
    InstalledBytes(u64),
    /// The installation has ended, well or not.
    InstallationEnded,
}

/// Is told what happens. Every method does nothing unless it is defined.
pub trait Observer {
    /// Called with a notice for people.
    fn notice(&mut self, notice: Notice<'_>) {
        let _ = notice;
    }

    /// Called with progress.
    fn progress(&mut self, progress: Progress<'_>) {
        let _ = progress;
    }

    /// Returns whether jobs of a run that is interrupted are to be cancelled. Otherwise they go on, and the run can be
    /// followed again later.
    fn cancels_jobs(&mut self, jobs: &[u64]) -> bool {
        let _ = jobs;
        false
    }

    /// Returns whether pip may write its own progress to standard error.
    fn shows_pip(&self) -> bool {
        false
    }
}

/// Ignores everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {}

/// Passes on notices while cases are measured.
pub(crate) struct OfCases<'a>(pub(crate) &'a mut dyn Observer);

impl host_run::Observer for OfCases<'_> {
    fn case_started(&mut self, case: &CaseSpec) {
        self.0.progress(Progress::CaseStarted(case));
    }

    fn phase_entered(&mut self, case: &CaseSpec, phase: Phase) {
        self.0.progress(Progress::PhaseEntered(case, phase));
    }

    fn case_finished(&mut self, record: &CaseRecord) {
        self.0.progress(Progress::CaseFinished(record));
    }
}

/// Passes on notices while a runtime is installed.
pub(crate) struct OfInstallation<'a>(pub(crate) &'a mut dyn Observer);

impl host_runtime::Observer for OfInstallation<'_> {
    fn step(&mut self, step: Step<'_>) {
        self.0.progress(Progress::Installing(step));
    }

    fn advanced(&mut self, bytes: u64) {
        self.0.progress(Progress::InstalledBytes(bytes));
    }

    fn shows_pip(&self) -> bool {
        self.0.shows_pip()
    }
}
