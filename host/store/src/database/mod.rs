/*!
The DuckDB file beside the run folders: an index for queries across runs.

DuckDB lets one process write, or several read, and never both. So the file is open only for the duration of an import
or a query, and nothing requires it to be free: a run is complete in its folder, and [`Database::sync`] can import it
at any later time. An import deletes the run's rows and inserts them again in one transaction, so it can be repeated
and interrupted at will.
*/

mod cases;
mod connection;
mod import;
mod schema;

pub use cases::reference;
pub(crate) use cases::view as cases_view;
pub use connection::{Answer, Columns};
pub(crate) use connection::{
    SAMPLES_VIEW, confine, in_memory, lists_tables, names_table, parse, path_literal,
    pattern_literal, table, user_query, user_query_in_columns,
};
pub(crate) use import::import;
use schema::MIGRATIONS;
pub(crate) use schema::bring_up_to_date;

use connection::{connect, failed, located, write_ahead_log};

use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use duckdb::{AccessMode, Connection};
use host_record::{Cell, Table};

use crate::error::StoreError;
use crate::platform::sync_folder;
use crate::results_folder::{DATABASE_FILE, ResultsFolder, folder_name};
use crate::run::{DEVICE_STATE_NUMBERS, Flaw, Inspection, RunFolder};

/// The database file, open for writing.
pub struct Database {
    connection: Connection,
    results: ResultsFolder,
    path: PathBuf,
}

/// The database file, open for queries of the host's own.
pub struct Reader {
    connection: Connection,
    path: PathBuf,
}

impl Reader {
    /// Reads a table. `values` take the places of the question marks in the query.
    ///
    /// # Errors
    ///
    /// If DuckDB fails.
    pub fn table(&self, sql: &str, values: &[&str]) -> Result<Table, StoreError> {
        connection::table_of(&self.connection, sql, values)
            .map_err(failed(&self.path, "read the database"))
    }
}

/// Result of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Synced {
    /// The database was up to date.
    Unchanged,
    /// The run was imported.
    Imported {
        /// Rows of `benchmark_cases`.
        cases: u64,
        /// Rows of `benchmark_results`.
        results: u64,
    },
}

/// Result of an import of all runs, run by run, oldest first.
#[derive(Debug, Default)]
pub struct SyncReport {
    /// The run's folder, and the result. A run that cannot be read does not affect others.
    pub runs: Vec<(PathBuf, Result<Synced, StoreError>)>,
    /// Ids of runs that were dropped from the database because their folders are gone.
    pub dropped: Vec<String>,
    /// Flaws of runs that could be read.
    pub flaws: Vec<Flaw>,
    /// Folders that are not runs, as found by [`ResultsFolder::half_made`].
    pub half_made: Vec<PathBuf>,
}

impl Database {
    /// Opens the database of a results folder for writing, creates it if there is none, and updates
    /// its schema. If another process has it open, waits for at most `patience`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`], [`StoreError::NewerDatabase`] or [`StoreError::Unreadable`], each with
    /// a hint, or the file system's error.
    pub fn open(results: &ResultsFolder, patience: Duration) -> Result<Self, StoreError> {
        let results = existing(results)?;
        Self::open_file(results.database_path(), results, patience)
    }

    fn open_file(
        path: PathBuf,
        results: ResultsFolder,
        patience: Duration,
    ) -> Result<Self, StoreError> {
        let mut connection = connect(&path, AccessMode::ReadWrite, patience)?;
        bring_up_to_date(&mut connection, &path)?;
        // Relative names in views refer to this folder.
        let search = path_literal(results.path());
        connection
            .execute_batch(&format!("SET file_search_path = {search}"))
            .map_err(failed(&path, "set up the database"))?;
        let database = Self { connection, results, path };
        database.refresh_raw_view()?;
        Ok(database)
    }

    /// Imports a run, unless the database is up to date.
    ///
    /// # Errors
    ///
    /// If the run folder cannot be read, or DuckDB fails; the database is then unchanged.
    pub fn sync(&mut self, folder: &RunFolder) -> Result<Synced, StoreError> {
        self.sync_inspected(folder, &folder.inspect()?)
    }

    fn sync_inspected(
        &mut self,
        folder: &RunFolder,
        inspection: &Inspection,
    ) -> Result<Synced, StoreError> {
        let started = Instant::now();
        let known: Option<String> = self
            .connection
            .query_row(
                "SELECT max(fingerprint) FROM benchmark_runs WHERE run_id = ?",
                [folder.run_id()],
                |row| row.get(0),
            )
            .map_err(failed(&self.path, "read the database"))?;
        if known.as_deref() == Some(&*inspection.fingerprint) {
            return Ok(Synced::Unchanged);
        }
        let (cases, results) = import(&mut self.connection, folder, inspection)
            .map_err(|error| located(error, &self.path))?;
        self.refresh_raw_view()?;
        tracing::debug!(
            run = folder.run_id(), cases, results, elapsed = ?started.elapsed(),
            "run imported into the database"
        );
        Ok(Synced::Imported { cases, results })
    }

