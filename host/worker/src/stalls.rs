//! Queries that stall at regular distances.
//!
//! Stalls seldom come alone: there are others beside them that come at random, and where every 500th
//! query stalls the others may be the more numerous. Distances between neighbours then say nothing. So
//! combs are laid over the stalled queries: from one of them in steps of its distance to another, forwards
//! and backwards, to both ends of the series. Of stalls that come at random, each tooth meets one with the
//! same chance, whatever the others did, which bounds how often a comb is met by chance.

use host_record::{Warning, WarningKind};
use host_statistics::{OutlierClass, TukeyFences, median};

use crate::warnings::time;

/// Fewest stalls that are called regular.
const LEAST: usize = 8;

/// Part of a comb's teeth that must meet a stall.
const MET: f64 = 0.6;

/// By how much of the step a tooth may miss its stall. Where every *n*-th query stalls, it does not; where
/// stalls come by the clock, queries that take longer or less move them.
const TOLERANCES: [f64; 2] = [0.02, 0.1];

/// Stalls at which combs begin, evenly spread, and how many of those behind it give each a step.
const ANCHORS: usize = 16;
const STEPS: usize = 8;

/// How often stalls that come at random may be called regular. Each comb has its share of that.
const CHANCE: f64 = 1e-4;

/// Queries far out by Tukey's fences that take at least twice the median, if a comb meets them. They must
/// take 1 % of all the time; what takes less is left to the percentiles. The latencies are of queries in a
/// row: among every fourth one, what recurs every 50th is seen half of the time or never.
pub(crate) fn stalls(latencies: &[u64]) -> Option<Warning> {
    let fences = TukeyFences::of(latencies)?;
    let typical = median(latencies)?;
    let stalled = |index: &usize| {
        let latency = latencies[*index] as f64;
        latency >= 2.0 * typical && fences.class(latency) == Some(OutlierClass::SevereHigh)
    };
    let places: Vec<usize> = (0..latencies.len()).filter(stalled).collect();
    let comb = Comb::over(&places, latencies.len())?;
    let met: Vec<u64> = comb.met.iter().map(|&place| latencies[place]).collect();
    let lost: f64 = met.iter().map(|&latency| latency as f64 - typical).sum();
    let all: f64 = latencies.iter().map(|&latency| latency as f64).sum();
    (lost >= 0.01 * all).then(|| Warning {
        kind: WarningKind::Stalls,
        evidence: format!(
            "One query in {:.0} took {} instead of {}, which is {:.1} % of all the time.",
            comb.step,
            time(median(&met).unwrap_or(typical)),
            time(typical),
            100.0 * lost / all
        ),
    })
}

/// Teeth at equal distances, and the stalls that they meet.
struct Comb {
    step: f64,
    met: Vec<usize>,
    /// Logarithm of the chance that stalls at random meet as many of its teeth.
    chance: f64,
}

impl Comb {
    /// The least probable of those that meet enough stalls, among so many queries.
    fn over(places: &[usize], queries: usize) -> Option<Self> {
        if places.len() < LEAST {
            return None;
        }
        let allowed = (CHANCE / (ANCHORS * STEPS * TOLERANCES.len()) as f64).ln();
        let anchors = ANCHORS.min(places.len());
        let mut best: Option<Self> = None;
        for anchor in (0..anchors).map(|index| index * places.len() / anchors) {
            for other in places[anchor + 1..].iter().take(STEPS) {
                let step = other - places[anchor];
                if step < 2 || step * (LEAST - 1) > queries {
                    continue;
                }
                for tolerance in TOLERANCES {
                    let within = (tolerance * step as f64) as usize;
                    let Some(comb) = Self::lay(places, queries, anchor, step, within) else {
                        continue;
                    };
                    if comb.chance < best.as_ref().map_or(allowed, |best| best.chance) {
                        best = Some(comb);
                    }
                }
            }
        }
        best
    }

    /// From an anchor in both directions. A tooth that meets a stall sets the place of the next one, so
    /// that what is not a whole number of queries does not add up.
    fn lay(
        places: &[usize],
        queries: usize,
        anchor: usize,
        step: usize,
        within: usize,
    ) -> Option<Self> {
        let (mut met, mut missed) = (Vec::new(), 0);
        // Most combs miss, and need not be laid to their end to be seen to.
        let goes_on = |met: usize, missed: usize| {
            missed as f64 <= (1.0 - MET) * (met + missed) as f64 + LEAST as f64
        };
        let nearest = |tooth: usize| {
            let from = places.partition_point(|place| place + within < tooth);
            let close = places[from..].iter().take_while(|place| **place <= tooth + within);
            close.copied().min_by_key(|place| place.abs_diff(tooth))
        };
        let mut tooth = places[anchor];
        while tooth < queries && goes_on(met.len(), missed) {
            let found = nearest(tooth);
            met.extend(found);
            missed += usize::from(found.is_none());
            tooth = found.unwrap_or(tooth) + step;
        }
        let mut tooth = places[anchor].checked_sub(step);
        while let Some(at) = tooth
            && goes_on(met.len(), missed)
        {
            let found = nearest(at);
            met.extend(found);
            missed += usize::from(found.is_none());
            tooth = found.unwrap_or(at).checked_sub(step);
        }
        met.sort_unstable();
        let teeth = met.len() + missed;
        if met.len() < LEAST || (met.len() as f64) < MET * teeth as f64 {
            return None;
        }
        // The anchor and the stall that gave the step are met by construction.
        let density = places.len() as f64 / queries as f64;
        let by_chance = 1.0 - (1.0 - density).powi(2 * within as i32 + 1);
        let chance = chance(teeth - 2, met.len() - 2, by_chance);
        // Where no tooth between them missed its stall.
        let one_step = |distance: &usize| 2 * distance < 3 * step;
        let distances = met.windows(2).map(|pair| pair[1] - pair[0]).filter(one_step);
        let distances: Vec<u64> = distances.map(|distance| distance as u64).collect();
        Some(Self { step: median(&distances).unwrap_or(step as f64), met, chance })
    }
}

