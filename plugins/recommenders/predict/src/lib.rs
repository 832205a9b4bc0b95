/*!
Times of configurations that were not measured, from those that were.

The module [`recommender_common::roofline`] says how: a regression with a roofline's shape, and conformal intervals from the
errors of cases that are left out one by one. Predictions are stated apart from results, and the advice has the errors of each
family, so that a reader sees how good such predictions were where they could be checked.

By default the powers of two between the smallest and the largest batch of each family are predicted, where they were not
measured. `at` asks for others, by values of axes: a batch, a sequence's length, a precision, a device. Each entry stands for
the cases of the run with these values in place of their own. A precision or a device that a model was not measured with is
predicted from other families, which takes operations, bytes and peaks: those of the run's cases (the metric `model` states
them), or for a device that is not here, `peaks`.

Beyond what was measured nothing is predicted. The advice says what was refused, and why.
*/

use std::collections::{BTreeMap, BTreeSet};

use plugin_guest::{
    ActiveRecommender, Description, Error, Prediction, Recommendation, RecommenderHost,
};
use recommender_common::observation::{
    DevicePeaks, Work, family_of, group_of, is_same_task, metric_of, metric_value, observation,
    peaks_of, work_of,
};
use recommender_common::recommendation;
use recommender_common::roofline::{Basis, FamilyErrors, Predicted, Predictor, Refusal};
use report_common::host_record::Precision;
use report_common::{Axis, Case, CaseKey, Run, humanise_metric};
use serde::Deserialize;

/// Lines about refusals and families that an explanation has at most.
const MOST_LINES: usize = 30;

/// The recommender.
pub struct Predict;

/// The options.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Options {
    /// Values of axes to predict at.
    pub at: Vec<BTreeMap<String, Coordinate>>,
    /// The part of measurements that are to lie in the intervals.
    pub confidence: f64,
    /// Peaks of devices whose peaks the run does not have.
    pub peaks: Vec<PeaksOption>,
}

/// A value of an axis.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "a name or a whole number")]
pub enum Coordinate {
    /// A count.
    Count(u32),
    /// A name.
    Text(String),
}

impl Coordinate {
    fn text(&self) -> String {
        match self {
            Self::Count(count) => count.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

/// Peaks of a device in a precision.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PeaksOption {
    /// The device's id.
    pub device: String,
    /// The precision.
    pub precision: Precision,
    /// Operations for each second.
    pub flops_per_second: f64,
    /// Bytes of its memory for each second.
    pub bytes_per_second: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { at: Vec::new(), confidence: 0.9, peaks: Vec::new() }
    }
}

impl Options {
    fn check(&self) -> Result<(), Error> {
        if !(self.confidence > 0.0 && self.confidence < 1.0) {
            return Err(Error::Options(
                "`confidence` lies between 0 and 1, such as 0.9".to_owned(),
            ));
        }
        let mut key = CaseKey::new("m", "b", "d");
        for (axis, value) in self.at.iter().flatten() {
            let axis: Axis =
                axis.parse().map_err(|error| Error::Options(format!("at: {error}")))?;
            axis.set(&mut key, &value.text())
                .map_err(|error| Error::Options(format!("at: {axis}: {error}")))?;
        }
        let is_peak = |number: f64| number.is_finite() && number > 0.0;
        match self
            .peaks
            .iter()
            .find(|it| !is_peak(it.flops_per_second) || !is_peak(it.bytes_per_second))
        {
            Some(wrong) => {
                Err(Error::Options(format!("peaks of `{}` are above zero", wrong.device)))
            }
            None => Ok(()),
        }
    }
}

impl ActiveRecommender for Predict {
    type Options = Options;

    fn describe() -> Description {
        plugin_guest::describe!("predict", {
            "at" => "Configurations to predict: a list of tables of axes and values, such as { batch = 24 }; by default powers of two between measured batches.",
            "confidence" => "Part of measurements that lie in such intervals; 0.9 by default.",
            "peaks" => "Peaks of devices that the run does not know: tables of device, precision, flops-per-second and bytes-per-second.",
        })
    }

