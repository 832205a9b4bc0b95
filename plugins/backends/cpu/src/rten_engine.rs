//! The embedded engine `rten`.

use std::sync::Arc;

use onnx_file::OnnxFile;
use plugin_api::backend::{
    DataType, Dimension, Error, ErrorCode, LoadRequest, ModelInfo, PrepareRequest, Result,
    TensorInfo, ValueKind,
};
use rten::{LoadErrorKind, ModelOptions, NodeId, RunErrorKind, RunOptions, ThreadPool};

use crate::rten_tensor::{RtenTensor, dtype_of};
use crate::{PRECISION, platform, rten_file};

fn load_code(error: &rten::LoadError) -> ErrorCode {
    match error.kind() {
        LoadErrorKind::OperatorInvalid => ErrorCode::Unsupported,
        _ => ErrorCode::InvalidModel,
    }
}

/// Returns a pool with the requested number of threads.
fn thread_pool(threads: u32) -> Result<ThreadPool> {
    // The engine requests its own pool in each run, even if it does not need it, and creates it the first time. This
    // call creates it before the first run.
    rten::thread_pool();
    let pool = ThreadPool::with_num_threads(threads as usize);
    // A pool that could not be created silently computes on the calling thread.
    let running = pool.run(|| rayon::current_thread_index().map(|_| rayon::current_num_threads()));
    if running == Some(threads as usize) {
        return Ok(pool);
    }
    let message = format!("{threads} threads could not be started");
    Err(Error::new(ErrorCode::OutOfMemory, message))
}

struct Loaded {
    model: rten::Model,
    file: OnnxFile,
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
                // Exporters write it for an axis without a name, and axes of one name have one size.
                rten::Dimension::Symbolic(name) if name == "?" => Dimension::Dynamic(String::new()),
                rten::Dimension::Symbolic(name) => Dimension::Dynamic(name),
            };
            axes.into_iter().map(dimension).collect()
        });
        let dtype = node.as_ref().and_then(rten::NodeInfo::dtype).and_then(dtype_of);
        TensorInfo { name: name.into(), dtype, dimensions, kind: ValueKind::Tensor }
    }
}

/// A loaded model.
pub struct RtenModel {
    loaded: Arc<Loaded>,
}

impl RtenModel {
    pub(crate) fn load(request: &LoadRequest<'_>) -> Result<Self> {
        let optimise = request.options.parse("optimise")?.unwrap_or(true);
        let prepack = request.options.parse("prepack-weights")?.unwrap_or(true);
        let path = request.path.display();
        let file = OnnxFile::read(request.path)?;
        let mut options = ModelOptions::with_all_ops();
        options.enable_optimization(optimise).prepack_weights(prepack);
        let loaded = match rten_file::is_read_by_engine(&file) {
            true => options.load_file(request.path),
            false => {
                let bytes = rten_file::adapted(request.path, &file, &mut options);
                let bytes = bytes.map_err(|what| {
                    Error::new(ErrorCode::InvalidModel, format!("{path}: {what}"))
                })?;
                options.load(bytes)
            }
        };
        let model =
            loaded.map_err(|error| Error::new(load_code(&error), format!("{path}: {error}")))?;
        let threads = request.threads.unwrap_or_else(platform::threads);
        let pool = Arc::new(thread_pool(threads)?);
        let loaded = Loaded { model, file, pool, threads, optimise, prepack };
        Ok(Self { loaded: Arc::new(loaded) })
    }

    pub(crate) fn info(&self) -> ModelInfo {
        let loaded = &self.loaded;
        let declared = loaded.file.info();
        // The engine makes up names for axes that have none.
        let with_axes = |info: TensorInfo, declared: &[TensorInfo]| {
            let declared = declared.iter().find(|declared| declared.name == info.name);
            let dimensions = declared.and_then(|declared| declared.dimensions.clone());
            TensorInfo { dimensions: dimensions.or(info.dimensions), ..info }
        };
        let inputs = loaded.model.input_ids().iter().map(|id| {
            let info = with_axes(loaded.tensor_info(*id), &declared.inputs);
            // The types that the model declares, before the engine converts them.
            TensorInfo { dtype: loaded.file.dtype_of_input(&info.name).or(info.dtype), ..info }
        });
        let outputs = loaded.model.output_ids().iter();
        let outputs = outputs.map(|id| with_axes(loaded.tensor_info(*id), &declared.outputs));
        ModelInfo { inputs: inputs.collect(), outputs: outputs.collect() }
    }

