/*!
The mirror of `include/plugin_api.h`, item by item.

The header documents meaning, ownership and threads of each item, once; this module has only the
layouts. Sizes are asserted when this module is compiled, and a test compiles the header with the
system compiler and compares the offset of every field ([`LAYOUTS`]).

Everything else in this crate is built on this module: [`crate::backend`] for authors of a backend in Rust,
[`crate::client`] for the host.
*/

use std::ffi::{c_char, c_void};
use std::fmt;

/// Major version of the ABI.
pub const MAJOR: u32 = 1;
/// Minor version of the ABI.
pub const MINOR: u32 = 1;
/// Name of the entry point, with a final zero byte for the loader.
pub const ENTRY_SYMBOL: &[u8] = b"tare_backend_v1\0";
/// Type of the entry point.
pub type Entry = unsafe extern "C" fn(host: *const HostApi) -> *const BackendApi;

/// Name of the extension whose table is [`DeviceEnergy`].
pub const DEVICE_ENERGY: &str = "tare/device-energy/1";
/// Name of the extension whose table is [`DeviceMemory`].
pub const DEVICE_MEMORY: &str = "tare/device-memory/1";
/// Name of the extension whose table is [`StageTimes`].
pub const STAGE_TIMES: &str = "tare/stage-times/1";

/// Name of the extension whose table is [`DeviceState`].
pub const DEVICE_STATE: &str = "tare/device-state/1";
/// Name of the extension whose table is [`Allocator`].
pub const ALLOCATOR: &str = "tare/allocator/1";
/// Name of the extension whose table is [`DeviceTimer`].
pub const DEVICE_TIMER: &str = "tare/device-timer/1";
/// Name of the extension whose table is [`Profile`].
pub const PROFILE: &str = "tare/profile/1";

/// Name of the extension whose table is [`Cancel`].
pub const CANCEL: &str = "tare/cancel/1";
/// Name of the extension whose table is [`Marks`].
pub const MARKS: &str = "tare/marks/1";
/// Name of the extension whose table is [`Training`].
pub const TRAINING: &str = "tare/training/1";
/// Name of the extension whose table is [`PhaseMemory`].
pub const PHASE_MEMORY: &str = "tare/phase-memory/1";

/// Name of the load option by which the host asks for `strict` placement.
pub const OPTION_PLACEMENT: &str = "placement";

/// Size of an axis that differs from call to call.
pub const DYNAMIC: i64 = -1;
/// `run` may return as soon as the work is queued.
pub const RUN_ENQUEUE: u64 = 1;

/// Reasons why a device's clocks are below their maximum, as bits of `slowed_by`.
pub mod slowed_by {
    /// The device is idle.
    pub const IDLENESS: u32 = 1;
    /// A user's setting.
    pub const SETTING: u32 = 2;
    /// A limit on power.
    pub const POWER: u32 = 4;
    /// High temperature.
    pub const HEAT: u32 = 8;
    /// Another reason.
    pub const OTHER: u32 = 16;
}

/// Codes of [`Error`].
pub mod error_code {
    /// A bug in the backend.
    pub const INTERNAL: i32 = 1;
    /// The call, an option or a shape is wrong.
    pub const INVALID_ARGUMENT: i32 = 2;
    /// No such file, device or name.
    pub const NOT_FOUND: i32 = 3;
    /// The file is not a model.
    pub const INVALID_MODEL: i32 = 4;
    /// The backend cannot do this.
    pub const UNSUPPORTED: i32 = 5;
    /// On the host or on the device.
    pub const OUT_OF_MEMORY: i32 = 6;
    /// The device or its driver failed.
    pub const DEVICE: i32 = 7;
    /// A struct is smaller than its first version, or ends within a field.
    pub const VERSION: i32 = 8;
    /// The vendor's runtime, or a part of it, is missing, cannot be loaded or is too old.
    pub const RUNTIME_MISSING: i32 = 9;
    /// The host cancelled the call.
    pub const CANCELLED: i32 = 10;
}

/// Bits of an element that is a [`String`]: its code is [`DTYPE_STRING`].
pub const STRING_BITS: u8 = 8 * size_of::<String>() as u8;
/// Code of the element type of text, which DLPack does not have.
pub const DTYPE_STRING: u8 = 128;

