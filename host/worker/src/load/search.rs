//! Search for the highest rate within a latency limit.

use host_measure::{
    Bracket, KeepUp, MaxRate, ProbeDuration, ProbeResult, Search, find_max_rate, hold,
};
use host_record::{
    Find, HeldLatency, HeldRate, Phase, Probe, Rate, RateBound, RateSearch, Requirement,
    SamplePhase, SearchEnd,
};
use host_statistics::{
    Quantile, mean_bound, median, order_statistics, over_limit_allowed, prediction_bound,
};

use super::curve::{Fit, Point};
use super::driver::{Bench, Judge, Runner, Sink};
use super::query::{Load, open, rate, seed};
use super::verdict::grows;
use crate::failure::Stop;
use crate::percentile::quantile;
use crate::thinned::Thinned;

/// Least part of the offered rate that a probe must achieve. Probes are short, so the latencies of the first
/// and the last query alone can be a few per cent. A queue that grows more slowly shows in the latencies, and
/// in the measurement of the result, which must pass the verdict.
const PROBE_KEEPS_UP: f64 = 0.9;

/// First, lowest and highest rate of a search, as multiples of the rate of one query after the other. Queues are
/// rare below the first and almost absent below the second. The last only bounds the search: the query that the
/// rates derive from may be slow by chance, such as a cold first run.
const RANGE: [f64; 3] = [0.125, 0.008, 256.0];

/// Confidence that the latency stays within the limit at the rate that is found, in the mean of all measurements.
const MEAN: f64 = 0.95;

/// Confidence that the case's own measurement does, which rules judge alone. Each of several processes has to, so it is
/// high.
const NEXT: f64 = 0.99;

/// Length of a measurement, and its requirements.
#[derive(Debug, Clone, Copy)]
enum Length {
    /// Just long enough to accept or reject a rate.
    Short,
    /// As long as the case is measured, with the requirements of the verdict.
    Whole,
}

impl Load<'_> {
    /// Searches for the rate, if the case asks for it, and sets the load to the result. `first_run_ns` stands
    /// for the latency of a query if there was no warm-up.
    pub(super) fn find(
        &mut self,
        bench: &mut Bench<'_, impl Runner>,
        warm_up: &Thinned,
        first_run_ns: u64,
    ) -> Result<Option<RateSearch>, Stop> {
        let settings = &self.case.measure;
        let (None, Some(Find::MaxRate), Some(limit)) =
            (self.pattern, settings.find, settings.latency_limit)
        else {
            return Ok(None);
        };
        bench.connection.enter(Phase::Search)?;
        let percentile = self.percentile();
        let typical_ns = median(warm_up.kept()).unwrap_or(first_run_ns as f64).max(1.0);
        let capacity = 1e9 / typical_ns;
        let bound = |share: f64| rate((capacity * share).clamp(1e-9, 1e9));
        let duration = ProbeDuration {
            percentile: percentile.probability(),
            short_ns: settings.probe_ns(),
            whole_ns: settings.minimum_duration_ns,
            maximum_ns: settings.maximum_duration_ns,
        };
        let mut prober = Prober {
            load: self,
            bench,
            duration,
            percentile,
            limit_ns: limit.at_most_ns,
            seed: seed(self.case) ^ 2,
            probes: Vec::new(),
            points: Vec::new(),
        };
        let [begin, lowest, highest] = RANGE;
        // Low rates take long to measure, so they are tried only if the first rate is rejected.
        let search = Search {
            begin: bound(begin)?,
            ..Search::new(bound(lowest)?, bound(highest)?, limit.at_most_ns)
        };
        let search = search.limited_to(&prober.duration);
        let mut found = find_max_rate(&search, |at| prober.measure(at, Length::Short))?;
        // Short probes are lenient at the border: half of all measurements pass there. So the rate is lowered to where
        // measurements as long as the case's show that it holds.
        let of = match prober.load.rules() {
            Some(_) => HeldLatency::Next,
            None => HeldLatency::Mean,
        };
        let confidence = match of {
            HeldLatency::Mean => MEAN,
            HeldLatency::Next => NEXT,
        };
        let mut held = None;
        // That holds for the best rate of a search that ran out of probes as well.
        if let MaxRate::Found(bracket) | MaxRate::Inconclusive(bracket) = found {
            let growth = Fit::of(&prober.points, limit.at_most_ns).growth();
            let bound = |values: &[f64]| match of {
                HeldLatency::Mean => mean_bound(values, confidence).ok(),
                HeldLatency::Next => prediction_bound(values, confidence).ok(),
            };
            let measure = |at| prober.measure(at, Length::Whole);
            (found, held) = hold(bracket, limit.at_most_ns, growth, bound, measure)?;
        }
        let mut curve = Fit::of(&prober.points, limit.at_most_ns).curve();
        if matches!(found, MaxRate::GeneratorLate(_)) {
            curve.bound_by = Some(RateBound::Generator);
        }
        let probes = prober.probes;
        let (end, bracket) = match found {
            MaxRate::Found(bracket) => (SearchEnd::Found, bracket),
            MaxRate::Inconclusive(bracket) => (SearchEnd::Inconclusive, bracket),
            MaxRate::GeneratorLate(bracket) => (SearchEnd::GeneratorLate, bracket),
            MaxRate::NoAcceptedRate => {
                let bracket = Bracket { accepted: None, rejected: Some(search.lowest) };
                (SearchEnd::NoAcceptedRate, bracket)
            }
            MaxRate::LimitedByDuration => {
                let bracket = Bracket { accepted: None, rejected: Some(search.lowest) };
                (SearchEnd::LimitedByDuration, bracket)
            }
            MaxRate::NoRejectedRate => {
                let bracket = Bracket { accepted: Some(search.highest), rejected: None };
                (SearchEnd::NoRejectedRate, bracket)
            }
        };
        // The case is then measured at the highest accepted rate, or as evidence at the lowest rate if none
        // was accepted.
        let chosen = bracket.accepted.unwrap_or(search.lowest);
        self.pattern = Some(open(self.case, chosen, seed(self.case)));
        Ok(Some(RateSearch {
            end,
            accepted: bracket.accepted,
            rejected: bracket.rejected,
            probes,
            rates: vec![chosen],
            held: held.map(|held| HeldRate {
                measurements: held.measurements,
                latency_ns: held.latency_ns,
                bound_ns: held.bound_ns,
                confidence,
                of,
            }),
            curve: Some(curve),
        }))
    }
}

