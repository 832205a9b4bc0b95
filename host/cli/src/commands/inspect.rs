//! `host inspect`: facts about a model.

use std::path::{Component, Path};

use host_experiment::{EngineAnswer, Inspection, Meaning, Settings, ask_engines, units};
use host_onnx::Value;
use host_record::{AxesUse, Cell, LegalValues, PortAxis, Table};
use serde_json::json;

use crate::arguments::InspectArguments;
use crate::commands::run::listen;
use crate::exit::Exit;
use crate::failure::Result;
use crate::notices::Console;
use crate::printer::Printer;
use crate::table;

pub(crate) fn inspect(
    arguments: &InspectArguments,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let inspection = host_experiment::inspect(&arguments.model)?;
    let engines = match arguments.engines {
        true => {
            listen(settings, printer)?;
            let mut console = Console::new(printer);
            Some(ask_engines(&arguments.model, settings, &mut console)?)
        }
        false => None,
    };
    let document = || {
        let mut document = json!({
            "model": inspection.model,
            "bytes": inspection.bytes,
            "parameters": inspection.parameters,
            "facts": inspection.facts,
            "problem": inspection.problem,
            "block": inspection.block,
        });
        document["batch"] = json!(inspection.batch);
        document["cost"] = json!(inspection.cost);
        if let Some(engines) = &engines {
            document["engines"] = json!(engines);
        }
        document
    };
    if !printer.machine(document, || values(&inspection)) {
        human(&inspection, engines.as_deref(), printer);
    }
    Ok(if inspection.problem.is_none() { Exit::Success } else { Exit::Failure })
}

fn human(inspection: &Inspection, engines: Option<&[EngineAnswer]>, printer: &Printer) {
    let Inspection { facts, block, .. } = inspection;
    let opsets: Vec<_> =
        facts.opsets.iter().map(|(domain, version)| format!("{domain} {version}")).collect();
    let rows = [
        ("model", inspection.model.clone()),
        ("size", units::bytes(inspection.bytes as f64)),
        ("parameters", units::whole(inspection.parameters)),
        ("operator sets", opsets.join(", ")),
        ("written by", facts.producer.clone()),
        ("a pass", pass(inspection)),
        ("problem", inspection.problem.clone().unwrap_or_default()),
    ];
    let rows = rows.into_iter().filter(|(_, value)| !value.is_empty());
    let lines: Vec<_> = rows.map(|(name, value)| format!("{name:14} {value}")).collect();
    printer.show(lines.join("\n"));
    let show = |table: Table| {
        printer.show("\n");
        printer.show(printer.headed(&table::human(&table, printer.width())));
    };
    show(table::without_empty_columns(values(inspection)));
    let operators = facts.operators.iter();
    let operators = operators.map(|(name, count)| vec![Cell::Text(name.clone()), whole(*count)]);
    show(of(&["operator", "uses"], operators.collect()));
    if !facts.weights.is_empty() {
        let rows = facts.weights.iter().map(|(element, weights)| {
            let bytes = Cell::Text(units::bytes(weights.bytes as f64));
            vec![
                Cell::Text(element.clone()),
                whole(weights.tensors),
                whole(weights.elements),
                bytes,
            ]
        });
        show(of(&["weights", "tensors", "elements", "size"], rows.collect()));
    }
    let is_refused = inspection.problem.is_some();
    if !facts.files.is_empty() {
        let rows = facts.files.iter().map(|file| {
            let found = match file.found {
                Some(found) if found >= file.needed => units::bytes(found as f64),
                Some(found) => format!("too short: {found} bytes of {}", file.needed),
                None if is_refused && is_outside(&file.location) => {
                    "outside of the model's folder".into()
                }
                None if is_refused => {
                    format!("missing: {} are needed", units::bytes(file.needed as f64))
                }
                // The files of an architecture are made when they are needed.
                None => units::bytes(file.needed as f64),
            };
            vec![Cell::Text(file.location.clone()), Cell::Text(found)]
        });
        show(of(&["weights in", "size"], rows.collect()));
    }
    if let Some(engines) = engines {
        let rows = engines.iter().map(|answer| {
            let refusal = answer.refusal.clone().unwrap_or_else(|| "runs it".into());
            vec![
                Cell::Text(answer.backend.clone()),
                Cell::Text(answer.device.clone()),
                Cell::Text(refusal),
            ]
        });
        show(of(&["backend", "device", "answer"], rows.collect()));
    }
    printer.show("\n");
    printer.show(block.trim_end());
}

