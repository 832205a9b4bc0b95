//! The command line as its users see it: help, errors, files that it writes.

use std::path::Path;

use snapbox::cmd::{Command, cargo_bin};
use snapbox::{Assert, assert_data_eq, file, str};

/// Each page of help, and small commands, with all that they print.
#[test]
fn transcripts() {
    trycmd::TestCases::new()
        .register_bin("host", Path::new(env!("CARGO_BIN_EXE_host")))
        .env("NO_COLOR", "1")
        .env("XDG_CONFIG_HOME", "/nonexistent/configuration")
        .env("XDG_DATA_HOME", "/nonexistent/data")
        .case("tests/cmd/*.trycmd");
}

/// `host` in an empty folder, without files of the user.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).expect("writing a file of the test");
    }

    fn host(&self, arguments: &[&str]) -> Command {
        let folder = |name| self.0.path().join(name);
        Command::new(cargo_bin!("host"))
            .args(arguments)
            .current_dir(self.0.path())
            .env("NO_COLOR", "1")
            .env("HOME", folder("home"))
            .env("XDG_CONFIG_HOME", folder("configuration"))
            .env("XDG_DATA_HOME", folder("data"))
            // Tests share it: compiling every guest takes half a minute.
            .env("XDG_CACHE_HOME", cargo_bin!("host").with_file_name("../cache-of-tests"))
            .env_remove("TARE_PLUGINS")
            .env_remove("TARE_RESULTS")
            .with_assert(Assert::new().action_env("SNAPSHOTS"))
    }
}

/// Models, data and manifests that are not regular files: reading one would never end.
#[cfg(unix)]
#[test]
fn a_file_that_never_ends_is_refused_and_named() {
    let place = Place::new();
    let made = std::process::Command::new("mkfifo").arg(place.0.path().join("pipe")).status();
    assert!(made.expect("mkfifo").success());
    std::fs::create_dir(place.0.path().join("folder")).expect("a folder");
    let found = [("pipe", "pipe"), ("/dev/zero", "device"), ("folder", "folder")];
    for (path, kind) in found {
        let manifest = format!(
            "schema = 1\n[experiment]\nname = \"odd\"\n[[model]]\nid = \"m\"\npath = \"{path}\"\n\
             [[backend]]\nid = \"cpu\"\n[[metric]]\nplugin = \"latency\"\n"
        );
        place.write("odd.toml", &manifest);
        for arguments in [&["plan", "odd.toml"][..], &["validate", "odd.toml"], &["plan", path]] {
            let output = place.host(arguments).output().expect("the host runs");
            let text = String::from_utf8_lossy(&output.stderr).replace("\n  \u{2502} ", " ");
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(output.status.code(), Some(3), "{arguments:?}: {text}");
            assert!(words.contains(&format!("it is a {kind}, not a")), "{arguments:?}: {words}");
        }
    }
    let output = place.host(&["inspect", "pipe"]).output().expect("the host runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("it is a pipe, not a regular file"), "{text}");
}

/// Errors of a manifest are counted and cut, however many and long they are.
#[test]
fn a_flood_of_errors_is_cut() {
    let place = Place::new();
    let brackets = format!("x = {}", "[".repeat(100_000));
    let keys: String = (0..50_000).map(|index| format!("key{index} = 1\n")).collect();
    let model = |index| format!("[[model]]\nid = \"m{index}\"\npath = \"missing{index}.onnx\"\n");
    let models: String = (0..20_000).map(model).collect();
    let models =
        format!("schema = 1\n[experiment]\nname = \"flood\"\n{models}[[backend]]\nid = \"cpu\"\n");
    for (text, more) in [(brackets, None), (keys, Some(50_004 - 20)), (models, Some(20_000 - 20))] {
        place.write("flood.toml", &text);
        let output = place.host(&["validate", "flood.toml"]).output().expect("the host runs");
        assert_eq!(output.status.code(), Some(3));
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.len() < 100_000, "{} bytes", text.len());
        if let Some(more) = more {
            assert!(text.contains(&format!("and {more} more errors")), "{text}");
        }
    }
}

