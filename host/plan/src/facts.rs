//! Facts that a plan needs beyond the experiment. The caller collects them, because this
//! crate does no I/O.

use std::collections::BTreeMap;
use std::path::PathBuf;

use host_manifest::PerPrecision;
use host_record::{DeviceInfo, Gap, PluginIdentity};

/// Facts about the files, plugins and devices that an experiment names.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The manifest's folder, absolute: data files are relative to it.
    pub base: PathBuf,
    /// Models by id.
    pub models: BTreeMap<String, ModelFacts>,
    /// SHA-256, in hexadecimal, of data files by the path that the manifest gives them. A file that
    /// is not here is identified by that path instead of its content.
    pub data: BTreeMap<PathBuf, String>,
    /// Backends by their id in the manifest.
    pub backends: BTreeMap<String, BackendFacts>,
}

/// Facts about a model: about its file, or about one file per precision.
pub type ModelFacts = PerPrecision<ModelFile>;

/// Facts about a model's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFile {
    /// The file, absolute.
    pub path: PathBuf,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
}

/// Facts about a backend.
#[derive(Debug, Clone)]
pub enum BackendFacts {
    /// The plugin was found and has described itself.
    Ready {
        /// Which plugin it is.
        plugin: PluginIdentity,
        /// Its library, absolute.
        library: PathBuf,
        /// The devices that it sees, in its own order.
        devices: Vec<DeviceInfo>,
        /// The missing runtime that the backend's options ask for. The plugin may find one
        /// where the system keeps it, and may offer more with it than without.
        lacks: Option<Gap>,
    },
    /// The plugin is missing, does not fit, or could not describe itself.
    Missing(Gap),
}
