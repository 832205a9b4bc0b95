//! A Mac, as a [`System`].

use host_record::Processor;

use super::calls::{self, Kernel, Ticks};
use super::names;
use crate::process;
use crate::system::{
    Activity, MachineActivity, Memory, ProcessMemory, ProcessorActivity, System, ThermalPressure,
};

/// The Mac that this process runs on.
#[derive(Debug)]
pub(crate) struct Mac;

impl System for Mac {
    fn processor(&self) -> Processor {
        names::processor(&Kernel)
    }

    fn processor_count(&self) -> Option<u32> {
        names::processor_count(&Kernel)
    }

    /// Returns all processors: any thread may run on any.
    fn allowed_processors(&self) -> Option<Vec<u32>> {
        Some((0..self.processor_count()?).collect())
    }

    fn multithreading(&self) -> Option<bool> {
        self.processor().simultaneous_multithreading
    }

    fn thermal_pressure(&self) -> Option<ThermalPressure> {
        names::thermal_pressure(calls::notification(c"com.apple.system.thermalpressurelevel")?)
    }

    fn memory(&self) -> Option<Memory> {
        let swap = calls::swap();
        Some(Memory {
            total: names::memory(&Kernel)?,
            available: calls::available_memory()?,
            swap_total: swap.map_or(0, |swap| swap.xsu_total),
            swap_free: swap.map_or(0, |swap| swap.xsu_avail),
        })
    }

    fn operating_system(&self) -> Option<String> {
        names::operating_system(&Kernel)
    }

    fn kernel(&self) -> Option<String> {
        names::kernel(&Kernel)
    }

    fn load_average(&self) -> Option<f64> {
        calls::load_average()
    }

    fn virtualisation(&self) -> Option<Option<String>> {
        names::virtualisation(&Kernel)
    }

    /// Returns the limit for processes that may lower the value.
    fn least_nice(&self) -> Option<i32> {
        if rustix::process::geteuid().is_root() { Some(-20) } else { process::nice() }
    }

    fn activity(&self, host: &[u32]) -> Activity {
        let of_process = |process: &u32| {
            let usage = calls::process_usage(i32::try_from(*process).ok()?)?;
            calls::nanoseconds(usage.ri_user_time + usage.ri_system_time)
        };
        let ticks = calls::processor_ticks();
        Activity {
            own_ns: process::usage().processor_ns,
            host_ns: host.iter().map(of_process).sum(),
            machine: ticks.map(|ticks| MachineActivity {
                processors: ticks.len() as u32,
                busy_ns: ticks.iter().map(|ticks| ticks.busy_ns()).sum(),
                stolen_ns: None,
            }),
        }
    }

    fn activity_of(&self, processors: &[u32]) -> Option<ProcessorActivity> {
        let all = calls::processor_ticks()?;
        let of = |number: &u32| all.get(*number as usize);
        let ticks: Vec<&Ticks> = processors.iter().map(of).collect::<Option<_>>()?;
        Some(ProcessorActivity {
            busy_ns: ticks.iter().map(|ticks| ticks.busy_ns()).sum(),
            total_ns: ticks.iter().map(|ticks| ticks.total_ns()).sum(),
        })
    }

    /// Returns the physical footprint, which macOS uses to judge a process: it includes compressed pages and excludes
    /// pages of files.
    fn memory_of(&self, process: u32) -> Option<ProcessMemory> {
        let usage = calls::process_usage(i32::try_from(process).ok()?)?;
        Some(ProcessMemory { resident: usage.ri_phys_footprint, kept: usage.ri_phys_footprint })
    }

    fn resident_memory(&self) -> Option<u64> {
        Some(self.memory_of(std::process::id())?.resident)
    }

    fn peak_memory(&self) -> Option<u64> {
        let own = i32::try_from(std::process::id()).ok()?;
        Some(calls::process_usage(own)?.ri_lifetime_max_phys_footprint)
    }
}
