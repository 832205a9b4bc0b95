//! Runs that were executed: tables, queries, reports and comparisons.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray};
use host_experiment::{
    Comparison, Error, MetricChange, ReportOptions, RunFigures, RunResults, compare as compared,
    report_again,
};
use host_record::{Axis, Cell};
use host_store::{
    CaseFile, Database, LostFile, ResultsFolder, RunFolder, RunViews, StoreError, exported_views,
    list_table,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{raised, raised_by_store};
use crate::settings::settings;
use crate::table::Table;
use crate::watch::beside;

/// Time to wait for another process that has the database open.
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns the folder of a run by its id, a part of the id, `latest`, or its path.
#[pyfunction]
pub(crate) fn find_run(py: Python<'_>, results: PathBuf, name: &str) -> PyResult<PathBuf> {
    let found = ResultsFolder::new(results).find(name);
    let found = found.and_then(|path| RunFolder::open(&path).map(|run| run.path().to_owned()));
    found.map_err(|error| raised_by_store(py, error))
}

/// Returns the runs of a results folder, oldest first, with the folder of each.
#[pyfunction]
pub(crate) fn list_runs(py: Python<'_>, results: PathBuf) -> PyResult<Table> {
    let list = py.detach(|| ResultsFolder::new(results).list());
    let list = list.map_err(|error| raised_by_store(py, error))?;
    let table = list_table(&list);
    let column = |index: usize| -> ArrayRef {
        let cells = || table.rows.iter().map(move |row| &row[index]);
        if cells().any(|cell| matches!(cell, Cell::Integer(_))) {
            let number = |cell: &Cell| match cell {
                Cell::Integer(number) => Some(*number),
                _ => None,
            };
            return Arc::new(cells().map(number).collect::<Int64Array>());
        }
        let text = |cell: &Cell| match cell {
            Cell::Text(text) => Some(text.clone()),
            _ => None,
        };
        Arc::new(cells().map(text).collect::<StringArray>())
    };
    let names = table.columns.iter().map(String::as_str);
    let mut columns: Vec<_> =
        names.enumerate().map(|(index, name)| (name, column(index))).collect();
    let folder = list.iter().map(|entry| {
        let path = entry.as_ref().map_or_else(|damaged| &damaged.path, |entry| &entry.path);
        Some(path.display().to_string())
    });
    columns.push(("folder", Arc::new(folder.collect::<StringArray>())));
    Table::of_columns(columns)
}

/// Returns the names of a run's views.
#[pyfunction]
pub(crate) fn views() -> Vec<&'static str> {
    exported_views().collect()
}

/// Answers a query over the views of one run.
#[pyfunction]
pub(crate) fn query_run(py: Python<'_>, folder: PathBuf, sql: &str) -> PyResult<Table> {
    let answer = py.detach(|| RunViews::open(&RunFolder::open(&folder)?)?.query_in_columns(sql));
    answer.map(Table::from).map_err(|error| raised_by_store(py, error))
}

/// Returns the samples of a case or of all cases, and of one phase or both.
#[pyfunction]
#[pyo3(signature = (folder, case=None, phase=None))]
pub(crate) fn samples(
    py: Python<'_>,
    folder: PathBuf,
    case: Option<&str>,
    phase: Option<&str>,
) -> PyResult<Table> {
    let read = || -> Result<_, StoreError> {
        let folder = RunFolder::open(&folder)?;
        if let Some(case) = case
            && !folder.plan()?.any(|line| line.is_ok_and(|line| line.case_id == case))
        {
            let detail = format!("the run has no case `{case}`; its table `cases` has their ids");
            return Err(StoreError::Query { detail });
        }
        // A table with fewer samples would look complete.
        let is_wanted = |lost: &LostFile| {
            lost.file == CaseFile::Samples && case.is_none_or(|case| case == lost.case_id)
        };
        let files: Vec<_> = folder.lost_files()?.into_iter().filter(is_wanted).collect();
        if !files.is_empty() {
            return Err(StoreError::LostFiles { files });
        }
        let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let of_case = case.map(|case| format!(" AND case_id = {}", text(case)));
        let of_phase = phase.map(|phase| format!(" AND phase = {}", text(phase)));
        RunViews::open(&folder)?.query_in_columns(&format!(
            "SELECT * EXCLUDE (run_id) FROM raw_benchmark_data WHERE true{}{}",
            of_case.unwrap_or_default(),
            of_phase.unwrap_or_default()
        ))
    };
    py.detach(read).map(Table::from).map_err(|error| raised_by_store(py, error))
}

