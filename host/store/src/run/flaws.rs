/*!
Flaws of a run folder that can still be read.

The journal lists the files of each case, and their lengths. Code that shows or exports a run checks this; otherwise a
missing file would result in a table with fewer rows and no message.
*/

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use host_hash::{Digest, Sha256, hexadecimal};
use host_record::CaseKey;
use parquet::file::reader::SerializedFileReader;
use serde::Deserialize;

use super::durable::json_text;
use super::folder::RunFolder;
use super::guarded::read_file;
use super::header::{PluginRole, ResultRecord};
use super::journal::Files;
use super::lines::{Line, Lines, TornLine, torn_line};
use super::lock::is_locked;
use super::lost::{CaseFile, Loss, LostFile};
use super::samples::SampleReader;
use crate::error::StoreError;

/// A flaw of a readable run that its reader must know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flaw {
    /// A finished case no longer has a file.
    LostFile(Box<LostFile>),
    /// A file's last line was truncated.
    TornLine(TornLine),
    /// Finished cases of a finished run have no line of a metric in `results.jsonl`.
    LostResults {
        /// The file.
        path: PathBuf,
        /// The metric plugin's id.
        plugin: String,
        /// Number of the cases.
        cases: u64,
    },
}

impl Flaw {
    /// Returns a hint to fix it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::LostFile(_) => Some(LostFile::HINT),
            Self::TornLine(_) => None,
            Self::LostResults { .. } => {
                Some("`host results recompute RUN` computes them again from the samples")
            }
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LostFile(lost) => lost.fmt(formatter),
            Self::TornLine(torn) => torn.fmt(formatter),
            Self::LostResults { path, plugin, cases } => {
                let (cases, have) = match cases {
                    1 => ("a finished case".to_owned(), "has"),
                    cases => (format!("{cases} finished cases"), "have"),
                };
                let path = path.display();
                write!(formatter, "{cases} {have} no results of the metric `{plugin}` in `{path}`")
            }
        }
    }
}

/// The part of a journal line that is needed to check files.
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

    fn names(&self) -> impl Iterator<Item = &str> {
        [&*self.case_id].into_iter()
    }
}

/// Result of inspecting a run folder.
pub(crate) struct Inspection {
    /// Files that are lost, in the order of the journal.
    pub(crate) lost: Vec<LostFile>,
    /// Value that changes with the folder's contents, to detect changes since an import.
    pub(crate) fingerprint: String,
}

impl RunFolder {
    /// Returns flaws that a reader of the run must know: lost files of finished cases, and lines
    /// that a crash truncated.
    ///
    /// # Errors
    ///
    /// If the journal cannot be read or is damaged.
    pub fn flaws(&self) -> Result<Vec<Flaw>, StoreError> {
        self.flaws_with(self.lost_files()?)
    }

    /// Returns the files that finished cases no longer have.
    ///
    /// # Errors
    ///
    /// If the journal cannot be read or is damaged.
    pub fn lost_files(&self) -> Result<Vec<LostFile>, StoreError> {
        Ok(self.inspect()?.lost)
    }

    /// Returns the lines that a crash truncated. The last line of a run that is being written does not count.
    pub(crate) fn torn_lines(&self) -> Result<Vec<TornLine>, StoreError> {
        let layout = &self.layout;
        let files = [layout.journal(), layout.results(), layout.recommendations()];
        let torn = files.into_iter().map(torn_line).collect::<Result<Vec<_>, _>>()?;
        let mut torn: Vec<TornLine> = torn.into_iter().flatten().collect();
        // A lock that cannot be read counts as not held.
        if !torn.is_empty() && is_locked(layout).unwrap_or(false) {
            torn.clear();
        }
        Ok(torn)
    }

    pub(crate) fn flaws_with(&self, lost: Vec<LostFile>) -> Result<Vec<Flaw>, StoreError> {
        let torn = self.torn_lines()?.into_iter().map(Flaw::TornLine);
        let lost = lost.into_iter().map(|lost| Flaw::LostFile(Box::new(lost)));
        Ok(torn.chain(lost).chain(self.lost_results()?).collect())
    }

