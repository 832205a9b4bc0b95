/*!
Facts about a model's ONNX file, read without its weights.

A file of gigabytes is read in milliseconds: messages are decoded from a buffer over the file that skips the
values of weights by seeking. Weights in other files are found and measured, and not opened.
*/

mod cost;
mod element;
mod messages;
mod skipping;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use host_record::{ModelCost, Weights};
use prost::Message;
use prost::bytes::Buf;
use serde::Serialize;

use crate::element::element;
use crate::skipping::SkippingFile;

/// Why a file cannot be read as a model.
#[derive(Debug, thiserror::Error)]
pub enum OnnxError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The file is not an ONNX model.
    #[error("{} is not an ONNX model: {reason}", path.display())]
    NotAModel {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// Facts about a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Facts {
    /// Version of the file format.
    pub ir_version: i64,
    /// The program that wrote the file, and its version; possibly empty.
    pub producer: String,
    /// Sets of operators by domain, with their versions; the default one is `ai.onnx`.
    pub opsets: BTreeMap<String, i64>,
    /// Notes of the author, by key.
    pub metadata: BTreeMap<String, String>,
    /// Inputs without those that have weights.
    pub inputs: Vec<Value>,
    /// Outputs.
    pub outputs: Vec<Value>,
    /// Operators and how often they are used, in all graphs. One of another domain has it before a dot.
    pub operators: BTreeMap<String, u64>,
    /// Weights by element type.
    pub weights: BTreeMap<String, Weights>,
    /// The files that hold weights, relative to the model's folder.
    pub files: Vec<WeightsFile>,
    /// Inputs that are rows of a table, with the number of its rows.
    pub tables: BTreeMap<String, u64>,
}

/// An input or output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Value {
    /// Its name.
    pub name: String,
    /// Its element type; `None` if it is not a tensor.
    pub element: Option<String>,
    /// Its axes; `None` if even their number is open.
    pub axes: Option<Vec<Axis>>,
}

/// An axis of an input or output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Axis {
    /// A fixed size.
    Fixed(u64),
    /// An open one, by its name, which may be empty.
    Open(String),
}

/// A file of weights beside the model's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct WeightsFile {
    /// Its place, as the model names it.
    pub location: String,
    /// Bytes that it must have.
    pub needed: u64,
    /// Bytes that it has; `None` if it is missing.
    pub found: Option<u64>,
}

/// A model's file without its weights.
#[derive(Debug, Clone)]
pub struct Model {
    /// Facts about it.
    pub facts: Facts,
    graph: messages::Graph,
}

impl Model {
    /// Reads a file, without its weights.
    ///
    /// # Errors
    ///
    /// If it cannot be read or is not an ONNX model.
    pub fn read(path: &Path) -> Result<Self, OnnxError> {
        let cannot = |source| OnnxError::Read { path: path.to_owned(), source };
        let mut file = SkippingFile::new(File::open(path).map_err(cannot)?).map_err(cannot)?;
        let decoded = messages::Model::decode(&mut file);
        if let Some(error) = file.error {
            return Err(cannot(error));
        }
        let wrong = |reason: String| OnnxError::NotAModel { path: path.to_owned(), reason };
        let model = decoded.map_err(|error| wrong(error.to_string()))?;
        let mut model = Self::of(model).ok_or_else(|| wrong("it has no graph".into()))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for file in &mut model.facts.files {
            file.found = folder.join(&file.location).metadata().ok().map(|found| found.len());
        }
        Ok(model)
    }

    /// Returns the model in the bytes of a file, or nothing if it is not an ONNX model. Other files are not
    /// looked for.
    #[must_use]
    pub fn of_bytes(bytes: impl Buf) -> Option<Self> {
        Self::of(messages::Model::decode(bytes).ok()?)
    }

    fn of(mut model: messages::Model) -> Option<Self> {
        let graph = model.graph.take()?;
        Some(Self { facts: Facts::of(&model, &graph), graph })
    }

    /// Returns the cost of one pass, for inputs of these shapes, by name. What cannot be counted is a gap.
    #[must_use]
    pub fn cost(&self, shapes: &BTreeMap<String, Vec<u64>>) -> ModelCost {
        cost::of(&self.graph, shapes)
    }
}

impl Facts {
    /// Reads a file, without its weights.
    ///
    /// # Errors
    ///
    /// If it cannot be read or is not an ONNX model.
    pub fn read(path: &Path) -> Result<Self, OnnxError> {
        Model::read(path).map(|model| model.facts)
    }

