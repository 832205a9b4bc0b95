//! Problems of a requested plugin.

use std::fmt;
use std::ops::Range;

use host_manifest::ManifestError;

/// A plugin cannot be used, or not with these options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestProblem {
    /// The plugin's id.
    pub plugin: String,
    /// Whether the plugin is missing or unusable, as opposed to having wrong options or limits.
    pub is_missing: bool,
    /// The message.
    pub message: String,
    /// Position in bytes of the manifest's text, if a manifest names it.
    pub span: Option<Range<usize>>,
    /// A few words for that place.
    pub label: String,
    /// The remedy.
    pub hint: Option<String>,
}

impl fmt::Display for GuestProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for GuestProblem {}

impl TryFrom<GuestProblem> for ManifestError {
    type Error = GuestProblem;

    /// Converts the problem to an error in a manifest's text, if it has a position there.
    fn try_from(problem: GuestProblem) -> Result<Self, GuestProblem> {
        let Some(span) = problem.span.clone() else { return Err(problem) };
        let GuestProblem { message, label, hint, .. } = problem;
        Ok(Self { message, span, label, hint })
    }
}
