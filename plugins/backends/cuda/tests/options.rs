//! Options that the backend sets itself cannot be set by ONNX Runtime's name.

#[path = "../../../engines/onnxruntime/tests/taken/mod.rs"]
mod taken;

#[test]
fn what_is_set_in_another_way_is_refused_with_that_way() {
    let own = [
        ("provider.device_id", "`device` of the backend"),
        ("provider.use_tf32", "the option `tf32`"),
        ("provider.enable_cuda_graph", "the option `cuda-graph`"),
        ("provider.trt_cuda_graph_enable", "the option `cuda-graph`"),
        ("provider.trt_fp16_enable", "`precision` of the matrix"),
        ("provider.trt_bf16_enable", "`precision` of the matrix"),
        ("provider.trt_int8_enable", "`precision` of the matrix"),
        ("provider.user_compute_stream", "the backend, which computes on streams of its own"),
    ];
    taken::are_refused(backend_cuda::tare_backend_v1, "cuda:0", &own);
}
