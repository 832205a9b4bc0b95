//! The executor of this machine: a worker process for each case.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use host_record::protocol::{BackendDescription, Message, PROTOCOL_VERSION, Request};
use host_record::{
    Calibration, CaseSpec, Environment, ErrorCode, Failure, Gap, ModelStructure, NoiseProbe,
    NotMeasured, Outcome, OutputBlock, Phase, Pin, SampleBlock, Unsupported,
};

use crate::environment::variables_of_worker;
use crate::error::RunError;
use crate::executor::{Ended, EndedSide, Events, Execution, Executor, PairExecution};
use crate::interrupt::Interrupt;
use crate::pair::{Conductor, PairSeat};
use crate::reference::{Reference, References};
use crate::resolver::{Found, LocalPlugin, Resolver, find};
use crate::rounds::Rounds;
use crate::supervise::{Conclusion, Limits, Program, Seat, supervise};

/// Executes cases on this machine and describes plugins, each in a separate worker process.
pub struct LocalExecutor {
    /// The executable `host-worker`.
    pub worker: PathBuf,
    /// Time limit without a sign of progress for describing a plugin.
    pub describe_timeout: Duration,
    /// The commit of the user's repository, recorded with each case.
    pub commit: Option<String>,
    /// A folder for outputs of references, created when needed. Without it, no case can be checked.
    pub references: Option<PathBuf>,
    /// Whether processors are calibrated before their first case, so that records have their peaks.
    pub calibrate: bool,
    /// Finds the files and plugins that cases name.
    pub resolver: Arc<dyn Resolver>,
    calibrations: Vec<(Placing, Result<Calibration, Gap>)>,
    known_references: References,
}

/// Choice of the processors that a case may use: pin, nice value, threads and clients.
type Placing = (Pin, Option<i32>, Option<u32>, Option<u32>);

/// Reason why a plugin could not be described.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{failure}")]
pub struct DescribeError {
    /// The reason.
    pub failure: Failure,
    /// The worker's last standard error.
    pub standard_error: String,
}

impl LocalExecutor {
    /// Limit on the samples that are held back while the worker measures, in bytes.
    const HELD_LIMIT: usize = 64 << 20;

    /// Creates an executor with this `host-worker`, a time-out of half a minute for describing, no commit
    /// and no folder for references.
    #[must_use]
    pub fn new(worker: impl Into<PathBuf>, resolver: Arc<dyn Resolver>) -> Self {
        Self {
            worker: worker.into(),
            describe_timeout: Duration::from_secs(30),
            commit: None,
            references: None,
            calibrate: false,
            resolver,
            calibrations: Vec::new(),
            known_references: References::default(),
        }
    }

    /// Returns the program to start for a plugin.
    fn program<'a>(&'a self, plugin: &'a LocalPlugin) -> Program<'a> {
        Program {
            executable: &self.worker,
            runtime: plugin.runtime.as_deref(),
            variables: &plugin.variables,
        }
    }

    /// Opens a plugin in a worker, and returns its description and its devices. If a SHA-256 is given, a library with
    /// a different one is refused.
    ///
    /// # Errors
    ///
    /// The failure of worker or plugin, or a requested stop.
    #[tracing::instrument(skip_all, fields(library = %plugin.library.display()))]
    pub fn describe(
        &self,
        plugin: &LocalPlugin,
        sha256: Option<&str>,
        interrupt: &Interrupt,
    ) -> Result<BackendDescription, Box<DescribeError>> {
        let request = Request::Describe {
            protocol_version: PROTOCOL_VERSION,
            library: plugin.library.clone(),
            sha256: sha256.map(Into::into),
        };
        let (conclusion, phase, standard_error) =
            self.ask(self.program(plugin), &request, interrupt);
        let failure = match conclusion {
            Conclusion::Described(description) => return Ok(*description),
            other => other.instead_of("a description", phase),
        };
        tracing::debug!(%failure, "the plugin could not be described");
        Err(Box::new(DescribeError { failure, standard_error }))
    }

