/*!
Comparison of two runs: which cases became slower or faster, and what else changed.

Cases are matched by their id, a hash of the case's definition. Each has a main figure, its median latency, and all
metrics that both runs have. Processes differ more than the queries within one, and a single process does not show how
much. So a change is found only if both runs have several processes: by Welch's test on the logarithms of one value
from each process (`host_statistics::ratio`). A comparison states the ratio with its interval, and how large a change
would have been found in four of five comparisons. So "no difference found" says how little that may mean.

Of many comparisons some find something by chance. So a change counts by its false-discovery rate: at most 5 % of all
findings are expected to be false. Main figures are corrected over all cases, and other metrics over all cases and
metrics. Exchanging the runs inverts the ratios and changes nothing else.

A count or a size that is the same in all processes of each run is not tested: if the runs differ, the change is exact. So
are changes of accuracy, which does not depend on the process.

The change is unknown, which does not mean "no change", if no difference is found, if a run has a single process, or if
a result is invalid. The interval within a single process is shown and labelled as such.

If the rate was searched, each process was measured at the rate that it found, and latencies at different rates
cannot be compared. Then the rate is the main figure; higher is better.

The comparison also shows the part of values that are larger in the second run.
*/

use std::cmp::Ordering;
use std::collections::BTreeMap;

use host_record::{
    CaseKey, CaseRecord, ColumnData, Direction, MetricValue, Outcome, Rate, Warning, column,
};
use host_statistics::{
    Quantile, Ratio, Resampling, Undefined, false_discovery_rates, least_probability, mann_whitney,
    median, processes_interval, ratio, sized_estimates,
};
use host_store::RunFolder;

use crate::error::Result;
use crate::verdict::{RATE, verdict};

/// Confidence of the intervals.
pub const CONFIDENCE: f64 = 0.95;

/// Greatest expected part of false findings among all.
pub const FALSE_DISCOVERIES: f64 = 0.05;

/// Part of all comparisons in which a change of [`MetricChange::detectable`] would be found.
pub const POWER: f64 = 0.8;

/// The main figure of a case: the median latency.
pub const LATENCY: &str = "latency.p50";

/// Two runs, compared.
#[derive(Debug)]
pub struct Comparison {
    /// The id of the run that is compared with.
    pub first: String,
    /// The id of the run that is compared.
    pub second: String,
    /// The cases that both have measured, in the order of the second.
    pub cases: Vec<Compared>,
    /// Number of cases that only one of them has measured.
    pub alone: usize,
}

/// Compares two runs, case by case.
///
/// # Errors
///
/// If one of them is damaged or cannot be read.
pub fn compare(first: &RunFolder, second: &RunFolder) -> Result<Comparison> {
    let (mut before, after) = (measured(first)?, measured(second)?);
    let mut cases = Vec::new();
    let mut alone = 0;
    for (id, after) in after {
        match before.remove(&id) {
            Some(before) => cases.push((after.index, Compared::new(id, &before, &after))),
            None => alone += 1,
        }
    }
    alone += before.len();
    cases.sort_by_key(|(index, _)| *index);
    let mut cases: Vec<Compared> = cases.into_iter().map(|(_, case)| case).collect();
    settle(cases.iter_mut().map(|case| &mut case.main).collect());
    settle(cases.iter_mut().flat_map(|case| &mut case.others).collect());
    let [first, second] = [first, second].map(|run| run.run_id().to_owned());
    Ok(Comparison { first, second, cases, alone })
}

/// Corrects comparisons for their number, and says what each found.
fn settle(mut changes: Vec<&mut MetricChange>) {
    let mut tested: Vec<&mut MetricChange> = changes
        .iter_mut()
        .filter(|one| one.ratio.is_some() && one.change == Change::CannotTell(Doubt::NotFound))
        .map(|one| &mut **one)
        .collect();
    let probabilities: Vec<f64> =
        tested.iter().filter_map(|one| one.ratio.map(|ratio| ratio.probability)).collect();
    let comparisons = tested.len();
    for (one, rate) in tested.iter_mut().zip(false_discovery_rates(&probabilities)) {
        one.false_discovery_rate = Some(rate);
        one.detectable = one.ratio.map(|ratio| ratio.detectable(POWER, comparisons));
        let is_larger = one.ratio.is_some_and(|ratio| ratio.value > 1.0);
        if rate <= FALSE_DISCOVERIES {
            one.change = if is_larger { Change::Larger } else { Change::Smaller };
        }
    }
}

