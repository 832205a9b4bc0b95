//! Series of results with planted changes of level, and how many of them were found.

use host_statistics::{Random, normal_quantile};

/// Distance from a planted change within which a found one is that change.
pub(crate) const NEAR: usize = 5;

/// Kind of noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noise {
    /// Independent and normal.
    Plain,
    /// One run in twenty takes 10 to 50 % longer.
    Outliers,
    /// An autoregression with a coefficient from 0.3 to 0.7.
    Correlated,
}

pub(crate) const NOISES: [(&str, Noise); 3] =
    [("plain", Noise::Plain), ("outliers", Noise::Outliers), ("correlated", Noise::Correlated)];

/// A series of which the truth is known.
pub(crate) struct Planted {
    pub(crate) values: Vec<f64>,
    /// The first value of each new level.
    pub(crate) changes: Vec<usize>,
    pub(crate) noise: Noise,
}

/// Returns one standard normal number.
pub(crate) fn normal(random: &mut Random) -> f64 {
    normal_quantile(random.uniform())
}

/// Returns a number between two others.
fn between(low: f64, high: f64, random: &mut Random) -> f64 {
    low + (high - low) * random.uniform()
}

/// Returns `count` series: 40 to 150 values around 10 ms, with noise of 1 to 3 %. Each third series has no change,
/// the others one to three steps of 1 to 10 % up or down.
pub(crate) fn planted(count: usize, seed: u64) -> Vec<Planted> {
    let mut random = Random::from_seed(seed);
    (0..count)
        .map(|index| {
            let noise = NOISES[index / 3 % 3].1;
            let changes = if index % 3 == 0 { 0 } else { 1 + random.below(3) as usize };
            plant(changes, noise, &mut random)
        })
        .collect()
}

/// Returns a series with this many changes.
pub(crate) fn plant(changes: usize, noise: Noise, random: &mut Random) -> Planted {
    let count = 40 + random.below(111) as usize;
    // At least eight values for each level.
    let mut places: Vec<usize> = (0..changes)
        .map(|_| random.below((count - 8 * (changes + 1)) as u64 + 1) as usize)
        .collect();
    places.sort_unstable();
    let places: Vec<usize> =
        places.iter().enumerate().map(|(number, place)| place + 8 * (number + 1)).collect();
    let deviation = between(0.01, 0.03, random);
    let coefficient = if noise == Noise::Correlated { between(0.3, 0.7, random) } else { 0.0 };
    let mut level = 10e6;
    let mut state = normal(random);
    let values = (0..count).map(|index| {
        if places.contains(&index) {
            let factor = 1.0 + between(0.01, 0.1, random);
            level *= if random.below(2) == 0 { factor } else { 1.0 / factor };
        }
        state = coefficient * state + (1.0 - coefficient * coefficient).sqrt() * normal(random);
        let is_slow = noise == Noise::Outliers && random.uniform() < 0.05;
        let slower = if is_slow { between(1.1, 1.5, random) } else { 1.0 };
        level * (1.0 + deviation * state) * slower
    });
    Planted { values: values.collect(), changes: places, noise }
}

/// Counts of changes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Score {
    pub(crate) right: usize,
    pub(crate) found: usize,
    pub(crate) planted: usize,
    /// Series without a change, and those of them in which one was found.
    pub(crate) flat: usize,
    pub(crate) alarms: usize,
}

impl Score {
    /// Adds a series: each planted change is matched with the nearest found one that is near enough.
    pub(crate) fn add(&mut self, planted: &[usize], found: &[usize]) {
        let mut free = found.to_vec();
        for change in planted {
            let nearest = free.iter().enumerate().min_by_key(|(_, place)| place.abs_diff(*change));
            if let Some((index, place)) = nearest
                && place.abs_diff(*change) <= NEAR
            {
                free.remove(index);
                self.right += 1;
            }
        }
        self.found += found.len();
        self.planted += planted.len();
        if planted.is_empty() {
            self.flat += 1;
            self.alarms += usize::from(!found.is_empty());
        }
    }

    pub(crate) fn precision(&self) -> f64 {
        self.right as f64 / self.found as f64
    }

    pub(crate) fn recall(&self) -> f64 {
        self.right as f64 / self.planted as f64
    }
}
