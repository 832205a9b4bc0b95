/*!
Detection of the steady state of a series, and of its start.

A series is cut at its change points into segments, and classified by their levels after Barrett et al.
Change points are found in ranks, not in latencies:

1. Obvious steps, many times as large as the spread on both sides, split the series first. Each part is then
   treated separately.
2. Every value is replaced by its rank, ties by the mean of theirs. A stall a thousand times the rest is
   then just the largest value, and independent values look alike whatever their distribution: a penalty
   that prevents false alarms for one prevents them for all.
3. Neighbours are averaged in at most about two thousand bins, which are narrow near the start, where
   warm-ups end.
4. The noise of the bins, and how correlated it is, is estimated from differences between neighbours, which
   a few steps do not disturb.
5. PELT finds the segmentation with the least sum of squares plus penalties, exactly.
6. Each change point is tested again on its two segments alone: if levels are far apart, ranks within one
   are crowded, and noise there can look like a step. The segments must surely differ by more than the
   tolerance: with two narrow modes, ranks detect a shift of a thousandth, and a difference could be
   significant without being large.
7. Segments whose levels are the same within the tolerance are joined: only relevant changes count.
8. Each edge is moved to the best place among nearby values.
9. A series without a change point that still slopes from its first block to its last has no steady state: a
   slope makes noise look correlated, so no single step stands out.
*/

use std::cmp::Ordering;
use std::ops::Range;

use crate::moments::{Value, median};
use crate::quantile::Quantile;
use crate::ranks::centred_ranks;
use crate::select::order_statistics;
use crate::thin::thinned;
use crate::undefined::Undefined;

/// Behaviour of a series over time (E. Barrett, C. F. Bolz-Tereick, R. Killick, S. Mount and L.
/// Tratt, "Virtual Machine Warmup Blows Hot and Cold", *Proceedings of the ACM on Programming
/// Languages* 1(OOPSLA), 2017), for values of which smaller ones are better, such as latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SteadyClass {
    /// One level throughout.
    Flat,
    /// Ends in a steady state, and was never faster before.
    WarmUp,
    /// A steady state at the end, after a faster level.
    SlowDown,
    /// Its last level has not lasted for the last quarter of the series, or it slopes throughout.
    NoSteadyState,
}

/// Behaviour of several processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProcessClass {
    /// All the same.
    Consistent(SteadyClass),
    /// Not all the same.
    Inconsistent,
}

/// A part of a series with one level.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// Indices of its values.
    pub range: Range<usize>,
    /// Mean of the values between its 5th and 95th percentile, in the unit of the values: a few stalls
    /// do not move it, but a growing second mode does, which a median would not show.
    pub level: f64,
}

/// Result of [`steady_state`].
#[derive(Debug, Clone, PartialEq)]
pub struct SteadyState {
    /// Behaviour of the series.
    pub class: SteadyClass,
    /// Segments in order, without gaps. All but the first begin at a change point.
    pub segments: Vec<Segment>,
}

impl SteadyState {
    /// Indices of the first values of new levels.
    pub fn change_points(&self) -> impl Iterator<Item = usize> {
        self.segments[1..].iter().map(|segment| segment.range.start)
    }

    /// Returns the index from which the series is steady; `None` if it is not.
    #[must_use]
    pub fn steady_from(&self) -> Option<usize> {
        let last = self.segments.last().map(|segment| segment.range.start);
        last.filter(|_| self.class != SteadyClass::NoSteadyState)
    }
}

/// Fewest values that [`steady_state`] classifies.
pub const STEADY_STATE_VALUES: usize = 40;

/// Levels that differ by no more than this part are one: 1 %, below what two runs on one machine
/// differ by.
pub const STEADY_STATE_TOLERANCE: f64 = 0.01;

