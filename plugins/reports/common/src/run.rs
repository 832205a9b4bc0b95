//! The run at hand, from the host's views.

use std::collections::{BTreeMap, BTreeSet};

use host_record::Warning;
pub use plugin_guest::Direction;
use plugin_guest::{Error, Row, View, Views};
use serde::Deserialize;

use crate::surroundings::{OpenLoop, RateSearch, Surroundings, parsed};

/// A run, with all that the views say of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// The experiment's name.
    pub experiment: String,
    /// The experiment's description; may be empty.
    pub description: String,
    /// When it started, RFC 3339 in UTC.
    pub started_at: String,
    /// When it finished; `None` while it goes on, or where it was interrupted.
    pub finished_at: Option<String>,
    /// Version of the host.
    pub host_version: String,
    /// Commit of the user's repository.
    pub git_commit: Option<String>,
    /// Its cases, in the order of the plan.
    pub cases: Vec<Case>,
    /// What is known of the machine.
    pub hardware: Vec<HardwareFact>,
    /// What recommenders said.
    pub advice: Vec<Advice>,
    /// Plugins that took part.
    pub plugins: Vec<PluginUse>,
}

/// A case.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Its id.
    pub id: String,
    /// The model's name in the manifest.
    pub model: String,
    /// The backend's name in the manifest.
    pub backend: String,
    /// The device, such as `cpu:0`.
    pub device: String,
    /// The precision.
    pub precision: String,
    /// Samples per batch.
    pub batch: i64,
    /// Length of the sequence axis, where there is one.
    pub sequence_length: Option<i64>,
    /// What is done with the model.
    pub mode: String,
    /// How queries are issued.
    pub scenario: String,
    /// Queries per second that were asked for, in an open loop.
    pub rate: Option<f64>,
    /// Clients of a closed loop.
    pub clients: Option<i64>,
    /// Whether the result is valid, where the host judged it.
    pub valid: Option<bool>,
    /// How it ended.
    pub outcome: Outcome,
    /// SHA-256 of the model file.
    pub model_sha256: Option<String>,
    /// The device's full name.
    pub device_name: Option<String>,
    /// Threads that the backend was allowed.
    pub threads: Option<i64>,
    /// Measured queries.
    pub queries: Option<i64>,
    /// How long the case took in all, in nanoseconds.
    pub elapsed_ns: Option<i64>,
    /// The worker's highest resident memory in bytes.
    pub peak_memory_bytes: Option<i64>,
    /// Cost of one clock reading, in nanoseconds.
    pub clock_read_ns: Option<f64>,
    /// Cost of one iteration of the measuring loop with an empty target, in nanoseconds.
    pub loop_ns: Option<f64>,
    /// The clock, with its smallest step in nanoseconds.
    pub clock: Option<(String, Option<i64>)>,
    /// One-off times in nanoseconds: opening the plugin, loading, preparing, the first run.
    pub stages: Vec<(&'static str, i64)>,
    /// How it was measured, where the host says: names and values.
    pub settings: BTreeMap<String, String>,
    /// How the load of an open loop was kept up.
    pub open_loop: OpenLoop,
    /// What the search for the highest rate came to, where there was one.
    pub search: Option<RateSearch>,
    /// What it was measured under, as far as the host says.
    pub surroundings: Surroundings,
    /// Where a case ran: names and values.
    pub ran: Vec<(&'static str, String)>,
    /// How its outputs compared with those of a reference, where the manifest asked for that.
    pub parity: Option<crate::Parity>,
    /// What the backend says that it used.
    pub used: BTreeMap<String, String>,
    /// Values of metrics, in the host's order.
    pub results: Vec<MetricResult>,
    /// What is doubtful about it.
    pub warnings: Vec<Warning>,
    /// Quantiles (0 to 1, rising) and their latencies in nanoseconds.
    pub quantiles: Vec<(f64, i64)>,
    /// Histogram of its latencies.
    pub histogram: Vec<Bin>,
}

impl Case {
    /// The scenario with what it is issued at or by: `server at 500/s`, `closed-loop of 4 clients`.
    #[must_use]
    pub fn load(&self) -> String {
        match (self.rate, self.clients) {
            (Some(rate), _) => format!("{} at {}", self.scenario, crate::humanise(rate, "1/s")),
            (None, Some(1)) => format!("{} of 1 client", self.scenario),
            (None, Some(clients)) => format!("{} of {clients} clients", self.scenario),
            (None, None) => self.scenario.clone(),
        }
    }

    /// What it was measured under: the settings, the clock, and what the backend says it used.
    #[must_use]
    pub fn conditions(&self) -> BTreeMap<String, String> {
        let mut conditions = self.settings.clone();
        if let Some((source, step)) = &self.clock {
            let step = step.map(|step| format!(", step {}", crate::humanise(step as f64, "ns")));
            conditions.insert("clock".to_owned(), format!("{source}{}", step.unwrap_or_default()));
        }
        if let Some(search) = &self.search {
            conditions.insert("search".to_owned(), search.written());
        }
        if let Some(processors) = self.surroundings.scheduling.as_ref().and_then(|it| it.written())
        {
            conditions.insert("processors".to_owned(), processors);
        }
        for (name, value) in self.open_loop.written().into_iter().chain(self.ran.iter().cloned()) {
            conditions.insert(name.to_owned(), value);
        }
        for (name, value) in &self.used {
            conditions.insert(format!("backend's {}", name.replace('-', " ")), value.clone());
        }
        conditions
    }

    /// A metric's entry.
    #[must_use]
    pub fn result(&self, metric: &str) -> Option<&MetricResult> {
        self.results.iter().find(|result| result.metric == metric)
    }

    /// A metric's value, if it has one.
    #[must_use]
    pub fn value(&self, metric: &str) -> Option<f64> {
        self.result(metric)?.value.as_ref().ok().copied()
    }
}

/// How a case ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Measured to the end.
    Finished,
    /// Started and did not finish.
    Failed(Gap),
    /// Could not be started, for want of something.
    Gap(Gap),
}

