//! An invalid or unusable back end is an error: ONNX Runtime would only log one, and let the
//! processor compute instead.

use std::path::{Path, PathBuf};

use plugin_api::client::{Backend, DataType, Error, ErrorCode, LoadRequest, TensorView};

const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../manifests/data/digits.onnx");

/// Loads, prepares and runs with the provider's options, and returns the outputs.
fn outputs(backend: &Backend, options: &[(&str, &str)]) -> Result<Vec<u8>, Error> {
    let request = LoadRequest { path: DIGITS, device: "qnn:htp", threads: None, options };
    let model = backend.load(&request)?;
    let session = model.prepare("fp16", &[vec![1, 1, 8, 8]])?;
    let bytes: Vec<u8> = [0.5_f32; 64].into_iter().flat_map(f32::to_ne_bytes).collect();
    let shape = &[1, 1, 8, 8];
    let view = TensorView { dtype: DataType::F32, shape, strides: None, bytes: &bytes };
    let mut call = session.call(vec![model.tensor(view)?])?;
    call.run()?;
    Ok(call.read_output(0)?.bytes)
}

/// Returns a library of the runtime.
fn library(name: &str) -> PathBuf {
    let runtime = PathBuf::from(std::env::var_os("TARE_RUNTIME").expect("the runtime's folder"));
    let path = runtime.join("lib").join(name);
    let path = if path.is_file() { path } else { runtime.join(name) };
    assert!(path.is_file(), "{}", path.display());
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// All in one, because only one backend of a library may be alive.
#[test]
#[ignore = "needs the runtime's folder in TARE_RUNTIME"]
fn a_wrong_back_end_is_refused_and_the_processor_never_computes_instead() {
    // SAFETY: this is the backend's own entry point, opened once.
    let backend = unsafe { Backend::open(backend_qnn::tare_backend_v1) }.expect("a backend");
    let folder = tempfile::tempdir().expect("a folder");
    let no_library = folder.path().join("libQnnHtp.so");
    std::fs::write(&no_library, "no library").expect("the folder is writable");
    let nowhere = folder.path().join("nowhere").join("libQnnHtp.so");
    // A library that does not belong to QNN.
    let other = library("libonnxruntime_providers_shared.so");
    // A library of QNN that is not a back end.
    let system = library("libQnnSystem.so");
    let saver = library("libQnnSaver.so");

    let cases = [
        (text(&nowhere), ErrorCode::NotFound, "cannot be opened"),
        (text(&no_library), ErrorCode::NotFound, "cannot be opened"),
        (text(folder.path()), ErrorCode::NotFound, "cannot be opened"),
        ("", ErrorCode::InvalidArgument, "is empty"),
        (text(&other), ErrorCode::Device, "the processor would compute"),
        (text(&system), ErrorCode::Device, "the processor would compute"),
        (text(&saver), ErrorCode::InvalidArgument, "its outputs are wrong"),
    ];
    for placement in ["any", "strict"] {
        for (path, code, says) in &cases {
            let options = [("provider.backend_path", *path), ("placement", placement)];
            let error = match outputs(&backend, &options) {
                Ok(outputs) => panic!("{path:?} with placement {placement} gave {outputs:?}"),
                Err(error) => error,
            };
            assert_eq!(error.code, *code, "{path:?} with placement {placement}: {error}");
            assert!(error.message.contains(says), "{path:?}: {error}");
        }
    }

    let error = outputs(&backend, &[("provider.qnn_saver_path", text(&saver))]).expect_err("wrong");
    assert!(error.message.contains("its outputs are wrong"), "{error}");

    // A kind of back end beside a path is refused, so the processor's back end cannot be selected.
    for kind in ["cpu", "saver"] {
        let error = outputs(&backend, &[("provider.backend_type", kind)]).expect_err(kind);
        assert!(error.message.contains("backend_type"), "{error}");
    }

    // Naming the correct back end is equivalent to the default.
    let named = library("libQnnHtp.so");
    let by_name = outputs(&backend, &[("provider.backend_path", text(&named))]).expect("outputs");
    assert_eq!(by_name, outputs(&backend, &[]).expect("outputs"));
}
