//! Series of which the truth is known. Also compiled into `examples/proof.rs`.

use host_statistics::{Random, normal_quantile, normal_tail};

/// A standard normal deviate, by inverting uniform ones in pairs (G. E. P. Box and M. E. Muller,
/// 1958).
pub(crate) fn normal(random: &mut Random) -> f64 {
    (-2.0 * random.uniform().ln()).sqrt() * (std::f64::consts::TAU * random.uniform()).cos()
}

/// How latencies scatter around a level of 1.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Noise {
    /// Independent, lognormal.
    Lognormal,
    /// Independent, lognormal, and one in five is half as large again.
    Bimodal,
    /// Lognormal, its logarithm a first-order autoregression with this coefficient.
    Autocorrelated(f64),
    /// Lognormal, and every 50th is five times as large.
    Stalls,
}

/// Part of the second mode, and how much larger its values are.
const SECOND_MODE: (f64, f64) = (0.2, 1.5);

impl Noise {
    /// `count` factors of which the logarithm, but for modes and stalls, deviates by `deviation`.
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
                Self::Stalls => {
                    let stall = if index % 50 == 49 { 5.0 } else { 1.0 };
                    stall * (deviation * normal(random)).exp()
                }
            })
            .collect()
    }

    /// Mean of the distribution.
    pub(crate) fn mean(self, deviation: f64) -> f64 {
        let mean = (deviation * deviation / 2.0).exp();
        match self {
            Self::Lognormal | Self::Autocorrelated(_) => mean,
            Self::Bimodal => mean * (1.0 + SECOND_MODE.0 * (SECOND_MODE.1 - 1.0)),
            Self::Stalls => mean * (1.0 + 4.0 / 50.0),
        }
    }

    /// A quantile of the distribution.
    pub(crate) fn quantile(self, probability: f64, deviation: f64) -> f64 {
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
