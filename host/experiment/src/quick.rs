//! A manifest from a few words: models, and what to vary.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use host_architectures::{Architecture, ArchitectureError};
use host_onnx::Facts;
use serde::Serialize;
use toml::Value;

use crate::error::{Error, Result};

/// The words. An empty list leaves a key out, so that the manifest's default holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quick {
    /// Files of models, architectures by name, categories of them, or `all`.
    pub models: Vec<PathBuf>,
    /// Ids of backends; `all` is every installed one.
    pub backends: Vec<String>,
    /// Ids of devices, for every backend.
    pub devices: Vec<String>,
    /// Values of each axis of the matrix, by its key in a manifest. Whole numbers are numbers there.
    pub matrix: BTreeMap<String, Vec<String>>,
    /// The most cases.
    pub limit: Option<u64>,
    /// Ids of metric plugins.
    pub metrics: Vec<String>,
    /// The time to measure each case, such as `5s`.
    pub duration: Option<String>,
    /// Processes of each case.
    pub processes: Option<u32>,
    /// The most memory that a case may use, in bytes.
    pub memory_limit: Option<u64>,
}

#[derive(Serialize)]
struct Manifest<'a> {
    schema: u32,
    experiment: Experiment,
    model: Vec<Model>,
    backend: Vec<Backend<'a>>,
    matrix: Matrix<'a>,
    measure: Measure<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    metric: Vec<Plugin<'a>>,
    recommend: Vec<Plugin<'a>>,
}

#[derive(Serialize)]
struct Experiment {
    name: String,
}

#[derive(Serialize)]
pub(crate) struct Model {
    id: String,
    #[serde(flatten)]
    source: Source,
}

#[derive(Debug, Clone, Serialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Source {
    Path(String),
    Architecture(String),
}

#[derive(Serialize)]
struct Matrix<'a> {
    #[serde(flatten)]
    axes: BTreeMap<&'a str, Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
}

#[derive(Serialize)]
struct Backend<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    device: &'a [String],
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Measure<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_limit: Option<String>,
}

#[derive(Serialize)]
struct Plugin<'a> {
    plugin: &'a str,
}

/// A manifest of a few words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuickManifest {
    /// The name of the experiment: that of the first model.
    pub name: String,
    /// The manifest's text.
    pub text: String,
}

impl Quick {
    /// Returns a manifest. Paths in it are absolute, so it can lie anywhere.
    ///
    /// # Errors
    ///
    /// If a word is neither a file nor an architecture, or a path is not UTF-8.
    pub fn manifest(&self) -> Result<QuickManifest> {
        let models = self.models()?;
        let name = models.first().map_or_else(|| "bench".to_owned(), |model| model.id.clone());
        let mut matrix = BTreeMap::from([("batch", vec![Value::from(1)])]);
        matrix.extend(self.matrix.iter().map(|(axis, values)| {
            let value = |text: &String| match text.parse::<i64>() {
                Ok(number) => Value::from(number),
                Err(_) => Value::from(text.as_str()),
            };
            (axis.as_str(), values.iter().map(value).collect())
        }));
        let cpu = ["cpu".to_owned()];
        let backends = if self.backends.is_empty() { &cpu[..] } else { &self.backends };
        let manifest = Manifest {
            schema: 1,
            experiment: Experiment { name: name.clone() },
            model: models,
            backend: backends.iter().map(|id| Backend { id, device: &self.devices }).collect(),
            matrix: Matrix { axes: matrix, limit: self.limit },
            measure: Measure {
                duration: self.duration.as_deref(),
                processes: self.processes,
                memory_limit: self.memory_limit.map(|limit| format!("{limit} B")),
            },
            metric: self.metrics().map(|plugin| Plugin { plugin }).collect(),
            recommend: vec![Plugin { plugin: "hardware" }],
        };
        let text = toml::to_string(&manifest).expect("texts, numbers and lists are TOML");
        Ok(QuickManifest { name, text })
    }

    /// Returns the metrics that are asked for, and those that they need.
    fn metrics(&self) -> impl Iterator<Item = &str> {
        let asked_for = |id: &str| self.metrics.iter().any(|metric| metric == id);
        // The use of a device's peaks follows from the throughput.
        let needed = (asked_for("model") && !asked_for("throughput")).then_some("throughput");
        self.metrics.iter().map(String::as_str).chain(needed)
    }

