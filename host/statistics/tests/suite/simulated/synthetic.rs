//! Series whose truth is known. Also compiled into `examples/proof.rs`.

use std::ops::{Range, RangeInclusive};

use host_statistics::{Random, SteadyClass, normal_quantile, normal_tail};

/// Returns a standard normal deviate, by inverting uniform ones in pairs (G. E. P. Box and M. E. Muller,
/// 1958).
pub(crate) fn normal(random: &mut Random) -> f64 {
    (-2.0 * random.uniform().ln()).sqrt() * (std::f64::consts::TAU * random.uniform()).cos()
}

/// Scatter of latencies around a level of 1.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Noise {
    /// Independent, lognormal.
    Lognormal,
    /// Independent, lognormal, and one in five is half as large again.
    Bimodal,
    /// Lognormal, its logarithm a first-order autoregression with this coefficient.
    Autocorrelated(f64),
    /// Independent and lognormal, times an autoregression with the coefficient 0.9 that deviates half
    /// as much.
    Wander,
    /// Lognormal, and every 50th is five times as large.
    Stalls,
}

/// Part of the second mode, and how much larger its values are.
const SECOND_MODE: (f64, f64) = (0.2, 1.5);

impl Noise {
    /// Returns `count` factors whose logarithm, except for modes and stalls, deviates by
    /// `deviation`.
    pub(crate) fn factors(self, count: usize, deviation: f64, random: &mut Random) -> Vec<f64> {
        let mut state = normal(random);
        (0..count)
            .map(|index| match self {
                Self::Lognormal => (deviation * normal(random)).exp(),
                Self::Bimodal => {
                    let mode = if random.uniform() < SECOND_MODE.0 { SECOND_MODE.1 } else { 1.0 };
                    mode * (deviation * normal(random)).exp()
                }
                Self::Autocorrelated(coefficient) => {
                    let innovation = (1.0 - coefficient * coefficient).sqrt() * normal(random);
                    state = coefficient * state + innovation;
                    (deviation * state).exp()
                }
                Self::Wander => {
                    state = 0.9 * state + 0.19_f64.sqrt() * normal(random);
                    (deviation * (normal(random) + state / 2.0)).exp()
                }
                Self::Stalls => {
                    let stall = if index % 50 == 49 { 5.0 } else { 1.0 };
                    stall * (deviation * normal(random)).exp()
                }
            })
            .collect()
    }

    /// Returns the deviation of the logarithm of a factor, stalls apart, times the root of how many times as
    /// uncertain a mean is as that of independent ones.
    fn uncertainty(self, deviation: f64) -> f64 {
        match self {
            Self::Lognormal | Self::Stalls => deviation,
            Self::Bimodal => {
                let (part, size) = SECOND_MODE;
                let modes = part * (1.0 - part) * size.ln().powi(2);
                (deviation * deviation + modes).sqrt()
            }
            Self::Wander => deviation * (1.0_f64 + 0.25 * 19.0).sqrt(),
            Self::Autocorrelated(coefficient) => {
                deviation * ((1.0 + coefficient) / (1.0 - coefficient)).sqrt()
            }
        }
    }

    /// Returns the deviation of the logarithm of a factor, modes and stalls apart.
    fn total(self, deviation: f64) -> f64 {
        if let Self::Wander = self { deviation * 1.25_f64.sqrt() } else { deviation }
    }

    /// Returns the mean of the distribution.
    pub(crate) fn mean(self, deviation: f64) -> f64 {
        let deviation = self.total(deviation);
        let mean = (deviation * deviation / 2.0).exp();
        match self {
            Self::Lognormal | Self::Autocorrelated(_) | Self::Wander => mean,
            Self::Bimodal => mean * (1.0 + SECOND_MODE.0 * (SECOND_MODE.1 - 1.0)),
            Self::Stalls => mean * (1.0 + 4.0 / 50.0),
        }
    }

    /// Returns a quantile of the distribution.
    pub(crate) fn quantile(self, probability: f64, deviation: f64) -> f64 {
        let deviation = self.total(deviation);
        let Self::Bimodal = self else { return (deviation * normal_quantile(probability)).exp() };
        let above = |value: f64| {
            let of_mode = |mode: f64| normal_tail((value / mode).ln() / deviation);
            (1.0 - SECOND_MODE.0) * of_mode(1.0) + SECOND_MODE.0 * of_mode(SECOND_MODE.1)
        };
        let (mut low, mut high) = (0.0, 100.0);
        for _ in 0..100 {
            let middle = (low + high) / 2.0;
            if above(middle) > 1.0 - probability { low = middle } else { high = middle }
        }
        low
    }
}

/// Change of the level of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// Not at all.
    Flat,
    /// Down once.
    WarmUp,
    /// Up once.
    SlowDown,
    /// Down twice.
    TwoSteps,
    /// Up, and down again.
    Phase,
    /// Up, in the last fifth.
    Late,
    /// Down to 1 exponentially.
    Exponential,
}

/// All that change.
pub(crate) const CHANGING: [Pattern; 6] = [
    Pattern::WarmUp,
    Pattern::SlowDown,
    Pattern::TwoSteps,
    Pattern::Phase,
    Pattern::Late,
    Pattern::Exponential,
];

