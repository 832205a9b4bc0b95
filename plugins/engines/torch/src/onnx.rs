/*!
An ONNX file with its weights.

`onnx-file` reads the structure of a file and checks it, and passes over weights. This module reads the nodes with all
their attributes, and the weights. It is the only module that knows the format: the importer sees [`Graph`], [`Node`]
and tensors.
*/

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use prost::Message as _;
use prost::bytes::Bytes;
use tch::{Kind, Tensor};

use crate::error::{Wrong, wrong};

/// Messages of the format, with the numbers of their fields in `onnx.proto`.
mod messages {
    use prost::bytes::Bytes;

    /// `ModelProto`
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Model {
        #[prost(message, optional, tag = "7")]
        pub(super) graph: Option<Graph>,
        #[prost(message, repeated, tag = "8")]
        pub(super) opsets: Vec<OperatorSet>,
    }

    /// `OperatorSetIdProto`
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct OperatorSet {
        #[prost(string, tag = "1")]
        pub(super) domain: String,
        #[prost(int64, tag = "2")]
        pub(super) version: i64,
    }

    /// `GraphProto`
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Graph {
        #[prost(message, repeated, tag = "1")]
        pub(super) nodes: Vec<Node>,
        #[prost(message, repeated, tag = "5")]
        pub(super) initializers: Vec<TensorProto>,
        #[prost(message, repeated, tag = "11")]
        pub(super) inputs: Vec<ValueInfo>,
        #[prost(message, repeated, tag = "12")]
        pub(super) outputs: Vec<ValueInfo>,
    }

    /// `ValueInfoProto`
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct ValueInfo {
        #[prost(string, tag = "1")]
        pub(super) name: String,
    }

    /// `NodeProto`
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Node {
        #[prost(string, repeated, tag = "1")]
        pub(super) inputs: Vec<String>,
        #[prost(string, repeated, tag = "2")]
        pub(super) outputs: Vec<String>,
        #[prost(string, tag = "3")]
        pub(super) name: String,
        #[prost(string, tag = "4")]
        pub(super) operator: String,
        #[prost(message, repeated, tag = "5")]
        pub(super) attributes: Vec<Attribute>,
        #[prost(string, tag = "7")]
        pub(super) domain: String,
    }

    /// `AttributeProto`
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Attribute {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(float, tag = "2")]
        pub(super) float: f32,
        #[prost(int64, tag = "3")]
        pub(super) integer: i64,
        #[prost(bytes = "vec", tag = "4")]
        pub(super) text: Vec<u8>,
        #[prost(message, optional, tag = "5")]
        pub(super) tensor: Option<TensorProto>,
        #[prost(float, repeated, tag = "7")]
        pub(super) floats: Vec<f32>,
        #[prost(int64, repeated, tag = "8")]
        pub(super) integers: Vec<i64>,
        /// `AttributeType`
        #[prost(int32, tag = "20")]
        pub(super) kind: i32,
    }

    /// `TensorProto`
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct TensorProto {
        #[prost(int64, repeated, tag = "1")]
        pub(super) sizes: Vec<i64>,
        #[prost(int32, tag = "2")]
        pub(super) element: i32,
        #[prost(float, repeated, tag = "4")]
        pub(super) floats: Vec<f32>,
        #[prost(int32, repeated, tag = "5")]
        pub(super) small: Vec<i32>,
        #[prost(int64, repeated, tag = "7")]
        pub(super) integers: Vec<i64>,
        #[prost(string, tag = "8")]
        pub(super) name: String,
        #[prost(bytes = "bytes", tag = "9")]
        pub(super) raw: Bytes,
        #[prost(double, repeated, tag = "10")]
        pub(super) doubles: Vec<f64>,
        #[prost(message, repeated, tag = "13")]
        pub(super) external: Vec<Entry>,
        /// `DataLocation`: 1 if the values lie in another file.
        #[prost(int32, tag = "14")]
        pub(super) location: i32,
    }

    /// `StringStringEntryProto`
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Entry {
        #[prost(string, tag = "1")]
        pub(super) key: String,
        #[prost(string, tag = "2")]
        pub(super) value: String,
    }
}

/// A graph with its weights.
#[derive(Debug)]
pub(crate) struct Graph {
    /// Version of the standard's operators.
    pub(crate) opset: i64,
    /// Nodes, in the order in which they are computed.
    pub(crate) nodes: Vec<Node>,
    /// Weights by name, in the host's memory.
    pub(crate) weights: BTreeMap<String, Tensor>,
    /// Names of the inputs, without those that are weights.
    pub(crate) inputs: Vec<String>,
    /// Names of the outputs.
    pub(crate) outputs: Vec<String>,
}

