//! The extensions that Tare defines, as the host uses them. One that a backend does not offer is
//! `None`.

use std::marker::PhantomData;

use super::{Backend, BackendInner, Call, Error, MarkedRun, Result, Session, foreign};
use crate::abi;
use crate::types::{AllocatorUse, DeviceReading, ProfiledOperator};

/// Memory on a device, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Memory of this process now.
    pub used_bytes: u64,
    /// Its peak, if the backend knows it.
    pub peak_bytes: Option<u64>,
}

/// Stages of a run, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageTimes {
    /// From the host's memory to the device.
    pub copy_in_ns: u64,
    /// On the device.
    pub compute_ns: u64,
    /// From the device to the host's memory.
    pub copy_out_ns: u64,
}

/// Memory that a phase of a run took on the device, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseMemory {
    /// The most that tensors took during the phase.
    pub peak_bytes: u64,
    /// Memory that they take at its end.
    pub used_bytes: u64,
}

impl BackendInner {
    /// Returns the function of an extension that `choose` picks from its table.
    pub(super) fn function<T: abi::SizedStruct, Args>(
        &self,
        name: &'static str,
        choose: fn(&T) -> Option<abi::Call<Args>>,
    ) -> Option<Result<abi::Call<Args>>> {
        // SAFETY: the handle is alive and the name is valid during the call.
        let table =
            unsafe { (self.functions.get_extension)(self.handle, abi::String::borrow(name)) };
        if table.is_null() {
            return None;
        }
        // SAFETY: the extension of this name is such a table.
        let table = unsafe { foreign::structure(table.cast::<T>(), "the table of an extension") };
        let function = table.and_then(|table| {
            choose(&table)
                .ok_or_else(|| "returned the table of an extension without function".into())
        });
        Some(function.map_err(|detail| Error::contract(name, detail)))
    }
}

/// Calls a function of an extension.
///
/// # Safety
///
/// The arguments are filled in as the ABI requires, on a thread that may make this call, with handles of the backend
/// whose function it is.
pub(super) unsafe fn invoke<Args>(
    name: &'static str,
    function: abi::Call<Args>,
    args: &mut Args,
) -> Result<()> {
    // SAFETY: the caller guarantees the arguments.
    let error = unsafe { function(args) };
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the call has just returned it.
    Err(unsafe { Error::take(name, error) })
}

impl Backend {
    /// Returns the energy that a device has used since some fixed moment, in microjoules.
    ///
    /// # Errors
    ///
    /// The backend's error, or that its table breaks the rules.
    #[must_use]
    pub fn device_energy(&self, device: &str) -> Option<Result<u64>> {
        let name = abi::DEVICE_ENERGY;
        let read = self.inner.function(name, |table: &abi::DeviceEnergy| table.read)?;
        let mut args = abi::DeviceEnergyArgs {
            struct_size: size_of::<abi::DeviceEnergyArgs>(),
            backend: self.inner.handle,
            device: abi::String::borrow(device),
            microjoules: 0,
        };
        // SAFETY: the arguments are whole and the handle is this backend's.
        Some(
            read.and_then(|read| unsafe { invoke(name, read, &mut args) })
                .map(|()| args.microjoules),
        )
    }

    /// Returns the memory of this process on a device.
    ///
    /// # Errors
    ///
    /// The backend's error, or that its table or its figures break the rules.
    #[must_use]
    pub fn device_memory(&self, device: &str) -> Option<Result<DeviceMemory>> {
        let name = abi::DEVICE_MEMORY;
        let read = self.inner.function(name, |table: &abi::DeviceMemory| table.read)?;
        let mut args = abi::DeviceMemoryArgs {
            struct_size: size_of::<abi::DeviceMemoryArgs>(),
            backend: self.inner.handle,
            device: abi::String::borrow(device),
            used_bytes: 0,
            peak_bytes: 0,
        };
        // SAFETY: the arguments are whole and the handle is this backend's.
        let called = read.and_then(|read| unsafe { invoke(name, read, &mut args) });
        let abi::DeviceMemoryArgs { used_bytes, peak_bytes, .. } = args;
        Some(called.and_then(|()| match peak_bytes {
            1.. if peak_bytes < used_bytes => {
                let detail =
                    format!("returned a peak of {peak_bytes} B below {used_bytes} B in use");
                Err(Error::contract(name, detail))
            }
            0 => Ok(DeviceMemory { used_bytes, peak_bytes: None }),
            _ => Ok(DeviceMemory { used_bytes, peak_bytes: Some(peak_bytes) }),
        }))
    }
}