/// Classifies a series of latencies in the order of measurement, and finds its steady part. NaN is
/// not allowed.
///
/// Levels are the same if they differ by at most `tolerance` relative to the later one;
/// [`STEADY_STATE_TOLERANCE`] is the usual choice. Barrett et al. take the larger of the last segment's
/// variance and one millisecond, which is in the unit of their benchmarks.
///
/// Change points are found by PELT (R. Killick, P. Fearnhead and I. A. Eckley, "Optimal Detection of
/// Changepoints with a Linear Computational Cost", *Journal of the American Statistical Association*
/// 107(500), 2012) with squared distances of ranks as the cost, which is the Kruskal–Wallis statistic
/// of the segments (A. Lung-Yut-Fong, C. Lévy-Leduc and O. Cappé, *Journal de la Société Française de
/// Statistique* 156(4), 2015).
///
/// # Errors
///
/// [`Undefined::TooFew`] with fewer than [`STEADY_STATE_VALUES`] values.
pub fn steady_state<T: Value>(values: &[T], tolerance: f64) -> Result<SteadyState, Undefined> {
    Undefined::unless_at_least(STEADY_STATE_VALUES, values.len())?;
    let obvious = obvious_edges(values, tolerance);
    let mut edges = obvious.clone();
    // How many times as uncertain a mean of values is as that of independent ones.
    let mut inflation = 1.0_f64;
    for part in ranges(&obvious, values.len()) {
        let (found, of_part) = edges_among_noise(&values[part.clone()], tolerance);
        edges.extend(found.iter().map(|edge| part.start + edge));
        inflation = inflation.max(of_part);
    }
    edges.sort_unstable();
    let cold = cold_start(values, edges.first().copied());
    if let Some(cold) = cold {
        edges.insert(0, cold);
    }
    let segments = join_equivalent(values, &edges, tolerance);
    let faster = |segment: &Segment, last: &Segment| {
        let [before, after] = [segment, last].map(|one| &values[one.range.clone()]);
        segment.level < last.level * (1.0 - tolerance)
            && (obviousness(&Middle::of(before), &Middle::of(after), tolerance) > OBVIOUS
                || separation(before, after, tolerance) > FASTER * inflation)
    };
    let class = match class(&segments, values.len(), faster) {
        SteadyClass::Flat if is_slope(values) => SteadyClass::NoSteadyState,
        class => class,
    };
    Ok(SteadyState { class, segments })
}

/// Returns the behaviour of several processes; `None` for none.
#[must_use]
pub fn classify_processes(classes: &[SteadyClass]) -> Option<ProcessClass> {
    let first = *classes.first()?;
    let same = classes.iter().all(|class| *class == first);
    Some(if same { ProcessClass::Consistent(first) } else { ProcessClass::Inconsistent })
}

fn class(
    segments: &[Segment],
    count: usize,
    faster: impl Fn(&Segment, &Segment) -> bool,
) -> SteadyClass {
    let (last, before) = segments.split_last().expect("at least one segment");
    if before.is_empty() {
        SteadyClass::Flat
    } else if 4 * last.range.len() < count {
        SteadyClass::NoSteadyState
    } else if before.iter().any(|segment| faster(segment, last)) {
        SteadyClass::SlowDown
    } else {
        SteadyClass::WarmUp
    }
}

/// Squared deviates by which the ranks of a segment must differ from those of the last one to
/// count as faster: three, squared. Segments that are not neighbours have not been tested yet.
const FASTER: f64 = 9.0;

