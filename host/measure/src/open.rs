//! Open loops: queries arrive by a schedule, and wait if the target is busy.
//!
//! On one thread the generator is the server's own thread: while the target runs, the generator
//! has nothing to do, and while it spins for the next scheduled time, the target has nothing to
//! do. The schedule stands still while a block is handed over: due times are shifted by the pause,
//! and a waiting query goes on waiting afterwards, so the queue is not affected.

use crate::block::{Block, ScheduledQuery, Times};
use crate::clock::Clock;
use crate::error::{MeasureError, between, in_order};
use crate::pace::PaceKeeper;
use crate::schedule::{Arrivals, Schedule};
use crate::stop::{Goal, Observer, StopRule, Summary};

/// Buffers of a loop on one thread.
pub(crate) struct Buffers<'a> {
    /// Times of the schedule that are generated ahead.
    pub(crate) due: &'a mut [u64],
    pub(crate) queries: &'a mut [ScheduledQuery],
}

/// Runs one server, on this thread.
pub(crate) fn run<C: Clock, E, O: Observer>(
    clock: &C,
    buffers: Buffers<'_>,
    longest_block_ns: u64,
    arrivals: Arrivals,
    rule: &StopRule,
    observer: &mut O,
    mut query: impl FnMut() -> Result<(), E>,
) -> Result<Summary, MeasureError<E, O::Error>> {
    let Buffers { due, queries } = buffers;
    let mut schedule = Schedule::new(arrivals);
    let mut next = due.len();
    let mut pace = PaceKeeper::new(arrivals);
    let mut goal = Goal::new(rule);
    let mut summary = Summary::default();
    let mut demand = Demand::default();
    let mut free = 0;

    let origin = clock.now();
    // When the schedule would have begun had it never paused, and since when it pauses.
    let (mut start, mut paused) = (origin, origin);
    loop {
        if next == due.len() {
            due.fill_with(|| schedule.advance());
            next = 0;
        }
        summary.elapsed_ns = between(origin, clock.now())?;
        let mut ahead = demand;
        let limit = due[next..].iter().take_while(|time| ahead.takes(&goal, **time)).count();
        if limit == 0 {
            summary.enough = goal.is_enough(&summary, observer);
            if summary.enough {
                break;
            }
            continue;
        }
        let remaining_ns = rule.maximum_ns.saturating_sub(summary.elapsed_ns);
        if remaining_ns == 0 {
            break;
        }
        let budget_ns = longest_block_ns.min(remaining_ns);
        let resumed = clock.now();
        start += between(paused, resumed)?;
        let due = &due[next..next + limit];
        let (count, last, result) =
            time_block(clock, resumed, budget_ns, start, due, queries, &mut query);
        let queries = &queries[..count];
        in_order([resumed].into_iter().chain(readings(queries)).chain([last]))?;
        paused = last;
        next += count;
        for time in &due[..count] {
            demand.takes(&goal, *time);
        }
        pace.add(start, &mut free, queries);
        summary.queries += count as u64;
        summary.timed_ns = last - start;
        let block = Block { lane: 0, times: Times::Scheduled(queries) };
        observer.block(block).map_err(MeasureError::Sink)?;
        result.map_err(MeasureError::Target)?;
    }
    summary.pace = Some(pace.finish((!summary.enough).then_some(paused - start)));
    Ok(summary)
}

/// Part of a schedule that a goal needs: up to its number of queries, and up to the first query that is
/// scheduled at its time or later.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Demand {
    pub(crate) queries: u64,
    reached_ns: u64,
}

impl Demand {
    /// Returns whether the goal needs more.
    pub(crate) fn wants(&self, goal: &Goal) -> bool {
        self.queries < goal.minimum_queries || self.reached_ns < goal.minimum_ns
    }

    /// Takes the next query, which is due at `time`, if it is needed.
    pub(crate) fn takes(&mut self, goal: &Goal, time: u64) -> bool {
        let wants = self.wants(goal);
        if wants {
            self.queries += 1;
            self.reached_ns = time;
        }
        wants
    }
}

/// Returns every reading of these queries, in the order in which they were taken.
pub(crate) fn readings(queries: &[ScheduledQuery]) -> impl Iterator<Item = u64> + '_ {
    queries.iter().flat_map(|query| [query.begun_ns, query.ended_ns])
}

