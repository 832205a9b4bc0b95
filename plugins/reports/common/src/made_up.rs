/*!
Made-up tables of a run that never took place.

Tests need them, and so does anyone who works on a report's layout and wants to see one case, two
hundred cases, failures and hostile names without measuring anything. Nothing here reaches a
plugin: the feature `made-up` is asked for by tests and examples only.
*/

use std::collections::BTreeMap;

use plugin_guest::{Cell, Recommendation, Table};

/// Tables by name of their view.
pub type Tables = BTreeMap<String, Table>;

/// What the made-up run consists of.
#[derive(Debug, Clone)]
pub struct Shape<'a> {
    /// Model names.
    pub models: &'a [&'a str],
    /// Backend names; a device each.
    pub backends: &'a [&'a str],
    /// Precisions.
    pub precisions: &'a [&'a str],
    /// Batch sizes.
    pub batches: &'a [i64],
    /// Scenarios.
    pub scenarios: &'a [&'a str],
    /// Whether some cases fail, are gaps or carry warnings.
    pub troubled: bool,
}

/// Gives every case that has a reason for its end another one.
pub fn give_reason(tables: &mut Tables, reason: &str) {
    for table in tables.values_mut() {
        let Some(column) = table.columns.iter().position(|name| name == "reason") else { continue };
        for cell in table.rows.iter_mut().filter_map(|row| row.get_mut(column)) {
            if let Cell::Text(text) = cell {
                reason.clone_into(text);
            }
        }
    }
}

/// Like the quickstart.
pub const QUICKSTART: Shape<'static> = Shape {
    models: &["digits"],
    backends: &["cpu"],
    precisions: &["fp32"],
    batches: &[1, 8, 64],
    scenarios: &["single-stream", "offline"],
    troubled: false,
};

/// Two backends, two precisions, failures, gaps and warnings.
pub const COMPARISON: Shape<'static> = Shape {
    models: &["resnet-50"],
    backends: &["cpu", "gpu"],
    precisions: &["fp32", "int8"],
    batches: &[1, 4, 16, 64],
    scenarios: &["single-stream", "offline"],
    troubled: true,
};

/// Some two hundred cases.
pub const LARGE: Shape<'static> = Shape {
    models: &["resnet-50", "bert-base", "whisper-tiny"],
    backends: &["cpu", "gpu"],
    precisions: &["fp32", "int8"],
    batches: &[1, 2, 4, 8, 16, 32, 64, 128],
    scenarios: &["single-stream", "offline"],
    troubled: true,
};

/// A single case.
pub const SINGLE: Shape<'static> = Shape {
    models: &["digits"],
    backends: &["cpu"],
    precisions: &["fp32"],
    batches: &[1],
    scenarios: &["single-stream"],
    troubled: false,
};

/// Numbers that look random and are the same each time.
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

