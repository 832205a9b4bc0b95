//! libFuzzer over the target that `FUZZ_TARGET` names.

#![no_main]

use std::sync::LazyLock;

use fuzz::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let target = TARGETS.iter().find(|target| target.name == name);
    target.unwrap_or_else(|| panic!("FUZZ_TARGET is {name:?}, and no target"))
});

fuzz_target!(|data: &[u8]| (TARGET.run)(data));
