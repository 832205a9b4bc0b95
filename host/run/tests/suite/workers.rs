//! The real worker with real plugins that work, fail and die.
//!
//! Worker and plugins are those that `cargo xtask test` built and names in `TARE_BUILT`. Without it the first test
//! that needs them builds them; if this fails, the tests fail.

mod deeds;
mod pairs;
mod planted;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{self, Runner, case, failure, named, run};
use host_record::protocol::{CaseFiles, PROTOCOL_VERSION, Request};
use host_record::{
    AxisObstacle, Breach, CaseSpec, Check, Confidence, DifferenceKind, Doubt, ErrorCode, Failure,
    FileId, Find, Gap, Impossible, InputSource, InvalidKind, LatencyLimit, Mode, NotMeasured,
    Outcome, OutputBlock, OutputValues, Phase, Pin, PlacementRule, QueryTimes, Rate, RuleSet,
    RuntimeState, SampleBlock, SamplePhase, Scenario, SearchEnd, Share, SlowedBy, SlowedShare,
    TimedCall, Tolerance, Unsupported, WarmUp, WarningKind, WorkerReport, processors_of_list,
    shown_axes,
};
use host_run::{Interrupt, RunSummary};
use tempfile::TempDir;

/// The worker and two plugins.
struct Built {
    worker: PathBuf,
    null: PathBuf,
    fault: PathBuf,
}

static BUILT: LazyLock<Built> = LazyLock::new(|| match std::env::var_os("TARE_BUILT") {
    // Each test is a separate process, and need not check with cargo whether everything is built.
    Some(folder) => laid_out(Path::new(&folder)),
    None => build(),
});

/// Lays out the plugins that `cargo xtask test` built.
fn laid_out(folder: &Path) -> Built {
    let plugin = |id: &str| {
        let name = format!("libbackend_{id}{}", std::env::consts::DLL_SUFFIX);
        folder.join("plugins").join(id).join(name)
    };
    Built { worker: folder.join("host-worker"), null: plugin("null"), fault: plugin("fault") }
}

fn build() -> Built {
    let packages = ["host-worker", "backend-null", "backend-fault"];
    let output = Command::new(std::env::var_os("CARGO").expect("cargo names itself to tests"))
        .args(["build", "--message-format", "json-render-diagnostics"])
        .args(packages.iter().flat_map(|package| ["--package", package]))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit())
        .output()
        .expect("starting cargo");
    assert!(output.status.success(), "worker and plugins could not be built");
    let artifacts: Vec<serde_json::Value> = String::from_utf8(output.stdout)
        .expect("UTF-8")
        .lines()
        .map(|line| serde_json::from_str(line).expect("cargo writes JSON"))
        .filter(|message: &serde_json::Value| message["reason"] == "compiler-artifact")
        .collect();
    let find = |name: &str, end: &str| {
        artifacts
            .iter()
            .filter(|artifact| artifact["target"]["name"] == name)
            .flat_map(|artifact| artifact["filenames"].as_array().cloned().unwrap_or_default())
            .filter_map(|file| file.as_str().map(PathBuf::from))
            .find(|file| file.to_string_lossy().ends_with(end))
            .unwrap_or_else(|| panic!("cargo built no {name}{end}"))
    };
    Built {
        worker: find("host-worker", "host-worker"),
        null: find("backend_null", std::env::consts::DLL_SUFFIX),
        fault: find("backend_fault", std::env::consts::DLL_SUFFIX),
    }
}

fn runner() -> Runner {
    Runner::new(&BUILT.worker)
}

/// Returns a case of the fault backend, which accepts any file as a model that doubles its input.
fn fault(options: &[(&str, &str)]) -> CaseSpec {
    let mut case = case("0", &BUILT.fault, &BUILT.fault);
    case.options = options.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    case
}

fn null() -> CaseSpec {
    let mut case = case("0", &BUILT.null, &BUILT.null);
    case.key.device = "null:0".into();
    case
}

#[track_caller]
fn finish(case: CaseSpec) -> (WorkerReport, common::Memory) {
    let (_, memory) = run(&runner(), vec![case]);
    match &memory.records[0].outcome {
        Outcome::Finished(report) => (report.as_ref().clone(), memory),
        other => panic!("{other:?}\n{}", memory.records[0].standard_error),
    }
}

fn queries(samples: &[SampleBlock], phase: SamplePhase) -> usize {
    samples.iter().filter(|block| block.phase == phase).map(SampleBlock::len).sum()
}

/// Returns a `.npy` file of version 1.0.
fn npy(folder: &TempDir, name: &str, dtype: &str, shape: &str, data: &[u8]) -> PathBuf {
    let mut header = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}");
    header.extend(std::iter::repeat_n(' ', 117 - header.len()));
    header.push('\n');
    let length = (header.len() as u16).to_le_bytes();
    let bytes = [b"\x93NUMPY\x01\x00".as_slice(), &length, header.as_bytes(), data].concat();
    let path = folder.path().join(name);
    fs::write(&path, bytes).expect("writing a file");
    path
}

#[test]
fn a_case_is_measured_from_start_to_end() {
    let (report, memory) = finish(null());
    assert_eq!(queries(&memory.samples, SamplePhase::WarmUp), 5);
    assert_eq!(queries(&memory.samples, SamplePhase::Measured), 20);
    assert!(memory.samples.iter().all(|block| block.items_per_query == 2));
    assert!(memory.outputs.is_empty(), "there is no data set");
    let timings = report.timings;
    let all = [timings.open_ns, timings.load_ns, timings.prepare_ns, timings.first_run_ns];
    assert!(all.iter().all(|time| time.is_some_and(|time| time > 0)), "{timings:?}");
    assert!(report.peak_memory_bytes >= report.baseline_memory_bytes);
    assert!(report.baseline_memory_bytes > Some(0));
    assert!(report.clock.source.ends_with("CLOCK_MONOTONIC"), "{}", report.clock.source);
    assert!(report.clock.read_ns > 0.0 && report.clock.loop_ns > 0.0);
    assert_eq!(report.used["precision"], "fp32");
    assert_eq!(report.used["engine"], "none");
    let kinds: Vec<_> = report.warnings.iter().map(|warning| warning.kind()).collect();
    assert!(kinds.contains(&WarningKind::OverheadVisible), "{kinds:?}");
    assert!(!kinds.contains(&WarningKind::NotAsAsked), "{kinds:?}");
}

#[test]
fn what_it_was_measured_under_is_reported() {
    let mut case = null();
    case.measure.minimum_duration_ns = 250_000_000;
    let (report, memory) = finish(case);
    let conditions = report.conditions;
    assert_eq!(conditions.worker_version.as_deref(), Some(env!("CARGO_PKG_VERSION")));
    let scheduling = conditions.scheduling.expect("it is told");
    assert!(!scheduling.pinned && scheduling.processors.is_some(), "{scheduling:?}");
    let disturbance = conditions.disturbance.expect("it is told");
    assert!(disturbance.elapsed_ns >= 250_000_000);
    assert!(disturbance.processor_ns > Some(0) && disturbance.minor_faults.is_some());
    let used = conditions.memory.expect("it is told");
    assert!(used.average_of > 0, "the host looks ten times a second");
    assert!(used.average_bytes > Some(0) && used.average_bytes <= report.peak_memory_bytes);
    let gap = used.device_peak_bytes.expect("it was asked for").expect_err("no extension");
    assert_eq!(gap, NotMeasured::NotOffered { extension: "tare/device-memory/1".into() }.into());
    let energy = conditions.energy.expect("it is told");
    assert!(energy.device.is_err());
    match energy.processor {
        Ok(domains) => assert!(domains.iter().all(|one| one.seconds >= 0.25), "{domains:?}"),
        Err(gap) => assert!(gap.to_string().contains("/sys/class/powercap"), "{gap:?}"),
    }
    let stages = conditions.stages.expect("they are told").expect("the backend works");
    assert!((1..=10).contains(&stages.queries));
    assert!(stages.copy_in_ns > 0.0 && stages.compute_ns > 0.0 && stages.copy_out_ns > 0.0);
    let gap = stages.inside_run.expect_err("no extension");
    assert_eq!(gap, NotMeasured::NotOffered { extension: "tare/stage-times/1".into() }.into());
    assert!(report.clock.checked_readings > Some(256));
    let environment = memory.records[0].environment.clone().expect("the machine");
    assert_eq!(environment.clock_source, report.clock.kernel_source);
}

