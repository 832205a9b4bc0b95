//! The plugins that are installed, and everything about one of them.

use std::path::Path;

use host_registry::{GuestFile, NativePlugin, Origin, Registry, Search, Trust};
use host_runtime::{RuntimeStatus, Runtimes};
use host_wasm::{Compiling, GuestError, Kind, Names, Plugin, Profile, Sandbox, Seen};
use serde_json::{Value, json};

use crate::advice::advice;
use crate::backends::executor;
use crate::devices::{BackendDevices, list_devices};
use crate::error::{Error, Result};
use crate::guests::{is_called, sandbox};
use crate::observer::{Notice, Observer};
use crate::runtimes::{install_command, missing};
use crate::settings::Settings;
use crate::trial::component_of;

/// The plugins that are installed, and what is wrong with some of them.
#[derive(Debug)]
pub struct Installed {
    /// The plugins, native ones first.
    pub plugins: Vec<PluginEntry>,
    /// Plugins, and runtimes that they need, which cannot be used; and what to do about each, which may
    /// be nothing.
    pub problems: Vec<(String, String)>,
    /// Runtimes that are missing and can be done without, with the command that installs each.
    pub optional: Vec<(String, String)>,
    /// Runtimes that are for other machines.
    pub elsewhere: Vec<String>,
}

/// A plugin that is installed.
#[derive(Debug)]
pub struct PluginEntry {
    /// Its id.
    pub id: String,
    /// `backend`, `metric`, `report` or `recommender`.
    pub kind: String,
    /// Its version.
    pub version: String,
    /// Which folder it was found in.
    pub origin: Origin,
    /// Trust in one word, or the reason why it is unknown.
    pub trust: String,
    /// Summary in one line.
    pub summary: String,
    /// Its library or component.
    pub path: String,
    /// Whether another plugin of the same id and kind takes precedence.
    pub shadowed: bool,
}

/// Lists the installed plugins. No native plugin is loaded, and WASM plugins are compiled only if they were
/// never loaded before.
///
/// # Errors
///
/// If the sandbox cannot start, or a runtime is named for a plugin that takes none.
pub fn plugins(settings: &Settings, observer: &mut dyn Observer) -> Result<Installed> {
    let registry = settings.registry(&[]);
    let runtimes = settings.runtimes(&registry)?;
    let sandbox = sandbox(settings)?;
    let mut problems: Vec<(String, String)> =
        registry.problems().iter().map(|problem| (problem.to_string(), problem.help())).collect();
    let mut entries: Vec<PluginEntry> =
        registry.natives().iter().map(|plugin| native_entry(plugin, &registry)).collect();
    let (mut optional, mut elsewhere) = (Vec::new(), Vec::new());
    for plugin in registry.natives() {
        let Some(need) = &plugin.metadata.runtime else { continue };
        let id = &plugin.metadata.id;
        let text =
            |reason: &str| format!("runtime `{}` {} of `{id}` {reason}", need.name, need.version);
        match runtimes.find(plugin) {
            Ok(Some(RuntimeStatus::Missing { reason })) => {
                let problem = (text(&reason), install_command(id));
                if need.optional { &mut optional } else { &mut problems }.push(problem);
            }
            Ok(Some(RuntimeStatus::Damaged { reason })) => {
                problems.push((text(&reason), install_command(id)));
            }
            Ok(Some(RuntimeStatus::Unavailable { reason })) => elsewhere.push(text(&reason)),
            Ok(Some(RuntimeStatus::Ready(_)) | None) => {}
            Err(error) => problems.push((error.to_string(), error.help().unwrap_or_default())),
        }
    }
    for file in registry.guests() {
        match guest_entry(file, &sandbox, observer) {
            Ok(mut entry) => {
                entry.shadowed = entries
                    .iter()
                    .any(|other| (&other.id, &other.kind) == (&entry.id, &entry.kind));
                entries.push(entry);
            }
            Err(error) => problems
                .push((format!("{}: {error}", file.path.display()), advice(&error, &file.path))),
        }
    }
    Ok(Installed { plugins: entries, problems, optional, elsewhere })
}

