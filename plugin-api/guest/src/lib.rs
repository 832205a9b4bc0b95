/*!
Write metric, report and recommender plugins in Rust.

A plugin is a type that implements one of five traits, [`Metric`], [`RunMetric`], [`Report`],
[`Recommender`] or [`ActiveRecommender`], and is exported with the macro of that name. The traits use plain Rust types and see
the host only through their arguments ([`Columns`], [`Views`], [`Output`]), so a plugin's logic is
tested on any machine with `cargo test`, and only the export needs the sandbox.

```
use plugin_guest::{Case, Columns, Description, Direction, Error, Measurement, Metric, NoOptions};

struct Slowest;

impl Metric for Slowest {
    type Options = NoOptions;

    fn describe() -> Description {
        plugin_guest::describe!("slowest")
    }

    fn columns() -> &'static [&'static str] {
        &["latency"]
    }

    fn compute(_: &Case, columns: &Columns, _: NoOptions) -> Result<Vec<Measurement>, Error> {
        let slowest = columns
            .unsigned("latency")
            .and_then(|latency| latency.iter().max().copied().ok_or_else(|| "no query".into()));
        Ok(vec![Measurement::new("slowest.query", slowest.map(|ns| ns as f64), "ns", Direction::Lower)])
    }
}

plugin_guest::export_metric!(Slowest);
```

Build with `cargo build --release --target wasm32-wasip2` and `crate-type = ["cdylib", "rlib"]`; the
resulting `.wasm` file is the plugin.

A plugin has no files and no network; its clock stands still, and its random numbers are the same in every call. Use
`BTreeMap` rather than `HashMap`, whose order says nothing.
*/

mod active;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod component;
mod description;
mod error;
mod interval;
pub mod log;
mod metric;
mod options;
mod process;
mod recommender;
mod report;
mod run_metric;
mod view;

pub use active::{ActiveRecommender, Grant, Prediction, RecommenderHost, RecordingHost, Wish};
pub use description::Description;
pub use error::Error;
pub use interval::{LEAST_EFFECTIVE_SIZE, below_zero};
pub use metric::{
    Case, Column, ColumnData, Columns, Direction, Gap, GapKind, Measurement, Metric, PagedColumn,
    Pages,
};
pub use options::NoOptions;
pub use recommender::{Recommendation, Recommender};
pub use report::{Output, Report};
pub use run_metric::RunMetric;
pub use view::{Cell, Part, Row, Table, View, Views};

#[doc(hidden)]
pub use options::parse as parse_options;

/// Exports a type that implements [`Metric`] as a component. Does nothing outside the sandbox.
#[macro_export]
macro_rules! export_metric {
    ($plugin:ty) => {
        $crate::export_component!(metric, MetricComponent, $plugin);
    };
}

/// Exports a type that implements [`RunMetric`] as a component. Does nothing outside the sandbox.
#[macro_export]
macro_rules! export_run_metric {
    ($plugin:ty) => {
        $crate::export_component!(run_metric, RunMetricComponent, $plugin);
    };
}

/// Exports a type that implements [`Report`] as a component. Does nothing outside the sandbox.
#[macro_export]
macro_rules! export_report {
    ($plugin:ty) => {
        $crate::export_component!(report, ReportComponent, $plugin);
    };
}

/// Exports a type that implements [`Recommender`] as a component. Does nothing outside the
/// sandbox.
#[macro_export]
macro_rules! export_recommender {
    ($plugin:ty) => {
        $crate::export_component!(recommender, RecommenderComponent, $plugin);
    };
}

/// Exports a type that implements [`ActiveRecommender`] as a component. Does nothing outside the
/// sandbox.
#[macro_export]
macro_rules! export_active_recommender {
    ($plugin:ty) => {
        $crate::export_component!(recommender, ActiveRecommenderComponent, $plugin);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! export_component {
    ($world:ident, $component:ident, $plugin:ty) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            type Component = $crate::component::$component<$plugin>;
            $crate::component::$world::export!(
                Component with_types_in $crate::component::$world
            );
        };
    };
}
