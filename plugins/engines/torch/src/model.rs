//! Models: what a file declares, and what runs it.

use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;

use onnx_file::OnnxFile;
use plugin_api::abi::OPTION_PLACEMENT;
use plugin_api::backend::{
    DataType, Error, ErrorCode, LoadRequest, Model, ModelInfo, PrepareRequest, Result, View,
};
use tch::{Device, Tensor};

use crate::compute::{self, Compute};
use crate::devices;
use crate::error::{Wrong, wrong};
use crate::native::CudaGraph;
use crate::onnx::Graph;
use crate::program::{Pass, Program};
use crate::replicas::Team;
use crate::script::{self, Script};
use crate::session::TorchSession;
use crate::tensor::TorchTensor;
use crate::training::{self, Settings, Trainer};

/// The code that computes the outputs of a model.
pub(crate) enum Network {
    Onnx(Program),
    Script(Script),
}

impl Network {
    /// Computes the outputs without gradients.
    #[inline]
    pub(crate) fn infer(
        &self,
        inputs: &[&Tensor],
        compute: Compute,
        device: Device,
    ) -> Result<Vec<Tensor>, Wrong> {
        let run = || match self {
            Self::Onnx(program) => program.run(inputs, Pass::Inference),
            Self::Script(script) => script.run(inputs),
        };
        let outputs = tch::no_grad(|| compute.autocast(device, run))?;
        compute::in_fp32(outputs, compute)
    }

    /// Records the kernels that compute the outputs of these inputs.
    pub(crate) fn record(
        &self,
        inputs: &[&Tensor],
        compute: Compute,
        device: Device,
    ) -> Result<Recorded, Wrong> {
        let inputs = tch::no_grad(|| {
            let own = |input: &&Tensor| {
                let mut own = input.f_empty_like()?;
                own.f_copy_(input)?;
                Ok::<_, Wrong>(own)
            };
            inputs.iter().map(own).collect::<Result<Vec<_>, _>>()
        })?;
        let given: Vec<&Tensor> = inputs.iter().collect();
        let record = || CudaGraph::record(device, || self.infer(&given, compute, device));
        let recorded = match self {
            Self::Onnx(program) => program.keeping_moved(record),
            Self::Script(_) => record().map(|recorded| (recorded, Vec::new())),
        };
        let ((graph, outputs), moved) = recorded.map_err(|error| {
            wrong!("option `cuda-graphs`: the kernels of a run cannot be recorded: {error}")
                .of_support()
        })?;
        Ok(Recorded { graph, inputs, outputs, _moved: moved })
    }
}

/// A run whose kernels were recorded. Its memory is that of its first run.
pub(crate) struct Recorded {
    graph: CudaGraph,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    /// Values that kernels read.
    _moved: Vec<Tensor>,
}

impl Recorded {
    /// Computes the outputs. They are copies, since the next run overwrites its own.
    pub(crate) fn run(&mut self, inputs: &[&Tensor]) -> Result<Vec<Tensor>, Wrong> {
        tch::no_grad(|| {
            for (own, given) in self.inputs.iter_mut().zip(inputs) {
                own.f_copy_(given)?;
            }
            self.graph.replay()?;
            let copy = |output: &Tensor| {
                let mut copy = output.f_empty_like()?;
                copy.f_copy_(output)?;
                Ok(copy)
            };
            self.outputs.iter().map(copy).collect()
        })
    }
}

/// A model on a device.
pub struct TorchModel {
    network: Rc<Network>,
    info: ModelInfo,
    device: Device,
    /// The precision of its weights.
    precision: &'static str,
    compute: Compute,
    /// The file, of which replicas load their own copies.
    path: PathBuf,
    /// Settings of the mode `training`.
    training: Option<Settings>,
}

impl fmt::Debug for TorchModel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { info, device, precision, .. } = self;
        let mut shown = formatter.debug_struct("TorchModel");
        shown.field("info", info).field("device", device).field("precision", precision);
        shown.finish_non_exhaustive()
    }
}

/// Options of TorchScript archives.
const OF_ARCHIVES: [&str; 2] = ["inputs", "outputs"];

