//! What the commands work with: the typed arguments with every default resolved.

use std::path::PathBuf;

use host_registry::{Places, Registry, Search};

use crate::arguments::GlobalArguments;

/// Options that hold for every command, resolved.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The results folder that the flag or the environment names.
    results: Option<PathBuf>,
    /// Plugin folders that the flag names.
    plugins: Vec<PathBuf>,
    /// Places that do not depend on arguments.
    places: Places,
}

impl Settings {
    pub(crate) fn new(global: &GlobalArguments) -> Self {
        Self {
            results: global.results.clone().filter(|folder| !folder.as_os_str().is_empty()),
            plugins: global.plugins.clone(),
            places: Places::of_this_process(),
        }
    }

    /// The results folder: of the flag, the environment, the manifest, or `results`.
    pub(crate) fn results(&self, manifest: Option<PathBuf>) -> PathBuf {
        self.results.clone().or(manifest).unwrap_or_else(|| "results".into())
    }

    /// The plugins in all folders; `manifest` are those that a manifest names, made absolute.
    pub(crate) fn registry(&self, manifest: &[PathBuf]) -> Registry {
        Registry::scan(&self.search(manifest))
    }

    /// Where plugins are looked for.
    pub(crate) fn search(&self, manifest: &[PathBuf]) -> Search {
        Search::new(&self.places, &self.plugins, manifest)
    }

    /// The folder of the running executable, beside which the worker lies.
    pub(crate) fn executable_folder(&self) -> Option<&std::path::Path> {
        self.places.executable_folder.as_deref()
    }
}
