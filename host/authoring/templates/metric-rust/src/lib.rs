//! The slowest query of a case, and how many times slower it is than a percentile of all.

use plugin_guest::{Case, Columns, Description, Direction, Error, Gap, Measurement, Metric};
use serde::Deserialize;

/// The metric.
pub struct {{pascal}};

/// Options in the manifest: the percentile that the slowest query is compared with.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    percentile: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { percentile: 50.0 }
    }
}

impl Metric for {{pascal}} {
    type Options = Options;

    fn describe() -> Description {
        // Version, summary and licence are those of Cargo.toml.
        plugin_guest::describe!("{{name}}", {
            "percentile" => "Percentile that the slowest query is compared with; 50 by default.",
        })
    }

    fn columns() -> &'static [&'static str] {
        &["latency"]
    }

    fn compute(_: &Case, columns: &Columns, options: Options) -> Result<Vec<Measurement>, Error> {
        // Invalid options are an error: the user has to change the manifest.
        let percentile = options.percentile;
        if !(0.0 < percentile && percentile <= 100.0) {
            let reason = format!("percentile must be above 0 and at most 100, got {percentile}");
            return Err(Error::Options(reason));
        }
        // A value that cannot be computed is a gap with a reason, never a zero.
        let sorted = columns.unsigned("latency").and_then(|latencies| {
            if latencies.is_empty() {
                return Err(Gap::not_measured("the case has no queries"));
            }
            let mut sorted = latencies.to_vec();
            sorted.sort_unstable();
            Ok(sorted)
        });
        let slowest = sorted.clone().map(|sorted| sorted[sorted.len() - 1] as f64);
        let ratio = sorted.and_then(|sorted| {
            // The nearest rank: the smallest value that this part of all values do not exceed.
            let rank = (sorted.len() as f64 * percentile / 100.0).ceil().max(1.0) as usize;
            match sorted[rank - 1] {
                0 => Err(Gap::unsupported("the percentile is zero")),
                usual => Ok(sorted[sorted.len() - 1] as f64 / usual as f64),
            }
        });
        let definition = format!("slowest latency over p{percentile}, by the nearest rank");
        Ok(vec![
            Measurement::new("{{name}}.slowest", slowest, "ns", Direction::Lower),
            Measurement::new("{{name}}.ratio", ratio, "1", Direction::Lower)
                .with_attribute("definition", definition),
        ])
    }
}

plugin_guest::export_metric!({{pascal}});

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
        {{pascal}}::compute(&Case::default(), &Columns::from(vec![latency]), options)
    }

    #[test]
    fn the_slowest_of_four() {
        let values = compute(vec![10, 40, 20, 30], Options::default()).unwrap();
        assert_eq!(values[0].value, Ok(40.0));
        assert_eq!(values[1].value, Ok(2.0));
    }

    #[test]
    fn no_query_is_a_gap() {
        let values = compute(Vec::new(), Options::default()).unwrap();
        assert_eq!(values[0].value.as_ref().unwrap_err().reason, "the case has no queries");
    }

    #[test]
    fn an_impossible_percentile_is_refused() {
        let error = compute(vec![1], Options { percentile: 0.0 }).unwrap_err();
        assert!(error.to_string().contains("got 0"));
    }
}