const BROKEN: &str = r#"schema = 1

[experiment]
name = "broken"
sed = 7

[[model]]
id = "digits"
path = "digits.onnx"

[[backend]]
id = "cpu"
version = "newest"

[matrix]
batch = [1, 0]
precision = ["fp31"]
"#;

#[test]
fn all_errors_of_a_manifest_are_shown_at_once_and_underlined() {
    let place = Place::new();
    place.write("broken.toml", BROKEN);
    place.write("digits.onnx", "");
    let assert = place.host(&["validate", "broken.toml"]).assert();
    assert.code(3).stdout_eq("").stderr_eq(file!["golden/manifest-errors.txt"]);
}

#[test]
fn a_missing_manifest_names_the_way_out() {
    let place = Place::new();
    place.host(&["run", "absent.toml"]).assert().code(3).stdout_eq("").stderr_eq(str![[r#"
  x cannot read the manifest absent.toml
  `-> No such file or directory (os error 2)
  help: `host init` writes one to start from

"#]]);
}

#[test]
fn init_writes_a_manifest_that_parses_and_never_overwrites() {
    let place = Place::new();
    place.host(&["init"]).assert().success().stdout_eq("");
    let written = std::fs::read_to_string(place.0.path().join("experiment.toml"));
    let written = written.expect("the manifest");
    host_manifest::parse(&written).expect("a manifest that parses");
    let schema = written.lines().next().and_then(|line| line.strip_prefix("#:schema "));
    let schema = place.0.path().join(schema.expect("the schema's name comes first"));
    let schema = std::fs::read_to_string(schema).expect("the schema, beside the manifest");
    let schema: serde_json::Value = serde_json::from_str(&schema).expect("a schema in JSON");
    assert_eq!(schema, host_manifest::json_schema());
    place.write("experiment.toml", "mine");
    place.host(&["init"]).assert().code(1).stderr_eq(str![[r#"
  x experiment.toml exists already
  help: name another file, or replace this one with --force

"#]]);
    let kept = std::fs::read_to_string(place.0.path().join("experiment.toml"));
    assert_data_eq!(kept.expect("the file"), "mine");
    place.host(&["init", "--force"]).assert().success();
}

#[test]
fn what_is_no_plugin_is_not_tested() {
    let place = Place::new();
    std::fs::create_dir(place.0.path().join("empty")).expect("a folder");
    place.host(&["plugins", "test", "./empty"]).assert().code(4).stdout_eq("").stderr_eq(str![[r#"
  x ./empty is not a plugin: it has no plugin.toml
  help: a plugin is a folder with plugin.toml and the library that it names; one that is installed can be named by its id

"#]]);
    place.host(&["plugins", "test", "./absent"]).assert().code(4).stdout_eq("").stderr_eq(str![[r#"
  x ./absent is not a plugin: there is no such folder
  help: a plugin is a folder with plugin.toml and the library that it names; one that is installed can be named by its id

"#]]);
    std::fs::write(place.0.path().join("empty/plugin.toml"), "schema = 1\n").expect("a file");
    place.host(&["plugins", "test", "./empty"]).assert().code(4).stdout_eq("").stderr_eq(str![[
        r#"
  x [..]/empty/plugin.toml: missing key `id`
  help: make sure that [..]/empty/plugin.toml is readable text

"#
    ]]);
}

#[test]
#[cfg(unix)]
fn the_tools_second_name_is_the_one_in_its_help() {
    let place = Place::new();
    let tare = place.0.path().join("tare");
    std::os::unix::fs::symlink(cargo_bin!("host"), &tare).expect("a second name");
    let output = Command::new(&tare).arg("--help").output().expect("starting tare");
    let help = String::from_utf8_lossy(&output.stdout);
    assert!(help.contains("Usage: tare ") && help.contains("Start with `tare bench "), "{help}");
    let output = place.host(&["--help"]).output().expect("starting host");
    let help = String::from_utf8_lossy(&output.stdout);
    assert!(help.contains("second name for this command, `tare`"), "{help}");
}

#[test]
fn completions_are_scripts_for_each_shell() {
    let place = Place::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = place.host(&["completions", shell]).output().expect("starting host");
        let script = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && script.contains("validate"), "{shell}: {script}");
    }
}

#[test]
fn nothing_is_said_to_a_reader_that_has_gone_away() {
    let place = Place::new();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_host"))
        .args(["completions", "zsh"])
        .current_dir(place.0.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("starting host");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("waiting for host");
    assert_eq!(output.status.code(), Some(0));
    assert_data_eq!(String::from_utf8_lossy(&output.stderr).into_owned(), "");
}

#[test]
fn data_that_is_lost_fails_the_command() {
    let place = Place::new();
    for arguments in [&["completions", "zsh"][..], &["doctor", "--format", "json"], &["--help"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("a full device");
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_host"))
            .args(arguments)
            .current_dir(place.0.path())
            .stdout(full)
            .output()
            .expect("starting host");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains("cannot write to standard output"), "{arguments:?}: {message}");
    }
}

#[test]
fn empty_results_are_empty_and_not_an_error() {
    let place = Place::new();
    place.host(&["results", "list", "--format", "json"]).assert().success().stdout_eq("[]\n");
    place.host(&["results", "show"]).assert().code(7).stderr_eq(str![[r#"
  x there is no run `latest` in `results`
  help: no run is recorded there yet; `--results` names another folder

"#]]);
}

#[test]
fn doctor_says_the_same_to_machines() {
    let place = Place::new();
    let output = place.host(&["doctor", "--format", "json"]).output().expect("starting host");
    let checks: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("one JSON document");
    let checks = checks.as_array().expect("a list of checks");
    for name in ["frequency governor", "clock source", "load", "virtualisation", "worker"] {
        let check = checks.iter().find(|check| check["name"] == name).expect(name);
        let status = check["status"].as_str().expect("a word");
        assert!(["ok", "advice", "unknown", "broken"].contains(&status), "{check}");
        assert_eq!(check["advice"].is_string(), ["advice", "broken"].contains(&status));
    }
}

const NULL: &str = r#"schema = 1

[experiment]
name = "planned"

[[model]]
id = "model"
path = "model.onnx"

[[backend]]
id = "null"

[[backend]]
id = "absent"

[matrix]
batch = [1, 8]
scenario = ["offline"]
"#;

/// Needs the plugins and the worker beside the executable, as `cargo xtask test` puts them there.
#[test]
fn models_are_measured_without_a_manifest() {
    let place = Place::new();
    std::fs::copy(DIGITS, place.0.path().join("model.onnx")).expect("a model");
    let bench =
        ["bench", "model.onnx", "--backend", "null", "--batch", "1,4", "--duration", "20ms"];
    let output = place.host(&bench).arg("--format=json").output().expect("starting host");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(run["cases"].as_array().map(Vec::len), Some(2), "{run}");
    // The written file is a manifest like any other, and the same arguments write it again.
    let manifests = place.0.path().join("results/manifests");
    let names = || -> Vec<_> {
        let entries = std::fs::read_dir(&manifests).expect("the folder is there");
        entries.map(|entry| entry.expect("an entry").file_name()).collect()
    };
    let written = names();
    assert!(written.len() == 1 && said.contains(written[0].to_str().expect("text")), "{said}");
    place.host(&["plan"]).arg(manifests.join(&written[0])).assert().success();
    place.host(&bench).assert().success();
    assert_eq!(names(), written);
}

#[test]
fn what_cannot_be_measured_without_a_manifest_says_why() {
    let place = Place::new();
    place.host(&["bench", "models/a.onnx"]).assert().failure().stderr_eq(str![[r#"
  x cannot read models/a.onnx
  `-> No such file or directory (os error 2)
  help: give files of models, such as `host bench model.onnx`

"#]]);
    place.host(&["bench", "resnet5"]).assert().code(2).stderr_eq(str![[r#"
  x `resnet5` is neither a file nor an architecture
  help: did you mean `resnet50`?

"#]]);
    place.host(&["bench", "resnet50", "--memory-limit", "2Gig"]).assert().code(2).stderr_eq(str![
        [r#"
...
[..]'2Gig'[..]'--memory-limit <SIZE>'[..]
...
"#]
    ]);
    // Nothing is left that could be measured.
    let output = place.host(&["bench", SMALL, "--memory-limit", "1KiB"]).output().expect("host");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(5), "{shown}");
    assert!(
        shown.contains("weights take 34.0 KiB, more than the `memory-limit` of 1 KiB"),
        "{shown}"
    );
    place.write("notes.onnx", "not a model");
    place.host(&["bench", "notes.onnx"]).assert().failure().stderr_eq(str![[r#"
  x [..]notes.onnx is not an ONNX model: [..]
...
"#]]);
}

/// An architecture that is written in no time.
const SMALL: &str = "gpt2:layers=1,width=24,heads=2,vocabulary=50,positions=8";

#[test]
fn an_architecture_is_measured_by_its_name_up_to_the_limit() {
    let place = Place::new();
    let bench = |more: &[&str]| {
        let mut command = place.host(&["bench", SMALL, "--duration", "20ms"]);
        command = command.args(more);
        command.output().expect("starting host")
    };
    let output = bench(&["--batch", "1,4", "--limit", "1", "--format=json"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(run["cases"].as_array().map(Vec::len), Some(1), "{run}");
    assert!(said.contains("`limit` leaves out 1 case, from "), "{said}");
    let refused = |more: &[&str], expected: &str| {
        let output = bench(more);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains(expected), "{said}");
    };
    refused(&["--sequence", "4,16"], "`gpt2` takes sequences of at most 8 positions, got 16");
}

const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../manifests/data/digits.onnx");

#[test]
fn a_model_is_inspected_and_gets_a_manifest_that_is_right() {
    let place = Place::new();
    std::fs::copy(DIGITS, place.0.path().join("digits.onnx")).expect("a model");
    let inspect = place.host(&["inspect", "digits.onnx"]).assert().success();
    inspect.stdout_eq(file!["golden/inspect.stdout"]);
    let json = place.host(&["inspect", SMALL, "--format=json"]).output().expect("starting host");
    let document: serde_json::Value = serde_json::from_slice(&json.stdout).expect("a document");
    assert_eq!(document["facts"]["legal"]["input_ids"]["entries"], 50, "{document}");
    place.host(&["init", "--model", "digits.onnx"]).assert().success();
    place.host(&["validate", "experiment.toml"]).assert().success();
    let text = std::fs::read_to_string(place.0.path().join("experiment.toml")).expect("written");
    assert!(text.contains("id = \"digits\"\npath = \"digits.onnx\"\n"), "{text}");
}

/// Needs the plugins and the worker beside the executable, as `cargo xtask test` puts them there.
#[test]
fn a_plan_names_cases_and_gaps() {
    let place = Place::new();
    place.write("planned.toml", NULL);
    std::fs::copy(DIGITS, place.0.path().join("model.onnx")).expect("a model");
    place
        .host(&["plan", "planned.toml"])
        .assert()
        .success()
        .stdout_eq(file!["golden/plan.stdout"])
        .stderr_eq(file!["golden/plan.stderr"]);
}

/// The mode goes without saying if it is inference throughout; otherwise cases could not be told apart. Needs the plugins.
#[test]
fn a_plan_of_several_modes_names_them() {
    let place = Place::new();
    let modes = "[matrix]\nmode = [\"inference\", \"training\"]";
    assert!(NULL.contains("[matrix]"), "the manifest has a matrix");
    place.write("planned.toml", &NULL.replacen("[matrix]", modes, 1));
    std::fs::copy(DIGITS, place.0.path().join("model.onnx")).expect("a model");
    let output = place.host(&["plan", "planned.toml"]).output().expect("starting host");
    let plan = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = plan.lines();
    let heading = lines.next().unwrap_or_default();
    assert!(heading.split_whitespace().any(|name| name == "mode"), "{plan}");
    for mode in ["inference", "training"] {
        assert!(plan.lines().any(|line| line.contains(&format!(" {mode} "))), "{plan}");
    }
}
