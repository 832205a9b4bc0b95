/*!
Qualcomm's neural processors, through ONNX Runtime's QNN provider, a separate library that is registered at its first
use.

On x86-64 the same libraries simulate the HTP. A simulator computes the hardware's outputs, but its speed is unrelated
to the hardware's: such a device is marked, and every session on it is marked as simulated. The README lists options
and traps.
*/

use std::ffi::c_void;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use engine_onnxruntime::ort::session::builder::SessionBuilder;
use engine_onnxruntime::{
    Library, Operation, OrtModel, PROVIDER_OPTIONS, Provider, ProviderOptions, ReservedOptions,
    check_options, convert, description, loader_says, ort, runtime_folder,
};
use plugin_api::abi;
use plugin_api::backend::{
    Backend, Description, Device, Error, ErrorCode, Host, LoadRequest, Result, profile,
};

const PROVIDER: &str = "QNNExecutionProvider";
const DEVICE: &str = "qnn:htp";

/// Whether the HTP is simulated, since Qualcomm does not make x86-64 processors.
const SIMULATED: bool = cfg!(target_arch = "x86_64");

/// Default of the simulator: it cannot detect a machine, and computes in fp16 only for a numbered system
/// on a chip. Models as large as BERT are known to run with these.
const SIMULATED_SOC: u32 = 60;
const SIMULATED_HTP_ARCH: u32 = 75;

/// The plugin.
#[derive(Debug)]
pub struct QnnBackend;

impl Backend for QnnBackend {
    type Model = OrtModel;

    fn new(_host: &Host) -> Result<Self, String> {
        Ok(Self)
    }

    fn description(&self) -> Description {
        description("qnn", env!("CARGO_PKG_VERSION"), &[abi::PROFILE])
    }

    fn extension(&self, name: &str) -> Option<NonNull<c_void>> {
        (name == abi::PROFILE).then(profile::<Self>)
    }

    fn devices(&self) -> Result<Vec<Device>> {
        let library = Library::get("qnn")?;
        register(library)?;
        let back_end = back_end(None)?;
        let name = if SIMULATED {
            "Qualcomm Hexagon Tensor Processor, simulated on x86-64"
        } else {
            "Qualcomm Hexagon Tensor Processor"
        };
        let attributes = [
            ("back-end", file_name(&back_end)),
            ("onnxruntime", library.version().to_owned()),
            ("simulated", SIMULATED.to_string()),
        ];
        Ok(vec![Device {
            id: DEVICE.into(),
            kind: "npu".into(),
            name: name.into(),
            memory_bytes: None,
            precisions: PRECISIONS.iter().copied().map(str::to_owned).collect(),
            attributes: attributes.map(|(key, value)| (key.to_owned(), value)).into(),
        }])
    }

    fn load(&self, request: &LoadRequest<'_>) -> Result<OrtModel> {
        check_options(&request.options, &["htp-arch", "soc-model", PROVIDER_OPTIONS], TAKEN)?;
        if request.device != DEVICE {
            let message = format!("there is no device `{}`; there is `{DEVICE}`", request.device);
            return Err(Error::new(ErrorCode::NotFound, message));
        }
        let library = Library::get("qnn")?;
        register(library)?;
        if request.options.get("provider.qnn_saver_path").is_some() {
            return Err(saver("qnn_saver_path"));
        }
        let back_end = back_end(request.options.get("provider.backend_path"))?;
        let mut target = ProviderOptions::new();
        for (option, key, simulated) in [
            ("htp-arch", "htp_arch", SIMULATED_HTP_ARCH),
            ("soc-model", "soc_model", SIMULATED_SOC),
        ] {
            let value = request.options.parse::<u32>(option)?;
            if let Some(value) = value.or(SIMULATED.then_some(simulated)) {
                target.insert(key.to_owned(), value.to_string());
            }
        }
        // Processor threads only queue work here.
        OrtModel::load(library, request, Box::new(Qnn { library, back_end, target }), 1)
    }
}

/// Options that this backend sets itself. `backend_path` is set too, to the manifest's value after
/// a check.
const TAKEN: &ReservedOptions = &[
    ("enable_htp_fp16_precision", "`precision` of the matrix"),
    ("htp_arch", "the option `htp-arch`"),
    ("soc_model", "the option `soc-model`"),
];

/// The HTP has no fp32.
const PRECISIONS: &[&str] = &["fp16", "int8"];

