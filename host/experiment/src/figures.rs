/*!
The figures of a run: what a comparison needs of it, and a baseline keeps.

A run folder has every query. A comparison needs of each case its coordinates, whether its result counts, and for each
metric one value from each process. That is little enough for a file that can be committed: a *baseline*. Both are read
into the same [`RunFigures`], so it makes no difference to a comparison which of the two a run came from.

A baseline is a file of JSON with one line for each case. A name stands for a file in the folder `baselines` of the
results folder. The database has no part in this: it is an index that can be rebuilt from the runs, and it can be locked.
*/

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::panic;
use std::path::{Path, PathBuf};
use std::thread;

use host_manifest::Price;
use host_record::{CaseGlance, CaseKey, CaseRecord, ColumnData, Direction, FinishedGlance, column};
use host_statistics::{Quantile, Undefined, order_statistics, processes_interval, sized_estimates};
use host_store::{
    ExampleOutcomes, Facts, GlancedValue, PluginRole, ResultsFolder, RunFolder, StoreError,
    device_facts, machine_facts,
};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Version of the format of baselines.
pub const BASELINE_VERSION: u32 = 1;

/// Confidence of the intervals.
pub const CONFIDENCE: f64 = 0.95;

/// The main figure of a case: the median latency.
pub const LATENCY: &str = "latency.p50";

/// The main figure of a case whose rate was searched: the rate that was found.
pub const RATE: &str = "rate";

/// Most bytes of a baseline.
const MOST_BYTES: u64 = 256 << 20;

/// The folder of baselines with names, in a results folder.
const FOLDER: &str = "baselines";

/// The ending of a baseline's file.
const ENDING: &str = "json";

/// The figures of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunFigures {
    /// The run's id.
    pub run: String,
    /// The experiment's name.
    pub experiment: String,
    /// Start of the run, RFC 3339 in UTC.
    pub started_at: String,
    /// Commit of the user's repository, with `-dirty` if it had changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_commit: Option<String>,
    /// Facts about the machine, its devices, and the versions of what ran.
    pub conditions: BTreeMap<String, String>,
    /// The cases that were measured, in the order of the run.
    pub cases: Vec<CaseFigures>,
    /// Reasons why cases were not measured, by their ids. A baseline does not keep them.
    #[serde(skip)]
    pub unmeasured: BTreeMap<String, (CaseKey, String)>,
    /// The run's folder; `None` of a baseline.
    #[serde(skip)]
    pub folder: Option<PathBuf>,
}

/// The figures of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CaseFigures {
    /// The case's id.
    pub id: String,
    /// Its coordinates.
    pub key: CaseKey,
    /// Whether its result counts.
    pub trust: Trust,
    /// Whether a warning casts doubt on its main figure.
    #[serde(default)]
    pub is_disturbed: bool,
    /// Its processes.
    pub processes: usize,
    /// Its main figure, the median latency or the rate that was found; `None` if its queries are lost.
    pub main: Option<Figure>,
    /// Its metrics.
    pub metrics: Vec<Figure>,
    /// Reasons why metrics have no value. A baseline does not keep them.
    #[serde(skip)]
    pub gaps: BTreeMap<String, String>,
    /// The price of an hour of its device, by the manifest. A baseline does not keep it.
    #[serde(skip)]
    pub price_per_hour: Option<f64>,
}

/// Whether a result counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// It does.
    Sound,
    /// It was judged invalid.
    Invalid,
    /// The device is simulated.
    Simulated,
}

/// A figure of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Figure {
    /// The metric, or [`LATENCY`] or [`RATE`].
    pub metric: String,
    /// Unit by its symbol.
    pub unit: String,
    /// Which way is better.
    pub direction: Direction,
    /// Its value: the mean over processes, if there are several.
    pub value: f64,
    /// The value of each process; of a metric that does not state them, `value` alone.
    pub processes: Vec<f64>,
    /// The interval within a single process, or over labelled examples, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
    /// Confidence of that interval.
    #[serde(default = "usual", skip_serializing_if = "is_usual")]
    pub confidence: f64,
    /// Of an accuracy: whether each labelled example is right. A baseline does not keep it.
    #[serde(skip)]
    pub outcomes: Option<ExampleOutcomes>,
}

