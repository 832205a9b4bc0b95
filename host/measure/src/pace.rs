//! Pace of an open loop against its schedule.

use host_record::{Lateness, Pace};

use crate::block::ScheduledQuery;
use crate::schedule::{Arrivals, Schedule};

/// Gathers a [`Pace`] from blocks, in memory that does not grow.
///
/// Rates are of *n* queries over the time from the first to the last: *n − 1* gaps. A queue that
/// does not grow has both rates alike whatever the latency, since first and last are shifted alike.
///
/// The lateness is that of the generator. With one that is never late, a query begins when it is due,
/// or when the query before it on the same server has ended, whichever is later; and it takes as long
/// as it did take. What a query began after that is its lateness, so a wait behind a busy target is
/// none, while a generator that was held up is late for all the queries that it then has to catch up
/// with, and not only for the first of them. Quantiles are upper edges of classes 1/64 wide, so they
/// are at most 1.6 % too high; below 128 ns they are exact.
#[derive(Debug)]
pub(crate) struct PaceKeeper {
    arrivals: Arrivals,
    served: u64,
    first_scheduled: u64,
    last_scheduled: u64,
    first_ended: u64,
    last_ended: u64,
    late: Histogram,
}

impl PaceKeeper {
    pub(crate) fn new(arrivals: Arrivals) -> Self {
        Self {
            arrivals,
            served: 0,
            first_scheduled: u64::MAX,
            last_scheduled: 0,
            first_ended: u64::MAX,
            last_ended: 0,
            late: Histogram::new(),
        }
    }

    /// Takes queries of one server. The schedule began at `origin`, in readings of the clock.
    /// `free` is when the server would have been free with a generator that is never late, in
    /// nanoseconds from the schedule's start; it is kept up to date.
    pub(crate) fn add(&mut self, origin: u64, free: &mut u64, queries: &[ScheduledQuery]) {
        for query in queries {
            let scheduled = query.scheduled_ns - origin;
            let begun = query.begun_ns - origin;
            let ended = query.ended_ns - origin;
            self.first_scheduled = self.first_scheduled.min(scheduled);
            self.last_scheduled = self.last_scheduled.max(scheduled);
            self.first_ended = self.first_ended.min(ended);
            self.last_ended = self.last_ended.max(ended);
            let in_time = scheduled.max(*free);
            // It is never early: both terms are times that the server had to wait for.
            self.late.add(begun.saturating_sub(in_time));
            *free = in_time + (ended - begun);
        }
        self.served += queries.len() as u64;
    }

    /// Returns the end of the last query, in nanoseconds from the schedule's start.
    pub(crate) fn last_ended(&self) -> u64 {
        self.last_ended
    }

    /// Returns the result. `cut` is when the maximum ended the loop, in nanoseconds from the
    /// schedule's start, if it did.
    pub(crate) fn finish(&self, cut: Option<u64>) -> Pace {
        let (mut scheduled, mut last_scheduled) = (self.served, self.last_scheduled);
        if let Some(cut) = cut {
            // The schedule may never have been generated so far: how many are missing is what
            // it says, and not what there was memory for.
            let due = Schedule::new(self.arrivals).take_while(|time| *time <= cut);
            (scheduled, last_scheduled) =
                due.fold((0, last_scheduled), |(count, last), time| (count + 1, time.max(last)));
            scheduled = scheduled.max(self.served);
        }
        let first = self.first_scheduled;
        Pace {
            asked: self.arrivals.rate(),
            offered_per_second: rate(scheduled, first, last_scheduled),
            achieved_per_second: rate(self.served, self.first_ended, self.last_ended),
            unserved: scheduled - self.served,
            lateness: self.late.summary(),
        }
    }
}

fn rate(queries: u64, first: u64, last: u64) -> Option<f64> {
    let gaps = queries.checked_sub(1).filter(|gaps| *gaps > 0)?;
    let span = last.checked_sub(first).filter(|span| *span > 0)?;
    Some(gaps as f64 * 1e9 / span as f64)
}

/// Counts values in classes: one each up to 128, and from there on 64 to each power of two.
#[derive(Debug)]
struct Histogram {
    counts: Box<[u64]>,
    total: u64,
    maximum: u64,
}

impl Histogram {
    const CLASSES: usize = Self::class(u64::MAX) + 1;

    fn new() -> Self {
        Self { counts: vec![0; Self::CLASSES].into_boxed_slice(), total: 0, maximum: 0 }
    }

    const fn class(value: u64) -> usize {
        let shift = 57_u32.saturating_sub(value.leading_zeros());
        shift as usize * 64 + (value >> shift) as usize
    }

    /// Returns the largest value of a class.
    fn upper(class: usize) -> u64 {
        let shift = (class / 64).saturating_sub(1);
        let next = (class - shift * 64 + 1) as u128;
        ((next << shift) - 1) as u64
    }

    fn add(&mut self, value: u64) {
        self.counts[Self::class(value)] += 1;
        self.total += 1;
        self.maximum = self.maximum.max(value);
    }

    /// Returns the class of the value that has `per_cent` of all at or below it.
    fn quantile(&self, per_cent: u64) -> u64 {
        let wanted = (u128::from(self.total) * u128::from(per_cent)).div_ceil(100);
        let mut seen = 0_u128;
        for (class, count) in self.counts.iter().enumerate() {
            seen += u128::from(*count);
            if seen >= wanted {
                return Self::upper(class).min(self.maximum);
            }
        }
        self.maximum
    }

    fn summary(&self) -> Option<Lateness> {
        (self.total > 0).then(|| Lateness {
            median_ns: self.quantile(50),
            p99_ns: self.quantile(99),
            maximum_ns: self.maximum,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantiles_of_small_values_are_exact() {
        let mut histogram = Histogram::new();
        (1..=100).for_each(|value| histogram.add(value));
        let expected = Lateness { median_ns: 50, p99_ns: 99, maximum_ns: 100 };
        assert_eq!(histogram.summary(), Some(expected));
        assert_eq!(Histogram::new().summary(), None);
    }

    proptest! {
        #[test]
        fn a_class_holds_its_values_closely(value: u64, bits in 0_u32..64) {
            let value = value >> bits;
            let class = Histogram::class(value);
            let upper = Histogram::upper(class);
            prop_assert_eq!(Histogram::class(upper), class);
            prop_assert!(upper >= value && (upper - value) as f64 <= value as f64 / 64.0);
            prop_assert!(upper == u64::MAX || Histogram::class(upper + 1) == class + 1);
        }
    }
}
