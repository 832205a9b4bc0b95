//! Cases that were measured in several processes.
//!
//! Processes differ by more than the queries of one do. So a value is taken from each process, the case's value is
//! their mean, and its interval is over them. The values themselves are kept as an attribute: whoever compares two
//! cases needs them.

use host_statistics::{Undefined, prediction_interval, processes_needed, student_interval};

use crate::{Column, ColumnData, Columns, Gap, Measurement};

/// The column with the process number of each query. Only a case of several processes has it.
const PROCESS: &str = "process";

/// The method of the intervals.
pub(crate) const STUDENT: &str = "Student's t over processes";

/// Attributes of one process's value that do not describe the mean over several.
const OF_ONE: [&str; 5] = ["interval", "confidence", "effective-size", "queries", "measured-ns"];

impl Columns {
    /// Returns the columns of each process, if there are several; the plugin must ask for the column `process`, which
    /// they no longer have. A column with a row for each query is divided, and so is one with a row for each
    /// process. Others, such as outputs, are the same in all.
    #[must_use]
    pub fn processes(&self) -> Option<Vec<Self>> {
        let numbers = self.unsigned(PROCESS).ok()?;
        let count = usize::try_from(numbers.iter().max()? + 1).ok()?;
        if count < 2 {
            return None;
        }
        let part = |process: usize| -> Self {
            let start = numbers.partition_point(|number| (*number as usize) < process);
            let end = numbers.partition_point(|number| (*number as usize) <= process);
            let others = self.columns.iter().filter(|column| column.name != PROCESS);
            let columns: Vec<Column> = others
                .map(|column| match column.rows() {
                    rows if rows == numbers.len() => column.part(start, end),
                    rows if rows == count => column.part(process, process + 1),
                    _ => column.clone(),
                })
                .collect();
            Self { columns, missing: self.missing.clone() }
        };
        Some((0..count).map(part).collect())
    }
}

impl Column {
    fn rows(&self) -> usize {
        let values = match &self.data {
            ColumnData::Unsigned(values) => values.len(),
            ColumnData::Signed(values) => values.len(),
            ColumnData::Single(values) => values.len(),
            ColumnData::Double(values) => values.len(),
            ColumnData::Boolean(values) => values.len(),
            ColumnData::Text(values) => values.len(),
        };
        values / self.width.max(1)
    }

    fn part(&self, start: usize, end: usize) -> Self {
        let range = start * self.width..end * self.width;
        let data = match &self.data {
            ColumnData::Unsigned(values) => ColumnData::Unsigned(values[range].to_vec()),
            ColumnData::Signed(values) => ColumnData::Signed(values[range].to_vec()),
            ColumnData::Single(values) => ColumnData::Single(values[range].to_vec()),
            ColumnData::Double(values) => ColumnData::Double(values[range].to_vec()),
            ColumnData::Boolean(values) => ColumnData::Boolean(values[range].to_vec()),
            ColumnData::Text(values) => ColumnData::Text(values[range].to_vec()),
        };
        Self { name: self.name.clone(), unit: self.unit.clone(), width: self.width, data }
    }
}

impl Measurement {
    /// Combines the same measurement of several processes: the mean, with the interval of the mean by Student's *t*
    /// and a prediction interval. If a process has a gap, so has the case. Attributes that all processes have alike
    /// are kept.
    ///
    /// # Panics
    ///
    /// If there is no process.
    #[must_use]
    pub fn over_processes(of_each: &[Self], confidence: f64) -> Self {
        let mut found = of_each.first().expect("a process").clone();
        found.interval = None;
        found.attributes.retain(|name, value| {
            let is_same = of_each.iter().all(|one| one.attributes.get(name) == Some(value));
            is_same && !OF_ONE.contains(&name.as_str())
        });
        let values: Result<Vec<f64>, Gap> = of_each.iter().map(|one| one.value.clone()).collect();
        let values = match values {
            Ok(values) => values,
            Err(gap) => {
                found.value = Err(gap);
                return found;
            }
        };
        found.value = Ok(values.iter().sum::<f64>() / values.len() as f64);
        let definition = || "mean over processes".to_owned();
        found.attributes.entry("definition".to_owned()).or_insert_with(definition);
        let found = found.with_process_values(&values, confidence);
        let each: Vec<&[f64]> = values.chunks(1).collect();
        match student_interval(&each, |one| one[0], confidence) {
            Ok(interval) => {
                found.with_interval_from_zero((interval.low, interval.high), confidence, STUDENT)
            }
            Err(Undefined::TooFew(_)) => found.without_interval("a single process"),
            Err(_) => found.without_interval(SAME),
        }
    }

    /// Combines all measurements of several processes, each of which lists the same ones in the same order.
    #[must_use]
    pub fn all_over_processes(of_each: Vec<Vec<Self>>, confidence: f64) -> Vec<Self> {
        let count = of_each.first().map_or(0, Vec::len);
        let over = |index: usize| {
            let each: Vec<Self> = of_each.iter().map(|process| process[index].clone()).collect();
            Self::over_processes(&each, confidence)
        };
        (0..count).map(over).collect()
    }

