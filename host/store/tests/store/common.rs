//! Cases and runs to write in tests.

use std::collections::BTreeMap;
use std::path::PathBuf;

use host_record::{
    AllocatorUse, AxesChoice, CaseKey, CaseRecord, CaseSpec, ClockFacts, Conditions, DeviceInfo,
    DeviceSample, DomainEnergy, Doubt, Energy, Environment, FileId, Gap, InputSource,
    MeasureSettings, MemoryUse, MetricValue, Mode, NotMeasured, Outcome, OutputBlock,
    PlacementRule, PluginIdentity, Precision, Processor, ProfiledOperator, RECORD_VERSION,
    Recorder, SampleBlock, SamplePhase, SampleTimes, Scenario, SlowedBy, StageTimes, Timings,
    WarmUp, WorkerReport,
};
use host_store::{NewRun, PlanLine, PluginRole, Program, ResultRecord, RunPlugin, RunWriter};

pub(crate) fn plugin(id: &str) -> PluginIdentity {
    PluginIdentity { id: id.into(), version: "0.1.0".into(), sha256: "ab".repeat(32) }
}

pub(crate) fn environment() -> Environment {
    Environment {
        processor: Processor {
            name: Some("Test Processor".into()),
            architecture: "x86_64".into(),
            logical: Some(2),
            ..Processor::default()
        },
        memory_bytes: Some(8 << 30),
        git_commit: Some("0123abc-dirty".into()),
        git_dirty: Some(true),
        ..Environment::default()
    }
}

pub(crate) fn new_run() -> NewRun {
    NewRun {
        experiment: "Quick start".into(),
        description: "A run that a test made.".into(),
        host_version: "0.1.0".into(),
        manifest_path: PathBuf::from("manifests/quickstart.toml"),
        manifest_text: "schema = 1\n".into(),
        plugins: vec![RunPlugin {
            role: PluginRole::Backend,
            identity: plugin("cpu"),
            runtime: None,
            hides: None,
        }],
        programs: vec![Program {
            name: "host-worker".into(),
            version: "0.1.0".into(),
            sha256: "ef".repeat(32),
        }],
        environment: environment(),
    }
}

pub(crate) fn key(index: u64) -> CaseKey {
    CaseKey {
        batch: 1 << (index % 7),
        scenario: if index.is_multiple_of(2) { Scenario::SingleStream } else { Scenario::Offline },
        ..CaseKey::new("digits", "cpu", "cpu:0")
    }
}

pub(crate) fn spec(index: u64) -> CaseSpec {
    CaseSpec {
        id: format!("{index:016x}"),
        index,
        key: key(index),
        model: FileId { name: "digits.onnx".into(), sha256: "cd".repeat(32), ..FileId::default() },
        machine: "laptop".into(),
        plugin: plugin("cpu"),
        device: DeviceInfo {
            id: "cpu:0".into(),
            kind: "cpu".into(),
            name: "Test Processor".into(),
            memory_bytes: None,
            modes: vec![Mode::Inference],
            precisions: vec![Precision::Fp32],
            attributes: BTreeMap::new(),
        },
        threads: Some(1),
        placement: PlacementRule::Any,
        environment: Vec::new(),
        check: None,
        options: BTreeMap::new(),
        inputs: InputSource::Synthetic(BTreeMap::new()),
        axes: AxesChoice::default(),
        values: BTreeMap::new(),
        measure: MeasureSettings {
            warm_up: WarmUp::Iterations(10),
            minimum_duration_ns: 1_000_000_000,
            maximum_duration_ns: 2_000_000_000,
            minimum_queries: 100,
            timeout_ns: 60_000_000_000,
            ..MeasureSettings::default()
        },
        seed: u64::MAX - index,
        process: 0,
        asked: None,
    }
}

pub(crate) fn report() -> WorkerReport {
    WorkerReport {
        timings: Timings {
            open_ns: Some(1),
            load_ns: Some(2),
            prepare_ns: None,
            first_run_ns: Some(4),
        },
        peak_memory_bytes: Some(50 << 20),
        baseline_memory_bytes: Some(10 << 20),
        labels: vec![3, -1, 7],
        clock: ClockFacts {
            source: "CLOCK_MONOTONIC".into(),
            resolution_ns: 1,
            read_ns: 20.5,
            loop_ns: 31.25,
            ..ClockFacts::default()
        },
        warnings: vec![Doubt::Drift { from_ns: 1e6, to_ns: 1.03e6, scatter_ns: 2e3 }.into()],
        used: BTreeMap::from([("engine".into(), "rten".into())]),
        conditions: conditions(),
        profile: vec![operator("conv", 0, 70), operator("softmax", 70, 10)],
        device_states: vec![
            look(10, Some(&[SlowedBy::Power, SlowedBy::Heat])),
            look(20, Some(&[])),
            look(30, None),
        ],
        ..WorkerReport::default()
    }
}

fn look(time_ns: u64, slowed_by: Option<&[SlowedBy]>) -> DeviceSample {
    DeviceSample {
        time_ns,
        clock_hertz: Some(1.5e9),
        slowed_by: slowed_by.map(<[_]>::to_vec),
        ..DeviceSample::default()
    }
}

