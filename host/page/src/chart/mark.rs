//! Marks: the points of a series. Each series has a colour and a shape.

use maud::{Markup, html};

use super::place::{path, px, short};

/// Returns a point at a place, with a tooltip.
pub(crate) fn mark(series: usize, hollow: bool, place: (f64, f64), tooltip: &str) -> Markup {
    let class = format!("mark c{series}{}", if hollow { " hollow" } else { "" });
    html! {
        path class=(class) d=(shape(series, place)) { title { (tooltip) } }
    }
}

/// Returns the outline of a series' marks.
fn shape(series: usize, (x, y): (f64, f64)) -> String {
    let polygon = |corners: &[(f64, f64)]| {
        let corners: Vec<_> = corners.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
        format!("{}Z", path(&corners))
    };
    match series % 8 {
        0 => circle(x, y, 4.0),
        1 => polygon(&[(-3.8, -3.8), (3.8, -3.8), (3.8, 3.8), (-3.8, 3.8)]),
        2 => polygon(&[(0.0, -5.2), (5.0, 3.8), (-5.0, 3.8)]),
        3 => polygon(&[(0.0, -5.4), (5.4, 0.0), (0.0, 5.4), (-5.4, 0.0)]),
        4 => polygon(&[(0.0, 5.2), (5.0, -3.8), (-5.0, -3.8)]),
        5 => polygon(&[(-5.2, 0.0), (3.8, -5.0), (3.8, 5.0)]),
        6 => polygon(&[(5.2, 0.0), (-3.8, -5.0), (-3.8, 5.0)]),
        _ => polygon(&[(-5.4, -1.8), (5.4, -1.8), (5.4, 1.8), (-5.4, 1.8)]),
    }
}

fn circle(x: f64, y: f64, radius: f64) -> String {
    let (left, right, y, radius) = (px(x - radius), px(x + radius), px(y), px(radius));
    format!("M{left} {y}A{radius} {radius} 0 1 1 {right} {y}A{radius} {radius} 0 1 1 {left} {y}Z")
}

/// Returns a ring around a recommended point.
pub(crate) fn halo((x, y): (f64, f64)) -> Markup {
    html! { path.halo d=(circle(x, y, 8.5)) {} }
}

/// Returns an interval as a vertical bar with ends.
pub(crate) fn interval(series: usize, x: f64, low: f64, high: f64) -> Markup {
    let ends = |y: f64| format!("M{} {}L{} {}", px(x - 3.0), px(y), px(x + 3.0), px(y));
    let stem = format!("M{} {}L{} {}", px(x), px(low), px(x), px(high));
    html! {
        path class={ "bar c" (series) } fill="none" d={ (stem) (ends(low)) (ends(high)) } {}
    }
}

/// Returns a legend within a drawing, below this height, and its own height; nothing for a single group.
pub(crate) fn legend_inside(names: &[(usize, &str)], top: f64) -> (Markup, f64) {
    const COLUMNS: usize = 3;
    const ROW: f64 = 18.0;
    if names.len() < 2 {
        return (html! {}, 0.0);
    }
    let place = |index: usize| {
        let (row, column) = (index / COLUMNS, index % COLUMNS);
        (24.0 + 245.0 * column as f64, top + ROW * (row as f64 + 0.5))
    };
    let legend = html! {
        @for (index, (series, name)) in names.iter().enumerate() {
            @let (x, y) = place(index);
            path class={ "c" (series) } d=(shape(*series, (x, y))) {}
            text x=(px(x + 12.0)) y=(px(y)) dy="0.32em" { (short(name, 32)) }
        }
    };
    (legend, ROW * names.len().div_ceil(COLUMNS) as f64 + 6.0)
}

/// Returns the legend of groups of series, by their positions and names.
pub(crate) fn legend(names: &[(usize, &str)]) -> Markup {
    html! {
        ul.legend {
            @for (series, name) in names {
                li {
                    svg width="14" height="14" aria-hidden="true" {
                        path class={ "c" (series) } d=(shape(*series, (7.0, 7.0))) {}
                    }
                    (name)
                }
            }
        }
    }
}
