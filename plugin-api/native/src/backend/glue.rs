//! The C table over a Rust backend.
//!
//! A handle is a box: of an [`Instance`], a [`LoadedModel`], a [`PreparedSession`], or of the backend's
//! own tensor. A box and a pointer to its contents are the same to C, and so are an optional box and a
//! pointer that may be null; so the arrays of handles in `run` are slices of references and of optional
//! boxes, and nothing is copied or allocated.

use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr::{self, NonNull};

use super::storage::{
    StoredDescription, StoredDevices, StoredModelInfo, StoredNames, StoredProfile,
    StoredSessionInfo,
};
use super::{
    Backend, Error, ErrorCode, Host, LoadRequest, Model, Options, PrepareRequest, Progress, Result,
    Session, ShapeBounds, Tensor, ValueKind, View, ViewMut,
};
use crate::abi::{self, SizedStruct};
use crate::types::{AllocatorUse, Dimension, INFERENCE, ModelInfo, ProfiledOperator};

/// Contents of a backend's handle.
pub(super) struct Instance<B> {
    api: abi::BackendApi,
    pub(super) backend: B,
    description: StoredDescription,
    devices: StoredDevices,
    _progress: Ending,
}

/// Ends the connection to the host when dropped: it must not be called again.
struct Ending(Progress);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Contents of a model's handle.
struct LoadedModel<M> {
    model: M,
    info: StoredModelInfo,
}

/// Contents of a session's handle.
struct PreparedSession<S> {
    session: S,
    input_count: usize,
    output_count: usize,
    info: StoredSessionInfo,
    profile: StoredProfile,
    /// Name of its allocator at the last call.
    allocator: String,
    /// Names of its phases, once requested.
    phases: Option<StoredNames>,
}

/// Contents of an error's handle.
#[repr(C)]
struct OwnedError {
    raw: abi::Error,
    message: String,
    details: String,
}

unsafe extern "C" fn destroy_error(error: *mut abi::Error) {
    // SAFETY: it is the first field of a box that `raise` has made.
    drop(unsafe { Box::from_raw(error.cast::<OwnedError>()) });
}

#[cold]
fn raise(error: Error) -> *mut abi::Error {
    let Error { code, message, details } = error;
    let raw = abi::Error {
        struct_size: size_of::<abi::Error>(),
        code: code.to_abi(),
        unused: 0,
        message: abi::String::borrow(&message),
        details: abi::String::borrow(&details),
        destroy: Some(destroy_error),
    };
    Box::into_raw(Box::new(OwnedError { raw, message, details })).cast()
}

#[cold]
fn panicked(payload: &(dyn Any + Send)) -> Error {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("without a message");
    Error::new(ErrorCode::Internal, format!("the backend panicked: {text}"))
}

/// Runs the body of a call: returns a null pointer or an error, and nothing else.
#[inline]
pub(super) fn guard(body: impl FnOnce() -> Result<()>) -> *mut abi::Error {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => ptr::null_mut(),
        Ok(Err(error)) => raise(error),
        Err(payload) => raise(panicked(&*payload)),
    }
}

#[cold]
pub(super) fn impossible_size(error: abi::SizeError) -> Error {
    Error::new(ErrorCode::Version, format!("the size of a struct is impossible: it {error}"))
}

#[cold]
fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::InvalidArgument, message)
}

/// Runs the body of a call with its arguments.
///
/// # Safety
///
/// `args` is null, or points to arguments as the ABI describes them that nothing else uses.
#[inline]
pub(super) unsafe fn call<T: SizedStruct>(
    args: *mut T,
    body: impl FnOnce(&mut T) -> Result<()>,
) -> *mut abi::Error {
    // SAFETY: guaranteed by the caller.
    guard(|| unsafe { with_arguments(args, body) })
}

/// Runs `body` with arguments of any version.
///
/// # Safety
///
/// As for [`call`].
#[inline]
pub(super) unsafe fn with_arguments<T: SizedStruct, R>(
    args: *mut T,
    body: impl FnOnce(&mut T) -> Result<R>,
) -> Result<R> {
    if args.is_null() || !args.is_aligned() {
        return Err(invalid("the arguments are null or misaligned"));
    }
    // SAFETY: they are aligned, and the caller guarantees the rest.
    unsafe { abi::with_sized(args, impossible_size, body) }
}

