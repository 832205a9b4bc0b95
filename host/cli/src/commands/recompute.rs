/*!
`host results recompute`: metrics of an old run from its recorded samples, with the plugins found now.

What is recomputed are the metrics of the run, with the options that it gave them, or those that are
named, with the run's options where it had them. Nothing is measured, and nothing that was said is
taken away: see the module `metrics`.
*/

use std::collections::BTreeMap;
use std::path::Path;

use host_manifest::{Mentions, PluginMention};
use host_record::{Cell, MetricValue, Table};
use host_store::{Flaw, ResultRecord, RunFolder};
use semver::VersionReq;
use serde_json::{Map, Value, json};

use crate::commands::results::warn_of_flaws;
use crate::commands::run::{index, record_result, results_of};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::guests::{Chosen, Findings};
use crate::metrics::{self, Computed, Extent, State};
use crate::printer::Printer;
use crate::settings::Settings;
use crate::{table, units};

/// Values that are listed for people; machines get all.
const LISTED: usize = 40;

pub(crate) fn recompute(
    path: &Path,
    named: &[String],
    dry_run: bool,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    // What reads only takes no lock.
    let mut writer = match dry_run {
        true => None,
        false => Some(RunFolder::open_to_amend(path)?),
    };
    let folder = match &writer {
        Some(writer) => writer.folder().clone(),
        None => RunFolder::open(path)?,
    };
    let chosen = choose(&folder, named, settings, printer)?;
    let lost = folder.lost_files()?;
    let mut all: Vec<Computed> = Vec::new();
    let mut exit = Exit::Success;
    let mut said = String::new();
    let mut told = |computed: Computed| {
        let failure = computed.failure();
        let kept = match &computed.state {
            State::Kept(reason) if failure.is_none() => Some(format!(
                "metric `{}` is not computed anew for {}: {reason}",
                computed.now.plugin.id, computed.key
            )),
            _ => None,
        };
        if failure.is_some() {
            exit = Exit::Plugin;
        } else if kept.is_some() && exit == Exit::Success {
            exit = Exit::Results;
        }
        let stays = matches!(computed.state, State::Kept(_));
        if let Some(words) = failure.or(kept).filter(|words| *words != said) {
            printer.warning(&words, stays.then_some("what was computed before stays"));
            said = words;
        }
        if computed.is_news()
            && let Some(writer) = &mut writer
            && !record_result(writer, &computed.now, printer)?
        {
            exit = Exit::Plugin;
        }
        all.push(computed);
        Ok(())
    };
    metrics::compute(&chosen.sandbox, &chosen.metrics, &folder, &lost, Extent::All, &mut told)?;
    if let Some(writer) = &writer {
        writer.sync_results()?;
    }
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
    if writer.is_some() && all.iter().any(Computed::is_news) {
        index(&results_of(path, settings), &folder, printer);
        if !folder.recommendations()?.is_empty() || folder.path().join("reports").exists() {
            printer.status(
                "Unchanged",
                "reports and advice of the run, which are of what was computed before",
            );
        }
    }
    let flaws: Vec<Flaw> = lost.into_iter().map(|lost| Flaw::LostFile(Box::new(lost))).collect();
    warn_of_flaws(&flaws, printer);
    Ok(exit)
}

/// The plugins with their options: all of the run's metrics, or those that are named.
fn choose(
    folder: &RunFolder,
    named: &[String],
    settings: &Settings,
    printer: &Printer,
) -> Result<Chosen> {
    let manifest = host_manifest::read(&folder.manifest_text()?).mentions;
    let mut metrics: Vec<PluginMention> = Vec::new();
    let mut add = |id: &str, options: &Value| {
        let options = if options.is_null() { json!({}) } else { options.clone() };
        let known = |one: &PluginMention| one.id == id && one.options.as_ref() == Some(&options);
        if !metrics.iter().any(known) {
            metrics.push(mention(id, options));
        }
    };
    for metric in &manifest.metrics {
        if let Some(options) = &metric.options {
            add(&metric.id, options);
        }
    }
    // Those that were asked for later, by this command.
    for result in folder.results()? {
        add(&result.plugin.id, &result.options);
    }
    if !named.is_empty() {
        metrics.retain(|metric| named.contains(&metric.id));
        for id in named {
            if !metrics.iter().any(|metric| metric.id == *id) {
                metrics.push(mention(id, Value::Object(Map::new())));
            }
        }
    }
    let base = folder.header().manifest_path.parent().unwrap_or(Path::new("/"));
    let folders: Vec<_> = manifest.plugin_folders.iter().map(|it| base.join(it)).collect();
    let registry = settings.registry(&folders);
    let mentions = Mentions { metrics, ..Mentions::default() };
    let (chosen, Findings { wrong, missing, others }) = Chosen::all(&mentions, &registry, printer)?;
    let placed = wrong.into_iter().chain(missing);
    let placed = placed.map(|error| Failure::new(Exit::Plugin, error.message));
    match Failure::all(others.into_iter().chain(placed)) {
        Some(failure) => Err(failure),
        None => Ok(chosen),
    }
}

fn mention(id: &str, options: Value) -> PluginMention {
    PluginMention {
        id: id.to_owned(),
        place: None,
        // The plugins of now, whatever the manifest asked for then.
        version: VersionReq::STAR,
        options: Some(options),
        option_places: BTreeMap::new(),
        limits: Vec::new(),
    }
}

/// How one value was and is.
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
    let said = |record: &ResultRecord| {
        json!({
            "plugin": record.plugin,
            "values": record.values,
            "error": record.error,
        })
    };
    let reason = match &computed.state {
        State::Kept(reason) => Some(reason),
        _ => None,
    };
    json!({
        "case": computed.now.case_id,
        "key": computed.key,
        "options": computed.now.options,
        "state": computed.state.name(),
        "reason": reason,
        "before": computed.before.as_ref().map(said),
        "now": said(&computed.now),
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

/// Says for each plugin what became of its results.
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