/// A case as one run has measured it.
struct Measured {
    key: CaseKey,
    index: usize,
    is_valid: bool,
    is_simulated: bool,
    warnings: Vec<Warning>,
    /// Latencies of each process.
    processes: Vec<Vec<u64>>,
    /// The rate that each process found, in queries per second, if it was searched.
    rates: Option<Vec<f64>>,
    /// Values of metrics.
    metrics: Vec<MetricValue>,
}

fn measured(folder: &RunFolder) -> Result<BTreeMap<String, Measured>> {
    let mut metrics: BTreeMap<String, Vec<MetricValue>> = BTreeMap::new();
    for result in folder.results()? {
        metrics.entry(result.case_id).or_default().extend(result.values);
    }
    let mut all = BTreeMap::new();
    for (index, record) in folder.records()?.enumerate() {
        let record = record?;
        if !matches!(record.outcome, Outcome::Finished(_)) {
            continue;
        }
        let mut columns = folder.columns(&record, &[column::LATENCY, column::PROCESS])?.columns;
        let mut take = |name: &str| {
            let place = columns.iter().position(|column| column.name == name)?;
            match columns.swap_remove(place).data {
                ColumnData::U64(values) => Some(values),
                _ => None,
            }
        };
        // A case whose file is lost has none, and one of a single process no numbers of them.
        let latencies = take(column::LATENCY).unwrap_or_default();
        let numbers = take(column::PROCESS).unwrap_or_else(|| vec![0; latencies.len()]);
        let mut rest = latencies.as_slice();
        let processes = numbers
            .chunk_by(|one, next| one == next)
            .map(|process| {
                let (own, others) = rest.split_at(process.len().min(rest.len()));
                rest = others;
                own.to_vec()
            })
            .collect();
        let is_valid = is_valid(&record);
        let is_simulated = match &record.outcome {
            Outcome::Finished(report) => report.used.contains_key("simulated"),
            _ => false,
        };
        let warnings = record.reports().flat_map(|report| report.warnings.clone()).collect();
        let rates = record.searched_rates();
        let rates = (!rates.is_empty()).then(|| rates.into_iter().map(Rate::get).collect());
        let CaseRecord { case_id, key, .. } = record;
        let metrics = metrics.remove(&case_id).unwrap_or_default();
        let measured =
            Measured { key, index, is_valid, is_simulated, warnings, processes, rates, metrics };
        all.insert(case_id, measured);
    }
    Ok(all)
}

fn is_valid(record: &CaseRecord) -> bool {
    let mut verdicts = record.reports().map(|report| &report.verdict);
    verdicts.all(|verdict| verdict.as_ref().is_none_or(|verdict| verdict.is_valid()))
}

/// A figure of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Its value: the mean over processes, if there are several.
    pub value: f64,
    /// Its uncertainty.
    pub spread: Spread,
    /// Confidence of the interval.
    pub confidence: f64,
    /// The value of each process.
    pub processes: Vec<f64>,
}

/// Uncertainty of a figure.
#[derive(Debug, Clone, PartialEq)]
pub enum Spread {
    /// Interval over several processes, or the reason why there is none.
    Processes(Result<(f64, f64), Undefined>),
    /// Interval within a single process, if it has enough queries.
    Within(Option<(f64, f64)>),
    /// Interval over labelled examples, whose outputs no process changes.
    Examples(Option<(f64, f64)>),
}

impl Figure {
    /// Returns the median latency.
    fn of_latencies(processes: &[Vec<u64>]) -> Option<Self> {
        let slices: Vec<&[u64]> = processes.iter().map(Vec::as_slice).collect();
        let medians = slices.iter().map(|one| median(one)).collect::<Option<Vec<_>>>()?;
        let (value, spread) = match slices.as_slice() {
            [] => return None,
            [latencies] => match sized_estimates(latencies, &[Quantile::P50], CONFIDENCE).pop()? {
                Ok(found) => {
                    let interval = found.interval.map(|(low, high)| (low as f64, high as f64));
                    (found.value as f64, Spread::Within(interval))
                }
                Err(_) => (median(latencies)?, Spread::Within(None)),
            },
            several => {
                let resampling = Resampling { resamples: 2000, confidence: CONFIDENCE, seed: 0 };
                let statistic = |values: &[u64]| median(values).unwrap_or(0.0);
                let found = processes_interval(several, statistic, &resampling);
                let mean = medians.iter().sum::<f64>() / medians.len() as f64;
                (mean, Spread::Processes(found.map(|(interval, _)| (interval.low, interval.high))))
            }
        };
        Some(Self { value, spread, confidence: CONFIDENCE, processes: medians })
    }

