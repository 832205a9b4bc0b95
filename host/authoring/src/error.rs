//! Errors, with what to do about each.

use std::io;
use std::path::{Path, PathBuf};

use crate::language::{Kind, Language, offered};

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an author does not get what they asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system refused.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file lies where a folder is needed.
    #[error("{} is a file, not a folder", path.display())]
    NotAFolder {
        /// The file.
        path: PathBuf,
    },
    /// The folder has files.
    #[error("the folder {} is not empty", folder.display())]
    NotEmpty {
        /// The folder.
        folder: PathBuf,
    },
    /// There is no template for this kind in this language.
    #[error("there is no {kind} in {} to start from", language.title())]
    NotOffered {
        /// The kind.
        kind: Kind,
        /// The language.
        language: Language,
    },
    /// A plugin cannot have this name.
    #[error("`{name}` cannot be a plugin's name: {reason}")]
    Name {
        /// The name.
        name: String,
        /// Why.
        reason: String,
    },
    /// There is no `plugin.toml`.
    #[error("{} has no plugin.toml, so it is not a plugin's project", folder.display())]
    NotAProject {
        /// The folder.
        folder: PathBuf,
    },
    /// `plugin.toml` does not say what is needed to build.
    #[error("{}: {message}", file.display())]
    Description {
        /// The file.
        file: PathBuf,
        /// The problem.
        message: String,
    },
    /// A program that the command needs is not installed.
    #[error("`{program}` is not installed, and building needs it")]
    NoTool {
        /// The program.
        program: String,
        /// How to install it.
        install: String,
    },
    /// The command failed.
    #[error("`{command}` failed: {status}")]
    Failed {
        /// The command.
        command: String,
        /// Its exit status, in words.
        status: String,
    },
    /// The command did not make what it should.
    #[error("`{command}` ended well, but {} is not there", result.display())]
    NoResult {
        /// The command.
        command: String,
        /// The missing file.
        result: PathBuf,
    },
    /// The result is not a component and cannot become one.
    #[error("{} cannot become a component: {reason}", path.display())]
    NoComponent {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }

    /// Returns what to do about it.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        Some(match self {
            Self::Io { .. } => return None,
            Self::NotAFolder { .. } => "name another folder".into(),
            Self::NotEmpty { .. } => "name a folder that is empty or does not exist".into(),
            Self::NotOffered { .. } => format!(
                "there are: {}. Any other language that makes components can use the WIT package: `host plugins sdk FOLDER`",
                offered()
            ),
            Self::Name { .. } => {
                "choose lower-case words or digits joined by hyphens, such as `tail-ratio`".into()
            }
            Self::NotAProject { .. } => {
                "name the folder of a project; `host plugins new metric NAME --lang rust` starts one".into()
            }
            Self::Description { .. } => {
                "docs/reference/plugin-toml.md lists the keys of plugin.toml".into()
            }
            Self::NoTool { install, .. } => install.clone(),
            Self::Failed { .. } => {
                "what it wrote is above; run the command in the project's folder to try again".into()
            }
            Self::NoResult { .. } => "correct `result` under [build] in plugin.toml".into(),
            Self::NoComponent { .. } => {
                "link the object file of the world, such as sdk/c/metric_plugin_component_type.o, into it".into()
            }
        })
    }
}
