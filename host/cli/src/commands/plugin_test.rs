/*!
`host plugins test`: the conformance suite for whoever writes a backend.

The suite is the program `plugin-testkit`, which lies beside this one and makes each check in a process of
its own: a native plugin is never loaded here. It gets the environment that a worker would get.
*/

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{self, Path, PathBuf};
use std::process::{Command, Stdio};

use host_record::{Cell, Table};
use host_registry::{NativePlugin, Places, Registry, Search};
use host_run::Interrupt;
use host_runtime::Standing;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::arguments::Format;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::printer::Printer;
use crate::settings::Settings;
use crate::style::Palette;
use crate::{experiment, platform, runtimes, summary};

/// The file in a plugin's folder that the checks are made with where no other is named.
const OWN_FIXTURE: &str = "fixture.toml";

/// What a check came to, as `plugin-testkit --json` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    Holds,
    Fails,
    NotChecked,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::NotChecked => "not-checked",
        }
    }
}

/// A check, done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Checked {
    check: String,
    verdict: Verdict,
    /// What was found instead, or why nothing was checked.
    #[serde(default)]
    detail: Option<String>,
    seconds: f64,
}

pub(crate) fn test(
    target: &str,
    fixture: Option<&Path>,
    only: Option<&str>,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let (plugin, registry) = plugin(target, settings)?;
    let own = plugin.folder.join(OWN_FIXTURE);
    let fixture = fixture.or_else(|| own.is_file().then_some(&*own));
    let runtime = runtime(&plugin, &registry, settings)?;
    let program = program(settings)?;
    see_that_it_has_a_device(&plugin, runtime.as_deref(), fixture, settings)?;
    let (id, version) = (&plugin.metadata.id, &plugin.metadata.version);
    printer.status("Testing", format_args!("{id} {version}: {}", plugin.library.display()));
    match fixture {
        Some(fixture) => printer.status("Fixture", fixture.display()),
        None => {
            printer.status("Fixture", "the one that comes with the suite, an ONNX model in fp32")
        }
    }

    let mut command = Command::new(&program);
    command.arg("--json").args(only.iter().flat_map(|only| ["--only", only]));
    command.arg(&plugin.library).args(fixture);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    host_run::set_environment(&mut command, runtime.as_deref());
    let failed = |error| Failure::io("run", &program, error);
    let mut child = command.spawn().map_err(failed)?;
    let stdout = child.stdout.take().expect("it is piped");
    let mut stderr = child.stderr.take().expect("it is piped");
    let mut checks = Vec::new();
    for line in BufReader::new(stdout).lines() {
        let checked = parse(&line.map_err(failed)?)?;
        if printer.format() == Format::Human {
            printer.show(shown(&checked, printer.palette(), printer.width()));
        }
        checks.push(checked);
    }
    // Only what keeps it from checking anything is said there, so no pipe fills up.
    let mut said = String::new();
    stderr.read_to_string(&mut said).map_err(failed)?;
    let status = child.wait().map_err(failed)?;
    if !matches!(status.code(), Some(0 | 1)) || checks.is_empty() {
        let said = said.trim();
        let why = if said.is_empty() { status.to_string() } else { said.to_owned() };
        return Err(Failure::new(Exit::Plugin, format!("`{id}` could not be checked: {why}")));
    }
    printer.machine(
        || json!({ "plugin": id, "version": version, "checks": checks }),
        || rows(&checks),
    );
    printer.status("Checked", format_args!("{id} {version}: {}", counts(&checks)));
    if fixture.is_none() && exit(&checks) != Exit::Success {
        let help = format!(
            "name a fixture of its own with --fixture FILE, or keep one as {}",
            own.display()
        );
        printer.warning(
            format_args!(
                "these checks were made with a tiny ONNX model in fp32, since no fixture was given: a \
                 backend that does not compute such a model fails them for that reason alone"
            ),
            Some(&help),
        );
    }
    Ok(exit(&checks))
}

/// Whether a folder is meant, as opposed to a plugin's id.
fn is_folder(target: &str) -> bool {
    target.contains(path::is_separator) || matches!(target, "." | "..")
}

