//! Errors in storing and reading results.

use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;

use crate::run::LostFile;

/// Errors in storing and reading results. [`StoreError::hint`] says how to fix them.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system refused something.
    #[error("cannot {action} `{}`: {source}", .path.display())]
    Io {
        /// The failed action: a verb, such as `read`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A file of a run folder has unexpected contents.
    #[error("`{}`, line {line}: {detail}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The error.
        detail: String,
    },
    /// A file of a run folder is not a regular file, is longer than its limit, or is not text.
    #[error("cannot read `{}`: {detail}", .path.display())]
    Unsuitable {
        /// The file.
        path: PathBuf,
        /// The reason.
        detail: String,
    },
    /// A run folder's name is not the run's id, as of a copy.
    #[error(
        "`{}` is not the folder of the run in it: `run.json` has the id {run_id:?}, and the folder's name must be \
         the same",
        .path.display()
    )]
    OtherRun {
        /// The folder.
        path: PathBuf,
        /// The id in its header.
        run_id: String,
    },
    /// A file of a run folder was written by a newer host.
    #[error(
        "`{}` has record version {found}, but this host reads versions up to {supported}",
        .path.display()
    )]
    NewerRecord {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version that this host reads.
        supported: u32,
    },
    /// A Parquet file could not be written or read.
    #[error("Parquet file `{}`: {source}", .path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// The error.
        source: ParquetError,
    },
    /// The request needs files that finished cases no longer have.
    #[error("{}{}", .files.first().map(ToString::to_string).unwrap_or_default(), more(.files.len()))]
    LostFiles {
        /// The files; there is at least one.
        files: Vec<LostFile>,
    },
    /// The name of a folder is not UTF-8.
    #[error(
        "`{}` is not UTF-8, and DuckDB could not read results there",
        .path.display()
    )]
    NotUnicode {
        /// The folder.
        path: PathBuf,
    },
    /// A results folder contains a link, or something else that is neither a file nor a folder.
    #[error("`{}` is a link or a special file, which a results folder may not contain", .path.display())]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// A report would replace a file, or use a folder, that the host did not write for a report.
    #[error(
        "`{}` is in the way: the host did not write it, or it has changed since",
        .path.display()
    )]
    NotOurs {
        /// The file or folder.
        path: PathBuf,
    },
    /// There is no such run.
    #[error("there is no run `{name}` in `{}`", .results.display())]
    NoSuchRun {
        /// The requested run.
        name: String,
        /// The folder of runs.
        results: PathBuf,
        /// The newest runs that exist, newest first.
        newest: Vec<String>,
    },
    /// More than one run fits.
    #[error("`{name}` matches more than one run: {}", .candidates.join(", "))]
    AmbiguousRun {
        /// The requested run.
        name: String,
        /// Ids of the runs that fit.
        candidates: Vec<String>,
    },
    /// The folder exists but is not a run folder.
    #[error("`{}` is not a run folder: it has no `run.json`", .path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
    },
    /// Another host is writing the same run.
    #[error("another host is writing the run in `{}`", .path.display())]
    RunLocked {
        /// The run's folder.
        path: PathBuf,
    },
    /// The recorder was called in a wrong order.
    #[error("case `{case_id}`: {detail}")]
    OutOfOrder {
        /// The case.
        case_id: String,
        /// The expected order.
        detail: &'static str,
    },
    /// A metric's value is not a finite number.
    #[error("metric `{metric}` of case `{case_id}` is {value}, which is not a finite number")]
    NotFinite {
        /// The case.
        case_id: String,
        /// The metric.
        metric: String,
        /// The value.
        value: f64,
    },
    /// Another process has the database open.
    #[error("the database `{}` is in use by another process: {detail}", .path.display())]
    Busy {
        /// The database file.
        path: PathBuf,
        /// DuckDB's error; it names the process if it can.
        detail: String,
    },
    /// There is no database file yet.
    #[error("there is no database `{}` yet", .path.display())]
    NoDatabase {
        /// The database file.
        path: PathBuf,
    },
    /// The database has a newer schema than this host knows.
    #[error(
        "the database `{}` has schema version {found}, but this host reads versions up to {supported}",
        .path.display()
    )]
    NewerDatabase {
        /// The database file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version that this host knows.
        supported: u32,
    },
    /// The database file cannot be read.
    #[error("the database `{}` cannot be read: {detail}", .path.display())]
    Unreadable {
        /// The database file.
        path: PathBuf,
        /// DuckDB's error.
        detail: String,
    },
    /// A query that is not a `SELECT`, or that DuckDB refused.
    #[error("{detail}")]
    Query {
        /// The error.
        detail: String,
    },
    /// DuckDB failed at an operation of this crate.
    #[error("cannot {action}: {detail}")]
    Database {
        /// The failed action: a verb and its object.
        action: &'static str,
        /// DuckDB's error.
        detail: String,
    },
}

