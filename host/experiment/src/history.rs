/*!
The history of cases: a series of results over all runs in the database, its changes, and its environment.

A series has the results of one metric for cases with the same coordinates in the matrix, of one experiment, on one
machine. A case's id changes with its model's file, so ids do not make the series: a new file is a mark on it, as is
every other change of the environment. A run that failed, or whose result is invalid or missing, is a point without a
value and with the reason; it is not examined.

Runs of a machine that is new each time, as in many CI services, can be pooled: a series then has all machines with the
same processor and device, and the machine's name is one more mark.

Changes and drift are those of [`host_statistics::levels`].
*/

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use host_manifest::suggestions;
use host_record::{Axis, CaseKey, Cell, Direction, Table};
use host_statistics::{FALSE_ALARMS, LevelChange, Levels, Undefined, levels};
use host_store::{Database, Past, Reader, ResultsFolder, RunFolder};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::figures::{CONFIDENCE, LATENCY};
use crate::verdict::verdict;

/// Time to wait for another process that has the database open.
const PATIENCE: Duration = Duration::from_secs(2);

/// The metric of cases whose latency says little: all examples are one query, or the rate was searched.
const THROUGHPUT: &str = "throughput.samples";

/// Most points of a series that are examined, the newest ones. The time grows with their square.
pub const MOST_POINTS: usize = 2000;

/// Runs of a report's history, with its own.
const MOST_IN_REPORT: usize = 60;

/// Selection of series.
#[derive(Debug, Clone, Default)]
pub struct HistoryOptions {
    /// A model's id, a case's id, or the start of a case's id.
    pub subject: Option<String>,
    /// Metrics; by default the median latency, or the throughput of offline cases and searched rates.
    pub metrics: Vec<String>,
    /// Backends, by their ids in manifests; by default all.
    pub backends: Vec<String>,
    /// Whether equal machines make one series.
    pub pool: bool,
}

/// Series of results.
#[derive(Debug)]
pub struct History {
    /// The series with a value, those with the largest newest change first.
    pub series: Vec<Series>,
    /// Runs whose folders are not in the database.
    pub not_indexed: usize,
}

/// Results of one metric for the same coordinates, experiment and machine, oldest first.
#[derive(Debug)]
pub struct Series {
    /// The coordinates.
    pub key: CaseKey,
    /// The experiment.
    pub experiment: String,
    /// The machine's name, or its processor and device if machines are pooled.
    pub machine: String,
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Which values are better.
    pub direction: Direction,
    /// The runs.
    pub points: Vec<Point>,
    /// Changes and drift, by positions among the points with a value that were examined.
    pub found: Result<Levels, Undefined>,
    /// Positions in `points` of the values that were examined.
    pub examined: Vec<usize>,
}

/// A run in a series.
#[derive(Debug)]
pub struct Point {
    /// The run's id.
    pub run_id: String,
    /// Start of the run, RFC 3339.
    pub started_at: String,
    /// Commit of the user's repository.
    pub commit: Option<String>,
    /// The case's id.
    pub case_id: String,
    /// The value, or the reason why there is none.
    pub value: Result<f64, String>,
    /// The value's interval.
    pub interval: Option<(f64, f64)>,
    /// Processes that measured it.
    pub processes: Option<i64>,
    /// Differences of the environment from the point before.
    pub marks: Vec<Mark>,
}

/// A difference of the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The fact, such as `driver`.
    pub name: String,
    /// Its value before.
    pub before: String,
    /// Its value from this point on.
    pub after: String,
}

impl Series {
    /// Returns the position in `points` of an examined value.
    #[must_use]
    pub fn place(&self, index: usize) -> usize {
        self.examined.get(index).copied().unwrap_or(self.points.len())
    }

    /// Returns the changes; none if the series could not be examined.
    #[must_use]
    pub fn changes(&self) -> &[LevelChange] {
        self.found.as_ref().map_or(&[], |found| &found.changes)
    }

