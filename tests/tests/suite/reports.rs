//! Reports, including untrusted ones: where they write, what they may do, and how they are rewritten.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use end_to_end::{Ended, Place, built, hostile};

/// Returns a manifest of one case with these tables of reports.
fn manifest(reports: &str) -> String {
    format!(
        "schema = 1\n[experiment]\nname = \"reports\"\n[[model]]\nid = \"any\"\npath = \"any.model\"\n\
         [[backend]]\nid = \"null\"\n[matrix]\nbatch = [1]\n[measure]\nwarm-up = 1\nduration = \"20ms\"\n\
         minimum-queries = 1\n[[metric]]\nplugin = \"latency\"\n[[recommend]]\nplugin = \"hardware\"\n{reports}"
    )
}

/// Returns a table for the untrusted report. It reads a view first, so that its options count as accepted.
fn stranger(options: &str) -> String {
    format!("[[report]]\nplugin = \"hostile-report\"\noptions = {{ view = \"run\", {options} }}\n")
}

/// Returns a place with the untrusted report among the user's plugins, and a manifest `it.toml`.
fn with_stranger(reports: &str) -> Place {
    let place = Place::new();
    place.write("any.model", "anything");
    place.write("it.toml", &manifest(reports));
    fs::copy(hostile("hostile_report"), place.plugins().join("hostile_report.wasm"))
        .expect("copying the stranger's report");
    place
}

/// Returns the contents of all files below a folder, without the results.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("below it").display().to_string();
                let text = String::from_utf8_lossy(&fs::read(&path).expect("a file")).into_owned();
                found.insert(name, text);
            }
        }
    }
    found
}

/// Returns the output as one line, because long lines are wrapped.
fn joined(ended: &Ended) -> String {
    let words: Vec<_> = ended.stderr.split_whitespace().collect();
    words.join(" ")
}

#[test]
fn a_strangers_report_cannot_touch_a_checkout() {
    for (options, code, says) in [
        ("write = [\".git/config\"], name = [\".git/config\"]", 4, "a part that begins with a dot"),
        ("write = [\"../src/main.rs\"], name = [\"x\"]", 4, "a part that begins with a dot"),
        ("write = [\"chart.svg\"], name = [\"chart.svg\"]", 4, "browsers run scripts"),
        ("write = [\"files.sha256\"], name = [\"files.sha256\"]", 4, "the host's list"),
        (
            "write = [\"a\", \"page.html\"], name = [\"page.html\"]",
            1,
            "checkout/hostile-report` is in the way",
        ),
    ] {
        let place = with_stranger(&(stranger(options) + "[[report]]\nplugin = \"json\"\n"));
        let checkout = place.path().join("checkout");
        let mut mine = vec![".git/config", "src/main.rs"];
        if code == 1 {
            // The user has a folder with the plugin's name.
            mine.insert(1, "hostile-report/mine.rs");
        }
        for name in &mine {
            let path = checkout.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, "mine").expect("a file");
        }
        let run = place.run(&["run", "it.toml", "--report-dir", "checkout"]).expect(code);
        assert!(joined(&run).contains(says), "{options}: {}", run.stderr);
        let mut found = files(&checkout);
        // The untrusted plugin costs only its own report.
        for name in ["json/results.json", "json/files.sha256"] {
            assert!(found.remove(name).is_some(), "{name} is missing: {found:?}");
        }
        let names: Vec<_> = found.keys().collect();
        assert_eq!(names, mine, "{options}");
        assert!(found.values().all(|text| text == "mine"), "{options}: {found:?}");
        assert!(place.run_folder().join("finished.json").is_file());
    }
}

#[test]
fn each_report_replaces_its_own_files_only() {
    let reports =
        stranger("write = [\"a/b.txt\", \"run.json\"], name = [\"run.json\"], contents = \"x\"")
            + "[[report]]\nplugin = \"json\"\n";
    let place = with_stranger(&reports);
    let run = || place.run(&["run", "it.toml", "--report-dir", "out"]);
    for _ in 0..2 {
        let run = run().expect(0);
        let place = joined(&run);
        assert!(place.contains("Report out/hostile-report/run.json"), "{}", run.stderr);
        assert!(place.contains("Report out/json/results.json"), "{}", run.stderr);
    }
    let out = place.path().join("out");
    let names: Vec<_> = files(&out).into_keys().collect();
    let of_json = ["json/files.sha256", "json/results.json"];
    let of_stranger =
        ["hostile-report/a/b.txt", "hostile-report/files.sha256", "hostile-report/run.json"];
    assert_eq!(names, [&of_stranger[..], &of_json].concat());
    assert_eq!(files(&out)["hostile-report/run.json"], "x");
    // The list has a format that other programs can check.
    let checked = std::process::Command::new("sha256sum")
        .args(["--check", "--strict", "files.sha256"])
        .current_dir(out.join("hostile-report"))
        .output()
        .expect("sha256sum");
    assert!(checked.status.success(), "{checked:?}");
    // A file that the user has edited belongs to the user.
    fs::write(out.join("json/results.json"), "edited").expect("editing a report");
    let refused = run().expect(1);
    assert!(
        joined(&refused).contains("out/json/results.json` is in the way"),
        "{}",
        refused.stderr
    );
    assert_eq!(files(&out)["json/results.json"], "edited");
}

