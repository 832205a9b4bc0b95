//! What the tests of this room share: a case to change, and a recorder in memory.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use host_plan::PlannedCase;
use host_record::{
    CaseKey, CaseRecord, CaseSpec, DeviceInfo, Failure, InputSource, MeasureSettings, Mode,
    Outcome, OutputBlock, PlacementRule, PluginIdentity, Precision, Recorder, SampleBlock,
    Scenario, WarmUp,
};
use host_run::{Interrupt, RunSummary, Runner, Silent};

/// Long enough for a worker on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A quick case of a model and a plugin.
pub(crate) fn case(id: &str, model: &Path, library: &Path) -> CaseSpec {
    CaseSpec {
        id: id.into(),
        index: 0,
        key: CaseKey {
            model: "model".into(),
            backend: "backend".into(),
            device: "fault:0".into(),
            precision: Precision::Fp32,
            batch: 2,
            sequence_length: None,
            mode: Mode::Inference,
            scenario: Scenario::SingleStream,
            rate: None,
            clients: None,
        },
        model_path: model.into(),
        model_sha256: String::new(),
        plugin: PluginIdentity {
            id: "fault".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            sha256: String::new(),
        },
        plugin_library: library.into(),
        device: DeviceInfo {
            id: "fault:0".into(),
            kind: "cpu".into(),
            name: String::new(),
            memory_bytes: None,
            modes: vec![Mode::Inference],
            precisions: vec![Precision::Fp32],
            attributes: BTreeMap::new(),
        },
        threads: None,
        placement: PlacementRule::Any,
        check: None,
        options: BTreeMap::new(),
        inputs: InputSource::Synthetic(BTreeMap::new()),
        measure: MeasureSettings {
            warm_up: WarmUp::Iterations(5),
            minimum_duration_ns: 0,
            maximum_duration_ns: 1_000_000_000,
            minimum_queries: 20,
            timeout_ns: PATIENCE.as_nanos() as u64,
            ..MeasureSettings::default()
        },
        seed: 7,
        process: 0,
    }
}

/// Keeps everything in memory.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) started: Vec<String>,
    pub(crate) samples: Vec<SampleBlock>,
    pub(crate) outputs: Vec<OutputBlock>,
    pub(crate) records: Vec<CaseRecord>,
}

impl Recorder for Memory {
    type Error = Infallible;

    fn case_started(&mut self, case: &CaseSpec) -> Result<(), Infallible> {
        self.started.push(case.id.clone());
        Ok(())
    }

    fn samples(&mut self, block: &SampleBlock) -> Result<(), Infallible> {
        self.samples.push(block.clone());
        Ok(())
    }

    fn outputs(&mut self, block: &OutputBlock) -> Result<(), Infallible> {
        self.outputs.push(block.clone());
        Ok(())
    }

    fn case_finished(&mut self, record: &CaseRecord) -> Result<(), Infallible> {
        self.records.push(record.clone());
        Ok(())
    }
}

/// Runs cases to the end.
pub(crate) fn run(runner: &Runner, cases: Vec<CaseSpec>) -> (RunSummary, Memory) {
    let mut memory = Memory::default();
    let items = cases.into_iter().map(|case| PlannedCase::Case(Box::new(case)));
    let summary = runner
        .run(items, &mut memory, &mut Silent, &Interrupt::new())
        .expect("memory does not fail");
    (summary, memory)
}

/// Runs one case that fails, and returns how, with its record.
#[track_caller]
pub(crate) fn failure(runner: &Runner, case: CaseSpec) -> (Failure, CaseRecord, Memory) {
    let (summary, mut memory) = run(runner, vec![case]);
    let record = memory.records.pop().expect("a record");
    assert_eq!(summary, RunSummary { failed: 1, ..RunSummary::default() }, "{record:?}");
    match &record.outcome {
        Outcome::Failed { failure } => (failure.clone(), record, memory),
        other => panic!("it did not fail: {other:?}"),
    }
}