/// A node.
#[derive(Debug)]
pub(crate) struct Node {
    /// Its name for people: its own, or that of its first output.
    pub(crate) name: String,
    /// The operator, with its domain unless that is the standard's.
    pub(crate) operator: String,
    /// Names of its inputs. One that is left out is empty.
    pub(crate) inputs: Vec<String>,
    /// Names of its outputs, as for inputs.
    pub(crate) outputs: Vec<String>,
    /// Its attributes.
    pub(crate) attributes: Attributes,
}

/// Attributes of a node.
#[derive(Debug, Default)]
pub(crate) struct Attributes(BTreeMap<String, Value>);

#[derive(Debug)]
enum Value {
    Integer(i64),
    Float(f32),
    Text(String),
    Integers(Vec<i64>),
    Floats(Vec<f32>),
    Tensor(Tensor),
    /// A graph or a list of other things.
    Other,
}

impl Attributes {
    /// Returns a single attribute, a number.
    pub(crate) fn of_float(name: &str, value: f32) -> Self {
        Self(BTreeMap::from([(name.to_owned(), Value::Float(value))]))
    }

    /// Returns a whole number, if it is given.
    pub(crate) fn integer(&self, name: &str) -> Option<i64> {
        match self.0.get(name) {
            Some(Value::Integer(value)) => Some(*value),
            _ => None,
        }
    }

    /// Returns whether a number that is a flag is given and set.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.integer(name).is_some_and(|value| value != 0)
    }

    /// Returns a number, if it is given.
    pub(crate) fn float(&self, name: &str) -> Option<f64> {
        match self.0.get(name) {
            Some(Value::Float(value)) => Some(f64::from(*value)),
            _ => None,
        }
    }

    /// Returns a text, if it is given.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.0.get(name) {
            Some(Value::Text(value)) => Some(value),
            _ => None,
        }
    }

    /// Returns whole numbers, if they are given.
    pub(crate) fn integers(&self, name: &str) -> Option<Vec<i64>> {
        match self.0.get(name) {
            Some(Value::Integers(values)) => Some(values.clone()),
            _ => None,
        }
    }

    /// Returns numbers, if they are given.
    pub(crate) fn floats(&self, name: &str) -> Option<&[f32]> {
        match self.0.get(name) {
            Some(Value::Floats(values)) => Some(values),
            _ => None,
        }
    }

    /// Returns a tensor, if it is given.
    pub(crate) fn tensor(&self, name: &str) -> Option<Tensor> {
        match self.0.get(name) {
            Some(Value::Tensor(value)) => Some(value.shallow_clone()),
            _ => None,
        }
    }
}

/// Returns libtorch's type for an element type of ONNX (`TensorProto.DataType`).
pub(crate) fn kind_of(element: i64) -> Option<Kind> {
    Some(match element {
        1 => Kind::Float,
        2 => Kind::Uint8,
        3 => Kind::Int8,
        5 => Kind::Int16,
        6 => Kind::Int,
        7 => Kind::Int64,
        9 => Kind::Bool,
        10 => Kind::Half,
        11 => Kind::Double,
        16 => Kind::BFloat16,
        _ => return None,
    })
}

impl Graph {
    /// Reads a file and the files with its weights, which [`onnx_file::OnnxFile::read`] has checked.
    pub(crate) fn read(path: &Path) -> Result<Self, Wrong> {
        let bytes = std::fs::read(path).map_err(|error| wrong!("{}: {error}", path.display()))?;
        let model = messages::Model::decode(Bytes::from(bytes))
            .map_err(|error| wrong!("{} is not an ONNX model: {error}", path.display()))?;
        let standard = model.opsets.iter().find(|set| is_standard(&set.domain));
        let opset = standard.map_or(1, |set| set.version);
        let graph = model.graph.ok_or_else(|| wrong!("{} has no graph", path.display()))?;
        let mut weights = BTreeMap::new();
        let mut files = Files { model: path, open: BTreeMap::new() };
        for tensor in &graph.initializers {
            let value = files.tensor(tensor)?;
            weights.insert(tensor.name.clone(), value);
        }
        let names = |values: Vec<messages::ValueInfo>| values.into_iter().map(|value| value.name);
        let inputs = names(graph.inputs).filter(|name| !weights.contains_key(name)).collect();
        let outputs = names(graph.outputs).collect();
        let nodes =
            graph.nodes.into_iter().map(|node| files.node(node)).collect::<Result<_, _>>()?;
        Ok(Self { opset, nodes, weights, inputs, outputs })
    }
}

