//! Stopping rules, and observers that judge.

use host_record::Pace;

use crate::block::Block;

/// Stopping rule of a loop.
///
/// The loop stops once both minima are reached and the [`Observer`], if it judges, has enough; or
/// at the maximum, whichever comes first. It never interrupts a query. A rule with all minima at
/// zero makes no query at all, unless a judge wants some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopRule {
    /// Time in nanoseconds to spend under the clock, pauses between blocks not counted. In an
    /// open loop this is time of the schedule, and the loop goes on to the first query that is
    /// scheduled at this time or later, as MLPerf LoadGen's does.
    pub minimum_ns: u64,
    /// Queries to make.
    pub minimum_queries: u64,
    /// Time in nanoseconds after which no further query begins, pauses counted.
    pub maximum_ns: u64,
}

/// Result of the loop.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Summary {
    /// Queries made.
    pub queries: u64,
    /// Time in nanoseconds under the clock, without the pauses between blocks: in a closed loop
    /// the time spent in queries (with several clients, the smallest of theirs), in an open
    /// loop the time from the schedule's start to the last query's end.
    pub timed_ns: u64,
    /// Time in nanoseconds from the loop's start to its end, with pauses.
    pub elapsed_ns: u64,
    /// Whether the rule, and the judge if there is one, were satisfied; otherwise the maximum ended the loop.
    pub enough: bool,
    /// Pace of an open loop.
    pub pace: Option<Pace>,
}

/// Takes the samples, and may judge whether there are enough of them.
///
/// Called between blocks only, when no query of the caller's thread is being timed. A closure that takes a
/// [`Block`] is an observer that leaves stopping to the rule.
pub trait Observer {
    /// Error of the target.
    type Error;

    /// Takes a block.
    ///
    /// # Errors
    ///
    /// Returns the observer's error, which ends the loop.
    fn block(&mut self, block: Block<'_>) -> Result<(), Self::Error>;

    /// Returns whether [`Observer::enough`] must be asked. Must not change while a loop runs.
    fn judges(&self) -> bool {
        false
    }

    /// Returns whether the samples so far are enough: an interval is narrow, or a warm-up is over.
    ///
    /// Called once the rule's minima are reached, and after each "no" when there are a quarter more
    /// queries than before, so that judging *n* samples repeatedly costs no more than five
    /// times as much as judging the last *n*.
    fn enough(&mut self, so_far: &Summary) -> bool {
        let _ = so_far;
        true
    }
}

impl<F, E> Observer for F
where
    F: FnMut(Block<'_>) -> Result<(), E>,
{
    type Error = E;

    fn block(&mut self, block: Block<'_>) -> Result<(), E> {
        self(block)
    }
}

/// A rule's minima, which go up each time that a judge says "not yet".
#[derive(Debug, Clone, Copy)]
pub(crate) struct Goal {
    pub(crate) minimum_ns: u64,
    pub(crate) minimum_queries: u64,
}

impl Goal {
    pub(crate) fn new(rule: &StopRule) -> Self {
        Self { minimum_ns: rule.minimum_ns, minimum_queries: rule.minimum_queries }
    }

    pub(crate) fn is_reached(&self, summary: &Summary) -> bool {
        summary.timed_ns >= self.minimum_ns && summary.queries >= self.minimum_queries
    }

    /// Asks the judge, if there is one, now that the minima are reached. Otherwise sets the next
    /// number of queries at which to ask.
    pub(crate) fn is_enough(&mut self, summary: &Summary, observer: &mut impl Observer) -> bool {
        let enough = !observer.judges() || observer.enough(summary);
        if !enough {
            self.minimum_queries = summary.queries + (summary.queries / 4).max(1);
        }
        enough
    }
}
