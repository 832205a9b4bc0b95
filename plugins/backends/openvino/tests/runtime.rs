//! OpenVINO follows its settings and reports them; a setting that it cannot follow is an error.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use plugin_api::client::{
    Backend, DataType, Dimension, Error, ErrorCode, LoadRequest, Model, Session, TensorView,
};
use rten_onnx::onnx::{
    DataLocation, DataType as OnnxType, Dimension as OnnxDimension, GraphProto, ModelProto,
    NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorProto, TensorShapeProto,
    TypeProto, TypeProtoTensor, ValueInfoProto,
};

const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../manifests/data/digits.onnx");
const CPU: &str = "cpu:0";

/// Only one backend of a library may be alive.
fn backend() -> (Backend, MutexGuard<'static, ()>) {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // SAFETY: this is the backend's own entry point, and tests take turns.
    (unsafe { Backend::open(backend_openvino::tare_backend_v1) }.expect("the entry point"), turn)
}

fn load_on(
    backend: &Backend,
    device: &str,
    path: impl AsRef<Path>,
    options: &[(&str, &str)],
) -> Result<Model, Error> {
    let path = path.as_ref().to_str().expect("UTF-8");
    backend.load(&LoadRequest { path, device, threads: Some(1), options })
}

fn load(
    backend: &Backend,
    path: impl AsRef<Path>,
    options: &[(&str, &str)],
) -> Result<Model, Error> {
    load_on(backend, CPU, path, options)
}

fn used<'a>(session: &'a Session, key: &str) -> Option<&'a str> {
    session.used().iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
}

/// Returns a tensor of shape `[n, 2]`.
fn value(name: &str, element: OnnxType) -> ValueInfoProto {
    let dim = vec![
        OnnxDimension { dim_value: None, dim_param: Some("n".into()) },
        OnnxDimension { dim_value: Some(2), dim_param: None },
    ];
    value_of(name, element, dim)
}

fn value_of(name: &str, element: OnnxType, dim: Vec<OnnxDimension>) -> ValueInfoProto {
    let shape = Some(TensorShapeProto { dim });
    let tensor_type = Some(TypeProtoTensor { elem_type: Some(element), shape });
    ValueInfoProto {
        name: Some(name.into()),
        r#type: Some(TypeProto { tensor_type, sequence: None }),
    }
}

fn node(operator: &str, inputs: &[&str], output: &str) -> NodeProto {
    NodeProto {
        name: Some(format!("the_{operator}")),
        op_type: Some(operator.into()),
        input: inputs.iter().map(|input| (*input).to_owned()).collect(),
        output: vec![output.into()],
        ..NodeProto::default()
    }
}

/// Returns a model from `x` to `y`.
fn model(
    folder: &Path,
    name: &str,
    (input, output): (OnnxType, OnnxType),
    node: Vec<NodeProto>,
    initializer: Vec<TensorProto>,
) -> PathBuf {
    let model = ModelProto {
        ir_version: Some(8),
        opset_import: vec![OperatorSetIdProto { domain: None, version: Some(17) }],
        graph: Some(GraphProto {
            node,
            initializer,
            input: vec![value("x", input)],
            output: vec![value("y", output)],
            value_info: Vec::new(),
        }),
        ..ModelProto::default()
    };
    let path = folder.join(format!("{name}.onnx"));
    std::fs::write(&path, model.write_buf().expect("a model")).expect("the folder is writable");
    path
}

fn scalar(name: &str, element: OnnxType, value: TensorProto) -> TensorProto {
    TensorProto { name: Some(name.into()), data_type: Some(element), dims: vec![1], ..value }
}

/// Writes one operator on `x` and a constant of two elements in a separate file.
fn with_external_data(folder: &Path) -> PathBuf {
    let bytes: Vec<u8> = [10.0_f32, 20.0].into_iter().flat_map(f32::to_le_bytes).collect();
    std::fs::write(folder.join("weights.bin"), bytes).expect("the folder is writable");
    let entry = |key: &str, value: &str| StringStringEntryProto {
        key: Some(key.into()),
        value: Some(value.into()),
    };
    let weights = TensorProto {
        name: Some("w".into()),
        data_type: Some(OnnxType::FLOAT),
        dims: vec![2],
        data_location: Some(DataLocation::EXTERNAL),
        external_data: vec![
            entry("location", "weights.bin"),
            entry("offset", "0"),
            entry("length", "8"),
        ],
        ..TensorProto::default()
    };
    let float = (OnnxType::FLOAT, OnnxType::FLOAT);
    model(folder, "external", float, vec![node("Add", &["x", "w"], "y")], vec![weights])
}

