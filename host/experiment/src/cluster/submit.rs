//! Submitting: the script of tasks, and the options of `sbatch`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use host_manifest::Execution;
use host_slurm::Submission;

use super::error::ClusterError;
use super::state::{Kind, State};
use crate::error::{Error, Result};
use crate::settings::Settings;

/// Exit code of a task whose node has another architecture than the host's executable.
const OTHER_ARCHITECTURE: i32 = 66;
/// Exit code of a task whose node does not see the run folder.
const NO_FOLDER: i32 = 67;
/// Exit code of a task whose node does not see the host's executable.
const NO_HOST: i32 = 68;

/// Submits tasks of one run.
#[derive(Debug)]
pub(crate) struct Submitter {
    run: PathBuf,
    name: String,
    execution: Execution,
}

impl Submitter {
    /// Prepares: checks that the partitions are there, and writes the script that all tasks run.
    pub(crate) fn prepare(run: &Path, execution: &Execution, settings: &Settings) -> Result<Self> {
        let run = run.canonicalize().map_err(|error| Error::io("find", run, error))?;
        let host = std::env::current_exe().ok().or_else(|| settings.host());
        let host = host.ok_or_else(|| Error::NoWorker { name: "host".into() })?;
        let folder = State::folder(&run);
        let logs = folder.join("log");
        fs::create_dir_all(&logs).map_err(|error| Error::io("create", &logs, error))?;
        let script = folder.join("task.sh");
        let text = script_text(&run, &host, execution, settings);
        fs::write(&script, text).map_err(|error| Error::io("write", &script, error))?;
        let id = run.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name: format!("tare-{id}"), run, execution: execution.clone() })
    }

    /// Submits a task for each number; without any, a single job that gathers facts.
    pub(crate) fn submit(
        &self,
        kind: &Kind,
        arguments: Vec<String>,
        tasks: Vec<u64>,
    ) -> Result<u64> {
        let folder = State::folder(&self.run);
        let pattern = if tasks.is_empty() { "%j.txt" } else { "%A_%a.txt" };
        let execution = &self.execution;
        let submission = Submission {
            name: self.name.clone(),
            script: folder.join("task.sh"),
            arguments,
            array_limit: execution.array_limit,
            output: folder.join("log").join(pattern),
            partition: kind.partition.clone(),
            account: execution.account.clone(),
            constraint: kind.constraint.clone(),
            gres: execution.gres.clone(),
            time: execution.time_ns.map(Duration::from_nanos),
            exclusive: execution.exclusive && !tasks.is_empty(),
            options: execution.options.clone(),
            tasks,
        };
        Ok(host_slurm::submit(&submission).map_err(ClusterError::from)?)
    }

    /// Returns what is asked for beside the kind of node.
    pub(crate) fn asked(&self) -> (Option<&String>, &[String], &str) {
        let Execution { gres, options, prologue, .. } = &self.execution;
        (gres.as_ref(), options, prologue)
    }

    /// Returns the last lines of a task's log, in one line; empty if there is none.
    pub(crate) fn log(&self, job: u64, task: Option<u64>) -> String {
        let name = match task {
            Some(task) => format!("{job}_{task}.txt"),
            None => format!("{job}.txt"),
        };
        let path = State::folder(&self.run).join("log").join(name);
        let text = host_files::read(&path, 1 << 20).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(6)..].join(" ")
    }
}

/// Checks that the partitions are there.
pub(crate) fn check_partitions(execution: &Execution) -> Result<(), ClusterError> {
    // Also without a partition: it tells whether Slurm answers at all.
    let known = host_slurm::partitions()?;
    match execution.partitions.iter().find(|name| !known.contains(name)) {
        Some(name) => Err(ClusterError::NoPartition { name: name.clone(), known }),
        None => Ok(()),
    }
}