/// Returns how surely two samples differ by more than the tolerance: the squared standard deviate of
/// their rank sum after slowing the faster one by the tolerance, or of their levels' difference beyond
/// it. The former detects a common shift, the latter a growing second mode.
///
/// Without the tolerance, two modes that each move by a thousandth would differ surely in their ranks,
/// and by chance in the number of values per mode, and so in their levels.
fn separation<T: Value>(before: &[T], after: &[T], tolerance: f64) -> f64 {
    let middles = [Middle::of(before), Middle::of(after)];
    let tolerated = tolerance * middles[1].level.abs();
    let difference = middles[1].level - middles[0].level;
    let moved = tolerated * difference.signum();
    let both: Vec<f64> = before
        .iter()
        .map(|value| value.to_f64() + moved)
        .chain(after.iter().map(|value| value.to_f64()))
        .collect();
    let parts = 1.0 / before.len() as f64 + 1.0 / after.len() as f64;
    let sum: f64 = scores(&both)[..before.len()].iter().sum();
    let of_ranks = if sum * difference < 0.0 { sum * sum * parts } else { 0.0 };

    let beyond = difference.abs() - tolerated;
    let few = before.len().min(after.len()) < FEWEST;
    if few || beyond <= 0.0 {
        return of_ranks;
    }
    // In the scatter of both together, as that of the ranks is.
    let error = middles[0].square_error + middles[1].square_error;
    let squares = beyond * beyond;
    of_ranks.max(squares / (error + squares / both.len() as f64))
}

/// Fewest values whose spread is believed.
const FEWEST: usize = 10;

/// Levels that differ by this multiple of the spread of either side are a step whatever the
/// autocorrelation. A drift is not a step, however slow: the part that it takes has a spread as large
/// as the drift.
const OBVIOUS: f64 = 4.0;

/// A sample without its tails: the values between its 5th and 95th percentile.
struct Middle {
    count: usize,
    /// Their mean.
    level: f64,
    /// From the least to the largest.
    range: f64,
    /// Expected square error of the level if values are independent (J. W. Tukey and D. H. McLaughlin,
    /// *Sankhyā A* 25(3), 1963).
    square_error: f64,
}

impl Middle {
    fn of<T: Value>(values: &[T]) -> Self {
        let [low, high] = bounds(values);
        let count = values.len();
        let level = mean_between(values, [low, high]);
        let winsorised = || values.iter().map(|value| value.to_f64().clamp(low, high));
        let mean = winsorised().sum::<f64>() / count as f64;
        let squares: f64 = winsorised().map(|value| (value - mean) * (value - mean)).sum();
        let square_error = squares / (0.81 * (count as f64) * (count as f64 - 1.0).max(1.0));
        Self { count, level, range: high - low, square_error }
    }
}

/// Returns the difference of two samples as a multiple of the larger spread. If they differ by no more
/// than the tolerance, or are too few to know their spread, it is below 0, and the lower the less they
/// differ.
fn obviousness(before: &Middle, after: &Middle, tolerance: f64) -> f64 {
    let difference = (before.level - after.level).abs();
    let few = before.count.min(after.count) < FEWEST;
    if few || difference <= tolerance * after.level.abs() {
        -1.0 / difference
    } else {
        difference / before.range.max(after.range)
    }
}

/// Returns the places of steps that need no test: far larger than the spread on both sides.
///
/// Ranks forget how large a step is, so a step that doubles all latencies can look like part of a
/// drift that is a thousand times smaller. Candidates are cut as if values were independent, in ranks
/// and in values without their tails, because one slope and two slopes with a step between them have
/// the same ranks. The least obvious ones are removed until all are obvious.
fn obvious_edges<T: Value>(values: &[T], tolerance: f64) -> Vec<usize> {
    /// An obvious step is still obvious in this many values.
    const MOST: usize = 1 << 15;

    let some = thinned(values, MOST);
    let [low, high] = bounds(&some);
    let without_tails: Vec<f64> =
        some.iter().map(|value| value.to_f64().clamp(low, high)).collect();
    let mut edges = Vec::new();
    for scores in [scores(&some), standardised(without_tails)] {
        let bins = Bins::of(&scores);
        let found = bins.change_points(penalty(bins.count()));
        edges.extend(found.iter().map(|&bin| bins.starts[bin]));
    }
    edges.sort_unstable();
    edges.dedup();

    let mut middles: Vec<Middle> =
        ranges(&edges, some.len()).map(|range| Middle::of(&some[range])).collect();
    let of_pair = |pair: &[Middle]| obviousness(&pair[0], &pair[1], tolerance);
    while let Some((index, least)) =
        middles.windows(2).map(of_pair).enumerate().min_by(|a, b| a.1.total_cmp(&b.1))
        && least <= OBVIOUS
    {
        edges.remove(index);
        middles.remove(index);
        let start = if index == 0 { 0 } else { edges[index - 1] };
        let end = edges.get(index).copied().unwrap_or(some.len());
        middles[index] = Middle::of(&some[start..end]);
    }
    edges.iter_mut().for_each(|edge| *edge *= values.len().div_ceil(MOST));
    for index in 0..edges.len() {
        let start = if index == 0 { 0 } else { edges[index - 1] };
        let end = edges.get(index + 1).copied().unwrap_or(values.len());
        let [before, after] = [middles[index].level, middles[index + 1].level];
        edges[index] = start + best_parting(&values[start..end], before, after);
    }
    edges
}

