//! State of one call: its console, its files, its views, and the imports that use them.

use std::rc::Rc;

use host_record::{CaseColumns, Cell, Column, ColumnData, Part, Prediction, Table, Views};

use crate::advice::{Grant, MoreCases};
use crate::answer;
use crate::bindings::metric::tare::plugin::other_columns::OtherColumn;
use crate::bindings::metric::tare::plugin::paged_columns;
use crate::bindings::{metric, recommender, report, run_metric};
use crate::console::Console;
use crate::limits::{Limits, Meter};
use crate::output::Staged;
use crate::stand_ins::{Clock, Handles, Random};

/// Limit on the lines that a call may write to the host's log.
const LOG_LINES: usize = 1000;
/// Characters of a line that are kept.
const LOG_LINE: usize = 1000;

/// Limit on the values of a page of a column.
const PAGE: u64 = 1 << 20;

/// Columns of a case that a metric reads in pages: the case, and their indices among its columns.
pub(crate) type Paged = (Rc<CaseColumns>, Vec<usize>);

/// The data of a store. A store lives for one call.
pub(crate) struct State {
    /// The plugin that logs.
    pub(crate) plugin: String,
    pub(crate) meter: Meter,
    pub(crate) console: Console,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) handles: Handles,
    /// The views, for all plugins except metrics over a case.
    pub(crate) views: Option<Rc<dyn Views>>,
    /// The files of a report.
    pub(crate) output: Staged,
    /// For metrics over a case: its columns that are not numbers.
    pub(crate) columns: Vec<OtherColumn>,
    /// For metrics over a case: its columns that are read in pages.
    pub(crate) paged: Option<Paged>,
    /// For recommenders: the cases that it may ask for. `None` grants none.
    pub(crate) more_cases: Option<Rc<dyn MoreCases>>,
    /// For recommenders: its predictions.
    pub(crate) predictions: Vec<Prediction>,
    log_lines: usize,
}

impl State {
    pub(crate) fn new(plugin: &str, limits: &Limits, views: Option<Rc<dyn Views>>) -> Self {
        Self {
            plugin: plugin.to_owned(),
            meter: Meter::new(limits.memory_bytes),
            console: Console::default(),
            clock: Clock::default(),
            random: Random::default(),
            handles: Handles::default(),
            views,
            output: Staged::new(limits.output_bytes, limits.output_files),
            columns: Vec::new(),
            paged: None,
            more_cases: None,
            predictions: Vec::new(),
            log_lines: 0,
        }
    }

    fn log(&mut self, level: tracing::Level, text: &str) {
        self.log_lines += 1;
        let plugin = self.plugin.as_str();
        if self.log_lines > LOG_LINES {
            if self.log_lines == LOG_LINES + 1 {
                tracing::warn!(plugin, "more than {LOG_LINES} lines; the rest is left out");
            }
            return;
        }
        let text: String = text.chars().filter(|c| !c.is_control()).take(LOG_LINE).collect();
        match level {
            tracing::Level::WARN => tracing::warn!(plugin, "{text}"),
            tracing::Level::INFO => tracing::info!(plugin, "{text}"),
            _ => tracing::debug!(plugin, "{text}"),
        }
    }

    fn view_names(&self) -> Vec<String> {
        self.views.as_ref().map(|views| views.names()).unwrap_or_default()
    }

    fn read_view(&self, name: &str) -> Result<Table, String> {
        let views = self.views.as_ref().ok_or("there are no views in this call")?;
        views.read(name)
    }

    fn read_view_part(&self, name: &str, part: &Part) -> Result<Table, String> {
        let views = self.views.as_ref().ok_or("there are no views in this call")?;
        views.read_part(name, part)
    }

    fn paged(&self) -> impl Iterator<Item = &Column> {
        let paged = self.paged.iter();
        paged.flat_map(|(case, indices)| indices.iter().map(|index| &case.columns[*index]))
    }
}

/// Returns the number of rows of a column.
fn rows(column: &Column) -> u64 {
    let values = match &column.data {
        ColumnData::U64(values) => values.len(),
        ColumnData::S64(values) => values.len(),
        ColumnData::F32(values) => values.len(),
        ColumnData::F64(values) => values.len(),
        ColumnData::Boolean(values) => values.len(),
        ColumnData::Text(values) => values.len(),
    };
    values as u64 / column.width.max(1)
}

macro_rules! log_import {
    ($world:ident) => {
        impl $world::tare::plugin::log::Host for State {
            fn line(&mut self, level: $world::tare::plugin::log::Level, text: String) {
                use $world::tare::plugin::log::Level;
                let level = match level {
                    Level::Debug => tracing::Level::DEBUG,
                    Level::Information => tracing::Level::INFO,
                    Level::Warning => tracing::Level::WARN,
                };
                self.log(level, &text);
            }
        }

        impl $world::tare::plugin::types::Host for State {}
    };
}

