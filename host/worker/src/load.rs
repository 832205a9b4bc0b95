//! The load of a case: what one query is, when queries are issued, when there are enough, and
//! whether the result is valid.

use std::io;
use std::num::NonZeroU32;
use std::time::Duration;

use host_machine::{Activity, Machine};
use host_measure::{
    self as measure, Block, Bracket, Crew, KeepUp, MaxRate, MeasureError, Meter, Observer, Probing,
    Requirement, Rules, Search, Seen, StopRule, Summary, SystemClock, Times, find_max_rate, hold,
};
use host_record::protocol::Message;
use host_record::{
    CaseSpec, Conditions, Confidence, EarlyStopping, Failure, Find, Gap, InvalidKind,
    InvalidReason, Lateness, MeasureSettings, Pace, Phase, Probe, Rate, RateSearch, RuleSet,
    SampleBlock, SamplePhase, SampleTimes, Scenario, ScheduledTimes, Scheduling, SearchEnd, Share,
    SteadyClass, Verdict, WarmUp, WarmUpFacts, Warning,
};
use host_statistics::{
    Quantile, STEADY_STATE_TOLERANCE, correlated_estimates, median, order_statistics,
    over_limit_allowed, queries_needed, steady_state,
};
use plugin_api::client::{Backend, Error};

use crate::backend::BackendTarget;
use crate::connection::Connection;
use crate::device_state::{self, Sampler};
use crate::examples::Examples;
use crate::failure::{self, Stop};
use crate::measurement::went_back;
use crate::stalls::FirstClient;
use crate::surroundings::Surroundings;
use crate::warnings::{Thinned, time};

/// A warm-up whose end is looked for takes at least this long: clocks of processors and caches
/// settle in tens of milliseconds, and a shorter look would not see it.
const SHORTEST_WARM_UP_NS: u64 = 500_000_000;

/// Part of the offered rate that has to be achieved for a measurement of a search to count. They are short,
/// so that the latencies of the first and the last query alone can make a few per cent; a queue that grows
/// more slowly than this shows in the latencies, and in the measurement of what is found, which asks for what
/// the verdict does.
const PROBE_KEEPS_UP: f64 = 0.9;

/// Where a search begins, the lowest rate that it tries, and the highest, as shares of the rate
/// that one query after the other would have. Below the first a queue is rare, below the second it
/// hardly happens. The last only bounds the search: one query may be slow by chance where that rate is taken from,
/// such as a cold first run.
const SEARCHED: [f64; 3] = [0.125, 0.008, 256.0];

/// Memory for latencies where something is computed from all of them: 8 MiB.
const MANY: usize = 1 << 20;

/// The percentile that is limited where nothing else is said: that of MLPerf for servers.
const USUAL_PERCENTILE: f64 = 0.99;

/// What runs the loop, and where its samples go.
pub(crate) struct Stage<'a, L> {
    pub(crate) connection: &'a mut Connection,
    pub(crate) runner: L,
    pub(crate) watched: Watched<'a>,
}

/// What is watched while measuring.
pub(crate) struct Watched<'a> {
    pub(crate) clock: &'a SystemClock,
    pub(crate) backend: &'a Backend,
    pub(crate) scheduling: &'a Scheduling,
}

/// What runs the loop.
pub(crate) trait Runner {
    /// Runs it, as [`Meter::run`] and [`Crew::run`] do.
    fn run<O: Observer>(
        &mut self,
        scenario: measure::Scenario,
        rule: &StopRule,
        observer: &mut O,
    ) -> Result<Summary, MeasureError<Error, O::Error>>;
}

/// One target on this thread.
pub(crate) struct Alone<'a, 'clock> {
    pub(crate) meter: &'a mut Meter<'clock, SystemClock>,
    pub(crate) target: &'a mut BackendTarget,
}

impl Runner for Alone<'_, '_> {
    fn run<O: Observer>(
        &mut self,
        scenario: measure::Scenario,
        rule: &StopRule,
        observer: &mut O,
    ) -> Result<Summary, MeasureError<Error, O::Error>> {
        self.meter.run(self.target, scenario, rule, observer)
    }
}

