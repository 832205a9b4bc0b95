//! The current run, from the host's views.

use std::collections::{BTreeMap, BTreeSet};

use host_record::{
    CaseKey, CaseRecord, CaseSpec, Conditions, Direction, Gap, Group, MeasureSettings, MetricValue,
    QUANTITIES, Quantity, RateSearch, Recommendation, WarmUp, Warning, WorkerReport,
};
use plugin_guest::{Error, Row, View, Views};

/// A run, with all data of the views.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// The experiment's name.
    pub experiment: String,
    /// The experiment's description; may be empty.
    pub description: String,
    /// Start, RFC 3339 in UTC.
    pub started_at: String,
    /// End; `None` while it continues, or if it was interrupted.
    pub finished_at: Option<String>,
    /// Version of the host.
    pub host_version: String,
    /// Commit of the user's repository.
    pub git_commit: Option<String>,
    /// Its cases, in the order of the plan.
    pub cases: Vec<Case>,
    /// Facts about the machine.
    pub hardware: Vec<HardwareFact>,
    /// The recommenders' advice.
    pub advice: Vec<Advice>,
    /// Plugins that took part.
    pub plugins: Vec<PluginUse>,
}

/// A case: its record, and the values computed from its samples.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Its id.
    pub id: String,
    /// Its coordinates, with the found rate if the rate was searched.
    pub key: CaseKey,
    /// Its record in the journal, with all processes.
    pub record: CaseRecord,
    /// Measured queries.
    pub queries: Option<i64>,
    /// Values of metrics, in the host's order.
    pub results: Vec<MetricValue>,
    /// Warnings about it.
    pub warnings: Vec<Warning>,
    /// Quantiles (0 to 1, rising) and their latencies in nanoseconds.
    pub quantiles: Vec<(f64, i64)>,
    /// Histogram of its latencies.
    pub histogram: Vec<Bin>,
    /// Its first process over time, warm-up and measurement; empty if the host does not tell.
    pub timeline: Vec<Span>,
    /// Operators of its profiled run, in order of time; empty if it was not profiled, or is not among those that are drawn.
    pub profile: Vec<Node>,
    /// Earlier values of its main metric, oldest first, and this run's; empty if there are none.
    pub history: Vec<Past>,
}

/// Operators of one name and type in a profiled run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The name; `None` for all that took little time, together.
    pub name: Option<String>,
    /// The type, such as `Conv`.
    pub kind: Option<String>,
    /// Number of operators.
    pub operators: i64,
    /// Their time in nanoseconds, all together.
    pub duration_ns: i64,
}

impl Case {
    /// Returns the report of its first process; `None` unless it finished.
    #[must_use]
    pub fn report(&self) -> Option<&WorkerReport> {
        self.record.report()
    }

    /// Returns the case's specification; `None` for a gap.
    #[must_use]
    pub fn spec(&self) -> Option<&CaseSpec> {
        self.record.spec.as_ref()
    }

    /// Returns the conditions of its first process.
    #[must_use]
    pub fn conditions(&self) -> Option<&Conditions> {
        self.report().map(|report| &report.conditions)
    }

    /// Returns the search for its rate, if there was one.
    #[must_use]
    pub fn search(&self) -> Option<&RateSearch> {
        self.report()?.search.as_ref()
    }

    /// Returns whether it finished.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.report().is_some()
    }

    /// Returns whether the result is valid; `None` if it was not judged.
    #[must_use]
    pub fn valid(&self) -> Option<bool> {
        Some(self.report()?.verdict.as_ref()?.is_valid())
    }

    /// Returns the kind of its failure or gap, and the reason.
    #[must_use]
    pub fn reason(&self) -> Option<(&'static str, String)> {
        self.record.reason()
    }

    /// Returns the method of measurement as text: the settings, the clock, the placement, and the settings that the
    /// backend reports.
    #[must_use]
    pub fn method(&self) -> BTreeMap<String, String> {
        let mut method = self.spec().map(|spec| settings(&spec.measure)).unwrap_or_default();
        let Some(report) = self.report() else { return method };
        if let Some(verdict) = &report.verdict {
            method.extend(crate::words::rules(verdict));
        }
        let clock = &report.clock;
        if !clock.source.is_empty() {
            let step = crate::humanise(clock.resolution_ns as f64, "ns");
            method.insert("clock".to_owned(), format!("{}, step {step}", clock.source));
        }
        if let Some(search) = &report.search {
            method.insert(
                "search".to_owned(),
                crate::words::search(search, self.record.confidence()),
            );
        }
        for (name, value) in crate::words::conditions(&report.conditions) {
            method.insert(name.to_owned(), value);
        }
        let groups = [Group::Load, Group::Device];
        for quantity in QUANTITIES.iter().filter(|quantity| groups.contains(&quantity.group)) {
            if let Some(value) = self.quantity(quantity) {
                method.insert(quantity.heading.to_owned(), crate::quantity(quantity, value));
            }
        }
        for (name, value) in &report.used {
            method.insert(format!("backend's {}", name.replace('-', " ")), value.clone());
        }
        method
    }

    /// Returns a measured quantity's value, if it has one.
    #[must_use]
    pub fn quantity(&self, quantity: &Quantity) -> Option<f64> {
        quantity.of(&self.record)?.ok()
    }

    /// Returns a metric's entry.
    #[must_use]
    pub fn result(&self, metric: &str) -> Option<&MetricValue> {
        self.results.iter().find(|result| result.metric == metric)
    }

    /// Returns a metric's value, if it has one.
    #[must_use]
    pub fn value(&self, metric: &str) -> Option<f64> {
        self.result(metric)?.value.as_ref().ok().copied()
    }
}

