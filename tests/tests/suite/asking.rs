//! Recommenders that ask for cases beyond the matrix, from a manifest to the journal.

use std::fs;

use end_to_end::{Place, root};
use serde_json::Value;

/// A manifest with the test's model on a processor, and a recommender.
fn manifest(recommend: &str) -> String {
    let model = root().join("manifests/data/digits.onnx");
    format!(
        "schema = 1\nexperiment = {{ name = \"asking\" }}\n[[model]]\nid = \"digits\"\npath = {model:?}\n\
         [[backend]]\nid = \"cpu\"\n[matrix]\nbatch = [2]\nscenario = [\"single-stream\"]\n\
         [measure]\nwarm-up = 1\nduration = \"10ms\"\nminimum-queries = 5\nprocesses = 2\n\
         [[metric]]\nplugin = \"latency\"\n[[metric]]\nplugin = \"throughput\"\n[[metric]]\nplugin = \"memory\"\n\
         [[report]]\nplugin = \"json\"\n[[recommend]]\nplugin = \"batch-and-precision\"\n{recommend}"
    )
}

/// Runs a manifest, and returns the run's document and the lines of its plan.
fn run(place: &Place, recommend: &str) -> (Value, Vec<Value>) {
    place.write("it.toml", &manifest(recommend));
    let run = place.run(&["--format", "json", "run", "it.toml"]).expect(0).json();
    let folder = place.path().join("results/runs").join(run["run"].as_str().expect("an id"));
    let plan = fs::read_to_string(folder.join("plan.jsonl")).expect("the plan");
    let lines = plan.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    (run, lines.collect())
}

const WIDE: &str =
    "limits = [{ metric = \"memory.peak\", at-most = \"64 GiB\" }]\noptions = { up-to = 16 }\n";

#[test]
fn a_search_for_the_largest_batch_measures_cases_beyond_the_matrix() {
    let place = Place::new();
    let (run, plan) = self::run(&place, &format!("{WIDE}ask = {{ cases = 5, time = \"5min\" }}\n"));
    let batches: Vec<_> = plan.iter().map(|line| line["key"]["batch"].as_u64()).collect();
    assert_eq!(batches, [2, 4, 8, 16].map(Some));
    assert_eq!(plan[0]["asked"], Value::Null);
    assert_eq!(plan[3]["asked"]["by"], "batch-and-precision");
    let shown = place.run(&["--format", "json", "results", "show", "latest"]).expect(0).json();
    let cases = shown["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 4, "{shown:#}");
    let advice = &run["recommendations"][0];
    let title = advice["title"].as_str().expect("a title");
    assert!(title.contains("batch 16 is the largest"), "{title}");
    assert_eq!(advice["attributes"]["batch"], "16");
    // Each case has its metrics, and the tables say who asked for it.
    let query = "SELECT batch, asked_by, (SELECT count(*) FROM benchmark_results AS r WHERE r.case_id = c.case_id AND \
                 r.metric = 'memory.peak' AND r.value IS NOT NULL) FROM benchmark_cases AS c ORDER BY batch";
    let rows = place.run(&["--format", "csv", "results", "query", query]).expect(0).stdout;
    let rows: Vec<&str> = rows.lines().skip(1).collect();
    assert_eq!(
        rows,
        ["2,,1", "4,batch-and-precision,1", "8,batch-and-precision,1", "16,batch-and-precision,1"]
    );
}

#[test]
fn a_grant_ends_a_search_and_without_one_nothing_is_measured() {
    let place = Place::new();
    let (run, plan) = self::run(&place, &format!("{WIDE}ask = {{ cases = 1 }}\n"));
    assert_eq!(plan.len(), 2);
    let text = run["recommendations"][0].to_string();
    assert!(text.contains("the number of cases that the manifest grants is used up"), "{text}");
    let (run, plan) = self::run(&place, WIDE);
    assert_eq!(plan.len(), 1);
    let text = run["recommendations"][0].to_string();
    assert!(text.contains("grants this recommender no further cases"), "{text}");
}

#[test]
fn a_limit_below_the_model_is_one_clear_answer() {
    let place = Place::new();
    let limit =
        "limits = [{ metric = \"memory.peak\", at-most = \"1 MiB\" }]\nask = { cases = 9 }\n";
    let (run, plan) = self::run(&place, limit);
    let batches: Vec<_> = plan.iter().map(|line| line["key"]["batch"].as_u64()).collect();
    assert_eq!(batches, [2, 1].map(Some));
    let title = run["recommendations"][0]["title"].as_str().expect("a title");
    assert!(
        title.contains("nothing fits within memory.peak ≤ 1") && title.contains("not even batch 1"),
        "{title}"
    );
}

/// A host that is stopped after a case was asked for, and before the advice, goes on when it is resumed.
#[test]
fn a_search_goes_on_when_its_run_is_resumed() {
    let place = Place::new();
    let (run, _) = self::run(&place, &format!("{WIDE}ask = {{ cases = 5 }}\n"));
    let id = run["run"].as_str().expect("an id");
    let folder = place.path().join("results/runs").join(id);
    // As if the host had been stopped while it measured the last case.
    fs::remove_file(folder.join("finished.json")).expect("removing the end");
    let journal = fs::read_to_string(folder.join("journal.jsonl")).expect("the journal");
    let lines: Vec<&str> = journal.lines().collect();
    assert_eq!(lines.len(), 8);
    fs::write(folder.join("journal.jsonl"), lines[..6].join("\n") + "\n").expect("writing");
    let resumed = place.run(&["--format", "json", "run", "--resume", id]).expect(0).json();
    let title = resumed["recommendations"][0]["title"].as_str().expect("a title");
    assert!(title.contains("batch 16 is the largest"), "{title}");
    let plan = fs::read_to_string(folder.join("plan.jsonl")).expect("the plan");
    assert_eq!(plan.lines().count(), 4, "{plan}");
}

#[test]
fn a_permission_needs_an_import_and_a_grant() {
    let place = Place::new();
    // Granted, and not asked for.
    let needless =
        "ask = { cases = 1 }\n[[recommend]]\nplugin = \"hardware\"\nask = { cases = 1 }\n";
    place.write("it.toml", &manifest(&format!("{WIDE}{needless}")));
    let shown = place.run(&["validate", "it.toml"]).expect(3).stderr;
    assert!(shown.contains("its component does not import `more-cases`"), "{shown}");
    assert!(shown.contains("asks for no cases") && shown.contains("remove `ask`"), "{shown}");
    assert_eq!(shown.matches("more-cases").count(), 1, "{shown}");
    // Both keys are told.
    let permissions = |id: &str| {
        let info = place.run(&["--format", "json", "plugins", "info", id]).expect(0).json();
        info[0]["permissions"].clone()
    };
    assert_eq!(permissions("hardware"), serde_json::json!([]));
    assert_eq!(
        permissions("batch-and-precision"),
        serde_json::json!(["more-cases, if a manifest grants it with `ask`"])
    );
}
