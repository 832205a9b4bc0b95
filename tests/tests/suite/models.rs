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
    for command in ["validate", "plan", "run"] {
        let told = place.run(&[command, "it.toml"]).expect(3).stderr;
        assert!(told.contains("names weights outside of its folder: `../secret`"), "{told}");
        assert!(told.contains("it.toml:5:8"), "{told}");
    }
    assert!(!place.path().join("results").exists(), "nothing was begun");
}

#[test]
fn a_batch_and_a_length_that_the_model_cannot_have_are_one_error_each() {
    let place = Place::new();
    let axes: &[&str] = &["1", "512"];
    write(
        &place,
        "m.onnx",
        &model(&[("Relu", &["x"], "y")], &[("x", FLOAT, axes)], &[("y", FLOAT, axes)], &[]),
    );
    manifest(&place, "", "[matrix]\nbatch = [1, 8]\nsequence-length = [16, 512]\n");
    let told = place.run(&["run", "it.toml"]).expect(3).stderr;
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    for once in ["batch 8 fits no model", "sequence length 16 fits no model"] {
        assert_eq!(told.matches(once).count(), 1, "{told}");
    }
    assert!(!place.path().join("results").exists(), "nothing was begun");
    manifest(&place, "", "");
    let planned = plan(&place);
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
    let gap = metrics["throughput.samples"].to_string();
    assert!(gap.contains("no axis of the model counts examples"), "{gap}");
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
    let told = place.run(&["run", "it.toml"]).expect(3).stderr;
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        told.contains("`ids` is drawn from 100 to 100, beyond the table of 100 entries"),
        "{told}"
    );
    assert!(told.contains("write `high = 99` or less"), "{told}");
    assert!(!place.path().join("results").exists(), "nothing was begun");
}

#[test]
fn a_file_that_is_not_a_model_is_refused_once_and_early() {
    let place = Place::new();
    let commands: [(&[&str], i32); 5] = [
        (&["validate", "it.toml"], 3),
        (&["plan", "it.toml"], 3),
        (&["run", "it.toml"], 3),
        (&["bench", "m.onnx"], 1),
        (&["init", "new.toml", "--model", "m.onnx"], 1),
    ];
    for (bytes, reason) in [
        (&b"not a model"[..], "is not an ONNX model: "),
        (b"", "is not an ONNX model: it has no graph"),
    ] {
        write(&place, "m.onnx", bytes);
        manifest(&place, "", "[matrix]\nbatch = [1, 2, 4]\n");
        for (command, code) in commands {
            let told = place.run(command).expect(code).stderr;
            let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(told.matches("is not an ONNX model").count(), 1, "{command:?}: {told}");
            assert!(told.contains(reason), "{command:?}: {told}");
        }
    }
    assert!(!place.path().join("results/runs").exists(), "nothing was begun");
    // Of other files, the backends list those that they read.
    write(&place, "notes.md", b"# Notes");
    let text = "schema = 1\nexperiment = { name = \"models\" }\n[[model]]\nid = \"m\"\n\
                path = \"notes.md\"\n[[backend]]\nid = \"cpu\"\n[matrix]\nbatch = [1, 2]\n";
    place.write("it.toml", text);
    for command in [&["validate", "it.toml"], &["run", "it.toml"], &["bench", "notes.md"]] {
        let told = place.run(command).expect(3).stderr;
        assert_eq!(told.matches("no chosen backend reads").count(), 1, "{told}");
        assert!(told.contains("`cpu` reads .onnx"), "{told}");
    }
    // A test's backend takes any file.
    place.write("it.toml", &text.replace("\"cpu\"", "\"null\""));
    let _ = place.run(&["validate", "it.toml"]).expect(0);
}