/// Registers the provider's library, once in a process.
fn register(library: &'static Library) -> Result<()> {
    static REGISTERED: Mutex<bool> = Mutex::new(false);
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    if *registered || devices_of(library).next().is_some() {
        return Ok(());
    }
    let file = find("onnxruntime_providers_qnn")?;
    let environment = library.environment();
    let registering = environment.register_ep_library(PROVIDER, &file);
    registering.map_err(|error| convert(&error, Operation::Running))?;
    if devices_of(library).next().is_none() {
        let message = format!("{} finds no device on this machine", file.display());
        return Err(Error::new(ErrorCode::NotFound, message));
    }
    *registered = true;
    Ok(())
}

/// Returns the provider's devices in ONNX Runtime.
fn devices_of(library: &'static Library) -> impl Iterator<Item = ort::device::Device<'static>> {
    library.environment().devices().filter(|device| device.ep().is_ok_and(|name| name == PROVIDER))
}

/// Returns a library of the runtime.
fn find(name: &str) -> Result<PathBuf> {
    let file = format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let path = runtime_folder().map(|folder| folder.join(&file));
    path.filter(|path| path.is_file()).ok_or_else(|| {
        let message = format!(
            "{file} was not found beside ONNX Runtime; install it with `host runtimes install qnn`"
        );
        Error::new(ErrorCode::RuntimeMissing, message)
    })
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the error for an option that requests the Saver.
fn saver(option: &str) -> Error {
    let message = format!(
        "provider.{option}: QNN's Saver writes down what it is asked to compute, and its outputs are \
         wrong"
    );
    Error::new(ErrorCode::InvalidArgument, message)
}

/// Returns the library that computes: the HTP's, or a named one. If the provider cannot open it, it only logs an
/// error and lets the processor compute, so it is opened here first.
fn back_end(named: Option<&str>) -> Result<PathBuf> {
    let path = match named {
        None => find("QnnHtp")?,
        // The system's loader treats an empty name as the program itself, and the provider as its default.
        Some("") => {
            let message = "provider.backend_path is empty; it must be the full path of a library";
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        Some(path) => PathBuf::from(path),
    };
    if file_name(&path).contains("QnnSaver") {
        return Err(saver("backend_path"));
    }
    // SAFETY: this is the library that the provider opens next.
    match unsafe { libloading::Library::new(&path) } {
        Ok(library) => {
            // It stays open: its threads may not have ended.
            std::mem::forget(library);
            Ok(path)
        }
        Err(error) => {
            let (path, why) = (path.display(), loader_says(&error));
            let message = format!("QNN's back end {path} cannot be opened: {why}");
            Err(Error::new(ErrorCode::NotFound, message))
        }
    }
}

/// The execution provider.
struct Qnn {
    library: &'static Library,
    back_end: PathBuf,
    /// The target of compilation, if known.
    target: ProviderOptions,
}

impl Provider for Qnn {
    fn name(&self) -> &str {
        PROVIDER
    }

    fn precisions(&self) -> &[&str] {
        PRECISIONS
    }

    /// Weights in fp32 are rounded to fp16, on request.
    fn converts(&self, file: &str, precision: &str) -> bool {
        (file, precision) == ("fp32", "fp16")
    }

    /// QNN does not support dynamic shapes.
    fn specialises(&self) -> bool {
        true
    }

    /// Returns the lengths of axes that it supports. They have 32 bits, and larger ones end the process. So does an
    /// axis of zero with a quantised model, by a division by zero.
    fn axes(&self) -> RangeInclusive<i64> {
        1..=u32::MAX.into()
    }

    fn options(&self, precision: &str) -> ProviderOptions {
        let half = if precision == "fp16" { "1" } else { "0" };
        let mut options = self.target.clone();
        options.insert("backend_path".into(), self.back_end.display().to_string());
        options.insert("enable_htp_fp16_precision".into(), half.into());
        options
    }

    fn append(
        &self,
        builder: SessionBuilder,
        options: &ProviderOptions,
    ) -> ort::Result<SessionBuilder> {
        let options: Vec<_> = options
            .iter()
            .map(|(key, value)| (format!("{PROVIDER}.{key}"), value.clone()))
            .collect();
        Ok(builder.with_devices(devices_of(self.library).take(1), Some(&options))?)
    }

    fn used(&self) -> Vec<(String, String)> {
        let why =
            "the HTP is simulated on x86-64: its outputs are the hardware's, its times are not";
        let simulated = SIMULATED.then(|| ("simulated".to_owned(), why.to_owned()));
        simulated.into_iter().collect()
    }

    fn check_log(&self, log: &str) -> Result<(), String> {
        match log.lines().find_map(|line| line.strip_prefix("error: ")) {
            None => Ok(()),
            Some(line) => {
                Err(format!("QNN does not work, and the processor would compute: {line}"))
            }
        }
    }
}

plugin_api::export_backend!(QnnBackend);
