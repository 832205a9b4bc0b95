//! The checks. Each opens the backend again. Its name is the statement that must hold.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use plugin_api::abi;
use plugin_api::client::{
    Backend, Call, DataType, Error, ErrorCode, LoadRequest, Model, Session, Tensor, TensorData,
    TensorView, element_count,
};

use crate::fixture::{Fixture, Values, decode, encode};
use crate::{Suite, Verdict, platform};

mod batches;
mod damage;
mod modes;
mod shapes;

/// Result of a helper of the checks: the deviation, if there is one.
type Outcome = Result<(), String>;
type Check = fn(&Suite, &Fixture) -> Verdict;

/// Checks return an [`Outcome`] if they apply to every backend and fixture, or else a verdict.
macro_rules! checks {
    ($($name:literal: $check:path,)+) => {
        pub(crate) const ALL: &[(&str, Check)] =
            &[$(($name, |suite, fixture| Verdict::from($check(suite, fixture)))),+];
    };
}

checks! {
    "the description is complete": description_is_complete,
    "the devices are the same each time, and the fixture's is there": devices_are_stable,
    "argument structs that are too small are refused": small_structs_are_refused,
    "a missing file is an error that names it": missing_file_is_named,
    "an unknown device is an error that names it": unknown_device_is_named,
    "an unknown option is an error that names it": unknown_option_is_named,
    "the model's inputs and outputs are those of the fixture": model_is_described,
    "an unknown precision is an error that names it": unknown_precision_is_named,
    "wrong shapes are errors": wrong_shapes_are_errors,
    "wrong element types are errors": wrong_types_are_errors,
    "a session says what it uses": session_says_what_it_uses,
    "outputs are right": outputs_are_right,
    "outputs are the same each time": outputs_are_deterministic,
    "outputs belong to the inputs of their own run": outputs_are_not_stale,
    "inputs are the same after a run": inputs_are_left_alone,
    "an output can be an input": outputs_become_inputs,
    "tensors come back as they were made": tensors_round_trip,
    "strided elements are read where they are, or refused": strides_are_honoured,
    "enqueued runs are done after synchronising": enqueued_runs_are_done,
    "a run has ended when it returns": run_waits_for_the_device,
    "outputs are complete when a run returns, whatever was in them before": outputs_replace_what_was_there,
    "a long run is not reported as shorter than it is": batches::long_runs_are_waited_for,
    "what extensions tell can be true": extensions_can_be_true,
    "two models work beside each other": models_are_independent,
    "two models with two sessions each work beside each other": sessions_are_independent,
    "several threads are served at once, where that is offered": threads_are_served,
    "calls have any shape within the bounds, or the one that was prepared": shapes::within_bounds,
    "bounds that do not hold the typical shape are errors": shapes::impossible_bounds,
    "each mode that is offered loads a model, or says why not": modes::load_or_say_why,
    "all phases in order do what a run does": modes::phases_make_a_run,
    "evaluating a model that is trained changes nothing": modes::evaluating_changes_nothing,
    "cancelling with nothing under way changes nothing": modes::cancelling_is_harmless,
    "batches of none are right, or refused": batches::empty_batches,
    "large batches are right, or refused": batches::large_batches,
    "what does not fit into memory is an error that says so": batches::absurd_batches,
    "cut-off models are refused or loaded": damage::cut_off_models,
    "models with flipped bits are refused or loaded": damage::flipped_models,
    "a model with data in other files is right, and refused without them": damage::external_data,
    "the backend can be opened again": backend_opens_again,
    "loading and unloading does not grow": cycles_do_not_grow,
    "opening and closing the backend does not grow": backends_do_not_grow,
    "runs do not grow": runs_do_not_grow,
    "errors do not grow": errors_do_not_grow,
}

fn describe_error<T>(result: Result<T, Error>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

/// Returns the expected error.
fn refused<T>(result: Result<T, Error>, what: &str) -> Result<Error, String> {
    match result {
        Ok(_) => Err(format!("{what} was accepted")),
        Err(error) if error.code == ErrorCode::Contract => Err(error.to_string()),
        Err(error) if error.code == ErrorCode::Internal => {
            Err(format!("{what} is not an internal error: {error}"))
        }
        Err(error) if error.message.trim().is_empty() => {
            Err(format!("the error for {what} says nothing"))
        }
        Err(error) => Ok(error),
    }
}

/// Returns the answer of an extension. An error with a message is a gap and not an answer.
fn extension_answer<T>(answer: Option<Result<T, Error>>) -> Result<Option<T>, String> {
    match answer {
        Some(Err(error)) => refused::<()>(Err(error), "what an extension is asked").map(|_| None),
        answer => describe_error(answer.transpose()),
    }
}

fn names(error: &Error, what: &str) -> Outcome {
    if error.message.contains(what) {
        return Ok(());
    }
    Err(format!("the error does not name `{what}`: {error}"))
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(otherwise()) }
}

fn device(backend: &Backend, fixture: &Fixture) -> Result<String, String> {
    let devices = describe_error(backend.devices())?;
    match &fixture.device {
        Some(wanted) => devices.into_iter().find(|device| device.id == *wanted),
        None => devices.into_iter().next(),
    }
    .map(|device| device.id)
    .ok_or_else(|| "the backend does not list the fixture's device".into())
}

