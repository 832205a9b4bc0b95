//! Tool, tests and lints share compiled dependencies, as `docs/design/build.md` says.

use std::collections::BTreeSet;
use std::process::Command;

/// Returns each dependency with its features, as cargo resolves them for the given kinds of dependencies.
fn features(edges: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--workspace", "--locked", "--edges", edges, "--prefix", "none"])
        .args(["--format", "{p} [{f}]", "--no-dedupe"])
        .current_dir(end_to_end::root())
        .output()
        .expect("starting cargo");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    text.lines().map(str::to_owned).collect()
}

#[test]
fn tests_ask_for_no_feature_that_the_tool_is_built_without() {
    let (tool, tests) = (features("normal,build"), features("normal,build,dev"));
    let differ: Vec<_> = tool.difference(&tests).collect();
    assert!(
        differ.is_empty(),
        "cargo compiles these once for the tool and once, with more features, for tests; let \
         `tests/Cargo.toml` ask for the features too: {differ:#?}"
    );
}
