//! Bars as SVG: a row for each category, with bars below or behind each other.

use maud::{Markup, html};

use super::axis::Axis;
use super::mark;
use super::place::{Plot, px, short, svg};
use super::spec::{AxisKind, Chart, Kind, Point, Series};
use crate::{humanise, humanise_interval, significant};

const WIDTH: f64 = 760.0;
const LEFT: f64 = 200.0;
const RIGHT: f64 = 670.0;
const TOP: f64 = 28.0;
const BAR: f64 = 14.0;
const GAP: f64 = 12.0;

/// Limit on rows without scripts.
const MOST_ROWS: usize = 24;

pub(super) fn bars(chart: &Chart) -> Markup {
    let AxisKind::Names(names) = &chart.x.kind else { return html! {} };
    let rows = &names[..names.len().min(MOST_ROWS)];
    let shown: Vec<&Series> = chart.series.iter().filter(|series| series.is_drawn()).collect();
    let stacked = chart.kind == Kind::Stacks;
    let of = |series: &'_ Series, row: usize| -> Option<Point> {
        series.points.iter().find(|point| point.x == row as f64 && chart.can_draw(point)).cloned()
    };
    // Only rows' own bars take room.
    let in_row = |row: usize| -> Vec<(&Series, Point)> {
        shown.iter().filter_map(|series| Some((*series, of(series, row)?))).collect()
    };
    let contents: Vec<Vec<(&Series, Point)>> = (0..rows.len()).map(in_row).collect();
    let height = |bars: &[(&Series, Point)]| match stacked {
        true => BAR + 8.0,
        false => BAR * bars.len().max(1) as f64,
    };
    let total = |bars: &[(&Series, Point)]| bars.iter().map(|(_, point)| point.y).sum::<f64>();
    let mut tops = Vec::new();
    let mut bottom = TOP;
    for bars in &contents {
        tops.push(bottom + GAP / 2.0);
        bottom += height(bars) + GAP;
    }
    let reach = contents.iter().flat_map(|bars| match stacked {
        true => vec![total(bars)],
        false => {
            bars.iter().map(|(_, point)| chart.interval(point).map_or(point.y, |it| it.1)).collect()
        }
    });
    let plot = Plot { left: LEFT, right: RIGHT, top: TOP, bottom };
    let x = Axis::from_zero(reach, LEFT, RIGHT);
    let scale = chart.scale(&chart.y, |point| point.y);
    let unit = &chart.y.unit;
    let content = html! {
        (x.columns(plot, &scale, &Chart::title(&chart.y, &AxisKind::FromZero, &scale)))
        @for (row, bars) in contents.iter().enumerate() {
            text x=(px(LEFT - 10.0)) y=(px(tops[row] + height(bars) / 2.0)) dy="0.32em" text-anchor="end" {
                (short(&rows[row], 28)) title { (rows[row]) }
            }
            @if stacked {
                @for (from, series, point) in placed(bars) {
                    @let (left, right) = (x.at(from), x.at(from + point.y));
                    rect class=(class(series)) x=(px(left)) y=(px(tops[row])) width=(px((right - left).max(0.5))) height=(px(height(bars))) {
                        title { (part(series, point, total(bars), unit)) }
                    }
                    @if bars.len() > 1 && right - left > 7.0 * series.name.chars().count() as f64 + 8.0 {
                        text.inside x=(px((left + right) / 2.0)) y=(px(tops[row] + height(bars) / 2.0)) dy="0.32em" text-anchor="middle" { (series.name) }
                    }
                }
                text.tick x=(px(x.at(total(bars)) + 6.0)) y=(px(tops[row] + height(bars) / 2.0)) dy="0.32em" { (humanise(total(bars), unit)) }
            } @else {
                @for (index, (series, point)) in bars.iter().enumerate() {
                    @let top = tops[row] + BAR * index as f64;
                    rect class=(class(series)) x=(px(LEFT)) y=(px(top + 1.0)) width=(px((x.at(point.y) - LEFT).max(0.5))) height=(px(BAR - 2.0)) {
                        title { (tooltip(chart, series, point)) }
                    }
                    @let end = chart.interval(point).map_or(point.y, |(_, high)| high);
                    @if let Some((low, high)) = chart.interval(point) {
                        line.whisker x1=(px(x.at(low))) x2=(px(x.at(high))) y1=(px(top + BAR / 2.0)) y2=(px(top + BAR / 2.0)) {}
                    }
                    text.tick x=(px(x.at(end) + 6.0)) y=(px(top + BAR / 2.0)) dy="0.32em" { (humanise(point.y, unit)) }
                }
            }
        }
    };
    let names_of: Vec<(usize, &str)> =
        shown.iter().filter_map(|series| Some((series.group?, &*series.name))).collect();
    let described: Vec<String> = contents
        .iter()
        .zip(rows)
        .map(|(bars, row)| {
            let parts: Vec<String> = bars
                .iter()
                .map(|(series, point)| match stacked {
                    true => part(series, point, total(bars), unit),
                    false => format!("{} {}", series.name, humanise(point.y, unit)),
                })
                .collect();
            format!("{row}: {}", parts.join(", "))
        })
        .collect();
    html! {
        p.chart-title { (chart.title) }
        @if names_of.len() > 1 { (mark::legend(&names_of)) }
        (svg((WIDTH, bottom + 44.0), &chart.title, &described.join(". "), &content))
        @if rows.len() < names.len() {
            p.quiet { "The first " (rows.len()) " of " (names.len()) " rows; the table has all." }
        }
    }
}