impl StoreError {
    /// Returns a hint to fix the error, if one sentence is enough.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NewerRecord { .. } | Self::NewerDatabase { .. } => {
                "update this host, or use the newer host that wrote it".into()
            }
            Self::NoSuchRun { newest, .. } if newest.is_empty() => {
                "no run is recorded there yet; `--results` names another folder".into()
            }
            Self::NoSuchRun { newest, .. } => format!("the newest runs: {}", newest.join(", ")),
            Self::LostFiles { .. } => LostFile::HINT.into(),
            Self::NotUnicode { .. } => "`--results` names another folder".into(),
            Self::Link { .. } => {
                "if you know where it is from, replace the link by its target; a results folder itself may be \
                 reached by a link"
                    .into()
            }
            Self::NotOurs { .. } => {
                "move it away, or name another folder for reports with `--report-dir`".into()
            }
            Self::AmbiguousRun { .. } => "give a longer part of the id".into(),
            Self::RunLocked { .. } => "wait until that host has finished, then try again".into(),
            Self::Busy { .. } => "nothing is lost: when that process has closed the database, \
                 `host results sync` updates it"
                .into(),
            Self::NoDatabase { .. } => "`host results sync` creates it from the run folders".into(),
            Self::Unreadable { .. } => {
                "nothing is lost: `host results sync --rebuild` rebuilds it from the run folders"
                    .into()
            }
            Self::OtherRun { .. } => {
                "rename the folder back to its id, or move it away if it is a copy; a copy keeps the id as its name, \
                 in another results folder"
                    .into()
            }
            Self::Malformed { .. } | Self::Unsuitable { .. } => {
                "the file was changed or damaged after it was written; restore it from a copy, or \
                 move the run's folder away"
                    .into()
            }
            _ => return None,
        })
    }

    /// Returns the file or folder of the error.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Io { path, .. }
            | Self::Malformed { path, .. }
            | Self::Unsuitable { path, .. }
            | Self::OtherRun { path, .. }
            | Self::NewerRecord { path, .. }
            | Self::Parquet { path, .. }
            | Self::NotUnicode { path }
            | Self::Link { path }
            | Self::NotOurs { path }
            | Self::NotARun { path }
            | Self::RunLocked { path }
            | Self::Busy { path, .. }
            | Self::NoDatabase { path }
            | Self::NewerDatabase { path, .. }
            | Self::Unreadable { path, .. } => Some(path),
            Self::LostFiles { files } => files.first().map(|file| file.path.as_path()),
            Self::NoSuchRun { .. }
            | Self::AmbiguousRun { .. }
            | Self::OutOfOrder { .. }
            | Self::NotFinite { .. }
            | Self::Query { .. }
            | Self::Database { .. } => None,
        }
    }

    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    /// Returns the error of reading a file of a run folder: an unsuitable file is a damaged run.
    pub(crate) fn unread(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| match host_files::is_unsuitable(&source) {
            true => Self::Unsuitable { path: path.to_owned(), detail: source.to_string() },
            false => Self::io("read", path)(source),
        }
    }

    pub(crate) fn parquet(path: &Path) -> impl FnOnce(ParquetError) -> Self {
        // A full disk does not make the file unreadable; truncation does.
        move |source| match source {
            ParquetError::External(cause) => match cause.downcast::<io::Error>() {
                Ok(source) if source.kind() != io::ErrorKind::UnexpectedEof => {
                    Self::Io { action: "use", path: path.to_owned(), source: *source }
                }
                Ok(cut) => Self::Parquet { path: path.to_owned(), source: (*cut).into() },
                Err(cause) => {
                    let source = ParquetError::External(cause);
                    Self::Parquet { path: path.to_owned(), source }
                }
            },
            source => Self::Parquet { path: path.to_owned(), source },
        }
    }

    pub(crate) fn database(action: &'static str) -> impl FnOnce(duckdb::Error) -> Self {
        move |error| Self::Database { action, detail: duckdb_message(&error) }
    }
}

fn more(files: usize) -> String {
    match files {
        0 | 1 => String::new(),
        2 => ", and 1 more file".into(),
        _ => format!(", and {} more files", files - 1),
    }
}

/// Returns DuckDB's own message, without the crate's additions.
pub(crate) fn duckdb_message(error: &duckdb::Error) -> String {
    match error {
        duckdb::Error::DuckDBFailure(_, Some(message)) => message.clone(),
        other => other.to_string(),
    }
}
