//! Views: tables of the current run, read by name, with typed access by column name.

use std::collections::BTreeMap;

use crate::Error;

/// A cell of a table.
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

impl Cell {
    fn describe(&self) -> String {
        match self {
            Self::Null => "nothing".to_owned(),
            Self::Boolean(value) => format!("the boolean {value}"),
            Self::Integer(value) => format!("the integer {value}"),
            Self::Real(value) => format!("the real number {value}"),
            Self::Text(value) => format!("the text `{value}`"),
        }
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A table, by rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

/// A part of a view: some of its columns and rows. The default is the whole view.
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

impl Default for Part {
    fn default() -> Self {
        Self { columns: Vec::new(), conditions: Vec::new(), first: 0, count: u64::MAX }
    }
}

impl Part {
    /// Returns the part of a table. The error lists the columns that exist.
    fn of(&self, mut table: Table) -> Result<Table, String> {
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
        let conditions: Vec<(usize, &Vec<Cell>)> = self
            .conditions
            .iter()
            .map(|(name, cells)| Ok((position(name)?, cells)))
            .collect::<Result<_, String>>()?;
        let meets = |row: &Vec<Cell>| {
            conditions
                .iter()
                .all(|(column, cells)| row.get(*column).is_some_and(|cell| cells.contains(cell)))
        };
        table.rows.retain(meets);
        let bound = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let rows = table.rows.into_iter().skip(bound(self.first)).take(bound(self.count));
        let row = |row: Vec<Cell>| {
            columns.iter().map(|column| row.get(*column).cloned().unwrap_or(Cell::Null)).collect()
        };
        let rows = rows.map(row).collect();
        let columns = columns.iter().map(|column| table.columns[*column].clone()).collect();
        Ok(Table { columns, rows })
    }
}

/// The host's fixed views over the current run. For tests, a map from name to table implements it
/// too.
pub trait Views {
    /// Returns the names of the views.
    fn names(&self) -> Vec<String>;

    /// Returns a whole view.
    ///
    /// # Errors
    ///
    /// If there is no such view, or the host cannot read it.
    fn read(&self, name: &str) -> Result<Table, Error>;

    /// Returns a part of a view. In the sandbox only the part comes into the plugin's memory, and the host must be of
    /// `tare:plugin` 0.1.4.
    ///
    /// # Errors
    ///
    /// As [`Views::read`], or if there is no such column.
    fn read_part(&self, name: &str, part: &Part) -> Result<Table, Error> {
        let view = name.to_owned();
        part.of(self.read(name)?).map_err(|reason| Error::View { view, reason })
    }
}

impl Views for BTreeMap<String, Table> {
    fn names(&self) -> Vec<String> {
        self.keys().cloned().collect()
    }

    fn read(&self, name: &str) -> Result<Table, Error> {
        self.get(name).cloned().ok_or_else(|| Error::View {
            view: name.to_owned(),
            reason: format!("there is no such view; there are: {}", self.names().join(", ")),
        })
    }
}

/// A view with its columns by name.
#[derive(Debug, Clone)]
pub struct View {
    name: String,
    table: Table,
    positions: BTreeMap<String, usize>,
}

impl View {
    /// Reads a view.
    ///
    /// # Errors
    ///
    /// If there is no such view, or the host cannot read it.
    pub fn read(views: &dyn Views, name: &str) -> Result<Self, Error> {
        Self::of(name, views.read(name)?)
    }

    /// Reads a part of a view.
    ///
    /// # Errors
    ///
    /// As [`View::read`], or if there is no such column.
    pub fn read_part(views: &dyn Views, name: &str, part: &Part) -> Result<Self, Error> {
        Self::of(name, views.read_part(name, part)?)
    }

    fn of(name: &str, table: Table) -> Result<Self, Error> {
        if let Some(row) = table.rows.iter().find(|row| row.len() != table.columns.len()) {
            return Err(Error::View {
                view: name.to_owned(),
                reason: format!("a row of {} cells for {} columns", row.len(), table.columns.len()),
            });
        }
        let positions = table.columns.iter().cloned().zip(0..).collect();
        Ok(Self { name: name.to_owned(), table, positions })
    }

    /// Returns the rows, in the host's order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Row<'_>> {
        (0..self.table.rows.len()).map(|number| Row { view: self, number })
    }

    /// Returns whether this host offers a column: columns may be added in a minor version.
    #[must_use]
    pub fn has_column(&self, column: &str) -> bool {
        self.positions.contains_key(column)
    }
}

/// A row of a view.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    view: &'a View,
    number: usize,
}

macro_rules! typed_cell {
    ($name:ident, $optional:ident, $type:ty, $expected:literal, $pattern:pat => $value:expr) => {
        #[doc = concat!("A cell that holds ", $expected, ".")]
        ///
        /// # Errors
        ///
        /// If there is no such column, or the cell is empty or holds something else.
        pub fn $name(&self, column: &str) -> Result<$type, Error> {
            self.$optional(column)?.ok_or_else(|| self.mismatch(column, $expected, &Cell::Null))
        }

        #[doc = concat!("A cell that holds ", $expected, " or nothing.")]
        ///
        /// # Errors
        ///
        /// If there is no such column, or the cell holds something else.
        pub fn $optional(&self, column: &str) -> Result<Option<$type>, Error> {
            match self.cell(column)? {
                Cell::Null => Ok(None),
                $pattern => Ok(Some($value)),
                other => Err(self.mismatch(column, $expected, other)),
            }
        }
    };
}

