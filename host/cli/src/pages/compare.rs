//! A comparison of two runs as a page.

use host_experiment::{Change, Compared, Comparison, Difference, FALSE_DISCOVERIES, MetricChange};
use host_page::{
    Axis, AxisKind, Cell, Chart, Column, Figure, Kind, Point, Row, Section, Series, Table,
};
use maud::{Markup, html};

use super::{Contents, Place, coordinates};
use crate::axes::Common;
use crate::changes::{change_shown, figure_shown, most, percent, remedy, verdict_shown};

/// Cases that have a bar in the chart of changes; the table has all.
const MOST_BARS: usize = 200;

/// Kinds of verdicts, in the order of the chart's series.
const KINDS: [&str; 4] = ["slower or worse", "faster or better", "same", "cannot tell"];

/// Returns the page.
pub(crate) fn page(comparison: &Comparison, margin: f64, place: Place<'_>) -> String {
    let Comparison { first, second, conditions, cases, .. } = comparison;
    let keys: Vec<_> = cases.iter().map(|case| case.key.clone()).collect();
    let common = Common::of(keys.iter());
    let name = |run: &host_experiment::RunName| place.linked(&format!("run/{}", run.run), &run.run);
    let figures = figures(cases, &common);
    let mut sections = Vec::new();
    if !conditions.is_empty() {
        sections.push(Section::new("conditions", "What else differs", differences(conditions)));
    }
    sections.push(Section::new("changes", "Changes", changes(cases, &common, margin)));
    if !figures.is_empty() {
        let drawn = html! {
            p { "The ratio of the second run to the first, with its 95 % interval, as a change in per cent: those that moved most come first." }
            @for figure in &figures { (figure.draw()) }
        };
        sections.push(Section::new("chart", "Charts", drawn));
    }
    if let Some(others) = others(cases, &common, margin) {
        sections.push(Section::new("others", "Other metrics that changed", others));
    }
    let contents = Contents {
        title: "Comparison",
        header: html! {
            header {
                p.eyebrow { "Comparison" }
                h1 { "What changed between two runs" }
                dl {
                    dt { "First" } dd.mono { (name(first)) @if let Some(commit) = &first.commit { " at " (commit) } }
                    dt { "Second" } dd.mono { (name(second)) @if let Some(commit) = &second.commit { " at " (commit) } }
                    @if !common.heading().is_empty() { dt { "All cases" } dd { (common.heading().join(" · ")) } }
                }
                (glance(comparison, margin))
            }
        },
        sections,
        table: "compared",
        ids: cases.iter().map(|case| case.id.clone()).collect(),
        keys,
        figures,
    };
    contents.draw(place)
}

fn kind(of: &MetricChange) -> usize {
    match of.verdict() {
        "slower" | "worse" | "larger" => 0,
        "faster" | "better" | "smaller" => 1,
        "same" => 2,
        _ => 3,
    }
}

fn glance(comparison: &Comparison, margin: f64) -> Markup {
    let Comparison { cases, alone, speed_up, .. } = comparison;
    let counts =
        [0, 1, 2, 3].map(|wanted| cases.iter().filter(|case| kind(&case.main) == wanted).count());
    let needed = cases.iter().filter_map(|case| case.main.needed(margin)).reduce(most);
    let redefined = cases.iter().filter(|case| case.is_redefined).count();
    let disturbed = cases.iter().filter(|case| case.disturbed.contains(&true)).count();
    html! {
        div.glance {
            div.choose {
                h2 { "What changed" }
                ul { @for (count, name) in counts.iter().zip(KINDS) { li { b { (count) } " " (name) } } }
            }
            div.asked {
                h2 { "All in all" }
                @match speed_up {
                    Some((ratio, count)) => p {
                        "The second run is " b { (format!("{:.3}", ratio.value)) } " times as fast ("
                        (format!("{:.3} to {:.3}", ratio.low, ratio.high)) "), by the geometric mean over " (count) " cases."
                    },
                    None => p { "No case can be compared, so there is no mean." },
                }
                p.quiet { "At most " (percent(FALSE_DISCOVERIES)) " of all findings are expected to be false. Figures that surely stay within " (percent(margin)) " count as the same." }
            }
            div.distrust {
                h2 { "What to distrust" }
                ul {
                    @if let Some(needed) = needed { li { "To tell the rest, " (remedy(needed)) "." } }
                    @if redefined > 0 { li { (redefined) " cases are defined in another way in the second run." } }
                    @if disturbed > 0 { li { (disturbed) " cases have warnings about their figures." } }
                    @if *alone > 0 { li { (alone) " cases are measured in one of the runs only." } }
                }
            }
        }
    }
}