/// Logarithm of a bound on the chance that at least so many of `trials` succeed (H. Chernoff, *Annals of
/// Mathematical Statistics* 23(4), 1952).
fn chance(trials: usize, successes: usize, probability: f64) -> f64 {
    let (trials, part) = (trials as f64, successes as f64 / trials as f64);
    if part <= probability {
        return 0.0;
    }
    let term = |part: f64, of: f64| if part > 0.0 { part * (part / of).ln() } else { 0.0 };
    -trials * (term(part, probability) + term(1.0 - part, 1.0 - probability))
}

#[cfg(test)]
mod tests {
    use rand_pcg::rand_core::Rng;

    use super::*;
    use crate::synthetic::generator;

    const QUERIES: usize = 5000;
    const ONE_IN_300: f64 = 1.0 / 300.0;

    fn units(seed: u64) -> impl FnMut() -> f64 {
        let mut random = generator(seed, "latency", 0);
        move || random.next_u64() as f64 / u64::MAX as f64
    }

    /// Where queries stall: every `step`-th, from anywhere on and within a part of the step, and that part of
    /// all at random.
    fn places(seed: u64, step: Option<usize>, jitter: f64, at_random: f64) -> Vec<usize> {
        let mut unit = units(seed);
        let mut places: Vec<usize> = (0..QUERIES).filter(|_| unit() < at_random).collect();
        let step = step.map_or(f64::INFINITY, |step| step as f64);
        let mut place = step * unit();
        while place < QUERIES as f64 {
            places.push(place as usize);
            place += step * (1.0 + jitter * (2.0 * unit() - 1.0));
        }
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Of 1,000 series with regular stalls and random ones beside them, 990 at least are told with the right
    /// distance; of 1,000 with random ones alone at most one is taken for regular.
    #[test]
    fn regular_stalls_are_told_from_random_ones_beside_them() {
        let mut told = 0;
        for step in [50, 100, 200, 500] {
            for seed in 0..250 {
                let found = Comb::over(&places(seed, Some(step), 0.0, ONE_IN_300), QUERIES);
                told += usize::from(found.is_some_and(|comb| comb.step.round() == step as f64));
            }
        }
        let parts = [0.002, ONE_IN_300, 0.01, 0.03, 0.06];
        let false_alarms = (0..1000)
            .filter(|&seed| {
                let places = places(seed, None, 0.0, parts[seed as usize % 5]);
                Comb::over(&places, QUERIES).is_some()
            })
            .count();
        assert!(told >= 990 && false_alarms <= 1, "{told} told, {false_alarms} false alarms");
    }

    /// Stalls that come by the clock are moved by queries that take more or less time.
    #[test]
    fn distances_need_not_be_the_same() {
        for step in [20, 50, 100] {
            let is_told = |seed: &u64| {
                Comb::over(&places(*seed, Some(step), 0.08, ONE_IN_300), QUERIES).is_some()
            };
            let told = (0..100).filter(is_told).count();
            assert!(told >= 90, "{step}: {told}");
        }
    }

    #[test]
    fn bursts_are_not_regular() {
        for seed in 0..200 {
            let mut unit = units(seed);
            let mut places: Vec<usize> = (0..30)
                .map(|_| (unit() * (QUERIES - 5) as f64) as usize)
                .flat_map(|start| start..start + 5)
                .collect();
            places.sort_unstable();
            places.dedup();
            assert!(Comb::over(&places, QUERIES).is_none(), "{seed}");
        }
    }

    #[test]
    fn the_figures_are_told_where_stalls_cost_something() {
        let series = |step: usize, factor: f64| -> Vec<u64> {
            let mut unit = units(1);
            let mut latencies = vec![1e6; QUERIES];
            for place in places(2, Some(step), 0.0, ONE_IN_300) {
                latencies[place] *= factor;
            }
            latencies.iter().map(|latency| (latency * (1.0 + 0.05 * unit())) as u64).collect()
        };
        let found = stalls(&series(100, 10.0)).expect("a tenth of the time");
        insta::assert_snapshot!(found.evidence, @"One query in 100 took 10.22 ms instead of 1.03 ms, which is 8.1 % of all the time.");
        // Less than 1 % of the time, and less than twice what a query takes.
        assert_eq!(stalls(&series(500, 3.0)), None);
        assert_eq!(stalls(&series(20, 1.9)), None);
    }

    /// Against the binomial distribution itself: 8 of 10 at one in ten.
    #[test]
    fn the_chance_is_a_bound() {
        let exact = 45.0 * 0.1_f64.powi(8) * 0.81 + 10.0 * 0.1_f64.powi(9) * 0.9 + 0.1_f64.powi(10);
        let bound = chance(10, 8, 0.1).exp();
        assert!(exact < bound && bound < 10.0 * exact, "{exact} {bound}");
        assert_eq!(chance(10, 1, 0.1), 0.0);
    }
}
