/*!
The command line: arguments, rendering, exit codes.

This is the edge of the tool. The rooms below it know neither terminals nor exit codes; this one
turns typed arguments into settings, calls `host-experiment`, and renders what it answers. It holds no
measuring, no statistics and no SQL, and it never loads a native plugin: workers do.

- [`arguments`] is the command line as typed;
- `printer` is the one door for printing, and `visible` what it makes of others' text;
- `failure` is what an error looks like at the edge: what failed, where, what to do;
- `notices` turns what the application tells into lines and progress bars;
- `changes` puts changes between runs into words;
- `summary` shows what a run came to, on a screen, and `notes` what its table cannot say;
- [`exit`] lists the exit codes;
- [`front_end`] lends these words to a caller that is not a terminal, such as the Python package;
- `commands` has a module for each command.
*/

pub mod arguments;
mod axes;
mod changes;
mod commands;
pub mod exit;
mod failure;
pub mod front_end;
mod noise;
mod notes;
mod notices;
mod pages;
mod printer;
mod progress;
mod runtimes;
mod series;
mod source_excerpt;
mod style;
mod summary;
mod table;
mod terminal;
mod visible;

use clap::error::ErrorKind;
use host_experiment::Settings;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::arguments::{Command, GlobalArguments};
use crate::exit::Exit;
use crate::failure::Result;
use crate::printer::Printer;

/// Runs the command that this process was started with.
#[must_use]
pub fn run() -> Exit {
    let arguments = match arguments::parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are data; clap knows which stream each belongs to.
            let printed = printer::written(error.print());
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => match printed {
                    Ok(()) => Exit::Success,
                    Err(failure) => {
                        Printer::new(&GlobalArguments::default()).failure(&failure);
                        failure.exit
                    }
                },
                _ => Exit::Usage,
            };
        }
    };
    let printer = Printer::new(&arguments.global);
    log(&arguments.global, &printer);
    let settings = settings(&arguments.global);
    let outcome = execute(&arguments.command, &settings, &printer);
    match outcome.and_then(|exit| printer.check().map(|()| exit)) {
        Ok(exit) => exit,
        Err(failure) => {
            printer.failure(&failure);
            failure.exit
        }
    }
}

/// Returns the settings from the options that every command has.
fn settings(global: &GlobalArguments) -> Settings {
    Settings {
        results: global.results.clone().filter(|folder| !folder.as_os_str().is_empty()),
        plugins: global.plugins.clone(),
        runtimes: global.runtimes.clone(),
        ..Settings::of_this_process()
    }
}

fn execute(command: &Command, settings: &Settings, printer: &Printer) -> Result<Exit> {
    match command {
        Command::Run(arguments) => commands::run::run(arguments, settings, printer),
        Command::Bench(arguments) => commands::bench::bench(arguments, settings, printer),
        Command::Inspect(arguments) => commands::inspect::inspect(arguments, settings, printer),
        Command::Validate(arguments) => commands::validate::validate(arguments, settings, printer),
        Command::Plan(arguments) => commands::plan::plan(arguments, settings, printer),
        Command::Init(arguments) => commands::init::init(arguments, printer),
        Command::Plugins(command) => commands::plugins::plugins(command, settings, printer),
        Command::Runtimes(command) => commands::runtimes::runtimes(command, settings, printer),
        Command::Devices => commands::devices::devices(settings, printer),
        Command::Compare(arguments) => commands::compare::compare(arguments, settings, printer),
        Command::Check(arguments) => commands::check::check(arguments, settings, printer),
        Command::Results(command) => commands::results::results(command, settings, printer),
        Command::Profile(arguments) => commands::profile::profile(arguments, settings, printer),
        Command::History(arguments) => commands::history::history(arguments, settings, printer),
        Command::Doctor(arguments) => commands::doctor::doctor(arguments, settings, printer),
        Command::Report(arguments) => commands::report::report(arguments, settings, printer),
        Command::Serve(arguments) => commands::serve::serve(arguments, settings, printer),
        Command::RunPart(arguments) => commands::run_part::run_part(arguments, settings, printer),
        Command::Completions { shell } => Ok(commands::generate::completions(*shell, printer)),
        Command::Generate(command) => commands::generate::generate(command, printer),
    }
}

/// Sends the rooms' events to standard error: warnings always, more with `-v` and `-vv`.
fn log(global: &GlobalArguments, printer: &Printer) {
    let level = match global.verbose {
        _ if global.quiet => LevelFilter::ERROR,
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    // Events of the libraries below are of no use to a user.
    let rooms = [
        "cli",
        "experiment",
        "manifest",
        "plan",
        "registry",
        "run",
        "runtime",
        "serve",
        "slurm",
        "store",
        "wasm",
    ];
    let filter = Targets::new().with_targets(rooms.map(|room| (format!("host_{room}"), level)));
    let format = tracing_subscriber::fmt::layer()
        .with_writer(printer::Log::of(printer))
        .with_ansi(printer.status_palette().is_on())
        .with_timer(tracing_subscriber::fmt::time::uptime())
        .with_target(false);
    // Only a second subscriber in one process can make this fail.
    drop(tracing_subscriber::registry().with(filter).with(format).try_init());
}
