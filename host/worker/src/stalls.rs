//! Queries that stall at regular distances.
//!
//! Stalls seldom come alone: there are random ones too, and if every 500th
//! query stalls the random ones may be more numerous. Distances between neighbours then say nothing. So
//! combs are laid over the stalled queries: from one of them in steps of its distance to another, forwards
//! and backwards, to both ends of the series. With random stalls, each tooth meets one with the
//! same probability, independently of the others, which bounds how often a comb is met by chance.
//!
//! A run of the backend may stall, and a query has several runs in `multi-stream`. If every 45th run stalls and
//! a query has eight, that is one query in 5.6, at distances of five and of six, and combs whose step is the
//! sum of several distances meet only some of them. So a tooth may miss by one query, and further combs of the
//! same step are laid over the stalls that the first one left, and counted with it.
//!
//! The queries are of one client, in the order in which it made them: those of several clients come in blocks,
//! and have no common distances. In open loops a query counts from its actual start, because one stall delays
//! all queries behind it.

use host_measure::Times;
use host_record::Doubt;
use host_statistics::{OutlierClass, TukeyFences, median};

/// Fewest stalls that are called regular.
const LEAST: usize = 8;

/// Part of a comb's teeth that must meet a stall.
const MET: f64 = 0.6;

/// Distance, relative to the step, by which a tooth may miss its stall. If every *n*-th query stalls, it
/// does not miss; stalls at regular times move with the duration of queries.
const TOLERANCES: [f64; 2] = [0.02, 0.1];

/// Stalls at which combs begin, evenly spread, and how many of those behind it give each a step.
const ANCHORS: usize = 16;
const STEPS: usize = 8;

/// Probability that random stalls are called regular. Each comb has its share of that.
const CHANCE: f64 = 1e-4;

/// Number of combs of one step that are counted together.
const COMBS: usize = 8;

/// First queries of the first client, all of them: among every fourth query, an event with period 50 would be
/// seen half of the time or never.
#[derive(Debug)]
pub(crate) struct FirstClient {
    durations: Vec<u64>,
    is_open: bool,
}

impl FirstClient {
    const CAPACITY: usize = 1 << 16;

    pub(crate) fn new() -> Self {
        Self { durations: Vec::with_capacity(Self::CAPACITY), is_open: false }
    }

    /// Takes the client's next queries, as long as there is room.
    pub(crate) fn extend(&mut self, times: Times<'_>) {
        self.is_open = matches!(times, Times::Scheduled(_));
        self.durations.extend(times.durations().take(Self::CAPACITY - self.durations.len()));
    }

    /// Latencies of the first client, out of `clients`.
    pub(crate) fn row(&self, clients: u32) -> Row<'_> {
        Row { durations: &self.durations, clients, is_open: self.is_open }
    }
}

/// Queries in a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row<'a> {
    /// From when each did begin, in nanoseconds.
    durations: &'a [u64],
    /// Number of clients; these are the first one's queries.
    clients: u32,
    /// Whether queries were scheduled, so that their latencies count from their scheduled time.
    is_open: bool,
}

#[cfg(test)]
impl<'a> Row<'a> {
    /// Creates the row of a closed loop with a single client.
    pub(crate) fn of(durations: &'a [u64]) -> Self {
        Self { durations, clients: 1, is_open: false }
    }
}

