/*!
NVIDIA GPUs, through ONNX Runtime's CUDA and TensorRT providers.

Devices are found through NVML, which comes with the driver, and are named `cuda:N` with NVML's
numbers. Tensors live on the device, and everything is queued on the plugin's streams, one for each session, so that
copying, queueing, computing and waiting can be timed separately, and several clients are served at once. The README lists options,
measurements and traps.
*/

mod memory;
mod nvml;
mod providers;

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use engine_onnxruntime::{
    GpuRuntime, Library, OrtModel, PROVIDER_OPTIONS, RuntimeNames, check_options, description,
    runtime_folder,
};
use plugin_api::abi;
use plugin_api::backend::{
    Backend, Description, Device, DeviceEnergy, DeviceMemory, DeviceReading, DeviceState, Error,
    ErrorCode, Host, LoadRequest, MemoryUse, Result, allocator, device_energy, device_memory,
    device_state, device_timer, profile, threads,
};

use memory::Baseline;
use nvml::Gpu;
use providers::{Cuda, TensorRt};

/// The CUDA runtime.
const CUDA: RuntimeNames = RuntimeNames {
    prefix: "cuda",
    memory: c"Cuda",
    libraries: &["libcudart.so.13", "libcudart.so.12", "libcudart.so"],
};

/// The plugin.
#[derive(Debug, Default)]
pub struct CudaBackend {
    baseline: Baseline,
}

impl Backend for CudaBackend {
    type Model = OrtModel;

    fn new(_host: &Host) -> Result<Self, String> {
        Ok(Self::default())
    }

    fn description(&self) -> Description {
        let extensions = [
            abi::ALLOCATOR,
            abi::DEVICE_ENERGY,
            abi::DEVICE_MEMORY,
            abi::DEVICE_STATE,
            abi::DEVICE_TIMER,
            abi::EXTENSION_THREADS,
            abi::PROFILE,
        ];
        description("cuda", env!("CARGO_PKG_VERSION"), &extensions)
    }

    fn extension(&self, name: &str) -> Option<NonNull<c_void>> {
        match name {
            abi::ALLOCATOR => Some(allocator::<Self>()),
            abi::DEVICE_ENERGY => Some(device_energy::<Self>()),
            abi::DEVICE_MEMORY => Some(device_memory::<Self>()),
            abi::DEVICE_STATE => Some(device_state::<Self>()),
            abi::DEVICE_TIMER => Some(device_timer::<Self>()),
            abi::EXTENSION_THREADS => Some(threads::<Self>()),
            abi::PROFILE => Some(profile::<Self>()),
            _ => None,
        }
    }

    fn devices(&self) -> Result<Vec<Device>> {
        // The hardware is checked first: without a GPU, a runtime is useless.
        let gpus = Gpu::all()?;
        let library = Library::get("cuda")?;
        gpus.iter().map(|gpu| gpu.describe(library.version())).collect()
    }

    fn load(&self, request: &LoadRequest<'_>) -> Result<OrtModel> {
        let own = ["cuda-graph", "execution-provider", "tf32", PROVIDER_OPTIONS];
        check_options(&request.options, &own, providers::TAKEN)?;
        let gpu = Gpu::find(request.device)?;
        let library = Library::get("cuda")?;
        let graph = request.options.parse("cuda-graph")?.unwrap_or(false);
        let tf32 = request.options.parse("tf32")?.unwrap_or(false);
        self.baseline.take(&gpu);
        // CUDA orders devices by speed and NVML by bus address, unless CUDA is set to order by bus address.
        set_unless_set("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
        if !tf32 {
            // TensorRT narrows types by itself, and has no option for it.
            set_unless_set("NVIDIA_TF32_OVERRIDE", "0");
        }
        let runtime = Arc::new(GpuRuntime::open(CUDA, runtime_folder(), gpu.ordinal)?);
        let version = runtime.version()?;
        let common = providers::Common { gpu, runtime, version, graph, tf32 };
        let provider: Box<dyn engine_onnxruntime::Provider> =
            match request.options.get("execution-provider").unwrap_or("cuda") {
                "cuda" => Box::new(Cuda(common)),
                "tensorrt" => Box::new(TensorRt(common)),
                other => {
                    let message = format!(
                        "option `execution-provider` cannot be `{other}`; it can be: cuda, tensorrt"
                    );
                    return Err(Error::new(ErrorCode::InvalidArgument, message));
                }
            };
        // Processor threads only queue work here.
        OrtModel::load(library, request, provider, 1)
    }
}

fn set_unless_set(name: &str, value: &str) {
    if std::env::var_os(name).is_none() {
        // SAFETY: a worker has no threads while it loads a model, and libraries start theirs only after this.
        unsafe { std::env::set_var(name, value) };
    }
}

impl DeviceEnergy for CudaBackend {
    fn microjoules(&self, device: &str) -> Result<u64> {
        Gpu::find(device)?.microjoules()
    }
}

impl DeviceState for CudaBackend {
    fn reading(device: &str) -> Result<DeviceReading> {
        nvml::reading(device)
    }
}

impl DeviceMemory for CudaBackend {
    fn memory(&self, device: &str) -> Result<MemoryUse> {
        self.baseline.used(&Gpu::find(device)?)
    }
}

plugin_api::export_backend!(CudaBackend);
