//! How often changes are found in series of results whose truth is known. All numbers follow from the seeds.
//!
//! `history series` prints the planted series as JSON. `history tables FILE` prints Markdown tables of what is found in
//! them, here and by another program: the file has the list of the positions that it found in each series.

#![expect(clippy::print_stdout, reason = "the output is what this example is for")]

use std::time::Instant;

use host_statistics::{Random, levels};
use serde_json::{Value, json};

#[path = "../tests/suite/simulated/planted.rs"]
mod planted;
use planted::{NEAR, NOISES, Noise, Planted, Score, normal, plant, planted};

/// The planted series. The constants of the method were set on series of the seeds 1, 7 and 15.
const SEED: u64 = 101;
const COUNT: usize = 200;

/// Series without a change, of each kind.
const FLAT: usize = 2000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let series = planted(COUNT, SEED);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["series"] => {
            let values: Vec<_> = series.iter().map(|series| &series.values).collect();
            println!("{}", json!(values));
        }
        ["tables", file] => {
            let other: Value = serde_json::from_str(&std::fs::read_to_string(file)?)?;
            let found: Vec<Vec<usize>> = serde_json::from_value(other["found"].clone())?;
            let seconds = other["seconds"].as_f64().ok_or("no `seconds` in the file")?;
            assert_eq!(found.len(), series.len(), "one list for each series");
            tables(&series, &found, seconds)?;
        }
        _ => return Err("usage: history series, or history tables FILE".into()),
    }
    Ok(())
}

fn tables(
    series: &[Planted],
    other: &[Vec<usize>],
    seconds: f64,
) -> Result<(), Box<dyn std::error::Error>> {
    let started = Instant::now();
    let found: Vec<_> =
        series.iter().map(|series| levels(&series.values, 0.95)).collect::<Result<_, _>>()?;
    let own_seconds = started.elapsed().as_secs_f64();
    let own: Vec<Vec<usize>> = found
        .iter()
        .map(|levels| levels.changes.iter().map(|change| change.index).collect())
        .collect();
    println!(
        "{COUNT} series of 40 to 150 values, noise of 1 to 3 %; two thirds with one to three steps of 1 to 10 %. \
         A found change is right if it lies within {NEAR} values of a planted one.\n"
    );
    println!("| noise | program | precision | recall | series without a change with one found |");
    println!("|---|---|--:|--:|--:|");
    let kinds = NOISES.into_iter().map(|(name, noise)| (name, Some(noise)));
    for (name, kind) in kinds.chain([("all", None)]) {
        for (program, found) in [("host history", &own[..]), ("Apache Otava", other)] {
            let mut score = Score::default();
            for (series, found) in series.iter().zip(found) {
                if kind.is_none_or(|kind| kind == series.noise) {
                    score.add(&series.changes, found);
                }
            }
            println!(
                "| {name} | {program} | {:.3} | {:.3} | {} of {} |",
                score.precision(),
                score.recall(),
                score.alarms,
                score.flat
            );
        }
    }
    println!("\nTime for all: {own_seconds:.2} s, and {seconds:.2} s for Apache Otava.\n");
    println!("## False alarms\n");
    println!("{FLAT} series of each kind, without a change.\n");
    println!("| series | with a change found | with a drift found |");
    println!("|---|--:|--:|");
    for (name, make) in flat_kinds() {
        let mut random = Random::from_seed(1);
        let (mut changes, mut drifts) = (0, 0);
        for _ in 0..FLAT {
            let found = levels(&make(&mut random), 0.95)?;
            changes += usize::from(!found.changes.is_empty());
            drifts += usize::from(found.drift.is_some());
        }
        let percent = |count: usize| 100.0 * count as f64 / FLAT as f64;
        println!("| {name} | {:.1} % | {:.1} % |", percent(changes), percent(drifts));
    }
    Ok(())
}

type Make = fn(&mut Random) -> Vec<f64>;

/// Returns kinds of series without a change.
fn flat_kinds() -> Vec<(&'static str, Make)> {
    fn of(count: usize, random: &mut Random, value: impl Fn(&mut Random) -> f64) -> Vec<f64> {
        (0..count).map(|_| value(random)).collect()
    }
    fn autoregression(coefficient: f64, random: &mut Random) -> Vec<f64> {
        let mut state = normal(random);
        let innovation = (1.0 - coefficient * coefficient).sqrt();
        (0..100)
            .map(|_| {
                state = coefficient * state + innovation * normal(random);
                (0.02 * state).exp()
            })
            .collect()
    }
    vec![
        ("normal, 12 values", |random| of(12, random, |random| 100.0 + normal(random))),
        ("normal, 30 values", |random| of(30, random, |random| 100.0 + normal(random))),
        ("normal, 100 values", |random| of(100, random, |random| 100.0 + normal(random))),
        ("lognormal, 100 values", |random| of(100, random, |random| normal(random).exp())),
        ("one value in twenty 10 to 50 % larger, 40 to 150 values", |random| {
            plant(0, Noise::Outliers, random).values
        }),
        ("two equally frequent modes 10 % apart, 100 values", |random| {
            of(100, random, |random| 100.0 + 10.0 * random.below(2) as f64 + normal(random))
        }),
        ("correlation 0.3, 100 values", |random| autoregression(0.3, random)),
        ("correlation 0.5, 100 values", |random| autoregression(0.5, random)),
        ("correlation 0.7, 100 values", |random| autoregression(0.7, random)),
    ]
}