/// Several targets, each on a thread of its own.
impl Runner for &mut Crew<'_, SystemClock, Error> {
    fn run<O: Observer>(
        &mut self,
        scenario: measure::Scenario,
        rule: &StopRule,
        observer: &mut O,
    ) -> Result<Summary, MeasureError<Error, O::Error>> {
        Crew::run(self, scenario, rule, observer)
    }
}

/// What is asked of the target, and how much work one query is.
#[derive(Debug)]
pub(crate) struct Load<'a> {
    case: &'a CaseSpec,
    /// `None` where the rate is searched.
    scenario: Option<measure::Scenario>,
    items_per_query: u64,
}

/// What measuring came to.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) summary: Summary,
    pub(crate) rule: StopRule,
    pub(crate) latencies: Thinned,
    pub(crate) first_client: FirstClient,
    pub(crate) verdict: Verdict,
    pub(crate) warm_up: Option<WarmUpFacts>,
    pub(crate) search: Option<RateSearch>,
    pub(crate) before: Activity,
    pub(crate) after: Activity,
    /// What it was measured under, and what is doubtful about that.
    pub(crate) surroundings: (Conditions, Vec<Warning>),
    /// What the device did, where that was asked for.
    pub(crate) device: Option<Result<device_state::Seen, Gap>>,
}

impl<'a> Load<'a> {
    /// The load of a case.
    ///
    /// # Errors
    ///
    /// Where the case does not say how much it is.
    pub(crate) fn new(case: &'a CaseSpec, examples: &Examples) -> Result<Self, Failure> {
        let batch = u64::from(case.key.batch);
        let batches = |samples: u64| samples.div_ceil(batch).max(1);
        let (scenario, items_per_query) = match case.key.scenario {
            Scenario::SingleStream => (Some(measure::Scenario::SingleStream), batch),
            Scenario::MultiStream => {
                let usual = measure::Scenario::MULTI_STREAM_SAMPLES;
                let batches = batches(case.measure.multi_stream_samples.unwrap_or(usual));
                (Some(measure::Scenario::MultiStream { batches }), batches.saturating_mul(batch))
            }
            Scenario::Offline => {
                let batches = examples.offline_batches(case.measure.offline_samples);
                // Examples that only fill up the last batch of the data set are no work that was asked.
                let whole = batches.saturating_mul(batch);
                let items_per_query = match case.measure.offline_samples {
                    Some(_) => whole,
                    None => examples.count.unwrap_or(whole),
                };
                (Some(measure::Scenario::Offline { batches }), items_per_query)
            }
            Scenario::Server | Scenario::ConstantRate => {
                let scenario =
                    case.key.rate.map(|rate| open(case, rate, seed(case))).transpose()?;
                if scenario.is_none() && case.measure.find.is_none() {
                    return Err(failure::input("the case has no rate, and none is to be found"));
                }
                (scenario, batch)
            }
            Scenario::ClosedLoop => (Some(measure::Scenario::ClosedLoop), batch),
        };
        Ok(Self { case, scenario, items_per_query })
    }