/// Values of `kind`: the kind of an input or output.
pub mod value_kind {
    /// A dense tensor.
    pub const TENSOR: u32 = 0;
    /// A list of values.
    pub const SEQUENCE: u32 = 1;
    /// Values by key.
    pub const MAP: u32 = 2;
    /// Something else.
    pub const OTHER: u32 = 3;
}

/// Values of `shapes_served`: which shapes the calls of a session may have.
pub mod shapes_served {
    /// Only those that were prepared.
    pub const ONE: u32 = 0;
    /// Any within the bounds; the first run with each compiles it.
    pub const COMPILED: u32 = 1;
    /// Any within the bounds, at once.
    pub const ANY: u32 = 2;
}

/// A struct that begins with `struct_size`.
///
/// A struct has two sizes. `size_of` is its size in this version of the ABI, to which this side sets `struct_size`.
/// [`SizedStruct::V1_SIZE`] never changes, and is the least that a reader accepts.
///
/// # Safety
///
/// `V1_SIZE` must be the end of the last field of the struct in ABI 1.0, `APPENDED_ENDS` the ends of all later fields,
/// the struct's first field must be `struct_size: usize`, and all fields must be valid when they are zero.
pub unsafe trait SizedStruct: Copy {
    /// Size in ABI 1.0: the least that the other side may give.
    const V1_SIZE: usize;
    /// Ends of the fields that were appended since. Between `V1_SIZE` and `size_of` there are no other sizes.
    const APPENDED_ENDS: &'static [usize];
}

/// The layout of one struct, for comparing with C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The struct's name in C.
    pub name: &'static str,
    /// Its size.
    pub size: usize,
    /// Its size in ABI 1.0, if it begins with its size.
    pub v1_size: Option<usize>,
    /// Its fields and their offsets.
    pub fields: &'static [(&'static str, usize)],
}

/// Returns the end of a list of fields, in bytes from the beginning of their struct.
const fn end<const N: usize>(ends: [usize; N]) -> usize {
    ends[N - 1]
}

/// Each struct is given with its size in ABI 1.0 on 64 bits and the fields that it had then. Fields that were
/// appended later follow behind `=> SIZE`, which is the size with them.
macro_rules! structs {
    ($(
        $(#[$meta:meta])*
        $kind:ident $name:ident as $c_name:ident = $v1_size:literal {
            $($field:ident: $type:ty,)+
        } $(=> $size:literal { $($appended:ident: $appended_type:ty,)+ })?
    )+) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Clone, Copy)]
            #[expect(missing_docs, reason = "the header documents the fields")]
            pub struct $name {
                $(pub $field: $type,)+
                $($(pub $appended: $appended_type,)+)?
            }

            #[cfg(target_pointer_width = "64")]
            const _: () = {
                let v1_size = end([$(std::mem::offset_of!($name, $field) + size_of::<$type>()),+]);
                assert!(v1_size == $v1_size);
                // Without appended fields the size is that of ABI 1.0.
                assert!(size_of::<$name>() == end([$v1_size $(, $size)?]));
            };

            structs!(@$kind $name { $($field: $type,)+ } $($($appended: $appended_type,)+)?);
        )+

        /// Every struct of the ABI.
        pub const LAYOUTS: &[Layout] = &[$(Layout {
            name: stringify!($c_name),
            size: size_of::<$name>(),
            v1_size: structs!(@v1 $kind $name),
            fields: &[
                $((stringify!($field), std::mem::offset_of!($name, $field)),)+
                $($((stringify!($appended), std::mem::offset_of!($name, $appended)),)+)?
            ],
        },)+];
    };
    (@value $name:ident { $($fields:tt)+ } $($appended:tt)*) => {};
    (@sized $name:ident { $($field:ident: $type:ty,)+ } $($appended:ident: $appended_type:ty,)*) => {
        // SAFETY: these are the fields of ABI 1.0 and those appended, `struct_size` comes first, and all are numbers,
        // raw pointers or optional functions.
        unsafe impl SizedStruct for $name {
            const V1_SIZE: usize =
                end([$(std::mem::offset_of!($name, $field) + size_of::<$type>()),+]);
            const APPENDED_ENDS: &'static [usize] =
                &[$(std::mem::offset_of!($name, $appended) + size_of::<$appended_type>()),*];
        }
        const _: () = assert!(std::mem::offset_of!($name, struct_size) == 0);
    };
    (@v1 value $name:ident) => { None };
    (@v1 sized $name:ident) => { Some(<$name as SizedStruct>::V1_SIZE) };
}

