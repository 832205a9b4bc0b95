//! The load of a case: the work of a query, the times of queries, stopping rules, and the verdict.

mod breaches;
mod curve;
mod driver;
mod query;
mod search;
mod verdict;

use std::time::Duration;

use host_machine::{Activity, Machine};
use host_measure::{Pattern, StopRule, Summary};
use host_record::protocol::BlockTime;
use host_record::{
    Conditions, Energy, Gap, NotMeasured, Phase, RateSearch, RuleSet, SamplePhase, Scenario,
    Verdict, WarmUp, WarmUpFacts, Warning,
};
use host_statistics::median;

use crate::device_state::{self, Sampler};
use crate::exceptions;
use crate::failure::{self, Stop};
use crate::overseer;
use crate::stalls::FirstClient;
use crate::surroundings::Surroundings;
use crate::thinned::Thinned;

pub(crate) use driver::{Bench, Observed, Runner, SingleTarget};
pub(crate) use query::Load;

use driver::{Judge, Sink};
use query::{open, seed};

/// Minimum duration of a warm-up that ends at a steady state: clocks of processors and caches
/// settle in tens of milliseconds, and a shorter one would not show it.
const SHORTEST_WARM_UP_NS: u64 = 500_000_000;

/// Result of measuring.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) summary: Summary,
    pub(crate) rule: StopRule,
    pub(crate) latencies: Thinned,
    pub(crate) first_client: FirstClient,
    pub(crate) verdict: Verdict,
    pub(crate) warm_up: Option<WarmUpFacts>,
    pub(crate) search: Option<RateSearch>,
    /// Batches of a query that are enqueued together.
    pub(crate) burst: Option<u64>,
    pub(crate) before: Activity,
    pub(crate) after: Activity,
    /// Conditions of the measurement, and warnings about them.
    pub(crate) surroundings: (Conditions, Vec<Warning>),
    /// State of the device, if requested.
    pub(crate) device: Option<Result<device_state::Readings, Gap>>,
}

