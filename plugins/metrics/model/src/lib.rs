/*!
A model's card: its size, its parameters and operators, the cost of a pass, and how much of the device's peaks a case
uses.

Operations are two for each product that convolutions, products of matrices and recurrent layers sum. The *least
traffic* counts inputs, outputs, and weights that are read once; the *unfused traffic* counts what each operator reads
and writes. The arithmetic intensity is operations for each byte of the least traffic, and so an upper bound.

Passes for each second come from the throughput: that of queries, or if a query is several passes that of samples,
divided by the samples of a pass. Times the operations of a pass they are the computing rate, and divided by the
device's peak the *model FLOPs utilisation* (MFU; Chowdhery et al. 2022, PaLM, section 4.1). Times the least traffic
they are the bandwidth; it is a lower bound, and more than the peak if weights stay in caches.

A step of training counts as three passes: one forward, and two backward, for the gradients of values and of weights
(the same paper, appendix B). Its traffic is not known. Steps are those that were measured, with their marks.

Peaks are those of the device in the format in which the case computed. Their source is an attribute.
*/

use std::collections::BTreeMap;

use host_record::{CaseRecord, Mode, ModelCard, NotMeasured, Outcome, Peaks, Quantity, Scenario};
use plugin_guest::{Description, Direction, Error, Gap, Measurement, Row, RunMetric, View, Views};
use serde::Deserialize;

/// Scenarios in which a query is several passes.
const SEVERAL_PASSES: [Scenario; 2] = [Scenario::Offline, Scenario::MultiStream];

/// Passes that have as many operations as a step of training.
const PASSES_OF_A_STEP: f64 = 3.0;

/// The metric.
pub struct Model;

/// Options of the metric.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct Options {
    /// Whether peaks and their use are stated.
    pub utilisation: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { utilisation: true }
    }
}

impl RunMetric for Model {
    type Options = Options;

    fn describe() -> Description {
        plugin_guest::describe!("model", {
            "utilisation" => "Whether peaks of the device, and how much of them is used, are stated; processors are calibrated for that, in about a second for a run. Default: true.",
        })
    }

    fn outline(options: &Options) -> Result<Vec<Measurement>, Error> {
        let gap = || Gap::not_measured("nothing is measured yet");
        let stated = Quantity::stated_by("model").map(|(metric, quantity)| {
            Measurement::new(metric, Err(gap()), quantity.unit, Direction::Neutral)
        });
        let computed = [(); 5].map(|()| Err(gap()));
        Ok(stated.chain(computed_values(computed)).filter(|it| is_wanted(it, options)).collect())
    }

    fn compute(views: &dyn Views, options: &Options) -> Result<Vec<(String, Measurement)>, Error> {
        let mut throughputs = throughputs(views)?;
        let records = View::read(views, "records")?;
        let mut all = Vec::new();
        for row in records.rows() {
            let record: CaseRecord =
                serde_json::from_str(row.text("record")?).map_err(|error| Error::View {
                    view: "records".into(),
                    reason: error.to_string(),
                })?;
            if !matches!(record.outcome, Outcome::Finished(_)) {
                continue;
            }
            let mut throughput = |metric: &str| {
                let key = (record.case_id.clone(), metric.to_owned());
                throughputs.remove(&key).unwrap_or_else(|| {
                    Err(Gap::not_measured(format!(
                        "the run has no `{metric}`; the metric `throughput` computes it"
                    )))
                })
            };
            let passes = passes(&record, &mut throughput);
            let values = card(&record, &passes);
            let values = values.into_iter().filter(|it| is_wanted(it, options));
            all.extend(values.map(|value| (record.case_id.clone(), value)));
        }
        Ok(all)
    }
}

plugin_guest::export_run_metric!(Model);

fn is_wanted(measurement: &Measurement, options: &Options) -> bool {
    let name = measurement.metric.as_str();
    let is_of_peaks = name.ends_with("-utilisation") || name.starts_with("model.peak-");
    options.utilisation || !is_of_peaks
}

