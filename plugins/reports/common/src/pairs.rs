//! Pairs of cases that were measured in turns.

use host_record::{PairResult, ratio_change, words};

use crate::{Case, Labels, Run};

/// Headings of the columns of pairs.
pub const PAIR_HEADINGS: [&str; 5] =
    ["case", "compared with", "time per query", "interval", "answer"];

/// A pair: the case, the one that it is compared with, and what their processes say together.
#[derive(Debug, Clone)]
pub struct PairRow<'a> {
    /// The second side.
    pub case: &'a Case,
    /// The first side; `None` if the run does not have it.
    pub with: Option<&'a Case>,
    /// The result, from the second side's view.
    pub result: PairResult,
}

/// Returns the pairs of a run, in the order of the plan.
#[must_use]
pub fn pairs(run: &Run) -> Vec<PairRow<'_>> {
    let row = |case| {
        let case: &Case = case;
        let paired = case.record.pair()?;
        Some(PairRow { case, with: run.case(&paired.with), result: paired.result })
    };
    run.cases.iter().filter_map(row).collect()
}

impl PairRow<'_> {
    /// Returns its cells, in the order of [`PAIR_HEADINGS`].
    #[must_use]
    pub fn cells(&self, labels: &Labels) -> [String; 5] {
        let PairResult { ratio, interval, level, processes, .. } = self.result;
        let bounds = interval.map(|(low, high)| {
            format!("{} to {} ({})", ratio_change(low), ratio_change(high), words::level(level))
        });
        let processes = words::count(processes.into(), "process", "processes");
        [
            labels.label(self.case),
            self.with.map(|case| labels.label(case)).unwrap_or_default(),
            ratio_change(ratio),
            bounds.unwrap_or_else(|| "too few processes".to_owned()),
            format!("{}, {processes}", self.result.verdict()),
        ]
    }
}

/// Explains the table.
pub const PAIRS_EXPLAINED: &str = "The two cases of a pair were measured in turns of some milliseconds, in several \
    processes of each. A change is that of the time per query: the mean of the middle half of the queries of each turn, \
    so stalls that are rarer do not count. The interval is over processes, and holds although they were looked at after each.";