    /// Returns the models that the words stand for. An architecture that several words stand for is listed once.
    fn models(&self) -> Result<Vec<Model>> {
        let mut models: Vec<Model> = Vec::new();
        for word in &self.models {
            let sources = match word.to_str().map(Architecture::of) {
                Some(Ok(architectures)) => architectures
                    .iter()
                    .map(|architecture| Source::Architecture(architecture.to_string()))
                    .collect(),
                Some(Err(error @ ArchitectureError::Unknown { .. })) => {
                    let source = file(word, &error)?;
                    // Files of other kinds are the backends' own.
                    if word.extension().is_some_and(|extension| extension == "onnx") {
                        Facts::read(word)?.check(word)?;
                    }
                    vec![source]
                }
                Some(Err(error)) => return Err(Error::Architecture(error)),
                None => return Err(Error::FolderName { path: word.clone() }),
            };
            for source in sources {
                if matches!(source, Source::Architecture(_))
                    && models.iter().any(|model| model.source == source)
                {
                    continue;
                }
                let stem = match &source {
                    Source::Architecture(name) => name.clone(),
                    Source::Path(_) => {
                        word.file_stem().unwrap_or_default().to_string_lossy().into_owned()
                    }
                };
                let id = free_id(&stem, &models);
                models.push(Model { id, source });
            }
        }
        Ok(models)
    }
}

/// Returns a file's absolute path. A word that does not look like a path may be a mistyped architecture.
pub(crate) fn file(word: &Path, error: &ArchitectureError) -> Result<Source> {
    let path = std::path::absolute(word).map_err(|error| Error::io("find", word, error))?;
    match host_files::check(&path) {
        Ok(()) => {}
        // It is there, but not a regular file.
        Err(error) if host_files::is_unsuitable(&error) => {
            return Err(Error::io("read", word, error));
        }
        Err(_) if word.extension().is_none() && word.components().count() == 1 => {
            let word = word.display().to_string();
            return Err(Error::NoModel { word, hint: error.hint() });
        }
        Err(error) => return Err(Error::io("read", word, error)),
    }
    let path = path.into_os_string().into_string();
    path.map(Source::Path).map_err(|_| Error::FolderName { path: word.to_owned() })
}

/// Returns an id made of a name that no other model has.
pub(crate) fn free_id(name: &str, models: &[Model]) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let id: String = name.chars().map(|c| if fits(c) { c } else { '-' }).take(60).collect();
    let id = match id.trim_start_matches(|c: char| !c.is_ascii_alphanumeric()) {
        "" => "model".to_owned(),
        id => id.to_owned(),
    };
    let numbered = (2..).map(|number| format!("{id}-{number}"));
    let mut free = std::iter::once(id.clone()).chain(numbered);
    let is_taken = |id: &String| models.iter().any(|model| model.id == *id);
    free.find(|id| !is_taken(id)).expect("numbers do not end")
}

#[cfg(test)]
mod tests {
    use host_onnx::messages;

    use super::*;

    #[test]
    fn a_manifest_of_a_few_words_is_read_as_it_is_meant() {
        let folder = tempfile::tempdir().expect("a folder");
        let model = |name: &str| {
            let path = folder.path().join(name);
            let digits = concat!(env!("CARGO_MANIFEST_DIR"), "/../../manifests/data/digits.onnx");
            std::fs::copy(digits, &path).expect("a file");
            path
        };
        let quick = Quick {
            models: vec![model("a \"b\".onnx"), model("-é.onnx"), model("a-'b'.onnx")],
            backends: vec!["cpu".into(), "openvino".into()],
            matrix: BTreeMap::from([
                ("batch".into(), vec!["1".into(), "8".into()]),
                ("scenario".into(), vec!["offline".into()]),
            ]),
            metrics: vec!["latency".into()],
            duration: Some("2s".into()),
            processes: Some(3),
            memory_limit: Some(2 << 30),
            ..Quick::default()
        };
        let text = quick.manifest().expect("a manifest").text;
        let experiment = host_manifest::parse(&text).expect("it is right");
        let ids: Vec<_> = experiment.models.iter().map(|model| model.id.as_str()).collect();
        assert_eq!(ids, ["a--b-", "model", "a--b--2"]);
        assert_eq!(experiment.measure.memory_limit_bytes, Some(2 << 30));
        let values = |axis: &str| -> Vec<String> {
            let document: toml::Table = text.parse().expect("TOML");
            let values = document["matrix"][axis].as_array().expect("a list");
            values.iter().map(ToString::to_string).collect()
        };
        assert_eq!(values("batch"), ["1", "8"]);
        assert_eq!(values("scenario"), ["\"offline\""]);
        let nothing = Quick { models: vec![model("m.onnx")], ..Quick::default() };
        host_manifest::parse(&nothing.manifest().expect("a manifest").text).expect("it is right");
    }

