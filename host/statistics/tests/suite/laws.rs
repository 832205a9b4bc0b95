//! Laws that hold for every sample.

use host_statistics::{
    Quantile, always_valid_interval, estimates, interquartile_mean, median,
    median_absolute_deviation, moments, order_statistics,
};
use proptest::prelude::*;

/// Returns samples of many shapes: spread over all magnitudes, crowded into one bucket of the selection, or
/// both.
fn samples() -> impl Strategy<Value = Vec<u64>> {
    let any_magnitude = (any::<u64>(), 0_u32..64).prop_map(|(value, shift)| value >> shift);
    let crowded = (0_u64..3000).prop_map(|value| (1 << 40) + value);
    let crowded_wide = (0_u64..1 << 36).prop_map(|value| (1 << 60) + value);
    let ties = (0_u64..4).prop_map(|value| 1_000_003 + value);
    prop_oneof![
        prop::collection::vec(any_magnitude.clone(), 1..2000),
        prop::collection::vec(crowded, 1..2000),
        prop::collection::vec(crowded_wide.clone(), 1..2000),
        prop::collection::vec(ties, 1..2000),
        prop::collection::vec(prop_oneof![9 => crowded_wide, 1 => any_magnitude], 1..2000),
    ]
}

fn quantiles() -> impl Strategy<Value = Quantile> {
    // A denominator of 1 has no fraction between 0 and 1.
    (2_u32..10_000).prop_flat_map(|denominator| {
        (1..denominator).prop_map(move |numerator| {
            Quantile::new(numerator, denominator).expect("a fraction between 0 and 1")
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn selection_reads_the_sorted_values(
        values in samples(),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let mut sorted = values.clone();
        sorted.sort_unstable();
        let ranks: Vec<usize> = picks.iter().map(|pick| pick.index(values.len()) + 1).collect();
        let expected: Vec<u64> = ranks.iter().map(|rank| sorted[rank - 1]).collect();
        prop_assert_eq!(order_statistics(&values, &ranks), expected);
    }

    #[test]
    fn selection_orders_floats_as_total_cmp_does(
        values in prop::collection::vec(any::<f64>(), 1..1000),
        pick in any::<prop::sample::Index>(),
    ) {
        let mut sorted = values.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let rank = pick.index(values.len()) + 1;
        let found = order_statistics(&values, &[rank])[0];
        prop_assert_eq!(found.to_bits(), sorted[rank - 1].to_bits());
    }

    /// The definition: the smallest value that at least the fraction p does not exceed.
    #[test]
    fn a_quantile_is_the_smallest_value_that_enough_do_not_exceed(
        values in samples(),
        quantile in quantiles(),
    ) {
        let found = order_statistics(&values, &[quantile.rank(values.len())])[0];
        let enough = |bound: u64| {
            let within = values.iter().filter(|value| **value <= bound).count();
            within >= quantile.rank(values.len())
        };
        prop_assert!(enough(found));
        prop_assert!(found == 0 || !enough(found - 1));
    }

    #[test]
    fn an_estimate_lies_in_its_interval_or_is_refused(
        values in samples(),
        quantile in quantiles(),
        confidence in 0.5_f64..0.999,
    ) {
        let count = values.len();
        match estimates(&values, &[quantile], confidence).remove(0) {
            Ok(estimate) => {
                prop_assert!(count >= quantile.minimum_count(confidence));
                prop_assert!(estimate.low <= estimate.value && estimate.value <= estimate.high);
            }
            Err(refusal) => {
                prop_assert_eq!(refusal.needs, quantile.minimum_count(confidence));
                prop_assert_eq!(refusal.has, count);
                prop_assert!(count < refusal.needs);
            }
        }
    }

    /// The minimum is the least count at which the whole range covers the quantile.
    #[test]
    fn the_minimum_count_is_where_an_interval_begins_to_exist(
        quantile in quantiles(),
        confidence in 0.5_f64..0.999,
    ) {
        let extreme = quantile.probability().max(1.0 - quantile.probability());
        let tail = (1.0 - confidence) / 2.0;
        let minimum = quantile.minimum_count(confidence);
        prop_assert!(extreme.powf(minimum as f64) <= tail * (1.0 + 1e-9));
        prop_assert!(minimum == 1 || extreme.powf(minimum as f64 - 1.0) > tail * (1.0 - 1e-9));
        prop_assert!(quantile.interval_ranks(minimum, confidence).is_some());
        prop_assert_eq!(quantile.interval_ranks(minimum - 1, confidence), None);
    }

    #[test]
    fn intervals_grow_with_confidence(quantile in quantiles(), count in 1_usize..100_000) {
        if let Some((low, high)) = quantile.interval_ranks(count, 0.99) {
            let (inner_low, inner_high) =
                quantile.interval_ranks(count, 0.9).expect("it exists where a wider one does");
            prop_assert!(low <= inner_low && inner_high <= high);
            prop_assert!(1 <= low && low <= high && high <= count);
        }
    }

    #[test]
    fn moments_follow_a_shift(values in prop::collection::vec(0_u64..1 << 30, 2..500)) {
        const SHIFT: u64 = 1 << 40;
        let shifted: Vec<u64> = values.iter().map(|value| value + SHIFT).collect();
        let plain = moments(&values).expect("values");
        let moved = moments(&shifted).expect("values");
        prop_assert_eq!(plain.deviation, moved.deviation);
        prop_assert!((moved.mean - plain.mean - SHIFT as f64).abs() <= 1e-3);
        prop_assert!(plain.minimum as f64 <= plain.mean && plain.mean <= plain.maximum as f64);
    }

    #[test]
    fn half_of_the_distances_are_within_the_absolute_deviation(values in samples()) {
        let centre = median(&values).expect("values");
        let deviation = median_absolute_deviation(&values).expect("values");
        let within = values
            .iter()
            .filter(|value| (**value as f64 - centre).abs() <= deviation)
            .count();
        prop_assert!(2 * within >= values.len());
        // Whole numbers are gone about in another way than floating ones.
        if values.iter().all(|value| *value < 1 << 52) {
            let floats: Vec<f64> = values.iter().map(|value| *value as f64).collect();
            prop_assert_eq!(median_absolute_deviation(&floats), Some(deviation));
        }
    }
}

/// The coverage that is promised, counted: the interval of the median of a known distribution.
#[test]
fn intervals_cover_the_true_quantile_as_often_as_they_say() {
    // A small linear congruential generator, so that the count below never changes.
    let mut state = 1_u64;
    let mut draw = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let truth = (1_u64 << 31) as f64 * 0.9;
    let rounds = 4000;
    let covered = (0..rounds)
        .filter(|_| {
            let values: Vec<u64> = (0..200).map(|_| draw()).collect();
            let estimate = estimates(&values, &[Quantile::P90], 0.95)[0].expect("enough values");
            estimate.low as f64 <= truth && truth <= estimate.high as f64
        })
        .count();
    // The binomial is discrete, so the coverage is a little more than asked: 95 to 98 %.
    let coverage = covered as f64 / f64::from(rounds);
    assert!((0.95..0.98).contains(&coverage), "covered {coverage}");
}

#[test]
fn a_large_sample_with_an_outlier_is_selected_exactly() {
    let count = 200_000_u64;
    // A permutation of a known range, and one value far away.
    let mut values: Vec<u64> = (0..count).map(|index| 5_000_000 + index * 7919 % count).collect();
    values.push(u64::MAX);
    let ranks = [1, 2, 100_000, 199_999, 200_000, 200_001];
    assert_eq!(
        order_statistics(&values, &ranks),
        [5_000_000, 5_000_001, 5_099_999, 5_199_998, 5_199_999, u64::MAX]
    );
}

#[test]
fn nothing_has_no_moments() {
    assert_eq!(moments::<u64>(&[]), None);
    assert_eq!(median::<f64>(&[]), None);
    assert_eq!(median_absolute_deviation::<u64>(&[]), None);
    assert_eq!(order_statistics::<u64>(&[], &[]), Vec::<u64>::new());
}

#[test]
#[should_panic(expected = "rank 4 among 3 values does not exist")]
fn a_rank_beyond_the_end_is_a_mistake() {
    order_statistics(&[1_u64, 2, 3], &[4]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Moved, stretched and mirrored values have moved, stretched and mirrored intervals.
    #[test]
    fn an_interval_that_holds_at_every_look_follows_its_values(
        values in prop::collection::vec(-1e3_f64..1e3, 12..60),
        move_by in -1e3_f64..1e3,
        stretch in prop_oneof![-10.0_f64..-0.1, 0.1_f64..10.0],
    ) {
        let of = |values: &[f64]| {
            always_valid_interval(values, 0.95).expect("values").interval.expect("enough")
        };
        let (low, high) = of(&values);
        let mean = moments(&values).expect("values").mean;
        prop_assert!(low <= mean && mean <= high);
        let other: Vec<f64> = values.iter().map(|value| move_by + stretch * value).collect();
        let (other_low, other_high) = of(&other);
        let mut expected = [low, high].map(|bound| move_by + stretch * bound);
        expected.sort_by(f64::total_cmp);
        let scale = 1e-9 * (high - low + 1e3) * stretch.abs().max(1.0);
        prop_assert!((other_low - expected[0]).abs() <= scale);
        prop_assert!((other_high - expected[1]).abs() <= scale);
        // A higher confidence contains a lower one.
        let wider = always_valid_interval(&values, 0.995).expect("values").interval.expect("enough");
        prop_assert!(wider.0 <= low && high <= wider.1);
    }

    #[test]
    fn the_middle_half_has_its_mean_within_the_quartiles(
        values in prop::collection::vec(-1e6_f64..1e6, 1..100),
    ) {
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = interquartile_mean(&values).expect("values");
        let (low, high) = (sorted[values.len() / 4], sorted[(3 * values.len()).div_ceil(4) - 1]);
        prop_assert!(low - 1e-6 <= middle && middle <= high + 1e-6, "{low} {middle} {high}");
    }
}
