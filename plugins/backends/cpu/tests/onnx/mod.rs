//! Models of one operator, as files.

use std::path::{Path, PathBuf};

use rten_onnx::onnx::{
    DataType as OnnxType, Dimension, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorProto, TensorShapeProto, TypeProto, TypeProtoTensor, ValueInfoProto,
};

/// Returns a tensor of shape `[n]`.
fn value(name: &str, element: OnnxType) -> ValueInfoProto {
    let dim = vec![Dimension { dim_value: None, dim_param: Some("n".into()) }];
    let shape = Some(TensorShapeProto { dim });
    let tensor_type = Some(TypeProtoTensor { elem_type: Some(element), shape });
    ValueInfoProto {
        name: Some(name.into()),
        r#type: Some(TypeProto { tensor_type, sequence: None }),
    }
}

/// Returns a model that applies one operator to `x` and a constant, both of one type.
pub(crate) fn model(folder: &Path, operator: &str, element: OnnxType, one: TensorProto) -> PathBuf {
    let node = NodeProto {
        name: Some("the_node".into()),
        op_type: Some(operator.into()),
        input: vec!["x".into(), "one".into()],
        output: vec!["y".into()],
        ..NodeProto::default()
    };
    let model = ModelProto {
        ir_version: Some(8),
        opset_import: vec![OperatorSetIdProto { domain: None, version: Some(17) }],
        graph: Some(GraphProto {
            node: vec![node],
            initializer: vec![TensorProto {
                name: Some("one".into()),
                data_type: Some(element),
                dims: vec![1],
                ..one
            }],
            input: vec![value("x", element)],
            output: vec![value("y", element)],
            value_info: Vec::new(),
        }),
        ..ModelProto::default()
    };
    let path = folder.join(format!("{operator}.onnx"));
    std::fs::write(&path, model.write_buf().expect("a model")).expect("the folder is writable");
    path
}
