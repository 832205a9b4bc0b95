//! Errors of names and sizes, and of files.

use std::io;
use std::path::PathBuf;

use crate::families::{ALL, names};
use crate::family::Category;
use crate::size::{LARGEST, Size, Unfit};

/// Why a text is not an architecture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArchitectureError {
    /// There is no architecture of this name.
    #[error("there is no architecture `{name}`")]
    Unknown {
        /// The name.
        name: String,
    },
    /// The word stands for several architectures.
    #[error("`{word}` is not one architecture, but several")]
    Group {
        /// The word.
        word: String,
        /// Their names.
        names: Vec<&'static str>,
    },
    /// The architecture has no such size.
    #[error("`{architecture}` has no size `{size}`")]
    UnknownSize {
        /// The architecture's name.
        architecture: &'static str,
        /// The size's name.
        size: String,
        /// The sizes that it has.
        known: &'static [Size],
    },
    /// A size is not a whole number that it can be.
    #[error(
        "the size `{size}` of `{architecture}` is a whole number from 1 to {LARGEST}, got `{text}`"
    )]
    NotASize {
        /// The architecture's name.
        architecture: &'static str,
        /// The size's name.
        size: String,
        /// Its text.
        text: String,
    },
    /// A size is given twice.
    #[error("the size `{size}` of `{architecture}` is given twice")]
    Twice {
        /// The architecture's name.
        architecture: &'static str,
        /// The size's name.
        size: String,
    },
    /// Sizes do not fit together.
    #[error("there is no such `{architecture}`: {reason}")]
    Unfit {
        /// The architecture's name.
        architecture: &'static str,
        /// Why.
        reason: Unfit,
    },
}

impl ArchitectureError {
    /// Returns the remedy, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { name } => {
                let groups = Category::ALL.map(Category::name);
                let known = [&names()[..], &groups, &[ALL]].concat();
                Some(hint(name, &known, "there are"))
            }
            Self::UnknownSize { size, known, .. } => {
                let known: Vec<_> = known.iter().map(|size| size.name).collect();
                Some(hint(size, &known, "it has"))
            }
            Self::Group { names, .. } => Some(format!("name one of `{}`", names.join("`, `"))),
            Self::NotASize { .. } => Some("write sizes as in `gpt2:layers=6,width=384`".into()),
            Self::Twice { .. } | Self::Unfit { .. } => None,
        }
    }
}

/// Returns the nearest name, or else all of them.
fn hint(name: &str, known: &[&str], introduction: &str) -> String {
    match nearest(name, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("{introduction} `{}`", known.join("`, `")),
    }
}

/// Returns the known name that is nearest to a mistyped one, if one is near.
fn nearest<'known>(name: &str, known: &[&'known str]) -> Option<&'known str> {
    let plain = |text: &str| text.to_lowercase().replace(['-', '_', '.', '/'], "");
    let name = plain(name);
    let distances = known.iter().map(|known| (strsim::osa_distance(&name, &plain(known)), *known));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    let length = nearest.len().max(name.chars().count());
    (distance <= length.div_ceil(3)).then_some(nearest)
}

/// The files of a model cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}", path.display())]
pub struct WriteError {
    /// The verb.
    pub action: &'static str,
    /// The file or folder.
    pub path: PathBuf,
    /// The operating system's error.
    pub source: io::Error,
}
