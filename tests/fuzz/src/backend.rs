/*!
A hostile backend, whose every answer comes from the input.

Pointers are null, or point to as many values as their count says, or the count exceeds the limit of lists. A wild
pointer cannot be distinguished from a valid one, and would crash the process, which is the worker's risk.
*/

use std::any::Any;
use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr;

use plugin_api::abi;
use plugin_api::client::{Backend, DataType, LoadRequest, TensorView};

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

/// The rest of the input, and the values that answers point to.
#[derive(Default)]
struct State {
    rest: Vec<u8>,
    kept: Vec<Box<dyn Any>>,
}

/// Returns the next byte of the input; zero at its end.
fn byte() -> u8 {
    STATE.with_borrow_mut(|state| state.rest.pop().unwrap_or(0))
}

fn number() -> u64 {
    match byte() {
        255 => u64::MAX,
        254 => i64::MAX as u64,
        253 => u64::from_le_bytes(std::array::from_fn(|_| byte())),
        small => u64::from(small),
    }
}

/// Keeps a value until the next input, and returns its address.
fn keep<T: 'static>(value: T) -> *const T {
    let kept = Box::new(value);
    let address = &raw const *kept;
    STATE.with_borrow_mut(|state| state.kept.push(kept));
    address
}

/// Returns a list: mostly short, sometimes null, or with more values than allowed.
fn list<T: 'static>(make: fn() -> T) -> (*const T, usize) {
    let length = usize::from(byte());
    match length {
        255 => (ptr::null(), 3),
        254 => (keep(make()), usize::MAX),
        _ => {
            let values: Box<[T]> = (0..length % 8).map(|_| make()).collect();
            let first = values.as_ptr();
            STATE.with_borrow_mut(|state| state.kept.push(Box::new(values)));
            (first, length % 8)
        }
    }
}

fn text() -> abi::String {
    let (data, length) = list(byte);
    abi::String { data: data.cast(), length }
}

fn attribute() -> abi::Attribute {
    abi::Attribute { key: text(), value: text() }
}

/// Returns the size that a struct claims: its own, or another.
fn size<T>() -> usize {
    match byte() {
        255 => usize::MAX,
        254 => 0,
        253 => usize::from(byte()),
        _ => size_of::<T>(),
    }
}

/// Returns a pointer to a struct, sometimes null.
fn pointer<T: 'static>(make: fn() -> T) -> *const T {
    if byte() == 255 { ptr::null() } else { keep(make()) }
}

fn description() -> abi::Description {
    let (extensions, extension_count) = list(text);
    let (modes, mode_count) = list(text);
    abi::Description {
        struct_size: size::<abi::Description>(),
        id: text(),
        version: text(),
        engine: text(),
        engine_version: text(),
        extensions,
        extension_count,
        modes,
        mode_count,
    }
}

fn device() -> *const abi::Device {
    pointer(|| {
        let (precisions, precision_count) = list(text);
        let (attributes, attribute_count) = list(attribute);
        abi::Device {
            struct_size: size::<abi::Device>(),
            id: text(),
            kind: text(),
            name: text(),
            memory_bytes: number(),
            precisions,
            precision_count,
            attributes,
            attribute_count,
        }
    })
}

fn dtype() -> abi::DType {
    match byte() {
        255 => abi::DType { code: byte(), bits: byte(), lanes: u16::from(byte()) },
        _ => DataType::F32.to_abi(),
    }
}

fn dimension() -> abi::Dimension {
    abi::Dimension { size: number().cast_signed(), name: text() }
}

fn tensor_info() -> *const abi::TensorInfo {
    pointer(|| {
        let (dimensions, rank) = list(dimension);
        abi::TensorInfo {
            struct_size: size::<abi::TensorInfo>(),
            name: text(),
            dtype: dtype(),
            rank: if byte() == 255 { -1 } else { rank as i32 },
            dimensions,
            kind: u32::from(byte() % 8),
            unused: 0,
        }
    })
}

fn model_info() -> abi::ModelInfo {
    let (inputs, input_count) = list(tensor_info);
    let (outputs, output_count) = list(tensor_info);
    abi::ModelInfo {
        struct_size: size::<abi::ModelInfo>(),
        inputs,
        input_count,
        outputs,
        output_count,
    }
}

/// Returns an error for most odd bytes, else none.
fn outcome() -> *mut abi::Error {
    if byte() < 200 {
        return ptr::null_mut();
    }
    keep(abi::Error {
        struct_size: size::<abi::Error>(),
        code: i32::from(byte()) - 8,
        unused: 0,
        message: text(),
        details: text(),
        destroy: None,
    })
    .cast_mut()
}

/// Returns a handle, sometimes null.
fn handle<T>() -> *mut T {
    if byte() == 255 { ptr::null_mut() } else { keep(0_u64).cast_mut().cast() }
}

unsafe extern "C" fn describe(args: *mut abi::DescribeArgs) -> *mut abi::Error {
    // SAFETY: the host passes its arguments.
    unsafe { (*args).description = pointer(description) };
    outcome()
}

unsafe extern "C" fn devices(args: *mut abi::DevicesArgs) -> *mut abi::Error {
    // SAFETY: as above.
    unsafe { ((*args).devices, (*args).device_count) = list(device) };
    outcome()
}

