/*!
Changes of level, and slow drift, in a short series: one value from each of 10 to some thousand runs.

The values are examined as logarithms, because times and rates differ by factors. A value more than
three standard deviations of the noise from its neighbours is replaced by their median (the filter of F. R. Hampel, "The
Influence Curve and its Role in Robust Estimation", *JASA* 69, 1974), so that one disturbed run is not a change. If runs are correlated, as those of a
machine with slow moods are, the series is first turned into one whose noise is independent, as S. Chakar, E. Lebarbier,
C. Lévy-Leduc and S. Robin do ("A robust approach for estimating change-points in the mean of an AR(1) process",
*Bernoulli* 23(2), 2017): xᵢ − φ xᵢ₋₁ has the same changes. Their φ comes from differences, which changes of level hardly
affect.

Candidates come from the segmentation with the least squared error plus a penalty for each change (B. Jackson et al.,
"An Algorithm for Optimal Partitioning of Data on an Interval", *IEEE Signal Processing Letters* 12(2), 2005, pruned as
R. Killick, P. Fearnhead and I. A. Eckley do in PELT, *JASA* 107, 2012). Each candidate is then tested between its two
neighbours by permutation, as in E-divisive (D. S. Matteson and N. A. James, "A Nonparametric Approach for Multiple
Change Point Analysis of Multivariate Data", *JASA* 109, 2014): how often do the same values in another order have a
split that separates them as much? The least certain one is dropped, and the rest tested again, until all are certain.

Steps and a drift can explain the same series. If there are several steps, and a straight line explains the series better
by the criterion of G. Schwarz ("Estimating the Dimension of a Model", *Annals of Statistics* 6(2), 1978), the drift is
stated and the steps are not.
*/

use crate::distribution::{normal_quantile, normal_tail, student_quantile};
use crate::moments::median;
use crate::random::Random;
use crate::undefined::Undefined;

/// Fewest values that can show a change.
pub const LEAST_VALUES: usize = 12;

/// Part of series without a change in which one is found, if values are independent.
pub const FALSE_ALARMS: f64 = 0.01;

/// Greatest *p* of a change and of a drift. Half of [`FALSE_ALARMS`]: a series may have several candidates, and they are
/// where they look best. Set by simulation.
const LEVEL: f64 = FALSE_ALARMS / 2.0;

/// Fewest values between two changes. One or two slow runs may be a disturbance.
const LEAST_SEGMENT: usize = 3;

/// Penalty of a change, as a multiple of the noise's variance and of ln *n*. Set by simulation.
const PENALTY: f64 = 2.5;

/// Distance from its neighbours, in standard deviations, from which on a value is an outlier.
const HAMPEL: f64 = 3.0;

/// Values on either side of a value that are its neighbours.
const NEIGHBOURS: usize = 3;

/// Greatest part of values that are outliers. More of them are a second mode, and part of the noise.
const MOST_OUTLIERS: f64 = 0.15;

/// Most permutations of a test. They decide the least probability that it can state.
const PERMUTATIONS: u32 = 9999;

/// Permutations that separate as much as the series does, after which more would not change the decision (J. Besag
/// and P. Clifford, "Sequential Monte Carlo p-values", *Biometrika* 78(2), 1991).
const ENOUGH: u32 = 20;

/// Changes and drift of a series.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Levels {
    /// The changes, in order.
    pub changes: Vec<LevelChange>,
    /// Drift of the whole series, or of the part after the last change.
    pub drift: Option<Drift>,
    /// Positions of values that were left out, because they lie far from their neighbours.
    pub outliers: Vec<usize>,
    /// Standard deviation of a value within its level, as a part of the value.
    pub noise: f64,
    /// Correlation of consecutive values within a level; zero unless it is certain.
    pub correlation: f64,
}

