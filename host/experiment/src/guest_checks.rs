/*!
Checks for whoever writes a metric, a report or a recommender.

They are made on a small run that is part of the program: measured once with a real backend, so that its columns and views
are those of a real run. The plugin is called as at the end of a run, under the same limits.
*/

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use host_record::{CaseColumns, ColumnData, MetricValue, Outcome, Views, column};
use host_store::{RunFolder, RunViews};
use host_wasm::{Compiling, GuestError, Kind, Names, Plugin, Sandbox, Used};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::advice::advice;
use crate::conformance::{CheckVerdict, CheckedPlugin};
use crate::error::{Error, Result};
use crate::golden::golden_run;
use crate::guests::sandbox;
use crate::observer::{Notice, Observer};
use crate::policy;
use crate::settings::Settings;

/// Answers that a plugin's author has accepted, beside the plugin.
const EXPECTED: &str = "expected.json";

/// Greatest length of accepted answers.
const LARGEST_EXPECTED: u64 = 64 << 20;

/// Queries of the large case.
const MANY: usize = 1_000_000;

/// Part of a limit above which a small run is too much.
const HALF: f64 = 0.5;

/// Checks of a guest that are about to be made.
pub struct GuestSuite {
    /// Its file.
    pub file: PathBuf,
    /// The accepted answers, which need not be there.
    pub expected: PathBuf,
    /// The plugin.
    pub plugin: Plugin,
    names: Names,
    seconds: f64,
    sandbox: Sandbox,
    run: RunFolder,
    _place: TempDir,
}

/// A plugin's answer about the small run, as JSON, or why there is none.
type Answer = Result<Value, GuestError>;

impl GuestSuite {
    /// Loads a plugin from its file.
    ///
    /// # Errors
    ///
    /// If it cannot be loaded: all checks would fail for that reason.
    pub fn new(file: &Path, settings: &Settings, observer: &mut dyn Observer) -> Result<Self> {
        let sandbox = sandbox(settings)?;
        let unusable = |error| Error::UnusableGuest {
            hint: advice(&error, file),
            path: file.to_owned(),
            error: Box::new(error),
        };
        let mut tell = |compiling: Compiling| observer.notice(Notice::Compiling(&compiling));
        let begun = Instant::now();
        let plugin = sandbox.load_telling(file, &mut tell).map_err(unusable)?;
        let seconds = begun.elapsed().as_secs_f64();
        let names = sandbox.names(file).map_err(unusable)?;
        let (place, run) = golden_run()?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let expected = folder.join(EXPECTED);
        let file = file.to_owned();
        Ok(Self { file, expected, plugin, names, seconds, sandbox, run, _place: place })
    }

    /// Makes the checks whose name has `only` in it, and tells each as soon as it is done. With `accept`, the answers are
    /// written as the accepted ones instead of compared.
    ///
    /// # Errors
    ///
    /// If accepted answers cannot be read or written, or no check has such a name.
    pub fn run(
        &self,
        only: Option<&str>,
        accept: bool,
        on_result: &mut dyn FnMut(&CheckedPlugin),
    ) -> Result<Vec<CheckedPlugin>> {
        let names = CHECKS.map(|(name, _)| name);
        let mut checks = Vec::new();
        for (name, check) in CHECKS {
            if only.is_some_and(|only| !name.contains(only)) {
                continue;
            }
            let begun = Instant::now();
            let outcome = if name == ACCEPTED && accept { self.accept()? } else { check(self)? };
            let seconds = match name {
                LOADS => self.seconds,
                _ => begun.elapsed().as_secs_f64(),
            };
            let (verdict, detail) = match outcome {
                Check::Holds(detail) => (CheckVerdict::Holds, Some(detail)),
                Check::Fails(detail) => (CheckVerdict::Fails, Some(detail)),
                Check::DoesNotApply(detail) => (CheckVerdict::NotChecked, Some(detail)),
            };
            let checked = CheckedPlugin { check: name.into(), verdict, detail, seconds };
            on_result(&checked);
            checks.push(checked);
        }
        if checks.is_empty() {
            let reason = format!(
                "no check has `{}` in its name; there are: {}",
                only.unwrap_or_default(),
                names.join(", ")
            );
            return Err(Error::NotChecked { id: self.plugin.description().id.clone(), reason });
        }
        Ok(checks)
    }

