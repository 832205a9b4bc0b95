//! The folders, plugins and runtimes that a caller works with, and the request to stop.

use std::path::{Path, PathBuf};

use host_registry::{Places, Registry, Search};
use host_run::Interrupt;
use host_runtime::{Named, Runtimes};

use crate::error::{Error, Result};
use crate::platform;

/// The folders, plugins and runtimes that a caller works with, and the request to stop.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The results folder; without it the manifest's, and without that `results`.
    pub results: Option<PathBuf>,
    /// Plugin folders that are looked into before all others.
    pub plugins: Vec<PathBuf>,
    /// Runtimes to be used: a plugin's id and a path.
    pub runtimes: Vec<(String, PathBuf)>,
    /// The installation and the user's folders. The worker lies in its `executable_folder`.
    pub places: Places,
    /// Asked to stop, whatever is in progress ends, and what is finished is kept.
    pub interrupt: Interrupt,
}

impl Settings {
    /// Settings with the folders of this process, from its environment and its executable's path.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self { places: Places::of_this_process(), ..Self::default() }
    }

    /// Returns the results folder of these settings, else of the manifest, else `results`.
    #[must_use]
    pub fn results(&self, manifest: Option<PathBuf>) -> PathBuf {
        self.results.clone().or(manifest).unwrap_or_else(|| "results".into())
    }

    /// Returns the plugins in all folders, including the absolute ones that a manifest names.
    #[must_use]
    pub fn registry(&self, manifest: &[PathBuf]) -> Registry {
        Registry::scan(&self.search(manifest))
    }

    /// Returns the search path for plugins.
    #[must_use]
    pub fn search(&self, manifest: &[PathBuf]) -> Search {
        Search::new(&self.places, &self.plugins, manifest)
    }

    /// Returns the named and the installed runtimes.
    ///
    /// # Errors
    ///
    /// If one is named for a plugin that does not take any: it would silently do nothing.
    pub fn runtimes(&self, registry: &Registry) -> Result<Runtimes> {
        let takes = |id: &str| {
            let mut natives = registry.natives().iter();
            natives.any(|plugin| plugin.metadata.id == *id && plugin.metadata.runtime.is_some())
        };
        if let Some((id, _)) = self.runtimes.iter().find(|(id, _)| !takes(id)) {
            return Err(Error::NoSuchRuntimePlugin { id: id.clone() });
        }
        let named = Named::of_this_process(self.runtimes.iter().cloned().collect());
        Ok(Runtimes::new(self.places.user_data.as_deref(), named))
    }

    /// Returns the folder of the installation, which contains the worker.
    #[must_use]
    pub fn executable_folder(&self) -> Option<&Path> {
        self.places.executable_folder.as_deref()
    }

    /// Returns the path of the worker's executable, which may not exist.
    #[must_use]
    pub fn worker(&self) -> Option<PathBuf> {
        Some(self.executable_folder()?.join(platform::worker_file_name()))
    }

    /// Returns the path of the installation's program `host`, which may not exist.
    #[must_use]
    pub fn host(&self) -> Option<PathBuf> {
        Some(self.executable_folder()?.join(platform::host_file_name()))
    }
}
