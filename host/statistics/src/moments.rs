//! Mean and spread.

use crate::select::{Keyed, STRIDE, order_statistics};

/// A number that samples are made of: `u64` or `f64`.
pub trait Value: Keyed {
    /// Converts to the nearest floating-point number.
    fn to_f64(self) -> f64;
    /// Bounds, mean and squares.
    #[doc(hidden)]
    fn spread(values: &[Self]) -> Option<Spread<Self>>;
    /// Returns the median of the distances from the median.
    #[doc(hidden)]
    fn absolute_deviation(values: &[Self]) -> Option<f64>;
}

impl Value for u64 {
    fn to_f64(self) -> f64 {
        self as f64
    }

    fn spread(values: &[Self]) -> Option<Spread<Self>> {
        spread_of_integers(values)
    }

    fn absolute_deviation(values: &[Self]) -> Option<f64> {
        absolute_deviation_of_integers(values)
    }
}

impl Value for f64 {
    fn to_f64(self) -> f64 {
        self
    }

    fn spread(values: &[Self]) -> Option<Spread<Self>> {
        spread_of_floats(values)
    }

    fn absolute_deviation(values: &[Self]) -> Option<f64> {
        absolute_deviation_of_floats(values)
    }
}

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

/// Returns size, bounds, mean and spread of `values`; `None` if there are none. NaN is not allowed.
///
/// The deviation is computed around the mean in a second pass: the one-pass formula with the sum of
/// squares loses every digit if the spread is small compared with the mean, as it is for latencies.
/// Sums of integers are exact.
#[must_use]
pub fn moments<T: Value>(values: &[T]) -> Option<Moments<T>> {
    let spread = T::spread(values)?;
    let count = values.len();
    let deviation = (count > 1).then(|| (spread.squares / (count - 1) as f64).sqrt());
    let Spread { minimum, maximum, mean, .. } = spread;
    Some(Moments { count, minimum, maximum, mean, deviation })
}

/// Sums from which [`moments`] computes its result.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Spread<T> {
    minimum: T,
    maximum: T,
    mean: f64,
    /// Sum of the squared distances from the mean.
    squares: f64,
}

/// Bounds of the values, by comparison.
fn bounds<T: Value>(values: &[T]) -> Option<(T, T)> {
    let first = *values.first()?;
    let mut bounds = (first, first);
    let (strides, rest) = values.as_chunks::<STRIDE>();
    for stride in strides {
        for &value in stride {
            bounds.0 = if value < bounds.0 { value } else { bounds.0 };
            bounds.1 = if value > bounds.1 { value } else { bounds.1 };
        }
    }
    for &value in rest {
        bounds.0 = if value < bounds.0 { value } else { bounds.0 };
        bounds.1 = if value > bounds.1 { value } else { bounds.1 };
    }
    Some(bounds)
}

fn spread_of_floats(values: &[f64]) -> Option<Spread<f64>> {
    let (minimum, maximum) = bounds(values)?;
    // Distances from the smallest value are of the size of the spread, and so are their sums'
    // errors.
    let mean_distance = lane_sum(values, |value| value - minimum) / values.len() as f64;
    let squares = lane_sum(values, |value| {
        let deviation = value - minimum - mean_distance;
        deviation * deviation
    });
    Some(Spread { minimum, maximum, mean: minimum + mean_distance, squares })
}

/// Sums `term` of each value in lanes, so that additions need not wait for one another.
fn lane_sum<T: Copy>(values: &[T], term: impl Fn(T) -> f64) -> f64 {
    let (strides, rest) = values.as_chunks::<STRIDE>();
    let mut lanes = [0.0; STRIDE];
    for stride in strides {
        for (lane, &value) in lanes.iter_mut().zip(stride) {
            *lane += term(value);
        }
    }
    lanes.iter().sum::<f64>() + rest.iter().map(|&value| term(value)).sum::<f64>()
}

