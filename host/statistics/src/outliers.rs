/*!
Outliers: counted and located, never removed. A stall that a user feels is part of the latency.

There are two rules with different results. Tukey's fences adapt to each side of a skewed
distribution and distinguish mild from severe. The modified z-score has one scale for both sides,
and holds until half of the values are outliers; the fences hold until a quarter.
*/

use crate::moments::{Value, median, median_absolute_deviation};
use crate::quantile::Quantile;
use crate::select::order_statistics;
use crate::undefined::Undefined;

/// Severity of an outlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutlierClass {
    /// More than 3 interquartile ranges below the lower quartile.
    SevereLow,
    /// More than 1.5 interquartile ranges below the lower quartile.
    MildLow,
    /// More than 1.5 interquartile ranges above the upper quartile.
    MildHigh,
    /// More than 3 interquartile ranges above the upper quartile.
    SevereHigh,
}

/// The quartiles of a sample, and the fences computed from them (J. W. Tukey, *Exploratory Data
/// Analysis*, 1977, § 2D), in the unit of the values.
///
/// Quartiles are nearest ranks, as every quantile here is, so a value is compared with two others
/// that really occurred. Tukey's own hinges differ by less than one rank; of the eight definitions
/// that M. Frigge, D. C. Hoaglin and B. Iglewicz compare ("Some Implementations of the Boxplot", *The
/// American Statistician* 43(1), 1989) none counts differently in samples as large as ours. If more
/// than half of the values are equal the range may be 0, and every other value is severe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TukeyFences {
    /// Lower quartile.
    pub lower_quartile: f64,
    /// Upper quartile.
    pub upper_quartile: f64,
}

impl TukeyFences {
    /// Returns the fences of `values`; `None` if there are none. NaN is not allowed.
    #[must_use]
    pub fn of<T: Value>(values: &[T]) -> Option<Self> {
        let [lower, upper] = [(1, 4), (3, 4)].map(|(numerator, denominator)| {
            Quantile::new(numerator, denominator).expect("a fraction").rank(values.len())
        });
        if values.is_empty() {
            return None;
        }
        let quartiles = order_statistics(values, &[lower, upper]);
        let [lower_quartile, upper_quartile] = [0, 1].map(|index: usize| quartiles[index].to_f64());
        Some(Self { lower_quartile, upper_quartile })
    }

    /// Returns the class of a value, or `None` for one inside the fences or on them.
    #[must_use]
    pub fn class(&self, value: f64) -> Option<OutlierClass> {
        let range = self.upper_quartile - self.lower_quartile;
        let above = value - self.upper_quartile;
        let below = self.lower_quartile - value;
        if above > 3.0 * range {
            Some(OutlierClass::SevereHigh)
        } else if above > 1.5 * range {
            Some(OutlierClass::MildHigh)
        } else if below > 3.0 * range {
            Some(OutlierClass::SevereLow)
        } else if below > 1.5 * range {
            Some(OutlierClass::MildLow)
        } else {
            None
        }
    }
}

/// Number of outliers of each class, and their places.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outliers {
    /// Values below the lower outer fence.
    pub severe_low: usize,
    /// Values between the lower fences.
    pub mild_low: usize,
    /// Values between the upper fences.
    pub mild_high: usize,
    /// Values above the upper outer fence.
    pub severe_high: usize,
    /// Index and class of each, in the order of the sample.
    pub located: Vec<(usize, OutlierClass)>,
}

/// Values outside of their sample's [`TukeyFences`]. NaN is not allowed.
#[must_use]
pub fn tukey_outliers<T: Value>(values: &[T]) -> Outliers {
    let mut outliers = Outliers::default();
    let Some(fences) = TukeyFences::of(values) else { return outliers };
    for (index, value) in values.iter().enumerate() {
        let Some(class) = fences.class(value.to_f64()) else { continue };
        match class {
            OutlierClass::SevereLow => outliers.severe_low += 1,
            OutlierClass::MildLow => outliers.mild_low += 1,
            OutlierClass::MildHigh => outliers.mild_high += 1,
            OutlierClass::SevereHigh => outliers.severe_high += 1,
        }
        outliers.located.push((index, class));
    }
    outliers
}

/// Returns the indices of the values whose modified z-score 0.6745 (*x* − median) / MAD is above 3.5
/// or below −3.5 (B. Iglewicz and D. C. Hoaglin, *How to Detect and Handle Outliers*, 1993), in the
/// order of the sample. NaN is not allowed.
///
/// # Errors
///
/// [`Undefined::TooFew`] if there are no values, [`Undefined::NoSpread`] if the median absolute
/// deviation is 0, because more than half of the values are equal: the score would be infinite for
/// all others.
pub fn deviation_outliers<T: Value>(values: &[T]) -> Result<Vec<usize>, Undefined> {
    Undefined::unless_at_least(1, values.len())?;
    let centre = median(values).expect("values");
    let deviation = median_absolute_deviation(values).expect("values");
    if deviation == 0.0 {
        return Err(Undefined::NoSpread);
    }
    let is_outlier = |value: &T| 0.6745 * (value.to_f64() - centre).abs() / deviation > 3.5;
    Ok((0..values.len()).filter(|&index| is_outlier(&values[index])).collect())
}
