//! Files and guests that would exhaust the host. Each costs only its own output, and at most 256 MiB of the host's
//! memory.

use std::os::unix::fs::symlink;

use host_wasm::{CompilerLimits, Seen};

use super::*;

/// Limit on the memory that a guest costs the host, in bytes.
const BOUND: u64 = 256 << 20;

/// Returns the peak memory of this process, in bytes.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    let kibibytes = line.split_whitespace().nth(1).expect("a number");
    kibibytes.parse::<u64>().expect("a number") << 10
}

/// Runs `act`, which must not cost more memory than a guest may.
fn bounded<T>(act: impl FnOnce() -> T) -> T {
    let before = peak_memory();
    let result = act();
    let more = peak_memory() - before;
    assert!(more < BOUND, "it cost {more} bytes");
    result
}

/// A folder with a plugin's file and a cache.
struct Place(tempfile::TempDir);

impl Place {
    fn new(component: &[u8]) -> Self {
        let place = Self(tempfile::tempdir().expect("a folder"));
        fs::write(place.file(), component).expect("a file");
        place
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("plugin.wasm")
    }

    /// A sandbox that compiles in a separate process.
    fn sandbox(&self, compiling: CompilerLimits) -> Sandbox {
        self.compiling_with(env!("CARGO_BIN_EXE_compile-component"), compiling)
    }

    fn compiling_with(&self, program: &str, compiling: CompilerLimits) -> Sandbox {
        let options = SandboxOptions {
            cache: Some(self.0.path().join("cache")),
            compiler: Some(program.into()),
            compiling,
            limits: small(),
        };
        Sandbox::new(options).expect("wasmtime runs here")
    }

    /// Returns the text of an error without the folder's name.
    fn text(&self, error: &GuestError) -> String {
        error.to_string().replace(&*self.0.path().to_string_lossy(), "[FOLDER]")
    }
}

fn encoded(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [&[id], &*encoded(content.len()), content].concat()
}

/// Returns a component that exports the name of a metric and has a module with these functions, all without
/// parameters and results.
fn component(functions: &[Vec<u8>]) -> Vec<u8> {
    let outside = r#"(component (component $c) (instance $i (instantiate $c))
        (export "tare:plugin/metric@0.1.4" (instance $i)))"#;
    let types = section(1, &[1, 0x60, 0, 0]);
    let count = encoded(functions.len());
    let declared = section(3, &[&*count, &*vec![0; functions.len()]].concat());
    let bodies = functions.iter().flat_map(|body| [encoded(body.len()), body.clone()].concat());
    let code = section(10, &count.iter().copied().chain(bodies).collect::<Vec<_>>());
    let module = [&b"\0asm\x01\0\0\0"[..], &types, &declared, &code].concat();
    [wat::parse_str(outside).expect("correct text"), section(1, &module)].concat()
}

/// Returns a component of one function with as many variables as loops, each of which changes one. The compiler
/// asks at every loop for every variable.
fn slow_component(loops: usize) -> Vec<u8> {
    let mut body = [vec![1], encoded(loops), vec![0x7f]].concat();
    for index in 0..loops {
        let (this, next) = (encoded(index), encoded((index + 1) % loops));
        body.extend([0x03, 0x40, 0x20]);
        body.extend(&this);
        body.extend([0x41, 1, 0x6a, 0x21]);
        body.extend(&this);
        body.push(0x20);
        body.extend(next);
        body.extend([0x0d, 0, 0x0b]);
    }
    body.extend([0x41, 0]);
    for index in 0..loops {
        body.push(0x20);
        body.extend(encoded(index));
        body.push(0x73);
    }
    body.extend([0x1a, 0x0b]);
    component(&[body])
}

#[test]
fn a_slow_component_costs_a_process_its_time_once_a_day() {
    let place = Place::new(&slow_component(10_000));
    assert!(fs::metadata(place.file()).expect("it is there").len() < 250_000);
    let limits = CompilerLimits { time: Duration::from_millis(1500), ..CompilerLimits::default() };
    let sandbox = place.sandbox(limits);
    assert_eq!(sandbox.look(&place.file()).expect("a plugin"), Seen::New(Kind::Metric));

    let mut told = Vec::new();
    let mut load = || bounded(|| sandbox.load_telling(&place.file(), &mut |it| told.push(it)));
    let error = load().expect_err("too slow");
    insta::assert_snapshot!(
        error,
        @"plugin `plugin.wasm`: it cannot be compiled: it takes longer than 1.5 s, the limit"
    );
    let before = Instant::now();
    let again = load().expect_err("remembered");
    assert!(before.elapsed() < Duration::from_secs(1), "it is not tried again");
    let look = sandbox.look(&place.file()).expect_err("remembered");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].path, place.file());

    let text = place.text(&again);
    assert_eq!(place.text(&look), text);
    let (reason, file) = text.split_once(", remove ").expect("the file");
    insta::assert_snapshot!(
        reason,
        @"plugin `plugin.wasm`: it cannot be compiled: it takes longer than 1.5 s, the limit; this was less than a minute ago, and is not tried again for a day: to try at once"
    );
    fs::remove_file(file.replace("[FOLDER]", &place.0.path().to_string_lossy())).expect("a file");
    assert_eq!(sandbox.look(&place.file()).expect("a plugin"), Seen::New(Kind::Metric));
}

