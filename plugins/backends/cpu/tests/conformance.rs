//! The CPU backend keeps the ABI's contract, and computes what ONNX Runtime computes.

use plugin_testkit::{Fixture, Suite};

#[test]
fn cpu_conforms() {
    let mut fixture =
        Fixture::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixture.toml").as_ref())
            .expect("a good fixture");
    // SAFETY: this is the backend's own entry point, and no other test opens it.
    let suite = unsafe { Suite::from_entry(backend_cpu::tare_backend_v1) };
    suite.check(&fixture).assert();

    // Without the engine's optimisations, and with two threads, it is as right.
    fixture.threads = Some(2);
    for option in ["optimise", "prepack-weights"] {
        fixture.options.insert(option.into(), "false".into());
    }
    suite.check(&fixture).assert();
}