/// Returns a quantised product of `x` with 2.
fn quantised(folder: &Path) -> PathBuf {
    let float = |value: f32| TensorProto { float_data: vec![value], ..TensorProto::default() };
    let zero = TensorProto { int32_data: vec![0], ..TensorProto::default() };
    let nodes = vec![
        node("QuantizeLinear", &["x", "scale", "zero"], "q"),
        node("DequantizeLinear", &["q", "scale", "zero"], "d"),
        node("Mul", &["d", "two"], "y"),
    ];
    let initializers = vec![
        TensorProto { dims: Vec::new(), ..scalar("scale", OnnxType::FLOAT, float(1.0)) },
        TensorProto { dims: Vec::new(), ..scalar("zero", OnnxType::INT8, zero) },
        scalar("two", OnnxType::FLOAT, float(2.0)),
    ];
    model(folder, "quantised", (OnnxType::FLOAT, OnnxType::FLOAT), nodes, initializers)
}

fn run<T: Copy>(
    model: &Model,
    session: &Session,
    dtype: DataType,
    values: &[T],
    to_bytes: impl Fn(T) -> Vec<u8>,
) -> Result<Vec<u8>, Error> {
    let bytes: Vec<u8> = values.iter().copied().flat_map(to_bytes).collect();
    let shape = [values.len() as i64 / 2, 2];
    let view = TensorView { dtype, shape: &shape, strides: None, bytes: &bytes };
    let mut call = session.call(vec![model.tensor(view)?])?;
    call.run()?;
    Ok(call.read_output(0)?.bytes)
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|bytes| f32::from_ne_bytes(bytes.try_into().expect("four"))).collect()
}

fn run_floats(model: &Model, session: &Session, values: &[f32]) -> Result<Vec<f32>, Error> {
    let bytes = run(model, session, DataType::F32, values, |value| value.to_ne_bytes().to_vec())?;
    Ok(floats(&bytes))
}

#[test]
#[ignore = "needs OpenVINO: set TARE_RUNTIME to the folder of its libraries, and ask for ignored tests"]
fn the_processor_is_there_and_described() {
    let (backend, _turn) = backend();
    let description = backend.describe().expect("a description");
    assert!(description.engine_version.starts_with("20"), "{}", description.engine_version);
    let devices = backend.devices().expect("devices");
    let ids: Vec<_> = devices.iter().map(|device| device.id.as_str()).collect();
    assert_eq!(ids.first(), Some(&CPU));
    assert_eq!(ids.last(), Some(&"auto:0"));
    let cpu = &devices[0];
    assert!(cpu.precisions.contains(&"fp32".to_owned()), "{:?}", cpu.precisions);
    let attribute =
        |key: &str| cpu.attributes.iter().any(|(known, value)| known == key && !value.is_empty());
    for key in ["device", "architecture", "capabilities", "runtime", "plugin"] {
        assert!(attribute(key), "{key} is missing from {:?}", cpu.attributes);
    }
}

#[test]
#[ignore = "needs OpenVINO: set TARE_RUNTIME to the folder of its libraries, and ask for ignored tests"]
fn a_device_that_is_not_there_is_named_with_the_reason() {
    let (backend, _turn) = backend();
    let devices = backend.devices().expect("devices");
    let auto = devices.last().expect("AUTO");
    for kind in ["gpu", "npu"] {
        if devices.iter().any(|device| device.kind == kind) {
            continue;
        }
        let error = load_on(&backend, &format!("{kind}:0"), DIGITS, &[]).expect_err("no device");
        assert_eq!(error.code, ErrorCode::NotFound);
        let key = format!("without-{kind}");
        let attribute = auto.attributes.iter().find(|(known, _)| *known == key);
        let (_, reason) = attribute.expect("a reason");
        for library in [("gpu", "libOpenCL.so.1"), ("npu", "libze_loader.so.1")] {
            let (of, name) = library;
            // SAFETY: the library is the system's, and opening it runs its own start-up.
            let is_there = unsafe { libloading::Library::new(name) }.is_ok();
            assert_eq!(reason.contains(name), of == kind && !is_there, "{reason}");
        }
        let message = format!(
            "there is no device `{kind}:0`; there is `cpu:0`, `auto:0`; OpenVINO finds no {}: {reason}",
            kind.to_uppercase()
        );
        assert_eq!(error.message, message);
    }
}

