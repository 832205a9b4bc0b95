//! Errors with plugins, and hints to fix them.

use std::fmt;
use std::io;
use std::path::PathBuf;

use semver::{Version, VersionReq};
use serde::Serialize;

use crate::lock::LockError;
use crate::origin::Origin;

/// A `plugin.toml` or `runtime.lock` that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {message}", .file.display(), .line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct MetadataError {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1, if known.
    pub line: Option<usize>,
    /// The error.
    pub message: String,
}

/// An unusable plugin in a plugin folder. It does not hide others.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Problem {
    /// A folder that was named does not exist or cannot be read.
    #[error("the plugin folder {} ({origin}) cannot be read: {reason}", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Its origin.
        origin: Origin,
        /// The system's error.
        reason: String,
    },
    /// An entry of `TARE_PLUGINS` that depends on the current directory.
    #[error("TARE_PLUGINS lists the relative folder {}, which would depend on the current directory; ignored", .folder.display())]
    RelativeFolder {
        /// The entry.
        folder: PathBuf,
    },
    /// A `plugin.toml` that cannot be used.
    #[error("{error}")]
    Metadata {
        /// The id in it, as far as it can be read; else the name of its folder, which is usually the id.
        id: Option<String>,
        /// The error.
        error: MetadataError,
    },
    /// The library that `plugin.toml` names is missing.
    #[error("the library {} of plugin `{id}` {version} is missing", .library.display())]
    MissingLibrary {
        /// The plugin.
        id: String,
        /// Its version.
        version: Version,
        /// Expected place of the library.
        library: PathBuf,
    },
    /// The library that `plugin.toml` names cannot be read, is not a regular file, or is too large.
    #[error("the library {} of plugin `{id}` {version} cannot be used: {reason}", .library.display())]
    UnusableLibrary {
        /// The plugin.
        id: String,
        /// Its version.
        version: Version,
        /// The library.
        library: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The plugin is for another version of the native ABI.
    #[error("plugin `{id}` {version} in {} needs native ABI {required}, but this host has {offered}", .folder.display())]
    Abi {
        /// The plugin.
        id: String,
        /// Its version.
        version: Version,
        /// Its folder.
        folder: PathBuf,
        /// Required version.
        required: VersionReq,
        /// Available version.
        offered: Version,
    },
    /// A file of the plugin is a link out of its folder.
    #[error("{} of plugin `{id}` {version} is a link to {}, outside the plugin's folder", .file.display(), .target.display())]
    Link {
        /// The plugin.
        id: String,
        /// Its version.
        version: Version,
        /// The link.
        file: PathBuf,
        /// Target of the link.
        target: PathBuf,
    },
    /// A plugin in a folder of the manifest names a runtime on this machine.
    #[error("plugin `{id}` {version} in {} comes with a manifest and sets `runtime.path`", .folder.display())]
    RuntimePath {
        /// The plugin.
        id: String,
        /// Its version.
        version: Version,
        /// Its folder.
        folder: PathBuf,
    },
}

impl Problem {
    /// Returns the id of the plugin with the problem, if known.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::MissingLibrary { id, .. }
            | Self::UnusableLibrary { id, .. }
            | Self::Abi { id, .. }
            | Self::Link { id, .. }
            | Self::RuntimePath { id, .. } => Some(id),
            Self::Metadata { id, .. } => id.as_deref(),
            Self::Folder { .. } | Self::RelativeFolder { .. } => None,
        }
    }

    /// Returns a hint to fix the problem.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::Folder { origin, .. } => {
                format!("create the folder, or stop naming it ({})", who_names(*origin))
            }
            Self::RelativeFolder { .. } => "write the folder's absolute path".into(),
            Self::Metadata { error, .. } if error.line.is_none() => {
                format!("make sure that {} is readable text", error.file.display())
            }
            Self::Metadata { .. } => {
                "fix the line; the guide's page on backends lists every key".into()
            }
            Self::MissingLibrary { library, .. } | Self::UnusableLibrary { library, .. } => format!(
                "build or copy the library for {} to {}",
                std::env::consts::ARCH,
                library.display()
            ),
            Self::Abi { required, offered, .. } => abi_help(required, offered),
            Self::Link { file, .. } => {
                format!("copy the file itself to {}", file.display())
            }
            Self::RuntimePath { .. } => {
                "a manifest may not choose the libraries that are loaded: remove the key, and name the \
                 runtime with --runtime, or copy the plugin into your plugin folder"
                    .into()
            }
        }
    }
}

fn who_names(origin: Origin) -> &'static str {
    match origin {
        Origin::Flag => "the flag --plugins",
        Origin::Environment => "the variable TARE_PLUGINS",
        Origin::User => "the user's data folder",
        Origin::Installed => "the folder beside the executable",
        Origin::Manifest => "the manifest's plugin folders",
    }
}

/// Returns which side must be updated: the one with the older version.
fn abi_help(required: &VersionReq, offered: &Version) -> String {
    let newer = Version::new(offered.major, offered.minor + 1, 0);
    let major = Version::new(offered.major + 1, 0, 0);
    if required.matches(&newer) || required.matches(&major) {
        "the plugin is newer than the host: update the host, or install an older version of the plugin".into()
    } else {
        "the plugin is older than the host: update the plugin, or rebuild it against this host's plugin-api".into()
    }
}