/// # Safety
///
/// `raw` is valid during `'a`.
pub(super) unsafe fn text<'a>(raw: abi::String, what: &str) -> Result<&'a str> {
    if raw.length == 0 {
        return Ok("");
    }
    if raw.data.is_null() {
        return Err(invalid(format!("{what} is null")));
    }
    // SAFETY: not null, and the caller guarantees the length.
    let bytes = unsafe { std::slice::from_raw_parts(raw.data.cast::<u8>(), raw.length) };
    std::str::from_utf8(bytes).map_err(|error| invalid(format!("{what} is not UTF-8: {error}")))
}

/// # Safety
///
/// `raw` is null or points to `count` values that are valid during `'a`.
#[inline]
unsafe fn list<'a, T>(raw: *const T, count: usize, what: &str) -> Result<&'a [T]> {
    match count {
        0 => Ok(&[]),
        _ if raw.is_null() => Err(invalid(format!("{what} are null"))),
        // SAFETY: not null, and the caller guarantees the count.
        _ => Ok(unsafe { std::slice::from_raw_parts(raw, count) }),
    }
}

/// Returns the contents of a handle.
///
/// # Safety
///
/// `handle` is null, or a box of `T` that nothing else uses.
#[inline]
pub(super) unsafe fn handle<'a, H, T>(handle: *mut H) -> Result<&'a mut T> {
    // SAFETY: guaranteed by the caller.
    unsafe { handle.cast::<T>().as_mut() }.ok_or_else(|| invalid("the handle is null"))
}

/// Returns the contents of a handle that several threads may use at once.
///
/// # Safety
///
/// `handle` is null, or a box of `T` that does not change.
unsafe fn shared<'a, H, T>(handle: *mut H) -> Result<&'a T> {
    // SAFETY: guaranteed by the caller.
    unsafe { handle.cast::<T>().as_ref() }.ok_or_else(|| invalid("the handle is null"))
}

/// Ends a handle.
///
/// # Safety
///
/// As for [`handle`], and it is not used again.
unsafe fn end<H, T>(handle: *mut H) -> Result<()> {
    if handle.is_null() {
        return Err(invalid("the handle is null"));
    }
    // SAFETY: handles come from `Box::into_raw`.
    drop(unsafe { Box::from_raw(handle.cast::<T>()) });
    Ok(())
}

/// Enters a plugin whose backend is `B`; [`export_backend!`](crate::export_backend) calls it.
///
/// # Safety
///
/// `host` is null, or valid until the backend is destroyed.
pub unsafe fn enter<B: Backend>(host: *const abi::HostApi) -> *const abi::BackendApi {
    if host.is_null() || !host.is_aligned() {
        return ptr::null();
    }
    // SAFETY: it is aligned, and the caller guarantees the rest.
    let Ok(host) = (unsafe { abi::read_sized(host) }) else {
        // Such a host may not have `refuse`.
        return ptr::null();
    };
    // SAFETY: strings of the host are valid as long as the host is.
    match catch_unwind(|| unsafe { make::<B>(&host) }) {
        Ok(Ok(instance)) => {
            let instance = Box::into_raw(instance);
            // SAFETY: it was just made; the host uses it until `destroy`.
            unsafe {
                (*instance).api.backend = instance.cast();
                &raw const (*instance).api
            }
        }
        Ok(Err(reason)) => refuse(&host, &reason),
        Err(payload) => refuse(&host, &panicked(&*payload).message),
    }
}

fn refuse(host: &abi::HostApi, reason: &str) -> *const abi::BackendApi {
    if let Some(refuse) = host.refuse {
        // SAFETY: the context is the host's own, and this is within the entry point.
        unsafe { refuse(host.context, abi::String::borrow(reason)) };
    }
    ptr::null()
}

