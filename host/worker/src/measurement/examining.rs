//! Examines a measurement: its doubts, the parts of its time, and the placement of its operators.

use std::time::Duration;

use host_machine::Machine;
use host_record::{
    AllocatorUse, ClockFacts, Conditions, DeviceSample, Doubt, Gap, GapKind, InvalidReason, Limit,
    LookingCost, Mode, Pace, Phase, Placement, PlacementRule, ProfiledOperator, RateSearch,
    Scenario, Timings, Verdict, WarmUpFacts, Warning,
};
use host_statistics::median;
use plugin_api::client::{Session, TensorData};

use super::context::Context;
use super::learning;
use super::measuring::Measured;
use super::opening::Opened;
use super::preparing::Subject;
use crate::backend::BackendTarget;
use crate::early::Tested;
use crate::failure::{self, Stop};
use crate::load::Load;
use crate::marks::Marking;
use crate::outputs::NotNumbers;
use crate::oversubscription::Demand;
use crate::surroundings::{not_offered, refused};
use crate::warnings::Evidence;
use crate::{
    card, clock, contract, device_state, device_time, early, looking, model_use, profile, stages,
    trivial,
};

/// Limit on the time of the turns with marks and without.
const LONGEST_LOOKING: Duration = Duration::from_secs(5);

/// A measurement with all its findings, except for outputs.
pub(super) struct Examined {
    pub(super) subject: Subject,
    pub(super) session: Session,
    /// NaN in the outputs that the timed calls left, one for each output.
    pub(super) not_numbers: Vec<NotNumbers>,
    pub(super) findings: Findings,
    pub(super) operators: Vec<ProfiledOperator>,
    pub(super) device_samples: Vec<DeviceSample>,
    pub(super) clock: ClockFacts,
    pub(super) timings: Timings,
    pub(super) pace: Option<Pace>,
    pub(super) search: Option<RateSearch>,
    pub(super) warm_up: Option<WarmUpFacts>,
    pub(super) peak_memory_bytes: Option<u64>,
}

/// Conditions, doubts and the verdict, as they come together.
pub(super) struct Findings {
    pub(super) conditions: Conditions,
    pub(super) warnings: Vec<Warning>,
    pub(super) verdict: Verdict,
}