/// A series with known changes.
#[derive(Debug)]
pub(crate) struct Planted {
    pub(crate) values: Vec<f64>,
    /// For each change, the places at which it may be found.
    pub(crate) changes: Vec<RangeInclusive<usize>>,
    /// Range in which the level changes all the time, so that no change point there is false.
    pub(crate) ramp: Range<usize>,
    pub(crate) class: SteadyClass,
}

/// Returns a series of `count` values.
///
/// A change counts as found within a fiftieth of the series. The end of an exponential may be found anywhere
/// between where no more than the smallest step is left of it and where 0.1 % is. Steps are large enough to be
/// detectable with so many values: at least 4 standard errors of their mean logarithm, at least 5 %, and up to
/// three times as large as that.
pub(crate) fn plant(
    pattern: Pattern,
    noise: Noise,
    count: usize,
    deviation: f64,
    random: &mut Random,
) -> Planted {
    let margin = (count / 50).max(10);
    let smallest = (4.0 * noise.uncertainty(deviation) / (margin as f64).sqrt()).exp_m1().max(0.05);
    let mut step = || 1.0 + smallest * 3.0_f64.powf(random.uniform());
    let steps = [step(), step()];
    let mut place =
        |from: f64, to: f64| ((from + (to - from) * random.uniform()) * count as f64) as usize;

    let mut ramp = 0..0;
    let mut levels = vec![1.0; count];
    let (edges, class) = match pattern {
        Pattern::Flat => (vec![], SteadyClass::Flat),
        Pattern::WarmUp => {
            let edge = place(0.05, 0.6);
            levels[..edge].fill(steps[0]);
            (vec![edge], SteadyClass::WarmUp)
        }
        Pattern::SlowDown => {
            let edge = place(0.05, 0.6);
            levels[edge..].fill(steps[0]);
            (vec![edge], SteadyClass::SlowDown)
        }
        Pattern::TwoSteps => {
            let edges = vec![place(0.05, 0.25), place(0.35, 0.6)];
            levels[..edges[1]].fill(steps[1]);
            levels[..edges[0]].fill(steps[1] * steps[0]);
            (edges, SteadyClass::WarmUp)
        }
        Pattern::Phase => {
            let edges = vec![place(0.1, 0.3), place(0.4, 0.6)];
            levels[edges[0]..edges[1]].fill(steps[0]);
            (edges, SteadyClass::WarmUp)
        }
        Pattern::Late => {
            let edge = place(0.8, 0.95);
            levels[edge..].fill(steps[0]);
            (vec![edge], SteadyClass::NoSteadyState)
        }
        Pattern::Exponential => {
            let (size, time) = (4.0 * (steps[0] - 1.0), place(0.01, 0.06) as f64);
            for (index, level) in levels.iter_mut().enumerate() {
                *level += size * (-(index as f64) / time).exp();
            }
            // Less than this is left.
            let left = |part: f64| ((size / part).ln().max(0.0) * time) as usize;
            ramp = 0..left(0.001).min(count);
            (vec![], SteadyClass::WarmUp)
        }
    };
    let mut changes: Vec<_> =
        edges.iter().map(|edge| edge - margin.min(*edge)..=edge + margin).collect();
    if pattern == Pattern::Exponential {
        let size = 4.0 * (steps[0] - 1.0);
        let begin = ramp.end as f64 * (size / smallest).ln() / (size / 0.001).ln();
        changes.push((begin as usize).saturating_sub(margin)..=ramp.end + margin);
    }
    let factors = noise.factors(count, deviation, random);
    let values = levels.iter().zip(factors).map(|(level, factor)| 1e6 * level * factor).collect();
    Planted { values, changes, ramp, class }
}

/// Number of planted changes that were found.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Score {
    series: usize,
    planted: usize,
    hits: usize,
    false_points: usize,
    right_classes: usize,
}

impl Score {
    pub(crate) fn add(&mut self, planted: &Planted, found: &[usize], class: SteadyClass) {
        let mut open = planted.changes.clone();
        for point in found {
            if let Some(index) = open.iter().position(|window| window.contains(point)) {
                open.remove(index);
                self.hits += 1;
            } else if !planted.ramp.contains(point) {
                self.false_points += 1;
            }
        }
        self.series += 1;
        self.planted += planted.changes.len();
        self.right_classes += usize::from(class == planted.class);
    }

    /// Returns the part of the series that got the class of what was planted.
    pub(crate) fn right_class(&self) -> f64 {
        self.right_classes as f64 / self.series as f64
    }

    /// Returns the part of the change points found that were planted.
    pub(crate) fn precision(&self) -> f64 {
        self.hits as f64 / (self.hits + self.false_points) as f64
    }

    /// Returns the part of the change points planted that were found.
    pub(crate) fn recall(&self) -> f64 {
        self.hits as f64 / self.planted as f64
    }
}

/// The kinds of noise that series are planted in, with their names.
pub(crate) const NOISES: [(&str, Noise); 6] = [
    ("lognormal", Noise::Lognormal),
    ("bimodal", Noise::Bimodal),
    ("autocorrelated, φ = 0.3", Noise::Autocorrelated(0.3)),
    ("autocorrelated, φ = 0.5", Noise::Autocorrelated(0.5)),
    ("jitter over a slow wander, φ = 0.9", Noise::Wander),
    ("periodic stalls", Noise::Stalls),
];

/// Standard deviations of logarithms, which for these sizes are coefficients of variation.
pub(crate) const DEVIATIONS: [f64; 5] = [0.01, 0.02, 0.05, 0.1, 0.2];
