/*!
Following a run: submitting blocks, taking over what tasks have recorded, and submitting again what dead tasks have left.

The queue is asked first and the parts are read second. A task that the queue calls ended has therefore written all that it
will ever write, apart from what a network file system shows late.
*/

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use host_manifest::Execution;
use host_record::{
    Allocation, CaseRecord, CaseSpec, Environment, Failure, Outcome, RECORD_VERSION, Recorder,
};
use host_run::Interrupt;
use host_slurm::{Ended, TaskState, Tasks};
use host_store::{PartEnd, RunPart, RunWriter};

use super::blocks::{self, Work, block_size};
use super::error::ClusterError;
use super::facts::Kinds;
use super::state::{Job, Kind, State};
use super::submit::{Submitter, early_end, words};
use super::task::{Attempts, partners, whole};
use crate::error::Result;
use crate::observer::{Notice, Observer, Progress};

/// Times between two questions to the queue: short at first, for short runs, and then kind to the controller.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));
/// Time for which a file system may hide what a task on another node wrote before it ended well.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same for a task that did not end well, which may have written nothing.
const SHORT_PATIENCE: Duration = Duration::from_secs(2);

/// A run on a cluster, on the side that submits.
pub(crate) struct Cluster {
    pub(crate) execution: Execution,
    pub(crate) kinds: Kinds,
    pub(crate) state: State,
    pub(crate) submitter: Submitter,
}

/// A block that is followed.
struct Open {
    /// Ids of the cases of each piece of work.
    work: Vec<Vec<String>>,
    /// The other side of each case that is measured in a pair.
    partners: HashMap<String, String>,
    /// Length of each attempt's journal when it was read last.
    lengths: BTreeMap<u32, u64>,
    /// When its task was first seen to have ended without all that it should have written.
    ended_at: Option<Instant>,
}

/// What becomes of a block whose task has ended.
enum Next {
    /// All is recorded.
    Done,
    /// It is submitted again.
    Again,
    /// It cannot be measured, for this reason.
    Problem(String),
    /// It is not yet clear.
    Wait,
}

/// End of following.
pub(crate) enum Followed {
    /// All is recorded.
    Done,
    /// The user asked to stop.
    Interrupted,
}

impl Cluster {
    /// Measures work that is not recorded yet: in blocks that were made before, and in new ones.
    pub(crate) fn measure(
        &mut self,
        work: Vec<Work>,
        writer: &mut RunWriter,
        interrupt: &Interrupt,
        observer: &mut dyn Observer,
    ) -> Result<Followed> {
        let run = writer.folder().path().to_owned();
        blocks::make_folder(&run)?;
        let mut open = BTreeMap::new();
        let mut known = BTreeSet::new();
        for block in 0..self.state.blocks.len() as u64 {
            let work = blocks::read(&run, block)?;
            known.extend(work.iter().flat_map(Work::ids));
            open.insert(block, Open::new(&work));
        }
        let new = work.into_iter().filter(|work| !work.ids().iter().any(|id| known.contains(id)));
        self.cut(new.collect(), &run, &mut open)?;
        for (block, open) in &mut open {
            open.take(*block, writer, observer)?;
        }
        open.retain(|_, open| !open.is_done(writer));
        let tasks = self.tasks(&open, &BTreeSet::new(), interrupt, observer)?;
        let Some(tasks) = tasks else { return Ok(Followed::Interrupted) };
        let mut to_submit = Vec::new();
        for (block, open) in &open {
            let task = self.state.task_of(*block);
            let state = task.and_then(|(job, task)| tasks.get(&(job, Some(task))));
            match state {
                Some(TaskState::Queued { .. } | TaskState::Running { .. }) => {}
                ended => {
                    let ended = ended.and_then(TaskState::ended).cloned();
                    if task.is_some() {
                        self.after_end(*block, open, ended.as_ref(), writer, observer)?;
                    }
                    if !open.is_done(writer) {
                        to_submit.push(*block);
                    }
                }
            }
        }
        open.retain(|_, open| !open.is_done(writer));
        self.submit(&to_submit, &run, observer)?;
        self.follow(open, writer, interrupt, observer)
    }

