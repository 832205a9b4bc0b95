//! A metric over a run that uses only the SDK of `tare:plugin@0.1.1`: it is built against the WIT file of that version, which
//! is beside it and does not change.

wit_bindgen::generate!({ path: "wit", world: "run-metric-plugin" });

use exports::tare::plugin::run_metric::{CaseMeasurement, Guest};
use tare::plugin::types::{Cell, Description, Gap, Measure, Measurement};
use tare::plugin::views;

struct Old;

fn rows(measure: Measure) -> Measurement {
    Measurement {
        metric: "old-run.rows".into(),
        measure,
        interval: None,
        unit: "1".into(),
        direction: "neutral".into(),
        attributes: vec![],
    }
}

impl Guest for Old {
    fn describe() -> Description {
        Description {
            id: "old-run".into(),
            version: "1.0.0".into(),
            summary: "The number of cases.".into(),
            license: "MIT".into(),
            options: vec![],
        }
    }

    fn outline(_: String) -> Result<Vec<Measurement>, String> {
        let reason = "nothing is measured yet".into();
        Ok(vec![rows(Measure::Gap(Gap { kind: "not-measured".into(), reason }))])
    }

    fn compute(_: String) -> Result<Vec<CaseMeasurement>, String> {
        let cases = views::read("cases")?.rows;
        let finished = cases.iter().filter_map(|row| match &row[..] {
            [Cell::Text(id), Cell::Text(outcome), ..] if outcome == "finished" => Some(id.clone()),
            _ => None,
        });
        let measurement = |case_id| CaseMeasurement {
            case_id,
            measurement: rows(Measure::Value(cases.len() as f64)),
        };
        Ok(finished.map(measurement).collect())
    }
}

export!(Old);
