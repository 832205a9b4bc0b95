/*!
ONNX files: their messages, facts about a model without its weights, and the bytes of a file to write.

A file of gigabytes is read in milliseconds: messages are decoded from a buffer over the file that skips the
values of weights by seeking. No byte string may reach beyond the message around it, so a damaged file is found here,
before an engine sees it. Weights in other files are found and measured, and not opened.
*/

mod cost;
mod element;
mod external;
mod flaws;
mod inline;
mod legal;
pub mod messages;
mod names;
mod parameters;
mod skipping;
mod tensor;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use host_record::{LegalValues, ModelCost, ModelStructure, Port, PortAxis, Signature, Weights};
use prost::Message;
use prost::bytes::Buf;
use serde::Serialize;

use crate::element::element;
use crate::names::{domain, operator};
use crate::skipping::SkippingFile;
pub use crate::value::{Kind, Value};

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
    /// Its graph contradicts itself.
    #[error("{} is broken: {flaw}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// The contradiction.
        flaw: String,
    },
    /// A file with its weights is missing, truncated or out of its folder.
    #[error("{}: {error}", path.display())]
    Weights {
        /// The model's file.
        path: PathBuf,
        /// Why.
        error: io::Error,
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
    /// The first contradiction within the graph, in one sentence, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flaw: Option<String>,
    /// Whether a convolution or a pooling lacks attributes for which the format has defaults, such as `strides`.
    #[serde(skip)]
    pub lacks_attributes: bool,
    /// Whether weights in another file lack the place where they begin, or their length. The format has defaults for
    /// both: the beginning of the file, and the size of the weights.
    #[serde(skip)]
    pub lacks_places: bool,
    /// Parameters as counted, for a file that does not state them.
    #[serde(skip)]
    counted: u64,
    /// Legal values of inputs, by name, as far as the graph tells them.
    pub legal: BTreeMap<String, LegalValues>,
    /// Element types of all weights and values.
    #[serde(skip)]
    pub elements: BTreeSet<String>,
}

