//! Several targets of one model, for clients and servers on threads of their own.

use std::borrow::{Borrow, BorrowMut};
use std::sync::{Arc, Mutex, PoisonError};

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
    inputs: Mutex<Inputs>,
    /// How a lane's backend broke its contract: the first that was found.
    broken: Mutex<Option<Error>>,
}

/// The elements of all batches, as long as a lane still needs them: they are not part of the case's memory.
#[derive(Debug)]
struct Inputs {
    batches: Arc<Vec<Vec<TensorData>>>,
    /// Lanes that have not taken them.
    lanes: u32,
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
        let batches: Vec<_> = batches.collect::<Result<_, _>>()?;
        let lanes = case.key.clients.unwrap_or(1);
        let inputs = Mutex::new(Inputs { batches: Arc::new(batches), lanes });
        Ok(Self { model, case, shapes, inputs, broken: Mutex::default() })
    }

    /// Returns the inputs, and keeps none after the last lane's.
    fn take(&self) -> Arc<Vec<Vec<TensorData>>> {
        let mut inputs = self.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        inputs.lanes = inputs.lanes.saturating_sub(1);
        match inputs.lanes {
            0 => std::mem::take(&mut inputs.batches),
            _ => Arc::clone(&inputs.batches),
        }
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
        let batches = self.take();
        let count = batches.len();
        let calls = (0..count).map(|index| {
            let batch = &batches[(index + lane as usize) % count];
            session.call(tensors(model, batch)?)
        });
        let calls = calls.collect::<Result<Vec<_>, _>>()?;
        drop(batches);
        let inputs = calls.iter().map(|call| contract::fingerprints(model, call)).collect();
        let mut target = BackendTarget::new(session, calls);
        // The one-time work of a first run must not be in a latency.
        target.first_run()?;
        Ok(LaneTarget { target, lanes: self, inputs })
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
    /// Fingerprints of the inputs of each call.
    inputs: Vec<Vec<Option<u64>>>,
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
        let Self { target, lanes, inputs } = self;
        let model = lanes.model.here();
        let calls = target.calls().iter().zip(inputs);
        let mut checks = calls.map(|(call, inputs)| contract::check_kept(model, call, inputs));
        if let Some(error) = checks.find_map(Result::err) {
            let mut broken = lanes.broken.lock().unwrap_or_else(PoisonError::into_inner);
            broken.get_or_insert(error);
        }
    }

    fn on_thread<R>(work: impl FnOnce() -> R) -> R {
        exceptions::end_search_above(work)
    }
}
