/*!
Comparison of two runs: which cases became slower or faster, and what else changed.

Cases are matched by their id, a hash of the case's definition, and the rest by their coordinates: then the definition
has changed, such as the model's file or an option, and the comparison says so. Each has a main figure, its median
latency, and all metrics that both runs have. Processes differ more than the queries within one, and a single process
does not show how much. So a change is found only if both runs have several processes: by Welch's test on the logarithms
of one value from each process (`host_statistics::ratio`). A comparison states the ratio with its interval, and how large
a change would have been found in four of five comparisons.

Of many comparisons some find something by chance. So a change counts by its false-discovery rate: at most 5 % of all
findings are expected to be false. Main figures are corrected over all cases, and other metrics over all cases and
metrics. If no change is found, the figure is the same within the bound that its interval keeps, provided that the bound
is no larger than a margin that the caller chooses. Otherwise the change is unknown, which does not mean "no change", and
the comparison says how many processes would tell. Exchanging the runs inverts the ratios and changes nothing else.

A count or a size that is the same in all processes of each run is not tested: if the runs differ, the change is exact. So
are changes of accuracy, which does not depend on the process. Whether other examples of the same kind would show such a
change is another question, which McNemar's test on the examples that only one of the runs has right answers.

Each case also has its efficiency in both runs, as far as the metrics and the prices tell: samples for each joule, for each
second and gigabyte of memory, and for each unit of price.

If the rate was searched, each process was measured at the rate that it found, and latencies at different rates
cannot be compared. Then the rate is the main figure; higher is better.
*/

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::thread;

use host_record::{CaseKey, Direction};
use host_statistics::{
    PairedOutcomes, Ratio, Undefined, false_discovery_rates, paired_outcomes, processes_needed,
    ratio,
};

use crate::efficiency::efficiency;
use crate::figures::{CONFIDENCE, CaseFigures, Figure, RATE, RunFigures, Trust};
use crate::verdict::verdict;

/// Greatest expected part of false findings among all.
pub const FALSE_DISCOVERIES: f64 = 0.05;

/// Part of all comparisons in which a change of [`MetricChange::detectable`] would be found, or in which the number of
/// [`MetricChange::needed`] processes tells.
pub const POWER: f64 = 0.8;

/// Change of a clock that is still the same clock: clocks are read at one moment, and never stand still.
const SAME_CLOCK: f64 = 0.1;

/// Two runs, compared.
#[derive(Debug)]
pub struct Comparison {
    /// The run that is compared with.
    pub first: RunName,
    /// The run that is compared.
    pub second: RunName,
    /// Differences of the machine and of versions, which may explain the rest.
    pub conditions: Vec<Difference>,
    /// The cases that both have measured: those that changed most come first, and others in the order of the second run.
    pub cases: Vec<Compared>,
    /// Number of cases that only one of them has measured.
    pub alone: usize,
    /// Geometric mean of the speed-ups of the cases whose main figures have a ratio, and their number.
    pub speed_up: Option<(Ratio, usize)>,
}

/// A run in a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunName {
    /// Its id.
    pub run: String,
    /// Its commit, if it is known.
    pub commit: Option<String>,
}

impl From<&RunFigures> for RunName {
    fn from(figures: &RunFigures) -> Self {
        Self { run: figures.run.clone(), commit: figures.git_commit.clone() }
    }
}

/// A condition that differs between two runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Name of the fact, such as `processor.governor`.
    pub name: String,
    /// Its value in the first run; `None` if it was not reported.
    pub first: Option<String>,
    /// Its value in the second run.
    pub second: Option<String>,
}

/// Compares two runs, case by case. Ratios that stay within `margin` of 1 count as the same; 0.05 is 5 %.
#[must_use]
pub fn compare(first: &RunFigures, second: &RunFigures, margin: f64) -> Comparison {
    let (pairs, alone) = pairs(first, second);
    let mut cases =
        on_all_processors(&pairs, |(before, after)| Compared::new(before, after, |_| true));
    settle(cases.iter_mut().map(|case| &mut case.main).collect(), margin);
    settle(cases.iter_mut().flat_map(|case| &mut case.others).collect(), margin);
    settle(cases.iter_mut().flat_map(|case| &mut case.efficiency).collect(), margin);
    let speed_ups: Vec<Ratio> = cases
        .iter()
        .filter(|case| case.main.is_comparable())
        .filter_map(|case| Some(case.main.worsening()?.mirrored()))
        .collect();
    cases.sort_by(|one, other| other.main.moved().total_cmp(&one.main.moved()));
    Comparison {
        first: first.into(),
        second: second.into(),
        conditions: differences(&first.conditions, &second.conditions),
        cases,
        alone,
        speed_up: Ratio::mean(&speed_ups).map(|mean| (mean, speed_ups.len())),
    }
}