unsafe extern "C" fn load(args: *mut abi::LoadArgs) -> *mut abi::Error {
    // SAFETY: as above.
    unsafe {
        (*args).model = handle();
        (*args).info = pointer(model_info);
    }
    outcome()
}

unsafe extern "C" fn prepare(args: *mut abi::PrepareArgs) -> *mut abi::Error {
    let (used, used_count) = list(attribute);
    let size = size::<abi::SessionInfo>();
    let info = keep(abi::SessionInfo { struct_size: size, used, used_count });
    // SAFETY: as above.
    unsafe {
        (*args).session = handle();
        (*args).info = info;
        (*args).shapes_served = u32::from(byte());
    }
    outcome()
}

unsafe extern "C" fn run(args: *mut abi::RunArgs) -> *mut abi::Error {
    // SAFETY: the host passes as many places as its count says.
    unsafe {
        for index in 0..(*args).output_count {
            *(*args).outputs.add(index) = handle();
        }
    }
    outcome()
}

unsafe extern "C" fn tensor_create(args: *mut abi::TensorCreateArgs) -> *mut abi::Error {
    // SAFETY: as above.
    unsafe { (*args).tensor = handle() };
    outcome()
}

unsafe extern "C" fn tensor_describe(args: *mut abi::TensorDescribeArgs) -> *mut abi::Error {
    let (shape, rank) = list(|| number().cast_signed());
    // SAFETY: as above.
    unsafe {
        (*args).dtype = dtype();
        (*args).shape = shape;
        (*args).rank = rank as u32;
        (*args).kind = u32::from(byte() % 8);
    }
    outcome()
}

macro_rules! only_outcome {
    ($($name:ident: $arguments:ident),+) => {
        $(unsafe extern "C" fn $name(_: *mut abi::$arguments) -> *mut abi::Error {
            outcome()
        })+
    };
}
only_outcome! {
    synchronise: SynchroniseArgs, release: ReleaseArgs, unload: UnloadArgs, destroy: DestroyArgs,
    tensor_read: TensorReadArgs, tensor_destroy: TensorDestroyArgs
}

unsafe extern "C" fn get_extension(_: *mut abi::Backend, _: abi::String) -> *const c_void {
    ptr::null()
}

unsafe extern "C" fn entry(host: *const abi::HostApi) -> *const abi::BackendApi {
    // SAFETY: the host's table is valid, and its functions take the context that it gave.
    unsafe {
        if let (255, Some(refuse)) = (byte(), (*host).refuse) {
            refuse((*host).context, text());
        }
        if let (255, Some(progress)) = (byte(), (*host).progress) {
            let size = size::<abi::Progress>();
            let part = f64::from_bits(number());
            let doing = text();
            progress(
                (*host).context,
                &raw const *keep(abi::Progress { struct_size: size, part, doing }),
            );
        }
    }
    pointer(|| abi::BackendApi {
        struct_size: size::<abi::BackendApi>(),
        abi_major: if byte() == 255 { u32::from(byte()) } else { abi::MAJOR },
        abi_minor: u32::from(byte()),
        backend: handle(),
        describe: (byte() != 255).then_some(describe),
        devices: Some(devices),
        load: Some(load),
        prepare: Some(prepare),
        run: Some(run),
        synchronise: Some(synchronise),
        release: Some(release),
        unload: Some(unload),
        destroy: Some(destroy),
        tensor_create: Some(tensor_create),
        tensor_describe: Some(tensor_describe),
        tensor_read: Some(tensor_read),
        tensor_destroy: Some(tensor_destroy),
        get_extension: Some(get_extension),
    })
}

/// Opens the backend, and makes the calls of a worker.
pub(crate) fn backend(data: &[u8]) {
    STATE.with_borrow_mut(|state| {
        state.kept.clear();
        state.rest = data.iter().rev().copied().collect();
    });
    // SAFETY: the entry point is in this module, and all its answers are kept until the next input.
    let Ok(backend) = (unsafe { Backend::open(entry) }) else { return };
    let _ = backend.describe();
    let _ = backend.devices();
    let request = LoadRequest { path: "model.onnx", device: "cpu", threads: None, options: &[] };
    let Ok(model) = backend.load(&request) else { return };
    // An answer that is not an error must be usable.
    let inputs = model.info().inputs.clone();
    assert!(!model.info().outputs.is_empty());
    let shapes: Vec<Vec<i64>> =
        inputs.iter().map(|input| vec![1; input.dimensions.as_ref().map_or(0, Vec::len)]).collect();
    let Ok(session) = model.prepare("fp32", &shapes) else { return };
    let tensors: Result<Vec<_>, _> = shapes
        .iter()
        .map(|shape| {
            let view = TensorView { dtype: DataType::F32, shape, strides: None, bytes: &[0; 4] };
            model.tensor(view)
        })
        .collect();
    let Ok(tensors) = tensors else { return };
    let Ok(mut call) = session.call(tensors) else { return };
    if call.run().is_err() {
        return;
    }
    let _ = call.check_outputs();
    for index in 0..model.info().outputs.len() {
        let _ = call.output_kind(index);
        let _ = call.read_output(index);
        let _ = call.read_texts(index);
    }
}