#[test]
#[ignore = "needs OpenVINO: set TARE_RUNTIME to the folder of its libraries, and ask for ignored tests"]
fn the_digits_model_is_described_with_the_names_of_its_axes() {
    let (backend, _turn) = backend();
    let model = load(&backend, DIGITS, &[]).expect("the model");
    let info = model.info();
    assert_eq!(info.inputs[0].name, "image");
    assert_eq!(info.inputs[0].dtype, Some(DataType::F32));
    let batch = Dimension::Dynamic("batch".into());
    let image = [batch.clone(), Dimension::Fixed(1), Dimension::Fixed(8), Dimension::Fixed(8)];
    assert_eq!(info.inputs[0].dimensions.as_deref(), Some(image.as_slice()));
    assert_eq!(info.outputs[0].name, "logits");
    assert_eq!(
        info.outputs[0].dimensions.as_deref(),
        Some([batch, Dimension::Fixed(10)].as_slice())
    );
}

#[test]
#[ignore = "needs OpenVINO: set TARE_RUNTIME to the folder of its libraries, and ask for ignored tests"]
fn what_is_set_is_read_back() {
    let (backend, _turn) = backend();
    let options = [
        ("performance-hint", "throughput"),
        ("streams", "1"),
        ("execution-mode", "accuracy"),
        ("cpu-pinning", "false"),
        ("hyper-threading", "true"),
        ("property.SCHEDULING_CORE_TYPE", "ANY_CORE"),
        ("property.DYNAMIC_QUANTIZATION_GROUP_SIZE", "0"),
    ];
    let model = load(&backend, DIGITS, &options).expect("the model");
    let session = model.prepare("fp32", &[vec![2, 1, 8, 8]]).expect("a session");
    for (key, value) in [
        ("precision", "fp32"),
        ("inference-precision", "f32"),
        ("threads", "1"),
        ("streams", "1"),
        ("requests", "1"),
        ("performance-hint", "THROUGHPUT"),
        ("execution-mode", "ACCURACY"),
        ("cpu-pinning", "NO"),
        ("provider", "CPU"),
        ("property.SCHEDULING_CORE_TYPE", "ANY_CORE"),
        ("property.DYNAMIC_QUANTIZATION_GROUP_SIZE", "0"),
    ] {
        assert_eq!(used(&session, key), Some(value), "{key} of {:?}", session.used());
    }
    let model = load(&backend, DIGITS, &[]).expect("the model");
    let session = model.prepare("fp32", &[vec![2, 1, 8, 8]]).expect("a session");
    assert_eq!(used(&session, "performance-hint"), Some("LATENCY"));
    assert_eq!(used(&session, "execution-mode"), Some("PERFORMANCE"));
    assert_eq!(used(&session, "streams"), Some("1"));
}

#[test]
#[ignore = "needs OpenVINO: set TARE_RUNTIME to the folder of its libraries, and ask for ignored tests"]
fn auto_says_where_it_runs_and_what_it_hands_on() {
    let (backend, _turn) = backend();
    let options = [("streams", "1"), ("cpu-pinning", "false"), ("placement", "strict")];
    let model = load_on(&backend, "auto:0", DIGITS, &options).expect("the model");
    let session = model.prepare("fp32", &[vec![2, 1, 8, 8]]).expect("a session");
    assert!(used(&session, "provider").is_some_and(|provider| !provider.is_empty()));
    if used(&session, "provider") == Some("CPU") {
        assert_eq!(used(&session, "inference-precision"), Some("f32"));
        assert_eq!(used(&session, "threads"), Some("1"));
        assert_eq!(used(&session, "cpu-pinning"), Some("NO"));
    }
}

