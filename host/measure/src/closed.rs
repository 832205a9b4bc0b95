//! Closed loops: a query is issued when the last one is done.

use crate::block::{Block, Times};
use crate::clock::Clock;
use crate::error::{MeasureError, between, chain_in_order};
use crate::stop::{Goal, Observer, StopRule, Summary};

/// Runs one client, on this thread.
pub(crate) fn run<C: Clock, E, O: Observer>(
    clock: &C,
    edges: &mut [u64],
    longest_block_ns: u64,
    rule: &StopRule,
    observer: &mut O,
    mut query: impl FnMut() -> Result<(), E>,
) -> Result<Summary, MeasureError<E, O::Error>> {
    let origin = clock.now();
    let mut goal = Goal::new(rule);
    let mut summary = Summary::default();
    loop {
        summary.elapsed_ns = between(origin, clock.now())?;
        if goal.is_reached(&summary) {
            if goal.is_enough(&summary, observer) {
                summary.enough = true;
                return Ok(summary);
            }
            continue;
        }
        let remaining_ns = rule.maximum_ns.saturating_sub(summary.elapsed_ns);
        if remaining_ns == 0 {
            return Ok(summary);
        }
        let budget_ns = longest_block_ns.min(remaining_ns);
        let (budget_ns, limit) = match missing(&goal, summary.timed_ns, summary.queries) {
            Missing::Time(time_ns) => (budget_ns.min(time_ns), edges.len() - 1),
            Missing::Queries(queries) => (budget_ns, at_most(queries, edges.len() - 1)),
        };
        let (count, result) = time_block(clock, &mut edges[..=limit], budget_ns, &mut query);
        let edges = &edges[..=count];
        chain_in_order(edges)?;
        summary.queries += count as u64;
        summary.timed_ns += edges[count] - edges[0];
        if count > 0 {
            let block = Block { lane: 0, times: Times::Chain(edges) };
            observer.block(block).map_err(MeasureError::Sink)?;
        }
        result.map_err(MeasureError::Target)?;
    }
}

/// The remainder of a goal. A block must not run past the point where the goal is reached: while
/// time is missing the clock decides; after that, the number of queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Time in nanoseconds, and maybe queries.
    Time(u64),
    /// Only queries, and maybe none.
    Queries(u64),
}

/// Returns the time and queries that a goal still needs.
pub(crate) fn missing(goal: &Goal, timed_ns: u64, queries: u64) -> Missing {
    match goal.minimum_ns.saturating_sub(timed_ns) {
        0 => Missing::Queries(goal.minimum_queries.saturating_sub(queries)),
        time_ns => Missing::Time(time_ns),
    }
}

/// Returns `queries`, limited to `limit`.
pub(crate) fn at_most(queries: u64, limit: usize) -> usize {
    limit.min(usize::try_from(queries).unwrap_or(usize::MAX))
}