/// Returns where to split values so that most are nearest to the level of their side.
fn best_parting<T: Value>(values: &[T], before: f64, after: f64) -> usize {
    let middle = f64::midpoint(before, after);
    let (mut right, mut most, mut place) = (0_i64, i64::MIN, 1);
    for (index, value) in values[..values.len() - 1].iter().enumerate() {
        right += if (value.to_f64() > middle) == (before > after) { 1 } else { -1 };
        if right > most {
            (most, place) = (right, index + 1);
        }
    }
    place
}

/// Returns the change points in one level, or among levels that noise might hide, and how many times as
/// uncertain a mean of values is as that of independent ones.
fn edges_among_noise<T: Value>(values: &[T], tolerance: f64) -> (Vec<usize>, f64) {
    if values.len() < STEADY_STATE_VALUES {
        return (Vec::new(), 1.0);
    }
    let scores = scores(values);
    let bins = Bins::of(&scores);
    let penalty = penalty(bins.count());
    let first = bins.noise();
    let gross = bins.change_points(GROSS * first * penalty);
    let noise = first.max(bins.lasting_noise(&gross));
    let found = bins.change_points(noise * penalty);
    let mut edges: Vec<usize> = found.iter().map(|&bin| bins.starts[bin]).collect();
    let inflation = (noise / unexplained(&scores, &edges)).max(1.0);
    remove_insignificant(values, &mut edges, inflation * penalty, tolerance);
    if bins.width > 1 {
        refine(&scores, &mut edges, bins.width);
    }
    (edges, inflation)
}

/// Returns the penalty for a change point, in variances of the noise, among `count` bins.
///
/// Set by simulation, so that about 1 in 1,000 flat series of independent values has a change
/// point, whatever their number: see `examples/proof.rs`.
fn penalty(count: usize) -> f64 {
    7.0 + 2.0 * (count as f64).ln()
}

/// Gross change points are worth this many times the penalty. They are set aside before noise is
/// estimated more closely. Simulated: with 1 part of a drift is set aside, with 3 medium steps remain
/// and look like a drift.
const GROSS: f64 = 1.5;

/// Returns ranks, ties at their mean, moved and scaled to mean 0 and variance 1.
fn scores<T: Value>(values: &[T]) -> Vec<f64> {
    standardised(centred_ranks(values))
}

/// Returns the series, shifted and scaled to mean 0 and variance 1.
fn standardised(mut scores: Vec<f64>) -> Vec<f64> {
    let mean = scores.iter().sum::<f64>() / scores.len() as f64;
    scores.iter_mut().for_each(|score| *score -= mean);
    let squares: f64 = scores.iter().map(|score| score * score).sum();
    if squares > 0.0 {
        let scale = (scores.len() as f64 / squares).sqrt();
        scores.iter_mut().for_each(|score| *score *= scale);
    }
    scores
}