/// A rate with its interval.
#[derive(Debug, Clone, Copy)]
struct Rate {
    value: f64,
    interval: Option<(f64, f64)>,
}

impl Rate {
    fn times(self, factor: f64) -> Self {
        let interval = self.interval.map(|(low, high)| (low * factor, high * factor));
        Self { value: self.value * factor, interval }
    }
}

type Rates = BTreeMap<(String, String), Result<Rate, Gap>>;

/// Returns the throughputs of cases, by case and metric.
fn throughputs(views: &dyn Views) -> Result<Rates, Error> {
    let results = View::read(views, "results")?;
    let mut rates = Rates::new();
    for row in results.rows() {
        let metric = row.text("metric")?;
        if metric.starts_with("throughput.") {
            let key = (row.text("case_id")?.to_owned(), metric.to_owned());
            rates.insert(key, rate(metric, &row)?);
        }
    }
    Ok(rates)
}

fn rate(metric: &str, row: &Row<'_>) -> Result<Result<Rate, Gap>, Error> {
    let Some(value) = row.optional_real("value")? else {
        let reason = row.optional_text("gap_reason")?.unwrap_or("no reason given");
        return Ok(Err(Gap::not_measured(format!("`{metric}` is a gap: {reason}"))));
    };
    let bounds = (row.optional_real("interval_low")?, row.optional_real("interval_high")?);
    let interval = match bounds {
        (Some(low), Some(high)) => Some((low, high)),
        _ => None,
    };
    Ok(Ok(Rate { value, interval }))
}

/// Returns the passes for each second.
fn passes(
    record: &CaseRecord,
    throughput: &mut dyn FnMut(&str) -> Result<Rate, Gap>,
) -> Result<Rate, Gap> {
    let mode = record.key.mode;
    if !matches!(mode, Mode::Inference | Mode::Training) {
        return Err(gap(&NotMeasured::NotAPass { mode }.into()));
    }
    if !SEVERAL_PASSES.contains(&record.key.scenario) {
        return throughput("throughput.queries");
    }
    let samples = record.report().and_then(|report| report.conditions.model.as_ref());
    let samples = match samples.map(|model| &model.samples) {
        Some(Ok(0)) | None => Err(Gap::not_measured("the samples of a pass are not known")),
        Some(Ok(samples)) => Ok(*samples),
        Some(Err(reason)) => Err(gap(reason)),
    };
    Ok(throughput("throughput.samples")?.times(1.0 / samples? as f64))
}

fn gap(reason: &host_record::Gap) -> Gap {
    Gap::not_measured(reason.to_string())
}

