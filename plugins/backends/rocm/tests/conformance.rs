//! The ROCm backend keeps the ABI's contract, on a machine that meets its requirements.

use plugin_testkit::{Fixture, Suite};

#[test]
#[ignore = "needs an AMD GPU with ROCm, and the runtime's folder in TARE_RUNTIME"]
fn rocm_conforms() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../plugin-api/testkit/fixtures/digits.toml");
    let fixture = Fixture::read(path.as_ref()).expect("a good fixture");
    // SAFETY: this is the backend's own entry point, and no other test opens it.
    let suite = unsafe { Suite::from_entry(backend_rocm::tare_backend_v1) };
    suite.check(&fixture).assert();
}
