//! Manifests that must be good: the template, the repository's examples, and the guide's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use host_manifest::{Bound, DeviceChoice, Experiment, Limit, TEMPLATE, parse};
use host_record::{
    Confidence, InputSource, MeasureSettings, PlacementRule, Precision, RuleSet, Scenario, Share,
    WarmUp,
};

fn repository(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_template_is_good_and_ready_to_edit() {
    let experiment = parse(TEMPLATE).unwrap();
    assert_eq!(experiment.matrix.batch, [1, 8]);
    assert!(!experiment.metrics.is_empty());
}

/// The commented-out keys of the template are valid too: uncomment every line that is TOML.
#[test]
fn the_commented_keys_of_the_template_are_good() {
    let text: String = TEMPLATE
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.starts_with('[') || rest.contains(" = ") => rest,
            _ => line,
        })
        // Files and drawn inputs exclude each other.
        .filter(|line| !line.starts_with("[model.inputs") && !line.starts_with("low = "))
        .filter(|line| !line.starts_with("high = ") && !line.starts_with("dimensions = "))
        // So do a rate and the search for one, and each wants its scenario.
        .filter(|line| !line.starts_with("rate = "))
        // A pair wants another order.
        .filter(|line| !line.starts_with("pair = "))
        .map(|line| match line {
            // Epochs want training.
            r#"mode = ["inference"]"# => r#"mode = ["inference", "training"]"#,
            r#"scenario = ["single-stream", "offline"]"# => {
                r#"scenario = ["server", "closed-loop", "multi-stream"]"#
            }
            _ => line,
        })
        .collect::<Vec<_>>()
        .join("\n");
    let experiment = parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}\n{text}"));
    assert_eq!(experiment.backends[0].threads, Some(4));
    assert_eq!(experiment.measure.offline_examples, Some(1000));
    assert_eq!(experiment.recommenders[0].limits.len(), 1);
}

