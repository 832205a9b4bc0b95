//! Advice on the next measurement, on made-up runs.

use plugin_guest::{ActiveRecommender, Grant, RecordingHost};
use report_common::Scenario;
use report_common::host_record::Precision;
use report_common::made_up::{self, Shape, Tables};

use super::*;

/// A run of these batches with these throughputs.
fn run(throughputs: &[(u32, f64)]) -> Tables {
    let batches: Vec<u32> = throughputs.iter().map(|(batch, _)| *batch).collect();
    let mut tables = made_up::tables(&Shape {
        models: &["digits"],
        backends: &["cpu"],
        precisions: &[Precision::Fp32],
        batches: &batches,
        scenarios: &[Scenario::Offline],
        troubled: false,
    });
    for (place, (_, throughput)) in throughputs.iter().enumerate() {
        made_up::set_value(
            &mut tables,
            place as u64,
            "throughput.samples",
            Some(*throughput),
            None,
        );
    }
    tables
}

fn advise(tables: Tables, options: &str, cases: u32) -> (Vec<Recommendation>, RecordingHost) {
    let grant = Grant { cases, seconds: 60.0 };
    let mut host = RecordingHost { tables, grant, ..RecordingHost::default() };
    let options = serde_json::from_str(options).expect("options");
    let advice = NextExperiment::recommend(&mut host, options).expect("advice");
    (advice, host)
}

/// Throughput that grows with the batch towards 1,000 samples for each second.
fn growing(batches: &[u32]) -> Vec<(u32, f64)> {
    batches
        .iter()
        .map(|batch| (*batch, 1000.0 * f64::from(*batch) / (f64::from(*batch) + 8.0)))
        .collect()
}

#[test]
fn a_throughput_that_still_grows_asks_for_a_larger_batch() {
    let (advice, host) = advise(run(&growing(&[1, 2, 4, 8, 16])), "{}", 3);
    assert_eq!(host.wishes[0].changes, [("batch".to_owned(), "32".to_owned())]);
    let last = advice.last().expect("advice");
    insta::assert_snapshot!(
        format!("{}\n{}", last.title, last.explanation).replace('\u{202f}', " "),
        @r"
        digits · inference · offline: measure digits · cpu · cpu:0 · fp32 · batch 32 · offline next: 100 % chance to be better than the best known, by 20.0 % in expectation
        digits · cpu · cpu:0 · fp32 · batch 32 · offline: 100 % chance to be better than the best known, 20.00 % in expectation, beyond the measured batches.
        The best known: digits · cpu · cpu:0 · fp32 · batch 16 · offline, 667/s. These figures rank what to measure; they are guesses, and not predictions.
        "
    );
}

#[test]
fn the_search_ends_when_little_is_to_be_gained() {
    let mut batches = vec![1, 2, 4, 8, 16];
    for _ in 0..20 {
        let (_, host) = advise(run(&growing(&batches)), r#"{ "least-gain": 0.05 }"#, 3);
        let Some(wish) = host.wishes.first() else { break };
        batches.push(wish.changes[0].1.parse().expect("a batch"));
        batches.sort_unstable();
    }
    // From 128 to 256 the throughput grows by 3 %.
    assert_eq!(batches, [1, 2, 4, 8, 16, 32, 64, 128]);
}

#[test]
fn two_that_cannot_be_told_apart_need_more_processes() {
    let mut tables = run(&[(8, 500.0), (16, 510.0)]);
    for (case, values) in [(0, [480.0, 500.0, 520.0]), (1, [490.0, 510.0, 530.0])] {
        made_up::set_processes(&mut tables, case, "throughput.samples", &values);
    }
    let (advice, _) = advise(tables, "{}", 0);
    insta::assert_snapshot!(
        format!("{}\n{}", advice[0].title, advice[0].explanation).replace('\u{202f}', " "),
        @r"
        digits · inference · offline: the two best cannot be told apart: measure digits · cpu · cpu:0 · fp32 · batch 16 · offline and digits · cpu · cpu:0 · fp32 · batch 8 · offline in more processes
        12 processes of both would tell a difference of 5 % in 80 % of such runs.
        "
    );
}

#[test]
fn a_limit_that_nothing_meets_is_one_clear_answer() {
    let mut tables = run(&growing(&[1, 8]));
    for case in [0, 1] {
        made_up::set_value(&mut tables, case, "latency.p99", Some(5e6), None);
    }
    let limit = r#"{ "limits": [{ "metric": "latency.p99", "at-most": "1ms" }] }"#;
    let (advice, host) = advise(tables, limit, 3);
    assert!(host.wishes.is_empty());
    insta::assert_snapshot!(
        advice[0].title,
        @"digits · inference · offline: nothing measured keeps the limits: try smaller batches, or other hardware"
    );
}

#[test]
fn the_expected_improvement_is_that_of_a_normal_distribution() {
    // At the best itself: half a chance, and σ / √(2 π).
    let (gain, chance) = improvement(0.0, 0.1);
    assert!(
        (chance - 0.5).abs() < 1e-12 && (gain - 0.1 * 0.398_942_28).abs() < 1e-8,
        "{gain} {chance}"
    );
    let (gain, chance) = improvement(1.0, 0.01);
    assert!((gain - 1.0).abs() < 1e-9 && chance > 0.999_999);
    assert!(improvement(-1.0, 0.1).0 < 1e-12);
}

#[test]
fn only_latencies_can_be_limited() {
    let mut host = RecordingHost::default();
    let options = r#"{ "limits": [{ "metric": "memory.peak", "at-most": 1 }] }"#;
    let options = serde_json::from_str(options).expect("options");
    let error = NextExperiment::recommend(&mut host, options).expect_err("no latency").to_string();
    assert_eq!(
        error,
        "options: limits: `memory.peak`: only latencies can be limited, by `at-most`"
    );
}