    /// Returns the metrics of a finished run that finished cases have no results of. A metric that failed has a line,
    /// too.
    fn lost_results(&self) -> Result<Vec<Flaw>, StoreError> {
        let plugins = self.header().plugins.iter();
        let metrics: BTreeSet<&str> = plugins
            .filter(|plugin| plugin.role == PluginRole::Metric)
            .map(|plugin| &*plugin.identity.id)
            .collect();
        if metrics.is_empty() || self.finished()?.is_none() {
            return Ok(Vec::new());
        }
        let (mut finished, mut others) = (BTreeSet::new(), BTreeSet::new());
        for entry in Lines::<Entry>::open(self.layout.journal())? {
            let entry = entry?;
            match &*entry.outcome.outcome {
                "finished" => finished.insert(entry.case_id),
                // Of several processes, one that did not finish leaves the case without results.
                _ => others.insert(entry.case_id),
            };
        }
        let finished: BTreeSet<&String> = finished.difference(&others).collect();
        let path = self.layout.results();
        let mut found = BTreeSet::new();
        for line in Lines::<ResultRecord>::open(path.clone())? {
            let line = line?;
            if metrics.contains(&*line.plugin.id) && finished.contains(&line.case_id) {
                found.insert((line.plugin.id, line.case_id));
            }
        }
        let lost = metrics.into_iter().filter_map(|metric| {
            let found = found.iter().filter(|(plugin, _)| plugin == metric).count();
            let cases = (finished.len() - found) as u64;
            let (path, plugin) = (path.clone(), metric.to_owned());
            (cases > 0).then_some(Flaw::LostResults { path, plugin, cases })
        });
        Ok(lost.collect())
    }

    /// Inspects the journal and each file that it names.
    pub(crate) fn inspect(&self) -> Result<Inspection, StoreError> {
        let layout = &self.layout;
        let mut fingerprint = String::new();
        let length = |path: &Path| match fs::metadata(path) {
            Ok(metadata) => Ok(Some(metadata.len())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io("read", path)(error)),
        };
        // This happens before the lines are read, so later additions count as a change.
        let mut lengths = Vec::new();
        for path in [layout.journal(), layout.results(), layout.recommendations()] {
            lengths.push(length(&path)?);
        }
        let finished = layout.finished();
        lengths.push(match &self.ended {
            Some(ended) => Some(json_text(&finished, ended)?.len() as u64),
            None => length(&finished)?,
        });
        for length in lengths {
            match length {
                // Writing to a string does not fail.
                Some(length) => drop(write!(fingerprint, "{length}/")),
                None => fingerprint.push_str("-/"),
            }
        }
        let (mut lost, mut digest) = (Vec::new(), Sha256::new());
        for entry in Lines::<Entry>::open(layout.journal())? {
            let entry = entry?;
            // A case that is measured again may leave all lengths unchanged.
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

/// Returns the loss of a file, if it differs from the journal.
fn loss(file: CaseFile, path: &Path, recorded: Option<Files>) -> Option<Loss> {
    let queries = recorded.and_then(Files::queries);
    let recorded = match recorded {
        Some(files) => Some(files.length(file)?),
        // Older hosts did not record the files; a measured case always has samples.
        None if file == CaseFile::Samples => None,
        None if !path.exists() => return None,
        None => None,
    };
    let refused = |error: &std::io::Error| Some(Loss::Refused { detail: error.to_string() });
    let opened =
        host_files::open(path).and_then(|file| file.metadata().map(|about| (file, about.len())));
    let (opened, found) = match opened {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound => return Some(Loss::Missing),
        Err(error) => return refused(&error),
    };
    if let Some(recorded) = recorded.filter(|recorded| *recorded != found) {
        return Some(Loss::WrongLength { found, recorded });
    }
    let read = match file {
        CaseFile::Samples => match SampleReader::of(path, opened) {
            Ok(samples) => match queries.filter(|queries| *queries != samples.len() as u64) {
                Some(queries) => {
                    let found = samples.len();
                    let detail = format!("it has {found} measured queries instead of {queries}");
                    return Some(Loss::Unreadable { detail });
                }
                None => Ok(()),
            },
            Err(error) => Err(error),
        },
        CaseFile::Outputs | CaseFile::Labels | CaseFile::Profile | CaseFile::DeviceStates => {
            read_file(path, opened, SerializedFileReader::new).map(drop)
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
