//! Well-behaved and hostile guests, through the whole sandbox.
//!
//! The components are those that `cargo xtask test` built for `wasm32-wasip2`, beside the folder that it names
//! in `TARE_BUILT`. Without it, cargo builds them here; if it cannot, the tests fail.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use host_record::{
    CaseColumns, Cell, Column, ColumnData, Direction, GapKind, MetricValue, Table, Views,
};
use host_statistics::Random;
use host_wasm::{
    Cancel, Grant, GuestError, GuestErrorKind, Kind, Limits, MoreCases, Plugin, Rendered, Sandbox,
    SandboxOptions,
};
use serde_json::{Value, json};

#[path = "sandbox/hostile.rs"]
mod hostile;

/// Returns the folder with the components, built once.
fn components() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        // Each test is a separate process, and need not check with cargo whether everything is built.
        if let Some(folder) = std::env::var_os("TARE_BUILT") {
            return Path::new(&folder).with_file_name("guests").join("wasm32-wasip2/release");
        }
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        // `cargo xtask` builds guests in the same folder, so that nothing is built twice.
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("guests");
        let metrics = [
            "latency",
            "throughput",
            "memory",
            "energy",
            "accuracy",
            "stability",
            "scaling",
            "model",
        ];
        let metrics: Vec<_> = metrics.iter().map(|id| format!("--package=metric-{id}")).collect();
        for (manifest, packages) in
            [("tests/guests/Cargo.toml", vec![]), ("../../plugins/Cargo.toml", metrics)]
        {
            let status = Command::new(env!("CARGO"))
                .args(["build", "--quiet", "--release", "--target", "wasm32-wasip2"])
                .args(["--locked", "--manifest-path"])
                .arg(here.join(manifest))
                .arg("--target-dir")
                .arg(&target)
                .args(packages)
                .status()
                .expect("cargo runs");
            assert!(
                status.success(),
                "{manifest} does not build; `cargo xtask setup` adds its target"
            );
        }
        target.join("wasm32-wasip2/release")
    })
}

/// Returns a sandbox that keeps compiled components between tests, as the host does between runs.
fn sandbox(limits: Limits) -> Sandbox {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled");
    let options = SandboxOptions { cache: Some(cache), limits, ..SandboxOptions::default() };
    Sandbox::new(options).expect("wasmtime runs here")
}

fn load(sandbox: &Sandbox, name: &str) -> Plugin {
    sandbox.load(&components().join(format!("{name}.wasm"))).expect("a plugin")
}

fn column(name: &str, unit: &str, width: u64, data: ColumnData) -> Column {
    Column { name: name.into(), unit: unit.into(), width, data }
}

fn case(columns: Vec<Column>) -> Rc<CaseColumns> {
    let attributes = [("model", "digits"), ("batch", "8"), ("scenario", "single-stream")];
    Rc::new(CaseColumns {
        case_id: "0123456789abcdef".into(),
        attributes: attributes.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        columns,
    })
}

fn by_name(values: Vec<MetricValue>) -> BTreeMap<String, MetricValue> {
    values.into_iter().map(|value| (value.metric.clone(), value)).collect()
}

/// Returns the error of the hostile metric in a mode.
fn failing(limits: Limits, act: &str) -> GuestError {
    let sandbox = sandbox(limits);
    let plugin = load(&sandbox, "hostile_metric");
    let columns = case(vec![column("latency", "ns", 1, ColumnData::U64(vec![1, 2]))]);
    sandbox.compute(&plugin, &columns, &json!({ "act": act })).expect_err("what it must not do")
}

fn small() -> Limits {
    Limits { fuel: 2_000_000_000, memory_bytes: 64 << 20, ..Limits::default() }
}

