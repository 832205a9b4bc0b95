/*!
Opening DuckDB, and keeping it within bounds.

No connection fetches or loads extensions. A connection that runs a user's query can also read no file except the
samples, cannot change its settings, and runs only `SELECT`: a read-only database would still let `COPY … TO`
overwrite a run's files.
*/

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use duckdb::types::{TimeUnit, Value, ValueRef};
use duckdb::{AccessMode, Config, Connection};
use host_record::{Cell, Table};
use serde_json::Value as Json;

use crate::error::{StoreError, duckdb_message};
use crate::run::refuse_link;

/// Settings that every connection has.
fn configuration(access: AccessMode) -> duckdb::Result<Config> {
    Config::default()
        .access_mode(access)?
        .with("autoinstall_known_extensions", "false")?
        .with("autoload_known_extensions", "false")?
        .with("allow_community_extensions", "false")
}

/// The view over the samples of all runs.
pub(crate) const SAMPLES_VIEW: &str = "raw_benchmark_data";

/// The answer to a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Its rows.
    pub table: Table,
    /// The columns whose values are lists, structures or maps: their cells are JSON text.
    pub nested: BTreeSet<usize>,
    /// Whether the query read the samples of cases.
    pub reads_samples: bool,
}

/// The answer to a query in columns, as DuckDB made them.
#[derive(Debug, Clone)]
pub struct Columns {
    /// Names and types of the columns.
    pub schema: SchemaRef,
    /// Their values, some thousand rows at a time.
    pub batches: Vec<RecordBatch>,
}

/// Returns the path of a database file's log.
pub(super) fn write_ahead_log(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".wal");
    name.into()
}

/// Opens a database file, and waits for other processes for at most `patience`.
pub(super) fn connect(
    path: &Path,
    access: AccessMode,
    patience: Duration,
) -> Result<Connection, StoreError> {
    // DuckDB takes the rest for the query of a URL, and puts its log elsewhere.
    if path.to_string_lossy().contains('?') {
        let detail = format!("DuckDB takes no path with a question mark: `{}`", path.display());
        return Err(StoreError::Database { action: "open the database", detail });
    }
    // An untrusted results folder must not lead DuckDB to another file.
    refuse_link(path)?;
    refuse_link(&write_ahead_log(path))?;
    for file in [path, &write_ahead_log(path)] {
        if let Err(error) = host_files::check(file)
            && host_files::is_unsuitable(&error)
        {
            let path = file.to_owned();
            return Err(StoreError::Unreadable { path, detail: error.to_string() });
        }
    }
    let deadline = Instant::now() + patience;
    let read_only = matches!(access, AccessMode::ReadOnly);
    loop {
        let access = if read_only { AccessMode::ReadOnly } else { AccessMode::ReadWrite };
        let opened =
            configuration(access).and_then(|settings| Connection::open_with_flags(path, settings));
        match opened.map_err(failed(path, "open the database")) {
            Err(StoreError::Busy { .. }) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(50));
            }
            opened => return opened.and_then(|connection| check_complete(connection, path)),
        }
    }
}

/// Refuses a file that is shorter than the blocks in use. DuckDB opens such a file if it does not need the lost
/// blocks yet. It may have free blocks beyond the end of the file, so those do not count.
fn check_complete(connection: Connection, path: &Path) -> Result<Connection, StoreError> {
    /// Size of DuckDB's main header and two database headers, of 4 KiB each, which precede the blocks.
    const HEADERS_BYTES: u64 = 3 * 4096;
    let blocks_bytes: u64 = connection
        .query_row(
            "SELECT block_size * used_blocks FROM pragma_database_size() \
             WHERE database_name = current_database()",
            [],
            |row| row.get(0),
        )
        .map_err(failed(path, "read the size of the database"))?;
    let expected = if blocks_bytes == 0 { 0 } else { HEADERS_BYTES + blocks_bytes };
    let found = std::fs::metadata(path).map_err(StoreError::io("read", path))?.len();
    if found < expected {
        let detail = format!("it has {found} bytes and should have at least {expected}");
        return Err(StoreError::Unreadable { path: path.to_owned(), detail });
    }
    Ok(connection)
}