    /// Returns the word for a change by this ratio, such as `slower`.
    #[must_use]
    pub fn verdict(&self, ratio: f64) -> &'static str {
        verdict(&self.metric, self.direction, ratio > 1.0)
    }

    /// Returns the newest change or the drift, whichever is the last, as a ratio.
    #[must_use]
    pub fn newest_ratio(&self) -> Option<f64> {
        let found = self.found.as_ref().ok()?;
        let change = found.changes.last().map(|change| change.ratio);
        found.drift.map(|drift| drift.ratio).or(change)
    }

    /// Returns the points before the position that may have brought the change there: those since the last value.
    #[must_use]
    pub fn suspects(&self, index: usize) -> &[Point] {
        let before = index.checked_sub(1).map_or(0, |before| self.place(before) + 1);
        self.points.get(before..=self.place(index)).unwrap_or_default()
    }
}

/// Returns about how many of these series would show a change if nothing had changed.
#[must_use]
pub fn expected_by_chance(series: &[Series]) -> f64 {
    FALSE_ALARMS * series.iter().filter(|series| series.found.is_ok()).count() as f64
}

/// Reads the history of cases from the database.
///
/// # Errors
///
/// If there is no database, it is in use or cannot be read, or if nothing in it has one of the names.
pub fn history(results: &ResultsFolder, options: &HistoryOptions) -> Result<History> {
    let reader = Database::reader(results, PATIENCE)?;
    let known = |column: &str, table: &str| -> Result<Vec<String>> {
        let found =
            reader.table(&format!("SELECT DISTINCT {column} FROM {table} ORDER BY 1"), &[])?;
        Ok(found.rows.into_iter().flatten().filter_map(into_text).collect())
    };
    let runs: BTreeSet<String> = known("run_id", "benchmark_runs")?.into_iter().collect();
    let is_known = |path: &std::path::PathBuf| {
        path.file_name().is_some_and(|name| runs.contains(&*name.to_string_lossy()))
    };
    let not_indexed = results.run_paths()?.iter().filter(|path| !is_known(path)).count();
    if runs.is_empty() {
        return Ok(History { series: Vec::new(), not_indexed });
    }
    let mut conditions = vec!["c.outcome <> 'gap'".to_owned()];
    let mut values: Vec<&str> = options.metrics.iter().map(String::as_str).collect();
    if !options.metrics.is_empty() {
        let there = known("metric", "benchmark_results")?;
        all_known("metric", &options.metrics, &there)?;
    }
    let pattern;
    if let Some(subject) = &options.subject {
        let models = known("model", "benchmark_cases")?;
        if models.contains(subject) {
            conditions.push("c.model = ?".into());
            values.push(subject);
        } else {
            let cases = known("case_id", "benchmark_cases")?;
            if subject.len() < 4 || !cases.iter().any(|case| case.starts_with(subject)) {
                return Err(unknown("model or case", subject, &models));
            }
            pattern = subject.clone();
            conditions.push("starts_with(c.case_id, ?)".into());
            values.push(&pattern);
        }
    }
    if !options.backends.is_empty() {
        all_known("backend", &options.backends, &known("backend", "benchmark_cases")?)?;
        let places = vec!["?"; options.backends.len()].join(", ");
        conditions.push(format!("c.backend IN ({places})"));
        values.extend(options.backends.iter().map(String::as_str));
    }
    let rows = reader.table(&query(options.metrics.len(), &conditions.join(" AND ")), &values)?;
    let environments = Environments::read(&reader, "true", &[])?;
    drop(reader);
    let mut series = gathered(&rows, &environments, options.pool)?;
    if series.is_empty() && !rows.rows.is_empty() && !options.metrics.is_empty() {
        let name = options.metrics.join(", ");
        return Err(Error::NoHistory {
            what: "value of these cases for the metric",
            name,
            hint: None,
        });
    }
    let size = |series: &Series| series.newest_ratio().map_or(-1.0, |ratio| ratio.ln().abs());
    series.sort_by(|one, other| size(other).total_cmp(&size(one)));
    Ok(History { series, not_indexed })
}

