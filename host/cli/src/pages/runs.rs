//! The runs of a results folder, and one run, as pages of a server. They come from the database.

use std::collections::BTreeMap;

use host_page::{Cell, Column, Figure, Row, Section, Table, humanise_interval, humanise_metric};
use host_record::{CaseKey, Cell as Value, Table as Rows, summary};
use maud::{Markup, html};

use super::{Contents, Place, coordinates};
use crate::axes::Common;

/// Runs on a page.
pub(crate) const MOST_RUNS: usize = 100;

/// Metrics that a page of a run shows, the most important.
const MOST_METRICS: usize = 8;

fn text(cell: &Value) -> String {
    match cell {
        Value::Null => String::new(),
        Value::Text(text) => text.clone(),
        Value::Integer(value) => value.to_string(),
        Value::Real(value) => value.to_string(),
        Value::Boolean(value) => value.to_string(),
    }
}

fn count(cell: &Value) -> Cell {
    match cell {
        Value::Integer(value) => Cell::number(value.to_string(), *value as f64),
        other => Cell::text(text(other)),
    }
}

/// Returns the newest runs, or those before one. `rows` are run, experiment, start, commit, and the numbers of finished and
/// failed cases and of gaps.
pub(crate) fn home(rows: &Rows, not_indexed: usize, place: Place<'_>) -> String {
    let runs: Vec<Row> = rows
        .rows
        .iter()
        .take(MOST_RUNS)
        .map(|row| {
            let [run, experiment, started, commit, finished, failed, gaps] = &row[..] else {
                return Row::default();
            };
            let run = text(run);
            Row {
                name: place.linked(&format!("run/{run}"), &run),
                class: None,
                cells: vec![
                    Cell::text(text(experiment)),
                    Cell::text(text(started).get(..16).unwrap_or_default().replace('T', " ")),
                    count(finished),
                    count(failed),
                    count(gaps),
                    Cell::text(text(commit).get(..12).unwrap_or(&text(commit))),
                ],
                ..Row::default()
            }
        })
        .collect();
    let ids: Vec<String> =
        rows.rows.iter().take(MOST_RUNS).filter_map(|row| row.first().map(text)).collect();
    let older = (rows.rows.len() > MOST_RUNS).then(|| ids.last().cloned()).flatten();
    let table = Table {
        id: "runs".into(),
        label: "Table of runs".into(),
        rows_are: "run".into(),
        columns: vec![
            Column::text("experiment"),
            Column::text("started (UTC)"),
            Column::number("finished"),
            Column::number("failed"),
            Column { is_lesser: true, ..Column::number("gaps") },
            Column { is_lesser: true, ..Column::text("commit") },
        ],
        rows: runs,
    };
    let mut sections = Vec::new();
    if ids.is_empty() {
        sections.push(Section::new(
            "runs-of-folder",
            "Runs",
            html! { p { "The database has no run yet: `host run` makes one." } },
        ));
    } else {
        let content = html! {
            (table.draw())
            @if let Some(address) = older.and_then(|run| place.link(&format!("?before={run}"))) { p { a href=(address) { "Older runs" } } }
        };
        sections.push(Section::new("runs-of-folder", "Runs", content));
    }
    if ids.len() > 1 {
        sections.push(Section::new("compare-runs", "Compare", compare_form(&ids, place)));
    }
    let contents = Contents {
        title: "Runs",
        header: html! {
            header {
                p.eyebrow { "Results" }
                h1 { "Runs" }
                @if not_indexed > 0 { p.quiet { (not_indexed) " runs are not in the database; `host results sync` brings them in." } }
            }
        },
        sections,
        table: "",
        keys: Vec::new(),
        ids: Vec::new(),
        figures: Vec::<Figure>::new(),
    };
    contents.draw(place)
}

fn compare_form(runs: &[String], place: Place<'_>) -> Markup {
    let choice = |name: &str, label: &str, chosen: usize| {
        html! {
            label { (label) " "
                select name=(name) { @for (index, run) in runs.iter().enumerate() {
                    option value=(run) selected[index == chosen] { (run) }
                } }
            }
        }
    };
    html! {
        @if let Some(address) = place.link("compare") {
            form.compare method="get" action=(address) {
                (choice("first", "first", 1)) (choice("second", "second", 0))
                button type="submit" { "Compare" }
            }
        }
    }
}