/// A load with some arguments replaced.
struct Loading<'a> {
    path: &'a str,
    device: &'a str,
    extra_option: Option<&'a str>,
}

impl Loading<'_> {
    fn load_for(&self, backend: &Backend, fixture: &Fixture, mode: &str) -> Result<Model, Error> {
        let mut options: Vec<(&str, &str)> =
            fixture.options.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        options.extend(self.extra_option.map(|option| (option, "1")));
        let request = LoadRequest {
            path: self.path,
            device: self.device,
            threads: fixture.threads,
            options: &options,
        };
        backend.load_for(mode, &request)
    }
}

fn load_with(backend: &Backend, fixture: &Fixture, loading: &Loading<'_>) -> Result<Model, Error> {
    loading.load_for(backend, fixture, "")
}

fn path(fixture: &Fixture) -> Result<&str, String> {
    fixture.model.to_str().ok_or_else(|| "the model's path is not UTF-8".into())
}

fn load(backend: &Backend, fixture: &Fixture) -> Result<Model, String> {
    let device = device(backend, fixture)?;
    let loading = Loading { path: path(fixture)?, device: &device, extra_option: None };
    describe_error(load_with(backend, fixture, &loading))
}

fn shapes(fixture: &Fixture) -> Vec<Vec<i64>> {
    fixture.inputs.iter().map(|input| input.shape.clone()).collect()
}

fn prepare(model: &Model, fixture: &Fixture) -> Result<Session, String> {
    describe_error(model.prepare(&fixture.precision, &shapes(fixture)))
}

/// Prepares and runs a model, ignores the result, and reads all outputs.
fn attempt(model: &Model, fixture: &Fixture) -> Result<Vec<TensorData>, Error> {
    let session = model.prepare(&fixture.precision, &shapes(fixture))?;
    let tensor = |input: &Values| {
        let data = input.encode().expect("a fixture is checked when it is read");
        model.tensor(data.view())
    };
    let tensors: Result<_, _> = fixture.inputs.iter().map(tensor).collect();
    let mut call = session.call(tensors?)?;
    call.run()?;
    (0..model.info().outputs.len()).map(|index| call.read_output(index)).collect()
}

fn inputs(model: &Model, fixture: &Fixture) -> Result<Vec<Tensor>, String> {
    fixture
        .inputs
        .iter()
        .map(|input| describe_error(model.tensor(input.encode()?.view())))
        .collect()
}

/// Returns other inputs of the same shapes: zeros, which are valid for every element type.
fn zeros(model: &Model, fixture: &Fixture) -> Result<Vec<Tensor>, String> {
    let zero = |input: &Values| {
        let mut data = input.encode()?;
        data.bytes.fill(0);
        describe_error(model.tensor(data.view()))
    };
    fixture.inputs.iter().map(zero).collect()
}

struct Ready {
    call: Call,
    session: Session,
    model: Model,
    backend: Backend,
}

fn ready(suite: &Suite, fixture: &Fixture) -> Result<Ready, String> {
    let backend = suite.backend()?;
    let model = load(&backend, fixture)?;
    let session = prepare(&model, fixture)?;
    let call = describe_error(session.call(inputs(&model, fixture)?))?;
    Ok(Ready { call, session, model, backend })
}

fn outputs(call: &mut Call, fixture: &Fixture) -> Result<Vec<TensorData>, String> {
    (0..fixture.outputs.len()).map(|index| describe_error(call.read_output(index))).collect()
}

fn compare(outputs: &[TensorData], fixture: &Fixture) -> Outcome {
    for (index, (output, expected)) in outputs.iter().zip(&fixture.outputs).enumerate() {
        let (dtype, shape) = (output.dtype.to_string(), &output.shape);
        ensure(dtype == expected.dtype && *shape == expected.shape, || {
            let Values { dtype: wanted, shape: wanted_shape, .. } = expected;
            format!("output {index} is {dtype} {shape:?}, not {wanted} {wanted_shape:?}")
        })?;
        let values = decode(output).ok_or("the output's element type cannot be compared")?;
        for (at, (value, wanted)) in values.iter().zip(&expected.values).enumerate() {
            let right = (value - wanted).abs() <= expected.tolerance || value == wanted;
            ensure(right, || format!("element {at} of output {index} is {value}, not {wanted}"))?;
        }
    }
    Ok(())
}

fn description_is_complete(suite: &Suite, _: &Fixture) -> Outcome {
    let backend = suite.backend()?;
    let description = describe_error(backend.describe())?;
    let version = &description.version;
    semver::Version::parse(version)
        .map_err(|error| format!("the version `{version}` is not semver: {error}"))?;
    for name in &description.extensions {
        ensure(backend.extension(name).is_some(), || {
            format!("the extension `{name}` is listed and not there")
        })?;
    }
    let unknown = backend.extension("nobody/has/this/1");
    ensure(unknown.is_none(), || "an unknown extension is there".into())
}

