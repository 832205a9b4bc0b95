//! The backend if libtorch or the engine is missing. It has no devices, and says why.

use std::sync::{Mutex, PoisonError};

use plugin_api::backend::{
    Backend, Description, Device, Error, ErrorCode, Host, HostTensor, LoadRequest, Model,
    ModelInfo, PrepareRequest, Result, Session, View,
};

/// The reason, for the backend that is created next.
static REASON: Mutex<Option<Error>> = Mutex::new(None);

/// Keeps the reason for the backend that is created next.
pub(crate) fn remember(reason: Error) {
    *REASON.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
}

/// A backend without devices.
#[derive(Debug)]
pub struct AbsentBackend {
    reason: Error,
}

impl Backend for AbsentBackend {
    type Model = NoModel;

    fn new(_host: &Host) -> Result<Self, String> {
        let reason = REASON.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let unknown = || Error::new(ErrorCode::Internal, "libtorch was not searched for");
        Ok(Self { reason: reason.unwrap_or_else(unknown) })
    }

    fn description(&self) -> Description {
        Description {
            id: "torch".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            engine: "libtorch".into(),
            engine_version: String::new(),
            extensions: Vec::new(),
            modes: vec!["inference".into(), "training".into()],
        }
    }

    fn devices(&self) -> Result<Vec<Device>> {
        Err(self.reason.clone())
    }

    fn load(&self, _request: &LoadRequest<'_>) -> Result<NoModel> {
        Err(self.reason.clone())
    }
}

/// A model that does not exist.
#[derive(Debug)]
pub enum NoModel {}

impl Model for NoModel {
    type Tensor = HostTensor<f32>;
    type Session = Self;

    fn info(&self) -> ModelInfo {
        match *self {}
    }

    fn prepare(&self, _request: &PrepareRequest<'_>) -> Result<Self> {
        match *self {}
    }

    fn tensor(&self, _view: &View<'_>) -> Result<HostTensor<f32>> {
        match *self {}
    }
}

impl Session for NoModel {
    type Tensor = HostTensor<f32>;

    fn used(&self) -> Vec<(String, String)> {
        match *self {}
    }

    fn run(
        &mut self,
        _inputs: &[&HostTensor<f32>],
        _outputs: &mut [Option<Box<HostTensor<f32>>>],
    ) -> Result<()> {
        match *self {}
    }
}
