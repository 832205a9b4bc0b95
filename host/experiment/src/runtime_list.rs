//! The runtimes that plugins use and that are installed.

use std::collections::BTreeSet;

use host_record::RuntimeOrigin;
use host_registry::{NativePlugin, Registry, RuntimeLock};
use host_runtime::{RuntimeError, RuntimeStatus, Runtimes, platform_name, unavailable};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::runtimes::{install_command, naming};

/// A runtime that a plugin uses or that is installed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RuntimeEntry {
    /// The plugin; `None` for one that is installed and that no plugin asks for.
    pub plugin: Option<String>,
    /// Its name.
    pub name: String,
    /// Its version, if it is known.
    pub version: Option<String>,
    /// State in one word.
    pub status: &'static str,
    /// The reason why it cannot be used.
    pub reason: Option<String>,
    /// Whether the plugin works without it.
    pub optional: bool,
    /// Size on disk, if it is installed.
    pub bytes: Option<u64>,
    /// Size of the download, if it is not installed.
    pub download_bytes: Option<u64>,
    /// Its path.
    pub path: Option<String>,
    /// Origin of the path.
    pub origin: Option<RuntimeOrigin>,
    /// Summary in one line.
    pub summary: Option<String>,
    /// Command that installs or repairs it.
    pub command: Option<String>,
    /// Notice below the table.
    #[serde(skip)]
    pub notice: Option<RuntimeNotice>,
}

/// A line about a runtime.
#[derive(Debug)]
pub enum RuntimeNotice {
    /// One that is optional, or that is for other machines.
    Remark {
        /// The reason why nothing has to be done, in one word.
        verb: &'static str,
        /// The line.
        text: String,
    },
    /// One that is wanted, and what to do about it.
    Warning {
        /// The line.
        text: String,
        /// The remedy.
        help: Option<String>,
    },
}