#[test]
fn a_manifest_that_is_written_for_a_model_runs() {
    let place = Place::new();
    let (mask, ids): (&[&str], &[&str]) = (&["batch", "past + sequence"], &["batch", "sequence"]);
    let past: &[&str] = &["batch", "2", "past", "4"];
    let bytes = model(
        &[("Relu", &["mask"], "a"), ("Relu", &["ids"], "b"), ("Relu", &["past"], "c")],
        &[("mask", FLOAT, mask), ("ids", FLOAT, ids), ("past", FLOAT, past)],
        &[("a", FLOAT, mask), ("b", FLOAT, ids), ("c", FLOAT, past)],
        &[],
    );
    write(&place, "m.onnx", &bytes);
    let _ = place.run(&["init", "new.toml", "--model", "m.onnx"]).expect(0);
    let text = std::fs::read_to_string(place.path().join("new.toml")).expect("it was written");
    assert!(text.contains("[model.axes.sizes]\npast = 16\nsequence = 128\n"), "{text}");
    assert!(text.contains("# Guesses: the model leaves these sizes open."), "{text}");
    place.write("new.toml", &text.replace("# [measure]", "[measure]\nduration = \"10ms\""));
    let _ = place.run(&["run", "new.toml"]).expect(0);
    let record = &place.lines("journal.jsonl")[0]["outcome"];
    let shapes: Vec<_> =
        (0..3).map(|at| record["conditions"]["model"]["inputs"][at]["shape"].clone()).collect();
    let batch = &place.lines("journal.jsonl")[0]["spec"]["key"]["batch"];
    let expected = [
        serde_json::json!([batch, 144]),
        serde_json::json!([batch, 128]),
        serde_json::json!([batch, 2, 16, 4]),
    ];
    assert_eq!(shapes, expected);
    // Without a batch axis, the matrix has no other batch.
    let axes: &[&str] = &["height", "3"];
    write(
        &place,
        "m.onnx",
        &model(&[("Relu", &["x"], "y")], &[("x", FLOAT, axes)], &[("y", FLOAT, axes)], &[]),
    );
    let _ = place.run(&["init", "new.toml", "--force", "--model", "m.onnx"]).expect(0);
    let _ = place.run(&["validate", "new.toml"]).expect(0);
}

#[test]
fn data_and_labels_are_checked_before_anything_runs() {
    let place = Place::new();
    let axes: &[&str] = &["batch", "2"];
    let relu = model(&[("Relu", &["x"], "y")], &[("x", FLOAT, axes)], &[("y", FLOAT, axes)], &[]);
    write(&place, "m.onnx", &relu);
    let npy = |descr: &str, shape: &str, data: &[u8]| {
        let header =
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
        let length = u16::try_from(header.len()).expect("short").to_le_bytes();
        [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), data].concat()
    };
    write(&place, "x.npy", &npy("<f4", "(3, 2)", &[0; 24]));
    write(&place, "wide.npy", &npy("<f4", "(3, 4)", &[0; 48]));
    write(&place, "labels.npy", &npy("|u1", "(3,)", &[0; 3]));
    write(&place, "two.npy", &npy("|u1", "(2,)", &[0; 2]));
    let with = |data: &str| {
        manifest(&place, &format!("data = {{ {data} }}"), "[matrix]\nbatch = [1, 2]\n");
    };
    for (data, reason) in [
        ("inputs = { x = \"wide.npy\" }", "the model wants [batch, 2], the file has [3, 4]"),
        ("inputs = { x = \"x.npy\" }, labels = \"two.npy\"", "there are 2 labels for 3 examples"),
        ("inputs = { x = \"x.npy\" }, labels = \"x.npy\"", "expected one whole number per example"),
        ("inputs = { X = \"x.npy\" }", "the model `m` has no input `X`"),
    ] {
        with(data);
        for command in ["validate", "plan", "run"] {
            let told = place.run(&[command, "it.toml"]).expect(3).stderr;
            let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(told.matches(reason).count(), 1, "{command} {data}: {told}");
        }
    }
    assert!(!place.path().join("results").exists(), "nothing was begun");
    with("inputs = { x = \"x.npy\" }, labels = \"labels.npy\"");
    let _ = place.run(&["validate", "it.toml"]).expect(0);
}