    #[test]
    fn a_model_that_is_no_file_is_named() {
        let quick = Quick { models: vec!["absent.onnx".into()], ..Quick::default() };
        let error = quick.manifest().expect_err("nothing is there").to_string();
        assert_eq!(error, "cannot read absent.onnx");
    }

    #[test]
    fn architectures_and_categories_are_models_and_each_is_one_once() {
        let words = ["audio", "whisper_tiny", "gpt2:layers=2", "gpt2"].map(PathBuf::from);
        let quick = Quick { models: words.into(), limit: Some(3), ..Quick::default() };
        let QuickManifest { name, text } = quick.manifest().expect("a manifest");
        assert_eq!(name, "whisper_tiny");
        let experiment = host_manifest::parse(&text).expect("it is right");
        let models: Vec<_> = (experiment.models.iter())
            .map(|model| (model.id.as_str(), model.architecture.as_deref().unwrap_or_default()))
            .collect();
        let expected = [
            ("whisper_tiny", "whisper_tiny"),
            ("gpt2-layers-2", "gpt2:layers=2"),
            ("gpt2", "gpt2"),
        ];
        assert_eq!(models, expected);
        assert_eq!(experiment.matrix.limit, Some(3));
    }

    #[test]
    fn a_word_that_stands_for_nothing_suggests_the_nearest_architecture() {
        let error = |word: &str| {
            let quick = Quick { models: vec![word.into()], ..Quick::default() };
            quick.manifest().expect_err("there is none")
        };
        let unknown = error("restnet50");
        assert_eq!(unknown.to_string(), "`restnet50` is neither a file nor an architecture");
        let hint = crate::Hint::Text("did you mean `resnet50`?".into());
        assert_eq!(unknown.hint(), Some(hint));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notes.onnx");
        std::fs::write(&path, "not a model").expect("a file");
        let told = error(path.to_str().expect("UTF-8")).to_string();
        assert!(told.contains("notes.onnx is not an ONNX model"), "{told}");
        let broken = messages::Node {
            operator: "Relu".into(),
            inputs: vec!["absent".into()],
            outputs: vec!["y".into()],
            ..messages::Node::default()
        };
        let graph = messages::Graph { nodes: vec![broken], ..messages::Graph::default() };
        let model = messages::Model { graph: Some(graph), ..messages::Model::default() };
        std::fs::write(&path, host_onnx::Model::to_bytes(&model)).expect("a file");
        let told = error(path.to_str().expect("UTF-8")).to_string();
        assert!(
            told.ends_with("is broken: a node `Relu` reads `absent`, which nothing makes"),
            "{told}"
        );
        let size = error("gpt2:layer=2");
        assert_eq!(size.to_string(), "`gpt2` has no size `layer`");
    }

    #[test]
    fn the_metric_model_brings_the_throughput_that_it_needs() {
        let metrics = |ids: &[&str]| {
            let metrics = ids.iter().map(|id| (*id).to_owned()).collect();
            let quick = Quick { metrics, ..Quick::default() };
            quick.metrics().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(metrics(&["model"]), ["model", "throughput"]);
        assert_eq!(metrics(&["throughput", "model"]), ["throughput", "model"]);
        assert_eq!(metrics(&["latency"]), ["latency"]);
    }
}
