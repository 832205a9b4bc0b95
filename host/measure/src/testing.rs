//! Clocks that move only when told to, and targets that take a given time on them.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Condvar, Mutex, MutexGuard};

use host_record::Rate;

use crate::block::{Block, ScheduledQuery, Times};
use crate::clock::Clock;
use crate::stop::{Observer, StopRule, Summary};
use crate::target::Target;

pub(crate) const NO_LIMIT: u64 = u64::MAX;

/// A clock that moves only when told to, and immediately when it is waited for.
#[derive(Default)]
pub(crate) struct VirtualClock(pub(crate) Cell<u64>);

impl VirtualClock {
    pub(crate) fn pass(&self, time: i64) {
        self.0.set(self.0.get().wrapping_add_signed(time));
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> u64 {
        self.0.get()
    }

    fn wait_until(&self, deadline_ns: u64) -> u64 {
        self.0.set(self.0.get().max(deadline_ns));
        self.0.get()
    }
}

/// A target that takes the given times in turn, and then fails.
pub(crate) struct Steps<'a> {
    clock: &'a VirtualClock,
    steps: Box<dyn Iterator<Item = Option<i64>> + 'a>,
    pub(crate) runs: u64,
    pub(crate) enqueued: u64,
    pub(crate) waits: u64,
}

impl<'a> Steps<'a> {
    pub(crate) fn new(
        clock: &'a VirtualClock,
        steps: impl IntoIterator<Item = Option<i64>, IntoIter: 'a>,
    ) -> Self {
        let steps = Box::new(steps.into_iter());
        Self { clock, steps, runs: 0, enqueued: 0, waits: 0 }
    }

    pub(crate) fn constant(clock: &'a VirtualClock, step: i64) -> Self {
        Self::new(clock, std::iter::repeat(Some(step)))
    }

    fn step(&mut self) -> Result<(), &'static str> {
        let step = self.steps.next().flatten().ok_or("broken")?;
        self.clock.pass(step);
        Ok(())
    }
}

impl Target for Steps<'_> {
    type Error = &'static str;

    fn run(&mut self) -> Result<(), Self::Error> {
        self.runs += 1;
        self.step()
    }

    fn enqueue(&mut self) -> Result<(), Self::Error> {
        self.enqueued += 1;
        Ok(())
    }

    fn synchronise(&mut self) -> Result<(), Self::Error> {
        self.waits += 1;
        self.step()
    }
}

pub(crate) fn rule(minimum_ns: u64, minimum_queries: u64, maximum_ns: u64) -> StopRule {
    StopRule { minimum_ns, minimum_queries, maximum_ns }
}

pub(crate) fn rate(queries_per_second: f64) -> Rate {
    Rate::per_second(queries_per_second).expect("a rate")
}

/// Keeps the blocks of closed loops.
pub(crate) fn keep(
    blocks: &mut Vec<Vec<u64>>,
) -> impl FnMut(Block<'_>) -> Result<(), Infallible> + '_ {
    |block: Block<'_>| {
        let Times::Chain(edges) = block.times else { panic!("not a closed loop") };
        blocks.push(edges.to_vec());
        Ok(())
    }
}

/// Keeps the queries of open loops with their lanes.
pub(crate) fn keep_queries(
    queries: &mut Vec<(u32, ScheduledQuery)>,
) -> impl FnMut(Block<'_>) -> Result<(), Infallible> + '_ {
    |block: Block<'_>| {
        let Times::Scheduled(block_queries) = block.times else { panic!("not an open loop") };
        queries.extend(block_queries.iter().map(|query| (block.lane, *query)));
        Ok(())
    }
}

/// A judge who has enough at a given number of queries, and remembers when it was asked.
#[derive(Default)]
pub(crate) struct Judge {
    pub(crate) enough_at: u64,
    pub(crate) asked_at: Vec<u64>,
    pub(crate) seen: u64,
}

impl Observer for Judge {
    type Error = Infallible;

    fn block(&mut self, block: Block<'_>) -> Result<(), Infallible> {
        self.seen += block.times.len() as u64;
        Ok(())
    }