fn usual() -> f64 {
    CONFIDENCE
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_usual(confidence: &f64) -> bool {
    *confidence == CONFIDENCE
}

/// Unit of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// One value from each process.
    Processes,
    /// The queries of a single process.
    Queries,
    /// The labelled examples of an accuracy.
    Examples,
}

impl Unit {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Queries => "queries",
            Self::Examples => "examples",
        }
    }
}

impl Figure {
    /// Returns the median latency of the queries of each process.
    fn of_latencies(processes: &[Vec<u64>]) -> Option<Self> {
        let median = |latencies: &Vec<u64>| {
            let middle = latencies.len().div_ceil(2);
            let found = (middle > 0).then(|| order_statistics(latencies, &[middle]));
            found.map(|found| found[0] as f64)
        };
        let medians = processes.iter().map(median).collect::<Option<Vec<f64>>>()?;
        let interval = match processes {
            [latencies] => {
                let found = sized_estimates(latencies, &[Quantile::P50], CONFIDENCE).pop()?;
                let interval = found.ok().and_then(|found| found.interval);
                interval.map(|(low, high)| (low as f64, high as f64))
            }
            _ => None,
        };
        Self::of_values(LATENCY, "ns", Direction::Lower, medians)
            .map(|figure| Self { interval, ..figure })
    }

    /// Returns the mean of one value from each process.
    pub(crate) fn of_values(
        metric: &str,
        unit: &str,
        direction: Direction,
        processes: Vec<f64>,
    ) -> Option<Self> {
        let value = processes.iter().sum::<f64>() / processes.len() as f64;
        (!processes.is_empty()).then(|| Self {
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            direction,
            value,
            processes,
            interval: None,
            confidence: CONFIDENCE,
            outcomes: None,
        })
    }

    /// Returns a metric's value, or the reason why it has none.
    fn of_value(metric: GlancedValue) -> Result<Self, String> {
        // The value of an extreme is not the mean of those of the processes.
        let processes = metric.process_values();
        let confidence = metric.confidence().unwrap_or(CONFIDENCE);
        let outcomes = metric.outcomes();
        let value = metric.value.map_err(|gap| gap.to_string())?;
        let is_of_processes = processes.is_some();
        Ok(Self {
            metric: metric.metric,
            unit: metric.unit,
            direction: metric.direction,
            value,
            processes: processes.unwrap_or_else(|| vec![value]),
            interval: metric.interval.filter(|_| !is_of_processes),
            confidence: if is_of_processes { CONFIDENCE } else { confidence },
            outcomes,
        })
    }

    /// Returns whether it is of outputs, which are the same in all processes.
    #[must_use]
    pub fn is_of_outputs(&self) -> bool {
        self.metric.starts_with("accuracy.")
    }

    /// Returns whether it is a count or a size that is the same in several processes, or is of outputs: then it does not
    /// depend on chance. Times and rates are rounded to the clock's steps, so that equal ones may still differ. A single
    /// process does not show whether another one has the same value.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        let is_constant = || self.processes.iter().all(|value| *value == self.processes[0]);
        let is_counted = matches!(&*self.unit, "B" | "1");
        self.is_of_outputs() || (is_counted && self.processes.len() > 1 && is_constant())
    }

    /// Returns the interval at its confidence, if there is one: over processes if there are several.
    ///
    /// # Errors
    ///
    /// If there are several, and they have no interval.
    pub fn interval(&self) -> Result<Option<(f64, f64)>, Undefined> {
        if self.processes.len() < 2 {
            return Ok(self.interval);
        }
        let slices: Vec<&[f64]> = self.processes.chunks(1).collect();
        let found = processes_interval(&slices, |one| one[0], CONFIDENCE)?;
        Ok(Some((found.low, found.high)))
    }

    /// Returns the unit that its interval is over.
    #[must_use]
    pub fn unit_of_interval(&self) -> Unit {
        match self.processes.len() {
            2.. => Unit::Processes,
            _ if self.is_of_outputs() => Unit::Examples,
            _ => Unit::Queries,
        }
    }

    /// Returns the fault of one that no host wrote.
    fn fault(&self) -> Option<String> {
        let Self { metric, value, processes, interval, confidence, .. } = self;
        let mut values = processes.iter().chain([value]);
        let is_interval =
            |(low, high): &(f64, f64)| low.is_finite() && high.is_finite() && low <= high;
        let fault = match () {
            () if processes.is_empty() => "has no value of a process",
            () if !values.all(|value| value.is_finite()) => "has a value that is not a number",
            () if !interval.as_ref().is_none_or(is_interval) => "has an interval that is none",
            () if !(*confidence > 0.0 && *confidence < 1.0) => {
                "has a confidence that is not between 0 and 1"
            }
            () => return None,
        };
        Some(format!("`{metric}` {fault}"))
    }
}