#[test]
#[ignore = "needs OpenVINO: set TARE_RUNTIME to the folder of its libraries, and ask for ignored tests"]
fn options_that_mean_nothing_are_refused() {
    let (backend, _turn) = backend();
    for (option, value, message) in [
        ("streams", "0", "option `streams` cannot be `0`"),
        ("streams", "many", "option `streams` cannot be `many`"),
        ("performance-hint", "fast", "it is latency or throughput or cumulative-throughput"),
        ("cpu-pinning", "maybe", "option `cpu-pinning` cannot be `maybe`: it is true or false"),
        ("placement", "loose", "option `placement` cannot be `loose`"),
        ("property.NO_SUCH_THING", "1", "`property.NO_SUCH_THING` has no effect on cpu:0"),
        ("property.INFERENCE_PRECISION_HINT", "bf16", "`precision` of the matrix sets it"),
        ("property.NUM_STREAMS", "2", "the option `streams` sets it"),
    ] {
        let error = load(&backend, DIGITS, &[(option, value)]).expect_err(option);
        assert_eq!(error.code, ErrorCode::InvalidArgument, "{error}");
        assert!(error.message.contains(message), "{error}");
    }
    // OpenVINO checks these options when it compiles.
    let model =
        load(&backend, DIGITS, &[("property.SCHEDULING_CORE_TYPE", "BEST")]).expect("a model");
    let error = model.prepare("fp32", &[vec![1, 1, 8, 8]]).expect_err("no such value");
    assert!(error.message.starts_with("cpu:0 cannot compile the model"), "{error}");
    assert!(error.message.contains("SCHEDULING_CORE_TYPE"), "{error}");
}

#[test]
#[ignore = "needs OpenVINO: set TARE_RUNTIME to the folder of its libraries, and ask for ignored tests"]
fn a_precision_is_what_the_device_offers_and_the_file_has() {
    let (backend, _turn) = backend();
    let folder = tempfile::tempdir().expect("a folder");
    let offered = backend.devices().expect("devices").swap_remove(0).precisions;
    let model = load(&backend, DIGITS, &[]).expect("the model");
    for precision in ["fp16", "bf16"] {
        let prepared = model.prepare(precision, &[vec![1, 1, 8, 8]]);
        match offered.iter().any(|one| one == precision) {
            true => {
                let session = prepared.expect("a session");
                let hint = precision.replace("fp", "f");
                assert_eq!(used(&session, "inference-precision"), Some(hint.as_str()));
            }
            false => {
                let error = prepared.expect_err("not offered");
                assert_eq!(error.code, ErrorCode::Unsupported);
                let message =
                    format!("{precision} is not offered by cpu:0; {} is", offered.join(", "));
                assert_eq!(error.message, message);
            }
        }
    }
    let error = model.prepare("int8", &[vec![1, 1, 8, 8]]).expect_err("not quantised");
    assert!(error.message.contains("is not quantised"), "{error}");

    let path = quantised(folder.path());
    let model = load(&backend, &path, &[]).expect("the model");
    let error = model.prepare("fp32", &[vec![1, 2]]).expect_err("quantised");
    assert!(error.message.contains("computes in int8, not in fp32"), "{error}");
    let session = model.prepare("int8", &[vec![1, 2]]).expect("a session");
    assert_eq!(used(&session, "precision"), Some("int8"));
    assert_eq!(used(&session, "inference-precision"), Some("f32"));
    // Values are rounded to whole numbers, ties to even, and limited to 127.
    let output = run_floats(&model, &session, &[2.6, 900.0]).expect("a run");
    assert_eq!(output, [6.0, 254.0]);
}

