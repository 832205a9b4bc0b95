//! Noise of a machine: how far the same work takes a different time.

use serde::{Deserialize, Serialize};

/// The times that one worker process needed for the same work, again and again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct NoiseProbe {
    /// Threads that worked.
    pub threads: u32,
    /// Seconds of each round of arithmetic on all threads; empty if there is no such loop for this processor.
    pub compute_seconds: Vec<f64>,
    /// Seconds of each round of reading memory on all threads; empty if there is too little memory.
    pub memory_seconds: Vec<f64>,
    /// Part of the time for which a thread that only reads the clock did not run, 0 to 1.
    pub waiting_share: f64,
    /// The longest time in nanoseconds for which it did not run.
    pub longest_wait_ns: u64,
    /// Smallest step of the clock in nanoseconds.
    pub clock_step_ns: u64,
    /// Mean cost of a reading of the clock in nanoseconds.
    pub clock_read_ns: f64,
}
