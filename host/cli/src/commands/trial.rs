//! `host plugins compute`, `report` and `recommend`: a plugin's file on a run that exists.

use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use host_experiment::{Computed, Settings, Trial, component_of, stamp, units};
use host_record::{Cell, MetricValue, Table};
use host_store::{ResultsFolder, RunFolder};
use host_wasm::{Kind, Listener};
use serde_json::{Map, Value, json};

use crate::arguments::{Format, TrialArguments};
use crate::commands::report as of_reports;
use crate::exit::Exit;
use crate::failure::{Failure, Result, of_guests};
use crate::notices::Console;
use crate::printer::Printer;
use crate::{table, terminal};

/// Time between two looks at a file that is watched.
const LOOK: Duration = Duration::from_millis(200);

pub(crate) fn compute(
    arguments: &TrialArguments,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    again(arguments, settings, printer, |file| {
        let (run, trial) = begin(arguments, file, Kind::Metric, settings, printer)?;
        let computed = trial.compute(&run)?;
        let (id, version) = named(&trial);
        let rows = rows(&computed);
        let shown = printer.machine(
            || {
                json!({
                    "run": run.run_id(),
                    "plugin": id,
                    "version": version,
                    "results": computed.iter().map(document).collect::<Vec<_>>(),
                })
            },
            || rows.clone(),
        );
        if !shown && !rows.rows.is_empty() {
            printer.show(printer.headed(&table::human(&for_people(&computed), printer.width())));
        }
        let failed = computed.iter().filter(|one| one.now.error.is_some()).count();
        printer.status(
            "Computed",
            format_args!(
                "{id} {version} on {} cases of {}; the run is not changed",
                computed.len(),
                run.run_id()
            ),
        );
        if failed == 0 {
            return Ok(Exit::Success);
        }
        let mut errors = computed.iter().filter_map(|one| one.now.error.as_deref());
        let first = errors.next().unwrap_or_default();
        Err(Failure::new(
            Exit::Plugin,
            format!("{id} failed on {failed} of {} cases: {first}", computed.len()),
        ))
    })
}

pub(crate) fn report(
    arguments: &TrialArguments,
    to: &Path,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    again(arguments, settings, printer, |file| {
        let (run, trial) = begin(arguments, file, Kind::Report, settings, printer)?;
        let reports = trial.report(&run, to, &mut Console::new(printer))?;
        let shown = printer.machine(
            || json!({ "run": run.run_id(), "reports": of_reports::document(&reports.written) }),
            || of_reports::rows(&reports.written),
        );
        if !shown {
            of_reports::say(&reports.written, printer);
        }
        Ok(of_guests(reports.failure))
    })
}

pub(crate) fn recommend(
    arguments: &TrialArguments,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    again(arguments, settings, printer, |file| {
        let (run, trial) = begin(arguments, file, Kind::Recommender, settings, printer)?;
        let advice = trial.recommend(&run, file)?;
        let (id, version) = named(&trial);
        let document = || {
            json!({
                "run": run.run_id(),
                "plugin": id,
                "version": version,
                "recommendations": advice.recommendations,
                "predictions": advice.predictions,
            })
        };
        let row = |one: &host_record::Recommendation| {
            vec![
                Cell::Text(one.title.clone()),
                Cell::Text(one.explanation.clone()),
                Cell::Text(one.cases.join(" ")),
            ]
        };
        let rows = || Table {
            columns: ["title", "explanation", "cases"].map(Into::into).into(),
            rows: advice.recommendations.iter().map(row).collect(),
        };
        if !printer.machine(document, rows) {
            for one in &advice.recommendations {
                printer.show(printer.palette().heading(&one.title));
                printer.show(crate::visible::wrapped(&one.explanation, printer.width(), "  "));
            }
        }
        printer.status(
            "Advised",
            format_args!(
                "{id} {version} on {}: advice: {}, predictions: {}; the run is not changed",
                run.run_id(),
                advice.recommendations.len(),
                advice.predictions.len()
            ),
        );
        Ok(Exit::Success)
    })
}