/// Operators that compute with integers in the place of floats.
const QUANTISED: &[&str] = &[
    "ConvInteger",
    "DequantizeLinear",
    "DynamicQuantizeLSTM",
    "DynamicQuantizeMatMul",
    "MatMulInteger",
    "QAttention",
    "QGemm",
    "QLinearConv",
    "QLinearMatMul",
];

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
        let file = File::open(path).map_err(cannot)?;
        if !file.metadata().map_err(cannot)?.is_file() {
            return Err(cannot(io::Error::other("it is not a file")));
        }
        let mut file = SkippingFile::new(file).map_err(cannot)?;
        let decoded = messages::Model::decode(&mut file);
        if let Some(error) = file.error {
            return Err(cannot(error));
        }
        let wrong = |reason: String| OnnxError::NotAModel { path: path.to_owned(), reason };
        let model =
            decoded.map_err(|error| wrong(format!("it is damaged or truncated: {error}")))?;
        let mut model = Self::of(model).ok_or_else(|| wrong("it has no graph".into()))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for file in &mut model.facts.files {
            if !external::is_below(&file.location) {
                continue;
            }
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
        let mut graph = model.graph.take()?;
        let mut facts = Facts::of(&model, &graph);
        graph.nodes = inline::inlined(graph.nodes, &model.functions);
        facts.legal = legal::of(&graph, &facts.inputs);
        Some(Self { facts, graph })
    }

    /// Returns the bytes of a file.
    #[must_use]
    pub fn to_bytes(model: &messages::Model) -> Vec<u8> {
        model.encode_to_vec()
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
        all.elements.remove(UNDEFINED);
        let initialized: BTreeSet<_> =
            graph.initializers.iter().map(|tensor| tensor.name.as_str()).collect();
        let inputs = graph.inputs.iter().filter(|input| !initialized.contains(input.name.as_str()));
        let producer = format!("{} {}", model.producer_name, model.producer_version);
        let opsets = model.opset_import.iter();
        let opsets = opsets.map(|set| (domain(set.domain.as_deref().unwrap_or("")), set.version));
        let inputs: Vec<_> = inputs.map(value).collect();
        Self {
            ir_version: model.ir_version,
            producer: producer.trim().to_owned(),
            opsets: opsets.collect(),
            metadata: model.metadata.iter().map(|it| (it.key.clone(), it.value.clone())).collect(),
            legal: BTreeMap::new(),
            flaw: flaws::of(model, graph),
            lacks_attributes: all.lacks_attributes,
            inputs,
            outputs: graph.outputs.iter().map(value).collect(),
            operators: all.operators,
            weights: all.weights,
            files: (all.files.into_iter())
                .map(|(location, needed)| WeightsFile { location, needed, found: None })
                .collect(),
            lacks_places: all.lacks_places,
            counted: parameters::of(model, graph),
            elements: all.elements,
        }
    }

    /// Returns inputs, outputs, files of weights and legal values, as a plan takes them.
    #[must_use]
    pub fn structure(&self) -> ModelStructure {
        let ports = |values: &[Value]| {
            let port = |value: &Value| Port { name: value.name.clone(), axes: value.axes.clone() };
            values.iter().map(port).collect()
        };
        let values = || self.inputs.iter().chain(&self.outputs);
        let of_element =
            |value: &Value| Some((value.name.clone(), element::bits(value.element.as_deref()?)?));
        let is_truth = |value: &&Value| value.element.as_deref() == Some("bool");
        ModelStructure {
            element_bits: values().filter_map(of_element).collect(),
            truth_values: values().filter(is_truth).map(|value| value.name.clone()).collect(),
            signature: Some(Signature {
                inputs: ports(&self.inputs),
                outputs: ports(&self.outputs),
            }),
            weights: self.files.iter().map(|file| file.location.clone()).collect(),
            weights_bytes: Some(self.weights.values().map(|weights| weights.bytes).sum()),
            values: self.legal.clone(),
        }
    }

    /// Checks whether a model can be loaded, as far as the file tells: its graph does not contradict itself, and the
    /// files with its weights lie in its folder and are long enough.
    ///
    /// # Errors
    ///
    /// The first reason why it cannot.
    pub fn check(&self, model: &Path) -> Result<(), OnnxError> {
        if let Some(flaw) = &self.flaw {
            return Err(OnnxError::Broken { path: model.to_owned(), flaw: flaw.clone() });
        }
        self.files.iter().try_for_each(|file| {
            external::check(model, &file.location, file.needed)
                .map_err(|error| OnnxError::Weights { path: model.to_owned(), error })
        })
    }

    /// Returns the precision of an engine that uses the model's own types: `int8` for a
    /// quantised model, else that of most of its floating-point weights, or of its values if it
    /// has no such weights. A model without floating-point numbers has none.
    #[must_use]
    pub fn precision(&self) -> Option<&'static str> {
        let name = |operator: &String| operator.rsplit('.').next().unwrap_or_default().to_owned();
        if self.operators.keys().any(|operator| QUANTISED.contains(&name(operator).as_str())) {
            return Some("int8");
        }
        const FLOATS: [&str; 4] = ["fp32", "fp16", "bf16", "fp64"];
        let elements = |name: &&str| self.weights.get(*name).map_or(0, |weights| weights.elements);
        let heaviest = FLOATS.into_iter().rev().max_by_key(elements);
        let heaviest = heaviest.filter(|name| elements(name) > 0);
        heaviest.or_else(|| FLOATS.into_iter().find(|name| self.elements.contains(*name)))
    }

    /// Returns the number of parameters: that which an architecture of this tool states, or else the elements of
    /// all floating-point weights and of the integers that stand for some.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        let stated = self.metadata.get("tare.parameters").and_then(|it| it.parse().ok());
        stated.unwrap_or(self.counted)
    }
}

/// Collects from graphs within graphs.
#[derive(Default)]
struct Collected {
    operators: BTreeMap<String, u64>,
    weights: BTreeMap<String, Weights>,
    files: BTreeMap<String, u64>,
    lacks_places: bool,
    lacks_attributes: bool,
    elements: BTreeSet<String>,
}

