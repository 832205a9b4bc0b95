//! A bare loop over ONNX Runtime's C API, for comparison: a case with this engine should measure the runtime's own
//! time.
//!
//!     bare LIBRARY MODEL THREADS SECONDS INPUT …
//!
//! An input is `name:f32:1x3x224x224` or `name:i64:1x128`; it is filled with numbers from a fixed seed.
//! Settings are the engine's defaults: all optimisations, no spinning. One output, `logits`, is created in the first
//! run and reused by the others. Prints one line of JSON with the latencies.

use std::ffi::{CString, c_void};
use std::ptr;
use std::time::{Duration, Instant};

use ort::AsPointer;
use ort::session::Session;
use ort::session::builder::GraphOptimizationLevel;
use ort::sys::{ONNXTensorElementDataType as ElementType, OrtMemoryInfo, OrtValue};

/// Untimed warm-up, so that everything is allocated and cached.
const WARM_UP: Duration = Duration::from_millis(500);

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

#[expect(clippy::print_stdout, reason = "the answer")]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [library, model, threads, seconds, inputs @ ..] = arguments.as_slice() else {
        panic!("usage: bare LIBRARY MODEL THREADS SECONDS INPUT …");
    };
    let threads: usize = threads.parse().expect("a number of threads");
    let duration = Duration::from_secs_f64(seconds.parse().expect("a number of seconds"));
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
    let mut inputs: Vec<Input> =
        inputs.iter().map(|text| Input::parse(text).expect("an input")).collect();
    let values: Vec<*const OrtValue> =
        inputs.iter_mut().map(|input| input.value(memory).cast_const()).collect();
    let names: Vec<_> = inputs.iter().map(|input| input.name.as_ptr()).collect();
    let output = c"logits".as_ptr();
    let mut result: *mut OrtValue = ptr::null_mut();
    let mut run = || {
        // SAFETY: session, names and values are valid, and the counts are correct.
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
    };
    let start = Instant::now();
    run();
    while start.elapsed() < WARM_UP {
        run();
    }
    let mut latencies: Vec<u64> = Vec::new();
    let start = Instant::now();
    let mut before = start;
    while before - start < duration || latencies.len() < 5 {
        run();
        let after = Instant::now();
        latencies.push((after - before).as_nanos() as u64);
        before = after;
    }
    println!("{{\"latencies_ns\": {latencies:?}}}");
}
