//! `host runtimes`.

use host_experiment::{
    MISSING, NAMED_MISSING, NAMED_OTHER, RuntimeEntry, RuntimeNotice, Settings, UNAVAILABLE,
    folder_name, install, install_command, list_runtimes, no_runtime_error, owners, taker,
};
use host_record::{Cell, RuntimeOrigin, Table};
use host_registry::Registry;
use host_runtime::{Flaw, Runtimes, platform_name};
use serde_json::json;

use crate::arguments::RuntimesCommand;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::notices::Console;
use crate::printer::Printer;
use crate::runtimes::Watch;
use crate::table;
use host_experiment::units;

pub(crate) fn runtimes(
    command: &RuntimesCommand,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let registry = settings.registry(&[]);
    let runtimes = settings.runtimes(&registry)?;
    match command {
        RuntimesCommand::List => list(&runtimes, &registry, printer),
        RuntimesCommand::Install { ids } => install_all(ids, &runtimes, &registry, printer),
        RuntimesCommand::Remove { ids } => remove(ids, &runtimes, &registry, printer),
        RuntimesCommand::Verify { ids } => verify(ids, &runtimes, &registry, printer),
    }
}

fn list(runtimes: &Runtimes, registry: &Registry, printer: &Printer) -> Result<Exit> {
    let entries = list_runtimes(runtimes, registry)?;
    let shown = printer.machine(|| json!(entries), || rows(&entries));
    if !shown && !entries.is_empty() {
        printer.show(printer.headed(&table::human(&people(&entries), printer.width())));
    }
    if entries.is_empty() {
        printer.status("Runtimes", "no plugin takes one, and none is installed");
    }
    // The table says which are missing.
    let (missing, others): (Vec<_>, Vec<_>) =
        entries.iter().partition(|entry| entry.status == MISSING);
    if !missing.is_empty() {
        printer.status("Install", "a missing one with `host runtimes install PLUGIN`");
    }
    for notice in others.iter().filter_map(|entry| entry.notice.as_ref()) {
        match notice {
            RuntimeNotice::Remark { verb, text } => printer.status(verb, text),
            RuntimeNotice::Warning { text, help } => printer.warning(text, help.as_deref()),
        }
    }
    Ok(Exit::Success)
}

/// Formats a runtime's state for people.
fn status(status: &str) -> String {
    match status {
        UNAVAILABLE => format!("not for {}", platform_name()),
        NAMED_MISSING => "no such path".into(),
        NAMED_OTHER => "not a runtime".into(),
        other => other.into(),
    }
}

fn text(text: Option<&str>) -> Cell {
    text.map_or(Cell::Null, |text| Cell::Text(text.to_owned()))
}

fn rows(entries: &[RuntimeEntry]) -> Table {
    let columns = [
        "plugin",
        "name",
        "version",
        "status",
        "reason",
        "optional",
        "bytes",
        "download-bytes",
        "path",
        "origin",
        "summary",
        "command",
    ];
    let number = |bytes: Option<u64>| {
        bytes.map_or(Cell::Null, |bytes| Cell::Integer(i64::try_from(bytes).unwrap_or(i64::MAX)))
    };
    let row = |entry: &RuntimeEntry| {
        vec![
            text(entry.plugin.as_deref()),
            text(Some(&entry.name)),
            text(entry.version.as_deref()),
            text(Some(entry.status)),
            text(entry.reason.as_deref()),
            Cell::Boolean(entry.optional),
            number(entry.bytes),
            number(entry.download_bytes),
            text(entry.path.as_deref()),
            text(entry.origin.map(RuntimeOrigin::name)),
            text(entry.summary.as_deref()),
            text(entry.command.as_deref()),
        ]
    };
    Table { columns: columns.map(Into::into).into(), rows: entries.iter().map(row).collect() }
}

fn people(entries: &[RuntimeEntry]) -> Table {
    let columns = ["plugin", "runtime", "version", "status", "size", "summary"];
    let row = |entry: &RuntimeEntry| {
        let size = match (entry.bytes, entry.download_bytes) {
            (Some(bytes), _) => Some(units::bytes(bytes as f64)),
            (None, Some(bytes)) => Some(units::bytes(bytes as f64)),
            (None, None) => None,
        };
        let summary = match entry.origin {
            Some(origin) if origin != RuntimeOrigin::Installed => {
                Some(format!("{} ({})", entry.path.as_deref().unwrap_or_default(), origin.name()))
            }
            _ => entry.summary.clone(),
        };
        vec![
            text(entry.plugin.as_deref()),
            text(Some(&entry.name)),
            text(entry.version.as_deref()),
            text(Some(&status(entry.status))),
            text(size.as_deref()),
            text(summary.as_deref()),
        ]
    };
    Table { columns: columns.map(Into::into).into(), rows: entries.iter().map(row).collect() }
}

