/*!
Everything known about the run as one JSON document: `results.json`.

The document is an object; [`Document`] and its types are its reference. `schema` is 1.
Fields may be added without a new number; removing a field or changing its meaning raises it. A
missing value is `null`, with its reason beside it, and never a zero. Numbers are in the
unit beside them or at the end of their name.
*/

use std::collections::BTreeMap;

use host_record::{
    Axis, Conditions, Coordinate, Direction, Gap, MeasureSettings, MetricValue, Paired,
    QuantityValue, RateSearch, Recommendation, Verdict, Warning,
};
use plugin_guest::{Description, Error, NoOptions, Output, Report, Views};
use report_common::{Case, Run};
use serde::Serialize;
use serde_json::Value;

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
    /// Facts about the machine, by dotted name; `null` if it does not report one.
    pub machine: BTreeMap<&'a str, Option<&'a str>>,
    /// Plugins that took part.
    pub plugins: Vec<PluginEntry<'a>>,
    /// Cases in the order of the plan.
    pub cases: Vec<CaseEntry<'a>>,
    /// The recommenders' advice.
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
    /// Start, RFC 3339 in UTC.
    pub started_at: &'a str,
    /// End.
    pub finished_at: Option<&'a str>,
    /// Version of the host.
    pub host_version: &'a str,
    /// Commit of the user's repository, with `-dirty` if it had changes.
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

/// A case: its coordinates, its measurement, its outcome and its results. The fields of its types are the same as in
/// the journal.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct CaseEntry<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its coordinate on each axis by the axis's name, with the found rate if the rate was searched.
    #[serde(flatten)]
    pub coordinates: BTreeMap<&'static str, Value>,
    /// SHA-256 of the model file, in hexadecimal.
    pub model_sha256: Option<&'a str>,
    /// The device's full name.
    pub device_name: Option<&'a str>,
    /// Threads that the backend was allowed.
    pub threads: Option<u32>,
    /// Settings of the measurement, with every default resolved.
    pub settings: Option<&'a MeasureSettings>,
    /// `finished`, `failed` or `gap`.
    pub outcome: &'static str,
    /// Reason why it did not finish.
    pub reason: Option<Reason>,
    /// Whether the result is valid; `verdict` says why it is not.
    pub valid: Option<bool>,
    /// The rules by which it was judged, and its violations.
    pub verdict: Option<&'a Verdict>,
    /// Measured queries.
    pub queries: Option<i64>,
    /// Total duration of the case.
    pub elapsed_ns: u64,
    /// Measured quantities by name, for which the case has a value or a reason.
    pub quantities: BTreeMap<&'static str, QuantityValue>,
    /// The search for the highest rate.
    pub search: Option<&'a RateSearch>,
    /// Comparison with the case that it was measured in turns with.
    pub paired: Option<&'a Paired>,
    /// Conditions of the measurement.
    pub conditions: Option<&'a Conditions>,
    /// Settings that the backend used.
    pub used: Option<&'a BTreeMap<String, String>>,
    /// Values of metrics.
    pub results: Vec<ResultEntry<'a>>,
    /// Warnings about the case.
    pub warnings: Vec<WarningEntry<'a>>,
    /// Pairs of a quantile, 0 to 1, and its latency in nanoseconds.
    pub latency_quantiles: &'a [(f64, i64)],
    /// Histogram of the latencies.
    pub latency_histogram: Vec<BinEntry>,
}

/// Reason why a case did not finish.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Reason {
    /// The kind of the failure or gap.
    pub kind: &'static str,
    /// The reason, in one sentence.
    pub reason: String,
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
    pub direction: Direction,
    /// Bounds of an interval around the value.
    pub interval: Option<(f64, f64)>,
    /// Reason why there is no value.
    pub gap: Option<&'a Gap>,
    /// The gap as text.
    pub gap_text: Option<String>,
    /// Definition of the value, and other facts from the metric.
    pub attributes: &'a BTreeMap<String, String>,
}

/// A warning.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct WarningEntry<'a> {
    /// Its kind and its figures.
    #[serde(flatten)]
    pub warning: &'a Warning,
    /// The figures as text.
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
    /// The advice, its reasons and the cases that it rests on.
    #[serde(flatten)]
    pub recommendation: &'a Recommendation,
}

impl<'a> Document<'a> {
    /// Creates the document of a run.
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
                    recommendation: &advice.recommendation,
                })
                .collect(),
        }
    }
}

