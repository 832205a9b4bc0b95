/*!
AMD GPUs, through ONNX Runtime's MIGraphX provider, or the ROCm provider of earlier versions.

Devices are found in files of the Linux driver, and are named `rocm:N` with HIP's numbers. With the
ROCm provider, tensors live on the device, as on NVIDIA's: HIP's functions for memory and time are CUDA's
with other names. With MIGraphX they live in the host's memory, and each run copies them. The
README lists the options, and what was tested.
*/

mod kfd;

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use engine_onnxruntime::ort::ep::{self, ArbitrarilyConfigurableExecutionProvider};
use engine_onnxruntime::ort::session::builder::SessionBuilder;
use engine_onnxruntime::{
    Accelerator, GpuRuntime, Library, OrtModel, PROVIDER_OPTIONS, Provider, ProviderOptions,
    ReservedOptions, RuntimeNames, append_by_name, check_options, description, ort, runtime_folder,
};
use plugin_api::abi;
use plugin_api::backend::{
    Backend, Description, Device, Error, ErrorCode, Host, LoadRequest, Result, allocator,
    device_timer, profile,
};

use kfd::Gpu;

/// The HIP runtime.
const HIP: RuntimeNames = RuntimeNames {
    prefix: "hip",
    memory: c"Hip",
    libraries: &["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"],
};

/// The plugin.
#[derive(Debug)]
pub struct RocmBackend;

impl Backend for RocmBackend {
    type Model = OrtModel;

    fn new(_host: &Host) -> Result<Self, String> {
        Ok(Self)
    }

    fn description(&self) -> Description {
        description(
            "rocm",
            env!("CARGO_PKG_VERSION"),
            &[abi::ALLOCATOR, abi::DEVICE_TIMER, abi::PROFILE],
        )
    }

    fn extension(&self, name: &str) -> Option<NonNull<c_void>> {
        match name {
            abi::ALLOCATOR => Some(allocator::<Self>()),
            abi::DEVICE_TIMER => Some(device_timer::<Self>()),
            abi::PROFILE => Some(profile::<Self>()),
            _ => None,
        }
    }

    fn devices(&self) -> Result<Vec<Device>> {
        // The hardware is checked first: without a GPU, a runtime is useless.
        let gpus = Gpu::all(true)?;
        let library = Library::get("rocm")?;
        let driver = std::fs::read_to_string("/sys/module/amdgpu/version").ok();
        let device = |gpu: Gpu| {
            let mut attributes = vec![
                ("architecture".to_owned(), gpu.architecture),
                ("onnxruntime".to_owned(), library.version().to_owned()),
            ];
            let driver = driver.as_ref().map(|version| version.trim().to_owned());
            attributes.extend(driver.map(|version| ("driver".to_owned(), version)));
            Device {
                id: format!("rocm:{}", gpu.ordinal),
                kind: "gpu".into(),
                name: gpu.name,
                memory_bytes: gpu.memory_bytes,
                precisions: PRECISIONS.iter().copied().map(str::to_owned).collect(),
                attributes,
            }
        };
        Ok(gpus.into_iter().map(device).collect())
    }

    fn load(&self, request: &LoadRequest<'_>) -> Result<OrtModel> {
        let own = ["execution-provider", PROVIDER_OPTIONS];
        check_options(&request.options, &own, TAKEN)?;
        let provider = request.options.get("execution-provider").unwrap_or("migraphx");
        if !["migraphx", "rocm"].contains(&provider) {
            let message = format!(
                "option `execution-provider` cannot be `{provider}`; it can be: migraphx, rocm"
            );
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        let migraphx = provider == "migraphx";
        let gpus = Gpu::all(migraphx)?;
        let gpu = gpus.into_iter().find(|gpu| format!("rocm:{}", gpu.ordinal) == request.device);
        let gpu = gpu.ok_or_else(|| {
            let message = format!("there is no device `{}`", request.device);
            Error::new(ErrorCode::NotFound, message)
        })?;
        let library = Library::get("rocm")?;
        let runtime = if migraphx {
            None
        } else {
            Some(Arc::new(GpuRuntime::open(HIP, runtime_folder(), gpu.ordinal)?))
        };
        let provider = Hip { gpu, runtime };
        // Processor threads only queue work here.
        OrtModel::load(library, request, Box::new(provider), 1)
    }
}

const PRECISIONS: &[&str] = &["fp32", "fp16"];

/// Options that this backend sets itself, for either provider, and those that would change the
/// precision.
const TAKEN: &ReservedOptions = &[
    ("device_id", "`device` of the backend"),
    ("has_user_compute_stream", "the backend"),
    ("migraphx_bf16_enable", "`precision` of the matrix"),
    ("migraphx_fp16_enable", "`precision` of the matrix"),
    ("migraphx_fp8_enable", "`precision` of the matrix"),
    ("migraphx_int8_enable", "`precision` of the matrix"),
    ("user_compute_stream", "the backend"),
];

/// One of the two execution providers.
struct Hip {
    gpu: Gpu,
    /// Runtime of the ROCm provider, which computes on the plugin's stream. MIGraphX has its own
    /// stream, on which the plugin cannot wait, so its runs copy in and out themselves and are done
    /// when they return.
    runtime: Option<Arc<GpuRuntime>>,
}

impl Hip {
    fn is_migraphx(&self) -> bool {
        self.runtime.is_none()
    }
}

impl Provider for Hip {
    fn name(&self) -> &str {
        if self.is_migraphx() { "MIGraphXExecutionProvider" } else { "ROCMExecutionProvider" }
    }

    fn precisions(&self) -> &[&str] {
        PRECISIONS
    }

    /// MIGraphX compiles for the given shapes, and converts fp32 to fp16 on request.
    fn converts(&self, file: &str, precision: &str) -> bool {
        self.is_migraphx() && (file, precision) == ("fp32", "fp16")
    }

    fn specialises(&self) -> bool {
        self.is_migraphx()
    }

    fn options(&self, precision: &str) -> ProviderOptions {
        let mut options =
            ProviderOptions::from([("device_id".to_owned(), self.gpu.ordinal.to_string())]);
        if self.is_migraphx() {
            let half = if precision == "fp16" { "1" } else { "0" };
            options.insert("migraphx_fp16_enable".into(), half.into());
        }
        options
    }

    fn append(
        &self,
        builder: SessionBuilder,
        options: &ProviderOptions,
    ) -> ort::Result<SessionBuilder> {
        let Some(runtime) = &self.runtime else {
            return append_by_name(builder, c"MIGraphX", options);
        };
        let rocm = options
            .iter()
            .fold(ep::ROCm::default(), |rocm, (key, value)| rocm.with_arbitrary_config(key, value));
        let rocm = rocm.with_compute_stream(runtime.stream()).build().error_on_failure();
        Ok(builder.with_execution_providers([rocm])?)
    }

    fn accelerator(&self) -> Option<Arc<dyn Accelerator>> {
        let runtime = self.runtime.clone()?;
        Some(runtime)
    }

    fn used(&self) -> Vec<(String, String)> {
        let copies = self.is_migraphx().then(|| {
            let how = "in the host's memory; each run copies in and out";
            ("tensors".to_owned(), how.to_owned())
        });
        copies.into_iter().collect()
    }
}

plugin_api::export_backend!(RocmBackend);
