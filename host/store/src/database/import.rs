//! From a run folder to rows.

use std::collections::{BTreeMap, HashMap};

use duckdb::types::{TimeUnit, ToSql, Value};
use duckdb::{Appender, Connection, params};
use host_record::{
    CaseRecord, Environment, Lateness, Outcome, Pace, PluginIdentity, Rate, RuntimeIdentity,
    Verdict,
};

use crate::error::StoreError;
use crate::run::{
    Counts, Inspection, PluginRole, Program, ResultRecord, RunFolder, RunPlugin, without_samples,
};

const TABLES: [&str; 7] = [
    "benchmark_runs",
    "benchmark_cases",
    "benchmark_results",
    "benchmark_warnings",
    "benchmark_plugins",
    "hardware_info",
    "recommendations",
];

/// The kind of the warning about a file that a finished case no longer has.
const FILE_LOST: &str = "file-lost";

const RUN: &[&str] = &[
    "run_id",
    "experiment",
    "description",
    "started_at",
    "finished_at",
    "host_version",
    "git_commit",
    "git_dirty",
    "manifest_path",
    "manifest_sha256",
    "cases",
    "finished",
    "failed",
    "gaps",
    "record_version",
    "fingerprint",
];

const CASE: &[&str] = &[
    "run_id",
    "case_id",
    "case_index",
    "model",
    "backend",
    "device",
    "precision",
    "batch",
    "sequence_length",
    "mode",
    "scenario",
    "outcome",
    "reason_kind",
    "reason",
    "plugin_id",
    "plugin_version",
    "plugin_sha256",
    "model_sha256",
    "device_name",
    "threads",
    "seed",
    "queries",
    "started_at",
    "elapsed_ns",
    "open_ns",
    "load_ns",
    "prepare_ns",
    "first_run_ns",
    "peak_memory_bytes",
    "baseline_memory_bytes",
    "clock_source",
    "clock_resolution_ns",
    "clock_read_ns",
    "loop_ns",
    "used",
    "measure",
    "rate",
    "clients",
    "valid",
    "verdict",
    "asked_rate",
    "offered_rate",
    "achieved_rate",
    "unserved",
    "lateness_p50_ns",
    "lateness_p99_ns",
    "lateness_max_ns",
    "search",
    "warm_up",
    "processes",
    "conditions",
];

const RESULT: &[&str] = &[
    "run_id",
    "case_id",
    "metric",
    "value",
    "unit",
    "direction",
    "interval_low",
    "interval_high",
    "gap_kind",
    "gap_reason",
    "attributes",
    "plugin_id",
    "plugin_version",
    "plugin_sha256",
    "options",
];

const WARNING: &[&str] = &["run_id", "case_id", "kind", "evidence"];

const PLUGIN: &[&str] = &["run_id", "role", "plugin_id", "plugin_version", "plugin_sha256"];

const HARDWARE: &[&str] = &["run_id", "name", "value"];

const RECOMMENDATION: &[&str] = &[
    "run_id",
    "plugin_id",
    "plugin_version",
    "plugin_sha256",
    "options",
    "title",
    "explanation",
    "cases",
    "attributes",
];

