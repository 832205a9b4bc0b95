//! A run folder's description of itself, without the cases.

use std::path::{Path, PathBuf};

use host_record::{
    Asked, CaseKey, CaseSpec, Environment, Gap, MetricValue, PluginIdentity, Prediction,
    RECORD_VERSION, Recommendation, RuntimeIdentity,
};
use serde::{Deserialize, Serialize};

/// Facts that the host knows about a run before its first case.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// The experiment's name in the manifest.
    pub experiment: String,
    /// The experiment's description; may be empty.
    pub description: String,
    /// Version of the host.
    pub host_version: String,
    /// File that the manifest was read from.
    pub manifest_path: PathBuf,
    /// The manifest's text; kept in the run folder as `manifest.toml`.
    pub manifest_text: String,
    /// Every plugin that takes part.
    pub plugins: Vec<RunPlugin>,
    /// The programs that take part.
    pub programs: Vec<Program>,
    /// The machine, and the git commit of the user's repository.
    pub environment: Environment,
}

/// A program of this tool that takes part in a run: the host or its worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// SHA-256 of its file, in hexadecimal.
    pub sha256: String,
}

/// Roles of plugins in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PluginRole {
    /// Runs models.
    Backend,
    /// Computes metrics.
    Metric,
    /// Writes reports.
    Report,
    /// Gives advice.
    Recommender,
}

impl PluginRole {
    /// Returns the name used in files and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Backend => "backend",
            Self::Metric => "metric",
            Self::Report => "report",
            Self::Recommender => "recommender",
        }
    }
}

/// A plugin that takes part in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunPlugin {
    /// Its role.
    pub role: PluginRole,
    /// Its identity.
    #[serde(flatten)]
    pub identity: PluginIdentity,
    /// The backend's runtime; `None` if it uses none, or finds one itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<RuntimeIdentity>,
    /// Folder or file of the plugin beside the executable that this one hides; `None` if it hides none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hides: Option<String>,
}

/// `run.json`: facts known at the start of the run. Written once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunHeader {
    /// Version of the folder's layout and of its records.
    pub record_version: u32,
    /// The run's id, which is also the folder's name.
    pub run_id: String,
    /// The experiment's name.
    pub experiment: String,
    /// The experiment's description; may be empty.
    #[serde(default)]
    pub description: String,
    /// Start of the run, RFC 3339 in UTC with milliseconds.
    pub started_at: String,
    /// Version of the host.
    pub host_version: String,
    /// File that the manifest was read from. Its text is in `manifest.toml`. Parts that are not
    /// UTF-8 are kept as U+FFFD, because JSON has no other text.
    #[serde(serialize_with = "lossy")]
    pub manifest_path: PathBuf,
    /// SHA-256 of the manifest's text, in hexadecimal.
    pub manifest_sha256: String,
    /// Every plugin that takes part.
    pub plugins: Vec<RunPlugin>,
    /// The programs that take part; empty in folders of older hosts.
    #[serde(default)]
    pub programs: Vec<Program>,
    /// The machine, and the git commit of the user's repository.
    pub environment: Environment,
}

fn lossy<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// Number of cases in a journal, by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Counts {
    /// Measured to the end.
    pub finished: u64,
    /// Started but not finished.
    pub failed: u64,
    /// Not started.
    pub gaps: u64,
}

impl Counts {
    /// Returns the number of all recorded cases.
    #[must_use]
    pub fn cases(&self) -> u64 {
        self.finished + self.failed + self.gaps
    }

    pub(crate) fn add(&mut self, outcome: &host_record::Outcome) {
        *match outcome {
            host_record::Outcome::Finished(_) => &mut self.finished,
            host_record::Outcome::Failed { .. } => &mut self.failed,
            host_record::Outcome::Gap { .. } => &mut self.gaps,
        } += 1;
    }
}

/// `finished.json`: written last, when the run is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunFinished {
    /// Version of the writer.
    pub record_version: u32,
    /// End of the run, RFC 3339 in UTC with milliseconds.
    pub finished_at: String,
    /// Outcomes of its cases.
    pub counts: Counts,
}

/// A line of `plan.jsonl`: one planned case, or a gap.
///
/// The whole [`CaseSpec`] of a measured case is in the journal. The plan keeps only what a reader needs to see which
/// cases were not reached, since a plan can have a million lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PlanLine {
    /// Position in the plan, from 0.
    pub index: u64,
    /// The case's id.
    pub case_id: String,
    /// Its coordinates.
    pub key: CaseKey,
    /// Reason why it cannot be measured, if known beforehand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
    /// Who asked for it, if it is not of the manifest's matrix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
}

impl From<&CaseSpec> for PlanLine {
    fn from(case: &CaseSpec) -> Self {
        let (case_id, key) = (case.id.clone(), case.key.clone());
        Self { index: case.index, case_id, key, gap: None, asked: case.asked.clone() }
    }
}

/// Prefix of the ids of metrics that are functions of a caller, such as a Python script. They ran in the caller's process,
/// without a sandbox, and only the caller can compute them again.
pub const CALLERS_METRIC: &str = "python:";