macro_rules! views_import {
    ($world:ident) => {
        impl $world::tare::plugin::views::Host for State {
            fn names(&mut self) -> Vec<String> {
                self.view_names()
            }

            fn read(&mut self, name: String) -> Result<$world::tare::plugin::types::Table, String> {
                self.read_view(&name).map(Into::into)
            }
        }

        impl $world::tare::plugin::view_parts::Host for State {
            fn read(
                &mut self,
                view: String,
                part: $world::tare::plugin::view_parts::Part,
            ) -> Result<$world::tare::plugin::types::Table, String> {
                use $world::tare::plugin::types;
                let cell = |cell| match cell {
                    types::Cell::Null => Cell::Null,
                    types::Cell::Boolean(value) => Cell::Boolean(value),
                    types::Cell::Integer(value) => Cell::Integer(value),
                    types::Cell::Real(value) => Cell::Real(value),
                    types::Cell::Text(value) => Cell::Text(value),
                };
                let conditions = part.conditions.into_iter();
                let conditions = conditions.map(|condition| {
                    (condition.column, condition.one_of.into_iter().map(cell).collect())
                });
                let part = Part {
                    columns: part.columns,
                    conditions: conditions.collect(),
                    first: part.first,
                    count: part.count,
                };
                self.read_view_part(&view, &part).map(Into::into)
            }
        }
    };
}

log_import!(metric);
log_import!(run_metric);
log_import!(report);
log_import!(recommender);
views_import!(run_metric);
views_import!(report);
views_import!(recommender);

impl metric::tare::plugin::other_columns::Host for State {
    fn read(&mut self) -> Vec<OtherColumn> {
        // A guest that asks twice has them already.
        std::mem::take(&mut self.columns)
    }
}

impl paged_columns::Host for State {
    fn headers(&mut self) -> Vec<paged_columns::Header> {
        let header = |column: &Column| paged_columns::Header {
            name: column.name.clone(),
            unit: column.unit.clone(),
            width: column.width,
            rows: rows(column),
            kind: match column.data {
                ColumnData::U64(_) => "unsigned",
                ColumnData::S64(_) => "signed",
                ColumnData::F32(_) => "single",
                ColumnData::F64(_) => "double",
                ColumnData::Boolean(_) => "boolean",
                ColumnData::Text(_) => "text",
            }
            .to_owned(),
        };
        self.paged().map(header).collect()
    }

    fn read(
        &mut self,
        name: String,
        first: u64,
        count: u64,
    ) -> Result<paged_columns::Page, String> {
        use paged_columns::Page;

        let column = self.paged().find(|column| column.name == name).ok_or_else(|| {
            format!("the case has no column {name:?} that `columns` asks for in pages")
        })?;
        let (width, rows) = (column.width.max(1), rows(column));
        if first > rows {
            return Err(format!("`{name}` has {rows} rows, and none at {first}"));
        }
        let count = count.min(rows - first);
        if count.saturating_mul(width) > PAGE {
            return Err(format!(
                "a page has at most {PAGE} values; {count} rows of `{name}` have {}",
                count.saturating_mul(width)
            ));
        }
        // The end lies within the column, so both are indices.
        let range = (first * width) as usize..((first + count) * width) as usize;
        Ok(match &column.data {
            ColumnData::U64(values) => Page::Unsigned(values[range].to_vec()),
            ColumnData::S64(values) => Page::Signed(values[range].to_vec()),
            ColumnData::F32(values) => Page::Single(values[range].to_vec()),
            ColumnData::F64(values) => Page::Double(values[range].to_vec()),
            ColumnData::Boolean(values) => Page::Booleans(values[range].to_vec()),
            ColumnData::Text(values) => Page::Texts(values[range].to_vec()),
        })
    }
}

impl report::tare::plugin::output::Host for State {
    fn write(&mut self, name: String, contents: Vec<u8>) -> Result<(), String> {
        let Self { output, meter, .. } = self;
        output.write(name, contents, meter).map_err(|refusal| refusal.to_string())
    }
}

impl recommender::tare::plugin::more_cases::Host for State {
    fn left(&mut self) -> recommender::tare::plugin::more_cases::Grant {
        let Grant { cases, seconds } =
            self.more_cases.as_ref().map(|more| more.left()).unwrap_or_default();
        recommender::tare::plugin::more_cases::Grant { cases, seconds }
    }

    fn ask(
        &mut self,
        like: String,
        changes: Vec<recommender::tare::plugin::types::Attribute>,
        reason: String,
    ) -> Result<(), String> {
        let Some(more) = &self.more_cases else {
            return Err("the manifest grants this recommender no further cases".into());
        };
        let changes: Vec<_> = changes.into_iter().map(|item| (item.name, item.value)).collect();
        let reason = answer::wish_reason(&reason)?;
        more.ask(&like, &changes, reason)
    }
}

impl recommender::tare::plugin::predictions::Host for State {
    fn state(
        &mut self,
        predictions: Vec<recommender::tare::plugin::predictions::Prediction>,
    ) -> Result<(), String> {
        let known = self.predictions.len();
        let checked = answer::predictions(predictions, known, self.views.as_deref())?;
        self.predictions.extend(checked);
        Ok(())
    }
}
