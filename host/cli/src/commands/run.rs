//! `host run`: from a manifest to results, reports and advice.

use host_experiment::{
    Draft, ExecutedRun, GuestFailure, Interrupt, Resumed, RunOptions, Settings, WrittenReport, resume,
    run as begin,
};
use serde_json::{Value, json};

use crate::arguments::{OptionsOfRuns, RunArguments};
use crate::commands::manifest_of;
use crate::exit::Exit;
use crate::failure::{Failure, Result, resume_command, show_command};
use crate::notices::{Console, warn_of_flaws};
use crate::printer::Printer;
use crate::summary::Summary;
use crate::terminal;

pub(crate) fn run(
    arguments: &RunArguments,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    match (&arguments.resume, &arguments.manifest) {
        (Some(run), _) => {
            let interrupt = listen(printer)?;
            let options = options(&arguments.options);
            let mut console = Console::new(printer);
            match resume(run, &options, settings, &interrupt, &mut console)? {
                Resumed::Executed(ran) => end(&ran, printer),
                Resumed::Finished(folder) => {
                    warn_of_flaws(&folder.flaws()?, printer);
                    let run = folder.run_id();
                    printer.status("Finished", format_args!("{run} has nothing left to do"));
                    Ok(Exit::Success)
                }
            }
        }
        (None, Some(manifest)) => {
            run_draft(manifest_of(manifest)?, &arguments.options, settings, printer)
        }
        (None, None) => Err(Failure::new(Exit::Usage, "name a manifest, or --resume RUN")),
    }
}

/// Runs a manifest from its beginning, and shows what came of it.
pub(crate) fn run_draft(
    draft: Draft,
    arguments: &OptionsOfRuns,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let interrupt = listen(printer)?;
    let mut console = Console::new(printer);
    let ran = begin(draft, &options(arguments), settings, &interrupt, &mut console)?;
    end(&ran, printer)
}

fn options(arguments: &OptionsOfRuns) -> RunOptions {
    RunOptions { install: arguments.install, reports: arguments.report_dir.clone() }
}

/// Handles Ctrl-C: the first asks the run to stop, a second ends the host.
fn listen(printer: &Printer) -> Result<Interrupt> {
    let interrupt = Interrupt::new();
    let (asked, printer) = (interrupt.clone(), printer.clone());
    terminal::on_termination(move || {
        if asked.interrupt() {
            printer.status("Stopping", "what is in progress is given up; finished cases are kept");
        } else {
            crate::exit::at_once(Exit::Interrupted);
        }
    })
    .map_err(|error| Failure::new(Exit::Failure, "cannot listen for Ctrl-C").because(error))?;
    Ok(interrupt)
}

/// Shows what a run came to.
fn end(ran: &ExecutedRun, printer: &Printer) -> Result<Exit> {
    let summary = Summary::read(&ran.folder)?;
    let document = || {
        let report = |WrittenReport { plugin, files }: &WrittenReport| json!({ "plugin": plugin, "files": files });
        let mut document = summary.document(ran.folder.path());
        document["database"] = json!(ran.results.database_path());
        document["reports"] = ran.reports.iter().map(report).collect::<Vec<Value>>().into();
        document
    };
    if !printer.machine(document, || summary.rows()) {
        let command = show_command("latest", ran.results.path());
        let (width, palette) = (printer.width(), printer.palette());
        let text = summary.human(width, palette, printer.is_verbose(), &command);
        printer.show(format_args!("\n{text}"));
    }
    if ran.interrupted {
        printer.status("Interrupted", "what is finished is kept; do the rest with:");
        printer.detail(resume_command(ran.folder.run_id(), ran.results.path()));
        return Ok(Exit::Interrupted);
    }
    printer.status("Run folder", ran.folder.path().display());
    if let Some(database) = &ran.database {
        printer.status("Database", database.display());
    }
    for main in ran.reports.iter().filter_map(|report| report.files.first()) {
        printer.status("Report", main.display());
    }
    Ok(match (summary.counts(), ran.guest_failure) {
        ((_, 1.., _), _) => Exit::CasesFailed,
        ((0, 0, _), _) => Exit::NothingToRun,
        (_, Some(GuestFailure::Plugin)) => Exit::Plugin,
        (_, Some(GuestFailure::FileSystem)) => Exit::Failure,
        (_, None) => Exit::Success,
    })
}