/// Returns the main figures of a run's cases, in it and in earlier runs of its experiment on its machine, oldest first.
/// A database that is absent or in use has no history.
pub(crate) fn of_run(run: &RunFolder, results: &ResultsFolder) -> Result<Vec<Past>> {
    let header = run.header();
    let Ok(reader) = Database::reader(results, Duration::ZERO) else { return Ok(Vec::new()) };
    let wanted = format!(
        "run_id IN (SELECT run_id FROM benchmark_runs WHERE experiment = ? AND run_id < ? ORDER BY run_id DESC LIMIT {})",
        MOST_IN_REPORT - 1
    );
    let values = [&*header.experiment, &*header.run_id];
    let condition = format!("c.outcome <> 'gap' AND r.{wanted}");
    let rows = reader.table(&query(0, &condition), &values)?;
    let environments = Environments::read(&reader, &wanted, &values)?;
    drop(reader);
    let series = gathered(&rows, &environments, false)?;
    let mut of_keys: BTreeMap<CaseKey, String> = BTreeMap::new();
    for record in run.records()? {
        let record = record?;
        of_keys.insert(record.key, record.case_id);
    }
    let own = run.results()?;
    let mut all = Vec::new();
    for series in series.iter().filter(|series| series.machine == header.environment.machine) {
        let Some(case_id) = of_keys.get(&series.key) else { continue };
        let of_case = own.iter().filter(|result| result.case_id == *case_id);
        let now =
            of_case.flat_map(|result| &result.values).find(|value| value.metric == series.metric);
        // Without a value of this run there is nothing to compare.
        let Some((now, value)) = now.and_then(|now| Some((now, *now.value.as_ref().ok()?))) else {
            continue;
        };
        let past = |run_id: &str,
                    started_at: &str,
                    git_commit: &Option<String>,
                    value,
                    interval,
                    change| Past {
            case_id: case_id.clone(),
            metric: series.metric.clone(),
            unit: series.unit.clone(),
            run_id: run_id.to_owned(),
            started_at: started_at.to_owned(),
            git_commit: git_commit.clone(),
            value,
            interval,
            change,
        };
        all.extend(series.points.iter().enumerate().filter_map(|(place, point)| {
            let is_here = |change: &&LevelChange| series.place(change.index) == place;
            let change = series.changes().iter().find(is_here).map(|change| change.ratio);
            let value = *point.value.as_ref().ok()?;
            Some(past(
                &point.run_id,
                &point.started_at,
                &point.commit,
                value,
                point.interval,
                change,
            ))
        }));
        let commit = &header.environment.git_commit;
        all.push(past(&header.run_id, &header.started_at, commit, value, now.interval, None));
    }
    Ok(all)
}

/// Refuses a name that nothing has.
fn all_known(what: &'static str, names: &[String], known: &[String]) -> Result<()> {
    match names.iter().find(|name| !known.contains(name)) {
        Some(name) => Err(unknown(what, name, known)),
        None => Ok(()),
    }
}

fn unknown(what: &'static str, name: &str, known: &[String]) -> Error {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let hint = (!known.is_empty()).then(|| suggestions(name, &known, "there are"));
    Error::NoHistory { what, name: name.to_owned(), hint }
}

/// Columns of a point before those of the axes.
const COLUMNS: [&str; 18] = [
    "r.run_id",
    "r.experiment",
    "r.started_at",
    "r.git_commit",
    "r.host_version",
    "c.case_id",
    "c.outcome",
    "c.reason",
    "c.valid",
    "c.processes",
    "c.plugin_version",
    "c.model_sha256",
    "c.device_name",
    "c.threads",
    "c.wanted",
    "v.value",
    "v.interval_low",
    "v.interval_high",
];

/// Columns after those.
const FURTHER: [&str; 3] = ["v.unit", "v.direction", "v.gap_reason"];

/// Returns the query for the points. A case has a row for each metric, also if the metric has no value.
fn query(metrics: usize, condition: &str) -> String {
    let axes = Axis::ALL.iter().map(|axis| format!("c.{}", axis.column()));
    let columns = COLUMNS.into_iter().chain(FURTHER).map(str::to_owned).chain(axes);
    let columns: Vec<String> = columns.collect();
    let cases = if metrics == 0 {
        format!(
            "(SELECT *, CASE WHEN scenario = 'offline' OR search IS NOT NULL THEN '{THROUGHPUT}' \
             ELSE '{LATENCY}' END AS wanted FROM benchmark_cases)"
        )
    } else {
        let places = vec!["(?)"; metrics].join(", ");
        format!(
            "(SELECT * FROM benchmark_cases CROSS JOIN (SELECT DISTINCT * FROM (VALUES {places}) AS w (wanted)))"
        )
    };
    format!(
        "SELECT {} FROM {cases} AS c JOIN benchmark_runs AS r ON r.run_id = c.run_id \
         LEFT JOIN benchmark_results AS v \
         ON v.run_id = c.run_id AND v.case_id = c.case_id AND v.metric = c.wanted \
         WHERE {condition} ORDER BY r.started_at, r.run_id, c.case_index, c.case_id",
        columns.join(", ")
    )
}

