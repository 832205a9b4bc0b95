/*!
Made-up tables of a run that never took place.

They are for tests, and for work on a report's layout: they show one case, two hundred cases, failures and hostile
names without measuring anything. They reach no plugin: only tests and examples enable the feature `made-up`.
*/

use std::collections::BTreeMap;

use host_record::{
    AxesChoice, AxesUse, CaseKey, CaseRecord, CaseSpec, ClockFacts, Conditions, CurveShape,
    DeviceInfo, Disturbance, Doubt, Failure, FileId, Gap, HeldLatency, HeldRate, InputOrigin,
    InputSource, InputUse, InsideRun, Lateness, MeasureSettings, ModelUse, NotMeasured, Order,
    Outcome, OutputParity, Pace, PairEnd, PairResult, Paired, Parity, PeakSource, Peaks, Phase,
    PlacementRule, PluginIdentity, Precision, Probe, RECORD_VERSION, Rate, RateBound, RateCurve,
    RateSearch, Scenario, Scheduling, SearchEnd, Side, StageTimes, Timings, Tolerance, Verdict,
    WarmUp, Warning, WorkerReport,
};
use host_statistics::{prediction_interval, student_interval};
use plugin_guest::{Cell, Recommendation, Table};

/// Tables by name of their view.
pub type Tables = BTreeMap<String, Table>;

/// Contents of the made-up run.
#[derive(Debug, Clone)]
pub struct Shape<'a> {
    /// Model names.
    pub models: &'a [&'a str],
    /// Backend names, each with one device.
    pub backends: &'a [&'a str],
    /// Precisions.
    pub precisions: &'a [Precision],
    /// Batch sizes.
    pub batches: &'a [u32],
    /// Scenarios.
    pub scenarios: &'a [Scenario],
    /// Whether some cases fail, are gaps or have warnings.
    pub troubled: bool,
}

/// Changes the records of the cases of a run.
fn change(tables: &mut Tables, mut change: impl FnMut(&mut CaseRecord)) {
    let Some(table) = tables.get_mut("records") else { return };
    for row in &mut table.rows {
        let Cell::Text(text) = &mut row[1] else { continue };
        let Ok(mut record) = serde_json::from_str(text) else { continue };
        change(&mut record);
        *text = written(&record);
    }
}

fn written(record: &CaseRecord) -> String {
    serde_json::to_string(record).unwrap_or_default()
}

/// Changes the record of a case, given by its place in the plan.
pub fn change_case(tables: &mut Tables, case_index: u64, mut change: impl FnMut(&mut CaseRecord)) {
    let id = case_id(case_index);
    self::change(tables, |record| {
        if record.case_id == id {
            change(record);
        }
    });
}

/// Changes the report of a case that finished, given by its place in the plan.
pub fn change_report(
    tables: &mut Tables,
    case_index: u64,
    mut change: impl FnMut(&mut WorkerReport),
) {
    change_case(tables, case_index, |record| {
        if let Outcome::Finished(report) = &mut record.outcome {
            change(report);
        }
    });
}

/// Adds a warning to a case, given by its place in the plan.
pub fn warn(tables: &mut Tables, case_index: u64, doubt: Doubt) {
    let rows = &mut tables.get_mut("warnings").expect("the view of warnings").rows;
    rows.push(warning_row(&case_id(case_index), doubt));
}

fn warning_row(id: &str, doubt: Doubt) -> Vec<Cell> {
    let (kind, warning) = (doubt.kind(), Warning::from(doubt));
    let data = serde_json::to_string(&warning).expect("a warning is JSON");
    vec![text(id), Cell::Integer(0), text(kind.name()), text(&data)]
}

/// Makes a case, given by its place in the plan, fail by a signal.
pub fn crash(tables: &mut Tables, case_index: u64, phase: Phase) {
    change_case(tables, case_index, |record| {
        let failure =
            Failure::Signal { signal: 11, name: "SIGSEGV".to_owned(), phase, said: String::new() };
        record.outcome = Outcome::Failed { failure };
    });
}

/// Sets the standard error of a failed case, given by its place in the plan.
pub fn say(tables: &mut Tables, case_index: u64, standard_error: &str) {
    change_case(tables, case_index, |record| record.standard_error = standard_error.to_owned());
}

/// Sets the reason of every gap.
pub fn give_reason(tables: &mut Tables, reason: &str) {
    change(tables, |record| {
        if let Outcome::Gap { gap } = &mut record.outcome {
            let (plugin, registry_message) = (record.key.backend.clone(), reason.to_owned());
            *gap = Gap::PluginMissing { plugin, registry_message };
        }
    });
}

/// Like the quickstart.
pub const QUICKSTART: Shape<'static> = Shape {
    models: &["digits"],
    backends: &["cpu"],
    precisions: &[Precision::Fp32],
    batches: &[1, 8, 64],
    scenarios: &[Scenario::SingleStream, Scenario::Offline],
    troubled: false,
};

