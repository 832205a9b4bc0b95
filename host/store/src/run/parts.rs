/*!
Parts of a run that tasks of a cluster write.

A part is a run folder in the run folder: `parts/BLOCK.ATTEMPT`, with a journal and the files of its cases. The task that
creates the folder is its only writer, so any number of tasks write at the same time without a lock, which file systems of
clusters may not have. The host that follows the run puts parts into the run's own journal ([`RunWriter::adopt`]), as
often as it likes: what is there already is passed over.
*/

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use host_record::{Allocation, CaseRecord, CaseSpec, Environment};
use serde::{Deserialize, Serialize};

use super::durable::{make_folder, write_json};
use super::folder::{JournalRecords, RunFolder, read_json};
use super::header::{now, rfc3339};
use super::journal::{Files, JournalLine};
use super::layout::Layout;
use super::writer::RunWriter;
use crate::error::StoreError;
use crate::platform::sync_folder;

/// An attempt at a block of cases, by one task.
#[derive(Debug, Clone)]
pub struct RunPart {
    /// The block.
    pub block: u64,
    /// The attempt, from 0.
    pub attempt: u32,
    /// Its folder.
    pub folder: RunFolder,
}

/// A case that a task began: a line of `started.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct StartedCase {
    /// The case's id; of a pair, that of its first side.
    pub case_id: String,
    /// The process.
    pub process: u32,
    /// The time, RFC 3339 in UTC.
    pub started_at: String,
}

/// How a task ended before its block did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PartEnd {
    /// One word: `TERMINATED` if the task was asked to end, `REFUSED` if it could not begin, or the engine's word.
    pub state: String,
    /// The reason, in words.
    pub detail: String,
}

impl RunFolder {
    fn part_folder(&self, block: u64, attempt: u32) -> PathBuf {
        self.layout.parts().join(format!("{block}.{attempt}"))
    }

    /// Returns the attempts at a block, in order. One whose task has not written its header yet is left out.
    ///
    /// # Errors
    ///
    /// If a folder cannot be read.
    pub fn attempts(&self, block: u64) -> Result<Vec<RunPart>, StoreError> {
        let mut attempts = Vec::new();
        for attempt in 0.. {
            let path = self.part_folder(block, attempt);
            if !path.is_dir() {
                break;
            }
            if path.join("run.json").is_file() {
                attempts.push(RunPart { block, attempt, folder: Self::open(&path)? });
            }
        }
        Ok(attempts)
    }

    /// Begins the next attempt at a block.
    ///
    /// # Errors
    ///
    /// If the file system refuses.
    pub fn begin_part(
        &self,
        block: u64,
        allocation: &Allocation,
        environment: Environment,
    ) -> Result<(RunWriter, u32), StoreError> {
        let parts = self.layout.parts();
        make_folder(&parts)?;
        for attempt in 0.. {
            let root = self.part_folder(block, attempt);
            match fs::create_dir(&root) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(StoreError::io("create", &root)(error)),
            }
            let mut header = self.header().clone();
            header.run_id = format!("{block}.{attempt}");
            header.started_at = rfc3339(now());
            header.environment = environment;
            let layout = Layout { root };
            let allocation = Allocation { attempt, ..allocation.clone() };
            write_json(&layout.root.join("task.json"), &allocation)?;
            write_json(&layout.header(), &header)?;
            sync_folder(&parts).map_err(StoreError::io("write", &parts))?;
            let folder = Self { layout, header, ended: None };
            return Ok((RunWriter::without_lock(folder)?, attempt));
        }
        unreachable!("there is always another number")
    }

    /// Removes all parts: the run's own journal has everything.
    ///
    /// # Errors
    ///
    /// If the file system refuses.
    pub fn remove_parts(&self) -> Result<(), StoreError> {
        let parts = self.layout.parts();
        match fs::remove_dir_all(&parts) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(StoreError::io("remove", &parts)(error))
            }
            _ => Ok(()),
        }
    }
}

impl RunPart {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the node, job and task.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn allocation(&self) -> Result<Allocation, StoreError> {
        Ok(read_json(&self.path("task.json"), |_| 0)?.unwrap_or_default())
    }

