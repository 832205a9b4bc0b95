//! Overhead of the plugin over OpenVINO: a run through the ABI against the same inference through OpenVINO's C
//! interface. The two alternate, so that disturbances of the machine affect both alike.
//!
//! ```sh
//! TARE_RUNTIME=FOLDER cargo run --release -p backend-openvino --example bare_loop -- \
//!     FIRST THREADS PAIRS MODEL.onnx SHAPE…
//! ```
//!
//! FIRST is `abi` or `bare`: the side that compiles first, because two copies of a large model in one process are not
//! equally fast. A shape is written as `1,3,224,224`, one for each input; elements are zeros.
#![expect(clippy::print_stdout, reason = "this is what it is for")]

use std::ffi::CString;
use std::ptr;
use std::time::Instant;

use openvino_sys as sys;
use plugin_api::client::{Backend, DataType, LoadRequest, TensorView};

fn ok(status: sys::ov_status_e) {
    assert_eq!(status, sys::ov_status_e::OK);
}

/// Returns an OpenVINO request for the same model and shapes with the same properties.
fn bare(path: &str, threads: &str, shapes: &[Vec<i64>]) -> *mut sys::ov_infer_request_t {
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
    // SAFETY: the library is loaded by the plugin; everything is created before it is used, and nothing is freed.
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
        // The request's own inputs hold old values; the plugin gets zeros.
        for index in indexes {
            let (mut tensor, mut data, mut size) = (ptr::null_mut(), ptr::null_mut(), 0);
            ok(sys::ov_infer_request_get_input_tensor_by_index(request, index, &raw mut tensor));
            ok(sys::ov_tensor_get_byte_size(tensor, &raw mut size));
            ok(sys::ov_tensor_data(tensor, &raw mut data));
            data.cast::<u8>().write_bytes(0, size);
        }
    }
    request
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [first, threads, pairs, path, shapes @ ..] = arguments.as_slice() else {
        panic!("wanted: FIRST THREADS PAIRS MODEL SHAPE…");
    };
    let sizes =
        |shape: &String| shape.split(',').map(|size| size.parse().expect("a size")).collect();
    let shapes: Vec<Vec<i64>> = shapes.iter().map(sizes).collect();

    // SAFETY: this is the backend's own entry point, and is opened once.
    let backend = unsafe { Backend::open(backend_openvino::tare_backend_v1) }.expect("the backend");
    let count = Some(threads.parse().expect("a number"));
    let early = (first == "bare").then(|| bare(path, threads, &shapes));
    let request = LoadRequest { path, device: "cpu:0", threads: count, options: &[] };
    let model = backend.load(&request).expect("the model");
    let session = model.prepare("fp32", &shapes).expect("a session");
    println!("{:?}", session.used());
    let inputs = model.info().inputs.iter().zip(&shapes).map(|(input, shape)| {
        let dtype = input.dtype.unwrap_or(DataType::F32);
        let bytes = vec![0; shape.iter().product::<i64>() as usize * dtype.size()];
        model.tensor(TensorView { dtype, shape, strides: None, bytes: &bytes }).expect("a tensor")
    });
    let mut call = session.call(inputs.collect()).expect("a call");
    let bare = early.unwrap_or_else(|| bare(path, threads, &shapes));

    let mut through_abi = || call.run().expect("a run");
    // SAFETY: the request is alive.
    let mut directly = || ok(unsafe { sys::ov_infer_request_infer(bare) });
    let time = |run: &mut dyn FnMut()| {
        let started = Instant::now();
        run();
        started.elapsed().as_nanos() as f64
    };
    for _ in 0..3 {
        through_abi();
        directly();
    }
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..pairs.parse::<usize>().expect("a number") {
        let (our, their) = if turn % 2 == 0 {
            let our = time(&mut through_abi);
            (our, time(&mut directly))
        } else {
            let their = time(&mut directly);
            (time(&mut through_abi), their)
        };
        ours.push(our);
        theirs.push(their);
        ratios.push(our / their);
    }
    for values in [&mut ours, &mut theirs, &mut ratios] {
        values.sort_by(f64::total_cmp);
    }
    // Order statistics that hold the median with 95 % confidence, by the normal approximation.
    let half = ratios.len() as f64 / 2.0;
    let reach = 0.98 * (ratios.len() as f64).sqrt();
    let at = |place: f64| ratios[(place.max(0.0) as usize).min(ratios.len() - 1)];
    let middle = |values: &[f64]| values[values.len() / 2] / 1e6;
    println!(
        "median {:.4} ms through the ABI, {:.4} ms directly; ratio within pairs {:.4} [{:.4}, {:.4}]; \
         least {:.4} and {:.4} ms",
        middle(&ours),
        middle(&theirs),
        at(half),
        at(half - reach),
        at(half + reach),
        ours[0] / 1e6,
        theirs[0] / 1e6
    );
}
