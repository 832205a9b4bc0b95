/*!
Tasks: what the host does on a node.

A task finds the manifest's files and plugins on its node and compares their hashes with the cases' before it measures
anything. Then it measures its block by the executor of this machine, into a part of the run folder.
*/

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use host_plan::PlannedCase;
use host_record::{
    Allocation, CaseRecord, CaseSpec, Doubt, EarlierAttempt, FileId, InputSource, Order, Outcome,
    Phase, Processes,
};
use host_run::{LocalExecutor, RunSummary, UnfinishedPair};
use host_store::{PartEnd, RunFolder, RunPart, RunWriter, StoreError};

use super::blocks::{self, Work};
use super::error::ClusterError;
use super::facts::{NodeFacts, answer_path};
use super::state::write_json;
use crate::amending::Amending;
use crate::backends::{ChosenBackend, describe_backends, executor};
use crate::draft::{Checked, Draft, memory};
use crate::error::{Error, Result};
use crate::guests::Guest;
use crate::observer::{Observer, OfCases, Progress};
use crate::platform;
use crate::settings::Settings;

/// Result of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskSummary {
    /// The block is measured to its end.
    Finished,
    /// It was asked to end.
    Interrupted,
}

/// Writes the facts about this node that a plan needs.
///
/// # Errors
///
/// If the run or its manifest cannot be read, or plugins cannot be found.
pub fn probe_node(
    run: &Path,
    number: usize,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<()> {
    let folder = RunFolder::open(run)?;
    let Checked { manifest: _, backends, .. } = check(&folder, settings, observer)?;
    let executor = executor(settings)?;
    let described = describe_backends(&backends, &executor, &settings.interrupt);
    if settings.interrupt.is_interrupted() {
        return Err(Error::Interrupted);
    }
    write_json(&answer_path(run, number), &NodeFacts::of(described, memory()))
}

fn check(folder: &RunFolder, settings: &Settings, observer: &mut dyn Observer) -> Result<Checked> {
    let path = folder.header().manifest_path.clone();
    let copy = folder.path().join("manifest.toml");
    Draft::parse(path, &copy, folder.manifest_text()?).check(settings, observer)
}

/// Measures what is left of a block.
///
/// # Errors
///
/// If a plugin or a file on this node differs from what the run was planned with, or results cannot be kept.
pub fn run_block(
    run: &Path,
    block: u64,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<TaskSummary> {
    let folder = RunFolder::open(run)?;
    let work = blocks::read(folder.path(), block)?;
    let earlier = folder.attempts(block)?;
    let checked = check(&folder, settings, observer);
    let exclusive = match &checked {
        Ok(checked) => checked.manifest.experiment.execution.exclusive,
        Err(_) => true,
    };
    let allocation = allocation(exclusive);
    let environment = host_machine::environment(None);
    let (writer, attempt) = folder.begin_part(block, &allocation, environment)?;
    let refused = |writer: &RunWriter, error: &Error| {
        let (state, detail) = ("REFUSED".to_owned(), error.to_string());
        writer.leave(&PartEnd { state, detail })
    };
    let ready = checked
        .and_then(|checked| prepare(&folder, checked, &work, &allocation.node, settings, observer));
    let mut executor = match ready {
        Ok(executor) => executor,
        Err(error) => {
            refused(&writer, &error)?;
            return Err(error);
        }
    };
    executor.references = Some(writer.references_folder());
    let attempts = Attempts::read(&earlier, &work)?;
    let allocation = Allocation { attempt, ..allocation };
    let mut task = Task { writer, allocation, attempts };
    let retries = folder_retries(&folder)?;
    let interrupted = task.measure(work, retries, &mut executor, settings, observer)?;
    if interrupted {
        let detail = "the task was asked to end".to_owned();
        task.writer.leave(&PartEnd { state: "TERMINATED".to_owned(), detail })?;
        return Ok(TaskSummary::Interrupted);
    }
    task.writer.finish()?;
    Ok(TaskSummary::Finished)
}

/// Returns how often a case is tried again, as the manifest says.
fn folder_retries(folder: &RunFolder) -> Result<u64> {
    let reading = host_manifest::read(&folder.manifest_text()?);
    Ok(reading.experiment.map_or(1, |experiment| experiment.execution.retries))
}

/// Returns the node, job and task that this process runs in, as Slurm tells it in the environment.
fn allocation(exclusive: bool) -> Allocation {
    let text = |name: &str| std::env::var(name).unwrap_or_default();
    let number = |name: &str| text(name).parse::<u64>().ok();
    let node = match text("SLURMD_NODENAME") {
        name if name.is_empty() => host_machine::name(),
        name => name,
    };
    let own = number("SLURM_JOB_ID").unwrap_or(0);
    // Of a node of its own there is nothing to ask.
    let mut other_jobs =
        if exclusive { Vec::new() } else { host_slurm::jobs_on_node(&node).unwrap_or_default() };
    other_jobs.retain(|job| *job != own);
    Allocation {
        engine: "slurm".into(),
        node,
        partition: text("SLURM_JOB_PARTITION"),
        job: number("SLURM_ARRAY_JOB_ID").unwrap_or(own),
        task: number("SLURM_ARRAY_TASK_ID").and_then(|task| u32::try_from(task).ok()),
        attempt: 0,
        exclusive,
        other_jobs,
        earlier: Vec::new(),
    }
}

/// Finds the plugins and files of a block on this node, and compares their hashes.
fn prepare(
    folder: &RunFolder,
    checked: Checked,
    work: &[Work],
    node: &str,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<LocalExecutor> {
    let Checked { manifest, mut files, backends, guests, .. } = checked;
    let cases = || work.iter().flat_map(Work::cases);
    same_plugins(cases().map(|case| &**case), &backends, node)?;
    let mut executor = executor(settings)?;
    files.complete(&manifest, &backends, &mut executor, &settings.interrupt)?;
    let cache = platform::architectures().ok_or(Error::NoCache);
    files.architectures.write(cases().map(|case| (**case).clone()), cache, observer)?;
    for case in cases() {
        for file in files_of(case) {
            if executor.resolver.file(file).is_err() {
                return Err(other_file(file, files.all(), node).into());
            }
        }
    }
    executor.commit = folder.header().environment.git_commit.clone();
    executor.calibrate = guests.metrics.iter().any(Guest::takes_peaks);
    Ok(executor)
}

fn same_plugins<'a>(
    cases: impl Iterator<Item = &'a CaseSpec>,
    backends: &[ChosenBackend],
    node: &str,
) -> Result<()> {
    let here: Vec<_> = backends
        .iter()
        .filter_map(|backend| backend.plugin.as_ref().ok().map(|plugin| &plugin.identity))
        .collect();
    for case in cases {
        let then = &case.plugin;
        if here.contains(&then) {
            continue;
        }
        let node = node.to_owned();
        return Err(match here.iter().find(|now| now.id == then.id) {
            Some(now) => {
                let (then, now) = (Box::new(then.clone()), Box::new((*now).clone()));
                ClusterError::OtherPlugin { node, then, now }
            }
            None => {
                let (id, sha256) = (then.id.clone(), then.sha256.clone());
                ClusterError::NoPlugin { node, id, sha256 }
            }
        }
        .into());
    }
    Ok(())
}

/// Returns the files that a case names.
fn files_of(case: &CaseSpec) -> Vec<&FileId> {
    let mut files = vec![&case.model];
    if let InputSource::Files { inputs, labels, .. } = &case.inputs {
        files.extend(inputs.values());
        files.extend(labels);
    }
    files
}

fn other_file<'a>(
    wanted: &FileId,
    mut here: impl Iterator<Item = &'a FileId>,
    node: &str,
) -> ClusterError {
    let now = here.find(|file| file.name == wanted.name);
    // The file itself may be the same, and another one beside it not.
    let differs = now.and_then(|now| {
        let pairs = wanted.parts.iter().filter_map(|part| {
            let same_name = now.parts.iter().find(|other| other.name == part.name)?;
            (same_name.sha256 != part.sha256).then_some((part, same_name))
        });
        pairs.into_iter().next()
    });
    let (name, then, now) = match differs {
        Some((then, now)) => (&then.name, &then.sha256, Some(now.sha256.clone())),
        None => (&wanted.name, &wanted.sha256, now.map(|file| file.sha256.clone())),
    };
    ClusterError::OtherFile { node: node.into(), name: name.clone(), then: then.clone(), now }
}

/// What earlier attempts at a block have recorded and lost.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    /// Recorded processes by case, with the ratio of a pair.
    recorded: HashMap<String, BTreeMap<u32, Option<f64>>>,
    /// Cases that have all their processes, or one that did not finish.
    ended: HashSet<String>,
    /// Attempts at cases that came to no result, by the case.
    lost: HashMap<String, Vec<EarlierAttempt>>,
}

