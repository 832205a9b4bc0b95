//! Errors of planning.

use host_record::AxisObstacle;

/// The most cells that a matrix may have: more than anyone can run, and few enough to count.
pub const CELL_LIMIT: u64 = 100_000_000;

/// Reasons why planning failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The facts or the experiment lack a model that the matrix names.
    #[error("there are no facts about the model `{0}`")]
    UnknownModel(String),
    /// The facts or the experiment lack a backend that the matrix names.
    #[error("there are no facts about the backend `{0}`")]
    UnknownBackend(String),
    /// The reference for outputs cannot be used.
    #[error("the reference `{id}` cannot be used: {reason}")]
    NoReference {
        /// Its name in the manifest.
        id: String,
        /// Reason why it cannot be used.
        reason: String,
    },
    /// The manifest does not fit the axes of a model, or leaves some without a size.
    #[error("the model `{model}`: {}", obstacle.reason())]
    Axes {
        /// The model's id.
        model: String,
        /// The reason.
        obstacle: Box<AxisObstacle>,
    },
    /// An input steers the model, and the manifest does not give it.
    #[error(
        "the model `{model}`: `{input}` decides what is computed, or how much (a branch, rounds of a loop or a size), and has no \
         usual value"
    )]
    Steers {
        /// The model's id.
        model: String,
        /// The input.
        input: String,
    },
    /// An input is computed with before it is looked up in a table, and the manifest does not give it.
    #[error(
        "the model `{model}`: `{operator}` computes with `{input}` before it is looked up in a table of {entries} entries, \
         so it is not known which values are legal"
    )]
    Computed {
        /// The model's id.
        model: String,
        /// The input.
        input: String,
        /// Entries of the table.
        entries: u64,
        /// The operator.
        operator: String,
    },
    /// No cell is left.
    #[error("the matrix is empty: `exclude` removes every cell")]
    Empty,
    /// There are too many cells.
    #[error(
        "the matrix has {cells} cells, more than the maximum of {CELL_LIMIT}: shorten its axes"
    )]
    TooLarge {
        /// Number of cells before exclusions.
        cells: u128,
    },
}

impl PlanError {
    /// Returns what to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Axes { obstacle, .. } => obstacle.hint(),
            Self::Steers { input, .. } => Some(format!(
                "give it a range in the `[[model]]`, such as `inputs.\"{input}\" = {{ low = 10, high = 10 }}`"
            )),
            Self::Computed { input, .. } => Some(format!(
                "give it a range in the `[[model]]`, such as `inputs.\"{input}\" = {{ low = 0, high = 100 }}`"
            )),
            _ => None,
        }
    }
}
