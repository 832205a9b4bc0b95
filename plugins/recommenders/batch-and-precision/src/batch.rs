//! The largest batch that meets the limits, by a search with real runs.

use std::collections::BTreeMap;

use plugin_guest::{Recommendation, RecommenderHost};
use recommender_common::observation::family_of;
use recommender_common::recommendation;
use report_common::host_record::{Failure, Unsupported};
use report_common::{Axis, Case, Gap, Outcome, Run, humanise_metric};

use crate::options::{Limit, Options};

/// Findings of a measured batch.
#[derive(Debug, Clone, PartialEq)]
enum Verdict {
    /// It meets the limits; whether another process is certain to.
    Fits { is_certain: bool },
    /// It breaks a limit, or there was no memory for it.
    TooLarge(String),
    /// It says nothing of the limits.
    Unknown(String),
}

/// A configuration without its batch, and what each of its batches shows.
struct Line<'a> {
    batches: BTreeMap<u32, (Verdict, &'a Case)>,
}

/// State of a search.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// This batch is to be measured next.
    Try { batch: u32, reason: String },
    /// The largest batch that fits is known to the resolution, or is the largest that is tried.
    Found,
    /// Nothing fits.
    Nothing,
    /// A case says nothing, so the search cannot go on.
    Stuck(String),
}

impl Line<'_> {
    /// Returns the largest batch that fits, below the smallest that does not.
    fn fitting(&self) -> Option<u32> {
        let most = self.too_large();
        let fits =
            self.batches.iter().filter(|(_, (verdict, _))| matches!(verdict, Verdict::Fits { .. }));
        fits.map(|(batch, _)| *batch).filter(|batch| most.is_none_or(|most| *batch < most)).max()
    }

    /// Returns the smallest batch that does not fit.
    fn too_large(&self) -> Option<u32> {
        let large =
            self.batches.iter().filter(|(_, (verdict, _))| matches!(verdict, Verdict::TooLarge(_)));
        large.map(|(batch, _)| *batch).min()
    }

    fn next(&self, resolution: f64, up_to: u32) -> Step {
        let (fitting, too_large) = (self.fitting(), self.too_large());
        let batch = match (fitting, too_large) {
            (Some(fits), None) if fits >= up_to => return Step::Found,
            (Some(fits), None) => fits.saturating_mul(2).min(up_to),
            (Some(fits), Some(large)) => {
                let width = f64::from(large - fits);
                if width <= 1.0 || width <= resolution * f64::from(fits) {
                    return Step::Found;
                }
                fits + (large - fits) / 2
            }
            (None, Some(1)) => return Step::Nothing,
            (None, Some(large)) => large / 2,
            (None, None) => {
                let reason = self.batches.values().find_map(|(verdict, _)| match verdict {
                    Verdict::Unknown(reason) => Some(reason.clone()),
                    _ => None,
                });
                return Step::Stuck(reason.unwrap_or_else(|| "nothing was measured".to_owned()));
            }
        };
        if let Some((Verdict::Unknown(reason), _)) = self.batches.get(&batch) {
            return Step::Stuck(reason.clone());
        }
        let known = |batch: Option<u32>| batch.map_or("none".to_owned(), |batch| batch.to_string());
        let reason = format!(
            "the largest batch within the limits: largest known {}, smallest too large {}",
            known(fitting),
            known(too_large)
        );
        Step::Try { batch, reason }
    }
}

/// Asks for the next cases of each search, and returns what is known.
pub(crate) fn largest(
    host: &mut dyn RecommenderHost,
    run: &Run,
    limits: &[Limit],
    options: &Options,
) -> Vec<Recommendation> {
    let mut lines: BTreeMap<String, Line<'_>> = BTreeMap::new();
    let mut order = Vec::new();
    for case in &run.cases {
        let family = family_of(&case.record.key);
        if !lines.contains_key(&family) {
            order.push(family.clone());
        }
        let line = lines.entry(family).or_insert(Line { batches: BTreeMap::new() });
        line.batches.insert(case.key.batch, (verdict(case, limits), case));
    }
    let mut advice = Vec::new();
    for family in order {
        let line = &lines[&family];
        let step = line.next(options.resolution, options.up_to);
        let mut refusal = None;
        if let Step::Try { batch, reason } = &step
            && let Some((_, like)) = line.batches.values().next()
        {
            let changes = [(Axis::Batch.name(), batch.to_string())];
            refusal = host.ask(&like.id, &changes, reason).err();
        }
        advice.push(found(run, &family, line, &step, refusal, limits, options));
    }
    advice
}

fn verdict(case: &Case, limits: &[Limit]) -> Verdict {
    match &case.record.outcome {
        Outcome::Finished(_) => {}
        Outcome::Failed { failure: failure @ Failure::OutOfMemory { .. } } => {
            return Verdict::TooLarge(failure.to_string());
        }
        Outcome::Failed { failure } => return Verdict::Unknown(failure.to_string()),
        Outcome::Gap { gap: gap @ Gap::Unsupported(Unsupported::Memory { .. }) } => {
            return Verdict::TooLarge(gap.to_string());
        }
        Outcome::Gap { gap } => return Verdict::Unknown(gap.to_string()),
    }
    let mut is_certain = true;
    for limit in limits {
        let Some(result) = case.result(&limit.metric) else {
            return Verdict::Unknown(format!("{} was not measured", limit.metric));
        };
        let value = match &result.value {
            Ok(value) => *value,
            Err(gap) => return Verdict::Unknown(format!("{} is a gap: {gap}", limit.metric)),
        };
        if !limit.keeps(value) {
            let value = humanise_metric(&limit.metric, value, &limit.unit);
            return Verdict::TooLarge(format!("{} is {value}", limit.metric));
        }
        if let Some((low, high)) = result.prediction().or(result.interval) {
            is_certain &= limit.keeps(if limit.is_upper { high } else { low });
        }
    }
    Verdict::Fits { is_certain }
}

