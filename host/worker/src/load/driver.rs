//! Drives the loop: runs it on one thread or on several, sends its blocks to the host, and says when
//! there are enough.

use std::io::{self, BufRead};

use host_measure::{
    Block, Crew, MeasureError, Meter, Observer, Pattern, StopRule, Summary, SystemClock, Target,
    Times, Turns,
};
use host_record::protocol::{Baton, BlockTime, ChainBlock, Message, Turn};
use host_record::{
    Confidence, Phase, SampleBlock, SamplePhase, SampleTimes, ScheduledTimes, Scheduling,
    SteadyClass,
};
use host_statistics::{
    STEADY_STATE_TOLERANCE, correlated_estimates, interquartile_mean, steady_state,
};
use plugin_api::client::{Backend, Error};

use super::query::Load;
use crate::connection::Connection;
use crate::failure::{self, Stop, went_back};
use crate::marks::MarkLog;
use crate::percentile::quantile;
use crate::stalls::FirstClient;
use crate::thinned::Thinned;

/// Runs the loop, and takes its samples.
pub(crate) struct Bench<'a, L> {
    pub(crate) connection: &'a mut Connection,
    pub(crate) runner: L,
    pub(crate) observed: Observed<'a>,
    /// Logs of each lane's marks, in a case that has some.
    pub(crate) marks: &'a [MarkLog],
}

/// Sources of observations while measuring.
pub(crate) struct Observed<'a> {
    pub(crate) clock: &'a SystemClock,
    pub(crate) backend: &'a Backend,
    pub(crate) scheduling: &'a Scheduling,
}

/// Runs the loop.
pub(crate) trait Runner {
    /// Runs it, as [`Meter::run`] and [`Crew::run`] do.
    fn run<O: Observer>(
        &mut self,
        pattern: Pattern,
        rule: &StopRule,
        observer: &mut O,
    ) -> Result<Summary, MeasureError<Error, O::Error>>;

    /// Runs it in turns, as [`Meter::take_turns`] does. Several clients take no turns: see [`Load::measure`].
    fn take_turns<T: Turns>(
        &mut self,
        pattern: Pattern,
        turns: &mut T,
    ) -> Result<Summary, MeasureError<Error, T::Error>>;
}

/// One target on this thread.
pub(crate) struct SingleTarget<'a, 'clock, T> {
    pub(crate) meter: &'a mut Meter<'clock, SystemClock>,
    pub(crate) target: &'a mut T,
}

impl<T: Target<Error = Error>> Runner for SingleTarget<'_, '_, T> {
    fn run<O: Observer>(
        &mut self,
        pattern: Pattern,
        rule: &StopRule,
        observer: &mut O,
    ) -> Result<Summary, MeasureError<Error, O::Error>> {
        self.meter.run(self.target, pattern, rule, observer)
    }

    fn take_turns<S: Turns>(
        &mut self,
        pattern: Pattern,
        turns: &mut S,
    ) -> Result<Summary, MeasureError<Error, S::Error>> {
        self.meter.take_turns(self.target, pattern, turns)
    }
}

/// Several targets, each on a thread of its own.
impl Runner for &mut Crew<'_, SystemClock, Error> {
    fn run<O: Observer>(
        &mut self,
        pattern: Pattern,
        rule: &StopRule,
        observer: &mut O,
    ) -> Result<Summary, MeasureError<Error, O::Error>> {
        Crew::run(self, pattern, rule, observer)
    }

    fn take_turns<T: Turns>(
        &mut self,
        _: Pattern,
        _: &mut T,
    ) -> Result<Summary, MeasureError<Error, T::Error>> {
        unreachable!("a case with clients takes no turns")
    }
}

/// Stopping rules beyond those that the loop itself counts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Judge {
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
pub(super) struct Sink {
    phase: SamplePhase,
    items_per_query: u64,
    pub(super) latencies: Thinned,
    pub(super) first_client: FirstClient,
    pub(super) judge: Judge,
    limit_ns: Option<u64>,
    pub(super) over_limit: u64,
    /// Latency of the last query.
    pub(super) last_ns: u64,
    /// Latency of the shortest query.
    pub(super) shortest_ns: Option<u64>,
}

impl Sink {
    /// Memory for latencies that are all used in a computation: 8 MiB.
    pub(super) const MANY: usize = 1 << 20;

    /// Takes what a load issues in a phase, and keeps at most `capacity` latencies.
    pub(super) fn new(load: &Load<'_>, phase: SamplePhase, judge: Judge, capacity: usize) -> Self {
        Self {
            phase,
            items_per_query: load.items_per_query,
            latencies: Thinned::new(capacity),
            first_client: FirstClient::new(),
            judge,
            limit_ns: load.case.measure.latency_limit.map(|limit| limit.at_most_ns),
            over_limit: 0,
            last_ns: 0,
            shortest_ns: None,
        }
    }

    /// Runs the loop until the rule and the judge have enough. `between` is called at each block.
    pub(super) fn run(
        &mut self,
        bench: &mut Bench<'_, impl Runner>,
        pattern: Pattern,
        rule: &StopRule,
        between: &mut dyn FnMut(),
    ) -> Result<Summary, Stop> {
        let phase = match self.phase {
            SamplePhase::WarmUp => Phase::WarmUp,
            SamplePhase::Search => Phase::Search,
            SamplePhase::Measured => Phase::Measure,
        };
        let Bench { connection, runner, marks, .. } = bench;
        // Marks of runs outside a loop do not belong to a block.
        marks.iter().for_each(MarkLog::clear);
        let mut sending = Sending { sink: self, connection, between, marks };
        runner.run(pattern, rule, &mut sending).map_err(|error| stop(phase, error))
    }

