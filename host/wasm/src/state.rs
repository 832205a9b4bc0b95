//! State of one call: its console, its files, its views, and the imports that use them.

use std::rc::Rc;

use host_record::{Cell, Prediction, Table, Views};

use crate::advice::{Grant, MoreCases};
use crate::answer;
use crate::bindings::metric::tare::plugin::other_columns::OtherColumn;
use crate::bindings::{metric, recommender, report, run_metric};
use crate::console::Console;
use crate::limits::{Limits, Meter};
use crate::output::Staged;

/// Limit on the lines that a call may write to the host's log.
const LOG_LINES: usize = 1000;
/// Characters of a line that are kept.
const LOG_LINE: usize = 1000;

/// The data of a store. A store lives for one call.
pub(crate) struct State {
    /// The plugin that logs.
    pub(crate) plugin: String,
    pub(crate) meter: Meter,
    pub(crate) console: Console,
    /// The views, for all plugins except metrics over a case.
    pub(crate) views: Option<Rc<dyn Views>>,
    /// The files of a report.
    pub(crate) output: Staged,
    /// For metrics over a case: its columns that are not numbers.
    pub(crate) columns: Vec<OtherColumn>,
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
            views,
            output: Staged::new(limits.output_bytes, limits.output_files),
            columns: Vec::new(),
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
                use $world::tare::plugin::types;
                let Table { columns, rows } = self.read_view(&name)?;
                let cell = |cell| match cell {
                    Cell::Null => types::Cell::Null,
                    Cell::Boolean(value) => types::Cell::Boolean(value),
                    Cell::Integer(value) => types::Cell::Integer(value),
                    Cell::Real(value) => types::Cell::Real(value),
                    Cell::Text(value) => types::Cell::Text(value),
                };
                let rows = rows.into_iter().map(|row| row.into_iter().map(cell).collect());
                Ok(types::Table { columns, rows: rows.collect() })
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
