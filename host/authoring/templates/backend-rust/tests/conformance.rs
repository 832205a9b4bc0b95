//! The backend keeps the ABI's contract.

use plugin_testkit::{Fixture, Suite};

#[test]
fn it_conforms() {
    let fixture = Fixture::read(concat!(env!("CARGO_MANIFEST_DIR"), "/fixture.toml").as_ref());
    // SAFETY: this is the backend's own entry point, and no other test opens it.
    let suite = unsafe { Suite::from_entry(backend_{{snake}}::tare_backend_v1) };
    suite.check(&fixture.expect("a good fixture")).assert();
}
