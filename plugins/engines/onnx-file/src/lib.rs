/*!
Contents of an ONNX file, as opposed to what an engine makes of it: inputs and outputs, the
element types of everything, the precision of its weights, and the files that hold them.

Engines convert on loading without a record, and some read a damaged file silently. So the
file is read once more, for its structure alone. ONNX files are Protocol Buffers: a message is a list
of numbered fields, each a number or a byte string with a length, which may be a message again.
Irrelevant fields are skipped, weights above all. No byte string may reach beyond the one
around it, so a damaged file is found here, before the engine sees it.
*/

mod external;
mod graph;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

pub use graph::LegalValues;
use graph::Node;
use plugin_api::backend::{
    DataType, Dimension, Error, ErrorCode, ModelInfo, TensorInfo, ValueKind,
};

/// Element types by their numbers in ONNX (`TensorProto.DataType`).
mod onnx {
    pub(super) const FLOAT: u64 = 1;
    pub(super) const UINT8: u64 = 2;
    pub(super) const INT8: u64 = 3;
    pub(super) const UINT16: u64 = 4;
    pub(super) const INT16: u64 = 5;
    pub(super) const INT32: u64 = 6;
    pub(super) const INT64: u64 = 7;
    pub(super) const STRING: u64 = 8;
    pub(super) const BOOL: u64 = 9;
    pub(super) const FLOAT16: u64 = 10;
    pub(super) const DOUBLE: u64 = 11;
    pub(super) const UINT32: u64 = 12;
    pub(super) const UINT64: u64 = 13;
    pub(super) const BFLOAT16: u64 = 16;
}

/// Operators that compute with integers in the place of floats.
const QUANTISED: &[&str] = &[
    "ConvInteger",
    "DequantizeLinear",
    "MatMulInteger",
    "QAttention",
    "QGemm",
    "QLinearConv",
    "QLinearMatMul",
];

/// A model's file, read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct OnnxFile {
    inputs: Vec<Value>,
    outputs: Vec<Value>,
    /// Names of weights; old files list them among the inputs, too.
    initializers: BTreeSet<String>,
    /// Element types of weights and values.
    all: BTreeSet<u64>,
    /// Elements of weights, by type.
    weights: BTreeMap<u64, u64>,
    quantised: bool,
    /// Files that hold weights, relative to the model's folder, with their required size.
    external: BTreeMap<String, u64>,
    /// Nodes of the graph and of its subgraphs.
    nodes: Vec<Node>,
    /// Shapes of weights and constants, by name.
    shapes: BTreeMap<String, Vec<u64>>,
    /// Weights and constants that are one whole number, by name.
    numbers: BTreeMap<String, i64>,
    /// Whether weights in another file lack the place where they begin, or their length. The format allows that.
    unplaced: bool,
}

/// An input or output.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Value {
    name: String,
    element: u64,
    dimensions: Option<Vec<Dimension>>,
    kind: ValueKind,
}