fn devices_are_stable(suite: &Suite, fixture: &Fixture) -> Outcome {
    let backend = suite.backend()?;
    let devices = describe_error(backend.devices())?;
    ensure(describe_error(backend.devices())? == devices, || "the second answer differs".into())?;
    let id = device(&backend, fixture)?;
    let device = devices.iter().find(|device| device.id == id).ok_or("the device is gone")?;
    ensure(device.precisions.contains(&fixture.precision), || {
        format!("`{id}` does not list the precision `{}`", fixture.precision)
    })
}

fn small_structs_are_refused(suite: &Suite, _: &Fixture) -> Outcome {
    /// Keeps the table alive and reads it raw.
    unsafe extern "C" fn ignore(_: *mut std::ffi::c_void, _: abi::String) {}
    let host = abi::HostApi {
        struct_size: size_of::<abi::HostApi>(),
        abi_major: abi::MAJOR,
        abi_minor: abi::MINOR,
        name: abi::String::borrow("plugin-testkit"),
        version: abi::String::borrow(env!("CARGO_PKG_VERSION")),
        context: std::ptr::null_mut(),
        refuse: Some(ignore),
        progress: None,
    };
    // SAFETY: the creator of the suite guarantees the entry point.
    let table = unsafe { (suite.entry)(&raw const host) };
    if table.is_null() {
        return Err("the entry point returned null".into());
    }
    // SAFETY: as above.
    let api = unsafe { abi::read_sized(table) }.map_err(|error| format!("{error:?}"))?;
    let outcome = refuse_small(&api);
    let mut args =
        abi::DestroyArgs { struct_size: size_of::<abi::DestroyArgs>(), backend: api.backend };
    let destroy = api.destroy.ok_or("`destroy` is null")?;
    // SAFETY: the backend is alive and not used again.
    let error = unsafe { destroy(&raw mut args) };
    outcome?;
    ensure(error.is_null(), || "`destroy` failed".into())
}

/// Calls each function with an argument struct that claims to hold nothing but its size.
fn refuse_small(api: &abi::BackendApi) -> Outcome {
    macro_rules! each {
        ($($name:ident),+) => {$(
            let function = api.$name.ok_or(concat!("`", stringify!($name), "` is null"))?;
            // There is room for the largest argument struct behind the size.
            let mut words = [0_usize; 32];
            words[0] = size_of::<usize>();
            // SAFETY: a callee reads no further than the size.
            let error = unsafe { function(words.as_mut_ptr().cast()) };
            // SAFETY: an error is as the ABI describes it, and this side destroys it.
            let code = unsafe { error.as_ref() }.map(|error| (error.code, error.destroy));
            if let Some((_, Some(destroy))) = code {
                // SAFETY: as above.
                unsafe { destroy(error) };
            }
            ensure(code.is_some_and(|(code, _)| code == abi::error_code::VERSION), || {
                format!("`{}` did not answer with TARE_ERROR_VERSION", stringify!($name))
            })?;
        )+};
    }
    each!(
        describe,
        devices,
        load,
        prepare,
        run,
        synchronise,
        release,
        unload,
        destroy,
        tensor_create,
        tensor_describe,
        tensor_read,
        tensor_destroy
    );
    Ok(())
}

fn missing_file_is_named(suite: &Suite, fixture: &Fixture) -> Outcome {
    let backend = suite.backend()?;
    let device = device(&backend, fixture)?;
    let path = "/nowhere/there-is-no-such-file.onnx";
    let loading = Loading { path, device: &device, extra_option: None };
    let error = refused(load_with(&backend, fixture, &loading), "a missing file")?;
    names(&error, "there-is-no-such-file.onnx")?;
    ensure(error.code == ErrorCode::NotFound, || format!("the code is {}", error.code))
}

fn unknown_device_is_named(suite: &Suite, fixture: &Fixture) -> Outcome {
    let backend = suite.backend()?;
    let loading = Loading { path: path(fixture)?, device: "no-such-device:7", extra_option: None };
    let error = refused(load_with(&backend, fixture, &loading), "an unknown device")?;
    names(&error, "no-such-device:7")?;
    ensure(error.code == ErrorCode::NotFound, || format!("the code is {}", error.code))
}

fn unknown_option_is_named(suite: &Suite, fixture: &Fixture) -> Outcome {
    let backend = suite.backend()?;
    let device = device(&backend, fixture)?;
    let option = Some("no-such-option");
    let loading = Loading { path: path(fixture)?, device: &device, extra_option: option };
    let error = refused(load_with(&backend, fixture, &loading), "an unknown option")?;
    names(&error, "no-such-option")
}

fn model_is_described(suite: &Suite, fixture: &Fixture) -> Outcome {
    let backend = suite.backend()?;
    let model = load(&backend, fixture)?;
    let info = model.info();
    let counts = (info.inputs.len(), info.outputs.len());
    let wanted = (fixture.inputs.len(), fixture.outputs.len());
    ensure(counts == wanted, || format!("inputs and outputs are {counts:?}, not {wanted:?}"))?;
    for tensors in [&info.inputs, &info.outputs] {
        let names: BTreeSet<_> = tensors.iter().map(|tensor| &tensor.name).collect();
        ensure(names.len() == tensors.len(), || format!("names are not unique: {names:?}"))?;
        ensure(!names.iter().any(|name| name.is_empty()), || "a name is empty".into())?;
    }
    Ok(())
}