/// The tables of a made-up run.
#[must_use]
pub fn tables(shape: &Shape<'_>) -> Tables {
    let mut maker = Maker::new(shape);
    let mut index = 0;
    for (model_number, model) in shape.models.iter().enumerate() {
        for (backend_number, backend) in shape.backends.iter().enumerate() {
            for precision in shape.precisions {
                for batch in shape.batches {
                    for scenario in shape.scenarios {
                        let key = Key {
                            index,
                            model,
                            model_number,
                            backend,
                            backend_number,
                            precision,
                            batch: *batch,
                            scenario,
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

struct Key<'a> {
    index: i64,
    model: &'a str,
    model_number: usize,
    backend: &'a str,
    backend_number: usize,
    precision: &'a str,
    batch: i64,
    scenario: &'a str,
}

struct Maker<'a> {
    shape: &'a Shape<'a>,
    noise: Noise,
    cases: Vec<Vec<Cell>>,
    results: Vec<Vec<Cell>>,
    warnings: Vec<Vec<Cell>>,
    quantiles: Vec<Vec<Cell>>,
    histogram: Vec<Vec<Cell>>,
    counts: [i64; 3],
}

impl<'a> Maker<'a> {
    fn new(shape: &'a Shape<'a>) -> Self {
        Self {
            shape,
            noise: Noise(7),
            cases: Vec::new(),
            results: Vec::new(),
            warnings: Vec::new(),
            quantiles: Vec::new(),
            histogram: Vec::new(),
            counts: [0; 3],
        }
    }

    fn case(&mut self, key: &Key<'_>) {
        let id = case_id(key.index.unsigned_abs());
        let gpu = key.backend_number > 0;
        let (outcome, reason_kind, reason) = match (self.shape.troubled, key.precision, key.batch) {
            (true, "int8", 64) if gpu => (
                "failed",
                text("out-of-memory"),
                text("out of memory in phase prepare: the worker used 8.0 GiB of 8.0 GiB"),
            ),
            (true, "int8", 1) if gpu => (
                "gap",
                text("precision-unsupported"),
                text("gpu:0 computes in fp32 and fp16, not in int8"),
            ),
            _ => ("finished", Cell::Null, Cell::Null),
        };
        let finished = outcome == "finished";
        self.counts
            [["finished", "failed", "gap"].iter().position(|it| *it == outcome).unwrap_or(0)] += 1;

        let batch = key.batch as f64;
        // A fixed cost and a cost per sample, in nanoseconds.
        let (fixed, each) = if gpu { (310_000.0, 14_000.0) } else { (21_000.0, 92_000.0) };
        let model_cost = 1.0 + key.model_number as f64 * 2.7;
        let precision_cost = if key.precision == "int8" { 0.55 } else { 1.0 };
        let median = (fixed + each * batch) * model_cost * precision_cost;
        let offline = key.scenario == "offline";
        let per_query = if offline { 450.0_f64.max(batch) } else { batch };
        let median = if offline { median * 0.93 * (per_query / batch).ceil() } else { median };
        let queries = (1.2e9 / median).floor().max(if offline { 3.0 } else { 100.0 });
        let memory = 38.0e6 * model_cost + 210_000.0 * batch * model_cost;
        let device = if gpu { "gpu:0" } else { "cpu:0" };
        let device_name = if gpu { "Example GPU 8 GB" } else { "Example CPU 8-Core Processor" };
        let when = |value: f64| if finished { Cell::Real(value) } else { Cell::Null };
        let whole = |value: f64| if finished { Cell::Integer(value as i64) } else { Cell::Null };
        let named = |value: &str| if outcome == "gap" { Cell::Null } else { text(value) };
        self.cases.push(vec![
            text(&id),
            key.index.into(),
            text(key.model),
            text(key.backend),
            text(device),
            text(key.precision),
            key.batch.into(),
            Cell::Null,
            text("inference"),
            text(key.scenario),
            text(outcome),
            reason_kind,
            reason,
            named(key.backend),
            named("0.1.0"),
            named("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),
            text("60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"),
            named(device_name),
            if gpu { Cell::Null } else { 1.into() },
            whole(queries),
            Cell::Integer(1_402_000_000),
            whole(memory),
            when(24.0),
            when(31.5),
            whole(1_800_000.0),
            whole(6_400_000.0 * model_cost),
            whole(2_100_000.0 * model_cost),
            whole(median * 3.1),
            whole(12.1e6),
            if finished { text("CLOCK_MONOTONIC") } else { Cell::Null },
            whole(1.0),
            if finished { text(r#"{"engine":"made-up 1.0","threads":"1"}"#) } else { Cell::Null },
            text(
                r#"{"warm-up":{"nanoseconds":200000000},"minimum-duration-ns":1000000000,"maximum-duration-ns":60000000000,"minimum-queries":100,"offline-examples":null,"timeout-ns":60000000000}"#,
            ),
            Cell::Null,
            Cell::Null,
            if finished { true.into() } else { Cell::Null },
        ]);
        if let Some(case) = self.cases.last_mut() {
            case.extend(std::iter::repeat_n(Cell::Null, 8));
            case.push(if finished { conditions(median) } else { Cell::Null });
        }
        if !finished {
            return;
        }
        let quantiles = self.quantiles(&id, median, queries);
        self.histogram(&id, &quantiles, queries);
        self.results(key, &id, &quantiles, queries, per_query, memory);
        if self.shape.troubled && key.batch == 16 && !offline {
            self.warnings.push(vec![
                text(&id),
                text("drift"),
                text("the median of the last fifth is 6.1 % above that of the first fifth"),
            ]);
        }
        if self.shape.troubled && queries < 368.0 && !offline {
            let evidence = format!("{queries} queries, where a stated p99 needs 368");
            self.warnings.push(vec![text(&id), text("few-samples"), text(&evidence)]);
        }
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

    fn results(
        &mut self,
        key: &Key<'_>,
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
            let accuracy = if key.precision == "int8" { 0.9648 } else { 0.9766 };
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
        ]);
    }

    fn finish(self, cases: i64) -> Tables {
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
            cases.into(),
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
            (
                "cases".to_owned(),
                table(
                    "case_id case_index model backend device precision batch sequence_length mode \
                     scenario outcome reason_kind reason plugin_id plugin_version plugin_sha256 \
                     model_sha256 device_name threads queries elapsed_ns peak_memory_bytes \
                     clock_read_ns loop_ns open_ns load_ns prepare_ns first_run_ns \
                     baseline_memory_bytes clock_source clock_resolution_ns used measure rate clients \
                     valid asked_rate offered_rate achieved_rate unserved lateness_p50_ns \
                     lateness_p99_ns lateness_max_ns search conditions",
                    self.cases,
                ),
            ),
            (
                "results".to_owned(),
                table(
                    "case_id metric value unit direction interval_low interval_high gap_kind \
                     gap_reason attributes plugin_id plugin_version",
                    self.results,
                ),
            ),
            ("warnings".to_owned(), table("case_id kind evidence", self.warnings)),
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
                "recommendations".to_owned(),
                table("plugin title explanation cases attributes", Vec::new()),
            ),
            ("plugins".to_owned(), table("role plugin_id plugin_version plugin_sha256", plugins)),
        ])
    }
}

/// Adds advice to the tables, as the host does once a recommender has spoken.
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

/// What a case was measured under, as the host writes it.
fn conditions(median: f64) -> Cell {
    Cell::Text(format!(
        r#"{{"worker-version":"0.1.0","scheduling":{{"processors":"0-15","pinned":false,"policy":"other","nice":0}},
        "disturbance":{{"elapsed-ns":1200000000,"voluntary-switches":12,"involuntary-switches":31,"minor-faults":140,
        "major-faults":0,"stolen-ns":0,"thermal-throttles":null,"frequency-start-hertz":3400000000,
        "frequency-end-hertz":3395000000}},
        "stages":{{"Ok":{{"queries":10,"copy-in-ns":{:.1},"compute-ns":{median:.1},"copy-out-ns":{:.1},
        "inside-run":{{"Err":{{"kind":"not-measured","reason":"no such extension"}}}}}}}}}}"#,
        median * 0.02,
        median * 0.01
    ))
}

/// Makes an open loop of a case, given by its place in the plan, whose rate two processes searched.
pub fn open_loop(tables: &mut Tables, case_index: u64) {
    let id = text(&case_id(case_index));
    let Some(table) = tables.get_mut("cases") else { return };
    let search = r#"{"end":"found","fine":400.0,"too-much":410.0,"probes":[
        {"rate":410.0,"queries":500,"latency-ns":9000000,"achieved-per-second":409.5,
         "lateness":{"median-ns":100,"p99-ns":5200,"maximum-ns":9000}},
        {"rate":800.0,"queries":90,"latency-ns":null}],"rates":[400.0,395.0]}"#;
    let cells = [
        ("scenario", text("server")),
        ("asked_rate", 397.5.into()),
        ("offered_rate", 401.5.into()),
        ("achieved_rate", 399.25.into()),
        ("unserved", 0.into()),
        ("lateness_p50_ns", 120.into()),
        ("lateness_p99_ns", 5300.into()),
        ("lateness_max_ns", 41_000.into()),
        ("search", text(search)),
    ];
    let places: Vec<_> = cells
        .into_iter()
        .filter_map(|(name, cell)| {
            Some((table.columns.iter().position(|column| column == name)?, cell))
        })
        .collect();
    for row in table.rows.iter_mut().filter(|row| row[0] == id) {
        for (place, cell) in &places {
            row[*place] = cell.clone();
        }
    }
}

