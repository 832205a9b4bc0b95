//! Intervals that may be looked at after each value.
//!
//! Student's interval covers the mean with its confidence if the number of values is chosen beforehand. Whoever looks
//! after each value and stops at the first interval that excludes a mean finds a difference sooner or later, whether
//! there is one or not. A *confidence sequence* covers the mean at all looks together.

use crate::distribution::normal_quantile;
use crate::moments::moments;
use crate::undefined::Undefined;

/// Variance of the effects that the sequence is tuned to, in multiples of the values' variance: it is narrowest for means
/// that are some four deviations away, which ten values show. Its confidence does not depend on this.
const EFFECT: f64 = 16.0;

/// The interval of a mean that holds at every look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AlwaysValid {
    /// The mean of the values.
    pub mean: f64,
    /// Standard deviation of the values.
    pub deviation: f64,
    /// Bounds of the interval; `None` while the values are too few for any.
    pub interval: Option<(f64, f64)>,
}

/// Returns the interval of the middle of values of which more may follow: of all intervals that are looked at, after
/// however many values and for whatever reason one stops, all contain it with this confidence.
///
/// It contains two intervals, so it holds if either of them does:
///
/// - That of the mean, if the values are normal. It is the set of means that a sequential *t* test has not rejected. The
///   test's statistic is the ratio of the values' likelihoods under a mean that is normally distributed around the tested
///   one, relative to the deviation, and under the tested one, both over the right Haar measure of the deviation. Under the
///   tested mean this is a martingale that begins at 1, so by Ville's inequality it ever reaches 1/α with a probability of
///   at most α (T. L. Lai, "On Confidence Sequences", *Annals of Statistics* 4(2), 1976; A. Hendriksen, R. de Heide and
///   P. Grünwald, "Optional Stopping with Bayes Factors", *Bayesian Analysis* 16(3), 2021; H. Wang and A. Ramdas,
///   "Anytime-Valid t-Tests and Confidence Sequences for Gaussian Means with Unknown Variance", *Sequential Analysis*
///   44(1), 2025).
/// - That of the median, whatever the distribution: the set of medians that a sequential sign test has not rejected. Its
///   statistic is the same ratio for the number of values above the median, with Jeffreys' prior (R. Krichevsky and
///   V. Trofimov, *IEEE Transactions on Information Theory* 27(2), 1981). The logarithm of the ratio of two equal sides is
///   symmetric around zero, so they are told apart in at most a part α of all comparisons, also if processes are of two
///   kinds.
///
/// The values are independent, such as one from each process.
///
/// # Errors
///
/// [`Undefined::TooFew`] with fewer than 2 values.
///
/// # Panics
///
/// If `confidence` is not strictly between 0 and 1.
pub fn always_valid_interval(values: &[f64], confidence: f64) -> Result<AlwaysValid, Undefined> {
    Undefined::unless_at_least(2, values.len())?;
    let found = moments(values).expect("values");
    let deviation = found.deviation.expect("two or more values");
    let half = half_width(values.len(), confidence).map(|half| half * deviation);
    let interval = half.zip(rank(values.len(), confidence)).map(|(half, rank)| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (sorted[rank - 1], sorted[values.len() - rank]);
        (low.min(found.mean - half), high.max(found.mean + half))
    });
    Ok(AlwaysValid { mean: found.mean, deviation, interval })
}

/// Returns the number of values from which half of the width of [`always_valid_interval`] is at most this, if they are
/// normal with the given deviation. `None` if it is more than ten thousand.
///
/// # Panics
///
/// If `confidence` is not strictly between 0 and 1, or `half_width` is not above zero.
#[must_use]
pub fn always_valid_count(deviation: f64, half_width: f64, confidence: f64) -> Option<usize> {
    const MOST: usize = 10_000;
    assert!(half_width > 0.0, "a width is above zero");
    let is_enough = |count: usize| {
        let of_mean = self::half_width(count, confidence);
        let of_median =
            rank(count, confidence).map(|rank| -normal_quantile(rank as f64 / count as f64));
        of_mean.zip(of_median).is_some_and(|(one, other)| one.max(other) * deviation <= half_width)
    };
    if !is_enough(MOST) {
        return None;
    }
    // The width falls with the number, apart from the steps of a rank.
    let (mut few, mut enough) = (1, MOST);
    while enough - few > 1 {
        let middle = few.midpoint(enough);
        *(if is_enough(middle) { &mut enough } else { &mut few }) = middle;
    }
    Some(enough)
}

