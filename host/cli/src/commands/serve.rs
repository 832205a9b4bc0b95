/*!
`host serve`: the results in a browser.

Every page is made from the database, the run folders and the parts of the report `html`. The database is opened for a page
and closed again, because DuckDB has no reader beside a writer, so a page is kept until the database's file changes. Nothing
of a request becomes a path: runs, plugins and files are looked up by their names among those that are there.
*/

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use host_experiment::{History, HistoryOptions, RunFigures, Settings, compare as compared};
use host_page::{LIBRARY, SCRIPT, STYLE};
use host_record::{Axis, CaseKey, Cell, Table};
use host_serve::{Policy, Request, Response, ServeError, Server};
use host_store::{Database, Reader, ReportFolder, ResultsFolder, StoreError};
use serde_json::{Map, Value, json};

use crate::arguments::ServeArguments;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::pages::{self, MOST_RUNS, Place, Report, RunPage};
use crate::printer::Printer;

/// Time to wait for another process that has the database open.
const PATIENCE: Duration = Duration::from_secs(2);

/// Changes that surely stay within this count as the same.
const MARGIN: f64 = 0.05;

/// Pages that are kept.
const MOST_PAGES: usize = 256;

/// Largest file of a report that is served.
const LARGEST_FILE: u64 = 64 << 20;

/// Serves until the user ends it.
pub(crate) fn serve(
    arguments: &ServeArguments,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let results = ResultsFolder::new(settings.results(None));
    let server = Server::bind(arguments.port).map_err(|error| {
        let failure = Failure::new(Exit::Failure, error.to_string());
        match error {
            ServeError::Bind { source, .. } => failure
                .because(source)
                .help("another program may use the port; --port 0 takes any free one"),
            ServeError::Random => failure,
        }
    })?;
    let url = server.url();
    let shown = printer.machine(
        || json!({ "url": url }),
        || Table { columns: vec!["url".into()], rows: vec![vec![Cell::Text(url.clone())]] },
    );
    if !shown {
        printer.data(&url);
        printer.status("Serving", format_args!("{}, until Ctrl-C", results.path().display()));
    }
    printer.check()?;
    let site = Site { results, base: server.base(), kept: Mutex::default() };
    server.run(|request| site.answer(request));
    Ok(Exit::Success)
}

/// The pages of a results folder.
struct Site {
    results: ResultsFolder,
    base: String,
    kept: Mutex<Kept>,
}

/// Pages by their address, of one state of the database.
#[derive(Default)]
struct Kept {
    state: Option<(SystemTime, u64)>,
    pages: HashMap<String, Vec<u8>>,
}

/// Reason why a page is missing.
enum Lacking {
    /// Nothing has that name.
    Unknown,
    /// The reason, in words.
    Because(String),
}

impl From<StoreError> for Lacking {
    fn from(error: StoreError) -> Self {
        let hint = error.hint().map(|hint| format!("\n{hint}")).unwrap_or_default();
        Self::Because(format!("{error}{hint}"))
    }
}

impl From<host_experiment::Error> for Lacking {
    fn from(error: host_experiment::Error) -> Self {
        match error {
            host_experiment::Error::NoHistory { .. } => Self::Unknown,
            other => Self::Because(other.to_string()),
        }
    }
}

type Page = std::result::Result<String, Lacking>;

impl Site {
    fn answer(&self, request: &Request) -> Response {
        let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
        let constant = |kind, text: &str| Response {
            kind,
            body: text.as_bytes().to_vec(),
            is_constant: true,
            ..Response::page(String::new())
        };
        match path[..] {
            ["style.css"] => constant("text/css; charset=utf-8", STYLE),
            ["script.js"] => constant("text/javascript; charset=utf-8", SCRIPT),
            ["library.js"] => constant("text/javascript; charset=utf-8", LIBRARY),
            [] => self.kept(request, || self.home(request.value("before"))),
            ["run", run] => self.kept(request, || self.run(run)),
            ["run", run, plugin, ref file @ ..] if !file.is_empty() => self.file(run, plugin, file),
            ["compare"] => self.kept(request, || self.compare(request)),
            ["history"] => self.kept(request, || self.models()),
            ["history", subject] => self.kept(request, || self.history(subject)),
            _ => Response::not_found(),
        }
    }

