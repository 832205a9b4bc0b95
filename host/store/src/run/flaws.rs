/*!
What is wrong with a run folder that can still be read.

The journal says of each case which files it has and how long they are. Whoever shows or exports a
run asks whether that still holds, since a file that is gone would otherwise be a table with fewer
rows and no word about it.
*/

use std::collections::HashSet;
use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use host_record::{CaseKey, CaseRecord, column};
use parquet::file::reader::SerializedFileReader;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::folder::{RunFolder, hexadecimal};
use super::lines::{Line, Lines, TornLine, torn_line};
use super::samples::SampleReader;
use super::writer::RunWriter;
use super::{Layout, lines};
use crate::error::StoreError;

/// Something that a reader of a run has to be told, though the run can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flaw {
    /// A finished case no longer has a file.
    LostFile(Box<LostFile>),
    /// A file's last line was cut short.
    TornLine(TornLine),
}

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
    const ALL: [Self; 5] =
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
            | column::WARM_UP_LATENCY
            | column::WARM_UP_START => Some(Self::Samples),
            column::OUTPUT => Some(Self::Outputs),
            column::LABEL => Some(Self::Labels),
            _ => None,
        }
    }

    fn path(self, layout: &Layout, part: &str) -> PathBuf {
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

impl Flaw {
    /// What to do about it, where there is something to do.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::LostFile(_) => Some(LostFile::HINT),
            Self::TornLine(_) => None,
        }
    }
}

impl LostFile {
    pub(crate) const HINT: &str = "restore the file from a copy; where the run is unfinished, \
                                   `host run --resume` measures the case again";
}

impl fmt::Display for Flaw {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LostFile(lost) => lost.fmt(formatter),
            Self::TornLine(torn) => torn.fmt(formatter),
        }
    }
}

impl fmt::Display for LostFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case_id, key, file, path, loss } = self;
        write!(formatter, "the {} of case {case_id} ({key}) are lost: ", file.name())?;
        loss.explain(path, formatter)
    }
}

/// The lengths of a case's files in bytes, as the journal keeps them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Files {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    samples: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outputs: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    labels: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    profiles: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    device_states: Option<u64>,
}

impl Files {
    /// The files that a process of a case has now.
    pub(super) fn of(layout: &Layout, part: &str) -> Result<Self, StoreError> {
        let length = |file: CaseFile| {
            let path = file.path(layout, part);
            match fs::metadata(&path) {
                Ok(metadata) => Ok(Some(metadata.len())),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                Err(error) => Err(StoreError::io("read", &path)(error)),
            }
        };
        Ok(Self {
            samples: length(CaseFile::Samples)?,
            outputs: length(CaseFile::Outputs)?,
            labels: length(CaseFile::Labels)?,
            profiles: length(CaseFile::Profile)?,
            device_states: length(CaseFile::DeviceStates)?,
        })
    }

    fn length(self, file: CaseFile) -> Option<u64> {
        match file {
            CaseFile::Samples => self.samples,
            CaseFile::Outputs => self.outputs,
            CaseFile::Labels => self.labels,
            CaseFile::Profile => self.profiles,
            CaseFile::DeviceStates => self.device_states,
        }
    }
}

/// A line of the journal as it is written.
#[derive(Serialize)]
pub(super) struct JournalLine<'record> {
    #[serde(flatten)]
    pub(super) record: &'record CaseRecord,
    /// Absent for what was never started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) files: Option<Files>,
}

/// What looking after files needs of a line of the journal.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Entry {
    record_version: u32,
    case_id: String,
    #[serde(default)]
    process: u32,
    key: CaseKey,
    started_at: String,
    outcome: Ended,
    #[serde(default)]
    files: Option<Files>,
}

#[derive(Deserialize)]
struct Ended {
    outcome: String,
}

impl Line for Entry {
    fn record_version(&self) -> Option<u32> {
        Some(self.record_version)
    }
}

/// What a look at a run folder shows.
pub(crate) struct Inspection {
    /// Files that are lost, in the order of the journal.
    pub(crate) lost: Vec<LostFile>,
    /// Tells whether the folder has changed since it was imported.
    pub(crate) fingerprint: String,
}

impl RunFolder {
    /// What a reader of the run has to be told: files of finished cases that are lost, and lines
    /// that a crash cut short.
    ///
    /// # Errors
    ///
    /// Where the journal cannot be read or is damaged.
    pub fn flaws(&self) -> Result<Vec<Flaw>, StoreError> {
        self.flaws_with(self.lost_files()?)
    }

    /// Files that finished cases no longer have.
    ///
    /// # Errors
    ///
    /// Where the journal cannot be read or is damaged.
    pub fn lost_files(&self) -> Result<Vec<LostFile>, StoreError> {
        Ok(self.inspect()?.lost)
    }

