//! `host results report`: reports of an old run.

use std::path::Path;

use host_experiment::{ReportOptions, Reports, Settings, WrittenReport, report_again};
use host_record::{Cell, Table};
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::failure::{Result, of_guests};
use crate::notices::{Console, warn_of_flaws};
use crate::printer::Printer;

pub(crate) fn report(
    path: &Path,
    options: &ReportOptions,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let (run, Reports { written, failure, .. }) =
        report_again(path, options, settings, &mut Console::new(printer))?;
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

/// Returns the reports for machines.
pub(crate) fn document(reports: &[WrittenReport]) -> Value {
    let report = |WrittenReport { plugin, files }: &WrittenReport| json!({ "plugin": plugin, "files": files });
    reports.iter().map(report).collect()
}

fn rows(reports: &[WrittenReport]) -> Table {
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
