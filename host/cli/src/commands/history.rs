//! `host history`: the results of cases over commits and time, and when they changed.

use std::fmt::Write as _;

use host_experiment::{
    History, HistoryOptions, MOST_POINTS, Mark, Point, Series, Settings, expected_by_chance, units,
};
use host_record::{Cell, Table};
use host_statistics::{Drift, LevelChange, Undefined};
use host_store::ResultsFolder;
use serde_json::{Value, json};

use crate::arguments::HistoryArguments;
use crate::axes::Common;
use crate::exit::Exit;
use crate::failure::Result;
use crate::pages;
use crate::printer::Printer;
use crate::series::{
    change_shown, date, newest, none, place_shown, ratio_shown, reason_shown, shown, since,
    verdict_shown,
};
use crate::table::{self, Column};
use crate::visible;

/// Most series and marks that are shown without `--verbose`, so that a screen holds them.
const MOST_LINES: usize = 24;
const MOST_MARKS: usize = 8;

/// Columns of the line of a series in a table, and at most of the line of a single series.
const SMALL: usize = 20;
const LARGE: usize = 72;

pub(crate) fn history(
    arguments: &HistoryArguments,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let results = ResultsFolder::new(settings.results(None));
    let options = HistoryOptions {
        subject: arguments.subject.clone(),
        metrics: arguments.metric.clone(),
        backends: arguments.backend.clone(),
        pool: arguments.pool,
    };
    let History { series, not_indexed } = host_experiment::history(&results, &options)?;
    if let Some(path) = &arguments.html {
        let page = pages::history(&series, arguments.subject.as_deref(), pages::Place::File);
        pages::write(path, &page, arguments.force)?;
        printer.status("Wrote", path.display());
    }
    let document = || json!({ "series": series.iter().map(document_of).collect::<Vec<_>>() });
    if !printer.machine(document, || rows(&series)) {
        match &series[..] {
            [] => {
                let place = results.database_path();
                printer.status("Empty", format_args!("no result in {}", place.display()));
            }
            [one] => show_one(one, printer),
            several => show_several(several, printer),
        }
    }
    if not_indexed > 0 {
        let runs = units::count(not_indexed as u64, "run is", "runs are");
        printer.warning(
            format_args!("{runs} not in the database, and so not in the history"),
            Some("`host results sync` brings them in"),
        );
    }
    Ok(Exit::Success)
}

/// Text about a series.
type Of = fn(&Series) -> String;

fn show_several(series: &[Series], printer: &Printer) {
    let all = printer.is_verbose();
    let shown = if all { series } else { &series[..series.len().min(MOST_LINES)] };
    let common = Common::of(series.iter().map(|one| &one.key));
    let mut heading = common.heading();
    let mut columns = vec![Column::new("case", cells(shown, |one| common.rest(&one.key)))];
    let shared: [(&str, Of); 3] = [
        ("metric", |one| one.metric.clone()),
        ("experiment", |one| one.experiment.clone()),
        ("machine", |one| one.machine.clone()),
    ];
    for (place, (name, of)) in shared.into_iter().enumerate() {
        let first = series.first().map(of);
        if series.iter().all(|one| Some(of(one)) == first) {
            heading.extend(first.filter(|text| !text.is_empty()));
        } else {
            let gives_way = 5 + place as u8;
            columns.push(Column { gives_way, ..Column::new(name, cells(shown, of)) });
        }
    }
    let right = |heading, gives_way, cells| Column {
        right: true,
        gives_way,
        ..Column::new(heading, cells)
    };
    columns.extend([
        Column::new("oldest to newest", cells(shown, |one| line(one, SMALL).drawn)),
        right("runs", 4, cells(shown, |one| one.points.len().to_string())),
        right("newest", 3, cells(shown, |one| newest(one).unwrap_or_else(none))),
        right("change", 0, cells(shown, change_shown)),
        Column::new("verdict", cells(shown, verdict_shown)),
        Column { gives_way: 1, ..Column::new("since", cells(shown, since)) },
    ]);
    let heading = printer.palette().heading(visible::line(&heading.join(" · ")));
    let (drawn, note) = table::fit(columns, printer.table_width());
    printer.show(format_args!("{heading}\n\n{}", printer.headed(&drawn)));
    if let Some(note) = note {
        printer.status("Left out", note);
    }
    if shown.len() < series.len() {
        let left = units::count((series.len() - shown.len()) as u64, "series", "series");
        printer
            .status("Left out", format_args!("{left} with smaller changes or none; -v shows all"));
    }
    let chance = expected_by_chance(series);
    if chance >= 0.1 {
        printer.status(
            "By chance",
            format_args!(
                "about {chance:.1} of these series would show a change if nothing had changed"
            ),
        );
    }
}

