//! The example manifest learns, and learns the same each time.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn variable(name: &str) -> PathBuf {
    std::env::var_os(name).unwrap_or_else(|| panic!("{name} is not set")).into()
}

/// Runs `manifests/training.toml` in training alone, with another seed, and returns the conditions of its case.
fn trained(seed: u64) -> Value {
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../manifests");
    let text = std::fs::read_to_string(manifests.join("training.toml")).expect("the manifest");
    let replaced = |text: String, old: &str, new: &str| {
        assert!(text.contains(old), "the manifest has no {old}");
        text.replace(old, new)
    };
    let text = replaced(text, "\"data/", &format!("\"{}/data/", manifests.display()));
    let text = replaced(text, "[\"inference\", \"training\"]", "[\"training\"]");
    let text = replaced(text, "duration = \"2s\"", "duration = \"200ms\"");
    let text = replaced(text, "seed = 7", &format!("seed = {seed}"));
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("it.toml"), text).expect("writing the manifest");
    let mut host = Command::new(variable("TARE_BUILT").join("host"));
    host.args(["run", "it.toml"]).current_dir(folder.path());
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
    find(&case, "conditions").expect("the case finished").clone()
}

/// Returns the value of the first field of this name, at any depth.
fn find<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let fields = value.as_object()?;
    fields.get(name).or_else(|| fields.values().find_map(|value| find(value, name)))
}

#[test]
#[ignore = "needs libtorch and the engine: `cargo xtask build torch`, set TARE_RUNTIME and TARE_BUILT"]
fn digits_are_learnt_and_the_same_seed_gives_the_same_losses() {
    let first = trained(7);
    let learning = &first["learning"]["Ok"];
    let losses = learning["losses"].as_array().expect("losses");
    assert_eq!(losses.len(), 15 * 44, "{learning}");
    assert!(losses.iter().all(Value::is_f64), "each is a finite number");
    let epochs = learning["epochs"].as_array().expect("epochs");
    let last = epochs.last().expect("15 epochs");
    let right = last["right"].as_f64().expect("a number");
    assert!(right / 384.0 >= 0.97, "{right} of 384 are right: {learning}");
    assert!(last["test-loss"].as_f64().is_some_and(|loss| loss < 0.3), "{last}");
    assert!(first["looking"]["Ok"]["turns"].as_u64().is_some_and(|turns| turns >= 3), "{first}");

    let again = trained(7);
    assert_eq!(again["learning"]["Ok"]["losses"], learning["losses"]);
    let rights = |learning: &Value| -> Vec<Value> {
        let epochs = learning["epochs"].as_array().expect("epochs");
        epochs.iter().map(|epoch| epoch["right"].clone()).collect()
    };
    assert_eq!(rights(&again["learning"]["Ok"]), rights(learning));
    let other = trained(8);
    assert_ne!(other["learning"]["Ok"]["losses"], learning["losses"], "in another order");
}
