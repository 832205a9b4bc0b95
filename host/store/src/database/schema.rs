//! The database's schema, by numbered migrations.

use std::path::Path;

use duckdb::Connection;

use super::connection::failed;
use crate::error::StoreError;

/// A step from the previous version to this one.
pub(crate) struct Migration {
    pub(crate) version: u32,
    pub(crate) sql: &'static str,
}

/// All migrations, oldest first. A released one is never edited.
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, sql: include_str!("v1.sql") },
    Migration { version: 2, sql: include_str!("v2.sql") },
    Migration { version: 3, sql: include_str!("v3.sql") },
    Migration { version: 4, sql: include_str!("v4.sql") },
];

/// The schema that all migrations lead to.
const FRESH: &str = include_str!("fresh.sql");

/// Returns the version that migrations lead to.
pub(crate) fn newest(migrations: &[Migration]) -> u32 {
    migrations.last().map_or(0, |migration| migration.version)
}

/// Returns the version of a database; 0 for an empty one.
pub(crate) fn version(connection: &Connection, path: &Path) -> Result<u32, StoreError> {
    let read = |sql| connection.query_row(sql, [], |row| row.get::<_, Option<u32>>(0));
    let tables = "SELECT count(*)::UINTEGER FROM duckdb_tables() \
                  WHERE table_name = 'schema_version' AND NOT temporary";
    match read(tables).map_err(failed(path, "read the database"))? {
        None | Some(0) => Ok(0),
        Some(_) => Ok(read("SELECT max(version)::UINTEGER FROM schema_version")
            .map_err(failed(path, "read the database"))?
            .unwrap_or(0)),
    }
}

/// Brings a database to the newest version, whether it is new, of an earlier version or without some columns of cases.
pub(crate) fn bring_up_to_date(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    if version(connection, path)? == 0 {
        return create(connection, path);
    }
    migrate(connection, path, MIGRATIONS)?;
    complete(connection, path)
}

/// Creates the schema in a new database.
fn create(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let action = "create the database's schema";
    let step = connection.transaction().map_err(failed(path, action))?;
    let (host, now) = (env!("CARGO_PKG_VERSION"), jiff::Timestamp::now());
    let versions = MIGRATIONS.iter().map(|Migration { version, .. }| {
        format!("INSERT INTO schema_version VALUES ({version}, TIMESTAMP '{now:.3}', '{host}');")
    });
    let versions: String = versions.collect();
    step.execute_batch(&format!("{VERSIONS}; {FRESH} {}; {versions}", super::cases::table()))
        .and_then(|()| step.commit())
        .map_err(failed(path, action))
}

/// The table of versions.
const VERSIONS: &str = "CREATE TABLE IF NOT EXISTS schema_version \
                        (version INTEGER NOT NULL, applied_at TIMESTAMP NOT NULL, host_version VARCHAR NOT NULL)";

/// Migrates a database to the newest version, each step in its own transaction.
pub(super) fn migrate(
    connection: &mut Connection,
    path: &Path,
    migrations: &[Migration],
) -> Result<(), StoreError> {
    let (found, supported) = (version(connection, path)?, newest(migrations));
    if found > supported {
        return Err(StoreError::NewerDatabase { path: path.to_owned(), found, supported });
    }
    for migration in migrations.iter().filter(|migration| migration.version > found) {
        tracing::debug!(database = %path.display(), version = migration.version, "migrating");
        let action = "bring the database's schema up to date";
        let step = connection.transaction().map_err(failed(path, action))?;
        let Migration { version, sql } = migration;
        let host = env!("CARGO_PKG_VERSION");
        let now = jiff::Timestamp::now();
        step.execute_batch(VERSIONS)
            .and_then(|()| step.execute_batch(sql))
            .and_then(|()| {
                step.execute_batch(&format!(
                    "INSERT INTO schema_version VALUES \
                     ({version}, TIMESTAMP '{now:.3}', '{host}')"
                ))
            })
            .and_then(|()| step.commit())
            .map_err(failed(path, action))?;
    }
    Ok(())
}

/// Adds the columns of cases that a database lacks.
fn complete(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    super::cases::complete(connection)
        .map_err(failed(path, "bring the database's schema up to date"))
}
