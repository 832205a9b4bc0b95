//! The state of a run on a cluster, kept in its folder.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use host_manifest::Execution;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::error::{Error, Result};

/// A kind of node: what is asked for when a task is submitted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Kind {
    pub(crate) partition: Option<String>,
    pub(crate) constraint: Option<String>,
}

impl Kind {
    /// Returns the kinds that a manifest names: each partition with each constraint.
    pub(crate) fn of(execution: &Execution) -> Vec<Self> {
        let alternatives = |names: &[String]| -> Vec<Option<String>> {
            if names.is_empty() { vec![None] } else { names.iter().cloned().map(Some).collect() }
        };
        let mut kinds = Vec::new();
        for partition in alternatives(&execution.partitions) {
            for constraint in alternatives(&execution.constraints) {
                kinds.push(Self { partition: partition.clone(), constraint });
            }
        }
        kinds
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.partition, &self.constraint) {
            (None, None) => write!(formatter, "the default partition"),
            (Some(partition), None) => write!(formatter, "the partition `{partition}`"),
            (None, Some(features)) => write!(formatter, "the default partition with `{features}`"),
            (Some(partition), Some(features)) => {
                write!(formatter, "the partition `{partition}` with `{features}`")
            }
        }
    }
}

/// A job that was submitted: an array with a task for each block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Job {
    pub(crate) job: u64,
    /// The first block's number less its task's: numbers of tasks are limited, and those of blocks are not.
    pub(crate) offset: u64,
    pub(crate) blocks: Vec<u64>,
}

/// `slurm/state.json`: all that another host needs to go on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct State {
    /// Version of this file.
    pub(crate) version: u32,
    /// Kinds of nodes.
    pub(crate) kinds: Vec<Kind>,
    /// The kind of each block's node.
    pub(crate) blocks: Vec<usize>,
    /// Jobs, in the order in which they were submitted.
    pub(crate) jobs: Vec<Job>,
}

impl State {
    /// The version that this host writes.
    pub(crate) const VERSION: u32 = 1;

    /// Returns the state of a run that begins.
    pub(crate) fn begin(execution: &Execution) -> Self {
        Self { version: Self::VERSION, kinds: Kind::of(execution), ..Self::default() }
    }

    /// Returns the folder of a run's state, scripts and logs.
    pub(crate) fn folder(run: &Path) -> PathBuf {
        run.join("slurm")
    }

    fn path(run: &Path) -> PathBuf {
        Self::folder(run).join("state.json")
    }

    /// Reads the state; `None` if the run was not submitted to a cluster. One that a newer host wrote is refused.
    pub(crate) fn read(run: &Path) -> Result<Option<Self>> {
        let state: Option<Self> = read_json(&Self::path(run))?;
        if let Some(Self { version, .. }) = &state
            && *version > Self::VERSION
        {
            let detail = format!(
                "it has version {version}, and this host reads {} and older: use the host that wrote it, or a newer one",
                Self::VERSION
            );
            return Err(Error::io("read", &Self::path(run), std::io::Error::other(detail)));
        }
        Ok(state)
    }

    /// Keeps the state: after each submission, so that no job is forgotten.
    pub(crate) fn write(&self, run: &Path) -> Result<()> {
        write_json(&Self::path(run), self)
    }

    /// Returns the job and the task that a block was submitted in last.
    pub(crate) fn task_of(&self, block: u64) -> Option<(u64, u64)> {
        let job = self.jobs.iter().rev().find(|job| job.blocks.contains(&block))?;
        Some((job.job, block - job.offset))
    }
}

/// Reads a JSON file; `None` if there is none.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("read", path, error)),
    };
    serde_json::from_slice(&text).map(Some).map_err(|error| Error::io("read", path, error.into()))
}

/// Writes a JSON file so that it is there as a whole or not at all.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let io = |error| Error::io("write", path, error);
    let beside = path.with_extension("partial");
    let text = serde_json::to_vec(value).map_err(|error| io(error.into()))?;
    fs::write(&beside, text).map_err(io)?;
    fs::File::open(&beside).and_then(|file| file.sync_all()).map_err(io)?;
    fs::rename(&beside, path).map_err(io)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_partition_with_each_constraint_is_a_kind_of_node() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let execution = Execution {
            partitions: names(&["a", "b"]),
            constraints: names(&["x", "y"]),
            ..Execution::default()
        };
        assert_eq!(Kind::of(&execution).len(), 4);
        assert_eq!(Kind::of(&Execution::default()), [Kind::default()]);
    }

    #[test]
    fn a_state_of_a_newer_host_is_refused() {
        let run = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(State::folder(run.path())).expect("a folder");
        assert_eq!(State::read(run.path()).expect("no state"), None);
        let mut state = State::begin(&Execution::default());
        state.write(run.path()).expect("the folder is writable");
        assert_eq!(State::read(run.path()).expect("a state"), Some(state.clone()));
        state.version += 1;
        state.write(run.path()).expect("the folder is writable");
        let error = State::read(run.path()).expect_err("it is newer").to_string();
        assert!(error.contains("state.json"), "{error}");
    }

    #[test]
    fn the_last_job_of_a_block_counts() {
        let job = |job, offset, blocks: &[u64]| Job { job, offset, blocks: blocks.to_vec() };
        let jobs = vec![job(7, 0, &[0, 1, 2]), job(8, 1000, &[1001]), job(9, 0, &[1])];
        let state = State { jobs, ..State::default() };
        assert_eq!(state.task_of(1), Some((9, 1)));
        assert_eq!(state.task_of(2), Some((7, 2)));
        assert_eq!(state.task_of(1001), Some((8, 1)));
        assert_eq!(state.task_of(5), None);
    }
}
