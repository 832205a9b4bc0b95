//! Names of cases: by the coordinates that distinguish them.

use std::collections::BTreeSet;

use host_record::Axis;

use crate::Case;

/// Returns a case's full name: `digits · cpu · cpu:0 · fp32 · batch 8 · offline`.
#[must_use]
pub fn case_label(case: &Case) -> String {
    join(Axis::shown().filter(|axis| !axis.goes_without_saying(&case.key)), case)
}

/// Names for cases that are shown together: only the coordinates that differ.
#[derive(Debug, Clone)]
pub struct Labels {
    /// The axes on which they differ.
    varying: Vec<Axis>,
}

impl Labels {
    /// Returns the names for these cases.
    pub fn new<'a>(cases: impl IntoIterator<Item = &'a Case> + Clone) -> Self {
        let values = |axis: Axis| {
            let cases = cases.clone().into_iter();
            cases.map(|case| axis.shown_value(&case.key)).collect::<BTreeSet<_>>().len()
        };
        let pairs: BTreeSet<_> =
            cases.clone().into_iter().map(|case| (&case.key.backend, &case.key.device)).collect();
        // If each backend has one device, naming the backend is enough.
        let one_device_each = pairs.len() == values(Axis::Backend);
        let varying = Axis::shown()
            .filter(|axis| *axis != Axis::Device || !one_device_each)
            .filter(|axis| values(*axis) > 1);
        Self { varying: varying.collect() }
    }

    /// Returns the names without an axis, such as the scenario for names of configurations.
    #[must_use]
    pub fn without(mut self, axis: Axis) -> Self {
        self.varying.retain(|varying| *varying != axis);
        self
    }

    /// Returns a case's short name. If nothing differs, the model's name.
    #[must_use]
    pub fn label(&self, case: &Case) -> String {
        let label = join(self.varying.iter().copied(), case);
        if label.is_empty() { case.key.model.clone() } else { label }
    }
}

fn join(axes: impl Iterator<Item = Axis>, case: &Case) -> String {
    axes.filter_map(|axis| axis.labelled(&case.key)).collect::<Vec<_>>().join(" · ")
}