fn found(
    run: &Run,
    family: &str,
    line: &Line<'_>,
    step: &Step,
    refusal: Option<String>,
    limits: &[Limit],
    options: &Options,
) -> Recommendation {
    let bounds: Vec<String> = limits.iter().map(Limit::text).collect();
    let bounds = bounds.join(" and ");
    let (fitting, too_large) = (line.fitting(), line.too_large());
    let mut lines = Vec::new();
    let mut cases = Vec::new();
    let mut is_certain = false;
    if let Some((verdict, case)) = fitting.and_then(|batch| line.batches.get(&batch)) {
        is_certain = matches!(verdict, Verdict::Fits { is_certain: true });
        let figures: Vec<String> = limits
            .iter()
            .map(|limit| limit.metric.as_str())
            .chain(["throughput.samples"])
            .filter_map(|metric| {
                let result = case.result(metric)?;
                let value = *result.value.as_ref().ok()?;
                Some(format!("{metric} {}", humanise_metric(metric, value, &result.unit)))
            })
            .collect();
        lines.push(format!("Batch {}: {}.", case.key.batch, figures.join(", ")));
        cases.push(case.id.clone());
    }
    if let Some((Verdict::TooLarge(why), case)) = too_large.and_then(|it| line.batches.get(&it)) {
        lines.push(format!(
            "Batch {} does not fit: {}.",
            case.key.batch,
            why.trim_end_matches('.')
        ));
        cases.push(case.id.clone());
    }
    let asked: Vec<_> = line
        .batches
        .values()
        .filter(|(_, case)| case.spec().is_some_and(|spec| spec.asked.is_some()))
        .collect();
    if !asked.is_empty() {
        let mut batches: Vec<u32> = asked.iter().map(|(_, case)| case.key.batch).collect();
        batches.sort_unstable();
        let batches: Vec<String> = batches.iter().map(u32::to_string).collect();
        lines.push(format!(
            "Measured for this search, beyond the matrix: batch {}.",
            batches.join(", ")
        ));
        cases.extend(asked.iter().map(|(_, case)| case.id.clone()));
    }
    let (title, kind) = match (step, fitting) {
        (Step::Found, Some(batch)) => {
            let known = match too_large {
                Some(_) if is_certain => String::new(),
                Some(_) => " (not certain: another process may break the limit)".to_owned(),
                None => format!(", the largest that was to be tried (`up-to` {})", options.up_to),
            };
            (
                format!("{family}: batch {batch} is the largest within {bounds}{known}"),
                "largest-batch",
            )
        }
        (Step::Nothing, _) => {
            lines.push(
                "The model itself, its engine and one example are beyond the limit: a smaller model, a smaller precision or \
                 a higher limit would help."
                    .to_owned(),
            );
            (format!("{family}: nothing fits within {bounds}, not even batch 1"), "nothing-fits")
        }
        (Step::Stuck(reason), fitting) => {
            lines.push(format!("The search ended: {}.", reason.trim_end_matches('.')));
            let known = fitting.map_or_else(
                || "nothing is known to fit".to_owned(),
                |batch| format!("batch {batch} fits, and larger ones are not known"),
            );
            (format!("{family}: {known} within {bounds}"), "unknown-batch")
        }
        (Step::Try { batch, .. }, fitting) => {
            lines.push(match &refusal {
                Some(refusal) => format!("Batch {batch} would tell more: {refusal}."),
                None => format!("Batch {batch} is measured next."),
            });
            let known = match (fitting, too_large) {
                (Some(fits), Some(large)) => {
                    format!("the largest batch is at least {fits} and below {large}")
                }
                (Some(fits), None) => format!("the largest batch is at least {fits}"),
                (None, Some(large)) => format!("the largest batch is below {large}"),
                (None, None) => "the largest batch is unknown".to_owned(),
            };
            (format!("{family}: {known} within {bounds}"), "unknown-batch")
        }
        (Step::Found, None) => (format!("{family}: nothing fits within {bounds}"), "nothing-fits"),
    };
    if cases.is_empty() {
        cases.extend(line.batches.values().map(|(_, case)| case.id.clone()));
    }
    let processes = line.batches.values().filter_map(|(_, case)| case.spec());
    let processes = processes.map(|spec| spec.measure.processes).max().unwrap_or(1);
    let confidence = match (kind, is_certain, processes) {
        ("largest-batch", true, 2..) => "another process fits, by its prediction interval",
        ("largest-batch", true, _) => "one process, which fits; the next is not known",
        _ => "not certain",
    };
    let mut advice = recommendation(
        kind,
        title,
        &lines,
        cases,
        confidence,
        format!("`host results show {} --format json`, the metrics of these cases", run.id),
    );
    if let Some(batch) = fitting {
        advice.attributes.insert("batch".to_owned(), batch.to_string());
    }
    advice
}
