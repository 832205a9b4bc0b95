//! The CPU backend keeps the ABI's contract, and its results equal ONNX Runtime's.

use std::sync::{Mutex, MutexGuard, PoisonError};

use plugin_testkit::{Fixture, Suite};

/// Only one backend of a library may be alive.
fn suite() -> (Suite, Fixture, MutexGuard<'static, ()>) {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../plugin-api/testkit/fixtures/digits.toml");
    let fixture = Fixture::read(path.as_ref()).expect("a good fixture");
    // SAFETY: this is the backend's own entry point, and tests take turns.
    (unsafe { Suite::from_entry(backend_cpu::tare_backend_v1) }, fixture, turn)
}

#[test]
#[ignore = "needs ONNX Runtime: name its folder in TARE_RUNTIME"]
fn cpu_conforms_with_onnxruntime() {
    let (suite, mut fixture, _turn) = suite();
    fixture.options.insert("engine".into(), "onnxruntime".into());
    suite.check(&fixture).assert();

    // Results are also correct without optimisations, with spinning, and with two threads.
    fixture.threads = Some(2);
    fixture.options.insert("graph-optimisation".into(), "disable".into());
    fixture.options.insert("allow-spinning".into(), "true".into());
    suite.check(&fixture).assert();
}

#[test]
fn cpu_conforms() {
    let (suite, mut fixture, _turn) = suite();
    suite.check(&fixture).assert();

    // Results are also correct without the engine's optimisations, and with two threads.
    fixture.threads = Some(2);
    for option in ["optimise", "prepack-weights"] {
        fixture.options.insert(option.into(), "false".into());
    }
    suite.check(&fixture).assert();
}