#[test]
fn a_plugin_tells_what_it_is() {
    let sandbox = sandbox(small());
    let metric = load(&sandbox, "hostile_metric");
    assert_eq!(metric.kind(), Kind::Metric);
    assert_eq!(metric.columns(), ["latency", "output", "output.*", "label", "energy", "tokens"]);
    insta::assert_debug_snapshot!(metric.description(), @r#"
    Description {
        id: "hostile-metric",
        version: "1.2.3",
        summary: "Does what a metric must not do, on request.",
        license: "MIT OR Apache-2.0",
        options: [
            (
                "act",
                "What to do.",
            ),
        ],
    }
    "#);
    assert_eq!(metric.sha256().len(), 64);
    assert_eq!(load(&sandbox, "hostile_report").kind(), Kind::Report);
    assert_eq!(load(&sandbox, "hostile_recommender").kind(), Kind::Recommender);
    assert_eq!(load(&sandbox, "hostile_report").columns(), [""; 0]);
}

#[test]
fn a_metric_gets_all_outputs_whatever_they_are() {
    let sandbox = sandbox(small());
    let plugin = load(&sandbox, "hostile_metric");
    let texts = vec!["a".to_owned(), "\u{e9}\n".to_owned()];
    let columns = case(vec![
        column("output", "1", 1, ColumnData::F32(vec![0.5])),
        column("output.score", "1", 1, ColumnData::F32(vec![0.5])),
        column("output.mask", "1", 2, ColumnData::Boolean(vec![true, false])),
        column("output.word", "1", 1, ColumnData::Text(texts)),
        column("outputs", "1", 1, ColumnData::Text(vec!["not asked for".into()])),
    ]);
    let values = sandbox.compute(&plugin, &columns, &json!({ "act": "others" })).expect("values");
    let texts: Vec<_> = values
        .iter()
        .map(|one| (one.metric.as_str(), one.value.clone().ok(), one.attributes["values"].as_str()))
        .collect();
    assert_eq!(
        texts,
        [
            ("hostile-metric.score", Some(1.0), "Single([0.5])"),
            ("hostile-metric.mask", Some(2.0), "[true, false]"),
            ("hostile-metric.word", Some(1.0), "[\"a\", \"\u{e9}\\n\"]"),
        ]
    );
}

#[test]
fn a_metric_gets_the_columns_that_it_reads_and_no_others() {
    let sandbox = sandbox(small());
    let plugin = load(&sandbox, "hostile_metric");
    let columns = case(vec![
        column("latency", "ns", 1, ColumnData::U64(vec![1, 2, 1 << 53])),
        column("output", "1", 2, ColumnData::F32(vec![0.5, 0.25])),
        column("label", "1", 1, ColumnData::S64(vec![-3, 1])),
        column("energy", "J", 1, ColumnData::F64(vec![1e-3])),
        column("start", "ns", 1, ColumnData::U64(vec![7])),
    ]);
    let values = sandbox.compute(&plugin, &columns, &json!({ "act": "echo" })).expect("values");
    let stated: Vec<_> = values
        .iter()
        .map(|one| {
            let value = one.value.clone().map_err(|gap| gap.to_string());
            (one.metric.as_str(), value, one.unit.as_str(), one.attributes.get("width"))
        })
        .collect();
    insta::assert_debug_snapshot!(stated, @r#"
    [
        (
            "hostile-metric.attributes",
            Ok(
                3.0,
            ),
            "1",
            None,
        ),
        (
            "hostile-metric.latency",
            Ok(
                9007199254740996.0,
            ),
            "ns",
            Some(
                "1",
            ),
        ),
        (
            "hostile-metric.output",
            Ok(
                0.75,
            ),
            "1",
            Some(
                "2",
            ),
        ),
        (
            "hostile-metric.label",
            Ok(
                -2.0,
            ),
            "1",
            Some(
                "1",
            ),
        ),
        (
            "hostile-metric.energy",
            Ok(
                0.001,
            ),
            "J",
            Some(
                "1",
            ),
        ),
        (
            "hostile-metric.start",
            Err(
                "the case has no record of `start`",
            ),
            "1",
            Some(
                "0",
            ),
        ),
    ]
    "#);
    assert_eq!(values[0].attributes["case"], "0123456789abcdef");
    assert!(values[0].attributes["attributes"].contains(r#""batch": "8""#));
}

#[test]
fn an_endless_loop_runs_out_of_fuel() {
    let error = failing(Limits { fuel: 10_000_000, ..small() }, "loop");
    assert!(matches!(*error.kind, GuestErrorKind::OutOfFuel { limit: 10_000_000 }), "{error}");
    insta::assert_snapshot!(
        error,
        @"plugin `hostile-metric` in `compute`: out of fuel: it ran more than 10000000 instructions, the limit of a call"
    );
}

#[test]
fn an_endless_loop_meets_the_deadline() {
    let limits = Limits { fuel: u64::MAX, deadline: Duration::from_millis(200), ..small() };
    let start = Instant::now();
    let error = failing(limits, "loop");
    assert!(matches!(*error.kind, GuestErrorKind::Deadline { .. }), "{error}");
    insta::assert_snapshot!(
        error,
        @"plugin `hostile-metric` in `compute`: it took longer than 0.2 s, the limit of a call"
    );
    // This does not test timing: without the deadline it would never end.
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_memory_bomb_is_told_from_a_panic() {
    let error = failing(small(), "allocate");
    let GuestErrorKind::Memory { requested, limit } = *error.kind else { panic!("{error}") };
    // It had two latencies of eight bytes, and has three additional bytes for each byte.
    assert_eq!(limit, (64 << 20) + 3 * 16);
    assert!(requested > limit);
    // Columns that do not fit cause the same error.
    let limits = Limits { memory_bytes: 4 << 20, memory_per_column_byte: 0, ..small() };
    let sandbox = sandbox(limits);
    let plugin = load(&sandbox, "hostile_metric");
    let columns = case(vec![column("latency", "ns", 1, ColumnData::U64(vec![1; 1 << 20]))]);
    let error =
        sandbox.compute(&plugin, &columns, &json!({ "act": "echo" })).expect_err("too large");
    assert!(matches!(*error.kind, GuestErrorKind::Memory { .. }), "{error}");
}

#[test]
fn a_panic_is_a_trap_with_its_message() {
    let error = failing(small(), "panic");
    let GuestErrorKind::Trap { reason, backtrace } = &*error.kind else { panic!("{error}") };
    assert_eq!(reason, "wasm `unreachable` instruction executed");
    assert!(backtrace.iter().any(|name| name.contains("panic")), "{backtrace:?}");
    assert!(error.standard_error.contains("the widget is broken"), "{}", error.standard_error);
    assert!(error.standard_error.contains("metric/src/lib.rs"), "{}", error.standard_error);
    assert!(error.to_string().contains("the widget is broken"), "{error}");
}

#[test]
fn the_stack_and_the_memory_have_ends() {
    let error = failing(small(), "recurse");
    let GuestErrorKind::Trap { reason, .. } = &*error.kind else { panic!("{error}") };
    // The compiler decides which stack ends first: the processor's or the one in memory.
    assert!(
        reason == "call stack exhausted" || reason == "out of bounds memory access",
        "{reason}"
    );
    let error = failing(small(), "out-of-bounds");
    let GuestErrorKind::Trap { reason, .. } = &*error.kind else { panic!("{error}") };
    assert_eq!(reason, "out of bounds memory access");
}

#[test]
fn the_sandbox_grants_nothing() {
    let error = failing(small(), "file");
    assert!(matches!(*error.kind, GuestErrorKind::Refused { .. }), "{error}");
    assert!(!error.to_string().contains("root:"), "{error}");
    insta::assert_snapshot!(
        failing(small(), "exit"),
        @"plugin `hostile-metric` in `compute`: the sandbox does not grant `wasi:cli/exit.exit`: plugins have no process to end; return an error instead"
    );
    insta::assert_snapshot!(
        failing(small(), "network"),
        @"plugin `hostile-metric` in `compute`: the sandbox does not grant `wasi:sockets/tcp-create-socket.create-tcp-socket`: plugins have no network"
    );
    let sandbox = sandbox(small());
    let plugin = load(&sandbox, "hostile_metric");
    let values = sandbox
        .compute(&plugin, &case(vec![]), &json!({ "act": "environment" }))
        .expect("an empty environment");
    let values: Vec<_> = values.into_iter().map(|one| one.value).collect();
    assert_eq!(
        values,
        [Ok(0.0), Ok(0.0), Ok(0.0)],
        "variables, arguments, bytes of standard input"
    );
}

#[test]
fn the_clock_stands_still_and_only_a_sleep_moves_it() {
    let sandbox = sandbox(small());
    let plugin = load(&sandbox, "hostile_metric");
    let compute = || {
        let start = Instant::now();
        let values = sandbox.compute(&plugin, &case(vec![]), &json!({ "act": "clock" }));
        let values = by_name(values.expect("times"));
        let seconds = |name: &str| values[&format!("hostile-metric.{name}")].value.clone().ok();
        // This does not test timing: the guest sleeps for a day.
        assert!(start.elapsed() < Duration::from_secs(3600));
        (seconds("elapsed"), seconds("slept"), seconds("wall"))
    };
    assert_eq!(compute(), (Some(0.0), Some(86_400.0), Some(315_532_800.0 + 86_400.0)));
    assert_eq!(compute(), (Some(0.0), Some(86_400.0), Some(315_532_800.0 + 86_400.0)));
}

#[test]
fn columns_can_be_read_in_pages() {
    let sandbox = sandbox(Limits { memory_bytes: 8 << 20, memory_per_column_byte: 0, ..small() });
    let plugin = load(&sandbox, "hostile_metric");
    let sum = |rows: u64| {
        let values = ColumnData::U64((0..rows).collect());
        let columns = case(vec![column("tokens", "1", 1, values)]);
        let values = sandbox.compute(&plugin, &columns, &json!({ "act": "pages" })).expect("a sum");
        (values[0].value.clone(), values[0].attributes["pages"].clone())
    };
    assert_eq!(sum(25), (Ok(300.0), "1".into()));
    // Twice as much as its memory.
    let rows = 2_000_000;
    assert_eq!(sum(rows), (Ok((rows * (rows - 1) / 2) as f64), "20".into()));
    // It does not get it as a whole as well.
    let columns = case(vec![column("tokens", "1", 1, ColumnData::U64(vec![1]))]);
    let values = sandbox.compute(&plugin, &columns, &json!({ "act": "whole" })).expect("an answer");
    let gap = values[0].value.clone().expect_err("it is read in pages");
    assert_eq!(gap.to_string(), "the case has no record of `tokens`");
    let columns = case(vec![column("tokens", "1", 1, ColumnData::U64(vec![1; 2_000_000]))]);
    let error = sandbox.compute(&plugin, &columns, &json!({ "act": "large-page" }));
    insta::assert_snapshot!(error.expect_err("no such page"), @"plugin `hostile-metric` in `compute`: a page has at most 1048576 values; 2000000 rows of `tokens` have 2000000");
}

#[test]
fn parts_of_views_can_be_read() {
    let options = json!({ "view": "cases", "columns": ["batch"], "write": ["a"], "name": ["a"] });
    let rendered = render(small(), &options).expect("its files");
    insta::assert_snapshot!(String::from_utf8_lossy(&rendered.files["a"]), @r#"Table { columns: ["batch"], rows: [[Integer(8)]] }"#);
    let options = json!({ "view": "cases", "columns": ["colour"], "write": ["a"], "name": ["a"] });
    insta::assert_snapshot!(render(small(), &options).expect_err("no such column"), @"plugin `hostile-report` in `render`: view `cases`: it has no column `colour`; it has: case_id, batch, p99, ok");
}

#[test]
fn hash_maps_have_the_same_order_every_time() {
    let order = || {
        let sandbox = sandbox(small());
        let plugin = load(&sandbox, "hostile_metric");
        let values = sandbox
            .compute(&plugin, &case(vec![]), &json!({ "act": "hash-map" }))
            .expect("an order");
        values[0].value.clone()
    };
    assert_eq!(order(), order());
}

#[test]
fn floods_are_cut() {
    let error = failing(small(), "print");
    assert!(matches!(&*error.kind, GuestErrorKind::Refused { message } if message == "done"));
    assert!(error.standard_error.len() <= 5 << 10);
    assert!(error.standard_error.ends_with("dull plugin\n\u{fffd}[31mred\n"));

    let sandbox = sandbox(small());
    let plugin = load(&sandbox, "hostile_metric");
    sandbox.compute(&plugin, &case(vec![]), &json!({ "act": "log" })).expect("lines are left out");

    let limits = Limits { memory_bytes: 1 << 30, ..small() };
    let error = failing(limits, "huge");
    insta::assert_snapshot!(
        error,
        @"plugin `hostile-metric` in `compute`: it passed more than 50331648 bytes, the limit of a call"
    );
}

#[test]
fn answers_are_checked() {
    let detail = |act| {
        let error = failing(small(), act);
        let GuestErrorKind::InvalidAnswer { detail } = *error.kind else { panic!("{error}") };
        detail
    };
    insta::assert_snapshot!(
        detail("name"),
        @"`latency.p50`: the name has to begin with the plugin's id, `hostile-metric.`, and to go on in lower-case words"
    );
    insta::assert_snapshot!(
        detail("nan"),
        @"`hostile-metric.v`: the value is NaN; what cannot be computed is a gap"
    );
    insta::assert_snapshot!(
        detail("reversed"),
        @"`hostile-metric.v`: the interval from 3 to 1 is not around 2"
    );
    insta::assert_snapshot!(
        detail("gap"),
        @r#"`hostile-metric.gap`: the gap's reason "" is not one line of text"#
    );
    insta::assert_snapshot!(detail("many"), @"20000 values, where at most 10000 are taken");
}

#[test]
fn what_the_guest_says_itself_is_passed_on() {
    insta::assert_snapshot!(
        failing(small(), "refuse"),
        @"plugin `hostile-metric` in `compute`: no latencies on a Sunday"
    );
    let sandbox = sandbox(small());
    let plugin = load(&sandbox, "hostile_metric");
    let error = |options: Value| {
        sandbox.compute(&plugin, &case(vec![]), &options).expect_err("bad options").to_string()
    };
    insta::assert_snapshot!(
        error(json!({ "act": "echo", "loud": true })),
        @"plugin `hostile-metric` in `compute`: options: `hostile-metric` has no option `loud`; it has: `act`"
    );
    insta::assert_snapshot!(
        error(json!([1])),
        @"plugin `hostile-metric` in `compute`: options must be a table, not a list"
    );
}

#[test]
fn after_every_failure_the_plugin_still_works() {
    let sandbox = sandbox(Limits { fuel: 50_000_000, ..small() });
    let plugin = load(&sandbox, "hostile_metric");
    let columns = case(vec![]);
    for act in ["loop", "panic", "allocate", "recurse", "exit"] {
        assert!(sandbox.compute(&plugin, &columns, &json!({ "act": act })).is_err(), "{act}");
        assert!(sandbox.compute(&plugin, &columns, &json!({ "act": "echo" })).is_ok(), "{act}");
    }
}

struct TwoCases;

impl Views for TwoCases {
    fn names(&self) -> Vec<String> {
        vec!["cases".into()]
    }

    fn read(&self, name: &str) -> Result<Table, String> {
        if name != "cases" {
            return Err(format!("there is no view `{name}`; there is: cases"));
        }
        Ok(Table {
            columns: vec!["case_id".into(), "batch".into(), "p99".into(), "ok".into()],
            rows: vec![
                vec![
                    Cell::Text("aa".into()),
                    Cell::Integer(8),
                    Cell::Real(0.5),
                    Cell::Boolean(true),
                ],
                vec![Cell::Text("bb".into()), Cell::Integer(-1), Cell::Null, Cell::Boolean(false)],
            ],
        })
    }
}

/// Renders the hostile report.
fn render(limits: Limits, options: &Value) -> Result<Rendered, GuestError> {
    let sandbox = sandbox(limits);
    let plugin = load(&sandbox, "hostile_report");
    sandbox.render(&plugin, Rc::new(TwoCases), options)
}

#[test]
fn a_report_reads_views_and_hands_over_files() {
    let rendered = render(
        small(),
        &json!({ "view": "cases", "write": ["data/all.txt", "index.html"], "name": ["index.html"] }),
    );
    let Rendered { files, named } = rendered.expect("its files");
    assert_eq!(named, ["index.html"]);
    assert_eq!(files.keys().collect::<Vec<_>>(), ["data/all.txt", "index.html"]);
    insta::assert_snapshot!(String::from_utf8_lossy(&files["data/all.txt"]), @r#"
    ["cases"]
    Table { columns: ["case_id", "batch", "p99", "ok"], rows: [[Text("aa"), Integer(8), Real(0.5), Boolean(true)], [Text("bb"), Integer(-1), Null, Boolean(false)]] }
    "#);
    insta::assert_snapshot!(
        render(small(), &json!({ "view": "secrets" })).expect_err("no such view"),
        @"plugin `hostile-report` in `render`: view `secrets`: there is no view `secrets`; there is: cases"
    );
}

#[test]
fn a_report_stays_in_its_folder() {
    for name in [
        "../escaped",
        "/tmp/escaped",
        "a/../../escaped",
        "..",
        "a\\b",
        "c:\\escaped",
        ".git/config",
        "a/.hidden",
    ] {
        let error = render(small(), &json!({ "write": [name], "name": ["x"] }));
        let error = error.expect_err("outside the folder").to_string();
        assert!(error.contains("is not a valid name for a report's file"), "{name}: {error}");
        // Ignoring the refusal does not help, and neither does naming the file.
        let options = json!({ "write": [name], "name": [name], "ignore": true });
        let error = render(small(), &options).expect_err("it was not written");
        assert!(matches!(*error.kind, GuestErrorKind::InvalidAnswer { .. }), "{error}");
    }
}

#[test]
fn a_report_that_fails_or_writes_too_much_has_no_files() {
    let options = json!({ "write": ["index.html"], "name": ["index.html"], "panic": true });
    let error = render(small(), &options).expect_err("it panics");
    assert!(error.standard_error.contains("half-way"), "{error}");

    let options = json!({ "write": ["a", "b", "c"], "name": ["a"], "bytes": 1 << 20 });
    insta::assert_snapshot!(
        render(Limits { output_bytes: 2 << 20, ..small() }, &options).expect_err("too large"),
        @"plugin `hostile-report` in `render`: cannot write `c`: the report's files would have 3145728 bytes; the limit is 2097152"
    );
}

#[test]
fn a_call_that_is_cancelled_ends_and_none_begins_after_it() {
    let mut sandbox = sandbox(Limits { fuel: u64::MAX, ..Limits::default() });
    let plugin = load(&sandbox, "hostile_report");
    let start = Instant::now();
    let asked = Arc::new(AtomicBool::new(false));
    let heeded = Arc::clone(&asked);
    sandbox.heed(Cancel::when(move || heeded.load(Ordering::Relaxed)));
    let user = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        asked.store(true, Ordering::Relaxed);
    });
    let options = json!({ "view": "cases", "loop": true });
    let render = || sandbox.render(&plugin, Rc::new(TwoCases), &options).expect_err("a loop");
    assert!(matches!(*render().kind, GuestErrorKind::Cancelled));
    user.join().expect("the thread ends");
    assert!(matches!(*render().kind, GuestErrorKind::Cancelled));
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

#[test]
fn advice_is_checked_against_the_run() {
    let sandbox = sandbox(small());
    let plugin = load(&sandbox, "hostile_recommender");
    let advise = |cases: Value| {
        let options = json!({ "title": "Use batch 8.", "cases": cases });
        sandbox.recommend(&plugin, Rc::new(TwoCases), None, &options)
    };
    let advice = advise(json!(["aa", "bb"])).expect("good advice").recommendations;
    assert_eq!(advice[0].title, "Use batch 8.");
    assert_eq!(advice[0].explanation, "There are 1 views.");
    assert_eq!(advice[0].cases, ["aa", "bb"]);
    assert_eq!(advice[0].attributes["by"], "guess");
    insta::assert_snapshot!(
        advise(json!(["cc"])).expect_err("no such case"),
        @r#"plugin `hostile-recommender` in `recommend`: invalid answer: "Use batch 8." rests on the case "cc", which is not in this run"#
    );
}

/// Takes wishes until its grant is used up.
struct Wishes {
    granted: u32,
    taken: RefCell<Vec<String>>,
}

impl MoreCases for Wishes {
    fn left(&self) -> Grant {
        let taken = u32::try_from(self.taken.borrow().len()).expect("few");
        Grant { cases: self.granted - taken, seconds: 60.0 }
    }

    fn ask(&self, like: &str, changes: &[(String, String)], reason: &str) -> Result<(), String> {
        if self.left().cases == 0 {
            return Err("nothing is left".into());
        }
        self.taken.borrow_mut().push(format!("{like} {changes:?} {reason}"));
        Ok(())
    }
}

#[test]
fn a_recommender_asks_for_what_it_is_granted() {
    let sandbox = sandbox(small());
    let plugin = load(&sandbox, "hostile_recommender");
    let options = json!({ "title": "Use batch 8.", "cases": ["aa"], "ask": [2, 4] });
    let advise = |more: Option<Rc<dyn MoreCases>>| {
        let advice = sandbox.recommend(&plugin, Rc::new(TwoCases), more, &options);
        advice.expect("advice").recommendations.remove(0).explanation
    };
    insta::assert_snapshot!(
        advise(None),
        @r#"There are 1 views. With 0 left: Err("the manifest grants this recommender no further cases"). With 0 left: Err("the manifest grants this recommender no further cases")."#
    );
    let wishes = Rc::new(Wishes { granted: 1, taken: RefCell::default() });
    insta::assert_snapshot!(
        advise(Some(Rc::clone(&wishes) as Rc<dyn MoreCases>)),
        @r#"There are 1 views. With 1 left: Ok(()). With 0 left: Err("nothing is left")."#
    );
    assert_eq!(*wishes.taken.borrow(), [r#"aa [("batch", "2")] to know"#]);
}

#[test]
fn predictions_are_checked() {
    let sandbox = sandbox(small());
    let plugin = load(&sandbox, "hostile_recommender");
    let predict = |case: &str, prediction: [f64; 3]| {
        let options = json!({ "title": "Use batch 8.", "cases": [case], "predict": prediction });
        sandbox.recommend(&plugin, Rc::new(TwoCases), None, &options)
    };
    let advice = predict("aa", [5.0, 4.0, 6.0]).expect("a prediction");
    let [one] = &advice.predictions[..] else { panic!("{advice:?}") };
    assert_eq!((one.value, one.interval, one.confidence), (5.0, (4.0, 6.0), 0.9));
    assert_eq!((&*one.coordinates["batch"], &one.cases[..]), ("64", &["aa".to_owned()][..]));
    for (case, prediction, says) in [
        ("aa", [5.0, 6.0, 7.0], "lies outside of its interval"),
        ("cc", [5.0, 4.0, 6.0], "rests on \"cc\", which is not in this run"),
    ] {
        let error = predict(case, prediction).expect_err("a fault").to_string();
        assert!(error.contains(says), "{error}");
    }
}

/// Two finished cases and one that failed.
struct ThreeCases;

impl Views for ThreeCases {
    fn names(&self) -> Vec<String> {
        vec!["cases".into()]
    }

    fn read(&self, _: &str) -> Result<Table, String> {
        let case =
            |id: &str, outcome: &str| vec![Cell::Text(id.into()), Cell::Text(outcome.into())];
        Ok(Table {
            columns: vec!["case_id".into(), "outcome".into()],
            rows: vec![case("aa", "finished"), case("bb", "failed"), case("cc", "finished")],
        })
    }
}

#[test]
fn a_metric_over_a_run_states_its_outline_for_each_finished_case() {
    let sandbox = sandbox(small());
    let plugin = load(&sandbox, "hostile_run_metric");
    assert_eq!(plugin.kind(), Kind::Metric);
    assert!(plugin.is_over_run());
    assert_eq!(plugin.columns(), [""; 0]);
    let compute =
        |act: &str| sandbox.compute_run(&plugin, Rc::new(ThreeCases), &json!({ "act": act }));
    let found = compute("count").expect("values");
    assert_eq!(found.keys().collect::<Vec<_>>(), ["aa", "cc"]);
    assert_eq!(found["cc"][0].metric, "hostile-run-metric.cases");
    assert_eq!(found["cc"][0].value, Ok(3.0));

    let fault = |act: &str| compute(act).expect_err("a bad answer").kind.to_string();
    insta::assert_snapshot!(fault("forget"), @"invalid answer: `hostile-run-metric.cases` (1, neutral) is either outlined and not stated for the case cc, or stated and not outlined");
    insta::assert_snapshot!(fault("other-case"), @r#"invalid answer: a value for the case "decaf", which is no finished case of this run"#);
    insta::assert_snapshot!(fault("other-unit"), @"invalid answer: `hostile-run-metric.cases` (1, neutral) is either outlined and not stated for the case aa, or stated and not outlined");
    insta::assert_snapshot!(fault("not-finite"), @"invalid answer: `hostile-run-metric.cases`: the value is inf; what cannot be computed is a gap");
    insta::assert_snapshot!(fault("refuse"), @"options: not on a Sunday");
    assert!(matches!(*compute("panic").expect_err("a panic").kind, GuestErrorKind::Trap { .. }));

    // A metric over one case is not a metric over a run, or the reverse.
    let over_case = load(&sandbox, "hostile_metric");
    assert!(!over_case.is_over_run());
    assert!(sandbox.compute_run(&over_case, Rc::new(ThreeCases), &Value::Null).is_err());
    assert!(sandbox.compute(&plugin, &case(vec![]), &Value::Null).is_err());
}

#[path = "sandbox/versions.rs"]
mod versions;

#[path = "sandbox/classic.rs"]
mod classic;

#[path = "sandbox/languages.rs"]
mod languages;

#[test]
fn a_plugin_of_another_kind_is_refused() {
    let sandbox = sandbox(small());
    let report = load(&sandbox, "hostile_report");
    let error = sandbox.compute(&report, &case(vec![]), &Value::Null).expect_err("a report");
    insta::assert_snapshot!(
        error,
        @"plugin `hostile-report` in `compute`: it is a report plugin, but a metric plugin is needed"
    );
}

/// Returns a component from text.
fn text_component(text: &str) -> Result<Plugin, GuestError> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("plugin.wasm");
    fs::write(&path, wat::parse_str(text).expect("correct text")).expect("a file");
    sandbox(small()).load(&path)
}

#[test]
fn what_is_not_a_plugin_is_told_what_it_is() {
    let refusal = |text: &str| text_component(text).expect_err("no plugin").to_string();
    insta::assert_snapshot!(
        refusal("(module)"),
        @"plugin `plugin.wasm`: not a WebAssembly component: it is a WebAssembly module that is no command; build a program for `wasm32-wasip1`, or a component for `wasm32-wasip2`"
    );
    insta::assert_snapshot!(
        refusal("(component)"),
        @"plugin `plugin.wasm`: not one of the worlds `metric-plugin`, `run-metric-plugin`, `report-plugin` and `recommender-plugin`: it exports nothing"
    );
    insta::assert_snapshot!(
        refusal(r#"(component (component $c) (instance $i (instantiate $c)) (export "wasi:cli/run@0.2.0" (instance $i)))"#),
        @"plugin `plugin.wasm`: not one of the worlds `metric-plugin`, `run-metric-plugin`, `report-plugin` and `recommender-plugin`: it exports `wasi:cli/run@0.2.0`"
    );
    let empty = |name| {
        format!(
            r#"(component (component $c) (instance $i (instantiate $c)) (export "{name}" (instance $i)))"#
        )
    };
    insta::assert_snapshot!(
        refusal(&empty("tare:plugin/metric@0.9.0")),
        @"plugin `plugin.wasm`: version mismatch: the plugin needs `tare:plugin` 0.9.0, but this host has 0.1.4; install a newer host, or a build of the plugin for this one"
    );
    insta::assert_snapshot!(
        refusal(&empty("tare:plugin/metric@0.0.1")),
        @"plugin `plugin.wasm`: version mismatch: the plugin needs `tare:plugin` 0.0.1, but this host has 0.1.4; build the plugin again with the SDK of this host"
    );
    let other_types = refusal(&empty("tare:plugin/metric@0.1.0"));
    assert!(other_types.contains("its metric interface has other types"), "{other_types}");
    insta::assert_snapshot!(
        refusal(r#"(component
            (import "tare:plugin/views@0.1.0" (instance))
            (import "acme:telemetry/upload" (instance))
            (component $c) (instance $i (instantiate $c))
            (export "tare:plugin/metric@0.1.0" (instance $i)))"#),
        @"plugin `plugin.wasm`: it imports `tare:plugin/views@0.1.0`, `acme:telemetry/upload`, which is not available to a metric plugin"
    );
}

#[test]
fn a_file_that_cannot_be_read_or_is_damaged_is_an_error() {
    let sandbox = sandbox(small());
    let missing = sandbox.load(Path::new("/nowhere/metric.wasm")).expect_err("no file");
    insta::assert_snapshot!(
        missing,
        @"plugin `metric.wasm`: cannot read /nowhere/metric.wasm: No such file or directory (os error 2)"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cut.wasm");
    let whole = fs::read(components().join("hostile_metric.wasm")).expect("it is built");
    fs::write(&path, &whole[..whole.len() / 2]).expect("a file");
    let error = sandbox.load(&path).expect_err("half a component");
    assert!(matches!(*error.kind, GuestErrorKind::NotAComponent { .. }), "{error}");
}

mod cache {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn with_cache(cache: &Path) -> Sandbox {
        let options = SandboxOptions {
            cache: Some(cache.to_owned()),
            limits: small(),
            ..SandboxOptions::default()
        };
        Sandbox::new(options).expect("wasmtime runs here")
    }

    /// Returns the files of a cache folder with their inodes, which distinguish a new file from an
    /// old one.
    fn entries(cache: &Path) -> Vec<(PathBuf, u64)> {
        let mut entries: Vec<_> = fs::read_dir(cache)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .map(|path| (path.clone(), fs::metadata(&path).expect("it is there").ino()))
            .collect();
        entries.sort();
        entries
    }

    /// Returns the file of compiled code.
    fn code(entries: &[(PathBuf, u64)]) -> PathBuf {
        let is_code = |path: &&PathBuf| path.extension().is_some_and(|it| it == "code");
        entries.iter().map(|(path, _)| path).find(is_code).expect("code").clone()
    }

    #[test]
    fn what_was_compiled_is_used_again_and_what_is_damaged_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = folder.path().join("a/cache");
        load(&with_cache(&cache), "hostile_report");
        let first = entries(&cache);
        assert_eq!(first.len(), 2, "its code, and what is known of it: {first:?}");
        assert_eq!(fs::metadata(&cache).expect("it is there").mode() & 0o777, 0o700);
        let entry = &code(&first);
        assert_eq!(fs::metadata(entry).expect("it is there").mode() & 0o777, 0o600);

        load(&with_cache(&cache), "hostile_report");
        assert_eq!(entries(&cache), first, "nothing is compiled again");

        let whole = fs::read(entry).expect("it is there");
        let mut damaged = whole.clone();
        damaged[whole.len() / 2] ^= 0x40;
        for contents in [&damaged, &whole[..100].to_vec(), &Vec::new()] {
            fs::write(entry, contents).expect("a damaged entry");
            load(&with_cache(&cache), "hostile_report");
            assert_eq!(fs::read(entry).expect("it is there"), whole, "it was compiled again");
        }
    }

    #[test]
    fn what_others_could_have_written_is_not_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = folder.path().join("cache");
        load(&with_cache(&cache), "hostile_report");
        let first = entries(&cache);

        // A file that others can write to is replaced.
        let entry = &code(&first);
        fs::set_permissions(entry, fs::Permissions::from_mode(0o666)).expect("permissions");
        load(&with_cache(&cache), "hostile_report");
        assert_ne!(entries(&cache), first);
        assert_eq!(fs::metadata(entry).expect("it is there").mode() & 0o777, 0o600);

        // A link is replaced, regardless of its target.
        let elsewhere = folder.path().join("elsewhere");
        fs::rename(entry, &elsewhere).expect("moved");
        symlink(&elsewhere, entry).expect("a link");
        load(&with_cache(&cache), "hostile_report");
        assert!(!fs::symlink_metadata(entry).expect("it is there").is_symlink());

        // A folder that others can write to is not used at all.
        fs::remove_dir_all(&cache).expect("removed");
        fs::create_dir(&cache).expect("a folder");
        fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).expect("permissions");
        load(&with_cache(&cache), "hostile_report");
        assert_eq!(entries(&cache), []);
    }
}

mod metrics {
    use super::*;

    fn compute(
        id: &str,
        columns: Vec<Column>,
        options: &Value,
    ) -> Result<BTreeMap<String, MetricValue>, GuestError> {
        let sandbox = sandbox(Limits::default());
        let plugin = load(&sandbox, &format!("metric_{id}"));
        assert_eq!(plugin.description().id, id);
        assert_eq!(plugin.kind(), Kind::Metric);
        sandbox.compute(&plugin, &case(columns), options).map(by_name)
    }

    fn latencies(values: Vec<u64>) -> Column {
        column("latency", "ns", 1, ColumnData::U64(values))
    }

    #[test]
    fn latency() {
        let mut values: Vec<u64> = (1..=5000).collect();
        let mut random = Random::from_seed(1);
        (1..5000).rev().for_each(|last| values.swap(last, random.below(last as u64 + 1) as usize));
        let found = compute("latency", vec![latencies(values)], &Value::Null).expect("values");
        assert_eq!(found["latency.p99.9"].value, Ok(4995.0));
        let (low, high) = found["latency.p99"].interval.expect("an interval");
        assert!((4931.0..=4936.0).contains(&low) && (4964.0..=4969.0).contains(&high), "{low}");
        assert_eq!(found["latency.mean"].value, Ok(2500.5));
        assert_eq!(found["latency.mean"].direction, Direction::Lower);
        let few = compute("latency", vec![latencies(vec![5; 50])], &Value::Null).expect("values");
        let gap = few["latency.p99"].value.clone().expect_err("too few");
        assert_eq!(gap.kind(), GapKind::NotMeasured);
        assert_eq!(gap.to_string(), "needs 368 queries, has 50");
    }

    #[test]
    fn throughput() {
        let items = column("items", "1", 1, ColumnData::U64(vec![8, 8]));
        let columns = vec![latencies(vec![1_000_000, 3_000_000]), items];
        let found = compute("throughput", columns, &Value::Null).expect("values");
        assert_eq!(found["throughput.samples"].value, Ok(4000.0));
        assert_eq!(found["throughput.queries"].value, Ok(500.0));
        assert_eq!(found["throughput.samples"].unit, "1/s");
    }

    #[test]
    fn energy() {
        let one = |name, unit, value| column(name, unit, 1, ColumnData::F64(vec![value]));
        let items = column("items", "1", 1, ColumnData::U64(vec![8, 2]));
        let columns = vec![one("package-energy", "J", 50.0), one("energy-time", "s", 2.0), items];
        let found = compute("energy", columns, &Value::Null).expect("values");
        assert_eq!(found["energy.package-per-sample"].value, Ok(5.0));
        assert_eq!(found["energy.package-power"].value, Ok(25.0));
        assert_eq!(found["energy.package-power"].direction, Direction::Neutral);
        let gap = found["energy.device-power"].value.clone().expect_err("no device");
        assert_eq!(gap.kind(), GapKind::NotMeasured);
    }

    #[test]
    fn memory() {
        let one = |name, value| column(name, "B", 1, ColumnData::U64(vec![value]));
        let columns = vec![one("peak-memory", 5000), one("baseline-memory", 2000)];
        let found = compute("memory", columns, &Value::Null).expect("values");
        assert_eq!(found["memory.peak"].value, Ok(5000.0));
        assert_eq!(found["memory.increase"].value, Ok(3000.0));
        let error = compute("memory", vec![], &json!({ "swap": true })).expect_err("no option");
        insta::assert_snapshot!(
            error,
            @"plugin `memory` in `compute`: options: `memory` takes no options, and was given `swap`"
        );
    }

    #[test]
    fn accuracy() {
        let columns = |labels: Vec<i64>| {
            vec![
                column("output", "1", 3, ColumnData::F32(vec![0.1, 0.7, 0.2, f32::NAN, 0.3, 0.2])),
                column("label", "1", 1, ColumnData::S64(labels)),
            ]
        };
        let found =
            compute("accuracy", columns(vec![2, 1]), &json!({ "top": [1, 2] })).expect("values");
        assert_eq!(found["accuracy.top1"].value, Ok(0.0));
        assert_eq!(found["accuracy.top2"].value, Ok(0.5));
        assert_eq!(found["accuracy.top2"].attributes["not-a-number"], "1");
        assert_eq!(found["accuracy.top2"].direction, Direction::Higher);
        let error = compute("accuracy", columns(vec![2, 3]), &Value::Null).expect_err("no class 3");
        insta::assert_snapshot!(
            error,
            @"plugin `accuracy` in `compute`: example 1 has label 3, but the model's classes are 0 to 2"
        );
    }
}

#[test]
fn options_are_tried_before_there_is_anything_to_work_on() {
    let sandbox = sandbox(small());
    let latency = load(&sandbox, "metric_latency");
    let stated = by_name(sandbox.rehearse(&latency, &json!({})).expect("no options"));
    assert_eq!(stated["latency.p99"].unit, "ns");
    assert_eq!(stated["latency.p99"].direction, Direction::Lower);
    assert!(stated.values().all(|value| value.value.is_err()), "nothing is invented");
    // Its values depend on its options.
    let accuracy = load(&sandbox, "metric_accuracy");
    let stated = by_name(sandbox.rehearse(&accuracy, &json!({ "top": [2, 5] })).expect("they fit"));
    assert_eq!(stated.keys().collect::<Vec<_>>(), ["accuracy.top2", "accuracy.top5"]);
    let refusal = |plugin: &Plugin, options: Value| {
        let error = sandbox.rehearse(plugin, &options).expect_err("options that make no sense");
        assert!(matches!(*error.kind, GuestErrorKind::Refused { .. }), "{error}");
        error.kind.to_string()
    };
    assert_eq!(
        refusal(&accuracy, json!({ "top": [0] })),
        "options: `top` counts classes from 1, so 0 is invalid"
    );

    let scaling = load(&sandbox, "metric_scaling");
    let stated = by_name(sandbox.rehearse(&scaling, &json!({})).expect("no options"));
    assert_eq!(
        stated.keys().collect::<Vec<_>>(),
        [
            "scaling.batch",
            "scaling.clients",
            "scaling.replicas",
            "scaling.threads",
            "scaling.training-to-inference"
        ]
    );
    let over_run = load(&sandbox, "hostile_run_metric");
    assert_eq!(refusal(&over_run, json!({ "act": "refuse" })), "options: not on a Sunday");

    let report = load(&sandbox, "hostile_report");
    assert_eq!(
        refusal(&report, json!({ "bytes": "many" })),
        "options: invalid type: string \"many\", expected usize"
    );
    // A guest that has begun to read has accepted its options, regardless of later errors; and a guest that ends in
    // another way may succeed when there is data.
    for options in [json!({ "view": "run" }), json!({ "panic": true }), json!({})] {
        assert_eq!(sandbox.rehearse(&report, &options).expect("taken"), []);
    }
}
