/*!
What a run came to: the table at the end of `host run` and of `host results show`, and the same for
machines. It is read back from the run folder, so that what is shown is what is kept.

A person gets at most a screen: the table, then each kind of failure, gap and warning once, then the
advice without its reasons. What is left out is named with the command that shows it. Machines get
everything.
*/

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use host_experiment::{CaseResults as Case, RunResults};
use host_record::{
    Axis, CaseKey, CaseRecord, Cell, MetricValue, Outcome, OutputParity, PairVerdict, Rate,
    Recommendation, Shown, Table, Tolerance, WarningKind, by_kind, is_bundled, summary,
};
use host_statistics::{prediction_interval, processes_needed, student_interval};
use host_store::RunFolder;
use serde_json::{Value, json};

use crate::axes::Common;
use crate::failure::Result;
use crate::notes::{self, Note, Word};
use crate::style::Palette;
use crate::table::{self, Column};
use crate::visible::{self, wrapped};
use host_experiment::units;

/// A run for display.
pub(crate) struct Summary(RunResults);

/// Most lines at the end of a run, including the paths that follow it.
const SCREEN: usize = 40;
/// Lines for the paths and a blank line, which are printed by others.
const PATHS: usize = 6;
/// Lines for failures, gaps and warnings if a table fills the screen by itself.
const LEAST_NOTES: usize = 10;
/// Pieces of advice that are shown, and lines of each.
const ADVICE: usize = 6;
const ADVICE_LINES: usize = 2;
/// Characters of a case's name where it has a part of a line.
const BRIEF_NAME: usize = 48;
/// Last lines of a failed case's standard error.
const LAST_WORDS: usize = 5;

impl Summary {
    /// Reads a run folder.
    pub(crate) fn read(folder: &RunFolder) -> Result<Self> {
        Ok(Self(RunResults::read(folder)?))
    }