    /// Returns the cases that it began, in order.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn started(&self) -> Result<Vec<StartedCase>, StoreError> {
        let path = self.path("started.jsonl");
        let text = match host_files::read_to_string(&path, 64 << 20) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StoreError::unread(&path)(error)),
        };
        // A crash may have cut the last line short; its case had then not begun.
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// Returns how the task itself said that it ended early.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn left(&self) -> Result<Option<PartEnd>, StoreError> {
        read_json(&self.path("left.json"), |_| 0)
    }

    /// Returns how the engine said that the task ended early.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn end(&self) -> Result<Option<PartEnd>, StoreError> {
        read_json(&self.path("end.json"), |_| 0)
    }

    /// Records how the engine said that the task ended. For the host that follows the run, when the task is over.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn record_end(&self, end: &PartEnd) -> Result<(), StoreError> {
        write_json(&self.path("end.json"), end)
    }

    /// Returns the length of its journal, which grows with each process of a case.
    #[must_use]
    pub fn length(&self) -> u64 {
        fs::metadata(self.folder.layout.journal()).map_or(0, |it| it.len())
    }

    /// Returns the processes of cases that are recorded with all their files.
    ///
    /// # Errors
    ///
    /// If a file cannot be read.
    pub fn records(&self) -> Result<Vec<CaseRecord>, StoreError> {
        let lost: HashSet<String> =
            self.folder.lost_files()?.into_iter().map(|lost| lost.case_id).collect();
        let mut records = Vec::new();
        for record in JournalRecords::open(&self.folder.layout)? {
            let record = record?;
            if !lost.contains(&record.case_id) {
                records.push(record);
            }
        }
        Ok(records)
    }
}

impl RunWriter {
    /// Records that the task of this part ended early, and why.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn leave(&self, end: &PartEnd) -> Result<(), StoreError> {
        write_json(&self.folder().path().join("left.json"), end)
    }

    /// Records that a case begins, for the attempts after this one.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn note_start(folder: &Path, case: &CaseSpec) -> Result<(), StoreError> {
        let path = folder.join("started.jsonl");
        let started = StartedCase {
            case_id: case.id.clone(),
            process: case.process,
            started_at: rfc3339(now()),
        };
        let mut line = serde_json::to_string(&started)
            .map_err(|error| StoreError::io("write", &path)(error.into()))?;
        line.push('\n');
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(line.as_bytes()).and_then(|()| file.sync_data()))
            .map_err(StoreError::io("write", &path))
    }

    /// Takes over the processes of cases of a part that this run does not have yet, with their files. Returns them.
    /// `keep` leaves out those that are of no use alone.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or written.
    pub fn adopt(
        &mut self,
        part: &RunPart,
        keep: impl FnOnce(Vec<CaseRecord>) -> Vec<CaseRecord>,
    ) -> Result<Vec<CaseRecord>, StoreError> {
        let mut taken = keep(part.records()?);
        taken.retain(|record| !self.is_recorded(&record.case_id, record.process));
        if taken.is_empty() {
            return Ok(taken);
        }
        let mut folders = BTreeSet::new();
        for record in &taken {
            let name = record.part();
            let to = self.folder().layout.case_files(&name);
            for (from, to) in part.folder.layout.case_files(&name).iter().zip(&to) {
                if from.is_file() {
                    let folder = to.parent().unwrap_or(Path::new("."));
                    if folders.insert(folder.to_owned()) {
                        make_folder(folder)?;
                    }
                    link(from, to)?;
                }
            }
        }
        for folder in &folders {
            sync_folder(folder).map_err(StoreError::io("write", folder))?;
        }
        for record in &taken {
            let mut record = record.clone();
            // It is in its own file.
            record.standard_error.clear();
            let files = match &record.outcome {
                host_record::Outcome::Gap { .. } => None,
                _ => Some(Files::of(&self.folder().layout, &record.part())?),
            };
            self.append(&JournalLine { record: &record, files })?;
            self.add(record);
        }
        self.sync_journal()?;
        Ok(taken)
    }
}

/// Gives a file a second name, or copies it where the file system has no such names.
fn link(from: &Path, to: &Path) -> Result<(), StoreError> {
    match fs::remove_file(to) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(StoreError::io("remove", to)(error));
        }
        _ => {}
    }
    if fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    fs::copy(from, to).map_err(StoreError::io("write", to))?;
    OpenOptions::new()
        .write(true)
        .open(to)
        .and_then(|file| file.sync_all())
        .map_err(StoreError::io("write", to))
}