    /// Returns the mean of one value from each process.
    fn of_values(values: &[f64]) -> Option<Self> {
        let spread = match values {
            [] => return None,
            [_] => Spread::Within(None),
            several => {
                let slices: Vec<&[f64]> = several.chunks(1).collect();
                let resampling = Resampling { resamples: 2000, confidence: CONFIDENCE, seed: 0 };
                let found = processes_interval(&slices, |one| one[0], &resampling);
                Spread::Processes(found.map(|(interval, _)| (interval.low, interval.high)))
            }
        };
        let value = values.iter().sum::<f64>() / values.len() as f64;
        Some(Self { value, spread, confidence: CONFIDENCE, processes: values.to_vec() })
    }

    /// Returns a metric's value. An interval that the metric states is at the metric's own confidence.
    fn of_metric(metric: &MetricValue) -> Option<Self> {
        let value = *metric.value.as_ref().ok()?;
        match metric.process_values() {
            // The value of an extreme is not the mean of those of the processes.
            Some(values) => Some(Self { value, ..Self::of_values(&values)? }),
            None => {
                let stated = metric.attributes.get("confidence");
                let confidence = stated.and_then(|level| level.parse().ok());
                Some(Self {
                    value,
                    spread: match is_of_outputs(&metric.metric) {
                        true => Spread::Examples(metric.interval),
                        false => Spread::Within(metric.interval),
                    },
                    confidence: confidence.unwrap_or(CONFIDENCE),
                    processes: vec![value],
                })
            }
        }
    }

    /// Returns whether all processes have the same value.
    fn is_constant(&self) -> bool {
        self.processes.iter().all(|value| *value == self.processes[0])
    }

    /// Returns the interval at the figure's confidence, if there is one.
    #[must_use]
    pub fn interval(&self) -> Option<(f64, f64)> {
        match &self.spread {
            Spread::Processes(interval) => interval.ok(),
            Spread::Within(interval) | Spread::Examples(interval) => *interval,
        }
    }

    /// Returns the unit that the interval is over.
    #[must_use]
    pub fn unit(&self) -> Unit {
        match &self.spread {
            Spread::Processes(_) => Unit::Processes,
            Spread::Within(_) => Unit::Queries,
            Spread::Examples(_) => Unit::Examples,
        }
    }
}

/// Unit of an interval or a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// The medians, or the rates, of processes.
    Processes,
    /// The queries of a single process.
    Queries,
    /// The labelled examples of an accuracy.
    Examples,
}

impl Unit {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Queries => "queries",
            Self::Examples => "examples",
        }
    }
}

/// Change of a figure between two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The second run has the larger figure.
    Larger,
    /// The second run has the smaller figure.
    Smaller,
    /// Both runs have the same value, which no process changes.
    Same,
    /// Unknown, which does not mean unchanged.
    CannotTell(Doubt),
}

/// Reason why the change is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// A run has a single process.
    OneProcess,
    /// The runs have several processes, but the metric does not state a value for each.
    NoProcessValues,
    /// The processes of a run differ by as much as the runs do.
    NotFound,
    /// The values of the processes cannot be compared.
    Undefined(Undefined),
    /// The queries of a run are lost.
    NoQueries,
    /// A result is invalid.
    Invalid,
    /// The device is simulated.
    Simulated,
}

/// One figure of a case in both runs.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricChange {
    /// The metric, or [`LATENCY`] or [`RATE`].
    pub metric: String,
    /// Unit by its symbol.
    pub unit: String,
    /// Which way is better.
    pub direction: Direction,
    /// The figure in the first run.
    pub before: Option<Figure>,
    /// The figure in the second run.
    pub after: Option<Figure>,
    /// The ratio of the second to the first, if both have several processes.
    pub ratio: Option<Ratio>,
    /// Smallest expected part of false findings at which this one would be among the findings.
    pub false_discovery_rate: Option<f64>,
    /// The smallest ratio above 1 that would have been found in 80 % of such comparisons, as the only change among them.
    pub detectable: Option<f64>,
    /// Whether both runs have a single value in all their processes, of something that is counted: its change is exact,
    /// and there is nothing to test.
    pub is_exact: bool,
    /// The change.
    pub change: Change,
}