#[test]
#[ignore = "needs OpenVINO: set TARE_RUNTIME to the folder of its libraries, and ask for ignored tests"]
fn models_with_external_data_are_read_or_named() {
    let (backend, _turn) = backend();
    let folder = tempfile::tempdir().expect("a folder");
    let path = with_external_data(folder.path());
    let model = load(&backend, &path, &[]).expect("the model");
    let session = model.prepare("fp32", &[vec![2, 2]]).expect("a session");
    let output = run_floats(&model, &session, &[1.0, 2.0, 3.0, 4.0]).expect("a run");
    assert_eq!(output, [11.0, 22.0, 13.0, 24.0]);
    drop((session, model));

    let weights = folder.path().join("weights.bin");
    std::fs::write(&weights, [0; 4]).expect("the folder is writable");
    let error = load(&backend, &path, &[]).expect_err("cut off");
    assert_eq!(error.code, ErrorCode::InvalidModel, "{error}");
    assert!(error.message.contains("weights.bin"), "{error}");
    std::fs::remove_file(&weights).expect("the folder is writable");
    let error = load(&backend, &path, &[]).expect_err("missing");
    assert_eq!(error.code, ErrorCode::NotFound, "{error}");
    assert!(error.message.contains("weights.bin"), "{error}");
}

#[test]
#[ignore = "needs OpenVINO: set TARE_RUNTIME to the folder of its libraries, and ask for ignored tests"]
fn damaged_models_are_errors_that_name_the_file() {
    let (backend, _turn) = backend();
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("the folder is writable");
        path
    };
    let whole = std::fs::read(DIGITS).expect("the model");
    let mut broken = vec![
        write("empty.onnx", &[]),
        write("garbage.onnx", &[0xff; 100]),
        write("half.onnx", &whole[..whole.len() / 2]),
        write("empty.xml", &[]),
        write("page.xml", b"<html><body/></html>"),
        write(
            "open.xml",
            b"<?xml version=\"1.0\"?><net name=\"m\" version=\"11\"><layers><layer id=\"0\"",
        ),
        write("none.xml", b"<?xml version=\"1.0\"?><net name=\"m\" version=\"11\"></net>"),
    ];
    let unknown = vec![node("Frobnicate", &["x"], "y")];
    let float = (OnnxType::FLOAT, OnnxType::FLOAT);
    let dangling = vec![node("Add", &["x", "nothing"], "y")];
    broken.push(model(folder.path(), "dangling", float, dangling, Vec::new()));
    for path in broken {
        let error = load(&backend, &path, &[]).expect_err("no model");
        assert_eq!(error.code, ErrorCode::InvalidModel, "{error}");
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(error.message.contains(name), "{error}");
    }
    let path = model(folder.path(), "unknown", float, unknown, Vec::new());
    let error = load(&backend, &path, &[]).expect_err("no such operator");
    assert_eq!(error.code, ErrorCode::Unsupported, "{error}");
    assert!(error.message.contains("Frobnicate"), "{error}");
}

#[test]
#[ignore = "needs OpenVINO: set TARE_RUNTIME to the folder of its libraries, and ask for ignored tests"]
fn inputs_of_another_type_or_shape_are_refused() {
    let (backend, _turn) = backend();
    let model = load(&backend, DIGITS, &[]).expect("the model");
    let session = model.prepare("fp32", &[vec![1, 1, 8, 8]]).expect("a session");
    let bytes = [0; 64 * 8];
    let shape = [1, 1, 8, 8];
    for dtype in [DataType::F64, DataType::I64, DataType::I32, DataType::F16, DataType::BOOL] {
        let bytes = &bytes[..64 * dtype.size()];
        let tensor = model.tensor(TensorView { dtype, shape: &shape, strides: None, bytes });
        let mut call = session.call(vec![tensor.expect("a tensor")]).expect("a call");
        let error = call.run().expect_err("another type");
        assert_eq!(error.code, ErrorCode::InvalidArgument);
        let message =
            format!("input `image` is {dtype} [1, 1, 8, 8], expected float32 [1, 1, 8, 8]");
        assert_eq!(error.message, message);
        // A failed attempt leaves no state: the next error is the same.
        assert_eq!(call.enqueue().expect_err("another type").message, message);
    }
}