#[test]
fn every_page_has_the_hosts_policy() {
    let page = "<!-- <!doctype html> --><script src='https://example.org/x.js'></script>";
    let options = format!("write = [\"p.html\"], name = [\"p.html\"], contents = \"{page}\"");
    let place = with_stranger(&(stranger(&options) + "[[report]]\nplugin = \"html\"\n"));
    let _ = place.run(&["run", "it.toml"]).expect(0);
    let reports = files(&place.run_folder().join("reports"));
    for name in ["hostile-report/p.html", "html/report.html"] {
        let start = "<!DOCTYPE html><meta charset=\"utf-8\"><meta http-equiv=\"Content-Security-Policy\" \
                     content=\"default-src 'none'; ";
        assert!(reports[name].starts_with(start), "{name}: {:.200}", reports[name]);
    }
    assert!(reports["hostile-report/p.html"].ends_with(page));
}

/// Waits until a file exists.
fn wait_for(path: impl Fn() -> Option<std::path::PathBuf>) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !path().is_some_and(|path| path.exists()) {
        assert!(Instant::now() < deadline, "the file never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a process handles Ctrl-C.
#[cfg(target_os = "linux")]
fn wait_for_handler(process: u32) {
    let deadline = Instant::now() + Duration::from_secs(120);
    let handles = || {
        let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("signals");
        let mask = u64::from_str_radix(mask.trim(), 16).expect("a mask");
        mask & (1 << (rustix::process::Signal::INT.as_raw() - 1)) != 0
    };
    while !handles() {
        assert!(Instant::now() < deadline, "it never listens");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn an_interrupt_before_measuring_ends_a_metric_that_loops() {
    let place = Place::new();
    place.write("any.model", "anything");
    let metric = "[[metric]]\nplugin = \"hostile-metric\"\noptions = { act = \"loop\" }\n";
    place.write("it.toml", &(manifest("") + metric));
    fs::copy(hostile("hostile_metric"), place.plugins().join("hostile_metric.wasm"))
        .expect("copying the stranger's metric");
    let child = place
        .host(&["run", "it.toml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starting host");
    wait_for_handler(child.id());
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).expect("interrupting");
    let ended = Ended::new(&["run"], &child.wait_with_output().expect("waiting for host"));
    let ended = ended.expect(130);
    assert!(ended.stderr.contains("interrupted before anything was measured"), "{}", ended.stderr);
    assert!(!place.path().join("results/runs").exists(), "nothing was begun");
}

#[test]
fn an_interrupt_ends_a_report_that_loops_and_the_rest_is_done_on_resuming() {
    let reports = "[[report]]\nplugin = \"json\"\n".to_owned()
        + &stranger("loop = true")
        + "[[report]]\nplugin = \"markdown\"\n";
    let place = with_stranger(&reports);
    let child = place
        .host(&["run", "it.toml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starting host");
    let run_folder = || {
        let mut runs = fs::read_dir(place.path().join("results/runs")).ok()?;
        Some(runs.next()?.ok()?.path())
    };
    wait_for(|| Some(run_folder()?.join("reports/json/results.json")));
    let start = Instant::now();
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).expect("interrupting");
    let output = child.wait_with_output().expect("waiting for host");
    let ended = Ended::new(&["run"], &output).expect(130);
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    let shown = joined(&ended);
    assert!(shown.contains("missing: the report `hostile-report` and `markdown`"), "{shown}");
    assert!(shown.contains("--resume"), "{shown}");
    let folder = place.run_folder();
    assert!(!folder.join("finished.json").exists(), "a run without its reports has not finished");
    let listed = place.run(&["--format", "json", "results", "list"]).expect(0).json();
    assert_eq!(listed[0]["state"], "interrupted", "{listed}");
    let query = "SELECT finished_at FROM benchmark_runs";
    let indexed = place.run(&["--format", "json", "results", "query", query]).expect(0).json();
    assert!(indexed[0]["finished_at"].is_null(), "{indexed}");
    // Other reports can be written meanwhile.
    let _ = place.run(&["report", "latest", "--report", "markdown"]).expect(0);
    assert!(folder.join("reports/markdown/report.md").is_file());
}

#[test]
fn a_run_that_was_killed_before_its_last_report_is_completed_and_nothing_is_done_twice() {
    let reports = "[[report]]\nplugin = \"json\"\n[[report]]\nplugin = \"markdown\"\n";
    let place = Place::measured(&manifest(reports));
    let folder = place.run_folder();
    let finished = place.run(&["--format", "json", "results", "list"]).expect(0).json();
    assert_eq!(finished[0]["state"], "finished");
    let report = files(&folder.join("reports"))["json/results.json"].clone();
    assert!(!report.contains("\"finished-at\": null"), "a report says when the run ended");

    fs::remove_file(folder.join("finished.json")).expect("as if it was killed");
    fs::remove_file(folder.join("reports/markdown/report.md")).expect("as if it was killed");
    let written = |name: &str| {
        let path = folder.join("reports").join(name);
        fs::metadata(path).and_then(|found| found.modified()).expect("a time")
    };
    let before = (written("json/results.json"), written("markdown/files.sha256"));
    let lines = ["journal.jsonl", "results.jsonl", "recommendations.jsonl"];
    let lines_before = lines.map(|name| place.lines(name));
    let resumed = place.run(&["run", "--resume", "latest"]).expect(0);
    assert!(resumed.stderr.contains("reports/json/results.json"), "{}", resumed.stderr);
    assert!(folder.join("finished.json").is_file());
    assert!(folder.join("reports/markdown/report.md").is_file());
    assert_eq!(written("json/results.json"), before.0, "it was there");
    assert_ne!(written("markdown/files.sha256"), before.1);
    assert_eq!(lines.map(|name| place.lines(name)), lines_before);
    let again = place.run(&["run", "--resume", "latest"]).expect(0);
    assert!(again.stderr.contains("nothing left to do"), "{}", again.stderr);
    let synced = place.run(&["results", "sync"]).expect(0);
    assert!(synced.stderr.contains("1 unchanged"), "{}", synced.stderr);
}

#[test]
fn reports_of_an_old_run_are_made_again_and_others_too() {
    let place = Place::measured(&manifest("[[report]]\nplugin = \"json\"\n"));
    let folder = place.run_folder();
    let original = files(&folder.join("reports"));
    fs::remove_dir_all(folder.join("reports")).expect("losing the reports");
    let made = place.run(&["report"]).expect(0);
    assert!(made.stderr.contains("reports/json/results.json"), "{}", made.stderr);
    assert_eq!(files(&folder.join("reports")), original, "the same run and plugin");

    // More reports, in another folder, for machines.
    let arguments = ["report", "latest", "--report", "csv", "--report", "json"];
    let arguments = [&arguments[..], &["--report-dir", "out", "--format", "json"]].concat();
    let made = place.run(&arguments).expect(0).json();
    let plugins: Vec<_> =
        made["reports"].as_array().expect("a list").iter().map(|it| &it["plugin"]).collect();
    assert_eq!(plugins, ["json", "csv"]);
    assert_eq!(made["reports"][1]["files"][0], "out/csv/results.csv");
    assert!(place.path().join("out/csv/results.csv").is_file());
    assert!(!folder.join("reports/csv").exists());

    // The plugin differs from the run's. The bytes are an empty section of the component.
    let mut other = fs::read(built().join("plugins/json.wasm")).expect("the plugin");
    other.extend(b"\0\x05\x04test");
    fs::write(place.plugins().join("json.wasm"), other).expect("another build");
    let made = place.run(&["report"]).expect(0);
    assert!(joined(&made).contains("the plugin `json` was 0.1.0 ("), "{}", made.stderr);

    // Reports that do not exist, and files in the way.
    let missing = place.run(&["report", "latest", "--report", "htlm"]).expect(4);
    assert!(missing.stderr.contains("did you mean `html`?"), "{}", missing.stderr);
    let _ = place.run(&["report", "nonesuch"]).expect(7);
    fs::create_dir_all(place.path().join("mine/html")).expect("a folder");
    place.write("mine/html/index.html", "mine");
    let refused = place.run(&["report", "--report", "html", "--report-dir", "mine"]).expect(1);
    assert!(joined(&refused).contains("mine/html` is in the way"), "{}", refused.stderr);
}
