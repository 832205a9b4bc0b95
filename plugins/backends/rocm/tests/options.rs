//! What the backend sets itself cannot be set by ONNX Runtime's name for it, too.

use plugin_api::client::{Backend, ErrorCode, LoadRequest};

#[test]
fn what_is_set_in_another_way_is_refused_with_that_way() {
    // SAFETY: this is the backend's own entry point, opened once.
    let backend = unsafe { Backend::open(backend_rocm::tare_backend_v1) }.expect("a backend");
    let load = |options: &[(&str, &str)]| {
        let request = LoadRequest { path: "none.onnx", device: "rocm:0", threads: None, options };
        backend.load(&request).map(drop).expect_err("there is no such model")
    };
    let refused = [
        ("session.intra_op.allow_spinning", "the option `allow-spinning`"),
        ("session.session.intra_op.allow_spinning", "the option `allow-spinning`"),
        ("session.disable_cpu_ep_fallback", "`placement` of the backend"),
        ("session.session.disable_cpu_ep_fallback", "`placement` of the backend"),
        ("provider.device_id", "`device` of the backend"),
        ("provider.migraphx_fp16_enable", "`precision` of the matrix"),
        ("provider.migraphx_int8_enable", "`precision` of the matrix"),
    ];
    for (option, by) in refused {
        let error = load(&[("allow-spinning", "false"), ("placement", "strict"), (option, "1")]);
        assert_eq!(error.code, ErrorCode::InvalidArgument, "{error}");
        assert_eq!(error.message, format!("`{option}` is set by {by}"));
    }
    // Others pass, and what is wanting is the next thing: the hardware, the runtime, or the model.
    let others = [("provider.other", "1"), ("session.disable_prepacking", "1")];
    assert_eq!(load(&others).code, ErrorCode::NotFound);
}
