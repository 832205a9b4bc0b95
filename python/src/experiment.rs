//! Manifests, plans and runs.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};
use host_experiment::{
    Draft, Error, ExecutedRun, Quick, Resumed, RunOptions, Settings, Silent, resume as continued,
    run as executed,
};
use host_manifest::json_schema;
use host_plan::Plan;
use host_record::{Axis, CellKind, Coordinate};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::raised;
use crate::settings::settings;
use crate::table::Table;
use crate::watch::{Done, beside};

/// Returns the keys of one of the manifest's tables.
#[pyfunction]
pub(crate) fn keywords(table: &str) -> Vec<String> {
    let schema = json_schema();
    let name = format!("{}Table", table[..1].to_uppercase() + &table[1..]);
    let keys = schema["definitions"][&name]["properties"].as_object();
    keys.map(|keys| keys.keys().cloned().collect()).unwrap_or_default()
}

/// Returns the known name that is nearest to another one.
#[pyfunction]
pub(crate) fn nearest(name: &str, known: Vec<String>) -> Option<String> {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    host_manifest::nearest(name, &known).map(str::to_owned)
}

/// Returns a manifest as TOML from its values as JSON text.
#[pyfunction]
pub(crate) fn to_toml(json: &str) -> PyResult<String> {
    let failed = |error: String| pyo3::exceptions::PyValueError::new_err(error);
    let value: serde_json::Value =
        serde_json::from_str(json).map_err(|error| failed(error.to_string()))?;
    toml::to_string(&value).map_err(|error| failed(error.to_string()))
}

/// Returns the models that a word stands for, as `host bench` takes it: for each an id that is not taken, and the key and
/// value of a `[[model]]`.
#[pyfunction]
pub(crate) fn models(
    py: Python<'_>,
    word: PathBuf,
    taken: Vec<String>,
) -> PyResult<Vec<(String, String, String)>> {
    let quick = Quick { models: vec![word], ..Quick::default() };
    let manifest = quick.manifest().map_err(|error| raised(py, error))?;
    let manifest: toml::Table = manifest.text.parse().expect("it was written as TOML");
    let tables = manifest["model"].as_array().into_iter().flatten().filter_map(|it| it.as_table());
    let text = |table: &toml::Table, key: &str| {
        table.get(key).and_then(toml::Value::as_str).map(str::to_owned)
    };
    let mut models: Vec<(String, String, String)> = Vec::new();
    for table in tables {
        let Some(id) = text(table, "id") else { continue };
        for key in ["path", "architecture"] {
            let Some(value) = text(table, key) else { continue };
            let is_free =
                |id: &String| !taken.contains(id) && models.iter().all(|(other, ..)| other != id);
            let mut names = (1..).map(|n| if n == 1 { id.clone() } else { format!("{id}-{n}") });
            let free = names.find(is_free).expect("there are endless names");
            models.push((free, key.to_owned(), value));
        }
    }
    Ok(models)
}

/// A manifest's source: the file's path, or a name and its text.
#[derive(FromPyObject)]
pub(crate) struct Source {
    #[pyo3(item)]
    path: PathBuf,
    #[pyo3(item)]
    text: Option<String>,
}

impl Source {
    fn draft(self) -> Result<Draft, Error> {
        match self.text {
            None => Draft::read(&self.path),
            Some(text) => Draft::of_bytes(&self.path, &self.path, text.into_bytes()),
        }
    }
}

/// Checks a manifest as `host validate` does.
#[pyfunction]
pub(crate) fn check(
    py: Python<'_>,
    source: Source,
    installation: &str,
    plugins: Vec<PathBuf>,
) -> PyResult<()> {
    let settings = settings(installation, None, plugins);
    let checked = py.detach(|| source.draft()?.check(&settings, &mut Silent).map(drop));
    checked.map_err(|error| raised(py, error))
}