#[test]
fn what_a_backend_offers_is_used() {
    let offers = "device-energy,device-memory,stage-times";
    let mut case =
        fault(&[("fault-offers", offers), ("fault", "slow"), ("fault-milliseconds", "5")]);
    case.measure.minimum_duration_ns = 200_000_000;
    let conditions = finish(case).0.conditions;
    // It reports 40 W.
    let energy = conditions.energy.expect("it is told").device.expect("it is offered");
    assert_eq!(energy.domain, "fault:0");
    assert!(energy.seconds >= 0.2, "{energy:?}");
    let watts = energy.joules / energy.seconds;
    assert!((30.0..50.0).contains(&watts), "{energy:?}");
    // Its counter moves every 20 ms, and is read every 0.1 ms.
    let step = energy.step_seconds.expect("it was measured");
    assert!(step > 0.005, "{energy:?}");
    let memory = conditions.memory.expect("it is told");
    assert_eq!(memory.device_peak_bytes, Some(Ok(3 << 20)));
    // It reports that copies take half of the time.
    let stages = conditions.stages.expect("they are told").expect("the backend works");
    let inside = stages.inside_run.clone().expect("it is offered");
    assert!(inside.compute_ns >= 2_400_000.0, "{inside:?}");
    assert!(stages.copy_in_ns >= 1_200_000.0 && stages.copy_out_ns >= 1_200_000.0, "{stages:?}");
    assert!(stages.compute_ns >= 2_400_000.0, "{stages:?}");
}

#[test]
fn a_device_is_looked_at_where_it_is_asked_for() {
    let options = [("fault-offers", "device-state,allocator"), ("fault", "slow")];
    let mut case = fault(&options);
    case.measure.minimum_duration_ns = 200_000_000;
    let unasked = finish(case.clone()).0;
    assert_eq!((unasked.conditions.device_state, unasked.device_states.len()), (None, 0));
    let memory = unasked.conditions.memory.expect("it is told");
    let allocator = memory.allocator.expect("it was asked").expect("it is offered");
    assert_eq!((allocator.name.as_str(), allocator.peak_bytes), ("Fault", Some(2 << 20)));

    case.measure.device_sampling_ns = Some(10_000_000);
    let (report, recorded) = finish(case);
    let states = report.conditions.device_state.expect("it was asked for").expect("it is offered");
    // At least one at the start, and at most one per period.
    assert!((2..=1000).contains(&states.readings), "{states:?}");
    assert_eq!(states.readings, report.device_states.len() as u64);
    assert_eq!(states.clock_hertz.map(|clock| clock.mean), Some(1e9));
    assert_eq!(states.power_watts, None);
    let heat = SlowedShare { by: SlowedBy::Heat, readings: states.readings };
    assert_eq!(states.slowed_by, Some(vec![heat]));
    assert!(report.warnings.iter().any(|warning| warning.kind() == WarningKind::Throttled));
    // By the clock that times queries.
    let times: Vec<u64> = report.device_states.iter().map(|sample| sample.time_ns).collect();
    assert!(times.is_sorted());
    let queries = recorded.samples.iter().filter(|block| block.phase == SamplePhase::Measured);
    let last = queries.flat_map(SampleBlock::queries).map(|query| query.start_ns).max();
    assert!(times.first() < last.as_ref(), "{times:?} {last:?}");
}

#[test]
fn a_device_that_does_not_tell_is_a_gap() {
    let mut case = null();
    case.measure.device_sampling_ns = Some(10_000_000);
    let report = finish(case).0;
    let conditions = report.conditions;
    let gap = conditions.device_state.expect("it was asked for").expect_err("no extension");
    assert_eq!(gap, NotMeasured::NotOffered { extension: "tare/device-state/1".into() }.into());
    let reported =
        report.warnings.iter().find(|warning| warning.kind() == WarningKind::DeviceNotSampled);
    let reported = reported.expect("it was asked for");
    assert_eq!(reported.doubt, Doubt::DeviceNotSampled { gap });
    let memory = conditions.memory.expect("it is told");
    let gap = memory.allocator.expect("it was asked").expect_err("no extension");
    assert_eq!(gap, NotMeasured::NotOffered { extension: "tare/allocator/1".into() }.into());
}

#[test]
fn stages_that_cannot_be_true_are_refused() {
    let case = fault(&[("fault-offers", "stage-times"), ("fault", "impossible")]);
    let report = finish(case).0;
    assert!(report.warnings.iter().any(|warning| warning.kind() == WarningKind::Impossible));
    let stages = report.conditions.stages.expect("they are told");
    let gap = stages.expect("the host's own times").inside_run.expect_err("impossible times");
    assert!(matches!(gap, Gap::Impossible(Impossible::StageTimes { .. })), "{gap:?}");
}

#[test]
fn device_time_is_set_beside_the_clock() {
    let options =
        [("fault-offers", "device-timer"), ("fault", "slow"), ("fault-milliseconds", "5")];
    let report = finish(fault(&options)).0;
    assert!(report.verdict.expect("it is judged").is_valid());
    let times = report.conditions.device_time.expect("it was asked").expect("it is offered");
    assert!(
        times.runs >= 1 && times.device_ns >= 5e6 && times.device_ns <= times.wall_ns,
        "{times:?}"
    );
    assert!(times.plain_ns >= 5e6, "{times:?}");

    let options = [("fault-offers", "device-timer"), ("fault", "impossible")];
    let times = finish(fault(&options)).0.conditions.device_time.expect("it was asked");
    let gap = times.expect_err("longer than the call");
    let device_ns = 3_600_000_000_000;
    assert!(
        matches!(gap, Gap::Impossible(Impossible::DeviceTime { device_ns: found, .. }) if found == device_ns),
        "{gap:?}"
    );

    let times = finish(null()).0.conditions.device_time.expect("it was asked");
    let gap = times.expect_err("no extension");
    assert_eq!(gap, NotMeasured::NotOffered { extension: "tare/device-timer/1".into() }.into());
}

#[test]
fn results_say_which_part_of_the_model_was_in_memory() {
    let part = |cold_cache: bool| {
        let mut case = fault(&[]);
        case.measure.cold_cache = cold_cache;
        finish(case).0.conditions.model_cached
    };
    // Linux reports all pages as cached to a process that may not write to the file; macOS does not report them.
    if let Some(warm) = part(false) {
        assert!((0.0..=1.0).contains(&warm), "{warm}");
        let cold = part(true).expect("it was told before");
        assert!(cold <= warm, "{cold} of {warm}");
    }
}

/// Weights in a file of their own are most of a large model.
#[cfg(target_os = "linux")]
#[test]
fn a_cold_cache_drops_every_file_of_the_model() {
    let of = |cold_cache: bool| {
        let mut case = fault(&[]);
        case.measure.cold_cache = cold_cache;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("weights.bin");
        fs::write(&path, vec![1_u8; 1 << 20]).expect("a file");
        let own = folder.path().join("model.onnx");
        fs::write(&own, vec![2_u8; 1 << 16]).expect("a file");
        let weights = FileId { name: "weights.bin".into(), ..FileId::default() };
        case.model = FileId { parts: vec![weights], ..named(&own) };
        finish(case).0.conditions
    };
    let cold = of(true);
    let names: Vec<&str> = cold.dropped_files.iter().map(String::as_str).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(names[1], "weights.bin");
    // Some file systems keep all pages in memory.
    let warm = of(false);
    assert!(warm.dropped_files.is_empty());
    let (warm, cold) = warm.model_cached.zip(cold.model_cached).expect("Linux tells it");
    assert!(cold <= warm && warm > 0.9, "{cold} of {warm}");
}

#[test]
fn a_run_that_returns_long_before_its_device_is_done_is_invalid() {
    let options = [("fault-offers", "device-timer"), ("fault", "lie"), ("fault-milliseconds", "5")];
    let report = finish(fault(&options)).0;
    let reasons = report.verdict.expect("it is judged").reasons;
    let kinds: Vec<_> = reasons.iter().map(|reason| reason.kind()).collect();
    // By the time to read the outputs, and by the device's own clock.
    let both = [InvalidKind::ReturnedEarly, InvalidKind::Unsynchronised];
    assert_eq!(kinds, both, "{reasons:?}");
    let reported = |warning: &host_record::Warning| {
        warning.doubt == Doubt::Invalid { breach: reasons[1].breach.clone() }
    };
    assert!(report.warnings.iter().any(reported), "{:?}", report.warnings);
}