    fn loads(&self) -> Result<Check> {
        let Names { bytes, .. } = self.names;
        let size = crate::units::bytes(bytes as f64);
        let id = &self.plugin.description().id;
        Ok(Check::Holds(format!(
            "{size}, {} {id} {}",
            self.plugin.kind(),
            self.plugin.description().version
        )))
    }

    fn is_of_this_host(&self) -> Result<Check> {
        let Names { world, version, imports, .. } = &self.names;
        let host = host_wasm::INTERFACE_VERSION;
        let imports = if imports.is_empty() { "nothing".into() } else { imports.join(", ") };
        Ok(Check::Holds(format!(
            "{world} of tare:plugin {version}, host has {host}; it imports {imports}"
        )))
    }

    fn starts_without_options(&self) -> Result<Check> {
        Ok(match self.sandbox.rehearse(&self.plugin, &json!({})) {
            Ok(values) if self.plugin.kind() == Kind::Metric => {
                let stated =
                    values.iter().map(|value| format!("{} in {}", value.metric, value.unit));
                Check::Holds(format!("it states {}", stated.collect::<Vec<_>>().join(", ")))
            }
            Ok(_) => Check::Holds("it takes none, or has defaults".into()),
            Err(error) => Check::Fails(error.to_string()),
        })
    }

    fn answers(&self) -> Result<Check> {
        Ok(match self.answer(&self.sandbox)? {
            Ok(answer) => Check::Holds(summary(&answer)),
            Err(error) => Check::Fails(error.to_string()),
        })
    }

    fn answers_twice_the_same(&self) -> Result<Check> {
        // The first call has warmed nothing: each has a store of its own.
        Ok(match (self.answer(&self.sandbox)?, self.answer(&self.sandbox)?) {
            (Ok(first), Ok(second)) if first == second => Check::Holds("byte for byte".into()),
            (Ok(first), Ok(second)) => Check::Fails(format!(
                "two calls on the same data gave different answers: {}",
                difference(&first, &second)
            )),
            (Err(error), _) | (_, Err(error)) => {
                Check::DoesNotApply(format!("it does not answer: {error}"))
            }
        })
    }

    fn stays_within_limits(&self) -> Result<Check> {
        Ok(match self.answer(&self.sandbox)? {
            Ok(_) => self.within(self.sandbox.used()),
            Err(error) => Check::DoesNotApply(format!("it does not answer: {error}")),
        })
    }

    fn within(&self, used: Used) -> Check {
        let limits = self.sandbox.limits();
        let Used { fuel, memory_bytes, memory_limit, time } = used;
        let text = format!(
            "{} of {} of memory, {:.2} s of {} s, {:.1e} of {:.1e} instructions in the last call",
            crate::units::bytes(memory_bytes as f64),
            crate::units::bytes(memory_limit as f64),
            time.as_secs_f64(),
            limits.deadline.as_secs_f64(),
            fuel as f64,
            limits.fuel as f64,
        );
        let parts = [
            memory_bytes as f64 / memory_limit as f64,
            time.as_secs_f64() / limits.deadline.as_secs_f64(),
            fuel as f64 / limits.fuel as f64,
        ];
        if parts.iter().any(|part| *part > HALF) {
            Check::Fails(format!("{text}: a larger run will exceed a limit"))
        } else {
            Check::Holds(text)
        }
    }

    fn bears_many_queries(&self) -> Result<Check> {
        if self.plugin.kind() != Kind::Metric || self.plugin.is_over_run() {
            return Ok(Check::DoesNotApply("it reads views and no columns".into()));
        }
        let Some(mut case) = self.cases()?.into_iter().next() else {
            return Ok(Check::DoesNotApply("the small run has no finished case".into()));
        };
        // Those that were measured, again and again.
        for column in &mut case.columns {
            let width = usize::try_from(column.width.max(1)).unwrap_or(1);
            if length(&column.data) > width {
                repeat(&mut column.data, MANY.saturating_mul(width));
            }
            // Queries of a process follow each other.
            if let (column::PROCESS, ColumnData::U64(numbers)) = (&*column.name, &mut column.data) {
                numbers.sort_unstable();
            }
        }
        Ok(match self.sandbox.compute(&self.plugin, &Rc::new(case), &json!({})) {
            Ok(_) => self.within(self.sandbox.used()),
            Err(error) => Check::Fails(error.to_string()),
        })
    }

