//! `host check` and baselines from a manifest to the exit code, with planted regressions.
//!
//! The fault backend is slow by a number of microseconds. Its results are marked as simulated, about which no check says
//! anything. The tests take the mark from the journal, so that they count as those of a device.

use std::fs;
use std::path::{Path, PathBuf};

use end_to_end::{Ended, Place};
use serde_json::Value;

const TABLES: &str = "[[metric]]\nplugin = \"latency\"\n[[report]]\nplugin = \"json\"\n";

/// Returns a manifest whose backend takes this long, in so many processes.
fn manifest(microseconds: u32, processes: u32, more: &str) -> String {
    format!(
        r#"schema = 1
[experiment]
name = "gate"
[[model]]
id = "any"
path = "any.model"
[[backend]]
id = "fault"
options = {{ fault = "slow", fault-microseconds = {microseconds} }}
[measure]
warm-up = 1
duration = "40ms"
minimum-queries = 10
processes = {processes}
{TABLES}{more}"#
    )
}

/// Measures a manifest, and returns the run's folder, whose results count as a device's.
fn measured(place: &Place, manifest: &str) -> PathBuf {
    place.write("any.model", "anything");
    place.write("it.toml", manifest);
    let run = place.run(&["--format", "json", "run", "it.toml"]).expect(0).json();
    let folder = place.path().join("results/runs").join(run["run"].as_str().expect("an id"));
    let journal = folder.join("journal.jsonl");
    let text = fs::read_to_string(&journal).expect("the journal");
    assert!(text.contains("\"simulated\":\""), "{text}");
    fs::write(&journal, text.replace("\"simulated\":\"", "\"pretended\":\"")).expect("writing");
    folder
}

fn id(folder: &Path) -> &str {
    folder.file_name().and_then(|name| name.to_str()).expect("a run's id")
}

