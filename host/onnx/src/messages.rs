//! The messages of an ONNX file, as far as they are read, with the numbers of their fields in `onnx.proto`.
//! Values of weights have no field here, or are passed over, so they are skipped.

use prost::bytes::Bytes;

/// `ModelProto`
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Model {
    #[prost(int64, tag = "1")]
    pub(crate) ir_version: i64,
    #[prost(string, tag = "2")]
    pub(crate) producer_name: String,
    #[prost(string, tag = "3")]
    pub(crate) producer_version: String,
    #[prost(message, optional, tag = "7")]
    pub(crate) graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    pub(crate) opset_import: Vec<OperatorSet>,
    #[prost(message, repeated, tag = "14")]
    pub(crate) metadata: Vec<Entry>,
    #[prost(message, repeated, tag = "25")]
    pub(crate) functions: Vec<Function>,
}

/// `OperatorSetIdProto`
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OperatorSet {
    #[prost(string, tag = "1")]
    pub(crate) domain: String,
    #[prost(int64, tag = "2")]
    pub(crate) version: i64,
}

/// `FunctionProto`
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Function {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "7")]
    pub(crate) nodes: Vec<Node>,
}

/// `GraphProto`
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub(crate) nodes: Vec<Node>,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) initializers: Vec<Tensor>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) inputs: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    pub(crate) outputs: Vec<ValueInfo>,
}

/// `NodeProto`
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Node {
    #[prost(string, repeated, tag = "1")]
    pub(crate) inputs: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(crate) outputs: Vec<String>,
    #[prost(string, tag = "4")]
    pub(crate) operator: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) attributes: Vec<Attribute>,
    #[prost(string, tag = "7")]
    pub(crate) domain: String,
}

/// `AttributeProto`
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Attribute {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(float, tag = "2")]
    pub(crate) real: f32,
    #[prost(int64, tag = "3")]
    pub(crate) integer: i64,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) text: Vec<u8>,
    #[prost(float, repeated, tag = "7")]
    pub(crate) reals: Vec<f32>,
    #[prost(int64, repeated, tag = "8")]
    pub(crate) integers: Vec<i64>,
    #[prost(message, optional, tag = "5")]
    pub(crate) tensor: Option<Tensor>,
    #[prost(message, optional, tag = "6")]
    pub(crate) graph: Option<Graph>,
    #[prost(message, repeated, tag = "10")]
    pub(crate) tensors: Vec<Tensor>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) graphs: Vec<Graph>,
}

/// `TensorProto`
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Tensor {
    #[prost(int64, repeated, tag = "1")]
    pub(crate) sizes: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub(crate) element: i32,
    #[prost(int64, repeated, tag = "7")]
    pub(crate) integers: Vec<i64>,
    #[prost(string, tag = "8")]
    pub(crate) name: String,
    /// Empty if it is long: see `SkippingFile`.
    #[prost(bytes = "bytes", tag = "9")]
    pub(crate) raw: Bytes,
    #[prost(message, repeated, tag = "13")]
    pub(crate) external: Vec<Entry>,
    /// `DataLocation`: 1 if the values lie in another file.
    #[prost(int32, tag = "14")]
    pub(crate) location: i32,
}

/// `StringStringEntryProto`
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Entry {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

/// `ValueInfoProto`
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ValueInfo {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) kind: Option<Type>,
}

/// `TypeProto`
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Type {
    #[prost(message, optional, tag = "1")]
    pub(crate) tensor: Option<TensorType>,
}

/// `TypeProto.Tensor`
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TensorType {
    #[prost(int32, tag = "1")]
    pub(crate) element: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) shape: Option<Shape>,
}

/// `TensorShapeProto`
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Shape {
    #[prost(message, repeated, tag = "1")]
    pub(crate) dimensions: Vec<Dimension>,
}

/// `TensorShapeProto.Dimension`
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Dimension {
    #[prost(int64, optional, tag = "1")]
    pub(crate) size: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub(crate) name: Option<String>,
}
