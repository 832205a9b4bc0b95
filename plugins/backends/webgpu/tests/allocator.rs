//! What the provider's allocator does not count is not told as zero.

use std::path::Path;

use backend_webgpu::WebGpuBackend;
use plugin_api::backend::{Backend, ErrorCode, Host, LoadRequest, Model, Options, PrepareRequest};

#[test]
#[ignore = "needs a Vulkan device, and the runtime's folder in TARE_RUNTIME"]
fn the_allocator_says_that_it_counts_no_bytes() {
    let host = Host { abi: (1, 0), name: "a test".into(), version: "0.0.0".into() };
    let backend = WebGpuBackend::new(&host).expect("a backend");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../manifests/data/digits.onnx");
    let options = Options::default();
    let request = LoadRequest { path: Path::new(path), device: "webgpu:0", threads: None, options };
    let model = backend.load(&request).expect("a model");
    let request = PrepareRequest { precision: "fp32", shapes: &[&[1, 1, 8, 8]] };
    let session = model.prepare(&request).expect("a session");
    // The model's weights are on the device by now.
    let error = session.allocator().expect_err("it counts bytes: tell them");
    assert_eq!(error.code, ErrorCode::Unsupported, "{error}");
    assert!(error.message.contains("WebGPU_Buf"), "{error}");
}
