//! Mean and spread.

use crate::select::{Value, order_statistics};

/// Size, bounds, mean and spread of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments<T> {
    /// Values in the sample.
    pub count: usize,
    /// The smallest.
    pub minimum: T,
    /// The largest.
    pub maximum: T,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation, with *n* − 1 under the root; `None` for a single value.
    pub deviation: Option<f64>,
}

/// Independent sums, so that additions need not wait for one another. Fixed, and the same in the
/// host and in a guest, so that both round alike.
const LANES: usize = 8;

/// Size, bounds, mean and spread of `values`; `None` where there are none. NaN is not allowed.
///
/// The deviation is taken around the mean in a second pass: the one-pass formula with the sum of
/// squares loses every digit where the spread is small beside the mean, as it is for latencies.
#[must_use]
pub fn moments<T: Value>(values: &[T]) -> Option<Moments<T>> {
    let first = *values.first()?;
    let (minimum, maximum) = values.iter().fold((first, first), |(low, high), &value| {
        (if value < low { value } else { low }, if value > high { value } else { high })
    });
    // Sums of distances from the smallest value are exact for integers up to 2⁵³ in all, and close
    // to the size of what is summed elsewhere.
    let count = values.len() as f64;
    let mean_distance = lane_sum(values, |value| value.distance(minimum)) / count;
    let mean = minimum.to_f64() + mean_distance;
    let squares = lane_sum(values, |value| {
        let deviation = value.distance(minimum) - mean_distance;
        deviation * deviation
    });
    let deviation = (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt());
    Some(Moments { count: values.len(), minimum, maximum, mean, deviation })
}

fn lane_sum<T: Value>(values: &[T], term: impl Fn(T) -> f64) -> f64 {
    let (blocks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for block in blocks {
        for (lane, &value) in lanes.iter_mut().zip(block) {
            *lane += term(value);
        }
    }
    lanes.iter().sum::<f64>() + rest.iter().map(|&value| term(value)).sum::<f64>()
}

/// The median in the usual sense: the middle value, or the mean of the two middle ones. `None`
/// where there are no values. NaN is not allowed.
///
/// It differs from [`Quantile::P50`](crate::Quantile::P50), which is always one of the values, by
/// half the gap between the two middle ones, and is what deviations are taken around.
#[must_use]
pub fn median<T: Value>(values: &[T]) -> Option<f64> {
    let count = values.len();
    if count == 0 {
        return None;
    }
    let middle = order_statistics(values, &[count.div_ceil(2), count / 2 + 1]);
    let (low, high) = (middle[0].to_f64(), middle[1].to_f64());
    Some(low + (high - low) / 2.0)
}

/// Median of the absolute distances from the median, unscaled; `None` where there are no values.
/// NaN is not allowed.
///
/// Multiply by 1.4826 to compare it with the standard deviation of a normal distribution.
#[must_use]
pub fn median_absolute_deviation<T: Value>(values: &[T]) -> Option<f64> {
    let centre = median(values)?;
    let distances: Vec<f64> = values.iter().map(|value| (value.to_f64() - centre).abs()).collect();
    median(&distances)
}
