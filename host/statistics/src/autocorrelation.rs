//! Correlation of neighbouring values, and the effective size of a correlated series.

use crate::distribution::normal_quantile;
use crate::moments::{Value, moments};
use crate::select::STRIDE;

/// Returns the autocorrelations of a series at lags 0 to `lags`, as far as the series is longer
/// than the lag: the sum of the products of deviations from the mean at that distance, divided by
/// the sum of their squares (G. E. P. Box and G. M. Jenkins, *Time Series Analysis*, 1970). The
/// first is 1. `None` if all values are equal or there are none. NaN is not allowed.
///
/// Takes values × lags steps.
#[must_use]
pub fn autocorrelation<T: Value>(values: &[T], lags: usize) -> Option<Vec<f64>> {
    let deviations = deviations(values.iter().map(|value| value.to_f64()).collect());
    let squares = product(&deviations, 0);
    let lags = 0..values.len().min(lags.saturating_add(1));
    (squares > 0.0).then(|| lags.map(|lag| product(&deviations, lag) / squares).collect())
}

/// Number of lags to examine before the series is halved instead.
const LAGS: usize = 128;

/// Longest series that is not averaged in bins first.
const LONGEST: usize = 1 << 17;

/// Lengths of series that are also tested for correlation beneath noise. Shorter ones have too few values,
/// and Geyer's sum detects it in longer ones.
pub(crate) const SHORT: std::ops::RangeInclusive<usize> = 100..=2048;

/// Returns the number of independent values whose mean would be as uncertain as that of this series:
/// *n* / τ with τ = 1 + 2 (ρ₁ + ρ₂ + …). Between 1 and *n*; *n* for a series of equal values,
/// which shows no correlation, and 0 if there are none. NaN is not allowed.
///
/// The sum ends by C. J. Geyer's initial monotone sequence ("Practical Markov Chain Monte Carlo",
/// *Statistical Science* 7(4), 1992): sums of two neighbouring autocorrelations, ρ₂ₖ + ρ₂ₖ₊₁, are added
/// while they are positive, each limited by the one before it. By that formula a series of alternating
/// values would be worth more than *n*; the result is limited to *n*.
///
/// Deviations are from the mean of the series itself, which removes the mean's own variance from each
/// product (D. B. Percival, "Three Curious Properties of the Sample Variance and Autocovariance for
/// Stationary Processes with Unknown Mean", *The American Statistician* 47(4), 1993). It is added back:
/// it matters for short series.
///
/// If the sum has not ended after 128 lags, neighbours are averaged in pairs and the sum starts again
/// on the series of half the length, whose mean and its uncertainty are the same. So the work is at
/// most 256 steps per value, and 2 or 4 for independent values, however long the correlation lasts. A
/// drifting series is worth a handful of values.
///
/// For the same reason a series of more than 131,072 values is first averaged in bins: ten million
/// values then cost two passes. The price is precision: the variance of *k* bins is known to √(2 /
/// *k*), which for the fewest, 16,384, is 1.1 %.
#[must_use]
pub fn effective_size<T: Value>(values: &[T]) -> f64 {
    Memory::of(values).size
}

/// Correlation of a series with its own past.
#[derive(Debug)]
pub(crate) struct Memory {
    count: f64,
    /// The [`effective_size`].
    pub(crate) size: f64,
    /// Neighbours that were averaged into one.
    width: usize,
    /// Lags, of averages, at which Geyer's sum ended; 0 if there was nothing to sum.
    lags: usize,
    /// Autocovariances of the averages at the lags before that, divided by the variance of the
    /// values, with the mean's own variance added back. The first is 1 if nothing was averaged.
    correlations: Vec<f64>,
}