fn into_text(cell: Cell) -> Option<String> {
    match cell {
        Cell::Text(text) => Some(text),
        _ => None,
    }
}

/// A row of the query.
#[derive(Clone, Copy)]
struct Row<'a>(&'a [Cell]);

impl<'a> Row<'a> {
    fn cell(self, column: &str) -> &'a Cell {
        let mut columns = COLUMNS.iter().chain(&FURTHER);
        let place =
            columns.position(|name| name.split_once('.').is_some_and(|(_, name)| name == column));
        place.and_then(|place| self.0.get(place)).unwrap_or(&Cell::Null)
    }

    fn text(self, column: &str) -> Option<&'a str> {
        match self.cell(column) {
            Cell::Text(text) => Some(text),
            _ => None,
        }
    }

    fn real(self, column: &str) -> Option<f64> {
        match self.cell(column) {
            Cell::Real(value) => Some(*value),
            Cell::Integer(value) => Some(*value as f64),
            _ => None,
        }
    }

    fn axes(self) -> &'a [Cell] {
        self.0.get(COLUMNS.len() + FURTHER.len()..).unwrap_or_default()
    }

    /// Returns the coordinates.
    fn key(self) -> Option<CaseKey> {
        let value = |cell: &Cell| match cell {
            Cell::Null => Value::Null,
            Cell::Boolean(value) => (*value).into(),
            Cell::Integer(value) => (*value).into(),
            Cell::Real(value) => (*value).into(),
            Cell::Text(text) => text.as_str().into(),
        };
        let pairs = Axis::ALL.iter().zip(self.axes());
        let key: Map<String, Value> =
            pairs.map(|(axis, cell)| (axis.name().to_owned(), value(cell))).collect();
        serde_json::from_value(Value::Object(key)).ok()
    }

    /// Returns the value, or the reason why there is none.
    fn value(self) -> Result<f64, String> {
        if self.text("outcome") != Some("finished") {
            return Err(format!("the case failed: {}", self.text("reason").unwrap_or("no reason")));
        }
        if self.cell("valid") == &Cell::Boolean(false) {
            return Err("the result is invalid".into());
        }
        match self.real("value") {
            Some(value) if value.is_finite() => Ok(value),
            Some(value) => Err(format!("the value is {value}")),
            None => Err(self.text("gap_reason").unwrap_or("the run has no such metric").to_owned()),
        }
    }

    /// Returns facts about the case that its run's environment lacks.
    fn facts(self) -> Vec<(&'static str, Option<String>)> {
        let text = |column| self.text(column).map(str::to_owned);
        let threads = match self.cell("threads") {
            Cell::Integer(threads) => Some(threads.to_string()),
            _ => None,
        };
        vec![
            ("host", text("host_version")),
            ("backend", text("plugin_version")),
            ("device", text("device_name")),
            ("threads", threads),
            ("model file", self.text("model_sha256").map(|hash| short(hash).to_owned())),
        ]
    }
}

/// Returns the start of a hash.
#[must_use]
pub fn short(hash: &str) -> &str {
    hash.get(..8).unwrap_or(hash)
}

/// Facts about machines that do not change while a machine is as it was.
type Facts = BTreeMap<String, String>;

/// The environments of runs. Equal ones are one, so that comparing them costs nothing.
struct Environments {
    of_runs: HashMap<String, Arc<Facts>>,
}

