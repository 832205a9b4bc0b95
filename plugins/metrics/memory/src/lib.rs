/*!
Resident memory of the worker.

Each case has a process of its own, so its peak is the case's. The baseline is what the process
held just before the backend's library was opened; the increase is what opening it, loading the
model and running it added at the most. The inputs that are kept ready, so that no query waits for
one, are in both: at most 64 batches or 256 MiB of them, so that a larger batch shows a larger peak
for this alone. Memory of a device other than the processor is in neither.
*/

use plugin_guest::{
    Case, Columns, Description, Direction, Error, Gap, Measurement, Metric, NoOptions,
};

/// The columns that are read.
const PEAK: &str = "peak-memory";
const BASELINE: &str = "baseline-memory";

/// The metric.
pub struct Memory;

impl Metric for Memory {
    type Options = NoOptions;

    fn describe() -> Description {
        plugin_guest::describe!("memory")
    }

    fn columns() -> &'static [&'static str] {
        &[PEAK, BASELINE]
    }

    fn compute(_: &Case, columns: &Columns, _: NoOptions) -> Result<Vec<Measurement>, Error> {
        let peak = one(columns, PEAK);
        let baseline = one(columns, BASELINE);
        let increase = match (&peak, &baseline) {
            (Ok(peak), Ok(baseline)) => Ok(peak.checked_sub(*baseline).ok_or_else(|| {
                Error::Other(format!(
                    "the peak of {peak} B is below the baseline of {baseline} B, which cannot be"
                ))
            })?),
            (Err(gap), _) | (_, Err(gap)) => Err(gap.clone()),
        };
        let measurement = |name: &str, value: Result<u64, Gap>, direction| {
            let value = value.map(|bytes| bytes as f64);
            Measurement::new(format!("memory.{name}"), value, "B", direction)
                .with_attribute("of", "resident memory of the worker process")
        };
        Ok(vec![
            measurement("peak", peak, Direction::Lower),
            measurement("baseline", baseline, Direction::Neutral),
            measurement("increase", increase, Direction::Lower),
        ])
    }
}

plugin_guest::export_metric!(Memory);

fn one(columns: &Columns, name: &str) -> Result<u64, Gap> {
    match columns.unsigned(name)? {
        [value] => Ok(*value),
        values => Err(Gap::unsupported(format!(
            "column `{name}` has {} rows, where this metric reads one",
            values.len()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use plugin_guest::{Column, ColumnData};

    use super::*;

    fn compute(columns: &[(&str, &[u64])]) -> Result<Vec<Measurement>, Error> {
        let columns: Vec<_> = columns
            .iter()
            .map(|(name, values)| Column {
                name: (*name).into(),
                unit: "B".into(),
                width: 1,
                data: ColumnData::Unsigned(values.to_vec()),
            })
            .collect();
        Memory::compute(&Case::default(), &columns.into(), NoOptions {})
    }

    fn values(columns: &[(&str, &[u64])]) -> Vec<(String, Result<f64, String>)> {
        compute(columns)
            .expect("columns that can be")
            .into_iter()
            .map(|one| (one.metric, one.value.map_err(|gap| gap.reason)))
            .collect()
    }

    #[test]
    fn the_increase_is_the_peak_over_the_baseline() {
        assert_eq!(
            values(&[(PEAK, &[5000]), (BASELINE, &[2000])]),
            [
                ("memory.peak".into(), Ok(5000.0)),
                ("memory.baseline".into(), Ok(2000.0)),
                ("memory.increase".into(), Ok(3000.0)),
            ]
        );
    }

    #[test]
    fn without_a_baseline_there_is_a_peak_and_no_increase() {
        let gap = "the case has no column `baseline-memory`".to_owned();
        assert_eq!(
            values(&[(PEAK, &[5000])]),
            [
                ("memory.peak".into(), Ok(5000.0)),
                ("memory.baseline".into(), Err(gap.clone())),
                ("memory.increase".into(), Err(gap)),
            ]
        );
        assert_eq!(
            values(&[(PEAK, &[1, 2])])[0].1,
            Err("column `peak-memory` has 2 rows, where this metric reads one".into())
        );
    }

    #[test]
    fn a_peak_below_the_baseline_is_an_error() {
        let error = compute(&[(PEAK, &[1]), (BASELINE, &[2])]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the peak of 1 B is below the baseline of 2 B, which cannot be"
        );
    }
}
