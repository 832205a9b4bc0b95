//! `host report`: reports of an old run, and a page that compares two.

use std::path::Path;

use host_experiment::{
    ReportOptions, Reports, RunFigures, Settings, WrittenReport, compare as compared, report_again,
};
use host_record::{Cell, Table};
use host_store::ResultsFolder;
use serde_json::{Value, json};

use crate::arguments::ReportArguments;
use crate::exit::Exit;
use crate::failure::{Result, of_guests};
use crate::notices::{Console, warn_of_flaws};
use crate::pages::{self, Place};
use crate::printer::Printer;

pub(crate) fn report(
    arguments: &ReportArguments,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let results = ResultsFolder::new(settings.results(None));
    if let ([first, second], Some(to)) = (&arguments.compare[..], &arguments.to) {
        return compare([first, second], to, arguments, &results, printer);
    }
    let options =
        ReportOptions { reports: arguments.reports.clone(), to: arguments.report_dir.clone() };
    let path = results.find(&arguments.run)?;
    let (run, Reports { written, failure, .. }) =
        report_again(&path, &options, settings, &mut Console::new(printer))?;
    let shown = printer.machine(
        || json!({ "run": run.run_id(), "reports": document(&written) }),
        || rows(&written),
    );
    if !shown {
        say(&written, printer);
    }
    if written.is_empty() && failure.is_none() {
        printer.status("Empty", "the run's manifest has no report; name one with --report");
    }
    warn_of_flaws(&run.flaws()?, printer);
    Ok(of_guests(failure))
}

/// Writes the page that compares two runs.
fn compare(
    names: [&str; 2],
    to: &Path,
    arguments: &ReportArguments,
    results: &ResultsFolder,
    printer: &Printer,
) -> Result<Exit> {
    let [before, after] = RunFigures::find_both(names, results)?;
    let comparison = compared(&before, &after, arguments.margin);
    pages::write(
        to,
        &pages::comparison(&comparison, arguments.margin, Place::File),
        arguments.force,
    )?;
    let document = || json!({ "first": before.run, "second": after.run, "file": to });
    let rows = || Table {
        columns: ["first", "second", "file"].map(Into::into).into(),
        rows: vec![
            [before.run.clone(), after.run.clone(), to.display().to_string()]
                .map(Cell::Text)
                .into(),
        ],
    };
    if !printer.machine(document, rows) {
        printer.status("Report", to.display());
    }
    Ok(Exit::Success)
}

/// Returns the reports for machines.
pub(crate) fn document(reports: &[WrittenReport]) -> Value {
    let report = |WrittenReport { plugin, files }: &WrittenReport| json!({ "plugin": plugin, "files": files });
    reports.iter().map(report).collect()
}

pub(crate) fn rows(reports: &[WrittenReport]) -> Table {
    let row = |plugin: &String, file: &Path| {
        vec![Cell::Text(plugin.clone()), Cell::Text(file.display().to_string())]
    };
    let rows = reports.iter().flat_map(|WrittenReport { plugin, files }| {
        files.iter().map(move |file| row(plugin, file))
    });
    Table { columns: ["plugin", "file"].map(Into::into).into(), rows: rows.collect() }
}

/// Prints where reports are: the main file of each.
pub(crate) fn say(reports: &[WrittenReport], printer: &Printer) {
    for main in reports.iter().filter_map(|report| report.files.first()) {
        printer.status("Report", main.display());
    }
}