/// Elements of a wrong type are refused, unless the backend converts them correctly.
fn wrong_types_are_errors(suite: &Suite, fixture: &Fixture) -> Outcome {
    let mut ready = ready(suite, fixture)?;
    let right = inputs(&ready.model, fixture)?;
    for (index, input) in fixture.inputs.iter().enumerate() {
        let Some(count) = element_count(&input.shape) else { continue };
        for dtype in DataType::ALL.iter().filter(|dtype| dtype.to_string() != input.dtype) {
            let Some(bytes) = encode(*dtype, &vec![1.0; count]) else { continue };
            let data = TensorData { dtype: *dtype, shape: input.shape.clone(), bytes };
            let what = format!("{dtype} for {} as input {index}", input.dtype);
            suite.note(&what);
            let tensor = match ready.model.tensor(data.view()) {
                Ok(tensor) if tensor.dtype() == right[index].dtype() => continue,
                Ok(tensor) => tensor,
                Err(error) => {
                    refused::<()>(Err(error), &what)?;
                    continue;
                }
            };
            let mut others = right.clone();
            others[index] = tensor;
            refused(ready.session.call(others).and_then(|mut call| call.run()), &what)?;
        }
    }
    describe_error(ready.call.run())?;
    compare(&outputs(&mut ready.call, fixture)?, fixture)
        .map_err(|detail| format!("after wrong types were refused: {detail}"))
}

fn unknown_precision_is_named(suite: &Suite, fixture: &Fixture) -> Outcome {
    let backend = suite.backend()?;
    let model = load(&backend, fixture)?;
    let shapes = shapes(fixture);
    let error = refused(model.prepare("fp0", &shapes), "an unknown precision")?;
    names(&error, "fp0")
}

fn wrong_shapes_are_errors(suite: &Suite, fixture: &Fixture) -> Outcome {
    let backend = suite.backend()?;
    let model = load(&backend, fixture)?;
    let shapes = shapes(fixture);
    let mut more = shapes.clone();
    more.push(vec![1]);
    refused(model.prepare(&fixture.precision, &more), "a shape too many")?;
    for (index, info) in model.info().inputs.iter().enumerate() {
        let Some(dimensions) = &info.dimensions else { continue };
        let mut deeper = shapes.clone();
        deeper[index].push(1);
        refused(model.prepare(&fixture.precision, &deeper), "an axis too many")?;
        for (axis, dimension) in dimensions.iter().enumerate() {
            let mut other = shapes.clone();
            other[index][axis] += 1;
            if matches!(dimension, plugin_api::client::Dimension::Fixed(_)) {
                refused(model.prepare(&fixture.precision, &other), "another size of a fixed axis")?;
            }
            other[index][axis] = -2;
            refused(model.prepare(&fixture.precision, &other), "a negative size")?;
        }
    }
    Ok(())
}

fn session_says_what_it_uses(suite: &Suite, fixture: &Fixture) -> Outcome {
    let ready = ready(suite, fixture)?;
    let used = ready.session.used();
    let keys: BTreeSet<_> = used.iter().map(|(key, _)| key).collect();
    ensure(keys.len() == used.len(), || format!("keys are not unique: {used:?}"))?;
    let value = |wanted: &str| used.iter().find(|(key, _)| key == wanted).map(|(_, value)| value);
    ensure(value("precision").is_some(), || "`precision` is missing".into())?;
    let threads = value("threads");
    ensure(threads.is_none_or(|threads| threads.parse::<u32>().is_ok()), || {
        format!("`threads` is not a number: {threads:?}")
    })
}

fn outputs_are_right(suite: &Suite, fixture: &Fixture) -> Outcome {
    let mut ready = ready(suite, fixture)?;
    describe_error(ready.call.run())?;
    describe_error(ready.call.check_outputs())?;
    compare(&outputs(&mut ready.call, fixture)?, fixture)
}

fn inputs_are_left_alone(suite: &Suite, fixture: &Fixture) -> Outcome {
    let mut ready = ready(suite, fixture)?;
    let read = |call: &Call| -> Result<Vec<TensorData>, String> {
        (0..fixture.inputs.len()).map(|index| describe_error(call.read_input(index))).collect()
    };
    let before = read(&ready.call)?;
    for run in 1..=2 {
        describe_error(ready.call.run())?;
        let changed =
            read(&ready.call)?.iter().zip(&before).position(|(now, before)| now != before);
        ensure(changed.is_none(), || {
            format!("run {run} wrote to input {}", changed.unwrap_or_default())
        })?;
    }
    Ok(())
}

fn outputs_are_deterministic(suite: &Suite, fixture: &Fixture) -> Outcome {
    let mut first = ready(suite, fixture)?;
    describe_error(first.call.run())?;
    let expected = outputs(&mut first.call, fixture)?;
    for again in 1..=5 {
        describe_error(first.call.run())?;
        let now = outputs(&mut first.call, fixture)?;
        ensure(now == expected, || format!("repetition {again} gave other bits"))?;
    }
    let second = prepare(&first.model, fixture)?;
    let mut call = describe_error(second.call(inputs(&first.model, fixture)?))?;
    describe_error(call.run())?;
    let now = outputs(&mut call, fixture)?;
    ensure(now == expected, || "another session gave other bits".into())
}

