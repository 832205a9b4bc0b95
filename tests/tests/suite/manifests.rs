//! The installed tool plans the example manifests: hardware that this machine lacks is a gap that lists what was
//! searched for.

use std::collections::BTreeMap;

use end_to_end::{Place, root};
use serde_json::Value;

/// Returns the cells of a manifest's plan by backend: each gap's reason, empty for a case.
fn planned(name: &str) -> BTreeMap<String, Vec<String>> {
    let place = Place::new();
    let path = root().join(format!("manifests/{name}.toml"));
    let path = path.to_str().expect("a path in UTF-8");
    let plan = place.run(&["--format", "json", "plan", path]).expect(0).json();
    let mut cells: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for item in plan["items"].as_array().expect("items") {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let reasons = cells.entry(text(&item["key"]["backend"])).or_default();
        reasons.push(text(&item["reason"]));
    }
    cells
}

#[test]
fn every_example_is_planned() {
    for entry in std::fs::read_dir(root().join("manifests")).expect("the examples") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
            let cells = planned(name);
            assert!(!cells.is_empty(), "{name} has no cells");
            if let Some(reasons) = cells.get("cpu") {
                assert!(reasons.iter().all(String::is_empty), "{name}: {reasons:?}");
            }
        }
    }
}

#[test]
fn the_comparison_has_all_hardware_each_as_a_case_or_as_a_gap_with_what_was_looked_for() {
    let cells = planned("hardware");
    let backends: Vec<_> = cells.keys().map(String::as_str).collect();
    assert_eq!(backends, ["cpu", "cuda", "mps", "openvino", "qnn", "rocm", "torch", "webgpu"]);
    assert_eq!(cells["cpu"], [""; 6]);
    // It has a case for its own precision, and no gap for another one.
    assert_eq!(cells["qnn"].len(), 1);
    let reason = &cells["mps"][0];
    assert!(reason.contains("Core ML, which drives it, is part of macOS"), "{reason}");
    for (backend, looked_for) in [("openvino", "host runtimes install openvino"), ("qnn", "qnn")] {
        // Nothing is installed in a test's folders, but the system may have it.
        let reason = &cells[backend][0];
        assert!(reason.is_empty() || reason.contains(looked_for), "{backend}: {reason}");
    }
}
