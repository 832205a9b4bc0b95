//! Lines and points as SVG.

use maud::{Markup, html};

use super::axis::{Axis, column, column_title};
use super::mark;
use super::place::{Area, Plot, along, labelled, path, px, short, spread, svg};
use super::spec::{AxisKind, Chart, MAXIMUM_SERIES, Point, Series};
use crate::{Scale, humanise, humanise_interval};

const HEIGHT: f64 = 380.0;
const WIDTH: f64 = 760.0;
const PLOT: Plot = Plot { left: 64.0, right: 744.0, top: 30.0, bottom: 326.0 };

/// Room for names at the ends of lines, if there are several and they are few.
const NAMES: f64 = 210.0;

/// Points up to which each has a mark.
const MOST_MARKS: usize = 60;

pub(super) fn points(chart: &Chart) -> Markup {
    let shown: Vec<&Series> = chart
        .series
        .iter()
        .filter(|series| series.is_drawn() && has_points(chart, series))
        .collect();
    let of = |series: &Series| -> Vec<Point> {
        series.points.iter().filter(|point| chart.can_draw(point)).cloned().collect()
    };
    let points: Vec<Vec<Point>> = shown.iter().map(|series| of(series)).collect();
    let all = || points.iter().flatten();
    let names = group_names(&shown);
    let named_lines = || shown.iter().filter(|series| series.joined && series.group.is_some());
    let ends = names.len() > 1
        && named_lines().count() == names.len()
        && named_lines().all(|series| series.line.is_none());
    let plot = Plot { right: if ends { PLOT.right - NAMES } else { PLOT.right }, ..PLOT };
    let (x_scale, y_scale) =
        (chart.scale(&chart.x, |point| point.x), chart.scale(&chart.y, |point| point.y));
    let kind = chart.y_kind();
    let x = horizontal(&chart.x.kind, all().map(|point| point.x), plot);
    let reach = all().flat_map(|point| {
        let (low, high) = chart.interval(point).unwrap_or((point.y, point.y));
        [low, high, point.y]
    });
    let y = match kind {
        AxisKind::Logarithmic => Axis::logarithmic(reach, plot.bottom, plot.top),
        AxisKind::Around => Axis::around(reach, plot.bottom, plot.top),
        _ => Axis::from_zero(reach, plot.bottom, plot.top),
    };
    let place = |point: &Point| (x.at(point.x), y.at(point.y));
    let lines: Vec<Area> = shown
        .iter()
        .zip(&points)
        .filter(|(series, _)| series.joined)
        .flat_map(|(_, points)| along(&points.iter().map(place).collect::<Vec<_>>()))
        .collect();
    let named: Vec<(&str, (f64, f64))> =
        all().filter_map(|point| Some((point.label.as_deref()?, place(point)))).collect();
    let labels = labelled(plot, &named, 0..named.len(), &[], &lines);
    let content = html! {
        (y.rows(plot, &y_scale, &Chart::title(&chart.y, &kind, &y_scale)))
        (columns(chart, &x, plot, &x_scale, all().map(|point| point.x)))
        @for mark in chart.marks.iter().filter(|mark| mark.x.is_finite()) {
            @let at = px(x.at(mark.x).clamp(plot.left, plot.right));
            line class=(if mark.strong { "event strong" } else { "event" }) x1=(at) x2=(at) y1=(px(plot.top)) y2=(px(plot.bottom)) {
                title { (mark.name) }
            }
        }
        @for (series, points) in shown.iter().zip(&points) {
            @let class = format!("curve {}{}", series.class(), if series.lesser { " thin" } else { "" });
            @if series.joined {
                path class=(class) fill="none" d=(path(&points.iter().map(place).collect::<Vec<_>>())) style="fill:none" {
                    title { (series.name) }
                }
            }
            @if points.len() <= MOST_MARKS || !series.joined { @for point in points {
                @if let Some((low, high)) = chart.interval(point) {
                    (mark::interval(series.group.unwrap_or(0), x.at(point.x), y.at(low), y.at(high)))
                }
                @if point.chosen { (mark::halo(place(point))) }
                @if series.marked {
                    (mark::mark(series.group.unwrap_or(0), series.lesser, place(point), &tooltip(chart, series, point)))
                }
            } }
        }
        @if ends {
            @let ends: Vec<_> = shown.iter().zip(&points).filter(|(series, _)| series.joined && series.group.is_some())
                .map(|(series, points)| (*series, points.last().map_or((plot.right, plot.bottom), place))).collect();
            (names_at_ends(&ends, plot))
        }
        @for (index, (left, top)) in labels {
            text x=(px(left)) y=(px(top)) text-anchor="middle" { (named[index].0) }
        }
        (key(&shown, plot))
    };
    let description = format!(
        "{} by {}, for: {}. The values are in the table.",
        chart.y.title,
        chart.x.title,
        names.iter().map(|(_, name)| *name).collect::<Vec<_>>().join("; "),
    );
    html! {
        p.chart-title { (chart.title) }
        @if names.len() > 1 && !ends { (mark::legend(&names)) }
        (svg((WIDTH, HEIGHT), &chart.title, &description, &content))
        @if left_out(chart) > 0 {
            p.quiet { "The first " (MAXIMUM_SERIES) " of " (MAXIMUM_SERIES + left_out(chart)) " lines; the table has all." }
        }
    }
}

fn has_points(chart: &Chart, series: &Series) -> bool {
    series.points.iter().any(|point| chart.can_draw(point))
}

/// Returns the number of groups that are not drawn.
fn left_out(chart: &Chart) -> usize {
    let drawn = chart.series.iter().filter(|series| has_points(chart, series));
    drawn
        .filter_map(|series| Some((series.group? + 1).saturating_sub(MAXIMUM_SERIES)))
        .max()
        .unwrap_or(0)
}