/// # Safety
///
/// The host's strings are valid.
unsafe fn make<B: Backend>(host: &abi::HostApi) -> Result<Box<Instance<B>>, String> {
    if host.abi_major != abi::MAJOR {
        let (major, minor) = (host.abi_major, host.abi_minor);
        return Err(format!("it is for ABI {}, the host speaks {major}.{minor}", abi::MAJOR));
    }
    // SAFETY: guaranteed by the caller.
    let (name, version) = unsafe { (text(host.name, "name"), text(host.version, "version")) };
    let own = |text: Result<&str>| text.map(str::to_owned).map_err(|error| error.message);
    // SAFETY: the host is valid until the instance is dropped, and this with it.
    let progress = Ending(unsafe { Progress::new(host) });
    let host = Host {
        abi: (host.abi_major, host.abi_minor),
        name: own(name)?,
        version: own(version)?,
        progress: progress.0.clone(),
    };
    let backend = B::new(&host)?;
    let description = StoredDescription::new(backend.description());
    Ok(Box::new(Instance {
        api: table::<B>(),
        backend,
        description,
        devices: StoredDevices::default(),
        _progress: progress,
    }))
}

fn table<B: Backend>() -> abi::BackendApi {
    abi::BackendApi {
        struct_size: size_of::<abi::BackendApi>(),
        abi_major: abi::MAJOR,
        abi_minor: abi::MINOR,
        backend: ptr::null_mut(),
        describe: Some(describe::<B>),
        devices: Some(devices::<B>),
        load: Some(load::<B>),
        prepare: Some(prepare::<B::Model>),
        run: Some(run::<B::Model>),
        synchronise: Some(synchronise::<B::Model>),
        release: Some(release::<B::Model>),
        unload: Some(unload::<B::Model>),
        destroy: Some(destroy::<B>),
        tensor_create: Some(tensor_create::<B::Model>),
        tensor_describe: Some(tensor_describe::<B::Model>),
        tensor_read: Some(tensor_read::<B::Model>),
        tensor_destroy: Some(tensor_destroy::<B::Model>),
        get_extension: Some(get_extension::<B>),
    }
}

// In what follows, "the contract" is that of `plugin_api.h`: arguments and handles are null or valid,
// and are used by one thread at a time; those of models and tensors by several if the backend declares that it serves
// them, which `threads` allows only if its types do.

unsafe extern "C" fn describe<B: Backend>(args: *mut abi::DescribeArgs) -> *mut abi::Error {
    let body = |args: &mut abi::DescribeArgs| {
        // SAFETY: the contract.
        let instance = unsafe { handle::<_, Instance<B>>(args.backend) }?;
        args.description = &raw const instance.description.raw;
        Ok(())
    };
    // SAFETY: the contract.
    unsafe { call(args, body) }
}

unsafe extern "C" fn devices<B: Backend>(args: *mut abi::DevicesArgs) -> *mut abi::Error {
    let body = |args: &mut abi::DevicesArgs| {
        // SAFETY: the contract.
        let instance = unsafe { handle::<_, Instance<B>>(args.backend) }?;
        instance.devices = StoredDevices::new(instance.backend.devices()?);
        args.devices = instance.devices.pointers.as_ptr();
        args.device_count = instance.devices.pointers.len();
        Ok(())
    };
    // SAFETY: the contract.
    unsafe { call(args, body) }
}