#[test]
fn inputs_and_values_of_options_that_there_are_not_suggest_the_nearest() {
    let place = Place::new();
    let axes: &[&str] = &["batch", "2"];
    let relu =
        model(&[("Relu", &["image"], "y")], &[("image", FLOAT, axes)], &[("y", FLOAT, axes)], &[]);
    write(&place, "m.onnx", &relu);
    let text = "schema = 1\nexperiment = { name = \"models\" }\n[[model]]\nid = \"m\"\n\
                path = \"m.onnx\"\n[model.inputs.imag]\nhigh = 2\n[[backend]]\nid = \"cpu\"\n";
    place.write("it.toml", text);
    let told = place.run(&["validate", "it.toml"]).expect(3).stderr;
    assert!(told.contains("the model `m` has no input `imag`"), "{told}");
    assert!(told.contains("it.toml:6:15") && told.contains("did you mean `image`?"), "{told}");
    let options = "options = { engine = \"onnxruntine\", optimise = \"maybe\" }\n";
    place.write("it.toml", &format!("{text}{options}"));
    let told = place.run(&["validate", "it.toml"]).expect(3).stderr;
    assert!(
        told.contains("`engine` of the backend plugin `cpu` cannot be `onnxruntine`"),
        "{told}"
    );
    assert!(told.contains("did you mean `onnxruntime`?"), "{told}");
    assert!(told.contains("it can be `true`, `false`"), "{told}");
}

#[test]
fn a_model_that_contradicts_itself_is_refused_once_and_early() {
    let place = Place::new();
    let axes: &[&str] = &["batch", "2"];
    let (inputs, outputs) = ([("x", FLOAT, axes)], [("y", FLOAT, axes)]);
    let circle = [("Add", &["x", "b"][..], "a"), ("Relu", &["a"], "b"), ("Relu", &["a"], "y")];
    let absent = [("Add", &["x", "absent"][..], "y")];
    let short = {
        let weights = Weights { name: "w", sizes: &[2, 2], file: Some("w.bin") };
        let whole = model(&[("MatMul", &["x", "w"], "y")], &inputs, &outputs, &[weights]);
        // The length of its weights in the other file.
        let at = whole.windows(2).position(|pair| pair == b"16").expect("four numbers");
        [&whole[..at], b"12", &whole[at + 2..]].concat()
    };
    write(&place, "w.bin", &[0; 16]);
    for (bytes, reason) in [
        (model(&circle, &inputs, &outputs, &[]), "its values `a`, `b` need each other in a circle"),
        (
            model(&absent, &inputs, &outputs, &[]),
            "a node `Add` reads `absent`, which nothing makes",
        ),
        (short, "it has 12 bytes in another file, and its shape [2, 2] of fp32 needs 16"),
    ] {
        write(&place, "m.onnx", &bytes);
        manifest(&place, "", "[matrix]\nbatch = [1, 2, 4]\n");
        let commands: [(&[&str], i32); 5] = [
            (&["validate", "it.toml"], 3),
            (&["plan", "it.toml"], 3),
            (&["run", "it.toml"], 3),
            (&["bench", "m.onnx"], 1),
            (&["init", "new.toml", "--model", "m.onnx"], 1),
        ];
        for (command, code) in commands {
            let told = place.run(command).expect(code).stderr;
            let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(told.matches(reason).count(), 1, "{command:?}: {told}");
        }
        let inspected = place.run(&["inspect", "m.onnx"]).expect(1).stdout;
        assert!(inspected.contains("problem") && inspected.contains(reason), "{inspected}");
        let found = place.run(&["inspect", "m.onnx", "--format", "json"]).expect(1).json();
        assert!(found["problem"].as_str().is_some_and(|it| it.contains(reason)), "{found}");
    }
    assert!(!place.path().join("results/runs").exists(), "nothing was begun");
}

#[test]
fn weights_that_are_not_there_are_told_by_inspect() {
    let place = Place::new();
    for (file, size, told) in [
        ("absent.bin", None, "missing: 8 B are needed"),
        ("short.bin", Some(4), "too short: 4 bytes of 8"),
        ("../outside.bin", None, "outside of the model's folder"),
    ] {
        with_weights(&place, file);
        if let Some(size) = size {
            write(&place, file, &vec![0; size]);
        }
        let shown = place.run(&["inspect", "m.onnx"]).expect(1).stdout;
        assert!(shown.contains(told) && shown.contains("problem"), "{shown}");
    }
}

