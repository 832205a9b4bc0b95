//! The history of cases as a page.

use std::collections::BTreeMap;

use host_experiment::{Point as Past, Series as History, expected_by_chance};
use host_page::{
    Axis, AxisKind, Cell, Chart, Column, Figure, Kind, Mark, Point, Row, Section, Series, Table,
    anchor,
};
use maud::{Markup, html};

use super::{Contents, Place, coordinates};
use crate::axes::Common;
use crate::series::{change_shown, newest, place_shown, since, verdict_shown};

/// Series that are drawn: those with the largest newest changes. The table has all.
const MOST_SERIES: usize = 200;

/// Marks of differences of the environment in a chart of one series, the newest.
const MOST_MARKS: usize = 12;

/// Returns the page.
pub(crate) fn page(series: &[History], subject: Option<&str>, place: Place<'_>) -> String {
    let keys: Vec<_> = series.iter().map(|one| one.key.clone()).collect();
    let common = Common::of(keys.iter());
    let figures = figures(series, &common);
    let title =
        subject.map_or_else(|| "History".to_owned(), |subject| format!("History of {subject}"));
    let runs = series.iter().map(|one| one.points.len()).max().unwrap_or(0);
    let changed = series.iter().filter(|one| one.newest_ratio().is_some()).count();
    let chance = expected_by_chance(series);
    let mut sections = vec![Section::new("series", "Cases", table(series, &common, place))];
    if !figures.is_empty() {
        let words = html! {
            p { "A point is a run. Rings mark where a change was found; the lines of a single case mark differences of the environment. Select rows of the table to see them alone." }
            @for figure in &figures { (figure.draw()) }
        };
        sections.insert(0, Section::new("over-runs", "Over runs", words));
    }
    if let [one] = series {
        sections.extend(
            environment(one, place)
                .map(|content| Section::new("environment", "Environment", content)),
        );
    }
    let contents = Contents {
        title: &title,
        header: html! {
            header {
                p.eyebrow { "History" }
                h1 { (title) }
                dl {
                    dt { "Series" } dd { (series.len()) ", of up to " (runs) " runs" }
                    dt { "Changed" } dd {
                        (changed)
                        @if chance >= 0.1 { ", of which about " (format!("{chance:.1}")) " are expected if nothing had changed" }
                    }
                    @if !common.heading().is_empty() { dt { "All cases" } dd { (common.heading().join(" · ")) } }
                }
            }
        },
        sections,
        table: "history",
        ids: series
            .iter()
            .map(|one| one.points.last().map_or_else(String::new, |point| point.case_id.clone()))
            .collect(),
        keys,
        figures,
    };
    contents.draw(place)
}

fn table(series: &[History], common: &Common, place: Place<'_>) -> Markup {
    if series.is_empty() {
        return html! { p { "The database has no result of this." } };
    }
    let keys: Vec<_> = series.iter().map(|one| one.key.clone()).collect();
    let (names, name) = coordinates(&keys);
    let differs = |of: fn(&History) -> &str| series.iter().any(|one| of(one) != of(&series[0]));
    type Part = fn(&History) -> &str;
    let shared: [(&str, Part); 3] = [
        ("metric", |one| &one.metric),
        ("experiment", |one| &one.experiment),
        ("machine", |one| &one.machine),
    ];
    let shared: Vec<_> = shared.into_iter().filter(|(_, of)| differs(*of)).collect();
    let columns = [
        Column::number("change"),
        Column::text("verdict"),
        Column { is_lesser: true, ..Column::text("since") },
        Column::number("newest"),
        Column { is_lesser: true, ..Column::number("runs") },
    ];
    let rows = series.iter().enumerate().map(|(index, one)| {
        let mut cells = name(&one.key);
        cells.extend(shared.iter().map(|(_, of)| Cell::text(of(one))));
        let verdict = verdict_shown(one);
        let class = match () {
            () if verdict.contains("slower") || verdict.contains("worse") => "slower",
            () if verdict.contains("faster") || verdict.contains("better") => "faster",
            () => "",
        };
        let last = one.points.iter().rev().find_map(|point| point.value.as_ref().ok().copied());
        cells.extend([
            Cell { value: one.newest_ratio(), ..Cell::text(change_shown(one)) },
            Cell { class: Some(class), ..Cell::text(verdict) },
            Cell::text(since(one)),
            Cell { value: last, ..Cell::text(newest(one).unwrap_or_else(|| "—".to_owned())) },
            Cell::number(one.points.len().to_string(), one.points.len() as f64),
        ]);
        let case = one.points.last().map_or("", |point| &point.case_id);
        let text = common.rest(&one.key);
        let name = if series.len() > 1 {
            place.linked(&format!("history/{case}"), &text)
        } else {
            html! { (text) }
        };
        Row { name, case: Some(index), cells, ..Row::default() }
    });
    let texts =
        shared.iter().map(|(heading, _)| Column { is_lesser: true, ..Column::text(*heading) });
    let table = Table {
        id: "history".into(),
        label: "Table of histories".into(),
        rows_are: "case".into(),
        columns: names.into_iter().chain(texts).chain(columns).collect(),
        rows: rows.collect(),
    };
    table.draw()
}

