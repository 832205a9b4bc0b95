//! Judgement of figures, and its certainty.

use host_statistics::ratio;
use report_common::{
    Axis, AxisRole, Case, Configuration, Scenario, WarningKind, humanise_interval, humanise_metric,
};

use crate::options::{COST, Limit, Objective, Side, is_of_device, metric_name, said_better_by};

/// Without intervals, noise and difference cannot be distinguished. Values closer than this are
/// then treated as equal.
const CLEAR_WITHOUT_INTERVALS: f64 = 0.05;

/// Probability of a difference by chance, below which it is clear.
pub(crate) const CLEARLY: f64 = 0.05;

/// A metric of a configuration.
#[derive(Debug, Clone)]
pub(crate) struct Reading<'a> {
    pub(crate) metric: String,
    pub(crate) unit: String,
    pub(crate) value: f64,
    pub(crate) interval: Option<(f64, f64)>,
    /// The value of each process, if there are several.
    pub(crate) processes: Option<Vec<f64>>,
    /// Bounds between which another process will lie.
    pub(crate) prediction: Option<(f64, f64)>,
    pub(crate) case: &'a Case,
    /// A throughput in the other scenario, and its case.
    pub(crate) elsewhere: Option<(&'a Case, f64)>,
}

impl<'a> Reading<'a> {
    /// Returns the value, or why there is none. `rated_in` is the scenario whose throughput counts.
    pub(crate) fn new(
        configuration: &Configuration<'a>,
        metric: &str,
        rated_in: Scenario,
    ) -> Result<Self, String> {
        let is_rate = metric.starts_with("throughput.") || metric == COST;
        let found = match is_rate {
            true => configuration.result_in(rated_in, metric),
            false => configuration.result(metric),
        };
        let Some((case, result)) = found else {
            let any = configuration.cases.iter().any(|case| case.result(metric).is_some());
            let why = match any {
                true if is_rate => format!("was not measured in the {rated_in} scenario"),
                true => format!("was not measured in the {} scenario", Scenario::SingleStream),
                false => "was not measured".to_owned(),
            };
            return Err(format!("{} {why}", metric_name(metric)));
        };
        let value = *result
            .value
            .as_ref()
            .map_err(|gap| format!("{} is a gap: {gap}", metric_name(metric)))?;
        let mut others =
            configuration.cases.iter().filter(|other| other.key.scenario != case.key.scenario);
        let elsewhere = others.find_map(|other| Some((*other, other.value(metric)?)));
        Ok(Self {
            metric: metric.to_owned(),
            unit: result.unit.clone(),
            value,
            interval: result.interval,
            processes: result.process_values(),
            prediction: result.prediction(),
            case,
            elsewhere: elsewhere.filter(|_| metric.starts_with("throughput.")),
        })
    }

    /// Returns whether it is an estimate that has an interval if there is enough data.
    pub(crate) fn is_percentile(&self) -> bool {
        self.metric.starts_with("latency.p")
    }

    /// Returns whether it says nothing of another process. Outputs, and so accuracies, do not depend on the process.
    pub(crate) fn is_of_one_process(&self) -> bool {
        self.processes.is_none() && !self.metric.starts_with("accuracy.")
    }

    /// Returns the kinds of warnings that cast doubt on it.
    pub(crate) fn doubts(&self) -> impl Iterator<Item = WarningKind> {
        let kinds = self.case.warnings.iter().map(|warning| warning.kind());
        kinds.filter(|kind| kind.touches(&self.metric))
    }

    /// `p99 latency 118 µs (117 µs to 119 µs)`.
    pub(crate) fn text(&self) -> String {
        let written = |value| humanise_metric(&self.metric, value, &self.unit);
        let mut text = format!("{} {}", metric_name(&self.metric), written(self.value));
        if let Some(interval) = self.interval {
            let interval = humanise_interval(&self.metric, self.value, interval, &self.unit);
            text.push_str(&format!(" ({interval})"));
        }
        if let Some((case, other)) = self.elsewhere {
            let (here, there) = (self.case.key.scenario, case.key.scenario);
            text.push_str(&format!(" {here}, {} {there}", written(other)));
        }
        text
    }
}