#[test]
fn operators_that_fell_back_are_a_warning_or_a_failure() {
    let case = |fault_: &str, rule| {
        let options = [("fault-offers", "profile"), ("fault", fault_), ("fault-milliseconds", "2")];
        CaseSpec { placement: rule, ..fault(&options) }
    };
    for rule in [PlacementRule::Any, PlacementRule::Strict] {
        let report = finish(case("slow", rule)).0;
        let placement = report.conditions.placement.expect("it was asked").expect("it is offered");
        assert_eq!((placement.providers.len(), placement.providers[0].operators), (1, 2));
        assert!(placement.providers[0].time_ns >= 1_900_000, "{placement:?}");
        assert_eq!(report.profile.len(), 2);
        assert!(report.warnings.iter().all(|warning| warning.kind() != WarningKind::FellBack));
    }
    let report = finish(case("fallback", PlacementRule::Any)).0;
    let placement = report.conditions.placement.expect("it was asked").expect("it is offered");
    assert_eq!(placement.requested, ["FaultProvider"]);
    assert_eq!(placement.elsewhere, ["sum"]);
    assert!(report.warnings.iter().any(|warning| warning.kind() == WarningKind::FellBack));
    let (failure, ..) = failure(&runner(), case("fallback", PlacementRule::Strict));
    let Failure::Misplaced { fallback: Some(fallback) } = failure else { panic!("{failure}") };
    assert_eq!((fallback.operators, fallback.count()), (2, 1));
    assert_eq!(fallback.requested, ["FaultProvider"]);
    assert_eq!(fallback.elsewhere[0].provider, "OtherProvider");
    // A backend without a profile is trusted: it accepted the option.
    let gap = finish(CaseSpec { placement: PlacementRule::Strict, ..null() }).0;
    let gap = gap.conditions.placement.expect("it was asked").expect_err("no extension");
    assert_eq!(gap, NotMeasured::NotOffered { extension: "tare/profile/1".into() }.into());
}

/// Returns a case of the fault backend, compared with the same backend without a fault.
fn checked(options: &[(&str, &str)]) -> CaseSpec {
    let mut case = fault(options);
    case.check = Some(Box::new(Check {
        id: "reference".into(),
        plugin: case.plugin.clone(),
        device: case.device.clone(),
        precision: case.key.precision,
        model: case.model.clone(),
        threads: None,
        options: BTreeMap::new(),
        tolerance: Tolerance::of(case.key.precision),
    }));
    case
}

/// Returns a runner that keeps references in a folder.
fn keeping(folder: &TempDir) -> Runner {
    Runner { references: Some(folder.path().join("references")), ..runner() }
}

#[test]
fn outputs_are_compared_with_the_references_before_timing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, memory) = run(&keeping(&folder), vec![checked(&[])]);
    let Outcome::Finished(report) = &memory.records[0].outcome else {
        panic!("{:?}", memory.records[0].outcome)
    };
    let parity = report.conditions.parity.as_ref().expect("it was compared");
    assert_eq!(parity.batches, 2);
    assert_eq!(parity.reference, format!("fault {} on fault:0 in fp32", env!("CARGO_PKG_VERSION")));
    let output = &parity.outputs[0];
    assert_eq!((&*output.name, output.values, output.beyond), ("output", 4, 0));
    assert_eq!(output.max_absolute_error, Some(0.0));
    assert!(folder.path().join("references/reference").is_file());
}

#[test]
fn outputs_that_go_wrong_while_a_case_is_timed_fail_it() {
    let folder = tempfile::tempdir().expect("a folder");
    for fault in ["zeros", "nan", "stale", "wrong"] {
        // The first run and two runs of the check are correct.
        let case = checked(&[("fault", fault), ("fault-after", "10")]);
        let (failure, ..) = failure(&keeping(&folder), case);
        let Failure::Differs { detail, .. } = failure else { panic!("{fault}: {failure}") };
        assert!(
            detail.starts_with("the outputs agreed before timing, but not after: "),
            "{detail}"
        );
    }
}

/// Outputs of 16 MiB: to compare two batches of them takes over a hundred, none of which is the case's.
#[test]
#[cfg(target_os = "linux")]
fn the_comparison_of_outputs_is_not_in_the_peak_of_memory() {
    const MEBIBYTE: u64 = 1 << 20;

    let folder = tempfile::tempdir().expect("a folder");
    let peak = |mut case: CaseSpec| {
        case.key.batch = 4 << 20;
        case.measure.minimum_queries = 2;
        let (_, memory) = run(&keeping(&folder), vec![case]);
        match &memory.records[0].outcome {
            Outcome::Finished(report) => report.peak_memory_bytes.expect("Linux tells"),
            other => panic!("{other:?}"),
        }
    };
    let (alone, compared) = (peak(fault(&[])), peak(checked(&[])));
    assert!(compared < alone + 64 * MEBIBYTE, "{compared} instead of {alone}");
}

#[test]
fn a_wrong_first_run_fails_even_if_all_later_runs_are_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let case = checked(&[("fault", "wrong"), ("fault-times", "1")]);
    let (failure, ..) = failure(&keeping(&folder), case);
    let Failure::Differs { difference, detail, .. } = failure else { panic!("{failure}") };
    assert_eq!(difference, DifferenceKind::BeyondTolerance);
    assert!(detail.starts_with("in the first run: output `output`: "), "{detail}");
}

#[test]
fn outputs_that_are_not_the_references_fail_before_timing() {
    let folder = tempfile::tempdir().expect("a folder");
    for (options, expected) in [
        (&[("fault", "zeros")][..], DifferenceKind::Zeros),
        (&[("fault", "nan")], DifferenceKind::NotFinite),
        // The run before the first had no outputs.
        (&[("fault", "stale"), ("fault-after", "1")], DifferenceKind::Stale),
        (&[("fault", "wrong")], DifferenceKind::BeyondTolerance),
    ] {
        let (failure, _, memory) = failure(&keeping(&folder), checked(options));
        let Failure::Differs { difference, parity, .. } = failure else { panic!("{failure}") };
        assert_eq!(difference, expected);
        assert_eq!(parity.outputs.len(), 1, "the figures: {parity:?}");
        assert!(memory.samples.is_empty(), "nothing was timed");
    }
}

#[test]
fn a_reference_is_made_once_and_what_failed_is_not_tried_again() {
    let folder = tempfile::tempdir().expect("a folder");
    // A second attempt would fail: its library is gone.
    let first = checked(&[]);
    let mut second = checked(&[]);
    second.id = "1".into();
    second.check.as_mut().expect("a check").plugin.id = "/nowhere/lib.so".into();
    let (summary, _) = run(&keeping(&folder), vec![first, second]);
    assert_eq!(summary, RunSummary { finished: 2, ..RunSummary::default() });

    let mut broken = checked(&[]);
    let check = broken.check.as_mut().expect("a check");
    check.id = "broken".into();
    check.options.insert("fault".into(), "exit".into());
    let (failure, record, _) = failure(&keeping(&folder), broken.clone());
    let Failure::NoReference { detail } = failure else { panic!("{failure}") };
    assert!(detail.contains("exited with code 3 in phase check"), "{detail}");
    assert_eq!(record.elapsed_ns, 0, "the case was not started");
    let again = CaseSpec { id: "1".into(), ..broken.clone() };
    let (summary, _) = run(&keeping(&folder), vec![broken.clone(), again]);
    assert_eq!(summary.failed, 2);
    let (failure, ..) = common::failure(&runner(), broken);
    assert!(failure.to_string().contains("this run has no folder to keep it in"), "{failure}");
}

#[test]
fn a_reference_that_differs_from_itself_blames_no_engine() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut case = checked(&[]);
    let check = case.check.as_mut().expect("a check");
    check.id = "varies".into();
    check.options.insert("fault".into(), "stale".into());
    let (failure, record, _) = failure(&keeping(&folder), case);
    let varies = Failure::Varies { output: "output".into(), differing: 2, values: 2 };
    assert_eq!(failure, varies);
    assert_eq!(record.elapsed_ns, 0, "the case was not started");
}

