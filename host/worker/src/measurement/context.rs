//! Surroundings that every step of a measurement needs.

use std::time::Duration;

use host_measure::{Clock, SystemClock};
use host_record::protocol::CaseFiles;
use host_record::{Calibration, CaseSpec, Failure, Gap, Phase};

use crate::connection::Connection;
use crate::failure::{Stop, went_back};

/// The case with its files, its clock, and the connection to the host.
pub(super) struct Context<'a> {
    pub(super) connection: &'a mut Connection,
    pub(super) case: &'a CaseSpec,
    pub(super) files: &'a CaseFiles,
    pub(super) clock: &'a SystemClock,
    /// Peaks of the processor, if it was calibrated.
    pub(super) calibration: Option<&'a Result<Calibration, Gap>>,
    /// The host hears of long work at least this often.
    pub(super) interval: Duration,
}

impl Context<'_> {
    /// Enters a phase and times the work that is done once in it, in nanoseconds.
    pub(super) fn timed<T>(
        &mut self,
        phase: Phase,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<(T, u64), Stop> {
        self.connection.enter(phase)?;
        let start = self.clock.now();
        let result = work()?;
        let end = self.clock.now();
        let elapsed = end.checked_sub(start).ok_or_else(|| went_back(start, end))?;
        Ok((result, elapsed))
    }
}
