/*!
Distribution of latencies: latency over the share of queries that took at most this long.

The horizontal axis is stretched towards the tail, so 99 % is as far from 90 % as 99.9 % from
99 %: users wait for the tail, and an ordinary cumulative curve hides it in its last pixels. The curve ends with the
sample, at its last query.
*/

use maud::{Markup, html};
use report_common::{Case, Scale, humanise, humanise_interval};

use super::axis::{Axis, column, column_title};
use super::{Plot, mark, path, px, short, spread, svg};

const WIDTH: f64 = 920.0;
const HEIGHT: f64 = 400.0;
const PLOT: Plot = Plot { left: 64.0, right: 690.0, top: 28.0, bottom: 350.0 };

/// Marked percentiles, with the metrics that state them.
const MARKED: [(f64, &str, &str); 4] = [
    (0.5, "latency.p50", "p50"),
    (0.9, "latency.p90", "p90"),
    (0.99, "latency.p99", "p99"),
    (0.999, "latency.p99.9", "p99.9"),
];

/// Returns the chart of a few cases, each with its name. The caller leaves out cases without
/// quantiles.
pub(crate) fn distribution(title: &str, cases: &[(&Case, String)]) -> Markup {
    let curves: Vec<_> = cases.iter().map(|(case, _)| curve(case)).collect();
    let latencies = || curves.iter().flatten().map(|(_, latency)| *latency);
    let scale = Scale::for_values("ns", latencies());
    let y = Axis::logarithmic(latencies(), PLOT.bottom, PLOT.top);
    let deepest = curves.iter().flatten().map(|(nines, _)| *nines).fold(1.0, f64::max);
    let x = |nines: f64| PLOT.left + nines / (deepest * 1.02) * (PLOT.right - PLOT.left);

    let ends = curves.iter().map(|curve| y.at(curve.last().map_or(1.0, |(_, latency)| *latency)));
    let labels = spread(&ends.collect::<Vec<_>>(), PLOT, 15.0);
    let content = html! {
        (y.rows(PLOT, &scale, &format!("latency in {}, logarithmic", scale.symbol())))
        @for (quantile, label) in ticks(deepest) {
            (column(PLOT, x(nines(quantile)), label))
        }
        (column_title(PLOT, "share of queries that took at most this long"))
        @for (series, (curve, (case, name))) in curves.iter().zip(cases).enumerate() {
            @let points: Vec<_> = curve.iter().map(|(nines, latency)| (x(*nines), y.at(*latency))).collect();
            path class={ "curve c" (series) } fill="none" d=(path(&points)) style="fill:none" {
                title { (name) }
            }
            @for (quantile, metric, label) in MARKED {
                @if let Some((value, interval)) = stated(case, metric) {
                    @let place = (x(nines(quantile)), y.at(value));
                    @if let Some((low, high)) = interval {
                        (mark::interval(series, place.0, y.at(low), y.at(high)))
                    }
                    (mark::mark(series, false, place, &tooltip(name, label, value, interval)))
                }
            }
            @let end = points.last().copied().unwrap_or((PLOT.right, PLOT.bottom));
            line.leader x1=(px(end.0 + 4.0)) y1=(px(end.1)) x2=(px(PLOT.right + 14.0)) y2=(px(labels[series])) {}
            (mark::mark(series, false, (PLOT.right + 22.0, labels[series]), name))
            text x=(px(PLOT.right + 34.0)) y=(px(labels[series])) dy="0.32em" {
                (short(name, 28)) title { (name) }
            }
        }
    };
    let names: Vec<_> = cases.iter().map(|(_, name)| name.as_str()).collect();
    let description = format!(
        "Latency at each percentile, from the fastest query to the slowest, for: {}. The figures are in the table of results.",
        names.join("; ")
    );
    svg((WIDTH, HEIGHT), title, &description, &content)
}

/// Returns the depth in the tail: 0 for the fastest, 1 for 90 %, 2 for 99 %.
fn nines(quantile: f64) -> f64 {
    -(1.0 - quantile).log10()
}

/// Returns the points of a case's curve: depth and latency in nanoseconds. The largest latency is
/// that of every quantile above 1 − 1/n, so it is drawn there.
fn curve(case: &Case) -> Vec<(f64, f64)> {
    let queries = case.queries.unwrap_or(0).max(1) as f64;
    let deepest = nines(1.0 - 1.0 / queries);
    let points = case.quantiles.iter().filter(|(_, latency)| *latency > 0);
    points
        .map(|(quantile, latency)| {
            let depth = if *quantile >= 1.0 { deepest } else { nines(*quantile).min(deepest) };
            (depth, *latency as f64)
        })
        .collect()
}

fn ticks(deepest: f64) -> impl Iterator<Item = (f64, &'static str)> {
    const TICKS: [(f64, &str); 9] = [
        (0.0, "0 %"),
        (0.5, "50 %"),
        (0.9, "90 %"),
        (0.99, "99 %"),
        (0.999, "99.9 %"),
        (0.9999, "99.99 %"),
        (0.999_99, "99.999 %"),
        (0.999_999, "99.9999 %"),
        (0.999_999_9, "99.99999 %"),
    ];
    TICKS.into_iter().filter(move |(quantile, _)| nines(*quantile) <= deepest + 1e-9)
}

type Interval = Option<(f64, f64)>;

/// Returns a percentile that a metric states, with its interval.
fn stated(case: &Case, metric: &str) -> Option<(f64, Interval)> {
    let result = case.result(metric)?;
    let value = result.value.as_ref().ok().copied().filter(|value| *value > 0.0)?;
    (result.unit == "ns").then_some((value, result.interval.filter(|(low, _)| *low > 0.0)))
}

fn tooltip(name: &str, label: &str, value: f64, interval: Interval) -> String {
    let mut text = format!("{name}: {label} {}", humanise(value, "ns"));
    if let Some(interval) = interval {
        text.push_str(&format!(" ({})", humanise_interval("latency", value, interval, "ns")));
    }
    text
}
