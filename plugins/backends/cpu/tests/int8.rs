//! Architectures in int8 agree with themselves in fp32, on ONNX Runtime.

#[path = "shared/int8.rs"]
mod int8;

use plugin_api::client::Backend;

#[test]
#[ignore = "needs ONNX Runtime: set TARE_RUNTIME to the folder of its libraries, and ask for ignored tests"]
fn architectures_in_int8_agree_with_fp32_on_onnx_runtime() {
    // SAFETY: this is the backend's own entry point, and nothing else opens it.
    let backend = unsafe { Backend::open(backend_cpu::tare_backend_v1) }.expect("a backend");
    let integer = |kind: &str| ["QLinearConv", "MatMulIntegerToFloat", "QGemm"].contains(&kind);
    int8::check(&backend, &[("engine", "onnxruntime")], integer);
}