    fn answers_as_accepted(&self) -> Result<Check> {
        if !self.expected.is_file() {
            let reason = format!("there is no {}; --accept writes it", self.expected.display());
            return Ok(Check::DoesNotApply(reason));
        }
        let text = host_files::read_to_string(&self.expected, LARGEST_EXPECTED)
            .map_err(|error| Error::io("read", &self.expected, error))?;
        let expected: Value = match serde_json::from_str(&text) {
            Ok(expected) => expected,
            Err(error) => {
                return Ok(Check::Fails(format!(
                    "{} is damaged: {error}",
                    self.expected.display()
                )));
            }
        };
        Ok(match self.answer(&self.sandbox)? {
            Ok(answer) if answer == expected => Check::Holds(self.expected.display().to_string()),
            Ok(answer) => Check::Fails(format!(
                "the answer is not that of {}: {}; if it should be, --accept keeps it",
                self.expected.display(),
                difference(&expected, &answer)
            )),
            Err(error) => Check::DoesNotApply(format!("it does not answer: {error}")),
        })
    }

    fn accept(&self) -> Result<Check> {
        Ok(match self.answer(&self.sandbox)? {
            Ok(answer) => {
                std::fs::write(&self.expected, format!("{answer:#}\n"))
                    .map_err(|error| Error::io("write", &self.expected, error))?;
                Check::Holds(format!("kept in {}", self.expected.display()))
            }
            Err(error) => Check::DoesNotApply(format!("it does not answer: {error}")),
        })
    }

    /// Returns the finished cases of the small run with the columns that the plugin reads.
    fn cases(&self) -> Result<Vec<CaseColumns>> {
        let names: Vec<&String> = self.plugin.columns().iter().collect();
        let mut cases = Vec::new();
        for record in self.run.records()? {
            let record = record?;
            if matches!(record.outcome, Outcome::Finished(_)) {
                cases.push(self.run.columns(&record, &names)?);
            }
        }
        Ok(cases)
    }

    fn answer(&self, sandbox: &Sandbox) -> Result<Answer> {
        let (plugin, none) = (&self.plugin, json!({}));
        if plugin.kind() == Kind::Metric && !plugin.is_over_run() {
            let mut answers = BTreeMap::new();
            for case in self.cases()?.into_iter().map(Rc::new) {
                match sandbox.compute(plugin, &case, &none) {
                    Ok(values) => answers.insert(case.case_id.clone(), plain(&values)),
                    Err(error) => return Ok(Err(error)),
                };
            }
            return Ok(Ok(json!(answers)));
        }
        let views: Rc<dyn Views> = Rc::new(RunViews::open(&self.run)?);
        Ok(match plugin.kind() {
            Kind::Metric => sandbox.compute_run(plugin, views, &none).map(|answers| {
                json!(answers.iter().map(|(case, values)| (case, plain(values))).collect::<BTreeMap<_, _>>())
            }),
            Kind::Report => sandbox.render(plugin, views, &none).and_then(|mut rendered| {
                // As it would be written.
                policy::apply(&mut rendered.files).map_err(|detail| GuestError {
                    plugin: plugin.description().id.clone(),
                    call: Some("render"),
                    kind: Box::new(host_wasm::GuestErrorKind::InvalidAnswer { detail }),
                    standard_error: String::new(),
                })?;
                let files = rendered.files.iter();
                let files = files.map(|(name, bytes)| (name, contents(bytes)));
                Ok(json!({ "named": rendered.named, "files": files.collect::<BTreeMap<_, _>>() }))
            }),
            Kind::Recommender => sandbox.recommend(plugin, views, None, &none).map(|advice| {
                json!({ "recommendations": advice.recommendations, "predictions": advice.predictions })
            }),
        })
    }
}

enum Check {
    Holds(String),
    Fails(String),
    DoesNotApply(String),
}

type Checker = fn(&GuestSuite) -> Result<Check>;

const LOADS: &str = "it compiles, loads and describes itself";
const ACCEPTED: &str = "the answers are the accepted ones";

