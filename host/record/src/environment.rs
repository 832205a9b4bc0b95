//! The machine that measured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::allocation::Allocation;

/// The processor of the machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
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
    /// Sockets.
    pub sockets: Option<u32>,
    /// Processors that share a core.
    pub threads_per_core: Option<u32>,
    /// Times that heat has slowed a processor since the machine started.
    pub thermal_throttles: Option<u64>,
    /// Whether the time-stamp counter keeps its rate and never stops: the flags `constant_tsc` and
    /// `nonstop_tsc`. `None` for a processor without such a counter.
    pub invariant_counter: Option<bool>,
}

/// A limit that may not be there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Limit {
    /// This much.
    At(f64),
    /// No limit.
    No(NoLimit),
}

impl Limit {
    /// No limit.
    pub const NONE: Self = Self::No(NoLimit::None);

    /// Returns how much, if there is a limit.
    #[must_use]
    pub fn at(self) -> Option<f64> {
        match self {
            Self::At(limit) => Some(limit),
            Self::No(_) => None,
        }
    }
}

/// The word for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoLimit {
    /// No limit.
    #[serde(rename = "none")]
    None,
}

/// The tightest limits of the control groups around a process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct ControlGroup {
    /// Processors' worth of time.
    pub processor_quota: Option<Limit>,
    /// Memory in bytes.
    pub memory_bytes: Option<Limit>,
    /// Processors, as the kernel lists them: `0-3,8`.
    pub processors: Option<String>,
    /// Memory nodes, as the kernel lists them.
    pub memory_nodes: Option<String>,
}

/// Separation of processes from the rest of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Container {
    /// `docker`, `podman`, `lxc`, another one's own name, or `none`.
    pub kind: String,
    /// The file with this fact.
    pub told_by: String,
}

/// Facts about the machine; `None` if it does not report one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Environment {
    /// The machine's name, which says whose facts these are.
    pub machine: String,
    /// Names of the environment variables that the worker had, without their values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
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
    /// The hypervisor, if there is one and it is known.
    pub virtualisation: Option<String>,
    /// Commit of the user's git repository, with `-dirty` if it has changes.
    pub git_commit: Option<String>,
    /// Whether that repository's tracked files have changes.
    pub git_dirty: Option<bool>,
    /// The C library and its version, such as `glibc 2.36`.
    pub c_library: Option<String>,
    /// The container, or the fact that there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    /// Limits of the control groups.
    pub control_group: ControlGroup,
    /// Processors of each memory node, as the kernel lists them: `node0` → `0-15`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub memory_nodes: BTreeMap<String, String>,
    /// The kernel's clock source: `tsc`, `kvm-clock`, `arch_sys_counter`, `hpet`.
    pub clock_source: Option<String>,
    /// The node, job and task of a cluster; absent on the machine that the host was started on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation: Option<Box<Allocation>>,
}

/// The clock, and what the harness itself costs, measured in the worker that used them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct ClockFacts {
    /// Name of the clock, such as `CLOCK_MONOTONIC`.
    pub source: String,
    /// Smallest step seen between two different readings, in nanoseconds.
    pub resolution_ns: u64,
    /// Median cost of one reading, in nanoseconds.
    pub read_ns: f64,
    /// Median cost of one iteration of the measuring loop with an empty target, in nanoseconds.
    pub loop_ns: f64,
    /// Number of consecutive readings that were compared, none of which went back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checked_readings: Option<u64>,
    /// The kernel's clock source: `tsc`, `kvm-clock`, `arch_sys_counter`, `hpet`. The
    /// first three are read without entering the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_source: Option<String>,
    /// Whether the processor's time-stamp counter keeps its rate and never stops. `None` if it
    /// has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invariant_counter: Option<bool>,
}
