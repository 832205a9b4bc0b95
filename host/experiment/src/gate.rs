/*!
The gate: whether a run may pass, by a baseline and by the alerts of its manifest.

Against a baseline, a figure fails if it is worse by more than the limit, and passes if it surely is not; each by the
interval of the ratio, and failures by their false-discovery rate over all figures (`host_statistics::sides`). Anything
else cannot be told, and says what would tell. Worse is a larger latency or a smaller throughput, by the metric's own
direction, and in both the larger figure is divided by the smaller: at a limit of 5 % a throughput may fall by 4.8 %.

An alert is a limit on a metric of this run. It holds for the interval of the value, over processes if there are several.
A value without an interval stands for itself.
*/

use std::collections::{BTreeMap, BTreeSet};

use host_manifest::{Bound, Limit};
use host_record::{CaseKey, Direction};
use host_statistics::{Ratio, Side, ratio, sides};
use host_store::RunFolder;

use crate::compare::{
    Change, Compared, Difference, Doubt, MetricChange, Needed, POWER, RunName, differences, pairs,
    settle,
};
use crate::error::{Error, Result};
use crate::figures::{CONFIDENCE, CaseFigures, Figure, LATENCY, RunFigures, Trust};
use crate::units::in_unit;

/// Options of a check against a baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct GateOptions {
    /// Largest accepted change for the worse: 0.05 is 5 %.
    pub max_regression: f64,
    /// Metrics that are judged; without any, the main figure of each case.
    pub metrics: Vec<String>,
}

/// A run that was judged.
#[derive(Debug)]
pub struct Gate {
    /// The run.
    pub run: RunName,
    /// The experiment's name.
    pub experiment: String,
    /// The baseline, if there is one.
    pub baseline: Option<RunName>,
    /// Differences from the baseline's machine and versions, which may explain the rest.
    pub conditions: Vec<Difference>,
    /// Each figure that was judged: what failed comes first, then what cannot be told.
    pub judged: Vec<Judged>,
    /// Cases that the baseline does not have.
    pub added: usize,
    /// Cases of the baseline that are not part of the run.
    pub removed: usize,
}

/// A figure that was judged.
#[derive(Debug)]
pub struct Judged {
    /// The case's id.
    pub case: String,
    /// Its coordinates.
    pub key: CaseKey,
    /// The metric.
    pub metric: String,
    /// What it was held against.
    pub against: Against,
    /// The judgement.
    pub judgement: Judgement,
}

/// What a figure was held against.
#[derive(Debug)]
pub enum Against {
    /// The baseline.
    Baseline {
        /// The change; `None` if there is nothing to compare.
        change: Option<Box<MetricChange>>,
        /// Whether the case is defined in another way than in the baseline.
        is_redefined: bool,
        /// Whether a warning casts doubt on the figure in the baseline, and in the run.
        disturbed: [bool; 2],
    },
    /// An alert of the manifest.
    Alert {
        /// The limit.
        limit: Limit,
        /// The figure; `None` if there is none.
        figure: Option<Box<Figure>>,
    },
}

/// A judgement.
#[derive(Debug, Clone, PartialEq)]
pub enum Judgement {
    /// Surely within the limit.
    Passed,
    /// Beyond the limit, outside the noise.
    Failed,
    /// Neither.
    CannotTell(Unsure),
}

/// Reason why a judgement cannot be made.
#[derive(Debug, Clone, PartialEq)]
pub enum Unsure {
    /// The change is not known well enough.
    Change(Doubt, Option<Needed>),
    /// The interval crosses the limit of an alert.
    Crosses,
    /// The run has not measured the case.
    NotMeasured(String),
    /// The metric has no value in the run.
    NoValue(Option<String>),
    /// The metric has no value in the baseline, or one in another unit.
    NoBaseline(Option<String>),
    /// The limit of an alert is in a unit that is not the metric's.
    OtherUnit(String),
}

impl Gate {
    /// Returns the judgement of the whole: the worst.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let is = |wanted: &dyn Fn(&Judgement) -> bool| {
            self.judged.iter().any(|judged| wanted(&judged.judgement))
        };
        match () {
            () if is(&|one| *one == Judgement::Failed) => Outcome::Failed,
            () if is(&|one| matches!(one, Judgement::CannotTell(_))) => Outcome::CannotTell,
            () => Outcome::Passed,
        }
    }
}

