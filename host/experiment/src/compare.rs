/*!
Comparison of two runs: which cases became slower or faster.

Cases are matched by their id, a hash of the case's definition, and compared by their median latency. Processes
differ more than the queries within one, and a single process does not show how much. So a case has a result only
if both runs have several processes: each then has an interval over them, and if the intervals do not overlap, one
run is slower. The change is unknown, which does not mean "no change", if the intervals overlap or are missing, if
a run has a single process, or if a result is invalid. The interval within a single process is shown and labelled
as such.

If the rate was searched, each process was measured at the rate that it found, and latencies at different rates
cannot be compared. Then the rates themselves are compared in the same way; higher is better.

The comparison also shows the part of values that are larger in the second run. For processes' medians it has the
probability by the test of Mann and Whitney, and the smallest probability possible with so few processes. For the
queries of single processes it only describes them and tests nothing.
*/

use std::collections::BTreeMap;

use host_record::{
    CaseKey, CaseRecord, ColumnData, Outcome, Rate, WarningKind, WorkerReport, column,
};
use host_statistics::{
    Quantile, Resampling, Undefined, least_probability, mann_whitney, median, processes_interval,
    sized_estimates,
};
use host_store::RunFolder;

use crate::error::Result;

/// Confidence of the intervals.
pub const CONFIDENCE: f64 = 0.95;

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
    let cases = cases.into_iter().map(|(_, case)| case).collect();
    let [first, second] = [first, second].map(|run| run.run_id().to_owned());
    Ok(Comparison { first, second, cases, alone })
}

/// A case as one run has measured it.
struct Measured {
    key: CaseKey,
    index: usize,
    is_valid: bool,
    is_simulated: bool,
    is_disturbed: bool,
    /// Latencies of each process.
    processes: Vec<Vec<u64>>,
    /// The rate that each process found, in queries per second, if it was searched.
    rates: Option<Vec<f64>>,
}

fn measured(folder: &RunFolder) -> Result<BTreeMap<String, Measured>> {
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
        let is_disturbed = reports(&record)
            .flat_map(|report| &report.warnings)
            .any(|warning| DISTURBANCES.contains(&warning.kind()));
        let rates = record.searched_rates();
        let rates = (!rates.is_empty()).then(|| rates.into_iter().map(Rate::get).collect());
        let CaseRecord { case_id, key, .. } = record;
        let measured =
            Measured { key, index, is_valid, is_simulated, is_disturbed, processes, rates };
        all.insert(case_id, measured);
    }
    Ok(all)
}

/// Disturbances that may affect one run and not the other.
const DISTURBANCES: [WarningKind; 2] = [WarningKind::MachineBusy, WarningKind::Throttled];

/// Iterates over the reports of all processes of a finished case.
fn reports(record: &CaseRecord) -> impl Iterator<Item = &WorkerReport> {
    let first = match &record.outcome {
        Outcome::Finished(report) => Some(&**report),
        _ => None,
    };
    record.further.iter().chain(first)
}

fn is_valid(record: &CaseRecord) -> bool {
    reports(record).all(|report| report.verdict.as_ref().is_none_or(|verdict| verdict.is_valid()))
}

/// Quantity that two runs are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// The median latency in nanoseconds. Less is better.
    Latency,
    /// The rate that was found, in queries per second. More is better.
    Rate,
}

/// The figure of a run: its median latency, or the rate that it found.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The quantity.
    pub quantity: Quantity,
    /// Its value.
    pub value: f64,
    /// Its uncertainty.
    pub spread: Spread,
    /// Processes of the run.
    pub processes: usize,
}

/// Uncertainty of a figure.
#[derive(Debug, Clone, PartialEq)]
pub enum Spread {
    /// Interval over several processes, or the reason why there is none.
    Processes(Result<(f64, f64), Undefined>),
    /// Interval within a single process, if it has enough queries.
    Within(Option<(f64, f64)>),
}

