//! Reading a run folder, and importing it into the database.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use host_manifest::Mentions;
use host_record::{
    CaseRecord, MetricValue, ModelUse, Outcome, Parity, Recommendation, Verdict, Warning,
};
use host_registry::Registry;
use host_store::{
    Database, ResultRecord, ResultsFolder, RunFolder, RunHeader, RunWriter, StoreError,
};

use crate::error::Result;
use crate::observer::{Notice, Observer};
use crate::settings::Settings;

/// Time to wait for another process that has the database open.
const PATIENCE: Duration = Duration::from_secs(2);

/// A run as its folder says it.
#[derive(Debug)]
pub struct RunResults {
    /// Header that was written at its start.
    pub header: RunHeader,
    /// Its cases, in the order in which they ended.
    pub cases: Vec<CaseResults>,
    /// Its advice.
    pub recommendations: Vec<Advice>,
    /// Cases of the plan that are not in the journal.
    pub unreached: u64,
    /// Whether the run has ended.
    pub finished: bool,
}

/// A case with its metrics.
#[derive(Debug)]
pub struct CaseResults {
    /// The journal's record.
    pub record: CaseRecord,
    /// The metrics.
    pub metrics: Vec<MetricValue>,
    /// Metric plugins that failed on it: id and reason.
    pub errors: Vec<(String, String)>,
}

/// A recommendation with the id of its plugin.
#[derive(Debug)]
pub struct Advice {
    /// The recommender's id.
    pub plugin: String,
    /// The recommendation.
    pub recommendation: Recommendation,
}

impl RunResults {
    /// Reads a run folder.
    ///
    /// # Errors
    ///
    /// If it is damaged or cannot be read.
    pub fn read(folder: &RunFolder) -> Result<Self> {
        let mut metrics: BTreeMap<String, Vec<MetricValue>> = BTreeMap::new();
        let mut errors: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for result in folder.results()? {
            if let Some(error) = result.error {
                errors.entry(result.case_id.clone()).or_default().push((result.plugin.id, error));
            }
            metrics.entry(result.case_id).or_default().extend(result.values);
        }
        let mut cases = Vec::new();
        for record in folder.records()? {
            let mut record = record?;
            record.key = record.shown_key();
            cases.push(CaseResults {
                metrics: metrics.remove(&record.case_id).unwrap_or_default(),
                errors: errors.remove(&record.case_id).unwrap_or_default(),
                record,
            });
        }
        let recommendations = folder
            .recommendations()?
            .into_iter()
            .flat_map(|record| {
                let plugin = record.plugin.id;
                record
                    .recommendations
                    .into_iter()
                    .map(move |recommendation| Advice { plugin: plugin.clone(), recommendation })
            })
            .collect();
        let planned = folder.plan()?.count() as u64;
        Ok(Self {
            header: folder.header().clone(),
            unreached: planned.saturating_sub(cases.len() as u64),
            cases,
            recommendations,
            finished: folder.finished()?.is_some(),
        })
    }

    /// Returns the numbers of finished and failed cases and of gaps.
    #[must_use]
    pub fn counts(&self) -> (u64, u64, u64) {
        let mut counts = (0, 0, 0);
        for case in &self.cases {
            match case.record.outcome {
                Outcome::Finished(_) => counts.0 += 1,
                Outcome::Failed { .. } => counts.1 += 1,
                Outcome::Gap { .. } => counts.2 += 1,
            }
        }
        counts
    }
}

impl CaseResults {
    /// Returns the metric of this name.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<&MetricValue> {
        self.metrics.iter().find(|value| value.metric == name)
    }

    /// Returns the warnings of a finished case.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        match &self.record.outcome {
            Outcome::Finished(report) => &report.warnings,
            _ => &[],
        }
    }

    /// Returns the comparison of its outputs with the reference.
    #[must_use]
    pub fn parity(&self) -> Option<&Parity> {
        match &self.record.outcome {
            Outcome::Finished(report) => report.conditions.parity.as_ref(),
            _ => None,
        }
    }

    /// Returns the use of its model: axes, inputs and samples.
    #[must_use]
    pub fn model(&self) -> Option<&ModelUse> {
        match &self.record.outcome {
            Outcome::Finished(report) => report.conditions.model.as_ref(),
            _ => None,
        }
    }

    /// Returns whether the result is valid; `None` if it was not judged.
    #[must_use]
    pub fn valid(&self) -> Option<bool> {
        match &self.record.outcome {
            Outcome::Finished(report) => report.verdict.as_ref().map(Verdict::is_valid),
            _ => None,
        }
    }

    /// Returns the name of its outcome.
    #[must_use]
    pub fn outcome(&self) -> &'static str {
        self.record.outcome.name()
    }

    /// Returns the reason why it did not finish.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        self.record.reason().map(|(_, reason)| reason)
    }

    /// Returns the kinds of its warnings, each once, and whether a metric failed.
    #[must_use]
    pub fn notes(&self) -> Vec<&'static str> {
        let mut notes: Vec<_> =
            self.warnings().iter().map(|warning| warning.kind().name()).collect();
        // Of several processes, each may say the same.
        let mut seen = BTreeSet::new();
        notes.retain(|note| seen.insert(*note));
        if !self.errors.is_empty() {
            notes.push("metric failed");
        }
        notes
    }
}

