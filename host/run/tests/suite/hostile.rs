//! Workers that break the rules.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{self, Memory, Runner, case, failure, run};
use host_plan::PlannedCase;
use host_record::protocol::{Message, PROTOCOL_VERSION, write_message};
use host_record::{
    CaseRecord, CaseSpec, ErrorCode, Failure, Gap, Outcome, OutputBlock, Phase, Recorder,
    SampleBlock, SamplePhase, SampleTimes, Unsupported,
};
use host_run::{Interrupt, Observer, RunError, RunSummary, Silent};
use tempfile::TempDir;

fn runner() -> Runner {
    Runner::new(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/hostile-worker"))
}

/// A folder with the worker's script, and the frames that it may `cat`.
struct Script {
    folder: TempDir,
}

impl Script {
    fn new(script: &str, frames: &[Message]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("script"), script).expect("writing a script");
        let mut file = File::create(folder.path().join("frames")).expect("making a file");
        for message in frames {
            write_message(&mut file, message).expect("writing a frame");
        }
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("script")
    }

    fn case(&self) -> CaseSpec {
        case("0", &self.path(), &self.path())
    }

    /// Returns a case whose worker may be silent for one second, and measure for another.
    fn impatient(&self) -> CaseSpec {
        let mut case = self.case();
        case.measure.timeout_ns = 1_000_000_000;
        case
    }
}

fn hello() -> Message {
    Message::Hello { protocol_version: PROTOCOL_VERSION, process: None }
}

fn samples(edges_ns: &[u64]) -> Message {
    let times = SampleTimes::Chain(edges_ns.to_vec());
    Message::Samples(SampleBlock {
        phase: SamplePhase::Measured,
        items_per_query: 2,
        lane: 0,
        times,
        marks: None,
    })
}

fn report() -> Message {
    Message::Finished(Box::default())
}

#[test]
fn a_worker_that_keeps_the_protocol_finishes() {
    let values = vec![0.5].into();
    let outputs = OutputBlock { name: "y".into(), first_example: 0, width: 1, values };
    let frames = [
        hello(),
        Message::Entered(Phase::Measure),
        samples(&[0, 5]),
        samples(&[7, 9]),
        Message::Entered(Phase::Outputs),
        Message::Outputs(outputs.clone()),
        report(),
    ];
    let script = Script::new("echo noise >&2; cat \"$folder/frames\"", &frames);
    let (summary, memory) = run(&runner(), vec![script.case()]);
    assert_eq!(summary, RunSummary { finished: 1, ..RunSummary::default() });
    assert_eq!(
        memory.samples.iter().map(|block| block.times.clone()).collect::<Vec<_>>(),
        [[0, 5], [7, 9]].map(|edges| SampleTimes::Chain(edges.to_vec()))
    );
    assert_eq!(memory.outputs, [outputs]);
    let record = &memory.records[0];
    assert_eq!(record.standard_error, "noise\n");
    assert!(record.environment.as_ref().is_some_and(|machine| machine.kernel.is_some()));
    assert!(record.elapsed_ns > 0);
    assert!(record.started_at.ends_with('Z') && record.started_at.contains('T'));
}

#[test]
fn a_last_word_that_takes_long_to_read_counts() {
    let mut last = report();
    if let Message::Finished(report) = &mut last {
        report.labels = vec![-1_000_000; 2_000_000];
    }
    let script = Script::new("cat \"$folder/frames\"", &[hello(), last]);
    let (summary, memory) = run(&runner(), vec![script.case()]);
    assert_eq!(summary.finished, 1, "{:?}", memory.records[0].outcome);
}

#[test]
fn outputs_that_fit_into_no_table_break_the_protocol() {
    let block = |first_example, width: u64| {
        let values = vec![0.0; width as usize].into();
        Message::Outputs(OutputBlock { name: "y".into(), first_example, width, values })
    };
    for blocks in [[block(0, 1), block(1, 2)], [block(0, 1), block(3, 1)]] {
        let frames: Vec<_> = [hello()].into_iter().chain(blocks).chain([report()]).collect();
        let script = Script::new("cat \"$folder/frames\"", &frames);
        let (failure, ..) = failure(&runner(), script.case());
        assert!(matches!(failure, Failure::Protocol { .. }), "{failure:?}");
    }
}

