//! Differences between ONNX Runtime and the embedded engine, and its refusals.

mod onnx;

use std::path::Path;

use plugin_api::client::{Backend, DataType, Error, ErrorCode, LoadRequest, Model, TensorView};
use rten_onnx::onnx::{DataType as OnnxType, TensorProto};

use onnx::model;

const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../manifests/data/digits.onnx");

fn load(backend: &Backend, path: &Path, options: &[(&str, &str)]) -> Result<Model, Error> {
    let options = [&[("engine", "onnxruntime")], options].concat();
    let path = path.to_str().expect("UTF-8");
    backend.load(&LoadRequest { path, device: "cpu:0", threads: Some(1), options: &options })
}

/// All in one, because only one backend of a library may be alive.
#[test]
#[ignore = "needs ONNX Runtime: name its folder in TARE_RUNTIME"]
fn onnxruntime_keeps_types_and_refuses_what_it_would_widen() {
    // SAFETY: this is the backend's own entry point, opened once.
    let backend = unsafe { Backend::open(backend_cpu::tare_backend_v1) }.expect("a backend");
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();

    // 64-bit integers keep their type.
    let one = TensorProto { int64_data: vec![1], ..TensorProto::default() };
    let add = load(&backend, &model(folder, "Add", OnnxType::INT64, one), &[]).expect("a model");
    let session = add.prepare("fp32", &[vec![2]]).expect("a session");
    let used = session.used();
    let has = |key: &str, value: &str| used.contains(&(key.to_owned(), value.to_owned()));
    assert!(has("engine", "onnxruntime") && has("provider", "CPUExecutionProvider"), "{used:?}");
    assert!(has("allow-spinning", "false") && has("graph-optimisation", "all"), "{used:?}");
    let bytes: Vec<u8> = [1_i64 << 40, -3].into_iter().flat_map(i64::to_ne_bytes).collect();
    let view = TensorView { dtype: DataType::I64, shape: &[2], strides: None, bytes: &bytes };
    let mut call = session.call(vec![add.tensor(view).expect("a tensor")]).expect("a call");
    call.run().expect("a run");
    let expected: Vec<u8> =
        [(1_i64 << 40) + 1, -2].into_iter().flat_map(i64::to_ne_bytes).collect();
    assert_eq!(call.read_output(0).expect("an output").bytes, expected);

    // An empty batch gives an empty output.
    let none = add.prepare("fp32", &[vec![0]]).expect("a session");
    let view = TensorView { dtype: DataType::I64, shape: &[0], strides: None, bytes: &[] };
    let mut call = none.call(vec![add.tensor(view).expect("a tensor")]).expect("a call");
    call.run().expect("a run");
    assert_eq!(call.read_output(0).expect("an output").shape, [0]);

    // A tensor of another type is refused, by name.
    let bytes: Vec<u8> = [1_f32, 2.0].into_iter().flat_map(f32::to_ne_bytes).collect();
    let view = TensorView { dtype: DataType::F32, shape: &[2], strides: None, bytes: &bytes };
    let tensor = add.tensor(view).expect("a tensor");
    let error = session.call(vec![tensor]).and_then(|mut call| call.run()).expect_err("float32");
    assert_eq!(error.code, ErrorCode::InvalidArgument);
    assert!(error.message.contains("input `x` is float32 [2]"), "{error}");

    // The file determines the precision.
    let digits = load(&backend, DIGITS.as_ref(), &[]).expect("a model");
    let error = digits.prepare("int8", &[vec![1, 1, 8, 8]]).expect_err("not in the file");
    assert_eq!(error.code, ErrorCode::Unsupported);
    assert!(error.message.contains("is a model in fp32"), "{error}");
    let half = TensorProto {
        raw_data: Some(std::cell::RefCell::new(vec![0, 0x3c])),
        ..TensorProto::default()
    };
    let half = load(&backend, &model(folder, "Mul", OnnxType::FLOAT16, half), &[]).expect("one");
    for precision in ["fp16", "fp32"] {
        let error = half.prepare(precision, &[vec![1]]).expect_err("widened");
        assert_eq!(error.code, ErrorCode::Unsupported, "{error}");
    }

    // An invalid model is distinguished from a missing one.
    let whole = std::fs::read(DIGITS).expect("the model");
    let cut = folder.join("cut.onnx");
    std::fs::write(&cut, &whole[..whole.len() - 1]).expect("the folder is writable");
    let error = load(&backend, &cut, &[]).expect_err("cut off");
    assert_eq!(error.code, ErrorCode::InvalidModel, "{error}");
    let unknown = TensorProto { int64_data: vec![1], ..TensorProto::default() };
    let unknown = model(folder, "Frobnicate", OnnxType::INT64, unknown);
    let error = load(&backend, &unknown, &[]).expect_err("no such operator");
    assert_eq!(error.code, ErrorCode::Unsupported, "{error}");
    assert!(error.message.contains("Frobnicate"), "{error}");

    // Options are read, and a wrong one is an error.
    let error = load(&backend, DIGITS.as_ref(), &[("optimise", "true")]).expect_err("rten's");
    assert!(error.message.starts_with("there is no option `optimise`"), "{error}");
    let error = load(&backend, DIGITS.as_ref(), &[("graph-optimisation", "much")]).expect_err("no");
    assert!(error.message.contains("disable, basic, extended, layout, all"), "{error}");
    let options = [("session.disable_prepacking", "1"), ("graph-optimisation", "basic")];
    let model = load(&backend, DIGITS.as_ref(), &options).expect("a model");
    let session = model.prepare("fp32", &[vec![1, 1, 8, 8]]).expect("a session");
    let entry = ("session.disable_prepacking".to_owned(), "1".to_owned());
    assert!(session.used().contains(&entry), "{:?}", session.used());
}