fn spread_of_integers(values: &[u64]) -> Option<Spread<u64>> {
    let (minimum, maximum) = bounds(values)?;
    let count = values.len() as u128;
    let total = total_distance(values, minimum, maximum);
    let mean = minimum as f64 + total as f64 / count as f64;

    // Squares are taken around the whole number next to the mean. What that adds, the count times
    // the square of what is left over, is at most a quarter for each value.
    let centre = minimum + ((total + count / 2) / count) as u64;
    let left_over = total as f64 - count as f64 * (centre - minimum) as f64;
    let squares = squares_around(values, centre, (centre - minimum).max(maximum - centre));
    let squares = (squares - left_over * left_over / count as f64).max(0.0);
    Some(Spread { minimum, maximum, mean, squares })
}

/// Returns the sum of the distances from the smallest value, exactly.
fn total_distance(values: &[u64], minimum: u64, maximum: u64) -> u128 {
    let block = fitting(maximum - minimum);
    values.chunks(block).map(|block| block_sum(block, |value| value - minimum)).sum()
}

/// Returns the sum of the squared distances from `centre`, exact unless they are so large that
/// hardly one fits into a word.
fn squares_around(values: &[u64], centre: u64, largest: u64) -> f64 {
    match largest.checked_mul(largest).map(fitting) {
        Some(block) if block >= 2 * STRIDE => {
            let square = |value: u64| {
                let distance = value.wrapping_sub(centre);
                distance.wrapping_mul(distance)
            };
            values.chunks(block).map(|block| block_sum(block, square)).sum::<u128>() as f64
        }
        _ => lane_sum(values, |value| {
            let distance = value.abs_diff(centre) as f64;
            distance * distance
        }),
    }
}

/// Returns how many values up to `largest` can be added in a word, within a good size for a loop.
fn fitting(largest: u64) -> usize {
    (u64::MAX / largest.max(1)).min(4096) as usize
}

fn block_sum(block: &[u64], term: impl Fn(u64) -> u64) -> u128 {
    let (strides, rest) = block.as_chunks::<STRIDE>();
    let mut sum = 0_u64;
    for stride in strides {
        for &value in stride {
            sum = sum.wrapping_add(term(value));
        }
    }
    for &value in rest {
        sum = sum.wrapping_add(term(value));
    }
    u128::from(sum)
}

/// Returns the median in the usual sense: the middle value, or the mean of the two middle ones.
/// `None` if there are no values. NaN is not allowed.
///
/// Differs from [`Quantile::P50`](crate::Quantile::P50), which is always one of the values, by half the gap
/// between the two middle ones. Deviations are computed around it.
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

/// Returns the median of the absolute distances from the median, unscaled; `None` if there are no
/// values. NaN is not allowed.
///
/// Multiply by 1.4826 to compare it with the standard deviation of a normal distribution.
#[must_use]
pub fn median_absolute_deviation<T: Value>(values: &[T]) -> Option<f64> {
    T::absolute_deviation(values)
}

fn absolute_deviation_of_floats<T: Value>(values: &[T]) -> Option<f64> {
    let centre = median(values)?;
    let distances: Vec<f64> = values.iter().map(|value| (value.to_f64() - centre).abs()).collect();
    median(&distances)
}

/// Selects in whole numbers, which is faster: twice the median is one. Larger values than floats hold
/// exactly are handed to [`absolute_deviation_of_floats`], so both ways give the same result.
fn absolute_deviation_of_integers(values: &[u64]) -> Option<f64> {
    let (_, maximum) = bounds(values)?;
    if maximum >= 1 << 52 {
        return absolute_deviation_of_floats(values);
    }
    let count = values.len();
    let middle = order_statistics(values, &[count.div_ceil(2), count / 2 + 1]);
    let twice = middle[0] + middle[1];
    let distances: Vec<u64> = values.iter().map(|value| (2 * value).abs_diff(twice)).collect();
    median(&distances).map(|twice| twice / 2.0)
}
