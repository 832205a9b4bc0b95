//! The component's side: generated bindings, and conversions between them and the plain types.
//!
//! This module exists only inside the sandbox. The export macros use it; authors do not.

use std::marker::PhantomData;

use crate::log::Level;
use crate::{
    ActiveRecommender, Case, Cell, Column, ColumnData, Columns, Description, Error, Grant,
    Measurement, Metric, Output, PagedColumn, Part, Prediction, Recommendation, Recommender,
    RecommenderHost, Report, RunMetric, Table, Views, parse_options,
};

#[doc(hidden)]
pub mod metric {
    wit_bindgen::generate!({
        path: "wit",
        world: "metric-plugin",
        pub_export_macro: true,
        default_bindings_module: "plugin_guest::component::metric",
    });
}

#[doc(hidden)]
pub mod report {
    wit_bindgen::generate!({
        path: "wit",
        world: "report-plugin",
        pub_export_macro: true,
        default_bindings_module: "plugin_guest::component::report",
        with: {
            "tare:plugin/types@0.1.4": super::metric::tare::plugin::types,
            "tare:plugin/log@0.1.4": super::metric::tare::plugin::log,
        },
    });
}

#[doc(hidden)]
pub mod run_metric {
    wit_bindgen::generate!({
        path: "wit",
        world: "run-metric-plugin",
        pub_export_macro: true,
        default_bindings_module: "plugin_guest::component::run_metric",
        with: {
            "tare:plugin/types@0.1.4": super::metric::tare::plugin::types,
            "tare:plugin/log@0.1.4": super::metric::tare::plugin::log,
            "tare:plugin/views@0.1.4": super::report::tare::plugin::views,
            "tare:plugin/view-parts@0.1.4": super::report::tare::plugin::view_parts,
        },
    });
}

#[doc(hidden)]
pub mod recommender {
    wit_bindgen::generate!({
        path: "wit",
        world: "recommender-plugin",
        pub_export_macro: true,
        default_bindings_module: "plugin_guest::component::recommender",
        with: {
            "tare:plugin/types@0.1.4": super::metric::tare::plugin::types,
            "tare:plugin/log@0.1.4": super::metric::tare::plugin::log,
            "tare:plugin/views@0.1.4": super::report::tare::plugin::views,
            "tare:plugin/view-parts@0.1.4": super::report::tare::plugin::view_parts,
        },
    });
}

use metric::tare::plugin::{log, other_columns, paged_columns, types};
use recommender::tare::plugin::{more_cases, predictions};
use report::tare::plugin::{output, view_parts, views};

/// A metric as a component.
pub struct MetricComponent<T>(PhantomData<T>);

impl<T: Metric> metric::exports::tare::plugin::metric::Guest for MetricComponent<T> {
    fn describe() -> types::Description {
        description(&T::describe())
    }

    fn columns() -> Vec<String> {
        T::columns().iter().map(|name| (*name).to_owned()).collect()
    }

    fn compute(
        case: types::CaseDescription,
        columns: Vec<types::Column>,
        options: String,
    ) -> Result<Vec<types::Measurement>, String> {
        let options = parse_options(&T::describe(), &options).map_err(text)?;
        let attributes = case.attributes.into_iter().map(|item| (item.name, item.value)).collect();
        let others = other_columns::read().into_iter().map(other_column);
        let columns: Vec<_> = columns.into_iter().map(column).chain(others).collect();
        let case = Case { id: case.id, attributes };
        let measurements =
            T::compute(&case, &Columns::of(&case, columns), options).map_err(text)?;
        Ok(measurements.into_iter().map(measurement).collect())
    }
}

/// A metric over a run as a component.
pub struct RunMetricComponent<T>(PhantomData<T>);

impl<T: RunMetric> run_metric::exports::tare::plugin::run_metric::Guest for RunMetricComponent<T> {
    fn describe() -> types::Description {
        description(&T::describe())
    }

    fn outline(options: String) -> Result<Vec<types::Measurement>, String> {
        let options = parse_options(&T::describe(), &options).map_err(text)?;
        let measurements = T::outline(&options).map_err(text)?;
        Ok(measurements.into_iter().map(measurement).collect())
    }