/// Two backends, two precisions, failures, gaps and warnings.
pub const COMPARISON: Shape<'static> = Shape {
    models: &["resnet-50"],
    backends: &["cpu", "gpu"],
    precisions: &[Precision::Fp32, Precision::Int8],
    batches: &[1, 4, 16, 64],
    scenarios: &[Scenario::SingleStream, Scenario::Offline],
    troubled: true,
};

/// About two hundred cases.
pub const LARGE: Shape<'static> = Shape {
    models: &["resnet-50", "bert-base", "whisper-tiny"],
    backends: &["cpu", "gpu"],
    precisions: &[Precision::Fp32, Precision::Int8],
    batches: &[1, 2, 4, 8, 16, 32, 64, 128],
    scenarios: &[Scenario::SingleStream, Scenario::Offline],
    troubled: true,
};

/// About five hundred cases.
pub const HUGE: Shape<'static> = Shape {
    models: &["resnet-50", "bert-base", "whisper-tiny", "vit-base", "gpt2"],
    backends: &["cpu", "openvino", "gpu"],
    precisions: &[Precision::Fp32, Precision::Int8],
    batches: &[1, 2, 4, 8, 16, 32, 64, 128],
    scenarios: &[Scenario::SingleStream, Scenario::Offline],
    troubled: true,
};

/// A single case.
pub const SINGLE: Shape<'static> = Shape {
    models: &["digits"],
    backends: &["cpu"],
    precisions: &[Precision::Fp32],
    batches: &[1],
    scenarios: &[Scenario::SingleStream],
    troubled: false,
};

/// A fixed sequence of random-looking numbers.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        // Knuth's MMIX constants.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn table(columns: &str, rows: Vec<Vec<Cell>>) -> Table {
    Table { columns: columns.split_whitespace().map(str::to_owned).collect(), rows }
}

fn text(value: &str) -> Cell {
    value.into()
}

/// Returns the tables of a made-up run.
#[must_use]
pub fn tables(shape: &Shape<'_>) -> Tables {
    let mut maker = Maker::new(shape);
    let mut index = 0;
    for (model_number, model) in shape.models.iter().enumerate() {
        for (backend_number, backend) in shape.backends.iter().enumerate() {
            for precision in shape.precisions {
                for batch in shape.batches {
                    for scenario in shape.scenarios {
                        let gpu = backend_number > 0;
                        let device = if gpu { "gpu:0" } else { "cpu:0" };
                        let key = Key {
                            index,
                            model_number,
                            gpu,
                            key: CaseKey {
                                precision: *precision,
                                batch: *batch,
                                scenario: *scenario,
                                ..CaseKey::new(*model, *backend, device)
                            },
                        };
                        maker.case(&key);
                        index += 1;
                    }
                }
            }
        }
    }
    maker.finish(index)
}

struct Key {
    index: u64,
    model_number: usize,
    gpu: bool,
    key: CaseKey,
}

struct Maker<'a> {
    shape: &'a Shape<'a>,
    noise: Noise,
    cases: Vec<Vec<Cell>>,
    records: Vec<Vec<Cell>>,
    results: Vec<Vec<Cell>>,
    warnings: Vec<Vec<Cell>>,
    quantiles: Vec<Vec<Cell>>,
    histogram: Vec<Vec<Cell>>,
    timeline: Vec<Vec<Cell>>,
    profile: Vec<Vec<Cell>>,
    history: Vec<Vec<Cell>>,
    counts: [i64; 3],
}

impl<'a> Maker<'a> {
    fn new(shape: &'a Shape<'a>) -> Self {
        Self {
            shape,
            noise: Noise(7),
            cases: Vec::new(),
            records: Vec::new(),
            results: Vec::new(),
            warnings: Vec::new(),
            quantiles: Vec::new(),
            histogram: Vec::new(),
            timeline: Vec::new(),
            profile: Vec::new(),
            history: Vec::new(),
            counts: [0; 3],
        }
    }

