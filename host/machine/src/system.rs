//! Queries to an operating system.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::io;

use host_record::{Container, ControlGroup, Limit, Processor};

/// Queries about the machine and its processes.
///
/// Each answer is `None`, or empty, if the system does not offer it. This is also each method's default.
pub trait System: Debug + Send + Sync {
    /// Returns the processor's facts.
    fn processor(&self) -> Processor {
        Processor { architecture: std::env::consts::ARCH.into(), ..Processor::default() }
    }

    /// Returns the number of processors that the scheduler uses.
    fn processor_count(&self) -> Option<u32> {
        None
    }

    /// Returns the processors that this process may use.
    fn allowed_processors(&self) -> Option<Vec<u32>> {
        None
    }

    /// Returns the place of each of these processors; `None` if one is unknown.
    fn places(&self, _processors: &[u32]) -> Option<Vec<Place>> {
        None
    }

    /// Returns the size of all last-level caches together, in bytes.
    fn cache_bytes(&self) -> Option<u64> {
        None
    }

    /// Returns the different frequency governors in use.
    fn governors(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }

    /// Returns the state of frequencies above the nominal one.
    fn turbo(&self) -> Option<Turbo> {
        None
    }

    /// Returns whether two hardware threads share a core.
    fn multithreading(&self) -> Option<bool> {
        None
    }

    /// Returns the number of times that heat has slowed these processors' cores and packages since the
    /// machine started.
    fn thermal_throttles(&self, _processors: &[u32]) -> Option<u64> {
        None
    }

    /// Returns the current thermal pressure.
    fn thermal_pressure(&self) -> Option<ThermalPressure> {
        None
    }

    /// Returns the highest current frequency in hertz among these processors.
    fn highest_frequency(&self, _processors: &[u32]) -> Option<u64> {
        None
    }

    /// Returns whether an x86 processor's time-stamp counter has a constant rate and never stops.
    fn invariant_counter(&self) -> Option<bool> {
        None
    }

    /// Returns the memory and swap of the machine.
    fn memory(&self) -> Option<Memory> {
        None
    }

    /// Returns the memory in bytes that a process could get now, within the limits of this control group.
    fn available_memory(&self) -> Option<u64> {
        Some(self.memory()?.available)
    }

    /// Returns the processors of each memory node.
    fn memory_nodes(&self) -> BTreeMap<u32, Vec<u32>> {
        BTreeMap::new()
    }

    /// Returns whether the kernel moves pages between memory nodes by itself.
    fn balances_memory_nodes(&self) -> Option<bool> {
        None
    }

    /// Returns the memory nodes that this process's memory may come from, as the kernel lists them.
    fn allowed_memory_nodes(&self) -> Option<String> {
        None
    }

    /// Returns the tightest limits of each kind among this control group and its parents.
    fn control_group(&self) -> ControlGroup {
        ControlGroup::default()
    }

    /// Returns the quota of this process's control groups, in processors.
    fn processor_quota(&self) -> Option<Limit> {
        None
    }

    /// Returns the number and total time of stops by the quotas of this control group and its parents.
    fn quota_throttling(&self) -> Option<QuotaThrottling> {
        None
    }

    /// Returns the number of processes that the kernel has killed for lack of memory: in this control group
    /// if it counts them, otherwise on the whole machine.
    fn out_of_memory_kills(&self) -> Option<u64> {
        None
    }

    /// Returns the container around this process; `Some(None)` if there is none.
    fn container(&self) -> Option<Container> {
        None
    }

    /// Returns the operating system's name and version.
    fn operating_system(&self) -> Option<String> {
        None
    }

    /// Returns the kernel's name and release.
    fn kernel(&self) -> Option<String> {
        None
    }

    /// Returns the average number of running and waiting processes over one minute.
    fn load_average(&self) -> Option<f64> {
        None
    }

    /// Returns the share of the last ten seconds, in percent, in which something waited for `resource` (`cpu`,
    /// `memory`, `io`).
    fn pressure(&self, _resource: &str) -> Option<f64> {
        None
    }

    /// Returns the hypervisor's name; `Some(None)` if the system reports none.
    fn virtualisation(&self) -> Option<Option<String>> {
        None
    }

    /// Returns the kernel's clock source.
    fn clock_source(&self) -> Option<String> {
        None
    }