/// Examines what was measured, while model and session are still there. Outputs must be readable, or nothing is known
/// about what was timed. Anything else that a backend refuses now is a gap: it has done what it was asked for.
pub(super) fn examine(
    context: &mut Context<'_>,
    opened: &Opened<'_>,
    measured: Measured<'_>,
) -> Result<Examined, Stop> {
    let Measured {
        mut subject,
        mut target,
        checked_outputs,
        first_run_ns,
        lanes,
        others,
        figures,
        ..
    } = measured;
    let (mut conditions, disturbances) = figures.surroundings;
    let latencies = figures.latencies.kept();
    let typical_ns = median(latencies).unwrap_or(0.0);
    let Context { case, clock, interval, .. } = *context;

    let connection = &mut *context.connection;
    let burst = figures.burst;
    let tested = early::test(connection, clock, &mut target, typical_ns, burst, interval)?;
    let (looking, phase_memory) = match phases(context, &target)? {
        Some(marking) => {
            let cost = looking(context, &mut target, &marking)?;
            (Some(cost), Some(looking::memory(&mut target, &marking)))
        }
        None => (None, None),
    };
    contract::check(context.connection, &target, &subject.model, &mut subject.examples, interval)?;
    let outputs = target.first_outputs(subject.model.info());
    let outputs = outputs.map_err(failure::backend(Phase::Outputs))?;
    let not_numbers = outputs.iter().map(|(name, data)| NotNumbers::of(name, data)).collect();
    let session = target.into_session();
    let file = &context.files.model;
    let model = model_use::of(case, subject.model.info(), &subject.examples, &outputs, file);
    conditions.peaks = host_peaks::of(case, &subject.used, context.calibration);
    let runs = Load::new(case, &subject.examples)?.runs();
    let peaks = conditions.peaks.as_ref();
    let above_peak = card::above_peak(case, &model, peaks, runs, typical_ns);
    conditions.model = Some(model);
    // One that computes nothing says so itself.
    let judged = if subject.used.contains_key("simulated") { &[][..] } else { &outputs };
    // A loss is the same for each example.
    let loss = case.key.mode.further_output();
    let judged = judged.iter().filter(|(name, _)| loss != Some(name.as_str()));
    let trivial: Vec<_> = judged.filter_map(|(name, data)| trivial::doubt(name, data)).collect();
    if let Some(memory) = &mut conditions.memory {
        memory.allocator = Some(allocator_use(&session));
    }
    if let Some(checked_outputs) = &checked_outputs {
        checked_outputs.again(context, &mut subject, &session, outputs)?;
    }
    conditions.model_cached = subject.model_cached;
    conditions.dropped_files.clone_from(&subject.dropped_files);
    conditions.parity = checked_outputs.map(|checked_outputs| checked_outputs.parity);

    let evidence = Evidence {
        case,
        calibration: opened.calibration,
        rule: figures.rule,
        summary: figures.summary,
        latencies,
        stride: figures.latencies.stride(),
        in_a_row: figures.first_client.row(lanes.get()),
        warm_up: figures.warm_up,
        before: figures.before,
        after: figures.after,
        used: &subject.used,
    };
    let mut warnings = evidence.warnings();
    let mut verdict = figures.verdict;
    for (doubt, breach) in tested.iter().filter_map(Tested::doubt) {
        warnings.push(doubt.into());
        verdict.reasons.push(breach.into());
    }
    let machine = Machine::this();
    let quota = machine.processor_quota().and_then(Limit::at);
    let demand = Demand::of(case, &subject.used, &opened.scheduling, quota, others);
    warnings.extend(demand.and_then(|demand| demand.doubt()).map(Warning::from));
    warnings.extend(disturbances);
    let (device_samples, doubts) = device_states(figures.device, &mut conditions);
    warnings.extend(doubts);
    clock::check(context.clock)?;
    let clock = clock::facts(context.clock, &opened.calibration, &machine);
    warnings.extend(clock::slow(&clock));

    warnings.extend(trivial.into_iter().map(Warning::from));
    warnings.extend(above_peak.map(Warning::from));

    let mut findings = Findings { conditions, warnings, verdict };
    context.connection.enter(Phase::Stages)?;
    let first_batch = subject.examples.batch(0)?;
    time_parts(context, &subject, &session, &first_batch, typical_ns, &mut findings);
    let operators = match case.process {
        0 => profile(context, &subject, &session, &first_batch, &mut findings)?,
        _ => Vec::new(),
    };
    findings.conditions.looking = looking;
    findings.conditions.phase_memory = phase_memory;
    findings.conditions.learning = learning::learn(context, &mut subject)?;
    let timings = Timings {
        open_ns: Some(opened.open_ns),
        load_ns: Some(subject.load_ns),
        prepare_ns: Some(subject.prepare_ns),
        first_run_ns: Some(first_run_ns),
    };
    Ok(Examined {
        subject,
        session,
        not_numbers,
        findings,
        operators,
        device_samples,
        clock,
        timings,
        pace: figures.summary.pace,
        search: figures.search,
        warm_up: figures.warm_up,
        peak_memory_bytes: measured.peak_memory_bytes,
    })
}

/// Returns the phases of a step, if the case has steps that have some.
fn phases(context: &Context<'_>, target: &BackendTarget) -> Result<Option<Marking>, Stop> {
    if context.case.key.mode != Mode::Training {
        return Ok(None);
    }
    let marking = Marking::of(context.case, target.session());
    let marking = marking.map_err(failure::backend(Phase::Stages))?;
    Ok(marking.filter(|marking| !marking.phases.is_empty()))
}

