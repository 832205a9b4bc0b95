/*!
The fixed views that reports and recommenders read; `docs/reference/views.md` lists their columns.

They come from an in-memory DuckDB that holds one run, with the same tables as the database file, filled by the same
import. So a report needs no database file and waits for no lock, and views agree with the database.
*/

use std::cell::Cell as Flag;
use std::fs;
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use duckdb::{Appender, Connection, params};
use host_record::{Table, Views};

use crate::database::{
    COLUMNS_OF_MARKS, Columns, bring_up_to_date, cases_view, confine, device_states_view,
    has_parquet, import, in_memory, names_table, operators_view, parse, pattern_literal,
    samples_view, table, user_query, user_query_in_columns,
};
use crate::distribution;
use crate::error::StoreError;
use crate::run::{CaseFile, LostFile, RunFolder, SampleColumn, without_samples};

/// Names of the views, in the order of the reference page.
pub(crate) const NAMES: [&str; 14] = [
    "run",
    "cases",
    "records",
    "results",
    "warnings",
    "hardware",
    "latency_quantiles",
    "latency_histogram",
    "timeline",
    "profile",
    "history",
    "recommendations",
    "predictions",
    "plugins",
];

/// The views over one run.
pub struct RunViews {
    connection: Connection,
    folder: RunFolder,
    /// Files that finished cases no longer have; the view `warnings` lists them.
    lost: Vec<LostFile>,
    /// Whether the latencies' distributions are filled. They need all samples, so they are computed on demand.
    distributions: Flag<bool>,
    /// Whether whole records are filled. They are long, so they are read on demand.
    records: Flag<bool>,
}

/// A value of a case of the run, in the run itself or in an earlier one: a row of the view `history`.
#[derive(Debug, Clone, PartialEq)]
pub struct Past {
    /// The case's id in this run.
    pub case_id: String,
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// The run that measured it.
    pub run_id: String,
    /// Start of that run, RFC 3339 in UTC.
    pub started_at: String,
    /// Commit of the user's repository.
    pub git_commit: Option<String>,
    /// The value.
    pub value: f64,
    /// The interval around it.
    pub interval: Option<(f64, f64)>,
    /// Ratio of the level that begins here to the one before, if a change was found here.
    pub change: Option<f64>,
}

/// An empty database for views. It takes as long to make as to fill, so it can be made beside other work.
#[derive(Debug)]
pub struct EmptyViews(JoinHandle<Result<Connection, StoreError>>);

impl EmptyViews {
    /// Begins to make one, in a thread.
    #[must_use]
    pub fn begin() -> Self {
        Self(thread::spawn(empty))
    }
}

fn empty() -> Result<Connection, StoreError> {
    let mut connection = in_memory()?;
    bring_up_to_date(&mut connection, Path::new(":memory:"))?;
    Ok(connection)
}

impl RunViews {
    /// As [`RunViews::open`], with a database that was begun before, if there is one.
    ///
    /// # Errors
    ///
    /// As [`RunViews::open`].
    pub fn open_in(begun: Option<EmptyViews>, folder: &RunFolder) -> Result<Self, StoreError> {
        let connection = match begun {
            Some(begun) => begun.0.join().expect("making a database does not panic")?,
            None => empty()?,
        };
        Self::fill_with(connection, folder)?.confined()
    }

