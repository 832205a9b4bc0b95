//! One case, from opening the plugin to the report.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use host_machine::Machine;
use host_measure::{Clock, Crew, MeasureError, Meter, SystemClock, Target, calibrate};
use host_record::protocol::Message;
use host_record::{
    AllocatorUse, CaseSpec, Conditions, Failure, Gap, GapKind, InvalidReason, Limit, Phase,
    Placement, PlacementRule, Timings, Warning, WarningKind, WorkerReport,
};
use host_statistics::median;
use plugin_api::abi::OPTION_PLACEMENT;
use plugin_api::client::{Call, LoadRequest, Model, Session, Tensor, TensorData};

use crate::backend::BackendTarget;
use crate::connection::Connection;
use crate::examples::Examples;
use crate::failure::{self, Stop, input};
use crate::lanes::Lanes;
use crate::library::Library;
use crate::load::{self, Alone, Load, Watched};
use crate::outputs::NotNumbers;
use crate::oversubscription::{Beforehand, Demand};
use crate::surroundings::{not_offered, refused};
use crate::warnings::Evidence;
use crate::{
    clock, device_state, device_time, early, hash, outputs, parity, pinning, profile, reference,
    stages,
};

/// Samples leave the worker at least this often, so that a crash costs no more of them.
const LONGEST_BLOCK: Duration = Duration::from_secs(1);

