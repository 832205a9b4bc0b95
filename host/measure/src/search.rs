/*!
Search for the highest rate at which a latency stays under its limit.

Latency grows with the rate, so there is one border. It is hard to find because a measured
percentile is noisy, most of all near saturation, where the border often lies. These rules keep
one unlucky measurement from deciding, and the result from being too high:

- A rate is rejected by two of up to three probes. One probe is enough to accept a rate, if its latency is
  not within [`Search::doubt`] of the limit; otherwise it takes two of three as well.
- A rejected rate stays rejected: the result lies below every such rate. When the bracket is narrow enough,
  its lower bound is probed again, and so is the highest rate of the range. A bound that fails is rejected,
  and the search goes on below it.
- The result is measured several times for as long as the case is ([`hold`]), and lowered until these measurements show
  with a stated confidence that the latency stays within the limit. A rate at the border stays within it in half of its
  measurements: one that passed says little.
- A probe whose load generator was late does not count, unless the target was too slow in any case. It is
  repeated, and the search ends if it is late three times.
- The number of probes is bounded. A search that runs out of them is inconclusive, and returns its last
  bracket.
- The time of each probe is bounded too ([`ProbeDuration`]). Low rates take long, and no rate is tried at
  which too few queries would arrive in that time. If the border lies below all others, the search ends as
  [`MaxRate::LimitedByDuration`].

LoadGen under MLPerf's rules does the same: a binary search for a candidate, which is then measured five
times, and lowered a little if one of these fails.

The search itself says nothing about the shape of the curve: whoever records the probes can fit them.
*/

use host_record::Rate;

use crate::probe::{DOUBT, ProbeDuration, ProbeResult};

/// Parameters of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Search {
    /// First rate. If it is rejected, the lowest rate is next.
    pub begin: Rate,
    /// Lowest rate to try.
    pub lowest: Rate,
    /// Highest rate to try.
    pub highest: Rate,
    /// Limit on the latency, in nanoseconds.
    pub limit_ns: u64,
    /// Greatest width of the final bracket, relative to its lower bound: 0.02 is 2 %.
    pub tolerance: f64,
    /// Distance of a latency from the limit within which the rate is probed again, relative to the limit.
    pub doubt: f64,
    /// Greatest number of probes.
    pub probes: u32,
    /// Whether the lowest rate is set by the time of a probe, so that lower ones were left out.
    pub limited_by_duration: bool,
}

impl Search {
    /// Creates a search from `lowest` to `highest` with a tolerance of 2 %, a doubt of 10 % and at most 60
    /// probes.
    #[must_use]
    pub fn new(lowest: Rate, highest: Rate, limit_ns: u64) -> Self {
        Self {
            begin: lowest,
            lowest,
            highest,
            limit_ns,
            tolerance: 0.02,
            doubt: DOUBT,
            probes: 60,
            limited_by_duration: false,
        }
    }

    /// Returns this search without the rates that are too low for `duration`. If none is left, only the
    /// lowest possible rate is searched.
    #[must_use]
    pub fn limited_to(self, duration: &ProbeDuration) -> Self {
        let lowest = duration.lowest_rate();
        let raised = |rate: Rate| if rate < lowest { lowest } else { rate };
        Self {
            begin: raised(self.begin),
            lowest: raised(self.lowest),
            highest: raised(self.highest),
            limited_by_duration: self.lowest < lowest,
            ..self
        }
    }
}

/// Result of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MaxRate {
    /// The border lies in this bracket, whose bounds were both probed at least twice.
    Found(Bracket),
    /// Probes ran out before the bracket was narrow and its bounds were confirmed, or no rate held.
    Inconclusive(Bracket),
    /// The load generator was late each time at a rate that may lie in this bracket.
    GeneratorLate(Bracket),
    /// The lowest rate was rejected, by two probes at least.
    NoAcceptedRate,
    /// The lowest rate that can be probed within the time limit was rejected.
    LimitedByDuration,
    /// The highest rate was accepted, by two probes at least.
    NoRejectedRate,
}

/// Two rates between which the border lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bracket {
    /// Highest accepted rate below all rejected ones, if there is one.
    pub accepted: Option<Rate>,
    /// Lowest rejected rate, if there is one.
    pub rejected: Option<Rate>,
}

/// Growth of the rate until one is rejected.
const GROWTH: f64 = 2.0;

/// Number of late probes at a rate that end the search.
const LATE: u32 = 3;

/// Factor by which a rate is lowered that could not be kept up, and the most and the least that one is lowered at once.
const BACK_OFF: f64 = 0.97;
const FURTHEST: f64 = 0.85;
const LEAST: f64 = 0.998;

/// Least number of whole measurements, as in LoadGen, and the greatest.
const FEWEST: usize = 5;
const MOST: usize = 12;

