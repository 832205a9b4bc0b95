/*!
Runs: from a manifest to results, reports and advice.

Everything that can be known to be wrong is found before the first case: the manifest, its files,
and every plugin that it names. Then nothing but the cases runs until the last of them has ended;
metrics, advice, reports and the database come after that. A plugin that fails there costs its own
output and nothing that was measured.
*/

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use host_plan::{Plan, PlannedCase, PlannedPair};
use host_record::{CaseRecord, CaseSpec, Engine, Outcome, Recorder, Views};
use host_run::{DescribeError, Interrupt, LocalExecutor, RunError, RunSummary, UnfinishedPair};
use host_store::{
    EmptyViews, NewRun, Past, PlanLine, PluginRole, Program, RecommendationRecord, ResultsFolder,
    RunFolder, RunPlugin, RunViews, RunWriter, StoreError,
};
use host_wasm::{Advice, Cancel, GuestErrorKind, MoreCases, Sandbox};

use crate::amending::Amending;
use crate::asking::{Planner, Wishes};
use crate::backends::{ChosenBackend, Described, describe_backends, executor, install_missing};
use crate::cluster::{self, Cluster, ClusterError, Followed, Kinds, State, Submitter, Work};
use crate::compute::{Extent, compute};
use crate::computed::Computed;
use crate::draft::{Checked, Draft, Files, Manifest};
use crate::error::{Change, Error, Result};
use crate::guests::{Guest, Guests};
use crate::noise::{Noise, are_processors};
use crate::observer::{Notice, Observer, OfCases, Progress};
use crate::outlook::NoiseOfRun;
use crate::platform;
use crate::programs::Origin;
use crate::recompute::tell;
use crate::reports::{self, GuestFailure, Reports, WrittenReport};
use crate::results::{import, indexed, record_result, results_of};
use crate::settings::Settings;

/// Time that metrics of finished cases are waited for after measuring was interrupted.
const PATIENCE: Duration = Duration::from_secs(3);

/// Options of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// Install the runtimes that chosen backends need and that are missing. Without this nothing is
    /// ever downloaded.
    pub install: bool,
    /// The folder that reports are written to; `None`: into the run folder.
    pub reports: Option<PathBuf>,
    /// What executes the cases; `None`: what the manifest says.
    pub on: Option<Engine>,
}

/// A run that was executed, to its end or until it was interrupted.
pub struct ExecutedRun {
    /// The run folder.
    pub folder: RunFolder,
    /// The results folder that it lies in.
    pub results: ResultsFolder,
    /// Whether it was interrupted. Everything that was done is kept.
    pub interrupted: bool,
    /// If so, the parts that are missing.
    pub missing: Missing,
    /// The reports that were written.
    pub reports: Vec<WrittenReport>,
    /// The database, if the run is in it.
    pub database: Option<PathBuf>,
    /// The last guest that failed, so that its output is missing.
    pub guest_failure: Option<GuestFailure>,
    /// Whether its cases are measured on a cluster, where they may go on after an interruption.
    pub on_cluster: bool,
}

/// Parts of an interrupted run that are missing, apart from cases.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Missing {
    /// Whether values of metrics are.
    pub metrics: bool,
    /// Recommenders whose advice is.
    pub recommenders: Vec<String>,
    /// Plugins whose reports are.
    pub reports: Vec<String>,
}

impl Missing {
    /// Returns whether anything is missing.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.metrics || !self.recommenders.is_empty() || !self.reports.is_empty()
    }
}

/// Advice of recommenders.
#[derive(Debug, Default)]
pub struct Advised {
    /// The advice.
    pub records: Vec<RecommendationRecord>,
    /// Recommenders that were not asked to the end because the user asked to stop.
    pub missing: Vec<String>,
    /// Whether a recommender failed.
    pub failure: Option<GuestFailure>,
}

/// Result of resuming a run.
pub enum Resumed {
    /// The run had ended already.
    Finished(Box<RunFolder>),
    /// The run was continued.
    Executed(Box<ExecutedRun>),
}

