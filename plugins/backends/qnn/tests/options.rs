//! Options that the backend sets itself cannot be set by ONNX Runtime's name.

#[path = "../../../engines/onnxruntime/tests/taken/mod.rs"]
mod taken;

#[test]
fn what_is_set_in_another_way_is_refused_with_that_way() {
    let own = [
        ("provider.htp_arch", "the option `htp-arch`"),
        ("provider.soc_model", "the option `soc-model`"),
        ("provider.enable_htp_fp16_precision", "`precision` of the matrix"),
    ];
    taken::are_refused(backend_qnn::tare_backend_v1, "qnn:htp", &own);
}