structs! {
    /// UTF-8 text.
    value String as tare_string = 16 { data: *const c_char, length: usize, }

    /// A named text.
    value Attribute as tare_attribute = 32 { key: String, value: String, }

    /// An element type.
    value DType as tare_dtype = 4 { code: u8, bits: u8, lanes: u16, }

    /// An axis of an input or output.
    value Dimension as tare_dimension = 24 { size: i64, name: String, }

    /// A concrete shape.
    value Shape as tare_shape = 16 { sizes: *const i64, rank: usize, }

    /// Elements in host memory.
    sized View as tare_view = 48 {
        struct_size: usize,
        data: *mut c_void,
        dtype: DType,
        rank: u32,
        shape: *const i64,
        strides: *const i64,
        byte_offset: u64,
    }

    /// An error, owned by its receiver.
    sized Error as tare_error = 56 {
        struct_size: usize,
        code: i32,
        unused: u32,
        message: String,
        details: String,
        destroy: Option<unsafe extern "C" fn(error: *mut Error)>,
    }

    /// A backend's description.
    sized Description as tare_description = 88 {
        struct_size: usize,
        id: String,
        version: String,
        engine: String,
        engine_version: String,
        extensions: *const String,
        extension_count: usize,
    } => 104 {
        modes: *const String,
        mode_count: usize,
    }

    /// A device.
    sized Device as tare_device = 96 {
        struct_size: usize,
        id: String,
        kind: String,
        name: String,
        memory_bytes: u64,
        precisions: *const String,
        precision_count: usize,
        attributes: *const Attribute,
        attribute_count: usize,
    }

    /// An input or output of a model.
    sized TensorInfo as tare_tensor_info = 40 {
        struct_size: usize,
        name: String,
        dtype: DType,
        rank: i32,
        dimensions: *const Dimension,
    } => 48 {
        kind: u32,
        unused: u32,
    }

    /// A model's inputs and outputs.
    sized ModelInfo as tare_model_info = 40 {
        struct_size: usize,
        inputs: *const *const TensorInfo,
        input_count: usize,
        outputs: *const *const TensorInfo,
        output_count: usize,
    }

    /// Settings that a session uses.
    sized SessionInfo as tare_session_info = 24 {
        struct_size: usize,
        used: *const Attribute,
        used_count: usize,
    }

    /// Arguments of `describe`.
    sized DescribeArgs as tare_describe_args = 24 {
        struct_size: usize,
        backend: *mut Backend,
        description: *const Description,
    }

    /// Arguments of `devices`.
    sized DevicesArgs as tare_devices_args = 32 {
        struct_size: usize,
        backend: *mut Backend,
        devices: *const *const Device,
        device_count: usize,
    }

    /// Arguments of `load`.
    sized LoadArgs as tare_load_args = 88 {
        struct_size: usize,
        backend: *mut Backend,
        path: String,
        device: String,
        threads: u32,
        unused: u32,
        options: *const Attribute,
        option_count: usize,
        model: *mut Model,
        info: *const ModelInfo,
    } => 104 {
        mode: String,
    }

    /// Arguments of `prepare`.
    sized PrepareArgs as tare_prepare_args = 64 {
        struct_size: usize,
        model: *mut Model,
        precision: String,
        shapes: *const Shape,
        shape_count: usize,
        session: *mut Session,
        info: *const SessionInfo,
    } => 88 {
        least: *const Shape,
        greatest: *const Shape,
        shapes_served: u32,
        unused: u32,
    }

    /// Arguments of `run`.
    sized RunArgs as tare_run_args = 56 {
        struct_size: usize,
        session: *mut Session,
        flags: u64,
        inputs: *const *mut Tensor,
        input_count: usize,
        outputs: *mut *mut Tensor,
        output_count: usize,
    }

    /// Arguments of `synchronise`.
    sized SynchroniseArgs as tare_synchronise_args = 16 {
        struct_size: usize,
        session: *mut Session,
    }

    /// Arguments of `release`.
    sized ReleaseArgs as tare_release_args = 16 {
        struct_size: usize,
        session: *mut Session,
    }

    /// Arguments of `unload`.
    sized UnloadArgs as tare_unload_args = 16 {
        struct_size: usize,
        model: *mut Model,
    }

    /// Arguments of `destroy`.
    sized DestroyArgs as tare_destroy_args = 16 {
        struct_size: usize,
        backend: *mut Backend,
    }

    /// Arguments of `tensor_create`.
    sized TensorCreateArgs as tare_tensor_create_args = 32 {
        struct_size: usize,
        model: *mut Model,
        view: *const View,
        tensor: *mut Tensor,
    }

    /// Arguments of `tensor_describe`.
    sized TensorDescribeArgs as tare_tensor_describe_args = 32 {
        struct_size: usize,
        tensor: *mut Tensor,
        dtype: DType,
        rank: u32,
        shape: *const i64,
    } => 40 {
        kind: u32,
        unused: u32,
    }

    /// Arguments of `tensor_read`.
    sized TensorReadArgs as tare_tensor_read_args = 24 {
        struct_size: usize,
        tensor: *mut Tensor,
        view: *const View,
    }

    /// Arguments of `tensor_destroy`.
    sized TensorDestroyArgs as tare_tensor_destroy_args = 16 {
        struct_size: usize,
        tensor: *mut Tensor,
    }

    /// Progress of a call.
    sized Progress as tare_progress = 32 {
        struct_size: usize,
        part: f64,
        doing: String,
    }

    /// The host's functions.
    sized HostApi as tare_host_api = 64 {
        struct_size: usize,
        abi_major: u32,
        abi_minor: u32,
        name: String,
        version: String,
        context: *mut c_void,
        refuse: Option<unsafe extern "C" fn(context: *mut c_void, reason: String)>,
    } => 72 {
        progress: Option<unsafe extern "C" fn(context: *mut c_void, progress: *const Progress)>,
    }

    /// The backend's functions.
    sized BackendApi as tare_backend_api = 136 {
        struct_size: usize,
        abi_major: u32,
        abi_minor: u32,
        backend: *mut Backend,
        describe: Option<Call<DescribeArgs>>,
        devices: Option<Call<DevicesArgs>>,
        load: Option<Call<LoadArgs>>,
        prepare: Option<Call<PrepareArgs>>,
        run: Option<Call<RunArgs>>,
        synchronise: Option<Call<SynchroniseArgs>>,
        release: Option<Call<ReleaseArgs>>,
        unload: Option<Call<UnloadArgs>>,
        destroy: Option<Call<DestroyArgs>>,
        tensor_create: Option<Call<TensorCreateArgs>>,
        tensor_describe: Option<Call<TensorDescribeArgs>>,
        tensor_read: Option<Call<TensorReadArgs>>,
        tensor_destroy: Option<Call<TensorDestroyArgs>>,
        get_extension: Option<GetExtension>,
    }

    /// Arguments of [`DeviceEnergy`]'s `read`.
    sized DeviceEnergyArgs as tare_device_energy_args = 40 {
        struct_size: usize,
        backend: *mut Backend,
        device: String,
        microjoules: u64,
    }

    /// The extension [`DEVICE_ENERGY`].
    sized DeviceEnergy as tare_device_energy = 16 {
        struct_size: usize,
        read: Option<Call<DeviceEnergyArgs>>,
    }

    /// Arguments of [`DeviceMemory`]'s `read`.
    sized DeviceMemoryArgs as tare_device_memory_args = 48 {
        struct_size: usize,
        backend: *mut Backend,
        device: String,
        used_bytes: u64,
        peak_bytes: u64,
    }

    /// The extension [`DEVICE_MEMORY`].
    sized DeviceMemory as tare_device_memory = 16 {
        struct_size: usize,
        read: Option<Call<DeviceMemoryArgs>>,
    }

    /// Arguments of [`DeviceState`]'s `read`.
    sized DeviceStateArgs as tare_device_state_args = 88 {
        struct_size: usize,
        backend: *mut Backend,
        device: String,
        utilisation: f64,
        memory_utilisation: f64,
        clock_hertz: f64,
        memory_clock_hertz: f64,
        temperature_celsius: f64,
        power_watts: f64,
        slowed_known: u32,
        slowed_by: u32,
    }

    /// The extension [`DEVICE_STATE`].
    sized DeviceState as tare_device_state = 16 {
        struct_size: usize,
        read: Option<Call<DeviceStateArgs>>,
    }

    /// Arguments of [`Allocator`]'s `read`.
    sized AllocatorArgs as tare_allocator_args = 56 {
        struct_size: usize,
        session: *mut Session,
        name: String,
        used_bytes: u64,
        peak_bytes: u64,
        reserved_bytes: u64,
    }

    /// The extension [`ALLOCATOR`].
    sized Allocator as tare_allocator = 16 {
        struct_size: usize,
        read: Option<Call<AllocatorArgs>>,
    }

    /// Arguments of [`StageTimes`]'s `run`.
    sized StageTimesArgs as tare_stage_times_args = 40 {
        struct_size: usize,
        run: *mut RunArgs,
        copy_in_ns: u64,
        compute_ns: u64,
        copy_out_ns: u64,
    }

    /// The extension [`STAGE_TIMES`].
    sized StageTimes as tare_stage_times = 16 {
        struct_size: usize,
        run: Option<Call<StageTimesArgs>>,
    }

    /// Arguments of [`DeviceTimer`]'s `run`.
    sized DeviceTimerArgs as tare_device_timer_args = 24 {
        struct_size: usize,
        run: *mut RunArgs,
        device_ns: u64,
    }

    /// The extension [`DEVICE_TIMER`].
    sized DeviceTimer as tare_device_timer = 16 {
        struct_size: usize,
        run: Option<Call<DeviceTimerArgs>>,
    }

    /// An operator in one run.
    sized Operator as tare_operator = 72 {
        struct_size: usize,
        name: String,
        kind: String,
        provider: String,
        start_ns: u64,
        duration_ns: u64,
    }

    /// Arguments of [`Profile`]'s `profile`.
    sized ProfileArgs as tare_profile_args = 48 {
        struct_size: usize,
        session: *mut Session,
        inputs: *const *mut Tensor,
        input_count: usize,
        operators: *const *const Operator,
        operator_count: usize,
    }

    /// The extension [`PROFILE`].
    sized Profile as tare_profile = 16 {
        struct_size: usize,
        profile: Option<Call<ProfileArgs>>,
    }

    /// Arguments of [`Cancel`]'s `cancel`.
    sized CancelArgs as tare_cancel_args = 16 {
        struct_size: usize,
        backend: *mut Backend,
    }

    /// The extension [`CANCEL`].
    sized Cancel as tare_cancel = 16 {
        struct_size: usize,
        cancel: Option<Call<CancelArgs>>,
    }

    /// Arguments of [`Marks`]'s `phases`.
    sized PhasesArgs as tare_phases_args = 32 {
        struct_size: usize,
        session: *mut Session,
        phases: *const String,
        phase_count: usize,
    }

    /// Arguments of [`Marks`]'s `run`.
    sized MarkedRunArgs as tare_marked_run_args = 40 {
        struct_size: usize,
        run: *mut RunArgs,
        phase: u32,
        unused: u32,
        context: *mut c_void,
        mark: Option<Mark>,
    }

    /// The extension [`MARKS`].
    sized Marks as tare_marks = 24 {
        struct_size: usize,
        phases: Option<Call<PhasesArgs>>,
        run: Option<Call<MarkedRunArgs>>,
    }

    /// The extension [`TRAINING`].
    sized Training as tare_training = 16 {
        struct_size: usize,
        evaluate: Option<Call<RunArgs>>,
    }

    /// Arguments of [`PhaseMemory`]'s `run`.
    sized PhaseMemoryArgs as tare_phase_memory_args = 40 {
        struct_size: usize,
        run: *mut RunArgs,
        phase: u32,
        unused: u32,
        peak_bytes: u64,
        used_bytes: u64,
    }

    /// The extension [`PHASE_MEMORY`].
    sized PhaseMemory as tare_phase_memory = 16 {
        struct_size: usize,
        run: Option<Call<PhaseMemoryArgs>>,
    }

    /// The extension [`EXTENSION_THREADS`].
    sized Threads as tare_threads = 8 { struct_size: usize, }
}