impl Attempts {
    /// Reads the attempts.
    pub(crate) fn read(parts: &[RunPart], work: &[Work]) -> Result<Self> {
        let partners = partners(work);
        let mut attempts = Self::default();
        let mut complete = Processes::default();
        for part in parts {
            let records = whole(part.records()?, &partners);
            let done: BTreeSet<(&str, u32)> =
                records.iter().map(|record| (&*record.case_id, record.process)).collect();
            let (left, end) = (part.left()?, part.end()?);
            // One that was asked to end, to make room for another job, has lost nothing by its own fault.
            let is_excused = end.is_none() && left.is_some();
            let allocation = part.allocation()?;
            for started in part.started()? {
                if !done.contains(&(&*started.case_id, started.process)) && !is_excused {
                    let earlier = EarlierAttempt {
                        node: allocation.node.clone(),
                        job: allocation.job,
                        started_at: started.started_at,
                        end: end.as_ref().map(|end| end.state.clone()),
                    };
                    attempts.lost.entry(started.case_id).or_default().push(earlier);
                }
            }
            for record in records {
                if attempts.has(&record.case_id, record.process) {
                    continue;
                }
                let paired = record.report().and_then(|report| report.paired.as_ref());
                let ratio = paired.map(|paired| paired.ratio);
                let processes = attempts.recorded.entry(record.case_id.clone()).or_default();
                processes.insert(record.process, ratio);
                if let Some(case) = complete.add(record) {
                    attempts.ended.insert(case.case_id);
                }
            }
        }
        Ok(attempts)
    }

