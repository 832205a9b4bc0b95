//! Values against NumPy's and SciPy's: reference.py says how they were made.

use host_statistics::{
    Quantile, median, median_absolute_deviation, moments, order_statistics, wilson_interval,
};
use serde_json::Value;

fn reference() -> Value {
    serde_json::from_str(include_str!("reference.json")).expect("the reference values parse")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn whole(value: &Value) -> u64 {
    value.as_u64().expect("a whole number")
}

fn real(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

fn quantile(value: &Value) -> Quantile {
    let part = |index: usize| u32::try_from(whole(&value[index])).expect("a small number");
    Quantile::new(part(0), part(1)).expect("a fraction")
}

/// Within a few units in the last place.
#[track_caller]
fn assert_close(found: f64, expected: f64, what: &str) {
    let allowed = 1e-13 * expected.abs();
    assert!((found - expected).abs() <= allowed, "{what}: {found:?}, reference {expected:?}");
}

#[test]
fn quantiles_and_moments_of_samples() {
    for sample in list(&reference()["samples"]) {
        let name = sample["name"].as_str().expect("a name");
        let values: Vec<u64> = list(&sample["values"]).iter().map(whole).collect();
        let floats: Vec<f64> = values.iter().map(|&value| value as f64).collect();
        for entry in list(&sample["quantiles"]) {
            let quantile = quantile(&entry["quantile"]);
            let rank = [quantile.rank(values.len())];
            let expected = whole(&entry["value"]);
            assert_eq!(order_statistics(&values, &rank), [expected], "{name} {quantile}");
            assert_eq!(order_statistics(&floats, &rank), [expected as f64], "{name} {quantile}");
        }
        let found = moments(&values).expect("values");
        assert_eq!(Some(&found.minimum), values.iter().min(), "{name}");
        assert_eq!(Some(&found.maximum), values.iter().max(), "{name}");
        assert_close(found.mean, real(&sample["mean"]), name);
        match found.deviation {
            Some(deviation) => assert_close(deviation, real(&sample["deviation"]), name),
            None => assert!(sample["deviation"].is_null(), "{name}"),
        }
        assert_eq!(median(&values), sample["median"].as_f64(), "{name}");
        let deviation = median_absolute_deviation(&values);
        assert_eq!(deviation, sample["median_absolute_deviation"].as_f64(), "{name}");
    }
}

#[test]
fn interval_ranks_by_the_binomial_distribution() {
    for entry in list(&reference()["intervals"]) {
        let count = whole(&entry["count"]) as usize;
        let quantile = quantile(&entry["quantile"]);
        let found = quantile.interval_ranks(count, real(&entry["confidence"]));
        let expected = entry["ranks"]
            .as_array()
            .map(|ranks| (whole(&ranks[0]) as usize, whole(&ranks[1]) as usize));
        assert_eq!(found, expected, "{entry}");
    }
}

#[test]
fn wilson_intervals() {
    for entry in list(&reference()["wilson"]) {
        let (low, high) =
            wilson_interval(whole(&entry["successes"]), whole(&entry["trials"])).expect("trials");
        assert!((low - real(&entry["interval"][0])).abs() < 1e-15, "{entry}: {low}");
        assert!((high - real(&entry["interval"][1])).abs() < 1e-15, "{entry}: {high}");
    }
    assert_eq!(wilson_interval(0, 0), None);
    assert_eq!(wilson_interval(3, 2), None);
}
