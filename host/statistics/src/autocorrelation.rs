//! How much a value says about the next one, and how much less a series is therefore worth.

use crate::moments::{STRIDE, moments};
use crate::select::Value;

/// Autocorrelations of a series at the lags 0 to `lags`, as far as the series is longer than the
/// lag: the sum of the products of the deviations from the mean at that distance over the sum of
/// their squares (G. E. P. Box and G. M. Jenkins, *Time Series Analysis*, 1970). The first
/// is 1. `None` where all values are equal or there are none. NaN is not allowed.
///
/// Takes values × lags steps.
#[must_use]
pub fn autocorrelation<T: Value>(values: &[T], lags: usize) -> Option<Vec<f64>> {
    let deviations = deviations(values.iter().map(|value| value.to_f64()).collect());
    let squares = product(&deviations, 0);
    let lags = 0..values.len().min(lags.saturating_add(1));
    (squares > 0.0).then(|| lags.map(|lag| product(&deviations, lag) / squares).collect())
}

/// Lags that are looked at before the series is halved instead.
const LAGS: usize = 128;

/// The longest series whose values are looked at one by one.
const LONGEST: usize = 1 << 17;

/// The number of independent values whose mean would be as uncertain as that of this series:
/// *n* / τ with τ = 1 + 2 (ρ₁ + ρ₂ + …). Between 1 and *n*; *n* for a series of equal values,
/// which shows no correlation, and 0 where there are none. NaN is not allowed.
///
/// The sum ends by C. J. Geyer's initial monotone sequence ("Practical Markov Chain Monte Carlo",
/// *Statistical Science* 7(4), 1992): sums of two neighbouring autocorrelations, ρ₂ₖ +
/// ρ₂ₖ₊₁, are taken while they are positive, and none as larger than the one before it. A series
/// whose values alternate is worth more than *n* by that formula; no more than *n* is claimed.
///
/// Deviations are from the mean of the series itself, which takes from each product what is the mean's
/// own variance (D. B. Percival, "Three Curious Properties of the Sample Variance and Autocovariance
/// for Stationary Processes with Unknown Mean", *The American Statistician* 47(4), 1993). That is put
/// back: it matters for short series.
///
/// Where the sum has not ended after 128 lags, neighbours are averaged in pairs and it is begun again
/// on the series of half the length. Its mean is the same, and so is that mean's uncertainty. The
/// work is therefore at most 256 steps for each value, and 2 or 4 where values are independent,
/// however long the correlation lasts. A drifting series is worth a handful of values.
///
/// For the same reason a series of more than 131,072 values is averaged in bins before it is begun: ten
/// million values then cost two readings of them. What it may cost is precision: the variance of
/// *k* bins is known to √(2 / *k*), which for the fewest, 16,384, is 1.1 %.
#[must_use]
pub fn effective_size<T: Value>(values: &[T]) -> f64 {
    let Some(&first) = values.first() else { return 0.0 };
    // Around the first value, so that a small spread far from zero keeps its digits.
    let first = first.to_f64();
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
    let series = values.chunks(bin_width(values.len())).map(mean).collect();
    let deviation = moments(values).and_then(|found| found.deviation).unwrap_or(0.0);
    let count = values.len() as f64;
    worth(deviations(series), deviation * deviation * (count - 1.0) / count, count)
}

/// The [`effective_size`] of the series of "above `limit` or not".
pub(crate) fn effective_size_above<T: Value>(values: &[T], limit: T) -> f64 {
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
    worth(deviations(series.collect()), fraction * (1.0 - fraction), count)
}

/// Values whose mean is taken for one.
fn bin_width(count: usize) -> usize {
    match count.div_ceil(LONGEST) {
        0 | 1 => 1,
        many => many.next_multiple_of(STRIDE),
    }
}

/// How many independent values a series is worth, from deviations of its values or of means of them
/// in bins of equal size, and from the variance and the number of the values themselves.
fn worth(mut series: Vec<f64>, variance: f64, count: f64) -> f64 {
    if product(&series, 0) <= 0.0 {
        return count;
    }
    loop {
        let length = series.len() as f64;
        if let Some(time) = correlation_time(&series) {
            // The variance of the mean, from this series and as that of independent values.
            let of_mean = product(&series, 0) / length * time / length;
            return (variance / of_mean).clamp(1.0, count);
        }
        series =
            series.chunks(2).map(|pair| pair.iter().sum::<f64>() / pair.len() as f64).collect();
    }
}

/// The series less its mean.
fn deviations(mut series: Vec<f64>) -> Vec<f64> {
    let Some(&first) = series.first() else { return series };
    // Around the first value, so that a small spread far from zero keeps its digits.
    let distance = series.iter().map(|value| value - first).sum::<f64>() / series.len() as f64;
    series.iter_mut().for_each(|value| *value = *value - first - distance);
    series
}

/// Sum of the products of the values that are `lag` apart, in lanes that need not wait for one
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

/// The integrated autocorrelation time τ, at least that of two alternating values; `None` where the
/// sum has not ended within the lags that are looked at.
fn correlation_time(series: &[f64]) -> Option<f64> {
    let squares = product(series, 0);
    if squares <= 0.0 {
        return Some(1.0);
    }
    let correlation =
        |lag: usize| if lag < series.len() { product(series, lag) / squares } else { 0.0 };
    let mut sum = 0.0_f64;
    let mut last = f64::INFINITY;
    for lag in (0..LAGS).step_by(2) {
        let pair = correlation(lag) + correlation(lag + 1);
        if pair <= 0.0 {
            // Each of the 2 lag − 1 terms, of both signs, is too small by the variance of the mean.
            let bias = (2 * lag.max(1) - 1) as f64 / series.len() as f64;
            return Some((2.0 * sum - 1.0).max(f64::MIN_POSITIVE) / (1.0 - bias).max(0.1));
        }
        last = pair.min(last);
        sum += last;
    }
    None
}
