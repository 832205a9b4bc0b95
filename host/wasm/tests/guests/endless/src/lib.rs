//! Never returns its description.

use std::hint::black_box;

use plugin_guest::{Case, Columns, Description, Error, Measurement, Metric, NoOptions};

struct Endless;

impl Metric for Endless {
    type Options = NoOptions;

    fn describe() -> Description {
        loop {
            black_box(());
        }
    }

    fn columns() -> &'static [&'static str] {
        &[]
    }

    fn compute(_: &Case, _: &Columns, _: NoOptions) -> Result<Vec<Measurement>, Error> {
        Ok(Vec::new())
    }
}

plugin_guest::export_metric!(Endless);
