/*!
The case that was not measured and that would most change the advice.

# Candidates

For each family of cases that differ in the batch alone: the middle of each gap between measured batches, and a batch twice as
large as the largest. Precisions, devices and backends that were not measured are for the person who writes the manifest to
add: nothing measured says anything of them, except by the recommender `predict`.

# What a candidate is worth

The advice is the configuration with the highest throughput of each task and scenario, among those that keep to the limits on
latencies. A candidate changes it if its own throughput is higher. The expected gain over the best known one is the *expected
improvement* (J. Mockus, V. Tiesis and A. Zilinskas 1978; D. R. Jones, M. Schonlau and W. J. Welch, "Efficient Global
Optimization of Expensive Black-Box Functions", *Journal of Global Optimization* 13, 1998) in logarithms, times the chance that
the candidate keeps the limits. The throughput is predicted as by `predict`, and its uncertainty is the typical error of
measured cases that are left out; twice that beyond the measured batches, where it is a guess. So these figures rank what to
measure, and nothing rests on them: they are not predictions.

If the two best cannot be told apart, more processes of both would change the advice more than any further case, and the
advice says how many.

If the manifest lets it ask for cases, the best candidate is measured as long as it is worth at least `least-gain`.
*/

use std::collections::BTreeMap;

use host_statistics::{normal_tail, ratio};
use plugin_guest::{ActiveRecommender, Description, Error, Recommendation, RecommenderHost};
use recommender_common::limit::{LimitOption, Quantity};
use recommender_common::observation::{observation, seconds_of};
use recommender_common::recommendation;
use recommender_common::roofline::{Basis, Observation, Predictor};
use report_common::{Axis, AxisRole, Case, Run, humanise_metric, parse_quantity};
use serde::Deserialize;

/// The typical error if no case could be left out, as a part.
const UNKNOWN_ERROR: f64 = 0.1;

/// Standard deviations of a normal distribution for each median absolute error.
const DEVIATIONS: f64 = 1.4826;

/// How much less certain a guess beyond the measured batches is.
const BEYOND: f64 = 2.0;

/// Candidates that are named.
const NAMED: usize = 5;

const CONFIDENCE: f64 = 0.95;
const MARGIN: f64 = 1.05;
const POWER: f64 = 0.8;

/// The recommender.
pub struct NextExperiment;

/// The options.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Options {
    /// Limits on latencies.
    pub limits: Vec<LimitOption>,
    /// Least expected gain, as a part of the throughput, for which a case is asked for.
    pub least_gain: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { limits: Vec::new(), least_gain: 0.01 }
    }
}

/// The highest value of a latency, in nanoseconds.
struct Limit {
    metric: String,
    bound: f64,
}

impl Options {
    fn limits(&self) -> Result<Vec<Limit>, Error> {
        if !(self.least_gain > 0.0 && self.least_gain.is_finite()) {
            return Err(Error::Options("`least-gain` is above 0, such as 0.01 for 1 %".to_owned()));
        }
        let limit = |option: &LimitOption| {
            let metric = option.metric.clone();
            let wrong = || {
                Error::Options(format!(
                    "limits: `{metric}`: only latencies can be limited, by `at-most`"
                ))
            };
            let bound = match &option.at_most {
                _ if !metric.starts_with("latency.") => return Err(wrong()),
                None => return Err(wrong()),
                Some(Quantity::Number(number)) => *number,
                Some(Quantity::Text(text)) => parse_quantity(text, "ns")
                    .map_err(|reason| Error::Options(format!("limits: `{metric}`: {reason}")))?,
            };
            Ok(Limit { metric, bound })
        };
        self.limits.iter().map(limit).collect()
    }
}

impl ActiveRecommender for NextExperiment {
    type Options = Options;

    fn describe() -> Description {
        plugin_guest::describe!("next-experiment", {
            "limits" => "Limits on latencies that the advice keeps: objects of `metric` and `at-most`.",
            "least-gain" => "Least expected gain for which a case is asked for, as a part of the throughput; 0.01 by default.",
        })
    }

    fn recommend(
        host: &mut dyn RecommenderHost,
        options: Options,
    ) -> Result<Vec<Recommendation>, Error> {
        let limits = options.limits()?;
        let run = Run::read(host)?;
        let mut advice = Vec::new();
        for (name, cases) in tasks(&run) {
            advice.extend(of_task(host, &run, &name, &cases, &limits, options.least_gain));
        }
        Ok(advice)
    }
}

plugin_guest::export_active_recommender!(NextExperiment);