/// Measures a case.
pub(crate) fn measure(
    connection: &mut Connection,
    case: &CaseSpec,
    reference: Option<&Path>,
) -> Result<WorkerReport, Stop> {
    let interval = Duration::from_nanos(case.measure.timeout_ns / 10);
    // Before anything is timed: what was hashed when the run was planned is what is measured.
    let library = Library::check(&case.plugin_library, known(&case.plugin.sha256))?;
    check_model(connection, case, interval)?;
    // Before the clock is measured, which may differ from processor to processor, and before the
    // plugin is opened, whose threads inherit it.
    let scheduling = pinning::pin(case, &Machine::this())?;
    let beforehand = Beforehand::start(&Machine::this());
    let clock = SystemClock::new();
    let calibration =
        calibrate(&clock).map_err(|error| Failure::Impossible { detail: error.to_string() })?;
    let longest_block = interval.min(LONGEST_BLOCK).as_nanos() as u64;
    let mut meter = Meter::new(&clock, Meter::<SystemClock>::BLOCK, longest_block);
    let baseline_memory_bytes = Machine::this().resident_memory();
    let mut stage = Stage { connection, clock: &clock };

    let (backend, open_ns) = stage.time(Phase::Open, || library.open())?;
    let description = backend.describe().map_err(failure::backend(Phase::Open))?;

    let mut options: Vec<_> =
        case.options.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    if case.placement == PlacementRule::Strict {
        options.push((OPTION_PLACEMENT, case.placement.name()));
    }
    let path = case.model_path.to_str().ok_or_else(|| {
        input(format!("the model's path is not UTF-8: {}", case.model_path.display()))
    })?;
    let request =
        LoadRequest { path, device: &case.key.device, threads: case.threads, options: &options };
    let (model, load_ns) = stage
        .time(Phase::Load, || backend.load(&request).map_err(failure::backend(Phase::Load)))?;

    stage.connection.enter(Phase::Inputs)?;
    let mut examples = Examples::new(case, model.info())?;
    let mut resident = Vec::new();
    for index in 0..examples.resident_batches() {
        resident.push(tensors(&model, &examples.batch(index)?, Phase::Inputs)?);
        stage.connection.progress(interval)?;
    }

    let (session, prepare_ns) = stage.time(Phase::Prepare, || {
        let precision = case.key.precision.name();
        model.prepare(precision, &examples.shapes()).map_err(failure::backend(Phase::Prepare))
    })?;
    let mut used: BTreeMap<_, _> = session.used().iter().cloned().collect();
    // Who it is was said by the library, and is not a session's to say. Which of its engines runs this
    // model is.
    used.extend([
        ("plugin".to_owned(), description.id),
        ("plugin-version".to_owned(), description.version),
    ]);
    if !used.contains_key("engine") {
        used.insert("engine".to_owned(), description.engine);
    }
    if !used.contains_key("engine-version") {
        used.insert("engine-version".to_owned(), description.engine_version);
    }
    let calls: Result<Vec<Call>, _> =
        resident.into_iter().map(|inputs| session.call(inputs)).collect();
    let calls = calls.map_err(failure::backend(Phase::Prepare))?;
    let checked = match &case.check {
        Some(_) => Some(reference::calls(&model, &session, &examples.different_batches()?)?),
        None => None,
    };
    let mut target = BackendTarget::new(session, calls);

    let ((), first_run_ns) =
        stage.time(Phase::FirstRun, || target.run().map_err(failure::backend(Phase::FirstRun)))?;
    target.check_outputs().map_err(failure::backend(Phase::FirstRun))?;
    let mut parity = None;
    let mut expected = Vec::new();
    if let (Some(check), Some(calls)) = (&case.check, checked) {
        stage.connection.enter(Phase::Check)?;
        expected = reference::expected(reference)?;
        let found = reference::answers(&model, calls)?;
        parity = Some(parity::compare(check, case.key.precision, &expected, &found)?);
    }

    let mut load = Load::new(case, &examples)?;
    let others = beforehand.others();
    let connection = &mut *stage.connection;
    let lanes = load.lanes();
    let watched = Watched { clock: &clock, backend: &backend, scheduling: &scheduling };
    let measured = match lanes.get() {
        1 => {
            let runner = Alone { meter: &mut meter, target: &mut target };
            load.run(&mut load::Stage { connection, runner, watched }, first_run_ns)
        }
        _ => {
            let targets = Lanes::new(&model, case, &mut examples)?;
            let run = |crew: &mut Crew<'_, _, _>| {
                let mut stage = load::Stage { connection: &mut *connection, runner: crew, watched };
                load.run(&mut stage, first_run_ns)
            };
            meter
                .with_crew(lanes, |lane| targets.target(lane), run)
                .map_err(failure::backend(Phase::Prepare))?
        }
    }?;
    let (mut conditions, mut disturbances) = measured.surroundings;
    // Before the outputs are collected, which needs memory of its own.
    let peak_memory_bytes = Machine::this().peak_memory();
    let typical_ns = median(measured.latencies.kept()).unwrap_or(0.0);
    let runs = early::look(stage.connection, &clock, &mut target, typical_ns, interval)?;
    let timed = target.first_outputs(model.info());
    // As with the runs above, a backend that fails now has done what it was asked for.
    let of_outputs = timed.iter().flatten();
    let mut not_numbers: Vec<_> =
        of_outputs.map(|(name, data)| NotNumbers::of(name, data)).collect();
    let session = target.into_session();
    if let Some(memory) = &mut conditions.memory {
        memory.allocator = Some(allocator_use(&session));
    }
    // What was timed has to be what was checked: a backend may have gone wrong since.
    if let Some(check) = &case.check {
        stage.connection.enter(Phase::Check)?;
        let timed = timed.map_err(failure::backend(Phase::Check))?;
        let calls = reference::calls(&model, &session, &examples.different_batches()?)?;
        let again = reference::answers(&model, calls)?;
        for (expected, found) in [(&expected[..1], &[timed][..]), (&expected, &again)] {
            parity::compare(check, case.key.precision, expected, found)
                .map_err(parity::after_measuring)?;
        }
    }
    let device_states = match measured.device {
        Some(Ok((states, samples))) => {
            disturbances.extend(device_state::warning(&states));
            conditions.device_state = Some(Ok(states));
            samples
        }
        Some(Err(gap)) => {
            let evidence =
                format!("The device was to be looked at meanwhile, and was not: {}.", gap.reason);
            disturbances.push(Warning { kind: WarningKind::NotAsAsked, evidence });
            conditions.device_state = Some(Err(gap));
            Vec::new()
        }
        None => Vec::new(),
    };

    let evidence = Evidence {
        case,
        calibration,
        rule: measured.rule,
        summary: measured.summary,
        latencies: measured.latencies.kept(),
        stride: measured.latencies.stride(),
        in_a_row: measured.first_client.row(load.lanes().get()),
        warm_up: measured.warm_up,
        before: measured.before,
        after: measured.after,
        used: &used,
    };
    let mut verdict = measured.verdict;
    let mut warnings = evidence.warnings();
    if let Some(warning) = early::warning(&runs, typical_ns) {
        warnings.push(warning);
        verdict.reasons.push(early::reason());
    }
    let quota = Machine::this().processor_quota().and_then(Limit::at);
    let demand = Demand::of(case, &used, &scheduling, quota, others);
    warnings.extend(demand.and_then(|demand| demand.warning()));
    warnings.extend(disturbances);
    let clock_facts = clock::facts(&calibration, &Machine::this());
    warnings.extend(clock::slow(&clock_facts));

    stage.connection.enter(Phase::Stages)?;
    let first_batch = examples.batch(0)?;
    conditions.stages = Some(stages::stages(&clock, &model, &session, &first_batch));
    let pairs = device_time::pairs(&clock, &model, &session, &first_batch);
    verdict.reasons.extend(pairs.iter().find_map(|pairs| device_time::unsynchronised(pairs)));
    conditions.parity = parity;
    conditions.device_time = Some(pairs.map(|pairs| device_time::summary(&pairs)));
    warnings.extend(impossible(&conditions));

    let mut operators = Vec::new();
    if case.process == 0 {
        stage.connection.enter(Phase::Profile)?;
        let too_long = match case.placement {
            PlacementRule::Any => profile::takes_too_long(prepare_ns, case.measure.timeout_ns),
            PlacementRule::Strict => None,
        };
        let profiled = match too_long {
            Some(gap) => Err(gap),
            None => profile::operators(&model, &session, &first_batch),
        };
        let placement = profiled.map(|profiled| {
            operators = profiled;
            Placement::of(profile::wanted(used.get("provider")), &operators)
        });
        if let Ok(placement) = &placement {
            warnings.extend(profile::judge(case.placement, placement)?);
        }
        conditions.placement = Some(placement);
    }

    if let Some(count) = examples.count {
        stage.connection.enter(Phase::Outputs)?;
        let collected = collect(
            stage.connection,
            &model,
            &session,
            &mut examples,
            case.key.batch.into(),
            count,
        )?;
        match collected {
            // Of all examples, and not only of those that were read before.
            Ok(found) => not_numbers.iter_mut().take(1).for_each(|first| *first = found.clone()),
            Err(reason) => {
                let evidence = format!("Outputs were not collected: {reason}.");
                warnings.push(Warning { kind: WarningKind::NotAsAsked, evidence });
            }
        }
    }
    for output in &not_numbers {
        match output.judge() {
            Ok(doubt) => warnings.extend(doubt),
            Err(reason) => verdict.reasons.push(reason),
        }
    }
    let invalid = |reason: &InvalidReason| {
        let evidence = reason.evidence.clone();
        Warning { kind: WarningKind::Invalid, evidence }
    };
    warnings.splice(0..0, verdict.reasons.iter().map(invalid));

    stage.connection.enter(Phase::Unload)?;
    drop(session);
    drop(model);
    drop(backend);

    Ok(WorkerReport {
        timings: Timings {
            open_ns: Some(open_ns),
            load_ns: Some(load_ns),
            prepare_ns: Some(prepare_ns),
            first_run_ns: Some(first_run_ns),
        },
        peak_memory_bytes,
        baseline_memory_bytes,
        labels: std::mem::take(&mut examples.labels),
        clock: clock_facts,
        warnings,
        used,
        pace: load::pace(&measured.summary),
        verdict: Some(verdict),
        search: measured.search,
        warm_up: measured.warm_up,
        conditions,
        profile: operators,
        device_states,
    })
}

