//! The settings of the engine. The compiling and the running process must use the same.

use wasmtime::component::Component;
use wasmtime::{Config, Engine, Module};

use crate::platform::HugePages;
use crate::shape::{Format, check_header};

/// A plugin's compiled code.
pub(crate) enum Compiled {
    Component(Component),
    Module(Module),
}

/// Compiles a component or a module.
pub(crate) fn precompile(engine: &Engine, bytes: &[u8]) -> wasmtime::Result<Vec<u8>> {
    match check_header(bytes) {
        Ok(Format::Module) => engine.precompile_module(bytes),
        _ => engine.precompile_component(bytes),
    }
}

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