/// Returns half of the width of the mean's interval, in deviations; `None` with too few values.
fn half_width(count: usize, confidence: f64) -> Option<f64> {
    assert!(confidence > 0.0 && confidence < 1.0, "a confidence lies between 0 and 1");
    let count = count as f64;
    let spread = 1.0 + count * EFFECT;
    // With x = t² / (n − 1) the ratio of likelihoods is ((1 + x) / (1 + x / spread))^(n / 2) / √spread.
    let factor = (spread / (1.0 - confidence).powi(2)).powf(1.0 / count);
    let rest = 1.0 - factor / spread;
    (count >= 2.0 && rest > 0.0).then(|| ((count - 1.0) * (factor - 1.0) / rest / count).sqrt())
}

/// Returns the rank, from 1, of the value that the median's interval begins at; `None` if even a median that all values
/// lie above is not rejected yet.
fn rank(count: usize, confidence: f64) -> Option<usize> {
    let all = count as f64;
    // The logarithm of the ratio if no value lies above, and its change with one more that does.
    let mut ratio: f64 = (1..=count).map(|one| (2.0 - 1.0 / one as f64).ln()).sum();
    let limit = -(1.0 - confidence).ln();
    let mut above = 0;
    while ratio >= limit {
        let number = above as f64;
        ratio += ((number + 0.5) / (all - number - 0.5)).ln();
        above += 1;
    }
    (above > 0).then_some(above)
}

