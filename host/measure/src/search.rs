/*!
Search for the highest rate at which a latency stays under its limit.

Latency grows with the rate, so there is one border. It is hard to find because a measured
percentile is noisy, most of all near saturation, where the border often lies. These rules keep
one unlucky measurement from deciding, and the result from being too high:

- Two of up to three measurements decide that a rate is too high. One is enough to accept a rate, if its
  latency is not within [`Search::doubt`] of the limit; otherwise it takes two of three as well.
- A rate that was too high stays so: the result lies below every such rate. When the bracket is narrow
  enough, its lower edge is measured again, and so is the highest rate of the range. An edge that fails is
  too high, and the search goes on below it.
- The result is measured for as long as it has to hold ([`hold`]), and lowered if it fails.
- A measurement whose load generator was late says nothing about the target, unless the target was too slow
  whatever the generator did. It is repeated, and if it is late three times, the search ends as such.
- The number of measurements is bounded. A search that runs out of them says so, and returns its last
  bracket.
- The time of each is bounded too ([`Probing`]). Low rates take long, and no rate is tried at which too few
  queries would arrive in that time. If the border lies below all others, the search says so instead.

LoadGen under MLPerf's rules does the same: a binary search for a candidate, which is then measured
five times, and lowered a little if one of these fails.
*/

use host_record::{Lateness, Pace, Rate};

use crate::rules::KeepUp;
use crate::stop::StopRule;

/// Distance of a latency from the limit within which it is doubted, relative to the limit.
const DOUBT: f64 = 0.1;

/// Parameters of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Search {
    /// First rate. If it is too high, the lowest rate is next.
    pub begin: Rate,
    /// Lowest rate to try.
    pub lowest: Rate,
    /// Highest rate to try.
    pub highest: Rate,
    /// Limit on the latency, in nanoseconds.
    pub limit_ns: u64,
    /// Largest distance between the edges of the final bracket, relative to the lower: 0.02 is 2 %.
    pub tolerance: f64,
    /// Distance of a latency from the limit within which it is measured again, relative to the
    /// limit.
    pub doubt: f64,
    /// Measurements to make at most.
    pub measurements: u32,
    /// Whether the lowest rate is set by the time of a measurement, so that lower ones were left out.
    pub is_cut_short: bool,
}

impl Search {
    /// Creates a search between two rates from the lowest on, to 2 %, that doubts latencies within 10 % of
    /// the limit, with at most 60 measurements.
    #[must_use]
    pub fn new(lowest: Rate, highest: Rate, limit_ns: u64) -> Self {
        Self {
            begin: lowest,
            lowest,
            highest,
            limit_ns,
            tolerance: 0.02,
            doubt: DOUBT,
            measurements: 60,
            is_cut_short: false,
        }
    }

    /// Returns this search without the rates that are too low for `probing`. If none is left, it is the
    /// lowest possible rate.
    #[must_use]
    pub fn within(self, probing: &Probing) -> Self {
        let lowest = probing.lowest();
        let raised = |rate: Rate| if rate < lowest { lowest } else { rate };
        Self {
            begin: raised(self.begin),
            lowest: raised(self.lowest),
            highest: raised(self.highest),
            is_cut_short: self.lowest < lowest,
            ..self
        }
    }
}

/// For how long a rate is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probing {
    /// The percentile of the latency that is limited, as a share: 0.99 is the 99th.
    pub percentile: f64,
    /// Time in nanoseconds that a measurement of the search takes at least, up to half the maximum.
    pub short_ns: u64,
    /// Time in nanoseconds that the measurement of a rate that was found takes at least.
    pub whole_ns: u64,
    /// Time limit of each measurement in nanoseconds.
    pub maximum_ns: u64,
}

/// Number of queries beyond the percentile in a measurement, so that one stall does not decide, and their
/// number if its time has no room for more.
const BEYOND: f64 = 5.0;
const BEYOND_AT_LEAST: f64 = 1.0;

