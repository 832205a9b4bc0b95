/*!
Everything that is known of the run as one JSON document: `results.json`.

The document is an object; [`Document`] and the types that it is made of are its reference. `schema` is 1.
Fields may be added without a new number; a field that goes or changes its meaning raises it. A
value that is missing is `null`, with its reason beside it, and never a zero. Numbers are in the
unit that stands beside them or that their name ends in.
*/

use std::collections::BTreeMap;

use plugin_guest::{Description, Error, NoOptions, Output, Report, Views};
use report_common::{
    Case, Disturbance, Gap, MetricResult, OpenLoop, Outcome, QueryStages, RateSearch, Run,
    Scheduling, Warning,
};
use serde::Serialize;

/// The report.
pub struct Json;

const FILE: &str = "results.json";

/// Version of the document's structure.
const SCHEMA: u32 = 1;

impl Report for Json {
    type Options = NoOptions;

    fn describe() -> Description {
        plugin_guest::describe!("json")
    }

    fn render(
        views: &dyn Views,
        output: &mut dyn Output,
        _: NoOptions,
    ) -> Result<Vec<String>, Error> {
        let run = Run::read(views)?;
        let mut contents =
            serde_json::to_vec_pretty(&Document::new(&run)).map_err(|error| error.to_string())?;
        contents.push(b'\n');
        output.write(FILE, &contents)?;
        Ok(vec![FILE.to_owned()])
    }
}

/// The document.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Document<'a> {
    /// Version of this structure.
    pub schema: u32,
    /// The run.
    pub run: RunEntry<'a>,
    /// What is known of the machine, by dotted name; `null` where it does not say.
    pub machine: BTreeMap<&'a str, Option<&'a str>>,
    /// Plugins that took part.
    pub plugins: Vec<PluginEntry<'a>>,
    /// Cases in the order of the plan.
    pub cases: Vec<CaseEntry<'a>>,
    /// What recommenders said.
    pub recommendations: Vec<RecommendationEntry<'a>>,
}

/// The run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunEntry<'a> {
    /// Its id.
    pub id: &'a str,
    /// The experiment's name.
    pub experiment: &'a str,
    /// The experiment's description; may be empty.
    pub description: &'a str,
    /// When it started, RFC 3339 in UTC.
    pub started_at: &'a str,
    /// When it finished.
    pub finished_at: Option<&'a str>,
    /// Version of the host.
    pub host_version: &'a str,
    /// Commit of the user's repository, with `-dirty` where it had changes.
    pub git_commit: Option<&'a str>,
}

/// A plugin that took part.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PluginEntry<'a> {
    /// `backend`, `metric`, `report` or `recommender`.
    pub role: &'a str,
    /// Its id.
    pub id: &'a str,
    /// Its version.
    pub version: &'a str,
    /// SHA-256 of its library or component, in hexadecimal.
    pub sha256: Option<&'a str>,
}

/// A case: its coordinates, how it was measured, how it ended and what came out.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct CaseEntry<'a> {
    /// Its id.
    pub id: &'a str,
    /// The model's name in the manifest.
    pub model: &'a str,
    /// SHA-256 of the model file, in hexadecimal.
    pub model_sha256: Option<&'a str>,
    /// The backend's name in the manifest.
    pub backend: &'a str,
    /// The device, such as `cpu:0`.
    pub device: &'a str,
    /// The device's full name.
    pub device_name: Option<&'a str>,
    /// The precision.
    pub precision: &'a str,
    /// Samples per batch.
    pub batch: i64,
    /// Length of the sequence axis.
    pub sequence_length: Option<i64>,
    /// What was done with the model.
    pub mode: &'a str,
    /// How queries were issued.
    pub scenario: &'a str,
    /// Queries per second that were asked for, in an open loop.
    pub rate: Option<f64>,
    /// Clients of a closed loop.
    pub clients: Option<i64>,
    /// How the load of an open loop was kept up.
    pub open_loop: Option<&'a OpenLoop>,
    /// What the search for the highest rate came to.
    pub search: Option<&'a RateSearch>,
    /// Threads that the backend was allowed.
    pub threads: Option<i64>,
    /// `finished`, `failed` or `gap`.
    pub outcome: &'static str,
    /// Why it did not finish.
    pub reason: Option<GapEntry<'a>>,
    /// Whether the result is valid; `warnings` say why it is not.
    pub valid: Option<bool>,
    /// Measured queries.
    pub queries: Option<i64>,
    /// How long the case took in all.
    pub elapsed_ns: Option<i64>,
    /// The worker's highest resident memory.
    pub peak_memory_bytes: Option<i64>,
    /// The clock's name.
    pub clock: Option<&'a str>,
    /// The clock's smallest step.
    pub clock_resolution_ns: Option<i64>,
    /// Median cost of one clock reading.
    pub clock_read_ns: Option<f64>,
    /// Median cost of one iteration of the measuring loop with an empty target.
    pub loop_ns: Option<f64>,
    /// One-off times by stage.
    pub stages_ns: BTreeMap<&'a str, i64>,
    /// Where the time of a whole query goes, copies included.
    pub query_stages: Option<&'a QueryStages>,
    /// Why that is not known, where it was looked at.
    pub query_stages_gap: Option<GapEntry<'a>>,
    /// Where the worker ran.
    pub scheduling: Option<&'a Scheduling>,
    /// What the kernel counted while measuring.
    pub disturbance: Option<&'a Disturbance>,
    /// How it was measured, as far as the host says.
    pub settings: &'a BTreeMap<String, String>,
    /// What the backend says that it used.
    pub used: &'a BTreeMap<String, String>,
    /// Values of metrics.
    pub results: Vec<ResultEntry<'a>>,
    /// What is doubtful.
    pub warnings: Vec<WarningEntry<'a>>,
    /// Pairs of a quantile, 0 to 1, and its latency in nanoseconds.
    pub latency_quantiles: &'a [(f64, i64)],
    /// Histogram of the latencies.
    pub latency_histogram: Vec<BinEntry>,
}