    fn recommend(
        host: &mut dyn RecommenderHost,
        options: Options,
    ) -> Result<Vec<Recommendation>, Error> {
        options.check()?;
        let run = Run::read(host)?;
        let (predictions, advice) = predict(&run, &options);
        if !predictions.is_empty() {
            host.predict(predictions)?;
        }
        Ok(advice)
    }
}

plugin_guest::export_active_recommender!(Predict);

/// A configuration to predict, with the case that it was made from.
struct Target<'a> {
    key: CaseKey,
    like: &'a Case,
}

fn predict(run: &Run, options: &Options) -> (Vec<Prediction>, Vec<Recommendation>) {
    let predictor = Predictor::new(run.cases.iter().filter_map(observation));
    let mut predictions = Vec::new();
    // By the reason, so that many configurations with one share a line.
    let mut refusals: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for target in targets(run, &predictor, options) {
        match one(run, &predictor, &target, options) {
            Ok(found) => predictions.push(stated(&target.key, &found, options.confidence)),
            Err(reason) => refusals.entry(reason).or_default().push(target.key.to_string()),
        }
    }
    let advice = advice(run, &predictor, &predictions, &refusals, options);
    (predictions, advice)
}

/// Returns the configurations to predict: those of the option, or the powers of two between measured batches.
fn targets<'a>(run: &'a Run, predictor: &Predictor, options: &Options) -> Vec<Target<'a>> {
    let measured: BTreeSet<&CaseKey> =
        run.cases.iter().filter(|case| case.is_finished()).map(|case| &case.record.key).collect();
    let bases = || {
        run.cases.iter().filter(|case| case.is_finished() && metric_of(case.key.scenario).is_some())
    };
    let mut seen = BTreeSet::new();
    let mut targets = Vec::new();
    let mut add = |key: CaseKey, like: &'a Case| {
        if !measured.contains(&key) && seen.insert(key.clone()) {
            targets.push(Target { key, like });
        }
    };
    if !options.at.is_empty() {
        for changes in &options.at {
            for case in bases() {
                let mut key = case.record.key.clone();
                let set = |(axis, value): (&String, &Coordinate)| -> Option<()> {
                    axis.parse::<Axis>().ok()?.set(&mut key, &value.text()).ok()
                };
                // They were checked before.
                if changes.iter().map(set).all(|set| set.is_some()) {
                    add(key, case);
                }
            }
        }
        return targets;
    }
    let by_id: BTreeMap<&str, &Case> = bases().map(|case| (case.id.as_str(), case)).collect();
    for (_, family) in predictor.families() {
        let (first, last) = (&family[0], &family[family.len() - 1]);
        let Some(like) = by_id.get(first.case.as_str()) else { continue };
        let powers = (0..31).map(|power| 1_u32 << power);
        let inside = powers.filter(|batch| {
            (first.batch..last.batch).contains(&f64::from(*batch))
                && f64::from(*batch) > first.batch
        });
        inside.for_each(|batch| add(CaseKey { batch, ..like.record.key.clone() }, like));
    }
    targets
}

/// Predicts one configuration.
fn one(
    run: &Run,
    predictor: &Predictor,
    target: &Target<'_>,
    options: &Options,
) -> Result<Predicted, String> {
    let Target { key, like } = target;
    let family = family_of(key);
    let is_known = predictor.families().any(|(name, _)| name == family);
    let found = if is_known {
        predictor.between(&family, f64::from(key.batch), options.confidence)
    } else {
        let work = work(run, key, like)?;
        let peaks = peaks(run, key, options)?;
        predictor.elsewhere(&group_of(key), &work.at(&peaks), options.confidence)
    };
    found.map_err(|refusal: Refusal| refusal.to_string())
}

