/*!
`host results compare`: whether something got slower from one run to another.

Cases are matched by their id, which is a hash of all that defines a case. Of each the median latency is
held against the other run's. What differs from process to process is more than what differs from query to
query, and a single process shows none of it. So there is a verdict only where both runs have several
processes: then each has an interval over them, and where the intervals are apart, one is slower. Where they
overlap, where there is none, where a run has a single process or where a result is invalid, nothing can be
said, which is not the same as "no change". The interval within a single process is shown, and named as such.

Where the rate was searched, each process was measured at the rate that it found, and latencies at different
rates say nothing of each other. There the rates themselves are compared in the same way, of which the higher
is the better.

Beside that stands how often a value of the second run is the larger: of the processes' medians, with the test
of Mann and Whitney and the least that it can say of so few, and otherwise of queries, which describes them and
tests nothing.
*/

use std::collections::{BTreeMap, BTreeSet};

use host_record::{
    CaseKey, CaseRecord, Cell, ColumnData, Outcome, Rate, Table, WarningKind, WorkerReport, column,
};
use host_statistics::{
    Quantile, Resampling, Undefined, least_probability, mann_whitney, median, processes_interval,
    sized_estimates,
};
use host_store::RunFolder;
use serde_json::{Value, json};

use crate::axes::Common;
use crate::exit::Exit;
use crate::failure::Result;
use crate::printer::Printer;
use crate::table::{self, Column};
use crate::{units, visible};

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
        let common = Common::of(cases.iter().map(|case| &case.key));
        let heading = common.heading().join(" · ");
        let heading = printer.palette().heading(visible::line(&heading));
        let (drawn, note) = table::fit(columns(&cases, &common), printer.width());
        printer.show(format_args!("{heading}\n\n{}", printer.headed(&drawn)));
        if let Some(note) = note {
            printer.status("Left out", note);
        }
        let remedies: BTreeSet<_> = cases.iter().filter_map(|case| case.change.remedy()).collect();
        remedies.into_iter().for_each(|remedy| printer.status("To tell", remedy));
        let disturbed = |run: usize| cases.iter().filter(|case| case.disturbed[run]).count();
        if let [first, second] = [disturbed(0), disturbed(1)]
            && first + second > 0
        {
            printer.warning(
                format_args!(
                    "other work or heat disturbed {first} of these cases in the first run and {second} in the \
                     second, so a difference may be theirs"
                ),
                Some("measure both on a quiet machine; `host results show RUN` has the evidence"),
            );
        }
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
    is_disturbed: bool,
    /// Latencies of each process.
    processes: Vec<Vec<u64>>,
    /// The rate that each process found, in queries per second, where it was searched.
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

/// What came between in one run and perhaps not in the other.
const DISTURBANCES: [WarningKind; 2] = [WarningKind::MachineBusy, WarningKind::Throttled];

/// Those of all processes of a finished case.
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

/// What two runs are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quantity {
    /// The median latency in nanoseconds. Less is better.
    Latency,
    /// The rate that was found, in queries per second. More is better.
    Rate,
}

/// The figure of a run: its median latency, or the rate that it found.
#[derive(Debug, Clone, PartialEq)]
struct Figure {
    quantity: Quantity,
    value: f64,
    spread: Spread,
    processes: usize,
}

/// What is known of how far off a median may be.
#[derive(Debug, Clone, PartialEq)]
enum Spread {
    /// The interval over several processes, or why there is none.
    Processes(std::result::Result<(f64, f64), Undefined>),
    /// The interval within a single process, where its queries are worth one.
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

    /// The mean of the rates that processes found.
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

    /// A value of this quantity, for people.
    fn shown(&self, value: f64) -> String {
        match self.quantity {
            Quantity::Latency => units::duration(value),
            Quantity::Rate => format!("{value:.1}/s"),
        }
    }

    fn interval(&self) -> Option<(f64, f64)> {
        match &self.spread {
            Spread::Processes(interval) => interval.ok(),
            Spread::Within(interval) => *interval,
        }
    }

