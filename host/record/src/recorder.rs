//! Where a run puts what it learns.

use crate::case::CaseSpec;
use crate::outcome::CaseRecord;
use crate::sample::{OutputBlock, SampleBlock};

/// Keeps what a run learns, case by case. The run folder is the real one; tests keep it in memory.
pub trait Recorder {
    /// What can go wrong in keeping.
    type Error: std::error::Error + Send + Sync + 'static;

    /// A case starts. What an unfinished earlier try at the same case left behind is dropped.
    ///
    /// # Errors
    ///
    /// Where the storage fails.
    fn case_started(&mut self, case: &CaseSpec) -> Result<(), Self::Error>;

    /// Samples of the case in progress, in order.
    ///
    /// # Errors
    ///
    /// Where the storage fails.
    fn samples(&mut self, block: &SampleBlock) -> Result<(), Self::Error>;

    /// Outputs of the case in progress, in order.
    ///
    /// # Errors
    ///
    /// Where the storage fails.
    fn outputs(&mut self, block: &OutputBlock) -> Result<(), Self::Error>;

    /// A case ended, or was a gap and never started. On return it is on stable storage.
    ///
    /// # Errors
    ///
    /// Where the storage fails.
    fn case_finished(&mut self, record: &CaseRecord) -> Result<(), Self::Error>;
}
