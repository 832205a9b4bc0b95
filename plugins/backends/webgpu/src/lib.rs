/*!
GPUs through Vulkan, with ONNX Runtime's WebGPU provider.

There is one device, `webgpu:0`: the one that the provider chooses, which cannot be influenced. A software device,
such as SwiftShader, works like the others, but is marked as such, and its sessions are marked as simulated. The
README lists options and traps.
*/

mod vulkan;

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use engine_onnxruntime::ort::session::builder::SessionBuilder;
use engine_onnxruntime::{
    Library, OrtModel, PROVIDER_OPTIONS, Provider, ProviderOptions, ReservedOptions,
    append_by_name, check_options, description, ort,
};
use plugin_api::abi;
use plugin_api::backend::{
    Backend, Description, Device, Error, ErrorCode, Host, LoadRequest, Result, profile,
};

use vulkan::Gpu;

const DEVICE: &str = "webgpu:0";

/// Options that this backend sets itself.
const TAKEN: &ReservedOptions =
    &[("dawnBackendType", "`device` of the backend, which is Vulkan's")];

/// The plugin.
#[derive(Debug)]
pub struct WebGpuBackend;

impl Backend for WebGpuBackend {
    type Model = OrtModel;

    fn new(_host: &Host) -> Result<Self, String> {
        Ok(Self)
    }

    fn description(&self) -> Description {
        description("webgpu", env!("CARGO_PKG_VERSION"), &[abi::PROFILE])
    }

    fn extension(&self, name: &str) -> Option<NonNull<c_void>> {
        (name == abi::PROFILE).then(profile::<Self>)
    }

    fn devices(&self) -> Result<Vec<Device>> {
        let gpu = Gpu::find()?;
        let library = Library::get("webgpu")?;
        let attributes = [
            ("driver", gpu.driver.clone()),
            ("onnxruntime", library.version().to_owned()),
            ("software", gpu.is_software().to_string()),
            ("vulkan", gpu.vulkan.clone()),
        ];
        Ok(vec![Device {
            id: DEVICE.into(),
            kind: "gpu".into(),
            name: gpu.name.clone(),
            memory_bytes: Some(gpu.memory_bytes),
            precisions: precisions(&gpu).iter().copied().map(str::to_owned).collect(),
            attributes: attributes.map(|(key, value)| (key.to_owned(), value)).into(),
        }])
    }

    fn load(&self, request: &LoadRequest<'_>) -> Result<OrtModel> {
        check_options(&request.options, &[PROVIDER_OPTIONS], TAKEN)?;
        if request.device != DEVICE {
            let message = format!("there is no device `{}`; there is `{DEVICE}`", request.device);
            return Err(Error::new(ErrorCode::NotFound, message));
        }
        let gpu = Gpu::find()?;
        let library = Library::get("webgpu")?;
        // Processor threads only queue work here.
        OrtModel::load(library, request, Box::new(WebGpu(gpu)), 1)
    }
}

fn precisions(gpu: &Gpu) -> &'static [&'static str] {
    if gpu.half { &["fp32", "fp16"] } else { &["fp32"] }
}

/// The execution provider.
struct WebGpu(Gpu);

impl Provider for WebGpu {
    fn name(&self) -> &str {
        "WebGpuExecutionProvider"
    }

    fn precisions(&self) -> &[&str] {
        precisions(&self.0)
    }

    fn options(&self, _: &str) -> ProviderOptions {
        ProviderOptions::from([("dawnBackendType".to_owned(), "Vulkan".to_owned())])
    }

    fn append(
        &self,
        builder: SessionBuilder,
        options: &ProviderOptions,
    ) -> ort::Result<SessionBuilder> {
        append_by_name(builder, c"WebGPU", options)
    }

    fn memory(&self) -> Option<(&'static CStr, i32)> {
        Some((c"WebGPU_Buf", 0))
    }

    fn used(&self) -> Vec<(String, String)> {
        let Gpu { name, driver, .. } = &self.0;
        let mut used = vec![
            ("gpu".to_owned(), format!("{name}, driver {driver}")),
            ("tensors".to_owned(), "in the host's memory; each run copies in and out".to_owned()),
        ];
        if self.0.is_software() {
            let why = format!("{name} is a program on the processor, and no GPU");
            used.push(("simulated".to_owned(), why));
        }
        used
    }
}

plugin_api::export_backend!(WebGpuBackend);
