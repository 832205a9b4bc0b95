//! Notices as lines and progress as bars, for a person at a terminal.

use std::collections::BTreeMap;

use host_experiment::{Notice, Observer, Progress};
use host_plan::Plan;
use host_record::Gap;
use host_store::Flaw;

use crate::axes::Common;
use crate::noise::noise_of_run;
use crate::notes;
use crate::printer::{Printer, STATUS};
use crate::progress::Bar;
use crate::runtimes::Watch;
use crate::terminal;
use crate::visible::{self, wrapped};
use host_experiment::units;

/// Shows notices and progress.
pub(crate) struct Console<'printer> {
    printer: &'printer Printer,
    bar: Option<Bar<'printer>>,
    bytes: Watch<'printer>,
    /// The latest help about a missing backend.
    helped: Option<String>,
    /// Number of cases that each metric plugin failed on.
    metric_errors: BTreeMap<String, u64>,
}

impl<'printer> Console<'printer> {
    pub(crate) fn new(printer: &'printer Printer) -> Self {
        let bytes = Watch::new(printer);
        Self { printer, bar: None, bytes, helped: None, metric_errors: BTreeMap::new() }
    }

    /// Prints a status line above the bar, if there is one.
    fn say(&self, verb: &str, text: impl std::fmt::Display) {
        match &self.bar {
            Some(bar) => bar.suspended(|| self.printer.status(verb, text)),
            None => self.printer.status(verb, text),
        }
    }

    /// Prints a warning above the bar, if there is one.
    fn warn(&self, text: impl std::fmt::Display, help: Option<&str>) {
        match &self.bar {
            Some(bar) => bar.suspended(|| self.printer.warning(text, help)),
            None => self.printer.warning(text, help),
        }
    }
}