/// Distinguishes DuckDB's errors about a database file.
pub(super) fn failed(
    path: &Path,
    action: &'static str,
) -> impl FnOnce(duckdb::Error) -> StoreError {
    move |error| {
        let detail = duckdb_message(&error);
        located(StoreError::Database { action, detail }, path)
    }
}

/// Turns DuckDB's error about a file into a typed error.
pub(super) fn located(error: StoreError, path: &Path) -> StoreError {
    let StoreError::Database { action, detail } = error else { return error };
    let contains = |words: &[&str]| words.iter().any(|words| detail.contains(words));
    let path = path.to_owned();
    if contains(&["Could not set lock on file", "being used by another process"]) {
        StoreError::Busy { path, detail }
    } else if contains(&[
        "not a valid DuckDB database",
        "Corrupt",
        "corrupt",
        "checksum",
        "Serialization Error",
        "database file with version number",
        "Could not read enough bytes",
        "Failure while replaying WAL",
        "INTERNAL Error",
        "FATAL Error",
    ]) {
        StoreError::Unreadable { path, detail }
    } else {
        StoreError::Database { action, detail }
    }
}

/// Opens a database in memory.
pub(crate) fn in_memory() -> Result<Connection, StoreError> {
    configuration(AccessMode::Automatic)
        .and_then(Connection::open_in_memory_with_flags)
        .map_err(StoreError::database("open a database in memory"))
}

/// Returns a text as an SQL literal.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Returns a path as an SQL literal.
pub(crate) fn path_literal(path: &Path) -> String {
    literal(&path.to_string_lossy())
}

/// Returns a path as a pattern that matches itself only.
pub(super) fn escaped(path: &Path) -> String {
    let mut pattern = String::new();
    for character in path.to_string_lossy().chars() {
        if matches!(character, '*' | '?' | '[' | ']') {
            pattern.extend(['[', character, ']']);
        } else {
            pattern.push(character);
        }
    }
    pattern
}

/// Returns an SQL literal for the files in `folder` that match `rest`, which may have wildcards.
pub(crate) fn pattern_literal(folder: &Path, rest: &str) -> String {
    literal(&format!("{}/{rest}", escaped(folder)))
}

/// Permanently restricts the connection to the files in `folder`.
pub(crate) fn confine(connection: &Connection, folder: &Path) -> Result<(), StoreError> {
    // Patterns are checked as text before the matching files.
    let name = literal(&format!("{}/", folder.to_string_lossy()));
    let pattern = literal(&format!("{}/", escaped(folder)));
    connection
        .execute_batch(&format!(
            "SET allowed_directories = [{name}, {pattern}]; SET enable_external_access = false; \
             SET lock_configuration = true;"
        ))
        .map_err(StoreError::database("confine the database"))
}

/// Runs a user's query. It must be a `SELECT`, or one of the statements that DuckDB treats as one: `FROM`, `VALUES`,
/// `WITH`, `DESCRIBE`, `SHOW`, `SUMMARIZE`.
pub(crate) fn user_query(connection: &Connection, sql: &str) -> Result<Answer, StoreError> {
    let parsed = parse(connection, sql)?;
    let (table, nested) = answer(connection, sql, &[])
        .map_err(|error| StoreError::Query { detail: duckdb_message(&error) })?;
    Ok(Answer { table, nested, reads_samples: names_table(&parsed, SAMPLES_VIEW) })
}

/// Runs a user's query as [`user_query`] does, and returns its columns as Arrow has them.
pub(crate) fn user_query_in_columns(
    connection: &Connection,
    sql: &str,
) -> Result<Columns, StoreError> {
    parse(connection, sql)?;
    let failed = |error: duckdb::Error| StoreError::Query { detail: duckdb_message(&error) };
    let mut statement = connection.prepare(sql).map_err(failed)?;
    let schema = statement.query_arrow([]).map_err(failed)?.get_schema();
    // The iterator that `query_arrow` returns panics if DuckDB fails.
    let mut batches = Vec::new();
    while let Some(batch) = statement.step().map_err(failed)? {
        batches.push(RecordBatch::from(batch));
    }
    Ok(Columns { schema, batches })
}