fn cells(series: &[Series], of: impl Fn(&Series) -> String) -> Vec<String> {
    series.iter().map(of).collect()
}

/// A series as a line of bars.
struct Line {
    drawn: String,
    /// Positions in the series that each bar stands for.
    columns: Vec<std::ops::Range<usize>>,
    /// Least and greatest value of the scale.
    scale: Option<(f64, f64)>,
}

/// Draws a series in at most `width` bars. A value far from its neighbours does not set the scale, and a run without a
/// value is a cross.
fn line(series: &Series, width: usize) -> Line {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let count = series.points.len();
    let width = width.min(count);
    let columns: Vec<_> =
        (0..width).map(|column| column * count / width..(column + 1) * count / width).collect();
    let outliers: Vec<usize> = match &series.found {
        Ok(found) => found.outliers.iter().map(|index| series.place(*index)).collect(),
        Err(_) => Vec::new(),
    };
    let points = series.points.iter().enumerate();
    let usual = points
        .filter(|(place, _)| !outliers.contains(place))
        .filter_map(|(_, point)| point.value.as_ref().ok());
    let scale = usual.fold(None, |scale: Option<(f64, f64)>, value| {
        let (low, high) = scale.unwrap_or((*value, *value));
        Some((low.min(*value), high.max(*value)))
    });
    let bar = |column: &std::ops::Range<usize>| {
        let mut values: Vec<f64> = series.points[column.clone()]
            .iter()
            .filter_map(|point| point.value.as_ref().ok().copied())
            .collect();
        values.sort_unstable_by(f64::total_cmp);
        match (values.get(values.len() / 2), scale) {
            (Some(value), Some((low, high))) if high > low => {
                let part = ((value - low) / (high - low)).clamp(0.0, 1.0);
                BARS[(part * 7.0).round() as usize]
            }
            (Some(_), _) => BARS[3],
            (None, _) => '×',
        }
    };
    let drawn = columns.iter().map(bar).collect();
    Line { drawn, columns, scale }
}

