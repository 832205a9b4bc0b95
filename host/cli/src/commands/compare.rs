/*!
`host results compare`: whether something got slower from one run to another.

Cases are matched by their id, which is a hash of all that defines a case. Of each the median latency is
held against the other run's, each with its interval: over processes where there are several, and otherwise
for as many independent queries as they are worth. Where the intervals are apart, one is slower; where they
overlap, where there is none or where a result is invalid, nothing can be said, which is not the same as
"no change".

Beside that stands the test of Mann and Whitney, with its effect size: of the processes' medians where
both runs have several, and otherwise of queries that are so far apart that they are nearly independent.
*/

use std::collections::BTreeMap;

use host_record::{CaseKey, CaseRecord, Cell, ColumnData, Outcome, Table, column};
use host_statistics::{
    MannWhitney, Quantile, Resampling, effective_size, mann_whitney, median, processes_interval,
    sized_estimates,
};
use host_store::RunFolder;
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::failure::Result;
use crate::printer::Printer;
use crate::table::{self, Column};
use crate::units;

/// Confidence of the intervals.
const CONFIDENCE: f64 = 0.95;

/// Compares two runs, and shows what became of each case that both have measured.
pub(crate) fn compare(first: &RunFolder, second: &RunFolder, printer: &Printer) -> Result<Exit> {
    let (mut before, after) = (measured(first)?, measured(second)?);
    let mut cases = Vec::new();
    let mut alone = 0;
    for (id, after) in after {
        match before.remove(&id) {
            Some(before) => cases.push(Compared::new(id, &before, &after)),
            None => alone += 1,
        }
    }
    alone += before.len();
    cases.sort_by_key(|case| case.index);
    let document = || {
        json!({
            "first": first.run_id(),
            "second": second.run_id(),
            "confidence": CONFIDENCE,
            "cases": cases.iter().map(Compared::document).collect::<Vec<_>>(),
            "in-one-run-only": alone,
        })
    };
    if !printer.machine(document, || rows(&cases)) && !cases.is_empty() {
        printer.show(printer.headed(&table::fit(columns(&cases), printer.width()).0));
    }
    if cases.is_empty() {
        printer.warning(
            "the runs have no case in common that both have measured",
            Some("a case has the same id in two runs if model, inputs, options and settings are the same"),
        );
    }
    if alone > 0 {
        let cases = units::count(alone as u64, "case", "cases");
        printer.status("Left out", format_args!("{cases} that only one of the runs has measured"));
    }
    Ok(Exit::Success)
}

/// A case as one run has measured it.
struct Measured {
    key: CaseKey,
    index: usize,
    is_valid: bool,
    is_simulated: bool,
    /// Latencies of each process.
    processes: Vec<Vec<u64>>,
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
        let CaseRecord { case_id, key, .. } = record;
        all.insert(case_id, Measured { key, index, is_valid, is_simulated, processes });
    }
    Ok(all)
}

fn is_valid(record: &CaseRecord) -> bool {
    let Outcome::Finished(report) = &record.outcome else { return false };
    let mut reports = record.further.iter().chain([&**report]);
    reports.all(|report| report.verdict.as_ref().is_none_or(|verdict| verdict.is_valid()))
}

/// The median of a run's latencies.
#[derive(Debug, Clone, PartialEq)]
struct Median {
    value: f64,
    interval: Option<(f64, f64)>,
    processes: usize,
}

impl Median {
    fn of(processes: &[Vec<u64>]) -> Option<Self> {
        let slices: Vec<&[u64]> = processes.iter().map(Vec::as_slice).collect();
        let (value, interval) = match slices.as_slice() {
            [] => return None,
            [latencies] => match sized_estimates(latencies, &[Quantile::P50], CONFIDENCE).pop()? {
                Ok(found) => {
                    let interval = found.interval.map(|(low, high)| (low as f64, high as f64));
                    (found.value as f64, interval)
                }
                Err(_) => (median(latencies)?, None),
            },
            several => {
                let resampling = Resampling { resamples: 2000, confidence: CONFIDENCE, seed: 0 };
                let statistic = |values: &[u64]| median(values).unwrap_or(0.0);
                let found = processes_interval(several, statistic, &resampling);
                let medians: Vec<f64> = several.iter().map(|one| statistic(one)).collect();
                let mean = medians.iter().sum::<f64>() / medians.len() as f64;
                (mean, found.ok().map(|(interval, _)| (interval.low, interval.high)))
            }
        };
        Some(Self { value, interval, processes: processes.len() })
    }

    fn document(&self) -> Value {
        json!({ "median-ns": self.value, "interval-ns": self.interval, "processes": self.processes })
    }
}

/// What became of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Slower,
    Faster,
    CannotTell(Doubt),
}

