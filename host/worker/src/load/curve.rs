//! The latency over the rate, as the probes of a search show it.
//!
//! Each probe has one percentile of its latency, which is noisy. All of them together show where the border is, and how
//! much throughput a lower latency would cost. The fit only assumes that the latency does not fall with the rate, as
//! AIPerf's does.

use host_record::{CurveShape, Rate, RateBound, RateCurve};
use host_statistics::isotonic;

/// One probe, as the curve sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub(super) rate: Rate,
    pub(super) queries: u64,
    /// `None` if queries completed more slowly than they arrived, so that the latency depends on when the probe ended.
    pub(super) latency_ns: Option<u64>,
    /// Whether the queue was growing.
    pub(super) saturated: bool,
}

/// Growth of the rate from half of the limit to the limit, below which the curve is a cliff.
const STEEP: f64 = 1.1;

/// Greatest distance of probes that say which limit bounds the rate, from the lowest that was rejected.
const NEAR: f64 = 1.1;

/// The fitted latency of probes that could not keep up, in multiples of the limit.
const BEYOND: f64 = 100.0;

/// The fit: logarithms of rates, rising, and of latencies.
#[derive(Debug)]
pub(super) struct Fit {
    points: Vec<(f64, f64)>,
    limit: f64,
    bound_by: Option<RateBound>,
}

impl Fit {
    pub(super) fn of(points: &[Point], limit_ns: u64) -> Self {
        let limit = (limit_ns.max(1) as f64).ln();
        let latency = |point: &Point| match point.latency_ns {
            Some(latency_ns) => (latency_ns.max(1) as f64).ln().min(limit + BEYOND.ln()),
            None => limit + BEYOND.ln(),
        };
        let mut sorted: Vec<&Point> = points.iter().collect();
        sorted.sort_by(|one, other| {
            one.rate.cmp(&other.rate).then(latency(one).total_cmp(&latency(other)))
        });
        // Probes of one rate are one value of the curve.
        let groups: Vec<(f64, f64, f64)> = sorted
            .chunk_by(|one, next| one.rate == next.rate)
            .map(|same| {
                let weight: f64 = same.iter().map(|point| point.queries.max(1) as f64).sum();
                let sum: f64 =
                    same.iter().map(|point| point.queries.max(1) as f64 * latency(point)).sum();
                (same[0].rate.get().ln(), sum / weight, weight)
            })
            .collect();
        let (values, weights): (Vec<f64>, Vec<f64>) =
            groups.iter().map(|(_, value, weight)| (*value, *weight)).unzip();
        let fitted = isotonic(&values, &weights);
        let points =
            groups.iter().zip(fitted).map(|((rate, ..), latency)| (*rate, latency)).collect();
        Self { points, limit, bound_by: bound_by(&sorted, limit_ns) }
    }

    /// Returns the logarithm of the rate at which the fit reaches a latency, between the last point below it and the
    /// first above.
    fn reaches(&self, latency: f64) -> Option<f64> {
        let above = self.points.iter().position(|(_, at)| *at > latency)?;
        let (low_rate, low) = *self.points.get(above.checked_sub(1)?)?;
        let (high_rate, high) = self.points[above];
        Some(low_rate + (high_rate - low_rate) * (latency - low) / (high - low))
    }

    fn half(&self) -> Option<f64> {
        self.reaches(self.limit - 2.0_f64.ln())
    }

    /// Returns how the latency grows with the rate around the limit, in logarithms.
    pub(super) fn growth(&self) -> f64 {
        const USUAL: f64 = 1.5;
        let around = 1.5_f64.ln();
        let rates = self.reaches(self.limit - around).zip(self.reaches(self.limit + around));
        let steps = rates.map(|(low, high)| high - low).filter(|steps| *steps > 0.0);
        steps.map_or(USUAL, |steps| 2.0 * around / steps)
    }

