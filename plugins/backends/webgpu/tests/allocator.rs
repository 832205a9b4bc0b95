//! A value that the provider's allocator does not count is not reported as zero.

use std::path::Path;

use backend_webgpu::WebGpuBackend;
use plugin_api::abi;
use plugin_api::backend::{
    Backend, DataType, ErrorCode, Host, LoadRequest, Model, Options, PrepareRequest, Session, View,
};

const SHAPE: [i64; 4] = [1, 1, 8, 8];

#[test]
#[ignore = "needs a Vulkan device, and the runtime's folder in TARE_RUNTIME"]
fn the_allocator_says_that_it_counts_no_bytes() {
    let progress = plugin_api::backend::Progress::default();
    let host = Host { abi: (1, 0), name: "a test".into(), version: "0.0.0".into(), progress };
    let backend = WebGpuBackend::new(&host).expect("a backend");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../manifests/data/digits.onnx");
    let options = Options::default();
    let request = LoadRequest {
        path: Path::new(path),
        device: "webgpu:0",
        threads: None,
        options,
        mode: "inference",
    };
    let model = backend.load(&request).expect("a model");
    let request = PrepareRequest { precision: "fp32", shapes: &[&SHAPE], bounds: None };
    let mut session = model.prepare(&request).expect("a session");
    let pixels = [0_f32; 64];
    let raw = abi::View {
        struct_size: size_of::<abi::View>(),
        data: pixels.as_ptr().cast_mut().cast(),
        dtype: DataType::F32.to_abi(),
        rank: SHAPE.len() as u32,
        shape: SHAPE.as_ptr(),
        strides: std::ptr::null(),
        byte_offset: 0,
    };
    // SAFETY: the view refers to `SHAPE` and `pixels`, which outlive it.
    let view = unsafe { View::new(&raw const raw) }.expect("a view");
    let image = model.tensor(&view).expect("a tensor");
    let mut outputs = [None];
    // Some versions count requests in runs; none counts bytes.
    for _ in 0..2 {
        let error = session.allocator().expect_err("it counts bytes: tell them");
        assert_eq!(error.code, ErrorCode::Unsupported, "{error}");
        assert!(error.message.contains("WebGPU_Buf"), "{error}");
        session.run(&[&image], &mut outputs).expect("a run");
    }
}
