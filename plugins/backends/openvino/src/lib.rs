/*!
OpenVINO through its own interface: ONNX models and OpenVINO's IR on processors, Intel's graphics and
neural units, and AUTO.

The library is not part of the plugin. It is searched for in the folder that `TARE_RUNTIME` names, or else in the
system's folders. [`devices`](Backend::devices) and [`load`](Backend::load) report a missing library. The README
beside this crate lists options, measurements and traps.
*/

mod devices;
mod file;
mod library;
mod model;
mod native;
mod options;
mod session;

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use plugin_api::abi::{EXTENSION_THREADS, PROFILE};
use plugin_api::backend::{
    Backend, Description, Device, Error, ErrorCode, Host, LoadRequest, Result, profile, threads,
};

use native::Core;

pub use model::OpenvinoModel;
pub use session::{OpenvinoSession, OpenvinoTensor};

/// The plugin.
#[derive(Debug)]
pub struct OpenvinoBackend {
    /// Version of the library, or why it cannot be used.
    version: Result<String>,
    core: OnceLock<Arc<Core>>,
}

impl OpenvinoBackend {
    /// Returns the runtime with its devices, which takes some time at the first call.
    fn core(&self) -> Result<&Arc<Core>> {
        if let Err(error) = &self.version {
            return Err(error.clone());
        }
        if let Some(core) = self.core.get() {
            return Ok(core);
        }
        let core = Core::new().map_err(|failure| {
            Error::new(ErrorCode::Device, format!("OpenVINO does not start: {failure}"))
        })?;
        Ok(self.core.get_or_init(|| Arc::new(core)))
    }

    fn version(&self) -> &str {
        self.version.as_deref().unwrap_or_default()
    }
}

impl Backend for OpenvinoBackend {
    type Model = OpenvinoModel;

    fn new(_host: &Host) -> Result<Self, String> {
        // The library is opened for its version, and not used otherwise yet.
        Ok(Self { version: library::load(), core: OnceLock::new() })
    }

    fn description(&self) -> Description {
        Description {
            id: "openvino".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            engine: "openvino".into(),
            engine_version: self.version().into(),
            extensions: vec![EXTENSION_THREADS.into(), PROFILE.into()],
            modes: vec!["inference".into()],
        }
    }

    fn extension(&self, name: &str) -> Option<NonNull<c_void>> {
        match name {
            EXTENSION_THREADS => Some(threads::<Self>()),
            PROFILE => Some(profile::<Self>()),
            _ => None,
        }
    }

    fn devices(&self) -> Result<Vec<Device>> {
        devices::list(self.core()?, self.version())
    }

    fn load(&self, request: &LoadRequest<'_>) -> Result<OpenvinoModel> {
        OpenvinoModel::load(self.core()?, request)
    }
}

plugin_api::export_backend!(OpenvinoBackend);