impl OnnxFile {
    /// Reads a file, and looks for its files of weights.
    ///
    /// # Errors
    ///
    /// Not found if the file or one of its weights' files is missing; an invalid model if it is
    /// damaged, truncated, or not a model. Messages name the file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        Self::scan(path).map_err(|error| {
            let code = match error.kind() {
                io::ErrorKind::NotFound => ErrorCode::NotFound,
                _ => ErrorCode::InvalidModel,
            };
            Error::new(code, format!("{}: {error}", path.display()))
        })
    }

    fn scan(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(damaged("is not a file"));
        }
        if path.extension().is_none_or(|extension| extension != "onnx") {
            return Err(damaged("is not an ONNX model: its name does not end in `.onnx`"));
        }
        let mut scan = Scan {
            file: BufReader::new(file),
            at: 0,
            found: Self::default(),
            value: Value::default(),
            dimension: Dimension::Dynamic(String::new()),
            tensor: Tensor::default(),
            entry: (String::new(), String::new()),
            node: Node::default(),
            attribute: Attribute::default(),
            graphs: 0,
            functions: 0,
        };
        scan.message(Message::Model, metadata.len(), 0)?;
        if scan.graphs == 0 {
            return Err(damaged("is not an ONNX model: it has no graph"));
        }
        for (location, needed) in &scan.found.external {
            external::check(path, location, *needed)?;
        }
        Ok(scan.found)
    }

    /// Returns the files that hold weights, relative to the model's folder. They lie in it, and are long enough.
    pub fn weights(&self) -> impl Iterator<Item = &str> {
        self.external.keys().map(String::as_str)
    }

    /// Returns whether all weights in other files say where they begin, and how long they are. The format has
    /// defaults for both: the beginning of the file, and the size of the weights.
    #[must_use]
    pub fn places_its_weights(&self) -> bool {
        !self.unplaced
    }

    /// Returns the model's inputs and outputs, in its own types.
    #[must_use]
    pub fn info(&self) -> ModelInfo {
        let info = |value: &Value| TensorInfo {
            name: value.name.clone(),
            dtype: dtype(value.element),
            dimensions: value.dimensions.clone(),
            kind: value.kind,
        };
        let inputs = self.inputs.iter().filter(|input| !self.initializers.contains(&input.name));
        ModelInfo {
            inputs: inputs.map(info).collect(),
            outputs: self.outputs.iter().map(info).collect(),
        }
    }

    /// Returns the element type of an input.
    #[must_use]
    pub fn dtype_of_input(&self, name: &str) -> Option<DataType> {
        dtype(self.inputs.iter().find(|input| input.name == name)?.element)
    }

    /// Returns whether the model has weights or values of a type.
    #[must_use]
    pub fn has(&self, wanted: DataType) -> bool {
        self.all.iter().any(|element| dtype(*element) == Some(wanted))
    }

    /// Returns the precision of an engine that uses the model's own types: `int8` for a
    /// quantised model, else that of most of its floating-point weights, or of its values if it
    /// has no such weights. A model without floating-point numbers has none.
    #[must_use]
    pub fn precision(&self) -> Option<&'static str> {
        if self.quantised {
            return Some("int8");
        }
        const FLOATS: &[(u64, &str)] = &[
            (onnx::FLOAT, "fp32"),
            (onnx::FLOAT16, "fp16"),
            (onnx::BFLOAT16, "bf16"),
            (onnx::DOUBLE, "fp64"),
        ];
        let elements = |element: &u64| self.weights.get(element).copied().unwrap_or(0);
        let heaviest = FLOATS.iter().rev().max_by_key(|(element, _)| elements(element));
        let heaviest = heaviest.filter(|(element, _)| elements(element) > 0);
        let any = || FLOATS.iter().find(|(element, _)| self.all.contains(element));
        heaviest.or_else(any).map(|(_, name)| *name)
    }
}

fn dtype(element: u64) -> Option<DataType> {
    Some(match element {
        onnx::FLOAT => DataType::F32,
        onnx::DOUBLE => DataType::F64,
        onnx::FLOAT16 => DataType::F16,
        onnx::BFLOAT16 => DataType::BF16,
        onnx::INT64 => DataType::I64,
        onnx::INT32 => DataType::I32,
        onnx::INT16 => DataType::I16,
        onnx::INT8 => DataType::I8,
        onnx::UINT64 => DataType::U64,
        onnx::UINT32 => DataType::U32,
        onnx::UINT16 => DataType::U16,
        onnx::UINT8 => DataType::U8,
        onnx::BOOL => DataType::BOOL,
        onnx::STRING => DataType::STRING,
        _ => return None,
    })
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The messages that say something here, by what ONNX's schema calls them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Message {
    /// `ModelProto`
    Model,
    /// `FunctionProto`
    Function,
    /// `GraphProto`
    Graph,
    /// `NodeProto`
    Node,
    /// `AttributeProto`
    Attribute,
    /// `TensorProto` of a graph's weights
    Initializer,
    /// `TensorProto` of an attribute
    Tensor,
    /// `StringStringEntryProto`
    Entry,
    /// `ValueInfoProto` of an input
    Input,
    /// `ValueInfoProto` of an output
    Output,
    /// Any other `ValueInfoProto`
    Value,
    /// `TypeProto`
    Type,
    /// `TypeProto.Tensor`
    TensorType,
    /// `TensorShapeProto`
    Shape,
    /// `TensorShapeProto.Dimension`
    Dimension,
}

