//! Several targets of one model, for clients and servers on threads of their own.

use host_machine::process;
use host_measure::SystemClock;
use host_record::{CaseSpec, ErrorCode, Failure, Phase};
use plugin_api::abi::MARKS;
use plugin_api::client::{self, Error, Model, ModelOnThreads, TensorData};

use crate::backend::{BackendTarget, tensors};
use crate::examples::Examples;
use crate::marks::{MarkLog, MarkedTarget, Marking};

/// Parts from which each lane makes its target.
pub(crate) struct Lanes<'a> {
    model: ModelOnThreads<'a>,
    case: &'a CaseSpec,
    shapes: Vec<Vec<i64>>,
    batches: Vec<Vec<TensorData>>,
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
        Ok(Self { model, case, shapes, batches })
    }

    /// Makes a lane's target, on the calling thread. Each begins with another input.
    ///
    /// # Errors
    ///
    /// The backend's error.
    pub(crate) fn target(&self, lane: u32) -> Result<BackendTarget, Error> {
        // A thread does not inherit this wish. The lane's own thread calls here.
        process::prefer_fast_processors();
        let model = self.model.here();
        let session = model.prepare(self.case.key.precision.name(), &self.shapes)?;
        let count = self.batches.len();
        let calls = (0..count).map(|index| {
            let batch = &self.batches[(index + lane as usize) % count];
            session.call(tensors(model, batch)?)
        });
        let calls = calls.collect::<Result<_, _>>()?;
        let mut target = BackendTarget::new(session, calls);
        // The one-time work of a first run must not be in a latency.
        target.first_run()?;
        Ok(target)
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
    ) -> Result<MarkedTarget<'clock, BackendTarget>, Error> {
        let target = self.target(lane)?;
        let marking = Marking::of(self.case, target.session())?.ok_or_else(|| Error {
            call: MARKS,
            code: client::ErrorCode::Contract,
            message: "is offered for one session and not for another".into(),
            details: String::new(),
        })?;
        Ok(MarkedTarget::new(target, &marking, clock, log))
    }
}
