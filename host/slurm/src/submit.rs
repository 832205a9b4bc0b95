//! Submitting and cancelling.

use std::path::PathBuf;
use std::time::Duration;

use crate::Result;
use crate::command::output;
use crate::error::SlurmError;

/// A script to run in an array of tasks, or once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Submission {
    /// Name of the job in the queue.
    pub name: String,
    /// The script.
    pub script: PathBuf,
    /// Arguments of the script.
    pub arguments: Vec<String>,
    /// Numbers of the tasks; empty for a job without an array.
    pub tasks: Vec<u64>,
    /// The most tasks that run at the same time.
    pub array_limit: Option<u64>,
    /// Pattern of the file for the standard output and error of tasks.
    pub output: PathBuf,
    /// The partition; `None` for the cluster's default.
    pub partition: Option<String>,
    /// The account.
    pub account: Option<String>,
    /// Features of the node.
    pub constraint: Option<String>,
    /// Generic resources.
    pub gres: Option<String>,
    /// Time limit.
    pub time: Option<Duration>,
    /// Whether the node is for this job alone.
    pub exclusive: bool,
    /// Further options.
    pub options: Vec<String>,
}

impl Submission {
    /// Returns the arguments of `sbatch`.
    #[must_use]
    pub fn command_line(&self) -> Vec<String> {
        let mut line = vec![
            "--parsable".to_owned(),
            "--requeue".to_owned(),
            "--nodes=1".to_owned(),
            "--open-mode=append".to_owned(),
            format!("--job-name={}", self.name),
            format!("--output={}", self.output.display()),
        ];
        if !self.tasks.is_empty() {
            let limit = self.array_limit.map(|limit| format!("%{limit}")).unwrap_or_default();
            line.push(format!("--array={}{limit}", ranges(&self.tasks)));
        }
        let named = [
            ("partition", &self.partition),
            ("account", &self.account),
            ("constraint", &self.constraint),
            ("gres", &self.gres),
        ];
        for (name, value) in named {
            line.extend(value.as_ref().map(|value| format!("--{name}={value}")));
        }
        if let Some(time) = self.time {
            // Slurm counts in minutes, and takes seconds for writing.
            let seconds = time.as_secs().max(1);
            line.push(format!("--time={}:{:02}", seconds / 60, seconds % 60));
        }
        if self.exclusive {
            // A node of one's own has its memory as well, which Slurm grants only if it is asked for. `options` may say another.
            line.extend(["--exclusive", "--mem=0"].map(str::to_owned));
        }
        line.extend(self.options.iter().cloned());
        line.push(self.script.display().to_string());
        line.extend(self.arguments.iter().cloned());
        line
    }
}

/// Writes numbers as `sbatch` takes them: `0-3,7`.
fn ranges(numbers: &[u64]) -> String {
    let mut text = String::new();
    let mut rest = numbers;
    while let [first, ..] = rest {
        let mut length = 1;
        while rest.get(length) == Some(&(first + length as u64)) {
            length += 1;
        }
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&first.to_string());
        if length > 1 {
            text.push_str(&format!("-{}", first + length as u64 - 1));
        }
        rest = &rest[length..];
    }
    text
}

/// Submits, and returns the job's id.
///
/// # Errors
///
/// If Slurm refuses or does not answer.
pub fn submit(submission: &Submission) -> Result<u64> {
    let answer = output("sbatch", &submission.command_line())?;
    let line = answer.trim();
    // A federated cluster adds its name: `17;cluster`.
    let id = line.split(';').next().unwrap_or_default();
    id.parse().map_err(|_| SlurmError::Answer {
        program: "sbatch",
        answer: line.to_owned(),
        expected: "the number of a job",
    })
}

/// Cancels jobs with all their tasks. One that has ended is no error.
///
/// # Errors
///
/// If Slurm refuses or does not answer.
pub fn cancel(jobs: &[u64]) -> Result<()> {
    if jobs.is_empty() {
        return Ok(());
    }
    let jobs: Vec<String> = jobs.iter().map(ToString::to_string).collect();
    match output("scancel", &jobs) {
        Err(SlurmError::Refused { message, .. }) if message.contains("Invalid job id") => Ok(()),
        ended => ended.map(drop),
    }
}

/// Returns the number of tasks that an array may have, whose numbers are below it.
///
/// # Errors
///
/// If Slurm does not answer, or does not say it.
pub fn largest_array() -> Result<u64> {
    let text = output("scontrol", &["show".into(), "config".into()])?;
    let value = text.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "MaxArraySize").then(|| value.trim().parse().ok())?
    });
    value.ok_or_else(|| SlurmError::Answer {
        program: "scontrol show config",
        answer: text.lines().next().unwrap_or_default().to_owned(),
        expected: "a configuration with MaxArraySize",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_a_row_are_a_range() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(ranges(&[4]), "4");
    }

    #[test]
    fn a_submission_becomes_options() {
        let submission = Submission {
            name: "it".into(),
            script: "/run/task.sh".into(),
            arguments: vec!["0".into()],
            tasks: vec![0, 1],
            array_limit: Some(1),
            output: "/run/log/%a".into(),
            partition: Some("gpu".into()),
            time: Some(Duration::from_secs(90)),
            exclusive: true,
            options: vec!["--qos=long".into()],
            ..Submission::default()
        };
        assert_eq!(
            submission.command_line().join(" "),
            "--parsable --requeue --nodes=1 --open-mode=append --job-name=it --output=/run/log/%a --array=0-1%1 \
             --partition=gpu --time=1:30 --exclusive --mem=0 --qos=long /run/task.sh 0"
        );
    }
}
