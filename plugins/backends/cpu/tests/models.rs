//! Limits and conversions of the engine are reported.

mod onnx;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use plugin_api::client::{
    Backend, DataType, Dimension, Error, ErrorCode, LoadRequest, Model, TensorView,
};
use rten_onnx::onnx::{DataLocation, DataType as OnnxType, StringStringEntryProto, TensorProto};

use onnx::model;

const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../manifests/data/digits.onnx");

/// Only one backend of a library may be alive.
fn backend() -> (Backend, MutexGuard<'static, ()>) {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // SAFETY: this is the backend's own entry point, and tests take turns.
    (unsafe { Backend::open(backend_cpu::tare_backend_v1) }.expect("the entry point"), turn)
}

fn load(
    backend: &Backend,
    path: &Path,
    threads: Option<u32>,
    options: &[(&str, &str)],
) -> Result<Model, Error> {
    let path = path.to_str().expect("UTF-8");
    backend.load(&LoadRequest { path, device: "cpu:0", threads, options })
}

fn int64_model(folder: &Path, operator: &str) -> PathBuf {
    model(
        folder,
        operator,
        OnnxType::INT64,
        TensorProto { int64_data: vec![1], ..TensorProto::default() },
    )
}

#[test]
fn the_digits_model_is_described() {
    let (backend, _turn) = backend();
    let model = load(&backend, DIGITS.as_ref(), None, &[]).expect("the model");
    let info = model.info();
    let batch = Dimension::Dynamic("batch".into());
    assert_eq!(info.inputs[0].name, "image");
    assert_eq!(info.inputs[0].dtype, Some(DataType::F32));
    let image = [batch, Dimension::Fixed(1), Dimension::Fixed(8), Dimension::Fixed(8)];
    assert_eq!(info.inputs[0].dimensions.as_deref(), Some(image.as_slice()));
    assert_eq!((info.inputs.len(), info.outputs.len()), (1, 1));
    assert_eq!(info.outputs[0].name, "logits");
    assert_eq!(info.outputs[0].dtype, Some(DataType::F32));
    let session = model.prepare("fp32", &[vec![8, 1, 8, 8]]).expect("a session");
    assert!(session.used().iter().all(|(key, _)| key != "converted"), "{:?}", session.used());
}

#[test]
fn threads_are_as_many_as_asked_for() {
    let (backend, _turn) = backend();
    for threads in [1, 3] {
        let model = load(&backend, DIGITS.as_ref(), Some(threads), &[]).expect("the model");
        let session = model.prepare("fp32", &[vec![1, 1, 8, 8]]).expect("a session");
        let expected = ("threads".to_owned(), threads.to_string());
        assert!(session.used().contains(&expected), "{:?}", session.used());
    }
    let error = load(&backend, DIGITS.as_ref(), Some(4097), &[]).expect_err("too many");
    assert_eq!(error.message, "4097 threads exceed the maximum of 4096");
}

#[test]
fn an_operator_that_is_missing_is_named() {
    let (backend, _turn) = backend();
    let folder = tempfile::tempdir().expect("a folder");
    let path = int64_model(folder.path(), "Frobnicate");
    let error = load(&backend, &path, None, &[]).expect_err("no such operator");
    assert_eq!(error.code, ErrorCode::Unsupported);
    assert!(error.message.contains("Frobnicate"), "{}", error.message);
    assert!(error.message.contains("the_node"), "{}", error.message);
}

#[test]
fn int64_is_narrowed_and_said_to_be() {
    let (backend, _turn) = backend();
    let folder = tempfile::tempdir().expect("a folder");
    let path = int64_model(folder.path(), "Add");
    let model = load(&backend, &path, Some(1), &[]).expect("the model");
    assert_eq!(model.info().inputs[0].dtype, Some(DataType::I64));
    assert_eq!(model.info().outputs[0].dtype, Some(DataType::I32));
    let session = model.prepare("fp32", &[vec![2]]).expect("a session");
    let converted = ("converted".to_owned(), "int64 to int32".to_owned());
    assert!(session.used().contains(&converted), "{:?}", session.used());

    let tensor = |values: [i64; 2]| {
        let bytes: Vec<u8> = values.into_iter().flat_map(i64::to_ne_bytes).collect();
        let view = TensorView { dtype: DataType::I64, shape: &[2], strides: None, bytes: &bytes };
        model.tensor(view)
    };
    let mut call = session.call(vec![tensor([41, -3]).expect("a tensor")]).expect("a call");
    call.run().expect("a run");
    let output = call.read_output(0).expect("an output");
    assert_eq!(output.dtype, DataType::I32);
    let expected: Vec<u8> = [42_i32, -2].into_iter().flat_map(i32::to_ne_bytes).collect();
    assert_eq!(output.bytes, expected);

    let error = tensor([0, 1 << 40]).expect_err("too large");
    assert_eq!(error.code, ErrorCode::Unsupported);
    assert!(error.message.starts_with("1099511627776 does not fit into int32"));
}

/// As with every other engine: a gap would say that the engine lacks something.
#[test]
fn an_index_that_does_not_fit_is_an_invalid_argument() {
    let (backend, _turn) = backend();
    let folder = tempfile::tempdir().expect("a folder");
    // The second element of `x`, which has one.
    let path = int64_model(folder.path(), "Gather");
    let model = load(&backend, &path, Some(1), &[]).expect("the model");
    let session = model.prepare("fp32", &[vec![1]]).expect("a session");
    let bytes = 7_i64.to_ne_bytes();
    let view = TensorView { dtype: DataType::I64, shape: &[1], strides: None, bytes: &bytes };
    let mut call = session.call(vec![model.tensor(view).expect("a tensor")]).expect("a call");
    let error = call.run().expect_err("no such element");
    assert_eq!(error.code, ErrorCode::InvalidArgument, "{error}");
}