    pub(crate) fn prepare(&self, request: &PrepareRequest<'_>) -> Result<RtenSession> {
        if request.precision != PRECISION {
            let asked = request.precision;
            let message = match asked {
                // The device offers it, with the other engine.
                "int8" => format!(
                    "the engine `rten` computes in {PRECISION} only; for {asked}, set the backend's option \
                     `engine = \"onnxruntime\"`"
                ),
                _ => format!("the engine `rten` computes in {PRECISION} only, not in {asked}"),
            };
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        let loaded = Arc::clone(&self.loaded);
        let options = RunOptions::default().with_thread_pool(Some(Arc::clone(&loaded.pool)));
        Ok(RtenSession { loaded, options })
    }
}

/// A model that is ready to run.
pub struct RtenSession {
    loaded: Arc<Loaded>,
    options: RunOptions,
}

impl RtenSession {
    pub(crate) fn used(&self) -> Vec<(String, String)> {
        let loaded = &self.loaded;
        let mut used = vec![
            ("precision", PRECISION.to_owned()),
            ("threads", loaded.threads.to_string()),
            ("optimise", loaded.optimise.to_string()),
            ("prepack-weights", loaded.prepack.to_string()),
        ];
        let converted = converted(&loaded.file);
        if !converted.is_empty() {
            used.push(("converted", converted.join(", ")));
        }
        used.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// Runs on tensors inside other types.
    pub(crate) fn run<T: Carrier>(
        &mut self,
        inputs: &[&T],
        outputs: &mut [Option<Box<T>>],
    ) -> Result<()> {
        let model = &self.loaded.model;
        let ids = model.input_ids().iter();
        let values = ids.zip(inputs).map(|(id, tensor)| (*id, tensor.carried().view())).collect();
        let results = model
            .run(values, model.output_ids(), Some(self.options.clone()))
            .map_err(|error| run_error(&error))?;
        for (output, result) in outputs.iter_mut().zip(results) {
            match output {
                Some(tensor) => tensor.carried_mut().replace(result)?,
                None => *output = Some(Box::new(T::carry(RtenTensor::from_value(result)?))),
            }
        }
        Ok(())
    }
}

/// A type that contains a tensor of this engine.
pub(crate) trait Carrier {
    fn carried(&self) -> &RtenTensor;
    fn carried_mut(&mut self) -> &mut RtenTensor;
    fn carry(tensor: RtenTensor) -> Self;
}

/// Returns the conversions that the engine makes for this model.
fn converted(file: &OnnxFile) -> Vec<&'static str> {
    [
        (DataType::I64, "int64 to int32"),
        (DataType::F64, "float64 to float32"),
        (DataType::F16, "float16 to float32"),
    ]
    .into_iter()
    .filter(|(dtype, _)| file.has(*dtype))
    .map(|(_, text)| text)
    .collect()
}

fn run_error(error: &rten::RunError) -> Error {
    let mut message = error.to_string();
    if cause(&message).is_some_and(|cause| cause.starts_with(LACKS_ATTRIBUTES)) {
        message.push_str(
            ". The engine needs `strides`, `dilations` and `pads` of a convolution whose weights are computed: \
             export the model with them, or with `kernel_shape`",
        );
    }
    Error::new(run_code(error), message)
}

fn run_code(error: &rten::RunError) -> ErrorCode {
    match error.kind() {
        RunErrorKind::InvalidInput => ErrorCode::InvalidArgument,
        // As the engine's `OpError` says it.
        RunErrorKind::OperatorError if is_unsupported(&error.to_string()) => ErrorCode::Unsupported,
        // A shape or an index that does not fit.
        RunErrorKind::OperatorError => ErrorCode::InvalidArgument,
        _ => ErrorCode::InvalidModel,
    }
}

/// Returns whether an operator lacks something, as opposed to a shape or an index that does not fit. Names in a message
/// are the model's, and may be any text.
fn is_unsupported(message: &str) -> bool {
    cause(message).is_some_and(|cause| {
        cause.starts_with("unsupported ") || cause.starts_with(LACKS_ATTRIBUTES)
    })
}

/// Returns the cause of an operator's error.
fn cause(message: &str) -> Option<&str> {
    message.rsplit_once("\" failed: ").map(|(_, cause)| cause)
}

/// How the engine begins the error of an operator over windows whose attributes are left to the format's defaults, if
/// the rank of the window could not be read from the file.
const LACKS_ATTRIBUTES: &str = "input or attribute has invalid value: expected ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_cause_of_an_error_tells_what_is_unsupported() {
        assert!(is_unsupported(
            "operator \"a\" failed: input or attribute has invalid value: expected 2 stride values. Inputs \
             were ()"
        ));
        assert!(is_unsupported(
            "operator \"a\" failed: unsupported input or attribute value: only 4D. Inputs were ()"
        ));
        for message in [
            "operator \"unsupported one\" failed: input or attribute has invalid value: Index 7 is out of range",
            "operator \"a\" failed: incompatible input shapes: an unsupported broadcast",
            "planning error: unsupported",
        ] {
            assert!(!is_unsupported(message), "{message}");
        }
    }
}
