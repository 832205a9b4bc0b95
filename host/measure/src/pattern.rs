//! Load patterns: scenarios with the numbers that they take.

use host_record::Rate;

use crate::schedule::Arrivals;

/// Definition of a query and of its issue, with the meaning that MLPerf LoadGen gives the names
/// of the first four (`loadgen/test_settings.h` and the inference rules of MLCommons).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pattern {
    /// One batch, run to its end; the next is issued when it is done.
    SingleStream,
    /// Several examples that belong together, such as the frames of several cameras. The next
    /// query is issued when all of the last are done, and a latency is that of the whole query.
    MultiStream {
        /// Batches in one query, started back to back and waited for together.
        batches: u64,
    },
    /// All examples at once: batches started back to back and waited for together.
    Offline {
        /// Batches in one query.
        batches: u64,
    },
    /// One batch at each arrival of a Poisson process, whether or not the last is done.
    Server {
        /// Arrivals per second on average.
        rate: Rate,
        /// Seed of the arrivals.
        seed: u64,
    },
    /// One batch at equal intervals, whether or not the last is done.
    ConstantRate {
        /// Arrivals per second.
        rate: Rate,
    },
    /// As many clients as there are targets; each issues a batch when its previous one is done.
    ClosedLoop,
}

impl Pattern {
    /// Returns the arrivals of queries; `None` if they wait for each other.
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

    /// Returns how many batches a query starts before it waits for all; `None` if it runs one.
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