impl Message {
    /// Returns the message in a field, if it is not empty.
    fn child(self, field: u64) -> Option<Self> {
        Some(match (self, field) {
            (Self::Model, 7) | (Self::Attribute, 6 | 11) => Self::Graph,
            (Self::Model, 25) => Self::Function,
            (Self::Graph, 1) | (Self::Function, 7) => Self::Node,
            (Self::Graph, 5) => Self::Initializer,
            (Self::Attribute, 5 | 10) => Self::Tensor,
            (Self::Graph, 11) => Self::Input,
            (Self::Graph, 12) => Self::Output,
            (Self::Graph, 13) => Self::Value,
            (Self::Node, 5) => Self::Attribute,
            (Self::Initializer | Self::Tensor, 13) => Self::Entry,
            (Self::Input | Self::Output | Self::Value, 2) => Self::Type,
            (Self::Type, 1) => Self::TensorType,
            (Self::TensorType, 2) => Self::Shape,
            (Self::Shape, 1) => Self::Dimension,
            _ => return None,
        })
    }

    /// Returns whether a field holds a name or another short text.
    fn has_text_in(self, field: u64) -> bool {
        matches!(
            (self, field),
            (Self::Input | Self::Output | Self::Value, 1)
                | (Self::Node, 1 | 2 | 4)
                | (Self::Attribute, 1)
                | (Self::Initializer, 8)
                | (Self::Entry, 1 | 2)
                | (Self::Dimension, 2)
        )
    }

    fn is_tensor(self) -> bool {
        matches!(self, Self::Initializer | Self::Tensor)
    }
}

/// Messages within messages; subgraphs of real models are nested a few levels deep.
const DEEPEST: u32 = 200;

/// Bytes of a number of variable length, at most.
const LONGEST_NUMBER: u64 = 10;

/// Depth of the fields of the model's own graph.
const OWN_GRAPH: u32 = 2;

/// Weights, as far as they are read.
#[derive(Default)]
struct Tensor {
    name: String,
    element: u64,
    count: u64,
    shape: Vec<u64>,
    external: bool,
    location: String,
    offset: Option<u64>,
    length: Option<u64>,
    /// The last whole number in the list of elements.
    listed: Option<i64>,
    /// All elements, if they are as short as one number.
    raw: Vec<u8>,
}

impl Tensor {
    /// Returns the element, if there is only one, and it is a whole number.
    fn number(&self) -> Option<i64> {
        let only = self.count == 1 && !self.external;
        let of_float = |value: f32| (value.fract() == 0.0).then_some(value as i64);
        match (self.element, self.raw.as_slice()) {
            _ if !only => None,
            (onnx::INT64 | onnx::INT32, []) => self.listed,
            (onnx::INT64, raw) => Some(i64::from_le_bytes(raw.try_into().ok()?)),
            (onnx::INT32, raw) => Some(i32::from_le_bytes(raw.try_into().ok()?).into()),
            (onnx::FLOAT, raw) => of_float(f32::from_le_bytes(raw.try_into().ok()?)),
            _ => None,
        }
    }
}

/// An attribute of a node, as far as it is read.
#[derive(Default)]
struct Attribute {
    name: String,
    /// Its whole number, or the last one of a list.
    number: i64,
}

struct Scan {
    file: BufReader<File>,
    at: u64,
    found: OnnxFile,
    /// The input or output that is being read.
    value: Value,
    /// Its axis that is being read.
    dimension: Dimension,
    /// The weights that are being read.
    tensor: Tensor,
    /// The key and value that are being read.
    entry: (String, String),
    /// The node that is being read.
    node: Node,
    /// Its attribute that is being read.
    attribute: Attribute,
    graphs: u32,
    /// Functions that are being read; their names are their own.
    functions: u32,
}

impl Scan {
    /// Reads a message up to its end.
    fn message(&mut self, message: Message, end: u64, depth: u32) -> io::Result<()> {
        if depth > DEEPEST {
            return Err(damaged("is not an ONNX model: it is nested too deeply"));
        }
        self.graphs += u32::from(message == Message::Graph);
        while self.at < end {
            let tag = self.number(end)?;
            let field = tag >> 3;
            let length = match tag & 7 {
                0 => {
                    let number = self.number(end)?;
                    self.take_number(message, field, number);
                    continue;
                }
                1 => 8,
                2 => self.number(end)?,
                5 => 4,
                kind => {
                    return Err(damaged(&format!("is not an ONNX model: field of kind {kind}")));
                }
            };
            let field_end = self.at.checked_add(length).filter(|field_end| *field_end <= end);
            let field_end =
                field_end.ok_or_else(|| damaged("is truncated, or not an ONNX model"))?;
            match message.child(field) {
                Some(child) if tag & 7 == 2 => self.child(child, field_end, depth + 1)?,
                // A list of sizes in one stretch, or of a single element.
                _ if message.is_tensor()
                    && tag & 7 == 2
                    && (field == 1 || (matches!(field, 5 | 7) && length <= LONGEST_NUMBER)) =>
                {
                    while self.at < field_end {
                        let size = self.number(field_end)?;
                        self.take_number(message, field, size);
                    }
                }
                _ if message.is_tensor()
                    && tag & 7 == 2
                    && matches!(field, 4 | 9)
                    && matches!(length, 4 | 8) =>
                {
                    self.tensor.raw = vec![0; length as usize];
                    self.file.read_exact(&mut self.tensor.raw)?;
                    self.at = field_end;
                }
                _ if message.has_text_in(field) && tag & 7 == 2 => {
                    let text = self.text(length)?;
                    self.take_text(message, field, text);
                }
                _ => {
                    self.take_other(message, field);
                    self.skip(length)?;
                }
            }
        }
        Ok(())
    }

