//! Values of metrics that are Python functions: their columns, and where the values are kept.

use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

use host_hash::sha256;
use host_record::{Direction, MetricValue, PluginIdentity};
use host_store::{CALLERS_METRIC, Database, ResultRecord, ResultsFolder, RunFolder, StoreError};
use pyo3::prelude::*;

use crate::errors::raised_by_store;

/// Returns the finished cases of a run.
#[pyfunction]
pub(crate) fn finished_cases(py: Python<'_>, folder: PathBuf) -> PyResult<Vec<String>> {
    let read = || -> Result<Vec<String>, StoreError> {
        let folder = RunFolder::open(&folder)?;
        let mut ids = Vec::new();
        for record in folder.records()? {
            let record = record?;
            if record.report().is_some() {
                ids.push(record.case_id);
            }
        }
        Ok(ids)
    };
    py.detach(read).map_err(|error| raised_by_store(py, error))
}

/// Values of a function for one case: the name and value of each; or why there are none.
#[derive(FromPyObject)]
pub(crate) struct OfCase {
    #[pyo3(item)]
    case: String,
    #[pyo3(item)]
    values: Vec<(String, f64)>,
    #[pyo3(item)]
    error: Option<String>,
}

/// Keeps the values of a function in the run folder, as those of a metric plugin are kept, and marks that no sandbox was
/// around it. Returns why they are not in the database, if something is wrong with that.
#[pyfunction]
pub(crate) fn keep_metric(
    py: Python<'_>,
    folder: PathBuf,
    id: &str,
    source: &str,
    unit: &str,
    direction: &str,
    cases: Vec<OfCase>,
) -> PyResult<Option<String>> {
    let plugin = PluginIdentity {
        id: format!("{CALLERS_METRIC}{id}"),
        version: "0.0.0".into(),
        sha256: sha256(source.as_bytes()),
    };
    let direction = match direction {
        "lower" => Direction::Lower,
        "higher" => Direction::Higher,
        _ => Direction::Neutral,
    };
    let record = |of: OfCase| {
        let value = |(name, value): (String, f64)| MetricValue {
            metric: match name.as_str() {
                "" => plugin.id.clone(),
                name => format!("{}.{name}", plugin.id),
            },
            value: Ok(value),
            interval: None,
            unit: unit.to_owned(),
            direction,
            attributes: [("sandbox".to_owned(), "none".to_owned())].into(),
        };
        match of.error {
            Some(error) => {
                ResultRecord::failed(of.case, plugin.clone(), serde_json::Value::Null, error)
            }
            None => ResultRecord::new(
                of.case,
                plugin.clone(),
                serde_json::Value::Null,
                of.values.into_iter().map(value).collect(),
            ),
        }
    };
    let records: Vec<ResultRecord> = cases.into_iter().map(record).collect();
    let kept = py.detach(|| -> Result<_, StoreError> {
        let mut writer = RunFolder::open_to_amend(&folder)?;
        for record in &records {
            writer.record_result(record)?;
        }
        writer.sync_results()?;
        Ok(in_database(writer.folder()))
    });
    match kept.map_err(|error| raised_by_store(py, error))? {
        // The run folder has them; the database is an index, and can be brought up to date later.
        Ok(()) | Err(StoreError::Busy { .. }) => Ok(None),
        Err(error) => Ok(Some(error.to_string())),
    }
}

/// Brings a run into the database of the results folder that it lies in. A run that was copied elsewhere has none.
fn in_database(run: &RunFolder) -> Result<(), StoreError> {
    let path = absolute(run.path()).unwrap_or_else(|_| run.path().to_owned());
    let runs = path.parent().filter(|parent| parent.ends_with("runs"));
    let Some(results) = runs.and_then(Path::parent) else { return Ok(()) };
    let mut database = Database::open(&ResultsFolder::new(results), Duration::from_secs(2))?;
    database.sync(run)?;
    database.close()
}
