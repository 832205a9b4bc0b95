/*!
The embedded default: ONNX models on the processor, with the engine `rten`, which is pure Rust and
linked in, so that nothing has to be installed.

It has one device, `cpu:0`, and computes in `fp32`. Threads are those of a pool of the model's own: as
many as asked for, or as many as this process may use. These options of `[backend.options]` exist:

| option | value | default |
|---|---|---|
| `optimise` | whether the graph is optimised when it is loaded | `true` |
| `prepack-weights` | whether weights are laid out for the processor when they are loaded, instead of in each run; takes memory | `true` |

The engine has no 64-bit elements and no 16-bit floats. What a model has of these is converted: int64
becomes int32, float64 and float16 become float32. A session says so under `converted` in what it
uses, since results may differ from those of an engine that does not. An int64 input that does not
fit is an error, never cut off.

An operator that the engine lacks is an error that names it, when the model is loaded.
*/

mod platform;
mod tensor;
mod types;

use std::io::ErrorKind;
use std::sync::Arc;

use std::ffi::c_void;
use std::ptr::NonNull;

use plugin_api::abi::{EXTENSION_THREADS, OPTION_PLACEMENT};
use plugin_api::backend::{
    Backend, Description, Device, Dimension, Error, ErrorCode, Host, LoadRequest, Model, ModelInfo,
    PrepareRequest, Result, Session, TensorInfo, View, threads,
};
use rten::{LoadErrorKind, ModelOptions, NodeId, RunErrorKind, RunOptions, ThreadPool};

pub use tensor::CpuTensor;
use types::ElementTypes;

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
            extensions: vec![EXTENSION_THREADS.into()],
        }
    }

    fn extension(&self, name: &str) -> Option<NonNull<c_void>> {
        (name == EXTENSION_THREADS).then(threads::<Self>)
    }

    fn devices(&self) -> Result<Vec<Device>> {
        let attributes = [
            ("architecture", std::env::consts::ARCH.to_owned()),
            ("instructions", platform::instructions().join(" ")),
            ("threads", platform::threads().to_string()),
        ];
        Ok(vec![Device {
            id: DEVICE.into(),
            kind: "cpu".into(),
            name: platform::processor_name(),
            memory_bytes: platform::memory_bytes(),
            precisions: vec![PRECISION.into()],
            attributes: attributes.map(|(key, value)| (key.to_owned(), value)).into(),
        }])
    }

    fn load(&self, request: &LoadRequest<'_>) -> Result<CpuModel> {
        request.options.only(&["optimise", "prepack-weights", OPTION_PLACEMENT])?;
        // Everything runs on the processor.
        request.options.strict_placement()?;
        let optimise = request.options.parse("optimise")?.unwrap_or(true);
        let prepack = request.options.parse("prepack-weights")?.unwrap_or(true);
        if request.device != DEVICE {
            let message = format!("there is no device `{}`; there is `{DEVICE}`", request.device);
            return Err(Error::new(ErrorCode::NotFound, message));
        }
        let path = request.path.display();
        let types = ElementTypes::read(request.path).map_err(|error| {
            let code = match error.kind() {
                ErrorKind::NotFound => ErrorCode::NotFound,
                _ => ErrorCode::InvalidModel,
            };
            Error::new(code, format!("{path}: {error}"))
        })?;
        let model = ModelOptions::with_all_ops()
            .enable_optimization(optimise)
            .prepack_weights(prepack)
            .load_file(request.path)
            .map_err(|error| Error::new(load_code(&error), format!("{path}: {error}")))?;
        let threads = request.threads.unwrap_or_else(platform::threads);
        let pool = Arc::new(thread_pool(threads)?);
        let loaded = Loaded { model, types, pool, threads, optimise, prepack };
        Ok(CpuModel { loaded: Arc::new(loaded) })
    }
}

fn load_code(error: &rten::LoadError) -> ErrorCode {
    match error.kind() {
        LoadErrorKind::OperatorInvalid => ErrorCode::Unsupported,
        _ => ErrorCode::InvalidModel,
    }
}

/// More threads than any processor has are a mistake, and would take the machine down.
const MOST_THREADS: u32 = 4096;

