//! The schedule that several servers share: a ring that one thread fills ahead of time and from
//! which the servers take, first come, first served.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, OnceLock};
use std::thread;

use crate::stop::StopRule;

/// A scheduled query that a server has taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket {
    pub(crate) index: u64,
    /// Due time in nanoseconds from the schedule's start.
    pub(crate) offset_ns: u64,
}

/// A counter with a cache line of its own, so that writing it does not slow readers of another.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

/// The shared schedule.
///
/// Times are numbered from 0. The filler writes time *i* into slot *i* modulo the ring's length
/// and then publishes it; it does so only once time *i − length* has been taken. A server reads a
/// slot first and then takes its number by compare-and-swap: if that succeeds, the number was
/// free all along, so the slot cannot have been overwritten in between.
#[derive(Debug)]
pub(crate) struct Feed {
    slots: Box<[AtomicU64]>,
    /// Number of times published.
    published: Counter,
    /// Number of times taken.
    taken: Counter,
    /// The number at which the schedule ends.
    end: Counter,
    start: Barrier,
    origin: OnceLock<u64>,
    pub(crate) servers: usize,
    pub(crate) longest_block_ns: u64,
    pub(crate) maximum_ns: u64,
}

impl Feed {
    /// Creates a feed with room for four blocks of each server. It is filled whenever a block is
    /// handed over, and a server hands over a block for each that it takes from here.
    pub(crate) fn new(
        servers: usize,
        block: usize,
        longest_block_ns: u64,
        rule: &StopRule,
    ) -> Self {
        Self {
            slots: (0..4 * servers * block).map(|_| AtomicU64::new(u64::MAX)).collect(),
            published: Counter::default(),
            taken: Counter::default(),
            end: Counter(AtomicU64::new(u64::MAX)),
            start: Barrier::new(servers + 1),
            origin: OnceLock::new(),
            servers,
            longest_block_ns,
            maximum_ns: rule.maximum_ns,
        }
    }

    /// Waits until every server is ready, and sets the schedule's start to `now`.
    pub(crate) fn begin(&self, now: impl FnOnce() -> u64) -> u64 {
        self.start.wait();
        *self.origin.get_or_init(now)
    }

    /// Reports that a server is ready; returns the schedule's start.
    pub(crate) fn wait_for_start(&self) -> u64 {
        self.start.wait();
        loop {
            if let Some(origin) = self.origin.get() {
                return *origin;
            }
            thread::yield_now();
        }
    }

    /// Ends the schedule before this number, unless it ends earlier.
    pub(crate) fn end_at(&self, number: u64) {
        self.end.0.fetch_min(number, Ordering::AcqRel);
    }

    /// Ends the schedule with what has been taken.
    pub(crate) fn end_now(&self) {
        self.end_at(self.taken.0.load(Ordering::Acquire));
    }

    /// Returns the number at which the schedule ends, once that is known.
    pub(crate) fn end(&self) -> u64 {
        self.end.0.load(Ordering::Acquire)
    }

    /// Publishes as many times as there is room for. Called by one thread only.
    pub(crate) fn fill(&self, mut next: impl FnMut() -> Option<u64>) {
        let length = self.slots.len() as u64;
        let mut published = self.published.0.load(Ordering::Relaxed);
        while published - self.taken.0.load(Ordering::Acquire) < length {
            let Some(offset_ns) = next() else { break };
            self.slots[(published % length) as usize].store(offset_ns, Ordering::Relaxed);
            published += 1;
            self.published.0.store(published, Ordering::Release);
        }
    }

    /// Takes the next time; `None` at the schedule's end.
    #[inline]
    pub(crate) fn take(&self) -> Option<Ticket> {
        loop {
            let index = self.taken.0.load(Ordering::Acquire);
            if index >= self.end() {
                return None;
            }
            if index >= self.published.0.load(Ordering::Acquire) {
                // The filler is behind, which the query that waits for it shows as lateness.
                thread::yield_now();
                continue;
            }
            let slot = (index % self.slots.len() as u64) as usize;
            let offset_ns = self.slots[slot].load(Ordering::Relaxed);
            let won = self.taken.0.compare_exchange_weak(
                index,
                index + 1,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if won.is_ok() {
                return Some(Ticket { index, offset_ns });
            }
            spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_taken_once_and_in_order() {
        const COUNT: u64 = 100_000;
        let rule = StopRule { minimum_ns: 0, minimum_queries: 0, maximum_ns: 0 };
        let feed = Feed::new(3, 4, 0, &rule);
        feed.end_at(COUNT);
        let mut taken = thread::scope(|scope| {
            let servers: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let tickets = std::iter::from_fn(|| feed.take());
                        tickets.map(|ticket| (ticket.index, ticket.offset_ns)).collect::<Vec<_>>()
                    })
                })
                .collect();
            let mut times = (0..COUNT).map(|index| index * 7);
            while feed.published.0.load(Ordering::Relaxed) < COUNT {
                feed.fill(|| times.next());
                thread::yield_now();
            }
            let taken = servers.into_iter().map(|server| server.join().expect("no panic"));
            taken
                .inspect(|tickets| assert!(tickets.is_sorted(), "each server sees them in order"))
                .flatten()
                .collect::<Vec<_>>()
        });
        taken.sort_unstable();
        assert!(taken.into_iter().eq((0..COUNT).map(|index| (index, index * 7))));
    }
}
