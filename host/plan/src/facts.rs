//! Facts that a plan needs beyond the experiment. The caller collects them, because this
//! crate does no I/O.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use host_manifest::PerPrecision;
use host_record::{DeviceInfo, FileId, Gap, ModelStructure, PluginIdentity};

/// Facts about the files, plugins and devices that an experiment names.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The name of the machine that the devices are of.
    pub machine: String,
    /// The memory that a process on it can get at most, in bytes; `None` if it is not known.
    pub memory_bytes: Option<u64>,
    /// Models by id.
    pub models: BTreeMap<String, ModelFacts>,
    /// Structures of models' files. A file that is not here is known to its engine alone.
    pub structures: BTreeMap<FileId, ModelStructure>,
    /// SHA-256, in hexadecimal, of data files by the path that the manifest gives them. A file that
    /// is not here is identified by that path instead of its content.
    pub data: BTreeMap<PathBuf, String>,
    /// Backends by their id in the manifest.
    pub backends: BTreeMap<String, BackendFacts>,
}

impl Facts {
    /// Returns a data file's id, with its hash if known.
    pub(crate) fn file(&self, path: &Path) -> FileId {
        FileId::of(path, self.data.get(path).cloned().unwrap_or_default())
    }
}

/// Facts about a model: about its file, or about one file per precision.
pub type ModelFacts = PerPrecision<FileId>;

/// Facts about a backend.
#[derive(Debug, Clone)]
pub enum BackendFacts {
    /// The plugin was found and has described itself.
    Ready {
        /// Which plugin it is.
        plugin: PluginIdentity,
        /// The devices that it sees, in its own order.
        devices: Vec<DeviceInfo>,
        /// The missing runtime that the backend's options ask for. The plugin may find one
        /// where the system keeps it, and may offer more with it than without.
        lacks: Option<Gap>,
    },
    /// The plugin is missing, does not fit, or could not describe itself.
    Missing(Gap),
}