/// Returns whether a name leads out of the folder that it is relative to.
fn is_outside(location: &str) -> bool {
    let is_inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    !Path::new(location).components().all(is_inside)
}

/// Returns the cost of a pass, or why it is not known.
fn pass(inspection: &Inspection) -> String {
    let (cost, batch) = (&inspection.cost, inspection.batch);
    match (&cost.flops, &cost.least_bytes) {
        (Ok(flops), Ok(bytes)) => format!(
            "{} operations and at least {} at batch {batch}: {} for each byte",
            units::whole(*flops),
            units::bytes(*bytes as f64),
            units::number(*flops as f64 / (*bytes).max(1) as f64),
        ),
        (Ok(flops), Err(gap)) => {
            format!("{} operations at batch {batch}; bytes: {gap}", units::whole(*flops))
        }
        (Err(gap), _) => gap.to_string(),
    }
}

/// Returns the inputs and outputs, one in each row.
fn values(inspection: &Inspection) -> Table {
    let facts = &inspection.facts;
    let row = |kind: &str, value: &Value| {
        let axes = value.axes.as_deref();
        let shape = axes.map_or(Cell::Null, |axes| Cell::Text(shape(axes)));
        // Axes of outputs follow from those of inputs.
        let meaning = match (kind, axes) {
            ("input", Some(_)) => Cell::Text(meaning(value, &inspection.axes)),
            _ => Cell::Null,
        };
        vec![
            Cell::Text(kind.to_owned()),
            Cell::Text(value.name.clone()),
            value.element.clone().map_or(Cell::Null, Cell::Text),
            shape,
            meaning,
            facts.legal.get(&value.name).map_or(Cell::Null, |values| Cell::Text(legal(values))),
        ]
    };
    let inputs = facts.inputs.iter().map(|value| row("input", value));
    let outputs = facts.outputs.iter().map(|value| row("output", value));
    of(&["kind", "name", "type", "shape", "axes", "legal values"], inputs.chain(outputs).collect())
}

fn legal(values: &LegalValues) -> String {
    match values {
        LegalValues::Index { entries, operator } => {
            format!("0 to {} ({operator})", entries.saturating_sub(1))
        }
        LegalValues::Below { entries, operator } => {
            format!("from 0, of which {entries} differ ({operator})")
        }
        LegalValues::Computed { entries, operator } => {
            format!("unknown: {operator} computes with it before a table of {entries} entries")
        }
        LegalValues::Ones => "1".into(),
        LegalValues::Positions { .. } => "0, 1, 2, …".into(),
        LegalValues::Steers => "decides what is computed".into(),
    }
}

fn shape(axes: &[PortAxis]) -> String {
    let axis = |axis: &PortAxis| match axis {
        PortAxis::Fixed(size) => size.to_string(),
        PortAxis::Dynamic(name) if name.is_empty() => "?".into(),
        PortAxis::Dynamic(name) => name.clone(),
    };
    axes.iter().map(axis).collect::<Vec<_>>().join(" × ")
}

/// Returns the parts of the axes that are not fixed.
fn meaning(input: &Value, axes: &AxesUse) -> String {
    let parts = Meaning::of(input, axes).into_iter().enumerate().filter_map(|(index, meaning)| {
        let meaning = match meaning {
            Meaning::Batch => "batch",
            Meaning::Sequence => "sequence",
            Meaning::Open => "open",
            Meaning::Fixed => return None,
        };
        Some(format!("{index} {meaning}"))
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn of(columns: &[&str], rows: Vec<Vec<Cell>>) -> Table {
    Table { columns: columns.iter().map(|column| (*column).to_owned()).collect(), rows }
}

fn whole(number: u64) -> Cell {
    Cell::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}
