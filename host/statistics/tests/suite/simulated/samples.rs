//! Tests of outliers, correlated series, resampling, tests and query counts.

use host_statistics::{
    MannWhitneyMethod, OutlierClass, Quantile, Random, Resampling, TooFew, TukeyFences, Undefined,
    autocorrelation, bca_interval, correlated_estimates, deviation_outliers, effective_size,
    estimates, hierarchical_interval, incomplete_beta, least_probability, mann_whitney,
    mean_interval, median, moments, normal_quantile, normal_tail, over_limit_allowed,
    percentile_interval, processes_interval, queries_for_percentile, queries_needed,
    sized_estimates, student_interval, student_quantile, tukey_outliers,
};
use proptest::prelude::*;

use super::synthetic::Noise;

fn values(size: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        prop::collection::vec(0_u64..1 << 40, size.clone()),
        prop::collection::vec(1_000_u64..1_010, size),
    ]
}

fn mean(values: &[f64]) -> f64 {
    moments(values).expect("values").mean
}

const RESAMPLING: Resampling = Resampling { resamples: 200, confidence: 0.9, seed: 7 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn quantiles_invert_their_distributions(
        probability in 1e-9_f64..0.5,
        degrees in 0.5_f64..1e4,
    ) {
        let deviate = normal_quantile(probability);
        prop_assert!((normal_tail(-deviate) / probability - 1.0).abs() < 1e-12);
        let deviate = student_quantile(probability, degrees);
        let inside = degrees / (degrees + deviate * deviate);
        // If the deviate is small, its square is lost beside the degrees of freedom.
        if deviate * deviate > 0.1 * degrees {
            let tail = incomplete_beta(inside, degrees / 2.0, 0.5) / 2.0;
            prop_assert!((tail / probability - 1.0).abs() < 1e-9);
        }
        prop_assert_eq!(student_quantile(1.0 - 0.25, degrees), -student_quantile(0.25, degrees));
    }

    #[test]
    fn the_beta_function_is_symmetric_and_binomial(
        x in 0.01_f64..0.99,
        within in 1_u32..30,
        over in 0_u32..30,
    ) {
        let (a, b) = (f64::from(within), f64::from(over + 1));
        let found = incomplete_beta(x, a, b);
        prop_assert!((found + incomplete_beta(1.0 - x, b, a) - 1.0).abs() < 1e-12);
        let trials = within + over;
        let mut weight = x.powi(trials as i32);
        let mut sum = weight;
        for failures in 1..=over {
            weight *= f64::from(trials - failures + 1) / f64::from(failures) * (1.0 - x) / x;
            sum += weight;
        }
        prop_assert!((found / sum - 1.0).abs() < 1e-11, "{} {}", found, sum);
    }

    #[test]
    fn every_outlier_is_outside_and_every_other_value_is_not(values in values(1..300)) {
        let fences = TukeyFences::of(&values).expect("values");
        let found = tukey_outliers(&values);
        let mut located = found.located.iter().peekable();
        for (index, &value) in values.iter().enumerate() {
            let range = fences.upper_quartile - fences.lower_quartile;
            let far = (value as f64 - fences.upper_quartile)
                .max(fences.lower_quartile - value as f64);
            let class = located.next_if(|(at, _)| *at == index).map(|(_, class)| *class);
            prop_assert_eq!(class.is_some(), far > 1.5 * range);
            let severe = matches!(class, Some(OutlierClass::SevereLow | OutlierClass::SevereHigh));
            prop_assert_eq!(severe, far > 3.0 * range);
        }
        // At least half lie between the quartiles.
        prop_assert!(2 * found.located.len() <= values.len());
    }

    #[test]
    fn outliers_do_not_depend_on_scale_and_place(values in values(1..300)) {
        let moved: Vec<u64> = values.iter().map(|value| 4 * value + 1000).collect();
        prop_assert_eq!(tukey_outliers(&values), tukey_outliers(&moved));
        prop_assert_eq!(deviation_outliers(&values), deviation_outliers(&moved));
    }

    #[test]
    fn a_series_is_worth_between_one_and_all_of_its_values(values in values(1..2000)) {
        let size = effective_size(&values);
        prop_assert!((1.0..=values.len() as f64).contains(&size), "{}", size);
        if let Some(found) = autocorrelation(&values, 10) {
            prop_assert!((found[0] - 1.0).abs() < 1e-12);
            prop_assert!(found.iter().all(|one| one.abs() <= 1.0 + 1e-9));
        }
    }

    #[test]
    fn ranks_for_fewer_values_are_wider_and_for_all_the_same(
        count in 400_usize..100_000,
        part in 0.1_f64..1.0,
    ) {
        let quantile = Quantile::P90;
        let all = quantile.interval_ranks(count, 0.95).expect("enough");
        let same = quantile.effective_interval_ranks(count, count as f64, 0.95);
        prop_assert_eq!(same, Some(all));
        let effective = count as f64 * part;
        match quantile.effective_interval_ranks(count, effective, 0.95) {
            Some((low, high)) => {
                prop_assert!(1 <= low && high <= count);
                // A rank of fewer values stands for several.
                let step = (1.0 / part).ceil() as usize;
                prop_assert!(low <= all.0 + step && high + step >= all.1);
            }
            None => prop_assert!((effective as usize) < quantile.minimum_count(0.95)),
        }
    }

    #[test]
    fn bootstrap_intervals_follow_a_shift(values in prop::collection::vec(0_u64..1 << 20, 2..40)) {
        const SHIFT: f64 = 4096.0;
        let floats: Vec<f64> = values.iter().map(|&value| value as f64).collect();
        let moved: Vec<f64> = floats.iter().map(|value| value + SHIFT).collect();
        let middle = |values: &[f64]| median(values).expect("values");
        let plain = percentile_interval(&floats, middle, &RESAMPLING);
        let other = percentile_interval(&moved, middle, &RESAMPLING);
        match (plain, other) {
            (Ok(plain), Ok(other)) => {
                prop_assert_eq!(plain.low + SHIFT, other.low);
                prop_assert_eq!(plain.high + SHIFT, other.high);
                prop_assert!(plain.low <= plain.high);
            }
            (plain, other) => prop_assert_eq!(plain, other),
        }
    }

    #[test]
    fn mann_whitney_mirrors_when_samples_are_exchanged(
        first in values(1..40),
        second in values(1..40),
    ) {
        let found = mann_whitney(&first, &second).expect("values");
        let mirrored = mann_whitney(&second, &first).expect("values");
        prop_assert_eq!(found.probability, mirrored.probability);
        prop_assert!((found.delta() + mirrored.delta()).abs() < 1e-12);
        prop_assert!(0.0 <= found.probability && found.probability <= 1.0);
        let mut larger = 0.0;
        for one in &first {
            for other in &second {
                larger += f64::from(one > other) + f64::from(one == other) / 2.0;
            }
        }
        prop_assert_eq!(found.statistic, larger);
    }

    /// The definition: the chance is small enough, and with one query fewer it is not.
    #[test]
    fn query_counts_are_the_smallest(over in 0_u64..200, percent in 50_u32..100) {
        let quantile = Quantile::new(percent, 100).expect("a fraction");
        let total = queries_needed(quantile, over, 0.99);
        let chance = |within: u64| {
            incomplete_beta(quantile.probability(), within as f64, over as f64 + 1.0)
        };
        prop_assert!(chance(total - over) <= 0.01 + 1e-12);
        prop_assert!(total - over == 1 || chance(total - over - 1) > 0.01 - 1e-12);
        prop_assert_eq!(over_limit_allowed(quantile, total, 0.99), Some(over));
    }
}