/// Reasons why a plugin cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// No folder has it.
    #[error("no {what}{}plugin `{id}` is installed", if .what.is_empty() { "" } else { " " })]
    Unknown {
        /// `backend`, `metric`, `report`, `recommender`, or empty.
        what: &'static str,
        /// The requested id.
        id: String,
        /// The nearest known id.
        nearest: Option<String>,
        /// All known ids.
        available: Vec<String>,
        /// The user's own plugin folder, to which plugins can be added.
        install: Option<PathBuf>,
    },
    /// It is a metric, report or recommender, by the name of its file.
    #[error("`{id}` is a WASM plugin and not a backend: {}", .file.display())]
    NotABackend {
        /// The requested id.
        id: String,
        /// The file.
        file: PathBuf,
    },
    /// The plugin exists but is broken.
    #[error("plugin `{id}` cannot be used: {}", join(.problems))]
    Broken {
        /// The plugin.
        id: String,
        /// Its problems.
        problems: Vec<Problem>,
    },
    /// No version of it fits.
    #[error("no version of plugin `{id}` fits `{requirement}`; installed: {}", join(.available))]
    NoVersion {
        /// The plugin.
        id: String,
        /// The required version.
        requirement: VersionReq,
        /// The available versions.
        available: Vec<Version>,
    },
    /// Only a folder of the manifest has it, and the user has not trusted it.
    #[error("plugin `{id}` {version} comes with the manifest, from {}, and is native code that you have not trusted", .folder.display())]
    Untrusted {
        /// The plugin.
        id: String,
        /// Its version.
        version: Version,
        /// Its folder.
        folder: PathBuf,
    },
    /// Its library, `plugin.toml` or `runtime.lock` is not the one that was used before.
    #[error("plugin `{id}` has changed since it was first used: {}", .folder.display())]
    Changed {
        /// The plugin.
        id: String,
        /// Its folder.
        folder: PathBuf,
        /// SHA-256 of its files when it was trusted.
        recorded: String,
        /// Time of that record.
        recorded_at: String,
        /// SHA-256 now.
        found: String,
    },
    /// A file of the plugin cannot be read.
    #[error("{} cannot be read", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The lock file cannot be used.
    #[error(transparent)]
    Lock(#[from] LockError),
}

impl RegistryError {
    /// Returns whether the plugin is merely not installed, so that an experiment may continue without it. An unusable
    /// plugin is an error that the user can fix before anything is measured, and a plugin that is not trusted, or
    /// that uses files outside its folder, may be an attack.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }

    /// Returns a hint to fix the error.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        Some(match self {
            Self::Unknown { nearest, available, install, .. } => {
                if let Some(nearest) = nearest {
                    return Some(format!("did you mean `{nearest}`?"));
                }
                let installed = if available.is_empty() {
                    "there are none of its kind".to_owned()
                } else {
                    format!("installed: {}", join(available))
                };
                match install {
                    Some(folder) => format!(
                        "{installed}; to add one, put its folder or .wasm file into {}",
                        folder.display()
                    ),
                    None => format!(
                        "{installed}; to use one from another folder, name the folder with --plugins"
                    ),
                }
            }
            Self::NotABackend { id, .. } => format!(
                "metrics, reports and recommenders have tables of their own in a manifest: [[metric]], \
                 [[report]] and [[recommend]]; `host plugins info {id}` says which it is"
            ),
            Self::Broken { problems, .. } => {
                problems.iter().map(Problem::help).collect::<Vec<_>>().join("; ")
            }
            Self::NoVersion { id, requirement, available } => {
                let behind = available.iter().all(|version| is_below(version, requirement));
                if behind {
                    format!("install a newer `{id}`, or widen `version` in the manifest")
                } else {
                    format!(
                        "change `version` in the manifest to fit what is installed, or install a \
                         `{id}` that fits `{requirement}`"
                    )
                }
            }
            Self::Untrusted { id, folder, .. } => format!(
                "if you know where it is from: host plugins trust {id} --plugins {}",
                folder.display()
            ),
            Self::Changed { id, recorded, recorded_at, found, .. } => format!(
                "if you rebuilt or updated it: host plugins trust {id} (its SHA-256 was {}… on \
                 {recorded_at}, and is {}… now)",
                short(recorded),
                short(found)
            ),
            Self::Read { .. } => return None,
            Self::Lock(error) => return Some(error.help()),
        })
    }
}

/// Returns whether `version` is too old for `requirement`, as opposed to too new: whether a later version fits.
fn is_below(version: &Version, requirement: &VersionReq) -> bool {
    requirement.comparators.iter().any(|comparator| {
        let bound = Version::new(
            comparator.major,
            comparator.minor.unwrap_or(0),
            comparator.patch.unwrap_or(0),
        );
        !matches!(comparator.op, semver::Op::Less | semver::Op::LessEq) && *version < bound
    })
}

/// Returns the first digits of a hash, enough to distinguish two.
fn short(sha256: &str) -> &str {
    sha256.get(..12).unwrap_or(sha256)
}

fn join<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the candidate nearest to `word`, if it is near enough to be a typo.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.chars().count().max(3) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The problem in machine formats.
impl Serialize for Problem {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;
        let mut fields = serializer.serialize_struct("Problem", 3)?;
        fields.serialize_field("plugin", &self.id())?;
        fields.serialize_field("problem", &self.to_string())?;
        fields.serialize_field("help", &self.help())?;
        fields.end()
    }
}
