//! `host results recompute`: recomputes metrics of an old run.

use std::collections::BTreeMap;
use std::path::Path;

use host_experiment::{Computed, RecomputeOptions, Recomputed, Settings, State};
use host_record::{Cell, MetricValue, Table};
use host_store::{Flaw, ResultRecord};
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::failure::Result;
use crate::notices::{Console, warn_of_flaws};
use crate::printer::Printer;
use crate::table;
use host_experiment::units;

/// Values that are listed for people; machines get all.
const LISTED: usize = 40;

pub(crate) fn recompute(
    path: &Path,
    options: &RecomputeOptions,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    let mut console = Console::new(printer);
    let Recomputed { folder, all, lost, has_failed, has_kept, has_older } =
        host_experiment::recompute(path, options, settings, &mut console)?;
    let dry_run = options.dry_run;
    let document = || {
        json!({
            "run": folder.run_id(),
            "dry-run": dry_run,
            "results": all.iter().map(document).collect::<Vec<_>>(),
        })
    };
    if !printer.machine(document, || rows(&all)) {
        show(&all, printer);
    }
    say(&all, dry_run, printer);
    if has_older {
        printer.status(
            "Unchanged",
            "reports and advice of the run, which are of what was computed before",
        );
    }
    let flaws: Vec<Flaw> = lost.into_iter().map(|lost| Flaw::LostFile(Box::new(lost))).collect();
    warn_of_flaws(&flaws, printer);
    Ok(match (has_failed, has_kept) {
        (true, _) => Exit::Plugin,
        (false, true) => Exit::Results,
        (false, false) => Exit::Success,
    })
}

/// Value of a metric before and after.
struct Difference<'a> {
    metric: &'a str,
    before: Option<&'a MetricValue>,
    now: Option<&'a MetricValue>,
}

fn differences(computed: &Computed) -> Vec<Difference<'_>> {
    let before = computed.before.as_ref().map_or(&[][..], |before| &before.values);
    let mut all: Vec<Difference<'_>> = Vec::new();
    for now in &computed.now.values {
        let before = before.iter().find(|one| one.metric == now.metric);
        all.push(Difference { metric: &now.metric, before, now: Some(now) });
    }
    for before in before {
        if !computed.now.values.iter().any(|one| one.metric == before.metric) {
            all.push(Difference { metric: &before.metric, before: Some(before), now: None });
        }
    }
    all
}

fn document(computed: &Computed) -> Value {
    let shown = |record: &ResultRecord| {
        json!({
            "plugin": record.plugin,
            "values": record.values,
            "error": record.error,
        })
    };
    let reason = match &computed.state {
        State::Kept(reason) => Some(reason.to_string()),
        _ => None,
    };
    json!({
        "case": computed.now.case_id,
        "key": computed.key,
        "options": computed.now.options,
        "state": computed.state.name(),
        "reason": reason,
        "before": computed.before.as_ref().map(shown),
        "now": shown(&computed.now),
    })
}

fn rows(all: &[Computed]) -> Table {
    let columns =
        ["case_id", "metric", "state", "before", "now", "unit", "version_before", "version_now"];
    let value = |one: Option<&MetricValue>| match one.map(|one| &one.value) {
        Some(Ok(value)) => Cell::Real(*value),
        _ => Cell::Null,
    };
    let mut rows = Vec::new();
    for computed in all {
        let before = computed.before.as_ref().map(|before| before.plugin.version.clone());
        for Difference { metric, before: old, now } in differences(computed) {
            rows.push(vec![
                Cell::Text(computed.now.case_id.clone()),
                Cell::Text(metric.to_owned()),
                Cell::Text(computed.state.name().into()),
                value(old),
                value(now),
                now.or(old).map_or(Cell::Null, |one| Cell::Text(one.unit.clone())),
                before.clone().map_or(Cell::Null, Cell::Text),
                Cell::Text(computed.now.plugin.version.clone()),
            ]);
        }
    }
    Table { columns: columns.map(str::to_owned).into(), rows }
}

/// Lists the values that differ.
fn show(all: &[Computed], printer: &Printer) {
    let value = |name: &str, one: Option<&MetricValue>| {
        Cell::Text(match one.map(|one| (&one.value, &one.unit)) {
            Some((Ok(value), unit)) => units::metric(name, *value, unit),
            Some((Err(_), _)) => "gap".into(),
            None => String::new(),
        })
    };
    let mut rows = Vec::new();
    for computed in all.iter().filter(|computed| computed.is_news()) {
        for Difference { metric, before, now } in differences(computed) {
            if before.map(|one| &one.value) != now.map(|one| &one.value) {
                let key = Cell::Text(computed.key.to_string());
                let name = Cell::Text(metric.to_owned());
                rows.push(vec![key, name, value(metric, before), value(metric, now)]);
            }
        }
    }
    let more = rows.len().saturating_sub(LISTED);
    rows.truncate(LISTED);
    if rows.is_empty() {
        return;
    }
    let columns = ["case", "metric", "before", "now"].map(str::to_owned).into();
    printer.show(printer.headed(&table::human(&Table { columns, rows }, printer.width())));
    if more > 0 {
        printer.show(format_args!("and {more} more values, in --format json"));
    }
}

/// Prints the results of each plugin.
fn say(all: &[Computed], dry_run: bool, printer: &Printer) {
    if all.is_empty() {
        printer.status("Empty", "no case of the run has finished, so nothing is computed");
    }
    let mut counts: BTreeMap<(&str, &str), BTreeMap<&'static str, u64>> = BTreeMap::new();
    for computed in all {
        let plugin = (&*computed.now.plugin.id, &*computed.now.plugin.version);
        *counts.entry(plugin).or_default().entry(computed.state.name()).or_default() += 1;
    }
    let verb = if dry_run { "Dry run" } else { "Recomputed" };
    for ((id, version), states) in counts {
        let states: Vec<_> =
            states.iter().map(|(state, count)| format!("{count} {state}")).collect();
        printer.status(verb, format_args!("{id} {version}: {}", states.join(", ")));
    }
}
