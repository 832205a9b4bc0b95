//! The entry point to the loops.

use std::num::NonZeroU32;

use crate::block::ScheduledQuery;
use crate::clock::Clock;
use crate::crew::{self, Crew};
use crate::error::MeasureError;
use crate::pattern::Pattern;
use crate::stop::{Observer, StopRule, Summary};
use crate::target::{Target, run_burst};
use crate::turns::{self, Turns};
use crate::{closed, open};

/// Runs the loop with a clock and buffers that it keeps from one loop to the next.
#[derive(Debug)]
pub struct Meter<'clock, C> {
    clock: &'clock C,
    edges: Box<[u64]>,
    due: Box<[u64]>,
    queries: Box<[ScheduledQuery]>,
    longest_block_ns: u64,
}

impl<'clock, C: Clock> Meter<'clock, C> {
    /// Default number of queries in a block: 64 KiB of readings, which leaves the caches
    /// to the target, and which a pipe takes without waiting for its reader.
    pub const BLOCK: usize = 8 * 1024;

    /// Creates a meter whose blocks hold at most `block` queries (at least one; a third of that in
    /// an open loop, where a query has three readings) and end with the first query that ends
    /// `longest_block_ns` or more after the block began.
    #[must_use]
    pub fn new(clock: &'clock C, block: usize, longest_block_ns: u64) -> Self {
        let block = block.max(1);
        let scheduled = block.div_ceil(3);
        // Every page is written to now, so that none is first touched while the clock runs.
        let untouched =
            ScheduledQuery { scheduled_ns: u64::MAX, begun_ns: u64::MAX, ended_ns: u64::MAX };
        Self {
            clock,
            edges: vec![u64::MAX; block + 1].into_boxed_slice(),
            due: vec![u64::MAX; scheduled].into_boxed_slice(),
            queries: vec![untouched; scheduled].into_boxed_slice(),
            longest_block_ns,
        }
    }

    /// Queries `target` on this thread until `rule` is satisfied, and the observer if it judges.
    ///
    /// # Errors
    ///
    /// If target or observer fail, or the clock goes back.
    pub fn run<T: Target, O: Observer>(
        &mut self,
        target: &mut T,
        pattern: Pattern,
        rule: &StopRule,
        observer: &mut O,
    ) -> Result<Summary, MeasureError<T::Error, O::Error>> {
        let Self { clock, edges, due, queries, longest_block_ns } = self;
        if let Some(arrivals) = pattern.arrivals() {
            let buffers = open::Buffers { due, queries };
            let query = || target.run();
            return open::run(*clock, buffers, *longest_block_ns, arrivals, rule, observer, query);
        }
        match pattern.burst() {
            None => {
                let query = || target.run();
                closed::run(*clock, edges, *longest_block_ns, rule, observer, query)
            }
            Some(batches) => {
                let query = || run_burst(target, batches);
                closed::run(*clock, edges, *longest_block_ns, rule, observer, query)
            }
        }
    }

    /// Queries `target` on this thread whenever it is its turn, one query after the other. A pattern with arrivals of its
    /// own has no turns; its queries are made one after the other too.
    ///
    /// # Errors
    ///
    /// If target or turns fail, or the clock goes back.
    pub fn take_turns<T: Target, S: Turns>(
        &mut self,
        target: &mut T,
        pattern: Pattern,
        turns: &mut S,
    ) -> Result<Summary, MeasureError<T::Error, S::Error>> {
        let Self { clock, edges, .. } = self;
        match pattern.burst() {
            None => turns::run(*clock, edges, turns, || target.run()),
            Some(batches) => turns::run(*clock, edges, turns, || run_burst(target, batches)),
        }
    }

    /// Calls `body` with as many threads as `lanes`, each of which has made a target of its own
    /// and keeps it until the end, so that warming up and measuring use the same ones.
    ///
    /// # Errors
    ///
    /// The first error of `make`; `body` is then not called.
    ///
    /// # Panics
    ///
    /// If a target does, once all threads have ended.
    pub fn with_crew<T: Target<Error: Send>, R>(
        &self,
        lanes: NonZeroU32,
        make: impl Fn(u32) -> Result<T, T::Error> + Sync,
        body: impl FnOnce(&mut Crew<'_, C, T::Error>) -> R,
    ) -> Result<R, T::Error>
    where
        C: Sync,
    {
        let sizes = crew::Sizes {
            edges: self.edges.len(),
            queries: self.queries.len(),
            longest_block_ns: self.longest_block_ns,
        };
        crew::with(self.clock, lanes, sizes, make, body)
    }
}
