//! Models: what a file declares, and what runs it.

use std::fmt;
use std::rc::Rc;

use onnx_file::OnnxFile;
use plugin_api::abi::OPTION_PLACEMENT;
use plugin_api::backend::{
    DataType, Error, ErrorCode, LoadRequest, Model, ModelInfo, PrepareRequest, Result, View,
};
use tch::{Device, Tensor};

use crate::error::{Wrong, wrong};
use crate::onnx::Graph;
use crate::program::Program;
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
    pub(crate) fn infer(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>, Wrong> {
        tch::no_grad(|| match self {
            Self::Onnx(program) => program.run(inputs, false),
            Self::Script(script) => script.run(inputs),
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
        known.extend(training::OPTIONS);
        // Those of training have no effect in inference, so that one backend can be measured in both.
        options.only(&known)?;
        // Libtorch computes each operator on the device of its inputs, or not at all.
        options.strict_placement()?;
        match (is_archive, is_trained) {
            (true, true) => {
                let message = "TorchScript archives are not trained, only ONNX models";
                return Err(Error::new(ErrorCode::Unsupported, message));
            }
            (true, false) => return Self::load_archive(request, device),
            (false, _) => {}
        }
        if let Some(name) = OF_ARCHIVES.iter().find(|name| options.get(name).is_some()) {
            let message =
                format!("option `{name}` is for TorchScript archives; an ONNX file states it");
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        let file = OnnxFile::read(request.path)?;
        let training = if is_trained { Some(Settings::of(options)?) } else { None };
        let info = file.info();
        let precision = match file.precision() {
            Some("int8") => {
                let message = "the model is quantised; its operators (`QuantizeLinear` and others) are not imported";
                return Err(Error::new(ErrorCode::Unsupported, message));
            }
            // Nothing in it is a real number, so none is computed in another precision.
            other => other.unwrap_or("fp32"),
        };
        let program = import(request, &info, device, is_trained)?;
        let network = Rc::new(Network::Onnx(program));
        let info = match &training {
            Some(settings) => settings.info(&info)?,
            None => info,
        };
        Ok(Self { network, info, device, precision, training })
    }

    fn load_archive(request: &LoadRequest<'_>, device: Device) -> Result<Self> {
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
        Ok(Self { network, info, device, precision, training: None })
    }
}

/// Imports an ONNX file.
fn import(
    request: &LoadRequest<'_>,
    info: &ModelInfo,
    device: Device,
    trained: bool,
) -> Result<Program> {
    let graph = Graph::read(request.path).map_err(Wrong::of_model)?;
    let declared: Vec<&str> = info.inputs.iter().map(|input| input.name.as_str()).collect();
    if graph.inputs != declared {
        let wrong = wrong!("the inputs of {} are {:?}", request.path.display(), graph.inputs);
        return Err(wrong.of_model());
    }
    tch::no_grad(|| Program::new(graph, device, trained)).map_err(|Wrong(what)| {
        let message = format!("{}: {what}", request.path.display());
        Error::new(ErrorCode::Unsupported, message)
    })
}

impl Model for TorchModel {
    type Tensor = TorchTensor;
    type Session = TorchSession;

    fn info(&self) -> ModelInfo {
        self.info.clone()
    }

    fn prepare(&self, request: &PrepareRequest<'_>) -> Result<TorchSession> {
        let own = self.precision;
        if request.precision != own {
            let message = format!(
                "the model's weights are {own}, and libtorch computes in the precision of the weights, not in {}",
                request.precision
            );
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        let ranges = request.bounds.is_some();
        let shapes = request.shapes.iter().map(|shape| shape.to_vec()).collect();
        let network = Rc::clone(&self.network);
        let session = TorchSession::new(network, &self.info, shapes, ranges, self.device, own);
        match (&self.training, &*self.network) {
            (Some(settings), Network::Onnx(program)) => {
                let trainer =
                    Trainer::new(program, *settings, self.device).map_err(Wrong::of_run)?;
                Ok(session.trained(trainer))
            }
            _ => Ok(session),
        }
    }

    fn tensor(&self, view: &View<'_>) -> Result<TorchTensor> {
        // In training, the copy to the device is a part of the step.
        let device = if self.training.is_some() { Device::Cpu } else { self.device };
        TorchTensor::copy(view, device)
    }
}