/// Returns a figure for each metric.
fn figures(series: &[History], common: &Common) -> Vec<Figure> {
    let mut metrics: BTreeMap<(&str, &str), Vec<(usize, &History)>> = BTreeMap::new();
    for (place, one) in series.iter().enumerate().take(MOST_SERIES) {
        metrics.entry((one.metric.as_str(), one.unit.as_str())).or_default().push((place, one));
    }
    let is_single = series.len() == 1;
    let figure = |((metric, unit), own): ((&str, &str), Vec<(usize, &History)>)| {
        // Runs in the order of their start: of all series together.
        let mut runs: Vec<&Past> = own.iter().flat_map(|(_, one)| &one.points).collect();
        runs.sort_by(|one, other| {
            (&one.started_at, &one.run_id).cmp(&(&other.started_at, &other.run_id))
        });
        runs.dedup_by(|one, other| one.run_id == other.run_id);
        let places: BTreeMap<&str, usize> =
            runs.iter().enumerate().map(|(place, point)| (&*point.run_id, place)).collect();
        let line = |(group, (place, one)): (usize, &(usize, &History))| {
            let points = one.points.iter().enumerate().filter_map(|(index, point)| {
                let value = *point.value.as_ref().ok()?;
                let at = *places.get(&*point.run_id)? as f64;
                let change = one.changes().iter().find(|change| one.place(change.index) == index);
                let name = change.map(|change| {
                    format!(
                        "{}: {} by {:+.1} % from here on",
                        common.rest(&one.key),
                        one.verdict(change.ratio),
                        100.0 * (change.ratio - 1.0)
                    )
                });
                Some(Point {
                    chosen: change.is_some(),
                    name,
                    ..Point::of_case(at, value, point.interval, *place)
                })
            });
            Series::line(common.rest(&one.key), group, points.collect())
        };
        let marks: Vec<Mark> = match own.first() {
            Some((_, one)) if is_single => marks(one, &places),
            _ => Vec::new(),
        };
        Figure {
            id: anchor("history", &format!("{metric} {unit}")),
            heading: None,
            caption: None,
            charts: vec![Chart {
                title: format!("{metric} over runs"),
                kind: Kind::Points,
                x: Axis::names("run", runs.iter().map(|point| place_shown(point)).collect()),
                y: Axis::new(metric, unit, AxisKind::Fitting),
                series: own.iter().enumerate().map(line).collect(),
                marks,
            }],
            is_static: true,
        }
    };
    metrics.into_iter().map(figure).filter(|figure| !figure.is_empty()).collect()
}

/// Returns the changes of a series, and the newest differences of its environment.
fn marks(series: &History, places: &BTreeMap<&str, usize>) -> Vec<Mark> {
    let at = |point: &Past| places.get(&*point.run_id).map(|place| *place as f64);
    let changes = series.changes().iter().filter_map(|change| {
        let point = series.points.get(series.place(change.index))?;
        let name =
            format!("{} {:+.1} %", series.verdict(change.ratio), 100.0 * (change.ratio - 1.0));
        // Between the last run before and the first run after.
        Some(Mark { x: at(point)? - 0.5, name, strong: true })
    });
    let with = series.points.iter().rev().filter(|point| !point.marks.is_empty());
    let environment = with.take(MOST_MARKS).filter_map(|point| {
        let names: Vec<&str> = point.marks.iter().map(|mark| &*mark.name).collect();
        Some(Mark { x: at(point)? - 0.5, name: names.join(", "), strong: false })
    });
    changes.chain(environment).collect()
}

/// Returns the differences of the environment, newest first.
fn environment(series: &History, place: Place<'_>) -> Option<Markup> {
    let rows: Vec<Row> = series
        .points
        .iter()
        .rev()
        .flat_map(|point| point.marks.iter().map(move |mark| (point, mark)))
        .map(|(point, mark)| Row {
            name: place.linked(&format!("run/{}", point.run_id), &place_shown(point)),
            cells: vec![Cell::text(&mark.name), Cell::text(&mark.before), Cell::text(&mark.after)],
            ..Row::default()
        })
        .collect();
    (!rows.is_empty()).then(|| {
        let table = Table {
            id: "environments".into(),
            label: "Table of differences of the environment".into(),
            rows_are: "since".into(),
            columns: ["fact", "before", "after"].map(Column::text).into(),
            rows,
        };
        table.draw()
    })
}
