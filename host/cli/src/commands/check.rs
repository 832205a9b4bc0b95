//! `host check`: whether a run may pass, by a baseline and by the alerts of its manifest.

use std::fs;
use std::path::{Path, PathBuf};

use host_experiment::{
    Against, Figure, Gate, GateOptions, Judged, Judgement, Needed, Noise, Outcome, RunFigures,
    Settings, Trust, Unsure, alerts_of, judge,
};
use host_manifest::{Bound, Limit};
use host_record::{Cell, Table};
use host_store::{ResultsFolder, RunFolder};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use serde_json::{Value, json};

use crate::arguments::{CheckArguments, Format};
use crate::axes::Common;
use crate::changes::{
    change_shown, conditions_document, conditions_table, document_of_change, figure_shown, most,
    percent, remedy, show_conditions, unknown_shown, value_shown,
};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::noise::percent as percent_of;
use crate::printer::Printer;
use crate::table::{self, Column};
use crate::visible;
use host_experiment::units;

/// Most annotations of a kind: more are not shown for a step.
const ANNOTATIONS: usize = 10;

/// Judges a run, or keeps it as a baseline.
pub(crate) fn check(
    arguments: &CheckArguments,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let results = ResultsFolder::new(settings.results(None));
    if let Some(name) = &arguments.save_baseline {
        return save(&RunFigures::find(&arguments.run, &results)?, name, &results, printer);
    }
    let outputs = outputs(&arguments.output)?;
    let (baseline, run) = match &arguments.baseline {
        Some(baseline) => {
            let [baseline, run] = RunFigures::find_both([baseline, &arguments.run], &results)?;
            (Some(baseline), run)
        }
        None => (None, RunFigures::find(&arguments.run, &results)?),
    };
    // A baseline has no manifest.
    let alerts = match &run.folder {
        Some(folder) => alerts_of(&RunFolder::open(folder)?)?,
        None => Vec::new(),
    };
    let options =
        GateOptions { max_regression: arguments.max_regression, metrics: arguments.metric.clone() };
    if let Some(needs) = more_processes(&run, arguments.max_regression)? {
        printer.detail(needs);
    }
    let gate = judge(&run, baseline.as_ref(), &alerts, &options)?;
    let shown = Shown { gate: &gate, limit: arguments.max_regression };
    match printer.format() {
        Format::Markdown => printer.data(shown.markdown()),
        _ => {
            if !printer.machine(|| shown.document(), || shown.rows()) {
                shown.show(printer);
            }
        }
    }
    for (path, kind) in outputs {
        let text = match kind {
            Output::JUnit => shown.junit()?,
            Output::Json => format!("{:#}\n", shown.document()),
            Output::Markdown => shown.markdown(),
        };
        fs::write(path, text).map_err(|error| Failure::io("write", path, error))?;
        printer.status("Wrote", path.display());
    }
    if arguments.annotations {
        shown.annotate(printer);
    }
    shown.conclude(printer);
    Ok(match gate.outcome() {
        Outcome::Passed => Exit::Success,
        Outcome::Failed => Exit::Regressed,
        Outcome::CannotTell => Exit::CannotTell,
    })
}

/// Returns that the noise of this machine asks for more processes than a run of it has, if it was measured.
fn more_processes(run: &RunFigures, limit: f64) -> Result<Option<String>> {
    let (Some(folder), Some(noise)) = (&run.folder, Noise::kept()) else { return Ok(None) };
    if RunFolder::open(folder)?.header().environment.machine != noise.machine {
        return Ok(None);
    }
    let fewest = run.cases.iter().map(|case| case.processes).min();
    let needed = noise.processes_for(limit);
    Ok(needed.zip(fewest).filter(|(needed, fewest)| needed > fewest).map(|(needed, fewest)| {
        format!(
            "by the noise of this machine, {} from process to process, telling {} needs {needed} processes, and a case of \
             the run has {fewest}",
            percent_of(noise.between()),
            percent_of(limit)
        )
    }))
}