    /// Reads the structure of a model's file in a worker: the file comes from somebody else, and this process
    /// does not parse it.
    ///
    /// # Errors
    ///
    /// If the file is damaged, or one of the files that it names is missing or out of its folder; or a requested
    /// stop.
    #[tracing::instrument(skip_all, fields(model = %model.display()))]
    pub fn inspect(
        &self,
        model: &Path,
        interrupt: &Interrupt,
    ) -> Result<ModelStructure, Box<DescribeError>> {
        let request =
            Request::Inspect { protocol_version: PROTOCOL_VERSION, model: model.to_owned() };
        let program = Program { executable: &self.worker, runtime: None, variables: &[] };
        let (conclusion, phase, standard_error) = self.ask(program, &request, interrupt);
        let failure = match conclusion {
            Conclusion::Inspected(structure) => return Ok(*structure),
            other => other.instead_of("the structure of a model", phase),
        };
        tracing::debug!(%failure, "the model could not be read");
        Err(Box::new(DescribeError { failure, standard_error }))
    }

    /// Checks the files of inputs and labels of a case against its model's file, in a worker.
    ///
    /// # Errors
    ///
    /// If a file is missing, damaged or does not fit the model; or a requested stop.
    #[tracing::instrument(skip_all, fields(case = case.id))]
    pub fn check_inputs(
        &self,
        case: &CaseSpec,
        interrupt: &Interrupt,
    ) -> Result<(), Box<DescribeError>> {
        let error = |failure, standard_error| Box::new(DescribeError { failure, standard_error });
        let Found { files, .. } =
            find(&*self.resolver, case).map_err(|failure| error(failure, String::new()))?;
        let request = Request::CheckInputs {
            protocol_version: PROTOCOL_VERSION,
            case: Box::new(case.clone()),
            files: Box::new(files),
        };
        let program = Program { executable: &self.worker, runtime: None, variables: &[] };
        match self.ask(program, &request, interrupt) {
            (Conclusion::Fits, ..) => Ok(()),
            (other, phase, standard_error) => {
                Err(error(other.instead_of("word that inputs fit", phase), standard_error))
            }
        }
    }

    /// Repeats the same work in a worker for this long, and returns the times.
    ///
    /// # Errors
    ///
    /// The failure of the worker, or a requested stop.
    pub fn probe_noise(
        &self,
        time: Duration,
        interrupt: &Interrupt,
    ) -> Result<NoiseProbe, Box<DescribeError>> {
        let request =
            Request::Noise { protocol_version: PROTOCOL_VERSION, duration_ns: nanoseconds(time) };
        let program = Program { executable: &self.worker, runtime: None, variables: &[] };
        match self.ask(program, &request, interrupt) {
            (Conclusion::Noise(probe), ..) => Ok(*probe),
            (other, phase, standard_error) => {
                let failure = other.instead_of("times of the same work", phase);
                Err(Box::new(DescribeError { failure, standard_error }))
            }
        }
    }

    /// Returns the peaks of the processors that a case may use, measured once in a worker of their own, so that a
    /// fault costs no case. `None` if the case runs elsewhere, or none are wanted, or a stop is requested.
    fn calibration(
        &mut self,
        case: &CaseSpec,
        interrupt: &Interrupt,
    ) -> Option<Result<Calibration, Gap>> {
        if !self.calibrate || case.device.kind != "cpu" {
            return None;
        }
        // Threads and clients decide how many processors an automatic pin takes.
        let (threads, clients) = match case.measure.pin {
            Pin::Auto => (case.threads, case.key.clients),
            _ => (None, None),
        };
        let placing = (case.measure.pin.clone(), case.measure.nice, threads, clients);
        if let Some((_, known)) = self.calibrations.iter().find(|(known, _)| *known == placing) {
            return Some(known.clone());
        }
        let request =
            Request::Calibrate { protocol_version: PROTOCOL_VERSION, case: Box::new(case.clone()) };
        let program = Program { executable: &self.worker, runtime: None, variables: &[] };
        let (conclusion, phase, _) = self.ask(program, &request, interrupt);
        let calibration = match conclusion {
            Conclusion::Calibrated(calibration) => Ok(*calibration),
            Conclusion::Interrupted => return None,
            other => Err(match other.instead_of("peaks of the processor", phase) {
                Failure::Gap { gap } => *gap,
                failure => NotMeasured::CalibrationFailed { reason: failure.to_string() }.into(),
            }),
        };
        tracing::debug!(?calibration, "calibrated");
        self.calibrations.push((placing, calibration.clone()));
        Some(calibration)
    }

