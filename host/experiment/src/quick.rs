//! A manifest from a few words: models, and what to vary.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Serialize;
use toml::Value;

use crate::error::{Error, Result};

/// The words. An empty list leaves a key out, so that the manifest's default holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quick {
    /// Files of models.
    pub models: Vec<PathBuf>,
    /// Ids of backends; `all` is every installed one.
    pub backends: Vec<String>,
    /// Ids of devices, for every backend.
    pub devices: Vec<String>,
    /// Values of each axis of the matrix, by its key in a manifest. Whole numbers are numbers there.
    pub matrix: BTreeMap<String, Vec<String>>,
    /// Ids of metric plugins.
    pub metrics: Vec<String>,
    /// The time to measure each case, such as `5s`.
    pub duration: Option<String>,
    /// Processes of each case.
    pub processes: Option<u32>,
}

#[derive(Serialize)]
struct Manifest<'a> {
    schema: u32,
    experiment: Experiment,
    model: Vec<Model>,
    backend: Vec<Backend<'a>>,
    matrix: BTreeMap<&'a str, Vec<Value>>,
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
struct Model {
    id: String,
    path: String,
}

#[derive(Serialize)]
struct Backend<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    device: &'a [String],
}

#[derive(Serialize)]
struct Measure<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<u32>,
}

#[derive(Serialize)]
struct Plugin<'a> {
    plugin: &'a str,
}

impl Quick {
    /// Returns the name of the experiment: that of the first model.
    #[must_use]
    pub fn name(&self) -> String {
        self.ids().into_iter().next().unwrap_or_else(|| "bench".into())
    }

    /// Returns a manifest. Paths in it are absolute, so it can lie anywhere.
    ///
    /// # Errors
    ///
    /// If a model is not a file, or its path is not UTF-8.
    pub fn manifest(&self) -> Result<String> {
        let paths = self.models.iter().map(|model| {
            let path =
                std::path::absolute(model).map_err(|error| Error::io("find", model, error))?;
            let found = path.metadata().map_err(|error| Error::io("read", model, error))?;
            if !found.is_file() {
                let error = std::io::Error::other("it is not a file");
                return Err(Error::io("read", model, error));
            }
            path.into_os_string()
                .into_string()
                .map_err(|_| Error::FolderName { path: model.clone() })
        });
        let paths = paths.collect::<Result<Vec<_>>>()?;
        let model =
            self.ids().into_iter().zip(paths).map(|(id, path)| Model { id, path }).collect();
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
            experiment: Experiment { name: self.name() },
            model,
            backend: backends.iter().map(|id| Backend { id, device: &self.devices }).collect(),
            matrix,
            measure: Measure { duration: self.duration.as_deref(), processes: self.processes },
            metric: self.metrics.iter().map(|plugin| Plugin { plugin }).collect(),
            recommend: vec![Plugin { plugin: "hardware" }],
        };
        Ok(toml::to_string(&manifest).expect("texts, numbers and lists are TOML"))
    }

    /// Returns an id for each model, made of its file's name.
    fn ids(&self) -> Vec<String> {
        let mut taken = BTreeSet::new();
        let ids = self.models.iter().map(|model| {
            let stem = model.file_stem().unwrap_or_default().to_string_lossy();
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
            let id: String = stem.chars().map(|c| if fits(c) { c } else { '-' }).take(60).collect();
            let id = match id.trim_start_matches(|c: char| !c.is_ascii_alphanumeric()) {
                "" => "model".to_owned(),
                id => id.to_owned(),
            };
            let numbered = (2..).map(|number| format!("{id}-{number}"));
            let mut free = std::iter::once(id.clone()).chain(numbered);
            let id = free.find(|id| !taken.contains(id)).expect("numbers do not end");
            taken.insert(id.clone());
            id
        });
        ids.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_of_a_few_words_is_read_as_it_is_meant() {
        let folder = tempfile::tempdir().expect("a folder");
        let model = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, "").expect("a file");
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
            ..Quick::default()
        };
        let text = quick.manifest().expect("a manifest");
        let experiment = host_manifest::parse(&text).expect("it is right");
        let ids: Vec<_> = experiment.models.iter().map(|model| model.id.as_str()).collect();
        assert_eq!(ids, ["a--b-", "model", "a--b--2"]);
        let values = |axis: &str| -> Vec<String> {
            let document: toml::Table = text.parse().expect("TOML");
            let values = document["matrix"][axis].as_array().expect("a list");
            values.iter().map(ToString::to_string).collect()
        };
        assert_eq!(values("batch"), ["1", "8"]);
        assert_eq!(values("scenario"), ["\"offline\""]);
        let nothing = Quick { models: vec![model("m.onnx")], ..Quick::default() };
        host_manifest::parse(&nothing.manifest().expect("a manifest")).expect("it is right");
    }

    #[test]
    fn a_model_that_is_no_file_is_named() {
        let quick = Quick { models: vec!["absent.onnx".into()], ..Quick::default() };
        let error = quick.manifest().expect_err("nothing is there").to_string();
        assert_eq!(error, "cannot read absent.onnx");
    }
}
