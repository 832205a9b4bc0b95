//! The machine that measured.

use serde::{Deserialize, Serialize};

/// The processor of the machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Processor {
    /// The name that the vendor gives it.
    pub name: Option<String>,
    /// `x86_64` or `aarch64`.
    pub architecture: String,
    /// Processors that the scheduler sees.
    pub logical: Option<u32>,
    /// Cores.
    pub physical: Option<u32>,
    /// Frequency governor, such as `performance`.
    pub governor: Option<String>,
    /// Current frequency in hertz of the first processor.
    pub frequency_hertz: Option<u64>,
    /// Whether frequencies above the nominal one are allowed.
    pub turbo: Option<bool>,
    /// Whether simultaneous multithreading is on.
    pub simultaneous_multithreading: Option<bool>,
}

/// What is known of the machine; `None` wherever it does not say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Environment {
    /// The processor.
    pub processor: Processor,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Memory available in bytes.
    pub memory_available_bytes: Option<u64>,
    /// Operating system, such as `Debian GNU/Linux 12 (bookworm)`.
    pub operating_system: Option<String>,
    /// Kernel name and release.
    pub kernel: Option<String>,
    /// Load average over one minute.
    pub load_average: Option<f64>,
    /// The hypervisor, where there is one and it can be told.
    pub virtualisation: Option<String>,
    /// Commit of the user's git repository, with `-dirty` where it has changes.
    pub git_commit: Option<String>,
}

/// The clock, and what the harness itself costs, measured in the worker that used them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ClockFacts {
    /// Name of the clock, such as `CLOCK_MONOTONIC`.
    pub source: String,
    /// Smallest step seen between two different readings, in nanoseconds.
    pub resolution_ns: u64,
    /// Median cost of one reading, in nanoseconds.
    pub read_ns: f64,
    /// Median cost of one iteration of the measuring loop with an empty target, in nanoseconds.
    pub loop_ns: f64,
}
