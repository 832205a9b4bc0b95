//! Models as people have them: with weights beside them, axes of any meaning and inputs of any kind.

use end_to_end::Place;
use end_to_end::onnx::{FLOAT, INT64, Weights, model};
use serde_json::Value;

/// Writes a manifest for `m.onnx` on the built-in engine; tables and keys of the model follow.
fn manifest(place: &Place, of_model: &str, tables: &str) {
    let text = format!(
        "schema = 1\nexperiment = {{ name = \"models\" }}\n[[model]]\nid = \"m\"\npath = \"m.onnx\"\n\
         {of_model}\n[[backend]]\nid = \"cpu\"\n[measure]\nwarm-up = 1\nduration = \"10ms\"\n\
         minimum-queries = 1\n{tables}"
    );
    place.write("it.toml", &text);
}

fn write(place: &Place, name: &str, bytes: &[u8]) {
    let path = place.path().join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is writable");
    std::fs::write(path, bytes).expect("the folder is writable");
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn plan(place: &Place) -> Value {
    place.run(&["plan", "it.toml", "--format", "json"]).expect(0).json()
}

/// Returns the outcome of the only case of the only run.
fn outcome(place: &Place) -> Value {
    let mut journal = place.lines("journal.jsonl");
    assert_eq!(journal.len(), 1, "{journal:?}");
    journal.remove(0)["outcome"].take()
}

/// `y = x + w`, with weights in a file.
fn with_weights(place: &Place, file: &str) {
    let weights = Weights { name: "w", sizes: &[2], file: Some(file) };
    let axes: &[&str] = &["batch", "2"];
    let bytes = model(
        &[("Add", &["x", "w"], "y")],
        &[("x", FLOAT, axes)],
        &[("y", FLOAT, axes)],
        &[weights],
    );
    write(place, "m.onnx", &bytes);
}

#[test]
fn weights_beside_a_model_are_part_of_it() {
    for file in ["weights.bin", "sub/w.data", "m.onnx_data"] {
        let place = Place::new();
        with_weights(&place, file);
        write(&place, file, &floats(&[1.0, 2.0]));
        manifest(&place, "", "");
        let id = |place: &Place| plan(place)["items"][0]["id"].clone();
        let first = id(&place);
        let _ = place.run(&["run", "it.toml"]).expect(0);
        assert_eq!(outcome(&place)["outcome"], "finished", "{file}");
        let spec = &place.lines("journal.jsonl")[0]["spec"]["model"]["parts"][0];
        assert_eq!(spec["name"], file);
        write(&place, file, &floats(&[1.0, 3.0]));
        assert_ne!(id(&place), first, "other weights are another model");
    }
}

#[test]
fn weights_outside_of_the_folder_are_refused() {
    let place = Place::new();
    with_weights(&place, "../secret");
    manifest(&place, "", "");
    let _ = place.run(&["run", "it.toml"]).expect(6);
    let failure = outcome(&place)["failure"].to_string();
    assert!(failure.contains("names weights outside of its folder: `../secret`"), "{failure}");
}

#[test]
fn a_batch_and_a_length_that_the_model_cannot_have_are_gaps() {
    let place = Place::new();
    let axes: &[&str] = &["1", "512"];
    write(
        &place,
        "m.onnx",
        &model(&[("Relu", &["x"], "y")], &[("x", FLOAT, axes)], &[("y", FLOAT, axes)], &[]),
    );
    manifest(&place, "", "[matrix]\nbatch = [1, 8]\nsequence-length = [16, 512]\n");
    let planned = plan(&place);
    assert_eq!((&planned["cases"], &planned["gaps"]), (&0.into(), &4.into()), "{planned}");
    assert_eq!(planned["items"][0]["gap"]["obstacle"]["obstacle"], "no-sequence-axis");
    assert_eq!(planned["items"][2]["gap"]["obstacle"]["obstacle"], "fixed-batch");
    let axis = &planned["axes"]["m"]["batch"];
    assert_eq!(axis["places"][0]["size"], 1, "{axis}");
    let text = place.run(&["plan", "it.toml"]).expect(0).stdout;
    assert!(text.contains("m  batch: axis 0 of `x`, fixed at 1; sequence: none"), "{text}");
    // A declaration counts, and is kept.
    let declared = "axes = { sequence = { input = \"x\", axis = 1 } }";
    manifest(&place, declared, "[matrix]\nsequence-length = [512]\n");
    let _ = place.run(&["run", "it.toml"]).expect(0);
    let used = outcome(&place)["conditions"]["model"].take();
    assert_eq!(used["axes"]["sequence"]["declared"], true);
    assert_eq!(used["inputs"][0]["shape"], serde_json::json!([1, 512]));
    assert_eq!(used["inputs"][0]["origin"]["kind"], "default");
    assert_eq!(used["samples"]["Ok"], 1);
}

#[test]
fn all_open_axes_are_told_before_anything_is_measured() {
    let place = Place::new();
    let axes: &[&str] = &["height", "width", "3"];
    write(
        &place,
        "m.onnx",
        &model(&[("Relu", &["x"], "y")], &[("x", FLOAT, axes)], &[("y", FLOAT, axes)], &[]),
    );
    manifest(&place, "", "");
    let told = place.run(&["run", "it.toml"]).expect(3).stderr;
    assert!(told.contains("it.toml:4:6") && told.contains("does not fit its file"), "{told}");
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("axes.sizes = { height = …, width = … }"), "{told}");
    assert!(!place.path().join("results").exists(), "nothing was begun");
    manifest(&place, "axes.sizes = { height = 4, width = 6 }", "");
    let _ = place.run(&["run", "it.toml"]).expect(0);
    let used = outcome(&place)["conditions"]["model"].take();
    assert_eq!(used["inputs"][0]["shape"], serde_json::json!([4, 6, 3]));
    // The number of examples in such a query is unknown.
    assert_eq!(used["samples"]["Err"]["cause"], "no-batch-axis");
    let shown = place.run(&["results", "show", "latest", "--format", "json"]).expect(0).json();
    let metrics = &shown["cases"][0]["metrics"];
    assert!(metrics["throughput.samples"]["value"].is_null(), "{metrics}");
    assert!(metrics["throughput.queries"]["value"].is_f64(), "{metrics}");
}