impl Load<'_> {
    /// Warms up, searches, measures.
    pub(crate) fn run(
        &mut self,
        bench: &mut Bench<'_, impl Runner>,
        first_run_ns: u64,
    ) -> Result<Measured, Stop> {
        let (latencies, warm_up) = self.warm_up(bench)?;
        self.fill_offline_query(&latencies);
        let search = self.find(bench, &latencies, first_run_ns)?;
        let minimum_ns = self.minimum_ns(&latencies);
        let kept = latencies.kept();
        let (queries, timed_ns) = (kept.len() as u64, kept.iter().sum());
        let warmed_up = BlockTime { queries, timed_ns, ..BlockTime::default() };
        self.measure(bench, minimum_ns, warmed_up, warm_up, search)
    }

    /// Warms up. The latencies are of the last queries, thinned.
    fn warm_up(
        &self,
        bench: &mut Bench<'_, impl Runner>,
    ) -> Result<(Thinned, Option<WarmUpFacts>), Stop> {
        bench.connection.enter(Phase::WarmUp)?;
        let settings = &self.case.measure;
        // An open loop may have to wait long for its next query; other loops do not wait.
        let longest = |time: u64| match self.case.key.rate {
            Some(_) => time.max(settings.maximum_duration_ns),
            None => u64::MAX,
        };
        let rule = match settings.warm_up {
            WarmUp::Iterations(queries) => {
                StopRule { minimum_ns: 0, minimum_queries: queries, maximum_ns: longest(0) }
            }
            WarmUp::Nanoseconds(time) => {
                StopRule { minimum_ns: time, minimum_queries: 0, maximum_ns: longest(time) }
            }
            WarmUp::Auto => StopRule {
                minimum_ns: SHORTEST_WARM_UP_NS.min(settings.maximum_duration_ns),
                minimum_queries: host_statistics::STEADY_STATE_VALUES as u64,
                maximum_ns: settings.maximum_duration_ns,
            },
        };
        let judge = match settings.warm_up {
            WarmUp::Auto => Judge::Steady { class: None, steady: false },
            _ => Judge::None,
        };
        // Other arrivals than those of the measurement; where the rate is still to be found, one
        // query after the other.
        let pattern = match (self.case.key.rate, self.pattern) {
            (Some(rate), Some(_)) => open(self.case, rate, seed(self.case) ^ 1),
            (_, Some(pattern)) => pattern,
            (_, None) => Pattern::SingleStream,
        };
        let mut sink = Sink::new(self, SamplePhase::WarmUp, judge, Thinned::CAPACITY);
        let summary = sink.run(bench, pattern, &rule, &mut || {})?;
        let facts = match sink.judge {
            Judge::Steady { class, steady } => Some(WarmUpFacts {
                class,
                queries: summary.queries,
                elapsed_ns: summary.elapsed_ns,
                steady,
            }),
            _ => None,
        };
        Ok((sink.latencies, facts))
    }

    /// Makes the one query of `offline` as long as rules require, by the time that it took while warming up, and a tenth
    /// longer, as LoadGen does from the rate that it is told to expect.
    fn fill_offline_query(&mut self, warm_up: &Thinned) {
        const MORE: f64 = 1.1;
        let (Some(rules), Some(Pattern::Offline { batches })) = (self.rules(), self.pattern) else {
            return;
        };
        let Some(typical_ns) = median(warm_up.kept()).filter(|typical| *typical > 0.0) else {
            return;
        };
        let times = (MORE * rules.minimum_ns as f64 / typical_ns).max(1.0);
        let more = (batches as f64 * times).ceil() as u64;
        self.pattern = Some(Pattern::Offline { batches: more });
        self.items_per_query = self.items_per_query.saturating_mul(more) / batches.max(1);
    }

    /// Returns the time to measure at least. Rules want the last query of a closed loop to begin after it, so there is
    /// room for one that takes ten times as long as any of the warm-up.
    fn minimum_ns(&self, warm_up: &Thinned) -> u64 {
        let minimum_ns = self.case.measure.minimum_duration_ns;
        let closed =
            matches!(self.pattern, Some(Pattern::SingleStream | Pattern::MultiStream { .. }));
        match self.rules().filter(|_| closed) {
            Some(_) => {
                let longest = warm_up.kept().iter().copied().max().unwrap_or(0);
                minimum_ns.saturating_add(longest.saturating_mul(10).max(minimum_ns / 100))
            }
            None => minimum_ns,
        }
    }

    /// Measures the case.
    fn measure(
        &self,
        bench: &mut Bench<'_, impl Runner>,
        minimum_ns: u64,
        warmed_up: BlockTime,
        warm_up: Option<WarmUpFacts>,
        search: Option<RateSearch>,
    ) -> Result<Measured, Stop> {
        bench.connection.enter(Phase::Measure)?;
        let settings = &self.case.measure;
        let rule = StopRule {
            minimum_ns,
            // A query of `offline` is the whole set, of which the rules want one.
            minimum_queries: match (settings.rules, self.case.key.scenario) {
                // The turns are as many as the ratio needs.
                _ if settings.pair.is_some() => 1,
                (Some(RuleSet::MlPerf), Scenario::Offline) => 1,
                _ => settings.minimum_queries.max(1),
            },
            maximum_ns: settings.maximum_duration_ns,
        };
        let pattern = self.pattern.ok_or_else(|| failure::input("the case has no rate"))?;
        let in_turns = settings.pair.is_some();
        if in_turns && (self.lanes().get() > 1 || pattern.arrivals().is_some()) {
            return Err(failure::input("a case with arrivals or clients takes no turns").into());
        }
        // The interval of a pair is that of its ratio, and the host's.
        let judge = match settings.confidence {
            Some(confidence) if !in_turns => Judge::Narrow(confidence),
            _ => Judge::None,
        };
        let capacity = match (settings.confidence, settings.rules) {
            (None, None) => Thinned::CAPACITY,
            _ => Sink::MANY,
        };
        let mut sink = Sink::new(self, SamplePhase::Measured, judge, capacity);
        let host = overseer::host();
        let before = Machine::this().activity(&host);
        let Observed { clock, backend, scheduling } = bench.observed;
        let device = &self.case.key.device;
        let mut timed = |sampler: Option<Result<Sampler<'_>, Gap>>| {
            let mut surroundings = Surroundings::start(clock, backend, device, before);
            let written = overseer::written();
            let between = &mut || surroundings.sample();
            let summary = match in_turns {
                true => sink.take_turns(bench, pattern, warmed_up, between)?,
                false => sink.run(bench, pattern, &rule, between)?,
            };
            let output = written.zip(overseer::written());
            let output = output.and_then(|(before, after)| before.doubt(after));
            let after = Machine::this().activity(&host);
            let readings = sampler.map(|sampler| sampler.and_then(Sampler::end));
            let (mut conditions, mut warnings) = surroundings.end(scheduling.clone());
            if in_turns {
                let gap = Gap::from(NotMeasured::InTurns);
                conditions.energy = Some(Energy { processor: Err(gap.clone()), device: Err(gap) });
            }
            warnings.extend(output.map(Warning::from));
            Ok::<_, Stop>((summary, after, (conditions, warnings), readings))
        };
        let (summary, after, surroundings, device) = match settings.device_sampling_ns {
            None => timed(None),
            Some(period) => std::thread::scope(|scope| {
                let period = Duration::from_nanos(period);
                let sampler = device_state::start(scope, clock, backend, device, period);
                // A scope catches what leaves a backend.
                exceptions::end_search_above(|| timed(Some(sampler)))
            }),
        }?;
        let verdict = self.judge(&summary, &sink, search.as_ref());
        let Sink { latencies, first_client, .. } = sink;
        Ok(Measured {
            summary,
            rule,
            latencies,
            first_client,
            verdict,
            warm_up,
            search,
            burst: match pattern {
                Pattern::MultiStream { batches } | Pattern::Offline { batches } => Some(batches),
                _ => None,
            },
            before,
            after,
            surroundings,
            device,
        })
    }
}
