//! Predictions for made-up runs whose times follow a line.

use plugin_guest::{ActiveRecommender, RecordingHost};
use report_common::Scenario;
use report_common::host_record::Precision;
use report_common::made_up::{self, Shape, Tables};

use super::*;

const BATCHES: [u32; 5] = [1, 2, 4, 16, 32];

/// Seconds of a batch: an overhead, and a slope that depends on the model.
fn seconds(model: usize, batch: u32) -> f64 {
    1e-3 + 1e-4 * (model as f64 + 1.0) * f64::from(batch)
}

fn tables(models: &[&str]) -> Tables {
    let mut tables = made_up::tables(&Shape {
        models,
        backends: &["cpu"],
        precisions: &[Precision::Fp32],
        batches: &BATCHES,
        scenarios: &[Scenario::SingleStream],
        troubled: false,
    });
    for model in 0..models.len() {
        for (place, batch) in BATCHES.iter().enumerate() {
            let index = (model * BATCHES.len() + place) as u64;
            let latency = seconds(model, *batch) * 1e9;
            made_up::set_value(&mut tables, index, "latency.p50", Some(latency), None);
        }
    }
    tables
}

fn advise(tables: Tables, options: &str) -> (Vec<Recommendation>, Vec<Prediction>) {
    let mut host = RecordingHost { tables, ..RecordingHost::default() };
    let options = serde_json::from_str(options).expect("options");
    let advice = Predict::recommend(&mut host, options).expect("advice");
    (advice, host.predictions)
}

#[test]
fn powers_of_two_between_measured_batches_are_predicted() {
    let (advice, predictions) = advise(tables(&["a", "b", "c"]), "{}");
    let batches: Vec<_> = predictions.iter().map(|one| &*one.coordinates["batch"]).collect();
    assert_eq!(batches, ["8", "8", "8"]);
    for (model, one) in predictions.iter().enumerate() {
        let expected = seconds(model, 8) * 1e9;
        assert!((one.value / expected - 1.0).abs() < 1e-6, "{one:?}");
        assert!(one.interval.0 <= one.value && one.value <= one.interval.1);
        assert_eq!((&*one.metric, &*one.unit, one.confidence), ("latency.p50", "ns", 0.9));
        assert_eq!(one.cases.len(), 5);
    }
    insta::assert_snapshot!(
        format!("{}\n{}", advice[0].title, advice[0].explanation).replace('\u{202f}', " "),
        @r"
        3 configurations predicted without measuring; median error where it could be checked: between measured batches 0.0 %
        a · cpu · cpu:0 · fp32 · batch 8 · single-stream: latency.p50 1.80 ms (1.80 ms to 1.80 ms)
        b · cpu · cpu:0 · fp32 · batch 8 · single-stream: latency.p50 2.60 ms (2.60 ms to 2.60 ms)
        c · cpu · cpu:0 · fp32 · batch 8 · single-stream: latency.p50 3.40 ms (3.40 ms to 3.40 ms)
        Predicted, and not measured. 90 % of such measurements lie in such intervals, if the configurations are like the measured ones.
        a · cpu · cpu:0 · fp32 · inference · single-stream: 3 cases, each left out in turn, were predicted within 0.0 % in the median, 0.0 % at most.
        b · cpu · cpu:0 · fp32 · inference · single-stream: 3 cases, each left out in turn, were predicted within 0.0 % in the median, 0.0 % at most.
        c · cpu · cpu:0 · fp32 · inference · single-stream: 3 cases, each left out in turn, were predicted within 0.0 % in the median, 0.0 % at most.
        "
    );
    assert_eq!(advice.len(), 1);
}

#[test]
fn what_is_refused_has_a_reason() {
    let (advice, predictions) =
        advise(tables(&["a"]), r#"{ "at": [{ "batch": 8 }, { "batch": 64 }] }"#);
    assert!(predictions.is_empty());
    insta::assert_snapshot!(
        format!("{}\n{}", advice[0].title, advice[0].explanation).replace('\u{202f}', " "),
        @r"
        2 configurations not predicted
        a · cpu · cpu:0 · fp32 · batch 8 · single-stream: an interval needs 9 cases with a smaller and a larger batch beside them, and the run has 3.
        a · cpu · cpu:0 · fp32 · batch 64 · single-stream: beyond the measured batches, which go from 1 to 32: nothing shows what happens there.
        "
    );
    let (advice, _) = advise(tables(&["a", "b", "c"]), r#"{ "at": [{ "precision": "fp16" }] }"#);
    assert_eq!(advice[0].attributes["kind"], "not-predicted");
}

#[test]
fn options_that_make_no_sense_are_refused_before_a_view_is_read() {
    let mut host = RecordingHost::default();
    for (text, says) in [
        (r#"{ "confidence": 1.5 }"#, "`confidence` lies between 0 and 1"),
        (r#"{ "at": [{ "colour": "red" }] }"#, "is none of"),
        (r#"{ "at": [{ "batch": 0 }] }"#, "at: batch: a count is"),
        (
            r#"{ "peaks": [{ "device": "d", "precision": "fp32", "flops-per-second": 0, "bytes-per-second": 1 }] }"#,
            "peaks of `d` are above zero",
        ),
    ] {
        let options = serde_json::from_str(text).expect(text);
        let error = Predict::recommend(&mut host, options).expect_err(text).to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
}