/// Maps items in order, on all processors if there are many: each case takes some tens of tests.
fn on_all_processors<T: Sync, R: Send>(items: &[T], map: impl Fn(&T) -> R + Sync) -> Vec<R> {
    /// Items that are not worth a thread.
    const FEW: usize = 500;
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let each = items.len().div_ceil(threads).max(FEW);
    thread::scope(|scope| {
        let part = |items| {
            let map = &map;
            scope.spawn(move || -> Vec<R> { <[T]>::iter(items).map(map).collect() })
        };
        let parts: Vec<_> = items.chunks(each).map(part).collect();
        let joined =
            parts.into_iter().map(|part| part.join().unwrap_or_else(|it| resume_unwind(it)));
        joined.flatten().collect()
    })
}

/// Returns the cases that both runs have measured, in the order of the second, and the number of others. A case is the
/// same if its id is, or else if no other has its coordinates.
pub(crate) fn pairs<'run>(
    first: &'run RunFigures,
    second: &'run RunFigures,
) -> (Vec<(&'run CaseFigures, &'run CaseFigures)>, usize) {
    let mut of_id: BTreeMap<&str, &CaseFigures> =
        first.cases.iter().map(|case| (case.id.as_str(), case)).collect();
    let same = |case: &CaseFigures, of_id: &mut BTreeMap<&str, _>| of_id.remove(case.id.as_str());
    let mut found: Vec<Option<&CaseFigures>> =
        second.cases.iter().map(|case| same(case, &mut of_id)).collect();
    let count = |cases: &mut dyn Iterator<Item = &'run CaseFigures>| {
        let mut of_key: BTreeMap<&CaseKey, Vec<&CaseFigures>> = BTreeMap::new();
        cases.for_each(|case| of_key.entry(&case.key).or_default().push(case));
        of_key
    };
    let left = count(&mut of_id.into_values());
    let unmatched = second.cases.iter().zip(&found).filter(|(_, before)| before.is_none());
    let right = count(&mut unmatched.map(|(case, _)| case));
    for (case, before) in second.cases.iter().zip(&mut found) {
        if let (None, Some([one]), Some([_])) = (
            &before,
            left.get(&case.key).map(Vec::as_slice),
            right.get(&case.key).map(Vec::as_slice),
        ) {
            *before = Some(one);
        }
    }
    let pairs: Vec<_> = second
        .cases
        .iter()
        .zip(found)
        .filter_map(|(after, before)| Some((before?, after)))
        .collect();
    let alone = first.cases.len() + second.cases.len() - 2 * pairs.len();
    (pairs, alone)
}

/// Returns the conditions that differ. A clock that changed a little is the same clock.
pub(crate) fn differences(
    first: &BTreeMap<String, String>,
    second: &BTreeMap<String, String>,
) -> Vec<Difference> {
    let is_clock = |name: &str| ["hertz", "mhz", "clock"].iter().any(|word| name.contains(word));
    let is_near = |one: &str, other: &str| {
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| *number > 0.0);
        let ratio = number(one).zip(number(other)).map(|(one, other)| (one / other).ln().abs());
        ratio.is_some_and(|ratio| ratio <= SAME_CLOCK)
    };
    let mut names: Vec<&String> = first.keys().chain(second.keys()).collect();
    names.sort();
    names.dedup();
    let difference = |name: &String| {
        let (first, second) = (first.get(name), second.get(name));
        let is_same = match (first, second) {
            (Some(first), Some(second)) => {
                first == second || (is_clock(name) && is_near(first, second))
            }
            _ => false,
        };
        let (first, second) = (first.cloned(), second.cloned());
        (!is_same).then(|| Difference { name: name.clone(), first, second })
    };
    names.into_iter().filter_map(difference).collect()
}

