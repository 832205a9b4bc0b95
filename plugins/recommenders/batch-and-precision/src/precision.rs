//! The cheapest precision whose accuracy is within a bound of the most accurate one.

use std::collections::BTreeMap;

use host_statistics::{PairedOutcomes, outcomes_of_text, paired_outcomes};
use plugin_guest::{Recommendation, RecommenderHost};
use recommender_common::recommendation;
use report_common::{Axis, Case, MetricValue, Run, humanise_metric};

use crate::options::{Limit, Options};

const ACCURACY: &str = "accuracy.top1";
const THROUGHPUT: &str = "throughput.samples";

/// Confidence of the intervals of differences.
const CONFIDENCE: f64 = 0.95;

/// Asks for precisions that were not measured, each once for each configuration, and returns why some cannot be had.
pub(crate) fn ask(host: &mut dyn RecommenderHost, run: &Run, options: &Options) -> Vec<String> {
    let mut refused = Vec::new();
    for (name, cases) in groups(run) {
        for precision in &options.precisions {
            if cases.iter().any(|case| case.key.precision == *precision) {
                continue;
            }
            let Some(like) = cases.first() else { continue };
            let changes = [(Axis::Precision.name(), precision.name().to_owned())];
            let reason = format!("the accuracy and speed of {precision}");
            if let Err(why) = host.ask(&like.id, &changes, &reason) {
                refused.push(format!("{precision} of {name}: {}.", why.trim_end_matches('.')));
            }
        }
    }
    refused
}

/// Returns cases that differ in the precision alone, by the name of the rest, in the order of the run.
fn groups(run: &Run) -> Vec<(String, Vec<&Case>)> {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut groups: Vec<(String, Vec<&Case>)> = Vec::new();
    for case in &run.cases {
        let axes = Axis::ALL.iter().filter(|axis| **axis != Axis::Precision);
        let words: Vec<String> = axes.filter_map(|axis| axis.labelled(&case.record.key)).collect();
        let name = words.join(" · ");
        let place = *places.entry(name.clone()).or_insert(groups.len());
        if place == groups.len() {
            groups.push((name, Vec::new()));
        }
        groups[place].1.push(case);
    }
    groups
}

/// A precision beside the most accurate one.
struct Rated<'a> {
    case: &'a Case,
    accuracy: f64,
    throughput: &'a MetricValue,
    value: f64,
    /// Accuracy less that of the most accurate, with its bounds.
    difference: f64,
    bounds: Option<(f64, f64)>,
    paired: Option<PairedOutcomes>,
}

/// Returns the cheapest precision of each configuration.
pub(crate) fn cheapest(
    run: &Run,
    limits: &[Limit],
    within: f64,
    refused: &[String],
) -> Vec<Recommendation> {
    let mut advice = Vec::new();
    for (name, cases) in groups(run) {
        let finished = cases.iter().filter(|case| case.is_finished());
        let accurate: Vec<(&Case, f64)> =
            finished.filter_map(|case| Some((*case, case.value(ACCURACY)?))).collect();
        let best =
            accurate.iter().copied().reduce(|best, one| if one.1 > best.1 { one } else { best });
        let Some((best, most)) = best.filter(|_| accurate.len() > 1) else { continue };
        let mut rated: Vec<Rated<'_>> = accurate
            .iter()
            .filter_map(|(case, accuracy)| {
                let throughput = case.result(THROUGHPUT)?;
                let paired = paired(best, case);
                Some(Rated {
                    case,
                    accuracy: *accuracy,
                    throughput,
                    value: *throughput.value.as_ref().ok()?,
                    difference: accuracy - most,
                    bounds: paired.map(|found| (found.low, found.high)),
                    paired,
                })
            })
            .collect();
        rated.sort_by(|one, other| other.value.total_cmp(&one.value));
        let keeps_limits = |case: &Case| {
            limits.iter().all(|limit| case.value(&limit.metric).is_some_and(|it| limit.keeps(it)))
        };
        let eligible: Vec<&Rated<'_>> = rated
            .iter()
            .filter(|one| -one.difference <= within + 1e-12 && keeps_limits(one.case))
            .collect();
        let chosen = eligible
            .iter()
            .copied()
            .reduce(|best, one| if one.value > best.value { one } else { best });
        advice.push(match chosen {
            Some(chosen) => choice(run, &name, chosen, best, &rated, within, refused),
            None => nothing(run, &name, &rated, limits, within),
        });
    }
    advice
}