unsafe extern "C" fn load<B: Backend>(args: *mut abi::LoadArgs) -> *mut abi::Error {
    let body = |args: &mut abi::LoadArgs| {
        // SAFETY: the contract.
        let instance = unsafe { handle::<_, Instance<B>>(args.backend) }?;
        // SAFETY: the contract.
        let (path, device, options) = unsafe {
            (
                text(args.path, "the path")?,
                text(args.device, "the device")?,
                list(args.options, args.option_count, "the options")?,
            )
        };
        let entries: Result<_> = options
            .iter()
            // SAFETY: the contract.
            .map(|option| unsafe {
                Ok((
                    text(option.key, "an option's name")?,
                    text(option.value, "an option's value")?,
                ))
            })
            .collect();
        // SAFETY: the contract.
        let mode = match unsafe { text(args.mode, "the mode") }? {
            "" => INFERENCE,
            mode => mode,
        };
        let modes = instance.description.owned.modes();
        if !modes.contains(&mode) {
            let message = format!("the mode {mode} is not offered; {} is", modes.join(", "));
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        let model = instance.backend.load(&LoadRequest {
            path: Path::new(path),
            device,
            threads: (args.threads > 0).then_some(args.threads),
            options: Options { entries: entries? },
            mode,
        })?;
        let info = StoredModelInfo::new(model.info());
        let loaded = Box::into_raw(Box::new(LoadedModel { model, info }));
        args.model = loaded.cast();
        // SAFETY: it was just made.
        args.info = unsafe { &raw const (*loaded).info.raw };
        Ok(())
    };
    // SAFETY: the contract.
    unsafe { call(args, body) }
}

unsafe extern "C" fn prepare<M: Model>(args: *mut abi::PrepareArgs) -> *mut abi::Error {
    let body = |args: &mut abi::PrepareArgs| {
        // SAFETY: the contract.
        let loaded = unsafe { shared::<_, LoadedModel<M>>(args.model) }?;
        let count = args.shape_count;
        // SAFETY: the contract.
        let (precision, shapes) =
            unsafe { (text(args.precision, "the precision")?, shapes_of(args.shapes, count)?) };
        let model = &loaded.info.owned;
        check_shapes(model, &shapes)?;
        let bounds = if args.least.is_null() && args.greatest.is_null() {
            None
        } else {
            // SAFETY: the contract.
            let bounds =
                unsafe { (shapes_of(args.least, count)?, shapes_of(args.greatest, count)?) };
            check_shapes(model, &bounds.0)?;
            check_shapes(model, &bounds.1)?;
            check_bounds(model, [&bounds.0, &shapes, &bounds.1])?;
            Some(bounds)
        };
        let bounds = bounds.as_ref().map(|(least, greatest)| ShapeBounds { least, greatest });
        let session =
            loaded.model.prepare(&PrepareRequest { precision, shapes: &shapes, bounds })?;
        if bounds.is_some() {
            args.shapes_served = session.shapes_served().to_abi();
        }
        let info = StoredSessionInfo::new(session.used());
        let prepared = Box::into_raw(Box::new(PreparedSession {
            session,
            input_count: loaded.info.owned.inputs.len(),
            output_count: loaded.info.owned.outputs.len(),
            info,
            profile: StoredProfile::default(),
            allocator: String::new(),
            phases: None,
        }));
        args.session = prepared.cast();
        // SAFETY: it was just made.
        args.info = unsafe { &raw const (*prepared).info.raw };
        Ok(())
    };
    // SAFETY: the contract.
    unsafe { call(args, body) }
}

/// # Safety
///
/// `raw` is null or points to `count` shapes that are valid during `'a`.
unsafe fn shapes_of<'a>(raw: *const abi::Shape, count: usize) -> Result<Vec<&'a [i64]>> {
    // SAFETY: guaranteed by the caller.
    let shapes = unsafe { list(raw, count, "the shapes") }?;
    shapes
        .iter()
        // SAFETY: guaranteed by the caller.
        .map(|shape| unsafe { list(shape.sizes, shape.rank, "the sizes of a shape") })
        .collect()
}

/// Checks that the least shapes do not exceed the typical ones, or those the greatest.
fn check_bounds(info: &ModelInfo, ascending: [&[&[i64]]; 3]) -> Result<()> {
    for (index, input) in info.inputs.iter().enumerate() {
        let [least, typical, greatest] = ascending.map(|shapes| shapes[index]);
        let within = |low: &[i64], high: &[i64]| {
            low.len() == high.len() && low.iter().zip(high).all(|(low, high)| low <= high)
        };
        if !within(least, typical) || !within(typical, greatest) {
            let name = &input.name;
            return Err(invalid(format!(
                "the shape {typical:?} of input `{name}` is not between {least:?} and {greatest:?}"
            )));
        }
    }
    Ok(())
}

/// Checks shapes against the model's information about its inputs.
fn check_shapes(info: &ModelInfo, shapes: &[&[i64]]) -> Result<()> {
    let (given, wanted) = (shapes.len(), info.inputs.len());
    if given != wanted {
        return Err(invalid(format!("{given} shapes for a model with {wanted} inputs")));
    }
    let mut named: BTreeMap<&str, i64> = BTreeMap::new();
    for (input, shape) in info.inputs.iter().zip(shapes) {
        let name = &input.name;
        if shape.iter().any(|size| *size < 0) {
            return Err(invalid(format!("input `{name}` cannot have the shape {shape:?}")));
        }
        let Some(dimensions) = &input.dimensions else { continue };
        if dimensions.len() != shape.len() {
            let rank = dimensions.len();
            return Err(invalid(format!(
                "input `{name}` has {rank} axes, not the shape {shape:?}"
            )));
        }
        for (axis, (dimension, &size)) in dimensions.iter().zip(*shape).enumerate() {
            let expected = match dimension {
                Dimension::Fixed(fixed) => i64::try_from(*fixed).unwrap_or(i64::MAX),
                Dimension::Dynamic(dynamic) if dynamic.is_empty() => continue,
                Dimension::Dynamic(dynamic) => *named.entry(dynamic).or_insert(size),
            };
            if expected != size {
                let message =
                    format!("axis {axis} of input `{name}` must be {expected}, not {size}");
                return Err(invalid(message));
            }
        }
    }
    Ok(())
}

/// Runs. This is in every latency that is measured, so arguments without a fault take a short path: all their checks are
/// made, and which one failed is found out only if one does.
unsafe extern "C" fn run<M: Model>(args: *mut abi::RunArgs) -> *mut abi::Error {
    // SAFETY: the contract.
    let Some(faultless) = (unsafe { Faultless::<M>::of(args) }) else {
        // SAFETY: the contract.
        return unsafe { run_in_doubt::<M>(args) };
    };
    guard(|| {
        let Faultless { flags, session, inputs, outputs } = faultless;
        match flags {
            0 => session.run(inputs, &mut *outputs)?,
            abi::RUN_ENQUEUE => session.enqueue(inputs, &mut *outputs)?,
            flags => return Err(unknown_flags(flags)),
        }
        if outputs.iter().any(Option::is_none) { Err(left_empty()) } else { Ok(()) }
    })
}

/// Arguments of a run that pass all checks of [`run_checked`].
struct Faultless<'a, M: Model> {
    flags: u64,
    session: &'a mut M::Session,
    inputs: &'a [&'a M::Tensor],
    outputs: &'a mut [Option<Box<M::Tensor>>],
}

