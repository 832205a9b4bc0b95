//! Where the time of cases goes, from a manifest to tables and files.

use std::fs;
use std::path::Path;

use end_to_end::Place;
use serde_json::Value;

const MANIFEST: &str = r#"schema = 1
[experiment]
name = "profiled"
[[model]]
id = "any"
path = "any.model"
[[backend]]
id = "tells"
plugin = "fault"
options = { fault-offers = "profile", fault = "slow", fault-milliseconds = 2 }
[[backend]]
id = "silent"
plugin = "fault"
[measure]
warm-up = 1
duration = "20ms"
minimum-queries = 3
[[metric]]
plugin = "latency"
"#;

#[test]
fn a_manifest_is_run_and_its_operators_are_shown_by_type_and_by_node() {
    let place = Place::new();
    place.write("any.model", "x");
    place.write("it.toml", MANIFEST);
    let profiled = place.run(&["--format", "json", "profile", "it.toml"]).expect(0).json();
    let [case] = profiled["cases"].as_array().expect("cases").as_slice() else {
        panic!("one case has a profile: {profiled}")
    };
    assert_eq!(case["times"], "calls");
    let types: Vec<&str> = case["types"]
        .as_array()
        .expect("types")
        .iter()
        .filter_map(|one| one["type"].as_str())
        .collect();
    assert_eq!(types, ["Add", "Identity"]);
    // Two halves of a run.
    let part = case["of-latency"].as_f64().expect("the sum by the median latency");
    assert!(part > 0.1 && part < 10.0, "{part}");
    let without = profiled["without"][0]["reason"].as_str().expect("a reason");
    assert!(without.contains("tare/profile/1"), "{without}");

    let read = |name: &str| {
        let files = case["files"].as_array().expect("files").iter().filter_map(Value::as_str);
        let file = files.map(Path::new).find(|file| file.ends_with(name)).expect(name);
        fs::read_to_string(place.path().join(file)).expect(name)
    };
    let folded = read("by-node.folded");
    assert!(folded.starts_with("copied;Identity ") && folded.contains("\nsum;Add "), "{folded}");
    assert!(read("by-type.svg").contains("<svg "));
    let trace: Value = serde_json::from_str(&read("trace.json")).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    assert_eq!(events.iter().filter(|event| event["ph"] == "X").count(), 2);

    // The same from the run that was made, by the beginning of the case's id.
    let id = case["id"].as_str().expect("an id");
    let again = place.run(&["profile", "latest", "--case", &id[..6]]).expect(0);
    assert!(again.stdout.contains("Identity") && again.stdout.contains("of the measured median"));
    let unknown = place.run(&["profile", "latest", "--case", "zzz"]).expect(7);
    assert!(
        unknown.stderr.contains("has no case whose id begins with `zzz`"),
        "{}",
        unknown.stderr
    );
}
