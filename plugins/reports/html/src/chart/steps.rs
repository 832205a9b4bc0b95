/*!
Parts of a training step as stacked bars, with the step without marks and the pass of inference below.

All bars begin at zero on one axis, so that lengths compare. Parts follow each other as they do in a step, and wide ones
have their names inside.
*/

use maud::{Markup, html};
use report_common::{Scale, humanise, significant};

use super::axis::Axis;
use super::{Plot, px, short, svg};

const WIDTH: f64 = 920.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 900.0;
const TOP: f64 = 28.0;
const ROW: f64 = 34.0;
const BAR: f64 = 22.0;

/// A bar: times in nanoseconds of its parts, one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) parts: Vec<Part>,
}

/// A part of a bar.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) time: f64,
    /// Index of its colour; `None` if nothing explains it.
    pub(crate) colour: Option<usize>,
}

/// Returns the chart, or nothing if there is no time to draw.
pub(crate) fn steps(title: &str, bars: &[Bar]) -> Option<Markup> {
    let total = |bar: &Bar| bar.parts.iter().map(|part| part.time).sum::<f64>();
    let totals: Vec<f64> = bars.iter().map(total).collect();
    if !totals.iter().any(|total| *total > 0.0) {
        return None;
    }
    let bottom = TOP + ROW * bars.len() as f64;
    let plot = Plot { left: LEFT, right: RIGHT, top: TOP, bottom };
    let x = Axis::from_zero(totals.iter().copied(), LEFT, RIGHT);
    let scale = Scale::for_values("ns", totals.iter().copied());
    let row = |index: usize| TOP + ROW * index as f64 + (ROW - BAR) / 2.0;
    let content = html! {
        (x.columns(plot, &scale, &format!("mean time in {}", scale.symbol())))
        @for (index, (bar, total)) in bars.iter().zip(&totals).enumerate() {
            text x=(px(LEFT - 10.0)) y=(px(row(index) + BAR / 2.0)) dy="0.32em" text-anchor="end" {
                (short(&bar.name, 28)) title { (bar.name) }
            }
            @for (from, part) in placed(bar) {
                @let (left, right) = (x.at(from), x.at(from + part.time));
                @let tooltip = tooltip(part, *total);
                rect class=(class(part)) x=(px(left)) y=(px(row(index))) width=(px((right - left).max(0.5))) height=(px(BAR)) {
                    title { (tooltip) }
                }
                @if bar.parts.len() > 1 && right - left > 7.0 * part.name.chars().count() as f64 + 8.0 {
                    text.inside x=(px((left + right) / 2.0)) y=(px(row(index) + BAR / 2.0)) dy="0.32em" text-anchor="middle" {
                        (part.name)
                    }
                }
            }
            text.tick x=(px(x.at(*total) + 6.0)) y=(px(row(index) + BAR / 2.0)) dy="0.32em" { (humanise(*total, "ns")) }
        }
    };
    let described: Vec<String> = bars
        .iter()
        .zip(&totals)
        .map(|(bar, total)| {
            let parts: Vec<String> = bar.parts.iter().map(|part| tooltip(part, *total)).collect();
            format!("{}: {}", bar.name, parts.join(", "))
        })
        .collect();
    Some(svg((WIDTH, bottom + 44.0), title, &described.join(". "), &content))
}

/// Returns each part with the time at which it begins.
fn placed(bar: &Bar) -> impl Iterator<Item = (f64, &Part)> {
    bar.parts.iter().scan(0.0, |from, part| {
        let begun = *from;
        *from += part.time;
        Some((begun, part))
    })
}

fn class(part: &Part) -> String {
    match part.colour {
        Some(colour) => format!("part c{colour}"),
        None => "part rest".to_owned(),
    }
}

/// Returns name, time and share of a part.
pub(crate) fn tooltip(part: &Part, total: f64) -> String {
    let share = part.time / total * 100.0;
    format!("{} {} ({} %)", part.name, humanise(part.time, "ns"), significant(share, 3))
}