/// Imports a run into the database. Errors are not a failure of the run. Returns the
/// database's file.
pub fn index(
    results: &ResultsFolder,
    folder: &RunFolder,
    observer: &mut dyn Observer,
) -> Option<PathBuf> {
    indexed(import(results, folder), observer)
}

/// Brings a run into the database. Returns the database's file.
pub(crate) fn import(results: &ResultsFolder, folder: &RunFolder) -> Result<PathBuf, StoreError> {
    let mut database = Database::open(results, PATIENCE)?;
    database.sync(folder)?;
    database.close()?;
    Ok(results.database_path())
}

/// Returns the database's file, and tells what hindered the import if there is none.
pub(crate) fn indexed(
    imported: Result<PathBuf, StoreError>,
    observer: &mut dyn Observer,
) -> Option<PathBuf> {
    imported.map_err(|error| observer.notice(Notice::NotIndexed(&error))).ok()
}

/// Returns the results folder that contains a run's folder, as `runs/RUN`.
#[must_use]
pub fn results_of(path: &Path, settings: &Settings) -> ResultsFolder {
    let results = path.parent().and_then(Path::parent).map(Path::to_owned);
    ResultsFolder::new(results.unwrap_or_else(|| settings.results(None)))
}

/// Returns the plugins found now, in the folders of a run's manifest as well.
pub(crate) fn registry_of(run: &RunFolder, mentions: &Mentions, settings: &Settings) -> Registry {
    let base = run.header().manifest_path.parent().unwrap_or(Path::new("/"));
    let folders: Vec<_> = mentions.plugin_folders.iter().map(|it| base.join(it)).collect();
    settings.registry(&folders)
}

/// Stores a result; a value that is not a number costs the plugin its output. Whether there is
/// any.
pub(crate) fn record_result(
    writer: &mut RunWriter,
    result: &ResultRecord,
    observer: &mut dyn Observer,
) -> Result<bool> {
    match writer.record_result(result) {
        Err(error @ StoreError::NotFinite { .. }) => {
            observer.notice(Notice::NotFinite(&error));
            let failed = ResultRecord::failed(
                result.case_id.clone(),
                result.plugin.clone(),
                result.options.clone(),
                error.to_string(),
            );
            writer.record_result(&failed)?;
            Ok(false)
        }
        other => {
            other?;
            Ok(result.error.is_none())
        }
    }
}

#[cfg(test)]
mod tests {
    use host_record::{
        CaseKey, CaseRecord, Outcome, Pace, Rate, RateSearch, Scenario, SearchEnd, WorkerReport,
    };

    #[test]
    fn the_rate_that_is_shown_is_the_least_that_all_processes_kept_to() {
        let report = |rate: f64, is_searched: bool| {
            let rate = Rate::per_second(rate).expect("a rate");
            let search = RateSearch {
                end: SearchEnd::Found,
                accepted: Some(rate),
                rejected: None,
                probes: Vec::new(),
                rates: vec![rate],
                held: None,
                curve: None,
            };
            let pace = Pace {
                asked: rate,
                offered_per_second: None,
                achieved_per_second: None,
                unserved: 0,
                lateness: None,
            };
            WorkerReport {
                pace: Some(pace),
                search: is_searched.then_some(search),
                ..WorkerReport::default()
            }
        };
        let record = |is_searched| CaseRecord {
            record_version: host_record::RECORD_VERSION,
            case_id: "c".into(),
            key: CaseKey { scenario: Scenario::Server, ..CaseKey::new("m", "b", "d:0") },
            spec: None,
            process: 0,
            started_at: String::new(),
            elapsed_ns: 1,
            outcome: Outcome::Finished(Box::new(report(948.5, is_searched))),
            standard_error: String::new(),
            environment: None,
            further: vec![report(900.0, is_searched), report(1000.0, is_searched)],
        };
        let shown = |is_searched| record(is_searched).shown_key().rate.map(Rate::get);
        assert_eq!((shown(true), shown(false)), (Some((948.5 + 900.0 + 1000.0) / 3.0), None));
    }
}
