//! The loop itself.

use crate::clock::Clock;

/// What is timed.
pub trait Target {
    /// How it can fail.
    type Error;

    /// Runs one batch to its end: when this returns, the device is done.
    ///
    /// # Errors
    ///
    /// Whatever the target reports; the loop ends with it.
    fn run(&mut self) -> Result<(), Self::Error>;

    /// Starts one batch; it may still be under way when this returns. A target that cannot do
    /// that runs the batch.
    ///
    /// # Errors
    ///
    /// As for [`Target::run`].
    fn enqueue(&mut self) -> Result<(), Self::Error> {
        self.run()
    }

    /// Waits until every batch that was started is done.
    ///
    /// # Errors
    ///
    /// As for [`Target::run`].
    fn synchronise(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// What one query is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// One batch, run to its end; the next is issued when it is done.
    SingleStream,
    /// Many batches, started back to back and waited for together.
    Offline {
        /// Batches in one query.
        batches: u64,
    },
}

/// When there are enough queries.
///
/// The loop stops once both minima are reached, or at the maximum, whichever comes first. It
/// never interrupts a query. A rule with all minima at zero makes no query at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopRule {
    /// Time in nanoseconds to spend in queries, pauses between blocks not counted.
    pub minimum_ns: u64,
    /// Queries to make.
    pub minimum_queries: u64,
    /// Time in nanoseconds after which no further query begins, pauses counted.
    pub maximum_ns: u64,
}

/// What the loop did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Queries made.
    pub queries: u64,
    /// Time in nanoseconds spent in them.
    pub query_ns: u64,
    /// Time in nanoseconds from the loop's start to its end, with pauses.
    pub elapsed_ns: u64,
}

impl Summary {
    /// Whether the minima of `rule` were reached; otherwise its maximum cut the loop short.
    #[must_use]
    pub fn satisfies(&self, rule: &StopRule) -> bool {
        self.queries >= rule.minimum_queries && self.query_ns >= rule.minimum_ns
    }
}

/// Why the loop ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MeasureError<T, S> {
    /// The target failed. Queries that ended before are with the sink.
    #[error("the target failed: {0}")]
    Target(T),
    /// The sink failed.
    #[error("samples could not be handed on: {0}")]
    Sink(S),
    /// The clock went back, so that no reading of this loop can be trusted.
    #[error("the clock went back from {before_ns} ns to {after_ns} ns")]
    ClockWentBack {
        /// The earlier reading.
        before_ns: u64,
        /// The later reading, which is less.
        after_ns: u64,
    },
}

/// Runs the loop with a clock and a buffer that it keeps from one loop to the next.
#[derive(Debug)]
pub struct Meter<'clock, C> {
    clock: &'clock C,
    edges: Box<[u64]>,
    longest_block_ns: u64,
}

impl<'clock, C: Clock> Meter<'clock, C> {
    /// Queries in a block, unless one says otherwise: 64 KiB of readings, which leaves the caches
    /// to the target, and which a pipe takes without waiting for its reader.
    pub const BLOCK: usize = 8 * 1024;

    /// A meter whose blocks hold at most `block` queries (at least one) and end with the first
    /// query that ends `longest_block_ns` or more after the block began.
    #[must_use]
    pub fn new(clock: &'clock C, block: usize, longest_block_ns: u64) -> Self {
        // Every page is written to now, so that none is first touched while the clock runs.
        let edges = vec![u64::MAX; block.max(1) + 1].into_boxed_slice();
        Self { clock, edges, longest_block_ns }
    }

    /// Queries `target` until `rule` is satisfied.
    ///
    /// The sink gets one block after another, outside the timed part. A block is never shorter
    /// than two clock readings: query *i* of a block began at reading *i* and ended at reading
    /// *i + 1*.
    ///
    /// # Errors
    ///
    /// Where target or sink fail, or the clock goes back.
    pub fn run<T: Target, S>(
        &mut self,
        target: &mut T,
        scenario: Scenario,
        rule: &StopRule,
        sink: impl FnMut(&[u64]) -> Result<(), S>,
    ) -> Result<Summary, MeasureError<T::Error, S>> {
        match scenario {
            Scenario::SingleStream => self.run_queries(|| target.run(), rule, sink),
            Scenario::Offline { batches } => {
                let query = || {
                    for _ in 0..batches {
                        target.enqueue()?;
                    }
                    target.synchronise()
                };
                self.run_queries(query, rule, sink)
            }
        }
    }

