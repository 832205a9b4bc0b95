/*!
The columns of `benchmark_cases`, in one table.

They are the store's own columns, the axes of the matrix and the measured quantities; the last two are declared in
`host-record`. The schema, the import, the view `cases` and the tables of the reference page are made from this list,
so a new axis or quantity needs no line here and no migration: a column that a database file lacks is added when it is
opened.
*/

use std::fmt::Write as _;

use duckdb::types::{TimeUnit, ToSql, Value};
use duckdb::{Appender, Connection};
use host_record::{
    Axis, CaseRecord, CellKind, Coordinate, Outcome, QUANTITIES, Quantity, Source, Verdict,
};

pub(crate) const TABLE: &str = "benchmark_cases";

/// A case with facts that its record lacks.
pub(super) struct CaseRow<'a> {
    pub(super) run_id: &'a str,
    pub(super) record: &'a CaseRecord,
    /// Its place in the plan.
    pub(super) index: Option<u64>,
    /// Measured queries on record.
    pub(super) queries: Option<u64>,
}

/// A column that is neither an axis nor a quantity.
struct FixedColumn {
    name: &'static str,
    sql_type: &'static str,
    /// Whether the view `cases` has the column.
    is_shown: bool,
    of: fn(&CaseRow<'_>) -> Value,
}

fn text(text: Option<impl Into<String>>) -> Value {
    text.map_or(Value::Null, |text| Value::Text(text.into()))
}

fn count(count: Option<u64>) -> Value {
    count.map_or(Value::Null, |count| Value::BigInt(i64::try_from(count).unwrap_or(i64::MAX)))
}

fn json(value: Option<&impl serde::Serialize>) -> Value {
    text(value.map(|value| serde_json::to_string(value).unwrap_or_else(|_| "null".into())))
}

/// Converts an RFC 3339 time for a TIMESTAMP column, which is in UTC; NULL if the text is not a time.
pub(super) fn timestamp(text: &str) -> Value {
    match text.parse::<jiff::Timestamp>() {
        Ok(time) => Value::Timestamp(TimeUnit::Microsecond, time.as_microsecond()),
        Err(_) => Value::Null,
    }
}

const fn own(
    name: &'static str,
    sql_type: &'static str,
    of: fn(&CaseRow<'_>) -> Value,
) -> FixedColumn {
    FixedColumn { name, sql_type, is_shown: true, of }
}

const fn hidden(
    name: &'static str,
    sql_type: &'static str,
    of: fn(&CaseRow<'_>) -> Value,
) -> FixedColumn {
    FixedColumn { name, sql_type, is_shown: false, of }
}

/// Columns that identify a case; the axes follow.
const FIRST: &[FixedColumn] = &[
    hidden("run_id", "VARCHAR", |row| text(Some(row.run_id))),
    own("case_id", "VARCHAR", |row| text(Some(&*row.record.case_id))),
    own("case_index", "BIGINT", |row| count(row.index)),
];

/// Columns after the axes; the quantities come last.
const SECOND: &[FixedColumn] = &[
    own("outcome", "VARCHAR", |row| text(Some(row.record.outcome.name()))),
    own("reason_kind", "VARCHAR", |row| text(row.record.reason().map(|(kind, _)| kind))),
    own("reason", "VARCHAR", |row| text(row.record.reason().map(|(_, reason)| reason))),
    own("reason_data", "VARCHAR", |row| match &row.record.outcome {
        Outcome::Finished(_) => Value::Null,
        Outcome::Failed { failure } => json(Some(failure)),
        Outcome::Gap { gap } => json(Some(gap)),
    }),
    own("plugin_id", "VARCHAR", |row| text(row.record.spec.as_ref().map(|spec| &*spec.plugin.id))),
    own("plugin_version", "VARCHAR", |row| {
        text(row.record.spec.as_ref().map(|spec| &*spec.plugin.version))
    }),
    own("plugin_sha256", "VARCHAR", |row| {
        text(row.record.spec.as_ref().map(|spec| &*spec.plugin.sha256))
    }),
    own("model_sha256", "VARCHAR", |row| {
        text(row.record.spec.as_ref().map(|spec| &*spec.model.sha256))
    }),
    own("device_name", "VARCHAR", |row| {
        text(row.record.spec.as_ref().map(|spec| &*spec.device.name))
    }),
    own("threads", "INTEGER", |row| {
        let threads = row.record.spec.as_ref().and_then(|spec| spec.threads);
        count(threads.map(u64::from))
    }),
    hidden("seed", "UBIGINT", |row| {
        row.record.spec.as_ref().map_or(Value::Null, |spec| Value::UBigInt(spec.seed))
    }),
    own("queries", "BIGINT", |row| count(row.queries)),
    hidden("started_at", "TIMESTAMP", |row| timestamp(&row.record.started_at)),
    own("elapsed_ns", "BIGINT", |row| count(Some(row.record.elapsed_ns))),
    own("clock_source", "VARCHAR", |row| {
        text(row.record.report().map(|report| &*report.clock.source))
    }),
    own("used", "VARCHAR", |row| json(row.record.report().map(|report| &report.used))),
    own("measure", "VARCHAR", |row| json(row.record.spec.as_ref().map(|spec| &spec.measure))),
    own("valid", "BOOLEAN", |row| {
        let verdict = row.record.report().and_then(|report| report.verdict.as_ref());
        verdict.map(Verdict::is_valid).map_or(Value::Null, Value::Boolean)
    }),
    own("verdict", "VARCHAR", |row| {
        json(row.record.report().and_then(|report| report.verdict.as_ref()))
    }),
    own("search", "VARCHAR", |row| {
        json(row.record.report().and_then(|report| report.search.as_ref()))
    }),
    own("warm_up", "VARCHAR", |row| {
        json(row.record.report().and_then(|report| report.warm_up.as_ref()))
    }),
    own("processes", "INTEGER", |row| count(Some(row.record.processes().into()))),
    own("paired", "VARCHAR", |row| {
        json(row.record.report().and_then(|report| report.paired.as_ref()))
    }),
    own("conditions", "VARCHAR", |row| json(row.record.report().map(|report| &report.conditions))),
    own("asked_by", "VARCHAR", |row| {
        let asked = row.record.spec.as_ref().and_then(|spec| spec.asked.as_ref());
        text(asked.map(|asked| &*asked.by))
    }),
];

fn axis_type(axis: Axis) -> &'static str {
    match axis.kind() {
        CellKind::Boolean => "BOOLEAN",
        CellKind::Integer => "INTEGER",
        CellKind::Real => "DOUBLE",
        CellKind::Text => "VARCHAR",
    }
}

fn axis_value(axis: Axis, row: &CaseRow<'_>) -> Value {
    match axis.of(&row.record.key) {
        Coordinate::None => Value::Null,
        Coordinate::Text(value) => Value::Text(value.to_owned()),
        Coordinate::Count(value) => Value::BigInt(value.into()),
        Coordinate::Number(value) => Value::Double(value),
    }
}

fn quantity_type(quantity: &Quantity) -> &'static str {
    match quantity.source {
        Source::Whole(_) => "BIGINT",
        Source::Real(_) => "DOUBLE",
    }
}

fn quantity_value(quantity: &Quantity, row: &CaseRow<'_>) -> Value {
    match quantity.source {
        Source::Whole(of) => count(of(row.record).and_then(Result::ok)),
        Source::Real(of) => of(row.record).and_then(Result::ok).map_or(Value::Null, Value::Double),
    }
}

/// Returns the columns with their types and whether the view `cases` has them, in the order of the values.
fn columns() -> Vec<(String, &'static str, bool)> {
    let own = |own: &FixedColumn| (own.name.to_owned(), own.sql_type, own.is_shown);
    let axes = Axis::ALL.iter().map(|axis| (axis.column().to_owned(), axis_type(*axis), true));
    let quantities =
        QUANTITIES.iter().map(|quantity| (quantity.column(), quantity_type(quantity), true));
    FIRST.iter().map(own).chain(axes).chain(SECOND.iter().map(own)).chain(quantities).collect()
}

/// Returns the names of the columns, in the order in which [`append`] gives their values.
pub(super) fn names() -> Vec<String> {
    columns().into_iter().map(|(name, ..)| name).collect()
}

pub(super) fn append(cases: &mut Appender<'_>, row: &CaseRow<'_>) -> duckdb::Result<()> {
    let own = |own: &FixedColumn| (own.of)(row);
    let axes = Axis::ALL.iter().map(|axis| axis_value(*axis, row));
    let quantities = QUANTITIES.iter().map(|quantity| quantity_value(quantity, row));
    let values: Vec<Value> =
        FIRST.iter().map(own).chain(axes).chain(SECOND.iter().map(own)).chain(quantities).collect();
    let values: Vec<&dyn ToSql> = values.iter().map(|value| value as &dyn ToSql).collect();
    cases.append_row(&*values)
}

/// Returns the columns that the table of a database lacks, with their types.
pub(super) fn lacking(connection: &Connection) -> duckdb::Result<Vec<(String, &'static str)>> {
    let mut statement = connection.prepare(&format!(
        "SELECT column_name FROM duckdb_columns() WHERE table_name = '{TABLE}' AND NOT internal"
    ))?;
    let there: Vec<String> =
        statement.query_map([], |row| row.get(0))?.collect::<duckdb::Result<_>>()?;
    let lacks = columns().into_iter().filter(|(name, ..)| !there.contains(name));
    Ok(lacks.map(|(name, sql_type, _)| (name, sql_type)).collect())
}

/// Returns the statement that creates the table in a new database.
pub(super) fn table() -> String {
    let required = ["run_id", "case_id"];
    let column = |(name, sql_type, _): (String, &str, bool)| {
        let constraint = if required.contains(&&*name) { " NOT NULL" } else { "" };
        format!("{name} {sql_type}{constraint}")
    };
    let columns: Vec<String> = columns().into_iter().map(column).collect();
    format!("CREATE TABLE {TABLE} ({})", columns.join(", "))
}

/// Adds the columns that the table lacks. Its runs are then imported again, since their folders may have values for
/// these columns.
pub(super) fn complete(connection: &mut Connection) -> duckdb::Result<()> {
    let lacking = lacking(connection)?;
    if lacking.is_empty() {
        return Ok(());
    }
    let step = connection.transaction()?;
    for (name, sql_type) in lacking {
        step.execute_batch(&format!("ALTER TABLE {TABLE} ADD COLUMN {name} {sql_type}"))?;
    }
    step.execute_batch("UPDATE benchmark_runs SET fingerprint = ''")?;
    step.commit()
}

/// Returns the statement that creates the view `cases`.
pub(crate) fn view() -> String {
    let shown: Vec<String> =
        columns().into_iter().filter(|(.., is_shown)| *is_shown).map(|(name, ..)| name).collect();
    format!(
        "CREATE VIEW views.cases AS SELECT {} FROM main.{TABLE} \
         ORDER BY case_index NULLS LAST, case_id;",
        shown.join(", ")
    )
}

/// Returns the tables of axes and of quantities in the reference page of the views.
#[must_use]
pub fn reference() -> String {
    let mut page = "| axis | column | meaning |\n|---|---|---|\n".to_owned();
    for axis in Axis::ALL {
        let _ = writeln!(page, "| `{axis}` | `{}` | {} |", axis.column(), axis.definition());
    }
    page.push_str("\n| quantity | column | unit | meaning |\n|---|---|---|---|\n");
    for quantity in QUANTITIES {
        let _ = writeln!(
            page,
            "| `{}` | `{}` | {} | {} |",
            quantity.id,
            quantity.column(),
            quantity.unit,
            quantity.definition
        );
    }
    page
}
