/*!
Checks a backend from the command line, each check in a separate process.

This program never opens the library itself: it calls itself for each check, waits for it no longer than
the limit, and reports any other end of the child as a failed check. Processes that a child leaves behind are ended.
If this program is asked to end (SIGINT, SIGTERM, SIGHUP), it ends all of them.
*/

mod child;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use child::{Child, Outlived};
use host_descendants::Signals;
use plugin_testkit::{Check, Fixture, Report, Suite, Verdict};
use serde::Serialize;

const USAGE: &str = "\
usage: plugin-testkit [--json] [--only TEXT] [--time-limit SECONDS] [--with-parent] LIBRARY [FIXTURE.toml]

Without a fixture, a tiny ONNX model in float32 is used.

  --json                print a JSON object for each check, as soon as it is made
  --only TEXT           make only the checks whose name has this in it
  --time-limit SECONDS  end a check that takes longer; 600 if left out
  --with-parent         end when the program that started this one ends (Linux)

Exit codes: 0 all checks hold or do not apply, 1 a check failed, 2 nothing could be checked, 128 and the
number of a signal if that asked for the end";

#[derive(Debug)]
struct Arguments {
    json: bool,
    only: String,
    time_limit: Duration,
    with_parent: bool,
    library: PathBuf,
    fixture: Option<PathBuf>,
}

impl Arguments {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut json, mut only, mut time_limit) = (false, String::new(), Duration::from_secs(600));
        let mut with_parent = false;
        let mut paths = Vec::new();
        let mut arguments = arguments.peekable();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--json" => json = true,
                "--with-parent" => with_parent = true,
                "--only" => only = value()?,
                "--time-limit" => {
                    let seconds: u64 =
                        value()?.parse().map_err(|error| format!("{argument}: {error}"))?;
                    time_limit = Duration::from_secs(seconds);
                }
                flag if flag.starts_with('-') => return Err(format!("there is no option {flag}")),
                path => paths.push(PathBuf::from(path)),
            }
        }
        let mut paths = paths.into_iter();
        let (Some(library), fixture, None) = (paths.next(), paths.next(), paths.next()) else {
            return Err("a library is wanted, and at most one fixture".into());
        };
        Ok(Self { json, only, time_limit, with_parent, library, fixture })
    }
}

#[expect(clippy::print_stderr, reason = "this is a command")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match Child::of_arguments(&arguments) {
        Some(child) => child.check(),
        None => Arguments::parse(arguments.into_iter())
            .map_err(|error| format!("{error}\n\n{USAGE}"))
            .and_then(|arguments| check(&arguments)),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::from(2)
    })
}

/// Runs the selected checks.
#[expect(clippy::print_stdout, reason = "this is a command")]
fn check(arguments: &Arguments) -> Result<ExitCode, String> {
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let fixture = match &arguments.fixture {
        Some(fixture) => fixture.clone(),
        None => Fixture::write_digits(folder.path())
            .map_err(|error| format!("{}: {error}", folder.path().display()))?,
    };
    Fixture::read(&fixture).map_err(|error| error.to_string())?;
    if !arguments.library.is_file() {
        return Err(format!("{}: there is no such file", arguments.library.display()));
    }
    host_descendants::adopt_orphans();
    if arguments.with_parent {
        host_descendants::be_asked_to_end_with_parent();
    }
    let signals = Signals::watch().map_err(|error| format!("no pipe for signals: {error}"))?;
    let program = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let mut report = Report { checks: Vec::new() };
    for name in Suite::names().filter(|name| name.contains(&arguments.only)) {
        let child = Child {
            library: arguments.library.clone(),
            fixture: fixture.clone(),
            check: name.into(),
            folder: folder.path().into(),
        };
        let started = Instant::now();
        let verdict = match child.outlive(&program, arguments.time_limit, &signals)? {
            Outlived::Ended(verdict) => verdict,
            Outlived::Asked(signal) => return Ok(ExitCode::from(128 + signal as u8)),
        };
        let check = Check { name, verdict };
        if arguments.json {
            let seconds = started.elapsed().as_secs_f64();
            let line = Line { check: name, verdict: &check.verdict, seconds };
            println!("{}", serde_json::to_string(&line).map_err(|error| error.to_string())?);
        } else {
            println!("{check}");
        }
        report.checks.push(check);
    }
    if report.checks.is_empty() {
        return Err(format!("no check has `{}` in its name", arguments.only));
    }
    if !arguments.json {
        println!("{}", report.summary());
    }
    Ok(ExitCode::from(u8::from(report.failures().next().is_some())))
}

/// A check as a line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    check: &'a str,
    #[serde(flatten)]
    verdict: &'a Verdict,
    seconds: f64,
}
