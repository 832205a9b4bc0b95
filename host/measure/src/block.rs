//! Output of the loop: queries in blocks, as clock readings.

/// Queries of one client or server, one after the other, in the order in which they began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block<'a> {
    /// Which client (in a closed loop) or server (in an open one) made these queries, from 0.
    pub lane: u32,
    /// Their times.
    pub times: Times<'a>,
}

/// Times of a block's queries, in nanoseconds of the clock that measured them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times<'a> {
    /// Of a closed loop: a chain of readings that never decrease. Query *i* began at reading *i*
    /// and ended at reading *i + 1*, so there is one reading more than there are queries.
    Chain(&'a [u64]),
    /// Of an open loop. May be empty while the loop is waiting for a scheduled time.
    Scheduled(&'a [ScheduledQuery]),
}

/// A query that was to begin at a given time, whether or not the target was ready for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ScheduledQuery {
    /// Scheduled start in nanoseconds.
    pub scheduled_ns: u64,
    /// Its actual start, in nanoseconds; never before the scheduled time.
    pub begun_ns: u64,
    /// Its end, in nanoseconds; never before its start.
    pub ended_ns: u64,
}

impl ScheduledQuery {
    /// Returns the time from the scheduled start to the end, in nanoseconds, including the wait for
    /// a busy target.
    #[must_use]
    pub fn latency_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.scheduled_ns)
    }
}

impl<'a> Times<'a> {
    /// Returns the number of queries.
    #[must_use]
    pub fn len(self) -> usize {
        match self {
            Self::Chain(edges) => edges.len().saturating_sub(1),
            Self::Scheduled(queries) => queries.len(),
        }
    }

    /// Returns whether there is no query.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the latency of each query in nanoseconds: from its start in a closed loop, from its
    /// scheduled time in an open one.
    pub fn latencies(self) -> impl ExactSizeIterator<Item = u64> + 'a {
        (0..self.len()).map(move |index| match self {
            Self::Chain(edges) => edges[index + 1].saturating_sub(edges[index]),
            Self::Scheduled(queries) => queries[index].latency_ns(),
        })
    }

    /// Returns the target's time for each query in nanoseconds: from its actual start, without the wait for
    /// a busy target.
    pub fn durations(self) -> impl ExactSizeIterator<Item = u64> + 'a {
        (0..self.len()).map(move |index| match self {
            Self::Chain(edges) => edges[index + 1].saturating_sub(edges[index]),
            Self::Scheduled(queries) => {
                queries[index].ended_ns.saturating_sub(queries[index].begun_ns)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_count_from_where_the_scenario_says() {
        let chain = Times::Chain(&[5, 7, 12]);
        assert_eq!(chain.latencies().collect::<Vec<_>>(), [2, 5]);
        assert_eq!(chain.durations().collect::<Vec<_>>(), [2, 5]);
        let query = ScheduledQuery { scheduled_ns: 5, begun_ns: 9, ended_ns: 12 };
        let scheduled = Times::Scheduled(std::slice::from_ref(&query));
        assert_eq!(scheduled.latencies().collect::<Vec<_>>(), [7]);
        assert_eq!(scheduled.durations().collect::<Vec<_>>(), [3]);
        assert!(Times::Chain(&[5]).is_empty() && Times::Scheduled(&[]).is_empty());
    }
}
