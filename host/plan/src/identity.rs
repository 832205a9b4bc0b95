/*!
Case ids: everything that defines a case, written in one canonical form and hashed.

The canonical text is JSON with sorted keys and no spaces. For each case it contains:

- `axes`: meaning and sizes of the model's axes, as the manifest declares them, if it does;
- `form`: [`FORM`], the version of this list;
- `inputs`: `files` (each input, and the labels, by the file's SHA-256 if known, else by
  the path in the manifest, and `drawn` if inputs are drawn beside them) or `synthetic` (the ranges and sizes as
  declared);
- `key`: the coordinates in the matrix;
- `measure`: warm-up, durations, queries, processes, `order` if it is `paired`, confidence, `pin` if processors are chosen, `cold-cache` if set, `nice` if
  given, and if the scenario has them the examples per query and the searched quantity; in training, epochs and test
  examples if set; but neither time-out,
  memory limit, rules nor a limit that only judges, because these do not change the work;
- `model`: the SHA-256 of the model file, null if there is none for the precision;
- `options` (with `placement` if it is strict), `plugin` (its id) and `threads` of the backend;
- `seed`;
- `values`: legal values of drawn inputs without a range, as the model's graph tells them, if it does;
- `weights`: the SHA-256 of each other file of the model, by its name, if there are any.

Versions of plugins and absolute paths are left out. So the same case on another machine, or with a
newer plugin, has the same id, and results can be compared. The id is the first sixteen
hexadecimal digits of the text's SHA-256.
*/

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::LazyLock;

use host_hash::{Digest, Sha256, hexadecimal};
use host_manifest::{Backend, Model, PerPrecision};
use host_record::{
    Axis, CaseKey, Coordinate, FileId, InputSource, LegalValues, MeasureSettings, Mode, Pin,
    PlacementRule, Precision, Scenario, SyntheticInput, WarmUp,
};
use serde_json::{Map, Value, json};

use crate::facts::{Facts, ModelFacts};

/// Version of the canonical text.
pub(crate) const FORM: u32 = 1;

/// The part of the text that is the same for all cases of a model. Each field is JSON.
#[derive(Debug, Clone)]
pub(crate) struct ModelPart {
    pub(crate) inputs: String,
    pub(crate) axes: Option<String>,
    files: PerPrecision<FilePart>,
}

/// The part of the text about a model's file. Each field is JSON.
#[derive(Debug, Clone)]
struct FilePart {
    sha256: String,
    values: Option<String>,
    weights: Option<String>,
}

impl FilePart {
    fn new(file: &FileId, values: &BTreeMap<String, LegalValues>) -> Self {
        Self {
            sha256: json!(file.sha256).to_string(),
            values: (!values.is_empty()).then(|| json!(values).to_string()),
            weights: weights(file).map(|weights| weights.to_string()),
        }
    }
}

/// Returns the hashes of the other files of a model, by name; `None` if there are none.
pub(crate) fn weights(file: &FileId) -> Option<Value> {
    let parts: Map<_, _> =
        file.parts.iter().map(|part| (part.name.clone(), json!(part.sha256))).collect();
    (!parts.is_empty()).then_some(Value::Object(parts))
}

/// Returns the legal values of the inputs of a model's file that are drawn without a range of their own.
pub(crate) fn drawn_values(
    model: &Model,
    file: &FileId,
    facts: &Facts,
) -> BTreeMap<String, LegalValues> {
    let Some(structure) = facts.structures.get(file) else { return BTreeMap::new() };
    let mut values = structure.values.clone();
    let from_file = |name: &str| match &model.inputs {
        InputSource::Files { inputs, .. } => inputs.contains_key(name),
        InputSource::Synthetic(_) => false,
    };
    let has_range =
        |name: &str| model.inputs.drawn().get(name).and_then(SyntheticInput::range).is_some();
    values.retain(|name, _| !from_file(name) && !has_range(name));
    values
}

fn drawn(inputs: &BTreeMap<String, SyntheticInput>) -> Map<String, Value> {
    let one = |(name, input): (&String, &SyntheticInput)| {
        let (low, high) = input.range().unwrap_or((0.0, 1.0));
        let dimensions = &input.dimensions;
        (name.clone(), json!({ "dimensions": dimensions, "high": high, "low": low }))
    };
    inputs.iter().map(one).collect()
}

