//! Execution of a case, on this machine or by a caller's executor.

use host_record::{CaseSpec, Environment, Outcome, OutputBlock, Phase, SampleBlock};

use crate::error::RunError;
use crate::interrupt::Interrupt;
use crate::rounds::PairRounds;

/// Executes cases, one process of a case at a time.
///
/// An executor gets only a [`CaseSpec`]. It names files and plugins by their content and holds no path, so it is
/// valid on every machine; a [`Resolver`](crate::Resolver) on the executing machine finds them there.
pub trait Executor {
    /// Returns the name of the machine that cases are executed on.
    fn machine(&self) -> String;

    /// Executes one process of a case, and reports its progress to `events`. A failure of the case is part of its
    /// outcome.
    ///
    /// # Errors
    ///
    /// Only errors of `events`; the case is then given up.
    fn execute(
        &mut self,
        case: &CaseSpec,
        events: &mut dyn Events,
        interrupt: &Interrupt,
    ) -> Result<Execution, RunError>;

    /// Executes one process of each of two cases, in turns. Everything that they send is held until both have ended.
    fn execute_pair(&mut self, cases: [&CaseSpec; 2], interrupt: &Interrupt) -> PairExecution;
}

/// End of the execution of a pair.
#[derive(Debug)]
pub enum PairExecution {
    /// A stop was requested.
    Interrupted,
    /// Both sides have ended. If both finished, with what their rounds say.
    Ended(Box<[EndedSide; 2]>, Option<PairRounds>),
}

/// The end of one side of a pair.
#[derive(Debug)]
pub struct EndedSide {
    /// How it ended.
    pub ended: Ended,
    /// Its samples.
    pub samples: Vec<SampleBlock>,
    /// Its outputs.
    pub outputs: Vec<OutputBlock>,
}

/// Events of an executor while it executes a case.
pub trait Events {
    /// Called when the case starts.
    ///
    /// # Errors
    ///
    /// If this cannot be recorded.
    fn started(&mut self) -> Result<(), RunError>;

    /// Called when the case enters a phase.
    fn entered(&mut self, phase: Phase);

    /// Called with samples, after their timing.
    ///
    /// # Errors
    ///
    /// If they cannot be kept.
    fn samples(&mut self, block: SampleBlock) -> Result<(), RunError>;

    /// Called with outputs.
    ///
    /// # Errors
    ///
    /// If they cannot be kept.
    fn outputs(&mut self, block: OutputBlock) -> Result<(), RunError>;
}

/// End of a case's execution.
#[derive(Debug)]
pub enum Execution {
    /// A stop was requested.
    Interrupted,
    /// The case has an outcome.
    Ended(Box<Ended>),
}

/// The end of a case's execution.
#[derive(Debug)]
pub struct Ended {
    /// Start in RFC 3339.
    pub started_at: String,
    /// Duration in nanoseconds.
    pub elapsed_ns: u64,
    /// Its outcome.
    pub outcome: Outcome,
    /// The end of the worker's standard error.
    pub standard_error: String,
    /// The machine that it was executed on, with its name.
    pub environment: Environment,
}