/// Times queries that are due at `start` plus `due`, until there are no more or the time is over. Returns the
/// number of successful queries, and the last reading.
///
/// If a query waits for another, the reading that ends the one begins the other. A clock that
/// goes back behind `resumed` ends the block, as in a closed loop.
#[inline(always)]
fn time_block<E>(
    clock: &impl Clock,
    resumed: u64,
    budget_ns: u64,
    start: u64,
    due: &[u64],
    queries: &mut [ScheduledQuery],
    query: &mut impl FnMut() -> Result<(), E>,
) -> (usize, u64, Result<(), E>) {
    let end = resumed.saturating_add(budget_ns);
    let mut last = resumed;
    let mut count = 0;
    for (slot, offset_ns) in queries.iter_mut().zip(due) {
        let scheduled_ns = start.saturating_add(*offset_ns);
        if last < scheduled_ns {
            last = clock.wait_until(scheduled_ns.min(end));
            if last < scheduled_ns {
                break;
            }
        }
        let begun_ns = last;
        if let Err(error) = query() {
            return (count, last, Err(error));
        }
        last = clock.now();
        *slot = ScheduledQuery { scheduled_ns, begun_ns, ended_ns: last };
        count += 1;
        if last.wrapping_sub(resumed) >= budget_ns {
            break;
        }
    }
    (count, last, Ok(()))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;
    use crate::testing::{Judge, NO_LIMIT, Steps, VirtualClock, keep_queries, rate, rule};
    use crate::{Meter, Pattern};
    use host_record::Lateness;

    const SECOND: i64 = 1_000_000_000;

    fn constant(queries_per_second: f64) -> Pattern {
        Pattern::ConstantRate { rate: rate(queries_per_second) }
    }

    fn server(queries_per_second: f64, seed: u64) -> Pattern {
        Pattern::Server { rate: rate(queries_per_second), seed }
    }

    fn times(queries: &[(u32, ScheduledQuery)]) -> Vec<(u64, u64, u64)> {
        let times = |query: &ScheduledQuery| (query.scheduled_ns, query.begun_ns, query.ended_ns);
        queries.iter().map(|(_, query)| times(query)).collect()
    }

    #[test]
    fn queries_are_issued_on_time_and_wait_where_the_target_is_busy() {
        let clock = VirtualClock(Cell::new(1000));
        let mut target = Steps::new(&clock, [4, 25, 4, 4, 4].map(Some));
        let mut queries = Vec::new();
        let rule = rule(0, 5, NO_LIMIT);
        let mut sink = keep_queries(&mut queries);
        // A query each 10 ns.
        let summary = Meter::new(&clock, 100, NO_LIMIT)
            .run(&mut target, constant(1e8), &rule, &mut sink)
            .expect("nothing fails");
        drop(sink);
        let expected = [
            (1000, 1000, 1004),
            (1010, 1010, 1035),
            (1020, 1035, 1039),
            (1030, 1039, 1043),
            (1040, 1043, 1047),
        ];
        assert_eq!(times(&queries), expected);
        assert_eq!((summary.queries, summary.timed_ns, summary.elapsed_ns), (5, 47, 47));
        let pace = summary.pace.expect("an open loop has a pace");
        assert_eq!(pace.offered_per_second, Some(1e8));
        assert_eq!(pace.achieved_per_second, Some(4.0 * 1e9 / 43.0));
        assert_eq!(pace.unserved, 0);
        let lateness = pace.lateness.expect("there were queries");
        assert_eq!(lateness.maximum_ns, 0);
    }

    #[test]
    fn a_late_generator_is_told_from_a_busy_target() {
        /// A clock whose waits end 7 ns late.
        struct Late(VirtualClock);
        impl Clock for Late {
            fn now(&self) -> u64 {
                self.0.now()
            }
            fn wait_until(&self, deadline_ns: u64) -> u64 {
                self.0.wait_until(deadline_ns + 7)
            }
        }
        let clock = Late(VirtualClock::default());
        let mut target = Steps::new(&clock.0, [10, 200, 10, 10].map(Some));
        let mut queries = Vec::new();
        let summary = Meter::new(&clock, 100, NO_LIMIT)
            .run(&mut target, constant(1e7), &rule(0, 4, NO_LIMIT), &mut keep_queries(&mut queries))
            .expect("nothing fails");
        let expected = [(0, 0, 10), (100, 107, 307), (200, 307, 317), (300, 317, 327)];
        assert_eq!(times(&queries), expected);
        // The first was due at once. The last two had to wait, and did so for 7 ns too long.
        let lateness = summary.pace.and_then(|pace| pace.lateness);
        let expected = Lateness { median_ns: 7, p99_ns: 7, maximum_ns: 7 };
        assert_eq!(lateness, Some(expected));
    }

    /// A generator that is held up for a moment, as by a machine that gives its core to another
    /// process.
    #[test]
    fn a_generator_that_has_to_catch_up_is_late_for_all_that_it_catches_up_with() {
        /// A clock one of whose waits ends much too late.
        struct HeldUp(VirtualClock);
        impl Clock for HeldUp {
            fn now(&self) -> u64 {
                self.0.now()
            }
            fn wait_until(&self, deadline_ns: u64) -> u64 {
                self.0.wait_until(deadline_ns + if deadline_ns == 1000 { 500 } else { 0 })
            }
        }
        let clock = HeldUp(VirtualClock::default());
        let mut target = Steps::constant(&clock.0, 10);
        let summary = Meter::new(&clock, 100, NO_LIMIT)
            .run(&mut target, constant(1e7), &rule(0, 100, NO_LIMIT), &mut |_: Block<'_>| {
                Ok::<_, Infallible>(())
            })
            .expect("nothing fails");
        // 500, 410, 320, 230, 140 and 50 ns late, and from there on none.
        let lateness = summary.pace.and_then(|pace| pace.lateness).expect("there were queries");
        assert_eq!((lateness.median_ns, lateness.maximum_ns), (0, 500));
        assert!((410..=416).contains(&lateness.p99_ns), "{lateness:?}");
    }

    #[test]
    fn the_schedule_stands_still_while_a_block_is_handed_on() {
        let clock = VirtualClock::default();
        let mut target = Steps::new(&clock, [4, 25, 4, 4].map(Some));
        let mut seen = Vec::new();
        let mut sink = |block: Block<'_>| {
            let Times::Scheduled(queries) = block.times else { panic!("not an open loop") };
            seen.extend(queries.iter().map(|query| (block.lane, *query)));
            clock.pass(1000);
            Ok::<_, Infallible>(())
        };
        let summary = Meter::new(&clock, 6, NO_LIMIT)
            .run(&mut target, constant(1e8), &rule(0, 4, NO_LIMIT), &mut sink)
            .expect("nothing fails");
        // The queue is the same as without the pause: the third query waits for 15 ns.
        let expected = [(0, 0, 4), (10, 10, 35), (1020, 1035, 1039), (1030, 1039, 1043)];
        assert_eq!(times(&seen), expected);
        assert_eq!((summary.timed_ns, summary.elapsed_ns), (43, 2043));
        let pace = summary.pace.expect("an open loop has a pace");
        assert_eq!(pace.offered_per_second, Some(1e8));
        assert_eq!(pace.lateness.map(|late| late.maximum_ns), Some(0));
    }

    /// The target stalls once for a second while queries arrive at 100 per second.
    #[test]
    fn a_stall_is_felt_by_every_query_that_came_meanwhile() {
        let late = |pattern| {
            let clock = VirtualClock::default();
            let service = |index| Some(if index == 200 { SECOND } else { SECOND / 1000 });
            let mut target = Steps::new(&clock, (0..).map(service));
            let mut latencies = Vec::new();
            let mut sink = |block: Block<'_>| {
                latencies.extend(block.times.latencies());
                Ok::<_, Infallible>(())
            };
            Meter::new(&clock, 1 << 13, NO_LIMIT)
                .run(&mut target, pattern, &rule(0, 1000, NO_LIMIT), &mut sink)
                .expect("nothing fails");
            assert_eq!(latencies.len(), 1000);
            latencies.iter().filter(|latency| **latency > 10_000_000).count()
        };
        assert_eq!(late(Pattern::SingleStream), 1);
        // 100 come during the stall; each takes 1 ms to serve, so that another 10 come before
        // the queue is gone, and one each 10 ms is served in time at its end.
        let open = late(constant(100.0));
        assert!((100..=111).contains(&open), "{open}");
    }

    #[test]
    fn a_rule_on_time_goes_on_to_the_first_query_at_or_after_it() {
        for (minimum_ns, minimum_queries, queries) in
            [(0, 0, 0), (1, 0, 2), (90, 0, 10), (91, 0, 11), (90, 20, 20), (0, 3, 3)]
        {
            let clock = VirtualClock::default();
            let mut target = Steps::constant(&clock, 1);
            let rule = rule(minimum_ns, minimum_queries, NO_LIMIT);
            let mut sink = |_: Block<'_>| Ok::<_, Infallible>(());
            let summary = Meter::new(&clock, 9, NO_LIMIT)
                .run(&mut target, constant(1e8), &rule, &mut sink)
                .expect("nothing fails");
            assert_eq!((summary.queries, summary.enough), (queries, true), "{rule:?}");
            assert!(summary.timed_ns >= minimum_ns);
        }
    }

    #[test]
    fn what_the_maximum_leaves_unserved_is_counted() {
        let clock = VirtualClock::default();
        // Twice as many queries as the target can take.
        let mut target = Steps::constant(&clock, 20);
        let mut sink = |_: Block<'_>| Ok::<_, Infallible>(());
        let summary = Meter::new(&clock, 30, NO_LIMIT)
            .run(&mut target, constant(1e8), &rule(0, 1000, 1000), &mut sink)
            .expect("nothing fails");
        assert_eq!((summary.queries, summary.enough), (50, false));
        let pace = summary.pace.expect("an open loop has a pace");
        // Scheduled at 0, 10, …, 1000.
        assert_eq!(pace.unserved, 101 - 50);
        assert_eq!(pace.offered_per_second, Some(1e8));
        assert_eq!(pace.achieved_per_second, Some(5e7));
    }

    #[test]
    fn a_loop_that_waits_says_so_with_empty_blocks() {
        let clock = VirtualClock::default();
        let mut target = Steps::constant(&clock, 1);
        let mut lengths = Vec::new();
        let mut sink = |block: Block<'_>| {
            lengths.push((block.times.len(), clock.now()));
            Ok::<_, Infallible>(())
        };
        Meter::new(&clock, 30, 400)
            .run(&mut target, constant(1e6), &rule(0, 2, NO_LIMIT), &mut sink)
            .expect("nothing fails");
        assert_eq!(lengths, [(1, 400), (0, 800), (1, 1001)]);
    }

    #[test]
    fn queries_before_a_failure_are_kept() {
        let clock = VirtualClock::default();
        let mut target = Steps::new(&clock, [Some(5), Some(6), None]);
        let mut queries = Vec::new();
        let error = Meter::new(&clock, 30, NO_LIMIT)
            .run(&mut target, constant(1e8), &rule(0, 9, NO_LIMIT), &mut keep_queries(&mut queries))
            .expect_err("the third query fails");
        assert_eq!(error, MeasureError::Target("broken"));
        assert_eq!(times(&queries), [(0, 0, 5), (10, 10, 16)]);
    }

    #[test]
    fn a_clock_that_goes_back_is_an_error() {
        for (back, before_ns, after_ns) in [(-3, 1010, 1007), (-300, 1010, 710)] {
            let clock = VirtualClock(Cell::new(1000));
            let mut target = Steps::new(&clock, [5, back, 1, 1, 1, 1].map(Some));
            let mut queries = Vec::new();
            let error = Meter::new(&clock, 16, 1_000_000)
                .run(
                    &mut target,
                    constant(1e8),
                    &rule(0, 5, NO_LIMIT),
                    &mut keep_queries(&mut queries),
                )
                .expect_err("the clock goes back");
            assert_eq!(error, MeasureError::ClockWentBack { before_ns, after_ns });
            assert!(queries.is_empty());
        }
    }

    #[test]
    fn a_judge_stops_an_open_loop_between_blocks() {
        let clock = VirtualClock::default();
        let mut target = Steps::constant(&clock, 5);
        let mut judge = Judge { enough_at: 90, ..Judge::default() };
        let summary = Meter::new(&clock, 48, NO_LIMIT)
            .run(&mut target, constant(1e8), &rule(0, 40, NO_LIMIT), &mut judge)
            .expect("nothing fails");
        assert_eq!(judge.asked_at, [40, 50, 62, 77, 96]);
        assert_eq!((summary.queries, summary.enough), (96, true));
    }

    /// Mean wait in a queue with random arrivals, constant service and one server (M/D/1): the
    /// formula of Pollaczek and Khinchine gives ρ·D / 2(1 − ρ). The accepted errors are four
    /// standard deviations of this mean over seeds, as found by a plain simulation of Lindley's
    /// recursion with another generator: 1.4 %, 1.5 % and 3.6 %.
    #[test]
    fn queueing_agrees_with_theory_up_to_high_utilisation() {
        const SERVICE_NS: i64 = 1000;
        for (utilisation, queries, error) in
            [(0.5, 100_000, 0.056), (0.8, 200_000, 0.06), (0.95, 500_000, 0.145)]
        {
            let clock = VirtualClock::default();
            let mut target = Steps::constant(&clock, SERVICE_NS);
            let (mut waited, mut free) = (0, 0);
            let mut sink = |block: Block<'_>| {
                let Times::Scheduled(queries) = block.times else { panic!("not an open loop") };
                for query in queries {
                    waited += query.begun_ns - query.scheduled_ns;
                    free += u64::from(query.begun_ns == query.scheduled_ns);
                }
                Ok::<_, Infallible>(())
            };
            let pattern = server(utilisation * 1e9 / SERVICE_NS as f64, 42);
            let summary = Meter::new(&clock, 1 << 13, NO_LIMIT)
                .run(&mut target, pattern, &rule(0, queries, NO_LIMIT), &mut sink)
                .expect("nothing fails");
            let mean = waited as f64 / queries as f64;
            let theory = utilisation * SERVICE_NS as f64 / (2.0 * (1.0 - utilisation));
            assert!((mean / theory - 1.0).abs() < error, "{utilisation}: {mean} for {theory}");
            let pace = summary.pace.expect("an open loop has a pace");
            let achieved = pace.achieved_per_second.expect("many queries");
            let offered = pace.offered_per_second.expect("many queries");
            assert!((achieved / offered - 1.0).abs() < 1e-3, "{achieved} of {offered}");
            let lateness = pace.lateness.expect("there were queries");
            assert_eq!(lateness.maximum_ns, 0);
            // Arrivals at random see the server as it is on average: free 1 − ρ of the time.
            let free = free as f64 / queries as f64;
            assert!((free - (1.0 - utilisation)).abs() < 0.01, "{free}");
        }
    }

    proptest! {
        #[test]
        fn none_is_lost_and_order_is_kept(
            steps in proptest::collection::vec(0_i64..300, 1..50),
            block in 1_usize..40,
            longest_block_ns in 1_u64..2000,
            pause in 0_i64..1000,
            seed: u64,
            minimum_ns in 0_u64..10_000,
            minimum_queries in 0_u64..100,
            maximum_ns in 0_u64..20_000,
        ) {
            let rule = rule(minimum_ns, minimum_queries, maximum_ns);
            let clock = VirtualClock::default();
            let mut target = Steps::new(&clock, steps.iter().copied().map(Some).cycle());
            let mut queries = Vec::new();
            let mut sink = |block: Block<'_>| {
                let Times::Scheduled(block) = block.times else { panic!("not an open loop") };
                queries.extend_from_slice(block);
                clock.pass(pause);
                Ok::<_, Infallible>(())
            };
            let pattern = server(1e7, seed);
            let summary = Meter::new(&clock, block, longest_block_ns)
                .run(&mut target, pattern, &rule, &mut sink)
                .expect("nothing fails");
            prop_assert_eq!(summary.queries, queries.len() as u64);

            // Times are in order, and a query begins when it is due or when the last one ended.
            let offsets: Vec<u64> =
                Schedule::new(pattern.arrivals().expect("an open loop")).take(queries.len() + 500)
                    .collect();
            let mut free_since = 0;
            let mut pauses = 0;
            for (query, offset) in queries.iter().zip(&offsets) {
                prop_assert!(query.scheduled_ns <= query.begun_ns);
                prop_assert!(query.begun_ns <= query.ended_ns);
                prop_assert!(query.begun_ns >= free_since);
                // Only the pauses so far are added to the schedule.
                let shift = query.scheduled_ns - offset;
                prop_assert!(shift >= pauses && pause as u64 * (shift / pause.max(1) as u64) == shift);
                let added = shift - pauses;
                prop_assert_eq!(query.begun_ns, query.scheduled_ns.max(free_since + added));
                free_since = query.ended_ns;
                pauses = shift;
            }

            // The rule is kept to the query.
            let wanted = offsets.iter().scan(0, |previous, offset| {
                Some(std::mem::replace(previous, *offset))
            });
            let wanted = wanted.enumerate().take_while(|(index, previous)| {
                (*index as u64) < minimum_queries || *previous < minimum_ns
            });
            let wanted = wanted.count() as u64;
            prop_assert_eq!(summary.enough, summary.queries == wanted);
            prop_assert!(summary.queries <= wanted);
            let pace = summary.pace.expect("an open loop has a pace");
            if summary.enough {
                prop_assert_eq!(pace.unserved, 0);
            } else {
                prop_assert!(summary.elapsed_ns >= maximum_ns);
            }
        }
    }
}
