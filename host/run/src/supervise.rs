//! Watching one worker from its start to its end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use host_machine::Machine;
use host_record::protocol::{BackendDescription, BlockTime, Message, PROTOCOL_VERSION, Request};
use host_record::{
    Calibration, Doubt, Failure, ModelStructure, NoiseProbe, OutputBlock, Phase, StartedProcesses,
    WorkerReport, words,
};

use crate::Interrupt;
use crate::death::{self, Memory};
use crate::process::{End, Event, Worker};
use crate::tree::Tree;

/// Interval at which memory, time and interrupts are checked.
const TICK: Duration = Duration::from_millis(100);

/// Time for a worker to end after its last message, and for the last message of an ended worker to
/// arrive.
const GRACE: Duration = Duration::from_secs(2);

/// Time that a worker may take to cancel a call before it is killed.
const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// Limits of a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Longest allowed silence.
    pub(crate) silence: Duration,
    /// Additional silence that is allowed while the worker is warming up or measuring.
    pub(crate) measuring: Duration,
    /// Resident memory in bytes; `None` for the memory available when the worker starts.
    pub(crate) memory: Option<u64>,
}

/// Result of supervising.
#[derive(Debug)]
pub(crate) enum Conclusion {
    /// The worker described a plugin.
    Described(Box<BackendDescription>),
    /// The worker read the structure of a model.
    Inspected(Box<ModelStructure>),
    /// The worker measured the peaks of the processor.
    Calibrated(Box<Calibration>),
    /// The worker repeated the same work.
    Noise(Box<NoiseProbe>),
    /// The worker finished its case.
    Finished(Box<WorkerReport>),
    /// The worker stored the outputs of a reference.
    Kept,
    Fits,
    /// The worker failed.
    Failed(Failure),
    /// The worker was killed because of an interruption.
    Interrupted,
}

impl Conclusion {
    /// Returns the failure of a worker that ended otherwise than with what it was asked for.
    pub(crate) fn instead_of(self, expected: &str, phase: Phase) -> Failure {
        let detail = match self {
            Self::Failed(failure) => return failure,
            Self::Interrupted => "interrupted before an answer came".into(),
            Self::Described(_)
            | Self::Inspected(_)
            | Self::Calibrated(_)
            | Self::Noise(_)
            | Self::Finished(_)
            | Self::Kept
            | Self::Fits => {
                format!("expected {expected}, got another answer")
            }
        };
        Failure::Protocol { phase, detail }
    }
}

/// The program to start as a worker, its plugin's runtime, and variables of the host beyond those that every worker
/// gets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program<'a> {
    pub(crate) executable: &'a Path,
    pub(crate) runtime: Option<&'a Path>,
    pub(crate) variables: &'a [String],
}

/// Seat of a worker that is one side of a pair.
pub(crate) trait Seat: Sync {
    /// Called when the worker was started, with the other side of its standard input.
    fn started(&self, answers: UnixStream);

    /// Called when the worker waits for its turn.
    fn waits(&self, before: BlockTime, blocks: Vec<BlockTime>);

    /// Returns whether it waits, so that its silence says nothing.
    fn is_waiting(&self) -> bool;

    /// Returns whether it is to be ended, because the other side has.
    fn is_given_up(&self) -> bool;
}