/// Reads a device's state, on any thread. It cannot outlive its backend.
#[derive(Debug)]
pub struct DeviceStateReader<'a> {
    read: abi::Call<abi::DeviceStateArgs>,
    handle: *mut abi::Backend,
    device: &'a str,
    /// The backend that it borrows.
    backend: PhantomData<&'a ()>,
}

// SAFETY: the function may be called on any thread and at any time, as long as the backend lives, which
// it does during `'a`.
unsafe impl Send for DeviceStateReader<'_> {}
// SAFETY: the same, and calls may be made at the same time.
unsafe impl Sync for DeviceStateReader<'_> {}

impl DeviceStateReader<'_> {
    /// Returns the device's current state.
    ///
    /// # Errors
    ///
    /// The backend's error, or that its figures are impossible.
    pub fn read(&self) -> Result<DeviceReading> {
        let name = abi::DEVICE_STATE;
        let mut args = abi::DeviceStateArgs {
            struct_size: size_of::<abi::DeviceStateArgs>(),
            backend: self.handle,
            device: abi::String::borrow(self.device),
            utilisation: f64::NAN,
            memory_utilisation: f64::NAN,
            clock_hertz: f64::NAN,
            memory_clock_hertz: f64::NAN,
            temperature_celsius: f64::NAN,
            power_watts: f64::NAN,
            slowed_known: 0,
            slowed_by: 0,
        };
        // SAFETY: the arguments are whole, and any thread may call this one.
        unsafe { invoke(name, self.read, &mut args) }?;
        let checked = |what: &str, value: f64, low: f64, high: f64| match value {
            value if value.is_nan() => Ok(None),
            value if (low..=high).contains(&value) => Ok(Some(value)),
            _ => Err(Error::contract(name, format!("returned a {what} of {value}"))),
        };
        Ok(DeviceReading {
            utilisation: checked("utilisation", args.utilisation, 0.0, 1.0)?,
            memory_utilisation: checked("memory utilisation", args.memory_utilisation, 0.0, 1.0)?,
            clock_hertz: checked("clock", args.clock_hertz, 0.0, 1e12)?,
            memory_clock_hertz: checked("memory clock", args.memory_clock_hertz, 0.0, 1e12)?,
            temperature_celsius: checked("temperature", args.temperature_celsius, -273.15, 1e4)?,
            power_watts: checked("power", args.power_watts, 0.0, 1e6)?,
            slowed_by: (args.slowed_known != 0).then_some(args.slowed_by),
        })
    }
}

impl Backend {
    /// Returns a reader of a device's state.
    ///
    /// # Errors
    ///
    /// If the table of the extension breaks the rules.
    #[must_use]
    pub fn device_state<'a>(&'a self, device: &'a str) -> Option<Result<DeviceStateReader<'a>>> {
        let read = self.inner.function(abi::DEVICE_STATE, |table: &abi::DeviceState| table.read)?;
        let handle = self.inner.handle;
        Some(read.map(|read| DeviceStateReader { read, handle, device, backend: PhantomData }))
    }
}

impl Session {
    /// Returns the names of the phases that make up a run of this session; none if a run is one call.
    ///
    /// # Errors
    ///
    /// Returns the backend's error, or an error if its table or a name breaks the rules.
    #[must_use]
    pub fn phases(&self) -> Option<Result<Vec<String>>> {
        let name = abi::MARKS;
        let phases = self.inner.model.backend.function(name, |table: &abi::Marks| table.phases)?;
        let mut args = abi::PhasesArgs {
            struct_size: size_of::<abi::PhasesArgs>(),
            session: self.inner.handle.as_ptr(),
            phases: std::ptr::null(),
            phase_count: 0,
        };
        // SAFETY: the arguments are whole and the handle is this session's.
        let called = phases.and_then(|phases| unsafe { invoke(name, phases, &mut args) });
        Some(called.and_then(|()| {
            // SAFETY: the call has just handed them out, and the session is alive.
            unsafe { foreign::phases(args.phases, args.phase_count) }
                .map_err(|detail| Error::contract(name, detail))
        }))
    }