/// What is missing, and why.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Gap {
    /// A word for the kind of reason.
    pub kind: String,
    /// The reason, in one sentence.
    pub reason: String,
}

/// A value of a metric for a case.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricResult {
    /// Dotted name.
    pub metric: String,
    /// The value, or why there is none.
    pub value: Result<f64, Gap>,
    /// Bounds of an interval around the value.
    pub interval: Option<(f64, f64)>,
    /// Unit by its symbol; empty where the metric failed as a whole.
    pub unit: String,
    /// Which way is better.
    pub direction: Direction,
    /// How it is defined, and whatever else the metric says.
    pub attributes: BTreeMap<String, String>,
}

impl MetricResult {
    /// The class that the value stands for, where the metric says one in a word.
    #[must_use]
    pub fn class(&self) -> Option<&str> {
        self.attributes.get("class").map(String::as_str)
    }
}

/// A bin of a histogram of latencies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bin {
    /// Lower bound in nanoseconds.
    pub low_ns: f64,
    /// Upper bound in nanoseconds.
    pub high_ns: f64,
    /// Queries in it.
    pub queries: i64,
}

/// Something known of the machine, or known to be unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HardwareFact {
    /// Dotted name, such as `processor.name`.
    pub name: String,
    /// The value; `None` where the machine does not say.
    pub value: Option<String>,
}

/// Advice of a recommender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// The plugin that gives it.
    pub plugin: String,
    /// In one line.
    pub title: String,
    /// Why, with the figures.
    pub explanation: String,
    /// Ids of the cases that it rests on.
    pub cases: Vec<String>,
    /// Whatever else the recommender says.
    pub attributes: BTreeMap<String, String>,
}

/// A plugin that took part.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PluginUse {
    /// `backend`, `metric`, `report` or `recommender`.
    pub role: String,
    /// Its id.
    pub id: String,
    /// Its version.
    pub version: String,
    /// SHA-256 of its library or component.
    pub sha256: Option<String>,
}

