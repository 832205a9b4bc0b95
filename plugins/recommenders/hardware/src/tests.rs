//! The advice on made-up runs, word for word, and the laws that it keeps.

use host_statistics::{Random, normal_quantile};
use plugin_guest::{Cell, Recommendation, Recommender};
use proptest::prelude::*;
use report_common::host_record::{Breach, Doubt, Phase, Precision, Verdict};
use report_common::made_up::{self, COMPARISON, QUICKSTART, SINGLE, Shape, Tables};
use report_common::{Order, Scenario};

use crate::{Hardware, LimitOption, Options, Quantity};

const SINGLE_STREAM: [u64; 3] = [0, 2, 4];
const OFFLINE: [u64; 3] = [1, 3, 5];

/// The quickstart's three configurations, with these figures: p99 with its interval in
/// milliseconds, and offline throughput.
fn three(figures: [(f64, (f64, f64), f64); 3]) -> Tables {
    let mut tables = made_up::tables(&QUICKSTART);
    for (position, (p99, (low, high), throughput)) in figures.into_iter().enumerate() {
        let nanoseconds = |milliseconds: f64| milliseconds * 1e6;
        let interval = Some((nanoseconds(low), nanoseconds(high)));
        let (single, offline) = (SINGLE_STREAM[position], OFFLINE[position]);
        made_up::set_value(&mut tables, single, "latency.p99", Some(nanoseconds(p99)), interval);
        made_up::set_value(&mut tables, single, "throughput.samples", Some(throughput * 0.8), None);
        made_up::set_value(&mut tables, offline, "throughput.samples", Some(throughput), None);
        for case in [single, offline] {
            made_up::set_value(&mut tables, case, "memory.peak", Some(4e7), None);
        }
    }
    tables
}

/// Returns the same run of three processes, which differ by a thousandth.
fn several(tables: &Tables) -> Tables {
    let mut tables = tables.clone();
    for case in SINGLE_STREAM.into_iter().chain(OFFLINE) {
        for metric in ["latency.p99", "throughput.samples", "memory.peak"] {
            let id = Cell::Text(made_up::case_id(case));
            let of = |row: &&Vec<Cell>| row[0] == id && row[1] == Cell::Text(metric.to_owned());
            let found = tables["results"].rows.iter().find(of).map(|row| row[2].clone());
            if let Some(Cell::Real(value)) = found {
                let values = [0.999, 1.0, 1.001].map(|factor| factor * value);
                made_up::set_processes(&mut tables, case, metric, &values);
            }
        }
    }
    tables
}

fn at_most(metric: &str, quantity: &str) -> Options {
    let at_most = Some(Quantity::Text(quantity.to_owned()));
    let limit = LimitOption { metric: metric.to_owned(), at_most, at_least: None };
    Options { limits: vec![limit], ..Options::default() }
}

fn advice(tables: &Tables, options: Options) -> Vec<Recommendation> {
    Hardware::recommend(tables, options).expect("advice")
}

/// Returns the text for a reader, without the spaces that keep numbers and units together.
fn text(advice: &[Recommendation]) -> String {
    let lines = advice.iter().map(|advice| {
        format!("# {}\n{}\n[{}]", advice.title, advice.explanation, advice.cases.join(" "))
    });
    lines.collect::<Vec<_>>().join("\n").replace('\u{202f}', " ")
}

