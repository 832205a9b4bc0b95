//! Comparison of two samples by their ratio, and of many pairs of samples at once.

use crate::distribution::{incomplete_beta, student_quantile};
use crate::moments::moments;
use crate::undefined::Undefined;

/// The ratio of two samples: geometric mean of the second by that of the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// The ratio; above 1 the second sample is larger.
    pub value: f64,
    /// Lower bound of its interval.
    pub low: f64,
    /// Upper bound of its interval.
    pub high: f64,
    /// Two-sided *p*: how often two samples with the same mean of logarithms would differ so much.
    pub probability: f64,
    /// Confidence of the interval.
    pub confidence: f64,
    /// Standard error of the ratio's logarithm.
    pub error: f64,
    /// Its degrees of freedom, by Welch and Satterthwaite.
    pub degrees: f64,
}

impl Ratio {
    /// Returns the smallest ratio above 1 that the same number of values with the same spread would have told from
    /// 1 in a part `power` of all runs, if it was the only change among this many `comparisons`: exp((*t*₁ + *t*₂) ·
    /// *error*), with *t*₁ for the level divided by their number, as a lone finding needs it, and *t*₂ for the power
    /// (H. S. Bloom, "Minimum Detectable Effects", *Evaluation Review* 19(5), 1995, on logarithms).
    ///
    /// # Panics
    ///
    /// If `power` is not strictly between 0 and 1.
    #[must_use]
    pub fn detectable(&self, power: f64, comparisons: usize) -> f64 {
        assert!(power > 0.0 && power < 1.0, "a power lies between 0 and 1");
        let level = (1.0 - self.confidence) / comparisons.max(1) as f64;
        let told = student_quantile(1.0 - level / 2.0, self.degrees);
        ((told + student_quantile(power, self.degrees)) * self.error).exp()
    }

    /// Returns the ratio of the same samples in the other order.
    #[must_use]
    pub fn mirrored(&self) -> Self {
        Self { value: 1.0 / self.value, low: 1.0 / self.high, high: 1.0 / self.low, ..*self }
    }
}

/// Compares two samples by the test of B. L. Welch ("The Generalization of 'Student's' Problem when Several
/// Different Population Variances are Involved", *Biometrika* 34, 1947) on the logarithms of their values, with the
/// degrees of freedom of F. E. Satterthwaite (*Biometrics Bulletin* 2(6), 1946). The variances may differ.
///
/// On logarithms, because times and rates differ by factors, and because exchanging the samples then only inverts the
/// ratio. Exact if logarithms are normal and variances equal or samples large, and close to it otherwise; assumes
/// independent values, such as one from each process.
///
/// # Errors
///
/// [`Undefined::TooFew`] with fewer than 2 values in a sample, [`Undefined::NotPositive`] if a value is not above
/// zero, [`Undefined::NoSpread`] if the values of both samples are all the same.
///
/// # Panics
///
/// If `confidence` is not strictly between 0 and 1.
pub fn ratio(first: &[f64], second: &[f64], confidence: f64) -> Result<Ratio, Undefined> {
    assert!(confidence > 0.0 && confidence < 1.0, "a confidence lies between 0 and 1");
    let [before, after] = [Logarithms::of(first)?, Logarithms::of(second)?];
    let variance = before.variance + after.variance;
    if variance == 0.0 {
        return Err(Undefined::NoSpread);
    }
    let part = |of: &Logarithms| of.variance * of.variance / (of.count - 1.0);
    let degrees = variance * variance / (part(&before) + part(&after));
    let error = variance.sqrt();
    let difference = after.mean - before.mean;
    let half = student_quantile(0.5 + confidence / 2.0, degrees) * error;
    Ok(Ratio {
        value: difference.exp(),
        low: (difference - half).exp(),
        high: (difference + half).exp(),
        probability: student_probability(difference / error, degrees),
        confidence,
        error,
        degrees,
    })
}

/// A sample's logarithms: mean, and the variance of the mean.
struct Logarithms {
    count: f64,
    mean: f64,
    variance: f64,
}

