//! A plugin's description of itself.

use serde::{Deserialize, Serialize};

/// A plugin's description of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// Lower-case words joined by hyphens; metric names begin with it.
    pub id: String,
    /// Semantic version.
    pub version: String,
    /// One sentence.
    pub summary: String,
    /// SPDX licence expression.
    pub license: String,
    /// Names and one-sentence explanations of the options that it takes.
    pub options: Vec<(String, String)>,
}
