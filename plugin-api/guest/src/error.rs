//! Errors of a plugin, whose messages the host shows to its user.

/// Reasons why a plugin failed. A value that a metric cannot compute for lack of data is not an error but a
/// [`Gap`](crate::Gap).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The options are invalid.
    #[error("options: {0}")]
    Options(String),
    /// The host refused a view.
    #[error("view `{view}`: {reason}")]
    View {
        /// The view that was asked for.
        view: String,
        /// The host's error.
        reason: String,
    },
    /// A view lacks a column.
    #[error(
        "view `{view}` has no column `{column}`; it has: {known}. The host may be older than this plugin needs"
    )]
    MissingColumn {
        /// The view.
        view: String,
        /// The column that was asked for.
        column: String,
        /// The available columns, joined by commas.
        known: String,
    },
    /// A cell holds another type than requested.
    #[error("view `{view}`, row {row}, column `{column}`: expected {expected}, found {found}")]
    CellType {
        /// The view.
        view: String,
        /// The row, counted from 1.
        row: usize,
        /// The column.
        column: String,
        /// The type that was asked for.
        expected: &'static str,
        /// Type of the cell.
        found: String,
    },
    /// A file could not be written.
    #[error("cannot write `{name}`: {reason}")]
    Write {
        /// The file.
        name: String,
        /// The host's error.
        reason: String,
    },
    /// Any other error, in one sentence.
    #[error("{0}")]
    Other(String),
}

impl From<String> for Error {
    fn from(text: String) -> Self {
        Self::Other(text)
    }
}

impl From<&str> for Error {
    fn from(text: &str) -> Self {
        Self::Other(text.to_owned())
    }
}