/// Returns the measured samples of each case, by the case's id. A case that has none, or has lost some, is not among them.
///
/// Opening a run takes longer than reading the samples of a small case, so a caller who wants those of all cases reads them
/// at once.
#[pyfunction]
pub(crate) fn measured_samples(
    py: Python<'_>,
    folder: PathBuf,
) -> PyResult<BTreeMap<String, Table>> {
    let read = || -> Result<_, StoreError> {
        let folder = RunFolder::open(&folder)?;
        let lost = folder.lost_files()?.into_iter().filter(|it| it.file == CaseFile::Samples);
        let lost: Vec<String> = lost.map(|it| it.case_id).collect();
        let samples = RunViews::open(&folder)?.query_in_columns(
            "SELECT * EXCLUDE (run_id) FROM raw_benchmark_data WHERE phase = 'measured'",
        )?;
        Ok((lost, samples))
    };
    let (lost, samples) = py.detach(read).map_err(|error| raised_by_store(py, error))?;
    let mut tables = Table::from(samples).split("case_id")?;
    tables.retain(|case, _| !lost.contains(case));
    Ok(tables)
}

/// Answers a query over the database of all runs.
#[pyfunction]
pub(crate) fn database(py: Python<'_>, results: PathBuf, sql: &str) -> PyResult<Table> {
    let results = ResultsFolder::new(results);
    let answer = py.detach(|| Database::query_in_columns(&results, sql, PATIENCE));
    answer.map(Table::from).map_err(|error| raised_by_store(py, error))
}

/// Brings all runs into the database, and returns how many were read anew.
#[pyfunction]
pub(crate) fn sync(py: Python<'_>, results: PathBuf) -> PyResult<usize> {
    let synced = py.detach(|| {
        let mut database = Database::open(&ResultsFolder::new(results), PATIENCE)?;
        let report = database.sync_all()?;
        database.close()?;
        Ok::<_, StoreError>(report)
    });
    let report = synced.map_err(|error| raised_by_store(py, error))?;
    let is_new =
        |outcome: &Result<_, _>| matches!(outcome, Ok(host_store::Synced::Imported { .. }));
    Ok(report.runs.iter().filter(|(_, outcome)| is_new(outcome)).count())
}

/// Returns facts about a run: its id, manifest, state and counts.
#[pyfunction]
pub(crate) fn details(py: Python<'_>, folder: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let read = || -> Result<_, Error> {
        let folder = RunFolder::open(&folder)?;
        Ok((folder.manifest_text()?, RunResults::read(&folder)?))
    };
    let (manifest, results) = py.detach(read).map_err(|error| raised(py, error))?;
    let (finished, failed, gaps) = results.counts();
    let facts = PyDict::new(py);
    facts.set_item("id", &results.header.run_id)?;
    facts.set_item("experiment", &results.header.experiment)?;
    facts.set_item("started_at", &results.header.started_at)?;
    facts.set_item("manifest", manifest)?;
    facts.set_item("is_finished", results.finished)?;
    facts.set_item("counts", (finished, failed, gaps, results.unreached))?;
    let failures: Vec<(String, String)> = (results.cases.iter())
        .filter_map(|case| Some((case.record.key.to_string(), case.reason()?)))
        .collect();
    facts.set_item("reasons", failures)?;
    Ok(facts)
}