#[test]
fn the_quickstart_says_what_it_seems_to() {
    let experiment = parse(&read("manifests/quickstart.toml")).unwrap();
    assert_eq!(experiment.name, "quickstart");
    assert_eq!(experiment.seed, 7);
    assert_eq!(experiment.matrix.model, ["digits"]);
    assert_eq!(experiment.matrix.backend, ["cpu"]);
    assert_eq!(experiment.matrix.batch, [1, 8, 64]);
    assert_eq!(experiment.matrix.precision, [Precision::Fp32]);
    assert_eq!(experiment.matrix.scenario, [Scenario::SingleStream, Scenario::Offline]);
    assert_eq!(experiment.backends[0].plugin, "cpu");
    assert_eq!(experiment.backends[0].devices, [DeviceChoice::Auto]);
    assert_eq!(experiment.measure.processes, 5);
    assert_eq!(experiment.measure.warm_up, WarmUp::Nanoseconds(100_000_000));
    assert_eq!(experiment.measure.minimum_duration_ns, 500_000_000);
    assert_eq!(experiment.measure.maximum_duration_ns, 5_000_000_000);
    assert!(matches!(
        &experiment.models[0].inputs,
        InputSource::Files { inputs, labels: Some(_), .. } if inputs.contains_key("image")
    ));
    let limit =
        Limit { metric: "latency.p99".to_owned(), bound: Bound::AtMost(5e6), unit: Some("ns") };
    assert_eq!(experiment.recommenders[0].limits, [limit]);
    insta::assert_json_snapshot!(experiment.recommenders[0].options_with_limits(), @r#"
    {
      "limits": [
        {
          "at-most": "5000000 ns",
          "metric": "latency.p99"
        }
      ]
    }
    "#);
}

#[test]
fn a_manifest_without_metrics_and_reports_gets_the_usual_ones() {
    let names = |data: &str| {
        let text = format!(
            r#"
schema = 1
experiment = {{ name = "test" }}
model = [{{ id = "m", path = "m.onnx", {data} }}]
backend = [{{ id = "cpu" }}]
recommend = [{{ plugin = "hardware", limits = [{{ metric = "memory.peak", at-most = "2 KiB" }}] }}]
"#
        );
        let experiment = parse(&text).unwrap();
        let options = experiment.recommenders[0].options_with_limits();
        assert_eq!(options["limits"][0]["at-most"], "2048 B");
        let plugins = experiment.metrics.iter().chain(&experiment.reports);
        plugins.map(|plugin| plugin.plugin.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(""), "latency throughput memory startup stability html markdown");
    let data = "data = { inputs = { x = \"x.npy\" }, labels = \"l.npy\" }";
    assert_eq!(names(data), "latency throughput memory startup stability accuracy html markdown");
}

/// Returns the manifests of the repository, by name, with their texts.
fn examples() -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(repository("manifests")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let manifests = paths.filter(|path| path.extension().is_some_and(|it| it == "toml"));
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    manifests.map(|path| (name(&path), std::fs::read_to_string(&path).unwrap())).collect()
}

#[test]
fn every_manifest_of_the_repository_is_good() {
    for (name, text) in examples() {
        let experiment = parse(&text).unwrap_or_else(|errors| panic!("{name}: {errors:#?}"));
        assert_eq!(experiment.name, name);
        let schema = "#:schema ../docs/reference/manifest.schema.json\n";
        assert!(text.starts_with(schema), "{name} does not begin with {schema}");
        let files = experiment.models.iter().flat_map(|model| match &model.inputs {
            InputSource::Files { inputs, labels, .. } => inputs.values().chain(labels).collect(),
            InputSource::Synthetic(_) => Vec::new(),
        });
        let models = experiment.models.iter().filter_map(|model| model.path.get(Precision::Fp32));
        for file in files.chain(models) {
            assert!(repository("manifests").join(file).is_file(), "{name}: {}", file.display());
        }
    }
}

/// There is one for each backend that runs models on hardware, and it says what to install first.
#[test]
fn every_kind_of_hardware_has_an_example() {
    let examples = examples();
    for entry in std::fs::read_dir(repository("plugins/backends")).unwrap() {
        let id = entry.unwrap().file_name().into_string().unwrap();
        let plugin: toml::Table =
            read(&format!("plugins/backends/{id}/plugin.toml")).parse().unwrap();
        // Those that test the tool itself, and the one that the quickstart has.
        if plugin["hardware"].as_array().unwrap() == &["none".into()] || id == "cpu" {
            continue;
        }
        let text = examples.get(&id).unwrap_or_else(|| panic!("no manifests/{id}.toml"));
        let experiment = parse(text).unwrap();
        assert!(experiment.backends.iter().any(|backend| backend.plugin == id), "{id}");
        for words in ["# Install first: ", "# Shows: ", &format!("install {id}`")] {
            assert!(text.contains(words), "manifests/{id}.toml does not say {words:?}");
        }
    }
}

/// Plugins and options in the examples exist.
#[test]
fn the_examples_name_backends_and_options_that_there_are() {
    for (name, text) in examples() {
        for backend in parse(&text).unwrap().backends {
            if backend.plugin == Experiment::ALL_BACKENDS {
                continue;
            }
            let file = format!("plugins/backends/{}/plugin.toml", backend.plugin);
            let plugin: toml::Table = read(&file).parse().unwrap();
            assert_eq!(plugin["id"].as_str(), Some(&*backend.plugin));
            for option in backend.options.keys() {
                let known = plugin["options"].as_table().unwrap().contains_key(option);
                assert!(known, "{name}: {file} has no option `{option}`");
            }
        }
    }
}

#[test]
fn the_examples_say_what_they_seem_to() {
    let all = |name: &str| {
        let Experiment { backends, matrix, check, .. } =
            parse(&read(&format!("manifests/{name}.toml"))).unwrap();
        let check = check.unwrap_or_else(|| panic!("{name} checks nothing"));
        assert_eq!(check.reference, "cpu", "{name}");
        let device = backends.into_iter().filter(|backend| matrix.backend.contains(&backend.id));
        let device: Vec<_> = device.filter(|backend| backend.plugin != "cpu").collect();
        assert!(device.iter().all(|backend| backend.placement == PlacementRule::Strict), "{name}");
        (device, matrix)
    };
    for (name, device, precisions) in [
        ("cuda", "cuda:0", &[Precision::Fp32][..]),
        ("rocm", "rocm:0", &[Precision::Fp32, Precision::Fp16]),
        ("mps", "mps:0", &[Precision::Fp32]),
        ("qnn", "qnn:htp", &[Precision::Fp16]),
        ("webgpu", "webgpu:0", &[Precision::Fp32]),
    ] {
        let (backends, matrix) = all(name);
        for backend in backends {
            assert_eq!(backend.plugin, name);
            assert_eq!(backend.devices, [DeviceChoice::Id(device.to_owned())]);
        }
        assert_eq!(matrix.precision, precisions, "{name}");
    }
    let option = |name: &str, id: &str, option: &str| {
        let (backends, _) = all(name);
        let backend = backends.into_iter().find(|backend| backend.id == id).unwrap();
        backend.options.get(option).cloned()
    };
    assert_eq!(option("cuda", "cuda", "cuda-graph"), None);
    assert_eq!(option("cuda", "cuda-graph", "cuda-graph").as_deref(), Some("true"));
    assert_eq!(option("mps", "processor", "compute-units").as_deref(), Some("CPUOnly"));
    assert_eq!(option("qnn", "qnn", "soc-model").as_deref(), Some("60"));
    assert_eq!(option("qnn", "qnn", "htp-arch").as_deref(), Some("75"));

    // All hardware: each backend once, and the one that has no fp32 in what it has.
    let mut experiment = parse(&read("manifests/hardware.toml")).unwrap();
    assert!(experiment.wants_all_backends());
    experiment.expand_all_backends(&["cpu", "cuda", "openvino", "qnn"].map(str::to_owned));
    let mut backends = experiment.matrix.backend.clone();
    backends.sort();
    assert_eq!(backends, ["cpu", "cuda", "openvino", "qnn"]);
    let [cell] = &experiment.matrix.include[..] else { panic!("one cell was expected") };
    assert_eq!(
        (&cell.backend[..], &cell.precision[..]),
        (&["qnn".to_owned()][..], &[Precision::Fp16][..])
    );
    let [cell] = &experiment.matrix.exclude[..] else { panic!("one cell was expected") };
    assert_eq!(
        (&cell.backend[..], &cell.precision[..]),
        (&["qnn".to_owned()][..], &[Precision::Fp32][..])
    );
}

/// Each `toml` block of the guide is a part of a manifest; with the parts that it lacks it is good.
#[test]
fn the_guide_is_good() {
    let guide = read("docs/guide/manifest.md");
    let blocks: Vec<&str> = guide
        .split("```toml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap_or_default())
        .collect();
    assert!(blocks.len() >= 8, "{} blocks found", blocks.len());
    for block in blocks {
        let mut text = String::new();
        let has = |piece: &str| block.lines().any(|line| line.starts_with(piece));
        for (piece, lines) in [
            ("schema", "schema = 1\n"),
            ("[experiment]", "[experiment]\nname = \"guide\"\n"),
            ("[[model]]", "[[model]]\nid = \"digits\"\npath = \"digits.onnx\"\n"),
            ("[[backend]]", "[[backend]]\nid = \"cpu\"\n"),
            ("[[metric]]", "[[metric]]\nplugin = \"latency\"\n"),
        ] {
            if !has(piece) {
                text.push_str(lines);
            }
        }
        let text = if has("schema") { format!("{block}{text}") } else { text + block };
        parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}\n{text}"));
    }
}

#[test]
fn axes_and_inputs_of_a_model_are_read() {
    let text = r#"
schema = 1
experiment = { name = "test" }
[[model]]
id = "m"
path = "m.onnx"
data = { inputs = { x = "x.npy" } }
inputs = { y = { high = 7, dimensions = { w = 3 } }, z = {} }
[model.axes]
batch = ["n", { input = "x", axis = 1 }, { output = "y", axis = 0 }]
sequence = []
sizes = { past = 0 }
[[backend]]
id = "cpu"
"#;
    let model = parse(text).unwrap().models.remove(0);
    insta::assert_snapshot!(serde_json::to_string(&model.axes).unwrap(), @r#"{"batch":["n",{"input":"x","axis":1},{"output":"y","axis":0}],"sequence":[],"sizes":{"past":0}}"#);
    insta::assert_snapshot!(serde_json::to_string(&model.inputs).unwrap(), @r#"{"files":{"inputs":{"x":"x.npy"},"labels":null,"drawn":{"y":{"dimensions":{"w":3},"low":null,"high":7.0},"z":{"dimensions":{},"low":null,"high":null}}}}"#);
    let drawn = model.inputs.drawn();
    assert_eq!((drawn["y"].range(), drawn["z"].range()), (Some((0.0, 7.0)), None));
}

#[test]
fn the_load_and_the_rules_are_read_and_have_their_defaults() {
    let parse = |matrix: &str, measure: &str| {
        let text = format!(
            r#"
schema = 1
experiment = {{ name = "test" }}
model = [{{ id = "m", path = "m.onnx" }}]
backend = [{{ id = "cpu" }}]
matrix = {{ {matrix} }}
measure = {{ {measure} }}
"#
        );
        host_manifest::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}"))
    };
    let plain = parse("", "").measure;
    assert_eq!(plain, MeasureSettings::default());

    let loaded = parse(
        "scenario = [\"server\", \"closed-loop\", \"multi-stream\"], rate = [50, 0.5], clients = 4",
        "warm-up = \"auto\", latency-limit = \"10ms\", latency-percentile = 99.9, \
         confidence = { half-width = \"0.5%\" }, multi-stream-examples = 4",
    );
    let rates: Vec<f64> = loaded.matrix.rate.iter().map(|rate| rate.get()).collect();
    assert_eq!((rates, loaded.matrix.clients), (vec![50.0, 0.5], vec![4]));
    let MeasureSettings { warm_up, latency_limit, confidence, multi_stream_examples, .. } =
        loaded.measure;
    assert_eq!((warm_up, multi_stream_examples), (WarmUp::Auto, Some(4)));
    let limit = latency_limit.unwrap();
    assert_eq!((limit.at_most_ns, limit.percentile), (10_000_000, Share::new(0.999).ok()));
    let Confidence { level, half_width, percentile } = confidence.unwrap();
    assert_eq!([level, half_width, percentile].map(Share::get), [0.95, 0.005, 0.5]);

    let ruled = parse("", "rules = \"mlperf\"").measure;
    assert_eq!(ruled.rules, Some(RuleSet::MlPerf));
    assert_eq!(ruled.minimum_duration_ns, 600_000_000_000);
    assert_eq!(ruled.offline_examples, Some(24_576));
    assert_eq!(
        parse("", "rules = \"mlperf\", duration = \"1s\"").measure.minimum_duration_ns,
        1_000_000_000
    );
}

#[test]
fn all_stands_for_what_is_installed() {
    let text = |backends: &str, matrix: &str| {
        format!(
            r#"
schema = 1
experiment = {{ name = "x" }}
model = [{{ id = "m", path = "m" }}]
backend = [{backends}]
matrix = {{ {matrix} }}
"#
        )
    };
    let expanded = |backends: &str, matrix: &str| {
        let mut experiment = host_manifest::parse(&text(backends, matrix)).expect("a manifest");
        assert!(experiment.wants_all_backends());
        experiment.expand_all_backends(&["cpu".into(), "cuda".into(), "rocm".into()]);
        assert!(!experiment.wants_all_backends());
        experiment
    };
    let all = expanded(r#"{ id = "all", threads = 2 }"#, "");
    assert_eq!(all.matrix.backend, ["cpu", "cuda", "rocm"]);
    assert!(all.backends.iter().all(|backend| backend.threads == Some(2)));
    // A model that is listed under its own name appears once, and keeps its place and its options.
    let backends = r#"{ id = "fast", plugin = "cuda", threads = 1 }, { id = "all" }, { id = "cpu", threads = 4 }"#;
    let some = expanded(backends, r#"exclude = [{ backend = "rocm", batch = 1 }]"#);
    assert_eq!(some.matrix.backend, ["fast", "rocm", "cpu"]);
    let threads: Vec<_> = some.backends.iter().map(|backend| backend.threads).collect();
    assert_eq!(threads, [Some(1), None, Some(4)]);

    let wrong = r#"{ id = "all", device = "cuda:1", options = { a = 1 } }"#;
    let errors = host_manifest::parse(&text(wrong, "")).expect_err("not for all").errors;
    let messages: Vec<_> = errors.iter().map(|error| error.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "`device` cannot be set for all backends at once",
            "`options` cannot be set for all backends at once",
        ]
    );
}

#[test]
fn a_cache_is_cold_only_if_asked_for() {
    let read = |measure: &str| {
        host_manifest::parse(&format!(
            r#"
schema = 1
experiment = {{ name = "x" }}
model = [{{ id = "m", path = "m.onnx" }}]
backend = [{{ id = "cpu" }}]
measure = {{ {measure} }}
"#
        ))
    };
    let cold = |measure: &str| read(measure).expect("a manifest").measure.cold_cache;
    assert!(cold("cold-cache = true") && !cold("cold-cache = false") && !cold(""));
    let errors = read("cold-cache = 1").expect_err("a number").errors;
    assert!(errors[0].message.contains("`true` or `false`"), "{:?}", errors[0].message);
}

#[test]
fn a_reference_need_not_be_in_the_matrix() {
    let text = |check: &str| {
        format!(
            r#"
schema = 1
experiment = {{ name = "x" }}
model = [{{ id = "m", path = {{ fp32 = "m.onnx", int8 = "m-qdq.onnx" }} }}]
backend = [{{ id = "fast", plugin = "cuda" }}]
check = {{ {check} }}
"#
        )
    };
    let read = |check: &str| host_manifest::parse(&text(check));
    let plain = read(r#"reference = "cpu""#).expect("a manifest");
    let ids: Vec<_> = plain.backends.iter().map(|backend| &*backend.id).collect();
    assert_eq!((ids, &*plain.matrix.backend), (vec!["fast", "cpu"], &["fast".to_owned()][..]));
    let path = |precision| plain.models[0].path.get(precision).map(|path| path.to_str());
    assert_eq!(path(Precision::Int8), Some(Some("m-qdq.onnx")));
    assert_eq!(path(Precision::Fp16), None);

    let given = read(
        r#"reference = "fast", tolerance = { int8 = { absolute = 0.25, cosine = 0.9, top1 = 1.0 } }"#,
    );
    let given = given.expect("a manifest");
    assert_eq!(given.backends.len(), 1);
    let tolerances = given.check.expect("a check").tolerances;
    let int8 = tolerances[&Precision::Int8];
    assert_eq!((int8.absolute, int8.of_scale, int8.relative), (0.25, 1.0, 0.5));
    assert_eq!((int8.cosine, int8.top1), (0.9, 1.0));

    let errors = read(r#"reference = "No_plugin", tolerance = { fp32 = { relative = -1.0 } }"#);
    let errors = errors.expect_err("a manifest").errors;
    let messages: Vec<_> = errors.iter().map(|error| error.message.as_str()).collect();
    assert_eq!(messages, ["there is no `[[backend]]` called `No_plugin`", "-1 is not a tolerance"]);
}
