/*!
The axes of the matrix: one table for all that names, keeps, compares or shows a coordinate.

An axis is declared once, in [`Axis`] and [`Axis::declaration`]. The columns of the store and of its
views, the attributes that metrics get, labels, tables and reports are made from that, and so is the
text that a case's id is the hash of. `docs/design/adding.md` lists the files that a new axis touches.
*/

use std::fmt;

use crate::key::{CaseKey, Mode};
use crate::names::names;
use crate::number::Rate;
use crate::table::{Cell, CellKind};

names! {
    /// A coordinate of a case.
    Axis {
        /// The model.
        Model = "model",
        /// The backend.
        Backend = "backend",
        /// The device.
        Device = "device",
        /// The number format.
        Precision = "precision",
        /// Samples per batch.
        Batch = "batch",
        /// Length of the sequence axis.
        SequenceLength = "sequence-length",
        /// The mode.
        Mode = "mode",
        /// The scenario.
        Scenario = "scenario",
        /// Queries per second of an open loop.
        Rate = "rate",
        /// Clients of a closed loop.
        Clients = "clients",
    }
}

/// The part that an axis plays in a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AxisRole {
    /// Part of the task that is given, such as the model.
    Task,
    /// Part of what can be chosen to do the task with, such as the batch size.
    Choice,
    /// Part of the load that it is measured under.
    Load,
}

/// A coordinate of a case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Coordinate<'key> {
    /// The case has none on this axis.
    None,
    /// A name.
    Text(&'key str),
    /// A count.
    Count(u32),
    /// Another number.
    Number(f64),
}

impl fmt::Display for Coordinate<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Text(text) => formatter.write_str(text),
            Self::Count(count) => count.fmt(formatter),
            Self::Number(number) => number.fmt(formatter),
        }
    }
}

impl From<Coordinate<'_>> for Cell {
    fn from(coordinate: Coordinate<'_>) -> Self {
        match coordinate {
            Coordinate::None => Self::Null,
            Coordinate::Text(text) => Self::Text(text.to_owned()),
            Coordinate::Count(count) => Self::Integer(count.into()),
            Coordinate::Number(number) => Self::Real(number),
        }
    }
}

impl From<Option<u32>> for Coordinate<'_> {
    fn from(count: Option<u32>) -> Self {
        count.map_or(Self::None, Self::Count)
    }
}

/// All that is to be known of an axis.
struct Declaration {
    /// The name of its columns.
    column: &'static str,
    /// The heading of its columns in tables for people, and the word before its numbers.
    heading: &'static str,
    role: AxisRole,
    kind: CellKind,
    of: fn(&CaseKey) -> Coordinate<'_>,
    /// Reads the coordinate from text.
    set: fn(&mut CaseKey, &str) -> Result<(), String>,
    /// Sentence for reference pages.
    definition: &'static str,
}

/// Replaces a coordinate by one that was read.
fn put<T>(place: &mut T, found: Result<T, String>) -> Result<(), String> {
    *place = found?;
    Ok(())
}

fn name(place: &mut String, text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("a name is not empty".to_owned());
    }
    put(place, Ok(text.to_owned()))
}

fn count(text: &str) -> Result<u32, String> {
    let found: Option<u32> = text.parse().ok();
    found
        .filter(|count| *count > 0)
        .ok_or_else(|| "a count is a whole number of at least 1".to_owned())
}

fn rate(text: &str) -> Result<Rate, String> {
    let number = text.parse().map_err(|_| "a rate is a number".to_owned())?;
    Rate::per_second(number)
}

impl Axis {
    /// Returns the axes that are shown to people. The scenario is shown with its rate or clients, as
    /// [`CaseKey::load`] writes them.
    pub fn shown() -> impl Iterator<Item = Self> {
        let with_scenario = [Self::Rate, Self::Clients];
        Self::ALL.iter().copied().filter(move |axis| !with_scenario.contains(axis))
    }

