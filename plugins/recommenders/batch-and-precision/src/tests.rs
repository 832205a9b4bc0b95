//! Searches on made-up runs, as the host would lead them.

use plugin_guest::{ActiveRecommender, Grant, RecordingHost};
use report_common::host_record::{Asked, Failure, Phase, Precision};
use report_common::made_up::{self, Shape, Tables};
use report_common::{Outcome, Scenario};

use super::*;

const MEGABYTE: f64 = 1e6;

/// Memory of a batch: 100 MB, and 10 MB for each example.
fn memory(batch: u32) -> f64 {
    100.0 * MEGABYTE + 10.0 * MEGABYTE * f64::from(batch)
}

/// A run of these batches in these precisions.
fn run(batches: &[u32], precisions: &[Precision]) -> Tables {
    let mut tables = made_up::tables(&Shape {
        models: &["digits"],
        backends: &["cpu"],
        precisions,
        batches,
        scenarios: &[Scenario::Offline],
        troubled: false,
    });
    for precision in 0..precisions.len() {
        for (place, batch) in batches.iter().enumerate() {
            let index = (precision * batches.len() + place) as u64;
            made_up::set_value(&mut tables, index, "memory.peak", Some(memory(*batch)), None);
        }
    }
    tables
}

fn options(text: &str) -> Options {
    serde_json::from_str(text).expect("options")
}

fn host(tables: Tables, cases: u32) -> RecordingHost {
    let grant = Grant { cases, seconds: 60.0 };
    RecordingHost { tables, grant, ..RecordingHost::default() }
}

fn advise(host: &mut RecordingHost, options: &str) -> Vec<Recommendation> {
    BatchAndPrecision::recommend(host, self::options(options)).expect("advice")
}

/// Leads a search from these batches, as the host does, and returns the advice and all batches.
fn search(batches: &[u32], options: &str, granted: u32) -> (Recommendation, Vec<u32>) {
    let mut batches = batches.to_vec();
    let planned = batches.len();
    loop {
        let mut tables = run(&batches, &[Precision::Fp32]);
        for place in planned..batches.len() {
            made_up::change_case(&mut tables, place as u64, |record| {
                let asked = Asked { by: "batch-and-precision".into(), reason: "to know".into() };
                record.spec.as_mut().expect("a case").asked = Some(asked);
            });
        }
        let used = (batches.len() - planned) as u32;
        let mut host = host(tables, granted - used);
        let advice = advise(&mut host, options).remove(0);
        let [wish] = &host.wishes[..] else { return (advice, batches) };
        batches.push(wish.changes[0].1.parse().expect("a batch"));
        assert_eq!(wish.changes[0].0, "batch");
    }
}

const LIMIT: &str = r#""limits": [{ "metric": "memory.peak", "at-most": "1000000000 B" }]"#;

#[test]
fn the_largest_batch_is_found_by_real_runs() {
    // 1 GB holds (1000 - 100) / 10 = 90 examples.
    let (advice, batches) = search(&[1, 4], &format!("{{ {LIMIT}, \"resolution\": 0.001 }}"), 30);
    assert_eq!(advice.attributes["batch"], "90");
    assert_eq!(batches, [1, 4, 8, 16, 32, 64, 128, 96, 80, 88, 92, 90, 91]);
    insta::assert_snapshot!(
        advice.title.replace('\u{202f}', " "),
        @"digits · cpu · cpu:0 · fp32 · inference · offline: batch 90 is the largest within memory.peak ≤ 954 MiB"
    );
    insta::assert_snapshot!(
        advice.explanation.replace('\u{202f}', " "),
        @r"
        Batch 90: memory.peak 954 MiB, throughput.samples 11 488/s.
        Batch 91 does not fit: memory.peak is 963 MiB.
        Measured for this search, beyond the matrix: batch 8, 16, 32, 64, 80, 88, 90, 91, 92, 96, 128.
        "
    );
    // A coarser search takes fewer runs and stays below the limit.
    let (advice, batches) = search(&[1, 4], &format!("{{ {LIMIT} }}"), 30);
    let found: u32 = advice.attributes["batch"].parse().expect("a batch");
    assert!((86..=90).contains(&found) && batches.len() < 13, "{found} {batches:?}");
}