    /// How many threads ask at once.
    pub(crate) fn lanes(&self) -> NonZeroU32 {
        self.case.key.clients.and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN)
    }

    /// Warms up, searches, measures.
    pub(crate) fn run(
        &mut self,
        stage: &mut Stage<'_, impl Runner>,
        first_run_ns: u64,
    ) -> Result<Measured, Stop> {
        let (latencies, warm_up) = self.warm_up(stage)?;
        let search = self.find(stage, &latencies, first_run_ns)?;
        self.measure(stage, warm_up, search)
    }

    /// Warms up. The latencies are of the last queries, thinned.
    fn warm_up(
        &self,
        stage: &mut Stage<'_, impl Runner>,
    ) -> Result<(Thinned, Option<WarmUpFacts>), Stop> {
        stage.connection.enter(Phase::WarmUp)?;
        let settings = &self.case.measure;
        // An open loop may have to wait long for its next query; nobody else has to wait.
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
        let scenario = match (self.case.key.rate, self.scenario) {
            (Some(rate), Some(_)) => open(self.case, rate, seed(self.case) ^ 1)?,
            (_, Some(scenario)) => scenario,
            (_, None) => measure::Scenario::SingleStream,
        };
        let mut sink = self.sink(SamplePhase::WarmUp, judge, Thinned::CAPACITY);
        let summary = sink.run(stage, scenario, &rule, &mut || {})?;
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

    /// Searches the rate, where that is asked for, and goes on with what was found. `typical_ns` is
    /// what one query takes.
    fn find(
        &mut self,
        stage: &mut Stage<'_, impl Runner>,
        warm_up: &Thinned,
        first_run_ns: u64,
    ) -> Result<Option<RateSearch>, Stop> {
        let settings = &self.case.measure;
        let (None, Some(Find::MaxRate), Some(limit)) =
            (self.scenario, settings.find, settings.latency_limit)
        else {
            return Ok(None);
        };
        stage.connection.enter(Phase::Search)?;
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
        let mut probes = Vec::new();
        let mut probe_seed = seed(self.case) ^ 2;
        let mut measure = |at: measure::Rate, length: Length| {
            probe_seed = probe_seed.wrapping_add(1);
            let (probe, seen) =
                self.probe(stage, at, &probing, length, percentile, limit.at_most_ns, probe_seed)?;
            probes.push(probe);
            Ok::<_, Stop>(seen)
        };
        let [begin, lowest, highest] = SEARCHED;
        // Low rates take long to measure, so they are looked at only where it has to be.
        let search = Search {
            begin: bound(begin)?,
            ..Search::new(bound(lowest)?, bound(highest)?, limit.at_most_ns)
        };
        let search = search.within(&probing);
        let mut found = find_max_rate(&search, |at| measure(at, Length::Short))?;
        // A short measurement is kind to a border: what was found has to hold for as long as the case
        // is measured, and is lowered a little where it does not, as LoadGen's search does.
        if let MaxRate::Found(bracket) = found {
            found = hold(bracket, limit.at_most_ns, |at| measure(at, Length::Whole))?;
        }
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
        let chosen = record_rate(bracket.fine.unwrap_or(search.lowest))?;
        self.scenario = Some(open(self.case, chosen, seed(self.case))?);
        Ok(Some(RateSearch {
            end,
            fine: bracket.fine.map(record_rate).transpose()?,
            too_much: bracket.too_much.map(record_rate).transpose()?,
            probes,
            rates: vec![chosen],
        }))
    }

    #[expect(clippy::too_many_arguments, reason = "what one measurement of the search is")]
    fn probe(
        &self,
        stage: &mut Stage<'_, impl Runner>,
        at: measure::Rate,
        probing: &Probing,
        length: Length,
        percentile: Quantile,
        limit_ns: u64,
        seed: u64,
    ) -> Result<(Probe, Seen), Stop> {
        let rule = match length {
            Length::Short => probing.short(at),
            Length::Whole => probing.whole(at, self.case.measure.minimum_queries),
        };
        let rate = record_rate(at)?;
        let mut sink = self.sink(SamplePhase::Search, Judge::None, MANY);
        let summary = sink.run(stage, open(self.case, rate, seed)?, &rule, &mut || {})?;
        let kept_up = summary.pace.is_some_and(|pace| match length {
            Length::Short => {
                KeepUp { achieved: PROBE_KEEPS_UP, ..KeepUp::default() }.is_kept_up(&pace, || true)
            }
            Length::Whole => {
                KeepUp::default().is_kept_up(&pace, || grows(sink.latencies.kept()))
                    && self.rules().is_none_or(|rules| {
                        stops_early_enough(rules.requirement, summary.queries, sink.over_limit)
                    })
            }
        });
        let rank = percentile.rank(sink.latencies.kept().len());
        let latency_ns = (rank > 0).then(|| order_statistics(sink.latencies.kept(), &[rank])[0]);
        let seen = summary
            .pace
            .map_or(Seen::CouldNotKeepUp, |pace| Seen::of(latency_ns, kept_up, &pace, limit_ns));
        let latency_ns = match seen {
            Seen::Latency(latency_ns) => Some(latency_ns),
            _ => None,
        };
        let probe = Probe {
            rate,
            queries: summary.queries,
            latency_ns,
            achieved_per_second: summary.pace.and_then(|pace| pace.achieved_per_second),
            lateness: summary.pace.and_then(|pace| pace.lateness).map(lateness),
        };
        Ok((probe, seen))
    }

    /// Measures.
    fn measure(
        &self,
        stage: &mut Stage<'_, impl Runner>,
        warm_up: Option<WarmUpFacts>,
        search: Option<RateSearch>,
    ) -> Result<Measured, Stop> {
        stage.connection.enter(Phase::Measure)?;
        let settings = &self.case.measure;
        let rule = StopRule {
            minimum_ns: settings.minimum_duration_ns,
            // A query of `offline` is the whole set, of which the rules want one.
            minimum_queries: match (settings.rules, self.case.key.scenario) {
                (Some(RuleSet::MlPerf), Scenario::Offline) => 1,
                _ => settings.minimum_queries.max(1),
            },
            maximum_ns: settings.maximum_duration_ns,
        };
        let scenario = self.scenario.ok_or_else(|| failure::input("the case has no rate"))?;
        let judge = settings.confidence.map_or(Judge::None, Judge::Narrow);
        let capacity = match (settings.confidence, settings.rules) {
            (None, None) => Thinned::CAPACITY,
            _ => MANY,
        };
        let mut sink = self.sink(SamplePhase::Measured, judge, capacity);
        let before = Machine::this().activity();
        let Watched { clock, backend, scheduling } = stage.watched;
        let device = &self.case.key.device;
        let (summary, after, surroundings, device) = std::thread::scope(|scope| {
            let sampler = settings.device_sampling_ns.map(|period| {
                let period = Duration::from_nanos(period);
                device_state::start(scope, clock, backend, device, period)
            });
            let mut surroundings = Surroundings::start(clock, backend, device, before);
            let summary = sink.run(stage, scenario, &rule, &mut || surroundings.look())?;
            let after = Machine::this().activity();
            let device = sampler.map(|sampler| sampler.and_then(Sampler::end));
            Ok::<_, Stop>((summary, after, surroundings.end(scheduling.clone()), device))
        })?;
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
            before,
            after,
            surroundings,
            device,
        })
    }

    fn sink(&self, phase: SamplePhase, judge: Judge, capacity: usize) -> Sink {
        Sink {
            phase,
            items_per_query: self.items_per_query,
            latencies: Thinned::new(capacity),
            first_client: FirstClient::new(),
            judge,
            limit_ns: self.case.measure.latency_limit.map(|limit| limit.at_most_ns),
            over_limit: 0,
        }
    }

    /// The rules, where they know the scenario.
    fn rules(&self) -> Option<Rules> {
        let scenario = self.scenario.unwrap_or(measure::Scenario::SingleStream);
        match self.case.measure.rules? {
            RuleSet::MlPerf => match self.case.key.scenario {
                // Searched rates are those of servers.
                Scenario::Server if self.scenario.is_none() => {
                    let rate = measure::Rate::per_second(1.0).ok()?;
                    Rules::mlperf(measure::Scenario::Server { rate, seed: 0 })
                }
                _ => Rules::mlperf(scenario),
            },
        }
    }

    /// The percentile that a limit on the latency is about.
    fn percentile(&self) -> Quantile {
        let ruled = self.rules().and_then(|rules| match rules.requirement {
            Requirement::Percentile { percentile, .. } => Some(percentile),
            _ => None,
        });
        limited_percentile(&self.case.measure, ruled)
    }

    /// What of the case is not as the rules have it.
    fn against_rules(&self, rules: &Rules) -> Vec<String> {
        let (key, settings) = (&self.case.key, &self.case.measure);
        let mut against = Vec::new();
        let single = matches!(key.scenario, Scenario::SingleStream | Scenario::Server);
        if single && key.batch != 1 {
            against.push(format!("a query of {} has one sample, not {}", key.scenario, key.batch));
        }
        let usual = measure::Scenario::MULTI_STREAM_SAMPLES;
        if key.scenario == Scenario::MultiStream && self.items_per_query != usual {
            let samples = self.items_per_query;
            against.push(format!("a query of multi-stream has {usual} samples, not {samples}"));
        }
        if key.scenario == Scenario::Server && settings.latency_limit.is_none() {
            against.push("the latency of server has a limit, and none is set".to_owned());
        }
        let stated = settings.latency_limit.and_then(|limit| limit.percentile);
        if let (Some(stated), Requirement::Percentile { percentile, .. }) =
            (stated, rules.requirement)
            && quantile(stated.get()) != quantile(percentile)
        {
            let ruled = quantile(percentile);
            against.push(format!("the percentile of {} is {ruled}", key.scenario));
        }
        against
    }

    fn judge(&self, summary: &Summary, sink: &Sink, search: Option<&RateSearch>) -> Verdict {
        let settings = &self.case.measure;
        let percentile = self.percentile();
        let mut reasons = Vec::new();
        let limited = settings.latency_limit.is_some();
        let rules = match (settings.rules, self.rules()) {
            (Some(ruled), Some(rules)) => {
                let against = self.against_rules(&rules);
                reasons.extend(against.into_iter().map(|what| InvalidReason {
                    kind: InvalidKind::NoRules,
                    evidence: format!("This is not by the rules of {ruled}: {what}."),
                }));
                rules
            }
            (ruled, _) => {
                if let Some(ruled) = ruled {
                    let evidence = format!("{ruled} has no rules for {}.", self.case.key.scenario);
                    reasons.push(InvalidReason { kind: InvalidKind::NoRules, evidence });
                }
                // A limit of the user's own is judged by the percentile itself.
                let requirement = if limited {
                    let percentile = percentile.probability();
                    Requirement::Percentile { percentile, confidence: 0.99, queries: 0 }
                } else {
                    Requirement::Nothing
                };
                Rules { requirement, ..Rules::default() }
            }
        };
        let evidence = measure::Evidence {
            timed_ns: summary.timed_ns,
            queries: summary.queries,
            samples: summary.queries.saturating_mul(self.items_per_query),
            over_limit: limited.then_some(sink.over_limit),
            // Without rules, too few queries are doubtful and not invalid: a warning says so.
            cut_short: settings.rules.is_some() && !summary.enough,
            pace: summary.pace,
        };
        let needed =
            |percentile, confidence, over| queries_needed(quantile(percentile), over, confidence);
        let mut early_stopping = None;
        match rules.judge(&evidence, needed) {
            measure::Verdict::Valid(measure::Basis::Count) => {}
            measure::Verdict::Valid(measure::Basis::EarlyStopping) => {
                let confidence = match rules.requirement {
                    Requirement::Percentile { confidence, .. } => confidence,
                    _ => USUAL_PERCENTILE,
                };
                early_stopping = Some(early(summary, sink, percentile, confidence, limited));
            }
            measure::Verdict::Invalid(found) => {
                let grows = grows(sink.latencies.kept());
                let holds = |found: &&measure::Reason| {
                    grows || !matches!(found, measure::Reason::TooSlow { .. })
                };
                reasons.extend(found.iter().filter(holds).map(reason));
            }
        }
        if let Some(search) = search {
            let shown = |rate: Option<Rate>| {
                rate.map_or(String::new(), |rate| format!("{:.1}/s", rate.get()))
            };
            let unfinished = match search.end {
                SearchEnd::Found => None,
                SearchEnd::Unsettled => Some("No rate was settled on".to_owned()),
                SearchEnd::GeneratorLate => {
                    let rate = shown(search.probes.last().map(|probe| probe.rate));
                    Some(format!("At {rate} the generator of the load itself could not keep up"))
                }
                SearchEnd::NotEvenLowest => {
                    let rate = shown(search.too_much);
                    Some(format!("Even the lowest rate that was tried, {rate}, is too much"))
                }
                SearchEnd::CutShort => {
                    let rate = shown(search.too_much);
                    let maximum = time(settings.maximum_duration_ns as f64);
                    Some(format!(
                        "At {rate} the load is too much, and {maximum} (`maximum-duration`) have no room for \
                         enough queries at a lower rate"
                    ))
                }
                SearchEnd::FineAtHighest => {
                    let rate = shown(search.fine);
                    Some(format!(
                        "At the highest rate that is searched, {rate}, the limit was kept"
                    ))
                }
            };
            reasons.extend(unfinished.map(|what| InvalidReason {
                kind: InvalidKind::NotFound,
                evidence: format!("{what}, after {} measurements.", search.probes.len()),
            }));
        }
        Verdict { rules: settings.rules, reasons, early_stopping }
    }
}

