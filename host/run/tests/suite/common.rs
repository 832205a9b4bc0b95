//! Shared code of this crate's tests: a case to change, and a recorder in memory.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use host_plan::PlannedCase;
use host_record::protocol::BackendDescription;
use host_record::{
    AxesChoice, CaseKey, CaseRecord, CaseSpec, DeviceInfo, Failure, FileId, Gap, InputSource,
    MeasureSettings, Mode, Outcome, OutputBlock, PlacementRule, PluginIdentity, Precision,
    Recorder, SampleBlock, WarmUp,
};
use host_run::{
    DescribeError, Interrupt, LocalExecutor, LocalPlugin, Observer, Resolver, RunError, RunSummary,
    Silent,
};

/// Time limit that is long enough for a worker on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Returns a quick case of a model and a plugin.
pub(crate) fn case(id: &str, model: &Path, library: &Path) -> CaseSpec {
    CaseSpec {
        id: id.into(),
        index: 0,
        key: CaseKey { batch: 2, ..CaseKey::new("model", "backend", "fault:0") },
        model: named(model),
        plugin: plugin_in(library),
        machine: String::new(),
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
        environment: Vec::new(),
        check: None,
        options: BTreeMap::new(),
        inputs: InputSource::Synthetic(BTreeMap::new()),
        axes: AxesChoice::default(),
        values: BTreeMap::new(),
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
        asked: None,
    }
}

/// Returns a file whose name is its path, by which [`Runner`] finds it.
pub(crate) fn named(path: &Path) -> FileId {
    FileId { name: path.display().to_string(), sha256: String::new(), ..FileId::default() }
}

/// Libraries of the backends that cargo built, by their ids.
static LIBRARIES: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());

/// Returns the plugin in a library, which [`Runner`] finds again. A library not built by cargo has its path as id.
fn plugin_in(library: &Path) -> PluginIdentity {
    let stem = library.file_stem().and_then(|stem| stem.to_str());
    let id = match stem.and_then(|stem| stem.strip_prefix("libbackend_")) {
        Some(id) => {
            let mut libraries = LIBRARIES.lock().expect("nobody panics with it");
            libraries.insert(id.to_owned(), library.to_owned());
            id.to_owned()
        }
        None => library.display().to_string(),
    };
    PluginIdentity { id, version: env!("CARGO_PKG_VERSION").into(), sha256: String::new() }
}

/// Runs cases on this machine, with files that are named by their paths.
#[derive(Debug, Clone)]
pub(crate) struct Runner {
    pub(crate) worker: PathBuf,
    pub(crate) describe_timeout: Option<Duration>,
    pub(crate) references: Option<PathBuf>,
    pub(crate) runtime: Option<PathBuf>,
    pub(crate) missing_runtime: Option<Gap>,
}

impl Resolver for Runner {
    fn file(&self, file: &FileId) -> Result<PathBuf, String> {
        Ok(PathBuf::from(&file.name))
    }

    fn plugin(&self, plugin: &PluginIdentity) -> Result<LocalPlugin, String> {
        let libraries = LIBRARIES.lock().expect("nobody panics with it");
        let library = libraries.get(&plugin.id).cloned();
        Ok(LocalPlugin {
            library: library.unwrap_or_else(|| PathBuf::from(&plugin.id)),
            runtime: self.runtime.clone(),
            variables: Vec::new(),
            missing_runtime: self.missing_runtime.clone(),
        })
    }
}

impl Runner {
    pub(crate) fn new(worker: impl Into<PathBuf>) -> Self {
        Self {
            worker: worker.into(),
            describe_timeout: None,
            references: None,
            runtime: None,
            missing_runtime: None,
        }
    }

    pub(crate) fn executor(&self) -> LocalExecutor {
        let mut executor = LocalExecutor::new(&self.worker, Arc::new(self.clone()));
        executor.references.clone_from(&self.references);
        executor.describe_timeout = self.describe_timeout.unwrap_or(executor.describe_timeout);
        executor
    }

    pub(crate) fn run(
        &self,
        items: impl IntoIterator<Item = PlannedCase>,
        recorder: &mut impl Recorder,
        observer: &mut impl Observer,
        interrupt: &Interrupt,
    ) -> Result<RunSummary, RunError> {
        host_run::run(items, &mut self.executor(), recorder, observer, interrupt)
    }

    pub(crate) fn describe(
        &self,
        library: &Path,
        sha256: Option<&str>,
        interrupt: &Interrupt,
    ) -> Result<BackendDescription, Box<DescribeError>> {
        let plugin = LocalPlugin { library: library.to_owned(), ..LocalPlugin::default() };
        self.executor().describe(&plugin, sha256, interrupt)
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

/// Runs one case that fails, and returns its failure and its record.
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