/// Parses a user's query with DuckDB's own parser, and returns the statement's tree.
///
/// # Errors
///
/// If it is not a query that reads.
pub(crate) fn parse(connection: &Connection, sql: &str) -> Result<Json, StoreError> {
    let parsed: String = connection
        .query_row("SELECT json_serialize_sql(?::VARCHAR)", [sql], |row| row.get(0))
        .map_err(|error| StoreError::Query { detail: duckdb_message(&error) })?;
    let parsed = serde_json::from_str(&parsed).unwrap_or(Json::Null);
    match refusal(&parsed, sql) {
        Some(detail) => Err(StoreError::Query { detail }),
        None => Ok(parsed),
    }
}

/// Returns whether a statement's tree names a table or view, as a reference or as a function's argument.
pub(crate) fn names_table(parsed: &Json, table: &str) -> bool {
    has_text(parsed, &|text| text.trim_matches('"').eq_ignore_ascii_case(table))
}

/// Returns whether a statement's tree asks which tables exist: `SHOW`, `DESCRIBE`, the information schema, or
/// DuckDB's functions about itself.
pub(crate) fn lists_tables(parsed: &Json) -> bool {
    has_text(parsed, &|text| {
        let text = text.to_ascii_lowercase();
        text == "show_ref" || text == "information_schema" || text.starts_with("duckdb_")
    })
}

/// Returns whether a tree holds a text of this kind.
fn has_text(parsed: &Json, is_it: &impl Fn(&str) -> bool) -> bool {
    match parsed {
        Json::String(text) => is_it(text),
        Json::Array(items) => items.iter().any(|item| has_text(item, is_it)),
        Json::Object(fields) => fields.values().any(|field| has_text(field, is_it)),
        Json::Null | Json::Bool(_) | Json::Number(_) => false,
    }
}

/// Returns why `json_serialize_sql` refuses a text, as a message for its author.
fn refusal(parsed: &Json, sql: &str) -> Option<String> {
    let text = |name: &str| parsed.get(name).and_then(Json::as_str);
    if parsed.get("error").and_then(Json::as_bool) != Some(true) {
        let statements = parsed.get("statements").and_then(Json::as_array);
        return match statements.map_or(0, Vec::len) {
            1 => None,
            0 => Some("the query is empty".into()),
            _ => Some("only one query at a time".into()),
        };
    }
    let message = text("error_message").unwrap_or("DuckDB gave no reason");
    if text("error_type") == Some("not implemented") {
        return Some(
            "only queries that read are allowed: SELECT, FROM, WITH, VALUES, DESCRIBE, SHOW, \
             SUMMARIZE (and PIVOT with an IN list)"
                .into(),
        );
    }
    let position = text("position").and_then(|position| position.parse::<usize>().ok());
    let near = position.and_then(|position| sql.get(position..));
    let near = near.map(|rest| rest.chars().take(40).collect::<String>());
    Some(match near {
        Some(near) if !near.is_empty() => format!("{message}, here: {near}"),
        _ => message.into(),
    })
}

/// Runs one of this crate's queries.
pub(crate) fn table(connection: &Connection, sql: &str) -> duckdb::Result<Table> {
    table_of(connection, sql, &[])
}

/// Runs one of this crate's queries with values in the places of its question marks.
pub(super) fn table_of(
    connection: &Connection,
    sql: &str,
    values: &[&str],
) -> duckdb::Result<Table> {
    Ok(answer(connection, sql, values)?.0)
}

/// Runs a query that has been checked.
fn answer(
    connection: &Connection,
    sql: &str,
    values: &[&str],
) -> duckdb::Result<(Table, BTreeSet<usize>)> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query(duckdb::params_from_iter(values))?;
    let columns: Vec<String> = match rows.as_ref() {
        Some(statement) => statement.column_names(),
        None => Vec::new(),
    };
    let mut table = Table { columns, rows: Vec::new() };
    let mut nested = BTreeSet::new();
    while let Some(row) = rows.next()? {
        let mut cells = Vec::with_capacity(table.columns.len());
        for index in 0..table.columns.len() {
            let value = row.get_ref(index)?;
            if matches!(
                value,
                ValueRef::List(..) | ValueRef::Array(..) | ValueRef::Struct(..) | ValueRef::Map(..)
            ) {
                nested.insert(index);
            }
            cells.push(cell(value));
        }
        table.rows.push(cells);
    }
    Ok((table, nested))
}

