//! Latencies in bounded memory.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

use crate::synthetic::generator;

/// Latencies of the measured queries, thinned evenly once there are many: of each `stride` queries in a row one
/// is kept, drawn at random, so that medians of parts stay fair. A fixed stride would see an event of the same
/// period always or never.
#[derive(Debug)]
pub(crate) struct Thinned {
    kept: Vec<u64>,
    capacity: usize,
    stride: u64,
    /// Queries of the present part so far, and which of them is kept.
    position: u64,
    drawn: u64,
    /// The same series gives the same values.
    random: Pcg64,
}

impl Thinned {
    /// Enough for medians of parts.
    pub(crate) const CAPACITY: usize = 1 << 16;

    /// Creates a store of `capacity` values, an even number.
    pub(crate) fn new(capacity: usize) -> Self {
        let random = generator(0, "thinned", 0);
        Self {
            kept: Vec::with_capacity(capacity),
            capacity,
            stride: 1,
            position: 0,
            drawn: 0,
            random,
        }
    }

    pub(crate) fn extend(&mut self, latencies: impl Iterator<Item = u64>) {
        for latency in latencies {
            if self.position == 0 {
                self.begin();
            }
            if self.position == self.drawn {
                self.kept.push(latency);
            }
            self.position = if self.position + 1 == self.stride { 0 } else { self.position + 1 };
        }
    }

    /// Begins a part. If there is no room for it, two parts become one, of which one of the two is kept.
    fn begin(&mut self) {
        if self.kept.len() == self.capacity {
            for pair in 0..self.capacity / 2 {
                self.kept[pair] = self.kept[2 * pair + (self.random.next_u64() >> 63) as usize];
            }
            self.kept.truncate(self.capacity / 2);
            self.stride *= 2;
        }
        // The stride is a power of two, so its bits are drawn with equal chances.
        self.drawn = self.random.next_u64() >> 32 & (self.stride - 1);
    }

    pub(crate) fn kept(&self) -> &[u64] {
        &self.kept
    }

    pub(crate) fn stride(&self) -> u64 {
        self.stride
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_order_and_one_of_each_part() {
        let mut thinned = Thinned::new(Thinned::CAPACITY);
        let count = 3 * Thinned::CAPACITY as u64 + 17;
        thinned.extend(0..count / 2);
        thinned.extend(count / 2..count);
        let kept = thinned.kept();
        assert_eq!(thinned.stride(), 4);
        assert!(kept.len() > Thinned::CAPACITY / 2 && kept.len() <= Thinned::CAPACITY);
        assert!(kept.iter().zip(0..).all(|(place, part)| place / 4 == part));
        assert!(count - kept[kept.len() - 1] <= 2 * thinned.stride());
        // Each place within a part is drawn as often as the others, to five standard errors.
        for place in 0..4 {
            let times = kept.iter().filter(|kept| *kept % 4 == place).count() as f64;
            let expected = kept.len() as f64 / 4.0;
            assert!((times - expected).abs() < 5.0 * (expected * 0.75).sqrt(), "{place}: {times}");
        }
    }

    /// An event at an even distance is seen as often as it happens, however many
    /// queries there are.
    #[test]
    fn thinning_sees_what_recurs_at_an_even_distance() {
        for every in [2, 4, 64] {
            for count in [100_000, 1_000_000, 10_000_000] {
                let mut thinned = Thinned::new(Thinned::CAPACITY);
                thinned.extend((0..count).map(|index| u64::from(index % every == 0)));
                let kept = thinned.kept();
                let share = kept.iter().sum::<u64>() as f64 / kept.len() as f64;
                let expected = 1.0 / every as f64;
                assert!((share / expected - 1.0).abs() < 0.2, "{every} of {count}: {share}");
            }
        }
    }
}
