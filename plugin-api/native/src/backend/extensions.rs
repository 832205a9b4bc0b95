//! The extensions that Tare defines, for a backend that offers them.
//!
//! Each is a trait and a function that makes its table: a backend implements the trait, and its
//! [`Backend::extension`] answers the name with the table.
//!
//! ```ignore
//! fn extension(&self, name: &str) -> Option<NonNull<c_void>> {
//!     (name == abi::DEVICE_ENERGY).then(device_energy::<Self>)
//! }
//! ```

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::glue::{
    Instance, allocator_with, call, guard, handle, phase_with, phases_with, profile_with, run_with,
    text,
};
use super::{Backend, Model, Result, Session};
use crate::abi;
use crate::types::{AllocatorUse, DeviceReading, ProfiledOperator};

/// A backend that knows the energy of its devices: `tare/device-energy/1`.
pub trait DeviceEnergy: Backend {
    /// Returns the energy that the whole device has used, in microjoules, since some fixed moment;
    /// never less than before.
    ///
    /// # Errors
    ///
    /// If there is no such device, or it does not report its energy.
    fn microjoules(&self, device: &str) -> Result<u64>;
}

/// Memory on a device, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// Memory of this process now.
    pub used_bytes: u64,
    /// Its peak, if known.
    pub peak_bytes: Option<u64>,
}

/// A backend that knows the memory of this process on its devices: `tare/device-memory/1`.
pub trait DeviceMemory: Backend {
    /// Returns the memory of this process.
    ///
    /// # Errors
    ///
    /// If there is no such device, or it does not report its memory.
    fn memory(&self, device: &str) -> Result<MemoryUse>;
}

/// A backend whose devices report their current state: `tare/device-state/1`.
///
/// Called on a separate thread while queries are timed, so there is no instance, and it must not hold
/// anything that a run waits for.
pub trait DeviceState: Backend {
    /// Returns the device's state.
    ///
    /// # Errors
    ///
    /// If there is no such device, or it does not report its state.
    fn reading(device: &str) -> Result<DeviceReading>;
}

/// A session whose engine has an allocator that counts: `tare/allocator/1`.
pub trait Allocator: Session {
    /// Returns the allocator's figures.
    ///
    /// # Errors
    ///
    /// If the engine does not report them.
    fn allocator_use(&mut self) -> Result<AllocatorUse>;
}

/// Stages of a run, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stages {
    /// From the host's memory to the device.
    pub copy_in_ns: u64,
    /// On the device.
    pub compute_ns: u64,
    /// From the device to the host's memory.
    pub copy_out_ns: u64,
}

/// A session whose runs copy themselves, and which can distinguish the copies from the computation:
/// `tare/stage-times/1`.
pub trait StageTimes: Session {
    /// Does the same as [`Session::run`], and returns the time of each stage. It may be slower.
    ///
    /// # Errors
    ///
    /// As for [`Session::run`].
    fn run_in_stages(
        &mut self,
        inputs: &[&Self::Tensor],
        outputs: &mut [Option<Box<Self::Tensor>>],
    ) -> Result<Stages>;
}

/// A session whose device measures by its own events how long it was busy: `tare/device-timer/1`. If only the
/// duration of the call is known, it does not offer this.
pub trait DeviceTimer: Session {
    /// Does the same as [`Session::run`], and returns how many nanoseconds the device was busy with it,
    /// from its start to its end; never more than the call took. It may be slower.
    ///
    /// # Errors
    ///
    /// As for [`Session::run`], or if the device does not report it.
    fn run_timed(
        &mut self,
        inputs: &[&Self::Tensor],
        outputs: &mut [Option<Box<Self::Tensor>>],
    ) -> Result<u64>;
}

/// A session that can report which operators ran where: `tare/profile/1`.
pub trait Profile: Session {
    /// Runs once more and returns the operators, in order of start. It may be slow, and may run in
    /// another session, of the same model with the same options, precision and shapes.
    ///
    /// # Errors
    ///
    /// As for [`Session::run`], or if the engine does not report them.
    fn profile(&mut self, inputs: &[&Self::Tensor]) -> Result<Vec<ProfiledOperator>>;
}

/// A backend whose calls can be ended before they are done: `tare/cancel/1`.
///
/// Called on another thread than the busy one, so there is no instance.
pub trait Cancel: Backend {
    /// Asks all calls in progress to end soon, each with [`ErrorCode::Cancelled`](super::ErrorCode), and returns at
    /// once. Does not affect calls that begin afterwards.
    ///
    /// # Errors
    ///
    /// Returns the reason why they cannot be cancelled.
    fn cancel() -> Result<()>;
}

