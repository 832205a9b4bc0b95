//! Pairs of real workers.

use std::path::Path;

use host_record::{
    CaseSpec, Failure, Order, Outcome, Pair, PairAxis, PairEnd, PairVerdict, Paired, SamplePhase,
    Share, Side, WarmUp,
};
use host_run::{Interrupt, RunSummary, Silent, UnfinishedPair, run_pairs};

use super::{BUILT, queries, runner};
use crate::common::{self, Memory};

/// Returns one side of a pair.
fn side(id: &str, time: &str, more: &[(&str, &str)]) -> Box<CaseSpec> {
    let mut case = common::case(id, &BUILT.fault, &BUILT.fault);
    let options = [("fault", "slow"), ("fault-microseconds", time)];
    case.options =
        options.iter().chain(more).map(|(key, value)| ((*key).into(), (*value).into())).collect();
    let share = |value: f64| Share::new(value).expect("a share");
    case.measure.order = Order::Paired;
    case.measure.pair = Some(Pair {
        axis: PairAxis::Backend,
        sides: ["one".into(), "two".into()],
        level: share(0.95),
        half_width: share(0.3),
    });
    case.measure.warm_up = WarmUp::Iterations(3);
    case.measure.minimum_duration_ns = 1_000_000;
    case.measure.processes = 12;
    Box::new(case)
}

fn measure(pair: UnfinishedPair) -> (RunSummary, Memory) {
    let mut memory = Memory::default();
    let (executor, interrupt) = (&mut runner().executor(), Interrupt::new());
    let summary = run_pairs([pair], executor, &mut memory, &mut Silent, &interrupt);
    (summary.expect("memory does not fail"), memory)
}

fn paired(record: &host_record::CaseRecord) -> &Paired {
    record.report().and_then(|report| report.paired.as_deref()).expect("it finished in a pair")
}

#[test]
fn a_pair_is_measured_in_turns_until_it_tells() {
    let cases = [side("a", "50", &[]), side("b", "150", &[])];
    let (summary, memory) = measure(UnfinishedPair { cases, ratios: Vec::new() });
    // At 95 %, seven processes of each side tell such a difference.
    assert_eq!(summary, RunSummary { finished: 14, ..RunSummary::default() });
    let order: Vec<_> =
        memory.records.iter().map(|record| (&*record.case_id, record.process)).collect();
    assert_eq!(order[..4], [("a", 0), ("b", 0), ("a", 1), ("b", 1)]);
    let [.., first, second] = &memory.records[..] else { panic!("records") };
    let (first, second) = (paired(first), paired(second));
    assert_eq!((first.side, &*first.with), (Side::First, "b"));
    assert_eq!((second.side, &*second.with), (Side::Second, "a"));
    assert_eq!(second.result.end, Some(PairEnd::Differs));
    assert_eq!(second.result.verdict(), PairVerdict::Slower);
    assert_eq!(first.result.verdict(), PairVerdict::Faster);
    assert!((first.ratio * second.ratio - 1.0).abs() < 1e-9, "{first:?} {second:?}");
    assert!(second.rounds >= 2 && second.block_ns >= 2_000_000, "{second:?}");
    assert_eq!(memory.records.last().map(host_record::CaseRecord::processes), Some(7));
    // Each process has the rounds of its side: at least two blocks in each.
    let measured = queries(&memory.samples, SamplePhase::Measured);
    assert!(measured >= 14 * 4, "{measured}");
    assert!(memory.samples.iter().any(|block| block.phase == SamplePhase::WarmUp));
}

#[test]
fn a_pair_is_continued_with_the_ratios_that_are_known() {
    let cases = [side("a", "50", &[]), side("b", "150", &[])];
    let ratios = vec![2.9, 3.0, 3.1, 2.95, 3.05, 3.0];
    let (summary, memory) = measure(UnfinishedPair { cases, ratios });
    assert_eq!(summary.finished, 2);
    assert!(memory.records.iter().all(|record| record.process == 6));
    assert_eq!(paired(&memory.records[1]).result.processes, 7);
}

#[test]
fn a_side_that_fails_ends_its_pair_and_names_the_reason() {
    // Of the second side: while it is loaded beside the first, before a turn, and within one.
    for (phase, after) in [("load", "0"), ("run", "0"), ("run", "20")] {
        let fault = [("fault", "segfault"), ("fault-phase", phase), ("fault-after", after)];
        let cases = [side("a", "50", &[]), side("b", "50", &fault)];
        let (summary, memory) = measure(UnfinishedPair { cases, ratios: Vec::new() });
        assert_eq!(summary, RunSummary { failed: 2, ..RunSummary::default() });
        let failures: Vec<_> = memory
            .records
            .iter()
            .map(|record| match &record.outcome {
                Outcome::Failed { failure } => failure,
                other => panic!("it did not fail: {other:?}"),
            })
            .collect();
        assert!(
            matches!(failures[0], Failure::OtherSide { other, detail }
                if other == "two" && detail.contains("SIGSEGV") && detail.contains("interleaved")),
            "{phase} {after}: {}",
            failures[0]
        );
        assert!(matches!(failures[1], Failure::Signal { .. }), "{phase} {after}: {}", failures[1]);
    }
}

#[test]
fn a_side_that_cannot_start_costs_its_pair() {
    let mut gone = side("b", "50", &[]);
    gone.plugin.id = Path::new("/nowhere/libgone.so").display().to_string();
    let cases = [side("a", "50", &[]), gone];
    let (summary, memory) = measure(UnfinishedPair { cases, ratios: Vec::new() });
    assert_eq!((summary.failed, memory.records.len()), (2, 2));
    let measured = queries(&memory.samples, SamplePhase::Measured);
    assert_eq!(measured, 0, "nothing is measured for one side alone");
}

#[test]
fn an_interrupted_pair_is_left_unrecorded() {
    let cases = [side("a", "50", &[]), side("b", "50", &[])];
    let pair = UnfinishedPair { cases, ratios: Vec::new() };
    let (mut memory, interrupt) = (Memory::default(), Interrupt::new());
    interrupt.interrupt();
    let summary = run_pairs([pair], &mut runner().executor(), &mut memory, &mut Silent, &interrupt)
        .expect("memory does not fail");
    assert!(summary.interrupted && memory.records.is_empty());
}