    /// Cuts new work into blocks, each for one kind of node.
    fn cut(&mut self, work: Vec<Work>, run: &Path, open: &mut BTreeMap<u64, Open>) -> Result<()> {
        let mut by_kind: BTreeMap<usize, Vec<Work>> = BTreeMap::new();
        let count = work.len() as u64;
        for mut work in work {
            let mut sides = work.cases().iter().map(|case| &*case.key.backend);
            let (first, second) = (sides.next().unwrap_or_default(), sides.next());
            let kind = self.kinds.of(first);
            if let Some(second) = second
                && self.kinds.of(second) != kind
            {
                let (first, second) = (first.to_owned(), second.to_owned());
                return Err(ClusterError::PairApart { first, second }.into());
            }
            for case in work.cases_mut() {
                case.machine.clone_from(&self.kinds.facts[kind].machine);
            }
            by_kind.entry(kind).or_default().push(work);
        }
        let size = block_size(self.execution.block, count);
        for (kind, work) in by_kind {
            for work in work.chunks(size) {
                let block = self.state.blocks.len() as u64;
                blocks::write(run, block, work)?;
                self.state.blocks.push(kind);
                open.insert(block, Open::new(work));
            }
        }
        self.state.write(run)
    }

    /// Submits blocks, as few arrays as possible.
    fn submit(&mut self, blocks: &[u64], run: &Path, observer: &mut dyn Observer) -> Result<()> {
        if blocks.is_empty() {
            return Ok(());
        }
        let largest = host_slurm::largest_array().map_err(ClusterError::from)?.max(1);
        let mut arrays: BTreeMap<(usize, u64), Vec<u64>> = BTreeMap::new();
        for block in blocks {
            let kind = self.state.blocks[usize::try_from(*block).unwrap_or(usize::MAX)];
            arrays.entry((kind, block / largest * largest)).or_default().push(*block);
        }
        for ((kind, offset), blocks) in arrays {
            let tasks = blocks.iter().map(|block| block - offset).collect();
            let arguments = vec!["--offset".to_owned(), offset.to_string()];
            let count = blocks.len() as u64;
            let kind: &Kind = &self.state.kinds[kind];
            let job = self.submitter.submit(kind, arguments, tasks)?;
            observer.notice(Notice::Submitted { job, tasks: count, kind: &kind.to_string() });
            self.state.jobs.push(Job { job, offset, blocks });
            self.state.write(run)?;
        }
        Ok(())
    }

    /// Asks for the tasks of open blocks, until Slurm answers. `None` if the user asked to stop.
    fn tasks(
        &self,
        open: &BTreeMap<u64, Open>,
        missed: &BTreeSet<u64>,
        interrupt: &Interrupt,
        observer: &mut dyn Observer,
    ) -> Result<Option<Tasks>> {
        let jobs: BTreeSet<u64> =
            open.keys().filter_map(|block| Some(self.state.task_of(*block)?.0)).collect();
        let jobs: Vec<u64> = jobs.into_iter().collect();
        let mut is_told = false;
        loop {
            match host_slurm::tasks(&jobs) {
                Ok(mut tasks) => {
                    if !missed.is_empty() {
                        for (id, state) in host_slurm::ends_in_accounting(&jobs) {
                            tasks.entry(id).or_insert(state);
                        }
                    }
                    return Ok(Some(tasks));
                }
                Err(error) if error.is_passing() => {
                    if !is_told {
                        observer.notice(Notice::Unreachable(&error));
                        is_told = true;
                    }
                }
                Err(error) => return Err(ClusterError::from(error).into()),
            }
            if !sleep(INTERVALS.1, interrupt) {
                return Ok(None);
            }
        }
    }

