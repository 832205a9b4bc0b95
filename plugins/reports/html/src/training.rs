//! Training: phases of a step beside a pass of inference, and how loss and accuracy develop.

use maud::{Markup, html};
use report_common::{Case, Labels, Run, humanise, significant};

use crate::chart::{self, Bar, Part};

/// Limit on the cases that are drawn.
const MOST: usize = 6;

/// Metrics of the mean time of a phase.
const PHASE: &str = "training.phase.";

/// Returns the section, if a case was trained.
pub(crate) fn section(run: &Run, labels: &Labels) -> Option<Markup> {
    let trained: Vec<&Case> = run.cases.iter().filter(|case| is_trained(case)).collect();
    let figures: Vec<_> =
        trained.iter().take(MOST).filter_map(|case| figure(run, case, labels)).collect();
    if figures.is_empty() {
        return None;
    }
    Some(html! {
        p {
            "A measured step waits for the device after each of its phases, in this order. The step without marks is timed apart, in turns with marked ones; it is the cost of training as it usually runs."
        }
        @for figure in &figures { (figure) }
        @if trained.len() > MOST {
            p.quiet { "Charts are drawn for the first " (MOST) " of " (trained.len()) " cases that were trained; the tables have them all." }
        }
    })
}

fn is_trained(case: &Case) -> bool {
    case.results.iter().any(|result| result.metric.starts_with(PHASE) && result.value.is_ok())
        || learning(case).is_some()
}

fn learning(case: &Case) -> Option<&report_common::host_record::Learning> {
    case.conditions()?.learning.as_ref()?.as_ref().ok()
}

fn figure(run: &Run, case: &Case, labels: &Labels) -> Option<Markup> {
    let name = labels.label(case);
    let ratio = case.result("scaling.training-to-inference");
    let pass = ratio
        .and_then(|ratio| run.case(ratio.attributes.get("baseline")?))
        .and_then(|inference| per_batch(inference, "throughput.samples"));
    let bars = bars(case, pass);
    let steps = chart::steps(&format!("Phases of a step: {name}"), &bars);
    let curves = learning(case)
        .and_then(|learning| chart::learning(&format!("Training of {name}"), learning));
    if steps.is_none() && curves.is_none() {
        return None;
    }
    let ratio = ratio.and_then(|ratio| ratio.value.as_ref().ok().copied());
    Some(html! {
        figure {
            h3 { (name) }
            @if let Some(steps) = steps {
                (steps)
                (phases(&bars))
                figcaption {
                    @if let Some(explained) = case.value("training.explained") {
                        "The phases explain " (significant(explained, 4)) " % of the measured steps. "
                    }
                    @if let Some(cost) = cost(case) { (cost) " " }
                    @if let Some(ratio) = ratio {
                        "A step takes " (significant(ratio, 3)) " times as long as a pass of inference on a batch of the same size."
                    }
                }
            }
            @if let Some(curves) = curves {
                (curves)
                figcaption { (summary(case)) }
            }
        }
    })
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

/// Returns the mean time of a batch in nanoseconds, by a throughput in samples per second.
fn per_batch(case: &Case, metric: &str) -> Option<f64> {
    let rate = case.value(metric).filter(|rate| *rate > 0.0)?;
    Some(f64::from(case.key.batch) / rate * 1e9)
}

fn bars(case: &Case, pass: Option<f64>) -> Vec<Bar> {
    let phases = case.results.iter().filter_map(|result| {
        let name = result.metric.strip_prefix(PHASE)?;
        Some((name.to_owned(), *result.value.as_ref().ok()?))
    });
    let mut parts: Vec<Part> = phases
        .enumerate()
        .map(|(index, (name, time))| Part { name, time, colour: Some(index % 8) })
        .collect();
    let sum: f64 = parts.iter().map(|part| part.time).sum();
    if let Some(explained) = case.value("training.explained").filter(|share| *share > 0.0) {
        let time = (sum / explained * 100.0 - sum).max(0.0);
        parts.push(Part { name: "between".into(), time, colour: None });
    }
    let single = |name: &str, time: Option<f64>| {
        let part = Part { name: name.into(), time: time?, colour: Some(7) };
        Some(Bar { name: name.into(), parts: vec![part] })
    };
    let marked = (!parts.is_empty()).then(|| Bar { name: "measured step".into(), parts });
    let unmarked = single("step without marks", per_batch(case, "training.throughput"));
    let pass = single("pass of inference", pass);
    [marked, unmarked, pass].into_iter().flatten().collect()
}

/// Lists the phases with their colours, times and shares: narrow ones have no name in the chart.
fn phases(bars: &[Bar]) -> Markup {
    let marked = bars.iter().find(|bar| bar.parts.len() > 1);
    html! {
        @if let Some(bar) = marked {
            @let total: f64 = bar.parts.iter().map(|part| part.time).sum();
            ul.legend { @for part in &bar.parts { li {
                svg width="14" height="14" aria-hidden="true" {
                    rect class=(part.colour.map_or("rest".to_owned(), |colour| format!("c{colour}"))) x="1" y="1" width="12" height="12" {}
                }
                (chart::tooltip(part, total))
            } } }
        }
    }
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
