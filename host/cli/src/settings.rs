//! What the commands work with: the typed arguments with every default resolved.

use std::path::PathBuf;

use host_registry::{Places, Registry, Search};
use host_runtime::{Named, Runtimes};

use crate::arguments::GlobalArguments;
use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// Options that hold for every command, resolved.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The results folder that the flag or the environment names.
    results: Option<PathBuf>,
    /// Plugin folders that the flag names.
    plugins: Vec<PathBuf>,
    /// Runtimes that the flag names: a plugin's id and a path.
    runtimes: Vec<(String, PathBuf)>,
    /// Places that do not depend on arguments.
    places: Places,
}

impl Settings {
    pub(crate) fn new(global: &GlobalArguments) -> Self {
        Self {
            results: global.results.clone().filter(|folder| !folder.as_os_str().is_empty()),
            plugins: global.plugins.clone(),
            runtimes: global.runtimes.clone(),
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

    /// The runtimes that the user has named and installed. One that is named for a plugin that does not
    /// take any would silently do nothing, so it is refused.
    pub(crate) fn runtimes(&self, registry: &Registry) -> Result<Runtimes> {
        let takes = |id: &str| {
            let mut natives = registry.natives().iter();
            natives.any(|plugin| plugin.metadata.id == *id && plugin.metadata.runtime.is_some())
        };
        if let Some((id, _)) = self.runtimes.iter().find(|(id, _)| !takes(id)) {
            let message =
                format!("--runtime names `{id}`, and no plugin of that id takes a runtime");
            return Err(Failure::new(Exit::Usage, message)
                .help("`host runtimes list` shows the plugins that do"));
        }
        let named = Named::of_this_process(self.runtimes.iter().cloned().collect());
        Ok(Runtimes::new(self.places.user_data.as_deref(), named))
    }

    /// The folder of the running executable, beside which the worker lies.
    pub(crate) fn executable_folder(&self) -> Option<&std::path::Path> {
        self.places.executable_folder.as_deref()
    }
}
