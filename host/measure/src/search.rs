/*!
The highest rate at which a latency stays under its limit.

Latency grows with the rate, so there is one border; what makes it hard to find is that a measured
percentile is noisy, most of all near saturation, where the border often lies. Three things keep
one unlucky measurement from deciding:

- A latency within [`Search::doubt`] of the limit is measured again, up to three times at one rate,
  and the median decides. Far from the limit one measurement is enough.
- When the bracket is narrow enough, both its edges are measured anew, and so is an end of the
  range that decides by itself. An edge whose verdict does
  not hold up moves the bracket to its other side and widens it, and the search goes on from there.
- The number of measurements is bounded. A search that runs out of them says so, and gives the
  bracket that it had.

MLPerf's rules have LoadGen do likewise: a binary search for a candidate, which is then measured
five times, and lowered a little where one of these fails.
*/

use crate::schedule::Rate;

/// What to search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Search {
    /// Where to begin.
    pub lowest: Rate,
    /// Where to give up.
    pub highest: Rate,
    /// What the latency may be at most, in nanoseconds.
    pub limit_ns: u64,
    /// How far apart the edges of the final bracket may be, as a share of the lower: 0.02 is 2 %.
    pub tolerance: f64,
    /// How near the limit a latency has to be for being measured again, as a share of the limit.
    pub doubt: f64,
    /// Measurements to make at most.
    pub measurements: u32,
}

impl Search {
    /// A search between two rates, to 2 %, doubting what is within 10 % of the limit, with at
    /// most 60 measurements.
    #[must_use]
    pub fn new(lowest: Rate, highest: Rate, limit_ns: u64) -> Self {
        Self { lowest, highest, limit_ns, tolerance: 0.02, doubt: 0.1, measurements: 60 }
    }
}

/// What was seen at a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The latency that is limited, in nanoseconds.
    Latency(u64),
    /// The load could not be kept up, which is beyond every limit.
    CouldNotKeepUp,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MaxRate {
    /// The border lies in this bracket, both of whose edges were measured twice at least.
    Found(Bracket),
    /// Measurements ran out before the bracket was narrow and its edges were confirmed.
    Unsettled(Bracket),
    /// Even the lowest rate is too much, on a second look as well.
    NotEvenLowest,
    /// The highest rate is still fine, on a second look as well.
    FineAtHighest,
}

/// Two rates between which the border lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bracket {
    /// The highest rate that was fine; `None` where measurements ran out before there was one.
    pub fine: Option<Rate>,
    /// The lowest rate above it that was too much; `None` likewise.
    pub too_much: Option<Rate>,
}

/// By how much the rate grows while nothing was too much.
const GROWTH: f64 = 2.0;

/// Searches the highest rate whose latency keeps to the limit. `measure` is called with one rate
/// after the other.
///
/// The rate grows by factors of two until it is too much; then the bracket is halved on a
/// logarithmic scale.
///
/// # Errors
///
/// The first error of `measure`.
pub fn find_max_rate<E>(
    search: &Search,
    measure: impl FnMut(Rate) -> Result<Seen, E>,
) -> Result<MaxRate, E> {
    let mut prober = Prober { search, measure, left: search.measurements };
    let (mut fine, mut too_much): (Option<Edge>, Option<Edge>) = (None, None);
    // How far to step beyond an edge whose verdict did not hold up.
    let mut step = 1.0 + search.tolerance;
    loop {
        let (rate, confirms) = match (fine, too_much) {
            (None, None) => (search.lowest, false),
            (Some(low), None) if low.rate >= search.highest => {
                if low.confirmed {
                    return Ok(MaxRate::FineAtHighest);
                }
                (low.rate, true)
            }
            (Some(low), None) => (prober.within(low.rate.get() * low.step), false),
            (None, Some(high)) if high.rate <= search.lowest => {
                if high.confirmed {
                    return Ok(MaxRate::NotEvenLowest);
                }
                (high.rate, true)
            }
            (None, Some(high)) => (prober.within(high.rate.get() / high.step), false),
            (Some(low), Some(high)) => {
                if high.rate.get() / low.rate.get() > 1.0 + search.tolerance {
                    (prober.within((low.rate.get() * high.rate.get()).sqrt()), false)
                } else if !low.confirmed {
                    (low.rate, true)
                } else if !high.confirmed {
                    (high.rate, true)
                } else {
                    let (fine, too_much) = (Some(low.rate), Some(high.rate));
                    return Ok(MaxRate::Found(Bracket { fine, too_much }));
                }
            }
        };
        let Some(is_fine) = prober.is_fine(rate)? else {
            let (fine, too_much) = (fine.map(|edge| edge.rate), too_much.map(|edge| edge.rate));
            return Ok(MaxRate::Unsettled(Bracket { fine, too_much }));
        };
        let was_fine = fine.is_some_and(|edge| edge.rate == rate);
        let edge = Edge { rate, confirmed: confirms && is_fine == was_fine, step: GROWTH };
        match (is_fine, confirms && !edge.confirmed) {
            (true, false) => fine = Some(edge),
            (false, false) => too_much = Some(edge),
            // The bracket moves beyond the edge: what was its other edge is of no use.
            (true, true) => {
                fine = Some(Edge { step, ..edge });
                too_much = None;
                step *= step;
            }
            (false, true) => {
                too_much = Some(Edge { step, ..edge });
                fine = None;
                step *= step;
            }
        }
    }
}

