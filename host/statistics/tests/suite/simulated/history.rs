//! Changes of level in series of results: planted ones are found, and few others.

use host_statistics::{FALSE_ALARMS, Random, levels};

use super::planted::{Noise, Score, normal, planted};

#[test]
fn planted_steps_are_found_where_they_are() {
    for (noise, precision, recall) in
        [(Noise::Plain, 0.95, 0.75), (Noise::Outliers, 0.9, 0.7), (Noise::Correlated, 0.65, 0.3)]
    {
        let mut score = Score::default();
        for series in planted(300, 7).iter().filter(|series| series.noise == noise) {
            let found = levels(&series.values, 0.95).expect("enough values");
            let found: Vec<usize> = found.changes.iter().map(|change| change.index).collect();
            score.add(&series.changes, &found);
        }
        assert!(score.precision() >= precision && score.recall() >= recall, "{noise:?}: {score:?}");
        assert!(score.alarms as f64 <= 0.15 * score.flat as f64, "{noise:?}: {score:?}");
    }
}

/// Of a thousand series without a change, ten may have one. Twenty would be seen by chance in less than 1 in 200.
#[test]
fn series_without_a_change_rarely_have_one() {
    let mut random = Random::from_seed(8);
    for (name, value) in [
        ("normal", (|random| 100.0 + normal(random)) as fn(&mut Random) -> f64),
        ("lognormal", |random| normal(random).exp()),
    ] {
        let (mut changes, mut drifts) = (0, 0);
        for _ in 0..1000 {
            let values: Vec<f64> = (0..50).map(|_| value(&mut random)).collect();
            let found = levels(&values, 0.95).expect("enough values");
            changes += usize::from(!found.changes.is_empty());
            drifts += usize::from(found.drift.is_some());
        }
        let most = (2.0 * FALSE_ALARMS * 1000.0) as usize;
        assert!(changes <= most && drifts <= most, "{name}: {changes} changes, {drifts} drifts");
    }
}