    /// Reads a run folder into memory, except its samples. Can be called during the run; the views then show its
    /// current state.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub fn open(folder: &RunFolder) -> Result<Self, StoreError> {
        Self::open_in(None, folder)
    }

    /// Fills the view `history` with earlier values of the run's cases, in the order of its columns.
    ///
    /// # Errors
    ///
    /// If a row has other columns.
    pub fn set_history(&self, rows: &[Past]) -> Result<(), StoreError> {
        let failed = || StoreError::database("make the views");
        let mut history = self.appender("history")?;
        for row in rows {
            let (low, high) = row.interval.unzip();
            let Past {
                case_id, metric, unit, run_id, started_at, git_commit, value, change, ..
            } = row;
            history
                .append_row(params![
                    case_id, metric, unit, run_id, started_at, git_commit, value, low, high, change
                ])
                .map_err(failed())?;
        }
        history.flush().map_err(failed())
    }

    fn confined(self) -> Result<Self, StoreError> {
        confine(&self.connection, self.folder.path())?;
        Ok(self)
    }

    /// As [`RunViews::open`], on a connection that may write files. Only for this crate's queries.
    pub(crate) fn open_unconfined(folder: &RunFolder) -> Result<Self, StoreError> {
        Self::fill_with(empty()?, folder)
    }

    fn fill_with(mut connection: Connection, folder: &RunFolder) -> Result<Self, StoreError> {
        let started = Instant::now();
        let (path, ended) = (folder.path(), folder.ended.clone());
        let path = path.canonicalize().map_err(StoreError::io("read", path))?;
        let mut folder = RunFolder::open(&path)?;
        folder.ended = ended;
        let inspection = folder.inspect()?;
        import(&mut connection, &folder, &inspection)?;
        let lost = inspection.lost;
        let samples = parquet_files(&path, CaseFile::Samples, &lost)?;
        let samples = samples_view(
            "parse_path(filename)[-3]",
            samples.as_deref().unwrap_or_default(),
            samples.is_some(),
            COLUMNS_OF_MARKS,
        );
        let outputs = match parquet_files(&path, CaseFile::Outputs, &lost)? {
            Some(files) => format!(
                "SELECT split_part(parse_filename(filename), '.', 1) AS case_id, example::BIGINT AS example, \
                 output::VARCHAR AS output, values, booleans, texts \
                 FROM read_parquet({files}, filename = true)"
            ),
            None => "SELECT NULL::VARCHAR AS case_id, NULL::BIGINT AS example, \
                     NULL::VARCHAR AS output, NULL::FLOAT[] AS values, NULL::BOOLEAN[] AS booleans, \
                     NULL::VARCHAR[] AS texts WHERE false"
                .into(),
        };
        let operators = operators_view(parquet_files(&path, CaseFile::Profile, &lost)?.as_deref());
        let device_states =
            device_states_view(parquet_files(&path, CaseFile::DeviceStates, &lost)?.as_deref());
        connection
            .execute_batch(&format!(
                "CREATE VIEW raw_benchmark_data AS {samples}; CREATE VIEW outputs AS {outputs}; \
                 CREATE VIEW operators AS {operators}; CREATE VIEW device_states AS {device_states}; {}{}",
                include_str!("views.sql"),
                cases_view()
            ))
            .map_err(StoreError::database("make the views"))?;
        tracing::debug!(run = folder.run_id(), elapsed = ?started.elapsed(), "views opened");
        let (distributions, records) = (Flag::new(false), Flag::new(false));
        Ok(Self { connection, folder, lost, distributions, records })
    }

    /// Returns the run of these views.
    #[must_use]
    pub fn folder(&self) -> &RunFolder {
        &self.folder
    }

    pub(crate) fn lost(&self) -> &[LostFile] {
        &self.lost
    }

    /// Answers a user's query over the views and over `raw_benchmark_data`, `outputs`,
    /// `operators` and `device_states`: the run's samples, outputs, profiles and device states.
    ///
    /// # Errors
    ///
    /// If it is not a query that reads, or DuckDB refuses it.
    pub fn query(&self, sql: &str) -> Result<Table, StoreError> {
        self.fill_for(sql)?;
        user_query(&self.connection, sql).map(|answer| answer.table)
    }

    /// As [`RunViews::query`], with the answer in columns.
    ///
    /// # Errors
    ///
    /// As [`RunViews::query`].
    pub fn query_in_columns(&self, sql: &str) -> Result<Columns, StoreError> {
        self.fill_for(sql)?;
        user_query_in_columns(&self.connection, sql)
    }

    /// Fills the views that a query names.
    fn fill_for(&self, sql: &str) -> Result<(), StoreError> {
        let parsed = parse(&self.connection, sql)?;
        NAMES.iter().filter(|name| names_table(&parsed, name)).try_for_each(|name| self.fill(name))
    }

    /// Writes a view, or a view over files, to a file in one of DuckDB's formats.
    pub(crate) fn copy(
        &self,
        name: &str,
        columns: &str,
        file: &str,
        options: &str,
    ) -> Result<(), StoreError> {
        self.fill(name)?;
        self.connection
            .execute_batch(&format!(
                "COPY (SELECT {columns} FROM \"{name}\") TO {file} ({options})"
            ))
            .map_err(StoreError::database("export"))
    }

    fn appender(&self, name: &str) -> Result<Appender<'_>, StoreError> {
        self.connection
            .appender_to_db(name, "views")
            .map_err(StoreError::database("make the views"))
    }

    /// Fills a view that is computed on demand.
    fn fill(&self, name: &str) -> Result<(), StoreError> {
        match name {
            "latency_quantiles" | "latency_histogram" => {
                self.once(&self.distributions, || self.fill_distributions())
            }
            "records" => self.once(&self.records, || self.fill_records()),
            _ => Ok(()),
        }
    }

    /// Creates all views or none: a second attempt must not find some of them.
    fn once(
        &self,
        is_done: &Flag<bool>,
        fill: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if is_done.get() {
            return Ok(());
        }
        let failed = || StoreError::database("make the views");
        self.connection.execute_batch("BEGIN").map_err(failed())?;
        let filled = fill();
        let end = if filled.is_ok() { "COMMIT" } else { "ROLLBACK" };
        self.connection.execute_batch(end).map_err(failed())?;
        is_done.set(filled.is_ok());
        filled
    }

    fn fill_records(&self) -> Result<(), StoreError> {
        let failed = || StoreError::database("make the views");
        let mut records = self.appender("records")?;
        for record in self.folder.records()? {
            let record = record?.for_reports();
            let text = serde_json::to_string(&record)
                .map_err(|error| StoreError::io("write", self.folder.path())(error.into()))?;
            records.append_row(params![record.case_id, text]).map_err(failed())?;
        }
        records.flush().map_err(failed())
    }

    /// Computes the latencies' distributions, a case at a time, so that memory holds the samples of at most one case.
    fn fill_distributions(&self) -> Result<(), StoreError> {
        let failed = || StoreError::database("make the views");
        let without_samples = without_samples(&self.lost);
        let mut quantiles = self.appender("latency_quantiles")?;
        let mut histogram = self.appender("latency_histogram")?;
        for record in self.folder.records()? {
            let record = record?;
            if record.report().is_none() || without_samples.contains(&*record.case_id) {
                continue;
            }
            let mut latencies = Vec::new();
            for samples in self.folder.samples(&record)? {
                latencies.extend(samples.read(SampleColumn::Latency)?);
            }
            for (quantile, latency) in distribution::quantiles(&latencies) {
                quantiles
                    .append_row(params![record.case_id, quantile, latency])
                    .map_err(failed())?;
            }
            for bin in distribution::histogram(&latencies) {
                histogram
                    .append_row(params![record.case_id, bin.low_ns, bin.high_ns, bin.queries])
                    .map_err(failed())?;
            }
        }
        quantiles.flush().and_then(|()| histogram.flush()).map_err(failed())
    }
}

