/*!
Resident memory of the worker.

Each case has a separate process, so the process's peak is the case's. The baseline is the memory of the process just
before the backend's library was opened; the increase is the most that opening it, loading the model and running it
added. The average is over the measured window, sampled by the host from outside ten times a second. The proportional
figure is read just after it, with shared pages divided among processes. Prepared inputs are part of both: at most 64
batches or 256 MiB of them, so a larger batch alone shows a larger peak. None of these includes a device's memory. Its
peak is a separate figure, if the backend reports it, and so is the figure of its engine's allocator on the device.
The driver's figure includes the engine's code, its workspace and unused memory of an arena; the allocator's figure
covers only requested memory.

With several processes, these are the first one's figures: the host keeps no others for metrics. The attribute
`process` states this.
*/

use std::sync::LazyLock;

use host_record::Quantity;
use plugin_guest::{
    Case, Columns, Description, Direction, Error, Gap, Measurement, Metric, NoOptions,
};

const PEAK: &str = "peak-memory";
const BASELINE: &str = "baseline-memory";
const PROCESS: &str = "process";

/// The columns that are read: those of the quantities that this metric states, and one more.
static COLUMNS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let stated = Quantity::stated_by("memory").map(|(_, quantity)| quantity.id);
    stated.chain([PROCESS]).collect()
});

/// The metric.
pub struct Memory;

impl Metric for Memory {
    type Options = NoOptions;

    fn describe() -> Description {
        plugin_guest::describe!("memory")
    }

    fn columns() -> &'static [&'static str] {
        &COLUMNS
    }

    fn compute(case: &Case, columns: &Columns, _: NoOptions) -> Result<Vec<Measurement>, Error> {
        let one = |name| one(columns, name).map_err(|gap| case.explain(name, gap));
        let increase = match (one(PEAK), one(BASELINE)) {
            (Ok(peak), Ok(baseline)) => Ok(peak.checked_sub(baseline).ok_or_else(|| {
                Error::Other(format!(
                    "the peak of {peak} B is below the baseline of {baseline} B, which is impossible"
                ))
            })?),
            (Err(gap), _) | (_, Err(gap)) => Err(gap),
        };
        let mut measured: Vec<_> = Quantity::stated_by("memory")
            .map(|(metric, quantity)| {
                let direction = direction(quantity.direction);
                let value = one(quantity.id).map(|bytes| bytes as f64);
                Measurement::new(metric, value, quantity.unit, direction)
                    .with_attribute("of", quantity.definition)
            })
            .collect();
        let increase = increase.map(|bytes| bytes as f64);
        measured.push(
            Measurement::new("memory.increase", increase, "B", Direction::Lower)
                .with_attribute("of", "peak over baseline of the worker's resident memory"),
        );
        if let Some(first) = columns.first_process() {
            measured = measured.into_iter().map(|one| first.mark(one)).collect();
        }
        Ok(measured)
    }
}

fn direction(direction: host_record::Direction) -> Direction {
    match direction {
        host_record::Direction::Lower => Direction::Lower,
        host_record::Direction::Higher => Direction::Higher,
        host_record::Direction::Neutral => Direction::Neutral,
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
        let wanted = ["memory.peak", "memory.baseline", "memory.increase"];
        compute(columns)
            .expect("columns that can be")
            .into_iter()
            .filter(|one| wanted.contains(&&*one.metric))
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
            ("average-memory", &[4000]),
            ("proportional-memory", &[3500]),
            ("device-memory", &[9000]),
            ("device-allocator", &[8000]),
        ]);
        let found: Vec<_> = found
            .expect("columns that can be")
            .into_iter()
            .filter_map(|one| Some((one.metric, one.value.ok()?)))
            .collect();
        assert_eq!(
            found,
            [
                ("memory.average".to_owned(), 4000.0),
                ("memory.proportional".to_owned(), 3500.0),
                ("memory.device-peak".to_owned(), 9000.0),
                ("memory.allocator-peak".to_owned(), 8000.0),
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