/// Returns the scenario whose throughput counts for all configurations, because throughputs of
/// different scenarios answer different questions. If a latency is limited, somebody waits:
/// single-stream. Otherwise offline, unless more configurations were measured in single-stream.
pub(crate) fn rated_in(configurations: &[Configuration<'_>], limits: &[Limit]) -> Scenario {
    if limits.iter().any(|limit| limit.metric.starts_with("latency.")) {
        return Scenario::SingleStream;
    }
    let measured = |scenario: Scenario| {
        let has =
            |it: &&Configuration<'_>| it.cases.iter().any(|case| case.key.scenario == scenario);
        configurations.iter().filter(has).count()
    };
    let (offline, single) = (Scenario::Offline, Scenario::SingleStream);
    if measured(offline) >= measured(single) { offline } else { single }
}

/// Returns whether two values differ by more than noise, at the usual level.
pub(crate) fn differ(one: &Reading<'_>, other: &Reading<'_>) -> bool {
    differ_at(one, other, CLEARLY)
}

/// Returns whether two values differ by more than noise. With several processes on both sides, by Welch's test, with a
/// probability below `level`. Otherwise if their intervals do not overlap; or if either has none, if they differ by
/// 5 % of the larger.
pub(crate) fn differ_at(one: &Reading<'_>, other: &Reading<'_>, level: f64) -> bool {
    if let (Some(these), Some(those)) = (&one.processes, &other.processes)
        && let Ok(found) = ratio(these, those, 1.0 - CLEARLY)
    {
        return found.probability < level;
    }
    match (one.interval, other.interval) {
        (Some((low, high)), Some((other_low, other_high))) => high < other_low || other_high < low,
        _ => {
            let larger = one.value.abs().max(other.value.abs());
            (one.value - other.value).abs() > CLEAR_WITHOUT_INTERVALS * larger
        }
    }
}

/// Verdict on a limit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    /// Met by the value, and by its whole interval if it has one.
    Kept,
    /// By the value, yet its interval crosses the limit or is not known.
    KeptPerhaps,
    /// Not by the value, yet its interval crosses the limit or is not known.
    BrokenPerhaps,
    /// Neither by the value nor by anything in its interval.
    Broken,
    /// There is no value.
    Unknown(String),
}

impl Verdict {
    pub(crate) fn new(limit: &Limit, reading: &Result<Reading<'_>, String>) -> Self {
        let reading = match reading {
            Ok(reading) => reading,
            Err(reason) => return Self::Unknown(reason.clone()),
        };
        let exact = (reading.value, reading.value);
        // A limit is meant for other processes, too.
        let unknown = (f64::NEG_INFINITY, f64::INFINITY);
        let (low, high) = match (&reading.processes, reading.prediction) {
            (_, Some(prediction)) => prediction,
            (Some(processes), None) if processes.iter().all(|value| *value == reading.value) => {
                exact
            }
            // Processes differ too much to tell where another one will lie. The interval of their mean does not.
            (Some(_), None) => unknown,
            // A percentile whose interval cannot be known may be anything.
            (None, None) if reading.is_percentile() => reading.interval.unwrap_or(unknown),
            (None, None) => reading.interval.unwrap_or(exact),
        };
        let (best, worst) = if limit.side == Side::AtMost { (low, high) } else { (high, low) };
        let keeps = |value: f64| match limit.side {
            Side::AtMost => value <= limit.bound,
            Side::AtLeast => value >= limit.bound,
        };
        match (keeps(reading.value), keeps(worst), keeps(best)) {
            (true, true, _) => Self::Kept,
            (true, false, _) => Self::KeptPerhaps,
            (false, _, true) => Self::BrokenPerhaps,
            (false, _, false) => Self::Broken,
        }
    }

    /// Returns how certain it is that the limit is met, the most certain first.
    fn rank(&self) -> u8 {
        match self {
            Self::Kept => 0,
            Self::KeptPerhaps => 1,
            Self::BrokenPerhaps => 2,
            Self::Broken => 3,
            Self::Unknown(_) => 4,
        }
    }
}