    /// Reads information from the presence of a field.
    fn take_other(&mut self, message: Message, field: u64) {
        self.value.kind = match (message, field) {
            (Message::Type, 4) => ValueKind::Sequence,
            (Message::Type, 5) => ValueKind::Map,
            // An opaque, sparse or optional one.
            (Message::Type, 7..=9) => ValueKind::Other,
            _ => return,
        };
    }

    fn child(&mut self, child: Message, end: u64, depth: u32) -> io::Result<()> {
        match child {
            Message::Input | Message::Output | Message::Value => self.value = Value::default(),
            Message::Initializer | Message::Tensor => {
                self.tensor = Tensor { count: 1, ..Tensor::default() };
            }
            Message::Shape => self.value.dimensions = Some(Vec::new()),
            Message::Dimension => self.dimension = Dimension::Dynamic(String::new()),
            Message::Entry => self.entry = (String::new(), String::new()),
            Message::Function => self.functions += 1,
            _ => {}
        }
        // A node can have others within it.
        let outer = match child {
            Message::Node => Some(std::mem::take(&mut self.node)),
            _ => None,
        };
        let outer_attribute = std::mem::take(&mut self.attribute);
        self.message(child, end, depth)?;
        let attribute = std::mem::replace(&mut self.attribute, outer_attribute);
        // Inputs and outputs of subgraphs, which lie deeper, are none of the model's.
        let own = depth == OWN_GRAPH;
        match child {
            Message::Input if own => self.found.inputs.push(std::mem::take(&mut self.value)),
            Message::Output if own => self.found.outputs.push(std::mem::take(&mut self.value)),
            Message::Dimension => {
                let dimension =
                    std::mem::replace(&mut self.dimension, Dimension::Dynamic(String::new()));
                self.value.dimensions.get_or_insert_default().push(dimension);
            }
            Message::Entry => self.take_entry(),
            Message::Node => {
                let node = std::mem::replace(&mut self.node, outer.unwrap_or_default());
                if self.functions == 0 {
                    self.take_node(node);
                }
            }
            Message::Attribute => match attribute.name.as_str() {
                "axis" | "axes" => self.node.axis = Some(attribute.number),
                "batch_dims" => self.node.batch_axes = attribute.number,
                "value_int" => self.node.constant = Some((Vec::new(), Some(attribute.number))),
                _ => {}
            },
            Message::Function => self.functions -= 1,
            Message::Initializer | Message::Tensor => self.take_tensor(child, own),
            _ => {}
        }
        Ok(())
    }

    fn take_number(&mut self, message: Message, field: u64, number: u64) {
        match (message, field) {
            (Message::TensorType, 1) => {
                self.value.element = number;
                self.found.all.insert(number);
            }
            (Message::Initializer | Message::Tensor, 1) => {
                self.tensor.count = self.tensor.count.saturating_mul(number);
                self.tensor.shape.push(number);
            }
            (Message::Initializer | Message::Tensor, 2) => {
                self.tensor.element = number;
                self.found.all.insert(number);
            }
            (Message::Initializer | Message::Tensor, 5 | 7) => {
                self.tensor.listed = Some(number.cast_signed());
            }
            (Message::Attribute, 3 | 8) => self.attribute.number = number.cast_signed(),
            (Message::Initializer | Message::Tensor, 14) => self.tensor.external = number == 1,
            // A negative size, which is a very large number here, is unknown.
            (Message::Dimension, 1) if i64::try_from(number).is_ok() => {
                self.dimension = Dimension::Fixed(number);
            }
            _ => {}
        }
    }

