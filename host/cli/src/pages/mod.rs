/*!
Pages for a browser, made of the parts that the report `html` has: a comparison, a history, the runs of a results folder and
one run.

`host report --compare` and `host history --html` write a page to a file, and `host serve` answers with pages.
*/

mod compare;
mod history;
mod runs;

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use host_page::{Figure, Page, Scripts, Section};
use host_record::{Axis, CaseKey};
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use crate::axes::Common;
use crate::failure::{Failure, Result};

pub(crate) use compare::page as comparison;
pub(crate) use history::page as history;
pub(crate) use runs::{MOST_RUNS, Report, RunPage, histories, home, run};

/// The place of a page: a file that stands alone, or a server with other pages.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    File,
    Server(&'a str),
}

impl<'a> Place<'a> {
    fn scripts(self) -> Scripts<'a> {
        match self {
            Self::File => Scripts::Inside,
            Self::Server(base) => Scripts::At(base),
        }
    }

    /// Returns the address of another page, if there is one.
    fn link(self, path: &str) -> Option<String> {
        match self {
            Self::File => None,
            Self::Server(base) => Some(format!("{base}/{path}")),
        }
    }

    /// Returns text that leads to another page, if there is one.
    fn linked(self, path: &str, text: &str) -> Markup {
        match self.link(path) {
            Some(address) => html! { a href=(address) { (text) } },
            None => html! { (text) },
        }
    }
}

/// A page with the data of its table, a row for each case.
struct Contents<'a> {
    title: &'a str,
    header: Markup,
    sections: Vec<Section>,
    /// Id of the table.
    table: &'static str,
    /// Keys of the rows, in their order.
    keys: Vec<CaseKey>,
    /// Ids of the rows.
    ids: Vec<String>,
    figures: Vec<Figure>,
}

impl Contents<'_> {
    fn draw(self, place: Place<'_>) -> String {
        let common = Common::of(self.keys.iter());
        let labels: Vec<String> = self.keys.iter().map(|key| common.rest(key)).collect();
        let mut data = Map::new();
        if !self.table.is_empty() {
            data.insert("table".into(), json!(self.table));
        }
        data.insert("cases".into(), json!(self.ids));
        data.insert("labels".into(), json!(labels));
        data.insert("axes".into(), axes(&self.keys));
        data.insert("figures".into(), self.figures.iter().map(Figure::json).collect());
        let page = Page {
            title: self.title,
            header: html! {
                @if let Place::Server(base) = place {
                    nav aria-label="Pages" { ul {
                        li { a href={ (base) "/" } { "Runs" } }
                        li { a href={ (base) "/history" } { "History" } }
                    } }
                }
                (self.header)
            },
            sections: self.sections,
            footer: html! {
                "Tare " (env!("CARGO_PKG_VERSION"))
                @match place {
                    Place::File => ". This file is self-contained: it loads nothing and sends nothing. Charts are drawn by Apache ECharts.",
                    Place::Server(_) => ". Read-only, and only for this machine. Charts are drawn by Apache ECharts.",
                }
            },
            data: Value::Object(data),
            scripts: place.scripts(),
        };
        host_page::visible(&page.draw().into_string()).into_owned()
    }
}

/// Returns the coordinates of rows for the script: names, and each row's place among them.
fn axes(keys: &[CaseKey]) -> Value {
    let axis = |axis: Axis| {
        let mut names: Vec<String> = Vec::new();
        let of: Vec<usize> = keys
            .iter()
            .map(|key| {
                let value = axis.shown_value(key).unwrap_or_else(|| "—".to_owned());
                names.iter().position(|name| *name == value).unwrap_or_else(|| {
                    names.push(value);
                    names.len() - 1
                })
            })
            .collect();
        json!({ "name": axis.heading(), "heading": axis.heading(), "names": names, "of": of })
    };
    Axis::shown().map(axis).collect()
}

/// Returns columns and cells for the coordinates on which rows differ.
fn coordinates(
    keys: &[CaseKey],
) -> (Vec<host_page::Column>, impl Fn(&CaseKey) -> Vec<host_page::Cell>) {
    let others: Vec<Axis> = Common::of(keys.iter()).others().collect();
    let columns = others.iter().map(|axis| host_page::Column {
        is_number: axis.is_number(),
        ..host_page::Column::name(axis.heading())
    });
    let columns = columns.collect();
    (columns, move |key| {
        let cell = |axis: &Axis| {
            let text = axis.shown_value(key).unwrap_or_else(|| "—".to_owned());
            let value = if axis.is_number() { text.parse().ok() } else { None };
            host_page::Cell { value, ..host_page::Cell::text(text) }
        };
        others.iter().map(cell).collect()
    })
}

/// Writes a page to a file. One that exists is replaced only if the user asks for it.
pub(crate) fn write(path: &Path, page: &str, force: bool) -> Result<()> {
    let failed = |error| Failure::io("write", path, error);
    if force {
        return fs::write(path, page).map_err(failed);
    }
    let mut file = File::create_new(path).map_err(|error| {
        let exists = error.kind() == std::io::ErrorKind::AlreadyExists;
        let failure = failed(error);
        if exists { failure.help("--force replaces it") } else { failure }
    })?;
    file.write_all(page.as_bytes()).map_err(failed)
}
