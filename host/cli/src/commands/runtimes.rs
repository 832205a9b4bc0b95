//! `host runtimes`.

use std::collections::BTreeSet;

use host_experiment::{Settings, install, install_command, naming};
use host_record::{Cell, RuntimeOrigin, Table};
use host_registry::{NativePlugin, Registry, RuntimeLock};
use host_runtime::{Flaw, RuntimeError, Runtimes, Standing, platform_name, unavailable};
use serde::Serialize;
use serde_json::json;

use crate::arguments::RuntimesCommand;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::notices::Console;
use crate::printer::Printer;
use crate::runtimes::Watch;
use crate::{table, units};

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

/// A runtime, as the list shows it.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Entry {
    /// The plugin; `None` for one that is installed and that no plugin asks for.
    plugin: Option<String>,
    name: String,
    version: Option<String>,
    standing: &'static str,
    /// Why it cannot be used.
    reason: Option<String>,
    optional: bool,
    /// On this disk, where it is an installed one.
    bytes: Option<u64>,
    /// To be fetched, where it is not installed.
    download_bytes: Option<u64>,
    path: Option<String>,
    origin: Option<RuntimeOrigin>,
    summary: Option<String>,
    /// What installs it, or puts it right.
    command: Option<String>,
    /// What people are told of it below the table.
    #[serde(skip)]
    notice: Option<Notice>,
}

/// A line about a runtime.
enum Notice {
    /// One that can be done without, or that is for other machines.
    Remark { verb: &'static str, text: String },
    /// One that is wanted, and what to do about it.
    Warning { text: String, help: Option<String> },
}

fn list(runtimes: &Runtimes, registry: &Registry, printer: &Printer) -> Result<Exit> {
    let mut entries: Vec<Entry> = takers(registry).map(|plugin| entry(plugin, runtimes)).collect();
    let asked_for: BTreeSet<String> = takers(registry).filter_map(installed_name).collect();
    for (folder, installed) in runtimes.installed()? {
        if asked_for.contains(&folder) {
            continue;
        }
        let path = runtimes.folder()?.join(&folder).display().to_string();
        let reason = installed.as_ref().err().map(ToString::to_string);
        let notice = reason.as_ref().map(|reason| Notice::Warning {
            text: reason.clone(),
            help: Some(format!("no plugin uses it: host runtimes remove {folder}")),
        });
        let installed = installed.ok();
        let named = installed.as_ref().map(|it| (it.name.clone(), it.version.clone()));
        let (name, version) = named.map_or((folder, None), |(name, version)| (name, Some(version)));
        entries.push(Entry {
            plugin: None,
            name,
            version,
            standing: if reason.is_some() { "damaged" } else { "unused" },
            reason,
            optional: true,
            bytes: installed.map(|installed| installed.bytes()),
            download_bytes: None,
            path: Some(path),
            origin: Some(RuntimeOrigin::Installed),
            summary: None,
            command: None,
            notice,
        });
    }
    let shown = printer.machine(|| json!(entries), || rows(&entries));
    if !shown && !entries.is_empty() {
        printer.show(printer.headed(&table::human(&people(&entries), printer.width())));
    }
    if entries.is_empty() {
        printer.status("Runtimes", "no plugin takes one, and none is installed");
    }
    for notice in entries.iter().filter_map(|entry| entry.notice.as_ref()) {
        match notice {
            Notice::Remark { verb, text } => printer.status(verb, text),
            Notice::Warning { text, help } => printer.warning(text, help.as_deref()),
        }
    }
    Ok(Exit::Success)
}

/// The plugins that take a runtime, of each id the one that is used.
fn takers(registry: &Registry) -> impl Iterator<Item = &NativePlugin> {
    registry.natives().iter().filter(|plugin| {
        plugin.metadata.runtime.is_some() && registry.shadowed_by(plugin).is_none()
    })
}

/// What the runtime of a plugin is called where it is installed; `None` where nothing of it can be, so
/// that one of this name is another plugin's.
fn installed_name(plugin: &NativePlugin) -> Option<String> {
    let need = plugin.metadata.runtime.as_ref()?;
    // What is wrong with a lock is said when it is used.
    let can_be = unavailable(plugin).map_or(true, |reason| reason.is_none());
    can_be.then(|| need.folder_name())
}

/// The plugins whose runtime this is where it is installed.
fn owners<'a>(name: &str, registry: &'a Registry) -> impl Iterator<Item = &'a NativePlugin> {
    takers(registry).filter(move |plugin| installed_name(plugin).as_deref() == Some(name))
}

