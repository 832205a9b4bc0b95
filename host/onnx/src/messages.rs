//! The messages of an ONNX file, as far as they are read and written here, with the numbers of their fields in
//! `onnx.proto`.
//!
//! Values of weights are passed over when a file is read: long lists and long byte strings are measured and skipped.

pub use prost::bytes::Bytes;

pub use crate::tensor::{Entry, Lengths, Tensor};

/// `ModelProto`
#[derive(Clone, PartialEq, prost::Message)]
pub struct Model {
    /// Version of the file format.
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    /// The program that wrote the file.
    #[prost(string, tag = "2")]
    pub producer_name: String,
    /// Its version.
    #[prost(string, tag = "3")]
    pub producer_version: String,
    /// The graph.
    #[prost(message, optional, tag = "7")]
    pub graph: Option<Graph>,
    /// Sets of operators.
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSet>,
    /// Notes of the author.
    #[prost(message, repeated, tag = "14")]
    pub metadata: Vec<Entry>,
    /// Operators that the model itself defines.
    #[prost(message, repeated, tag = "25")]
    pub functions: Vec<Function>,
}

/// `OperatorSetIdProto`
#[derive(Clone, PartialEq, prost::Message)]
pub struct OperatorSet {
    /// Its domain; the standard's is empty.
    #[prost(string, optional, tag = "1")]
    pub domain: Option<String>,
    /// Its version.
    #[prost(int64, tag = "2")]
    pub version: i64,
}

/// `FunctionProto`
#[derive(Clone, PartialEq, prost::Message)]
pub struct Function {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Names of its inputs.
    #[prost(string, repeated, tag = "4")]
    pub inputs: Vec<String>,
    /// Names of its outputs.
    #[prost(string, repeated, tag = "5")]
    pub outputs: Vec<String>,
    /// Its nodes.
    #[prost(message, repeated, tag = "7")]
    pub nodes: Vec<Node>,
    /// Its domain.
    #[prost(string, tag = "10")]
    pub domain: String,
    /// Attributes that a call may leave out, with their values.
    #[prost(message, repeated, tag = "11")]
    pub defaults: Vec<Attribute>,
    /// Tells functions of one name apart.
    #[prost(string, tag = "13")]
    pub overload: String,
}

/// `GraphProto`
#[derive(Clone, PartialEq, prost::Message)]
pub struct Graph {
    /// Nodes, in the order in which they are computed.
    #[prost(message, repeated, tag = "1")]
    pub nodes: Vec<Node>,
    /// Its name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Weights and constants.
    #[prost(message, repeated, tag = "5")]
    pub initializers: Vec<Tensor>,
    /// Inputs; in old files also those that have weights.
    #[prost(message, repeated, tag = "11")]
    pub inputs: Vec<ValueInfo>,
    /// Outputs.
    #[prost(message, repeated, tag = "12")]
    pub outputs: Vec<ValueInfo>,
    /// Values within, if they are described.
    #[prost(message, repeated, tag = "13")]
    pub values: Vec<ValueInfo>,
    /// Weights that are mostly zero.
    #[prost(message, repeated, tag = "15")]
    pub sparse_initializers: Vec<SparseTensor>,
}

/// `NodeProto`
#[derive(Clone, PartialEq, prost::Message)]
pub struct Node {
    /// Names of its inputs; an empty one is left out.
    #[prost(string, repeated, tag = "1")]
    pub inputs: Vec<String>,
    /// Names of its outputs.
    #[prost(string, repeated, tag = "2")]
    pub outputs: Vec<String>,
    /// Its name.
    #[prost(string, tag = "3")]
    pub name: String,
    /// The operator.
    #[prost(string, tag = "4")]
    pub operator: String,
    /// Its attributes.
    #[prost(message, repeated, tag = "5")]
    pub attributes: Vec<Attribute>,
    /// The operator's domain; the standard's is empty.
    #[prost(string, tag = "7")]
    pub domain: String,
    /// Tells functions of one name apart.
    #[prost(string, tag = "8")]
    pub overload: String,
}

