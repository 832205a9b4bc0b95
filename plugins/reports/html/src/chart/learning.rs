/*!
How a model learns: its loss by step, and the accuracy of its test by epoch, side by side.
*/

use maud::{Markup, html};
use report_common::host_record::Learning;
use report_common::{Scale, significant};

use super::axis::Axis;
use super::{Plot, mark, path, svg};

const WIDTH: f64 = 500.0;
const HEIGHT: f64 = 340.0;
const PLOT: Plot = Plot { left: 64.0, right: 480.0, top: 28.0, bottom: 290.0 };

/// Limit on the steps that are drawn; of more, each point is the mean of several.
const MOST: usize = 600;

/// Epochs up to which each has a mark.
const MOST_MARKS: usize = 40;

/// Returns the panels, or nothing if there is no loss above zero.
pub(crate) fn learning(title: &str, learning: &Learning) -> Option<Markup> {
    let loss = loss(&format!("{title}: loss"), learning);
    let accuracy = accuracy(&format!("{title}: accuracy of the test"), learning);
    if loss.is_none() && accuracy.is_none() {
        return None;
    }
    Some(html! {
        div.panels {
            @if let Some(panel) = loss { (panel) }
            @if let Some(panel) = accuracy { (panel) }
        }
    })
}

/// Places by steps, with values.
type Points = Vec<(f64, f64)>;

fn loss(title: &str, learning: &Learning) -> Option<Markup> {
    let drawable = |(_, loss): &(f64, f64)| *loss > 0.0 && loss.is_finite();
    let steps: Points = thinned(&learning.losses).into_iter().filter(drawable).collect();
    // The mean of an epoch is that of its steps, so it lies at its middle; the test is at its end.
    let at = |of: fn(&report_common::host_record::Epoch) -> Option<f64>, place: f64| -> Points {
        let epochs = learning.epochs.iter().enumerate();
        let points = epochs.filter_map(|(index, epoch)| {
            Some(((index as f64 + place) * learning.steps as f64, of(epoch)?))
        });
        points.filter(drawable).collect()
    };
    let (means, tests) = (at(|epoch| epoch.loss, 0.5), at(|epoch| epoch.test_loss, 1.0));
    let values: Vec<f64> = steps.iter().chain(&means).chain(&tests).map(|point| point.1).collect();
    if values.is_empty() {
        return None;
    }
    let (x, y) = (steps_axis(learning), Axis::fitting(&values, PLOT.bottom, PLOT.top));
    let place = |points: &Points| -> Points {
        points.iter().map(|(step, loss)| (x.at(*step), y.at(*loss))).collect()
    };
    let kind = if y.is_logarithmic() { "logarithmic" } else { "from zero" };
    let content = html! {
        (y.rows(PLOT, &Scale::for_value("1", 1.0), &format!("loss, {kind}")))
        (x.columns(PLOT, &Scale::for_value("1", 1.0), "steps"))
        path class="curve faint c7" fill="none" d=(path(&place(&steps))) style="fill:none" { title { "loss of each step" } }
        (curve(0, "mean of the epoch", &place(&means), &means))
        (curve(1, "test", &place(&tests), &tests))
    };
    let ends =
        |points: &Points| points.last().map_or("—".to_owned(), |end| significant(end.1, 3));
    let description = format!(
        "Loss over {} epochs of {} steps; the last epoch's mean is {}, that of the test after it {}.",
        learning.epochs.len(),
        learning.steps,
        ends(&means),
        ends(&tests)
    );
    let mut names = vec!["mean of the epoch".to_owned()];
    names.extend((!tests.is_empty()).then(|| "test after it".to_owned()));
    Some(
        html! { div { (svg((WIDTH, HEIGHT), title, &description, &content)) (mark::legend(&names)) } },
    )
}

fn accuracy(title: &str, learning: &Learning) -> Option<Markup> {
    let part = |right: u64| right as f64 / learning.test_examples.max(1) as f64 * 100.0;
    let epochs = learning.epochs.iter().enumerate();
    let points: Points = epochs
        .filter_map(|(index, epoch)| {
            Some(((index + 1) as f64 * learning.steps as f64, part(epoch.right?)))
        })
        .collect();
    let last = points.last()?.1;
    let x = steps_axis(learning);
    let y = Axis::around(points.iter().map(|point| point.1), PLOT.bottom, PLOT.top);
    let places: Points = points.iter().map(|(step, part)| (x.at(*step), y.at(*part))).collect();
    let content = html! {
        (y.rows(PLOT, &Scale::for_value("1", 1.0), "accuracy of the test in %, not from zero"))
        (x.columns(PLOT, &Scale::for_value("1", 1.0), "steps"))
        (curve(1, "test", &places, &points))
    };
    let description = format!(
        "Accuracy of the test after each of {} epochs; the last is {} %.",
        learning.epochs.len(),
        significant(last, 4)
    );
    Some(svg((WIDTH, HEIGHT), title, &description, &content))
}

fn steps_axis(learning: &Learning) -> Axis {
    let steps = learning.epochs.len() as f64 * learning.steps as f64;
    Axis::from_zero([steps], PLOT.left, PLOT.right)
}

/// Returns a line with marks, unless they would cover it.
fn curve(series: usize, name: &str, places: &Points, values: &Points) -> Markup {
    html! {
        path class={ "curve c" (series) } fill="none" d=(path(places)) style="fill:none" { title { (name) } }
        @if places.len() <= MOST_MARKS {
            @for (place, (_, value)) in places.iter().zip(values) {
                (mark::mark(series, false, *place, &format!("{name}: {}", significant(*value, 4))))
            }
        }
    }
}

/// Returns steps and their losses; of many, means of neighbours.
fn thinned(losses: &[Option<f32>]) -> Points {
    let several = losses.len().div_ceil(MOST).max(1);
    let mean = |(index, some): (usize, &[Option<f32>])| {
        let known: Vec<f64> = some.iter().flatten().map(|loss| f64::from(*loss)).collect();
        let middle = (index * several) as f64 + some.len() as f64 / 2.0;
        (!known.is_empty()).then(|| (middle, known.iter().sum::<f64>() / known.len() as f64))
    };
    losses.chunks(several).enumerate().filter_map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_steps_are_drawn_as_means() {
        assert_eq!(thinned(&[Some(2.0), None, Some(1.0)]), [(0.5, 2.0), (2.5, 1.0)]);
        let many: Vec<Option<f32>> = (0..1200).map(|step| Some((step % 2) as f32)).collect();
        let points = thinned(&many);
        assert_eq!((points.len(), points[1]), (600, (3.0, 0.5)));
    }

    #[test]
    fn a_loss_that_is_never_above_zero_is_not_drawn() {
        let epoch = report_common::host_record::Epoch { loss: Some(0.0), ..Default::default() };
        let none = Learning {
            steps: 3,
            losses: vec![Some(0.0), None],
            epochs: vec![epoch],
            ..Default::default()
        };
        assert!(learning("m", &none).is_none());
    }
}
