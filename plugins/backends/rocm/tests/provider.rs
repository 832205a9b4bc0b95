//! The provider's library loads, and reports what it lacks without ROCm.

use engine_onnxruntime::ort::session::Session;
use engine_onnxruntime::{Library, ProviderOptions, append_by_name};

#[test]
#[ignore = "needs the runtime's folder in TARE_RUNTIME, and a machine without ROCm"]
fn migraphx_says_what_it_lacks() {
    let library = Library::get("rocm").expect("ONNX Runtime");
    let builder = Session::builder(library.environment()).expect("a builder");
    let Err(error) = append_by_name(builder, c"MIGraphX", &ProviderOptions::new()) else {
        panic!("there is ROCm here");
    };
    let message = error.message();
    let lacks = ["libmigraphx_c.so.3", "libamdhip64.so.7"].iter().any(|it| message.contains(it));
    assert!(lacks, "{message}");
}
