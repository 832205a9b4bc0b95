//! The folder that holds run folders and the database.

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use host_record::{Cell, Table};

use crate::error::StoreError;
use crate::run::{
    Counts, Layout, LostFile, RunFinished, RunFolder, RunHeader, TornLine, is_locked, refuse_link,
};

/// Name of the database file in a results folder.
pub const DATABASE_FILE: &str = "tare.duckdb";

/// A results folder, such as `./results`: run folders in `runs/`, and one DuckDB file.
#[derive(Debug, Clone)]
pub struct ResultsFolder {
    root: PathBuf,
}

/// Progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// Nothing is left to do.
    Finished,
    /// A host is writing it now.
    Running,
    /// Interrupted; `host run --resume` continues it.
    Interrupted,
}

impl RunState {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Running => "running",
            Self::Interrupted => "interrupted",
        }
    }
}

/// A run in a list.
#[derive(Debug, Clone)]
pub struct RunEntry {
    /// Its folder.
    pub path: PathBuf,
    /// Facts known at its start.
    pub header: RunHeader,
    /// Its progress.
    pub state: RunState,
    /// End of the run.
    pub finished: Option<RunFinished>,
    /// Planned cases, including gaps.
    pub planned: u64,
    /// Outcomes of the cases recorded so far.
    pub counts: Counts,
    /// Lines truncated by a crash.
    pub torn: Vec<TornLine>,
}

/// A run in a list that cannot be read.
#[derive(Debug)]
pub struct DamagedRun {
    /// Its folder.
    pub path: PathBuf,
    /// The folder's name, which is the run's id.
    pub run_id: String,
    /// Reason why it cannot be read.
    pub error: StoreError,
}

impl DamagedRun {
    /// The name of its state.
    pub const STATE: &str = "damaged";
}

impl ResultsFolder {
    /// Creates a reference to a results folder, which need not exist yet.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Returns its database file.
    #[must_use]
    pub fn database_path(&self) -> PathBuf {
        self.root.join(DATABASE_FILE)
    }

    /// Returns the folders of all runs, oldest first. A folder without `run.json` and without a
    /// case in its journal is not a run; a journal alone is a run that cannot be read.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read; one that does not exist has no runs.
    pub fn run_paths(&self) -> Result<Vec<PathBuf>, StoreError> {
        let mut paths = self.folders()?;
        paths.retain(|path| is_run(path));
        Ok(paths)
    }

    /// Returns the folders in `runs/` that are not runs: leftovers of a host that was killed while it created one. A
    /// folder that is being created now is not included.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub fn half_made(&self) -> Result<Vec<PathBuf>, StoreError> {
        let mut paths = self.folders()?;
        paths.retain(|path| {
            // A lock that cannot be read counts as not held.
            let layout = Layout { root: path.clone() };
            !is_run(path) && !is_locked(&layout).unwrap_or(false)
        });
        Ok(paths)
    }

    fn folders(&self) -> Result<Vec<PathBuf>, StoreError> {
        let runs = self.root.join("runs");
        refuse_link(&runs)?;
        let entries = match fs::read_dir(&runs) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StoreError::io("read", &runs)(error)),
        };
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry.map_err(StoreError::io("read", &runs))?.path();
            if path.is_dir() {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths)
    }

    /// Returns the files that finished cases of any run no longer have. A run that cannot be read has
    /// none: the list of runs reports it.
    ///
    /// # Errors
    ///
    /// If the results folder itself cannot be read.
    pub fn lost_files(&self) -> Result<Vec<LostFile>, StoreError> {
        let mut lost = Vec::new();
        for path in self.run_paths()? {
            let found = RunFolder::open(&path).and_then(|folder| folder.lost_files());
            lost.extend(found.unwrap_or_default());
        }
        Ok(lost)
    }

    /// Returns the folder of a run, by its id, a part of the id that fits no other run, `latest`,
    /// or a path to the folder.
    ///
    /// # Errors
    ///
    /// If no run or more than one fits.
    pub fn find(&self, name: &str) -> Result<PathBuf, StoreError> {
        let as_path = Path::new(name);
        if as_path.components().count() > 1 || as_path.is_absolute() {
            return if as_path.join("run.json").is_file() {
                Ok(as_path.to_owned())
            } else {
                Err(StoreError::NotARun { path: as_path.to_owned() })
            };
        }
        let paths = self.run_paths()?;
        let id = |path: &PathBuf| folder_name(path);
        if name == "latest"
            && let Some(path) = paths.last()
        {
            return Ok(path.clone());
        }
        if let Some(path) = paths.iter().find(|path| id(path) == name) {
            return Ok(path.clone());
        }
        let fits = |path: &&PathBuf| !name.is_empty() && id(path).contains(name);
        let mut fitting: Vec<_> = paths.iter().filter(fits).collect();
        match fitting.len() {
            1 => Ok(fitting.remove(0).clone()),
            0 if as_path.join("run.json").is_file() => Ok(as_path.to_owned()),
            0 => Err(StoreError::NoSuchRun {
                name: name.into(),
                results: self.root.clone(),
                newest: paths.iter().rev().take(5).map(id).collect(),
            }),
            _ => Err(StoreError::AmbiguousRun {
                name: name.into(),
                candidates: fitting.into_iter().map(id).collect(),
            }),
        }
    }

    /// Returns all runs, oldest first; an unreadable one does not hide the others.
    ///
    /// # Errors
    ///
    /// If the results folder itself cannot be read.
    pub fn list(&self) -> Result<Vec<Result<RunEntry, DamagedRun>>, StoreError> {
        let damaged = |path: PathBuf, error| DamagedRun { run_id: folder_name(&path), path, error };
        let list = |path: PathBuf| entry(&path).map_err(|error| damaged(path, error));
        Ok(self.run_paths()?.into_iter().map(list).collect())
    }
}

