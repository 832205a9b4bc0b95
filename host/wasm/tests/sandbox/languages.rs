//! Metrics in other languages, as their usual compilers build them, without any flag that replaces WASI.
//!
//! That in C is beside its source. Those in Python and JavaScript are built here, since they are as large as their
//! interpreters, by `componentize-py` of PyPI, and `componentize-js` and `jco` of npm, which must be found in `PATH`:
//!
//!     cargo nextest run --package host-wasm --run-ignored only languages --no-capture

use super::*;

const WIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugin-api/wit");

fn folder(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/languages").join(language)
}

/// Builds a component with a program, which runs in the folder of its language.
fn build(language: &str, name: &str, command: &str, arguments: &[&str]) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let status = Command::new(command)
        .args(arguments)
        .arg("-o")
        .arg(&target)
        .current_dir(folder(language))
        .status()
        .unwrap_or_else(|error| panic!("{command} does not run: {error}"));
    assert!(status.success(), "{command} fails");
    target
}

/// Loads a component twice, computes its values, and prints what it took.
#[expect(clippy::print_stderr, reason = "it says what was measured")]
fn computes(path: &Path, id: &str) {
    let sandbox = sandbox(Limits::default());
    let start = Instant::now();
    sandbox.load(path).expect("a plugin");
    let compiled = start.elapsed();
    // Another run of the host.
    let sandbox = super::sandbox(Limits::default());
    let start = Instant::now();
    let plugin = sandbox.load(path).expect("a plugin");
    let loaded = start.elapsed();
    assert_eq!(plugin.kind(), Kind::Metric);
    assert_eq!(plugin.description().id, id);
    let gap = sandbox.rehearse(&plugin, &json!({})).expect("its names")[0].value.clone();
    assert_eq!(gap.expect_err("no data").to_string(), "the case has no latencies");
    let columns = case(vec![column("latency", "ns", 1, ColumnData::U64((0..=1000).collect()))]);
    let compute = || sandbox.compute(&plugin, &columns, &Value::Null).expect("values");
    let start = Instant::now();
    let values = compute();
    let computed = start.elapsed();
    assert_eq!(values[0].metric, format!("{id}.latency"));
    assert_eq!(values[0].value, Ok(500.0));
    assert_eq!(values, compute(), "the same every time");
    let bytes = fs::metadata(path).expect("it is there").len();
    eprintln!(
        "{id}: {bytes} B; compiled or loaded {compiled:?}, loaded {loaded:?}, computed {computed:?}"
    );
}

#[test]
fn c_with_its_standard_library() {
    computes(&folder("c").join("metric.wasm"), "c-mean");
}

#[test]
#[ignore = "needs componentize-py"]
fn python() {
    let arguments = ["-d", WIT, "-w", "metric-plugin", "componentize", "app"];
    computes(&build("python", "python.wasm", "componentize-py", &arguments), "python-mean");
}

#[test]
#[ignore = "needs componentize-js"]
fn starlingmonkey() {
    let arguments = ["metric.js", "--wit", WIT, "-n", "metric-plugin"];
    let built = build("javascript", "starlingmonkey.wasm", "componentize-js", &arguments);
    computes(&built, "javascript-mean");
}

#[test]
#[ignore = "needs jco"]
fn quickjs() {
    // Without the flag it makes a component of WASI 0.3, whose calls are asynchronous.
    let mut arguments = vec!["componentize", "metric.js", "--backend", "qjs"];
    arguments.extend(["--backend-qjs-disable-async", "--wit", WIT, "-n", "metric-plugin"]);
    computes(&build("javascript", "quickjs.wasm", "jco", &arguments), "javascript-mean");
}
