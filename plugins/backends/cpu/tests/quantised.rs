//! A quantised model computes in integers, reports int8, and gives the results of integer arithmetic.

use plugin_api::client::{Backend, DataType, ErrorCode, LoadRequest, TensorView};
use plugin_testkit::{Fixture, Suite, Verdict};
use rten_onnx::onnx::{
    DataType as OnnxType, Dimension, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorProto, TensorShapeProto, TypeProto, TypeProtoTensor, ValueInfoProto,
};

const FIXTURE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../plugin-api/testkit/fixtures/quantised.toml");

/// Step of the quantised numbers, and the integer that stands for zero.
type Scale = (f32, i32);
const INPUT: Scale = (1.0 / 16.0, 128);
const WEIGHT: Scale = (1.0 / 32.0, 0);
const OUTPUT: Scale = (1.0 / 8.0, 10);

/// Four inputs by three outputs, in seven bits. Processors without VNNI add two products with unsigned eight bits in
/// sixteen bits, and these sums must fit.
const WEIGHTS: [[i8; 3]; 4] = [[50, -25, 63], [10, -63, 3], [-7, 32, 45], [27, -17, 60]];

fn fixture() -> Fixture {
    Fixture::read(FIXTURE.as_ref()).expect("a good fixture")
}

/// Rounds to the nearest step, ties to even, and saturates to unsigned eight bits.
fn quantise(value: f32, (step, zero): Scale) -> i32 {
    ((value / step).round_ties_even() as i32 + zero).clamp(0, 255)
}

/// Returns the model's outputs for a row, in integers.
fn by_hand(row: &[f64]) -> Vec<f64> {
    let quantised: Vec<i32> = row.iter().map(|value| quantise(*value as f32, INPUT)).collect();
    let sum = |output: usize| -> i32 {
        let products = quantised.iter().zip(WEIGHTS);
        products.map(|(value, weights)| (value - INPUT.1) * i32::from(weights[output])).sum()
    };
    let output = |output: usize| {
        let value = quantise(sum(output) as f32 * INPUT.0 * WEIGHT.0, OUTPUT);
        f64::from((value - OUTPUT.1) as f32 * OUTPUT.0)
    };
    (0..3).map(output).collect()
}

#[test]
fn the_fixtures_outputs_are_those_of_integers() {
    let fixture = fixture();
    let (given, right) = (&fixture.inputs[0].values, &fixture.outputs[0].values);
    let found: Vec<f64> = given.chunks_exact(4).flat_map(by_hand).collect();
    assert_eq!(*right, found);
    // An engine that does not quantise differs in every output by more than rounding.
    for (row, right) in given.chunks_exact(4).zip(right.chunks_exact(3)) {
        for (output, right) in right.iter().enumerate() {
            let products = row.iter().zip(WEIGHTS);
            let widened: f64 =
                products.map(|(value, weights)| value * f64::from(weights[output]) / 32.0).sum();
            assert!((widened - right).abs() > 0.02, "{widened} and {right}");
        }
    }
}

fn scalar(name: &str, element: OnnxType, tensor: TensorProto) -> TensorProto {
    TensorProto { name: Some(name.into()), data_type: Some(element), ..tensor }
}

fn float(value: f32) -> TensorProto {
    TensorProto { float_data: vec![value], ..TensorProto::default() }
}

fn integer(value: i32) -> TensorProto {
    TensorProto { int32_data: vec![value], ..TensorProto::default() }
}

fn node(operator: &str, name: &str, inputs: &[&str]) -> NodeProto {
    NodeProto {
        name: Some(format!("the_{name}")),
        op_type: Some(operator.into()),
        input: inputs.iter().map(|input| (*input).to_owned()).collect(),
        output: vec![name.into()],
        ..NodeProto::default()
    }
}

/// Returns a tensor of shape `[n, columns]`.
fn value(name: &str, columns: i64) -> ValueInfoProto {
    let dim = vec![
        Dimension { dim_value: None, dim_param: Some("n".into()) },
        Dimension { dim_value: Some(columns), dim_param: None },
    ];
    let tensor_type = Some(TypeProtoTensor {
        elem_type: Some(OnnxType::FLOAT),
        shape: Some(TensorShapeProto { dim }),
    });
    ValueInfoProto {
        name: Some(name.into()),
        r#type: Some(TypeProto { tensor_type, sequence: None }),
    }
}