/// Why nothing can be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doubt {
    Overlap,
    NoInterval,
    Invalid,
    Simulated,
}

impl Change {
    fn between(before: &Median, after: &Median) -> Self {
        match before.interval.zip(after.interval) {
            None => Self::CannotTell(Doubt::NoInterval),
            Some(((_, high), (low, _))) if high < low => Self::Slower,
            Some(((low, _), (_, high))) if high < low => Self::Faster,
            Some(_) => Self::CannotTell(Doubt::Overlap),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::CannotTell(_) => "cannot-tell",
        }
    }

    fn reason(self) -> Option<&'static str> {
        match self {
            Self::CannotTell(Doubt::Overlap) => Some("the intervals overlap"),
            Self::CannotTell(Doubt::NoInterval) => Some("too few independent queries"),
            Self::CannotTell(Doubt::Invalid) => Some("a result is invalid"),
            Self::CannotTell(Doubt::Simulated) => Some("the device is simulated"),
            _ => None,
        }
    }
}

/// A case in both runs.
struct Compared {
    id: String,
    index: usize,
    name: String,
    before: Option<Median>,
    after: Option<Median>,
    change: Change,
    /// The test, and what its values are.
    test: Option<(MannWhitney, &'static str)>,
}

impl Compared {
    fn new(id: String, before: &Measured, after: &Measured) -> Self {
        let medians = [before, after].map(|run| Median::of(&run.processes));
        let change = match &medians {
            _ if before.is_simulated || after.is_simulated => Change::CannotTell(Doubt::Simulated),
            _ if !before.is_valid || !after.is_valid => Change::CannotTell(Doubt::Invalid),
            [Some(before), Some(after)] => Change::between(before, after),
            _ => Change::CannotTell(Doubt::NoInterval),
        };
        let [of_before, of_after] = medians;
        Self {
            id,
            index: after.index,
            name: after.key.to_string(),
            before: of_before,
            after: of_after,
            change,
            test: test(&before.processes, &after.processes),
        }
    }

    /// By how much of itself the median has changed.
    fn part(&self) -> Option<f64> {
        let (before, after) = (self.before.as_ref()?.value, self.after.as_ref()?.value);
        (before > 0.0).then(|| after / before - 1.0)
    }