    /// Returns a page that was made before, unless the database has changed since.
    fn kept(&self, request: &Request, make: impl FnOnce() -> Page) -> Response {
        let state = fs::metadata(self.results.database_path())
            .and_then(|found| Ok((found.modified()?, found.len())))
            .ok();
        let address = format!("{:?}", (&request.path, &request.query));
        {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.state != state || kept.pages.len() >= MOST_PAGES {
                kept.pages.clear();
                kept.state = state;
            }
            if let Some(page) = kept.pages.get(&address) {
                return Response { body: page.clone(), ..Response::page(String::new()) };
            }
        }
        match make() {
            Ok(page) => {
                let response = Response::page(page);
                let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.state == state {
                    kept.pages.insert(address, response.body.clone());
                }
                response
            }
            Err(Lacking::Unknown) => Response::not_found(),
            Err(Lacking::Because(reason)) => Response::text(503, &host_page::visible(&reason)),
        }
    }

    fn place(&self) -> Place<'_> {
        Place::Server(&self.base)
    }

    fn reader(&self) -> std::result::Result<Reader, Lacking> {
        Ok(Database::reader(&self.results, PATIENCE)?)
    }

    fn home(&self, before: Option<&str>) -> Page {
        let reader = match self.reader() {
            // A folder without a run yet is not an error.
            Err(_) if !self.results.database_path().exists() => {
                return Ok(pages::home(
                    &Table::default(),
                    self.results.run_paths()?.len(),
                    self.place(),
                ));
            }
            reader => reader?,
        };
        let columns = "run_id, experiment, strftime(started_at, '%Y-%m-%dT%H:%M:%S') AS started_at, \
                       git_commit, finished, failed, gaps";
        let (condition, values) = match before {
            Some(run) => ("run_id < ?", vec![run]),
            None => ("true", vec![]),
        };
        let limit = MOST_RUNS + 1;
        let rows = reader.table(
            &format!("SELECT {columns} FROM benchmark_runs WHERE {condition} ORDER BY run_id DESC LIMIT {limit}"),
            &values,
        )?;
        let count = reader.table("SELECT count(*) FROM benchmark_runs", &[])?;
        drop(reader);
        let indexed = match count.rows.first().and_then(|row| row.first()) {
            Some(Cell::Integer(count)) => usize::try_from(*count).unwrap_or(0),
            _ => 0,
        };
        let not_indexed = self.results.run_paths()?.len().saturating_sub(indexed);
        Ok(pages::home(&rows, not_indexed, self.place()))
    }

    fn run(&self, run: &str) -> Page {
        let reader = self.reader()?;
        let of_run = reader.table(
            "SELECT experiment, description, strftime(started_at, '%Y-%m-%d %H:%M:%S UTC') AS started_at, host_version, \
             git_commit FROM benchmark_runs WHERE run_id = ?",
            &[run],
        )?;
        let Some(row) = of_run.rows.first() else { return Err(Lacking::Unknown) };
        let text = |place: usize| text(row.get(place).unwrap_or(&Cell::Null));
        let experiment = text(0);
        let names = ["Experiment", "Description", "Measured", "Host", "Commit"];
        let facts =
            names.into_iter().enumerate().map(|(place, name)| (name, text(place))).collect();
        let axes = Axis::ALL.iter().map(|axis| axis.column()).collect::<Vec<_>>().join(", ");
        let cases = reader.table(
            &format!(
                "SELECT case_id, outcome, reason, {axes} FROM benchmark_cases WHERE run_id = ? \
                 ORDER BY case_index NULLS LAST, case_id"
            ),
            &[run],
        )?;
        let results = reader.table(
            "SELECT case_id, metric, value, unit, interval_low, interval_high, gap_reason \
             FROM benchmark_results WHERE run_id = ? ORDER BY rowid",
            &[run],
        )?;
        let advice = reader.table(
            "SELECT plugin_id, title, explanation FROM recommendations WHERE run_id = ? ORDER BY rowid",
            &[run],
        )?;
        let warnings = reader.table(
            "SELECT kind, count(DISTINCT case_id) AS cases FROM benchmark_warnings WHERE run_id = ? \
             GROUP BY kind ORDER BY cases DESC, kind",
            &[run],
        )?;
        let before = reader.table(
            "SELECT max(run_id) FROM benchmark_runs WHERE experiment = ? AND run_id < ?",
            &[experiment.as_str(), run],
        )?;
        drop(reader);
        let cases = cases.rows.iter().filter_map(|row| {
            let [id, outcome, reason, axes @ ..] = &row[..] else { return None };
            Some((self::text(id), key(axes)?, self::text(outcome), self::text(reason)))
        });
        let page = RunPage {
            run: run.to_owned(),
            facts,
            cases: cases.collect(),
            results,
            advice: advice
                .rows
                .iter()
                .filter_map(|row| {
                    Some((
                        self::text(row.first()?),
                        self::text(row.get(1)?),
                        self::text(row.get(2)?),
                    ))
                })
                .collect(),
            warnings: warnings
                .rows
                .iter()
                .filter_map(|row| match (row.first()?, row.get(1)?) {
                    (kind, Cell::Integer(count)) => Some((self::text(kind), *count)),
                    _ => None,
                })
                .collect(),
            reports: self.reports(run),
            before: before
                .rows
                .first()
                .and_then(|row| row.first())
                .map(self::text)
                .filter(|run| !run.is_empty()),
        };
        Ok(pages::run(&page, self.place()))
    }

    /// Returns the folder of a run of this name.
    fn folder(&self, run: &str) -> Option<PathBuf> {
        let mut paths = self.results.run_paths().ok()?.into_iter();
        paths.find(|path| path.file_name().is_some_and(|name| name == run))
    }

    /// Returns the reports in a run's folder, those for a browser first.
    fn reports(&self, run: &str) -> Vec<Report> {
        let Some(folder) = self.folder(run) else { return Vec::new() };
        let mut reports: Vec<Report> = folders(&folder.join("reports"))
            .into_iter()
            .map(|(plugin, path)| Report { plugin, files: ReportFolder::files_of(&path) })
            .filter(|report| !report.files.is_empty())
            .collect();
        reports.sort_by_key(|report| (!report.files[0].ends_with(".html"), report.plugin.clone()));
        reports
    }

    /// Returns a file of a report: one of those that the host listed when it wrote them, and that is a plain file.
    fn file(&self, run: &str, plugin: &str, file: &[&str]) -> Response {
        let found = || {
            let reports = self.folder(run)?.join("reports");
            let (_, folder) = folders(&reports).into_iter().find(|(name, _)| name == plugin)?;
            let name = ReportFolder::files_of(&folder)
                .into_iter()
                .find(|name| name.split('/').eq(file.iter().copied()))?;
            let path = folder.join(&name);
            let is_plain = fs::symlink_metadata(&path)
                .is_ok_and(|found| found.is_file() && found.len() <= LARGEST_FILE);
            let is_inside = path.canonicalize().ok()?.starts_with(reports.canonicalize().ok()?);
            if !is_plain || !is_inside {
                return None;
            }
            Some((kind(&name), fs::read(&path).ok()?))
        };
        match found() {
            Some((kind, body)) => {
                Response { kind, body, policy: Policy::Sandboxed, ..Response::page(String::new()) }
            }
            None => Response::not_found(),
        }
    }

    fn compare(&self, request: &Request) -> Page {
        let (Some(first), Some(second)) = (request.value("first"), request.value("second")) else {
            return Err(Lacking::Unknown);
        };
        // Only runs of this folder: a name of a baseline or of a file is not looked for.
        let (Some(first), Some(second)) = (self.folder(first), self.folder(second)) else {
            return Err(Lacking::Unknown);
        };
        let names = [first.to_string_lossy(), second.to_string_lossy()];
        let [before, after] = RunFigures::find_both([&names[0], &names[1]], &self.results)?;
        Ok(pages::comparison(&compared(&before, &after, MARGIN), MARGIN, self.place()))
    }

    fn models(&self) -> Page {
        let rows = self.reader()?.table(
            "SELECT model, count(DISTINCT case_id) AS cases, count(DISTINCT run_id) AS runs FROM benchmark_cases \
             WHERE outcome <> 'gap' GROUP BY model ORDER BY model",
            &[],
        )?;
        Ok(pages::histories(&rows, self.place()))
    }

    fn history(&self, subject: &str) -> Page {
        let options =
            HistoryOptions { subject: Some(subject.to_owned()), ..HistoryOptions::default() };
        let History { series, .. } = host_experiment::history(&self.results, &options)?;
        Ok(pages::history(&series, Some(subject), self.place()))
    }
}

fn text(cell: &Cell) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Text(text) => text.clone(),
        Cell::Integer(value) => value.to_string(),
        Cell::Real(value) => value.to_string(),
        Cell::Boolean(value) => value.to_string(),
    }
}

/// Returns the key of a case, from its axes.
fn key(axes: &[Cell]) -> Option<CaseKey> {
    let value = |cell: &Cell| match cell {
        Cell::Null => Value::Null,
        Cell::Boolean(value) => (*value).into(),
        Cell::Integer(value) => (*value).into(),
        Cell::Real(value) => (*value).into(),
        Cell::Text(text) => text.as_str().into(),
    };
    let pairs = Axis::ALL.iter().zip(axes);
    let key: Map<String, Value> =
        pairs.map(|(axis, cell)| (axis.name().to_owned(), value(cell))).collect();
    serde_json::from_value(Value::Object(key)).ok()
}

/// Returns the folders in a folder, with their names; links are none.
fn folders(path: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .collect()
}

/// Returns the media type of a file of a report.
fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" | "htm" => "text/html; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "json" => "application/json",
        "csv" => "text/csv; charset=utf-8",
        _ => "text/plain; charset=utf-8",
    }
}
