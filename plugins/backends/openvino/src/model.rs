//! A model on a device, and its compilation for given shapes and a precision.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use plugin_api::backend::{
    DataType, Dimension, Error, ErrorCode, LoadRequest, Model, ModelInfo, PrepareRequest, Result,
    TensorInfo, ValueKind, View,
};

use crate::devices::{self, AUTO};
use crate::file::ModelFile;
use crate::native::{self, Compiled, Core, Failure, PortInfo};
use crate::options::{self, Setting};
use crate::session::{OpenvinoSession, OpenvinoTensor};

/// OpenVINO's names of precisions.
const PRECISIONS: &[(&str, &str)] = &[("fp32", "f32"), ("fp16", "f16"), ("bf16", "bf16")];

/// Facts about a session, and the property that has each.
const USED: &[(&str, &str)] = &[
    ("threads", "INFERENCE_NUM_THREADS"),
    ("streams", "NUM_STREAMS"),
    ("performance-hint", "PERFORMANCE_HINT"),
    ("execution-mode", "EXECUTION_MODE_HINT"),
    ("cpu-pinning", "ENABLE_CPU_PINNING"),
    ("hyper-threading", "ENABLE_HYPER_THREADING"),
    ("dynamic-quantisation-group-size", "DYNAMIC_QUANTIZATION_GROUP_SIZE"),
    ("requests", "OPTIMAL_NUMBER_OF_INFER_REQUESTS"),
    ("runtime-requirements", "RUNTIME_REQUIREMENTS"),
];

/// Types that OpenVINO narrows on the processor in any precision.
const CONVERTED: &[(DataType, &str)] = &[
    (DataType::I64, "int64 to int32"),
    (DataType::U64, "uint64 to int32"),
    (DataType::U32, "uint32 to int32"),
    (DataType::F64, "float64 to float32"),
];

/// A loaded model.
#[derive(Debug)]
pub struct OpenvinoModel {
    loaded: Arc<Loaded>,
    info: ModelInfo,
    inputs: Vec<Expected>,
    /// Compiled models in use: several sessions of one kind share one, as OpenVINO recommends.
    compiled: Mutex<BTreeMap<Key, Weak<Ready>>>,
}

type Key = (String, Vec<Vec<i64>>);

/// Name and element type of an input.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    pub(crate) name: String,
    pub(crate) dtype: Option<DataType>,
}

/// Everything needed for compiling.
#[derive(Debug)]
struct Loaded {
    core: Arc<Core>,
    model: Mutex<native::Model>,
    /// The device, by OpenVINO's name and by its id.
    device: String,
    id: String,
    /// The devices that may do the work: the device itself, or AUTO's candidates.
    candidates: Vec<Candidate>,
    precisions: Vec<String>,
    quantised: bool,
    /// Element types of the model that the processor lacks, as `int64 to int32`.
    converted: Vec<&'static str>,
    threads: Option<u32>,
    settings: Vec<Setting>,
}

/// A device that may do the work.
#[derive(Debug)]
struct Candidate {
    name: String,
    /// Properties that it has.
    supported: Vec<String>,
}

impl Candidate {
    fn has(&self, property: &str) -> bool {
        self.supported.iter().any(|supported| supported == property)
    }
}

/// A compiled model, and its properties.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) compiled: Compiled,
    pub(crate) outputs: Vec<PortInfo>,
    pub(crate) used: Vec<(String, String)>,
    /// Number of requests in flight that OpenVINO recommends.
    pub(crate) requests: usize,
    /// Data to compile it again, for a profile.
    recompilation: Recompilation,
}

#[derive(Debug)]
struct Recompilation {
    loaded: Arc<Loaded>,
    hint: &'static str,
    shapes: Vec<Vec<i64>>,
}

impl Ready {
    /// Returns the same model, compiled with counters for operators.
    pub(crate) fn profiled(&self) -> Result<Compiled> {
        let Recompilation { loaded, hint, shapes } = &self.recompilation;
        let shapes: Vec<&[i64]> = shapes.iter().map(Vec::as_slice).collect();
        loaded.compile(hint, &shapes, true)
    }

    /// Returns the device that it runs on, by OpenVINO's name.
    pub(crate) fn device(&self) -> &str {
        let provider = self.used.iter().find(|(key, _)| key == "provider");
        provider.map_or("", |(_, device)| device)
    }
}