impl Probing {
    /// Queries of which so many are beyond the percentile. A hair is taken off, since 0.1 is not 1 − 0.9 in
    /// binary.
    fn queries(&self, beyond: f64) -> f64 {
        (beyond / (1.0 - self.percentile) - 1e-6).ceil().max(1.0)
    }

    /// Returns half of the maximum, in nanoseconds: a growing queue makes the loop longer than its
    /// schedule, and twice as long is enough to detect it.
    fn room_ns(&self) -> f64 {
        self.maximum_ns as f64 / 2.0
    }

    /// Returns the lowest rate with room for enough queries.
    #[must_use]
    pub fn lowest(&self) -> Rate {
        let lowest = self.queries(BEYOND_AT_LEAST) * 1e9 / self.room_ns();
        Rate::per_second(lowest.clamp(1e-9, 1e9)).unwrap_or(Rate::HIGHEST)
    }

    /// Returns the length of a measurement during the search.
    #[must_use]
    pub fn short(&self, rate: Rate) -> StopRule {
        let minimum_ns = self.short_ns.min(self.maximum_ns / 2);
        self.rule(rate, minimum_ns, self.minimum_queries(rate))
    }

    /// Returns the length of the measurement of the result, with the case's minimum of queries.
    #[must_use]
    pub fn whole(&self, rate: Rate, minimum_queries: u64) -> StopRule {
        let minimum_queries = self.minimum_queries(rate).max(minimum_queries);
        self.rule(rate, self.whole_ns, minimum_queries)
    }

    fn minimum_queries(&self, rate: Rate) -> u64 {
        let room = (rate.get() * self.room_ns() / 1e9).floor();
        room.clamp(self.queries(BEYOND_AT_LEAST), self.queries(BEYOND)) as u64
    }

    fn rule(&self, rate: Rate, minimum_ns: u64, minimum_queries: u64) -> StopRule {
        let schedule_ns = (minimum_queries as f64 * 1e9 / rate.get()).max(minimum_ns as f64);
        let maximum_ns = ((2.0 * schedule_ns) as u64).min(self.maximum_ns);
        StopRule { minimum_ns, minimum_queries, maximum_ns }
    }
}

/// Result of a measurement at a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The latency that is limited, in nanoseconds.
    Latency(u64),
    /// The target could not keep up, which is beyond every limit.
    CouldNotKeepUp,
    /// The load generator could not keep up, which says nothing about the target.
    GeneratorLate,
}

impl Seen {
    /// Judges a measurement whose limited latency was `latency_ns`, if there was one.
    ///
    /// If the generator was late, by [`KeepUp`] and by more than the doubt of a latency, the measurement counts
    /// only if the latency is over the limit by more than the generator was ever late: a target that is too slow
    /// makes queries follow one another, and the generator's time between them adds up.
    #[must_use]
    pub fn of(latency_ns: Option<u64>, kept_up: bool, pace: &Pace, limit_ns: u64) -> Self {
        let counts = |late: &Lateness| {
            KeepUp::default().is_late(pace) && late.p99_ns as f64 > DOUBT * limit_ns as f64
        };
        if let Some(late) = pace.lateness.filter(counts)
            && latency_ns.is_none_or(|latency| latency.saturating_sub(late.maximum_ns) <= limit_ns)
        {
            return Self::GeneratorLate;
        }
        latency_ns.filter(|_| kept_up).map_or(Self::CouldNotKeepUp, Self::Latency)
    }
}

/// Result of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MaxRate {
    /// The border lies in this bracket, both of whose edges were measured twice at least.
    Found(Bracket),
    /// Measurements ran out before the bracket was narrow and its edges were confirmed, or before a rate was
    /// found that holds.
    Unsettled(Bracket),
    /// The generator of the load was late each time at a rate that may lie in this bracket.
    GeneratorLate(Bracket),
    /// Even the lowest rate is too much, on a second look as well.
    NotEvenLowest,
    /// So is it, and lower ones would take longer to measure than is allowed.
    CutShort,
    /// The highest rate is still fine, on a second look as well.
    FineAtHighest,
}