/// Writes reports of a run with the plugins found now, and returns the plugin and files of each, and notices.
#[pyfunction]
pub(crate) fn reports(
    py: Python<'_>,
    folder: PathBuf,
    plugin: String,
    to: Option<PathBuf>,
    installation: &str,
    plugins: Vec<PathBuf>,
    watcher: &Bound<'_, PyAny>,
) -> PyResult<Vec<PathBuf>> {
    let settings = settings(installation, None, plugins);
    let interrupt = settings.interrupt.clone();
    let options = ReportOptions { reports: vec![plugin], to };
    let done = beside(py, watcher, &interrupt, move |observer| {
        report_again(&folder, &options, &settings, observer)
    })?;
    if done.interrupted {
        return Err(raised(py, Error::Interrupted));
    }
    let (_, reports) = done.outcome.map_err(|error| raised(py, error))?;
    Ok(reports.written.into_iter().flat_map(|report| report.files).collect())
}

/// Compares two runs or baselines by name: a table with a row for each figure of each case, the conditions that differ,
/// the geometric mean of the speed-ups with its interval, and the page that shows all that.
#[pyfunction]
pub(crate) fn compare<'py>(
    py: Python<'py>,
    first: &str,
    second: &str,
    results: PathBuf,
    margin: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let results = ResultsFolder::new(results);
    let compared = py.detach(|| {
        let [before, after] = RunFigures::find_both([first, second], &results)?;
        let comparison = compared(&before, &after, margin);
        if comparison.cases.is_empty() {
            let (first, second) = (before.run.clone(), after.run.clone());
            return Err(Error::NothingInCommon { first, second });
        }
        let page = host_cli::front_end::comparison_page(&comparison, margin);
        Ok((comparison, page))
    });
    let (comparison, page) = compared.map_err(|error| raised(py, error))?;
    let answer = PyDict::new(py);
    answer.set_item("changes", Bound::new(py, changes(&comparison)?)?)?;
    let conditions = comparison.conditions.iter().map(|it| (&it.name, &it.first, &it.second));
    answer.set_item("conditions", conditions.collect::<Vec<_>>())?;
    let speed_up = comparison.speed_up.map(|(it, _)| (it.value, it.low, it.high));
    answer.set_item("speed_up", speed_up)?;
    answer.set_item("runs", (&comparison.first.run, &comparison.second.run))?;
    answer.set_item("alone", comparison.alone)?;
    answer.set_item("page", page)?;
    Ok(answer)
}

/// Returns every figure of every case in both runs.
fn changes(comparison: &Comparison) -> PyResult<Table> {
    let rows: Vec<_> = (comparison.cases.iter())
        .flat_map(|case| std::iter::once(&case.main).chain(&case.others).map(move |it| (case, it)))
        .collect();
    let text = |of: &dyn Fn(usize) -> Option<String>| -> ArrayRef {
        Arc::new((0..rows.len()).map(of).collect::<StringArray>())
    };
    let number = |of: &dyn Fn(&MetricChange) -> Option<f64>| -> ArrayRef {
        Arc::new(rows.iter().map(|(_, change)| of(change)).collect::<Float64Array>())
    };
    let mut columns = vec![("case_id", text(&|row| Some(rows[row].0.id.clone())))];
    for axis in Axis::ALL {
        columns.push((axis.column(), text(&|row| axis.value(&rows[row].0.key))));
    }
    let is_main = rows.iter().map(|(case, change)| Some(std::ptr::eq(&case.main, *change)));
    columns.extend([
        ("metric", text(&|row| Some(rows[row].1.metric.clone()))),
        ("is_main", Arc::new(is_main.collect::<BooleanArray>()) as ArrayRef),
        ("unit", text(&|row| Some(rows[row].1.unit.clone()))),
        ("before", number(&|it| Some(it.before.as_ref()?.value))),
        ("after", number(&|it| Some(it.after.as_ref()?.value))),
        ("ratio", number(&|it| Some(it.ratio?.value))),
        ("ratio_low", number(&|it| Some(it.ratio?.low))),
        ("ratio_high", number(&|it| Some(it.ratio?.high))),
        ("false_discovery_rate", number(&|it| it.false_discovery_rate)),
        ("verdict", text(&|row| Some(rows[row].1.verdict().to_owned()))),
    ]);
    Table::of_columns(columns)
}