#[test]
fn outliers_of_each_class_are_counted_and_located() {
    let mut values: Vec<f64> = (0..100).map(f64::from).collect();
    // With these the quartiles are 23 and 75, so that the fences are −55, 153, −133 and 231.
    values.splice(10..10, [-200.0, -60.0, -55.0]);
    values.extend([153.0, 154.0]);
    let fences = TukeyFences::of(&values).expect("values");
    assert_eq!((fences.lower_quartile, fences.upper_quartile), (23.0, 75.0));
    let found = tukey_outliers(&values);
    assert_eq!(
        [found.severe_low, found.mild_low, found.mild_high, found.severe_high],
        [1, 1, 1, 0]
    );
    use OutlierClass::{MildHigh, MildLow, SevereHigh, SevereLow};
    assert_eq!(found.located, [(10, SevereLow), (11, MildLow), (104, MildHigh)]);
    assert_eq!(fences.class(232.0), Some(SevereHigh));
    assert_eq!(deviation_outliers(&values), Ok(vec![10]));
}

#[test]
fn equal_values_have_no_modified_score() {
    assert_eq!(deviation_outliers(&[5_u64, 5, 5, 9]), Err(Undefined::NoSpread));
    assert_eq!(deviation_outliers::<u64>(&[]), Err(Undefined::TooFew(TooFew { needs: 1, has: 0 })));
    assert_eq!(tukey_outliers(&[5_u64, 5, 5, 9]).severe_high, 1);
    assert_eq!(tukey_outliers::<u64>(&[]).located, []);
}

