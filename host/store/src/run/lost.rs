//! Files of cases, and their possible losses.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

use host_record::{CaseKey, Doubt, FileLoss, Warning, column};

use super::layout::Layout;

/// A file that the journal lists for a finished case, and that is missing or has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostFile {
    /// The case's id.
    pub case_id: String,
    /// The case's coordinates.
    pub key: CaseKey,
    /// Contents of the file.
    pub file: CaseFile,
    /// Expected place of the file.
    pub path: PathBuf,
    /// Kind of loss.
    pub loss: Loss,
}

/// A file of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaseFile {
    /// The timed queries.
    Samples,
    /// The model's outputs.
    Outputs,
    /// The data set's labels.
    Labels,
    /// The operators of one run.
    Profile,
    /// States of the device.
    DeviceStates,
}

/// Kinds of losses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// Missing.
    Missing,
    /// Present, but with another length than recorded.
    WrongLength {
        /// Its length in bytes.
        found: u64,
        /// The length in bytes in the journal.
        recorded: u64,
    },
    /// Present, but not a Parquet file of its kind.
    Unreadable {
        /// The reader's error.
        detail: String,
    },
    /// The operating system refuses to read it, so its contents are unknown.
    Refused {
        /// The operating system's error.
        detail: String,
    },
}

impl CaseFile {
    pub(super) const ALL: [Self; 5] =
        [Self::Samples, Self::Outputs, Self::Labels, Self::Profile, Self::DeviceStates];

    /// Returns its name, which is also its folder's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Samples => "samples",
            Self::Outputs => "outputs",
            Self::Labels => "labels",
            Self::Profile => "profiles",
            Self::DeviceStates => "device-states",
        }
    }

    /// Returns the file that a column is read from; `None` for columns in the journal.
    #[must_use]
    pub fn of_column(name: &str) -> Option<Self> {
        match name {
            column::LATENCY
            | column::START
            | column::ITEMS
            | column::SCHEDULED
            | column::LANE
            | column::PROCESS
            | column::PHASES
            | column::TOKENS
            | column::TOKEN_TIME
            | column::WARM_UP_LATENCY
            | column::WARM_UP_START => Some(Self::Samples),
            column::OUTPUT | column::OUTPUTS => Some(Self::Outputs),
            column::LABEL => Some(Self::Labels),
            _ => None,
        }
    }

    /// Returns its path for a process of a case.
    pub(super) fn path(self, layout: &Layout, part: &str) -> PathBuf {
        match self {
            Self::Samples => layout.samples(part),
            Self::Outputs => layout.outputs(part),
            Self::Labels => layout.labels(part),
            Self::Profile => layout.profile(part),
            Self::DeviceStates => layout.device_states(part),
        }
    }
}

impl Loss {
    /// Returns its name for machine formats.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::WrongLength { .. } => "wrong-length",
            Self::Unreadable { .. } => "unreadable",
            Self::Refused { .. } => "refused",
        }
    }

    /// Describes the loss of the file that should be at `path`.
    pub(super) fn explain(&self, path: &Path, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = path.display();
        match self {
            Self::Missing => write!(formatter, "`{path}` is missing"),
            Self::WrongLength { found, recorded } => {
                write!(formatter, "`{path}` has {found} bytes, expected {recorded}")
            }
            Self::Unreadable { detail } => write!(formatter, "`{path}` is unreadable: {detail}"),
            Self::Refused { detail } => write!(formatter, "`{path}` cannot be read: {detail}"),
        }
    }
}

impl LostFile {
    /// Returns the loss as a warning about its case.
    pub(crate) fn warning(&self) -> Warning {
        let loss = match &self.loss {
            Loss::Missing => FileLoss::Missing,
            Loss::WrongLength { found, recorded } => {
                FileLoss::WrongLength { found_bytes: *found, recorded_bytes: *recorded }
            }
            Loss::Unreadable { detail } => FileLoss::Unreadable { reader_message: detail.clone() },
            Loss::Refused { detail } => FileLoss::Refused { system_message: detail.clone() },
        };
        let (file, path) = (self.file.name().into(), self.path.display().to_string());
        Doubt::FileLost { file, path, loss }.into()
    }

    pub(crate) const HINT: &str = "restore the file from a copy; where the run is unfinished, \
                                   `host run --resume` measures the case again";
}

impl fmt::Display for LostFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case_id, key, file, path, loss } = self;
        write!(formatter, "the {} of case {case_id} ({key}) are lost: ", file.name())?;
        loss.explain(path, formatter)
    }
}

/// Returns the cases that have lost their samples.
pub(crate) fn without_samples(lost: &[LostFile]) -> HashSet<&str> {
    let samples = lost.iter().filter(|lost| lost.file == CaseFile::Samples);
    samples.map(|lost| lost.case_id.as_str()).collect()
}
