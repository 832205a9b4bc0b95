//! The settings of the engine. The compiling and the running process must use the same.

use wasmtime::{Config, Engine};

use crate::platform::HugePages;

/// Creates an engine with the settings of this sandbox.
///
/// # Errors
///
/// If wasmtime does not run on this processor or system.
pub(crate) fn engine() -> wasmtime::Result<Engine> {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .epoch_interruption(true)
        // A NaN has many bit patterns, and processors produce different ones.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true);
    HugePages::set_up(&mut config);
    Engine::new(&config)
}