fn outputs_are_not_stale(suite: &Suite, fixture: &Fixture) -> Outcome {
    let mut ready = ready(suite, fixture)?;
    let mut other = describe_error(ready.session.call(zeros(&ready.model, fixture)?))?;
    describe_error(ready.call.run())?;
    describe_error(other.run())?;
    let before = outputs(&mut other, fixture)?;
    compare(&outputs(&mut ready.call, fixture)?, fixture)
        .map_err(|detail| format!("another run changed the outputs of this one: {detail}"))?;
    describe_error(ready.call.run())?;
    compare(&outputs(&mut ready.call, fixture)?, fixture)
        .map_err(|detail| format!("after another run: {detail}"))?;
    ensure(outputs(&mut other, fixture)? == before, || {
        "a run changed the outputs of another call".into()
    })?;

    // The same with changing inputs of one call, whose outputs are overwritten.
    for (index, tensor) in zeros(&ready.model, fixture)?.into_iter().enumerate() {
        describe_error(ready.call.set_input(index, tensor))?;
    }
    describe_error(ready.call.run())?;
    let now = outputs(&mut ready.call, fixture)?;
    ensure(now == before, || "outputs that are written again differ from new ones".into())
}

fn outputs_become_inputs(suite: &Suite, fixture: &Fixture) -> Outcome {
    let mut ready = ready(suite, fixture)?;
    describe_error(ready.call.run())?;
    let pairs: Vec<_> = (0..fixture.inputs.len())
        .flat_map(|input| (0..fixture.outputs.len()).map(move |output| (input, output)))
        .filter(|&(input, output)| {
            let (input, output) = (&fixture.inputs[input], &fixture.outputs[output]);
            input.dtype == output.dtype && input.shape == output.shape
        })
        .collect();
    for (input, output) in pairs {
        let copied = describe_error(ready.call.read_output(output))?;
        let mut by_copy = describe_error(ready.session.call(inputs(&ready.model, fixture)?))?;
        describe_error(
            by_copy.set_input(input, describe_error(ready.model.tensor(copied.view()))?),
        )?;
        describe_error(by_copy.run())?;
        let expected = outputs(&mut by_copy, fixture)?;

        let mut by_handle = describe_error(ready.session.call(inputs(&ready.model, fixture)?))?;
        describe_error(
            by_handle.set_input(input, describe_error(ready.call.take_output(output))?),
        )?;
        describe_error(ready.call.run())?;
        describe_error(by_handle.run())?;
        ensure(outputs(&mut by_handle, fixture)? == expected, || {
            format!("output {output} as input {input} differs from a copy of it")
        })?;
    }
    Ok(())
}

fn tensors_round_trip(suite: &Suite, fixture: &Fixture) -> Outcome {
    let backend = suite.backend()?;
    let model = load(&backend, fixture)?;
    let round_trip = |data: &TensorData| -> Outcome {
        let read = describe_error(describe_error(model.tensor(data.view()))?.read())?;
        let same = if read.dtype == data.dtype {
            read.bytes == data.bytes
        } else {
            decode(&read).is_some() && decode(&read) == decode(data)
        };
        ensure(same && read.shape == data.shape, || {
            format!("{} {:?} came back as {} {:?}", data.dtype, data.shape, read.dtype, read.shape)
        })
    };
    for input in &fixture.inputs {
        round_trip(&input.encode()?)?;
    }
    let numbers = [0.0, 1.0, 1.0, 0.0, 2.0, 5.0];
    for dtype in DataType::ALL {
        let Some(bytes) = encode(*dtype, &numbers) else { continue };
        let data = TensorData { dtype: *dtype, shape: vec![2, 3], bytes };
        match model.tensor(data.view()) {
            Ok(_) => round_trip(&data)?,
            Err(error) => drop(refused::<()>(Err(error), "an element type")?),
        }
    }
    Ok(())
}

fn strides_are_honoured(suite: &Suite, fixture: &Fixture) -> Outcome {
    let backend = suite.backend()?;
    let model = load(&backend, fixture)?;
    for input in &fixture.inputs {
        let dtype = input.encode()?.dtype;
        let size = dtype.size();
        // Three rows of two, laid out by columns, with an element between neighbours.
        let numbers = [0.0, 9.0, 2.0, 9.0, 4.0, 9.0, 1.0, 9.0, 3.0, 9.0, 5.0];
        let Some(bytes) = encode(dtype, &numbers) else { continue };
        let (shape, strides) = ([3, 2], [2, 6]);
        let view = TensorView { dtype, shape: &shape, strides: Some(&strides), bytes: &bytes };
        let tensor = match model.tensor(view) {
            Ok(tensor) => tensor,
            Err(error) if error.code == ErrorCode::Unsupported => continue,
            Err(error) => return Err(error.to_string()),
        };
        let read =
            decode(&describe_error(tensor.read())?).ok_or("the element type cannot be compared")?;
        ensure(
            read == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0] || size == 0 || dtype == DataType::BOOL,
            || format!("0 to 5, laid out by columns, came back as {read:?}"),
        )?;
    }
    Ok(())
}

