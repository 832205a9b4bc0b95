//! A metric that uses only the SDK of `tare:plugin@0.1.0`: it is built against the WIT file of that version, which is
//! beside it and does not change.

wit_bindgen::generate!({ path: "wit", world: "metric-plugin" });

use exports::tare::plugin::metric::Guest;
use tare::plugin::log;
use tare::plugin::types::{
    Attribute, CaseDescription, Column, ColumnData, Description, Measure, Measurement,
};

struct Old;

impl Guest for Old {
    fn describe() -> Description {
        Description {
            id: "old".into(),
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
        log::line(log::Level::Debug, "as in the beginning");
        let queries = match columns.first().map(|column| &column.data) {
            Some(ColumnData::Unsigned(latencies)) => latencies.len(),
            _ => return Err("no latencies".into()),
        };
        Ok(vec![Measurement {
            metric: "old.queries".into(),
            measure: Measure::Value(queries as f64),
            interval: None,
            unit: "1".into(),
            direction: "neutral".into(),
            attributes: vec![Attribute { name: "case".into(), value: case.id }],
        }])
    }
}

export!(Old);
