/*!
Throughput over p99 latency, a point for each configuration: the gain from longer waiting.

Up and to the left is better. The dotted line joins the configurations that no other one beats in both.
*/

use maud::{Markup, html};
use report_common::{Scale, humanise};

use super::axis::Axis;
use super::{Plot, labelled, mark, path, px, svg};

const WIDTH: f64 = 920.0;
const HEIGHT: f64 = 420.0;
const PLOT: Plot = Plot { left: 72.0, right: 900.0, top: 28.0, bottom: 370.0 };

/// A configuration.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    /// Name of the point in the chart; the legend has the other coordinates.
    pub(crate) label: String,
    /// Its full name.
    pub(crate) name: String,
    /// Index of its colour and shape.
    pub(crate) series: usize,
    /// p99 latency in nanoseconds.
    pub(crate) latency: f64,
    /// Samples per second.
    pub(crate) throughput: f64,
    /// Whether a recommender chose it.
    pub(crate) chosen: bool,
}

/// Returns the chart, or nothing if there are fewer than three points.
pub(crate) fn trade(title: &str, series: &[String], points: &[Point]) -> Option<Markup> {
    if points.len() < 3 {
        return None;
    }
    let x = Axis::logarithmic(points.iter().map(|point| point.latency), PLOT.left, PLOT.right);
    let throughputs: Vec<_> = points.iter().map(|point| point.throughput).collect();
    let y = Axis::fitting(&throughputs, PLOT.bottom, PLOT.top);
    let latency_scale = Scale::for_values("ns", points.iter().map(|point| point.latency));
    let throughput_scale = Scale::for_values("1/s", throughputs.iter().copied());
    let kind = if y.is_logarithmic() { "logarithmic" } else { "from zero" };
    let place = |point: &Point| (x.at(point.latency), y.at(point.throughput));
    let front = front(points);
    let line: Vec<_> = front.iter().map(|index| place(&points[*index])).collect();
    let others = (0..points.len()).filter(|index| !front.contains(index));
    let labels: Vec<_> = points.iter().map(|point| (point.label.as_str(), place(point))).collect();
    let labelled = labelled(PLOT, &labels, front.iter().copied().chain(others), &[], &[]);
    let content = html! {
        (y.rows(PLOT, &throughput_scale, &format!("throughput in samples per second, {kind}")))
        (x.columns(PLOT, &latency_scale, &format!("p99 latency in {}, logarithmic", latency_scale.symbol())))
        @if line.len() > 1 { path.frontier d=(path(&line)) {} }
        @for point in points {
            @if point.chosen { (mark::halo(place(point))) }
            (mark::mark(point.series, false, place(point), &tooltip(point)))
        }
        @for (index, (left, top)) in labelled {
            text x=(px(left)) y=(px(top)) text-anchor="middle" { (points[index].label) }
        }
    };
    let description = format!(
        "{} configurations by p99 latency and throughput; up and to the left is better. On the front: {}.",
        points.len(),
        front.iter().map(|index| points[*index].name.as_str()).collect::<Vec<_>>().join("; "),
    );
    Some(html! {
        @if series.len() > 1 { (mark::legend(series)) }
        (svg((WIDTH, HEIGHT), title, &description, &content))
    })
}

/// Returns the positions of the points that no other one beats in both, by rising latency.
fn front(points: &[Point]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|one, other| {
        let (one, other) = (&points[*one], &points[*other]);
        one.latency.total_cmp(&other.latency).then(other.throughput.total_cmp(&one.throughput))
    });
    let mut best = f64::NEG_INFINITY;
    order.retain(|index| {
        let better = points[*index].throughput > best;
        best = best.max(points[*index].throughput);
        better
    });
    order
}

fn tooltip(point: &Point) -> String {
    let chosen = if point.chosen { ", recommended" } else { "" };
    format!(
        "{}: p99 {}, {}{chosen}",
        point.name,
        humanise(point.latency, "ns"),
        humanise(point.throughput, "1/s"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_rises() {
        let point = |latency, throughput| Point {
            label: String::new(),
            name: String::new(),
            series: 0,
            latency,
            throughput,
            chosen: false,
        };
        let points =
            [point(3.0, 9.0), point(1.0, 2.0), point(2.0, 1.0), point(2.5, 5.0), point(3.0, 4.0)];
        assert_eq!(front(&points), [1, 3, 0]);
    }
}
