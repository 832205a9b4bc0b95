//! `host plan`: the cases and gaps of a run.

use std::collections::BTreeMap;

use host_experiment::{Planned, Settings};
use host_plan::{Plan, PlannedCase};
use host_record::{AxesUse, Axis, Cell, Table};
use serde_json::{Value, json};

use crate::arguments::{Format, ManifestArgument};
use crate::commands::manifest_of;
use crate::exit::Exit;
use crate::failure::Result;
use crate::notices::{Console, summarise};
use crate::printer::Printer;
use crate::{notes, table, visible};

/// Cases that are shown at most to a person, and are written at a time to a machine.
const PAGE: usize = 100;
/// Lines of a gap's reason that a person is shown.
const REASON: usize = 3;

pub(crate) fn plan(
    arguments: &ManifestArgument,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let draft = manifest_of(&arguments.manifest)?;
    let checked = draft.check(settings, &mut Console::new(printer))?;
    let Planned { manifest, plan } = checked.plan(settings)?;
    match printer.format() {
        Format::Human => human(&plan, printer),
        Format::Json => json(&manifest.experiment.name, &plan, printer),
        // A page at a time, so that a plan of a million cases takes no memory.
        Format::Jsonl => pages(&plan, |page, _| {
            let lines: String =
                page.iter().map(|item| format!("{}\n", document_of(item))).collect();
            printer.data(visible::json(&lines));
        }),
        Format::Csv => pages(&plan, |page, first| {
            let text = table::csv(&rows(page.iter()));
            let body = text.split_once('\n').map_or("", |(_, body)| body);
            printer.data(if first { &text } else { body });
        }),
        // The first page decides which columns are numbers.
        Format::Markdown => pages(&plan, |page, first| {
            let text = table::markdown(&rows(page.iter()));
            let body = text.splitn(3, '\n').nth(2).unwrap_or_default();
            printer.data(if first { &text } else { body });
        }),
    }
    summarise(&plan, printer);
    Ok(Exit::Success)
}

/// Writes one JSON document, and holds at most a page of items at a time.
fn json(experiment: &str, plan: &Plan, printer: &Printer) {
    let count = plan.count();
    let estimate = plan.estimate();
    let document = json!({
        "experiment": experiment,
        "axes": plan.axes().collect::<BTreeMap<_, _>>(),
        "cases": count.cases,
        "gaps": count.gaps,
        "estimate": {
            "at-least-ns": u64::try_from(estimate.at_least.as_nanos()).ok(),
            "basis": estimate.basis,
        },
        "items": [],
    });
    let text = format!("{document:#}");
    // The items come last, by their name and by their place here.
    printer.data(visible::json(text.trim_end_matches("]\n}")));
    let last = count.total().saturating_sub(1);
    pages(plan, |page, _| {
        let mut lines = String::new();
        for item in page {
            for line in format!("{:#}", document_of(item)).lines() {
                lines.push_str("    ");
                lines.push_str(line);
                lines.push('\n');
            }
            if item.index() < last {
                lines.insert(lines.len() - 1, ',');
            }
        }
        printer.data(visible::json(&lines));
    });
    printer.data("  ]\n}");
}

fn pages(plan: &Plan, mut write: impl FnMut(&[PlannedCase], bool)) {
    let mut items = plan.items();
    let mut first = true;
    loop {
        let page: Vec<_> = items.by_ref().take(PAGE).collect();
        if page.is_empty() && !first {
            return;
        }
        write(&page, first);
        first = false;
    }
}

fn document_of(item: &PlannedCase) -> Value {
    json!({
        "index": item.index(),
        "id": item.id(),
        "key": item.key(),
        "gap": item.gap(),
        "reason": item.gap().map(ToString::to_string),
    })
}

fn rows<'a>(items: impl Iterator<Item = &'a PlannedCase>) -> Table {
    let mut columns = vec!["index", "case_id"];
    columns.extend(Axis::ALL.iter().map(|axis| axis.column()));
    columns.push("gap");
    let row = |item: &PlannedCase| {
        let index = Cell::Integer(i64::try_from(item.index()).unwrap_or(i64::MAX));
        let mut row = vec![index, Cell::Text(item.id().into())];
        row.extend(Axis::ALL.iter().map(|axis| Cell::from(axis.of(item.key()))));
        row.push(item.gap().map_or(Cell::Null, |gap| Cell::Text(gap.to_string())));
        row
    };
    Table { columns: columns.into_iter().map(Into::into).collect(), rows: items.map(row).collect() }
}

/// Replaces the reasons of gaps by numbers. Returns the reasons in the order of the numbers, each once.
fn numbered(mut table: Table) -> (Table, Vec<String>) {
    let mut reasons: Vec<String> = Vec::new();
    for cell in table.rows.iter_mut().filter_map(|row| row.last_mut()) {
        let Cell::Text(reason) = &*cell else { continue };
        let known = reasons.iter().position(|known| known == reason).unwrap_or_else(|| {
            reasons.push(reason.clone());
            reasons.len() - 1
        });
        *cell = Cell::Integer(i64::try_from(known + 1).unwrap_or(i64::MAX));
    }
    (table, reasons)
}

fn human(plan: &Plan, printer: &Printer) {
    let items: Vec<_> = plan.items().take(PAGE).collect();
    let (table, reasons) = numbered(rows(items.iter()));
    let mut shown = table::without_empty_columns(table);
    // People do not count from 0, and inference goes without saying unless there is more.
    table::remove_column(&mut shown, "index");
    if items.iter().all(|item| Axis::Mode.goes_without_saying(item.key())) {
        table::remove_column(&mut shown, Axis::Mode.column());
    }
    for name in &mut shown.columns {
        *name = name.replace('_', " ");
    }
    let width = printer.width();
    printer.show(printer.headed(&table::human(&shown, width)));
    let palette = printer.palette();
    for (index, reason) in reasons.iter().enumerate() {
        let number = format!("gap {}", index + 1);
        let indent = " ".repeat(number.len() + 2);
        let room = width.saturating_sub(indent.len());
        let lines = notes::in_lines(reason, room, "", REASON).lines;
        let lines = lines.join(&format!("\n{indent}"));
        printer.show(format_args!("{}  {lines}", palette.warning(&number)));
    }
    for (model, axes) in plan.axes() {
        let AxesUse { batch, sequence } = axes;
        let said = format!("batch: {batch}; sequence: {sequence}");
        let lines = notes::in_lines(&said, width.saturating_sub(model.len() + 2), "", REASON).lines;
        let indent = " ".repeat(model.len() + 2);
        printer.show(format_args!("{model}  {}", lines.join(&format!("\n{indent}"))));
    }
    let total = plan.count().total();
    if total > PAGE as u64 {
        printer
            .show(format_args!("… and {} more; `--format jsonl` writes all", total - PAGE as u64));
    }
}
