//! Shapes of latencies, over time and by size, that make them doubtful.
//!
//! Each warning requires an effect of at least 5 % in addition to the certainty of its own test,
//! because a warning without reason is soon ignored.

use host_record::Doubt;
use host_statistics::{
    Quantile, STEADY_STATE_TOLERANCE, Segment, SteadyClass, SteadyState, estimates, median,
    steady_state,
};

use crate::stalls::{Row, stalls};

/// Smaller differences count as one level.
const MATTERS: f64 = 0.05;

/// Latencies in the order in which they were measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape<'a> {
    /// Every `stride`-th.
    pub(crate) latencies: &'a [u64],
    pub(crate) stride: u64,
    pub(crate) in_a_row: Row<'a>,
    /// Smallest step of the clock.
    pub(crate) resolution_ns: u64,
}

impl Shape<'_> {
    /// Returns all warnings; none if there are too few queries.
    pub(crate) fn doubts(self) -> Vec<Doubt> {
        let Ok(found) = steady_state(self.latencies, MATTERS) else { return Vec::new() };
        let stalls = stalls(self.in_a_row);
        let mut doubts = Vec::new();
        doubts.extend(self.warming_up(&found));
        doubts.extend(self.slowed_down(&found));
        // Queries at regular distances are not a second mode, and neither are those after a change.
        if stalls.is_none() && found.class == SteadyClass::Flat {
            doubts.extend(self.bimodal());
        }
        doubts.extend(stalls);
        doubts
    }

    /// Returns the medians of two parts, if they differ by a relevant amount and their intervals do not
    /// overlap: a change point is found by mistake once in 1,000 series, and then the intervals
    /// overlap.
    fn medians(&self, edge: usize) -> Option<(f64, f64)> {
        const CONFIDENCE: f64 = 0.999;

        let (before, after) = self.latencies.split_at(edge);
        let median = |part| estimates(part, &[Quantile::P50], CONFIDENCE).pop()?.ok();
        let (before, after) = (median(before)?, median(after)?);
        let change = before.value.abs_diff(after.value) as f64;
        let least = before.value.min(after.value) as f64;
        let apart = before.high < after.low || after.high < before.low;
        let matters = change > MATTERS * least && change > 2.0 * self.resolution_ns as f64;
        (apart && matters).then_some((before.value as f64, after.value as f64))
    }

    /// Returns the library's class, if the part before the steady state is at least a twentieth of
    /// the queries: a smaller part does not change a median, and the highest percentiles show it.
    fn warming_up(&self, found: &SteadyState) -> Option<Doubt> {
        let from = found.steady_from().filter(|_| found.class == SteadyClass::WarmUp)?;
        let (before, after) = self.medians(from)?;
        if 20 * from < self.latencies.len() || before <= after {
            return None;
        }
        Some(Doubt::WarmingUp {
            first_queries: self.queries(from),
            queries: self.queries(self.latencies.len()),
            first_ns: before,
            later_ns: after,
        })
    }

    /// Warns about one change point between two levels, the later one slower. Several change points, or
    /// levels that change by a third of the step between them from their first third to their last, are a
    /// drift, which has its own test: in a slope that is cut in two they change by two thirds.
    fn slowed_down(&self, found: &SteadyState) -> Option<Doubt> {
        let [before, after] = found.segments.as_slice() else { return None };
        let (fast, slow) = self.medians(after.range.start)?;
        let is_level = |segment: &Segment| {
            let latencies = &self.latencies[segment.range.clone()];
            let third = latencies.len() / 3;
            let first = median(&latencies[..third]);
            let last = median(&latencies[latencies.len() - third..]);
            first.zip(last).is_some_and(|(first, last)| 3.0 * (last - first).abs() < slow - fast)
        };
        if fast >= slow || !is_level(before) || !is_level(after) {
            return None;
        }
        Some(Doubt::SlowedDown {
            fast_from_query: 0,
            slow_from_query: self.queries(after.range.start),
            queries: self.queries(self.latencies.len()),
            from_ns: fast,
            to_ns: slow,
        })
    }

    /// Returns that the series is of the class `slow-down`, as in the metric `stability`, which counts
    /// changes from 1 % on. Otherwise, without a step or a drift, the word would stand without its
    /// figures.
    pub(crate) fn slow_down(self) -> Option<Doubt> {
        let found = steady_state(self.latencies, STEADY_STATE_TOLERANCE).ok()?;
        if found.class != SteadyClass::SlowDown {
            return None;
        }
        let (last, before) = found.segments.split_last()?;
        let least =
            |segment: &&Segment| segment.level < last.level * (1.0 - STEADY_STATE_TOLERANCE);
        let fast = before.iter().filter(least).max_by_key(|segment| segment.range.len())?;
        Some(Doubt::SlowedDown {
            fast_from_query: self.queries(fast.range.start),
            slow_from_query: self.queries(last.range.start),
            queries: self.queries(self.latencies.len()),
            from_ns: fast.level,
            to_ns: last.level,
        })
    }

    /// Warns about two groups with a gap between them that is one and a half times as wide as either: the gap
    /// from the 90th percentile of the fast ones to the 10th of the slow ones, compared with the width of
    /// each between its own. Each has at least a sixth of the queries, of which there are at least 180, so
    /// that its percentiles do not depend on two or three of them, and a typical slow one takes 10 % more
    /// than a typical fast one.
    ///
    /// One mode has no such gap, whatever its tail: half of a normal distribution is several times as wide
    /// as the gap to the other half, and where density falls, the slow group is wide and begins where the
    /// fast one ends. A clock with coarse steps makes gaps of its own, so three of its steps must fit.
    fn bimodal(&self) -> Option<Doubt> {
        const LEAST: usize = 180;
        const LEAST_PART: usize = 6;

        let count = self.latencies.len();
        if count < LEAST {
            return None;
        }
        let mut sorted = self.latencies.to_vec();
        sorted.sort_unstable();
        let edge = widest_split(&sorted, count / LEAST_PART);
        let (fast, slow) = sorted.split_at(edge);
        let [fast_width, slow_width] = [fast, slow].map(|group| at(group, 90) - at(group, 10));
        let (fast_typical, slow_typical) = (at(fast, 50), at(slow, 50));
        let gap = at(slow, 10).saturating_sub(at(fast, 90));
        let apart = 2 * gap > 3 * fast_width.max(slow_width)
            && gap > 3 * self.resolution_ns
            && slow_typical as f64 > 1.1 * fast_typical as f64;
        apart.then(|| Doubt::Bimodal {
            fast_ratio: fast.len() as f64 / count as f64,
            fast_ns: fast_typical,
            slow_ns: slow_typical,
        })
    }

    /// Returns the number of queries that `kept` latencies stand for.
    fn queries(&self, kept: usize) -> u64 {
        kept as u64 * self.stride
    }
}

