//! Another library under OpenVINO's name causes an error and not a panic.
#![cfg(target_os = "linux")]

use plugin_api::client::{Backend, ErrorCode};

#[test]
fn another_library_is_an_answer() {
    // The C library, which every program has open.
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
    let mut paths = maps.lines().filter_map(|line| Some(&line[line.find('/')?..]));
    let other = paths.find(|path| path.contains("/libc.so")).expect("the C library");
    // SAFETY: this is the only test of this program, which has no other threads that read it.
    unsafe { std::env::set_var("TARE_RUNTIME", other) };
    // SAFETY: this is the backend's own entry point, opened once.
    let backend = unsafe { Backend::open(backend_openvino::tare_backend_v1) }.expect("a backend");
    let error = backend.devices().expect_err("it is none of OpenVINO's");
    assert_eq!(error.code, ErrorCode::RuntimeMissing);
    let message =
        format!("{other} is not OpenVINO's C library, libopenvino_c.so: it has no function");
    assert!(error.message.starts_with(&message), "{error}");
}
