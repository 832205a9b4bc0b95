//! The coordinates of cases, and those that all of them share.

use std::borrow::Borrow;

use host_record::{Axis, CaseKey};

/// The axes on which all cases agree: they are stated once, above a table or a list.
pub(crate) struct Common {
    axes: Vec<Axis>,
    first: Option<CaseKey>,
}

impl Common {
    pub(crate) fn of(mut keys: impl Iterator<Item = impl Borrow<CaseKey>>) -> Self {
        let Some(first) = keys.next() else { return Self { axes: Vec::new(), first: None } };
        let first = first.borrow().clone();
        let mut axes: Vec<Axis> = Axis::shown().collect();
        for key in keys {
            axes.retain(|axis| axis.shown_value(key.borrow()) == axis.shown_value(&first));
            if axes.is_empty() {
                break;
            }
        }
        // A table with no coordinate at all would not say what its lines are.
        if axes.len() == Axis::shown().count() {
            axes.retain(|axis| !matches!(axis, Axis::Batch | Axis::Scenario));
        }
        Self { axes, first: Some(first) }
    }

    /// Returns the axes on which cases differ.
    pub(crate) fn others(&self) -> impl Iterator<Item = Axis> {
        Axis::shown().filter(|axis| !self.axes.contains(axis))
    }

    /// Returns the coordinates that all cases share, without obvious ones.
    pub(crate) fn heading(&self) -> Vec<String> {
        let Some(key) = &self.first else { return Vec::new() };
        self.axes
            .iter()
            .filter(|axis| !axis.goes_without_saying(key))
            .filter_map(|axis| axis.labelled(key))
            .collect()
    }

    /// Returns a case's coordinates on the other axes.
    pub(crate) fn rest(&self, key: &CaseKey) -> String {
        let rest: Vec<_> = self.others().filter_map(|axis| axis.labelled(key)).collect();
        rest.join(" · ")
    }
}
