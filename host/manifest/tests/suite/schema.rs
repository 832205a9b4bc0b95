//! The JSON Schema: committed, and the same as what the parser does.

use std::collections::BTreeSet;

use host_manifest::{json_schema, parse};
use serde_json::{Map, Value};

#[test]
fn the_committed_schema_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/manifest.schema.json");
    let generated = format!("{}\n", serde_json::to_string_pretty(&json_schema()).unwrap());
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(committed == generated, "{path} is out of date: run the tests with UPDATE_GENERATED=1");
}

/// A table of the schema: the TOML that opens it, and its properties.
struct Table {
    header: String,
    properties: Map<String, Value>,
}

/// Follows references.
fn target<'schema>(root: &'schema Value, schema: &'schema Value) -> &'schema Value {
    let reference = schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref"));
    match reference.and_then(Value::as_str) {
        Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap(),
        None => schema,
    }
}

/// Every table of the schema, with a way to write it in TOML.
fn tables(root: &Value, schema: &Value, header: &str, found: &mut Vec<Table>) {
    let schema = target(root, schema);
    if let Some(Value::Object(properties)) = schema.get("properties") {
        assert_eq!(schema["additionalProperties"], false, "{header}");
        found.push(Table { header: header.to_owned(), properties: properties.clone() });
        for (key, value) in properties {
            tables(root, value, &format!("{header}.{key}"), found);
        }
    } else if let Some(items) = schema.get("items") {
        tables(root, items, &format!("{header}[]"), found);
    } else if let Some(values) = schema.get("additionalProperties") {
        tables(root, values, &format!("{header}.name"), found);
    }
}

/// Returns the TOML that sets one key in the table at `header`.
fn write(header: &str, key: &str, value: &str) -> String {
    let mut text = format!("{key} = {value}");
    for step in header.split('.').rev().filter(|step| !step.is_empty()) {
        text = match step.strip_suffix("[]") {
            Some(name) => format!("{name} = [{{ {text} }}]"),
            None => format!("{step} = {{ {text} }}"),
        };
    }
    text
}

#[test]
fn schema_and_parser_know_the_same_keys() {
    let root = json_schema();
    let mut found = Vec::new();
    tables(&root, &root, "", &mut found);
    let headers: Vec<_> = found.iter().map(|table| table.header.as_str()).collect();
    insta::assert_snapshot!(headers.join("\n"), @r#"

    .alert[]
    .backend[]
    .check
    .check.tolerance
    .check.tolerance.bf16
    .check.tolerance.fp16
    .check.tolerance.fp32
    .check.tolerance.int8
    .execution
    .experiment
    .matrix
    .matrix.exclude[]
    .matrix.include[]
    .measure
    .measure.confidence
    .metric[]
    .model[]
    .model[].axes
    .model[].data
    .model[].inputs.name
    .price[]
    .recommend[]
    .recommend[].ask
    .recommend[].limits[]
    .report[]
    "#);
    for Table { header, properties } in found {
        // The parser lists the keys that it knows when it is given one that is like none.
        let strange = "qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq";
        let text = write(&header, strange, "1");
        let errors = parse(&text).expect_err(&text).errors;
        let error = errors
            .iter()
            .find(|error| error.message.contains(strange))
            .unwrap_or_else(|| panic!("{text} is accepted"));
        let hint = error.hint.clone().unwrap();
        let parser: BTreeSet<&str> = hint
            .strip_prefix("the keys here are ")
            .unwrap_or_else(|| panic!("{text}: {hint}"))
            .split(", ")
            .map(|key| key.trim_matches('`'))
            .collect();
        let schema: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
        assert_eq!(parser, schema, "keys of `{header}`");
    }
}

/// A default written out changes nothing: the schema's defaults are the real ones.
#[test]
fn defaults_written_out_change_nothing() {
    const BASE: &str = r#"
schema = 1
[experiment]
name = "test"
{experiment}
[[model]]
id = "digits"
path = "digits.onnx"
[model.inputs.image]
{synthetic}
[[backend]]
id = "cpu"
{backend}
[matrix]
{matrix}
[measure]
{measure}
[[metric]]
plugin = "latency"
{metric}
[[recommend]]
plugin = "hardware"
{recommend}
"#;
    let root = json_schema();
    let mut explicit = BASE.to_owned();
    let mut plain = BASE.to_owned();
    let mut defaults = 0;
    for (place, definition) in [
        ("{experiment}", "ExperimentTable"),
        ("{synthetic}", "SyntheticTable"),
        ("{backend}", "BackendTable"),
        ("{matrix}", "MatrixTable"),
        ("{measure}", "MeasureTable"),
        ("{metric}", "PluginTable"),
        ("{recommend}", "RecommendTable"),
    ] {
        let properties = root["definitions"][definition]["properties"].as_object().unwrap();
        let mut lines = String::new();
        for (key, schema) in properties {
            if let Some(default) = schema.get("default") {
                // JSON's empty tables, lists, strings and numbers are TOML's too.
                lines.push_str(&format!("{key} = {default}\n"));
                defaults += 1;
            }
        }
        explicit = explicit.replace(place, &lines);
        plain = plain.replace(place, "");
    }
    assert!(defaults >= 20, "{defaults} defaults found");
    assert_eq!(parse(&explicit).unwrap(), parse(&plain).unwrap());
}
