//! The run itself: one case after another.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use host_plan::PlannedCase;
use host_record::protocol::{BackendDescription, Message, PROTOCOL_VERSION, Request};
use host_record::{
    CaseRecord, CaseSpec, Environment, ErrorCode, Failure, Gap, Outcome, Phase, RECORD_VERSION,
    Recorder, SampleBlock, Unsupported,
};

use crate::reference::{Reference, References};
use crate::supervise::{Conclusion, Limits, Program, supervise};
use crate::{Interrupt, Observer};

/// Runs cases and describes plugins, each in a worker process of its own.
#[derive(Debug, Clone)]
pub struct Runner {
    /// The executable `host-worker`.
    pub worker: PathBuf,
    /// How long describing a plugin may take without a sign of progress.
    pub describe_timeout: Duration,
    /// A folder of the user's, whose git commit is recorded with each case.
    pub repository: Option<PathBuf>,
    /// A folder for outputs of references, made when it is first needed. Without it, no case can be
    /// checked.
    pub references: Option<PathBuf>,
    /// The runtimes that plugins are to use, each a folder or a library, by the plugin's library.
    pub runtimes: BTreeMap<PathBuf, PathBuf>,
    /// The gaps of runtimes that the host has not found, by the plugin's library. The plugin may do without, or
    /// find one where the system keeps it; if it reports a missing runtime at loading, the case is that gap.
    pub missing_runtimes: BTreeMap<PathBuf, Gap>,
}

