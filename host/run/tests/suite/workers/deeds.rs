//! Side effects of a backend: they are reported, and do not affect other cases.

use std::fs::File;

use super::*;

/// A copy of the worker, whose processes can be distinguished from those of other tests.
struct OwnWorker {
    _folder: TempDir,
    path: PathBuf,
}

impl OwnWorker {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().canonicalize().expect("a folder").join("host-worker");
        fs::copy(&BUILT.worker, &path).expect("copying the worker");
        Self { _folder: folder, path }
    }

    fn runner(&self) -> Runner {
        Runner::new(&self.path)
    }

    /// Returns the processes that run it and are not waiting to be reaped.
    fn running(&self) -> Vec<u32> {
        let processes = fs::read_dir("/proc").expect("Linux tells");
        let numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let runs_it = |number: &u32| {
            fs::read_link(format!("/proc/{number}/exe")).is_ok_and(|path| path == self.path)
        };
        numbers.filter(runs_it).collect()
    }
}

fn doubts(report: &WorkerReport, kind: WarningKind) -> Vec<Doubt> {
    let found = report.warnings.iter().filter(|warning| warning.kind() == kind);
    found.map(|warning| warning.doubt.clone()).collect()
}

fn report(memory: &common::Memory) -> WorkerReport {
    match &memory.records[0].outcome {
        Outcome::Finished(report) => (**report).clone(),
        other => panic!("{other:?}\n{}", memory.records[0].standard_error),
    }
}

#[test]
fn a_process_that_left_its_session_is_counted_and_ended() {
    const BYTES: u64 = 96 << 20;
    let worker = OwnWorker::new();
    let bytes = BYTES.to_string();
    let mut case = fault(&[("fault", "orphan"), ("fault-bytes", &bytes)]);
    // The host searches for processes once a second.
    case.measure.minimum_duration_ns = 1_500_000_000;
    case.measure.maximum_duration_ns = 20_000_000_000;
    let (_, memory) = run(&worker.runner(), vec![case]);
    assert_eq!(worker.running(), [0_u32; 0], "the orphan outlived the case");
    let report = report(&memory);
    let left = Doubt::ProcessesLeft { processes: 1, running: 1 };
    assert_eq!(doubts(&report, WarningKind::ProcessesLeft), [left]);
    let used = report.conditions.memory.clone().expect("it is recorded");
    let started = used.started.expect("a process was started");
    assert_eq!((started.most, started.left, started.running), (1, 1, 1));
    assert!(started.peak_bytes.is_some_and(|peak| peak >= BYTES), "{started:?}");
    assert!(report.peak_memory_bytes.is_some_and(|peak| peak > BYTES), "{report:?}");

    // A worker without other processes has started nothing.
    let alone = finish(fault(&[])).0;
    assert_eq!(alone.conditions.memory.clone().and_then(|used| used.started), None);
    assert_eq!(doubts(&alone, WarningKind::ProcessesLeft), []);
}

#[test]
fn the_memory_of_what_a_backend_starts_is_held_to_the_limit() {
    let worker = OwnWorker::new();
    let mut case = fault(&[("fault", "orphan"), ("fault-bytes", "402653184")]);
    case.measure.minimum_duration_ns = 60_000_000_000;
    case.measure.maximum_duration_ns = 60_000_000_000;
    case.measure.memory_limit_bytes = Some(200 << 20);
    let (failure, record, _) = failure(&worker.runner(), case);
    let Failure::OutOfMemory { detail, .. } = &failure else { panic!("{failure:?}") };
    assert!(detail.contains("the worker with 1 process that it had started"), "{detail}");
    let said = "the backend did not wait for 1 process that it had started";
    assert!(record.standard_error.contains(said), "{}", record.standard_error);
    assert_eq!(worker.running(), [0_u32; 0], "the orphan outlived the case");
}

