//! Errors in a manifest: data, not rendered text, so that the command line can underline
//! the place and an editor or a JSON consumer can use it otherwise.

use std::fmt;
use std::ops::Range;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ManifestError {
    /// The error, in one sentence without a full stop.
    pub message: String,
    /// Position in bytes of the text; on character boundaries and within the text.
    pub span: Range<usize>,
    /// Text beside the underlined part; a few words.
    pub label: String,
    /// The remedy.
    pub hint: Option<String>,
}

/// All errors in a manifest, in the order of the text; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestErrors {
    /// The errors.
    pub errors: Vec<ManifestError>,
}

impl fmt::Display for ManifestErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.errors[..] {
            [error] => write!(formatter, "the manifest has an error: {error}"),
            errors => write!(formatter, "the manifest has {} errors", errors.len()),
        }
    }
}

impl std::error::Error for ManifestErrors {}
