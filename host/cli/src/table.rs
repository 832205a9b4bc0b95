//! Tables, as people and as machines read them.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, ContentArrangement, Table as Drawn, presets};
use host_record::{Cell, Table};
use serde_json::{Map, Value};

use crate::visible;

/// Returns JSON objects, one on each line.
pub(crate) fn json_lines(table: &Table) -> String {
    objects(table).iter().map(|object| format!("{object}\n")).collect()
}

/// Returns JSON objects, one for each row, with the columns' names as keys.
pub(crate) fn objects(table: &Table) -> Vec<Value> {
    let object = |row: &Vec<Cell>| {
        let pairs = table.columns.iter().cloned().zip(row.iter().map(json));
        Value::Object(pairs.collect::<Map<_, _>>())
    };
    table.rows.iter().map(object).collect()
}

/// Returns a table of one row, from an object whose values are plain.
pub(crate) fn of_object(object: &Value) -> Table {
    let cell = |value: &Value| match value {
        Value::Null => Cell::Null,
        Value::Bool(value) => Cell::Boolean(*value),
        Value::Number(number) => match number.as_i64() {
            Some(value) => Cell::Integer(value),
            None => number.as_f64().map_or(Cell::Null, Cell::Real),
        },
        Value::String(text) => Cell::Text(text.clone()),
        other => Cell::Text(other.to_string()),
    };
    let pairs = object.as_object().into_iter().flatten();
    let (columns, row) = pairs.map(|(name, value)| (name.clone(), cell(value))).unzip();
    Table { columns, rows: vec![row] }
}

fn json(cell: &Cell) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Boolean(value) => (*value).into(),
        Cell::Integer(value) => (*value).into(),
        Cell::Real(value) => (*value).into(),
        Cell::Text(text) => text.as_str().into(),
    }
}

/// Returns comma-separated values (RFC 4180) with a header, every character kept: programs must read
/// exactly what was recorded. Escaping cells that a spreadsheet takes for formulas would change
/// them; the report `csv`, which is made to be opened in one, does it.
pub(crate) fn csv(table: &Table) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let records = std::iter::once(table.columns.clone())
        .chain(table.rows.iter().map(|row| row.iter().map(text).collect()));
    for record in records {
        // Writing to memory cannot fail, and all rows are as long as the header.
        if writer.write_record(&record).is_err() {
            break;
        }
    }
    String::from_utf8_lossy(&writer.into_inner().unwrap_or_default()).into_owned()
}

/// Returns a Markdown table.
pub(crate) fn markdown(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let escape = |text: &String| {
        let text = text.replace('\\', "\\\\").replace('|', "\\|").replace('\n', " ");
        visible::line(&text).into_owned()
    };
    let mut text_ = line(table.columns.iter().map(escape).collect());
    let rule = (0..table.columns.len())
        .map(|column| if is_numeric(table, column) { "---:".to_owned() } else { "---".to_owned() });
    text_.push_str(&line(rule.collect()));
    for row in &table.rows {
        text_.push_str(&line(row.iter().map(|cell| escape(&text(cell))).collect()));
    }
    text_
}

/// Characters of a cell of several words below which it is hard to read.
const READABLE: usize = 20;

/// Returns a table for people: borderless columns, numbers to the right, wrapped to `width`; a
/// block for each row if the columns do not fit side by side.
pub(crate) fn human(table: &Table, width: usize) -> String {
    let right: Vec<_> = (0..table.columns.len()).map(|column| is_numeric(table, column)).collect();
    let rows: Vec<Vec<String>> =
        table.rows.iter().map(|row| row.iter().map(|cell| shown(&text(cell))).collect()).collect();
    let columns: Vec<String> = table.columns.iter().map(|name| shown(name)).collect();
    side_by_side(columns, rows, &right, width)
}

/// Columns wrapped to `width`, or blocks.
fn side_by_side(
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
    right: &[bool],
    width: usize,
) -> String {
    // The least readable width of a column: its longest word, or a line of a few words.
    let needs = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).chain(columns.get(column));
        let words = cells.clone().flat_map(|cell| cell.split_whitespace());
        let longest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0);
        let word = longest(&mut words.map(|word| word.chars().count()));
        let cell = longest(&mut cells.map(|cell| cell.chars().count()));
        word.max(cell.min(READABLE)) + 2
    };
    if rows.iter().any(|row| row.len() > 1)
        && (0..right.len()).map(needs).sum::<usize>() > width + 2
    {
        return blocks(&columns, &rows);
    }
    draw(columns, rows, right, width)
}