/// Returns the class that a value stands for, if the metric states one.
#[must_use]
pub fn class(result: &MetricValue) -> Option<&str> {
    result.attributes.get("class").map(String::as_str)
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

/// A part of the time of a case's first process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Whether it is of the warm-up.
    pub is_warm_up: bool,
    /// Its middle in nanoseconds, from the first measured query on; below zero in the warm-up.
    pub middle_ns: f64,
    /// Queries that began in it.
    pub queries: i64,
    /// Their median latency in nanoseconds.
    pub median_ns: i64,
    /// Their greatest latency in nanoseconds.
    pub most_ns: i64,
    /// Mean clock of the device's compute units in hertz, if it was read.
    pub device_clock_hertz: Option<f64>,
}

/// A value of a case's main metric in a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Past {
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Start of the run, RFC 3339 in UTC.
    pub started_at: String,
    /// Commit of the user's repository.
    pub git_commit: Option<String>,
    /// The value.
    pub value: f64,
    /// The interval around it.
    pub interval: Option<(f64, f64)>,
    /// Ratio of the level that begins here to the one before, if a change was found here.
    pub change: Option<f64>,
}

/// A fact about the machine, which may be unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HardwareFact {
    /// Dotted name, such as `processor.name`.
    pub name: String,
    /// The value; `None` if the machine does not report it.
    pub value: Option<String>,
}

/// Advice, with the recommender that gives it.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// The plugin that gives it.
    pub plugin: String,
    /// The recommendation.
    pub recommendation: Recommendation,
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
    /// If a view or a column is missing, or differs from the reference.
    pub fn read(views: &dyn Views) -> Result<Self, Error> {
        let view = View::read(views, "run")?;
        let row =
            view.rows().next().ok_or("the view `run` is empty: there is no run to speak of")?;
        Ok(Self {
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
            plugins: plugins(views)?,
        })
    }

    /// Returns a case by its id.
    #[must_use]
    pub fn case(&self, id: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.id == id)
    }

    /// Returns the names of all cases' metrics, in the host's order.
    #[must_use]
    pub fn metrics(&self) -> Vec<&str> {
        let mut seen = BTreeSet::new();
        let results = self.cases.iter().flat_map(|case| &case.results);
        results.map(|result| result.metric.as_str()).filter(|name| seen.insert(*name)).collect()
    }

    /// Returns the confidence of all intervals, as `95 %`; `None` if they differ, one does not state its confidence, or
    /// there is no interval.
    #[must_use]
    pub fn confidence(&self) -> Option<String> {
        let results = self.cases.iter().flat_map(|case| &case.results);
        let mut levels = results
            .filter(|result| result.interval.is_some())
            .map(|result| result.attributes.get("confidence"));
        let first = levels.next()??;
        let level: f64 = first.parse().ok()?;
        levels.all(|level| level == Some(first)).then(|| host_record::words::level(level))
    }

    /// Returns how many processes an interval over processes needs at its confidence, and how many there are, if a value
    /// has too few: `needs 5 processes, has 2`.
    #[must_use]
    pub fn few_processes(&self) -> Option<&str> {
        let mut results = self.cases.iter().flat_map(|case| &case.results);
        results.find_map(|result| result.attributes.get("few-processes")).map(String::as_str)
    }

    /// Returns the common facts of the finished cases' methods, and the names of the facts that differ.
    #[must_use]
    pub fn method(&self) -> (BTreeMap<String, String>, BTreeSet<String>) {
        let finished = self.cases.iter().filter(|case| case.is_finished());
        let all: Vec<_> = finished.map(Case::method).collect();
        let mut shared = BTreeMap::new();
        let mut differing = BTreeSet::new();
        for (name, value) in all.iter().flatten() {
            if all.iter().all(|method| method.get(name) == Some(value)) {
                shared.insert(name.clone(), value.clone());
            } else {
                differing.insert(name.clone());
            }
        }
        (shared, differing)
    }

    /// Returns the start of the run as text: `2026-07-28 10:15:00 UTC`.
    #[must_use]
    pub fn started(&self) -> String {
        time_of_day(&self.started_at)
    }

    /// Returns a fact about the machine, if it is known.
    #[must_use]
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.hardware.iter().find(|fact| fact.name == name)?.value.as_deref()
    }

    /// Returns the machine in one line, from its known facts.
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

