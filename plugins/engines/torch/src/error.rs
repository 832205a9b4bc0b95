//! Errors of libtorch and of the importer.

use std::fmt;

use plugin_api::backend::{Error, ErrorCode};
use tch::TchError;

/// Something that went wrong while a model was imported or run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) what: String,
    /// The code, if the message alone does not tell it.
    code: Option<ErrorCode>,
}

/// Makes a [`Wrong`] as `format!` makes a string.
macro_rules! wrong {
    ($($argument:tt)*) => { $crate::error::Wrong::new(format!($($argument)*)) };
}
pub(crate) use wrong;

impl fmt::Display for Wrong {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.what)
    }
}

impl From<TchError> for Wrong {
    fn from(error: TchError) -> Self {
        Self::new(message(&error))
    }
}

/// Returns libtorch's message without its stack of C++ functions.
fn message(error: &TchError) -> String {
    let text = match error {
        TchError::Torch(text) => text.clone(),
        other => other.to_string(),
    };
    let stack = ["\nException raised from", "\n frame #0"];
    let end = stack.iter().filter_map(|begin| text.find(begin)).min().unwrap_or(text.len());
    text[..end].trim().to_owned()
}

impl Wrong {
    pub(crate) fn new(what: String) -> Self {
        Self { what, code: None }
    }

    /// Says that the fault is in options or inputs, and not in the device.
    pub(crate) fn of_request(self) -> Self {
        Self { code: Some(ErrorCode::InvalidArgument), ..self }
    }

    /// Says that what was asked for is not offered here.
    pub(crate) fn of_support(self) -> Self {
        Self { code: Some(ErrorCode::Unsupported), ..self }
    }

    /// Returns the error of a run.
    pub(crate) fn of_run(self) -> Error {
        let lower = self.what.to_lowercase();
        let memory = ["out of memory", "can't allocate memory", "not enough memory"];
        let code = self.code.unwrap_or(match memory.iter().any(|words| lower.contains(words)) {
            true => ErrorCode::OutOfMemory,
            false => ErrorCode::Device,
        });
        Error::new(code, self.what)
    }

    /// Returns the error of a model that cannot be loaded.
    pub(crate) fn of_model(self) -> Error {
        Error::new(ErrorCode::InvalidModel, self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_no_stack() {
        let torch = |text: &str| Wrong::from(TchError::Torch(text.into()));
        let error =
            torch("mat1 and mat2 do not fit\nException raised from meta at x.cpp:1\nframe #0: f");
        assert_eq!(error.what, "mat1 and mat2 do not fit");
        assert_eq!(torch("plain").of_run().code, ErrorCode::Device);
        let error =
            torch("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory");
        assert_eq!(error.of_run().code, ErrorCode::OutOfMemory);
        let error = wrong!("3 do not divide 16").of_request();
        assert_eq!(error.of_run().code, ErrorCode::InvalidArgument);
    }
}
