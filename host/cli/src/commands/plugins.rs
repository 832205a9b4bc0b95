//! `host plugins`.

use host_record::{Cell, Table};
use host_registry::{GuestFile, NativePlugin, Origin, Registry, Trust};
use host_runtime::{Runtimes, Standing};
use host_wasm::Sandbox;
use serde_json::{Value, json};

use crate::arguments::{Format, PluginsCommand};
use crate::commands::{devices, plugin_test};
use crate::exit::Exit;
use crate::failure::Result;
use crate::printer::Printer;
use crate::settings::Settings;
use crate::{experiment, guests, runtimes, table};

pub(crate) fn plugins(
    command: &PluginsCommand,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let registry = settings.registry(&[]);
    match command {
        PluginsCommand::List => list(&registry, &settings.runtimes(&registry)?, settings, printer),
        PluginsCommand::Info { id } => {
            info(id, &registry, &settings.runtimes(&registry)?, settings, printer)
        }
        PluginsCommand::Trust { id } => trust(id, &registry, printer),
        PluginsCommand::Test { plugin, fixture, only } => {
            plugin_test::test(plugin, fixture.as_deref(), only.as_deref(), settings, printer)
        }
    }
}

/// A plugin, as the list shows it.
struct Entry {
    id: String,
    kind: String,
    version: String,
    origin: Origin,
    trust: String,
    summary: String,
    path: String,
    shadowed: bool,
}

fn list(
    registry: &Registry,
    runtimes: &Runtimes,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let sandbox = guests::sandbox()?;
    let mut problems: Vec<(String, String)> =
        registry.problems().iter().map(|problem| (problem.to_string(), problem.help())).collect();
    let mut entries: Vec<Entry> =
        registry.natives().iter().map(|plugin| native_entry(plugin, registry)).collect();
    let (mut optional, mut elsewhere) = (Vec::new(), Vec::new());
    for plugin in registry.natives() {
        let Some(need) = &plugin.metadata.runtime else { continue };
        let id = &plugin.metadata.id;
        let text =
            |reason: &str| format!("runtime `{}` {} of `{id}` {reason}", need.name, need.version);
        match runtimes.find(plugin) {
            Ok(Some(Standing::Missing { reason })) => {
                let problem = (text(&reason), runtimes::install_command(id));
                if need.optional { &mut optional } else { &mut problems }.push(problem);
            }
            Ok(Some(Standing::Damaged { reason })) => {
                problems.push((text(&reason), runtimes::install_command(id)));
            }
            Ok(Some(Standing::Unavailable { reason })) => elsewhere.push(text(&reason)),
            Ok(Some(Standing::Ready(_)) | None) => {}
            Err(error) => problems.push((error.to_string(), error.help().unwrap_or_default())),
        }
    }
    for file in registry.guests() {
        match guest_entry(file, &sandbox) {
            Ok(mut entry) => {
                entry.shadowed = entries
                    .iter()
                    .any(|other| (&other.id, &other.kind) == (&entry.id, &entry.kind));
                entries.push(entry);
            }
            Err(error) => problems.push((
                format!("{}: {error}", file.path.display()),
                "build it for wasm32-wasip2 with this host's plugin-guest, or remove it".into(),
            )),
        }
    }
    let shown = printer.machine(
        || {
            json!({
                "plugins": entries.iter().map(Entry::document).collect::<Vec<_>>(),
                "problems": problems.iter().map(|(problem, help)| json!({
                    "problem": problem, "help": help,
                })).collect::<Vec<_>>(),
            })
        },
        || rows(&entries, true),
    );
    if !shown && !entries.is_empty() {
        printer.show(printer.headed(&table::human(&rows(&entries, false), printer.width())));
    }
    if printer.format() == Format::Human {
        for (index, folder) in settings.search(&[]).folders.iter().enumerate() {
            let missing = if folder.path.is_dir() { "" } else { ", which does not exist" };
            let text = format!("{} ({}{missing})", folder.path.display(), folder.origin);
            if index == 0 { printer.status("Looked in", text) } else { printer.detail(text) }
        }
    }
    for (text, command) in &optional {
        printer.status("Optional", format_args!("{text}: {command}"));
    }
    for text in &elsewhere {
        printer.status("Elsewhere", text);
    }
    for (problem, help) in &problems {
        printer.warning(problem, Some(help).filter(|help| !help.is_empty()).map(String::as_str));
    }
    if entries.is_empty() {
        printer.warning("no plugin is installed", Some("`host doctor` checks the installation"));
    }
    Ok(Exit::Success)
}

