//! Modes, the phases of runs, and cancelled calls.

use plugin_api::abi;
use plugin_api::client::{Backend, Error, Model};

use super::{
    Loading, Outcome, compare, describe_error, device, ensure, inputs, load, outputs, path,
    prepare, ready, refused,
};
use crate::{Fixture, Suite, Verdict};

fn load_for(
    backend: &Backend,
    fixture: &Fixture,
    mode: &str,
) -> Result<Result<Model, Error>, String> {
    let device = device(backend, fixture)?;
    let loading = Loading { path: path(fixture)?, device: &device, extra_option: None };
    Ok(loading.load_for(backend, fixture, mode))
}

pub(super) fn load_or_say_why(suite: &Suite, fixture: &Fixture) -> Outcome {
    let backend = suite.backend()?;
    let description = describe_error(backend.describe())?;
    for mode in description.modes() {
        // Not every model can be trained.
        if let Err(error) = load_for(&backend, fixture, mode)? {
            refused::<()>(Err(error), &format!("the mode {mode}"))?;
        }
    }
    Ok(())
}

pub(super) fn phases_make_a_run(suite: &Suite, fixture: &Fixture) -> Result<Verdict, String> {
    let backend = suite.backend()?;
    if backend.extension(abi::MARKS).is_none() {
        return Ok(Verdict::NotChecked(format!("`{}` is not offered", abi::MARKS)));
    }
    let description = describe_error(backend.describe())?;
    for mode in description.modes() {
        let model = describe_error(load_for(&backend, fixture, mode)?)?;
        // A mode may take more inputs, such as the target of a loss, which the fixture does not have.
        if mode != "inference" && model.info().inputs.len() != fixture.inputs.len() {
            continue;
        }
        let session = prepare(&model, fixture)?;
        let phases = describe_error(session.phases().ok_or("the extension is gone")?)?;
        let run = describe_error(session.marked_run().ok_or("the extension is gone")?)?;
        let mut call = describe_error(session.call(inputs(&model, fixture)?))?;
        for _ in 0..3 {
            let mut marks = 0_u64;
            for phase in 0..phases.len().max(1) as u32 {
                describe_error(call.run_phase(run, phase, &mut || marks += 1))?;
            }
        }
        // The result of a training step depends on the steps before it.
        if mode != "training" {
            compare(&outputs(&mut call, fixture)?, fixture)
                .map_err(|detail| format!("in the mode {mode}: {detail}"))?;
        }
        let beyond = phases.len().max(1) as u32;
        refused(call.run_phase(run, beyond, &mut || {}), "a phase that does not exist")?;
    }
    Ok(Verdict::Holds)
}

pub(super) fn evaluating_changes_nothing(
    suite: &Suite,
    fixture: &Fixture,
) -> Result<Verdict, String> {
    let backend = suite.backend()?;
    if backend.extension(abi::TRAINING).is_none() {
        return Ok(Verdict::NotChecked(format!("`{}` is not offered", abi::TRAINING)));
    }
    let mode = "training";
    if !describe_error(backend.describe())?.modes().contains(&mode) {
        return Ok(Verdict::NotChecked(format!("the mode `{mode}` is not offered")));
    }
    let model = describe_error(load_for(&backend, fixture, mode)?)?;
    // The target of a loss is not in the fixture.
    if model.info().inputs.len() != fixture.inputs.len() {
        let reason = "a step takes more inputs than the fixture has";
        return Ok(Verdict::NotChecked(reason.into()));
    }
    let session = prepare(&model, fixture)?;
    let mut call = describe_error(session.call(inputs(&model, fixture)?))?;
    for _ in 0..3 {
        let evaluated = call.evaluate().ok_or("the extension is gone")?;
        describe_error(evaluated)?;
        compare(&outputs(&mut call, fixture)?, fixture)?;
    }
    Ok(Verdict::Holds)
}

pub(super) fn cancelling_is_harmless(suite: &Suite, fixture: &Fixture) -> Result<Verdict, String> {
    let mut ready = ready(suite, fixture)?;
    let Some(canceller) = ready.backend.canceller() else {
        return Ok(Verdict::NotChecked(format!("`{}` is not offered", abi::CANCEL)));
    };
    let canceller = describe_error(canceller)?;
    let asked = std::thread::spawn(move || canceller.cancel());
    describe_error(asked.join().map_err(|_| "the thread that asked panicked")?)?;
    let outcome = |ready: &mut super::Ready| -> Outcome {
        describe_error(ready.call.run())?;
        compare(&outputs(&mut ready.call, fixture)?, fixture)
    };
    outcome(&mut ready).map_err(|detail| format!("after cancelling nothing: {detail}"))?;
    ensure(load(&ready.backend, fixture).is_ok(), || "nothing can be loaded any more".into())?;
    Ok(Verdict::Holds)
}
