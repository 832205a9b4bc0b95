//! Without an AMD GPU, the error lists what was searched for.

use plugin_api::client::{Backend, ErrorCode};

#[test]
fn a_machine_without_the_driver_is_an_answer() {
    if std::path::Path::new("/dev/kfd").exists() {
        // This machine has an AMD GPU; `conformance` is the test for it.
        return;
    }
    // SAFETY: this is the backend's own entry point, opened once.
    let backend = unsafe { Backend::open(backend_rocm::tare_backend_v1) }.expect("a backend");
    let error = backend.devices().expect_err("no driver");
    assert_eq!(error.code, ErrorCode::NotFound);
    for looked_for in ["/dev/kfd", "libamdhip64.so.7", "libmigraphx_c.so.3"] {
        assert!(error.message.contains(looked_for), "{looked_for}: {error}");
    }
}
