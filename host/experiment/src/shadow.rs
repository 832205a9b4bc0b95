//! Plugins that are used instead of others: of the built-in ones, or of broken ones.

use std::fmt;
use std::path::PathBuf;

use host_registry::BackendPlugin;

/// A plugin that is used instead of the one beside the executable.
///
/// The user may have put it there long ago, or someone else did. Its values bear the built-in plugin's name,
/// so every command that uses it says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shadow {
    /// `backend`, `metric`, `report` or `recommender`.
    pub kind: &'static str,
    /// The id of both.
    pub id: String,
    /// The version of the plugin that is used.
    pub version: String,
    /// Its folder or file.
    pub path: PathBuf,
    /// Folder or file of the built-in plugin.
    pub hidden: PathBuf,
}

impl Shadow {
    /// Returns the built-in plugin that a backend hides, if any.
    pub(crate) fn of_backend(plugin: &BackendPlugin) -> Option<Self> {
        Some(Self {
            kind: "backend",
            id: plugin.identity.id.clone(),
            version: plugin.identity.version.clone(),
            path: plugin.plugin.folder.clone(),
            hidden: plugin.hides.clone()?,
        })
    }

    /// Returns a hint to use the built-in plugin.
    #[must_use]
    pub fn hint(&self) -> String {
        format!("to use the built-in one, remove or rename {}", self.path.display())
    }
}

/// A plugin that is broken, so that another one of its name is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedOver {
    /// `backend`, `metric`, `report` or `recommender`.
    pub kind: &'static str,
    /// The id of both.
    pub id: String,
    /// The reason, with the file.
    pub reason: String,
    /// Folder or file of the plugin that is used.
    pub used: PathBuf,
    /// A hint to mend it.
    pub hint: String,
}

impl fmt::Display for PassedOver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, id, reason, used, .. } = self;
        write!(
            formatter,
            "the {kind} `{id}` in {} is used, since another one is broken: {reason}",
            used.display()
        )
    }
}

impl fmt::Display for Shadow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, id, version, path, hidden } = self;
        let (path, hidden) = (path.display(), hidden.display());
        write!(
            formatter,
            "the {kind} `{id}` {version} in {path} is used instead of the built-in one in {hidden}"
        )
    }
}