fn is_standard(domain: &str) -> bool {
    domain.is_empty() || domain == "ai.onnx"
}

/// Files that weights are read from.
struct Files<'a> {
    model: &'a Path,
    open: BTreeMap<String, File>,
}

impl Files<'_> {
    fn node(&mut self, node: messages::Node) -> Result<Node, Wrong> {
        let messages::Node { inputs, outputs, name, operator, attributes, domain } = node;
        let first = outputs.first().cloned().unwrap_or_default();
        let name = if name.is_empty() { first } else { name };
        let operator = if is_standard(&domain) { operator } else { format!("{domain}.{operator}") };
        let mut values = BTreeMap::new();
        for attribute in attributes {
            let key = attribute.name.clone();
            let value = self
                .value(attribute)
                .map_err(|error| wrong!("attribute `{key}` of `{name}` ({operator}): {error}"))?;
            values.insert(key, value);
        }
        Ok(Node { name, operator, inputs, outputs, attributes: Attributes(values) })
    }

    fn value(&mut self, attribute: messages::Attribute) -> Result<Value, Wrong> {
        Ok(match attribute.kind {
            1 => Value::Float(attribute.float),
            2 => Value::Integer(attribute.integer),
            3 => Value::Text(String::from_utf8_lossy(&attribute.text).into_owned()),
            4 => match &attribute.tensor {
                Some(tensor) => Value::Tensor(self.tensor(tensor)?),
                None => Value::Other,
            },
            6 => Value::Floats(attribute.floats),
            7 => Value::Integers(attribute.integers),
            _ => Value::Other,
        })
    }

    /// Makes a tensor in the host's memory.
    fn tensor(&mut self, tensor: &messages::TensorProto) -> Result<Tensor, Wrong> {
        let messages::TensorProto { sizes, element, name, .. } = tensor;
        let kind = kind_of(i64::from(*element)).ok_or_else(|| {
            wrong!("`{name}` has elements of type {element} (`TensorProto.DataType`), which PyTorch lacks")
        })?;
        let size = kind.elt_size_in_bytes();
        let count = sizes
            .iter()
            .try_fold(size, |bytes, axis| bytes.checked_mul(usize::try_from(*axis).ok()?))
            .ok_or_else(|| wrong!("`{name}` has the impossible shape {sizes:?}"))?;
        let bytes = if tensor.location == 1 {
            self.external(tensor, count)?
        } else if tensor.raw.is_empty() {
            typed(tensor, kind).into()
        } else {
            tensor.raw.clone()
        };
        if bytes.len() != count {
            return Err(wrong!("`{name}` {sizes:?} has {} bytes instead of {count}", bytes.len()));
        }
        Ok(Tensor::f_from_data_size(&bytes, sizes, kind)?)
    }

    fn external(&mut self, tensor: &messages::TensorProto, count: usize) -> Result<Bytes, Wrong> {
        let entry = |key: &str| {
            let entry = tensor.external.iter().find(|entry| entry.key == key);
            entry.map(|entry| entry.value.as_str())
        };
        let location = entry("location").unwrap_or_default();
        let offset = entry("offset").and_then(|offset| offset.parse().ok()).unwrap_or(0_u64);
        let path = self.model.with_file_name(location);
        let failed = |error| wrong!("{}: {error}", path.display());
        if !self.open.contains_key(location) {
            self.open.insert(location.to_owned(), File::open(&path).map_err(failed)?);
        }
        let Some(file) = self.open.get_mut(location) else { return Ok(Bytes::new()) };
        let mut bytes = vec![0; count];
        file.seek(SeekFrom::Start(offset)).map_err(failed)?;
        file.read_exact(&mut bytes).map_err(failed)?;
        Ok(bytes.into())
    }
}

/// Returns the bytes of elements that are in a list of their type.
fn typed(tensor: &messages::TensorProto, kind: Kind) -> Vec<u8> {
    match kind {
        Kind::Float => tensor.floats.iter().flat_map(|value| value.to_ne_bytes()).collect(),
        Kind::Double => tensor.doubles.iter().flat_map(|value| value.to_ne_bytes()).collect(),
        Kind::Int64 => tensor.integers.iter().flat_map(|value| value.to_ne_bytes()).collect(),
        Kind::Int => tensor.small.iter().flat_map(|value| value.to_ne_bytes()).collect(),
        // The lower bytes, as two halves of a number or one byte.
        _ if kind.elt_size_in_bytes() == 2 => {
            tensor.small.iter().flat_map(|value| (*value as u16).to_ne_bytes()).collect()
        }
        _ => tensor.small.iter().map(|value| *value as u8).collect(),
    }
}
