//! Speed-up of other devices over processors.

use host_statistics::ratio;
use report_common::{Axis, Case, Run, Scenario, case_label};

const CONFIDENCE: f64 = 0.95;

/// A case of another device beside the fastest processor that did the same.
pub(crate) struct SpeedUp<'a> {
    pub(crate) case: &'a Case,
    pub(crate) processor: &'a Case,
    /// How many times as fast it is.
    pub(crate) factor: f64,
    /// Its interval, if both have several processes.
    pub(crate) interval: Option<(f64, f64)>,
}

impl SpeedUp<'_> {
    /// `resnet-50 · cuda · … is 3.10 times as fast as cpu (3.02 to 3.19)`.
    pub(crate) fn text(&self) -> String {
        let Self { case, processor, factor, interval } = self;
        let bounds = match interval {
            Some((low, high)) => format!(" ({low:.2} to {high:.2})"),
            None => ", of one process".to_owned(),
        };
        format!(
            "{} is {factor:.2} times as fast as {}{bounds}.",
            case_label(case),
            processor.key.backend
        )
    }
}

/// Returns the metric that tells how fast a case is, and whether lower is better.
fn speed(case: &Case) -> Option<(&'static str, bool)> {
    match case.key.scenario {
        Scenario::SingleStream => Some(("latency.p50", true)),
        Scenario::Offline => Some(("throughput.samples", false)),
        _ => None,
    }
}

/// Returns the cases of other devices than processors, each beside the fastest processor that did the same.
pub(crate) fn speed_ups(run: &Run) -> Vec<SpeedUp<'_>> {
    let is_sound = |case: &&Case| {
        let simulated = case.report().is_none_or(|report| report.used.contains_key("simulated"));
        !simulated && case.valid() != Some(false)
    };
    let is_processor = |case: &Case| case.spec().is_some_and(|spec| spec.device.kind == "cpu");
    let (processors, others): (Vec<&Case>, Vec<&Case>) =
        run.cases.iter().filter(is_sound).partition(|case| is_processor(case));
    let found = others.into_iter().filter_map(|case| {
        let (metric, is_lower_better) = speed(case)?;
        let value = case.value(metric)?;
        let mut same = Axis::ALL.iter().filter(|it| !matches!(it, Axis::Backend | Axis::Device));
        let is_same = |other: &&&Case| same.all(|axis| axis.of(&case.key) == axis.of(&other.key));
        let with_value = processors.iter().filter(is_same);
        let with_value = with_value.filter_map(|other| Some((*other, other.value(metric)?)));
        let (processor, base) = with_value
            .reduce(|best, one| if (one.1 < best.1) == is_lower_better { one } else { best })?;
        let [own, reference] = [case, processor].map(|case| case.result(metric)?.process_values());
        let found = own
            .zip(reference)
            .and_then(|(own, reference)| ratio(&own, &reference, CONFIDENCE).ok());
        let found = found.map(|found| if is_lower_better { found } else { found.mirrored() });
        let plain = if is_lower_better { base / value } else { value / base };
        Some(SpeedUp {
            case,
            processor,
            factor: found.map_or(plain, |found| found.value),
            interval: found.map(|found| (found.low, found.high)),
        })
    });
    found.filter(|found| found.factor.is_finite()).collect()
}
