//! `host run`: from a manifest to results, reports and advice.

use host_experiment::{
    ExecutedRun, GuestFailure, Interrupt, Resumed, RunOptions, Settings, WrittenReport, resume,
    run as begin,
};
use serde_json::{Value, json};

use crate::arguments::RunArguments;
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
    let interrupt = Interrupt::new();
    listen(&interrupt, printer)?;
    let options = RunOptions { install: arguments.install, reports: arguments.report_dir.clone() };
    let mut console = Console::new(printer);
    let ran = match (&arguments.resume, &arguments.manifest) {
        (Some(run), _) => match resume(run, &options, settings, &interrupt, &mut console)? {
            Resumed::Executed(ran) => *ran,
            Resumed::Finished(folder) => {
                warn_of_flaws(&folder.flaws()?, printer);
                let run = folder.run_id();
                printer.status("Finished", format_args!("{run} has nothing left to do"));
                return Ok(Exit::Success);
            }
        },
        (None, Some(manifest)) => {
            begin(manifest_of(manifest)?, &options, settings, &interrupt, &mut console)?
        }
        (None, None) => return Err(Failure::new(Exit::Usage, "name a manifest, or --resume RUN")),
    };
    end(&ran, printer)
}

/// Handles Ctrl-C: the first asks the run to stop, a second ends the host.
fn listen(interrupt: &Interrupt, printer: &Printer) -> Result<()> {
    let (interrupt, printer) = (interrupt.clone(), printer.clone());
    terminal::on_termination(move || {
        if interrupt.interrupt() {
            printer.status("Stopping", "what is in progress is given up; finished cases are kept");
        } else {
            crate::exit::at_once(Exit::Interrupted);
        }
    })
    .map_err(|error| Failure::new(Exit::Failure, "cannot listen for Ctrl-C").because(error))
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