impl Run {
    /// Reads the run.
    ///
    /// # Errors
    ///
    /// Where a view or a column is missing, or holds something else than the reference says.
    pub fn read(views: &dyn Views) -> Result<Self, Error> {
        let view = View::read(views, "run")?;
        let row =
            view.rows().next().ok_or("the view `run` is empty: there is no run to speak of")?;
        let mut run = Self {
            id: row.text("run_id")?.to_owned(),
            experiment: row.text("experiment")?.to_owned(),
            description: owned(row.optional_text("description")?).unwrap_or_default(),
            started_at: row.text("started_at")?.to_owned(),
            finished_at: owned(row.optional_text("finished_at")?),
            host_version: row.text("host_version")?.to_owned(),
            git_commit: owned(row.optional_text("git_commit")?),
            cases: cases(views)?,
            hardware: hardware(views)?,
            advice: advice(views)?,
            plugins: Vec::new(),
        };
        run.plugins = plugins(views)?;
        Ok(run)
    }

    /// A case by its id.
    #[must_use]
    pub fn case(&self, id: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.id == id)
    }

    /// Names of the metrics that some case has, in the host's order.
    #[must_use]
    pub fn metrics(&self) -> Vec<&str> {
        let mut seen = BTreeSet::new();
        let results = self.cases.iter().flat_map(|case| &case.results);
        results.map(|result| result.metric.as_str()).filter(|name| seen.insert(*name)).collect()
    }

    /// The confidence of all intervals, as `95 %`; `None` where they differ or none is stated.
    #[must_use]
    pub fn confidence(&self) -> Option<String> {
        let results = self.cases.iter().flat_map(|case| &case.results);
        let mut levels = results.filter_map(|result| result.attributes.get("confidence"));
        let first = levels.next()?;
        let level: f64 = first.parse().ok()?;
        levels.all(|level| level == first).then(|| format!("{} %", percent(level)))
    }

    /// The conditions that all finished cases share, and names of those in which they differ.
    #[must_use]
    pub fn conditions(&self) -> (BTreeMap<String, String>, BTreeSet<String>) {
        let finished = self.cases.iter().filter(|case| case.outcome == Outcome::Finished);
        let all: Vec<_> = finished.map(Case::conditions).collect();
        let mut shared = BTreeMap::new();
        let mut differing = BTreeSet::new();
        for (name, value) in all.iter().flatten() {
            if all.iter().all(|conditions| conditions.get(name) == Some(value)) {
                shared.insert(name.clone(), value.clone());
            } else {
                differing.insert(name.clone());
            }
        }
        (shared, differing)
    }

    /// When the run started, for people: `2026-07-28 10:15:00 UTC`.
    #[must_use]
    pub fn started(&self) -> String {
        time_of_day(&self.started_at)
    }

    /// A fact about the machine, if it is known.
    #[must_use]
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.hardware.iter().find(|fact| fact.name == name)?.value.as_deref()
    }

    /// The machine in one line, from what is known of it.
    #[must_use]
    pub fn machine(&self) -> String {
        let count = |name, one, many| {
            let value = self.fact(name)?;
            Some(format!("{value} {}", if value == "1" { one } else { many }))
        };
        let memory = self.fact("memory-bytes").and_then(|text| text.parse().ok());
        let parts = [
            owned(self.fact("processor.name")),
            count("processor.physical", "core", "cores"),
            count("processor.logical", "processor", "processors"),
            memory.map(|bytes: f64| crate::humanise(bytes, "B")),
            owned(self.fact("operating-system")),
        ];
        let known: Vec<_> = parts.into_iter().flatten().collect();
        if known.is_empty() { "an unknown machine".to_owned() } else { known.join(" · ") }
    }
}

/// RFC 3339 for people; text of another form is left as it is.
fn time_of_day(text: &str) -> String {
    let (date, time) = match text.strip_suffix('Z').and_then(|text| text.split_once('T')) {
        Some(parts) if parts.0.len() == 10 => parts,
        _ => return text.to_owned(),
    };
    let seconds = time.split_once('.').map_or(time, |(seconds, _)| seconds);
    format!("{date} {seconds} UTC")
}

