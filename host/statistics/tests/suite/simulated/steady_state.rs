//! Steady state: planted changes are found, and nothing else. `examples/proof.rs` counts more
//! series.

use host_statistics::{
    ProcessClass, Random, STEADY_STATE_TOLERANCE, STEADY_STATE_VALUES, SteadyClass, SteadyState,
    TooFew, Undefined, classify_processes, drift, steady_state,
};
use proptest::prelude::*;

use super::synthetic::{CHANGING, DEVIATIONS, NOISES, Noise, Pattern, Score, plant};

fn found(values: &[f64]) -> SteadyState {
    steady_state(values, STEADY_STATE_TOLERANCE).expect("enough values")
}

fn scatter(count: usize, deviation: f64, seed: u64) -> Vec<f64> {
    Noise::Lognormal.factors(count, deviation, &mut Random::from_seed(seed))
}

#[test]
fn planted_changes_are_found_and_flat_series_are_flat() {
    let mut changing = Score::default();
    let mut flat = Score::default();
    let mut round = 0_u64;
    for pattern in CHANGING {
        for (_, noise) in NOISES {
            let deviation = DEVIATIONS[round as usize % DEVIATIONS.len()];
            let mut random = Random::from_seed(round);
            round += 1;
            for (pattern, score) in [(pattern, &mut changing), (Pattern::Flat, &mut flat)] {
                let planted = plant(pattern, noise, 500, deviation, &mut random);
                let found = found(&planted.values);
                let points: Vec<usize> = found.change_points().collect();
                score.add(&planted, &points, found.class);
            }
        }
    }
    assert!(changing.precision() >= 0.95, "precision {}", changing.precision());
    assert!(changing.recall() >= 0.95, "recall {}", changing.recall());
    assert!(changing.right_class() >= 0.95, "right class {}", changing.right_class());
    assert!(flat.right_class() >= 0.98, "false alarms {}", 1.0 - flat.right_class());
}

#[test]
fn each_class_is_told_by_its_shape() {
    let shape = |levels: &[(usize, f64)]| {
        let count = levels.iter().map(|(count, _)| count).sum();
        let levels = levels.iter().flat_map(|&(count, level)| std::iter::repeat_n(level, count));
        let values: Vec<f64> =
            levels.zip(scatter(count, 0.01, 1)).map(|(level, factor)| level * factor).collect();
        found(&values)
    };
    let edges = |found: &SteadyState| found.change_points().collect::<Vec<_>>();

    let flat = shape(&[(300, 1.0)]);
    assert_eq!((flat.class, flat.steady_from()), (SteadyClass::Flat, Some(0)));
    assert_eq!(flat.segments.len(), 1);
    assert!((flat.segments[0].level - 1.0).abs() < 0.005, "{flat:?}");

    let warm_up = shape(&[(50, 1.3), (250, 1.0)]);
    assert_eq!((warm_up.class, warm_up.steady_from()), (SteadyClass::WarmUp, Some(50)));
    assert_eq!(edges(&warm_up), [50]);
    assert_eq!(warm_up.segments[1].range, 50..300);

    let slow_down = shape(&[(150, 1.0), (150, 1.1)]);
    assert_eq!((slow_down.class, slow_down.steady_from()), (SteadyClass::SlowDown, Some(150)));

    let phase = shape(&[(100, 1.0), (100, 1.2), (100, 1.0)]);
    assert_eq!((phase.class, phase.steady_from()), (SteadyClass::WarmUp, Some(200)));
    assert_eq!(edges(&phase), [100, 200]);

    let late = shape(&[(250, 1.0), (50, 1.2)]);
    assert_eq!((late.class, late.steady_from()), (SteadyClass::NoSteadyState, None));
    assert_eq!(edges(&late), [250]);

    // A change of less than the tolerance is none that matters.
    assert_eq!(shape(&[(150, 1.008), (150, 1.0)]).class, SteadyClass::Flat);
}

#[test]
fn a_few_slow_values_at_the_start_are_a_warm_up_and_one_is_not() {
    let start = |slow: &[f64]| {
        let mut values = scatter(2000, 0.05, 2);
        values[..slow.len()].copy_from_slice(slow);
        found(&values).steady_from()
    };
    assert_eq!(start(&[40.0, 9.0, 3.0]), Some(3));
    assert_eq!(start(&[40.0]), Some(0));
    // Elsewhere three are stalls.
    let mut values = scatter(2000, 0.05, 2);
    values[700..703].fill(40.0);
    assert_eq!(found(&values).class, SteadyClass::Flat);
}

