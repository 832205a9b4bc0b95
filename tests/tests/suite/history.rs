//! The history of cases, from run folders to what a person and a program read.

use std::fs;
use std::path::Path;

use end_to_end::Place;
use serde_json::{Value, json};

const MANIFEST: &str = r#"schema = 1
[experiment]
name = "nightly"
[[model]]
id = "any"
path = "any.model"
[[backend]]
id = "null"
[matrix]
batch = [1, 2]
[measure]
warm-up = 1
duration = "20ms"
minimum-queries = 1
[[metric]]
plugin = "latency"
"#;

/// Copies a run under another id, with another start, commit and kernel, and this median latency of the case with
/// batch 1. The values of the copies are the test's own, so that the test knows the truth.
fn copy(run: &Path, number: usize, kernel: &str, median_ns: f64) {
    let to = run.with_file_name(format!("copy-{number:02}"));
    let old = run.file_name().expect("a name").to_string_lossy().into_owned();
    copy_folder(run, &to);
    let edit = |name: &str, edit: &dyn Fn(&mut Value)| {
        let path = to.join(name);
        let text = fs::read_to_string(&path).expect("a file of the run");
        let text = text.replace(&old, &format!("copy-{number:02}"));
        let lines: Vec<String> = text
            .lines()
            .map(|line| {
                let mut value = serde_json::from_str(line).expect("a line of JSON");
                edit(&mut value);
                value.to_string() + "\n"
            })
            .collect();
        fs::write(&path, lines.concat()).expect("changing a copy");
    };
    let header = fs::read_to_string(run.join("run.json")).expect("the header");
    let mut header: Value = serde_json::from_str(&header).expect("JSON");
    header["run-id"] = json!(format!("copy-{number:02}"));
    header["started-at"] = json!(format!("2026-01-{:02}T08:00:00Z", number + 1));
    header["environment"]["git-commit"] = json!(format!("{number:040x}"));
    header["environment"]["kernel"] = json!(kernel);
    fs::write(to.join("run.json"), header.to_string()).expect("a header");
    let plan = fs::read_to_string(run.join("plan.jsonl")).expect("the plan");
    let first: Value = serde_json::from_str(plan.lines().next().expect("a case")).expect("JSON");
    let case = first["case-id"].clone();
    assert!(case.is_string(), "{first}");
    edit("results.jsonl", &|record| {
        if record["case-id"] != case {
            return;
        }
        let values = record["values"].as_array_mut().expect("values");
        let median = values.iter_mut().find(|value| value["metric"] == "latency.p50");
        let median = median.expect("a median");
        assert!(median["value"]["Ok"].is_f64(), "{median}");
        median["value"]["Ok"] = json!(median_ns);
        median["interval"] = Value::Null;
    });
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let to = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy_folder(&path, &to);
        } else {
            let _bytes = fs::copy(&path, &to).expect("a copy");
        }
    }
}

#[test]
fn a_planted_regression_has_its_commit_and_the_kernel_that_changed_with_it() {
    let place = Place::measured(MANIFEST);
    let run = place.run_folder();
    for number in 0..24 {
        let wobble = [0.0, 9.0, -4.0, 5.0, -8.0][number % 5];
        let (kernel, level) =
            if number < 14 { ("Linux 6.1", 1000.0) } else { ("Linux 6.2", 1100.0) };
        copy(&run, number, kernel, level + wobble);
    }
    fs::remove_dir_all(&run).expect("the run that was copied");
    let early = place.run(&["history"]).expect(0);
    assert!(early.stderr.contains("24 runs are not in the database"), "{}", early.stderr);
    let _ = place.run(&["results", "sync"]).expect(0);

    let found = place.run(&["--format", "json", "history", "any"]).expect(0).json();
    let series = found["series"].as_array().expect("series");
    assert_eq!(series.len(), 2, "a series for each batch size: {found}");
    // The one that changed comes first.
    let changed = &series[0];
    assert_eq!((&changed["key"]["batch"], &changed["metric"]), (&json!(1), &json!("latency.p50")));
    assert_eq!(changed["points"].as_array().map(Vec::len), Some(24));
    let changes = changed["changes"].as_array().expect("changes");
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(changes[0]["commit"], format!("{:040x}", 14));
    assert_eq!(changes[0]["commit-before"], format!("{:040x}", 13));
    assert_eq!(changes[0]["verdict"], "slower");
    let interval = &changes[0]["ratio-interval"];
    assert!(interval[0].as_f64() < Some(1.1) && Some(1.1) < interval[1].as_f64(), "{interval}");
    let mark = json!({ "name": "kernel", "before": "Linux 6.1", "after": "Linux 6.2" });
    assert_eq!(changed["points"][14]["environment"], json!([mark]));

    // One series, for people: it fits on a screen.
    let case = changed["points"][0]["case"].as_str().expect("an id");
    let shown = place.run(&["history", case]).expect(0);
    for words in
        ["▲ change", "┆ environment", "+10.", "slower", "2026-01-15", "kernel", "Linux 6.2"]
    {
        assert!(shown.stdout.contains(words), "{words}:\n{}", shown.stdout);
    }
    let lines = shown.stdout.lines().chain(shown.stderr.lines());
    assert!(lines.clone().count() <= 40, "{}", shown.stdout);
    assert!(lines.clone().all(|line| line.chars().count() <= 100), "{}", shown.stdout);
    let csv = place.run(&["--format", "csv", "history", "any", "--backend", "null"]).expect(0);
    assert_eq!(csv.stdout.lines().count(), 1 + 2 * 24);
}

#[test]
fn names_that_nothing_has_and_databases_that_cannot_be_read_are_refused() {
    let place = Place::new();
    let none = place.run(&["history"]).expect(7);
    assert!(none.stderr.contains("there is no database"), "{}", none.stderr);
    assert!(none.stderr.contains("host results sync"), "{}", none.stderr);

    let place = Place::measured(MANIFEST);
    let refused = |arguments: &[&str], words: &[&str]| {
        let ended = place.run(arguments).expect(7);
        for words in words {
            assert!(ended.stderr.contains(words), "{words}:\n{}", ended.stderr);
        }
    };
    refused(&["history", "ani"], &["no model or case `ani`", "did you mean `any`?"]);
    refused(&["history", "zzzzzzzzzz"], &["no model or case", "there are `any`"]);
    refused(
        &["history", "--metric", "latency.p51"],
        &["no metric `latency.p51`", "did you mean", "`latency.p50`"],
    );
    refused(&["history", "--backend", "nil"], &["no backend `nil`", "`null`"]);

    // One run is too few, which is an answer and no failure.
    let one = place.run(&["history", "any"]).expect(0);
    assert!(one.stdout.contains("cannot tell: 1 value, and a change needs 12"), "{}", one.stdout);

    let database = place.path().join("results/tare.duckdb");
    fs::write(&database, "this is no database").expect("damaging the database");
    refused(&["history"], &["cannot be read", "host results sync --rebuild"]);
}
