//! Options that the backend sets itself cannot be set by ONNX Runtime's name.

#[path = "../../../engines/onnxruntime/tests/taken/mod.rs"]
mod taken;

#[test]
fn what_is_set_in_another_way_is_refused_with_that_way() {
    let own = [("provider.dawnBackendType", "`device` of the backend, which is Vulkan's")];
    taken::are_refused(backend_webgpu::tare_backend_v1, "webgpu:0", &own);
}