impl Figure {
    fn of(processes: &[Vec<u64>]) -> Option<Self> {
        let slices: Vec<&[u64]> = processes.iter().map(Vec::as_slice).collect();
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
                let medians = several.iter().map(|one| median(one)).collect::<Option<Vec<_>>>()?;
                let mean = medians.iter().sum::<f64>() / medians.len() as f64;
                (mean, Spread::Processes(found.map(|(interval, _)| (interval.low, interval.high))))
            }
        };
        Some(Self { quantity: Quantity::Latency, value, spread, processes: processes.len() })
    }

    /// Returns the mean of the rates that processes found.
    fn of_rates(rates: &[f64]) -> Option<Self> {
        let spread = match rates {
            [] => return None,
            [_] => Spread::Within(None),
            several => {
                let slices: Vec<&[f64]> = several.chunks(1).collect();
                let resampling = Resampling { resamples: 2000, confidence: CONFIDENCE, seed: 0 };
                let found = processes_interval(&slices, |rate| rate[0], &resampling);
                Spread::Processes(found.map(|(interval, _)| (interval.low, interval.high)))
            }
        };
        let value = rates.iter().sum::<f64>() / rates.len() as f64;
        Some(Self { quantity: Quantity::Rate, value, spread, processes: rates.len() })
    }

    /// Returns the interval at [`CONFIDENCE`], if there is one.
    #[must_use]
    pub fn interval(&self) -> Option<(f64, f64)> {
        match &self.spread {
            Spread::Processes(interval) => interval.ok(),
            Spread::Within(interval) => *interval,
        }
    }

    /// Returns the unit that the interval is over.
    #[must_use]
    pub fn unit(&self) -> Unit {
        match &self.spread {
            Spread::Processes(_) => Unit::Processes,
            Spread::Within(_) => Unit::Queries,
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
}

impl Unit {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Queries => "queries",
        }
    }
}

/// Change of a case between two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The second run is slower.
    Slower,
    /// The second run is faster.
    Faster,
    /// Unknown, which does not mean unchanged.
    CannotTell(Doubt),
}

/// Reason why the change is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// A run has a single process.
    OneProcess,
    /// The intervals overlap.
    Overlap,
    /// A run has no interval over its processes.
    NoInterval(Undefined),
    /// The queries of a run are lost.
    NoQueries,
    /// A result is invalid.
    Invalid,
    /// The device is simulated.
    Simulated,
}

impl Change {
    fn between(before: &Figure, after: &Figure) -> Self {
        let (low_is, high_is) = match after.quantity {
            Quantity::Latency => (Self::Faster, Self::Slower),
            Quantity::Rate => (Self::Slower, Self::Faster),
        };
        let (Spread::Processes(before), Spread::Processes(after)) = (&before.spread, &after.spread)
        else {
            return Self::CannotTell(Doubt::OneProcess);
        };
        match (before, after) {
            (Err(reason), _) | (_, Err(reason)) => Self::CannotTell(Doubt::NoInterval(*reason)),
            (Ok((_, high)), Ok((low, _))) if high < low => high_is,
            (Ok((low, _)), Ok((_, high))) if high < low => low_is,
            _ => Self::CannotTell(Doubt::Overlap),
        }
    }

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::CannotTell(_) => "cannot-tell",
        }
    }
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
    /// Its figure in the first run.
    pub before: Option<Figure>,
    /// Its figure in the second run.
    pub after: Option<Figure>,
    /// The change.
    pub change: Change,
    /// Part of the values that are larger in the second run.
    pub larger: Option<Superiority>,
    /// Whether other work or heat disturbed the case, in the first and in the second run.
    pub disturbed: [bool; 2],
}