/// Starts a worker with a request, passes its phases, samples and outputs on to `receive`, and
/// returns the result and its last standard error.
///
/// # Errors
///
/// Only errors of `receive`; the worker is then ended.
pub(crate) fn supervise<E>(
    program: Program<'_>,
    request: &Request,
    limits: Limits,
    interrupt: &Interrupt,
    seat: Option<&dyn Seat>,
    mut receive: impl FnMut(Message) -> Result<(), E>,
) -> Result<(Conclusion, String), E> {
    let mut watch = Watch::new(limits);
    let worker = match start(program, request) {
        Ok(worker) => worker,
        Err(detail) => {
            let failure = Failure::NotStarted { detail };
            return Ok((Conclusion::Failed(failure), String::new()));
        }
    };
    watch.tree = Tree::new(worker.id());
    if let (Some(seat), Ok(answers)) = (seat, worker.answers()) {
        seat.started(answers);
    }
    let mut ended = None;
    let decided = loop {
        match worker.next_event(watch.patience()) {
            Some(Event::Frame(message)) => {
                ended = None;
                match watch.take(message) {
                    Step::Pass(Message::Waiting { before, blocks }) => match seat {
                        Some(seat) => seat.waits(before, blocks),
                        None => break Some(Conclusion::Failed(watch.no_turns())),
                    },
                    Step::Pass(message) => receive(message)?,
                    Step::Alive => {}
                    Step::Conclude(conclusion) => {
                        // A backend's static destructors can hang or crash at exit. The measurement is complete, so
                        // the worker only gets time to end.
                        worker.wait_for_end(GRACE);
                        break Some(conclusion);
                    }
                }
                // The receiver may have taken long; this does not count as silence of the worker.
                watch.heard = Instant::now();
            }
            Some(Event::Broken(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                break watch.closed(&worker, "the pipe was closed in the middle of a frame");
            }
            Some(Event::Broken(error)) => {
                let detail = format!("expected a frame: {error}");
                break Some(Conclusion::Failed(Failure::Protocol { phase: watch.phase, detail }));
            }
            Some(Event::Closed) => {
                break watch.closed(&worker, "the pipe was closed before the end of the case");
            }
            // Its last output may still be in the pipe. If another process holds the pipe, it is never closed, so the
            // wait is limited.
            None if worker.is_decoding() => {}
            None if worker.has_ended()
                && ended.get_or_insert_with(Instant::now).elapsed() >= GRACE =>
            {
                break None;
            }
            None => {}
        }
        if interrupt.is_interrupted() || seat.is_some_and(Seat::is_given_up) {
            break Some(Conclusion::Interrupted);
        }
        if seat.is_some_and(Seat::is_waiting) {
            watch.heard = Instant::now();
        }
        if let Some(failure) = watch.look() {
            break Some(Conclusion::Failed(failure));
        }
    };

    if watch.cancellable
        && let Some(Conclusion::Interrupted | Conclusion::Failed(Failure::TimedOut { .. })) =
            &decided
    {
        tracing::debug!(phase = %watch.phase, "asking the backend to end what is under way");
        worker.cancel(CANCEL_GRACE);
    }
    let phase = watch.phase;
    let End { status, mut standard_error, remains } = match worker.end() {
        Ok(end) => end,
        Err(error) => {
            let detail = format!("its end could not be waited for: {error}");
            let failure = Failure::Protocol { phase, detail };
            return Ok((Conclusion::Failed(failure), String::new()));
        }
    };
    let mut conclusion = decided.unwrap_or_else(|| {
        watch.memory.kills = watch.kills_before.zip(watch.machine.out_of_memory_kills());
        let failure = death::explain(status, phase, watch.memory, &standard_error);
        // A Ctrl-C that reached the worker in another way is not a failure of the worker.
        if interrupt.is_interrupted() {
            Conclusion::Interrupted
        } else {
            Conclusion::Failed(failure)
        }
    });
    let started = watch.tree.started(remains);
    if let Some(StartedProcesses { left, running, .. }) = started.filter(|started| started.left > 0)
    {
        let left = Doubt::ProcessesLeft { processes: left, running };
        match &mut conclusion {
            Conclusion::Finished(report) => report.warnings.push(left.into()),
            Conclusion::Failed(_) => {
                let apart = if standard_error.is_empty() { "" } else { "\n" };
                standard_error.truncate(standard_error.trim_end().len());
                let _ = writeln!(standard_error, "{apart}{left}");
            }
            Conclusion::Described(_)
            | Conclusion::Inspected(_)
            | Conclusion::Calibrated(_)
            | Conclusion::Noise(_)
            | Conclusion::Kept
            | Conclusion::Fits
            | Conclusion::Interrupted => {
                let plugin = request.library().unwrap_or(Path::new("")).display();
                tracing::warn!(%plugin, "{left}");
            }
        }
    }
    if let Conclusion::Finished(report) = &mut conclusion {
        report.conditions.memory.get_or_insert_default().started = started;
    }
    Ok((conclusion, standard_error))
}

fn start(program: Program<'_>, request: &Request) -> Result<Worker, String> {
    let Program { executable, runtime, variables } = program;
    let mut line = serde_json::to_vec(request).map_err(|error| error.to_string())?;
    line.push(b'\n');
    Worker::start(executable, runtime, variables, line)
        .map_err(|error| format!("{}: {error}", executable.display()))
}

/// Reaction to a frame.
enum Step {
    /// Pass it on.
    Pass(Message),
    /// Do nothing; the worker is alive.
    Alive,
    /// End with this conclusion.
    Conclude(Conclusion),
}

/// State of a worker so far.
struct Watch {
    limits: Limits,
    machine: Machine,
    tree: Tree,
    phase: Phase,
    greeted: bool,
    /// Whether the call in progress can be cancelled.
    cancellable: bool,
    heard: Instant,
    looked: Instant,
    memory: Memory,
    kills_before: Option<u64>,
    outputs: Outputs,
    /// Resident memory while measuring: its sum in bytes, and the number of samples.
    average: (u128, u64),
    /// The highest sample, including earlier ones in which the worker was not alone.
    highest: Option<u64>,
}

/// The outputs so far. They must come in order and with one width, to fit into a table.
#[derive(Default)]
struct Outputs(BTreeMap<String, (u64, u64)>);

impl Outputs {
    fn check(&mut self, block: &OutputBlock) -> Result<(), String> {
        let OutputBlock { name, first_example, width, values } = block;
        let (known_width, next) = self.0.entry(name.clone()).or_insert((*width, 0));
        if (width, first_example) != (&*known_width, &*next) {
            return Err(format!(
                "output `{name}`: example {next} with {known_width} values was expected, got \
                 example {first_example} with {width}"
            ));
        }
        *next += values.len() as u64 / (*width).max(1);
        Ok(())
    }
}

impl Watch {
    fn new(limits: Limits) -> Self {
        let now = Instant::now();
        let machine = Machine::this();
        let limit = limits.memory.or_else(|| machine.available_memory());
        Self {
            limits,
            kills_before: machine.out_of_memory_kills(),
            machine,
            tree: Tree::default(),
            phase: Phase::Start,
            greeted: false,
            cancellable: false,
            heard: now,
            looked: now,
            memory: Memory { limit, ..Memory::default() },
            outputs: Outputs::default(),
            average: (0, 0),
            highest: None,
        }
    }

    /// Returns the longest allowed silence in this phase.
    fn silence(&self) -> Duration {
        match self.phase {
            Phase::WarmUp | Phase::Search | Phase::Measure => {
                self.limits.silence.saturating_add(self.limits.measuring)
            }
            _ => self.limits.silence,
        }
    }

    /// Returns how long to wait for the next event.
    fn patience(&self) -> Duration {
        self.silence().saturating_sub(self.heard.elapsed()).min(TICK)
    }

    fn take(&mut self, message: Message) -> Step {
        let phase = self.phase;
        let fail = |failure| Step::Conclude(Conclusion::Failed(failure));
        match message {
            Message::Hello { protocol_version: PROTOCOL_VERSION, process } if !self.greeted => {
                self.greeted = true;
                self.tree.name_worker(process);
                Step::Alive
            }
            Message::Hello { protocol_version, .. } if !self.greeted => {
                fail(Failure::RefusedVersion {
                    detail: format!(
                        "the worker speaks protocol {protocol_version}, this host speaks \
                         {PROTOCOL_VERSION}; they are installed together, so reinstall both"
                    ),
                })
            }
            message if !self.greeted => fail(Failure::Protocol {
                phase,
                detail: format!("expected a greeting, got {}", kind(&message)),
            }),
            Message::Hello { .. } => {
                fail(Failure::Protocol { phase, detail: "a second greeting".into() })
            }
            Message::Entered(phase) => {
                self.phase = phase;
                Step::Pass(message)
            }
            Message::Progress => Step::Alive,
            Message::Working { part, doing } => {
                tracing::info!(%phase, part, doing, "working");
                Step::Alive
            }
            Message::Cancellable => {
                self.cancellable = true;
                Step::Alive
            }
            Message::Samples(_) | Message::Waiting { .. } => Step::Pass(message),
            Message::Outputs(block) => match self.outputs.check(&block) {
                Ok(()) => Step::Pass(Message::Outputs(block)),
                Err(detail) => fail(Failure::Protocol { phase, detail }),
            },
            Message::Described(description) => Step::Conclude(Conclusion::Described(description)),
            Message::Inspected(structure) => Step::Conclude(Conclusion::Inspected(structure)),
            Message::Calibrated(peaks) => Step::Conclude(Conclusion::Calibrated(peaks)),
            Message::Noise(probe) => Step::Conclude(Conclusion::Noise(probe)),
            Message::Finished(mut report) => {
                let memory = report.conditions.memory.get_or_insert_default();
                let (sum, count) = self.average;
                memory.average_of = count;
                memory.average_bytes =
                    sum.checked_div(count.into()).and_then(|mean| u64::try_from(mean).ok());
                // The kernel counts pages in batches, so its peak can be slightly below a sample.
                if report.peak_memory_bytes.is_some() {
                    report.peak_memory_bytes = report.peak_memory_bytes.max(self.highest);
                }
                match self.peak_beyond_limit(report.peak_memory_bytes) {
                    Some(failure) => Step::Conclude(Conclusion::Failed(failure)),
                    None => Step::Conclude(Conclusion::Finished(report)),
                }
            }
            Message::Kept => Step::Conclude(Conclusion::Kept),
            Message::Fits => Step::Conclude(Conclusion::Fits),
            Message::Failed(failure) => fail(failure),
        }
    }

    /// Returns the failure of a worker that waits for a turn, although its case is not a side of a pair.
    fn no_turns(&self) -> Failure {
        let detail = "it waits for its turn, and is not one side of a pair".into();
        Failure::Protocol { phase: self.phase, detail }
    }

    /// Handles a worker that closed its pipe without a last message. Its exit status gives the reason, if it arrives.
    fn closed(&self, worker: &Worker, detail: &str) -> Option<Conclusion> {
        if worker.wait_for_end(GRACE) {
            return None;
        }
        let failure = Failure::Protocol { phase: self.phase, detail: detail.into() };
        Some(Conclusion::Failed(failure))
    }

    /// Returns the failure of a worker whose peak, which the kernel counts, is more than the limit set for it. A case can
    /// be shorter than the time between two looks.
    fn peak_beyond_limit(&self, peak: Option<u64>) -> Option<Failure> {
        let (limit, peak) = (self.limits.memory?, peak?);
        (peak > limit).then(|| Failure::OutOfMemory {
            phase: self.phase,
            limit_bytes: Some(limit),
            peak_bytes: Some(peak),
            detail: format!(
                "the worker used up to {peak} bytes, which is more than the limit set for it, {limit} bytes"
            ),
        })
    }

    /// Checks time and memory.
    fn look(&mut self) -> Option<Failure> {
        let limit = self.silence();
        if self.heard.elapsed() >= limit {
            let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
            return Some(Failure::TimedOut { phase: self.phase, limit_ns });
        }
        if self.looked.elapsed() < TICK {
            return None;
        }
        self.looked = Instant::now();
        let memory = self.tree.memory(&self.machine)?;
        let resident = memory.resident;
        // A limit that is set is one on the memory that results show as the peak. The machine's own limit is not reached
        // by pages of files, which the kernel drops first.
        let used = if self.limits.memory.is_some() { resident } else { memory.kept };
        if self.phase == Phase::Measure {
            self.average.0 += u128::from(resident);
            self.average.1 += 1;
        }
        // The comparison of outputs is the harness's own work.
        let is_of_case = self.phase < Phase::Measure && self.phase != Phase::Check;
        if self.phase == Phase::Measure || (is_of_case && memory.others > 0) {
            self.highest = self.highest.max(Some(resident));
        }
        self.memory.peak = self.memory.peak.max(Some(used));
        let limit = self.memory.limit.filter(|limit| used > *limit)?;
        let whose = match self.limits.memory {
            Some(_) => "the limit set for it",
            None => "what the machine had available when it started",
        };
        Some(Failure::OutOfMemory {
            phase: self.phase,
            limit_bytes: Some(limit),
            peak_bytes: self.memory.peak,
            detail: format!(
                "the worker{} was ended with {used} bytes in use, which is more than {whose}, \
                 {limit} bytes",
                match memory.others {
                    0 => String::new(),
                    others => format!(
                        " with {} that it had started",
                        words::count(others, "process", "processes")
                    ),
                }
            ),
        })
    }
}

fn kind(message: &Message) -> &'static str {
    match message {
        Message::Hello { .. } => "a greeting",
        Message::Entered(_) => "a phase",
        Message::Progress | Message::Working { .. } => "a sign of progress",
        Message::Cancellable => "word that it can be asked to end",
        Message::Waiting { .. } => "word that it waits for its turn",
        Message::Described(_) => "a description",
        Message::Inspected(_) => "the structure of a model",
        Message::Calibrated(_) => "peaks of the processor",
        Message::Noise(_) => "times of the same work",
        Message::Samples(_) => "samples",
        Message::Outputs(_) => "outputs",
        Message::Finished(_) => "a report",
        Message::Kept => "word that outputs are kept",
        Message::Fits => "word that inputs fit",
        Message::Failed(_) => "a failure",
    }
}
