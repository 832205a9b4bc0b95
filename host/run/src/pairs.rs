//! A run in pairs: two cases at a time, and as many processes of both as the answer needs.

use host_record::{
    CaseSpec, Failure, Outcome, Pair, PairEnd, PairResult, PairVerdict, Paired, Recorder, Side,
};
use host_statistics::{always_valid_count, always_valid_interval, moments};

use crate::error::RunError;
use crate::executor::{EndedSide, Executor, PairExecution};
use crate::interrupt::Interrupt;
use crate::observer::Observer;
use crate::rounds::PairRounds;
use crate::runner::{RunSummary, count, record};

/// A pair of which processes are missing.
#[derive(Debug, Clone)]
pub struct UnfinishedPair {
    /// Both sides.
    pub cases: [Box<CaseSpec>; 2],
    /// The ratio of each pair of processes that is recorded: time per query of the second side by that of the first.
    pub ratios: Vec<f64>,
}

/// Executes pairs in turn. Both sides of a process are recorded before the next one starts.
///
/// # Errors
///
/// As [`crate::run`].
pub fn run_pairs(
    pairs: impl IntoIterator<Item = UnfinishedPair>,
    executor: &mut dyn Executor,
    recorder: &mut impl Recorder,
    observer: &mut impl Observer,
    interrupt: &Interrupt,
) -> Result<RunSummary, RunError> {
    let mut summary = RunSummary::default();
    for UnfinishedPair { mut cases, mut ratios } in pairs {
        let Some(pair) = cases[0].measure.pair.clone() else { continue };
        let most = cases[0].measure.processes;
        loop {
            if interrupt.is_interrupted() {
                summary.interrupted = true;
                return Ok(summary);
            }
            let process = u32::try_from(ratios.len()).unwrap_or(u32::MAX);
            cases.iter_mut().for_each(|case| case.process = process);
            observer.case_started(&cases[0]);
            let ended = executor.execute_pair([&cases[0], &cases[1]], interrupt);
            let PairExecution::Ended(mut sides, rounds) = ended else {
                summary.interrupted = true;
                return Ok(summary);
            };
            let result = match rounds.filter(|_| sides.iter().all(has_finished)) {
                Some(rounds) => {
                    ratios.push(rounds.ratio);
                    let result = judge(&ratios, &pair, most);
                    put(&mut sides, &cases, rounds, result);
                    Some(result)
                }
                None => {
                    refuse(&mut sides, &pair);
                    None
                }
            };
            for (case, side) in cases.iter().zip(*sides) {
                recorder.case_started(case).map_err(RunError::recorder)?;
                for block in &side.samples {
                    recorder.samples(block).map_err(RunError::recorder)?;
                }
                for block in &side.outputs {
                    recorder.outputs(block).map_err(RunError::recorder)?;
                }
                let record = record((**case).clone(), side.ended);
                recorder.case_finished(&record).map_err(RunError::recorder)?;
                count(&mut summary, &record);
                observer.case_finished(&record);
            }
            if result.is_none_or(|result| result.end.is_some()) {
                break;
            }
        }
    }
    Ok(summary)
}

fn has_finished(side: &EndedSide) -> bool {
    matches!(side.ended.outcome, Outcome::Finished(_))
}

/// Refuses a side that finished although the other did not, which ends the pair.
fn refuse(sides: &mut [EndedSide; 2], pair: &Pair) {
    let reasons = [0, 1].map(|side| match &sides[side].ended.outcome {
        Outcome::Finished(_) => "it was never its turn".to_owned(),
        Outcome::Failed { failure } => failure.to_string(),
        Outcome::Gap { gap } => gap.to_string(),
    });
    let others = pair.sides.iter().zip(reasons).rev();
    for (side, (other, detail)) in sides.iter_mut().zip(others) {
        if has_finished(side) {
            let other = other.clone();
            side.ended.outcome = Outcome::Failed { failure: Failure::OtherSide { other, detail } };
        }
    }
}

/// Puts a result into the reports of both sides.
fn put(
    sides: &mut [EndedSide; 2],
    cases: &[Box<CaseSpec>; 2],
    rounds: PairRounds,
    result: PairResult,
) {
    let PairRounds { ratio, total_ratio, rounds, block_ns, handover_ns } = rounds;
    for (position, side) in sides.iter_mut().enumerate() {
        let Outcome::Finished(report) = &mut side.ended.outcome else { continue };
        let own = |ratio: f64| if position == 1 { ratio } else { 1.0 / ratio };
        report.paired = Some(Box::new(Paired {
            with: cases[1 - position].id.clone(),
            side: Side::at(position),
            ratio: own(ratio),
            total_ratio: own(total_ratio),
            rounds,
            block_ns,
            handover_ns,
            result: if position == 1 { result } else { result.mirrored() },
        }));
    }
}