fn differences(conditions: &[Difference]) -> Markup {
    let cell = |value: &Option<String>| match value {
        Some(value) => Cell::text(value),
        None => Cell::missing("—", None),
    };
    let rows = conditions.iter().map(|one| Row {
        name: html! { (one.name) },
        cells: vec![cell(&one.first), cell(&one.second)],
        ..Row::default()
    });
    let table = Table {
        id: "differences".into(),
        label: "Table of conditions that differ".into(),
        rows_are: "condition".into(),
        columns: vec![Column::text("first"), Column::text("second")],
        rows: rows.collect(),
    };
    html! { p { "These come first, because they may explain all the rest." } (table.draw()) }
}

fn verdict(of: &MetricChange, margin: f64) -> Cell {
    let class = ["slower", "faster", "", "missing"][kind(of)];
    Cell { class: Some(class), ..Cell::text(verdict_shown(of, margin)) }
}

fn figure(figure: &Option<host_experiment::Figure>) -> Cell {
    Cell {
        value: figure.as_ref().map(|figure| figure.value),
        ..Cell::text(figure_shown(figure.as_ref()))
    }
}

fn change(of: &MetricChange) -> Cell {
    Cell { value: of.part(), ..Cell::text(change_shown(of)) }
}

fn changes(cases: &[Compared], common: &Common, margin: f64) -> Markup {
    if cases.is_empty() {
        return html! {
            p { "The runs have no case in common that both have measured. Cases are matched by their definition, or else by their coordinates." }
        };
    }
    let keys: Vec<_> = cases.iter().map(|case| case.key.clone()).collect();
    let (names, name) = coordinates(&keys);
    let figures = [
        Column::number("change"),
        Column::text("verdict"),
        Column::number("first"),
        Column::number("second"),
        Column {
            is_lesser: true,
            title: "The change that would have been found in 80 % of such comparisons".into(),
            ..Column::number("could be seen")
        },
        Column { is_lesser: true, ..Column::number("false discovery") },
    ];
    let none = || Cell::missing("—", None);
    let rows = cases.iter().enumerate().map(|(place, case)| {
        let main = &case.main;
        let mut cells = name(&case.key);
        cells.extend([
            change(main),
            verdict(main, margin),
            figure(&main.before),
            figure(&main.after),
        ]);
        cells.push(main.detectable().map_or_else(none, |ratio| {
            Cell::number(format!("{:+.1} %", 100.0 * (ratio - 1.0)), ratio)
        }));
        cells.push(
            main.false_discovery_rate
                .map_or_else(none, |rate| Cell::number(format!("{:.1} %", 100.0 * rate), rate)),
        );
        Row { name: html! { (common.rest(&case.key)) }, case: Some(place), cells, ..Row::default() }
    });
    let table = Table {
        id: "compared".into(),
        label: "Table of changes".into(),
        rows_are: "case".into(),
        columns: names.into_iter().chain(figures).collect(),
        rows: rows.collect(),
    };
    table.draw()
}

fn others(cases: &[Compared], common: &Common, margin: f64) -> Option<Markup> {
    let all = || cases.iter().flat_map(|case| case.others.iter().map(move |one| (case, one)));
    let is_change = |one: &MetricChange| matches!(one.change, Change::Larger | Change::Smaller);
    let rows: Vec<Row> = all()
        .filter(|(_, one)| is_change(one))
        .map(|(case, one)| Row {
            name: html! { (common.rest(&case.key)) },
            cells: vec![
                Cell::text(&one.metric),
                change(one),
                verdict(one, margin),
                figure(&one.before),
                figure(&one.after),
            ],
            ..Row::default()
        })
        .collect();
    (!rows.is_empty()).then(|| {
        let table = Table {
            id: "other-metrics".into(),
            label: "Table of other metrics that changed".into(),
            rows_are: "case".into(),
            columns: vec![
                Column::text("metric"),
                Column::number("change"),
                Column::text("verdict"),
                Column::number("first"),
                Column::number("second"),
            ],
            rows,
        };
        table.draw()
    })
}