#[test]
fn what_the_model_cannot_do_is_a_gap_for_the_reference_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut case = checked(&[]);
    case.key.sequence_length = Some(16);
    let (_, memory) = run(&keeping(&folder), vec![case]);
    let Outcome::Gap { gap } = &memory.records[0].outcome else { panic!("{:?}", memory.records) };
    let obstacle = AxisObstacle::NoSequenceAxis { length: 16, sized: Vec::new() };
    assert_eq!(*gap, Gap::Unsupported(Unsupported::Axes { obstacle }));
}

#[test]
fn weights_that_have_changed_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("any.model");
    fs::write(&model, "anything").expect("the folder is writable");
    fs::write(folder.path().join("weights"), "changed").expect("the folder is writable");
    let mut case = fault(&[]);
    case.model = named(&model);
    let sha256 = "0".repeat(64);
    case.model.parts = vec![FileId { name: "weights".into(), sha256, parts: Vec::new() }];
    let (failure, ..) = failure(&runner(), case);
    let Failure::Input { detail } = failure else { panic!("{failure}") };
    assert!(detail.contains("/weights has changed: its SHA-256 was "), "{detail}");
}

#[test]
fn a_model_is_inspected_without_a_plugin() {
    let digits = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/data/digits.onnx");
    let structure = runner().executor().inspect(&digits, &Interrupt::new()).expect("its structure");
    let signature = structure.signature.expect("its inputs");
    assert_eq!(signature.inputs[0].name, "image");
    let axes = signature.inputs[0].axes.as_deref().expect("its axes");
    assert_eq!(shown_axes(axes), "[batch, 1, 8, 8]");
    let folder = tempfile::tempdir().expect("a folder");
    let damaged = folder.path().join("m.onnx");
    fs::write(&damaged, "damaged").expect("the folder is writable");
    let error = runner().executor().inspect(&damaged, &Interrupt::new()).expect_err("no model");
    assert!(error.to_string().contains("is not an ONNX model"), "{error}");
}

#[test]
fn a_damaged_reference_is_not_compared_with() {
    let folder = tempfile::tempdir().expect("a folder");
    let (summary, _) = run(&keeping(&folder), vec![checked(&[])]);
    assert_eq!(summary.finished, 1);
    let file = folder.path().join("references/reference");
    let mut bytes = fs::read(&file).expect("the reference");
    let at = bytes.len() - 33;
    bytes[at] ^= 0x40;
    fs::write(&file, bytes).expect("changing it");
    let (failure, ..) = failure(&keeping(&folder), checked(&[]));
    let Failure::NoReference { detail } = failure else { panic!("{failure}") };
    assert!(detail.contains("references/reference: it is damaged: its SHA-256"), "{detail}");
}

#[test]
fn a_backend_that_finds_no_runtime_when_it_loads_is_a_gap() {
    let message = "libdemo.so is nowhere; install it with `host runtimes install demo`";
    let options = |code: &'static str| {
        let of = [("fault", "error"), ("fault-phase", "load"), ("fault-message", message)];
        fault(&[&of[..], &[("fault-code", code)]].concat())
    };
    let mut runner = runner();
    let (failure, ..) = failure(&runner, options("runtime-missing"));
    assert!(matches!(failure, Failure::Backend { .. }), "the host knows of no runtime: {failure}");
    let missing = Gap::RuntimeMissing {
        plugin: "demo".into(),
        runtime: "demo".into(),
        version: "1.0".into(),
        state: RuntimeState::Missing,
        reason: "is not installed".into(),
    };
    runner.missing_runtime = Some(missing.clone());
    let (summary, memory) = run(&runner, vec![options("runtime-missing")]);
    assert_eq!(summary, RunSummary { gaps: 1, ..RunSummary::default() });
    assert_eq!(memory.records[0].outcome, Outcome::Gap { gap: missing });
    // The code decides, and not the message.
    for code in ["internal", "not-found"] {
        let (failure, ..) = common::failure(&runner, options(code));
        assert!(matches!(failure, Failure::Backend { .. }), "{failure}");
    }
}

#[test]
fn threads_without_processors_are_told_and_others_are_not() {
    let oversubscribed = |case: CaseSpec| {
        let warnings = finish(case).0.warnings.into_iter();
        warnings
            .map(|warning| warning.doubt)
            .filter(|doubt| doubt.kind() == WarningKind::Oversubscribed)
            .collect::<Vec<_>>()
    };
    let many = oversubscribed(CaseSpec { threads: Some(4096), ..null() });
    assert_eq!(many.len(), 1, "{many:?}");
    assert!(matches!(many[0], Doubt::Oversubscribed { threads: 4096, processors: 1.., .. }));
    // A machine that is busy with other work may be reported; a quiet one is not.
    let fits = |case: CaseSpec| {
        let reported = oversubscribed(case);
        assert!(reported.iter().all(others_are_busy), "{reported:?}");
    };
    fits(CaseSpec { threads: Some(1), ..null() });

    // One processor for two threads, regardless of the machine's number.
    let mut pinned = CaseSpec { threads: Some(1), ..null() };
    pinned.measure.pin = Pin::Auto;
    let scheduling = finish(pinned.clone()).0.conditions.scheduling.expect("it is told");
    let one = processors_of_list(&scheduling.processors.expect("Linux tells")).expect("a list");
    pinned.measure.pin = Pin::Processors(one);
    fits(pinned.clone());
    let two = oversubscribed(CaseSpec { threads: Some(2), ..pinned });
    assert!(matches!(two[0], Doubt::Oversubscribed { threads: 2, processors: 1, .. }), "{two:?}");
}

fn others_are_busy(doubt: &Doubt) -> bool {
    matches!(doubt, Doubt::Oversubscribed { other_processors: Some(_), .. })
}

#[test]
fn processors_that_others_keep_busy_are_reported() {
    let scheduling = finish(null()).0.conditions.scheduling.expect("it is told");
    let processors = processors_of_list(&scheduling.processors.expect("Linux tells"));
    let processors = processors.expect("a list").len();
    let done = AtomicBool::new(false);
    let report = thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        // The first run alone is long enough to detect it.
        let mut case = fault(&[("fault", "slow"), ("fault-milliseconds", "500")]);
        case.threads = u32::try_from(processors).ok();
        case.measure.warm_up = WarmUp::Iterations(0);
        case.measure.minimum_queries = 1;
        let report = finish(case).0;
        done.store(true, Ordering::Relaxed);
        report
    });
    let mut reported = report.warnings.iter();
    let reported = reported.any(|warning| others_are_busy(&warning.doubt));
    assert!(reported, "{:?}", report.warnings);
}

#[test]
fn a_worker_runs_where_it_is_pinned() {
    let mut automatic = null();
    automatic.measure.pin = Pin::Auto;
    automatic.threads = Some(1);
    let scheduling = finish(automatic.clone()).0.conditions.scheduling.expect("it is told");
    assert!(scheduling.pinned);
    let processors = processors_of_list(&scheduling.processors.expect("Linux tells"));
    let chosen = processors.expect("a list");
    assert_eq!(chosen.len(), 1);

    let mut listed = automatic.clone();
    listed.measure.pin = Pin::Processors(chosen.clone());
    let scheduling = finish(listed).0.conditions.scheduling.expect("it is told");
    assert_eq!(scheduling.processors, Some(chosen[0].to_string()));

    automatic.measure.pin = Pin::Processors(vec![60_000]);
    let (failure, ..) = failure(&runner(), automatic);
    let text = failure.to_string();
    assert!(
        text.starts_with(
            "cannot pin the worker: `measure.pin` names the processors 60000, and this process"
        ),
        "{text}"
    );
}

#[test]
fn warming_up_and_measuring_keep_their_times() {
    let mut case = null();
    case.measure.warm_up = WarmUp::Nanoseconds(20_000_000);
    case.measure.minimum_duration_ns = 50_000_000;
    let (_, memory) = finish(case);
    let time = |phase| -> u64 {
        let blocks = memory.samples.iter().filter(|block| block.phase == phase);
        blocks.flat_map(SampleBlock::queries).map(|query| query.latency_ns).sum()
    };
    assert!(time(SamplePhase::WarmUp) >= 20_000_000);
    assert!(time(SamplePhase::Measured) >= 50_000_000);
    let starts: Vec<u64> =
        memory.samples.iter().flat_map(SampleBlock::queries).map(|query| query.start_ns).collect();
    assert!(starts.is_sorted());
}