    /// Returns how many cases finished, failed, and were gaps.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        self.0.counts()
    }

    /// Returns the number of planned cases that were not reached.
    pub(crate) fn unreached(&self) -> u64 {
        self.0.unreached
    }

    /// Returns the machine form, as one document.
    pub(crate) fn document(&self, folder: &Path) -> Value {
        let (finished, failed, gaps) = self.counts();
        json!({
            "run": self.0.header.run_id,
            "experiment": self.0.header.experiment,
            "description": self.0.header.description,
            "started-at": self.0.header.started_at,
            "state": if self.0.finished { "finished" } else { "unfinished" },
            "folder": folder,
            "counts": {
                "finished": finished, "failed": failed, "gaps": gaps, "unreached": self.0.unreached,
            },
            "cases": self.0.cases.iter().map(document).collect::<Vec<_>>(),
            "recommendations": self.0.recommendations.iter().map(|advice| json!({
                "plugin": advice.plugin,
                "title": advice.recommendation.title,
                "explanation": advice.recommendation.explanation,
                "cases": advice.recommendation.cases,
                "attributes": advice.recommendation.attributes,
            })).collect::<Vec<_>>(),
        })
    }

    /// Returns the machine form, as one row for each case with a column for each metric.
    pub(crate) fn rows(&self) -> Table {
        let mut metrics: Vec<&str> = Vec::new();
        for value in self.0.cases.iter().flat_map(|case| &case.metrics) {
            if !metrics.contains(&value.metric.as_str()) {
                metrics.push(&value.metric);
            }
        }
        let mut columns = vec!["case_id"];
        columns.extend(Axis::ALL.iter().map(|axis| axis.column()));
        columns.extend(["outcome", "reason", "valid", "warnings"]);
        columns.extend(&metrics);
        let columns = columns.into_iter().map(str::to_owned).collect();
        let text = |text: &str| Cell::Text(text.to_owned());
        let row = |case: &Case| {
            let warnings = case.notes();
            let mut row = vec![text(&case.record.case_id)];
            row.extend(Axis::ALL.iter().map(|axis| Cell::from(axis.of(&case.record.key))));
            row.extend([
                text(case.outcome()),
                case.reason().map_or(Cell::Null, Cell::Text),
                case.valid().map_or(Cell::Null, Cell::Boolean),
                text(&warnings.join(" ")),
            ]);
            row.extend(metrics.iter().map(
                |name| match case.metric(name).map(|found| &found.value) {
                    Some(Ok(value)) => Cell::Real(*value),
                    _ => Cell::Null,
                },
            ));
            row
        };
        Table { columns, rows: self.0.cases.iter().map(row).collect() }
    }

    /// The form for people, on one screen if the table allows it; if it is verbose, with how outputs
    /// compared with the reference's. `command` shows the run again, and more of it with an option.
    pub(crate) fn human(
        &self,
        width: usize,
        palette: Palette,
        is_verbose: bool,
        command: &str,
    ) -> String {
        let mut text = String::new();
        let common = self.common();
        let _ = writeln!(text, "{}\n", self.heading(&common, width, palette));
        let measured: Vec<_> = self
            .0
            .cases
            .iter()
            .filter(|case| matches!(case.record.outcome, Outcome::Finished(_)))
            .collect();
        let mut metrics = Vec::new();
        if !measured.is_empty() {
            let drawn = self.measured(&measured, &common, width);
            let mut lines = drawn.text.lines();
            if let Some(header) = lines.next() {
                let _ = writeln!(text, "{}", palette.faint(header));
            }
            for line in lines {
                let _ = writeln!(text, "{line}");
            }
            if let Some(note) = drawn.note {
                let _ = writeln!(text, "{}", palette.faint(note));
            }
            if let Some(few) = few_processes(&measured) {
                let _ = writeln!(text, "{}", palette.faint(few));
            }
            metrics = drawn.metrics;
            text.push_str(&pairs(&measured, &common, width, palette));
        }
        if is_verbose {
            text.push('\n');
            text.push_str(&compared(&measured, &common, width, palette));
            text.push_str(&inputs(&measured, width, palette));
        } else {
            if measured.iter().any(|case| case.parity().is_some()) {
                let note = "outputs agree with the reference's; --verbose shows by how much";
                let _ = writeln!(text, "{}", palette.faint(note));
            }
            if !measured.is_empty() {
                text.push('\n');
            }
        }
        let (advice, advice_is_cut) = self.titles(width, palette);
        let mut end = advice;
        let _ = writeln!(end, "{}", self.counted(palette));
        let has_advice = !self.0.recommendations.is_empty();
        // Below come two lines at most that name a command, and a blank line.
        let used = text.lines().count() + end.lines().count() + PATHS + 3;
        let room = SCREEN.saturating_sub(used).max(LEAST_NOTES);
        let notes = self.notes(&common, metrics, width);
        let fitted = notes::fit(&notes, room, width, palette);
        for line in &fitted.lines {
            let _ = writeln!(text, "{line}");
        }
        if !fitted.lines.is_empty() {
            text.push('\n');
        }
        text.push_str(&end);
        let mut more = |option: &str, what: &str| {
            let _ = writeln!(text, "{}", palette.faint(format_args!("{what}: {command} {option}")));
        };
        if fitted.shortened {
            more("--warnings", "every warning, failure and gap in full");
        }
        if has_advice {
            let what = if advice_is_cut { "all advice, and why" } else { "why this advice" };
            more("--advice", what);
        }
        text
    }

    fn common(&self) -> Common {
        Common::of(self.0.cases.iter().map(|case| &case.record.key))
    }

    /// Returns the experiment's name and the coordinates that all cases share.
    fn heading(&self, common: &Common, width: usize, palette: Palette) -> String {
        let mut heading = vec![self.0.header.experiment.clone()];
        heading.extend(common.heading());
        let lines = notes::in_lines(&heading.join(" · "), width, "", usize::MAX).lines;
        palette.heading(lines.join("\n"))
    }

    /// Returns the advice without its reasons, and whether some is left out or cut.
    fn titles(&self, width: usize, palette: Palette) -> (String, bool) {
        let mut text = String::new();
        let mut is_cut = false;
        let all = &self.0.recommendations;
        for advice in all.iter().take(ADVICE) {
            let title = format!("{}: {}", advice.plugin, advice.recommendation.title);
            let fitted = notes::in_lines(&title, width, "", ADVICE_LINES);
            is_cut |= fitted.shortened;
            let _ = writeln!(text, "{}", palette.good(fitted.lines.join("\n")));
        }
        if let Some(more) = all.len().checked_sub(ADVICE).filter(|more| *more > 0) {
            is_cut = true;
            let _ = writeln!(text, "and {more} more");
        }
        if !all.is_empty() {
            text.push('\n');
        }
        (text, is_cut)
    }

    /// Returns the numbers of cases by their outcome.
    fn counted(&self, palette: Palette) -> String {
        let (finished, failed, gaps) = self.counts();
        let mut counts = vec![format!("{finished} measured")];
        if failed > 0 {
            counts.push(palette.bad(format_args!("{failed} failed")));
        }
        if gaps > 0 {
            counts.push(palette.warning(units::count(gaps, "gap", "gaps")));
        }
        if self.0.unreached > 0 {
            counts.push(palette.warning(format_args!("{} not reached", self.0.unreached)));
        }
        counts.join(", ")
    }

    /// Returns the advice with its reasons.
    pub(crate) fn advice(&self, width: usize, palette: Palette) -> String {
        let mut text = String::new();
        for advice in &self.0.recommendations {
            let Recommendation { title, explanation, attributes, .. } = &advice.recommendation;
            let title = format!("{}: {title}", advice.plugin);
            let _ = writeln!(text, "{}", palette.good(wrapped(&title, width, "")));
            let _ = writeln!(text, "{}", wrapped(explanation, width, "  "));
            if let Some(check) = attributes.get("check") {
                let _ = writeln!(text, "{}", wrapped(&format!("To check: {check}"), width, "  "));
            }
            text.push('\n');
        }
        if text.is_empty() {
            text.push_str(
                "no advice: the manifest has no [[recommend]], or it had nothing to say\n",
            );
        }
        text
    }

    /// Returns every warning, failure and gap of every case, uncut.
    pub(crate) fn evidence(&self, width: usize, palette: Palette) -> String {
        let common = self.common();
        let mut text = String::new();
        for case in &self.0.cases {
            let mut said: Vec<(Word, String)> = Vec::new();
            match &case.record.outcome {
                Outcome::Finished(_) => {}
                Outcome::Failed { failure } => said.push((Word::Failed, failure.to_string())),
                Outcome::Gap { gap } => said.push((Word::Gap, gap.to_string())),
            }
            for (plugin, error) in &case.errors {
                said.push((Word::NoValue, format!("metric `{plugin}`: {error}")));
            }
            for value in &case.metrics {
                if let Err(gap) = &value.value {
                    said.push((Word::Gap, format!("{}: {gap}", value.metric)));
                }
            }
            for warning in case.warnings() {
                said.push(match warning.kind() {
                    WarningKind::Invalid => (Word::Invalid, warning.to_string()),
                    kind => (Word::Warning, format!("{kind}: {warning}")),
                });
            }
            if said.is_empty() {
                continue;
            }
            let place = common.rest(&case.record.key);
            let _ = writeln!(text, "{}", palette.heading(wrapped(&place, width, "")));
            for (word, words) in said {
                // The word is painted last, since a style has no width.
                let whole =
                    wrapped(&format!("{}  {words}", word.text()), width.saturating_sub(2), "  ");
                let rest = whole.trim_start().strip_prefix(word.text()).unwrap_or_default();
                let rest = rest.replace('\n', "\n  ");
                let _ = writeln!(text, "  {} {rest}", word.painted(palette));
            }
            if matches!(case.record.outcome, Outcome::Failed { .. }) {
                for line in case.record.last_words(CaseRecord::LAST_LINES) {
                    let _ = writeln!(text, "    | {}", visible::line(line));
                }
            }
            text.push('\n');
        }
        if text.is_empty() {
            text.push_str("no case has a warning, a failure or a gap\n");
        }
        text
    }

    /// Returns the table of measured cases.
    fn measured(&self, cases: &[&Case], common: &Common, width: usize) -> Measured {
        let mut metrics: Vec<(String, String)> = Vec::new();
        let mut columns: Vec<Column> = Vec::new();
        let mut coordinate = |heading: &str, right: bool, value: &dyn Fn(&CaseKey) -> String| {
            let cells = cases.iter().map(|case| value(&case.record.key)).collect();
            columns.push(Column { right, ..Column::new(heading, cells) });
        };
        for axis in common.others() {
            coordinate(axis.heading(), axis.is_number(), &|key| {
                axis.shown_value(key).unwrap_or_default()
            });
        }
        let names = || cases.iter().flat_map(|case| &case.metrics).map(|value| &*value.metric);
        for wanted in summary() {
            if let Some(metric) = wanted.find(names()) {
                let column =
                    metric_column(metric, wanted.heading, wanted.shown, wanted.instead, cases);
                let has_column = column.is_some();
                metrics.extend(has_column.then(|| (wanted.heading.into(), metric.into())));
                columns.extend(column);
            }
        }
        let own: Vec<_> = cases
            .iter()
            .flat_map(|case| &case.metrics)
            .map(|value| value.metric.as_str())
            .filter(|name| !is_bundled(name))
            .fold(Vec::new(), |mut names, name| {
                if !names.contains(&name) {
                    names.push(name);
                }
                names
            });
        for name in own.into_iter().take(3) {
            columns.extend(metric_column(name, name, Shown::at(u8::MAX, 5), None, cases));
            metrics.push((name.to_owned(), name.to_owned()));
        }
        if cases.iter().any(|case| !case.notes().is_empty()) {
            let notes: Vec<_> = cases.iter().map(|case| case.notes()).collect();
            let number = |notes: &Vec<&str>| match notes.len() {
                0 => String::new(),
                number if notes.contains(&WarningKind::Invalid.name()) => {
                    format!("invalid {number}")
                }
                number => number.to_string(),
            };
            columns.push(Column {
                short: Some(("!".into(), notes.iter().map(number).collect())),
                ..Column::new("warnings", notes.iter().map(|notes| notes.join(", ")).collect())
            });
        }
        let (text, note) = table::fit(columns, width);
        Measured { text, note, metrics }
    }

    /// Failures, gaps and failed plugins, each reason once; gaps of the metrics that have a column, each
    /// metric once; and warnings, each kind once with its worst case.
    fn notes(&self, common: &Common, metrics: Vec<(String, String)>, width: usize) -> Vec<Note> {
        let mut reasons: Vec<(Word, String, Vec<String>, Vec<String>)> = Vec::new();
        let mut add = |word, reason: String, name: String, said: Vec<&str>| match reasons
            .iter_mut()
            .find(|known| known.0 == word && known.1 == reason)
        {
            Some(known) => known.2.push(name),
            None => {
                let said = said.into_iter().map(str::to_owned).collect();
                reasons.push((word, reason, vec![name], said));
            }
        };
        for case in &self.0.cases {
            let name = common.rest(&case.record.key);
            match &case.record.outcome {
                Outcome::Finished(_) => {}
                Outcome::Failed { failure } => {
                    let said = case.record.last_words(LAST_WORDS);
                    add(Word::Failed, failure.to_string(), name.clone(), said);
                }
                Outcome::Gap { gap } => add(Word::Gap, gap.to_string(), name.clone(), Vec::new()),
            }
            for (plugin, error) in &case.errors {
                let error = format!("metric `{plugin}`: {error}");
                add(Word::NoValue, error, name.clone(), Vec::new());
            }
        }
        // Failures come before gaps.
        reasons.sort_by_key(|(word, ..)| *word == Word::Gap);
        let mut notes: Vec<_> = reasons
            .into_iter()
            .map(|(word, text, names, said)| {
                let cases = units::count(names.len() as u64, "case", "cases");
                let room = width.saturating_sub(word.text().len() + 2 + cases.len() + 2);
                let (all, is_cut) = notes::names(&names, room);
                // A failed case has no row, so its name stands nowhere else.
                let (brief, head) = match &names[..] {
                    [one] => (notes::in_the_middle(one, BRIEF_NAME), all),
                    _ => (cases.clone(), format!("{cases}: {all}")),
                };
                let stands_for_others = is_cut;
                Note { word, head, brief, text, said, stands_for_others }
            })
            .collect();
        for (heading, metric) in metrics {
            let gaps = self.0.cases.iter().filter_map(|case| {
                let value = case.metric(&metric)?;
                Some((common.rest(&case.record.key), value.value.as_ref().err()?.to_string()))
            });
            let (names, reasons): (Vec<_>, Vec<_>) = gaps.unzip();
            let Some(text) = reasons.first().cloned() else { continue };
            let cases = units::count(names.len() as u64, "case", "cases");
            let brief = format!("{heading} ({cases})");
            let room = width.saturating_sub(brief.chars().count() + 8);
            let (all, is_cut) = notes::names(&names, room);
            let head = format!("{heading} of {cases}: {all}");
            let stands_for_others = is_cut || reasons.iter().any(|reason| *reason != text);
            let said = Vec::new();
            notes.push(Note { word: Word::Gap, head, brief, text, said, stands_for_others });
        }
        notes.extend(self.warnings(common));
        notes
    }

    fn warnings(&self, common: &Common) -> Vec<Note> {
        let (finished, ..) = self.counts();
        let all =
            self.0.cases.iter().enumerate().flat_map(|(index, case)| {
                case.warnings().iter().map(move |warning| (index, warning))
            });
        by_kind(all)
            .into_iter()
            .map(|group| {
                let (index, worst) = group.worst;
                let place = common.rest(&self.0.cases[index].record.key);
                let cases = units::count(group.places as u64, "case", "cases");
                let of_all = units::count(finished, "case", "cases");
                let (word, brief, kind) = match group.kind {
                    WarningKind::Invalid => (Word::Invalid, cases, String::new()),
                    kind => (Word::Warning, format!("{kind} ({cases})"), format!("{kind} in ")),
                };
                let head = match group.count {
                    1 => format!("{kind}{place}"),
                    _ => format!("{kind}{} of {of_all}; worst: {place}", group.places),
                };
                let stands_for_others = group.count > 1;
                let (text, said) = (worst.to_string(), Vec::new());
                Note { word, head, brief, text, said, stands_for_others }
            })
            .collect()
    }
}