/// Scores, summed in bins.
struct Bins {
    /// Start of each bin, and end of the last one.
    starts: Vec<usize>,
    /// Sums of all scores before each of these.
    sums: Vec<f64>,
    /// Values in each bin, except those near the start and at the end, which may be narrower.
    width: usize,
}

impl Bins {
    /// About this many bins of full width, up to twice as many.
    const FULL: usize = 1024;
    /// A bin is no wider than its distance from the start divided by this.
    const NARROW: usize = 64;

    fn of(scores: &[f64]) -> Self {
        let width = (scores.len() / Self::FULL).max(1);
        let mut bins = Self { starts: vec![0], sums: vec![0.0], width };
        let mut sum = 0.0;
        let mut start = 0;
        while start < scores.len() {
            let end = scores.len().min(start + (start / Self::NARROW).clamp(1, width));
            sum += scores[start..end].iter().sum::<f64>();
            bins.starts.push(end);
            bins.sums.push(sum);
            start = end;
        }
        bins
    }

    fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the variance of the noise of means of many values, times their number.
    ///
    /// Computed from differences between the means of neighbouring bins and of those one further, as
    /// of a first-order autoregression: the latter's mean square over the former's is 1 + φ (S.
    /// Chakar, E. Lebarbier, C. Lévy-Leduc and S. Robin, "A Robust Approach for Estimating
    /// Change-Points in the Mean of an AR(1) Process", *Bernoulli* 23(2), 2017; they take robust
    /// scales, which bounded scores do not need).
    fn noise(&self) -> f64 {
        /// More is not believed: it would be a random walk, in which everything is a change.
        const MOST: f64 = 0.9;

        let means: Vec<f64> = (0..self.count())
            .filter(|&bin| self.starts[bin + 1] - self.starts[bin] == self.width)
            .map(|bin| (self.sums[bin + 1] - self.sums[bin]) / self.width as f64)
            .collect();
        let mean_square = |lag: usize| {
            let differences = means.iter().zip(&means[lag..]).map(|(a, b)| (b - a) * (b - a));
            differences.sum::<f64>() / (means.len() - lag) as f64
        };
        let (next, next_but_one) = (mean_square(1), mean_square(2));
        if next == 0.0 {
            return 0.0;
        }
        let coefficient = (next_but_one / next - 1.0).clamp(0.0, MOST);
        let rest = 1.0 - coefficient;
        self.width as f64 * next * (1.0 + coefficient) / (2.0 * rest * rest)
    }

    /// Like [`Self::noise`], for noise that lasts longer than a first-order autoregression with the
    /// same beginning: a slow drift beneath jitter. `gross` lists the bins before which a very
    /// different level begins.
    ///
    /// Variance and autocovariances are computed from differences as well (I. Tecuapetla-Gómez and A.
    /// Munk, "Autocovariance Estimation in Regression with a Discontinuous Signal and *m*-Dependent
    /// Errors", *Scandinavian Journal of Statistics* 44(2), 2017), summed as in
    /// [`effective_size`](crate::effective_size).
    fn lasting_noise(&self, gross: &[usize]) -> f64 {
        let mut means = Vec::with_capacity(self.count());
        for segment in ranges(gross, self.count()) {
            let sum = self.sums[segment.end] - self.sums[segment.start];
            let level = sum / (self.starts[segment.end] - self.starts[segment.start]) as f64;
            let full = segment.filter(|bin| self.starts[bin + 1] - self.starts[*bin] == self.width);
            means.extend(
                full.map(|bin| (self.sums[bin + 1] - self.sums[bin]) / self.width as f64 - level),
            );
        }
        let half_square = |lag: usize| {
            let differences = means.iter().zip(&means[lag..]).map(|(a, b)| (b - a) * (b - a));
            differences.sum::<f64>() / (2 * (means.len() - lag)) as f64
        };
        let lags = (means.len() / 16).clamp(2, 32) & !1;
        // Far apart, values differ by the whole of their variance.
        let variance = (lags..2 * lags).map(half_square).sum::<f64>() / lags as f64;
        let mut sum = 0.0;
        let mut last = f64::INFINITY;
        for lag in (0..lags).step_by(2) {
            let pair = 2.0 * variance - half_square(lag) - half_square(lag + 1);
            if pair <= 0.0 {
                break;
            }
            last = pair.min(last);
            sum += last;
        }
        self.width as f64 * (2.0 * sum - variance)
    }