#[test]
fn attributes_that_a_model_leaves_to_the_format_do_not_stop_the_built_in_engine() {
    for (operator, sizes, x, y) in [
        ("Conv", &[4, 3, 3][..], &["batch", "3", "8"][..], &["batch", "4", "6"][..]),
        ("Conv", &[4, 3, 3, 3], &["batch", "3", "8", "8"], &["batch", "4", "6", "6"]),
        ("ConvTranspose", &[3, 4, 3], &["batch", "3", "8"], &["batch", "4", "10"]),
        ("ConvTranspose", &[3, 4, 3, 3], &["batch", "3", "8", "8"], &["batch", "4", "10", "10"]),
    ] {
        let place = Place::new();
        let weights = Weights { name: "w", sizes, file: None };
        let nodes = [(operator, &["x", "w"][..], "y")];
        write(&place, "m.onnx", &model(&nodes, &[("x", FLOAT, x)], &[("y", FLOAT, y)], &[weights]));
        manifest(&place, "", "[matrix]\nbatch = 2\n");
        let _ = place.run(&["run", "it.toml"]).expect(0);
        let found = outcome(&place);
        assert_eq!(found["conditions"]["model"]["samples"]["Ok"], 2, "{operator} {x:?}: {found}");
    }
}

#[test]
fn a_batch_that_fits_no_memory_is_an_error_of_the_plan() {
    let place = Place::new();
    let axes: &[&str] = &["batch", "3", "224", "224"];
    let relu = model(&[("Relu", &["x"], "y")], &[("x", FLOAT, axes)], &[("y", FLOAT, axes)], &[]);
    write(&place, "m.onnx", &relu);
    manifest(&place, "", "[matrix]\nbatch = [1, 1073741824]\n");
    for command in ["validate", "plan", "run"] {
        let told = place.run(&[command, "it.toml"]).expect(3).stderr;
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        let reason =
            "`m` at batch 1073741824: the inputs of a query take 588 TiB and its outputs 588 TiB";
        assert!(told.contains(reason), "{told}");
    }
    // A limit counts them too.
    manifest(&place, "", "memory-limit = \"1 MiB\"\n");
    let gap = plan(&place)["items"][0]["gap"].clone();
    assert_eq!(gap["inputs-bytes"], 602_112, "{gap}");
    assert_eq!(gap["outputs-bytes"], 602_112, "{gap}");
}

#[test]
fn a_limit_holds_for_the_memory_that_results_show() {
    let place = Place::new();
    let axes: &[&str] = &["batch", "2"];
    let relu = model(&[("Relu", &["x"], "y")], &[("x", FLOAT, axes)], &[("y", FLOAT, axes)], &[]);
    write(&place, "m.onnx", &relu);
    // Less than the worker's own code, in a case that is shorter than the time between two looks.
    manifest(&place, "", "memory-limit = \"2 MiB\"\n");
    let told = place.run(&["run", "it.toml"]).expect(6).stdout;
    assert!(told.contains("out of memory"), "{told}");
}

#[test]
fn the_hint_for_a_truth_value_is_legal() {
    const BOOL: u64 = 9;
    let place = Place::new();
    let nodes = [("If", &["c"][..], "y")];
    let (inputs, outputs) = ([("c", BOOL, &[][..])], [("y", FLOAT, &[][..])]);
    write(&place, "m.onnx", &model(&nodes, &inputs, &outputs, &[]));
    manifest(&place, "", "");
    let told = place.run(&["validate", "it.toml"]).expect(3).stderr;
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("`inputs.\"c\" = { low = 1, high = 1 }` (1 is true)"), "{told}");
    manifest(&place, "inputs.\"c\" = { low = 1, high = 1 }", "");
    let _ = place.run(&["validate", "it.toml"]).expect(0);
}

#[test]
fn a_category_is_not_one_model() {
    let place = Place::new();
    for command in [&["inspect", "vision"][..], &["init", "new.toml", "--model", "vision"]] {
        let told = place.run(command).expect(2).stderr;
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains("`vision` is not one architecture, but several"), "{told}");
        assert!(told.contains("`resnet50`") && !told.contains("did you mean"), "{told}");
    }
}
