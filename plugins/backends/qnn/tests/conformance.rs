//! The QNN backend keeps the ABI's contract, on the simulator or on the hardware.

use plugin_testkit::{Fixture, Suite};

#[test]
#[ignore = "needs the runtime's folder in TARE_RUNTIME; a minute or more on the simulator"]
fn qnn_conforms() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../plugin-api/testkit/fixtures/digits.toml");
    let mut fixture = Fixture::read(path.as_ref()).expect("a good fixture");
    fixture.precision = "fp16".into();
    // Logits of up to 14, rounded to 11 bits after each of a few layers.
    fixture.outputs[0].tolerance = 0.05;
    // SAFETY: this is the backend's own entry point, and no other test opens it.
    let suite = unsafe { Suite::from_entry(backend_qnn::tare_backend_v1) };
    suite.check(&fixture).assert();
    fixture.options.insert("placement".into(), "strict".into());
    suite.check(&fixture).assert();
}
