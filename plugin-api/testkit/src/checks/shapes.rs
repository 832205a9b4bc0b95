//! Sessions that are prepared for more than one shape.

use plugin_api::client::{Error, ErrorCode, Model, Session, ShapeBounds, ShapesServed};

use super::{Outcome, compare, describe_error, ensure, inputs, load, outputs, refused, shapes};
use crate::{Fixture, Suite, Verdict};

/// Multiples of the fixture's batch for the least, the typical and the greatest shape, and for another
/// between them.
const TIMES: [usize; 4] = [1, 2, 4, 3];

/// Returns the fixture with these batches, in the order of [`TIMES`].
fn batches(model: &Model, fixture: &Fixture) -> Result<[Fixture; 4], Verdict> {
    let batches = TIMES.map(|times| fixture.repeated(model.info(), times));
    match batches {
        [Some(least), Some(typical), Some(greatest), Some(other)] => {
            Ok([least, typical, greatest, other])
        }
        _ => Err(Verdict::NotChecked("its inputs and outputs have no common batch".into())),
    }
}

fn prepare_within(
    model: &Model,
    typical: &Fixture,
    least: &Fixture,
    greatest: &Fixture,
) -> Result<Session, Error> {
    let bounds = ShapeBounds { least: shapes(least), greatest: shapes(greatest) };
    model.prepare_within(&typical.precision, &shapes(typical), &bounds)
}

pub(super) fn within_bounds(suite: &Suite, fixture: &Fixture) -> Result<Verdict, String> {
    let backend = suite.backend()?;
    let model = load(&backend, fixture)?;
    let [least, typical, greatest, other] = match batches(&model, fixture) {
        Ok(batches) => batches,
        Err(verdict) => return Ok(verdict),
    };
    let session = describe_error(prepare_within(&model, &typical, &least, &greatest))?;
    // A session that serves one shape serves the typical one, and gets no other.
    let served: &[&Fixture] = match session.shapes_served() {
        ShapesServed::One => &[&typical],
        ShapesServed::Compiled | ShapesServed::Any => {
            &[&typical, &greatest, &least, &other, &typical]
        }
    };
    for fixture in served {
        let mut call = describe_error(session.call(inputs(&model, fixture)?))?;
        for _ in 0..2 {
            describe_error(call.run())?;
            compare(&outputs(&mut call, fixture)?, fixture).map_err(|detail| {
                let shapes = shapes(fixture);
                format!("with the shapes {shapes:?}, which it serves: {detail}")
            })?;
        }
    }
    // One call with several shapes, whose outputs do not fit the earlier ones.
    if served.len() > 1 {
        let mut call = describe_error(session.call(inputs(&model, &greatest)?))?;
        describe_error(call.run())?;
        for fixture in [&least, &greatest] {
            for (index, tensor) in inputs(&model, fixture)?.into_iter().enumerate() {
                describe_error(call.set_input(index, tensor))?;
            }
            describe_error(call.run())?;
            compare(&outputs(&mut call, fixture)?, fixture)
                .map_err(|detail| format!("after a run with another shape: {detail}"))?;
        }
    }
    Ok(Verdict::Holds)
}

pub(super) fn impossible_bounds(suite: &Suite, fixture: &Fixture) -> Result<Verdict, String> {
    let backend = suite.backend()?;
    let model = load(&backend, fixture)?;
    let [least, typical, greatest, _] = match batches(&model, fixture) {
        Ok(batches) => batches,
        Err(verdict) => return Ok(verdict),
    };
    let wrong = [(&greatest, &greatest, "a least"), (&least, &least, "a greatest")];
    wrong.into_iter().try_for_each(|(low, high, which)| -> Outcome {
        // A backend older than bounds ignores them.
        let prepared = prepare_within(&model, &typical, low, high);
        if prepared.as_ref().is_ok_and(|session| session.shapes_served() == ShapesServed::One) {
            return Ok(());
        }
        let error = refused(prepared, &format!("{which} shape beyond the typical one"))?;
        ensure(error.code == ErrorCode::InvalidArgument, || format!("the code is {}", error.code))
    })?;
    Ok(Verdict::Holds)
}
