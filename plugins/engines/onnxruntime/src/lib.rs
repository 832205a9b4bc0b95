/*!
ONNX Runtime as an engine that backends share.

A plugin over it owns what its hardware is about: which devices there are, which execution provider
computes on them and with which options, how memory is copied and energy read. It says so in a
[`Provider`], and in an [`Accelerator`] where tensors live on the device. The rest is here: finding and
loading the library, sessions, tensors, runs, placement, profiles, and errors in the ABI's terms.

The library is loaded when a device is first asked for, once per process, and stays. A plugin links
nothing of it, so one that lacks its runtime can still be opened, and say so.

Nothing is sent: ONNX Runtime's telemetry is switched off before the library is loaded, since from
version 1.29 on it is on by default, and switching it off later does not stop it.

# Options

Every backend over this engine takes some in `[backend.options]`; what they mean is said in
`docs/backends/README.md`. A session records all of them in what it uses. [`check_options`] knows them, and
refuses names of ONNX Runtime for what is set in another way: two settings that say different things would
be a number under a wrong name. With `placement = "strict"` in the
manifest, a model that the provider cannot run as a whole is refused, instead of running partly on the
processor.

# Memory

A session tells what ONNX Runtime's allocator of the memory that its provider computes in has handed out
([`OrtSession::allocator`]): what is in use, what was in use at most, and what the arena holds. That
takes version 1.23 of the library, and an allocator that counts bytes; WebGPU's does not.

# Precision

ONNX Runtime computes in the model's own types. Which these are is read from the file, and another
precision is refused: a model of each precision is a file of its own. A provider that converts by itself
says which precisions it makes of which.
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
pub use error::{Doing, convert};
pub use library::{Library, loader_says, runtime_folder};
pub use log::taken as log_taken;
pub use model::OrtModel;
pub use options::{PROVIDER_OPTIONS, Taken, check_options};
pub use ort;
pub use provider::{Cpu, Provider, ProviderOptions, append_by_name};
pub use session::OrtSession;
pub use tensor::{Carrier, OrtTensor};

use plugin_api::backend::Description;

/// What a backend over this engine is, by its own id and version.
#[must_use]
pub fn description(id: &str, version: &str, extensions: &[&str]) -> Description {
    Description {
        id: id.into(),
        version: version.into(),
        engine: "onnxruntime".into(),
        // Known when the library is loaded; sessions say it.
        engine_version: String::new(),
        extensions: extensions.iter().map(|&name| name.to_owned()).collect(),
        modes: Vec::new(),
    }
}