#[test]
fn the_edge_is_found_to_the_value_in_a_long_series() {
    let mut values = scatter(50_000, 0.02, 3);
    values[..12_345].iter_mut().for_each(|value| *value *= 1.3);
    assert_eq!(found(&values).change_points().collect::<Vec<_>>(), [12_345]);
    let mut values = scatter(50_000, 0.02, 3);
    values[..50].iter_mut().for_each(|value| *value *= 1.3);
    assert_eq!(found(&values).change_points().collect::<Vec<_>>(), [50]);
}

#[test]
fn a_series_that_never_settles_has_no_steady_state() {
    let rising: Vec<f64> = scatter(1000, 0.01, 4)
        .iter()
        .enumerate()
        .map(|(index, factor)| factor * (1.0 + index as f64 / 1000.0))
        .collect();
    assert_eq!(found(&rising).class, SteadyClass::NoSteadyState);
    assert!((drift(&rising).expect("enough") - 1.0 / 1.5).abs() < 0.02);
}

/// In an open loop a slow query makes those behind it wait, so a slope comes with noise that lasts as
/// long.
#[test]
fn a_noisy_slope_without_a_step_is_not_flat() {
    for seed in 0..20 {
        let mut random = Random::from_seed(seed);
        let mut queue = 0.0_f64;
        let values: Vec<f64> = scatter(1000, 0.02, seed)
            .into_iter()
            .enumerate()
            .map(|(index, factor)| {
                if random.below(100) == 0 {
                    queue += 3.0;
                }
                queue = (queue - 0.2).max(0.0);
                (2.0 - index as f64 / 1000.0) * factor + queue
            })
            .collect();
        assert_ne!(found(&values).class, SteadyClass::Flat, "seed {seed}");
    }
}

#[test]
fn values_without_spread_are_flat() {
    assert_eq!(steady_state(&[7_u64; 100], 0.01).expect("enough").class, SteadyClass::Flat);
    assert_eq!(steady_state(&[0_u64; 100], 0.01).expect("enough").class, SteadyClass::Flat);
    let mut two_levels = [7_u64; 100];
    two_levels[..30].fill(9);
    let found = steady_state(&two_levels, 0.01).expect("enough");
    assert_eq!((found.class, found.steady_from()), (SteadyClass::WarmUp, Some(30)));
    assert_eq!(found.segments[0].level, 9.0);
}

#[test]
fn short_series_are_refused() {
    let refused = Undefined::TooFew(TooFew { needs: STEADY_STATE_VALUES, has: 39 });
    assert_eq!(steady_state(&[1_u64; 39], 0.01), Err(refused));
    assert_eq!(drift(&[1_u64; 39]), Err(refused));
    assert_eq!(drift(&[0_u64; 40]), Err(Undefined::NoSpread));
}

#[test]
fn drift_is_not_tilted_by_stalls_and_warm_up() {
    let mut values = scatter(2000, 0.05, 5);
    values[..100].fill(10.0);
    values.iter_mut().step_by(50).for_each(|value| *value = 20.0);
    let found = drift(&values).expect("enough");
    assert!(found.abs() < 0.015, "{found}");
}

#[test]
fn processes_are_consistent_or_not() {
    use SteadyClass::{Flat, WarmUp};
    assert_eq!(classify_processes(&[]), None);
    assert_eq!(classify_processes(&[WarmUp, WarmUp]), Some(ProcessClass::Consistent(WarmUp)));
    assert_eq!(classify_processes(&[WarmUp, Flat]), Some(ProcessClass::Inconsistent));
}

/// Factors that wander by a small part: an autoregression with this coefficient and these innovations.
fn wander(count: usize, coefficient: f64, innovation: f64, random: &mut Random) -> Vec<f64> {
    let deviation = innovation / (1.0 - coefficient * coefficient).sqrt();
    Noise::Autocorrelated(coefficient).factors(count, deviation, random)
}