/// Corrects comparisons for their number, and says what each found.
pub(crate) fn settle(mut changes: Vec<&mut MetricChange>, margin: f64) {
    let mut tested: Vec<&mut MetricChange> =
        changes.iter_mut().filter(|one| one.is_comparable()).map(|one| &mut **one).collect();
    let probabilities: Vec<f64> =
        tested.iter().filter_map(|one| one.ratio.map(|ratio| ratio.probability)).collect();
    let comparisons = tested.len();
    for (one, rate) in tested.iter_mut().zip(false_discovery_rates(&probabilities)) {
        let Some(ratio) = one.ratio else { continue };
        one.false_discovery_rate = Some(rate);
        one.comparisons = comparisons;
        one.change = match () {
            () if rate <= FALSE_DISCOVERIES && ratio.value > 1.0 => Change::Larger,
            () if rate <= FALSE_DISCOVERIES => Change::Smaller,
            () if ratio.bound() <= 1.0 + margin => Change::Within(ratio.bound() - 1.0),
            () => Change::CannotTell(Doubt::NotFound),
        };
    }
}

/// Change of a figure between two runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    /// The second run has the larger figure.
    Larger,
    /// The second run has the smaller figure.
    Smaller,
    /// Both runs have the same value, which no process changes.
    Same,
    /// No change was found, and one by more than this part would have been.
    Within(f64),
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
    /// The metric, or [`LATENCY`](crate::LATENCY) or [`RATE`].
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
    /// Number of figures that were tested together.
    pub comparisons: usize,
    /// Of an accuracy in both runs, with the same labelled examples: the comparison by the examples that only one of the runs
    /// has right.
    pub paired: Option<PairedOutcomes>,
    /// Whether both runs have a single value in all their processes, of something that is counted: its change is exact,
    /// and there is nothing to test.
    pub is_exact: bool,
    /// The change.
    pub change: Change,
}

impl MetricChange {
    /// Compares two figures. What the comparison found is settled once all are known.
    fn new(before: Option<&Figure>, after: Option<&Figure>) -> Self {
        let figure = after.or(before);
        let (exact, ratio, doubt) = match (before, after) {
            (Some(before), Some(after)) if before.is_exact() && after.is_exact() => {
                (Some(before.value.total_cmp(&after.value)), None, Doubt::NotFound)
            }
            (Some(before), Some(after))
                if before.processes.len() < 2 || after.processes.len() < 2 =>
            {
                (None, None, Doubt::OneProcess)
            }
            (Some(before), Some(after)) => {
                match ratio(&before.processes, &after.processes, CONFIDENCE) {
                    Ok(ratio) => (None, Some(ratio), Doubt::NotFound),
                    Err(reason) => (None, None, Doubt::Undefined(reason)),
                }
            }
            _ => (None, None, Doubt::NoQueries),
        };
        Self {
            metric: figure.map_or(crate::figures::LATENCY, |figure| &figure.metric).to_owned(),
            unit: figure.map_or("ns", |figure| &figure.unit).to_owned(),
            direction: figure.map_or(Direction::Lower, |figure| figure.direction),
            before: before.cloned(),
            after: after.cloned(),
            ratio,
            false_discovery_rate: None,
            comparisons: 0,
            paired: before.zip(after).and_then(|(before, after)| paired(before, after)),
            is_exact: exact.is_some(),
            change: match exact {
                Some(Ordering::Less) => Change::Larger,
                Some(Ordering::Greater) => Change::Smaller,
                Some(Ordering::Equal) => Change::Same,
                None => Change::CannotTell(doubt),
            },
        }
    }

    /// Returns whether there is a ratio, and nothing that forbids a verdict.
    pub(crate) fn is_comparable(&self) -> bool {
        let is_told = !matches!(self.change, Change::CannotTell(doubt) if doubt != Doubt::NotFound);
        self.ratio.is_some() && is_told
    }

    /// Returns how far it surely moved: zero if no change was found.
    fn moved(&self) -> f64 {
        match (self.change, self.ratio) {
            (Change::Larger | Change::Smaller, Some(ratio)) => ratio.value.ln().abs(),
            _ => 0.0,
        }
    }