/// Replaces what the database holds of a run with what its folder holds, in one transaction. The
/// inspection comes first, so that what is appended since then is seen as a change later.
/// Returns the number of cases and of results.
pub(crate) fn import(
    connection: &mut Connection,
    folder: &RunFolder,
    inspection: &Inspection,
) -> Result<(u64, u64), StoreError> {
    let failed = || StoreError::database("import the run");
    let transaction = connection.transaction().map_err(failed())?;
    let run_id = folder.run_id();
    delete(&transaction, run_id).map_err(failed())?;
    let Inspection { lost, fingerprint } = inspection;
    let without_samples = without_samples(lost);
    let appender =
        |table, columns| transaction.appender_with_columns(table, columns).map_err(failed());

    let mut hardware = facts(folder.header().environment.clone());
    let mut counts = Counts::default();
    {
        let mut cases = appender("benchmark_cases", CASE)?;
        let mut warnings = appender("benchmark_warnings", WARNING)?;
        let mut gap_indices: Option<HashMap<String, u64>> = None;
        for record in folder.records()? {
            let record = record?;
            counts.add(&record.outcome);
            let index = match &record.spec {
                Some(spec) => Some(spec.index),
                None => {
                    let indices = match &mut gap_indices {
                        Some(indices) => indices,
                        none => none.insert(planned_gaps(folder)?),
                    };
                    indices.get(&record.case_id).copied()
                }
            };
            let samples = match folder.samples(&record) {
                _ if without_samples.contains(&*record.case_id) => Vec::new(),
                // What a failed case left is evidence, and promised to nobody.
                Err(StoreError::Parquet { .. }) if !is_finished(&record) => Vec::new(),
                samples => samples?,
            };
            let measured = samples.iter().map(|samples| samples.len() as u64).sum();
            let queries = (!samples.is_empty()).then_some(measured);
            append_case(&mut cases, run_id, &record, index, queries).map_err(failed())?;
            if let Outcome::Finished(report) = &record.outcome {
                for warning in &report.warnings {
                    let kind = warning.kind.name();
                    warnings
                        .append_row(params![run_id, record.case_id, kind, warning.evidence])
                        .map_err(failed())?;
                }
            }
            if let Some(spec) = &record.spec {
                let device = serde_json::to_value(&spec.device).unwrap_or_default();
                let prefix = format!("device.{}.{}", spec.key.backend, spec.device.id);
                flatten(&prefix, &device, &mut hardware);
            }
        }
        for lost in lost {
            warnings
                .append_row(params![run_id, lost.case_id, FILE_LOST, lost.to_string()])
                .map_err(failed())?;
        }
        cases.flush().map_err(failed())?;
        warnings.flush().map_err(failed())?;
    }
    let results = folder.results()?;
    {
        let mut rows = appender("benchmark_plugins", PLUGIN)?;
        // What was computed later came from plugins that the run did not know.
        let mut plugins = folder.header().plugins.clone();
        for record in &results {
            let identity = record.plugin.clone();
            let later = RunPlugin { role: PluginRole::Metric, identity, runtime: None };
            if !plugins.contains(&later) {
                plugins.push(later);
            }
        }
        for RunPlugin { role, identity, runtime } in &plugins {
            let PluginIdentity { id, version, sha256 } = identity;
            rows.append_row(params![run_id, role.name(), id, version, sha256]).map_err(failed())?;
            if let Some(RuntimeIdentity { name, version, sha256, .. }) = runtime {
                let told = |text: &Option<String>| text.clone().unwrap_or("not told".into());
                let row = params![run_id, "runtime", name, told(version), told(sha256)];
                rows.append_row(row).map_err(failed())?;
            }
        }
        for Program { name, version, sha256 } in &folder.header().programs {
            rows.append_row(params![run_id, "program", name, version, sha256]).map_err(failed())?;
        }
        rows.flush().map_err(failed())?;
    }
    {
        let mut rows = appender("hardware_info", HARDWARE)?;
        for (name, value) in &hardware {
            rows.append_row(params![run_id, name, value]).map_err(failed())?;
        }
        rows.flush().map_err(failed())?;
    }
    let results =
        import_results(appender("benchmark_results", RESULT)?, folder.run_id(), &results)?;
    import_recommendations(appender("recommendations", RECOMMENDATION)?, folder)?;
    {
        let mut rows = appender("benchmark_runs", RUN)?;
        let header = folder.header();
        let finished = folder.finished()?;
        rows.append_row(params![
            run_id,
            header.experiment,
            header.description,
            timestamp(&header.started_at),
            finished.map_or(Value::Null, |finished| timestamp(&finished.finished_at)),
            header.host_version,
            header.environment.git_commit,
            header.environment.git_dirty,
            header.manifest_path.to_string_lossy(),
            header.manifest_sha256,
            counts.cases(),
            counts.finished,
            counts.failed,
            counts.gaps,
            header.record_version,
            fingerprint,
        ])
        .and_then(|()| rows.flush())
        .map_err(failed())?;
    }
    transaction.commit().map_err(failed())?;
    Ok((counts.cases(), results))
}

/// Removes all that a database holds of some runs.
pub(super) fn remove(connection: &mut Connection, run_ids: &[String]) -> Result<(), StoreError> {
    let failed = || StoreError::database("drop runs that are gone");
    let transaction = connection.transaction().map_err(failed())?;
    for run_id in run_ids {
        delete(&transaction, run_id).map_err(failed())?;
    }
    transaction.commit().map_err(failed())
}