/// How long a measurement of the search is, and what it asks for.
#[derive(Debug, Clone, Copy)]
enum Length {
    /// As short as can tell of a rate.
    Short,
    /// As long as the case is measured, with what the verdict on it asks for.
    Whole,
}

/// Whether a requirement by which fewer queries are enough would take so many, of which so many were over the
/// limit. Where not even queries none of which is over it would do, no lower rate would either, and it is no
/// matter of the rate.
fn stops_early_enough(requirement: Requirement, queries: u64, over_limit: u64) -> bool {
    let Requirement::Percentile { percentile, confidence, queries: enough } = requirement else {
        return true;
    };
    let needed = |over| queries_needed(quantile(percentile), over, confidence).min(enough);
    queries >= needed(over_limit) || queries < needed(0)
}

/// Seed of a process's arrivals: each has its own.
fn seed(case: &CaseSpec) -> u64 {
    case.seed ^ (u64::from(case.process) << 32)
}

/// Whether latencies grow as those of a queue do that gets longer all the time: in proportion to the time
/// that has passed, so that those of the last third are five times those of the first. Without that, rates
/// that differ are those of a short measurement, whose first and last latency differ.
fn grows(latencies: &[u64]) -> bool {
    let third = latencies.len() / 3;
    let (first, last) = (&latencies[..third], &latencies[latencies.len() - third..]);
    median(first).zip(median(last)).is_none_or(|(first, last)| last > 2.0 * first)
}

