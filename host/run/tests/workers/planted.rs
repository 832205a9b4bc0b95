//! Faults of a device's pace, planted, and what the host says of them.
//!
//! A machine that is busy with other work can hide a fault or add one. So each is looked at up to five
//! times, and must be told for what it is in one of them, unless in each of them the host said that the
//! machine was busy: then it did not believe what it measured either.

use host_statistics::{STEADY_STATE_TOLERANCE, SteadyClass, steady_state};

use super::*;

/// What is said of the shape of latencies.
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
    case.measure.maximum_duration_ns = 10_000_000_000;
    finish(case)
}

/// The class of the measured latencies, and what is doubted.
fn told(name: &str, runs: &str) -> (SteadyClass, Vec<WarningKind>) {
    // Eight stalls have to come, and two more that may be hidden.
    let queries = if name == "stall" { 10 * runs.parse::<u64>().expect("a number") } else { 0 };
    let (report, memory) = planted(name, "2000", runs, queries.max(300));
    let measured = memory.samples.iter().filter(|block| block.phase == SamplePhase::Measured);
    let latencies: Vec<u64> =
        measured.flat_map(SampleBlock::queries).map(|query| query.latency_ns).collect();
    let found = steady_state(&latencies, STEADY_STATE_TOLERANCE).expect("enough queries");
    (found.class, report.warnings.iter().map(|warning| warning.kind).collect())
}

#[track_caller]
fn expect(name: &str, runs: &str, classes: &[SteadyClass], kind: Option<WarningKind>) {
    let mut seen = Vec::new();
    for _ in 0..5 {
        let (class, found) = told(name, runs);
        let is_told = match kind {
            Some(kind) => found.contains(&kind),
            None => !found.iter().any(|kind| SHAPES.contains(kind)),
        };
        if classes.contains(&class) && is_told {
            return;
        }
        seen.push((class, found));
    }
    let disturbed = seen.iter().all(|(_, found)| found.contains(&WarningKind::MachineBusy));
    assert!(disturbed, "{name}: {seen:?}");
}

#[test]
fn a_device_that_takes_its_time_is_steady() {
    expect("slow", "100", &[SteadyClass::Flat], None);
}

#[test]
fn a_drift_is_told() {
    use SteadyClass::{NoSteadyState, SlowDown};
    expect("drift", "200", &[NoSteadyState, SlowDown], Some(WarningKind::Drift));
}

#[test]
fn a_slow_warm_up_is_told() {
    expect("warm-up", "100", &[SteadyClass::WarmUp], Some(WarningKind::WarmingUp));
}

#[test]
fn a_second_mode_is_told() {
    expect("bimodal", "100", &[SteadyClass::Flat], Some(WarningKind::Bimodal));
}

#[test]
fn throttling_half_way_is_told() {
    expect("throttle", "150", &[SteadyClass::SlowDown], Some(WarningKind::SlowedDown));
}

#[test]
fn stalls_at_regular_distances_are_told() {
    expect("stall", "20", &[SteadyClass::Flat], Some(WarningKind::Stalls));
}

#[test]
fn stalls_that_are_rare_are_told() {
    expect("stall", "100", &[SteadyClass::Flat], Some(WarningKind::Stalls));
}

#[test]
fn a_run_that_returns_before_its_work_is_done_is_told_and_invalid() {
    let (report, _) = planted("lie", "1000", "100", 300);
    let kinds: Vec<_> = report.warnings.iter().map(|warning| warning.kind).collect();
    assert!(kinds.contains(&WarningKind::ReturnedEarly), "{kinds:?}");
    assert!(kinds.contains(&WarningKind::Invalid), "{kinds:?}");
    assert_eq!(reasons(&report), [InvalidKind::ReturnedEarly]);
}

#[test]
fn a_backend_that_answers_with_nothing_but_nan_is_invalid_without_labels() {
    let (report, memory) = finish(fault(&[("fault", "nan")]));
    assert!(memory.outputs.is_empty(), "there is no data set");
    assert_eq!(reasons(&report), [InvalidKind::NotANumber]);
    let evidence = &report.warnings[0].evidence;
    assert_eq!(evidence, "All 2 values of the output `output` are NaN.");
    assert_eq!(reasons(&finish(fault(&[("fault", "zeros")])).0), []);
}