    /// Starts a worker for a request that measures nothing. Returns how it ended, in which phase, and its last
    /// standard error.
    fn ask(
        &self,
        program: Program<'_>,
        request: &Request,
        interrupt: &Interrupt,
    ) -> (Conclusion, Phase, String) {
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
            supervise(program, request, limits, interrupt, None, ignore);
        (conclusion, phase, standard_error)
    }

    /// Measures one case, and passes on what its worker sends.
    #[tracing::instrument(skip_all, fields(case = case.id, key = %case.key))]
    fn measure(
        &self,
        case: &CaseSpec,
        ready: ReadyToStart,
        seat: Option<&dyn Seat>,
        interrupt: &Interrupt,
        mut receive: impl FnMut(Message) -> Result<(), RunError>,
    ) -> Result<Option<(Outcome, String)>, RunError> {
        let limits = Limits {
            silence: Duration::from_nanos(case.measure.timeout_ns),
            measuring: Duration::from_nanos(case.measure.maximum_duration_ns),
            memory: case.measure.memory_limit_bytes,
        };
        let ReadyToStart { found: Found { plugin, files }, reference, calibration } = ready;
        let request = Request::Measure {
            protocol_version: PROTOCOL_VERSION,
            case: Box::new(case.clone()),
            files: Box::new(files),
            reference,
            calibration,
        };
        let receive = |message| {
            if let Message::Entered(phase) = &message {
                tracing::debug!(%phase, "entered");
                if *phase == Phase::WarmUp {
                    // The benchmark of the time to the first sample waits for this line.
                    tracing::info!("the first timed query begins");
                }
            }
            receive(message)
        };
        let (conclusion, standard_error) =
            supervise(self.program(&plugin), &request, limits, interrupt, seat, receive)?;
        let outcome = match conclusion {
            Conclusion::Interrupted => return Ok(None),
            Conclusion::Finished(report) => Outcome::Finished(report),
            Conclusion::Failed(failure) => outcome_of(failure, plugin.missing_runtime.as_ref()),
            other => {
                Outcome::Failed { failure: other.instead_of("the report of a case", Phase::Start) }
            }
        };
        Ok(Some((outcome, standard_error)))
    }

    /// Finds everything that a case needs before its worker starts. `None` if a stop is requested.
    fn prepare(&mut self, case: &CaseSpec, interrupt: &Interrupt) -> Option<Prepared> {
        let mut environment = host_machine::environment(self.commit.clone());
        let found = find(&*self.resolver, case);
        if let Ok(Found { plugin, .. }) = &found {
            let variables = variables_of_worker(plugin.runtime.as_deref(), &plugin.variables);
            let names = variables.into_keys();
            environment.variables = names.map(|name| name.to_string_lossy().into_owned()).collect();
        }
        let (folder, worker) = (self.references.as_deref(), &*self.worker);
        let reference = self.known_references.of(folder, worker, &*self.resolver, case, interrupt);
        let started_at = jiff::Timestamp::now().to_string();
        let ready = match (reference, found) {
            (Reference::Interrupted, _) => return None,
            (Reference::Failed(failure), _) | (_, Err(failure)) => Err(failure),
            (Reference::Kept(file), Ok(found)) => Ok((found, Some(file))),
            (_, Ok(found)) => Ok((found, None)),
        };
        Some(Prepared { environment, started_at, ready })
    }
}

/// Everything about a case before its worker starts.
struct Prepared {
    environment: Environment,
    started_at: String,
    /// Its plugin and files, and its reference's outputs; or why it is not started.
    ready: Result<(Found, Option<PathBuf>), Failure>,
}

/// Inputs of a worker.
struct ReadyToStart {
    found: Found,
    reference: Option<PathBuf>,
    calibration: Option<Result<Calibration, Gap>>,
}

impl Executor for LocalExecutor {
    fn machine(&self) -> String {
        host_machine::name()
    }