#[test]
fn a_search_ends_with_its_grant_and_says_what_it_would_ask_for() {
    let (advice, batches) = search(&[1, 4], &format!("{{ {LIMIT} }}"), 3);
    assert_eq!(batches, [1, 4, 8, 16, 32]);
    insta::assert_snapshot!(
        advice.title.replace('\u{202f}', " "),
        @"digits · cpu · cpu:0 · fp32 · inference · offline: the largest batch is at least 32 within memory.peak ≤ 954 MiB"
    );
    insta::assert_snapshot!(
        advice.explanation.replace('\u{202f}', " "),
        @r"
        Batch 32: memory.peak 401 MiB, throughput.samples 10 702/s.
        Measured for this search, beyond the matrix: batch 8, 16, 32.
        Batch 64 would tell more: nothing is left of the grant.
        "
    );
}

#[test]
fn a_limit_below_the_model_is_one_clear_answer() {
    let low = r#"{ "limits": [{ "metric": "memory.peak", "at-most": "50000000 B" }] }"#;
    let (advice, batches) = search(&[8], low, 30);
    assert_eq!(batches, [8, 4, 2, 1]);
    assert_eq!(advice.attributes["kind"], "nothing-fits");
    insta::assert_snapshot!(
        format!("{}\n{}", advice.title, advice.explanation).replace('\u{202f}', " "),
        @r"
        digits · cpu · cpu:0 · fp32 · inference · offline: nothing fits within memory.peak ≤ 47.7 MiB, not even batch 1
        Batch 1 does not fit: memory.peak is 105 MiB.
        Measured for this search, beyond the matrix: batch 1, 2, 4.
        The model itself, its engine and one example are beyond the limit: a smaller model, a smaller precision or a higher limit would help.
        "
    );
}

#[test]
fn out_of_memory_is_too_large_and_a_crash_says_nothing() {
    let failed = |failure: Failure| {
        let mut tables = run(&[16, 32], &[Precision::Fp32]);
        made_up::change_case(&mut tables, 1, |record| {
            record.outcome = Outcome::Failed { failure: failure.clone() };
        });
        let mut host = host(tables, 5);
        let advice = advise(&mut host, &format!("{{ {LIMIT} }}")).remove(0);
        (advice, host.wishes)
    };
    let out_of_memory = Failure::OutOfMemory {
        phase: Phase::Load,
        limit_bytes: Some(1),
        peak_bytes: None,
        detail: "it was killed".into(),
    };
    let (advice, wishes) = failed(out_of_memory);
    assert_eq!(wishes[0].changes, [("batch".to_owned(), "24".to_owned())], "{advice:?}");
    let (advice, wishes) = failed(Failure::ExitCode { code: 1, phase: Phase::Load });
    assert!(wishes.is_empty() && advice.attributes["kind"] == "unknown-batch", "{advice:?}");
    insta::assert_snapshot!(
        format!("{}\n{}", advice.title, advice.explanation).replace('\u{202f}', " "),
        @r"
        digits · cpu · cpu:0 · fp32 · inference · offline: batch 16 fits, and larger ones are not known within memory.peak ≤ 954 MiB
        Batch 16: memory.peak 248 MiB, throughput.samples 10 887/s.
        The search ended: the worker exited with code 1 in phase load.
        "
    );
}

/// If even the smallest planned batch ran out of memory there is no metric at all.
#[test]
fn a_run_in_which_nothing_fits_is_searched_downwards() {
    let mut tables = run(&[16], &[Precision::Fp32]);
    made_up::change_case(&mut tables, 0, |record| {
        record.outcome = Outcome::Failed {
            failure: Failure::OutOfMemory {
                phase: Phase::Load,
                limit_bytes: Some(1),
                peak_bytes: None,
                detail: "it was killed".into(),
            },
        };
    });
    tables.get_mut("results").expect("results").rows.clear();
    let mut host = host(tables, 5);
    let advice = advise(&mut host, &format!("{{ {LIMIT} }}")).remove(0);
    assert_eq!(host.wishes[0].changes, [("batch".to_owned(), "8".to_owned())], "{advice:?}");
    assert!(advice.title.contains("below 16 within memory.peak"), "{}", advice.title);
}

