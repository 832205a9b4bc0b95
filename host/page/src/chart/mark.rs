//! Marks: the points of a series. Each series has a colour and a shape.

use maud::{Markup, html};

use super::place::{path, px};

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
