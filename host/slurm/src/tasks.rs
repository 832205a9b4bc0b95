//! States of tasks.

use std::collections::BTreeMap;

use crate::Result;
use crate::command::output;
use crate::error::SlurmError;

/// The state of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskState {
    /// It waits.
    Queued {
        /// Why, in Slurm's word.
        reason: String,
    },
    /// It runs.
    Running {
        /// On this node.
        node: String,
    },
    /// It has ended.
    Ended(Ended),
}

impl TaskState {
    /// Returns the end of a task that has ended.
    #[must_use]
    pub fn ended(&self) -> Option<&Ended> {
        match self {
            Self::Ended(ended) => Some(ended),
            _ => None,
        }
    }
}

/// The end of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Slurm's word for it, such as `COMPLETED` or `TIMEOUT`.
    pub state: String,
    /// Slurm's reason, such as `NonZeroExitCode`; possibly empty.
    pub reason: String,
    /// The node; empty if it never ran.
    pub node: String,
    /// The exit code, if it exited.
    pub code: Option<i32>,
    /// The signal, if one ended it.
    pub signal: Option<i32>,
}

/// A task: its job, and its number in the job's array. A job without an array has the number `None`.
pub(crate) type Task = (u64, Option<u64>);

/// Tasks of one or more jobs.
pub type Tasks = BTreeMap<Task, TaskState>;

/// Returns the tasks of jobs that Slurm still knows: those in the queue, and those that ended a short time ago; with
/// accounting also all older ones.
///
/// # Errors
///
/// If Slurm does not answer.
pub fn tasks(jobs: &[u64]) -> Result<Tasks> {
    let mut tasks = Tasks::new();
    // Separately, since `squeue` prints nothing at all if it does not know one of them any more.
    for job in jobs {
        let arguments = [
            "--noheader".to_owned(),
            "--states=all".to_owned(),
            format!("--jobs={job}"),
            "--Format=ArrayJobID:|,JobID:|,ArrayTaskID:|,State:|,Reason:|,exit_code:|,NodeList:|"
                .to_owned(),
        ];
        match output("squeue", &arguments) {
            Ok(text) => tasks.extend(text.lines().filter_map(of_queue).flatten()),
            Err(SlurmError::Refused { message, .. }) if message.contains("Invalid job id") => {}
            Err(error) => return Err(error),
        }
    }
    Ok(tasks)
}

/// Returns the ends of tasks from the accounting, which keeps them when the queue has forgotten them. A cluster
/// without accounting has none.
pub fn ends_in_accounting(jobs: &[u64]) -> Tasks {
    let jobs: Vec<String> = jobs.iter().map(ToString::to_string).collect();
    let arguments = [
        "--noheader".to_owned(),
        "--parsable2".to_owned(),
        "--allocations".to_owned(),
        format!("--jobs={}", jobs.join(",")),
        "--format=JobID,State,ExitCode,NodeList".to_owned(),
    ];
    match output("sacct", &arguments) {
        Ok(text) => text.lines().filter_map(of_accounting).collect(),
        Err(_) => Tasks::new(),
    }
}

/// Reads a line of `squeue`, which may stand for several tasks that wait.
fn of_queue(line: &str) -> Option<Vec<(Task, TaskState)>> {
    let fields: Vec<&str> = line.trim().split('|').collect();
    let [array, _, task, state, reason, status, node, ..] = fields[..] else { return None };
    let job = array.parse().ok()?;
    let status: i32 = status.trim().parse().unwrap_or(0);
    let state = match state {
        "PENDING" | "CONFIGURING" | "REQUEUED" | "REQUEUE_FED" | "REQUEUE_HOLD"
        | "RESV_DEL_HOLD" | "SPECIAL_EXIT" => TaskState::Queued { reason: reason.to_owned() },
        "RUNNING" | "COMPLETING" | "SUSPENDED" | "STOPPED" | "SIGNALING" | "STAGE_OUT"
        | "RESIZING" => TaskState::Running { node: node.to_owned() },
        ended => TaskState::Ended(Ended {
            state: ended.to_owned(),
            reason: if reason == "None" { String::new() } else { reason.to_owned() },
            node: node.to_owned(),
            // A raw status of `wait`.
            code: (status & 0x7f == 0).then_some((status >> 8) & 0xff),
            signal: Some(status & 0x7f).filter(|signal| *signal != 0),
        }),
    };
    let numbers = numbers(task);
    Some(numbers.into_iter().map(|number| ((job, number), state.clone())).collect())
}