impl Compared {
    fn new(id: String, before: &Measured, after: &Measured) -> Self {
        let rates = before.rates.as_deref().zip(after.rates.as_deref());
        let (figures, larger) = match rates {
            Some((of_before, of_after)) => {
                let figures = [of_before, of_after].map(Figure::of_rates);
                (figures, Superiority::of_processes(of_before, of_after))
            }
            None => {
                let figures = [before, after].map(|run| Figure::of(&run.processes));
                (figures, Superiority::between(&before.processes, &after.processes))
            }
        };
        let change = match &figures {
            _ if before.is_simulated || after.is_simulated => Change::CannotTell(Doubt::Simulated),
            _ if !before.is_valid || !after.is_valid => Change::CannotTell(Doubt::Invalid),
            [Some(before), Some(after)] => Change::between(before, after),
            _ => Change::CannotTell(Doubt::NoQueries),
        };
        let [of_before, of_after] = figures;
        Self {
            id,
            key: after.key.clone(),
            before: of_before,
            after: of_after,
            change,
            larger,
            disturbed: [before.is_disturbed, after.is_disturbed],
        }
    }

    /// Returns the relative change of the figure.
    #[must_use]
    pub fn part(&self) -> Option<f64> {
        let (before, after) = (self.before.as_ref()?.value, self.after.as_ref()?.value);
        (before > 0.0).then(|| after / before - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(interval: Result<(f64, f64), Undefined>) -> Figure {
        Figure {
            quantity: Quantity::Latency,
            value: 10.0,
            spread: Spread::Processes(interval),
            processes: 3,
        }
    }

    #[test]
    fn intervals_over_processes_that_are_apart_tell_and_others_do_not() {
        let change = |before, after| Change::between(&over(Ok(before)), &over(Ok(after)));
        assert_eq!(change((9.0, 10.4), (10.5, 12.0)), Change::Slower);
        assert_eq!(change((10.5, 12.0), (9.0, 10.4)), Change::Faster);
        let overlap = Change::CannotTell(Doubt::Overlap);
        assert_eq!(change((9.0, 10.5), (10.5, 12.0)), overlap);
        assert_eq!(change((9.0, 13.0), (10.0, 12.0)), overlap);
    }

    /// Two processes that differ, of one program: their intervals within do not overlap, and that
    /// means nothing.
    #[test]
    fn a_single_process_tells_nothing_of_the_next() {
        let process = |level: u64| (0..500).map(|index| level + index * 7 % 10).collect::<Vec<_>>();
        let of = |levels: &[u64]| {
            let processes: Vec<_> = levels.iter().map(|level| process(*level)).collect();
            Figure::of(&processes).expect("queries")
        };
        let (one, other) = (of(&[1000]), of(&[2000]));
        let (low, high) = one.interval().expect("an interval within");
        assert!(1000.0 <= low && high < 1010.0 && one.unit() == Unit::Queries);
        let doubt = Change::CannotTell(Doubt::OneProcess);
        let several = of(&[2000, 2001, 2003]);
        assert_eq!(several.unit(), Unit::Processes);
        for (before, after) in [(&one, &other), (&one, &several), (&several, &one)] {
            assert_eq!(Change::between(before, after), doubt);
        }
        assert_eq!(Change::between(&of(&[1000, 1001, 1003]), &several), Change::Slower);
    }

    #[test]
    fn processes_that_say_too_little_are_told_apart() {
        let of = |levels: &[u64]| {
            let processes: Vec<_> = levels.iter().map(|level| vec![*level; 20]).collect();
            Figure::of(&processes).expect("queries")
        };
        let fine = of(&[100, 101, 103]);
        let wide = Change::between(&fine, &of(&[0, 10_000, 20_000]));
        assert_eq!(wide, Change::CannotTell(Doubt::NoInterval(Undefined::BelowZero)));
        let same = Change::between(&of(&[5, 5, 5]), &fine);
        assert_eq!(same, Change::CannotTell(Doubt::NoInterval(Undefined::NoSpread)));
    }

    #[test]
    fn nothing_is_said_of_what_is_simulated_or_invalid() {
        let run = |levels: [u64; 2], is_valid: bool, is_simulated: bool| Measured {
            key: key(),
            index: 0,
            is_valid,
            is_simulated,
            is_disturbed: false,
            processes: levels
                .map(|level| (0..500).map(|index| level + index % 10).collect())
                .into(),
            rates: None,
        };
        let slow = || run([2000, 2001], true, false);
        let change = |before: &Measured| Compared::new("id".into(), before, &slow()).change;
        assert_eq!(change(&run([1000, 1001], true, false)), Change::Slower);
        let doubt = Change::CannotTell(Doubt::Invalid);
        assert_eq!(change(&run([1000, 1001], false, false)), doubt);
        let doubt = Change::CannotTell(Doubt::Simulated);
        assert_eq!(change(&run([1000, 1001], true, true)), doubt);
    }

    /// Queries are slower at a higher rate, which is not a loss if the rate was searched.
    #[test]
    fn where_the_rate_was_searched_the_rates_are_compared_and_more_is_better() {
        let run = |latency: u64, rates: &[f64]| Measured {
            key: key(),
            index: 0,
            is_valid: true,
            is_simulated: false,
            is_disturbed: false,
            processes: rates.iter().map(|_| vec![latency; 500]).collect(),
            rates: Some(rates.to_vec()),
        };
        let low = || run(1000, &[498.0, 500.0, 502.0]);
        let high = || run(3000, &[899.0, 900.0, 901.0]);
        let compared = |before, after| Compared::new("id".into(), &before, &after);
        let faster = compared(low(), high());
        assert_eq!((faster.change, faster.part()), (Change::Faster, Some(0.8)));
        assert_eq!(
            faster.larger.map(|larger| (larger.part, larger.of)),
            Some((1.0, Unit::Processes))
        );
        assert_eq!(compared(high(), low()).change, Change::Slower);
        let overlap = Change::CannotTell(Doubt::Overlap);
        assert_eq!(compared(low(), run(3000, &[499.0, 501.0, 503.0])).change, overlap);
        let single = compared(run(1000, &[500.0]), run(3000, &[900.0]));
        assert_eq!(single.change, Change::CannotTell(Doubt::OneProcess));
        assert_eq!((single.larger, single.part()), (None, Some(0.8)));
        // An invalid result is shown, but decides nothing.
        let unsettled = Measured { is_valid: false, ..low() };
        assert_eq!(compared(unsettled, high()).change, Change::CannotTell(Doubt::Invalid));
    }

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

    /// Five processes whose levels differ by more than the runs do, and five that are all slower.
    #[test]
    fn processes_are_compared_and_not_their_queries() {
        let run = |levels: &[u64]| -> Vec<Vec<u64>> {
            levels
                .iter()
                .map(|level| (0..500).map(|index| level + index * 7 % 10).collect())
                .collect()
        };
        let before = run(&[1000, 1100, 1200, 1300, 1400]);
        let alike = run(&[1050, 1150, 1250, 1350, 1450]);
        let slower = run(&[2000, 2100, 2200, 2300, 2400]);
        let of = |run: &[Vec<u64>]| Figure::of(run).expect("queries");
        assert_eq!(Change::between(&of(&before), &of(&alike)), Change::CannotTell(Doubt::Overlap));
        assert_eq!(Change::between(&of(&before), &of(&slower)), Change::Slower);
        let found = Superiority::between(&before, &slower).expect("a test");
        // Of the C(10, 5) = 252 orders two are as far apart, and none is further.
        assert_eq!((found.of, found.part), (Unit::Processes, 1.0));
        let (probability, least) = found.probability.expect("processes are tested");
        assert!((probability - 2.0 / 252.0).abs() < 1e-12 && (least - probability).abs() < 1e-12);
        // Queries of single processes are described and not tested.
        let found = Superiority::between(&before[..1], &slower[..1]).expect("values");
        assert_eq!(found, Superiority { part: 1.0, of: Unit::Queries, probability: None });
    }

    #[test]
    fn a_few_queries_tell_nothing() {
        let few = Figure::of(&[vec![5, 6, 7]]).expect("queries");
        assert_eq!((few.value, few.spread), (6.0, Spread::Within(None)));
        assert_eq!(Figure::of(&[]), None);
    }
}
