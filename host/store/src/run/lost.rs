//! Files of cases, and what can become of them.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

use host_record::{CaseKey, column};

use super::layout::Layout;

/// A file that the journal promises of a finished case, and that is not there as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostFile {
    /// The case's id.
    pub case_id: String,
    /// The case's coordinates.
    pub key: CaseKey,
    /// What the file holds.
    pub file: CaseFile,
    /// Where it should be.
    pub path: PathBuf,
    /// What became of it.
    pub loss: Loss,
}

/// A file of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaseFile {
    /// The timed queries.
    Samples,
    /// What the model answered.
    Outputs,
    /// The data set's labels.
    Labels,
    /// The operators of one run.
    Profile,
    /// What the device did, look by look.
    DeviceStates,
}

/// What became of a lost file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// It is not there.
    Missing,
    /// It is not as long as when it was written.
    WrongLength {
        /// Its length in bytes.
        found: u64,
        /// The length in bytes that the journal says.
        recorded: u64,
    },
    /// It is there, and is no Parquet file of its kind.
    Unreadable {
        /// What the reader said.
        detail: String,
    },
    /// The operating system does not let it be read, so that nothing is known of what is in it.
    Refused {
        /// What the operating system said.
        detail: String,
    },
}

impl CaseFile {
    pub(super) const ALL: [Self; 5] =
        [Self::Samples, Self::Outputs, Self::Labels, Self::Profile, Self::DeviceStates];

    /// The word for it, which is also its folder's name.
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

    /// The file that a column is read from; `None` for one that is in the journal itself.
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

    /// Where a process of a case has it.
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
    /// The word for it, for machines.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::WrongLength { .. } => "wrong-length",
            Self::Unreadable { .. } => "unreadable",
            Self::Refused { .. } => "refused",
        }
    }

    /// What became of the file that should be at `path`.
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

/// The cases that have lost their samples.
pub(crate) fn without_samples(lost: &[LostFile]) -> HashSet<&str> {
    let samples = lost.iter().filter(|lost| lost.file == CaseFile::Samples);
    samples.map(|lost| lost.case_id.as_str()).collect()
}