/// Returns the highest percentile of a latency that surely breaks a limit on a higher one, whose value
/// is unknown. No percentile is below a lower one, so the limit is broken whatever the higher one is.
fn broken_below<'a>(
    limit: &Limit,
    configuration: &Configuration<'a>,
    read: impl Fn(&str) -> Result<Reading<'a>, String>,
) -> Option<Reading<'a>> {
    let percentile = |metric: &str| metric.strip_prefix("latency.p")?.parse::<f64>().ok();
    let limited = percentile(&limit.metric).filter(|_| limit.side == Side::AtMost)?;
    let results = configuration.cases.iter().flat_map(|case| &case.results);
    let mut lower: Vec<(f64, &str)> = results
        .filter_map(|result| Some((percentile(&result.metric)?, result.metric.as_str())))
        .filter(|(percentile, _)| *percentile < limited)
        .collect();
    lower.sort_by(|one, other| other.0.total_cmp(&one.0));
    lower.into_iter().find_map(|(_, metric)| {
        let reading = read(metric);
        (Verdict::new(limit, &reading) == Verdict::Broken).then_some(reading.ok()?)
    })
}

/// A configuration with all that is asked about it.
#[derive(Debug, Clone)]
pub(crate) struct Candidate<'a> {
    pub(crate) label: String,
    pub(crate) configuration: Configuration<'a>,
    /// A verdict and the reading that it is about, for each limit.
    pub(crate) limits: Vec<(Verdict, Result<Reading<'a>, String>)>,
    /// A reading for each objective.
    pub(crate) objectives: Vec<Result<Reading<'a>, String>>,
    /// A reading for each metric that is considered.
    pub(crate) considered: Vec<Result<Reading<'a>, String>>,
    /// Reason why it must not be compared, whatever its figures.
    ruled_out: Option<String>,
}

impl<'a> Candidate<'a> {
    pub(crate) fn new(
        label: String,
        configuration: Configuration<'a>,
        limits: &[Limit],
        objectives: &[Objective],
        considered: &[Objective],
        rated_in: Scenario,
        ruled_out: Option<String>,
    ) -> Self {
        let read = |metric: &str| Reading::new(&configuration, metric, rated_in);
        let consider = |metric: &str| match said_better_by(metric) {
            Some(better)
                if considered.iter().any(|it| it.metric == better) && read(better).is_ok() =>
            {
                Err(format!("{} is counted in its place", metric_name(better)))
            }
            _ => read(metric),
        };
        let judge = |limit: &Limit| {
            let reading = read(&limit.metric);
            match Verdict::new(limit, &reading) {
                Verdict::Unknown(reason) => match broken_below(limit, &configuration, read) {
                    Some(lower) => (Verdict::Broken, Ok(lower)),
                    None => (Verdict::Unknown(reason), reading),
                },
                verdict => (verdict, reading),
            }
        };
        Self {
            label,
            limits: limits.iter().map(judge).collect(),
            objectives: objectives.iter().map(|objective| read(&objective.metric)).collect(),
            considered: considered.iter().map(|objective| consider(&objective.metric)).collect(),
            configuration,
            ruled_out,
        }
    }

    /// Returns the least certain verdict over all limits.
    pub(crate) fn verdict(&self) -> Verdict {
        let verdicts = self.limits.iter().map(|(verdict, _)| verdict);
        verdicts.max_by_key(|verdict| verdict.rank()).cloned().unwrap_or(Verdict::Kept)
    }