/// Plans a manifest: the cases, the fewest seconds that they take, and the number that `limit` leaves out.
#[pyfunction]
pub(crate) fn plan(
    py: Python<'_>,
    source: Source,
    installation: &str,
    plugins: Vec<PathBuf>,
    watcher: &Bound<'_, PyAny>,
) -> PyResult<(Table, f64, u64)> {
    let settings = settings(installation, None, plugins);
    let interrupt = settings.interrupt.clone();
    let done = beside(py, watcher, &interrupt, move |observer| {
        source.draft()?.check(&settings, observer)?.plan(&settings)
    })?;
    if done.interrupted {
        return Err(raised(py, Error::Interrupted));
    }
    let planned = done.outcome.map_err(|error| raised(py, error))?;
    let plan = &planned.plan;
    Ok((cases(plan)?, plan.estimate().at_least.as_secs_f64(), plan.left_out()))
}

/// Returns the cases of a plan, and the gaps with their reasons.
fn cases(plan: &Plan) -> PyResult<Table> {
    let items: Vec<_> = plan.items().collect();
    let text = |of: &dyn Fn(usize) -> Option<String>| -> ArrayRef {
        Arc::new((0..items.len()).map(of).collect::<StringArray>())
    };
    let mut columns = vec![("case_id", text(&|row| Some(items[row].id().to_owned())))];
    for axis in Axis::ALL {
        let column: ArrayRef = match axis.kind() {
            CellKind::Integer => Arc::new(
                items
                    .iter()
                    .map(|item| match axis.of(item.key()) {
                        Coordinate::Count(count) => Some(i64::from(count)),
                        _ => None,
                    })
                    .collect::<Int64Array>(),
            ),
            CellKind::Real => Arc::new(
                items
                    .iter()
                    .map(|item| match axis.of(item.key()) {
                        Coordinate::Number(number) => Some(number),
                        _ => None,
                    })
                    .collect::<Float64Array>(),
            ),
            _ => text(&|row| axis.value(items[row].key())),
        };
        columns.push((axis.column(), column));
    }
    columns.push(("gap", text(&|row| items[row].gap().map(ToString::to_string))));
    Table::of_columns(columns)
}

/// Runs a manifest to its end, or until the caller interrupts it.
#[pyfunction]
pub(crate) fn run<'py>(
    py: Python<'py>,
    source: Source,
    installation: &str,
    results: Option<PathBuf>,
    plugins: Vec<PathBuf>,
    install: bool,
    watcher: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let settings = settings(installation, results, plugins);
    let interrupt = settings.interrupt.clone();
    let done = beside(py, watcher, &interrupt, move |observer| {
        executed(source.draft()?, &options(install), &settings, observer)
    })?;
    ended(py, done)
}

/// Continues an interrupted run, by its folder.
#[pyfunction]
pub(crate) fn resume<'py>(
    py: Python<'py>,
    run: String,
    installation: &str,
    plugins: Vec<PathBuf>,
    install: bool,
    watcher: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let settings: Settings = settings(installation, None, plugins);
    let interrupt = settings.interrupt.clone();
    let Done { outcome, interrupted } = beside(py, watcher, &interrupt, move |observer| {
        continued(&run, &options(install), &settings, observer)
    })?;
    match outcome {
        Ok(Resumed::Finished(folder)) => {
            let end = PyDict::new(py);
            end.set_item("folder", folder.path())?;
            end.set_item("interrupted", false)?;
            end.set_item("guest_failed", false)?;
            Ok(end)
        }
        Ok(Resumed::Executed(ran)) => ended(py, Done { outcome: Ok(*ran), interrupted }),
        Err(error) => ended(py, Done { outcome: Err(error), interrupted }),
    }
}

fn options(install: bool) -> RunOptions {
    RunOptions { install, ..RunOptions::default() }
}

/// Says where a run is, and how it ended.
fn ended<'py>(
    py: Python<'py>,
    done: Done<Result<ExecutedRun, Error>>,
) -> PyResult<Bound<'py, PyDict>> {
    let end = PyDict::new(py);
    let ran = match done.outcome {
        Ok(ran) => ran,
        // Before the first case there is nothing to keep.
        Err(Error::Interrupted | Error::InterruptedInstallation(_)) if done.interrupted => {
            end.set_item("folder", py.None())?;
            end.set_item("interrupted", true)?;
            return Ok(end);
        }
        Err(error) => return Err(raised(py, error)),
    };
    end.set_item("folder", ran.folder.path())?;
    end.set_item("interrupted", ran.interrupted || done.interrupted)?;
    end.set_item("is_whole", !ran.interrupted)?;
    end.set_item("guest_failed", ran.guest_failure.is_some())?;
    Ok(end)
}
