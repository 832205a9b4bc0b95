#![doc = include_str!("../README.md")]

use std::ffi::c_void;
use std::ptr::NonNull;

use plugin_api::abi::{EXTENSION_THREADS, OPTION_PLACEMENT};
use plugin_api::backend::{
    Backend, DataType, Description, Device, Dimension, Error, ErrorCode, Host, HostTensor,
    LoadRequest, Model, ModelInfo, PrepareRequest, Result, Session, TensorInfo, View, threads,
};

const DEVICE: &str = "null:0";
const PRECISION: &str = "fp32";

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
            extensions: vec![EXTENSION_THREADS.into()],
        }
    }

    fn extension(&self, name: &str) -> Option<NonNull<c_void>> {
        (name == EXTENSION_THREADS).then(threads::<Self>)
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
        // There is nothing that could run elsewhere.
        request.options.strict_placement()?;
        if request.device != DEVICE {
            let message = format!("there is no device `{}`; there is `{DEVICE}`", request.device);
            return Err(Error::new(ErrorCode::NotFound, message));
        }
        match std::fs::metadata(request.path) {
            Ok(file) if file.is_file() => Ok(NullModel),
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
pub struct NullModel;

impl Model for NullModel {
    type Tensor = HostTensor<f32>;
    type Session = NullSession;

    fn info(&self) -> ModelInfo {
        let tensor = |name: &str| TensorInfo {
            name: name.into(),
            dtype: Some(DataType::F32),
            dimensions: Some(vec![Dimension::Dynamic("batch".into()), Dimension::Fixed(1)]),
        };
        ModelInfo { inputs: vec![tensor("input")], outputs: vec![tensor("output")] }
    }

    fn prepare(&self, request: &PrepareRequest<'_>) -> Result<NullSession> {
        if request.precision != PRECISION {
            let message = format!("{} is not offered; {PRECISION} is", request.precision);
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        Ok(NullSession { batch: request.shapes[0][0] })
    }

    fn tensor(&self, view: &View<'_>) -> Result<HostTensor<f32>> {
        HostTensor::new(view)
    }
}

/// Answers with zeros.
#[derive(Debug)]
pub struct NullSession {
    batch: i64,
}

impl Session for NullSession {
    type Tensor = HostTensor<f32>;

    fn used(&self) -> Vec<(String, String)> {
        vec![
            ("precision".into(), PRECISION.into()),
            ("simulated".into(), "it computes nothing; it measures the tool itself".into()),
        ]
    }

    #[inline]
    fn run(
        &mut self,
        _inputs: &[&HostTensor<f32>],
        outputs: &mut [Option<Box<HostTensor<f32>>>],
    ) -> Result<()> {
        if outputs[0].is_none() {
            let zeros = vec![0.0; self.batch as usize];
            outputs[0] = Some(Box::new(HostTensor { shape: vec![self.batch, 1], values: zeros }));
        }
        Ok(())
    }
}

plugin_api::export_backend!(NullBackend);