impl OpenvinoModel {
    pub(crate) fn load(core: &Arc<Core>, request: &LoadRequest<'_>) -> Result<Self> {
        let settings = options::settings(&request.options)?;
        let device = devices::find(core, request.device)?;
        let candidates = match device.as_str() {
            AUTO => core.devices().map_err(|failure| device_error(&device, &failure))?,
            _ => vec![device.clone()],
        };
        let candidates: Vec<Candidate> = candidates
            .into_iter()
            .map(|name| Candidate { supported: supported(core, &name), name })
            .collect();
        let own = supported(core, &device);
        check_settings(&settings, &own, &candidates, request.device)?;
        let file = ModelFile::read(request.path)?;
        let path = request.path.to_str().ok_or_else(|| {
            let message = format!("the path {} is not UTF-8", request.path.display());
            Error::new(ErrorCode::InvalidArgument, message)
        })?;
        let model = core.read(path).map_err(|failure| unreadable(path, &failure))?;
        let ports = |ports: native::Result<Vec<PortInfo>>, word: &str| {
            let ports = ports.map_err(|failure| unreadable(path, &failure))?;
            Ok(ports.into_iter().enumerate().map(|(at, port)| described(port, word, at)).collect())
        };
        let (inputs, outputs): (Vec<_>, Vec<_>) =
            (ports(model.inputs(), "input")?, ports(model.outputs(), "output")?);
        if outputs.is_empty() {
            let message = format!("{path}: has no outputs");
            return Err(Error::new(ErrorCode::InvalidModel, message));
        }
        let info = |port: &PortInfo| tensor_info(port, &file);
        let info = ModelInfo {
            inputs: inputs.iter().map(info).collect(),
            outputs: outputs.iter().map(info).collect(),
        };
        let expected = info
            .inputs
            .iter()
            .map(|input| Expected { name: input.name.clone(), dtype: input.dtype })
            .collect();
        let loaded = Loaded {
            core: Arc::clone(core),
            model: Mutex::new(model),
            precisions: devices::precisions(core, &device),
            device,
            id: request.device.into(),
            candidates,
            quantised: file.is_quantised(),
            converted: CONVERTED
                .iter()
                .filter(|(dtype, _)| file.has(*dtype))
                .map(|(_, what)| *what)
                .collect(),
            threads: request.threads,
            settings,
        };
        Ok(Self { loaded: Arc::new(loaded), info, inputs: expected, compiled: Mutex::default() })
    }
}

/// Returns a port that always has a name.
fn described(port: PortInfo, word: &str, at: usize) -> PortInfo {
    PortInfo { name: Some(port.name.unwrap_or_else(|| format!("{word}{at}"))), ..port }
}

fn tensor_info(port: &PortInfo, file: &ModelFile) -> TensorInfo {
    let name = port.name.clone().unwrap_or_default();
    let dimensions = port.axes.as_ref().map(|axes| {
        let dimension = |(at, axis): (usize, &native::Axis)| match axis {
            Some(size) => Dimension::Fixed(*size),
            None => Dimension::Dynamic(file.axis_name(&name, at)),
        };
        axes.iter().enumerate().map(dimension).collect()
    });
    TensorInfo { dtype: port.dtype, dimensions, name, kind: ValueKind::Tensor }
}

