//! The fault backend conforms without a fault, each fault behaves as documented, and the conformance suite finds the
//! faults that it tests for.

use std::cell::RefCell;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use backend_fault::tare_backend_v1;
use plugin_api::client::{
    Backend, Call, DataType, Error, ErrorCode, LoadRequest, ProgressReport, ShapeBounds,
    ShapesServed, TensorView, ValueKind,
};
use plugin_testkit::{Fixture, Suite};

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixture.toml");

/// Only one backend of a library may be alive, and memory is measured: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn failures(options: &[(&str, &str)]) -> Vec<&'static str> {
    let mut fixture = Fixture::read(FIXTURE.as_ref()).expect("a good fixture");
    fixture.options = options.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    // SAFETY: this is the backend's own entry point, and tests take turns.
    let report = unsafe { Suite::from_entry(tare_backend_v1) }.check(&fixture);
    report.failures().map(|check| check.name).collect()
}

/// Loads, prepares and runs, twice, with a batch of 1 and 2.
fn run_with(options: &[(&str, &str)]) -> Result<Call, Error> {
    // SAFETY: this is the backend's own entry point, and tests take turns.
    let backend = unsafe { Backend::open(tare_backend_v1) }.expect("the entry point");
    let model =
        backend.load(&LoadRequest { path: FIXTURE, device: "fault:0", threads: None, options })?;
    let session = model.prepare("fp32", &[vec![2, 1]])?;
    let bytes: Vec<u8> = [1.0_f32, 2.0].into_iter().flat_map(f32::to_ne_bytes).collect();
    let view = TensorView { dtype: DataType::F32, shape: &[2, 1], strides: None, bytes: &bytes };
    let mut call = session.call(vec![model.tensor(view)?])?;
    call.run()?;
    call.run()?;
    call.read_output(0)?;
    Ok(call)
}

#[test]
fn without_a_fault_it_conforms() {
    let _turn = alone();
    assert_eq!(failures(&[]), [""; 0]);
}

#[test]
fn its_extensions_conform() {
    let _turn = alone();
    let offers = "device-energy,device-memory,stage-times,device-timer,profile";
    assert_eq!(failures(&[("fault-offers", offers)]), [""; 0]);
}

#[test]
fn an_honest_slow_device_conforms() {
    let _turn = alone();
    assert_eq!(failures(&[("fault", "slow"), ("fault-milliseconds", "2")]), [""; 0]);
}

#[test]
fn the_suite_finds_a_run_that_returns_too_early() {
    let _turn = alone();
    let found = failures(&[("fault", "lie"), ("fault-milliseconds", "2")]);
    // The longer run is also detected, unless its own work takes longer than the device's.
    let (first, others) = found.split_first().expect("a failure");
    assert_eq!(*first, "a run has ended when it returns");
    let long_run = "a long run is not reported as shorter than it is";
    assert!(others.iter().all(|other| *other == long_run), "{others:?}");
}

#[test]
fn the_suite_finds_times_that_cannot_be() {
    let _turn = alone();
    let extensions = "what extensions tell can be true";
    let long_run = "a long run is not reported as shorter than it is";
    for (extension, checks) in
        [("stage-times", &[extensions][..]), ("device-timer", &[long_run, extensions])]
    {
        let found = failures(&[("fault", "impossible"), ("fault-offers", extension)]);
        assert_eq!(found, checks, "{extension}");
    }
    let options = [("fault", "lie"), ("fault-milliseconds", "4"), ("fault-offers", "device-timer")];
    let found = failures(&options);
    assert!(found.contains(&extensions), "{found:?}");
    let options =
        [("fault", "slow"), ("fault-milliseconds", "4"), ("fault-offers", "device-timer")];
    assert_eq!(failures(&options), [""; 0]);
}

#[test]
fn the_device_timer_says_how_long_the_device_was_busy() {
    let _turn = alone();
    let options = [("fault", "lie"), ("fault-milliseconds", "5"), ("fault-offers", "device-timer")];
    let mut call = run_with(&options).expect("a liar works");
    let start = Instant::now();
    let device_ns = call.run_timed().expect("the extension").expect("a run");
    assert!(start.elapsed() >= Duration::from_nanos(device_ns));
    assert!(device_ns >= 5_000_000, "{device_ns}");
}

#[test]
fn the_profile_says_where_operators_ran() {
    let _turn = alone();
    for (fault, second) in [("slow", "FaultProvider"), ("fallback", "OtherProvider")] {
        let mut call =
            run_with(&[("fault", fault), ("fault-offers", "profile")]).expect("it works");
        let operators = call.profile().expect("the extension").expect("a profile");
        let ran: Vec<_> = operators
            .iter()
            .map(|operator| (operator.kind.as_str(), operator.provider.as_str()))
            .collect();
        assert_eq!(ran, [("Identity", "FaultProvider"), ("Add", second)], "{fault}");
    }
}