#[test]
fn compiling_that_is_cancelled_ends_and_is_no_fault_of_the_plugin() {
    let place = Place::new(&slow_component(10_000));
    let mut sandbox = place.sandbox(CompilerLimits::default());
    let asked = Arc::new(AtomicBool::new(false));
    let heeded = Arc::clone(&asked);
    sandbox.heed(Cancel::when(move || heeded.load(Ordering::Relaxed)));
    let start = Instant::now();
    let mut stop = |_| asked.store(true, Ordering::Relaxed);
    let error = sandbox.load_telling(&place.file(), &mut stop).expect_err("cancelled");
    assert!(matches!(*error.kind, GuestErrorKind::Cancelled), "{error}");
    assert!(start.elapsed() < CompilerLimits::default().time, "{:?}", start.elapsed());
    let seen = place.sandbox(CompilerLimits::default()).look(&place.file());
    assert_eq!(seen.expect("a plugin"), Seen::New(Kind::Metric), "nothing is remembered");
}

#[test]
fn a_component_that_takes_much_memory_to_compile_costs_a_process() {
    let place = Place::new(&slow_component(10_000));
    let limits = CompilerLimits { memory_bytes: 400 << 20, ..CompilerLimits::default() };
    let sandbox = place.sandbox(limits);
    let error = bounded(|| sandbox.load(&place.file())).expect_err("too large");
    insta::assert_snapshot!(
        error,
        @"plugin `plugin.wasm`: it cannot be compiled: it needs more than 419430400 bytes, the limit"
    );
}

#[test]
fn a_million_functions_are_not_compiled() {
    let place = Place::new(&component(&vec![vec![0, 0x0b]; 1_000_000]));
    let sandbox = place.compiling_with("/nowhere/host", CompilerLimits::default());
    let error = bounded(|| sandbox.load(&place.file()).expect_err("too many"));
    insta::assert_snapshot!(
        error,
        @"plugin `plugin.wasm`: not a WebAssembly component: it has more than 200000 functions and globals"
    );
}

#[test]
fn many_functions_cost_a_process_its_time() {
    let place = Place::new(&component(&vec![vec![0, 0x0b]; 190_000]));
    let limits = CompilerLimits { time: Duration::from_millis(300), ..CompilerLimits::default() };
    let error = bounded(|| place.sandbox(limits).load(&place.file()).expect_err("too slow"));
    assert!(matches!(*error.kind, GuestErrorKind::NotCompiled { .. }), "{error}");
}

#[test]
fn compiled_code_has_a_limit() {
    let place = Place::new(&fs::read(components().join("hostile_report.wasm")).expect("a file"));
    let limits = CompilerLimits { code_bytes: 100_000, ..CompilerLimits::default() };
    let error = place.sandbox(limits).load(&place.file()).expect_err("too large");
    insta::assert_snapshot!(
        error,
        @"plugin `plugin.wasm`: it cannot be compiled: it becomes more than 100000 bytes, the limit"
    );
    let names: Vec<_> = fs::read_dir(place.0.path().join("cache"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(names.len(), 1, "only the reason is kept: {names:?}");
}

#[test]
fn what_another_process_compiled_is_run_and_described_without_it() {
    let place = Place::new(&fs::read(components().join("hostile_metric.wasm")).expect("a file"));
    let sandbox = place.sandbox(CompilerLimits::default());
    let plugin = bounded(|| sandbox.load(&place.file())).expect("a plugin");
    let values = sandbox.compute(&plugin, &case(vec![]), &json!({ "act": "environment" }));
    assert_eq!(values.expect("values")[0].value, Ok(0.0));

    // Nothing is compiled from now on, and `look` does not even load the code.
    let another = place.compiling_with("/nowhere/host", CompilerLimits::default());
    assert_eq!(another.load(&place.file()).expect("a plugin").description(), plugin.description());
    let cache = place.0.path().join("cache");
    for entry in fs::read_dir(&cache).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|it| it == "code") {
            fs::remove_file(path).expect("a file");
        }
    }
    let Seen::Known(profile) = another.look(&place.file()).expect("a plugin") else {
        panic!("it is known");
    };
    assert_eq!(&profile, plugin.profile());
    // A missing compiler is not the plugin's fault.
    let error = another.load(&place.file()).expect_err("no compiler");
    assert!(error.to_string().contains("cannot start /nowhere/host"), "{error}");
    sandbox.load(&place.file()).expect("a plugin");
}

#[test]
fn without_a_cache_another_process_compiles_too() {
    let options = SandboxOptions {
        compiler: Some(env!("CARGO_BIN_EXE_compile-component").into()),
        limits: small(),
        ..SandboxOptions::default()
    };
    let sandbox = Sandbox::new(options).expect("wasmtime runs here");
    assert_eq!(load(&sandbox, "hostile_report").kind(), Kind::Report);
}

