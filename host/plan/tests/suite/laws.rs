//! Laws of every plan, held against a model that is too simple to be wrong: all cells are written
//! out, and each rule is applied to each.

use std::collections::BTreeSet;

use host_manifest::{
    Backend, DeviceChoice, Experiment, Matrix, Model, PartialCell, PerPrecision, parse,
};
use host_plan::{BackendFacts, Facts, ModelFacts, Plan, PlanError};
use host_record::{
    AxesChoice, CaseKey, DeviceInfo, FileId, Gap, GapKind, InputSource, MeasureSettings, Mode,
    PlacementRule, PluginIdentity, Precision, Rate, Scenario, WarmUp,
};
use proptest::prelude::*;
use proptest::sample::subsequence;

const MODELS: [&str; 2] = ["m0", "m1"];
const BACKENDS: [&str; 3] = ["b0", "b1", "b2"];

fn some<T: Clone + std::fmt::Debug + 'static>(
    values: &[T],
    minimum: usize,
) -> impl Strategy<Value = Vec<T>> + use<T> {
    let length = values.len();
    subsequence(values.to_vec(), minimum..=length).prop_shuffle()
}

fn owned(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

fn devices() -> Vec<DeviceChoice> {
    let ids = ["d0", "d1", "d9"].map(|id| DeviceChoice::Id(id.to_owned()));
    [DeviceChoice::Auto].into_iter().chain(ids).collect()
}

fn rates() -> [Rate; 2] {
    [0.5, 100.0].map(|rate| Rate::per_second(rate).unwrap())
}

fn partial_cell() -> impl Strategy<Value = PartialCell> {
    (
        some(&owned(&MODELS), 0),
        some(&owned(&BACKENDS), 0),
        some(&devices(), 0),
        some(&[Precision::Fp32, Precision::Int8], 0),
        some(&[1, 2, 3, 4], 0),
        some(&[16, 32], 0),
        some(Scenario::ALL, 0),
        (some(&rates(), 0), some(&[1, 2], 0)),
    )
        .prop_map(
            |(model, backend, device, precision, batch, sequence_length, scenario, load)| {
                let (rate, clients) = load;
                PartialCell {
                    model,
                    backend,
                    device,
                    precision,
                    batch,
                    sequence_length,
                    mode: vec![],
                    scenario,
                    rate,
                    clients,
                }
            },
        )
}

fn experiment() -> impl Strategy<Value = Experiment> {
    (
        (
            some(&owned(&MODELS), 1),
            some(&owned(&BACKENDS), 1),
            some(&[Precision::Fp32, Precision::Fp16], 1),
            some(&[1, 2, 3], 1),
            some(&[16, 64], 0),
            some(Scenario::ALL, 1),
            (some(&rates(), 0), some(&[2, 4], 0)),
        ),
        proptest::collection::vec(partial_cell(), 0..3),
        proptest::collection::vec(partial_cell(), 0..3),
        proptest::collection::vec(some(&devices(), 1), BACKENDS.len()),
    )
        .prop_map(|(axes, include, exclude, devices)| {
            let (model, backend, precision, batch, sequence_length, scenario, load) = axes;
            let (rate, clients) = load;
            Experiment {
                name: "laws".to_owned(),
                description: String::new(),
                seed: 0,
                results: None,
                plugins: vec![],
                models: MODELS
                    .iter()
                    .map(|id| Model {
                        id: (*id).to_owned(),
                        path: PerPrecision::All("m".into()),
                        architecture: None,
                        inputs: InputSource::Synthetic([].into()),
                        axes: AxesChoice::default(),
                    })
                    .collect(),
                backends: BACKENDS
                    .iter()
                    .zip(devices)
                    .map(|(id, devices)| Backend {
                        id: (*id).to_owned(),
                        plugin: (*id).to_owned(),
                        version: "*".parse().unwrap(),
                        folder: None,
                        devices,
                        threads: None,
                        placement: PlacementRule::Any,
                        environment: Vec::new(),
                        options: [].into(),
                    })
                    .collect(),
                matrix: Matrix {
                    model,
                    backend,
                    precision,
                    batch,
                    sequence_length,
                    mode: vec![Mode::Inference],
                    scenario,
                    rate,
                    clients,
                    include,
                    exclude,
                    limit: None,
                },
                check: None,
                measure: MeasureSettings {
                    warm_up: WarmUp::Iterations(0),
                    minimum_duration_ns: 1,
                    maximum_duration_ns: 1,
                    minimum_queries: 1,
                    timeout_ns: 1,
                    ..MeasureSettings::default()
                },
                metrics: vec![],
                reports: vec![],
                recommenders: vec![],
                prices: Vec::new(),
                execution: host_manifest::Execution::default(),
                alerts: vec![],
            }
        })
}

/// `b0` sees two devices, `b1` one and in one precision, `b2` is not there.
fn facts() -> Facts {
    let device = |id: &str, precisions: &[Precision]| DeviceInfo {
        id: id.to_owned(),
        kind: "cpu".to_owned(),
        name: id.to_owned(),
        memory_bytes: None,
        modes: vec![Mode::Inference],
        precisions: precisions.to_vec(),
        attributes: [].into(),
    };
    let ready = |id: &str, devices| BackendFacts::Ready {
        plugin: PluginIdentity {
            id: id.to_owned(),
            version: "1.0.0".to_owned(),
            sha256: String::new(),
        },
        devices,
        lacks: None,
    };
    let all = [Precision::Fp32, Precision::Fp16];
    let missing =
        Gap::PluginMissing { plugin: "p".to_owned(), registry_message: "not there".to_owned() };
    let model = || {
        ModelFacts::All(FileId { name: String::new(), sha256: String::new(), ..FileId::default() })
    };
    Facts {
        models: MODELS.map(|id| (id.to_owned(), model())).into(),
        backends: [
            ("b0".to_owned(), ready("b0", vec![device("d1", &all), device("d0", &all)])),
            ("b1".to_owned(), ready("b1", vec![device("d0", &all[..1])])),
            ("b2".to_owned(), BackendFacts::Missing(missing)),
        ]
        .into(),
        ..Facts::default()
    }
}

/// Returns the device that a choice means on a backend: see [`facts`].
fn device(backend: &str, choice: &DeviceChoice) -> String {
    match (choice, backend) {
        (DeviceChoice::Auto, "b0") => "d1".to_owned(),
        (DeviceChoice::Auto, "b1") => "d0".to_owned(),
        (choice, _) => choice.text().to_owned(),
    }
}

fn or<'a, T>(own: &'a [T], others: &'a [T]) -> &'a [T] {
    if own.is_empty() { others } else { own }
}

/// Returns the scenarios of an include, with what each takes.
fn loads(matrix: &Matrix, cell: &PartialCell) -> Vec<(Scenario, Option<Rate>, Option<u32>)> {
    let mut loads = Vec::new();
    for scenario in or(&cell.scenario, &matrix.scenario).iter().copied() {
        if scenario.is_open_loop() {
            let rates = or(&cell.rate, &matrix.rate).iter();
            loads.extend(rates.map(|rate| (scenario, Some(*rate), None)));
        } else if scenario == Scenario::ClosedLoop {
            let clients = or(&cell.clients, &matrix.clients).iter();
            loads.extend(clients.map(|clients| (scenario, None, Some(*clients))));
        } else {
            loads.push((scenario, None, None));
        }
    }
    loads
}

/// The cells that one include adds.
fn product(experiment: &Experiment, cell: &PartialCell, cells: &mut BTreeSet<CaseKey>) {
    let matrix = &experiment.matrix;
    let lengths = or(&cell.sequence_length, &matrix.sequence_length);
    let lengths: Vec<_> =
        if lengths.is_empty() { vec![None] } else { lengths.iter().copied().map(Some).collect() };
    for model in or(&cell.model, &matrix.model) {
        for backend in or(&cell.backend, &matrix.backend) {
            let own = experiment.backends.iter().find(|own| own.id == *backend).unwrap();
            for choice in or(&cell.device, &own.devices) {
                for precision in or(&cell.precision, &matrix.precision) {
                    for batch in or(&cell.batch, &matrix.batch) {
                        for sequence_length in &lengths {
                            for (scenario, rate, clients) in loads(matrix, cell) {
                                cells.insert(CaseKey {
                                    model: model.clone(),
                                    backend: backend.clone(),
                                    device: device(backend, choice),
                                    precision: *precision,
                                    batch: *batch,
                                    sequence_length: *sequence_length,
                                    mode: Mode::Inference,
                                    scenario,
                                    rate,
                                    clients,
                                });
                            }
                        }
                    }
                }
            }
        }
    }
}

fn excluded(key: &CaseKey, cell: &PartialCell) -> bool {
    fn fits<T: PartialEq>(values: &[T], value: &T) -> bool {
        values.is_empty() || values.contains(value)
    }
    let devices: Vec<_> = cell.device.iter().map(|choice| device(&key.backend, choice)).collect();
    fits(&cell.model, &key.model)
        && fits(&cell.backend, &key.backend)
        && fits(&devices, &key.device)
        && fits(&cell.precision, &key.precision)
        && fits(&cell.batch, &key.batch)
        && (cell.sequence_length.is_empty()
            || key.sequence_length.is_some_and(|length| cell.sequence_length.contains(&length)))
        && fits(&cell.mode, &key.mode)
        && fits(&cell.scenario, &key.scenario)
        && (cell.rate.is_empty() || key.rate.is_some_and(|rate| cell.rate.contains(&rate)))
        && (cell.clients.is_empty()
            || key.clients.is_some_and(|clients| cell.clients.contains(&clients)))
}

/// Returns the expected cells of an experiment's plan.
fn expected(experiment: &Experiment) -> BTreeSet<CaseKey> {
    let mut cells = BTreeSet::new();
    product(experiment, &PartialCell::default(), &mut cells);
    for cell in &experiment.matrix.include {
        product(experiment, cell, &mut cells);
    }
    cells.retain(|key| !experiment.matrix.exclude.iter().any(|cell| excluded(key, cell)));
    cells
}

proptest! {
    #[test]
    fn a_plan_has_exactly_the_cells_of_its_matrix(experiment in experiment()) {
        let expected = expected(&experiment);
        let plan = match Plan::new(&experiment, facts()) {
            Ok(plan) => plan,
            Err(error) => {
                prop_assert_eq!(error, [PlanError::Empty]);
                prop_assert!(expected.is_empty());
                return Ok(());
            }
        };
        let items: Vec<_> = plan.items().collect();

        let keys: BTreeSet<_> = items.iter().map(|item| item.key().clone()).collect();
        prop_assert_eq!(&keys, &expected);
        prop_assert_eq!(items.len(), expected.len(), "each cell appears once");

        let ids: BTreeSet<_> = items.iter().map(host_plan::PlannedCase::id).collect();
        prop_assert_eq!(ids.len(), items.len(), "ids are unique");
        let hexadecimal = |id: &str| id.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
        prop_assert!(ids.iter().all(|id| id.len() == 16 && hexadecimal(id)));

        let gaps = items.iter().filter(|item| item.gap().is_some()).count();
        prop_assert_eq!(plan.count().gaps, gaps as u64);
        prop_assert_eq!(plan.count().total(), items.len() as u64);
        prop_assert!(items.iter().zip(0..).all(|(item, index)| item.index() == index));
        for item in &items {
            let key = item.key();
            let kind = match (key.backend.as_str(), key.device.as_str(), key.precision) {
                ("b2", _, _) => Some(GapKind::PluginMissing),
                ("b0", "d0" | "d1", Precision::Fp32 | Precision::Fp16) => None,
                ("b1", "d0", Precision::Fp32) => None,
                ("b0", "d0" | "d1", _) | ("b1", "d0", _) => Some(GapKind::PrecisionUnsupported),
                _ => Some(GapKind::DeviceMissing),
            };
            prop_assert_eq!(item.gap().map(Gap::kind), kind, "{}", key);
        }

        let again: Vec<_> = Plan::new(&experiment, facts()).unwrap().items().collect();
        prop_assert_eq!(items, again, "the order is fixed");
    }

    /// The order of keys and tables in the manifest makes no difference.
    #[test]
    fn the_order_of_keys_makes_no_difference(
        matrix in Just(MATRIX).prop_shuffle(),
        backend in Just(BACKEND).prop_shuffle(),
        options in Just(OPTIONS).prop_shuffle(),
        model in Just(MODEL).prop_shuffle(),
        inputs in Just(INPUTS).prop_shuffle(),
        sections in Just([0, 1, 2]).prop_shuffle(),
    ) {
        let plain = items(MATRIX, BACKEND, OPTIONS, MODEL, INPUTS, [0, 1, 2]);
        prop_assert_eq!(items(matrix, backend, options, model, inputs, sections), plain);
    }
}

const MATRIX: [&str; 5] = [
    "batch = [1, 2]",
    "scenario = [\"offline\", \"single-stream\"]",
    "precision = \"fp32\"",
    "include = [{ batch = 9, precision = [\"fp16\"] }]",
    "exclude = [{ batch = 2 }]",
];
const BACKEND: [&str; 3] = ["id = \"b0\"", "device = [\"d0\", \"auto\"]", "threads = 2"];
const OPTIONS: [&str; 3] = ["z = 1", "a = \"x\"", "k = true"];
const MODEL: [&str; 2] = ["id = \"m0\"", "path = \"m\""];
const INPUTS: [&str; 2] = ["y = { low = -1, high = 2 }", "x = { dimensions = { h = 1, a = 2 } }"];

/// Returns the plan's items of a manifest whose keys and tables stand in the order given.
fn items(
    matrix: [&str; 5],
    backend: [&str; 3],
    options: [&str; 3],
    model: [&str; 2],
    inputs: [&str; 2],
    order: [usize; 3],
) -> Vec<host_plan::PlannedCase> {
    let sections = [
        format!("[matrix]\n{}\n", matrix.join("\n")),
        format!("[[backend]]\n{}\noptions = {{ {} }}\n", backend.join("\n"), options.join(", ")),
        format!("[[model]]\n{}\n[model.inputs]\n{}\n", model.join("\n"), inputs.join("\n")),
    ];
    let sections = order.map(|section| sections[section].as_str()).concat();
    let text = format!("schema = 1\nexperiment = {{ name = \"laws\" }}\n{sections}");
    let experiment = parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}\n{text}"));
    Plan::new(&experiment, facts()).unwrap().items().collect()
}