/// Figures of the backend's that cannot be. They are gaps by now; that it told them is another matter.
fn impossible(conditions: &Conditions) -> Vec<Warning> {
    let stages = conditions.stages.as_ref().and_then(|stages| stages.as_ref().ok());
    let gaps = [
        stages.and_then(|stages| stages.inside_run.as_ref().err()),
        conditions.device_time.as_ref().and_then(|time| time.as_ref().err()),
        conditions.energy.as_ref().and_then(|energy| energy.device.as_ref().err()),
    ];
    gaps.into_iter()
        .flatten()
        .filter(|gap| gap.kind == GapKind::Impossible)
        .map(|gap| {
            let evidence = format!("What cannot be was refused: {}.", gap.reason);
            Warning { kind: WarningKind::Impossible, evidence }
        })
        .collect()
}

/// What the engine's allocator says of the session's memory on the device.
fn allocator_use(session: &Session) -> Result<AllocatorUse, Gap> {
    let found = session.allocator_use().ok_or_else(|| not_offered(plugin_api::abi::ALLOCATOR))?;
    let found = found.map_err(|error| refused(&error))?;
    Ok(AllocatorUse {
        name: found.name,
        used_bytes: found.used_bytes,
        peak_bytes: found.peak_bytes,
        reserved_bytes: found.reserved_bytes,
    })
}