/// Keeps a run as a baseline.
fn save(run: &RunFigures, name: &str, results: &ResultsFolder, printer: &Printer) -> Result<Exit> {
    let path = run.save(name, results)?;
    let count = |is: &dyn Fn(&host_experiment::CaseFigures) -> bool| {
        run.cases.iter().filter(|case| is(case)).count()
    };
    let of = run.cases.len();
    let single = count(&|case| case.processes < 2);
    if single > 0 {
        printer.warning(
            format_args!("{single} of {of} cases were measured in a single process, so no check can decide on them"),
            Some(&remedy(Needed::Processes(host_statistics::processes_needed(host_experiment::CONFIDENCE)))),
        );
    }
    let unsound = count(&|case| case.trust != Trust::Sound);
    if unsound > 0 {
        printer.warning(
            format_args!(
                "{unsound} of {of} cases are invalid or simulated, so no check can decide on them"
            ),
            Some("`host results show RUN --warnings` has the reasons"),
        );
    }
    let lost = run.unmeasured.len();
    if lost > 0 {
        printer.warning(
            format_args!("{lost} cases of the run were not measured, and are not in the baseline"),
            Some("`host results show RUN --warnings` has the reasons"),
        );
    }
    printer.machine(
        || json!({ "run": run.run, "baseline": path, "cases": of }),
        || Table {
            columns: ["run", "baseline", "cases"].map(str::to_owned).into(),
            rows: vec![vec![
                Cell::Text(run.run.clone()),
                Cell::Text(path.display().to_string()),
                Cell::Integer(i64::try_from(of).unwrap_or(i64::MAX)),
            ]],
        },
    );
    printer.status(
        "Saved",
        format_args!("{} with {}", path.display(), units::count(of as u64, "case", "cases")),
    );
    Ok(Exit::Success)
}

/// Format of a file.
#[derive(Debug, Clone, Copy)]
enum Output {
    JUnit,
    Json,
    Markdown,
}

/// Returns the files to write with their formats.
fn outputs(paths: &[PathBuf]) -> Result<Vec<(&Path, Output)>> {
    let output = |path: &PathBuf| match path.extension().and_then(|ending| ending.to_str()) {
        Some("xml") => Ok(Output::JUnit),
        Some("json") => Ok(Output::Json),
        Some("md") => Ok(Output::Markdown),
        _ => Err(Failure::new(
            Exit::Usage,
            format!("the format of {} is not known by its ending", path.display()),
        )
        .help("end the file's name with .xml for JUnit, .json, or .md for a job summary")),
    };
    paths.iter().map(|path| Ok((path.as_path(), output(path)?))).collect()
}

/// A judged run in words.
struct Shown<'gate> {
    gate: &'gate Gate,
    /// Largest accepted change for the worse.
    limit: f64,
}

/// A line about a figure.
struct Line {
    case: String,
    metric: String,
    change: String,
    limit: String,
    verdict: String,
}

