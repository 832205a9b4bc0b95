//! The run itself: one case after another.

use std::collections::HashSet;

use host_plan::PlannedCase;
use host_record::{
    CaseRecord, CaseSpec, Gap, Outcome, OutputBlock, Phase, RECORD_VERSION, Recorder, SampleBlock,
};

use crate::error::RunError;
use crate::executor::{Ended, Events, Execution, Executor};
use crate::interrupt::Interrupt;
use crate::observer::Observer;

/// Result of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunSummary {
    /// Processes of cases measured to the end.
    pub finished: u64,
    /// Cases that failed.
    pub failed: u64,
    /// Cases that were gaps, or turned out to be.
    pub gaps: u64,
    /// Whether the run was stopped before its end. The case in progress is then not recorded.
    pub interrupted: bool,
}

/// Executes the cases in turn and records each before the next one starts.
///
/// # Errors
///
/// If the recorder fails; the case in progress is then given up. A failure of a case is part of its outcome, and
/// recorded.
#[tracing::instrument(skip_all)]
pub fn run(
    items: impl IntoIterator<Item = PlannedCase>,
    executor: &mut dyn Executor,
    recorder: &mut impl Recorder,
    observer: &mut impl Observer,
    interrupt: &Interrupt,
) -> Result<RunSummary, RunError> {
    let mut summary = RunSummary::default();
    // A case ends when one of its processes does not finish.
    let mut over = HashSet::new();
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
            PlannedCase::Gap { case_id, key, gap, .. } => gap_record(case_id, key, *gap),
            PlannedCase::Case(case) => {
                let mut kept = CaseEvents { case: &case, recorder, observer };
                match executor.execute(&case, &mut kept, interrupt)? {
                    Execution::Ended(ended) => record(*case, *ended),
                    Execution::Interrupted => {
                        summary.interrupted = true;
                        break;
                    }
                }
            }
        };
        recorder.case_finished(&record).map_err(RunError::recorder)?;
        if !matches!(record.outcome, Outcome::Finished(_)) && record.processes() > 1 {
            over.insert(record.case_id.clone());
        }
        count(&mut summary, &record);
        observer.case_finished(&record);
    }
    tracing::debug!(?summary, "the run is over");
    Ok(summary)
}

/// Counts an outcome.
pub(crate) fn count(summary: &mut RunSummary, record: &CaseRecord) {
    match &record.outcome {
        Outcome::Finished(_) => summary.finished += 1,
        Outcome::Failed { failure } => {
            tracing::debug!(case = record.case_id, %failure, "the case failed");
            summary.failed += 1;
        }
        Outcome::Gap { .. } => summary.gaps += 1,
    }
}

/// Passes an executor's events of a case to the recorder and the observer.
struct CaseEvents<'a, R, O> {
    case: &'a CaseSpec,
    recorder: &'a mut R,
    observer: &'a mut O,
}

impl<R: Recorder, O: Observer> Events for CaseEvents<'_, R, O> {
    fn started(&mut self) -> Result<(), RunError> {
        self.recorder.case_started(self.case).map_err(RunError::recorder)?;
        self.observer.case_started(self.case);
        Ok(())
    }

    fn entered(&mut self, phase: Phase) {
        self.observer.phase_entered(self.case, phase);
    }

    fn samples(&mut self, block: SampleBlock) -> Result<(), RunError> {
        self.recorder.samples(&block).map_err(RunError::recorder)
    }

    fn outputs(&mut self, block: OutputBlock) -> Result<(), RunError> {
        self.recorder.outputs(&block).map_err(RunError::recorder)
    }
}

pub(crate) fn record(case: CaseSpec, ended: Ended) -> CaseRecord {
    CaseRecord {
        record_version: RECORD_VERSION,
        case_id: case.id.clone(),
        key: case.key.clone(),
        process: case.process,
        spec: Some(case),
        started_at: ended.started_at,
        elapsed_ns: ended.elapsed_ns,
        outcome: ended.outcome,
        standard_error: ended.standard_error,
        environment: Some(ended.environment),
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
