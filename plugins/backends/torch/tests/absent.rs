//! Without libtorch, the plugin opens, and says what is missing.

use plugin_api::client::{Backend, ErrorCode};

#[test]
fn without_libtorch_the_runtime_is_missing() {
    let empty = tempfile::tempdir().expect("a folder");
    // SAFETY: this program has one test, and no other thread reads the environment.
    unsafe { std::env::set_var("TARE_RUNTIME", empty.path()) };
    // SAFETY: this is the backend's own entry point, which is opened once.
    let backend = unsafe { Backend::open(backend_torch::tare_backend_v1) }.expect("it opens");
    assert_eq!(backend.describe().expect("a description").id, "torch");
    let error = backend.devices().expect_err("there is no libtorch");
    assert_eq!(error.code, ErrorCode::RuntimeMissing);
    assert!(error.to_string().contains("`host runtimes install torch`"), "{error}");
}