    /// Runs the loop in the turns that the host gives, until there are no more. `warm_up` are the queries before.
    pub(super) fn take_turns(
        &mut self,
        bench: &mut Bench<'_, impl Runner>,
        pattern: Pattern,
        warm_up: BlockTime,
        between: &mut dyn FnMut(),
    ) -> Result<Summary, Stop> {
        let Bench { connection, runner, marks, .. } = bench;
        marks.iter().for_each(MarkLog::clear);
        let sending = Sending { sink: self, connection, between, marks };
        let mut turns =
            TakingTurns { sending, warm_up: Some(warm_up), times: Vec::new(), line: String::new() };
        runner.take_turns(pattern, &mut turns).map_err(|error| stop(Phase::Measure, error))
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

/// Converts the error of a loop.
fn stop(phase: Phase, error: MeasureError<Error, io::Error>) -> Stop {
    match error {
        MeasureError::Target(error) => failure::backend(phase)(error).into(),
        MeasureError::Sink(error) => error.into(),
        MeasureError::ClockWentBack { before_ns, after_ns } => {
            went_back(before_ns, after_ns).into()
        }
    }
}

/// One side of a pair. It waits for the host's lines on standard input, which nothing else reads meanwhile.
struct TakingTurns<'a> {
    sending: Sending<'a>,
    /// Queries of the warm-up, until the host has been told.
    warm_up: Option<BlockTime>,
    /// Times of the queries of the turn's blocks.
    times: Vec<u64>,
    line: String,
}

/// Queries of a block that its usual time is computed from: of more, every second, third and so on.
const USUAL_OF: usize = 4096;

/// Returns blocks with the usual times of their queries, which `times` has one after the other.
fn with_usual_times(blocks: &[BlockTime], times: &[u64]) -> Vec<BlockTime> {
    let mut rest = times;
    let block = |block: &BlockTime| {
        let count = usize::try_from(block.queries).unwrap_or(usize::MAX).min(rest.len());
        let (own, others) = rest.split_at(count);
        rest = others;
        let stride = count.div_ceil(USUAL_OF).max(1);
        let own: Vec<f64> = own.iter().step_by(stride).map(|time| *time as f64).collect();
        BlockTime { usual_ns: interquartile_mean(&own).unwrap_or(0.0), ..*block }
    };
    blocks.iter().map(block).collect()
}

impl Turns for TakingTurns<'_> {
    type Error = io::Error;

    fn next(&mut self, before: BlockTime, blocks: &[BlockTime]) -> io::Result<Option<Turn>> {
        let before = self.warm_up.take().unwrap_or(before);
        let blocks = with_usual_times(blocks, &self.times);
        self.times.clear();
        self.sending.connection.send(&Message::Waiting { before, blocks })?;
        self.line.clear();
        io::stdin().lock().read_line(&mut self.line)?;
        match serde_json::from_str(&self.line)? {
            Baton::Turn(turn) => Ok(Some(turn)),
            Baton::End => Ok(None),
        }
    }

    fn queries(&mut self, block: Block<'_>, is_before: bool) -> io::Result<()> {
        match is_before {
            true => self.sending.send(block, SamplePhase::WarmUp),
            false => {
                self.times.extend(block.times.durations());
                self.sending.block(block)
            }
        }
    }
}

struct Sending<'a> {
    sink: &'a mut Sink,
    connection: &'a mut Connection,
    /// Called at each block, while the clock does not run.
    between: &'a mut dyn FnMut(),
    marks: &'a [MarkLog],
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
        sink.last_ns = block.times.latencies().last().unwrap_or(sink.last_ns);
        let shortest = block.times.latencies().min();
        sink.shortest_ns = sink.shortest_ns.into_iter().chain(shortest).min();
        sink.latencies.extend(block.times.latencies());
        if block.lane == 0 {
            sink.first_client.extend(block.times);
        }
        let phase = sink.phase;
        self.send(block, phase)
    }

    fn judges(&self) -> bool {
        !matches!(self.sink.judge, Judge::None)
    }

    fn enough(&mut self, _: &Summary) -> bool {
        self.sink.is_enough()
    }
}

impl Sending<'_> {
    /// Sends a block to the host.
    fn send(&mut self, block: Block<'_>, phase: SamplePhase) -> io::Result<()> {
        let items_per_query = self.sink.items_per_query;
        let marks = self.marks.get(block.lane as usize);
        let times = match block.times {
            Times::Chain(edges) if marks.is_none() => {
                let block = ChainBlock { phase, items_per_query, lane: block.lane, edges };
                return self.connection.send_chain(block);
            }
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
            phase,
            items_per_query,
            lane: block.lane,
            times,
            marks: marks.map(|log| log.take(block.times.len())),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_that_something_interrupted_does_not_change_the_usual_time() {
        let block = |queries: u64| BlockTime { queries, timed_ns: 1000, ..BlockTime::default() };
        let times = [10, 11, 9, 5000, 20, 20];
        let usual: Vec<f64> = with_usual_times(&[block(4), block(2)], &times)
            .iter()
            .map(|block| block.usual_ns)
            .collect();
        assert_eq!(usual, [10.5, 20.0]);
        // Long blocks are thinned.
        let many = vec![7; 3 * USUAL_OF];
        assert_eq!(with_usual_times(&[block(many.len() as u64)], &many)[0].usual_ns, 7.0);
    }
}
