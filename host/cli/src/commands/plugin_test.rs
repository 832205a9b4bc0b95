//! `host plugins test`: checks for authors, of backends and of WASM plugins.

use std::path::{Path, is_separator};
use std::time::Duration;

use host_experiment::{CheckVerdict, CheckedPlugin, GuestSuite, Settings, Suite, component_of};
use host_record::{Cell, Table};
use serde_json::json;

use crate::arguments::Format;
use crate::exit::Exit;
use crate::failure::Result;
use crate::notices::Console;
use crate::printer::Printer;
use crate::style::Palette;
use crate::visible;

pub(crate) fn test(
    target: &str,
    fixture: Option<&Path>,
    only: Option<&str>,
    timeout: Option<Duration>,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let suite = Suite::new(target, fixture, settings)?;
    let (id, version) = (&suite.plugin.metadata.id, &suite.plugin.metadata.version);
    printer.status("Testing", format_args!("{id} {version}: {}", suite.plugin.library.display()));
    if let Some(shadow) = suite.shadow() {
        printer.warning(shadow, Some(&shadow.hint()));
    }
    match &suite.fixture {
        Some(fixture) => printer.status("Fixture", fixture.display()),
        None => {
            printer.status("Fixture", "the one that comes with the suite, an ONNX model in fp32")
        }
    }
    let checks = suite.run(only, timeout, &mut |checked| {
        if printer.format() == Format::Human {
            printer.show(shown(checked, printer.palette(), printer.width()));
        }
    })?;
    printer.machine(
        || json!({ "plugin": id, "version": version, "checks": checks }),
        || rows(&checks),
    );
    printer.status("Checked", format_args!("{id} {version}: {}", counts(&checks)));
    if suite.fixture.is_none() && exit(&checks) != Exit::Success {
        let help = format!(
            "name a fixture of its own with --fixture FILE, or keep one as {}",
            suite.own_fixture.display()
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

/// Makes the checks of a WASM plugin: a file, a project's folder, or the id of an installed one.
pub(crate) fn test_guest(
    target: &str,
    only: Option<&str>,
    accept: bool,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let path = Path::new(target);
    let is_path = target.ends_with(".wasm") || target.contains(is_separator) || path.is_dir();
    let file = if is_path {
        component_of(path)?
    } else {
        let registry = settings.registry(&[]);
        let mut guests = registry.guests().iter();
        let guest = guests.find(|guest| guest.is_named_like(target)).ok_or_else(|| {
            registry.unknown("", target, registry.guests().iter().map(|guest| &*guest.name))
        })?;
        guest.path.clone()
    };
    let suite = GuestSuite::new(&file, settings, &mut Console::new(printer))?;
    let description = suite.plugin.description();
    let (id, version) = (&description.id, &description.version);
    printer.status("Testing", format_args!("{id} {version}: {}", suite.file.display()));
    let checks = suite.run(only, accept, &mut |checked| {
        if printer.format() == Format::Human {
            printer.show(shown(checked, printer.palette(), printer.width()));
        }
    })?;
    printer.machine(
        || json!({ "plugin": id, "version": version, "checks": checks }),
        || rows(&checks),
    );
    printer.status("Checked", format_args!("{id} {version}: {}", counts(&checks)));
    Ok(exit(&checks))
}

/// Formats a check for people.
fn shown(checked: &CheckedPlugin, palette: Palette, width: usize) -> String {
    let CheckedPlugin { check, verdict, detail, .. } = checked;
    let word = match verdict {
        CheckVerdict::Holds => palette.good(format_args!("{:<7}", "ok")),
        CheckVerdict::Fails => palette.bad(format_args!("{:<7}", "FAILED")),
        CheckVerdict::NotChecked => palette.faint(format_args!("{:<7}", "-")),
    };
    let detail = detail.as_deref().unwrap_or_default();
    let detail = visible::wrapped(detail, width, &" ".repeat(8));
    let line = format!("{word} {check}");
    if detail.trim().is_empty() { line } else { format!("{line}\n{detail}") }
}

fn counts(checks: &[CheckedPlugin]) -> String {
    let count = |verdict| checks.iter().filter(|checked| checked.verdict == verdict).count();
    let mut text = format!("{} of {} checks hold", count(CheckVerdict::Holds), checks.len());
    for (verdict, what) in
        [(CheckVerdict::Fails, "failed"), (CheckVerdict::NotChecked, "not checked")]
    {
        if count(verdict) > 0 {
            text += &format!(", {} {what}", count(verdict));
        }
    }
    text
}

fn exit(checks: &[CheckedPlugin]) -> Exit {
    let fails = checks.iter().any(|checked| checked.verdict == CheckVerdict::Fails);
    if fails { Exit::Plugin } else { Exit::Success }
}

fn rows(checks: &[CheckedPlugin]) -> Table {
    let row = |checked: &CheckedPlugin| {
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

    fn checked(line: &str) -> CheckedPlugin {
        serde_json::from_str(line).expect("a check")
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
}