fn native_entry(plugin: &NativePlugin, registry: &Registry) -> PluginEntry {
    let trust = match registry.trust_of(plugin) {
        Ok((trust, _)) => trust_word(&trust).to_owned(),
        Err(error) => error.to_string(),
    };
    PluginEntry {
        id: plugin.metadata.id.clone(),
        kind: "backend".into(),
        version: plugin.metadata.version.to_string(),
        origin: plugin.origin,
        trust,
        summary: plugin.metadata.summary.clone(),
        path: plugin.library.display().to_string(),
        shadowed: registry.shadowed_by(plugin).is_some(),
    }
}

fn trust_word(trust: &Trust) -> &'static str {
    match trust {
        Trust::Installed => "installed",
        Trust::Recorded => "recorded",
        Trust::New => "new",
        Trust::Untrusted => "untrusted",
        Trust::Changed { .. } => "changed",
    }
}

/// Returns the kind and description of a guest's file. It is loaded only if it never was.
fn profile(
    file: &GuestFile,
    sandbox: &Sandbox,
    observer: &mut dyn Observer,
) -> Result<Profile, GuestError> {
    Ok(match sandbox.look(&file.path)? {
        Seen::Known(profile) => profile,
        Seen::New(_) => loaded(file, sandbox, observer)?.profile().clone(),
    })
}

fn loaded(
    file: &GuestFile,
    sandbox: &Sandbox,
    observer: &mut dyn Observer,
) -> Result<Plugin, GuestError> {
    let mut tell = |compiling: Compiling| observer.notice(Notice::Compiling(&compiling));
    sandbox.load_telling(&file.path, &mut tell)
}

fn guest_entry(
    file: &GuestFile,
    sandbox: &Sandbox,
    observer: &mut dyn Observer,
) -> Result<PluginEntry, GuestError> {
    let profile = profile(file, sandbox, observer)?;
    let description = profile.description();
    Ok(PluginEntry {
        id: description.id.clone(),
        kind: profile.kind().name().into(),
        version: description.version.clone(),
        origin: file.origin,
        trust: "sandboxed".into(),
        summary: description.summary.clone(),
        path: file.path.display().to_string(),
        shadowed: false,
    })
}

/// Everything that is known of a plugin's id.
#[derive(Debug)]
pub struct PluginInfo {
    /// The facts of each plugin of that id, in order.
    pub plugins: Vec<PluginFacts>,
    /// Plugins of that id, or files that are named like it, that cannot be used: the reason and the advice.
    pub broken: Vec<(String, String)>,
    /// Devices of native plugins; empty without native plugins.
    pub devices: Vec<BackendDevices>,
}

