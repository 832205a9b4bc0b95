/*!
PyTorch's library, libtorch, as an engine: ONNX models through an importer, and TorchScript archives.

The backend `torch` opens libtorch and then this library, which is linked against it: see `plugins/backends/torch`. The
README there lists options, operators and measurements.
*/

mod compute;
mod devices;
mod error;
mod fusion;
mod model;
mod native;
mod onnx;
mod operators;
mod optimiser;
mod profile;
mod program;
mod replicas;
mod script;
mod session;
mod tensor;
mod training;

use std::ffi::c_void;
use std::ptr::NonNull;

use plugin_api::abi::{ALLOCATOR, DEVICE_TIMER, MARKS, PHASE_MEMORY, PROFILE, TRAINING};
use plugin_api::backend::{
    Backend, Description, Device, Error, ErrorCode, Host, LoadRequest, Result, allocator,
    device_timer, marks, phase_memory, profile as profile_table, training,
};

pub use model::TorchModel;
pub use session::TorchSession;
pub use tensor::TorchTensor;

/// The version of PyTorch that this library is linked against. Others have other functions.
pub const TORCH: &str = "2.11.0";

/// The plugin.
#[derive(Debug)]
pub struct TorchBackend {
    /// Reason why CUDA was not found.
    without_cuda: Option<String>,
}

impl TorchBackend {
    /// Returns the extensions that are offered: libtorch counts memory and records events on graphics processors alone.
    fn extensions(&self) -> Vec<&'static str> {
        let mut all = vec![MARKS, PHASE_MEMORY, PROFILE, TRAINING];
        if devices::cuda_count() > 0 {
            all.extend([ALLOCATOR, DEVICE_TIMER]);
        }
        all
    }
}

impl Backend for TorchBackend {
    type Model = TorchModel;

    fn new(_host: &Host) -> Result<Self, String> {
        // Its functions register themselves when it is opened.
        Ok(Self { without_cuda: devices::open_cuda().err() })
    }

    fn description(&self) -> Description {
        Description {
            id: "torch".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            engine: "libtorch".into(),
            engine_version: TORCH.into(),
            extensions: self.extensions().into_iter().map(str::to_owned).collect(),
            modes: vec!["inference".into(), "training".into()],
        }
    }

    fn extension(&self, name: &str) -> Option<NonNull<c_void>> {
        if !self.extensions().contains(&name) {
            return None;
        }
        match name {
            ALLOCATOR => Some(allocator::<Self>()),
            DEVICE_TIMER => Some(device_timer::<Self>()),
            MARKS => Some(marks::<Self>()),
            PHASE_MEMORY => Some(phase_memory::<Self>()),
            PROFILE => Some(profile_table::<Self>()),
            TRAINING => Some(training::<Self>()),
            _ => None,
        }
    }

    fn devices(&self) -> Result<Vec<Device>> {
        Ok(devices::list(self.without_cuda.as_deref()))
    }

    fn load(&self, request: &LoadRequest<'_>) -> Result<TorchModel> {
        let device = devices::find(request.device, self.without_cuda.as_deref())?;
        set_threads(request.threads)?;
        TorchModel::load(request, device)
    }
}

/// Most threads that can be asked for.
const MOST_THREADS: u32 = 4096;

/// Sets the number of threads of an operator. The setting is the process's.
fn set_threads(threads: Option<u32>) -> Result<()> {
    let Some(threads) = threads else { return Ok(()) };
    if !(1..=MOST_THREADS).contains(&threads) {
        let message = format!("threads must be between 1 and {MOST_THREADS}, got {threads}");
        return Err(Error::new(ErrorCode::InvalidArgument, message));
    }
    tch::set_num_threads(threads as i32);
    Ok(())
}

plugin_api::export_backend!(TorchBackend);