/// An edge of the bracket.
#[derive(Debug, Clone, Copy)]
struct Edge {
    rate: Rate,
    /// Whether a second look, once the bracket was narrow, said the same.
    confirmed: bool,
    /// By what factor to go on from here, where there is no other edge.
    step: f64,
}

struct Prober<'a, F> {
    search: &'a Search,
    measure: F,
    left: u32,
}

impl<F> Prober<'_, F> {
    /// The rate within the bounds of the search that is nearest.
    fn within(&self, queries_per_second: f64) -> Rate {
        let Search { lowest, highest, .. } = self.search;
        let rate = queries_per_second.min(highest.get()).max(lowest.get());
        // Both bounds are rates, and so is what lies between them.
        Rate::per_second(rate).unwrap_or(*lowest)
    }

    /// Whether the latency at this rate keeps to the limit; `None` where measurements ran out.
    fn is_fine<E>(&mut self, rate: Rate) -> Result<Option<bool>, E>
    where
        F: FnMut(Rate) -> Result<Seen, E>,
    {
        let limit_ns = self.search.limit_ns;
        let (mut fine, mut too_much) = (0, 0);
        // Two of three are the median's verdict.
        while fine < 2 && too_much < 2 {
            let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
            self.left = left;
            let (is_fine, is_clear) = match (self.measure)(rate)? {
                Seen::Latency(latency_ns) => {
                    let distance = latency_ns.abs_diff(limit_ns) as f64;
                    (latency_ns <= limit_ns, distance > self.search.doubt * limit_ns as f64)
                }
                Seen::CouldNotKeepUp => (false, true),
            };
            if is_clear && fine == 0 && too_much == 0 {
                return Ok(Some(is_fine));
            }
            if is_fine {
                fine += 1;
            } else {
                too_much += 1;
            }
        }
        Ok(Some(fine == 2))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::block::Block;
    use crate::testing::{NO_LIMIT, Steps, VirtualClock, rate, rule};
    use crate::{Meter, Scenario};

    /// A target with latency 1/(1 − rate/1000) in microseconds, times noise.
    fn curve(rate: Rate, noise: f64) -> Seen {
        let utilisation = rate.get() / 1000.0;
        if utilisation >= 1.0 {
            return Seen::CouldNotKeepUp;
        }
        Seen::Latency((1000.0 / (1.0 - utilisation) * noise) as u64)
    }

    fn search(lowest: f64, highest: f64) -> Search {
        // 5 µs are reached at a rate of 800.
        Search::new(rate(lowest), rate(highest), 5000)
    }

    #[test]
    fn the_border_is_found_from_far_away() {
        let mut rates = Vec::new();
        let found = find_max_rate(&search(1.0, 1e6), |rate| {
            rates.push(rate.get());
            Ok::<_, Infallible>(curve(rate, 1.0))
        });
        let Ok(MaxRate::Found(Bracket { fine: Some(fine), too_much: Some(too_much) })) = found
        else {
            panic!("{found:?}")
        };
        assert!(fine.get() <= 800.0 && 800.0 < too_much.get(), "{fine:?} {too_much:?}");
        assert!(too_much.get() / fine.get() <= 1.02);
        assert_eq!(rates[..11], [1., 2., 4., 8., 16., 32., 64., 128., 256., 512., 1024.]);
        assert!(rates.len() < 30, "{rates:?}");
    }

    #[test]
    fn ends_of_the_range_have_outcomes_of_their_own() {
        let measure = |rate| Ok::<_, Infallible>(curve(rate, 1.0));
        assert_eq!(find_max_rate(&search(900.0, 1e6), measure), Ok(MaxRate::NotEvenLowest));
        assert_eq!(find_max_rate(&search(1.0, 700.0), measure), Ok(MaxRate::FineAtHighest));
        let few = Search { measurements: 5, ..search(1.0, 1e6) };
        let bracket = Bracket { fine: Some(rate(16.0)), too_much: None };
        assert_eq!(find_max_rate(&few, measure), Ok(MaxRate::Unsettled(bracket)));
        assert_eq!(find_max_rate(&search(1.0, 2.0), |_| Err::<Seen, _>("broken")), Err("broken"));
    }

    /// A single wild measurement at any point of the search does not move what is found.
    #[test]
    fn one_wild_measurement_does_not_decide() {
        for wild in 1..30 {
            for lie in [Seen::CouldNotKeepUp, Seen::Latency(1)] {
                let mut calls = 0;
                let found = find_max_rate(&search(100.0, 1e5), |rate| {
                    calls += 1;
                    Ok::<_, Infallible>(if calls == wild { lie } else { curve(rate, 1.0) })
                });
                let Ok(MaxRate::Found(Bracket { fine: Some(fine), .. })) = found else {
                    panic!("{wild} {lie:?}: {found:?}")
                };
                assert!((fine.get() / 800.0 - 1.0).abs() < 0.03, "{wild} {lie:?}: {fine:?}");
            }
        }
    }

    /// Latencies that scatter by ±10 % move the border by ±2.5 % here, as 1/(1 − x) has it.
    #[test]
    fn noise_at_the_border_leaves_the_rate_about_right() {
        for seed in 0..50 {
            let mut state: u64 = seed;
            let found = find_max_rate(&search(1.0, 1e6), |rate| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let noise = 0.9 + 0.2 * (state >> 32) as f64 / f64::from(u32::MAX);
                Ok::<_, Infallible>(curve(rate, noise))
            });
            let (Ok(MaxRate::Found(bracket)) | Ok(MaxRate::Unsettled(bracket))) = found else {
                panic!("{seed}: {found:?}")
            };
            let fine = bracket.fine.expect("there is a fine rate").get();
            assert!((fine / 800.0 - 1.0).abs() < 0.05, "{seed}: {fine}");
        }
    }

    /// The distribution of the wait in a queue with random arrivals, constant service of one unit
    /// and one server (Erlang 1909): P(W ≤ t) = (1 − ρ) Σ (ρ(j − t))ʲ e^(−ρ(j − t)) / j!, over
    /// j from 0 to ⌊t⌋.
    fn waits_at_most(time: f64, utilisation: f64) -> f64 {
        let mut factorial = 1.0;
        let mut sum = 0.0;
        for index in 0..=time as i32 {
            factorial *= f64::from(index.max(1));
            let exponent = utilisation * (f64::from(index) - time);
            sum += exponent.powi(index) * (-exponent).exp() / factorial;
        }
        (1.0 - utilisation) * sum
    }

    /// The whole way: a server scenario in virtual time, its 99th percentile, and the rate that
    /// theory gives for it. With 30,000 queries at each rate the found one
    /// is allowed 5 %.
    #[test]
    fn a_simulated_queue_is_found_to_take_what_theory_says() {
        const SERVICE_NS: i64 = 1000;
        const QUERIES: u64 = 30_000;
        // A latency of 7 service times is a wait of 6.
        let limit_ns = 7000;
        let (mut low, mut high) = (0.0, 1.0);
        while high - low > 1e-9 {
            let middle = (low + high) / 2.0;
            if waits_at_most(6.0, middle) >= 0.99 { low = middle } else { high = middle }
        }
        let theory = low * 1e9 / SERVICE_NS as f64;
        assert!((0.6..0.9).contains(&low), "{low}");

        let mut seed = 100;
        let found = find_max_rate(&Search::new(rate(1e4), rate(1e8), limit_ns), |rate| {
            let clock = VirtualClock::default();
            let mut target = Steps::constant(&clock, SERVICE_NS);
            let mut latencies = Vec::new();
            let mut sink = |block: Block<'_>| {
                latencies.extend(block.times.latencies());
                Ok::<_, Infallible>(())
            };
            seed += 1;
            let summary = Meter::new(&clock, 1 << 13, NO_LIMIT)
                .run(
                    &mut target,
                    Scenario::Server { rate, seed },
                    // A rate that is far too high is given up after twice the time.
                    &rule(0, QUERIES, 2 * QUERIES * SERVICE_NS as u64),
                    &mut sink,
                )
                .expect("nothing fails");
            if !summary.enough && summary.pace.is_some_and(|pace| pace.unserved > 0) {
                return Ok::<_, Infallible>(Seen::CouldNotKeepUp);
            }
            latencies.sort_unstable();
            Ok(Seen::Latency(latencies[latencies.len() * 99 / 100]))
        });
        let Ok(MaxRate::Found(Bracket { fine: Some(fine), .. })) = found else {
            panic!("{found:?}")
        };
        assert!((fine.get() / theory - 1.0).abs() < 0.05, "{fine:?} for {theory}");
    }
}
