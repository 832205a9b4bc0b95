//! Planted faults of a device's speed, and the host's warnings about them.
//!
//! Other work on a busy machine can hide a fault or add one. So each fault is measured up to eight times, with
//! increasingly slower devices, so that other work matters less. It must be detected in one attempt, on any machine.

use host_statistics::{STEADY_STATE_TOLERANCE, SteadyClass, steady_state};

use super::*;

/// Warnings about the shape of latencies.
const SHAPES: [WarningKind; 6] = [
    WarningKind::Drift,
    WarningKind::WarmingUp,
    WarningKind::SlowedDown,
    WarningKind::Bimodal,
    WarningKind::Stalls,
    WarningKind::ReturnedEarly,
];

fn planted(
    name: &str,
    microseconds: &str,
    runs: &str,
    queries: u64,
) -> (WorkerReport, common::Memory) {
    let options = [("fault", name), ("fault-microseconds", microseconds), ("fault-runs", runs)];
    let mut case = fault(&options);
    case.measure.minimum_queries = queries;
    case.measure.maximum_duration_ns = 60_000_000_000;
    finish(case)
}

/// Returns the class of the measured latencies, and the warnings.
fn measured(name: &str, microseconds: &str, runs: &str) -> (SteadyClass, Vec<WarningKind>) {
    // Eight stalls are needed, and two more may be hidden.
    let queries = if name == "stall" { 10 * runs.parse::<u64>().expect("a number") } else { 0 };
    let (report, memory) = planted(name, microseconds, runs, queries.max(300));
    let measured = memory.samples.iter().filter(|block| block.phase == SamplePhase::Measured);
    let latencies: Vec<u64> =
        measured.flat_map(SampleBlock::queries).map(|query| query.latency_ns).collect();
    let found = steady_state(&latencies, STEADY_STATE_TOLERANCE).expect("enough queries");
    (found.class, report.warnings.iter().map(|warning| warning.kind()).collect())
}

/// Time of the device in microseconds, for each attempt.
const LOOKS: [&str; 8] = ["2000", "2000", "4000", "4000", "8000", "8000", "16000", "32000"];

#[track_caller]
fn expect(name: &str, runs: &str, classes: &[SteadyClass], kind: Option<WarningKind>) {
    let mut seen = Vec::new();
    for microseconds in LOOKS {
        let (class, found) = measured(name, microseconds, runs);
        let is_reported = match kind {
            Some(kind) => found.contains(&kind),
            None => !found.iter().any(|kind| SHAPES.contains(kind)),
        };
        if classes.contains(&class) && is_reported {
            return;
        }
        seen.push((class, found));
    }
    panic!("{name}: {seen:?}");
}

#[test]
fn a_device_that_takes_its_time_is_steady() {
    expect("slow", "100", &[SteadyClass::Flat], None);
}

#[test]
fn a_drift_is_reported() {
    use SteadyClass::{NoSteadyState, SlowDown};
    expect("drift", "200", &[NoSteadyState, SlowDown], Some(WarningKind::Drift));
}

#[test]
fn a_slow_warm_up_is_reported() {
    expect("warm-up", "200", &[SteadyClass::WarmUp], Some(WarningKind::WarmingUp));
}

#[test]
fn a_second_mode_is_reported() {
    expect("bimodal", "100", &[SteadyClass::Flat], Some(WarningKind::Bimodal));
}

#[test]
fn throttling_half_way_is_reported() {
    expect("throttle", "150", &[SteadyClass::SlowDown], Some(WarningKind::SlowedDown));
}

#[test]
fn stalls_at_regular_distances_are_reported() {
    expect("stall", "20", &[SteadyClass::Flat], Some(WarningKind::Stalls));
}

#[test]
fn stalls_that_are_rare_are_reported() {
    expect("stall", "100", &[SteadyClass::Flat], Some(WarningKind::Stalls));
}

/// In queries of eight runs, every 45th run stalls: one query in 5.6, and not one in eleven or twelve.
#[test]
fn stalls_of_runs_are_told_in_queries() {
    let mut seen = Vec::new();
    for microseconds in ["500", "1000", "2000", "4000", "8000"] {
        let options =
            [("fault", "stall"), ("fault-microseconds", microseconds), ("fault-runs", "45")];
        let mut case = fault(&options);
        case.key.scenario = Scenario::MultiStream;
        // In batches of two.
        case.measure.multi_stream_examples = Some(16);
        case.measure.minimum_queries = 240;
        case.measure.maximum_duration_ns = 60_000_000_000;
        let (report, _) = finish(case);
        let stalls = report.warnings.iter().find(|warning| warning.kind() == WarningKind::Stalls);
        let stalls = stalls.map(|warning| warning.doubt.clone());
        if let Some(Doubt::Stalls { every_queries: 5.55..5.65, .. }) = stalls {
            return;
        }
        seen.push(stalls);
    }
    panic!("{seen:?}");
}

#[test]
fn a_run_that_returns_before_its_work_is_done_is_told_and_invalid() {
    let (report, _) = planted("lie", "1000", "100", 300);
    let kinds: Vec<_> = report.warnings.iter().map(|warning| warning.kind()).collect();
    assert!(kinds.contains(&WarningKind::ReturnedEarly), "{kinds:?}");
    assert!(kinds.contains(&WarningKind::Invalid), "{kinds:?}");
    assert_eq!(reasons(&report), [InvalidKind::ReturnedEarly]);
}

/// `run` waits as it should, so only the scenarios that enqueue get latencies without the work.
#[test]
fn a_wait_that_returns_before_enqueued_work_is_done_is_told_and_invalid() {
    let options = [("fault", "lie-together"), ("fault-microseconds", "1000")];
    for (scenario, is_told) in
        [(Scenario::MultiStream, true), (Scenario::Offline, true), (Scenario::SingleStream, false)]
    {
        let mut case = fault(&options);
        case.key.scenario = scenario;
        case.measure.multi_stream_examples = Some(8);
        case.measure.offline_examples = Some(8);
        case.measure.minimum_queries = 10;
        let (report, _) = finish(case);
        let told = report.warnings.iter().any(|warning| {
            matches!(warning.doubt, Doubt::ReturnedEarly { call: TimedCall::Synchronise, .. })
        });
        assert_eq!(told, is_told, "{scenario}: {:?}", report.warnings);
        let expected = if is_told { vec![InvalidKind::ReturnedEarly] } else { Vec::new() };
        assert_eq!(reasons(&report), expected, "{scenario}");
    }
}

#[test]
fn a_backend_that_answers_with_nothing_but_nan_is_invalid_without_labels() {
    let (report, memory) = finish(fault(&[("fault", "nan")]));
    assert!(memory.outputs.is_empty(), "there is no data set");
    assert_eq!(reasons(&report), [InvalidKind::NotANumber]);
    let breach = Breach::NotANumber { output: "output".into(), values: 2 };
    assert_eq!(report.warnings[0].doubt, Doubt::Invalid { breach });
    assert_eq!(reasons(&finish(fault(&[("fault", "zeros")])).0), []);
}