/// Measures at the rates that the search asks for, and records each probe.
struct Prober<'a, 'case, 'bench, L> {
    load: &'a Load<'case>,
    bench: &'a mut Bench<'bench, L>,
    duration: ProbeDuration,
    percentile: Quantile,
    limit_ns: u64,
    /// Seed of the arrivals of the latest measurement. Each has its own.
    seed: u64,
    probes: Vec<Probe>,
    /// The probes that were not spoilt by their generator, for the curve.
    points: Vec<Point>,
}

impl<L: Runner> Prober<'_, '_, '_, L> {
    fn measure(&mut self, rate: Rate, length: Length) -> Result<ProbeResult, Stop> {
        let load = self.load;
        self.seed = self.seed.wrapping_add(1);
        let rule = match length {
            Length::Short => self.duration.short(rate),
            Length::Whole => self.duration.whole(rate, load.case.measure.minimum_queries),
        };
        let mut sink = Sink::new(load, SamplePhase::Search, Judge::None, Sink::MANY);
        let summary = sink.run(self.bench, open(load.case, rate, self.seed), &rule, &mut || {})?;
        let latencies = sink.latencies.kept();
        let grows = || grows(latencies);
        let keep_up = match length {
            Length::Short => KeepUp { achieved: PROBE_KEEPS_UP, ..KeepUp::default() },
            Length::Whole => KeepUp::default(),
        };
        let kept_up = summary.pace.is_some_and(|pace| match length {
            Length::Short => keep_up.is_kept_up(&pace, || true),
            Length::Whole => keep_up.is_kept_up(&pace, grows),
        });
        let rank = match length {
            Length::Short => self.percentile.rank(latencies.len()),
            Length::Whole => self.judged_rank(latencies.len()),
        };
        let latency_ns = (rank > 0).then(|| order_statistics(latencies, &[rank])[0]);
        let result = summary.pace.map_or(ProbeResult::CouldNotKeepUp, |pace| {
            ProbeResult::judge(latency_ns, kept_up, &pace, self.limit_ns)
        });
        let saturated = summary.pace.is_none_or(|pace| !KeepUp::default().is_kept_up(&pace, grows));
        if result != ProbeResult::GeneratorLate {
            let latency_ns = latency_ns.filter(|_| result != ProbeResult::CouldNotKeepUp);
            self.points.push(Point { rate, queries: summary.queries, latency_ns, saturated });
        }
        let latency_ns = match result {
            ProbeResult::Latency(latency_ns) => Some(latency_ns),
            _ => None,
        };
        self.probes.push(Probe {
            rate,
            queries: summary.queries,
            latency_ns,
            achieved_per_second: summary.pace.and_then(|pace| pace.achieved_per_second),
            lateness: summary.pace.and_then(|pace| pace.lateness),
        });
        Ok(result)
    }

    /// Returns the rank of the latency that the verdict holds against the limit: that of the percentile, or under rules
    /// the lowest that so few queries allow.
    fn judged_rank(&self, count: usize) -> usize {
        let requirement = self.load.rules().map(|rules| rules.requirement);
        let allowed = match requirement {
            Some(Requirement::Percentile { percentile, confidence: Some(confidence), .. }) => {
                over_limit_allowed(quantile(percentile), count as u64, confidence)
            }
            _ => None,
        };
        allowed.map_or_else(|| self.percentile.rank(count), |allowed| count - allowed as usize)
    }
}
