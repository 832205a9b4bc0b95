//! The manifest for Fashion-MNIST reaches 90 % of its test. Needs Debian's package `dataset-fashion-mnist`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const PACKAGE: &str = "/usr/share/datasets/fashion-mnist";

fn variable(name: &str) -> PathBuf {
    std::env::var_os(name).unwrap_or_else(|| panic!("{name} is not set")).into()
}

#[test]
#[ignore = "takes minutes, and needs libtorch and the engine: `cargo xtask build torch`, set TARE_RUNTIME and TARE_BUILT"]
fn nine_in_ten_are_right() {
    let is_there = Path::new(PACKAGE).is_dir();
    assert!(is_there, "{PACKAGE} is missing: `apt-get install dataset-fashion-mnist`");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../manifests/fashion-mnist");
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["fashion-mnist.toml", "untrained.onnx"] {
        std::fs::copy(source.join(name), folder.path().join(name)).expect("a copy");
    }
    let mut script = Command::new("python3");
    script.arg(source.join("fashion_mnist.py")).arg("--output").arg(folder.path());
    assert!(script.status().expect("Python starts").success());
    let mut host = Command::new(variable("TARE_BUILT").join("host"));
    host.args(["run", "fashion-mnist.toml"]).current_dir(folder.path());
    for name in ["XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "HOME"] {
        host.env(name, folder.path().join("home"));
    }
    host.env("TARE_RUNTIME_TORCH", variable("TARE_RUNTIME"));
    let output = host.output().expect("the tool starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let runs = std::fs::read_dir(folder.path().join("results/runs")).expect("the folder of runs");
    let run = runs.flatten().next().expect("a run").path();
    let journal = std::fs::read_to_string(run.join("journal.jsonl")).expect("the journal");
    let case: Value = serde_json::from_str(journal.lines().next().expect("a case")).expect("JSON");
    let learning = find(&case, "learning").and_then(|learning| learning.get("Ok"));
    let learning = learning.expect("it was trained by epochs");
    let test = learning["test-examples"].as_u64().expect("a number");
    let last = learning["epochs"].as_array().and_then(|epochs| epochs.last()).expect("an epoch");
    let right = last["right"].as_u64().expect("a number");
    assert_eq!(test, 10_000);
    assert!(right >= 9_000, "{right} of {test} are right");
}

/// Returns the value of the first field of this name, at any depth.
fn find<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => {
            fields.get(name).or_else(|| fields.values().find_map(|value| find(value, name)))
        }
        Value::Array(values) => values.iter().find_map(|value| find(value, name)),
        _ => None,
    }
}