    fn judges(&self) -> bool {
        true
    }

    fn enough(&mut self, so_far: &Summary) -> bool {
        assert_eq!(so_far.queries, self.seen);
        self.asked_at.push(so_far.queries);
        so_far.queries >= self.enough_at
    }
}

/// One virtual time for several servers on threads of their own: it moves on to the next event
/// once every server waits for one, so only one of them runs at a time.
pub(crate) struct SharedClock {
    state: Mutex<SharedState>,
    changed: Condvar,
}

struct SharedState {
    now: u64,
    /// Servers that may still wait for something.
    servers: usize,
    /// Queries that have not begun.
    unbegun: usize,
    /// Waits: time, order of the request, and whether it is a scheduled
    /// time (or the end of a query).
    waits: BTreeSet<(u64, u64, bool)>,
    asked: u64,
}

impl SharedClock {
    /// Creates a clock for `servers` servers, which make `queries` queries. There must be at least
    /// as many queries as servers.
    pub(crate) fn new(servers: usize, queries: usize) -> Self {
        let waits = BTreeSet::new();
        let state = SharedState { now: 0, servers, unbegun: queries, waits, asked: 0 };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn wait(&self, mut state: MutexGuard<'_, SharedState>, time: u64, scheduled: bool) -> u64 {
        if time <= state.now {
            return state.now;
        }
        state.asked += 1;
        let wait = (time, state.asked, scheduled);
        state.waits.insert(wait);
        self.changed.notify_all();
        let mut state = self
            .changed
            .wait_while(state, |state| {
                state.waits.len() < state.servers || state.waits.first() != Some(&wait)
            })
            .expect("nobody panics");
        state.waits.pop_first();
        state.now = time;
        time
    }

    /// Simulates a query that takes so long.
    fn serve(&self, service_ns: u64) {
        let mut state = self.state.lock().expect("nobody panics");
        state.unbegun -= 1;
        let end = state.now + service_ns;
        self.wait(state, end, false);
        // Where each query that has not begun is held by a server that waits for its time, there
        // is none left for this server, which is not heard of again.
        let mut state = self.state.lock().expect("nobody panics");
        if state.unbegun <= state.waits.iter().filter(|(_, _, scheduled)| *scheduled).count() {
            state.servers -= 1;
            // Its time stands still from now on, independent of the others'.
            LEFT_AT.set(Some(state.now));
            self.changed.notify_all();
        }
    }
}

impl Clock for SharedClock {
    fn now(&self) -> u64 {
        LEFT_AT.get().unwrap_or_else(|| self.state.lock().expect("nobody panics").now)
    }

    fn wait_until(&self, deadline_ns: u64) -> u64 {
        let state = self.state.lock().expect("nobody panics");
        self.wait(state, deadline_ns, true)
    }
}

/// A server whose queries each take the same time on a shared clock.
pub(crate) struct Server<'a> {
    pub(crate) clock: &'a SharedClock,
    pub(crate) service_ns: u64,
}

impl Target for Server<'_> {
    type Error = Infallible;

    fn run(&mut self) -> Result<(), Infallible> {
        self.clock.serve(self.service_ns);
        Ok(())
    }
}

thread_local! {
    /// Time at which this server ended.
    static LEFT_AT: Cell<Option<u64>> = const { Cell::new(None) };
    static OWN_TIME: Cell<u64> = const { Cell::new(0) };
}

/// A virtual clock that is separate on each thread: for independent clients.
pub(crate) struct OwnClock;

impl OwnClock {
    pub(crate) fn pass(time_ns: u64) {
        OWN_TIME.set(OWN_TIME.get().wrapping_add(time_ns));
    }
}

impl Clock for OwnClock {
    fn now(&self) -> u64 {
        OWN_TIME.get()
    }

    fn wait_until(&self, deadline_ns: u64) -> u64 {
        OWN_TIME.set(OWN_TIME.get().max(deadline_ns));
        OWN_TIME.get()
    }
}
