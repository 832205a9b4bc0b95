use std::collections::BTreeMap;

use plugin_guest::{Column, ColumnData};

use super::*;

type Found = BTreeMap<String, Measurement>;

fn whole_column(name: &str, values: &[u64]) -> Column {
    let data = ColumnData::Unsigned(values.into());
    Column { name: name.into(), unit: "ns".into(), width: 1, data }
}

fn real_column(name: &str, values: &[f64]) -> Column {
    let data = ColumnData::Double(values.into());
    Column { name: name.into(), unit: "1".into(), width: 1, data }
}

fn compute(mode: &str, columns: Vec<Column>, options: Options) -> Found {
    let attributes = [("mode".to_owned(), mode.to_owned())].into();
    let case = Case { id: "c".into(), attributes };
    let found =
        Training::compute(&case, &columns.into(), options).expect("options that make sense");
    found.into_iter().map(|one| (one.metric.clone(), one)).collect()
}

fn value(found: &Found, name: &str) -> Result<f64, String> {
    found[&format!("training.{name}")].value.clone().map_err(|gap| gap.reason)
}

fn steps() -> Vec<Column> {
    vec![
        whole_column(LATENCY, &[100, 110, 120]),
        whole_column(WARM_UP_LATENCY, &[300, 200]),
        whole_column(ITEMS, &[16; 3]),
        whole_column(FIRST, &[5_000]),
        whole_column("phase.forward", &[40, 44, 48]),
        whole_column("phase.backward", &[50, 55, 60]),
        real_column(MARKED, &[110.0]),
        real_column(UNMARKED, &[100.0]),
        real_column(ERROR, &[0.5]),
        whole_column(TURNS, &[30]),
    ]
}

#[test]
fn phases_are_parts_of_the_measured_steps() {
    let found = compute("training", steps(), Options::default());
    assert_eq!(value(&found, "step"), Ok(110.0));
    assert_eq!(value(&found, "first-step"), Ok(5_000.0));
    assert_eq!(value(&found, "warm-up-step"), Ok(250.0));
    assert_eq!(value(&found, "phase.forward"), Ok(44.0));
    assert_eq!(value(&found, "share.backward"), Ok(50.0));
    assert_eq!(value(&found, "explained"), Ok(90.0));
    let absent = "a step has no phase `zeroing`; it has forward, backward";
    assert_eq!(value(&found, "phase.zeroing"), Err(absent.into()));
}

#[test]
fn the_throughput_is_that_of_steps_without_marks() {
    let found = compute("training", steps(), Options::default());
    assert_eq!(value(&found, "throughput"), Ok(16.0 / 100.0 * 1e9));
    let cost = &found["training.cost-of-looking"];
    assert!((cost.value.clone().expect("a value") - 10.0).abs() < 1e-9);
    // t(0.975; 29) = 2.045, and the error is 0.5 % of an unmarked step.
    let (low, high) = cost.interval.expect("an interval");
    assert!((low - 8.977).abs() < 1e-3 && (high - 11.023).abs() < 1e-3, "{low} {high}");
    let few = |turns| {
        let mut columns = steps();
        columns.pop();
        columns.push(whole_column(TURNS, &[turns]));
        compute("training", columns, Options::default())["training.cost-of-looking"].interval
    };
    assert!(few(9).is_none() && few(10).is_some());
}

#[test]
fn the_memory_of_phases_is_stated_or_why_not() {
    let mut columns = steps();
    columns.push(whole_column("phase-memory.forward", &[4_096]));
    let found = compute("training", columns, Options::default());
    assert_eq!(value(&found, "peak-memory.forward"), Ok(4_096.0));
    let absent = "the memory of this phase was not measured";
    assert_eq!(value(&found, "peak-memory.backward"), Err(absent.into()));
}

#[test]
fn steps_without_marks_are_their_own_throughput() {
    let columns = vec![whole_column(LATENCY, &[100, 300]), whole_column(ITEMS, &[8; 2])];
    let found = compute("training", columns, Options::default());
    assert_eq!(value(&found, "throughput"), Ok(8.0 / 200.0 * 1e9));
    for name in ["cost-of-looking", "explained", "phase.copy"] {
        assert_eq!(value(&found, name), Err("the backend marked no phases".into()), "{name}");
    }
}