#[test]
fn a_worker_that_leaves_its_group_is_ended_all_the_same() {
    let hang = "exec perl -e 'setpgrp(0, getpgrp(getppid())) or die; sleep 600'";
    let script = Script::new(&format!("cat \"$folder/frames\"; {hang}"), &[hello()]);
    let (failure, ..) = failure(&runner(), script.impatient());
    assert!(matches!(failure, Failure::TimedOut { .. }), "{failure:?}");
}

#[test]
fn an_exit_without_a_word_is_a_failure_with_its_code() {
    for (script, code) in [("exit 0", 0), ("echo broken >&2; exit 7", 7)] {
        let script = Script::new(script, &[]);
        let (failure, record, _) = failure(&runner(), script.case());
        assert_eq!(failure, Failure::ExitCode { code, phase: Phase::Start });
        assert_eq!(record.standard_error.trim(), if code == 7 { "broken" } else { "" });
    }
}

#[test]
fn a_signal_after_samples_keeps_them() {
    let frames = [hello(), Message::Entered(Phase::Measure), samples(&[0, 5, 9])];
    let script = Script::new("cat \"$folder/frames\"; kill -SEGV $$", &frames);
    let (failure, _, memory) = failure(&runner(), script.case());
    assert_eq!(
        failure,
        Failure::Signal {
            signal: 11,
            name: "SIGSEGV".into(),
            phase: Phase::Measure,
            said: String::new()
        }
    );
    assert_eq!(memory.samples.len(), 1);
}

#[test]
fn an_abort_for_want_of_memory_is_told_from_others() {
    let text = "memory allocation of 99 bytes failed";
    let script = Script::new(&format!("echo '{text}' >&2; kill -ABRT $$"), &[]);
    let (failure, ..) = failure(&runner(), script.case());
    assert!(
        matches!(&failure, Failure::OutOfMemory { detail, .. } if detail.ends_with(text)),
        "{failure:?}"
    );
}