#[test]
fn the_suite_finds_wrong_outputs() {
    let _turn = alone();
    for fault in ["zeros", "wrong", "nan"] {
        let found = failures(&[("fault", fault)]);
        assert!(found.contains(&"outputs are right"), "{fault}: {found:?}");
    }
    // An occasional fault is enough to be detected.
    let found = failures(&[("fault", "zeros"), ("fault-after", "3")]);
    assert!(found.contains(&"outputs are the same each time"), "{found:?}");
}

#[test]
fn the_suite_finds_inputs_that_are_written_to_and_outputs_of_another_shape() {
    let _turn = alone();
    for (fault, check) in
        [("write", "inputs are the same after a run"), ("shape", "outputs are right")]
    {
        let found = failures(&[("fault", fault)]);
        assert!(found.contains(&check), "{fault}: {found:?}");
    }
}

#[test]
fn the_suite_finds_stale_outputs() {
    let _turn = alone();
    let found = failures(&[("fault", "stale")]);
    assert!(found.contains(&"outputs belong to the inputs of their own run"), "{found:?}");
}

#[test]
fn the_suite_finds_leaks() {
    let _turn = alone();
    let leaks = [
        ("run", "runs do not grow"),
        ("load", "loading and unloading does not grow"),
        ("tensor", "loading and unloading does not grow"),
    ];
    for (phase, check) in leaks {
        let found =
            failures(&[("fault", "leak"), ("fault-phase", phase), ("fault-bytes", "200000")]);
        assert!(found.contains(&check), "{phase}: {found:?}");
    }
}

#[test]
fn it_conforms_whichever_shapes_it_serves() {
    let _turn = alone();
    for shapes in ["one", "compiled", "any"] {
        let found = failures(&[("fault-shapes", shapes), ("fault-milliseconds", "1")]);
        assert_eq!(found, [""; 0], "{shapes}");
    }
}

#[test]
fn sessions_say_which_shapes_they_serve() {
    let _turn = alone();
    // SAFETY: this is the backend's own entry point, and tests take turns.
    let backend = unsafe { Backend::open(tare_backend_v1) }.expect("the entry point");
    let bounds = ShapeBounds { least: vec![vec![1, 1]], greatest: vec![vec![4, 1]] };
    for (shapes, expected) in [
        ("one", ShapesServed::One),
        ("compiled", ShapesServed::Compiled),
        ("any", ShapesServed::Any),
    ] {
        let options = &[("fault-shapes", shapes), ("fault-milliseconds", "1")];
        let request = LoadRequest { path: FIXTURE, device: "fault:0", threads: None, options };
        let model = backend.load(&request).expect("a model");
        let typical = [vec![2, 1]];
        let alone = model.prepare("fp32", &typical).expect("a session");
        assert_eq!(alone.shapes_served(), ShapesServed::One, "nothing else was asked for");
        let session = model.prepare_within("fp32", &typical, &bounds).expect("a session");
        assert_eq!(session.shapes_served(), expected);
        let run = |batch: i64| {
            let bytes: Vec<u8> = (0..batch).flat_map(|_| 1.5_f32.to_ne_bytes()).collect();
            let shape = [batch, 1];
            let view =
                TensorView { dtype: DataType::F32, shape: &shape, strides: None, bytes: &bytes };
            let mut call = session.call(vec![model.tensor(view)?])?;
            call.run()?;
            call.read_output(0).map(|output| output.shape)
        };
        assert_eq!(run(2).expect("the typical shape"), [2, 1]);
        for (batch, within) in [(1, true), (3, true), (4, true), (5, false), (0, false)] {
            let served = within && expected != ShapesServed::One;
            assert_eq!(run(batch).is_ok(), served, "{shapes}, a batch of {batch}");
        }
        let least = ShapeBounds { greatest: vec![vec![1, 1]], ..bounds.clone() };
        let error = model.prepare_within("fp32", &typical, &least).expect_err("beyond its bounds");
        assert_eq!(error.code, ErrorCode::InvalidArgument);
    }
}