/// The plugin that is meant, among those that were looked through for it.
fn plugin(target: &str, settings: &Settings) -> Result<(NativePlugin, Registry)> {
    if !is_folder(target) {
        let registry = settings.registry(&[]);
        let plugin = registry.backend(target, None)?.plugin;
        return Ok((plugin, registry));
    }
    let folder = Path::new(target);
    if !folder.join("plugin.toml").is_file() {
        let what = if folder.is_dir() { "has no plugin.toml" } else { "is no folder" };
        return Err(Failure::new(Exit::Plugin, format!("{target} is no plugin: it {what}")).help(
            "a plugin is a folder with plugin.toml and the library that it names; one that is \
             installed can be named by its id",
        ));
    }
    let folder = folder.canonicalize().map_err(|error| Failure::io("open", folder, error))?;
    // Whoever names the folder wants its code to run: nothing is held against the lock file.
    let registry = Registry::scan(&Search::new(&Places::default(), &[folder], &[]));
    if let Some(plugin) = registry.natives().first().cloned() {
        return Ok((plugin, registry));
    }
    Err(match registry.problems().first() {
        Some(problem) => Failure::new(Exit::Plugin, problem.to_string()).help(problem.help()),
        None => Failure::new(Exit::Plugin, format!("{target} is no plugin")),
    })
}

/// The runtime that the plugin would be measured with.
fn runtime(
    plugin: &NativePlugin,
    registry: &Registry,
    settings: &Settings,
) -> Result<Option<PathBuf>> {
    let Some(need) = &plugin.metadata.runtime else { return Ok(None) };
    let standing = settings.runtimes(registry)?.find(plugin)?;
    if let Some(Standing::Ready(ready)) = standing {
        return Ok(Some(ready.path));
    }
    match runtimes::missing(plugin, standing.as_ref()) {
        Some(missing) if !need.optional => Err(Failure::new(Exit::Plugin, missing.to_string())),
        _ => Ok(None),
    }
}

/// A library that cannot be opened, or that sees no device to make the checks on, fails every check with the
/// same words, which the worker knows better. Whatever else goes wrong with it is for the checks to find.
fn see_that_it_has_a_device(
    plugin: &NativePlugin,
    runtime: Option<&Path>,
    fixture: Option<&Path>,
    settings: &Settings,
) -> Result<()> {
    use host_record::Failure::{
        MissingLibrary, MissingSymbol, NotAPlugin, RefusedVersion, WrongArchitecture,
    };
    let mut runner = experiment::runner(settings)?;
    let runtime = runtime.map(|path| (plugin.library.clone(), path.to_owned()));
    runner.runtimes.extend(runtime);
    let why = match runner.describe(&plugin.library, None, &Interrupt::new()) {
        Ok(description) => {
            let ids: Vec<_> = description.devices.iter().map(|device| &*device.id).collect();
            without_device(&ids, fixture.and_then(device_of).as_deref())
        }
        Err(error) => match &error.failure {
            failure @ (NotAPlugin { .. }
            | WrongArchitecture { .. }
            | MissingSymbol { .. }
            | MissingLibrary { .. }
            | RefusedVersion { .. }) => Some(failure.to_string()),
            _ => experiment::nothing_found(&error),
        },
    };
    let id = &plugin.metadata.id;
    match why {
        Some(why) => Err(Failure::new(Exit::Plugin, format!("`{id}` could not be checked: {why}"))),
        None => Ok(()),
    }
}

/// Why none of these devices is one for the checks: the one that is wanted, or any where none is.
fn without_device(ids: &[&str], wanted: Option<&str>) -> Option<String> {
    match wanted {
        _ if ids.is_empty() => Some("it sees no device here".into()),
        Some(wanted) if !ids.contains(&wanted) => {
            let ids = ids.join(", ");
            Some(format!("it sees no device `{wanted}`, which the fixture names, and sees {ids}"))
        }
        _ => None,
    }
}

/// The device that a fixture names. What cannot be read is for the suite to say.
fn device_of(fixture: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        device: Option<String>,
    }
    let text = std::fs::read_to_string(fixture).ok()?;
    toml::from_str::<Named>(&text).ok()?.device
}