/// The table of what was measured.
struct Measured {
    text: String,
    /// Names of the columns that did not fit.
    note: Option<String>,
    /// Heading and name of its metrics, some of whose values may be gaps.
    metrics: Vec<(String, String)>,
}

/// Returns a case in the machine form.
fn document(case: &Case) -> Value {
    let metric = |value: &MetricValue| {
        let mut object = json!({
            "value": value.value.as_ref().ok(),
            "unit": value.unit,
            "direction": value.direction,
            "interval": value.interval,
            "prediction": value.prediction(),
            "attributes": value.attributes,
        });
        if let Err(gap) = &value.value {
            object["gap"] = json!(gap);
        }
        (value.metric.clone(), object)
    };
    let report = match &case.record.outcome {
        Outcome::Finished(report) => Some(report),
        _ => None,
    };
    let verdict = report.and_then(|report| report.verdict.as_ref()).map(|verdict| {
        let mut object = json!(verdict);
        object["valid"] = verdict.is_valid().into();
        object
    });
    let failure = match &case.record.outcome {
        Outcome::Failed { failure } => json!(failure),
        _ => Value::Null,
    };
    let gap = match &case.record.outcome {
        Outcome::Gap { gap } => json!(gap),
        _ => Value::Null,
    };
    json!({
        "id": case.record.case_id,
        "key": case.record.key,
        "outcome": case.outcome(),
        "reason": case.reason(),
        "failure": failure,
        "gap": gap,
        "standard-error": match case.record.outcome {
            Outcome::Failed { .. } => json!(case.record.last_words(CaseRecord::LAST_LINES)),
            _ => Value::Null,
        },
        "elapsed-ns": case.record.elapsed_ns,
        "verdict": verdict,
        "quantities": case.record.quantities(),
        "search": report.and_then(|report| report.search.as_ref()),
        "paired": report.and_then(|report| report.paired.as_ref()),
        "searched-rate": searched_rate(&case.record),
        "warnings": case.warnings(),
        "parity": case.parity(),
        "model": case.model(),
        "metrics": case.metrics.iter().map(metric).collect::<serde_json::Map<_, _>>(),
        "metric-errors": case.errors.iter().map(|(plugin, error)| json!({
            "plugin": plugin, "error": error,
        })).collect::<Vec<_>>(),
    })
}

