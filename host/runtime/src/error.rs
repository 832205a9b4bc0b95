//! Errors with runtimes, and hints to fix them.

use std::io;
use std::path::PathBuf;

use host_record::RuntimeOrigin;
use host_registry::MetadataError;
use serde::Serialize;

/// Flaws of an installed runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "flaw", rename_all = "kebab-case")]
pub enum Flaw {
    /// A file is missing.
    #[error("{file} is missing")]
    Missing {
        /// Its path in the runtime's folder.
        file: String,
    },
    /// A file differs from the installed one.
    #[error("{file} has changed")]
    Changed {
        /// Its path in the runtime's folder.
        file: String,
    },
    /// A file was not installed, and the loader may find it.
    #[error("{file} does not belong to it")]
    Foreign {
        /// Its path in the runtime's folder.
        file: String,
    },
}

/// Reasons why pip did not fetch a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipFault {
    /// The package index could not be reached.
    Network,
    /// The index does not have the file.
    NotFound,
    /// The index has another file under this name.
    Hash,
    /// There was no space for it.
    Space,
    /// Another reason; see pip's message.
    Other,
}

/// Reasons why a runtime cannot be installed, used, verified or removed.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// There is no folder for runtimes.
    #[error("there is no data folder in which to install runtimes")]
    Nowhere,
    /// The plugin has no `[runtime]`.
    #[error("plugin `{id}` does not use a runtime")]
    NoRuntime {
        /// The plugin.
        id: String,
    },
    /// The plugin has no `runtime.lock`.
    #[error("runtime `{runtime}` of plugin `{id}` cannot be installed: there is no {}", .file.display())]
    NoLock {
        /// The plugin.
        id: String,
        /// Name and version of its runtime.
        runtime: String,
        /// Expected place of the lock.
        file: PathBuf,
    },
    /// The lock has no package for this machine.
    #[error("runtime `{runtime}` of plugin `{id}` cannot be installed: its runtime.lock has no package for {platform}, only for {}", .available.join(", "))]
    NoPackage {
        /// The plugin.
        id: String,
        /// Name and version of its runtime.
        runtime: String,
        /// This machine.
        platform: String,
        /// Platforms that have packages.
        available: Vec<String>,
    },
    /// The `runtime.lock` cannot be used.
    #[error(transparent)]
    Lock(#[from] MetadataError),
    /// The named runtime does not exist.
    #[error("the runtime that {} names for plugin `{id}` does not exist: {}", naming(*.origin, .id), .path.display())]
    NamedMissing {
        /// The plugin.
        id: String,
        /// Its origin.
        origin: RuntimeOrigin,
        /// The folder or library.
        path: PathBuf,
    },
    /// The named path exists but is not a runtime.
    #[error("the runtime that {} names for plugin `{id}` is not a runtime: {} {detail}", naming(*.origin, .id), .path.display())]
    NamedOther {
        /// The plugin.
        id: String,
        /// Its origin.
        origin: RuntimeOrigin,
        /// The folder or file.
        path: PathBuf,
        /// The error, as text that follows the path.
        detail: String,
    },
    /// The installed files differ from the installation's record.
    #[error("the runtime of plugin `{id}` in {} differs from what was installed: {}", .folder.display(), listed(.flaws))]
    NotAsInstalled {
        /// The plugin.
        id: String,
        /// The runtime's folder.
        folder: PathBuf,
        /// The flaws; at least one.
        flaws: Vec<Flaw>,
    },
    /// A path that cannot be recorded.
    #[error("the runtime's path {} is not UTF-8, but results record it as text", .path.display())]
    NotUnicode {
        /// The folder or library.
        path: PathBuf,
    },
    /// There is no Python.
    #[error("packages are fetched with pip, but there is no Python on the path: neither {tried}")]
    NoPython {
        /// Names of the programs that were tried.
        tried: String,
    },
    /// Python exists, but without pip.
    #[error("packages are fetched with pip, but {python} does not have it: {output}")]
    NoPip {
        /// The Python.
        python: String,
        /// Python's message.
        output: String,
    },
    /// pip failed.
    #[error("pip could not fetch {package}: {output}")]
    Pip {
        /// Name and version.
        package: String,
        /// The reason, as far as pip's message shows it.
        fault: PipFault,
        /// Pip's message.
        output: String,
    },
    /// A file is not the one that the lock names.
    #[error("{} is not the file that runtime.lock names: {detail}", .file.display())]
    WrongFile {
        /// The file.
        file: PathBuf,
        /// Expected and actual value.
        detail: String,
    },
    /// A wheel that cannot be unpacked.
    #[error("{} cannot be unpacked: {detail}", .file.display())]
    BadWheel {
        /// The wheel.
        file: PathBuf,
        /// The error.
        detail: String,
    },
    /// There is too little space.
    #[error("not enough space in {}: {needed} bytes needed, {available} free", .folder.display())]
    Space {
        /// The folder.
        folder: PathBuf,
        /// Bytes that are needed.
        needed: u64,
        /// Available bytes.
        available: u64,
    },
    /// The runtime is not installed.
    #[error("runtime `{name}` is not installed")]
    NotInstalled {
        /// The requested runtime.
        name: String,
    },
    /// `installed.json` cannot be used.
    #[error("{} cannot be used: {message}", .file.display())]
    Record {
        /// The file.
        file: PathBuf,
        /// The error.
        message: String,
    },
    /// The system refused.
    #[error("cannot {action} {}", .path.display())]
    Io {
        /// The failed action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl RuntimeError {
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

    /// Returns a hint to fix the error.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        let elsewhere = |id: &str| {
            format!(
                "install it by the vendor's instructions and name its folder or library with \
                 --runtime {id}=PATH or {}",
                variable(id)
            )
        };
        Some(match self {
            Self::Nowhere => "set HOME, or XDG_DATA_HOME to an absolute path".into(),
            Self::NoRuntime { .. } => "`host runtimes list` shows the plugins that do".into(),
            Self::NoLock { id, .. } | Self::NoPackage { id, .. } => elsewhere(id),
            Self::Lock(error) => {
                format!("fix {}, or reinstall the plugin", error.file.display())
            }
            Self::NotAsInstalled { id, .. } => {
                format!("`host runtimes install {id}` repairs it")
            }
            Self::NamedMissing { .. } | Self::NamedOther { .. } => {
                "name a folder with the runtime's libraries, or the library itself".into()
            }
            Self::NotUnicode { .. } => "give it a name in UTF-8".into(),
            Self::NoPython { .. } => {
                "install Python 3 with pip; it only fetches, and is not used for measuring".into()
            }
            Self::NoPip { python, .. } => format!(
                "install pip, by your distribution's package python3-pip or with {python} -m ensurepip"
            ),
            Self::Pip { fault, .. } => match fault {
                PipFault::Network => {
                    "see that `pip download` works here: pip's own settings (`pip config \
                     list`) name index, proxy and certificates; what has arrived is kept, so the \
                     same command goes on from there"
                        .into()
                }
                PipFault::NotFound => {
                    "the index that pip uses does not have this file: see `pip config list`, or \
                     use one that mirrors PyPI completely"
                        .into()
                }
                PipFault::Hash => {
                    "the index serves another file under this name, which is not used: do not \
                     work around it before you know why"
                        .into()
                }
                PipFault::Space => "free some space, and run the same command again".into(),
                PipFault::Other => "run the same command again when that is mended; what has \
                                    arrived is kept"
                    .into(),
            },
            Self::WrongFile { file, .. } => {
                format!("delete {} and install again", file.display())
            }
            Self::BadWheel { .. } => "nothing of it was installed; tell whoever made the plugin's \
                                      runtime.lock"
                .into(),
            Self::Space { .. } => {
                "free some space, or set XDG_DATA_HOME to a folder on another disk".into()
            }
            Self::NotInstalled { .. } => "`host runtimes list` shows the installed ones".into(),
            Self::Record { .. } => "`host runtimes install` repairs it".into(),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "free some space, or set XDG_DATA_HOME to a folder on another disk".into()
            }
            Self::Io { .. } => return None,
        })
    }
}

/// Returns the environment variable that names a plugin's runtime.
pub(crate) fn variable(id: &str) -> String {
    format!("TARE_RUNTIME_{}", id.to_ascii_uppercase().replace('-', "_"))
}

/// Returns the flaws in a few words.
fn listed(flaws: &[Flaw]) -> String {
    let shown: Vec<_> = flaws.iter().take(3).map(ToString::to_string).collect();
    let more = flaws.len() - shown.len();
    let more = if more == 0 { String::new() } else { format!(", and {more} more") };
    format!("{}{more}", shown.join(", "))
}

fn naming(origin: RuntimeOrigin, id: &str) -> String {
    match origin {
        RuntimeOrigin::Flag => "--runtime".into(),
        RuntimeOrigin::Environment => variable(id),
        RuntimeOrigin::Plugin => "its plugin.toml".into(),
        RuntimeOrigin::Installed => "nobody".into(),
    }
}
