//! The coordinates of cases, and those that all of them share.

use std::borrow::Borrow;

use host_record::CaseKey;

/// A coordinate of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Axis {
    Model,
    Backend,
    Device,
    Precision,
    Batch,
    SequenceLength,
    Mode,
    Scenario,
}

impl Axis {
    pub(crate) const ALL: &'static [Self] = &[
        Self::Model,
        Self::Backend,
        Self::Device,
        Self::Precision,
        Self::Batch,
        Self::SequenceLength,
        Self::Mode,
        Self::Scenario,
    ];

    pub(crate) fn heading(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Backend => "backend",
            Self::Device => "device",
            Self::Precision => "precision",
            Self::Batch => "batch",
            Self::SequenceLength => "sequence",
            Self::Mode => "mode",
            Self::Scenario => "scenario",
        }
    }

    pub(crate) fn is_number(self) -> bool {
        matches!(self, Self::Batch | Self::SequenceLength)
    }

    pub(crate) fn value(self, key: &CaseKey) -> String {
        match self {
            Self::Model => key.model.clone(),
            Self::Backend => key.backend.clone(),
            Self::Device => key.device.clone(),
            Self::Precision => key.precision.to_string(),
            Self::Batch => key.batch.to_string(),
            Self::SequenceLength => {
                key.sequence_length.map(|length| length.to_string()).unwrap_or_default()
            }
            Self::Mode => key.mode.to_string(),
            Self::Scenario => key.load(),
        }
    }

    /// The value with the word that it needs to be understood by itself.
    fn named(self, key: &CaseKey) -> String {
        match self {
            Self::Batch | Self::SequenceLength => format!("{} {}", self.heading(), self.value(key)),
            _ => self.value(key),
        }
    }
}

/// The axes on which all cases agree: they are said once, above a table or a list.
pub(crate) struct Common {
    axes: Vec<Axis>,
    first: Option<CaseKey>,
}

impl Common {
    pub(crate) fn of(mut keys: impl Iterator<Item = impl Borrow<CaseKey>>) -> Self {
        let Some(first) = keys.next() else { return Self { axes: Vec::new(), first: None } };
        let first = first.borrow().clone();
        let mut axes = Axis::ALL.to_vec();
        for key in keys {
            axes.retain(|axis| axis.value(key.borrow()) == axis.value(&first));
            if axes.is_empty() {
                break;
            }
        }
        // A table with no coordinate at all would not say what its lines are.
        if axes.len() == Axis::ALL.len() {
            axes.retain(|axis| !matches!(axis, Axis::Batch | Axis::Scenario));
        }
        Self { axes, first: Some(first) }
    }

    /// The axes on which cases differ.
    pub(crate) fn others(&self) -> impl Iterator<Item = Axis> {
        Axis::ALL.iter().copied().filter(|axis| !self.axes.contains(axis))
    }

    /// What all cases have in common, without what goes without saying.
    pub(crate) fn heading(&self) -> Vec<String> {
        let Some(key) = &self.first else { return Vec::new() };
        self.axes
            .iter()
            .filter(|axis| **axis != Axis::Mode)
            .map(|axis| axis.named(key))
            .filter(|text| !text.is_empty() && !text.ends_with(' '))
            .collect()
    }

    /// A case's coordinates on the other axes.
    pub(crate) fn rest(&self, key: &CaseKey) -> String {
        let rest: Vec<_> =
            self.others().map(|axis| axis.named(key)).filter(|text| !text.is_empty()).collect();
        rest.join(" · ")
    }
}
