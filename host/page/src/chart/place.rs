//! Places on a chart: of its plot, of paths, and of labels that cover nothing.

use maud::{Markup, html};

/// The plot's rectangle inside its SVG.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plot {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
}

/// Returns an SVG with title and description around its contents.
pub(crate) fn svg(size: (f64, f64), title: &str, description: &str, content: &Markup) -> Markup {
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
pub(crate) fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// Returns the `d` of a path through points.
pub(crate) fn path(points: &[(f64, f64)]) -> String {
    let mut text = String::new();
    for (index, (x, y)) in points.iter().enumerate() {
        text.push(if index == 0 { 'M' } else { 'L' });
        text.push_str(&format!("{} {}", px(*x), px(*y)));
    }
    text
}

/// Returns text cut to a number of characters.
pub(crate) fn short(text: &str, length: usize) -> String {
    if text.chars().count() <= length {
        return text.to_owned();
    }
    let kept: String = text.chars().take(length - 1).collect();
    format!("{}…", kept.trim_end())
}

/// A rectangle: left, top, right, bottom.
pub(crate) type Area = [f64; 4];

/// Pixels of a character, on average and rather too many than too few.
const CHARACTER: f64 = 3.4 * 2.0;

/// Returns the area of a line of text whose baseline ends here.
fn area_of_line(text: &str, (right, baseline): (f64, f64)) -> Area {
    let width = CHARACTER * text.chars().count() as f64;
    [right - width, baseline - 11.0, right, baseline + 2.0]
}

/// Returns the places of the labels that fit around their points, in this order of points: the middle of the text, and its
/// baseline. No label covers a point, another label or one of the areas that are taken, and none crosses one of the
/// lines, if there is another place.
pub(crate) fn labelled(
    plot: Plot,
    points: &[(&str, (f64, f64))],
    order: impl IntoIterator<Item = usize>,
    taken: &[Area],
    lines: &[Area],
) -> Vec<(usize, (f64, f64))> {
    let area = |(x, y): (f64, f64)| [x - 6.0, y - 6.0, x + 6.0, y + 6.0];
    let mut taken = taken.to_vec();
    taken.extend(points.iter().map(|(_, place)| area(*place)));
    let mut placed = Vec::new();
    for index in order {
        let (label, (x, y)) = points[index];
        let half = CHARACTER / 2.0 * label.chars().count() as f64;
        let within = x.clamp(plot.left + half, plot.right - half);
        let above_and_below = [(within, y - 12.0), (within, y + 22.0)];
        let beside = [(x + half + 10.0, y + 4.0), (x - half - 10.0, y + 4.0)];
        let areas = above_and_below.into_iter().chain(beside).filter_map(|(x, baseline)| {
            let wanted = area_of_line(label, (x + half, baseline));
            let inside = wanted[0] >= plot.left - 0.5
                && wanted[1] >= plot.top - 10.0
                && wanted[2] <= plot.right + 0.5
                && wanted[3] <= plot.bottom;
            let is_free = inside && !taken.iter().any(|other| overlap(wanted, *other));
            is_free.then_some(((x, baseline), wanted))
        });
        let areas: Vec<_> = areas.collect();
        let is_clear =
            |(_, area): &&((f64, f64), Area)| !lines.iter().any(|line| overlap(*area, *line));
        if let Some((place, area)) = areas.iter().find(is_clear).or(areas.first()) {
            taken.push(*area);
            placed.push((index, *place));
        }
    }
    placed
}

/// Returns small areas along a path, for labels that should not cross it.
pub(crate) fn along(points: &[(f64, f64)]) -> Vec<Area> {
    const STEP: f64 = 4.0;
    let pairs = points.windows(2).flat_map(|pair| {
        let ((left, top), (right, bottom)) = (pair[0], pair[1]);
        let length = (right - left).hypot(bottom - top);
        let steps = (length / STEP).ceil().clamp(1.0, 1000.0) as u32;
        (0..=steps).map(move |step| {
            let part = f64::from(step) / f64::from(steps);
            let (x, y) = (left + part * (right - left), top + part * (bottom - top));
            [x - 1.0, y - 1.0, x + 1.0, y + 1.0]
        })
    });
    pairs.collect()
}

fn overlap(one: Area, other: Area) -> bool {
    one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3]
}

/// Returns positions for labels near the given heights, moved apart so that none covers
/// another, and kept inside the plot if there is room.
pub(crate) fn spread(wanted: &[f64], plot: Plot, distance: f64) -> Vec<f64> {
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
    fn labels_of_points_cover_nothing() {
        let plot = Plot { left: 0.0, right: 400.0, top: 10.0, bottom: 300.0 };
        let points =
            [("batch 1", (200.0, 100.0)), ("batch 2", (204.0, 101.0)), ("c", (200.0, 105.0))];
        let all = labelled(plot, &points, 0..3, &[], &[]);
        let area = |(index, (x, y)): &(usize, (f64, f64))| {
            let half = CHARACTER / 2.0 * points[*index].0.chars().count() as f64;
            area_of_line(points[*index].0, (x + half, *y))
        };
        for (at, one) in all.iter().enumerate() {
            for other in &all[at + 1..] {
                assert!(!overlap(area(one), area(other)), "{one:?} {other:?}");
            }
        }
        assert!(all.len() >= 2, "above and below: {all:?}");
        // Text that is there already keeps its place.
        let text = area_of_line("peak 100 GFLOP/s", (250.0, 88.0));
        let beside = labelled(plot, &points[..1], 0..1, &[text], &[]);
        assert_eq!(beside, [(0, (200.0, 122.0))]);
        // A line below the point moves the label away, and one everywhere does not.
        let crossed = |lines: &[Area]| labelled(plot, &points[..1], 0..1, &[text], lines)[0].1;
        assert!(crossed(&[[0.0, 110.0, 400.0, 125.0]]).0 > 210.0);
        assert_eq!(crossed(&[[0.0, 0.0, 400.0, 300.0]]), (200.0, 122.0));
    }

    #[test]
    fn long_names_are_cut_at_a_character() {
        assert_eq!(short("grün · blau", 5), "grün…");
        assert_eq!(short("grün", 5), "grün");
    }
}