impl<M: Model> Faultless<'_, M> {
    /// Returns the parts of the arguments; `None` if a check fails, or they are of another version.
    ///
    /// # Safety
    ///
    /// The arguments are as the contract has them.
    #[inline(always)]
    unsafe fn of(args: *mut abi::RunArgs) -> Option<Self> {
        if args.is_null() {
            return None;
        }
        if !args.is_aligned() {
            return None;
        }
        // SAFETY: every sized struct begins with its size, and the contract guarantees the pointer.
        let given = unsafe { args.cast::<usize>().read() };
        // A host of another version is served as well, in more steps.
        if given != size_of::<abi::RunArgs>() {
            return None;
        }
        // SAFETY: it has all fields of this version, and the contract guarantees the rest.
        let args = unsafe { &*args };
        // SAFETY: the contract.
        let prepared = unsafe { args.session.cast::<PreparedSession<M::Session>>().as_mut() }?;
        if args.input_count != prepared.input_count || args.output_count != prepared.output_count {
            return None;
        }
        // Null is right for a model without inputs or outputs, which is rare.
        if args.inputs.is_null() || args.outputs.is_null() {
            return None;
        }
        // SAFETY: not null, and the contract guarantees the count; a pointer that may be null is an optional reference.
        let inputs: &[Option<&M::Tensor>] =
            unsafe { std::slice::from_raw_parts(args.inputs.cast(), args.input_count) };
        if inputs.iter().any(Option::is_none) {
            return None;
        }
        Some(Self {
            flags: args.flags,
            session: &mut prepared.session,
            // SAFETY: none is null, so they are references.
            inputs: unsafe { std::slice::from_raw_parts(inputs.as_ptr().cast(), inputs.len()) },
            // SAFETY: not null, and the contract guarantees the count; a pointer that may be null is an optional box.
            outputs: unsafe {
                std::slice::from_raw_parts_mut(args.outputs.cast(), args.output_count)
            },
        })
    }
}

/// Runs with arguments that have a fault, which it names, or that are of another version.
///
/// # Safety
///
/// The arguments are as the contract has them.
#[cold]
unsafe fn run_in_doubt<M: Model>(args: *mut abi::RunArgs) -> *mut abi::Error {
    let body = |args: &mut abi::RunArgs| {
        let flags = args.flags;
        // SAFETY: the contract.
        unsafe {
            run_checked::<M, _>(args, true, |session, inputs, outputs| match flags {
                0 => session.run(inputs, outputs),
                abi::RUN_ENQUEUE => session.enqueue(inputs, outputs),
                flags => Err(unknown_flags(flags)),
            })
        }
    };
    // SAFETY: the contract.
    unsafe { call(args, body) }
}