#[test]
fn an_offline_query_is_the_data_set_in_whole_batches() {
    let mut case = null();
    case.key.scenario = Scenario::Offline;
    case.measure.minimum_queries = 3;
    case.measure.offline_examples = Some(5);
    let (_, memory) = finish(case.clone());
    assert_eq!(queries(&memory.samples, SamplePhase::Measured), 3);
    assert!(memory.samples.iter().all(|block| block.items_per_query == 6));
    case.measure.offline_examples = None;
    let (_, memory) = finish(case);
    assert!(memory.samples.iter().all(|block| block.items_per_query == 48));
}

#[test]
fn a_backend_that_queues_is_waited_for() {
    let mut case = fault(&[("fault", "slow"), ("fault-milliseconds", "5")]);
    case.key.scenario = Scenario::Offline;
    case.measure.offline_examples = Some(8);
    case.measure.minimum_queries = 2;
    case.measure.warm_up = WarmUp::Iterations(1);
    let (_, memory) = finish(case);
    for query in memory.samples.iter().flat_map(SampleBlock::queries) {
        assert!(query.latency_ns >= 4 * 5_000_000, "{query:?}");
    }
}

#[test]
fn outputs_come_for_each_example_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let values = [1.0_f32, 2.0, 3.0, 4.0, 5.0];
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let images = npy(&folder, "x.npy", "<f4", "(5, 1)", &data);
    let labels = npy(&folder, "y.npy", "|u1", "(5,)", &[3, 1, 4, 1, 5]);
    let mut case = fault(&[("fault", "print")]);
    case.inputs = InputSource::Files {
        inputs: BTreeMap::from([("input".into(), named(&images))]),
        labels: Some(named(&labels)),
        drawn: BTreeMap::new(),
    };
    let (report, memory) = finish(case.clone());
    assert_eq!(report.labels, [3, 1, 4, 1, 5]);
    let numbers = |block: &OutputBlock| match &block.values {
        OutputValues::Numbers(values) => values.clone(),
        other => panic!("not numbers: {other:?}"),
    };
    let outputs: Vec<f32> = memory.outputs.iter().flat_map(numbers).collect();
    assert_eq!(outputs, values.map(|value| 2.0 * value));
    let starts: Vec<_> = memory.outputs.iter().map(|block| block.first_example).collect();
    assert_eq!(starts, [0, 2, 4]);
    assert!(memory.outputs.iter().all(|block| block.name == "output" && block.width == 1));
    // The plugin's output ends up beside the frames, not between them.
    assert!(memory.records[0].standard_error.contains("garbage"));

    let wrong = npy(&folder, "z.npy", "<f4", "(5, 2)", &[0; 40]);
    let path = wrong.display().to_string();
    case.inputs = InputSource::Files {
        inputs: BTreeMap::from([("input".into(), named(&wrong))]),
        labels: None,
        drawn: BTreeMap::new(),
    };
    let (failure, ..) = failure(&runner(), case);
    assert_eq!(
        failure.to_string(),
        format!("input: `input` from {path}: the model wants [batch, 1], the file has [5, 2]")
    );
}

#[test]
fn every_death_is_told_apart() {
    let signal = |signal, name: &str, phase| Failure::Signal {
        signal,
        name: name.into(),
        phase,
        said: String::new(),
    };
    let cases: &[(&[(&str, &str)], Failure)] = &[
        (&[("fault", "segfault")], signal(11, "SIGSEGV", Phase::FirstRun)),
        (&[("fault", "segfault"), ("fault-after", "10")], signal(11, "SIGSEGV", Phase::Measure)),
        (&[("fault", "segfault"), ("fault-phase", "load")], signal(11, "SIGSEGV", Phase::Load)),
        (&[("fault", "abort"), ("fault-phase", "prepare")], signal(6, "SIGABRT", Phase::Prepare)),
        (&[("fault", "abort"), ("fault-phase", "unload")], signal(6, "SIGABRT", Phase::Unload)),
        (
            &[("fault", "exit"), ("fault-code", "7"), ("fault-phase", "tensor")],
            Failure::ExitCode { code: 7, phase: Phase::Inputs },
        ),
        (
            &[("fault", "exit"), ("fault-code", "0")],
            Failure::ExitCode { code: 0, phase: Phase::FirstRun },
        ),
    ];
    for (options, expected) in cases {
        let (failure, ..) = failure(&runner(), fault(options));
        assert_eq!(failure, *expected, "{options:?}");
    }
}

#[test]
fn errors_and_panics_are_reported_with_their_phase() {
    let backend = |options: &[(&str, &str)]| match failure(&runner(), fault(options)) {
        (Failure::Backend { phase, code, message, details, .. }, record, _) => {
            (phase, code, message, details, record.standard_error)
        }
        (other, ..) => panic!("{other:?}"),
    };
    let (phase, code, message, details, _) =
        backend(&[("fault", "error"), ("fault-phase", "prepare"), ("fault-code", "device")]);
    assert_eq!((phase, code), (Phase::Prepare, ErrorCode::Device));
    assert!(message.contains("asked to fail"), "{message}");
    assert_eq!(details, "nothing is wrong");
    let (phase, code, message, _, standard_error) =
        backend(&[("fault", "panic"), ("fault-after", "8")]);
    assert_eq!((phase, code), (Phase::Measure, ErrorCode::Internal));
    assert!(message.contains("asked to panic"), "{message}");
    assert!(standard_error.contains("asked to panic"), "{standard_error}");
    let (phase, code, message, ..) = backend(&[("falt", "panic")]);
    assert_eq!((phase, code), (Phase::Load, ErrorCode::InvalidArgument));
    assert!(message.contains("falt"), "{message}");

    let (failure, ..) =
        failure(&runner(), fault(&[("fault", "error"), ("fault-code", "out-of-memory")]));
    assert!(matches!(failure, Failure::OutOfMemory { phase: Phase::FirstRun, .. }), "{failure:?}");

    // Outputs that cannot be read make the times worthless.
    for what in ["error", "panic"] {
        let (phase, ..) = backend(&[("fault", what), ("fault-phase", "read")]);
        assert_eq!(phase, Phase::Outputs);
    }
    // A failed end does not.
    for (phase, call) in [("release", "release"), ("unload", "unload")] {
        let (summary, memory) =
            run(&runner(), vec![fault(&[("fault", "panic"), ("fault-phase", phase)])]);
        assert_eq!(summary, RunSummary { finished: 1, ..RunSummary::default() });
        let Outcome::Finished(report) = &memory.records[0].outcome else { panic!("{memory:?}") };
        let ended = report.warnings.iter().find(|warning| warning.kind() == WarningKind::EndFailed);
        let ended = ended.expect("a warning").to_string();
        assert!(
            ended.contains(&format!("failed in `{call}`")) && ended.contains("asked to panic"),
            "{ended}"
        );
    }

    let options = [("fault", "error"), ("fault-code", "unsupported"), ("fault-phase", "prepare")];
    let (summary, _) = run(&runner(), vec![fault(&options)]);
    assert_eq!(summary, RunSummary { gaps: 1, ..RunSummary::default() });
}

#[test]
fn a_hang_is_ended_wherever_it_is() {
    for (phase, expected, seconds) in
        [("load", Phase::Load, 2), ("run", Phase::FirstRun, 2), ("release", Phase::Unload, 2)]
    {
        let mut case = fault(&[("fault", "hang"), ("fault-phase", phase)]);
        case.measure.timeout_ns = 2_000_000_000;
        let (failure, ..) = failure(&runner(), case);
        let limit_ns = seconds * 1_000_000_000;
        assert_eq!(failure, Failure::TimedOut { phase: expected, limit_ns });
    }
    let mut case = fault(&[("fault", "hang"), ("fault-after", "8")]);
    case.measure.timeout_ns = 1_000_000_000;
    let (failure, _, memory) = failure(&runner(), case);
    assert_eq!(failure, Failure::TimedOut { phase: Phase::Measure, limit_ns: 2_000_000_000 });
    assert_eq!(queries(&memory.samples, SamplePhase::WarmUp), 5);
}

/// Returns a load that takes a second and a half, with this time-out.
fn long_load(options: &[(&str, &str)], timeout_ns: u64) -> CaseSpec {
    let long = [("fault", "long"), ("fault-phase", "load"), ("fault-milliseconds", "1500")];
    let mut case = fault(&[&long[..], options].concat());
    case.measure.timeout_ns = timeout_ns;
    case
}

