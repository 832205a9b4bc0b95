//! Conditions around the measured window: energy, and the kernel's counts.

use host_machine::{Activity, Machine};
use host_measure::{Clock, SystemClock};
use host_record::{
    Conditions, DomainEnergy, Energy, Gap, Impossible, MemoryUse, NotMeasured, Scheduling, Warning,
};
use plugin_api::client::{Backend, Error};

use crate::disturbance::{self, Counters};
use crate::energy::{self, Rapl};
use crate::{failure, overseer};

/// How long the step of a device's energy counter is looked for, in nanoseconds: NVML's takes up to 100 ms.
pub const DEVICE_STEP_NS: u64 = 1_000_000_000;

/// Watches from the moment that it is made to the moment that it is ended.
pub(crate) struct Surroundings<'a> {
    clock: &'a SystemClock,
    machine: Machine,
    backend: &'a Backend,
    device: &'a str,
    processors: Vec<u32>,
    counters: Counters,
    started_ns: u64,
    device_energy: Result<(u64, u64), Gap>,
    rapl: Result<Rapl, Gap>,
}

impl<'a> Surroundings<'a> {
    /// Begins to watch. `activity` was read just before.
    pub(crate) fn start(
        clock: &'a SystemClock,
        backend: &'a Backend,
        device: &'a str,
        activity: Activity,
    ) -> Self {
        let machine = Machine::this();
        let processors = machine.allowed_processors().unwrap_or_default();
        let counters = Counters::read(&machine, &processors, activity);
        // Last of all, so that as little as possible lies between these and the first query.
        let device_energy = device_energy(clock, backend, device);
        let started_ns = clock.now();
        let rapl = Rapl::start(&machine, started_ns);
        Self {
            clock,
            machine,
            backend,
            device,
            processors,
            counters,
            started_ns,
            device_energy,
            rapl,
        }
    }

    /// Looks between two blocks, while the clock does not run.
    pub(crate) fn sample(&mut self) {
        if let Ok(rapl) = &mut self.rapl {
            rapl.sample(self.clock.now());
        }
    }

    /// Ends watching, and says what a case was measured under and what is doubtful about it.
    pub(crate) fn end(self, scheduling: Scheduling) -> (Conditions, Vec<Warning>) {
        let ended_ns = self.clock.now();
        let mut processor = self.rapl.and_then(|rapl| rapl.end(ended_ns));
        let after = device_energy(self.clock, self.backend, self.device);
        let mut device =
            self.device_energy.and_then(|before| device_domain(self.device, before, after?));
        let activity = self.machine.activity(&overseer::host());
        let counters = Counters::read(&self.machine, &self.processors, activity);
        let elapsed_ns = ended_ns.saturating_sub(self.started_ns);
        let disturbance = self.counters.until(&counters, elapsed_ns);
        let warnings = disturbance::warnings(&disturbance);
        let memory = MemoryUse {
            proportional_bytes: self.machine.proportional_memory(),
            device_peak_bytes: Some(device_memory(self.backend, self.device)),
            // The host looks at it from outside.
            ..MemoryUse::default()
        };
        // Last of all, because it takes time. Not before the window: up to a second without work would undo the warm-up,
        // and a device that is idle for longer may count in other steps than one that has just worked.
        if let Ok(domains) = &mut processor {
            Rapl::steps(&self.machine, self.clock, domains);
        }
        if let Ok(domain) = &mut device {
            domain.step_seconds = energy::step(self.clock, DEVICE_STEP_NS, || {
                self.backend.device_energy(self.device)?.ok()
            });
        }
        let conditions = Conditions {
            worker_version: Some(env!("CARGO_PKG_VERSION").into()),
            scheduling: Some(scheduling),
            disturbance: Some(disturbance),
            energy: Some(Energy { processor, device }),
            memory: Some(memory),
            ..Conditions::default()
        };
        (conditions, warnings)
    }
}

/// Returns the gap for an extension that a backend does not offer.
pub(crate) fn not_offered(extension: &str) -> Gap {
    NotMeasured::NotOffered { extension: extension.to_owned() }.into()
}

/// Returns the gap for an extension that reports that it cannot.
pub(crate) fn refused(error: &Error) -> Gap {
    NotMeasured::Refused {
        call: error.call.to_owned(),
        code: failure::code(error.code),
        backend_message: error.message.clone(),
    }
    .into()
}

/// Reads the device's counter: the time of reading, and the energy in microjoules.
fn device_energy(clock: &SystemClock, backend: &Backend, device: &str) -> Result<(u64, u64), Gap> {
    let name = plugin_api::abi::DEVICE_ENERGY;
    let energy = backend.device_energy(device).ok_or_else(|| not_offered(name))?;
    Ok((clock.now(), energy.map_err(|error| refused(&error))?))
}

fn device_domain(
    device: &str,
    (start_ns, before): (u64, u64),
    (end_ns, after): (u64, u64),
) -> Result<DomainEnergy, Gap> {
    let taken = after
        .checked_sub(before)
        .ok_or(Impossible::EnergyWentBack { from_microjoules: before, to_microjoules: after })?;
    Ok(DomainEnergy {
        domain: device.into(),
        joules: taken as f64 / 1e6,
        seconds: end_ns.saturating_sub(start_ns) as f64 / 1e9,
        step_seconds: None,
    })
}

fn device_memory(backend: &Backend, device: &str) -> Result<u64, Gap> {
    let name = plugin_api::abi::DEVICE_MEMORY;
    let memory = backend.device_memory(device).ok_or_else(|| not_offered(name))?;
    let memory = memory.map_err(|error| refused(&error))?;
    let gap = NotMeasured::NoDevicePeak { used_bytes: memory.used_bytes };
    memory.peak_bytes.ok_or(gap.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_devices_energy_is_the_difference_of_its_counter() {
        let energy = device_domain("gpu:0", (5_000_000_000, 7), (7_500_000_000, 2_000_007));
        let expected =
            DomainEnergy { domain: "gpu:0".into(), joules: 2.0, seconds: 2.5, step_seconds: None };
        assert_eq!(energy, Ok(expected));
        let gap = Impossible::EnergyWentBack { from_microjoules: 7, to_microjoules: 6 };
        assert_eq!(device_domain("gpu:0", (0, 7), (1, 6)), Err(gap.into()));
    }
}
