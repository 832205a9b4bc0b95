//! Comparisons find as much as they say, and no more.

use host_statistics::{
    Random, false_discovery_rates, normal_quantile, prediction_interval, ratio, student_interval,
    student_quantile,
};

const CONFIDENCE: f64 = 0.95;

/// Returns a value for each process: lognormal around `level`.
fn processes(count: usize, level: f64, spread: f64, random: &mut Random) -> Vec<f64> {
    let mut one = || level * (spread * normal_quantile(random.uniform())).exp();
    (0..count).map(|_| one()).collect()
}

fn share(rounds: u64, found: impl Fn(&mut Random) -> bool) -> f64 {
    let found = (0..rounds).filter(|seed| found(&mut Random::from_seed(*seed)));
    found.count() as f64 / rounds as f64
}

const ROUNDS: u64 = 4000;

/// Five processes whose interval has a half width of 14 %, and a change of 20 %.
#[test]
fn a_test_of_the_ratio_finds_what_intervals_that_overlap_hide() {
    let spread = 0.14 * 5_f64.sqrt() / student_quantile(0.975, 4.0);
    let pair = |random: &mut Random| {
        [processes(5, 1.0, spread, random), processes(5, 1.2, spread, random)]
    };
    let by_ratio = share(ROUNDS, |random| {
        let [before, after] = pair(random);
        ratio(&before, &after, CONFIDENCE).expect("values that differ").low > 1.0
    });
    let by_overlap = share(ROUNDS, |random| {
        let interval = |values: &[f64]| {
            let values: Vec<&[f64]> = values.chunks(1).collect();
            student_interval(&values, |one| one[0], CONFIDENCE).expect("values that differ")
        };
        let [before, after] = pair(random);
        interval(&before).high < interval(&after).low
    });
    assert!((0.5..0.7).contains(&by_ratio), "{by_ratio}");
    assert!(by_overlap < 0.25, "{by_overlap}");
}

#[test]
fn equal_samples_differ_no_more_often_than_stated() {
    for (first, second) in [(2, 2), (2, 5), (3, 3), (5, 5), (20, 4)] {
        for spreads in [[0.02, 0.02], [0.01, 0.1]] {
            let found = share(ROUNDS, |random| {
                let before = processes(first, 3.0, spreads[0], random);
                let after = processes(second, 3.0, spreads[1], random);
                let found = ratio(&before, &after, CONFIDENCE).expect("values that differ");
                // The interval and the probability agree.
                assert_eq!(found.low > 1.0 || found.high < 1.0, found.probability < 0.05);
                found.probability < 0.05
            });
            // The approximation of the degrees of freedom is known to be liberal with few values, by 2 % if one sample
            // has two.
            assert!(found <= 0.08, "{first} and {second}, {spreads:?}: {found}");
        }
    }
}

#[test]
fn what_could_have_been_seen_is_seen_as_often_as_stated() {
    for count in [3, 5, 10] {
        let spread = 0.05;
        let freedom = 2.0 * (count as f64 - 1.0);
        let error = spread * (2.0 / count as f64).sqrt();
        let steps = student_quantile(0.975, freedom) + student_quantile(0.8, freedom);
        let change = (steps * error).exp();
        let (mut stated, mut seen) = (0.0, 0);
        for seed in 0..ROUNDS {
            let random = &mut Random::from_seed(seed);
            let before = processes(count, 1.0, spread, random);
            let after = processes(count, change, spread, random);
            let found = ratio(&before, &after, CONFIDENCE).expect("values that differ");
            stated += found.detectable(0.8, 1).ln() / ROUNDS as f64;
            seen += u64::from(found.probability < 0.05);
        }
        let seen = seen as f64 / ROUNDS as f64;
        // With three values the degrees of freedom vary much.
        let least = if count == 3 { 0.65 } else { 0.74 };
        assert!((least..0.86).contains(&seen), "{count}: {seen}");
        assert!((stated / change.ln() - 1.0).abs() < 0.25, "{count}: {stated} and {}", change.ln());
    }
}

#[test]
fn of_many_comparisons_few_findings_are_false() {
    let (mut part, mut found) = (0.0, 0);
    let rounds = 200;
    for seed in 0..rounds {
        let random = &mut Random::from_seed(seed);
        let probabilities: Vec<f64> = (0..100)
            .map(|case| {
                let change = if case < 20 { 1.2 } else { 1.0 };
                let before = processes(5, 1.0, 0.05, random);
                let after = processes(5, change, 0.05, random);
                ratio(&before, &after, CONFIDENCE).expect("values that differ").probability
            })
            .collect();
        let rates = false_discovery_rates(&probabilities);
        let findings =
            |cases: std::ops::Range<usize>| cases.filter(|case| rates[*case] <= 0.05).count();
        let (real, wrong) = (findings(0..20), findings(20..100));
        part += wrong as f64 / ((real + wrong).max(1) as f64 * rounds as f64);
        found += real;
    }
    assert!(part <= 0.055, "{part}");
    assert!(found > 15 * rounds as usize, "{found}");
}

/// The winner of `count` equal configurations, by three processes each, is called certain if it beats each other one
/// at the level for the number of others.
#[test]
fn the_best_of_equals_is_seldom_certain() {
    for count in [2, 3, 10] {
        let level = (1.0 - CONFIDENCE) / (count - 1) as f64;
        let certain = share(ROUNDS, |random| {
            let mut all: Vec<Vec<f64>> =
                (0..count).map(|_| processes(3, 1.0, 0.03, random)).collect();
            let mean = |values: &[f64]| values.iter().sum::<f64>();
            all.sort_by(|one, other| mean(one).total_cmp(&mean(other)));
            let best = all.remove(0);
            all.iter().all(|other| {
                ratio(&best, other, CONFIDENCE).expect("values that differ").probability < level
            })
        });
        assert!(certain <= 1.0 - CONFIDENCE + 0.01, "{count}: {certain}");
    }
}

#[test]
fn a_prediction_interval_has_the_next_process_in_it() {
    for count in [2, 3, 5, 10] {
        let (mut stated, mut held, mut mean) = (0, 0, 0);
        for seed in 0..ROUNDS {
            let random = &mut Random::from_seed(seed);
            let mut values: Vec<f64> =
                (0..=count).map(|_| 100.0 + normal_quantile(random.uniform())).collect();
            let next = values.pop().expect("one more");
            let Ok((low, high)) = prediction_interval(&values, CONFIDENCE) else { continue };
            stated += 1;
            held += u64::from(low <= next && next <= high);
            let of_mean: Vec<&[f64]> = values.chunks(1).collect();
            let of_mean = student_interval(&of_mean, |one| one[0], CONFIDENCE).expect("values");
            mean += u64::from(of_mean.low <= next && next <= of_mean.high);
        }
        let part = |held: u64| held as f64 / stated as f64;
        assert!((0.94..0.96).contains(&part(held)), "{count}: {}", part(held));
        // The interval of the mean has not; the less so, the better the mean is known.
        assert!(part(mean) < 0.93 && (count < 5 || part(mean) < 0.8), "{count}: {}", part(mean));
        assert!(stated as f64 > 0.9 * ROUNDS as f64);
    }
}