fn enqueued_runs_are_done(suite: &Suite, fixture: &Fixture) -> Outcome {
    let mut ready = ready(suite, fixture)?;
    let mut other = describe_error(ready.session.call(zeros(&ready.model, fixture)?))?;
    for _ in 0..3 {
        describe_error(ready.call.enqueue())?;
        describe_error(other.enqueue())?;
    }
    describe_error(ready.session.synchronise())?;
    compare(&outputs(&mut ready.call, fixture)?, fixture)?;
    describe_error(ready.session.synchronise())
        .map_err(|detail| format!("synchronising with nothing queued: {detail}"))
}

/// Number of times that a run is timed; the fastest counts.
const TIMED_RUNS: usize = 7;
/// Shorter work cannot be distinguished from the machine's noise.
const LEAST_WORK: Duration = Duration::from_millis(1);

fn run_waits_for_the_device(suite: &Suite, fixture: &Fixture) -> Outcome {
    run_waits(&mut ready(suite, fixture)?, fixture)
}

fn run_waits(ready: &mut Ready, fixture: &Fixture) -> Outcome {
    let (mut run, mut rest) = (Duration::MAX, Duration::MAX);
    for _ in 0..TIMED_RUNS {
        describe_error(ready.session.synchronise())?;
        let started = Instant::now();
        describe_error(ready.call.run())?;
        let returned = Instant::now();
        describe_error(ready.session.synchronise())?;
        outputs(&mut ready.call, fixture)?;
        let complete = Instant::now();
        outputs(&mut ready.call, fixture)?;
        let copied = complete.elapsed();
        run = run.min(returned - started);
        rest = rest.min((complete - returned).saturating_sub(copied));
    }
    ensure(rest < LEAST_WORK || rest < run, || {
        format!("`run` took {run:?}, and waiting for its outputs took {rest:?} more")
    })
}

/// Before a run, outputs hold the results of other inputs: a backend that returns too early leaves them unchanged.
/// The work is too long to finish by chance.
fn outputs_replace_what_was_there(suite: &Suite, fixture: &Fixture) -> Result<Verdict, String> {
    let (mut ready, fixture) = batches::long_work(suite, fixture)?;
    for round in 1..=3 {
        for (index, tensor) in zeros(&ready.model, &fixture)?.into_iter().enumerate() {
            describe_error(ready.call.set_input(index, tensor))?;
        }
        describe_error(ready.call.run())?;
        describe_error(ready.session.synchronise())?;
        if compare(&outputs(&mut ready.call, &fixture)?, &fixture).is_ok() {
            let reason = "zeros give the fixture's outputs, so nothing would be seen";
            return Ok(Verdict::NotChecked(reason.into()));
        }
        for (index, tensor) in inputs(&ready.model, &fixture)?.into_iter().enumerate() {
            describe_error(ready.call.set_input(index, tensor))?;
        }
        describe_error(ready.call.run())?;
        compare(&outputs(&mut ready.call, &fixture)?, &fixture)
            .map_err(|detail| format!("read at once in round {round}: {detail}"))?;
    }
    Ok(Verdict::Holds)
}

/// Checks the offered extensions that Tare defines.
fn extensions_can_be_true(suite: &Suite, fixture: &Fixture) -> Outcome {
    let mut ready = ready(suite, fixture)?;
    let device = device(&ready.backend, fixture)?;
    let energy = |backend: &Backend| backend.device_energy(&device).map(describe_error).transpose();
    let before = energy(&ready.backend)?;
    describe_error(ready.call.run())?;
    let after = energy(&ready.backend)?;
    ensure(after >= before, || {
        format!("the device's counter of energy went from {before:?} µJ back to {after:?} µJ")
    })?;
    // The host's side checks that the figures are possible and that the peak is not below the memory in use.
    extension_answer(ready.backend.device_memory(&device))?;
    extension_answer(ready.session.allocator_use())?;
    state_is_told_while_running(&mut ready, &device)?;
    stages_can_be_true(&mut ready)?;
    device_time_can_be_true(&mut ready)?;
    profile_can_be_true(&mut ready)?;
    describe_error(ready.call.run())?;
    compare(&outputs(&mut ready.call, fixture)?, fixture)
}

/// Another thread asks for the device's state while this one runs.
fn state_is_told_while_running(ready: &mut Ready, device: &str) -> Outcome {
    const READINGS: usize = 10;
    let Some(reader) = ready.backend.device_state(device) else { return Ok(()) };
    let reader = describe_error(reader)?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| (0..READINGS).try_for_each(|_| reader.read().map(drop)));
        while !thread.is_finished() {
            describe_error(ready.call.run())?;
            describe_error(ready.session.synchronise())?;
        }
        extension_answer(thread.join().ok()).map(drop)
    })
}

fn stages_can_be_true(ready: &mut Ready) -> Outcome {
    let started = Instant::now();
    let Some(stages) = ready.call.run_in_stages() else { return Ok(()) };
    let elapsed = started.elapsed();
    let stages = describe_error(stages)?;
    let sum = [stages.copy_in_ns, stages.compute_ns, stages.copy_out_ns]
        .iter()
        .fold(0, |sum: u64, stage| sum.saturating_add(*stage));
    ensure(u128::from(sum) <= elapsed.as_nanos(), || {
        format!("the stages of a run took {sum} ns, and the run took {elapsed:?}")
    })
}