    fn case(&mut self, place: &Key) {
        let Key { index, model_number, gpu, key } = place;
        let id = case_id(*index);
        let batch = f64::from(key.batch);
        // A fixed cost and a cost per sample, in nanoseconds.
        let (fixed, each) = if *gpu { (310_000.0, 14_000.0) } else { (21_000.0, 92_000.0) };
        let model_cost = 1.0 + *model_number as f64 * 2.7;
        let precision_cost = if key.precision == Precision::Int8 { 0.55 } else { 1.0 };
        let median = (fixed + each * batch) * model_cost * precision_cost;
        let offline = key.scenario == Scenario::Offline;
        let per_query = if offline { 450.0_f64.max(batch) } else { batch };
        let median = if offline { median * 0.93 * (per_query / batch).ceil() } else { median };
        let queries = (1.2e9 / median).floor().max(if offline { 3.0 } else { 100.0 });
        let memory = 38.0e6 * model_cost + 210_000.0 * batch * model_cost;
        let outcome = match (self.shape.troubled && *gpu, key.precision, key.batch) {
            (true, Precision::Int8, 64) => Outcome::Failed {
                failure: Failure::OutOfMemory {
                    phase: Phase::Prepare,
                    limit_bytes: None,
                    peak_bytes: None,
                    detail: "the worker used 8.0 GiB of 8.0 GiB".to_owned(),
                },
            },
            (true, Precision::Int8, 1) => Outcome::Gap {
                gap: Gap::PrecisionUnsupported {
                    backend: key.backend.clone(),
                    device: key.device.clone(),
                    precision: key.precision,
                    offered: vec![Precision::Fp32, Precision::Fp16],
                },
            },
            _ => Outcome::Finished(Box::new(report(median, model_cost, memory))),
        };
        let finished = matches!(outcome, Outcome::Finished(_));
        self.counts[match outcome {
            Outcome::Finished(_) => 0,
            Outcome::Failed { .. } => 1,
            Outcome::Gap { .. } => 2,
        }] += 1;
        let spec = (!matches!(outcome, Outcome::Gap { .. })).then(|| spec(&id, *index, key, *gpu));
        let record = CaseRecord {
            record_version: RECORD_VERSION,
            case_id: id.clone(),
            key: key.clone(),
            spec,
            process: 0,
            started_at: "2026-07-28T10:15:00.000Z".to_owned(),
            elapsed_ns: 1_402_000_000,
            outcome,
            standard_error: String::new(),
            environment: None,
            further: Vec::new(),
        };
        self.records.push(vec![text(&id), written(&record).into()]);
        let measured = if finished { Cell::Integer(queries as i64) } else { Cell::Null };
        self.cases.push(vec![text(&id), measured]);
        if !finished {
            return;
        }
        let quantiles = self.quantiles(&id, median, queries);
        self.histogram(&id, &quantiles, queries);
        self.timeline(&id, median, *gpu);
        self.profile(&id, median);
        self.history(&id, median, offline);
        self.results(key, &id, &quantiles, queries, per_query, memory);
        if self.shape.troubled && key.batch == 16 && !offline {
            self.warn(
                &id,
                Doubt::Drift { from_ns: median, to_ns: 1.061 * median, scatter_ns: 0.02 * median },
            );
        }
        if self.shape.troubled && queries < 368.0 && !offline {
            let queries = queries as u64;
            self.warn(
                &id,
                Doubt::LimitUndecided { percentile: 0.99, queries, needed_queries: 368 },
            );
        }
    }

    fn warn(&mut self, id: &str, doubt: Doubt) {
        self.warnings.push(warning_row(id, doubt));
    }

    fn quantiles(&mut self, id: &str, median: f64, queries: f64) -> Vec<(f64, f64)> {
        let mut points = vec![0.0];
        points.extend((1..100).map(|percent| f64::from(percent) / 100.0));
        let mut step = 0.001;
        while queries * step >= 1.0 {
            points.extend((1..10).map(|ninth| 1.0 - step * f64::from(10 - ninth)));
            step /= 10.0;
        }
        points.push(1.0);
        let spread = 0.03 + 0.05 * self.noise.next();
        let tail = 0.08 + 0.2 * self.noise.next();
        let mut last = 0.0_f64;
        let mut curve = Vec::new();
        for quantile in points {
            let above = (1.0 - quantile).max(0.4 / queries);
            let shape = 1.0 - spread + spread * 2.0 * quantile + tail * (0.05 / above).ln_1p();
            let wobble = 1.0 + 0.004 * (self.noise.next() - 0.5);
            last = last.max((median * shape * wobble).round());
            curve.push((quantile, last));
            self.quantiles.push(vec![text(id), quantile.into(), (last as i64).into()]);
        }
        curve
    }

    fn histogram(&mut self, id: &str, curve: &[(f64, f64)], queries: f64) {
        let (low, high) = (curve[0].1, curve[curve.len() - 1].1);
        let bins = 24;
        let ratio = (high / low).powf(1.0 / f64::from(bins));
        let below = |latency: f64| {
            let count = curve.iter().rfind(|(_, value)| *value <= latency);
            count.map_or(0.0, |(quantile, _)| *quantile)
        };
        for bin in 0..bins {
            let from = low * ratio.powi(bin);
            let to = low * ratio.powi(bin + 1);
            let share = below(to) - if bin == 0 { 0.0 } else { below(from) };
            let count = (share * queries).round() as i64;
            self.histogram.push(vec![text(id), from.into(), to.into(), count.into()]);
        }
    }