/// Operators over windows, and whether the rank of the window follows from their weights. Pooling has to state it.
const WINDOWS: &[(&str, bool)] = &[
    ("AveragePool", false),
    ("Conv", true),
    ("ConvInteger", true),
    ("ConvTranspose", true),
    ("LpPool", false),
    ("MaxPool", false),
];

/// Returns whether an operator over windows leaves attributes to the defaults of the format.
fn lacks_attributes(node: &messages::Node) -> bool {
    let has = |name: &str| node.attributes.iter().any(|attribute| attribute.name == name);
    let window = WINDOWS.iter().find(|(operator, _)| *operator == node.operator);
    match window.filter(|_| matches!(node.domain.as_str(), "" | "ai.onnx")) {
        Some((_, true)) => {
            !has("kernel_shape") && !["strides", "dilations", "pads"].into_iter().all(has)
        }
        Some((_, false)) => !has("strides"),
        None => false,
    }
}

impl Collected {
    fn graph(&mut self, graph: &messages::Graph) {
        let values = graph.inputs.iter().chain(&graph.outputs).chain(&graph.values);
        let tensors = values.filter_map(|value| value.kind.as_ref()?.tensor.as_ref());
        self.elements.extend(tensors.map(|tensor| element(tensor.element).0.to_owned()));
        graph.initializers.iter().for_each(|tensor| self.tensor(tensor));
        graph.sparse_initializers.iter().for_each(|tensor| self.sparse(tensor));
        self.nodes(&graph.nodes);
    }

    fn sparse(&mut self, tensor: &messages::SparseTensor) {
        tensor.values.iter().chain(&tensor.indices).for_each(|tensor| self.tensor(tensor));
    }

    fn nodes(&mut self, nodes: &[messages::Node]) {
        for node in nodes {
            *self.operators.entry(operator(node)).or_default() += 1;
            self.lacks_attributes |= lacks_attributes(node);
            for attribute in &node.attributes {
                attribute.sparse.iter().for_each(|tensor| self.sparse(tensor));
                attribute.tensor.iter().chain(&attribute.tensors).for_each(|it| self.tensor(it));
                attribute.graph.iter().chain(&attribute.graphs).for_each(|it| self.graph(it));
            }
        }
    }

    fn tensor(&mut self, tensor: &messages::Tensor) {
        let (name, bits) = element(tensor.element);
        let sizes = tensor.sizes.iter().map(|size| u64::try_from(*size).unwrap_or(0));
        let elements = sizes.fold(1_u64, u64::saturating_mul);
        self.elements.insert(name.to_owned());
        let weights = self.weights.entry(name.to_owned()).or_default();
        weights.tensors += 1;
        weights.elements = weights.elements.saturating_add(elements);
        let bytes = elements.saturating_mul(bits).div_ceil(8);
        weights.bytes = weights.bytes.saturating_add(bytes);
        if !tensor.is_external() {
            return;
        }
        let number = |key| tensor.place(key).and_then(|value| value.parse::<u64>().ok());
        if let Some(location) = tensor.place("location") {
            let (offset, length) = (number("offset"), number("length"));
            self.lacks_places |= offset.is_none() || length.is_none();
            let end = offset.unwrap_or(0).saturating_add(length.unwrap_or(bytes));
            let needed = self.files.entry(location.to_owned()).or_default();
            *needed = (*needed).max(end);
        }
    }
}

/// The name of an element type that the format does not know.
const UNDEFINED: &str = "unknown";