impl<'a> Row<'a> {
    /// Returns a cell.
    ///
    /// # Errors
    ///
    /// If there is no such column.
    pub fn cell(&self, column: &str) -> Result<&'a Cell, Error> {
        let position = self.view.positions.get(column).ok_or_else(|| Error::MissingColumn {
            view: self.view.name.clone(),
            column: column.to_owned(),
            known: self.view.table.columns.join(", "),
        })?;
        Ok(&self.view.table.rows[self.number][*position])
    }

    typed_cell!(text, optional_text, &'a str, "text", Cell::Text(text) => text);
    typed_cell!(integer, optional_integer, i64, "an integer", Cell::Integer(value) => *value);
    typed_cell!(boolean, optional_boolean, bool, "a boolean", Cell::Boolean(value) => *value);

    /// Returns a cell that holds a number.
    ///
    /// # Errors
    ///
    /// If there is no such column, or the cell is empty or holds something else.
    pub fn real(&self, column: &str) -> Result<f64, Error> {
        self.optional_real(column)?.ok_or_else(|| self.mismatch(column, "a number", &Cell::Null))
    }

    /// Returns a cell that holds a number or nothing.
    ///
    /// # Errors
    ///
    /// If there is no such column, or the cell holds something else.
    pub fn optional_real(&self, column: &str) -> Result<Option<f64>, Error> {
        match self.cell(column)? {
            Cell::Null => Ok(None),
            Cell::Real(value) => Ok(Some(*value)),
            Cell::Integer(value) => Ok(Some(*value as f64)),
            other => Err(self.mismatch(column, "a number", other)),
        }
    }

    fn mismatch(&self, column: &str, expected: &'static str, found: &Cell) -> Error {
        Error::CellType {
            view: self.view.name.clone(),
            row: self.number + 1,
            column: column.to_owned(),
            expected,
            found: found.describe(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases() -> BTreeMap<String, Table> {
        let table = Table {
            columns: vec!["case_id".into(), "batch".into(), "reason".into()],
            rows: vec![vec!["a".into(), 8.into(), Cell::Null]],
        };
        BTreeMap::from([("cases".to_owned(), table)])
    }

    #[test]
    fn cells_are_typed_by_column_name() {
        let view = View::read(&cases(), "cases").unwrap();
        let row = view.rows().next().unwrap();
        assert_eq!(row.text("case_id").unwrap(), "a");
        assert_eq!(row.integer("batch").unwrap(), 8);
        assert_eq!(row.real("batch").unwrap(), 8.0);
        assert_eq!(row.optional_text("reason").unwrap(), None);
        assert!(!view.has_column("colour"));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let views = cases();
        let view = View::read(&views, "cases").unwrap();
        let row = view.rows().next().unwrap();
        insta::assert_snapshot!(
            row.text("colour").unwrap_err(),
            @"view `cases` has no column `colour`; it has: case_id, batch, reason. The host may be older than this plugin needs"
        );
        insta::assert_snapshot!(
            row.integer("case_id").unwrap_err(),
            @"view `cases`, row 1, column `case_id`: expected an integer, found the text `a`"
        );
        insta::assert_snapshot!(
            row.text("reason").unwrap_err(),
            @"view `cases`, row 1, column `reason`: expected text, found nothing"
        );
        insta::assert_snapshot!(
            View::read(&views, "results").unwrap_err(),
            @"view `results`: there is no such view; there are: cases"
        );
    }

    #[test]
    fn a_part_has_the_rows_and_columns_that_were_asked_for() {
        let row = |id: &str, batch: i64| vec![id.into(), batch.into(), Cell::Null];
        let mut views = cases();
        views.get_mut("cases").unwrap().rows =
            vec![row("a", 8), row("b", 1), row("c", 8), row("d", 8)];
        let mut part = Part {
            columns: vec!["reason".into(), "case_id".into()],
            conditions: vec![("batch".into(), vec![8.into(), 9.into()])],
            first: 1,
            count: 1,
        };
        let table = views.read_part("cases", &part).unwrap();
        assert_eq!(table.columns, ["reason", "case_id"]);
        assert_eq!(table.rows, [[Cell::Null, "c".into()]]);
        assert_eq!(views.read_part("cases", &Part::default()).unwrap(), views["cases"]);
        part.columns.push("colour".into());
        insta::assert_snapshot!(
            views.read_part("cases", &part).unwrap_err(),
            @"view `cases`: it has no column `colour`; it has: case_id, batch, reason"
        );
    }

    #[test]
    fn a_ragged_table_is_refused() {
        let mut views = cases();
        views.get_mut("cases").unwrap().rows[0].pop();
        insta::assert_snapshot!(
            View::read(&views, "cases").unwrap_err(),
            @"view `cases`: a row of 2 cells for 3 columns"
        );
    }
}
