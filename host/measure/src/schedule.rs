//! Schedules of open loops.

use host_record::Rate;

/// Arrivals of queries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// At random, independent of each other: a Poisson process, whose gaps are exponential.
    Poisson {
        /// Mean rate.
        rate: Rate,
        /// Seed of the gaps: the same seed gives the same schedule.
        seed: u64,
    },
    /// With equal gaps, the first at once.
    Constant {
        /// Rate.
        rate: Rate,
    },
}

impl Arrivals {
    /// Returns the requested rate.
    #[must_use]
    pub fn rate(self) -> Rate {
        match self {
            Self::Poisson { rate, .. } | Self::Constant { rate } => rate,
        }
    }
}

/// The times of a schedule one after the other, without end, in nanoseconds from its start.
///
/// Arrivals are the same on every machine with the same natural logarithm; if its last bit differs, a time
/// can differ by a nanosecond.
#[derive(Debug, Clone)]
pub struct Schedule {
    arrivals: Arrivals,
    mean_gap_ns: f64,
    random: SplitMix64,
    /// The last time, whole and fraction apart: a sum of gaps in one float would lose precision
    /// as the schedule goes on.
    whole_ns: u64,
    fraction_ns: f64,
    begun: bool,
}

impl Schedule {
    /// Creates the schedule of these arrivals.
    #[must_use]
    pub fn new(arrivals: Arrivals) -> Self {
        let seed = match arrivals {
            Arrivals::Poisson { seed, .. } => seed,
            Arrivals::Constant { .. } => 0,
        };
        Self {
            arrivals,
            mean_gap_ns: 1e9 / arrivals.rate().get(),
            random: SplitMix64(seed),
            whole_ns: 0,
            fraction_ns: 0.0,
            begun: false,
        }
    }

    /// Gives the next time.
    pub(crate) fn advance(&mut self) -> u64 {
        let gap_ns = match self.arrivals {
            Arrivals::Poisson { .. } => -self.random.uniform().ln() * self.mean_gap_ns,
            Arrivals::Constant { .. } if self.begun => self.mean_gap_ns,
            Arrivals::Constant { .. } => 0.0,
        };
        self.begun = true;
        let sum = self.fraction_ns + gap_ns;
        self.whole_ns = self.whole_ns.saturating_add(sum as u64);
        self.fraction_ns = sum.fract();
        self.whole_ns
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        Some(self.advance())
    }
}

/// The generator SplitMix64 of Steele, Lea and Flood ("Fast splittable pseudorandom number
/// generators", OOPSLA 2014): a counter that goes up by the golden ratio, mixed by the finaliser
/// that is Stafford's variant 13. Its period is 2⁶⁴ and every seed is a good one.
#[derive(Debug, Clone)]
struct SplitMix64(u64);

impl SplitMix64 {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number above 0 and at most 1, from the upper 53 bits.
    fn uniform(&mut self) -> f64 {
        ((self.draw() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate(queries: f64) -> Rate {
        Rate::per_second(queries).expect("a rate")
    }

    #[test]
    fn the_generator_gives_the_published_numbers() {
        // The first outputs for the seed 1234567, as in Vigna's reference code's test vectors.
        let mut random = SplitMix64(1_234_567);
        let drawn = [random.draw(), random.draw(), random.draw()];
        assert_eq!(
            drawn,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn equal_gaps_do_not_drift() {
        let times: Vec<u64> =
            Schedule::new(Arrivals::Constant { rate: rate(100.0) }).take(4).collect();
        assert_eq!(times, [0, 10_000_000, 20_000_000, 30_000_000]);
        let third = Schedule::new(Arrivals::Constant { rate: rate(3.0) }).nth(3_000_000);
        let ideal = 1_000_000_000_000_000_u64;
        assert!(third.expect("it has no end").abs_diff(ideal) <= 1, "{third:?}");
    }

    /// Mean, variance and Kolmogorov–Smirnov distance of 200,000 gaps. The bounds are at least
    /// four standard errors wide: 1/√n for the mean, √8/√n for the variance (both relative), and
    /// 1.95/√n is the distance that chance exceeds once in a thousand.
    #[test]
    fn poisson_gaps_are_exponential() {
        const COUNT: usize = 200_000;
        for seed in [0, 1, 2, 0xdead_beef] {
            let mean_ns = 1e5;
            let mut previous = 0;
            let mut gaps: Vec<f64> =
                Schedule::new(Arrivals::Poisson { rate: rate(1e9 / mean_ns), seed })
                    .take(COUNT)
                    .map(|time| (time - std::mem::replace(&mut previous, time)) as f64 / mean_ns)
                    .collect();
            let root = (COUNT as f64).sqrt();
            let mean = gaps.iter().sum::<f64>() / COUNT as f64;
            let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
            let variance = square / (COUNT - 1) as f64;
            assert!((mean - 1.0).abs() < 4.0 / root, "{seed}: {mean}");
            assert!((variance - 1.0).abs() < 4.0 * 8_f64.sqrt() / root, "{seed}: {variance}");
            gaps.sort_by(f64::total_cmp);
            let distance = gaps.iter().enumerate().fold(0.0_f64, |distance, (index, gap)| {
                let expected = 1.0 - (-gap).exp();
                let below = (expected - index as f64 / COUNT as f64).abs();
                let above = (expected - (index + 1) as f64 / COUNT as f64).abs();
                distance.max(below).max(above)
            });
            assert!(distance < 1.95 / root, "{seed}: {distance}");
        }
    }

    proptest! {
        #[test]
        fn a_seed_is_a_schedule_and_times_never_decrease(seed: u64, queries in 1e-3_f64..1e9) {
            let poisson = Arrivals::Poisson { rate: rate(queries), seed };
            let other = Arrivals::Poisson { rate: rate(queries), seed: seed ^ 1 };
            let times: Vec<u64> = Schedule::new(poisson).take(100).collect();
            prop_assert!(times.is_sorted());
            prop_assert!(Schedule::new(poisson).take(100).eq(times.iter().copied()));
            prop_assert!(!Schedule::new(other).take(100).eq(times));
        }
    }
}
