//! Options that the backend sets itself cannot be set by ONNX Runtime's name.

#[path = "../../../engines/onnxruntime/tests/taken/mod.rs"]
mod taken;

#[test]
fn what_is_set_in_another_way_is_refused_with_that_way() {
    let own = [
        ("provider.device_id", "`device` of the backend"),
        ("provider.migraphx_fp16_enable", "`precision` of the matrix"),
        ("provider.migraphx_int8_enable", "`precision` of the matrix"),
    ];
    taken::are_refused(backend_rocm::tare_backend_v1, "rocm:0", &own);
}