/// Takes the time of moments within a run, by the host's clock.
#[derive(Debug)]
pub struct Mark<'a> {
    mark: Option<abi::Mark>,
    context: *mut c_void,
    /// The call whose moments they are.
    call: PhantomData<&'a mut ()>,
}

impl Mark<'_> {
    /// Marks the completion of a counted item, such as a token.
    #[inline]
    pub fn now(&mut self) {
        if let Some(mark) = self.mark {
            // SAFETY: the call lasts as long as this value, and this is its thread.
            unsafe { mark(self.context) };
        }
    }
}

/// A session whose runs have phases, or moments that count, such as tokens: `tare/marks/1`.
pub trait Marks: Session {
    /// Returns the names of the phases that make up a run, in order, such as `forward`, `backward`, `update`:
    /// lower-case words joined by hyphens, at most 16. None: a run is one call.
    fn phases(&self) -> Vec<String>;

    /// Runs one phase, and returns when the device is done with it. All phases in order, with the same inputs and
    /// outputs, do what [`Session::run`] does. Without phases it is called for phase 0.
    ///
    /// # Errors
    ///
    /// As for [`Session::run`].
    fn run_phase(
        &mut self,
        phase: usize,
        inputs: &[&Self::Tensor],
        outputs: &mut [Option<Box<Self::Tensor>>],
        mark: &mut Mark<'_>,
    ) -> Result<()>;
}

/// A session of the mode `training`, whose weights can be used without changing them: `tare/training/1`.
pub trait Training: Session {
    /// Computes outputs and loss with the weights that the steps so far have left, changes nothing, and returns when
    /// the device is done.
    ///
    /// # Errors
    ///
    /// As for [`Session::run`].
    fn evaluate(
        &mut self,
        inputs: &[&Self::Tensor],
        outputs: &mut [Option<Box<Self::Tensor>>],
    ) -> Result<()>;
}

/// Memory that a phase of a run took on the device, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseUse {
    /// The most that tensors took during the phase.
    pub peak_bytes: u64,
    /// Memory that they take at its end.
    pub used_bytes: u64,
}

/// A session that knows what the phases of its runs take on the device: `tare/phase-memory/1`.
pub trait PhaseMemory: Marks {
    /// Does the same as [`Marks::run_phase`], and returns what tensors took meanwhile. It may be slower.
    ///
    /// # Errors
    ///
    /// As for [`Session::run`], or if the engine does not report it.
    fn run_phase_counted(
        &mut self,
        phase: usize,
        inputs: &[&Self::Tensor],
        outputs: &mut [Option<Box<Self::Tensor>>],
    ) -> Result<PhaseUse>;
}

/// Returns the table for [`abi::PHASE_MEMORY`].
#[must_use]
pub fn phase_memory<B: Backend>() -> NonNull<c_void>
where
    <B::Model as Model>::Session: PhaseMemory,
{
    const {
        NonNull::from_ref(&abi::PhaseMemory {
            struct_size: size_of::<abi::PhaseMemory>(),
            run: Some(run_phase_counted::<B::Model>),
        })
    }
    .cast()
}

/// Returns the table for [`abi::CANCEL`].
#[must_use]
pub fn cancel<B: Cancel>() -> NonNull<c_void> {
    const {
        NonNull::from_ref(&abi::Cancel {
            struct_size: size_of::<abi::Cancel>(),
            cancel: Some(cancel_calls::<B>),
        })
    }
    .cast()
}

/// Returns the table for [`abi::MARKS`].
#[must_use]
pub fn marks<B: Backend>() -> NonNull<c_void>
where
    <B::Model as Model>::Session: Marks,
{
    const {
        NonNull::from_ref(&abi::Marks {
            struct_size: size_of::<abi::Marks>(),
            phases: Some(name_phases::<B::Model>),
            run: Some(run_phase::<B::Model>),
        })
    }
    .cast()
}

/// Returns the table for [`abi::TRAINING`].
#[must_use]
pub fn training<B: Backend>() -> NonNull<c_void>
where
    <B::Model as Model>::Session: Training,
{
    const {
        NonNull::from_ref(&abi::Training {
            struct_size: size_of::<abi::Training>(),
            evaluate: Some(evaluate::<B::Model>),
        })
    }
    .cast()
}

/// Returns the table for [`abi::DEVICE_ENERGY`].
#[must_use]
pub fn device_energy<B: DeviceEnergy>() -> NonNull<c_void> {
    const {
        NonNull::from_ref(&abi::DeviceEnergy {
            struct_size: size_of::<abi::DeviceEnergy>(),
            read: Some(read_energy::<B>),
        })
    }
    .cast()
}