/// What a run came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunSummary {
    /// Processes of cases measured to the end.
    pub finished: u64,
    /// Cases that failed.
    pub failed: u64,
    /// Cases that were gaps, or turned out to be.
    pub gaps: u64,
    /// Whether the run was asked to stop before its end. The case in progress is then recorded
    /// nowhere.
    pub interrupted: bool,
}

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// What was learnt could not be kept.
    #[error("results cannot be kept: {0}")]
    Recorder(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Why a plugin could not be described.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{failure}")]
pub struct DescribeError {
    /// The reason.
    pub failure: Failure,
    /// The worker's last standard error.
    pub standard_error: String,
}

impl Runner {
    /// Samples that are held back while the worker measures may take this many bytes.
    const HELD_LIMIT: usize = 64 << 20;

    /// A runner with this `host-worker`, a time-out of half a minute for describing, no repository, no
    /// folder for references and no runtimes, none of them missing.
    #[must_use]
    pub fn new(worker: impl Into<PathBuf>) -> Self {
        Self {
            worker: worker.into(),
            describe_timeout: Duration::from_secs(30),
            repository: None,
            references: None,
            runtimes: BTreeMap::new(),
            missing_runtimes: BTreeMap::new(),
        }
    }

    /// What is started for a plugin.
    pub(crate) fn program(&self, library: &Path) -> Program<'_> {
        let runtime = self.runtimes.get(library).map(PathBuf::as_path);
        Program { executable: &self.worker, runtime }
    }

    /// Opens a plugin in a worker, and asks what it is and which devices it sees. A library with
    /// another SHA-256 than this is refused, where one is given.
    ///
    /// # Errors
    ///
    /// Whatever went wrong with worker or plugin, or that somebody asked to stop.
    #[tracing::instrument(skip_all, fields(library = %library.display()))]
    pub fn describe(
        &self,
        library: &Path,
        sha256: Option<&str>,
        interrupt: &Interrupt,
    ) -> Result<BackendDescription, Box<DescribeError>> {
        let request = Request::Describe {
            protocol_version: PROTOCOL_VERSION,
            library: library.to_owned(),
            sha256: sha256.map(Into::into),
        };
        let limits =
            Limits { silence: self.describe_timeout, measuring: Duration::ZERO, memory: None };
        let mut phase = Phase::Start;
        let ignore = |message| {
            if let Message::Entered(entered) = message {
                phase = entered;
            }
            Ok::<_, std::convert::Infallible>(())
        };
        let Ok((conclusion, standard_error)) =
            supervise(self.program(library), &request, limits, interrupt, ignore);
        let failure = match conclusion {
            Conclusion::Described(description) => return Ok(*description),
            Conclusion::Failed(failure) => failure,
            Conclusion::Finished(_) | Conclusion::Kept => Failure::Protocol {
                phase,
                detail: "expected a description, got the end of a case".into(),
            },
            Conclusion::Interrupted => {
                Failure::Protocol { phase, detail: "interrupted before an answer came".into() }
            }
        };
        tracing::debug!(%failure, "the plugin could not be described");
        Err(Box::new(DescribeError { failure, standard_error }))
    }

    /// Runs the cases in turn and records each before the next one starts.
    ///
    /// # Errors
    ///
    /// Where the recorder fails; the worker in progress is then ended. What goes wrong with a
    /// case is no error of the run: it is recorded with the case.
    #[tracing::instrument(skip_all)]
    pub fn run(
        &self,
        items: impl IntoIterator<Item = PlannedCase>,
        recorder: &mut impl Recorder,
        observer: &mut impl Observer,
        interrupt: &Interrupt,
    ) -> Result<RunSummary, RunError> {
        let git_commit = self.repository.as_deref().and_then(host_machine::git_commit);
        let mut summary = RunSummary::default();
        // A case of which one process did not finish is over.
        let mut over = HashSet::new();
        let mut references = References::default();
        for item in items {
            if let PlannedCase::Case(case) = &item
                && over.contains(&case.id)
            {
                continue;
            }
            if interrupt.is_interrupted() {
                summary.interrupted = true;
                break;
            }
            let record = match item {
                PlannedCase::Gap { case_id, key, gap, .. } => Some(gap_record(case_id, key, gap)),
                PlannedCase::Case(case) => {
                    let environment = host_machine::with_commit(git_commit.clone());
                    let reference = references.of(
                        self.references.as_deref(),
                        |library| self.program(library),
                        &case,
                        interrupt,
                    );
                    match reference {
                        Reference::Interrupted => None,
                        Reference::Failed(failure) => Some(failed(*case, environment, failure)),
                        Reference::Unasked => {
                            self.measure(*case, environment, None, recorder, observer, interrupt)?
                        }
                        Reference::Kept(file) => {
                            let file = Some(file);
                            self.measure(*case, environment, file, recorder, observer, interrupt)?
                        }
                    }
                }
            };
            let Some(record) = record else {
                summary.interrupted = true;
                break;
            };
            recorder.case_finished(&record).map_err(recorder_error)?;
            if !matches!(record.outcome, Outcome::Finished(_)) && record.processes() > 1 {
                over.insert(record.case_id.clone());
            }
            match &record.outcome {
                Outcome::Finished(_) => summary.finished += 1,
                Outcome::Failed { failure } => {
                    tracing::debug!(case = record.case_id, %failure, "the case failed");
                    summary.failed += 1;
                }
                Outcome::Gap { .. } => summary.gaps += 1,
            }
            observer.case_finished(&record);
        }
        tracing::debug!(?summary, "the run is over");
        Ok(summary)
    }

    /// Measures one case. `None`: interrupted.
    #[tracing::instrument(skip_all, fields(case = case.id, key = %case.key))]
    fn measure(
        &self,
        case: CaseSpec,
        environment: Environment,
        reference: Option<PathBuf>,
        recorder: &mut impl Recorder,
        observer: &mut impl Observer,
        interrupt: &Interrupt,
    ) -> Result<Option<CaseRecord>, RunError> {
        let started_at = jiff::Timestamp::now().to_string();
        let start = Instant::now();
        recorder.case_started(&case).map_err(recorder_error)?;
        observer.case_started(&case);

        let limits = Limits {
            silence: Duration::from_nanos(case.measure.timeout_ns),
            measuring: Duration::from_nanos(case.measure.maximum_duration_ns),
            memory: case.measure.memory_limit_bytes,
        };
        let request = Request::Measure {
            protocol_version: PROTOCOL_VERSION,
            case: Box::new(case.clone()),
            reference,
        };
        let mut held = Held::default();
        let receive = |message| {
            match message {
                Message::Entered(phase) => {
                    tracing::debug!(%phase, "entered");
                    if phase == Phase::WarmUp {
                        // The benchmark of the time to the first sample waits for this line.
                        tracing::info!("the first timed query begins");
                    }
                    if !matches!(phase, Phase::WarmUp | Phase::Search | Phase::Measure) {
                        held.release(recorder)?;
                    }
                    observer.phase_entered(&case, phase);
                }
                Message::Samples(block) => held.hold(block, recorder)?,
                Message::Outputs(block) => recorder.outputs(&block).map_err(recorder_error)?,
                _ => {}
            }
            Ok(())
        };
        let (conclusion, standard_error) =
            supervise(self.program(&case.plugin_library), &request, limits, interrupt, receive)?;
        // What was measured before a failure is kept with the failed case.
        held.release(recorder)?;

        let outcome = match conclusion {
            Conclusion::Interrupted => return Ok(None),
            Conclusion::Finished(report) => Outcome::Finished(report),
            Conclusion::Failed(failure) => {
                outcome_of(failure, self.missing_runtimes.get(&case.plugin_library))
            }
            Conclusion::Described(_) | Conclusion::Kept => Outcome::Failed {
                failure: Failure::Protocol {
                    phase: Phase::Start,
                    detail: "expected the report of a case, got another answer".into(),
                },
            },
        };
        Ok(Some(CaseRecord {
            record_version: RECORD_VERSION,
            case_id: case.id.clone(),
            key: case.key.clone(),
            process: case.process,
            spec: Some(case),
            started_at,
            elapsed_ns: u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
            outcome,
            standard_error,
            environment: Some(environment),
            further: Vec::new(),
        }))
    }
}

