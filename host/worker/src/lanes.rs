//! Several targets of one model, for clients and servers on threads of their own.

use std::borrow::{Borrow, BorrowMut};
use std::sync::{Mutex, PoisonError};

use host_machine::process;
use host_measure::{SystemClock, Target};
use host_record::{CaseSpec, ErrorCode, Failure, Phase};
use plugin_api::abi::MARKS;
use plugin_api::client::{self, Error, Model, ModelOnThreads, TensorData};

use crate::backend::{BackendTarget, tensors};
use crate::contract;
use crate::examples::Examples;
use crate::marks::{MarkLog, MarkedTarget, Marking};
use crate::{exceptions, failure};

/// Parts from which each lane makes its target.
pub(crate) struct Lanes<'a> {
    model: ModelOnThreads<'a>,
    case: &'a CaseSpec,
    shapes: Vec<Vec<i64>>,
    batches: Vec<Vec<TensorData>>,
    /// How a lane's backend broke its contract: the first that was found.
    broken: Mutex<Option<Error>>,
}

impl<'a> Lanes<'a> {
    /// # Errors
    ///
    /// If the backend serves one thread only, or an input cannot be read.
    pub(crate) fn new(
        model: &'a Model,
        case: &'a CaseSpec,
        examples: &mut Examples,
    ) -> Result<Self, Failure> {
        let model = model.on_threads().ok_or_else(|| Failure::Backend {
            phase: Phase::Prepare,
            call: String::from("get_extension"),
            code: ErrorCode::Unsupported,
            message: "it serves one thread only, so it cannot answer several clients at once: \
                      it does not offer the extension `tare/threads/1`"
                .into(),
            details: String::new(),
        })?;
        let shapes = examples.shapes();
        let batches = (0..examples.resident_batches()).map(|index| examples.batch(index));
        let batches = batches.collect::<Result<_, _>>()?;
        Ok(Self { model, case, shapes, batches, broken: Mutex::default() })
    }

    /// Makes a lane's target, on the calling thread. Each begins with another input.
    ///
    /// # Errors
    ///
    /// The backend's error.
    pub(crate) fn target(&self, lane: u32) -> Result<LaneTarget<'_>, Error> {
        // A thread does not inherit this wish. The lane's own thread calls here.
        process::prefer_fast_processors();
        let model = self.model.here();
        let session = model.prepare(self.case.key.precision.name(), &self.shapes)?;
        let count = self.batches.len();
        let calls = (0..count).map(|index| session.call(tensors(model, self.batch(lane, index))?));
        let calls = calls.collect::<Result<_, _>>()?;
        let mut target = BackendTarget::new(session, calls);
        // The one-time work of a first run must not be in a latency.
        target.first_run()?;
        Ok(LaneTarget { target, lanes: self, lane })
    }

    /// Returns the batch of a lane's call.
    fn batch(&self, lane: u32, call: usize) -> &[TensorData] {
        &self.batches[(call + lane as usize) % self.batches.len()]
    }

    /// Says whether the backend kept its contract in every lane that has ended.
    ///
    /// # Errors
    ///
    /// If an output or an input is not as it must be.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        broken.take().map_or(Ok(()), |error| Err(failure::backend(Phase::Measure)(error)))
    }

    /// Creates the lanes of a case whose queries have marks.
    ///
    /// # Errors
    ///
    /// Returns the backend's error, or an error if only some sessions have marks.
    pub(crate) fn marked<'clock>(
        &self,
        lane: u32,
        clock: &'clock SystemClock,
        log: MarkLog,
    ) -> Result<MarkedTarget<'clock, LaneTarget<'_>>, Error> {
        let target = self.target(lane)?;
        let marking = Marking::of(self.case, target.target.session())?.ok_or_else(|| Error {
            call: MARKS,
            code: client::ErrorCode::Contract,
            message: "is offered for one session and not for another".into(),
            details: String::new(),
        })?;
        Ok(MarkedTarget::new(target, &marking, clock, log))
    }
}

/// The target of a lane. When the lane ends, its calls are checked as those of the main session are.
pub(crate) struct LaneTarget<'a> {
    target: BackendTarget,
    lanes: &'a Lanes<'a>,
    lane: u32,
}

impl Borrow<BackendTarget> for LaneTarget<'_> {
    fn borrow(&self) -> &BackendTarget {
        &self.target
    }
}

impl BorrowMut<BackendTarget> for LaneTarget<'_> {
    fn borrow_mut(&mut self) -> &mut BackendTarget {
        &mut self.target
    }
}

impl Target for LaneTarget<'_> {
    type Error = Error;

    #[inline]
    fn run(&mut self) -> Result<(), Error> {
        self.target.run()
    }

    #[inline]
    fn enqueue(&mut self) -> Result<(), Error> {
        self.target.enqueue()
    }

    fn synchronise(&mut self) -> Result<(), Error> {
        self.target.synchronise()
    }

    fn end(&mut self) {
        let Self { target, lanes, lane } = self;
        let model = lanes.model.here();
        let check = |(index, call)| contract::check_call(model, call, lanes.batch(*lane, index));
        if let Some(error) = target.calls().iter().enumerate().map(check).find_map(Result::err) {
            let mut broken = lanes.broken.lock().unwrap_or_else(PoisonError::into_inner);
            broken.get_or_insert(error);
        }
    }

    fn on_thread<R>(work: impl FnOnce() -> R) -> R {
        exceptions::end_search_above(work)
    }
}