/// Why something is missing.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct GapEntry<'a> {
    /// A word for the kind of reason.
    pub kind: &'a str,
    /// The reason, in one sentence.
    pub reason: &'a str,
}

/// A value of a metric.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ResultEntry<'a> {
    /// Dotted name.
    pub metric: &'a str,
    /// The value in `unit`.
    pub value: Option<f64>,
    /// Unit by its symbol.
    pub unit: &'a str,
    /// `lower` or `higher` (is better), or `neutral`.
    pub direction: &'static str,
    /// Bounds of an interval around the value.
    pub interval: Option<(f64, f64)>,
    /// Why there is no value.
    pub gap: Option<GapEntry<'a>>,
    /// How the value is defined, and whatever else the metric says.
    pub attributes: &'a BTreeMap<String, String>,
}

/// A warning.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct WarningEntry<'a> {
    /// Its kind and its figures.
    #[serde(flatten)]
    pub warning: &'a Warning,
    /// The figures in words.
    pub text: String,
}

/// A bin of a histogram.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct BinEntry {
    /// Lower bound.
    pub low_ns: f64,
    /// Upper bound.
    pub high_ns: f64,
    /// Queries in it.
    pub queries: i64,
}

/// Advice.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RecommendationEntry<'a> {
    /// The plugin that gives it.
    pub plugin: &'a str,
    /// In one line.
    pub title: &'a str,
    /// Why, with the figures.
    pub explanation: &'a str,
    /// Ids of the cases that it rests on.
    pub cases: &'a [String],
    /// Whatever else the recommender says.
    pub attributes: &'a BTreeMap<String, String>,
}

impl<'a> Document<'a> {
    /// The document of a run.
    #[must_use]
    pub fn new(run: &'a Run) -> Self {
        Self {
            schema: SCHEMA,
            run: RunEntry {
                id: &run.id,
                experiment: &run.experiment,
                description: &run.description,
                started_at: &run.started_at,
                finished_at: run.finished_at.as_deref(),
                host_version: &run.host_version,
                git_commit: run.git_commit.as_deref(),
            },
            machine: run
                .hardware
                .iter()
                .map(|fact| (fact.name.as_str(), fact.value.as_deref()))
                .collect(),
            plugins: run
                .plugins
                .iter()
                .map(|plugin| PluginEntry {
                    role: &plugin.role,
                    id: &plugin.id,
                    version: &plugin.version,
                    sha256: plugin.sha256.as_deref(),
                })
                .collect(),
            cases: run.cases.iter().map(case).collect(),
            recommendations: run
                .advice
                .iter()
                .map(|advice| RecommendationEntry {
                    plugin: &advice.plugin,
                    title: &advice.title,
                    explanation: &advice.explanation,
                    cases: &advice.cases,
                    attributes: &advice.attributes,
                })
                .collect(),
        }
    }
}