/// Runs a manifest from its beginning.
///
/// # Errors
///
/// If anything is wrong before the first case, or results cannot be kept.
pub fn run(
    draft: Draft,
    options: &RunOptions,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<ExecutedRun> {
    let started = begin(draft, options, settings, observer)?;
    started.execute(options.reports.as_deref(), &settings.interrupt, observer)
}

/// Continues an interrupted run, with its manifest and everything else unchanged. `run` is its id, a part of
/// it, its folder, or `latest`.
///
/// # Errors
///
/// If there is no such run, its parts have changed, or as [`run()`].
pub fn resume(
    run: &str,
    options: &RunOptions,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<Resumed> {
    match continue_run(run, options, settings, observer)? {
        Continuation::Finished(folder) => Ok(Resumed::Finished(folder)),
        Continuation::Started(started) => {
            let ran = started.execute(options.reports.as_deref(), &settings.interrupt, observer)?;
            Ok(Resumed::Executed(Box::new(ran)))
        }
    }
}

/// Follows a run whose cases are measured on a cluster: takes over what its tasks have recorded, submits what is missing,
/// and ends as [`run()`] does.
///
/// # Errors
///
/// If the run was not submitted to a cluster, or as [`resume`].
pub fn attach(
    run: &str,
    options: &RunOptions,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<Resumed> {
    let path = ResultsFolder::new(settings.results(None)).find(run)?;
    let folder = RunFolder::open(&path)?;
    if folder.finished()?.is_none() && State::read(&path)?.is_none() {
        let run = folder.run_id().to_owned();
        return Err(ClusterError::NotOfACluster { run }.into());
    }
    resume(run, options, settings, observer)
}

/// A run that has started and not measured yet.
struct StartedRun {
    plan: Plan,
    /// For cases that recommenders ask for; `None` if the manifest lets none of them ask.
    planner: Option<Rc<Planner>>,
    guests: Guests,
    writer: RunWriter,
    executor: LocalExecutor,
    /// Where cases are measured, if that is not this machine.
    cluster: Option<Cluster>,
    results: ResultsFolder,
    /// Backends that could not be described, by their id in the manifest.
    failures: BTreeMap<String, DescribeError>,
    guest_failure: Option<GuestFailure>,
    /// Whether cases or values were added, so that earlier advice and reports no longer say everything.
    is_news: bool,
}

/// Outcome of asking recommenders for further cases.
#[derive(Debug, Clone, Copy, Default)]
struct Explored {
    interrupted: bool,
    missing_metrics: bool,
}

/// State of a run to resume.
enum Continuation {
    Finished(Box<RunFolder>),
    Started(Box<StartedRun>),
}

/// Starts a new run.
fn begin(
    draft: Draft,
    options: &RunOptions,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<StartedRun> {
    let origin = Origin::start(settings, draft.base());
    let checked = draft.check(settings, observer)?;
    if checked.manifest.base.to_str().is_none() {
        return Err(Error::FolderName { path: checked.manifest.base });
    }
    let execution = &checked.manifest.experiment.execution;
    if options.on.unwrap_or(execution.engine) == Engine::Slurm {
        return begin_on_cluster(checked, origin, options, settings, observer);
    }
    let (planner, mut ready) = prepare(checked, options, settings, observer)?;
    let (programs, commit) = origin.finish();
    ready.executor.commit = commit.clone();
    let manifest = &planner.manifest;
    let results = ResultsFolder::new(settings.results(manifest.results()));
    observer.notice(Notice::Planned(&ready.plan));
    tell_of_noise(manifest, &ready.plan, observer);
    let new = new_run(manifest, ready.plugins.clone(), programs, commit);
    let writer = RunFolder::create(results.path(), new)?;
    if let Err(error) = write_plan(&writer, &ready.plan) {
        // A run without its plan could be neither read nor resumed.
        drop(writer.discard());
        return Err(error.into());
    }
    Ok(ready.begin(planner, writer, results))
}

/// Returns the facts of a run that begins.
fn new_run(
    manifest: &Manifest,
    plugins: Vec<RunPlugin>,
    programs: Vec<Program>,
    commit: Option<String>,
) -> NewRun {
    NewRun {
        experiment: manifest.experiment.name.clone(),
        description: manifest.experiment.description.clone(),
        host_version: env!("CARGO_PKG_VERSION").into(),
        manifest_path: manifest.path.clone(),
        manifest_text: manifest.text.clone(),
        plugins,
        programs,
        environment: host_machine::environment(commit),
    }
}

/// Starts a new run on a cluster. The folder comes first, because the job that gathers facts writes into it.
fn begin_on_cluster(
    checked: Checked,
    origin: Origin,
    options: &RunOptions,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<StartedRun> {
    cluster::check(&checked.manifest.experiment.execution)?;
    let on_cluster = OnCluster::prepare(checked, options, settings, observer)?;
    let (programs, commit) = origin.finish();
    let manifest = &on_cluster.manifest;
    let results = ResultsFolder::new(settings.results(manifest.results()));
    let writer = RunFolder::create(
        results.path(),
        new_run(manifest, on_cluster.plugins.clone(), programs, commit),
    )?;
    let run = writer.folder().path().to_owned();
    let begun =
        on_cluster.gather(&run, settings, observer).and_then(|(planner, ready, cluster)| {
            observer.notice(Notice::Planned(&ready.plan));
            write_plan(&writer, &ready.plan)?;
            Ok((planner, ready, cluster))
        });
    match begun {
        Ok((planner, ready, cluster)) => {
            let started = ready.begin(planner, writer, results);
            Ok(StartedRun { cluster: Some(cluster), ..started })
        }
        Err(error) => {
            drop(writer.discard());
            Err(error)
        }
    }
}

/// A run on a cluster whose nodes have not been asked for facts.
struct OnCluster {
    manifest: Manifest,
    files: Files,
    backends: Vec<ChosenBackend>,
    guests: Guests,
    plugins: Vec<RunPlugin>,
    executor: LocalExecutor,
}

impl OnCluster {
    fn prepare(
        checked: Checked,
        options: &RunOptions,
        settings: &Settings,
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        let Checked { manifest, mut files, mut backends, guests, runtimes } = checked;
        if options.install {
            install_missing(&mut backends, &runtimes, observer)?;
        }
        // It looks into models, and measures nothing.
        let mut executor = executor(settings)?;
        files.complete(&manifest, &backends, &mut executor, &settings.interrupt)?;
        let plugins = plugins(&backends, &guests)?;
        Ok(Self { manifest, files, backends, guests, plugins, executor })
    }

    /// Asks nodes for facts and plans.
    fn gather(
        self,
        run: &Path,
        settings: &Settings,
        observer: &mut dyn Observer,
    ) -> Result<(Planner, PreparedRun, Cluster)> {
        let execution = self.manifest.experiment.execution.clone();
        let submitter = Submitter::prepare(run, &execution, settings)?;
        let state = State::begin(&execution);
        state.write(run)?;
        let interrupt = &settings.interrupt;
        let kinds =
            Kinds::gather(run, &state.kinds, &self.backends, &submitter, interrupt, observer)?;
        let cluster = Cluster { execution, kinds, state, submitter };
        let (planner, ready) = self.plan(&cluster.kinds, settings)?;
        Ok((planner, ready, cluster))
    }

    /// Plans with the facts of nodes.
    fn plan(self, kinds: &Kinds, settings: &Settings) -> Result<(Planner, PreparedRun)> {
        let Self { manifest, mut files, guests, plugins, executor, .. } = self;
        files.place = Some(kinds.place());
        let Described { facts, failures } = kinds.described();
        let plan = manifest.plan(&files, facts.clone())?;
        manifest.check_data(&plan, &executor, &settings.interrupt)?;
        let planner = Planner { manifest, files, backends: facts };
        Ok((planner, PreparedRun { plan, plugins, guests, executor, failures }))
    }
}

/// Says what the noise of this machine means for a run on its processors, if it was measured.
fn tell_of_noise(manifest: &Manifest, plan: &Plan, observer: &mut dyn Observer) {
    let Some(noise) = Noise::kept() else { return };
    let kinds = plan.items().filter_map(|item| match item {
        PlannedCase::Case(case) => Some(case.device.kind),
        PlannedCase::Gap { .. } => None,
    });
    if are_processors(&kinds.collect())
        && let Some(noise) = NoiseOfRun::of(&noise, &manifest.experiment.measure)
    {
        observer.notice(Notice::Noise(noise));
    }
}

fn write_plan(writer: &RunWriter, plan: &Plan) -> Result<(), StoreError> {
    let mut lines = writer.plan_writer()?;
    for item in plan.items() {
        lines.write(&PlanLine {
            index: item.index(),
            case_id: item.id().to_owned(),
            key: item.key().clone(),
            gap: item.gap().cloned(),
            asked: None,
        })?;
    }
    lines.finish()
}

/// Prepares the rest of an interrupted run.
fn continue_run(
    run: &str,
    options: &RunOptions,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<Continuation> {
    let path = ResultsFolder::new(settings.results(None)).find(run)?;
    let mut writer = RunFolder::open_to_resume(&path)?;
    let folder = writer.folder();
    if folder.finished()?.is_some() {
        return Ok(Continuation::Finished(Box::new(folder.clone())));
    }
    if let Some(torn) = writer.torn() {
        observer.notice(Notice::TornLine(torn));
    }
    let original = folder.header().manifest_path.clone();
    let draft = Draft::parse(original, &path.join("manifest.toml"), folder.manifest_text()?);
    let checked = draft.check(settings, observer)?;
    let mut cluster = None;
    let (planner, mut ready) = match State::read(&path)? {
        Some(state) => {
            let execution = checked.manifest.experiment.execution.clone();
            cluster::check(&execution)?;
            let on_cluster = OnCluster::prepare(checked, options, settings, observer)?;
            let submitter = Submitter::prepare(&path, &execution, settings)?;
            let kinds = Kinds::read(&path)?;
            let (planner, ready) = on_cluster.plan(&kinds, settings)?;
            cluster = Some(Cluster { execution, kinds, state, submitter });
            (planner, ready)
        }
        None => prepare(checked, options, settings, observer)?,
    };
    ready.executor.commit = host_machine::git_commit(&planner.manifest.base);
    refuse_changes(folder, &ready)?;
    for lost in writer.forget_lost_references()? {
        observer.notice(Notice::LostReference(&lost));
    }
    for lost in writer.forget_lost()? {
        observer.notice(Notice::LostCase(&lost));
    }
    let results = results_of(&path, settings);
    observer.notice(Notice::Resuming {
        run: writer.folder().run_id(),
        // Cases that recommenders asked for are not of the plan.
        done: writer.lines().min(total(&ready.plan)),
        total: total(&ready.plan),
    });
    let started = ready.begin(planner, writer, results);
    Ok(Continuation::Started(Box::new(StartedRun { cluster, ..started })))
}

/// Processes of cases, and gaps.
fn total(plan: &Plan) -> u64 {
    let count = plan.count();
    count.cases * u64::from(plan.processes_of_each()) + count.gaps
}

/// State before the first case.
struct PreparedRun {
    plan: Plan,
    /// Every plugin that takes part.
    plugins: Vec<RunPlugin>,
    guests: Guests,
    executor: LocalExecutor,
    failures: BTreeMap<String, DescribeError>,
}

fn prepare(
    checked: Checked,
    options: &RunOptions,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<(Planner, PreparedRun)> {
    let Checked { manifest, mut files, mut backends, guests, runtimes } = checked;
    if options.install {
        install_missing(&mut backends, &runtimes, observer).map_err(|error| match error {
            Error::Runtime(error) if settings.interrupt.is_interrupted() => {
                Error::InterruptedInstallation(error)
            }
            error => error,
        })?;
    }
    let mut executor = executor(settings)?;
    files.complete(&manifest, &backends, &mut executor, &settings.interrupt)?;
    let Described { facts, failures } =
        describe_backends(&backends, &executor, &settings.interrupt);
    if settings.interrupt.is_interrupted() {
        return Err(Error::Interrupted);
    }
    let plan = manifest.plan(&files, facts.clone())?;
    manifest.check_data(&plan, &executor, &settings.interrupt)?;
    let cache = platform::architectures().ok_or(Error::NoCache);
    let cases = plan.items().filter_map(|item| match item {
        PlannedCase::Case(case) => Some(*case),
        PlannedCase::Gap { .. } => None,
    });
    files.architectures.write(cases, cache, observer)?;
    let plugins = plugins(&backends, &guests)?;
    let planner = Planner { manifest, files, backends: facts };
    Ok((planner, PreparedRun { plan, plugins, guests, executor, failures }))
}

/// Returns every plugin of the run, each once.
fn plugins(backends: &[ChosenBackend], guests: &Guests) -> Result<Vec<RunPlugin>> {
    let mut plugins: Vec<RunPlugin> = Vec::new();
    let mut add = |plugin| {
        if !plugins.contains(&plugin) {
            plugins.push(plugin);
        }
    };
    for backend in backends {
        if let Ok(plugin) = &backend.plugin {
            let (identity, runtime) = (plugin.identity.clone(), backend.runtime_identity()?);
            let hides = plugin.hides.as_ref().map(|hidden| hidden.display().to_string());
            add(RunPlugin { role: PluginRole::Backend, identity, runtime, hides });
        }
    }
    guests.run_plugins().for_each(add);
    Ok(plugins)
}

impl PreparedRun {
    fn begin(self, planner: Planner, writer: RunWriter, results: ResultsFolder) -> StartedRun {
        let Self { plan, guests, mut executor, failures, .. } = self;
        executor.references = Some(writer.references_folder());
        executor.calibrate = guests.metrics.iter().any(Guest::takes_peaks);
        let may_ask = guests.recommenders.iter().any(|guest| guest.ask.is_some());
        StartedRun {
            plan,
            planner: may_ask.then(|| Rc::new(planner)),
            guests,
            writer,
            executor,
            cluster: None,
            results,
            failures,
            guest_failure: None,
            is_news: false,
        }
    }
}

/// Results of one run come from the same code and the same files. If a model, a data file, a
/// backend or its devices have changed, the rest of a run would be another experiment.
fn refuse_changes(folder: &RunFolder, ready: &PreparedRun) -> Result<()> {
    let mut changes = Vec::new();
    for then in folder.header().plugins.iter() {
        let id = || then.identity.id.clone();
        let called_so = || {
            let called_so = |plugin: &&RunPlugin| {
                plugin.role == then.role && plugin.identity.id == then.identity.id
            };
            ready.plugins.iter().filter(called_so)
        };
        // Two builds of a plugin have one name.
        let is_same = |plugin: &&RunPlugin| plugin.identity.sha256 == then.identity.sha256;
        let same = called_so().find(is_same).or_else(|| called_so().next());
        match same {
            None => changes.push(Change::PluginGone { id: id() }),
            Some(plugin) if plugin.identity.sha256 != then.identity.sha256 => {
                let (then, now) = (then.identity.clone(), plugin.identity.clone());
                changes.push(Change::Plugin { then, now });
            }
            Some(plugin) if plugin.runtime != then.runtime => {
                changes.push(Change::Runtime { id: id() });
            }
            Some(_) => {}
        }
    }
    let mut planned = ready.plan.items();
    for line in folder.plan()? {
        let line = line?;
        if line.asked.is_some() {
            continue;
        }
        let Some(item) = planned.next() else {
            changes.push(Change::FewerCases);
            break;
        };
        if item.id() != line.case_id || item.gap() != line.gap.as_ref() {
            changes.push(Change::Case { key: line.key });
            break;
        }
    }
    if planned.next().is_some() && changes.is_empty() {
        changes.push(Change::MoreCases);
    }
    if changes.is_empty() { Ok(()) } else { Err(Error::Changed { changes }) }
}

impl StartedRun {
    fn execute(
        mut self,
        reports: Option<&Path>,
        interrupt: &Interrupt,
        observer: &mut dyn Observer,
    ) -> Result<ExecutedRun> {
        let mut interrupted = self.measure(interrupt, observer)?;
        let cancel = cancel(interrupt, interrupted);
        self.guests.sandbox.heed(cancel.clone());
        let mut views = Some(EmptyViews::begin());
        let mut missing =
            Missing { metrics: !self.compute_metrics(&cancel, observer)?, ..Missing::default() };
        if !interrupted && !missing.metrics {
            let explored = self.explore(interrupt, &cancel, observer)?;
            (interrupted, missing.metrics) = (explored.interrupted, explored.missing_metrics);
        }
        let (mut written, mut imported) = (Vec::new(), None);
        if interrupted || missing.metrics {
            let ids =
                |guests: &[Guest]| guests.iter().map(|guest| guest.identity.id.clone()).collect();
            missing.recommenders = ids(&self.guests.recommenders);
            missing.reports = ids(&self.guests.reports);
            interrupted = true;
        } else {
            missing.recommenders = self.ask_recommenders(&mut views, observer)?;
            // Reports and database tell when the run ended, and a run without its reports has not finished.
            self.writer.end()?;
            let (folder, results) = (self.writer.folder().clone(), self.results.clone());
            // Before the database is being written.
            let past =
                if self.guests.reports.is_empty() { Vec::new() } else { reports::past(&folder)? };
            let (reports, done) = thread::scope(|scope| {
                let importing = scope.spawn(|| import(&results, &folder));
                let reports = self.write_reports(reports, views, &past, observer);
                (reports, importing.join().expect("importing does not panic"))
            });
            let reports = reports?;
            (written, missing.reports) = (reports.written, reports.missing);
            interrupted = missing.is_any();
            if !interrupted {
                self.writer.finish()?;
                if self.cluster.is_some() {
                    cluster::tidy(self.writer.folder())?;
                }
                imported = Some(done);
            }
        }
        // As other readers see it: without an end if reports are missing.
        let folder = RunFolder::open(self.writer.folder().path())?;
        let imported = imported.unwrap_or_else(|| import(&self.results, &folder));
        let database = indexed(imported, observer);
        Ok(ExecutedRun {
            folder,
            results: self.results,
            interrupted,
            missing,
            reports: written,
            database,
            guest_failure: self.guest_failure,
            on_cluster: self.cluster.is_some(),
        })
    }

    /// Measures what is not recorded yet. Returns whether it was interrupted.
    fn measure(&mut self, interrupt: &Interrupt, observer: &mut dyn Observer) -> Result<bool> {
        if self.cluster.is_some() {
            return self.measure_on_cluster(interrupt, observer);
        }
        if self.plan.pairs().is_some() {
            return self.measure_pairs(interrupt, observer);
        }
        let processes = |item: &PlannedCase| match item {
            PlannedCase::Case(case) => case.process,
            PlannedCase::Gap { .. } => 0,
        };
        let done: BTreeSet<(String, u32)> = self
            .plan
            .processes()
            .map(|item| (item.id().to_owned(), processes(&item)))
            .filter(|(id, process)| self.writer.is_recorded(id, *process))
            .collect();
        self.is_news = done.len() as u64 != total(&self.plan);
        observer.progress(Progress::Measuring {
            plan: &self.plan,
            done: done.len() as u64,
            total: total(&self.plan),
        });
        let items = self.plan.processes().filter(|item| {
            done.is_empty() || !done.contains(&(item.id().to_owned(), processes(item)))
        });
        let mut keeper =
            Amending { writer: &mut self.writer, amend: of_dead_plugins(&self.failures) };
        let summary = execute(items, &mut self.executor, &mut keeper, interrupt, observer);
        self.kept(summary)
    }

    /// Measures on a cluster what is not recorded yet. Returns whether it was interrupted.
    fn measure_on_cluster(
        &mut self,
        interrupt: &Interrupt,
        observer: &mut dyn Observer,
    ) -> Result<bool> {
        let (mut gaps, mut work) = (Vec::new(), Vec::new());
        match self.plan.pairs() {
            Some(pairs) => {
                for item in pairs {
                    match item {
                        PlannedPair::Gap(gap) => gaps.push(gap),
                        PlannedPair::Pair(sides) => work.push(Work::Pair(sides)),
                    }
                }
            }
            None => {
                for item in self.plan.items() {
                    match item {
                        PlannedCase::Case(case) => work.push(Work::Case(case)),
                        gap @ PlannedCase::Gap { .. } => gaps.push(gap),
                    }
                }
            }
        }
        gaps.retain(|gap| !self.writer.is_recorded(gap.id(), 0));
        let (done, total) = (self.writer.lines(), total(&self.plan));
        self.is_news = done != total;
        observer.progress(Progress::Measuring { plan: &self.plan, done, total });
        let mut keeper =
            Amending { writer: &mut self.writer, amend: of_dead_plugins(&self.failures) };
        let executor = &mut self.executor;
        let of_gaps = host_run::run(gaps, executor, &mut keeper, &mut OfCases(observer), interrupt);
        drop(keeper);
        if self.kept(of_gaps)? {
            return Ok(true);
        }
        self.follow(work, interrupt, observer)
    }

    /// Measures work on the cluster. Returns whether it was interrupted.
    fn follow(
        &mut self,
        work: Vec<Work>,
        interrupt: &Interrupt,
        observer: &mut dyn Observer,
    ) -> Result<bool> {
        let Some(cluster) = &mut self.cluster else { return Ok(false) };
        let followed = cluster.measure(work, &mut self.writer, interrupt, observer);
        observer.progress(Progress::Measured);
        Ok(matches!(followed?, Followed::Interrupted))
    }

    /// Returns whether measuring was interrupted.
    fn kept(&self, summary: Result<RunSummary, RunError>) -> Result<bool> {
        summary.map(|summary| summary.interrupted).map_err(|error| Error::NotKept {
            run: self.writer.folder().run_id().to_owned(),
            results: self.results.path().to_owned(),
            error,
        })
    }

    /// Measures in pairs what is not recorded yet. Returns whether it was interrupted.
    fn measure_pairs(
        &mut self,
        interrupt: &Interrupt,
        observer: &mut dyn Observer,
    ) -> Result<bool> {
        let (mut gaps, mut pairs) = (Vec::new(), Vec::new());
        for item in self.plan.pairs().into_iter().flatten() {
            match item {
                PlannedPair::Gap(gap) => gaps.push(gap),
                PlannedPair::Pair(cases) => {
                    self.writer.forget_half_pairs([&*cases[0].id, &*cases[1].id])?;
                    // A case that has ended has all its processes.
                    if !self.writer.is_recorded(&cases[1].id, u32::MAX) {
                        let ratios = self.writer.ratios(&cases[1].id);
                        pairs.push(UnfinishedPair { cases, ratios });
                    }
                }
            }
        }
        gaps.retain(|gap| !self.writer.is_recorded(gap.id(), 0));
        self.is_news = !gaps.is_empty() || !pairs.is_empty();
        let (done, total) = (self.writer.lines(), total(&self.plan));
        observer.progress(Progress::Measuring { plan: &self.plan, done, total });
        let mut keeper =
            Amending { writer: &mut self.writer, amend: of_dead_plugins(&self.failures) };
        let executor = &mut self.executor;
        let observer = &mut OfCases(observer);
        let of_gaps = host_run::run(gaps, executor, &mut keeper, observer, interrupt);
        let summary = of_gaps
            .and_then(|_| host_run::run_pairs(pairs, executor, &mut keeper, observer, interrupt));
        observer.0.progress(Progress::Measured);
        self.kept(summary)
    }

    /// Lets recommenders ask for further cases, and measures them, until none asks for more.
    fn explore(
        &mut self,
        interrupt: &Interrupt,
        cancel: &Cancel,
        observer: &mut dyn Observer,
    ) -> Result<Explored> {
        let Some(planner) = self.planner.clone() else { return Ok(Explored::default()) };
        for place in 0..self.guests.recommenders.len() {
            loop {
                let guest = &self.guests.recommenders[place];
                let (Some(granted), id) = (guest.ask, guest.identity.id.clone()) else { break };
                let folder = self.writer.folder().clone();
                let wishes = Rc::new(Wishes::of(&id, granted, &planner, &folder)?);
                let views: Rc<dyn Views> = Rc::new(RunViews::open(&folder)?);
                let more: Rc<dyn MoreCases> = Rc::clone(&wishes) as _;
                let sandbox = &self.guests.sandbox;
                match sandbox.recommend(&guest.plugin, views, Some(more), &guest.options) {
                    Ok(_) => {}
                    Err(error) if matches!(*error.kind, GuestErrorKind::Cancelled) => {
                        return Ok(Explored { interrupted: true, ..Explored::default() });
                    }
                    // It is told of when it is asked for its advice.
                    Err(_) => break,
                }
                let asked = wishes.taken();
                if asked.is_empty() {
                    break;
                }
                for (case, is_new) in &asked {
                    if *is_new {
                        self.writer.add_to_plan(&PlanLine::from(case))?;
                    }
                }
                let cases: Vec<CaseSpec> = asked.into_iter().map(|(case, _)| case).collect();
                observer.notice(Notice::AskedFor { plugin: &id, cases: &cases });
                if self.measure_more(&cases, &planner, interrupt, observer)? {
                    return Ok(Explored { interrupted: true, ..Explored::default() });
                }
                self.is_news = true;
                if !self.compute_metrics(cancel, observer)? {
                    return Ok(Explored { missing_metrics: true, ..Explored::default() });
                }
            }
        }
        Ok(Explored::default())
    }

    /// Measures cases that a recommender has asked for. Returns whether it was interrupted.
    fn measure_more(
        &mut self,
        cases: &[CaseSpec],
        planner: &Planner,
        interrupt: &Interrupt,
        observer: &mut dyn Observer,
    ) -> Result<bool> {
        if self.cluster.is_some() {
            let total = cases.len() as u64 * u64::from(self.plan.processes_of_each());
            observer.progress(Progress::MeasuringMore { cases, total });
            let work = cases.iter().map(|case| Work::Case(Box::new(case.clone())));
            return self.follow(work.collect(), interrupt, observer);
        }
        let cache = platform::architectures().ok_or(Error::NoCache);
        planner.files.architectures.write(cases.iter().cloned(), cache, observer)?;
        let processes = self.plan.processes_of_each();
        let total = cases.len() as u64 * u64::from(processes);
        observer.progress(Progress::MeasuringMore { cases, total });
        let of_process =
            |process| cases.iter().map(move |case| CaseSpec { process, ..case.clone() });
        let items: Vec<PlannedCase> = (0..processes)
            .flat_map(of_process)
            .filter(|case| !self.writer.is_recorded(&case.id, case.process))
            .map(|case| PlannedCase::Case(Box::new(case)))
            .collect();
        let mut keeper =
            Amending { writer: &mut self.writer, amend: of_dead_plugins(&self.failures) };
        let summary = execute(items, &mut self.executor, &mut keeper, interrupt, observer);
        self.kept(summary)
    }

    /// Computes what has not been computed yet, for every finished case. Returns whether all is computed.
    fn compute_metrics(&mut self, cancel: &Cancel, observer: &mut dyn Observer) -> Result<bool> {
        let folder = self.writer.folder().clone();
        let Self { guests, writer, guest_failure, is_news, .. } = self;
        let mut before: Option<Computed> = None;
        let mut on_result = |computed: Computed| {
            // Being interrupted is not a failure, so it is not recorded.
            if computed.now.error.is_some() && cancel.is_asked() {
                return Err(Error::Interrupted);
            }
            tell(&computed, before.as_ref(), observer);
            let is_kept = !computed.is_news() || record_result(writer, &computed.now, observer)?;
            if computed.now.error.is_some() || !is_kept {
                *guest_failure = Some(GuestFailure::Plugin);
            }
            *is_news |= computed.is_news();
            before = Some(computed);
            Ok(())
        };
        let Guests { sandbox, metrics, .. } = guests;
        match compute(sandbox, metrics, &folder, &[], Extent::Missing, &mut on_result) {
            Err(Error::Interrupted) => Ok(false),
            computed => computed.map(|()| true),
        }
    }

    /// Asks the recommenders whose advice is missing or of earlier values. Returns those that are missing still.
    fn ask_recommenders(
        &mut self,
        views: &mut Option<EmptyViews>,
        observer: &mut dyn Observer,
    ) -> Result<Vec<String>> {
        let folder = self.writer.folder();
        let recorded = if self.is_news { Vec::new() } else { folder.recommendations()? };
        let is_recorded = |guest: &&Guest| {
            recorded.iter().any(|record| {
                (&record.plugin, &record.options) == (&guest.identity, &guest.options)
            })
        };
        let Guests { sandbox, recommenders, .. } = &self.guests;
        let asked: Vec<&Guest> = recommenders.iter().filter(|guest| !is_recorded(guest)).collect();
        let mut for_advice = None;
        if !asked.is_empty() {
            for_advice = views.replace(EmptyViews::begin());
        }
        let planner = self.planner.as_ref();
        let advised = ask(folder, sandbox, &asked, planner, for_advice, observer)?;
        for record in &advised.records {
            self.writer.record_recommendations(record)?;
            self.is_news = true;
        }
        self.guest_failure = advised.failure.or(self.guest_failure);
        Ok(advised.missing)
    }

    fn write_reports(
        &mut self,
        to: Option<&Path>,
        views: Option<EmptyViews>,
        past: &[Past],
        observer: &mut dyn Observer,
    ) -> Result<Reports> {
        let folder = self.writer.folder();
        let reports =
            reports::write(folder, &self.guests, to, !self.is_news, views, past, observer)?;
        self.guest_failure = reports.failure.or(self.guest_failure);
        Ok(reports)
    }
}

/// Executes cases and records them.
fn execute(
    items: impl IntoIterator<Item = PlannedCase>,
    executor: &mut LocalExecutor,
    keeper: &mut impl Recorder<Error = StoreError>,
    interrupt: &Interrupt,
    observer: &mut dyn Observer,
) -> Result<RunSummary, RunError> {
    let summary = host_run::run(items, executor, keeper, &mut OfCases(observer), interrupt);
    observer.progress(Progress::Measured);
    summary
}

/// Returns when calls of guests are to end: as soon as the user asks for it. If measuring was interrupted, the
/// finished cases still get their metrics, within a short time.
fn cancel(interrupt: &Interrupt, interrupted: bool) -> Cancel {
    let interrupt = interrupt.clone();
    let end = interrupted.then(|| Instant::now() + PATIENCE);
    Cancel::when(move || match end {
        Some(end) => Instant::now() >= end,
        None => interrupt.is_interrupted(),
    })
}

/// Asks recommenders about a run.
///
/// # Errors
///
/// If the run folder cannot be read.
pub fn recommend(
    folder: &RunFolder,
    guests: &Guests,
    observer: &mut dyn Observer,
) -> Result<Advised> {
    let recommenders: Vec<&Guest> = guests.recommenders.iter().collect();
    ask(folder, &guests.sandbox, &recommenders, None, None, observer)
}

fn ask(
    folder: &RunFolder,
    sandbox: &Sandbox,
    recommenders: &[&Guest],
    planner: Option<&Rc<Planner>>,
    views: Option<EmptyViews>,
    observer: &mut dyn Observer,
) -> Result<Advised> {
    let mut advised = Advised::default();
    if recommenders.is_empty() {
        return Ok(advised);
    }
    let views: Rc<dyn Views> = Rc::new(RunViews::open_in(views, folder)?);
    for Guest { plugin, identity, options, ask, .. } in recommenders {
        // It may look at what is left, and has asked for all that it wants: what it asks for now is not measured.
        let more: Option<Rc<dyn MoreCases>> = match ask.zip(planner) {
            Some((granted, planner)) => {
                Some(Rc::new(Wishes::of(&identity.id, granted, planner, folder)?))
            }
            None => None,
        };
        match sandbox.recommend(plugin, Rc::clone(&views), more, options) {
            Ok(Advice { recommendations, predictions }) => {
                let (identity, options) = (identity.clone(), options.clone());
                let record =
                    RecommendationRecord::new(identity, options, recommendations, predictions);
                advised.records.push(record);
            }
            Err(error) if matches!(*error.kind, GuestErrorKind::Cancelled) => {
                advised.missing.push(identity.id.clone());
            }
            Err(error) => {
                advised.failure = Some(GuestFailure::Plugin);
                observer.notice(Notice::AdviceFailed { plugin: &identity.id, error: &error });
            }
        }
    }
    Ok(advised)
}

/// Returns a record of a case of a plugin that is there and died: the plan has a gap for it, since it knows no devices there,
/// but it has failed, and so have its cases.
fn of_dead_plugins(
    failures: &BTreeMap<String, DescribeError>,
) -> impl Fn(&CaseRecord) -> Option<CaseRecord> + '_ {
    |record| {
        let error = failures.get(&record.key.backend)?;
        matches!(record.outcome, Outcome::Gap { .. }).then(|| CaseRecord {
            outcome: Outcome::Failed { failure: error.failure.clone() },
            standard_error: error.standard_error.clone(),
            ..record.clone()
        })
    }
}