/// Name of the extension by which a backend serves several threads at once.
pub const EXTENSION_THREADS: &str = "tare/threads/1";

/// A function of the table that takes one argument struct.
pub type Call<Args> = unsafe extern "C" fn(args: *mut Args) -> *mut Error;

/// The function of the host that takes the time of a moment within a run.
pub type Mark = unsafe extern "C" fn(context: *mut c_void);

/// The function that answers for extensions.
pub type GetExtension = unsafe extern "C" fn(backend: *mut Backend, name: String) -> *const c_void;

macro_rules! handles {
    ($($(#[$meta:meta])* $name:ident)+) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            pub struct $name { opaque: [u8; 0] }
        )+
    };
}

handles! {
    /// A handle to a backend.
    Backend
    /// A handle to a model.
    Model
    /// A handle to a session.
    Session
    /// A handle to a tensor.
    Tensor
}

impl String {
    /// The empty string.
    pub const EMPTY: Self = Self { data: std::ptr::null(), length: 0 };

    /// Borrows text without a lifetime: the caller keeps the text alive.
    #[must_use]
    pub const fn borrow(text: &str) -> Self {
        Self { data: text.as_ptr().cast(), length: text.len() }
    }
}

impl Attribute {
    /// Borrows both texts without a lifetime: the caller keeps them alive.
    #[must_use]
    pub const fn borrow(key: &str, value: &str) -> Self {
        Self { key: String::borrow(key), value: String::borrow(value) }
    }
}

/// A struct from the other side with an impossible size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeError {
    /// The size that it claims.
    pub given: usize,
    /// Its size in ABI 1.0.
    pub least: usize,
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { given, least } = self;
        if given < least {
            write!(f, "claims {given} bytes; ABI 1.0 has {least}")
        } else if *given > LARGEST_STRUCT {
            write!(f, "claims {given} bytes; at most {LARGEST_STRUCT} can be true")
        } else {
            write!(f, "claims {given} bytes, which end within a field")
        }
    }
}