/// A backend that says that it cannot do a case has not failed: that is a gap. So is one that has not
/// found its runtime.
fn outcome_of(failure: Failure, missing: Option<&Gap>) -> Outcome {
    if let (
        Failure::Backend { phase: Phase::Load, code: ErrorCode::RuntimeMissing, .. },
        Some(missing),
    ) = (&failure, missing)
    {
        return Outcome::Gap { gap: missing.clone() };
    }
    match failure {
        Failure::Backend { phase, call, code: ErrorCode::Unsupported, message, .. } => {
            let cause = Unsupported::Backend { phase, call, backend_message: message };
            Outcome::Gap { gap: Gap::Unsupported(cause) }
        }
        failure => Outcome::Failed { failure },
    }
}

/// The record of a case that was not started, since there is nothing to compare its outputs with.
fn failed(case: CaseSpec, environment: Environment, failure: Failure) -> CaseRecord {
    CaseRecord {
        record_version: RECORD_VERSION,
        case_id: case.id.clone(),
        key: case.key.clone(),
        process: case.process,
        spec: Some(case),
        started_at: jiff::Timestamp::now().to_string(),
        elapsed_ns: 0,
        outcome: Outcome::Failed { failure },
        standard_error: String::new(),
        environment: Some(environment),
        further: Vec::new(),
    }
}

fn gap_record(case_id: String, key: host_record::CaseKey, gap: Gap) -> CaseRecord {
    CaseRecord {
        record_version: RECORD_VERSION,
        case_id,
        key,
        spec: None,
        process: 0,
        started_at: jiff::Timestamp::now().to_string(),
        elapsed_ns: 0,
        outcome: Outcome::Gap { gap },
        standard_error: String::new(),
        environment: None,
        further: Vec::new(),
    }
}

fn recorder_error(error: impl std::error::Error + Send + Sync + 'static) -> RunError {
    RunError::Recorder(Box::new(error))
}

/// Samples that wait until the clock no longer runs: compressing and writing them would take a
/// processor from the backend.
#[derive(Default)]
struct Held {
    blocks: Vec<SampleBlock>,
    bytes: usize,
}

impl Held {
    fn hold(&mut self, block: SampleBlock, recorder: &mut impl Recorder) -> Result<(), RunError> {
        self.bytes += size_of::<SampleBlock>() + block.bytes();
        self.blocks.push(block);
        if self.bytes > Runner::HELD_LIMIT { self.release(recorder) } else { Ok(()) }
    }

    fn release(&mut self, recorder: &mut impl Recorder) -> Result<(), RunError> {
        self.bytes = 0;
        for block in self.blocks.drain(..) {
            recorder.samples(&block).map_err(recorder_error)?;
        }
        Ok(())
    }
}
