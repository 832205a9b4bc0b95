//! Several targets at once, each on a thread of its own.
//!
//! A lane is such a thread with its target. It writes into one of two buffers of its own and
//! hands it over when it is full; the caller's thread gives it to the observer meanwhile. A lane
//! waits only where both its buffers are still with the caller, and an open loop shows that wait
//! as lateness of its generator.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::block::ScheduledQuery;
use crate::clock::Clock;
use crate::closed::{self, Gate};
use crate::error::MeasureError;
use crate::feed::Feed;
use crate::meter::{Scenario, Target, run_burst};
use crate::open;
use crate::schedule::Arrivals;
use crate::stop::{Goal, Observer, StopRule, Summary};

/// Lengths of buffers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) edges: usize,
    pub(crate) queries: usize,
    pub(crate) longest_block_ns: u64,
}

/// Threads with a target each, for the loops with several clients or servers.
#[derive(Debug)]
pub struct Crew<'a, C, E> {
    clock: &'a C,
    sizes: Sizes,
    lanes: Vec<Sender<Job<E>>>,
}

/// What a lane is to do next.
#[derive(Debug)]
enum Job<E> {
    Client(Arc<Gate>, Option<u64>, Hand<u64, E>),
    Server(Arc<Feed>, Hand<ScheduledQuery, E>),
}

/// What a lane says.
#[derive(Debug)]
enum Message<R, E> {
    Block { lane: u32, buffer: Box<[R]>, count: usize },
    Failed(E),
    Ended { panicked: bool },
}

/// A lane's end of the way that its blocks take.
#[derive(Debug)]
pub(crate) struct Hand<R, E> {
    lane: u32,
    pub(crate) buffer: Box<[R]>,
    full: Sender<Message<R, E>>,
    empty: Receiver<Box<[R]>>,
}

impl<R, E> Hand<R, E> {
    /// Hands over the first `count` entries of the buffer and goes on with an empty one.
    pub(crate) fn give(&mut self, count: usize) {
        // The caller's thread outlives the loop: neither channel is closed before this ends.
        if let Ok(next) = self.empty.recv() {
            let buffer = std::mem::replace(&mut self.buffer, next);
            let _ = self.full.send(Message::Block { lane: self.lane, buffer, count });
        }
    }
}

impl<R, E> Drop for Hand<R, E> {
    fn drop(&mut self) {
        let _ = self.full.send(Message::Ended { panicked: thread::panicking() });
    }
}

/// The caller's end.
struct Desk<R, E> {
    full: Receiver<Message<R, E>>,
    empty: Vec<Sender<Box<[R]>>>,
}

/// Both ends for each lane, with buffers that are touched.
fn desk<R: Copy, E>(lanes: usize, length: usize, fill: R) -> (Desk<R, E>, Vec<Hand<R, E>>) {
    let (sender, full) = channel();
    let buffer = || vec![fill; length].into_boxed_slice();
    let (empty, hands) = (0..lanes as u32)
        .map(|lane| {
            let (give_back, empty) = channel();
            let _ = give_back.send(buffer());
            (give_back, Hand { lane, buffer: buffer(), full: sender.clone(), empty })
        })
        .unzip();
    (Desk { full, empty }, hands)
}

impl<R, E> Desk<R, E> {
    /// Takes blocks until every lane has ended. After a failure of a target, blocks of queries
    /// that ended are still taken; after any other, nothing is.
    fn take_all<S>(
        self,
        mut take: impl FnMut(u32, &[R]) -> Result<(), MeasureError<E, S>>,
        stop: impl Fn(),
        lane_ended: impl Fn(),
    ) -> Result<(), MeasureError<E, S>> {
        let Self { full, empty } = self;
        let mut failure = None;
        let mut panicked_target = false;
        for message in full {
            match message {
                Message::Block { lane, buffer, count } => {
                    if !matches!(
                        failure,
                        Some(MeasureError::Sink(_) | MeasureError::ClockWentBack { .. })
                    ) && let Err(error) = take(lane, &buffer[..count])
                    {
                        stop();
                        failure = Some(error);
                    }
                    // A lane that has ended needs no buffer.
                    let _ = empty[lane as usize].send(buffer);
                }
                Message::Failed(error) => {
                    stop();
                    failure.get_or_insert(MeasureError::Target(error));
                }
                Message::Ended { panicked: true } => {
                    stop();
                    panicked_target = true;
                }
                Message::Ended { panicked: false } => lane_ended(),
            }
        }
        assert!(!panicked_target, "a target panicked");
        failure.map_or(Ok(()), Err)
    }
}

