//! Why there is no plan.

/// The most cells that a matrix may have: more than anyone can run, and few enough to count.
pub const CELL_LIMIT: u64 = 100_000_000;

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The facts or the experiment lack a model that the matrix names.
    #[error("nothing is known of the model `{0}`")]
    UnknownModel(String),
    /// The facts or the experiment lack a backend that the matrix names.
    #[error("nothing is known of the backend `{0}`")]
    UnknownBackend(String),
    /// The reference that outputs are to be compared with cannot be used.
    #[error("the reference `{id}` cannot be used: {reason}")]
    NoReference {
        /// What the manifest calls it.
        id: String,
        /// Why not.
        reason: String,
    },
    /// No cell is left.
    #[error("the matrix has no cell left: `exclude` leaves all of them out")]
    Empty,
    /// There are too many cells.
    #[error(
        "the matrix has {cells} cells, and at most {CELL_LIMIT} can be planned: shorten its axes"
    )]
    TooLarge {
        /// How many there are before exclusions.
        cells: u128,
    },
}