/// Upper limit of a struct's size. A larger one is garbage.
const LARGEST_STRUCT: usize = 1 << 16;

/// Runs `body` with a struct from the other side, which may be older or newer than this one.
///
/// If it is at least as large as this side's, `body` gets the struct itself. If it is smaller, `body` gets a copy in
/// which the fields beyond its size are zero, and the other fields are copied back unless `body` fails.
///
/// # Errors
///
/// Calls `body` with the struct, or `wrong_size` if its size is impossible.
///
/// # Safety
///
/// `pointer` is aligned and points to as many bytes as the struct's `struct_size` says, which nothing else uses
/// meanwhile.
#[inline]
pub unsafe fn with_sized<T: SizedStruct, R, E>(
    pointer: *mut T,
    wrong_size: impl Fn(SizeError) -> E,
    body: impl FnOnce(&mut T) -> Result<R, E>,
) -> Result<R, E> {
    // SAFETY: every sized struct begins with its size, and the caller guarantees the pointer.
    let given = unsafe { pointer.cast::<usize>().read() };
    check_size::<T>(given).map_err(&wrong_size)?;
    if given >= size_of::<T>() {
        // SAFETY: it has room for all fields of this version, and the caller guarantees the rest.
        return body(unsafe { &mut *pointer });
    }
    // SAFETY: guaranteed by the caller.
    let mut copy = unsafe { read_sized(pointer) }.map_err(wrong_size)?;
    let result = body(&mut copy)?;
    // SAFETY: `given` bytes are writable, which are fewer than the copy has.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const copy).cast::<u8>(), pointer.cast(), given);
    }
    Ok(result)
}