#[test]
fn progress_that_a_backend_reports_is_no_silence() {
    let timeout_ns = 1_000_000_000;
    finish(long_load(&[("fault-offers", "progress")], timeout_ns));
    let (failure, ..) = failure(&runner(), long_load(&[], timeout_ns));
    assert_eq!(failure, Failure::TimedOut { phase: Phase::Load, limit_ns: timeout_ns });
}

#[test]
fn a_backend_is_asked_to_end_before_it_is_ended() {
    let (failure, record, _) = failure(&runner(), long_load(&[], 500_000_000));
    assert_eq!(failure, Failure::TimedOut { phase: Phase::Load, limit_ns: 500_000_000 });
    assert!(record.standard_error.contains("asked to end in phase load"), "{record:?}");
}

#[test]
fn queries_of_training_and_generation_have_marks() {
    for (mode, phases, within) in [
        (Mode::Training, &["forward", "backward", "update"][..], 0),
        (Mode::Generation, &["prefill", "decode"][..], 8),
    ] {
        for clients in [None, Some(2)] {
            let mut case = null();
            case.key.mode = mode;
            if let Some(clients) = clients {
                case.key.scenario = Scenario::ClosedLoop;
                case.key.clients = Some(clients);
            }
            let (_, memory) = finish(case);
            assert!(queries(&memory.samples, SamplePhase::Measured) >= 20);
            for block in &memory.samples {
                let marks = block.marks.as_ref().expect("marks");
                assert_eq!(marks.phases, phases);
                assert_eq!(marks.counts, vec![within; block.len()], "{mode}");
                // The reader of frames checks that they lie within their queries.
                assert_eq!(marks.queries().count(), block.len());
            }
        }
    }
    let (_, memory) = finish(null());
    assert!(memory.samples.iter().all(|block| block.marks.is_none()), "inference has none");
    // A query of several runs has no phases.
    let mut offline = null();
    offline.key.mode = Mode::Training;
    offline.key.scenario = Scenario::Offline;
    let (_, memory) = finish(offline);
    assert!(memory.samples.iter().all(|block| block.marks.is_none()));
}

#[test]
fn the_cost_of_marks_is_measured_in_turns() {
    let mut case = null();
    case.key.mode = Mode::Training;
    case.measure.epochs = Some(2);
    let (report, _) = finish(case.clone());
    let looking = report.conditions.looking.expect("steps have phases").expect("it is measured");
    assert!((3..=1000).contains(&looking.turns), "{looking:?}");
    assert!(looking.error_ns.is_some_and(|error| error >= 0.0), "{looking:?}");
    assert!(looking.marked_ns > 0.0 && looking.unmarked_ns >= 0.0, "{looking:?}");
    let gap = report.conditions.learning.expect("epochs are wanted").expect_err("nothing to learn");
    assert_eq!(gap, NotMeasured::NoDataSet.into());
    // Further processes would train the same.
    case.process = 1;
    assert_eq!(finish(case).0.conditions.learning, None);
    let (report, _) = finish(null());
    assert_eq!((report.conditions.looking, report.conditions.learning), (None, None));
}

#[test]
fn texts_and_what_is_not_a_tensor_are_no_numbers() {
    let (_, memory) = run(&runner(), vec![fault(&[("fault-values", "texts")])]);
    let Outcome::Gap { gap } = &memory.records[0].outcome else { panic!("{:?}", memory.records) };
    let cause = Unsupported::InputKind { input: "input".into(), value_kind: "string".into() };
    assert_eq!(*gap, Gap::Unsupported(cause));
    // The input is a number and the output is not: it is timed, and no output is recorded.
    for values in ["sequence", "map"] {
        finish(fault(&[("fault-values", values)]));
    }
}

#[test]
fn slow_queries_are_no_silence() {
    // Each query is fast enough; together they take twice the time-out.
    let mut case = fault(&[("fault", "slow"), ("fault-milliseconds", "200")]);
    case.measure.timeout_ns = 1_000_000_000;
    case.measure.maximum_duration_ns = 10_000_000;
    case.measure.warm_up = WarmUp::Iterations(10);
    let (report, memory) = finish(case);
    assert_eq!(queries(&memory.samples, SamplePhase::WarmUp), 10);
    assert_eq!(queries(&memory.samples, SamplePhase::Measured), 1);
    let kinds: Vec<_> = report.warnings.iter().map(|warning| warning.kind()).collect();
    assert!(kinds.contains(&WarningKind::FewSamples), "{kinds:?}");
}

#[test]
fn a_leak_is_ended_at_the_limit() {
    let mut case = fault(&[("fault", "leak"), ("fault-bytes", "1048576")]);
    case.measure.memory_limit_bytes = Some(256 << 20);
    case.measure.minimum_duration_ns = 60_000_000_000;
    case.measure.maximum_duration_ns = 60_000_000_000;
    // The test must not wait until the machine is full.
    case.key.batch = 1;
    let (failure, record, _) = failure(&runner(), case);
    let Failure::OutOfMemory { limit_bytes, peak_bytes, .. } = failure else {
        panic!("{failure:?}\n{}", record.standard_error);
    };
    assert_eq!(limit_bytes, Some(256 << 20));
    assert!(peak_bytes > limit_bytes);
}

#[test]
fn a_plugin_is_described() {
    let description =
        runner().describe(&BUILT.null, None, &Interrupt::new()).expect("null is a plugin");
    assert_eq!((description.id.as_str(), description.engine.as_str()), ("null", "none"));
    assert_eq!(description.devices[0].id, "null:0");
    assert_eq!(description.abi.0, 1);
}

/// Compiles C into a shared library.
fn compile(folder: &TempDir, name: &str, source: &str, arguments: &[&str]) -> PathBuf {
    let path = folder.path().join(format!("lib{name}.so"));
    let file = folder.path().join(format!("{name}.c"));
    fs::write(&file, source).expect("writing a file");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugin-api/native/include");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&path, &file])
        .arg("-I")
        .arg(include)
        .args(arguments)
        .current_dir(folder.path())
        .status();
    assert!(status.expect("starting the C compiler").success());
    path
}

#[test]
fn only_the_library_that_was_admitted_is_opened() {
    let output = Command::new("sha256sum").arg(&BUILT.null).output().expect("starting sha256sum");
    let sha256 = String::from_utf8_lossy(&output.stdout)[..64].to_owned();
    runner().describe(&BUILT.null, Some(&sha256), &Interrupt::new()).expect("it is the one");
    let other = "0".repeat(64);
    let error =
        runner().describe(&BUILT.null, Some(&other), &Interrupt::new()).expect_err("it is another");
    assert!(
        matches!(&error.failure, Failure::PluginChanged { detail } if detail.contains(&sha256))
    );
    let mut case = null();
    case.plugin.sha256 = sha256.clone();
    case.model.sha256 = sha256;
    let _ = finish(case.clone());
    case.model.sha256 = other.clone();
    let (found, ..) = failure(&runner(), case.clone());
    assert!(
        matches!(&found, Failure::Input { detail } if detail.contains("has changed")),
        "{found}"
    );
    case.plugin.sha256 = other;
    let (found, ..) = failure(&runner(), case);
    assert!(matches!(found, Failure::PluginChanged { .. }), "{found}");
}

#[test]
fn a_library_that_is_replaced_while_it_is_opened_is_found_out() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = r#"
        #include <stdlib.h>
        #include "plugin_api.h"
        __attribute__((constructor)) static void replace(void) { if (system(REPLACE)) abort(); }
        const tare_backend_api *tare_backend_v1(const tare_host_api *host) { (void)host; abort(); }
    "#;
    let path = folder.path().join("libswap.so");
    let path = path.to_str().expect("UTF-8");
    let replace = format!("-DREPLACE=\"cp {path} {path}.new && mv {path}.new {path}\"");
    let library = compile(&folder, "swap", source, &[&replace]);
    let error = runner().describe(&library, None, &Interrupt::new()).expect_err("it was replaced");
    assert!(
        matches!(&error.failure, Failure::PluginChanged { detail } if detail.contains("replaced")),
        "{error}\n{}",
        error.standard_error
    );
}