/// Returns all values of a case.
fn card(record: &CaseRecord, passes: &Result<Rate, Gap>) -> Vec<Measurement> {
    let conditions = record.report().map(|report| &report.conditions);
    let card = conditions.and_then(|it| it.model.as_ref()?.card.as_ref()?.as_ref().ok());
    let peaks = conditions.and_then(|it| it.peaks.as_ref()?.as_ref().ok());
    let mut values = BTreeMap::new();
    let mut all = Vec::new();
    for (metric, quantity) in Quantity::stated_by("model") {
        let value = match quantity.of(record) {
            Some(value) => value.map_err(|reason| gap(&reason)),
            None if metric.starts_with("model.peak-") => Err(Gap::not_measured(
                "the run has no peaks of this device; a run whose manifest has the metric `model` measures those of \
                 processors",
            )),
            None => Err(Gap::not_measured("the record predates the cards of models")),
        };
        values.insert(quantity.id, value.clone());
        let measurement = Measurement::new(metric, value, quantity.unit, Direction::Neutral)
            .with_attribute("of", quantity.definition);
        all.push(described(measurement, card, peaks));
    }
    let value = |name: &str| {
        values
            .get(name)
            .cloned()
            .unwrap_or_else(|| Err(Gap::not_measured(format!("there is no quantity `{name}`"))))
    };
    let (operations, bytes) = (value("model-operations"), value("least-traffic"));
    let plain = |value| Rate { value, interval: None };
    let intensity = match (&operations, &bytes) {
        (Ok(operations), Ok(bytes)) if *bytes > 0.0 => Ok(plain(operations / bytes)),
        (Ok(_), Ok(_)) => Err(Gap::not_measured("a pass moves no byte")),
        (Err(gap), _) | (_, Err(gap)) => Err(gap.clone()),
    };
    let times =
        |amount: Result<f64, Gap>| -> Result<Rate, Gap> { Ok(passes.clone()?.times(amount?)) };
    let mode = record.key.mode;
    let (compute, bandwidth) = match mode {
        Mode::Training => (
            times(operations).map(|rate| rate.times(PASSES_OF_A_STEP)),
            Err(gap(&NotMeasured::NotAPass { mode }.into())),
        ),
        _ => (times(operations), times(bytes)),
    };
    let of_peak = |rate: &Result<Rate, Gap>, peak: &str| -> Result<Rate, Gap> {
        let (rate, peak) = (rate.clone()?, value(peak)?);
        Ok(rate.times(1.0 / peak))
    };
    let used = of_peak(&compute, "peak-compute");
    let bandwidth_used = of_peak(&bandwidth, "peak-bandwidth");
    let computed = computed_values([intensity, compute, bandwidth, used, bandwidth_used]);
    all.extend(computed.map(|measurement| described(measurement, card, peaks)));
    all
}

/// Returns intensity, computing rate, bandwidth, and the parts of the peaks.
fn computed_values(values: [Result<Rate, Gap>; 5]) -> impl Iterator<Item = Measurement> {
    const COMPUTED: [(&str, &str, Direction, &str); 5] = [
        (
            "model.intensity",
            "FLOP/B",
            Direction::Neutral,
            "operations of a pass for each byte of its least traffic",
        ),
        (
            "model.compute",
            "FLOP/s",
            Direction::Higher,
            "operations of a pass, times passes for each second; a step of training counts as three passes",
        ),
        (
            "model.bandwidth",
            "B/s",
            Direction::Neutral,
            "least traffic of a pass, times passes for each second",
        ),
        (
            "model.flops-utilisation",
            "1",
            Direction::Higher,
            "operations for each second, divided by the device's peak",
        ),
        (
            "model.bandwidth-utilisation",
            "1",
            Direction::Neutral,
            "bytes of the least traffic for each second, divided by the device's peak",
        ),
    ];
    COMPUTED.into_iter().zip(values).map(|((name, unit, direction, definition), value)| {
        let interval = value.as_ref().ok().and_then(|rate| rate.interval);
        let value = value.map(|rate| rate.value);
        let measurement =
            Measurement::new(name, value, unit, direction).with_attribute("of", definition);
        match interval {
            Some((low, high)) => measurement.with_interval(low, high),
            None => measurement,
        }
    })
}

/// Adds what a figure rests on.
fn described(
    measurement: Measurement,
    card: Option<&ModelCard>,
    peaks: Option<&Peaks>,
) -> Measurement {
    /// Operators that are named.
    const NAMED: usize = 100;
    match (measurement.metric.as_str(), card, peaks) {
        ("model.parameters", Some(card), _) => {
            let weights = card.weights.iter().map(|(element, weights)| {
                let plural = if weights.tensors == 1 { "" } else { "s" };
                format!("{} {element} in {} tensor{plural}", weights.elements, weights.tensors)
            });
            measurement.with_attribute("weights", weights.collect::<Vec<_>>().join(", "))
        }
        ("model.operators", Some(card), _) => {
            let mut operators: Vec<_> = card.operators.iter().collect();
            operators.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), (*name).clone()));
            let named = operators.iter().take(NAMED).map(|(name, count)| format!("{name} {count}"));
            measurement.with_attribute("operators", named.collect::<Vec<_>>().join(", "))
        }
        (
            "model.peak-compute"
            | "model.peak-bandwidth"
            | "model.flops-utilisation"
            | "model.bandwidth-utilisation",
            _,
            Some(peaks),
        ) => measurement
            .with_attribute("peak-source", peaks.source.to_string())
            .with_attribute("peak-format", peaks.format.as_str()),
        _ => measurement,
    }
}

