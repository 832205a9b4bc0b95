//! Meaning of a machine's noise for a run.

use std::time::Duration;

/// Says what the noise of this machine means for a run, before it is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NoiseOfRun {
    /// Time since the noise was measured.
    pub age: Duration,
    /// Deviation from process to process.
    pub deviation: f64,
    /// Meaning for the run.
    pub outlook: Outlook,
}

/// Meaning of noise for a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outlook {
    /// Cases are measured in one process each, which shows no change for sure. With the number of processes from which a
    /// change of 5 % would be told.
    OneProcess(Option<usize>),
    /// The smallest change that the processes of the run show in four of five comparisons, and the number from which 5 %
    /// would be told, if that is more.
    Processes(u32, f64, Option<usize>),
    /// Processes from which pairs tell a change of as much as the interval is asked to be narrow: this change, and the
    /// number. `None` if it is more than ten thousand.
    Pairs(f64, Option<usize>),
}
