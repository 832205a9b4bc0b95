//! Values against NumPy's and SciPy's: reference.py says how they were made.

use host_statistics::{
    MannWhitneyMethod, Quantile, Resampling, autocorrelation, bca_interval, deviation_outliers,
    incomplete_beta, mann_whitney, median, median_absolute_deviation, moments, normal_quantile,
    normal_tail, order_statistics, percentile_interval, processes_needed, student_quantile,
    tukey_outliers, wilson_interval,
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
            wilson_interval(whole(&entry["successes"]), whole(&entry["trials"]), 0.95)
                .expect("trials");
        assert!((low - real(&entry["interval"][0])).abs() < 1e-15, "{entry}: {low}");
        assert!((high - real(&entry["interval"][1])).abs() < 1e-15, "{entry}: {high}");
    }
    assert_eq!(wilson_interval(0, 0, 0.95), None);
    assert_eq!(wilson_interval(3, 2, 0.95), None);
}

/// Compares a value with its reference, computed in another way, to 1e-12 of the value.
#[track_caller]
fn assert_near(found: f64, expected: f64, what: &str) {
    let allowed = 1e-12 * expected.abs();
    assert!((found - expected).abs() <= allowed, "{what}: {found:?}, reference {expected:?}");
}

fn reals(value: &Value) -> Vec<f64> {
    list(value).iter().map(real).collect()
}

#[test]
fn distributions() {
    let reference = &reference()["distributions"];
    for entry in list(&reference["incomplete_beta"]) {
        let [x, a, b, expected] = reals(entry)[..] else { panic!("four numbers") };
        if expected < 1e-290 {
            assert!(incomplete_beta(x, a, b) < 1e-290, "{entry}");
        } else {
            assert_near(incomplete_beta(x, a, b), expected, &entry.to_string());
        }
    }
    for entry in list(&reference["normal_tail"]) {
        assert_near(normal_tail(real(&entry[0])), real(&entry[1]), &entry.to_string());
    }
    for entry in list(&reference["normal_quantile"]) {
        assert_near(normal_quantile(real(&entry[0])), real(&entry[1]), &entry.to_string());
    }
    for entry in list(&reference["student_quantile"]) {
        let found = student_quantile(real(&entry[0]), real(&entry[1]));
        assert_near(found, real(&entry[2]), &entry.to_string());
    }
}

#[test]
fn autocorrelations() {
    for entry in list(&reference()["series"]) {
        let expected = reals(&entry["expected"]);
        let found = autocorrelation(&reals(&entry["values"]), expected.len() - 1).expect("spread");
        for (lag, (found, expected)) in found.iter().zip(&expected).enumerate() {
            // The sums cancel, so that what counts is the error beside the variance.
            assert!((found - expected).abs() < 1e-12, "{} at {lag}: {found}", entry["name"]);
        }
    }
}

#[test]
fn outliers() {
    let reference = reference();
    for (entry, sample) in list(&reference["outliers"]).iter().zip(list(&reference["samples"])) {
        let values: Vec<u64> = list(&sample["values"]).iter().map(whole).collect();
        let found = tukey_outliers(&values);
        let counts = [found.severe_low, found.mild_low, found.mild_high, found.severe_high];
        let expected = ["severe_low", "mild_low", "mild_high", "severe_high"];
        assert_eq!(counts.map(|one| one as u64), expected.map(|key| whole(&entry[key])));
        assert_eq!(found.located.len(), counts.iter().sum::<usize>());
        let expected = entry["by_deviation"]
            .as_array()
            .map(|indices| indices.iter().map(|index| whole(index) as usize).collect::<Vec<_>>());
        assert_eq!(deviation_outliers(&values).ok(), expected, "{}", entry["name"]);
    }
}

#[test]
fn mann_whitney_tests() {
    for entry in list(&reference()["mann_whitney"]) {
        let (first, second) = (reals(&entry["first"]), reals(&entry["second"]));
        let found = mann_whitney(&first, &second).expect("values");
        assert_eq!(found.statistic, real(&entry["statistic"]), "{entry}");
        assert_near(found.probability, real(&entry["probability"]), &entry.to_string());
        assert_eq!(found.method == MannWhitneyMethod::Exact, entry["exact"] == true, "{entry}");
        let pairs = (first.len() * second.len()) as f64;
        assert_eq!(found.first_larger, found.statistic / pairs, "{entry}");
    }
}

#[test]
fn bootstraps_of_the_same_resamples() {
    for entry in list(&reference()["bootstrap"]) {
        let statistic = |values: &[f64]| {
            let found = moments(values).expect("values");
            if entry["statistic"] == "mean" { found.mean } else { found.deviation.expect("two") }
        };
        let resampling = Resampling {
            resamples: whole(&entry["resamples"]) as usize,
            confidence: real(&entry["confidence"]),
            seed: whole(&entry["seed"]),
        };
        let values = reals(&entry["values"]);
        let what = entry["statistic"].as_str().expect("a name");
        let found = percentile_interval(&values, statistic, &resampling).expect("defined");
        assert_near(found.low, real(&entry["percentile"][0]), what);
        assert_near(found.high, real(&entry["percentile"][1]), what);
        let found = bca_interval(&values, statistic, &resampling).expect("defined");
        assert_near(found.bias, real(&entry["bias"]), what);
        assert_near(found.acceleration, real(&entry["acceleration"]), what);
        assert_near(found.interval.low, real(&entry["bca"][0]), what);
        assert_near(found.interval.high, real(&entry["bca"][1]), what);
    }
}

/// By SciPy's `t.ppf` and `norm.ppf`: at 95 %, 3.18 / 1.96 = 1.62 with 4 processes and 1.42 with 5.
#[test]
fn few_processes_are_those_whose_spread_is_hardly_known() {
    let needed = [0.8, 0.9, 0.95, 0.99, 0.999].map(processes_needed);
    assert_eq!(needed, [3, 4, 5, 7, 10]);
}
