//! The terminal's output for made-up runs.

use std::collections::BTreeSet;

use host_experiment::{Advice, CaseResults, RunResults};
use host_record::{
    CaseKey, CaseRecord, Direction, Failure, MetricValue, NotMeasured, Outcome, Phase,
    Recommendation, Scenario, Shown, Warning, WarningKind, WorkerReport,
};
use host_store::RunHeader;

use super::{SCREEN, Summary, has_column};
use crate::style::Palette;

/// A warning of every kind, as a journal has them.
const WARNINGS: &str = r#"
{"kind":"invalid","breach":{"kind":"over-limit","over-queries":9,"queries":100,"allowed-queries":1}}
{"kind":"simulated","backend-message":"the device is made of software"}
{"kind":"few-samples","queries":9,"minimum-queries":100,"timed-ns":500000000,"minimum-ns":1000000000,"maximum-ns":5000000000}
{"kind":"wide-interval","percentile":0.99,"half-width":0.01,"level":0.95,"maximum-ns":5000000000}
{"kind":"limit-undecided","percentile":0.99,"queries":300,"needed-queries":368}
{"kind":"overhead-visible","query-ns":150.0,"loop-ns":33.0}
{"kind":"clock-too-coarse","query-ns":150.0,"resolution-ns":20}
{"kind":"no-steady-state","class":null,"queries":500,"elapsed-ns":3000000000}
{"kind":"drift","from-ns":1200000.0,"to-ns":1290000.0,"scatter-ns":24900.0}
{"kind":"warming-up","first-queries":200,"queries":1000,"first-ns":1520000.0,"later-ns":1010000.0}
{"kind":"slowed-down","fast-from-query":100,"slow-from-query":500,"queries":1000,"from-ns":1010000.0,"to-ns":1520000.0}
{"kind":"bimodal","fast-ratio":0.7,"fast-ns":1020000,"slow-ns":2030000}
{"kind":"stalls","every-queries":5.6,"stalled-ns":10100000.0,"typical-ns":1020000.0,"time-ratio":0.31,"clients":1,"since-begun":false}
{"kind":"returned-early","run-ns":900,"output-ns":2000000,"copy-ns":3000}
{"kind":"passes-disagree","measured-ns":3250000.0,"runs":10,"least-ns":1990000.0,"greatest-ns":2040000.0}
{"kind":"above-peak","flops-per-second":2e12,"peak-flops-per-second":1e12,"source":{"kind":"table","device":"d","publication":"p"}}
{"kind":"impossible","gap":{"kind":"not-measured","cause":"thread-panicked"}}
{"kind":"fell-back","fallback":{"requested":["Gpu"],"operators":9,"time-ns":200,"elsewhere":[{"provider":"Cpu","operators":3,"time-ns":50}],"names":["a","b","c"]}}
{"kind":"not-a-number","output":"y","nan-values":1,"values":2}
{"kind":"trivial-output","output":"y","values":8,"infinite-values":0,"constant":0.5}
{"kind":"output-written","standard-output-bytes":52000,"standard-error-bytes":7}
{"kind":"processes-left","processes":3,"running":2}
{"kind":"machine-busy","processors":4,"other-processors":2.0}
{"kind":"oversubscribed","threads":4,"clients":3,"processors":8,"spins":true}
{"kind":"preempted","times":400,"elapsed-ns":2000000000}
{"kind":"clock-slow","read-ns":431.4,"kernel-source":"xen"}
{"kind":"throttled","by":{"cause":"heat","times":3}}
{"kind":"frequency-changed","from-hertz":2000000000,"to-hertz":1500000000}
{"kind":"page-faults","mapped-pages":400000,"mapping-ratio":0.1}
{"kind":"not-as-asked","setting":"precision","asked":"fp32","used":"fp16"}
{"kind":"node-shared","node":"n7","jobs":[11]}
{"kind":"device-not-sampled","gap":{"kind":"not-measured","cause":"thread-panicked"}}
{"kind":"outputs-not-collected","obstacle":{"obstacle":"no-output"}}
{"kind":"end-failed","call":"release","code":"internal","message":"the device is gone"}
{"kind":"file-lost","file":"samples","path":"samples/1.parquet","loss":{"loss":"missing"}}
"#;