fn entry(plugin: &NativePlugin, runtimes: &Runtimes) -> Entry {
    let id = &plugin.metadata.id;
    let need = plugin.metadata.runtime.as_ref();
    let folder = need.map(host_registry::RuntimeNeed::folder_name).unwrap_or_default();
    let mut entry = Entry {
        plugin: Some(id.clone()),
        name: need.map(|need| need.name.clone()).unwrap_or_default(),
        version: need.map(|need| need.version.clone()),
        standing: "missing",
        reason: None,
        optional: need.is_some_and(|need| need.optional),
        bytes: None,
        download_bytes: None,
        path: None,
        origin: None,
        summary: need.map(|need| need.summary.clone()),
        command: None,
        notice: None,
    };
    let command = install_command(id);
    let version = need.map(|need| need.version.as_str()).unwrap_or_default();
    let title = format!("`{}` {version}", entry.name);
    match runtimes.find(plugin) {
        Ok(Some(Standing::Ready(ready))) => {
            let is_installed = ready.origin == RuntimeOrigin::Installed;
            entry.standing = if is_installed { "installed" } else { "named" };
            entry.version = ready.version;
            entry.path = Some(ready.path.display().to_string());
            entry.origin = Some(ready.origin);
            let installed = runtimes.installed().ok().and_then(|mut all| all.remove(&folder)?.ok());
            entry.bytes = installed.filter(|_| is_installed).map(|installed| installed.bytes());
        }
        Ok(Some(Standing::Missing { reason })) => {
            let text = format!("{title} {reason}");
            entry.notice = Some(if entry.optional {
                Notice::Remark { verb: "Optional", text: format!("{text}: {command}") }
            } else {
                Notice::Warning { text, help: Some(command.clone()) }
            });
            entry.reason = Some(reason);
            entry.command = Some(command);
            entry.download_bytes = download_bytes(plugin);
        }
        Ok(Some(Standing::Damaged { reason })) => {
            let text = format!("{title} {reason}");
            entry.notice = Some(Notice::Warning { text, help: Some(command.clone()) });
            entry.standing = "damaged";
            entry.reason = Some(reason);
            entry.command = Some(command);
            entry.download_bytes = download_bytes(plugin);
        }
        Ok(Some(Standing::Unavailable { reason })) => {
            let text = format!("{title} of `{id}` {reason}; {}", naming(id));
            entry.notice = Some(Notice::Remark { verb: "Elsewhere", text });
            entry.standing = UNAVAILABLE;
            entry.reason = Some(reason);
        }
        Ok(None) => {}
        Err(error) => {
            entry.notice = Some(Notice::Warning { text: error.to_string(), help: error.help() });
            entry.reason = Some(error.to_string());
            entry.standing = "damaged";
            match error {
                RuntimeError::NamedMissing { origin, path, .. }
                | RuntimeError::NamedOther { origin, path, .. } => {
                    entry.standing = if path.exists() { NAMED_OTHER } else { NAMED_MISSING };
                    entry.version = None;
                    entry.path = Some(path.display().to_string());
                    entry.origin = Some(origin);
                }
                RuntimeError::Record { .. } => entry.command = Some(command),
                _ => {}
            }
        }
    }
    entry
}

/// The standing of a runtime of which nothing can be installed here.
const UNAVAILABLE: &str = "unavailable";

/// The standing of a runtime whose named path is not there.
const NAMED_MISSING: &str = "named-missing";

