/*!
Latency percentiles, mean and spread.

A percentile is the nearest rank, comes with a distribution-free interval at 95 %, and is a gap
where the queries are too few for that interval to exist: `host-statistics` argues both. The
intervals assume that queries are independent, and say nothing of what another process would
measure. Where slow queries come in bursts or latencies wander, they are too narrow; the host warns
of a drift from beginning to end, and of nothing finer yet.

What a query is depends on the scenario, and every value says it in its `query` attribute. In
`single-stream` it is one batch. In `offline` it is the whole set of samples, so that its latency
is the time until the last of them is done: a figure of its own, and not to be compared with the
latency of a batch.
*/

use host_statistics::{Estimate, Quantile, estimates, moments};
use plugin_guest::{
    Case, Columns, Description, Direction, Error, Gap, Measurement, Metric, NoOptions,
};

/// The column that is read.
const LATENCY: &str = "latency";

/// Confidence of the intervals.
const CONFIDENCE: f64 = 0.95;

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
        &[LATENCY]
    }

    fn compute(case: &Case, columns: &Columns, _: NoOptions) -> Result<Vec<Measurement>, Error> {
        let latencies = columns.unsigned(LATENCY);
        let queries = latencies.as_ref().map_or(0, |latencies| latencies.len());
        let query = match case.attributes.get("scenario").map(String::as_str) {
            Some("offline") => "the whole set of samples, until the last is done",
            _ => "one batch",
        };
        Ok(measurements(latencies)
            .into_iter()
            .map(|measurement| {
                measurement
                    .with_attribute("queries", queries.to_string())
                    .with_attribute("query", query)
            })
            .collect())
    }
}

plugin_guest::export_metric!(Latency);

fn measurements(latencies: Result<&[u64], Gap>) -> Vec<Measurement> {
    let sample = latencies.and_then(|latencies| {
        moments(latencies)
            .map(|moments| (latencies, moments))
            .ok_or_else(|| Gap::not_measured("no query was measured"))
    });
    let of = |read: fn(&host_statistics::Moments<u64>) -> Result<f64, Gap>| {
        sample.as_ref().map_err(Gap::clone).and_then(|(_, moments)| read(moments))
    };
    let mut all = vec![
        measurement("mean", of(|moments| Ok(moments.mean))),
        measurement(
            "standard-deviation",
            of(|moments| {
                moments.deviation.ok_or_else(|| Gap::not_measured("needs 2 queries, has 1"))
            }),
        ),
        measurement("minimum", of(|moments| Ok(moments.minimum as f64))),
    ];
    all.extend(percentiles(sample.as_ref().map(|(latencies, _)| *latencies)));
    all.push(measurement("maximum", of(|moments| Ok(moments.maximum as f64))));
    all
}

fn percentiles(latencies: Result<&[u64], &Gap>) -> Vec<Measurement> {
    let estimates: Vec<Result<Estimate<u64>, Gap>> = match latencies {
        Ok(latencies) => estimates(latencies, &PERCENTILES, CONFIDENCE)
            .into_iter()
            .map(|estimate| {
                estimate.map_err(|refusal| {
                    let host_statistics::TooFew { needs, has } = refusal;
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
            match estimate {
                Ok(Estimate { value, low, high }) => measurement(&name, Ok(value as f64))
                    .with_interval(low as f64, high as f64)
                    .with_attribute("confidence", CONFIDENCE.to_string())
                    .with_attribute("definition", "nearest rank")
                    .with_attribute("interval", "order statistics, distribution-free"),
                Err(gap) => measurement(&name, Err(gap)),
            }
        })
        .collect()
}

fn measurement(name: &str, value: Result<f64, Gap>) -> Measurement {
    Measurement::new(format!("latency.{name}"), value, "ns", Direction::Lower)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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

    #[test]
    fn a_known_sample_has_known_values() {
        // 1 to 5000, out of order: 3 and 5000 have no common divisor but 1.
        let found = compute("single-stream", Some((0..5000).map(|i| i * 3 % 5000 + 1).collect()));
        assert_eq!(value(&found, "latency.mean"), Ok(2500.5));
        // √(n (n + 1) / 12) for 1 to n.
        let deviation = (5000.0 * 5001.0 / 12.0_f64).sqrt();
        let found_deviation = value(&found, "latency.standard-deviation").expect("a value");
        assert!((found_deviation - deviation).abs() < 1e-9, "{found_deviation}");
        assert_eq!(value(&found, "latency.minimum"), Ok(1.0));
        assert_eq!(value(&found, "latency.p50"), Ok(2500.0));
        assert_eq!(value(&found, "latency.p90"), Ok(4500.0));
        assert_eq!(value(&found, "latency.p95"), Ok(4750.0));
        assert_eq!(value(&found, "latency.p99"), Ok(4950.0));
        assert_eq!(value(&found, "latency.p99.9"), Ok(4995.0));
        assert_eq!(value(&found, "latency.maximum"), Ok(5000.0));
        assert_eq!(found.len(), 9);
        // scipy.stats.binom(5000, 0.99).ppf(0.025) and .ppf(0.975) + 1.
        assert_eq!(found["latency.p99"].interval, Some((4936.0, 4964.0)));
        assert!(found.values().all(|one| one.unit == "ns" && one.direction == Direction::Lower));
        assert!(found.values().all(|one| one.attributes["queries"] == "5000"));
    }

    #[test]
    fn few_queries_support_few_percentiles() {
        let found = compute("single-stream", Some((1..=50).collect()));
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
        assert_eq!(value(&found, "latency.p50"), Err("needs 6 queries, has 1".into()));
    }

    #[test]
    fn nothing_measured_is_a_gap_for_every_value() {
        for (latencies, reason) in
            [(None, "the case has no column `latency`"), (Some(vec![]), "no query was measured")]
        {
            let found = compute("single-stream", latencies);
            assert_eq!(found.len(), 9);
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
