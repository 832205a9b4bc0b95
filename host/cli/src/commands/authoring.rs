//! `host plugins new`, `build`, `sdk`, `add` and `remove`: from nothing to a plugin in use.

use std::path::Path;

use host_authoring::{Build, Kind, Language, Project, Versions, write_sdk};
use host_experiment::{Settings, units};
use host_record::{Cell, Table};
use serde_json::json;

use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::notices::Console;
use crate::printer::Printer;

pub(crate) fn new(
    kind: Kind,
    name: &str,
    language: Language,
    folder: Option<&Path>,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let registry = settings.registry(&[]);
    let natives = registry.natives().iter().map(|plugin| (&*plugin.metadata.id, &*plugin.folder));
    let guests = registry.guests().iter().map(|guest| (&*guest.name, &*guest.path));
    if let Some((_, place)) = natives.chain(guests).find(|(id, _)| *id == name) {
        let message =
            format!("`{name}` is the id of a plugin that you have, at {}", place.display());
        return Err(Failure::new(Exit::Usage, message)
            .help("choose another name; of two plugins with one id only one is used"));
    }
    let folder = folder.unwrap_or(Path::new(name));
    let Project { folder, files } = Project::write(kind, name, language, folder)?;
    let document = || json!({ "folder": folder, "files": files });
    let rows = || Table {
        columns: vec!["file".into()],
        rows: files.iter().map(|file| vec![Cell::Text(file.display().to_string())]).collect(),
    };
    if printer.machine(document, rows) {
        return Ok(Exit::Success);
    }
    printer.status(
        "Created",
        format_args!("{kind} `{name}` in {}: {}", language.title(), folder.display()),
    );
    for file in &files {
        printer.detail(file.display());
    }
    printer.detail("sdk, what it is built on");
    // A tool that is missing is told now, and not after the first attempt.
    for missing in Build::read(&folder)?.missing() {
        printer.warning(
            format_args!("`{}` is not installed", missing.program),
            Some(&missing.install),
        );
    }
    let place = folder.display();
    printer.status(
        "Next",
        format_args!("host plugins build {place}, then host plugins test {}", dotted(&folder)),
    );
    printer.detail(format_args!("{place}/README.md has the commands up to a plugin in use"));
    Ok(Exit::Success)
}

/// Returns a folder so that it is not read as an id.
fn dotted(folder: &Path) -> String {
    let text = folder.display().to_string();
    if text.contains(std::path::is_separator) { text } else { format!("./{text}") }
}

pub(crate) fn build(folder: &Path, printer: &Printer) -> Result<Exit> {
    let build = Build::read(folder)?;
    printer.status("Building", format_args!("{} `{}`: {}", build.kind, build.id, build.line()));
    let built = build.run()?;
    let shown = printer.machine(
        || json!({ "plugin": build.id, "file": built.file, "bytes": built.bytes }),
        || Table {
            columns: ["plugin", "file", "bytes"].map(Into::into).into(),
            rows: vec![vec![
                Cell::Text(build.id.clone()),
                Cell::Text(built.file.display().to_string()),
                Cell::Integer(i64::try_from(built.bytes).unwrap_or(i64::MAX)),
            ]],
        },
    );
    if !shown {
        let size = units::bytes(built.bytes as f64);
        printer.status("Built", format_args!("{} ({size})", built.file.display()));
        printer.status("Next", format_args!("host plugins test {}", dotted(folder)));
    }
    Ok(Exit::Success)
}

pub(crate) fn sdk(folder: &Path, printer: &Printer) -> Result<Exit> {
    let files = write_sdk(folder)?;
    let Versions { host, native_abi, wit } = Versions::of_this_program();
    let shown = printer.machine(
        || json!({ "folder": folder, "files": files, "host": host, "native-abi": native_abi, "wit": wit }),
        || Table {
            columns: ["folder", "host", "native-abi", "wit"].map(Into::into).into(),
            rows: vec![
                [folder.display().to_string(), host.clone(), native_abi.clone(), wit.clone()].map(Cell::Text).into(),
            ],
        },
    );
    if !shown {
        printer.status("Wrote", format_args!("{files} files to {}", folder.display()));
        printer.detail(format_args!("of host {host}: native ABI {native_abi}, tare:plugin {wit}"));
    }
    Ok(Exit::Success)
}

pub(crate) fn add(plugin: &Path, settings: &Settings, printer: &Printer) -> Result<Exit> {
    let added = host_experiment::add(plugin, settings, &mut Console::new(printer))?;
    let shown = printer.machine(
        || {
            json!({
                "id": added.id, "kind": added.kind, "version": added.version, "place": added.place,
                "replaced": added.replaced, "sha256": added.sha256,
            })
        },
        || Table {
            columns: ["id", "kind", "version", "place", "replaced", "sha256"]
                .map(Into::into)
                .into(),
            rows: vec![vec![
                Cell::Text(added.id.clone()),
                Cell::Text(added.kind.into()),
                Cell::Text(added.version.clone()),
                Cell::Text(added.place.display().to_string()),
                added.replaced.clone().map_or(Cell::Null, Cell::Text),
                Cell::Text(added.sha256.clone()),
            ]],
        },
    );
    if !shown {
        let replaced = added.replaced.as_ref().map(|version| format!(", instead of {version}"));
        printer.status(
            "Added",
            format_args!(
                "{} {} {}{}: {}",
                added.kind,
                added.id,
                added.version,
                replaced.unwrap_or_default(),
                added.place.display()
            ),
        );
        if let Some(lock) = &added.lock {
            printer.detail(format_args!("its hash is recorded in {}", lock.display()));
        }
    }
    Ok(Exit::Success)
}

pub(crate) fn remove(ids: &[String], settings: &Settings, printer: &Printer) -> Result<Exit> {
    let mut all = Vec::new();
    for id in ids {
        all.extend(host_experiment::remove(id, settings)?);
    }
    let shown = printer.machine(
        || all.iter().map(|one| json!({ "id": one.id, "place": one.place })).collect(),
        || Table {
            columns: ["id", "place"].map(Into::into).into(),
            rows: all
                .iter()
                .map(|one| {
                    vec![Cell::Text(one.id.clone()), Cell::Text(one.place.display().to_string())]
                })
                .collect(),
        },
    );
    if !shown {
        for one in &all {
            printer.status("Removed", format_args!("{}: {}", one.id, one.place.display()));
        }
    }
    Ok(Exit::Success)
}