/// A change of level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelChange {
    /// The first value of the new level.
    pub index: usize,
    /// New level by old level.
    pub ratio: f64,
    /// Lower bound of the ratio's interval, which takes the place of the change as known.
    pub low: f64,
    /// Upper bound of the ratio's interval.
    pub high: f64,
    /// *p*: part of the permutations of the two levels' values that separate as much.
    pub probability: f64,
}

/// A slow drift.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// The first value that drifts; it lasts until the end of the series.
    pub from: usize,
    /// Value at the end by value at `from`, on the line of Theil and Sen.
    pub ratio: f64,
    /// Lower bound of the ratio's interval.
    pub low: f64,
    /// Upper bound of the ratio's interval.
    pub high: f64,
    /// *p* of the test of Mann and Kendall.
    pub probability: f64,
}

/// Finds the changes of level and the drift of a series, with intervals of `confidence`.
///
/// Of series without a change, about [`FALSE_ALARMS`] have one found, and fewer a drift, if values are independent.
/// `docs/reference/history.md` has the simulated counts, also for correlated values. The answer is the
/// same each time, since the permutations follow from a fixed seed.
///
/// # Errors
///
/// [`Undefined::TooFew`] with fewer than [`LEAST_VALUES`] values, [`Undefined::NotPositive`] if a value is not a
/// number above zero.
///
/// # Panics
///
/// If `confidence` is not strictly between 0 and 1.
pub fn levels(values: &[f64], confidence: f64) -> Result<Levels, Undefined> {
    assert!(confidence > 0.0 && confidence < 1.0, "a confidence lies between 0 and 1");
    Undefined::unless_at_least(LEAST_VALUES, values.len())?;
    if values.iter().any(|value| !value.is_finite() || *value <= 0.0) {
        return Err(Undefined::NotPositive);
    }
    let raw: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let (series, outliers) = without_outliers(&raw);
    let correlation = correlation(&series);
    let whitened = whitened(&series, correlation);
    let noise = noise(&whitened);
    let mut places = segmented(&whitened, noise);
    let mut probabilities = tested(&whitened, &places);
    while let Some((worst, _)) = probabilities
        .iter()
        .enumerate()
        .filter(|(_, probability)| **probability > LEVEL)
        .max_by(|one, other| one.1.total_cmp(other.1))
    {
        places.remove(worst);
        probabilities = tested(&whitened, &places);
    }
    let drift_of = |from: usize| drift(&series, from, correlation, confidence);
    let mut whole = None;
    if places.len() != 1 {
        whole = drift_of(0).filter(|_| places.is_empty() || is_rather_a_line(&whitened, &places));
    }
    if whole.is_some() {
        places.clear();
    }
    let drift = whole.or_else(|| drift_of(*places.last()?));
    let changes =
        places.iter().zip(probabilities).enumerate().map(|(number, (place, probability))| {
            let start = number.checked_sub(1).map_or(0, |before| places[before]);
            let end = places.get(number + 1).copied().unwrap_or(series.len());
            let sides = (&series[start..*place], &series[*place..end]);
            let (ratio, low, high) = size(sides, noise, correlation, confidence);
            LevelChange { index: *place, ratio, low, high, probability }
        });
    let changes = changes.collect();
    // The deviation of the series itself, not of its innovations.
    let noise = noise / (1.0 - correlation * correlation).sqrt();
    Ok(Levels { changes, drift, outliers, noise, correlation })
}

/// Returns the series with outliers replaced by the median of their neighbours, and the outliers' positions.
fn without_outliers(series: &[f64]) -> (Vec<f64>, Vec<usize>) {
    let reach = HAMPEL * spread_of_differences(series);
    let mut outliers = Vec::new();
    let mut replaced = series.to_vec();
    for (index, value) in replaced.iter_mut().enumerate() {
        let start = index.saturating_sub(NEIGHBOURS);
        let end = (index + NEIGHBOURS + 1).min(series.len());
        let middle = middle(&series[start..end]);
        if (*value - middle).abs() > reach {
            *value = middle;
            outliers.push(index);
        }
    }
    if outliers.len() as f64 > MOST_OUTLIERS * series.len() as f64 {
        return (series.to_vec(), Vec::new());
    }
    (replaced, outliers)
}