    /// Returns the function that runs calls of this session phase by phase.
    ///
    /// # Errors
    ///
    /// If the backend's table breaks the rules.
    #[must_use]
    pub fn marked_run(&self) -> Option<Result<MarkedRun>> {
        let run = self.inner.model.backend.function(abi::MARKS, |table: &abi::Marks| table.run)?;
        Some(run.map(|run| MarkedRun { run, backend: self.inner.model.backend.handle }))
    }

    /// Returns this session's use of its device's memory, as its engine's allocator counts it.
    ///
    /// # Errors
    ///
    /// The backend's error, or that its table or its figures break the rules.
    #[must_use]
    pub fn allocator_use(&self) -> Option<Result<AllocatorUse>> {
        let name = abi::ALLOCATOR;
        let read = self.inner.model.backend.function(name, |table: &abi::Allocator| table.read)?;
        let mut args = abi::AllocatorArgs {
            struct_size: size_of::<abi::AllocatorArgs>(),
            session: self.inner.handle.as_ptr(),
            name: abi::String::EMPTY,
            used_bytes: 0,
            peak_bytes: 0,
            reserved_bytes: 0,
        };
        // SAFETY: the arguments are whole and the handle is this session's.
        let called = read.and_then(|read| unsafe { invoke(name, read, &mut args) });
        let abi::AllocatorArgs { used_bytes, peak_bytes, reserved_bytes, .. } = args;
        Some(called.and_then(|()| {
            // SAFETY: the call has just handed it out, and the session is alive.
            let allocator = unsafe { foreign::text(args.name, "an allocator's name") }
                .map_err(|detail| Error::contract(name, detail))?;
            for (what, bytes) in [("peak", peak_bytes), ("reserve", reserved_bytes)] {
                if bytes != 0 && bytes < used_bytes {
                    let detail =
                        format!("returned a {what} of {bytes} B below {used_bytes} B in use");
                    return Err(Error::contract(name, detail));
                }
            }
            let known = |bytes: u64| (bytes != 0).then_some(bytes);
            Ok(AllocatorUse {
                name: allocator,
                used_bytes,
                peak_bytes: known(peak_bytes),
                reserved_bytes: known(reserved_bytes),
            })
        }))
    }
}

impl Call {
    /// Does the same as [`Call::run`], and returns the time of each stage.
    ///
    /// # Errors
    ///
    /// The backend's error, or that its table breaks the rules.
    #[must_use]
    pub fn run_in_stages(&mut self) -> Option<Result<StageTimes>> {
        let name = abi::STAGE_TIMES;
        let backend = std::sync::Arc::clone(&self.session.model.backend);
        let run = backend.function(name, |table: &abi::StageTimes| table.run)?;
        self.args.flags = 0;
        let mut args = abi::StageTimesArgs {
            struct_size: size_of::<abi::StageTimesArgs>(),
            run: &raw mut self.args,
            copy_in_ns: 0,
            compute_ns: 0,
            copy_out_ns: 0,
        };
        // SAFETY: as for `run`: session, inputs and outputs are alive and of one model, and laid out
        // as the ABI requires.
        let called = run.and_then(|run| unsafe { invoke(name, run, &mut args) });
        let abi::StageTimesArgs { copy_in_ns, compute_ns, copy_out_ns, .. } = args;
        Some(called.map(|()| StageTimes { copy_in_ns, compute_ns, copy_out_ns }))
    }