/// Two rates between which the border lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bracket {
    /// The highest rate that passed; `None` if the search ended before there was one.
    pub fine: Option<Rate>,
    /// The lowest rate that was too much, above it; `None` likewise.
    pub too_much: Option<Rate>,
}

/// Growth of the rate while none was too high.
const GROWTH: f64 = 2.0;

/// Number of late measurements at a rate that end the search.
const LATE: u32 = 3;

/// Number of times that the result is lowered at most, and the factor.
const BACK_OFFS: u32 = 5;
const BACK_OFF: f64 = 0.97;

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
    let (mut fine, mut too_much): (Option<Fine>, Option<Rate>) = (None, None);
    // By what factor to go down from a rate that was too much: all the way, until one was fine that then was
    // not. That one was near the border.
    let (mut down, mut next_down) = (f64::INFINITY, 1.0 + search.tolerance);
    loop {
        let (rate, confirms) = match (fine, too_much) {
            (None, None) => (search.begin, false),
            (Some(low), None) if low.rate >= search.highest => {
                if low.confirmed {
                    return Ok(MaxRate::FineAtHighest);
                }
                (low.rate, true)
            }
            (Some(low), None) => (prober.within(low.rate.get() * GROWTH), false),
            (None, Some(high)) if high <= search.lowest => {
                return Ok(if search.is_cut_short {
                    MaxRate::CutShort
                } else {
                    MaxRate::NotEvenLowest
                });
            }
            (None, Some(high)) => (prober.within(high.get() / down), false),
            (Some(low), Some(high)) => {
                if high.get() / low.rate.get() > 1.0 + search.tolerance {
                    (prober.within((low.rate.get() * high.get()).sqrt()), false)
                } else if low.confirmed {
                    let (fine, too_much) = (Some(low.rate), Some(high));
                    return Ok(MaxRate::Found(Bracket { fine, too_much }));
                } else {
                    (low.rate, true)
                }
            }
        };
        let bracket = Bracket { fine: fine.map(|edge| edge.rate), too_much };
        match prober.look(rate)? {
            Look::Fine => fine = Some(Fine { rate, confirmed: confirms }),
            Look::TooMuch => {
                too_much = Some(rate);
                if confirms {
                    fine = None;
                    down = next_down;
                    next_down *= next_down;
                } else if down.is_finite() {
                    down = GROWTH;
                }
            }
            Look::GeneratorLate => return Ok(MaxRate::GeneratorLate(bracket)),
            Look::None => return Ok(MaxRate::Unsettled(bracket)),
        }
    }
}

/// Measures a rate that was found, and lowers it by 3 % up to five times if it fails: short
/// measurements are lenient at the border. `measure` must take as long as the rate has to hold, and apply
/// the requirements of the verdict on the case ([`KeepUp::is_kept_up`]).
///
/// # Errors
///
/// The first error of `measure`.
pub fn hold<E>(
    bracket: Bracket,
    limit_ns: u64,
    mut measure: impl FnMut(Rate) -> Result<Seen, E>,
) -> Result<MaxRate, E> {
    let Bracket { fine: Some(mut rate), mut too_much } = bracket else {
        return Ok(MaxRate::Unsettled(bracket));
    };
    let (mut lowered, mut late) = (0, 0);
    while lowered <= BACK_OFFS {
        match measure(rate)? {
            Seen::Latency(latency_ns) if latency_ns <= limit_ns => {
                return Ok(MaxRate::Found(Bracket { fine: Some(rate), too_much }));
            }
            Seen::GeneratorLate => {
                late += 1;
                if late == LATE {
                    return Ok(MaxRate::GeneratorLate(Bracket { fine: None, too_much }));
                }
            }
            Seen::Latency(_) | Seen::CouldNotKeepUp => {
                too_much = Some(rate);
                let Ok(lower) = Rate::per_second(rate.get() * BACK_OFF) else { break };
                (rate, late) = (lower, 0);
                lowered += 1;
            }
        }
    }
    Ok(MaxRate::Unsettled(Bracket { fine: None, too_much }))
}