#[test]
fn a_copy_of_the_worker_neither_speaks_nor_stays() {
    let worker = OwnWorker::new();
    for phase in ["run", "load"] {
        let case = fault(&[("fault", "fork"), ("fault-phase", phase)]);
        let (summary, memory) = run(&worker.runner(), vec![case]);
        assert_eq!(summary.finished, 1, "{phase}: {:?}", memory.records[0].outcome);
        assert_eq!(queries(&memory.samples, SamplePhase::Measured), 20, "{phase}");
        let left = doubts(&report(&memory), WarningKind::ProcessesLeft);
        assert!(matches!(left[..], [Doubt::ProcessesLeft { processes: 1, .. }]), "{left:?}");
        assert_eq!(worker.running(), [0_u32; 0], "a copy outlived the case");
    }
}

/// Even a host that is killed without notice leaves no process.
#[test]
fn no_process_of_a_backend_outlives_the_host() {
    let worker = OwnWorker::new();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut case = fault(&[("fault", "orphan")]);
    case.measure.minimum_duration_ns = 120_000_000_000;
    case.measure.maximum_duration_ns = 120_000_000_000;
    let files = CaseFiles {
        library: BUILT.fault.clone(),
        model: case.model.name.clone().into(),
        ..CaseFiles::default()
    };
    let request = Request::Measure {
        reference: None,
        calibration: None,
        protocol_version: PROTOCOL_VERSION,
        case: Box::new(case),
        files: Box::new(files),
    };
    let path = folder.path().join("request");
    fs::write(&path, serde_json::to_vec(&request).expect("a request is JSON")).expect("writing");
    // The shell is the host.
    let mut host = Command::new("sh")
        .args(["-c", r#""$0" < "$1"; true"#])
        .args([&worker.path, &path])
        .stdout(File::create(folder.path().join("frames")).expect("a file"))
        .stderr(Stdio::null())
        .spawn()
        .expect("starting a shell");
    let patience = Instant::now() + common::PATIENCE;
    let wait = |count: usize| {
        while worker.running().len() != count {
            assert!(Instant::now() < patience, "{count} processes: {:?}", worker.running());
            thread::sleep(Duration::from_millis(10));
        }
    };
    // The overseer, the worker and the orphan.
    wait(3);
    host.kill().expect("killing the shell");
    host.wait().expect("waiting for the shell");
    wait(0);
}

#[test]
fn output_in_the_timed_part_is_counted() {
    let (report, memory) = finish(fault(&[("fault", "print")]));
    let line = "\u{1}\u{0}{\"garbage\": \"on standard output, in phase run\"}\n";
    let measured = queries(&memory.samples, SamplePhase::Measured) as u64;
    let written = Doubt::OutputWritten {
        standard_output_bytes: measured * line.len() as u64,
        standard_error_bytes: 0,
    };
    assert_eq!(doubts(&report, WarningKind::OutputWritten), [written]);
    assert!(memory.records[0].standard_error.ends_with(line), "it is kept");
    // Output before and after is not counted.
    for (option, value) in [("fault-phase", "prepare"), ("fault-phase", "read")] {
        let (report, memory) = finish(fault(&[("fault", "print"), (option, value)]));
        assert_eq!(doubts(&report, WarningKind::OutputWritten), [], "{value}");
        assert!(memory.records[0].standard_error.contains(value), "{value}");
    }
}

fn contract(options: &[(&str, &str)]) -> (Phase, String) {
    match failure(&runner(), fault(options)).0 {
        Failure::Backend { phase, code: ErrorCode::Contract, call, message, .. } => {
            (phase, format!("{call}: {message}"))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn outputs_of_another_shape_fail_without_a_reference() {
    let message = "run: left output 0 (`output`) with the shape [1, 1]; the model's information promises \
                   [batch = 2, 1]";
    let found = contract(&[("fault", "shape")]);
    assert_eq!(found, (Phase::FirstRun, message.to_owned()));
    let found = contract(&[("fault", "shape"), ("fault-after", "12")]);
    assert_eq!(found, (Phase::Measure, message.to_owned()));
}

#[test]
fn inputs_that_are_written_to_fail_the_case() {
    for after in ["0", "12"] {
        let (phase, message) = contract(&[("fault", "write"), ("fault-after", after)]);
        assert_eq!(phase, Phase::Measure);
        assert!(
            message.starts_with("run: wrote to input 0 (`input`): after measuring,"),
            "{message}"
        );
    }
}

/// Compiles C++, and C beside it, into a shared library.
fn compile_throwing(folder: &TempDir, source: &str, beside: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = folder.path().join("throws.cpp");
    fs::write(&file, source).expect("writing a file");
    let library = folder.path().join("libthrows.so");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let status = Command::new(compiler)
        .args(["-shared", "-fPIC", "-fexceptions", "-I"])
        .arg(root.join("plugin-api/native/include"))
        .arg(&file)
        .args(beside)
        .arg("-o")
        .arg(&library)
        .current_dir(root.join("tests/c-backend"))
        .status();
    assert!(status.expect("starting the C++ compiler").success());
    library
}

/// Returns a case of a broken backend, with two clients.
fn broken_with_clients(library: &Path) -> CaseSpec {
    let mut broken = case("0", library, library);
    broken.key.device = "broken:0".into();
    broken.key.scenario = Scenario::ClosedLoop;
    broken.key.clients = Some(2);
    broken
}

#[test]
fn inputs_of_clients_that_are_written_to_fail_the_case() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let flags = ["-DBROKEN=\"run-write-on-threads\"", "-x", "c", "broken.c"];
    let library = compile_throwing(&folder, "", &flags);
    match failure(&runner(), broken_with_clients(&library)).0 {
        Failure::Backend { phase: Phase::Measure, code: ErrorCode::Contract, message, .. } => {
            assert!(message.starts_with("wrote to input 0 (`"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_text_of_an_exception_of_a_client_is_in_the_failure() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = "#include <stdexcept>\nextern \"C\" void broken_throw(void) { throw \
               std::runtime_error(\"one client too many\"); }";
    let flags = ["-DBROKEN=\"run-throw-on-threads\"", "-DBROKEN_THROWS", "-x", "c", "broken.c"];
    let library = compile_throwing(&folder, run, &flags);
    let (failed, record, _) = failure(&runner(), broken_with_clients(&library));
    let text = failed.to_string();
    assert!(
        text.contains("terminate called") && text.ends_with("what():  one client too many"),
        "{text}\n{}",
        record.standard_error
    );
}

/// A backend in C++ that lets an exception out.
#[test]
fn the_text_of_an_exception_is_in_the_failure() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let throws = r#"throw std::runtime_error("the licence server does not answer");"#;
    let run = format!("#include <stdexcept>\nextern \"C\" void broken_throw(void) {{ {throws} }}");
    let flags = ["-DBROKEN=\"run-throw\"", "-DBROKEN_THROWS", "-x", "c", "broken.c"];
    let library = compile_throwing(&folder, &run, &flags);
    let mut broken = case("0", &library, &library);
    broken.key.device = "broken:0".into();
    let (failed, record, _) = failure(&runner(), broken);
    let text = failed.to_string();
    assert!(
        text.starts_with(
            "the worker was killed by signal 6 (SIGABRT) in phase first-run: terminate called"
        ) && text.ends_with("what():  the licence server does not answer"),
        "{text}\n{}",
        record.standard_error
    );

    let entry = format!(
        "#include <stdexcept>\n#include \"plugin_api.h\"\nextern \"C\" const tare_backend_api \
         *tare_backend_v1(const tare_host_api *) {{ {throws} }}"
    );
    let library = compile_throwing(&folder, &entry, &[]);
    let error = runner().describe(&library, None, &Interrupt::new()).expect_err("it throws");
    let text = error.failure.to_string();
    assert!(
        text.starts_with(
            "the worker was killed by signal 6 (SIGABRT) in phase open: terminate called"
        ) && text.ends_with("what():  the licence server does not answer"),
        "{text}\n{}",
        error.standard_error
    );
}
