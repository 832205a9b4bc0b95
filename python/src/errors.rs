//! Errors as Python exceptions, with the command line's text.

use host_cli::front_end::{PlaceInText, Problem, told};
use host_experiment::Error;
use host_store::StoreError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Returns the exception of an error: the class of its exit code, its text, and its parts.
pub(crate) fn raised(py: Python<'_>, error: Error) -> PyErr {
    let told = told(error);
    made(py, told.exit.code(), &told.text, &told.problems).unwrap_or_else(|error| error)
}

/// As [`raised`], for an error of the store.
pub(crate) fn raised_by_store(py: Python<'_>, error: StoreError) -> PyErr {
    raised(py, Error::Store(error))
}

fn made(py: Python<'_>, code: u8, text: &str, problems: &[Problem]) -> PyResult<PyErr> {
    let parts = problems.iter().map(|problem| part(py, problem)).collect::<PyResult<Vec<_>>>()?;
    let exception = py.import("tare._errors")?.getattr("of")?.call1((code, text, parts))?;
    Ok(PyErr::from_value(exception))
}

fn part<'py>(py: Python<'py>, problem: &Problem) -> PyResult<Bound<'py, PyDict>> {
    let part = PyDict::new(py);
    part.set_item("message", &problem.message)?;
    part.set_item("causes", &problem.causes)?;
    part.set_item("help", &problem.help)?;
    if let Some(PlaceInText { name, line, column, label }) = &problem.place {
        part.set_item("place", (name, line, column, label))?;
    }
    Ok(part)
}