#[test]
fn texts_are_read_and_made_as_texts() {
    let _turn = alone();
    // SAFETY: this is the backend's own entry point, and tests take turns.
    let backend = unsafe { Backend::open(tare_backend_v1) }.expect("the entry point");
    let options = &[("fault-values", "texts")];
    let request = LoadRequest { path: FIXTURE, device: "fault:0", threads: None, options };
    let model = backend.load(&request).expect("a model");
    assert_eq!(model.info().inputs[0].dtype, Some(DataType::STRING));
    let session = model.prepare("fp32", &[vec![2, 1]]).expect("a session");
    let input = model.texts(&[2, 1], &["1.5", "-20"]).expect("texts");
    assert_eq!((input.dtype(), input.shape()), (DataType::STRING, &[2, 1][..]));
    assert_eq!(input.read_texts().expect("its texts").texts, ["1.5", "-20"]);
    let mut call = session.call(vec![input]).expect("a call");
    call.run().expect("a run");
    let kind = call.output_kind(0).expect("an output");
    assert_eq!(kind, (ValueKind::Tensor, Some(DataType::STRING)));
    assert_eq!(call.read_texts(0).expect("its texts").texts, ["3", "-40"]);
    assert_eq!(call.read_output(0).expect_err("not numbers").code, ErrorCode::Unsupported);

    let error = model.texts(&[2, 1], &["1", "x"]).expect_err("not a number");
    assert_eq!(error.message, "`x` is not a number");
    model.texts(&[3, 1], &["1"]).expect_err("too few");
    let bytes = [0; 32];
    let view = TensorView { dtype: DataType::STRING, shape: &[2, 1], strides: None, bytes: &bytes };
    assert_eq!(model.tensor(view).expect_err("bytes").code, ErrorCode::InvalidArgument);
}

#[test]
fn what_is_not_a_tensor_says_what_it_is() {
    let _turn = alone();
    for (values, kind) in [("sequence", ValueKind::Sequence), ("map", ValueKind::Map)] {
        let error = run_with(&[("fault-values", values)]).expect_err("not a tensor");
        assert_eq!(error.code, ErrorCode::Unsupported);
        assert_eq!(error.message, format!("it is a {values}, not a tensor"));
        // SAFETY: this is the backend's own entry point, and tests take turns.
        let backend = unsafe { Backend::open(tare_backend_v1) }.expect("the entry point");
        let options = &[("fault-values", values)];
        let request = LoadRequest { path: FIXTURE, device: "fault:0", threads: None, options };
        let model = backend.load(&request).expect("a model");
        assert_eq!(model.info().outputs[0].kind, kind);
    }
}