impl Environments {
    /// Reads those of runs for which a condition on `run_id` holds.
    fn read(reader: &Reader, condition: &str, values: &[&str]) -> Result<Self> {
        let query = format!(
            "SELECT run_id, name, value FROM hardware_info WHERE value IS NOT NULL AND {condition} AND (name IN \
             ('machine', 'kernel', 'operating-system', 'c-library', 'virtualisation', 'memory-bytes', \
             'clock-source', 'container.kind') OR name LIKE 'device.%.attributes.%' OR (name LIKE \
             'processor.%' AND name NOT IN ('processor.frequency-hertz', 'processor.thermal-throttles'))) \
             UNION ALL SELECT run_id, 'runtime ' || plugin_id, plugin_version FROM benchmark_plugins \
             WHERE role = 'runtime' AND {condition} ORDER BY run_id"
        );
        let found = reader.table(&query, &[values, values].concat())?;
        let mut environments: BTreeMap<Facts, Arc<Facts>> = BTreeMap::new();
        let mut of_runs = HashMap::new();
        let run = |row: &Vec<Cell>| row.first().cloned().and_then(into_text);
        for rows in found.rows.chunk_by(|one, other| one.first() == other.first()) {
            let facts: Facts = rows
                .iter()
                .filter_map(|row| {
                    let mut cells = row.iter().skip(1).cloned().map(into_text);
                    Some((cells.next()??, cells.next()??))
                })
                .collect();
            let shared = match environments.get(&facts) {
                Some(shared) => Arc::clone(shared),
                None => {
                    let shared = Arc::new(facts.clone());
                    environments.insert(facts, Arc::clone(&shared));
                    shared
                }
            };
            if let Some(run) = rows.first().and_then(run) {
                of_runs.insert(run, shared);
            }
        }
        Ok(Self { of_runs })
    }

    fn of(&self, run: &str) -> Option<&Arc<Facts>> {
        self.of_runs.get(run)
    }
}

/// A series while its points are gathered.
struct Gathering {
    series: Series,
    /// The last known value of each fact.
    known: BTreeMap<String, String>,
    environment: Option<Arc<Facts>>,
    case_id: String,
}

/// Returns the series with at least one value, examined.
fn gathered(rows: &Table, environments: &Environments, pool: bool) -> Result<Vec<Series>> {
    let mut order: Vec<Gathering> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for row in &rows.rows {
        let row = Row(row);
        let (Some(run_id), Some(metric)) = (row.text("run_id"), row.text("wanted")) else {
            continue;
        };
        let environment = environments.of(run_id);
        let fact =
            |name: &str| environment.and_then(|facts| facts.get(name)).map_or("", String::as_str);
        let processor = fact("processor.name");
        let machine = if pool {
            let device = row.text("device_name").unwrap_or_default();
            if processor == device { device.to_owned() } else { format!("{processor}, {device}") }
        } else if fact("machine").is_empty() {
            processor.to_owned()
        } else {
            fact("machine").to_owned()
        };
        let experiment = row.text("experiment").unwrap_or_default();
        let identity = format!("{:?}", (experiment, &machine, metric, row.axes()));
        let place = match places.get(&identity) {
            Some(place) => *place,
            None => {
                // A case of another host may have coordinates that this one does not know.
                let Some(key) = row.key() else { continue };
                let series = Series {
                    key,
                    experiment: experiment.to_owned(),
                    machine,
                    metric: metric.to_owned(),
                    unit: String::new(),
                    direction: Direction::Neutral,
                    points: Vec::new(),
                    found: Ok(Levels::default()),
                    examined: Vec::new(),
                };
                let known = BTreeMap::new();
                order.push(Gathering { series, known, environment: None, case_id: String::new() });
                places.insert(identity, order.len() - 1);
                order.len() - 1
            }
        };
        order[place].add(row, environment, pool);
    }
    let series = order.into_iter().map(|gathering| gathering.series);
    let mut series: Vec<Series> =
        series.filter(|series| series.points.iter().any(|point| point.value.is_ok())).collect();
    series.iter_mut().for_each(examine);
    Ok(series)
}