/// Returns the mean of the middle half of the values: a quarter is left out at either end, so that values that
/// something else disturbed do not count, if they are fewer than a quarter. The values at the edges count with the
/// part that lies within. `None` without values; NaN is a caller's mistake.
#[must_use]
pub fn interquartile_mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let (first, last) = (count / 4.0, 0.75 * count);
    let weight = |index: usize| {
        let index = index as f64;
        ((index + 1.0).min(last) - index.max(first)).max(0.0)
    };
    let sum: f64 = sorted.iter().enumerate().map(|(index, value)| weight(index) * value).sum();
    Some(sum / (last - first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use crate::distribution::{normal_quantile, student_quantile};

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{found} {expected}");
    }

    /// At the edge of the mean's interval the ratio of likelihoods is 1/α: computed here from its definition.
    #[test]
    fn the_means_interval_ends_where_the_test_rejects() {
        let values = [0.3, 1.2, 0.7, 1.1, 0.2, 0.9, 1.6];
        let count = values.len() as f64;
        let found = moments(&values).expect("values");
        for confidence in [0.9, 0.95, 0.995] {
            let half =
                half_width(7, confidence).expect("enough") * found.deviation.expect("spread");
            for mean in [found.mean - half, found.mean + half] {
                let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
                let sum: f64 = values.iter().map(|value| value - mean).sum();
                let spread = 1.0 + count * EFFECT;
                // The determinant of I + g·11ᵀ, and the quadratic form of its inverse.
                let other = squares - EFFECT / spread * sum * sum;
                let ratio = spread.powf(-0.5) * (squares / other).powf(count / 2.0);
                close(ratio, 1.0 / (1.0 - confidence));
            }
        }
    }

    /// Jeffreys' mixture of 11 equal signs: 2¹¹ · Γ(11.5) Γ(0.5) / (π Γ(12)).
    #[test]
    fn the_medians_interval_begins_once_enough_signs_are_equal() {
        let equal =
            |count: u32| -> f64 { (1..=count).map(|one| 2.0 - 1.0 / f64::from(one)).product() };
        close(equal(11), 344.449_218_75);
        assert!(equal(10) < 200.0 && equal(11) > 200.0);
        assert_eq!([10, 11, 12].map(|count| rank(count, 0.995)), [None, Some(1), Some(1)]);
        assert_eq!([6, 7].map(|count| rank(count, 0.95)), [None, Some(1)]);
        // Of 100 values: at most 30, or at least 70, are above the median with a probability of 0.00008 in one look.
        assert_eq!(rank(100, 0.995), Some(31));
    }

    #[test]
    fn it_needs_some_values_and_narrows_with_more() {
        let interval = |values: &[f64]| always_valid_interval(values, 0.995).map(|it| it.interval);
        assert!(matches!(interval(&[1.0]), Err(Undefined::TooFew(_))));
        assert_eq!(interval(&[1.0; 10]), Ok(None));
        assert_eq!(interval(&[1.0; 11]), Ok(Some((1.0, 1.0))));
        let widths: Vec<f64> = (4..200).filter_map(|count| half_width(count, 0.995)).collect();
        assert!(widths.len() == 196 && widths.is_sorted_by(|one, next| one > next));
        // The price of looking after each value.
        let once = student_quantile(0.9975, 19.0) / 20.0_f64.sqrt();
        let always = half_width(20, 0.995).expect("enough");
        assert!((1.4..1.7).contains(&(always / once)), "{always} {once}");
    }

    #[test]
    fn the_count_is_the_first_that_is_narrow_enough() {
        let count = |deviation: f64| always_valid_count(deviation, 0.01, 0.995);
        assert_eq!(count(0.0), Some(11));
        assert_eq!(count(10.0), None);
        let needed = count(0.01).expect("not too many");
        let half = half_width(needed, 0.995).expect("enough");
        assert!(half <= 1.0 && needed > 11, "{needed} {half}");
        assert!(count(0.02) > count(0.01));
    }

    #[test]
    fn the_middle_half_counts() {
        assert_eq!(interquartile_mean(&[]), None);
        assert_eq!(interquartile_mean(&[7.0]), Some(7.0));
        assert_eq!(interquartile_mean(&[1.0, 3.0]), Some(2.0));
        assert_eq!(interquartile_mean(&[1000.0, 2.0, 4.0, -50.0]), Some(3.0));
        // Of five, a quarter is one value and a quarter of the next.
        close(
            interquartile_mean(&[0.0, 1.0, 2.0, 4.0, 9.0]).expect("values"),
            (0.75 + 2.0 + 3.0) / 2.5,
        );
    }

    /// Series of up to 60 values, looked at after each; counts of those in which some interval excludes the middle: of
    /// [`always_valid_interval`], and of Student's. The seed is fixed, so the counts are exact.
    /// `docs/design/statistics.md` has them.
    #[test]
    fn looking_after_each_value_raises_no_more_false_alarms_than_stated() {
        const LOOKS: usize = 60;
        fn alarms(mut draw: impl FnMut(&mut Random) -> f64, confidence: f64) -> [usize; 2] {
            let mut random = Random::from_seed(15);
            let once: Vec<f64> = (1..LOOKS)
                .map(|degrees| student_quantile(0.5 + confidence / 2.0, degrees as f64))
                .collect();
            let mut alarms = [0; 2];
            for _ in 0..1000 {
                let values: Vec<f64> = (0..LOOKS).map(|_| draw(&mut random)).collect();
                let (mut always, mut student) = (false, false);
                for count in 2..=LOOKS {
                    let found =
                        always_valid_interval(&values[..count], confidence).expect("values");
                    let error = found.deviation / (count as f64).sqrt();
                    always |= found.interval.is_some_and(|(low, high)| low > 0.0 || high < 0.0);
                    student |= found.mean.abs() > once[count - 2] * error;
                }
                alarms[0] += usize::from(always);
                alarms[1] += usize::from(student);
            }
            alarms
        }
        fn normal(random: &mut Random) -> f64 {
            normal_quantile(random.uniform())
        }
        // One in ten is five times as far away.
        let heavy = |random: &mut Random| {
            let wide = random.uniform() < 0.1;
            normal(random) * if wide { 5.0 } else { 1.0 }
        };
        // Processes of two kinds.
        let two_kinds = |random: &mut Random| {
            let side = if random.uniform() < 0.5 { 1.0 } else { -1.0 };
            side + 0.2 * normal(random)
        };
        let of =
            |level: f64| [alarms(normal, level), alarms(heavy, level), alarms(two_kinds, level)];
        let found = [of(0.95), of(0.995)];
        let expected = [[[7, 314], [3, 271], [22, 521]], [[0, 55], [0, 32], [1, 204]]];
        assert_eq!(found, expected);
    }
}