/// In ranks the step looks like a drift that is a thousand times smaller.
#[test]
fn an_obvious_step_is_found_whatever_the_autocorrelation() {
    for seed in 0..25 {
        for coefficient in [0.8, 0.95] {
            let random = &mut Random::from_seed(seed);
            let level = wander(181, coefficient, 0.0005, random);
            let mut step = level.clone();
            step[50..].iter_mut().for_each(|value| *value *= 2.0);
            let step = found(&step);
            let points: Vec<usize> = step.change_points().collect();
            assert_eq!((step.class, points), (SteadyClass::SlowDown, vec![50]), "seed {seed}");

            let mut phase = level.clone();
            phase[50..90].iter_mut().for_each(|value| *value *= 1.2);
            let phase = found(&phase);
            let points: Vec<usize> = phase.change_points().collect();
            assert_eq!((phase.class, points), (SteadyClass::WarmUp, vec![50, 90]), "seed {seed}");
        }
    }
    // Here the ranks of all values are a straight line.
    let line = |index: usize| 1.0 + index as f64 / 10_000.0;
    let values: Vec<f64> =
        (0..181).map(|index| if index < 50 { line(index) } else { 2.0 * line(index) }).collect();
    assert_eq!(found(&values).change_points().collect::<Vec<_>>(), [50]);
}

#[test]
fn a_slow_wander_is_no_obvious_step() {
    for (coefficient, deviation) in [(0.9, 0.05), (0.999, 0.003)] {
        let mut flat = 0;
        for seed in 0..100 {
            let random = &mut Random::from_seed(seed);
            let values = Noise::Autocorrelated(coefficient).factors(1000, deviation, random);
            flat += u32::from(found(&values).class == SteadyClass::Flat);
        }
        assert!(flat >= 98, "φ = {coefficient}: {flat} of 100 are flat");
    }
}

/// Ranks detect a shift of a thousandth if modes are narrow, and levels differ by chance with the number
/// of values per mode.
#[test]
fn modes_that_move_by_less_than_the_tolerance_are_flat() {
    for (share, deviation) in [(0.3, 0.0005), (0.5, 0.001)] {
        for shift in [1.0, 1.001, 1.002, 1.003] {
            let mut flat = 0;
            for seed in 0..25 {
                let mut random = Random::from_seed(seed);
                let mut values = scatter(300, deviation, seed);
                for (index, value) in values.iter_mut().enumerate() {
                    *value *= if random.uniform() < share { 2.0 } else { 1.0 };
                    *value *= if index < 120 { shift } else { 1.0 };
                }
                flat += u32::from(found(&values).class == SteadyClass::Flat);
            }
            assert!(flat >= 24, "moved by {shift}: {flat} of 25 are flat");
        }
    }
}

/// The lower mode does not move, and neither does the median.
#[test]
fn a_second_mode_that_comes_up_is_a_slow_down() {
    for seed in 0..20 {
        let mut random = Random::from_seed(seed);
        let mut values = scatter(1000, 0.001, seed);
        for (index, value) in values.iter_mut().enumerate() {
            let share = if index < 400 { 0.1 } else { 0.4 };
            *value *= if random.uniform() < share { 2.0 } else { 1.0 };
        }
        assert_eq!(found(&values).class, SteadyClass::SlowDown, "seed {seed}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn segments_cover_the_series_and_their_levels_differ(
        parts in prop::collection::vec((20_usize..80, 1000_u64..1200), 2..5),
        wobble in prop::collection::vec(0_u64..30, 400),
    ) {
        let levels = parts.iter().flat_map(|&(count, level)| std::iter::repeat_n(level, count));
        let values: Vec<u64> = levels.zip(&wobble).map(|(level, wobble)| level + wobble).collect();
        let found = steady_state(&values, STEADY_STATE_TOLERANCE).expect("enough values");
        prop_assert_eq!(found.segments[0].range.start, 0);
        prop_assert_eq!(found.segments.last().expect("one").range.end, values.len());
        for pair in found.segments.windows(2) {
            prop_assert_eq!(pair[0].range.end, pair[1].range.start);
            let difference = (pair[0].level - pair[1].level).abs();
            prop_assert!(difference > STEADY_STATE_TOLERANCE * pair[1].level);
        }
        // A single segment is flat, unless it slopes throughout.
        let is_one = found.segments.len() == 1;
        let slopes = drift(&values).is_ok_and(|part| part.abs() >= 0.05);
        match found.class {
            SteadyClass::Flat => prop_assert!(is_one),
            SteadyClass::NoSteadyState => prop_assert!(!is_one || slopes),
            SteadyClass::WarmUp | SteadyClass::SlowDown => prop_assert!(!is_one),
        }
        prop_assert_eq!(found.steady_from().is_none(), found.class == SteadyClass::NoSteadyState);

        // In another unit it is the same series.
        let scaled: Vec<u64> = values.iter().map(|value| value * 1024).collect();
        let again = steady_state(&scaled, STEADY_STATE_TOLERANCE).expect("enough values");
        prop_assert_eq!(again.class, found.class);
        prop_assert!(again.change_points().eq(found.change_points()));
    }
}
