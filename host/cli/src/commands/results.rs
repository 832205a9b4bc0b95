//! `host results`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use host_experiment::{RecomputeOptions, Settings};
use host_store::{
    Answer, DamagedRun, Database, ExportFormat, Flaw, ResultsFolder, RunEntry, RunFolder,
    StoreError, SyncReport, Synced, export, list_table,
};
use serde_json::{Value, json};

use crate::arguments::{Format, ResultsCommand};
use crate::commands::recompute::recompute;
use crate::exit::Exit;
use crate::failure::{Failure, Result, show_command};
use crate::notices::warn_of_flaws;
use crate::printer::Printer;
use crate::summary::Summary;
use crate::table::{self, Column};
use crate::visible;
use host_experiment::units;

/// Time to wait for another process that has the database open.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn results(
    command: &ResultsCommand,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let results = ResultsFolder::new(settings.results(None));
    match command {
        ResultsCommand::List => list(&results, printer),
        ResultsCommand::Show { run, warnings, advice } => {
            let path = results.find(run)?;
            let command = show_command(run, results.path());
            show(&path, &command, Parts { warnings: *warnings, advice: *advice }, printer)
        }
        ResultsCommand::Query { sql } => query(&results, sql, printer),
        ResultsCommand::Export { run, to, view, force } => {
            if to.exists() && !force {
                let message = format!("{} exists already", to.display());
                return Err(Failure::new(Exit::Usage, message)
                    .help("name another file, or give --force to replace it"));
            }
            write(&results.find(run)?, view, to, printer)
        }
        ResultsCommand::Sync { rebuild } => sync(&results, *rebuild, printer),
        ResultsCommand::Recompute { run, metrics, dry_run } => {
            let options = RecomputeOptions { metrics: metrics.clone(), dry_run: *dry_run };
            recompute(&results.find(run)?, &options, settings, printer)
        }
    }
}

fn list(results: &ResultsFolder, printer: &Printer) -> Result<Exit> {
    let entries = results.list()?;
    let mut exit = Exit::Success;
    for entry in &entries {
        match entry {
            Ok(entry) => entry.torn.iter().for_each(|torn| printer.warning(torn, None)),
            Err(damaged) => {
                exit = Exit::Results;
                warn_of_run(&damaged.path, &damaged.error, printer);
            }
        }
    }
    warn_of_half_made(&results.half_made()?, printer);
    let whole = || list_table(&entries);
    let shown = printer.machine(|| Value::Array(table::objects(&whole())), whole);
    if !shown && !entries.is_empty() {
        let (drawn, note) = table::fit(columns(&entries), printer.width());
        printer.show(printer.headed(&drawn));
        if let Some(note) = note {
            printer.status("Left out", note);
        }
    }
    if entries.is_empty() && !printer.is_quiet() {
        printer.status("Empty", format_args!("no run in {}", results.path().display()));
    }
    Ok(exit)
}

/// Says why a run cannot be read; most errors name its folder themselves.
fn warn_of_run(path: &Path, error: &StoreError, printer: &Printer) {
    let hint = error.hint();
    match error.path() {
        Some(named) if named.starts_with(path) => printer.warning(error, hint.as_deref()),
        _ => printer.warning(format_args!("{}: {error}", path.display()), hint.as_deref()),
    }
}

fn warn_of_half_made(paths: &[PathBuf], printer: &Printer) {
    for path in paths {
        printer.warning(
            format_args!("`{}` is no run: it has no `run.json`", path.display()),
            Some("a host was ended while it made it; nothing was measured, so it can be removed"),
        );
    }
}