#[test]
fn constant_and_empty_series_have_no_autocorrelation() {
    assert_eq!(autocorrelation(&[7_u64; 10], 3), None);
    assert_eq!(autocorrelation::<u64>(&[], 3), None);
    assert_eq!(autocorrelation(&[1_u64, 2], 3).expect("spread").len(), 2);
    assert_eq!(effective_size(&[7_u64; 10]), 10.0);
    assert_eq!(effective_size::<u64>(&[]), 0.0);
    // Alternating values say more of their mean than independent ones; no more is claimed.
    let alternating: Vec<u64> = (0..1000).map(|index| index % 2).collect();
    assert_eq!(effective_size(&alternating), 1000.0);
}

#[test]
fn an_autoregression_is_worth_what_theory_says() {
    let count = 20_000;
    for coefficient in [0.0, 0.5, 0.9, 0.99] {
        let noise = Noise::Autocorrelated(coefficient);
        // Of logarithms, for which the theory is.
        let factors = noise.factors(count, 1.0, &mut Random::from_seed(3));
        let series: Vec<f64> = factors.iter().map(|factor| factor.ln()).collect();
        let found = effective_size(&series);
        let expected = count as f64 * (1.0 - coefficient) / (1.0 + coefficient);
        let allowed = if coefficient > 0.95 { 1.6 } else { 1.15 };
        assert!(
            found < expected * allowed && expected < found * allowed,
            "{coefficient}: {found}, in theory {expected}"
        );
    }
}

/// Long series are averaged in bins first, which must not change their effective size.
#[test]
fn a_long_series_is_worth_what_theory_says() {
    let count = 400_000;
    for coefficient in [0.0, 0.5, 0.9] {
        let noise = Noise::Autocorrelated(coefficient);
        let factors = noise.factors(count, 1.0, &mut Random::from_seed(5));
        let series: Vec<f64> = factors.iter().map(|factor| factor.ln()).collect();
        let expected = count as f64 * (1.0 - coefficient) / (1.0 + coefficient);
        let ratio = effective_size(&series) / expected;
        assert!((0.94..1.06).contains(&ratio), "{coefficient}: {ratio}");

        // Of rare values: one in a thousand.
        let found = sized_estimates(&series, &[Quantile::P99_9], 0.95)[0].expect("enough");
        let ratio = found.effective_size / count as f64;
        let allowed = if coefficient == 0.0 { 0.97..1.01 } else { 0.1..1.0 };
        assert!(allowed.contains(&ratio), "{coefficient}: {ratio}");
    }
}

#[test]
fn a_drifting_series_is_worth_a_handful() {
    let drifting: Vec<u64> = (0..100_000).collect();
    let size = effective_size(&drifting);
    assert!(size < 10.0, "{size}");
}

