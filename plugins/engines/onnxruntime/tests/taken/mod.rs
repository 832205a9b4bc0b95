//! Options that a backend sets itself cannot be set by ONNX Runtime's name: shared tests of all
//! backends over this engine.

use plugin_api::abi;
use plugin_api::client::{Backend, ErrorCode, LoadRequest};

/// Names that no backend over this engine passes to ONNX Runtime.
const SHARED: [(&str, &str); 4] = [
    ("session.intra_op.allow_spinning", "the option `allow-spinning`"),
    ("session.session.intra_op.allow_spinning", "the option `allow-spinning`"),
    ("session.disable_cpu_ep_fallback", "`placement` of the backend"),
    ("session.session.disable_cpu_ep_fallback", "`placement` of the backend"),
];

/// Checks that names with another setting are refused with a hint to it, and that others are
/// accepted.
///
/// # Panics
///
/// If a check fails.
pub(crate) fn are_refused(entry: abi::Entry, device: &str, own: &[(&str, &str)]) {
    // SAFETY: this is the backend's own entry point, opened once.
    let backend = unsafe { Backend::open(entry) }.expect("a backend");
    let load = |options: &[(&str, &str)]| {
        let request = LoadRequest { path: "none.onnx", device, threads: None, options };
        backend.load(&request).map(drop).expect_err("there is no such model")
    };
    for (option, by) in SHARED.iter().chain(own) {
        let error = load(&[("allow-spinning", "false"), ("placement", "strict"), (option, "1")]);
        assert_eq!(error.code, ErrorCode::InvalidArgument, "{error}");
        assert_eq!(error.message, format!("`{option}` is set by {by}"));
    }
    // Other names pass, and the error is about the next missing thing: the hardware, the runtime, or the model.
    let others = [("provider.other", "1"), ("session.disable_prepacking", "1")];
    let code = load(&others).code;
    assert!(matches!(code, ErrorCode::NotFound | ErrorCode::RuntimeMissing), "{code}");
}
