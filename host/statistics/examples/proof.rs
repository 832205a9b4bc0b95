//! Counts how often the statistics are right, on series with a known truth.
//!
//! `proof [PART]` prints Markdown tables. With `1`, the default, it uses 1,000 series with changes,
//! 1,000 flat ones and 10,000 experiments for each interval; with a smaller part, fewer. All numbers
//! follow from the seeds, so the output is the same each time.

#![expect(clippy::print_stdout, reason = "the tables are what this example is for")]

use std::time::Instant;

use host_statistics::{
    Quantile, Random, Resampling, STEADY_STATE_TOLERANCE, autocorrelation, correlated_estimates,
    effective_size, hierarchical_interval, mann_whitney, mean_interval, moments, steady_state,
    student_interval, tukey_outliers,
};

#[path = "../tests/simulated/synthetic.rs"]
mod synthetic;
use synthetic::{CHANGING, DEVIATIONS, NOISES, Noise, Pattern, Score, plant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let part: f64 = std::env::args().nth(1).map_or(Ok(1.0), |part| part.parse())?;
    let of = |count: usize| ((count as f64 * part) as usize).max(1);
    change_points(of(1000));
    intervals(of(10_000));
    stopping(of(2000));
    processes(of(2000));
    speed();
    Ok(())
}

fn change_points(series: usize) {
    println!("## Change points\n");
    println!(
        "{series} series with changes and as many flat ones: 500 to 20,000 values, coefficients of \
         variation from 1 to 20 %, steps of 5 % and more.\n"
    );
    println!("| noise | precision | recall | right class | false alarms on flat series |");
    println!("|---|--:|--:|--:|--:|");
    let mut all = (Score::default(), Score::default());
    for (kind, (name, noise)) in NOISES.into_iter().enumerate() {
        let mut changing = Score::default();
        let mut flat = Score::default();
        for index in (kind..series).step_by(NOISES.len()) {
            let round = index / NOISES.len();
            let count = [500, 1000, 2000, 5000, 20_000][round / CHANGING.len() % 5];
            let deviation = DEVIATIONS[(round / CHANGING.len() + round) % DEVIATIONS.len()];
            let pattern = CHANGING[round % CHANGING.len()];
            let mut random = Random::from_seed(index as u64);
            let scores =
                [(pattern, &mut changing, &mut all.0), (Pattern::Flat, &mut flat, &mut all.1)];
            for (pattern, score, of_all) in scores {
                let planted = plant(pattern, noise, count, deviation, &mut random);
                let found = steady_state(&planted.values, STEADY_STATE_TOLERANCE).expect("enough");
                let points: Vec<usize> = found.change_points().collect();
                score.add(&planted, &points, found.class);
                of_all.add(&planted, &points, found.class);
            }
        }
        row(name, &changing, &flat);
    }
    row("**all**", &all.0, &all.1);
    println!();
}

fn row(name: &str, changing: &Score, flat: &Score) {
    let percent = |part: f64| 100.0 * part;
    println!(
        "| {name} | {:.3} | {:.3} | {:.1} % | {:.2} % |",
        changing.precision(),
        changing.recall(),
        percent(changing.right_class()),
        percent(1.0 - flat.right_class())
    );
}

/// Share of intervals that cover the truth, and share of experiments with an interval.
#[derive(Debug, Default, Clone, Copy)]
struct Coverage {
    stated: usize,
    covered: usize,
}

impl Coverage {
    fn add(&mut self, bounds: Option<(f64, f64)>, truth: f64) {
        let Some((low, high)) = bounds else { return };
        self.stated += 1;
        self.covered += usize::from(low <= truth && truth <= high);
    }

    fn percent(&self) -> f64 {
        100.0 * self.covered as f64 / self.stated as f64
    }
}

impl std::ops::Add for Coverage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { stated: self.stated + other.stated, covered: self.covered + other.covered }
    }
}

const QUANTILES: [Quantile; 3] = [Quantile::P50, Quantile::P90, Quantile::P99];
const CONFIDENCES: [f64; 2] = [0.95, 0.99];
/// Promised coverage: an interval may cover the truth slightly less often than it states.
const PROMISED: [f64; 2] = [94.0, 98.5];

/// Marks a share in bold if it is below the promise. Compares it as printed, so that shares that look the
/// same are judged the same.
fn mark(percent: f64, promised: f64) -> &'static str {
    if (10.0 * percent).round() < 10.0 * promised { "**" } else { "" }
}

/// Of each confidence, for the quantiles and the mean.
type Coverages = [[Coverage; 4]; 2];

