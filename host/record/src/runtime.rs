//! The vendor's runtime that a backend was given.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Who said which runtime a backend is to use.
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
    /// The word shown for it.
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

/// Which runtime a backend was given: enough to tell that two results came from the same one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RuntimeIdentity {
    /// The name that the plugin gives it.
    pub name: String,
    /// Its version; `None` where somebody named a path, which does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The folder, or the library itself.
    pub path: PathBuf,
    /// Who said so.
    pub origin: RuntimeOrigin,
    /// SHA-256 of the folder's `installed.json`, which holds the hash of each of its files, or of the
    /// library; `None` for another folder, of which nobody knows what belongs to the runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}
