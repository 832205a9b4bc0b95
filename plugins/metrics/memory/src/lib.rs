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

With several processes these are means of their figures, with intervals over the processes.
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
        if let Some(processes) = columns.processes() {
            return over_processes(case, &processes);
        }
        let one = |name| one(columns, name);
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
        Ok(measured)
    }
}

/// Returns the mean of each figure.
fn over_processes(case: &Case, processes: &[Columns]) -> Result<Vec<Measurement>, Error> {
    let of_each = processes.iter().map(|columns| Memory::compute(case, columns, NoOptions {}));
    Ok(Measurement::all_over_processes(of_each.collect::<Result<_, _>>()?, case.confidence()))
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
    fn processes_are_averaged_with_an_interval() {
        let columns = [
            (PEAK, &[5000, 5100, 5200][..]),
            (BASELINE, &[2000, 2000, 2000]),
            (PROCESS, &[0, 0, 1, 2]),
        ];
        let found = compute(&columns).expect("columns that can be");
        let of = |name: &str| found.iter().find(|one| one.metric == name).expect("a figure");
        assert_eq!(of("memory.peak").value, Ok(5100.0));
        // t(0.975; 2) = 4.303, times 100 / √3.
        let (low, high) = of("memory.peak").interval.expect("an interval");
        assert!((high - 5348.4).abs() < 0.1 && (low - 4851.6).abs() < 0.1, "{low} {high}");
        assert_eq!(of("memory.increase").attributes["process-values"], "3000 3100 3200");
        assert_eq!(
            (&of("memory.baseline").value, of("memory.baseline").interval),
            (&Ok(2000.0), None)
        );
    }

    #[test]
    fn without_a_baseline_there_is_a_peak_and_no_increase() {
        let gap = "the case has no record of `baseline-memory`".to_owned();
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
