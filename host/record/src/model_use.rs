//! Use of a model by a case: shapes and origin of its inputs, and the examples that its outputs have.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::gap::Gap;
use crate::model::AxesUse;
use crate::model_card::ModelCard;

/// Inputs of a case as it was measured, and the examples that its outputs have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ModelUse {
    /// Meaning of the axes.
    pub axes: AxesUse,
    /// Each input, in the model's order.
    pub inputs: Vec<InputUse>,
    /// Examples in the outputs of a run.
    pub samples: Result<u64, Gap>,
    /// Facts about the model, and the cost of a pass over these inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<Result<ModelCard, Gap>>,
}

/// An input of a case as it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct InputUse {
    /// The input.
    pub name: String,
    /// Its element type, as NumPy names it.
    pub element_type: String,
    /// Its shape.
    pub shape: Vec<i64>,
    /// Origin of its values.
    pub origin: InputOrigin,
}

/// Origin of an input's values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum InputOrigin {
    /// A file with an example for each place of the batch.
    Examples,
    /// A file with the whole input, which is the same in each run.
    Whole,
    /// Drawn uniformly, from a range of the manifest.
    Declared {
        /// Lowest value.
        low: f64,
        /// Highest value.
        high: f64,
    },
    /// Drawn uniformly from the positions of a table.
    Index {
        /// Entries of the table.
        entries: u64,
        /// The operator that looks it up.
        operator: String,
    },
    /// All ones, as a mask that hides nothing.
    Ones,
    /// 0, 1, 2, … along the last axis, as positions in a sequence.
    Positions,
    /// Drawn uniformly from 0 to 1, because nothing is known.
    Default,
}

impl fmt::Display for InputOrigin {
    /// Writes `from a file` or `drawn from 0 to 30521 (Gather)`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Examples => formatter.write_str("examples of a file"),
            Self::Whole => formatter.write_str("the whole of a file"),
            Self::Declared { low, high } => {
                write!(formatter, "drawn from {low} to {high} (manifest)")
            }
            Self::Index { entries, operator } => {
                write!(formatter, "drawn from 0 to {} ({operator})", entries.saturating_sub(1))
            }
            Self::Ones => formatter.write_str("ones (mask)"),
            Self::Positions => formatter.write_str("0, 1, 2, … (positions)"),
            Self::Default => formatter.write_str("drawn from 0 to 1 (default)"),
        }
    }
}

impl fmt::Display for InputUse {
    /// Writes `` `ids` int64 [8, 128]: drawn from 0 to 30521 (Gather) ``.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, element_type, shape, origin } = self;
        write!(formatter, "`{name}` {element_type} {shape:?}: {origin}")
    }
}