/// The program that makes the checks.
fn program(settings: &Settings) -> Result<PathBuf> {
    let name = platform::testkit_file_name();
    let program = settings.executable_folder().map(|folder| folder.join(&name));
    program.filter(|program| program.is_file()).ok_or_else(|| {
        Failure::new(Exit::Failure, format!("{name} is not beside the executable of host"))
            .help("install the two together, or build it with `cargo build -p plugin-testkit`")
    })
}

fn parse(line: &str) -> Result<Checked> {
    serde_json::from_str(line).map_err(|error| {
        Failure::new(Exit::Failure, format!("plugin-testkit says what is no check: {line}"))
            .because(error)
            .help("host and plugin-testkit must be of one version: install the two together")
    })
}

/// A check as people read it.
fn shown(checked: &Checked, palette: Palette, width: usize) -> String {
    let Checked { check, verdict, detail, .. } = checked;
    let word = match verdict {
        Verdict::Holds => palette.good(format_args!("{:<7}", "ok")),
        Verdict::Fails => palette.bad(format_args!("{:<7}", "FAILED")),
        Verdict::NotChecked => palette.faint(format_args!("{:<7}", "-")),
    };
    let detail = detail.as_deref().unwrap_or_default();
    let detail = summary::wrapped(detail, width, &" ".repeat(8));
    let line = format!("{word} {check}");
    if detail.trim().is_empty() { line } else { format!("{line}\n{detail}") }
}

fn counts(checks: &[Checked]) -> String {
    let count = |verdict| checks.iter().filter(|checked| checked.verdict == verdict).count();
    let mut text = format!("{} of {} checks hold", count(Verdict::Holds), checks.len());
    for (verdict, what) in [(Verdict::Fails, "failed"), (Verdict::NotChecked, "not checked")] {
        if count(verdict) > 0 {
            text += &format!(", {} {what}", count(verdict));
        }
    }
    text
}

fn exit(checks: &[Checked]) -> Exit {
    let fails = checks.iter().any(|checked| checked.verdict == Verdict::Fails);
    if fails { Exit::Plugin } else { Exit::Success }
}

fn rows(checks: &[Checked]) -> Table {
    let row = |checked: &Checked| {
        vec![
            Cell::Text(checked.check.clone()),
            Cell::Text(checked.verdict.name().into()),
            Cell::Text(checked.detail.clone().unwrap_or_default()),
            Cell::Real(checked.seconds),
        ]
    };
    Table {
        columns: ["check", "verdict", "detail", "seconds"].map(Into::into).into(),
        rows: checks.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(line: &str) -> Checked {
        parse(line).expect("a check")
    }

    #[test]
    fn folders_are_told_from_ids() {
        for folder in ["./cpu", "../cpu", "/opt/cpu", "plugins/cpu/", ".", ".."] {
            assert!(is_folder(folder), "{folder}");
        }
        for id in ["cpu", "my-backend"] {
            assert!(!is_folder(id), "{id}");
        }
    }

    #[test]
    fn lines_become_checks_and_an_exit_code() {
        let holds = checked(r#"{"check":"outputs are right","verdict":"holds","seconds":0.25}"#);
        let other = checked(
            r#"{"check":"threads","verdict":"not-checked","detail":"not offered","seconds":0.1}"#,
        );
        let fails =
            checked(r#"{"check":"cut off","verdict":"fails","detail":"a b","seconds":1.5}"#);
        let plain = |checked| shown(checked, Palette::new(false), 40);
        assert_eq!(plain(&holds), "ok      outputs are right");
        assert_eq!(plain(&other), "-       threads\n        not offered");
        assert_eq!(plain(&fails), "FAILED  cut off\n        a b");
        let good = [holds.clone(), other.clone()];
        assert_eq!(counts(&good), "1 of 2 checks hold, 1 not checked");
        assert_eq!(exit(&good), Exit::Success);
        let bad = [holds, other, fails];
        assert_eq!(counts(&bad), "1 of 3 checks hold, 1 failed, 1 not checked");
        assert_eq!(exit(&bad), Exit::Plugin);
    }

    #[test]
    fn what_is_no_check_is_an_error() {
        let error = parse("Segmentation fault").expect_err("no JSON");
        assert_eq!(error.exit, Exit::Failure);
        assert!(error.to_string().contains("Segmentation fault"), "{error}");
    }
}
