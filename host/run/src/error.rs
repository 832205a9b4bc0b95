//! Errors that end a run early.

/// Reasons why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Results could not be kept.
    #[error("results cannot be stored: {0}")]
    Recorder(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl RunError {
    pub(crate) fn recorder(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Recorder(Box::new(error))
    }
}