#[cfg(test)]
mod tests {
    use host_record::{
        AxesUse, CaseKey, Conditions, ModelCost, ModelUse, PeakSource, Weights, WorkerReport,
    };
    use plugin_guest::{Cell, Table};

    use super::*;

    fn card_of(flops: Result<u64, host_record::Gap>) -> ModelCard {
        let weights = Weights { tensors: 2, elements: 1000, bytes: 4000 };
        ModelCard {
            bytes: 4100,
            parameters: 1000,
            operators: [("Conv".to_owned(), 3), ("Relu".to_owned(), 3), ("Gemm".to_owned(), 5)]
                .into(),
            weights: [("fp32".to_owned(), weights)].into(),
            cost: ModelCost { flops, least_bytes: Ok(5000), unfused_bytes: Ok(9000) },
        }
    }

    /// Returns a record of a case that computes four samples in a pass.
    fn record(card: ModelCard, change: impl FnOnce(&mut CaseKey)) -> CaseRecord {
        let peaks = Peaks {
            flops_per_second: Ok(1e9),
            bytes_per_second: Err(NotMeasured::NoBatchAxis.into()),
            format: "fp32".into(),
            source: PeakSource::Calibrated {
                threads: 2,
                instructions: Some("AVX2 FMA".into()),
                buffer_bytes: 1 << 20,
            },
        };
        let model = ModelUse {
            axes: AxesUse::default(),
            inputs: Vec::new(),
            samples: Ok(4),
            card: Some(Ok(card)),
        };
        let conditions =
            Conditions { model: Some(model), peaks: Some(Ok(peaks)), ..Conditions::default() };
        let report = WorkerReport { conditions, ..WorkerReport::default() };
        let mut key = CaseKey::new("m", "b", "d");
        change(&mut key);
        CaseRecord {
            record_version: host_record::RECORD_VERSION,
            case_id: "c".into(),
            key,
            spec: None,
            process: 0,
            started_at: String::new(),
            elapsed_ns: 1,
            outcome: Outcome::Finished(Box::new(report)),
            standard_error: String::new(),
            environment: None,
            further: Vec::new(),
        }
    }

    fn views(record: &CaseRecord, results: &[(&str, f64)]) -> BTreeMap<String, Table> {
        let columns = |names: &str| names.split(' ').map(str::to_owned).collect();
        let text = serde_json::to_string(record).expect("JSON");
        let records = vec![vec![Cell::from("c"), Cell::from(text)]];
        let rows = results.iter().map(|(metric, value)| {
            vec![
                "c".into(),
                (*metric).into(),
                (*value).into(),
                (value * 0.5).into(),
                (value * 2.0).into(),
                Cell::Null,
            ]
        });
        let results = "case_id metric value interval_low interval_high gap_reason";
        [
            ("records", Table { columns: columns("case_id record"), rows: records }),
            ("results", Table { columns: columns(results), rows: rows.collect() }),
        ]
        .map(|(name, table)| (name.to_owned(), table))
        .into()
    }

    fn computed(record: &CaseRecord, results: &[(&str, f64)]) -> BTreeMap<String, Measurement> {
        let found = Model::compute(&views(record, results), &Options::default()).expect("views");
        found.into_iter().map(|(_, one)| (one.metric.clone(), one)).collect()
    }

    fn reason(measurement: &Measurement) -> &str {
        &measurement.value.as_ref().expect_err("a gap").reason
    }