    fn take_text(&mut self, message: Message, field: u64, text: String) {
        match (message, field) {
            (Message::Input | Message::Output | Message::Value, 1) => self.value.name = text,
            (Message::Node, 1) => self.node.inputs.push(text),
            (Message::Node, 2) => self.node.outputs.push(text),
            (Message::Node, 4) => {
                self.found.quantised |= QUANTISED.contains(&text.as_str());
                self.node.operator = text;
            }
            (Message::Attribute, 1) => self.attribute.name = text,
            (Message::Initializer, 8) => self.tensor.name = text,
            (Message::Entry, 1) => self.entry.0 = text,
            (Message::Entry, 2) => self.entry.1 = text,
            // Exporters write it for an axis without a name, and axes of one name have one size.
            (Message::Dimension, 2) if text == "?" => {}
            (Message::Dimension, 2) => self.dimension = Dimension::Dynamic(text),
            _ => {}
        }
    }

    fn take_entry(&mut self) {
        let (key, value) = std::mem::take(&mut self.entry);
        match key.as_str() {
            "location" => self.tensor.location = value,
            "offset" => self.tensor.offset = value.parse().ok(),
            "length" => self.tensor.length = value.parse().ok(),
            _ => {}
        }
    }

    fn take_tensor(&mut self, message: Message, own: bool) {
        let tensor = std::mem::take(&mut self.tensor);
        let elements = self.found.weights.entry(tensor.element).or_default();
        *elements = elements.saturating_add(tensor.count);
        if tensor.external && !tensor.location.is_empty() {
            self.found.unplaced |= tensor.offset.is_none() || tensor.length.is_none();
            let size = dtype(tensor.element).map_or(0, |dtype| dtype.size() as u64);
            let length = tensor.length.unwrap_or_else(|| tensor.count.saturating_mul(size));
            let needed = self.found.external.entry(tensor.location.clone()).or_default();
            *needed = (*needed).max(tensor.offset.unwrap_or(0).saturating_add(length));
        }
        let number = tensor.number();
        match message {
            Message::Initializer => {
                if own {
                    self.found.initializers.insert(tensor.name.clone());
                }
                if self.functions == 0 {
                    self.take_constant(tensor.name, tensor.shape, number);
                }
            }
            _ => self.node.constant = Some((tensor.shape, number)),
        }
    }

    fn take_constant(&mut self, name: String, shape: Vec<u64>, number: Option<i64>) {
        if let Some(number) = number {
            self.found.numbers.insert(name.clone(), number);
        }
        self.found.shapes.insert(name, shape);
    }

    fn take_node(&mut self, mut node: Node) {
        if let Some((shape, number)) = node.constant.take()
            && node.operator == "Constant"
            && let Some(output) = node.outputs.first()
        {
            self.take_constant(output.clone(), shape, number);
        }
        self.found.nodes.push(node);
    }