fn show_one(series: &Series, printer: &Printer) {
    let common = Common::of(std::iter::once(&series.key));
    let mut heading = common.heading();
    heading.push(common.rest(&series.key));
    heading.extend([series.metric.clone(), series.experiment.clone(), series.machine.clone()]);
    heading.retain(|part| !part.is_empty());
    let heading = printer.palette().heading(visible::line(&heading.join(" · ")));
    let Line { drawn, columns, scale } = line(series, LARGE);
    let mut text = format!("{heading}\n\n{drawn}");
    if let Some((low, high)) = scale {
        let _ = write!(text, "  {} to {}", shown(series, low), shown(series, high));
    }
    let marked = |mark: char, places: &[usize]| {
        let has =
            |column: &std::ops::Range<usize>| places.iter().any(|place| column.contains(place));
        let drawn: String =
            columns.iter().map(|column| if has(column) { mark } else { ' ' }).collect();
        drawn.trim_end().to_owned()
    };
    let changed: Vec<usize> =
        series.changes().iter().map(|change| series.place(change.index)).collect();
    let points = series.points.iter().enumerate();
    let others: Vec<usize> =
        points.filter(|(_, point)| !point.marks.is_empty()).map(|(place, _)| place).collect();
    let width = columns.len();
    for (mark, places, meaning) in [('▲', &changed, "change"), ('┆', &others, "environment")] {
        if !places.is_empty() {
            let _ = write!(text, "\n{:<width$}  {mark} {meaning}", marked(mark, places));
        }
    }
    if let (Some(first), Some(last)) = (series.points.first(), series.points.last()) {
        let between = width.saturating_sub(10);
        let dates = if between >= 11 {
            format!("{:<between$}{}", date(first), date(last))
        } else {
            format!("{} to {}", date(first), date(last))
        };
        let runs = units::count(series.points.len() as u64, "run", "runs");
        let _ = write!(text, "\n{dates}  {runs}");
    }
    printer.show(format_args!("{text}\n"));
    show_changes(series, printer);
    show_marks(series, &others, printer);
    let without = series.points.iter().filter_map(|point| point.value.as_ref().err());
    if let Some(reason) = without.clone().next_back() {
        let runs = units::count(without.count() as u64, "run has", "runs have");
        printer.status("Without", format_args!("{runs} no value; the newest of them: {reason}"));
    }
    let values = series.points.iter().filter(|point| point.value.is_ok()).count();
    if values > MOST_POINTS {
        printer
            .status("Examined", format_args!("only the newest {MOST_POINTS} of {values} values"));
    }
}

fn show_changes(series: &Series, printer: &Printer) {
    let changes = series.changes();
    if !changes.is_empty() {
        let written = |write: &dyn Fn(&LevelChange) -> String| changes.iter().map(write).collect();
        let point = |change: &LevelChange| series.points.get(series.place(change.index));
        let columns = vec![
            Column::new(
                "since",
                written(&|change| point(change).map_or_else(String::new, place_shown)),
            ),
            Column {
                right: true,
                ..Column::new(
                    "change",
                    written(&|change| ratio_shown(change.ratio, change.low, change.high)),
                )
            },
            Column::new("verdict", written(&|change| series.verdict(change.ratio).to_owned())),
            Column {
                right: true,
                ..Column::new("p", written(&|change| format!("{:.4}", change.probability)))
            },
            Column {
                gives_way: 1,
                ..Column::new(
                    "with it",
                    written(&|change| {
                        let suspects = series.suspects(change.index);
                        let marks = suspects.iter().flat_map(|point| &point.marks);
                        marks.map(|mark| mark.name.clone()).collect::<Vec<_>>().join(", ")
                    }),
                )
            },
        ];
        let (drawn, note) = table::fit(columns, printer.table_width());
        printer.show(printer.headed(&drawn));
        if let Some(note) = note {
            printer.status("Left out", note);
        }
    }
    match &series.found {
        Err(reason) => {
            printer.show(format_args!("cannot tell whether it changed: {}", reason_shown(*reason)));
            if matches!(reason, Undefined::TooFew(_)) {
                printer.status("To tell", "`host compare` compares two runs of several processes");
            }
        }
        Ok(found) => {
            if let Some(Drift { from, ratio, low, high, probability }) = found.drift {
                let start =
                    series.points.get(series.place(from)).map_or_else(String::new, place_shown);
                printer.show(format_args!(
                    "slowly {}: {} since {start} (p = {probability:.4})",
                    series.verdict(ratio),
                    ratio_shown(ratio, low, high),
                ));
            } else if changes.is_empty() {
                printer.show(format_args!(
                    "no change found; a value differs by {:.1} % from run to run",
                    100.0 * found.noise
                ));
            }
        }
    }
}

