//! Training: the words for its figures.

use host_page::{humanise, significant};
use host_record::Learning;
use maud::{Markup, html};

use crate::Case;

/// Returns how a case learned, if it was trained by epochs.
pub(crate) fn learning(case: &Case) -> Option<&Learning> {
    case.conditions()?.learning.as_ref()?.as_ref().ok()
}

/// Returns what the figures of a trained case come to.
pub(crate) fn caption(case: &Case) -> Markup {
    let ratio = case.value("scaling.training-to-inference");
    html! {
        @if let Some(explained) = case.value("training.explained") {
            "The phases explain " (significant(explained, 4)) " % of the measured steps. "
        }
        @if let Some(cost) = cost(case) { (cost) " " }
        @if let Some(ratio) = ratio {
            "A step takes " (significant(ratio, 3)) " times as long as a pass of inference on a batch of the same size. "
        }
        (summary(case))
    }
}

/// Returns the cost of looking, in a sentence.
fn cost(case: &Case) -> Option<String> {
    let result = case.result("training.cost-of-looking")?;
    let cost = significant(*result.value.as_ref().ok()?, 2);
    Some(match result.interval {
        Some((low, high)) if low <= 0.0 && high >= 0.0 => {
            let (low, high) = (significant(low, 2), significant(high, 2));
            format!(
                "No cost of looking is shown: {cost} % of a step, with an interval from {low} to {high} %."
            )
        }
        _ => format!("Looking costs {cost} % of a step."),
    })
}

/// Returns what training by epochs came to, in one line.
fn summary(case: &Case) -> String {
    let Some(learning) = learning(case) else { return String::new() };
    let mut text = format!(
        "Trained from the weights of the file for {} epochs of {} steps",
        learning.epochs.len(),
        learning.steps
    );
    if let Some(time) = case.value("training.time") {
        text.push_str(&format!(", in {}", humanise(time, "ns")));
    }
    if let Some(result) = case.result("training.time-to-accuracy")
        && let (Ok(time), Some(wanted)) =
            (&result.value, result.attributes.get("accuracy").and_then(|text| text.parse().ok()))
    {
        let wanted: f64 = wanted;
        text.push_str(&format!(
            "; at least {} % of the test were right after {}",
            significant(wanted * 100.0, 3),
            humanise(*time, "ns")
        ));
    }
    text.push_str(". Times contain reading the examples, and no test.");
    text
}