#[test]
fn files_that_are_no_plugins_for_this_host_are_told_apart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let refuse = |library: &Path| {
        let error = runner()
            .describe(library, None, &Interrupt::new())
            .expect_err("no plugin for this host");
        let text = error.failure.to_string();
        (error.failure, text.replace(folder.path().to_str().expect("UTF-8"), ""))
    };

    let text = folder.path().join("libtext.so");
    fs::write(&text, "I am a plugin, believe me.").expect("writing a file");
    let (failure, said) = refuse(&text);
    assert!(matches!(failure, Failure::NotAPlugin { .. }));
    assert_eq!(said, "not a plugin: /libtext.so is no file that a loader knows");

    let mut bytes = fs::read(&BUILT.null).expect("reading the plugin");
    let foreign: u16 = if cfg!(target_arch = "x86_64") { 183 } else { 62 };
    bytes[18..20].copy_from_slice(&foreign.to_le_bytes());
    let other = folder.path().join("libother.so");
    fs::write(&other, &bytes).expect("writing a file");
    assert!(matches!(refuse(&other).0, Failure::WrongArchitecture { .. }));

    let cut = folder.path().join("libcut.so");
    bytes[18..20].copy_from_slice(&fs::read(&BUILT.null).expect("reading the plugin")[18..20]);
    fs::write(&cut, &bytes[..2000]).expect("writing a file");
    assert!(matches!(refuse(&cut).0, Failure::NotAPlugin { .. }), "{:?}", refuse(&cut));

    let none = refuse(&folder.path().join("libnone.so"));
    assert!(matches!(none.0, Failure::MissingLibrary { .. }));
    assert_eq!(
        none.1,
        "a required library is missing: /libnone.so: No such file or directory (os error 2)"
    );

    let empty = compile(&folder, "empty", "int nothing;", &[]);
    let (failure, _) = refuse(&empty);
    assert!(
        matches!(&failure, Failure::MissingSymbol { symbol, .. } if symbol == "tare_backend_v1"),
        "{failure:?}"
    );

    let needs = compile(
        &folder,
        "needs",
        "int nothing; int use(void) { return nothing; }",
        &["-L.", "-Wl,--no-as-needed", "-lempty"],
    );
    fs::remove_file(&empty).expect("removing a file");
    let (failure, said) = refuse(&needs);
    assert!(matches!(failure, Failure::MissingLibrary { .. }));
    assert!(said.contains("libempty.so"), "{said}");

    let lazy =
        compile(&folder, "lazy", "int absent(void); int use(void) { return absent(); }", &[]);
    let (failure, _) = refuse(&lazy);
    assert!(
        matches!(&failure, Failure::MissingSymbol { symbol, .. } if symbol == "absent"),
        "{failure:?}"
    );

    let newer =
        compile(&folder, "newer", "void *tare_backend_v2(void *host) { return host; }", &[]);
    assert_eq!(
        refuse(&newer).1,
        "incompatible version: the plugin speaks ABI 2, this host speaks 1.1; update the host"
    );

    let refusing = r#"
        #include "plugin_api.h"
        const tare_backend_api *tare_backend_v1(const tare_host_api *host) {
            static const char reason[] = "this plugin wants ABI 1.7; update the host";
            tare_string text = { reason, sizeof reason - 1 };
            host->refuse(host->context, text);
            return 0;
        }
    "#;
    let (failure, said) = refuse(&compile(&folder, "refusing", refusing, &[]));
    assert!(matches!(failure, Failure::RefusedVersion { .. }), "{failure:?}");
    assert!(said.ends_with("this plugin wants ABI 1.7; update the host"), "{said}");

    let crashing = "__attribute__((constructor)) void start(void) { __builtin_trap(); }";
    let (failure, _) = refuse(&compile(&folder, "crashing", crashing, &[]));
    assert!(matches!(failure, Failure::Signal { phase: Phase::Open, .. }), "{failure:?}");
}