/// A pool that has as many threads as it should.
fn thread_pool(threads: u32) -> Result<ThreadPool> {
    if threads > MOST_THREADS {
        let message =
            format!("{threads} threads are more than the {MOST_THREADS} that are allowed");
        return Err(Error::new(ErrorCode::InvalidArgument, message));
    }
    // The engine asks for its own pool in each run, whether it needs it or not, and makes it the
    // first time; better here than in the first run.
    rten::thread_pool();
    let pool = ThreadPool::with_num_threads(threads as usize);
    // A pool that could not be made computes on the calling thread without saying so.
    let running = pool.run(|| rayon::current_thread_index().map(|_| rayon::current_num_threads()));
    if running == Some(threads as usize) {
        return Ok(pool);
    }
    let message = format!("{threads} threads could not be started");
    Err(Error::new(ErrorCode::OutOfMemory, message))
}

struct Loaded {
    model: rten::Model,
    types: ElementTypes,
    pool: Arc<ThreadPool>,
    threads: u32,
    optimise: bool,
    prepack: bool,
}

impl Loaded {
    fn tensor_info(&self, id: NodeId) -> TensorInfo {
        let node = self.model.node_info(id);
        let name = node.as_ref().and_then(rten::NodeInfo::name).unwrap_or_default();
        let dimensions = node.as_ref().and_then(rten::NodeInfo::shape).map(|axes| {
            let dimension = |axis| match axis {
                rten::Dimension::Fixed(size) => Dimension::Fixed(size as u64),
                rten::Dimension::Symbolic(name) => Dimension::Dynamic(name),
            };
            axes.into_iter().map(dimension).collect()
        });
        let dtype = node.as_ref().and_then(rten::NodeInfo::dtype).and_then(tensor::dtype_of);
        TensorInfo { name: name.into(), dtype, dimensions }
    }
}

/// A loaded model.
pub struct CpuModel {
    loaded: Arc<Loaded>,
}

impl Model for CpuModel {
    type Tensor = CpuTensor;
    type Session = CpuSession;

    fn info(&self) -> ModelInfo {
        let loaded = &self.loaded;
        let inputs = loaded.model.input_ids().iter().map(|id| {
            let info = loaded.tensor_info(*id);
            // What the model takes, as opposed to what the engine makes of it.
            TensorInfo { dtype: loaded.types.of_input(&info.name).or(info.dtype), ..info }
        });
        let outputs = loaded.model.output_ids().iter().map(|id| loaded.tensor_info(*id));
        ModelInfo { inputs: inputs.collect(), outputs: outputs.collect() }
    }

    fn prepare(&self, request: &PrepareRequest<'_>) -> Result<CpuSession> {
        if request.precision != PRECISION {
            let message = format!("{} is not offered; {PRECISION} is", request.precision);
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        let loaded = Arc::clone(&self.loaded);
        let options = RunOptions::default().with_thread_pool(Some(Arc::clone(&loaded.pool)));
        Ok(CpuSession { loaded, options })
    }

    fn tensor(&self, view: &View<'_>) -> Result<CpuTensor> {
        CpuTensor::new(view)
    }
}

/// A model that is ready to run.
pub struct CpuSession {
    loaded: Arc<Loaded>,
    options: RunOptions,
}

impl Session for CpuSession {
    type Tensor = CpuTensor;

    fn used(&self) -> Vec<(String, String)> {
        let loaded = &self.loaded;
        let mut used = vec![
            ("precision", PRECISION.to_owned()),
            ("threads", loaded.threads.to_string()),
            ("optimise", loaded.optimise.to_string()),
            ("prepack-weights", loaded.prepack.to_string()),
        ];
        let converted = loaded.types.converted();
        if !converted.is_empty() {
            used.push(("converted", converted.join(", ")));
        }
        used.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    fn run(&mut self, inputs: &[&CpuTensor], outputs: &mut [Option<Box<CpuTensor>>]) -> Result<()> {
        let model = &self.loaded.model;
        let values =
            model.input_ids().iter().zip(inputs).map(|(id, tensor)| (*id, tensor.view())).collect();
        let results = model
            .run(values, model.output_ids(), Some(self.options.clone()))
            .map_err(|error| Error::new(run_code(&error), error.to_string()))?;
        for (output, result) in outputs.iter_mut().zip(results) {
            match output {
                Some(tensor) => tensor.replace(result)?,
                None => *output = Some(Box::new(CpuTensor::from_value(result)?)),
            }
        }
        Ok(())
    }
}

fn run_code(error: &rten::RunError) -> ErrorCode {
    match error.kind() {
        RunErrorKind::InvalidInput => ErrorCode::InvalidArgument,
        RunErrorKind::OperatorError => ErrorCode::Unsupported,
        _ => ErrorCode::InvalidModel,
    }
}

plugin_api::export_backend!(CpuBackend);
