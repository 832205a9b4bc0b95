//! The backend keeps the ABI's contract, and its results equal ONNX Runtime's.

use plugin_testkit::{Fixture, Suite};

#[test]
#[ignore = "needs OpenVINO: set TARE_RUNTIME to the folder of its libraries, and ask for ignored tests"]
fn openvino_conforms() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../plugin-api/testkit/fixtures/digits.toml");
    let mut fixture = Fixture::read(path.as_ref()).expect("a good fixture");
    fixture.device = Some("cpu:0".into());
    // SAFETY: this is the backend's own entry point, and no other test opens it.
    let suite = unsafe { Suite::from_entry(backend_openvino::tare_backend_v1) };
    suite.check(&fixture).assert();

    // Results are also correct with concurrent requests, and through AUTO.
    fixture.threads = Some(2);
    fixture.options.insert("streams".into(), "2".into());
    suite.check(&fixture).assert();
    fixture.options.clear();
    fixture.device = Some("auto:0".into());
    suite.check(&fixture).assert();
}