/// The device must not be busy for longer than the run takes, and no plain run may return in a fraction of the
/// device's time.
fn device_time_can_be_true(ready: &mut Ready) -> Outcome {
    let (mut plain, mut busy) = (Duration::MAX, Duration::MAX);
    for _ in 0..TIMED_RUNS {
        let started = Instant::now();
        let Some(device_ns) = ready.call.run_timed() else { return Ok(()) };
        let elapsed = started.elapsed();
        let device = Duration::from_nanos(describe_error(device_ns)?);
        ensure(device <= elapsed, || {
            format!("the device was busy for {device:?} with a run that took {elapsed:?}")
        })?;
        busy = busy.min(device);
        describe_error(ready.session.synchronise())?;
        let started = Instant::now();
        describe_error(ready.call.run())?;
        plain = plain.min(started.elapsed());
        describe_error(ready.session.synchronise())?;
    }
    ensure(busy < LEAST_WORK || plain >= busy / 2, || {
        format!("`run` took {plain:?}, and the device needs {busy:?} for it")
    })
}

fn profile_can_be_true(ready: &mut Ready) -> Outcome {
    let started = Instant::now();
    let operators = extension_answer(ready.call.profile())?;
    let elapsed = started.elapsed();
    let Some(operators) = operators else { return Ok(()) };
    ensure(operators.is_sorted_by_key(|operator| operator.start_ns), || {
        "the operators of a profile are not in order of start".into()
    })?;
    operators.iter().try_for_each(|operator| {
        let end_ns = operator.start_ns.saturating_add(operator.duration_ns);
        ensure(u128::from(end_ns) <= elapsed.as_nanos(), || {
            let name = &operator.name;
            format!("operator `{name}` ended {end_ns} ns into a profile that took {elapsed:?}")
        })
    })
}

fn models_are_independent(suite: &Suite, fixture: &Fixture) -> Outcome {
    let mut first = ready(suite, fixture)?;
    let model = load(&first.backend, fixture)?;
    let session = prepare(&model, fixture)?;
    let mut call = describe_error(session.call(zeros(&model, fixture)?))?;
    describe_error(first.call.run())?;
    describe_error(call.run())?;
    compare(&outputs(&mut first.call, fixture)?, fixture)?;
    drop((call, session, model));
    describe_error(first.call.run())?;
    compare(&outputs(&mut first.call, fixture)?, fixture)
        .map_err(|detail| format!("after another model was unloaded: {detail}"))
}

/// Each session has another batch than the previous one, if the model allows that.
fn sessions_are_independent(suite: &Suite, fixture: &Fixture) -> Outcome {
    let backend = suite.backend()?;
    let models = [load(&backend, fixture)?, load(&backend, fixture)?];
    let mut sessions = Vec::new();
    for times in 1..=2 {
        for model in &models {
            let times = times + sessions.len();
            let fixture = fixture.repeated(model.info(), times).unwrap_or_else(|| fixture.clone());
            let session = prepare(model, &fixture)?;
            let call = describe_error(session.call(inputs(model, &fixture)?))?;
            sessions.push((fixture, session, call));
        }
    }
    for round in 1..=2 {
        for (number, (fixture, _, call)) in sessions.iter_mut().enumerate() {
            describe_error(call.run())
                .and_then(|()| compare(&outputs(call, fixture)?, fixture))
                .map_err(|detail| format!("session {number} in round {round}: {detail}"))?;
        }
    }
    for (_, _, call) in &mut sessions {
        describe_error(call.enqueue())?;
    }
    // The last one ends first: no session may depend on another's end.
    while let Some((fixture, session, mut call)) = sessions.pop() {
        describe_error(session.synchronise())?;
        compare(&outputs(&mut call, &fixture)?, &fixture)
            .map_err(|detail| format!("session {} of those enqueued: {detail}", sessions.len()))?;
    }
    Ok(())
}

fn threads_are_served(suite: &Suite, fixture: &Fixture) -> Result<Verdict, String> {
    const THREADS: usize = 4;
    const RUNS: usize = 50;
    let backend = suite.backend()?;
    let model = load(&backend, fixture)?;
    let Some(shared) = model.on_threads() else {
        return Ok(Verdict::NotChecked(format!("`{}` is not offered", abi::EXTENSION_THREADS)));
    };
    let work = || -> Outcome {
        let model = shared.here();
        let session = prepare(model, fixture)?;
        let mut call = describe_error(session.call(inputs(model, fixture)?))?;
        for _ in 0..RUNS {
            describe_error(call.run())?;
            compare(&outputs(&mut call, fixture)?, fixture)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| -> Outcome {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err("a thread panicked".into()))
        })
    })?;
    Ok(Verdict::Holds)
}

fn backend_opens_again(suite: &Suite, fixture: &Fixture) -> Outcome {
    for _ in 0..3 {
        outputs_are_right(suite, fixture)?;
    }
    Ok(())
}

/// Number of times that memory is sampled in each half of the repetitions of [`does_not_grow`].
const LOOKS: u64 = 5;