#[test]
#[ignore = "needs OpenVINO: set TARE_RUNTIME to the folder of its libraries, and ask for ignored tests"]
fn no_example_and_very_many_are_no_crash() {
    let (backend, _turn) = backend();
    let folder = tempfile::tempdir().expect("a folder");
    let two = TensorProto { float_data: vec![2.0], ..TensorProto::default() };
    let two = scalar("two", OnnxType::FLOAT, two);
    let float = (OnnxType::FLOAT, OnnxType::FLOAT);
    let path =
        model(folder.path(), "double", float, vec![node("Mul", &["x", "two"], "y")], vec![two]);
    let model = load(&backend, &path, &[]).expect("the model");

    let error = model.prepare("fp32", &[vec![0, 2]]).expect_err("no example");
    assert_eq!(error.code, ErrorCode::Unsupported);
    assert_eq!(
        error.message,
        "OpenVINO does not support an axis of size 0; the shapes are [[0, 2]]"
    );

    let many: Vec<f32> = (0..1 << 20).map(|number| number as f32).collect();
    let session = model.prepare("fp32", &[vec![1 << 19, 2]]).expect("a session");
    let output = run_floats(&model, &session, &many).expect("a run");
    assert!(output.iter().zip(&many).all(|(output, input)| *output == 2.0 * input));

    // This is more than any machine has.
    let outcome = model.prepare("fp32", &[vec![1 << 50, 2]]).map(drop);
    if let Err(error) = outcome {
        assert_ne!(error.code, ErrorCode::Internal, "{error}");
    }
}

#[test]
#[ignore = "needs OpenVINO: set TARE_RUNTIME to the folder of its libraries, and ask for ignored tests"]
fn outputs_whose_shape_depends_on_the_values_come_out_whole() {
    let (backend, _turn) = backend();
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = vec![node("NonZero", &["x"], "y")];
    let path =
        model(folder.path(), "nonzero", (OnnxType::FLOAT, OnnxType::INT64), nodes, Vec::new());
    let model = load(&backend, &path, &[]).expect("the model");
    let session = model.prepare("fp32", &[vec![2, 2]]).expect("a session");
    let bytes: Vec<u8> = [0.0_f32, 5.0, 7.0, 0.0].into_iter().flat_map(f32::to_ne_bytes).collect();
    let view = TensorView { dtype: DataType::F32, shape: &[2, 2], strides: None, bytes: &bytes };
    let mut call = session.call(vec![model.tensor(view).expect("a tensor")]).expect("a call");
    for _ in 0..3 {
        call.enqueue().expect("a run");
        let output = call.read_output(0).expect("an output");
        assert_eq!((output.dtype, output.shape), (DataType::I64, vec![2, 2]));
        let expected: Vec<u8> = [0_i64, 1, 1, 0].into_iter().flat_map(i64::to_ne_bytes).collect();
        assert_eq!(output.bytes, expected);
    }
}

/// OpenVINO's own format: `y` is `x` of shape `[n, 2]` plus two constants.
const REPRESENTATION: &str = r#"<?xml version="1.0"?>
<net name="sum" version="11">
<layers>
<layer id="0" name="x" type="Parameter" version="opset1">
<data shape="?,2" element_type="f32"/>
<output><port id="0" precision="FP32" names="x"><dim>-1</dim><dim>2</dim></port></output>
</layer>
<layer id="1" name="w" type="Const" version="opset1">
<data element_type="f32" shape="1, 2" offset="0" size="8"/>
<output><port id="0" precision="FP32"><dim>1</dim><dim>2</dim></port></output>
</layer>
<layer id="2" name="sum" type="Add" version="opset1">
<data auto_broadcast="numpy"/>
<input>
<port id="0" precision="FP32"><dim>-1</dim><dim>2</dim></port>
<port id="1" precision="FP32"><dim>1</dim><dim>2</dim></port>
</input>
<output><port id="2" precision="FP32" names="y"><dim>-1</dim><dim>2</dim></port></output>
</layer>
<layer id="3" name="y/sink" type="Result" version="opset1">
<input><port id="0" precision="FP32"><dim>-1</dim><dim>2</dim></port></input>
</layer>
</layers>
<edges>
<edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
<edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>
</edges>
</net>
"#;

