/*!
Latency and throughput against batch size, side by side.

The batch axis is logarithmic to base 2, like typical batch sizes. Latency shows single-stream queries, p50 and p99
with their intervals; throughput shows offline and single-stream. A series contains the cases that differ only in
batch and scenario.
*/

use maud::{Markup, html};
use report_common::{Case, Scale, Scenario, humanise, humanise_interval};

use super::axis::{Axis, column, column_title};
use super::{Plot, mark, path, px, svg};

const WIDTH: f64 = 500.0;
const HEIGHT: f64 = 360.0;
const PLOT: Plot = Plot { left: 64.0, right: 490.0, top: 28.0, bottom: 310.0 };

/// Finished cases that differ only in batch and scenario.
#[derive(Debug, Clone)]
pub(crate) struct Series<'a> {
    pub(crate) name: String,
    pub(crate) cases: Vec<&'a Case>,
}

/// One curve of a panel.
struct Curve<'a> {
    metric: &'static str,
    scenario: Scenario,
    label: &'static str,
    hollow: bool,
    series: usize,
    name: &'a str,
    points: Vec<Point>,
}

#[derive(Clone, Copy)]
struct Point {
    batch: f64,
    value: f64,
    interval: Option<(f64, f64)>,
}

/// Metric, scenario, name, and whether it is the less important one.
type Kind = (&'static str, Scenario, &'static str, bool);

const LATENCY: [Kind; 2] = [
    ("latency.p99", Scenario::SingleStream, "p99", false),
    ("latency.p50", Scenario::SingleStream, "p50", true),
];

const THROUGHPUT: [Kind; 2] = [
    ("throughput.samples", Scenario::Offline, "offline", false),
    ("throughput.samples", Scenario::SingleStream, "single-stream", true),
];