/// Formats an RFC 3339 time for display; other text is left unchanged.
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

/// Returns the fields of a JSON object as text; empty for other values.
fn object(value: serde_json::Value) -> BTreeMap<String, String> {
    let parsed: Option<BTreeMap<String, serde_json::Value>> = serde_json::from_value(value).ok();
    let plain = |value| match value {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    parsed.unwrap_or_default().into_iter().map(|(name, value)| (name, plain(value))).collect()
}

/// Returns the settings as text: `minimum-duration-ns` 1000000000 is the minimum duration, 1.00 s. A null setting
/// uses a default and is not listed.
fn settings(measure: &MeasureSettings) -> BTreeMap<String, String> {
    let percentile = |share: f64| format!("p{}", percent(share));
    let written = |name: &str, value: &str| match name {
        "warm-up" => match measure.warm_up {
            WarmUp::Iterations(count) => format!("{count} queries"),
            WarmUp::Nanoseconds(time) => crate::humanise(time as f64, "ns"),
            WarmUp::Auto => value.to_owned(),
        },
        "latency-limit" => measure.latency_limit.map_or(String::new(), |limit| {
            let of = limit.percentile.map(|share| format!(" at {}", percentile(share.get())));
            let time = crate::humanise(limit.at_most_ns as f64, "ns");
            format!("{time}{}", of.unwrap_or_default())
        }),
        "confidence" => measure.confidence.map_or(String::new(), |confidence| {
            let of = percentile(confidence.percentile.get());
            let [half, level] =
                [confidence.half_width, confidence.level].map(|it| percent(it.get()));
            format!("± {half} % of {of} at {level} %")
        }),
        _ => match (value.parse(), unit(name)) {
            (Ok(number), Some((_, unit))) => crate::humanise(number, unit),
            _ => value.to_owned(),
        },
    };
    let fields = object(serde_json::to_value(measure).unwrap_or_default());
    let settings = fields.into_iter().filter(|(_, value)| value != "null");
    settings
        .map(|(name, value)| {
            let plain = unit(&name).map_or(&*name, |(plain, _)| plain).replace('-', " ");
            (plain, written(&name, &value))
        })
        .collect()
}

/// Returns the rest of a setting's name and the unit at its end.
fn unit(name: &str) -> Option<(&str, &'static str)> {
    let bytes = || name.strip_suffix("-bytes").map(|name| (name, "B"));
    name.strip_suffix("-ns").map(|name| (name, "ns")).or_else(bytes)
}

/// Returns a share in per cent, without the digits of binary fractions.
fn percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}

/// Returns a JSON object of text, such as attributes.
fn attributes(text: Option<&str>) -> BTreeMap<String, String> {
    object(text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default())
}

fn span(row: &Row<'_>) -> Result<Span, Error> {
    Ok(Span {
        is_warm_up: row.text("phase")? == "warm-up",
        middle_ns: (row.real("start_ns")? + row.real("end_ns")?) / 2.0,
        queries: row.integer("queries")?,
        median_ns: row.integer("median_ns")?,
        most_ns: row.integer("most_ns")?,
        device_clock_hertz: row.optional_real("device_clock_hertz")?,
    })
}

fn past(row: &Row<'_>) -> Result<Past, Error> {
    let bounds = (row.optional_real("interval_low")?, row.optional_real("interval_high")?);
    Ok(Past {
        metric: row.text("metric")?.to_owned(),
        unit: row.text("unit")?.to_owned(),
        started_at: row.text("started_at")?.to_owned(),
        git_commit: owned(row.optional_text("git_commit")?),
        value: row.real("value")?,
        interval: bounds.0.zip(bounds.1),
        change: row.optional_real("change")?,
    })
}

