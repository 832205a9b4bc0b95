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

    /// Returns the smallest ratio above 1 that its interval, and the interval of the mirrored ratio, stay below. At 95 %
    /// confidence a ratio that is further from 1 is found to be so in at most 2.5 % of all runs: this is a test of
    /// equivalence (D. J. Schuirmann, *Journal of Pharmacokinetics and Biopharmaceutics* 15(6), 1987).
    #[must_use]
    pub fn bound(&self) -> f64 {
        self.high.max(1.0 / self.low)
    }

    /// Returns the one-sided *p* of its being above a limit: how often a ratio that is at the limit, or below it, would
    /// seem to be so far above.
    #[must_use]
    pub fn probability_above(&self, limit: f64) -> f64 {
        let deviate = (self.value / limit).ln() / self.error;
        let tail = student_probability(deviate, self.degrees) / 2.0;
        if deviate > 0.0 { tail } else { 1.0 - tail }
    }

    /// Returns the number of processes in each run from which two unchanged runs are told from a change by `limit` (a
    /// ratio above 1) in a part `power` of all comparisons, if processes vary as they did in runs of `counts` processes.
    /// If the runs have as many, the ratio itself is near the limit, and the number is that from which this ratio is told
    /// from it. `None` if it is more than a thousand.
    ///
    /// # Panics
    ///
    /// If `power` is not strictly between 0 and 1, `limit` is not above 1, or a count is zero.
    #[must_use]
    pub fn processes_to_tell(&self, counts: [usize; 2], limit: f64, power: f64) -> Option<usize> {
        const MOST: usize = 1000;
        assert!(limit > 1.0 && counts.iter().all(|count| *count > 0), "{limit} {counts:?}");
        // The variance of one process, the same in both runs.
        let variance =
            self.error * self.error / counts.iter().map(|count| 1.0 / *count as f64).sum::<f64>();
        let tells = |count: usize, distance: f64| {
            let degrees = 2.0 * count as f64 - 2.0;
            let told = student_quantile(0.5 + self.confidence / 2.0, degrees);
            let error = (2.0 * variance / count as f64).sqrt();
            (told + student_quantile(power, degrees)) * error <= distance
        };
        let least = |distance: f64| {
            let counts: Vec<usize> = (2..=MOST).collect();
            counts.get(counts.partition_point(|count| !tells(*count, distance))).copied()
        };
        let have = counts[0].min(counts[1]);
        match least(limit.ln()) {
            Some(enough) if enough <= have => {
                let nearest = self.value.ln().abs() - limit.ln();
                least(nearest.abs()).map(|needed| needed.max(have + 1))
            }
            needed => needed,
        }
    }

    /// Returns the geometric mean of several ratios, of independent samples, with its interval. It is about these ratios
    /// and no others. `None` without any.
    #[must_use]
    pub fn mean(ratios: &[Self]) -> Option<Self> {
        let first = ratios.first()?;
        let count = ratios.len() as f64;
        let sum = |of: &dyn Fn(&Self) -> f64| ratios.iter().map(of).sum::<f64>();
        let variance = sum(&|ratio| ratio.error * ratio.error);
        let degrees = variance * variance / sum(&|ratio| ratio.error.powi(4) / ratio.degrees);
        let (mean, error) = (sum(&|ratio| ratio.value.ln()) / count, variance.sqrt() / count);
        let half = student_quantile(0.5 + first.confidence / 2.0, degrees) * error;
        Some(Self {
            value: mean.exp(),
            low: (mean - half).exp(),
            high: (mean + half).exp(),
            probability: student_probability(mean / error, degrees),
            confidence: first.confidence,
            error,
            degrees,
        })
    }
}

/// Side of a limit that a ratio is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Above the limit, which is outside the noise.
    Above,
    /// Below the limit: its whole interval is.
    Below,
    /// Its interval crosses the limit.
    Unknown,
}

