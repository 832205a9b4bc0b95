/*!
ONNX Runtime as an engine that backends share.

A plugin over it owns everything about its hardware: devices, the execution provider and its options,
copying of memory, energy. It describes this in a [`Provider`], and in an [`Accelerator`] if tensors live
on the device. This crate does the rest: finding and loading the library, sessions, tensors, runs, placement,
profiles, and errors in the ABI's terms.

The library is loaded when a device is first needed, once per process, and stays loaded. A plugin does not
link it, so a plugin without its runtime can still be opened, and report that.

ONNX Runtime's telemetry is switched off before the library is loaded: from version 1.29 on it is on by
default, and switching it off later does not stop it.

# Options

Every backend over this engine has the options in `docs/backends/README.md`. A session records all of them among its
settings. [`check_options`] checks them, and refuses ONNX Runtime's names for settings that have an option: two
conflicting settings would give a result under a wrong name. With `placement = "strict"` in the manifest, a model that
the provider cannot run as a whole is refused, instead of running partly on the processor.

# Memory

A session reports the figures of ONNX Runtime's allocator for its provider's memory
([`OrtSession::allocator`]): memory in use, its peak, and the memory that the arena holds. This needs
version 1.23 of the library, and an allocator that counts bytes; WebGPU's does not.

# Precision

ONNX Runtime computes in the model's own types. These are read from the file, and another precision is refused: each
precision of a model is a separate file. A provider that can convert lists its conversions.
*/

mod accelerator;
mod allocator;
mod error;
mod library;
mod log;
mod model;
mod options;
mod profile;
mod provider;
mod session;
mod tensor;

pub use accelerator::{Accelerator, GpuRuntime, RuntimeNames};
pub use error::{Operation, convert};
pub use library::{Library, loader_says, runtime_folder};
pub use log::taken as log_taken;
pub use model::OrtModel;
pub use options::{PROVIDER_OPTIONS, ReservedOptions, check_options};
pub use ort;
pub use provider::{Cpu, Provider, ProviderOptions, append_by_name};
pub use session::OrtSession;
pub use tensor::{Carrier, OrtTensor};

use plugin_api::backend::Description;

/// Returns the description of a backend over this engine, with its own id and version.
#[must_use]
pub fn description(id: &str, version: &str, extensions: &[&str]) -> Description {
    Description {
        id: id.into(),
        version: version.into(),
        engine: "onnxruntime".into(),
        // The version is known when the library is loaded; sessions report it.
        engine_version: String::new(),
        extensions: extensions.iter().map(|&name| name.to_owned()).collect(),
        modes: Vec::new(),
    }
}
