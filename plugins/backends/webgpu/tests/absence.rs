//! Without a driver there is an error, and the process does not end.

use plugin_api::client::{Backend, ErrorCode};

#[test]
fn a_missing_driver_is_an_answer() {
    // SAFETY: this is the only test of this program, which has no other threads that read it.
    unsafe { std::env::set_var("VK_DRIVER_FILES", "/nowhere/driver.json") };
    // SAFETY: this is the backend's own entry point, opened once.
    let backend = unsafe { Backend::open(backend_webgpu::tare_backend_v1) }.expect("a backend");
    let error = backend.devices().expect_err("no driver");
    assert_eq!(error.code, ErrorCode::NotFound);
    assert!(error.message.starts_with("there is no GPU for WebGPU: "), "{error}");
    // The error names the loader if it is missing, else the file.
    let named = error.message.contains("VK_DRIVER_FILES is `/nowhere/driver.json`");
    assert!(named || error.message.contains("libvulkan.so.1"), "{error}");
}
