//! Paths of plugins and files on this machine.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use host_record::{FileId, PluginIdentity};
use host_run::{LocalPlugin, Resolver};

/// Paths of an experiment's plugins and files on this machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct LocalPaths {
    plugins: HashMap<PluginIdentity, LocalPlugin>,
    files: HashMap<FileId, PathBuf>,
}

impl LocalPaths {
    pub(crate) fn add_plugin(&mut self, identity: &PluginIdentity, plugin: LocalPlugin) {
        self.plugins.insert(identity.clone(), plugin);
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &FileId> {
        self.files.keys()
    }

    pub(crate) fn add_file(&mut self, file: FileId, path: &Path) {
        self.files.insert(file, path.to_owned());
    }
}

impl Resolver for LocalPaths {
    fn file(&self, file: &FileId) -> Result<PathBuf, String> {
        let path = self.files.get(file).cloned();
        path.ok_or_else(|| format!("no file `{}` with SHA-256 {}", file.name, file.sha256))
    }

    fn plugin(&self, plugin: &PluginIdentity) -> Result<LocalPlugin, String> {
        let PluginIdentity { id, version, sha256 } = plugin;
        let found = self.plugins.get(plugin).cloned();
        found.ok_or_else(|| format!("no plugin `{id}` {version} with SHA-256 {sha256}"))
    }
}