/// Returns the median, between the two middle values if their number is even.
fn middle(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) }
}

/// Returns a value's standard deviation, from the median of differences of consecutive values.
fn spread_of_differences(series: &[f64]) -> f64 {
    let differences: Vec<f64> = series.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    median(&differences).unwrap_or(0.0) / (0.674_489_750_196_081_7 * 2.0_f64.sqrt())
}

/// Returns the mean square of differences at a distance, without those that a change or an outlier makes.
fn mean_square(series: &[f64], distance: usize) -> f64 {
    let differences =
        series.windows(distance + 1).map(|window| (window[distance] - window[0]).abs());
    let differences: Vec<f64> = differences.collect();
    let reach = 3.0 * median(&differences).unwrap_or(0.0) / 0.674_489_750_196_081_7;
    let kept: Vec<f64> = differences.into_iter().filter(|value| *value <= reach).collect();
    kept.iter().map(|value| value * value).sum::<f64>() / kept.len().max(1) as f64
}

/// Returns the coefficient of the first-order autoregression, or zero unless it is above its standard error.
fn correlation(series: &[f64]) -> f64 {
    let near = mean_square(series, 1);
    if near <= 0.0 {
        return 0.0;
    }
    let found = mean_square(series, 2) / near - 1.0;
    let error = (2.0 / series.len() as f64).sqrt();
    if found < error { 0.0 } else { found.min(0.9) }
}

fn whitened(series: &[f64], correlation: f64) -> Vec<f64> {
    let rest = series.windows(2).map(|pair| pair[1] - correlation * pair[0]);
    // The first value has none before it.
    std::iter::once(series[0] * (1.0 - correlation)).chain(rest).collect()
}

/// Returns the standard deviation within levels.
fn noise(series: &[f64]) -> f64 {
    (mean_square(series, 1) / 2.0).sqrt()
}

/// Sums from the start, of values and of squares, around the middle of the series.
struct Sums {
    values: Vec<f64>,
    squares: Vec<f64>,
}

impl Sums {
    fn of(series: &[f64]) -> Self {
        let middle = series.iter().sum::<f64>() / series.len() as f64;
        let (mut values, mut squares) = (vec![0.0], vec![0.0]);
        for (index, value) in series.iter().enumerate() {
            let value = value - middle;
            values.push(values[index] + value);
            squares.push(squares[index] + value * value);
        }
        Self { values, squares }
    }

    /// Returns the squared error of one level for the values of a part.
    fn error(&self, start: usize, end: usize) -> f64 {
        let sum = self.values[end] - self.values[start];
        let squares = self.squares[end] - self.squares[start];
        (squares - sum * sum / (end - start) as f64).max(0.0)
    }
}

/// Returns the first values of the levels after the first, by optimal partitioning.
fn segmented(series: &[f64], noise: f64) -> Vec<usize> {
    let count = series.len();
    let sums = Sums::of(series);
    // Without noise every difference counts, but for rounding.
    let variance = (noise * noise).max(1e-18);
    let penalty = PENALTY * variance * (count as f64).ln();
    let mut best = vec![f64::INFINITY; count + 1];
    let mut last = vec![0; count + 1];
    best[0] = -penalty;
    let mut starts = vec![0];
    for end in LEAST_SEGMENT..=count {
        let cost = |start: usize| best[start] + sums.error(start, end);
        let costs: Vec<f64> = starts.iter().map(|start| cost(*start)).collect();
        let (place, least) = costs
            .iter()
            .enumerate()
            .min_by(|one, other| one.1.total_cmp(other.1))
            .expect("the start of the series is never pruned before a better one is there");
        (best[end], last[end]) = (least + penalty, starts[place]);
        let bound = best[end];
        let mut kept: Vec<usize> = starts
            .iter()
            .zip(&costs)
            .filter(|(_, cost)| **cost <= bound)
            .map(|(start, _)| *start)
            .collect();
        // The next value can end a part that begins here.
        let next = end + 1 - LEAST_SEGMENT;
        if next >= LEAST_SEGMENT {
            kept.push(next);
        }
        starts = kept;
    }
    let mut places = Vec::new();
    let mut end = last[count];
    while end > 0 {
        places.push(end);
        end = last[end];
    }
    places.reverse();
    places
}