/// Gives cases of a run what only some machines can tell: to those on a device of its own, its memory and
/// energy, and to the others the energy of the processor. Where there is none, there is a gap.
pub fn count_devices(tables: &mut Tables) {
    let Some(cases) = tables.get("cases") else { return };
    let device = cases.columns.iter().position(|column| column == "device").unwrap_or(0);
    let outcome = cases.columns.iter().position(|column| column == "outcome").unwrap_or(0);
    let finished: Vec<_> = cases
        .rows
        .iter()
        .filter(|row| row[outcome] == text("finished"))
        .map(|row| (row[0].clone(), row[device] == text("gpu:0")))
        .collect();
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
            ]);
        }
    }
}

/// Makes the outputs of a case, given by its place in the plan, compared with those of a reference.
pub fn compare_outputs(tables: &mut Tables, case_index: u64) {
    let id = text(&case_id(case_index));
    let Some(table) = tables.get_mut("cases") else { return };
    let Some(column) = table.columns.iter().position(|column| column == "conditions") else {
        return;
    };
    let parity = r#"{"parity":{"reference":"cpu 0.1.0 on cpu:0 in fp32","batches":4,
        "tolerance":{"absolute":0.01,"relative":0.02,"cosine":0.999},
        "outputs":[{"name":"logits","values":40,"beyond":0,"max-absolute-error":0.0034,
        "max-relative-error":0.0056,"cosine":0.999987,"top1":0.975}]}}"#;
    for row in table.rows.iter_mut().filter(|row| row[0] == id) {
        row[column] = text(parity);
    }
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
    }
}

/// The id of a made-up case, given by its place in the plan.
#[must_use]
pub fn case_id(case_index: u64) -> String {
    format!("{:016x}", 0x5eed_0000_0000_0000_u64 + case_index)
}
