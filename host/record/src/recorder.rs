//! Storage for the results of a run.

use crate::case::CaseSpec;
use crate::outcome::CaseRecord;
use crate::sample::{OutputBlock, SampleBlock};

/// Keeps what a run learns, case by case. The run folder is the real one; tests keep it in memory.
pub trait Recorder {
    /// Error of the storage.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Records that a case starts. Files of an unfinished earlier attempt at the same case are
    /// dropped.
    ///
    /// # Errors
    ///
    /// If the storage fails.
    fn case_started(&mut self, case: &CaseSpec) -> Result<(), Self::Error>;

    /// Records samples of the case in progress, in order.
    ///
    /// # Errors
    ///
    /// If the storage fails.
    fn samples(&mut self, block: &SampleBlock) -> Result<(), Self::Error>;

    /// Records outputs of the case in progress, in order.
    ///
    /// # Errors
    ///
    /// If the storage fails.
    fn outputs(&mut self, block: &OutputBlock) -> Result<(), Self::Error>;

    /// Records that a case ended, or was a gap and never started. On return it is on stable
    /// storage.
    ///
    /// # Errors
    ///
    /// If the storage fails.
    fn case_finished(&mut self, record: &CaseRecord) -> Result<(), Self::Error>;
}
