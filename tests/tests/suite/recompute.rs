//! Metrics of a run, recomputed from its folder.

use std::fs;

use end_to_end::Place;
use serde_json::Value;

const MANIFEST: &str = r#"schema = 1
[experiment]
name = "recompute"
[[model]]
id = "any"
path = "any.model"
[[backend]]
id = "null"
threads = 1
[matrix]
batch = [1, 4]
[measure]
warm-up = 50
duration = "20ms"
minimum-queries = 500
[[metric]]
plugin = "latency"
[[metric]]
plugin = "throughput"
[[metric]]
plugin = "scaling"
[[report]]
plugin = "json"
"#;

/// Returns a place with one finished run of two cases.
fn measured() -> Place {
    Place::measured(MANIFEST)
}

fn recompute(place: &Place, more: &[&str], code: i32) -> Value {
    let all = [&["--format", "json", "results", "recompute", "latest"], more].concat();
    place.run(&all).expect(code).json()
}

/// Returns the number of results in a state.
fn count(document: &Value, state: &str) -> usize {
    let results = document["results"].as_array().expect("a list");
    results.iter().filter(|result| result["state"] == state).count()
}

fn query(place: &Place, sql: &str) -> Value {
    place.run(&["--format", "json", "results", "query", sql]).expect(0).json()
}

#[test]
fn a_metric_over_the_run_sees_what_the_others_computed() {
    let place = measured();
    let found = query(
        &place,
        "SELECT c.batch, e.value, e.gap_kind, t.value AS throughput FROM benchmark_results e \
         JOIN benchmark_cases c USING (case_id) \
         JOIN benchmark_results t USING (case_id) \
         WHERE e.metric = 'scaling.batch' AND t.metric = 'throughput.samples' ORDER BY c.batch",
    );
    let real = |row: usize, column: &str| found[row][column].as_f64().expect("a number");
    assert_eq!(real(0, "value"), 1.0);
    let expected = real(1, "throughput") / real(0, "throughput") / 4.0;
    assert!((real(1, "value") - expected).abs() < 1e-12, "{found}");
    let gaps = query(
        &place,
        "SELECT DISTINCT gap_reason FROM benchmark_results WHERE metric = 'scaling.threads'",
    );
    assert_eq!(gaps[0]["gap_reason"], "no otherwise equal case differs in threads");
}

#[test]
fn the_same_plugins_say_the_same() {
    let place = measured();
    let before = place.lines("results.jsonl");
    let found = recompute(&place, &[], 0);
    // Three metrics of two cases.
    assert_eq!(count(&found, "unchanged"), 6, "{found}");
    assert_eq!(found["results"].as_array().expect("a list").len(), 6);
    assert_eq!(place.lines("results.jsonl"), before);
}

#[test]
fn a_metric_that_the_run_did_not_have_is_added() {
    let place = measured();
    let before = place.lines("results.jsonl");
    let finished = fs::read(place.run_folder().join("finished.json")).expect("the end");
    let metrics = ["--metric", "stability", "startup"];
    let dry = recompute(&place, &[&metrics[..], &["--dry-run"]].concat(), 0);
    assert_eq!((count(&dry, "new"), dry["dry-run"].as_bool()), (4, Some(true)));
    assert_eq!(place.lines("results.jsonl"), before);

    let found = recompute(&place, &metrics, 0);
    assert_eq!(count(&found, "new"), 4, "{found}");
    let after = place.lines("results.jsonl");
    assert_eq!(after[..before.len()], before);
    assert_eq!(after.len(), before.len() + 4);
    // The database has it, with the class and the plugin.
    let rows = query(
        &place,
        "SELECT count(*) AS cases, count(attributes->>'class') AS classes FROM benchmark_results \
         WHERE metric = 'stability.changes'",
    );
    assert_eq!((&rows[0]["cases"], &rows[0]["classes"]), (&2.into(), &2.into()));
    let plugins = query(
        &place,
        "SELECT count(*) AS plugins FROM benchmark_plugins WHERE plugin_id = 'stability'",
    );
    assert_eq!(plugins[0]["plugins"], 1);
    // It now belongs to the run, whose end is unchanged.
    assert_eq!(count(&recompute(&place, &[], 0), "unchanged"), 10);
    assert_eq!(fs::read(place.run_folder().join("finished.json")).expect("the end"), finished);
}

#[test]
fn what_is_replaced_stays_in_the_run_folder() {
    let place = measured();
    // The line is written as by an older build of the plugin.
    let path = place.run_folder().join("results.jsonl");
    let mut lines = place.lines("results.jsonl");
    let of_latency = |line: &&mut Value| line["plugin"]["id"] == "latency";
    for line in lines.iter_mut().filter(of_latency) {
        line["plugin"]["version"] = "0.0.9".into();
        line["plugin"]["sha256"] = "00".repeat(32).into();
        for value in line["values"].as_array_mut().expect("values") {
            value["value"] = serde_json::json!({ "Ok": 7.0 });
            value["interval"] = Value::Null;
        }
    }
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(&path, text).expect("writing the results");

    let found = recompute(&place, &["--metric", "latency"], 0);
    assert_eq!(count(&found, "replaced"), 2, "{found}");
    assert_eq!(found["results"][0]["before"]["plugin"]["version"], "0.0.9");
    let after = place.lines("results.jsonl");
    assert_eq!(after[..lines.len()], lines);
    assert_eq!(after.len(), lines.len() + 2);
    let rows = query(
        &place,
        "SELECT DISTINCT plugin_version, value = 7 AS old FROM benchmark_results \
         WHERE metric = 'latency.p50'",
    );
    assert_eq!(rows.as_array().expect("rows").len(), 1, "{rows}");
    assert_eq!(rows[0]["old"], false);
    assert_ne!(rows[0]["plugin_version"], "0.0.9");
}

#[test]
fn values_whose_samples_are_lost_stay() {
    let place = measured();
    let before = place.lines("results.jsonl");
    let samples = fs::read_dir(place.run_folder().join("samples")).expect("the samples");
    let mut paths: Vec<_> = samples.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    fs::remove_file(&paths[0]).expect("losing a file");
    fs::write(&paths[1], "no Parquet").expect("damaging a file");

    let ended = place
        .run(&["--format", "json", "results", "recompute", "latest", "--metric", "latency"])
        .expect(7);
    let found = ended.json();
    assert_eq!(count(&found, "kept"), 2, "{found}");
    assert_eq!(found["results"][0]["reason"], "the file with `latency`, `process` is lost");
    assert!(ended.stderr.contains("what was computed before stays"), "{}", ended.stderr);
    assert_eq!(place.lines("results.jsonl"), before);

    // A value that was never computed is a gap.
    let found = recompute(&place, &["--metric", "stability"], 0);
    assert_eq!(count(&found, "new"), 2);
    let first = &found["results"][0]["now"]["values"][0]["value"]["Err"];
    assert_eq!(first["metric-message"], "the case has no record of `latency`", "{first}");
    // A metric that does not read samples is computed.
    let startup = recompute(&place, &["--metric", "startup"], 0);
    assert!(startup["results"][0]["now"]["values"][0]["value"]["Ok"].is_number(), "{startup}");
}

#[test]
fn a_plugin_that_is_missing_is_named() {
    let place = measured();
    let ended = place.run(&["results", "recompute", "latest", "--metric", "latenzy"]).expect(4);
    assert!(ended.stderr.contains("latenzy"), "{}", ended.stderr);
    assert!(ended.stderr.contains("latency"), "{}", ended.stderr);
    let _ = place.run(&["results", "recompute", "nothing"]).expect(7);
}
