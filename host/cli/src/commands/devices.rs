//! `host devices`: what every installed backend sees.

use std::collections::BTreeSet;

use host_record::{Cell, DeviceInfo, Table};
use host_registry::Registry;
use host_run::{Interrupt, Runner};
use host_runtime::Runtimes;
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::experiment;
use crate::failure::Result;
use crate::printer::Printer;
use crate::settings::Settings;
use crate::{runtimes, table, units};

/// What a backend sees, or why that cannot be told.
pub(crate) struct Seen {
    backend: String,
    version: Option<String>,
    devices: std::result::Result<Vec<DeviceInfo>, String>,
}

pub(crate) fn devices(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let registry = settings.registry(&[]);
    let runtimes = settings.runtimes(&registry)?;
    let mut runner = experiment::runner(settings)?;
    runner.runtimes = runtimes::paths(&runtimes, &registry);
    let ids: BTreeSet<&str> =
        registry.natives().iter().map(|plugin| plugin.metadata.id.as_str()).collect();
    let ids: Vec<_> = ids.into_iter().collect();
    let mut seen = see(&ids, &registry, &runtimes, &runner);
    seen.extend(registry.problems().iter().filter_map(|problem| {
        let backend = problem.id()?.to_owned();
        Some(Seen { backend, version: None, devices: Err(problem.to_string()) })
    }));
    show(&seen, printer);
    if seen.is_empty() {
        printer.warning("no backend is installed", Some("`host doctor` checks the installation"));
    }
    Ok(Exit::Success)
}

/// Asks each backend, all at the same time.
pub(crate) fn see(
    ids: &[&str],
    registry: &Registry,
    runtimes: &Runtimes,
    runner: &Runner,
) -> Vec<Seen> {
    let ask = |id: &str| {
        let plugin = match registry.backend(id, None) {
            Ok(plugin) => plugin,
            Err(error) => {
                let help = error.help().map(|help| format!(" ({help})")).unwrap_or_default();
                let devices = Err(format!("{error}{help}"));
                return Seen { backend: id.into(), version: None, devices };
            }
        };
        let devices = experiment::describe(&plugin, runner, &Interrupt::new()).map_err(|error| {
            let nothing = experiment::nothing_found(&error);
            let (looked, wants) = (nothing.is_some(), experiment::wants_runtime(&error));
            let said = nothing.unwrap_or_else(|| error.to_string());
            let found = runtimes.find(&plugin.plugin);
            runtimes::explained(said, looked, wants, &plugin.plugin, found)
        });
        // One that can do without a runtime has devices all the same, and not those that were meant.
        let devices = devices.and_then(|devices| match runtimes.find(&plugin.plugin) {
            Err(error) => Err(error.to_string()),
            Ok(_) => Ok(devices),
        });
        Seen { backend: id.into(), version: Some(plugin.identity.version), devices }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = ids.iter().map(|id| scope.spawn(move || ask(id))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    })
}

/// Shows devices, and failures as rows with their reasons.
pub(crate) fn show(seen: &[Seen], printer: &Printer) {
    let shown = printer.machine(
        || seen.iter().map(document).collect(),
        || rows(seen, |bytes| Cell::Integer(i64::try_from(bytes).unwrap_or(i64::MAX))),
    );
    if !shown && !seen.is_empty() {
        let table = rows(seen, |bytes| Cell::Text(units::bytes(bytes as f64)));
        let table = table::without_empty_columns(table);
        printer.show(printer.headed(&table::human(&table, printer.width())));
    }
}

fn document(seen: &Seen) -> Value {
    let mut object = json!({ "backend": seen.backend, "version": seen.version });
    match &seen.devices {
        Ok(devices) => object["devices"] = json!(devices),
        Err(reason) => object["failure"] = json!(reason),
    }
    object
}

fn rows(seen: &[Seen], memory: impl Fn(u64) -> Cell) -> Table {
    let columns = [
        "backend",
        "version",
        "device",
        "kind",
        "name",
        "memory",
        "precisions",
        "attributes",
        "failure",
    ];
    let mut rows = Vec::new();
    for Seen { backend, version, devices } in seen {
        let backend = Cell::Text(backend.clone());
        let version = version.clone().map_or(Cell::Null, Cell::Text);
        let empty = |reason: String| {
            let mut row = vec![backend.clone(), version.clone()];
            row.extend(std::iter::repeat_n(Cell::Null, 6));
            row.push(Cell::Text(reason));
            row
        };
        match devices {
            Err(reason) => rows.push(empty(reason.clone())),
            Ok(devices) if devices.is_empty() => rows.push(empty("it sees no device here".into())),
            Ok(devices) => rows.extend(devices.iter().map(|device| {
                let precisions: Vec<_> =
                    device.precisions.iter().map(|precision| precision.name()).collect();
                vec![
                    backend.clone(),
                    version.clone(),
                    Cell::Text(device.id.clone()),
                    Cell::Text(kind(device)),
                    Cell::Text(device.name.clone()),
                    device.memory_bytes.map_or(Cell::Null, &memory),
                    Cell::Text(precisions.join(" ")),
                    attributes(device),
                    Cell::Null,
                ]
            })),
        }
    }
    Table { columns: columns.map(Into::into).into(), rows }
}

/// What it is, and whether hardware of that kind computes.
fn kind(device: &DeviceInfo) -> String {
    let says = |name: &str| device.attributes.get(name).is_some_and(|value| value == "true");
    match says("simulated") || says("software") {
        true => format!("{}, simulated", device.kind),
        false => device.kind.clone(),
    }
}

/// What else it says of itself: driver, versions, capability and the like.
fn attributes(device: &DeviceInfo) -> Cell {
    let attributes: Vec<String> =
        device.attributes.iter().map(|(name, value)| format!("{name} {value}")).collect();
    match attributes.is_empty() {
        true => Cell::Null,
        false => Cell::Text(attributes.join("; ")),
    }
}