/// Returns the list for people. The id contains the experiment and the time.
fn columns(entries: &[Result<RunEntry, DamagedRun>]) -> Vec<Column> {
    let either = |value: &dyn Fn(&RunEntry) -> String, damaged: &dyn Fn(&DamagedRun) -> String| {
        let cell = |entry: &Result<RunEntry, DamagedRun>| match entry {
            Ok(entry) => value(entry),
            Err(run) => damaged(run),
        };
        entries.iter().map(cell).collect()
    };
    let text = |value: &dyn Fn(&RunEntry) -> String| either(value, &|_| String::new());
    let number = |heading, gives_way, value: &dyn Fn(&RunEntry) -> u64| Column {
        right: true,
        gives_way,
        ..Column::new(heading, text(&|entry| value(entry).to_string()))
    };
    vec![
        Column::new("run", either(&|entry| entry.header.run_id.clone(), &|run| run.run_id.clone())),
        Column::new(
            "state",
            either(&|entry| entry.state.name().into(), &|_| DamagedRun::STATE.into()),
        ),
        number("cases", 1, &|entry| entry.planned),
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

/// Parts of a run that are shown instead of its table.
#[derive(Clone, Copy)]
struct Parts {
    warnings: bool,
    advice: bool,
}

fn show(path: &Path, command: &str, parts: Parts, printer: &Printer) -> Result<Exit> {
    let folder = RunFolder::open(path)?;
    let summary = Summary::read(&folder)?;
    let flaws = folder.flaws()?;
    let document = || {
        let mut document = summary.document(path);
        document["lost-files"] = flaws.iter().filter_map(lost_file).collect();
        document
    };
    if !printer.machine(document, || summary.rows()) {
        let (width, palette) = (printer.width(), printer.palette());
        if parts.warnings {
            printer.show(summary.evidence(width, palette));
        }
        if parts.advice {
            printer.show(summary.advice(width, palette));
        }
        if !parts.warnings && !parts.advice {
            printer.show(summary.human(width, palette, printer.is_verbose(), command));
        }
        printer.status("Folder", path.display());
    }
    warn_of_flaws(&flaws, printer);
    Ok(Exit::Success)
}

fn lost_file(flaw: &Flaw) -> Option<Value> {
    let Flaw::LostFile(lost) = flaw else { return None };
    let reason = lost.loss.name();
    Some(json!({
        "case": lost.case_id, "file": lost.file.name(), "path": lost.path, "reason": reason,
    }))
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
    show_answer(&answer, printer);
    if answer.reads_samples {
        let lost = results.lost_files()?.into_iter().map(|lost| Flaw::LostFile(Box::new(lost)));
        warn_of_flaws(&lost.collect::<Vec<_>>(), printer);
    }
    Ok(Exit::Success)
}

fn show_answer(answer: &Answer, printer: &Printer) {
    let table = &answer.table;
    if printer.format() == Format::Jsonl {
        for object in objects(answer) {
            printer.data(visible::json(&object.to_string()));
        }
        return;
    }
    let shown = printer.machine(|| Value::Array(objects(answer)), || table.clone());
    if !shown && !table.rows.is_empty() {
        printer.show(printer.headed(&table::human(table, printer.width())));
    }
}

/// Returns the rows as JSON objects. A list or a structure, which is text elsewhere, stays one
/// here.
fn objects(answer: &Answer) -> Vec<Value> {
    let mut objects = table::objects(&answer.table);
    for column in answer.nested.iter().filter_map(|index| answer.table.columns.get(*index)) {
        for value in objects.iter_mut().filter_map(|object| object.get_mut(column)) {
            if let Some(parsed) = value.as_str().and_then(|text| serde_json::from_str(text).ok()) {
                *value = parsed;
            }
        }
    }
    objects
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
    let folder = RunFolder::open(path)?;
    export(&folder, view, format, to)?;
    printer.status("Wrote", to.display());
    warn_of_flaws(&folder.flaws()?, printer);
    Ok(Exit::Success)
}

fn sync(results: &ResultsFolder, rebuild: bool, printer: &Printer) -> Result<Exit> {
    if results.run_paths()?.is_empty() && !results.database_path().exists() {
        warn_of_half_made(&results.half_made()?, printer);
        printer.status("Empty", format_args!("no run in {}", results.path().display()));
        return Ok(Exit::Success);
    }
    let SyncReport { runs, dropped, flaws, half_made } = if rebuild {
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
                warn_of_run(&path, &error, printer);
            }
        }
    }
    warn_of_flaws(&flaws, printer);
    warn_of_half_made(&half_made, printer);
    let mut done = format!(
        "{}: {} imported, {unchanged} unchanged",
        results.database_path().display(),
        units::count(imported, "run", "runs")
    );
    if !dropped.is_empty() {
        done += &format!(", {} dropped, whose folder is gone", dropped.len());
    }
    printer.status("Synced", done);
    Ok(if unreadable > 0 { Exit::Results } else { Exit::Success })
}
