//! What cases are called: by the coordinates that tell them apart.

use std::collections::BTreeSet;

use crate::Case;

type Coordinate = fn(&Case) -> Option<String>;

/// The coordinates of a case, in the order in which they are written.
const COORDINATES: [Coordinate; 8] = [
    |case| Some(case.model.clone()),
    |case| Some(case.backend.clone()),
    |case| Some(case.device.clone()),
    |case| Some(case.precision.clone()),
    |case| Some(format!("batch {}", case.batch)),
    |case| case.sequence_length.map(|length| format!("sequence {length}")),
    |case| Some(case.mode.clone()),
    |case| Some(case.load()),
];

const BACKEND: usize = 1;

const DEVICE: usize = 2;

const BATCH: usize = 4;

/// Position of the mode, which is left out of full labels while there is only one.
const MODE: usize = 6;

const SCENARIO: usize = 7;

/// A case's full name: `digits · cpu · cpu:0 · fp32 · batch 8 · offline`.
#[must_use]
pub fn case_label(case: &Case) -> String {
    let others = COORDINATES.iter().enumerate().filter(|(position, _)| *position != MODE);
    join(others.filter_map(|(_, coordinate)| coordinate(case)))
}

/// Names for cases that are seen together: only what differs among them.
#[derive(Debug, Clone)]
pub struct Labels {
    /// Positions of the coordinates that differ.
    varying: Vec<usize>,
}

impl Labels {
    /// Names for these cases.
    pub fn new<'a>(cases: impl IntoIterator<Item = &'a Case>) -> Self {
        let mut seen: [BTreeSet<Option<String>>; 8] = Default::default();
        let mut pairs = BTreeSet::new();
        for case in cases {
            for (values, coordinate) in seen.iter_mut().zip(COORDINATES) {
                values.insert(coordinate(case));
            }
            pairs.insert((case.backend.as_str(), case.device.as_str()));
        }
        // Where each backend has one device, naming the backend says it all.
        if pairs.len() == seen[BACKEND].len() {
            seen[DEVICE].clear();
        }
        Self { varying: (0..COORDINATES.len()).filter(|it| seen[*it].len() > 1).collect() }
    }

    /// The same without the scenario, for names of configurations.
    #[must_use]
    pub fn without_scenario(mut self) -> Self {
        self.varying.retain(|position| *position != SCENARIO);
        self
    }

    /// The same without the batch size, for names of series along it.
    #[must_use]
    pub fn without_batch(mut self) -> Self {
        self.varying.retain(|position| *position != BATCH);
        self
    }

    /// A case's short name. Where nothing differs, the model's name.
    #[must_use]
    pub fn label(&self, case: &Case) -> String {
        let label = join(self.varying.iter().filter_map(|position| COORDINATES[*position](case)));
        if label.is_empty() { case.model.clone() } else { label }
    }
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(" · ")
}
