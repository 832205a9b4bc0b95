//! Searches the highest rate that a target can take within a limit on its latency.

use host_measure::{Bracket, KeepUp, MaxRate, Probing, Search, Seen, find_max_rate, hold};
use host_record::{Find, Phase, Probe, Rate, RateSearch, SamplePhase, SearchEnd};
use host_statistics::{Quantile, median, order_statistics};

use super::driver::{Bench, Judge, Runner, Sink};
use super::query::{Load, open, rate, seed};
use super::verdict::{grows, stops_early_enough};
use crate::failure::Stop;
use crate::thinned::Thinned;

/// Minimum part of the offered rate that a measurement of a search must achieve. These are short,
/// so the latencies of the first and the last query alone can be a few per cent; a queue that grows
/// more slowly shows in the latencies, and in the measurement at the result, which must pass the
/// verdict.
const PROBE_KEEPS_UP: f64 = 0.9;

/// Start of a search, lowest and highest rate, as multiples of the rate of one query after the other. Below the
/// first a queue is rare, below the second it hardly happens. The last only bounds the search: the query that
/// the multiple is taken from may be slow by chance, such as a cold first run.
const SEARCHED: [f64; 3] = [0.125, 0.008, 256.0];

/// Length of a measurement of the search, and its requirements.
#[derive(Debug, Clone, Copy)]
enum Length {
    /// As short as is enough to judge a rate.
    Short,
    /// As long as the case is measured, with what the verdict on it asks for.
    Whole,
}

impl Load<'_> {
    /// Searches the rate, if requested, and continues at the result. `typical_ns` is
    /// the latency of one query.
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
        let probing = Probing {
            percentile: percentile.probability(),
            short_ns: settings.probe_ns(),
            whole_ns: settings.minimum_duration_ns,
            maximum_ns: settings.maximum_duration_ns,
        };
        let mut prober = Prober {
            load: self,
            bench,
            probing,
            percentile,
            limit_ns: limit.at_most_ns,
            seed: seed(self.case) ^ 2,
            probes: Vec::new(),
        };
        let [begin, lowest, highest] = SEARCHED;
        // Low rates take long to measure, so they are looked at only where it has to be.
        let search = Search {
            begin: bound(begin)?,
            ..Search::new(bound(lowest)?, bound(highest)?, limit.at_most_ns)
        };
        let search = search.within(&prober.probing);
        let mut found = find_max_rate(&search, |at| prober.measure(at, Length::Short))?;
        // A short measurement is kind to a border: what was found has to hold for as long as the case
        // is measured, and is lowered a little where it does not, as LoadGen's search does.
        if let MaxRate::Found(bracket) = found {
            found = hold(bracket, limit.at_most_ns, |at| prober.measure(at, Length::Whole))?;
        }
        let probes = prober.probes;
        let (end, bracket) = match found {
            MaxRate::Found(bracket) => (SearchEnd::Found, bracket),
            MaxRate::Unsettled(bracket) => (SearchEnd::Unsettled, bracket),
            MaxRate::GeneratorLate(bracket) => (SearchEnd::GeneratorLate, bracket),
            MaxRate::NotEvenLowest => {
                let bracket = Bracket { fine: None, too_much: Some(search.lowest) };
                (SearchEnd::NotEvenLowest, bracket)
            }
            MaxRate::CutShort => {
                let bracket = Bracket { fine: None, too_much: Some(search.lowest) };
                (SearchEnd::CutShort, bracket)
            }
            MaxRate::FineAtHighest => {
                let bracket = Bracket { fine: Some(search.highest), too_much: None };
                (SearchEnd::FineAtHighest, bracket)
            }
        };
        // What is reported is measured anew: at the highest rate that was fine, and where none was
        // at the lowest, as evidence.
        let chosen = bracket.fine.unwrap_or(search.lowest);
        self.pattern = Some(open(self.case, chosen, seed(self.case)));
        Ok(Some(RateSearch {
            end,
            fine: bracket.fine,
            too_much: bracket.too_much,
            probes,
            rates: vec![chosen],
        }))
    }
}

/// Measures at rates that the search asks for, and keeps what came of each.
struct Prober<'a, 'case, 'bench, L> {
    load: &'a Load<'case>,
    bench: &'a mut Bench<'bench, L>,
    probing: Probing,
    percentile: Quantile,
    limit_ns: u64,
    /// Of the arrivals of the last measurement: each has others.
    seed: u64,
    probes: Vec<Probe>,
}

impl<L: Runner> Prober<'_, '_, '_, L> {
    fn measure(&mut self, rate: Rate, length: Length) -> Result<Seen, Stop> {
        let load = self.load;
        self.seed = self.seed.wrapping_add(1);
        let rule = match length {
            Length::Short => self.probing.short(rate),
            Length::Whole => self.probing.whole(rate, load.case.measure.minimum_queries),
        };
        let mut sink = Sink::new(load, SamplePhase::Search, Judge::None, Sink::MANY);
        let summary = sink.run(self.bench, open(load.case, rate, self.seed), &rule, &mut || {})?;
        let kept_up = summary.pace.is_some_and(|pace| match length {
            Length::Short => {
                KeepUp { achieved: PROBE_KEEPS_UP, ..KeepUp::default() }.is_kept_up(&pace, || true)
            }
            Length::Whole => {
                KeepUp::default().is_kept_up(&pace, || grows(sink.latencies.kept()))
                    && load.rules().is_none_or(|rules| {
                        stops_early_enough(rules.requirement, summary.queries, sink.over_limit)
                    })
            }
        });
        let rank = self.percentile.rank(sink.latencies.kept().len());
        let latency_ns = (rank > 0).then(|| order_statistics(sink.latencies.kept(), &[rank])[0]);
        let seen = summary.pace.map_or(Seen::CouldNotKeepUp, |pace| {
            Seen::of(latency_ns, kept_up, &pace, self.limit_ns)
        });
        let latency_ns = match seen {
            Seen::Latency(latency_ns) => Some(latency_ns),
            _ => None,
        };
        self.probes.push(Probe {
            rate,
            queries: summary.queries,
            latency_ns,
            achieved_per_second: summary.pace.and_then(|pace| pace.achieved_per_second),
            lateness: summary.pace.and_then(|pace| pace.lateness),
        });
        Ok(seen)
    }
}