impl TorchModel {
    /// Loads a file onto a device.
    pub(crate) fn load(request: &LoadRequest<'_>, device: Device) -> Result<Self> {
        let options = &request.options;
        let is_archive = request.path.extension().is_some_and(|it| it == "pt" || it == "pth");
        let is_trained = request.mode == "training";
        let mut known = vec![OPTION_PLACEMENT];
        known.extend(OF_ARCHIVES);
        known.extend(compute::OPTIONS);
        known.extend(training::OPTIONS);
        // Those of training have no effect in inference, so that one backend can be measured in both.
        options.only(&known)?;
        // Libtorch computes each operator on the device of its inputs, or not at all.
        options.strict_placement()?;
        let compute = Compute::of(options)?;
        let with_graphs = matches!(device, Device::Cuda(_)) && !tch::utils::has_hip();
        if compute.graphs && !with_graphs {
            let message = format!(
                "option `cuda-graphs` is for graphics processors of CUDA, and the device is `{}`",
                request.device
            );
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        compute.apply().map_err(Wrong::of_run)?;
        match (is_archive, is_trained) {
            (true, true) => {
                let message = "TorchScript archives are not trained, only ONNX models";
                return Err(Error::new(ErrorCode::Unsupported, message));
            }
            (true, false) => return Self::load_archive(request, device, compute),
            (false, _) => {}
        }
        if compute.graphs && is_trained {
            let message = "option `cuda-graphs` is for inference: a step of training reads numbers, such as the \
                           learning rate, that a recorded step would repeat";
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        if let Some(name) = OF_ARCHIVES.iter().find(|name| options.get(name).is_some()) {
            let message =
                format!("option `{name}` is for TorchScript archives; an ONNX file states it");
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        let file = OnnxFile::read(request.path)?;
        let training = if is_trained { Some(Settings::of(options, compute)?) } else { None };
        let info = file.info();
        let precision = match file.precision() {
            Some("int8") => {
                let message = "the model is quantised; its operators (`QuantizeLinear` and others) are not imported";
                return Err(Error::new(ErrorCode::Unsupported, message));
            }
            // Nothing in it is a real number, so none is computed in another precision.
            other => other.unwrap_or("fp32"),
        };
        if compute.autocast.is_some() && precision != "fp32" {
            let message = format!(
                "option `autocast` is for weights in fp32, and those of the model are {precision}"
            );
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        // What is trained is a copy for each session, so the weights of the file stay in the host's memory.
        let place = if is_trained { Device::Cpu } else { device };
        let program = import(request, &info, place, is_trained, compute)?;
        let network = Rc::new(Network::Onnx(program));
        let info = match &training {
            Some(settings) => settings.info(&info)?,
            None => info,
        };
        let path = request.path.to_owned();
        Ok(Self { network, info, device, precision, compute, path, training })
    }

    fn load_archive(request: &LoadRequest<'_>, device: Device, compute: Compute) -> Result<Self> {
        if !request.path.is_file() {
            let message = format!("{}: there is no such file", request.path.display());
            return Err(Error::new(ErrorCode::NotFound, message));
        }
        let info = script::info(request.options.get("inputs"), request.options.get("outputs"))?;
        let script = Script::load(request.path, device, info.outputs.len())?;
        let floats = info.inputs.iter().filter_map(|input| input.dtype).find_map(|dtype| {
            let names =
                [(DataType::F32, "fp32"), (DataType::F16, "fp16"), (DataType::BF16, "bf16")];
            names.into_iter().find(|(known, _)| *known == dtype).map(|(_, name)| name)
        });
        let precision = floats.unwrap_or("fp32");
        let network = Rc::new(Network::Script(script));
        let path = request.path.to_owned();
        Ok(Self { network, info, device, precision, compute, path, training: None })
    }
}

/// Imports an ONNX file.
fn import(
    request: &LoadRequest<'_>,
    info: &ModelInfo,
    device: Device,
    trained: bool,
    compute: Compute,
) -> Result<Program> {
    let graph = Graph::read(request.path).map_err(Wrong::of_model)?;
    let declared: Vec<&str> = info.inputs.iter().map(|input| input.name.as_str()).collect();
    if graph.inputs != declared {
        let wrong = wrong!("the inputs of {} are {:?}", request.path.display(), graph.inputs);
        return Err(wrong.of_model());
    }
    tch::no_grad(|| Program::new(graph, device, trained, compute)).map_err(
        |Wrong { what, .. }| {
            let message = format!("{}: {what}", request.path.display());
            Error::new(ErrorCode::Unsupported, message)
        },
    )
}

impl Model for TorchModel {
    type Tensor = TorchTensor;
    type Session = TorchSession;

    fn info(&self) -> ModelInfo {
        self.info.clone()
    }

    fn prepare(&self, request: &PrepareRequest<'_>) -> Result<TorchSession> {
        let own = self.precision;
        let compute = self.compute;
        if request.precision != own && Some(request.precision) != compute.precision() {
            let message = format!(
                "the model's weights are {own}, and libtorch computes in the precision of the weights, not in {}; for \
                 weights in fp32 the option `autocast` computes products in bf16 or fp16",
                request.precision
            );
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        let ranges = request.bounds.is_some();
        if ranges && compute.graphs {
            let message = "option `cuda-graphs` records the kernels of one shape, and inputs have a range of shapes";
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        let shapes = request.shapes.iter().map(|shape| shape.to_vec()).collect();
        let network = Rc::clone(&self.network);
        let session =
            TorchSession::new(network, &self.info, shapes, ranges, self.device, own, compute);
        match (&self.training, &*self.network) {
            (Some(settings), Network::Onnx(program)) => {
                let start = || {
                    let trainer = Trainer::new(program, *settings, compute, self.device)?;
                    let devices = devices::following(self.device, settings.replicas)?;
                    Ok(match devices.len() {
                        1 => trainer,
                        _ => trainer
                            .with_team(Team::start(&self.path, *settings, compute, &devices)?),
                    })
                };
                Ok(session.trained(start().map_err(Wrong::of_run)?))
            }
            _ => Ok(session),
        }
    }

    fn tensor(&self, view: &View<'_>) -> Result<TorchTensor> {
        // In training, the copy to the device is a part of the step.
        let device = if self.training.is_some() { Device::Cpu } else { self.device };
        TorchTensor::copy(view, device, self.compute)
    }
}