fn install_all(
    ids: &[String],
    runtimes: &Runtimes,
    registry: &Registry,
    printer: &Printer,
) -> Result<Exit> {
    // A typing error costs nothing that was fetched before it.
    let plugins = ids
        .iter()
        .map(|id| taker(id, registry).ok_or_else(|| no_runtime_error(id, registry).into()))
        .collect::<Result<Vec<_>>>()?;
    for plugin in plugins {
        install(runtimes, plugin, &mut Console::new(printer))?;
    }
    Ok(Exit::Success)
}

fn remove(
    ids: &[String],
    runtimes: &Runtimes,
    registry: &Registry,
    printer: &Printer,
) -> Result<Exit> {
    // A typing error costs nothing that was removed before it.
    let names = ids.iter().map(|id| folder_name(id, registry));
    let names = names.collect::<host_experiment::Result<Vec<_>>>()?;
    for (id, name) in ids.iter().zip(names) {
        let mut watch = Watch::new(printer);
        let folder = runtimes.remove(&name, &mut watch)?;
        printer.status("Removed", format_args!("{name} from {}", folder.display()));
        let others: Vec<_> = owners(&name, registry)
            .filter(|plugin| plugin.metadata.id != *id)
            .map(|plugin| format!("`{}`", plugin.metadata.id))
            .collect();
        if !others.is_empty() {
            printer.detail(format_args!("it was the runtime of {}, too", others.join(", ")));
        }
    }
    Ok(Exit::Success)
}

fn verify(
    ids: &[String],
    runtimes: &Runtimes,
    registry: &Registry,
    printer: &Printer,
) -> Result<Exit> {
    let names = ids.iter().map(|id| folder_name(id, registry));
    let mut names = names.collect::<host_experiment::Result<Vec<String>>>()?;
    if names.is_empty() {
        names.extend(runtimes.installed()?.into_keys());
    }
    let mut checked: Vec<(String, u64, Vec<Flaw>)> = Vec::new();
    for name in names {
        let mut watch = Watch::new(printer);
        let verified = runtimes.verify(&name, &mut watch);
        watch.clear();
        let (installed, flaws) = verified?;
        checked.push((name, installed.files.len() as u64, flaws));
    }
    let document = || {
        let one = |(name, files, flaws): &(String, u64, Vec<Flaw>)| json!({ "runtime": name, "files": files, "flaws": flaws });
        checked.iter().map(one).collect()
    };
    let table = || {
        let row = |(name, files, flaws): &(String, u64, Vec<Flaw>)| {
            let flaws = flaws.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            vec![
                Cell::Text(name.clone()),
                Cell::Integer(i64::try_from(*files).unwrap_or(i64::MAX)),
                if flaws.is_empty() { Cell::Null } else { Cell::Text(flaws) },
            ]
        };
        Table {
            columns: ["runtime", "files", "flaws"].map(Into::into).into(),
            rows: checked.iter().map(row).collect(),
        }
    };
    if !printer.machine(document, table) {
        for (name, files, _) in checked.iter().filter(|(.., flaws)| flaws.is_empty()) {
            let files = units::count(*files, "file", "files");
            printer.status("Verified", format_args!("{name}: {files} as they were installed"));
        }
        if checked.is_empty() {
            printer.status("Verified", "no runtime is installed");
        }
    }
    let wrong = checked.iter().filter(|(.., flaws)| !flaws.is_empty()).map(|(name, _, flaws)| {
        let flaws: Vec<_> = flaws.iter().map(ToString::to_string).collect();
        let message = format!("runtime `{name}` is not as it was installed: {}", flaws.join("; "));
        let owner = owners(name, registry).next();
        Failure::new(Exit::Plugin, message).help(match owner {
            Some(plugin) => format!("repair it with {}", install_command(&plugin.metadata.id)),
            None => format!("no plugin uses it: host runtimes remove {name}"),
        })
    });
    match Failure::all(wrong) {
        Some(failure) => Err(failure),
        None => Ok(Exit::Success),
    }
}