impl Logarithms {
    fn of(values: &[f64]) -> Result<Self, Undefined> {
        Undefined::unless_at_least(2, values.len())?;
        if values.iter().any(|value| value.is_nan() || *value <= 0.0 || value.is_infinite()) {
            return Err(Undefined::NotPositive);
        }
        // Logarithms of equal values have a mean that differs from them by a rounding error.
        let is_constant = values.iter().all(|value| *value == values[0]);
        let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let found = moments(&logarithms).expect("values");
        let deviation = found.deviation.expect("two or more values");
        let count = values.len() as f64;
        let variance = if is_constant { 0.0 } else { deviation * deviation / count };
        Ok(Self { count, mean: found.mean, variance })
    }
}

/// Returns the two-sided probability of Student's *t*: that it lies at least as far from zero as `deviate`.
#[must_use]
pub fn student_probability(deviate: f64, degrees: f64) -> f64 {
    let square = deviate * deviate;
    incomplete_beta(degrees / (degrees + square), degrees / 2.0, 0.5)
}

/// Returns the false-discovery rate of each test, in the order of `probabilities`: the smallest expected part of false
/// findings at which it would still be a finding (Y. Benjamini and Y. Hochberg, "Controlling the False Discovery
/// Rate", *Journal of the Royal Statistical Society B* 57(1), 1995). Holds for tests that are independent or depend
/// positively on one another (Y. Benjamini and D. Yekutieli, *Annals of Statistics* 29(4), 2001), as metrics of one
/// run do.
#[must_use]
pub fn false_discovery_rates(probabilities: &[f64]) -> Vec<f64> {
    let count = probabilities.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|one, other| probabilities[*other].total_cmp(&probabilities[*one]));
    let mut rates = vec![1.0; count];
    let mut least = 1.0_f64;
    for (passed, index) in order.into_iter().enumerate() {
        let rank = (count - passed) as f64;
        least = least.min(probabilities[index] * count as f64 / rank);
        rates[index] = least;
    }
    rates
}

/// Returns the interval that the next value of the same kind lies in with the given confidence: mean ± *t* · *s* ·
/// √(1 + 1 / *n*) (W. Q. Meeker, G. J. Hahn and L. A. Escobar, *Statistical Intervals*, 2017, § 4.7). The interval of
/// the mean says where the mean lies; this one, where another value will. Exact for normal values that are
/// independent, such as one from each process.
///
/// # Errors
///
/// [`Undefined::TooFew`] with fewer than 2 values, [`Undefined::NoSpread`] if all are the same,
/// [`Undefined::BelowZero`] if the interval would reach below zero though no value does.
///
/// # Panics
///
/// If `confidence` is not strictly between 0 and 1.
pub fn prediction_interval(values: &[f64], confidence: f64) -> Result<(f64, f64), Undefined> {
    assert!(confidence > 0.0 && confidence < 1.0, "a confidence lies between 0 and 1");
    Undefined::unless_at_least(2, values.len())?;
    let found = moments(values).expect("values");
    let deviation = found.deviation.expect("two or more values");
    if deviation == 0.0 {
        return Err(Undefined::NoSpread);
    }
    let count = values.len() as f64;
    let half = student_quantile(0.5 + confidence / 2.0, count - 1.0)
        * deviation
        * (1.0 + 1.0 / count).sqrt();
    if found.mean - half < 0.0 && values.iter().all(|value| *value >= 0.0) {
        return Err(Undefined::BelowZero);
    }
    Ok((found.mean - half, found.mean + half))
}

/// Returns the bound that the mean of all such values stays below with the given confidence: mean + *t* · *s* / √*n*,
/// one-sided, by Student's *t*. Exact for normal values that are independent.
///
/// # Errors
///
/// [`Undefined::TooFew`] with fewer than 2 values.
///
/// # Panics
///
/// If `confidence` is not strictly between 0 and 1.
pub fn mean_bound(values: &[f64], confidence: f64) -> Result<f64, Undefined> {
    above(values, confidence, 0.0)
}

/// Returns the mean and *t* · *s* · √(`own` + 1 / *n*) more.
fn above(values: &[f64], confidence: f64, own: f64) -> Result<f64, Undefined> {
    assert!(confidence > 0.0 && confidence < 1.0, "a confidence lies between 0 and 1");
    Undefined::unless_at_least(2, values.len())?;
    let found = moments(values).expect("values");
    let deviation = found.deviation.expect("two or more values");
    let count = values.len() as f64;
    let deviate = student_quantile(confidence, count - 1.0);
    Ok(found.mean + deviate * deviation * (own + 1.0 / count).sqrt())
}