fn intervals(experiments: usize) {
    println!("## Coverage of intervals\n");
    println!(
        "{experiments} experiments for each line. A cell says how often the interval held the truth, \
         among the experiments in which it was stated; a number in brackets says how many those \
         were, where not all. Below 94 % and 98.5 %, it is bold. Where fewer than one in a hundred was \
         stated, it says in how many of those the truth was held.\n"
    );
    println!("| series | values | stated | p50 | p90 | p99 | mean |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    let series = [
        ("lognormal, σ = 0.4", Noise::Lognormal, 0.4),
        ("bimodal, σ = 0.1", Noise::Bimodal, 0.1),
        ("autocorrelated, φ = 0.5, σ = 0.4", Noise::Autocorrelated(0.5), 0.4),
        ("autocorrelated, φ = 0.8, σ = 0.4", Noise::Autocorrelated(0.8), 0.4),
        ("autocorrelated, φ = 0.9, σ = 0.4", Noise::Autocorrelated(0.9), 0.4),
        ("jitter over a slow wander, σ = 0.4", Noise::Wander, 0.4),
    ];
    for (name, noise, deviation) in series {
        for count in [200, 2000] {
            let coverages = covered(noise, deviation, count, experiments);
            for ((line, confidence), promised) in
                coverages.into_iter().zip(CONFIDENCES).zip(PROMISED)
            {
                print!("| {name} | {count} | {:.0} % |", 100.0 * confidence);
                for coverage in line {
                    let percent = coverage.percent();
                    let mark = mark(percent, promised);
                    match coverage.stated {
                        0 => print!(" refused |"),
                        few if 100 * few < experiments => {
                            let covered = coverage.covered;
                            print!(" {mark}refused but for {few}, of which {covered}{mark} |");
                        }
                        all if all == experiments => print!(" {mark}{percent:.1} %{mark} |"),
                        some => print!(" {mark}{percent:.1} %{mark} ({some}) |"),
                    }
                }
                println!();
            }
        }
    }
    println!();
}

/// Runs the experiments on as many threads as there are processors.
fn covered(noise: Noise, deviation: f64, count: usize, experiments: usize) -> Coverages {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let parts: Vec<_> = (0..threads)
            .map(|first| {
                scope.spawn(move || {
                    let mut coverages = Coverages::default();
                    for experiment in (first..experiments).step_by(threads) {
                        one_experiment(noise, deviation, count, experiment, &mut coverages);
                    }
                    coverages
                })
            })
            .collect();
        parts.into_iter().fold(Coverages::default(), |sum, part| {
            let part = part.join().expect("no panic");
            let mut part = part.into_iter().flatten();
            sum.map(|line| line.map(|coverage| coverage + part.next().expect("as many")))
        })
    })
}

fn one_experiment(
    noise: Noise,
    deviation: f64,
    count: usize,
    experiment: usize,
    coverages: &mut Coverages,
) {
    let values = noise.factors(count, deviation, &mut Random::from_seed(experiment as u64));
    for (line, confidence) in coverages.iter_mut().zip(CONFIDENCES) {
        let estimates = correlated_estimates(&values, &QUANTILES, confidence);
        for ((estimate, quantile), coverage) in estimates.into_iter().zip(QUANTILES).zip(&mut *line)
        {
            let truth = noise.quantile(quantile.probability(), deviation);
            coverage.add(estimate.ok().map(|one| (one.low, one.high)), truth);
        }
        let bounds = mean_interval(&values, confidence).ok().map(|one| (one.low, one.high));
        line[3].add(bounds, noise.mean(deviation));
    }
}

/// Half the width of an interval that ends a measurement, as a part of the estimate.
const HALF_WIDTH: f64 = 0.02;
/// Upper limit of values, with which the interval of every such series is narrow enough.
const MOST_VALUES: usize = 60_000;

fn stopping(experiments: usize) {
    println!("## Coverage where an interval ends the measurement\n");
    println!(
        "{experiments} experiments for each line, as `confidence = {{ half-width = \"2%\" }}` measures: the \
         interval of the median is looked at after 100 values, and then each time that there are a quarter more, \
         until it is as narrow. To look often, and to stop at what is narrow by chance, makes an interval hold the \
         truth less often than one of a fixed number of values. Below 94 % and 98.5 %, it is bold.\n"
    );
    println!("| series | stated | held | values at the end, median |");
    println!("|---|--:|--:|--:|");
    for (name, noise) in [
        ("lognormal, σ = 0.4", Noise::Lognormal),
        ("autocorrelated, φ = 0.5, σ = 0.4", Noise::Autocorrelated(0.5)),
        ("autocorrelated, φ = 0.8, σ = 0.4", Noise::Autocorrelated(0.8)),
    ] {
        let truth = noise.quantile(0.5, 0.4);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let ends: Vec<_> = std::thread::scope(|scope| {
            let parts = (0..threads).map(|first| {
                let numbers = (first..experiments).step_by(threads);
                scope.spawn(move || numbers.map(|number| stops(noise, number)).collect::<Vec<_>>())
            });
            let parts: Vec<_> = parts.collect();
            parts.into_iter().flat_map(|part| part.join().expect("no panic")).collect()
        });
        for ((position, confidence), promised) in CONFIDENCES.into_iter().enumerate().zip(PROMISED)
        {
            let mut coverage = Coverage::default();
            let mut counts = Vec::new();
            for (count, bounds) in ends.iter().filter_map(|ends| ends[position]) {
                coverage.add(Some(bounds), truth);
                counts.push(count);
            }
            counts.sort_unstable();
            let count = counts.get(counts.len() / 2).copied().unwrap_or_default();
            let (percent, stated) = (coverage.percent(), 100.0 * confidence);
            let mark = mark(percent, promised);
            println!("| {name} | {stated:.0} % | {mark}{percent:.1} %{mark} | {count} |");
        }
    }
    println!();
}