/// A line of `results.jsonl`: the answer of one metric plugin with one set of options for one case.
///
/// A later line for the same case, plugin id and options replaces an earlier one, so metrics can be recomputed at any
/// time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ResultRecord {
    /// Version of the writer.
    pub record_version: u32,
    /// The case.
    pub case_id: String,
    /// The metric plugin.
    pub plugin: PluginIdentity,
    /// The options that it was given.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub options: serde_json::Value,
    /// Its values.
    pub values: Vec<MetricValue>,
    /// Reason why there are none, if the plugin failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl ResultRecord {
    /// Creates the record of values that a plugin computed.
    #[must_use]
    pub fn new(
        case_id: impl Into<String>,
        plugin: PluginIdentity,
        options: serde_json::Value,
        values: Vec<MetricValue>,
    ) -> Self {
        let case_id = case_id.into();
        Self { record_version: RECORD_VERSION, case_id, plugin, options, values, error: None }
    }

    /// Creates the record of a plugin that failed on a case.
    #[must_use]
    pub fn failed(
        case_id: impl Into<String>,
        plugin: PluginIdentity,
        options: serde_json::Value,
        error: impl Into<String>,
    ) -> Self {
        let error = Some(error.into());
        Self { error, ..Self::new(case_id, plugin, options, Vec::new()) }
    }
}

/// A line of `recommendations.jsonl`: the advice of one recommender with one set of options.
///
/// A later line for the same plugin id and options replaces an earlier one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RecommendationRecord {
    /// Version of the writer.
    pub record_version: u32,
    /// The recommender plugin.
    pub plugin: PluginIdentity,
    /// The options that it was given.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub options: serde_json::Value,
    /// Its advice, in order; possibly none.
    pub recommendations: Vec<Recommendation>,
    /// Values that it predicts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub predictions: Vec<Prediction>,
}

impl RecommendationRecord {
    /// Creates the record of a plugin's advice.
    #[must_use]
    pub fn new(
        plugin: PluginIdentity,
        options: serde_json::Value,
        recommendations: Vec<Recommendation>,
        predictions: Vec<Prediction>,
    ) -> Self {
        Self { record_version: RECORD_VERSION, plugin, options, recommendations, predictions }
    }
}

/// Returns the current time, RFC 3339 in UTC with milliseconds.
pub(crate) fn now() -> jiff::Timestamp {
    let now = jiff::Timestamp::now();
    jiff::Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}

/// Formats as RFC 3339 in UTC, always with milliseconds.
pub(crate) fn rfc3339(time: jiff::Timestamp) -> String {
    format!("{time:.3}")
}

/// Returns an id such as `20260728T091503.214Z-quickstart-3f9a2c`: it sorts by time, and names the experiment.
/// It has milliseconds, because short runs follow one another within a second; `salt` distinguishes runs that
/// start at the same time; letters and digits of any script are kept. A collision is detected when the folder is
/// created.
pub(crate) fn run_id(started: jiff::Timestamp, experiment: &str, salt: u64) -> String {
    let mut slug = String::new();
    for character in experiment.chars() {
        if slug.len() >= 40 {
            break;
        }
        match character {
            _ if character.is_alphanumeric() => slug.extend(character.to_lowercase()),
            _ if slug.ends_with('-') || slug.is_empty() => {}
            _ => slug.push('-'),
        }
    }
    let slug = slug.trim_end_matches('-');
    let slug = if slug.is_empty() { "run" } else { slug };
    format!("{}-{slug}-{:06x}", started.strftime("%Y%m%dT%H%M%S%.3fZ"), salt & 0xff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_ids_are_readable_and_sort_by_time() {
        let time = |text: &str| text.parse::<jiff::Timestamp>().expect("a time");
        let first = run_id(time("2026-07-28T09:15:03.999Z"), "Quick start: digits!", 0x1_003f_9a2c);
        assert_eq!(first, "20260728T091503.999Z-quick-start-digits-3f9a2c");
        assert_eq!(
            run_id(time("2026-01-02T03:04:05Z"), "../?", 7),
            "20260102T030405.000Z-run-000007"
        );
        assert_eq!(
            run_id(time("2026-01-02T03:04:05Z"), "Größe/模型 ½", 7),
            "20260102T030405.000Z-größe-模型-½-000007"
        );
        assert!(first < run_id(time("2026-07-28T09:15:04Z"), "a", 0));
        let in_a_second =
            ["2026-01-02T03:04:05.001Z", "2026-01-02T03:04:05.010Z", "2026-01-02T03:04:05.100Z"];
        assert!(in_a_second.map(|text| run_id(time(text), "a", 0)).is_sorted());
        // Older ids have whole seconds; ids with milliseconds of the same second sort after them.
        assert!(run_id(time(in_a_second[2]), "b", 0).as_str() < "20260102T030405Z-a-000000");
        assert!(run_id(time("2026-07-28T09:15:04Z"), &"x".repeat(500), 0).len() < 70);
    }

    #[test]
    fn times_always_have_milliseconds() {
        assert_eq!(
            rfc3339("2026-01-02T03:04:05Z".parse().expect("a time")),
            "2026-01-02T03:04:05.000Z"
        );
    }
}