    /// Returns the attempts at a case, or at the pair whose first side it is, that came to no result.
    pub(crate) fn lost(&self, case_id: &str) -> &[EarlierAttempt] {
        self.lost.get(case_id).map_or(&[], Vec::as_slice)
    }

    fn has_ended(&self, case_id: &str) -> bool {
        self.ended.contains(case_id)
    }

    fn has(&self, case_id: &str, process: u32) -> bool {
        self.recorded.get(case_id).is_some_and(|it| it.contains_key(&process))
    }

    fn ratios(&self, case_id: &str) -> Vec<f64> {
        let recorded = self.recorded.get(case_id).into_iter().flat_map(BTreeMap::values);
        recorded.filter_map(|ratio| *ratio).collect()
    }
}

/// Returns the other side of each case that is measured in a pair.
pub(crate) fn partners(work: &[Work]) -> HashMap<String, String> {
    let pairs = work.iter().filter_map(|work| match work {
        Work::Pair([first, second]) => Some((first, second)),
        Work::Case(_) => None,
    });
    pairs
        .flat_map(|(one, two)| [(one.id.clone(), two.id.clone()), (two.id.clone(), one.id.clone())])
        .collect()
}

/// Leaves out processes of which only one side of the pair is there: a task died between the records of both.
pub(crate) fn whole(
    records: Vec<CaseRecord>,
    partners: &HashMap<String, String>,
) -> Vec<CaseRecord> {
    if partners.is_empty() {
        return records;
    }
    let there: BTreeSet<(String, u32)> =
        records.iter().map(|record| (record.case_id.clone(), record.process)).collect();
    let is_whole = |record: &CaseRecord| match partners.get(&record.case_id) {
        Some(partner) => there.contains(&(partner.clone(), record.process)),
        None => true,
    };
    records.into_iter().filter(is_whole).collect()
}

/// A task that measures.
struct Task {
    writer: RunWriter,
    allocation: Allocation,
    attempts: Attempts,
}