    /// A warm-up that gets faster, then a level; and the clock of a device.
    fn timeline(&mut self, id: &str, median: f64, gpu: bool) {
        let (part, warm_up) = (30e6, 6);
        for index in -warm_up..40 {
            let cold = if index < 0 { 1.0 + 0.12 * f64::from(-index) } else { 1.0 };
            let level = median * cold * (1.0 + 0.02 * self.noise.next());
            let slowest = level * (1.1 + 0.6 * self.noise.next());
            let clock = gpu.then(|| 1.98e9 - 2e6 * f64::from(index.max(0)));
            self.timeline.push(vec![
                text(id),
                text(if index < 0 { "warm-up" } else { "measured" }),
                (f64::from(index) * part).into(),
                (f64::from(index + 1) * part).into(),
                ((part / median).ceil() as i64).into(),
                ((level * 0.97) as i64).into(),
                (level as i64).into(),
                (slowest as i64).into(),
                clock.into(),
            ]);
        }
    }

    /// Four nodes in two blocks, and the rest; of three cases.
    fn profile(&mut self, id: &str, median: f64) {
        const NODES: [(&str, &str, i64, f64); 4] = [
            ("/layer.0/conv1/Conv", "Conv", 1, 0.55),
            ("/layer.0/relu/Relu", "Relu", 1, 0.05),
            ("/layer.1/conv1/Conv", "Conv", 1, 0.25),
            ("/head/Gemm", "Gemm", 1, 0.1),
        ];
        const CASES: usize = 3;
        if self.profile.len() >= CASES * (NODES.len() + 1) {
            return;
        }
        let mut begun = 0.0;
        for (name, kind, operators, part) in NODES {
            let (start, time) = ((begun * median) as i64, (part * median) as i64);
            self.profile.push(vec![
                text(id),
                text(name),
                text(kind),
                operators.into(),
                start.into(),
                time.into(),
            ]);
            begun += part;
        }
        let (start, time) = ((begun * median) as i64, (0.01 * median) as i64);
        self.profile.push(vec![
            text(id),
            Cell::Null,
            Cell::Null,
            7.into(),
            start.into(),
            time.into(),
        ]);
    }

    /// Sixteen runs, with a step after the tenth.
    fn history(&mut self, id: &str, median: f64, offline: bool) {
        let (metric, unit) = match offline {
            true => ("throughput.samples", "1/s"),
            false => ("latency.p50", "ns"),
        };
        for day in 1..=16 {
            let level = if day > 10 { 1.08 } else { 1.0 };
            let value = median * level * (1.0 + 0.01 * self.noise.next());
            self.history.push(vec![
                text(id),
                text(metric),
                text(unit),
                text(&format!("2026-07-{:02}T10:15:00.000Z", day + 12)),
                text(&format!("{:08x}", 0x3f2c_9a00_u32 + day)),
                value.into(),
                (value * 0.99).into(),
                (value * 1.01).into(),
                (day == 11).then_some(1.08).into(),
            ]);
        }
    }

    fn results(
        &mut self,
        key: &CaseKey,
        id: &str,
        curve: &[(f64, f64)],
        queries: f64,
        per_query: f64,
        memory: f64,
    ) {
        let at = |quantile: f64| {
            let found = curve.iter().find(|(at, _)| *at >= quantile - 1e-12);
            found.map_or(0.0, |(_, latency)| *latency)
        };
        for (name, quantile, needs) in [
            ("latency.p50", 0.5, 6.0),
            ("latency.p90", 0.9, 36.0),
            ("latency.p99", 0.99, 368.0),
            ("latency.p99.9", 0.999, 3688.0),
        ] {
            if queries < needs {
                let reason = format!("needs {needs} queries, has {queries}");
                self.result(id, name, Err(&reason), None, "ns", "lower");
                continue;
            }
            let half =
                (1.5 * (quantile * (1.0 - quantile) / queries).sqrt()).max(0.3 * (1.0 - quantile));
            let interval = (at(quantile - half), at((quantile + half).min(1.0)));
            self.result(id, name, Ok(at(quantile)), Some(interval), "ns", "lower");
        }
        let rate = per_query / at(0.5) * 1e9;
        self.result(id, "throughput.samples", Ok(rate), None, "1/s", "higher");
        self.result(id, "memory.peak", Ok(memory), None, "B", "lower");
        if key.model.starts_with("whisper") {
            let reason = "the data set has no labels";
            self.result(id, "accuracy.top1", Err(reason), None, "1", "higher");
        } else {
            let accuracy = if key.precision == Precision::Int8 { 0.9648 } else { 0.9766 };
            let interval = Some((accuracy - 0.0043, accuracy + 0.0039));
            self.result(id, "accuracy.top1", Ok(accuracy), interval, "1", "higher");
        }
    }

    fn result(
        &mut self,
        id: &str,
        metric: &str,
        value: Result<f64, &str>,
        interval: Option<(f64, f64)>,
        unit: &str,
        direction: &str,
    ) {
        self.results.push(vec![
            text(id),
            text(metric),
            value.ok().into(),
            text(unit),
            text(direction),
            interval.map(|(low, _)| low).into(),
            interval.map(|(_, high)| high).into(),
            value.err().map(|_| "not-measured").into(),
            value.err().into(),
            text("{}"),
            text(metric.split('.').next().unwrap_or_default()),
            text("0.1.0"),
            value.err().map(metric_gap).into(),
        ]);
    }

