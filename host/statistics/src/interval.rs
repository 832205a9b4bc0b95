//! Intervals for correlated values.

use crate::autocorrelation::{Memory, SHORT};
use crate::distribution::{normal_quantile, student_quantile};
use crate::moments::{Value, moments};
use crate::quantile::{Estimate, Quantile, TooFew};
use crate::ranks::normal_scores;
use crate::select::order_statistics;

/// An interval, with the estimate that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The estimate from the sample itself.
    pub value: f64,
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

/// Returns the mean of a series, in the order of measurement, with its two-sided interval at `confidence`:
/// mean ± *t* · *s* / √*m*, where *m* is the effective size of the series and *t* the quantile of Student's
/// distribution.
///
/// For independent values *m* is their number *n*, *t* has *n* − 1 degrees of freedom, and this is the
/// textbook's interval. For correlated ones *m* is the smaller of [`effective_size`](crate::effective_size)
/// and the size of a first-order autoregression with the same correlation of neighbours, whose bias in short
/// series is known. *t* has fewer degrees of freedom the more autocorrelations were summed for *m*. Neither
/// matters for long series.
///
/// A series of 100 to 2,048 values can hide a slow drift beneath its noise. So its autocorrelations are
/// also summed over a window of fixed width, and the interval is no narrower than the slowest part of the
/// series makes it: mean ± *t* · √(Ω / *n*), where Ω is the mean square of the *b* lowest terms of its cosine
/// transform, at least 6 and one for each 32 values, and *t* has *b* degrees of freedom (E. Lazarus, D. J.
/// Lewis, J. H. Stock and M. W. Watson, "HAR Inference: Recommendations for Practice", *Journal of Business &
/// Economic Statistics* 36(4), 2018). This widens the interval of 200 independent values by a seventh.
///
/// The mean of a skewed distribution is approximately normal only for many values: the interval of the mean
/// of a few lognormal latencies misses more often than stated.
///
/// # Errors
///
/// Refused as too few if the effective size is below two.
///
/// # Panics
///
/// If `confidence` is not strictly between 0 and 1.
pub fn mean_interval<T: Value>(values: &[T], confidence: f64) -> Result<Interval, TooFew> {
    assert!(confidence > 0.0 && confidence < 1.0, "a confidence lies between 0 and 1");
    let memory = Memory::beneath_noise(values);
    let size = memory.least_size();
    let too_few = TooFew { needs: 2, has: size as usize };
    let (Some(found), true) = (moments(values), size >= 2.0) else { return Err(too_few) };
    let deviation = found.deviation.ok_or(too_few)?;
    let freedom = (size - 1.0).min(memory.freedom());
    let half = student(0.5 + confidence / 2.0, freedom) * deviation / size.sqrt();
    let half = half.max(slowest(values, found.mean, confidence));
    Ok(Interval { value: found.mean, low: found.mean - half, high: found.mean + half })
}

/// Returns half the width of the mean's interval by the slowest part of a [`SHORT`] series; 0 for
/// others.
fn slowest<T: Value>(values: &[T], mean: f64, confidence: f64) -> f64 {
    if !SHORT.contains(&values.len()) {
        return 0.0;
    }
    let count = values.len() as f64;
    let terms = (values.len() / 32).max(6);
    let term = |number: usize| {
        let step = std::f64::consts::PI * number as f64 / count;
        let waves = (0..values.len()).map(|index| (step * (index as f64 + 0.5)).cos());
        waves.zip(values).map(|(wave, value)| wave * (value.to_f64() - mean)).sum::<f64>()
    };
    let squares: f64 = (1..=terms).map(|number| 2.0 / count * term(number).powi(2)).sum();
    student(0.5 + confidence / 2.0, terms as f64) * (squares / terms as f64 / count).sqrt()
}

impl Quantile {
    /// Like [`Self::interval_ranks`], for `count` values with an effective size of `effective`,
    /// which is at most `count`; `None` if `effective` is below [`Self::minimum_count`].
    ///
    /// The fraction of a correlated series that lies below the true quantile varies as that of
    /// ⌊`effective`⌋ independent values does (P. Heidelberger and P. A. W. Lewis, "Quantile
    /// Estimation in Dependent Sequences", *Operations Research* 32(1), 1984; P. K. Sen, *Journal of
    /// Multivariate Analysis* 2(1), 1972). So ranks are computed for that many, and stretched to
    /// `count`, outwards if they fall between two values.
    ///
    /// # Panics
    ///
    /// If `confidence` is not strictly between 0 and 1.
    #[must_use]
    pub fn effective_interval_ranks(
        self,
        count: usize,
        effective: f64,
        confidence: f64,
    ) -> Option<(usize, usize)> {
        let size = (effective as usize).min(count);
        let (low, high) = self.interval_ranks(size, confidence)?;
        let (count, size) = (count as u128, size as u128);
        // "Fewer than l of m" is "at most l − 1 of m", which is a fraction.
        let low = (low as u128 - 1) * count / size + 1;
        let high = (high as u128 * count).div_ceil(size);
        Some((low as usize, high as usize))
    }
}

