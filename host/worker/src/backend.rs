//! The plugin as the worker uses it: what it says of itself, and the target of the timing loop.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use host_measure::Target;
use host_record::protocol::BackendDescription;
use host_record::{DeviceInfo, Mode, Phase};
use plugin_api::client::{
    Call, DataType, Error, Model, ModelInfo, Session, Tensor, TensorData, TensorInfo, TextData,
    ValueKind,
};

use crate::cancel;
use crate::connection::Connection;
use crate::failure::{self, Stop};
use crate::library::Library;

/// The host hears of progress at most this often while a plugin describes itself.
const DESCRIBING: Duration = Duration::from_secs(1);

/// Opens a plugin, and asks what it is and which devices it sees.
pub(crate) fn describe(
    connection: &mut Connection,
    path: &Path,
    sha256: Option<&str>,
) -> Result<BackendDescription, Stop> {
    connection.enter(Phase::Open)?;
    let backend = Library::check(path, sha256)?.open(connection.reporter(DESCRIBING)?)?;
    cancel::listen(connection, &backend)?;
    let description = backend.describe().map_err(failure::backend(Phase::Open))?;
    connection.enter(Phase::Devices)?;
    let devices = backend.devices().map_err(failure::backend(Phase::Devices))?;
    // A newer plugin may have modes that this host has no name for and cannot ask for.
    let modes: Vec<Mode> =
        description.modes().iter().filter_map(|name| name.parse().ok()).collect();
    let devices = devices.into_iter().map(|device| DeviceInfo {
        modes: modes.clone(),
        id: device.id,
        kind: device.kind,
        name: device.name,
        memory_bytes: device.memory_bytes,
        // A newer plugin may offer precisions that this host has no name for and cannot ask for.
        precisions: device.precisions.iter().filter_map(|name| name.parse().ok()).collect(),
        attributes: BTreeMap::from_iter(device.attributes),
    });
    Ok(BackendDescription {
        id: description.id,
        version: description.version,
        engine: description.engine,
        engine_version: description.engine_version,
        abi: backend.abi_version(),
        extensions: description.extensions,
        devices: devices.collect(),
    })
}

/// Puts a batch on the device: a tensor of each input, in the model's order.
pub(crate) fn tensors(model: &Model, batch: &[TensorData]) -> Result<Vec<Tensor>, Error> {
    batch.iter().map(|data| model.tensor(data.view())).collect()
}

/// Value of one output of a run.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A tensor of numbers.
    Numbers(TensorData),
    /// A tensor of texts.
    Texts(TextData),
    /// Something else: what it is.
    NotATensor(ValueKind),
}

impl Answer {
    /// Reads an output of a call's latest run.
    ///
    /// # Errors
    ///
    /// Returns the backend's error.
    pub(crate) fn read(call: &mut Call, index: usize) -> Result<Self, Error> {
        Ok(match call.output_kind(index)? {
            (ValueKind::Tensor, Some(DataType::STRING)) => Self::Texts(call.read_texts(index)?),
            (ValueKind::Tensor, _) => Self::Numbers(call.read_output(index)?),
            (kind, _) => Self::NotATensor(kind),
        })
    }
}

/// The timed target: calls of one session, taken in turn so that each query has other inputs
/// than the one before it.
#[derive(Debug)]
pub struct BackendTarget {
    session: Session,
    calls: Vec<Call>,
    next: usize,
}

impl BackendTarget {
    /// Creates a target of these calls.
    ///
    /// # Panics
    ///
    /// If there is no call.
    #[must_use]
    pub fn new(session: Session, calls: Vec<Call>) -> Self {
        assert!(!calls.is_empty(), "a target needs a call");
        Self { session, calls, next: 0 }
    }

    /// Runs a call once, and takes it again.
    pub(crate) fn first_run(&mut self) -> Result<(), Error> {
        self.calls[0].run()?;
        self.calls[0].check_outputs()
    }

    /// Returns the calls, in the order of their batches.
    pub(crate) fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// Returns the session of the calls.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Drops the calls, with their inputs and outputs.
    pub(crate) fn into_session(self) -> Session {
        self.session
    }

    /// Checks whether the call that ran first has left outputs, of the shapes that the model promises.
    pub(crate) fn check_outputs(&self) -> Result<(), Error> {
        self.calls[0].check_outputs()
    }

    /// Runs the next call and says which one it was.
    pub(crate) fn run_one(&mut self) -> Result<usize, Error> {
        let index = self.next;
        self.run()?;
        Ok(index)
    }

    /// Enqueues the next `batches` calls, waits for them as the timed loop does, and returns the last one.
    pub(crate) fn run_burst(&mut self, batches: u64) -> Result<usize, Error> {
        let mut last = self.next;
        for _ in 0..batches {
            last = self.next;
            self.enqueue()?;
        }
        self.session.synchronise()?;
        Ok(last)
    }

    /// Reads a call's first output, without another wait for its run.
    pub(crate) fn read_at_once(&mut self, call: usize) -> Result<(), Error> {
        Answer::read(&mut self.calls[call], 0).map(drop)
    }

    /// Waits until a call's run is done and reads its first output.
    pub(crate) fn read(&mut self, call: usize) -> Result<(), Error> {
        self.session.synchronise()?;
        Answer::read(&mut self.calls[call], 0).map(drop)
    }

    /// Returns the numeric outputs of the first call, by name.
    pub(crate) fn first_outputs(
        &mut self,
        model: &ModelInfo,
    ) -> Result<Vec<(String, TensorData)>, Error> {
        self.session.synchronise()?;
        let outputs = model.outputs.iter().enumerate();
        let read =
            |(index, info): (usize, &TensorInfo)| match Answer::read(&mut self.calls[0], index) {
                Ok(Answer::Numbers(data)) => Some(Ok((info.name.clone(), data))),
                Ok(Answer::Texts(_) | Answer::NotATensor(_)) => None,
                Err(error) => Some(Err(error)),
            };
        outputs.filter_map(read).collect()
    }

    /// Returns the next call in turn.
    #[inline]
    pub(crate) fn next_call(&mut self) -> &mut Call {
        let index = self.next;
        self.next = if index + 1 == self.calls.len() { 0 } else { index + 1 };
        &mut self.calls[index]
    }
}

impl Target for BackendTarget {
    type Error = Error;

    #[inline]
    fn run(&mut self) -> Result<(), Error> {
        self.next_call().run()
    }

    #[inline]
    fn enqueue(&mut self) -> Result<(), Error> {
        self.next_call().enqueue()
    }

    fn synchronise(&mut self) -> Result<(), Error> {
        self.session.synchronise()
    }
}
