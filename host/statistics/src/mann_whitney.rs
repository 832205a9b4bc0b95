//! Test of whether one sample tends to be larger than another, and by how much.

use std::cmp::Ordering;

use crate::distribution::normal_tail;
use crate::moments::Value;
use crate::undefined::Undefined;

/// Method of a *p* value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MannWhitneyMethod {
    /// By counting all orders of the values.
    Exact,
    /// By the normal approximation, corrected for ties and for continuity.
    Asymptotic,
}

/// The Mann–Whitney test of two samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MannWhitney {
    /// *U* of the first sample: pairs in which its value is the larger, ties counted half.
    pub statistic: f64,
    /// Two-sided *p*: how often samples of one and the same distribution would differ so much.
    pub probability: f64,
    /// Method of the *p* value.
    pub method: MannWhitneyMethod,
    /// Probability that a value of the first sample is larger than one of the second, ties counted
    /// half: the common-language effect size, and Â₁₂ of A. Vargha and H. D. Delaney (*Journal of
    /// Educational and Behavioral Statistics* 25(2), 2000). One half means no effect; above it the
    /// **first** sample tends to be **larger**, which for latencies is slower.
    pub first_larger: f64,
}

impl MannWhitney {
    /// Returns Cliff's delta, from −1 (every value of the first sample is smaller) to 1 (every one
    /// is larger) (N. Cliff, *Psychological Bulletin* 114(3), 1993).
    #[must_use]
    pub fn delta(&self) -> f64 {
        2.0 * self.first_larger - 1.0
    }
}

/// Makes the two-sided test of H. B. Mann and D. R. Whitney (*Annals of Mathematical Statistics*
/// 18(1), 1947), in *n* log *n* steps. Assumes independent values. NaN is not allowed.
///
/// The method is chosen as SciPy's `mannwhitneyu(method="auto")` does: exact if one of the samples
/// has at most 8 values and there are no ties, and otherwise asymptotic. Unlike SciPy, which would
/// run out of memory, the exact count is limited to a million pairs; larger samples are asymptotic
/// too.
///
/// # Errors
///
/// [`Undefined::TooFew`] if a sample is empty.
pub fn mann_whitney<T: Value>(first: &[T], second: &[T]) -> Result<MannWhitney, Undefined> {
    const FEW: usize = 8;
    const PAIRS: usize = 1 << 20;

    Undefined::unless_at_least(1, first.len())?;
    Undefined::unless_at_least(1, second.len())?;
    let Ranks { sum, ties } = ranks(first, second);
    let (m, n) = (first.len() as f64, second.len() as f64);
    let pairs = m * n;
    let statistic = sum - m * (m + 1.0) / 2.0;
    let larger = statistic.max(pairs - statistic);

    let few = first.len().min(second.len()) <= FEW;
    let (probability, method) = if few && ties == 0.0 && pairs <= PAIRS as f64 {
        (exact(first.len(), second.len(), larger as usize), MannWhitneyMethod::Exact)
    } else {
        let total = m + n;
        let variance = pairs / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
        // All values equal: nothing speaks against one distribution.
        let deviate =
            if variance > 0.0 { (larger - pairs / 2.0 - 0.5) / variance.sqrt() } else { 0.0 };
        (2.0 * normal_tail(deviate), MannWhitneyMethod::Asymptotic)
    };
    let first_larger = statistic / pairs;
    Ok(MannWhitney { statistic, probability: probability.min(1.0), method, first_larger })
}

/// Returns the smallest two-sided *p* that the exact test of [`mann_whitney`] can give for these sizes:
/// two of all C(m + n, m) orders are the most extreme. With three values on each side it is 0.1, so three
/// can never be significant at 5 %.
#[must_use]
pub fn least_probability(first: usize, second: usize) -> f64 {
    let (few, many) = (first.min(second), first.max(second));
    let orders = (1..=few).map(|place| (many + place) as f64 / place as f64).product::<f64>();
    (2.0 / orders).min(1.0)
}

struct Ranks {
    /// Of the first sample's values in both, ties at the mean of their ranks.
    sum: f64,
    /// Σ (t³ − t) over groups of t equal values.
    ties: f64,
}

fn ranks<T: Value>(first: &[T], second: &[T]) -> Ranks {
    let mut both: Vec<(T, bool)> = Vec::with_capacity(first.len() + second.len());
    both.extend(first.iter().map(|&value| (value, true)));
    both.extend(second.iter().map(|&value| (value, false)));
    both.sort_unstable_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal));
    let mut sum = 0.0;
    let mut ties = 0.0;
    let mut before = 0;
    for group in both.chunk_by(|a, b| a.0 == b.0) {
        let size = group.len() as f64;
        let rank = before as f64 + (size + 1.0) / 2.0;
        sum += rank * group.iter().filter(|(_, is_first)| *is_first).count() as f64;
        ties += size * (size * size - 1.0);
        before += group.len();
    }
    Ranks { sum, ties }
}

/// Returns the two-sided *p* of a *U* that is the larger of the two.
///
/// The number of orders of the values with each *U* is the coefficient of a Gaussian binomial, the
/// product of (1 − qⁿ⁺ⁱ) / (1 − qⁱ) for i from 1 to m. Multiplying and dividing may wrap around,
/// since the last result fits: C(m + n, m) is below 2¹²⁸ for the accepted sizes.
fn exact(m: usize, n: usize, larger: usize) -> f64 {
    let (m, n) = (m.min(n), m.max(n));
    // Symmetric: the larger of the two is as rare as the smaller, and small ones are counted.
    let smaller = m * n - larger;
    let mut counts = vec![0_u128; smaller + 1];
    counts[0] = 1;
    for factor in 1..=m {
        for index in (n + factor..=smaller).rev() {
            counts[index] = counts[index].wrapping_sub(counts[index - n - factor]);
        }
        for index in factor..=smaller {
            counts[index] = counts[index].wrapping_add(counts[index - factor]);
        }
    }
    let all = (1..=m).fold(1_u128, |orders, factor| orders * (n + factor) as u128 / factor as u128);
    2.0 * counts.iter().sum::<u128>() as f64 / all as f64
}
