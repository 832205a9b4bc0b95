//! Pairs of cases that are measured in turns, from the manifest to the reports.

use std::fs;

use end_to_end::{Ended, Place, built};
use serde_json::Value;

fn manifest(backends: &str, measure: &str) -> String {
    format!(
        r#"schema = 1
experiment = {{ name = "pairs" }}
[[model]]
id = "any"
path = "any.model"
{backends}
[measure]
order = "paired"
pair = ["old", "new"]
warm-up = 3
duration = "5ms"
confidence = {{ level = 0.95, half-width = "30%" }}
{measure}
[[metric]]
plugin = "latency"
[[report]]
plugin = "json"
[[report]]
plugin = "markdown"
[[report]]
plugin = "html"
"#
    )
}

fn backend(id: &str, microseconds: u32, more: &str) -> String {
    format!(
        "[[backend]]\nid = \"{id}\"\nplugin = \"fault\"\n{more}\
         options = {{ fault = \"slow\", fault-microseconds = {microseconds} }}\n"
    )
}

/// Returns the comparison of the second side in an answer or a report.
fn second(document: &Value) -> &Value {
    let cases = document["cases"].as_array().expect("cases");
    let mut second = cases.iter().map(|case| &case["paired"]).filter(|it| it["side"] == "second");
    second.next().expect("a second side")
}

#[test]
fn a_pair_is_told_in_the_terminal_in_the_views_and_in_all_reports() {
    let place = Place::new();
    place.write("any.model", "anything");
    let backends = backend("old", 50, "") + &backend("new", 150, "");
    place.write("pairs.toml", &manifest(&backends, ""));
    let run = place.run(&["run", "pairs.toml"]).expect(0);
    assert!(run.stdout.contains("new against old: time per query +"), "{}", run.stdout);
    assert!(run.stdout.contains("slower, 7 processes"), "{}", run.stdout);

    // Both sides of each process, and what they said together so far.
    let journal = place.lines("journal.jsonl");
    assert_eq!(journal.len(), 14);
    assert_eq!(journal[0]["outcome"]["paired"]["result"]["end"], Value::Null);
    assert_eq!(journal[13]["outcome"]["paired"]["result"]["end"], "differs");

    let shown = place.run(&["results", "show", "latest", "--format", "json"]).expect(0).json();
    let reports = place.run_folder().join("reports");
    let read = |name: &str| fs::read_to_string(reports.join(name)).expect("a report");
    let report: Value = serde_json::from_str(&read("json/results.json")).expect("JSON");
    for document in [&shown, &report] {
        let result = &second(document)["result"];
        assert_eq!((&result["processes"], &result["end"]), (&7.into(), &"differs".into()));
        assert!(result["interval"][0].as_f64().is_some_and(|low| low > 1.0), "{result}");
    }
    assert!(read("markdown/report.md").contains("### Pairs"), "{}", read("markdown/report.md"));
    assert!(read("html/report.html").contains("Table of pairs"));
    let sql = "SELECT processes, json_extract_string(paired, '$.result.end') FROM benchmark_cases \
               WHERE json_extract_string(paired, '$.side') = 'second'";
    let answer = place.run(&["results", "query", sql, "--format", "csv"]).expect(0);
    assert!(answer.stdout.contains("7,differs"), "{}", answer.stdout);
}

#[test]
fn an_interrupted_pair_is_continued_and_a_half_is_measured_again() {
    let place = Place::new();
    place.write("any.model", "anything");
    let backends = backend("old", 50, "") + &backend("new", 150, "");
    place.write("pairs.toml", &manifest(&backends, ""));
    let _ = place.run(&["run", "pairs.toml"]).expect(0);
    // As if the host had been ended between the two sides of the fourth process.
    let folder = place.run_folder();
    let journal = folder.join("journal.jsonl");
    let text = fs::read_to_string(&journal).expect("a journal");
    let kept: String = text.split_inclusive('\n').take(7).collect();
    fs::write(&journal, kept).expect("a shorter journal");
    fs::remove_file(folder.join("finished.json")).expect("it was finished");
    let _ = place.run(&["run", "--resume", "latest"]).expect(0);
    let journal = place.lines("journal.jsonl");
    assert_eq!(journal.len(), 14);
    let processes: Vec<u64> =
        journal.iter().map(|line| line["process"].as_u64().unwrap_or(0)).collect();
    assert_eq!(processes, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]);
    let last = &journal[13]["outcome"]["paired"]["result"];
    assert_eq!((&last["processes"], &last["end"]), (&7.into(), &"differs".into()));
}

