//! The messages of an ONNX file that are written here, with the numbers of their fields in `onnx.proto`.

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
}

/// `OperatorSetIdProto`
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OperatorSet {
    #[prost(string, optional, tag = "1")]
    pub(crate) domain: Option<String>,
    #[prost(int64, tag = "2")]
    pub(crate) version: i64,
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
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    #[prost(string, tag = "4")]
    pub(crate) operator: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) attributes: Vec<Attribute>,
}

/// `AttributeProto`
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Attribute {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(float, optional, tag = "2")]
    pub(crate) float: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub(crate) integer: Option<i64>,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub(crate) text: Option<Vec<u8>>,
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub(crate) integers: Vec<i64>,
    /// `AttributeType`: 1 for a float, 2 for an integer, 3 for a text, 7 for integers.
    #[prost(int32, tag = "20")]
    pub(crate) kind: i32,
}

/// `TensorProto`
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Tensor {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub(crate) sizes: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub(crate) element: i32,
    #[prost(string, tag = "8")]
    pub(crate) name: String,
    #[prost(bytes = "vec", optional, tag = "9")]
    pub(crate) raw: Option<Vec<u8>>,
    #[prost(message, repeated, tag = "13")]
    pub(crate) external: Vec<Entry>,
    /// `DataLocation`: 1 if the values lie in another file.
    #[prost(int32, optional, tag = "14")]
    pub(crate) location: Option<i32>,
}

/// `StringStringEntryProto`
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Entry {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

impl Entry {
    pub(crate) fn new(key: &str, value: impl ToString) -> Self {
        Self { key: key.to_owned(), value: value.to_string() }
    }
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