    fn document(&self) -> Value {
        json!({
            "case": self.id,
            "name": self.name,
            "first": self.before.as_ref().map(Median::document),
            "second": self.after.as_ref().map(Median::document),
            "change": self.part(),
            "verdict": self.change.name(),
            "reason": self.change.reason(),
            "mann-whitney": self.test.map(|(test, of)| json!({
                "of": of,
                "probability": test.probability,
                "second-larger": 1.0 - test.first_larger,
            })),
        })
    }
}

/// The test of the processes' medians, where both runs have several, and otherwise of queries: one in as
/// many as make one independent query.
fn test(before: &[Vec<u64>], after: &[Vec<u64>]) -> Option<(MannWhitney, &'static str)> {
    if before.len() > 1 && after.len() > 1 {
        let medians = |processes: &[Vec<u64>]| -> Option<Vec<f64>> {
            processes.iter().map(|latencies| median(latencies)).collect()
        };
        return Some((mann_whitney(&medians(before)?, &medians(after)?).ok()?, "processes"));
    }
    let independent = |processes: &[Vec<u64>]| -> Vec<u64> {
        let of_process = |latencies: &Vec<u64>| {
            let each = latencies.len() as f64 / effective_size(latencies).max(1.0);
            latencies.iter().copied().step_by(each.ceil().max(1.0) as usize).collect::<Vec<_>>()
        };
        processes.iter().flat_map(of_process).collect()
    };
    Some((mann_whitney(&independent(before), &independent(after)).ok()?, "queries"))
}

fn rows(cases: &[Compared]) -> Table {
    let columns = [
        "case",
        "name",
        "first_ns",
        "first_low_ns",
        "first_high_ns",
        "second_ns",
        "second_low_ns",
        "second_high_ns",
        "change",
        "verdict",
        "reason",
        "mann_whitney_of",
        "mann_whitney_probability",
        "second_larger",
    ];
    let real = |value: Option<f64>| value.map_or(Cell::Null, Cell::Real);
    let text = |value: Option<&str>| value.map_or(Cell::Null, |text| Cell::Text(text.to_owned()));
    let median = |of: &Option<Median>| {
        let interval = of.as_ref().and_then(|median| median.interval);
        [
            real(of.as_ref().map(|median| median.value)),
            real(interval.map(|(low, _)| low)),
            real(interval.map(|(_, high)| high)),
        ]
    };
    let row = |case: &Compared| {
        let mut row = vec![Cell::Text(case.id.clone()), Cell::Text(case.name.clone())];
        row.extend(median(&case.before));
        row.extend(median(&case.after));
        row.extend([
            real(case.part()),
            text(Some(case.change.name())),
            text(case.change.reason()),
            text(case.test.map(|(_, of)| of)),
            real(case.test.map(|(test, _)| test.probability)),
            real(case.test.map(|(test, _)| 1.0 - test.first_larger)),
        ]);
        row
    };
    Table { columns: columns.map(str::to_owned).into(), rows: cases.iter().map(row).collect() }
}

/// The table for people.
fn columns(cases: &[Compared]) -> Vec<Column> {
    let written = |write: &dyn Fn(&Compared) -> String| cases.iter().map(write).collect();
    let median = |of: &Option<Median>| {
        let Some(median) = of else { return "—".to_owned() };
        let interval = median
            .interval
            .map(|(low, high)| format!(" ({} to {})", units::duration(low), units::duration(high)));
        format!("{}{}", units::duration(median.value), interval.unwrap_or_default())
    };
    let right = |heading, gives_way, cells| Column {
        right: true,
        gives_way,
        ..Column::new(heading, cells)
    };
    vec![
        Column::new("case", written(&|case| case.name.clone())),
        right("median, first", 2, written(&|case| median(&case.before))),
        right("median, second", 3, written(&|case| median(&case.after))),
        right(
            "change",
            0,
            written(&|case| {
                case.part().map_or("—".to_owned(), |part| format!("{:+.1} %", 100.0 * part))
            }),
        ),
        Column::new(
            "verdict",
            written(&|case| match case.change.reason() {
                Some(reason) => format!("cannot tell: {reason}"),
                None => case.change.name().to_owned(),
            }),
        ),
        right(
            "second larger",
            1,
            written(&|case| {
                case.test.map_or("—".to_owned(), |(test, of)| {
                    let percent = 100.0 * (1.0 - test.first_larger);
                    format!("in {percent:.0} % of {of} (p = {:.2})", test.probability)
                })
            }),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn median_of(value: f64, interval: Option<(f64, f64)>) -> Median {
        Median { value, interval, processes: 1 }
    }

    #[test]
    fn intervals_that_are_apart_tell_and_others_do_not() {
        let change =
            |before, after| Change::between(&median_of(10.0, before), &median_of(11.0, after));
        assert_eq!(change(Some((9.0, 10.4)), Some((10.5, 12.0))), Change::Slower);
        assert_eq!(change(Some((10.5, 12.0)), Some((9.0, 10.4))), Change::Faster);
        let overlap = Change::CannotTell(Doubt::Overlap);
        assert_eq!(change(Some((9.0, 10.5)), Some((10.5, 12.0))), overlap);
        assert_eq!(change(Some((9.0, 13.0)), Some((10.0, 12.0))), overlap);
        assert_eq!(change(None, Some((10.5, 12.0))), Change::CannotTell(Doubt::NoInterval));
    }

    #[test]
    fn nothing_is_said_of_what_is_simulated_or_invalid() {
        let run = |levels: [u64; 2], is_valid: bool, is_simulated: bool| Measured {
            key: key(),
            index: 0,
            is_valid,
            is_simulated,
            processes: levels
                .map(|level| (0..500).map(|index| level + index % 10).collect())
                .into(),
        };
        let slow = || run([2000, 2001], true, false);
        let change = |before: &Measured| Compared::new("id".into(), before, &slow()).change;
        assert_eq!(change(&run([1000, 1001], true, false)), Change::Slower);
        let doubt = Change::CannotTell(Doubt::Invalid);
        assert_eq!(change(&run([1000, 1001], false, false)), doubt);
        let doubt = Change::CannotTell(Doubt::Simulated);
        assert_eq!(change(&run([1000, 1001], true, true)), doubt);
        assert_eq!(doubt.reason(), Some("the device is simulated"));
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
        let of = |run: &[Vec<u64>]| Median::of(run).expect("queries");
        assert_eq!(Change::between(&of(&before), &of(&alike)), Change::CannotTell(Doubt::Overlap));
        assert_eq!(Change::between(&of(&before), &of(&slower)), Change::Slower);
        let (found, unit) = test(&before, &slower).expect("a test");
        // Of the C(10, 5) = 252 orders two are as far apart.
        assert_eq!((unit, found.first_larger), ("processes", 0.0));
        assert!((found.probability - 2.0 / 252.0).abs() < 1e-12);
        let (found, unit) = test(&before[..1], &before[..1]).expect("a test");
        assert_eq!((unit, found.first_larger), ("queries", 0.5));
    }

    #[test]
    fn a_few_queries_tell_nothing() {
        let few = Median::of(&[vec![5, 6, 7]]).expect("queries");
        assert_eq!((few.value, few.interval), (6.0, None));
        assert_eq!(Median::of(&[]), None);
    }
}
