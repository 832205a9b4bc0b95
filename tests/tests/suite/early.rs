//! Errors are found before anything is measured, all at once.

use end_to_end::{Place, root};

/// A manifest with the test's model; tables follow.
fn manifest(place: &Place, tables: &str) {
    let model = root().join("manifests/data/digits.onnx");
    let text = format!(
        "schema = 1\nexperiment = {{ name = \"early\" }}\n[[model]]\nid = \"digits\"\n\
         path = {model:?}\n[measure]\nwarm-up = \"0s\"\nduration = \"10ms\"\n\
         minimum-queries = 1\n{tables}"
    );
    place.write("early.toml", &text);
}

const WRONG: &str = r#"
[[backend]]
id = "cpu"
options = { optimize = true }

[matrix]
model = ["digit"]

[[metric]]
plugin = "latency"
options = { x = 1 }

[[metric]]
plugin = "throughput"

[[metric]]
plugin = "latensy"

[[metric]]
plugin = "accuracy"
options = { top = "all" }

[[report]]
plugin = "html"
options = { titel = "x" }

[[report]]
plugin = "htlm"

[[recommend]]
plugin = "hardwar"

[[recommend]]
plugin = "hardware"
options = { objectives = "latency.p99" }
limits = [
  { metric = "latency.p98", at-most = "5ms" },
  { metric = "latency.p50", at-most = "5MB" },
  { metric = "throughput.samples", at-least = "5ms" },
  { metric = "foo.bar", at-least = 5 },
]
"#;

#[test]
fn everything_that_can_be_known_is_told_at_once_and_underlined() {
    let place = Place::new();
    manifest(&place, WRONG);
    for command in ["validate", "plan", "run"] {
        let shown = place.run(&[command, "early.toml"]).expect(3).stderr;
        let mut last = 0;
        for (what, line, help) in [
            ("the backend plugin `cpu` has no option `optimize`", 13, "`optimise`?"),
            ("there is no `[[model]]` called `digit`", 16, "`digits`?"),
            ("the metric plugin `latency` has no option `x`", 20, "takes no options"),
            ("no metric plugin `latensy` is installed", 26, "`latency`?"),
            ("refuses its options: invalid type: string \"all\"", 30, "plugins info accuracy"),
            ("the report plugin `html` has no option `titel`", 34, "takes no options"),
            ("no report plugin `htlm` is installed", 37, "`html`?"),
            ("no recommender plugin `hardwar` is installed", 40, "`hardware`?"),
            ("the recommender plugin `hardware` refuses its options", 44, "plugins info hardware"),
            ("`latency` states no `latency.p98`", 46, "`latency.p95` or `latency.p99`?"),
            ("`latency.p50` is not a size, but a value in `ns`", 47, "`\"5ms\"`"),
            ("`throughput.samples` is not a duration, but a value in `1/s`", 48, "plain number"),
            ("there is no `[[metric]]` called `foo`", 49, "this manifest has"),
        ] {
            let at = shown[last..].find(what).unwrap_or_else(|| panic!("{what} in\n{shown}"));
            let rest = &shown[last + at..];
            let end = rest.find("\n  x ").unwrap_or(rest.len());
            let report = &rest[..end];
            assert!(report.contains(&format!("early.toml:{line}:")), "{line} in\n{report}");
            assert!(report.contains(help), "{help} in\n{report}");
            last += at + what.len();
        }
        assert!(!place.path().join("results").exists(), "nothing was begun");
    }
}

#[test]
fn a_plugin_alone_that_is_missing_is_told_as_such() {
    let place = Place::new();
    manifest(&place, "[[backend]]\nid = \"null\"\n[[metric]]\nplugin = \"latensy\"\n");
    for command in ["validate", "plan", "run"] {
        let shown = place.run(&[command, "early.toml"]).expect(4).stderr;
        assert!(shown.contains("early.toml:13:10"), "{shown}");
    }
}

#[test]
fn a_matrix_without_cells_is_not_valid() {
    let place = Place::new();
    let tables = "[[backend]]\nid = \"null\"\n[matrix]\nexclude = [{ batch = 1 }]\n";
    manifest(&place, tables);
    for command in ["validate", "plan", "run"] {
        let shown = place.run(&[command, "early.toml"]).expect(3).stderr;
        assert!(shown.contains("the matrix is empty"), "{shown}");
        assert!(shown.contains("early.toml:13:11"), "{shown}");
    }
}