/// Returns an SQL expression for a run's files of one kind; `None` if there are none. DuckDB stops at the first file
/// that is not Parquet, so if one is lost, the others are named individually.
fn parquet_files(
    run: &Path,
    kind: CaseFile,
    lost: &[LostFile],
) -> Result<Option<String>, StoreError> {
    let folder = run.join(kind.name());
    let lost: Vec<&Path> =
        lost.iter().filter(|lost| lost.file == kind).map(|lost| lost.path.as_path()).collect();
    if lost.is_empty() {
        let pattern = pattern_literal(&folder, "*.parquet");
        return Ok(has_parquet(&folder)?.then_some(pattern));
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder).into_iter().flatten() {
        let path = entry.map_err(StoreError::io("read", &folder))?.path();
        let is_parquet = path.extension().is_some_and(|ending| ending == "parquet");
        if let Some(name) = path.file_name().filter(|_| is_parquet && !lost.contains(&&*path)) {
            files.push(pattern_literal(&folder, &name.to_string_lossy()));
        }
    }
    files.sort_unstable();
    Ok((!files.is_empty()).then(|| format!("[{}]", files.join(", "))))
}

impl Views for RunViews {
    fn names(&self) -> Vec<String> {
        NAMES.map(str::to_owned).into()
    }

    fn read(&self, name: &str) -> Result<Table, String> {
        if !NAMES.contains(&name) {
            return Err(format!("there is no view `{name}`; there are: {}", NAMES.join(", ")));
        }
        self.fill(name).map_err(|error| error.to_string())?;
        table(&self.connection, &format!("SELECT * FROM views.{name}"))
            .map_err(|error| crate::error::duckdb_message(&error))
    }
}