impl CaseFigures {
    /// Returns the figure of this name. The main figure is also called as the metric that states it.
    #[must_use]
    pub fn figure(&self, metric: &str) -> Option<&Figure> {
        let mut all = self.main.iter().chain(&self.metrics);
        all.find(|figure| figure.metric == metric)
    }
}

impl RunFigures {
    /// Reads the figures of a run.
    ///
    /// # Errors
    ///
    /// If it is damaged or cannot be read.
    pub fn of_run(folder: &RunFolder) -> Result<Self> {
        let mut metrics = folder.glanced_results()?;
        // A manifest of another version says nothing of prices that could be read.
        let prices = host_manifest::parse(&folder.manifest_text()?);
        let prices = prices.map(|experiment| experiment.prices).unwrap_or_default();
        let header = folder.header();
        let mut facts = machine_facts(header.environment.clone());
        facts.insert("host".into(), Some(header.host_version.clone()));
        let backends = header.plugins.iter().filter(|plugin| plugin.role == PluginRole::Backend);
        for plugin in backends {
            let identity = &plugin.identity;
            let version = |version: &str, sha256: &str| {
                format!("{version} ({})", sha256.get(..12).unwrap_or(sha256))
            };
            let text = version(&identity.version, &identity.sha256);
            facts.insert(format!("plugin.{}", identity.id), Some(text));
            if let Some(runtime) = &plugin.runtime {
                facts.insert(
                    format!("runtime.{}", identity.id),
                    Some(match &runtime.version {
                        Some(version) => format!("{} {version}", runtime.name),
                        None => runtime.name.clone(),
                    }),
                );
            }
        }
        let (mut cases, mut unmeasured) = (Vec::new(), BTreeMap::new());
        // By its backend and its id: most cases have a device of an earlier one.
        let mut devices = BTreeMap::new();
        for CaseGlance { case_id, key, device, outcome } in folder.glances()? {
            match outcome {
                Ok(finished) => {
                    if let Some(device) = device {
                        devices.insert((key.backend.clone(), device.id.clone()), device);
                    }
                    let metrics = metrics.remove(&case_id).unwrap_or_default();
                    cases.push(case(case_id, key, &finished, metrics));
                }
                Err(reason) => drop(unmeasured.insert(case_id, (key, reason))),
            }
        }
        for ((backend, _), device) in &devices {
            device_facts(backend, device, &mut facts);
        }
        complete(&mut cases, folder)?;
        for case in &mut cases {
            case.price_per_hour = Price::of(&prices, &case.key.backend, &case.key.device);
        }
        // A case of an earlier attempt may have failed.
        cases.iter().for_each(|case: &CaseFigures| drop(unmeasured.remove(&case.id)));
        let seen: BTreeSet<&String> = cases.iter().map(|case| &case.id).collect();
        for line in folder.plan()? {
            let line = line?;
            if !seen.contains(&line.case_id) && !unmeasured.contains_key(&line.case_id) {
                let reason = match &line.gap {
                    Some(gap) => gap.to_string(),
                    None => "the run has not reached it".to_owned(),
                };
                unmeasured.insert(line.case_id, (line.key, reason));
            }
        }
        Ok(Self {
            run: header.run_id.clone(),
            experiment: header.experiment.clone(),
            started_at: header.started_at.clone(),
            git_commit: header.environment.git_commit.clone(),
            conditions: lasting(facts),
            cases,
            unmeasured,
            folder: Some(folder.path().to_owned()),
        })
    }

