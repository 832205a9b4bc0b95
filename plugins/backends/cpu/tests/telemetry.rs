//! No user files are touched: ONNX Runtime from version 1.29 on keeps a device id among the
//! user's files for its telemetry, unless it is switched off before loading.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use plugin_api::client::{Backend, LoadRequest};

/// Variable that tells ONNX Runtime whether to send telemetry.
const SWITCH: &str = "ORT_DISABLE_TELEMETRY";

/// Variable that tells this program to load the library.
const LOADS: &str = "TARE_TEST_LOADS";

/// Loads a model in this process, and prints the version of ONNX Runtime.
#[expect(clippy::print_stdout, reason = "it is for the process that started this one")]
fn load() {
    // SAFETY: this is the backend's own entry point, opened once.
    let backend = unsafe { Backend::open(backend_cpu::tare_backend_v1) }.expect("a backend");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../manifests/data/digits.onnx");
    let options = [("engine", "onnxruntime")];
    let request = LoadRequest { path, device: "cpu:0", threads: Some(1), options: &options };
    let model = backend.load(&request).expect("a model");
    let session = model.prepare("fp32", &[vec![1, 1, 8, 8]]).expect("a session");
    let version = session.used().iter().find(|(key, _)| key == "engine-version");
    println!("version {}", version.expect("it is told").1);
    // Telemetry is sent by a separate thread.
    std::thread::sleep(Duration::from_secs(2));
}

/// Returns the files that a process that loads the library leaves in the user's folders, and the
/// library's version.
fn left_behind(telemetry: Option<&str>) -> (Vec<String>, String) {
    let home = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--ignored", "--exact", "--nocapture", "no_files_appear_in_the_users_folders"]);
    command.env(LOADS, "1").env_remove(SWITCH);
    command.envs(telemetry.map(|value| (SWITCH, value)));
    for variable in ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
        command.env(variable, home.path());
    }
    let output = command.output().expect("this program can be started");
    let output_text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}: {output_text}", output.status);
    let version = output_text.lines().find_map(|line| line.rsplit_once("version "));
    let mut files = Vec::new();
    below(home.path(), &mut files);
    (files, version.expect("it is printed").1.to_owned())
}

fn below(folder: &Path, files: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("the folder").flatten() {
        match entry.path() {
            path if path.is_dir() => below(&path, files),
            path => files.push(path.display().to_string()),
        }
    }
}

#[test]
#[ignore = "needs ONNX Runtime 1.29 or later: name its folder in TARE_RUNTIME"]
fn no_files_appear_in_the_users_folders() {
    if std::env::var_os(LOADS).is_some() {
        return load();
    }
    // An older library has no telemetry, so the test would show nothing.
    let (files, version) = left_behind(Some("0"));
    assert!(
        files.iter().any(|file| file.ends_with("deviceid")),
        "ONNX Runtime {version} leaves nothing even where it is let: {files:?}"
    );
    // The process is started as a worker is, and as if the plugin were opened in another way.
    for telemetry in [Some("1"), None] {
        let (files, _) = left_behind(telemetry);
        assert!(files.is_empty(), "{files:?}, with {SWITCH} {telemetry:?}");
    }
}