/// Warns about queries that are far out by Tukey's fences and take at least twice the median, if a comb fits
/// them. They must take 1 % of the total time; shorter stalls are left to the percentiles.
pub(crate) fn stalls(row: Row<'_>) -> Option<Doubt> {
    let latencies = row.durations;
    let fences = TukeyFences::of(latencies)?;
    let typical = median(latencies)?;
    let stalled = |index: &usize| {
        let latency = latencies[*index] as f64;
        latency >= 2.0 * typical && fences.class(latency) == Some(OutlierClass::SevereHigh)
    };
    let places: Vec<usize> = (0..latencies.len()).filter(stalled).collect();
    let Regular { every, met } = Regular::over(places, latencies.len())?;
    let met: Vec<u64> = met.iter().map(|&place| latencies[place]).collect();
    let lost: f64 = met.iter().map(|&latency| latency as f64 - typical).sum();
    let all: f64 = latencies.iter().map(|&latency| latency as f64).sum();
    (lost >= 0.01 * all).then(|| Doubt::Stalls {
        every_queries: every,
        stalled_ns: median(&met).unwrap_or(typical),
        typical_ns: typical,
        time_ratio: lost / all,
        clients: row.clients,
        since_begun: row.is_open,
    })
}

/// Stalls that come at regular distances.
struct Regular {
    /// Distance between stalls, in queries.
    every: f64,
    met: Vec<usize>,
}

impl Regular {
    /// Returns the best comb, and others of its step that it left room for.
    fn over(mut places: Vec<usize>, queries: usize) -> Option<Self> {
        let first = Comb::over(&places, queries)?;
        let (step, mut rate, mut met) = (first.step, 0.0, Vec::new());
        let mut next = Some(first);
        for _ in 0..COMBS {
            // A step that is not a whole number of queries may be met a query earlier or later.
            let alike = |comb: &Comb| (comb.step - step).abs() <= (0.02 * step).max(1.0);
            let Some(comb) = next.filter(alike) else { break };
            rate += 1.0 / comb.step;
            places.retain(|place| comb.met.binary_search(place).is_err());
            met.extend(comb.met);
            next = Comb::over(&places, queries);
        }
        Some(Self { every: 1.0 / rate, met })
    }
}

/// Teeth at equal distances, and the stalls that they meet.
struct Comb {
    step: f64,
    met: Vec<usize>,
    /// Logarithm of the chance that stalls at random meet as many of its teeth.
    chance: f64,
}

impl Comb {
    /// Returns the least probable comb among those that meet enough stalls.
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
                let [exact, by_the_clock] =
                    TOLERANCES.map(|tolerance| (tolerance * step as f64) as usize);
                // Teeth that are closer than this meet everything.
                let by_one = if step > 3 { by_the_clock.max(1) } else { by_the_clock };
                for within in [exact, by_one] {
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

    /// Lays a comb from an anchor in both directions. A tooth that meets a stall sets the place of the
    /// next one, so that fractions of a query do not add up.
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
        // Parts without a missed stall in between.
        let one_step = |distance: &usize| 2 * distance < 3 * step;
        let distances = met.windows(2).map(|pair| pair[1] - pair[0]).filter(one_step);
        let distances: Vec<u64> = distances.map(|distance| distance as u64).collect();
        // The median of fives and sixes is one of them, and the mean of all goes by chance stalls as well.
        let typical = median(&distances).unwrap_or(step as f64);
        let near =
            distances.iter().map(|&one| one as f64).filter(|one| (one - typical).abs() <= 1.0);
        let near: Vec<f64> = near.collect();
        let step =
            if near.is_empty() { typical } else { near.iter().sum::<f64>() / near.len() as f64 };
        Some(Self { step, met, chance })
    }
}