/// Bounds of the growth of the latency with the rate, in logarithms: below, a lower rate would not help; above, the
/// curve is a cliff: each step back is small.
const GROWTHS: std::ops::RangeInclusive<f64> = 0.5..=20.0;

/// Searches for the highest rate whose latency stays within the limit. Calls `measure` for each probe.
///
/// The rate grows by factors of two until one is rejected; then the bracket is halved on a logarithmic
/// scale.
///
/// # Errors
///
/// The first error of `measure`.
pub fn find_max_rate<E>(
    search: &Search,
    measure: impl FnMut(Rate) -> Result<ProbeResult, E>,
) -> Result<MaxRate, E> {
    let mut prober = Prober { search, measure, left: search.probes };
    let (mut accepted, mut rejected): (Option<LowerBound>, Option<Rate>) = (None, None);
    // Factor by which to go down from a rejected rate: all the way to the lowest, until a rate that was
    // accepted at first is rejected. That one is near the border.
    let (mut down, mut next_down) = (f64::INFINITY, 1.0 + search.tolerance);
    loop {
        let (rate, confirms) = match (accepted, rejected) {
            (None, None) => (search.begin, false),
            (Some(low), None) if low.rate >= search.highest => {
                if low.confirmed {
                    return Ok(MaxRate::NoRejectedRate);
                }
                (low.rate, true)
            }
            (Some(low), None) => (prober.clamp(low.rate.get() * GROWTH), false),
            (None, Some(high)) if high <= search.lowest => {
                return Ok(if search.limited_by_duration {
                    MaxRate::LimitedByDuration
                } else {
                    MaxRate::NoAcceptedRate
                });
            }
            (None, Some(high)) => (prober.clamp(high.get() / down), false),
            (Some(low), Some(high)) => {
                if high.get() / low.rate.get() > 1.0 + search.tolerance {
                    (prober.clamp((low.rate.get() * high.get()).sqrt()), false)
                } else if low.confirmed {
                    let (accepted, rejected) = (Some(low.rate), Some(high));
                    return Ok(MaxRate::Found(Bracket { accepted, rejected }));
                } else {
                    (low.rate, true)
                }
            }
        };
        let bracket = Bracket { accepted: accepted.map(|edge| edge.rate), rejected };
        match prober.decide(rate)? {
            Decision::Accepted => accepted = Some(LowerBound { rate, confirmed: confirms }),
            Decision::Rejected => {
                rejected = Some(rate);
                if confirms {
                    accepted = None;
                    down = next_down;
                    next_down *= next_down;
                } else if down.is_finite() {
                    down = GROWTH;
                }
            }
            Decision::GeneratorLate => return Ok(MaxRate::GeneratorLate(bracket)),
            Decision::OutOfProbes => return Ok(MaxRate::Inconclusive(bracket)),
        }
    }
}

/// A rate that holds: measurements show that the latency stays within the limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Held {
    /// The rate.
    pub rate: Rate,
    /// Number of measurements as long as the case that say so, at this rate and at others near it.
    pub measurements: u32,
    /// Their latency at this rate, in nanoseconds: the geometric mean.
    pub latency_ns: u64,
    /// Bound of the latency, in nanoseconds.
    pub bound_ns: u64,
}

impl Held {
    /// Returns whether one more measurement of this rate, with those that were made, is within the limit: by the
    /// geometric mean of all.
    #[must_use]
    pub fn is_within(&self, limit_ns: u64, latency_ns: u64) -> bool {
        within(self.measurements, self.latency_ns, limit_ns, latency_ns)
    }
}

/// Returns whether the geometric mean of `measurements` latencies around `mean_ns` and of one more is within the limit.
#[must_use]
pub fn within(measurements: u32, mean_ns: u64, limit_ns: u64, latency_ns: u64) -> bool {
    let logarithm = |time: u64| (time.max(1) as f64).ln();
    let count = f64::from(measurements);
    let all = (count * logarithm(mean_ns) + logarithm(latency_ns)) / (count + 1.0);
    all <= logarithm(limit_ns)
}