#[test]
fn independent_values_get_the_intervals_of_independent_values() {
    let values = Noise::Lognormal.factors(2000, 0.1, &mut Random::from_seed(1));
    let correlated = correlated_estimates(&values, &[Quantile::P50], 0.95)[0].expect("enough");
    let plain = estimates(&values, &[Quantile::P50], 0.95)[0].expect("enough");
    assert_eq!(correlated.value, plain.value);
    let ratio = (correlated.high - correlated.low) / (plain.high - plain.low);
    assert!((0.95..1.2).contains(&ratio), "{ratio}");
}

#[test]
fn too_short_series_are_refused_by_what_they_are_worth() {
    assert_eq!(
        correlated_estimates(&[1_u64; 50], &[Quantile::P99], 0.95),
        [Err(TooFew { needs: 368, has: 50 })]
    );
    let drifting: Vec<u64> = (0..5000).collect();
    let refused = correlated_estimates(&drifting, &[Quantile::P90], 0.95)[0];
    assert!(matches!(refused, Err(TooFew { needs: 36, has: 0..36 })), "{refused:?}");
    // The count still carries the value.
    let sized = sized_estimates(&drifting, &[Quantile::P90], 0.95)[0].expect("enough values");
    assert_eq!((sized.value, sized.interval), (4499, None));
    assert_eq!(mean_interval(&[3_u64], 0.95), Err(TooFew { needs: 2, has: 1 }));
    assert_eq!(mean_interval::<u64>(&[], 0.95), Err(TooFew { needs: 2, has: 0 }));
}

#[test]
fn the_mean_of_two_independent_values_has_the_textbooks_interval() {
    let found = mean_interval(&[1.0, 3.0], 0.95).expect("two values");
    // t is 12.706 for one degree of freedom, and the standard error 1.
    assert_eq!(found.value, 2.0);
    assert!((found.high - 14.706_204_736_432_095).abs() < 1e-9, "{found:?}");
    assert!((found.low + 10.706_204_736_432_095).abs() < 1e-9, "{found:?}");
}

#[test]
fn bootstraps_without_spread_are_refused() {
    let refused = Err(Undefined::TooFew(TooFew { needs: 2, has: 1 }));
    assert_eq!(percentile_interval(&[1.0], mean, &RESAMPLING), refused);
    assert_eq!(bca_interval(&[1.0], mean, &RESAMPLING).map(|found| found.interval), refused);
    assert_eq!(percentile_interval(&[1.0; 9], mean, &RESAMPLING), Err(Undefined::NoSpread));
    assert_eq!(bca_interval(&[1.0; 9], mean, &RESAMPLING), Err(Undefined::NoSpread));
    // No resample has as many different values as the sample, so that all lie below it.
    let different = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted.dedup();
        sorted.len() as f64 + mean(values) * 1e-6
    };
    let many: Vec<f64> = (0..200).map(f64::from).collect();
    let found = bca_interval(&many, different, &RESAMPLING);
    assert_eq!(found, Err(Undefined::OutsideResamples));
}

#[test]
#[should_panic(expected = "30 resamples have no tails to read at 0.95")]
fn too_few_resamples_are_a_mistake() {
    let _ = percentile_interval(
        &[1.0, 2.0],
        mean,
        &Resampling { resamples: 30, confidence: 0.95, seed: 1 },
    );
}