#[test]
fn an_index_is_drawn_from_its_table_and_refused_beyond_it() {
    let place = Place::new();
    let table = Weights { name: "words", sizes: &[100, 2], file: None };
    let bytes = model(
        &[("Gather", &["words", "ids"], "y")],
        &[("ids", INT64, &["batch", "3"])],
        &[("y", FLOAT, &["batch", "3", "2"])],
        &[table],
    );
    write(&place, "m.onnx", &bytes);
    manifest(&place, "", "[matrix]\nbatch = 4\n");
    let _ = place.run(&["run", "it.toml"]).expect(0);
    let report = outcome(&place);
    let input = &report["conditions"]["model"]["inputs"][0];
    assert_eq!(
        input["origin"],
        serde_json::json!({ "kind": "index", "entries": 100, "operator": "Gather" })
    );
    // The table is all zeros.
    let kinds = report["warnings"].as_array().expect("warnings");
    assert!(kinds.iter().any(|warning| warning["kind"] == "trivial-output"), "{kinds:?}");
    let shown = place.run(&["results", "show", "latest", "--verbose"]).expect(0).stdout;
    assert!(shown.contains("`ids` int64 [4, 3]: drawn from 0 to 99 (Gather)"), "{shown}");

    let place = Place::new();
    write(&place, "m.onnx", &bytes);
    manifest(&place, "inputs.ids = { low = 100, high = 100 }", "");
    let _ = place.run(&["run", "it.toml"]).expect(6);
    let failure = outcome(&place)["failure"].take();
    assert_eq!(failure["kind"], "input", "{failure}");
    assert!(failure["detail"].to_string().contains("beyond the table of 100 entries"), "{failure}");
}