impl Memory {
    /// Computes the memory of the values themselves.
    pub(crate) fn of<T: Value>(values: &[T]) -> Self {
        let count = values.len() as f64;
        // Around the first value, so that a small spread far from zero keeps its digits.
        let first = values.first().map_or(0.0, |first| first.to_f64());
        let mean = |bin: &[T]| {
            let (strides, rest) = bin.as_chunks::<STRIDE>();
            let mut lanes = [0.0; STRIDE];
            for stride in strides {
                for (lane, &value) in lanes.iter_mut().zip(stride) {
                    *lane += value.to_f64() - first;
                }
            }
            let rest: f64 = rest.iter().map(|value| value.to_f64() - first).sum();
            (lanes.iter().sum::<f64>() + rest) / bin.len() as f64
        };
        let width = bin_width(values.len());
        let series = values.chunks(width).map(mean).collect();
        let deviation = moments(values).and_then(|found| found.deviation).unwrap_or(0.0);
        let variance = deviation * deviation * (count - 1.0) / count;
        Self::new(deviations(series), variance, count, width)
    }

    /// Like [`Self::of`], but for a [`SHORT`] series also sums autocorrelations over a window of fixed
    /// width, and uses that sum if it is positive and larger. A slow drift beneath jitter has long
    /// autocorrelations, each so small that Geyer's sum soon ends by chance.
    ///
    /// The sum of *m* autocorrelations of *n* independent values deviates by √(*m* / *n*) from −*m* / *n*
    /// (M. S. Bartlett, *Journal of the Royal Statistical Society*, Supplement 8(1), 1946). A sum that is
    /// more than one deviation above that is used unchanged.
    pub(crate) fn beneath_noise<T: Value>(values: &[T]) -> Self {
        let found = Self::of(values);
        match Self::over_window(values) {
            Some(window) if window.size < found.size => window,
            _ => found,
        }
    }

    fn over_window<T: Value>(values: &[T]) -> Option<Self> {
        if !SHORT.contains(&values.len()) {
            return None;
        }
        let count = values.len() as f64;
        let lags = (1.5 * count.sqrt()) as usize;
        let correlations = autocorrelation(values, lags)?;
        let sum: f64 = correlations[1..].iter().sum();
        let share = lags as f64 / count;
        if sum + share < share.sqrt() {
            return None;
        }
        // Each of the 2 lags + 1 terms, of both signs, is too small by the variance of the mean.
        let bias = (2 * lags + 1) as f64 / count;
        let size = (count * (1.0 - bias).max(0.1) / (1.0 + 2.0 * sum)).clamp(1.0, count);
        let put_back = |correlation: f64| (correlation + 1.0 / size) / (1.0 + 1.0 / size);
        let correlations = correlations.into_iter().map(put_back).collect();
        Some(Self { count, size, width: 1, lags: lags + 1, correlations })
    }

    /// Computes the memory of the series of "above `limit` or not".
    pub(crate) fn of_above<T: Value>(values: &[T], limit: T) -> Self {
        let above = |bin: &[T]| {
            let (strides, rest) = bin.as_chunks::<STRIDE>();
            let mut lanes = [0_u64; STRIDE];
            for stride in strides {
                for (lane, &value) in lanes.iter_mut().zip(stride) {
                    *lane += u64::from(value > limit);
                }
            }
            let rest: u64 = rest.iter().map(|&value| u64::from(value > limit)).sum();
            lanes.iter().sum::<u64>() + rest
        };
        let width = bin_width(values.len());
        let counts: Vec<u64> = values.chunks(width).map(above).collect();
        let count = values.len() as f64;
        let fraction = counts.iter().sum::<u64>() as f64 / count;
        let length = |bin: usize| width.min(values.len() - bin * width) as f64;
        let series = counts.iter().enumerate().map(|(bin, &count)| count as f64 / length(bin));
        Self::new(deviations(series.collect()), fraction * (1.0 - fraction), count, width)
    }

    /// Computes the memory from deviations of values, or of means in bins of equal width, and from
    /// the variance and the number of the values themselves.
    fn new(mut series: Vec<f64>, variance: f64, count: f64, mut width: usize) -> Self {
        loop {
            let length = series.len() as f64;
            let squares = product(&series, 0);
            if squares <= 0.0 {
                return Self { count, size: count, width, lags: 0, correlations: Vec::new() };
            }
            if let Some((time, pairs)) = correlation_time(&series, squares) {
                // The variance of the mean, from this series and as that of independent values.
                let of_mean = squares / length * time / length;
                let size = (variance / of_mean).clamp(1.0, count);
                let lags = pairs.len();
                let (scale, mean) = (squares / length / variance, 1.0 / size);
                let put_back = |correlation: f64| (correlation * scale + mean) / (1.0 + mean);
                let correlations = pairs.into_iter().map(put_back).collect();
                return Self { count, size, width, lags, correlations };
            }
            series =
                series.chunks(2).map(|pair| pair.iter().sum::<f64>() / pair.len() as f64).collect();
            width *= 2;
        }
    }

