//! The WebGPU backend keeps the ABI's contract, if there is a Vulkan device.

use plugin_testkit::{Fixture, Suite};

#[test]
#[ignore = "needs a Vulkan device, and the runtime's folder in TARE_RUNTIME; minutes on SwiftShader"]
fn webgpu_conforms() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../plugin-api/testkit/fixtures/digits.toml");
    let mut fixture = Fixture::read(path.as_ref()).expect("a good fixture");
    // SAFETY: this is the backend's own entry point, and no other test opens it.
    let suite = unsafe { Suite::from_entry(backend_webgpu::tare_backend_v1) };
    suite.check(&fixture).assert();
    fixture.options.insert("placement".into(), "strict".into());
    suite.check(&fixture).assert();
}