    /// Reads what a name stands for: the file of a baseline, whose name ends with `.json`; the name of a baseline; a run by
    /// its id, a part of it, its folder, or `latest`; or the newest run of a commit, by at least seven digits of it.
    ///
    /// # Errors
    ///
    /// If there is no such thing, or it is damaged or of a newer version.
    pub fn find(name: &str, results: &ResultsFolder) -> Result<Self> {
        let place = baseline_place(name, results);
        if let Some(path) = &place
            && (is_file_name(name) || path.is_file())
        {
            return read_baseline(path);
        }
        let missing = match results.find(name) {
            Ok(path) => return Self::of_run(&RunFolder::open(&path)?),
            Err(error @ StoreError::NoSuchRun { .. }) => error,
            Err(error) => return Err(error.into()),
        };
        match of_commit(name, results)? {
            Some(path) => Self::of_run(&RunFolder::open(&path)?),
            None => Err(Error::NoSuchReference {
                baselines: names_of_baselines(results),
                source: missing,
            }),
        }
    }

    /// Reads what two names stand for, at the same time: most of the time of a comparison is reading.
    ///
    /// # Errors
    ///
    /// As [`RunFigures::find`].
    pub fn find_both(names: [&str; 2], results: &ResultsFolder) -> Result<[Self; 2]> {
        let [first, second] = names;
        thread::scope(|scope| {
            let second = scope.spawn(|| Self::find(second, results));
            let first = Self::find(first, results);
            let second = second.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
            Ok([first?, second?])
        })
    }