fn show_marks(series: &Series, places: &[usize], printer: &Printer) {
    let marks = places.iter().filter_map(|place| series.points.get(*place));
    let mut marks: Vec<(&Point, &Mark)> =
        marks.flat_map(|point| point.marks.iter().map(move |mark| (point, mark))).collect();
    if marks.is_empty() {
        return;
    }
    let left = if printer.is_verbose() { 0 } else { marks.len().saturating_sub(MOST_MARKS) };
    marks.drain(..left);
    let written = |write: &dyn Fn(&Point, &Mark) -> String| {
        marks.iter().map(|(point, mark)| write(point, mark)).collect()
    };
    let columns = vec![
        Column::new("since", written(&|point, _| place_shown(point))),
        Column::new("environment", written(&|_, mark| mark.name.clone())),
        Column::new("before", written(&|_, mark| mark.before.clone())),
        Column::new("after", written(&|_, mark| mark.after.clone())),
    ];
    let (drawn, _) = table::fit(columns, printer.width());
    printer.show(format_args!("\n{}", printer.headed(&drawn)));
    if left > 0 {
        let changes = units::count(left as u64, "earlier difference", "earlier differences");
        printer.status("Left out", format_args!("{changes} of the environment; -v shows all"));
    }
}

fn document_of(series: &Series) -> Value {
    let point = |point: &Point| {
        let marks = point
            .marks
            .iter()
            .map(|mark| json!({ "name": mark.name, "before": mark.before, "after": mark.after }));
        json!({
            "run": point.run_id,
            "started-at": point.started_at,
            "commit": point.commit,
            "case": point.case_id,
            "value": point.value.as_ref().ok(),
            "reason": point.value.as_ref().err(),
            "interval": point.interval,
            "processes": point.processes,
            "environment": marks.collect::<Vec<_>>(),
        })
    };
    let change = |change: &LevelChange| {
        let place = series.place(change.index);
        let of = |place: Option<usize>| place.and_then(|place| series.points.get(place));
        let before = change.index.checked_sub(1).map(|index| series.place(index));
        json!({
            "point": place,
            "run": of(Some(place)).map(|point| &point.run_id),
            "commit": of(Some(place)).map(|point| &point.commit),
            "commit-before": of(before).map(|point| &point.commit),
            "ratio": change.ratio,
            "ratio-interval": (change.low, change.high),
            "probability": change.probability,
            "verdict": series.verdict(change.ratio),
        })
    };
    let found = series.found.as_ref();
    let drift = found.ok().and_then(|found| found.drift).map(|drift| {
        json!({
            "from-point": series.place(drift.from),
            "ratio": drift.ratio,
            "ratio-interval": (drift.low, drift.high),
            "probability": drift.probability,
            "verdict": format!("slowly {}", series.verdict(drift.ratio)),
        })
    });
    json!({
        "name": series.key.to_string(),
        "key": series.key,
        "experiment": series.experiment,
        "machine": series.machine,
        "metric": series.metric,
        "unit": series.unit,
        "direction": series.direction.name(),
        "points": series.points.iter().map(point).collect::<Vec<_>>(),
        "changes": series.changes().iter().map(change).collect::<Vec<_>>(),
        "drift": drift,
        "noise": found.ok().map(|found| found.noise),
        "correlation": found.ok().map(|found| found.correlation),
        "reason": found.err().map(|reason| reason_shown(*reason)),
    })
}

