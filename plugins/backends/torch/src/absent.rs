//! The backend if libtorch or the engine is missing. It has no devices, and says why.

use std::sync::{Mutex, PoisonError};

use plugin_api::backend::{
    Backend, Description, Device, Error, ErrorCode, Host, LoadRequest, NoModel, Result,
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