    /// Does the same as [`Call::run`], and returns how long the device was busy with it, in
    /// nanoseconds.
    ///
    /// # Errors
    ///
    /// The backend's error, or that its table breaks the rules.
    #[must_use]
    pub fn run_timed(&mut self) -> Option<Result<u64>> {
        let name = abi::DEVICE_TIMER;
        let backend = std::sync::Arc::clone(&self.session.model.backend);
        let run = backend.function(name, |table: &abi::DeviceTimer| table.run)?;
        self.args.flags = 0;
        let mut args = abi::DeviceTimerArgs {
            struct_size: size_of::<abi::DeviceTimerArgs>(),
            run: &raw mut self.args,
            device_ns: 0,
        };
        // SAFETY: as for `run`: session, inputs and outputs are alive and of one model, and laid out as
        // the ABI requires.
        let called = run.and_then(|run| unsafe { invoke(name, run, &mut args) });
        Some(called.map(|()| args.device_ns))
    }

    /// Runs one phase, counted from 0, and returns what tensors took on the device meanwhile.
    ///
    /// # Errors
    ///
    /// The backend's error, or that its table or its figures break the rules.
    #[must_use]
    pub fn run_phase_counted(&mut self, phase: u32) -> Option<Result<PhaseMemory>> {
        let name = abi::PHASE_MEMORY;
        let backend = std::sync::Arc::clone(&self.session.model.backend);
        let run = backend.function(name, |table: &abi::PhaseMemory| table.run)?;
        self.args.flags = 0;
        let mut args = abi::PhaseMemoryArgs {
            struct_size: size_of::<abi::PhaseMemoryArgs>(),
            run: &raw mut self.args,
            phase,
            unused: 0,
            peak_bytes: 0,
            used_bytes: 0,
        };
        // SAFETY: as for `run`: session, inputs and outputs are alive and of one model, and laid out as the ABI
        // requires.
        let called = run.and_then(|run| unsafe { invoke(name, run, &mut args) });
        let abi::PhaseMemoryArgs { peak_bytes, used_bytes, .. } = args;
        Some(called.and_then(|()| match peak_bytes < used_bytes {
            true => {
                let detail =
                    format!("returned a peak of {peak_bytes} B below {used_bytes} B in use");
                Err(Error::contract(name, detail))
            }
            false => Ok(PhaseMemory { peak_bytes, used_bytes }),
        }))
    }

    /// Computes the outputs of a model that is being trained, with its present weights, and changes nothing.
    ///
    /// # Errors
    ///
    /// The backend's error, or that its table breaks the rules.
    #[must_use]
    pub fn evaluate(&mut self) -> Option<Result<()>> {
        let name = abi::TRAINING;
        let backend = std::sync::Arc::clone(&self.session.model.backend);
        let evaluate = backend.function(name, |table: &abi::Training| table.evaluate)?;
        self.args.flags = 0;
        // SAFETY: as for `run`: session, inputs and outputs are alive and of one model, and laid out as the ABI
        // requires.
        Some(evaluate.and_then(|evaluate| unsafe { invoke(name, evaluate, &mut self.args) }))
    }

    /// Runs once more, and returns the operators and their places.
    ///
    /// # Errors
    ///
    /// The backend's error, or that its table or its answer breaks the rules.
    #[must_use]
    pub fn profile(&mut self) -> Option<Result<Vec<ProfiledOperator>>> {
        let name = abi::PROFILE;
        let backend = std::sync::Arc::clone(&self.session.model.backend);
        let profile = backend.function(name, |table: &abi::Profile| table.profile)?;
        let mut args = abi::ProfileArgs {
            struct_size: size_of::<abi::ProfileArgs>(),
            session: self.args.session,
            inputs: self.args.inputs,
            input_count: self.args.input_count,
            operators: std::ptr::null(),
            operator_count: 0,
        };
        // SAFETY: session and inputs are alive and of one model, and laid out as the ABI requires.
        let called = profile.and_then(|profile| unsafe { invoke(name, profile, &mut args) });
        Some(called.and_then(|()| {
            // SAFETY: the call has just handed them out, and the session is alive.
            unsafe { foreign::operators(args.operators, args.operator_count) }
                .map_err(|detail| Error::contract(name, detail))
        }))
    }
}