fn delete(connection: &Connection, run_id: &str) -> duckdb::Result<()> {
    for table in TABLES {
        connection.execute(&format!("DELETE FROM {table} WHERE run_id = ?"), [run_id])?;
    }
    Ok(())
}

fn is_finished(record: &CaseRecord) -> bool {
    matches!(record.outcome, Outcome::Finished(_))
}

/// Places in the plan of the cases that it knew to be gaps; their records have no specification.
fn planned_gaps(folder: &RunFolder) -> Result<HashMap<String, u64>, StoreError> {
    let mut gaps = HashMap::new();
    for line in folder.plan()? {
        let line = line?;
        if line.gap.is_some() {
            gaps.insert(line.case_id, line.index);
        }
    }
    Ok(gaps)
}

fn append_case(
    cases: &mut Appender<'_>,
    run_id: &str,
    record: &CaseRecord,
    index: Option<u64>,
    queries: Option<u64>,
) -> duckdb::Result<()> {
    let CaseRecord { key, spec, .. } = record;
    let (mut reason_kind, mut reason, mut report) = (None, None, None);
    let outcome = match &record.outcome {
        Outcome::Finished(finished) => {
            report = Some(finished);
            "finished"
        }
        Outcome::Failed { failure } => {
            let json = serde_json::to_value(failure).unwrap_or_default();
            reason_kind = json.get("kind").and_then(|kind| kind.as_str()).map(str::to_owned);
            reason = Some(failure.to_string());
            "failed"
        }
        Outcome::Gap { gap } => {
            reason_kind = Some(gap.kind.name().to_owned());
            reason = Some(gap.reason.clone());
            "gap"
        }
    };
    let spec = spec.as_ref();
    let timings = report.map(|report| &report.timings);
    let clock = report.map(|report| &report.clock);
    let verdict = report.and_then(|report| report.verdict.as_ref());
    let pace = report.and_then(|report| report.pace.as_ref());
    // Of several processes: the mean of rates, the sum of what was never begun, the worst lateness.
    let paces: Vec<_> = report
        .map(|report| &**report)
        .into_iter()
        .chain(&record.further)
        .filter_map(|report| report.pace.as_ref())
        .collect();
    let mean = |rate: &dyn Fn(&Pace) -> Option<f64>| {
        let rates: Option<Vec<f64>> = paces.iter().map(|pace| rate(pace)).collect();
        rates.filter(|rates| !rates.is_empty()).map(|it| it.iter().sum::<f64>() / it.len() as f64)
    };
    let worst = |time: &dyn Fn(&Lateness) -> u64| {
        paces.iter().filter_map(|pace| pace.lateness.as_ref()).map(time).max()
    };
    let values: &[&dyn ToSql] = &[
        &run_id,
        &record.case_id,
        &index,
        &key.model,
        &key.backend,
        &key.device,
        &key.precision.name(),
        &key.batch,
        &key.sequence_length,
        &key.mode.name(),
        &key.scenario.name(),
        &outcome,
        &reason_kind,
        &reason,
        &spec.map(|spec| &spec.plugin.id),
        &spec.map(|spec| &spec.plugin.version),
        &spec.map(|spec| &spec.plugin.sha256),
        &spec.map(|spec| &spec.model.sha256),
        &spec.map(|spec| &spec.device.name),
        &spec.and_then(|spec| spec.threads),
        &spec.map(|spec| spec.seed),
        &queries,
        &timestamp(&record.started_at),
        &record.elapsed_ns,
        &timings.and_then(|timings| timings.open_ns),
        &timings.and_then(|timings| timings.load_ns),
        &timings.and_then(|timings| timings.prepare_ns),
        &timings.and_then(|timings| timings.first_run_ns),
        &report.and_then(|report| report.peak_memory_bytes),
        &report.and_then(|report| report.baseline_memory_bytes),
        &clock.map(|clock| &clock.source),
        &clock.map(|clock| clock.resolution_ns),
        &clock.map(|clock| clock.read_ns),
        &clock.map(|clock| clock.loop_ns),
        &report.map(|report| json_text(&report.used)),
        &spec.map(|spec| json_text(&spec.measure)),
        &key.rate.map(Rate::get),
        &key.clients,
        &verdict.map(Verdict::is_valid),
        &verdict.map(json_text),
        &mean(&|pace| Some(pace.asked.get())),
        &mean(&|pace| pace.offered_per_second),
        &mean(&|pace| pace.achieved_per_second),
        &pace.map(|_| paces.iter().map(|pace| pace.unserved).sum::<u64>()),
        &worst(&|late| late.median_ns),
        &worst(&|late| late.p99_ns),
        &worst(&|late| late.maximum_ns),
        &report.and_then(|report| report.search.as_ref()).map(json_text),
        &report.and_then(|report| report.warm_up.as_ref()).map(json_text),
        &record.processes(),
        &report.map(|report| json_text(&report.conditions)),
    ];
    cases.append_row(values)
}

