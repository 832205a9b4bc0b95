//! A metric of a version of `tare:plugin` that does not exist yet: it imports an interface that no host knows.

wit_bindgen::generate!({ path: "wit", world: "metric-plugin" });

use exports::tare::plugin::metric::Guest;
use tare::plugin::{log, weather};
use tare::plugin::types::{
    Attribute, CaseDescription, Column, ColumnData, Description, Measure, Measurement,
};

struct TooNew;

impl Guest for TooNew {
    fn describe() -> Description {
        Description {
            id: "too-new".into(),
            version: "1.0.0".into(),
            summary: "The number of queries.".into(),
            license: "MIT".into(),
            options: vec![],
        }
    }

    fn columns() -> Vec<String> {
        vec!["latency".into()]
    }

    fn compute(
        case: CaseDescription,
        columns: Vec<Column>,
        _: String,
    ) -> Result<Vec<Measurement>, String> {
        log::line(log::Level::Debug, &weather::now());
        let queries = match columns.first().map(|column| &column.data) {
            Some(ColumnData::Unsigned(latencies)) => latencies.len(),
            _ => return Err("no latencies".into()),
        };
        Ok(vec![Measurement {
            metric: "too-new.queries".into(),
            measure: Measure::Value(queries as f64),
            interval: None,
            unit: "1".into(),
            direction: "neutral".into(),
            attributes: vec![Attribute { name: "case".into(), value: case.id }],
        }])
    }
}

export!(TooNew);
