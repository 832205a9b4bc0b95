//! Options that the backend sets itself cannot be set by ONNX Runtime's name.

#[path = "../../../engines/onnxruntime/tests/taken/mod.rs"]
mod taken;

#[test]
fn what_is_set_in_another_way_is_refused_with_that_way() {
    let own = [
        ("provider.MLComputeUnits", "the option `compute-units`"),
        ("provider.ModelFormat", "`precision` of the matrix"),
        ("provider.AllowLowPrecisionAccumulationOnGPU", "`precision` of the matrix"),
    ];
    taken::are_refused(backend_mps::tare_backend_v1, "mps:0", &own);
}