#[test]
fn the_best_within_a_limit_is_named() {
    let tables = three([
        (0.12, (0.11, 0.13), 8_000.0),
        (1.0, (0.9, 1.1), 11_000.0),
        (6.4, (6.2, 6.6), 13_000.0),
    ]);
    insta::assert_snapshot!(text(&advice(&tables, at_most("latency.p99", "5ms"))), @r"
    # digits: use batch 8: highest throughput with p99 ≤ 5 ms (not certain: no figures of several processes)
    Batch 8: p99 latency 1.00 ms (0.900 to 1.10 ms), throughput 8800/s single-stream, 11 000/s offline, peak memory 38.1 MiB, accuracy 97.66 % (97.23 to 98.05 %).
    1 other configuration within the limits did not do better.
    [5eed000000000002 5eed000000000003]
    # digits: Pareto front by p99 latency and throughput: batch 1, batch 8 and batch 64
    Nothing beats one of these without a loss elsewhere, by p99 latency and throughput, and by peak memory and accuracy where it differs clearly; no other configuration is dominated.
    Batch 1: p99 latency 120 µs (110 to 130 µs), throughput 6400/s single-stream, 8000/s offline, peak memory 38.1 MiB, accuracy 97.66 % (97.23 to 98.05 %). Within the limits.
    Batch 8: p99 latency 1.00 ms (0.900 to 1.10 ms), throughput 8800/s single-stream, 11 000/s offline, peak memory 38.1 MiB, accuracy 97.66 % (97.23 to 98.05 %). Within the limits.
    Batch 64: p99 latency 6.40 ms (6.20 to 6.60 ms), throughput 10 400/s single-stream, 13 000/s offline, peak memory 38.1 MiB, accuracy 97.66 % (97.23 to 98.05 %). Outside the limits.
    [5eed000000000000 5eed000000000001 5eed000000000002 5eed000000000003 5eed000000000004 5eed000000000005]
    ");
}

#[test]
fn a_limit_inside_an_interval_is_not_certain() {
    let tables = three([
        (0.12, (0.11, 0.13), 8_000.0),
        (1.0, (0.9, 1.1), 11_000.0),
        (4.9, (4.7, 5.2), 13_000.0),
    ]);
    insta::assert_snapshot!(text(&advice(&tables, at_most("latency.p99", "5ms"))[..1]), @r"
    # digits: use batch 8: highest throughput with p99 ≤ 5 ms (not certain: no figures of several processes)
    Batch 8: p99 latency 1.00 ms (0.900 to 1.10 ms), throughput 8800/s single-stream, 11 000/s offline, peak memory 38.1 MiB, accuracy 97.66 % (97.23 to 98.05 %).
    1 other configuration within the limits did not do better. Batch 64 would do better: throughput 10 400/s single-stream, 13 000/s offline. Whether batch 64 meets p99 ≤ 5 ms is not certain: the interval around its p99 latency 4.90 ms (4.70 to 5.20 ms) crosses the limit.
    [5eed000000000002 5eed000000000003 5eed000000000004 5eed000000000005]
    ");
    let tables = three([
        (4.9, (4.7, 5.2), 8_000.0),
        (6.0, (5.9, 6.1), 11_000.0),
        (9.0, (8.9, 9.2), 13_000.0),
    ]);
    insta::assert_snapshot!(text(&advice(&tables, at_most("latency.p99", "5ms"))[..1]), @r"
    # digits: use batch 1: highest throughput with p99 ≤ 5 ms (not certain: the interval of its p99 crosses the limit; no figures of several processes)
    Batch 1: p99 latency 4.90 ms (4.70 to 5.20 ms), throughput 6400/s single-stream, 8000/s offline, peak memory 38.1 MiB, accuracy 97.66 % (97.23 to 98.05 %).
    Whether batch 1 meets p99 ≤ 5 ms is not certain: the interval around its p99 latency 4.90 ms (4.70 to 5.20 ms) crosses the limit.
    [5eed000000000000 5eed000000000001]
    ");
}

#[test]
fn a_percentile_without_an_interval_is_not_certain_to_keep_a_limit() {
    let mut tables = three([
        (1.0, (0.9, 1.1), 8_000.0),
        (6.0, (5.9, 6.1), 11_000.0),
        (9.0, (8.9, 9.2), 13_000.0),
    ]);
    made_up::set_value(&mut tables, 0, "latency.p99", Some(1e6), None);
    insta::assert_snapshot!(text(&advice(&tables, at_most("latency.p99", "5ms"))[..1]), @r"
    # digits: use batch 1: highest throughput with p99 ≤ 5 ms (not certain: its p99 has no interval; no figures of several processes)
    Batch 1: p99 latency 1.00 ms, throughput 6400/s single-stream, 8000/s offline, peak memory 38.1 MiB, accuracy 97.66 % (97.23 to 98.05 %).
    Whether batch 1 meets p99 ≤ 5 ms is not certain: its p99 latency 1.00 ms has no interval, since queries were too alike to their neighbours.
    [5eed000000000000 5eed000000000001]
    ");
}

#[test]
fn what_does_not_differ_clearly_is_a_tie() {
    let tables = three([
        (0.12, (0.11, 0.13), 8_000.0),
        (1.0, (0.9, 1.1), 12_800.0),
        (3.0, (2.9, 3.1), 13_000.0),
    ]);
    insta::assert_snapshot!(text(&advice(&tables, at_most("latency.p99", "5ms"))[..1]), @r"
    # digits: use batch 8 or batch 64: they tie for highest throughput with p99 ≤ 5 ms (not certain: no figures of several processes)
    Batch 8: p99 latency 1.00 ms (0.900 to 1.10 ms), throughput 10 240/s single-stream, 12 800/s offline, peak memory 38.1 MiB, accuracy 97.66 % (97.23 to 98.05 %).
    Batch 64: p99 latency 3.00 ms (2.90 to 3.10 ms), throughput 10 400/s single-stream, 13 000/s offline, peak memory 38.1 MiB, accuracy 97.66 % (97.23 to 98.05 %).
    Their throughput does not differ clearly: they differ by no more than 5 %. Of these, batch 8 has the lowest p99 latency. 1 other configuration within the limits did not do better.
    [5eed000000000002 5eed000000000003 5eed000000000004 5eed000000000005]
    ");
}

#[test]
fn where_nothing_meets_the_limit_the_closest_is_named() {
    let tables = three([
        (6.0, (5.9, 6.1), 8_000.0),
        (7.0, (6.9, 7.1), 11_000.0),
        (9.0, (8.9, 9.2), 13_000.0),
    ]);
    insta::assert_snapshot!(text(&advice(&tables, at_most("latency.p99", "5ms"))[..1]), @r"
    # digits: nothing meets p99 ≤ 5 ms; closest: batch 1 with p99 latency 6.00 ms
    Batch 1: p99 latency 6.00 ms (5.90 to 6.10 ms), throughput 6400/s single-stream, 8000/s offline, peak memory 38.1 MiB, accuracy 97.66 % (97.23 to 98.05 %).
    [5eed000000000000 5eed000000000001]
    ");
}

#[test]
fn without_limits_each_objective_has_its_best() {
    let tables = three([
        (0.12, (0.11, 0.13), 8_000.0),
        (1.0, (0.9, 1.1), 11_000.0),
        (6.4, (6.2, 6.6), 13_000.0),
    ]);
    insta::assert_snapshot!(text(&advice(&tables, Options::default())[..2]), @r"
    # digits: use batch 1: lowest p99 latency (not certain: no figures of several processes)
    Batch 1: p99 latency 120 µs (110 to 130 µs), throughput 8000/s offline, 6400/s single-stream, peak memory 38.1 MiB, accuracy 97.66 % (97.23 to 98.05 %).
    2 other configurations compared did not do better.
    [5eed000000000000 5eed000000000001]
    # digits: use batch 64: highest throughput (not certain: no figures of several processes)
    Batch 64: p99 latency 6.40 ms (6.20 to 6.60 ms), throughput 13 000/s offline, 10 400/s single-stream, peak memory 38.1 MiB, accuracy 97.66 % (97.23 to 98.05 %).
    2 other configurations compared did not do better.
    [5eed000000000004 5eed000000000005]
    ");
}

#[test]
fn a_gap_is_not_a_zero() {
    let mut tables = three([
        (0.12, (0.11, 0.13), 8_000.0),
        (1.0, (0.9, 1.1), 11_000.0),
        (6.4, (6.2, 6.6), 13_000.0),
    ]);
    for percentile in ["latency.p50", "latency.p90", "latency.p99"] {
        made_up::set_value(&mut tables, 4, percentile, None, None);
    }
    let advice = advice(&tables, at_most("latency.p99", "5ms"));
    assert!(advice[0].title.contains("use batch 8: highest throughput"), "{}", advice[0].title);
    insta::assert_snapshot!(text(&advice[advice.len() - 1..]), @r"
    # digits: batch 64 could not be judged
    Batch 64: p99 latency is a gap: made up to be missing.
    [5eed000000000004 5eed000000000005]
    ");
}

#[test]
fn a_lower_percentile_above_the_limit_rules_out() {
    let mut tables = three([
        (0.12, (0.11, 0.13), 8_000.0),
        (1.0, (0.9, 1.1), 11_000.0),
        (6.4, (6.2, 6.6), 13_000.0),
    ]);
    made_up::set_value(&mut tables, 4, "latency.p99", None, None);
    made_up::set_value(&mut tables, 4, "latency.p50", Some(6.3e6), Some((6.2e6, 6.4e6)));
    made_up::set_value(&mut tables, 4, "latency.p90", None, None);
    let found = advice(&tables, at_most("latency.p99", "5ms"));
    assert!(found[0].title.contains("use batch 8: highest throughput"), "{}", found[0].title);
    insta::assert_snapshot!(text(&found[found.len() - 1..]), @r"
    # digits: batch 64 misses p99 ≤ 5 ms: a lower percentile is above it already
    Batch 64: p50 latency 6.30 ms (6.20 to 6.40 ms), and no p99 latency is below that. The p99 latency itself is not known.
    [5eed000000000004 5eed000000000005]
    ");

    // A median that may be below the limit proves nothing.
    made_up::set_value(&mut tables, 4, "latency.p50", Some(6.3e6), Some((4.9e6, 6.4e6)));
    let found = advice(&tables, at_most("latency.p99", "5ms"));
    assert_eq!(found.last().expect("advice").title, "digits: batch 64 could not be judged");
    // Nor does a high one if the limit is a minimum.
    made_up::set_value(&mut tables, 4, "latency.p50", Some(6.3e6), Some((6.2e6, 6.4e6)));
    let at_least = Some(Quantity::Text("5ms".to_owned()));
    let limit = LimitOption { metric: "latency.p99".to_owned(), at_most: None, at_least };
    let found = advice(&tables, Options { limits: vec![limit], ..Options::default() });
    assert_eq!(found.last().expect("advice").title, "digits: batch 64 could not be judged");
}

#[test]
fn a_real_loss_of_accuracy_is_said() {
    let advice = advice(&made_up::tables(&COMPARISON), at_most("latency.p99", "50ms"));
    insta::assert_snapshot!(text(&advice), @r"
    # resnet-50: use gpu · fp32 · batch 64 or gpu · int8 · batch 16: they tie for highest throughput with p99 ≤ 50 ms (not certain: no figures of several processes; 13 of 16 configurations could be compared, 4 disturbed)
    gpu · fp32 · batch 64: p99 latency 1.61 ms (1.61 to 2.14 ms), throughput 52 345/s single-stream, 49 106/s offline, peak memory 49.1 MiB, accuracy 97.66 % (97.23 to 98.05 %).
    gpu · int8 · batch 16: p99 latency 349 µs (349 to 357 µs), throughput 54 058/s single-stream, 56 051/s offline, peak memory 39.4 MiB, accuracy 96.48 % (96.05 to 96.87 %).
    Their throughput does not differ clearly: they differ by no more than 5 %. Of these, gpu · int8 · batch 16 has the lowest p99 latency. 11 other configurations within the limits did not do better. gpu · int8 · batch 16 is 1.2 points less accurate than gpu · fp32 · batch 16, which has accuracy 97.66 % (97.23 to 98.05 %). Accuracies are compared by their intervals, as if of different examples, though all answered the same ones: a difference that shows in this way is real, and smaller ones may be. Take gpu · int8 · batch 16 with care: drift in single-stream (p50 rose 6.1 % (294 → 312 µs) from the first to the last third of the queries; scatter within a third: 5.87 µs). Of the 13 that were compared, 4 had warnings that can explain such differences (drift): remove the causes, and measure again.
    [5eed000000000016 5eed000000000017 5eed00000000001c 5eed00000000001d 5eed000000000014]
    # resnet-50: Pareto front by p99 latency and throughput: 7 configurations
    Nothing beats one of these without a loss elsewhere, by p99 latency and throughput, and by peak memory and accuracy where it differs clearly; 6 other configurations are dominated.
    cpu · fp32 · batch 1: p99 latency 174 µs (174 to 183 µs), throughput 8621/s single-stream, 9403/s offline, peak memory 36.4 MiB, accuracy 97.66 % (97.23 to 98.05 %). Within the limits.
    cpu · int8 · batch 1: p99 latency 84.7 µs (84.7 to 88.1 µs), throughput 15 831/s single-stream, 17 109/s offline, peak memory 36.4 MiB, accuracy 96.48 % (96.05 to 96.87 %). Within the limits. cpu · int8 · batch 1 is 1.2 points less accurate than cpu · fp32 · batch 1, which has accuracy 97.66 % (97.23 to 98.05 %).
    gpu · fp32 · batch 4: p99 latency 472 µs (472 to 486 µs), throughput 10 803/s single-stream, 11 468/s offline, peak memory 37.0 MiB, accuracy 97.66 % (97.23 to 98.05 %). Within the limits.
    gpu · fp32 · batch 16: p99 latency 708 µs (708 to 742 µs), throughput 29 552/s single-stream, 30 611/s offline, peak memory 39.4 MiB, accuracy 97.66 % (97.23 to 98.05 %). Within the limits.
    gpu · fp32 · batch 64: p99 latency 1.61 ms (1.61 to 2.14 ms), throughput 52 345/s single-stream, 49 106/s offline, peak memory 49.1 MiB, accuracy 97.66 % (97.23 to 98.05 %). Within the limits.
    gpu · int8 · batch 4: p99 latency 291 µs (291 to 305 µs), throughput 19 490/s single-stream, 20 875/s offline, peak memory 37.0 MiB, accuracy 96.48 % (96.05 to 96.87 %). Within the limits. gpu · int8 · batch 4 is 1.2 points less accurate than gpu · fp32 · batch 4, which has accuracy 97.66 % (97.23 to 98.05 %).
    gpu · int8 · batch 16: p99 latency 349 µs (349 to 357 µs), throughput 54 058/s single-stream, 56 051/s offline, peak memory 39.4 MiB, accuracy 96.48 % (96.05 to 96.87 %). Within the limits. gpu · int8 · batch 16 is 1.2 points less accurate than gpu · fp32 · batch 16, which has accuracy 97.66 % (97.23 to 98.05 %).
    Accuracies are compared by their intervals, as if of different examples, though all answered the same ones: a difference that shows in this way is real, and smaller ones may be.
    [5eed000000000000 5eed000000000001 5eed000000000008 5eed000000000009 5eed000000000012 5eed000000000013 5eed000000000014 5eed000000000015 5eed000000000016 5eed000000000017 5eed00000000001a 5eed00000000001b 5eed00000000001c 5eed00000000001d]
    # resnet-50: 3 configurations could not be judged
    gpu · int8 · batch 64 · single-stream; gpu · int8 · batch 64 · offline: out of memory in phase prepare: the worker used 8.0 GiB of 8.0 GiB.
    cpu · fp32 · batch 64: p99 latency is a gap: needs 368 queries, has 203.
    gpu · int8 · batch 1 · single-stream; gpu · int8 · batch 1 · offline: the backend `gpu` does not support int8 on `gpu:0`; it supports fp32 and fp16.
    [5eed000000000006 5eed000000000007 5eed000000000018 5eed000000000019 5eed00000000001e 5eed00000000001f]
    # Speed-up over processors: 2.8 times at most, of resnet-50 on gpu:0
    resnet-50 · gpu · gpu:0 · int8 · batch 16 · offline is 2.78 times as fast as cpu, of one process.
    resnet-50 · gpu · gpu:0 · fp32 · batch 64 · offline is 2.44 times as fast as cpu, of one process.
    resnet-50 · gpu · gpu:0 · fp32 · batch 16 · offline is 1.52 times as fast as cpu, of one process.
    resnet-50 · gpu · gpu:0 · int8 · batch 4 · offline is 1.04 times as fast as cpu, of one process.
    resnet-50 · gpu · gpu:0 · fp32 · batch 4 · offline is 0.57 times as fast as cpu, of one process.
    resnet-50 · gpu · gpu:0 · int8 · batch 4 · single-stream is 0.31 times as fast as cpu, of one process.
    resnet-50 · gpu · gpu:0 · int8 · batch 16 · single-stream is 0.21 times as fast as cpu, of one process.
    resnet-50 · gpu · gpu:0 · fp32 · batch 1 · single-stream is 0.19 times as fast as cpu, of one process.
    resnet-50 · gpu · gpu:0 · fp32 · batch 4 · single-stream is 0.17 times as fast as cpu, of one process.
    resnet-50 · gpu · gpu:0 · fp32 · batch 1 · offline is 0.16 times as fast as cpu, of one process.
    resnet-50 · gpu · gpu:0 · fp32 · batch 16 · single-stream is 0.12 times as fast as cpu, of one process.
    resnet-50 · gpu · gpu:0 · fp32 · batch 64 · single-stream is 0.05 times as fast as cpu, of one process.
    [5eed00000000001d 5eed00000000000d 5eed000000000017 5eed000000000015 5eed00000000001b 5eed000000000013 5eed00000000001a 5eed000000000008 5eed00000000001c 5eed000000000010 5eed000000000012 5eed000000000011 5eed000000000014 5eed000000000016]
    ");
}

#[test]
fn what_failed_in_one_scenario_is_not_recommended_for_the_other() {
    let mut tables = three([
        (0.12, (0.11, 0.13), 8_000.0),
        (1.0, (0.9, 1.1), 11_000.0),
        (6.4, (6.2, 6.6), 13_000.0),
    ]);
    made_up::crash(&mut tables, 5, Phase::Measure);
    let advice = advice(&tables, at_most("memory.peak", "1GiB"));
    insta::assert_snapshot!(advice[1].title, @"digits: use batch 8: highest throughput with peak memory ≤ 1 GiB (not certain: no figures of several processes; 2 of 3 configurations could be compared)");
    insta::assert_snapshot!(text(&advice[advice.len() - 1..]), @r"
    # digits: batch 64 could not be judged
    Batch 64: it failed in offline: the worker was killed by signal 11 (SIGSEGV) in phase measure.
    [5eed000000000004 5eed000000000005]
    ");
    for advice in &advice[..advice.len() - 1] {
        assert!(!advice.cases.contains(&made_up::case_id(4)), "{advice:?}");
        assert!(!advice.attributes.values().any(|it| it.contains(&made_up::case_id(4))));
    }
}

#[test]
fn what_is_invalid_is_not_recommended() {
    let valid = |tables: &mut made_up::Tables, case_index: u64, scenario: Scenario| {
        made_up::change_case(tables, case_index, |record| record.key.scenario = scenario);
        made_up::change_report(tables, case_index, |report| {
            let breach = Breach::OverLimit { over_queries: 9, queries: 10, allowed_queries: 1 };
            let reasons = vec![breach.into()];
            report.verdict = Some(Verdict {
                rules: None,
                reasons,
                early_stopping: None,
                departures: Vec::new(),
            });
        });
    };
    let tables = three([
        (0.12, (0.11, 0.13), 8_000.0),
        (1.0, (0.9, 1.1), 11_000.0),
        (6.4, (6.2, 6.6), 13_000.0),
    ]);
    let mut of_single_stream = tables.clone();
    valid(&mut of_single_stream, 2, Scenario::SingleStream);
    let said = advice(&of_single_stream, at_most("latency.p99", "5ms"));
    insta::assert_snapshot!(text(&said[said.len() - 1..]), @r"
    # digits: batch 8 could not be judged
    Batch 8: single-stream is invalid.
    [5eed000000000002 5eed000000000003]
    ");
    // A rate that was too much says nothing against the others.
    let mut of_server = tables;
    valid(&mut of_server, 3, Scenario::Server);
    let said = advice(&of_server, at_most("latency.p99", "5ms"));
    assert!(said[0].title.contains("batch 8"), "{}", said[0].title);
}

#[test]
fn throughputs_of_different_scenarios_are_not_compared() {
    let mut tables = three([
        (0.12, (0.11, 0.13), 8_000.0),
        (1.0, (0.9, 1.1), 11_000.0),
        (6.4, (6.2, 6.6), 13_000.0),
    ]);
    // Better in single-stream than the others in offline, and not measured in that.
    made_up::set_value(&mut tables, 0, "throughput.samples", Some(99_000.0), None);
    tables.get_mut("cases").expect("a view").rows.remove(1);
    let advice = advice(&tables, Options::default());
    insta::assert_snapshot!(advice[0].title, @"digits: use batch 1: lowest p99 latency and highest throughput (not certain: no figures of several processes)");
}

#[test]
fn what_differs_by_noise_alone_is_a_tie() {
    let tables = three([
        (1.00, (0.90, 1.10), 11_100.0),
        (1.01, (0.91, 1.11), 11_050.0),
        (1.02, (0.92, 1.12), 11_000.0),
    ]);
    let advice = advice(&tables, Options::default());
    insta::assert_snapshot!(advice[0].title, @"digits: use batch 1, batch 8 or batch 64: they tie for lowest p99 latency and highest throughput");
    insta::assert_snapshot!(advice[1].title, @"digits: Pareto front by p99 latency and throughput: batch 1, batch 8 and batch 64");
}

#[test]
fn one_case_is_not_crowned() {
    insta::assert_snapshot!(text(&advice(&made_up::tables(&SINGLE), at_most("latency.p99", "5ms"))), @r"
    # digits: cpu · cpu:0 · fp32 · batch 1 is the only configuration measured, and it meets p99 ≤ 5 ms (not certain: no figures of several processes)
    cpu · cpu:0 · fp32 · batch 1: p99 latency 174 µs (174 to 183 µs), throughput 8621/s, peak memory 36.4 MiB, accuracy 97.66 % (97.23 to 98.05 %).
    [5eed000000000000]
    ");
}

#[test]
fn without_single_stream_there_is_no_latency_to_judge() {
    let shape = Shape { scenarios: &[Scenario::Offline], ..QUICKSTART };
    insta::assert_snapshot!(text(&advice(&made_up::tables(&shape), Options::default())[..1]), @r"
    # digits: use batch 8: highest throughput (not certain: no figures of several processes)
    Batch 8: throughput 11 069/s, peak memory 37.8 MiB, accuracy 97.66 % (97.23 to 98.05 %).
    2 other configurations compared did not do better. No configuration has a p99 latency, so it was not compared.
    [5eed000000000001]
    ");
    let limited = advice(&made_up::tables(&shape), at_most("latency.p99", "5ms"));
    insta::assert_snapshot!(text(&limited), @r"
    # digits: batch 1, batch 8 and batch 64 could not be judged
    Batch 1; batch 8; batch 64: p99 latency was not measured in the single-stream scenario.
    [5eed000000000000 5eed000000000001 5eed000000000002]
    ");
}

#[test]
fn where_nothing_finished_the_reasons_are_given() {
    let mut tables = made_up::tables(&SINGLE);
    for view in ["results", "latency_quantiles", "latency_histogram"] {
        tables.get_mut(view).expect("a view").rows.clear();
    }
    made_up::crash(&mut tables, 0, Phase::Load);
    let advice = advice(&tables, at_most("latency.p99", "5ms"));
    insta::assert_snapshot!(text(&advice), @r"
    # digits: nothing could be measured
    digits: the worker was killed by signal 11 (SIGSEGV) in phase load.
    [5eed000000000000]
    ");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let tables = made_up::tables(&QUICKSTART);
    let error = |options: &str| {
        let options = plugin_guest::parse_options(&Hardware::describe(), options);
        let error = options.and_then(|options| Hardware::recommend(&tables, options));
        error.expect_err("options that make no sense").to_string()
    };
    insta::assert_snapshot!(error(r#"{"limits": [{"metric": "latency.p98", "at-most": 1}]}"#), @"options: limits: this run has no metric `latency.p98`; it has: `latency.p50`, `latency.p90`, `latency.p99`, `latency.p99.9`, `throughput.samples`, `memory.peak`, `accuracy.top1`");
    insta::assert_snapshot!(error(r#"{"limits": [{"metric": "latency.p99"}]}"#), @"options: limits: `latency.p99` has neither `at-most` nor `at-least`");
    insta::assert_snapshot!(error(r#"{"limits": [{"metric": "latency.p99", "at-most": "5MiB"}]}"#), @"options: limits: `latency.p99`: `5MiB` does not fit a value in `ns`");
    insta::assert_snapshot!(error(r#"{"limits": [{"metric": "latency.p99", "at-msot": "5ms"}]}"#), @"options: unknown field `at-msot`, expected one of `metric`, `at-most`, `at-least`");
    insta::assert_snapshot!(error(r#"{"limits": [{"metric": "latency.p99", "at-most": [5]}]}"#), @r#"options: a number in the metric's unit, or text such as "5ms""#);
    insta::assert_snapshot!(error(r#"{"objectives": ["price"]}"#), @"options: objectives: this run has no metric `price`; it has: `latency.p50`, `latency.p90`, `latency.p99`, `latency.p99.9`, `throughput.samples`, `memory.peak`, `accuracy.top1`");
}

/// Up to twelve configurations with figures that often tie, and gaps among them.
fn runs() -> impl Strategy<Value = Vec<(Option<u8>, u8, Option<u8>)>> {
    let figures = (prop::option::weighted(0.9, 1..20_u8), 1..20_u8, prop::option::of(0..4_u8));
    prop::collection::vec(figures, 1..12)
}

const BATCHES: [u32; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

/// Returns the tables of such a run: latency, throughput and, if given, the width of the latency's
/// interval, all in arbitrary steps.
fn arbitrary(figures: &[(Option<u8>, u8, Option<u8>)]) -> Tables {
    let shape = Shape {
        batches: &BATCHES[..figures.len()],
        scenarios: &[Scenario::SingleStream],
        ..QUICKSTART
    };
    let mut tables = made_up::tables(&shape);
    // Nothing that is asked about, and most of what there is to read.
    for view in ["latency_quantiles", "latency_histogram"] {
        tables.get_mut(view).expect("a view").rows.clear();
    }
    for (index, (latency, throughput, width)) in (0..).zip(figures) {
        let latency = latency.map(|latency| f64::from(latency) * 1e6);
        let interval = latency.zip(*width).map(|(latency, width)| {
            let width = f64::from(width) * 1e6;
            (latency - width, latency + width)
        });
        made_up::set_value(&mut tables, index, "latency.p99", latency, interval);
        let throughput = Some(f64::from(*throughput) * 100.0);
        made_up::set_value(&mut tables, index, "throughput.samples", throughput, None);
    }
    tables
}

fn index_of(id: &str) -> usize {
    let number = u64::from_str_radix(id, 16).expect("a made-up id");
    usize::try_from(number - u64::from_str_radix(&made_up::case_id(0), 16).expect("an id"))
        .expect("small")
}

proptest! {
    #[test]
    fn nothing_that_is_recommended_is_dominated_or_breaks_the_limit(
        figures in runs(),
        limit in prop::option::of(1..20_u8),
    ) {
        let tables = arbitrary(&figures);
        let limits = limit.map(|limit| LimitOption {
            metric: "latency.p99".into(),
            at_most: Some(Quantity::Number(f64::from(limit) * 1e6)),
            at_least: None,
        });
        let options = Options {
            limits: limits.into_iter().collect(),
            considered: Vec::new(),
            ..Options::default()
        };
        let measured = figures.iter().filter(|(latency, _, _)| latency.is_some()).count();
        let advice = match Hardware::recommend(&tables, options) {
            Ok(advice) => advice,
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };
        let bound = limit.unwrap_or(u8::MAX);
        // Surely within the limit: all of the interval is, and there is one. If none is, those that
        // perhaps are.
        let value_is_in = |index: usize| figures[index].0.is_some_and(|latency| latency <= bound);
        let surely_in = |index: usize| {
            let (latency, _, width) = figures[index];
            latency.is_some_and(|latency| {
                limit.is_none() || width.is_some_and(|width| latency + width <= bound)
            })
        };
        let all = 0..figures.len();
        let any_sure = all.clone().any(surely_in);
        let feasible = |index: usize| if any_sure { surely_in(index) } else { value_is_in(index) };
        let dominates = |one: usize, other: usize| {
            let (Some(this), Some(that)) = (figures[one].0, figures[other].0) else { return false };
            let (fast, faster) = (figures[other].1, figures[one].1);
            let apart = |less: u8, more: u8| f64::from(more - less) > 0.05 * f64::from(more);
            let clear = match (figures[one].2, figures[other].2) {
                (Some(this_width), Some(that_width)) => this + this_width < that.saturating_sub(that_width),
                _ => this < that && apart(this, that),
            };
            this <= that && faster >= fast && (clear || faster > fast && apart(fast, faster))
        };
        for advice in &advice {
            let named: Vec<_> = advice.cases.iter().map(|id| index_of(id)).collect();
            prop_assert!(!named.is_empty());
            match advice.attributes["kind"].as_str() {
                // Latency is not compared where no configuration has one.
                "choice" | "tie" if measured == 0 => prop_assert!(limit.is_none()),
                "choice" | "tie" => {
                    // The best is named first; what would do better if it were certain comes after.
                    let chosen = named[0];
                    prop_assert!(feasible(chosen));
                    prop_assert!(!all.clone().any(|other| feasible(other) && dominates(other, chosen)));
                    if advice.attributes["certain"] == "yes" {
                        prop_assert!(surely_in(chosen));
                    }
                }
                "closest" => prop_assert!(!all.clone().any(value_is_in)),
                "front" => {
                    for chosen in &named {
                        prop_assert!(!all.clone().any(|other| dominates(other, *chosen)));
                    }
                    // Each omission has a reason.
                    for other in all.clone().filter(|it| figures[*it].0.is_some() && !named.contains(it)) {
                        prop_assert!(all.clone().any(|one| dominates(one, other)));
                    }
                }
                "ruled-out" => prop_assert!(named.iter().all(|index| figures[*index].0.is_none())),
                "not-judged" => {
                    prop_assert!(measured == 0 || named.iter().all(|index| figures[*index].0.is_none()));
                }
                other => return Err(TestCaseError::fail(format!("an unknown kind `{other}`"))),
            }
        }
        if measured > 0 && all.clone().any(feasible) {
            prop_assert!(matches!(advice[0].attributes["kind"].as_str(), "choice" | "tie"));
        }
    }

    #[test]
    fn considering_more_never_takes_anything_from_the_front(figures in runs(), memory in prop::collection::vec(1..9_u8, 12)) {
        let mut tables = arbitrary(&figures);
        for (index, bytes) in (0..).zip(&memory[..figures.len()]) {
            made_up::set_value(&mut tables, index, "memory.peak", Some(f64::from(*bytes) * 1e6), None);
        }
        let front = |considered: &[&str]| {
            let considered = considered.iter().map(|name| (*name).to_owned()).collect();
            let advice = advice(&tables, Options { considered, ..Options::default() });
            let front = advice.into_iter().find(|advice| advice.attributes["kind"] == "front");
            front.map(|advice| advice.cases).unwrap_or_default()
        };
        let (without, with) = (front(&[]), front(&["memory.peak"]));
        prop_assert!(without.iter().all(|id| with.contains(id)));
    }
}

#[test]
fn empty_tables_are_an_error_that_says_so() {
    let mut tables = made_up::tables(&SINGLE);
    tables.get_mut("run").expect("a view").rows.clear();
    let error = Hardware::recommend(&tables, Options::default()).expect_err("no run").to_string();
    insta::assert_snapshot!(error, @"the view `run` is empty: there is no run to speak of");
    let mut tables = made_up::tables(&SINGLE);
    tables.get_mut("cases").expect("a view").rows[0][0] = Cell::Null;
    let error = Hardware::recommend(&tables, Options::default()).expect_err("no id").to_string();
    insta::assert_snapshot!(error, @"view `cases`, row 1, column `case_id`: expected text, found nothing");
}

#[test]
fn a_title_says_how_many_could_be_compared_and_were_disturbed() {
    let tables = three([
        (0.12, (0.11, 0.13), 8_000.0),
        (1.0, (0.9, 1.1), 11_000.0),
        (6.4, (6.2, 6.6), 13_000.0),
    ]);
    let title = |disturbed: &[u64], has_third: bool| {
        let mut tables = several(&tables);
        for case in disturbed {
            let drift = Doubt::Drift { from_ns: 1e6, to_ns: 1.2e6, scatter_ns: 1e4 };
            made_up::warn(&mut tables, *case, drift);
        }
        if !has_third {
            made_up::crash(&mut tables, SINGLE_STREAM[2], Phase::Measure);
            made_up::crash(&mut tables, OFFLINE[2], Phase::Measure);
        }
        let advice = advice(&tables, at_most("latency.p99", "5ms"));
        let title = advice[0].title.replace('\u{202f}', " ");
        let certain = advice[0].attributes["certain"].clone();
        let said = title.strip_prefix("digits: use batch 8: highest throughput with p99 ≤ 5 ms");
        (said.expect("the same advice").to_owned(), certain)
    };
    let expected = |said: &str, certain: &str| (said.to_owned(), certain.to_owned());
    assert_eq!(title(&[], true), expected("", "yes"));
    assert_eq!(title(&[], false), expected(" (2 of 3 configurations could be compared)", "yes"));
    assert_eq!(
        title(&SINGLE_STREAM[..2], false),
        expected(" (not certain: 2 of 3 configurations could be compared, both disturbed)", "no")
    );
    assert_eq!(
        title(&SINGLE_STREAM[1..2], false),
        expected(" (not certain: 2 of 3 configurations could be compared, 1 disturbed)", "no")
    );
    assert_eq!(
        title(&SINGLE_STREAM[..1], true),
        expected(" (not certain: 1 of 3 configurations was disturbed)", "no")
    );
    assert_eq!(
        title(&SINGLE_STREAM[..2], true),
        expected(" (not certain: 2 of 3 configurations were disturbed)", "no")
    );
    assert_eq!(
        title(&SINGLE_STREAM, true),
        expected(" (not certain: all 3 configurations were disturbed)", "no")
    );
}

/// Two backends, and what their devices count.
fn devices() -> Tables {
    let shape = Shape {
        precisions: &[Precision::Fp32],
        batches: &[1],
        scenarios: &[Scenario::SingleStream],
        troubled: false,
        ..COMPARISON
    };
    let mut tables = made_up::tables(&shape);
    made_up::count_devices(&mut tables);
    tables
}

#[test]
fn memory_and_energy_of_devices_are_considered_where_there_are_any() {
    let mut tables = devices();
    // One has the lower latency and the other the higher throughput.
    for (case, p99, throughput) in [(0, 1e6, 900.0), (1, 2e6, 2000.0)] {
        made_up::set_value(&mut tables, case, "latency.p99", Some(p99), None);
        made_up::set_value(&mut tables, case, "throughput.samples", Some(throughput), None);
    }
    let said = text(&advice(&tables, Options::default()));
    assert!(
        said.contains(
            "by peak memory, device memory, device energy per sample, processor energy per sample and \
             accuracy where it differs clearly"
        ),
        "{said}"
    );
    let of_gpu = said.lines().find(|line| line.starts_with("gpu:")).expect("its figures");
    assert!(of_gpu.contains("device memory 732 MiB, device energy per sample 12.5 mJ"), "{of_gpu}");
    assert!(!of_gpu.contains("processor energy") && !of_gpu.contains("allocator"), "{of_gpu}");
    let of_cpu = said.lines().find(|line| line.starts_with("cpu:")).expect("its figures");
    assert!(of_cpu.contains("processor energy per sample 31.0 mJ"), "{of_cpu}");
}

/// Two batch sizes of one GPU, of which the second is worse in every objective.
fn worse_by_objectives() -> Tables {
    let shape = Shape {
        backends: &["cpu", "gpu"],
        precisions: &[Precision::Fp32],
        batches: &[1, 4],
        scenarios: &[Scenario::SingleStream],
        troubled: false,
        ..COMPARISON
    };
    let mut tables = made_up::tables(&shape);
    made_up::count_devices(&mut tables);
    for (case, p99, throughput) in
        [(0, 9e6, 10.0), (1, 8e6, 20.0), (2, 1e6, 1000.0), (3, 2e6, 900.0)]
    {
        made_up::set_value(&mut tables, case, "latency.p99", Some(p99), None);
        made_up::set_value(&mut tables, case, "throughput.samples", Some(throughput), None);
        made_up::set_value(&mut tables, case, "memory.peak", Some(4e7), None);
    }
    tables
}

#[test]
fn what_takes_clearly_less_of_the_device_is_not_dominated() {
    let front = |tables: &Tables| {
        let advice = advice(tables, Options::default());
        let front = advice.iter().find(|it| it.attributes["kind"] == "front").expect("a front");
        front.title.clone()
    };
    // A processor without device memory is not on the front for want of it.
    assert_eq!(
        front(&worse_by_objectives()),
        "resnet-50: Pareto front by p99 latency and throughput: gpu · batch 1"
    );
    for metric in ["memory.device-peak", "energy.device-per-sample"] {
        let mut tables = worse_by_objectives();
        made_up::set_value(&mut tables, 3, metric, Some(0.001), None);
        assert_eq!(
            front(&tables),
            "resnet-50: Pareto front by p99 latency and throughput: gpu · batch 1 and gpu · batch 4",
            "{metric}"
        );
    }
    // Beside the device's own energy, the processor's is not what a configuration takes.
    for metric in ["memory.allocator-peak", "energy.package-per-sample"] {
        let mut tables = worse_by_objectives();
        made_up::set_value(&mut tables, 3, metric, Some(0.001), None);
        assert_eq!(
            front(&tables),
            "resnet-50: Pareto front by p99 latency and throughput: gpu · batch 1",
            "{metric}"
        );
    }
}

#[test]
fn a_processors_energy_counts_where_that_is_what_there_is() {
    let mut tables = worse_by_objectives();
    for metric in ["energy.device-per-sample", "memory.device-peak"] {
        made_up::set_value(&mut tables, 2, metric, None, None);
        made_up::set_value(&mut tables, 3, metric, None, None);
    }
    made_up::set_value(&mut tables, 3, "energy.package-per-sample", Some(0.001), None);
    let said = text(&advice(&tables, Options::default()));
    assert!(
        said.contains(
            "Pareto front by p99 latency and throughput: gpu · batch 1 and gpu · batch 4"
        ),
        "{said}"
    );
}

/// Two backends of one device class, each measured in a single-stream of three processes.
fn backends(count: usize) -> Tables {
    const NAMES: [&str; 6] = ["cpu", "gpu", "a", "b", "c", "d"];
    let shape = Shape {
        backends: &NAMES[..count],
        precisions: &[Precision::Fp32],
        batches: &[1],
        scenarios: &[Scenario::SingleStream],
        troubled: false,
        ..COMPARISON
    };
    let mut tables = made_up::tables(&shape);
    for view in ["latency_quantiles", "latency_histogram", "warnings"] {
        tables.get_mut(view).expect("a view").rows.clear();
    }
    tables
}

/// Returns whether a run has a winner that is called certain, if the processes of each backend are drawn around these
/// levels.
fn is_certain(tables: &mut Tables, levels: &[f64], seed: u64) -> bool {
    let mut random = Random::from_seed(seed);
    for (case, level) in (0..).zip(levels) {
        for metric in ["latency.p99", "throughput.samples"] {
            let mut one = || level * (0.02 * normal_quantile(random.uniform())).exp();
            let values = [1e6, 1e6, 1e6].map(|scale| scale * one());
            made_up::set_processes(tables, case, metric, &values);
        }
    }
    let options = Options { considered: Vec::new(), ..Options::default() };
    let advice = advice(tables, options);
    advice.iter().any(|it| it.attributes["kind"] == "choice" && it.attributes["certain"] == "yes")
}

/// One backend under several ids: whoever wins has won by chance.
#[test]
fn of_equal_backends_a_winner_is_seldom_certain() {
    const ROUNDS: u64 = 500;
    for count in [2, 4] {
        let mut tables = backends(count);
        let certain = (0..ROUNDS).filter(|seed| is_certain(&mut tables, &[1.0; 4][..count], *seed));
        let certain = certain.count();
        // 5 % of 500, and three standard deviations.
        assert!(certain <= 25 + 15, "{count}: {certain} of {ROUNDS}");
    }
    // Nor is one that was measured before the other, while the machine drifted: it wins each time.
    let mut tables = backends(2);
    let drifted = |seed: &u64| {
        assert!(is_certain(&mut tables, &[1.0, 1.2], *seed), "in turns, it is no drift");
        made_up::measure_in(&mut tables, 0, 3, Order::Planned);
        let options = Options { considered: Vec::new(), ..Options::default() };
        advice(&tables, options)
            .iter()
            .any(|it| it.attributes.get("certain").is_some_and(|it| it == "yes"))
    };
    assert_eq!((0..20).filter(drifted).count(), 0);
    // A real difference is found.
    let mut tables = backends(2);
    let found = (0..ROUNDS / 10).filter(|seed| is_certain(&mut tables, &[1.0, 2.0], *seed)).count();
    assert!(found as u64 >= ROUNDS / 10 - 2, "{found}");
}

/// Probabilities of ranks do not know of configurations that are left out, nor of disturbances.
#[test]
fn ranks_say_what_is_left_out_and_disturbed() {
    let sound = several(&three([
        (0.12, (0.11, 0.13), 8_000.0),
        (1.0, (0.9, 1.1), 11_000.0),
        (2.4, (2.2, 2.6), 13_000.0),
    ]));
    let title = |tables: &Tables| {
        let advice = advice(tables, at_most("latency.p99", "5ms"));
        let ranks = advice.into_iter().find(|it| it.attributes["kind"] == "ranks");
        ranks.expect("several processes have ranks").title
    };
    assert!(title(&sound).ends_with(" %)"), "{}", title(&sound));
    let mut tables = sound;
    let drift = Doubt::Drift { from_ns: 1e6, to_ns: 2e6, scatter_ns: 1e3 };
    made_up::warn(&mut tables, SINGLE_STREAM[0], drift);
    made_up::crash(&mut tables, SINGLE_STREAM[2], Phase::Measure);
    made_up::crash(&mut tables, OFFLINE[2], Phase::Measure);
    let shown = title(&tables);
    assert!(shown.ends_with(" (2 of 3 configurations could be compared, 1 disturbed)"), "{shown}");
}

#[test]
fn figures_of_one_process_are_never_certain() {
    let tables = three([
        (0.12, (0.11, 0.13), 8_000.0),
        (1.0, (0.9, 1.1), 11_000.0),
        (6.4, (6.2, 6.6), 13_000.0),
    ]);
    let certain = |tables: &Tables| {
        let advice = advice(tables, at_most("latency.p99", "5ms"));
        (advice[0].attributes["certain"].clone(), advice[0].title.clone())
    };
    let (verdict, title) = certain(&tables);
    assert_eq!(verdict, "no");
    assert!(title.ends_with("(not certain: no figures of several processes)"), "{title}");
    let of_several = several(&tables);
    assert_eq!(certain(&of_several).0, "yes");
    // One side does not suffice.
    let mut one_side = of_several;
    made_up::set_value(&mut one_side, 0, "throughput.samples", Some(6_400.0), None);
    let id = Cell::Text(made_up::case_id(0));
    for row in &mut one_side.get_mut("results").expect("a view").rows {
        if row[0] == id && row[1] == Cell::Text("throughput.samples".to_owned()) {
            row[9] = Cell::Text("{}".to_owned());
        }
    }
    assert_eq!(certain(&one_side).0, "no");
}

#[test]
fn every_warning_about_a_compared_figure_takes_the_certainty() {
    let tables = several(&three([
        (0.12, (0.11, 0.13), 8_000.0),
        (1.0, (0.9, 1.1), 11_000.0),
        (6.4, (6.2, 6.6), 13_000.0),
    ]));
    let certain = |doubt: Option<Doubt>| {
        let mut tables = tables.clone();
        if let Some(doubt) = doubt {
            made_up::warn(&mut tables, SINGLE_STREAM[0], doubt);
        }
        advice(&tables, at_most("latency.p99", "5ms"))[0].attributes["certain"] == "yes"
    };
    assert!(certain(None));
    let touching = [
        Doubt::SlowedDown {
            fast_from_query: 0,
            slow_from_query: 10,
            queries: 20,
            from_ns: 1.0,
            to_ns: 2.0,
        },
        Doubt::Bimodal { fast_ratio: 0.7, fast_ns: 1, slow_ns: 2 },
    ];
    for doubt in touching {
        assert!(!certain(Some(doubt.clone())), "{doubt:?}");
    }
    assert!(certain(Some(Doubt::NotANumber {
        output: "y".into(),
        nan_values: 1,
        values: 2,
        in_reference: false
    })));
}

#[test]
fn an_output_that_says_nothing_is_not_chosen() {
    let tables = several(&three([
        (0.12, (0.11, 0.13), 8_000.0),
        (1.0, (0.9, 1.1), 11_000.0),
        (6.4, (6.2, 6.6), 13_000.0),
    ]));
    let advised = |cases: &[u64], checked: bool, constant: f64| {
        let mut tables = tables.clone();
        for case in cases {
            let output = "y".to_owned();
            let constant = Some(constant);
            let doubt = Doubt::TrivialOutput { output, values: 10, infinite_values: 0, constant };
            made_up::warn(&mut tables, *case, doubt);
            if checked {
                made_up::compare_outputs(&mut tables, *case);
            }
        }
        text(&advice(&tables, at_most("latency.p99", "5ms")))
    };
    let all: Vec<u64> = SINGLE_STREAM.into_iter().chain(OFFLINE).collect();
    assert!(advised(&[], false, 0.0).contains("use batch 8"));
    let one = advised(&[SINGLE_STREAM[1], OFFLINE[1]], true, 0.5);
    assert!(one.contains("use batch 1") && !one.contains("use batch 8"), "{one}");
    assert!(one.contains("are 0.5, which any engine could answer"), "{one}");
    assert!(one.contains("and others answer otherwise"), "{one}");
    // Without a comparison, zeros may be an answer or no work at all.
    let zeros = advised(&all, false, 0.0);
    assert!(!zeros.contains(": use "), "{zeros}");
    assert!(zeros.contains("nothing has checked that this is the model's answer"), "{zeros}");
    for agreed in [advised(&all, true, 0.0), advised(&all, false, 0.5)] {
        assert!(agreed.contains("use batch 8") && agreed.contains("not certain"), "{agreed}");
    }
}

/// The mean of the processes keeps the limit, and its interval does; the next process may not.
#[test]
fn a_limit_is_held_against_where_another_process_will_lie() {
    let mut tables = several(&three([
        (4.0, (3.9, 4.1), 8_000.0),
        (9.0, (8.9, 9.1), 11_000.0),
        (9.4, (9.2, 9.6), 13_000.0),
    ]));
    let id = Cell::Text(made_up::case_id(0));
    for row in &mut tables.get_mut("results").expect("a view").rows {
        if row[0] == id && row[1] == Cell::Text("latency.p99".to_owned()) {
            let attributes = r#"{"process-values": "3800000 4000000 4200000",
                "prediction-low": "2700000", "prediction-high": "5300000"}"#;
            (row[5], row[6]) = (Cell::Real(3.5e6), Cell::Real(4.5e6));
            row[9] = Cell::Text(attributes.to_owned());
        }
    }
    let said = text(&advice(&tables, at_most("latency.p99", "5ms"))[..1]);
    assert!(said.contains("(not certain: another process may miss p99 ≤ 5 ms"), "{said}");
    assert!(
        said.contains("another process probably has a p99 latency between 2.70 ms and 5.30 ms"),
        "{said}"
    );
}
