/*!
Latency percentiles, mean and spread.

A percentile is the nearest rank, has a distribution-free interval, and is a gap if there are too few
queries for that interval: see `host-statistics`. Consecutive queries are correlated, so the width of the
interval depends on the effective sample size, not on the number of queries; for a p99 that depends on how
slow queries cluster. The attribute `effective-size` states it. If it is too small, as in a series that drifts, the
percentile is stated without an interval, and `interval` says why. An interval of one process does not apply to
another process.

The mean's interval needs an effective size of at least ten. This interval, and one over processes, is not stated if
it would reach below zero, since latencies are not negative: see `plugin-guest`.

With several processes, a value is the mean of theirs, and its interval is one over processes (Student's
*t*), so it includes the variance between processes. It is the
interval of the mean; the attributes `prediction-low` and `prediction-high` say where another process will lie.
A percentile needs enough queries in each of them. Minimum and maximum are those of all queries; `process-values` has
those of each process.

The meaning of a query depends on the scenario, and every value states it in its `query` attribute. In
`single-stream` it is one batch. In `offline` it is the whole set of samples, so its latency is the time until the
last one is done, and must not be compared with the latency of a batch. In `server` and `constant-rate` it counts from
the scheduled time, so it includes waiting in a queue.
*/

use host_statistics::{
    Moments, Quantile, SizedEstimate, TooFew, Undefined, effective_size, mean_interval,
    median_absolute_deviation, moments, order_statistics, processes_interval, sized_estimates,
};
use plugin_guest::{
    Case, Columns, Description, Direction, Error, Gap, LEAST_EFFECTIVE_SIZE, Measurement, Metric,
    NoOptions, below_zero,
};

/// The columns that are read.
const LATENCY: &str = "latency";
const PROCESS: &str = "process";

/// The percentiles that are stated.
const PERCENTILES: [Quantile; 5] =
    [Quantile::P50, Quantile::P90, Quantile::P95, Quantile::P99, Quantile::P99_9];

/// The metric.
pub struct Latency;

impl Metric for Latency {
    type Options = NoOptions;

    fn describe() -> Description {
        plugin_guest::describe!("latency")
    }

    fn columns() -> &'static [&'static str] {
        &[LATENCY, PROCESS]
    }

    fn compute(case: &Case, columns: &Columns, _: NoOptions) -> Result<Vec<Measurement>, Error> {
        let latencies = columns.unsigned(LATENCY);
        let queries = latencies.as_ref().map_or(0, |latencies| latencies.len());
        let query = match case.attributes.get("scenario").map(String::as_str) {
            Some("offline") => "the whole set of samples, until the last is done",
            Some("multi-stream") => "several samples that belong together, until the last is done",
            Some("server" | "constant-rate") => "one batch, from its scheduled time",
            _ => "one batch",
        };
        let processes = match (&latencies, columns.unsigned(PROCESS)) {
            (Ok(latencies), Ok(numbers)) => split(latencies, numbers)?,
            _ => Vec::new(),
        };
        let confidence = case.confidence();
        Ok(measurements(latencies, confidence)
            .into_iter()
            .map(|measurement| over_processes(measurement, &processes, confidence))
            .map(|measurement| {
                measurement
                    .with_attribute("queries", queries.to_string())
                    .with_attribute("query", query)
            })
            .collect())
    }
}

plugin_guest::export_metric!(Latency);

/// Returns the latencies of each process.
fn split<'a>(latencies: &'a [u64], numbers: &[u64]) -> Result<Vec<&'a [u64]>, Error> {
    if latencies.len() != numbers.len() {
        return Err(Error::Other(format!(
            "{} latencies and {} numbers of processes do not match",
            latencies.len(),
            numbers.len()
        )));
    }
    let mut rest = latencies;
    let split = numbers.chunk_by(|one, next| one == next).map(|process| {
        let (of_process, others) = rest.split_at(process.len());
        rest = others;
        of_process
    });
    Ok(split.collect())
}

/// The method of an interval over processes.
const STUDENT: &str = "Student's t over processes";

/// Statistic of one process.
type Statistic = Box<dyn Fn(&[u64]) -> f64>;

