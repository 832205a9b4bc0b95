//! scratch
use host_statistics::*;
#[path = "../tests/synthetic/mod.rs"]
mod synthetic;
use synthetic::*;
fn main() {
    for (name, noise) in NOISES {
        for pattern in CHANGING.into_iter().chain([Pattern::Flat]) {
            let mut score = Score::default();
            for round in 0..50usize {
                let mut random = Random::from_seed(round as u64 * 7919 + 13);
                let count = [500, 1000, 2000, 5000][round % 4];
                let planted = plant(pattern, noise, count, DEVIATIONS[round % 5], &mut random);
                let found = steady_state(&planted.values, STEADY_STATE_TOLERANCE).unwrap();
                let points: Vec<usize> = found.change_points().collect();
                let before = score.hits * 1000 - score.false_points;
                score.add(&planted, &points, found.class);
                if std::env::var("V").is_ok()
                    && (score.hits * 1000 - score.false_points)
                        != before + planted.changes.len() * 1000
                {
                    println!(
                        "{name} {pattern:?} n={count} cv={} want {:?} got {:?} {:?}",
                        DEVIATIONS[round % 5],
                        planted.changes,
                        points,
                        found
                            .segments
                            .iter()
                            .map(|s| (s.level / 1e4).round() / 100.0)
                            .collect::<Vec<_>>()
                    );
                }
            }
            println!(
                "{name} {pattern:?}: precision {:.3} recall {:.3} class {:.2} alarms {:.3}",
                score.precision(),
                score.recall(),
                score.right_class as f64 / score.series as f64,
                score.changing as f64 / score.series as f64
            );
        }
    }
}