/// A report of a run: a plugin, and its files.
#[derive(Debug)]
pub(crate) struct Report {
    /// The plugin.
    pub(crate) plugin: String,
    /// Names of its files, the main one first.
    pub(crate) files: Vec<String>,
}

/// Content of a run's page.
#[derive(Debug)]
pub(crate) struct RunPage {
    /// The run.
    pub(crate) run: String,
    /// Experiment, description, start, host and commit.
    pub(crate) facts: Vec<(&'static str, String)>,
    /// Cases: id, key, outcome and reason.
    pub(crate) cases: Vec<(String, CaseKey, String, String)>,
    /// Case, metric, value, unit, bounds of the interval, and reason.
    pub(crate) results: Rows,
    /// Plugin, title and explanation.
    pub(crate) advice: Vec<(String, String, String)>,
    /// Warnings by kind, with the number of cases.
    pub(crate) warnings: Vec<(String, i64)>,
    /// Reports in the run folder.
    pub(crate) reports: Vec<Report>,
    /// The run before of the same experiment.
    pub(crate) before: Option<String>,
}

/// Returns the page of a run.
pub(crate) fn run(page: &RunPage, place: Place<'_>) -> String {
    let keys: Vec<CaseKey> = page.cases.iter().map(|(_, key, ..)| key.clone()).collect();
    let common = Common::of(keys.iter());
    let mut sections =
        vec![Section::new("results", "Results", results(page, &keys, &common, place))];
    if !page.advice.is_empty() {
        let content = html! { @for (plugin, title, explanation) in &page.advice {
            article.advice {
                h3 { (title) }
                details { summary { "The figures" } @for line in explanation.lines() { p { (line) } } }
                p.rests.quiet { "From the recommender " (plugin) }
            }
        } };
        sections.insert(0, Section::new("advice", "Recommendations", content));
    }
    let contents = Contents {
        title: &page.run,
        header: html! {
            header {
                p.eyebrow { "Run" }
                h1 { (page.run) }
                dl {
                    @for (name, value) in page.facts.iter().filter(|(_, value)| !value.is_empty()) { dt { (name) } dd { (value) } }
                    @if !common.heading().is_empty() { dt { "All cases" } dd { (common.heading().join(" · ")) } }
                    @if !page.warnings.is_empty() {
                        dt { "Warnings" }
                        dd { @for (index, (kind, cases)) in page.warnings.iter().enumerate() { @if index > 0 { ", " } (kind) " in " (cases) " cases" } }
                    }
                    dt { "Reports" }
                    dd {
                        @for report in &page.reports {
                            @for (index, file) in report.files.iter().enumerate() {
                                (place.linked(&format!("run/{}/{}/{}", page.run, report.plugin, file), &if index == 0 && report.files.len() == 1 { report.plugin.clone() } else { format!("{}/{file}", report.plugin) })) " "
                            }
                        }
                        @if page.reports.is_empty() { "none in the run folder; `host report " (page.run) "` writes them" }
                    }
                    @if let Some(before) = &page.before {
                        dt { "Compare" }
                        dd { (place.linked(&format!("compare?first={before}&second={}", page.run), &format!("with {before}, the run before"))) }
                    }
                }
            }
        },
        sections,
        table: "cases",
        ids: page.cases.iter().map(|(id, ..)| id.clone()).collect(),
        keys,
        figures: Vec::new(),
    };
    contents.draw(place)
}

fn as_text(cell: &Value) -> &str {
    if let Value::Text(text) = cell { text } else { "" }
}

/// A value of a metric for a page.
struct Found<'a> {
    value: Option<f64>,
    unit: &'a str,
    interval: Option<(f64, f64)>,
    reason: &'a str,
}

