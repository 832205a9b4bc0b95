/*!
Progress on standard error, silent while anything is being timed.

The bar has no ticker thread: it draws when an event comes, and no event is drawn between the
beginning of the warm-up and the end of the measurement. The bar that is visible during that time
was drawn before it began.
*/

use std::collections::BTreeSet;

use host_record::{CaseRecord, CaseSpec, Outcome, Phase};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::axes::Common;
use crate::notes;
use crate::printer::{Printer, STATUS};
use crate::visible;
use host_experiment::units;

/// Characters of a failure's reason that are shown immediately; the summary has more of it.
const REASON: usize = 300;
/// Reasons of failures that are shown at once above a bar, which counts them; all are in the summary.
const FAILURES: usize = 5;

/// Shows the progress of a run.
pub(crate) struct Bar<'printer> {
    printer: &'printer Printer,
    bar: ProgressBar,
    /// Parts of a label that all cases share.
    common: Common,
    total: u64,
    done: u64,
    failures: u64,
    /// Reasons of failures that were shown.
    reasons: BTreeSet<String>,
    /// The states of tasks that were shown last.
    said: String,
}

impl<'printer> Bar<'printer> {
    /// Shows progress over `total` items, `done` of which were done in an earlier part of the run.
    pub(crate) fn new(printer: &'printer Printer, common: Common, total: u64, done: u64) -> Self {
        let target = if printer.shows_progress() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        let style = ProgressStyle::with_template("{prefix} [{bar:20}] {pos}/{len} {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("━╸ "));
        bar.set_prefix(printer.status_palette().verb(format_args!("{:>11}", "Measuring")));
        bar.set_position(done);
        Self {
            printer,
            bar,
            common,
            total,
            done,
            failures: 0,
            reasons: BTreeSet::new(),
            said: String::new(),
        }
    }

    /// Removes the bar.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Does something else on the terminal.
    pub(crate) fn suspended<T>(&self, work: impl FnOnce() -> T) -> T {
        self.bar.suspend(work)
    }

    /// Shows the states of tasks on a cluster.
    pub(crate) fn tasks(&mut self, queued: u64, running: u64, done: u64, failed: u64) {
        let counts = [(queued, "queued"), (running, "running"), (done, "done"), (failed, "failed")];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let counts: Vec<_> = counts.map(|(count, state)| format!("{count} {state}")).collect();
        let text = format!("tasks: {}", counts.join(", "));
        // A log has a line when something has changed.
        if self.said != text && !self.printer.shows_progress() {
            self.line("Tasks", text.trim_start_matches("tasks: "));
        }
        self.message(&text);
        self.said = text;
    }

    fn line(&self, verb: &str, text: &str) {
        self.bar.suspend(|| self.printer.status(verb, text));
    }

    pub(crate) fn case_started(&mut self, case: &CaseSpec) {
        self.message(&visible::line(&self.common.rest(&case.key)));
    }

    fn message(&self, doing: &str) {
        let failed = match self.failures {
            0 => String::new(),
            failures => format!("{failures} failed · "),
        };
        self.bar.set_message(format!("{failed}{doing}"));
    }

    pub(crate) fn phase_entered(&mut self, case: &CaseSpec, phase: Phase) {
        let doing = match phase {
            // The clock runs, or is about to.
            Phase::WarmUp | Phase::Search | Phase::Measure => return,
            Phase::Start | Phase::Open | Phase::Devices => "starting",
            Phase::Load | Phase::Inputs | Phase::Prepare => "loading",
            Phase::FirstRun => "measuring",
            Phase::Check => "comparing outputs",
            Phase::Stages => "timing copies",
            Phase::Profile => "profiling",
            Phase::Learn => "training by epochs",
            Phase::Outputs => "collecting outputs",
            Phase::Unload => "ending",
        };
        let place = self.common.rest(&case.key);
        self.message(&format!("{}: {doing}", visible::line(&place)));
    }

    pub(crate) fn case_finished(&mut self, record: &CaseRecord) {
        self.done += 1;
        let mut place = format!("{}/{} {}", self.done, self.total, self.common.rest(&record.key));
        if record.processes() > 1 {
            let pair = record.spec.as_ref().and_then(|spec| spec.measure.pair.as_ref());
            let of = if pair.is_some() { "of up to" } else { "of" };
            place.push_str(&format!(
                ", process {} {of} {}",
                record.process + 1,
                record.processes()
            ));
        }
        match &record.outcome {
            // The bar says it already.
            Outcome::Finished(_) if self.printer.shows_progress() => {}
            Outcome::Finished(_) => {
                let took = units::duration(record.elapsed_ns as f64);
                self.line("Measured", &format!("{place} in {took}"));
            }
            Outcome::Failed { failure } => {
                self.failures += 1;
                let reason = visible::beginning(&failure.to_string(), REASON);
                let text = format!("{place}: {reason}");
                if !self.printer.shows_progress() {
                    // A log has no bar that counts: each case has a line, and each reason is said once.
                    let known = !self.reasons.insert(reason);
                    self.line("Failed", if known { &place } else { &text });
                } else if self.reasons.len() < FAILURES && self.reasons.insert(reason) {
                    let width = self.printer.width().saturating_sub(STATUS);
                    self.line("Failed", &notes::in_lines(&text, width, "", 2).lines.join("\n"));
                }
            }
            // Gaps are shown with the plan, and again at the end.
            Outcome::Gap { .. } => {}
        }
        self.bar.set_position(self.done);
    }
}
