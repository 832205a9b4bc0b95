//! Width of the middle half of the latencies, in nanoseconds and relative to the median.

use plugin_guest::{Case, Columns, Description, Direction, Error, Gap, Measurement, Metric};
use serde::Deserialize;

/// The metric.
pub struct InterquartileRange;

/// Options in the manifest: the two percentiles that bound the range.
#[derive(Deserialize)]
#[serde(default)]
pub struct Options {
    low: f64,
    high: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { low: 25.0, high: 75.0 }
    }
}

impl Metric for InterquartileRange {
    type Options = Options;

    fn describe() -> Description {
        plugin_guest::describe!("interquartile-range", {
            "low" => "Lower percentile; 25 by default.",
            "high" => "Upper percentile; 75 by default.",
        })
    }

    fn columns() -> &'static [&'static str] {
        &["latency"]
    }

    fn compute(_: &Case, columns: &Columns, options: Options) -> Result<Vec<Measurement>, Error> {
        let Options { low, high } = options;
        // Invalid options are an error: the user has to change the manifest.
        if !(0.0 < low && low < high && high <= 100.0) {
            let reason = format!("0 < low < high <= 100 must hold, and low is {low}, high {high}");
            return Err(Error::Options(reason));
        }
        // A value that cannot be computed is a gap with a reason, never a zero.
        let range = columns.unsigned("latency").and_then(|latencies| {
            if latencies.len() < 4 {
                return Err(Gap::not_measured(format!("needs 4 queries, has {}", latencies.len())));
            }
            let mut sorted = latencies.to_vec();
            sorted.sort_unstable();
            let range = percentile(&sorted, high) - percentile(&sorted, low);
            Ok((range, percentile(&sorted, 50.0)))
        });
        let relative = range.clone().and_then(|(range, median)| {
            if median == 0.0 {
                Err(Gap::unsupported("the median is zero"))
            } else {
                Ok(range / median)
            }
        });
        let absolute = range.map(|(range, _)| range);
        let definition = format!("p{high} less p{low}, each by the nearest rank");
        Ok(vec![
            Measurement::new("interquartile-range.latency", absolute, "ns", Direction::Lower)
                .with_attribute("definition", definition),
            Measurement::new("interquartile-range.relative", relative, "1", Direction::Lower),
        ])
    }
}

plugin_guest::export_metric!(InterquartileRange);

/// Returns the nearest rank: the smallest value that `percent` of all values do not exceed.
fn percentile(sorted: &[u64], percent: f64) -> f64 {
    let rank = (sorted.len() as f64 * percent / 100.0).ceil().max(1.0) as usize;
    sorted[rank - 1] as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin_guest::{Column, ColumnData};

    fn compute(latencies: Vec<u64>, options: Options) -> Result<Vec<Measurement>, Error> {
        let latency = Column {
            name: "latency".into(),
            unit: "ns".into(),
            width: 1,
            data: ColumnData::Unsigned(latencies),
        };
        InterquartileRange::compute(&Case::default(), &Columns::from(vec![latency]), options)
    }

    #[test]
    fn the_middle_half_of_a_hundred() {
        let values = compute((1..=100).rev().collect(), Options::default()).unwrap();
        assert_eq!(values[0].value, Ok(50.0));
        assert_eq!(values[1].value, Ok(1.0));
    }

    #[test]
    fn too_few_queries_are_a_gap() {
        let values = compute(vec![1, 2, 3], Options::default()).unwrap();
        assert_eq!(values[0].value.as_ref().unwrap_err().reason, "needs 4 queries, has 3");
    }

    #[test]
    fn a_range_upside_down_is_refused() {
        let error = compute(vec![1, 2, 3, 4], Options { low: 75.0, high: 25.0 }).unwrap_err();
        assert!(error.to_string().contains("low is 75, high 25"));
    }
}