fn case(case: &Case) -> CaseEntry<'_> {
    let (spec, report) = (case.spec(), case.report());
    CaseEntry {
        id: &case.id,
        coordinates: Axis::ALL
            .iter()
            .map(|axis| {
                let value = match axis.of(&case.key) {
                    Coordinate::None => Value::Null,
                    Coordinate::Text(text) => text.into(),
                    Coordinate::Count(count) => count.into(),
                    Coordinate::Number(number) => number.into(),
                };
                (axis.name(), value)
            })
            .collect(),
        model_sha256: spec.map(|spec| spec.model.sha256.as_str()),
        device_name: spec.map(|spec| spec.device.name.as_str()),
        threads: spec.and_then(|spec| spec.threads),
        settings: spec.map(|spec| &spec.measure),
        outcome: case.record.outcome.name(),
        reason: case.reason().map(|(kind, reason)| Reason { kind, reason }),
        valid: case.valid(),
        verdict: report.and_then(|report| report.verdict.as_ref()),
        queries: case.queries,
        elapsed_ns: case.record.elapsed_ns,
        quantities: case.record.quantities(),
        search: case.search(),
        paired: report.and_then(|report| report.paired.as_deref()),
        conditions: case.conditions(),
        used: report.map(|report| &report.used),
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

fn result(result: &MetricValue) -> ResultEntry<'_> {
    ResultEntry {
        metric: &result.metric,
        value: result.value.as_ref().ok().copied(),
        unit: &result.unit,
        direction: result.direction,
        interval: result.interval,
        gap: result.value.as_ref().err(),
        gap_text: result.value.as_ref().err().map(ToString::to_string),
        attributes: &result.attributes,
    }
}

plugin_guest::export_report!(Json);