/// Lists the runtimes that plugins use, and what else is installed.
///
/// # Errors
///
/// If the folder of installed runtimes cannot be read.
pub fn list_runtimes(runtimes: &Runtimes, registry: &Registry) -> Result<Vec<RuntimeEntry>> {
    let mut entries: Vec<RuntimeEntry> =
        takers(registry).map(|plugin| entry(plugin, runtimes)).collect();
    let asked_for: BTreeSet<String> = takers(registry).filter_map(installed_name).collect();
    for (folder, installed) in runtimes.installed()? {
        if asked_for.contains(&folder) {
            continue;
        }
        let path = runtimes.folder()?.join(&folder).display().to_string();
        let reason = installed.as_ref().err().map(ToString::to_string);
        let notice = reason.as_ref().map(|reason| RuntimeNotice::Warning {
            text: reason.clone(),
            help: Some(format!("no plugin uses it: host runtimes remove {folder}")),
        });
        let installed = installed.ok();
        let named = installed.as_ref().map(|it| (it.name.clone(), it.version.clone()));
        let (name, version) = named.map_or((folder, None), |(name, version)| (name, Some(version)));
        entries.push(RuntimeEntry {
            plugin: None,
            name,
            version,
            status: if reason.is_some() { "damaged" } else { "unused" },
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
    Ok(entries)
}

/// Returns the plugins that need a runtime, one per id.
fn takers(registry: &Registry) -> impl Iterator<Item = &NativePlugin> {
    registry.natives().iter().filter(|plugin| {
        plugin.metadata.runtime.is_some() && registry.shadowed_by(plugin).is_none()
    })
}

/// Returns the name of a plugin's runtime in the folder of runtimes; `None` if the plugin has none to
/// install, so that a runtime of this name belongs to another plugin.
fn installed_name(plugin: &NativePlugin) -> Option<String> {
    let need = plugin.metadata.runtime.as_ref()?;
    // Errors of a lock are reported when it is used.
    let can_be = unavailable(plugin).map_or(true, |reason| reason.is_none());
    can_be.then(|| need.folder_name())
}

/// Returns the plugins that own the installed runtime of this name.
pub fn owners<'a>(name: &str, registry: &'a Registry) -> impl Iterator<Item = &'a NativePlugin> {
    takers(registry).filter(move |plugin| installed_name(plugin).as_deref() == Some(name))
}

fn entry(plugin: &NativePlugin, runtimes: &Runtimes) -> RuntimeEntry {
    let id = &plugin.metadata.id;
    let need = plugin.metadata.runtime.as_ref();
    let folder = need.map(host_registry::RuntimeNeed::folder_name).unwrap_or_default();
    let mut entry = RuntimeEntry {
        plugin: Some(id.clone()),
        name: need.map(|need| need.name.clone()).unwrap_or_default(),
        version: need.map(|need| need.version.clone()),
        status: MISSING,
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
        Ok(Some(RuntimeStatus::Ready(ready))) => {
            let is_installed = ready.origin == RuntimeOrigin::Installed;
            entry.status = if is_installed { "installed" } else { "named" };
            entry.version = ready.version;
            entry.path = Some(ready.path.display().to_string());
            entry.origin = Some(ready.origin);
            let installed = runtimes.installed().ok().and_then(|mut all| all.remove(&folder)?.ok());
            entry.bytes = installed.filter(|_| is_installed).map(|installed| installed.bytes());
        }
        Ok(Some(RuntimeStatus::Missing { reason })) => {
            let text = format!("{title} {reason}");
            entry.notice = Some(if entry.optional {
                RuntimeNotice::Remark { verb: "Optional", text: format!("{text}: {command}") }
            } else {
                RuntimeNotice::Warning { text, help: Some(command.clone()) }
            });
            entry.reason = Some(reason);
            entry.command = Some(command);
            entry.download_bytes = download_bytes(plugin);
        }
        Ok(Some(RuntimeStatus::Damaged { reason })) => {
            let text = format!("{title} {reason}");
            entry.notice = Some(RuntimeNotice::Warning { text, help: Some(command.clone()) });
            entry.status = "damaged";
            entry.reason = Some(reason);
            entry.command = Some(command);
            entry.download_bytes = download_bytes(plugin);
        }
        Ok(Some(RuntimeStatus::Unavailable { reason })) => {
            let text = format!("{title} of `{id}` {reason}; {}", naming(id));
            entry.notice = Some(RuntimeNotice::Remark { verb: "Elsewhere", text });
            entry.status = UNAVAILABLE;
            entry.reason = Some(reason);
        }
        Ok(None) => {}
        Err(error) => {
            entry.notice =
                Some(RuntimeNotice::Warning { text: error.to_string(), help: error.help() });
            entry.reason = Some(error.to_string());
            entry.status = "damaged";
            match error {
                RuntimeError::NamedMissing { origin, path, .. }
                | RuntimeError::NamedOther { origin, path, .. } => {
                    entry.status = if path.exists() { NAMED_OTHER } else { NAMED_MISSING };
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

/// Status of a runtime that is not installed.
pub const MISSING: &str = "missing";

/// Status of a runtime that cannot be installed on this machine.
pub const UNAVAILABLE: &str = "unavailable";

/// Status of a runtime whose named path does not exist.
pub const NAMED_MISSING: &str = "named-missing";

/// Status of a runtime whose named path contains something else.
pub const NAMED_OTHER: &str = "named-other";

/// Returns the size of the download that installs a plugin's runtime.
fn download_bytes(plugin: &NativePlugin) -> Option<u64> {
    let lock = RuntimeLock::read(&plugin.folder).ok().flatten()?;
    let packages = lock.packages_for(&platform_name());
    Some(packages.iter().map(|package| package.bytes).sum())
}

/// Returns the plugin of this id if it needs a runtime.
#[must_use]
pub fn taker<'a>(id: &str, registry: &'a Registry) -> Option<&'a NativePlugin> {
    takers(registry).find(|plugin| plugin.metadata.id == id)
}

/// Returns the error for an id that has no runtime to install.
#[must_use]
pub fn no_runtime_error(id: &str, registry: &Registry) -> Error {
    if registry.natives().iter().any(|plugin| plugin.metadata.id == id) {
        return RuntimeError::NoRuntime { id: id.into() }.into();
    }
    registry.missing(id).into()
}

/// Returns the name of an installed runtime, by its plugin's id or its own name. A runtime of another plugin
/// with the same name does not count.
///
/// # Errors
///
/// If nothing can be installed for it on this machine.
pub fn folder_name(id: &str, registry: &Registry) -> Result<String> {
    let plugin = taker(id, registry);
    let need = plugin.and_then(|plugin| plugin.metadata.runtime.as_ref());
    let (Some(plugin), Some(need)) = (plugin, need) else { return Ok(id.to_owned()) };
    let name = need.folder_name();
    match unavailable(plugin) {
        Ok(Some(reason)) => Err(Error::NothingInstalled { id: id.to_owned(), name, reason }),
        Ok(None) | Err(_) => Ok(name),
    }
}