/// Returns the names of the properties that a device has.
fn supported(core: &Core, device: &str) -> Vec<String> {
    let text = core.property(device, "SUPPORTED_PROPERTIES").unwrap_or_default();
    text.split([' ', ',']).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Checks whether every requested setting applies to a device.
fn check_settings(
    settings: &[Setting],
    own: &[String],
    candidates: &[Candidate],
    id: &str,
) -> Result<()> {
    for Setting { property, option, .. } in settings {
        let Some(option) = option else { continue };
        if !own.contains(property) && !candidates.iter().any(|candidate| candidate.has(property)) {
            let mut known: Vec<&str> = own.iter().map(String::as_str).collect();
            known
                .extend(candidates.iter().flat_map(|one| one.supported.iter().map(String::as_str)));
            known.sort_unstable();
            known.dedup();
            let message =
                format!("option `{option}` has no effect on {id}: it has no `{property}`");
            return Err(Error::new(ErrorCode::InvalidArgument, message)
                .with_details(format!("It has: {}", known.join(", "))));
        }
    }
    Ok(())
}

fn device_error(device: &str, failure: &Failure) -> Error {
    Error::new(ErrorCode::Device, format!("{device}: {failure}"))
}

/// Returns the out-of-memory code if a failure is about memory, else `otherwise`.
pub(crate) fn code_or(failure: &Failure, otherwise: ErrorCode) -> ErrorCode {
    const MEMORY: &[&str] = &[
        "bad_alloc",
        "out of memory",
        "not enough memory",
        "OUT_OF_RESOURCES",
        "allocation failed",
    ];
    let message = failure.message.to_lowercase();
    if MEMORY.iter().any(|word| message.contains(&word.to_lowercase())) {
        return ErrorCode::OutOfMemory;
    }
    otherwise
}

fn unreadable(path: &str, failure: &Failure) -> Error {
    // A model with an operator that OpenVINO lacks is not damaged. Its path is any text.
    let lacks = is_lacking(&failure.message.replace(path, ""));
    let code = if lacks { ErrorCode::Unsupported } else { ErrorCode::InvalidModel };
    Error::new(code_or(failure, code), format!("{path}: {failure}"))
}

/// Returns whether a message says that OpenVINO lacks something.
fn is_lacking(message: &str) -> bool {
    const LACKS: &[&str] = &[
        "no conversion rule",
        "not supported",
        "unsupported",
        "doesn't support",
        "does not support",
        "only supports",
    ];
    let message = message.to_lowercase();
    LACKS.iter().any(|word| message.contains(word))
}

/// Returns the error of a failed run.
pub(crate) fn run_error(failure: &Failure) -> Error {
    Error::new(code_or(failure, run_code(&failure.message)), failure.message.clone())
}

fn run_code(message: &str) -> ErrorCode {
    // A shape or an index that does not fit is not the device's fault.
    const MISFITS: &[&str] =
        &["shape inference", "argument shapes", "incompatible", "inconsistent", "out of range"];
    let lower = message.to_lowercase();
    match MISFITS.iter().any(|word| lower.contains(word)) {
        true => ErrorCode::InvalidArgument,
        false if is_lacking(message) => ErrorCode::Unsupported,
        false => ErrorCode::Device,
    }
}

impl Loaded {
    fn model(&self) -> MutexGuard<'_, native::Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns OpenVINO's hint for the precision.
    ///
    /// # Errors
    ///
    /// If the device does not offer it, or the model's file determines another.
    fn hint(&self, precision: &str) -> Result<&'static str> {
        let unsupported = |message| Err(Error::new(ErrorCode::Unsupported, message));
        if !self.precisions.iter().any(|offered| offered == precision) {
            let (id, offered) = (&self.id, self.precisions.join(", "));
            return unsupported(format!("{precision} is not offered by {id}; {offered} is"));
        }
        match (precision, self.quantised) {
            ("int8", false) => unsupported(
                "the model is not quantised, so its engine computes it in floating point; for int8, give \
                 the model a file that is quantised, or ask for another precision"
                    .into(),
            ),
            ("int8", true) => {
                // The precision of the parts that stay in floating point. Only processors compute in 32 bits.
                let processor = self.candidates.iter().any(|one| one.name.starts_with("CPU"));
                Ok(if processor { "f32" } else { "f16" })
            }
            (_, true) => unsupported(format!(
                "the model is quantised and computes in int8, not in {precision}; give the model \
                 a file for {precision}"
            )),
            (_, false) => match PRECISIONS.iter().find(|(ours, _)| *ours == precision) {
                Some((_, theirs)) => Ok(theirs),
                None => unsupported(format!("{precision} is not a precision")),
            },
        }
    }

    /// Returns the properties for one of the devices that may do the work.
    fn properties(
        &self,
        candidate: &Candidate,
        hint: &str,
        profiled: bool,
    ) -> Vec<(String, String)> {
        let threads = self.threads.map(|threads| threads.to_string());
        let fixed = [
            ("INFERENCE_PRECISION_HINT", Some(hint.to_owned())),
            ("INFERENCE_NUM_THREADS", threads),
            ("PERF_COUNT", profiled.then(|| "YES".to_owned())),
        ];
        let fixed = fixed.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        let asked = self.settings.iter().map(|one| (one.property.clone(), one.value.clone()));
        fixed.chain(asked).filter(|(property, _)| candidate.has(property)).collect()
    }

    /// Returns the properties of the whole. AUTO gets those to pass to each device, and the setting that no other
    /// device may replace the chosen one.
    fn all_properties(&self, hint: &str, profiled: bool) -> Vec<(String, String)> {
        let [candidate] = self.candidates.as_slice() else { return self.for_auto(hint, profiled) };
        if self.device == AUTO {
            return self.for_auto(hint, profiled);
        }
        self.properties(candidate, hint, profiled)
    }

    fn for_auto(&self, hint: &str, profiled: bool) -> Vec<(String, String)> {
        let each = self.candidates.iter().map(|candidate| {
            let properties = self.properties(candidate, hint, profiled);
            let pairs: Vec<String> =
                properties.iter().map(|(key, value)| format!("{key}:{value}")).collect();
            format!("{}:{{{}}}", candidate.name, pairs.join(","))
        });
        let each: Vec<String> = each.collect();
        let mut all = vec![
            ("DEVICE_PROPERTIES".to_owned(), format!("{{{}}}", each.join(","))),
            ("ENABLE_STARTUP_FALLBACK".to_owned(), "NO".to_owned()),
            ("ENABLE_RUNTIME_FALLBACK".to_owned(), "NO".to_owned()),
        ];
        // Only AUTO itself knows this.
        let own = self.settings.iter().filter(|setting| {
            !self.candidates.iter().any(|candidate| candidate.has(&setting.property))
                || setting.property == "PERFORMANCE_HINT"
        });
        all.extend(own.map(|setting| (setting.property.clone(), setting.value.clone())));
        all
    }

    fn compile(&self, hint: &str, shapes: &[&[i64]], profiled: bool) -> Result<Compiled> {
        let mut model = self.model();
        let now = model.inputs().map_err(|failure| device_error(&self.device, &failure))?;
        let same =
            now.iter().zip(shapes).all(|(port, shape)| port.shape().as_deref() == Some(shape));
        if !same {
            model.reshape(shapes).map_err(|failure| {
                let message = format!("the model cannot take the shapes {shapes:?}: {failure}");
                Error::new(code_or(&failure, ErrorCode::InvalidArgument), message)
            })?;
        }
        let properties = self.all_properties(hint, profiled);
        self.core.compile(&model, &self.device, &properties).map_err(|failure| {
            let message = format!("{} cannot compile the model: {failure}", self.id);
            Error::new(code_or(&failure, ErrorCode::Unsupported), message)
        })
    }

    /// Returns a property of the compiled model; for AUTO, the chosen device's property.
    fn property(&self, compiled: &Compiled, device: &str, key: &str) -> Option<String> {
        if self.device != AUTO {
            return compiled.property(key).ok();
        }
        let own = compiled.property(key).ok().filter(|value| !value.is_empty());
        own.or_else(|| {
            let all = compiled.property("DEVICE_PROPERTIES").ok()?;
            value_in(&all, device, key).map(str::to_owned)
        })
    }

    fn prepare(self: &Arc<Self>, precision: &str, shapes: &[&[i64]]) -> Result<Ready> {
        let hint = self.hint(precision)?;
        if shapes.iter().any(|shape| shape.contains(&0)) {
            let message =
                format!("OpenVINO does not support an axis of size 0; the shapes are {shapes:?}");
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        let compiled = self.compile(hint, shapes, false)?;
        let failed = |failure: Failure| device_error(&self.device, &failure);
        let device = compiled.property("EXECUTION_DEVICES").map_err(failed)?;
        // AUTO puts the device in parentheses while it has not decided.
        let device = device.trim_matches(['(', ')']).to_owned();
        if self.device != AUTO && device != self.device {
            let message = format!("{} was requested, but OpenVINO runs on {device}", self.device);
            return Err(Error::new(ErrorCode::Device, message));
        }
        let read = self.property(&compiled, &device, "INFERENCE_PRECISION_HINT");
        match read.as_deref() {
            Some(used) if used == hint => {}
            used => {
                let used = used.unwrap_or("an unknown precision");
                let message = format!("{hint} was requested, but {device} uses {used}");
                return Err(Error::new(ErrorCode::Unsupported, message));
            }
        }
        let mut used = vec![
            ("precision".to_owned(), precision.to_owned()),
            ("inference-precision".to_owned(), hint.to_owned()),
            ("provider".to_owned(), device.clone()),
        ];
        for (name, key) in USED {
            let value = self.property(&compiled, &device, key).filter(|value| !value.is_empty());
            used.extend(value.map(|value| ((*name).to_owned(), value)));
        }
        if device == "CPU" && !self.converted.is_empty() {
            used.push(("converted".into(), self.converted.join(", ")));
        }
        for Setting { property, option, .. } in &self.settings {
            let Some(option) = option.as_ref().filter(|option| option.starts_with("property."))
            else {
                continue;
            };
            let value = self.property(&compiled, &device, property);
            used.extend(value.map(|value| (option.clone(), value)));
        }
        let requests = self.property(&compiled, &device, "OPTIMAL_NUMBER_OF_INFER_REQUESTS");
        let requests = requests.and_then(|text| text.parse().ok()).unwrap_or(1_usize).max(1);
        let outputs = compiled.outputs().map_err(failed)?;
        let shapes = shapes.iter().map(|shape| shape.to_vec()).collect();
        let recompilation = Recompilation { loaded: Arc::clone(self), hint, shapes };
        Ok(Ready { compiled, outputs, used, requests, recompilation })
    }
}

/// Returns the value of a device's property in a text such as `{CPU:{NUM_STREAMS:1,…},GPU:{…}}`.
fn value_in<'a>(text: &'a str, device: &str, key: &str) -> Option<&'a str> {
    let own = &text[text.find(&format!("{device}:{{"))?..];
    let start = own.find(&format!("{{{key}:")).or_else(|| own.find(&format!(",{key}:")))?;
    let value = &own[start + key.len() + 2..];
    Some(&value[..value.find([',', '}'])?])
}