    fn finish(self, cases: u64) -> Tables {
        let [finished, failed, gaps] = self.counts;
        let facts = [
            ("load-average", Some("0.31")),
            ("kernel", Some("Linux 6.1.0")),
            ("memory-available-bytes", Some("31138512896")),
            ("memory-bytes", Some("33553346560")),
            ("operating-system", Some("Debian GNU/Linux 12 (bookworm)")),
            ("processor.architecture", Some("x86_64")),
            ("processor.frequency-hertz", Some("3400000000")),
            ("processor.governor", Some("performance")),
            ("processor.logical", Some("16")),
            ("processor.name", Some("Example CPU 8-Core Processor")),
            ("processor.physical", Some("8")),
            ("processor.simultaneous-multithreading", Some("true")),
            ("processor.turbo", None),
            ("virtualisation", None),
        ];
        let run = vec![
            text("20260728T101500Z-5eed"),
            text("quickstart"),
            text("Made-up values, to look at the layout: which batch size, and how fast?"),
            text("2026-07-28T10:15:00.000Z"),
            text("2026-07-28T10:15:21.400Z"),
            text("0.1.0"),
            text("3f2c9a1d0b7e"),
            (cases as i64).into(),
            finished.into(),
            failed.into(),
            gaps.into(),
        ];
        let hash = |digit: &str| Cell::Text(digit.repeat(64));
        let plugin = |role: &str, id: &str, digit: &str| {
            vec![text(role), text(id), text("0.1.0"), hash(digit)]
        };
        let mut plugins: Vec<_> =
            self.shape.backends.iter().map(|id| plugin("backend", id, "a")).collect();
        for (role, id, digit) in [
            ("metric", "latency", "b"),
            ("metric", "throughput", "c"),
            ("metric", "memory", "d"),
            ("metric", "accuracy", "e"),
            ("report", "html", "f"),
            ("recommender", "hardware", "1"),
        ] {
            plugins.push(plugin(role, id, digit));
        }
        BTreeMap::from([
            (
                "run".to_owned(),
                table(
                    "run_id experiment description started_at finished_at host_version git_commit \
                     cases finished failed gaps",
                    vec![run],
                ),
            ),
            ("cases".to_owned(), table("case_id queries", self.cases)),
            ("records".to_owned(), table("case_id record", self.records)),
            (
                "results".to_owned(),
                table(
                    "case_id metric value unit direction interval_low interval_high gap_kind \
                     gap_reason attributes plugin_id plugin_version gap_data",
                    self.results,
                ),
            ),
            ("warnings".to_owned(), table("case_id process kind data", self.warnings)),
            (
                "hardware".to_owned(),
                table(
                    "name value",
                    facts.iter().map(|(name, value)| vec![text(name), (*value).into()]).collect(),
                ),
            ),
            ("latency_quantiles".to_owned(), table("case_id quantile latency_ns", self.quantiles)),
            (
                "latency_histogram".to_owned(),
                table("case_id bin_low_ns bin_high_ns queries", self.histogram),
            ),
            (
                "timeline".to_owned(),
                table(
                    "case_id phase start_ns end_ns queries least_ns median_ns most_ns device_clock_hertz",
                    self.timeline,
                ),
            ),
            (
                "profile".to_owned(),
                table("case_id name kind operators start_ns duration_ns", self.profile),
            ),
            (
                "history".to_owned(),
                table(
                    "case_id metric unit started_at git_commit value interval_low interval_high change",
                    self.history,
                ),
            ),
            (
                "recommendations".to_owned(),
                table("plugin title explanation cases attributes", Vec::new()),
            ),
            ("plugins".to_owned(), table("role plugin_id plugin_version plugin_sha256", plugins)),
        ])
    }
}

/// Adds advice to the tables, as the host does after a recommender's answer.
pub fn advise(tables: &mut Tables, advice: &Recommendation) {
    let json =
        |value: &dyn Fn() -> serde_json::Result<String>| Cell::Text(value().unwrap_or_default());
    if let Some(table) = tables.get_mut("recommendations") {
        table.rows.push(vec![
            text("hardware"),
            text(&advice.title),
            text(&advice.explanation),
            json(&|| serde_json::to_string(&advice.cases)),
            json(&|| serde_json::to_string(&advice.attributes)),
        ]);
    }
}