impl Observer for Console<'_> {
    fn notice(&mut self, notice: Notice<'_>) {
        let printer = self.printer;
        match notice {
            Notice::FirstUse(plugin) => printer.status(
                "Recorded",
                format_args!(
                    "{} {} from {}: first use, its hash is now in plugins.lock",
                    plugin.identity.id,
                    plugin.identity.version,
                    plugin.plugin.folder.display()
                ),
            ),
            Notice::Shadow(shadow) => printer.warning(shadow, Some(&shadow.hint())),
            Notice::PassedOver(broken) => printer.warning(broken, Some(&broken.hint)),
            // Progress: how long it takes depends on the machine, and so would the output of a command.
            Notice::Compiling(compiling) if printer.shows_progress() => {
                let name = compiling.path.file_name().unwrap_or_default().to_string_lossy();
                let size = units::bytes(compiling.bytes as f64);
                printer.status("Compiling", format_args!("{name} ({size}), once"));
            }
            Notice::Compiling(_) => {}
            Notice::BackendMissing(error) => {
                // The help is mostly the same for several backends.
                let help = error.help().filter(|help| self.helped.as_ref() != Some(help));
                printer.warning(error, help.as_deref());
                self.helped = help.or(self.helped.take());
            }
            Notice::Unstated { plugin, error } => printer.warning(
                format_args!("nothing is known of what `{plugin}` will state: {error}"),
                Some("a metric answers with gaps where it has no columns"),
            ),
            Notice::RuntimeInstalled { plugin, outcome } => {
                let verb = if outcome.was_there { "Verified" } else { "Installed" };
                let size = units::bytes(outcome.installed.bytes() as f64);
                let (name, version) = (&outcome.installed.name, &outcome.installed.version);
                let folder = outcome.folder.display();
                let text = format_args!("{name} {version} for `{plugin}`: {size} in {folder}");
                printer.status(verb, text);
            }
            Notice::Planned(plan) => {
                summarise(plan, printer);
                for line in gap_reasons(plan) {
                    let width = printer.width().saturating_sub(STATUS);
                    for line in notes::in_lines(&line, width, "", 1).lines {
                        printer.detail(line);
                    }
                }
            }
            Notice::Noise(noise) => printer.detail(noise_of_run(noise)),
            Notice::TornLine(torn) => printer.warning(
                format_args!(
                    "a crash had cut line {} of {} short; it is dropped, and its case is measured again",
                    torn.line,
                    torn.path.display()
                ),
                None,
            ),
            Notice::LostReference(lost) => printer
                .warning(format_args!("{lost}; they are made again for the cases left"), None),
            Notice::LostCase(lost) => {
                printer.warning(format_args!("{lost}; the case is measured again"), None);
            }
            Notice::Resuming { run, done, total } => {
                printer.status("Resuming", format_args!("{run}: {done} of {total} done"));
            }
            Notice::AskedFor { plugin, cases } => {
                for case in cases {
                    let reason = case.asked.as_ref().map_or("", |asked| &asked.reason);
                    printer.status(
                        "Asked for",
                        format_args!("{}, by `{plugin}`: {}", case.key, visible::line(reason)),
                    );
                }
            }
            Notice::MetricFailed { plugin, case, error, stays } => {
                let help = stays.then_some(STAYS);
                let told = self.metric_errors.entry(plugin.to_owned()).or_default();
                *told += 1;
                match case {
                    Some(_) if *told == METRIC_ERRORS + 1 => printer
                        .warning(format_args!("metric `{plugin}` has no value for more cases"), help),
                    Some(_) if *told > METRIC_ERRORS => {}
                    Some(case) => printer.warning(
                        format_args!("metric `{plugin}` has no value for {case}: {error}"),
                        help,
                    ),
                    None => printer
                        .warning(format_args!("metric `{plugin}` has no values: {error}"), help),
                }
            }
            Notice::MetricKept { plugin, case, reason } => printer.warning(
                format_args!("metric `{plugin}` is not computed anew for {case}: {reason}"),
                Some(STAYS),
            ),
            Notice::NotFinite(error) => printer.warning(error, None),
            Notice::AdviceFailed { plugin, error } => printer
                .warning(format_args!("recommender `{plugin}` gave no advice: {error}"), None),
            Notice::ReportFailed { plugin, error } => {
                printer.warning(format_args!("report `{plugin}` was not written: {error}"), None);
            }
            Notice::ReportNotKept { plugin, error } => printer.warning(
                format_args!("report `{plugin}` was not written: {error}"),
                error.hint().as_deref(),
            ),
            Notice::OtherReport(change) => printer.warning(change, None),
            Notice::GatheringFacts { kind, job } => {
                printer.status("Asking", format_args!("nodes of {kind} what they have: job {job}"));
            }
            Notice::Submitted { job, tasks, kind } => {
                let tasks = units::count(tasks, "task", "tasks");
                self.say("Submitted", format_args!("job {job} with {tasks} to {kind}"));
            }
            Notice::Unreachable(error) => self.warn(
                format_args!("{error}; it is asked again"),
                Some("tasks that run go on meanwhile"),
            ),
            Notice::TaskDied { case, node, state, again } => {
                let then = if again { "it is tried again" } else { "it has failed" };
                self.warn(
                    format_args!("the task on node {node} ended ({state}) while it measured {case}; {then}"),
                    None,
                );
            }
            Notice::LeftRunning { jobs } => {
                self.say("Left", format_args!("{} in the queue", jobs_in_words(jobs)));
            }
            Notice::Cancelled { jobs } => self.say("Cancelled", jobs_in_words(jobs)),
            Notice::NotIndexed(error) => {
                let hint = error.hint();
                let hint = hint.as_deref().unwrap_or("`host results sync` brings it in later");
                printer.warning(
                    format_args!("the run is kept in its folder, and not in the database: {error}"),
                    Some(hint),
                );
            }
        }
    }

    fn progress(&mut self, progress: Progress<'_>) {
        use host_runtime::Observer as _;
        match (progress, &mut self.bar) {
            (Progress::Measuring { plan, done, total }, bar) => {
                let common = Common::of(plan.items().map(|item| item.key().clone()));
                *bar = Some(Bar::new(self.printer, common, total, done));
            }
            (Progress::MeasuringMore { cases, total }, bar) => {
                let common = Common::of(cases.iter().map(|case| case.key.clone()));
                *bar = Some(Bar::new(self.printer, common, total, 0));
            }
            (Progress::CaseStarted(case), Some(bar)) => bar.case_started(case),
            (Progress::PhaseEntered(case, phase), Some(bar)) => bar.phase_entered(case, phase),
            (Progress::CaseFinished(record), Some(bar)) => bar.case_finished(record),
            (Progress::Tasks { queued, running, done, failed }, Some(bar)) => {
                bar.tasks(queued, running, done, failed);
            }
            (Progress::Measured, bar) => {
                if let Some(bar) = bar.take() {
                    bar.clear();
                }
            }
            (Progress::Installing(step), _) => self.bytes.step(step),
            (Progress::Writing { model, bytes }, _) => self.bytes.begin("Writing", model, bytes),
            (Progress::InstalledBytes(bytes) | Progress::WrittenBytes(bytes), _) => {
                self.bytes.advanced(bytes);
            }
            (Progress::InstallationEnded | Progress::WritingEnded, _) => self.bytes.clear(),
            // Without a bar there is nothing to be measured.
            (_, None) => {}
        }
    }

    fn cancels_jobs(&mut self, jobs: &[u64]) -> bool {
        let question = format!("cancel {}? Otherwise they go on. [y/N] ", jobs_in_words(jobs));
        match &self.bar {
            Some(bar) => bar.suspended(|| terminal::confirms(&question)),
            None => terminal::confirms(&question),
        }
    }

    fn shows_pip(&self) -> bool {
        self.printer.shows_progress()
    }
}

