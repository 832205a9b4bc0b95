//! Several targets at once, each on a thread of its own.
//!
//! A lane is such a thread with its target. It writes into one of its two buffers and
//! hands it over when it is full; the caller's thread passes it to the observer meanwhile. A lane
//! waits only if the caller still has both its buffers, and an open loop shows that wait
//! as lateness of its generator.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use crate::block::ScheduledQuery;
use crate::clients::{self, Gate};
use crate::clock::Clock;
use crate::error::MeasureError;
use crate::feed::Feed;
use crate::lane_channel::{BlockSender, channels};
use crate::pattern::Pattern;
use crate::schedule::Arrivals;
use crate::servers;
use crate::stop::{Goal, Observer, StopRule, Summary};
use crate::target::{Target, run_burst};

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

/// Next job of a lane.
#[derive(Debug)]
enum Job<E> {
    Client(Arc<Gate>, Option<u64>, BlockSender<u64, E>),
    Server(Arc<Feed>, BlockSender<ScheduledQuery, E>),
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
                let serve = move || {
                    let result = make(lane).map(|mut target| {
                        let _ = ready.send(Ok(()));
                        for job in jobs {
                            work(clock, job, &mut target);
                        }
                        target.end();
                    });
                    if let Err(error) = result {
                        let _ = ready.send(Err(error));
                    }
                };
                scope.spawn(move || T::on_thread(serve));
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
        Job::Client(gate, burst, mut sender) => {
            let result = match burst {
                None => clients::run_client(clock, &gate, &mut sender, || target.run()),
                Some(batches) => {
                    clients::run_client(clock, &gate, &mut sender, || run_burst(target, batches))
                }
            };
            if let Err(error) = result {
                sender.fail(error);
            }
        }
        Job::Server(feed, mut sender) => {
            if let Err(error) = servers::run_server(clock, &feed, &mut sender, || target.run()) {
                sender.fail(error);
            }
        }
    }
}