    /// Adds what each process has measured, and where another process will lie at this confidence: the attributes
    /// `processes`, `process-values`, and `prediction-low` and `prediction-high` if the values have a spread. If there
    /// are too few processes for this confidence, `few-processes` says how many it needs: see
    /// [`host_statistics::processes_needed`].
    #[must_use]
    pub fn with_process_values(self, values: &[f64], confidence: f64) -> Self {
        let written: Vec<String> = values.iter().map(f64::to_string).collect();
        let found = self
            .with_attribute("processes", values.len().to_string())
            .with_attribute("process-values", written.join(" "));
        let needed = processes_needed(confidence);
        let found = if values.len() < needed {
            found.with_attribute(
                "few-processes",
                format!("needs {needed} processes, has {}", values.len()),
            )
        } else {
            found
        };
        match prediction_interval(values, confidence) {
            Ok((low, high)) => found
                .with_attribute("prediction-low", low.to_string())
                .with_attribute("prediction-high", high.to_string()),
            Err(_) => found,
        }
    }
}

/// Reason why equal values have no interval.
pub(crate) const SAME: &str =
    "all processes have the same value, so no uncertainty can be estimated";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Direction;

    fn column(name: &str, width: usize, data: ColumnData) -> Column {
        Column { name: name.into(), unit: "1".into(), width, data }
    }

    #[test]
    fn columns_are_divided_by_queries_or_by_processes_or_not_at_all() {
        let columns: Columns = vec![
            column(PROCESS, 1, ColumnData::Unsigned(vec![0, 0, 2, 2, 2])),
            column("latency", 1, ColumnData::Unsigned(vec![5, 6, 7, 8, 9])),
            column("peak-memory", 1, ColumnData::Unsigned(vec![10, 20, 30])),
            column("output", 2, ColumnData::Single(vec![0.5; 8])),
        ]
        .into();
        let processes = columns.processes().expect("several");
        let latencies: Vec<_> =
            processes.iter().map(|one| one.unsigned("latency").expect("latencies")).collect();
        assert_eq!(latencies, [&[5, 6][..], &[], &[7, 8, 9]]);
        assert_eq!(processes[2].unsigned("peak-memory"), Ok(&[30][..]));
        assert_eq!(processes[1].single("output").map(<[f32]>::len), Ok(8));
        assert!(processes[0].processes().is_none());
    }

    #[test]
    fn a_case_of_one_process_is_not_divided() {
        for processes in [None, Some(vec![]), Some(vec![0, 0])] {
            let columns: Vec<_> = processes
                .map(|numbers| column(PROCESS, 1, ColumnData::Unsigned(numbers)))
                .into_iter()
                .collect();
            assert!(Columns::from(columns).processes().is_none());
        }
    }

    fn of(value: Result<f64, Gap>, kind: &str) -> Measurement {
        Measurement::new("memory.peak", value, "B", Direction::Lower)
            .with_interval(0.0, 20.0)
            .with_attribute("interval", "of one process")
            .with_attribute("of", "the worker")
            .with_attribute("kind", kind)
    }

    #[test]
    fn processes_are_combined_with_both_intervals() {
        let each = [8.0, 9.0, 10.0, 11.0, 12.0].map(|value| of(Ok(value), "a"));
        let found = Measurement::over_processes(&each, 0.95);
        assert_eq!(found.value, Ok(10.0));
        // t(0.975; 4) = 2.776 and s = 1.581.
        let (low, high) = found.interval.expect("an interval");
        assert!((high - 11.963).abs() < 1e-3 && (low - 8.037).abs() < 1e-3, "{low} {high}");
        let prediction: f64 = found.attributes["prediction-high"].parse().expect("a number");
        assert!((prediction - 14.809).abs() < 1e-3, "{prediction}");
        assert_eq!(found.attributes["process-values"], "8 9 10 11 12");
        assert_eq!(found.attributes["processes"], "5");
        assert_eq!(
            (&*found.attributes["of"], &*found.attributes["interval"]),
            ("the worker", STUDENT)
        );
    }

    #[test]
    fn what_processes_do_not_share_is_not_said_of_the_mean() {
        let found = Measurement::over_processes(&[of(Ok(1.0), "a"), of(Ok(1.0), "b")], 0.95);
        assert!(!found.attributes.contains_key("kind") && found.interval.is_none());
        assert_eq!(found.attributes["interval"], format!("none: {SAME}"));
        let gap = Gap::not_measured("no counter");
        let found =
            Measurement::over_processes(&[of(Ok(1.0), "a"), of(Err(gap.clone()), "a")], 0.95);
        assert_eq!((found.value, found.interval), (Err(gap), None));
    }
}
