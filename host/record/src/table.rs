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

/// A part of a view: some of its columns and rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Names of columns, in the order of the answer; none stands for all.
    pub columns: Vec<String>,
    /// Conditions, all of which a row meets: the cell of a column is one of these.
    pub conditions: Vec<(String, Vec<Cell>)>,
    /// Rows to leave out, of those that meet the conditions.
    pub first: u64,
    /// The most rows to return after those.
    pub count: u64,
}

impl Part {
    /// Returns the part of a table.
    ///
    /// # Errors
    ///
    /// If there is no such column; the error lists those that exist.
    pub fn of(&self, mut table: Table) -> Result<Table, String> {
        let position = |name: &String| {
            let found = table.columns.iter().position(|column| column == name);
            found.ok_or_else(|| {
                format!("it has no column `{name}`; it has: {}", table.columns.join(", "))
            })
        };
        let columns: Vec<usize> = match &self.columns[..] {
            [] => (0..table.columns.len()).collect(),
            names => names.iter().map(position).collect::<Result<_, _>>()?,
        };
        let conditions = self.conditions.iter().map(|(name, cells)| Ok((position(name)?, cells)));
        let conditions: Vec<(usize, &Vec<Cell>)> = conditions.collect::<Result<_, String>>()?;
        table
            .rows
            .retain(|row| conditions.iter().all(|(column, cells)| cells.contains(&row[*column])));
        let bound = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let rows = table.rows.into_iter().skip(bound(self.first)).take(bound(self.count));
        let row = |row: Vec<Cell>| columns.iter().map(|column| row[*column].clone()).collect();
        let rows = rows.map(row).collect();
        let columns = columns.iter().map(|column| table.columns[*column].clone()).collect();
        Ok(Table { columns, rows })
    }
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

    /// Reads a part of a view.
    ///
    /// # Errors
    ///
    /// As [`Views::read`], or if there is no such column.
    fn read_part(&self, name: &str, part: &Part) -> Result<Table, String> {
        part.of(self.read(name)?)
    }
}
