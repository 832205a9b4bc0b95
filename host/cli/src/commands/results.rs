//! `host results`.

use std::path::Path;
use std::time::Duration;

use host_record::Table;
use host_store::{
    Database, ExportFormat, ResultsFolder, RunEntry, RunFolder, StoreError, SyncReport, Synced,
    export, list_table,
};
use serde_json::Value;

use crate::arguments::ResultsCommand;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::printer::Printer;
use crate::settings::Settings;
use crate::summary::Summary;
use crate::table::{self, Column};
use crate::units;

/// How long to wait for another process that has the database open.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn results(
    command: &ResultsCommand,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let results = ResultsFolder::new(settings.results(None));
    match command {
        ResultsCommand::List => list(&results, printer),
        ResultsCommand::Show { run } => show(&results.find(run)?, printer),
        ResultsCommand::Query { sql } => query(&results, sql, printer),
        ResultsCommand::Export { run, to, view } => write(&results.find(run)?, view, to, printer),
        ResultsCommand::Sync { rebuild } => sync(&results, *rebuild, printer),
    }
}

fn list(results: &ResultsFolder, printer: &Printer) -> Result<Exit> {
    let mut entries: Vec<RunEntry> = Vec::new();
    for entry in results.list()? {
        match entry {
            Ok(entry) => entries.push(entry),
            Err(error) => printer.warning(&error, error.hint().as_deref()),
        }
    }
    let whole = || list_table(&entries);
    let shown = printer.machine(|| Value::Array(table::objects(&whole())), whole);
    if !shown && !entries.is_empty() {
        printer.data(printer.headed(&table::fit(columns(&entries), printer.width()).0));
    }
    if entries.is_empty() && !printer.is_quiet() {
        printer.status("Empty", format_args!("no run in {}", results.path().display()));
    }
    Ok(Exit::Success)
}

/// The list for people. The id says the experiment and the time.
fn columns(entries: &[RunEntry]) -> Vec<Column> {
    let text = |value: &dyn Fn(&RunEntry) -> String| entries.iter().map(value).collect();
    let number = |heading, gives_way, value: &dyn Fn(&RunEntry) -> u64| Column {
        right: true,
        gives_way,
        ..Column::new(heading, text(&|entry| value(entry).to_string()))
    };
    vec![
        Column::new("run", text(&|entry| entry.header.run_id.clone())),
        Column::new("state", text(&|entry| entry.state.name().into())),
        number("cases", 1, &|entry| entry.counts.cases()),
        number("finished", 2, &|entry| entry.counts.finished),
        number("failed", 0, &|entry| entry.counts.failed),
        number("gaps", 3, &|entry| entry.counts.gaps),
        Column {
            gives_way: 4,
            // To the second, without the `T` and the `Z` of RFC 3339.
            ..Column::new(
                "started (UTC)",
                text(&|entry| {
                    entry.header.started_at.chars().take(19).collect::<String>().replace('T', " ")
                }),
            )
        },
    ]
}

fn show(path: &Path, printer: &Printer) -> Result<Exit> {
    let folder = RunFolder::open(path)?;
    let summary = Summary::read(&folder)?;
    if !printer.machine(|| summary.document(path), || summary.rows()) {
        printer.data(summary.human(printer.width(), printer.palette()));
        printer.status("Folder", path.display());
    }
    Ok(Exit::Success)
}

fn query(results: &ResultsFolder, sql: &str, printer: &Printer) -> Result<Exit> {
    let answer = Database::query(results, sql, PATIENCE).map_err(|error| {
        let is_query = matches!(error, StoreError::Query { .. });
        let failure = Failure::from(error);
        if is_query {
            failure.help("`host results query \"SHOW TABLES\"` lists what there is")
        } else {
            failure
        }
    })?;
    show_table(&answer, printer);
    Ok(Exit::Success)
}

fn show_table(answer: &Table, printer: &Printer) {
    let shown = printer.machine(|| Value::Array(table::objects(answer)), || answer.clone());
    if !shown && !answer.rows.is_empty() {
        printer.data(printer.headed(&table::human(answer, printer.width())));
    }
}

fn write(path: &Path, view: &str, to: &Path, printer: &Printer) -> Result<Exit> {
    let ending = to.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let format = match ending {
        "csv" => ExportFormat::Csv,
        "parquet" => ExportFormat::Parquet,
        "jsonl" | "ndjson" => ExportFormat::JsonLines,
        other => {
            let message = format!("`{other}` is no ending of a file format that can be exported");
            return Err(Failure::new(Exit::Usage, message)
                .help("end the file's name with .csv, .parquet or .jsonl"));
        }
    };
    export(&RunFolder::open(path)?, view, format, to)?;
    printer.status("Wrote", to.display());
    Ok(Exit::Success)
}

fn sync(results: &ResultsFolder, rebuild: bool, printer: &Printer) -> Result<Exit> {
    let SyncReport { runs } = if rebuild {
        Database::rebuild(results, PATIENCE)?
    } else {
        let mut database = Database::open(results, PATIENCE)?;
        let report = database.sync_all()?;
        database.close()?;
        report
    };
    let (mut imported, mut unchanged, mut unreadable) = (0, 0, 0);
    for (path, outcome) in runs {
        match outcome {
            Ok(Synced::Imported { .. }) => imported += 1,
            Ok(Synced::Unchanged) => unchanged += 1,
            Err(error) => {
                unreadable += 1;
                printer
                    .warning(format_args!("{}: {error}", path.display()), error.hint().as_deref());
            }
        }
    }
    printer.status(
        "Synced",
        format_args!(
            "{}: {} imported, {unchanged} unchanged",
            results.database_path().display(),
            units::count(imported, "run", "runs")
        ),
    );
    Ok(if unreadable > 0 { Exit::Results } else { Exit::Success })
}