/// Returns the same value over processes, if there are several. An extreme stays the extreme of all queries, with that of
/// each process beside it.
fn over_processes(measurement: Measurement, processes: &[&[u64]], confidence: f64) -> Measurement {
    let name = measurement.metric.trim_start_matches("latency.").to_owned();
    let quantile = PERCENTILES.into_iter().find(|quantile| quantile.to_string() == name);
    if processes.len() < 2 || processes.iter().any(|process| process.is_empty()) {
        return measurement;
    }
    let statistic: Statistic = match (&*name, quantile) {
        ("mean", _) => Box::new(|values| moments(values).map_or(0.0, |found| found.mean)),
        (_, Some(quantile)) => Box::new(move |values| {
            order_statistics(values, &[quantile.rank(values.len())])[0] as f64
        }),
        ("minimum" | "maximum", _) => {
            let extreme = |process: &&[u64]| {
                let values = process.iter().copied();
                if name == "minimum" { values.min() } else { values.max() }
            };
            let of_each: Vec<f64> =
                processes.iter().filter_map(extreme).map(|value| value as f64).collect();
            return measurement
                .with_process_values(&of_each, confidence)
                .with_attribute("definition", "of all queries of all processes");
        }
        // The spreads, of which a process with one query has none.
        _ if processes.iter().any(|process| process.len() < 2) => return measurement,
        ("standard-deviation", _) => {
            Box::new(|values| moments(values).and_then(|found| found.deviation).unwrap_or_default())
        }
        ("median-absolute-deviation", _) => {
            Box::new(|values| median_absolute_deviation(values).unwrap_or_default())
        }
        _ => return measurement,
    };
    if let Some(quantile) = quantile {
        for (number, process) in processes.iter().enumerate() {
            let (needs, has) = (quantile.minimum_count(confidence), process.len());
            if has < needs {
                let reason = format!("process {}: needs {needs} queries, has {has}", number + 1);
                return self::measurement(&name, Err(Gap::not_measured(reason)));
            }
        }
    }
    let values: Vec<f64> = processes.iter().map(|process| statistic(process)).collect();
    let value = moments(&values).map_or(0.0, |found| found.mean);
    let found = self::measurement(&name, Ok(value))
        .with_process_values(&values, confidence)
        .with_attribute(
            "definition",
            match quantile {
                Some(_) => "nearest rank in each process, mean over processes",
                None if name == "median-absolute-deviation" => {
                    "median of the distances from the median, unscaled, in each process; mean over processes"
                }
                None => "mean over processes",
            },
        );
    match processes_interval(processes, statistic, confidence) {
        Ok(interval) => {
            found.with_interval_from_zero((interval.low, interval.high), confidence, STUDENT)
        }
        Err(Undefined::BelowZero) => found.without_interval(&below_zero(STUDENT)),
        Err(_) => found.without_interval(
            "all processes have the same value, so no uncertainty can be estimated",
        ),
    }
}

fn measurements(latencies: Result<&[u64], Gap>, confidence: f64) -> Vec<Measurement> {
    let sample = latencies.and_then(|latencies| {
        moments(latencies)
            .map(|moments| (latencies, moments))
            .ok_or_else(|| Gap::not_measured("no query was measured"))
    });
    let of = |read: fn(&[u64], &Moments<u64>) -> Result<f64, Gap>| {
        let sample = sample.as_ref().map_err(Gap::clone);
        sample.and_then(|(latencies, moments)| read(latencies, moments))
    };
    let deviation = of(|_, moments| {
        moments.deviation.ok_or_else(|| Gap::not_measured("needs 2 queries, has 1"))
    });
    let absolute_deviation = of(|latencies, _| match latencies {
        [_] => Err(Gap::not_measured("needs 2 queries, has 1")),
        some => Ok(median_absolute_deviation(some).expect("there are queries")),
    });
    let mut all = vec![
        mean(sample.as_ref(), confidence),
        measurement("standard-deviation", deviation),
        measurement("median-absolute-deviation", absolute_deviation)
            .with_attribute("definition", "median of the distances from the median, unscaled"),
        measurement("minimum", of(|_, moments| Ok(moments.minimum as f64))),
    ];
    all.extend(percentiles(sample.as_ref().map(|(latencies, _)| *latencies), confidence));
    all.push(measurement("maximum", of(|_, moments| Ok(moments.maximum as f64))));
    all
}