/// Repeats `body` twice as often as given, and limits the memory that each repetition leaves behind.
fn does_not_grow(repetitions: u64, limit: u64, mut body: impl FnMut() -> Outcome) -> Outcome {
    platform::keep_little_free();
    // Allocators and caches settle first.
    for _ in 0..repetitions / 4 + 1 {
        body()?;
    }
    let mut held = Vec::new();
    for _ in 0..2 * LOOKS {
        for _ in 0..repetitions.div_ceil(LOOKS) {
            body()?;
        }
        held.extend(platform::own_bytes());
    }
    // An allocator may always keep some pages.
    let slack = 2 << 20;
    let grown = growth(&held);
    ensure(grown <= repetitions * limit + slack, || {
        format!("memory grew by {grown} bytes in {repetitions} repetitions")
    })
}

/// Returns by how much the median of memory in the second half exceeds the median of the first. Half of the
/// repetitions lie between the two.
///
/// Leaked memory is never freed, so it is in every sample. Memory that a driver's threads hold while they
/// work, or free later, is only in some.
fn growth(held: &[u64]) -> u64 {
    let (first, second) = held.split_at(held.len() / 2);
    let median = |values: &[u64]| {
        let mut values = values.to_vec();
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or(0)
    };
    median(second).saturating_sub(median(first))
}

/// Number of times that a load is repeated; fewer if a backend compiles for seconds.
const CYCLES: f64 = 100.0;
const FEWEST_CYCLES: f64 = 15.0;
const LONGEST_CYCLES: Duration = Duration::from_secs(120);
/// Memory that a load may leave behind. Allocators always keep some pages; a leaked model is larger.
const CYCLE_LIMIT: u64 = 64 << 10;

/// Loads and unloads a hundred times. After the first fifth, which fills caches, memory must fall back to
/// its level. Free memory of the C library and pages of files do not count: see [`platform`].
fn levels_off(mut cycle: impl FnMut() -> Outcome) -> Result<Verdict, String> {
    platform::keep_little_free();
    // The first is slower than the others.
    cycle()?;
    let started = Instant::now();
    cycle()?;
    let cycles = LONGEST_CYCLES.div_duration_f64(started.elapsed()).clamp(FEWEST_CYCLES, CYCLES);
    let cycles = cycles as usize;
    let mut held = Vec::new();
    for done in 2..cycles {
        cycle().map_err(|detail| format!("repetition {done}: {detail}"))?;
        if done >= cycles / 5 {
            held.extend(platform::own_bytes());
        }
    }
    if held.is_empty() {
        return Ok(Verdict::NotChecked("this system does not say what memory is in use".into()));
    }
    let each = growth(&held) / (held.len() as u64 / 2).max(1);
    ensure(each <= CYCLE_LIMIT, || {
        format!("each repetition keeps {each} bytes, by the last {} of them", held.len())
    })?;
    Ok(Verdict::Holds)
}

fn cycle(backend: &Backend, fixture: &Fixture) -> Outcome {
    let model = load(backend, fixture)?;
    let session = prepare(&model, fixture)?;
    let mut call = describe_error(session.call(inputs(&model, fixture)?))?;
    describe_error(call.run())?;
    compare(&outputs(&mut call, fixture)?, fixture)
}

fn cycles_do_not_grow(suite: &Suite, fixture: &Fixture) -> Result<Verdict, String> {
    let backend = suite.backend()?;
    levels_off(|| cycle(&backend, fixture))
}

fn backends_do_not_grow(suite: &Suite, fixture: &Fixture) -> Result<Verdict, String> {
    levels_off(|| cycle(&suite.backend()?, fixture))
}

fn runs_do_not_grow(suite: &Suite, fixture: &Fixture) -> Outcome {
    let mut ready = ready(suite, fixture)?;
    let started = Instant::now();
    describe_error(ready.call.run())?;
    // As many as fit into a short time.
    let runs = Duration::from_millis(200).div_duration_f64(started.elapsed()).clamp(10.0, 1000.0);
    does_not_grow(runs as u64, 64, || {
        describe_error(ready.call.run())?;
        describe_error(ready.call.take_output(0)).map(drop)
    })
}

fn errors_do_not_grow(suite: &Suite, fixture: &Fixture) -> Outcome {
    let backend = suite.backend()?;
    let device = device(&backend, fixture)?;
    let path = format!("/nowhere/{}", "a-long-name".repeat(80));
    let loading = Loading { path: &path, device: &device, extra_option: None };
    does_not_grow(5_000, 64, || {
        refused(load_with(&backend, fixture, &loading), "a missing file").map(drop)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_growth_is_found_and_outliers_are_not_growth() {
        let steady: Vec<u64> = (0..80).map(|look| 1000 + 10 * look).collect();
        assert_eq!(growth(&steady), 400);
        let level = [1000_u64; 80];
        assert_eq!(growth(&level), 0);
        for (at, odd) in [(3, 0), (3, 9000), (77, 0), (77, 9000)] {
            let (mut steady, mut level) = (steady.clone(), level);
            (steady[at], level[at]) = (odd, odd);
            assert!(growth(&steady).abs_diff(400) <= 10, "{odd} at {at}");
            assert_eq!(growth(&level), 0, "{odd} at {at}");
        }
    }
}
