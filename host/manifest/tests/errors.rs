//! What a manifest's author is told.

use std::fmt::Write;

use host_manifest::parse;
use insta::assert_snapshot;

/// The errors of a manifest: each with the text that it underlines.
fn errors(text: &str) -> String {
    let errors = parse(text).expect_err("the manifest is refused").errors;
    let mut shown = String::new();
    for error in errors {
        let line = text[..error.span.start].matches('\n').count() + 1;
        let place = &text[error.span];
        writeln!(shown, "{line}: {}", error.message).unwrap();
        writeln!(shown, "   `{place}` {}", error.label).unwrap();
        if let Some(hint) = error.hint {
            writeln!(shown, "   {hint}").unwrap();
        }
    }
    shown
}

/// A good manifest with lines added to it.
fn with(lines: &str) -> String {
    format!(
        r#"schema = 1
experiment = {{ name = "test" }}
{lines}
[[model]]
id = "digits"
path = "digits.onnx"
[[backend]]
id = "cpu"
"#
    )
}

#[test]
fn the_smallest_manifest_is_good() {
    parse(&with("")).unwrap();
}

#[test]
fn an_empty_manifest_lacks_everything() {
    assert_snapshot!(errors(""), @"");
}

#[test]
fn all_errors_show_at_once() {
    let text = r#"
schema = 1

[experiment]
nmae = "test"
seed = -1

[[model]]
id = "digits"
path = 7

[[model]]
id = "digits"
path = "b.onnx"
data = { inputs = {}, lables = "l.npy" }

[[backend]]
id = "cpu"
version = "one"
threads = 0
options = { depth = [1] }

[matrix]
batchs = [1]
batch = [1, 0, 8, 8]
precision = ["fp23", "fp32"]
scenario = []
mode = "training"
exclude = [{ backend = "cuda" }, { batch = 64 }, {}]

[measure]
warm_up = "1s"
duration = "5 sec"
timeout = 60
maximum-duration = "0s"
memory-limit = "2 gib"

[[metric]]
plugin = "latency"

[[metric]]
plugin = "latency"

[[recommend]]
plugin = "hardware"
limits = [
    { metric = "latencey.p99", at-most = "5ms" },
    { metric = "latency.p99" },
    { metric = "latency.p99", at-least = "5 parsecs" },
]
"#;
    assert_snapshot!(errors(text), @"");
}

#[test]
fn wrong_types_name_both_types() {
    let text = r#"
schema = "1"
experiment = "test"
plugins = 1

[model]
id = "digits"

[[backend]]
id = 7
plugin = true
version = 1
device = 0
options = "none"

[matrix]
batch = "8"
precision = 32
include = { batch = 1 }

[measure]
warm-up = 0.5
duration = 1979-05-27

[[report]]
plugin = "html"
options = []
"#;
    assert_snapshot!(errors(text), @"");
}

#[test]
fn syntax_errors_have_places() {
    assert_snapshot!(errors("schema = 1\n[experiment\nname = \"a\"\nseed = = 3\n"), @"");
    assert_snapshot!(errors("schema = 1\nschema = 2\n"), @"");
    assert_snapshot!(errors("name = \"unfinished"), @"");
}

#[test]
fn a_newer_schema_is_the_only_error() {
    assert_snapshot!(errors("schema = 2\n[surprise]\nkey = 1\n"), @"");
    assert_snapshot!(errors("schema = 0\n"), @"");
}

#[test]
fn numbers_out_of_range() {
    let text = with(
        r#"
[matrix]
batch = [4294967295, 4294967296, -1, 99999999999999999999]
sequence-length = 0
[measure]
warm-up = -1
minimum-queries = 0
offline-samples = 0
duration = "0s"
memory-limit = "0 B"
timeout = "400 h 3 min"
[[metric]]
plugin = "latency"
options = { quantiles = [0.5, nan], depth = { deeper = 99999999999999999999 } }
"#,
    );
    assert_snapshot!(errors(&text), @"");
}

#[test]
fn inputs_are_files_or_drawn() {
    let text = r#"
schema = 1
experiment = { name = "test" }
[[model]]
id = "both"
path = "both.onnx"
data = { inputs = { image = "images.npy" } }
inputs = { image = { low = 0 } }
[[model]]
id = "upside-down"
path = "upside-down.onnx"
inputs = { image = { low = 2 }, other = { low = 3, high = 1.5 } }
[[model]]
id = "no inputs"
path = ""
data = { labels = "labels.npy" }
[[backend]]
id = "My_Backend"
"#;
    assert_snapshot!(errors(text), @"");
}

#[test]
fn exclusions_that_match_nothing() {
    let text = with(
        r#"
[matrix]
batch = [1, 8]
include = [{ batch = 16 }]
exclude = [
    { batch = [8, 16, 32] },
    { sequence-length = 128 },
    { precision = "int8", scenario = "offline" },
    { device = "cuda:9" },
]
"#,
    );
    assert_snapshot!(errors(&text), @"");
}

#[test]
fn limits_name_a_metric_of_the_manifest() {
    let text = with(
        r#"
[[recommend]]
plugin = "hardware"
limits = [{ metric = "latency.p99", at-most = "5ms", at-least = 1 }]
options = { limits = [] }
"#,
    );
    assert_snapshot!(errors(&text), @"");
}

#[test]
fn a_name_that_could_not_be_read_raises_no_false_alarm() {
    let text = with("matrix = { model = \"digits\", batch = 1 }").replace("\"digits\"\n", "7\n");
    assert_snapshot!(errors(&text), @"");
}

proptest::proptest! {
    /// Whatever the text, there is an answer, and its places are places in the text.
    #[test]
    fn spans_lie_in_the_text(
        parts in proptest::collection::vec(
            proptest::sample::select(vec![
                "schema = 1\n", "[experiment]\n", "name = \"é\"\n", "[[model]]\n", "id = \"a\"\n",
                "path = \"p\"\n", "[[backend]]\n", "[matrix]\n", "batch = [1, 0]\n", "[measure]\n",
                "exclude = [{ batch = 9 }]\n", "\u{feff}", "=", "\"", "[", "]", "{", "é", "\n", "#",
            ]),
            0..24,
        ),
    ) {
        let text = parts.concat();
        if let Err(errors) = parse(&text) {
            for error in errors.errors {
                proptest::prop_assert!(text.get(error.span.clone()).is_some(), "{error:?}");
            }
        }
    }
}