/// Checks the size that a struct from the other side states.
///
/// # Errors
///
/// If it is smaller than in ABI 1.0, absurdly large, or ends within a field: half of a count is another count.
pub fn check_size<T: SizedStruct>(given: usize) -> Result<(), SizeError> {
    let whole = given == T::V1_SIZE
        || (size_of::<T>()..=LARGEST_STRUCT).contains(&given)
        || T::APPENDED_ENDS.contains(&given);
    if whole { Ok(()) } else { Err(SizeError { given, least: T::V1_SIZE }) }
}

/// Copies a struct from the other side, reading no further than its stated size; fields
/// beyond it are zero.
///
/// # Errors
///
/// If the size is impossible.
///
/// # Safety
///
/// `pointer` is aligned and points to as many readable bytes as the struct's `struct_size` says.
pub unsafe fn read_sized<T: SizedStruct>(pointer: *const T) -> Result<T, SizeError> {
    // SAFETY: every sized struct begins with its size, and the caller guarantees the pointer.
    let given = unsafe { pointer.cast::<usize>().read() };
    check_size::<T>(given)?;
    let mut copy = std::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: `given` bytes are readable, as many as `T` has are writable, and a sized struct may
    // be all zeros if nothing was copied.
    unsafe {
        let count = given.min(size_of::<T>());
        std::ptr::copy_nonoverlapping(pointer.cast::<u8>(), copy.as_mut_ptr().cast(), count);
        Ok(copy.assume_init())
    }
}