/// Returns the work of a configuration whose family was not measured: of a case of the same task, or between two tasks that
/// differ in one number, such as the length of sequences.
fn work(run: &Run, key: &CaseKey, like: &Case) -> Result<Work, String> {
    let of_case = |case: &Case| {
        let own = &case.record.key;
        let work = work_of(case)?;
        let width = width(key.precision) / width(own.precision);
        Some(work.of_batch(f64::from(own.batch), f64::from(key.batch)).of_width(width))
    };
    let unknown = || format!("the operations and bytes of {} are not known", key.model);
    let same = run.cases.iter().filter(|case| is_same_task(&case.record.key, key));
    if let Some(work) = same.filter_map(of_case).next() {
        return Ok(work);
    }
    // One number of the task is new: between those that were measured, costs are interpolated on logarithms.
    let differs = |axis: &&Axis| axis.of(&like.record.key) != axis.of(key) && axis.is_number();
    let axis = Axis::ALL.iter().filter(|axis| **axis != Axis::Batch).find(differs);
    let axis = *axis.ok_or_else(unknown)?;
    let number = |key: &CaseKey| axis.value(key).and_then(|text| text.parse::<f64>().ok());
    let wanted = number(key).ok_or_else(unknown)?;
    let mut known: Vec<(f64, Work)> = Vec::new();
    for case in &run.cases {
        let mut same = case.record.key.clone();
        if let (Some(value), Some(work)) = (number(&same), of_case(case))
            && axis.set(&mut same, &wanted.to_string()).is_ok()
            && is_same_task(&same, key)
            && !known.iter().any(|(other, _)| *other == value)
        {
            known.push((value, work));
        }
    }
    known.sort_by(|one, other| one.0.total_cmp(&other.0));
    let next = known.partition_point(|(value, _)| *value < wanted);
    let beyond = || format!("its {axis} is beyond those that were measured with {}", key.model);
    let (Some(below), Some(above)) = (next.checked_sub(1).map(|it| known[it]), known.get(next))
    else {
        return Err(beyond());
    };
    let part = (wanted / below.0).ln() / (above.0 / below.0).ln();
    let between = |of: fn(&Work) -> f64| {
        let [one, other] = [of(&below.1), of(&above.1)].map(|it| it.max(f64::MIN_POSITIVE).ln());
        (one * (1.0 - part) + other * part).exp()
    };
    Ok(Work {
        operations: between(|work| work.operations),
        bytes: between(|work| work.bytes),
        weight_bytes: between(|work| work.weight_bytes),
    })
}

/// Bytes of a number.
fn width(precision: Precision) -> f64 {
    match precision {
        Precision::Fp32 => 4.0,
        Precision::Fp16 | Precision::Bf16 => 2.0,
        Precision::Int8 => 1.0,
    }
}

/// Returns the peaks of a configuration's device in its precision.
fn peaks(run: &Run, key: &CaseKey, options: &Options) -> Result<DevicePeaks, String> {
    let is_given = |it: &&PeaksOption| it.device == key.device && it.precision == key.precision;
    if let Some(given) = options.peaks.iter().find(is_given) {
        let PeaksOption { flops_per_second, bytes_per_second, .. } = *given;
        return Ok(DevicePeaks { operations: flops_per_second, bytes: bytes_per_second });
    }
    let is_it = |case: &&Case| {
        let own = &case.record.key;
        own.device == key.device && own.precision == key.precision
    };
    run.cases.iter().filter(is_it).find_map(peaks_of).ok_or_else(|| {
        format!(
            "the peaks of {} in {} are not known: give them as `peaks`, or add the metric `model`",
            key.device, key.precision
        )
    })
}

/// Returns a prediction in the unit of its metric.
fn stated(key: &CaseKey, found: &Predicted, confidence: f64) -> Prediction {
    let metric = metric_of(key.scenario).unwrap_or_default();
    let value = |seconds| metric_value(key.scenario, f64::from(key.batch), seconds);
    let bounds = [found.interval.0, found.interval.1].map(value);
    let coordinate = |axis: &Axis| Some((axis.name().to_owned(), axis.value(key)?));
    Prediction {
        coordinates: Axis::ALL.iter().filter_map(coordinate).collect(),
        metric: metric.to_owned(),
        value: value(found.seconds),
        interval: (bounds[0].min(bounds[1]), bounds[0].max(bounds[1])),
        confidence,
        unit: if metric.starts_with("latency") { "ns" } else { "1/s" }.to_owned(),
        cases: found.cases.clone(),
        attributes: [
            ("errors".to_owned(), found.errors.to_string()),
            (
                "basis".to_owned(),
                match found.basis {
                    Basis::Between => "batches of the same family",
                    Basis::OtherFamilies => "other families, by operations, bytes and peaks",
                }
                .to_owned(),
            ),
        ]
        .into(),
    }
}

