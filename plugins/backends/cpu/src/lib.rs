/*!
The processor, with two engines.

`rten` is the default: pure Rust and built in, so that nothing has to be installed. `onnxruntime` is ONNX Runtime,
whose library is searched at its first use; `host runtimes install cpu` installs it. The README lists the features of
each, and the options.
*/

mod platform;
mod rten_engine;
mod rten_file;
mod rten_tensor;

use std::ffi::c_void;
use std::ptr::NonNull;

use engine_onnxruntime::{
    Cpu, Library, OrtModel, OrtSession, OrtTensor, check_options, runtime_folder,
};
use plugin_api::abi::{ALLOCATOR, EXTENSION_THREADS, OPTION_PLACEMENT, PROFILE};
use plugin_api::backend::{
    Allocator, AllocatorUse, Backend, DataType, Description, Device, Error, ErrorCode, Host,
    LoadRequest, Model, ModelInfo, PrepareRequest, Profile, ProfiledOperator, Result, Session,
    Tensor, View, ViewMut, allocator, profile, threads,
};
use rten_engine::{RtenModel, RtenSession};
use rten_tensor::RtenTensor;

const DEVICE: &str = "cpu:0";
const PRECISION: &str = "fp32";
const ENGINE_VERSION: &str = "0.27.0";

/// The plugin.
#[derive(Debug)]
pub struct CpuBackend;

impl Backend for CpuBackend {
    type Model = CpuModel;

    fn new(_host: &Host) -> Result<Self, String> {
        Ok(Self)
    }

    fn description(&self) -> Description {
        Description {
            id: "cpu".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            engine: "rten".into(),
            engine_version: ENGINE_VERSION.into(),
            extensions: vec![ALLOCATOR.into(), EXTENSION_THREADS.into(), PROFILE.into()],
            modes: vec!["inference".into()],
        }
    }

    fn extension(&self, name: &str) -> Option<NonNull<c_void>> {
        match name {
            // Runs of ONNX Runtime's processor provider may also run at the same time.
            EXTENSION_THREADS => Some(threads::<Self>()),
            ALLOCATOR => Some(allocator::<Self>()),
            PROFILE => Some(profile::<Self>()),
            _ => None,
        }
    }

    fn devices(&self) -> Result<Vec<Device>> {
        let attributes = [
            ("architecture", std::env::consts::ARCH.to_owned()),
            ("instructions", platform::instructions().join(" ")),
            ("threads", platform::threads().to_string()),
        ];
        let mut precisions = vec![PRECISION.to_owned()];
        // Only ONNX Runtime has it, and only if the host has found the library.
        if runtime_folder().is_some() {
            precisions.push("int8".into());
        }
        Ok(vec![Device {
            id: DEVICE.into(),
            kind: "cpu".into(),
            name: platform::processor_name(),
            memory_bytes: platform::memory_bytes(),
            precisions,
            attributes: attributes.map(|(key, value)| (key.to_owned(), value)).into(),
        }])
    }

    fn load(&self, request: &LoadRequest<'_>) -> Result<CpuModel> {
        let engine = request.options.get("engine").unwrap_or("rten");
        match engine {
            "rten" => {
                let known = ["engine", "optimise", "prepack-weights", OPTION_PLACEMENT];
                request.options.only(&known)?;
            }
            "onnxruntime" => check_options(&request.options, &["engine"], &[])?,
            other => {
                let message =
                    format!("option `engine` cannot be `{other}`; it can be: rten, onnxruntime");
                return Err(Error::new(ErrorCode::InvalidArgument, message));
            }
        }
        // Everything runs on the processor.
        request.options.strict_placement()?;
        if request.device != DEVICE {
            let message = format!("there is no device `{}`; there is `{DEVICE}`", request.device);
            return Err(Error::new(ErrorCode::NotFound, message));
        }
        check_threads(request.threads)?;
        if engine == "rten" {
            return Ok(CpuModel::Rten(RtenModel::load(request)?));
        }
        let library = Library::get("cpu")?;
        let model = OrtModel::load(library, request, Box::new(Cpu), platform::threads())?;
        Ok(CpuModel::Ort(model))
    }
}

/// Limit on threads. More than any processor has are a mistake, and would overload the machine.
const MOST_THREADS: u32 = 4096;

fn check_threads(threads: Option<u32>) -> Result<()> {
    match threads {
        Some(threads) if threads > MOST_THREADS => {
            let message = format!("{threads} threads exceed the maximum of {MOST_THREADS}");
            Err(Error::new(ErrorCode::InvalidArgument, message))
        }
        _ => Ok(()),
    }
}

