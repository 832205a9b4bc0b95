/*!
Resident memory of the worker.

Each case has a process of its own, so its peak is the case's. The baseline is the memory of the process
just before the backend's library was opened; the increase is the most that opening it, loading the
model and running it added. The average is over the measured window, sampled by the host from outside ten
times a second. The proportional figure is of a moment just after it, with shared pages divided among
processes. Prepared inputs are part of both: at most 64 batches or 256 MiB of them, so a larger batch alone
shows a larger peak. A device's memory is in none of these. Its peak is a separate figure, if the backend
reports it, and so is the figure of its engine's allocator there. The driver's figure includes the engine's
code, its workspace and unused memory of an arena; the allocator's figure is requested memory only.

With several processes these are figures of the first one: the host keeps no others for a metric to read.
The attribute `process` says so.
*/

use plugin_guest::{
    Case, Columns, Description, Direction, Error, Gap, Measurement, Metric, NoOptions,
};

/// The columns that are read.
const PEAK: &str = "peak-memory";
const BASELINE: &str = "baseline-memory";
const AVERAGE: &str = "average-memory";
const PROPORTIONAL: &str = "proportional-memory";
const DEVICE: &str = "device-memory";
const ALLOCATOR: &str = "device-allocator";
const PROCESS: &str = "process";

/// The metric.
pub struct Memory;

impl Metric for Memory {
    type Options = NoOptions;

    fn describe() -> Description {
        plugin_guest::describe!("memory")
    }

    fn columns() -> &'static [&'static str] {
        &[PEAK, BASELINE, AVERAGE, PROPORTIONAL, DEVICE, ALLOCATOR, PROCESS]
    }

    fn compute(case: &Case, columns: &Columns, _: NoOptions) -> Result<Vec<Measurement>, Error> {
        let one = |name| one(columns, name).map_err(|gap| case.explain(name, gap));
        let peak = one(PEAK);
        let baseline = one(BASELINE);
        let increase = match (&peak, &baseline) {
            (Ok(peak), Ok(baseline)) => Ok(peak.checked_sub(*baseline).ok_or_else(|| {
                Error::Other(format!(
                    "the peak of {peak} B is below the baseline of {baseline} B, which is impossible"
                ))
            })?),
            (Err(gap), _) | (_, Err(gap)) => Err(gap.clone()),
        };
        let measurement_of = |of: &str, name: &str, value: Result<u64, Gap>, direction| {
            let value = value.map(|bytes| bytes as f64);
            let found = Measurement::new(format!("memory.{name}"), value, "B", direction)
                .with_attribute("of", of);
            match columns.first_process() {
                Some(first) => first.mark(found),
                None => found,
            }
        };
        let measurement = |name: &str, value, direction| {
            measurement_of("resident memory of the worker process", name, value, direction)
        };
        let proportional =
            "resident memory of the worker process, shared pages divided among processes";
        let device = "memory that the worker process on the device, as the backend reports it";
        let allocator = "memory on the device that the engine's own allocator gave out";
        Ok(vec![
            measurement("peak", peak, Direction::Lower),
            measurement("baseline", baseline, Direction::Neutral),
            measurement("increase", increase, Direction::Lower),
            measurement("average", one(AVERAGE), Direction::Lower),
            measurement_of(proportional, "proportional", one(PROPORTIONAL), Direction::Lower),
            measurement_of(device, "device-peak", one(DEVICE), Direction::Lower),
            measurement_of(allocator, "allocator-peak", one(ALLOCATOR), Direction::Lower),
        ])
    }
}

plugin_guest::export_metric!(Memory);

fn one(columns: &Columns, name: &str) -> Result<u64, Gap> {
    match columns.unsigned(name)? {
        [value] => Ok(*value),
        values => Err(Gap::unsupported(format!(
            "column `{name}` has {} rows instead of one",
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

    /// Returns peak, baseline and increase.
    fn values(columns: &[(&str, &[u64])]) -> Vec<(String, Result<f64, String>)> {
        compute(columns)
            .expect("columns that can be")
            .into_iter()
            .take(3)
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
    fn average_and_device_are_beside_the_peak() {
        let found = compute(&[
            (AVERAGE, &[4000]),
            (PROPORTIONAL, &[3500]),
            (DEVICE, &[9000]),
            (ALLOCATOR, &[8000]),
        ]);
        let found: Vec<_> = found
            .expect("columns that can be")
            .into_iter()
            .skip(3)
            .map(|one| (one.metric, one.value))
            .collect();
        assert_eq!(
            found,
            [
                ("memory.average".into(), Ok(4000.0)),
                ("memory.proportional".into(), Ok(3500.0)),
                ("memory.device-peak".into(), Ok(9000.0)),
                ("memory.allocator-peak".into(), Ok(8000.0)),
            ]
        );
    }

    #[test]
    fn of_several_processes_the_first_is_named() {
        let found =
            compute(&[(PEAK, &[5000]), (PROCESS, &[0, 0, 1])]).expect("columns that can be");
        assert!(found.iter().all(|one| one.attributes["process"] == "first of 2"));
        let found = compute(&[(PEAK, &[5000])]).expect("columns that can be");
        assert!(found.iter().all(|one| !one.attributes.contains_key("process")));
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
            Err("column `peak-memory` has 2 rows instead of one".into())
        );
    }

    #[test]
    fn a_peak_below_the_baseline_is_an_error() {
        let error = compute(&[(PEAK, &[1]), (BASELINE, &[2])]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the peak of 1 B is below the baseline of 2 B, which is impossible"
        );
    }
}