/// Returns the specification of a case.
fn spec(id: &str, index: u64, key: &CaseKey, gpu: bool) -> CaseSpec {
    let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let name = if gpu { "Example GPU 8 GB" } else { "Example CPU 8-Core Processor" };
    CaseSpec {
        id: id.to_owned(),
        index,
        key: key.clone(),
        model: FileId {
            name: "model.onnx".to_owned(),
            sha256: "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752".to_owned(),
            ..FileId::default()
        },
        machine: String::new(),
        plugin: PluginIdentity {
            id: key.backend.clone(),
            version: "0.1.0".to_owned(),
            sha256: hash.to_owned(),
        },
        device: DeviceInfo {
            id: key.device.clone(),
            kind: if gpu { "gpu" } else { "cpu" }.to_owned(),
            name: name.to_owned(),
            memory_bytes: None,
            precisions: vec![key.precision],
            modes: vec![key.mode],
            attributes: BTreeMap::new(),
        },
        threads: (!gpu).then_some(1),
        options: BTreeMap::new(),
        placement: PlacementRule::Any,
        environment: Vec::new(),
        check: None,
        inputs: InputSource::Synthetic(BTreeMap::new()),
        axes: AxesChoice::default(),
        values: BTreeMap::new(),
        measure: MeasureSettings {
            warm_up: WarmUp::Nanoseconds(200_000_000),
            minimum_duration_ns: 1_000_000_000,
            maximum_duration_ns: 60_000_000_000,
            minimum_queries: 100,
            ..MeasureSettings::default()
        },
        seed: 0,
        process: 0,
        asked: None,
    }
}