/// Returns which side of a limit each of many ratios is on.
///
/// One is above the limit if its false-discovery rate, by [`false_discovery_rates`] on [`Ratio::probability_above`], is at
/// most half of what its confidence leaves: 2.5 % at 95 %. If all ratios are at the limit or below, some seems to be above
/// in at most 2.5 % of all runs, however many there are. A single one is above if its whole interval is.
///
/// One is below if its whole interval is. That needs no correction: to take all ratios for below although one is above, that
/// one must seem to be below, which it does in at most 2.5 % of all runs (R. L. Berger, "Multiparameter Hypothesis Testing
/// and Acceptance Sampling", *Technometrics* 24(4), 1982).
#[must_use]
pub fn sides(ratios: &[Ratio], limit: f64) -> Vec<Side> {
    let probabilities: Vec<f64> =
        ratios.iter().map(|ratio| ratio.probability_above(limit)).collect();
    let rates = false_discovery_rates(&probabilities);
    let side = |(ratio, rate): (&Ratio, f64)| match () {
        () if rate <= (1.0 - ratio.confidence) / 2.0 => Side::Above,
        () if ratio.high <= limit => Side::Below,
        () => Side::Unknown,
    };
    ratios.iter().zip(rates).map(side).collect()
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
    use crate::distribution::normal_quantile;

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

    /// Two limits, by which the same samples are told from a change.
    #[test]
    fn a_limit_is_held_against_the_interval_of_the_ratio() {
        let found = ratio(&[1.0, 1.1, 1.2], &[2.0, 2.6, 2.1, 2.4], 0.95).expect("values");
        close(found.probability_above(1.0), found.probability / 2.0);
        close(found.probability_above(found.low), 0.025);
        close(found.probability_above(found.high), 0.975);
        close(found.mirrored().probability_above(1.0), 1.0 - found.probability / 2.0);
        for (limit, side) in [
            (found.low / 1.0001, Side::Above),
            (found.low * 1.0001, Side::Unknown),
            (found.high / 1.0001, Side::Unknown),
            (found.high * 1.0001, Side::Below),
        ] {
            assert_eq!(sides(&[found], limit), [side], "{limit}");
        }
        close(found.bound(), found.high);
        close(found.mirrored().bound(), found.high);
    }

    /// Of a hundred ratios none of which is above the limit, the luckiest is not taken for one.
    #[test]
    fn one_of_many_needs_more_to_be_above() {
        let near = |middle: f64| {
            let values = [0.99, 1.0, 1.01].map(|one| one * middle);
            ratio(&[0.99, 1.0, 1.01], &values, 0.95).expect("values")
        };
        let weak = near(1.08);
        assert_eq!(sides(&[weak], 1.05), [Side::Above]);
        let mut many = vec![weak];
        many.extend((0..100).map(|_| near(1.0)));
        let found = sides(&many, 1.05);
        assert_eq!(found[0], Side::Unknown);
        assert!(found[1..].iter().all(|side| *side == Side::Below));
    }

    #[test]
    fn the_processes_that_would_tell_follow_from_their_spread() {
        let values = |spread: f64| [1.0 / spread, 1.0, spread];
        let needed = |spread: f64, limit: f64| {
            let found = ratio(&values(spread), &values(spread), 0.95).expect("values");
            found.processes_to_tell([3, 3], limit, 0.8)
        };
        // The standard formula for logarithms that deviate by ln 1.05: 2 (z₁ + z₂)² s² / d², plus what *t* costs.
        let known = 2.0 * (1.959_964_f64 + 0.841_621).powi(2);
        assert!((known..known + 2.0).contains(&(needed(1.05, 1.05).expect("few") as f64)));
        assert!(needed(1.05, 1.02) > needed(1.05, 1.05) && needed(1.02, 1.05) < needed(1.05, 1.05));
        assert_eq!(needed(10.0, 1.01), None);
        // Enough processes, of a ratio that is nearly at the limit.
        let other = values(1.001).map(|one| one * 1.0498);
        let found = ratio(&values(1.001), &other, 0.95).expect("values");
        assert!(found.processes_to_tell([3, 3], 1.05, 0.8) > Some(3));
    }

    #[test]
    fn a_mean_of_ratios_is_theirs_and_mirrors() {
        let one = ratio(&[1.0, 1.1, 1.2], &[2.0, 2.6, 2.1, 2.4], 0.95).expect("values");
        let mean = Ratio::mean(&[one]).expect("one");
        close(mean.value, one.value);
        close(mean.low, one.low);
        close(mean.degrees, one.degrees);
        let both = Ratio::mean(&[one, one.mirrored()]).expect("two");
        close(both.value, 1.0);
        close(both.error, one.error / 2.0_f64.sqrt());
        close(both.low, 1.0 / both.high);
        assert_eq!(Ratio::mean(&[]), None);
    }

    /// Two runs are checked 200 times against a limit of 5 %: 20 cases of some processes each, whose logarithms are
    /// normal with this deviation, and of which some cases are slower in the second run by this factor. Counts of: a case
    /// above the limit, all below it, and neither. The seed is fixed, so the counts are exact. They are in
    /// `docs/design/statistics.md`.
    #[test]
    fn false_alarms_are_rare_and_planted_changes_are_found() {
        let counts = |processes: usize, deviation: f64, slower: usize, factor: f64| {
            let mut random = crate::Random::from_seed(15);
            let mut counts = [0; 3];
            for _ in 0..200 {
                let mut run = |factor: f64| -> Vec<f64> {
                    let mut normal = || normal_quantile(random.uniform().max(f64::MIN_POSITIVE));
                    (0..processes).map(|_| factor * (deviation * normal()).exp()).collect()
                };
                let ratios: Vec<Ratio> = (0..20)
                    .map(|case| {
                        let (before, after) =
                            (run(1.0), run(if case < slower { factor } else { 1.0 }));
                        ratio(&before, &after, 0.95).expect("values")
                    })
                    .collect();
                let sides = sides(&ratios, 1.05);
                let place = match () {
                    () if sides.contains(&Side::Above) => 0,
                    () if sides.contains(&Side::Unknown) => 2,
                    () => 1,
                };
                counts[place] += 1;
            }
            counts
        };
        for (processes, deviation, slower, factor, expected) in [
            (5, 0.01, 0, 1.0, [0, 200, 0]),
            (5, 0.03, 0, 1.0, [0, 0, 200]),
            (15, 0.03, 0, 1.0, [0, 165, 35]),
            (25, 0.03, 0, 1.0, [0, 199, 1]),
            (5, 0.10, 0, 1.0, [0, 0, 200]),
            (5, 0.03, 20, 1.05, [2, 0, 198]),
            (5, 0.01, 1, 1.3, [200, 0, 0]),
            (5, 0.03, 1, 1.3, [200, 0, 0]),
            (5, 0.10, 1, 1.3, [34, 0, 166]),
            (10, 0.10, 1, 1.3, [172, 0, 28]),
        ] {
            let found = counts(processes, deviation, slower, factor);
            assert_eq!(found, expected, "{processes} {deviation} {slower} {factor}");
        }
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