/// Returns whether it is a run. A folder without a header is one if cases were recorded in it.
fn is_run(path: &Path) -> bool {
    let layout = Layout { root: path.to_owned() };
    layout.header().is_file() || fs::metadata(layout.journal()).is_ok_and(|file| file.len() > 0)
}

pub(crate) fn folder_name(path: &Path) -> String {
    match path.components().next_back() {
        Some(Component::Normal(name)) => name.to_string_lossy().into_owned(),
        _ => String::new(),
    }
}

fn entry(path: &Path) -> Result<RunEntry, StoreError> {
    let folder = RunFolder::open(path)?;
    let finished = folder.finished()?;
    let (state, planned, counts) = match &finished {
        Some(finished) => (RunState::Finished, finished.counts.cases(), finished.counts),
        None => {
            let mut counts = Counts::default();
            for record in folder.records()? {
                counts.add(&record?.outcome);
            }
            let running = is_locked(&folder.layout)?;
            let state = if running { RunState::Running } else { RunState::Interrupted };
            (state, folder.plan()?.count() as u64, counts)
        }
    };
    let (path, header, torn) = (path.to_owned(), folder.header().clone(), folder.torn_lines()?);
    Ok(RunEntry { path, header, state, finished, planned, counts, torn })
}

/// Returns a list of runs as a table: run, experiment, started, state, planned cases, and how many
/// of them finished, failed, and were gaps. For a damaged run, only its id and state are known.
#[must_use]
pub fn list_table(entries: &[Result<RunEntry, DamagedRun>]) -> Table {
    let columns =
        ["run_id", "experiment", "started_at", "state", "cases", "finished", "failed", "gaps"];
    let count = |value: u64| Cell::Integer(i64::try_from(value).unwrap_or(i64::MAX));
    let row = |entry: &Result<RunEntry, DamagedRun>| match entry {
        Ok(entry) => vec![
            Cell::Text(entry.header.run_id.clone()),
            Cell::Text(entry.header.experiment.clone()),
            Cell::Text(entry.header.started_at.clone()),
            Cell::Text(entry.state.name().into()),
            count(entry.planned),
            count(entry.counts.finished),
            count(entry.counts.failed),
            count(entry.counts.gaps),
        ],
        Err(damaged) => {
            let mut row = vec![Cell::Null; columns.len()];
            row[0] = Cell::Text(damaged.run_id.clone());
            row[3] = Cell::Text(DamagedRun::STATE.into());
            row
        }
    };
    Table { columns: columns.map(str::to_owned).into(), rows: entries.iter().map(row).collect() }
}
