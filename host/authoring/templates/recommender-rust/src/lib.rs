//! The case with the lowest median latency.

use std::collections::BTreeMap;

use plugin_guest::{Description, Error, Recommendation, Recommender, View, Views};
use serde::Deserialize;

/// The recommender.
pub struct {{pascal}};

/// Options in the manifest: the metric that decides.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    metric: String,
}

impl Default for Options {
    fn default() -> Self {
        Self { metric: "latency.p50".into() }
    }
}

impl Recommender for {{pascal}} {
    type Options = Options;

    fn describe() -> Description {
        // Version, summary and licence are those of Cargo.toml.
        plugin_guest::describe!("{{name}}", {
            "metric" => "Metric of which the lowest value is best; latency.p50 by default.",
        })
    }

    fn recommend(views: &dyn Views, options: Options) -> Result<Vec<Recommendation>, Error> {
        // Options are checked before the first view is read.
        if options.metric.is_empty() {
            return Err(Error::Options("metric must not be empty".into()));
        }
        let results = View::read(views, "results")?;
        let mut best: Option<(f64, String, String)> = None;
        for row in results.rows() {
            if row.text("metric")? != options.metric {
                continue;
            }
            // A case without a value takes no part.
            let Some(value) = row.optional_real("value")? else { continue };
            if best.as_ref().is_none_or(|(least, ..)| value < *least) {
                best = Some((value, row.text("case_id")?.into(), row.text("unit")?.into()));
            }
        }
        // Without values there is no advice.
        let Some((value, case, unit)) = best else { return Ok(Vec::new()) };
        let metric = options.metric;
        Ok(vec![Recommendation {
            title: format!("use {case}: lowest {metric}"),
            explanation: format!("Its {metric} is {value} {unit}, the lowest of all cases."),
            cases: vec![case],
            attributes: BTreeMap::new(),
        }])
    }
}

plugin_guest::export_recommender!({{pascal}});

#[cfg(test)]
mod tests {
    use super::*;
    use plugin_guest::{Cell, Table};

    fn views(rows: Vec<Vec<Cell>>) -> BTreeMap<String, Table> {
        let columns = ["case_id", "metric", "value", "unit"].map(str::to_owned).into();
        BTreeMap::from([("results".to_owned(), Table { columns, rows })])
    }

    fn row(case: &str, value: impl Into<Cell>) -> Vec<Cell> {
        vec![case.into(), "latency.p50".into(), value.into(), "ns".into()]
    }

    #[test]
    fn the_lowest_is_advised() {
        let views = views(vec![row("a", 300.0), row("b", 200.0), row("c", Cell::Null)]);
        let advice = {{pascal}}::recommend(&views, Options::default()).unwrap();
        assert_eq!(advice[0].title, "use b: lowest latency.p50");
        assert_eq!(advice[0].cases, ["b"]);
    }

    #[test]
    fn without_values_there_is_no_advice() {
        let advice = {{pascal}}::recommend(&views(Vec::new()), Options::default()).unwrap();
        assert_eq!(advice, []);
    }
}