fn warnings() -> Vec<Warning> {
    let lines = WARNINGS.lines().filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn value(metric: &str, value: Option<f64>, unit: &str) -> MetricValue {
    let gap = NotMeasured::Metric { metric_message: "80 queries, and p99 needs 368".into() };
    MetricValue {
        metric: metric.into(),
        value: value.ok_or(gap.into()),
        unit: unit.into(),
        direction: Direction::Lower,
        interval: None,
        attributes: std::collections::BTreeMap::new(),
    }
}

/// Case `index` of a run: each batch size in two scenarios.
fn case(index: u32, outcome: Outcome) -> CaseResults {
    let scenario = [Scenario::SingleStream, Scenario::Offline][index as usize % 2];
    let key =
        CaseKey { batch: 1 << (index / 2), scenario, ..CaseKey::new("digits", "cpu", "cpu:0") };
    let metrics = match outcome {
        Outcome::Finished(_) => vec![
            value("latency.p50", Some(1e6 * f64::from(index + 1)), "ns"),
            value("latency.p99", (index < 4).then_some(2e6), "ns"),
            value("throughput.samples", Some(1234.5), "1/s"),
        ],
        _ => Vec::new(),
    };
    let record = CaseRecord {
        record_version: host_record::RECORD_VERSION,
        case_id: format!("{index:016x}"),
        key,
        spec: None,
        process: 0,
        started_at: String::new(),
        elapsed_ns: 1,
        outcome,
        standard_error: String::new(),
        environment: None,
        further: Vec::new(),
    };
    CaseResults { record, metrics, errors: Vec::new() }
}

fn finished(warnings: Vec<Warning>) -> Outcome {
    Outcome::Finished(Box::new(WorkerReport { warnings, ..WorkerReport::default() }))
}

/// Every kind of warning in three processes of each case.
fn troubled() -> Outcome {
    let of = |process| warnings().into_iter().map(move |it| Warning { process, ..it });
    finished((0..3).flat_map(of).collect())
}

fn summary(cases: Vec<CaseResults>) -> Summary {
    let header = serde_json::json!({
        "record-version": host_record::RECORD_VERSION,
        "run-id": "20260101T000000.000Z-made-up",
        "experiment": "made-up",
        "started-at": "2026-01-01T00:00:00.000Z",
        "host-version": "0.1.0",
        "manifest-path": "made-up.toml",
        "manifest-sha256": "",
        "plugins": [],
        "environment": host_record::Environment::default(),
    });
    let header: RunHeader = serde_json::from_value(header).expect("a header");
    let recommendation = |title: &str| Advice {
        plugin: "hardware".into(),
        recommendation: Recommendation {
            title: title.into(),
            explanation: "Batch 8: p99 latency 1.00 ms.\n1 other did not do better.".into(),
            cases: Vec::new(),
            attributes: std::collections::BTreeMap::new(),
        },
    };
    Summary(RunResults {
        header,
        cases,
        recommendations: vec![
            recommendation(
                "digits: use batch 8: highest throughput with p99 ≤ 5 ms (not certain: 2 of 3 \
                 configurations could be compared, both disturbed)",
            ),
            recommendation(
                "digits: Pareto front by p99 latency and throughput: batch 1 and batch 8",
            ),
        ],
        unreached: 0,
        finished: true,
    })
}

fn seen(summary: &Summary) -> String {
    let text = summary.human(100, Palette::new(false), false, "host results show latest");
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(100), "{text}");
    text.replace('\u{202f}', " ")
}

/// Lines of the notes: below the table and above the advice.
fn below_the_table(text: &str) -> usize {
    text.lines()
        .skip_while(|line| !line.is_empty())
        .skip(1)
        .skip_while(|line| !line.is_empty())
        .count()
}