fn mean(sample: Result<&(&[u64], Moments<u64>), &Gap>, confidence: f64) -> Measurement {
    let (latencies, moments) = match sample {
        Ok(sample) => sample,
        Err(gap) => return measurement("mean", Err(gap.clone())),
    };
    let mean = measurement("mean", Ok(moments.mean));
    let size = effective_size(latencies);
    // A mean can be of one query; an interval needs more.
    if size < LEAST_EFFECTIVE_SIZE as f64 {
        return without_interval(mean, LEAST_EFFECTIVE_SIZE, size);
    }
    match mean_interval(latencies, confidence) {
        Ok(interval) => mean
            .with_interval_from_zero(
                (interval.low, interval.high),
                confidence,
                "Student's t, for the effective size",
            )
            .with_attribute("effective-size", whole(size)),
        // This count is more careful than the effective size, and is lower.
        Err(TooFew { has, .. }) => without_interval(mean, LEAST_EFFECTIVE_SIZE, has as f64),
    }
}

/// States the reason for a missing interval.
fn without_interval(measurement: Measurement, needs: usize, size: f64) -> Measurement {
    let size = whole(size);
    measurement
        .without_interval(&format!(
            "needs {needs} independent queries, but the effective size is {size}"
        ))
        .with_attribute("effective-size", size)
}

fn percentiles(latencies: Result<&[u64], &Gap>, confidence: f64) -> Vec<Measurement> {
    let estimates: Vec<Result<SizedEstimate<u64>, Gap>> = match latencies {
        Ok(latencies) => sized_estimates(latencies, &PERCENTILES, confidence)
            .into_iter()
            .map(|estimate| {
                estimate.map_err(|TooFew { needs, has }| {
                    Gap::not_measured(format!("needs {needs} queries, has {has}"))
                })
            })
            .collect(),
        Err(gap) => PERCENTILES.iter().map(|_| Err(gap.clone())).collect(),
    };
    PERCENTILES
        .iter()
        .zip(estimates)
        .map(|(quantile, estimate)| {
            let name = quantile.to_string();
            let SizedEstimate { value, interval, effective_size } = match estimate {
                Ok(estimate) => estimate,
                Err(gap) => return measurement(&name, Err(gap)),
            };
            let percentile =
                measurement(&name, Ok(value as f64)).with_attribute("definition", "nearest rank");
            match interval {
                Some((low, high)) => percentile
                    .with_interval_from_zero(
                        (low as f64, high as f64),
                        confidence,
                        "order statistics, distribution-free, for the effective size",
                    )
                    .with_attribute("effective-size", whole(effective_size)),
                None => {
                    without_interval(percentile, quantile.minimum_count(confidence), effective_size)
                }
            }
        })
        .collect()
}

/// Formats an effective size without its fraction, which is below its precision.
fn whole(size: f64) -> String {
    format!("{}", size as u64)
}