fn figures(cases: &[Compared], common: &Common) -> Vec<Figure> {
    let percent = |ratio: f64| 100.0 * (ratio - 1.0);
    let told: Vec<_> = cases
        .iter()
        .enumerate()
        .filter_map(|(place, case)| Some((place, case, case.main.ratio?)))
        .take(MOST_BARS)
        .collect();
    let series = KINDS.iter().enumerate().map(|(group, name)| {
        let own = told.iter().enumerate().filter(|(_, (_, case, _))| kind(&case.main) == group);
        let points = own.map(|(row, (place, case, ratio))| Point {
            name: Some(common.rest(&case.key)),
            ..Point::of_case(
                row as f64,
                percent(ratio.value),
                Some((percent(ratio.low), percent(ratio.high))),
                *place,
            )
        });
        Series::points(*name, COLOURS[group], points.collect())
    });
    let mut changes: Vec<Series> = series.collect();
    changes.retain(|series| !series.points.is_empty());
    if let (Some(last), false) = (told.len().checked_sub(1), changes.is_empty()) {
        let line = vec![Point::new(0.0, 0.0), Point::new(last as f64, 0.0)];
        changes.push(Series::reference("no change", line));
    }
    let names = told.iter().map(|(_, case, _)| common.rest(&case.key)).collect();
    let ratios = Chart {
        title: "Change of the main figure".into(),
        kind: Kind::Points,
        x: Axis::names("case", names),
        y: Axis::new("change from the first run to the second", "%", AxisKind::Around),
        series: changes,
        marks: Vec::new(),
    };
    let scatter = scatter(cases, common);
    let figure = Figure {
        id: "changes-figure".into(),
        heading: None,
        caption: None,
        charts: vec![ratios].into_iter().chain(scatter).collect(),
        is_static: true,
    };
    if figure.is_empty() { Vec::new() } else { vec![figure] }
}

/// Colours of the kinds of verdicts: orange, green, blue, grey.
const COLOURS: [usize; 4] = [1, 2, 0, 7];

/// Returns a chart for each unit of main figures: the second run over the first.
fn scatter(cases: &[Compared], common: &Common) -> Vec<Chart> {
    let mut units: Vec<(&str, &str)> = Vec::new();
    for case in cases {
        let of = (&*case.main.unit, &*case.main.metric);
        if !units.contains(&of) {
            units.push(of);
        }
    }
    let chart = |(unit, metric): (&str, &str)| {
        let points = |group: usize| -> Vec<Point> {
            let own = cases.iter().enumerate().filter(|(_, case)| {
                case.main.metric == metric && case.main.unit == unit && kind(&case.main) == group
            });
            let points = own.filter_map(|(place, case)| {
                let (before, after) = (case.main.before.as_ref()?, case.main.after.as_ref()?);
                Some(Point {
                    name: Some(common.rest(&case.key)),
                    ..Point::of_case(before.value, after.value, None, place)
                })
            });
            points.collect()
        };
        let mut series: Vec<Series> = KINDS
            .iter()
            .enumerate()
            .map(|(group, name)| Series::points(*name, COLOURS[group], points(group)))
            .collect();
        series.retain(|series| !series.points.is_empty());
        let all =
            || series.iter().flat_map(|series| &series.points).flat_map(|point| [point.x, point.y]);
        let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
        if low > 0.0 && high > low {
            series.push(Series::reference(
                "no change",
                vec![Point::new(low, low), Point::new(high, high)],
            ));
        }
        Chart {
            title: format!("{metric}: second run over first"),
            kind: Kind::Points,
            x: Axis::new("first run", unit, AxisKind::Logarithmic),
            y: Axis::new("second run", unit, AxisKind::Logarithmic),
            series,
            marks: Vec::new(),
        }
    };
    units.into_iter().map(chart).collect()
}