    #[test]
    fn a_case_uses_the_part_of_the_peak_that_its_passes_compute() {
        let record = record(card_of(Ok(1_000_000)), |_| {});
        let found = computed(&record, &[("throughput.queries", 500.0)]);
        let value = |name: &str| found[name].value.clone().expect("a value");
        assert_eq!(value("model.parameters"), 1000.0);
        assert_eq!(value("model.operators"), 11.0);
        assert_eq!(value("model.intensity"), 200.0);
        assert_eq!(value("model.compute"), 5e8);
        assert_eq!(value("model.flops-utilisation"), 0.5);
        assert_eq!(found["model.flops-utilisation"].interval, Some((0.25, 1.0)));
        assert_eq!(value("model.bandwidth"), 2.5e6);
        assert_eq!(
            reason(&found["model.bandwidth-utilisation"]),
            NotMeasured::NoBatchAxis.to_string()
        );
        let attribute = |metric: &str, name: &str| found[metric].attributes[name].clone();
        assert_eq!(attribute("model.operators", "operators"), "Gemm 5, Conv 3, Relu 3");
        assert_eq!(attribute("model.parameters", "weights"), "1000 fp32 in 2 tensors");
        assert_eq!(
            attribute("model.flops-utilisation", "peak-source"),
            "calibrated with 2 threads (AVX2 FMA; reads of 1 MiB)"
        );
    }

    #[test]
    fn a_step_of_training_counts_as_three_passes() {
        let record = record(card_of(Ok(1_000_000)), |key| key.mode = Mode::Training);
        let found = computed(&record, &[("throughput.queries", 100.0)]);
        assert_eq!(found["model.compute"].value, Ok(3e8));
        assert_eq!(
            reason(&found["model.bandwidth"]),
            "costs are counted for one pass, and a query in mode training is more than that"
        );
    }

    #[test]
    fn a_query_of_several_passes_is_counted_by_its_samples() {
        let record = record(card_of(Ok(1_000_000)), |key| key.scenario = Scenario::Offline);
        let found =
            computed(&record, &[("throughput.queries", 1.0), ("throughput.samples", 400.0)]);
        assert_eq!(found["model.compute"].value, Ok(1e8));
    }

    #[test]
    fn what_is_not_known_is_a_gap_and_never_a_part_of_the_sum() {
        let unknown = NotMeasured::NoFormula {
            without_formula: vec!["Loop".into()],
            without_shape: vec!["NonZero".into()],
            sparse: Vec::new(),
        };
        let record_of =
            |change: fn(&mut CaseKey)| record(card_of(Err(unknown.clone().into())), change);
        let found = computed(&record_of(|_| {}), &[("throughput.queries", 500.0)]);
        for name in
            ["model.operations", "model.intensity", "model.compute", "model.flops-utilisation"]
        {
            assert_eq!(
                reason(&found[name]),
                "there is no formula for the cost of `Loop`; shapes behind `NonZero` depend on values"
            );
        }
        assert_eq!(found["model.bandwidth"].value, Ok(2.5e6));
        let found = computed(&record(card_of(Ok(1)), |key| key.mode = Mode::Generation), &[]);
        assert_eq!(
            reason(&found["model.flops-utilisation"]),
            "costs are counted for one pass, and a query in mode generation is more than that"
        );
        let found = computed(&record(card_of(Ok(1)), |_| {}), &[]);
        assert_eq!(
            reason(&found["model.compute"]),
            "the run has no `throughput.queries`; the metric `throughput` computes it"
        );
    }

    #[test]
    fn what_is_stated_is_what_is_outlined() {
        let record = record(card_of(Ok(1)), |_| {});
        for utilisation in [true, false] {
            let options = Options { utilisation };
            let names = |all: &[Measurement]| -> Vec<String> {
                all.iter().map(|one| format!("{} {}", one.metric, one.unit)).collect()
            };
            let stated = Model::compute(&views(&record, &[]), &options).expect("views");
            let stated: Vec<_> = stated.into_iter().map(|(_, one)| one).collect();
            let outlined = names(&Model::outline(&options).expect("options"));
            assert_eq!(names(&stated), outlined);
            assert_eq!(outlined.iter().any(|name| name.contains("peak")), utilisation);
        }
    }
}