#[test]
fn the_made_up_warnings_are_of_every_kind() {
    let kinds: BTreeSet<_> = warnings().iter().map(Warning::kind).collect();
    assert_eq!(kinds, WarningKind::ALL.iter().copied().collect());
}

#[test]
fn a_run_with_every_warning_in_every_case_is_seen_on_one_screen() {
    let summary = summary((0..6).map(|index| case(index, troubled())).collect());
    let text = seen(&summary);
    // The paths and a blank line are printed by others.
    assert!(text.lines().count() + super::PATHS <= SCREEN, "{text}");
    for kind in WarningKind::ALL {
        assert!(text.contains(kind.name()), "{kind} is missing from\n{text}");
    }
    insta::assert_snapshot!(text, @r#"
    made-up · digits · cpu · cpu:0 · fp32

    batch  scenario        p50   p99  throughput  !
        1  single-stream  1 ms  2 ms      1234/s  invalid 35
        1  offline        2 ms  2 ms      1234/s  invalid 35
        2  single-stream  3 ms  2 ms      1234/s  invalid 35
        2  offline        4 ms  2 ms      1234/s  invalid 35
        4  single-stream  5 ms   gap      1234/s  invalid 35
        4  offline        6 ms   gap      1234/s  invalid 35

    gap  p99 (2 cases): 80 queries, and p99 needs 368
    invalid  6 cases: 9 of 100 queries exceeded the latency limit; at most 1 may
    warning  simulated (6 cases): the times are not those of real hardware: the device is made of soft …
    warning  few-samples (6 cases): 9 queries in 500 ms, instead of at least 100 in at least 1 s; rais …
    warning  wide-interval (6 cases): the 95 % interval of p99 is wider than ±1 %; raise `maximum-dura …
    warning  limit-undecided (6 cases): 300 queries are too few to decide whether p99 is within the li …
    warning  overhead-visible (6 cases): the measuring loop adds 33 ns to a query of 150 ns (22 %)
    warning  clock-too-coarse (6 cases): a query takes 150 ns, but the clock's resolution is only 20 ns
    warning  no-steady-state (6 cases): no steady state after a warm-up of 500 queries in 3 s (too few …
    and drift (6 cases), warming-up (6 cases), slowed-down (6 cases), bimodal (6 cases), stalls (6
    cases), returned-early (6 cases), passes-disagree (6 cases), above-peak (6 cases), impossible (6
    cases), fell-back (6 cases), not-a-number (6 cases), trivial-output (6 cases), output-written (6
    cases), processes-left (6 cases), machine-busy (6 cases), oversubscribed (6 cases), preempted (6
    cases), clock-slow (6 cases), throttled (6 cases), frequency-changed (6 cases), page-faults (6
    cases), not-as-asked (6 cases), node-shared (6 cases), device-not-sampled (6 cases),
    outputs-not-collected (6 cases), end-failed (6 cases), file-lost (6 cases)

    hardware: digits: use batch 8: highest throughput with p99 ≤ 5 ms (not certain: 2 of 3
    configurations could be compared, both disturbed)
    hardware: digits: Pareto front by p99 latency and throughput: batch 1 and batch 8

    6 measured
    every warning, failure and gap in full: host results show latest --warnings
    why this advice: host results show latest --advice
    "#);
}

#[test]
fn a_few_warnings_are_shown_whole_with_the_worst_of_each() {
    let drift = |process, to_ns| Warning {
        process,
        ..host_record::Doubt::Drift { from_ns: 1.2e6, to_ns, scatter_ns: 24_900.0 }.into()
    };
    let outcomes = [vec![drift(0, 1.3e6), drift(1, 1.5e6)], vec![drift(0, 0.4e6)], Vec::new()];
    let cases = (0..).zip(outcomes).map(|(index, warnings)| case(index, finished(warnings)));
    insta::assert_snapshot!(seen(&summary(cases.collect())), @r"
    made-up · digits · cpu · cpu:0 · fp32

    batch  scenario        p50   p99  throughput  warnings
        1  single-stream  1 ms  2 ms      1234/s  drift
        1  offline        2 ms  2 ms      1234/s  drift
        2  single-stream  3 ms  2 ms      1234/s

    warning  drift in 2 of 3 cases; worst: batch 1 · offline
      p50 fell 67 % (1.200 → 0.400 ms) from the first to the last third of the queries; scatter within a
      third: 24.9 µs

    hardware: digits: use batch 8: highest throughput with p99 ≤ 5 ms (not certain: 2 of 3
    configurations could be compared, both disturbed)
    hardware: digits: Pareto front by p99 latency and throughput: batch 1 and batch 8

    3 measured
    every warning, failure and gap in full: host results show latest --warnings
    why this advice: host results show latest --advice
    ");
}

#[test]
fn a_calm_run_names_no_warnings() {
    let text = seen(&summary(vec![case(0, finished(Vec::new()))]));
    assert!(!text.contains("--warnings") && text.contains("--advice"), "{text}");
}

#[test]
fn a_run_where_everything_fails_is_seen_on_one_screen() {
    let failed = |index: u32| Outcome::Failed {
        failure: match index % 3 {
            0 => Failure::Signal {
                signal: 11,
                name: "SIGSEGV".into(),
                phase: Phase::Measure,
                said: String::new(),
            },
            // Words that differ in every case, and are long.
            1 => Failure::Input { detail: format!("{index}: {}", "a long reason ".repeat(40)) },
            _ => Failure::Input { detail: "the file is empty".into() },
        },
    };
    let text = seen(&summary((0..36).map(|index| case(index, failed(index))).collect()));
    assert!(text.lines().count() + super::PATHS <= SCREEN, "{text}");
    insta::assert_snapshot!(text, @r"
    made-up · digits · cpu · cpu:0 · fp32

    failed  12 cases: batch 1 · single-stream; batch 2 · offline; batch 8 · single-stream; and 9 more
      the worker was killed by signal 11 (SIGSEGV) in phase measure
    failed  batch 1 · offline
      input: 1: a long reason a long reason a long reason a long reason a long reason a long reason a
      long reason a long reason a long reason a long reason a long reason a long reason a long reason a
      long reason a long reason a long reason a long reason a long reason a long reason a long reason a
      long reason a long reason a long reason a long reason a long reason a long reason a long reason a
      long reason a long reason a long reason a long reason a long reason a long reason a long reason a
      long reason a long reason a long reason a long reason a long reason a long reason
    failed  12 cases: batch 2 · single-stream; batch 4 · offline; batch 16 · single-stream; and 9 more
      input: the file is empty
    failed  batch 4 · single-stream: input: 4: a long reaso … a long reason a long reason a long reason
    failed  batch 8 · offline: input: 7: a long reason … ason a long reason a long reason a long reason
    failed  batch 32 · single-stream: input: 10: a long reas … a long reason a long reason a long reason
    failed  batch 64 · offline: input: 13: a long reason … son a long reason a long reason a long reason
    failed  batch 256 · single-stream: input: 16: a long rea … a long reason a long reason a long reason
    failed  batch 512 · offline: input: 19: a long reaso … son a long reason a long reason a long reason
    failed  batch 2048 · single-stream: input: 22: a long rea … long reason a long reason a long reason
    failed  batch 4096 · offline: input: 25: a long reaso … on a long reason a long reason a long reason
    failed  batch 16384 · single-stream: input: 28: a long rea … long reason a long reason a long reason
    failed  batch 32768 · offline: input: 31: a long reaso … n a long reason a long reason a long reason
    failed  batch 131072 · single-stream: input: 34: a long re … long reason a long reason a long reason

    hardware: digits: use batch 8: highest throughput with p99 ≤ 5 ms (not certain: 2 of 3
    configurations could be compared, both disturbed)
    hardware: digits: Pareto front by p99 latency and throughput: batch 1 and batch 8

    0 measured, 36 failed
    every warning, failure and gap in full: host results show latest --warnings
    why this advice: host results show latest --advice
    ");
}

#[test]
fn the_command_for_more_is_named_if_cases_are_only_counted() {
    let failed =
        || Outcome::Failed { failure: Failure::Input { detail: "the file is empty".into() } };
    let of = |cases| seen(&summary((0..cases).map(|index| case(index, failed())).collect()));
    assert!(!of(2).contains("--warnings"), "{}", of(2));
    assert!(of(12).contains("more\n") && of(12).contains("--warnings"), "{}", of(12));
}

#[test]
fn below_a_long_table_little_is_said() {
    let text = seen(&summary((0..60).map(|index| case(index, troubled())).collect()));
    assert!(text.lines().count() > 60);
    assert!(below_the_table(&text) <= 20, "{text}");
}

#[test]
fn the_evidence_is_every_warning_with_its_figures() {
    let mut cases: Vec<_> = (0..6).map(|index| case(index, troubled())).collect();
    let failure = Failure::Input { detail: "the file is empty".into() };
    cases.push(case(6, Outcome::Failed { failure: failure.clone() }));
    cases[0].errors.push(("mine".into(), "a trap".into()));
    let text = summary(cases).evidence(100, Palette::new(false)).replace('\u{202f}', " ");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let words: Vec<_> = text.split_whitespace().collect();
    let words = words.join(" ");
    for warning in warnings() {
        let whole = warning.to_string().replace('\u{202f}', " ");
        assert_eq!(words.matches(&whole).count(), 6 * 3, "{whole} in\n{text}");
    }
    for said in [&*failure.to_string(), "metric `mine`: a trap", "latency.p99: 80 queries"] {
        assert!(words.contains(said), "{said} in\n{text}");
    }
    let first: Vec<_> = text.lines().take(12).collect();
    insta::assert_snapshot!(first.join("\n"), @r"
    batch 1 · single-stream
      no value  metric `mine`: a trap
      invalid  9 of 100 queries exceeded the latency limit; at most 1 may
      warning  simulated: the times are not those of real hardware: the device is made of software
      warning  few-samples: 9 queries in 500 ms, instead of at least 100 in at least 1 s; raise
        `maximum-duration` (5 s)
      warning  wide-interval: the 95 % interval of p99 is wider than ±1 %; raise `maximum-duration` (5
        s)
      warning  limit-undecided: 300 queries are too few to decide whether p99 is within the limit; it
        takes 368
      warning  overhead-visible: the measuring loop adds 33 ns to a query of 150 ns (22 %)
      warning  clock-too-coarse: a query takes 150 ns, but the clock's resolution is only 20 ns
    ");
}

#[test]
fn the_advice_is_explained() {
    let text = summary(Vec::new()).advice(100, Palette::new(false));
    insta::assert_snapshot!(text, @r"
    hardware: digits: use batch 8: highest throughput with p99 ≤ 5 ms (not certain: 2 of 3
    configurations could be compared, both disturbed)
      Batch 8: p99 latency 1.00 ms.
      1 other did not do better.

    hardware: digits: Pareto front by p99 latency and throughput: batch 1 and batch 8
      Batch 8: p99 latency 1.00 ms.
      1 other did not do better.
    ");
}

#[test]
fn what_no_device_counts_has_no_column_and_what_one_counts_has() {
    let (gap, counted) = (value("any", None, "B"), value("any", Some(1.0), "B"));
    let of_device = Shown::at(1, 1).if_measured();
    assert!(!has_column(of_device, [&gap, &gap].into_iter()));
    assert!(has_column(of_device, [&gap, &counted].into_iter()));
    let of_all = Shown::at(1, 1);
    assert!(has_column(of_all, [&gap].into_iter()), "why is in the reports");
    assert!(!has_column(of_all, [].into_iter()));
}
