//! The model of a backend that has none.

use super::{HostTensor, Model, ModelInfo, PrepareRequest, Result, Session, View};

/// A model that cannot exist, for a backend that never has a device: whose library is missing, for example.
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