/// The judgement of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Everything passed.
    Passed,
    /// Something failed.
    Failed,
    /// Nothing failed, and something cannot be told.
    CannotTell,
}

impl Outcome {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::CannotTell => "cannot-tell",
        }
    }
}

/// Judges a run by a baseline, if there is one, and by alerts.
///
/// # Errors
///
/// If there is neither, the baseline has no case of the run, or a metric does not exist or has no better direction.
pub fn judge(
    run: &RunFigures,
    baseline: Option<&RunFigures>,
    alerts: &[Limit],
    options: &GateOptions,
) -> Result<Gate> {
    if baseline.is_none() && alerts.is_empty() {
        return Err(Error::NothingToCheck { run: run.run.clone() });
    }
    let mut gate = Gate {
        run: run.into(),
        experiment: run.experiment.clone(),
        baseline: baseline.map(RunName::from),
        conditions: Vec::new(),
        judged: Vec::new(),
        added: 0,
        removed: 0,
    };
    if let Some(baseline) = baseline {
        gate.conditions = differences(&baseline.conditions, &run.conditions);
        by_baseline(&mut gate, run, baseline, options)?;
    }
    gate.judged.extend(by_alerts(run, alerts));
    gate.judged.sort_by_key(|judged| match &judged.judgement {
        Judgement::Failed => 0,
        Judgement::CannotTell(_) => 1,
        Judgement::Passed => 2,
    });
    Ok(gate)
}

fn by_baseline(
    gate: &mut Gate,
    run: &RunFigures,
    baseline: &RunFigures,
    options: &GateOptions,
) -> Result<()> {
    let (pairs, _) = pairs(baseline, run);
    let paired: BTreeSet<&str> = pairs.iter().map(|(before, _)| before.id.as_str()).collect();
    let unmeasured: BTreeMap<&CaseKey, &String> =
        run.unmeasured.values().map(|(key, reason)| (key, reason)).collect();
    let lost = |case: &CaseFigures| {
        let of_id = run.unmeasured.get(&case.id).map(|(_, reason)| reason);
        of_id.or_else(|| unmeasured.get(&case.key).copied())
    };
    let others = || baseline.cases.iter().filter(|case| !paired.contains(&*case.id));
    let missing: Vec<_> = others().filter_map(|case| Some((case, lost(case)?))).collect();
    if pairs.is_empty() && missing.is_empty() {
        return Err(Error::NothingInCommon {
            first: baseline.run.clone(),
            second: run.run.clone(),
        });
    }
    refuse_metrics(&pairs, &options.metrics)?;
    gate.added = run.cases.len() - pairs.len();
    gate.removed = others().count() - missing.len();
    for (case, reason) in missing {
        let main = case.main.as_ref().map_or(LATENCY, |figure| &figure.metric);
        gate.judged.push(Judged {
            case: case.id.clone(),
            key: case.key.clone(),
            metric: main.to_owned(),
            against: Against::Baseline {
                change: None,
                is_redefined: false,
                disturbed: [case.is_disturbed, false],
            },
            judgement: Judgement::CannotTell(Unsure::NotMeasured(reason.clone())),
        });
    }
    let place = gate.judged.len();
    for (before, after) in pairs {
        let is_wanted = |metric: &str| options.metrics.iter().any(|wanted| wanted == metric);
        let Compared { id, key, is_redefined, main, others, disturbed, .. } =
            Compared::new(before, after, is_wanted);
        let against = |change: Option<MetricChange>| Against::Baseline {
            change: change.map(Box::new),
            is_redefined,
            disturbed,
        };
        let mut add = |metric: &str, change, judgement| {
            gate.judged.push(Judged {
                case: id.clone(),
                key: key.clone(),
                metric: metric.to_owned(),
                against: against(change),
                judgement,
            });
        };
        let undecided = || Judgement::CannotTell(Unsure::Change(Doubt::NotFound, None));
        if options.metrics.is_empty() {
            let metric = main.metric.clone();
            add(&metric, Some(main), undecided());
            continue;
        }
        let mut changes: Vec<MetricChange> = others;
        changes.push(main);
        for metric in &options.metrics {
            match changes.iter().position(|change| change.metric == *metric) {
                Some(place) => {
                    let change = changes.swap_remove(place);
                    add(metric, Some(change), undecided());
                }
                None => {
                    let gap = |case: &CaseFigures| case.gaps.get(metric).cloned();
                    let unsure = match after.figure(metric) {
                        None => Unsure::NoValue(gap(after)),
                        Some(_) => Unsure::NoBaseline(gap(before)),
                    };
                    add(metric, None, Judgement::CannotTell(unsure));
                }
            }
        }
    }
    decide(&mut gate.judged[place..], options.max_regression);
    Ok(())
}

