/*!
Intervals of statistics that have no formula, by resampling.

The cost is that of the statistic times the resamples: for a median or a p99 of many values
[`estimates`](crate::estimates) is exact and a thousand times cheaper.
*/

use crate::distribution::{normal_quantile, normal_tail, student_quantile};
use crate::interval::Interval;
use crate::moments::{Value, moments};
use crate::random::Random;
use crate::select::order_statistics;
use crate::undefined::Undefined;

/// Parameters of resampling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resampling {
    /// Number of resamples, at least 2 / (1 − `confidence`), or the interval's ends would be
    /// the extremes of the resamples; 2000 and more are usual.
    pub resamples: usize,
    /// Confidence of the two-sided interval, strictly between 0 and 1.
    pub confidence: f64,
    /// Seed of the generator. The same seed draws the same resamples.
    pub seed: u64,
}

impl Resampling {
    fn check(&self) {
        let Self { resamples, confidence, .. } = *self;
        assert!(confidence > 0.0 && confidence < 1.0, "a confidence lies between 0 and 1");
        assert!(
            resamples as f64 * (1.0 - confidence) >= 2.0 * (1.0 - 1e-9),
            "{resamples} resamples have no tails to read at {confidence}"
        );
    }
}

/// Returns the statistic of each resample: as many values as the sample has, drawn with
/// replacement.
fn distribution<T: Value>(
    values: &[T],
    statistic: impl Fn(&[T]) -> f64,
    resampling: &Resampling,
) -> Vec<f64> {
    let mut random = Random::from_seed(resampling.seed);
    let mut resample = values.to_vec();
    (0..resampling.resamples)
        .map(|_| {
            for value in &mut resample {
                *value = values[random.below(values.len() as u64) as usize];
            }
            statistic(&resample)
        })
        .collect()
}

/// Returns the nearest ranks of two probabilities in a drawn distribution.
fn percentiles(distribution: &[f64], probabilities: [f64; 2]) -> [f64; 2] {
    let count = distribution.len();
    let ranks = probabilities.map(|one| ((one * count as f64).ceil() as usize).clamp(1, count));
    let found = order_statistics(distribution, &ranks);
    [found[0], found[1]]
}

/// Returns the percentile interval: the middle of the resamples' statistics (B. Efron and R. J.
/// Tibshirani, *An Introduction to the Bootstrap*, 1993, ch. 13). Simple, and too narrow for small
/// samples and biased statistics; [`bca_interval`] corrects the latter.
///
/// Assumes independent values. `statistic` must not return NaN.
///
/// # Errors
///
/// [`Undefined::TooFew`] with fewer than 2 values, [`Undefined::NoSpread`] if all resamples give the
/// same value, which would claim certainty.
///
/// # Panics
///
/// If the resamples are too few for the confidence: see [`Resampling::resamples`].
pub fn percentile_interval<T: Value>(
    values: &[T],
    statistic: impl Fn(&[T]) -> f64,
    resampling: &Resampling,
) -> Result<Interval, Undefined> {
    resampling.check();
    Undefined::unless_at_least(2, values.len())?;
    let value = statistic(values);
    middle(value, &distribution(values, statistic, resampling), resampling.confidence)
}

fn middle(value: f64, distribution: &[f64], confidence: f64) -> Result<Interval, Undefined> {
    let tail = (1.0 - confidence) / 2.0;
    let [low, high] = percentiles(distribution, [tail, 1.0 - tail]);
    refuse_constant(distribution)?;
    Ok(Interval { value, low, high })
}

fn refuse_constant(distribution: &[f64]) -> Result<(), Undefined> {
    let constant = distribution.iter().all(|&one| one == distribution[0]);
    if constant { Err(Undefined::NoSpread) } else { Ok(()) }
}

/// Result of [`bca_interval`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BcaInterval {
    /// The interval.
    pub interval: Interval,
    /// Bias correction *z*₀: the normal deviate of the fraction of resamples below the estimate.
    pub bias: f64,
    /// Acceleration *a*: how the standard error changes with the statistic, by the jackknife.
    pub acceleration: f64,
}