    /// Imports every run of the results folder that is new or has changed, and drops those whose
    /// folder is gone. A run whose folder exists but cannot be read is left unchanged.
    ///
    /// # Errors
    ///
    /// If the results folder cannot be read.
    pub fn sync_all(&mut self) -> Result<SyncReport, StoreError> {
        let mut report = SyncReport::default();
        let mut present = HashSet::new();
        for path in self.results.run_paths()? {
            present.insert(folder_name(&path));
            let synced = RunFolder::open(&path).and_then(|folder| {
                let inspection = folder.inspect()?;
                let synced = self.sync_inspected(&folder, &inspection)?;
                report.flaws.extend(folder.flaws_with(inspection.lost)?);
                Ok(synced)
            });
            report.runs.push((path, synced));
        }
        report.dropped = self.drop_absent(&present)?;
        report.half_made = self.results.half_made()?;
        Ok(report)
    }

    /// Drops all runs but these.
    fn drop_absent(&mut self, present: &HashSet<String>) -> Result<Vec<String>, StoreError> {
        let known = table(&self.connection, "SELECT run_id FROM benchmark_runs ORDER BY run_id")
            .map_err(failed(&self.path, "read the database"))?;
        let known = known.rows.into_iter().flatten().filter_map(|cell| match cell {
            Cell::Text(run_id) => Some(run_id),
            _ => None,
        });
        let absent: Vec<String> = known.filter(|run_id| !present.contains(run_id)).collect();
        if !absent.is_empty() {
            import::remove(&mut self.connection, &absent)
                .map_err(|error| located(error, &self.path))?;
            self.refresh_raw_view()?;
        }
        Ok(absent)
    }

    /// Writes everything into the file and closes it.
    ///
    /// # Errors
    ///
    /// If DuckDB fails.
    pub fn close(self) -> Result<(), StoreError> {
        let Self { connection, path, .. } = self;
        connection.execute_batch("CHECKPOINT").map_err(failed(&path, "write the database"))?;
        connection.close().map_err(|(_, error)| failed(&path, "close the database")(error))
    }

    /// Answers a user's query, with the file opened for reading and only for the duration of the
    /// query. The query can read the database and the samples, and nothing else.
    ///
    /// # Errors
    ///
    /// As [`Database::open`]; [`StoreError::NoDatabase`] if there is no file, and
    /// [`StoreError::Query`] if the query is not one that reads or DuckDB refuses it.
    pub fn query(
        results: &ResultsFolder,
        sql: &str,
        patience: Duration,
    ) -> Result<Answer, StoreError> {
        user_query(&Self::open_to_query(results, sql, patience)?, sql)
    }

    /// As [`Database::query`], with the answer in columns.
    ///
    /// # Errors
    ///
    /// As [`Database::query`].
    pub fn query_in_columns(
        results: &ResultsFolder,
        sql: &str,
        patience: Duration,
    ) -> Result<Columns, StoreError> {
        user_query_in_columns(&Self::open_to_query(results, sql, patience)?, sql)
    }

    /// Opens the file for one query of a user's, with the views that it names.
    fn open_to_query(
        results: &ResultsFolder,
        sql: &str,
        patience: Duration,
    ) -> Result<Connection, StoreError> {
        let (connection, results) = Self::open_to_read(results, patience)?;
        let path = results.database_path();
        // The stored view has relative names, which a confined connection must not follow.
        let raw = raw_view(results.path(), has_files(&results, "samples")?);
        let made =
            connection.execute_batch(&format!("CREATE TEMP VIEW raw_benchmark_data AS {raw}"));
        let asked = parse(&connection, sql)?;
        let lists = lists_tables(&asked);
        for (name, kind, view) in VIEWS_OVER_FILES {
            let is_named = names_table(&asked, name);
            if is_named || lists {
                let files = has_files(&results, kind)?
                    .then(|| pattern_literal(results.path(), &format!("runs/*/{kind}/*.parquet")));
                let view = view(files.as_deref());
                let made = connection.execute_batch(&format!("CREATE TEMP VIEW {name} AS {view}"));
                // A damaged file is an error only for queries that read it.
                if is_named {
                    made.map_err(failed(&path, "read the files of cases"))?;
                }
            }
        }
        // A damaged file of samples is an error only for queries that read it.
        if names_table(&asked, SAMPLES_VIEW) {
            made.map_err(failed(&path, "read the samples"))?;
        }
        confine(&connection, &results.path().join("runs"))?;
        Ok(connection)
    }

