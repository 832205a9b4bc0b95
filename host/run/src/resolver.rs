//! Finding the files and plugins of a case on one machine.

use std::path::PathBuf;

use host_record::protocol::CaseFiles;
use host_record::{CaseSpec, Failure, FileId, Gap, InputSource, PluginIdentity};

/// Finds a case's files and plugins on one machine.
pub trait Resolver: Send + Sync {
    /// Returns the path of a file with this content. Its parts lie in its folder, under their names.
    ///
    /// # Errors
    ///
    /// The reason why it is not found, in one sentence.
    fn file(&self, file: &FileId) -> Result<PathBuf, String>;

    /// Returns a plugin with this library.
    ///
    /// # Errors
    ///
    /// The reason why it is not found, in one sentence.
    fn plugin(&self, plugin: &PluginIdentity) -> Result<LocalPlugin, String>;
}

/// A plugin on the machine that a case is executed on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LocalPlugin {
    /// Its library.
    pub library: PathBuf,
    /// The runtime to use: a folder or a library.
    pub runtime: Option<PathBuf>,
    /// Names of the host's environment variables that it asks for.
    pub variables: Vec<String>,
    /// The gap for a runtime that it needs and that the host has not found. The plugin may work without it, or find
    /// one in the system's folders; if it reports a missing runtime at loading, the case is this gap.
    pub missing_runtime: Option<Gap>,
}

/// A case's plugin and files on this machine.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) plugin: LocalPlugin,
    pub(crate) files: CaseFiles,
}

/// Finds the plugin and the files of a case.
pub(crate) fn find(resolver: &dyn Resolver, case: &CaseSpec) -> Result<Found, Failure> {
    let absent = |detail| Failure::NotStarted { detail };
    let mut plugin = resolver.plugin(&case.plugin).map_err(absent)?;
    plugin.variables.extend_from_slice(&case.environment);
    let file = |file| resolver.file(file).map_err(absent);
    let mut files = CaseFiles {
        library: plugin.library.clone(),
        model: file(&case.model)?,
        ..CaseFiles::default()
    };
    if let InputSource::Files { inputs, labels, .. } = &case.inputs {
        for (name, id) in inputs {
            files.inputs.insert(name.clone(), file(id)?);
        }
        files.labels = labels.as_ref().map(file).transpose()?;
    }
    Ok(Found { plugin, files })
}
