//! A quantised model is int8 on the HTP, and gives the results of integer arithmetic.

use plugin_api::client::{Backend, ErrorCode, LoadRequest};
use plugin_testkit::{Fixture, Suite, Verdict};

/// All in one, because only one backend of a library may be alive.
#[test]
#[ignore = "needs the runtime's folder in TARE_RUNTIME"]
fn the_htp_computes_a_quantised_model_in_integers() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../plugin-api/testkit/fixtures/quantised.toml");
    let mut fixture = Fixture::read(path.as_ref()).expect("a good fixture");
    // The provider takes the whole model, so nothing is left for the processor.
    fixture.options.insert("placement".into(), "strict".into());
    // SAFETY: this is the backend's own entry point, and nothing else opens it.
    let suite = unsafe { Suite::from_entry(backend_qnn::tare_backend_v1) };
    for check in [
        "outputs are right",
        "a session says what it uses",
        "batches of none are right, or refused",
    ] {
        assert_eq!(suite.check_one(check, &fixture), Some(Verdict::Holds), "{check}");
    }
    // The check can fail.
    fixture.outputs[0].values[0] += 0.125;
    assert!(matches!(suite.check_one("outputs are right", &fixture), Some(Verdict::Fails(_))));

    // SAFETY: as above; the suite has closed its instance.
    let backend = unsafe { Backend::open(backend_qnn::tare_backend_v1) }.expect("a backend");
    let path = fixture.model.to_str().expect("UTF-8");
    let options = [("placement", "strict")];
    let request = LoadRequest { path, device: "qnn:htp", threads: None, options: &options };
    let model = backend.load(&request).expect("a model");
    let error = model.prepare("fp16", &[vec![2, 4]]).expect_err("it would not be what was asked");
    assert_eq!(error.code, ErrorCode::Unsupported);
    assert!(error.message.contains("is a model in int8"), "{error}");
    // In the simulator this would be a division by zero, which ends the process.
    let error = model.prepare("int8", &[vec![0, 4]]).expect_err("a batch of none");
    assert_eq!(error.code, ErrorCode::InvalidArgument);
    assert!(error.message.contains("takes axes of 1 to 4294967295"), "{error}");
    let session = model.prepare("int8", &[vec![2, 4]]).expect("a session");
    let used = |key: &str| {
        session.used().iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    };
    assert_eq!((used("precision"), used("converted-from")), (Some("int8"), None));
    assert_eq!(used("provider.enable_htp_fp16_precision"), Some("0"), "{:?}", session.used());
}
