//! Outputs are compared and placement is checked before and after timing, from a manifest to the report.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use end_to_end::Place;
use serde_json::Value;

const MANIFEST: &str = r#"schema = 1
[experiment]
name = "check"
[[model]]
id = "any"
path = { fp32 = "any.model", int8 = "other.model" }
[[backend]]
id = "well"
plugin = "fault"
options = { fault-offers = "profile, device-timer", fault = "slow", fault-milliseconds = 2 }
[[backend]]
id = "zeros"
plugin = "fault"
options = { fault = "zeros" }
[[backend]]
id = "stale"
plugin = "fault"
options = { fault = "stale", fault-after = 1 }
[[backend]]
id = "elsewhere"
plugin = "fault"
placement = "strict"
options = { fault-offers = "profile", fault = "fallback" }
[check]
reference = "fault"
[measure]
warm-up = 1
duration = "20ms"
minimum-queries = 1
[[metric]]
plugin = "latency"
[[report]]
plugin = "html"
"#;

#[test]
fn what_differs_from_the_reference_and_what_ran_elsewhere_fails_with_figures() {
    let place = Place::new();
    place.write("any.model", "anything");
    place.write("other.model", "something else");
    place.write("check.toml", MANIFEST);
    let run = place.run(&["run", "check.toml"]).expect(6);
    let journal = place.lines("journal.jsonl");
    let outcome = |backend: &str| {
        let record = journal.iter().find(|record| record["key"]["backend"] == backend);
        record.unwrap_or_else(|| panic!("no case of {backend}"))["outcome"].clone()
    };
    let well = outcome("well");
    assert_eq!(well["outcome"], "finished", "{well}");
    assert_eq!(well["conditions"]["parity"]["outputs"][0]["beyond"], 0, "{well}");
    assert_eq!(well["conditions"]["placement"]["Ok"]["requested"][0], "FaultProvider", "{well}");
    // Zeros are found in the first run already. The other one's first run is right.
    for (backend, batches) in [("zeros", 1), ("stale", 2)] {
        let failure = &outcome(backend)["failure"];
        assert_eq!(
            (&failure["kind"], &failure["difference"]),
            (&"differs".into(), &backend.into())
        );
        assert_eq!(failure["parity"]["batches"], batches, "the figures: {failure}");
    }
    assert_eq!(outcome("elsewhere")["failure"]["kind"], "misplaced");
    assert!(run.stdout.contains("1 on OtherProvider"), "{}", run.stdout);

    let folder = place.run_folder();
    assert!(!folder.join("references").exists(), "they can be large");
    let page = fs::read_to_string(folder.join("reports/html/report.html")).expect("the report");
    assert!(page.contains("2 on FaultProvider"), "where the operators ran");
    assert!(page.contains("Outputs compared with the reference's"));
    assert!(page.contains("fault 0.1.0 on fault:0 in fp32"));
    assert!(run.stdout.contains("--verbose shows by how much"), "{}", run.stdout);
    let shown = place.run(&["results", "show", "latest", "--verbose"]).expect(0).stdout;
    assert!(shown.contains("Outputs compared with fault 0.1.0 on fault:0 in fp32"), "{shown}");
    assert!(shown.contains("0.0e0") && shown.contains("1e-4 + 1e-3"), "{shown}");
    let shown = place.run(&["results", "show", "latest", "--format", "json"]).expect(0).stdout;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    let cases = shown["cases"].as_array().expect("cases");
    let parity: Vec<_> = cases.iter().filter(|case| !case["parity"].is_null()).collect();
    assert_eq!(parity[0]["parity"]["outputs"][0]["max-absolute-error"], 0.0, "{shown}");
    assert_eq!(parity.len(), 1, "of those that were timed: {shown}");
    let asked = "SELECT name, provider FROM operators ORDER BY start_ns";
    let table = place.run(&["results", "query", asked, "--format", "csv"]).expect(0);
    assert_eq!(table.stdout, "name,provider\ncopied,FaultProvider\nsum,FaultProvider\n");
}

/// Cases that agree with the reference and cases that do not, of which the second is long enough to be
/// interrupted.
const RESUMED: &str = r#"schema = 1
[experiment]
name = "resumed"
[[model]]
id = "any"
path = "any.model"
[[backend]]
id = "well"
plugin = "fault"
[[backend]]
id = "slow"
plugin = "fault"
options = { fault = "slow", fault-milliseconds = 100 }
[[backend]]
id = "wrong"
plugin = "fault"
options = { fault = "wrong" }
[[backend]]
id = "zeros"
plugin = "fault"
options = { fault = "zeros" }
[[backend]]
id = "last"
plugin = "fault"
[check]
reference = "fault"
[measure]
warm-up = 1
duration = "1s"
minimum-queries = 1
[[metric]]
plugin = "latency"
[[report]]
plugin = "json"
"#;

