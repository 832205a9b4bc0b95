//! What is timed, under which load, and the entry point to the loops.

use std::num::NonZeroU32;

use crate::block::ScheduledQuery;
use crate::clock::Clock;
use crate::crew::{self, Crew};
use crate::error::MeasureError;
use crate::schedule::{Arrivals, Rate};
use crate::stop::{Observer, StopRule, Summary};
use crate::{closed, open};

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

/// What one query is and when it is issued, with the meaning that MLPerf LoadGen gives the words
/// of the first four (`loadgen/test_settings.h` and the inference rules of MLCommons).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scenario {
    /// One batch, run to its end; the next is issued when it is done.
    SingleStream,
    /// Several samples that belong together, such as the frames of several cameras. The next
    /// query is issued when all of the last are done, and a latency is that of the whole query.
    MultiStream {
        /// Batches in one query, started back to back and waited for together.
        batches: u64,
    },
    /// All samples at once: batches started back to back and waited for together.
    Offline {
        /// Batches in one query.
        batches: u64,
    },
    /// One batch at each arrival of a Poisson process, whether or not the last is done.
    Server {
        /// Arrivals per second on average.
        rate: Rate,
        /// What the arrivals are drawn from.
        seed: u64,
    },
    /// One batch at equal intervals, whether or not the last is done.
    ConstantRate {
        /// Arrivals per second.
        rate: Rate,
    },
    /// As many clients as there are targets; each issues a batch when its last one is done.
    ClosedLoop,
}

impl Scenario {
    /// Samples in a query of `multi-stream`, unless one says otherwise: MLPerf's number
    /// (`*.MultiStream.samples_per_query` in its `mlperf.conf`).
    pub const MULTI_STREAM_SAMPLES: u64 = 8;

    /// When queries arrive by themselves; `None` where they wait for each other.
    #[must_use]
    pub fn arrivals(self) -> Option<Arrivals> {
        match self {
            Self::Server { rate, seed } => Some(Arrivals::Poisson { rate, seed }),
            Self::ConstantRate { rate } => Some(Arrivals::Constant { rate }),
            Self::SingleStream
            | Self::MultiStream { .. }
            | Self::Offline { .. }
            | Self::ClosedLoop => None,
        }
    }

    /// How many batches a query starts before it waits for all; `None` where it runs one.
    pub(crate) fn burst(self) -> Option<u64> {
        match self {
            Self::MultiStream { batches } | Self::Offline { batches } => Some(batches),
            Self::SingleStream
            | Self::Server { .. }
            | Self::ConstantRate { .. }
            | Self::ClosedLoop => None,
        }
    }
}

/// Starts batches back to back and waits for them together.
pub(crate) fn run_burst<T: Target>(target: &mut T, batches: u64) -> Result<(), T::Error> {
    for _ in 0..batches {
        target.enqueue()?;
    }
    target.synchronise()
}

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
    /// Queries in a block, unless one says otherwise: 64 KiB of readings, which leaves the caches
    /// to the target, and which a pipe takes without waiting for its reader.
    pub const BLOCK: usize = 8 * 1024;

    /// A meter whose blocks hold at most `block` queries (at least one; a third of that in an
    /// open loop, where a query has three readings) and end with the first query that ends
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
    /// Where target or observer fail, or the clock goes back.
    pub fn run<T: Target, O: Observer>(
        &mut self,
        target: &mut T,
        scenario: Scenario,
        rule: &StopRule,
        observer: &mut O,
    ) -> Result<Summary, MeasureError<T::Error, O::Error>> {
        let Self { clock, edges, due, queries, longest_block_ns } = self;
        if let Some(arrivals) = scenario.arrivals() {
            let buffers = open::Buffers { due, queries };
            let query = || target.run();
            return open::run(*clock, buffers, *longest_block_ns, arrivals, rule, observer, query);
        }
        match scenario.burst() {
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

    /// Calls `body` with as many threads as `lanes`, each of which has made a target of its own
    /// and keeps it until the end, so that warming up and measuring use the same ones.
    ///
    /// # Errors
    ///
    /// The first error of `make`; `body` is then not called.
    ///
    /// # Panics
    ///
    /// Where a target does, once all threads have ended.
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