    /// Returns the kernel's available clock sources.
    fn clock_sources(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the machine's power source.
    fn power(&self) -> Option<Power> {
        None
    }

    /// Finds the counters of the processor's energy.
    ///
    /// # Errors
    ///
    /// If there are none, or a file about one cannot be read.
    fn energy_counters(&self) -> Result<Vec<EnergyCounter>, NoEnergy> {
        Err(NoEnergy::NotOffered)
    }

    /// Reads a counter, in microjoules since some moment.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or does not hold a count.
    fn energy(&self, _counter: &EnergyCounter) -> Result<u64, NoEnergy> {
        Err(NoEnergy::NotOffered)
    }

    /// Reads the value, in microjoules, after which a counter starts again at zero.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not a number.
    fn energy_range(&self, _counter: &EnergyCounter) -> Result<u64, NoEnergy> {
        Err(NoEnergy::NotOffered)
    }

    /// Returns the lowest nice value that this process may set.
    fn least_nice(&self) -> Option<i32> {
        None
    }

    /// Returns the activity of this process, the processes of the host and the machine until now.
    fn activity(&self, _host: &[u32]) -> Activity {
        Activity { own_ns: crate::process::usage().processor_ns, ..Activity::default() }
    }

    /// Returns the activity of these processors until now; `None` if one of them is not counted.
    fn activity_of(&self, _processors: &[u32]) -> Option<ProcessorActivity> {
        None
    }

    /// Returns the share of processor time since the machine started that a hypervisor gave to others, from 0 to 1.
    fn stolen_share(&self) -> Option<f64> {
        None
    }

    /// Returns the memory of a process.
    fn memory_of(&self, _process: u32) -> Option<ProcessMemory> {
        None
    }

    /// Returns the resident memory of this process in bytes.
    fn resident_memory(&self) -> Option<u64> {
        None
    }

    /// Returns the peak resident memory of this process in bytes.
    fn peak_memory(&self) -> Option<u64> {
        None
    }

    /// Makes the peak resident memory of this process what is resident now. Returns whether it could.
    fn forget_peak_memory(&self) -> bool {
        false
    }

    /// Returns the resident memory of this process in bytes, with shared pages divided among the sharing processes.
    /// The kernel walks the page tables for it, so it must not be called in the timed part.
    fn proportional_memory(&self) -> Option<u64> {
        None
    }
}

/// A processor and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its number.
    pub number: u32,
    /// Its memory node.
    pub node: u32,
    /// Its package and core; two processors of one core share it.
    pub core: (u64, u64),
}

/// State of frequencies above the nominal one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turbo {
    /// Whether they are allowed.
    pub on: bool,
    /// The file that turns them off.
    pub file: &'static str,
    /// Value that disables them.
    pub off: u8,
}

/// Degrees to which a system slows down because of heat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThermalPressure {
    /// The machine is not slowed down.
    Nominal,
    /// Fans run, and background work slows down.
    Moderate,
    /// Processors run slower.
    Heavy,
    /// The machine is about to protect itself.
    Trapping,
    /// The machine goes to sleep.
    Sleeping,
}

/// Memory of a machine in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// All of it.
    pub total: u64,
    /// Memory that processes could get without swapping.
    pub available: u64,
    /// Swap space.
    pub swap_total: u64,
    /// Swap space that is not in use.
    pub swap_free: u64,
}

/// Memory of a process in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Resident memory.
    pub resident: u64,
    /// The part of it that the kernel cannot drop and read again from files.
    pub kept: u64,
}

/// Throttling by the quotas of control groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuotaThrottling {
    /// Number of times that a quota stopped the processes of its group.
    pub times: u64,
    /// Total time of these stops, in nanoseconds.
    pub ns: u64,
}

/// Power source of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// Mains; the machine has no battery.
    NoBattery,
    /// Mains, with a battery.
    Mains,
    /// A battery.
    Battery,
}

/// A counter of the processor's energy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnergyCounter {
    /// Domain that it counts, such as `package-0` or, for a part of that, `package-0/dram`.
    pub domain: String,
    /// The system's folder for it.
    pub(crate) zone: String,
}

/// Reason why there is no energy figure.
#[derive(Debug)]
pub enum NoEnergy {
    /// Programs on this operating system cannot read counters of energy.
    NotOffered,
    /// The system has no counters in this folder.
    NoCounters {
        /// The folder.
        folder: String,
    },
    /// A file could not be read.
    Unreadable {
        /// The file.
        file: String,
        /// The reason.
        error: io::Error,
    },
    /// A file does not hold a count.
    NotACount {
        /// The file.
        file: String,
        /// Its text.
        text: String,
    },
}

/// Activity of this process, the host and the machine until a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Activity {
    /// Processor time of this process in nanoseconds.
    pub own_ns: u64,
    /// Processor time in nanoseconds of the host's processes, which receive the measurements meanwhile. `None` if one
    /// of them does not run.
    pub host_ns: Option<u64>,
    /// The machine.
    pub machine: Option<MachineActivity>,
}

/// Total activity of all processors until a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MachineActivity {
    /// Number of processors.
    pub processors: u32,
    /// Time in nanoseconds spent in processes and in the kernel.
    pub busy_ns: u64,
    /// Time in nanoseconds that a hypervisor gave to others, if the system counts it.
    pub stolen_ns: Option<u64>,
}

/// Total activity of some processors until a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessorActivity {
    /// Time in nanoseconds spent in processes and in the kernel.
    pub busy_ns: u64,
    /// All of their time in nanoseconds.
    pub total_ns: u64,
}