/// Facts about a plugin, in order.
pub type PluginFacts = Vec<(&'static str, Value)>;

/// Returns all information about the plugins of an id.
///
/// # Errors
///
/// If there is none that can be used, or the worker is missing that asks a native one for its devices.
pub fn plugin_info(
    id: &str,
    with_devices: bool,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<PluginInfo> {
    let registry = settings.registry(&[]);
    let runtimes = settings.runtimes(&registry)?;
    let natives: Vec<_> =
        registry.natives().iter().filter(|plugin| plugin.metadata.id == id).collect();
    let sandbox = sandbox(settings)?;
    let problems = registry.problems().iter().filter(|problem| problem.id() == Some(id));
    let mut broken: Vec<_> =
        problems.map(|problem| (problem.to_string(), problem.help())).collect();
    let (mut plugins, mut guests) = (Vec::new(), Vec::new());
    for plugin in &natives {
        let mut facts = native_facts(plugin, &registry);
        facts.extend(runtime_facts(plugin, &runtimes));
        plugins.push(facts);
    }
    let (called, others): (Vec<_>, Vec<_>) =
        registry.guests().iter().partition(|file| is_called(&file.name, id));
    for (file, is_named) in
        called.into_iter().map(|file| (file, true)).chain(others.into_iter().map(|it| (it, false)))
    {
        // Files with other names are compiled only if no file with this name is it.
        if !is_named && !plugins.is_empty() && matches!(sandbox.look(&file.path), Ok(Seen::New(_)))
        {
            continue;
        }
        // A file that cannot be loaded may be the one that is asked for, by its name.
        let plugin = profile(file, &sandbox, observer).and_then(|profile| {
            let found = profile.description().id.clone();
            let plugin = (found == id).then(|| loaded(file, &sandbox, observer)).transpose()?;
            Ok((found, plugin))
        });
        match plugin {
            Ok((_, Some(plugin))) => plugins.push(guest_facts(file, &plugin, &registry, &sandbox)),
            Ok((other, None)) => guests.push(other),
            Err(error) if file.is_named_like(id) => {
                let advice = advice(&error, &file.path);
                broken.push((format!("{}: {error}", file.path.display()), advice));
            }
            Err(_) => {}
        }
    }
    if plugins.is_empty() && broken.is_empty() {
        let natives = registry.natives().iter().map(|plugin| &*plugin.metadata.id);
        let known = natives.chain(guests.iter().map(String::as_str));
        return Err(registry.unknown("", id, known).into());
    }
    if plugins.is_empty() {
        return Err(Error::Broken { id: id.to_owned(), broken });
    }
    let mut devices = Vec::new();
    if with_devices && !natives.is_empty() {
        let executor = executor(settings)?;
        devices = list_devices(&[id], &registry, &runtimes, &executor, &settings.interrupt);
    }
    Ok(PluginInfo { plugins, broken, devices })
}

/// Returns all information about a plugin's file or folder, which need not be installed.
///
/// # Errors
///
/// If it is not a plugin, or cannot be used.
pub fn file_info(
    path: &Path,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<PluginFacts> {
    if path.join("plugin.toml").is_file() {
        let folder = path.canonicalize().map_err(|error| Error::io("open", path, error))?;
        let registry = settings.registry(&[]);
        let here = Registry::scan(&Search::new(&settings.places, &[folder], &[]));
        if let Some(plugin) = here.natives().first().filter(|it| it.origin == Origin::Flag) {
            let mut facts = native_facts(plugin, &here);
            facts.extend(runtime_facts(plugin, &settings.runtimes(&registry)?));
            return Ok(facts);
        }
        if let Some(problem) = here.problems().first() {
            return Err(Error::BrokenPlugin(Box::new(problem.clone())));
        }
    }
    let path = component_of(path)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().replace('_', "-");
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let file = GuestFile { name, path, folder, origin: Origin::Flag };
    let sandbox = sandbox(settings)?;
    let plugin = loaded(&file, &sandbox, observer).map_err(|error| Error::UnusableGuest {
        hint: advice(&error, &file.path),
        path: file.path.clone(),
        error: Box::new(error),
    })?;
    Ok(guest_facts(&file, &plugin, &settings.registry(&[]), &sandbox))
}

fn native_facts(plugin: &NativePlugin, registry: &Registry) -> PluginFacts {
    let metadata = &plugin.metadata;
    let mut facts: PluginFacts = vec![
        ("id", json!(metadata.id)),
        ("kind", json!(metadata.kind)),
        ("version", json!(metadata.version)),
        ("summary", json!(metadata.summary)),
        ("license", json!(metadata.license)),
        ("engine", json!(metadata.engine)),
        ("hardware", json!(metadata.hardware)),
        ("native-abi", json!(metadata.api)),
        ("runtime-libraries", json!(metadata.runtime_libraries)),
        ("permissions", json!(metadata.permissions)),
        ("options", metadata.options.as_ref().map_or_else(|| json!("unknown"), |it| json!(it))),
        ("origin", json!(plugin.origin)),
        ("library", json!(plugin.library)),
    ];
    if let Ok(metadata) = plugin.library.metadata() {
        facts.push(("bytes", json!(metadata.len())));
    }
    match registry.trust_of(plugin) {
        Ok((trust, seal)) => {
            facts.push(("sha256", json!(seal.library_sha256)));
            facts.push(("trust", json!(trust_word(&trust))));
            facts.push(("trust-sha256", json!(seal.sha256)));
            if let Trust::Changed { recorded, recorded_at } = trust {
                facts.push(("recorded-sha256", json!(recorded)));
                facts.push(("recorded-at", json!(recorded_at)));
            }
        }
        Err(error) => facts.push(("trust", json!(error.to_string()))),
    }
    if let Some(other) = registry.shadowed_by(plugin) {
        facts.push(("shadowed-by", json!(other.folder)));
    }
    facts
}

/// Returns the facts of a plugin's runtime as in results, or the command that installs it.
fn runtime_facts(plugin: &NativePlugin, runtimes: &Runtimes) -> PluginFacts {
    let Some(need) = &plugin.metadata.runtime else { return Vec::new() };
    let optional = if need.optional { ", optional" } else { "" };
    let mut facts: PluginFacts = vec![(
        "runtime",
        json!(format!("{} ({} {}{optional})", need.summary, need.name, need.version)),
    )];
    if !need.needed_by.is_empty() {
        facts.push(("runtime-needed-by", json!(need.needed_by)));
    }
    match runtimes.find(plugin) {
        Ok(Some(RuntimeStatus::Ready(ready))) => match ready.identify(plugin) {
            Ok(identity) => {
                facts.push(("runtime-path", json!(identity.path)));
                facts.push(("runtime-origin", json!(identity.origin)));
                facts.push((
                    "runtime-version",
                    json!(identity.version.as_deref().unwrap_or("unknown")),
                ));
                facts.push((
                    "runtime-sha256",
                    json!(identity.sha256.as_deref().unwrap_or("unknown")),
                ));
            }
            Err(error) => facts.push(("runtime-path", json!(error.to_string()))),
        },
        Ok(status) => {
            let missing = missing(plugin, status.as_ref());
            facts.extend(missing.map(|gap| ("runtime-missing", json!(gap.to_string()))));
        }
        Err(error) => facts.push(("runtime-missing", json!(error.to_string()))),
    }
    facts
}

fn guest_facts(
    file: &GuestFile,
    plugin: &Plugin,
    registry: &Registry,
    sandbox: &Sandbox,
) -> PluginFacts {
    let description = plugin.description();
    let options: serde_json::Map<String, Value> = description
        .options
        .iter()
        .map(|(name, explanation)| (name.clone(), json!(explanation)))
        .collect();
    let mut facts: PluginFacts = vec![
        ("id", json!(description.id)),
        ("kind", json!(plugin.kind().name())),
        ("version", json!(description.version)),
        ("summary", json!(description.summary)),
        ("license", json!(description.license)),
        ("origin", json!(file.origin)),
        ("file", json!(file.path)),
        ("sha256", json!(plugin.sha256())),
        ("trust", json!("sandboxed")),
    ];
    if let Some(added) = registry.recorded_guest(file) {
        facts.push(("added-at", json!(added.recorded_at)));
        if added.sha256 != plugin.sha256() {
            facts.push(("added-sha256", json!(added.sha256)));
        }
    }
    if let Ok(names) = sandbox.names(&file.path) {
        let permissions: Vec<_> = names
            .permissions()
            .map(|it| format!("{}, if a manifest grants it with `{}`", it.interface(), it.key()))
            .collect();
        let Names { world, version, imports, bytes } = names;
        facts.push(("permissions", json!(permissions)));
        facts.push(("bytes", json!(bytes)));
        facts.push(("world", json!(world)));
        facts.push(("tare-plugin", json!(version)));
        facts.push(("imports", json!(imports)));
    }
    if plugin.kind() == Kind::Metric {
        facts.push(("columns", json!(plugin.columns())));
    }
    facts.push(("options", Value::Object(options)));
    if plugin.kind() == Kind::Metric
        && let Ok(values) = sandbox.rehearse(plugin, &json!({}))
    {
        let values = values.iter().map(|value| (value.metric.clone(), json!(value.unit)));
        facts.push(("states", Value::Object(values.collect())));
    }
    facts
}