    /// Returns the ratio by which it is worse: that of a latency, and the inverse of that of a rate. `None` without a
    /// ratio, or if neither way is better.
    #[must_use]
    pub fn worsening(&self) -> Option<Ratio> {
        match self.direction {
            Direction::Lower => self.ratio,
            Direction::Higher => self.ratio.map(|ratio| ratio.mirrored()),
            Direction::Neutral => None,
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

    /// Returns the smallest ratio above 1 that would have been found in 80 % of such comparisons, as the only change among
    /// them.
    #[must_use]
    pub fn detectable(&self) -> Option<f64> {
        let _tested = self.false_discovery_rate?;
        self.ratio.map(|ratio| ratio.detectable(POWER, self.comparisons))
    }

    /// Returns the number of processes in each run that would tell a change by `margin` from none, if it is the number of
    /// processes that is too small: [`Needed::More`] of more than a thousand.
    #[must_use]
    pub fn needed(&self, margin: f64) -> Option<Needed> {
        let Change::CannotTell(doubt) = self.change else { return None };
        match (doubt, self.ratio, &self.before, &self.after) {
            (Doubt::OneProcess, ..) => Some(Needed::Processes(processes_needed(CONFIDENCE))),
            (Doubt::NotFound, Some(ratio), Some(before), Some(after)) => {
                let counts = [before.processes.len(), after.processes.len()];
                let found = ratio.processes_to_tell(counts, 1.0 + margin, POWER);
                Some(found.map_or(Needed::More, Needed::Processes))
            }
            _ => None,
        }
    }

    /// Returns the verdict: `slower` or `faster` of a time or a rate, `worse` or `better` of another metric with a
    /// better direction, and `larger` or `smaller` of others; `same` if it is exactly the same or within the margin;
    /// `cannot-tell` if it is unknown.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        let is_larger = match self.change {
            Change::Larger => true,
            Change::Smaller => false,
            Change::Same | Change::Within(_) => return "same",
            Change::CannotTell(_) => return "cannot-tell",
        };
        verdict(&self.metric, self.direction, is_larger)
    }
}

/// Compares two accuracies by the examples that only one of them has right, if they are of the same examples.
fn paired(before: &Figure, after: &Figure) -> Option<PairedOutcomes> {
    let (before, after) = (before.outcomes.as_ref()?, after.outcomes.as_ref()?);
    let are_same = before.labels == after.labels;
    are_same.then(|| paired_outcomes(&before.right, &after.right, CONFIDENCE)).flatten()
}

/// Number of processes of each run that would tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needed {
    /// So many.
    Processes(usize),
    /// More than a thousand.
    More,
}

/// A case in both runs.
#[derive(Debug)]
pub struct Compared {
    /// The id of the case in the second run.
    pub id: String,
    /// Its coordinates.
    pub key: CaseKey,
    /// Whether it is defined in another way than in the first run: another model, other inputs, options or settings.
    pub is_redefined: bool,
    /// Its median latency, or the rate that was found.
    pub main: MetricChange,
    /// Its metrics in both runs.
    pub others: Vec<MetricChange>,
    /// Its efficiency in both runs, made of its metrics and the prices of the manifest.
    pub efficiency: Vec<MetricChange>,
    /// Whether a warning casts doubt on the main figure, in the first and in the second run.
    pub disturbed: [bool; 2],
}