/// Returns the table for [`abi::DEVICE_MEMORY`].
#[must_use]
pub fn device_memory<B: DeviceMemory>() -> NonNull<c_void> {
    const {
        NonNull::from_ref(&abi::DeviceMemory {
            struct_size: size_of::<abi::DeviceMemory>(),
            read: Some(read_memory::<B>),
        })
    }
    .cast()
}

/// Returns the table for [`abi::DEVICE_STATE`].
#[must_use]
pub fn device_state<B: DeviceState>() -> NonNull<c_void> {
    const {
        NonNull::from_ref(&abi::DeviceState {
            struct_size: size_of::<abi::DeviceState>(),
            read: Some(read_state::<B>),
        })
    }
    .cast()
}

/// Returns the table for [`abi::ALLOCATOR`].
#[must_use]
pub fn allocator<B: Backend>() -> NonNull<c_void>
where
    <B::Model as Model>::Session: Allocator,
{
    const {
        NonNull::from_ref(&abi::Allocator {
            struct_size: size_of::<abi::Allocator>(),
            read: Some(read_allocator::<B::Model>),
        })
    }
    .cast()
}

/// Returns the table for [`abi::STAGE_TIMES`].
#[must_use]
pub fn stage_times<B: Backend>() -> NonNull<c_void>
where
    <B::Model as Model>::Session: StageTimes,
{
    const {
        NonNull::from_ref(&abi::StageTimes {
            struct_size: size_of::<abi::StageTimes>(),
            run: Some(run_in_stages::<B::Model>),
        })
    }
    .cast()
}

/// Returns the table for [`abi::DEVICE_TIMER`].
#[must_use]
pub fn device_timer<B: Backend>() -> NonNull<c_void>
where
    <B::Model as Model>::Session: DeviceTimer,
{
    const {
        NonNull::from_ref(&abi::DeviceTimer {
            struct_size: size_of::<abi::DeviceTimer>(),
            run: Some(run_timed::<B::Model>),
        })
    }
    .cast()
}

/// Returns the table for [`abi::PROFILE`].
#[must_use]
pub fn profile<B: Backend>() -> NonNull<c_void>
where
    <B::Model as Model>::Session: Profile,
{
    const {
        NonNull::from_ref(&abi::Profile {
            struct_size: size_of::<abi::Profile>(),
            profile: Some(run_profiled::<B::Model>),
        })
    }
    .cast()
}

// In what follows, "the contract" is that of `plugin_api.h`.

unsafe extern "C" fn read_energy<B: DeviceEnergy>(
    args: *mut abi::DeviceEnergyArgs,
) -> *mut abi::Error {
    let body = |args: &mut abi::DeviceEnergyArgs| {
        // SAFETY: the contract.
        let instance = unsafe { handle::<_, Instance<B>>(args.backend) }?;
        // SAFETY: the contract.
        let device = unsafe { text(args.device, "the device") }?;
        args.microjoules = instance.backend.microjoules(device)?;
        Ok(())
    };
    // SAFETY: the contract.
    unsafe { call(args, body) }
}

unsafe extern "C" fn read_memory<B: DeviceMemory>(
    args: *mut abi::DeviceMemoryArgs,
) -> *mut abi::Error {
    let body = |args: &mut abi::DeviceMemoryArgs| {
        // SAFETY: the contract.
        let instance = unsafe { handle::<_, Instance<B>>(args.backend) }?;
        // SAFETY: the contract.
        let device = unsafe { text(args.device, "the device") }?;
        let memory = instance.backend.memory(device)?;
        args.used_bytes = memory.used_bytes;
        args.peak_bytes = memory.peak_bytes.unwrap_or(0);
        Ok(())
    };
    // SAFETY: the contract.
    unsafe { call(args, body) }
}

unsafe extern "C" fn read_state<B: DeviceState>(
    args: *mut abi::DeviceStateArgs,
) -> *mut abi::Error {
    let body = |args: &mut abi::DeviceStateArgs| {
        // The backend's handle is not used, since another thread may be using it.
        // SAFETY: the contract.
        let device = unsafe { text(args.device, "the device") }?;
        let reading = B::reading(device)?;
        let number = |value: Option<f64>| value.unwrap_or(f64::NAN);
        args.utilisation = number(reading.utilisation);
        args.memory_utilisation = number(reading.memory_utilisation);
        args.clock_hertz = number(reading.clock_hertz);
        args.memory_clock_hertz = number(reading.memory_clock_hertz);
        args.temperature_celsius = number(reading.temperature_celsius);
        args.power_watts = number(reading.power_watts);
        args.slowed_known = u32::from(reading.slowed_by.is_some());
        args.slowed_by = reading.slowed_by.unwrap_or(0);
        Ok(())
    };
    // SAFETY: the contract.
    unsafe { call(args, body) }
}