/// Refuses metrics that no case has, and those without a better direction.
fn refuse_metrics(pairs: &[(&CaseFigures, &CaseFigures)], metrics: &[String]) -> Result<()> {
    for metric in metrics {
        let figures = || pairs.iter().flat_map(|(before, after)| [before, after]);
        let mut found = figures().filter_map(|case| case.figure(metric)).peekable();
        let is_gap = figures().any(|case| case.gaps.contains_key(metric));
        if found.peek().is_none() && !is_gap {
            let names = figures().flat_map(|case| case.main.iter().chain(&case.metrics));
            let names: BTreeSet<String> = names.map(|figure| figure.metric.clone()).collect();
            let known = names.into_iter().collect();
            return Err(Error::NoSuchMetric { metric: metric.clone(), known });
        }
        if found.any(|figure| figure.direction == Direction::Neutral) {
            return Err(Error::NoBetterDirection { metric: metric.clone() });
        }
    }
    Ok(())
}

/// Judges changes, all together.
fn decide(judged: &mut [Judged], max_regression: f64) {
    fn change_of(judged: &mut Judged) -> Option<&mut MetricChange> {
        match &mut judged.against {
            Against::Baseline { change, .. } => change.as_deref_mut(),
            Against::Alert { .. } => None,
        }
    }
    settle(judged.iter_mut().filter_map(change_of).collect(), max_regression);
    let mut tested: Vec<(usize, Ratio)> = Vec::new();
    for (place, one) in judged.iter_mut().enumerate() {
        let Some(change) = change_of(one) else { continue };
        let judgement = match (change.worsening(), change.change) {
            (Some(worsening), _) if change.is_comparable() => {
                tested.push((place, worsening));
                continue;
            }
            _ if change.is_exact => exactly(change, max_regression),
            (_, Change::CannotTell(doubt)) => {
                let needed = change.needed(max_regression);
                Judgement::CannotTell(Unsure::Change(doubt, needed))
            }
            // Without a ratio a change is exact or unknown.
            _ => continue,
        };
        one.judgement = judgement;
    }
    let limit = 1.0 + max_regression;
    let ratios: Vec<Ratio> = tested.iter().map(|(_, ratio)| *ratio).collect();
    for ((place, ratio), side) in tested.iter().zip(sides(&ratios, limit)) {
        let one = &mut judged[*place];
        let counts = change_of(one).and_then(|change| {
            let count = |figure: &Option<Figure>| Some(figure.as_ref()?.processes.len());
            Some([count(&change.before)?, count(&change.after)?])
        });
        one.judgement = match side {
            Side::Above => Judgement::Failed,
            Side::Below => Judgement::Passed,
            Side::Unknown => {
                let needed = counts.map(|counts| {
                    let needed = ratio.processes_to_tell(counts, limit, POWER);
                    needed.map_or(Needed::More, Needed::Processes)
                });
                Judgement::CannotTell(Unsure::Change(Doubt::NotFound, needed))
            }
        };
    }
}

/// Judges a change of something that no process changes.
fn exactly(change: &MetricChange, max_regression: f64) -> Judgement {
    let value = |figure: &Option<Figure>| figure.as_ref().map_or(0.0, |figure| figure.value);
    let (before, after) = (value(&change.before), value(&change.after));
    let (better, worse) = match change.direction {
        Direction::Higher => (after, before),
        _ => (before, after),
    };
    if worse > better * (1.0 + max_regression) { Judgement::Failed } else { Judgement::Passed }
}

/// Returns the alerts of a run's manifest.
///
/// # Errors
///
/// If the manifest cannot be read.
pub fn alerts_of(folder: &RunFolder) -> Result<Vec<Limit>> {
    let text = folder.manifest_text()?;
    let path = folder.path().join("manifest.toml");
    let experiment = host_manifest::parse(&text).map_err(|errors| Error::Manifest {
        errors,
        name: path,
        text,
        is_of_plugins: false,
    })?;
    Ok(experiment.alerts)
}

