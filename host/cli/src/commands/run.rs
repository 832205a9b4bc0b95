/*!
`host run`: from a manifest to results, reports and advice.

Everything that can be known to be wrong is found before the first case: the manifest, its files,
and every plugin that it names. Then nothing but the cases runs until the last of them has ended;
metrics, advice, reports and the database come after that. A plugin that fails there costs its own
output and nothing that was measured, and the exit code says so.
*/

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use host_plan::{Plan, PlannedCase};
use host_record::{CaseRecord, CaseSpec, Outcome, OutputBlock, Recorder, SampleBlock, Views};
use host_run::{DescribeError, Interrupt, RunSummary, Runner};
use host_store::{
    Database, NewRun, PlanLine, PluginRole, RecommendationRecord, ResultRecord, ResultsFolder,
    RunFolder, RunPlugin, RunViews, RunWriter, StoreError,
};
use host_wasm::GuestErrorKind;
use serde_json::{Value, json};

use crate::arguments::RunArguments;
use crate::axes::Common;
use crate::commands::plan::summarise;
use crate::commands::results::{PATIENCE, warn_of_flaws};
use crate::exit::Exit;
use crate::experiment::{
    self, Checked, ChosenBackend, Described, Draft, Manifest, describe_backends, install_missing,
};
use crate::failure::{Failure, Result};
use crate::guests::{Chosen, Guest};
use crate::metrics::{self, Computed, Extent};
use crate::platform;
use crate::printer::Printer;
use crate::programs::Hashing;
use crate::progress::Progress;
use crate::settings::Settings;
use crate::summary::Summary;

pub(crate) fn run(
    arguments: &RunArguments,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let interrupt = Interrupt::new();
    listen(&interrupt, printer)?;
    let begun = match (&arguments.resume, &arguments.manifest) {
        (Some(run), _) => resume(run, arguments, settings, &interrupt, printer)?,
        (None, Some(manifest)) => begin(manifest, arguments, settings, &interrupt, printer)?,
        (None, None) => return Err(Failure::new(Exit::Usage, "name a manifest, or --resume RUN")),
    };
    let Some(begun) = begun else { return Ok(Exit::Success) };
    begun.execute(arguments.report_dir.as_deref(), &interrupt, printer)
}

/// Ctrl-C asks the run to stop; a second one ends the host.
fn listen(interrupt: &Interrupt, printer: &Printer) -> Result<()> {
    let (interrupt, printer) = (interrupt.clone(), printer.clone());
    platform::on_termination(move || {
        if interrupt.interrupt() {
            printer.status("Stopping", "what is in progress is given up; finished cases are kept");
        } else {
            crate::exit::at_once(Exit::Interrupted);
        }
    })
    .map_err(|error| Failure::new(Exit::Failure, "cannot listen for Ctrl-C").because(error))
}

/// A run that is about to measure.
struct Begun {
    plan: Plan,
    guests: Chosen,
    writer: RunWriter,
    runner: Runner,
    results: ResultsFolder,
    /// Backends that could not be described, by their id in the manifest.
    failures: BTreeMap<String, DescribeError>,
    /// How the run ends where a guest failed, and so its output is missing.
    guest_failed: Option<Exit>,
}

/// Starts a new run.
fn begin(
    path: &Path,
    arguments: &RunArguments,
    settings: &Settings,
    interrupt: &Interrupt,
    printer: &Printer,
) -> Result<Option<Begun>> {
    let programs = Hashing::start(settings);
    let checked = Draft::read(path)?.check(settings, printer)?;
    if checked.manifest.base.to_str().is_none() {
        let message =
            format!("the folder {} has a name that is not UTF-8", checked.manifest.base.display());
        return Err(Failure::new(Exit::Manifest, message).help(
            "models and data are found from there, and recorded as text: put them elsewhere",
        ));
    }
    let (manifest, ready) = prepare(checked, arguments, settings, interrupt, printer)?;
    let results = ResultsFolder::new(settings.results(manifest.results()));
    summarise(&ready.plan, printer);
    for line in gap_reasons(&ready.plan) {
        printer.detail(line);
    }
    let writer = RunFolder::create(
        results.path(),
        NewRun {
            experiment: manifest.experiment.name.clone(),
            description: manifest.experiment.description.clone(),
            host_version: env!("CARGO_PKG_VERSION").into(),
            manifest_path: manifest.path.clone(),
            manifest_text: manifest.text.clone(),
            plugins: ready.plugins.clone(),
            programs: programs.finish(),
            environment: host_machine::environment(Some(&manifest.base)),
        },
    )?;
    if let Err(error) = write_plan(&writer, &ready.plan) {
        // A run without its plan could be neither read nor resumed.
        drop(writer.discard());
        return Err(error.into());
    }
    Ok(Some(ready.begin(writer, results)))
}

