//! A complete backend in Rust: it multiplies by a factor.
//!
//! A model is a text file with one line, `scale FACTOR`. It has the input `x` and the output `y`, both
//! float32 of shape `[batch, 4]`.

use plugin_api::backend::{
    Backend, DataType, Description, Device, Dimension, Error, ErrorCode, Host, HostTensor,
    LoadRequest, Model, ModelInfo, PrepareRequest, Result, Session, TensorInfo, ValueKind, View,
};

const WIDTH: u64 = 4;
const DEVICE: &str = "scale:0";

/// The plugin.
#[derive(Debug)]
pub struct ScaleBackend;

impl Backend for ScaleBackend {
    type Model = ScaleModel;

    fn new(_host: &Host) -> Result<Self, String> {
        Ok(Self)
    }

    fn description(&self) -> Description {
        Description {
            id: "scale".into(),
            version: "0.1.0".into(),
            engine: "a loop".into(),
            engine_version: String::new(),
            extensions: Vec::new(),
            modes: vec!["inference".into()],
        }
    }

    fn devices(&self) -> Result<Vec<Device>> {
        Ok(vec![Device {
            id: DEVICE.into(),
            kind: "cpu".into(),
            name: "One thread of the processor".into(),
            memory_bytes: None,
            precisions: vec!["fp32".into()],
            attributes: Vec::new(),
        }])
    }

    fn load(&self, request: &LoadRequest<'_>) -> Result<ScaleModel> {
        request.options.only(&[])?;
        if request.device != DEVICE {
            let message = format!("there is no device `{}`; there is `{DEVICE}`", request.device);
            return Err(Error::new(ErrorCode::NotFound, message));
        }
        let path = request.path.display();
        let text = std::fs::read_to_string(request.path)
            .map_err(|error| Error::new(ErrorCode::NotFound, format!("{path}: {error}")))?;
        let factor = text.strip_prefix("scale ").and_then(|factor| factor.trim().parse().ok());
        let factor = factor.ok_or_else(|| {
            let message = format!("{path}: does not begin with `scale FACTOR`");
            Error::new(ErrorCode::InvalidModel, message)
        })?;
        Ok(ScaleModel { factor })
    }
}

/// A loaded model.
#[derive(Debug)]
pub struct ScaleModel {
    factor: f32,
}

impl Model for ScaleModel {
    type Tensor = HostTensor<f32>;
    type Session = ScaleSession;

    fn info(&self) -> ModelInfo {
        let tensor = |name: &str| TensorInfo {
            name: name.into(),
            dtype: Some(DataType::F32),
            dimensions: Some(vec![Dimension::Dynamic("batch".into()), Dimension::Fixed(WIDTH)]),
            kind: ValueKind::Tensor,
        };
        ModelInfo { inputs: vec![tensor("x")], outputs: vec![tensor("y")] }
    }

    fn prepare(&self, request: &PrepareRequest<'_>) -> Result<ScaleSession> {
        if request.precision != "fp32" {
            let message = format!("{} is not offered; fp32 is", request.precision);
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        Ok(ScaleSession { factor: self.factor, shape: request.shapes[0].to_vec() })
    }

    fn tensor(&self, view: &View<'_>) -> Result<HostTensor<f32>> {
        HostTensor::new(view)
    }
}

/// A model that is ready to run.
#[derive(Debug)]
pub struct ScaleSession {
    factor: f32,
    shape: Vec<i64>,
}

impl Session for ScaleSession {
    type Tensor = HostTensor<f32>;

    fn used(&self) -> Vec<(String, String)> {
        vec![("precision".into(), "fp32".into()), ("threads".into(), "1".into())]
    }

    fn run(
        &mut self,
        inputs: &[&HostTensor<f32>],
        outputs: &mut [Option<Box<HostTensor<f32>>>],
    ) -> Result<()> {
        let input = inputs[0];
        if input.shape != self.shape {
            let message = "the input `x` is not as prepared";
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        // The output of an earlier run is written again.
        let output = outputs[0].get_or_insert_with(|| Box::new(input.clone()));
        for (result, value) in output.values.iter_mut().zip(&input.values) {
            *result = self.factor * value;
        }
        Ok(())
    }
}

plugin_api::export_backend!(ScaleBackend);
