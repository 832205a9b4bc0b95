/*!
Apple silicon, through ONNX Runtime's Core ML provider.

There is one device, `mps:0`, which stands for everything that Core ML may use: GPU and Neural Engine,
and the processor for operators that these lack. It exists on macOS only. The README lists the options,
and what was tested.
*/

use std::ffi::c_void;
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

const DEVICE: &str = "mps:0";
const COMPUTE_UNITS: [&str; 4] = ["ALL", "CPUAndGPU", "CPUAndNeuralEngine", "CPUOnly"];
const PRECISIONS: &[&str] = &["fp32", "fp16"];

/// Options that this backend sets itself. The older format, and sums of lower precision, would change the model's
/// precision.
const TAKEN: &ReservedOptions = &[
    ("AllowLowPrecisionAccumulationOnGPU", "`precision` of the matrix"),
    ("MLComputeUnits", "the option `compute-units`"),
    ("ModelFormat", "`precision` of the matrix"),
];

/// The plugin.
#[derive(Debug)]
pub struct MpsBackend;

impl Backend for MpsBackend {
    type Model = OrtModel;

    fn new(_host: &Host) -> Result<Self, String> {
        Ok(Self)
    }

    fn description(&self) -> Description {
        description("mps", env!("CARGO_PKG_VERSION"), &[abi::PROFILE])
    }

    fn extension(&self, name: &str) -> Option<NonNull<c_void>> {
        (name == abi::PROFILE).then(profile::<Self>)
    }

    fn devices(&self) -> Result<Vec<Device>> {
        let name = processor()?;
        let library = Library::get("mps")?;
        Ok(vec![Device {
            id: DEVICE.into(),
            kind: "gpu".into(),
            name: format!("{name}, through Core ML"),
            // The memory belongs to the whole machine.
            memory_bytes: None,
            precisions: PRECISIONS.iter().copied().map(str::to_owned).collect(),
            attributes: vec![("onnxruntime".into(), library.version().into())],
        }])
    }

    fn load(&self, request: &LoadRequest<'_>) -> Result<OrtModel> {
        check_options(&request.options, &["compute-units", PROVIDER_OPTIONS], TAKEN)?;
        if request.device != DEVICE {
            let message = format!("there is no device `{}`; there is `{DEVICE}`", request.device);
            return Err(Error::new(ErrorCode::NotFound, message));
        }
        let units = request.options.get("compute-units").unwrap_or("ALL");
        if !COMPUTE_UNITS.contains(&units) {
            let known = COMPUTE_UNITS.join(", ");
            let message = format!("option `compute-units` cannot be `{units}`; it can be: {known}");
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        processor()?;
        let library = Library::get("mps")?;
        OrtModel::load(library, request, Box::new(CoreMl { units: units.into() }), 1)
    }
}

/// Returns the name of the machine's processor, if Core ML exists.
fn processor() -> Result<String> {
    if !cfg!(target_os = "macos") {
        let message = format!(
            "there is no Apple GPU: Core ML, which drives it, is part of macOS, but this is {}",
            std::env::consts::OS
        );
        return Err(Error::new(ErrorCode::NotFound, message));
    }
    let output = std::process::Command::new("/usr/sbin/sysctl")
        .args(["-n", "machdep.cpu.brand_string"])
        .output()
        .map_err(|error| Error::new(ErrorCode::Device, format!("sysctl: {error}")))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The execution provider.
struct CoreMl {
    units: String,
}

impl Provider for CoreMl {
    fn name(&self) -> &str {
        "CoreMLExecutionProvider"
    }

    fn precisions(&self) -> &[&str] {
        PRECISIONS
    }

    /// Core ML compiles for the given shapes, and leaves dynamic ones to the processor.
    fn specialises(&self) -> bool {
        true
    }

    fn options(&self, _: &str) -> ProviderOptions {
        ProviderOptions::from([
            ("AllowLowPrecisionAccumulationOnGPU".to_owned(), "0".to_owned()),
            ("MLComputeUnits".to_owned(), self.units.clone()),
            // The older format computes in fp16 on the GPU, for all types of the model.
            ("ModelFormat".to_owned(), "MLProgram".to_owned()),
        ])
    }

    fn append(
        &self,
        builder: SessionBuilder,
        options: &ProviderOptions,
    ) -> ort::Result<SessionBuilder> {
        append_by_name(builder, c"CoreML", options)
    }
}

plugin_api::export_backend!(MpsBackend);
