//! Options are checked before ONNX Runtime is searched.

use plugin_api::client::{Backend, ErrorCode, LoadRequest};

#[test]
fn what_is_no_option_or_set_in_another_way_is_refused() {
    // SAFETY: this is the backend's own entry point, opened once.
    let backend = unsafe { Backend::open(backend_cpu::tare_backend_v1) }.expect("a backend");
    let load = |option: (&str, &str)| {
        let options = &[("engine", "onnxruntime"), ("allow-spinning", "false"), option];
        let request = LoadRequest { path: "none.onnx", device: "cpu:0", threads: None, options };
        let error = backend.load(&request).map(drop).expect_err("there is no such model");
        assert_eq!(error.code, ErrorCode::InvalidArgument, "{error}");
        error.message
    };
    for option in ["session.intra_op.allow_spinning", "session.session.intra_op.allow_spinning"] {
        let message = load((option, "1"));
        assert_eq!(message, format!("`{option}` is set by the option `allow-spinning`"));
    }
    // It has no provider for such options, and does not offer them.
    for option in ["provider.use_arena", "other"] {
        let message = load((option, "1"));
        assert_eq!(
            message,
            format!(
                "there is no option `{option}`; there are: allow-spinning, graph-optimisation, \
                 placement, session.*, engine"
            )
        );
    }
}
