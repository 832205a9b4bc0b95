//! Starting and continuing a run.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use host_hash::sha256;

use super::durable::{write_json, write_whole};
use super::folder::RunFolder;
use super::header::{NewRun, RunHeader, now, rfc3339, run_id};
use super::layout::Layout;
use super::links::refuse_link;
use super::writer::RunWriter;
use crate::error::StoreError;

impl RunFolder {
    /// Creates the folder of a new run in `results/runs`, and opens it for writing.
    ///
    /// # Errors
    ///
    /// If the file system refuses, or the folder's name is not UTF-8. Nothing of the run is then left.
    pub fn create(results: &Path, run: NewRun) -> Result<RunWriter, StoreError> {
        let place = std::path::absolute(results).map_err(StoreError::io("find", results))?;
        if place.to_str().is_none() {
            return Err(StoreError::NotUnicode { path: place });
        }
        let runs = results.join("runs");
        refuse_link(&runs)?;
        fs::create_dir_all(&runs).map_err(StoreError::io("create", &runs))?;
        let started = now();
        let (run_id, root) = claim(&runs, started, &run.experiment)?;
        let layout = Layout { root };
        let header = RunHeader {
            record_version: host_record::RECORD_VERSION,
            run_id,
            experiment: run.experiment,
            description: run.description,
            started_at: rfc3339(started),
            host_version: run.host_version,
            manifest_path: run.manifest_path,
            manifest_sha256: sha256(run.manifest_text.as_bytes()),
            plugins: run.plugins,
            programs: run.programs,
            environment: run.environment,
        };
        let root = layout.root.clone();
        let made = Self { layout, header, ended: None }.fill(&runs, &run.manifest_text);
        if made.is_err() {
            // It was not visible yet, and a partial run would be in the way. If this fails too, the list of runs
            // shows the leftover.
            drop(fs::remove_dir_all(root));
        }
        made
    }

    /// Writes the first contents of a new run's folder.
    fn fill(self, runs: &Path, manifest: &str) -> Result<RunWriter, StoreError> {
        let writer = RunWriter::lock(self)?;
        let layout = &writer.folder().layout;
        write_whole(&layout.manifest(), manifest.as_bytes())?;
        // The header comes last: a folder without it is not a run.
        write_json(&layout.header(), &writer.folder().header)?;
        crate::platform::sync_folder(runs).map_err(StoreError::io("write", runs))?;
        tracing::debug!(folder = %layout.root.display(), "run folder made");
        Ok(writer)
    }

    /// Opens a run folder for writing, to add results: takes the lock.
    ///
    /// # Errors
    ///
    /// As [`RunFolder::open`]; also if another host is writing the run.
    pub fn open_to_amend(path: &Path) -> Result<RunWriter, StoreError> {
        RunWriter::lock(Self::open(path)?)
    }

    /// Opens a run folder for writing, to continue an interrupted run: takes the lock, cuts off torn lines, and drops
    /// files of a case that was never recorded. [`RunWriter::is_recorded`] tells which cases are done.
    ///
    /// # Errors
    ///
    /// As [`RunFolder::open`]; also if another host is writing the run, or its journal is
    /// damaged.
    pub fn open_to_resume(path: &Path) -> Result<RunWriter, StoreError> {
        let writer = RunWriter::lock(Self::open(path)?)?;
        writer.drop_leftovers()?;
        Ok(writer)
    }
}

/// Claims an unused name by creating the folder, so two hosts that start at once cannot claim the same one.
fn claim(
    runs: &Path,
    started: jiff::Timestamp,
    experiment: &str,
) -> Result<(String, PathBuf), StoreError> {
    let mut attempt = 0;
    loop {
        let id = run_id(started, experiment, salt());
        let path = runs.join(&id);
        match fs::create_dir(&path) {
            Ok(()) => return Ok((id, path)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && attempt < 100 => attempt += 1,
            Err(error) => return Err(StoreError::io("create", &path)(error)),
        }
    }
}

/// Returns a number that differs from call to call and process to process. The standard library's
/// hash maps are seeded by the operating system, so no crate for random numbers is needed.
fn salt() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}