    /// Returns the degrees of freedom of the variance behind [`Self::size`]: infinite if no correlation
    /// was found beyond the next value.
    ///
    /// A sum of *m* autocorrelations has the variance 4 *m* / *n* in units of its own square (M. S.
    /// Bartlett, *Journal of the Royal Statistical Society*, Supplement 8(1), 1946), and a variance with
    /// relative uncertainty *v* has 2 / *v* degrees of freedom. Lags 0 and 1 are not counted.
    pub(crate) fn freedom(&self) -> f64 {
        self.count / (2 * self.width * self.lags.saturating_sub(2)) as f64
    }

    /// Returns the smaller of two effective sizes for the mean: [`Self::size`], and that of a
    /// first-order autoregression.
    pub(crate) fn least_size(&self) -> f64 {
        let Some(coefficient) = self.coefficient() else { return self.size };
        let coefficient = coefficient.clamp(0.0, 0.999);
        self.size.min(self.count * (1.0 - coefficient) / (1.0 + coefficient))
    }

    /// Returns the coefficient of a first-order autoregression, which is estimated too low by (1 + 3 *r*)
    /// / *n* (F. H. C. Marriott and J. A. Pope, "Bias in the Estimation of Autocorrelations", *Biometrika*
    /// 41(3/4), 1954). `None` if neighbours were averaged.
    fn coefficient(&self) -> Option<f64> {
        let &[_, next, ..] = self.correlations.as_slice() else { return None };
        // The mean's own variance is what is missing in another way here.
        let found = next * (1.0 + 1.0 / self.size) - 1.0 / self.size;
        (self.width == 1).then_some(found + (1.0 + 3.0 * found) / self.count)
    }

    /// Returns a pessimistic [`Self::size_above`] for a series that is too short to know: one of [`SHORT`]
    /// length that is correlated beyond the next value, and shorter than 50 times its correlation time
    /// (A. Sokal, "Monte Carlo Methods in Statistical Mechanics", 1996, requires more before he trusts such a
    /// time). It is the size of a first-order autoregression whose coefficient is two standard errors, of
    /// √((1 − *r*²) / *n*) each, above the estimate. For other series returns the number of values.
    pub(crate) fn doubtful_size_above(&self, probability: f64) -> f64 {
        const LONG: f64 = 50.0;
        const NEGLIGIBLE: f64 = 1e-3;

        let is_doubtful = |coefficient: &f64| {
            let time = (1.0 + coefficient) / (1.0 - coefficient.min(0.99));
            self.lags > 2 && SHORT.contains(&(self.count as usize)) && self.count < LONG * time
        };
        let Some(found) = self.coefficient().filter(is_doubtful) else { return self.count };
        let error = ((1.0 - found * found).max(0.0) / self.count).sqrt();
        let coefficient = (found + 2.0 * error).clamp(0.0, 0.99);
        let correlations =
            std::iter::successors(Some(coefficient), |last| Some(last * coefficient));
        let later = correlations.take_while(|correlation| *correlation > NEGLIGIBLE);
        let sum: f64 = later.map(|correlation| correlation_above(correlation, probability)).sum();
        (self.count / (1.0 + 2.0 * sum)).clamp(1.0, self.count)
    }

    /// Returns the effective size, for the fraction above the quantile at `probability`, of a
    /// series with these normal scores, if it is Gaussian up to a monotone transformation.
    pub(crate) fn size_above(&self, probability: f64) -> f64 {
        let above = |&correlation: &f64| correlation_above(correlation, probability);
        let Some((first, later)) = self.correlations.split_first() else { return self.count };
        let time = above(first) + 2.0 * later.iter().map(above).sum::<f64>();
        (self.count / (self.width as f64 * time)).clamp(1.0, self.count)
    }
}