/// Returns after how many values an experiment ends at each confidence, and with which interval.
fn stops(noise: Noise, experiment: usize) -> [Option<(usize, (f64, f64))>; 2] {
    let values = noise.factors(MOST_VALUES, 0.4, &mut Random::from_seed(experiment as u64));
    CONFIDENCES.map(|confidence| {
        let mut counts = std::iter::successors(Some(100), |count| Some(count + count / 4));
        counts.by_ref().take_while(|count| *count <= MOST_VALUES).find_map(|count| {
            let found = correlated_estimates(&values[..count], &QUANTILES[..1], confidence);
            let one = found.into_iter().flatten().next()?;
            let is_narrow = (one.high - one.low) / 2.0 <= HALF_WIDTH * one.value;
            is_narrow.then_some((count, (one.low, one.high)))
        })
    })
}

fn processes(experiments: usize) {
    println!("## Coverage of intervals over processes\n");
    println!(
        "{experiments} experiments for each line: processes whose levels deviate by 3 %, or of which one in \
         five is half as slow again too, each with 20 values that deviate by 5 % within it. The interval of the mean of their means. Below 94 % and 98.5 %, it is bold.\n"
    );
    println!("| levels | processes | stated | Student's *t* | hierarchical bootstrap |");
    println!("|---|--:|--:|--:|--:|");
    let mean = |values: &[f64]| moments(values).expect("values").mean;
    for (name, noise) in [("lognormal", Noise::Lognormal), ("bimodal", Noise::Bimodal)] {
        let truth = noise.mean(0.03) * Noise::Lognormal.mean(0.05);
        for count in [2, 3, 5, 10, 20, 30, 50] {
            for (confidence, promised) in CONFIDENCES.into_iter().zip(PROMISED) {
                let mut coverages: [Coverage; 2] = Default::default();
                for experiment in 0..experiments {
                    let mut random = Random::from_seed(experiment as u64);
                    let levels = noise.factors(count, 0.03, &mut random);
                    let processes: Vec<Vec<f64>> = levels
                        .iter()
                        .map(|level| {
                            let factors = Noise::Lognormal.factors(20, 0.05, &mut random);
                            factors.iter().map(|factor| level * factor).collect()
                        })
                        .collect();
                    let processes: Vec<&[f64]> = processes.iter().map(Vec::as_slice).collect();
                    let seed = experiment as u64;
                    let resampling = Resampling { resamples: 500, confidence, seed };
                    let found = [
                        student_interval(&processes, mean, confidence),
                        hierarchical_interval(&processes, mean, &resampling),
                    ];
                    for (coverage, interval) in coverages.iter_mut().zip(found) {
                        coverage.add(interval.ok().map(|one| (one.low, one.high)), truth);
                    }
                }
                let [student, bootstrap] = coverages.map(|coverage| {
                    let percent = coverage.percent();
                    let mark = mark(percent, promised);
                    format!("{mark}{percent:.1} %{mark}")
                });
                let stated = 100.0 * confidence;
                println!("| {name} | {count} | {stated:.0} % | {student} | {bootstrap} |");
            }
        }
    }
    println!();
}

fn speed() {
    let count = 1_000_000;
    let mut random = Random::from_seed(1);
    let independent = Noise::Lognormal.factors(count, 0.2, &mut random);
    let other = Noise::Lognormal.factors(count, 0.2, &mut random);
    let correlated = Noise::Autocorrelated(0.999).factors(count, 0.2, &mut random);
    println!("## Time for a million values\n\n| what | ms |\n|---|--:|");
    let time = |name: &str, task: &dyn Fn()| {
        let start = Instant::now();
        task();
        println!("| {name} | {:.0} |", start.elapsed().as_secs_f64() * 1e3);
    };
    let quantiles = [Quantile::P50, Quantile::P90, Quantile::P99, Quantile::P99_9];
    let tolerance = STEADY_STATE_TOLERANCE;
    time("steady state", &|| drop(steady_state(&independent, tolerance)));
    time("steady state, φ = 0.999", &|| drop(steady_state(&correlated, tolerance)));
    time("effective size", &|| _ = effective_size(&independent));
    time("effective size, φ = 0.999", &|| _ = effective_size(&correlated));
    time("autocorrelation at 20 lags", &|| drop(autocorrelation(&independent, 20)));
    time("four quantiles' intervals", &|| {
        drop(correlated_estimates(&independent, &quantiles, 0.95))
    });
    time("Tukey's outliers", &|| drop(tukey_outliers(&independent)));
    time("Mann–Whitney, two samples", &|| _ = mann_whitney(&independent, &other));
}
