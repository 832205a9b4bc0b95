//! The vendor's runtime that a backend was given.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Source of the choice of a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuntimeOrigin {
    /// The flag `--runtime`.
    Flag,
    /// A variable such as `TARE_RUNTIME_CUDA`.
    Environment,
    /// `path` in the plugin's `plugin.toml`.
    Plugin,
    /// Nobody: it is the one that `host runtimes install` put in the user's data folder.
    Installed,
}

impl RuntimeOrigin {
    /// Returns its name for display.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Environment => "environment",
            Self::Plugin => "plugin",
            Self::Installed => "installed",
        }
    }
}

/// Identity of a backend's runtime: enough to tell that two results came from the same one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RuntimeIdentity {
    /// The name that the plugin gives it.
    pub name: String,
    /// Its version; `None` if a path was named, because its version is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The folder, or the library itself.
    pub path: PathBuf,
    /// Source of the choice.
    pub origin: RuntimeOrigin,
    /// SHA-256 of the folder's `installed.json`, which holds the hash of each of its files, or of the
    /// library; `None` for another folder, whose contents are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}