fn epochs() -> Vec<Column> {
    vec![
        real_column(STEP_LOSS, &[2.5, 2.0, 1.0, 0.5]),
        real_column(EPOCH_LOSS, &[2.25, 0.75]),
        whole_column(EPOCH_TIME, &[1_000, 3_000]),
        whole_column(EPOCH_READING, &[100, 100]),
        real_column(EPOCH_ACCURACY, &[0.9, 0.98]),
        whole_column(EPOCH_EXAMPLES, &[32]),
    ]
}

#[test]
fn epochs_have_losses_times_and_accuracies() {
    let wanted = |accuracy| Options { accuracy: Some(accuracy), ..Options::default() };
    let found = compute("training", epochs(), wanted(0.97));
    assert_eq!(value(&found, "loss"), Ok(0.75));
    assert_eq!(found["training.loss"].attributes["by-epoch"], "2.250000 0.750000");
    assert_eq!(found["training.loss"].attributes["first-step"], "2.5");
    assert_eq!(value(&found, "test-accuracy"), Ok(0.98));
    assert_eq!(value(&found, "epoch"), Ok(2_000.0));
    assert_eq!(value(&found, "epoch-throughput"), Ok(32.0 / 2_000.0 * 1e9));
    assert_eq!(value(&found, "epoch-reading"), Ok(5.0));
    assert_eq!(value(&found, "time"), Ok(4_000.0));
    assert_eq!(value(&found, "time-to-accuracy"), Ok(4_000.0));
    assert_eq!(value(&compute("training", epochs(), wanted(0.9)), "time-to-accuracy"), Ok(1_000.0));
    let found = compute("training", epochs(), wanted(0.99));
    let never = "no epoch reached 0.99; the highest was 0.98";
    assert_eq!(value(&found, "time-to-accuracy"), Err(never.into()));
    let plain = compute("training", epochs(), Options::default());
    assert!(!plain.contains_key("training.time-to-accuracy"));
}

/// As many epochs as processes are not one for each.
#[test]
fn epochs_are_not_divided_among_processes() {
    let mut columns = epochs();
    columns.push(whole_column(LATENCY, &[100, 100, 200, 200]));
    columns.push(whole_column(PROCESS, &[0, 0, 1, 1]));
    let found = compute("training", columns, Options::default());
    assert_eq!(value(&found, "time"), Ok(4_000.0));
    assert_eq!(value(&found, "step"), Ok(150.0));
    assert_eq!(found["training.step"].attributes["process-values"], "100 200");
}

#[test]
fn a_loss_that_is_not_finite_is_a_gap() {
    let columns =
        vec![real_column(EPOCH_LOSS, &[2.25, f64::NAN]), whole_column(EPOCH_TIME, &[1_000, 3_000])];
    let found = compute("training", columns, Options::default());
    assert_eq!(value(&found, "loss"), Err("the loss is not a finite number".into()));
    assert!(value(&found, "test-accuracy").unwrap_err().contains("test-examples"));
}

#[test]
fn without_epochs_and_in_other_modes_there_are_gaps() {
    let found = compute("training", steps(), Options::default());
    let none = "the manifest asks for no epochs; set `epochs` under `[measure]`";
    for name in ["loss", "test-accuracy", "epoch", "time"] {
        assert_eq!(value(&found, name), Err(none.into()), "{name}");
    }
    let inference = compute("inference", steps(), Options::default());
    assert!(inference.keys().eq(found.keys()));
    for one in inference.values() {
        let reason = one.value.clone().expect_err("a gap").reason;
        assert_eq!(reason, "a query of the mode `inference` is not a training step");
        assert!(one.interval.is_none());
    }
}

#[test]
fn an_accuracy_that_cannot_be_is_refused() {
    let options = Options { accuracy: Some(97.0), ..Options::default() };
    let error = Training::compute(&Case::default(), &Columns::default(), options).unwrap_err();
    assert_eq!(error.to_string(), "options: `accuracy` is above 0 and at most 1, got 97");
}