    /// Follows open blocks until all are done, or the user asks to stop.
    fn follow(
        &mut self,
        mut open: BTreeMap<u64, Open>,
        writer: &mut RunWriter,
        interrupt: &Interrupt,
        observer: &mut dyn Observer,
    ) -> Result<Followed> {
        let run = writer.folder().path().to_owned();
        let mut problems: Vec<String> = Vec::new();
        let (mut failed, mut interval) = (0, INTERVALS.0);
        let total = open.len() as u64;
        let mut missed = BTreeSet::new();
        while !open.is_empty() {
            if interrupt.is_interrupted() {
                return self.stop(&open, observer);
            }
            let tasks = self.tasks(&open, &missed, interrupt, observer)?;
            let Some(tasks) = tasks else { return self.stop(&open, observer) };
            missed.clear();
            let (mut queued, mut running, mut again) = (0, 0, Vec::new());
            let mut closed = Vec::new();
            for (block, open) in &mut open {
                open.take(*block, writer, observer)?;
                let id = self.state.task_of(*block).map(|(job, task)| (job, Some(task)));
                let state = id.and_then(|id| tasks.get(&id));
                if open.is_done(writer) {
                    // It may still be unloading; nobody waits for it.
                    closed.push(*block);
                    continue;
                }
                match state {
                    Some(TaskState::Queued { .. }) => queued += 1,
                    Some(TaskState::Running { .. }) => running += 1,
                    ended => {
                        let ended = ended.and_then(TaskState::ended);
                        if ended.is_none() {
                            missed.insert(*block);
                        }
                        match self.next(*block, open, ended, writer, observer)? {
                            Next::Done => closed.push(*block),
                            Next::Again => {
                                open.ended_at = None;
                                again.push(*block);
                            }
                            Next::Wait => running += 1,
                            Next::Problem(problem) => {
                                failed += 1;
                                if !problems.contains(&problem) {
                                    problems.push(problem);
                                }
                                closed.push(*block);
                            }
                        }
                    }
                }
            }
            for block in closed {
                open.remove(&block);
            }
            self.submit(&again, &run, observer)?;
            queued += again.len() as u64;
            let done = total - open.len() as u64 - failed;
            observer.progress(Progress::Tasks { queued, running, done, failed });
            if !open.is_empty() && !sleep(interval, interrupt) {
                return self.stop(&open, observer);
            }
            interval = (interval * 5 / 4).min(INTERVALS.1);
        }
        if failed > 0 {
            let results = run.ancestors().nth(2).unwrap_or(&run).to_owned();
            let run = writer.folder().run_id().to_owned();
            let blocks = failed;
            return Err(ClusterError::Unmeasured { run, results, blocks, problems }.into());
        }
        Ok(Followed::Done)
    }

    /// Asks the user what is to become of the tasks.
    fn stop(&self, open: &BTreeMap<u64, Open>, observer: &mut dyn Observer) -> Result<Followed> {
        let jobs: BTreeSet<u64> =
            open.keys().filter_map(|block| Some(self.state.task_of(*block)?.0)).collect();
        let jobs: Vec<u64> = jobs.into_iter().collect();
        if observer.cancels_jobs(&jobs) {
            host_slurm::cancel(&jobs).map_err(ClusterError::from)?;
            observer.notice(Notice::Cancelled { jobs: &jobs });
        } else {
            observer.notice(Notice::LeftRunning { jobs: &jobs });
        }
        Ok(Followed::Interrupted)
    }