impl MetricChange {
    /// Compares two figures. What the comparison found is settled once all are known.
    fn new(
        metric: &str,
        unit: &str,
        direction: Direction,
        [before, after]: [Option<Figure>; 2],
    ) -> Self {
        let exact = match (&before, &after) {
            (Some(before), Some(after)) if is_counted(metric, unit, [before, after]) => {
                Some(before.processes[0].total_cmp(&after.processes[0]))
            }
            _ => None,
        };
        let (ratio, doubt) = match (&before, &after) {
            _ if exact.is_some() => (None, Doubt::NoProcessValues),
            (Some(before), Some(after))
                if before.processes.len() < 2 || after.processes.len() < 2 =>
            {
                (None, Doubt::OneProcess)
            }
            (Some(before), Some(after)) => {
                match ratio(&before.processes, &after.processes, CONFIDENCE) {
                    Ok(ratio) => (Some(ratio), Doubt::NotFound),
                    Err(reason) => (None, Doubt::Undefined(reason)),
                }
            }
            _ => (None, Doubt::NoQueries),
        };
        Self {
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            direction,
            before,
            after,
            ratio,
            false_discovery_rate: None,
            detectable: None,
            is_exact: exact.is_some(),
            change: match exact {
                Some(Ordering::Less) => Change::Larger,
                Some(Ordering::Greater) => Change::Smaller,
                Some(Ordering::Equal) => Change::Same,
                None => Change::CannotTell(doubt),
            },
        }
    }

    /// Returns the relative change: that of the ratio of geometric means, if there is one.
    #[must_use]
    pub fn part(&self) -> Option<f64> {
        if let Some(ratio) = self.ratio {
            return Some(ratio.value - 1.0);
        }
        let (before, after) = (self.before.as_ref()?.value, self.after.as_ref()?.value);
        (before > 0.0).then(|| after / before - 1.0)
    }

    /// Returns the verdict: `slower` or `faster` of a time or a rate, `worse` or `better` of another metric with a
    /// better direction, and `larger` or `smaller` of others; `same` if it is exactly the same; `cannot-tell` if it is
    /// unknown.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        let is_larger = match self.change {
            Change::Larger => true,
            Change::Smaller => false,
            Change::Same => return "same",
            Change::CannotTell(_) => return "cannot-tell",
        };
        verdict(&self.metric, self.direction, is_larger)
    }
}

/// Returns whether two figures are counts or sizes that no process changes: a difference between them is exact. Accuracies
/// are of outputs, which are the same in all processes. Times and rates are rounded to the clock's steps, so that equal
/// ones may still differ. A single process does not show whether another one has the same value.
fn is_counted(metric: &str, unit: &str, figures: [&Figure; 2]) -> bool {
    let is_constant = |figure: &Figure| figure.processes.len() > 1 && figure.is_constant();
    is_of_outputs(metric) || (matches!(unit, "B" | "1") && figures.into_iter().all(is_constant))
}

/// Returns whether a metric is of outputs, which are the same in all processes.
fn is_of_outputs(metric: &str) -> bool {
    metric.starts_with("accuracy.")
}

/// Part of the values that are larger in the second run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Superiority {
    /// Part of all pairs of a value from each run in which the second is larger. Ties count half.
    pub part: f64,
    /// Unit of the values.
    pub of: Unit,
    /// Probability of so large a difference by chance, by the test of Mann and Whitney, and the smallest
    /// probability possible with so few processes. `None` for queries of a single process, which are not
    /// independent.
    pub probability: Option<(f64, f64)>,
}

impl Superiority {
    fn between(before: &[Vec<u64>], after: &[Vec<u64>]) -> Option<Self> {
        if before.len() > 1 && after.len() > 1 {
            let medians = |processes: &[Vec<u64>]| -> Option<Vec<f64>> {
                processes.iter().map(|latencies| median(latencies)).collect()
            };
            return Self::of_processes(&medians(before)?, &medians(after)?);
        }
        let found = mann_whitney(&before.concat(), &after.concat()).ok()?;
        Some(Self { part: 1.0 - found.first_larger, of: Unit::Queries, probability: None })
    }

    /// Compares one value of each process; `None` if a run has a single process.
    fn of_processes(before: &[f64], after: &[f64]) -> Option<Self> {
        if before.len() < 2 || after.len() < 2 {
            return None;
        }
        let found = mann_whitney(before, after).ok()?;
        let least = least_probability(before.len(), after.len());
        let probability = Some((found.probability, least));
        Some(Self { part: 1.0 - found.first_larger, of: Unit::Processes, probability })
    }
}