#[test]
fn silence_is_ended() {
    let start = Instant::now();
    let loading = [hello(), Message::Entered(Phase::Load)];
    let measuring = [hello(), Message::Entered(Phase::Measure)];
    for (frames, phase, seconds) in
        [(&[][..], Phase::Start, 1), (&loading, Phase::Load, 1), (&measuring, Phase::Measure, 2)]
    {
        // The grandchild holds the pipes open, and must be ended too.
        let script = Script::new("cat \"$folder/frames\"; sleep 600 & sleep 600", frames);
        let (failure, ..) = failure(&runner(), script.impatient());
        assert_eq!(failure, Failure::TimedOut { phase, limit_ns: seconds * 1_000_000_000 });
    }
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn signs_of_progress_keep_a_slow_worker_alive() {
    let script = Script::new(
        "cat \"$folder/frames\"; sleep 0.7; \
         cat \"$folder/progress\"; sleep 0.7; cat \"$folder/progress\"; exit 3",
        &[hello()],
    );
    let mut file = File::create(script.folder.path().join("progress")).expect("making a file");
    write_message(&mut file, &Message::Progress).expect("writing a frame");
    let (failure, ..) = failure(&runner(), script.impatient());
    assert_eq!(failure, Failure::ExitCode { code: 3, phase: Phase::Start });
}

#[test]
fn a_worker_that_ignores_its_request_and_fills_its_standard_error_is_ended() {
    let script = Script::new("while :; do echo 'all work and no play' >&2; done", &[]);
    let (failure, record, _) = failure(&runner(), script.impatient());
    assert_eq!(failure, Failure::TimedOut { phase: Phase::Start, limit_ns: 1_000_000_000 });
    assert!(record.standard_error.len() > 60_000 && record.standard_error.len() <= 65_536);
}

#[test]
fn foreign_bytes_break_the_protocol() {
    let detail = |script: &str, frames: &[Message]| {
        let script = Script::new(script, frames);
        let (failure, ..) = failure(&runner(), script.case());
        match failure {
            Failure::Protocol { phase, detail } => format!("{phase}: {detail}"),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        detail("echo 'hello, world'; sleep 600", &[]),
        "start: expected a frame: [104, 101, 108, 108, 111] does not begin a frame"
    );
    assert_eq!(
        detail("cat \"$folder/frames\"; sleep 600", &[Message::Progress]),
        "start: expected a greeting, got a sign of progress"
    );
    assert_eq!(
        detail("cat \"$folder/frames\"; sleep 600", &[hello(), hello()]),
        "start: a second greeting"
    );
    let closed = "cat \"$folder/frames\"; exec >/dev/null; sleep 600";
    assert_eq!(
        detail(closed, &[hello(), Message::Entered(Phase::Load)]),
        "load: the pipe was closed before the end of the case"
    );
}

#[test]
fn a_frame_that_is_cut_off_is_explained_by_the_end() {
    let script = Script::new("cat \"$folder/frames\"; printf 'C\\377'; exit 4", &[hello()]);
    let (failure, ..) = failure(&runner(), script.case());
    assert_eq!(failure, Failure::ExitCode { code: 4, phase: Phase::Start });
}

#[test]
fn another_version_of_the_worker_is_refused() {
    let script = Script::new(
        "cat \"$folder/frames\"; sleep 600",
        &[Message::Hello { protocol_version: PROTOCOL_VERSION + 1, process: None }],
    );
    let (failure, ..) = failure(&runner(), script.case());
    assert_eq!(
        failure.to_string(),
        "incompatible version: the worker speaks protocol 9, this host speaks 8; they are installed \
         together, so reinstall both"
    );
}

#[test]
fn what_was_finished_stays_finished_when_the_end_goes_wrong() {
    for end in ["kill -SEGV $$", "sleep 600", "exit 9"] {
        let script = Script::new(&format!("cat \"$folder/frames\"; {end}"), &[hello(), report()]);
        let (summary, _) = run(&runner(), vec![script.case()]);
        assert_eq!(summary.finished, 1, "{end}");
    }
}

#[test]
fn a_worker_that_cannot_be_started_is_named() {
    let runner = Runner::new("/nowhere/host-worker");
    let (failure, ..) = failure(&runner, case("0", "m".as_ref(), "l".as_ref()));
    assert_eq!(
        failure,
        Failure::NotStarted {
            detail: "/nowhere/host-worker: No such file or directory (os error 2)".into()
        }
    );
}

#[test]
fn a_worker_that_takes_too_much_memory_is_ended() {
    // The shell doubles a string until it is far above the limit.
    let script = "text=xxxxxxxxxxxxxxxx; while :; do text=$text$text; done";
    let script = Script::new(
        &format!("cat \"$folder/frames\"; {script}"),
        &[hello(), Message::Entered(Phase::Load)],
    );
    let mut case = script.case();
    case.measure.memory_limit_bytes = Some(32 << 20);
    let (failure, ..) = failure(&runner(), case);
    let Failure::OutOfMemory { phase, limit_bytes, peak_bytes, .. } = failure else {
        panic!("{failure:?}");
    };
    assert_eq!((phase, limit_bytes), (Phase::Load, Some(32 << 20)));
    assert!(peak_bytes > limit_bytes);
}

#[test]
fn what_a_backend_cannot_do_is_a_gap() {
    let failure = |code: ErrorCode| {
        Message::Failed(Failure::Backend {
            phase: Phase::Prepare,
            call: "prepare".into(),
            code,
            message: "no int8 here".into(),
            details: String::new(),
        })
    };
    let script = Script::new("cat \"$folder/frames\"", &[hello(), failure(ErrorCode::Unsupported)]);
    let (summary, memory) = run(&runner(), vec![script.case()]);
    assert_eq!(summary, RunSummary { gaps: 1, ..RunSummary::default() });
    let cause = Unsupported::Backend {
        phase: Phase::Prepare,
        call: "prepare".into(),
        backend_message: "no int8 here".into(),
    };
    assert_eq!(memory.records[0].outcome, Outcome::Gap { gap: Gap::Unsupported(cause) });
    let script = Script::new("cat \"$folder/frames\"", &[hello(), failure(ErrorCode::Device)]);
    assert_eq!(run(&runner(), vec![script.case()]).0.failed, 1);
}

#[test]
fn gaps_are_recorded_and_cases_after_a_failure_still_run() {
    let broken = Script::new("exit 1", &[]);
    let good = Script::new("cat \"$folder/frames\"", &[hello(), report()]);
    let gap = Gap::DeviceMissing {
        backend: "b".into(),
        device: None,
        found: Vec::new(),
        backend_message: Some("no GPU".into()),
    };
    let key = broken.case().key;
    let items = [
        PlannedCase::Case(Box::new(broken.case())),
        PlannedCase::Gap { case_id: "1".into(), index: 1, key, gap: Box::new(gap.clone()) },
        PlannedCase::Case(Box::new(good.case())),
    ];
    let mut memory = Memory::default();
    let summary = runner()
        .run(items, &mut memory, &mut Silent, &Interrupt::new())
        .expect("memory does not fail");
    assert_eq!(summary, RunSummary { finished: 1, failed: 1, gaps: 1, interrupted: false });
    assert_eq!(memory.records[1].outcome, Outcome::Gap { gap });
    assert_eq!(memory.records[1].spec, None);
    assert_eq!(memory.started, ["0", "0"]);
}

/// Interrupts when the worker enters a phase.
struct Interrupter {
    interrupt: Interrupt,
    at: Phase,
    phases: Vec<Phase>,
}

impl Observer for Interrupter {
    fn phase_entered(&mut self, _: &CaseSpec, phase: Phase) {
        self.phases.push(phase);
        if phase == self.at {
            self.interrupt.interrupt();
        }
    }
}

#[test]
fn an_interrupt_costs_the_case_in_progress_and_no_other() {
    let good = Script::new("cat \"$folder/frames\"", &[hello(), report()]);
    let hanging = Script::new(
        "cat \"$folder/frames\"; sleep 600",
        &[hello(), Message::Entered(Phase::Measure), samples(&[0, 1])],
    );
    let items = [good.case(), hanging.case(), good.case()];
    let items = items.map(|case| PlannedCase::Case(Box::new(case)));
    let interrupt = Interrupt::new();
    let mut observer =
        Interrupter { interrupt: interrupt.clone(), at: Phase::Measure, phases: Vec::new() };
    let mut memory = Memory::default();
    let start = Instant::now();
    let summary =
        runner().run(items, &mut memory, &mut observer, &interrupt).expect("memory does not fail");
    assert_eq!(summary, RunSummary { finished: 1, interrupted: true, ..RunSummary::default() });
    assert_eq!(memory.records.len(), 1);
    assert_eq!(memory.started.len(), 2);
    assert_eq!(observer.phases, [Phase::Measure]);
    assert!(start.elapsed() < common::PATIENCE);
}

/// Fails when the first case ends.
struct Full(Memory);

#[derive(Debug, thiserror::Error)]
#[error("the disk is full")]
struct DiskFull;

impl Recorder for Full {
    type Error = DiskFull;

    fn case_started(&mut self, _: &CaseSpec) -> Result<(), DiskFull> {
        Ok(())
    }

    fn samples(&mut self, _: &SampleBlock) -> Result<(), DiskFull> {
        Err(DiskFull)
    }

    fn outputs(&mut self, _: &OutputBlock) -> Result<(), DiskFull> {
        Ok(())
    }

    fn case_finished(&mut self, record: &CaseRecord) -> Result<(), DiskFull> {
        self.0.records.push(record.clone());
        Ok(())
    }
}

#[test]
fn a_recorder_that_fails_ends_the_run_and_the_worker() {
    let frames = [
        hello(),
        Message::Entered(Phase::Measure),
        samples(&[0, 1]),
        Message::Entered(Phase::Outputs),
    ];
    let script =
        Script::new("echo $$ > \"$folder/pid\"; cat \"$folder/frames\"; sleep 600", &frames);
    let mut full = Full(Memory::default());
    let items = [PlannedCase::Case(Box::new(script.case()))];
    let error = runner().run(items, &mut full, &mut Silent, &Interrupt::new());
    let RunError::Recorder(error) = error.expect_err("the disk is full");
    assert_eq!(error.to_string(), "the disk is full");
    assert!(full.0.records.is_empty());
    let pid = fs::read_to_string(script.folder.path().join("pid")).expect("a pid");
    assert!(!PathBuf::from(format!("/proc/{}", pid.trim())).exists());
}

#[test]
fn describing_has_its_own_limit() {
    let script = Script::new(
        "cat \"$folder/frames\"; echo why >&2; sleep 600",
        &[hello(), Message::Entered(Phase::Devices)],
    );
    let runner = Runner { describe_timeout: Some(Duration::from_secs(1)), ..runner() };
    let error = runner.describe(&script.path(), None, &Interrupt::new()).expect_err("it hangs");
    assert_eq!(error.failure, Failure::TimedOut { phase: Phase::Devices, limit_ns: 1_000_000_000 });
    assert_eq!(error.standard_error, "why\n");
}

#[test]
fn a_daemon_that_keeps_the_pipes_does_not_keep_the_host() {
    // It leaves the group, so it survives the worker; the host must not wait for its pipes.
    let script = Script::new(
        "cat \"$folder/frames\"; setsid sleep 20 & echo last words >&2; sleep 0.2; exit 6",
        &[hello()],
    );
    let (sender, receiver) = channel();
    let case = script.case();
    thread::spawn(move || {
        let (failure, record, _) = failure(&runner(), case);
        let _ = sender.send((failure, record.standard_error));
    });
    let (failure, standard_error) =
        receiver.recv_timeout(Duration::from_secs(15)).expect("the host does not wait");
    assert_eq!(failure, Failure::ExitCode { code: 6, phase: Phase::Start });
    assert_eq!(standard_error, "last words\n");
}

#[test]
fn a_worker_is_told_its_runtime_and_to_report_to_nobody() {
    let seen = |runtime: Option<PathBuf>| {
        let script =
            Script::new("env >\"$folder/seen\"; cat \"$folder/frames\"", &[hello(), report()]);
        run(&Runner { runtime, ..runner() }, vec![script.case()]);
        let text = fs::read_to_string(script.folder.path().join("seen")).expect("it ran");
        move |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
            line.map(str::to_owned)
        }
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let flat = folder.path().join("flat");
    let nested = folder.path().join("nested");
    let library = flat.join("libonnxruntime.so");
    fs::create_dir(&flat).expect("a folder");
    fs::create_dir_all(nested.join("lib")).expect("a folder");
    fs::write(&library, "").expect("a file");
    let old = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    for (runtime, libraries) in [(&flat, &flat), (&nested, &nested.join("lib")), (&library, &flat)]
    {
        let variable = seen(Some(runtime.clone()));
        assert_eq!(variable("ORT_DISABLE_TELEMETRY").as_deref(), Some("1"));
        assert_eq!(variable("TARE_RUNTIME").as_deref(), runtime.to_str());
        let path = variable("LD_LIBRARY_PATH").expect("it is set");
        let rest = path.strip_prefix(libraries.to_str().expect("UTF-8")).expect("it comes first");
        let colon = if old.is_empty() { "" } else { ":" };
        assert_eq!(rest, format!("{colon}{old}"), "what was there comes after it, and no more");
    }
    let variable = seen(None);
    assert_eq!(variable("ORT_DISABLE_TELEMETRY").as_deref(), Some("1"));
    assert_eq!(variable("TARE_RUNTIME"), None);
    assert_eq!(variable("LD_LIBRARY_PATH").unwrap_or_default(), old);
}

#[test]
fn a_worker_sees_only_the_variables_that_it_is_given() {
    const OURS: &str = "CARGO_MANIFEST_DIR";
    for environment in [Vec::new(), vec![OURS.to_owned()]] {
        let script =
            Script::new("env >\"$folder/seen\"; cat \"$folder/frames\"", &[hello(), report()]);
        let is_named = !environment.is_empty();
        let (_, memory) = run(&runner(), vec![CaseSpec { environment, ..script.case() }]);
        let seen = fs::read_to_string(script.folder.path().join("seen")).expect("it ran");
        assert_eq!(seen.contains(&format!("{OURS}={}", env!("CARGO_MANIFEST_DIR"))), is_named);
        assert!(seen.lines().any(|line| line.starts_with("PATH=")), "{seen}");
        let facts = memory.records[0].environment.as_ref().expect("facts of the machine");
        assert_eq!(facts.variables.iter().any(|name| name == OURS), is_named, "{facts:?}");
        assert!(facts.variables.iter().all(|name| !name.contains('=')), "{facts:?}");
    }
}