impl Task {
    /// Measures what is not recorded yet and was not lost too often. Returns whether it was interrupted.
    fn measure(
        &mut self,
        work: Vec<Work>,
        retries: u64,
        executor: &mut LocalExecutor,
        settings: &Settings,
        observer: &mut dyn Observer,
    ) -> Result<bool> {
        let Self { writer, allocation, attempts } = self;
        let (mut cases, mut pairs) = (Vec::new(), Vec::new());
        for work in work {
            let id = &work.cases()[0].id;
            if attempts.lost(id).len() as u64 > retries || attempts.has_ended(id) {
                continue;
            }
            match work {
                Work::Case(case) => cases.push(case),
                Work::Pair(sides) => {
                    let ratios = attempts.ratios(&sides[1].id);
                    pairs.push(UnfinishedPair { cases: sides, ratios });
                }
            }
        }
        let items = processes(cases).filter(|case| !attempts.has(&case.id, case.process));
        let items = items.map(PlannedCase::Case);
        let folder = writer.folder().path().to_owned();
        let amend = |record: &CaseRecord| Some(allocated(record, allocation, attempts));
        let mut keeper = Amending { writer, amend };
        let mut observer = Starts { observer: OfCases(observer), folder, error: None };
        let interrupt = &settings.interrupt;
        let single = host_run::run(items, executor, &mut keeper, &mut observer, interrupt);
        let summary = single.and_then(|one| {
            if one.interrupted {
                return Ok(one);
            }
            host_run::run_pairs(pairs, executor, &mut keeper, &mut observer, interrupt)
        });
        observer.observer.0.progress(Progress::Measured);
        if let Some(error) = observer.error {
            return Err(error.into());
        }
        let summary: Result<RunSummary> = summary.map_err(|error| Error::NotKept {
            run: self.writer.folder().run_id().to_owned(),
            results: settings.results(None),
            error,
        });
        Ok(summary?.interrupted)
    }
}

/// Returns each process of each case, in the order that the manifest asks for.
#[expect(clippy::vec_box, reason = "cases are boxed where they come from, and where they go")]
fn processes(cases: Vec<Box<CaseSpec>>) -> impl Iterator<Item = Box<CaseSpec>> {
    let interleaved = cases.first().is_some_and(|case| case.measure.order != Order::Planned);
    let mut all: Vec<Box<CaseSpec>> = Vec::new();
    for case in cases {
        for process in 0..case.measure.processes.max(1) {
            all.push(Box::new(CaseSpec { process, ..(*case).clone() }));
        }
    }
    if interleaved {
        all.sort_by_key(|case| case.process);
    }
    all.into_iter()
}

/// Returns a record with its allocation, and with a warning if the task does not have its node for itself.
fn allocated(record: &CaseRecord, allocation: &Allocation, attempts: &Attempts) -> CaseRecord {
    let mut record = record.clone();
    if let Some(environment) = &mut record.environment {
        let earlier = attempts.lost(&record.case_id).to_vec();
        environment.allocation = Some(Box::new(Allocation { earlier, ..allocation.clone() }));
    }
    if let (false, Outcome::Finished(report)) = (allocation.exclusive, &mut record.outcome) {
        let (node, jobs) = (allocation.node.clone(), allocation.other_jobs.clone());
        report.warnings.push(Doubt::NodeShared { node, jobs }.into());
    }
    record
}

/// Notes each case that begins, so that a later attempt knows which one this task died in.
struct Starts<'a> {
    observer: OfCases<'a>,
    folder: PathBuf,
    error: Option<StoreError>,
}

impl host_run::Observer for Starts<'_> {
    fn case_started(&mut self, case: &CaseSpec) {
        if let Err(error) = RunWriter::note_start(&self.folder, case) {
            self.error.get_or_insert(error);
        }
        self.observer.case_started(case);
    }

    fn phase_entered(&mut self, case: &CaseSpec, phase: Phase) {
        self.observer.phase_entered(case, phase);
    }

    fn case_finished(&mut self, record: &CaseRecord) {
        self.observer.case_finished(record);
    }
}