/// Reads the numbers of tasks: `3`, `2-5,9%3`, or `N/A` for a job without an array.
fn numbers(text: &str) -> Vec<Option<u64>> {
    let text = text.split('%').next().unwrap_or_default().trim_matches(['[', ']']);
    let part = |part: &str| -> Vec<Option<u64>> {
        let (range, step) = match part.split_once(':') {
            Some((range, step)) => (range, step.parse().unwrap_or(1)),
            None => (part, 1),
        };
        match range.split_once('-') {
            Some((first, last)) => match (first.parse::<u64>(), last.parse::<u64>()) {
                (Ok(first), Ok(last)) => (first..=last).step_by(step).map(Some).collect(),
                _ => Vec::new(),
            },
            None => vec![range.parse().ok()],
        }
    };
    text.split(',').flat_map(part).collect()
}

/// Reads a line of `sacct`: `12_3|TIMEOUT|0:0|n1`. A state may name who cancelled: `CANCELLED by 1000`.
fn of_accounting(line: &str) -> Option<(Task, TaskState)> {
    let fields: Vec<&str> = line.trim().split('|').collect();
    let [id, state, exit, node, ..] = fields[..] else { return None };
    let (job, task) = match id.split_once('_') {
        Some((job, task)) => (job.parse().ok()?, Some(task.parse().ok()?)),
        None => (id.parse().ok()?, None),
    };
    let state = state.split_whitespace().next()?;
    if matches!(state, "PENDING" | "RUNNING" | "REQUEUED" | "SUSPENDED" | "RESIZING") {
        return None;
    }
    let (code, signal) = exit.split_once(':').unwrap_or((exit, "0"));
    let signal = signal.parse().ok().filter(|signal| *signal != 0);
    let code = code.parse().ok().filter(|_| signal.is_none());
    let (state, node) = (state.to_owned(), node.replace("None assigned", ""));
    let ended = Ended { state, reason: String::new(), node, code, signal };
    Some(((job, task), TaskState::Ended(ended)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_of_the_queue_are_read_with_raw_exit_statuses() {
        let read = |line| of_queue(line).expect("a line");
        let waiting = read("8|8|1-3,9%1|PENDING|JobArrayTaskLimit|0||");
        assert_eq!(
            waiting.iter().map(|(id, _)| *id).collect::<Vec<_>>(),
            [(8, Some(1)), (8, Some(2)), (8, Some(3)), (8, Some(9))]
        );
        assert_eq!(
            read("8|10|0|RUNNING|None|0|n1|"),
            [((8, Some(0)), TaskState::Running { node: "n1".into() })]
        );
        let [(_, TaskState::Ended(failed))] = &read("5|5|N/A|FAILED|NonZeroExitCode|768|n1|")[..]
        else {
            panic!("it has ended")
        };
        assert_eq!((failed.code, failed.signal), (Some(3), None));
        let [((6, None), TaskState::Ended(killed))] =
            &read("6|6|N/A|FAILED|JobLaunchFailure|9|n2|")[..]
        else {
            panic!("it has ended")
        };
        assert_eq!((killed.code, killed.signal), (None, Some(9)));
        assert_eq!(of_queue(""), None);
    }

    #[test]
    fn ends_are_read_from_the_accounting() {
        let read = |line| of_accounting(line).expect("a line");
        let ((job, task), TaskState::Ended(ended)) = read("12_3|OUT_OF_MEMORY|0:125|n4") else {
            panic!("it has ended")
        };
        assert_eq!(
            (job, task, &*ended.state, ended.signal),
            (12, Some(3), "OUT_OF_MEMORY", Some(125))
        );
        assert_eq!(read("7|CANCELLED by 1000|0:0|n1").0, (7, None));
        assert_eq!(of_accounting("12_3|RUNNING|0:0|n4"), None);
        assert_eq!(of_accounting("12_[4-9]|PENDING|0:0|None assigned"), None);
    }
}
