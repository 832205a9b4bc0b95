//! Origin of a plugin folder.

use std::fmt;

use serde::Serialize;

/// Origins of plugin folders, in the order in which folders are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// `--plugins DIR`.
    Flag,
    /// The environment variable `TARE_PLUGINS`.
    Environment,
    /// The user's data folder.
    User,
    /// Beside the executable.
    Installed,
    /// A manifest, which may have another author.
    Manifest,
}

impl Origin {
    /// Returns its name for display.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Environment => "environment",
            Self::User => "user",
            Self::Installed => "installed",
            Self::Manifest => "manifest",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}
