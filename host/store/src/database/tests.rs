//! Older and newer databases with this host.

use std::time::Duration;

use super::schema::{Migration, bring_up_to_date, migrate, newest};
use super::*;

const V1: Migration = Migration { version: 1, sql: include_str!("v1.sql") };

fn client(path: &Path) -> Connection {
    Connection::open(path).expect("a database")
}

/// A released migration must never change: a database made by it would differ from what later ones
/// expect. If this fails, undo the edit and add a migration.
#[test]
fn released_migrations_are_as_they_were() {
    let hashes: Vec<_> = MIGRATIONS
        .iter()
        .map(|migration| {
            let hash = host_hash::sha256(migration.sql.as_bytes());
            format!("{} {hash}", migration.version)
        })
        .collect();
    insta::assert_snapshot!(hashes.join("\n"), @r#"
    1 1e7d57b6351bc3e607682d40c3133a29d050ed12220c7b0d89bae0b144237fca
    2 f235e0d4a90a6ba0a780732192c4fe4494378371900972e96642b28892a57b43
    3 0439f0c2741987cc16bc496febc4d68c7b14fbc1fc52c6cd3e8d0983b9fc0262
    4 50ca085ef5233f7b48f8e25b4554b9045f5212d0ca61be0f90ae74e83796bae3
    "#);
    let versions: Vec<u32> = MIGRATIONS.iter().map(|migration| migration.version).collect();
    assert_eq!(versions, (1..=newest(MIGRATIONS)).collect::<Vec<_>>());
}

#[test]
fn a_new_database_is_what_all_migrations_lead_to() {
    let columns = |connection: &Connection| -> Vec<String> {
        let sql = "SELECT concat_ws(' ', table_name, column_name, data_type, is_nullable, column_default) \
                   FROM duckdb_columns() WHERE NOT internal ORDER BY ALL";
        let mut statement = connection.prepare(sql).expect("a query");
        let rows = statement.query_map([], |row| row.get(0)).expect("columns");
        rows.collect::<duckdb::Result<_>>().expect("texts")
    };
    let versions = |connection: &Connection| -> i64 {
        connection
            .query_row("SELECT sum(version) FROM schema_version", [], |row| row.get(0))
            .expect("versions")
    };
    let path = Path::new("memory");
    let mut migrated = Connection::open_in_memory().expect("a database");
    migrate(&mut migrated, path, MIGRATIONS).expect("all steps");
    bring_up_to_date(&mut migrated, path).expect("columns of cases");
    let mut new = Connection::open_in_memory().expect("a database");
    bring_up_to_date(&mut new, path).expect("a schema");
    assert_eq!(columns(&new), columns(&migrated));
    assert_eq!(versions(&new), versions(&migrated));
    assert!(columns(&new).len() > 100, "the columns of cases are there");
}

#[test]
fn a_database_of_version_1_goes_up_step_by_step_and_keeps_its_rows() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(DATABASE_FILE);
    let mut connection = client(&path);
    migrate(&mut connection, &path, &[V1]).expect("version 1");
    connection
        .execute_batch("INSERT INTO benchmark_warnings VALUES ('r', 'c', 0, 'drift', '{}')")
        .expect("a row");
    // This host's newest schema accepts it.
    migrate(&mut connection, &path, MIGRATIONS).expect("the newest version");

    // Future migrations behave the same: each step is applied once, in order, completely or not at all.
    let version = newest(MIGRATIONS);
    let next = |version, sql| Migration { version, sql };
    let later = [
        V1,
        next(version + 1, "ALTER TABLE benchmark_warnings ADD COLUMN more VARCHAR"),
        next(version + 2, "UPDATE benchmark_warnings SET more = kind; CREATE TABLE broken (;"),
    ];
    let error = migrate(&mut connection, &path, &later).expect_err("a broken step");
    assert!(error.to_string().contains("schema"), "{error}");
    assert_eq!(schema::version(&connection, &path).expect("a version"), version + 1);
    let more: Option<String> = connection
        .query_row("SELECT more FROM benchmark_warnings", [], |row| row.get(0))
        .expect("the row is still there");
    assert_eq!(more, None, "the broken step left nothing behind");
    connection.close().map_err(|(_, error)| error).expect("a closed database");

    // This host opens the database of that newer host.
    let results = ResultsFolder::new(folder.path());
    for error in [
        Database::open(&results, Duration::ZERO).err().expect("a newer database"),
        Database::query(&results, "SELECT 1", Duration::ZERO).expect_err("a newer database"),
    ] {
        let StoreError::NewerDatabase { found, supported, .. } = error else {
            panic!("not refused as newer: {error:?}")
        };
        assert_eq!((found, supported), (version + 1, version));
        assert!(error.hint().expect("a hint").contains("update this host"));
    }
}

/// A host with a new axis or quantity adds its column, and imports the runs again.
#[test]
fn a_column_that_a_database_lacks_is_added_and_its_runs_are_read_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let results = ResultsFolder::new(folder.path());
    Database::open(&results, Duration::ZERO).expect("a database").close().expect("closed");
    let connection = client(&results.database_path());
    connection
        .execute_batch(
            "ALTER TABLE benchmark_cases DROP COLUMN peak_memory_bytes; \
             INSERT INTO benchmark_runs (run_id, experiment, description, started_at, host_version, \
             manifest_path, manifest_sha256, cases, finished, failed, gaps, record_version, fingerprint) \
             VALUES ('r', '', '', now()::TIMESTAMP, '', '', '', 0, 0, 0, 0, 1, 'known')",
        )
        .expect("a database of an older host");
    connection.close().map_err(|(_, error)| error).expect("a closed database");
    let sql = "SELECT fingerprint, (SELECT count(peak_memory_bytes) FROM benchmark_cases) \
               FROM benchmark_runs";
    let answer = Database::query(&results, sql, Duration::ZERO).expect("an answer").table;
    let none = host_record::Cell::Integer(0);
    assert_eq!(answer.rows, [[host_record::Cell::Text(String::new()), none]]);
}

#[test]
fn an_empty_file_of_an_older_host_is_brought_up_to_date_by_a_query() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let results = ResultsFolder::new(folder.path());
    drop(client(&results.database_path()));
    let table = Database::query(&results, "SELECT count(*) FROM benchmark_runs", Duration::ZERO);
    assert_eq!(table.expect("an answer").table.rows, [[host_record::Cell::Integer(0)]]);
}