    /// Returns the bins before which a new level begins, if each change point costs `penalty`.
    fn change_points(&self, penalty: f64) -> Vec<usize> {
        // Where the last segment of the best division of the first bins begins.
        let mut from = vec![0];
        // Where that segment may begin, with all that its value takes: in columns, for the processor's vectors.
        let mut candidates = Candidates::default();
        candidates.push(0, penalty, self.sums[0], self.starts[0] as f64);
        for (end, (sum, place)) in self.sums.iter().zip(&self.starts).enumerate().skip(1) {
            let (sum, place) = (*sum, *place as f64);
            let (best, start) = candidates.best(sum, place);
            from.push(start);
            // A candidate that is worse even without its penalty never catches up.
            candidates.keep_from(best - penalty);
            candidates.push(end, best - penalty, sum, place);
        }
        let mut found = Vec::new();
        let mut start = from[self.count()];
        while start > 0 {
            found.push(start);
            start = from[start];
        }
        found.reverse();
        found
    }
}

/// Bins where the last segment of a division may begin.
#[derive(Default)]
struct Candidates {
    bins: Vec<usize>,
    /// The value of the best division of what is before each.
    before: Vec<f64>,
    /// Sum of the scores before each.
    sums: Vec<f64>,
    /// Number of the scores before each.
    starts: Vec<f64>,
    /// The value of a division whose last segment begins there: the squares of the scores that levels explain, less
    /// the penalties.
    values: Vec<f64>,
}

impl Candidates {
    fn push(&mut self, bin: usize, before: f64, sum: f64, start: f64) {
        self.bins.push(bin);
        self.before.push(before);
        self.sums.push(sum);
        self.starts.push(start);
        self.values.push(0.0);
    }

    /// Computes the values for an end with this sum and number of scores before it. Returns the largest, and the
    /// first bin that has it.
    fn best(&mut self, sum: f64, end: f64) -> (f64, usize) {
        let columns = self.before.iter().zip(&self.sums).zip(&self.starts);
        for (value, ((before, before_sum), start)) in self.values.iter_mut().zip(columns) {
            let of_segment = sum - before_sum;
            *value = before + of_segment * of_segment / (end - start);
        }
        let mut lanes = [f64::NEG_INFINITY; 8];
        for some in self.values.chunks(lanes.len()) {
            for (lane, value) in lanes.iter_mut().zip(some) {
                *lane = if value > lane { *value } else { *lane };
            }
        }
        let largest = lanes.into_iter().fold(f64::NEG_INFINITY, f64::max);
        let first = self.values.iter().position(|value| *value == largest);
        (largest, first.map_or(0, |index| self.bins[index]))
    }

    /// Removes those with a value below `least`.
    fn keep_from(&mut self, least: f64) {
        if self.values.iter().all(|value| *value >= least) {
            return;
        }
        let mut kept = 0;
        for index in 0..self.values.len() {
            if self.values[index] >= least {
                self.bins[kept] = self.bins[index];
                self.before[kept] = self.before[index];
                self.sums[kept] = self.sums[index];
                self.starts[kept] = self.starts[index];
                kept += 1;
            }
        }
        self.bins.truncate(kept);
        self.before.truncate(kept);
        self.sums.truncate(kept);
        self.starts.truncate(kept);
        self.values.truncate(kept);
    }
}