/// Does something with the plugin's file, and again whenever it changes if that is asked for.
fn again(
    arguments: &TrialArguments,
    settings: &Settings,
    printer: &Printer,
    mut attempt: impl FnMut(&Path) -> Result<Exit>,
) -> Result<Exit> {
    if !arguments.watch {
        return attempt(&component_of(&arguments.file)?);
    }
    if printer.format() != Format::Human {
        return Err(Failure::new(
            Exit::Usage,
            "--watch shows results to people, and --format is for programs",
        ));
    }
    let interrupt = settings.interrupt.clone();
    terminal::on_termination(move || {
        if !interrupt.interrupt() {
            crate::exit::at_once(Exit::Interrupted);
        }
    })
    .map_err(|error| Failure::new(Exit::Failure, "cannot wait for Ctrl-C").because(error))?;
    loop {
        let file = component_of(&arguments.file);
        let before = file.as_ref().ok().and_then(|file| stamp(file));
        if let Err(failure) = file.map_err(Failure::from).and_then(|file| attempt(&file)) {
            // The next build may be better.
            printer.failure(&failure);
        }
        printer.status("Watching", format_args!("{} until Ctrl-C", arguments.file.display()));
        loop {
            if settings.interrupt.is_interrupted() {
                return Ok(Exit::Success);
            }
            thread::sleep(LOOK);
            let now = component_of(&arguments.file).ok().and_then(|file| stamp(&file));
            if now.is_some() && now != before {
                // A compiler may still be writing.
                thread::sleep(LOOK);
                break;
            }
        }
    }
}

fn begin(
    arguments: &TrialArguments,
    file: &Path,
    wanted: Kind,
    settings: &Settings,
    printer: &Printer,
) -> Result<(RunFolder, Trial)> {
    let path = ResultsFolder::new(settings.results(None)).find(&arguments.run)?;
    let run = RunFolder::open(&path)?;
    let options: Map<String, Value> = arguments.options.iter().cloned().collect();
    let listener = Lines::listener(printer.clone());
    let console = &mut Console::new(printer);
    let trial = Trial::new(file, Some(wanted), options, Some(listener), settings, console)?;
    Ok((run, trial))
}

fn named(trial: &Trial) -> (String, String) {
    let identity = &trial.guest().identity;
    (identity.id.clone(), identity.version.clone())
}

/// Shows what a plugin writes to its standard streams, line by line.
struct Lines;

impl Lines {
    fn listener(printer: Printer) -> Listener {
        let begun = Mutex::new(Vec::new());
        Listener::new(move |_, bytes| {
            let mut begun = begun.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            begun.extend_from_slice(bytes);
            while let Some(end) = begun.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = begun.drain(..=end).collect();
                printer.status("It wrote", String::from_utf8_lossy(&line).trim_end());
            }
        })
    }
}

fn document(computed: &Computed) -> Value {
    let one = &computed.now;
    json!({ "case": one.case_id, "values": one.values, "error": one.error })
}

fn rows(all: &[Computed]) -> Table {
    let columns = ["case_id", "case", "metric", "value", "unit", "gap"];
    let mut rows = Vec::new();
    for computed in all {
        for value in &computed.now.values {
            let (number, gap) = match &value.value {
                Ok(number) => (Cell::Real(*number), Cell::Null),
                Err(gap) => (Cell::Null, Cell::Text(gap.to_string())),
            };
            rows.push(vec![
                Cell::Text(computed.now.case_id.clone()),
                Cell::Text(computed.key.to_string()),
                Cell::Text(value.metric.clone()),
                number,
                Cell::Text(value.unit.clone()),
                gap,
            ]);
        }
    }
    Table { columns: columns.map(Into::into).into(), rows }
}

/// A row for each value, with its unit, or the reason why there is none.
fn for_people(all: &[Computed]) -> Table {
    let text = |value: &MetricValue| match &value.value {
        Ok(number) => units::metric(&value.metric, *number, &value.unit),
        Err(gap) => format!("gap: {gap}"),
    };
    let rows = all.iter().flat_map(|computed| {
        let case = computed.key.to_string();
        computed.now.values.iter().map(move |value| {
            vec![
                Cell::Text(case.clone()),
                Cell::Text(value.metric.clone()),
                Cell::Text(text(value)),
            ]
        })
    });
    Table { columns: ["case", "metric", "value"].map(Into::into).into(), rows: rows.collect() }
}