    /// Returns the first limit that is broken by a lower percentile than its own, and that
    /// percentile.
    pub(crate) fn broken_below<'l>(
        &self,
        limits: &'l [Limit],
    ) -> Option<(&'l Limit, &Reading<'a>)> {
        limits.iter().zip(&self.limits).find_map(|(limit, (verdict, reading))| {
            let reading = reading.as_ref().ok()?;
            (*verdict == Verdict::Broken && reading.metric != limit.metric)
                .then_some((limit, reading))
        })
    }

    /// Returns the largest factor by which a limit is missed.
    pub(crate) fn excess(&self, limits: &[Limit]) -> f64 {
        let factors = limits.iter().zip(&self.limits).map(|(limit, (_, reading))| match reading {
            // There are no multiples of nothing: the distance itself.
            Ok(reading) if limit.bound == 0.0 => reading.value.abs(),
            Ok(reading) if limit.side == Side::AtMost => reading.value / limit.bound,
            Ok(reading) => limit.bound / reading.value,
            Err(_) => f64::INFINITY,
        });
        factors
            .map(|factor| if factor.is_nan() { f64::INFINITY } else { factor })
            .fold(0.0, f64::max)
    }

    /// Returns why it cannot be compared, if it cannot.
    pub(crate) fn unknown(&self) -> Option<&str> {
        let gap = self.objectives.iter().find_map(|reading| reading.as_ref().err());
        self.ruled_out.as_ref().or(gap).map(String::as_str)
    }

    /// Returns the kinds of warnings that cast doubt on the compared figures.
    pub(crate) fn disturbances(&self) -> impl Iterator<Item = WarningKind> {
        self.compared().flat_map(Reading::doubts)
    }

    /// Returns the readings of objectives and limits.
    fn compared(&self) -> impl Iterator<Item = &Reading<'a>> {
        let limits = self.limits.iter().map(|(_, reading)| reading);
        self.objectives.iter().chain(limits).filter_map(|it| it.as_ref().ok())
    }

    /// Returns every reading, each metric once.
    pub(crate) fn readings(&self) -> Vec<&Reading<'a>> {
        let limits = self.limits.iter().filter_map(|(_, reading)| reading.as_ref().ok());
        let others =
            self.objectives.iter().chain(&self.considered).filter_map(|it| it.as_ref().ok());
        let mut readings: Vec<&Reading<'a>> = Vec::new();
        for reading in others.chain(limits) {
            if !readings.iter().any(|known| known.metric == reading.metric) {
                readings.push(reading);
            }
        }
        readings
    }

    /// Returns the number of equal coordinates of two.
    pub(crate) fn alike(&self, other: &Self) -> usize {
        let (this, that) = (&self.configuration.first().key, &other.configuration.first().key);
        let choices = Axis::ALL.iter().filter(|axis| axis.role() == AxisRole::Choice);
        choices.filter(|axis| axis.of(this) == axis.of(that)).count()
    }

    /// Returns all figures in one line.
    pub(crate) fn figures(&self) -> String {
        self.readings().iter().map(|reading| reading.text()).collect::<Vec<_>>().join(", ")
    }
}

/// Returns whether `one` makes `other` pointless.
///
/// It does if it is at least as good in every objective, by the values themselves, and clearly better in one;
/// unless `other` is clearly better in something that is considered, or has a value there while `one` has none
/// and could have one. The first part alone is a strict order, and the exceptions only remove pairs from it, so
/// there is always a configuration that nothing dominates.
pub(crate) fn dominates(
    one: &Candidate<'_>,
    other: &Candidate<'_>,
    objectives: &[Objective],
    considered: &[Objective],
) -> bool {
    let mut better_in_one = false;
    for (objective, readings) in objectives.iter().zip(one.objectives.iter().zip(&other.objectives))
    {
        let (Ok(this), Ok(that)) = readings else { return false };
        if objective.better(that.value, this.value) {
            return false;
        }
        better_in_one |= objective.better(this.value, that.value) && differ(this, that);
    }
    let gives_away = considered.iter().zip(one.considered.iter().zip(&other.considered)).any(
        |(objective, readings)| match readings {
            (Ok(this), Ok(that)) => objective.better(that.value, this.value) && differ(this, that),
            (Err(_), Ok(_)) => !is_of_device(&objective.metric),
            (_, Err(_)) => false,
        },
    );
    better_in_one && !gives_away
}

/// Returns those that no other dominates, in order.
pub(crate) fn front<'c, 'a>(
    candidates: &[&'c Candidate<'a>],
    objectives: &[Objective],
    considered: &[Objective],
) -> Vec<&'c Candidate<'a>> {
    let dominated = |candidate: &Candidate<'_>| {
        candidates.iter().any(|other| dominates(other, candidate, objectives, considered))
    };
    candidates.iter().filter(|candidate| !dominated(candidate)).copied().collect()
}