/// A hash that there is.
pub(crate) fn known(sha256: &str) -> Option<&str> {
    Some(sha256).filter(|sha256| !sha256.is_empty())
}

/// Refuses a model that is not the one that the case is named for. Its file is read now in any case,
/// since loading it comes next.
pub(crate) fn check_model(
    connection: &mut Connection,
    case: &CaseSpec,
    interval: Duration,
) -> Result<(), Stop> {
    let Some(expected) = known(&case.model_sha256) else { return Ok(()) };
    let path = case.model_path.display();
    let unreadable = |error: io::Error| Stop::from(input(format!("{path}: {error}")));
    let mut file = File::open(&case.model_path).map_err(unreadable)?;
    let found = hash::sha256(&mut file, || connection.progress(interval))?.map_err(unreadable)?;
    if found == expected {
        return Ok(());
    }
    let detail = format!(
        "the model {path} has changed: its SHA-256 was {expected} when the run was planned, and is \
         {found} now"
    );
    Err(input(detail).into())
}

/// Enters phases and times what is done once in them.
struct Stage<'a> {
    connection: &'a mut Connection,
    clock: &'a SystemClock,
}

impl Stage<'_> {
    fn time<T>(
        &mut self,
        phase: Phase,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<(T, u64), Stop> {
        self.connection.enter(phase)?;
        let start = self.clock.now();
        let result = work()?;
        let end = self.clock.now();
        let elapsed = end.checked_sub(start).ok_or_else(|| went_back(start, end))?;
        Ok((result, elapsed))
    }
}

pub(crate) fn went_back(before_ns: u64, after_ns: u64) -> Failure {
    let error = MeasureError::<Infallible, Infallible>::ClockWentBack { before_ns, after_ns };
    Failure::Impossible { detail: error.to_string() }
}

pub(crate) fn tensors(
    model: &Model,
    batch: &[TensorData],
    phase: Phase,
) -> Result<Vec<Tensor>, Failure> {
    let tensors = batch.iter().map(|data| model.tensor(data.view()));
    tensors.collect::<Result<_, _>>().map_err(failure::backend(phase))
}

/// Runs the whole data set once more, untimed, sends the first output of each example and counts what
/// is NaN in it. The inner error says why there are no outputs to send, which does not make the case fail.
fn collect(
    connection: &mut Connection,
    model: &Model,
    session: &Session,
    examples: &mut Examples,
    batch: u64,
    count: u64,
) -> Result<Result<NotNumbers, String>, Stop> {
    let backend = failure::backend(Phase::Outputs);
    let Some(info) = model.info().outputs.first() else {
        return Ok(Err("the model has none".into()));
    };
    let mut call: Option<Call> = None;
    let mut width = None;
    let mut not_numbers = NotNumbers { name: info.name.clone(), found: 0, of: 0 };
    for index in 0..examples.batches() {
        let inputs = tensors(model, &examples.batch(index)?, Phase::Outputs)?;
        let call = match &mut call {
            Some(call) => {
                for (position, input) in inputs.into_iter().enumerate() {
                    call.set_input(position, input).map_err(&backend)?;
                }
                call
            }
            None => call.insert(session.call(inputs).map_err(&backend)?),
        };
        call.run().map_err(&backend)?;
        let output = call.read_output(0).map_err(&backend)?;
        not_numbers = not_numbers.and(&NotNumbers::of(&info.name, &output));
        let first = index * batch;
        match outputs::blocks(&info.name, &output, batch, first, count - first) {
            Ok(blocks) => {
                for block in blocks {
                    let expected = *width.get_or_insert(block.width);
                    if block.width != expected {
                        return Ok(Err(format!(
                            "the first output, `{}`, has {} values for example {}, and {expected} \
                             for those before it",
                            block.name, block.width, block.first_example
                        )));
                    }
                    connection.send(&Message::Outputs(block))?;
                }
            }
            Err(reason) => return Ok(Err(reason)),
        }
    }
    Ok(Ok(not_numbers))
}
