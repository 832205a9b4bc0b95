//! Reads one column twenty thousand times.

use plugin_guest::{Case, Columns, Description, Error, Measurement, Metric, NoOptions};

struct Greedy;

impl Metric for Greedy {
    type Options = NoOptions;

    fn describe() -> Description {
        plugin_guest::describe!("columns")
    }

    fn columns() -> &'static [&'static str] {
        &["latency"; 20_000]
    }

    fn compute(_: &Case, _: &Columns, _: NoOptions) -> Result<Vec<Measurement>, Error> {
        Ok(Vec::new())
    }
}

plugin_guest::export_metric!(Greedy);