/// Like [`estimates`](crate::estimates), for a series in the order of measurement, whose values may be
/// correlated: each interval is widened to the effective size.
///
/// For a quantile, only the correlation of "above it or not" matters, not that of the values. So the
/// [`effective_size`](crate::effective_size) is that of this series, after Heidelberger and Lewis
/// ([`Quantile::effective_interval_ranks`]). Stalls that come in bursts widen the interval of p99 and
/// leave the median's alone.
///
/// In a short series few values lie above a high quantile. If those few happen to look independent, the
/// interval would be stated exactly when it misses. Corrections:
///
/// - Up to 65,536 values, the size is at most that of a series that is Gaussian up to a monotone
///   transformation, with the autocorrelations of its normal scores. Longer series need no such model.
/// - For 100 to 2,048 values the autocorrelations of the normal scores are also summed over a window of
///   fixed width, as for [`mean_interval`]. That widens an interval and never refuses one.
/// - If such a series is correlated beyond the next value, and shorter than 50 times its correlation time,
///   an interval beyond the quartiles is refused if the size may be too small: that of an autoregression
///   with a coefficient two standard errors above the estimate.
/// - The size is divided by the square of how much wider Student's *t* is than the normal distribution,
///   with fewer degrees of freedom the more autocorrelations were summed.
///
/// # Panics
///
/// If `confidence` is not strictly between 0 and 1.
pub fn correlated_estimates<T: Value>(
    values: &[T],
    quantiles: &[Quantile],
    confidence: f64,
) -> Vec<Result<Estimate<T>, TooFew>> {
    let sized = sized_estimates(values, quantiles, confidence);
    let with_interval = |(found, quantile): (Result<SizedEstimate<T>, TooFew>, &Quantile)| {
        let SizedEstimate { value, interval, effective_size } = found?;
        let (low, high) = interval.ok_or_else(|| TooFew {
            needs: quantile.minimum_count(confidence),
            has: effective_size as usize,
        })?;
        Ok(Estimate { value, low, high })
    };
    sized.into_iter().zip(quantiles).map(with_interval).collect()
}

/// A quantile of a sample that may be correlated, and its effective size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizedEstimate<T> {
    /// The nearest rank's value.
    pub value: T,
    /// Bounds of the interval; `None` if the effective size is too small.
    pub interval: Option<(T, T)>,
    /// Effective size of the series of "above the quantile or not" for the interval.
    pub effective_size: f64,
}

/// Like [`correlated_estimates`], each with its effective size. A quantile is refused if there are
/// too few values; the effective size only decides about the interval.
///
/// # Panics
///
/// If `confidence` is not strictly between 0 and 1.
pub fn sized_estimates<T: Value>(
    values: &[T],
    quantiles: &[Quantile],
    confidence: f64,
) -> Vec<Result<SizedEstimate<T>, TooFew>> {
    /// Longer series are not sorted: the cost would exceed the benefit.
    const MOST_RANKED: usize = 1 << 16;

    let count = values.len();
    let enough = |quantile: &Quantile| count >= quantile.minimum_count(confidence);
    let ranks: Vec<_> = quantiles
        .iter()
        .filter(|quantile| enough(quantile))
        .map(|quantile| quantile.rank(count))
        .collect();
    let scores = (count <= MOST_RANKED && !ranks.is_empty()).then(|| {
        let scores = normal_scores(values);
        (Memory::of(&scores), Memory::beneath_noise(&scores))
    });
    let normal = normal_quantile(0.5 + confidence / 2.0);
    let mut found = order_statistics(values, &ranks).into_iter();
    let places: Vec<_> = quantiles
        .iter()
        .map(|quantile| {
            if !enough(quantile) {
                return Err(TooFew { needs: quantile.minimum_count(confidence), has: count });
            }
            let value = found.next().expect("one for each rank");
            let above = Memory::of_above(values, value);
            let probability = quantile.probability();
            let student = student(0.5 + confidence / 2.0, above.freedom());
            let of_scores = |scores: &Memory| {
                let size = above.size.min(scores.size_above(probability));
                (size * (normal / student).powi(2)).max(1.0)
            };
            let size = match &scores {
                None => above.size * (normal / student).powi(2),
                Some((scores, beneath_noise)) => {
                    let least = quantile.minimum_count(confidence) as f64;
                    let size = of_scores(scores);
                    let wider = of_scores(beneath_noise).max(least).min(size);
                    let is_far = probability.min(1.0 - probability) < 0.25;
                    let doubtful = scores.doubtful_size_above(probability);
                    if is_far && doubtful < least { wider.min(doubtful) } else { wider }
                }
            };
            let size = size.max(1.0);
            Ok((value, size, quantile.effective_interval_ranks(count, size, confidence)))
        })
        .collect();
    // All bounds at once, since reading the values is what costs.
    let ranks: Vec<_> = places
        .iter()
        .flatten()
        .filter_map(|(_, _, ranks)| *ranks)
        .flat_map(|(low, high)| [low, high])
        .collect();
    let mut bounds = order_statistics(values, &ranks).into_iter();
    let mut bound = || bounds.next().expect("one for each rank");
    places
        .into_iter()
        .map(|place| {
            place.map(|(value, effective_size, ranks)| SizedEstimate {
                value,
                interval: ranks.map(|_| (bound(), bound())),
                effective_size,
            })
        })
        .collect()
}

/// Returns the quantile of Student's distribution, or the normal one for infinite degrees of
/// freedom.
fn student(probability: f64, freedom: f64) -> f64 {
    if freedom.is_finite() {
        student_quantile(probability, freedom)
    } else {
        normal_quantile(probability)
    }
}
