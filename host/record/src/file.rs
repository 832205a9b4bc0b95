//! Files that a case names.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// A file by its content. A machine that executes a case finds the file by its hash. The name is for
/// people.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FileId {
    /// Its path as the manifest gives it, or the end of that if it is absolute.
    pub name: String,
    /// SHA-256 of its content, in hexadecimal; empty if it was not read.
    pub sha256: String,
    /// Other files that it consists of, such as the weights of a model. Their names are paths from its folder,
    /// in which they lie on every machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<FileId>,
}

impl FileId {
    /// Returns the file at a path that a manifest gives, with its hash.
    #[must_use]
    pub fn of(path: &Path, sha256: impl Into<String>) -> Self {
        let name = match (path.is_absolute(), path.parent().and_then(Path::parent)) {
            (true, Some(above)) => path.strip_prefix(above).unwrap_or(path),
            _ => path,
        };
        let name = name.to_string_lossy().into_owned();
        Self { name, sha256: sha256.into(), parts: Vec::new() }
    }
}
