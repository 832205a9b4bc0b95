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
];

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

/// Migrates a database to the newest version, each step in its own transaction.
pub(crate) fn migrate(
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
        step.execute_batch(
            "CREATE TABLE IF NOT EXISTS schema_version \
             (version INTEGER NOT NULL, applied_at TIMESTAMP NOT NULL, host_version VARCHAR NOT NULL)",
        )
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
pub(crate) fn complete(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    super::cases::complete(connection)
        .map_err(failed(path, "bring the database's schema up to date"))
}