#[cold]
fn unknown_flags(flags: u64) -> Error {
    Error::new(ErrorCode::Unsupported, format!("unknown flags {flags:#x}"))
}

#[cold]
fn left_empty() -> Error {
    Error::new(ErrorCode::Internal, "the backend left an output empty")
}

/// Runs in a way other than `run`, with the arguments of a run.
///
/// # Safety
///
/// The arguments are as the contract has them.
pub(super) unsafe fn run_with<M: Model, T>(
    args: *mut abi::RunArgs,
    run: impl FnOnce(&mut M::Session, &[&M::Tensor], &mut [Option<Box<M::Tensor>>]) -> Result<T>,
) -> Result<T> {
    // SAFETY: guaranteed by the caller.
    unsafe { with_arguments(args, |args| run_checked::<M, T>(args, true, run)) }
}

/// Runs with the inputs and outputs of a call. Outputs must exist afterwards if the run is whole.
///
/// # Safety
///
/// The arguments are as the contract has them.
#[inline]
unsafe fn run_checked<M: Model, T>(
    args: &mut abi::RunArgs,
    whole: bool,
    run: impl FnOnce(&mut M::Session, &[&M::Tensor], &mut [Option<Box<M::Tensor>>]) -> Result<T>,
) -> Result<T> {
    // SAFETY: the contract.
    let prepared = unsafe { handle::<_, PreparedSession<M::Session>>(args.session) }?;
    if (args.input_count, args.output_count) != (prepared.input_count, prepared.output_count) {
        return Err(wrong_counts(args, prepared.input_count, prepared.output_count));
    }
    // SAFETY: the contract.
    let inputs = unsafe { inputs_of::<M>(args.inputs, args.input_count) }?;
    if args.outputs.is_null() && args.output_count > 0 {
        return Err(invalid("the outputs are null"));
    }
    let outputs: &mut [Option<Box<M::Tensor>>] = if args.output_count == 0 {
        &mut []
    } else {
        // SAFETY: the contract; a pointer that may be null is an optional box.
        unsafe { std::slice::from_raw_parts_mut(args.outputs.cast(), args.output_count) }
    };
    let result = run(&mut prepared.session, inputs, outputs)?;
    if whole && outputs.iter().any(Option::is_none) {
        return Err(left_empty());
    }
    Ok(result)
}

/// # Safety
///
/// `raw` is null or points to `count` handles of tensors that are valid during `'a`.
#[inline]
unsafe fn inputs_of<'a, M: Model>(
    raw: *const *mut abi::Tensor,
    count: usize,
) -> Result<&'a [&'a M::Tensor]> {
    // SAFETY: the contract; a pointer that may be null is an optional reference.
    let inputs: &[Option<&M::Tensor>] = unsafe { list(raw.cast(), count, "the inputs") }?;
    if inputs.iter().any(Option::is_none) {
        return Err(invalid("an input is null"));
    }
    // SAFETY: none is null, so they are references.
    Ok(unsafe { std::slice::from_raw_parts(inputs.as_ptr().cast(), inputs.len()) })
}

/// Profiles with the inputs of a call, and keeps the result with the session.
///
/// # Safety
///
/// The arguments are as the contract has them.
pub(super) unsafe fn profile_with<M: Model>(
    args: &mut abi::ProfileArgs,
    profile: impl FnOnce(&mut M::Session, &[&M::Tensor]) -> Result<Vec<ProfiledOperator>>,
) -> Result<()> {
    // SAFETY: the contract.
    let prepared = unsafe { handle::<_, PreparedSession<M::Session>>(args.session) }?;
    let (given, wanted) = (args.input_count, prepared.input_count);
    if given != wanted {
        return Err(invalid(format!("{given} inputs given, {wanted} wanted")));
    }
    // SAFETY: the contract.
    let inputs = unsafe { inputs_of::<M>(args.inputs, args.input_count) }?;
    prepared.profile = StoredProfile::new(profile(&mut prepared.session, inputs)?);
    args.operators = prepared.profile.pointers.as_ptr();
    args.operator_count = prepared.profile.pointers.len();
    Ok(())
}

