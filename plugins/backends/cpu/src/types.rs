//! The element types that an ONNX file has, as opposed to those that the engine makes of them.
//!
//! The engine converts on loading and keeps no record of it, so the file is read once more, for its types
//! alone. ONNX files are Protocol Buffers: a message is a list of numbered fields, each a number or a
//! stretch of bytes with a length, which may be a message again. Whatever is not on the way to a type is
//! skipped, weights above all. Since no stretch may reach beyond the one around it, a damaged file is
//! found here, before the engine sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use plugin_api::backend::DataType;

/// Element types by their numbers in ONNX (`TensorProto.DataType`).
mod onnx {
    pub(super) const FLOAT: u64 = 1;
    pub(super) const UINT8: u64 = 2;
    pub(super) const INT8: u64 = 3;
    pub(super) const INT32: u64 = 6;
    pub(super) const INT64: u64 = 7;
    pub(super) const BOOL: u64 = 9;
    pub(super) const FLOAT16: u64 = 10;
    pub(super) const DOUBLE: u64 = 11;
}

/// Element types of a model.
#[derive(Debug, Default)]
pub(crate) struct ElementTypes {
    inputs: BTreeMap<String, u64>,
    all: BTreeSet<u64>,
}

impl ElementTypes {
    /// Reads the types of a model's file.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
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
            types: Self::default(),
            name: None,
            element: None,
            graphs: 0,
        };
        scan.message(Message::Model, metadata.len(), 0)?;
        if scan.graphs == 0 {
            return Err(damaged("is not an ONNX model: it has no graph"));
        }
        Ok(scan.types)
    }

    /// The element type that the model wants for an input.
    pub(crate) fn of_input(&self, name: &str) -> Option<DataType> {
        match *self.inputs.get(name)? {
            onnx::FLOAT => Some(DataType::F32),
            onnx::DOUBLE => Some(DataType::F64),
            onnx::INT64 => Some(DataType::I64),
            onnx::INT32 => Some(DataType::I32),
            onnx::INT8 => Some(DataType::I8),
            onnx::UINT8 => Some(DataType::U8),
            onnx::BOOL => Some(DataType::BOOL),
            _ => None,
        }
    }

    /// What the engine converts of what the model has.
    pub(crate) fn converted(&self) -> Vec<&'static str> {
        [
            (onnx::INT64, "int64 to int32"),
            (onnx::DOUBLE, "float64 to float32"),
            (onnx::FLOAT16, "float16 to float32"),
        ]
        .into_iter()
        .filter(|(element, _)| self.all.contains(element))
        .map(|(_, text)| text)
        .collect()
    }
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The messages on the way to a type, by what ONNX's schema calls them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Message {
    /// `ModelProto`
    Model,
    /// `GraphProto`
    Graph,
    /// `NodeProto`
    Node,
    /// `AttributeProto`
    Attribute,
    /// `TensorProto`
    Tensor,
    /// `ValueInfoProto` of an input
    Input,
    /// Any other `ValueInfoProto`
    Value,
    /// `TypeProto`
    Type,
    /// `TypeProto.Tensor`
    TensorType,
}

impl Message {
    /// The message in a field, where it is on the way to a type.
    fn child(self, field: u64) -> Option<Self> {
        match (self, field) {
            (Self::Model, 7) | (Self::Attribute, 6) => Some(Self::Graph),
            (Self::Graph, 1) => Some(Self::Node),
            (Self::Graph, 5) | (Self::Attribute, 5) => Some(Self::Tensor),
            (Self::Graph, 11) => Some(Self::Input),
            (Self::Graph, 12 | 13) => Some(Self::Value),
            (Self::Node, 5) => Some(Self::Attribute),
            (Self::Input | Self::Value, 2) => Some(Self::Type),
            (Self::Type, 1) => Some(Self::TensorType),
            _ => None,
        }
    }

    /// Whether a number in a field is an element type.
    fn has_type_in(self, field: u64) -> bool {
        matches!((self, field), (Self::Tensor, 2) | (Self::TensorType, 1))
    }
}

/// Messages within messages; subgraphs of real models are nested a few levels deep.
const DEEPEST: u32 = 200;

struct Scan {
    file: BufReader<File>,
    at: u64,
    types: ElementTypes,
    /// Name of the input that is being read.
    name: Option<String>,
    /// The element type that was read last.
    element: Option<u64>,
    graphs: u32,
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
                    if message.has_type_in(field) {
                        self.element = Some(number);
                        self.types.all.insert(number);
                    }
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
            let field_end = field_end.ok_or_else(|| damaged("is cut off, or not an ONNX model"))?;
            match message.child(field) {
                Some(child) if tag & 7 == 2 => self.child(message, child, field_end, depth + 1)?,
                _ if message == Message::Input && field == 1 => {
                    self.name = Some(self.text(length)?)
                }
                _ => self.skip(length)?,
            }
        }
        Ok(())
    }

    fn child(&mut self, parent: Message, child: Message, end: u64, depth: u32) -> io::Result<()> {
        if child == Message::Input {
            (self.name, self.element) = (None, None);
        }
        self.message(child, end, depth)?;
        // Inputs of subgraphs, which lie deeper, are none of the model's.
        if (parent, child, depth) == (Message::Graph, Message::Input, 2)
            && let (Some(name), Some(element)) = (self.name.take(), self.element)
        {
            self.types.inputs.insert(name, element);
        }
        Ok(())
    }

    /// A number of variable length: seven bits a byte, the lowest first.
    fn number(&mut self, end: u64) -> io::Result<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let mut byte = [0];
            if self.at >= end {
                return Err(damaged("is cut off, or not an ONNX model"));
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

    fn types_of(bytes: &[u8]) -> io::Result<ElementTypes> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("model.onnx");
        std::fs::write(&path, bytes)?;
        ElementTypes::read(&path)
    }

    fn digits() -> Vec<u8> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../manifests/data/digits.onnx");
        std::fs::read(path).expect("the model")
    }

    #[test]
    fn the_digits_model_is_all_float32() {
        let types = types_of(&digits()).expect("types");
        assert_eq!(types.inputs, BTreeMap::from([("image".to_owned(), onnx::FLOAT)]));
        assert_eq!(types.all, BTreeSet::from([onnx::FLOAT]));
    }

    #[test]
    fn nesting_without_end_is_refused() {
        let wrap = |tag: u8, inner: &[u8]| {
            let mut outer = vec![tag];
            let mut length = inner.len();
            while length >= 0x80 {
                outer.push(length as u8 | 0x80);
                length >>= 7;
            }
            outer.push(length as u8);
            outer.extend(inner);
            outer
        };
        // A node of a graph with an attribute that is a graph, and so on.
        let nested = |levels: usize| {
            let graph = (0..levels)
                .fold(Vec::new(), |graph, _| wrap(0x0a, &wrap(0x2a, &wrap(0x32, &graph))));
            types_of(&wrap(0x3a, &graph))
        };
        nested(10).expect("a few levels");
        let error = nested(2000).expect_err("too many levels");
        assert!(error.to_string().ends_with("it is nested too deeply"), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = types_of(&bytes);
        }

        #[test]
        fn a_damaged_model_is_read_to_an_end(at in 0_usize..2000, with: u8, cut in 0_usize..4000) {
            let mut bytes = digits();
            bytes[at] = with;
            bytes.truncate(bytes.len() - cut);
            let _ = types_of(&bytes);
        }
    }
}
