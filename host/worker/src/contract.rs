//! Breaches of contract by a backend in a run: outputs of another shape than its model's information promises, and
//! inputs that were written to.
//!
//! Both are looked at after measuring, when nothing is timed any more. A backend that computes half of a batch, or
//! none of it from the second run on, is fast for that reason.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use host_record::Phase;
use plugin_api::client::{self, Call, Error, Model, TensorData};

use crate::backend::BackendTarget;
use crate::connection::Connection;
use crate::examples::Examples;
use crate::failure::{self, Stop};

/// Checks the calls that were timed, whose inputs are the first batches of the examples.
///
/// # Errors
///
/// If an output or an input is not as it must be, or a batch cannot be read again.
pub(crate) fn check(
    connection: &mut Connection,
    target: &BackendTarget,
    model: &Model,
    examples: &mut Examples,
    interval: Duration,
) -> Result<(), Stop> {
    for (index, call) in (0..).zip(target.calls()) {
        let batch = examples.batch(index)?;
        check_call(model, call, &batch).map_err(failure::backend(Phase::Measure))?;
        connection.progress(interval)?;
    }
    Ok(())
}

/// Checks a call that was made with this batch.
fn check_call(model: &Model, call: &Call, batch: &[TensorData]) -> Result<(), Error> {
    if call.has_outputs() {
        call.check_outputs()?;
    }
    match (0..batch.len()).find(|at| is_changed(model, call, &batch[*at], *at)) {
        Some(position) => Err(changed(model, position)),
        None => Ok(()),
    }
}

/// Returns a fingerprint of each input of a call as it lies on the device; `None` for one that cannot be read back.
pub(crate) fn fingerprints(model: &Model, call: &Call) -> Vec<Option<u64>> {
    let fingerprint = |position| {
        let mut hasher = DefaultHasher::new();
        call.read_input(position).ok()?.bytes.hash(&mut hasher);
        Some(hasher.finish())
    };
    (0..model.info().inputs.len()).map(fingerprint).collect()
}

/// Checks a call whose inputs had these fingerprints.
///
/// # Errors
///
/// If an output or an input is not as it must be.
pub(crate) fn check_kept(model: &Model, call: &Call, inputs: &[Option<u64>]) -> Result<(), Error> {
    if call.has_outputs() {
        call.check_outputs()?;
    }
    let now = fingerprints(model, call);
    let is_kept = |(before, now): (&Option<u64>, &Option<u64>)| {
        before.zip(*now).is_none_or(|(before, now)| before == now)
    };
    match inputs.iter().zip(&now).position(|pair| !is_kept(pair)) {
        Some(position) => Err(changed(model, position)),
        None => Ok(()),
    }
}

/// Returns whether an input on the device differs from what was put there. One that cannot be read back is not judged.
fn is_changed(model: &Model, call: &Call, original: &TensorData, position: usize) -> bool {
    let Ok(found) = call.read_input(position) else { return false };
    if found == *original {
        return false;
    }
    // On the device the elements may have a narrower type.
    let anew = model.tensor(original.view()).and_then(|tensor| tensor.read());
    anew.is_ok_and(|anew| anew != found)
}

fn changed(model: &Model, position: usize) -> Error {
    let name = model.info().inputs.get(position).map_or("", |info| &info.name);
    Error {
        call: "run",
        code: client::ErrorCode::Contract,
        message: format!(
            "wrote to input {position} (`{name}`): after measuring, it no longer has the elements that it was \
             given. Later runs had other inputs than the first; a backend must copy what it changes"
        ),
        details: String::new(),
    }
}