/// Times queries into `edges` until it is full or a query ends `budget_ns` or more after the start. Returns
/// the number of successful queries.
///
/// A clock that goes back behind the block's start ends the block as well, since the difference
/// wraps around to a large number: one comparison serves both.
#[inline(always)]
pub(crate) fn time_block<E>(
    clock: &impl Clock,
    edges: &mut [u64],
    budget_ns: u64,
    query: &mut impl FnMut() -> Result<(), E>,
) -> (usize, Result<(), E>) {
    let [first, rest @ ..] = edges else {
        return (0, Ok(()));
    };
    let start = clock.now();
    *first = start;
    let mut count = 0;
    for edge in rest {
        if let Err(error) = query() {
            return (count, Err(error));
        }
        let now = clock.now();
        *edge = now;
        count += 1;
        if now.wrapping_sub(start) >= budget_ns {
            break;
        }
    }
    (count, Ok(()))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;
    use crate::testing::{Judge, NO_LIMIT, Steps, VirtualClock, keep, rule};
    use crate::{Meter, Pattern};

    #[test]
    fn readings_are_chained_and_blocks_restart_the_chain() {
        let clock = VirtualClock::default();
        let mut target = Steps::new(&clock, [5, 7, 1, 2, 9].map(Some));
        let mut blocks = Vec::new();
        let mut sink = |block: Block<'_>| {
            let Times::Chain(edges) = block.times else { panic!("not a chain") };
            blocks.push(edges.to_vec());
            // A pause between blocks must not be charged to a query.
            clock.pass(1000);
            Ok::<_, Infallible>(())
        };
        let summary = Meter::new(&clock, 2, NO_LIMIT)
            .run(&mut target, Pattern::SingleStream, &rule(0, 5, NO_LIMIT), &mut sink)
            .expect("nothing fails");
        assert_eq!(blocks, [vec![0, 5, 12], vec![1012, 1013, 1015], vec![2015, 2024]]);
        assert_eq!(
            summary,
            Summary { queries: 5, timed_ns: 24, elapsed_ns: 3024, enough: true, pace: None }
        );
    }

    #[test]
    fn both_minima_have_to_be_reached() {
        for (rule, queries) in [
            (rule(100, 3, NO_LIMIT), 10),
            (rule(100, 15, NO_LIMIT), 15),
            (rule(95, 1, NO_LIMIT), 10),
            (rule(0, 0, NO_LIMIT), 0),
            (rule(100, 3, 45), 5),
            (rule(0, 1_000_000, 45), 5),
            (rule(100, 100, 0), 0),
        ] {
            let clock = VirtualClock::default();
            let mut target = Steps::constant(&clock, 10);
            let mut blocks = Vec::new();
            let summary = Meter::new(&clock, 4, NO_LIMIT)
                .run(&mut target, Pattern::SingleStream, &rule, &mut keep(&mut blocks))
                .expect("nothing fails");
            assert_eq!(summary.queries, queries, "{rule:?}");
            assert_eq!(target.runs, queries, "{rule:?}");
            assert_eq!(summary.enough, rule.maximum_ns == NO_LIMIT, "{rule:?}");
        }
    }

    #[test]
    fn pauses_count_towards_the_maximum_and_not_towards_the_minimum() {
        let clock = VirtualClock::default();
        let mut target = Steps::constant(&clock, 10);
        let mut sink = |_: Block<'_>| {
            clock.pass(100);
            Ok::<_, Infallible>(())
        };
        let mut meter = Meter::new(&clock, 1, NO_LIMIT);
        let single = Pattern::SingleStream;
        let summary =
            meter.run(&mut target, single, &rule(50, 1, NO_LIMIT), &mut sink).expect("works");
        assert_eq!(
            summary,
            Summary { queries: 5, timed_ns: 50, elapsed_ns: 550, enough: true, pace: None }
        );
        let summary = meter.run(&mut target, single, &rule(50, 1, 330), &mut sink).expect("works");
        assert_eq!(
            summary,
            Summary { queries: 3, timed_ns: 30, elapsed_ns: 330, enough: false, pace: None }
        );
    }

    #[test]
    fn a_slow_target_still_hands_blocks_on() {
        let clock = VirtualClock::default();
        let mut target = Steps::constant(&clock, 40);
        let mut blocks = Vec::new();
        Meter::new(&clock, 1000, 100)
            .run(&mut target, Pattern::SingleStream, &rule(0, 7, NO_LIMIT), &mut keep(&mut blocks))
            .expect("nothing fails");
        assert_eq!(blocks.iter().map(|edges| edges.len() - 1).collect::<Vec<_>>(), [3, 3, 1]);
    }

    #[test]
    fn an_offline_query_starts_all_batches_and_waits_once() {
        let clock = VirtualClock::default();
        let mut target = Steps::constant(&clock, 10);
        let mut blocks = Vec::new();
        let offline = Pattern::Offline { batches: 24 };
        Meter::new(&clock, 8, NO_LIMIT)
            .run(&mut target, offline, &rule(0, 3, NO_LIMIT), &mut keep(&mut blocks))
            .expect("nothing fails");
        assert_eq!((target.runs, target.enqueued, target.waits), (0, 72, 3));
        assert_eq!(blocks, [[0, 10, 20, 30]]);
    }

    #[test]
    fn a_multi_stream_query_is_one_of_several_batches() {
        let clock = VirtualClock::default();
        let mut target = Steps::new(&clock, [70, 90].map(Some));
        let mut blocks = Vec::new();
        let multi_stream = Pattern::MultiStream { batches: 8 };
        Meter::new(&clock, 8, NO_LIMIT)
            .run(&mut target, multi_stream, &rule(0, 2, NO_LIMIT), &mut keep(&mut blocks))
            .expect("nothing fails");
        assert_eq!((target.runs, target.enqueued, target.waits), (0, 16, 2));
        assert_eq!(blocks, [[0, 70, 160]]);
    }

    #[test]
    fn a_judge_is_asked_ever_more_seldom_and_never_within_a_block() {
        let clock = VirtualClock::default();
        let mut target = Steps::constant(&clock, 10);
        let mut judge = Judge { enough_at: 150, ..Judge::default() };
        let summary = Meter::new(&clock, 64, NO_LIMIT)
            .run(&mut target, Pattern::SingleStream, &rule(0, 40, NO_LIMIT), &mut judge)
            .expect("nothing fails");
        assert_eq!(judge.asked_at, [40, 50, 62, 77, 96, 120, 150]);
        assert_eq!((summary.queries, summary.enough), (150, true));
    }

    #[test]
    fn a_judge_who_never_has_enough_is_cut_short() {
        let clock = VirtualClock::default();
        let mut target = Steps::constant(&clock, 10);
        let mut judge = Judge { enough_at: u64::MAX, ..Judge::default() };
        let summary = Meter::new(&clock, 64, NO_LIMIT)
            .run(&mut target, Pattern::SingleStream, &rule(100, 0, 1000), &mut judge)
            .expect("nothing fails");
        assert_eq!(judge.asked_at, [10, 12, 15, 18, 22, 27, 33, 41, 51, 63, 78, 97]);
        assert_eq!((summary.queries, summary.enough), (100, false));
    }

    #[test]
    fn queries_before_a_failure_are_kept() {
        let clock = VirtualClock::default();
        let mut target = Steps::new(&clock, [Some(5), Some(6), None]);
        let mut blocks = Vec::new();
        let error = Meter::new(&clock, 8, NO_LIMIT)
            .run(&mut target, Pattern::SingleStream, &rule(0, 9, NO_LIMIT), &mut keep(&mut blocks))
            .expect_err("the third query fails");
        assert_eq!(error, MeasureError::Target("broken"));
        assert_eq!(blocks, [[0, 5, 11]]);
    }

    #[test]
    fn a_clock_that_goes_back_is_an_error() {
        // Once within the block, and once behind its start, which ends the block at once.
        for (back, after_ns, runs) in [(-20, 1130, 9), (-300, 850, 3)] {
            let clock = VirtualClock(Cell::new(1000));
            let steps = [100, 50, back, 1, 1, 1, 1, 1, 1, 1, 1, 1];
            let mut target = Steps::new(&clock, steps.map(Some));
            let mut blocks = Vec::new();
            let error = Meter::new(&clock, 16, 1_000_000)
                .run(
                    &mut target,
                    Pattern::SingleStream,
                    &rule(0, 9, NO_LIMIT),
                    &mut keep(&mut blocks),
                )
                .expect_err("the clock goes back");
            assert_eq!(error, MeasureError::ClockWentBack { before_ns: 1150, after_ns });
            assert_eq!(target.runs, runs);
            assert!(blocks.is_empty());
        }
    }

    #[test]
    fn a_sink_that_fails_ends_the_loop() {
        let clock = VirtualClock::default();
        let mut target = Steps::constant(&clock, 1);
        let error = Meter::new(&clock, 2, NO_LIMIT)
            .run(&mut target, Pattern::SingleStream, &rule(0, 9, NO_LIMIT), &mut |_: Block<'_>| {
                Err("full")
            })
            .expect_err("the sink fails");
        assert_eq!(error, MeasureError::Sink("full"));
        assert_eq!(target.runs, 2);
    }

    proptest! {
        #[test]
        fn the_rule_is_kept_to_the_query(
            steps in proptest::collection::vec(1_i64..100, 1..50),
            block in 1_usize..20,
            longest_block_ns in 1_u64..500,
            minimum_ns in 0_u64..3000,
            minimum_queries in 0_u64..100,
            maximum_ns in 0_u64..5000,
        ) {
            let rule = rule(minimum_ns, minimum_queries, maximum_ns);
            let clock = VirtualClock::default();
            let mut target = Steps::new(&clock, steps.iter().copied().map(Some).cycle());
            let mut blocks = Vec::new();
            let summary = Meter::new(&clock, block, longest_block_ns)
                .run(&mut target, Pattern::SingleStream, &rule, &mut keep(&mut blocks))
                .expect("nothing fails");

            let latencies: Vec<u64> = blocks
                .iter()
                .flat_map(|edges| edges.windows(2).map(|pair| pair[1] - pair[0]))
                .collect();
            let expected: Vec<u64> = steps.iter().map(|step| *step as u64).cycle()
                .take(latencies.len()).collect();
            prop_assert_eq!(&latencies, &expected);
            prop_assert_eq!(summary.queries, latencies.len() as u64);
            prop_assert_eq!(summary.timed_ns, latencies.iter().sum::<u64>());

            // No query began after the rule was satisfied, and none is missing.
            let enough = |count: usize| {
                let elapsed: u64 = latencies[..count].iter().sum();
                (elapsed >= minimum_ns && count as u64 >= minimum_queries) || elapsed >= maximum_ns
            };
            prop_assert!(enough(latencies.len()));
            prop_assert!(latencies.is_empty() || !enough(latencies.len() - 1));
        }
    }
}