fn native_entry(plugin: &NativePlugin, registry: &Registry) -> Entry {
    let trust = match registry.trust_of(plugin) {
        Ok((trust, _)) => trust_word(&trust).to_owned(),
        Err(error) => error.to_string(),
    };
    Entry {
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

fn guest_entry(
    file: &GuestFile,
    sandbox: &Sandbox,
) -> std::result::Result<Entry, host_wasm::GuestError> {
    let plugin = sandbox.load(&file.path)?;
    let description = plugin.description();
    Ok(Entry {
        id: description.id.clone(),
        kind: plugin.kind().name().into(),
        version: description.version.clone(),
        origin: file.origin,
        trust: "sandboxed".into(),
        summary: description.summary.clone(),
        path: file.path.display().to_string(),
        shadowed: false,
    })
}

impl Entry {
    fn document(&self) -> Value {
        json!({
            "id": self.id,
            "kind": self.kind,
            "version": self.version,
            "origin": self.origin,
            "trust": self.trust,
            "summary": self.summary,
            "path": self.path,
            "shadowed": self.shadowed,
        })
    }
}

fn rows(entries: &[Entry], with_path: bool) -> Table {
    let mut columns = vec!["id", "kind", "version", "origin", "trust", "summary"];
    if with_path {
        columns.extend(["path", "shadowed"]);
    }
    let text = |text: &str| Cell::Text(text.to_owned());
    let row = |entry: &Entry| {
        let mut row = vec![
            text(&entry.id),
            text(&entry.kind),
            text(&entry.version),
            text(entry.origin.name()),
            text(&entry.trust),
            text(&entry.summary),
        ];
        if with_path {
            row.extend([text(&entry.path), Cell::Boolean(entry.shadowed)]);
        } else if entry.shadowed {
            row[4] = Cell::Text(format!("{}, shadowed", entry.trust));
        }
        row
    };
    Table {
        columns: columns.into_iter().map(Into::into).collect(),
        rows: entries.iter().map(row).collect(),
    }
}

/// Facts about a plugin, in order.
type Facts = Vec<(&'static str, Value)>;

fn info(
    id: &str,
    registry: &Registry,
    runtimes: &Runtimes,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let natives: Vec<_> =
        registry.natives().iter().filter(|plugin| plugin.metadata.id == id).collect();
    let sandbox = guests::sandbox()?;
    let mut documents = Vec::new();
    for plugin in &natives {
        let mut facts = native_facts(plugin, registry);
        facts.extend(runtime_facts(plugin, runtimes));
        documents.push(facts);
    }
    for file in registry.guests() {
        // A file that cannot be loaded may be the one that is asked for, by its name.
        match sandbox.load(&file.path) {
            Ok(plugin) if plugin.description().id == id => {
                documents.push(guest_facts(file, &plugin, &sandbox));
            }
            Err(error) if file.name == id => {
                printer.warning(format_args!("{}: {error}", file.path.display()), None);
            }
            _ => {}
        }
    }
    if documents.is_empty() {
        return Err(registry.missing("", id).into());
    }
    let document = |facts: &Facts| {
        let pairs = facts.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        Value::Object(pairs.collect())
    };
    let shown = printer.machine(
        || documents.iter().map(document).collect(),
        || Table {
            columns: ["id", "fact", "value"].map(Into::into).into(),
            rows: documents
                .iter()
                .flatten()
                .map(|(name, value)| {
                    vec![
                        Cell::Text(id.to_owned()),
                        Cell::Text((*name).to_owned()),
                        Cell::Text(plain(value)),
                    ]
                })
                .collect(),
        },
    );
    if shown {
        return Ok(Exit::Success);
    }
    for facts in &documents {
        for (name, value) in facts {
            let text = plain(value);
            let indent = " ".repeat(20);
            let value = crate::summary::wrapped(&text, printer.width(), &indent);
            printer.show(format_args!(
                "{}{}",
                printer.palette().heading(format_args!("{name:<20}")),
                value.trim_start()
            ));
        }
        printer.show("\n");
    }
    if !natives.is_empty() {
        let mut runner = experiment::runner(settings)?;
        runner.runtimes = runtimes::paths(runtimes, registry);
        devices::show(&devices::see(&[id], registry, runtimes, &runner), printer);
    }
    Ok(Exit::Success)
}

fn native_facts(plugin: &NativePlugin, registry: &Registry) -> Facts {
    let metadata = &plugin.metadata;
    let mut facts: Facts = vec![
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
        ("options", metadata.options.as_ref().map_or_else(|| json!("not told"), |it| json!(it))),
        ("origin", json!(plugin.origin)),
        ("library", json!(plugin.library)),
    ];
    match registry.trust_of(plugin) {
        Ok((trust, sha256)) => {
            facts.push(("sha256", json!(sha256)));
            facts.push(("trust", json!(trust_word(&trust))));
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

/// What a plugin runs on, as results would keep it, or what installs it.
fn runtime_facts(plugin: &NativePlugin, runtimes: &Runtimes) -> Facts {
    let Some(need) = &plugin.metadata.runtime else { return Vec::new() };
    let optional = if need.optional { ", optional" } else { "" };
    let mut facts: Facts = vec![(
        "runtime",
        json!(format!("{} ({} {}{optional})", need.summary, need.name, need.version)),
    )];
    if !need.needed_by.is_empty() {
        facts.push(("runtime-needed-by", json!(need.needed_by)));
    }
    match runtimes.find(plugin) {
        Ok(Some(Standing::Ready(ready))) => match ready.identify(plugin) {
            Ok(identity) => {
                facts.push(("runtime-path", json!(identity.path)));
                facts.push(("runtime-origin", json!(identity.origin)));
                facts.push((
                    "runtime-version",
                    json!(identity.version.as_deref().unwrap_or("not told")),
                ));
                facts.push((
                    "runtime-sha256",
                    json!(identity.sha256.as_deref().unwrap_or("not told")),
                ));
            }
            Err(error) => facts.push(("runtime-path", json!(error.to_string()))),
        },
        Ok(standing) => {
            let missing = runtimes::missing(plugin, standing.as_ref());
            facts.extend(missing.map(|gap| ("runtime-missing", json!(gap.to_string()))));
        }
        Err(error) => facts.push(("runtime-missing", json!(error.to_string()))),
    }
    facts
}

fn guest_facts(file: &GuestFile, plugin: &host_wasm::Plugin, sandbox: &Sandbox) -> Facts {
    let description = plugin.description();
    let options: serde_json::Map<String, Value> = description
        .options
        .iter()
        .map(|(name, explanation)| (name.clone(), json!(explanation)))
        .collect();
    let mut facts: Facts = vec![
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
    if plugin.kind() == host_wasm::Kind::Metric {
        facts.push(("columns", json!(plugin.columns())));
    }
    facts.push(("options", Value::Object(options)));
    if plugin.kind() == host_wasm::Kind::Metric
        && let Ok(values) = sandbox.rehearse(plugin, &json!({}))
    {
        let values = values.iter().map(|value| (value.metric.clone(), json!(value.unit)));
        facts.push(("states", Value::Object(values.collect())));
    }
    facts
}

/// A fact as text.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "none".into(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(pairs) if pairs.is_empty() => "none".into(),
        Value::Object(pairs) => {
            let lines: Vec<_> =
                pairs.iter().map(|(name, value)| format!("{name}: {}", plain(value))).collect();
            lines.join("\n")
        }
        other => other.to_string(),
    }
}

fn trust(id: &str, registry: &Registry, printer: &Printer) -> Result<Exit> {
    let is_native = registry.natives().iter().any(|plugin| plugin.metadata.id == id);
    if !is_native && registry.guests().iter().any(|guest| guest.name == id) {
        printer.status(
            "Trusted",
            format_args!("{id} is a WASM plugin: it runs in the sandbox and needs no trust"),
        );
        return Ok(Exit::Success);
    }
    let trusted = registry.trust(id)?;
    if trusted.is_empty() {
        printer
            .status("Trusted", format_args!("{id} lies beside the executable and needs no record"));
    }
    for plugin in trusted {
        printer.status(
            "Trusted",
            format_args!(
                "{id} {}: {} is now {}",
                plugin.identity.version,
                plugin.plugin.library.display(),
                plugin.identity.sha256
            ),
        );
    }
    Ok(Exit::Success)
}
