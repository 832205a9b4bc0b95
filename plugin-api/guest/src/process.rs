//! Values that are known for one process only, if a case was measured in several.

use crate::{Columns, Measurement};

/// The column with the process number of each query. Only a case of several processes has it.
const PROCESS: &str = "process";

/// The first of several processes. Columns of one row describe it; columns of queries contain all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstProcess {
    /// Number of its own queries. They come first.
    pub queries: usize,
    /// Number of processes.
    pub processes: usize,
}

impl FirstProcess {
    /// Marks a value as the first process's.
    #[must_use]
    pub fn mark(self, measurement: Measurement) -> Measurement {
        measurement.with_attribute("process", format!("first of {}", self.processes))
    }

    /// Returns the first process's part of a column of queries.
    #[must_use]
    pub fn part<T>(self, queries: &[T]) -> &[T] {
        &queries[..self.queries.min(queries.len())]
    }
}

impl Columns {
    /// Returns the first process, if there are several; the plugin must ask for the column
    /// `process`.
    #[must_use]
    pub fn first_process(&self) -> Option<FirstProcess> {
        let mut processes = self.unsigned(PROCESS).ok()?.chunk_by(|one, next| one == next);
        let queries = processes.next()?.len();
        let others = processes.count();
        (others > 0).then_some(FirstProcess { queries, processes: 1 + others })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Column, ColumnData, Direction};

    fn columns(processes: Option<Vec<u64>>) -> Columns {
        let column = |numbers| Column {
            name: PROCESS.into(),
            unit: "1".into(),
            width: 1,
            data: ColumnData::Unsigned(numbers),
        };
        processes.map(column).into_iter().collect::<Vec<_>>().into()
    }

    #[test]
    fn the_first_process_has_the_first_queries() {
        let first = columns(Some(vec![0, 0, 1, 2, 2, 2])).first_process().expect("several");
        assert_eq!(first, FirstProcess { queries: 2, processes: 3 });
        assert_eq!(first.part(&[5, 6, 7, 8, 9, 10]), [5, 6]);
        let marked = first.mark(Measurement::new("startup.open", Ok(1.0), "ns", Direction::Lower));
        assert_eq!(marked.attributes["process"], "first of 3");
    }

    #[test]
    fn a_case_of_one_process_has_no_first_of_several() {
        for processes in [None, Some(vec![]), Some(vec![0, 0])] {
            assert_eq!(columns(processes).first_process(), None);
        }
    }
}