/// Returns the measured cases of each task and load, by its name, in the order of the run.
fn tasks(run: &Run) -> Vec<(String, Vec<&Case>)> {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut tasks: Vec<(String, Vec<&Case>)> = Vec::new();
    for case in run.cases.iter().filter(|case| observation(case).is_some()) {
        let axes = Axis::ALL.iter().filter(|axis| axis.role() != AxisRole::Choice);
        let words: Vec<String> = axes.filter_map(|axis| axis.labelled(&case.record.key)).collect();
        let name = words.join(" · ");
        let place = *places.entry(name.clone()).or_insert(tasks.len());
        if place == tasks.len() {
            tasks.push((name, Vec::new()));
        }
        tasks[place].1.push(case);
    }
    tasks
}

/// A case that could be measured.
struct Candidate<'a> {
    like: &'a Case,
    batch: u32,
    /// Expected gain in logarithms, times the chance to keep the limits.
    gain: f64,
    /// Chance that it is better than the best known one, and keeps the limits.
    chance: f64,
    is_beyond: bool,
}

fn of_task(
    host: &mut dyn RecommenderHost,
    run: &Run,
    name: &str,
    cases: &[&Case],
    limits: &[Limit],
    least_gain: f64,
) -> Vec<Recommendation> {
    let by_id: BTreeMap<&str, &Case> = cases.iter().map(|case| (case.id.as_str(), *case)).collect();
    let predictor = Predictor::new(cases.iter().filter_map(|case| observation(case)));
    let rate = |one: &Observation| one.batch / one.seconds;
    let keeps = |case: &Case| {
        limits
            .iter()
            .all(|limit| case.value(&limit.metric).is_some_and(|value| value <= limit.bound))
    };
    let observations = || predictor.families().flat_map(|(_, family)| family);
    let mut ranked: Vec<&Observation> = observations()
        .filter(|one| by_id.get(one.case.as_str()).is_some_and(|case| keeps(case)))
        .collect();
    ranked.sort_by(|one, other| rate(other).total_cmp(&rate(one)));
    let Some(best) = ranked.first() else {
        return vec![recommendation(
            "next-experiment",
            format!(
                "{name}: nothing measured keeps the limits: try smaller batches, or other hardware"
            ),
            &["Every measured case breaks a limit, or lacks its metric.".to_owned()],
            cases.iter().map(|case| case.id.clone()).collect(),
            "as measured",
            format!("`host results show {}`", run.id),
        )];
    };
    let mut advice = Vec::new();
    if let [best, second, ..] = ranked[..]
        && let (Some(best), Some(second)) =
            (by_id.get(best.case.as_str()), by_id.get(second.case.as_str()))
    {
        advice.extend(more_processes(run, name, best, second));
    }
    let mut candidates = candidates(&predictor, &by_id, rate(best).ln(), limits);
    candidates.sort_by(|one, other| other.gain.total_cmp(&one.gain));
    candidates.retain(|candidate| candidate.gain > 0.0);
    let Some(first) = candidates.first() else { return advice };
    let mut lines: Vec<String> = candidates.iter().take(NAMED).map(line).collect();
    let mut asks = None;
    if first.gain >= least_gain && host.left().cases > 0 {
        let changes = [(Axis::Batch.name(), first.batch.to_string())];
        let reason = format!(
            "expected to raise the best throughput by {:.1} %, with a chance of {:.0} %",
            100.0 * first.gain.exp_m1(),
            100.0 * first.chance
        );
        asks = host.ask(&first.like.id, &changes, &reason).err();
    }
    lines.extend(asks.map(|refusal| format!("It was not measured: {refusal}.")));
    lines.push(format!(
        "The best known: {}, {}. These figures rank what to measure; they are guesses, and not predictions.",
        by_id.get(best.case.as_str()).map_or_else(String::new, |case| case.key.to_string()),
        humanise_metric("throughput.samples", rate(best), "1/s")
    ));
    let mut rests_on: Vec<String> =
        candidates.iter().take(NAMED).map(|it| it.like.id.clone()).collect();
    rests_on.push(best.case.clone());
    let key = host_key(first);
    let title = if first.gain < least_gain {
        format!(
            "{name}: no further batch is expected to raise the throughput by {:.0} %; the most promising is {key}",
            100.0 * least_gain
        )
    } else {
        format!(
            "{name}: measure {key} next: {:.0} % chance to be better than the best known, by {:.1} % in expectation",
            100.0 * first.chance,
            100.0 * first.gain.exp_m1()
        )
    };
    advice.push(recommendation(
        "next-experiment",
        title,
        &lines,
        rests_on,
        "a guess, for ranking alone",
        format!("`host run` the manifest with `batch = [{}]` under [matrix]", first.batch),
    ));
    advice
}