fn import_results(
    mut rows: Appender<'_>,
    run_id: &str,
    results: &[ResultRecord],
) -> Result<u64, StoreError> {
    let failed = || StoreError::database("import the results");
    let mut count = 0;
    for record in results {
        let plugin = &record.plugin;
        let options = record.options.to_string();
        for value in &record.values {
            let gap = value.value.as_ref().err();
            rows.append_row(params![
                run_id,
                record.case_id,
                value.metric,
                value.value.as_ref().ok(),
                value.unit,
                value.direction.name(),
                value.interval.map(|(low, _)| low),
                value.interval.map(|(_, high)| high),
                gap.map(|gap| gap.kind.name()),
                gap.map(|gap| &gap.reason),
                json_text(&value.attributes),
                plugin.id,
                plugin.version,
                plugin.sha256,
                options,
            ])
            .map_err(failed())?;
            count += 1;
        }
        if let Some(error) = &record.error {
            let none = None::<&str>;
            rows.append_row(params![
                run_id,
                record.case_id,
                plugin.id,
                None::<f64>,
                none,
                none,
                None::<f64>,
                None::<f64>,
                "plugin-failed",
                error,
                "{}",
                plugin.id,
                plugin.version,
                plugin.sha256,
                options,
            ])
            .map_err(failed())?;
            count += 1;
        }
    }
    rows.flush().map_err(failed())?;
    Ok(count)
}

fn import_recommendations(mut rows: Appender<'_>, folder: &RunFolder) -> Result<(), StoreError> {
    let failed = || StoreError::database("import the recommendations");
    for record in folder.recommendations()? {
        for advice in &record.recommendations {
            rows.append_row(params![
                folder.run_id(),
                record.plugin.id,
                record.plugin.version,
                record.plugin.sha256,
                record.options.to_string(),
                advice.title,
                advice.explanation,
                json_text(&advice.cases),
                json_text(&advice.attributes),
            ])
            .map_err(failed())?;
        }
    }
    rows.flush().map_err(failed())
}

/// What is known of the machine, a name and a value each; no value where it does not say.
fn facts(environment: Environment) -> BTreeMap<String, Option<String>> {
    let mut facts = BTreeMap::new();
    let mut json = serde_json::to_value(environment).unwrap_or_default();
    if let Some(object) = json.as_object_mut() {
        // The repository's, and not the machine's.
        object.remove("git-commit");
        object.remove("git-dirty");
    }
    flatten("", &json, &mut facts);
    facts
}

fn flatten(prefix: &str, value: &serde_json::Value, into: &mut BTreeMap<String, Option<String>>) {
    use serde_json::Value as Json;
    let text = match value {
        Json::Object(fields) => {
            for (name, value) in fields {
                let name =
                    if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                flatten(&name, value, into);
            }
            return;
        }
        Json::Null => None,
        Json::String(text) => Some(text.clone()),
        Json::Array(values) if values.iter().all(Json::is_string) => {
            let words: Vec<_> = values.iter().filter_map(Json::as_str).collect();
            Some(words.join(", "))
        }
        other => Some(other.to_string()),
    };
    into.insert(prefix.to_owned(), text);
}

fn json_text(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".into())
}

/// An RFC 3339 time for a TIMESTAMP column, which is in UTC; nothing where the text is no time.
fn timestamp(text: &str) -> Value {
    match text.parse::<jiff::Timestamp>() {
        Ok(time) => Value::Timestamp(TimeUnit::Microsecond, time.as_microsecond()),
        Err(_) => Value::Null,
    }
}