fn operator(name: &str, start_ns: u64, duration_ns: u64) -> ProfiledOperator {
    let (kind, provider) = ("Node".into(), "TestProvider".into());
    ProfiledOperator { name: name.into(), kind, provider, start_ns, duration_ns }
}

pub(crate) fn conditions() -> Conditions {
    let domain = |domain: &str, joules| DomainEnergy {
        domain: domain.into(),
        joules,
        seconds: 2.0,
        step_seconds: None,
    };
    let extension = "tare/stage-times/1".into();
    let nothing = NotMeasured::NotOffered { extension }.into();
    Conditions {
        energy: Some(Energy {
            processor: Ok(vec![domain("package-0", 30.0), domain("package-0/dram", 3.0)]),
            device: Ok(domain("gpu:0", 100.0)),
        }),
        memory: Some(MemoryUse {
            started: None,
            average_bytes: Some(40 << 20),
            average_of: 20,
            proportional_bytes: Some(45 << 20),
            device_peak_bytes: Some(Ok(1 << 30)),
            allocator: Some(Ok(AllocatorUse {
                name: "Arena".into(),
                used_bytes: 1 << 28,
                peak_bytes: Some(1 << 29),
                reserved_bytes: None,
            })),
        }),
        stages: Some(Ok(StageTimes {
            queries: 10,
            copy_in_ns: 10.0,
            compute_ns: 80.0,
            copy_out_ns: 5.0,
            inside_run: Err(nothing),
        })),
        ..Conditions::default()
    }
}

pub(crate) fn record(spec: &CaseSpec, outcome: Outcome) -> CaseRecord {
    CaseRecord {
        record_version: RECORD_VERSION,
        case_id: spec.id.clone(),
        key: spec.key.clone(),
        spec: Some(spec.clone()),
        started_at: "2026-07-28T09:15:03.123Z".into(),
        elapsed_ns: 1_500_000_000,
        outcome,
        standard_error: String::new(),
        environment: None,
        process: spec.process,
        further: Vec::new(),
    }
}

pub(crate) fn gap_record(index: u64) -> CaseRecord {
    let gap = gap();
    CaseRecord { spec: None, elapsed_ns: 0, ..record(&spec(index), Outcome::Gap { gap }) }
}

pub(crate) fn gap() -> Gap {
    Gap::PrecisionUnsupported {
        backend: "cpu".into(),
        device: "cpu:0".into(),
        precision: Precision::Int8,
        offered: vec![Precision::Fp32],
    }
}

/// Returns consecutive queries with different latencies that identify the case and their place.
pub(crate) fn block(phase: SamplePhase, first_edge: u64, latencies: &[u64]) -> SampleBlock {
    let mut edges_ns = vec![first_edge];
    for latency in latencies {
        edges_ns.push(edges_ns[edges_ns.len() - 1] + latency);
    }
    let times = SampleTimes::Chain(edges_ns);
    SampleBlock { phase, items_per_query: 8, lane: 0, times, marks: None }
}

pub(crate) fn latencies(index: u64, count: u64) -> Vec<u64> {
    (0..count).map(|query| 1000 + index * 100 + (query * 7919) % 97).collect()
}

/// Runs a whole case: warm-up, measured samples, two outputs.
pub(crate) fn write_case(writer: &mut RunWriter, index: u64, queries: u64) {
    let spec = spec(index);
    writer.case_started(&spec).expect("a started case");
    writer.samples(&block(SamplePhase::WarmUp, 0, &[9, 9, 9])).expect("samples");
    for part in latencies(index, queries).chunks(1000) {
        writer.samples(&block(SamplePhase::Measured, 1_000_000, part)).expect("samples");
    }
    for example in 0..3 {
        for name in ["logits", "embedding"] {
            let values = vec![example as f32, -0.5, f32::INFINITY].into();
            let block = OutputBlock { name: name.into(), first_example: example, width: 3, values };
            writer.outputs(&block).expect("outputs");
        }
    }
    let record = record(&spec, Outcome::Finished(Box::new(report())));
    writer.case_finished(&record).expect("a finished case");
}

pub(crate) fn metric(name: &str, value: f64) -> MetricValue {
    MetricValue {
        metric: name.into(),
        value: Ok(value),
        interval: Some((value - 1.0, value + 1.0)),
        unit: "ns".into(),
        direction: host_record::Direction::Lower,
        attributes: BTreeMap::from([("quantile".into(), "nearest rank".into())]),
    }
}

pub(crate) fn result(index: u64, values: Vec<MetricValue>) -> ResultRecord {
    ResultRecord::new(spec(index).id, plugin("latency"), serde_json::json!({}), values)
}

pub(crate) fn write_plan(writer: &RunWriter, cases: u64, gaps: u64) {
    let mut plan = writer.plan_writer().expect("a plan writer");
    for index in 0..cases {
        plan.write(&PlanLine::from(&spec(index))).expect("a plan line");
    }
    for index in cases..cases + gaps {
        let gap = Some(gap());
        plan.write(&PlanLine { gap, ..PlanLine::from(&spec(index)) }).expect("a plan line");
    }
    plan.finish().expect("a plan");
}
