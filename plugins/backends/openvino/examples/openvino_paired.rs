//! The plugin through the tool's own loop, and a bare loop over OpenVINO's C interface, in one process: both should measure
//! the runtime's own time.
//!
//!     openvino_paired FIRST MODEL THREADS SECONDS SHAPE …
//!
//! FIRST is `ours` or `bare`: the side that is prepared first, because two copies of a large model in one process are not
//! equally fast. A shape is written as `1x3x224x224`, one for each input; elements are zeros. `TARE_RUNTIME` must name
//! OpenVINO's folder.

#[path = "../../../../tests/paired/turns.rs"]
mod turns;

use std::ffi::CString;
use std::ptr;
use std::time::Duration;

use openvino_sys as sys;
use plugin_api::client::{Backend, DataType, LoadRequest, TensorView};

fn ok(status: sys::ov_status_e) {
    assert_eq!(status, sys::ov_status_e::OK);
}

/// Returns a function that runs the model by OpenVINO's C interface, with the plugin's properties. Nothing of it is freed.
fn bare(path: &str, threads: &str, shapes: &[Vec<i64>]) -> impl FnMut() {
    let text = |text: &str| CString::new(text).expect("no zero in it");
    let (path, device) = (text(path), text("CPU"));
    let properties = [
        ("PERFORMANCE_HINT", "LATENCY"),
        ("EXECUTION_MODE_HINT", "PERFORMANCE"),
        ("INFERENCE_PRECISION_HINT", "f32"),
        ("INFERENCE_NUM_THREADS", threads),
    ]
    .map(|(key, value)| (text(key), text(value)));
    let properties: Vec<_> = properties
        .iter()
        .map(|(key, value)| sys::ov_property_t { key: key.as_ptr(), value: value.as_ptr().cast() })
        .collect();
    let (mut core, mut model) = (ptr::null_mut(), ptr::null_mut());
    let (mut compiled, mut request) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the library is loaded by the plugin; everything is made before it is used, and nothing
    // is freed.
    unsafe {
        ok(sys::ov_core_create(&raw mut core));
        ok(sys::ov_core_read_model(core, path.as_ptr(), ptr::null(), &raw mut model));
        let partial: Vec<_> = shapes
            .iter()
            .map(|shape| {
                let none = sys::ov_dimension_t { min: 0, max: 0 };
                let mut raw = sys::ov_partial_shape_t { rank: none, dims: ptr::null_mut() };
                let rank = shape.len() as i64;
                ok(sys::ov_partial_shape_create_static(rank, shape.as_ptr(), &raw mut raw));
                raw
            })
            .collect();
        let indexes: Vec<usize> = (0..shapes.len()).collect();
        ok(sys::ov_model_reshape_by_port_indexes(
            model,
            indexes.as_ptr(),
            partial.as_ptr(),
            indexes.len(),
        ));
        ok(sys::ov_core_compile_model_props(
            core,
            model,
            device.as_ptr(),
            properties.len(),
            properties.as_ptr(),
            &raw mut compiled,
        ));
        ok(sys::ov_compiled_model_create_infer_request(compiled, &raw mut request));
        // The request's own inputs hold old values; zeros are what the plugin gets.
        for index in indexes {
            let (mut tensor, mut data, mut size) = (ptr::null_mut(), ptr::null_mut(), 0);
            ok(sys::ov_infer_request_get_input_tensor_by_index(request, index, &raw mut tensor));
            ok(sys::ov_tensor_get_byte_size(tensor, &raw mut size));
            ok(sys::ov_tensor_data(tensor, &raw mut data));
            data.cast::<u8>().write_bytes(0, size);
        }
    }
    // SAFETY: the request is never freed.
    move || ok(unsafe { sys::ov_infer_request_infer(request) })
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [first, path, threads, seconds, shapes @ ..] = arguments.as_slice() else {
        panic!("usage: openvino_paired FIRST MODEL THREADS SECONDS SHAPE …");
    };
    let sizes =
        |shape: &String| shape.split('x').map(|size| size.parse().expect("a size")).collect();
    let shapes: Vec<Vec<i64>> = shapes.iter().map(sizes).collect();
    let duration = Duration::from_secs_f64(seconds.parse().expect("a number of seconds"));
    let count = Some(threads.parse().expect("a number of threads"));
    // SAFETY: this is the backend's own entry point, and is opened once.
    let backend = unsafe { Backend::open(backend_openvino::tare_backend_v1) }.expect("the backend");
    let ours = || {
        let request = LoadRequest { path, device: "cpu:0", threads: count, options: &[] };
        turns::prepare(&backend, &request, &shapes, |model| {
            let inputs = model.info().inputs.iter().zip(&shapes).map(|(input, shape)| {
                let dtype = input.dtype.unwrap_or(DataType::F32);
                let bytes = vec![0; shape.iter().product::<i64>() as usize * dtype.size()];
                let view = TensorView { dtype, shape, strides: None, bytes: &bytes };
                model.tensor(view).expect("a tensor")
            });
            inputs.collect()
        })
    };
    let early = (first == "ours").then(ours);
    let bare = bare(path, threads, &shapes);
    turns::compare(early.unwrap_or_else(ours), bare, duration);
}
