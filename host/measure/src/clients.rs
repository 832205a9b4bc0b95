//! A closed loop with several clients, each on a thread of its own.

use std::sync::{Barrier, Condvar, Mutex, MutexGuard, PoisonError};

use crate::block::{Block, Times};
use crate::clock::Clock;
use crate::closed::{Missing, at_most, missing, time_block};
use crate::error::{MeasureError, between, in_order};
use crate::lane_channel::BlockSender;
use crate::stop::{Goal, Observer, StopRule, Summary};

/// Shared state of clients on threads of their own. It is accessed between blocks only.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
    start: Barrier,
    clients: u32,
    pub(crate) longest_block_ns: u64,
    pub(crate) maximum_ns: u64,
}

#[derive(Debug)]
struct State {
    goal: Goal,
    /// Queries made, and those that a client has yet to make or to give up.
    queries: u64,
    /// Nobody begins another block.
    stopped: bool,
    /// A client has reached the maximum, so no client needs to wait for a decision.
    left: bool,
}

/// Size of a client's next block.
#[derive(Debug, Clone, Copy)]
struct Share {
    budget_ns: u64,
    limit: usize,
    /// Queries that the others count on.
    promised: u64,
}

impl Gate {
    pub(crate) fn new(clients: u32, longest_block_ns: u64, rule: &StopRule, goal: Goal) -> Self {
        Self {
            state: Mutex::new(State { goal, queries: 0, stopped: false, left: false }),
            changed: Condvar::new(),
            start: Barrier::new(clients as usize),
            clients,
            longest_block_ns,
            maximum_ns: rule.maximum_ns,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is consistent at any time, even after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stop(&self) {
        self.state().stopped = true;
        self.changed.notify_all();
    }

    /// Records that a client has ended.
    pub(crate) fn leave(&self) {
        self.state().left = true;
        self.changed.notify_all();
    }

    fn raise(&self, goal: Goal) {
        self.state().goal = goal;
        self.changed.notify_all();
    }

    /// Returns a client's next share, half of a fair one so that all end at about the same time.
    /// A client for which nothing is left waits here until it is decided whether that is enough;
    /// `None` if it is.
    fn next(&self, timed_ns: u64, budget_ns: u64, limit: usize) -> Option<Share> {
        let nothing = Missing::Queries(0);
        let mut state = self
            .changed
            .wait_while(self.state(), |state| {
                let missing = missing(&state.goal, timed_ns, state.queries);
                !state.stopped && !state.left && missing == nothing
            })
            .unwrap_or_else(PoisonError::into_inner);
        let missing = missing(&state.goal, timed_ns, state.queries);
        if state.stopped || missing == nothing {
            return None;
        }
        Some(match missing {
            Missing::Time(time_ns) => {
                Share { budget_ns: budget_ns.min(time_ns), limit, promised: 0 }
            }
            Missing::Queries(queries) => {
                let limit = at_most(queries.div_ceil(2 * u64::from(self.clients)), limit);
                let promised = limit as u64;
                state.queries += promised;
                Share { budget_ns, limit, promised }
            }
        })
    }

    /// Records a client's queries, some of which were promised.
    fn made(&self, queries: u64, promised: u64) {
        let mut state = self.state();
        state.queries = state.queries - promised + queries;
        if queries < promised {
            self.changed.notify_all();
        }
    }
}

/// Runs one client of several, on its own thread.
pub(crate) fn run_client<C: Clock, E>(
    clock: &C,
    gate: &Gate,
    sender: &mut BlockSender<u64, E>,
    mut query: impl FnMut() -> Result<(), E>,
) -> Result<(), E> {
    gate.start.wait();
    let origin = clock.now();
    let mut timed_ns = 0;
    loop {
        let remaining_ns = gate.maximum_ns.saturating_sub(clock.now().saturating_sub(origin));
        if remaining_ns == 0 {
            return Ok(());
        }
        let budget_ns = gate.longest_block_ns.min(remaining_ns);
        let Some(share) = gate.next(timed_ns, budget_ns, sender.buffer.len() - 1) else {
            return Ok(());
        };
        let edges = &mut sender.buffer[..=share.limit];
        let (count, result) = time_block(clock, edges, share.budget_ns, &mut query);
        // A clock that went back is detected when the block is taken.
        timed_ns += edges[count].saturating_sub(edges[0]);
        if count > 0 {
            sender.give(count + 1);
        }
        gate.made(count as u64, share.promised);
        result?;
    }
}

/// Takes the blocks of several clients and decides when there are enough.
pub(crate) struct Host<'a, C, O> {
    clock: &'a C,
    gate: &'a Gate,
    observer: &'a mut O,
    goal: Goal,
    origin: u64,
    summary: Summary,
    /// For each client, its time in queries and its last reading.
    clients: Vec<(u64, u64)>,
}

impl<'a, C: Clock, O: Observer> Host<'a, C, O> {
    pub(crate) fn new(clock: &'a C, gate: &'a Gate, goal: Goal, observer: &'a mut O) -> Self {
        let clients = vec![(0, 0); gate.clients as usize];
        let origin = clock.now();
        Self { clock, gate, observer, goal, origin, summary: Summary::default(), clients }
    }

    pub(crate) fn take<E>(
        &mut self,
        lane: u32,
        edges: &[u64],
    ) -> Result<(), MeasureError<E, O::Error>> {
        let (timed_ns, last) = &mut self.clients[lane as usize];
        in_order(std::iter::once(*last).chain(edges.iter().copied()))?;
        let [first, .., end] = edges else { return Ok(()) };
        *timed_ns += end - first;
        *last = *end;
        let block = Block { lane, times: Times::Chain(edges) };
        self.observer.block(block).map_err(MeasureError::Sink)?;

        let Self { summary, goal, .. } = self;
        summary.queries += edges.len() as u64 - 1;
        summary.timed_ns = self.clients.iter().map(|(timed_ns, _)| *timed_ns).min().unwrap_or(0);
        summary.elapsed_ns = between(self.origin, self.clock.now())?;
        if !summary.enough && goal.is_reached(summary) {
            summary.enough = goal.is_enough(summary, self.observer);
            if summary.enough {
                self.gate.stop();
            } else {
                self.gate.raise(*goal);
            }
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Summary {
        self.summary
    }
}