impl ModelPart {
    pub(crate) fn new(model: &Model, files: &ModelFacts, facts: &Facts) -> Self {
        let file = |path: &Path| match facts.data.get(path) {
            Some(sha256) => json!({ "sha256": sha256 }),
            None => json!({ "path": path.to_string_lossy() }),
        };
        let inputs = match &model.inputs {
            InputSource::Files { inputs, labels, drawn: beside } => {
                let inputs: Map<_, _> =
                    inputs.iter().map(|(name, path)| (name.clone(), file(path))).collect();
                let mut files = json!({ "inputs": inputs });
                if let Some(labels) = labels {
                    files["labels"] = file(labels);
                }
                if !beside.is_empty() {
                    files["drawn"] = Value::Object(drawn(beside));
                }
                json!({ "files": files })
            }
            InputSource::Synthetic(inputs) => json!({ "synthetic": drawn(inputs) }),
        };
        Self {
            inputs: inputs.to_string(),
            axes: (!model.axes.is_default()).then(|| canonical_axes(model)),
            files: files.map(|file| FilePart::new(file, &drawn_values(model, file, facts))),
        }
    }
}

impl ModelPart {
    /// Returns the legal values that the file for a precision has, as JSON.
    pub(crate) fn values_of(&self, precision: Precision) -> Option<&str> {
        self.files.get(precision)?.values.as_deref()
    }
}

/// Returns the declared axes as JSON with sorted keys.
fn canonical_axes(model: &Model) -> String {
    json!(model.axes).to_string()
}

/// The part of the text that is the same for all cases of a backend. Each field is JSON.
#[derive(Debug, Clone)]
pub(crate) struct BackendPart {
    options: String,
    plugin: String,
    threads: String,
}

impl BackendPart {
    pub(crate) fn new(backend: &Backend) -> Self {
        let mut options = backend.options.clone();
        // As the backend gets it: what runs where is different work.
        if backend.placement == PlacementRule::Strict {
            options.insert("placement".to_owned(), backend.placement.name().to_owned());
        }
        Self {
            options: json!(options).to_string(),
            plugin: json!(backend.plugin).to_string(),
            threads: json!(backend.threads).to_string(),
        }
    }
}

/// Returns the part of the text about measuring, as JSON.
pub(crate) fn measure_part(measure: &MeasureSettings, scenario: Scenario, mode: Mode) -> String {
    let mut part = json!({
        "maximum-duration-ns": measure.maximum_duration_ns,
        "minimum-duration-ns": measure.minimum_duration_ns,
        "minimum-queries": measure.minimum_queries,
        "warm-up": match measure.warm_up {
            WarmUp::Iterations(count) => json!({ "iterations": count }),
            WarmUp::Nanoseconds(time) => json!({ "nanoseconds": time }),
            WarmUp::Auto => json!("auto"),
        },
    });
    if let (Scenario::Offline, Some(examples)) = (scenario, measure.offline_examples) {
        part["offline-examples"] = examples.into();
    }
    if let (Scenario::MultiStream, Some(examples)) = (scenario, measure.multi_stream_examples) {
        part["multi-stream-examples"] = examples.into();
    }
    if measure.processes != 1 {
        part["processes"] = measure.processes.into();
    }
    // Which case takes turns with it makes no other work of it, but the pauses do.
    if measure.pair.is_some() {
        part["order"] = "paired".into();
    }
    if let Some(confidence) = measure.confidence {
        part["confidence"] = json!(confidence);
    }
    if let (true, Some(find)) = (scenario.is_open_loop(), measure.find) {
        // A search depends on the limit; otherwise the limit only judges.
        part["find"] = json!({ "latency-limit": measure.latency_limit, "what": find });
    }
    // Looking may disturb, so it is another measurement.
    if let Some(period) = measure.device_sampling_ns {
        part["device-sampling-ns"] = period.into();
    }
    if let (Mode::Training, Some(epochs)) = (mode, measure.epochs) {
        part["epochs"] = epochs.into();
    }
    if let (Mode::Training, Some(examples)) = (mode, measure.test_examples) {
        part["test-examples"] = examples.into();
    }
    if measure.cold_cache {
        part["cold-cache"] = true.into();
    }
    if let Some(nice) = measure.nice {
        part["nice"] = nice.into();
    }
    match &measure.pin {
        Pin::None => {}
        Pin::Auto => part["pin"] = "auto".into(),
        Pin::Processors(processors) => part["pin"] = json!(processors),
    }
    part.to_string()
}