/// Returns the correlation of "above the quantile at `probability` or not" of two normal deviates with
/// this correlation: ∫ exp(−*z*² / (1 + sin θ)) dθ / (2π *p* (1 − *p*)) from 0 to arcsin ρ (R. L.
/// Plackett, "A Reduction Formula for Normal Multivariate Integrals", *Biometrika* 41(3/4), 1954, with
/// *r* = sin θ).
fn correlation_above(correlation: f64, probability: f64) -> f64 {
    const STEPS: u32 = 16;

    if correlation >= 1.0 {
        return 1.0;
    }
    let limit = normal_quantile(probability);
    let step = correlation.max(-1.0).asin() / f64::from(STEPS);
    let height = |index: u32| {
        let sine = (step * (f64::from(index) + 0.5)).sin();
        (-limit * limit / (1.0 + sine)).exp()
    };
    let scale = std::f64::consts::TAU * probability * (1.0 - probability);
    (0..STEPS).map(height).sum::<f64>() * step / scale
}

/// Values whose mean is taken for one.
fn bin_width(count: usize) -> usize {
    match count.div_ceil(LONGEST) {
        0 | 1 => 1,
        many => many.next_multiple_of(STRIDE),
    }
}

/// Returns the series minus its mean.
fn deviations(mut series: Vec<f64>) -> Vec<f64> {
    let Some(&first) = series.first() else { return series };
    // Around the first value, so that a small spread far from zero keeps its digits.
    let distance = series.iter().map(|value| value - first).sum::<f64>() / series.len() as f64;
    series.iter_mut().for_each(|value| *value = *value - first - distance);
    series
}

/// Returns the sum of the products of values `lag` apart, in lanes that need not wait for one
/// another.
fn product(series: &[f64], lag: usize) -> f64 {
    const LANES: usize = 8;
    let (later, later_rest) = series[lag..].as_chunks::<LANES>();
    let (earlier, _) = series.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for (later, earlier) in later.iter().zip(earlier) {
        for lane in 0..LANES {
            lanes[lane] += later[lane] * earlier[lane];
        }
    }
    let rest = &series[later.len() * LANES..];
    lanes.iter().sum::<f64>() + later_rest.iter().zip(rest).map(|(a, b)| a * b).sum::<f64>()
}

/// Returns the integrated autocorrelation time τ, at least that of two alternating values, and the
/// autocorrelations that it is the sum of; `None` if the sum does not end within the examined lags.
fn correlation_time(series: &[f64], squares: f64) -> Option<(f64, Vec<f64>)> {
    let correlation =
        |lag: usize| if lag < series.len() { product(series, lag) / squares } else { 0.0 };
    let mut correlations = Vec::new();
    let mut sum = 0.0_f64;
    let mut last = f64::INFINITY;
    for lag in (0..LAGS).step_by(2) {
        let pair = [correlation(lag), correlation(lag + 1)];
        let both = pair[0] + pair[1];
        if both <= 0.0 {
            // Each of the 2 lag − 1 terms, of both signs, is too small by the variance of the mean.
            let bias = (2 * lag.max(1) - 1) as f64 / series.len() as f64;
            let time = (2.0 * sum - 1.0).max(f64::MIN_POSITIVE) / (1.0 - bias).max(0.1);
            return Some((time, correlations));
        }
        last = both.min(last);
        sum += last;
        correlations.extend(pair.map(|one| one * last / both));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simpson's rule on ∫ φ(*x*) Φ((ρ *x* − *z*) / √(1 − ρ²)) d*x* from *z* on gives the same probability
    /// that both are above.
    #[test]
    fn normal_deviates_above_a_limit_are_correlated_as_another_integral_says() {
        let expected = [
            (0.5, 0.5, 0.333333),
            (0.5, 0.9, 0.248906),
            (0.9, 0.99, 0.537344),
            (0.2, 0.9, 0.079958),
            (-0.3, 0.9, -0.077786),
        ];
        for (correlation, probability, expected) in expected {
            let found = correlation_above(correlation, probability);
            assert!((found - expected).abs() < 1e-4, "{correlation} {probability}: {found}");
        }
        assert_eq!(correlation_above(0.0, 0.9), 0.0);
        assert_eq!(correlation_above(1.0, 0.9), 1.0);
    }
}