/// Returns the answer of a model of one float to 2.
fn answer(backend: &Backend, path: &Path) -> Vec<u8> {
    let model = load(backend, path, Some(1), &[]).expect("the model");
    let session = model.prepare("fp32", &[vec![1]]).expect("a session");
    let bytes = 2_f32.to_ne_bytes();
    let view = TensorView { dtype: DataType::F32, shape: &[1], strides: None, bytes: &bytes };
    let mut call = session.call(vec![model.tensor(view).expect("a tensor")]).expect("a call");
    call.run().expect("a run");
    call.read_output(0).expect("an output").bytes
}

#[test]
fn weights_in_another_file_need_neither_offset_nor_length() {
    let (backend, _turn) = backend();
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("w.data"), 3_f32.to_le_bytes()).expect("a file");
    for places in [&[][..], &[("offset", "0")], &[("length", "4")]] {
        let entries = [("location", "w.data")].into_iter().chain(places.iter().copied());
        let entry = |(key, value): (&str, &str)| StringStringEntryProto {
            key: Some(key.into()),
            value: Some(value.into()),
        };
        let weights = TensorProto {
            data_location: Some(DataLocation::EXTERNAL),
            external_data: entries.map(entry).collect(),
            ..TensorProto::default()
        };
        let path = model(folder.path(), "Mul", OnnxType::FLOAT, weights);
        assert_eq!(answer(&backend, &path), 6_f32.to_ne_bytes(), "{places:?}");
    }
}

#[test]
fn dropout_changes_nothing_outside_of_training() {
    let (backend, _turn) = backend();
    let folder = tempfile::tempdir().expect("a folder");
    let half = TensorProto { float_data: vec![0.5], ..TensorProto::default() };
    let path = model(folder.path(), "Dropout", OnnxType::FLOAT, half);
    assert_eq!(answer(&backend, &path), 2_f32.to_ne_bytes());
}

#[test]
fn float64_is_narrowed_and_said_to_be() {
    let (backend, _turn) = backend();
    let folder = tempfile::tempdir().expect("a folder");
    let one = TensorProto { double_data: vec![1.0], ..TensorProto::default() };
    let path = model(folder.path(), "Mul", OnnxType::DOUBLE, one);
    let model = load(&backend, &path, Some(1), &[]).expect("the model");
    assert_eq!(model.info().inputs[0].dtype, Some(DataType::F64));
    let session = model.prepare("fp32", &[vec![1]]).expect("a session");
    let converted = ("converted".to_owned(), "float64 to float32".to_owned());
    assert!(session.used().contains(&converted), "{:?}", session.used());
}

#[test]
fn files_that_are_no_models_are_refused() {
    let (backend, _turn) = backend();
    let folder = tempfile::tempdir().expect("a folder");
    let garbage = folder.path().join("garbage.onnx");
    std::fs::write(&garbage, [0xff; 100]).expect("the folder is writable");
    let empty = folder.path().join("empty.onnx");
    std::fs::write(&empty, []).expect("the folder is writable");
    let text = folder.path().join("model.txt");
    std::fs::write(&text, "a model").expect("the folder is writable");
    let cut = folder.path().join("cut.onnx");
    let whole = std::fs::read(DIGITS).expect("the model");
    std::fs::write(&cut, &whole[..whole.len() / 2]).expect("the folder is writable");
    let folder = folder.path().join("folder.onnx");
    std::fs::create_dir(&folder).expect("the folder is writable");
    for (path, message) in [
        (garbage, "garbage.onnx is not an ONNX model"),
        (empty, "empty.onnx is not an ONNX model: it has no graph"),
        (text, "model.txt is not an ONNX model: its name does not end in `.onnx`"),
        (cut, "cut.onnx is not an ONNX model: it is damaged or truncated"),
        (folder, "folder.onnx: it is not a file"),
    ] {
        let error = load(&backend, &path, None, &[]).expect_err(message);
        assert_eq!(error.code, ErrorCode::InvalidModel, "{error}");
        assert!(error.message.contains(message), "{}", error.message);
    }
}

#[test]
fn other_precisions_and_bad_options_are_refused() {
    let (backend, _turn) = backend();
    let model = load(&backend, DIGITS.as_ref(), None, &[]).expect("the model");
    for precision in ["fp16", "bf16", "int8"] {
        let error = model.prepare(precision, &[vec![1, 1, 8, 8]]).expect_err(precision);
        assert_eq!(error.code, ErrorCode::Unsupported);
        let told = "the engine `rten` computes in fp32 only";
        assert!(error.message.starts_with(told) && error.message.contains(precision), "{error}");
        // Only int8 is what the other engine has.
        assert_eq!(error.message.contains("onnxruntime"), precision == "int8", "{error}");
    }
    let error = load(&backend, DIGITS.as_ref(), None, &[("optimise", "maybe")]).expect_err("bad");
    assert!(error.message.starts_with("option `optimise` cannot be `maybe`"), "{error}");
}

#[test]
fn the_engine_is_the_one_that_is_linked() {
    let (backend, _turn) = backend();
    let description = backend.describe().expect("a description");
    let manifest = include_str!("../Cargo.toml");
    let line = format!("rten = {{ version = \"={}\"", description.engine_version);
    assert!(manifest.contains(&line), "{line} is not in Cargo.toml");
    assert_eq!(description.engine, "rten");
}