/// Returns the groups with their names.
fn group_names<'a>(shown: &[&'a Series]) -> Vec<(usize, &'a str)> {
    let mut names: Vec<(usize, &str)> = Vec::new();
    for series in shown {
        if let Some(group) = series.group
            && !names.iter().any(|(known, _)| *known == group)
        {
            names.push((group, &series.name));
        }
    }
    names
}

fn horizontal(kind: &AxisKind, values: impl Iterator<Item = f64>, plot: Plot) -> Axis {
    let values: Vec<f64> = values.collect();
    match kind {
        AxisKind::Logarithmic | AxisKind::Sizes => Axis::logarithmic(values, plot.left, plot.right),
        AxisKind::Around => Axis::around(values, plot.left, plot.right),
        AxisKind::Names(names) => Axis::between(
            (0.0, (names.len().max(2) - 1) as f64),
            plot.left + 12.0,
            plot.right - 12.0,
        ),
        AxisKind::Nines => {
            let deepest = values.into_iter().fold(1.0, f64::max);
            Axis::between((0.0, deepest * 1.02), plot.left, plot.right)
        }
        AxisKind::FromZero | AxisKind::Fitting => Axis::from_zero(values, plot.left, plot.right),
    }
}

fn columns(
    chart: &Chart,
    x: &Axis,
    plot: Plot,
    scale: &Scale<'_>,
    values: impl Iterator<Item = f64>,
) -> Markup {
    let kind = &chart.x.kind;
    let title = Chart::title(&chart.x, kind, scale);
    let ticks: Vec<(f64, String)> = match kind {
        AxisKind::Nines => {
            let (_, deepest) = x.ends();
            NINES
                .iter()
                .filter(|(at, _)| *at <= deepest)
                .map(|(at, name)| (*at, (*name).to_owned()))
                .collect()
        }
        AxisKind::Sizes => {
            let mut values: Vec<f64> = values.collect();
            values.sort_by(f64::total_cmp);
            values.dedup();
            values.into_iter().map(|value| (value, value.to_string())).collect()
        }
        AxisKind::Names(names) => {
            names.iter().enumerate().map(|(at, name)| (at as f64, short(name, 18))).collect()
        }
        _ => return x.columns(plot, scale, &title),
    };
    let mut last = f64::NEG_INFINITY;
    let fits = |(at, name): &(f64, String)| {
        let half = 3.5 * name.chars().count() as f64;
        let from = x.at(*at) - half;
        let fits = from > last + 6.0;
        if fits {
            last = from + 2.0 * half;
        }
        fits
    };
    html! {
        @for (at, name) in ticks.into_iter().filter(fits) { (column(plot, x.at(at), &name)) }
        (column_title(plot, &title))
    }
}

/// Ticks of shares, by their depth in the tail.
const NINES: [(f64, &str); 8] = [
    (0.0, "0 %"),
    (std::f64::consts::LOG10_2, "50 %"),
    (1.0, "90 %"),
    (2.0, "99 %"),
    (3.0, "99.9 %"),
    (4.0, "99.99 %"),
    (5.0, "99.999 %"),
    (6.0, "99.9999 %"),
];

/// Writes names beside the ends of lines, moved apart.
fn names_at_ends(lines: &[(&Series, (f64, f64))], plot: Plot) -> Markup {
    let heights: Vec<f64> = lines.iter().map(|(_, end)| end.1).collect();
    let labels = spread(&heights, plot, 15.0);
    html! {
        @for ((series, end), height) in lines.iter().zip(labels) {
            line.leader x1=(px(end.0 + 4.0)) y1=(px(end.1)) x2=(px(plot.right + 14.0)) y2=(px(height)) {}
            (mark::mark(series.group.unwrap_or(0), false, (plot.right + 22.0, height), &series.name))
            text x=(px(plot.right + 34.0)) y=(px(height)) dy="0.32em" {
                (short(&series.name, 27)) title { (series.name) }
            }
        }
    }
}

/// Returns the key of the lines of a group, in the upper right corner.
fn key(shown: &[&Series], plot: Plot) -> Markup {
    let mut kinds: Vec<(&str, bool)> = Vec::new();
    for series in shown {
        if let Some(line) = series.line.filter(|line| !kinds.iter().any(|(known, _)| known == line))
        {
            kinds.push((line, series.lesser));
        }
    }
    let mut right = plot.right;
    let entries: Vec<_> = kinds
        .into_iter()
        .rev()
        .map(|(name, lesser)| {
            let text = right;
            let line = text - 6.2 * name.chars().count() as f64 - 8.0;
            right = line - 40.0;
            (text, line, name, lesser)
        })
        .collect();
    html! {
        @for (text, line, name, lesser) in entries {
            path class=(if lesser { "curve key thin" } else { "curve key" }) d=(path(&[(line - 26.0, 8.0), (line, 8.0)])) {}
            text.axis x=(px(text)) y="12" text-anchor="end" { (name) }
        }
    }
}

fn tooltip(chart: &Chart, series: &Series, point: &Point) -> String {
    let name = point.name.as_ref().unwrap_or(&series.name);
    let line = series.line.map(|line| format!(" {line}")).unwrap_or_default();
    let mut text = format!("{name}:{line} {}", humanise(point.y, &chart.y.unit));
    if let Some(interval) = chart.interval(point) {
        text.push_str(&format!(" ({})", humanise_interval("", point.y, interval, &chart.y.unit)));
    }
    if point.chosen {
        text.push_str(", recommended");
    }
    text
}