fn write_plan(writer: &RunWriter, plan: &Plan) -> Result<(), StoreError> {
    let mut lines = writer.plan_writer()?;
    for item in plan.items() {
        lines.write(&PlanLine {
            index: item.index(),
            case_id: item.id().to_owned(),
            key: item.key().clone(),
            gap: item.gap().cloned(),
        })?;
    }
    lines.finish()
}

/// Goes on with an interrupted run, with the manifest as it was and everything else unchanged.
fn resume(
    run: &str,
    arguments: &RunArguments,
    settings: &Settings,
    interrupt: &Interrupt,
    printer: &Printer,
) -> Result<Option<Begun>> {
    let path = ResultsFolder::new(settings.results(None)).find(run)?;
    let mut writer = RunFolder::open_to_resume(&path)?;
    let folder = writer.folder();
    if folder.finished()?.is_some() {
        warn_of_flaws(&folder.flaws()?, printer);
        printer.status("Finished", format_args!("{} has nothing left to do", folder.run_id()));
        return Ok(None);
    }
    if let Some(torn) = writer.torn() {
        printer.warning(
            format_args!(
                "a crash had cut line {} of {} short; it is dropped, and its case is measured again",
                torn.line,
                torn.path.display()
            ),
            None,
        );
    }
    let original = folder.header().manifest_path.clone();
    let draft = Draft::parse(original, &path.join("manifest.toml"), folder.manifest_text()?);
    let checked = draft.check(settings, printer)?;
    let (_, ready) = prepare(checked, arguments, settings, interrupt, printer)?;
    refuse_changes(folder, &ready)?;
    for lost in writer.forget_lost_references()? {
        printer.warning(format_args!("{lost}; they are made again for the cases left"), None);
    }
    for lost in writer.forget_lost()? {
        printer.warning(format_args!("{lost}; the case is measured again"), None);
    }
    let results = results_of(&path, settings);
    printer.status(
        "Resuming",
        format_args!(
            "{}: {} of {} done",
            writer.folder().run_id(),
            writer.lines(),
            ready.plan.count().cases * u64::from(ready.plan.processes_of_each())
                + ready.plan.count().gaps
        ),
    );
    Ok(Some(ready.begin(writer, results)))
}

/// What is known before the first case.
struct Ready {
    plan: Plan,
    /// Every plugin that takes part.
    plugins: Vec<RunPlugin>,
    guests: Chosen,
    runner: Runner,
    failures: BTreeMap<String, DescribeError>,
}

fn prepare(
    checked: Checked,
    arguments: &RunArguments,
    settings: &Settings,
    interrupt: &Interrupt,
    printer: &Printer,
) -> Result<(Manifest, Ready)> {
    let Checked { manifest, files, mut backends, guests, runtimes } = checked;
    if arguments.install {
        install_missing(&mut backends, &runtimes, printer).map_err(|mut failure| {
            if interrupt.is_interrupted() {
                failure.exit = Exit::Interrupted;
            }
            failure
        })?;
    }
    let mut runner = experiment::runner_for(settings, &backends)?;
    runner.repository = Some(manifest.base.clone());
    let Described { facts, failures } = describe_backends(&backends, &runner, interrupt);
    if interrupt.is_interrupted() {
        return Err(Failure::new(Exit::Interrupted, "interrupted before anything was measured"));
    }
    let plan = manifest.plan(files, facts)?;
    let plugins = plugins(&backends, &guests)?;
    Ok((manifest, Ready { plan, plugins, guests, runner, failures }))
}