    /// Reads a number of variable length: seven bits a byte, the lowest first.
    fn number(&mut self, end: u64) -> io::Result<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let mut byte = [0];
            if self.at >= end {
                return Err(damaged("is truncated, or not an ONNX model"));
            }
            self.file.read_exact(&mut byte)?;
            self.at += 1;
            number |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] < 0x80 {
                return Ok(number);
            }
        }
        Err(damaged("is not an ONNX model: a number has too many bytes"))
    }

    fn text(&mut self, length: u64) -> io::Result<String> {
        let mut bytes = Vec::new();
        (&mut self.file).take(length).read_to_end(&mut bytes)?;
        self.at += length;
        String::from_utf8(bytes).map_err(|_| damaged("is damaged: a name is not UTF-8"))
    }

    fn skip(&mut self, length: u64) -> io::Result<()> {
        let length_signed = i64::try_from(length).map_err(|_| damaged("is damaged"))?;
        self.file.seek_relative(length_signed)?;
        self.at += length;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scan_named(name: &str, bytes: &[u8], others: &[(&str, usize)]) -> io::Result<OnnxFile> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join(name);
        std::fs::write(&path, bytes)?;
        for (name, size) in others {
            std::fs::write(folder.path().join(name), vec![0; *size])?;
        }
        OnnxFile::scan(&path)
    }

    fn scan(bytes: &[u8]) -> io::Result<OnnxFile> {
        scan_named("model.onnx", bytes, &[])
    }

    fn digits() -> Vec<u8> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../manifests/data/digits.onnx");
        std::fs::read(path).expect("the model")
    }

    fn varint(mut number: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    }

    /// Returns a field that is a byte string.
    fn stretch(field: u64, inner: &[u8]) -> Vec<u8> {
        [varint(field << 3 | 2), varint(inner.len() as u64), inner.to_vec()].concat()
    }

    /// Returns a field that is a number.
    fn number(field: u64, number: u64) -> Vec<u8> {
        [varint(field << 3), varint(number)].concat()
    }

    /// Returns a model whose graph has these fields.
    fn model(fields: &[Vec<u8>]) -> Vec<u8> {
        stretch(7, &fields.concat())
    }

    fn weights(name: &str, element: u64, sizes: &[u64], more: &[Vec<u8>]) -> Vec<u8> {
        let sizes: Vec<u8> = sizes.iter().flat_map(|size| number(1, *size)).collect();
        let tensor = [sizes, number(2, element), stretch(8, name.as_bytes()), more.concat()];
        stretch(5, &tensor.concat())
    }

    fn entry(key: &str, value: &str) -> Vec<u8> {
        stretch(13, &[stretch(1, key.as_bytes()), stretch(2, value.as_bytes())].concat())
    }

    fn input(name: &str, element: u64) -> Vec<u8> {
        let tensor = stretch(1, &number(1, element));
        stretch(11, &[stretch(1, name.as_bytes()), stretch(2, &tensor)].concat())
    }

    #[test]
    fn the_digits_model_is_described() {
        let file = scan(&digits()).expect("a good file");
        assert_eq!(file.all, BTreeSet::from([onnx::FLOAT]));
        assert_eq!(file.precision(), Some("fp32"));
        let info = file.info();
        let batch = Dimension::Dynamic("batch".into());
        let fixed = Dimension::Fixed;
        assert_eq!(info.inputs.len(), 1);
        assert_eq!(info.inputs[0].name, "image");
        assert_eq!(info.inputs[0].dtype, Some(DataType::F32));
        let image = vec![batch.clone(), fixed(1), fixed(8), fixed(8)];
        assert_eq!(info.inputs[0].dimensions, Some(image));
        assert_eq!(info.outputs.len(), 1);
        assert_eq!(info.outputs[0].name, "logits");
        assert_eq!(info.outputs[0].dimensions, Some(vec![batch, fixed(10)]));
        assert_eq!(file.dtype_of_input("image"), Some(DataType::F32));
        assert!(file.has(DataType::F32) && !file.has(DataType::I64));
    }

    #[test]
    fn weights_are_no_inputs() {
        let fields = [input("x", onnx::FLOAT), input("w", onnx::FLOAT), weights("w", 1, &[2], &[])];
        let info = scan(&model(&fields)).expect("a good file").info();
        assert_eq!(info.inputs.len(), 1);
        assert_eq!(info.inputs[0].name, "x");
        assert_eq!(info.inputs[0].dimensions, None);
    }

    #[test]
    fn texts_and_what_is_not_a_tensor_are_told_apart() {
        let value = |name: &str, type_field: u64, kind: u64| {
            let described = stretch(type_field, &number(1, kind));
            stretch(12, &[stretch(1, name.as_bytes()), stretch(2, &described)].concat())
        };
        // A sequence's and a map's own fields are other types, which do not matter here.
        let fields = [value("label", 1, onnx::STRING), value("maps", 4, 0), value("map", 5, 1)];
        let info = scan(&model(&fields)).expect("a good file").info();
        let found: Vec<_> = info.outputs.iter().map(|output| (output.dtype, output.kind)).collect();
        let expected = [
            (Some(DataType::STRING), ValueKind::Tensor),
            (None, ValueKind::Sequence),
            (None, ValueKind::Map),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn precision_is_that_of_most_weights() {
        let precision = |fields: &[Vec<u8>]| scan(&model(fields)).expect("a good file").precision();
        let half = weights("w", onnx::FLOAT16, &[64, 64], &[]);
        let scale = weights("s", onnx::FLOAT, &[64], &[]);
        let shape = weights("shape", onnx::INT64, &[9000], &[]);
        assert_eq!(precision(&[half.clone(), scale.clone(), shape.clone()]), Some("fp16"));
        assert_eq!(precision(&[scale, shape.clone()]), Some("fp32"));
        assert_eq!(precision(&[weights("w", onnx::BFLOAT16, &[4], &[])]), Some("bf16"));
        assert_eq!(precision(&[input("x", onnx::FLOAT16), shape.clone()]), Some("fp16"));
        assert_eq!(precision(&[input("x", onnx::INT64), shape]), None);
        let node = stretch(1, &stretch(4, b"DequantizeLinear"));
        assert_eq!(precision(&[half, node]), Some("int8"));
    }

    #[test]
    fn weights_in_other_files_must_be_there_and_whole() {
        let external = [
            number(14, 1),
            entry("location", "weights.bin"),
            entry("offset", "4096"),
            entry("length", "400"),
        ];
        let model = model(&[weights("w", onnx::FLOAT, &[100], &external)]);
        let error = scan(&model).expect_err("no weights");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("weights.bin"), "{error}");
        let error = scan_named("m.onnx", &model, &[("weights.bin", 4495)]).expect_err("cut off");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().ends_with("weights.bin has 4495 bytes of 4496"), "{error}");
        let file = scan_named("m.onnx", &model, &[("weights.bin", 4496)]).expect("whole");
        assert!(file.places_its_weights());
    }

    #[test]
    fn weights_in_other_files_may_lack_their_place() {
        let external = [number(14, 1), entry("location", "weights.bin")];
        let model = model(&[weights("w", onnx::FLOAT, &[100], &external)]);
        let error = scan_named("m.onnx", &model, &[("weights.bin", 399)]).expect_err("cut off");
        assert!(error.to_string().ends_with("weights.bin has 399 bytes of 400"), "{error}");
        let file = scan_named("m.onnx", &model, &[("weights.bin", 400)]).expect("whole");
        assert!(!file.places_its_weights());
    }

    #[test]
    fn constants_of_one_number_are_read() {
        let tensor = |element, data: Vec<u8>| [number(2, element), data].concat();
        let constant = |output: &str, tensor: &[u8]| {
            let value = [stretch(1, b"value"), stretch(5, tensor)].concat();
            stretch(
                1,
                &[stretch(2, output.as_bytes()), stretch(4, b"Constant"), stretch(5, &value)]
                    .concat(),
            )
        };
        let int = [stretch(1, b"value_int"), number(3, 9)].concat();
        let nodes = [
            constant("raw", &tensor(onnx::INT64, stretch(9, &7_i64.to_le_bytes()))),
            constant("listed", &tensor(onnx::INT64, number(7, 8))),
            constant("packed", &tensor(onnx::INT32, stretch(5, &[5]))),
            constant("float", &tensor(onnx::FLOAT, stretch(9, &3_f32.to_le_bytes()))),
            constant("half", &tensor(onnx::FLOAT, stretch(9, &0.5_f32.to_le_bytes()))),
            constant("two", &tensor(onnx::INT32, [number(1, 2), stretch(9, &[0; 8])].concat())),
            stretch(1, &[stretch(2, b"int"), stretch(4, b"Constant"), stretch(5, &int)].concat()),
        ];
        let file = scan(&model(&[nodes.concat()])).expect("a model");
        let numbers: Vec<_> = file.numbers.iter().map(|(name, it)| (name.as_str(), *it)).collect();
        assert_eq!(numbers, [("float", 3), ("int", 9), ("listed", 8), ("packed", 5), ("raw", 7)]);
        assert_eq!(file.shapes["two"], [2], "a table may be a constant");
    }

    #[test]
    fn nesting_without_end_is_refused() {
        // A node of a graph with an attribute that is a graph, and so on.
        let nested = |levels: usize| {
            let graph = (0..levels)
                .fold(Vec::new(), |graph, _| stretch(1, &stretch(5, &stretch(6, &graph))));
            scan(&model(&[graph]))
        };
        nested(10).expect("a few levels");
        let error = nested(2000).expect_err("too many levels");
        assert!(error.to_string().ends_with("it is nested too deeply"), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = scan(&bytes).map(|file| file.legal_values());
        }

        #[test]
        fn a_damaged_model_is_read_to_an_end(at in 0_usize..2000, with: u8, cut in 0_usize..4000) {
            let mut bytes = digits();
            bytes[at] = with;
            bytes.truncate(bytes.len() - cut);
            let _ = scan(&bytes).map(|file| file.legal_values());
        }
    }
}