/// Returns the result of each case without times: its outcome, and the comparison of its outputs.
fn verdicts(place: &Place) -> Vec<(String, Value, Value)> {
    let verdict = |record: &Value| {
        let outcome = &record["outcome"];
        let parity = match outcome["outcome"].as_str() {
            Some("finished") => outcome["conditions"]["parity"].clone(),
            _ => outcome["failure"].clone(),
        };
        let backend = record["key"]["backend"].as_str().expect("a backend").to_owned();
        (backend, outcome["outcome"].clone(), parity)
    };
    place.lines("journal.jsonl").iter().map(verdict).collect()
}

/// Returns the reference's outputs in the run folder.
fn kept(folder: &Path) -> PathBuf {
    let files = fs::read_dir(folder.join("references")).expect("the references");
    let files: Vec<_> = files.map(|entry| entry.expect("an entry").path()).collect();
    let [file] = &files[..] else { panic!("one reference was expected: {files:?}") };
    file.clone()
}

#[test]
fn a_resumed_run_compares_with_the_same_references_and_makes_anew_what_is_lost() {
    let place = Place::new();
    place.write("any.model", "anything");
    place.write("it.toml", RESUMED);
    let _ = place.run(&["run", "it.toml"]).expect(6);
    let expected = verdicts(&place);
    let words: Vec<_> = expected.iter().map(|(backend, word, _)| (&**backend, word)).collect();
    assert_eq!(
        words,
        [
            ("well", &"finished".into()),
            ("slow", &"finished".into()),
            ("wrong", &"failed".into()),
            ("zeros", &"failed".into()),
            ("last", &"finished".into()),
        ]
    );

    let results = place.path().join("results");
    fs::remove_dir_all(&results).expect("removing the results");
    let child = place
        .host(&["run", "it.toml"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starting host");
    let deadline = Instant::now() + Duration::from_secs(60);
    let journal = || {
        let runs = fs::read_dir(place.path().join("results/runs")).ok()?;
        let folder = runs.filter_map(Result::ok).next()?.path();
        fs::read_to_string(folder.join("journal.jsonl")).ok()
    };
    while journal().is_none_or(|text| !text.ends_with('\n')) {
        assert!(Instant::now() < deadline, "the first case never finished");
        std::thread::sleep(Duration::from_millis(20));
    }
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).expect("interrupting");
    let output = child.wait_with_output().expect("waiting for host");
    assert_eq!(output.status.code(), Some(130));
    let interrupted = place.run_folder();
    assert_eq!(verdicts(&place), expected[..1], "it was interrupted in the second case");
    let reference = fs::read(kept(&interrupted)).expect("the outputs of the reference are kept");

    let inflict = |damage: &str, path: &Path| {
        let mut bytes = reference.clone();
        match damage {
            "removed" => return fs::remove_file(path),
            // The last element of the second batch, which the header does not describe.
            "changed" => bytes[reference.len() - 33] ^= 0x40,
            "cut" => bytes.truncate(reference.len() - 40),
            _ => {}
        }
        fs::write(path, bytes)
    };
    let unreadable = "` is unreadable: its SHA-256 is not the one that it ends with";
    let damages = [
        ("nothing", ""),
        ("removed", "` is missing"),
        ("changed", unreadable),
        ("cut", unreadable),
    ];
    let saved = place.path().join("interrupted");
    fs::rename(&results, &saved).expect("setting the results aside");
    for (damage, said) in damages {
        let status = Command::new("cp").arg("-r").arg(&saved).arg(&results).status();
        assert!(status.expect("starting cp").success());
        inflict(damage, &kept(&place.run_folder())).expect("damaging the reference");
        let ended = place.run(&["run", "--resume", "latest"]).expect(6);
        assert_eq!(verdicts(&place), expected, "{damage}");
        let shown = ended.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        let named = "the outputs of the reference fault 0.1.0 on fault:0 in fp32 are lost: `";
        assert_eq!(shown.contains(named), damage != "nothing", "{damage}: {shown}");
        assert!(shown.contains(said), "{damage}: {shown}");
        assert!(!place.run_folder().join("references").exists(), "they can be large");
        fs::remove_dir_all(&results).expect("removing the results");
    }
}