    /// Decides about a block whose task has ended, or is unknown to Slurm.
    fn next(
        &self,
        block: u64,
        open: &mut Open,
        ended: Option<&Ended>,
        writer: &mut RunWriter,
        observer: &mut dyn Observer,
    ) -> Result<Next> {
        let since = *open.ended_at.get_or_insert_with(Instant::now);
        let has_ended_well =
            ended.is_some_and(|ended| ended.code == Some(0) && ended.state == "COMPLETED");
        let attempts = writer.folder().attempts(block)?;
        let last = attempts.last();
        let is_finished = match last {
            Some(part) => part.folder.finished()?.is_some(),
            None => false,
        };
        let patience = if has_ended_well { PATIENCE } else { SHORT_PATIENCE };
        if !is_finished && since.elapsed() < patience {
            return Ok(Next::Wait);
        }
        let (job, task) = self.state.task_of(block).unwrap_or_default();
        let is_of_job = |part: &RunPart| part.allocation().is_ok_and(|it| it.job == job);
        let Some(part) = last.filter(|part| is_of_job(part)) else {
            return Ok(Next::Problem(match ended {
                Some(ended) if ended.state == "CANCELLED" => cancelled(ended, job),
                Some(ended) => early_end(ended, &self.submitter.log(job, Some(task))),
                None => format!(
                    "Slurm has forgotten the task {job}_{task}, which has recorded nothing; its log is {job}_{task}.txt in the folder slurm/log of the run"
                ),
            }));
        };
        if let Some(left) = part.left()?.filter(|left| left.state == "REFUSED") {
            return Ok(Next::Problem(left.detail));
        }
        let progressed = self.after_end(block, open, ended, writer, observer)?;
        if open.is_done(writer) {
            return Ok(Next::Done);
        }
        if let Some(ended) = ended.filter(|ended| ended.state == "CANCELLED") {
            return Ok(Next::Problem(cancelled(ended, job)));
        }
        // A task that dies before its first case, again and again, is no fault of a case.
        let idle = attempts
            .iter()
            .rev()
            .take_while(|part| part.started().is_ok_and(|started| started.is_empty()));
        if !progressed && idle.count() as u64 > self.execution.retries {
            let log = self.submitter.log(job, Some(task));
            let words = ended.map_or_else(|| "UNKNOWN".to_owned(), words);
            return Ok(Next::Problem(format!(
                "the task {job}_{task} ended ({words}) before its first case: {log}"
            )));
        }
        Ok(Next::Again)
    }

    /// Records how the task of a block ended, and gives up the case in progress if it was tried often enough. Returns
    /// whether the task had begun a case.
    fn after_end(
        &self,
        block: u64,
        open: &Open,
        ended: Option<&Ended>,
        writer: &mut RunWriter,
        observer: &mut dyn Observer,
    ) -> Result<bool> {
        let mut attempts = writer.folder().attempts(block)?;
        let Some(part) = attempts.last() else { return Ok(false) };
        let is_asked = part.left()?.is_some_and(|left| left.state == "TERMINATED");
        let state = ended.map_or("UNKNOWN", |ended| &ended.state).to_owned();
        // One that another job preempted, or that was cancelled, did not die of its case.
        let is_excused = is_asked && matches!(&*state, "CANCELLED" | "PREEMPTED" | "UNKNOWN");
        if part.folder.finished()?.is_none() && part.end()?.is_none() && !is_excused {
            let detail = ended.map_or_else(|| "nothing says how".to_owned(), words);
            part.record_end(&PartEnd { state, detail })?;
        }
        let began = !part.started()?.is_empty();
        attempts = writer.folder().attempts(block)?;
        let work = blocks::read(writer.folder().path(), block)?;
        let lost = Attempts::read(&attempts, &work)?;
        let left: Vec<&Work> =
            work.iter().filter(|work| !is_recorded(writer, &work.ids())).collect();
        for work in left {
            let tries = lost.lost(&work.cases()[0].id);
            let Some(last) = tries.last() else { continue };
            let is_given_up = tries.len() as u64 > self.execution.retries;
            let how = last.end.clone().unwrap_or_else(|| "UNKNOWN".to_owned());
            observer.notice(Notice::TaskDied {
                case: &work.cases()[0].key,
                node: &last.node,
                state: &how,
                again: !is_given_up,
            });
            if is_given_up {
                for case in work.cases() {
                    give_up(case, tries, &attempts, writer, observer)?;
                }
            }
        }
        Ok(began || open.is_done(writer))
    }
}