/// The lower edge of the bracket.
#[derive(Debug, Clone, Copy)]
struct Fine {
    rate: Rate,
    /// Whether a second measurement, once the bracket was narrow, had the same result.
    confirmed: bool,
}

/// Result of several measurements at a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Fine,
    TooMuch,
    GeneratorLate,
    /// Measurements ran out.
    None,
}

struct Prober<'a, F> {
    search: &'a Search,
    measure: F,
    left: u32,
}

impl<F> Prober<'_, F> {
    /// Returns the nearest rate within the bounds of the search.
    fn within(&self, queries_per_second: f64) -> Rate {
        let Search { lowest, highest, .. } = self.search;
        let rate = queries_per_second.min(highest.get()).max(lowest.get());
        // Both bounds are rates, and so is what lies between them.
        Rate::per_second(rate).unwrap_or(*lowest)
    }

    /// Measures whether the latency at this rate meets the limit.
    fn look<E>(&mut self, rate: Rate) -> Result<Look, E>
    where
        F: FnMut(Rate) -> Result<Seen, E>,
    {
        let limit_ns = self.search.limit_ns;
        let (mut fine, mut too_much, mut late) = (0, 0, 0);
        loop {
            let Some(left) = self.left.checked_sub(1) else { return Ok(Look::None) };
            self.left = left;
            match (self.measure)(rate)? {
                Seen::Latency(latency_ns) if latency_ns <= limit_ns => {
                    let distance = (limit_ns - latency_ns) as f64;
                    let is_clear = distance > self.search.doubt * limit_ns as f64;
                    fine += 1;
                    if is_clear && too_much == 0 {
                        return Ok(Look::Fine);
                    }
                }
                Seen::Latency(_) | Seen::CouldNotKeepUp => too_much += 1,
                Seen::GeneratorLate => late += 1,
            }
            // Two of three are the median's verdict.
            match (fine, too_much, late) {
                (2, ..) => return Ok(Look::Fine),
                (_, 2, _) => return Ok(Look::TooMuch),
                (.., LATE) => return Ok(Look::GeneratorLate),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::block::Block;
    use crate::clock::Clock;
    use crate::testing::{NO_LIMIT, Steps, VirtualClock, rate, rule};
    use crate::{Evidence, Meter, Pattern, Rules};

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

    /// A rate that was too high stays so, whatever is measured there or above it later: with noise of
    /// half the limit and more, the result lies below every such rate, and passed twice.
    #[test]
    fn what_is_found_lies_below_all_that_was_too_much() {
        let mut found_some = 0;
        for seed in 0..300 {
            let mut state: u64 = seed;
            let mut seen: Vec<(f64, bool)> = Vec::new();
            let found = find_max_rate(&search(1.0, 1e6), |rate| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let noise = 0.5 + (state >> 32) as f64 / f64::from(u32::MAX);
                let one = curve(rate, noise);
                seen.push((rate.get(), matches!(one, Seen::Latency(latency) if latency <= 5000)));
                Ok::<_, Infallible>(one)
            });
            let Ok(MaxRate::Found(Bracket { fine: Some(fine), too_much: Some(too_much) })) = found
            else {
                continue;
            };
            found_some += 1;
            let at = |rate: f64| seen.iter().filter(move |one| one.0 == rate);
            let count = |rate: f64, is_fine: bool| at(rate).filter(|one| one.1 == is_fine).count();
            let is_too_much = |rate: f64| count(rate, false) > count(rate, true);
            for (rate, _) in seen.iter().filter(|one| is_too_much(one.0)) {
                assert!(fine.get() < *rate && too_much.get() <= *rate, "{seed}: {found:?} {rate}");
            }
            assert!(count(fine.get(), true) >= 2, "{seed}: {found:?} {seen:?}");
        }
        assert!(found_some > 200, "{found_some}");
    }

    #[test]
    fn a_search_that_begins_too_high_goes_on_at_the_lowest() {
        let mut rates = Vec::new();
        let begun = Search { begin: rate(3200.0), ..search(100.0, 1e6) };
        let found = find_max_rate(&begun, |rate| {
            rates.push(rate.get());
            Ok::<_, Infallible>(curve(rate, 1.0))
        });
        let Ok(MaxRate::Found(Bracket { fine: Some(fine), .. })) = found else {
            panic!("{found:?}")
        };
        assert!((fine.get() / 800.0 - 1.0).abs() < 0.03, "{fine:?}");
        assert_eq!(rates[..3], [3200.0, 3200.0, 100.0]);
        // Where it began was too much, so that it is never the highest that is fine.
        let begun = Search { begin: rate(3200.0), ..search(900.0, 3200.0) };
        let measure = |rate| Ok::<_, Infallible>(curve(rate, 1.0));
        assert_eq!(find_max_rate(&begun, measure), Ok(MaxRate::NotEvenLowest));
    }

    /// A generator that is late once is measured again, and one that always is late ends the search: neither
    /// passes nor fails.
    #[test]
    fn a_late_generator_is_neither_fine_nor_too_much() {
        for once in 1..30 {
            let mut calls = 0;
            let found = find_max_rate(&search(100.0, 1e5), |rate| {
                calls += 1;
                let late = calls == once || calls == once + 1;
                Ok::<_, Infallible>(if late { Seen::GeneratorLate } else { curve(rate, 1.0) })
            });
            let Ok(MaxRate::Found(Bracket { fine: Some(fine), .. })) = found else {
                panic!("{once}: {found:?}")
            };
            assert!(fine.get() <= 800.0 && fine.get() > 780.0, "{once}: {fine:?}");
        }
        let found = find_max_rate(&search(100.0, 1e5), |rate| {
            let late = rate.get() > 300.0;
            Ok::<_, Infallible>(if late { Seen::GeneratorLate } else { curve(rate, 1.0) })
        });
        let bracket = Bracket { fine: Some(rate(200.0)), too_much: None };
        assert_eq!(found, Ok(MaxRate::GeneratorLate(bracket)));
    }

    #[test]
    fn what_was_found_has_to_hold() {
        let bracket = Bracket { fine: Some(rate(1000.0)), too_much: Some(rate(1010.0)) };
        // It takes longer to see that no more than 950 hold.
        let held = |rate: Rate| {
            let seen = if rate.get() <= 950.0 { Seen::Latency(10) } else { Seen::Latency(11) };
            Ok::<_, Infallible>(seen)
        };
        let lowered = Bracket {
            fine: Some(rate(1000.0 * BACK_OFF * BACK_OFF)),
            too_much: Some(rate(1000.0 * BACK_OFF)),
        };
        assert_eq!(hold(bracket, 10, held), Ok(MaxRate::Found(lowered)));
        let mut tried = Vec::new();
        let never = hold(bracket, 10, |rate| {
            tried.push(rate);
            Ok::<_, Infallible>(Seen::CouldNotKeepUp)
        });
        // None that was found too much is called found.
        let Ok(MaxRate::Unsettled(Bracket { fine: None, too_much })) = never else {
            panic!("{never:?}")
        };
        assert_eq!((tried.len(), tried.last().copied()), (1 + BACK_OFFS as usize, too_much));
        let late = hold(bracket, 10, |_| Ok::<_, Infallible>(Seen::GeneratorLate));
        let nothing = Bracket { fine: None, too_much: bracket.too_much };
        assert_eq!(late, Ok(MaxRate::GeneratorLate(nothing)));
    }

    /// A single wild measurement at any point of the search does not change the result.
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

    /// Latencies that scatter by ±10 % move the border by ±2.5 % here, by 1/(1 − x).
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

    /// A clock whose waits end 600 µs late once less than 2 ms are left to a deadline: a generator that
    /// cannot keep up at more than some hundred queries a second.
    struct LateClock(VirtualClock);

    impl Clock for LateClock {
        fn now(&self) -> u64 {
            self.0.now()
        }

        fn wait_until(&self, deadline_ns: u64) -> u64 {
            if deadline_ns.saturating_sub(self.0.now()) < 2_000_000 {
                self.0.wait_until(deadline_ns + 600_000)
            } else {
                self.0.wait_until(deadline_ns)
            }
        }
    }

    /// Measures a constant load in virtual time on a target that takes `service_ns`, and compares the 99th
    /// percentile with 5 ms.
    fn simulated(clock: &impl Clock, time: &VirtualClock, service_ns: i64, rate: Rate) -> Seen {
        const LIMIT_NS: u64 = 5_000_000;
        let mut target = Steps::constant(time, service_ns);
        let mut latencies = Vec::new();
        let mut sink = |block: Block<'_>| {
            latencies.extend(block.times.latencies());
            Ok::<_, Infallible>(())
        };
        let summary = Meter::new(clock, 1 << 13, NO_LIMIT)
            .run(&mut target, Pattern::ConstantRate { rate }, &rule(0, 1000, u64::MAX), &mut sink)
            .expect("nothing fails");
        let pace = summary.pace.expect("an open loop");
        let rates = pace.offered_per_second.zip(pace.achieved_per_second);
        let kept_up = rates.is_some_and(|(offered, achieved)| achieved >= 0.9 * offered);
        latencies.sort_unstable();
        Seen::of(Some(latencies[990]), kept_up, &pace, LIMIT_NS)
    }

    /// A target that takes 1 µs would meet the limit at any of these rates; the generator ends the search.
    #[test]
    fn a_simulated_generator_that_is_late_ends_the_search() {
        let found = find_max_rate(&Search::new(rate(10.0), rate(1e5), 5_000_000), |rate| {
            let clock = LateClock(VirtualClock::default());
            Ok::<_, Infallible>(simulated(&clock, &clock.0, 1000, rate))
        });
        // 320 queries a second are 3.1 ms apart, and 640 are 1.6 ms.
        let bracket = Bracket { fine: Some(rate(320.0)), too_much: None };
        assert_eq!(found, Ok(MaxRate::GeneratorLate(bracket)));
    }

    /// A clock whose readings take 2 µs each, so that a loop without pauses between its queries falls ever
    /// further behind one without cost.
    struct CostlyClock(VirtualClock);

    impl Clock for CostlyClock {
        fn now(&self) -> u64 {
            self.0.pass(2000);
            self.0.now()
        }

        fn wait_until(&self, deadline_ns: u64) -> u64 {
            self.0.wait_until(deadline_ns)
        }
    }

    /// If the target is too slow, the generator is late by its own cost, which is not the cause.
    #[test]
    fn a_simulated_target_that_is_too_slow_is_not_taken_for_a_late_generator() {
        let mut late = 0;
        let found = find_max_rate(&Search::new(rate(10.0), rate(1e5), 5_000_000), |rate| {
            let clock = CostlyClock(VirtualClock::default());
            let seen = simulated(&clock, &clock.0, 1_000_000, rate);
            late += u32::from(seen == Seen::GeneratorLate);
            Ok::<_, Infallible>(seen)
        });
        let Ok(MaxRate::Found(Bracket { fine: Some(fine), too_much: Some(too_much) })) = found
        else {
            panic!("{found:?}")
        };
        // A query takes 1 ms and one or two readings of the clock.
        assert!(fine.get() <= 1000.0 && too_much.get() > 980.0 && late == 0, "{found:?} {late}");
    }

    /// Measures a constant load in virtual time on a target that takes `service_ns`: the result by
    /// the 99th percentile against `limit_ns`, the pace, and the time.
    fn probed(
        service_ns: i64,
        limit_ns: u64,
        rate: Rate,
        rule: &StopRule,
        keep_up: KeepUp,
    ) -> (Seen, Pace, u64) {
        let clock = VirtualClock::default();
        let mut target = Steps::constant(&clock, service_ns);
        let mut latencies = Vec::new();
        let mut sink = |block: Block<'_>| {
            latencies.extend(block.times.latencies());
            Ok::<_, Infallible>(())
        };
        let summary = Meter::new(&clock, 1 << 13, NO_LIMIT)
            .run(&mut target, Pattern::ConstantRate { rate }, rule, &mut sink)
            .expect("nothing fails");
        let pace = summary.pace.expect("an open loop");
        let grows = || latencies[latencies.len() * 5 / 6] > 2 * latencies[latencies.len() / 6];
        let kept_up = keep_up.is_kept_up(&pace, grows);
        latencies.sort_unstable();
        let latency_ns = latencies[(latencies.len() * 99).div_ceil(100) - 1];
        (Seen::of(Some(latency_ns), kept_up, &pace, limit_ns), pace, summary.elapsed_ns)
    }

    const SECOND: u64 = 1_000_000_000;

    fn probing(short_ns: u64, whole_ns: u64, maximum_ns: u64) -> Probing {
        Probing { percentile: 0.99, short_ns, whole_ns, maximum_ns }
    }

    /// For a target that takes a second, 500 queries at an eighth of its capacity would take more than
    /// an hour; another takes a millisecond: no measurement takes longer than the maximum and a query.
    #[test]
    fn no_simulated_measurement_goes_beyond_the_maximum() {
        let searched = |service_ns: u64, limit_ns: u64, maximum_ns: u64| {
            let probing = probing(SECOND, SECOND, maximum_ns);
            let capacity = 1e9 / service_ns as f64;
            let search = Search {
                begin: rate(capacity / 8.0),
                ..Search::new(rate(capacity / 125.0), rate(capacity * 256.0), limit_ns)
            };
            let mut rates = Vec::new();
            let found = find_max_rate(&search.within(&probing), |rate| {
                rates.push(rate.get());
                let rule = probing.short(rate);
                let (seen, _, elapsed_ns) =
                    probed(service_ns as i64, limit_ns, rate, &rule, KeepUp::default());
                assert!(elapsed_ns <= maximum_ns + service_ns, "{rate:?}: {elapsed_ns}");
                Ok::<_, Infallible>(seen)
            });
            (found.expect("nothing fails"), rates)
        };
        // 100 queries in half of 50 s are 4 a second, which is too much already.
        let (found, rates) = searched(SECOND, 2 * SECOND, 50 * SECOND);
        assert_eq!((found, rates), (MaxRate::CutShort, vec![4.0, 4.0]));
        // With ten minutes there is room for a third of a query a second and more.
        let (found, rates) = searched(SECOND, 2 * SECOND, 600 * SECOND);
        let MaxRate::Found(Bracket { fine: Some(fine), .. }) = found else { panic!("{found:?}") };
        assert!((0.97..=1.01).contains(&fine.get()), "{fine:?}");
        assert_eq!(rates.first(), Some(&(100.0 / 300.0)));
        let (found, _) = searched(1_000_000, 5_000_000, SECOND);
        let MaxRate::Found(Bracket { fine: Some(fine), .. }) = found else { panic!("{found:?}") };
        assert!((970.0..=1010.0).contains(&fine.get()), "{fine:?}");
    }

    #[test]
    fn a_measurement_is_as_long_as_its_percentile_needs_and_its_maximum_has_room_for() {
        let probing = probing(2 * SECOND, 5 * SECOND, 50 * SECOND);
        assert_eq!(probing.short(rate(1000.0)), rule(2 * SECOND, 500, 4 * SECOND));
        assert_eq!(probing.short(rate(50.0)), rule(2 * SECOND, 500, 20 * SECOND));
        assert_eq!(probing.short(rate(10.0)), rule(2 * SECOND, 250, 50 * SECOND));
        assert_eq!(probing.short(rate(4.0)), rule(2 * SECOND, 100, 50 * SECOND));
        assert_eq!(probing.lowest(), rate(4.0));
        assert_eq!(probing.whole(rate(1000.0), 100), rule(5 * SECOND, 500, 10 * SECOND));
        assert_eq!(probing.whole(rate(1000.0), 20_000), rule(5 * SECOND, 20_000, 40 * SECOND));
        assert_eq!(probing.whole(rate(1000.0), 90_000), rule(5 * SECOND, 90_000, 50 * SECOND));
        let short = Probing { maximum_ns: SECOND, ..probing };
        assert_eq!(short.short(rate(1000.0)), rule(SECOND / 2, 500, SECOND));
        let median = Probing { percentile: 0.5, ..probing };
        assert_eq!(median.short(rate(1000.0)).minimum_queries, 10);
        // Where the maximum has room for all rates, the search stays as it is.
        let search = search(4.0, 1e6);
        assert_eq!(search.within(&probing), search);
        let cut = Search { begin: rate(1.0), ..Search::new(rate(0.1), rate(2.0), 5000) };
        let Search { begin, lowest, highest, is_cut_short, .. } = cut.within(&probing);
        assert_eq!([begin, lowest, highest], [rate(4.0); 3]);
        assert!(is_cut_short);
    }

    /// A limit that a short measurement's queue does not come near: short measurements accept a target that
    /// is a tenth too slow, and the verdict a hundredth. The result passes the verdict.
    #[test]
    fn a_simulated_rate_that_holds_is_one_that_the_verdict_takes() {
        const SERVICE_NS: i64 = 1_030_000;
        const LIMIT_NS: u64 = 100_000_000;
        let probing = probing(30_000_000, 30_000_000, 300_000_000_000);
        let kind = KeepUp { achieved: 0.9, ..KeepUp::default() };
        let search = Search::new(rate(10.0), rate(1e5), LIMIT_NS);
        let found = find_max_rate(&search, |rate| {
            let (seen, ..) = probed(SERVICE_NS, LIMIT_NS, rate, &probing.short(rate), kind);
            Ok::<_, Infallible>(seen)
        });
        let Ok(MaxRate::Found(bracket)) = found else { panic!("{found:?}") };
        let kind_rate = bracket.fine.expect("a rate").get();
        assert!(kind_rate > 1030.0, "more than the target can take: {kind_rate}");
        let mut last = None;
        let held = hold(bracket, LIMIT_NS, |rate| {
            let whole = probing.whole(rate, 100);
            let (seen, pace, _) = probed(SERVICE_NS, LIMIT_NS, rate, &whole, KeepUp::default());
            last = Some(pace);
            Ok::<_, Infallible>(seen)
        });
        let Ok(MaxRate::Found(Bracket { fine: Some(fine), too_much: Some(_) })) = held else {
            panic!("{held:?}")
        };
        // 1.03 ms are 970.9 a second, and the verdict lets pass 1 % more.
        assert!((930.0..=981.0).contains(&fine.get()), "{fine:?}");
        let evidence = Evidence {
            timed_ns: 1,
            queries: 500,
            examples: 500,
            over_limit: Some(0),
            cut_short: false,
            pace: last,
        };
        let judgement = Rules::default().judge(&evidence, |_, _, _| 0);
        assert_eq!((judgement.breaches, judgement.stopped_early), (Vec::new(), false));
    }

    /// The whole way: a server scenario in virtual time, its 99th percentile, and the rate that
    /// theory predicts. With 30,000 queries at each rate the result may differ by 5 %.
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
                    Pattern::Server { rate, seed },
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