/// The open loop of a case at a rate.
fn open(case: &CaseSpec, at: Rate, seed: u64) -> Result<measure::Scenario, Failure> {
    let rate = rate(at.get())?;
    Ok(match case.key.scenario {
        Scenario::ConstantRate => measure::Scenario::ConstantRate { rate },
        _ => measure::Scenario::Server { rate, seed },
    })
}

fn rate(queries_per_second: f64) -> Result<measure::Rate, Failure> {
    measure::Rate::per_second(queries_per_second).map_err(|error| failure::input(error.to_string()))
}

fn record_rate(rate: measure::Rate) -> Result<Rate, Failure> {
    Rate::per_second(rate.get()).map_err(failure::input)
}

/// A share of at most eight decimal places as a fraction.
/// The percentile that a limit on the latency is about, where rules have this one.
pub(crate) fn limited_percentile(measure: &MeasureSettings, ruled: Option<f64>) -> Quantile {
    let stated = measure.latency_limit.and_then(|limit| limit.percentile);
    quantile(stated.map(Share::get).or(ruled).unwrap_or(USUAL_PERCENTILE))
}

fn quantile(share: f64) -> Quantile {
    const WHOLE: u32 = 100_000_000;
    let part = (share * f64::from(WHOLE)).round().clamp(1.0, f64::from(WHOLE - 1));
    Quantile::new(part as u32, WHOLE).unwrap_or(Quantile::P99)
}