const CHECKS: [(&str, Checker); 8] = [
    (LOADS, GuestSuite::loads),
    ("its world and version are offered by this host", GuestSuite::is_of_this_host),
    ("it starts without options and without data", GuestSuite::starts_without_options),
    ("it answers about the golden run", GuestSuite::answers),
    ("it answers the same twice", GuestSuite::answers_twice_the_same),
    ("it stays within its limits", GuestSuite::stays_within_limits),
    ("it stays within its limits with a million queries", GuestSuite::bears_many_queries),
    (ACCEPTED, GuestSuite::answers_as_accepted),
];

/// Returns values as in a file: without the intervals' types.
fn plain(values: &[MetricValue]) -> Value {
    json!(values)
}

/// Returns a file's contents as text, or their hash.
fn contents(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => json!({ "sha256": host_hash::sha256(bytes) }),
    }
}

/// Says how much an answer has.
fn summary(answer: &Value) -> String {
    if let Some(files) = answer["files"].as_object() {
        let files: Vec<_> = files.keys().map(String::as_str).collect();
        return format!("files: {}", files.join(", "));
    }
    if let Some(advice) = answer["recommendations"].as_array() {
        let titles: Vec<_> = advice.iter().filter_map(|one| one["title"].as_str()).collect();
        return if titles.is_empty() { "no advice".into() } else { titles.join("; ") };
    }
    let cases = answer.as_object();
    let cases: Vec<_> = cases.iter().flat_map(|cases| cases.values()).collect();
    let values: Vec<_> = cases.iter().filter_map(|values| values.as_array()).flatten().collect();
    let gaps = values.iter().filter(|value| value["value"].get("Err").is_some()).count();
    format!("{} cases, {} values, {gaps} of them gaps", cases.len(), values.len())
}

/// Names the first place in which two answers differ.
fn difference(first: &Value, second: &Value) -> String {
    match (first, second) {
        (Value::Object(one), Value::Object(other)) => {
            for (key, value) in one {
                match other.get(key) {
                    Some(other) if value == other => {}
                    Some(other) => return format!("{key}: {}", difference(value, other)),
                    None => return format!("{key} is missing"),
                }
            }
            let new = other.keys().find(|key| !one.contains_key(*key));
            new.map_or_else(|| "an order".into(), |key| format!("{key} is new"))
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let differs = one.iter().zip(other).find(|(one, other)| one != other);
            differs.map_or_else(String::new, |(one, other)| difference(one, other))
        }
        (Value::Array(one), Value::Array(other)) => {
            format!("{} items before, {} now", one.len(), other.len())
        }
        _ => {
            let cut = |value: &Value| value.to_string().chars().take(120).collect::<String>();
            format!("{} before, {} now", cut(first), cut(second))
        }
    }
}

fn length(data: &ColumnData) -> usize {
    match data {
        ColumnData::U64(values) => values.len(),
        ColumnData::S64(values) => values.len(),
        ColumnData::F32(values) => values.len(),
        ColumnData::F64(values) => values.len(),
        ColumnData::Boolean(values) => values.len(),
        ColumnData::Text(values) => values.len(),
    }
}

/// Repeats the values of a column until there are this many.
fn repeat(data: &mut ColumnData, most: usize) {
    fn of<T: Clone>(values: &mut Vec<T>, most: usize) {
        *values = values.iter().cycle().take(most).cloned().collect();
    }
    match data {
        ColumnData::U64(values) => of(values, most),
        ColumnData::S64(values) => of(values, most),
        ColumnData::F32(values) => of(values, most),
        ColumnData::F64(values) => of(values, most),
        ColumnData::Boolean(values) => of(values, most),
        ColumnData::Text(values) => of(values, most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_named() {
        let first = json!({ "a": [{ "metric": "x", "value": 1 }] });
        let second = json!({ "a": [{ "metric": "x", "value": 2 }] });
        assert_eq!(difference(&first, &second), "a: value: 1 before, 2 now");
        assert_eq!(difference(&json!({ "a": 1 }), &json!({})), "a is missing");
        assert_eq!(difference(&json!([1]), &json!([1, 2])), "1 items before, 2 now");
    }

    #[test]
    fn columns_are_repeated() {
        let mut data = ColumnData::U64(vec![1, 2, 3]);
        repeat(&mut data, 7);
        assert_eq!(data, ColumnData::U64(vec![1, 2, 3, 1, 2, 3, 1]));
    }
}