/// The standing of a runtime whose named path is of something else.
const NAMED_OTHER: &str = "named-other";

/// A standing as people read it.
fn standing(standing: &str) -> String {
    match standing {
        UNAVAILABLE => format!("not for {}", platform_name()),
        NAMED_MISSING => "named path is not there".into(),
        NAMED_OTHER => "named path is no runtime".into(),
        other => other.into(),
    }
}

/// How much is fetched to install a plugin's runtime.
fn download_bytes(plugin: &NativePlugin) -> Option<u64> {
    let lock = RuntimeLock::read(&plugin.folder).ok().flatten()?;
    let packages = lock.packages_for(&platform_name());
    Some(packages.iter().map(|package| package.bytes).sum())
}

fn text(text: Option<&str>) -> Cell {
    text.map_or(Cell::Null, |text| Cell::Text(text.to_owned()))
}

fn rows(entries: &[Entry]) -> Table {
    let columns = [
        "plugin",
        "name",
        "version",
        "standing",
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
    let row = |entry: &Entry| {
        vec![
            text(entry.plugin.as_deref()),
            text(Some(&entry.name)),
            text(entry.version.as_deref()),
            text(Some(entry.standing)),
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

fn people(entries: &[Entry]) -> Table {
    let columns = ["plugin", "runtime", "version", "standing", "size", "summary"];
    let row = |entry: &Entry| {
        let size = match (entry.bytes, entry.download_bytes) {
            (Some(bytes), _) => Some(units::bytes(bytes as f64)),
            (None, Some(bytes)) => Some(format!("{} to fetch", units::bytes(bytes as f64))),
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
            text(Some(&standing(entry.standing))),
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
        .map(|id| taker(id, registry).ok_or_else(|| unknown(id, registry)))
        .collect::<Result<Vec<_>>>()?;
    for plugin in plugins {
        install(runtimes, plugin, &mut Console::new(printer))?;
    }
    Ok(Exit::Success)
}

fn taker<'a>(id: &str, registry: &'a Registry) -> Option<&'a NativePlugin> {
    takers(registry).find(|plugin| plugin.metadata.id == id)
}

/// Why nothing can be installed for an id.
fn unknown(id: &str, registry: &Registry) -> Failure {
    if registry.natives().iter().any(|plugin| plugin.metadata.id == id) {
        return RuntimeError::NotTaken { id: id.into() }.into();
    }
    registry.missing("backend", id).into()
}

/// The installed runtime that is meant: that of a plugin, or the one that is called so. One of another
/// plugin's that happens to have the same name is not meant.
fn folder_name(id: &str, registry: &Registry) -> Result<String> {
    let plugin = taker(id, registry);
    let need = plugin.and_then(|plugin| plugin.metadata.runtime.as_ref());
    let (Some(plugin), Some(need)) = (plugin, need) else { return Ok(id.to_owned()) };
    let name = need.folder_name();
    match unavailable(plugin) {
        Ok(Some(reason)) => {
            let message = format!("nothing is installed for `{id}`: its runtime `{name}` {reason}");
            Err(Failure::new(Exit::Plugin, message)
                .help("`host runtimes list` shows what is installed"))
        }
        Ok(None) | Err(_) => Ok(name),
    }
}

fn remove(
    ids: &[String],
    runtimes: &Runtimes,
    registry: &Registry,
    printer: &Printer,
) -> Result<Exit> {
    // A typing error costs nothing that was removed before it.
    let names = ids.iter().map(|id| folder_name(id, registry)).collect::<Result<Vec<_>>>()?;
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
    let mut names = names.collect::<Result<Vec<String>>>()?;
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
            Some(plugin) => format!("{} puts it right", install_command(&plugin.metadata.id)),
            None => format!("no plugin uses it: host runtimes remove {name}"),
        })
    });
    match Failure::all(wrong) {
        Some(failure) => Err(failure),
        None => Ok(Exit::Success),
    }
}