    fn declaration(self) -> Declaration {
        use AxisRole::{Choice, Load, Task};
        use CellKind::{Integer, Real, Text};
        match self {
            Self::Model => Declaration {
                column: "model",
                heading: "model",
                role: Task,
                kind: Text,
                of: |key| Coordinate::Text(&key.model),
                set: |key, text| name(&mut key.model, text),
                definition: "the model's id in the manifest",
            },
            Self::Backend => Declaration {
                column: "backend",
                heading: "backend",
                role: Choice,
                kind: Text,
                of: |key| Coordinate::Text(&key.backend),
                set: |key, text| name(&mut key.backend, text),
                definition: "the backend's id in the manifest",
            },
            Self::Device => Declaration {
                column: "device",
                heading: "device",
                role: Choice,
                kind: Text,
                of: |key| Coordinate::Text(&key.device),
                set: |key, text| name(&mut key.device, text),
                definition: "the device as resolved",
            },
            Self::Precision => Declaration {
                column: "precision",
                heading: "precision",
                role: Choice,
                kind: Text,
                of: |key| Coordinate::Text(key.precision.name()),
                set: |key, text| put(&mut key.precision, text.parse()),
                definition: "the requested precision",
            },
            Self::Batch => Declaration {
                column: "batch",
                heading: "batch",
                role: Choice,
                kind: Integer,
                of: |key| Coordinate::Count(key.batch),
                set: |key, text| put(&mut key.batch, count(text)),
                definition: "examples per batch",
            },
            Self::SequenceLength => Declaration {
                column: "sequence_length",
                heading: "sequence",
                role: Task,
                kind: Integer,
                of: |key| key.sequence_length.into(),
                set: |key, text| put(&mut key.sequence_length, count(text).map(Some)),
                definition: "length of the sequence axis in tokens",
            },
            Self::Mode => Declaration {
                column: "mode",
                heading: "mode",
                role: Task,
                kind: Text,
                of: |key| Coordinate::Text(key.mode.name()),
                set: |key, text| put(&mut key.mode, text.parse()),
                definition: "the mode",
            },
            Self::Scenario => Declaration {
                column: "scenario",
                heading: "scenario",
                role: Load,
                kind: Text,
                of: |key| Coordinate::Text(key.scenario.name()),
                set: |key, text| put(&mut key.scenario, text.parse()),
                definition: "load scenario",
            },
            Self::Rate => Declaration {
                column: "rate",
                heading: "rate",
                role: Load,
                kind: Real,
                of: |key| key.rate.map_or(Coordinate::None, |rate| Coordinate::Number(rate.get())),
                set: |key, text| put(&mut key.rate, rate(text).map(Some)),
                definition: "queries per second of an open loop; NULL if it is searched",
            },
            Self::Clients => Declaration {
                column: "clients",
                heading: "clients",
                role: Load,
                kind: Integer,
                of: |key| key.clients.into(),
                set: |key, text| put(&mut key.clients, count(text).map(Some)),
                definition: "clients of a closed loop",
            },
        }
    }

