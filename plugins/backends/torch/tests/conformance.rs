//! The plugin, as it is laid out, keeps the ABI's contract, and its results equal ONNX Runtime's.

use std::path::PathBuf;

use plugin_testkit::{Fixture, Suite};

#[test]
#[ignore = "needs libtorch and the engine: `cargo xtask build torch`, set TARE_RUNTIME and TARE_BUILT"]
fn torch_conforms() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../plugin-api/testkit/fixtures/digits.toml");
    let mut fixture = Fixture::read(path.as_ref()).expect("a good fixture");
    fixture.device = Some("cpu:0".into());
    let built = PathBuf::from(std::env::var_os("TARE_BUILT").expect("the folder of the tool"));
    let plugin = built.join("plugins/torch/libbackend_torch.so");
    // SAFETY: this is the plugin's library, as the tool opens it.
    let library = unsafe { libloading::Library::new(plugin) }.expect("the plugin");
    // SAFETY: the ABI says what type a symbol of this name has.
    let entry = *unsafe { library.get(plugin_api::abi::ENTRY_SYMBOL) }.expect("the entry point");
    std::mem::forget(library);
    // SAFETY: this is the backend's own entry point, and no other test opens it.
    let suite = unsafe { Suite::from_entry(entry) };
    suite.check(&fixture).assert();
    // The phases of a step are checked on a loss that needs no target.
    fixture.options.insert("loss".into(), "output".into());
    fixture.threads = Some(2);
    suite.check(&fixture).assert();
}