/// Returns each part with the place at which it begins.
fn placed<'a>(
    bars: &'a [(&'a Series, Point)],
) -> impl Iterator<Item = (f64, &'a Series, &'a Point)> {
    bars.iter().scan(0.0, |from, (series, point)| {
        let begun = *from;
        *from += point.y;
        Some((begun, *series, point))
    })
}

fn class(series: &Series) -> String {
    match series.lesser {
        true => "part rest".to_owned(),
        false => format!("part {}", series.class()),
    }
}

/// Returns name, value and share of a part.
fn part(series: &Series, point: &Point, total: f64, unit: &str) -> String {
    let share = point.y / total * 100.0;
    format!("{} {} ({} %)", series.name, humanise(point.y, unit), significant(share, 3))
}

fn tooltip(chart: &Chart, series: &Series, point: &Point) -> String {
    let name = point.name.as_ref().unwrap_or(&series.name);
    let mut text = format!("{name}: {}", humanise(point.y, &chart.y.unit));
    if let Some(interval) = chart.interval(point) {
        text.push_str(&format!(" ({})", humanise_interval("", point.y, interval, &chart.y.unit)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::spec::{Axis, AxisKind, Chart, Kind, Point, Series};
    use super::bars;

    fn chart(kind: Kind) -> Chart {
        let series = |name: &str, group, values: &[f64]| {
            let points =
                values.iter().enumerate().map(|(row, value)| Point::new(row as f64, *value));
            Series::points(name, group, points.collect())
        };
        Chart {
            title: "Phases".into(),
            kind,
            x: Axis::names("step", vec!["measured step".into(), "pass".into()]),
            y: Axis::new("mean time", "ns", AxisKind::FromZero),
            series: vec![series("forward", 0, &[3e6, 2e6]), series("backward", 1, &[6e6])],
            marks: Vec::new(),
        }
    }

    #[test]
    fn parts_follow_each_other_and_say_their_share() {
        let svg = bars(&chart(Kind::Stacks)).into_string().replace('\u{202f}', " ");
        for text in
            ["forward 3.00 ms (33.3 %)", "backward 6.00 ms (66.7 %)", ">9.00 ms<", ">2.00 ms<"]
        {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert_eq!(svg.matches("<rect ").count(), 3);
    }

    #[test]
    fn bars_have_their_values() {
        let svg = bars(&chart(Kind::Bars)).into_string().replace('\u{202f}', " ");
        assert_eq!(svg.matches("<rect ").count(), 3);
        assert!(svg.contains(">6.00 ms<") && !svg.contains(">9.00 ms<"), "{svg}");
    }
}
