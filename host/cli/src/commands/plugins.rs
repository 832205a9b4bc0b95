//! `host plugins`.

use host_experiment::{
    Installed, PluginEntry, PluginFacts, PluginInfo, Settings, file_info, is_native, plugin_info,
    plugins as installed,
};
use std::path::Path;

use host_record::{Cell, Table};
use host_registry::{NativePlugin, Origin, Registry, Trusted};
use serde_json::{Value, json};

use crate::arguments::{Format, PluginsCommand};
use crate::commands::{authoring, devices, plugin_test, trial};
use crate::exit::Exit;
use crate::failure::Result;
use crate::notices::Console;
use crate::printer::Printer;
use crate::table;

pub(crate) fn plugins(
    command: &PluginsCommand,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    match command {
        PluginsCommand::List => list(settings, printer),
        PluginsCommand::Info { plugin } => info(plugin, settings, printer),
        PluginsCommand::Trust { id } => trust(id, &settings.registry(&[]), printer),
        PluginsCommand::Test { plugin, fixture, only, timeout, accept } => {
            let only = only.as_deref();
            if *accept || !is_native(plugin, settings) {
                return plugin_test::test_guest(plugin, only, *accept, settings, printer);
            }
            plugin_test::test(plugin, fixture.as_deref(), only, *timeout, settings, printer)
        }
        PluginsCommand::New { kind, name, lang, folder } => {
            authoring::new(*kind, name, *lang, folder.as_deref(), settings, printer)
        }
        PluginsCommand::Build { folder } => authoring::build(folder, printer),
        PluginsCommand::Sdk { folder } => authoring::sdk(folder, printer),
        PluginsCommand::Add { plugin } => authoring::add(plugin, settings, printer),
        PluginsCommand::Remove { ids } => authoring::remove(ids, settings, printer),
        PluginsCommand::Compute { trial } => trial::compute(trial, settings, printer),
        PluginsCommand::Report { trial, to } => trial::report(trial, to, settings, printer),
        PluginsCommand::Recommend { trial } => trial::recommend(trial, settings, printer),
    }
}

fn list(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let Installed { plugins: entries, problems, optional, elsewhere } =
        installed(settings, &mut Console::new(printer))?;
    let shown = printer.machine(
        || {
            json!({
                "plugins": entries.iter().map(document).collect::<Vec<_>>(),
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

fn document(entry: &PluginEntry) -> Value {
    json!({
        "id": entry.id,
        "kind": entry.kind,
        "version": entry.version,
        "origin": entry.origin,
        "trust": entry.trust,
        "summary": entry.summary,
        "path": entry.path,
        "shadowed": entry.shadowed,
    })
}

fn rows(entries: &[PluginEntry], with_path: bool) -> Table {
    let mut columns = vec!["id", "kind", "version", "origin", "trust", "summary"];
    if with_path {
        columns.extend(["path", "shadowed"]);
    }
    let text = |text: &str| Cell::Text(text.to_owned());
    let row = |entry: &PluginEntry| {
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

fn info(id: &str, settings: &Settings, printer: &Printer) -> Result<Exit> {
    let is_human = printer.format() == Format::Human;
    let mut console = Console::new(printer);
    let found = if id.ends_with(".wasm") || id.contains(std::path::is_separator) || id == "." {
        let facts = file_info(Path::new(id), settings, &mut console)?;
        PluginInfo { plugins: vec![facts], broken: Vec::new(), devices: Vec::new() }
    } else {
        plugin_info(id, is_human, settings, &mut console)?
    };
    let PluginInfo { plugins: documents, broken, devices } = found;
    for (reason, advice) in &broken {
        printer.warning(reason, Some(advice));
    }
    let document = |facts: &PluginFacts| {
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
            let value = crate::visible::wrapped(&text, printer.width(), &indent);
            printer.show(format_args!(
                "{}{}",
                printer.palette().heading(format_args!("{name:<20}")),
                value.trim_start()
            ));
        }
        printer.show("\n");
    }
    if !devices.is_empty() {
        devices::show(&devices, printer);
    }
    Ok(Exit::Success)
}

/// Returns a fact as text.
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
    let Trusted { plugin, seal, others } = registry.trust(id)?;
    let named = |plugin: &NativePlugin| {
        format!(
            "{id} {} in {} ({})",
            plugin.metadata.version,
            plugin.folder.display(),
            plugin.origin
        )
    };
    match (seal, registry.lock_file()) {
        (Some(seal), Some(lock)) => {
            printer.status(
                "Trusted",
                format_args!("{}: its files have the SHA-256 {}", named(&plugin), seal.sha256),
            );
            printer.detail(format_args!("recorded in {}", lock.display()));
        }
        _ => printer.status(
            "Trusted",
            format_args!("{}: it lies beside the executable and needs no record", named(&plugin)),
        ),
    }
    for other in others.iter().filter(|other| other.origin != Origin::Installed) {
        printer.warning(
            format_args!(
                "another plugin has this id and is trusted no more than before: {}",
                named(other)
            ),
            Some(&format!(
                "if you know where it is from: host plugins trust {id} --plugins {}",
                other.folder.display()
            )),
        );
    }
    Ok(Exit::Success)
}