/// Returns what the ratios of all pairs of processes say, one or more, and whether they are enough.
pub(crate) fn judge(ratios: &[f64], pair: &Pair, most: u32) -> PairResult {
    let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let level = pair.level.get();
    let found = always_valid_interval(&logarithms, level).ok();
    let mean = moments(&logarithms).map_or(0.0, |moments| moments.mean);
    let interval = found.and_then(|found| found.interval);
    let mut result = PairResult {
        processes: u32::try_from(ratios.len()).unwrap_or(u32::MAX),
        ratio: mean.exp(),
        interval: interval.map(|(low, high)| (low.exp(), high.exp())),
        deviation: found.map(|found| found.deviation),
        level,
        half_width: pair.half_width.get(),
        end: None,
        needed: None,
    };
    result.end = match result.verdict() {
        PairVerdict::Faster | PairVerdict::Slower => Some(PairEnd::Differs),
        PairVerdict::SameWithin(_) => Some(PairEnd::Narrow),
        PairVerdict::Unknown(_) if result.processes >= most => Some(PairEnd::MostProcesses),
        PairVerdict::Unknown(_) => None,
    };
    if let (PairVerdict::Unknown(_), Some(deviation)) = (result.verdict(), result.deviation) {
        // Told from 1, or narrow: whichever comes first.
        let distance = mean.abs().max((1.0 + result.half_width).ln());
        let needed = always_valid_count(deviation, distance, level);
        let needed = needed.and_then(|needed| u32::try_from(needed).ok());
        result.needed = needed.map(|needed| needed.max(result.processes + 1));
    }
    result
}

#[cfg(test)]
mod tests {
    use host_record::{PairAxis, Share};

    use super::*;

    fn pair(level: f64, half_width: f64) -> Pair {
        let share = |value: f64| Share::new(value).expect("a share");
        let sides = ["a".into(), "b".into()];
        Pair { axis: PairAxis::Backend, sides, level: share(level), half_width: share(half_width) }
    }

    /// Ratios around one, of which every other is this much higher or lower.
    fn ratios(count: usize, middle: f64, spread: f64) -> Vec<f64> {
        let one =
            |index: usize| middle * if index.is_multiple_of(2) { spread } else { 1.0 / spread };
        (0..count).map(one).collect()
    }

    #[test]
    fn a_pair_goes_on_until_it_tells() {
        let pair = pair(0.995, 0.01);
        let judge = |count: usize, middle: f64, spread: f64| {
            judge(&ratios(count, middle, spread), &pair, 40)
        };
        let one = judge(1, 1.2, 1.001);
        assert_eq!((one.processes, one.interval, one.deviation, one.end), (1, None, None, None));
        assert_eq!(judge(10, 1.2, 1.001).end, None);
        let slower = judge(11, 1.2, 1.001);
        assert_eq!((slower.verdict(), slower.end), (PairVerdict::Slower, Some(PairEnd::Differs)));
        let faster = judge(11, 0.8, 1.001);
        assert_eq!((faster.verdict(), faster.end), (PairVerdict::Faster, Some(PairEnd::Differs)));
        let same = judge(12, 1.0, 1.001);
        assert_eq!(same.end, Some(PairEnd::Narrow));
        assert!(matches!(same.verdict(), PairVerdict::SameWithin(bound) if bound < 0.003));
        let wide = judge(20, 1.0, 1.05);
        assert_eq!(wide.end, None);
        assert!(wide.needed > Some(100), "{wide:?}");
        assert_eq!(judge(40, 1.0, 1.05).end, Some(PairEnd::MostProcesses));
    }

    #[test]
    fn exchanging_the_sides_mirrors_the_result() {
        let pair = pair(0.95, 0.01);
        let ratios = [1.02, 1.03, 1.01, 1.015, 1.022, 1.018, 1.03, 1.02];
        let there = judge(&ratios, &pair, 40);
        let back = judge(&ratios.map(|ratio| 1.0 / ratio), &pair, 40).mirrored();
        let (low, high) = there.interval.expect("enough");
        let (back_low, back_high) = back.interval.expect("enough");
        for (one, other) in [(there.ratio, back.ratio), (low, back_low), (high, back_high)] {
            assert!((one / other - 1.0).abs() < 1e-12);
        }
        assert_eq!(there.verdict(), back.verdict());
    }
}
