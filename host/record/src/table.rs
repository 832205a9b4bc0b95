//! Tables that reports and recommenders read.

/// A value in a table.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nothing: SQL's NULL.
    Null,
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// Text.
    Text(String),
}

/// The kind of the cells of a column, as far as they are not NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellKind {
    /// True or false.
    Boolean,
    /// Whole numbers.
    Integer,
    /// Floating-point numbers.
    Real,
    /// Text.
    Text,
}

/// A table, by rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

/// The fixed views that the host offers to reports and recommenders.
pub trait Views {
    /// Returns the names of the views.
    fn names(&self) -> Vec<String>;

    /// Reads a whole view.
    ///
    /// # Errors
    ///
    /// In one sentence: there is no such view, with the names that exist, or the
    /// database's error.
    fn read(&self, name: &str) -> Result<Table, String>;
}