impl Compared {
    /// Compares a case, and those of its metrics that are wanted.
    pub(crate) fn new(
        before: &CaseFigures,
        after: &CaseFigures,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Self {
        let main = match (&before.main, &after.main) {
            // Of one run the rate was searched, and of the other it was not.
            (Some(one), Some(other)) if one.metric != other.metric => {
                MetricChange::new(None, Some(other))
            }
            (before, after) => MetricChange::new(before.as_ref(), after.as_ref()),
        };
        let others = before.metrics.iter().filter_map(|of_before| {
            let name = &of_before.metric;
            // The main figure says it, or they are latencies at different rates.
            let is_left_out = *name == main.metric
                || (main.metric == RATE && name.split('.').next() == Some("latency"));
            let is_same = |it: &&Figure| it.metric == *name && it.unit == of_before.unit;
            let is_compared = !is_left_out && is_wanted(name);
            let of_after = is_compared.then(|| after.metrics.iter().find(is_same))??;
            Some(MetricChange::new(Some(of_before), Some(of_after)))
        });
        let others = others.collect();
        let mut compared = Self {
            id: after.id.clone(),
            key: after.key.clone(),
            is_redefined: before.id != after.id,
            main,
            others,
            efficiency: efficiency(before, after)
                .iter()
                .map(|(before, after)| MetricChange::new(Some(before), Some(after)))
                .collect(),
            disturbed: [before.is_disturbed, after.is_disturbed],
        };
        let trusts = [before.trust, after.trust];
        let doubt = match () {
            () if trusts.contains(&Trust::Simulated) => Some(Doubt::Simulated),
            () if trusts.contains(&Trust::Invalid) => Some(Doubt::Invalid),
            () => None,
        };
        let is_of_several = before.processes > 1 && after.processes > 1;
        let Self { main, others, efficiency, .. } = &mut compared;
        for one in others.iter_mut().chain(efficiency).chain([main]) {
            match (doubt, one.change) {
                (Some(doubt), _) => one.change = Change::CannotTell(doubt),
                // Then it is the metric that has no value for each process.
                (None, Change::CannotTell(Doubt::OneProcess)) if is_of_several => {
                    one.change = Change::CannotTell(Doubt::NoProcessValues);
                }
                _ => {}
            }
        }
        compared
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::figures::LATENCY;

    fn key() -> CaseKey {
        CaseKey::new("m", "b", "d:0")
    }

    fn figure(metric: &str, unit: &str, processes: &[f64]) -> Figure {
        let is_better_high = metric == RATE || metric.starts_with("scaling");
        let direction = if is_better_high { Direction::Higher } else { Direction::Lower };
        Figure::of_values(metric, unit, direction, processes.to_vec()).expect("values")
    }

    /// Returns a case with these medians of processes.
    fn case(levels: &[f64]) -> CaseFigures {
        CaseFigures {
            id: "id".into(),
            key: key(),
            trust: Trust::Sound,
            is_disturbed: false,
            processes: levels.len(),
            main: (!levels.is_empty()).then(|| figure(LATENCY, "ns", levels)),
            metrics: Vec::new(),
            gaps: BTreeMap::new(),
            price_per_hour: None,
        }
    }

    fn run(cases: Vec<CaseFigures>) -> RunFigures {
        RunFigures {
            run: "run".into(),
            experiment: "it".into(),
            started_at: String::new(),
            git_commit: None,
            conditions: BTreeMap::new(),
            cases,
            unmeasured: BTreeMap::new(),
            folder: None,
        }
    }

    fn compared(before: &CaseFigures, after: &CaseFigures) -> Compared {
        let mut found = compare(&run(vec![before.clone()]), &run(vec![after.clone()]), 0.05);
        found.cases.remove(0)
    }

    fn change(before: &[f64], after: &[f64]) -> Change {
        compared(&case(before), &case(after)).main.change
    }

    #[test]
    fn processes_are_compared_by_their_ratio() {
        let before = [1000.0, 1100.0, 1200.0, 1300.0, 1400.0];
        let alike = before.map(|one| one + 50.0);
        let slower = before.map(|one| one + 1000.0);
        assert_eq!(change(&before, &alike), Change::CannotTell(Doubt::NotFound));
        let found = compared(&case(&before), &case(&slower)).main;
        assert_eq!((found.change, found.verdict()), (Change::Larger, "slower"));
        assert_eq!(compared(&case(&slower), &case(&before)).main.verdict(), "faster");
    }

    /// Intervals of ± 10 % overlap, and the difference of 20 % is real.
    #[test]
    fn intervals_that_overlap_hide_nothing() {
        let before = case(&[9_000.0, 9_500.0, 10_000.0, 10_500.0, 11_000.0]);
        let after = case(&[10_800.0, 11_400.0, 12_000.0, 12_600.0, 13_200.0]);
        let found = compared(&before, &after);
        let interval =
            |figure: &Option<Figure>| figure.as_ref().and_then(|it| it.interval().ok()?);
        let [(_, high), (low, _)] =
            [&found.main.before, &found.main.after].map(|figure| interval(figure).expect("one"));
        assert!(low < high, "{low} {high}");
        assert_eq!(found.main.change, Change::Larger);
        let ratio = found.main.ratio.expect("a ratio");
        assert!((ratio.value - 1.2).abs() < 0.001, "{ratio:?}");
        assert!(ratio.low > 1.05 && ratio.high < 1.36, "{ratio:?}");
        let detectable = found.main.detectable().expect("it was tested");
        assert!((1.15..1.2).contains(&detectable), "{detectable}");
    }

    /// The verdict, seen from the other run.
    fn mirrored(verdict: &str) -> &str {
        match verdict {
            "slower" => "faster",
            "faster" => "slower",
            "worse" => "better",
            "better" => "worse",
            "larger" => "smaller",
            "smaller" => "larger",
            other => other,
        }
    }

    proptest! {
        #[test]
        fn exchanging_the_runs_mirrors_everything(
            cases in prop::collection::vec(
                (prop::collection::vec(0.8..1.3_f64, 1..7), prop::collection::vec(0.8..1.3_f64, 1..7)),
                1..6,
            ),
            margin in 0.01..0.5_f64,
        ) {
            let named = |index: usize, levels: &[f64]| {
                let metrics = vec![
                    figure("scaling.efficiency", "1", levels),
                    figure("memory.peak", "B", &[levels[0]; 2]),
                ];
                CaseFigures { id: index.to_string(), metrics, ..case(levels) }
            };
            let runs = |of_second: bool| {
                let levels = |case: &(Vec<f64>, Vec<f64>)| {
                    if of_second { case.1.clone() } else { case.0.clone() }
                };
                let cases = cases.iter().enumerate();
                run(cases.map(|(index, case)| named(index, &levels(case))).collect())
            };
            let (first, second) = (runs(false), runs(true));
            let (there, back) = (compare(&first, &second, margin), compare(&second, &first, margin));
            let near = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-9;
            if let Some((speed_up, count)) = there.speed_up {
                let (other, of) = back.speed_up.expect("the same ratios");
                prop_assert!(near(speed_up.value * other.value, 1.0) && count == of);
                prop_assert!(near(speed_up.low * other.high, 1.0));
            }
            prop_assert_eq!(there.cases.len(), cases.len());
            for one in &there.cases {
                let other = back.cases.iter().find(|other| other.id == one.id).expect("the case");
                let pairs = std::iter::once((&one.main, &other.main))
                    .chain(one.others.iter().zip(&other.others));
                for (one, other) in pairs {
                    prop_assert_eq!(one.verdict(), mirrored(other.verdict()));
                    prop_assert_eq!(one.needed(margin), other.needed(margin));
                    prop_assert_eq!(one.false_discovery_rate, other.false_discovery_rate);
                    prop_assert_eq!(one.detectable(), other.detectable());
                    prop_assert_eq!(one.ratio.is_some(), other.ratio.is_some());
                    if let (Some(one), Some(other)) = (one.ratio, other.ratio) {
                        prop_assert!(near(one.value * other.value, 1.0));
                        prop_assert!(near(one.low * other.high, 1.0));
                    }
                    match (one.change, other.change) {
                        (Change::Within(one), Change::Within(other)) => {
                            prop_assert!((one - other).abs() < 1e-9 && one <= margin);
                        }
                        (one, other) => prop_assert_eq!(
                            matches!(one, Change::CannotTell(_)),
                            matches!(other, Change::CannotTell(_))
                        ),
                    }
                }
            }
        }
    }

    #[test]
    fn a_single_process_tells_nothing_of_the_next() {
        for (before, after) in [
            (&[1000.0][..], &[2000.0][..]),
            (&[1000.0], &[2000.0, 2001.0, 2003.0]),
            (&[2000.0, 2001.0, 2003.0], &[1000.0]),
        ] {
            assert_eq!(change(before, after), Change::CannotTell(Doubt::OneProcess));
            let found = compared(&case(before), &case(after)).main;
            assert_eq!(found.needed(0.05), Some(Needed::Processes(5)));
        }
        assert_eq!(change(&[1000.0, 1001.0, 1003.0], &[2000.0, 2001.0, 2003.0]), Change::Larger);
    }

    #[test]
    fn what_surely_stays_within_the_margin_is_the_same() {
        let (before, after) = ([100.0, 100.2, 99.8, 100.1], [100.1, 99.9, 100.3, 100.0]);
        let found = compared(&case(&before), &case(&after)).main;
        let Change::Within(bound) = found.change else { panic!("{:?}", found.change) };
        assert!((0.001..0.01).contains(&bound) && found.verdict() == "same", "{bound}");
        let narrow = compare(&run(vec![case(&before)]), &run(vec![case(&after)]), 0.001);
        let narrow = &narrow.cases[0].main;
        assert_eq!(narrow.change, Change::CannotTell(Doubt::NotFound));
        assert!(matches!(narrow.needed(0.001), Some(Needed::Processes(count)) if count > 4));
    }

    #[test]
    fn processes_that_say_too_little_are_told_apart() {
        let wide = change(&[100.0, 101.0, 103.0], &[10.0, 10_000.0, 20_000.0]);
        assert_eq!(wide, Change::CannotTell(Doubt::NotFound));
        let same = change(&[5.0, 5.0, 5.0], &[6.0, 6.0, 6.0]);
        assert_eq!(same, Change::CannotTell(Doubt::Undefined(Undefined::NoSpread)));
        let zero = change(&[0.0, 5.0, 5.0], &[6.0, 6.0, 7.0]);
        assert_eq!(zero, Change::CannotTell(Doubt::Undefined(Undefined::NotPositive)));
        assert_eq!(change(&[], &[5.0, 6.0]), Change::CannotTell(Doubt::NoQueries));
    }

    #[test]
    fn nothing_is_said_of_what_is_simulated_or_invalid() {
        let (fast, slow) = (case(&[1000.0, 1001.0]), case(&[2000.0, 2001.0]));
        assert_eq!(compared(&fast, &slow).main.change, Change::Larger);
        let invalid = CaseFigures { trust: Trust::Invalid, ..fast.clone() };
        assert_eq!(compared(&invalid, &slow).main.change, Change::CannotTell(Doubt::Invalid));
        let simulated = CaseFigures { trust: Trust::Simulated, ..fast };
        let found = compared(&simulated, &slow);
        assert_eq!(found.main.change, Change::CannotTell(Doubt::Simulated));
        assert_eq!(found.main.false_discovery_rate, None);
        let found = compare(&run(vec![simulated]), &run(vec![slow]), 0.05);
        assert_eq!(found.speed_up, None);
    }

    /// Queries are slower at a higher rate, which is not a loss if the rate was searched.
    #[test]
    fn where_the_rate_was_searched_the_rates_are_compared_and_more_is_better() {
        let at = |latency: f64, rates: &[f64]| CaseFigures {
            main: Some(figure(RATE, "1/s", rates)),
            metrics: vec![figure("latency.p99", "ns", &[latency, latency + 1.0])],
            ..case(rates)
        };
        let (low, high) = (at(1000.0, &[498.0, 500.0, 502.0]), at(3000.0, &[899.0, 900.0, 901.0]));
        let found = compared(&low, &high);
        assert_eq!((found.main.verdict(), &*found.main.metric), ("faster", RATE));
        assert!((found.main.part().expect("a change") - 0.8).abs() < 1e-4);
        assert!(found.others.is_empty(), "they are latencies at different rates");
        assert_eq!(compared(&high, &low).main.verdict(), "slower");
        // Of one run the rate was not searched.
        let found = compared(&case(&[1000.0, 1001.0]), &high);
        assert_eq!(found.main.change, Change::CannotTell(Doubt::NoQueries));
    }

    #[test]
    fn every_metric_is_compared_and_of_many_few_findings_are_false() {
        let with = |metrics| CaseFigures { metrics, ..case(&[1000.0, 1010.0, 1020.0]) };
        let before = with(vec![
            figure(LATENCY, "ns", &[1.0, 2.0, 3.0]),
            figure("memory.peak", "B", &[100.0, 101.0, 102.0]),
            figure("scaling.efficiency", "1", &[0.9, 0.91, 0.92]),
            figure("gone.value", "1", &[1.0, 2.0, 3.0]),
        ]);
        let after = with(vec![
            figure(LATENCY, "ns", &[9.0, 9.1, 9.2]),
            figure("memory.peak", "B", &[200.0, 201.0, 202.0]),
            figure("scaling.efficiency", "1", &[0.5, 0.51, 0.52]),
        ]);
        let found = compared(&before, &after);
        let verdicts: Vec<_> =
            found.others.iter().map(|one| (&*one.metric, one.verdict())).collect();
        assert_eq!(verdicts, [("memory.peak", "worse"), ("scaling.efficiency", "worse")]);
        // The same weak difference is a finding by itself, and not among a hundred without one.
        let of = |values: [&[f64]; 2]| {
            let [before, after] = values.map(|values| figure("weak", "ns", values));
            MetricChange::new(Some(&before), Some(&after))
        };
        let weak = || of([&[1.0, 1.1, 1.2], &[1.3, 1.4, 1.5]]);
        let none = || of([&[1.0, 1.1, 1.2], &[1.0, 1.1, 1.21]]);
        let mut alone = weak();
        settle(vec![&mut alone], 0.05);
        assert_eq!(alone.change, Change::Larger);
        let mut all: Vec<_> = std::iter::once(weak()).chain((0..100).map(|_| none())).collect();
        settle(all.iter_mut().collect(), 0.05);
        assert_eq!(all[0].change, Change::CannotTell(Doubt::NotFound));
        assert!(all[0].false_discovery_rate > Some(FALSE_DISCOVERIES));
    }

    #[test]
    fn what_no_process_changes_is_compared_exactly() {
        let with = |levels: &[f64], metrics| CaseFigures { metrics, ..case(levels) };
        let levels: &[f64] = &[1000.0, 1010.0, 1020.0];
        let metrics = |shift: f64| {
            vec![
                figure("memory.baseline", "B", &[4096.0 + shift; 3]),
                figure("accuracy.top1", "1", &[0.5 + shift / 4096.0]),
                figure("scaling.batch", "1", &[1.0 + shift]),
                figure("startup.load", "ns", &[7.0 + shift; 3]),
            ]
        };
        let (before, after) = (with(levels, metrics(0.0)), with(levels, metrics(64.0)));
        let found = |before: &CaseFigures, after: &CaseFigures| -> Vec<_> {
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
        let none = with(levels, vec![figure("memory.baseline", "B", &[0.0; 3])]);
        let from_none = &compared(&none, &after).others[0];
        assert_eq!((from_none.change, from_none.part()), (Change::Larger, None));
        // One process does not show that others have the same value.
        let single = |size| with(&[1000.0], vec![figure("memory.baseline", "B", &[size])]);
        assert_eq!(found(&single(4096.0), &single(4160.0)), [unknown(Doubt::OneProcess)]);
        // Invalid results are not compared, even if they are exact.
        let invalid = CaseFigures { trust: Trust::Invalid, ..before };
        assert!(
            found(&invalid, &after)
                .iter()
                .all(|(change, _)| { *change == Change::CannotTell(Doubt::Invalid) })
        );
    }

    #[test]
    fn cases_are_matched_by_definition_and_then_by_coordinates() {
        let of = |id: &str, model: &str, level: f64| CaseFigures {
            id: id.into(),
            key: CaseKey::new(model, "b", "d:0"),
            ..case(&[level, level + 1.0, level + 2.0])
        };
        let first = run(vec![of("1", "a", 1e3), of("2", "b", 1e3), of("3", "c", 1e3)]);
        let second = run(vec![
            of("1", "a", 1e3),
            of("4", "b", 2e3),
            of("5", "c", 1e3),
            // Two with the same coordinates, of which neither is the one.
            of("6", "c", 1e3),
            of("7", "d", 1e3),
        ]);
        let found = compare(&first, &second, 0.05);
        let cases: Vec<_> = found.cases.iter().map(|case| (&*case.id, case.is_redefined)).collect();
        // What moved comes first.
        assert_eq!(cases, [("4", true), ("1", false)]);
        assert_eq!(found.alone, 1 + 3);
        let (speed_up, count) = found.speed_up.expect("two ratios");
        assert!(count == 2 && (speed_up.value - 0.5_f64.sqrt()).abs() < 1e-3, "{speed_up:?}");
    }

    #[test]
    fn a_clock_that_changed_a_little_is_the_same() {
        let of = |facts: &[(&str, &str)]| -> BTreeMap<String, String> {
            facts.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
        };
        let first = of(&[
            ("device.cuda.cuda:0.attributes.clock-mhz", "1980"),
            ("processor.frequency-hertz", "3000000000"),
            ("processor.governor", "performance"),
            ("clock-source", "tsc"),
            ("memory-bytes", "1000"),
        ]);
        let second = of(&[
            ("device.cuda.cuda:0.attributes.clock-mhz", "1965"),
            ("processor.frequency-hertz", "2000000000"),
            ("processor.governor", "powersave"),
            ("clock-source", "hpet"),
            ("memory-bytes", "1001"),
            ("processor.turbo", "true"),
        ]);
        let names = |found: Vec<Difference>| -> Vec<String> {
            found.into_iter().map(|one| one.name).collect()
        };
        let expected = [
            "clock-source",
            "memory-bytes",
            "processor.frequency-hertz",
            "processor.governor",
            "processor.turbo",
        ];
        assert_eq!(names(differences(&first, &second)), expected);
        assert_eq!(names(differences(&second, &first)), expected);
        assert!(differences(&first, &first).is_empty());
    }
}