fn cancelled(ended: &Ended, job: u64) -> String {
    let reason =
        if ended.reason.is_empty() { String::new() } else { format!(" ({})", ended.reason) };
    format!("the job {job} was cancelled{reason}")
}

/// Records a case whose tasks died as often as it may be tried.
fn give_up(
    case: &CaseSpec,
    tries: &[host_record::EarlierAttempt],
    attempts: &[RunPart],
    writer: &mut RunWriter,
    observer: &mut dyn Observer,
) -> Result<()> {
    if writer.is_recorded(&case.id, u32::MAX) {
        return Ok(());
    }
    let last = tries.last();
    let end = match attempts.last() {
        Some(part) => part.end()?,
        None => None,
    };
    let state = last.and_then(|last| last.end.clone()).unwrap_or_else(|| "UNKNOWN".to_owned());
    let words = end.map_or_else(|| state.clone(), |end| end.detail);
    let nodes: Vec<&str> = tries.iter().map(|it| &*it.node).collect();
    let times = crate::units::count(tries.len() as u64, "time", "times");
    let detail = format!("{words}; tried {times}, on {}", nodes.join(" and "));
    let (allocation, environment) = match attempts.last() {
        Some(part) => (part.allocation()?, part.folder.header().environment.clone()),
        None => (Allocation::default(), Environment::default()),
    };
    let earlier = tries[..tries.len().saturating_sub(1)].to_vec();
    let allocation = Some(Box::new(Allocation { earlier, ..allocation }));
    let process = (0..case.measure.processes.max(1))
        .find(|process| !writer.is_recorded(&case.id, *process))
        .unwrap_or(0);
    let record = CaseRecord {
        record_version: RECORD_VERSION,
        case_id: case.id.clone(),
        key: case.key.clone(),
        spec: Some(CaseSpec { process, ..case.clone() }),
        process,
        started_at: last.map(|last| last.started_at.clone()).unwrap_or_default(),
        elapsed_ns: 0,
        outcome: Outcome::Failed { failure: Failure::TaskEnded { state, detail } },
        standard_error: String::new(),
        environment: Some(Environment { allocation, ..environment }),
        further: Vec::new(),
    };
    writer.case_finished(&record)?;
    observer.progress(Progress::CaseFinished(&record));
    Ok(())
}

fn is_recorded(writer: &RunWriter, ids: &[String]) -> bool {
    ids.iter().all(|id| writer.is_recorded(id, u32::MAX))
}

impl Open {
    fn new(work: &[Work]) -> Self {
        Self {
            work: work.iter().map(Work::ids).collect(),
            partners: partners(work),
            lengths: BTreeMap::new(),
            ended_at: None,
        }
    }

    /// Returns whether all its cases are recorded.
    fn is_done(&self, writer: &RunWriter) -> bool {
        self.work.iter().all(|ids| is_recorded(writer, ids))
    }

    /// Takes over what its attempts have recorded since the last time.
    fn take(
        &mut self,
        block: u64,
        writer: &mut RunWriter,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        for part in writer.folder().attempts(block)? {
            let length = part.length();
            if self.lengths.insert(part.attempt, length) == Some(length) {
                continue;
            }
            let partners = &self.partners;
            let taken = writer.adopt(&part, |records| whole(records, partners))?;
            for record in &taken {
                observer.progress(Progress::CaseFinished(record));
            }
        }
        Ok(())
    }
}

/// Sleeps, unless the user asks to stop. Returns whether all of the time is over.
fn sleep(time: Duration, interrupt: &Interrupt) -> bool {
    let end = Instant::now() + time;
    while Instant::now() < end {
        if interrupt.is_interrupted() {
            return false;
        }
        thread::sleep(Duration::from_millis(50).min(end - Instant::now().min(end)));
    }
    !interrupt.is_interrupted()
}
