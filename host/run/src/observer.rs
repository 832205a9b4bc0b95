//! Who watches a run.

use host_record::{CaseRecord, CaseSpec, Phase};

/// Is told what happens, for showing progress.
///
/// The calls come on the thread of the run, between the calls to the recorder. An observer must
/// return quickly and keep quiet while `phase` is [`Phase::WarmUp`] or [`Phase::Measure`], since
/// the worker is then measuring on the same machine.
pub trait Observer {
    /// A case starts.
    fn case_started(&mut self, case: &CaseSpec) {
        let _ = case;
    }

    /// The worker has entered a phase.
    fn phase_entered(&mut self, case: &CaseSpec, phase: Phase) {
        let _ = (case, phase);
    }

    /// A case has ended and is recorded; or it was a gap, and never started.
    fn case_finished(&mut self, record: &CaseRecord) {
        let _ = record;
    }
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {}
