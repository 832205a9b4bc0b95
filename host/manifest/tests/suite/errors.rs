//! Error messages that a manifest's author sees.

use std::fmt::Write;

use host_manifest::parse;
use insta::assert_snapshot;

/// Returns the errors of a manifest: each with the text that it underlines.
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

/// Returns a good manifest with lines added to it.
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
fn limits_of_a_plugin_are_bounded() {
    let limits = |text: &str| with(&format!("[[metric]]\nplugin = \"latency\"\n{text}"));
    let good = parse(&limits("memory-limit = \"4 GiB\"\ntime-limit = \"1h\"")).unwrap();
    let allowance = good.metrics[0].allowance;
    assert_eq!(allowance.memory_bytes, Some(4 << 30));
    assert_eq!(allowance.time_ns, Some(3_600_000_000_000));
    assert_snapshot!(
        errors(&limits("memory-limit = \"5 GiB\"\ntime-limit = \"2h\"")),
        @r#"
    5: the memory of a plugin is more than nothing and at most 4 GiB
       `"5 GiB"` not such a size
       write a size such as `"1 GiB"`
    6: the time of a plugin's call is more than nothing and at most an hour
       `"2h"` not such a duration
       write a duration such as `"5min"`
    "#
    );
}

#[test]
fn an_empty_manifest_lacks_everything() {
    assert_snapshot!(errors(""), @r#"
    1: the manifest lacks `schema`
       `` `schema` is missing
       add `schema = 1`
    1: the manifest lacks `experiment`
       `` `experiment` is missing
       add `[experiment]`
    1: the manifest lacks `model`
       `` `model` is missing
       add `[[model]]`
    1: the manifest lacks `backend`
       `` `backend` is missing
       add `[[backend]]`
    "#);
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
mode = "dreaming"
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
    assert_snapshot!(errors(text), @r#"
    5: unknown key `nmae` in `experiment`
       `nmae` unknown key
       did you mean `name`?
    6: `experiment.seed`: expected an integer of 0 or more, found -1
       `-1` out of range
       it may be 0 to 9223372036854775807
    10: `model.path`: expected a path in quotes, found an integer
       `7` an integer
    13: there are two `[[model]]` called `digits`
       `"digits"` again
       give this one another id, or remove it
    15: `model.data.inputs` names no input
       `{}` empty
       name a file for each input, such as `{ image = "images.npy" }`
    15: unknown key `lables` in `model.data`
       `lables` unknown key
       did you mean `labels`?
    19: `backend.version`: `one` is not a range of versions: unexpected character 'o' while parsing major version number
       `"one"` not a range of versions
       write a range such as `"^0.1"`, `">=1.2, <2"` or `"*"`
    20: `backend.threads`: expected a positive integer, found 0
       `0` out of range
       it may be 1 to 2147483647
    21: `backend.options.depth`: expected a string, number or boolean, found a list
       `[1]` a list
       options of backends are single values
    24: unknown key `batchs` in `matrix`
       `batchs` unknown key
       did you mean `batch`?
    25: `matrix.batch`: expected a positive integer, found 0
       `0` out of range
       it may be 1 to 2147483647
    25: `matrix.batch`: a value is listed twice
       `8` again
       remove one of them
    26: `matrix.precision`: `fp23` is not a precision
       `"fp23"` unknown
       did you mean `fp32`?
    27: `matrix.scenario`: the list is empty, so there would be no cell
       `[]` empty
       give at least one value, or leave the key out
    28: `matrix.mode`: `dreaming` is not a mode
       `"dreaming"` unknown
       known values are `inference`, `training`, `generation`
    29: there is no `[[backend]]` called `cuda`
       `"cuda"` unknown backend
       this manifest has `cpu`
    29: this cell names no coordinate
       `{}` empty
       name at least one, such as `{ batch = 64 }`
    32: unknown key `warm_up` in `measure`
       `warm_up` unknown key
       did you mean `warm-up`?
    33: `measure.duration`: `5 sec` is not a duration: `sec` is not a unit
       `"5 sec"` not a duration
       the units are `ns`, `us`, `µs`, `ms`, `s`, `min`, `h`
    34: `measure.timeout`: expected a duration, found an integer
       `60` an integer
       write a number and a unit in quotes, such as `"200ms"`
    35: `measure.maximum-duration` is shorter than `measure.duration`
       `"0s"` shorter than `duration`
       make it at least as long (`duration` is 5 s by default), or leave it out
    36: `measure.memory-limit`: `2 gib` is not a size: `gib` is not a unit
       `"2 gib"` not a size
       did you mean `GiB`?
    42: there are two `[[metric]]` called `latency`
       `"latency"` again
       remove it: a plugin is used once, with one set of options
    47: there is no `[[metric]]` called `latencey`
       `"latencey.p99"` unknown metric
       did you mean `latency`?
    48: a limit needs exactly one of `at-most` and `at-least`
       `{ metric = "latency.p99" }` neither is given
       for a range, write two limits
    49: `recommend.limits.at-least`: `5 parsecs` is neither a duration nor a size
       `"5 parsecs"` not a bound
       write a number in the metric's unit, a duration such as `"5ms"`, or a size such as `"2 GiB"`
    "#);
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
    assert_snapshot!(errors(text), @r#"
    2: `schema`: expected an integer, found a string
       `"1"` a string
       write `schema = 1`
    3: `experiment`: expected a table, found a string
       `"test"` a string
       write it under a header: `[experiment]`
    4: unknown key `plugins` in the manifest
       `plugins` unknown key
       `plugins` belongs under `[experiment]`
    6: `model`: expected a list of tables, found a table
       `[model]` a table
       write the header with two brackets: `[[model]]`
    10: `backend.id`: expected an id in quotes, found an integer
       `7` an integer
    11: `backend.plugin`: expected a plugin's id in quotes, found a boolean
       `true` a boolean
    12: `backend.version`: expected a range of versions in quotes, found an integer
       `1` an integer
       write a range such as `"^0.1"`, `">=1.2, <2"` or `"*"`
    13: `backend.device`: expected a device in quotes, found an integer
       `0` an integer
       write `"auto"`, or an id that `host devices` lists, such as `"cpu:0"`
    14: `backend.options`: expected a table, found a string
       `"none"` a string
       write it as `{ name = value }`
    17: `matrix.batch`: expected a positive integer, found a string
       `"8"` a string
    18: `matrix.precision`: expected a precision in quotes, found an integer
       `32` an integer
       known values are `fp32`, `fp16`, `bf16`, `int8`
    19: `matrix.include`: expected a list, found a table
       `{ batch = 1 }` a table
       put it in square brackets: `[…]`
    22: `measure.warm-up`: expected a duration, a number of queries or `auto`, found a floating-point number
       `0.5` a floating-point number
       write a duration such as `"200ms"`, a number of queries, or `"auto"`
    23: `measure.duration`: expected a duration, found a date or time
       `1979-05-27` a date or time
       write a number and a unit in quotes, such as `"200ms"`
    27: `report.options`: expected a table, found a list
       `[]` a list
       write it as `{ name = value }`
    "#);
}

#[test]
fn syntax_errors_have_places() {
    assert_snapshot!(errors("schema = 1\n[experiment\nname = \"a\"\nseed = = 3\n"), @r#"
    2: this is not TOML: unclosed table, expected `]`
       `` here
    4: this is not TOML: extra `=`, expected nothing
       `=` here
    4: this is not TOML: unexpected key or value, expected newline, `#`
       `` here
    "#);
    assert_snapshot!(errors("schema = 1\nschema = 2\n"), @r#"
    2: this is not TOML: duplicate key
       `schema` here
    "#);
    assert_snapshot!(errors("name = \"unfinished"), @r#"
    1: this is not TOML: invalid basic string, expected `"`
       `` here
    "#);
}

#[test]
fn a_newer_schema_is_the_only_error() {
    assert_snapshot!(errors("schema = 2\n[surprise]\nkey = 1\n"), @r#"
    1: the manifest has schema 2, but this version of the host reads schema 1
       `2` newer than this host
       update the host, or rewrite the manifest for schema 1
    "#);
    assert_snapshot!(errors("schema = 0\n"), @r#"
    1: the manifest lacks `experiment`
       `` `experiment` is missing
       add `[experiment]`
    1: the manifest lacks `model`
       `` `model` is missing
       add `[[model]]`
    1: the manifest lacks `backend`
       `` `backend` is missing
       add `[[backend]]`
    1: there is no schema 0
       `0` no such schema
       write `schema = 1`
    "#);
}

#[test]
fn numbers_out_of_range() {
    let text = with(
        r#"
[matrix]
batch = [2147483647, 2147483648, -1, 99999999999999999999]
sequence-length = 0
[measure]
warm-up = -1
minimum-queries = 0
offline-examples = 0
duration = "0s"
memory-limit = "0 B"
timeout = "400 h 3 min"
[[metric]]
plugin = "latency"
options = { quantiles = [0.5, nan], depth = { deeper = 99999999999999999999 } }
"#,
    );
    assert_snapshot!(errors(&text), @r#"
    5: `matrix.batch`: expected a positive integer, found 2147483648
       `2147483648` out of range
       it may be 1 to 2147483647
    5: `matrix.batch`: expected a positive integer, found -1
       `-1` out of range
       it may be 1 to 2147483647
    5: `matrix.batch`: expected a positive integer, found 99999999999999999999
       `99999999999999999999` out of range
       it may be 1 to 2147483647
    6: `matrix.sequence-length`: expected a positive integer, found 0
       `0` out of range
       it may be 1 to 2147483647
    8: `measure.warm-up`: expected an integer of 0 or more, found -1
       `-1` out of range
       it may be 0 to 9223372036854775807
    9: `measure.minimum-queries`: expected a positive integer, found 0
       `0` out of range
       it may be 1 to 9223372036854775807
    10: `measure.offline-examples`: expected a positive integer, found 0
       `0` out of range
       it may be 1 to 9223372036854775807
    11: `measure.duration` is zero
       `"0s"` zero
       set a time, such as `"1s"`
    12: `measure.memory-limit` is zero
       `"0 B"` zero
       set a size, such as `"2 GiB"`, or leave the key out
    13: `measure.timeout`: `400 h 3 min` is not a duration: `h 3 min` is not a unit
       `"400 h 3 min"` not a duration
       the units are `ns`, `us`, `µs`, `ms`, `s`, `min`, `h`
    16: `metric.options.quantiles`: expected a finite number
       `nan` not finite
    16: `metric.options.depth.deeper`: the integer does not fit 64 bits
       `99999999999999999999` too large
    "#);
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
    assert_snapshot!(errors(text), @r#"
    8: the input `image` has a file and is drawn, too
       `image` beside its file
       remove one: `data` names files, `inputs` draws values from the seed
    12: the lowest value of the input `image` is 2, above the highest, 1
       `2` above `high`
       give a `low` that is no more than `high` (by default 0 and 1)
    12: the lowest value of the input `other` is 3, above the highest, 1.5
       `3` above `high`
       give a `low` that is no more than `high` (by default 0 and 1)
    14: `model.id`: this is not a valid id
       `"no inputs"` not an id
       use 1 to 64 letters, digits, `.`, `_` and `-`, beginning with a letter or digit
    15: `model.path`: this is not a valid path
       `""` not a path
       paths are relative to the manifest's folder
    16: `model.data` lacks `inputs`
       `{ labels = "labels.npy" }` `inputs` is missing
       add `inputs = { image = "images.npy" }`
    18: `My_Backend` is not a valid plugin id, and `plugin` is not set
       `"My_Backend"` not a plugin id
       add `plugin = "…"`; plugin ids are lower-case words and digits joined by hyphens, such as `latency`
    "#);
}

#[test]
fn axes_are_symbols_or_have_a_number() {
    let text = r#"
schema = 1
experiment = { name = "test" }
[[model]]
id = "m"
path = "m.onnx"
[model.axes]
batch = 3
sequence = [{ input = "x" }, { input = "x", output = "y", axis = 0 }, { axis = -1, inpt = "x" }]
sizes = { width = -1 }
[[backend]]
id = "cpu"
"#;
    assert_snapshot!(errors(text), @r#"
    8: `model.axes.batch`: expected an axis, found an integer
       `3` an integer
       write the axis's symbol, as in `"batch_size"`, or `{ input = "…", axis = 0 }`
    9: `model.axes.sequence`: expected one of `input` and `output`, and the number `axis`
       `{ input = "x" }` not an axis
       write the axis's symbol, as in `"batch_size"`, or `{ input = "…", axis = 0 }`
    9: `model.axes.sequence`: expected one of `input` and `output`, and the number `axis`
       `{ input = "x", output = "y", axis = 0 }` not an axis
       write the axis's symbol, as in `"batch_size"`, or `{ input = "…", axis = 0 }`
    9: `model.axes.sequence`: expected one of `input` and `output`, and the number `axis`
       `{ axis = -1, inpt = "x" }` not an axis
       write the axis's symbol, as in `"batch_size"`, or `{ input = "…", axis = 0 }`
    9: unknown key `inpt` in `model.axes.sequence`
       `inpt` unknown key
       did you mean `input`?
    10: `model.axes.sizes.width`: expected an integer of 0 or more, found -1
       `-1` out of range
       it may be 0 to 9223372036854775807
    "#);
}

#[test]
fn a_name_with_a_dot_is_quoted() {
    let text = r#"
schema = 1
experiment = { name = "test" }
[[model]]
id = "m"
path = "m.onnx"
[model.inputs.input.1]
high = 7
[model.inputs.past.0.key.dimensions]
length = 7
[[backend]]
id = "cpu"
"#;
    assert_snapshot!(errors(text), @r#"
    7: unknown key `1` in `model.inputs.input`
       `1` unknown key
       if the name has a dot, quote it: `[model.inputs."input.1"]`
    9: unknown key `0` in `model.inputs.past`
       `0` unknown key
       if the name has a dot, quote it: `[model.inputs."past.0.key"]`
    "#);
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
    assert_snapshot!(errors(&text), @r#"
    8: no cell has `batch = 32`, so this excludes nothing
       `32` matches no cell
       `batch` takes `1`, `8`, `16`
    9: no cell has `sequence-length = 128`, so this excludes nothing
       `128` matches no cell
       the matrix has no axis `sequence-length`
    10: no cell has `precision = int8`, so this excludes nothing
       `"int8"` matches no cell
       `precision` takes `fp32`
    10: no cell has `scenario = offline`, so this excludes nothing
       `"offline"` matches no cell
       `scenario` takes `single-stream`
    "#);
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
    assert_snapshot!(errors(&text), @r#"
    6: a limit needs exactly one of `at-most` and `at-least`
       `{ metric = "latency.p99", at-most = "5ms", at-least = 1 }` both are given
       for a range, write two limits
    7: `limits` belongs beside `options`, not inside
       `{ limits = [] }` has `limits`
       write `limits = […]` directly under `[[recommend]]`
    "#);
}

#[test]
fn a_name_that_could_not_be_read_raises_no_false_alarm() {
    let text = with("matrix = { model = \"digits\", batch = 1 }").replace("\"digits\"\n", "7\n");
    assert_snapshot!(errors(&text), @r#"
    5: `model.id`: expected an id in quotes, found an integer
       `7` an integer
    "#);
}

proptest::proptest! {
    /// Any text gives an answer, and its places are places in the text.
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

/// A value that could not be read might be the one that another part refers to.
#[test]
fn what_could_not_be_read_proves_nothing_about_the_rest() {
    let matrix = r#"
[matrix]
batch = ["x", 0]
sequence-length = "long"
include = [{ precision = "fp17" }]
exclude = [{ batch = 8 }, { sequence-length = 7 }, { precision = "fp16" }]
"#;
    assert_snapshot!(errors(&with(matrix)), @r#"
    5: `matrix.batch`: expected a positive integer, found a string
       `"x"` a string
    5: `matrix.batch`: expected a positive integer, found 0
       `0` out of range
       it may be 1 to 2147483647
    6: `matrix.sequence-length`: expected a positive integer, found a string
       `"long"` a string
    7: `matrix.include.precision`: `fp17` is not a precision
       `"fp17"` unknown
       did you mean `fp16`?
    "#);
    let single_brackets = r#"
schema = 1
experiment = { name = "test" }
backend = [{ id = "cpu" }]
[model]
id = "digits"
path = "digits.onnx"
[metric]
plugin = "accuracy"
[matrix]
model = ["digits"]
exclude = [{ model = "digits", batch = 1 }]
[[recommend]]
plugin = "hardware"
limits = [{ metric = "accuracy.top1", at-least = 0.9 }]
"#;
    assert_snapshot!(errors(single_brackets), @r#"
    5: `model`: expected a list of tables, found a table
       `[model]` a table
       write the header with two brackets: `[[model]]`
    8: `metric`: expected a list of tables, found a table
       `[metric]` a table
       write the header with two brackets: `[[metric]]`
    "#);
}

/// Code that knows plugins and files reports their errors in the same pass.
#[test]
fn what_is_mentioned_has_its_place_even_where_something_is_wrong() {
    let text = with(
        r#"
[matrix]
batch = 0
[[metric]]
plugin = "latensy"
options = { x = 1 }
[[recommend]]
plugin = "hardware"
limits = [{ metric = "latensy.p98", at-most = "5ms" }]
"#,
    );
    let host_manifest::Reading { experiment, mentions } = host_manifest::read(&text);
    assert_eq!(experiment.expect_err("the batch is wrong").errors.len(), 1);
    let [metric] = &mentions.metrics[..] else { panic!("{:?}", mentions.metrics) };
    assert_eq!(&text[metric.place.clone().expect("it is written")], "\"latensy\"");
    assert_eq!(&text[metric.option_places["x"].key.clone()], "x");
    assert_eq!(&text[metric.option_places["x"].value.clone()], "1");
    let [limit] = &mentions.recommenders[0].limits[..] else { panic!("one limit") };
    assert_eq!(&text[limit.place.clone()], "\"latensy.p98\"");
    assert_eq!(&text[limit.bound_place.clone()], "\"5ms\"");
    assert_eq!(limit.unit, Some("ns"));
    assert_eq!(&text[mentions.files[0].place.clone()], "\"digits.onnx\"");
    assert_eq!(mentions.backends[0].id, "cpu");
    // Those that stand in for an absent list are written nowhere.
    assert_eq!(mentions.reports.iter().map(|it| &*it.id).collect::<Vec<_>>(), ["html", "markdown"]);
    assert!(mentions.reports.iter().all(|report| report.place.is_none()));
}

#[test]
fn a_load_that_is_missing_or_for_nothing_is_reported() {
    assert_snapshot!(errors(&with(
        "[matrix]\nscenario = [\"server\", \"closed-loop\"]\n[measure]\nlatency-percentile = 99"
    )), @r#"
    4: the scenario `server` needs a `rate`
       `"server"` without a rate
       add `rate = [100]` (queries per second) under `[matrix]`, or search it: `find = "max-rate"` under `[measure]`
    4: the scenario `closed-loop` needs `clients`
       `"closed-loop"` without clients
       add `clients = [1, 2, 4]` under `[matrix]`
    6: `measure.latency-percentile` has no effect without `latency-limit`
       `99` without a limit
       add `latency-limit = "10ms"`, or remove it
    "#);
    assert_snapshot!(errors(&with(
        "[matrix]\nrate = 5\nclients = 2\n[measure]\nfind = \"max-rate\"\nlatency-limit = \"0s\""
    )), @r#"
    4: no scenario takes a rate, so this has no effect
       `5` no effect
       remove it, or add one of `server` and `constant-rate` to `scenario`
    5: no scenario has clients, so this has no effect
       `2` no effect
       remove it, or add `closed-loop` to `scenario`
    7: no scenario takes a rate, so `find` has nothing to search
       `"max-rate"` no effect
       remove it, or add one of `server` and `constant-rate` to `scenario` under `[matrix]`
    8: `measure.latency-limit` is zero
       `"0s"` zero
       set a time, such as `"1s"`
    "#);
    assert_snapshot!(errors(&with(
        "[matrix]\nscenario = \"server\"\nrate = [0, -1, \"fast\"]\n[measure]\nfind = \"max-rate\""
    )), @r#"
    5: the rate is searched, so it cannot be set
       `[0, -1, "fast"]` beside `find`
       remove it, or remove `find = "max-rate"` under `[measure]`
    5: `matrix.rate`: 0 queries per second is not above 0 and at most 1,000,000,000
       `0` not a rate
       write a number of queries per second, such as `500`
    5: `matrix.rate`: -1 queries per second is not above 0 and at most 1,000,000,000
       `-1` not a rate
       write a number of queries per second, such as `500`
    5: `matrix.rate`: expected a number, found a string
       `"fast"` a string
    7: the search for the highest rate needs a latency limit
       `"max-rate"` without a limit
       add `latency-limit = "10ms"`
    "#);
}

#[test]
fn confidence_and_rules_are_checked() {
    assert_snapshot!(errors(&with(
        "[measure]\nrules = \"mlpref\"\nwarm-up = \"automatic\"\nlatency-percentile = 100\n\
         confidence = { level = 99, half-width = 0.01 }"
    )), @r#"
    4: `measure.rules`: `mlpref` is not a set of rules
       `"mlpref"` unknown
       did you mean `mlperf`?
    5: `measure.warm-up`: `automatic` is neither a duration nor `auto`
       `"automatic"` not a warm-up
       write a duration such as `"200ms"`, a number of queries, or `auto`
    6: `measure.latency-percentile`: 100 is not a percentile above 0 and below 100
       `100` not a percentile
       write a number, such as `99`
    7: `measure.confidence.level`: 99 is not a level of confidence from 0.5 to below 1
       `99` not a level of confidence
       write a number such as `0.95` or `0.99`
    7: `measure.confidence.half-width`: expected a percentage, found a floating-point number
       `0.01` a floating-point number
       write a percentage in quotes, such as `"1%"`
    "#);
    assert_snapshot!(errors(&with("[measure]\nconfidence = { half-width = \"120%\" }")), @r#"
    4: `measure.confidence.half-width`: `120%` is not a percentage above 0 % and below 100 %
       `"120%"` not a percentage
       write a percentage in quotes, such as `"1%"`
    "#);
}

#[test]
fn what_no_case_would_use_is_refused() {
    assert_snapshot!(errors(&with(
        "[measure]\noffline-examples = 100\nmulti-stream-examples = 8"
    )), @r#"
    4: no case is `offline`, so this has no effect
       `100` no effect
       remove it, or add `offline` to `scenario` under `[matrix]`
    5: no case is `multi-stream`, so this has no effect
       `8` no effect
       remove it, or add `multi-stream` to `scenario` under `[matrix]`
    "#);
    assert_snapshot!(errors(&with(
        "matrix.scenario = [\"offline\"]\nmeasure.latency-limit = \"5ms\""
    )), @r#"
    4: an `offline` query is the whole set of examples, so a latency limit does not apply
       `"5ms"` no effect
       remove it, or add another scenario to `scenario` under `[matrix]`
    "#);
    assert_snapshot!(errors(&with("[measure]\nepochs = 3\ntest-examples = 8")), @r#"
    4: no case is `training`, so this has no effect
       `3` no effect
       remove it, or add `training` to `mode` under `[matrix]`
    5: no case is `training`, so this has no effect
       `8` no effect
       remove it, or add `training` to `mode` under `[matrix]`
    "#);
    // Where another scenario has latencies, it is for that.
    parse(&with(
        "matrix.scenario = [\"offline\", \"server\"]\nmatrix.rate = [10]\n\
         measure = { latency-limit = \"5ms\", offline-examples = 100 }",
    ))
    .expect("the limit is for `server`");
}

#[test]
fn absurd_amounts_are_refused() {
    assert_snapshot!(errors(&with(
        "matrix.scenario = [\"offline\", \"multi-stream\"]\n[measure]\nduration = \"800h\"\n\
         minimum-queries = 10000000001\noffline-examples = 9223372036854775807\n\
         multi-stream-examples = 1000000001"
    )), @r#"
    5: `measure.duration` is longer than 30 days
       `"800h"` too long
       give 720h or less
    6: `measure.minimum-queries` exceeds the maximum of 10000000000 queries
       `10000000001` too many
       give 10000000000 or fewer
    7: `measure.offline-examples` exceeds the maximum of 1000000000 examples
       `9223372036854775807` too many
       give 1000000000 or fewer
    8: `measure.multi-stream-examples` exceeds the maximum of 1000000000 examples
       `1000000001` too many
       give 1000000000 or fewer
    "#);
}

#[test]
fn a_mistyped_auto_is_no_duration() {
    assert_snapshot!(errors(&with("measure.warm-up = \"atuo\"")), @r#"
    3: `measure.warm-up`: `atuo` is neither a duration nor `auto`
       `"atuo"` not a warm-up
       did you mean `auto`?
    "#);
    assert_snapshot!(errors(&with("measure.warm-up = \"none\"")), @r#"
    3: `measure.warm-up`: `none` is neither a duration nor `auto`
       `"none"` not a warm-up
       write a duration such as `"200ms"`, a number of queries, or `auto`
    "#);
}

#[test]
fn plugins_that_are_listed_too_often_are_not_looked_for() {
    let twice = "[[metric]]\nplugin = \"latency\"\n".repeat(20_000);
    let reading = host_manifest::read(&with(&twice));
    assert_eq!(reading.mentions.metrics.len(), 1);
    let errors = reading.experiment.expect_err("too many").errors;
    let message = "there are 20000 `[[metric]]`, and a manifest may have 256";
    assert_eq!(errors.iter().filter(|error| error.message == message).count(), 1);
    let message = "there are two `[[metric]]` called `latency`";
    assert_eq!(errors.iter().filter(|error| error.message == message).count(), 19_999);
    let many: String =
        (0..300).map(|index| format!("[[recommend]]\nplugin = \"r{index}\"\n")).collect();
    let reading = host_manifest::read(&with(&many));
    assert_eq!(reading.mentions.recommenders.len(), 256);
    assert_eq!(reading.experiment.expect_err("too many").errors.len(), 1);
}

#[test]
fn a_pair_that_cannot_be_is_refused_before_anything_is_measured() {
    let of = |lines: &str| {
        errors(&format!(
            r#"schema = 1
experiment = {{ name = "test" }}
[[model]]
id = "digits"
path = "digits.onnx"
[[backend]]
id = "cpu"
[[backend]]
id = "other"
{lines}
"#
        ))
    };
    let measure = |lines: &str| of(&format!("[measure]\norder = \"paired\"\n{lines}"));
    assert_snapshot!(measure(""), @r#"
    11: `order = "paired"` needs the two sides of a pair
       `"paired"` without a pair
       add `pair = ["a", "b"]`, with two backends, two models or two precisions
    "#);
    assert_snapshot!(of("[measure]\npair = [\"cpu\", \"other\"]"), @r#"
    11: `measure.pair` has no effect without `order = "paired"`
       `["cpu", "other"]` no effect
       add `order = "paired"`, or remove it
    "#);
    assert_snapshot!(measure("pair = [\"cpu\"]"), @r#"
    12: a pair has two sides, and this has 1
       `["cpu"]` not two
       name two backends, two models or two precisions, such as `["a", "b"]`
    "#);
    assert_snapshot!(measure("pair = [\"cpu\", \"cpu\"]"), @r#"
    12: both sides of the pair are `cpu`
       `["cpu", "cpu"]` the same twice
       give a second `[[backend]]` with its own `id` to compare a backend with itself
    "#);
    assert_snapshot!(measure("pair = [\"cpu\", \"digits\"]"), @r#"
    12: `cpu` and `digits` are not two backends, two models or two precisions
       `["cpu", "digits"]` unknown
       backends are cpu, other; models are digits
    "#);
    assert_snapshot!(measure("pair = [\"cpu\", \"other\"]\nprocesses = 1"), @r#"
    13: 1 process of each side can never tell the two apart: where memory happens to lie already makes one faster
       `1` too few
       leave it out, or allow more: at 95 % at least 7 are needed, at 99.5 % 11
    "#);
    assert_snapshot!(
        of("[matrix]\nscenario = [\"single-stream\", \"server\"]\nrate = 100\nlimit = 3\n\
            [measure]\norder = \"paired\"\npair = [\"fp32\", \"fp16\"]\ndevice-sampling = \"100ms\""),
        @r#"
    13: a limit on the number of cases may leave out one side of a pair
       `3` not in pairs
       name the cases instead
    15: a pair cannot be measured in `server`: its queries arrive by a schedule, whether or not it is their side's turn
       `"paired"` not in this scenario
       use `single-stream`, `multi-stream` or `offline`, or `order = "interleaved"`
    17: `measure.device-sampling` does not fit `order = "paired"`: the device's state would be that of both sides
       `"100ms"` not in pairs
       remove it, or `order = "paired"`
    "#
    );
}

#[test]
fn a_pair_has_defaults_of_its_own() {
    let of = |lines: &str| {
        let text = with("").replace(
            "id = \"cpu\"",
            &format!("id = \"cpu\"\n[[backend]]\nid = \"other\"\n{lines}"),
        );
        parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}")).measure
    };
    let usual = of("[measure]\norder = \"paired\"\npair = [\"cpu\", \"other\"]");
    let pair = usual.pair.expect("a pair");
    assert_eq!((pair.axis.name(), pair.sides), ("backend", ["cpu".to_owned(), "other".to_owned()]));
    assert_eq!((pair.level.get(), pair.half_width.get()), (0.995, 0.01));
    assert_eq!((usual.processes, usual.minimum_duration_ns), (60, 100_000_000));
    let asked = of(
        "[measure]\norder = \"paired\"\npair = [\"cpu\", \"other\"]\nprocesses = 20\nduration = \"1s\"\n\
         confidence = { level = 0.99, half-width = \"0.5%\" }",
    );
    let pair = asked.pair.expect("a pair");
    assert_eq!((pair.level.get(), pair.half_width.get()), (0.99, 0.005));
    assert_eq!((asked.processes, asked.minimum_duration_ns), (20, 1_000_000_000));
}