#[test]
fn two_builds_of_one_plugin_are_paired_by_their_folders() {
    let place = Place::new();
    place.write("any.model", "anything");
    let mut backends = String::new();
    for id in ["old", "new"] {
        let folder = place.path().join("builds").join(id);
        fs::create_dir_all(&folder).expect("a folder");
        for file in fs::read_dir(built().join("plugins/fault")).expect("the plugin") {
            let file = file.expect("an entry").path();
            fs::copy(&file, folder.join(file.file_name().expect("a name"))).expect("a copy");
        }
        // Another build: bytes after the end of a library are not loaded.
        if id == "new" {
            let library = folder.join("libbackend_fault.so");
            let mut bytes = fs::read(&library).expect("the library");
            bytes.extend(b"another build");
            fs::write(&library, bytes).expect("another library");
        }
        let folder = folder.display().to_string();
        let _ = place.run(&["plugins", "trust", "fault", "--plugins", &folder]).expect(0);
        backends +=
            &backend(id, if id == "old" { 50 } else { 150 }, &format!("folder = \"{folder}\"\n"));
    }
    place.write("builds.toml", &manifest(&backends, ""));
    let run = place.run(&["run", "builds.toml"]).expect(0);
    assert!(run.stdout.contains("slower, 7 processes"), "{}", run.stdout);
    let journal = place.lines("journal.jsonl");
    let hashes = [0, 1].map(|line| journal[line]["spec"]["plugin"]["sha256"].clone());
    assert_ne!(hashes[0], hashes[1]);
}

#[test]
fn sides_that_do_not_fit_together_are_one_clear_answer() {
    let place = Place::new();
    place.write("any.model", "anything");
    let broken = "[[backend]]\nid = \"new\"\nplugin = \"fault\"\n\
                  options = { fault = \"error\", fault-phase = \"load\", fault-code = \"out-of-memory\" }\n";
    place.write("pairs.toml", &manifest(&(backend("old", 50, "") + broken), ""));
    let run = place.run(&["run", "pairs.toml"]).expect(6);
    assert!(run.stdout.contains("the other side of the pair, new"), "{}", run.stdout);
}

#[test]
fn the_noise_of_a_machine_is_measured_kept_and_used_by_a_run() {
    let place = Place::new();
    place.write("any.model", "anything");
    // Other tests must not find the figures.
    let cache = place.path().join("cache");
    let run = |arguments: &[&str]| {
        let output = place.host(arguments).env("XDG_CACHE_HOME", &cache).output();
        Ended::new(arguments, &output.expect("starting host")).expect(0)
    };
    let noise = run(&["doctor", "--noise", "1ms", "--format", "json"]).json();
    assert_eq!(noise["processes"], 8);
    assert!(noise["memory"].is_null() || noise["memory"]["between"].as_f64() >= Some(0.0));
    let text = "schema = 1\nexperiment = { name = \"noise\" }\n\
                [[model]]\nid = \"any\"\npath = \"any.model\"\n[[backend]]\nid = \"null\"\n\
                [measure]\nwarm-up = 1\nduration = \"1ms\"\nminimum-queries = 1\n\
                [[metric]]\nplugin = \"latency\"\n[[report]]\nplugin = \"json\"\n";
    place.write("noise.toml", text);
    let run = run(&["run", "noise.toml"]);
    assert!(run.stderr.contains("noise of this machine"), "{}", run.stderr);
    assert!(run.stderr.contains("one process shows no change for sure"), "{}", run.stderr);
}