    fn execute(
        &mut self,
        case: &CaseSpec,
        events: &mut dyn Events,
        interrupt: &Interrupt,
    ) -> Result<Execution, RunError> {
        let Some(prepared) = self.prepare(case, interrupt) else {
            return Ok(Execution::Interrupted);
        };
        let Prepared { environment, started_at, ready } = prepared;
        let end = match ready {
            // A case without reference outputs for its check is not started, and takes no time.
            Err(failure) => Some((outcome_of(failure, None), String::new(), Duration::ZERO)),
            Ok((found, reference)) => {
                events.started()?;
                let calibration = self.calibration(case, interrupt);
                let start = Instant::now();
                let ready = ReadyToStart { found, reference, calibration };
                let mut buffer = SampleBuffer::default();
                let receive = |message| {
                    match message {
                        Message::Entered(phase) => {
                            if !matches!(phase, Phase::WarmUp | Phase::Search | Phase::Measure) {
                                buffer.release(events)?;
                            }
                            events.entered(phase);
                        }
                        Message::Samples(block) => buffer.push(block, events)?,
                        Message::Outputs(block) => events.outputs(block)?,
                        _ => {}
                    }
                    Ok(())
                };
                let end = self.measure(case, ready, None, interrupt, receive)?;
                // Samples from before a failure are kept with the failed case.
                buffer.release(events)?;
                end.map(|(outcome, standard_error)| (outcome, standard_error, start.elapsed()))
            }
        };
        let Some((outcome, standard_error, elapsed)) = end else {
            return Ok(Execution::Interrupted);
        };
        let elapsed_ns = nanoseconds(elapsed);
        let ended = Ended { started_at, elapsed_ns, outcome, standard_error, environment };
        Ok(Execution::Ended(Box::new(ended)))
    }

    fn execute_pair(&mut self, cases: [&CaseSpec; 2], interrupt: &Interrupt) -> PairExecution {
        let mut places = Vec::new();
        let mut ready = Vec::new();
        for case in cases {
            let Some(prepared) = self.prepare(case, interrupt) else {
                return PairExecution::Interrupted;
            };
            let Prepared { environment, started_at, ready: found } = prepared;
            places.push((environment, started_at));
            ready.push(found.map(|(found, reference)| {
                let calibration = self.calibration(case, interrupt);
                ReadyToStart { found, reference, calibration }
            }));
        }
        let settings = &cases[0].measure;
        // Each side begins in every other process: what comes first may have an advantage.
        let first = cases[0].process as usize % 2;
        let longest = Duration::from_nanos(settings.maximum_duration_ns);
        let rounds = Rounds::new(first, settings.minimum_duration_ns, longest);
        let conductor = Conductor::new(rounds);
        let mut sides: [Option<SideEnd>; 2] = [None, None];
        let mut ready: Vec<Option<ReadyToStart>> = ready
            .into_iter()
            .zip(&mut sides)
            .map(|(ready, side)| {
                let failed = |failure| SideEnd::of(outcome_of(failure, None));
                ready.map_err(|failure| *side = Some(failed(failure))).ok()
            })
            .collect();
        if ready.iter().all(Option::is_some) {
            let (this, conductor) = (&*self, &conductor);
            std::thread::scope(|scope| {
                let mut work = |side: usize| {
                    let ready = ready[side].take()?;
                    Some(scope.spawn(move || {
                        let seat = PairSeat { conductor, side };
                        let end = this.measure_side(cases[side], ready, &seat, interrupt);
                        conductor.ended(side);
                        end
                    }))
                };
                let mut threads = [work(first), None];
                if conductor.wait_until_ready(first) {
                    threads[1] = work(1 - first);
                }
                let ends = threads.map(|thread| thread.and_then(|thread| thread.join().ok()));
                for (side, end) in [first, 1 - first].into_iter().zip(ends) {
                    sides[side] = end;
                }
            });
        }
        let is_given_up =
            |side: &Option<SideEnd>| side.as_ref().is_none_or(|side| side.outcome.is_none());
        if interrupt.is_interrupted() && sides.iter().any(is_given_up) {
            return PairExecution::Interrupted;
        }
        let ended = ends(cases, sides, places);
        PairExecution::Ended(Box::new(ended), conductor.result())
    }
}