#[test]
fn a_long_phase_says_how_far_it_has_come_and_ends_if_it_is_asked_to() {
    let _turn = alone();
    let reports = Rc::new(RefCell::new(Vec::new()));
    let listener = Rc::clone(&reports);
    let on_progress = Box::new(move |report: ProgressReport| listener.borrow_mut().push(report));
    // SAFETY: this is the backend's own entry point, and tests take turns.
    let backend =
        unsafe { Backend::open_with(tare_backend_v1, on_progress) }.expect("the entry point");
    let load = |options: &[(&str, &str)]| {
        backend.load(&LoadRequest { path: FIXTURE, device: "fault:0", threads: None, options })
    };
    let long = [("fault", "long"), ("fault-phase", "load"), ("fault-milliseconds", "30")];
    load(&long).expect("a model");
    assert_eq!(reports.borrow().len(), 0, "progress was not asked for");
    load(&[&long[..], &[("fault-offers", "progress")]].concat()).expect("a model");
    let reports = reports.take();
    assert!(reports.len() > 1 && reports[0].doing == "taking its time", "{reports:?}");
    assert!(reports.is_sorted_by_key(|report| report.part), "{reports:?}");

    let canceller = backend.canceller().expect("the extension").expect("a canceller");
    let done = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&done);
    let asking = std::thread::spawn(move || {
        // Before the load has begun there is nothing to cancel, so the request is repeated.
        while !ended.load(Ordering::Relaxed) {
            canceller.cancel().expect("it can be asked");
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let forever = [("fault", "long"), ("fault-phase", "load"), ("fault-milliseconds", "600000")];
    let error = load(&forever).expect_err("it is asked to end");
    done.store(true, Ordering::Relaxed);
    asking.join().expect("no panic");
    assert_eq!(error.code, ErrorCode::Cancelled);
    assert_eq!(error.message, "asked to end in phase load");
}

#[test]
fn errors_keep_their_code_message_and_details() {
    let _turn = alone();
    let calls = [("load", "load"), ("prepare", "prepare"), ("run", "run")];
    for (phase, call) in
        calls.into_iter().chain([("tensor", "tensor_create"), ("read", "tensor_read")])
    {
        let options = [("fault", "error"), ("fault-phase", phase), ("fault-code", "out-of-memory")];
        let error = run_with(&options).expect_err(phase);
        let expected = Error {
            call,
            code: ErrorCode::OutOfMemory,
            message: format!("asked to fail in phase {phase}"),
            details: "nothing is wrong".into(),
        };
        assert_eq!(error, expected);
    }
}

#[test]
fn a_panic_is_an_internal_error() {
    let _turn = alone();
    for phase in ["load", "prepare", "tensor", "run", "read"] {
        let error = run_with(&[("fault", "panic"), ("fault-phase", phase)]).expect_err(phase);
        assert_eq!(error.code, ErrorCode::Internal);
        assert_eq!(error.message, format!("the backend panicked: asked to panic in phase {phase}"));
    }
    for phase in ["release", "unload"] {
        run_with(&[("fault", "panic"), ("fault-phase", phase)]).expect(phase);
    }
}

#[test]
fn a_fault_waits_for_its_turn() {
    let _turn = alone();
    let options = |after| [("fault", "error"), ("fault-after", after)];
    run_with(&options("1")).expect_err("the second run");
    run_with(&options("2")).expect("both runs");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let _turn = alone();
    let cases: [(&[(&str, &str)], &str); 5] = [
        (&[("fault", "sneeze")], "option `fault` cannot be `sneeze`: a fault is one of: segfault,"),
        (&[("fault", "zeros"), ("fault-phase", "load")], "the fault `zeros` has no phase `load`"),
        (&[("fault-code", "3")], "`fault-code` is for the faults"),
        (&[("fault", "error"), ("fault-code", "bad")], "there is no error code `bad`"),
        (&[("fault-bytes", "-1")], "option `fault-bytes` cannot be `-1`"),
    ];
    for (options, message) in cases {
        let error = run_with(options).expect_err(message);
        assert_eq!(error.code, ErrorCode::InvalidArgument);
        assert!(error.message.starts_with(message), "{}", error.message);
    }
}

/// Runs this test's `deadly` with a fault in a separate process.
fn in_a_child(fault: &str, phase: &str, code: &str) -> Command {
    let mut child = Command::new(std::env::current_exe().expect("this test"));
    child.args(["--exact", "deadly", "--nocapture", "--ignored"]);
    child.env("FAULT", [fault, phase, code].join(" "));
    child
}

fn output_of(fault: &str, phase: &str, code: &str) -> Output {
    in_a_child(fault, phase, code).output().expect("the child starts")
}

#[test]
#[ignore = "run by the tests below in processes of their own"]
fn deadly() {
    let plan = std::env::var("FAULT").expect("what to do");
    let words: Vec<&str> = plan.split(' ').collect();
    let mut options = vec![("fault", words[0]), ("fault-phase", words[1])];
    if !words[2].is_empty() {
        options.push(("fault-code", words[2]));
    }
    run_with(&options).expect("no error");
}

#[test]
fn deadly_faults_end_the_process() {
    for phase in ["load", "run", "unload"] {
        assert_eq!(output_of("segfault", phase, "").status.signal(), Some(11), "{phase}");
        assert_eq!(output_of("abort", phase, "").status.signal(), Some(6), "{phase}");
        assert_eq!(output_of("exit", phase, "47").status.code(), Some(47), "{phase}");
    }
    assert!(output_of("leak", "run", "").status.success());
}

#[test]
fn garbage_goes_to_standard_output() {
    let output = output_of("print", "run", "");
    assert!(output.status.success());
    assert!(output.stdout.windows(9).any(|bytes| bytes == b"\x01\0{\"garba"));
}

#[test]
fn a_hang_hangs() {
    for phase in ["load", "run"] {
        let mut child = in_a_child("hang", phase, "").spawn().expect("the child starts");
        let deadline = Instant::now() + Duration::from_millis(500);
        while Instant::now() < deadline {
            assert_eq!(child.try_wait().expect("the child's state"), None);
            std::thread::sleep(Duration::from_millis(50));
        }
        child.kill().expect("the child is ours");
        assert_eq!(child.wait().expect("the child ended").signal(), Some(9));
    }
}

#[test]
fn a_device_keeps_the_pace_that_is_asked_for() {
    let _turn = alone();
    // Each waits at least as long as stated; the excess depends on the machine.
    let least = |fault: &str, runs: &str, milliseconds: u64| {
        let options = [("fault", fault), ("fault-microseconds", "2000"), ("fault-runs", runs)];
        let start = Instant::now();
        run_with(&options).expect("it only takes its time");
        assert!(start.elapsed() >= Duration::from_millis(milliseconds), "{fault}");
    };
    // Two runs each: 1 and 1 + 1/1, 3 and 1 + 2/256, 1 and 2, 1 and 10 times as long.
    least("drift", "1", 6);
    least("warm-up", "1", 8);
    least("throttle", "1", 6);
    least("stall", "2", 22);
}

#[test]
fn a_queue_that_is_full_makes_a_liar_wait() {
    let _turn = alone();
    let options = [("fault", "lie"), ("fault-microseconds", "1000")];
    let start = Instant::now();
    let mut call = run_with(&options).expect("a liar works");
    // Two runs have finished and been read.
    for _ in 0..20 {
        call.run().expect("a liar works");
    }
    assert!(start.elapsed() >= Duration::from_millis(6));
}