#[cfg(test)]
mod tests {
    use super::*;
    use report_common::made_up::{self, COMPARISON, SINGLE, Shape};

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
      "conditions": {
        "disturbance": {
          "elapsed-ns": 1200000000,
          "frequency-end-hertz": 3395000000,
          "frequency-start-hertz": 3400000000,
          "involuntary-switches": 31,
          "major-faults": 0,
          "minor-faults": 140,
          "processor-ns": null,
          "quota-throttled-ns": null,
          "quota-throttles": null,
          "stolen-ns": 0,
          "thermal-throttles": null,
          "voluntary-switches": 12
        },
        "scheduling": {
          "memory-nodes": null,
          "nice": 0,
          "pinned": false,
          "policy": "other",
          "processor-nodes": null,
          "processors": "0-15"
        },
        "stages": {
          "Ok": {
            "compute-ns": 113000.0,
            "copy-in-ns": 2260.0,
            "copy-out-ns": 1130.0,
            "inside-run": {
              "Err": {
                "cause": "not-offered",
                "extension": "tare/profile/1",
                "kind": "not-measured"
              }
            },
            "queries": 10
          }
        },
        "worker-version": "0.1.0"
      },
      "device": "cpu:0",
      "device-name": "Example CPU 8-Core Processor",
      "elapsed-ns": 1402000000,
      "id": "5eed000000000000",
      "latency-histogram": null,
      "latency-quantiles": null,
      "mode": "inference",
      "model": "digits",
      "model-sha256": "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752",
      "outcome": "finished",
      "paired": null,
      "precision": "fp32",
      "quantities": {
        "baseline-memory": {
          "direction": "neutral",
          "unit": "B",
          "value": 12100000.0
        },
        "clock-read": {
          "direction": "lower",
          "unit": "ns",
          "value": 24.0
        },
        "clock-resolution": {
          "direction": "lower",
          "unit": "ns",
          "value": 1.0
        },
        "compute-time": {
          "direction": "lower",
          "unit": "ns",
          "value": 113000.0
        },
        "copy-in-time": {
          "direction": "lower",
          "unit": "ns",
          "value": 2260.0
        },
        "copy-out-time": {
          "direction": "lower",
          "unit": "ns",
          "value": 1130.0
        },
        "device-allocator": {
          "direction": "lower",
          "gap": {
            "cause": "before-recorded",
            "kind": "not-measured",
            "quantity": "allocators"
          },
          "unit": "B",
          "value": null
        },
        "device-energy": {
          "direction": "lower",
          "gap": {
            "cause": "before-recorded",
            "kind": "not-measured",
            "quantity": "energy"
          },
          "unit": "J",
          "value": null
        },
        "first-run-time": {
          "direction": "lower",
          "unit": "ns",
          "value": 350300.0
        },
        "frequency-end": {
          "direction": "neutral",
          "unit": "Hz",
          "value": 3395000000.0
        },
        "frequency-start": {
          "direction": "neutral",
          "unit": "Hz",
          "value": 3400000000.0
        },
        "involuntary-switches": {
          "direction": "lower",
          "unit": "1",
          "value": 31.0
        },
        "load-time": {
          "direction": "lower",
          "unit": "ns",
          "value": 6400000.0
        },
        "loop": {
          "direction": "lower",
          "unit": "ns",
          "value": 31.5
        },
        "major-faults": {
          "direction": "lower",
          "unit": "1",
          "value": 0.0
        },
        "memory-energy": {
          "direction": "lower",
          "gap": {
            "cause": "before-recorded",
            "kind": "not-measured",
            "quantity": "energy"
          },
          "unit": "J",
          "value": null
        },
        "minor-faults": {
          "direction": "neutral",
          "unit": "1",
          "value": 140.0
        },
        "open-time": {
          "direction": "lower",
          "unit": "ns",
          "value": 1800000.0
        },
        "package-energy": {
          "direction": "lower",
          "gap": {
            "cause": "before-recorded",
            "kind": "not-measured",
            "quantity": "energy"
          },
          "unit": "J",
          "value": null
        },
        "peak-memory": {
          "direction": "lower",
          "unit": "B",
          "value": 38210000.0
        },
        "prepare-time": {
          "direction": "lower",
          "unit": "ns",
          "value": 2100000.0
        },
        "stolen-time": {
          "direction": "lower",
          "unit": "ns",
          "value": 0.0
        },
        "voluntary-switches": {
          "direction": "neutral",
          "unit": "1",
          "value": 12.0
        }
      },
      "queries": 10619,
      "rate": null,
      "reason": null,
      "results": [
        {
          "attributes": {},
          "direction": "lower",
          "gap": null,
          "gap-text": null,
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
          "gap-text": null,
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
          "gap-text": null,
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
          "gap-text": null,
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
          "gap-text": null,
          "interval": null,
          "metric": "throughput.samples",
          "unit": "1/s",
          "value": 8620.986930583815
        },
        {
          "attributes": {},
          "direction": "lower",
          "gap": null,
          "gap-text": null,
          "interval": null,
          "metric": "memory.peak",
          "unit": "B",
          "value": 38210000.0
        },
        {
          "attributes": {},
          "direction": "higher",
          "gap": null,
          "gap-text": null,
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
      "search": null,
      "sequence-length": null,
      "settings": {
        "maximum-duration-ns": 60000000000,
        "minimum-duration-ns": 1000000000,
        "minimum-queries": 100,
        "timeout-ns": 60000000000,
        "warm-up": {
          "nanoseconds": 200000000
        }
      },
      "threads": 1,
      "used": {
        "engine": "made-up 1.0",
        "threads": "1"
      },
      "valid": true,
      "verdict": {},
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
        let shown = ["rate", "search"].map(|name| format!("{name}: {}", case[name]));
        let value = |name: &str| &case["quantities"][name]["value"];
        assert_eq!((value("asked-rate"), value("achieved-rate")), (&397.5.into(), &399.25.into()));
        assert_eq!(*value("lateness-p99"), 5300.0);
        insta::assert_snapshot!(shown.join("\n"), @r#"
        rate: 397.5
        search: {"accepted":400.0,"curve":{"border":410.0,"bound-by":"latency","half":395.0,"shape":"slope"},"end":"found","held":{"bound-ns":4800000,"confidence":0.95,"latency-ns":4500000,"measurements":6,"of":"mean"},"probes":[{"achieved-per-second":409.5,"latency-ns":9000000,"lateness":{"maximum-ns":9000,"median-ns":100,"p99-ns":5200},"queries":500,"rate":410.0},{"latency-ns":null,"queries":90,"rate":800.0}],"rates":[400.0,395.0],"rejected":410.0}
        "#);
    }

    #[test]
    fn a_pair_is_written_on_both_sides() {
        let mut tables = made_up::tables(&COMPARISON);
        made_up::pair(&mut tables, [0, 1]);
        let mut files = BTreeMap::new();
        Json::render(&tables, &mut files, NoOptions {}).expect("a report");
        let document: Value = serde_json::from_slice(&files[FILE]).expect("valid JSON");
        let [first, second] = [0, 1].map(|case| &document["cases"][case]["paired"]);
        assert_eq!((&first["side"], &second["side"]), (&"first".into(), &"second".into()));
        assert_eq!(second["with"], document["cases"][0]["id"]);
        assert_eq!(second["result"]["ratio"], 1.018);
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
        assert!(
            gaps.iter()
                .all(|result| result["gap"]["kind"].is_string() && result["gap-text"].is_string())
        );
        assert_eq!(document["machine"]["processor.turbo"], Value::Null);
    }

    #[test]
    fn a_name_comes_back_as_it_was() {
        let hostile = "</script>\"\\\n\u{0}";
        let document = rendered(&Shape { models: &[hostile], ..SINGLE });
        assert_eq!(document["cases"][0]["model"], hostile);
    }
}
