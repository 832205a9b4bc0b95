//! Unusual batches: of zero, of very many, and of more than fits into memory.

use std::time::{Duration, Instant};

use plugin_api::client::{Error, ErrorCode, TensorView};

use super::{
    Outcome, Ready, attempt, compare, describe_error, device_time_can_be_true, ensure, inputs,
    outputs, ready, refused, run_waits, shapes,
};
use crate::fixture::Fixture;
use crate::{Suite, Verdict};

/// A batch grows by this factor each time.
const STEP: usize = 8;
/// Limit on the size of inputs.
const LARGEST: usize = 4 << 20;
/// A step that takes longer is the last one: compilers and simulators take their time.
const LONGEST: Duration = Duration::from_secs(1);
/// A run that takes this long can be distinguished from the machine's noise.
const LONG: Duration = Duration::from_millis(20);
/// More bytes than a process can address, and too few to overflow.
const ABSURD: usize = 1 << 48;

fn not_checked() -> Verdict {
    let reason = "the inputs and outputs do not have one dynamic axis as the first of all";
    Verdict::NotChecked(reason.into())
}

fn still_right(ready: &mut Ready, fixture: &Fixture, after: &str) -> Result<Verdict, String> {
    describe_error(ready.call.run())
        .and_then(|()| compare(&outputs(&mut ready.call, fixture)?, fixture))
        .map_err(|detail| format!("after {after}: {detail}"))?;
    Ok(Verdict::Holds)
}

pub(super) fn empty_batches(suite: &Suite, fixture: &Fixture) -> Result<Verdict, String> {
    let mut ready = ready(suite, fixture)?;
    let Some(empty) = fixture.repeated(ready.model.info(), 0) else { return Ok(not_checked()) };
    match attempt(&ready.model, &empty) {
        Ok(outputs) => compare(&outputs, &empty)?,
        error => drop(refused(error, "a batch of none")?),
    }
    still_right(&mut ready, fixture, "a batch of none")
}

/// Returns larger fixtures, up to the limits of size and time.
fn larger(ready: &Ready, fixture: &Fixture) -> Result<Option<Vec<Fixture>>, String> {
    let once = fixture.input_bytes()?;
    let times = std::iter::successors(Some(STEP), |times| times.checked_mul(STEP));
    let times = times.take_while(|times| times.saturating_mul(once) <= LARGEST);
    let mut larger = Vec::new();
    for times in times {
        let Some(fixture) = fixture.repeated(ready.model.info(), times) else { return Ok(None) };
        larger.push(fixture);
    }
    Ok(Some(larger).filter(|larger| !larger.is_empty()))
}

pub(super) fn large_batches(suite: &Suite, fixture: &Fixture) -> Result<Verdict, String> {
    let mut ready = ready(suite, fixture)?;
    let Some(larger) = larger(&ready, fixture)? else { return Ok(not_checked()) };
    for large in larger {
        let what = format!("a batch of {}", large.inputs[0].shape[0]);
        suite.note(&what);
        let started = Instant::now();
        match attempt(&ready.model, &large) {
            Ok(outputs) => {
                compare(&outputs, &large).map_err(|detail| format!("{what}: {detail}"))?;
            }
            error => {
                refused(error, &what)?;
                break;
            }
        }
        if started.elapsed() > LONGEST {
            break;
        }
    }
    still_right(&mut ready, fixture, "large batches")
}

/// Returns a batch that keeps the device busy for some time, or the largest that it accepts.
pub(super) fn long_work(suite: &Suite, fixture: &Fixture) -> Result<(Ready, Fixture), String> {
    let mut ready = ready(suite, fixture)?;
    let mut fixture = fixture.clone();
    for large in larger(&ready, &fixture)?.unwrap_or_default() {
        describe_error(ready.call.run())?;
        describe_error(ready.session.synchronise())?;
        let started = Instant::now();
        describe_error(ready.call.run())?;
        describe_error(ready.session.synchronise())?;
        if started.elapsed() >= LONG {
            break;
        }
        suite.note(format_args!("a batch of {}", large.inputs[0].shape[0]));
        let started = Instant::now();
        // Another check covers refusals.
        let Ok(session) = ready.model.prepare(&large.precision, &shapes(&large)) else { break };
        let Ok(mut call) = session.call(inputs(&ready.model, &large)?) else { break };
        if call.run().is_err() {
            break;
        }
        (ready.call, ready.session, fixture) = (call, session, large);
        if started.elapsed() > LONGEST {
            break;
        }
    }
    Ok((ready, fixture))
}

pub(super) fn long_runs_are_waited_for(suite: &Suite, fixture: &Fixture) -> Outcome {
    let (mut ready, fixture) = long_work(suite, fixture)?;
    run_waits(&mut ready, &fixture)?;
    device_time_can_be_true(&mut ready)
}

pub(super) fn absurd_batches(suite: &Suite, fixture: &Fixture) -> Result<Verdict, String> {
    let mut ready = ready(suite, fixture)?;
    let Some(one) = fixture.repeated(ready.model.info(), 1) else { return Ok(not_checked()) };
    let first = one.inputs[0].encode()?;
    let rows = usize::try_from(first.shape[0]).unwrap_or(0).max(1);
    let row = (first.bytes.len() / rows).max(1);
    let mut checked = false;
    for batch in [i64::try_from(ABSURD / row + 1).unwrap_or(i64::MAX), i64::MAX] {
        let what = format!("a batch of {batch}");
        suite.note(&what);
        let mut shapes = shapes(&one);
        shapes.iter_mut().for_each(|shape| shape[0] = batch);
        // A backend may ask for memory only when it is needed.
        if let Err(error) = ready.model.prepare(&one.precision, &shapes) {
            too_much(&refused::<()>(Err(error), &what)?, &what)?;
            checked = true;
        }
        // All elements are the first one, so that only the backend needs memory.
        let shape = &shapes[0];
        let view = TensorView {
            dtype: first.dtype,
            shape,
            strides: Some(&vec![0; shape.len()]),
            bytes: &first.bytes,
        };
        match ready.model.tensor(view) {
            Err(error) if error.code == ErrorCode::Unsupported => {
                // This backend takes no strides.
                refused::<()>(Err(error), &what)?;
            }
            tensor => {
                let what = format!("a tensor of {} {shape:?}", first.dtype);
                too_much(&refused(tensor, &what)?, &what)?;
                checked = true;
            }
        }
    }
    let verdict = still_right(&mut ready, fixture, "what did not fit")?;
    if checked {
        return Ok(verdict);
    }
    let reason = "any batch can be prepared, and no input that large can be made without strides";
    Ok(Verdict::NotChecked(reason.into()))
}

fn too_much(error: &Error, what: &str) -> Outcome {
    ensure(matches!(error.code, ErrorCode::OutOfMemory | ErrorCode::InvalidArgument), || {
        format!("{what} is too much memory or a wrong argument, not {}: {error}", error.code)
    })
}