/// Returns the output as one line, because long lines are wrapped.
fn joined(ended: &Ended) -> String {
    let shown = format!("{} {}", ended.stdout, ended.stderr);
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A regression of 30 % and more is planted against a limit of 5 %. On a machine so busy that even this cannot be told, the
/// answer is 11 and never 0: a check may be unable to tell, and must not be wrong.
#[test]
#[expect(clippy::print_stderr, reason = "what was seen is for whoever reads the test's output")]
fn a_planted_regression_is_found_and_shown_in_every_format() {
    let place = Place::new();
    let before = measured(&place, &manifest(4000, 8, ""));
    let saved = place.run(&["check", id(&before), "--save-baseline", "main@here"]).expect(0);
    assert!(saved.stderr.contains("main@here.json with 1 case"), "{}", saved.stderr);
    let after = measured(&place, &manifest(5600, 8, ""));
    let arguments = ["check", id(&after), "--baseline", "main@here", "--annotations"];
    let files = ["--output", "junit.xml", "--output", "check.json", "--output", "summary.md"];
    let checked = place.run(&[&arguments[..], &files[..]].concat());
    let document: Value = serde_json::from_str(
        &fs::read_to_string(place.path().join("check.json")).expect("the result"),
    )
    .expect("JSON");
    eprintln!("{document:#}");
    let verdict = document["verdict"].as_str().expect("a verdict");
    let figure = &document["figures"][0];
    assert_eq!(figure["verdict"], verdict);
    assert_eq!((&figure["against"], &figure["redefined"]), (&"baseline".into(), &true.into()));
    // The interval decides, whatever the machine did meanwhile.
    let low = figure["change"]["ratio-interval"][0].as_f64().expect("an interval");
    let (code, expected) = if low > 1.05 { (10, "failed") } else { (11, "cannot-tell") };
    let checked = checked.expect(code);
    assert_eq!(verdict, expected);
    let junit = fs::read_to_string(place.path().join("junit.xml")).expect("the report for JUnit");
    let summary = fs::read_to_string(place.path().join("summary.md")).expect("the summary");
    let (mark, level, heading) = match code {
        10 => ("<failure ", "::error title=latency.p50", "## Benchmarks: failed"),
        _ => ("<skipped ", "::warning title=latency.p50", "## Benchmarks: cannot tell"),
    };
    assert!(junit.contains(mark) && junit.contains("tests=\"1\""), "{junit}");
    assert!(summary.starts_with(heading) && summary.contains("| latency.p50 |"), "{summary}");
    assert!(checked.stderr.lines().any(|line| line.starts_with(level)), "{}", checked.stderr);
    assert!(summary.contains("another definition"), "{summary}");
    let printed =
        place.run(&["--format", "markdown", "check", id(&after), "--baseline", "main@here"]);
    assert_eq!(printed.expect(code).stdout.trim_end(), summary.trim_end());

    // The other way around it got faster, which passes; and a run is surely no worse than itself if its own processes
    // agree well enough.
    let back = place.run(&["--format", "json", "check", id(&before), "--baseline", id(&after)]);
    let high = back.json()["figures"][0]["change"]["ratio-interval"][1].as_f64().expect("one");
    let _ = back.expect(if high <= 1.05 { 0 } else { 11 });
    let same = place.run(&["--format", "json", "check", id(&after), "--baseline", id(&after)]);
    let high = same.json()["figures"][0]["change"]["ratio-interval"][1].as_f64().expect("one");
    let _ = same.expect(if high <= 1.05 { 0 } else { 11 });

    // The same through `compare`, of which the change of the option is a part.
    let compared = place.run(&["--format", "json", "compare", "main@here", id(&after)]).expect(0);
    let compared = compared.json();
    assert_eq!(compared["cases"][0]["redefined"], true, "{compared}");
    let slower = if code == 10 { &["slower"][..] } else { &["slower", "cannot-tell"] };
    let found = compared["cases"][0]["verdict"].as_str().expect("a verdict");
    assert!(slower.contains(&found), "{compared}");
    assert_eq!(compared["speed-up"]["cases"], 1);
    let conditions = compared["conditions"].as_array().expect("a list");
    let names = || conditions.iter().map(|one| one["name"].as_str().expect("a name"));
    assert!(names().all(|name| !name.starts_with("plugin.")), "one machine: {compared}");
}

/// A baseline from a file that can be committed, alerts, and a single process.
#[test]
fn one_process_cannot_tell_and_alerts_can() {
    let place = Place::new();
    let alerts = "[[alert]]\nmetric = \"latency.p50\"\nat-least = \"1us\"\n";
    let before = measured(&place, &manifest(2000, 1, alerts));
    let saved = place.run(&["check", id(&before), "--save-baseline", "base.json"]).expect(0);
    assert!(joined(&saved).contains("1 of 1 cases were measured in a single process"));
    let alone = place.run(&["check"]).expect(0);
    assert!(joined(&alone).contains("latency.p50"), "{}", alone.stdout);
    let checked = place.run(&["--format", "json", "check", "--baseline", "base.json"]).expect(11);
    let document = checked.json();
    assert_eq!(
        (&document["verdict"], &document["needed-processes"]),
        (&"cannot-tell".into(), &5.into())
    );
    assert_eq!(document["counts"]["passed"], 1, "the alert: {document}");
    assert!(checked.stderr.contains("`processes = 5` under [measure]"), "{}", checked.stderr);

    // No query takes less than the time that the backend waits.
    let broken = "[[alert]]\nmetric = \"latency.p50\"\nat-most = \"1ms\"\n";
    place.write("it.toml", &manifest(2000, 1, broken));
    let run = place.run(&["run", "it.toml"]).expect(0);
    let says = "latency.p50 ≤ 1 ms: cannot be told in 1 of 1 case";
    assert!(joined(&run).contains(says), "it is simulated: {}", joined(&run));
    let simulated = place.run(&["check"]).expect(11);
    assert!(joined(&simulated).contains("the device is simulated"), "{}", joined(&simulated));
    let folder = measured(&place, &manifest(2000, 1, broken));
    let checked = place.run(&["check", id(&folder)]).expect(10);
    assert!(joined(&checked).contains("beyond the limit"), "{}", joined(&checked));
    let shown = joined(&place.run(&["check", id(&folder), "--quiet"]).expect(10));
    assert!(!shown.contains("Failed"), "{shown}");
}

/// Each row of the table of answers in `docs/guide/ci.md`.
#[test]
fn bad_input_has_one_clear_answer_each() {
    let place = Place::new();
    let folder = measured(&place, &manifest(500, 2, ""));
    let run = id(&folder).to_owned();
    let _ = place.run(&["check", "--save-baseline", "main"]).expect(0);
    let kept = place.path().join("results/baselines/main.json");
    let text = fs::read_to_string(&kept).expect("the baseline");
    place.write("newer.json", &text.replace("\"baseline-version\": 1", "\"baseline-version\": 9"));
    place.write("cut.json", &text[..text.len() / 2]);
    place.write("other.json", "{\"what\": \"else\"}");
    place.write(
        "alien.json",
        &text
            .replace("\"model\":\"any\"", "\"model\":\"other\"")
            .replace("\"id\":\"", "\"id\":\"0"),
    );
    let answer = |arguments: &[&str], code: i32, says: &[&str]| {
        let shown = joined(&place.run(&[&["check"], arguments].concat()).expect(code));
        for words in says {
            assert!(shown.contains(words), "{arguments:?}: {words} in {shown}");
        }
    };
    let baseline = |name: &str, code, says: &[&str]| answer(&["--baseline", name], code, says);
    let pipe = std::process::Command::new("mkfifo").arg(place.path().join("pipe.json")).status();
    assert!(pipe.expect("mkfifo").success());
    baseline("pipe.json", 7, &["it is a pipe, not a regular file"]);
    baseline("absent.json", 7, &["there is no baseline absent.json", "--save-baseline FILE"]);
    baseline("absent", 7, &["there is no run `absent`", "baselines: main"]);
    baseline("0123456789", 7, &["there is no run `0123456789`"]);
    baseline(
        "newer.json",
        7,
        &["has version 9, but this host reads versions up to 1", "update this host"],
    );
    baseline("cut.json", 7, &["is not a baseline, or is damaged", "restore it from a copy"]);
    baseline("other.json", 7, &["it has no `baseline-version`"]);
    baseline("alien.json", 7, &["have no case in common", "one manifest"]);
    answer(&[], 2, &["there is nothing to check", "[[alert]]"]);
    answer(
        &["--baseline", "main", "--metric", "latency.p98"],
        2,
        &["no case has the metric", "did you mean `latency.p90`"],
    );
    answer(&["--baseline", "main", "--max-regression", "5"], 2, &["such as 5%"]);
    answer(
        &["--baseline", "main", "--output", "it.html"],
        2,
        &["it.html is not known by its ending"],
    );
    answer(&["--save-baseline", "feature/x"], 2, &["cannot be the name of a baseline"]);
    // A metric that has no value has a reason: two queries are too few.
    answer(
        &["--baseline", "main", "--metric", "latency.p99"],
        11,
        &["cannot tell: the run has no such value"],
    );
    answer(&["absent", "--baseline", "main"], 7, &["there is no run `absent`"]);

    // Neither a damaged nor a locked database matters: it is not opened.
    let database = place.path().join("results/tare.duckdb");
    fs::write(&database, "not a database").expect("damaging it");
    let checked = place.run(&["check", "--baseline", "main"]);
    assert!(matches!(checked.code, Some(0 | 11)), "{}", joined(&checked));

    // A run of a newer host, and one whose journal is damaged.
    let header = folder.join("run.json");
    let journal = folder.join("journal.jsonl");
    let whole = fs::read_to_string(&journal).expect("the journal");
    fs::write(&journal, format!("{{\"oops\": 1}}\n{whole}")).expect("damaging it");
    answer(&["--baseline", "main"], 7, &["journal.jsonl", "line 1"]);
    fs::write(&journal, &whole).expect("mending it");
    let text = fs::read_to_string(&header).expect("the header");
    let place_of =
        text.find("\"record-version\": ").expect("a version") + "\"record-version\": ".len();
    fs::write(&header, format!("{}99{}", &text[..place_of], &text[place_of + 1..]))
        .expect("writing");
    answer(&[&run, "--baseline", "main"], 7, &["record version 99", "update this host"]);
}

/// The newest run of a commit stands for it, unless there were changes.
#[test]
fn a_commit_stands_for_its_newest_run() {
    let place = Place::new();
    let folder = measured(&place, &manifest(500, 2, ""));
    let header = folder.join("run.json");
    let text = fs::read_to_string(&header).expect("the header");
    let mut document: Value = serde_json::from_str(&text).expect("JSON");
    let commit = "89abcdef0123456789abcdef0123456789abcdef";
    for (at, code) in [(commit.to_owned(), 0), (format!("{commit}-dirty"), 7)] {
        document["environment"]["git-commit"] = at.into();
        fs::write(&header, document.to_string()).expect("writing the header");
        let found = place.run(&["--format", "json", "compare", "89abcdef01"]).expect(code);
        if code == 0 {
            assert_eq!(found.json()["first-commit"], commit);
        } else {
            assert!(joined(&found).contains("without changes"), "{}", joined(&found));
        }
    }
}
