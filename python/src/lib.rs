/*!
The compiled part of the Python package `tare`.

It is a front end like the command line: it calls `host-experiment` and `host-store`, and takes the words for errors and
notices from `host_cli::front_end`. What Python users see is in the modules of the folder `tare`; functions here take and return plain
values, text and Arrow tables. Nothing is printed here.
*/

mod errors;
mod experiment;
mod metrics;
mod results;
mod settings;
mod table;
mod watch;

use pyo3::prelude::*;

/// The compiled part of the package `tare`.
#[pymodule]
mod _tare {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::experiment::{check, keywords, models, nearest, plan, resume, run, to_toml};
    #[pymodule_export]
    use super::metrics::{finished_cases, keep_metric};
    #[pymodule_export]
    use super::results::{
        compare, database, details, find_run, list_runs, measured_samples, query_run, reports,
        samples, sync, views,
    };
    #[pymodule_export]
    use super::table::Table;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        host_cli::front_end::call_the_command("host");
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
