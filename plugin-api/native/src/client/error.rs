//! Errors on the host's side.

use crate::abi;
use crate::client::foreign;
use crate::types::ErrorCode;

/// Limit of an error's message in bytes. It is one sentence.
pub(super) const MESSAGE_LIMIT: usize = 4 << 10;
/// Limit for an error's details, in bytes: lists and logs, for finding the cause.
const DETAILS_LIMIT: usize = 64 << 10;

/// A call into a backend failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {message} ({code})")]
pub struct Error {
    /// The function of the table that was called.
    pub call: &'static str,
    /// Kind of the error. [`ErrorCode::Contract`] means that the answer broke the ABI's rules.
    pub code: ErrorCode,
    /// One sentence; text beyond 4 KiB is replaced by a note.
    pub message: String,
    /// Further text; may be empty. Text beyond 64 KiB is replaced by a note.
    pub details: String,
}

impl Error {
    pub(super) fn contract(call: &'static str, message: impl Into<String>) -> Self {
        let (code, message) = (ErrorCode::Contract, message.into());
        Self { call, code, message, details: String::new() }
    }

    pub(super) fn argument(call: &'static str, message: impl Into<String>) -> Self {
        let (code, message) = (ErrorCode::InvalidArgument, message.into());
        Self { call, code, message, details: String::new() }
    }

    /// Reads an error that a call has returned, and ends it.
    ///
    /// # Safety
    ///
    /// `raw` was just returned by a function of the table, and is not null.
    #[cold]
    pub(super) unsafe fn take(call: &'static str, raw: *mut abi::Error) -> Self {
        // SAFETY: the table's functions return errors that the ABI describes.
        let read = unsafe { foreign::structure(raw.cast_const(), "an error") };
        let error = match read {
            Ok(error) => error,
            Err(detail) => return Self::contract(call, detail),
        };
        // SAFETY: the strings are valid until the error is destroyed.
        let texts = unsafe {
            let message = foreign::message(error.message, MESSAGE_LIMIT, "an error's message");
            let details = foreign::message(error.details, DETAILS_LIMIT, "an error's details");
            message.and_then(|message| Ok((message, details?)))
        };
        let error_code = ErrorCode::from_abi(error.code);
        let Some(destroy) = error.destroy else {
            return Self::contract(call, "returned an error without `destroy`");
        };
        // SAFETY: this side owns the error, and does not use it any more.
        unsafe { destroy(raw) };
        match texts {
            Ok((message, details)) => Self { call, code: error_code, message, details },
            Err(detail) => Self::contract(call, detail),
        }
    }
}

/// A plugin could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The plugin declined.
    #[error("the plugin refused this host: {reason}")]
    Refused {
        /// The backend's reason, or a note that it gave none.
        reason: String,
    },
    /// The plugin's table is of another major version.
    #[error(
        "the plugin speaks ABI {}.{}, this host speaks {}.{}; {}",
        .plugin.0, .plugin.1, abi::MAJOR, abi::MINOR,
        if .plugin.0 > abi::MAJOR { "update the host" } else { "update the plugin" }
    )]
    Version {
        /// Major and minor version of the plugin.
        plugin: (u32, u32),
    },
    /// The answer breaks the ABI's rules.
    #[error("the plugin's entry point broke the rules: {detail}")]
    Contract {
        /// The details.
        detail: String,
    },
}