/// Writes the names of a session's phases, and keeps them with it.
///
/// # Safety
///
/// The arguments are as the contract has them.
pub(super) unsafe fn phases_with<M: Model>(
    args: &mut abi::PhasesArgs,
    phases: impl FnOnce(&M::Session) -> Vec<String>,
) -> Result<()> {
    // SAFETY: the contract.
    let prepared = unsafe { handle::<_, PreparedSession<M::Session>>(args.session) }?;
    let names = prepared.phases.get_or_insert_with(|| StoredNames::new(phases(&prepared.session)));
    args.phases = names.raw.as_ptr();
    args.phase_count = names.raw.len();
    Ok(())
}

/// Runs one phase.
///
/// # Safety
///
/// The arguments are as the contract has them.
pub(super) unsafe fn phase_with<M: Model>(
    args: *mut abi::RunArgs,
    phase: usize,
    phases: impl FnOnce(&M::Session) -> usize,
    run: impl FnOnce(&mut M::Session, &[&M::Tensor], &mut [Option<Box<M::Tensor>>]) -> Result<()>,
) -> Result<()> {
    let body = |args: &mut abi::RunArgs| {
        // SAFETY: the contract.
        let prepared = unsafe { handle::<_, PreparedSession<M::Session>>(args.session) }?;
        let count = match &prepared.phases {
            Some(names) => names.raw.len(),
            None => phases(&prepared.session),
        };
        if phase >= count.max(1) {
            return Err(invalid(format!("there is no phase {phase} of {count}")));
        }
        // SAFETY: the contract.
        unsafe { run_checked::<M, _>(args, phase + 1 >= count, run) }
    };
    // SAFETY: guaranteed by the caller.
    unsafe { with_arguments(args, body) }
}

/// Reads a session's allocator.
///
/// # Safety
///
/// The arguments are as the ABI describes them.
pub(super) unsafe fn allocator_with<M: Model>(
    args: &mut abi::AllocatorArgs,
    read: impl FnOnce(&mut M::Session) -> Result<AllocatorUse>,
) -> Result<()> {
    // SAFETY: the contract.
    let prepared = unsafe { handle::<_, PreparedSession<M::Session>>(args.session) }?;
    let found = read(&mut prepared.session)?;
    prepared.allocator = found.name;
    args.name = abi::String::borrow(&prepared.allocator);
    args.used_bytes = found.used_bytes;
    args.peak_bytes = found.peak_bytes.unwrap_or(0);
    args.reserved_bytes = found.reserved_bytes.unwrap_or(0);
    Ok(())
}

#[cold]
fn wrong_counts(args: &abi::RunArgs, inputs: usize, outputs: usize) -> Error {
    let abi::RunArgs { input_count, output_count, .. } = args;
    invalid(format!(
        "{input_count} inputs and {output_count} outputs given, {inputs} and {outputs} wanted"
    ))
}

unsafe extern "C" fn synchronise<M: Model>(args: *mut abi::SynchroniseArgs) -> *mut abi::Error {
    let body = |args: &mut abi::SynchroniseArgs| {
        // SAFETY: the contract.
        unsafe { handle::<_, PreparedSession<M::Session>>(args.session) }?.session.synchronise()
    };
    // SAFETY: the contract.
    unsafe { call(args, body) }
}

unsafe extern "C" fn release<M: Model>(args: *mut abi::ReleaseArgs) -> *mut abi::Error {
    // SAFETY: the contract.
    let body = |args: &mut abi::ReleaseArgs| unsafe {
        end::<_, PreparedSession<M::Session>>(args.session)
    };
    // SAFETY: the contract.
    unsafe { call(args, body) }
}

unsafe extern "C" fn unload<M: Model>(args: *mut abi::UnloadArgs) -> *mut abi::Error {
    // SAFETY: the contract.
    let body = |args: &mut abi::UnloadArgs| unsafe { end::<_, LoadedModel<M>>(args.model) };
    // SAFETY: the contract.
    unsafe { call(args, body) }
}

unsafe extern "C" fn destroy<B: Backend>(args: *mut abi::DestroyArgs) -> *mut abi::Error {
    // SAFETY: the contract.
    let body = |args: &mut abi::DestroyArgs| unsafe { end::<_, Instance<B>>(args.backend) };
    // SAFETY: the contract.
    unsafe { call(args, body) }
}