/// `AttributeProto`
#[derive(Clone, PartialEq, prost::Message)]
pub struct Attribute {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// A number.
    #[prost(float, optional, tag = "2")]
    pub float: Option<f32>,
    /// A whole number.
    #[prost(int64, optional, tag = "3")]
    pub integer: Option<i64>,
    /// A text; empty if it is long.
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub text: Option<Bytes>,
    /// Numbers.
    #[prost(float, repeated, packed = "false", tag = "7")]
    pub floats: Vec<f32>,
    /// A tensor.
    #[prost(message, optional, tag = "5")]
    pub tensor: Option<Tensor>,
    /// A graph.
    #[prost(message, optional, tag = "6")]
    pub graph: Option<Graph>,
    /// Whole numbers.
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub integers: Vec<i64>,
    /// Tensors.
    #[prost(message, repeated, tag = "10")]
    pub tensors: Vec<Tensor>,
    /// Graphs.
    #[prost(message, repeated, tag = "11")]
    pub graphs: Vec<Graph>,
    /// `AttributeType`: 1 for a number, 2 for a whole number, 3 for a text, 7 for whole numbers.
    #[prost(int32, tag = "20")]
    pub kind: i32,
    /// In a function: the attribute of the call that has the value.
    #[prost(string, tag = "21")]
    pub of_call: String,
    /// A sparse tensor.
    #[prost(message, optional, tag = "22")]
    pub sparse: Option<SparseTensor>,
}

/// `SparseTensorProto`: a tensor that is zero but for some elements.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SparseTensor {
    /// The other elements; their name is that of the tensor.
    #[prost(message, optional, tag = "1")]
    pub values: Option<Tensor>,
    /// Their places.
    #[prost(message, optional, tag = "2")]
    pub indices: Option<Tensor>,
    /// Sizes of the axes.
    #[prost(int64, repeated, packed = "false", tag = "3")]
    pub sizes: Vec<i64>,
}

/// `ValueInfoProto`
#[derive(Clone, PartialEq, prost::Message)]
pub struct ValueInfo {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The type.
    #[prost(message, optional, tag = "2")]
    pub kind: Option<Type>,
}

/// `TypeProto`
#[derive(Clone, PartialEq, prost::Message)]
pub struct Type {
    /// A tensor.
    #[prost(message, optional, tag = "1")]
    pub tensor: Option<TensorType>,
    /// A sequence.
    #[prost(message, optional, tag = "4")]
    pub sequence: Option<Unread>,
    /// A map.
    #[prost(message, optional, tag = "5")]
    pub map: Option<Unread>,
    /// An opaque value.
    #[prost(message, optional, tag = "7")]
    pub opaque: Option<Unread>,
    /// A sparse tensor.
    #[prost(message, optional, tag = "8")]
    pub sparse: Option<Unread>,
    /// A value that may be absent.
    #[prost(message, optional, tag = "9")]
    pub optional: Option<Unread>,
}

/// A message that is there, and is not read.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Unread {}

/// `TypeProto.Tensor`
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorType {
    /// Number of the element type (`DataType`).
    #[prost(int32, tag = "1")]
    pub element: i32,
    /// The shape; absent if even the number of axes is open.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<Shape>,
}

/// `TensorShapeProto`
#[derive(Clone, PartialEq, prost::Message)]
pub struct Shape {
    /// The axes.
    #[prost(message, repeated, tag = "1")]
    pub dimensions: Vec<Dimension>,
}

/// `TensorShapeProto.Dimension`
#[derive(Clone, PartialEq, prost::Message)]
pub struct Dimension {
    /// A fixed size.
    #[prost(int64, optional, tag = "1")]
    pub size: Option<i64>,
    /// The name of an open one.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
}
