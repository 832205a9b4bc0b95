//! Reasons why a worker stops early.

use std::convert::Infallible;
use std::io;

use host_measure::MeasureError;
use host_record::{ErrorCode, Failure, Phase};
use plugin_api::client::{self, Error, OpenError};

/// Reasons why a worker stops early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The case failed.
    Failed(Box<Failure>),
    /// The host no longer listens.
    HostIsGone(#[expect(dead_code, reason = "it is there for whoever debugs")] io::Error),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(Box::new(failure))
    }
}

impl From<io::Error> for Stop {
    /// Errors of the pipes to and from the host are the only ones that are not failures.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // The message cannot be sent.
            io::ErrorKind::InvalidData => {
                Failure::Protocol { phase: Phase::Unload, detail: error.to_string() }.into()
            }
            _ => Self::HostIsGone(error),
        }
    }
}

/// Converts the error of a call into the backend.
pub(crate) fn backend(phase: Phase) -> impl Fn(Error) -> Failure {
    move |error| {
        if error.code == client::ErrorCode::OutOfMemory {
            let detail = format!("the backend reported: {}", error.message);
            return Failure::OutOfMemory { phase, limit_bytes: None, peak_bytes: None, detail };
        }
        Failure::Backend {
            phase,
            call: error.call.into(),
            code: code(error.code),
            message: error.message,
            details: error.details,
        }
    }
}

/// Converts the ABI's code to the recorded one.
pub(crate) fn code(code: client::ErrorCode) -> ErrorCode {
    match code {
        client::ErrorCode::Internal => ErrorCode::Internal,
        client::ErrorCode::InvalidArgument => ErrorCode::InvalidArgument,
        client::ErrorCode::NotFound => ErrorCode::NotFound,
        client::ErrorCode::InvalidModel => ErrorCode::InvalidModel,
        client::ErrorCode::Unsupported => ErrorCode::Unsupported,
        client::ErrorCode::OutOfMemory => ErrorCode::OutOfMemory,
        client::ErrorCode::Device => ErrorCode::Device,
        client::ErrorCode::Version => ErrorCode::Version,
        client::ErrorCode::RuntimeMissing => ErrorCode::RuntimeMissing,
        client::ErrorCode::Cancelled => ErrorCode::Cancelled,
        client::ErrorCode::Contract => ErrorCode::Contract,
    }
}

/// Converts the error of opening a plugin.
pub(crate) fn opening(error: OpenError) -> Failure {
    match error {
        OpenError::Refused { .. } | OpenError::Version { .. } => {
            Failure::RefusedVersion { detail: error.to_string() }
        }
        OpenError::Contract { .. } => Failure::Backend {
            phase: Phase::Open,
            call: String::from("tare_backend_v1"),
            code: ErrorCode::Contract,
            message: error.to_string(),
            details: String::new(),
        },
    }
}

/// Returns a failure about the inputs.
pub(crate) fn input(detail: impl Into<String>) -> Failure {
    Failure::Input { detail: detail.into() }
}

/// Returns the failure of a clock that went back during a measurement.
pub(crate) fn went_back(before_ns: u64, after_ns: u64) -> Failure {
    let error = MeasureError::<Infallible, Infallible>::ClockWentBack { before_ns, after_ns };
    Failure::Impossible { detail: error.to_string() }
}