/// Sets the accuracy of a case, by whether each example is right.
fn set_accuracy(tables: &mut Tables, case: u64, right: &[bool]) {
    let part = right.iter().filter(|right| **right).count() as f64 / right.len() as f64;
    made_up::set_value(tables, case, "accuracy.top1", Some(part), None);
    let table = tables.get_mut("results").expect("results");
    let place = table.columns.iter().position(|column| column == "attributes").expect("a column");
    let id = plugin_guest::Cell::Text(made_up::case_id(case));
    let is_it = |row: &&mut Vec<plugin_guest::Cell>| {
        row[0] == id && row[1] == plugin_guest::Cell::Text("accuracy.top1".into())
    };
    let row = table.rows.iter_mut().find(is_it).expect("the accuracy");
    let outcomes = host_statistics::outcomes_text(right.iter().copied());
    row[place] = plugin_guest::Cell::Text(format!(
        r#"{{"examples":"{}","outcomes":"{outcomes}","labels-hash":"1"}}"#,
        right.len()
    ));
}

#[test]
fn the_cheapest_precision_that_is_accurate_enough_is_chosen() {
    let precisions = [Precision::Fp32, Precision::Int8];
    let mut tables = run(&[8], &precisions);
    made_up::set_value(&mut tables, 0, "throughput.samples", Some(100.0), None);
    made_up::set_value(&mut tables, 1, "throughput.samples", Some(300.0), None);
    // int8 alone has four wrong, and one right.
    let reference: Vec<bool> = (0..1000).map(|example| example % 20 != 0).collect();
    let mut other = reference.clone();
    for example in [1, 2, 3, 4] {
        other[example] = false;
    }
    other[0] = true;
    set_accuracy(&mut tables, 0, &reference);
    set_accuracy(&mut tables, 1, &other);
    let cheapest = |within: f64| {
        let mut host = host(tables.clone(), 0);
        advise(&mut host, &format!("{{ \"accuracy-within\": {within} }}")).remove(0)
    };
    let found = cheapest(0.02);
    assert_eq!(found.attributes["precision"], "int8");
    insta::assert_snapshot!(
        format!("{}\n{}", found.title, found.explanation).replace('\u{202f}', " "),
        @r"
        digits · cpu · cpu:0 · batch 8 · inference · offline: int8 has the highest throughput of the precisions whose accuracy is within 2.00 % of the best
        int8: accuracy 94.70 %, throughput 300/s, -0.30 % against the most accurate (-0.82 % to 0.22 % at 95 %; of 1000 examples it alone has 1 right and 4 wrong, McNemar's p = 0.375).
        fp32: accuracy 95.00 %, throughput 100/s, the most accurate.
        "
    );
    assert!(found.attributes["check"].ends_with("--between precision=fp32,int8`"), "{found:?}");
    // 0.3 points are within 0.5, and other examples may show more.
    let found = cheapest(0.005);
    assert!(found.title.contains("int8") && found.title.contains("not certain"), "{}", found.title);
    assert_eq!(cheapest(0.001).attributes["precision"], "fp32");
}

#[test]
fn precisions_that_were_not_measured_are_asked_for() {
    let mut host = host(run(&[8], &[Precision::Fp32]), 5);
    let wanted = r#"{ "accuracy-within": 0.01, "precisions": ["fp32", "fp16", "int8"] }"#;
    advise(&mut host, wanted);
    let asked: Vec<&str> = host.wishes.iter().map(|wish| &*wish.changes[0].1).collect();
    assert_eq!(asked, ["fp16", "int8"]);
}

#[test]
fn options_that_make_no_sense_are_refused_before_a_view_is_read() {
    let mut host = RecordingHost::default();
    for (text, says) in [
        (r#"{ "resolution": 0 }"#, "`resolution` lies between 0 and 1"),
        (r#"{ "up-to": 0 }"#, "`up-to` is a batch of at least 1"),
        (r#"{ "accuracy-within": 2 }"#, "`accuracy-within` is a part"),
        (r#"{ "limits": [{ "metric": "memory.peak" }] }"#, "needs one of"),
    ] {
        let error = BatchAndPrecision::recommend(&mut host, options(text)).expect_err(text);
        assert!(error.to_string().contains(says), "{text}: {error}");
    }
}