    fn compute(
        options: String,
    ) -> Result<Vec<run_metric::exports::tare::plugin::run_metric::CaseMeasurement>, String> {
        use run_metric::exports::tare::plugin::run_metric::CaseMeasurement;

        let options = parse_options(&T::describe(), &options).map_err(text)?;
        let found = T::compute(&Host, &options).map_err(text)?;
        let found = found
            .into_iter()
            .map(|(case_id, one)| CaseMeasurement { case_id, measurement: measurement(one) });
        Ok(found.collect())
    }
}

/// A report as a component.
pub struct ReportComponent<T>(PhantomData<T>);

impl<T: Report> report::exports::tare::plugin::report::Guest for ReportComponent<T> {
    fn describe() -> types::Description {
        description(&T::describe())
    }

    fn render(options: String) -> Result<Vec<String>, String> {
        let options = parse_options(&T::describe(), &options).map_err(text)?;
        T::render(&Host, &mut Host, options).map_err(text)
    }
}

/// A recommender as a component.
pub struct RecommenderComponent<T>(PhantomData<T>);

impl<T: Recommender> recommender::exports::tare::plugin::recommender::Guest
    for RecommenderComponent<T>
{
    fn describe() -> types::Description {
        description(&T::describe())
    }

    fn recommend(
        options: String,
    ) -> Result<Vec<recommender::exports::tare::plugin::recommender::Recommendation>, String> {
        let options = parse_options(&T::describe(), &options).map_err(text)?;
        let recommendations = T::recommend(&Host, options).map_err(text)?;
        Ok(recommendations.into_iter().map(recommendation).collect())
    }
}

/// A recommender that asks for cases and predicts as a component.
pub struct ActiveRecommenderComponent<T>(PhantomData<T>);

impl<T: ActiveRecommender> recommender::exports::tare::plugin::recommender::Guest
    for ActiveRecommenderComponent<T>
{
    fn describe() -> types::Description {
        description(&T::describe())
    }

    fn recommend(
        options: String,
    ) -> Result<Vec<recommender::exports::tare::plugin::recommender::Recommendation>, String> {
        let options = parse_options(&T::describe(), &options).map_err(text)?;
        let recommendations = T::recommend(&mut Host, options).map_err(text)?;
        Ok(recommendations.into_iter().map(recommendation).collect())
    }
}

impl RecommenderHost for Host {
    fn left(&self) -> Grant {
        let more_cases::Grant { cases, seconds } = more_cases::left();
        Grant { cases, seconds }
    }

    fn ask(&mut self, like: &str, changes: &[(&str, String)], reason: &str) -> Result<(), String> {
        let changes = attributes(changes.iter().map(|(name, value)| (*name, value)));
        more_cases::ask(like, &changes, reason)
    }

    fn predict(&mut self, predictions: Vec<Prediction>) -> Result<(), Error> {
        let all: Vec<_> = predictions.into_iter().map(prediction).collect();
        predictions::state(&all).map_err(Error::Other)
    }
}

fn prediction(plain: Prediction) -> predictions::Prediction {
    predictions::Prediction {
        coordinates: attributes(plain.coordinates),
        metric: plain.metric,
        value: plain.value,
        interval: plain.interval,
        confidence: plain.confidence,
        unit: plain.unit,
        cases: plain.cases,
        attributes: attributes(plain.attributes),
    }
}

/// The host's imports, behind the traits that plugins see.
struct Host;

impl Views for Host {
    fn names(&self) -> Vec<String> {
        views::names()
    }

    fn read(&self, name: &str) -> Result<Table, Error> {
        let table =
            views::read(name).map_err(|reason| Error::View { view: name.to_owned(), reason })?;
        Ok(whole(table))
    }

    fn read_part(&self, name: &str, part: &Part) -> Result<Table, Error> {
        let conditions = part.conditions.iter().map(|(column, cells)| view_parts::Condition {
            column: column.clone(),
            one_of: cells.iter().cloned().map(wit_cell).collect(),
        });
        let part = view_parts::Part {
            columns: part.columns.clone(),
            conditions: conditions.collect(),
            first: part.first,
            count: part.count,
        };
        view_parts::read(name, &part)
            .map(whole)
            .map_err(|reason| Error::View { view: name.to_owned(), reason })
    }
}

fn whole(table: types::Table) -> Table {
    let rows = table.rows.into_iter().map(|row| row.into_iter().map(cell).collect()).collect();
    Table { columns: table.columns, rows }
}