/// Returns the probability of each change, between its neighbours.
fn tested(series: &[f64], places: &[usize]) -> Vec<f64> {
    let ends = |number: usize| {
        let start = if number == 0 { 0 } else { places[number - 1] };
        (start, places.get(number + 1).copied().unwrap_or(series.len()))
    };
    let test = |number: usize| {
        let (start, end) = ends(number);
        permuted(&series[start..end])
    };
    (0..places.len()).map(test).collect()
}

/// Returns the part of permutations that separate as much as the series does.
fn permuted(part: &[f64]) -> f64 {
    let mean = part.iter().sum::<f64>() / part.len() as f64;
    let mut values: Vec<f64> = part.iter().map(|value| value - mean).collect();
    let found = separation(&values) * (1.0 - 1e-12);
    let mut random = Random::from_seed(part.len() as u64);
    let mut as_much = 0;
    for done in 1..=PERMUTATIONS {
        for index in (1..values.len()).rev() {
            values.swap(index, random.below(index as u64 + 1) as usize);
        }
        if separation(&values) >= found {
            as_much += 1;
            if as_much == ENOUGH {
                return f64::from(as_much) / f64::from(done);
            }
        }
    }
    f64::from(as_much + 1) / f64::from(PERMUTATIONS + 1)
}

/// Returns the greatest squared error that a split into two levels saves. The mean is zero.
fn separation(values: &[f64]) -> f64 {
    let count = values.len();
    let mut sum = 0.0;
    let mut greatest = 0.0_f64;
    for (index, value) in values.iter().enumerate().take(count - LEAST_SEGMENT) {
        sum += value;
        let before = index + 1;
        if before >= LEAST_SEGMENT {
            let saved = sum * sum * count as f64 / (before * (count - before)) as f64;
            greatest = greatest.max(saved);
        }
    }
    greatest
}

/// Returns the ratio of two levels with its interval, by Welch's test. The deviation within a level is at least a part
/// of that of the whole series, since three values may agree by chance.
fn size(
    (before, after): (&[f64], &[f64]),
    noise: f64,
    correlation: f64,
    confidence: f64,
) -> (f64, f64, f64) {
    let of = |side: &[f64]| {
        let count = side.len() as f64;
        let mean = side.iter().sum::<f64>() / count;
        let squares: f64 = side.iter().map(|value| (value - mean) * (value - mean)).sum();
        (mean, (squares / (count - 1.0)).max(noise * noise / 4.0) / count, count - 1.0)
    };
    let ((first, first_variance, first_degrees), (second, second_variance, second_degrees)) =
        (of(before), of(after));
    let variance = first_variance + second_variance;
    let difference = second - first;
    if variance == 0.0 {
        return (difference.exp(), difference.exp(), difference.exp());
    }
    let degrees = variance * variance
        / (first_variance * first_variance / first_degrees
            + second_variance * second_variance / second_degrees);
    let widened = (1.0 + correlation) / (1.0 - correlation);
    let half = student_quantile(0.5 + confidence / 2.0, degrees) * (variance * widened).sqrt();
    (difference.exp(), (difference - half).exp(), (difference + half).exp())
}

