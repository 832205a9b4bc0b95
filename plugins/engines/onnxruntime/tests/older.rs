//! Limits of an older library are reported. Only an older library can show this.

use std::path::Path;

use engine_onnxruntime::ort::session::Session as Bare;
use engine_onnxruntime::ort::session::builder::GraphOptimizationLevel;
use engine_onnxruntime::{Cpu, Library, OrtModel};
use plugin_api::backend::{ErrorCode, LoadRequest, Model, Options, PrepareRequest};

#[test]
#[ignore = "needs ONNX Runtime 1.22: name its folder in TARE_RUNTIME"]
fn an_older_library_is_named_with_what_is_needed() {
    let library = Library::get("cpu").expect("ONNX Runtime");
    assert!(library.version().starts_with("1.22."), "this is {}", library.version());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../manifests/data/digits.onnx");
    let options = Options::default();
    let request = LoadRequest {
        path: Path::new(path),
        device: "cpu:0",
        threads: Some(1),
        options,
        mode: "inference",
    };
    let model = OrtModel::load(library, &request, Box::new(Cpu), 1).expect("a model");
    let request = PrepareRequest { precision: "fp32", shapes: &[&[1, 1, 8, 8]], bounds: None };
    let session = model.prepare(&request).expect("a session");
    let error = session.allocator().expect_err("it is too old");
    assert_eq!(error.code, ErrorCode::Unsupported);
    assert!(error.message.ends_with("its allocators use; 1.23 and later do"), "{error}");

    // This is why `graph-optimisation = "layout"` is refused before it reaches ONNX Runtime.
    let builder = Bare::builder(library.environment()).expect("a builder");
    let refused = builder.with_optimization_level(GraphOptimizationLevel::Level3);
    let message = refused.err().expect("it came with 1.23").message().to_owned();
    assert!(message.contains("graph_optimization_level is not valid"), "{message}");
}