fn owned(text: Option<&str>) -> Option<String> {
    text.filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A cell of a column that an older host may not offer.
fn optional<T>(
    view: &View,
    column: &str,
    read: impl FnOnce(&str) -> Result<Option<T>, Error>,
) -> Result<Option<T>, Error> {
    if view.has_column(column) { read(column) } else { Ok(None) }
}

/// A JSON object as names and values; empty where it is none.
fn object(text: Option<&str>) -> BTreeMap<String, String> {
    let parsed: Option<BTreeMap<String, serde_json::Value>> =
        text.and_then(|text| serde_json::from_str(text).ok());
    let plain = |value| match value {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    parsed.unwrap_or_default().into_iter().map(|(name, value)| (name, plain(value))).collect()
}

/// Settings for people, from the host's JSON: `minimum-duration-ns` 1000000000 is the minimum
/// duration, 1.00 s. What is null was left to a default and is not listed.
fn settings(text: Option<&str>) -> BTreeMap<String, String> {
    let written = |name: String, value: String| {
        let number = value.parse::<f64>();
        let (name, unit) = match name.strip_suffix("-ns") {
            Some(name) => (name.to_owned(), Some("ns")),
            None => match name.strip_suffix("-bytes") {
                Some(name) => (name.to_owned(), Some("B")),
                None => (name, None),
            },
        };
        let value = match (number, unit, serde_json::from_str(&value)) {
            (Ok(number), Some(unit), _) => crate::humanise(number, unit),
            (_, _, Ok(Quantity { iterations: Some(count), .. })) => format!("{count} queries"),
            (_, _, Ok(Quantity { nanoseconds: Some(time), .. })) => crate::humanise(time, "ns"),
            (_, _, Ok(Quantity { at_most_ns: Some(time), percentile, .. })) => {
                let of = percentile.map(|share| format!(" at p{}", percent(share)));
                format!("{}{}", crate::humanise(time, "ns"), of.unwrap_or_default())
            }
            (_, _, Ok(Quantity { half_width: Some(half), level: Some(level), percentile, .. })) => {
                let percentile = percent(percentile.unwrap_or(0.5));
                format!("± {} % of p{percentile} at {} %", percent(half), percent(level))
            }
            _ => value,
        };
        (name.replace('-', " "), value)
    };
    let settings = object(text).into_iter().filter(|(_, value)| value != "null");
    settings.map(|(name, value)| written(name, value)).collect()
}

/// A share in per cent, without the digits that binary fractions leave behind.
fn percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}

/// A number of queries or a time, whichever the manifest gave; a limit; or how narrow an interval has to
/// be.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Quantity {
    iterations: Option<u64>,
    nanoseconds: Option<f64>,
    at_most_ns: Option<f64>,
    percentile: Option<f64>,
    half_width: Option<f64>,
    level: Option<f64>,
}

fn cases(views: &dyn Views) -> Result<Vec<Case>, Error> {
    let view = View::read(views, "cases")?;
    let mut cases: Vec<_> = view.rows().map(|row| case(&view, &row)).collect::<Result<_, _>>()?;
    let mut by_id: BTreeMap<String, &mut Case> =
        cases.iter_mut().map(|case| (case.id.clone(), case)).collect();

    let view = View::read(views, "results")?;
    for row in view.rows() {
        if let Some(case) = by_id.get_mut(row.text("case_id")?) {
            case.results.push(result(&view, &row)?);
        }
    }
    for row in View::read(views, "warnings")?.rows() {
        if let Some(case) = by_id.get_mut(row.text("case_id")?) {
            let warning = serde_json::from_str(row.text("data")?);
            case.warnings.push(warning.map_err(|error| format!("view `warnings`: {error}"))?);
        }
    }
    for row in View::read(views, "latency_quantiles")?.rows() {
        if let Some(case) = by_id.get_mut(row.text("case_id")?) {
            case.quantiles.push((row.real("quantile")?, row.integer("latency_ns")?));
        }
    }
    for row in View::read(views, "latency_histogram")?.rows() {
        if let Some(case) = by_id.get_mut(row.text("case_id")?) {
            case.histogram.push(Bin {
                low_ns: row.real("bin_low_ns")?,
                high_ns: row.real("bin_high_ns")?,
                queries: row.integer("queries")?,
            });
        }
    }
    for case in &mut cases {
        case.quantiles.sort_by(|one, other| one.0.total_cmp(&other.0));
        case.histogram.sort_by(|one, other| one.low_ns.total_cmp(&other.low_ns));
    }
    Ok(cases)
}