/// Returns whether a line explains a series better than its levels do.
fn is_rather_a_line(series: &[f64], places: &[usize]) -> bool {
    let count = series.len() as f64;
    let sums = Sums::of(series);
    let ends = places.iter().copied().chain([series.len()]);
    let starts = std::iter::once(0).chain(places.iter().copied());
    let of_levels: f64 = starts.zip(ends).map(|(start, end)| sums.error(start, end)).sum();
    let middle = (count - 1.0) / 2.0;
    let mean = series.iter().sum::<f64>() / count;
    let products: f64 = series
        .iter()
        .enumerate()
        .map(|(index, value)| (index as f64 - middle) * (value - mean))
        .sum();
    let squares = count * (count * count - 1.0) / 12.0;
    let of_line = sums.error(0, series.len()) - products * products / squares;
    let criterion =
        |error: f64, parameters: f64| count * error.max(1e-18).ln() + parameters * count.ln();
    criterion(of_line, 2.0) < criterion(of_levels, 2.0 * places.len() as f64 + 1.0)
}

/// Returns the drift of a series from a position on, if it is significant at [`LEVEL`]: the test of H. B. Mann
/// ("Nonparametric Tests Against Trend", *Econometrica* 13, 1945) and M. G. Kendall, with the slope of H. Theil (1950)
/// and the interval of P. K. Sen ("Estimates of the Regression Coefficient Based on Kendall's Tau", *JASA* 63, 1968).
/// For correlated values the variance grows as S. Yue and C. Wang say (*Water Resources Management* 18, 2004).
fn drift(series: &[f64], from: usize, correlation: f64, confidence: f64) -> Option<Drift> {
    let part = &series[from..];
    if part.len() < LEAST_VALUES {
        return None;
    }
    let count = part.len() as f64;
    let pairs = || {
        part.iter().enumerate().flat_map(|(index, value)| {
            let later = part[index + 1..].iter().enumerate();
            later.map(move |(further, later)| (later - value, further + 1))
        })
    };
    // Signs of pairs without a branch, which noise would make unpredictable.
    let sign = |difference: f64| i64::from(difference > 0.0) - i64::from(difference < 0.0);
    let sum = pairs().map(|(difference, _)| sign(difference)).sum::<i64>() as f64;
    let mut sorted = part.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let ties: f64 =
        sorted.chunk_by(|one, other| one == other).map(|group| term(group.len() as f64)).sum();
    let widened = (1.0 + correlation) / (1.0 - correlation);
    let deviation = ((term(count) - ties) / 18.0 * widened).sqrt();
    if deviation == 0.0 {
        return None;
    }
    let deviate = (sum.abs() - 1.0).max(0.0) / deviation;
    let probability = (2.0 * normal_tail(deviate)).min(1.0);
    if probability > LEVEL {
        return None;
    }
    let mut slopes: Vec<f64> =
        pairs().map(|(difference, distance)| difference / distance as f64).collect();
    slopes.sort_unstable_by(f64::total_cmp);
    let pairs = slopes.len() as f64;
    let half = normal_quantile(0.5 + confidence / 2.0) * deviation / 2.0;
    let at = |rank: f64| slopes[rank.clamp(0.0, pairs - 1.0) as usize];
    let over = |slope: f64| (slope * (count - 1.0)).exp();
    Some(Drift {
        from,
        ratio: over(middle(&slopes)),
        low: over(at((pairs / 2.0 - half).floor())),
        high: over(at((pairs / 2.0 + half).floor())),
        probability,
    })
}