/// Returns the variance of the scores within the segments between `edges`.
fn unexplained(scores: &[f64], edges: &[usize]) -> f64 {
    let explained = ranges(edges, scores.len()).map(|range| {
        let segment = &scores[range];
        let sum = segment.iter().sum::<f64>();
        sum * sum / segment.len() as f64
    });
    1.0 - explained.sum::<f64>() / scores.len() as f64
}

/// Returns the ranges of the segments between `edges`.
fn ranges(edges: &[usize], count: usize) -> impl Iterator<Item = Range<usize>> {
    let starts = std::iter::once(0).chain(edges.iter().copied());
    let ends = edges.iter().copied().chain(std::iter::once(count));
    starts.zip(ends).map(|(start, end)| start..end)
}

/// Removes edges, weakest first, whose two segments do not surely differ by more than the tolerance.
fn remove_insignificant<T: Value>(
    values: &[T],
    edges: &mut Vec<usize>,
    least: f64,
    tolerance: f64,
) {
    let strength = |edges: &[usize], index: usize| {
        let start = if index == 0 { 0 } else { edges[index - 1] };
        let end = edges.get(index + 1).copied().unwrap_or(values.len());
        separation(&values[start..edges[index]], &values[edges[index]..end], tolerance)
    };
    let mut strengths: Vec<f64> = (0..edges.len()).map(|index| strength(edges, index)).collect();
    while let Some(weakest) =
        (0..edges.len()).min_by(|&a, &b| strengths[a].total_cmp(&strengths[b]))
        && strengths[weakest] < least
    {
        edges.remove(weakest);
        strengths.remove(weakest);
        for index in [weakest.wrapping_sub(1), weakest] {
            if index < edges.len() {
                strengths[index] = strength(edges, index);
            }
        }
    }
}

/// Moves each edge, by up to two bins, to the place where the levels on its sides explain most.
fn refine(scores: &[f64], edges: &mut [usize], width: usize) {
    for index in 0..edges.len() {
        let start = if index == 0 { 0 } else { edges[index - 1] };
        let end = edges.get(index + 1).copied().unwrap_or(scores.len());
        let edge = edges[index];
        let window = edge.saturating_sub(2 * width).max(start + 1)..(edge + 2 * width).min(end);
        let mut before: f64 = scores[start..window.start].iter().sum();
        let all = before + scores[window.start..end].iter().sum::<f64>();
        let mut most = f64::NEG_INFINITY;
        for place in window {
            let after = all - before;
            let explained =
                before * before / (place - start) as f64 + after * after / (end - place) as f64;
            if explained > most {
                (most, edges[index]) = (explained, place);
            }
            before += scores[place];
        }
    }
}

/// Finds first values that are so slow, and so few, that ranks cannot weigh them against the rest.
/// Returns the end of a first run of three or more that are all among the slowest 1 %, or the
/// slowest three, of the first segment. With independent values this happens in one series of a
/// million.
fn cold_start<T: Value>(values: &[T], first_edge: Option<usize>) -> Option<usize> {
    const RUN: usize = 3;

    let values = &values[..first_edge.unwrap_or(values.len())];
    if values.len() < STEADY_STATE_VALUES {
        return None;
    }
    let slowest = (values.len() / 100).max(RUN);
    let limit = order_statistics(values, &[values.len() - slowest])[0];
    let run = values.iter().take_while(|value| **value > limit).count();
    (run >= RUN).then_some(run)
}

/// Segments between `edges`, neighbours with the same level joined, the most alike first.
fn join_equivalent<T: Value>(values: &[T], edges: &[usize], tolerance: f64) -> Vec<Segment> {
    let segment = |range: Range<usize>| {
        let level = level(&values[range.clone()]);
        Segment { range, level }
    };
    let mut segments: Vec<Segment> = ranges(edges, values.len()).map(segment).collect();
    let difference = |pair: &[Segment]| (pair[0].level - pair[1].level).abs() / pair[1].level.abs();
    loop {
        let alike = segments.windows(2).map(difference).enumerate();
        let Some((index, least)) = alike.min_by(|a, b| a.1.total_cmp(&b.1)) else { break };
        if least > tolerance {
            break;
        }
        let second = segments.remove(index + 1);
        segments[index] = segment(segments[index].range.start..second.range.end);
    }
    segments
}