impl Gathering {
    fn add(&mut self, row: Row<'_>, environment: Option<&Arc<Facts>>, pool: bool) {
        let text = |column| row.text(column).map(str::to_owned);
        if let (Some(unit), Some(direction)) = (row.text("unit"), row.text("direction")) {
            unit.clone_into(&mut self.series.unit);
            self.series.direction = direction.parse().unwrap_or(Direction::Neutral);
        }
        let case_id = text("case_id").unwrap_or_default();
        let marks = self.marks(row, environment, pool, &case_id);
        let interval = row.real("interval_low").zip(row.real("interval_high"));
        let processes = match row.cell("processes") {
            Cell::Integer(processes) => Some(*processes),
            _ => None,
        };
        self.series.points.push(Point {
            run_id: text("run_id").unwrap_or_default(),
            started_at: text("started_at").unwrap_or_default(),
            commit: text("git_commit"),
            value: row.value(),
            interval,
            processes,
            marks,
            case_id: case_id.clone(),
        });
        self.case_id = case_id;
    }

    /// Returns the facts that differ from the last known ones.
    fn marks(
        &mut self,
        row: Row<'_>,
        environment: Option<&Arc<Facts>>,
        pool: bool,
        case_id: &str,
    ) -> Vec<Mark> {
        let mut marks = Vec::new();
        let known = &mut self.known;
        let mut see = |name: &str, value: &str| match known.get_mut(name) {
            Some(before) if before == value => {}
            Some(before) => {
                let before = std::mem::replace(before, value.to_owned());
                marks.push(Mark { name: name.to_owned(), before, after: value.to_owned() });
            }
            None => {
                known.insert(name.to_owned(), value.to_owned());
            }
        };
        for (name, value) in row.facts() {
            if let Some(value) = value {
                see(name, &value);
            }
        }
        let is_same = |one: &Arc<Facts>| environment.is_some_and(|other| Arc::ptr_eq(one, other));
        if let Some(facts) = environment
            && !self.environment.as_ref().is_some_and(is_same)
        {
            let CaseKey { backend, device, .. } = &self.series.key;
            let of_device = format!("device.{backend}.{device}.attributes.");
            for (name, value) in facts.iter() {
                if name == "machine" && !pool {
                    continue;
                }
                match name.strip_prefix("device.") {
                    None => see(&name.replace('.', " "), value),
                    Some(_) => {
                        if let Some(attribute) = name.strip_prefix(&of_device) {
                            see(attribute, value);
                        }
                    }
                }
            }
            self.environment = Some(Arc::clone(facts));
        }
        // The file and the threads are part of the definition.
        let is_told = marks.iter().any(|mark| matches!(&*mark.name, "model file" | "threads"));
        if !self.case_id.is_empty() && self.case_id != case_id && !is_told {
            let name = "definition of the case".to_owned();
            let before = short(&self.case_id).to_owned();
            marks.push(Mark { name, before, after: short(case_id).to_owned() });
        }
        marks
    }
}