/// Returns the bound that the next value of the same kind stays below with the given confidence: mean + *t* · *s* ·
/// √(1 + 1 / *n*), one-sided, as in [`prediction_interval`].
///
/// # Errors
///
/// [`Undefined::TooFew`] with fewer than 2 values.
///
/// # Panics
///
/// If `confidence` is not strictly between 0 and 1.
pub fn prediction_bound(values: &[f64], confidence: f64) -> Result<f64, Undefined> {
    above(values, confidence, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} instead of {expected}");
    }

    /// SciPy's values: `ttest_ind(log(second), log(first), equal_var=False)` and its `confidence_interval`.
    #[test]
    fn a_ratio_is_scipys() {
        let found = ratio(&[1.0, 1.1, 1.2], &[2.0, 2.6, 2.1, 2.4], 0.95).expect("values");
        close(found.value, RATIO[0]);
        close(found.low, RATIO[1]);
        close(found.high, RATIO[2]);
        close(found.probability, RATIO[3]);
        close(found.degrees, RATIO[4]);
        let mirrored = ratio(&[2.0, 2.6, 2.1, 2.4], &[1.0, 1.1, 1.2], 0.95).expect("values");
        close(mirrored.value, found.mirrored().value);
        close(mirrored.low, found.mirrored().low);
        close(mirrored.high, found.mirrored().high);
        assert_eq!(mirrored.probability, found.probability);
        assert_eq!(mirrored.detectable(0.8, 1), found.detectable(0.8, 1));
    }

    const RATIO: [f64; 5] = [
        2.062_610_193_019_831_5,
        1.678_652_566_973_687_4,
        2.534_390_315_215_234_5,
        0.000_282_261_578_534_001_86,
        4.977_558_259_534_455,
    ];

    #[test]
    fn values_that_have_no_ratio_are_refused() {
        let refusal = |first: &[f64], second: &[f64]| ratio(first, second, 0.95).unwrap_err();
        assert_eq!(refusal(&[1.0, 1.0], &[2.0, 2.0]), Undefined::NoSpread);
        assert_eq!(refusal(&[1.0, 0.0], &[2.0, 2.0]), Undefined::NotPositive);
        assert!(matches!(refusal(&[1.0], &[2.0, 3.0]), Undefined::TooFew(_)));
        // One of them may be constant.
        assert_eq!(ratio(&[3.0, 3.0], &[1.0, 2.0], 0.95).map(|found| found.degrees), Ok(1.0));
    }

    /// The example of the paper, table 1 and § 4: 15 tests, of which 4 are findings at 5 %.
    #[test]
    fn false_discovery_rates_are_those_of_the_paper() {
        let probabilities = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        let rates = false_discovery_rates(&probabilities);
        assert_eq!(rates.iter().filter(|rate| **rate <= 0.05).count(), 4);
        close(rates[3], 0.0095 * 15.0 / 4.0);
        close(rates[14], 1.0);
        assert!(rates.is_sorted());
        let mut reversed: Vec<f64> = probabilities.into_iter().rev().collect();
        let mirrored: Vec<f64> = rates.into_iter().rev().collect();
        assert_eq!(false_discovery_rates(&reversed), mirrored);
        reversed.clear();
        assert!(false_discovery_rates(&reversed).is_empty());
    }

    #[test]
    fn the_next_value_varies_more_than_the_mean() {
        // t(0.975; 4) = 2.7764451052, s = 1.5811388301.
        let (low, high) = prediction_interval(&[8.0, 9.0, 10.0, 11.0, 12.0], 0.95).expect("values");
        close(high - 10.0, 2.776_445_105_2 * 1.581_138_830_084_19 * 1.2_f64.sqrt());
        close(10.0 - low, high - 10.0);
        // The bound of 97.5 % is the upper bound of the interval of 95 %.
        let bound = prediction_bound(&[8.0, 9.0, 10.0, 11.0, 12.0], 0.975).expect("values");
        close(bound, high);
        // And that of the mean, the textbook's.
        let bound = mean_bound(&[8.0, 9.0, 10.0, 11.0, 12.0], 0.975).expect("values");
        close(bound - 10.0, 2.776_445_105_2 * 1.581_138_830_084_19 / 5_f64.sqrt());
        assert_eq!(prediction_interval(&[1.0, 10.0], 0.95), Err(Undefined::BelowZero));
        assert_eq!(prediction_interval(&[1.0, 1.0], 0.95), Err(Undefined::NoSpread));
    }
}
