//! A quantised model is int8 in OpenVINO, and gives the results of integer arithmetic.

use plugin_api::client::{Backend, ErrorCode, LoadRequest};
use plugin_testkit::{Fixture, Suite, Verdict};

/// All in one, because only one backend of a library may be alive.
#[test]
#[ignore = "needs OpenVINO: set TARE_RUNTIME to the folder of its libraries, and ask for ignored tests"]
fn openvino_computes_a_quantised_model_in_integers() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../plugin-api/testkit/fixtures/quantised.toml");
    let mut fixture = Fixture::read(path.as_ref()).expect("a good fixture");
    fixture.device = Some("cpu:0".into());
    // SAFETY: this is the backend's own entry point, and nothing else opens it.
    let suite = unsafe { Suite::from_entry(backend_openvino::tare_backend_v1) };
    suite.check(&fixture).assert();
    // The check can fail.
    fixture.outputs[0].values[0] += 0.125;
    assert!(matches!(suite.check_one("outputs are right", &fixture), Some(Verdict::Fails(_))));

    // SAFETY: as above; the suite has closed its instance.
    let backend = unsafe { Backend::open(backend_openvino::tare_backend_v1) }.expect("a backend");
    let path = fixture.model.to_str().expect("UTF-8");
    let request = LoadRequest { path, device: "cpu:0", threads: Some(1), options: &[] };
    let model = backend.load(&request).expect("a model");
    let error = model.prepare("fp32", &[vec![1, 4]]).expect_err("it would not be what was asked");
    assert_eq!(error.code, ErrorCode::Unsupported);
    let session = model.prepare("int8", &[vec![1, 4]]).expect("a session");
    let used = |key: &str| {
        session.used().iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    };
    assert_eq!(used("precision"), Some("int8"));
}