/// The name of a candidate: the coordinates of the case that it is like, with its batch.
fn host_key(candidate: &Candidate<'_>) -> String {
    let mut key = candidate.like.record.key.clone();
    key.batch = candidate.batch;
    key.to_string()
}

fn line(candidate: &Candidate<'_>) -> String {
    format!(
        "{}: {:.0} % chance to be better than the best known, {:.2} % in expectation{}.",
        host_key(candidate),
        100.0 * candidate.chance,
        100.0 * candidate.gain.exp_m1(),
        if candidate.is_beyond { ", beyond the measured batches" } else { "" }
    )
}

fn candidates<'a>(
    predictor: &Predictor,
    by_id: &BTreeMap<&str, &'a Case>,
    best: f64,
    limits: &[Limit],
) -> Vec<Candidate<'a>> {
    let error = predictor.typical_error(Basis::Between).unwrap_or(UNKNOWN_ERROR).max(1e-3);
    let mut all = Vec::new();
    for (name, family) in predictor.families() {
        let between = family.windows(2).filter_map(|pair| {
            let middle = (pair[0].batch * pair[1].batch).sqrt().round();
            (middle > pair[0].batch && middle < pair[1].batch).then_some((middle, &pair[0], false))
        });
        let last = &family[family.len() - 1];
        for (batch, near, is_beyond) in between.chain([(2.0 * last.batch, last, true)]) {
            let (Some(like), Some(time)) =
                (by_id.get(near.case.as_str()), predictor.trend(name, batch))
            else {
                continue;
            };
            let deviation = DEVIATIONS * error * if is_beyond { BEYOND } else { 1.0 };
            let ahead = batch.ln() - time - best;
            let (mut gain, mut chance) = improvement(ahead, deviation);
            for limit in limits {
                // Percentiles of a family are taken to be in proportion to its median.
                let Some(value) = like.value(&limit.metric) else {
                    (gain, chance) = (0.0, 0.0);
                    continue;
                };
                let own = seconds_of(like.key.scenario, near.batch, near_value(like))
                    .max(f64::MIN_POSITIVE);
                let expected = value.ln() + time - own.ln();
                let kept = normal_tail((expected - limit.bound.ln()) / deviation);
                gain *= kept;
                chance *= kept;
            }
            all.push(Candidate { like, batch: batch as u32, gain, chance, is_beyond });
        }
    }
    all
}

/// The value of the metric that the case's time of a batch is taken from.
fn near_value(case: &Case) -> f64 {
    let metric = recommender_common::observation::metric_of(case.key.scenario);
    metric.and_then(|metric| case.value(metric)).unwrap_or(f64::NAN)
}

/// Returns the expected improvement of something that is `ahead` of the best with this deviation, and the chance of any.
fn improvement(ahead: f64, deviation: f64) -> (f64, f64) {
    let deviate = ahead / deviation;
    let chance = normal_tail(-deviate);
    let density = (-deviate * deviate / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    ((ahead * chance + deviation * density).max(0.0), chance)
}

/// Returns advice to measure the two best in more processes, if they cannot be told apart.
fn more_processes(run: &Run, name: &str, best: &Case, second: &Case) -> Option<Recommendation> {
    let metric = recommender_common::observation::metric_of(best.key.scenario)?;
    let [one, other] = [best, second].map(|case| case.result(metric)?.process_values());
    let needed = match (one, other) {
        (Some(one), Some(other)) => {
            let found = ratio(&one, &other, CONFIDENCE).ok()?;
            if found.probability < 1.0 - CONFIDENCE {
                return None;
            }
            let counts = [one.len(), other.len()];
            let needed = found.processes_to_tell(counts, MARGIN, POWER)?;
            format!(
                "{needed} processes of both would tell a difference of {:.0} % in {:.0} % of such runs",
                100.0 * (MARGIN - 1.0),
                100.0 * POWER
            )
        }
        _ => "one process says nothing of the next: set `processes = 5` and `order = \"interleaved\"`".to_owned(),
    };
    Some(recommendation(
        "more-processes",
        format!(
            "{name}: the two best cannot be told apart: measure {} and {} in more processes",
            best.key, second.key
        ),
        &[format!("{needed}.")],
        vec![best.id.clone(), second.id.clone()],
        "95 %",
        format!(
            "`host run` the manifest with more `processes`, and `host results show latest`, instead of run {}",
            run.id
        ),
    ))
}

#[cfg(test)]
mod tests;
