//! `host devices`: what every installed backend sees.

use host_experiment::{BackendDevices, Settings};
use host_record::{Cell, DeviceInfo, Table};
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::failure::Result;
use crate::printer::Printer;
use crate::table;
use host_experiment::units;

pub(crate) fn devices(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let seen = host_experiment::devices(settings)?;
    show(&seen, printer);
    if seen.is_empty() {
        printer.warning("no backend is installed", Some("`host doctor` checks the installation"));
    }
    Ok(Exit::Success)
}

/// Shows devices, and failures as rows with their reasons.
pub(crate) fn show(seen: &[BackendDevices], printer: &Printer) {
    let shown = printer.machine(
        || seen.iter().map(document).collect(),
        || rows(seen, |bytes| Cell::Integer(i64::try_from(bytes).unwrap_or(i64::MAX))),
    );
    if !shown && !seen.is_empty() {
        let table = rows(seen, |bytes| Cell::Text(units::bytes(bytes as f64)));
        let table = table::without_empty_columns(table);
        printer.show(printer.headed(&table::human(&table, printer.width())));
    }
    for shadow in seen.iter().filter_map(|seen| seen.shadow.as_ref()) {
        printer.warning(shadow, Some(&shadow.hint()));
    }
}

fn document(seen: &BackendDevices) -> Value {
    let mut object = json!({ "backend": seen.backend, "version": seen.version });
    match &seen.devices {
        Ok(devices) => object["devices"] = json!(devices),
        Err(reason) => object["failure"] = json!(reason),
    }
    if let Some(shadow) = &seen.shadow {
        object["hides"] = json!(shadow.hidden.display().to_string());
    }
    object
}

fn rows(seen: &[BackendDevices], memory: impl Fn(u64) -> Cell) -> Table {
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
    for BackendDevices { backend, version, devices, .. } in seen {
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
            Ok(devices) if devices.is_empty() => rows.push(empty("it finds no device".into())),
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

/// Returns the kind of a device, and whether it is simulated.
fn kind(device: &DeviceInfo) -> String {
    let has = |name: &str| device.attributes.get(name).is_some_and(|value| value == "true");
    match has("simulated") || has("software") {
        true => format!("{}, simulated", device.kind),
        false => device.kind.clone(),
    }
}

/// Returns a device's attributes: driver, versions, capability and the like.
fn attributes(device: &DeviceInfo) -> Cell {
    let attributes: Vec<String> =
        device.attributes.iter().map(|(name, value)| format!("{name} {value}")).collect();
    match attributes.is_empty() {
        true => Cell::Null,
        false => Cell::Text(attributes.join("; ")),
    }
}