unsafe extern "C" fn read_allocator<M: Model>(args: *mut abi::AllocatorArgs) -> *mut abi::Error
where
    M::Session: Allocator,
{
    let body = |args: &mut abi::AllocatorArgs| {
        // SAFETY: the contract.
        unsafe { allocator_with::<M>(args, Allocator::allocator_use) }
    };
    // SAFETY: the contract.
    unsafe { call(args, body) }
}

unsafe extern "C" fn run_in_stages<M: Model>(args: *mut abi::StageTimesArgs) -> *mut abi::Error
where
    M::Session: StageTimes,
{
    let body = |args: &mut abi::StageTimesArgs| {
        // SAFETY: the contract.
        let stages = unsafe {
            run_with::<M, _>(args.run, |session, inputs, outputs| {
                session.run_in_stages(inputs, outputs)
            })
        }?;
        args.copy_in_ns = stages.copy_in_ns;
        args.compute_ns = stages.compute_ns;
        args.copy_out_ns = stages.copy_out_ns;
        Ok(())
    };
    // SAFETY: the contract.
    unsafe { call(args, body) }
}

unsafe extern "C" fn run_timed<M: Model>(args: *mut abi::DeviceTimerArgs) -> *mut abi::Error
where
    M::Session: DeviceTimer,
{
    let body = |args: &mut abi::DeviceTimerArgs| {
        // SAFETY: the contract.
        args.device_ns = unsafe {
            run_with::<M, _>(args.run, |session, inputs, outputs| {
                session.run_timed(inputs, outputs)
            })
        }?;
        Ok(())
    };
    // SAFETY: the contract.
    unsafe { call(args, body) }
}

unsafe extern "C" fn run_profiled<M: Model>(args: *mut abi::ProfileArgs) -> *mut abi::Error
where
    M::Session: Profile,
{
    let body = |args: &mut abi::ProfileArgs| {
        // SAFETY: the contract.
        unsafe { profile_with::<M>(args, |session, inputs| session.profile(inputs)) }
    };
    // SAFETY: the contract.
    unsafe { call(args, body) }
}

unsafe extern "C" fn cancel_calls<B: Cancel>(args: *mut abi::CancelArgs) -> *mut abi::Error {
    // The backend's handle is not used, since another thread is using it.
    let body = |_: &mut abi::CancelArgs| B::cancel();
    // SAFETY: the contract.
    unsafe { call(args, body) }
}

unsafe extern "C" fn name_phases<M: Model>(args: *mut abi::PhasesArgs) -> *mut abi::Error
where
    M::Session: Marks,
{
    let body = |args: &mut abi::PhasesArgs| {
        // SAFETY: the contract.
        unsafe { phases_with::<M>(args, Marks::phases) }
    };
    // SAFETY: the contract.
    unsafe { call(args, body) }
}

unsafe extern "C" fn run_phase<M: Model>(args: *mut abi::MarkedRunArgs) -> *mut abi::Error
where
    M::Session: Marks,
{
    let body = |args: &mut abi::MarkedRunArgs| {
        let phase = args.phase as usize;
        let mut mark = Mark { mark: args.mark, context: args.context, call: PhantomData };
        let count = |session: &M::Session| session.phases().len();
        // SAFETY: the contract.
        unsafe {
            phase_with::<M>(args.run, phase, count, |session, inputs, outputs| {
                session.run_phase(phase, inputs, outputs, &mut mark)
            })
        }
    };
    // SAFETY: the contract.
    unsafe { call(args, body) }
}

unsafe extern "C" fn run_phase_counted<M: Model>(args: *mut abi::PhaseMemoryArgs) -> *mut abi::Error
where
    M::Session: PhaseMemory,
{
    let body = |args: &mut abi::PhaseMemoryArgs| {
        let phase = args.phase as usize;
        let count = |session: &M::Session| session.phases().len();
        let mut found = PhaseUse { peak_bytes: 0, used_bytes: 0 };
        // SAFETY: the contract.
        unsafe {
            phase_with::<M>(args.run, phase, count, |session, inputs, outputs| {
                found = session.run_phase_counted(phase, inputs, outputs)?;
                Ok(())
            })
        }?;
        args.peak_bytes = found.peak_bytes;
        args.used_bytes = found.used_bytes;
        Ok(())
    };
    // SAFETY: the contract.
    unsafe { call(args, body) }
}

unsafe extern "C" fn evaluate<M: Model>(args: *mut abi::RunArgs) -> *mut abi::Error
where
    M::Session: Training,
{
    let evaluate =
        |session: &mut M::Session,
         inputs: &[&M::Tensor],
         outputs: &mut [Option<Box<M::Tensor>>]| { session.evaluate(inputs, outputs) };
    // SAFETY: the contract.
    guard(|| unsafe { run_with::<M, _>(args, evaluate) })
}