impl Model for OpenvinoModel {
    type Tensor = OpenvinoTensor;
    type Session = OpenvinoSession;

    fn info(&self) -> ModelInfo {
        self.info.clone()
    }

    fn prepare(&self, request: &PrepareRequest<'_>) -> Result<OpenvinoSession> {
        let shapes: Vec<Vec<i64>> = request.shapes.iter().map(|shape| shape.to_vec()).collect();
        let key = (request.precision.to_owned(), shapes.clone());
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let ready = match compiled.get(&key).and_then(Weak::upgrade) {
            Some(ready) => ready,
            None => {
                let ready = Arc::new(self.loaded.prepare(request.precision, request.shapes)?);
                compiled.retain(|_, ready| ready.strong_count() > 0);
                compiled.insert(key, Arc::downgrade(&ready));
                ready
            }
        };
        drop(compiled);
        OpenvinoSession::new(ready, self.inputs.clone(), shapes)
    }

    fn tensor(&self, view: &View<'_>) -> Result<OpenvinoTensor> {
        OpenvinoTensor::from_view(view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_of_a_device_are_found_in_those_of_all() {
        let text = "{CPU:{ENABLE_CPU_PINNING:YES,INFERENCE_PRECISION_HINT:f32,NUM_STREAMS:1},\
                    GPU:{NUM_STREAMS:2,INFERENCE_PRECISION_HINT:f16}}";
        assert_eq!(value_in(text, "CPU", "INFERENCE_PRECISION_HINT"), Some("f32"));
        assert_eq!(value_in(text, "CPU", "ENABLE_CPU_PINNING"), Some("YES"));
        assert_eq!(value_in(text, "GPU", "INFERENCE_PRECISION_HINT"), Some("f16"));
        assert_eq!(value_in(text, "GPU", "NUM_STREAMS"), Some("2"));
        assert_eq!(value_in(text, "CPU", "STREAMS"), None);
        assert_eq!(value_in(text, "NPU", "NUM_STREAMS"), None);
    }

    #[test]
    fn failures_about_memory_are_told_apart() {
        let failure = |message: &str| Failure { message: message.into() };
        assert_eq!(run_error(&failure("std::bad_alloc")).code, ErrorCode::OutOfMemory);
        assert_eq!(run_error(&failure("the driver is gone")).code, ErrorCode::Device);
        let error = unreadable("m.onnx", &failure("Frobnicate is not supported"));
        assert_eq!(error.code, ErrorCode::Unsupported);
        assert_eq!(error.message, "m.onnx: Frobnicate is not supported");
        assert_eq!(unreadable("m.onnx", &failure("bad bytes")).code, ErrorCode::InvalidModel);
    }
}
