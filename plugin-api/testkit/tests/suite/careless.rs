//! The program runs each check in a separate process, and each check finds its fault.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::LazyLock;

use crate::common::{FOLDER, build};
use serde_json::Value;

/// The library of `careless.c`, built once.
static LIBRARY: LazyLock<(tempfile::TempDir, PathBuf)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let library = build("careless.c", folder.path(), &["-pthread"]);
    (folder, library)
});

fn testkit(way: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plugin-testkit"))
        .args(arguments)
        .arg(&LIBRARY.1)
        .arg(format!("{FOLDER}/careless.toml"))
        .env("CARELESS", way)
        .output()
        .expect("the program starts")
}

/// Returns the verdict and the detail of a check for a backend that is careless in this way.
fn verdict(way: &str, check: &str) -> (String, String) {
    let limit = if way.starts_with("hang") { "2" } else { "300" };
    let output = testkit(way, &["--json", "--time-limit", limit, "--only", check]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let [line] = lines.as_slice() else { panic!("{check}: {text}") };
    assert_eq!(line["check"], check);
    let failed = line["verdict"] == "fails";
    assert_eq!(output.status.code(), Some(i32::from(failed)), "{check}: {line}");
    let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
    (text("verdict"), text("detail"))
}

#[test]
fn without_a_fault_all_checks_hold_or_do_not_apply() {
    let output = testkit("nothing", &[]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.ends_with("checks hold, 4 do not apply\n"), "{text}");
    assert!(text.contains("        `tare/threads/1` is not offered\n"), "{text}");
}

#[test]
fn each_check_finds_what_it_is_there_to_find() {
    let cut = "cut-off models are refused or loaded";
    let flipped = "models with flipped bits are refused or loaded";
    let external = "a model with data in other files is right, and refused without them";
    let memory = "what does not fit into memory is an error that says so";
    let cases = [
        ("any-type", "wrong element types are errors", "int64 for float32 as input 0 was accepted"),
        ("one-batch", "two models with two sessions each work beside each other", "session 0"),
        (
            "late",
            "outputs are complete when a run returns, whatever was in them before",
            "read at once in round 1: element",
        ),
        ("queue", "a long run is not reported as shorter than it is", "waiting for its outputs"),
        ("one-for-none", "batches of none are right, or refused", "is float32 [1, 4], not float32"),
        ("forget-rows", "large batches are right, or refused", "a batch of 1024: element 4001"),
        ("die-without-memory", memory, "signal: 6"),
        ("blame-itself", memory, "is not an internal error"),
        ("crash-on-damage", cut, "at a model cut off after 0 of 8 bytes"),
        ("hang-on-damage", cut, "it was not done after 2 s, at a model cut off after 0 of"),
        ("silent-on-damage", cut, "the error for a model cut off after 0 of 8 bytes says nothing"),
        ("internal-on-damage", flipped, "a model with bit 0 of byte 0 of 8 flipped is not an int"),
        ("crash-on-damage", flipped, "signal: 6"),
        ("guess-data", external, "a model without its file `three.factor` was accepted"),
        ("half-data", external, "a model of whose file `three.factor` half is there was accepted"),
        ("leak", "loading and unloading does not grow", "each repetition keeps 2"),
        ("leak-mapped", "loading and unloading does not grow", "each repetition keeps 2"),
        ("leak-in-thread", "loading and unloading does not grow", "each repetition keeps 2"),
        ("leak-run", "runs do not grow", "memory grew by"),
        ("leak-error", "errors do not grow", "memory grew by"),
        (
            "leak-backend",
            "opening and closing the backend does not grow",
            "each repetition keeps 2",
        ),
        ("crash-at-exit", "the description is complete", "it holds, but the process ended with"),
    ];
    for (way, check, found) in cases {
        let (word, detail) = verdict(way, check);
        assert_eq!(word, "fails", "{way}: {detail}");
        assert!(detail.contains(found), "{way}: {detail}");
        assert_eq!(verdict("nothing", check).0, "holds", "{check}");
    }
}

/// The process holds more memory each time, and all of it is free.
#[test]
fn what_the_c_library_keeps_free_is_not_lost() {
    let (word, detail) = verdict("churn", "loading and unloading does not grow");
    assert_eq!(word, "holds", "{detail}");
}

#[test]
fn what_cannot_be_checked_is_reported() {
    let program = env!("CARGO_BIN_EXE_plugin-testkit");
    let run = |arguments: &[&str]| Command::new(program).args(arguments).output().expect("it runs");
    let cases: [(&[&str], &str); 5] = [
        (&[], "a library is wanted"),
        (&["--frobnicate"], "there is no option --frobnicate"),
        (&["--time-limit", "soon", "library.so"], "--time-limit: invalid digit"),
        (&["/nowhere/library.so"], "/nowhere/library.so: there is no such file"),
        (&["library.so", "/nowhere/fixture.toml"], "/nowhere/fixture.toml: No such file"),
    ];
    for (arguments, message) in cases {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{message}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.starts_with(message), "{text}");
    }
    let output = testkit("nothing", &["--only", "no such check"]);
    assert_eq!(output.status.code(), Some(2));

    // A file that is not a library is a finding of every check.
    let (fixture, check) = (format!("{FOLDER}/careless.toml"), "the description is complete");
    let output = run(&["--only", check, &fixture, &fixture]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("careless.toml: not a library that can be loaded"), "{text}");
}