/// Returns the two panels, or nothing if there is nothing to draw against batch size.
pub(crate) fn batch(title: &str, series: &[Series<'_>]) -> Option<Markup> {
    let latency = panel(&format!("{title}: latency against batch size"), series, LATENCY, "ns");
    let throughput =
        panel(&format!("{title}: throughput against batch size"), series, THROUGHPUT, "1/s");
    if latency.is_none() && throughput.is_none() {
        return None;
    }
    let names: Vec<_> = series.iter().map(|series| series.name.clone()).collect();
    Some(html! {
        @if names.len() > 1 { (mark::legend(&names)) }
        div.panels {
            @if let Some(panel) = latency { (panel) }
            @if let Some(panel) = throughput { (panel) }
        }
    })
}

fn panel(title: &str, series: &[Series<'_>], kinds: [Kind; 2], unit: &str) -> Option<Markup> {
    let curves: Vec<_> = series
        .iter()
        .enumerate()
        .flat_map(|(index, series)| kinds.map(|kind| curve(index, series, kind, unit)))
        .filter(|curve| !curve.points.is_empty())
        .collect();
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let mut batches: Vec<f64> = points().map(|point| point.batch).collect();
    batches.sort_by(f64::total_cmp);
    batches.dedup();
    if batches.len() < 2 {
        return None;
    }
    let reach = |point: &Point| {
        let (low, high) = point.interval.unwrap_or((point.value, point.value));
        [low, high, point.value]
    };
    let values: Vec<f64> = points().flat_map(reach).collect();
    let scale = Scale::for_values(unit, points().map(|point| point.value));
    let x = Axis::logarithmic(batches.iter().copied(), PLOT.left, PLOT.right);
    let y = if unit == "ns" {
        Axis::logarithmic(values, PLOT.bottom, PLOT.top)
    } else {
        Axis::fitting(&values, PLOT.bottom, PLOT.top)
    };
    let what = if unit == "ns" {
        format!("latency in {}", scale.symbol())
    } else {
        "samples per second".to_owned()
    };
    let kind = if y.is_logarithmic() { "logarithmic" } else { "from zero" };
    let present: Vec<_> =
        kinds.into_iter().filter(|kind| curves.iter().any(|curve| curve.label == kind.2)).collect();
    let content = html! {
        (y.rows(PLOT, &scale, &format!("{what}, {kind}")))
        @for batch in visible(&batches, &x) {
            (column(PLOT, x.at(batch), &format!("{batch}")))
        }
        (column_title(PLOT, "batch size"))
        @for curve in &curves {
            (draw(curve, &x, &y, unit))
        }
        (key(&present))
    };
    let names: Vec<_> = series.iter().map(|series| series.name.as_str()).collect();
    let description = format!(
        "{what} for batch sizes {}, for: {}. The figures are in the table of results.",
        batches.iter().map(f64::to_string).collect::<Vec<_>>().join(", "),
        names.join("; "),
    );
    Some(svg((WIDTH, HEIGHT), title, &description, &content))
}

/// Returns batch sizes whose numbers do not overlap.
fn visible(batches: &[f64], axis: &Axis) -> Vec<f64> {
    let mut last = f64::NEG_INFINITY;
    let mut kept = Vec::new();
    for &batch in batches {
        let place = axis.at(batch);
        if place - last >= 26.0 {
            kept.push(batch);
            last = place;
        }
    }
    kept
}

fn curve<'a>(index: usize, series: &'a Series<'_>, kind: Kind, unit: &str) -> Curve<'a> {
    let (metric, scenario, label, hollow) = kind;
    let mut points: Vec<_> = series
        .cases
        .iter()
        .filter(|case| case.key.scenario == scenario && case.key.batch > 0)
        .filter_map(|case| {
            let result = case.result(metric).filter(|result| result.unit == unit)?;
            let value = result.value.as_ref().ok().copied().filter(|value| *value > 0.0)?;
            let interval = result.interval.filter(|(low, _)| *low > 0.0);
            Some(Point { batch: f64::from(case.key.batch), value, interval })
        })
        .collect();
    points.sort_by(|one, other| one.batch.total_cmp(&other.batch));
    Curve { metric, scenario, label, hollow, series: index, name: &series.name, points }
}

fn draw(curve: &Curve<'_>, x: &Axis, y: &Axis, unit: &str) -> Markup {
    let Curve { series, hollow, .. } = *curve;
    let places: Vec<_> =
        curve.points.iter().map(|point| (x.at(point.batch), y.at(point.value))).collect();
    let class = format!("curve c{series}{}", if hollow { " thin" } else { "" });
    html! {
        path class=(class) d=(path(&places)) style="fill:none" {
            title { (curve.name) ", " (curve.label) }
        }
        @for (point, place) in curve.points.iter().zip(&places) {
            @if let Some((low, high)) = point.interval {
                (mark::interval(series, place.0, y.at(low), y.at(high)))
            }
            (mark::mark(series, hollow, *place, &tooltip(curve, point, unit)))
        }
    }
}

fn tooltip(curve: &Curve<'_>, point: &Point, unit: &str) -> String {
    let Curve { name, label, metric, scenario, .. } = curve;
    let what = if metric.starts_with("latency") { label } else { scenario.name() };
    let mut text = format!("{name}, batch {}: {what} {}", point.batch, humanise(point.value, unit));
    if let Some(interval) = point.interval {
        text.push_str(&format!(" ({})", humanise_interval(metric, point.value, interval, unit)));
    }
    text
}

/// Returns the key of the lines, in the upper right corner.
fn key(kinds: &[Kind]) -> Markup {
    let mut right = PLOT.right;
    let entries: Vec<_> = kinds
        .iter()
        .rev()
        .map(|(_, _, label, lesser)| {
            let text = right;
            let line = text - 6.2 * label.chars().count() as f64 - 8.0;
            right = line - 40.0;
            (text, line, *label, *lesser)
        })
        .collect();
    html! {
        @for (text, line, label, lesser) in entries {
            path class=(if lesser { "curve key thin" } else { "curve key" })
                d=(path(&[(line - 26.0, 8.0), (line, 8.0)])) {}
            text.axis x=(px(text)) y="12" text-anchor="end" { (label) }
        }
    }
}