/// Returns the model as quantising tools write it, with its operators between quantisation and dequantisation.
fn model() -> Vec<u8> {
    let weights = TensorProto {
        dims: vec![4, 3],
        int32_data: WEIGHTS.iter().flatten().map(|weight| i32::from(*weight)).collect(),
        ..TensorProto::default()
    };
    let initializer = vec![
        scalar("input_scale", OnnxType::FLOAT, float(INPUT.0)),
        scalar("input_zero", OnnxType::UINT8, integer(INPUT.1)),
        scalar("weights", OnnxType::INT8, weights),
        scalar("weights_scale", OnnxType::FLOAT, float(WEIGHT.0)),
        scalar("weights_zero", OnnxType::INT8, integer(WEIGHT.1)),
        scalar("output_scale", OnnxType::FLOAT, float(OUTPUT.0)),
        scalar("output_zero", OnnxType::UINT8, integer(OUTPUT.1)),
    ];
    let node = vec![
        node("QuantizeLinear", "input_q", &["x", "input_scale", "input_zero"]),
        node("DequantizeLinear", "input_d", &["input_q", "input_scale", "input_zero"]),
        node("DequantizeLinear", "weights_d", &["weights", "weights_scale", "weights_zero"]),
        node("MatMul", "product", &["input_d", "weights_d"]),
        node("QuantizeLinear", "output_q", &["product", "output_scale", "output_zero"]),
        node("DequantizeLinear", "y", &["output_q", "output_scale", "output_zero"]),
    ];
    let model = ModelProto {
        ir_version: Some(8),
        opset_import: vec![OperatorSetIdProto { domain: None, version: Some(17) }],
        graph: Some(GraphProto {
            node,
            initializer,
            input: vec![value("x", 4)],
            output: vec![value("y", 3)],
            value_info: Vec::new(),
        }),
        ..ModelProto::default()
    };
    model.write_buf().expect("a model")
}

/// `TARE_WRITE_FIXTURE` writes the file.
#[test]
fn the_fixtures_model_is_the_one_that_is_described_here() {
    let path = fixture().model;
    if std::env::var_os("TARE_WRITE_FIXTURE").is_some() {
        std::fs::write(&path, model()).expect("the repository can be written");
    }
    assert!(std::fs::read(&path).expect("the model") == model(), "{}", path.display());
}

/// All in one, because only one backend of a library may be alive.
#[test]
#[ignore = "needs ONNX Runtime: name its folder in TARE_RUNTIME"]
fn onnxruntime_computes_a_quantised_model_in_integers() {
    let mut fixture = fixture();
    fixture.options.insert("engine".into(), "onnxruntime".into());
    // SAFETY: this is the backend's own entry point, and nothing else opens it.
    let suite = unsafe { Suite::from_entry(backend_cpu::tare_backend_v1) };
    suite.check(&fixture).assert();
    // The model as written, with all its steps separate.
    fixture.options.insert("graph-optimisation".into(), "disable".into());
    assert_eq!(suite.check_one("outputs are right", &fixture), Some(Verdict::Holds));
    // The check can fail.
    fixture.outputs[0].values[0] += 0.125;
    assert!(matches!(suite.check_one("outputs are right", &fixture), Some(Verdict::Fails(_))));

    // SAFETY: as above; the suite has closed its instance.
    let backend = unsafe { Backend::open(backend_cpu::tare_backend_v1) }.expect("a backend");
    let path = fixture.model.to_str().expect("UTF-8");
    let options = [("engine", "onnxruntime")];
    let request = LoadRequest { path, device: "cpu:0", threads: Some(1), options: &options };
    let model = backend.load(&request).expect("a model");
    let error = model.prepare("fp32", &[vec![1, 4]]).expect_err("it would not be what was asked");
    assert_eq!(error.code, ErrorCode::Unsupported);
    assert!(error.message.contains("is a model in int8"), "{error}");
    let session = model.prepare("int8", &[vec![1, 4]]).expect("a session");
    let used = |key: &str| {
        session.used().iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    };
    assert_eq!((used("precision"), used("converted-from")), (Some("int8"), None));

    // The operator must be a product of integers; a float product with conversions would also give correct results.
    let bytes: Vec<u8> = [0.5_f32; 4].into_iter().flat_map(f32::to_ne_bytes).collect();
    let view = TensorView { dtype: DataType::F32, shape: &[1, 4], strides: None, bytes: &bytes };
    let mut call = session.call(vec![model.tensor(view).expect("a tensor")]).expect("a call");
    let operators = call.profile().expect("it is offered").expect("a profile");
    let kinds: Vec<&str> = operators.iter().map(|operator| operator.kind.as_str()).collect();
    assert!(kinds.contains(&"QLinearMatMul") && !kinds.contains(&"MatMul"), "{kinds:?}");
}
