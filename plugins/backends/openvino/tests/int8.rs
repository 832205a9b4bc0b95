//! Architectures in int8 agree with themselves in fp32, on OpenVINO.

#[path = "../../cpu/tests/shared/int8.rs"]
mod int8;

use plugin_api::client::Backend;

#[test]
#[ignore = "needs OpenVINO: set TARE_RUNTIME to the folder of its libraries, and ask for ignored tests"]
fn architectures_in_int8_agree_with_fp32_on_openvino() {
    // SAFETY: this is the backend's own entry point, and nothing else opens it.
    let backend = unsafe { Backend::open(backend_openvino::tare_backend_v1) }.expect("a backend");
    let integer = |kind: &str| ["Convolution", "FullyConnected", "MatMul"].contains(&kind);
    int8::check(&backend, &[], integer);
}
