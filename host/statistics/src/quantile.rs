//! Quantiles, the intervals around them, and when they are refused.

use std::fmt;

use crate::moments::Value;
use crate::select::order_statistics;

/// A probability as an exact fraction, strictly between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quantile {
    numerator: u32,
    denominator: u32,
}

impl Quantile {
    /// The median.
    pub const P50: Self = Self { numerator: 1, denominator: 2 };
    /// The 90th percentile.
    pub const P90: Self = Self { numerator: 9, denominator: 10 };
    /// The 95th percentile.
    pub const P95: Self = Self { numerator: 95, denominator: 100 };
    /// The 99th percentile.
    pub const P99: Self = Self { numerator: 99, denominator: 100 };
    /// The 99.9th percentile.
    pub const P99_9: Self = Self { numerator: 999, denominator: 1000 };

    /// Returns the fraction `numerator / denominator`; `None` unless it lies strictly between 0 and
    /// 1.
    #[must_use]
    pub const fn new(numerator: u32, denominator: u32) -> Option<Self> {
        if numerator == 0 || numerator >= denominator {
            return None;
        }
        Some(Self { numerator, denominator })
    }

    /// Returns the fraction as a floating-point number.
    #[must_use]
    pub fn probability(self) -> f64 {
        f64::from(self.numerator) / f64::from(self.denominator)
    }

    /// Returns 1 − *p*, without the rounding error of a subtraction.
    pub(crate) fn complement(self) -> f64 {
        f64::from(self.denominator - self.numerator) / f64::from(self.denominator)
    }

    /// Returns the nearest rank ⌈*n p*⌉ among `count` values, from 1; 0 if there are none.
    #[must_use]
    pub fn rank(self, count: usize) -> usize {
        let product = count as u128 * u128::from(self.numerator);
        // Not above `count`, since the fraction is below 1.
        product.div_ceil(u128::from(self.denominator)) as usize
    }

    /// Returns the smallest number of values for which a two-sided interval at `confidence` exists:
    /// the smallest *n* with max(*p*, 1 − *p*)ⁿ ≤ (1 − confidence) / 2. With fewer, even the range
    /// from the smallest to the largest value is not such an interval.
    ///
    /// # Panics
    ///
    /// If `confidence` is not strictly between 0 and 1.
    #[must_use]
    pub fn minimum_count(self, confidence: f64) -> usize {
        let tail = tail(confidence);
        let (above, below) = (self.probability(), self.complement());
        // ln(1 − x) by `ln_1p` keeps its digits where p is close to 1.
        let logarithm = if above >= below { (-below).ln_1p() } else { (-above).ln_1p() };
        (tail.ln() / logarithm).ceil().max(1.0) as usize
    }

    /// Returns the ranks, from 1, of the two sorted values that enclose the true quantile with at
    /// least `confidence`; `None` if `count` is below [`Self::minimum_count`].
    ///
    /// The number *B* of values at or below the true quantile is binomial(*n*, *p*). The lower
    /// rank is the largest *l* with P(*B* < *l*) ≤ α/2, the upper one the smallest *u* with
    /// P(*B* ≥ *u*) ≤ α/2, where α = 1 − confidence: each side errs with at most α/2.
    ///
    /// # Panics
    ///
    /// If `confidence` is not strictly between 0 and 1.
    #[must_use]
    pub fn interval_ranks(self, count: usize, confidence: f64) -> Option<(usize, usize)> {
        if count < self.minimum_count(confidence) {
            return None;
        }
        let distribution = Binomial::new(count, self);
        let tail = tail(confidence);

        // P(B < l) grows with l: take l as far as it stays within the tail.
        let mut lower = distribution.first;
        let mut below = 0.0;
        for probability in &distribution.probabilities {
            below += probability;
            if below > tail {
                break;
            }
            lower += 1;
        }
        // P(B >= u) grows as u falls.
        let mut upper = distribution.first + distribution.probabilities.len();
        let mut above = 0.0;
        for probability in distribution.probabilities.iter().rev() {
            above += probability;
            if above > tail {
                break;
            }
            upper -= 1;
        }
        Some((lower.clamp(1, count), upper.clamp(1, count)))
    }
}

impl fmt::Display for Quantile {
    /// Writes a percentile: `p50`, `p99.9`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = f64::from(self.numerator) * 100.0 / f64::from(self.denominator);
        write!(formatter, "p{percent}")
    }
}

fn tail(confidence: f64) -> f64 {
    assert!(confidence > 0.0 && confidence < 1.0, "a confidence lies between 0 and 1");
    (1.0 - confidence) / 2.0
}

