//! Observers of a run.

use host_record::{CaseRecord, CaseSpec, Phase};

/// Receives events, to show progress.
///
/// The calls come on the thread of the run, between the calls to the recorder. An observer must
/// return quickly and keep quiet while `phase` is [`Phase::WarmUp`] or [`Phase::Measure`], because
/// the worker is then measuring on the same machine.
pub trait Observer {
    /// Called when a case starts.
    fn case_started(&mut self, case: &CaseSpec) {
        let _ = case;
    }

    /// Called when the worker enters a phase.
    fn phase_entered(&mut self, case: &CaseSpec, phase: Phase) {
        let _ = (case, phase);
    }

    /// Called when a case has ended and is recorded, or was a gap.
    fn case_finished(&mut self, record: &CaseRecord) {
        let _ = record;
    }
}

/// Ignores all events.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {}