/// Returns the 5th and the 95th percentile.
fn bounds<T: Value>(values: &[T]) -> [f64; 2] {
    let [low, high] = [1, 19]
        .map(|numerator| Quantile::new(numerator, 20).expect("a fraction").rank(values.len()));
    let bounds = order_statistics(values, &[low, high]);
    [bounds[0].to_f64(), bounds[1].to_f64()]
}

/// Returns the mean of the values from the 5th to the 95th percentile.
fn level<T: Value>(values: &[T]) -> f64 {
    mean_between(values, bounds(values))
}

fn mean_between<T: Value>(values: &[T], [low, high]: [f64; 2]) -> f64 {
    let middle = values.iter().map(|value| value.to_f64());
    let middle = middle.filter(|value| (low..=high).contains(value));
    let (sum, count) = middle.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

/// Blocks of which slopes are found.
const BLOCKS: usize = 32;

fn block_medians<T: Value>(values: &[T]) -> Vec<f64> {
    let start = |block: usize| (block as u64 * values.len() as u64 / BLOCKS as u64) as usize;
    let block = |block: usize| median(&values[start(block)..start(block + 1)]).expect("values");
    (0..BLOCKS).map(block).collect()
}

/// Returns whether the level changes by 5 % or more, and the medians of 32 equal blocks move in one
/// direction by five standard deviates of Kendall's rank correlation with the time (H. B. Mann,
/// "Nonparametric Tests Against Trend", *Econometrica* 13(3), 1945).
fn is_slope<T: Value>(values: &[T]) -> bool {
    const LEAST: f64 = 0.05;
    const DEVIATES: f64 = 5.0;

    let medians = block_medians(values);
    let count = BLOCKS as f64;
    let concordance: f64 = (0..BLOCKS)
        .flat_map(|later| (0..later).map(move |earlier| (earlier, later)))
        .map(|(earlier, later)| match medians[later].total_cmp(&medians[earlier]) {
            Ordering::Greater => 1.0,
            Ordering::Equal => 0.0,
            Ordering::Less => -1.0,
        })
        .sum();
    let deviation = (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt();
    concordance.abs() > DEVIATES * deviation && drift(values).is_ok_and(|part| part.abs() >= LEAST)
}

/// Returns the change of the level from the first value to the last, relative to the median: 0.02 is a
/// rise by 2 %. NaN is not allowed.
///
/// The slope is the median of those between all pairs of the medians of 32 equal blocks (P. K. Sen,
/// "Estimates of the Regression Coefficient Based on Kendall's Tau", *Journal of the American
/// Statistical Association* 63(324), 1968), so stalls and a short warm-up do not tilt it.
///
/// # Errors
///
/// [`Undefined::TooFew`] with fewer than [`STEADY_STATE_VALUES`] values, [`Undefined::NoSpread`] if the
/// median is 0.
pub fn drift<T: Value>(values: &[T]) -> Result<f64, Undefined> {
    Undefined::unless_at_least(STEADY_STATE_VALUES, values.len())?;
    let medians = block_medians(values);
    let slopes: Vec<f64> = (0..BLOCKS)
        .flat_map(|later| (0..later).map(move |earlier| (earlier, later)))
        .map(|(earlier, later)| (medians[later] - medians[earlier]) / (later - earlier) as f64)
        .collect();
    let middle = median(&medians).expect("values");
    if middle == 0.0 {
        return Err(Undefined::NoSpread);
    }
    Ok(median(&slopes).expect("values") * BLOCKS as f64 / middle)
}