impl Shown<'_> {
    fn line(&self, judged: &Judged) -> Line {
        let (change, limit, failed) = match &judged.against {
            Against::Baseline { change, .. } => (
                change.as_deref().map_or_else(|| "—".to_owned(), change_shown),
                format!("{} worse", percent(self.limit)),
                change.as_deref().map_or("worse", |change| change.verdict()),
            ),
            Against::Alert { limit, figure } => (
                alert_figure(figure.as_deref()),
                limit_shown(limit, figure.as_deref()),
                "beyond the limit",
            ),
        };
        Line {
            case: judged.key.to_string(),
            metric: judged.metric.clone(),
            change,
            limit,
            verdict: match &judged.judgement {
                Judgement::Passed => "within".to_owned(),
                // Worse by a constant has no verdict of a test.
                Judgement::Failed if failed == "cannot-tell" => "worse".to_owned(),
                Judgement::Failed => failed.to_owned(),
                Judgement::CannotTell(unsure) => format!("cannot tell: {}", unsure_shown(unsure)),
            },
        }
    }

    /// Returns the numbers of figures that failed, that cannot be told, and that passed.
    fn counts(&self) -> [usize; 3] {
        let mut counts = [0; 3];
        for judged in &self.gate.judged {
            counts[match judged.judgement {
                Judgement::Failed => 0,
                Judgement::CannotTell(_) => 1,
                Judgement::Passed => 2,
            }] += 1;
        }
        counts
    }

    /// Returns the outcome in a sentence.
    fn sentence(&self) -> String {
        let [failed, unknown, passed] = self.counts();
        let parts = [
            (failed > 0).then(|| format!("{failed} beyond its limit")),
            (unknown > 0).then(|| format!("{unknown} cannot be told")),
            (passed > 0).then(|| format!("{passed} within")),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        let figures = units::count(self.gate.judged.len() as u64, "figure", "figures");
        format!("{figures}: {}", parts.join(", "))
    }

    /// Returns the largest number of processes that would tell.
    fn needed(&self) -> Option<Needed> {
        let needed = |judged: &Judged| match &judged.judgement {
            Judgement::CannotTell(Unsure::Change(_, needed)) => *needed,
            _ => None,
        };
        self.gate.judged.iter().filter_map(needed).reduce(most)
    }

    /// Returns notes about cases: those that only one run has, and those that are defined in another way.
    fn notes(&self) -> Vec<String> {
        let cases = |count: usize| units::count(count as u64, "case", "cases");
        let redefined = self.gate.judged.iter().filter(|judged| {
            matches!(judged.against, Against::Baseline { is_redefined: true, .. })
        });
        let (added, removed, redefined) = (self.gate.added, self.gate.removed, redefined.count());
        [
            (added > 0).then(|| format!("{} not in the baseline, and not judged by it", cases(added))),
            (removed > 0).then(|| {
                format!("{} of the baseline not part of the run, and not judged", cases(removed))
            }),
            (redefined > 0).then(|| {
                format!(
                    "{} judged against a case with another definition: another model, other inputs, options or settings",
                    units::count(redefined as u64, "figure", "figures")
                )
            }),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn show(&self, printer: &Printer) {
        show_conditions(&self.gate.conditions, printer);
        let lines: Vec<Line> = self.gate.judged.iter().map(|judged| self.line(judged)).collect();
        let written = |write: &dyn Fn(&Line) -> &str| -> Vec<String> {
            lines.iter().map(|line| visible::line(write(line)).into_owned()).collect()
        };
        let common = Common::of(self.gate.judged.iter().map(|judged| &judged.key));
        let cases = self.gate.judged.iter().map(|judged| common.rest(&judged.key));
        let columns = vec![
            Column::new("case", cases.map(|case| visible::line(&case).into_owned()).collect()),
            Column::new("metric", written(&|line| &line.metric)),
            Column {
                right: true,
                gives_way: 1,
                ..Column::new("change or value", written(&|line| &line.change))
            },
            Column { gives_way: 2, ..Column::new("limit", written(&|line| &line.limit)) },
            Column::new("verdict", written(&|line| &line.verdict)),
        ];
        let gap = if self.gate.conditions.is_empty() { "" } else { "\n" };
        let heading = common.heading().join(" · ");
        let heading = match heading.is_empty() {
            true => String::new(),
            false => format!("{}\n\n", printer.palette().heading(visible::line(&heading))),
        };
        let (drawn, note) = table::fit(columns, printer.table_width());
        printer.show(format_args!("{gap}{heading}{}", printer.headed(&drawn)));
        if let Some(note) = note {
            printer.status("Left out", note);
        }
    }

    /// Says what came of it, after all data.
    fn conclude(&self, printer: &Printer) {
        self.notes().iter().for_each(|note| printer.status("Note", note));
        if let Some(needed) = self.needed() {
            printer.status("To tell", remedy(needed));
        }
        let verb = match self.gate.outcome() {
            Outcome::Passed => "Passed",
            Outcome::Failed => "Failed",
            Outcome::CannotTell => "Cannot tell",
        };
        printer.status(verb, self.sentence());
    }

    fn document(&self) -> Value {
        let gate = self.gate;
        let one = |judged: &Judged| match &judged.against {
            Against::Baseline { change, is_redefined, disturbed } => json!({
                "against": "baseline",
                "limit": self.limit,
                "change": change.as_deref().map(|change| document_of_change(change, self.limit)),
                "redefined": is_redefined,
                "disturbed": { "first": disturbed[0], "second": disturbed[1] },
            }),
            Against::Alert { .. } => alert_document(judged),
        };
        let one = |judged: &Judged| {
            let (mut document, named) = (one(judged), judgement_document(judged));
            if let (Some(into), Value::Object(fields)) = (document.as_object_mut(), named) {
                into.extend(fields);
            }
            document
        };
        let [failed, unknown, passed] = self.counts();
        json!({
            "run": gate.run.run,
            "commit": gate.run.commit,
            "experiment": gate.experiment,
            "baseline": gate.baseline.as_ref().map(|baseline| &baseline.run),
            "baseline-commit": gate.baseline.as_ref().map(|baseline| &baseline.commit),
            "max-regression": self.limit,
            "verdict": gate.outcome().name(),
            "counts": { "failed": failed, "cannot-tell": unknown, "passed": passed },
            "needed-processes": match self.needed() {
                Some(Needed::Processes(count)) => Some(count),
                _ => None,
            },
            "conditions": conditions_document(&gate.conditions),
            "figures": gate.judged.iter().map(one).collect::<Vec<_>>(),
            "not-in-baseline": gate.added,
            "not-in-run": gate.removed,
        })
    }

    fn rows(&self) -> Table {
        let row = |judged: &Judged| {
            let Line { case, metric, change, limit, verdict } = self.line(judged);
            [case, metric, change, limit, verdict].map(Cell::Text).into()
        };
        Table {
            columns: ["case", "metric", "change", "limit", "verdict"].map(str::to_owned).into(),
            rows: self.gate.judged.iter().map(row).collect(),
        }
    }

    /// Returns the summary of a job: what failed, what cannot be told, and the rest folded away.
    fn markdown(&self) -> String {
        let [failed, unknown, _] = self.counts();
        let (told, rest): (Vec<_>, Vec<_>) = {
            let table = self.rows();
            let rows = table.rows.into_iter().enumerate();
            rows.partition(|(place, _)| *place < failed + unknown)
        };
        let table = |rows: Vec<(usize, Vec<Cell>)>| {
            let rows = rows.into_iter().map(|(_, row)| row).collect();
            table::markdown(&Table { rows, ..self.rows() })
        };
        let heading = match self.gate.outcome() {
            Outcome::Passed => "passed",
            Outcome::Failed => "failed",
            Outcome::CannotTell => "cannot tell",
        };
        let mut text = format!("## Benchmarks: {heading}\n\n{}", self.sentence());
        text.push_str(&format!(", in run `{}`", self.gate.run.run));
        if let Some(baseline) = &self.gate.baseline {
            text.push_str(&format!(" against `{}`", baseline.run));
        }
        text.push_str(".\n");
        let mut add = |part: String| text.push_str(&format!("\n{part}\n"));
        if !self.gate.conditions.is_empty() {
            add("Conditions that differ, which may explain changes:".to_owned());
            add(table::markdown(&conditions_table(&self.gate.conditions)));
        }
        if !told.is_empty() {
            add(table(told));
        }
        self.notes().into_iter().for_each(|note| add(format!("- {note}")));
        if let Some(needed) = self.needed() {
            add(format!("To tell: {}.", remedy(needed)));
        }
        if !rest.is_empty() {
            let count = units::count(rest.len() as u64, "figure", "figures");
            add(format!(
                "<details><summary>{count} within the limit</summary>\n\n{}\n</details>",
                table(rest)
            ));
        }
        text
    }

    fn junit(&self) -> Result<String> {
        let mut suite = TestSuite::new(self.gate.experiment.as_str());
        for judged in &self.gate.judged {
            let line = self.line(judged);
            let words = format!("{}, limit {}: {}", line.change, line.limit, line.verdict);
            let mut status = match &judged.judgement {
                Judgement::Passed => TestCaseStatus::success(),
                Judgement::Failed => TestCaseStatus::non_success(NonSuccessKind::Failure),
                Judgement::CannotTell(_) => TestCaseStatus::skipped(),
            };
            if judged.judgement != Judgement::Passed {
                status.set_message(words);
            }
            let mut case = TestCase::new(format!("{}: {}", line.case, line.metric), status);
            case.set_classname(match &judged.against {
                Against::Baseline { .. } => "baseline",
                Against::Alert { .. } => "alert",
            });
            suite.add_test_case(case);
        }
        let mut report = Report::new("host check");
        report.add_test_suite(suite);
        report.to_string().map_err(|error| {
            Failure::new(Exit::Failure, "cannot write the report for JUnit").because(error)
        })
    }

    /// Prints a workflow command for each figure that failed or cannot be told.
    fn annotate(&self, printer: &Printer) {
        let escaped =
            |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
        let property = |text: &str| escaped(text).replace(':', "%3A").replace(',', "%2C");
        let mut counts = [0; 2];
        for judged in &self.gate.judged {
            let (level, count) = match &judged.judgement {
                Judgement::Failed => ("error", &mut counts[0]),
                Judgement::CannotTell(_) => ("warning", &mut counts[1]),
                Judgement::Passed => continue,
            };
            *count += 1;
            if *count > ANNOTATIONS {
                continue;
            }
            let line = self.line(judged);
            let title = property(&format!("{} of {}", line.metric, line.case));
            let text = escaped(&format!("{}, limit {}: {}", line.change, line.limit, line.verdict));
            printer.annotation(format_args!("::{level} title={title}::{text}"));
        }
    }
}

/// Returns which side the limit is on, and the bound.
fn bound_of(limit: &Limit) -> (&'static str, f64) {
    match limit.bound {
        Bound::AtMost(bound) => ("at-most", bound),
        Bound::AtLeast(bound) => ("at-least", bound),
    }
}

/// Returns what was judged, and how.
fn judgement_document(judged: &Judged) -> Value {
    let (verdict, reason) = match &judged.judgement {
        Judgement::Passed => (Outcome::Passed, None),
        Judgement::Failed => (Outcome::Failed, None),
        Judgement::CannotTell(unsure) => (Outcome::CannotTell, Some(unsure_shown(unsure))),
    };
    json!({
        "case": judged.case,
        "name": judged.key.to_string(),
        "metric": judged.metric,
        "verdict": verdict.name(),
        "reason": reason,
    })
}

/// Returns an alert for machines.
pub(crate) fn alert_document(judged: &Judged) -> Value {
    let mut document = judgement_document(judged);
    if let Against::Alert { limit, figure } = &judged.against {
        let (name, bound) = bound_of(limit);
        document["against"] = json!("alert");
        document[name] = json!(bound);
        document["unit"] = json!(limit.unit.or(figure.as_ref().map(|figure| &*figure.unit)));
        document["value"] = json!(figure.as_ref().map(|figure| figure.value));
        document["interval"] = json!(figure.as_ref().and_then(|figure| figure.interval().ok()?));
        document["processes"] = json!(figure.as_ref().map(|figure| figure.processes.len()));
    }
    document
}

/// Prints what became of alerts, a line for each limit.
pub(crate) fn say_alerts(alerts: &[Judged], printer: &Printer) {
    let limit = |judged: &Judged| match &judged.against {
        Against::Alert { limit, figure } => {
            format!("{} {}", judged.metric, limit_shown(limit, figure.as_deref()))
        }
        Against::Baseline { .. } => String::new(),
    };
    // Those of one limit follow one another.
    for of_limit in alerts.chunk_by(|one, next| limit(one) == limit(next)) {
        let count = |is: &dyn Fn(&Judgement) -> bool| {
            of_limit.iter().filter(|judged| is(&judged.judgement)).count()
        };
        let failed = count(&|one| *one == Judgement::Failed);
        let unknown = count(&|one| matches!(one, Judgement::CannotTell(_)));
        let kept = of_limit.len() - failed - unknown;
        let parts = [
            (failed > 0).then(|| format!("broken in {failed}")),
            (unknown > 0).then(|| format!("cannot be told in {unknown}")),
            (kept > 0).then(|| format!("kept in {kept}")),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        let cases = units::count(of_limit.len() as u64, "case", "cases");
        let text = format!("{}: {} of {cases}", limit(&of_limit[0]), parts.join(", "));
        match failed {
            0 => printer.status("Alert", text),
            _ => printer.warning(text, Some("`host check` has the figures")),
        }
    }
}

/// Formats a limit: `≤ 5.00 ms`. A bound without a unit is in that of the figure.
fn limit_shown(limit: &Limit, figure: Option<&Figure>) -> String {
    let (side, bound) = bound_of(limit);
    let side = if side == "at-most" { "≤" } else { "≥" };
    let unit = limit.unit.or(figure.map(|figure| figure.unit.as_str()));
    match unit {
        Some(unit) => format!("{side} {}", value_shown(&limit.metric, bound, unit)),
        None => format!("{side} {}", units::number(bound)),
    }
}

/// Formats a figure with its interval.
fn alert_figure(figure: Option<&Figure>) -> String {
    let interval = figure.and_then(|figure| Some((figure, figure.interval().ok()??)));
    match interval {
        Some((figure, (low, high))) => {
            let shown = |value| value_shown(&figure.metric, value, &figure.unit);
            format!("{} ({} to {})", figure_shown(Some(figure)), shown(low), shown(high))
        }
        None => figure_shown(figure),
    }
}

/// Returns why a judgement cannot be made.
fn unsure_shown(unsure: &Unsure) -> String {
    let because = |text: &str, reason: &Option<String>| match reason {
        Some(reason) => format!("{text}: {reason}"),
        None => text.to_owned(),
    };
    match unsure {
        Unsure::Change(doubt, needed) => unknown_shown(*doubt, *needed),
        Unsure::Crosses => "its interval crosses the limit".to_owned(),
        Unsure::NotMeasured(reason) => format!("not measured: {reason}"),
        Unsure::NoValue(reason) => because("the run has no such value", reason),
        Unsure::NoBaseline(reason) => because("the baseline has no such value", reason),
        Unsure::OtherUnit(unit) => format!("the metric is in `{unit}`, and the limit is not"),
    }
}