/// Returns the columns that are read in pages, without their values.
pub(crate) fn paged_headers() -> Vec<PagedColumn> {
    let plain = |header: paged_columns::Header| PagedColumn {
        name: header.name,
        unit: header.unit,
        width: usize::try_from(header.width).unwrap_or(usize::MAX),
        rows: usize::try_from(header.rows).unwrap_or(usize::MAX),
    };
    paged_columns::headers().into_iter().map(plain).collect()
}

/// Reads rows of such a column.
pub(crate) fn read_page(column: &str, first: usize, count: usize) -> Result<ColumnData, String> {
    use paged_columns::Page;

    Ok(match paged_columns::read(column, first as u64, count as u64)? {
        Page::Unsigned(values) => ColumnData::Unsigned(values),
        Page::Signed(values) => ColumnData::Signed(values),
        Page::Single(values) => ColumnData::Single(values),
        Page::Double(values) => ColumnData::Double(values),
        Page::Booleans(values) => ColumnData::Boolean(values),
        Page::Texts(values) => ColumnData::Text(values),
    })
}

impl Output for Host {
    fn write(&mut self, name: &str, contents: &[u8]) -> Result<(), Error> {
        output::write(name, contents)
            .map_err(|reason| Error::Write { name: name.to_owned(), reason })
    }
}

pub(crate) fn log_line(level: Level, text: &str) {
    let level = match level {
        Level::Debug => log::Level::Debug,
        Level::Information => log::Level::Information,
        Level::Warning => log::Level::Warning,
    };
    log::line(level, text);
}

fn text(error: Error) -> String {
    error.to_string()
}

fn attributes(
    items: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>,
) -> Vec<types::Attribute> {
    items
        .into_iter()
        .map(|(name, value)| types::Attribute { name: name.into(), value: value.into() })
        .collect()
}

fn description(plain: &Description) -> types::Description {
    types::Description {
        id: plain.id.to_owned(),
        version: plain.version.to_owned(),
        summary: plain.summary.to_owned(),
        license: plain.license.to_owned(),
        options: attributes(plain.options.iter().copied()),
    }
}

fn column(wit: types::Column) -> Column {
    let data = match wit.data {
        types::ColumnData::Unsigned(values) => ColumnData::Unsigned(values),
        types::ColumnData::Signed(values) => ColumnData::Signed(values),
        types::ColumnData::Single(values) => ColumnData::Single(values),
        types::ColumnData::Double(values) => ColumnData::Double(values),
    };
    let width = usize::try_from(wit.width).unwrap_or(usize::MAX);
    Column { name: wit.name, unit: wit.unit, width, data }
}

fn other_column(wit: other_columns::OtherColumn) -> Column {
    let data = match wit.values {
        other_columns::Values::Booleans(values) => ColumnData::Boolean(values),
        other_columns::Values::Texts(values) => ColumnData::Text(values),
    };
    let width = usize::try_from(wit.width).unwrap_or(usize::MAX);
    Column { name: wit.name, unit: wit.unit, width, data }
}

fn cell(wit: types::Cell) -> Cell {
    match wit {
        types::Cell::Null => Cell::Null,
        types::Cell::Boolean(value) => Cell::Boolean(value),
        types::Cell::Integer(value) => Cell::Integer(value),
        types::Cell::Real(value) => Cell::Real(value),
        types::Cell::Text(value) => Cell::Text(value),
    }
}

fn wit_cell(plain: Cell) -> types::Cell {
    match plain {
        Cell::Null => types::Cell::Null,
        Cell::Boolean(value) => types::Cell::Boolean(value),
        Cell::Integer(value) => types::Cell::Integer(value),
        Cell::Real(value) => types::Cell::Real(value),
        Cell::Text(value) => types::Cell::Text(value),
    }
}

fn measurement(plain: Measurement) -> types::Measurement {
    types::Measurement {
        metric: plain.metric,
        measure: match plain.value {
            Ok(value) => types::Measure::Value(value),
            Err(gap) => types::Measure::Gap(types::Gap {
                kind: gap.kind.name().to_owned(),
                reason: gap.reason,
            }),
        },
        interval: plain.interval,
        unit: plain.unit,
        direction: plain.direction.name().to_owned(),
        attributes: attributes(plain.attributes),
    }
}

fn recommendation(
    plain: Recommendation,
) -> recommender::exports::tare::plugin::recommender::Recommendation {
    recommender::exports::tare::plugin::recommender::Recommendation {
        title: plain.title,
        explanation: plain.explanation,
        cases: plain.cases,
        attributes: attributes(plain.attributes),
    }
}