    pub(super) fn curve(&self) -> RateCurve {
        let rate = |logarithm: f64| Rate::per_second(logarithm.exp()).ok();
        let (border, half) = (self.reaches(self.limit), self.half());
        let shape = border.zip(half).map(|(border, half)| {
            let is_steep = border - half < STEEP.ln();
            if is_steep { CurveShape::Cliff } else { CurveShape::Slope }
        });
        RateCurve {
            border: border.and_then(rate),
            half: half.and_then(rate),
            bound_by: self.bound_by,
            shape,
        }
    }
}

/// Returns the limit that bounds the rate, by the rejected probes nearest to the border.
fn bound_by(points: &[&Point], limit_ns: u64) -> Option<RateBound> {
    let is_over = |point: &&&Point| point.latency_ns.is_none_or(|latency| latency > limit_ns);
    let lowest = points.iter().find(is_over)?.rate.get();
    let near: Vec<_> =
        points.iter().filter(is_over).filter(|point| point.rate.get() <= NEAR * lowest).collect();
    let saturated = near.iter().filter(|point| point.saturated).count();
    Some(if 2 * saturated > near.len() { RateBound::Throughput } else { RateBound::Latency })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(queries_per_second: f64) -> Rate {
        Rate::per_second(queries_per_second).expect("a rate")
    }

    /// Probes of a curve, with noise of ±20 % that alternates.
    fn probes(latency: impl Fn(f64) -> Option<f64>, rates: &[f64]) -> Vec<Point> {
        let point = |(index, at): (usize, &f64)| {
            let noise = if index % 2 == 0 { 1.2 } else { 0.8 };
            let latency_ns = latency(*at).map(|latency| (latency * noise) as u64);
            Point { rate: rate(*at), queries: 500, latency_ns, saturated: latency_ns.is_none() }
        };
        rates.iter().enumerate().map(point).collect()
    }

    #[test]
    fn a_queue_that_gets_longer_gradually_is_a_slope() {
        // 1 / (1 − ρ) ms: 5 ms are reached at 800, and 2.5 at 600.
        let queue = |at: f64| Some(1e6 / (1.0 - at / 1000.0));
        let rates: Vec<f64> = (1..19).map(|step| f64::from(step) * 50.0).collect();
        let fit = Fit::of(&probes(queue, &rates), 5_000_000);
        let RateCurve { border, half, bound_by, shape } = fit.curve();
        let (border, half) = (border.expect("a border").get(), half.expect("a half").get());
        assert!(
            (760.0..840.0).contains(&border) && (550.0..650.0).contains(&half),
            "{border} {half}"
        );
        assert_eq!((bound_by, shape), (Some(RateBound::Latency), Some(CurveShape::Slope)));
        // 1 / (1 − ρ) grows by ρ / (1 − ρ): by 4 at the limit.
        assert!((2.0..6.0).contains(&fit.growth()), "{}", fit.growth());
    }

    #[test]
    fn a_target_that_suddenly_cannot_keep_up_is_a_cliff() {
        let full = |at: f64| (at < 1000.0).then_some(1e6);
        let rates = [125.0, 250.0, 500.0, 1000.0, 707.0, 840.0, 917.0, 957.0, 978.0, 989.0];
        let fit = Fit::of(&probes(full, &rates), 5_000_000);
        let RateCurve { border, bound_by, shape, .. } = fit.curve();
        assert!((985.0..1000.0).contains(&border.expect("a border").get()), "{border:?}");
        assert_eq!((bound_by, shape), (Some(RateBound::Throughput), Some(CurveShape::Cliff)));
        assert!(fit.growth() > 20.0, "{}", fit.growth());
    }

    #[test]
    fn a_curve_that_never_crosses_has_no_border() {
        let flat = |_: f64| Some(1e6);
        let none = Fit::of(&probes(flat, &[1.0, 2.0, 4.0]), 5_000_000).curve();
        assert_eq!(none, RateCurve { border: None, half: None, bound_by: None, shape: None });
        let above = Fit::of(&probes(flat, &[1.0, 2.0]), 1000).curve();
        assert_eq!((above.border, above.bound_by), (None, Some(RateBound::Latency)));
        assert_eq!(Fit::of(&[], 1000).curve().border, None);
    }
}