fn choice(
    run: &Run,
    name: &str,
    chosen: &Rated<'_>,
    best: &Case,
    rated: &[Rated<'_>],
    within: f64,
    refused: &[String],
) -> Recommendation {
    let is_best = std::ptr::eq(chosen.case, best);
    let surely = is_best || chosen.bounds.is_some_and(|(low, _)| -low <= within);
    let percent = |part: f64| format!("{:.2} %", 100.0 * part);
    let mut lines: Vec<String> = rated
        .iter()
        .map(|one| {
            let throughput = humanise_metric(THROUGHPUT, one.value, &one.throughput.unit);
            let mut line = format!(
                "{}: accuracy {}, throughput {throughput}",
                one.case.key.precision,
                percent(one.accuracy)
            );
            match (&one.paired, one.bounds) {
                _ if std::ptr::eq(one.case, best) => line.push_str(", the most accurate"),
                (Some(paired), Some((low, high))) => line.push_str(&format!(
                    ", {} against the most accurate ({} to {} at 95 %; of {} examples it alone has {} right and {} wrong, \
                     McNemar's p = {:.3})",
                    percent(one.difference),
                    percent(low),
                    percent(high),
                    paired.examples,
                    paired.only_second,
                    paired.only_first,
                    paired.probability
                )),
                _ => line.push_str(&format!(
                    ", {} against the most accurate; not of the same examples, or too many to compare one by one",
                    percent(one.difference)
                )),
            }
            line.push('.');
            line
        })
        .collect();
    lines.extend(refused.iter().cloned());
    let remark = match surely {
        true => String::new(),
        false => " (not certain: the interval of its accuracy reaches beyond that)".to_owned(),
    };
    let mut cases = vec![chosen.case.id.clone(), best.id.clone()];
    cases.extend(rated.iter().map(|one| one.case.id.clone()));
    let precision = chosen.case.key.precision;
    let mut advice = recommendation(
        "cheapest-precision",
        format!(
            "{name}: {precision} has the highest throughput of the precisions whose accuracy is within {} of the best{remark}",
            percent(within)
        ),
        &lines,
        cases,
        if surely { "95 %, for other examples of the same kind" } else { "not certain" },
        match is_best {
            true => format!("`host results show {}`", run.id),
            false => format!(
                "`host compare {} --between precision={},{precision}`",
                run.id, best.key.precision
            ),
        },
    );
    advice.attributes.insert("precision".to_owned(), precision.name().to_owned());
    advice
}

fn nothing(
    run: &Run,
    name: &str,
    rated: &[Rated<'_>],
    limits: &[Limit],
    within: f64,
) -> Recommendation {
    let bounds: Vec<String> = limits.iter().map(Limit::text).collect();
    let lines: Vec<String> = rated
        .iter()
        .map(|one| format!("{}: accuracy {:.2} %.", one.case.key.precision, 100.0 * one.accuracy))
        .collect();
    recommendation(
        "nothing-fits",
        format!(
            "{name}: no precision is within {:.2} % of the best accuracy and within {}",
            100.0 * within,
            bounds.join(" and ")
        ),
        &lines,
        rated.iter().map(|one| one.case.id.clone()).collect(),
        "as measured",
        format!("`host results show {}`", run.id),
    )
}

/// Compares a case with the most accurate one by the examples that only one of them has right, if they have the same ones.
fn paired(best: &Case, case: &Case) -> Option<PairedOutcomes> {
    let of = |case: &Case| {
        let attributes = &case.result(ACCURACY)?.attributes;
        let examples = attributes.get("examples")?.parse().ok()?;
        let right = outcomes_of_text(attributes.get("outcomes")?, examples)?;
        Some((attributes.get("labels-hash")?.clone(), right))
    };
    let ((labels, first), (other_labels, second)) = (of(best)?, of(case)?);
    (labels == other_labels).then(|| paired_outcomes(&first, &second, CONFIDENCE)).flatten()
}