/// Returns a cell's text for people.
fn shown(text: &str) -> String {
    visible::line(&visible::excerpt(text)).into_owned()
}

/// Returns a line for each cell, for tables with more columns than fit side by side.
fn blocks(columns: &[String], rows: &[Vec<String>]) -> String {
    let longest = columns.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let _ = writeln!(text, "row {}", index + 1);
        for (name, cell) in columns.iter().zip(row) {
            let _ = writeln!(text, "{}", format!("  {name:<longest$}  {cell}").trim_end());
        }
    }
    text
}

/// Removes the columns that are empty in every row.
pub(crate) fn without_empty_columns(mut table: Table) -> Table {
    let is_empty = |column| table.rows.iter().all(|row| row.get(column) == Some(&Cell::Null));
    let empty: Vec<_> = (0..table.columns.len()).filter(|column| is_empty(*column)).collect();
    for column in empty.into_iter().rev() {
        remove_at(&mut table, column);
    }
    table
}

/// Removes a column, if there is one of this name.
pub(crate) fn remove_column(table: &mut Table, name: &str) {
    if let Some(column) = table.columns.iter().position(|column| column == name) {
        remove_at(table, column);
    }
}

fn remove_at(table: &mut Table, column: usize) {
    table.columns.remove(column);
    for row in &mut table.rows {
        row.remove(column);
    }
}

/// A column of a table for people.
#[derive(Debug, Clone, Default)]
pub(crate) struct Column {
    pub(crate) heading: String,
    pub(crate) cells: Vec<String>,
    /// Whether it is aligned to the right, as numbers are.
    pub(crate) right: bool,
    /// Order in which columns are dropped on a narrow terminal, the greatest number first; 0 stays.
    pub(crate) gives_way: u8,
    /// Short forms of heading and cells for a narrow terminal.
    pub(crate) short: Option<(String, Vec<String>)>,
}

impl Column {
    /// Creates a column that is aligned to the left and stays.
    pub(crate) fn new(heading: &str, cells: Vec<String>) -> Self {
        let cells = cells.iter().map(|cell| shown(cell)).collect();
        Self { heading: shown(heading), cells, ..Self::default() }
    }

    fn width(&self) -> usize {
        let lengths = self.cells.iter().chain([&self.heading]).map(|text| text.chars().count());
        lengths.max().unwrap_or(0) + 2
    }
}

/// Draws the columns that fit: first the long ones are shortened, then columns are dropped. The rest is
/// wrapped, or a block for each row if it cannot be read side by side even so. Also returns a note that
/// names the dropped columns.
pub(crate) fn fit(mut columns: Vec<Column>, width: usize) -> (String, Option<String>) {
    let too_wide = |columns: &[Column]| {
        // There is no gap before the first column.
        columns.iter().map(Column::width).sum::<usize>() > width + 2
    };
    if too_wide(&columns) {
        for column in &mut columns {
            if let Some(short) = column.short.take() {
                (column.heading, column.cells) = short;
            }
        }
    }
    let mut hidden = Vec::new();
    while too_wide(&columns) {
        let candidates = columns.iter().enumerate().filter(|(_, column)| column.gives_way > 0);
        let Some((index, _)) = candidates.max_by_key(|(_, column)| column.gives_way) else { break };
        hidden.push(columns.remove(index).heading);
    }
    let note = (!hidden.is_empty())
        .then(|| format!("{width} columns have no room for {}", hidden.join(", ")));
    let right: Vec<_> = columns.iter().map(|column| column.right).collect();
    let header = columns.iter().map(|column| column.heading.clone()).collect();
    let rows = (0..columns.first().map_or(0, |column| column.cells.len()))
        .map(|row| columns.iter().map(|column| column.cells[row].clone()).collect())
        .collect();
    (side_by_side(header, rows, &right, width), note)
}