    /// Opens the database for queries of the host's own, which read tables and no files. While it is open, no other
    /// process can write.
    ///
    /// # Errors
    ///
    /// As [`Database::open`], and [`StoreError::NoDatabase`] if there is no file.
    pub fn reader(results: &ResultsFolder, patience: Duration) -> Result<Reader, StoreError> {
        let (connection, results) = Self::open_to_read(results, patience)?;
        Ok(Reader { connection, path: results.database_path() })
    }

    /// Opens the file for reading, after an update if it is of an earlier version.
    fn open_to_read(
        results: &ResultsFolder,
        patience: Duration,
    ) -> Result<(Connection, ResultsFolder), StoreError> {
        let path = results.database_path();
        if !path.is_file() {
            return Err(StoreError::NoDatabase { path });
        }
        let results = existing(results)?;
        let path = results.database_path();
        let connection = connect(&path, AccessMode::ReadOnly, patience)?;
        let (found, supported) = (schema::version(&connection, &path)?, schema::newest(MIGRATIONS));
        if found > supported {
            return Err(StoreError::NewerDatabase { path, found, supported });
        }
        let lacking = cases::lacking(&connection).map_err(failed(&path, "read the database"))?;
        if found == supported && lacking.is_empty() {
            return Ok((connection, results));
        }
        drop(connection);
        Self::open(&results, patience)?.close()?;
        Ok((connect(&path, AccessMode::ReadOnly, patience)?, results))
    }

