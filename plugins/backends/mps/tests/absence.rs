//! On systems other than macOS there is a clear error.
#![cfg(not(target_os = "macos"))]

use plugin_api::client::{Backend, ErrorCode};

#[test]
fn another_system_is_an_answer() {
    // SAFETY: this is the backend's own entry point, opened once.
    let backend = unsafe { Backend::open(backend_mps::tare_backend_v1) }.expect("a backend");
    let error = backend.devices().expect_err("no macOS");
    assert_eq!(error.code, ErrorCode::NotFound);
    assert!(error.message.starts_with("there is no Apple GPU: "), "{error}");
}