/// Names jobs: `job 7`, `jobs 7 and 2 more`.
fn jobs_in_words(jobs: &[u64]) -> String {
    match jobs {
        [] => "no job".to_owned(),
        [job] => format!("job {job}"),
        [first, rest @ ..] => format!("jobs {first} and {} more", rest.len()),
    }
}

/// Errors of a metric plugin that are printed at once. All are in the summary.
const METRIC_ERRORS: u64 = 3;

const STAYS: &str = "what was computed before stays";

/// Returns the reasons of a plan's gaps, each once.
fn gap_reasons(plan: &Plan) -> Vec<String> {
    if plan.count().gaps == 0 {
        return Vec::new();
    }
    let mut gaps: Vec<(Gap, u64)> = Vec::new();
    for item in plan.items() {
        let Some(gap) = item.gap() else { continue };
        match gaps.iter().position(|(known, _)| known == gap) {
            Some(known) => gaps[known].1 += 1,
            None if gaps.len() < 10 => gaps.push((gap.clone(), 1)),
            None => {}
        }
    }
    gaps.into_iter()
        .map(|(gap, count)| format!("{}: {gap}", units::count(count, "gap", "gaps")))
        .collect()
}

/// Prints on standard error how much there is to do.
pub(crate) fn summarise(plan: &Plan, printer: &Printer) {
    let count = plan.count();
    let mut text = units::count(count.cases, "case", "cases");
    if count.gaps > 0 {
        text.push_str(&format!(", {}", units::count(count.gaps, "gap", "gaps")));
    }
    let estimate = plan.estimate();
    if count.cases > 0 {
        let at_least = units::duration(estimate.at_least.as_nanos() as f64);
        text.push_str(&format!("; takes at least {at_least}"));
    }
    printer.status("Planned", text);
    if let Some(first) = plan.first_left_out() {
        let count = units::count(plan.left_out(), "case", "cases");
        printer.detail(format_args!("`limit` leaves out {count}, from {first} on"));
    }
    if count.cases > 0 {
        let width = printer.width().saturating_sub(STATUS).max(20);
        for line in wrapped(&estimate.basis, width, "").lines() {
            printer.aside(line);
        }
    }
}

/// Says what is wrong with runs that can be read. Of a folder that was emptied, a few files say
/// enough.
pub(crate) fn warn_of_flaws(flaws: &[Flaw], printer: &Printer) {
    const SHOWN: usize = 5;
    let (lost, torn): (Vec<_>, Vec<_>) =
        flaws.iter().partition(|flaw| matches!(flaw, Flaw::LostFile(_)));
    for flaw in torn {
        printer.warning(flaw, flaw.hint());
    }
    for (index, flaw) in lost.iter().take(SHOWN).enumerate() {
        let is_last = index + 1 == lost.len();
        printer.warning(flaw, flaw.hint().filter(|_| is_last));
    }
    if lost.len() > SHOWN {
        let more = units::count((lost.len() - SHOWN) as u64, "more file", "more files");
        printer.warning(format_args!("{more} of finished cases are lost"), lost[0].hint());
    }
}