/// Returns a percentile of sorted values.
fn at(sorted: &[u64], percent: u32) -> u64 {
    let quantile = Quantile::new(percent, 100).expect("between 0 and 100");
    sorted[quantile.rank(sorted.len()) - 1]
}

/// Returns where to cut sorted values so that the logarithms on both sides lie closest to their means
/// (N. Otsu, "A Threshold Selection Method from Gray-Level Histograms", *IEEE Transactions on Systems,
/// Man, and Cybernetics* 9(1), 1979), with at least so many on each side.
fn widest_split(sorted: &[u64], least: usize) -> usize {
    let logarithm = |value: &u64| (*value as f64).max(1.0).ln();
    let all: f64 = sorted.iter().map(logarithm).sum();
    let mut before = 0.0;
    let (mut edge, mut most) = (least, f64::NEG_INFINITY);
    for (index, value) in sorted.iter().enumerate() {
        if index >= least && index + least <= sorted.len() {
            let (left, right) = (index as f64, (sorted.len() - index) as f64);
            let after = all - before;
            let explained = before * before / left + after * after / right;
            if explained > most {
                (edge, most) = (index, explained);
            }
        }
        before += logarithm(value);
    }
    edge
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand_pcg::rand_core::Rng;

    use super::*;
    use crate::synthetic::generator;

    fn said(latencies: &[u64]) -> Vec<String> {
        let in_a_row = Row::of(latencies);
        let shape = Shape { latencies, stride: 1, in_a_row, resolution_ns: 20 };
        shape.doubts().iter().map(|doubt| format!("{}: {doubt}", doubt.kind())).collect()
    }

    /// Numbers from 0 to 1.
    fn units(seed: u64) -> impl FnMut() -> f64 {
        let mut random = generator(seed, "latency", 0);
        move || random.next_u64() as f64 / u64::MAX as f64
    }

    /// Returns 1,000 latencies of a millisecond that scatter by 3 %, times a factor.
    fn series(factor: impl Fn(usize) -> f64) -> Vec<u64> {
        let mut unit = units(1);
        (0..1000).map(|index| (1e6 * (1.0 + 0.03 * unit()) * factor(index)) as u64).collect()
    }

    #[test]
    fn each_planted_fault_has_its_warning() {
        let when = |condition: bool, factor: f64| if condition { factor } else { 1.0 };
        insta::assert_debug_snapshot!(said(&series(|index| when(index < 200, 1.5))), @r#"
    [
        "warming-up: the first 200 of 1000 measured queries took 1.52 ms, the others 1.01 ms; use a longer warm-up",
    ]
    "#);
        insta::assert_debug_snapshot!(said(&series(|index| when(index >= 500, 1.5))), @r#"
    [
        "slowed-down: latency rose 50 % (1.01 → 1.52 ms) at query 500 of 1000",
    ]
    "#);
        insta::assert_debug_snapshot!(said(&series(|index| when(index % 20 == 3, 10.0))), @r#"
    [
        "stalls: 1 query in 20 took 10.1 ms instead of 1.02 ms (31 % of the total time)",
    ]
    "#);
        let mut unit = units(2);
        let slow: Vec<bool> = (0..1000).map(|_| unit() < 0.3).collect();
        insta::assert_debug_snapshot!(said(&series(|index| when(slow[index], 2.0))), @r#"
    [
        "bimodal: 71 % of the queries took about 1.02 ms, 29 % about 2.03 ms, and few took a time between",
    ]
    "#);
    }

    #[test]
    fn what_does_not_matter_is_not_said() {
        let when = |condition: bool, factor: f64| if condition { factor } else { 1.0 };
        let harmless: [Vec<u64>; 6] = [
            // A change of less than 5 %, and a warm-up of less than a twentieth.
            series(|index| when(index >= 500, 1.03)),
            series(|index| when(index < 30, 1.5)),
            // Stalls that come at random, or hardly cost anything.
            series(|index| when((index * index * 7919) % 1009 < 20, 10.0)),
            series(|index| when(index % 100 == 3, 1.8)),
            // Two values of a clock with coarse steps.
            (0..1000).map(|index| 100 + index % 2 * 20).collect(),
            // Too few.
            vec![1_000_000; 30],
        ];
        for latencies in harmless {
            assert_eq!(said(&latencies), Vec::<String>::new());
        }
    }

    /// A slope that is cut only once, as a scattered or short one may be.
    #[test]
    fn a_slope_is_no_step() {
        let cut = |latencies: &[u64]| {
            let half = latencies.len() / 2;
            let segment = |range: std::ops::Range<usize>| {
                let level = median(&latencies[range.clone()]).expect("values");
                Segment { range, level }
            };
            let segments = vec![segment(0..half), segment(half..latencies.len())];
            let found = SteadyState { class: SteadyClass::SlowDown, segments };
            Shape { latencies, stride: 1, in_a_row: Row::of(latencies), resolution_ns: 20 }
                .slowed_down(&found)
        };
        assert_eq!(cut(&series(|index| 1.0 + index as f64 / 1000.0)), None);
        assert_eq!(cut(&series(|index| 1.0 + index as f64 / 5000.0)), None);
        assert!(cut(&series(|index| if index < 500 { 1.0 } else { 1.2 })).is_some());
    }

    #[test]
    fn figures_count_queries_and_not_what_is_left_of_them() {
        let latencies = series(|index| if index < 500 { 1.0 } else { 1.5 });
        let shape = Shape {
            latencies: &latencies,
            stride: 4,
            in_a_row: Row::of(&latencies[..100]),
            resolution_ns: 20,
        };
        let doubt = &shape.doubts()[0];
        let Doubt::SlowedDown { slow_from_query, queries, .. } = doubt else { panic!("{doubt:?}") };
        assert_eq!((*slow_from_query, *queries), (2000, 4000));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// One mode of any scatter and tail, at one level, has none of these shapes.
        #[test]
        fn one_mode_at_one_level_has_no_shape(
            seed: u64, scatter in 0.0_f64..2.0, power in 1_i32..12, count in 40_usize..800,
        ) {
            let mut unit = units(seed);
            let latencies: Vec<u64> =
                (0..count).map(|_| (1e6 * (1.0 + scatter * unit().powi(power))) as u64).collect();
            prop_assert_eq!(said(&latencies), Vec::<String>::new());
        }

        /// Random outliers are not regular stalls.
        #[test]
        fn stalls_at_random_are_not_regular(seed: u64, part in 0.005_f64..0.06) {
            let mut unit = units(seed);
            let latencies: Vec<u64> = (0..800)
                .map(|_| (1e6 * (1.0 + 0.05 * unit()) * if unit() < part { 9.0 } else { 1.0 }) as u64)
                .collect();
            prop_assert_eq!(said(&latencies), Vec::<String>::new());
        }
    }
}
