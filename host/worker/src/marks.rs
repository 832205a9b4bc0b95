//! Marks of queries, on their way from the target that takes them to the blocks that they belong to.
//!
//! The loops know nothing of marks, so that they are what they are without: a target that has some keeps
//! them in a log, one entry for each query that ended well, and whoever takes a block takes as many entries
//! from the log of its lane.

use std::borrow::BorrowMut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host_measure::{Clock, SystemClock, Target};
use host_record::{CaseSpec, Marks, Mode, Scenario};
use plugin_api::client::{Error, MarkedRun, Session};

use crate::backend::BackendTarget;

/// Number of times within queries that are allocated before the clock runs: half a MiB.
const ROOM: usize = 1 << 16;

/// Runs of a session, phase by phase.
#[derive(Debug)]
pub(crate) struct Marking {
    pub(crate) run: MarkedRun,
    pub(crate) phases: Vec<String>,
}

impl Marking {
    /// Returns the marking of a case's runs; `None` in inference, without the backend's support, and if a
    /// query consists of several runs at once.
    ///
    /// # Errors
    ///
    /// Returns the backend's error.
    pub(crate) fn of(case: &CaseSpec, session: &Session) -> Result<Option<Self>, Error> {
        let is_single = !matches!(case.key.scenario, Scenario::Offline | Scenario::MultiStream);
        if case.key.mode == Mode::Inference || !is_single {
            return Ok(None);
        }
        let (Some(phases), Some(run)) = (session.phases(), session.marked_run()) else {
            return Ok(None);
        };
        Ok(Some(Self { run: run?, phases: phases? }))
    }
}

/// Marks of the queries of one lane that have not been sent yet.
#[derive(Debug, Clone)]
pub(crate) struct MarkLog(Arc<Mutex<Marks>>);

impl MarkLog {
    /// Creates a log for queries with these phases.
    pub(crate) fn new(phases: &[String]) -> Self {
        let block = host_measure::Meter::<SystemClock>::BLOCK;
        Self(Arc::new(Mutex::new(Marks {
            phases: phases.to_vec(),
            ends_ns: Vec::with_capacity(block * phases.len()),
            counts: Vec::with_capacity(block),
            within_ns: Vec::with_capacity(ROOM),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Marks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what no block was made of.
    pub(crate) fn clear(&self) {
        let mut log = self.lock();
        log.ends_ns.clear();
        log.counts.clear();
        log.within_ns.clear();
    }

    /// Takes the marks of the next queries.
    pub(crate) fn take(&self, queries: usize) -> Marks {
        let mut log = self.lock();
        let ends = (queries * log.phases.len()).min(log.ends_ns.len());
        let queries = queries.min(log.counts.len());
        let counts: Vec<u32> = log.counts.drain(..queries).collect();
        let within: usize = counts.iter().map(|count| *count as usize).sum();
        Marks {
            phases: log.phases.clone(),
            ends_ns: log.ends_ns.drain(..ends).collect(),
            within_ns: log.within_ns.drain(..within).collect(),
            counts,
        }
    }
}

/// A target whose queries are made phase by phase, and whose moments are read from our own clock.
#[derive(Debug)]
pub(crate) struct MarkedTarget<'a, T> {
    target: T,
    run: MarkedRun,
    phases: u32,
    clock: &'a SystemClock,
    log: MarkLog,
    /// Of the query under way.
    ends_ns: Vec<u64>,
    within_ns: Vec<u64>,
}

impl<'a, T: BorrowMut<BackendTarget>> MarkedTarget<'a, T> {
    pub(crate) fn new(target: T, marking: &Marking, clock: &'a SystemClock, log: MarkLog) -> Self {
        Self {
            target,
            run: marking.run,
            phases: marking.phases.len() as u32,
            clock,
            log,
            ends_ns: Vec::with_capacity(marking.phases.len()),
            within_ns: Vec::with_capacity(ROOM),
        }
    }
}

impl<T: BorrowMut<BackendTarget> + Target> Target for MarkedTarget<'_, T> {
    type Error = Error;

    fn run(&mut self) -> Result<(), Error> {
        let Self { target, run, phases, clock, log, ends_ns, within_ns } = self;
        let call = target.borrow_mut().next_call();
        ends_ns.clear();
        within_ns.clear();
        for phase in 0..(*phases).max(1) {
            call.run_phase(*run, phase, &mut || within_ns.push(clock.now()))?;
            if *phases > 0 {
                ends_ns.push(clock.now());
            }
        }
        let mut log = log.lock();
        log.ends_ns.extend_from_slice(ends_ns);
        log.counts.push(within_ns.len() as u32);
        log.within_ns.extend_from_slice(within_ns);
        Ok(())
    }

    fn enqueue(&mut self) -> Result<(), Error> {
        self.target.borrow_mut().enqueue()
    }

    fn synchronise(&mut self) -> Result<(), Error> {
        self.target.borrow_mut().synchronise()
    }

    fn end(&mut self) {
        self.target.end();
    }

    fn on_thread<R>(work: impl FnOnce() -> R) -> R {
        T::on_thread(work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_takes_the_marks_of_its_own_queries() {
        let log = MarkLog::new(&["prefill".into(), "decode".into()]);
        let query = |ends: [u64; 2], within: &[u64]| {
            let mut log = log.lock();
            log.ends_ns.extend(ends);
            log.counts.push(within.len() as u32);
            log.within_ns.extend(within);
        };
        query([9, 9], &[9]);
        log.clear();
        query([1, 4], &[2, 3]);
        query([5, 6], &[]);
        query([7, 9], &[8]);
        let first = log.take(2);
        assert_eq!((first.ends_ns, first.counts), (vec![1, 4, 5, 6], vec![2, 0]));
        assert_eq!(first.within_ns, [2, 3]);
        let second = log.take(1);
        assert_eq!((second.ends_ns, second.counts), (vec![7, 9], vec![1]));
        assert_eq!((second.within_ns, second.phases.len()), (vec![8], 2));
        assert_eq!(log.take(0).counts, [0; 0]);
    }
}