/// Finds the changes of a series.
fn examine(series: &mut Series) {
    let values = series.points.iter().enumerate();
    let mut values: Vec<(usize, f64)> =
        values.filter_map(|(place, point)| Some((place, *point.value.as_ref().ok()?))).collect();
    values.drain(..values.len().saturating_sub(MOST_POINTS));
    let (places, values): (Vec<usize>, Vec<f64>) = values.into_iter().unzip();
    series.found = levels(&values, CONFIDENCE);
    series.examined = places;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a row of the query.
    fn row(run: usize, value: Cell, facts: &[(&str, Cell)]) -> Vec<Cell> {
        let text = |text: &str| Cell::Text(text.into());
        let cell = |name: &str| {
            let name = name.split_once('.').expect("a table").1;
            if let Some((_, cell)) = facts.iter().find(|(fact, _)| *fact == name) {
                return cell.clone();
            }
            match name {
                "run_id" => Cell::Text(format!("run-{run:03}")),
                "experiment" => text("nightly"),
                "started_at" => Cell::Text(format!("2026-01-{:02}T00:00:00Z", run + 1)),
                "git_commit" => Cell::Text(format!("commit{run:03}")),
                "host_version" => text("0.1.0"),
                "case_id" => text("0123456789abcdef"),
                "outcome" => text("finished"),
                "wanted" => text(LATENCY),
                "value" => value.clone(),
                "unit" => text("ns"),
                "direction" => text("lower"),
                _ => Cell::Null,
            }
        };
        let mut cells: Vec<Cell> = COLUMNS.iter().chain(&FURTHER).map(|name| cell(name)).collect();
        let key = CaseKey::new("digits", "cpu", "cpu:0");
        cells.extend(Axis::ALL.iter().map(|axis| Cell::from(axis.of(&key))));
        cells
    }

    fn read(rows: Vec<Vec<Cell>>, runs: &[(&str, &[(&str, &str)])], pool: bool) -> Vec<Series> {
        let facts = |facts: &[(&str, &str)]| {
            let owned = facts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            Arc::new(owned.collect::<Facts>())
        };
        let of_runs = runs.iter().map(|(run, of)| ((*run).to_owned(), facts(of))).collect();
        let rows = Table { columns: Vec::new(), rows };
        gathered(&rows, &Environments { of_runs }, pool).expect("rows")
    }

    #[test]
    fn a_step_has_its_commit_and_what_else_changed() {
        let value = |run: usize| {
            let wobble = [0.0, 2.0, -1.0, 1.0, -2.0][run % 5];
            Cell::Real(if run < 12 { 1000.0 } else { 1080.0 } + wobble)
        };
        let file = |run| if run < 12 { "aaaaaaaa11" } else { "bbbbbbbb22" };
        let rows = (0..24)
            .map(|run| row(run, value(run), &[("model_sha256", Cell::Text(file(run).into()))]));
        let series = read(rows.collect(), &[], false);
        let [series] = &series[..] else { panic!("one series: {series:?}") };
        let [change] = series.changes() else { panic!("one change: {:?}", series.found) };
        assert_eq!((change.index, series.verdict(change.ratio)), (12, "slower"));
        assert!((change.ratio - 1.08).abs() < 0.002 && change.low > 1.07 && change.high < 1.09);
        let [point] = series.suspects(change.index) else { panic!("one commit") };
        assert_eq!(point.commit.as_deref(), Some("commit012"));
        let mark =
            Mark { name: "model file".into(), before: "aaaaaaaa".into(), after: "bbbbbbbb".into() };
        assert_eq!(point.marks, [mark]);
    }

    #[test]
    fn machines_are_series_unless_they_are_pooled() {
        let runs = ["run-000", "run-001", "run-002"];
        let facts = |machine| vec![("machine", machine), ("processor.name", "P")];
        let facts = [facts("a"), facts("b"), facts("a")];
        let runs: Vec<(&str, &[(&str, &str)])> =
            runs.into_iter().zip(facts.iter().map(Vec::as_slice)).collect();
        let rows = || (0..3).map(|run| row(run, Cell::Real(1.0), &[])).collect();
        let split = read(rows(), &runs, false);
        let counts: Vec<_> = split.iter().map(|one| (&*one.machine, one.points.len())).collect();
        assert_eq!(counts, [("a", 2), ("b", 1)]);
        assert!(split.iter().all(|one| matches!(one.found, Err(Undefined::TooFew(_)))));
        let pooled = read(rows(), &runs, true);
        let [pooled] = &pooled[..] else { panic!("one series: {pooled:?}") };
        let marks: Vec<_> = pooled.points.iter().map(|point| point.marks.len()).collect();
        assert_eq!(marks, [0, 1, 1]);
    }

    #[test]
    fn a_point_without_a_value_has_a_reason_and_is_not_examined() {
        let failed =
            [("outcome", Cell::Text("failed".into())), ("reason", Cell::Text("crash".into()))];
        let invalid = [("valid", Cell::Boolean(false))];
        let rows = vec![
            row(0, Cell::Real(1.0), &[]),
            row(1, Cell::Null, &failed),
            row(2, Cell::Real(9.0), &invalid),
            row(3, Cell::Real(f64::NAN), &[]),
            row(4, Cell::Null, &[("gap_reason", Cell::Text("too few queries".into()))]),
            row(5, Cell::Real(2.0), &[]),
        ];
        let series = read(rows, &[], false);
        let reasons: Vec<_> =
            series[0].points.iter().filter_map(|point| point.value.as_ref().err()).collect();
        let expected = [
            "the case failed: crash",
            "the result is invalid",
            "the value is NaN",
            "too few queries",
        ];
        assert_eq!(reasons, expected);
        assert_eq!(series[0].examined, [0, 5]);
        // A case that never had a value has no history.
        assert!(read(vec![row(0, Cell::Null, &failed)], &[], false).is_empty());
    }
}