/// The axes by name, as the keys of a canonical object stand. The first has a value in every case.
static BY_NAME: LazyLock<Vec<Axis>> = LazyLock::new(|| {
    let mut axes = Axis::ALL.to_vec();
    axes.sort_unstable_by_key(|axis| axis.name());
    axes
});

/// Writes the canonical text of a case into `text`.
///
/// A large plan needs a million of these, so the text is assembled from parts that are made once. A
/// test checks that the result is canonical.
pub(crate) fn write_canonical(
    text: &mut String,
    key: &CaseKey,
    model: &ModelPart,
    backend: &BackendPart,
    measure: &str,
    seed: u64,
) {
    text.clear();
    // Writing to a `String` does not fail.
    text.push('{');
    if let Some(axes) = &model.axes {
        let _ = write!(text, r#""axes":{axes},"#);
    }
    let _ = write!(text, r#""form":{FORM},"inputs":{},"key":{{"#, model.inputs);
    for (position, axis) in BY_NAME.iter().enumerate() {
        let coordinate = axis.of(key);
        if coordinate == Coordinate::None {
            continue;
        }
        if position > 0 {
            text.push(',');
        }
        let _ = write!(text, r#""{}":"#, axis.name());
        let _ = match coordinate {
            Coordinate::None => Ok(()),
            Coordinate::Text(value) => {
                quote(text, value);
                Ok(())
            }
            Coordinate::Count(count) => write!(text, "{count}"),
            Coordinate::Number(number) => write!(text, "{}", json!(number)),
        };
    }
    let _ = write!(text, r#"}},"measure":{measure},"model":"#);
    let file = model.files.get(key.precision);
    text.push_str(file.map_or("null", |file| &file.sha256));
    let _ = write!(
        text,
        r#","options":{},"plugin":{},"seed":{seed},"threads":{}"#,
        backend.options, backend.plugin, backend.threads
    );
    let (values, weights) =
        file.map_or((None, None), |file| (file.values.as_ref(), file.weights.as_ref()));
    for (name, part) in [("values", values), ("weights", weights)] {
        if let Some(part) = part {
            let _ = write!(text, r#","{name}":{part}"#);
        }
    }
    text.push('}');
}

/// Appends a JSON string.
fn quote(text: &mut String, value: &str) {
    let plain = |c: char| c.is_ascii_graphic() && c != '"' && c != '\\';
    if value.chars().all(plain) {
        text.push('"');
        text.push_str(value);
        text.push('"');
    } else {
        text.push_str(&Value::from(value).to_string());
    }
}

/// Returns the id of a canonical text.
pub(crate) fn id(text: &str) -> String {
    hexadecimal(&Sha256::digest(text.as_bytes())[..8])
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use host_manifest::{DeviceChoice, PerPrecision};
    use host_record::{AxesChoice, AxisName, Find, LatencyLimit, ModelStructure, RuleSet};

    use super::*;

    fn model() -> Model {
        Model {
            id: "digits".to_owned(),
            path: PerPrecision::All("digits.onnx".into()),
            architecture: None,
            inputs: InputSource::Files {
                inputs: [("image".to_owned(), "images.npy".into())].into(),
                labels: Some("labels.npy".into()),
                drawn: BTreeMap::new(),
            },
            axes: AxesChoice::default(),
        }
    }

    fn file() -> ModelFacts {
        PerPrecision::All(FileId {
            name: "digits.onnx".into(),
            sha256: "abc".into(),
            ..FileId::default()
        })
    }

    fn backend() -> Backend {
        Backend {
            id: "cpu".to_owned(),
            plugin: "cpu".to_owned(),
            version: "^0.1".parse().unwrap(),
            folder: None,
            devices: vec![DeviceChoice::Auto],
            threads: Some(1),
            placement: PlacementRule::Any,
            environment: Vec::new(),
            options: [("depth".to_owned(), "2".to_owned())].into(),
        }
    }

    fn measure() -> MeasureSettings {
        MeasureSettings {
            warm_up: WarmUp::Nanoseconds(200_000_000),
            minimum_duration_ns: 1_000_000_000,
            maximum_duration_ns: 10_000_000_000,
            minimum_queries: 100,
            offline_examples: Some(360),
            ..MeasureSettings::default()
        }
    }

    fn key(device: &str, scenario: Scenario) -> CaseKey {
        CaseKey { batch: 8, scenario, ..CaseKey::new("digits", "cpu", device) }
    }

    fn text(key: &CaseKey, model: &Model, data: &BTreeMap<PathBuf, String>) -> String {
        let facts = Facts { data: data.clone(), ..Facts::default() };
        text_of(key, model, &file(), &facts)
    }

    fn text_of(key: &CaseKey, model: &Model, file: &ModelFacts, facts: &Facts) -> String {
        let mut text = String::new();
        write_canonical(
            &mut text,
            key,
            &ModelPart::new(model, file, facts),
            &BackendPart::new(&backend()),
            &measure_part(&measure(), key.scenario, key.mode),
            7,
        );
        text
    }

    /// Ids are in stored results: this text and this id change only together with [`FORM`].
    #[test]
    fn the_golden_case_keeps_its_id() {
        let data = [("images.npy".into(), "def".to_owned())].into();
        let text = text(&key("cpu:0", Scenario::SingleStream), &model(), &data);
        insta::assert_snapshot!(text, @r#"{"form":1,"inputs":{"files":{"inputs":{"image":{"sha256":"def"}},"labels":{"path":"labels.npy"}}},"key":{"backend":"cpu","batch":8,"device":"cpu:0","mode":"inference","model":"digits","precision":"fp32","scenario":"single-stream"},"measure":{"maximum-duration-ns":10000000000,"minimum-duration-ns":1000000000,"minimum-queries":100,"warm-up":{"nanoseconds":200000000}},"model":"abc","options":{"depth":"2"},"plugin":"cpu","seed":7,"threads":1}"#);
        insta::assert_snapshot!(id(&text), @"5197a08cc4481a9f");
    }

    #[test]
    fn the_text_is_canonical_json() {
        let mut synthetic = model();
        let input = SyntheticInput {
            dimensions: [("w".to_owned(), 3)].into(),
            low: Some(-1.0),
            high: Some(0.1),
        };
        synthetic.inputs = InputSource::Synthetic([("in \"put\"".to_owned(), input)].into());
        synthetic.axes.batch = Some(vec![AxisName::Input { input: "x".into(), axis: 0 }]);
        synthetic.axes.sizes.insert("w".into(), 3);
        for model in [model(), synthetic] {
            for device in ["cpu:0", "odd \"device\" \\ \u{1f600}"] {
                for scenario in Scenario::ALL {
                    for length in [None, Some(128)] {
                        let mut key = key(device, *scenario);
                        key.sequence_length = length;
                        key.rate = host_record::Rate::per_second(1e-7).ok();
                        key.clients = Some(3);
                        let text = text(&key, &model, &BTreeMap::new());
                        // `serde_json` keeps the keys of an object sorted.
                        let value: Value = serde_json::from_str(&text).unwrap();
                        assert_eq!(value.to_string(), text);
                    }
                }
            }
        }
    }

    #[test]
    fn other_files_of_a_model_are_part_of_its_identity() {
        let key = key("cpu:0", Scenario::SingleStream);
        let with = |sha256: &str| {
            let part =
                FileId { name: "weights.bin".into(), sha256: sha256.into(), parts: Vec::new() };
            let PerPrecision::All(file) = file() else { panic!("one file") };
            let file = PerPrecision::All(FileId { parts: vec![part], ..file });
            text_of(&key, &model(), &file, &Facts::default())
        };
        assert!(
            with("0").ends_with(r#","threads":1,"weights":{"weights.bin":"0"}}"#),
            "{}",
            with("0")
        );
        assert_ne!(id(&with("0")), id(&with("1")));
    }

    #[test]
    fn legal_values_count_for_inputs_that_are_drawn_by_them() {
        let key = key("cpu:0", Scenario::SingleStream);
        let PerPrecision::All(file_id) = file() else { panic!("one file") };
        let values = ["image", "mask"].map(|name| (name.to_owned(), LegalValues::Ones)).into();
        let structure = ModelStructure { values, ..ModelStructure::default() };
        let facts = Facts { structures: [(file_id, structure)].into(), ..Facts::default() };
        let ones = r#""mask":{"rule":"ones"}"#;
        // The image comes from a file.
        let text = |model: &Model| text_of(&key, model, &file(), &facts);
        assert!(text(&model()).contains(&format!(r#""values":{{{ones}}}"#)), "{}", text(&model()));
        let input = SyntheticInput { dimensions: BTreeMap::new(), low: None, high: Some(7.0) };
        let drawn = Model {
            inputs: InputSource::Synthetic([("mask".to_owned(), input)].into()),
            ..model()
        };
        assert!(!text(&drawn).contains(ones), "{}", text(&drawn));
    }

    /// The golden case above has no `pin`, so cases from before `pin` keep their ids.
    #[test]
    fn only_chosen_processors_count() {
        let of = |settings: &MeasureSettings| {
            measure_part(settings, Scenario::SingleStream, Mode::Inference)
        };
        let part = |pin| of(&MeasureSettings { pin, ..measure() });
        assert!(!part(Pin::None).contains("pin"));
        assert!(part(Pin::Auto).contains(r#""pin":"auto""#));
        assert!(part(Pin::Processors(vec![0, 2])).contains(r#""pin":[0,2]"#));
        let nice = of(&MeasureSettings { nice: Some(-5), ..measure() });
        assert!(nice.contains(r#""nice":-5"#));
        let cold = of(&MeasureSettings { cold_cache: true, ..measure() });
        assert!(cold.contains(r#""cold-cache":true"#));
        assert!(!part(Pin::None).contains("nice"));
        let trained = MeasureSettings { epochs: Some(3), test_examples: Some(9), ..measure() };
        assert_eq!(of(&trained), of(&measure()), "inference is the same work");
        let trained = measure_part(&trained, Scenario::SingleStream, Mode::Training);
        assert!(trained.contains(r#""epochs":3"#) && trained.contains(r#""test-examples":9"#));
    }

    #[test]
    fn strict_placement_is_other_work() {
        let strict = Backend { placement: PlacementRule::Strict, ..backend() };
        let options = BackendPart::new(&strict).options;
        assert_eq!(options, r#"{"depth":"2","placement":"strict"}"#);
        assert_eq!(BackendPart::new(&backend()).options, r#"{"depth":"2"}"#);
    }

    #[test]
    fn what_only_judges_is_no_part_of_an_id() {
        let limit = LatencyLimit { at_most_ns: 1, percentile: None };
        let judged = MeasureSettings {
            latency_limit: Some(limit),
            rules: Some(RuleSet::MlPerf),
            ..measure()
        };
        let part =
            |settings: &MeasureSettings| measure_part(settings, Scenario::Server, Mode::Inference);
        assert_eq!(part(&judged), part(&measure()));
        // A search for the rate depends on it.
        let found = MeasureSettings { find: Some(Find::MaxRate), ..judged };
        let another = MeasureSettings {
            latency_limit: Some(LatencyLimit { at_most_ns: 2, ..limit }),
            ..found.clone()
        };
        assert_ne!(part(&found), part(&another));
        assert_ne!(part(&found), part(&measure()));
    }

    #[test]
    fn offline_examples_count_for_offline_only() {
        let without = MeasureSettings { offline_examples: None, ..measure() };
        assert_eq!(
            measure_part(&measure(), Scenario::SingleStream, Mode::Inference),
            measure_part(&without, Scenario::SingleStream, Mode::Inference)
        );
        assert_ne!(
            measure_part(&measure(), Scenario::Offline, Mode::Inference),
            measure_part(&without, Scenario::Offline, Mode::Inference)
        );
    }
}