/// What early stopping says. Where all latencies were kept, the estimate is exact.
fn early(
    summary: &Summary,
    sink: &Sink,
    percentile: Quantile,
    confidence: f64,
    limited: bool,
) -> EarlyStopping {
    let queries = summary.queries;
    let over = if limited { sink.over_limit } else { 1 };
    let minimum = queries_needed(percentile, over, confidence);
    let latencies = sink.latencies.kept();
    let estimate_ns = over_limit_allowed(percentile, queries, confidence)
        .filter(|_| !limited && latencies.len() as u64 == queries)
        .and_then(|allowed| latencies.len().checked_sub(allowed.max(1) as usize))
        .map(|below| order_statistics(latencies, &[below + 1])[0]);
    EarlyStopping { queries, minimum, estimate_ns }
}

fn reason(found: &measure::Reason) -> InvalidReason {
    use measure::Reason;
    let shown = |nanoseconds: u64| time(nanoseconds as f64);
    let (kind, evidence) = match *found {
        Reason::CutShort => {
            let evidence = "The maximum duration was over before there was enough.".to_owned();
            (InvalidKind::CutShort, evidence)
        }
        Reason::TooShort { timed_ns, minimum_ns } => (
            InvalidKind::TooShort,
            format!("{} were measured; it takes {}.", shown(timed_ns), shown(minimum_ns)),
        ),
        Reason::TooFewQueries { queries, minimum } => (
            InvalidKind::TooFewQueries,
            format!("{queries} queries were made; it takes {minimum}."),
        ),
        Reason::TooFewSamples { samples, minimum } => (
            InvalidKind::TooFewSamples,
            format!("{samples} samples were measured; it takes {minimum}."),
        ),
        Reason::OverLimit { over, queries, allowed } => (
            InvalidKind::OverLimit,
            format!(
                "{over} of {queries} queries were over the limit on their latency; at most {allowed} may be."
            ),
        ),
        Reason::Late { p99_ns, bound_ns } => (
            InvalidKind::Late,
            format!(
                "The load was not kept up: its generator was {} late (99th percentile), more than {}.",
                shown(p99_ns),
                shown(bound_ns)
            ),
        ),
        Reason::TooSlow { offered, achieved, bound } => (
            InvalidKind::TooSlow,
            format!(
                "The load was not kept up: {achieved:.1} of {offered:.1} queries per second ended, \
                 less than {:.0} %.",
                100.0 * bound
            ),
        ),
        Reason::Unserved { queries } => (
            InvalidKind::Unserved,
            format!("The load was not kept up: {queries} queries were due and never begun."),
        ),
    };
    InvalidReason { kind, evidence }
}