/// Every plugin that takes part, each once.
fn plugins(backends: &[ChosenBackend], guests: &Chosen) -> Result<Vec<RunPlugin>> {
    let mut plugins: Vec<RunPlugin> = Vec::new();
    let mut add = |plugin| {
        if !plugins.contains(&plugin) {
            plugins.push(plugin);
        }
    };
    for backend in backends {
        if let Ok(plugin) = &backend.plugin {
            let (identity, runtime) = (plugin.identity.clone(), backend.runtime_identity()?);
            add(RunPlugin { role: PluginRole::Backend, identity, runtime });
        }
    }
    guests.run_plugins().for_each(add);
    Ok(plugins)
}

impl Ready {
    fn begin(self, writer: RunWriter, results: ResultsFolder) -> Begun {
        let Self { plan, guests, mut runner, failures, .. } = self;
        runner.references = Some(writer.references_folder());
        Begun { plan, guests, writer, runner, results, failures, guest_failed: None }
    }
}

/// The reasons of a plan's gaps, each once.
fn gap_reasons(plan: &Plan) -> Vec<String> {
    if plan.count().gaps == 0 {
        return Vec::new();
    }
    let mut reasons: Vec<(String, u64)> = Vec::new();
    for item in plan.items() {
        let Some(gap) = item.gap() else { continue };
        match reasons.iter().position(|(reason, _)| *reason == gap.reason) {
            Some(known) => reasons[known].1 += 1,
            None if reasons.len() < 10 => reasons.push((gap.reason.clone(), 1)),
            None => {}
        }
    }
    reasons
        .into_iter()
        .map(|(reason, count)| format!("{}: {reason}", crate::units::count(count, "gap", "gaps")))
        .collect()
}

/// Results of one run come from the same code and the same files. Where a model, a data file, a
/// backend or its devices have changed, the rest of a run would be another experiment.
fn refuse_changes(folder: &RunFolder, ready: &Ready) -> Result<()> {
    let mut changes = Vec::new();
    let now = &ready.plugins;
    for then in folder.header().plugins.iter() {
        let same = now
            .iter()
            .find(|plugin| plugin.role == then.role && plugin.identity.id == then.identity.id);
        match same {
            None => changes.push(format!("the plugin `{}` is gone", then.identity.id)),
            Some(plugin) if plugin.identity.sha256 != then.identity.sha256 => {
                changes.push(format!(
                    "the plugin `{}` was {} and is {}",
                    then.identity.id,
                    described(&then.identity),
                    described(&plugin.identity)
                ))
            }
            Some(plugin) if plugin.runtime != then.runtime => {
                changes.push(format!("the plugin `{}` ran on another runtime", then.identity.id));
            }
            Some(_) => {}
        }
    }
    let mut planned = ready.plan.items();
    for line in folder.plan()? {
        let line = line?;
        let Some(item) = planned.next() else {
            changes.push("there are fewer cases now".into());
            break;
        };
        if item.id() != line.case_id || item.gap() != line.gap.as_ref() {
            changes.push(format!(
                "the case {} is planned otherwise: its model, data or device has changed",
                line.key
            ));
            break;
        }
    }
    if planned.next().is_some() && changes.is_empty() {
        changes.push("there are more cases now".into());
    }
    if changes.is_empty() {
        return Ok(());
    }
    let message =
        format!("the run cannot be resumed, since its parts have changed: {}", changes.join("; "));
    Err(Failure::new(Exit::Failure, message).help(
        "put back what was there when it began, or start a new run; what was measured is kept",
    ))
}

fn described(identity: &host_record::PluginIdentity) -> String {
    let hash = identity.sha256.get(..12).unwrap_or(&identity.sha256);
    format!("{} ({hash})", identity.version)
}

impl Begun {
    fn execute(
        mut self,
        report_folder: Option<&Path>,
        interrupt: &Interrupt,
        printer: &Printer,
    ) -> Result<Exit> {
        let RunSummary { interrupted, .. } = self.measure(interrupt, printer)?;
        self.compute_metrics(printer)?;
        let folder = self.writer.folder().clone();
        if interrupted {
            index(&self.results, &folder, printer);
            let summary = Summary::read(&folder)?;
            self.show(&summary, &[], printer);
            printer.status("Interrupted", "what is finished is kept; do the rest with:");
            printer.detail(self.resume_command());
            return Ok(Exit::Interrupted);
        }
        self.ask_recommenders(printer)?;
        self.writer.finish()?;
        let reports = self.write_reports(report_folder, printer)?;
        let database = index(&self.results, &folder, printer);
        let summary = Summary::read(&folder)?;
        self.show(&summary, &reports, printer);
        printer.status("Run folder", folder.path().display());
        if let Some(database) = database {
            printer.status("Database", database.display());
        }
        for (_, files) in &reports {
            if let Some(main) = files.first() {
                printer.status("Report", main.display());
            }
        }
        Ok(match summary.counts() {
            (_, 1.., _) => Exit::CasesFailed,
            (0, 0, _) => Exit::NothingToRun,
            _ => self.guest_failed.unwrap_or(Exit::Success),
        })
    }