fn case(view: &View, row: &Row<'_>) -> Result<Case, Error> {
    let gap = || {
        Ok::<_, Error>(Gap {
            kind: row.optional_text("reason_kind")?.unwrap_or("unknown").to_owned(),
            reason: row.optional_text("reason")?.unwrap_or("no reason was recorded").to_owned(),
        })
    };
    let outcome = match row.text("outcome")? {
        "finished" => Outcome::Finished,
        "failed" => Outcome::Failed(gap()?),
        "gap" => Outcome::Gap(gap()?),
        other => return Err(format!("view `cases`: `{other}` is no outcome").into()),
    };
    let whole = |column: &str| optional(view, column, |column| row.optional_integer(column));
    let text = |column: &str| optional(view, column, |column| row.optional_text(column));
    let real = |column: &str| optional(view, column, |column| row.optional_real(column));
    let search: Option<RateSearch> = parsed(text("search")?);
    // Where the rate was searched, the one that was found; of several processes, the one that all kept to.
    let rate = match (real("rate")?, search.as_ref().and_then(RateSearch::least)) {
        (None, None) => real("asked_rate")?,
        (rate, least) => rate.or(least),
    };
    let resolution = whole("clock_resolution_ns")?;
    let mut stages = Vec::new();
    for (column, name) in [
        ("open_ns", "open the plugin"),
        ("load_ns", "load the model"),
        ("prepare_ns", "prepare it"),
        ("first_run_ns", "first run"),
    ] {
        stages.extend(whole(column)?.map(|time| (name, time)));
    }
    let open_loop = OpenLoop {
        asked_rate: real("asked_rate")?,
        offered_rate: real("offered_rate")?,
        achieved_rate: real("achieved_rate")?,
        unserved: whole("unserved")?,
        lateness_p50_ns: whole("lateness_p50_ns")?,
        lateness_p99_ns: whole("lateness_p99_ns")?,
        lateness_max_ns: whole("lateness_max_ns")?,
    };
    let ran = crate::ran::facts(text("conditions")?);
    let parity = crate::ran::parity(text("conditions")?);
    Ok(Case {
        id: row.text("case_id")?.to_owned(),
        model: row.text("model")?.to_owned(),
        backend: row.text("backend")?.to_owned(),
        device: row.text("device")?.to_owned(),
        precision: row.text("precision")?.to_owned(),
        batch: row.integer("batch")?,
        sequence_length: row.optional_integer("sequence_length")?,
        mode: row.text("mode")?.to_owned(),
        scenario: row.text("scenario")?.to_owned(),
        rate,
        clients: whole("clients")?,
        valid: optional(view, "valid", |column| row.optional_boolean(column))?,
        outcome,
        model_sha256: owned(row.optional_text("model_sha256")?),
        device_name: owned(row.optional_text("device_name")?),
        threads: row.optional_integer("threads")?,
        queries: row.optional_integer("queries")?,
        elapsed_ns: row.optional_integer("elapsed_ns")?,
        peak_memory_bytes: row.optional_integer("peak_memory_bytes")?,
        clock_read_ns: row.optional_real("clock_read_ns")?,
        loop_ns: row.optional_real("loop_ns")?,
        clock: owned(text("clock_source")?).map(|source| (source, resolution)),
        stages,
        ran,
        parity,
        open_loop,
        search,
        surroundings: parsed(text("conditions")?).unwrap_or_default(),
        settings: settings(text("measure")?),
        used: object(text("used")?),
        results: Vec::new(),
        warnings: Vec::new(),
        quantiles: Vec::new(),
        histogram: Vec::new(),
    })
}

