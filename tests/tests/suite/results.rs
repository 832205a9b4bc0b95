//! Results that were moved, damaged or lost after measuring: every command reports it.

use std::fs;
use std::path::{Path, PathBuf};

use end_to_end::{Ended, Place};

const MANIFEST: &str = r#"schema = 1
[experiment]
name = "results"
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
[[report]]
plugin = "json"
"#;

/// Returns a place with one finished run of two cases.
fn measured() -> Place {
    Place::measured(MANIFEST)
}

/// Returns the files of samples, in the order of their names.
fn samples(run: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(run.join("samples")).expect("the samples");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn stem(path: &Path) -> &str {
    path.file_stem().and_then(|stem| stem.to_str()).expect("a case's id")
}

/// Asserts that a warning of the command, and not a log line, names the case and the file.
#[track_caller]
fn warns_of(ended: &Ended, file: &Path) {
    let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
    let line = ended.stderr.lines().find(|line| line.contains(name));
    let line = line.unwrap_or_else(|| panic!("{name} is not in\n{}", ended.stderr));
    assert!(line.contains(&format!("case {}", stem(file))), "{line}");
    assert!(line.trim_start().starts_with("warning "), "{line}");
}

#[test]
fn samples_that_are_gone_are_named_by_every_command() {
    let place = measured();
    let files = samples(&place.run_folder());
    fs::remove_file(&files[0]).expect("losing a file");

    let shown = place.run(&["--format", "json", "results", "show"]).expect(0);
    warns_of(&shown, &files[0]);
    let lost = &shown.json()["lost-files"];
    assert_eq!(lost.as_array().expect("a list").len(), 1);
    assert_eq!(lost[0]["case"], stem(&files[0]));
    assert_eq!((&lost[0]["file"], &lost[0]["reason"]), (&"samples".into(), &"missing".into()));

    let query = "SELECT count(DISTINCT case_id) AS cases FROM raw_benchmark_data";
    let counted = place.run(&["--format", "json", "results", "query", query]).expect(0);
    assert_eq!(counted.json()[0]["cases"], 1);
    warns_of(&counted, &files[0]);

    let refused =
        place.run(&["results", "export", "--view", "samples", "--to", "samples.csv"]).expect(7);
    assert!(refused.stderr.contains(stem(&files[0])), "{}", refused.stderr);
    assert!(!place.path().join("samples.csv").exists());
    let exported =
        place.run(&["results", "export", "--view", "results", "--to", "results.csv"]).expect(0);
    warns_of(&exported, &files[0]);

    for _ in 0..2 {
        let synced = place.run(&["results", "sync"]).expect(0);
        warns_of(&synced, &files[0]);
    }
    // Finished cases stay finished: their results were computed while the samples were there.
    let resumed = place.run(&["run", "--resume", "latest"]).expect(0);
    assert!(resumed.stderr.contains("nothing left to do"), "{}", resumed.stderr);
    warns_of(&resumed, &files[0]);
}

#[test]
fn a_case_without_its_samples_is_measured_again() {
    let place = measured();
    let run = place.run_folder();
    let files = samples(&run);
    // The run looks as if it had been interrupted.
    fs::remove_file(run.join("finished.json")).expect("an unfinished run");
    fs::remove_file(&files[0]).expect("losing a file");
    let before = place.lines("journal.jsonl");

    let resumed = place.run(&["run", "--resume", "latest"]).expect(0);
    assert!(resumed.stderr.contains("1 of 2 done"), "{}", resumed.stderr);
    warns_of(&resumed, &files[0]);
    assert_eq!(samples(&run), files);
    let after = place.lines("journal.jsonl");
    assert_eq!(after.len(), 2);
    let of = |lines: &[serde_json::Value], id: &str| {
        lines.iter().find(|line| line["case-id"] == id).expect("a case").clone()
    };
    assert_ne!(of(&before, stem(&files[0])), of(&after, stem(&files[0])));
    assert_eq!(of(&before, stem(&files[1])), of(&after, stem(&files[1])));
    let shown = place.run(&["--format", "json", "results", "show"]).expect(0).json();
    assert_eq!(shown["lost-files"], serde_json::json!([]));
    for case in shown["cases"].as_array().expect("cases") {
        assert!(case["metrics"]["latency.p50"]["value"].is_f64(), "{case}");
    }
}

#[test]
fn a_damaged_run_is_listed() {
    let place = measured();
    let run = place.run_folder();
    fs::remove_file(run.join("finished.json")).expect("an unfinished run");
    let journal = fs::read_to_string(run.join("journal.jsonl")).expect("the journal");
    fs::write(run.join("journal.jsonl"), format!("{{\n{journal}")).expect("a damaged journal");

    let listed = place.run(&["results", "list"]).expect(7);
    let id = run.file_name().and_then(|name| name.to_str()).expect("an id");
    let row = listed.stdout.lines().find(|line| line.starts_with(id)).expect("a row");
    assert!(row.contains("damaged"), "{row}");
    assert!(!listed.stderr.contains("no run"), "{}", listed.stderr);
    let listed = place.run(&["--format", "json", "results", "list"]).expect(7).json();
    assert_eq!(listed[0]["state"], "damaged");
    let _ = place.run(&["results", "show"]).expect(7);

    // The path appears once.
    fs::write(run.join("run.json"), "{").expect("a damaged header");
    let synced = place.run(&["results", "sync"]).expect(7);
    let line = synced.stderr.lines().find(|line| line.contains("run.json")).expect("a warning");
    assert_eq!(line.matches(id).count(), 1, "{line}");
}

#[test]
fn a_torn_line_is_a_warning_and_no_log() {
    let place = measured();
    let run = place.run_folder();
    fs::remove_file(run.join("finished.json")).expect("an unfinished run");
    let mut journal = fs::read_to_string(run.join("journal.jsonl")).expect("the journal");
    journal += "{\"record-ver";
    fs::write(run.join("journal.jsonl"), journal).expect("a torn journal");
    for command in [&["results", "list"][..], &["results", "show"], &["results", "sync"]] {
        let ended = place.run(command).expect(0);
        assert!(!ended.stderr.contains("WARN"), "{}", ended.stderr);
        let warnings = ended.stderr.lines().filter(|line| line.contains("line 3 of"));
        let warnings: Vec<_> = warnings.collect();
        assert_eq!(warnings.len(), 1, "{}", ended.stderr);
        assert!(warnings[0].trim_start().starts_with("warning "), "{}", warnings[0]);
    }
}

#[test]
fn sync_drops_what_is_gone_and_makes_nothing_of_nothing() {
    let place = Place::new();
    let synced = place.run(&["results", "sync"]).expect(0);
    assert!(synced.stderr.contains("no run in results"), "{}", synced.stderr);
    assert!(!place.path().join("results").exists());

    let place = measured();
    fs::remove_dir_all(place.run_folder()).expect("removing the run");
    fs::create_dir(place.path().join("results/runs/half")).expect("a folder that is no run");
    let synced = place.run(&["results", "sync"]).expect(0);
    assert!(synced.stderr.contains("1 dropped"), "{}", synced.stderr);
    assert!(synced.stderr.contains("runs/half` is no run"), "{}", synced.stderr);
    let listed = place.run(&["results", "list"]).expect(0);
    assert!(listed.stderr.contains("runs/half` is no run"), "{}", listed.stderr);
    let query = "SELECT count(*) AS runs FROM benchmark_runs";
    let counted = place.run(&["--format", "json", "results", "query", query]).expect(0).json();
    assert_eq!(counted[0]["runs"], 0);
}

#[test]
fn what_cannot_be_written_is_an_error_of_its_own() {
    let place = measured();
    let to = ["results", "export", "--view", "results", "--to", "no/such/folder.csv"];
    let _ = place.run(&to).expect(1);
    // A file is only replaced on request.
    let taken = place.write("taken.csv", "mine");
    let to = ["results", "export", "--view", "results", "--to", "taken.csv"];
    let refused = place.run(&to).expect(2).stderr;
    assert!(
        refused.contains("taken.csv exists already") && refused.contains("--force"),
        "{refused}"
    );
    assert_eq!(std::fs::read_to_string(&taken).expect("the file"), "mine");
    let _ = place.run(&[&to[..], &["--force"]].concat()).expect(0);
    assert_ne!(std::fs::read_to_string(&taken).expect("the file"), "mine");
    place.write("file", "");
    let _ = place.run(&["--results", "file", "run", "it.toml"]).expect(1);
    // A missing file is a different error.
    let _ = place.run(&["results", "show", "nonesuch"]).expect(7);
    let _ = place.run(&["results", "query", "SELECT nonesuch"]).expect(7);
}

#[test]
fn lists_and_structures_are_json_in_json() {
    let place = measured();
    let query = "SELECT [1, 2] AS list, {'a': [true]} AS structure, '[1]' AS text";
    let expected = serde_json::json!({"list": [1, 2], "structure": {"a": [true]}, "text": "[1]"});
    let ask = |format| place.run(&["--format", format, "results", "query", query]).expect(0);
    assert_eq!(ask("json").json()[0], expected);
    assert_eq!(ask("jsonl").json(), expected);
    let text = ask("csv").stdout;
    assert!(text.contains(r#""[1,2]","{""a"":[true]}",[1]"#), "{text}");
}

#[cfg(unix)]
#[test]
fn a_manifest_whose_name_is_not_utf_8_is_run() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let place = Place::new();
    place.write("any.model", "anything");
    let name = OsStr::from_bytes(b"caf\xe9.toml");
    fs::write(place.path().join(name), MANIFEST).expect("a manifest");
    let output = place.host(&["run"]).arg(name).output().expect("starting host");
    let _ = Ended::new(&["run"], &output).expect(0);
    let header = fs::read_to_string(place.run_folder().join("run.json")).expect("the header");
    assert!(header.contains("caf\u{fffd}.toml"), "{header}");

    // Such a folder name cannot be kept in the paths of models.
    let folder = place.path().join(OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("it.toml"), MANIFEST).expect("a manifest");
    fs::write(folder.join("any.model"), "anything").expect("a model");
    let output = place.host(&["--results", "others", "run"]).arg(folder.join("it.toml")).output();
    let refused = Ended::new(&["run"], &output.expect("starting host")).expect(3);
    assert!(refused.stderr.contains("not UTF-8"), "{}", refused.stderr);
    assert!(!place.path().join("others").exists());
}