/// The part of a binomial distribution that is not negligible.
///
/// Weights relative to the mode follow from P(k + 1) / P(k) = (n − k) / (k + 1) · p / (1 − p), and
/// their sum normalises them, so no gamma function is needed. The walk covers some 17 standard
/// deviations, which for ten million values is forty thousand steps.
struct Binomial {
    first: usize,
    probabilities: Vec<f64>,
}

impl Binomial {
    fn new(count: usize, quantile: Quantile) -> Self {
        /// Terms below this part of the mode are left out; the tails that matter are above 1e-9.
        const NEGLIGIBLE: f64 = 1e-17;

        let odds = quantile.probability() / quantile.complement();
        let trials = count as f64;
        let mode = ((trials + 1.0) * quantile.probability()).floor().min(trials) as usize;

        let mut below = Vec::new();
        let mut weight = 1.0;
        for successes in (0..mode).rev() {
            weight *= (successes + 1) as f64 / (count - successes) as f64 / odds;
            if weight < NEGLIGIBLE {
                break;
            }
            below.push(weight);
        }
        let first = mode - below.len();
        let mut probabilities = below;
        probabilities.reverse();
        probabilities.push(1.0);
        weight = 1.0;
        for successes in mode..count {
            weight *= (count - successes) as f64 / (successes + 1) as f64 * odds;
            if weight < NEGLIGIBLE {
                break;
            }
            probabilities.push(weight);
        }
        let total: f64 = probabilities.iter().sum();
        for probability in &mut probabilities {
            *probability /= total;
        }
        Self { first, probabilities }
    }
}

/// A quantile is refused: the sample is too small to say anything about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooFew {
    /// Values that it needs.
    pub needs: usize,
    /// Number of values in the sample.
    pub has: usize,
}

impl fmt::Display for TooFew {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "needs {} values, has {}", self.needs, self.has)
    }
}

impl std::error::Error for TooFew {}

/// A quantile of a sample, with the interval that encloses the true one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate<T> {
    /// The nearest rank's value.
    pub value: T,
    /// Lower bound.
    pub low: T,
    /// Upper bound.
    pub high: T,
}

/// Estimates several quantiles at once, in the given order, each with its interval at `confidence`,
/// or refused if the sample is too small for it.
///
/// # Panics
///
/// If `confidence` is not strictly between 0 and 1.
pub fn estimates<T: Value>(
    values: &[T],
    quantiles: &[Quantile],
    confidence: f64,
) -> Vec<Result<Estimate<T>, TooFew>> {
    let count = values.len();
    let ranks: Vec<_> = quantiles
        .iter()
        .map(|quantile| {
            let (low, high) = quantile
                .interval_ranks(count, confidence)
                .ok_or_else(|| TooFew { needs: quantile.minimum_count(confidence), has: count })?;
            Ok([quantile.rank(count), low, high])
        })
        .collect();
    let wanted: Vec<usize> = ranks.iter().flatten().flatten().copied().collect();
    let mut found = order_statistics(values, &wanted).into_iter();
    ranks
        .into_iter()
        .map(|ranks| {
            ranks.map(|ranks| {
                let [value, low, high] = ranks.map(|_| found.next().expect("one for each rank"));
                Estimate { value, low, high }
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_outside_the_open_interval_are_refused() {
        assert_eq!(Quantile::new(0, 10), None);
        assert_eq!(Quantile::new(10, 10), None);
        assert_eq!(Quantile::new(1, 0), None);
        assert_eq!(Quantile::new(99, 100), Some(Quantile::P99));
    }

    #[test]
    fn ranks_are_exact_where_floating_point_is_not() {
        let seven = Quantile::new(7, 100).expect("a fraction");
        assert_eq!((0.07_f64 * 100.0).ceil(), 8.0);
        assert_eq!(seven.rank(100), 7);
        assert_eq!(Quantile::P99_9.rank(1000), 999);
        assert_eq!(Quantile::P99_9.rank(1001), 1000);
        assert_eq!(Quantile::P50.rank(1), 1);
        assert_eq!(Quantile::P50.rank(0), 0);
        assert_eq!(Quantile::P99.rank(usize::MAX), 18_262_276_632_972_456_099);
    }

    #[test]
    fn percentiles_are_called_what_people_call_them() {
        let all = [Quantile::P50, Quantile::P90, Quantile::P95, Quantile::P99, Quantile::P99_9];
        assert_eq!(all.map(|one| one.to_string()), ["p50", "p90", "p95", "p99", "p99.9"]);
    }

    #[test]
    fn the_999th_per_mille_of_fifty_is_refused_and_the_median_is_not() {
        let values: Vec<u64> = (1..=50).collect();
        let found = estimates(&values, &[Quantile::P50, Quantile::P99_9], 0.95);
        assert_eq!(found[0], Ok(Estimate { value: 25, low: 18, high: 33 }));
        assert_eq!(found[1], Err(TooFew { needs: 3688, has: 50 }));
    }
}