    fn of(model: &messages::Model, graph: &messages::Graph) -> Self {
        let mut all = Collected::default();
        all.graph(graph);
        for function in &model.functions {
            all.nodes(&function.nodes);
        }
        let initialized: BTreeSet<_> =
            graph.initializers.iter().map(|tensor| tensor.name.as_str()).collect();
        let inputs = graph.inputs.iter().filter(|input| !initialized.contains(input.name.as_str()));
        let producer = format!("{} {}", model.producer_name, model.producer_version);
        let opsets = model.opset_import.iter().map(|set| (domain(&set.domain), set.version));
        Self {
            ir_version: model.ir_version,
            producer: producer.trim().to_owned(),
            opsets: opsets.collect(),
            metadata: model.metadata.iter().map(|it| (it.key.clone(), it.value.clone())).collect(),
            inputs: inputs.map(value).collect(),
            outputs: graph.outputs.iter().map(value).collect(),
            operators: all.operators,
            weights: all.weights,
            files: (all.files.into_iter())
                .map(|(location, needed)| WeightsFile { location, needed, found: None })
                .collect(),
            tables: tables(graph),
        }
    }

    /// Returns the number of parameters: that which an architecture of this tool states, or else the elements of
    /// all floating-point weights.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        if let Some(stated) = self.metadata.get("tare.parameters").and_then(|it| it.parse().ok()) {
            return stated;
        }
        let floats = ["fp32", "fp16", "bf16", "fp64"].map(|name| self.weights.get(name));
        floats.into_iter().flatten().map(|weights| weights.elements).sum()
    }
}

/// Collects from graphs within graphs.
#[derive(Default)]
struct Collected {
    operators: BTreeMap<String, u64>,
    weights: BTreeMap<String, Weights>,
    files: BTreeMap<String, u64>,
}

impl Collected {
    fn graph(&mut self, graph: &messages::Graph) {
        graph.initializers.iter().for_each(|tensor| self.tensor(tensor));
        self.nodes(&graph.nodes);
    }

    fn nodes(&mut self, nodes: &[messages::Node]) {
        for node in nodes {
            *self.operators.entry(operator(node)).or_default() += 1;
            for attribute in &node.attributes {
                attribute.tensor.iter().chain(&attribute.tensors).for_each(|it| self.tensor(it));
                attribute.graph.iter().chain(&attribute.graphs).for_each(|it| self.graph(it));
            }
        }
    }

    fn tensor(&mut self, tensor: &messages::Tensor) {
        let (name, bits) = element(tensor.element);
        let sizes = tensor.sizes.iter().map(|size| u64::try_from(*size).unwrap_or(0));
        let elements = sizes.fold(1_u64, u64::saturating_mul);
        let weights = self.weights.entry(name.to_owned()).or_default();
        weights.tensors += 1;
        weights.elements = weights.elements.saturating_add(elements);
        let bytes = elements.saturating_mul(bits).div_ceil(8);
        weights.bytes = weights.bytes.saturating_add(bytes);
        if tensor.location != 1 {
            return;
        }
        let entry = |key: &str| tensor.external.iter().find(|entry| entry.key == key);
        let number = |key| entry(key).and_then(|entry| entry.value.parse::<u64>().ok());
        if let Some(location) = entry("location") {
            let end =
                number("offset").unwrap_or(0).saturating_add(number("length").unwrap_or(bytes));
            let needed = self.files.entry(location.value.clone()).or_default();
            *needed = (*needed).max(end);
        }
    }
}

/// The domain of the standard's operators.
const DEFAULT: &str = "ai.onnx";

fn domain(name: &str) -> String {
    if name.is_empty() { DEFAULT } else { name }.to_owned()
}

/// Returns an operator's name. One of another domain than the standard's has it before a dot.
fn operator(node: &messages::Node) -> String {
    match domain(&node.domain).as_str() {
        DEFAULT => node.operator.clone(),
        domain => format!("{domain}.{}", node.operator),
    }
}

fn value(info: &messages::ValueInfo) -> Value {
    let tensor = info.kind.as_ref().and_then(|kind| kind.tensor.as_ref());
    let axis = |dimension: &messages::Dimension| match dimension.size {
        Some(size) if size >= 0 => Axis::Fixed(size.unsigned_abs()),
        _ => Axis::Open(dimension.name.clone().unwrap_or_default()),
    };
    Value {
        name: info.name.clone(),
        element: tensor.map(|tensor| element(tensor.element).0.to_owned()),
        axes: tensor
            .and_then(|tensor| tensor.shape.as_ref())
            .map(|shape| shape.dimensions.iter().map(axis).collect()),
    }
}