    fn measure(&mut self, interrupt: &Interrupt, printer: &Printer) -> Result<RunSummary> {
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
        let common = Common::of(self.plan.items().map(|item| item.key().clone()));
        let count = self.plan.count();
        let total = count.cases * u64::from(self.plan.processes_of_each()) + count.gaps;
        let mut progress = Progress::new(printer, common, total, done.len() as u64);
        let items = self.plan.processes().filter(|item| {
            done.is_empty() || !done.contains(&(item.id().to_owned(), processes(item)))
        });
        let mut keeper = Keeper { writer: &mut self.writer, failures: &self.failures };
        let summary = self.runner.run(items, &mut keeper, &mut progress, interrupt);
        progress.clear();
        summary.map_err(|error| {
            let failure = Failure::new(Exit::Failure, error.to_string());
            failure
                .help(format!("when that is mended, do the rest with: {}", self.resume_command()))
        })
    }

    fn resume_command(&self) -> String {
        let folder = self.writer.folder();
        let results = self.results.path();
        let place = if results == Path::new("results") {
            String::new()
        } else {
            format!(" --results {}", shell_word(results))
        };
        // As it was called this time, which need not be by a name that the shell finds.
        let program = std::env::args_os().next().unwrap_or_else(|| "host".into());
        let program = shell_word(Path::new(&program));
        format!("{program} run --resume {}{place}", folder.run_id())
    }

    /// Computes what has not been computed yet, for every finished case.
    fn compute_metrics(&mut self, printer: &Printer) -> Result<()> {
        let folder = self.writer.folder().clone();
        let Self { guests, writer, guest_failed, .. } = self;
        let mut said = String::new();
        let mut told = |computed: Computed| {
            if let Some(failure) = computed.failure() {
                if failure != said {
                    printer.warning(&failure, None);
                    said = failure;
                }
                *guest_failed = Some(Exit::Plugin);
            }
            if computed.is_news() && !record_result(writer, &computed.now, printer)? {
                *guest_failed = Some(Exit::Plugin);
            }
            Ok(())
        };
        let Chosen { sandbox, metrics, .. } = guests;
        metrics::compute(sandbox, metrics, &folder, &[], Extent::Missing, &mut told)
    }

    fn ask_recommenders(&mut self, printer: &Printer) -> Result<()> {
        if self.guests.recommenders.is_empty() {
            return Ok(());
        }
        let views: Rc<dyn Views> = Rc::new(RunViews::open(self.writer.folder())?);
        for Guest { plugin, identity, options } in &self.guests.recommenders {
            match self.guests.sandbox.recommend(plugin, Rc::clone(&views), options) {
                Ok(advice) => {
                    let record =
                        RecommendationRecord::new(identity.clone(), options.clone(), advice);
                    self.writer.record_recommendations(&record)?;
                }
                Err(error) => {
                    self.guest_failed = Some(Exit::Plugin);
                    printer.warning(
                        format_args!("recommender `{}` gave no advice: {error}", identity.id),
                        None,
                    );
                }
            }
        }
        Ok(())
    }

    /// Writes every report; the plugin's id, and its files, the main one first.
    fn write_reports(
        &mut self,
        folder: Option<&Path>,
        printer: &Printer,
    ) -> Result<Vec<(String, Vec<PathBuf>)>> {
        let mut written = Vec::new();
        if self.guests.reports.is_empty() {
            return Ok(written);
        }
        let folder = match folder {
            Some(folder) => {
                std::fs::create_dir_all(folder)
                    .map_err(|error| Failure::io("create", folder, error))?;
                folder.to_owned()
            }
            None => self.writer.folder().reports_folder()?,
        };
        let views: Rc<dyn Views> = Rc::new(RunViews::open(self.writer.folder())?);
        for Guest { plugin, identity, options } in &self.guests.reports {
            match self.guests.sandbox.render(plugin, Rc::clone(&views), &folder, options) {
                Ok(files) => written.push((identity.id.clone(), files)),
                Err(error) => {
                    self.guest_failed = Some(match *error.kind {
                        // Not the plugin's fault.
                        GuestErrorKind::Output { .. } => Exit::Failure,
                        _ => Exit::Plugin,
                    });
                    printer.warning(
                        format_args!("report `{}` was not written: {error}", identity.id),
                        None,
                    );
                }
            }
        }
        Ok(written)
    }