#[test]
#[ignore = "needs OpenVINO: set TARE_RUNTIME to the folder of its libraries, and ask for ignored tests"]
fn its_own_format_is_read_with_the_weights_beside_it() {
    let (backend, _turn) = backend();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sum.xml");
    std::fs::write(&path, REPRESENTATION).expect("the folder is writable");
    let weights: Vec<u8> = [10.0_f32, 20.0].into_iter().flat_map(f32::to_le_bytes).collect();
    std::fs::write(folder.path().join("sum.bin"), &weights).expect("the folder is writable");
    let model = load(&backend, &path, &[]).expect("the model");
    assert_eq!(
        (model.info().inputs[0].name.as_str(), model.info().outputs[0].name.as_str()),
        ("x", "y")
    );
    // The format has no names of axes.
    let axes = [Dimension::Dynamic(String::new()), Dimension::Fixed(2)];
    assert_eq!(model.info().inputs[0].dimensions.as_deref(), Some(axes.as_slice()));
    for values in [vec![1.0, 2.0], vec![1.0, 2.0, 3.0, 4.0]] {
        let session =
            model.prepare("fp32", &[vec![values.len() as i64 / 2, 2]]).expect("a session");
        let output = run_floats(&model, &session, &values).expect("a run");
        let expected: Vec<f32> =
            values.iter().zip([10.0, 20.0].iter().cycle()).map(|(a, b)| a + b).collect();
        assert_eq!(output, expected);
    }
    drop(model);
    std::fs::write(folder.path().join("sum.bin"), &weights[..7]).expect("the folder is writable");
    let error = load(&backend, &path, &[]).expect_err("cut off");
    assert_eq!(error.code, ErrorCode::InvalidModel, "{error}");
}

#[test]
#[ignore = "needs OpenVINO: set TARE_RUNTIME to the folder of its libraries, and ask for ignored tests"]
fn numbers_without_an_axis_go_in_and_come_out() {
    let (backend, _turn) = backend();
    let folder = tempfile::tempdir().expect("a folder");
    let float = OnnxType::FLOAT;
    let model = ModelProto {
        ir_version: Some(8),
        opset_import: vec![OperatorSetIdProto { domain: None, version: Some(17) }],
        graph: Some(GraphProto {
            node: vec![node("Mul", &["x", "s"], "y"), node("Add", &["s", "s"], "z")],
            initializer: Vec::new(),
            input: vec![value("x", float), value_of("s", float, Vec::new())],
            output: vec![value("y", float), value_of("z", float, Vec::new())],
            value_info: Vec::new(),
        }),
        ..ModelProto::default()
    };
    let path = folder.path().join("scalar.onnx");
    std::fs::write(&path, model.write_buf().expect("a model")).expect("the folder is writable");
    let model = load(&backend, &path, &[]).expect("the model");
    assert_eq!(model.info().inputs[1].dimensions.as_deref(), Some(&[][..]));
    let session = model.prepare("fp32", &[vec![1, 2], Vec::new()]).expect("a session");
    let tensor = |shape: &[i64], values: &[f32]| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        let view = TensorView { dtype: DataType::F32, shape, strides: None, bytes: &bytes };
        model.tensor(view).expect("a tensor")
    };
    let inputs = vec![tensor(&[1, 2], &[1.0, 2.0]), tensor(&[], &[3.0])];
    let mut call = session.call(inputs).expect("a call");
    call.run().expect("a run");
    assert_eq!(floats(&call.read_output(0).expect("an output").bytes), [3.0, 6.0]);
    let number = call.read_output(1).expect("an output");
    assert_eq!((number.shape.as_slice(), floats(&number.bytes)), (&[][..], vec![6.0]));
}

#[test]
#[ignore = "needs OpenVINO: set TARE_RUNTIME to the folder of its libraries, and ask for ignored tests"]
fn enqueued_runs_that_share_tensors_are_done_in_order() {
    let (backend, _turn) = backend();
    let folder = tempfile::tempdir().expect("a folder");
    let one = TensorProto { float_data: vec![1.0], ..TensorProto::default() };
    let path = increment(folder.path(), "chain", OnnxType::FLOAT, one);
    let options = [("streams", "4")];
    let path = path.to_str().expect("UTF-8");
    let request = LoadRequest { path, device: CPU, threads: None, options: &options };
    let model = backend.load(&request).expect("the model");
    let session = model.prepare("fp32", &[vec![1, 2]]).expect("a session");
    let bytes = [0; 8];
    let view = TensorView { dtype: DataType::F32, shape: &[1, 2], strides: None, bytes: &bytes };
    let mut calls: Vec<_> = (0..20)
        .map(|_| session.call(vec![model.tensor(view).expect("a tensor")]).expect("a call"))
        .collect();
    for _ in 0..10 {
        for call in &mut calls {
            call.enqueue().expect("a run");
        }
    }
    session.synchronise().expect("all are done");
    for call in &mut calls {
        assert_eq!(floats(&call.read_output(0).expect("an output").bytes), [1.0, 1.0]);
    }
}