/// Returns the inputs that `Gather` takes as rows of a table among the weights, straight or converted.
fn tables(graph: &messages::Graph) -> BTreeMap<String, u64> {
    let rows: BTreeMap<&str, i64> = (graph.initializers.iter())
        .filter_map(|tensor| Some((tensor.name.as_str(), *tensor.sizes.first()?)))
        .collect();
    let mut origin: BTreeMap<&str, &str> =
        graph.inputs.iter().map(|input| (input.name.as_str(), input.name.as_str())).collect();
    let mut tables: BTreeMap<String, u64> = BTreeMap::new();
    for node in &graph.nodes {
        let input = |index: usize| node.inputs.get(index).map(String::as_str);
        match node.operator.as_str() {
            "Cast" | "Identity" | "Reshape" | "Squeeze" | "Unsqueeze" => {
                let from = input(0).and_then(|name| origin.get(name).copied());
                if let (Some(from), Some(output)) = (from, node.outputs.first()) {
                    origin.insert(output, from);
                }
            }
            "Gather" => {
                let table = input(0).and_then(|name| rows.get(name).copied());
                let from = input(1).and_then(|name| origin.get(name).copied());
                if let (Some(count), Some(from)) =
                    (table.and_then(|it| u64::try_from(it).ok()), from)
                {
                    // Of two tables the shorter one decides.
                    let known = tables.entry(from.to_owned()).or_insert(count);
                    *known = (*known).min(count);
                }
            }
            _ => {}
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/data/digits.onnx")
    }

    #[test]
    fn the_digits_model_is_described() {
        let facts = Facts::read(&digits()).expect("a model");
        let open = || Axis::Open("batch".into());
        let fixed = Axis::Fixed;
        assert_eq!(facts.inputs.len(), 1);
        assert_eq!(facts.inputs[0].name, "image");
        assert_eq!(facts.inputs[0].element.as_deref(), Some("fp32"));
        assert_eq!(facts.inputs[0].axes, Some(vec![open(), fixed(1), fixed(8), fixed(8)]));
        assert_eq!(facts.outputs[0].axes, Some(vec![open(), fixed(10)]));
        assert!(facts.operators.contains_key("Conv"), "{:?}", facts.operators);
        assert!(facts.parameters() > 100 && facts.files.is_empty());
        let bytes = std::fs::read(digits()).expect("a file");
        assert_eq!(Model::of_bytes(&bytes[..]).expect("a model").facts, facts);
    }

    #[test]
    fn a_file_that_is_not_a_model_is_refused_with_a_reason() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("m.onnx");
        let told = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("the folder is writable");
            Facts::read(&path).expect_err("not a model").to_string()
        };
        assert!(told(b"").ends_with("m.onnx is not an ONNX model: it has no graph"));
        assert!(told(b"just some text").contains("m.onnx is not an ONNX model"));
        let whole = std::fs::read(digits()).expect("a file");
        assert!(told(&whole[..whole.len() / 2]).contains("m.onnx is not an ONNX model"));
        let missing = Facts::read(&folder.path().join("absent.onnx")).expect_err("not there");
        assert!(matches!(missing, OnnxError::Read { .. }));
    }

    /// A tensor with values that span many pieces, between two small messages.
    #[test]
    fn values_of_weights_are_skipped_and_what_follows_them_is_read() {
        #[derive(Clone, PartialEq, prost::Message)]
        struct Model {
            #[prost(message, optional, tag = "7")]
            graph: Option<Graph>,
        }
        #[derive(Clone, PartialEq, prost::Message)]
        struct Graph {
            #[prost(message, repeated, tag = "1")]
            nodes: Vec<messages::Node>,
            #[prost(message, repeated, tag = "5")]
            initializers: Vec<Tensor>,
            #[prost(message, repeated, tag = "11")]
            inputs: Vec<messages::ValueInfo>,
        }
        #[derive(Clone, PartialEq, prost::Message)]
        struct Tensor {
            #[prost(int64, repeated, tag = "1")]
            sizes: Vec<i64>,
            #[prost(int32, tag = "2")]
            element: i32,
            #[prost(string, tag = "8")]
            name: String,
            #[prost(bytes = "vec", tag = "9")]
            raw: Vec<u8>,
        }
        let (rows, width) = (1000, 300);
        let node = messages::Node {
            inputs: vec!["table".into(), "ids".into()],
            operator: "Gather".into(),
            ..messages::Node::default()
        };
        let tensor = Tensor {
            sizes: vec![rows, width],
            element: 1,
            name: "table".into(),
            raw: vec![0xff; (rows * width * 4) as usize],
        };
        let ids = messages::ValueInfo { name: "ids".into(), kind: None };
        let graph = Graph { nodes: vec![node], initializers: vec![tensor], inputs: vec![ids] };
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("m.onnx");
        std::fs::write(&path, Model { graph: Some(graph) }.encode_to_vec()).expect("writable");
        let facts = Facts::read(&path).expect("a model");
        let weights = Weights { tensors: 1, elements: 300_000, bytes: 1_200_000 };
        assert_eq!(facts.weights, [("fp32".to_owned(), weights)].into());
        assert_eq!(facts.tables, [("ids".to_owned(), 1000)].into());
        assert_eq!(facts.operators, [("Gather".to_owned(), 1)].into());
    }
}