/// How an open loop was kept up, as it is recorded.
pub(crate) fn pace(summary: &Summary) -> Option<Pace> {
    let pace = summary.pace?;
    Some(Pace {
        asked: Rate::per_second(pace.asked.get()).ok()?,
        offered_per_second: pace.offered_per_second,
        achieved_per_second: pace.achieved_per_second,
        unserved: pace.unserved,
        lateness: pace.lateness.map(lateness),
    })
}

fn lateness(late: measure::Lateness) -> Lateness {
    let measure::Lateness { median_ns, p99_ns, maximum_ns, .. } = late;
    Lateness { median_ns, p99_ns, maximum_ns }
}

/// When there are enough queries, beyond what the rule counts.
#[derive(Debug, Clone, Copy)]
enum Judge {
    None,
    /// Once the latencies are steady.
    Steady {
        class: Option<SteadyClass>,
        steady: bool,
    },
    /// Once an interval is narrow.
    Narrow(Confidence),
}

/// Takes blocks, and sends them on.
struct Sink {
    phase: SamplePhase,
    items_per_query: u64,
    latencies: Thinned,
    first_client: FirstClient,
    judge: Judge,
    limit_ns: Option<u64>,
    over_limit: u64,
}

impl Sink {
    fn run(
        &mut self,
        stage: &mut Stage<'_, impl Runner>,
        scenario: measure::Scenario,
        rule: &StopRule,
        between: &mut dyn FnMut(),
    ) -> Result<Summary, Stop> {
        let phase = match self.phase {
            SamplePhase::WarmUp => Phase::WarmUp,
            SamplePhase::Search => Phase::Search,
            SamplePhase::Measured => Phase::Measure,
        };
        let Stage { connection, runner, .. } = stage;
        let mut sending = Sending { sink: self, connection, between };
        runner.run(scenario, rule, &mut sending).map_err(|error| match error {
            MeasureError::Target(error) => failure::backend(phase)(error).into(),
            MeasureError::Sink(error) => error.into(),
            MeasureError::ClockWentBack { before_ns, after_ns } => {
                went_back(before_ns, after_ns).into()
            }
        })
    }