fn measurement(name: &str, value: Result<f64, Gap>) -> Measurement {
    Measurement::new(format!("latency.{name}"), value, "ns", Direction::Lower)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use host_statistics::Random;
    use plugin_guest::{Column, ColumnData};

    use super::*;

    fn compute(scenario: &str, latencies: Option<Vec<u64>>) -> BTreeMap<String, Measurement> {
        let attributes = [("scenario".to_owned(), scenario.to_owned())].into();
        let case = Case { id: "0123456789abcdef".into(), attributes };
        let columns: Vec<_> = latencies
            .map(|latencies| Column {
                name: LATENCY.into(),
                unit: "ns".into(),
                width: 1,
                data: ColumnData::Unsigned(latencies),
            })
            .into_iter()
            .collect();
        Latency::compute(&case, &columns.into(), NoOptions {})
            .expect("it takes no options")
            .into_iter()
            .map(|measurement| (measurement.metric.clone(), measurement))
            .collect()
    }

    fn value(of: &BTreeMap<String, Measurement>, metric: &str) -> Result<f64, String> {
        of[metric].value.clone().map_err(|gap| gap.reason)
    }

    /// Returns 1 to `count`, shuffled (R. Durstenfeld, 1964), so that neighbours are independent.
    fn shuffled(count: u64) -> Vec<u64> {
        let mut values: Vec<u64> = (1..=count).collect();
        let mut random = Random::from_seed(1);
        for last in (1..values.len()).rev() {
            values.swap(last, random.below(last as u64 + 1) as usize);
        }
        values
    }

    #[test]
    fn a_known_sample_has_known_values() {
        let found = compute("single-stream", Some(shuffled(5000)));
        assert_eq!(value(&found, "latency.mean"), Ok(2500.5));
        // √(n (n + 1) / 12) for 1 to n.
        let deviation = (5000.0 * 5001.0 / 12.0_f64).sqrt();
        let found_deviation = value(&found, "latency.standard-deviation").expect("a value");
        assert!((found_deviation - deviation).abs() < 1e-9, "{found_deviation}");
        assert_eq!(value(&found, "latency.median-absolute-deviation"), Ok(1250.0));
        assert_eq!(value(&found, "latency.minimum"), Ok(1.0));
        assert_eq!(value(&found, "latency.p50"), Ok(2500.0));
        assert_eq!(value(&found, "latency.p90"), Ok(4500.0));
        assert_eq!(value(&found, "latency.p95"), Ok(4750.0));
        assert_eq!(value(&found, "latency.p99"), Ok(4950.0));
        assert_eq!(value(&found, "latency.p99.9"), Ok(4995.0));
        assert_eq!(value(&found, "latency.maximum"), Ok(5000.0));
        assert_eq!(found.len(), 10);
        // scipy.stats.binom(5000, 0.99).ppf(0.025) and .ppf(0.975) + 1 are 4936 and 4964.
        let size: u64 = found["latency.p99"].attributes["effective-size"].parse().expect("a size");
        let (low, high) = found["latency.p99"].interval.expect("an interval");
        assert!((4000..=5000).contains(&size), "{size}");
        assert!((4931.0..=4936.0).contains(&low) && (4964.0..=4969.0).contains(&high), "{low}");
        let (low, high) = found["latency.mean"].interval.expect("an interval");
        // 1.96 standard errors are 40.
        assert!((2455.0..2462.0).contains(&low) && (2539.0..2546.0).contains(&high), "{low}");
        assert!(found.values().all(|one| one.unit == "ns" && one.direction == Direction::Lower));
        assert!(found.values().all(|one| one.attributes["queries"] == "5000"));
    }

    #[test]
    fn the_manifest_may_ask_for_another_confidence() {
        let attributes = [("confidence".to_owned(), "0.99".to_owned())].into();
        let case = Case { id: "0123456789abcdef".into(), attributes };
        let data = ColumnData::Unsigned(shuffled(5000));
        let column = Column { name: LATENCY.into(), unit: "ns".into(), width: 1, data };
        let found = Latency::compute(&case, &vec![column].into(), NoOptions {}).expect("values");
        let wide = found.into_iter().map(|one| (one.metric.clone(), one)).collect();
        let usual = compute("single-stream", Some(shuffled(5000)));
        let width = |of: &BTreeMap<String, Measurement>, metric: &str| {
            let (low, high) = of[metric].interval.expect("an interval");
            high - low
        };
        for metric in ["latency.mean", "latency.p50"] {
            // 2.576 standard errors instead of 1.960.
            let ratio = width(&wide, metric) / width(&usual, metric);
            assert!((1.28..1.35).contains(&ratio), "{metric}: {ratio}");
            assert_eq!(wide[metric].attributes["confidence"], "0.99");
        }
        // 3,688 queries are enough for a p99.9 at 95 %, and 5,296 at 99 %.
        assert!(usual["latency.p99.9"].value.is_ok() && wide["latency.p99.9"].value.is_err());
    }

    fn of_processes(latencies: Vec<u64>, processes: Vec<u64>) -> BTreeMap<String, Measurement> {
        let columns = [(LATENCY, latencies), (PROCESS, processes)].map(|(name, values)| Column {
            name: name.into(),
            unit: String::new(),
            width: 1,
            data: ColumnData::Unsigned(values),
        });
        Latency::compute(&Case::default(), &columns.to_vec().into(), NoOptions {})
            .expect("it takes no options")
            .into_iter()
            .map(|measurement| (measurement.metric.clone(), measurement))
            .collect()
    }

    #[test]
    fn what_differs_between_processes_is_in_the_interval() {
        // Three processes that are steady, but differ from one another.
        let levels = [20_000, 30_000, 40_000];
        let latencies =
            levels.iter().flat_map(|level| shuffled(500).into_iter().map(move |it| it + level));
        let numbers = (0..3).flat_map(|process| [process; 500]).collect();
        let found = of_processes(latencies.collect(), numbers);
        let p50 = &found["latency.p50"];
        assert_eq!(p50.value, Ok(30_250.0));
        assert_eq!(p50.attributes["processes"], "3");
        let of_each: Vec<f64> = p50.attributes["process-values"]
            .split(' ')
            .map(|value| value.parse().expect("a number"))
            .collect();
        assert_eq!(of_each.iter().sum::<f64>() / 3.0, *p50.value.as_ref().expect("a value"));
        // The medians are 10,000 apart: t with 2 degrees of freedom, 4.3027, times 10,000 / √3.
        let (low, high) = p50.interval.expect("an interval");
        assert!((low - (30_250.0 - 24_841.4)).abs() < 0.1, "{low}");
        assert!((high - (30_250.0 + 24_841.4)).abs() < 0.1, "{high}");
        // There are enough queries in total, but not in each process.
        let reason = value(&found, "latency.p99.9").expect_err("too few");
        assert_eq!(reason, "process 1: needs 3688 queries, has 500");
        assert_eq!(value(&found, "latency.minimum"), Ok(20_001.0));
        // At 95 %, three processes are few.
        assert_eq!(p50.attributes["few-processes"], "needs 5 processes, has 3");
    }

    #[test]
    fn every_value_has_one_of_each_process() {
        let slower = shuffled(500).into_iter().map(|it| 2 * it);
        let latencies = shuffled(500).into_iter().chain(slower);
        let numbers = (0..2).flat_map(|process| [process; 500]).collect();
        let found = of_processes(latencies.collect(), numbers);
        for (metric, values, stated) in [
            ("latency.minimum", "1 2", 1.0),
            ("latency.maximum", "500 1000", 1000.0),
            ("latency.median-absolute-deviation", "125 250", 187.5),
        ] {
            assert_eq!(found[metric].attributes["process-values"], values, "{metric}");
            assert_eq!(value(&found, metric), Ok(stated), "{metric}");
        }
        // √(n (n + 1) / 12) for 1 to n, and twice that: the spread within a process, not between them.
        let deviation = (500.0 * 501.0 / 12.0_f64).sqrt();
        let spread = value(&found, "latency.standard-deviation").expect("a value");
        assert!((spread - 1.5 * deviation).abs() < 1e-9, "{spread}");
        assert!(found["latency.maximum"].interval.is_none());
        let single = of_processes(vec![5, 6], vec![0, 1]);
        assert!(!single["latency.standard-deviation"].attributes.contains_key("process-values"));
    }

    #[test]
    fn an_interval_over_processes_does_not_reach_below_zero() {
        // The medians are 250, 10,250 and 20,250, for which the formula says −14,591.4.
        let levels = [0, 10_000, 20_000];
        let latencies =
            levels.iter().flat_map(|level| shuffled(500).into_iter().map(move |it| it + level));
        let numbers = (0..3).flat_map(|process| [process; 500]).collect();
        let found = of_processes(latencies.collect(), numbers);
        for name in ["latency.p50", "latency.mean"] {
            assert!(found[name].value.is_ok(), "{name}");
            assert_eq!(found[name].interval, None, "{name}");
            assert_eq!(
                found[name].attributes["interval"],
                "none: the spread is too wide for so few values: by Student's t over processes it \
                 would reach below zero",
                "{name}"
            );
        }
    }

    #[test]
    fn processes_that_say_the_same_have_no_interval() {
        let found = of_processes(vec![5; 20], [vec![0; 10], vec![1; 10]].concat());
        assert_eq!(value(&found, "latency.p50"), Ok(5.0));
        assert_eq!(found["latency.p50"].interval, None);
        let why = &found["latency.p50"].attributes["interval"];
        assert!(why.starts_with("none: all processes have the same value"), "{why}");
    }

    #[test]
    fn a_mean_has_an_interval_from_ten_independent_queries_on() {
        let nine = compute("single-stream", Some(vec![11, 14, 10, 13, 12, 14, 11, 13, 10]));
        assert!(nine["latency.mean"].value.is_ok());
        assert_eq!(nine["latency.mean"].interval, None);
        let why = &nine["latency.mean"].attributes["interval"];
        assert!(why.starts_with("none: needs 10 independent queries, but the effective size is "));
        // Alternating neighbours do not reduce the effective size.
        let ten = compute("single-stream", Some(vec![10, 14, 11, 13, 10, 14, 11, 13, 10, 14]));
        assert_eq!(ten["latency.mean"].attributes["effective-size"], "10");
        assert!(ten["latency.mean"].interval.is_some());
    }

    /// One query in twelve stalls for so long that the mean does not exceed its standard error.
    #[test]
    fn the_interval_of_a_mean_does_not_reach_below_zero() {
        let mut latencies = vec![100; 12];
        latencies[5] = 1_000_000;
        let found = compute("single-stream", Some(latencies));
        let mean = &found["latency.mean"];
        assert_eq!(mean.value, Ok(1_001_100.0 / 12.0));
        assert_eq!(mean.interval, None);
        assert_eq!(
            mean.attributes["interval"],
            "none: the spread is too wide for so few values: by Student's t, for the effective \
             size it would reach below zero"
        );
    }

    #[test]
    fn few_queries_support_few_percentiles() {
        let found = compute("single-stream", Some(shuffled(50)));
        assert_eq!(value(&found, "latency.p90"), Ok(45.0));
        assert_eq!(value(&found, "latency.p95"), Err("needs 72 queries, has 50".into()));
        assert_eq!(value(&found, "latency.p99.9"), Err("needs 3688 queries, has 50".into()));
        assert_eq!(found["latency.p99"].interval, None);

        let found = compute("single-stream", Some(vec![7]));
        assert_eq!(value(&found, "latency.mean"), Ok(7.0));
        assert_eq!(
            value(&found, "latency.standard-deviation"),
            Err("needs 2 queries, has 1".into())
        );
        assert_eq!(
            value(&found, "latency.median-absolute-deviation"),
            Err("needs 2 queries, has 1".into())
        );
        assert_eq!(value(&found, "latency.p50"), Err("needs 6 queries, has 1".into()));
    }

    /// Every twenty queries, the latency grows by a microsecond, as if something filled up.
    #[test]
    fn queries_that_are_alike_have_values_and_no_intervals() {
        let drifting = (0..2000).map(|query| 1_000_000 + query / 20 * 1000 + query * 7 % 20);
        let found = compute("single-stream", Some(drifting.collect()));
        for (name, expected) in [("mean", 1_049_509.5), ("p50", 1_049_019.0), ("p99", 1_098_019.0)]
        {
            let one = &found[&format!("latency.{name}")];
            assert_eq!(one.value, Ok(expected), "{name}");
            assert_eq!(one.interval, None, "{name}");
            assert!(one.attributes["interval"].starts_with("none: needs "), "{name}");
        }
        assert_eq!(
            found["latency.p50"].attributes["interval"],
            "none: needs 6 independent queries, but the effective size is 1"
        );
        // Too few queries are still refused.
        assert_eq!(value(&found, "latency.p99.9"), Err("needs 3688 queries, has 2000".into()));
    }

    #[test]
    fn nothing_measured_is_a_gap_for_every_value() {
        for (latencies, reason) in
            [(None, "the case has no record of `latency`"), (Some(vec![]), "no query was measured")]
        {
            let found = compute("single-stream", latencies);
            assert_eq!(found.len(), 10);
            for metric in found.keys() {
                assert_eq!(value(&found, metric), Err(reason.into()), "{metric}");
            }
        }
    }

    #[test]
    fn what_a_query_is_depends_on_the_scenario() {
        let query =
            |scenario| compute(scenario, Some(vec![1]))["latency.mean"].attributes["query"].clone();
        assert_eq!(query("single-stream"), "one batch");
        assert_eq!(query("offline"), "the whole set of samples, until the last is done");
    }
}
