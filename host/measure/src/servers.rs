//! An open loop with several servers, each on a thread of its own, that take from one feed.

use crate::block::{Block, ScheduledQuery, Times};
use crate::clock::Clock;
use crate::error::{MeasureError, WentBack, between, in_order};
use crate::feed::{Feed, Ticket};
use crate::lane_channel::BlockSender;
use crate::open::{Demand, readings};
use crate::pace::PaceKeeper;
use crate::schedule::{Arrivals, Schedule};
use crate::stop::{Goal, Observer, StopRule, Summary};

/// Runs one server of several, on its own thread.
pub(crate) fn run_server<C: Clock, E>(
    clock: &C,
    feed: &Feed,
    sender: &mut BlockSender<ScheduledQuery, E>,
    mut query: impl FnMut() -> Result<(), E>,
) -> Result<(), E> {
    let origin = feed.wait_for_start();
    let maximum = origin.saturating_add(feed.maximum_ns);
    let mut held: Option<Ticket> = None;
    loop {
        let resumed = clock.now();
        if resumed >= maximum || held.is_some_and(|ticket| ticket.index >= feed.end()) {
            return Ok(());
        }
        let end = resumed.saturating_add(feed.longest_block_ns).min(maximum);
        let (count, after) =
            serve_block(clock, feed, origin, (resumed, end), held, &mut sender.buffer, &mut query);
        // An empty block says that this server is waiting.
        sender.give(count);
        match after {
            After::Block(ticket) => held = ticket,
            After::Schedule => return Ok(()),
            After::Failure(error) => return Err(error),
        }
    }
}

/// Reason for the end of a server's block.
enum After<E> {
    /// The block was full, or its time was over. Holds a ticket that was taken before it was due, if any.
    Block(Option<Ticket>),
    /// The schedule's end.
    Schedule,
    /// The target.
    Failure(E),
}

/// Times queries as they come from the feed from `last` on, the last reading, until the buffer is
/// full or `end` is reached.
#[inline(always)]
fn serve_block<E>(
    clock: &impl Clock,
    feed: &Feed,
    origin: u64,
    (mut last, end): (u64, u64),
    mut held: Option<Ticket>,
    queries: &mut [ScheduledQuery],
    query: &mut impl FnMut() -> Result<(), E>,
) -> (usize, After<E>) {
    for (count, slot) in queries.iter_mut().enumerate() {
        let Some(ticket) = held.take().or_else(|| feed.take()) else {
            return (count, After::Schedule);
        };
        let scheduled_ns = origin.saturating_add(ticket.offset_ns);
        if last < scheduled_ns {
            last = clock.wait_until(scheduled_ns.min(end));
            if last < scheduled_ns {
                return (count, After::Block(Some(ticket)));
            }
        }
        let begun_ns = last;
        if let Err(error) = query() {
            return (count, After::Failure(error));
        }
        last = clock.now();
        *slot = ScheduledQuery { scheduled_ns, begun_ns, ended_ns: last };
        if last >= end || last < begun_ns {
            return (count + 1, After::Block(None));
        }
    }
    (queries.len(), After::Block(None))
}

/// Fills the feed of several servers, takes their blocks, and decides when there are enough.
pub(crate) struct Host<'a, C, O> {
    clock: &'a C,
    feed: &'a Feed,
    observer: &'a mut O,
    goal: Goal,
    schedule: Schedule,
    demand: Demand,
    pace: PaceKeeper,
    origin: u64,
    summary: Summary,
    /// For each server, its last reading, and when it would have been free with a generator that is
    /// never late, in nanoseconds from the schedule's start.
    servers: Vec<(u64, u64)>,
}

impl<'a, C: Clock, O: Observer> Host<'a, C, O> {
    pub(crate) fn new(
        clock: &'a C,
        feed: &'a Feed,
        arrivals: Arrivals,
        rule: &StopRule,
        observer: &'a mut O,
    ) -> Self {
        let mut host = Self {
            clock,
            feed,
            observer,
            goal: Goal::new(rule),
            schedule: Schedule::new(arrivals),
            demand: Demand::default(),
            pace: PaceKeeper::new(arrivals),
            origin: 0,
            summary: Summary::default(),
            servers: Vec::new(),
        };
        host.judge();
        host.fill();
        host
    }

    /// Starts the schedule once all servers are there.
    pub(crate) fn start(&mut self) {
        self.origin = self.feed.begin(|| self.clock.now());
        self.servers = vec![(self.origin, 0); self.feed.servers];
    }

    /// Publishes as many times as there is room for. With a judge the schedule goes on until it has
    /// enough; without one its end is known.
    fn fill(&mut self) {
        let Self { feed, observer, goal, schedule, demand, .. } = self;
        let judged = observer.judges();
        feed.fill(|| {
            if !judged && !demand.wants(goal) {
                feed.end_at(demand.queries);
                return None;
            }
            let time = schedule.advance();
            demand.takes(goal, time);
            Some(time)
        });
    }

    fn judge(&mut self) {
        let Self { observer, goal, summary, .. } = self;
        if observer.judges() && !summary.enough && goal.is_reached(summary) {
            summary.enough = goal.is_enough(summary, *observer);
            if summary.enough {
                self.feed.end_now();
            }
        }
    }

    pub(crate) fn take<E>(
        &mut self,
        lane: u32,
        queries: &[ScheduledQuery],
    ) -> Result<(), MeasureError<E, O::Error>> {
        // First of all, since servers may be about to run out.
        self.fill();
        let (last, free) = &mut self.servers[lane as usize];
        in_order(std::iter::once(*last).chain(readings(queries)))?;
        self.pace.add(self.origin, free, queries);
        if let Some(query) = queries.last() {
            *last = query.ended_ns;
        }
        let block = Block { lane, times: Times::Scheduled(queries) };
        self.observer.block(block).map_err(MeasureError::Sink)?;
        self.summary.queries += queries.len() as u64;
        self.summary.timed_ns = self.pace.last_ended();
        self.summary.elapsed_ns = between(self.origin, self.clock.now())?;
        self.judge();
        Ok(())
    }

    pub(crate) fn finish(mut self, maximum_ns: u64) -> Result<Summary, WentBack> {
        self.summary.elapsed_ns = between(self.origin, self.clock.now())?;
        self.summary.enough |= self.summary.queries == self.feed.end();
        let cut = (!self.summary.enough).then_some(maximum_ns);
        self.summary.pace = Some(self.pace.finish(cut));
        Ok(self.summary)
    }
}