    fn show(&self, summary: &Summary, reports: &[(String, Vec<PathBuf>)], printer: &Printer) {
        let folder = self.writer.folder().path();
        let document = || {
            let mut document = summary.document(folder);
            document["database"] = json!(self.results.database_path());
            document["reports"] = reports
                .iter()
                .map(|(id, files)| json!({ "plugin": id, "files": files }))
                .collect::<Vec<Value>>()
                .into();
            document
        };
        if !printer.machine(document, || summary.rows()) {
            let text = summary.human(printer.width(), printer.palette(), printer.is_verbose());
            printer.show(format_args!("\n{text}"));
        }
    }
}

/// Brings a run into the database. Whatever hinders that is no failure of the run.
pub(crate) fn index(
    results: &ResultsFolder,
    folder: &RunFolder,
    printer: &Printer,
) -> Option<PathBuf> {
    let indexed = Database::open(results, PATIENCE).and_then(|mut database| {
        database.sync(folder)?;
        database.close()
    });
    match indexed {
        Ok(()) => Some(results.database_path()),
        Err(error) => {
            printer.warning(
                format_args!("the run is kept in its folder, and not in the database: {error}"),
                Some(
                    &error
                        .hint()
                        .unwrap_or_else(|| "`host results sync` brings it in later".into()),
                ),
            );
            None
        }
    }
}

/// The results folder in which a run's folder lies, wherever that was found: `runs/RUN` in it.
pub(crate) fn results_of(path: &Path, settings: &Settings) -> ResultsFolder {
    let results = path.parent().and_then(Path::parent).map(Path::to_owned);
    ResultsFolder::new(results.unwrap_or_else(|| settings.results(None)))
}

/// Records cases in the run folder. The plan has gaps where a plugin could not be described, since
/// it knows no devices there; but a plugin that is there and dies has failed, and so have its cases.
struct Keeper<'run> {
    writer: &'run mut RunWriter,
    failures: &'run BTreeMap<String, DescribeError>,
}

impl Recorder for Keeper<'_> {
    type Error = StoreError;

    fn case_started(&mut self, case: &CaseSpec) -> Result<(), StoreError> {
        self.writer.case_started(case)
    }

    fn samples(&mut self, block: &SampleBlock) -> Result<(), StoreError> {
        self.writer.samples(block)
    }

    fn outputs(&mut self, block: &OutputBlock) -> Result<(), StoreError> {
        self.writer.outputs(block)
    }

    fn case_finished(&mut self, record: &CaseRecord) -> Result<(), StoreError> {
        match (&record.outcome, self.failures.get(&record.key.backend)) {
            (Outcome::Gap { .. }, Some(error)) => self.writer.case_finished(&CaseRecord {
                outcome: Outcome::Failed { failure: error.failure.clone() },
                standard_error: error.standard_error.clone(),
                ..record.clone()
            }),
            _ => self.writer.case_finished(record),
        }
    }
}

/// The path as one word of a POSIX shell.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@%,=".contains(&byte);
    if text.bytes().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Keeps a result; a plugin's value that is no number costs the plugin its output. Whether there is
/// any.
pub(crate) fn record_result(
    writer: &mut RunWriter,
    result: &ResultRecord,
    printer: &Printer,
) -> Result<bool> {
    match writer.record_result(result) {
        Err(error @ StoreError::NotFinite { .. }) => {
            printer.warning(&error, None);
            let failed = ResultRecord::failed(
                result.case_id.clone(),
                result.plugin.clone(),
                result.options.clone(),
                error.to_string(),
            );
            writer.record_result(&failed)?;
            Ok(false)
        }
        other => {
            other?;
            Ok(result.error.is_none())
        }
    }
}