/// Only the outputs show the number of classes of a file.
#[test]
fn a_plugin_that_fails_at_the_end_costs_its_output_and_shows_in_the_exit_code() {
    let place = Place::new();
    let quickstart = std::fs::read_to_string(root().join("manifests/quickstart.toml"));
    let text = quickstart.expect("the quickstart").replace("\"data/", "\"manifests/data/");
    let text = text.replace("duration = \"1s\"", "duration = \"10ms\"");
    std::os::unix::fs::symlink(root().join("manifests"), place.path().join("manifests"))
        .expect("a link");
    let (before, _) = text.split_once("[[metric]]").unwrap_or((&text, ""));
    place.write(
        "late.toml",
        &format!(
            "{before}\n[[metric]]\nplugin = \"latency\"\n[[metric]]\nplugin = \"accuracy\"\n\
             options = {{ top = [99] }}\n"
        ),
    );
    let ended = place.run(&["run", "late.toml"]).expect(4);
    assert!(ended.stderr.contains("`top` asks for the 99 largest of 10"), "{}", ended.stderr);
    let journal = place.lines("journal.jsonl");
    assert!(journal.iter().all(|record| record["outcome"]["outcome"] == "finished"), "{journal:?}");
    let results = place.lines("results.jsonl");
    assert!(results.iter().any(|result| result["plugin"]["id"] == "latency"), "{results:?}");
    assert!(place.run_folder().join("reports/html/report.html").is_file());
}

#[test]
fn a_manifest_in_another_encoding_is_told_where() {
    let place = Place::new();
    let write = |bytes: &[u8]| std::fs::write(place.path().join("other.toml"), bytes);
    write(b"schema = 1\nexperiment = { name = \"gr\xf6sse\" }\n").expect("a file");
    let shown = place.run(&["validate", "other.toml"]).expect(3).stderr;
    assert!(shown.contains("the manifest is not UTF-8 from byte 36 on"), "{shown}");
    assert!(shown.contains("other.toml:2:26") && shown.contains("byte 0xf6"), "{shown}");
    let text = "schema = 1\n";
    let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
    for bytes in [[&[0xff, 0xfe], &*little].concat(), [&[0xfe, 0xff], &*big].concat(), little] {
        write(&bytes).expect("a file");
        let shown = place.run(&["validate", "other.toml"]).expect(3).stderr;
        assert!(shown.contains("looks like UTF-16"), "{shown}");
    }
}

#[test]
fn a_sandboxed_plugin_needs_no_trust() {
    let place = Place::new();
    let shown = place.run(&["plugins", "trust", "latency"]).expect(0).stderr;
    assert!(shown.contains("runs in the sandbox and needs no trust"), "{shown}");
    let shown = place.run(&["plugins", "info", "nul"]).expect(4).stderr;
    assert!(shown.contains("did you mean `null`?"), "{shown}");
    let shown = place.run(&["plugins", "info", "htm"]).expect(4).stderr;
    assert!(shown.contains("did you mean `html`?"), "{shown}");
}

#[test]
fn a_plan_as_one_json_document_has_what_its_lines_have() {
    let place = Place::new();
    let batches: Vec<_> = (1..=250).map(|batch: u32| batch.to_string()).collect();
    let batches = batches.join(", ");
    manifest(&place, &format!("[[backend]]\nid = \"null\"\n[matrix]\nbatch = [{batches}]\n"));
    let ended = place.run(&["plan", "early.toml", "--format", "json"]).expect(0);
    let document = ended.json();
    assert_eq!(ended.stdout, format!("{document:#}\n"), "as it would be written whole");
    let lines = place.run(&["plan", "early.toml", "--format", "jsonl"]).expect(0).stdout;
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(document["items"].as_array(), Some(&lines));
    assert_eq!(document["cases"], 250);
}

/// Measures the peak resident memory while half of the plan is not yet written.
#[cfg(target_os = "linux")]
#[test]
fn a_large_plan_takes_no_more_memory_in_one_format_than_in_another() {
    use std::io::{BufRead as _, BufReader};

    let place = Place::new();
    let numbers: Vec<_> = (1..=200).map(|number: u32| number.to_string()).collect();
    let numbers = numbers.join(", ");
    manifest(
        &place,
        &format!(
            "[[backend]]\nid = \"null\"\n[matrix]\nbatch = [{numbers}]\n\
             scenario = \"closed-loop\"\nclients = [{numbers}]\n"
        ),
    );
    let peak = |format: &str| -> u64 {
        let mut child = place
            .host(&["plan", "early.toml", "--quiet", "--format", format])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("starting host");
        let stdout = child.stdout.take().expect("a pipe");
        let mut lines = BufReader::new(stdout).lines();
        let half = |line: String| line.replace(' ', "").contains("\"batch\":100,");
        let found = lines.by_ref().any(|line| half(line.expect("UTF-8")));
        assert!(found, "the plan in {format}");
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let status = status.expect("the process's state");
        let high = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = high.and_then(|high| high.trim().strip_suffix(" kB"));
        drop(lines);
        assert!(child.wait().expect("waiting for host").success());
        kibibytes.expect("a peak").trim().parse().expect("a number")
    };
    // The first command in a place compiles the plugins.
    let _ = place.run(&["validate", "early.toml"]).expect(0);
    let (whole, lines) = (peak("json"), peak("jsonl"));
    assert!(whole < lines + 32 * 1024, "{whole} KiB as one document, {lines} KiB as lines");
}