/// A case in both runs.
#[derive(Debug)]
pub struct Compared {
    /// The case's id.
    pub id: String,
    /// Its coordinates.
    pub key: CaseKey,
    /// Its median latency, or the rate that was found.
    pub main: MetricChange,
    /// Its metrics in both runs.
    pub others: Vec<MetricChange>,
    /// Part of the values that are larger in the second run.
    pub larger: Option<Superiority>,
    /// Whether a warning casts doubt on the main figure, in the first and in the second run.
    pub disturbed: [bool; 2],
}

impl Compared {
    fn new(id: String, before: &Measured, after: &Measured) -> Self {
        let rates = before.rates.as_deref().zip(after.rates.as_deref());
        let (main, larger) = match rates {
            Some((of_before, of_after)) => {
                let figures = [of_before, of_after].map(Figure::of_values);
                let main = MetricChange::new(RATE, "1/s", Direction::Higher, figures);
                (main, Superiority::of_processes(of_before, of_after))
            }
            None => {
                let figures = [before, after].map(|run| Figure::of_latencies(&run.processes));
                let main = MetricChange::new(LATENCY, "ns", Direction::Lower, figures);
                (main, Superiority::between(&before.processes, &after.processes))
            }
        };
        let others = before.metrics.iter().filter_map(|of_before| {
            let is_same =
                |it: &&MetricValue| it.metric == of_before.metric && it.unit == of_before.unit;
            let of_after = after.metrics.iter().find(is_same)?;
            // The main figure says it, or they are latencies at different rates.
            let is_left_out = of_before.metric == LATENCY
                || (rates.is_some() && of_before.metric.starts_with("latency."));
            let figures = [Some(Figure::of_metric(of_before)?), Some(Figure::of_metric(of_after)?)];
            let MetricValue { metric, unit, direction, .. } = of_after;
            (!is_left_out).then(|| MetricChange::new(metric, unit, *direction, figures))
        });
        let mut compared = Self {
            id,
            key: after.key.clone(),
            others: others.collect(),
            disturbed: [before, after]
                .map(|run| run.warnings.iter().any(|warning| warning.kind().touches(&main.metric))),
            main,
            larger,
        };
        // Then it is the metric that has no value for each process.
        if before.processes.len() > 1 && after.processes.len() > 1 {
            let others = compared.others.iter_mut();
            others
                .filter(|one| one.change == Change::CannotTell(Doubt::OneProcess))
                .for_each(|one| one.change = Change::CannotTell(Doubt::NoProcessValues));
        }
        let doubt = match () {
            () if before.is_simulated || after.is_simulated => Some(Doubt::Simulated),
            () if !before.is_valid || !after.is_valid => Some(Doubt::Invalid),
            () => None,
        };
        if let Some(doubt) = doubt {
            let all = compared.others.iter_mut().chain([&mut compared.main]);
            all.for_each(|one| one.change = Change::CannotTell(doubt));
        }
        compared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> CaseKey {
        CaseKey {
            model: "m".into(),
            backend: "b".into(),
            device: "d:0".into(),
            precision: host_record::Precision::Fp32,
            batch: 1,
            sequence_length: None,
            mode: host_record::Mode::Inference,
            scenario: host_record::Scenario::SingleStream,
            rate: None,
            clients: None,
        }
    }

    /// Returns a case with a process at each level.
    fn run(levels: &[u64]) -> Measured {
        let process = |level: &u64| (0..500).map(|index| level + index * 7 % 10).collect();
        Measured {
            key: key(),
            index: 0,
            is_valid: true,
            is_simulated: false,
            warnings: Vec::new(),
            processes: levels.iter().map(process).collect(),
            rates: None,
            metrics: Vec::new(),
        }
    }

    fn compared(before: &Measured, after: &Measured) -> Compared {
        let mut compared = Compared::new("id".into(), before, after);
        settle(vec![&mut compared.main]);
        settle(compared.others.iter_mut().collect());
        compared
    }

    fn change(before: &Measured, after: &Measured) -> Change {
        compared(before, after).main.change
    }

    #[test]
    fn processes_are_compared_and_not_their_queries() {
        let before = run(&[1000, 1100, 1200, 1300, 1400]);
        let alike = run(&[1050, 1150, 1250, 1350, 1450]);
        let slower = run(&[2000, 2100, 2200, 2300, 2400]);
        assert_eq!(change(&before, &alike), Change::CannotTell(Doubt::NotFound));
        let found = compared(&before, &slower);
        assert_eq!((found.main.change, found.main.verdict()), (Change::Larger, "slower"));
        assert_eq!(compared(&slower, &before).main.verdict(), "faster");
        let larger = found.larger.expect("a test");
        // Of the C(10, 5) = 252 orders two are as far apart, and none is further.
        assert_eq!((larger.of, larger.part), (Unit::Processes, 1.0));
        let (probability, least) = larger.probability.expect("processes are tested");
        assert!((probability - 2.0 / 252.0).abs() < 1e-12 && (least - probability).abs() < 1e-12);
        // Queries of single processes are described and not tested.
        let found = Superiority::between(&before.processes[..1], &slower.processes[..1]);
        let described = Superiority { part: 1.0, of: Unit::Queries, probability: None };
        assert_eq!(found, Some(described));
    }

    /// Intervals of ± 10 % overlap, and the difference of 20 % is real.
    #[test]
    fn intervals_that_overlap_hide_nothing() {
        let before = run(&[9_000, 9_500, 10_000, 10_500, 11_000]);
        let after = run(&[10_800, 11_400, 12_000, 12_600, 13_200]);
        let found = compared(&before, &after);
        let interval = |figure: &Option<Figure>| figure.as_ref().and_then(Figure::interval);
        let [(_, high), (low, _)] =
            [&found.main.before, &found.main.after].map(|figure| interval(figure).expect("one"));
        assert!(low < high, "{low} {high}");
        assert_eq!(found.main.change, Change::Larger);
        let ratio = found.main.ratio.expect("a ratio");
        assert!((ratio.value - 1.2).abs() < 0.001, "{ratio:?}");
        assert!(ratio.low > 1.05 && ratio.high < 1.36, "{ratio:?}");
        let detectable = found.main.detectable.expect("it was tested");
        assert!((1.15..1.2).contains(&detectable), "{detectable}");
    }

    #[test]
    fn exchanging_the_runs_inverts_the_ratio_and_nothing_else() {
        let (one, other) = (run(&[1000, 1080, 1150]), run(&[1300, 1350, 1500, 1510]));
        let (there, back) = (compared(&one, &other).main, compared(&other, &one).main);
        let (ratio, mirrored) = (there.ratio.expect("a ratio"), back.ratio.expect("a ratio"));
        assert!((ratio.value * mirrored.value - 1.0).abs() < 1e-12);
        assert!((ratio.low * mirrored.high - 1.0).abs() < 1e-12);
        assert_eq!(ratio.probability, mirrored.probability);
        assert_eq!(there.false_discovery_rate, back.false_discovery_rate);
        assert_eq!(there.detectable, back.detectable);
        assert_eq!((there.change, back.change), (Change::Larger, Change::Smaller));
    }

    /// Two processes that differ, of one program: their intervals within do not overlap, and that
    /// means nothing.
    #[test]
    fn a_single_process_tells_nothing_of_the_next() {
        let (one, other, several) = (run(&[1000]), run(&[2000]), run(&[2000, 2001, 2003]));
        let figure = compared(&one, &other).main.before.expect("queries");
        let (low, high) = figure.interval().expect("an interval within");
        assert!(1000.0 <= low && high < 1010.0 && figure.unit() == Unit::Queries);
        let doubt = Change::CannotTell(Doubt::OneProcess);
        for (before, after) in [(&one, &other), (&one, &several), (&several, &one)] {
            assert_eq!(change(before, after), doubt);
        }
        assert_eq!(change(&run(&[1000, 1001, 1003]), &several), Change::Larger);
    }

    #[test]
    fn processes_that_say_too_little_are_told_apart() {
        let level = |level: u64| vec![level; 20];
        let of = |levels: &[u64]| Measured {
            processes: levels.iter().map(|one| level(*one)).collect(),
            ..run(&[])
        };
        let wide = change(&of(&[100, 101, 103]), &of(&[10, 10_000, 20_000]));
        assert_eq!(wide, Change::CannotTell(Doubt::NotFound));
        let same = change(&of(&[5, 5, 5]), &of(&[6, 6, 6]));
        assert_eq!(same, Change::CannotTell(Doubt::Undefined(Undefined::NoSpread)));
        let zero = change(&of(&[0, 5, 5]), &of(&[6, 6, 7]));
        assert_eq!(zero, Change::CannotTell(Doubt::Undefined(Undefined::NotPositive)));
        assert_eq!(change(&of(&[]), &of(&[5, 6])), Change::CannotTell(Doubt::NoQueries));
    }

    #[test]
    fn nothing_is_said_of_what_is_simulated_or_invalid() {
        let (fast, slow) = (|| run(&[1000, 1001]), run(&[2000, 2001]));
        assert_eq!(change(&fast(), &slow), Change::Larger);
        let invalid = Measured { is_valid: false, ..fast() };
        assert_eq!(change(&invalid, &slow), Change::CannotTell(Doubt::Invalid));
        let simulated = Measured { is_simulated: true, ..fast() };
        let found = compared(&simulated, &slow);
        assert_eq!(found.main.change, Change::CannotTell(Doubt::Simulated));
        assert_eq!(found.main.false_discovery_rate, None);
    }

    /// Queries are slower at a higher rate, which is not a loss if the rate was searched.
    #[test]
    fn where_the_rate_was_searched_the_rates_are_compared_and_more_is_better() {
        let at = |latency: u64, rates: &[f64]| Measured {
            rates: Some(rates.to_vec()),
            ..run(&vec![latency; rates.len()])
        };
        let low = || at(1000, &[498.0, 500.0, 502.0]);
        let high = || at(3000, &[899.0, 900.0, 901.0]);
        let found = compared(&low(), &high());
        assert_eq!((found.main.verdict(), &*found.main.metric), ("faster", RATE));
        assert!((found.main.part().expect("a change") - 0.8).abs() < 1e-4);
        assert_eq!(
            found.larger.map(|larger| (larger.part, larger.of)),
            Some((1.0, Unit::Processes))
        );
        assert_eq!(compared(&high(), &low()).main.verdict(), "slower");
        let near = at(3000, &[499.0, 501.0, 503.0]);
        assert_eq!(change(&low(), &near), Change::CannotTell(Doubt::NotFound));
        let single = compared(&at(1000, &[500.0]), &at(3000, &[900.0]));
        assert_eq!(single.main.change, Change::CannotTell(Doubt::OneProcess));
        assert_eq!((single.larger, single.main.part()), (None, Some(0.8)));
    }

    #[test]
    fn every_metric_is_compared_and_of_many_few_findings_are_false() {
        let metric = |name: &str, direction, values: &str| MetricValue {
            metric: name.into(),
            value: Ok(1.0),
            interval: None,
            unit: "B".into(),
            direction,
            attributes: [("process-values".to_owned(), values.to_owned())].into(),
        };
        let with = |metrics: Vec<MetricValue>| Measured { metrics, ..run(&[1000, 1010, 1020]) };
        let before = with(vec![
            metric(LATENCY, Direction::Lower, "1 2 3"),
            metric("memory.peak", Direction::Lower, "100 101 102"),
            metric("scaling.efficiency", Direction::Higher, "0.9 0.91 0.92"),
            metric("gone.value", Direction::Lower, "1 2 3"),
        ]);
        let after = with(vec![
            metric(LATENCY, Direction::Lower, "9 9.1 9.2"),
            metric("memory.peak", Direction::Lower, "200 201 202"),
            metric("scaling.efficiency", Direction::Higher, "0.5 0.51 0.52"),
        ]);
        let found = compared(&before, &after);
        let verdicts: Vec<_> =
            found.others.iter().map(|one| (&*one.metric, one.verdict())).collect();
        assert_eq!(verdicts, [("memory.peak", "worse"), ("scaling.efficiency", "worse")]);
        // The same weak difference is a finding by itself, and not among a hundred without one.
        let weak = || {
            let figure = |values: &[f64]| Figure::of_values(values);
            let figures = [figure(&[1.0, 1.1, 1.2]), figure(&[1.3, 1.4, 1.5])];
            MetricChange::new("weak", "1", Direction::Lower, figures)
        };
        let none = || {
            let figures = [[1.0, 1.1, 1.2], [1.0, 1.1, 1.21]];
            let figures = figures.map(|values| Figure::of_values(&values));
            MetricChange::new("none", "1", Direction::Lower, figures)
        };
        let mut alone = weak();
        settle(vec![&mut alone]);
        assert_eq!(alone.change, Change::Larger);
        let mut all: Vec<_> = std::iter::once(weak()).chain((0..100).map(|_| none())).collect();
        settle(all.iter_mut().collect());
        assert_eq!(all[0].change, Change::CannotTell(Doubt::NotFound));
        assert!(all[0].false_discovery_rate > Some(FALSE_DISCOVERIES));
    }

    #[test]
    fn what_no_process_changes_is_compared_exactly() {
        let metric = |name: &str, unit: &str, value: f64, processes: Option<&str>| MetricValue {
            metric: name.into(),
            value: Ok(value),
            interval: None,
            unit: unit.into(),
            direction: Direction::Lower,
            attributes: processes
                .map(|values| ("process-values".to_owned(), values.to_owned()))
                .into_iter()
                .collect(),
        };
        let levels: &[u64] = &[1000, 1010, 1020];
        let with = |levels: &[u64], metrics: Vec<MetricValue>| Measured { metrics, ..run(levels) };
        let metrics = |shift: f64, values: &str| {
            vec![
                metric("memory.baseline", "B", 4096.0 + shift, Some(values)),
                metric("accuracy.top1", "1", 0.5 + shift / 4096.0, None),
                metric("scaling.batch", "1", 1.0 + shift, None),
                metric("startup.load", "ns", 7.0 + shift, Some(values)),
            ]
        };
        let before = with(levels, metrics(0.0, "4096 4096 4096"));
        let after = with(levels, metrics(64.0, "4160 4160 4160"));
        let found = |before: &Measured, after: &Measured| -> Vec<_> {
            compared(before, after).others.iter().map(|one| (one.change, one.is_exact)).collect()
        };
        let unknown = |doubt| (Change::CannotTell(doubt), false);
        let no_spread = unknown(Doubt::Undefined(Undefined::NoSpread));
        let no_values = unknown(Doubt::NoProcessValues);
        let larger = (Change::Larger, true);
        assert_eq!(found(&before, &after), [larger, larger, no_values, no_spread]);
        let same = (Change::Same, true);
        assert_eq!(found(&before, &before), [same, same, no_values, no_spread]);
        assert_eq!(found(&after, &before)[0], (Change::Smaller, true));
        assert_eq!(compared(&before, &before).others[1].verdict(), "same");
        // A change from zero has no ratio.
        let none = with(levels, vec![metric("memory.baseline", "B", 0.0, Some("0 0 0"))]);
        let from_none = &compared(&none, &after).others[0];
        assert_eq!((from_none.change, from_none.part()), (Change::Larger, None));
        // One process does not show that others have the same value.
        let single = with(&[1000], vec![metric("memory.baseline", "B", 4096.0, None)]);
        let other = with(&[1000], vec![metric("memory.baseline", "B", 4160.0, None)]);
        assert_eq!(found(&single, &other), [unknown(Doubt::OneProcess)]);
        // Invalid results are not compared, even if they are exact.
        let invalid = Measured { is_valid: false, ..with(levels, metrics(0.0, "4096 4096 4096")) };
        assert!(
            found(&invalid, &after)
                .iter()
                .all(|(change, _)| { *change == Change::CannotTell(Doubt::Invalid) })
        );
    }

    #[test]
    fn an_interval_is_stated_at_the_confidence_that_it_has() {
        let metric = MetricValue {
            metric: "latency.mean".into(),
            value: Ok(5.0),
            interval: Some((4.0, 6.0)),
            unit: "ns".into(),
            direction: Direction::Lower,
            attributes: [("confidence".to_owned(), "0.99".to_owned())].into(),
        };
        let figure = Figure::of_metric(&metric).expect("a value");
        assert_eq!((figure.interval(), figure.confidence), (Some((4.0, 6.0)), 0.99));
        let attributes = [
            ("confidence".to_owned(), "0.99".to_owned()),
            ("process-values".to_owned(), "4 5 6".to_owned()),
        ];
        let several = MetricValue { attributes: attributes.into(), ..metric };
        let figure = Figure::of_metric(&several).expect("a value");
        // t(0.975; 2) = 4.3027, times 1 / √3.
        let (low, _) = figure.interval().expect("an interval");
        assert!((low - (5.0 - 2.4842)).abs() < 1e-3 && figure.confidence == CONFIDENCE, "{low}");
    }

    #[test]
    fn a_few_queries_tell_nothing() {
        let few = Figure::of_latencies(&[vec![5, 6, 7]]).expect("queries");
        assert_eq!((few.value, few.spread), (6.0, Spread::Within(None)));
        assert_eq!(Figure::of_latencies(&[]), None);
    }
}