/// Returns a row for each run of each series.
fn rows(series: &[Series]) -> Table {
    let columns = [
        "name",
        "experiment",
        "machine",
        "metric",
        "unit",
        "run",
        "started_at",
        "commit",
        "case",
        "value",
        "interval_low",
        "interval_high",
        "processes",
        "reason",
        "ratio",
        "ratio_low",
        "ratio_high",
        "probability",
        "verdict",
        "environment",
    ];
    let text = |text: &str| Cell::Text(text.to_owned());
    let real = |value: Option<f64>| value.map_or(Cell::Null, Cell::Real);
    let row = |series: &Series, place: usize, point: &Point| {
        let change = series.changes().iter().find(|change| series.place(change.index) == place);
        let marks = point
            .marks
            .iter()
            .map(|Mark { name, before, after }| format!("{name}: {before} to {after}"))
            .collect::<Vec<_>>();
        let marks = if marks.is_empty() { Cell::Null } else { Cell::Text(marks.join("; ")) };
        vec![
            Cell::Text(series.key.to_string()),
            text(&series.experiment),
            text(&series.machine),
            text(&series.metric),
            text(&series.unit),
            text(&point.run_id),
            text(&point.started_at),
            point.commit.as_deref().map_or(Cell::Null, text),
            text(&point.case_id),
            real(point.value.as_ref().ok().copied()),
            real(point.interval.map(|(low, _)| low)),
            real(point.interval.map(|(_, high)| high)),
            point.processes.map_or(Cell::Null, Cell::Integer),
            point.value.as_ref().err().map_or(Cell::Null, |reason| text(reason)),
            real(change.map(|change| change.ratio)),
            real(change.map(|change| change.low)),
            real(change.map(|change| change.high)),
            real(change.map(|change| change.probability)),
            change.map_or(Cell::Null, |change| text(series.verdict(change.ratio))),
            marks,
        ]
    };
    let rows = series.iter().flat_map(|series| {
        series.points.iter().enumerate().map(|(place, point)| row(series, place, point))
    });
    Table { columns: columns.map(str::to_owned).into(), rows: rows.collect() }
}

#[cfg(test)]
mod tests {
    use host_experiment::{LATENCY, Point};
    use host_record::{CaseKey, Direction};
    use host_statistics::levels;

    use super::*;

    fn series(values: &[Option<f64>]) -> Series {
        let points = values.iter().enumerate().map(|(index, value)| Point {
            run_id: format!("run-{index}"),
            started_at: format!("2026-03-{:02}T10:00:00Z", index % 28 + 1),
            commit: Some(format!("{index:010x}-dirty")),
            case_id: "0123456789abcdef".into(),
            value: value.ok_or_else(|| "the case failed: crash".to_owned()),
            interval: None,
            processes: Some(5),
            marks: Vec::new(),
        });
        let examined: Vec<usize> =
            (0..values.len()).filter(|index| values[*index].is_some()).collect();
        let valued: Vec<f64> = values.iter().filter_map(|value| *value).collect();
        Series {
            key: CaseKey::new("digits", "cpu", "cpu:0"),
            experiment: "nightly".into(),
            machine: "laptop".into(),
            metric: LATENCY.into(),
            unit: "ns".into(),
            direction: Direction::Lower,
            points: points.collect(),
            found: levels(&valued, 0.95),
            examined,
        }
    }

    #[test]
    fn a_line_shows_the_step_and_the_run_without_a_value() {
        let mut values: Vec<Option<f64>> = [Some(1e6), Some(1.01e6)].repeat(6);
        values.extend([Some(1.2e6), Some(1.21e6)].repeat(6));
        values[3] = None;
        let series = series(&values);
        assert_eq!(line(&series, 72).drawn, "▁▁▁×▁▁▁▁▁▁▁▁████████████");
        assert_eq!(line(&series, 4).drawn.chars().count(), 4);
        assert_eq!(verdict_shown(&series), "slower");
        // The step is the twelfth run, and the eleventh value.
        assert_eq!(series.changes().len(), 1, "{:?}", series.found);
        assert_eq!(since(&series), "2026-03-13 00000000-dirty");
        let table = rows(std::slice::from_ref(&series));
        assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
        let place = |name| table.columns.iter().position(|column| column == name).expect("it");
        let with_change: Vec<usize> =
            (0..24).filter(|row| table.rows[*row][place("ratio")] != Cell::Null).collect();
        assert_eq!(with_change, [12]);
        assert_eq!(table.rows[3][place("reason")], Cell::Text("the case failed: crash".into()));
        assert_eq!(document_of(&series)["changes"][0]["point"], 12);
    }

    #[test]
    fn too_few_values_are_said_so() {
        let series = series(&[Some(1e6)]);
        assert_eq!(verdict_shown(&series), "cannot tell: 1 value, and a change needs 12");
        assert_eq!((line(&series, 20).drawn.as_str(), &*change_shown(&series)), ("▄", "—"));
    }
}