/// Returns a report of a case with this median latency.
fn report(median: f64, model_cost: f64, memory: f64) -> WorkerReport {
    let time = |nanoseconds: f64| Some(nanoseconds as u64);
    let stages = StageTimes {
        queries: 10,
        copy_in_ns: median * 0.02,
        compute_ns: median,
        copy_out_ns: median * 0.01,
        inside_run: Err::<InsideRun, _>(not_offered()),
    };
    WorkerReport {
        timings: Timings {
            open_ns: time(1_800_000.0),
            load_ns: time(6_400_000.0 * model_cost),
            prepare_ns: time(2_100_000.0 * model_cost),
            first_run_ns: time(median * 3.1),
        },
        peak_memory_bytes: Some(memory as u64),
        baseline_memory_bytes: Some(12_100_000),
        clock: ClockFacts {
            source: "CLOCK_MONOTONIC".to_owned(),
            resolution_ns: 1,
            read_ns: 24.0,
            loop_ns: 31.5,
            ..ClockFacts::default()
        },
        used: [("engine", "made-up 1.0"), ("threads", "1")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        verdict: Some(Verdict {
            rules: None,
            reasons: Vec::new(),
            early_stopping: None,
            departures: Vec::new(),
        }),
        conditions: Conditions {
            worker_version: Some("0.1.0".to_owned()),
            scheduling: Some(Scheduling {
                processors: Some("0-15".to_owned()),
                policy: Some("other".to_owned()),
                nice: Some(0),
                ..Scheduling::default()
            }),
            disturbance: Some(Disturbance {
                elapsed_ns: 1_200_000_000,
                voluntary_switches: Some(12),
                involuntary_switches: Some(31),
                minor_faults: Some(140),
                major_faults: Some(0),
                stolen_ns: Some(0),
                frequency_start_hertz: Some(3_400_000_000),
                frequency_end_hertz: Some(3_395_000_000),
                ..Disturbance::default()
            }),
            stages: Some(Ok(stages)),
            ..Conditions::default()
        },
        ..WorkerReport::default()
    }
}

fn not_offered() -> Gap {
    NotMeasured::NotOffered { extension: "tare/profile/1".to_owned() }.into()
}

/// Returns a gap that a metric states for this reason, as JSON.
fn metric_gap(reason: &str) -> String {
    let gap: Gap = NotMeasured::Metric { metric_message: reason.to_owned() }.into();
    serde_json::to_string(&gap).unwrap_or_default()
}

/// Turns a case, given by its place in the plan, into an open loop whose rate two processes searched.
pub fn open_loop(tables: &mut Tables, case_index: u64) {
    let (Ok(accepted), Ok(least), Ok(rejected), Ok(far)) = (
        Rate::per_second(400.0),
        Rate::per_second(395.0),
        Rate::per_second(410.0),
        Rate::per_second(800.0),
    ) else {
        return;
    };
    let lateness = |median_ns, p99_ns, maximum_ns| Some(Lateness { median_ns, p99_ns, maximum_ns });
    let probe = Probe {
        rate: rejected,
        queries: 500,
        latency_ns: Some(9_000_000),
        achieved_per_second: Some(409.5),
        lateness: lateness(100, 5200, 9000),
    };
    let failed = Probe {
        rate: far,
        queries: 90,
        latency_ns: None,
        achieved_per_second: None,
        lateness: None,
    };
    let search = RateSearch {
        end: SearchEnd::Found,
        accepted: Some(accepted),
        rejected: Some(rejected),
        probes: vec![probe, failed],
        rates: vec![accepted, least],
        held: Some(HeldRate {
            measurements: 6,
            latency_ns: 4_500_000,
            bound_ns: 4_800_000,
            confidence: 0.95,
            of: HeldLatency::Mean,
        }),
        curve: Some(RateCurve {
            border: Some(rejected),
            half: Some(least),
            bound_by: Some(RateBound::Latency),
            shape: Some(CurveShape::Slope),
        }),
    };
    let pace = |asked, offered, achieved| {
        Some(Pace {
            asked,
            offered_per_second: Some(offered),
            achieved_per_second: Some(achieved),
            unserved: 0,
            lateness: lateness(120, 5300, 41_000),
        })
    };
    change_case(tables, case_index, |record| {
        record.key.scenario = Scenario::Server;
        if let Outcome::Finished(report) = &mut record.outcome {
            report.search = Some(search.clone());
            report.pace = pace(accepted, 402.5, 400.5);
            record.further = vec![WorkerReport {
                pace: pace(least, 400.5, 398.0),
                search: Some(search.clone()),
                ..WorkerReport::default()
            }];
        }
    });
}

/// Adds values that only some machines have: memory and energy for cases on a separate device, and the
/// energy of the processor for the others. A missing value is a gap.
pub fn count_devices(tables: &mut Tables) {
    let mut finished = Vec::new();
    change(tables, |record| {
        if record.report().is_some() {
            finished.push((text(&record.case_id), record.key.device == "gpu:0"));
        }
    });
    let Some(results) = tables.get_mut("results") else { return };
    for (id, gpu) in finished {
        for (metric, unit, value) in [
            ("memory.device-peak", "B", gpu.then_some(767_557_632.0)),
            ("memory.allocator-peak", "B", gpu.then_some(512_000_000.0)),
            ("energy.device-per-sample", "J", gpu.then_some(0.0125)),
            ("energy.package-per-sample", "J", Some(if gpu { 0.002 } else { 0.031 })),
        ] {
            results.rows.push(vec![
                id.clone(),
                text(metric),
                value.into(),
                text(unit),
                text("lower"),
                Cell::Null,
                Cell::Null,
                value.is_none().then_some("not-measured").into(),
                value.is_none().then_some("the backend does not count it").into(),
                text("{}"),
                text(metric.split('.').next().unwrap_or_default()),
                text("0.1.0"),
                value.is_none().then(|| metric_gap("the backend does not count it")).into(),
            ]);
        }
    }
}

/// Adds a comparison of a case's outputs with a reference's; the case is given by its place in the
/// plan.
pub fn compare_outputs(tables: &mut Tables, case_index: u64) {
    let parity = Parity {
        reference: "cpu 0.1.0 on cpu:0 in fp32".to_owned(),
        tolerance: Tolerance {
            absolute: 0.0,
            of_scale: 0.01,
            relative: 0.02,
            outliers: 0.0,
            cosine: 0.999,
            top1: 0.95,
        },
        batches: 4,
        outputs: vec![OutputParity {
            name: "logits".to_owned(),
            values: 40,
            beyond: 0,
            far_beyond: 0,
            max_absolute_error: Some(0.0034),
            max_relative_error: Some(0.0056),
            scale: Some(0.61),
            cosine: Some(0.999_987),
            correlation: Some(0.999_981),
            row_error: Some(0.0061),
            top1: Some(0.975),
            same_class: Some(1.0),
        }],
    };
    change_report(tables, case_index, |report| {
        report.conditions.parity = Some(parity.clone());
    });
}

/// Adds an input to the record of a case; the case is given by its place in the plan.
pub fn use_input(tables: &mut Tables, case_index: u64) {
    let input = InputUse {
        name: "ids".to_owned(),
        element_type: "int64".to_owned(),
        shape: vec![8, 128],
        origin: InputOrigin::Index { entries: 30_522, operator: "Gather".to_owned() },
    };
    let model =
        ModelUse { axes: AxesUse::default(), inputs: vec![input], samples: Ok(8), card: None };
    change_report(tables, case_index, |report| {
        report.conditions.model = Some(model.clone());
    });
}

/// Gives the first cases, so many of them, the peaks of a processor, an intensity and a computing rate.
pub fn set_roof(tables: &mut Tables, cases: u64) {
    let peaks = Peaks {
        flops_per_second: Ok(1.536e11),
        bytes_per_second: Ok(4.1e10),
        format: "fp32".to_owned(),
        source: PeakSource::Calibrated {
            threads: 2,
            instructions: Some("AVX-512 FMA".to_owned()),
            buffer_bytes: 1 << 27,
        },
    };
    for index in 0..cases {
        change_report(tables, index, |report| {
            report.conditions.peaks = Some(Ok(peaks.clone()));
        });
        let intensity = 2.0 * 3_f64.powi(index as i32);
        let compute = (0.4 * intensity * 4.1e10).min(9e10);
        let Some(table) = tables.get_mut("results") else { return };
        for (metric, value, unit) in [
            ("model.intensity", intensity, "FLOP/B"),
            ("model.compute", compute, "FLOP/s"),
            ("model.flops-utilisation", compute / 1.536e11, "1"),
        ] {
            let mut row = vec![text(&case_id(index)), text(metric), Cell::Real(value), text(unit)];
            row.push(text("neutral"));
            row.extend([Cell::Null, Cell::Null, Cell::Null, Cell::Null]);
            row.extend([text("{}"), text("model"), text("0.1.0"), Cell::Null]);
            table.rows.push(row);
        }
    }
}

/// Appends a text to every reason, name and remark in the records, for tests of unusual characters.
pub fn append_to_texts(tables: &mut Tables, end: &str) {
    fn append(value: &mut serde_json::Value, end: &str) {
        match value {
            // Text of several words is not an identifier.
            serde_json::Value::String(text) if text.contains(' ') => text.push_str(end),
            serde_json::Value::Array(values) => {
                values.iter_mut().for_each(|value| append(value, end));
            }
            serde_json::Value::Object(fields) => {
                fields.values_mut().for_each(|value| append(value, end));
            }
            _ => {}
        }
    }
    change(tables, |record| {
        let mut value = serde_json::to_value(&*record).unwrap_or_default();
        append(&mut value, end);
        if let Ok(changed) = serde_json::from_value(value) {
            *record = changed;
        }
    });
}

/// Replaces a metric's value for a case, given by its place in the plan. No value makes it a gap.
pub fn set_value(
    tables: &mut Tables,
    case_index: u64,
    metric: &str,
    value: Option<f64>,
    interval: Option<(f64, f64)>,
) {
    let id = text(&case_id(case_index));
    let Some(table) = tables.get_mut("results") else { return };
    let mut rows = table.rows.iter_mut().filter(|row| row[0] == id && row[1] == text(metric));
    if let Some(row) = rows.next() {
        row[2] = value.into();
        row[5] = interval.map(|(low, _)| low).into();
        row[6] = interval.map(|(_, high)| high).into();
        row[7] = value.is_none().then_some("not-measured").into();
        row[8] = value.is_none().then_some("made up to be missing").into();
        row[12] = value.is_none().then(|| metric_gap("made up to be missing")).into();
    }
}

/// Sets a metric's value of each process of a case, given by its place in the plan; the value is their mean, with both of
/// its intervals. The processes of all such cases took turns.
pub fn set_processes(tables: &mut Tables, case_index: u64, metric: &str, values: &[f64]) {
    let each: Vec<&[f64]> = values.chunks(1).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let interval = student_interval(&each, |one| one[0], 0.95);
    let interval = interval.map(|interval| (interval.low, interval.high)).ok();
    set_value(tables, case_index, metric, Some(mean), interval);
    let written: Vec<_> = values.iter().map(f64::to_string).collect();
    let mut attributes = serde_json::json!({ "process-values": written.join(" ") });
    if let Ok((low, high)) = prediction_interval(values, 0.95) {
        attributes["prediction-low"] = low.to_string().into();
        attributes["prediction-high"] = high.to_string().into();
    }
    let id = text(&case_id(case_index));
    let Some(table) = tables.get_mut("results") else { return };
    for row in &mut table.rows {
        if row[0] == id && row[1] == text(metric) {
            row[9] = text(&attributes.to_string());
        }
    }
    let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
    measure_in(tables, case_index, count, Order::Interleaved);
}

/// Sets the number of processes of a case, given by its place in the plan, and their order.
pub fn measure_in(tables: &mut Tables, case_index: u64, processes: u32, order: Order) {
    change_case(tables, case_index, |record| {
        if let Some(spec) = &mut record.spec {
            (spec.measure.processes, spec.measure.order) = (processes, order);
        }
    });
}

/// Pairs two cases, given by their places in the plan: the second is 1.8 % slower.
pub fn pair(tables: &mut Tables, cases: [u64; 2]) {
    let result = PairResult {
        processes: 12,
        ratio: 1.018,
        interval: Some((1.012, 1.024)),
        deviation: Some(0.004),
        level: 0.995,
        half_width: 0.01,
        end: Some(PairEnd::Differs),
        needed: None,
    };
    for (position, case) in cases.into_iter().enumerate() {
        let is_second = position == 1;
        let paired = Paired {
            with: case_id(cases[1 - position]),
            side: Side::at(position),
            ratio: 1.02,
            total_ratio: 1.03,
            rounds: 9,
            block_ns: 2_000_000,
            handover_ns: 150_000,
            result: if is_second { result } else { result.mirrored() },
        };
        change_report(tables, case, |report| report.paired = Some(Box::new(paired.clone())));
    }
}

/// Returns the id of a made-up case, given by its place in the plan.
#[must_use]
pub fn case_id(case_index: u64) -> String {
    format!("{:016x}", 0x5eed_0000_0000_0000_u64 + case_index)
}