/// Returns the bias-corrected and accelerated interval (B. Efron, "Better Bootstrap Confidence
/// Intervals", *Journal of the American Statistical Association* 82(397), 1987). Its bounds suit
/// skewed and biased statistics.
///
/// The acceleration leaves each value out in turn, so the statistic is computed once for each
/// resample and once for each value. Resamples equal to the estimate count half below it, as in
/// SciPy. Assumes independent values. `statistic` must not return NaN.
///
/// # Errors
///
/// [`Undefined::TooFew`] with fewer than 2 values; [`Undefined::NoSpread`] if all resamples, or all
/// samples minus one value, give the same value; [`Undefined::OutsideResamples`] if all resamples
/// lie to one side of the estimate.
///
/// # Panics
///
/// If the resamples are too few for the confidence: see [`Resampling::resamples`].
pub fn bca_interval<T: Value>(
    values: &[T],
    statistic: impl Fn(&[T]) -> f64,
    resampling: &Resampling,
) -> Result<BcaInterval, Undefined> {
    resampling.check();
    Undefined::unless_at_least(2, values.len())?;
    let value = statistic(values);
    let acceleration = acceleration(values, &statistic)?;
    let distribution = distribution(values, statistic, resampling);
    refuse_constant(&distribution)?;

    let below = distribution.iter().filter(|&&one| one < value).count();
    let equal = distribution.iter().filter(|&&one| one == value).count();
    let fraction = (below as f64 + equal as f64 / 2.0) / distribution.len() as f64;
    let bias = normal_quantile(fraction);
    if bias.is_infinite() {
        return Err(Undefined::OutsideResamples);
    }
    let tail = (1.0 - resampling.confidence) / 2.0;
    let corrected = [tail, 1.0 - tail].map(|probability| {
        let deviate = bias + normal_quantile(probability);
        normal_tail(-(bias + deviate / (1.0 - acceleration * deviate)))
    });
    let [low, high] = percentiles(&distribution, corrected);
    Ok(BcaInterval { interval: Interval { value, low, high }, bias, acceleration })
}

/// Returns Σ dᵢ³ / 6 (Σ dᵢ²)^1.5, where dᵢ is how far the statistic without value *i* lies below the
/// mean of all such statistics.
fn acceleration<T: Value>(values: &[T], statistic: impl Fn(&[T]) -> f64) -> Result<f64, Undefined> {
    let mut others = values[1..].to_vec();
    let mut without = Vec::with_capacity(values.len());
    for index in 0..values.len() {
        without.push(statistic(&others));
        if index < others.len() {
            others[index] = values[index];
        }
    }
    refuse_constant(&without)?;
    let mean = moments(&without).expect("values").mean;
    let (mut squares, mut cubes) = (0.0, 0.0);
    for one in without {
        let distance = mean - one;
        squares += distance * distance;
        cubes += distance * distance * distance;
    }
    Ok(cubes / (6.0 * squares.powf(1.5)))
}

/// Returns the interval of the mean over processes of a statistic within each, by resampling
/// processes with replacement, and then values within each process drawn with replacement (A. C.
/// Davison and D. V. Hinkley, *Bootstrap Methods and their Application*, 1997, § 3.8; T. Kalibera
/// and R. Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013).
///
/// `processes` holds the values of each process; `statistic` must not return NaN.
///
/// The number of processes matters, not the number of values: resampling *k* processes gives a
/// variance that is (*k* − 1) / *k* of the right one, and normal tails instead of those of
/// Student's *t*. [`processes_interval`] takes this into account, covers as well with many processes, and costs a thousandth.
///
/// # Errors
///
/// [`Undefined::TooFew`] with fewer than 2 processes or if a process has no values,
/// [`Undefined::NoSpread`] if all resamples give the same value.
///
/// # Panics
///
/// If the resamples are too few for the confidence: see [`Resampling::resamples`].
pub fn hierarchical_interval<T: Value>(
    processes: &[&[T]],
    statistic: impl Fn(&[T]) -> f64,
    resampling: &Resampling,
) -> Result<Interval, Undefined> {
    resampling.check();
    let count = processes.len();
    let value = mean(&process_statistics(processes, &statistic)?);
    let mut random = Random::from_seed(resampling.seed);
    let mut resample = Vec::new();
    let distribution: Vec<f64> = (0..resampling.resamples)
        .map(|_| {
            let drawn = (0..count).map(|_| {
                let process = processes[random.below(count as u64) as usize];
                let values = (0..process.len())
                    .map(|_| process[random.below(process.len() as u64) as usize]);
                resample.clear();
                resample.extend(values);
                statistic(&resample)
            });
            drawn.sum::<f64>() / count as f64
        })
        .collect();
    middle(value, &distribution, resampling.confidence)
}

