//! Import of a run folder into rows.

use std::collections::HashMap;

use duckdb::types::Value;
use duckdb::{Appender, Connection, params};
use host_record::{CaseRecord, Outcome, PluginIdentity, RuntimeIdentity, Warning};

use super::cases::{self, CaseRow, timestamp};
use crate::error::StoreError;
use crate::facts::{device_facts, machine_facts};
use crate::run::{
    Counts, Inspection, PluginRole, Program, ResultRecord, RunFolder, RunPlugin, without_samples,
};

const TABLES: [&str; 8] = [
    "benchmark_runs",
    "benchmark_cases",
    "benchmark_results",
    "benchmark_warnings",
    "benchmark_plugins",
    "hardware_info",
    "recommendations",
    "predictions",
];

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
    "gap_data",
    "attributes",
    "plugin_id",
    "plugin_version",
    "plugin_sha256",
    "options",
];

const WARNING: &[&str] = &["run_id", "case_id", "process", "kind", "data"];

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

const PREDICTION: &[&str] = &[
    "run_id",
    "plugin_id",
    "plugin_version",
    "plugin_sha256",
    "options",
    "coordinates",
    "metric",
    "value",
    "interval_low",
    "interval_high",
    "confidence",
    "unit",
    "cases",
    "attributes",
];

/// Replaces a run's rows in the database with the contents of its folder, in one transaction. The inspection comes
/// first, so that the next import detects later additions as a change. Returns the number of cases and of results.
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
    let appender = |table: &str, columns: &[&str]| {
        transaction.appender_with_columns(table, columns).map_err(failed())
    };

    let mut hardware = machine_facts(folder.header().environment.clone());
    let mut counts = Counts::default();
    {
        let mut rows = {
            let names = cases::names();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            appender(cases::TABLE, &names)?
        };
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
                // A failed case need not have files.
                Err(StoreError::Parquet { .. }) if !is_finished(&record) => Vec::new(),
                samples => samples?,
            };
            let measured = samples.iter().map(|samples| samples.len() as u64).sum();
            let queries = (!samples.is_empty()).then_some(measured);
            let row = CaseRow { run_id, record: &record, index, queries };
            cases::append(&mut rows, &row).map_err(failed())?;
            if let Outcome::Finished(report) = &record.outcome {
                for warning in &report.warnings {
                    append_warning(&mut warnings, run_id, &record.case_id, warning)
                        .map_err(failed())?;
                }
            }
            if let Some(spec) = &record.spec {
                device_facts(&spec.key.backend, &spec.device, &mut hardware);
            }
        }
        for lost in lost {
            append_warning(&mut warnings, run_id, &lost.case_id, &lost.warning())
                .map_err(failed())?;
        }
        rows.flush().map_err(failed())?;
        warnings.flush().map_err(failed())?;
    }
    let results = folder.results()?;
    {
        let mut rows = appender("benchmark_plugins", PLUGIN)?;
        // Later values may come from plugins that the run did not use.
        let mut plugins = folder.header().plugins.clone();
        for record in &results {
            let identity = record.plugin.clone();
            let later =
                RunPlugin { role: PluginRole::Metric, identity, runtime: None, hides: None };
            let known = |plugin: &RunPlugin| {
                (plugin.role, &plugin.identity) == (later.role, &later.identity)
            };
            if !plugins.iter().any(known) {
                plugins.push(later);
            }
        }
        for RunPlugin { role, identity, runtime, .. } in &plugins {
            let PluginIdentity { id, version, sha256 } = identity;
            rows.append_row(params![run_id, role.name(), id, version, sha256]).map_err(failed())?;
            if let Some(RuntimeIdentity { name, version, sha256, .. }) = runtime {
                let or_unknown = |text: &Option<String>| text.clone().unwrap_or("unknown".into());
                let row = params![run_id, "runtime", name, or_unknown(version), or_unknown(sha256)];
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
    import_recommendations(
        appender("recommendations", RECOMMENDATION)?,
        appender("predictions", PREDICTION)?,
        folder,
    )?;
    {
        let mut rows = appender("benchmark_runs", RUN)?;
        let header = folder.header();
        let finished = folder.end()?;
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

/// Removes all rows of some runs from a database.
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

/// Returns the plan's positions of known gaps, whose records have no specification.
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

fn append_warning(
    warnings: &mut Appender<'_>,
    run_id: &str,
    case_id: &str,
    warning: &Warning,
) -> duckdb::Result<()> {
    let (kind, data) = (warning.kind().name(), json_text(warning));
    warnings.append_row(params![run_id, case_id, warning.process, kind, data])
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
                gap.map(|gap| gap.kind().name()),
                gap.map(ToString::to_string),
                gap.map(json_text),
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
                none,
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

fn import_recommendations(
    mut rows: Appender<'_>,
    mut predictions: Appender<'_>,
    folder: &RunFolder,
) -> Result<(), StoreError> {
    let failed = || StoreError::database("import the recommendations");
    for record in folder.recommendations()? {
        for one in &record.predictions {
            let (low, high) = one.interval;
            predictions
                .append_row(params![
                    folder.run_id(),
                    record.plugin.id,
                    record.plugin.version,
                    record.plugin.sha256,
                    record.options.to_string(),
                    json_text(&one.coordinates),
                    one.metric,
                    one.value,
                    low,
                    high,
                    one.confidence,
                    one.unit,
                    json_text(&one.cases),
                    json_text(&one.attributes),
                ])
                .map_err(failed())?;
        }
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
    rows.flush().and_then(|()| predictions.flush()).map_err(failed())
}

fn json_text(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".into())
}