fn value(info: &messages::ValueInfo) -> Value {
    let tensor = info.kind.as_ref().and_then(|kind| kind.tensor.as_ref());
    let axis = |dimension: &messages::Dimension| match (dimension.size, &dimension.name) {
        (Some(size @ 0..), _) => PortAxis::Fixed(size.unsigned_abs()),
        // Exporters write `?` for an axis without a name, and axes of one name have one size.
        (_, Some(name)) if name != "?" => PortAxis::Dynamic(name.clone()),
        _ => PortAxis::Dynamic(String::new()),
    };
    let kind = match &info.kind {
        Some(messages::Type { sequence: Some(_), .. }) => Kind::Sequence,
        Some(messages::Type { map: Some(_), .. }) => Kind::Map,
        Some(it) if it.opaque.is_some() || it.sparse.is_some() || it.optional.is_some() => {
            Kind::Other
        }
        _ => Kind::Tensor,
    };
    Value {
        kind,
        name: info.name.clone(),
        element: tensor.map(|tensor| element(tensor.element).0.to_owned()),
        axes: tensor
            .and_then(|tensor| tensor.shape.as_ref())
            .map(|shape| shape.dimensions.iter().map(axis).collect()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn digits() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/data/digits.onnx")
    }

    #[test]
    fn the_digits_model_is_described() {
        let facts = Facts::read(&digits()).expect("a model");
        let open = || PortAxis::Dynamic("batch".into());
        let fixed = PortAxis::Fixed;
        assert_eq!(facts.inputs.len(), 1);
        assert_eq!(facts.inputs[0].name, "image");
        assert_eq!(facts.inputs[0].element.as_deref(), Some("fp32"));
        assert_eq!(facts.inputs[0].axes, Some(vec![open(), fixed(1), fixed(8), fixed(8)]));
        assert_eq!(facts.outputs[0].axes, Some(vec![open(), fixed(10)]));
        assert!(facts.operators.contains_key("Conv"), "{:?}", facts.operators);
        assert!(facts.parameters() > 100 && facts.files.is_empty());
        assert_eq!(facts.precision(), Some("fp32"));
        assert!(facts.elements.contains("fp32"), "{:?}", facts.elements);
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
        let (rows, width) = (1000, 300);
        let node = messages::Node {
            inputs: vec!["table".into(), "ids".into()],
            operator: "Gather".into(),
            ..messages::Node::default()
        };
        let tensor = messages::Tensor {
            sizes: vec![rows, width],
            element: 1,
            name: "table".into(),
            raw: Some(vec![0xff; (rows * width * 4) as usize].into()),
            ..messages::Tensor::default()
        };
        let facts = read(&of_graph(messages::Graph {
            nodes: vec![node],
            initializers: vec![tensor],
            inputs: vec![input("ids", INT64)],
            ..messages::Graph::default()
        }));
        let weights = Weights { tensors: 1, elements: 300_000, bytes: 1_200_000 };
        assert_eq!(facts.weights, [("fp32".to_owned(), weights)].into());
        let index = LegalValues::Index { entries: 1000, operator: "Gather".into() };
        assert_eq!(facts.legal, [("ids".to_owned(), index)].into());
        assert_eq!(facts.operators, [("Gather".to_owned(), 1)].into());
    }

    const FLOAT: i32 = 1;
    const INT64: i32 = 7;
    const FLOAT16: i32 = 10;
    const BFLOAT16: i32 = 16;

    fn of_graph(graph: messages::Graph) -> Vec<u8> {
        Model::to_bytes(&messages::Model { graph: Some(graph), ..messages::Model::default() })
    }

    fn read(bytes: &[u8]) -> Facts {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("m.onnx");
        std::fs::write(&path, bytes).expect("writable");
        Facts::read(&path).expect("a model")
    }

    fn input(name: &str, element: i32) -> messages::ValueInfo {
        let tensor = Some(messages::TensorType { element, shape: None });
        let kind = Some(messages::Type { tensor, ..messages::Type::default() });
        messages::ValueInfo { name: name.into(), kind }
    }

    fn weights(name: &str, element: i32, sizes: &[i64]) -> messages::Tensor {
        messages::Tensor {
            name: name.into(),
            element,
            sizes: sizes.to_vec(),
            ..messages::Tensor::default()
        }
    }

    #[test]
    fn weights_are_no_inputs() {
        let facts = read(&of_graph(messages::Graph {
            inputs: vec![input("x", FLOAT), input("w", FLOAT)],
            initializers: vec![weights("w", FLOAT, &[2])],
            ..messages::Graph::default()
        }));
        assert_eq!(facts.inputs.len(), 1);
        assert_eq!((facts.inputs[0].name.as_str(), &facts.inputs[0].axes), ("x", &None));
    }

    #[test]
    fn what_is_not_a_tensor_is_told_apart() {
        let value = |kind| messages::ValueInfo { name: "y".into(), kind: Some(kind) };
        let unread = Some(messages::Unread {});
        let outputs = vec![
            value(messages::Type { sequence: unread, ..messages::Type::default() }),
            value(messages::Type { map: unread, ..messages::Type::default() }),
            value(messages::Type { optional: unread, ..messages::Type::default() }),
            input("text", 8),
        ];
        let facts = read(&of_graph(messages::Graph { outputs, ..messages::Graph::default() }));
        let kinds: Vec<_> = facts.outputs.iter().map(|output| output.kind).collect();
        assert_eq!(kinds, [Kind::Sequence, Kind::Map, Kind::Other, Kind::Tensor]);
        assert_eq!(facts.outputs[3].element.as_deref(), Some("string"));
    }

    #[test]
    fn axes_called_by_a_question_mark_have_no_name() {
        let axis =
            |size, name: Option<&str>| messages::Dimension { size, name: name.map(str::to_owned) };
        let dimensions = vec![axis(None, Some("?")), axis(Some(-1), None), axis(Some(3), None)];
        let mut value = input("x", FLOAT);
        let kind = value.kind.as_mut().and_then(|kind| kind.tensor.as_mut());
        kind.expect("a tensor").shape = Some(messages::Shape { dimensions });
        let inputs = vec![value];
        let facts = read(&of_graph(messages::Graph { inputs, ..messages::Graph::default() }));
        let open = || PortAxis::Dynamic(String::new());
        assert_eq!(facts.inputs[0].axes, Some(vec![open(), open(), PortAxis::Fixed(3)]));
    }

    #[test]
    fn precision_is_that_of_most_weights() {
        let precision = |initializers: &[messages::Tensor], more: messages::Graph| {
            let initializers = initializers.to_vec();
            read(&of_graph(messages::Graph { initializers, ..more })).precision()
        };
        let none = messages::Graph::default;
        let half = weights("w", FLOAT16, &[64, 64]);
        let (scale, shape) = (weights("s", FLOAT, &[64]), weights("shape", INT64, &[9000]));
        let all = [half.clone(), scale.clone(), shape.clone()];
        assert_eq!(precision(&all, none()), Some("fp16"));
        assert_eq!(precision(&[scale, shape.clone()], none()), Some("fp32"));
        assert_eq!(precision(&[weights("w", BFLOAT16, &[4])], none()), Some("bf16"));
        let of_input = |element| messages::Graph { inputs: vec![input("x", element)], ..none() };
        assert_eq!(precision(std::slice::from_ref(&shape), of_input(FLOAT16)), Some("fp16"));
        assert_eq!(precision(&[shape], of_input(INT64)), None);
        let node =
            messages::Node { operator: "DequantizeLinear".into(), ..messages::Node::default() };
        let quantised = messages::Graph { nodes: vec![node], ..none() };
        assert_eq!(precision(&[half], quantised), Some("int8"));
    }

    #[test]
    fn weights_in_other_files_must_be_there_and_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, beside) = (folder.path().join("m.onnx"), folder.path().join("weights.bin"));
        let external = [("location", "weights.bin"), ("offset", "4096"), ("length", "400")];
        let tensor = messages::Tensor {
            external: external.map(|(key, value)| messages::Entry::new(key, value)).into(),
            location: Some(1),
            ..weights("w", FLOAT, &[100])
        };
        let initializers = vec![tensor];
        let model = of_graph(messages::Graph { initializers, ..messages::Graph::default() });
        std::fs::write(&path, model).expect("writable");
        let facts = Facts::read(&path).expect("a model");
        let told = || facts.check(&path).expect_err("not whole").to_string();
        assert!(told().contains("its weights are in"), "{}", told());
        std::fs::write(&beside, vec![0; 4495]).expect("writable");
        assert!(told().ends_with("weights.bin has 4495 bytes of 4496"), "{}", told());
        std::fs::write(&beside, vec![0; 4496]).expect("writable");
        facts.check(&path).expect("whole");
        assert_eq!(facts.structure().weights, ["weights.bin"]);
    }

    #[test]
    fn weights_in_other_files_may_lack_their_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, beside) = (folder.path().join("m.onnx"), folder.path().join("weights.bin"));
        std::fs::write(&beside, vec![0; 400]).expect("writable");
        let check = |places: &[(&str, u64)]| {
            let mut external = vec![messages::Entry::new("location", "weights.bin")];
            external.extend(places.iter().map(|(key, value)| messages::Entry::new(key, value)));
            let tensor =
                messages::Tensor { external, location: Some(1), ..weights("w", FLOAT, &[100]) };
            let initializers = vec![tensor];
            let model = of_graph(messages::Graph { initializers, ..messages::Graph::default() });
            std::fs::write(&path, model).expect("writable");
            let facts = Facts::read(&path).expect("a model");
            let refusal = facts.check(&path).err().map(|error| error.to_string());
            (facts.lacks_places, refusal.unwrap_or_default())
        };
        assert_eq!(check(&[("offset", 0), ("length", 400)]), (false, String::new()));
        for places in [&[][..], &[("offset", 0)], &[("length", 400)]] {
            assert_eq!(check(places), (true, String::new()));
        }
        let (lacks, told) = check(&[("offset", 4)]);
        assert!(lacks && told.ends_with("weights.bin has 400 bytes of 404"), "{told}");
    }

    #[test]
    fn a_model_that_contradicts_itself_is_read_and_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("m.onnx");
        let short =
            messages::Tensor { raw: Some(vec![0; 20].into()), ..weights("w", FLOAT, &[4, 4]) };
        let graph = messages::Graph { initializers: vec![short], ..messages::Graph::default() };
        std::fs::write(&path, of_graph(graph)).expect("writable");
        let facts = Facts::read(&path).expect("a model");
        let told = facts.check(&path).expect_err("broken").to_string();
        let expected = "m.onnx is broken: its weight or constant `w` is broken: it has 20 bytes of values, and its \
                        shape [4, 4] of fp32 needs 64";
        assert!(told.ends_with(expected), "{told}");
    }

    #[test]
    fn attributes_that_are_left_to_defaults_are_noticed() {
        let lacks = |operator: &str, attributes: &[&str]| {
            let attribute = |name: &&str| messages::Attribute {
                name: (*name).into(),
                ..messages::Attribute::default()
            };
            let attributes = attributes.iter().map(attribute).collect();
            let operator = operator.into();
            let node = messages::Node { operator, attributes, ..messages::Node::default() };
            read(&of_graph(messages::Graph { nodes: vec![node], ..messages::Graph::default() }))
                .lacks_attributes
        };
        assert!(lacks("Conv", &["strides", "pads"]) && lacks("ConvTranspose", &[]));
        assert!(lacks("MaxPool", &["kernel_shape"]));
        assert!(!lacks("Conv", &["kernel_shape"]) && !lacks("MaxPool", &["strides"]));
        assert!(!lacks("Conv", &["strides", "pads", "dilations"]) && !lacks("Relu", &[]));
    }

    #[test]
    fn nesting_without_end_is_refused() {
        let nested = |levels: usize| {
            let within = (0..levels).fold(messages::Graph::default(), |graph, _| {
                let attribute = messages::Attribute { graph: Some(graph), ..Default::default() };
                let node = messages::Node { attributes: vec![attribute], ..Default::default() };
                messages::Graph { nodes: vec![node], ..Default::default() }
            });
            Model::of_bytes(&of_graph(within)[..]).is_some()
        };
        assert!(nested(10) && !nested(100));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Model::of_bytes(&bytes[..]);
        }

        #[test]
        fn a_damaged_model_is_read_to_an_end(at in 0_usize..2000, with: u8, cut in 0_usize..4000) {
            let mut bytes = std::fs::read(digits()).expect("a file");
            bytes[at] = with;
            bytes.truncate(bytes.len() - cut);
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("m.onnx");
            std::fs::write(&path, bytes).expect("writable");
            let _ = Model::read(&path);
        }
    }
}