#[test]
fn what_is_wrong_with_a_component_is_said_by_its_compiler() {
    let wrong = component(&[vec![0, 0x1a, 0x0b]]);
    let place = Place::new(&wrong);
    let error = place.sandbox(CompilerLimits::default()).load(&place.file()).expect_err("wrong");
    assert!(matches!(*error.kind, GuestErrorKind::NotAComponent { .. }), "{error}");
    assert!(error.to_string().contains("nothing on stack"), "{error}");
}

#[test]
fn a_file_that_never_ends_is_not_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("plugin.wasm");
    symlink("/dev/zero", &path).expect("a link");
    let error = bounded(|| sandbox(small()).look(&path)).expect_err("no file");
    assert!(error.to_string().contains("not a regular file"), "{error}");
}

#[test]
fn a_plugin_that_never_says_what_it_is_is_asked_once_a_day() {
    let place = Place::new(&fs::read(components().join("endless_metric.wasm")).expect("a file"));
    let sandbox = place.sandbox(CompilerLimits::default());
    let error = bounded(|| sandbox.load(&place.file())).expect_err("endless");
    insta::assert_snapshot!(
        error,
        @"plugin `plugin.wasm` in `describe`: out of fuel: it ran more than 500000000 instructions, the limit of a call"
    );
    let before = Instant::now();
    let again = place.text(&sandbox.load(&place.file()).expect_err("remembered"));
    assert!(before.elapsed() < Duration::from_secs(1), "it is not asked again");
    assert!(again.starts_with("plugin `plugin.wasm` in `describe`: out of fuel"), "{again}");
    assert!(again.contains("is not tried again for a day"), "{again}");
}

#[test]
fn a_column_that_is_named_often_is_read_once() {
    let sandbox = sandbox(small());
    assert_eq!(load(&sandbox, "columns_metric").columns(), ["latency"]);
}

#[test]
fn texts_that_are_too_long_cost_their_own_output() {
    // The guest's own memory suffices.
    let limits = Limits { fuel: 2_000_000_000, ..Limits::default() };
    let error = bounded(|| failing(limits, "text"));
    insta::assert_snapshot!(
        error,
        @"plugin `hostile-metric` in `compute`: it passed more than 50331648 bytes, the limit of a call"
    );
    let error = bounded(|| failing(small(), "long")).to_string();
    assert!(error.contains("the attribute's value \"xxx"), "{error}");
    assert!(error.ends_with("has 1048576 bytes; the limit is 16384"), "{error}");
}

#[test]
fn a_negative_time_is_refused() {
    insta::assert_snapshot!(
        failing(small(), "negative"),
        @"plugin `hostile-metric` in `compute`: invalid answer: `hostile-metric.v`: -1 ns is impossible: an amount in `ns` is not negative; a difference has the attribute `difference`"
    );
}

#[test]
fn a_metric_is_held_to_what_it_stated_when_it_was_tried() {
    let sandbox = sandbox(small());
    let plugin = load(&sandbox, "hostile_metric");
    let options = json!({ "act": "moody" });
    let latency = |value| case(vec![column("latency", "ns", 1, ColumnData::U64(vec![value]))]);
    let compute = |value| sandbox.compute(&plugin, &latency(value), &options);
    // Before its trial, any value is accepted.
    assert!(compute(0).is_ok());
    assert_eq!(sandbox.rehearse(&plugin, &options).expect("values")[0].unit, "ns");
    assert!(compute(2).is_ok());
    insta::assert_snapshot!(
        compute(0).expect_err("another unit"),
        @"plugin `hostile-metric` in `compute`: invalid answer: `hostile-metric.v` is `s`, lower, and was `ns`, lower when the metric was tried with these options"
    );
    insta::assert_snapshot!(
        compute(1).expect_err("another value"),
        @"plugin `hostile-metric` in `compute`: invalid answer: `hostile-metric.beyond` was not stated when the metric was tried with these options; stated were `hostile-metric.v`"
    );
}

#[test]
fn a_guest_that_ran_out_of_time_is_not_called_again() {
    let sandbox = sandbox(Limits { fuel: 50_000_000, ..small() });
    let plugin = load(&sandbox, "hostile_metric");
    let options = json!({ "act": "loop-on-data" });
    let latency = case(vec![column("latency", "ns", 1, ColumnData::U64(vec![1]))]);
    sandbox.rehearse(&plugin, &options).expect("it ends without data");
    let error = sandbox.compute(&plugin, &latency, &options).expect_err("endless");
    assert!(matches!(*error.kind, GuestErrorKind::OutOfFuel { .. }), "{error}");
    for _ in 0..1000 {
        let error = sandbox.compute(&plugin, &latency, &options).expect_err("not called");
        assert!(matches!(*error.kind, GuestErrorKind::OutOfTime { call: "compute" }), "{error}");
    }
    insta::assert_snapshot!(
        sandbox.compute(&plugin, &latency, &options).expect_err("not called"),
        @"plugin `hostile-metric` in `compute`: it ran out of time in `compute` before, and is not called again in this run"
    );
    // With other options it may end, and in another run it is tried again.
    sandbox.compute(&plugin, &latency, &json!({ "act": "echo" })).expect("values");
}
