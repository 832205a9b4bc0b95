//! A plugin through the tool's own loop, and a bare loop over ONNX Runtime's C API, in one process: both should measure
//! the runtime's own time.
//!
//!     onnxruntime_paired FIRST PLUGIN LIBRARY MODEL THREADS SECONDS INPUT …
//!
//! FIRST is `ours` or `bare`: the side that is prepared first, because two copies of a large model in one process are not
//! equally fast. An input is `name:f32:1x3x224x224` or `name:i64:1x128`; it is filled with numbers from a fixed seed.
//! Settings are the engine's defaults: all optimisations, no spinning. One output, `logits`, is made in the first run and
//! reused by the others. `TARE_RUNTIME` must name LIBRARY too, for the plugin.

#[path = "../../../../tests/paired/turns.rs"]
mod turns;

use std::ffi::{CString, c_void};
use std::path::Path;
use std::ptr;
use std::time::Duration;

use ort::AsPointer;
use ort::session::Session;
use ort::session::builder::GraphOptimizationLevel;
use ort::sys::{ONNXTensorElementDataType as ElementType, OrtMemoryInfo, OrtValue};
use plugin_api::client::{DataType, LoadRequest, TensorView};

struct Input {
    name: CString,
    shape: Vec<i64>,
    data: Data,
}

enum Data {
    Floats(Vec<f32>),
    Integers(Vec<i64>),
}

impl Input {
    /// Parses `name:f32:1x3x224x224`.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let (name, dtype, shape) = (parts.next()?, parts.next()?, parts.next()?);
        let shape: Vec<i64> =
            shape.split('x').map(|size| size.parse().ok()).collect::<Option<_>>()?;
        let count = usize::try_from(shape.iter().product::<i64>()).ok()?;
        let mut state = 7_u64;
        let mut bits = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 40
        };
        let data = match dtype {
            "f32" => Data::Floats((0..count).map(|_| bits() as f32 / (1 << 24) as f32).collect()),
            "i64" => Data::Integers(vec![1; count]),
            _ => return None,
        };
        Some(Self { name: CString::new(name).ok()?, shape, data })
    }

    /// Returns a value that borrows the data.
    fn value(&mut self, memory: *const OrtMemoryInfo) -> *mut OrtValue {
        let (data, bytes, dtype): (*mut c_void, usize, _) = match &mut self.data {
            Data::Floats(values) => (
                values.as_mut_ptr().cast(),
                size_of_val(values.as_slice()),
                ElementType::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
            ),
            Data::Integers(values) => (
                values.as_mut_ptr().cast(),
                size_of_val(values.as_slice()),
                ElementType::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64,
            ),
        };
        let mut value = ptr::null_mut();
        // SAFETY: data and shape have the given lengths, and the data outlives the value.
        let status = unsafe {
            (ort::api().CreateTensorWithDataAsOrtValue)(
                memory,
                data,
                bytes,
                self.shape.as_ptr(),
                self.shape.len(),
                dtype,
                &raw mut value,
            )
        };
        assert!(status.0.is_null(), "making an input");
        value
    }
}

impl Input {
    fn name(&self) -> &str {
        self.name.to_str().expect("it was a text")
    }

    /// Returns a view of the data.
    fn view(&self) -> TensorView<'_> {
        let (dtype, bytes) = match &self.data {
            // SAFETY: any number may be read as bytes.
            Data::Floats(values) => (DataType::F32, unsafe { values.align_to::<u8>() }.1),
            // SAFETY: the same.
            Data::Integers(values) => (DataType::I64, unsafe { values.align_to::<u8>() }.1),
        };
        TensorView { dtype, shape: &self.shape, strides: None, bytes }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [first, plugin, library, model, threads, seconds, inputs @ ..] = arguments.as_slice()
    else {
        panic!("usage: onnxruntime_paired FIRST PLUGIN LIBRARY MODEL THREADS SECONDS INPUT …");
    };
    let threads: u32 = threads.parse().expect("a number of threads");
    let duration = Duration::from_secs_f64(seconds.parse().expect("a number of seconds"));
    let inputs = || -> Vec<Input> {
        inputs.iter().map(|text| Input::parse(text).expect("an input")).collect()
    };
    let backend = host_worker::open(Path::new(plugin)).expect("a plugin");
    let ours = || {
        let options = [("engine", "onnxruntime")];
        let request =
            LoadRequest { path: model, device: "cpu:0", threads: Some(threads), options: &options };
        let inputs = inputs();
        let shapes: Vec<_> = inputs.iter().map(|input| input.shape.clone()).collect();
        turns::prepare(&backend, &request, &shapes, |model| {
            let names = model.info().inputs.iter().map(|info| &*info.name);
            assert!(names.eq(inputs.iter().map(Input::name)), "inputs in the model's order");
            inputs.iter().map(|input| model.tensor(input.view()).expect("a tensor")).collect()
        })
    };
    let early = (first == "ours").then(ours);
    let bare = bare(library, model, threads as usize, inputs());
    turns::compare(early.unwrap_or_else(ours), bare, duration);
}

/// Returns a function that runs the model by ONNX Runtime's C API. Nothing of it is freed.
fn bare(library: &str, model: &str, threads: usize, inputs: Vec<Input>) -> impl FnMut() {
    let environment = ort::init_from(library)
        .expect("the library")
        .with_telemetry(false)
        .build()
        .expect("an environment");
    let session = Session::builder(&environment)
        .and_then(|it| Ok(it.with_optimization_level(GraphOptimizationLevel::All)?))
        .and_then(|it| Ok(it.with_intra_threads(threads)?))
        .and_then(|it| Ok(it.with_intra_op_spinning(false)?))
        .and_then(|mut it| it.commit_from_file(model))
        .expect("a session");

    let api = ort::api();
    let mut memory = ptr::null_mut();
    // SAFETY: the call fills in a pointer. 0 and 0: an allocator of the device, the usual memory.
    let status = unsafe {
        (api.CreateCpuMemoryInfo)(
            ort::sys::OrtAllocatorType::OrtDeviceAllocator,
            ort::sys::OrtMemType::OrtMemTypeDefault,
            &raw mut memory,
        )
    };
    assert!(status.0.is_null(), "describing memory");
    let inputs: &mut [Input] = inputs.leak();
    let values: Vec<*const OrtValue> =
        inputs.iter_mut().map(|input| input.value(memory).cast_const()).collect();
    let names: Vec<_> = inputs.iter().map(|input| input.name.as_ptr()).collect();
    let output = c"logits".as_ptr();
    let mut result: *mut OrtValue = ptr::null_mut();
    move || {
        // SAFETY: session, names and values are valid and as many as said.
        let status = unsafe {
            (api.Run)(
                session.ptr().cast_mut(),
                ptr::null(),
                names.as_ptr(),
                values.as_ptr(),
                values.len(),
                &raw const output,
                1,
                &raw mut result,
            )
        };
        assert!(status.0.is_null(), "running");
    }
}
