//! Random numbers that a seed decides.

/// The generator xoshiro256++ (D. Blackman and S. Vigna, "Scrambled Linear Pseudorandom Number
/// Generators", *ACM Transactions on Mathematical Software* 47(4), 2021), with its state filled
/// from the seed by SplitMix64 as its authors advise. The same seed gives the same numbers on every
/// machine. Not suitable for secrets.
#[derive(Debug, Clone)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// Creates the generator of `seed`; every seed is as good as any other.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut counter = seed;
        let state = std::array::from_fn(|_| {
            counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = counter;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^ (word >> 31)
        });
        Self { state }
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let state = &mut self.state;
        let bits = state[0].wrapping_add(state[3]).rotate_left(23).wrapping_add(state[0]);
        let shifted = state[1] << 17;
        state[2] ^= state[0];
        state[3] ^= state[1];
        state[1] ^= state[2];
        state[0] ^= state[3];
        state[2] ^= shifted;
        state[3] = state[3].rotate_left(45);
        bits
    }

    /// Returns a whole number from 0 to `bound` − 1, each equally likely (D. Lemire, "Fast Random
    /// Integer Generation in an Interval", *ACM Transactions on Modeling and Computer Simulation*
    /// 29(1), 2019).
    ///
    /// # Panics
    ///
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number lies below 0");
        let mut product = u128::from(self.bits()) * u128::from(bound);
        if (product as u64) < bound {
            let threshold = bound.wrapping_neg() % bound;
            while (product as u64) < threshold {
                product = u128::from(self.bits()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }

    /// Returns a number strictly between 0 and 1, in the middle of one of 2⁵² equal steps, so that
    /// its logarithm is finite.
    pub fn uniform(&mut self) -> f64 {
        ((self.bits() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_are_those_of_the_authors_code() {
        // SplitMix64 from 0 begins with 0xe220a8397b1dcdaf, as Vigna's splitmix64.c does.
        let mut random = Random::from_seed(0);
        assert_eq!(random.state[0], 0xe220_a839_7b1d_cdaf);
        // xoshiro256++ from the state 1, 2, 3, 4 begins so in the tests of Rust's rand_xoshiro.
        random.state = [1, 2, 3, 4];
        let found: [u64; 4] = std::array::from_fn(|_| random.bits());
        assert_eq!(found, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn numbers_stay_in_their_range_and_reach_all_of_it() {
        let mut random = Random::from_seed(1);
        let mut counts = [0; 7];
        for _ in 0..7000 {
            counts[random.below(7) as usize] += 1;
            let uniform = random.uniform();
            assert!(0.0 < uniform && uniform < 1.0);
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
        assert_eq!(random.below(1), 0);
        assert!(random.below(u64::MAX) < u64::MAX);
    }
}