impl<C: Clock, E> Crew<'_, C, E> {
    /// Queries all targets until `rule` is satisfied, and the observer if it judges.
    ///
    /// In an open loop they are the servers of one queue: the next free one takes the next
    /// scheduled query, in the order of the schedule. In a closed loop each has a client
    /// of its own; the rule's number of queries is that of all clients together, and its time that
    /// of each.
    ///
    /// Blocks of different lanes come in no particular order. Unlike [`crate::Meter::run`], this
    /// does not stop the clock for the observer: it runs beside the lanes, and needs a core.
    ///
    /// # Errors
    ///
    /// If a target or the observer fails, or the clock goes back.
    ///
    /// # Panics
    ///
    /// If a target does, once the other lanes have stopped.
    pub fn run<O: Observer>(
        &mut self,
        pattern: Pattern,
        rule: &StopRule,
        observer: &mut O,
    ) -> Result<Summary, MeasureError<E, O::Error>> {
        match pattern.arrivals() {
            Some(arrivals) => self.run_servers(arrivals, rule, observer),
            None => self.run_clients(pattern.burst(), rule, observer),
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
        let (receiver, senders) = channels(lanes, self.sizes.edges, u64::MAX);
        let mut host = clients::Host::new(self.clock, &gate, goal, observer);
        self.send(senders, |sender| Job::Client(gate.clone(), burst, sender));
        receiver.take_all(|lane, edges| host.take(lane, edges), || gate.stop(), || gate.leave())?;
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
        let (receiver, senders) = channels(lanes, self.sizes.queries, ScheduledQuery::default());
        let mut host = servers::Host::new(self.clock, &feed, arrivals, rule, observer);
        self.send(senders, |sender| Job::Server(feed.clone(), sender));
        host.start();
        receiver.take_all(|lane, queries| host.take(lane, queries), || feed.end_at(0), || ())?;
        Ok(host.finish(rule.maximum_ns)?)
    }

    fn send<R>(
        &self,
        senders: Vec<BlockSender<R, E>>,
        mut job: impl FnMut(BlockSender<R, E>) -> Job<E>,
    ) {
        for (lane, sender) in self.lanes.iter().zip(senders) {
            let sent = lane.send(job(sender));
            assert!(sent.is_ok(), "a lane lives as long as its crew");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::block::{Block, Times};
    use crate::testing::{
        Judge, NO_LIMIT, OwnClock, Server, SharedClock, keep_queries, rate, rule,
    };
    use crate::{Meter, SystemClock};

    fn lanes(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).expect("a count")
    }

    /// Serves `queries` that come by `pattern`, with a service time for each server; gives them
    /// in the order of the schedule.
    fn serve(
        pattern: Pattern,
        service_ns: &[u64],
        queries: u64,
    ) -> (Vec<(u32, ScheduledQuery)>, Summary) {
        let clock = SharedClock::new(service_ns.len(), queries as usize);
        let mut seen = Vec::new();
        let summary = Meter::new(&clock, 64, NO_LIMIT)
            .with_crew(
                lanes(service_ns.len() as u32),
                |lane| Ok(Server { clock: &clock, service_ns: service_ns[lane as usize] }),
                |crew| crew.run(pattern, &rule(0, queries, NO_LIMIT), &mut keep_queries(&mut seen)),
            )
            .expect("targets are made")
            .expect("nothing fails");
        assert_eq!((summary.queries, summary.enough), (queries, true));
        for lane in 0..service_ns.len() as u32 {
            let of_lane = seen.iter().filter(|(other, _)| *other == lane);
            assert!(of_lane.is_sorted_by_key(|(_, query)| query.begun_ns));
        }
        seen.sort_by_key(|(_, query)| (query.scheduled_ns, query.begun_ns));
        (seen, summary)
    }

    #[test]
    fn whichever_server_is_free_takes_the_next_query() {
        // A query each 10 ns, which takes 25: three servers keep up, two do not.
        let pattern = Pattern::ConstantRate { rate: rate(1e8) };
        let (queries, summary) = serve(pattern, &[25; 3], 100);
        for (index, (_, query)) in queries.iter().enumerate() {
            let scheduled_ns = index as u64 * 10;
            let (begun_ns, ended_ns) = (scheduled_ns, scheduled_ns + 25);
            assert_eq!(*query, ScheduledQuery { scheduled_ns, begun_ns, ended_ns });
        }
        let lateness = summary.pace.and_then(|pace| pace.lateness).expect("there were queries");
        assert_eq!(lateness.maximum_ns, 0);

        let (queries, summary) = serve(pattern, &[25; 2], 100);
        for (index, (_, query)) in queries.iter().enumerate() {
            // Each pair of queries begins when the pair before has ended.
            let index = index as u64;
            let begun_ns = index / 2 * 25 + index % 2 * 10;
            let expected =
                ScheduledQuery { scheduled_ns: index * 10, begun_ns, ended_ns: begun_ns + 25 };
            assert_eq!(*query, expected);
        }
        let pace = summary.pace.expect("an open loop has a pace");
        assert_eq!(pace.offered_per_second, Some(1e8));
        assert!(pace.achieved_per_second.is_some_and(|rate| rate < 0.82e8), "{pace:?}");
        assert_eq!(pace.lateness.map(|late| late.maximum_ns), Some(0));
    }

    /// The times of a queue with several unlike servers follow the recursion of Kiefer and
    /// Wolfowitz: the next query goes to the server that is free first.
    #[test]
    fn a_queue_with_several_servers_is_first_come_first_served() {
        const SERVICE_NS: [u64; 3] = [1000; 3];
        let pattern = Pattern::Server { rate: rate(0.9 * 3e6), seed: 7 };
        let (queries, _) = serve(pattern, &SERVICE_NS, 5000);
        let mut free_at = [0_u64; 3];
        for (_, query) in &queries {
            let first = free_at.iter_mut().min().expect("there are servers");
            assert_eq!(query.begun_ns, query.scheduled_ns.max(*first));
            assert_eq!(query.ended_ns, query.begun_ns + 1000);
            *first = query.ended_ns;
        }
        assert!(queries.is_sorted_by_key(|(_, query)| query.begun_ns));
        let due = crate::Schedule::new(pattern.arrivals().expect("an open loop")).take(5000);
        assert!(due.eq(queries.iter().map(|(_, query)| query.scheduled_ns)), "none is lost");
    }

    /// A client's target: takes its time, and fails after some queries.
    struct Client {
        service_ns: u64,
        left: u64,
    }

    impl Target for Client {
        type Error = &'static str;

        fn run(&mut self) -> Result<(), Self::Error> {
            self.left = self.left.checked_sub(1).ok_or("broken")?;
            OwnClock::pass(self.service_ns);
            Ok(())
        }
    }

    #[test]
    fn each_client_issues_when_its_last_query_is_done() {
        let mut seen = [Vec::new(), Vec::new(), Vec::new()];
        let mut sink = |block: Block<'_>| {
            let Times::Chain(edges) = block.times else { panic!("not a closed loop") };
            seen[block.lane as usize].push(edges.to_vec());
            Ok::<_, Infallible>(())
        };
        let summary = Meter::new(&OwnClock, 8, NO_LIMIT)
            .with_crew(
                lanes(3),
                |lane| Ok(Client { service_ns: 10 * u64::from(lane + 1), left: u64::MAX }),
                |crew| crew.run(Pattern::ClosedLoop, &rule(600, 20, NO_LIMIT), &mut sink),
            )
            .expect("targets are made")
            .expect("nothing fails");
        assert!(summary.enough && summary.timed_ns >= 600, "{summary:?}");
        let mut queries = 0;
        for (blocks, service_ns) in seen.iter().zip([10, 20, 30]) {
            let mut last = 0;
            for edges in blocks {
                assert_eq!(edges[0], last, "no time passes between blocks here");
                assert!(edges.windows(2).all(|pair| pair[1] - pair[0] == service_ns));
                last = *edges.last().expect("a block is not empty");
                queries += edges.len() as u64 - 1;
            }
            assert_eq!(last, 600, "every client goes on for the whole time");
        }
        assert_eq!(summary.queries, queries);
        assert_eq!(queries, 60 + 30 + 20);
    }

    #[test]
    fn clients_share_the_number_of_queries() {
        for judge_at in [0, 400] {
            let mut judge = Judge { enough_at: judge_at, ..Judge::default() };
            let summary = Meter::new(&OwnClock, 8, NO_LIMIT)
                .with_crew(
                    lanes(4),
                    |_| Ok(Client { service_ns: 10, left: u64::MAX }),
                    |crew| crew.run(Pattern::ClosedLoop, &rule(0, 100, NO_LIMIT), &mut judge),
                )
                .expect("targets are made")
                .expect("nothing fails");
            assert!(summary.enough);
            assert_eq!(summary.queries, judge.seen);
            let expected: &[u64] =
                if judge_at == 0 { &[100] } else { &[100, 125, 156, 195, 243, 303, 378, 472] };
            assert_eq!(judge.asked_at, expected);
        }
    }

    #[test]
    fn a_client_that_fails_stops_the_others_and_what_ended_is_kept() {
        let mut queries = 0;
        let mut sink = |block: Block<'_>| {
            queries += block.times.len();
            Ok::<_, Infallible>(())
        };
        let result = Meter::new(&OwnClock, 64, NO_LIMIT)
            .with_crew(
                lanes(2),
                |lane| Ok(Client { service_ns: 1, left: if lane == 1 { 5 } else { u64::MAX } }),
                |crew| crew.run(Pattern::ClosedLoop, &rule(0, u64::MAX, NO_LIMIT), &mut sink),
            )
            .expect("targets are made");
        assert_eq!(result, Err(MeasureError::Target("broken")));
        assert!(queries >= 5, "{queries}");
    }

    #[test]
    fn a_maximum_ends_clients_that_wait_for_others() {
        let mut sink = |_: Block<'_>| Ok::<_, Infallible>(());
        let summary = Meter::new(&OwnClock, 64, NO_LIMIT)
            .with_crew(
                lanes(2),
                |_| Ok(Client { service_ns: 10, left: u64::MAX }),
                |crew| crew.run(Pattern::ClosedLoop, &rule(0, u64::MAX, 1000), &mut sink),
            )
            .expect("targets are made")
            .expect("nothing fails");
        assert_eq!((summary.enough, summary.timed_ns), (false, 1000));
        assert_eq!(summary.queries, 200);
    }

    #[test]
    fn a_server_that_fails_stops_the_others() {
        let mut sink = |_: Block<'_>| Ok::<_, Infallible>(());
        let pattern = Pattern::ConstantRate { rate: rate(1e9) };
        let result = Meter::new(&OwnClock, 64, NO_LIMIT)
            .with_crew(
                lanes(2),
                |lane| Ok(Client { service_ns: 10, left: if lane == 1 { 50 } else { u64::MAX } }),
                |crew| crew.run(pattern, &rule(0, u64::MAX, NO_LIMIT), &mut sink),
            )
            .expect("targets are made");
        assert_eq!(result, Err(MeasureError::Target("broken")));
    }

    #[test]
    fn an_observer_that_fails_stops_all_servers() {
        let pattern = Pattern::ConstantRate { rate: rate(1e9) };
        let result = Meter::new(&OwnClock, 64, NO_LIMIT)
            .with_crew(
                lanes(3),
                |_| Ok(Client { service_ns: 10, left: u64::MAX }),
                |crew| {
                    crew.run(pattern, &rule(0, u64::MAX, NO_LIMIT), &mut |_: Block<'_>| Err("full"))
                },
            )
            .expect("targets are made");
        assert_eq!(result, Err(MeasureError::Sink("full")));
    }

    #[test]
    fn a_judge_ends_the_shared_schedule_and_targets_outlive_a_run() {
        let pattern = Pattern::ConstantRate { rate: rate(1e9) };
        let (first, second, seen) = Meter::new(&OwnClock, 64, NO_LIMIT)
            .with_crew(
                lanes(2),
                |_| Ok(Client { service_ns: 10, left: u64::MAX }),
                |crew| {
                    let mut judge = Judge { enough_at: 1000, ..Judge::default() };
                    let rule = rule(0, 500, NO_LIMIT);
                    let first = crew.run(pattern, &rule, &mut judge).expect("nothing fails");
                    let nothing = rule_of_nothing();
                    let mut sink = |_: Block<'_>| Ok::<_, Infallible>(());
                    let second = crew.run(pattern, &nothing, &mut sink).expect("nothing fails");
                    (first, second, judge.seen)
                },
            )
            .expect("targets are made");
        assert!(first.enough && first.queries >= 1000, "{first:?}");
        assert_eq!(first.queries, seen);
        assert_eq!((second.enough, second.queries), (true, 0));
    }

    fn rule_of_nothing() -> StopRule {
        rule(0, 0, NO_LIMIT)
    }

    #[test]
    fn a_clock_that_goes_back_stops_all_lanes() {
        struct Backwards(u64);
        impl Target for Backwards {
            type Error = Infallible;
            fn run(&mut self) -> Result<(), Infallible> {
                self.0 += 1;
                OwnClock::pass(if self.0 == 20 { u64::MAX - 4 } else { 10 });
                Ok(())
            }
        }
        for pattern in [Pattern::ClosedLoop, Pattern::ConstantRate { rate: rate(1e9) }] {
            let mut sink = |_: Block<'_>| Ok::<_, Infallible>(());
            let result = Meter::new(&OwnClock, 64, NO_LIMIT)
                .with_crew(
                    lanes(2),
                    |_| Ok(Backwards(0)),
                    |crew| crew.run(pattern, &rule(0, 100_000, NO_LIMIT), &mut sink),
                )
                .expect("targets are made");
            // In an open loop, a lane's first query may be one that is due a little later.
            let Err(MeasureError::ClockWentBack { before_ns, after_ns }) = result else {
                panic!("{pattern:?}: {result:?}");
            };
            assert_eq!(before_ns - after_ns, 5, "{pattern:?}");
            assert!((190..=210).contains(&before_ns), "{pattern:?}: {before_ns}");
        }
    }

    /// Checks no figures, only that several real threads lose and invent nothing.
    #[test]
    fn real_threads_serve_every_query_once() {
        struct Nothing;
        impl Target for Nothing {
            type Error = Infallible;
            fn run(&mut self) -> Result<(), Infallible> {
                Ok(())
            }
        }
        let clock = SystemClock::new();
        let pattern = Pattern::Server { rate: rate(2e6), seed: 3 };
        let mut seen = Vec::new();
        let summary = Meter::new(&clock, 48, 1_000_000)
            .with_crew(
                lanes(3),
                |_| Ok(Nothing),
                |crew| crew.run(pattern, &rule(0, 20_000, NO_LIMIT), &mut keep_queries(&mut seen)),
            )
            .expect("targets are made")
            .expect("nothing fails");
        assert_eq!((summary.queries, summary.enough), (20_000, true));
        assert!(seen.iter().all(|(_, query)| {
            query.scheduled_ns <= query.begun_ns && query.begun_ns <= query.ended_ns
        }));
        let mut scheduled: Vec<u64> = seen.iter().map(|(_, query)| query.scheduled_ns).collect();
        scheduled.sort_unstable();
        let due: Vec<u64> =
            crate::Schedule::new(pattern.arrivals().expect("an open loop")).take(20_000).collect();
        // All times are later than the schedule's by when it began.
        let origin = scheduled[0] - due[0];
        assert!(scheduled.iter().zip(&due).all(|(time, offset)| time - offset == origin));
    }

    #[test]
    fn a_target_that_cannot_be_made_is_an_error() {
        let make =
            |lane| if lane == 1 { Err("no device") } else { Ok(Client { service_ns: 1, left: 1 }) };
        let result = Meter::new(&OwnClock, 64, NO_LIMIT).with_crew(lanes(3), make, |_| ());
        assert_eq!(result, Err("no device"));
    }

    #[test]
    #[should_panic(expected = "panicked")]
    fn a_target_that_panics_does_not_hang_the_others() {
        struct Panics(u32);
        impl Target for Panics {
            type Error = Infallible;
            fn run(&mut self) -> Result<(), Infallible> {
                assert_ne!(self.0, 1, "this one panics");
                OwnClock::pass(10);
                Ok(())
            }
        }
        let mut sink = |_: Block<'_>| Ok::<_, Infallible>(());
        let rule = rule(0, u64::MAX, NO_LIMIT);
        let _ = Meter::new(&OwnClock, 64, NO_LIMIT).with_crew(
            lanes(2),
            |lane| Ok(Panics(lane)),
            |crew| crew.run(Pattern::ClosedLoop, &rule, &mut sink),
        );
    }
}
