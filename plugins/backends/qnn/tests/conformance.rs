//! The QNN backend keeps the ABI's contract, on the simulator or on the hardware.
//!
//! Each check runs in a separate process, as with `host plugins test`: otherwise the simulator's leak at each load
//! (see README.md) would affect later checks.

use std::process::Command;

use plugin_testkit::{Fixture, Suite, Verdict};

/// Variable with the check for this process and its settings.
const CHECK: &str = "TARE_TEST_CHECK";
const FIXTURE: &str = "TARE_TEST_FIXTURE";
const PLACEMENT: &str = "TARE_TEST_PLACEMENT";

fn fixture(name: &str, placement: &str) -> Fixture {
    let path =
        format!("{}/../../../plugin-api/testkit/fixtures/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let mut fixture = Fixture::read(path.as_ref()).expect("a good fixture");
    if fixture.precision == "fp32" {
        fixture.precision = "fp16".into();
        // Logits of up to 14, rounded to 11 bits after each of a few layers.
        fixture.outputs[0].tolerance = 0.05;
    }
    fixture.options.insert("placement".into(), placement.into());
    fixture
}

#[test]
#[ignore = "needs the runtime's folder in TARE_RUNTIME; minutes on the simulator"]
fn qnn_conforms() {
    if let Ok(check) = std::env::var(CHECK) {
        let variable = |name: &str| std::env::var(name).expect("it is given with the check");
        let fixture = fixture(&variable(FIXTURE), &variable(PLACEMENT));
        // SAFETY: this is the backend's own entry point, and no other test opens it.
        let suite = unsafe { Suite::from_entry(backend_qnn::tare_backend_v1) };
        match suite.check_one(&check, &fixture).expect("one of the suite's") {
            Verdict::Holds | Verdict::NotChecked(_) => return,
            Verdict::Fails(detail) => panic!("{detail}"),
        }
    }
    let this = std::env::current_exe().expect("this program");
    let mut failed = Vec::new();
    for (fixture, placement) in [("digits", "any"), ("digits", "strict"), ("quantised", "strict")] {
        for check in Suite::names() {
            let made = Command::new(&this)
                .args(["--ignored", "--exact", "qnn_conforms"])
                .envs([(CHECK, check), (FIXTURE, fixture), (PLACEMENT, placement)])
                .output()
                .expect("this program can be started");
            if !made.status.success() {
                let printed = String::from_utf8_lossy(&made.stdout).into_owned();
                failed.push(format!("{fixture}, {placement}, {check}: {}\n{printed}", made.status));
            }
        }
    }
    assert!(failed.is_empty(), "the backend does not conform\n{}", failed.join("\n"));
}