    /// Rebuilds the database from the run folders beside the old file, and then replaces it. The old file may be
    /// damaged, but not in use.
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`], or if the new file cannot be written. The old one then stays.
    pub fn rebuild(results: &ResultsFolder, patience: Duration) -> Result<SyncReport, StoreError> {
        let results = existing(results)?;
        let path = results.database_path();
        if path.exists()
            && let Err(busy @ StoreError::Busy { .. }) =
                connect(&path, AccessMode::ReadWrite, patience)
        {
            return Err(busy);
        }
        let beside = results.path().join(format!("{DATABASE_FILE}.rebuild"));
        remove(&beside)?;
        remove(&write_ahead_log(&beside))?;
        let mut database = Self::open_file(beside.clone(), results.clone(), patience)?;
        let report = database.sync_all()?;
        database.close()?;
        // The old log must not be applied to the new file.
        remove(&write_ahead_log(&path))?;
        fs::rename(&beside, &path).map_err(StoreError::io("write", &path))?;
        sync_folder(results.path()).map_err(StoreError::io("write", results.path()))?;
        Ok(report)
    }

    /// Updates `raw_benchmark_data`. DuckDB refuses a view over no files, so without files it is an empty view with
    /// the same columns.
    fn refresh_raw_view(&self) -> Result<(), StoreError> {
        let has_samples = has_files(&self.results, "samples")?;
        let stored: Option<String> = self
            .connection
            .query_row(
                "SELECT max(sql) FROM duckdb_views() WHERE view_name = 'raw_benchmark_data'",
                [],
                |row| row.get(0),
            )
            .map_err(failed(&self.path, "read the database"))?;
        if stored.is_some_and(|sql| sql.contains("read_parquet") == has_samples) {
            return Ok(());
        }
        // Names are relative, so that the folder can be moved; but DuckDB's search path cannot contain every folder
        // name.
        let place = self.results.path().to_string_lossy();
        let named = !place.contains([',', '*', '?', '[', ']']);
        let raw = raw_view(if named { Path::new("") } else { self.results.path() }, has_samples);
        let made = self
            .connection
            .execute_batch(&format!("CREATE OR REPLACE VIEW raw_benchmark_data AS {raw}"));
        match made.map_err(failed(&self.path, "write the database")) {
            // DuckDB reads a file of samples, which may be damaged. This must not prevent an import; a later import
            // creates the view when the file is repaired or gone.
            Err(StoreError::Database { detail, .. }) if has_samples => {
                tracing::debug!(detail, "the view over the samples is left as it is");
                Ok(())
            }
            made => made,
        }
    }
}

/// Returns the view over all samples of a results folder; with an empty `results` its names are
/// relative.
fn raw_view(results: &Path, has_samples: bool) -> String {
    let files = if results.as_os_str().is_empty() {
        "'runs/*/samples/*.parquet'".to_owned()
    } else {
        pattern_literal(results, "runs/*/samples/*.parquet")
    };
    // The columns of a stored view must not change with later files.
    samples_view("parse_path(filename)[-3]", &files, has_samples, "")
}

/// Additional columns of [`samples_view`] for marks, if files have them.
pub(crate) const COLUMNS_OF_MARKS: &str =
    ", * EXCLUDE (phase, start_ns, latency_ns, items, scheduled_ns, lane, filename)";

/// Returns a view over files of samples.
pub(crate) fn samples_view(run_id: &str, files: &str, has_samples: bool, further: &str) -> String {
    if !has_samples {
        return "SELECT NULL::VARCHAR AS run_id, NULL::VARCHAR AS case_id, NULL::VARCHAR AS phase, \
                NULL::BIGINT AS start_ns, NULL::BIGINT AS latency_ns, NULL::BIGINT AS items, \
                NULL::BIGINT AS scheduled_ns, NULL::INTEGER AS lane, \
                NULL::INTEGER AS process WHERE false"
            .into();
    }
    format!(
        "SELECT {run_id} AS run_id, split_part(parse_filename(filename), '.', 1) AS case_id, \
         phase::VARCHAR AS phase, start_ns::BIGINT AS start_ns, latency_ns::BIGINT AS latency_ns, \
         items::BIGINT AS items, scheduled_ns::BIGINT AS scheduled_ns, \
         coalesce(lane, 0)::INTEGER AS lane, \
         coalesce(try_cast(split_part(parse_filename(filename), '.', 2) AS INTEGER), 0) \
         AS process{further} \
         FROM read_parquet({files}, filename = true, union_by_name = true)"
    )
}

/// Function that returns a view over files.
type MakeView = fn(Option<&str>) -> String;

/// Views over files that are created if a query names them, or asks which tables exist: their names and the
/// files' folders.
const VIEWS_OVER_FILES: [(&str, &str, MakeView); 2] = [
    ("operators", "profiles", operators_view),
    ("device_states", "device-states", device_states_view),
];

/// Returns a view over files of profiles.
pub(crate) fn operators_view(files: Option<&str>) -> String {
    match files {
        Some(files) => format!(
            "SELECT parse_path(filename)[-3] AS run_id, \
             split_part(parse_filename(filename), '.', 1) AS case_id, name, \
             kind::VARCHAR AS kind, provider::VARCHAR AS provider, \
             start_ns::BIGINT AS start_ns, duration_ns::BIGINT AS duration_ns \
             FROM read_parquet({files}, filename = true)"
        ),
        None => "SELECT NULL::VARCHAR AS run_id, NULL::VARCHAR AS case_id, NULL::VARCHAR AS name, \
                 NULL::VARCHAR AS kind, NULL::VARCHAR AS provider, NULL::BIGINT AS start_ns, \
                 NULL::BIGINT AS duration_ns WHERE false"
            .into(),
    }
}

/// Returns a view over files of device states.
pub(crate) fn device_states_view(files: Option<&str>) -> String {
    let numbers = DEVICE_STATE_NUMBERS.map(|(name, _)| name);
    match files {
        Some(files) => format!(
            "SELECT parse_path(filename)[-3] AS run_id, \
             split_part(parse_filename(filename), '.', 1) AS case_id, \
             coalesce(try_cast(split_part(parse_filename(filename), '.', 2) AS INTEGER), 0) \
             AS process, time_ns::BIGINT AS time_ns, {}, slowed_by::VARCHAR AS slowed_by \
             FROM read_parquet({files}, filename = true)",
            numbers.join(", ")
        ),
        None => format!(
            "SELECT NULL::VARCHAR AS run_id, NULL::VARCHAR AS case_id, NULL::INTEGER AS process, \
             NULL::BIGINT AS time_ns, {}, NULL::VARCHAR AS slowed_by WHERE false",
            numbers.map(|name| format!("NULL::DOUBLE AS {name}")).join(", ")
        ),
    }
}

/// Returns whether any run has Parquet files of this kind.
fn has_files(results: &ResultsFolder, kind: &str) -> Result<bool, StoreError> {
    for run in results.run_paths()? {
        if has_parquet(&run.join(kind))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether a folder contains a Parquet file.
pub(crate) fn has_parquet(folder: &Path) -> Result<bool, StoreError> {
    match fs::read_dir(folder) {
        Ok(entries) => {
            for entry in entries {
                let name = entry.map_err(StoreError::io("read", folder))?.file_name();
                if Path::new(&name).extension().is_some_and(|end| end == "parquet") {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StoreError::io("read", folder)(error)),
    }
}

/// Returns the results folder with links resolved, and creates it if needed: DuckDB compares paths as text.
fn existing(results: &ResultsFolder) -> Result<ResultsFolder, StoreError> {
    let path = results.path();
    fs::create_dir_all(path).map_err(StoreError::io("create", path))?;
    path.canonicalize().map(ResultsFolder::new).map_err(StoreError::io("read", path))
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(StoreError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Returns the version of the DuckDB library that this process is linked with, such as `v1.5.6`.
///
/// # Errors
///
/// If the library does not work.
pub fn library_version() -> Result<String, StoreError> {
    in_memory()?
        .query_row("SELECT version()", [], |row| row.get(0))
        .map_err(StoreError::database("ask DuckDB for its version"))
}

#[cfg(test)]
mod tests;