fn cases(views: &dyn Views) -> Result<Vec<Case>, Error> {
    let view = View::read(views, "records")?;
    let mut records: BTreeMap<&str, &str> = BTreeMap::new();
    let rows: Vec<_> = view.rows().collect();
    for row in &rows {
        records.insert(row.text("case_id")?, row.text("record")?);
    }
    let view = View::read(views, "cases")?;
    let mut cases: Vec<_> =
        view.rows().map(|row| case(&row, &records)).collect::<Result<_, _>>()?;
    let mut by_id: BTreeMap<String, &mut Case> =
        cases.iter_mut().map(|case| (case.id.clone(), case)).collect();

    for row in View::read(views, "results")?.rows() {
        if let Some(case) = by_id.get_mut(row.text("case_id")?) {
            case.results.push(result(&row)?);
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
    // Hosts before 0.2 do not have these.
    let names = views.names();
    let has = |name: &str| names.iter().any(|known| known == name);
    if has("timeline") {
        for row in View::read(views, "timeline")?.rows() {
            if let Some(case) = by_id.get_mut(row.text("case_id")?) {
                case.timeline.push(span(&row)?);
            }
        }
    }
    if has("profile") {
        for row in View::read(views, "profile")?.rows() {
            if let Some(case) = by_id.get_mut(row.text("case_id")?) {
                case.profile.push(Node {
                    name: owned(row.optional_text("name")?),
                    kind: owned(row.optional_text("kind")?),
                    operators: row.integer("operators")?,
                    duration_ns: row.integer("duration_ns")?,
                });
            }
        }
    }
    if has("history") {
        for row in View::read(views, "history")?.rows() {
            if let Some(case) = by_id.get_mut(row.text("case_id")?) {
                case.history.push(past(&row)?);
            }
        }
    }
    for case in &mut cases {
        case.quantiles.sort_by(|one, other| one.0.total_cmp(&other.0));
        case.histogram.sort_by(|one, other| one.low_ns.total_cmp(&other.low_ns));
    }
    Ok(cases)
}

fn case(row: &Row<'_>, records: &BTreeMap<&str, &str>) -> Result<Case, Error> {
    let id = row.text("case_id")?;
    let record = records.get(id).ok_or_else(|| format!("view `records` lacks the case `{id}`"))?;
    let record: CaseRecord = serde_json::from_str(record)
        .map_err(|error| format!("view `records`: the record of `{id}` cannot be read: {error}"))?;
    Ok(Case {
        id: id.to_owned(),
        key: record.shown_key(),
        record,
        queries: row.optional_integer("queries")?,
        results: Vec::new(),
        warnings: Vec::new(),
        quantiles: Vec::new(),
        histogram: Vec::new(),
        timeline: Vec::new(),
        profile: Vec::new(),
        history: Vec::new(),
    })
}

fn result(row: &Row<'_>) -> Result<MetricValue, Error> {
    let low = row.optional_real("interval_low")?;
    let high = row.optional_real("interval_high")?;
    let value = match row.optional_real("value")? {
        Some(value) if value.is_finite() => Ok(value),
        Some(value) => {
            let plugin_message = format!("the metric gave {value}, which cannot be");
            Err(Gap::PluginFailed { plugin_message })
        }
        None => Err(match row.optional_text("gap_data")? {
            Some(data) => serde_json::from_str(data)
                .map_err(|error| format!("view `results`: {error}: {data}"))?,
            // A metric that failed entirely has left no gap.
            None => Gap::PluginFailed { plugin_message: row.text("gap_reason")?.to_owned() },
        }),
    };
    let direction = row.optional_text("direction")?;
    Ok(MetricValue {
        metric: row.text("metric")?.to_owned(),
        value,
        interval: low.zip(high).filter(|(low, high)| low.is_finite() && high.is_finite()),
        unit: row.optional_text("unit")?.unwrap_or_default().to_owned(),
        // A metric that failed entirely has none.
        direction: direction.map_or(Ok(Direction::Neutral), str::parse)?,
        attributes: attributes(row.optional_text("attributes")?),
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
            Ok(Advice {
                plugin: row.text("plugin")?.to_owned(),
                recommendation: Recommendation {
                    title: row.text("title")?.to_owned(),
                    explanation: row.text("explanation")?.to_owned(),
                    cases: serde_json::from_str(cases).map_err(|error| {
                        format!(
                            "view `recommendations`: `{cases}` is not an array of case ids: {error}"
                        )
                    })?,
                    attributes: attributes(row.optional_text("attributes")?),
                },
            })
        })
        .collect()
}

fn plugins(views: &dyn Views) -> Result<Vec<PluginUse>, Error> {
    let mut plugins = BTreeSet::new();
    for row in View::read(views, "plugins")?.rows() {
        plugins.insert(PluginUse {
            role: row.text("role")?.to_owned(),
            id: row.text("plugin_id")?.to_owned(),
            version: row.text("plugin_version")?.to_owned(),
            sha256: owned(row.optional_text("plugin_sha256")?),
        });
    }
    Ok(plugins.into_iter().collect())
}

#[cfg(all(test, feature = "made-up"))]
mod tests {
    use host_record::{Confidence, LatencyLimit, Outcome, Scenario, Share};

    use super::*;
    use crate::made_up::{self, COMPARISON, QUICKSTART};
    use crate::{Configuration, Labels, case_label, configurations};

    #[test]
    fn a_run_is_read_whole() {
        let run = Run::read(&made_up::tables(&COMPARISON)).expect("readable tables");
        assert_eq!(run.cases.len(), 32);
        let case = &run.cases[2];
        insta::assert_snapshot!(case_label(case), @"resnet-50 · cpu · cpu:0 · fp32 · batch 4 · single-stream");
        assert!(case.value("latency.p99").is_some_and(|p99| p99 > 0.0));
        assert!(case.quantiles.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
        let settings: Vec<_> = settings(&case.spec().expect("a plan").measure)
            .into_iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        insta::assert_snapshot!(settings.join("; ").replace('\u{202f}', " "), @"maximum duration: 60.0 s; minimum duration: 1.00 s; minimum queries: 100; timeout: 60.0 s; warm up: 200 ms");
        insta::assert_snapshot!(run.metrics().join(" "), @"latency.p50 latency.p90 latency.p99 latency.p99.9 throughput.samples memory.peak accuracy.top1");
        insta::assert_snapshot!(run.machine().replace('\u{202f}', " "), @"Example CPU 8-Core Processor · 8 cores · 16 processors · 31.2 GiB · Debian GNU/Linux 12 (bookworm)");
        assert_eq!(run.plugins.len(), 8);
        let failed =
            run.cases.iter().filter(|case| matches!(case.record.outcome, Outcome::Failed { .. }));
        assert_eq!(failed.count(), 2);
    }

    #[test]
    fn a_record_that_is_missing_or_broken_is_an_error_that_names_its_case() {
        let mut tables = made_up::tables(&QUICKSTART);
        let records = &mut tables.get_mut("records").expect("a table").rows;
        records[0][1] = plugin_guest::Cell::Text("{}".to_owned());
        let error = Run::read(&tables).expect_err("an empty record").to_string();
        assert!(error.contains("`5eed000000000000` cannot be read: missing field"), "{error}");
        tables.get_mut("records").expect("a table").rows.remove(0);
        let error = Run::read(&tables).expect_err("no record").to_string();
        assert_eq!(error, "view `records` lacks the case `5eed000000000000`");
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
        let share = |share| Share::new(share).expect("a share");
        let found = settings(&MeasureSettings {
            latency_limit: Some(LatencyLimit {
                at_most_ns: 8_000_000,
                percentile: Some(share(0.999)),
            }),
            confidence: Some(Confidence {
                level: share(0.99),
                half_width: share(0.01),
                percentile: share(0.5),
            }),
            warm_up: WarmUp::Auto,
            ..MeasureSettings::default()
        });
        assert_eq!(found["latency limit"].replace('\u{202f}', " "), "8.00 ms at p99.9");
        assert_eq!(found["confidence"], "± 1 % of p50 at 99 %");
        assert_eq!(found["warm up"], "auto");
    }

    #[test]
    fn each_metric_is_taken_from_the_scenario_that_answers_for_it() {
        let run = Run::read(&made_up::tables(&QUICKSTART)).expect("readable tables");
        let configurations = configurations(&run);
        let scenario =
            |metric| configurations[1].result(metric).map(|(case, _)| case.key.scenario.name());
        assert_eq!(scenario("latency.p99"), Some("single-stream"));
        assert_eq!(scenario("throughput.samples"), Some("offline"));
        assert_eq!(scenario("accuracy.top1"), Some("single-stream"));
        let together = configurations[1].result_in(Scenario::SingleStream, "throughput.samples");
        assert_eq!(together.map(|(case, _)| case.key.scenario.name()), Some("single-stream"));
        let mut offline = configurations[1].clone();
        offline.cases.retain(|case| case.key.scenario == Scenario::Offline);
        assert_eq!(offline.result("latency.p99").map(|(case, _)| &case.id), None);
    }
}