    fn run_queries<E, S>(
        &mut self,
        mut query: impl FnMut() -> Result<(), E>,
        rule: &StopRule,
        mut sink: impl FnMut(&[u64]) -> Result<(), S>,
    ) -> Result<Summary, MeasureError<E, S>> {
        let origin = self.clock.now();
        let mut summary = Summary::default();
        loop {
            let now = self.clock.now();
            summary.elapsed_ns = now
                .checked_sub(origin)
                .ok_or(MeasureError::ClockWentBack { before_ns: origin, after_ns: now })?;
            let missing_ns = rule.minimum_ns.saturating_sub(summary.query_ns);
            let missing_queries = rule.minimum_queries.saturating_sub(summary.queries);
            let remaining_ns = rule.maximum_ns.saturating_sub(summary.elapsed_ns);
            if (missing_ns == 0 && missing_queries == 0) || remaining_ns == 0 {
                return Ok(summary);
            }

            // A block must not run past the point where the rule would have stopped the loop.
            // While time is missing the clock decides; after that, the number of queries.
            let mut budget_ns = self.longest_block_ns.min(remaining_ns);
            let mut limit = self.edges.len() - 1;
            if missing_ns > 0 {
                budget_ns = budget_ns.min(missing_ns);
            } else {
                limit = limit.min(usize::try_from(missing_queries).unwrap_or(usize::MAX));
            }

            let (count, result) =
                time_block(self.clock, &mut self.edges[..=limit], budget_ns, &mut query);
            let edges = &self.edges[..=count];
            if let Some(pair) = edges.windows(2).find(|pair| pair[1] < pair[0]) {
                return Err(MeasureError::ClockWentBack { before_ns: pair[0], after_ns: pair[1] });
            }
            summary.queries += count as u64;
            summary.query_ns += edges[count] - edges[0];
            if count > 0 {
                sink(edges).map_err(MeasureError::Sink)?;
            }
            result.map_err(MeasureError::Target)?;
        }
    }
}