#[test]
fn processes_are_refused_below_two() {
    let one: &[f64] = &[1.0, 2.0, 3.0];
    let refused = Err(Undefined::TooFew(TooFew { needs: 2, has: 1 }));
    assert_eq!(hierarchical_interval(&[one], mean, &RESAMPLING), refused);
    assert_eq!(student_interval(&[one], mean, 0.9), refused);
    assert_eq!(
        student_interval(&[one, &[]], mean, 0.9),
        Err(Undefined::TooFew(TooFew { needs: 1, has: 0 }))
    );
    assert_eq!(student_interval(&[one, one], mean, 0.9), Err(Undefined::NoSpread));

    let mut random = Random::from_seed(1);
    let processes: Vec<Vec<f64>> = (0..30)
        .map(|_| {
            let level = Noise::Lognormal.factors(1, 0.1, &mut random)[0];
            Noise::Lognormal.factors(20, 0.01, &mut random).iter().map(|one| level * one).collect()
        })
        .collect();
    let processes: Vec<&[f64]> = processes.iter().map(Vec::as_slice).collect();
    let interval = processes_interval(&processes, mean, 0.95).expect("defined");
    assert!(interval.low < interval.value && interval.value < interval.high);
    assert!((0.05..0.1).contains(&(interval.high - interval.low)), "{interval:?}");
}

#[test]
fn an_interval_over_processes_of_what_cannot_be_negative_stays_above_zero() {
    let over = |values: &[f64]| {
        let processes: Vec<&[f64]> = values.chunks(1).collect();
        processes_interval(&processes, mean, RESAMPLING.confidence)
    };
    // Student's t with 2 degrees of freedom at 90 % is 2.92, times 10 / √3: 16.86.
    assert_eq!(over(&[0.0, 10.0, 20.0]), Err(Undefined::BelowZero));
    assert!(over(&[10.0, 20.0, 30.0]).expect("it stays above").low > 3.0);
    // A negative value of a process may be in the interval.
    assert!(over(&[-1.0, 10.0, 20.0]).expect("an interval").low < -1.0);
}

#[test]
fn the_exact_test_counts_orders() {
    // Of the C(6, 3) = 20 orders two are as far apart as this one.
    let found = mann_whitney(&[4_u64, 5, 6], &[1, 2, 3]).expect("values");
    assert_eq!((found.statistic, found.first_larger, found.delta()), (9.0, 1.0, 1.0));
    assert_eq!(found.method, MannWhitneyMethod::Exact);
    assert!((found.probability - 0.1).abs() < 1e-15);
    assert!((least_probability(3, 3) - 0.1).abs() < 1e-15);
    assert!((least_probability(2, 5) - 2.0 / 21.0).abs() < 1e-15);
    assert_eq!((least_probability(1, 1), least_probability(0, 4)), (1.0, 1.0));
    let refused = Err(Undefined::TooFew(TooFew { needs: 1, has: 0 }));
    assert_eq!(mann_whitney(&[1_u64], &[]), refused);
    assert_eq!(mann_whitney(&[], &[1_u64]), refused);
    // Largest number of pairs that is counted, and one sample more.
    let many: Vec<u64> = (8..8 + (1 << 17)).collect();
    let few: Vec<u64> = (0..8).collect();
    let found = mann_whitney(&few, &many).expect("values");
    assert_eq!(found.method, MannWhitneyMethod::Exact);
    assert!(0.0 < found.probability && found.probability < 1e-30);
    let more: Vec<u64> = (8..9 + (1 << 17)).collect();
    let found = mann_whitney(&few, &more).expect("values");
    assert_eq!(found.method, MannWhitneyMethod::Asymptotic);
}

/// The figures that MLPerf publishes.
#[test]
fn mlperfs_query_counts() {
    let all = [Quantile::P90, Quantile::P99, Quantile::P99_9];
    assert_eq!(all.map(|quantile| queries_needed(quantile, 1, 0.99)), [64, 662, 6636]);
    assert_eq!(all.map(|quantile| queries_needed(quantile, 0, 0.99)), [44, 459, 4603]);
    assert_eq!(queries_for_percentile(Quantile::P90, 0.99), 24_576);
    assert_eq!(queries_for_percentile(Quantile::P99, 0.99), 270_336);
    assert_eq!(over_limit_allowed(Quantile::P90, 43, 0.99), None);
    assert_eq!(over_limit_allowed(Quantile::P90, 63, 0.99), Some(0));
    assert_eq!(over_limit_allowed(Quantile::P90, 64, 0.99), Some(1));
}