fn results(page: &RunPage, keys: &[CaseKey], common: &Common, place: Place<'_>) -> Markup {
    let mut found: BTreeMap<(&str, &str), Found<'_>> = BTreeMap::new();
    let mut metrics: Vec<&str> = Vec::new();
    for row in &page.results.rows {
        let [case, metric, value, unit, low, high, reason] = &row[..] else { continue };
        let (Value::Text(case), Value::Text(metric)) = (case, metric) else { continue };
        let number = |cell: &Value| if let Value::Real(value) = cell { Some(*value) } else { None };
        if !metrics.contains(&&**metric) {
            metrics.push(metric);
        }
        found.insert(
            (case.as_str(), metric.as_str()),
            Found {
                value: number(value),
                unit: as_text(unit),
                interval: number(low).zip(number(high)),
                reason: as_text(reason),
            },
        );
    }
    let has_value =
        |metric: &str| found.iter().any(|((_, of), found)| *of == metric && found.value.is_some());
    let shown: Vec<(&str, &str, u8)> = summary()
        .into_iter()
        .filter_map(|wanted| {
            let metric = wanted.find(metrics.iter().copied())?;
            has_value(metric).then_some((wanted.heading, metric, wanted.shown.gives_way))
        })
        .take(MOST_METRICS)
        .collect();
    let (names, name) = coordinates(keys);
    let figures = shown.iter().map(|(heading, metric, gives_way)| Column {
        title: (*metric).to_owned(),
        is_lesser: *gives_way >= 3,
        ..Column::number(*heading)
    });
    let rows = page.cases.iter().enumerate().map(|(index, (id, key, outcome, reason))| {
        let mut cells = name(key);
        let class = match &**outcome {
            "finished" => None,
            "gap" => Some("gap"),
            _ => Some("failed"),
        };
        if class.is_some() {
            cells.push(Cell { class: Some("reason"), ..Cell::text(reason) });
        } else {
            cells.extend(shown.iter().map(|(_, metric, _)| match found.get(&(&**id, *metric)) {
                Some(Found { value: Some(value), unit, interval, .. }) => Cell {
                    below:
                        interval.map(|interval| humanise_interval(metric, *value, interval, unit)),
                    ..Cell::number(humanise_metric(metric, *value, unit), *value)
                },
                Some(found) => Cell::missing("gap", Some(found.reason.to_owned())),
                None => Cell::missing("—", None),
            }));
            cells.push(Cell {
                content: place.linked(&format!("history/{id}"), "history"),
                ..Cell::default()
            });
        }
        Row {
            name: html! { (common.rest(key)) },
            class,
            case: Some(index),
            cells,
            ..Row::default()
        }
    });
    let table = Table {
        id: "cases".into(),
        label: "Table of results".into(),
        rows_are: "case".into(),
        columns: names
            .into_iter()
            .chain(figures)
            .chain([Column { is_lesser: true, ..Column::text("over runs") }])
            .collect(),
        rows: rows.collect(),
    };
    table.draw()
}

/// Returns the page that leads to histories. `rows` are model, and the numbers of cases and of runs.
pub(crate) fn histories(rows: &Rows, place: Place<'_>) -> String {
    let list = rows.rows.iter().map(|row| {
        let [model, cases, runs] = &row[..] else { return Row::default() };
        let model = text(model);
        Row {
            name: place.linked(&format!("history/{}", encoded(&model)), &model),
            cells: vec![count(cases), count(runs)],
            ..Row::default()
        }
    });
    let table = Table {
        id: "models".into(),
        label: "Table of models".into(),
        rows_are: "model".into(),
        columns: vec![Column::number("cases"), Column::number("runs")],
        rows: list.collect(),
    };
    let contents = Contents {
        title: "History",
        header: html! { header { p.eyebrow { "History" } h1 { "Models" } p.quiet { "Each leads to the results of its cases over all runs." } } },
        sections: vec![Section::new("models-of-folder", "Models", table.draw())],
        table: "",
        keys: Vec::new(),
        ids: Vec::new(),
        figures: Vec::new(),
    };
    contents.draw(place)
}

/// Encodes a name as a segment of a path.
fn encoded(name: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    name.bytes().map(byte).collect()
}