/// A loaded model.
pub enum CpuModel {
    /// For the embedded engine.
    Rten(RtenModel),
    /// For ONNX Runtime.
    Ort(OrtModel),
}

impl Model for CpuModel {
    type Tensor = CpuTensor;
    type Session = CpuSession;

    fn info(&self) -> ModelInfo {
        match self {
            Self::Rten(model) => model.info(),
            Self::Ort(model) => model.info(),
        }
    }

    fn prepare(&self, request: &PrepareRequest<'_>) -> Result<CpuSession> {
        Ok(match self {
            Self::Rten(model) => CpuSession::Rten(model.prepare(request)?),
            Self::Ort(model) => CpuSession::Ort(Box::new(model.prepare(request)?)),
        })
    }

    fn tensor(&self, view: &View<'_>) -> Result<CpuTensor> {
        Ok(match self {
            Self::Rten(_) => CpuTensor::Rten(RtenTensor::new(view)?),
            Self::Ort(model) => CpuTensor::Ort(model.tensor(view)?),
        })
    }
}

/// A tensor in the host's memory.
#[derive(Debug)]
pub enum CpuTensor {
    /// For the embedded engine.
    Rten(RtenTensor),
    /// For ONNX Runtime.
    Ort(OrtTensor),
}

/// Message if a tensor is used with another engine's model.
const OWN_TENSORS: &str = "a tensor of another engine's model";

impl Tensor for CpuTensor {
    fn dtype(&self) -> DataType {
        match self {
            Self::Rten(tensor) => tensor.dtype(),
            Self::Ort(tensor) => tensor.dtype(),
        }
    }

    fn shape(&self) -> &[i64] {
        match self {
            Self::Rten(tensor) => tensor.shape(),
            Self::Ort(tensor) => tensor.shape(),
        }
    }

    fn read(&self, into: &mut ViewMut<'_>) -> Result<()> {
        match self {
            Self::Rten(tensor) => tensor.read(into),
            Self::Ort(tensor) => tensor.read(into),
        }
    }
}

impl rten_engine::Carrier for CpuTensor {
    fn carried(&self) -> &RtenTensor {
        let Self::Rten(tensor) = self else { panic!("{OWN_TENSORS}") };
        tensor
    }

    fn carried_mut(&mut self) -> &mut RtenTensor {
        let Self::Rten(tensor) = self else { panic!("{OWN_TENSORS}") };
        tensor
    }

    fn carry(tensor: RtenTensor) -> Self {
        Self::Rten(tensor)
    }
}

impl engine_onnxruntime::Carrier for CpuTensor {
    #[inline]
    fn carried(&self) -> &OrtTensor {
        let Self::Ort(tensor) = self else { panic!("{OWN_TENSORS}") };
        tensor
    }

    fn carry(tensor: OrtTensor) -> Self {
        Self::Ort(tensor)
    }
}

/// A model that is ready to run.
pub enum CpuSession {
    /// For the embedded engine.
    Rten(RtenSession),
    /// For ONNX Runtime.
    Ort(Box<OrtSession>),
}

impl Session for CpuSession {
    type Tensor = CpuTensor;

    fn used(&self) -> Vec<(String, String)> {
        match self {
            Self::Rten(session) => session.used(),
            Self::Ort(session) => session.used(),
        }
    }

    fn run(&mut self, inputs: &[&CpuTensor], outputs: &mut [Option<Box<CpuTensor>>]) -> Result<()> {
        match self {
            Self::Rten(session) => session.run(inputs, outputs),
            Self::Ort(session) => session.run_carried(inputs, outputs, true),
        }
    }
}

impl Allocator for CpuSession {
    fn allocator_use(&mut self) -> Result<AllocatorUse> {
        match self {
            Self::Rten(_) => {
                let message = "rten does not count what it allocates; onnxruntime does";
                Err(Error::new(ErrorCode::Unsupported, message))
            }
            Self::Ort(session) => session.allocator(),
        }
    }
}

impl Profile for CpuSession {
    fn profile(&mut self, inputs: &[&CpuTensor]) -> Result<Vec<ProfiledOperator>> {
        match self {
            Self::Rten(_) => {
                let message = "rten does not say which operators ran; onnxruntime does";
                Err(Error::new(ErrorCode::Unsupported, message))
            }
            Self::Ort(session) => session.profile_carried(inputs),
        }
    }
}

plugin_api::export_backend!(CpuBackend);