/// Judges a run by limits on its metrics.
#[must_use]
pub fn by_alerts(run: &RunFigures, alerts: &[Limit]) -> Vec<Judged> {
    let mut judged = Vec::new();
    let mut tested: Vec<(usize, Ratio)> = Vec::new();
    for (limit, case) in
        alerts.iter().flat_map(|limit| run.cases.iter().map(move |case| (limit, case)))
    {
        let figure = case.figure(&limit.metric);
        let (bound, is_most) = match limit.bound {
            Bound::AtMost(bound) => (bound, true),
            Bound::AtLeast(bound) => (bound, false),
        };
        let in_unit = |figure: &Figure| match limit.unit {
            Some(unit) => in_unit(bound, unit, &figure.unit),
            None => Some(bound),
        };
        let judgement = match figure.map(|figure| (figure, in_unit(figure))) {
            None => {
                let reason = case.gaps.get(&limit.metric).cloned();
                Judgement::CannotTell(Unsure::NoValue(reason))
            }
            Some((figure, None)) => Judgement::CannotTell(Unsure::OtherUnit(figure.unit.clone())),
            Some(_) if case.trust != Trust::Sound => {
                let is_invalid = case.trust == Trust::Invalid;
                let doubt = if is_invalid { Doubt::Invalid } else { Doubt::Simulated };
                Judgement::CannotTell(Unsure::Change(doubt, None))
            }
            Some((figure, Some(bound))) => {
                match ratio(&[bound; 2], &figure.processes, CONFIDENCE) {
                    Ok(found) => {
                        let worse = if is_most { found } else { found.mirrored() };
                        tested.push((judged.len(), worse));
                        Judgement::CannotTell(Unsure::Crosses)
                    }
                    Err(_) => within(figure, bound, is_most),
                }
            }
        };
        let (limit, figure) = (limit.clone(), figure.cloned().map(Box::new));
        judged.push(Judged {
            case: case.id.clone(),
            key: case.key.clone(),
            metric: limit.metric.clone(),
            against: Against::Alert { limit, figure },
            judgement,
        });
    }
    let ratios: Vec<Ratio> = tested.iter().map(|(_, ratio)| *ratio).collect();
    for ((place, _), side) in tested.iter().zip(sides(&ratios, 1.0)) {
        judged[*place].judgement = match side {
            Side::Above => Judgement::Failed,
            Side::Below => Judgement::Passed,
            Side::Unknown => Judgement::CannotTell(Unsure::Crosses),
        };
    }
    judged
}