fn result(view: &View, row: &Row<'_>) -> Result<MetricResult, Error> {
    let low = row.optional_real("interval_low")?;
    let high = row.optional_real("interval_high")?;
    let value = match row.optional_real("value")? {
        Some(value) if value.is_finite() => Ok(value),
        Some(value) => Err(Gap {
            kind: "not-finite".to_owned(),
            reason: format!("the metric gave {value}, which is no number to go by"),
        }),
        None => Err(Gap {
            kind: row.optional_text("gap_kind")?.unwrap_or("unknown").to_owned(),
            reason: row.optional_text("gap_reason")?.unwrap_or("no reason was recorded").to_owned(),
        }),
    };
    let attributes = optional(view, "attributes", |column| row.optional_text(column))?;
    Ok(MetricResult {
        metric: row.text("metric")?.to_owned(),
        value,
        interval: low.zip(high).filter(|(low, high)| low.is_finite() && high.is_finite()),
        unit: row.optional_text("unit")?.unwrap_or_default().to_owned(),
        direction: match row.optional_text("direction")? {
            Some("lower") => Direction::Lower,
            Some("higher") => Direction::Higher,
            _ => Direction::Neutral,
        },
        attributes: object(attributes),
    })
}

fn hardware(views: &dyn Views) -> Result<Vec<HardwareFact>, Error> {
    View::read(views, "hardware")?
        .rows()
        .map(|row| {
            Ok(HardwareFact {
                name: row.text("name")?.to_owned(),
                value: owned(row.optional_text("value")?),
            })
        })
        .collect()
}

fn advice(views: &dyn Views) -> Result<Vec<Advice>, Error> {
    let view = View::read(views, "recommendations")?;
    view.rows()
        .map(|row| {
            let cases = row.text("cases")?;
            let attributes = optional(&view, "attributes", |column| row.optional_text(column))?;
            Ok(Advice {
                plugin: row.text("plugin")?.to_owned(),
                title: row.text("title")?.to_owned(),
                explanation: row.text("explanation")?.to_owned(),
                cases: serde_json::from_str(cases).map_err(|error| {
                    format!("view `recommendations`: `{cases}` is no array of case ids: {error}")
                })?,
                attributes: object(attributes),
            })
        })
        .collect()
}

/// The view `plugins` names them all. A host without it still names backends with their cases and
/// metrics with their results.
fn plugins(views: &dyn Views) -> Result<Vec<PluginUse>, Error> {
    let mut plugins = BTreeSet::new();
    if views.names().iter().any(|name| name == "plugins") {
        for row in View::read(views, "plugins")?.rows() {
            plugins.insert(PluginUse {
                role: row.text("role")?.to_owned(),
                id: row.text("plugin_id")?.to_owned(),
                version: row.text("plugin_version")?.to_owned(),
                sha256: owned(row.optional_text("plugin_sha256")?),
            });
        }
        return Ok(plugins.into_iter().collect());
    }
    for (role, name) in [("backend", "cases"), ("metric", "results")] {
        let view = View::read(views, name)?;
        if !view.has_column("plugin_id") {
            continue;
        }
        for row in view.rows() {
            if let Some(id) = row.optional_text("plugin_id")? {
                plugins.insert(PluginUse {
                    role: role.to_owned(),
                    id: id.to_owned(),
                    version: row.optional_text("plugin_version")?.unwrap_or_default().to_owned(),
                    sha256: owned(optional(&view, "plugin_sha256", |name| {
                        row.optional_text(name)
                    })?),
                });
            }
        }
    }
    Ok(plugins.into_iter().collect())
}

#[cfg(all(test, feature = "made-up"))]
mod tests {
    use super::*;
    use crate::made_up::{self, COMPARISON, QUICKSTART};
    use crate::{Configuration, Labels, SINGLE_STREAM, case_label, configurations};