    /// Writes a baseline: into a file whose name ends with `.json`, or under a name in the results folder. One that is there
    /// is replaced. Returns its file.
    ///
    /// # Errors
    ///
    /// If the name cannot be one, nothing was measured, or the file cannot be written.
    pub fn save(&self, name: &str, results: &ResultsFolder) -> Result<PathBuf> {
        let Some(path) = baseline_place(name, results) else {
            return Err(Error::BaselineName { name: name.to_owned() });
        };
        if self.cases.is_empty() {
            return Err(Error::NothingMeasured { run: self.run.clone() });
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let (Some(folder), false) = (folder, is_file_name(name)) {
            fs::create_dir_all(folder).map_err(|error| Error::io("create", folder, error))?;
        }
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        fs::write(&partial, self.text()).and_then(|()| fs::rename(&partial, &path)).map_err(
            |error| {
                drop(fs::remove_file(&partial));
                Error::io("write", &path, error)
            },
        )?;
        Ok(path)
    }

    /// Returns the text of a baseline: a line for each case, so that changes of a committed one can be read.
    fn text(&self) -> String {
        fn json(value: &impl Serialize) -> String {
            serde_json::to_string(value).expect("keys are texts")
        }
        let head = [
            ("baseline-version", json(&BASELINE_VERSION)),
            ("run", json(&self.run)),
            ("experiment", json(&self.experiment)),
            ("started-at", json(&self.started_at)),
            ("git-commit", json(&self.git_commit)),
            ("conditions", json(&self.conditions)),
        ];
        let head: Vec<_> =
            head.iter().map(|(name, text)| format!("\"{name}\": {text},\n")).collect();
        let cases: Vec<_> = self.cases.iter().map(json).collect();
        format!("{{\n{}\"cases\": [\n{}\n]\n}}\n", head.concat(), cases.join(",\n"))
    }
}

/// Returns the figures of a case that was measured. Its main figure is missing if it has to be computed from its queries.
fn case(
    id: String,
    key: CaseKey,
    finished: &FinishedGlance,
    values: Vec<GlancedValue>,
) -> CaseFigures {
    let (mut metrics, mut gaps) = (Vec::new(), BTreeMap::new());
    for value in values {
        let name = value.value.is_err().then(|| value.metric.clone());
        match Figure::of_value(value) {
            Ok(figure) => metrics.push(figure),
            Err(reason) => drop(gaps.insert(name.unwrap_or_default(), reason)),
        }
    }
    let rates: Vec<f64> = finished.searched_rates.iter().map(|rate| rate.get()).collect();
    // The metric is computed in the same way from the same samples, and is faster to read.
    let is_main = |figure: &Figure| {
        (&*figure.metric, &*figure.unit, figure.processes.len())
            == (LATENCY, "ns", finished.processes)
    };
    let main = match metrics.iter().position(is_main) {
        _ if !rates.is_empty() => Figure::of_values(RATE, "1/s", Direction::Higher, rates),
        place => place.map(|place| metrics.remove(place)),
    };
    let name = main.as_ref().map_or(LATENCY, |figure| figure.metric.as_str());
    CaseFigures {
        trust: match () {
            () if finished.is_simulated => Trust::Simulated,
            () if !finished.is_valid => Trust::Invalid,
            () => Trust::Sound,
        },
        is_disturbed: finished.warnings.iter().any(|kind| kind.touches(name)),
        id,
        key,
        processes: finished.processes,
        main,
        metrics,
        gaps,
        price_per_hour: None,
    }
}

/// Computes main figures that no metric has stated.
fn complete(cases: &mut [CaseFigures], folder: &RunFolder) -> Result<()> {
    let lacking = cases.iter_mut().filter(|case| case.main.is_none());
    let mut lacking: BTreeMap<String, &mut CaseFigures> =
        lacking.map(|case| (case.id.clone(), case)).collect();
    if lacking.is_empty() {
        return Ok(());
    }
    for record in folder.records()? {
        let record = record?;
        if let Some(case) = lacking.remove(&record.case_id) {
            case.main = Figure::of_latencies(&latencies(folder, &record)?);
        }
    }
    Ok(())
}

/// Reads the latencies of each process. A case whose file is lost has none.
fn latencies(folder: &RunFolder, record: &CaseRecord) -> Result<Vec<Vec<u64>>> {
    let mut columns = folder.columns(record, &[column::LATENCY, column::PROCESS])?.columns;
    let mut take = |name: &str| {
        let place = columns.iter().position(|column| column.name == name)?;
        match columns.swap_remove(place).data {
            ColumnData::U64(values) => Some(values),
            _ => None,
        }
    };
    let latencies = take(column::LATENCY).unwrap_or_default();
    // One of a single process has no numbers of them.
    let numbers = take(column::PROCESS).unwrap_or_else(|| vec![0; latencies.len()]);
    let mut rest = latencies.as_slice();
    let processes = numbers.chunk_by(|one, next| one == next).map(|process| {
        let (own, others) = rest.split_at(process.len().min(rest.len()));
        rest = others;
        own.to_vec()
    });
    Ok(processes.collect())
}

/// Returns the facts that last: not the load, nor what else differs from minute to minute on one machine.
fn lasting(facts: Facts) -> BTreeMap<String, String> {
    const PASSING: [&str; 5] = [
        "load-average",
        "memory-available-bytes",
        "processor.thermal-throttles",
        "variables",
        "container.told-by",
    ];
    let lasts = |name: &String| !PASSING.contains(&name.as_str());
    facts
        .into_iter()
        .filter(|(name, _)| lasts(name))
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

/// Returns whether a name is that of a baseline's file.
fn is_file_name(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|ending| ending == ENDING)
}

/// Returns the file of a baseline; `None` if it cannot be the name of one.
fn baseline_place(name: &str, results: &ResultsFolder) -> Option<PathBuf> {
    if is_file_name(name) {
        return Some(name.into());
    }
    let plain = |one: char| one.is_alphanumeric() || matches!(one, '.' | '_' | '-' | '@' | '+');
    let is_name = !name.is_empty() && name.len() <= 128 && name.chars().all(plain);
    let is_name = is_name && !name.starts_with('.') && name != "latest";
    is_name.then(|| results.path().join(FOLDER).join(format!("{name}.{ENDING}")))
}

/// Returns the names of the baselines in a results folder.
fn names_of_baselines(results: &ResultsFolder) -> Vec<String> {
    let files = fs::read_dir(results.path().join(FOLDER)).into_iter().flatten().flatten();
    let name = |file: fs::DirEntry| {
        let path = file.path();
        let is_one = path.extension().is_some_and(|ending| ending == ENDING);
        is_one.then(|| path.file_stem().map(|name| name.to_string_lossy().into_owned()))?
    };
    let mut names: Vec<_> = files.filter_map(name).collect();
    names.sort();
    names
}

/// Returns the newest run of a commit without changes. The headers of the runs are asked, because the database may be
/// behind or locked.
fn of_commit(name: &str, results: &ResultsFolder) -> Result<Option<PathBuf>> {
    let is_hexadecimal = |one: char| one.is_ascii_digit() || matches!(one, 'a'..='f');
    if !(7..=40).contains(&name.len()) || !name.chars().all(is_hexadecimal) {
        return Ok(None);
    }
    let mut found: Option<(String, PathBuf)> = None;
    for path in results.run_paths()? {
        let commit = RunFolder::open(&path).ok();
        let commit = commit.and_then(|folder| folder.header().environment.git_commit.clone());
        let Some(commit) = commit.filter(|commit| commit.starts_with(name)) else { continue };
        match &found {
            _ if commit.ends_with("-dirty") => {}
            Some((other, _)) if *other != commit => {
                let candidates = vec![other.clone(), commit];
                return Err(StoreError::AmbiguousRun { name: name.to_owned(), candidates }.into());
            }
            _ => found = Some((commit, path)),
        }
    }
    Ok(found.map(|(_, path)| path))
}

/// Reads a baseline from a file, which others may have written or damaged.
fn read_baseline(path: &Path) -> Result<RunFigures> {
    let wrong = |detail: String| Error::Baseline { path: path.to_owned(), detail };
    let bytes = match host_files::read(path, MOST_BYTES) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Error::NoBaseline { path: path.to_owned() });
        }
        Err(error) if host_files::is_unsuitable(&error) => return Err(wrong(error.to_string())),
        bytes => bytes.map_err(|error| Error::io("read", path, error))?,
    };
    /// The part that tells whether the rest can be read.
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Version {
        baseline_version: u32,
    }
    let version = serde_json::from_slice::<Version>(&bytes);
    match version {
        Ok(Version { baseline_version }) if baseline_version > BASELINE_VERSION => {
            return Err(Error::NewerBaseline {
                path: path.to_owned(),
                found: baseline_version,
                supported: BASELINE_VERSION,
            });
        }
        Err(error) if error.is_data() => {
            return Err(wrong(format!("it has no `baseline-version`: {error}")));
        }
        Ok(_) | Err(_) => {}
    }
    let figures: RunFigures =
        serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    let mut ids = BTreeSet::new();
    for case in &figures.cases {
        let all = || case.main.iter().chain(&case.metrics);
        let fault = match () {
            () if !ids.insert(&case.id) => Some("it is there twice".to_owned()),
            () if case.processes == 0 => Some("it has no process".to_owned()),
            () => all().find_map(Figure::fault),
        };
        if let Some(fault) = fault {
            return Err(wrong(format!("case {}: {fault}", case.id)));
        }
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use host_record::MetricValue;

    use super::*;

    fn of_metric(metric: &MetricValue) -> Result<Figure, String> {
        Figure::of_value(GlancedValue::from(metric))
    }

    fn metric(values: &str) -> MetricValue {
        MetricValue {
            metric: "latency.mean".into(),
            value: Ok(5.0),
            interval: Some((4.0, 6.0)),
            unit: "ns".into(),
            direction: Direction::Lower,
            attributes: [("confidence", "0.99"), ("process-values", values)]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        }
    }

    fn example() -> RunFigures {
        let single = of_metric(&metric("5")).expect("a value");
        let several = of_metric(&metric("4 5 6")).expect("a value");
        let case = |id: &str, metrics| CaseFigures {
            id: id.into(),
            key: CaseKey::new("m \"quoted\"", "b", "d:0"),
            trust: Trust::Sound,
            is_disturbed: id == "1",
            processes: 3,
            main: Figure::of_latencies(&[vec![5, 6, 7], vec![6, 7, 8], vec![7, 8, 9]]),
            metrics,
            gaps: BTreeMap::new(),
            price_per_hour: None,
        };
        RunFigures {
            run: "20260102T030405.000Z-it-000001".into(),
            experiment: "it".into(),
            started_at: "2026-01-02T03:04:05.000Z".into(),
            git_commit: Some("0123456789abcdef0123456789abcdef01234567".into()),
            conditions: [("processor.name".to_owned(), "AMD EPYC".to_owned())].into(),
            cases: vec![case("1", vec![single]), case("2", vec![several])],
            unmeasured: BTreeMap::new(),
            folder: None,
        }
    }

    #[test]
    fn an_interval_is_stated_at_the_confidence_that_it_has() {
        let figure = of_metric(&metric("5")).expect("a value");
        let interval = figure.interval();
        assert_eq!((interval, figure.confidence), (Ok(Some((4.0, 6.0))), 0.99));
        let figure = of_metric(&metric("4 5 6")).expect("a value");
        // t(0.975; 2) = 4.3027, times 1 / √3.
        let (low, _) = figure.interval().expect("one").expect("several processes");
        assert!((low - (5.0 - 2.4842)).abs() < 1e-3 && figure.confidence == CONFIDENCE, "{low}");
    }

    #[test]
    fn a_few_queries_tell_nothing() {
        let few = Figure::of_latencies(&[vec![5, 6, 7]]).expect("queries");
        assert_eq!((few.value, few.interval(), few.processes.len()), (6.0, Ok(None), 1));
        assert_eq!(Figure::of_latencies(&[]), None);
        let latencies = (0..500_u64).map(|index| 1000 + index * 7 % 10).collect();
        let many = Figure::of_latencies(&[latencies]).expect("queries");
        assert!(many.interval.is_some() && many.unit_of_interval() == Unit::Queries);
        // The median is that of the metric: the nearest rank.
        assert_eq!(many.value, 1004.0);
    }

    #[test]
    fn a_baseline_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let results = ResultsFolder::new(folder.path());
        let figures = example();
        let file = folder.path().join("it.json").display().to_string();
        for name in ["main@runner-1", &file] {
            let path = figures.save(name, &results).expect("writing");
            assert_eq!(RunFigures::find(name, &results).expect("reading"), figures);
            let text = fs::read_to_string(path).expect("reading");
            let lines = text.lines().filter(|line| line.starts_with("{\"id\""));
            assert_eq!(lines.count(), 2, "a line for each case: {text}");
        }
        assert_eq!(names_of_baselines(&results), ["main@runner-1"]);
        for name in ["", "latest", ".hidden", "feature/x", "../x", "a b"] {
            let refused = figures.save(name, &results).expect_err("no name");
            assert!(matches!(refused, Error::BaselineName { .. }), "{name}: {refused}");
        }
        let nothing = RunFigures { cases: Vec::new(), ..figures };
        let refused = nothing.save("main", &results).expect_err("it is empty");
        assert!(matches!(refused, Error::NothingMeasured { .. }), "{refused}");
    }

    /// The first version of the format, as it was written then, stays readable and says the same.
    #[test]
    fn a_baseline_of_version_1_is_read() {
        let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/baselines/v1.json");
        assert_eq!(read_baseline(&old).expect("it is readable"), example());
    }

    #[test]
    fn what_is_no_baseline_has_one_clear_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("it.json");
        let error = |text: &[u8]| {
            fs::write(&path, text).expect("writing");
            read_baseline(&path).expect_err("it is refused").to_string()
        };
        let whole = example().text();
        let changed = |from: &str, to: &str| {
            assert!(whole.contains(from), "{from}: {whole}");
            error(whole.replacen(from, to, 1).as_bytes())
        };
        for (found, says) in [
            (error(b""), "EOF while parsing"),
            (error(b"\xff\xfe"), "line 1"),
            (error(&whole.as_bytes()[..whole.len() / 2]), "EOF while parsing"),
            (error(b"{}"), "it has no `baseline-version`"),
            (error(b"[1]"), "invalid type: integer `1`"),
            (
                changed("\"conditions\": {", &format!("\"deep\": {}", "[".repeat(100_000))),
                "expected `,` or `]`",
            ),
            (changed("\"baseline-version\": 1", "\"baseline-version\": 2"), "has version 2"),
            (changed("\"baseline-version\": 1", "\"baseline-version\": -1"), "invalid value"),
            (changed("\"value\":5.0", "\"value\":1e999"), "out of range"),
            (changed("\"value\":5.0", "\"value\":null"), "invalid type: null"),
            (changed("\"processes\":[5.0]", "\"processes\":[]"), "has no value of a process"),
            (
                changed("\"interval\":[4.0,6.0]", "\"interval\":[6.0,4.0]"),
                "an interval that is none",
            ),
            (changed("\"confidence\":0.99", "\"confidence\":99"), "not between 0 and 1"),
            (changed("{\"id\":\"2\"", "{\"id\":\"1\""), "case 1: it is there twice"),
            (changed("\"sound\"", "\"golden\""), "unknown variant `golden`"),
        ] {
            assert!(found.contains(says) && found.contains("it.json"), "{says}: {found}");
        }
    }

    #[test]
    fn what_differs_from_minute_to_minute_is_not_kept() {
        let facts: Facts = [
            ("load-average", Some("3.4")),
            ("memory-available-bytes", Some("1")),
            ("processor.name", Some("AMD EPYC")),
            ("processor.governor", None),
        ]
        .map(|(name, value)| (name.to_owned(), value.map(str::to_owned)))
        .into();
        let kept: Vec<_> = lasting(facts).into_keys().collect();
        assert_eq!(kept, ["processor.name"]);
    }
}