    fn is_enough(&mut self) -> bool {
        let latencies = self.latencies.kept();
        match &mut self.judge {
            Judge::None => true,
            Judge::Steady { class, steady } => {
                let Ok(found) = steady_state(latencies, STEADY_STATE_TOLERANCE) else {
                    return false;
                };
                *class = Some(match found.class {
                    host_statistics::SteadyClass::Flat => SteadyClass::Flat,
                    host_statistics::SteadyClass::WarmUp => SteadyClass::WarmUp,
                    host_statistics::SteadyClass::SlowDown => SteadyClass::SlowDown,
                    host_statistics::SteadyClass::NoSteadyState => SteadyClass::NoSteadyState,
                });
                // It has to last for as long as all that came before.
                *steady = found.steady_from().is_some_and(|from| from <= latencies.len() / 2);
                *steady
            }
            Judge::Narrow(Confidence { level, half_width, percentile }) => {
                let quantiles = [quantile(percentile.get())];
                let found = correlated_estimates(latencies, &quantiles, level.get());
                found.into_iter().flatten().next().is_some_and(|estimate| {
                    let half = (estimate.high - estimate.low) as f64 / 2.0;
                    half <= half_width.get() * estimate.value as f64
                })
            }
        }
    }
}

struct Sending<'a> {
    sink: &'a mut Sink,
    connection: &'a mut Connection,
    /// Called at each block, while the clock does not run.
    between: &'a mut dyn FnMut(),
}

impl Observer for Sending<'_> {
    type Error = io::Error;

    fn block(&mut self, block: Block<'_>) -> io::Result<()> {
        if block.times.is_empty() {
            // The loop is waiting for a scheduled time.
            return self.connection.send(&Message::Progress);
        }
        (self.between)();
        let sink = &mut *self.sink;
        if let Some(limit) = sink.limit_ns {
            sink.over_limit +=
                block.times.latencies().filter(|latency| *latency > limit).count() as u64;
        }
        sink.latencies.extend(block.times.latencies());
        if block.lane == 0 {
            sink.first_client.extend(block.times);
        }
        let times = match block.times {
            Times::Chain(edges) => SampleTimes::Chain(edges.to_vec()),
            Times::Scheduled(queries) => {
                let times = queries.iter().map(|query| ScheduledTimes {
                    scheduled_ns: query.scheduled_ns,
                    begun_ns: query.begun_ns,
                    ended_ns: query.ended_ns,
                });
                SampleTimes::Scheduled(times.collect())
            }
        };
        self.connection.send(&Message::Samples(SampleBlock {
            phase: sink.phase,
            items_per_query: sink.items_per_query,
            lane: block.lane,
            times,
        }))
    }

    fn judges(&self) -> bool {
        !matches!(self.sink.judge, Judge::None)
    }

    fn enough(&mut self, _: &Summary) -> bool {
        self.sink.is_enough()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_gets_longer_grows_and_one_that_varies_does_not() {
        let growing: Vec<u64> = (0..300).map(|index| 1000 + index * 50).collect();
        assert!(grows(&growing));
        let varying: Vec<u64> = (0..300).map(|index| 1000 + index % 7 * 500).collect();
        assert!(!grows(&varying));
        assert!(grows(&[5, 6]), "too few to say otherwise");
    }

    /// MLPerf's numbers: 662 queries are enough for the 99th percentile where one is over the limit.
    #[test]
    fn a_rate_holds_where_so_few_queries_are_enough_for_the_rules() {
        let server = measure::Scenario::Server {
            rate: measure::Rate::per_second(1.0).expect("a rate"),
            seed: 0,
        };
        let requirement = Rules::mlperf(server).expect("rules").requirement;
        assert!(stops_early_enough(requirement, 662, 1));
        assert!(!stops_early_enough(requirement, 661, 1), "a lower rate has none over");
        assert!(stops_early_enough(requirement, 661, 0));
        assert!(!stops_early_enough(requirement, 10_000, 99));
        assert!(stops_early_enough(requirement, 100, 1), "too few at any rate");
        assert!(stops_early_enough(requirement, 270_336, 2703), "enough by number");
        assert!(stops_early_enough(Requirement::Nothing, 1, 1));
    }

    #[test]
    fn percentiles_are_exact_fractions() {
        assert_eq!(quantile(0.99).rank(1000), 990);
        assert_eq!(quantile(0.999).rank(10_000), 9990);
        assert_eq!(quantile(0.9).rank(64), Quantile::P90.rank(64));
    }
}
