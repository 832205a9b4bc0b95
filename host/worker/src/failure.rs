//! Why a worker stops early.

use std::convert::Infallible;
use std::io;

use host_measure::MeasureError;
use host_record::{Failure, Phase};
use plugin_api::client::{Error, ErrorCode, OpenError};

/// Why a worker stops early.
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
    /// The pipes to and from the host are the only ones whose errors are not failures.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // What is to be said cannot be.
            io::ErrorKind::InvalidData => {
                Failure::Protocol { phase: Phase::Unload, detail: error.to_string() }.into()
            }
            _ => Self::HostIsGone(error),
        }
    }
}

/// What a call into the backend said.
pub(crate) fn backend(phase: Phase) -> impl Fn(Error) -> Failure {
    move |error| {
        if error.code == ErrorCode::OutOfMemory {
            let detail = format!("the backend reported: {}", error.message);
            return Failure::OutOfMemory { phase, limit_bytes: None, peak_bytes: None, detail };
        }
        Failure::Backend {
            phase,
            code: error.code.name().into(),
            message: format!("{}: {}", error.call, error.message),
            details: error.details,
        }
    }
}

/// What opening a plugin said.
pub(crate) fn opening(error: OpenError) -> Failure {
    match error {
        OpenError::Refused { .. } | OpenError::Version { .. } => {
            Failure::RefusedVersion { detail: error.to_string() }
        }
        OpenError::Contract { .. } => Failure::Backend {
            phase: Phase::Open,
            code: ErrorCode::Contract.name().into(),
            message: error.to_string(),
            details: String::new(),
        },
    }
}

/// Something about the inputs.
pub(crate) fn input(detail: impl Into<String>) -> Failure {
    Failure::Input { detail: detail.into() }
}

/// A clock that went back while something was timed.
pub(crate) fn went_back(before_ns: u64, after_ns: u64) -> Failure {
    let error = MeasureError::<Infallible, Infallible>::ClockWentBack { before_ns, after_ns };
    Failure::Impossible { detail: error.to_string() }
}