/// Times queries into `edges` until it is full or a query ends `budget_ns` or more after the
/// start. Returns how many queries ended well.
///
/// A clock that goes back behind the block's start ends the block as well, since the difference
/// wraps around to a large number: one comparison serves both.
#[inline(always)]
fn time_block<E>(
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

    /// A clock that moves only when it is told to.
    #[derive(Default)]
    struct VirtualClock(Cell<u64>);

    impl Clock for VirtualClock {
        fn now(&self) -> u64 {
            self.0.get()
        }
    }

    /// A target that takes the given times in turn, and fails where none is given.
    struct Steps<'a> {
        clock: &'a VirtualClock,
        steps: Box<dyn Iterator<Item = Option<i64>> + 'a>,
        runs: u64,
        enqueued: u64,
        waits: u64,
    }

    impl<'a> Steps<'a> {
        fn new(
            clock: &'a VirtualClock,
            steps: impl IntoIterator<Item = Option<i64>, IntoIter: 'a>,
        ) -> Self {
            let steps = Box::new(steps.into_iter());
            Self { clock, steps, runs: 0, enqueued: 0, waits: 0 }
        }

        fn step(&mut self) -> Result<(), &'static str> {
            let step = self.steps.next().flatten().ok_or("broken")?;
            self.clock.0.set(self.clock.0.get().wrapping_add_signed(step));
            Ok(())
        }
    }

    impl Target for Steps<'_> {
        type Error = &'static str;

        fn run(&mut self) -> Result<(), Self::Error> {
            self.runs += 1;
            self.step()
        }

        fn enqueue(&mut self) -> Result<(), Self::Error> {
            self.enqueued += 1;
            Ok(())
        }

        fn synchronise(&mut self) -> Result<(), Self::Error> {
            self.waits += 1;
            self.step()
        }
    }

    const NO_LIMIT: u64 = u64::MAX;

    fn rule(minimum_ns: u64, minimum_queries: u64, maximum_ns: u64) -> StopRule {
        StopRule { minimum_ns, minimum_queries, maximum_ns }
    }

    fn keep(blocks: &mut Vec<Vec<u64>>) -> impl FnMut(&[u64]) -> Result<(), Infallible> + '_ {
        |edges| {
            blocks.push(edges.to_vec());
            Ok(())
        }
    }

    #[test]
    fn readings_are_chained_and_blocks_restart_the_chain() {
        let clock = VirtualClock::default();
        let mut target = Steps::new(&clock, [5, 7, 1, 2, 9].map(Some));
        let mut blocks = Vec::new();
        let sink = |edges: &[u64]| {
            blocks.push(edges.to_vec());
            // A pause between blocks must not be charged to a query.
            clock.0.set(clock.0.get() + 1000);
            Ok::<_, Infallible>(())
        };
        let summary = Meter::new(&clock, 2, NO_LIMIT)
            .run(&mut target, Scenario::SingleStream, &rule(0, 5, NO_LIMIT), sink)
            .expect("nothing fails");
        assert_eq!(blocks, [vec![0, 5, 12], vec![1012, 1013, 1015], vec![2015, 2024]]);
        assert_eq!(summary, Summary { queries: 5, query_ns: 24, elapsed_ns: 3024 });
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
            let mut target = Steps::new(&clock, std::iter::repeat(Some(10)));
            let mut blocks = Vec::new();
            let summary = Meter::new(&clock, 4, NO_LIMIT)
                .run(&mut target, Scenario::SingleStream, &rule, keep(&mut blocks))
                .expect("nothing fails");
            assert_eq!(summary.queries, queries, "{rule:?}");
            assert_eq!(target.runs, queries, "{rule:?}");
            assert_eq!(summary.satisfies(&rule), rule.maximum_ns == NO_LIMIT, "{rule:?}");
        }
    }

    #[test]
    fn pauses_count_towards_the_maximum_and_not_towards_the_minimum() {
        let clock = VirtualClock::default();
        let mut target = Steps::new(&clock, std::iter::repeat(Some(10)));
        let sink = |_: &[u64]| {
            clock.0.set(clock.0.get() + 100);
            Ok::<_, Infallible>(())
        };
        let mut meter = Meter::new(&clock, 1, NO_LIMIT);
        let single = Scenario::SingleStream;
        let summary = meter.run(&mut target, single, &rule(50, 1, NO_LIMIT), sink).expect("works");
        assert_eq!(summary, Summary { queries: 5, query_ns: 50, elapsed_ns: 550 });
        let summary = meter.run(&mut target, single, &rule(50, 1, 330), sink).expect("works");
        assert_eq!(summary, Summary { queries: 3, query_ns: 30, elapsed_ns: 330 });
    }

    #[test]
    fn a_slow_target_still_hands_blocks_on() {
        let clock = VirtualClock::default();
        let mut target = Steps::new(&clock, std::iter::repeat(Some(40)));
        let mut blocks = Vec::new();
        Meter::new(&clock, 1000, 100)
            .run(&mut target, Scenario::SingleStream, &rule(0, 7, NO_LIMIT), keep(&mut blocks))
            .expect("nothing fails");
        assert_eq!(blocks.iter().map(|edges| edges.len() - 1).collect::<Vec<_>>(), [3, 3, 1]);
    }

    #[test]
    fn an_offline_query_starts_all_batches_and_waits_once() {
        let clock = VirtualClock::default();
        let mut target = Steps::new(&clock, std::iter::repeat(Some(10)));
        let mut blocks = Vec::new();
        let offline = Scenario::Offline { batches: 24 };
        Meter::new(&clock, 8, NO_LIMIT)
            .run(&mut target, offline, &rule(0, 3, NO_LIMIT), keep(&mut blocks))
            .expect("nothing fails");
        assert_eq!((target.runs, target.enqueued, target.waits), (0, 72, 3));
        assert_eq!(blocks, [[0, 10, 20, 30]]);
    }

    #[test]
    fn queries_before_a_failure_are_kept() {
        let clock = VirtualClock::default();
        let mut target = Steps::new(&clock, [Some(5), Some(6), None]);
        let mut blocks = Vec::new();
        let error = Meter::new(&clock, 8, NO_LIMIT)
            .run(&mut target, Scenario::SingleStream, &rule(0, 9, NO_LIMIT), keep(&mut blocks))
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
                .run(&mut target, Scenario::SingleStream, &rule(0, 9, NO_LIMIT), keep(&mut blocks))
                .expect_err("the clock goes back");
            assert_eq!(error, MeasureError::ClockWentBack { before_ns: 1150, after_ns });
            assert_eq!(target.runs, runs);
            assert!(blocks.is_empty());
        }
    }

    #[test]
    fn a_sink_that_fails_ends_the_loop() {
        let clock = VirtualClock::default();
        let mut target = Steps::new(&clock, std::iter::repeat(Some(1)));
        let error = Meter::new(&clock, 2, NO_LIMIT)
            .run(&mut target, Scenario::SingleStream, &rule(0, 9, NO_LIMIT), |_| Err("full"))
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
                .run(&mut target, Scenario::SingleStream, &rule, keep(&mut blocks))
                .expect("nothing fails");

            let latencies: Vec<u64> = blocks
                .iter()
                .flat_map(|edges| edges.windows(2).map(|pair| pair[1] - pair[0]))
                .collect();
            let expected: Vec<u64> = steps.iter().map(|step| *step as u64).cycle()
                .take(latencies.len()).collect();
            prop_assert_eq!(&latencies, &expected);
            prop_assert_eq!(summary.queries, latencies.len() as u64);
            prop_assert_eq!(summary.query_ns, latencies.iter().sum::<u64>());

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