/// Returns the logarithm of a bound on the probability that at least so many of `trials` succeed (H.
/// Chernoff, *Annals of Mathematical Statistics* 23(4), 1952).
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
    use host_measure::ScheduledQuery;
    use rand_pcg::rand_core::Rng;

    use super::*;
    use crate::synthetic::generator;

    const QUERIES: usize = 5000;
    const ONE_IN_300: f64 = 1.0 / 300.0;

    fn units(seed: u64) -> impl FnMut() -> f64 {
        let mut random = generator(seed, "latency", 0);
        move || random.next_u64() as f64 / u64::MAX as f64
    }

    /// Returns the places of stalls: every `step`-th, from anywhere on and within a part of the step, and
    /// that part of all at random.
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

    /// Of 1,000 series with regular and random stalls, at least 990 are reported with the right
    /// distance; of 1,000 with random ones alone at most one is taken for regular.
    #[test]
    fn regular_stalls_are_distinguished_from_random_ones_beside_them() {
        let mut reported = 0;
        for step in [50, 100, 200, 500] {
            for seed in 0..250 {
                let found = Comb::over(&places(seed, Some(step), 0.0, ONE_IN_300), QUERIES);
                reported += usize::from(found.is_some_and(|comb| comb.step.round() == step as f64));
            }
        }
        let parts = [0.002, ONE_IN_300, 0.01, 0.03, 0.06];
        let false_alarms = (0..1000)
            .filter(|&seed| {
                let places = places(seed, None, 0.0, parts[seed as usize % 5]);
                Comb::over(&places, QUERIES).is_some()
            })
            .count();
        assert!(
            reported >= 990 && false_alarms <= 1,
            "{reported} told, {false_alarms} false alarms"
        );
    }

    /// If every so many runs stall and a query has several, the queries' distances are not whole numbers.
    /// The reported ratio is that of stalled queries, to 2 %.
    #[test]
    fn stalls_of_runs_are_counted_in_queries() {
        for (runs, of_query) in [(45, 8), (20, 8), (100, 8), (30, 8), (35, 4), (7, 2), (77, 8)] {
            let truth = f64::from(runs) / f64::from(of_query);
            for queries in [400, 1000, 5000] {
                let stalled = (1..).map(|stall| (runs * stall - 1) / of_query);
                let mut places: Vec<usize> = stalled
                    .map(|place| place as usize)
                    .take_while(|place| *place < queries)
                    .collect();
                // And a few at random.
                let mut unit = units(9);
                places.extend((0..queries).filter(|_| unit() < 0.002));
                places.sort_unstable();
                places.dedup();
                let found = Regular::over(places, queries).map(|regular| regular.every);
                assert!(
                    found.is_some_and(|every| (every / truth - 1.0).abs() < 0.02),
                    "{runs} of {of_query} in {queries}: {found:?} and not {truth}"
                );
            }
        }
    }

    /// Of several clients the first one's queries are examined, and in an open loop from their start: a
    /// stall that delays five others is one stall.
    #[test]
    fn what_waits_for_a_stall_does_not_stall() {
        let mut now = 0;
        let queries: Vec<ScheduledQuery> = (0..2000)
            .map(|index| {
                let scheduled_ns = index * 2_000_000;
                let begun_ns = scheduled_ns.max(now);
                let jitter = index % 7 * 10_000;
                now = begun_ns + jitter + if index % 50 == 49 { 10_000_000 } else { 1_000_000 };
                ScheduledQuery { scheduled_ns, begun_ns, ended_ns: now }
            })
            .collect();
        let mut client = FirstClient::new();
        client.extend(Times::Scheduled(&queries));
        let doubt = stalls(client.row(4)).expect("one query in 50");
        insta::assert_snapshot!(doubt, @"1 query in 50 of the first of 4 clients took 10.0 ms instead of 1.03 ms after it started (15 % of the total time)");
    }

    /// Stalls that come by the clock are moved by queries that take more or less time.
    #[test]
    fn distances_need_not_be_the_same() {
        for step in [20, 50, 100] {
            let is_reported = |seed: &u64| {
                Comb::over(&places(*seed, Some(step), 0.08, ONE_IN_300), QUERIES).is_some()
            };
            let reported = (0..100).filter(is_reported).count();
            assert!(reported >= 90, "{step}: {reported}");
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
        let found = stalls(Row::of(&series(100, 10.0))).expect("a tenth of the time");
        insta::assert_snapshot!(found, @"1 query in 100 took 10.2 ms instead of 1.03 ms (8.1 % of the total time)");
        // Less than 1 % of the time, and less than twice what a query takes.
        assert_eq!(stalls(Row::of(&series(500, 3.0))), None);
        assert_eq!(stalls(Row::of(&series(20, 1.9))), None);
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