    /// What the interval is of.
    fn unit(&self) -> &'static str {
        match &self.spread {
            Spread::Processes(_) => PROCESSES,
            Spread::Within(_) => QUERIES,
        }
    }

    fn document(&self) -> Value {
        let [value, interval] = match self.quantity {
            Quantity::Latency => ["median-ns", "interval-ns"],
            Quantity::Rate => ["rate-per-second", "interval-per-second"],
        };
        json!({
            value: self.value,
            interval: self.interval(),
            "interval-over": self.unit(),
            "processes": self.processes,
        })
    }
}

const PROCESSES: &str = "processes";
const QUERIES: &str = "queries";

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
    OneProcess,
    Overlap,
    NoInterval(Undefined),
    NoQueries,
    Invalid,
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
            (Err(why), _) | (_, Err(why)) => Self::CannotTell(Doubt::NoInterval(*why)),
            (Ok((_, high)), Ok((low, _))) if high < low => high_is,
            (Ok((low, _)), Ok((_, high))) if high < low => low_is,
            _ => Self::CannotTell(Doubt::Overlap),
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
        let Self::CannotTell(doubt) = self else { return None };
        Some(match doubt {
            Doubt::OneProcess => "a run of one process",
            Doubt::Overlap => "the intervals overlap",
            Doubt::NoInterval(Undefined::NoSpread) => "all processes of a run say the same",
            Doubt::NoInterval(_) => "processes of a run differ too much",
            Doubt::NoQueries => "the queries of a run are lost",
            Doubt::Invalid => "a result is invalid",
            Doubt::Simulated => "the device is simulated",
        })
    }

    /// What to do, so that it can be told.
    fn remedy(self) -> Option<&'static str> {
        let Self::CannotTell(doubt) = self else { return None };
        match doubt {
            Doubt::OneProcess => Some(
                "measure both runs with `processes = 5` under [measure]: processes differ by more than \
                 the queries of one do, and a single one does not show by how much",
            ),
            Doubt::NoInterval(Undefined::BelowZero) => {
                Some("measure both runs with more `processes` under [measure], on a quiet machine")
            }
            _ => None,
        }
    }
}

/// How often a value of the second run is the larger.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Larger {
    /// Of pairs of a value of the first run and one of the second, ties counted half.
    part: f64,
    /// What the values are.
    of: &'static str,
    /// By the test of Mann and Whitney: how often chance alone would set the processes so far apart, and the
    /// least that so few can say. Queries of a single process are not independent of what it is like.
    probability: Option<(f64, f64)>,
}

impl Larger {
    fn between(before: &[Vec<u64>], after: &[Vec<u64>]) -> Option<Self> {
        if before.len() > 1 && after.len() > 1 {
            let medians = |processes: &[Vec<u64>]| -> Option<Vec<f64>> {
                processes.iter().map(|latencies| median(latencies)).collect()
            };
            return Self::of_processes(&medians(before)?, &medians(after)?);
        }
        let found = mann_whitney(&before.concat(), &after.concat()).ok()?;
        Some(Self { part: 1.0 - found.first_larger, of: QUERIES, probability: None })
    }

    /// Of one value of each process; `None` where a run has a single one.
    fn of_processes(before: &[f64], after: &[f64]) -> Option<Self> {
        if before.len() < 2 || after.len() < 2 {
            return None;
        }
        let found = mann_whitney(before, after).ok()?;
        let least = least_probability(before.len(), after.len());
        let probability = Some((found.probability, least));
        Some(Self { part: 1.0 - found.first_larger, of: PROCESSES, probability })
    }

    fn document(&self) -> Value {
        json!({
            "of": self.of,
            "second-larger": self.part,
            "probability": self.probability.map(|(probability, _)| probability),
            "least-probability": self.probability.map(|(_, least)| least),
        })
    }