/// Starts the lanes, calls `body`, and ends them.
pub(crate) fn with<C: Clock + Sync, T: Target<Error: Send>, R>(
    clock: &C,
    lanes: NonZeroU32,
    sizes: Sizes,
    make: impl Fn(u32) -> Result<T, T::Error> + Sync,
    body: impl FnOnce(&mut Crew<'_, C, T::Error>) -> R,
) -> Result<R, T::Error> {
    let make = &make;
    thread::scope(|scope| {
        let (ready, made) = channel();
        let lanes = (0..lanes.get())
            .map(|lane| {
                let (sender, jobs) = channel();
                let ready = ready.clone();
                scope.spawn(move || {
                    let result = make(lane).map(|mut target| {
                        let _ = ready.send(Ok(()));
                        for job in jobs {
                            work(clock, job, &mut target);
                        }
                    });
                    if let Err(error) = result {
                        let _ = ready.send(Err(error));
                    }
                });
                sender
            })
            .collect::<Vec<_>>();
        for _ in &lanes {
            made.recv().expect("this thread has a sender")?;
        }
        Ok(body(&mut Crew { clock, sizes, lanes }))
    })
}

fn work<C: Clock, T: Target>(clock: &C, job: Job<T::Error>, target: &mut T) {
    match job {
        Job::Client(gate, burst, mut hand) => {
            let result = match burst {
                None => closed::run_client(clock, &gate, &mut hand, || target.run()),
                Some(batches) => {
                    closed::run_client(clock, &gate, &mut hand, || run_burst(target, batches))
                }
            };
            if let Err(error) = result {
                let _ = hand.full.send(Message::Failed(error));
            }
        }
        Job::Server(feed, mut hand) => {
            if let Err(error) = open::run_server(clock, &feed, &mut hand, || target.run()) {
                let _ = hand.full.send(Message::Failed(error));
            }
        }
    }
}

impl<C: Clock, E> Crew<'_, C, E> {
    /// Queries all targets until `rule` is satisfied, and the observer if it judges.
    ///
    /// In an open loop they are the servers of one queue: whichever is free takes the next
    /// scheduled query, in the order of the schedule. In a closed loop each is asked by a client
    /// of its own, and the rule's number of queries is that of all clients together, which may
    /// overshoot it by a query each.
    ///
    /// Blocks of different lanes come in no particular order. Unlike [`crate::Meter::run`], this
    /// does not stop the clock for the observer: it runs beside the lanes, and wants a core.
    ///
    /// # Errors
    ///
    /// Where a target or the observer fail, or the clock goes back.
    ///
    /// # Panics
    ///
    /// Where a target does, once the other lanes have stopped.
    pub fn run<O: Observer>(
        &mut self,
        scenario: Scenario,
        rule: &StopRule,
        observer: &mut O,
    ) -> Result<Summary, MeasureError<E, O::Error>> {
        match scenario.arrivals() {
            Some(arrivals) => self.run_servers(arrivals, rule, observer),
            None => self.run_clients(scenario.burst(), rule, observer),
        }
    }

    fn run_clients<O: Observer>(
        &mut self,
        burst: Option<u64>,
        rule: &StopRule,
        observer: &mut O,
    ) -> Result<Summary, MeasureError<E, O::Error>> {
        let mut goal = Goal::new(rule);
        let nothing = Summary::default();
        if goal.is_reached(&nothing) && goal.is_enough(&nothing, observer) {
            return Ok(Summary { enough: true, ..nothing });
        }
        let lanes = self.lanes.len();
        let gate = Arc::new(Gate::new(lanes as u32, self.sizes.longest_block_ns, rule, goal));
        let (desk, hands) = desk(lanes, self.sizes.edges, u64::MAX);
        let mut host = closed::Host::new(self.clock, &gate, goal, observer);
        self.send(hands, |hand| Job::Client(gate.clone(), burst, hand));
        // A client that has ended has run into the maximum, or was told to: nobody waits for it.
        desk.take_all(|lane, edges| host.take(lane, edges), || gate.stop(), || gate.stop())?;
        Ok(host.finish())
    }

    fn run_servers<O: Observer>(
        &mut self,
        arrivals: Arrivals,
        rule: &StopRule,
        observer: &mut O,
    ) -> Result<Summary, MeasureError<E, O::Error>> {
        let lanes = self.lanes.len();
        let feed =
            Arc::new(Feed::new(lanes, self.sizes.queries, self.sizes.longest_block_ns, rule));
        let (desk, hands) = desk(lanes, self.sizes.queries, ScheduledQuery::default());
        let mut host = open::Host::new(self.clock, &feed, arrivals, rule, observer);
        self.send(hands, |hand| Job::Server(feed.clone(), hand));
        host.start();
        desk.take_all(|lane, queries| host.take(lane, queries), || feed.end_at(0), || ())?;
        Ok(host.finish(rule.maximum_ns)?)
    }

    fn send<R>(&self, hands: Vec<Hand<R, E>>, mut job: impl FnMut(Hand<R, E>) -> Job<E>) {
        for (lane, hand) in self.lanes.iter().zip(hands) {
            lane.send(job(hand)).ok().expect("a lane lives as long as its crew");
        }
    }
}