fn case(case: &Case) -> CaseEntry<'_> {
    let (outcome, reason) = match &case.outcome {
        Outcome::Finished => ("finished", None),
        Outcome::Failed(reason) => ("failed", Some(gap(reason))),
        Outcome::Gap(reason) => ("gap", Some(gap(reason))),
    };
    let surroundings = &case.surroundings;
    let stages = surroundings.stages.as_ref();
    CaseEntry {
        id: &case.id,
        model: &case.model,
        model_sha256: case.model_sha256.as_deref(),
        backend: &case.backend,
        device: &case.device,
        device_name: case.device_name.as_deref(),
        precision: &case.precision,
        batch: case.batch,
        sequence_length: case.sequence_length,
        mode: &case.mode,
        scenario: &case.scenario,
        rate: case.rate,
        clients: case.clients,
        open_loop: Some(&case.open_loop).filter(|known| **known != OpenLoop::default()),
        search: case.search.as_ref(),
        threads: case.threads,
        outcome,
        reason,
        valid: case.valid,
        queries: case.queries,
        elapsed_ns: case.elapsed_ns,
        peak_memory_bytes: case.peak_memory_bytes,
        clock: case.clock.as_ref().map(|(source, _)| source.as_str()),
        clock_resolution_ns: case.clock.as_ref().and_then(|(_, resolution)| *resolution),
        clock_read_ns: case.clock_read_ns,
        loop_ns: case.loop_ns,
        stages_ns: case.stages.iter().copied().collect(),
        query_stages: stages.and_then(|stages| stages.as_ref().ok()),
        query_stages_gap: stages.and_then(|stages| stages.as_ref().err()).map(gap),
        scheduling: surroundings.scheduling.as_ref(),
        disturbance: surroundings.disturbance.as_ref(),
        settings: &case.settings,
        used: &case.used,
        results: case.results.iter().map(result).collect(),
        warnings: case
            .warnings
            .iter()
            .map(|warning| WarningEntry { warning, text: warning.to_string() })
            .collect(),
        latency_quantiles: &case.quantiles,
        latency_histogram: case
            .histogram
            .iter()
            .map(|bin| BinEntry { low_ns: bin.low_ns, high_ns: bin.high_ns, queries: bin.queries })
            .collect(),
    }
}

fn gap(gap: &Gap) -> GapEntry<'_> {
    GapEntry { kind: &gap.kind, reason: &gap.reason }
}

fn result(result: &MetricResult) -> ResultEntry<'_> {
    ResultEntry {
        metric: &result.metric,
        value: result.value.as_ref().ok().copied(),
        unit: &result.unit,
        direction: result.direction.name(),
        interval: result.interval,
        gap: result.value.as_ref().err().map(gap),
        attributes: &result.attributes,
    }
}

plugin_guest::export_report!(Json);

#[cfg(test)]
mod tests {
    use super::*;
    use report_common::made_up::{self, COMPARISON, SINGLE, Shape};
    use serde_json::Value;

    fn rendered(shape: &Shape<'_>) -> Value {
        let mut files = BTreeMap::new();
        let names =
            Json::render(&made_up::tables(shape), &mut files, NoOptions {}).expect("a report");
        assert_eq!(names, [FILE]);
        serde_json::from_slice(&files[FILE]).expect("valid JSON")
    }