/// Judges a figure whose processes have no logarithms with a spread.
fn within(figure: &Figure, bound: f64, is_most: bool) -> Judgement {
    let interval = figure.interval().ok().flatten();
    let (low, high) = interval.unwrap_or((figure.value, figure.value));
    let (better, worse) = if is_most { (low, high) } else { (-high, -low) };
    let bound = if is_most { bound } else { -bound };
    match () {
        () if better > bound => Judgement::Failed,
        () if worse <= bound => Judgement::Passed,
        () => Judgement::CannotTell(Unsure::Crosses),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(metric: &str, unit: &str, direction: Direction, processes: &[f64]) -> Figure {
        Figure::of_values(metric, unit, direction, processes.to_vec()).expect("values")
    }

    /// Returns a run with a case for each list of medians.
    fn run(cases: &[&[f64]]) -> RunFigures {
        let case = |(index, levels): (usize, &&[f64])| CaseFigures {
            id: index.to_string(),
            key: CaseKey::new(index.to_string(), "b", "d:0"),
            trust: Trust::Sound,
            is_disturbed: false,
            processes: levels.len(),
            main: Some(figure(LATENCY, "ns", Direction::Lower, levels)),
            metrics: Vec::new(),
            gaps: BTreeMap::new(),
            price_per_hour: None,
        };
        RunFigures {
            run: "run".into(),
            experiment: "it".into(),
            started_at: String::new(),
            git_commit: None,
            conditions: BTreeMap::new(),
            cases: cases.iter().enumerate().map(case).collect(),
            unmeasured: BTreeMap::new(),
            folder: None,
        }
    }

    fn options(metrics: &[&str]) -> GateOptions {
        let metrics = metrics.iter().map(|metric| (*metric).to_owned()).collect();
        GateOptions { max_regression: 0.05, metrics }
    }

    const BEFORE: [f64; 5] = [100.0, 100.5, 99.5, 100.2, 99.8];

    fn times(factor: f64) -> Vec<f64> {
        BEFORE.iter().map(|value| value * factor).collect()
    }

    fn judged(before: &RunFigures, after: &RunFigures, metrics: &[&str]) -> Vec<Judgement> {
        let gate = judge(after, Some(before), &[], &options(metrics)).expect("they are comparable");
        gate.judged.into_iter().map(|one| one.judgement).collect()
    }

    #[test]
    fn what_is_worse_than_the_limit_fails_and_what_is_within_passes() {
        let before = run(&[&BEFORE]);
        let against = |factor: f64| judged(&before, &run(&[&times(factor)]), &[]).remove(0);
        assert_eq!(against(1.3), Judgement::Failed);
        assert_eq!(against(1.0), Judgement::Passed);
        // Half as long is within as well, and so is a change that is found and small.
        assert_eq!(against(0.5), Judgement::Passed);
        assert_eq!(against(1.03), Judgement::Passed);
        let Judgement::CannotTell(Unsure::Change(Doubt::NotFound, Some(Needed::Processes(count)))) =
            against(1.048)
        else {
            panic!("{:?}", against(1.048))
        };
        assert!(count > 5, "{count}");
    }

    #[test]
    fn worse_goes_by_the_direction_of_the_metric() {
        let with = |direction, values: &[f64]| {
            let mut run = run(&[&BEFORE]);
            run.cases[0].metrics = vec![figure("throughput.samples", "1/s", direction, values)];
            run
        };
        for (direction, less, more) in [
            (Direction::Higher, Judgement::Failed, Judgement::Passed),
            (Direction::Lower, Judgement::Passed, Judgement::Failed),
        ] {
            let of = |factor| {
                judged(
                    &with(direction, &BEFORE),
                    &with(direction, &times(factor)),
                    &["throughput.samples"],
                )
            };
            assert_eq!((of(0.7), of(1.3)), (vec![less], vec![more]), "{direction:?}");
        }
        // A throughput may fall to 1 / 1.05.
        let of = |factor| {
            let direction = Direction::Higher;
            let narrow = |factor: f64| BEFORE.map(|value| 100.0 * factor + (value - 100.0) / 1e3);
            judged(
                &with(direction, &narrow(1.0)),
                &with(direction, &narrow(factor)),
                &["throughput.samples"],
            )
        };
        assert_eq!((of(0.954), of(0.951)), (vec![Judgement::Passed], vec![Judgement::Failed]));
    }

    #[test]
    fn what_no_process_changes_is_judged_exactly() {
        let with = |size: f64| {
            let mut run = run(&[&BEFORE]);
            run.cases[0].metrics =
                vec![figure("memory.weights", "B", Direction::Lower, &[size; 5])];
            run
        };
        let of = |before, after| judged(&with(before), &with(after), &["memory.weights"]).remove(0);
        assert_eq!(of(1000.0, 1050.0), Judgement::Passed);
        assert_eq!(of(1000.0, 1051.0), Judgement::Failed);
        assert_eq!(of(1000.0, 10.0), Judgement::Passed);
        assert_eq!((of(0.0, 0.0), of(0.0, 1.0)), (Judgement::Passed, Judgement::Failed));
    }

    #[test]
    fn one_process_cannot_tell_and_says_how_many_would() {
        let found = judged(&run(&[&[100.0]]), &run(&[&[500.0]]), &[]);
        let unsure = Unsure::Change(Doubt::OneProcess, Some(Needed::Processes(5)));
        assert_eq!(found, [Judgement::CannotTell(unsure)]);
    }

    #[test]
    fn a_case_that_failed_is_not_passed_over() {
        let before = run(&[&BEFORE, &BEFORE]);
        let mut after = run(&[&BEFORE]);
        let gone = judge(&after, Some(&before), &[], &options(&[])).expect("one is in common");
        assert_eq!((gone.outcome(), gone.removed, gone.added), (Outcome::Passed, 1, 0));
        after.unmeasured.insert("1".into(), (before.cases[1].key.clone(), "it crashed".into()));
        let failed = judge(&after, Some(&before), &[], &options(&[])).expect("one is in common");
        assert_eq!((failed.outcome(), failed.removed), (Outcome::CannotTell, 0));
        let unsure = Unsure::NotMeasured("it crashed".into());
        assert_eq!(failed.judged[0].judgement, Judgement::CannotTell(unsure));
        let new = judge(&before, Some(&run(&[&BEFORE])), &[], &options(&[])).expect("one is");
        assert_eq!((new.outcome(), new.added), (Outcome::Passed, 1));
    }

    #[test]
    fn metrics_that_are_missing_or_have_no_direction_have_an_answer_each() {
        let mut before = run(&[&BEFORE, &BEFORE]);
        let mut after = before.clone();
        let error = |before: &RunFigures, after: &RunFigures, metric: &str| {
            judge(after, Some(before), &[], &options(&[metric])).expect_err("it is refused")
        };
        assert!(matches!(error(&before, &after, "latency.p98"), Error::NoSuchMetric { .. }));
        let neutral = figure("stability.changes", "1", Direction::Neutral, &BEFORE);
        after.cases[0].metrics.push(neutral);
        let refused = error(&before, &after, "stability.changes");
        assert!(matches!(refused, Error::NoBetterDirection { .. }), "{refused}");
        let high = figure("latency.p99", "ns", Direction::Lower, &BEFORE);
        before.cases[0].metrics.push(high.clone());
        after.cases[0].gaps.insert("latency.p99".into(), "too few".into());
        after.cases[1].metrics.push(high);
        let unsure = [Unsure::NoValue(Some("too few".into())), Unsure::NoBaseline(None)];
        let expected = unsure.map(Judgement::CannotTell);
        assert_eq!(judged(&before, &after, &["latency.p99"]), expected);
        let other = RunFigures { cases: Vec::new(), ..before.clone() };
        let refused = judge(&after, Some(&other), &[], &options(&[])).expect_err("none in common");
        assert!(matches!(refused, Error::NothingInCommon { .. }), "{refused}");
        let refused = judge(&after, None, &[], &options(&[])).expect_err("nothing to check by");
        assert!(matches!(refused, Error::NothingToCheck { .. }), "{refused}");
    }

    #[test]
    fn alerts_are_judged_by_the_interval_of_the_value() {
        let limit = |bound, unit| Limit { metric: LATENCY.into(), bound, unit };
        let of = |levels: &[f64], bound, unit| {
            let mut judged = by_alerts(&run(&[levels]), &[limit(bound, unit)]);
            assert_eq!(judged.len(), 1);
            judged.remove(0).judgement
        };
        let crosses = || Judgement::CannotTell(Unsure::Crosses);
        assert_eq!(of(&BEFORE, Bound::AtMost(105.0), Some("ns")), Judgement::Passed);
        assert_eq!(of(&BEFORE, Bound::AtMost(95.0), Some("ns")), Judgement::Failed);
        assert_eq!(of(&BEFORE, Bound::AtMost(100.1), None), crosses());
        assert_eq!(of(&BEFORE, Bound::AtLeast(95.0), None), Judgement::Passed);
        assert_eq!(of(&BEFORE, Bound::AtLeast(105.0), None), Judgement::Failed);
        // Without an interval the value stands for itself; with one of its queries, that counts.
        assert_eq!(of(&[100.0], Bound::AtMost(100.0), None), Judgement::Passed);
        assert_eq!(of(&[100.0], Bound::AtMost(99.0), None), Judgement::Failed);
        let mut single = run(&[&[100.0]]);
        single.cases[0].main.as_mut().expect("a figure").interval = Some((98.0, 103.0));
        let found = by_alerts(&single, &[limit(Bound::AtMost(101.0), None)]);
        assert_eq!(found[0].judgement, crosses());
        // Equal values of all processes, a limit of zero, and a limit in a unit that is not the metric's.
        assert_eq!(of(&[5.0, 5.0], Bound::AtMost(5.0), None), Judgement::Passed);
        assert_eq!(of(&BEFORE, Bound::AtMost(0.0), None), Judgement::Failed);
        let unit = Judgement::CannotTell(Unsure::OtherUnit("ns".into()));
        assert_eq!(of(&BEFORE, Bound::AtMost(0.0), Some("B")), unit);
        let missing =
            Limit { metric: "energy.total".into(), bound: Bound::AtMost(1.0), unit: None };
        let found = by_alerts(&run(&[&BEFORE]), &[missing]);
        assert_eq!(found[0].judgement, Judgement::CannotTell(Unsure::NoValue(None)));
    }
}
