//! Series of results with planted changes, and the changes that are found in them, as one line of JSON; and how often a
//! change is found in a series without one. All numbers follow from the seeds.
//!
//! `history [SEED [COUNT [FLAT]]]`: the seed and the number of the planted series, and the number of series without a
//! change of each kind.
//!
//! `history score`: reads the planted series and what was found in them from standard input, and prints the score.

#![expect(clippy::print_stdout, reason = "the line is what this example is for")]

use std::time::Instant;

use host_statistics::{Random, levels};
use serde_json::{Value, json};

#[path = "../tests/suite/simulated/planted.rs"]
mod planted;
use planted::{NEAR, NOISES, Noise, Planted, Score, normal, plant, planted};

/// Series without a change, for each kind.
const FLAT: usize = 10_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let seed = arguments.next().map_or(Ok(15), |seed| seed.parse())?;
    let count = arguments.next().map_or(Ok(200), |count| count.parse())?;
    let flat = arguments.next().map_or(Ok(FLAT), |count| count.parse())?;
    let planted = planted(count, seed);
    let started = Instant::now();
    let found: Vec<_> =
        planted.iter().map(|series| levels(&series.values, 0.95)).collect::<Result<_, _>>()?;
    let seconds = started.elapsed().as_secs_f64();
    let found: Vec<Vec<usize>> =
        found.iter().map(|levels| levels.changes.iter().map(|change| change.index).collect()).collect();
    let series: Vec<Value> = planted
        .iter()
        .zip(&found)
        .map(|(Planted { values, changes, noise }, found)| {
            let name = NOISES.iter().find(|(_, one)| one == noise).map(|(name, _)| *name);
            json!({ "values": values, "changes": changes, "found": found, "noise": name })
        })
        .collect();
    let alarms: Vec<Value> = flat_kinds().into_iter().map(|(name, make)| alarms(name, make, flat)).collect();
    println!("{}", json!({ "series": series, "seconds": seconds, "alarms": alarms }));
    Ok(())
}

type Make = fn(&mut Random) -> Vec<f64>;

/// Returns kinds of series without a change.
fn flat_kinds() -> Vec<(&'static str, Make)> {
    fn of(count: usize, random: &mut Random, value: impl Fn(&mut Random) -> f64) -> Vec<f64> {
        (0..count).map(|_| value(random)).collect()
    }
    fn autoregression(count: usize, coefficient: f64, random: &mut Random) -> Vec<f64> {
        let mut state = normal(random);
        let innovation = (1.0 - coefficient * coefficient).sqrt();
        of(count, random, |_| 0.0).iter().map(|_| {
            state = coefficient * state + innovation * normal(random);
            100.0 * (0.02 * state).exp()
        }).collect()
    }
    vec![
        ("normal, 10 values", |random| of(10, random, |random| 100.0 + normal(random))),
        ("normal, 30 values", |random| of(30, random, |random| 100.0 + normal(random))),
        ("normal, 100 values", |random| of(100, random, |random| 100.0 + normal(random))),
        ("lognormal, 100 values", |random| of(100, random, |random| normal(random).exp())),
        ("one in twenty 10 to 50 % slower, 40 to 150 values", |random| {
            plant(0, Noise::Outliers, random).values
        }),
        ("two modes, 10 % apart, 100 values", |random| {
            of(100, random, |random| 100.0 + 10.0 * random.below(2) as f64 + normal(random))
        }),
        ("correlation 0.3, 100 values", |random| autoregression(100, 0.3, random)),
        ("correlation 0.5, 100 values", |random| autoregression(100, 0.5, random)),
        ("correlation 0.7, 100 values", |random| autoregression(100, 0.7, random)),
    ]
}

/// Counts series without a change in which one, or a drift, is found.
fn alarms(name: &str, make: Make, series: usize) -> Value {
    let mut random = Random::from_seed(1);
    let (mut changes, mut drifts) = (0, 0);
    for _ in 0..series {
        let found = levels(&make(&mut random), 0.95).expect("enough values above zero");
        changes += usize::from(!found.changes.is_empty());
        drifts += usize::from(found.drift.is_some());
    }
    let part = |count: usize| count as f64 / series as f64;
    json!({ "kind": name, "changes": part(changes), "drifts": part(drifts) })
}
