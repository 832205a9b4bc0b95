//! Classic modules: programs of preview 1 of WASI that speak in lines. `classic/metric.c` and `report.c` say how they were
//! built.

use super::*;

fn load(sandbox: &Sandbox, name: &str) -> Plugin {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/classic").join(name);
    sandbox.load(&path).expect("a plugin")
}

fn latencies(values: Vec<u64>) -> Rc<CaseColumns> {
    case(vec![
        column("latency", "ns", 1, ColumnData::U64(values)),
        column("start", "ns", 1, ColumnData::U64(vec![7])),
    ])
}

/// Returns the error of the module in a mode.
fn failing(limits: Limits, act: &str) -> GuestError {
    let sandbox = sandbox(limits);
    let plugin = load(&sandbox, "metric.wasm");
    let error = sandbox.compute(&plugin, &latencies(vec![1]), &json!({ "act": act }));
    error.expect_err("what it must not do")
}

#[test]
fn a_module_is_a_metric() {
    let sandbox = sandbox(small());
    let plugin = load(&sandbox, "metric.wasm");
    assert_eq!(plugin.kind(), Kind::Metric);
    assert!(!plugin.is_over_run());
    assert_eq!(plugin.columns(), ["latency"]);
    assert_eq!(plugin.description().id, "classic");
    assert_eq!(plugin.description().options, [("act".into(), "What to do.".into())]);
    // More values than a line has.
    let values = sandbox.compute(&plugin, &latencies((0..10_001).collect()), &Value::Null);
    let values = values.expect("values");
    assert_eq!((&*values[0].metric, values[0].value.clone()), ("classic.mean", Ok(5000.0)));
    let stated = sandbox.rehearse(&plugin, &json!({})).expect("its names");
    let gap = stated[0].value.clone().expect_err("no data");
    assert_eq!(gap.to_string(), "the case has no latencies");
    insta::assert_snapshot!(
        sandbox.rehearse(&plugin, &json!({ "act": "refuse" })).expect_err("refused"),
        @"plugin `classic` in `compute`: options: not on a Sunday"
    );
    let error = sandbox.render(&plugin, Rc::new(TwoCases), &json!({})).expect_err("no report");
    assert!(matches!(*error.kind, GuestErrorKind::WrongKind { .. }), "{error}");
}

#[test]
fn a_module_is_a_report() {
    let sandbox = sandbox(small());
    let plugin = load(&sandbox, "report.wasm");
    assert_eq!(plugin.kind(), Kind::Report);
    let rendered = sandbox.render(&plugin, Rc::new(TwoCases), &json!({})).expect("its files");
    assert_eq!(rendered.named, ["cases.txt", "more.txt"]);
    assert_eq!(rendered.files["cases.txt"], b"2 cases\n");
    assert_eq!(sandbox.rehearse(&plugin, &json!({})).expect("fine options"), []);
    let refusal = sandbox.rehearse(&plugin, &json!({ "loud": true })).expect_err("refused");
    assert!(matches!(*refusal.kind, GuestErrorKind::Refused { .. }), "{refusal}");
    let error = sandbox.compute(&plugin, &latencies(vec![]), &json!({})).expect_err("no metric");
    assert!(matches!(*error.kind, GuestErrorKind::WrongKind { .. }), "{error}");
}

#[test]
fn a_module_gets_nothing_of_the_machine_and_the_same_every_time() {
    let sandbox = sandbox(small());
    let plugin = load(&sandbox, "metric.wasm");
    let compute = || {
        let start = Instant::now();
        let values = sandbox.compute(&plugin, &latencies(vec![]), &json!({ "act": "machine" }));
        // This does not test timing: it sleeps for a day.
        assert!(start.elapsed() < Duration::from_secs(3600));
        let values = values.expect("values").into_iter();
        values.map(|one| (one.metric, one.value.expect("a value"))).collect::<Vec<_>>()
    };
    let first = compute();
    assert_eq!(first, compute());
    let value = |name: &str| {
        first
            .iter()
            .find(|(metric, _)| metric == &format!("classic.{name}"))
            .expect("it is there")
            .1
    };
    assert_eq!([value("arguments"), value("variables"), value("files")], [1.0, 0.0, 0.0]);
    assert_eq!(value("clock"), 315_532_800.0 + 86_400.0);
}

#[test]
fn a_module_has_the_limits_of_every_plugin() {
    let limits = Limits { fuel: 10_000_000, ..small() };
    assert!(matches!(*failing(limits, "loop").kind, GuestErrorKind::OutOfFuel { .. }));
    let limits = Limits { fuel: u64::MAX, deadline: Duration::from_millis(200), ..small() };
    assert!(matches!(*failing(limits, "loop").kind, GuestErrorKind::Deadline { .. }));
    assert!(matches!(*failing(small(), "allocate").kind, GuestErrorKind::Memory { .. }));
    let limits = Limits { transfer_bytes: 1 << 20, deadline: Duration::from_secs(20), ..small() };
    let error = failing(Limits { fuel: 200_000_000, ..limits }, "flood");
    let is_bounded = matches!(
        *error.kind,
        GuestErrorKind::OutOfFuel { .. }
            | GuestErrorKind::Transfer { .. }
            | GuestErrorKind::Trap { .. }
    );
    assert!(is_bounded, "{error}");
}

#[test]
fn a_module_that_fails_says_why() {
    insta::assert_snapshot!(failing(small(), "exit"), @"plugin `classic` in `compute`: trap: it exited with code 3; it wrote: the widget is broken");
    insta::assert_snapshot!(failing(small(), "prattle"), @r#"plugin `classic` in `compute`: invalid answer: line 1 of its standard output, "hello", is not as the protocol tare-lines/1 asks: expected value at line 1 column 1"#);
    // It still works.
    let sandbox = sandbox(small());
    let plugin = load(&sandbox, "metric.wasm");
    assert!(sandbox.compute(&plugin, &latencies(vec![1]), &json!({ "act": "exit" })).is_err());
    assert!(sandbox.compute(&plugin, &latencies(vec![1]), &json!({})).is_ok());
}

#[test]
fn a_plugin_can_be_given_other_limits() {
    let sandbox = sandbox(Limits { fuel: 10_000_000, ..small() });
    let plugin = load(&sandbox, "metric.wasm");
    let columns = latencies((0..200_000).collect());
    let error = sandbox.compute(&plugin, &columns, &Value::Null).expect_err("too many");
    assert!(matches!(*error.kind, GuestErrorKind::OutOfFuel { .. }), "{error}");
    let time = Some(Duration::from_secs(3600));
    // Another run: in this one it has run out of time.
    let sandbox = super::sandbox(Limits { fuel: 10_000_000, ..small() });
    let plugin = load(&sandbox, "metric.wasm");
    let plugin = plugin.allowed(host_wasm::Allowance { time, memory_bytes: None });
    sandbox.compute(&plugin, &columns, &Value::Null).expect("sixty times as many instructions");
    let memory_bytes = Some(1 << 20);
    let plugin = plugin.allowed(host_wasm::Allowance { time, memory_bytes });
    let error = sandbox.compute(&plugin, &latencies(vec![]), &Value::Null).expect_err("too small");
    assert!(matches!(*error.kind, GuestErrorKind::Memory { .. }), "{error}");
}