/// Measures what marking the phases of steps costs.
fn looking(
    context: &mut Context<'_>,
    target: &mut BackendTarget,
    marking: &Marking,
) -> Result<Result<LookingCost, Gap>, Stop> {
    let Context { case, clock, interval, .. } = *context;
    context.connection.enter(Phase::Stages)?;
    let time = LONGEST_LOOKING.min(Duration::from_nanos(case.measure.minimum_duration_ns));
    let between = || context.connection.progress(interval);
    Ok(looking::cost(clock, target, marking, time, between)?)
}

/// Returns the session's device memory, as the engine's allocator reports it.
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

/// Adds the device's states to the conditions; returns their samples, and what is doubtful about them.
fn device_states(
    readings: Option<Result<device_state::Readings, Gap>>,
    conditions: &mut Conditions,
) -> (Vec<DeviceSample>, Vec<Warning>) {
    match readings {
        Some(Ok((states, samples))) => {
            let doubts = device_state::warnings(&states).collect();
            conditions.device_state = Some(Ok(states));
            (samples, doubts)
        }
        Some(Err(gap)) => {
            conditions.device_state = Some(Err(gap.clone()));
            (Vec::new(), vec![Doubt::DeviceNotSampled { gap }.into()])
        }
        None => (Vec::new(), Vec::new()),
    }
}

/// Measures the parts of a query, and a run by the device's own events, in separate passes.
fn time_parts(
    context: &Context<'_>,
    subject: &Subject,
    session: &Session,
    batch: &[TensorData],
    typical_ns: f64,
    findings: &mut Findings,
) {
    let Findings { conditions, warnings, verdict } = findings;
    conditions.stages = Some(stages::stages(context.clock, &subject.model, session, batch));
    let pairs = device_time::pairs(context.clock, &subject.model, session, batch);
    let unsynchronised = pairs.iter().find_map(|pairs| device_time::unsynchronised(pairs));
    verdict.reasons.extend(unsynchronised.map(InvalidReason::from));
    // In other scenarios a query waits for others, or is many runs.
    if let (Scenario::SingleStream, Ok(pairs)) = (context.case.key.scenario, &pairs) {
        warnings.extend(device_time::disagreement(pairs, typical_ns).map(Warning::from));
    }
    conditions.device_time = Some(pairs.map(|pairs| device_time::summary(&pairs)));
    warnings.extend(impossible(conditions));
}

/// Warns of the backend's figures that cannot be. They are gaps by now, but that it told them is another
/// matter.
fn impossible(conditions: &Conditions) -> Vec<Warning> {
    let stages = conditions.stages.as_ref().and_then(|stages| stages.as_ref().ok());
    let gaps = [
        stages.and_then(|stages| stages.inside_run.as_ref().err()),
        conditions.device_time.as_ref().and_then(|time| time.as_ref().err()),
        conditions.energy.as_ref().and_then(|energy| energy.device.as_ref().err()),
    ];
    gaps.into_iter()
        .flatten()
        .filter(|gap| gap.kind() == GapKind::Impossible)
        .map(|gap| Doubt::Impossible { gap: gap.clone() }.into())
        .collect()
}

/// Profiles a run, and judges where operators ran. Returns them.
fn profile(
    context: &mut Context<'_>,
    subject: &Subject,
    session: &Session,
    batch: &[TensorData],
    findings: &mut Findings,
) -> Result<Vec<ProfiledOperator>, Stop> {
    context.connection.enter(Phase::Profile)?;
    let case = context.case;
    let too_long = match case.placement {
        PlacementRule::Any => profile::takes_too_long(subject.prepare_ns, case.measure.timeout_ns),
        PlacementRule::Strict => None,
    };
    let profiled = match too_long {
        Some(gap) => Err(gap),
        None => profile::operators(&subject.model, session, batch),
    };
    let operators = match profiled {
        Ok(operators) => operators,
        Err(gap) => {
            findings.conditions.placement = Some(Err(gap));
            return Ok(Vec::new());
        }
    };
    let wanted = profile::requested_providers(subject.used.get("provider"));
    let placement = Placement::of(wanted, &operators);
    let doubt = profile::judge(case.placement, &placement)?;
    findings.warnings.extend(doubt.map(Warning::from));
    findings.conditions.placement = Some(Ok(placement));
    Ok(operators)
}