/// Returns a model that adds 1 to `x`.
fn increment(folder: &Path, name: &str, element: OnnxType, one: TensorProto) -> PathBuf {
    let one = scalar("one", element, one);
    model(folder, name, (element, element), vec![node("Add", &["x", "one"], "y")], vec![one])
}

#[test]
#[ignore = "needs OpenVINO: set TARE_RUNTIME to the folder of its libraries, and ask for ignored tests"]
fn what_is_narrowed_is_said_to_be_and_what_does_not_fit_is_refused() {
    let (backend, _turn) = backend();
    let folder = tempfile::tempdir().expect("a folder");
    let one = TensorProto { int64_data: vec![1], ..TensorProto::default() };
    let path = increment(folder.path(), "int64", OnnxType::INT64, one);
    let model = load(&backend, &path, &[]).expect("the model");
    let session = model.prepare("fp32", &[vec![1, 2]]).expect("a session");
    assert_eq!(used(&session, "converted"), Some("int64 to int32"));
    let run_wide = |values: [i64; 2]| {
        run(&model, &session, DataType::I64, &values, |value| value.to_ne_bytes().to_vec())
    };
    let output = run_wide([41, -3]).expect("a run");
    assert_eq!(output, [42_i64, -2].map(i64::to_ne_bytes).concat());
    let error = run_wide([0, 1 << 40]).expect_err("too large");
    assert_eq!(error.code, ErrorCode::Unsupported);
    assert!(error.message.starts_with("1099511627776 does not fit into int32"), "{error}");
    // This is the reason: the sum exceeds 32 bits and is truncated without an error.
    let output = run_wide([i64::from(i32::MAX), 0]).expect("a run");
    assert_eq!(output[..8], i64::from(i32::MIN).to_ne_bytes());

    let one = TensorProto { double_data: vec![1.0], ..TensorProto::default() };
    let path = increment(folder.path(), "float64", OnnxType::DOUBLE, one);
    let model = load(&backend, &path, &[]).expect("the model");
    let session = model.prepare("fp32", &[vec![1, 2]]).expect("a session");
    assert_eq!(used(&session, "converted"), Some("float64 to float32"));
    let values = [0.0, 1.0 / (1_u64 << 40) as f64];
    let output =
        run(&model, &session, DataType::F64, &values, |value| value.to_ne_bytes().to_vec());
    assert_eq!(output.expect("a run"), [1.0_f64, 1.0].map(f64::to_ne_bytes).concat());
}

#[test]
#[ignore = "needs OpenVINO: set TARE_RUNTIME to the folder of its libraries, and ask for ignored tests"]
fn operators_are_told_with_what_they_took() {
    let (backend, _turn) = backend();
    let model = load(&backend, DIGITS, &[]).expect("the model");
    let session = model.prepare("fp32", &[vec![64, 1, 8, 8]]).expect("a session");
    let bytes = vec![0; 64 * 64 * 4];
    let shape = [64, 1, 8, 8];
    let view = TensorView { dtype: DataType::F32, shape: &shape, strides: None, bytes: &bytes };
    let input = model.tensor(view).expect("a tensor");
    let mut call = session.call(vec![input]).expect("a call");
    let operators = call.profile().expect("it is offered").expect("a profile");
    assert!(operators.iter().any(|operator| operator.kind == "Convolution"), "{operators:?}");
    assert!(operators.iter().all(|operator| operator.provider == "CPU"), "{operators:?}");
    assert!(operators.iter().any(|operator| operator.duration_ns > 0), "{operators:?}");
    assert!(operators.is_sorted_by_key(|operator| operator.start_ns), "{operators:?}");
}