    #[test]
    fn a_run_is_read_whole() {
        let run = Run::read(&made_up::tables(&COMPARISON)).expect("readable tables");
        assert_eq!(run.cases.len(), 32);
        let case = &run.cases[2];
        insta::assert_snapshot!(case_label(case), @"resnet-50 · cpu · cpu:0 · fp32 · batch 4 · single-stream");
        assert!(case.value("latency.p99").is_some_and(|p99| p99 > 0.0));
        assert!(case.quantiles.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
        let settings: Vec<_> =
            case.settings.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        insta::assert_snapshot!(settings.join("; ").replace('\u{202f}', " "), @"maximum duration: 60.0 s; minimum duration: 1.00 s; minimum queries: 100; timeout: 60.0 s; warm up: 200 ms");
        insta::assert_snapshot!(run.metrics().join(" "), @"latency.p50 latency.p90 latency.p99 latency.p99.9 throughput.samples memory.peak accuracy.top1");
        insta::assert_snapshot!(run.machine().replace('\u{202f}', " "), @"Example CPU 8-Core Processor · 8 cores · 16 processors · 31.2 GiB · Debian GNU/Linux 12 (bookworm)");
        assert_eq!(run.plugins.len(), 8);
        let failed = run.cases.iter().filter(|case| matches!(case.outcome, Outcome::Failed(_)));
        assert_eq!(failed.count(), 2);
    }

    #[test]
    fn an_older_host_is_read_too_and_a_broken_one_is_not() {
        let mut tables = made_up::tables(&QUICKSTART);
        tables.remove("plugins");
        let cases = tables.get_mut("cases").expect("a table");
        let kept = cases.columns.iter().position(|name| name == "open_ns").expect("a column");
        cases.columns.truncate(kept);
        cases.rows.iter_mut().for_each(|row| row.truncate(kept));
        let run = Run::read(&tables).expect("the columns of the first version are enough");
        assert!(run.plugins.iter().any(|plugin| plugin.role == "backend" && plugin.id == "cpu"));
        assert!(run.cases[0].stages.is_empty());

        tables.get_mut("cases").expect("a table").columns[8] = "modus".into();
        let error = Run::read(&tables).expect_err("a column is missing").to_string();
        assert!(error.starts_with("view `cases` has no column `mode`"), "{error}");
    }

    #[test]
    fn labels_say_what_differs() {
        let run = Run::read(&made_up::tables(&QUICKSTART)).expect("readable tables");
        let labels = Labels::new(&run.cases);
        insta::assert_snapshot!(labels.label(&run.cases[3]), @"batch 8 · offline");
        let configurations = configurations(&run);
        assert_eq!(configurations.len(), 3);
        let labels = Configuration::labels(&configurations);
        insta::assert_snapshot!(configurations[1].label(&labels), @"batch 8");
        insta::assert_snapshot!(Labels::new(&run.cases[..1]).label(&run.cases[0]), @"digits");
    }

    #[test]
    fn settings_are_written_for_people() {
        let found = settings(Some(
            r#"{"latency-limit":{"at-most-ns":8000000,"percentile":0.999},
                "confidence":{"level":0.99,"half-width":0.01,"percentile":0.5},"warm-up":"auto"}"#,
        ));
        assert_eq!(found["latency limit"].replace('\u{202f}', " "), "8.00 ms at p99.9");
        assert_eq!(found["confidence"], "± 1 % of p50 at 99 %");
        assert_eq!(found["warm up"], "auto");
    }

    #[test]
    fn each_metric_is_taken_from_the_scenario_that_answers_for_it() {
        let run = Run::read(&made_up::tables(&QUICKSTART)).expect("readable tables");
        let configurations = configurations(&run);
        let scenario =
            |metric| configurations[1].result(metric).map(|(case, _)| case.scenario.as_str());
        assert_eq!(scenario("latency.p99"), Some("single-stream"));
        assert_eq!(scenario("throughput.samples"), Some("offline"));
        assert_eq!(scenario("accuracy.top1"), Some("single-stream"));
        let together = configurations[1].result_in(SINGLE_STREAM, "throughput.samples");
        assert_eq!(together.map(|(case, _)| case.scenario.as_str()), Some("single-stream"));
        let mut offline = configurations[1].clone();
        offline.cases.retain(|case| case.scenario == "offline");
        assert_eq!(offline.result("latency.p99").map(|(case, _)| &case.id), None);
    }
}
