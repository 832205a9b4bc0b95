/*!
Charts as SVG.

Coordinates are pixels of the SVG's own size: a chart does not shrink on a narrow screen, where its
text would become unreadable, but scrolls. Colours are classes, so that the page's style sheet sets
them for light and for dark. They can be distinguished by colour-blind readers, and no chart
distinguishes series by colour alone.
*/

mod axis;
mod batch;
mod distribution;
mod learning;
mod mark;
mod roofline;
mod steps;
mod trade;

pub(crate) use batch::{Series, batch};
pub(crate) use distribution::distribution;
pub(crate) use learning::learning;
pub(crate) use roofline::{Load, Roof, roofline};
pub(crate) use steps::{Bar, Part, steps, tooltip};
pub(crate) use trade::{Point, trade};

use maud::{Markup, html};

/// Number of series that can be distinguished in one chart.
pub(crate) const MAXIMUM_SERIES: usize = 8;

/// The plot's rectangle inside its SVG.
#[derive(Debug, Clone, Copy)]
struct Plot {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// Returns an SVG with title and description around its contents.
fn svg(size: (f64, f64), title: &str, description: &str, content: &Markup) -> Markup {
    let (width, height) = size;
    html! {
        div.scroll tabindex="0" role="group" aria-label=(title) {
            svg role="img" aria-label=(title)
                width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } {
                title { (title) }
                desc { (description) }
                (content)
            }
        }
    }
}

/// Returns a pixel position, with as many digits as are visible.
fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// Returns the `d` of a path through points.
fn path(points: &[(f64, f64)]) -> String {
    let mut text = String::new();
    for (index, (x, y)) in points.iter().enumerate() {
        text.push(if index == 0 { 'M' } else { 'L' });
        text.push_str(&format!("{} {}", px(*x), px(*y)));
    }
    text
}

/// Returns text cut to a number of characters.
fn short(text: &str, length: usize) -> String {
    if text.chars().count() <= length {
        return text.to_owned();
    }
    let kept: String = text.chars().take(length - 1).collect();
    format!("{}…", kept.trim_end())
}

/// Returns the places of the labels that fit above or below their points, in this order of points.
fn labelled(
    plot: Plot,
    points: &[(&str, (f64, f64))],
    order: impl IntoIterator<Item = usize>,
) -> Vec<(usize, (f64, f64))> {
    let area = |(x, y): (f64, f64)| [x - 6.0, y - 6.0, x + 6.0, y + 6.0];
    let mut taken: Vec<[f64; 4]> = points.iter().map(|(_, place)| area(*place)).collect();
    let mut placed = Vec::new();
    for index in order {
        let (label, (x, y)) = points[index];
        let half = 3.4 * label.chars().count() as f64;
        let x = x.clamp(plot.left + half, plot.right - half);
        for baseline in [y - 12.0, y + 22.0] {
            let wanted = [x - half, baseline - 11.0, x + half, baseline + 2.0];
            let inside = wanted[1] >= plot.top - 10.0 && wanted[3] <= plot.bottom;
            if inside && !taken.iter().any(|other| overlap(wanted, *other)) {
                taken.push(wanted);
                placed.push((index, (x, baseline)));
                break;
            }
        }
    }
    placed
}

fn overlap(one: [f64; 4], other: [f64; 4]) -> bool {
    one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3]
}

/// Returns positions for labels near the given heights, moved apart so that none covers
/// another, and kept inside the plot if there is room.
fn spread(wanted: &[f64], plot: Plot, distance: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|one, other| wanted[*one].total_cmp(&wanted[*other]));
    let mut placed = wanted.to_vec();
    let mut free = plot.top;
    for &index in &order {
        placed[index] = placed[index].max(free);
        free = placed[index] + distance;
    }
    let mut ceiling = plot.bottom;
    for &index in order.iter().rev() {
        placed[index] = placed[index].min(ceiling);
        ceiling = placed[index] - distance;
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_cover_each_other() {
        let plot = Plot { left: 0.0, right: 100.0, top: 10.0, bottom: 100.0 };
        let placed = spread(&[50.0, 51.0, 99.0, 98.0, 5.0], plot, 14.0);
        let mut sorted = placed.clone();
        sorted.sort_by(f64::total_cmp);
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= 13.999), "{placed:?}");
        assert!(sorted[0] >= 10.0 && sorted[4] <= 100.0);
        assert!(placed[0] < placed[1] && placed[3] < placed[2]);
    }

    #[test]
    fn long_names_are_cut_at_a_character() {
        assert_eq!(short("grün · blau", 5), "grün…");
        assert_eq!(short("grün", 5), "grün");
    }
}