    #[test]
    fn a_case_is_written_with_all_that_is_known_of_it() {
        let mut document = rendered(&SINGLE);
        let case = &mut document["cases"][0];
        let quantiles = case["latency-quantiles"].as_array().expect("quantiles").len();
        assert!(quantiles > 100);
        case["latency-quantiles"] = Value::Null;
        case["latency-histogram"] = Value::Null;
        insta::assert_snapshot!(serde_json::to_string_pretty(case).expect("JSON"), @r#"
    {
      "backend": "cpu",
      "batch": 1,
      "clients": null,
      "clock": "CLOCK_MONOTONIC",
      "clock-read-ns": 24.0,
      "clock-resolution-ns": 1,
      "device": "cpu:0",
      "device-name": "Example CPU 8-Core Processor",
      "disturbance": {
        "frequency-end-hertz": 3395000000,
        "frequency-start-hertz": 3400000000,
        "involuntary-switches": 31,
        "major-faults": 0,
        "minor-faults": 140,
        "quota-throttles": null,
        "stolen-ns": 0,
        "thermal-throttles": null,
        "voluntary-switches": 12
      },
      "elapsed-ns": 1402000000,
      "id": "5eed000000000000",
      "latency-histogram": null,
      "latency-quantiles": null,
      "loop-ns": 31.5,
      "mode": "inference",
      "model": "digits",
      "model-sha256": "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752",
      "open-loop": null,
      "outcome": "finished",
      "peak-memory-bytes": 38210000,
      "precision": "fp32",
      "queries": 10619,
      "query-stages": {
        "compute-ns": 113000.0,
        "copy-in-ns": 2260.0,
        "copy-out-ns": 1130.0
      },
      "query-stages-gap": null,
      "rate": null,
      "reason": null,
      "results": [
        {
          "attributes": {},
          "direction": "lower",
          "gap": null,
          "interval": [
            113234.0,
            118712.0
          ],
          "metric": "latency.p50",
          "unit": "ns",
          "value": 115996.0
        },
        {
          "attributes": {},
          "direction": "lower",
          "gap": null,
          "interval": [
            127471.0,
            135002.0
          ],
          "metric": "latency.p90",
          "unit": "ns",
          "value": 130436.0
        },
        {
          "attributes": {},
          "direction": "lower",
          "gap": null,
          "interval": [
            174228.0,
            183282.0
          ],
          "metric": "latency.p99",
          "unit": "ns",
          "value": 174228.0
        },
        {
          "attributes": {},
          "direction": "lower",
          "gap": null,
          "interval": [
            240049.0,
            260390.0
          ],
          "metric": "latency.p99.9",
          "unit": "ns",
          "value": 240049.0
        },
        {
          "attributes": {},
          "direction": "higher",
          "gap": null,
          "interval": null,
          "metric": "throughput.samples",
          "unit": "1/s",
          "value": 8620.986930583815
        },
        {
          "attributes": {},
          "direction": "lower",
          "gap": null,
          "interval": null,
          "metric": "memory.peak",
          "unit": "B",
          "value": 38210000.0
        },
        {
          "attributes": {},
          "direction": "higher",
          "gap": null,
          "interval": [
            0.9723,
            0.9805
          ],
          "metric": "accuracy.top1",
          "unit": "1",
          "value": 0.9766
        }
      ],
      "scenario": "single-stream",
      "scheduling": {
        "pinned": false,
        "processors": "0-15"
      },
      "search": null,
      "sequence-length": null,
      "settings": {
        "maximum duration": "60.0 s",
        "minimum duration": "1.00 s",
        "minimum queries": "100",
        "timeout": "60.0 s",
        "warm up": "200 ms"
      },
      "stages-ns": {
        "first run": 350300,
        "load the model": 6400000,
        "open the plugin": 1800000,
        "prepare it": 2100000
      },
      "threads": 1,
      "used": {
        "engine": "made-up 1.0",
        "threads": "1"
      },
      "valid": true,
      "warnings": []
    }
    "#);
    }

    #[test]
    fn the_load_of_an_open_loop_and_its_search_are_written() {
        let mut tables = made_up::tables(&SINGLE);
        made_up::open_loop(&mut tables, 0);
        let mut files = BTreeMap::new();
        Json::render(&tables, &mut files, NoOptions {}).expect("a report");
        let document: Value = serde_json::from_slice(&files[FILE]).expect("valid JSON");
        let case = &document["cases"][0];
        let shown = ["rate", "open-loop", "search", "query-stages", "scheduling", "disturbance"]
            .map(|name| format!("{name}: {}", case[name]));
        insta::assert_snapshot!(shown.join("\n"), @r#"
    rate: 395.0
    open-loop: {"achieved-rate":399.25,"asked-rate":397.5,"lateness-max-ns":41000,"lateness-p50-ns":120,"lateness-p99-ns":5300,"offered-rate":401.5,"unserved":0}
    search: {"end":"found","fine":400.0,"probes":[{"achieved-per-second":409.5,"latency-ns":9000000,"lateness":{"maximum-ns":9000,"median-ns":100,"p99-ns":5200},"queries":500,"rate":410.0},{"achieved-per-second":null,"latency-ns":null,"lateness":null,"queries":90,"rate":800.0}],"rates":[400.0,395.0],"too-much":410.0}
    query-stages: {"compute-ns":113000.0,"copy-in-ns":2260.0,"copy-out-ns":1130.0}
    scheduling: {"pinned":false,"processors":"0-15"}
    disturbance: {"frequency-end-hertz":3395000000,"frequency-start-hertz":3400000000,"involuntary-switches":31,"major-faults":0,"minor-faults":140,"quota-throttles":null,"stolen-ns":0,"thermal-throttles":null,"voluntary-switches":12}
    "#);
    }

    #[test]
    fn what_was_not_measured_is_null_and_has_a_reason() {
        let document = rendered(&COMPARISON);
        assert_eq!(document["schema"], 1);
        let cases = document["cases"].as_array().expect("cases");
        let failed: Vec<_> = cases.iter().filter(|case| case["outcome"] == "failed").collect();
        assert_eq!(failed.len(), 2);
        assert!(failed.iter().all(|case| case["reason"]["kind"] == "out-of-memory"));
        let results = cases.iter().filter_map(|case| case["results"].as_array()).flatten();
        let gaps: Vec<_> = results.filter(|result| result["value"].is_null()).collect();
        assert!(!gaps.is_empty());
        assert!(gaps.iter().all(|result| result["gap"]["reason"].is_string()));
        assert_eq!(document["machine"]["processor.turbo"], Value::Null);
    }

    #[test]
    fn a_name_comes_back_as_it_was() {
        let hostile = "</script>\"\\\n\u{0}";
        let document = rendered(&Shape { models: &[hostile], ..SINGLE });
        assert_eq!(document["cases"][0]["model"], hostile);
    }
}