/// Returns the rate over the processes that searched it: its mean, with the interval of the mean and the one in which
/// another process will lie; null unless there are several.
fn searched_rate(record: &CaseRecord) -> Value {
    let rates: Vec<f64> = record.searched_rates().into_iter().map(Rate::get).collect();
    let each: Vec<&[f64]> = rates.chunks(1).collect();
    let confidence = record.confidence();
    let Ok(found) = student_interval(&each, |rate| rate[0], confidence) else { return Value::Null };
    json!({
        "mean-per-second": found.value,
        "interval": (found.low, found.high),
        "prediction": prediction_interval(&rates, confidence).ok(),
        "confidence": confidence,
        "processes": rates.len(),
    })
}

/// Returns that cases have too few processes for their confidence, if one has.
fn few_processes(cases: &[&Case]) -> Option<String> {
    cases.iter().find_map(|case| {
        let (processes, confidence) = (case.record.reports().count(), case.record.confidence());
        let needed = processes_needed(confidence);
        (processes > 1 && processes < needed).then(|| {
            format!(
                "{processes} processes are few: at {}, an interval over processes needs {needed}",
                host_record::words::level(confidence)
            )
        })
    })
}

/// Returns the answer of each pair of cases that were measured in turns.
fn pairs(cases: &[&Case], common: &Common, width: usize, palette: Palette) -> String {
    let mut text = String::new();
    for case in cases {
        let Some(paired) = case.record.pair() else { continue };
        let with = cases.iter().find(|other| other.record.case_id == paired.with);
        let with = with.map(|other| common.rest(&other.record.key)).unwrap_or_default();
        let name = common.rest(&case.record.key);
        let line = format!("{name} against {with}: time per query {}", paired.result);
        let line = wrapped(&visible::line(&line), width, "");
        let painted = match paired.result.verdict() {
            PairVerdict::Faster => palette.good(line),
            PairVerdict::Slower => palette.warning(line),
            PairVerdict::SameWithin(_) | PairVerdict::Unknown(_) => line,
        };
        let _ = writeln!(text, "{painted}");
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

/// Returns shape and origin of the inputs of all cases, each once.
fn inputs(cases: &[&Case], width: usize, palette: Palette) -> String {
    let mut said: Vec<(&str, String)> = Vec::new();
    for case in cases {
        for input in case.model().iter().flat_map(|model| &model.inputs) {
            let one = (&*case.record.key.model, input.to_string());
            if !said.contains(&one) {
                said.push(one);
            }
        }
    }
    if said.is_empty() {
        return String::new();
    }
    let mut text = format!("{}\n", palette.heading("Inputs"));
    for (model, input) in said {
        let line = visible::line(&format!("{model} {input}")).into_owned();
        for line in notes::in_lines(&line, width, "  ", usize::MAX).lines {
            let _ = writeln!(text, "{line}");
        }
    }
    text.push('\n');
    text
}

/// Returns the reference of each case's outputs, and their difference: a table for each
/// reference.
fn compared(cases: &[&Case], common: &Common, width: usize, palette: Palette) -> String {
    let mut by_reference: Vec<(&str, Vec<Compared<'_>>)> = Vec::new();
    for case in cases {
        let Some(parity) = case.parity() else { continue };
        let known = by_reference.iter().position(|(name, _)| *name == parity.reference);
        let index = known.unwrap_or_else(|| {
            by_reference.push((&parity.reference, Vec::new()));
            by_reference.len() - 1
        });
        let outputs = parity.outputs.iter();
        by_reference[index].1.extend(outputs.map(|output| (*case, parity.tolerance, output)));
    }
    let mut text = String::new();
    for (reference, rows) in &by_reference {
        let heading = format!("Outputs compared with {}", visible::line(reference));
        let (drawn, _) = table::fit(columns_of_comparison(rows, common), width);
        let _ = writeln!(text, "{}\n{drawn}\n", palette.heading(heading));
    }
    text
}

/// An output of a case, with what was allowed.
type Compared<'a> = (&'a Case, Tolerance, &'a OutputParity);

fn columns_of_comparison(rows: &[Compared<'_>], common: &Common) -> Vec<Column> {
    let column = |heading: &str, right: bool, cell: &dyn Fn(&Compared<'_>) -> String| {
        let cells = rows.iter().map(cell).collect();
        Column { right, ..Column::new(heading, cells) }
    };
    let small = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.1e}"));
    let mut columns: Vec<_> = common
        .others()
        .map(|axis| {
            column(axis.heading(), axis.is_number(), &|(case, ..)| {
                axis.shown_value(&case.record.key).unwrap_or_default()
            })
        })
        .collect();
    let names: BTreeSet<_> = rows.iter().map(|(_, _, output)| &output.name).collect();
    if names.len() > 1 {
        columns.push(column("output", false, &|(_, _, output)| output.name.clone()));
    }
    // The headings have short forms for narrow terminals.
    let mut figure = |heading: &str, short: &str, cell: &dyn Fn(&Compared<'_>) -> String| {
        let long = column(heading, true, cell);
        columns.push(Column { short: Some((short.into(), long.cells.clone())), ..long });
    };
    figure("max. absolute error", "absolute", &|(_, _, output)| small(output.max_absolute_error));
    figure("max. relative error", "relative", &|(_, _, output)| small(output.max_relative_error));
    figure("cosine", "cosine", &|(_, _, output)| {
        output.cosine.map_or_else(String::new, |cosine| format!("{cosine:.6}"))
    });
    figure("top-1 the same", "top-1", &|(_, _, output)| {
        output.shown_top1().map_or_else(String::new, |top1| format!("{:.1} %", 100.0 * top1))
    });
    let allowed = column("allowed", false, &|(_, tolerance, _)| tolerance.to_string());
    let short = rows.iter().map(|(_, tolerance, _)| {
        let Tolerance { absolute, of_scale, relative, cosine, .. } = tolerance;
        format!("{:e} + {relative:e}, {cosine}", absolute.max(*of_scale))
    });
    columns.push(Column { short: Some(("allowed".into(), short.collect())), ..allowed });
    columns
}

/// Returns the column of a metric; `None` if no case has it.
fn metric_column(
    name: &str,
    heading: &str,
    shown: Shown,
    instead: Option<(&str, &str)>,
    cases: &[&Case],
) -> Option<Column> {
    if !has_column(shown, cases.iter().filter_map(|case| case.metric(name))) {
        return None;
    }
    let cell = |case: &&Case| match case.metric(name) {
        Some(found) => match (&found.value, found.attributes.get("class")) {
            // The number stands for the word.
            (Ok(_), Some(class)) => visible::line(class).into_owned(),
            (Ok(value), None) => units::metric(name, *value, &found.unit),
            (Err(_), _) => {
                let other = instead.and_then(|(name, word)| Some((name, case.metric(name)?, word)));
                match other {
                    Some((name, MetricValue { value: Ok(value), unit, .. }, word)) => {
                        format!("{} ({word})", units::metric(name, *value, unit))
                    }
                    _ => "gap".into(),
                }
            }
        },
        None => String::new(),
    };
    let cells: Vec<_> = cases.iter().map(cell).collect();
    // A narrow terminal leaves out "per sample".
    let short = heading.strip_suffix(" per sample").map(|short| (short.to_owned(), cells.clone()));
    let heading = heading.replace(" per sample", "/sample");
    let gives_way = shown.gives_way;
    Some(Column { right: true, gives_way, short, ..Column::new(&heading, cells) })
}

/// Returns whether a metric with these values has a column: if there is a value, and for metrics that
/// many machines lack, one that is not a gap.
fn has_column<'a>(shown: Shown, mut values: impl Iterator<Item = &'a MetricValue>) -> bool {
    values.any(|found| !shown.only_if_measured || found.value.is_ok())
}

#[cfg(test)]
mod tests;