/// Says why a task ended before it wrote anything, from its exit code.
pub(crate) fn early_end(ended: &host_slurm::Ended, log: &str) -> String {
    let on = |what: &str| match ended.node.as_str() {
        "" => what.to_owned(),
        node => format!("{what} on node {node}"),
    };
    match ended.code {
        Some(OTHER_ARCHITECTURE) => log.to_owned(),
        Some(NO_FOLDER) => {
            on("the run folder is not there")
                + ": results must lie on a file system that all nodes share"
        }
        Some(NO_HOST) => {
            on("the executable of host is not there") + ": install it where all nodes see it"
        }
        _ if log.is_empty() => {
            on(&format!("the task ended ({}) and left nothing, not even a log", words(ended)))
                + ": is the results folder on a file system that the node shares?"
        }
        _ => on(&format!("the task ended ({})", words(ended))) + ": " + log,
    }
}

/// Names the end of a task: Slurm's word, and the exit code or signal.
pub(crate) fn words(ended: &host_slurm::Ended) -> String {
    let meaning = match ended.state.as_str() {
        "TIMEOUT" => ", its time limit was over",
        "OUT_OF_MEMORY" => ", it used more memory than its allocation has",
        "NODE_FAIL" => ", its node failed",
        "PREEMPTED" => ", another job took its node",
        "DEADLINE" => ", its deadline was over",
        "BOOT_FAIL" => ", its node did not boot",
        _ => "",
    };
    let mut text = format!("{}{meaning}", ended.state);
    if let Some(signal) = ended.signal {
        // Slurm's own mark of a process that the kernel killed for its memory.
        let by = if signal == 125 { "memory limit".to_owned() } else { format!("signal {signal}") };
        let _ = write!(text, ", {by}");
    } else if let Some(code @ 1..) = ended.code {
        let _ = write!(text, ", exit code {code}");
    }
    text
}

fn script_text(run: &Path, host: &Path, execution: &Execution, settings: &Settings) -> String {
    let mut options = String::new();
    for folder in &settings.plugins {
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
        let _ = write!(options, " --plugins {}", word(&folder.display().to_string()));
    }
    for (id, path) in &settings.runtimes {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let _ = write!(options, " --runtime {}", word(&format!("{id}={}", path.display())));
    }
    let architecture = std::env::consts::ARCH;
    let run = word(&run.display().to_string());
    let host = word(&host.display().to_string());
    let prologue = &execution.prologue;
    // Commands such as `module`, which a prologue may use, are functions of Bash.
    format!(
        "#!/bin/bash\n\
         # Written by host: a task of the run. The arguments say what it does.\n\
         run={run}\n\
         host={host}\n\
         if [ \"$(uname -m)\" != {architecture} ]; then\n\
         \x20 echo \"node ${{SLURMD_NODENAME:-}} is $(uname -m), and host was built for {architecture}\"\n\
         \x20 exit {OTHER_ARCHITECTURE}\n\
         fi\n\
         [ -f \"$run/run.json\" ] || exit {NO_FOLDER}\n\
         [ -x \"$host\" ] || exit {NO_HOST}\n\
         {prologue}\n\
         exec \"$host\" --quiet{options} run-part \"$run\" \"$@\"\n"
    )
}

/// Returns a text as one word of a shell.
fn word(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_task_is_named() {
        let ended = |state: &str, code, signal| host_slurm::Ended {
            state: state.into(),
            reason: String::new(),
            node: "n1".into(),
            code,
            signal,
        };
        assert_eq!(
            words(&ended("OUT_OF_MEMORY", None, Some(125))),
            "OUT_OF_MEMORY, it used more memory than its allocation has, memory limit"
        );
        assert_eq!(words(&ended("TIMEOUT", Some(0), None)), "TIMEOUT, its time limit was over");
        assert_eq!(
            early_end(&ended("FAILED", Some(67), None), ""),
            "the run folder is not there on node n1: results must lie on a file system that all nodes share"
        );
        assert!(
            early_end(&ended("FAILED", Some(1), None), "module: not found")
                .ends_with("module: not found")
        );
    }

    #[test]
    fn paths_with_quotes_are_one_word() {
        assert_eq!(word("it's"), "'it'\\''s'");
    }
}