/// Converts a DuckDB value to a cell. Whole numbers too large for 64 bits become floating-point
/// ones, times become RFC 3339 text in UTC, and lists and structures become JSON.
fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Boolean(value) => Cell::Boolean(value),
        ValueRef::TinyInt(value) => Cell::Integer(value.into()),
        ValueRef::SmallInt(value) => Cell::Integer(value.into()),
        ValueRef::Int(value) => Cell::Integer(value.into()),
        ValueRef::BigInt(value) => Cell::Integer(value),
        ValueRef::UTinyInt(value) => Cell::Integer(value.into()),
        ValueRef::USmallInt(value) => Cell::Integer(value.into()),
        ValueRef::UInt(value) => Cell::Integer(value.into()),
        ValueRef::UBigInt(value) => {
            i64::try_from(value).map_or(Cell::Real(value as f64), Cell::Integer)
        }
        ValueRef::HugeInt(value) => {
            i64::try_from(value).map_or(Cell::Real(value as f64), Cell::Integer)
        }
        ValueRef::UHugeInt(value) => {
            i64::try_from(value).map_or(Cell::Real(value as f64), Cell::Integer)
        }
        ValueRef::Float(value) => Cell::Real(value.into()),
        ValueRef::Double(value) => Cell::Real(value),
        ValueRef::Text(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
        other => match json(other.to_owned()) {
            Json::String(text) => Cell::Text(text),
            Json::Number(number) => number.as_f64().map_or(Cell::Null, Cell::Real),
            other => Cell::Text(other.to_string()),
        },
    }
}

fn json(value: Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Boolean(value) => value.into(),
        Value::TinyInt(value) => value.into(),
        Value::SmallInt(value) => value.into(),
        Value::Int(value) => value.into(),
        Value::BigInt(value) => value.into(),
        Value::HugeInt(value) => i64::try_from(value).map_or((value as f64).into(), Json::from),
        Value::UTinyInt(value) => value.into(),
        Value::USmallInt(value) => value.into(),
        Value::UInt(value) => value.into(),
        Value::UBigInt(value) => value.into(),
        Value::Float(value) => value.into(),
        Value::Double(value) => value.into(),
        Value::Text(text) | Value::Enum(text) => text.into(),
        Value::Timestamp(unit, value) => time(unit, value).into(),
        Value::Date32(days) => {
            let text = time(TimeUnit::Second, i64::from(days) * 86_400);
            text.split('T').next().unwrap_or_default().into()
        }
        Value::Time64(unit, value) => {
            let text = time(unit, value);
            text.split('T').nth(1).unwrap_or_default().trim_end_matches('Z').into()
        }
        Value::List(values) | Value::Array(values) => values.into_iter().map(json).collect(),
        Value::Struct(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), json(value.clone())));
            Json::Object(fields.collect())
        }
        Value::Map(entries) => {
            let name = |key: &Value| match json(key.clone()) {
                Json::String(text) => text,
                other => other.to_string(),
            };
            let entries = entries.iter().map(|(key, value)| (name(key), json(value.clone())));
            Json::Object(entries.collect())
        }
        Value::Union(value) => json(*value),
        Value::Blob(bytes) | Value::Geometry(bytes) => host_hash::hexadecimal(&bytes).into(),
        Value::Interval { months, days, nanos } => {
            format!("{months} months {days} days {} s", nanos as f64 / 1e9).into()
        }
        // These are decimals, and types that later versions of the crate may add.
        other => decimal(&other),
    }
}

fn decimal(value: &Value) -> serde_json::Value {
    match value {
        Value::Decimal(decimal) => {
            let text = decimal.to_string();
            text.parse::<f64>().map_or_else(|_| text.clone().into(), Into::into)
        }
        other => format!("{other:?}").into(),
    }
}

fn time(unit: TimeUnit, value: i64) -> String {
    let time = match unit {
        TimeUnit::Second => jiff::Timestamp::from_second(value),
        TimeUnit::Millisecond => jiff::Timestamp::from_millisecond(value),
        TimeUnit::Microsecond => jiff::Timestamp::from_microsecond(value),
        TimeUnit::Nanosecond => jiff::Timestamp::from_nanosecond(value.into()),
    };
    time.map_or_else(|_| value.to_string(), |time| time.to_string())
}