/// A term of the variance of Kendall's sum.
fn term(count: f64) -> f64 {
    count * (count - 1.0) * (2.0 * count + 5.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns noise of 1 %, the same each time.
    fn noise_of(count: usize, seed: u64) -> Vec<f64> {
        let mut random = Random::from_seed(seed);
        (0..count).map(|_| (0.01 * normal_quantile(random.uniform())).exp()).collect()
    }

    fn places(values: &[f64]) -> Vec<usize> {
        let found = levels(values, 0.95).expect("enough values");
        found.changes.iter().map(|change| change.index).collect()
    }

    #[test]
    fn a_step_is_found_where_it_is_with_its_size() {
        let mut values = noise_of(60, 1);
        values[40..].iter_mut().for_each(|value| *value *= 1.05);
        let found = levels(&values, 0.95).expect("enough values");
        let [change] = &found.changes[..] else { panic!("one change: {found:?}") };
        assert!(change.index.abs_diff(40) <= 1, "{change:?}");
        assert!(change.low < 1.05 && 1.05 < change.high && change.high - change.low < 0.02);
        assert!(change.probability <= 0.0002, "{change:?}");
        assert!((found.noise - 0.01).abs() < 0.003, "{found:?}");
        // In other units, and in the other direction of time.
        let scaled: Vec<f64> = values.iter().map(|value| value * 1e9).collect();
        assert_eq!(places(&scaled), [change.index]);
        values.reverse();
        assert_eq!(places(&values), [60 - change.index]);
    }

    #[test]
    fn a_step_that_goes_back_has_two_changes() {
        let mut values = noise_of(60, 2);
        values[20..30].iter_mut().for_each(|value| *value *= 1.06);
        let found = places(&values);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].abs_diff(20) <= 1 && found[1].abs_diff(30) <= 1, "{found:?}");
    }

    #[test]
    fn one_slow_run_is_an_outlier() {
        let mut values = noise_of(40, 3);
        values[25] *= 3.0;
        let found = levels(&values, 0.95).expect("enough values");
        assert_eq!((&found.changes[..], &found.outliers[..]), (&[][..], &[25][..]));
    }

    /// Ten steps of 0.7 %, none of which is larger than the noise.
    #[test]
    fn slow_creep_is_a_drift() {
        let mut values = noise_of(60, 4);
        for (index, value) in values.iter_mut().enumerate() {
            *value *= 1.007_f64.powi(index as i32 * 11 / 60);
        }
        let found = levels(&values, 0.95).expect("enough values");
        assert!(found.changes.is_empty(), "{found:?}");
        let drift = found.drift.expect("a drift");
        assert_eq!(drift.from, 0);
        assert!(drift.low < 1.0722 && 1.0722 < drift.high, "{drift:?}");
        assert!(drift.probability < 1e-6 && drift.high - drift.low < 0.03, "{drift:?}");
    }

    #[test]
    fn exact_values_have_exact_changes() {
        let mut values = vec![4096.0; 12];
        assert_eq!(places(&values), [0; 0]);
        values.extend([4160.0; 8]);
        let found = levels(&values, 0.95).expect("enough values");
        let [change] = &found.changes[..] else { panic!("one change: {found:?}") };
        assert!(change.index == 12 && change.high - change.low < 1e-12, "{change:?}");
        assert!((change.ratio - 4160.0 / 4096.0).abs() < 1e-12);
    }

    #[test]
    fn values_that_cannot_be_examined_are_refused() {
        assert!(matches!(levels(&[1.0; 11], 0.95), Err(Undefined::TooFew(_))));
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let mut values = vec![1.0; 20];
            values[7] = wrong;
            assert_eq!(levels(&values, 0.95), Err(Undefined::NotPositive));
        }
    }

    #[test]
    fn kendalls_sum_is_that_of_the_definition() {
        // 12 rising values: all pairs agree, S = 66, var = 12 · 11 · 29 / 18.
        let rising: Vec<f64> = (0..12).map(|index| f64::from(index) * 0.01).collect();
        let found = drift(&rising, 0, 0.0, 0.95).expect("a drift");
        let deviate = 65.0 / (12.0 * 11.0 * 29.0 / 18.0_f64).sqrt();
        assert!((found.probability - 2.0 * normal_tail(deviate)).abs() < 1e-15);
        assert!((found.ratio - 0.11_f64.exp()).abs() < 1e-12, "{found:?}");
    }
}