/// The end of one side, with everything that it sent.
#[derive(Default)]
struct SideEnd {
    /// `None` if it was given up because the other side had ended.
    outcome: Option<Outcome>,
    standard_error: String,
    elapsed: Duration,
    samples: Vec<SampleBlock>,
    outputs: Vec<OutputBlock>,
}

impl SideEnd {
    fn of(outcome: Outcome) -> Self {
        Self { outcome: Some(outcome), ..Self::default() }
    }
}

impl LocalExecutor {
    /// Measures one side of a pair.
    fn measure_side(
        &self,
        case: &CaseSpec,
        ready: ReadyToStart,
        seat: &PairSeat<'_>,
        interrupt: &Interrupt,
    ) -> SideEnd {
        let start = Instant::now();
        let mut side = SideEnd::default();
        let receive = |message| {
            match message {
                Message::Samples(block) => side.samples.push(block),
                Message::Outputs(block) => side.outputs.push(block),
                _ => {}
            }
            Ok(())
        };
        let end = self.measure(case, ready, Some(seat), interrupt, receive);
        side.elapsed = start.elapsed();
        match end {
            Ok(Some((outcome, standard_error))) => {
                (side.outcome, side.standard_error) = (Some(outcome), standard_error);
            }
            Ok(None) => {}
            Err(error) => {
                let failure = Failure::NotStarted { detail: error.to_string() };
                side.outcome = Some(Outcome::Failed { failure });
            }
        }
        side
    }
}

/// Puts the ends of both sides together. A side that was given up, or not started, names the failure of the other.
fn ends(
    cases: [&CaseSpec; 2],
    sides: [Option<SideEnd>; 2],
    places: Vec<(Environment, String)>,
) -> [EndedSide; 2] {
    let reasons: [Option<String>; 2] = [0, 1].map(|side| {
        let outcome = sides[side].as_ref()?.outcome.as_ref()?;
        match outcome {
            Outcome::Finished(_) => None,
            Outcome::Failed { failure } => Some(failure.to_string()),
            Outcome::Gap { gap } => Some(gap.to_string()),
        }
    });
    let mut places = places.into_iter();
    let mut side = 0;
    sides.map(|end| {
        let end = end.unwrap_or_default();
        let other = 1 - side;
        let outcome = end.outcome.unwrap_or_else(|| {
            let name = cases[0].measure.pair.as_ref().map(|pair| pair.sides[other].clone());
            let reason = reasons[other].as_deref().unwrap_or("it was ended");
            let detail = format!(
                "{reason}; if each can be measured alone, the two do not fit together: measure them one after \
                 the other, with `order = \"interleaved\"`"
            );
            let other = name.unwrap_or_default();
            Outcome::Failed { failure: Failure::OtherSide { other, detail } }
        });
        side += 1;
        let (environment, started_at) = places.next().expect("each side has one");
        let SideEnd { standard_error, elapsed, samples, outputs, .. } = end;
        let elapsed_ns = nanoseconds(elapsed);
        let ended = Ended { started_at, elapsed_ns, outcome, standard_error, environment };
        EndedSide { ended, samples, outputs }
    })
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Converts a failure to an outcome. If a backend reports that it does not support a case, this is a gap and not a
/// failure. The same holds for a backend that has not found its runtime.
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
        Failure::Gap { gap } => Outcome::Gap { gap: *gap },
        failure => Outcome::Failed { failure },
    }
}

/// Samples that wait for the end of the timing: compressing and writing them would take a processor from the
/// backend.
#[derive(Default)]
struct SampleBuffer {
    blocks: Vec<SampleBlock>,
    bytes: usize,
}

impl SampleBuffer {
    fn push(&mut self, block: SampleBlock, events: &mut dyn Events) -> Result<(), RunError> {
        self.bytes += size_of::<SampleBlock>() + block.bytes();
        self.blocks.push(block);
        if self.bytes > LocalExecutor::HELD_LIMIT { self.release(events) } else { Ok(()) }
    }

    fn release(&mut self, events: &mut dyn Events) -> Result<(), RunError> {
        self.bytes = 0;
        self.blocks.drain(..).try_for_each(|block| events.samples(block))
    }
}