/// Measures the rate that was found several times, as long as the case is measured, and lowers it until it holds.
///
/// `growth` is how the latency grows with the rate near the border, in logarithms: 3 if 1 % more queries make it 3 %
/// longer. With it, measurements at other rates count for this one. `bound` returns an upper bound from several values,
/// here logarithms of latencies, with the wanted confidence: of their mean, or of the next value. `measure` must apply
/// the requirements of the verdict on the case ([`KeepUp::is_kept_up`](crate::KeepUp::is_kept_up)).
///
/// The bracket may be that of a search that ran out of probes: what its best rate is worth, is found here.
///
/// Once there are five measurements the rate is lowered to where the bound meets the limit, and measured again. It holds
/// if the bound there is within the limit. A rate that the target could not keep up with is lowered by 3 %.
///
/// # Errors
///
/// The first error of `measure`.
pub fn hold<E>(
    bracket: Bracket,
    limit_ns: u64,
    growth: f64,
    bound: impl Fn(&[f64]) -> Option<f64>,
    mut measure: impl FnMut(Rate) -> Result<ProbeResult, E>,
) -> Result<(MaxRate, Option<Held>), E> {
    let Bracket { accepted: Some(mut rate), mut rejected } = bracket else {
        return Ok((MaxRate::Inconclusive(bracket), None));
    };
    let growth = growth.clamp(*GROWTHS.start(), *GROWTHS.end());
    let limit = (limit_ns as f64).ln();
    // Logarithms of rates and latencies.
    let mut measured: Vec<(f64, f64)> = Vec::new();
    let mut late = 0;
    for _ in 0..MOST {
        let here = rate.get().ln();
        let factor = match measure(rate)? {
            ProbeResult::GeneratorLate => {
                late += 1;
                if late == LATE {
                    let bracket = Bracket { accepted: None, rejected };
                    return Ok((MaxRate::GeneratorLate(bracket), None));
                }
                continue;
            }
            ProbeResult::CouldNotKeepUp => BACK_OFF,
            ProbeResult::Latency(latency_ns) => {
                measured.push((here, (latency_ns.max(1) as f64).ln()));
                if measured.len() < FEWEST {
                    continue;
                }
                let as_here: Vec<f64> =
                    measured.iter().map(|(at, latency)| latency - growth * (at - here)).collect();
                let Some(found) = bound(&as_here) else { continue };
                if found <= limit {
                    let mean = as_here.iter().sum::<f64>() / as_here.len() as f64;
                    let held = Held {
                        rate,
                        measurements: measured.len() as u32,
                        latency_ns: mean.exp() as u64,
                        bound_ns: found.exp() as u64,
                    };
                    let bracket = Bracket { accepted: Some(rate), rejected };
                    return Ok((MaxRate::Found(bracket), Some(held)));
                }
                // To where the bound meets the limit.
                ((limit - found) / growth).exp().clamp(FURTHEST, LEAST)
            }
        };
        rejected = Some(rejected.map_or(rate, |known| known.min(rate)));
        let Ok(next) = Rate::per_second(rate.get() * factor) else { break };
        rate = next;
    }
    Ok((MaxRate::Inconclusive(Bracket { accepted: None, rejected }), None))
}

/// Lower bound of the bracket.
#[derive(Debug, Clone, Copy)]
struct LowerBound {
    rate: Rate,
    /// Whether the rate was accepted again once the bracket was narrow.
    confirmed: bool,
}

/// Result of several probes at a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    Accepted,
    Rejected,
    GeneratorLate,
    OutOfProbes,
}

struct Prober<'a, F> {
    search: &'a Search,
    measure: F,
    left: u32,
}

impl<F> Prober<'_, F> {
    /// Returns the nearest rate within the bounds of the search.
    fn clamp(&self, queries_per_second: f64) -> Rate {
        let Search { lowest, highest, .. } = self.search;
        let rate = queries_per_second.min(highest.get()).max(lowest.get());
        // Both bounds are rates, and so is what lies between them.
        Rate::per_second(rate).unwrap_or(*lowest)
    }

    /// Probes a rate until it is accepted or rejected.
    fn decide<E>(&mut self, rate: Rate) -> Result<Decision, E>
    where
        F: FnMut(Rate) -> Result<ProbeResult, E>,
    {
        let limit_ns = self.search.limit_ns;
        let (mut accepted, mut rejected, mut late) = (0, 0, 0);
        loop {
            let Some(left) = self.left.checked_sub(1) else { return Ok(Decision::OutOfProbes) };
            self.left = left;
            match (self.measure)(rate)? {
                ProbeResult::Latency(latency_ns) if latency_ns <= limit_ns => {
                    let margin = (limit_ns - latency_ns) as f64;
                    let is_clear = margin > self.search.doubt * limit_ns as f64;
                    accepted += 1;
                    if is_clear && rejected == 0 {
                        return Ok(Decision::Accepted);
                    }
                }
                ProbeResult::Latency(_) | ProbeResult::CouldNotKeepUp => rejected += 1,
                ProbeResult::GeneratorLate => late += 1,
            }
            // Two of three decide as the median would.
            match (accepted, rejected, late) {
                (2, ..) => return Ok(Decision::Accepted),
                (_, 2, _) => return Ok(Decision::Rejected),
                (.., LATE) => return Ok(Decision::GeneratorLate),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
