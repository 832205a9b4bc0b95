//! `host run`: from a manifest to results, reports and advice.

use host_experiment::{
    Draft, Engine, ExecutedRun, Judged, Missing, Resumed, RunFigures, RunOptions, Settings,
    alerts_of, attach, by_alerts, resume, run as begin,
};
use host_store::RunFolder;
use serde_json::json;

use crate::arguments::{EngineArgument, OptionsOfRuns, RunArguments};
use crate::commands::{check, manifest_of, report};
use crate::exit::Exit;
use crate::failure::{Failure, Result, attach_command, of_guests, resume_command, show_command};
use crate::notices::{Console, warn_of_flaws};
use crate::printer::Printer;
use crate::summary::Summary;
use crate::terminal;
use host_experiment::units;

pub(crate) fn run(
    arguments: &RunArguments,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let continued = arguments.resume.as_ref().or(arguments.attach.as_ref());
    match (continued, &arguments.manifest) {
        (Some(run), _) => {
            listen(settings, printer)?;
            let options = options(&arguments.options);
            let mut console = Console::new(printer);
            let resumed = match &arguments.attach {
                Some(_) => attach(run, &options, settings, &mut console),
                None => resume(run, &options, settings, &mut console),
            };
            match resumed? {
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
            let draft = manifest_of(manifest)?;
            let on = arguments.on.map(|engine| match engine {
                EngineArgument::Local => Engine::Local,
                EngineArgument::Slurm => Engine::Slurm,
            });
            let options = RunOptions { on, ..options(&arguments.options) };
            run_with(draft, &options, settings, printer)
        }
        (None, None) => {
            Err(Failure::new(Exit::Usage, "name a manifest, --resume RUN or --attach RUN"))
        }
    }
}

/// Runs a manifest from its beginning, and shows what came of it.
pub(crate) fn run_draft(
    draft: Draft,
    arguments: &OptionsOfRuns,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    run_with(draft, &options(arguments), settings, printer)
}

fn run_with(
    draft: Draft,
    options: &RunOptions,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    listen(settings, printer)?;
    let mut console = Console::new(printer);
    let ran = begin(draft, options, settings, &mut console)?;
    end(&ran, printer)
}

fn options(arguments: &OptionsOfRuns) -> RunOptions {
    let (install, reports) = (arguments.install, arguments.report_dir.clone());
    RunOptions { install, reports, ..RunOptions::default() }
}

/// Handles Ctrl-C: the first asks the run to stop, a second ends the host.
pub(crate) fn listen(settings: &Settings, printer: &Printer) -> Result<()> {
    let (asked, printer) = (settings.interrupt.clone(), printer.clone());
    terminal::on_termination(move || {
        if asked.interrupt() {
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
    let alerts = match ran.interrupted {
        true => Vec::new(),
        false => judged_alerts(&ran.folder)?,
    };
    let document = || {
        let mut document = summary.document(ran.folder.path());
        document["alerts"] = alerts.iter().map(check::alert_document).collect();
        document["database"] = json!(ran.results.database_path());
        document["reports"] = report::document(&ran.reports);
        let Missing { metrics, recommenders, reports } = &ran.missing;
        document["missing"] =
            json!({ "metrics": metrics, "recommenders": recommenders, "reports": reports });
        document
    };
    if !printer.machine(document, || summary.rows()) {
        let command = show_command("latest", ran.results.path());
        let (width, palette) = (printer.width(), printer.palette());
        let text = summary.human(width, palette, printer.is_verbose(), &command);
        printer.show(format_args!("\n{text}"));
    }
    if ran.interrupted {
        let missing = missing(&ran.missing, summary.unreached());
        printer.status("Interrupted", format_args!("what is done is kept; missing: {missing}"));
        let (run, results) = (ran.folder.run_id(), ran.results.path());
        if ran.on_cluster {
            printer.detail("follow the run again, and do what is missing, with:");
            printer.detail(attach_command(run, results));
        } else {
            printer.detail("do the rest with:");
            printer.detail(resume_command(run, results));
        }
        return Ok(Exit::Interrupted);
    }
    printer.status("Run folder", ran.folder.path().display());
    if let Some(database) = &ran.database {
        printer.status("Database", database.display());
    }
    report::say(&ran.reports, printer);
    check::say_alerts(&alerts, printer);
    Ok(match summary.counts() {
        (_, 1.., _) => Exit::CasesFailed,
        (0, 0, _) => Exit::NothingToRun,
        _ => of_guests(ran.guest_failure),
    })
}

/// Judges the run by the alerts of its manifest.
fn judged_alerts(folder: &RunFolder) -> Result<Vec<Judged>> {
    let alerts = alerts_of(folder)?;
    Ok(match alerts.as_slice() {
        [] => Vec::new(),
        alerts => by_alerts(&RunFigures::of_run(folder)?, alerts),
    })
}

/// Returns the missing parts of an interrupted run in words.
fn missing(missing: &Missing, unreached: u64) -> String {
    let named = |what: &str, ids: &[String]| {
        let ids: Vec<_> = ids.iter().map(|id| format!("`{id}`")).collect();
        (!ids.is_empty()).then(|| format!("{what} {}", ids.join(" and ")))
    };
    let parts = [
        (unreached > 0).then(|| units::count(unreached, "case", "cases")),
        missing.metrics.then(|| "values of metrics".into()),
        named("advice of", &missing.recommenders),
        named("the report", &missing.reports),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_in_words() {
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
        let all = Missing {
            metrics: true,
            recommenders: ids(&["hardware"]),
            reports: ids(&["html", "markdown"]),
        };
        let some = Missing { reports: ids(&["html"]), ..Missing::default() };
        insta::assert_snapshot!(
            [missing(&all, 2), missing(&some, 0)].join("\n"),
            @r"
        2 cases, values of metrics, advice of `hardware`, the report `html` and `markdown`
        the report `html`
        "
        );
    }
}