    fn shown(&self) -> String {
        let percent = 100.0 * self.part;
        let tested = self.probability.map(|(probability, least)| {
            format!(" (p = {probability:.2}, at the least {least:.2})")
        });
        format!("in {percent:.0} % of {}{}", self.of, tested.unwrap_or_default())
    }
}

/// A case in both runs.
struct Compared {
    id: String,
    index: usize,
    key: CaseKey,
    before: Option<Figure>,
    after: Option<Figure>,
    change: Change,
    larger: Option<Larger>,
    /// Whether other work or heat came between in the first run, and in the second.
    disturbed: [bool; 2],
}

impl Compared {
    fn new(id: String, before: &Measured, after: &Measured) -> Self {
        let rates = before.rates.as_deref().zip(after.rates.as_deref());
        let (figures, larger) = match rates {
            Some((of_before, of_after)) => {
                let figures = [of_before, of_after].map(Figure::of_rates);
                (figures, Larger::of_processes(of_before, of_after))
            }
            None => {
                let figures = [before, after].map(|run| Figure::of(&run.processes));
                (figures, Larger::between(&before.processes, &after.processes))
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
            index: after.index,
            key: after.key.clone(),
            before: of_before,
            after: of_after,
            change,
            larger,
            disturbed: [before.is_disturbed, after.is_disturbed],
        }
    }

    /// By how much of itself the figure has changed.
    fn part(&self) -> Option<f64> {
        let (before, after) = (self.before.as_ref()?.value, self.after.as_ref()?.value);
        (before > 0.0).then(|| after / before - 1.0)
    }

    fn document(&self) -> Value {
        json!({
            "case": self.id,
            "name": self.key.to_string(),
            "first": self.before.as_ref().map(Figure::document),
            "second": self.after.as_ref().map(Figure::document),
            "change": self.part(),
            "verdict": self.change.name(),
            "reason": self.change.reason(),
            "remedy": self.change.remedy(),
            "mann-whitney": self.larger.as_ref().map(Larger::document),
            "disturbed": { "first": self.disturbed[0], "second": self.disturbed[1] },
        })
    }
}

fn rows(cases: &[Compared]) -> Table {
    let columns = [
        "case",
        "name",
        "first_ns",
        "first_low_ns",
        "first_high_ns",
        "first_over",
        "second_ns",
        "second_low_ns",
        "second_high_ns",
        "second_over",
        "change",
        "verdict",
        "reason",
        "mann_whitney_of",
        "mann_whitney_probability",
        "mann_whitney_least_probability",
        "second_larger",
        "first_rate",
        "first_rate_low",
        "first_rate_high",
        "second_rate",
        "second_rate_low",
        "second_rate_high",
    ];
    let real = |value: Option<f64>| value.map_or(Cell::Null, Cell::Real);
    let text = |value: Option<&str>| value.map_or(Cell::Null, |text| Cell::Text(text.to_owned()));
    let figure = |of: &Option<Figure>, quantity: Quantity| {
        let of = of.as_ref().filter(|figure| figure.quantity == quantity);
        let interval = of.and_then(Figure::interval);
        [
            real(of.map(|figure| figure.value)),
            real(interval.map(|(low, _)| low)),
            real(interval.map(|(_, high)| high)),
        ]
    };
    let over = |of: &Option<Figure>| text(of.as_ref().map(Figure::unit));
    let row = |case: &Compared| {
        let mut row = vec![Cell::Text(case.id.clone()), Cell::Text(case.key.to_string())];
        for of in [&case.before, &case.after] {
            row.extend(figure(of, Quantity::Latency));
            row.push(over(of));
        }
        row.extend([
            real(case.part()),
            text(Some(case.change.name())),
            text(case.change.reason()),
            text(case.larger.map(|larger| larger.of)),
            real(case.larger.and_then(|larger| larger.probability).map(|(found, _)| found)),
            real(case.larger.and_then(|larger| larger.probability).map(|(_, least)| least)),
            real(case.larger.map(|larger| larger.part)),
        ]);
        for of in [&case.before, &case.after] {
            row.extend(figure(of, Quantity::Rate));
        }
        row
    };
    Table { columns: columns.map(str::to_owned).into(), rows: cases.iter().map(row).collect() }
}

/// The table for people.
fn columns(cases: &[Compared], common: &Common) -> Vec<Column> {
    let written = |write: &dyn Fn(&Compared) -> String| cases.iter().map(write).collect();
    let none = || "—".to_owned();
    let figure =
        |of: &Option<Figure>| of.as_ref().map_or_else(none, |figure| figure.shown(figure.value));
    let interval = |of: &Option<Figure>| {
        let Some((figure, (low, high))) = of.as_ref().and_then(|it| Some((it, it.interval()?)))
        else {
            return none();
        };
        let within = match figure.spread {
            Spread::Processes(_) => "",
            Spread::Within(_) => "within: ",
        };
        format!("{within}{} to {}", figure.shown(low), figure.shown(high))
    };
    let right = |heading, gives_way, cells| Column {
        right: true,
        gives_way,
        ..Column::new(heading, cells)
    };
    let is_rate = |of: &Option<Figure>| of.as_ref().is_some_and(|it| it.quantity == Quantity::Rate);
    let rates = cases.iter().filter(|case| is_rate(&case.before)).count();
    let [first, second] = match rates {
        0 => ["first median", "second median"],
        all if all == cases.len() => ["first rate", "second rate"],
        _ => ["first median or rate", "second median or rate"],
    };
    vec![
        Column::new("case", written(&|case| common.rest(&case.key))),
        right(first, 1, written(&|case| figure(&case.before))),
        right(second, 2, written(&|case| figure(&case.after))),
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
        right("first interval", 4, written(&|case| interval(&case.before))),
        right("second interval", 3, written(&|case| interval(&case.after))),
        right(
            "second larger",
            5,
            written(&|case| case.larger.map_or_else(none, |larger| larger.shown())),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(interval: std::result::Result<(f64, f64), Undefined>) -> Figure {
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

    /// Two processes that differ, of one program: what is within them is apart, and says nothing.
    #[test]
    fn a_single_process_tells_nothing_of_the_next() {
        let process = |level: u64| (0..500).map(|index| level + index * 7 % 10).collect::<Vec<_>>();
        let of = |levels: &[u64]| {
            let processes: Vec<_> = levels.iter().map(|level| process(*level)).collect();
            Figure::of(&processes).expect("queries")
        };
        let (one, other) = (of(&[1000]), of(&[2000]));
        let (low, high) = one.interval().expect("an interval within");
        assert!(1000.0 <= low && high < 1010.0 && one.unit() == QUERIES);
        let doubt = Change::CannotTell(Doubt::OneProcess);
        let several = of(&[2000, 2001, 2003]);
        assert_eq!(several.unit(), PROCESSES);
        for (before, after) in [(&one, &other), (&one, &several), (&several, &one)] {
            assert_eq!(Change::between(before, after), doubt);
        }
        assert!(doubt.remedy().is_some_and(|remedy| remedy.contains("`processes = 5`")));
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
        assert_eq!(wide.reason(), Some("processes of a run differ too much"));
        assert!(wide.remedy().is_some());
        let same = Change::between(&of(&[5, 5, 5]), &fine);
        assert_eq!(same.reason(), Some("all processes of a run say the same"));
    }

    #[test]
    fn the_verdict_is_the_last_to_give_way() {
        let run = |processes: &[u64]| Measured {
            key: key(),
            index: 0,
            is_valid: true,
            is_simulated: false,
            is_disturbed: false,
            processes: processes
                .iter()
                .map(|level| (0..500).map(|index| level + index * 7 % 10).collect())
                .collect(),
            rates: None,
        };
        let one = Compared::new("id".into(), &run(&[1000]), &run(&[3000]));
        let common = Common::of([&one.key].into_iter());
        for (width, gone) in [
            (200, None),
            (160, Some("second larger")),
            (125, Some("second larger, first interval")),
            (100, Some("second larger, first interval, second interval")),
            (
                80,
                Some("second larger, first interval, second interval, second median, first median"),
            ),
        ] {
            let (drawn, note) = table::fit(columns(std::slice::from_ref(&one), &common), width);
            assert!(drawn.contains("cannot tell: a run of one process"), "{width}: {drawn}");
            let gone = gone.map(|gone| format!("{width} columns have no room for {gone}"));
            assert_eq!(note, gone, "{drawn}");
        }
        for width in [20, 30, 40, 60] {
            let (drawn, _) = table::fit(columns(std::slice::from_ref(&one), &common), width);
            let words: Vec<&str> = drawn.split_whitespace().collect();
            for word in ["verdict", "cannot", "tell:", "process", "+199.2"] {
                assert!(words.contains(&word), "{width}: {word}: {drawn}");
            }
        }
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
        assert_eq!(doubt.reason(), Some("the device is simulated"));
    }

    /// Queries are slower at a higher rate, which is no loss where the rate was searched.
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
        assert_eq!(faster.larger.map(|larger| (larger.part, larger.of)), Some((1.0, PROCESSES)));
        assert_eq!(compared(high(), low()).change, Change::Slower);
        let overlap = Change::CannotTell(Doubt::Overlap);
        assert_eq!(compared(low(), run(3000, &[499.0, 501.0, 503.0])).change, overlap);
        let single = compared(run(1000, &[500.0]), run(3000, &[900.0]));
        assert_eq!(single.change, Change::CannotTell(Doubt::OneProcess));
        assert_eq!((single.larger, single.part()), (None, Some(0.8)));
        // What was not settled on is shown, and decides nothing.
        let unsettled = Measured { is_valid: false, ..low() };
        assert_eq!(compared(unsettled, high()).change, Change::CannotTell(Doubt::Invalid));

        let common = Common::of([&faster.key].into_iter());
        let (drawn, _) = table::fit(columns(std::slice::from_ref(&faster), &common), 200);
        for shown in ["first rate", "second rate", "500.0/s", "900.0/s", "+80.0 %", "faster"] {
            assert!(drawn.contains(shown), "{shown}: {drawn}");
        }
        let document = faster.document();
        assert_eq!(document["second"]["rate-per-second"], 900.0);
        assert!(document["second"].get("median-ns").is_none(), "{document}");
        let Table { columns, rows } = rows(&[faster]);
        let cell = |name| {
            let place = columns.iter().position(|column| column == name).expect("a column");
            rows[0][place].clone()
        };
        assert_eq!([cell("first_ns"), cell("second_rate")], [Cell::Null, Cell::Real(900.0)]);
    }

    fn key() -> CaseKey {
        CaseKey::new("m", "b", "d:0")
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
        let found = Larger::between(&before, &slower).expect("a test");
        // Of the C(10, 5) = 252 orders two are as far apart, and none is further.
        assert_eq!((found.of, found.part), (PROCESSES, 1.0));
        let (probability, least) = found.probability.expect("processes are tested");
        assert!((probability - 2.0 / 252.0).abs() < 1e-12 && (least - probability).abs() < 1e-12);
        assert_eq!(found.shown(), "in 100 % of processes (p = 0.01, at the least 0.01)");
        // Queries of single processes are described and not tested.
        let found = Larger::between(&before[..1], &slower[..1]).expect("values");
        assert_eq!(found, Larger { part: 1.0, of: QUERIES, probability: None });
        assert_eq!(found.shown(), "in 100 % of queries");
    }

    #[test]
    fn a_few_queries_tell_nothing() {
        let few = Figure::of(&[vec![5, 6, 7]]).expect("queries");
        assert_eq!((few.value, few.spread), (6.0, Spread::Within(None)));
        assert_eq!(Figure::of(&[]), None);
    }
}