/// Draws columns, with those of `right` aligned to the right.
fn draw(header: Vec<String>, rows: Vec<Vec<String>>, right: &[bool], width: usize) -> String {
    let mut drawn = Drawn::new();
    drawn
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(width).unwrap_or(u16::MAX))
        .set_header(header)
        .add_rows(rows);
    for (index, column) in drawn.column_iter_mut().enumerate() {
        column.set_padding((if index == 0 { 0 } else { 2 }, 0));
        if right.get(index).copied().unwrap_or(false) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<_> = drawn.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

fn is_numeric(table: &Table, column: usize) -> bool {
    let mut cells = table.rows.iter().filter_map(|row| row.get(column));
    let numeric = |cell: &Cell| matches!(cell, Cell::Integer(_) | Cell::Real(_) | Cell::Null);
    cells.clone().any(|cell| *cell != Cell::Null) && cells.all(numeric)
}

/// Returns a cell as text; NULL is empty.
pub(crate) fn text(cell: &Cell) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Boolean(value) => value.to_string(),
        Cell::Integer(value) => value.to_string(),
        Cell::Real(value) => value.to_string(),
        Cell::Text(text) => text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table {
            columns: vec!["name".into(), "p99".into()],
            rows: vec![
                vec![Cell::Text("a|b, \"c\"".into()), Cell::Real(0.5)],
                vec![Cell::Text("a longer name".into()), Cell::Null],
            ],
        }
    }

    #[test]
    fn every_form_says_the_same() {
        insta::assert_snapshot!(json_lines(&table()), @r#"
        {"name":"a|b, \"c\"","p99":0.5}
        {"name":"a longer name","p99":null}
        "#);
        insta::assert_snapshot!(csv(&table()), @r#"
        name,p99
        "a|b, ""c""",0.5
        a longer name,
        "#);
        insta::assert_snapshot!(markdown(&table()), @r#"
        | name | p99 |
        | --- | ---: |
        | a\|b, "c" | 0.5 |
        | a longer name |  |
        "#);
        insta::assert_snapshot!(human(&table(), 80), @r#"
    name           p99
    a|b, "c"       0.5
    a longer name
    "#);
    }

    #[test]
    fn a_cell_is_one_line_that_does_nothing_to_a_terminal() {
        let name = "GPU\x1b[2J\nrow 2  \x07\0";
        let table =
            Table { columns: vec!["name".into()], rows: vec![vec![Cell::Text(name.into())]] };
        assert_eq!(human(&table, 80), "name\nGPU␛[2J␊row 2  ␇␀");
        assert_eq!(markdown(&table), "| name |\n| --- |\n| GPU␛[2J row 2  ␇␀ |\n");
        let column = Column::new("name", vec![name.into()]);
        assert_eq!(fit(vec![column], 80).0, "name\nGPU␛[2J␊row 2  ␇␀");
        assert_eq!(csv(&table), format!("name\n\"{name}\"\n"), "machines get every character");
    }

    #[test]
    fn a_narrow_table_wraps() {
        let drawn = human(&table(), 18);
        assert!(drawn.lines().all(|line| line.chars().count() <= 18), "{drawn}");
    }

    #[test]
    fn what_does_not_fit_side_by_side_is_written_in_blocks() {
        insta::assert_snapshot!(human(&table(), 14), @r#"
    row 1
      name  a|b, "c"
      p99   0.5
    row 2
      name  a longer name
      p99
    "#);
    }

    #[test]
    fn columns_that_give_way_are_named() {
        let column = |heading: &str, gives_way| Column {
            gives_way,
            ..Column::new(heading, vec!["0123456789".into()])
        };
        let columns = || vec![column("a", 0), column("b", 2), column("c", 1)];
        assert_eq!(fit(columns(), 34).1, None);
        assert_eq!(fit(columns(), 33).1.as_deref(), Some("33 columns have no room for b"));
        assert_eq!(fit(columns(), 20).1.as_deref(), Some("20 columns have no room for b, c"));
    }

    #[test]
    fn columns_that_stay_and_do_not_fit_are_written_in_blocks() {
        let column = |heading: &str| Column::new(heading, vec!["0123456789".into()]);
        let (drawn, note) = fit(vec![column("a"), column("verdict")], 20);
        assert_eq!(drawn, "row 1\n  a        0123456789\n  verdict  0123456789\n");
        assert_eq!(note, None);
    }
}