fn advice(
    run: &Run,
    predictor: &Predictor,
    predictions: &[Prediction],
    refusals: &BTreeMap<String, Vec<String>>,
    options: &Options,
) -> Vec<Recommendation> {
    let mut advice = Vec::new();
    let percent = |part: f64| format!("{:.0} %", 100.0 * part);
    let confidence = percent(options.confidence);
    if !predictions.is_empty() {
        let mut lines: Vec<String> = predictions
            .iter()
            .map(|one| {
                let written = |value| humanise_metric(&one.metric, value, &one.unit);
                let (low, high) = one.interval;
                format!(
                    "{}: {} {} ({} to {})",
                    named(&one.coordinates),
                    one.metric,
                    written(one.value),
                    written(low),
                    written(high)
                )
            })
            .collect();
        lines.push(format!(
            "Predicted, and not measured. {confidence} of such measurements lie in such intervals, if the configurations \
             are like the measured ones."
        ));
        let errors = predictor.errors();
        lines.extend(errors.iter().take(MOST_LINES).map(error_line));
        if errors.len() > MOST_LINES {
            lines.push(format!("And {} more families.", errors.len() - MOST_LINES));
        }
        let cases = predictions.iter().flat_map(|one| one.cases.clone()).collect();
        let noun = if predictions.len() == 1 { "configuration" } else { "configurations" };
        let typical = [Basis::Between, Basis::OtherFamilies];
        let typical = typical.into_iter().filter_map(|basis| {
            let text = match basis {
                Basis::Between => "between measured batches",
                Basis::OtherFamilies => "from other families",
            };
            Some(format!("{text} {:.1} %", 100.0 * predictor.typical_error(basis)?.exp_m1()))
        });
        let typical: Vec<String> = typical.collect();
        advice.push(recommendation(
            "prediction",
            format!(
                "{} {noun} predicted without measuring; median error where it could be checked: {}",
                predictions.len(),
                typical.join(", ")
            ),
            &lines,
            cases,
            &confidence,
            check(predictions),
        ));
    }
    if !refusals.is_empty() {
        let count: usize = refusals.values().map(Vec::len).sum();
        let noun = if count == 1 { "configuration" } else { "configurations" };
        let lines: Vec<String> = refusals
            .iter()
            .take(MOST_LINES)
            .map(|(reason, keys)| match keys.as_slice() {
                [one] => format!("{one}: {reason}."),
                [one, rest @ ..] => format!("{one}, and {} more: {reason}.", rest.len()),
                [] => String::new(),
            })
            .collect();
        let cases = run.cases.iter().filter(|case| case.is_finished()).map(|case| case.id.clone());
        advice.push(recommendation(
            "not-predicted",
            format!("{count} {noun} not predicted"),
            &lines,
            cases.collect(),
            "none",
            "measure them: add them to the `[matrix]`, and `host run` the manifest".to_owned(),
        ));
    }
    advice
}

/// The coordinates of a prediction in words, in the order of the axes.
fn named(coordinates: &BTreeMap<String, String>) -> String {
    let mut key = CaseKey::new("", "", "");
    for axis in Axis::ALL {
        if let Some(value) = coordinates.get(axis.name()) {
            // Each was written from a key.
            let _ = axis.set(&mut key, value);
        }
    }
    key.to_string()
}

fn error_line(errors: &FamilyErrors) -> String {
    let how = match errors.basis {
        Basis::Between => "each left out in turn",
        Basis::OtherFamilies => "all left out together",
    };
    let count = errors.errors.len();
    let noun = if count == 1 { "case" } else { "cases" };
    format!(
        "{}: {count} {noun}, {how}, were predicted within {:.1} % in the median, {:.1} % at most.",
        errors.family,
        100.0 * errors.median(),
        100.0 * errors.largest()
    )
}

/// The command that checks predictions: measuring them.
fn check(predictions: &[Prediction]) -> String {
    let batches: BTreeSet<u32> = predictions
        .iter()
        .filter_map(|one| one.coordinates.get(Axis::Batch.name())?.parse().ok())
        .collect();
    let batches: Vec<String> = batches.iter().map(u32::to_string).collect();
    format!(
        "`host run` the manifest with `batch = [{}]` under [matrix], and `host results show latest`",
        batches.join(", ")
    )
}

#[cfg(test)]
mod tests;