#[test]
fn no_worker_outlives_its_host() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let request = folder.path().join("request");
    let case = fault(&[("fault", "hang"), ("fault-phase", "load")]);
    let files = CaseFiles {
        library: BUILT.fault.clone(),
        model: case.model.name.clone().into(),
        ..CaseFiles::default()
    };
    let hang = Request::Measure {
        reference: None,
        calibration: None,
        protocol_version: PROTOCOL_VERSION,
        case: Box::new(case),
        files: Box::new(files),
    };
    fs::write(&request, serde_json::to_vec(&hang).expect("a request is JSON")).expect("writing");
    // The shell is the host; it prints its worker's id, and is killed without notice.
    let mut host = Command::new("sh")
        .args(["-c", r#""$0" < "$1" > "$2" & echo $!; wait"#])
        .args([&BUILT.worker, &request, &folder.path().join("frames")])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starting a shell");
    let mut line = String::new();
    let stdout = host.stdout.take().expect("it is piped");
    BufReader::new(stdout).read_line(&mut line).expect("reading a line");
    let stat = PathBuf::from(format!("/proc/{}/stat", line.trim()));
    let patience = Instant::now() + common::PATIENCE;
    let wait = |what: &str, done: &dyn Fn() -> bool| {
        while !done() {
            assert!(Instant::now() < patience, "{what}");
            thread::sleep(Duration::from_millis(10));
        }
    };
    let frames = || {
        let bytes = fs::read(folder.path().join("frames")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    wait("the worker hangs", &|| frames().contains("load"));
    host.kill().expect("killing the shell");
    host.wait().expect("waiting for the shell");
    // If nothing reaps orphans, it remains as a zombie.
    let alive = || {
        let stat = fs::read_to_string(&stat).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
    };
    wait("the worker is gone", &|| !alive());
}

fn measured(memory: &common::Memory) -> Vec<QueryTimes> {
    let blocks = memory.samples.iter().filter(|block| block.phase == SamplePhase::Measured);
    blocks.flat_map(SampleBlock::queries).collect()
}

fn reasons(report: &WorkerReport) -> Vec<InvalidKind> {
    let verdict = report.verdict.as_ref().expect("every case is judged");
    verdict.reasons.iter().map(|reason| reason.kind()).collect()
}

#[test]
fn a_server_is_asked_by_a_schedule_of_its_own() {
    let mut case = null();
    case.key.scenario = Scenario::Server;
    case.key.rate = Rate::per_second(500.0).ok();
    case.measure.minimum_duration_ns = 200_000_000;
    let (report, memory) = finish(case.clone());
    let queries = measured(&memory);
    assert!((50..200).contains(&queries.len()), "{} queries", queries.len());
    let schedule: Vec<u64> =
        queries.iter().map(|query| query.scheduled_ns.expect("an open loop")).collect();
    assert!(schedule.is_sorted());
    let pace = report.pace.expect("an open loop has a pace");
    assert_eq!((pace.asked.get(), pace.unserved), (500.0, 0));
    // The same seed gives the same arrivals; the warm-up has different ones.
    let gaps = |times: &[u64]| times.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>();
    let (_, again) = finish(case);
    let other: Vec<u64> = measured(&again).iter().filter_map(|query| query.scheduled_ns).collect();
    let count = schedule.len().min(other.len());
    assert_eq!(gaps(&schedule[..count]), gaps(&other[..count]));
}

#[test]
fn a_queue_that_grows_is_invalid_and_its_waits_are_in_the_latencies() {
    let mut case = fault(&[("fault", "slow"), ("fault-milliseconds", "5")]);
    case.key.scenario = Scenario::ConstantRate;
    case.key.rate = Rate::per_second(1000.0).ok();
    case.measure.warm_up = WarmUp::Iterations(1);
    case.measure.minimum_queries = 40;
    let (report, memory) = finish(case);
    let kinds = reasons(&report);
    assert!(kinds.contains(&InvalidKind::TooSlow), "{kinds:?}");
    let invalid = report.warnings.iter().filter(|warning| warning.kind() == WarningKind::Invalid);
    assert_eq!(invalid.count(), kinds.len(), "what is invalid is told with the warnings too");
    let queries = measured(&memory);
    let last = queries.last().expect("queries");
    // The 40th query was due after 39 ms and had 39 queries of 5 ms before it.
    assert!(last.latency_ns > 100_000_000, "{last:?}");
}

#[test]
fn a_query_of_multi_stream_is_several_samples() {
    let mut case = null();
    case.key.scenario = Scenario::MultiStream;
    case.key.batch = 3;
    let (report, memory) = finish(case);
    assert!(memory.samples.iter().all(|block| block.items_per_query == 9), "8 in whole batches");
    assert_eq!(reasons(&report), []);
    assert_eq!(report.pace, None);
}

#[test]
fn clients_are_served_at_once_by_a_backend_that_can() {
    let mut case = null();
    case.key.scenario = Scenario::ClosedLoop;
    case.key.clients = Some(1);
    let (_, memory) = finish(case.clone());
    assert_eq!(queries(&memory.samples, SamplePhase::Measured), 20);
    case.key.clients = Some(3);
    let (_, memory) = finish(case);
    assert!(queries(&memory.samples, SamplePhase::Measured) >= 20);
    let lanes: BTreeSet<u32> = memory.samples.iter().map(|block| block.lane).collect();
    assert_eq!(lanes, [0, 1, 2].into());

    let mut case = fault(&[]);
    case.key.scenario = Scenario::ClosedLoop;
    case.key.clients = Some(2);
    let (summary, memory) = run(&runner(), vec![case]);
    assert_eq!(summary.gaps, 1, "{memory:?}");
}

#[test]
fn a_latency_over_its_limit_is_invalid() {
    let limit = |milliseconds: u64| LatencyLimit {
        at_most_ns: milliseconds * 1_000_000,
        percentile: Share::new(0.5).ok(),
    };
    let mut case = fault(&[("fault", "slow"), ("fault-milliseconds", "5")]);
    case.measure.latency_limit = Some(limit(2));
    assert_eq!(reasons(&finish(case.clone()).0), [InvalidKind::OverLimit]);
    case.measure.latency_limit = Some(limit(500));
    assert_eq!(reasons(&finish(case).0), []);
}

#[test]
fn the_rules_of_mlperf_want_ten_minutes_and_count_queries() {
    // The rules add ten times the longest query to the time, which would be hundreds of very short ones.
    let mut case = fault(&[("fault", "slow"), ("fault-milliseconds", "1")]);
    case.measure.rules = Some(RuleSet::MlPerf);
    // MLPerf's queries have one example.
    assert!(reasons(&finish(case.clone()).0).contains(&InvalidKind::AgainstRules));
    case.key.batch = 1;
    let (report, _) = finish(case.clone());
    assert_eq!(reasons(&report), [InvalidKind::TooShort, InvalidKind::TooFewQueries]);
    // The binomial bound would accept 64 queries, with one that may be over, and LoadGen wants 100.
    case.measure.minimum_queries = 100;
    assert_eq!(reasons(&finish(case.clone()).0), [InvalidKind::TooShort]);
    case.key.scenario = Scenario::ConstantRate;
    case.key.rate = Rate::per_second(1000.0).ok();
    assert!(reasons(&finish(case).0).contains(&InvalidKind::NoRules));
}

/// Returns a search for the highest rate of a device with this time per query, in milliseconds.
fn searched(milliseconds: &str, at_most_ns: u64, percentile: f64) -> CaseSpec {
    let mut case = fault(&[("fault", "slow"), ("fault-milliseconds", milliseconds)]);
    case.key.scenario = Scenario::ConstantRate;
    case.measure.warm_up = WarmUp::Iterations(1);
    case.measure.find = Some(Find::MaxRate);
    let percentile = Share::new(percentile).ok();
    case.measure.latency_limit = Some(LatencyLimit { at_most_ns, percentile });
    case
}

#[test]
fn the_highest_rate_is_searched_and_measured() {
    // Far above the 2 ms that a query takes, so that only a queue can exceed it.
    let mut case = searched("2", 40_000_000, 0.5);
    case.measure.warm_up = WarmUp::Iterations(5);
    case.measure.minimum_duration_ns = 30_000_000;
    let (report, memory) = finish(case);
    let search = report.search.clone().expect("a search");
    for probe in &search.probes {
        let achieved = probe.achieved_per_second.expect("several queries ended");
        // Without a queue, queries end as fast as they arrive, and none ends faster than a query takes.
        assert!(achieved < 700.0, "{probe:?}");
        assert!(probe.latency_ns.is_none() || achieved > 0.5 * probe.rate.get(), "{probe:?}");
        let late = probe.lateness.expect("an open loop has a generator");
        assert!(late.median_ns <= late.p99_ns && late.p99_ns <= late.maximum_ns, "{late:?}");
    }
    let searched = memory.samples.iter().filter(|block| block.phase == SamplePhase::Search);
    assert!(searched.count() > 0, "samples of the search are kept, and marked");
    if search.end == SearchEnd::GeneratorLate {
        // On a machine that is this busy the search ends with this reason, and the case is invalid.
        let probe = search.probes.last().expect("a probe");
        assert!(probe.latency_ns.is_none(), "{probe:?}");
        assert!(probe.lateness.is_some_and(|late| late.p99_ns > 4_000_000), "{probe:?}");
        assert!(reasons(&report).contains(&InvalidKind::NotFound), "{search:?}");
        return;
    }
    assert!(search.probes.len() > 3, "{search:?}");
    let accepted = search.accepted.expect("an accepted rate").get();
    for probe in search.probes.iter().filter(|probe| Some(probe.rate) == search.rejected) {
        assert!(probe.rate.get() > accepted, "{search:?}");
    }
    // The 2 ms are the same on every machine.
    assert!(accepted < 700.0, "{search:?}");
    let asked = report.pace.expect("an open loop").asked.get();
    assert_eq!(asked, accepted, "the case is measured at the rate that was found");
}

/// A hundred queries of 20 ms do not fit into a tenth of a second at any rate.
#[test]
fn a_search_that_the_maximum_has_no_room_for_is_reported() {
    let mut case = searched("20", 30_000_000, 0.99);
    case.measure.minimum_duration_ns = 20_000_000;
    case.measure.maximum_duration_ns = 200_000_000;
    let (report, _) = finish(case);
    let search = report.search.clone().expect("a search");
    assert_eq!((search.end, search.accepted), (SearchEnd::LimitedByDuration, None), "{search:?}");
    assert_eq!(search.rejected.map(Rate::get), Some(1000.0));
    // Each takes 20 ms, and none begins after the maximum.
    assert!(search.probes.iter().all(|probe| probe.queries <= 10), "{search:?}");
    assert_eq!(search.probes.len(), 2);
    let reasons = report.verdict.expect("a verdict").reasons;
    let found = reasons.iter().find(|reason| reason.kind() == InvalidKind::NotFound);
    let breach = found.map(|found| &found.breach);
    let expected = Breach::NotFound {
        end: SearchEnd::LimitedByDuration,
        rate: Rate::per_second(1000.0).ok(),
        probes: 2,
        maximum_ns: 200_000_000,
    };
    assert_eq!(breach, Some(&expected));
}

#[test]
fn warming_up_can_end_by_itself_and_measuring_when_an_interval_is_narrow() {
    let mut case = null();
    case.measure.warm_up = WarmUp::Auto;
    let level = Share::new(0.95).expect("a share");
    let half_width = Share::new(0.5).expect("a share");
    let percentile = Share::new(0.5).expect("a share");
    case.measure.confidence = Some(Confidence { level, half_width, percentile });
    let (report, memory) = finish(case);
    let facts = report.warm_up.expect("warming up was watched");
    assert!(facts.queries >= 40 && facts.elapsed_ns >= 500_000_000, "{facts:?}");
    assert_eq!(queries(&memory.samples, SamplePhase::WarmUp) as u64, facts.queries);
    assert!(queries(&memory.samples, SamplePhase::Measured) >= 20);
}

#[test]
fn a_case_of_which_one_process_fails_is_over() {
    let in_process = |mut case: CaseSpec, process| {
        case.measure.processes = 3;
        case.process = process;
        case
    };
    let cases = (0..3).map(|process| in_process(null(), process)).collect();
    let (summary, memory) = run(&runner(), cases);
    assert_eq!(summary.finished, 3);
    let processes: Vec<_> = memory.records.iter().map(|record| record.process).collect();
    assert_eq!(processes, [0, 1, 2]);

    let broken = fault(&[("fault", "error"), ("fault-phase", "load")]);
    let cases = (0..3).map(|process| in_process(broken.clone(), process)).collect();
    let (summary, memory) = run(&runner(), cases);
    assert_eq!((summary.failed, memory.records.len()), (1, 1), "{summary:?}");
}
