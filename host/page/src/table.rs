/*!
Tables of data: a row for each thing, with columns of names and of numbers.

A number's cell has its value in `data-v`, by which scripts sort; the text is for people. On a narrow screen the columns
of names give way to one name for the row, and the key columns follow it.
*/

use maud::{Markup, html};

/// A table.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Its id on the page.
    pub id: String,
    /// Its name for screen readers.
    pub label: String,
    /// The heading of the rows' names.
    pub rows_are: String,
    /// Columns after the name of the row.
    pub columns: Vec<Column>,
    /// Rows.
    pub rows: Vec<Row>,
}

/// A column.
#[derive(Debug, Clone, Default)]
pub struct Column {
    /// Heading.
    pub heading: String,
    /// Explanation, shown when the pointer rests on the heading.
    pub title: String,
    /// Whether it has numbers.
    pub is_number: bool,
    /// Whether its cells are part of the row's name.
    pub is_name: bool,
    /// Whether it has no room on a narrow screen.
    pub is_lesser: bool,
}

impl Column {
    /// Returns a column of names that together make the row's name.
    pub fn name(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), is_name: true, ..Self::default() }
    }

    /// Returns a column of text.
    pub fn text(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), ..Self::default() }
    }

    /// Returns a column of numbers.
    pub fn number(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), is_number: true, ..Self::default() }
    }
}

/// A row.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// Its anchor on the page.
    pub id: Option<String>,
    /// Its name.
    pub name: Markup,
    /// Class of the row, such as `failed`.
    pub class: Option<&'static str>,
    /// The place of its case in the page's data.
    pub case: Option<usize>,
    /// Cells. If there are fewer than columns, the last one spans the rest.
    pub cells: Vec<Cell>,
}

/// A cell.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    /// Its content.
    pub content: Markup,
    /// A smaller second line.
    pub below: Option<String>,
    /// The value that it sorts by.
    pub value: Option<f64>,
    /// Class.
    pub class: Option<&'static str>,
    /// Explanation, shown when the pointer rests on it.
    pub title: Option<String>,
}

impl Cell {
    /// Returns a cell with text.
    pub fn text(text: impl AsRef<str>) -> Self {
        let text = text.as_ref();
        Self { content: html! { (text) }, ..Self::default() }
    }

    /// Returns a cell with a number as text, and the value that it sorts by.
    pub fn number(text: impl AsRef<str>, value: f64) -> Self {
        Self { value: Some(value), ..Self::text(text) }
    }

    /// Returns a cell without a value, and the reason.
    pub fn missing(text: impl AsRef<str>, reason: Option<String>) -> Self {
        let text = text.as_ref();
        Self { content: html! { (text) }, class: Some("missing"), title: reason, ..Self::default() }
    }
}

impl Table {
    /// Returns the table. Scripts add sorting and filtering.
    #[must_use]
    pub fn draw(&self) -> Markup {
        let has_names = self.columns.iter().any(|column| column.is_name);
        html! {
            div.scroll tabindex="0" role="group" aria-label=(self.label) {
                table.wide.data.named[has_names] id=(self.id) {
                    thead { tr {
                        th.joined scope="col" { (self.rows_are) }
                        @for column in &self.columns {
                            th scope="col" class=[class(column, None)] title=[some(&column.title)]
                                data-sort=(if column.is_number { "number" } else { "text" }) { (column.heading) }
                        }
                    } }
                    tbody { @for row in &self.rows {
                        tr id=[row.id.as_deref()] class=[row.class] data-c=[row.case] {
                            th.joined scope="row" { (row.name) }
                            @for (index, cell) in row.cells.iter().enumerate() {
                                @let column = &self.columns[index.min(self.columns.len() - 1)];
                                @let rest = self.columns.len() - index;
                                @let is_last = index + 1 == row.cells.len() && rest > 1;
                                td class=[class(column, cell.class)] title=[cell.title.as_deref()]
                                    data-v=[cell.value.map(written)] colspan=[is_last.then_some(rest)] {
                                    (cell.content)
                                    @if let Some(below) = &cell.below { span.interval { (below) } }
                                }
                            }
                        }
                    } }
                }
            }
        }
    }
}

fn some(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Writes a value to sort by: six digits are as many as any order needs that a reader could check.
fn written(value: f64) -> String {
    let short = format!("{value:.5e}");
    let plain = value.to_string();
    if plain.len() <= short.len() { plain } else { short }
}

fn class(column: &Column, of_cell: Option<&'static str>) -> Option<String> {
    let classes = [
        column.is_number.then_some("number"),
        column.is_name.then_some("name"),
        column.is_lesser.then_some("lesser"),
        of_cell.filter(|class| !class.is_empty()),
    ];
    let classes: Vec<_> = classes.into_iter().flatten().collect();
    (!classes.is_empty()).then(|| classes.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_row_spans_the_rest_and_numbers_sort_by_their_value() {
        let table = Table {
            id: "t".into(),
            label: "Table".into(),
            rows_are: "case".into(),
            columns: vec![Column::name("batch"), Column::number("p50"), Column::text("note")],
            rows: vec![
                Row {
                    name: html! { "a & b" },
                    case: Some(0),
                    cells: vec![
                        Cell::text("1"),
                        Cell::number("1.00 µs", 1000.0),
                        Cell::text("<b>"),
                    ],
                    ..Row::default()
                },
                Row { cells: vec![Cell::text("2"), Cell::text("failed")], ..Row::default() },
            ],
        };
        let drawn = table.draw().into_string();
        assert!(drawn.contains("<td class=\"number\" data-v=\"1000\">1.00 µs</td>"), "{drawn}");
        assert!(drawn.contains("<td class=\"number\" colspan=\"2\">failed</td>"), "{drawn}");
        assert!(drawn.contains("&lt;b&gt;") && drawn.contains("a &amp; b"), "{drawn}");
        assert_eq!(written(123_456_789.123), "1.23457e8");
    }
}