/// Returns the statistic of each process.
fn process_statistics<T: Value>(
    processes: &[&[T]],
    statistic: impl Fn(&[T]) -> f64,
) -> Result<Vec<f64>, Undefined> {
    Undefined::unless_at_least(2, processes.len())?;
    for process in processes {
        Undefined::unless_at_least(1, process.len())?;
    }
    Ok(processes.iter().map(|process| statistic(process)).collect())
}

fn mean(values: &[f64]) -> f64 {
    moments(values).expect("values").mean
}

/// Returns the interval of the mean over processes of a statistic within each, by Student's *t* on
/// the statistics of at least 2 processes (Kalibera and Jones 2013).
///
/// Exact if the statistics of processes are normal. Means and medians of many values nearly are, if
/// processes differ by many small causes. Values within a process may be correlated: only its
/// statistic is used.
///
/// # Errors
///
/// As [`hierarchical_interval`].
///
/// # Panics
///
/// If `confidence` is not strictly between 0 and 1.
pub fn student_interval<T: Value>(
    processes: &[&[T]],
    statistic: impl Fn(&[T]) -> f64,
    confidence: f64,
) -> Result<Interval, Undefined> {
    assert!(confidence > 0.0 && confidence < 1.0, "a confidence lies between 0 and 1");
    let statistics = process_statistics(processes, statistic)?;
    refuse_constant(&statistics)?;
    let found = moments(&statistics).expect("values");
    let count = statistics.len() as f64;
    let error = found.deviation.expect("two or more values") / count.sqrt();
    let half = student_quantile(0.5 + confidence / 2.0, count - 1.0) * error;
    Ok(Interval { value: found.mean, low: found.mean - half, high: found.mean + half })
}

/// Returns the smallest number of processes at which not knowing their spread widens an interval by less than half:
/// the smallest *n* at which Student's quantile for *n* − 1 degrees of freedom is at most 1.5 times the normal one. 5 at
/// 95 %, 7 at 99 %.
///
/// With fewer, an interval rests less on the data than on the assumption that processes are normally distributed, the
/// more so the higher the confidence: with two processes it is 6.5 times as wide as with a known spread at 95 %, and 25
/// times at 99 %.
///
/// # Panics
///
/// If `confidence` is not strictly between 0 and 1.
#[must_use]
pub fn processes_needed(confidence: f64) -> usize {
    const WIDENED: f64 = 1.5;
    assert!(confidence > 0.0 && confidence < 1.0, "a confidence lies between 0 and 1");
    let probability = 0.5 + confidence / 2.0;
    let known = normal_quantile(probability);
    let is_enough =
        |count: &usize| student_quantile(probability, (count - 1) as f64) <= WIDENED * known;
    (2..).find(is_enough).unwrap_or(usize::MAX)
}

/// Returns the interval of the mean over processes of a statistic within each: [`student_interval`]. The interval of a
/// quantity that cannot be negative, such as a time, never reaches below zero: a statistic that is zero or more in every
/// process is taken to be such a quantity.
///
/// # Errors
///
/// As [`student_interval`], and [`Undefined::BelowZero`] if the processes differ so much that the interval would reach below
/// zero though none of them does.
///
/// # Panics
///
/// As [`student_interval`].
pub fn processes_interval<T: Value>(
    processes: &[&[T]],
    statistic: impl Fn(&[T]) -> f64,
    confidence: f64,
) -> Result<Interval, Undefined> {
    let interval = student_interval(processes, &statistic, confidence)?;
    if interval.low < 0.0 && processes.iter().all(|process| statistic(process) >= 0.0) {
        return Err(Undefined::BelowZero);
    }
    Ok(interval)
}