    /// Lines that a crash cut short; a host that writes the run now has not been.
    pub(crate) fn torn_lines(&self) -> Result<Vec<TornLine>, StoreError> {
        let layout = &self.layout;
        let files = [layout.journal(), layout.results(), layout.recommendations()];
        let torn = files.into_iter().map(torn_line).collect::<Result<Vec<_>, _>>()?;
        let mut torn: Vec<TornLine> = torn.into_iter().flatten().collect();
        // Where the lock cannot be looked at, nobody is seen to hold it.
        if !torn.is_empty() && RunWriter::is_locked(layout).unwrap_or(false) {
            torn.clear();
        }
        Ok(torn)
    }

    pub(crate) fn flaws_with(&self, lost: Vec<LostFile>) -> Result<Vec<Flaw>, StoreError> {
        let torn = self.torn_lines()?.into_iter().map(Flaw::TornLine);
        Ok(torn.chain(lost.into_iter().map(|lost| Flaw::LostFile(Box::new(lost)))).collect())
    }

    /// Looks at the journal and at each file that it names.
    pub(crate) fn inspect(&self) -> Result<Inspection, StoreError> {
        let layout = &self.layout;
        let mut fingerprint = String::new();
        // Before the lines are read: what is appended meanwhile will be seen as a change.
        for path in
            [layout.journal(), layout.results(), layout.recommendations(), layout.finished()]
        {
            match fs::metadata(&path) {
                // Writing to a string does not fail.
                Ok(metadata) => drop(write!(fingerprint, "{}/", metadata.len())),
                Err(error) if error.kind() == ErrorKind::NotFound => fingerprint.push_str("-/"),
                Err(error) => return Err(StoreError::io("read", &path)(error)),
            }
        }
        let (mut lost, mut digest) = (Vec::new(), Sha256::new());
        for entry in Lines::<Entry>::open(layout.journal())? {
            let entry = entry?;
            // A case that is measured again can leave all lengths as they were.
            digest.update(format!("{} {}\n", entry.case_id, entry.started_at));
            if entry.outcome.outcome != "finished" {
                continue;
            }
            for file in CaseFile::ALL {
                let path = file.path(layout, &host_record::part(&entry.case_id, entry.process));
                if let Some(loss) = loss(file, &path, entry.files) {
                    let (case_id, key) = (entry.case_id.clone(), entry.key.clone());
                    let file = LostFile { case_id, key, file, path, loss };
                    digest.update(format!("{file}\n"));
                    lost.push(file);
                }
            }
        }
        fingerprint.push_str(&hexadecimal(&digest.finalize()[..8]));
        Ok(Inspection { lost, fingerprint })
    }
}

/// The cases that have lost their samples.
pub(crate) fn without_samples(lost: &[LostFile]) -> HashSet<&str> {
    let samples = lost.iter().filter(|lost| lost.file == CaseFile::Samples);
    samples.map(|lost| lost.case_id.as_str()).collect()
}

/// What became of a file, if it is not as the journal says.
fn loss(file: CaseFile, path: &Path, recorded: Option<Files>) -> Option<Loss> {
    let recorded = match recorded {
        Some(files) => Some(files.length(file)?),
        // Hosts that did not write down the files: what was measured has samples at any rate.
        None if file == CaseFile::Samples => None,
        None if !path.exists() => return None,
        None => None,
    };
    let refused = |error: &std::io::Error| Some(Loss::Refused { detail: error.to_string() });
    let opened = File::open(path).and_then(|file| file.metadata().map(|about| (file, about.len())));
    let (opened, found) = match opened {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound => return Some(Loss::Missing),
        Err(error) => return refused(&error),
    };
    if let Some(recorded) = recorded.filter(|recorded| *recorded != found) {
        return Some(Loss::WrongLength { found, recorded });
    }
    let read = match file {
        CaseFile::Samples => SampleReader::of(path, opened).map(drop),
        CaseFile::Outputs | CaseFile::Labels | CaseFile::Profile | CaseFile::DeviceStates => {
            SerializedFileReader::new(opened).map(drop).map_err(StoreError::parquet(path))
        }
    };
    match read {
        Ok(()) => None,
        Err(StoreError::Io { source, .. }) => refused(&source),
        Err(StoreError::Parquet { source, .. }) => {
            Some(Loss::Unreadable { detail: source.to_string() })
        }
        Err(error) => Some(Loss::Unreadable { detail: error.to_string() }),
    }
}

/// Takes the lines of some cases out of a file, which is replaced as a whole.
pub(super) fn forget(path: &Path, is_forgotten: impl Fn(&str) -> bool) -> Result<(), StoreError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Case {
        case_id: String,
    }
    lines::retain(path, |case: &Case| !is_forgotten(&case.case_id))
}