unsafe extern "C" fn tensor_create<M: Model>(args: *mut abi::TensorCreateArgs) -> *mut abi::Error {
    let body = |args: &mut abi::TensorCreateArgs| {
        // SAFETY: the contract.
        let loaded = unsafe { shared::<_, LoadedModel<M>>(args.model) }?;
        // SAFETY: the contract.
        let view = unsafe { View::new(args.view) }?;
        args.tensor = Box::into_raw(Box::new(loaded.model.tensor(&view)?)).cast();
        Ok(())
    };
    // SAFETY: the contract.
    unsafe { call(args, body) }
}

unsafe extern "C" fn tensor_describe<M: Model>(
    args: *mut abi::TensorDescribeArgs,
) -> *mut abi::Error {
    let body = |args: &mut abi::TensorDescribeArgs| {
        // SAFETY: the contract.
        let tensor = unsafe { shared::<_, M::Tensor>(args.tensor) }?;
        let kind = tensor.kind();
        if kind != ValueKind::Tensor {
            let end = std::mem::offset_of!(abi::TensorDescribeArgs, kind) + size_of::<u32>();
            if args.struct_size < end {
                return Err(not_a_tensor(kind));
            }
            args.kind = kind.to_abi();
            return Ok(());
        }
        let shape = tensor.shape();
        args.dtype = tensor.dtype().to_abi();
        args.rank = shape.len() as u32;
        args.shape = shape.as_ptr();
        Ok(())
    };
    // SAFETY: the contract.
    unsafe { call(args, body) }
}

unsafe extern "C" fn tensor_read<M: Model>(args: *mut abi::TensorReadArgs) -> *mut abi::Error {
    let body = |args: &mut abi::TensorReadArgs| {
        // SAFETY: the contract.
        let tensor = unsafe { shared::<_, M::Tensor>(args.tensor) }?;
        if tensor.kind() != ValueKind::Tensor {
            return Err(not_a_tensor(tensor.kind()));
        }
        // SAFETY: the contract.
        let mut view = unsafe { ViewMut::new(args.view) }?;
        if (view.dtype(), view.shape()) != (tensor.dtype(), tensor.shape()) {
            return Err(invalid(format!(
                "the tensor is {} {:?}, the view {} {:?}",
                tensor.dtype(),
                tensor.shape(),
                view.dtype(),
                view.shape()
            )));
        }
        if tensor.dtype().is_text() {
            let texts = tensor.texts().ok_or_else(|| {
                Error::new(ErrorCode::Internal, "the backend has a tensor of text without texts")
            })?;
            return view.write_texts(texts);
        }
        tensor.read(&mut view)
    };
    // SAFETY: the contract.
    unsafe { call(args, body) }
}

#[cold]
fn not_a_tensor(kind: ValueKind) -> Error {
    Error::new(ErrorCode::Unsupported, format!("it is a {}, not a tensor", kind.name()))
}

unsafe extern "C" fn tensor_destroy<M: Model>(
    args: *mut abi::TensorDestroyArgs,
) -> *mut abi::Error {
    // SAFETY: the contract.
    let body = |args: &mut abi::TensorDestroyArgs| unsafe { end::<_, M::Tensor>(args.tensor) };
    // SAFETY: the contract.
    unsafe { call(args, body) }
}

/// Returns the table of the extension [`abi::EXTENSION_THREADS`], for
/// [`Backend::extension`]. The types ensure that `B` may offer it.
#[must_use]
pub fn threads<B: Backend>() -> NonNull<c_void>
where
    B::Model: Sync,
    <B::Model as Model>::Tensor: Send + Sync,
    <B::Model as Model>::Session: Send,
{
    static TABLE: abi::Threads = abi::Threads { struct_size: size_of::<abi::Threads>() };
    NonNull::from(&TABLE).cast()
}

unsafe extern "C" fn get_extension<B: Backend>(
    backend: *mut abi::Backend,
    name: abi::String,
) -> *const c_void {
    let found = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the contract.
        let instance = unsafe { shared::<_, Instance<B>>(backend) }.ok()?;
        // SAFETY: the contract.
        instance.backend.extension(unsafe { text(name, "the name") }.ok()?)
    }));
    found.ok().flatten().map_or(ptr::null(), |table| table.as_ptr().cast_const())
}
