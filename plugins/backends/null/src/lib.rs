#![doc = include_str!("../README.md")]

use std::ffi::c_void;
use std::ptr::NonNull;

use plugin_api::abi::{EXTENSION_THREADS, MARKS, OPTION_PLACEMENT, TRAINING};
use plugin_api::backend::{
    Backend, DataType, Description, Device, Dimension, Error, ErrorCode, Host, HostTensor,
    LoadRequest, Mark, Marks, Model, ModelInfo, PrepareRequest, Result, Session, ShapesServed,
    TensorInfo, Training, ValueKind, View, marks, threads, training,
};

const DEVICE: &str = "null:0";
const PRECISION: &str = "fp32";

/// Number of tokens of an answer.
const TOKENS: usize = 8;

/// Modes, in each of which it does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Inference,
    Training,
    Generation,
}

impl Mode {
    const ALL: [(&'static str, Self); 3] = [
        ("inference", Self::Inference),
        ("training", Self::Training),
        ("generation", Self::Generation),
    ];

    /// Returns the phases of a run. The last one sets the outputs.
    fn phases(self) -> &'static [&'static str] {
        match self {
            Self::Inference => &[],
            Self::Training => &["forward", "backward", "update"],
            Self::Generation => &["prefill", "decode"],
        }
    }
}

/// The plugin.
#[derive(Debug)]
pub struct NullBackend;

impl Backend for NullBackend {
    type Model = NullModel;

    fn new(_host: &Host) -> Result<Self, String> {
        Ok(Self)
    }

    fn description(&self) -> Description {
        Description {
            id: "null".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            engine: "none".into(),
            engine_version: String::new(),
            extensions: vec![EXTENSION_THREADS.into(), MARKS.into(), TRAINING.into()],
            modes: Mode::ALL.map(|(name, _)| name.to_owned()).into(),
        }
    }

    fn extension(&self, name: &str) -> Option<NonNull<c_void>> {
        match name {
            EXTENSION_THREADS => Some(threads::<Self>()),
            MARKS => Some(marks::<Self>()),
            TRAINING => Some(training::<Self>()),
            _ => None,
        }
    }

    fn devices(&self) -> Result<Vec<Device>> {
        Ok(vec![Device {
            id: DEVICE.into(),
            kind: "none".into(),
            name: "Nothing (returns zeros immediately)".into(),
            memory_bytes: None,
            precisions: vec![PRECISION.into()],
            attributes: Vec::new(),
        }])
    }

    fn load(&self, request: &LoadRequest<'_>) -> Result<NullModel> {
        request.options.only(&[OPTION_PLACEMENT])?;
        // Nothing could run elsewhere.
        request.options.strict_placement()?;
        if request.device != DEVICE {
            let message = format!("there is no device `{}`; there is `{DEVICE}`", request.device);
            return Err(Error::new(ErrorCode::NotFound, message));
        }
        // The SDK refuses modes that the description does not name.
        let known = Mode::ALL.iter().find(|(name, _)| *name == request.mode);
        let mode = known.map_or(Mode::Inference, |(_, mode)| *mode);
        match std::fs::metadata(request.path) {
            Ok(file) if file.is_file() => Ok(NullModel { mode }),
            Ok(_) => Err(file_error(request, "is not a file")),
            Err(error) => Err(file_error(request, &error.to_string())),
        }
    }
}

fn file_error(request: &LoadRequest<'_>, what: &str) -> Error {
    Error::new(ErrorCode::NotFound, format!("{}: {what}", request.path.display()))
}

/// Any file.
#[derive(Debug)]
pub struct NullModel {
    mode: Mode,
}

impl Model for NullModel {
    type Tensor = HostTensor<f32>;
    type Session = NullSession;

    fn info(&self) -> ModelInfo {
        let tensor = |name: &str| TensorInfo {
            name: name.into(),
            dtype: Some(DataType::F32),
            dimensions: Some(vec![Dimension::Dynamic("batch".into()), Dimension::Fixed(1)]),
            kind: ValueKind::Tensor,
        };
        ModelInfo { inputs: vec![tensor("input")], outputs: vec![tensor("output")] }
    }

    fn prepare(&self, request: &PrepareRequest<'_>) -> Result<NullSession> {
        if request.precision != PRECISION {
            let message = format!("{} is not offered; {PRECISION} is", request.precision);
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        let any = request.bounds.is_some();
        Ok(NullSession { batch: request.shapes[0][0], any, mode: self.mode })
    }

    fn tensor(&self, view: &View<'_>) -> Result<HostTensor<f32>> {
        HostTensor::new(view)
    }
}

/// Answers with zeros.
#[derive(Debug)]
pub struct NullSession {
    /// The batch of all calls, unless any batch is allowed.
    batch: i64,
    any: bool,
    mode: Mode,
}

impl NullSession {
    #[cold]
    fn answer(&self, input: &HostTensor<f32>, output: &mut Option<Box<HostTensor<f32>>>) {
        let batch = if self.any { input.shape[0] } else { self.batch };
        if output.as_ref().is_none_or(|output| output.shape[0] != batch) {
            let zeros = vec![0.0; batch as usize];
            *output = Some(Box::new(HostTensor { shape: vec![batch, 1], values: zeros }));
        }
    }
}

impl Session for NullSession {
    type Tensor = HostTensor<f32>;

    fn used(&self) -> Vec<(String, String)> {
        vec![
            ("precision".into(), PRECISION.into()),
            ("simulated".into(), "it computes nothing; it measures the tool itself".into()),
        ]
    }

    fn shapes_served(&self) -> ShapesServed {
        ShapesServed::Any
    }

    #[inline]
    fn run(
        &mut self,
        inputs: &[&HostTensor<f32>],
        outputs: &mut [Option<Box<HostTensor<f32>>>],
    ) -> Result<()> {
        if outputs[0].is_none() || self.any {
            self.answer(inputs[0], &mut outputs[0]);
        }
        Ok(())
    }
}

impl Marks for NullSession {
    fn phases(&self) -> Vec<String> {
        self.mode.phases().iter().map(|&phase| phase.to_owned()).collect()
    }

    fn run_phase(
        &mut self,
        phase: usize,
        inputs: &[&HostTensor<f32>],
        outputs: &mut [Option<Box<HostTensor<f32>>>],
        mark: &mut Mark<'_>,
    ) -> Result<()> {
        if phase + 1 < self.mode.phases().len() {
            return Ok(());
        }
        if self.mode == Mode::Generation {
            for _ in 0..TOKENS {
                mark.now();
            }
        }
        self.run(inputs, outputs)
    }
}

impl Training for NullSession {
    fn evaluate(
        &mut self,
        inputs: &[&HostTensor<f32>],
        outputs: &mut [Option<Box<HostTensor<f32>>>],
    ) -> Result<()> {
        self.run(inputs, outputs)
    }
}

plugin_api::export_backend!(NullBackend);
