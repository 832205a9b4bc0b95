//! Nothing of the user's is touched: ONNX Runtime from version 1.29 on keeps a device's id among the
//! user's files for its telemetry, unless it is told not to before it is loaded.

use plugin_api::client::{Backend, LoadRequest};

#[test]
#[ignore = "needs ONNX Runtime: name its folder in TARE_RUNTIME"]
fn no_files_appear_in_the_users_folders() {
    let home = tempfile::tempdir().expect("a folder");
    for variable in ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
        // SAFETY: this is the only test of this program, which has no other threads that read it.
        unsafe { std::env::set_var(variable, home.path()) };
    }
    // SAFETY: this is the backend's own entry point, opened once.
    let backend = unsafe { Backend::open(backend_cpu::tare_backend_v1) }.expect("a backend");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../manifests/data/digits.onnx");
    let options = [("engine", "onnxruntime")];
    let request = LoadRequest { path, device: "cpu:0", threads: Some(1), options: &options };
    let model = backend.load(&request).expect("a model");
    let session = model.prepare("fp32", &[vec![1, 1, 8, 8]]).expect("a session");
    let version = session.used().iter().find(|(key, _)| key == "engine-version");
    assert!(version.is_some_and(|(_, version)| !version.is_empty()), "{:?}", session.used());
    // Telemetry is sent by a thread of its own.
    std::thread::sleep(std::time::Duration::from_secs(2));
    drop((session, model, backend));
    let files: Vec<_> = std::fs::read_dir(home.path()).expect("the folder").collect();
    assert!(files.is_empty(), "{files:?}");
}