    /// Returns the name of its columns: the axis's name with underscores.
    #[must_use]
    pub fn column(self) -> &'static str {
        self.declaration().column
    }

    /// Returns the heading of its columns for people.
    #[must_use]
    pub fn heading(self) -> &'static str {
        self.declaration().heading
    }

    /// Returns its part in a decision.
    #[must_use]
    pub fn role(self) -> AxisRole {
        self.declaration().role
    }

    /// Returns the kind of its cells.
    #[must_use]
    pub fn kind(self) -> CellKind {
        self.declaration().kind
    }

    /// Returns the definition, for reference pages.
    #[must_use]
    pub fn definition(self) -> &'static str {
        self.declaration().definition
    }

    /// Returns whether its values are numbers.
    #[must_use]
    pub fn is_number(self) -> bool {
        self.kind() != CellKind::Text
    }

    /// Returns the coordinate of a case.
    #[must_use]
    pub fn of(self, key: &CaseKey) -> Coordinate<'_> {
        (self.declaration().of)(key)
    }

    /// Returns the coordinate as text; `None` if the case has none on this axis.
    #[must_use]
    pub fn value(self, key: &CaseKey) -> Option<String> {
        let coordinate = self.of(key);
        (coordinate != Coordinate::None).then(|| coordinate.to_string())
    }

    /// Reads a coordinate from text, as [`Axis::value`] writes it.
    ///
    /// # Errors
    ///
    /// If the text is not a value of this axis.
    pub fn set(self, key: &mut CaseKey, text: &str) -> Result<(), String> {
        (self.declaration().set)(key, text)
    }

    /// Returns whether a name of the case leaves this coordinate out: the mode `inference`.
    #[must_use]
    pub fn goes_without_saying(self, key: &CaseKey) -> bool {
        self == Self::Mode && key.mode == Mode::Inference
    }

    /// Returns the coordinate as shown to people: a scenario with its rate or its clients.
    #[must_use]
    pub fn shown_value(self, key: &CaseKey) -> Option<String> {
        match self {
            Self::Scenario => Some(key.load()),
            _ => self.value(key),
        }
    }

    /// Returns the coordinate as shown to people, with a word for a number: `batch 8`.
    #[must_use]
    pub fn labelled(self, key: &CaseKey) -> Option<String> {
        let value = self.shown_value(key)?;
        Some(if self.is_number() { format!("{} {value}", self.heading()) } else { value })
    }
}

impl fmt::Display for CaseKey {
    /// Writes `digits · cpu · cpu:0 · fp32 · batch 8 · offline`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes = Axis::shown().filter(|axis| !axis.goes_without_saying(self));
        let words: Vec<String> = axes.filter_map(|axis| axis.labelled(self)).collect();
        formatter.write_str(&words.join(" · "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scenario;

    #[test]
    fn columns_are_names_with_underscores() {
        for axis in Axis::ALL {
            assert_eq!(axis.column(), axis.name().replace('-', "_"));
        }
    }

    #[test]
    fn a_coordinate_is_read_as_it_is_written() {
        let key = CaseKey {
            sequence_length: Some(128),
            rate: Rate::per_second(0.1).ok(),
            clients: Some(4),
            batch: 8,
            scenario: Scenario::Server,
            mode: Mode::Training,
            ..CaseKey::new("digits", "cpu", "cpu:0")
        };
        let mut read = CaseKey::new("m", "b", "d");
        for axis in Axis::ALL {
            axis.set(&mut read, &axis.value(&key).expect("a value")).expect("its own text");
        }
        assert_eq!(read, key);
        for (axis, text) in [
            (Axis::Batch, "0"),
            (Axis::Batch, "1.5"),
            (Axis::Precision, "fp7"),
            (Axis::Rate, "-1"),
            (Axis::Device, ""),
        ] {
            axis.set(&mut read, text).expect_err(text);
            assert_eq!(read, key, "{text}");
        }
    }

    #[test]
    fn a_key_is_serialised_by_the_names_of_its_axes() {
        let key = CaseKey {
            sequence_length: Some(128),
            rate: Rate::per_second(500.0).ok(),
            clients: Some(4),
            scenario: Scenario::Server,
            ..CaseKey::new("digits", "cpu", "cpu:0")
        };
        let json = serde_json::to_value(&key).expect("JSON");
        let mut names: Vec<_> = json.as_object().expect("an object").keys().collect();
        let mut axes: Vec<_> = Axis::ALL.iter().map(|axis| axis.name()).collect();
        names.sort_unstable();
        axes.sort_unstable();
        assert_eq!(names, axes);
        let shown: Vec<_> = Axis::shown().filter_map(|axis| axis.labelled(&key)).collect();
        assert_eq!(
            shown.join(" · "),
            "digits · cpu · cpu:0 · fp32 · batch 1 · sequence 128 · inference · server at 500/s"
        );
    }
}
