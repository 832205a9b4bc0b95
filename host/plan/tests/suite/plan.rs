//! Plans for known machines.

use host_manifest::{PerPrecision, parse};
use host_plan::{
    BackendFacts, Count, Facts, ModelFacts, Plan, PlanError, PlannedCase, PlannedPair,
};
use host_record::{
    DeviceInfo, FileId, Gap, GapKind, InputSource, LegalValues, ModelStructure, PluginIdentity,
    Port, PortAxis, Precision, RuntimeState, Signature,
};
use insta::assert_snapshot;

fn device(id: &str, precisions: &[Precision]) -> DeviceInfo {
    DeviceInfo {
        id: id.to_owned(),
        kind: "cpu".to_owned(),
        name: format!("the device {id}"),
        memory_bytes: None,
        modes: vec![host_record::Mode::Inference],
        precisions: precisions.to_vec(),
        attributes: [].into(),
    }
}

fn ready(plugin: &str, devices: &[DeviceInfo]) -> BackendFacts {
    BackendFacts::Ready {
        plugin: PluginIdentity {
            id: plugin.to_owned(),
            version: "0.1.0".to_owned(),
            sha256: "1".repeat(64),
        },
        devices: devices.to_vec(),
        lacks: None,
    }
}

fn facts(backends: impl IntoIterator<Item = (&'static str, BackendFacts)>) -> Facts {
    let model = |id: &str| {
        ModelFacts::All(FileId {
            name: format!("{id}.onnx"),
            sha256: id.repeat(8),
            ..FileId::default()
        })
    };
    Facts {
        machine: "laptop".into(),
        memory_bytes: Some(16 << 30),
        models: ["a", "b"].map(|id| (id.to_owned(), model(id))).into(),
        structures: [].into(),
        data: [("images.npy".into(), "2".repeat(64))].into(),
        backends: backends.into_iter().map(|(id, facts)| (id.to_owned(), facts)).collect(),
    }
}

const BASE: &str = r#"
schema = 1
experiment = { name = "test", seed = 3 }
[[model]]
id = "a"
path = "a.onnx"
data = { inputs = { image = "images.npy" }, labels = "/elsewhere/labels.npy" }
[[model]]
id = "b"
path = "b.onnx"
[[backend]]
id = "cpu"
threads = 2
[[backend]]
id = "cuda"
device = ["auto", "cuda:1"]
[matrix]
"#;

fn plan(matrix: &str, facts: Facts) -> Result<Plan, PlanError> {
    let experiment = parse(&format!("{BASE}{matrix}")).unwrap_or_else(|e| panic!("{e:#?}"));
    Plan::new(&experiment, facts).map_err(|mut errors| errors.remove(0))
}

fn show(plan: &Plan) -> String {
    let line = |item: PlannedCase| {
        let gap = item.gap().map(|gap| format!(" [{}: {gap}]", gap.kind()));
        format!("{} {}{}", item.index(), item.key(), gap.unwrap_or_default())
    };
    plan.items().map(line).collect::<Vec<_>>().join("\n")
}

fn laptop() -> Facts {
    let missing = Gap::PluginMissing {
        plugin: "cuda".to_owned(),
        registry_message: "no plugin `cuda` is installed".to_owned(),
    };
    facts([
        ("cpu", ready("cpu", &[device("cpu:0", &[Precision::Fp32])])),
        ("cuda", BackendFacts::Missing(missing)),
    ])
}

fn server() -> Facts {
    let both = [Precision::Fp32, Precision::Fp16];
    facts([
        ("cpu", ready("cpu", &[device("cpu:0", &[Precision::Fp32])])),
        ("cuda", ready("cuda", &[device("cuda:0", &both), device("cuda:3", &[])])),
    ])
}

#[test]
fn gaps_say_what_is_missing() {
    let matrix = "precision = [\"fp32\", \"fp16\"]\nmodel = \"a\"";
    let small = plan(matrix, laptop()).unwrap();
    assert_snapshot!(show(&small), @r#"
    0 a · cpu · cpu:0 · fp32 · batch 1 · single-stream
    1 a · cpu · cpu:0 · fp16 · batch 1 · single-stream [precision-unsupported: the backend `cpu` does not support fp16 on `cpu:0`; it supports fp32]
    2 a · cuda · auto · fp32 · batch 1 · single-stream [plugin-missing: no plugin `cuda` is installed]
    3 a · cuda · auto · fp16 · batch 1 · single-stream [plugin-missing: no plugin `cuda` is installed]
    4 a · cuda · cuda:1 · fp32 · batch 1 · single-stream [plugin-missing: no plugin `cuda` is installed]
    5 a · cuda · cuda:1 · fp16 · batch 1 · single-stream [plugin-missing: no plugin `cuda` is installed]
    "#);
    assert_eq!(small.count(), Count { cases: 1, gaps: 5 });
    let large = plan(matrix, server()).unwrap();
    assert_snapshot!(show(&large), @r#"
    0 a · cpu · cpu:0 · fp32 · batch 1 · single-stream
    1 a · cpu · cpu:0 · fp16 · batch 1 · single-stream [precision-unsupported: the backend `cpu` does not support fp16 on `cpu:0`; it supports fp32]
    2 a · cuda · cuda:0 · fp32 · batch 1 · single-stream
    3 a · cuda · cuda:0 · fp16 · batch 1 · single-stream
    4 a · cuda · cuda:1 · fp32 · batch 1 · single-stream [device-missing: the backend `cuda` found no device `cuda:1`; it found `cuda:0` and `cuda:3`]
    5 a · cuda · cuda:1 · fp16 · batch 1 · single-stream [device-missing: the backend `cuda` found no device `cuda:1`; it found `cuda:0` and `cuda:3`]
    "#);
    let none = facts([("cpu", ready("cpu", &[])), ("cuda", ready("cuda", &[]))]);
    assert_snapshot!(show(&plan(matrix, none).unwrap()), @r#"
    0 a · cpu · auto · fp32 · batch 1 · single-stream [device-missing: the backend `cpu` found no device]
    1 a · cpu · auto · fp16 · batch 1 · single-stream [device-missing: the backend `cpu` found no device]
    2 a · cuda · auto · fp32 · batch 1 · single-stream [device-missing: the backend `cuda` found no device]
    3 a · cuda · auto · fp16 · batch 1 · single-stream [device-missing: the backend `cuda` found no device]
    4 a · cuda · cuda:1 · fp32 · batch 1 · single-stream [device-missing: the backend `cuda` found no device `cuda:1` and no other device]
    5 a · cuda · cuda:1 · fp16 · batch 1 · single-stream [device-missing: the backend `cuda` found no device `cuda:1` and no other device]
    "#);
}

/// Returns facts about a machine on which the file of the model `b` has an input with these axes.
fn with_axes(axes: &[&str]) -> Facts {
    let axis = |text: &&str| match text.parse() {
        Ok(size) => PortAxis::Fixed(size),
        Err(_) => PortAxis::Dynamic((*text).to_owned()),
    };
    let port = Port { name: "x".into(), axes: Some(axes.iter().map(axis).collect()) };
    let signature = Some(Signature { inputs: vec![port], outputs: Vec::new() });
    let structure = ModelStructure { signature, ..ModelStructure::default() };
    let facts = laptop();
    let PerPrecision::All(file) = facts.models["b"].clone() else { panic!("one file") };
    Facts { structures: [(file, structure)].into(), ..facts }
}

const ON_B: &str = "model = \"b\"\nbackend = \"cpu\"\n";
const BOTH: &str = "model = [\"b\", \"a\"]\nbackend = \"cpu\"\n";

/// Returns all errors of a plan in words, with what to do.
fn errors(matrix: &str, facts: Facts) -> String {
    let experiment = parse(&format!("{BASE}{matrix}")).unwrap_or_else(|e| panic!("{e:#?}"));
    let errors = Plan::new(&experiment, facts).expect_err("it does not fit");
    let line = |error: &PlanError| format!("{error} -> {}", error.hint().unwrap_or_default());
    errors.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_batch_or_a_length_that_no_model_can_have_is_an_error_once() {
    let matrix = "model = \"b\"\nbatch = [1, 8]\nsequence-length = [16, 512]\n\
                  scenario = [\"single-stream\", \"offline\"]";
    assert_snapshot!(errors(matrix, with_axes(&["1", "512"])), @"
    batch 8 fits no model of the matrix: `b`: the model's batch axis cannot be 8: axis 0 of `x` is fixed at 1 -> export the model with a dynamic batch axis, or leave this batch size out
    sequence length 16 fits no model of the matrix: `b`: the model has no sequence axis that could be 16 long -> name it with `axes.sequence` in the `[[model]]`, or leave the length out of the matrix
    sequence length 512 fits no model of the matrix: `b`: the model has no sequence axis that could be 512 long -> name it with `axes.sequence` in the `[[model]]`, or leave the length out of the matrix
    ");
    // Another model can have them.
    let both =
        "model = [\"a\", \"b\"]\nbatch = [1, 8]\nsequence-length = [16, 512]\nbackend = \"cpu\"";
    let planned = plan(both, with_axes(&["1", "512"])).unwrap();
    assert_eq!(planned.count(), Count { cases: 4, gaps: 4 });
}

#[test]
fn a_cell_that_the_models_axes_cannot_have_is_a_gap() {
    let matrix = format!("{BOTH}batch = [1, 8]\nsequence-length = [16, 512]");
    let fixed = plan(&matrix, with_axes(&["batch", "512"])).unwrap();
    assert_snapshot!(show(&fixed), @r#"
    0 b · cpu · cpu:0 · fp32 · batch 1 · sequence 16 · single-stream [unsupported: the model has no sequence axis that could be 16 long; name it with `axes.sequence` in the `[[model]]`, or leave the length out of the matrix]
    1 b · cpu · cpu:0 · fp32 · batch 1 · sequence 512 · single-stream [unsupported: the model has no sequence axis that could be 512 long; name it with `axes.sequence` in the `[[model]]`, or leave the length out of the matrix]
    2 b · cpu · cpu:0 · fp32 · batch 8 · sequence 16 · single-stream [unsupported: the model has no sequence axis that could be 16 long; name it with `axes.sequence` in the `[[model]]`, or leave the length out of the matrix]
    3 b · cpu · cpu:0 · fp32 · batch 8 · sequence 512 · single-stream [unsupported: the model has no sequence axis that could be 512 long; name it with `axes.sequence` in the `[[model]]`, or leave the length out of the matrix]
    4 a · cpu · cpu:0 · fp32 · batch 1 · sequence 16 · single-stream
    5 a · cpu · cpu:0 · fp32 · batch 1 · sequence 512 · single-stream
    6 a · cpu · cpu:0 · fp32 · batch 8 · sequence 16 · single-stream
    7 a · cpu · cpu:0 · fp32 · batch 8 · sequence 512 · single-stream
    "#);
    let one = plan(&format!("{BOTH}batch = [1, 8]"), with_axes(&["1", "3"])).unwrap();
    assert_snapshot!(show(&one), @r#"
    0 b · cpu · cpu:0 · fp32 · batch 1 · single-stream
    1 b · cpu · cpu:0 · fp32 · batch 8 · single-stream [unsupported: the model's batch axis cannot be 8: axis 0 of `x` is fixed at 1; export the model with a dynamic batch axis, or leave this batch size out]
    2 a · cpu · cpu:0 · fp32 · batch 1 · single-stream
    3 a · cpu · cpu:0 · fp32 · batch 8 · single-stream
    "#);
    let matrix = format!("{ON_B}batch = [1, 8]\nsequence-length = [16, 512]");
    let named = plan(&matrix, with_axes(&["batch", "seq"])).unwrap();
    assert_eq!(named.count(), Count { cases: 4, gaps: 0 });
    let told: Vec<_> = named
        .axes()
        .map(|(model, axes)| format!("{model}: {} {}", axes.batch, axes.sequence))
        .collect();
    assert_eq!(told, ["b: `batch` `seq`"]);
}

#[test]
fn a_manifest_that_does_not_fit_the_model_is_an_error() {
    let open = plan(ON_B, with_axes(&["batch", "height", "width"])).unwrap_err();
    assert_snapshot!(open, @"the model `b`: axis 1 (`height`) of `x` and axis 2 (`width`) of `x` have no size");
    assert_snapshot!(open.hint().unwrap(), @"give them sizes in the `[[model]]` with `axes.sizes = { height = …, width = … }`");
    let mut rounds = with_axes(&["batch"]);
    for structure in rounds.structures.values_mut() {
        structure.values.insert("x".into(), LegalValues::Steers);
    }
    let asked = plan(ON_B, rounds).unwrap_err();
    assert_snapshot!(asked, @"the model `b`: `x` decides what is computed, or how much (a branch, rounds of a loop or a size), and has no usual value");
    assert_snapshot!(asked.hint().unwrap(), @r#"give it a range in the `[[model]]`, such as `inputs."x" = { low = 10, high = 10 }`"#);
    let mut ids = with_axes(&["batch"]);
    for structure in ids.structures.values_mut() {
        let computed = LegalValues::Computed { entries: 100, operator: "Mul".into() };
        structure.values.insert("x".into(), computed);
    }
    let asked = plan(ON_B, ids).unwrap_err();
    assert_snapshot!(asked, @"the model `b`: `Mul` computes with `x` before it is looked up in a table of 100 entries, so it is not known which values are legal");
    assert_snapshot!(asked.hint().unwrap(), @r#"give it a range in the `[[model]]`, such as `inputs."x" = { low = 0, high = 99 }`"#);
}

#[test]
fn everything_that_does_not_fit_a_model_is_found_at_once() {
    let port = |name: &str, axes: &[&str]| {
        let axis = |axis: &&str| match axis.parse() {
            Ok(size) => PortAxis::Fixed(size),
            Err(_) => PortAxis::Dynamic((*axis).to_owned()),
        };
        Port { name: name.into(), axes: Some(axes.iter().map(axis).collect()) }
    };
    let inputs = vec![
        port("input", &["", ""]),
        port("state", &["2", "", "128"]),
        port("sr", &[]),
        port("ids", &["batch", "sequence"]),
    ];
    let values = [
        ("sr".to_owned(), LegalValues::Steers),
        ("ids".to_owned(), LegalValues::Index { entries: 100, operator: "Gather".into() }),
    ];
    let structure = ModelStructure {
        signature: Some(Signature { inputs, outputs: Vec::new() }),
        values: values.into(),
        ..ModelStructure::default()
    };
    let facts = laptop();
    let PerPrecision::All(file) = facts.models["b"].clone() else { panic!("one file") };
    let facts =
        || Facts { structures: [(file.clone(), structure.clone())].into(), ..facts.clone() };
    let given = |inputs: &str| {
        let text = BASE.replace("path = \"b.onnx\"", &format!("path = \"b.onnx\"\n{inputs}"));
        let experiment = parse(&format!("{text}{ON_B}")).unwrap_or_else(|e| panic!("{e:#?}"));
        let errors = match Plan::new(&experiment, facts()) {
            Ok(_) => return String::new(),
            Err(errors) => errors,
        };
        let line = |error: &PlanError| format!("{error} -> {}", error.hint().unwrap_or_default());
        errors.iter().map(line).collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!(given("inputs.stat = { high = 2 }\ninputs.nope = { dimensions = { x = 1 } }\ninputs.ids = { high = 100 }"), @r#"
    the model `b` has no input `nope` -> it has `input`, `state`, `sr`, `ids`
    the model `b` has no input `stat` -> did you mean `state`?
    the model `b`: `ids` is drawn from 0 to 100, beyond the table of 100 entries that it is looked up in -> write `high = 99` or less
    the model `b`: `sr` decides what is computed, or how much (a branch, rounds of a loop or a size), and has no usual value -> give it a range in the `[[model]]`, such as `inputs."sr" = { low = 10, high = 10 }`
    the model `b`: axis 1 of `input`, axis 1 of `state` and axis 1 (`sequence`) of `ids` have no size -> give them sizes in the `[[model]]` with `axes.sizes = { sequence = … }`, `inputs."input".dimensions = { 1 = … }` and `inputs."state".dimensions = { 1 = … }`
    "#);
    assert_snapshot!(given("axes.batch = [{ input = \"imput\", axis = 0 }]"), @r#"
    the model `b`: `sr` decides what is computed, or how much (a branch, rounds of a loop or a size), and has no usual value -> give it a range in the `[[model]]`, such as `inputs."sr" = { low = 10, high = 10 }`
    the model `b`: the model has no input `imput`; it has `input`, `state`, `sr`, `ids` -> did you mean `input`?
    "#);
    let closing = "inputs.sr = { low = 16000, high = 16000 }\n\
                   inputs.input.dimensions = { 1 = 512 }\ninputs.state.dimensions = { 1 = 1 }\n\
                   axes.sizes = { sequence = 4 }";
    assert_eq!(given(closing), "");
    // Training adds an input that no file names.
    let target = format!("{closing}\ninputs.target = {{ low = 0, high = 1 }}");
    assert_snapshot!(given(&target), @"the model `b` has no input `target` -> it has `input`, `state`, `sr`, `ids`");
    let text = BASE.replace("path = \"b.onnx\"", &format!("path = \"b.onnx\"\n{target}"));
    let training = format!("{text}{ON_B}mode = [\"inference\", \"training\"]\n");
    let experiment = parse(&training).unwrap_or_else(|e| panic!("{e:#?}\n{training}"));
    Plan::new(&experiment, facts()).expect("training takes it");
}

#[test]
fn weights_that_exceed_the_memory_limit_are_a_gap() {
    let mut facts = with_axes(&["batch"]);
    for structure in facts.structures.values_mut() {
        structure.weights_bytes = Some(3 << 30);
    }
    let gaps = |limit: &str| {
        let matrix = format!("{BOTH}[measure]\nmemory-limit = \"{limit}\"\n");
        let plan = plan(&matrix, facts.clone()).unwrap();
        let gaps: Vec<_> = plan.items().filter_map(|item| item.gap().map(Gap::to_string)).collect();
        (plan.count().cases, gaps)
    };
    let refused = "the model's weights take 3 GiB, more than the `memory-limit` of 2 GiB";
    assert_eq!(gaps("2 GiB"), (1, vec![refused.to_owned()]));
    assert_eq!(gaps("3 GiB"), (2, Vec::new()));
}

/// Facts about a model from `[batch, 1024]` to `[batch, 4]` of 32 bits.
fn with_traffic() -> Facts {
    let mut facts = with_axes(&["batch", "1024"]);
    for structure in facts.structures.values_mut() {
        let axes = Some(vec![PortAxis::Dynamic("batch".into()), PortAxis::Fixed(4)]);
        let signature = structure.signature.as_mut().expect("it has one");
        signature.outputs.push(Port { name: "y".into(), axes });
        structure.element_bits = ["x", "y"].map(|name| (name.to_owned(), 32)).into();
        structure.weights_bytes = Some(1 << 20);
    }
    facts
}

#[test]
fn inputs_and_outputs_count_for_the_memory_limit() {
    let gaps = |limit: &str| {
        let matrix = format!("{ON_B}batch = [1, 1024]\n[measure]\nmemory-limit = \"{limit}\"\n");
        let plan = plan(&matrix, with_traffic()).unwrap();
        plan.items().filter_map(|item| item.gap().map(Gap::to_string)).collect::<Vec<_>>()
    };
    assert_snapshot!(gaps("5 MiB").join("\n"), @"the model's weights take 1 MiB, inputs take 4 MiB and outputs take 16 KiB, more than the `memory-limit` of 5 MiB");
    assert_eq!(gaps("6 MiB"), Vec::<String>::new());
}

#[test]
fn a_batch_beyond_the_machines_memory_is_an_error() {
    let matrix = format!("{ON_B}batch = [1, 4194304, 1073741824]\n");
    assert_snapshot!(errors(&matrix, with_traffic()), @"the model `b` at batch 4194304: the inputs of a query take 16 GiB and its outputs 64 MiB, and the machine has 16 GiB of memory -> leave this batch or length out, or give the axes smaller sizes");
    let unknown = Facts { memory_bytes: None, ..with_traffic() };
    assert_eq!(plan(&matrix, unknown).unwrap().count(), Count { cases: 3, gaps: 0 });
}

#[test]
fn a_mode_that_a_backend_lacks_is_a_gap() {
    let mut both = device("cpu:0", &[Precision::Fp32]);
    both.modes.push(host_record::Mode::Training);
    let one = device("cuda:0", &[Precision::Fp32]);
    let facts = facts([("cpu", ready("cpu", &[both])), ("cuda", ready("cuda", &[one]))]);
    let matrix = "mode = [\"inference\", \"training\"]\nmodel = \"a\"";
    let plan = plan(matrix, facts).unwrap();
    let gaps: Vec<_> = plan
        .items()
        .filter_map(|item| item.gap().cloned())
        .filter(|gap| gap.kind() != GapKind::DeviceMissing)
        .collect();
    assert_eq!((plan.count().cases, gaps.len()), (3, 1));
    assert_eq!(gaps[0].kind(), GapKind::Unsupported);
    assert_snapshot!(
        gaps[0],
        @"the backend `cuda` does not support mode training; it supports inference"
    );
}

#[test]
fn a_precision_that_a_missing_runtime_may_offer_is_a_gap_of_the_runtime() {
    let mut facts = laptop();
    let Some(BackendFacts::Ready { lacks, .. }) = facts.backends.get_mut("cpu") else {
        panic!("the backend is ready")
    };
    *lacks = Some(Gap::RuntimeMissing {
        plugin: "demo".to_owned(),
        runtime: "demo".to_owned(),
        version: "1.0".to_owned(),
        state: RuntimeState::Missing,
        reason: "is not installed".to_owned(),
    });
    let matrix = "precision = [\"fp32\", \"fp16\"]\nmodel = \"a\"\nbackend = \"cpu\"";
    let plan = plan(matrix, facts).unwrap();
    let gaps: Vec<_> = plan.items().map(|item| item.gap().map(Gap::kind)).collect();
    assert_eq!(gaps, [None, Some(GapKind::RuntimeMissing)], "what it offers without is a case");
}

#[test]
fn a_device_that_lists_no_precision_has_a_gap() {
    let matrix = "model = \"a\"\nbackend = \"cuda\"\nexclude = [{ device = \"auto\" }]\n\
                  include = [{ device = \"cuda:3\" }]";
    assert_snapshot!(show(&plan(matrix, server()).unwrap()), @r#"
    0 a · cuda · cuda:1 · fp32 · batch 1 · single-stream [device-missing: the backend `cuda` found no device `cuda:1`; it found `cuda:0` and `cuda:3`]
    1 a · cuda · cuda:3 · fp32 · batch 1 · single-stream [precision-unsupported: the backend `cuda` does not support fp32 on `cuda:3`; it lists no precisions]
    "#);
}

#[test]
fn the_order_is_that_of_the_manifest() {
    let matrix = r#"
model = ["b", "a"]
backend = "cpu"
batch = [8, 1]
scenario = ["offline", "single-stream"]
include = [{ batch = 64, scenario = "offline" }, { batch = [1, 2], model = "a", sequence-length = 128 }]
exclude = [{ model = "b", batch = 1, scenario = "single-stream" }]
"#;
    assert_snapshot!(show(&plan(matrix, laptop()).unwrap()), @r#"
    0 b · cpu · cpu:0 · fp32 · batch 8 · offline
    1 b · cpu · cpu:0 · fp32 · batch 8 · single-stream
    2 b · cpu · cpu:0 · fp32 · batch 1 · offline
    3 a · cpu · cpu:0 · fp32 · batch 8 · offline
    4 a · cpu · cpu:0 · fp32 · batch 8 · single-stream
    5 a · cpu · cpu:0 · fp32 · batch 1 · offline
    6 a · cpu · cpu:0 · fp32 · batch 1 · single-stream
    7 b · cpu · cpu:0 · fp32 · batch 64 · offline
    8 a · cpu · cpu:0 · fp32 · batch 64 · offline
    9 a · cpu · cpu:0 · fp32 · batch 1 · sequence 128 · offline
    10 a · cpu · cpu:0 · fp32 · batch 1 · sequence 128 · single-stream
    11 a · cpu · cpu:0 · fp32 · batch 2 · sequence 128 · offline
    12 a · cpu · cpu:0 · fp32 · batch 2 · sequence 128 · single-stream
    "#);
}

#[test]
fn a_repeated_cell_appears_once() {
    let plain = plan("batch = [1, 2]", server()).unwrap();
    let repeated = plan(
        "batch = [1, 2]\ninclude = [{ batch = 2 }, { model = \"a\" }, { device = \"auto\" }]",
        server(),
    )
    .unwrap();
    assert_eq!(show(&plain), show(&repeated));
}

#[test]
fn a_case_has_all_that_a_worker_needs() {
    let plan = plan("model = \"a\"\nbackend = \"cpu\"", server()).unwrap();
    let Some(PlannedCase::Case(case)) = plan.items().next() else { panic!("it is a gap") };
    assert_eq!(
        case.model,
        FileId { name: "a.onnx".into(), sha256: "a".repeat(8), ..FileId::default() }
    );
    assert_eq!(case.machine, "laptop");
    assert_eq!(case.threads, Some(2));
    assert_eq!(case.seed, 3);
    assert_eq!(case.device.id, "cpu:0");
    assert_eq!(case.plugin.id, "cpu");
    let expected = InputSource::Files {
        inputs: [(
            "image".to_owned(),
            FileId { name: "images.npy".into(), sha256: "2".repeat(64), ..FileId::default() },
        )]
        .into(),
        labels: Some(FileId {
            name: "elsewhere/labels.npy".into(),
            sha256: String::new(),
            ..FileId::default()
        }),
        drawn: [].into(),
    };
    assert_eq!(case.inputs, expected);
}

/// Ids depend on the work alone: not on folders, versions of plugins, time-outs, other cases or
/// the position.
#[test]
fn ids_depend_on_the_work_alone() {
    let ids = |text: &str, facts: Facts| -> Vec<String> {
        let experiment = parse(text).unwrap_or_else(|errors| panic!("{errors:#?}"));
        let plan = Plan::new(&experiment, facts).unwrap();
        plan.items().map(|item| item.id().to_owned()).collect()
    };
    let matrix = format!("{BASE}model = \"a\"\nbackend = \"cpu\"\n");
    let original = ids(&matrix, laptop());

    let mut moved = server();
    moved.machine = "elsewhere".into();
    for model in moved.models.values_mut() {
        let PerPrecision::All(file) = model else { panic!("one file for all") };
        file.name = "moved.onnx".into();
    }
    let Some(BackendFacts::Ready { plugin, .. }) = moved.backends.get_mut("cpu") else {
        panic!("the backend is ready")
    };
    plugin.version = "9.9.9".to_owned();
    plugin.sha256 = "3".repeat(64);
    let other =
        format!("{matrix}batch = [2, 1]\n[measure]\ntimeout = \"9s\"\nmemory-limit = \"1 GiB\"");
    assert_eq!(ids(&other, moved)[1], original[0]);

    // And on all of the work.
    for (from, to) in [
        ("seed = 3", "seed = 4"),
        ("threads = 2", "threads = 3"),
        ("threads = 2", "options = { key = 1 }\nthreads = 2"),
        ("threads = 2", "plugin = \"other\"\nthreads = 2"),
        ("image = ", "picture = "),
        ("/elsewhere", "/elsewhere-else"),
        ("[matrix]", "[measure]\nduration = \"6s\"\n[matrix]"),
        ("[matrix]", "[measure]\nwarm-up = 1\n[matrix]"),
        ("[matrix]", "[measure]\nminimum-queries = 7\n[matrix]"),
        ("[matrix]", "[matrix]\nbatch = 2"),
        ("[matrix]", "[matrix]\nprecision = \"fp16\""),
        ("[matrix]", "[matrix]\nscenario = \"offline\""),
        ("[matrix]", "[matrix]\nsequence-length = 1"),
    ] {
        let changed = matrix.replacen(from, to, 1);
        assert_ne!(changed, matrix, "{from} is not in the manifest");
        assert_ne!(ids(&changed, laptop()), original, "{to}");
    }
    let mut content = laptop();
    content.data = [("images.npy".into(), "4".repeat(64))].into();
    assert_ne!(ids(&matrix, content), original);
    let mut content = laptop();
    let other = FileId { name: "a.onnx".into(), sha256: "5".repeat(64), ..FileId::default() };
    content.models.insert("a".into(), ModelFacts::All(other));
    assert_ne!(ids(&matrix, content), original);
}

#[test]
fn the_estimate_is_a_lower_bound_and_is_reported() {
    let estimate = plan("batch = [1, 2]", server()).unwrap().estimate();
    assert_snapshot!(format!("{:?}: {}", estimate.at_least, estimate.basis), @"48s: 8 cases × (1s of warm-up + 5s of measuring); starting, loading, preparing and collecting outputs come on top, and more measuring where 100 queries take longer");
    let matrix = "batch = 1\nmodel = \"a\"\nbackend = \"cpu\"\n\
                  [measure]\nwarm-up = 10\nduration = \"1500ms\"";
    let estimate = plan(matrix, server()).unwrap().estimate();
    assert_snapshot!(format!("{:?}: {}", estimate.at_least, estimate.basis), @"1.5s: 1 case × (10 warm-up queries of unknown time + 1.5s of measuring); starting, loading, preparing and collecting outputs come on top, and more measuring where 100 queries take longer");
}

#[test]
fn the_estimate_says_that_a_search_comes_besides() {
    let matrix = "batch = 1\nmodel = \"a\"\nbackend = \"cpu\"\nscenario = [\"single-stream\", \"server\"]\n\
                  [measure]\nfind = \"max-rate\"\nlatency-limit = \"9ms\"\nprocesses = 3";
    let estimate = plan(matrix, server()).unwrap().estimate();
    // 3 × (2 × (1 s + 5 s) + 2 × 2 s).
    assert_snapshot!(format!("{:?}: {}", estimate.at_least, estimate.basis), @"48s: 2 cases × 3 processes × (1s of warm-up + 5s of measuring), of which 1 searches the rate besides, in at least 2 measurements of 2s or more, mostly in many more, none longer than 50s, with five of 5s or more where a rate is found; starting, loading, preparing and collecting outputs come on top, and more measuring where 100 queries take longer");
    // A measurement takes at most half of the maximum.
    let short = format!("{matrix}\nduration = \"1s\"\nmaximum-duration = \"1s\"");
    let estimate = plan(&short, server()).unwrap().estimate();
    // 3 × (2 × (1 s + 1 s) + 2 × 0.5 s).
    assert_eq!(estimate.at_least, std::time::Duration::from_secs(15));
    let given = "batch = 1\nmodel = \"a\"\nbackend = \"cpu\"\nscenario = \"server\"\nrate = [9]";
    assert!(!plan(given, server()).unwrap().estimate().basis.contains("search"));
}

#[test]
fn what_cannot_be_planned_is_an_error() {
    let everything = "exclude = [{ mode = \"inference\" }]";
    assert_eq!(plan(everything, server()).unwrap_err(), PlanError::Empty);

    let mut unknown = server();
    unknown.models.remove("b");
    assert_eq!(plan("", unknown).unwrap_err(), PlanError::UnknownModel("b".to_owned()));
    let mut unknown = server();
    unknown.backends.remove("cuda");
    assert_eq!(plan("", unknown).unwrap_err(), PlanError::UnknownBackend("cuda".to_owned()));

    let numbers: Vec<_> = (1..=10_000).map(|number: u32| number.to_string()).collect();
    let numbers = numbers.join(", ");
    let large = format!("batch = [{numbers}]\nsequence-length = [{numbers}]");
    let error = plan(&large, server()).unwrap_err();
    assert_snapshot!(error, @"the matrix has 600000000 cells, more than the maximum of 100000000: shorten its axes");
}

/// `validate`, which asks no device, is never stricter than a plan.
#[test]
fn a_matrix_is_checked_without_devices() {
    let check = |matrix: &str| {
        let experiment = parse(&format!("{BASE}{matrix}")).unwrap_or_else(|e| panic!("{e:#?}"));
        host_plan::check(&experiment)
    };
    assert_eq!(check("batch = [1, 2]"), Ok(()));
    assert_eq!(check("exclude = [{ batch = 1 }]"), Err(PlanError::Empty));
    assert_eq!(check("exclude = [{ model = \"a\" }, { model = \"b\" }]"), Err(PlanError::Empty));
    // Whether `auto` is this device, only the backend knows.
    let excluded = "backend = \"cpu\"\nexclude = [{ device = \"cpu:0\" }]";
    assert_eq!(check(excluded), Ok(()));
    assert_eq!(plan(excluded, laptop()).err(), Some(PlanError::Empty));
    let many: Vec<_> = (1..=20_000).map(|n: u32| n.to_string()).collect();
    let many = many.join(", ");
    let large = format!("batch = [{many}]\nsequence-length = [{many}]");
    assert!(matches!(check(&large), Err(PlanError::TooLarge { .. })));
}

#[test]
fn only_the_scenarios_that_take_a_load_are_multiplied_by_it() {
    let matrix = "model = \"a\"\nbackend = \"cpu\"\n\
                  scenario = [\"single-stream\", \"server\", \"closed-loop\"]\n\
                  rate = [100, 0.5]\nclients = [1, 4]\n\
                  include = [{ scenario = \"constant-rate\", rate = 7 }]\n\
                  exclude = [{ rate = 0.5 }]";
    assert_snapshot!(show(&plan(matrix, laptop()).unwrap()), @r#"
    0 a · cpu · cpu:0 · fp32 · batch 1 · single-stream
    1 a · cpu · cpu:0 · fp32 · batch 1 · server at 100/s
    2 a · cpu · cpu:0 · fp32 · batch 1 · closed-loop of 1 client
    3 a · cpu · cpu:0 · fp32 · batch 1 · closed-loop of 4 clients
    4 a · cpu · cpu:0 · fp32 · batch 1 · constant-rate at 7/s
    "#);
    let found = plan(
        "model = \"a\"\nbackend = \"cpu\"\nscenario = \"server\"\n[measure]\n\
         find = \"max-rate\"\nlatency-limit = \"10ms\"",
        laptop(),
    );
    assert_snapshot!(show(&found.unwrap()), @"0 a · cpu · cpu:0 · fp32 · batch 1 · server");
}

#[test]
fn processes_come_case_by_case_or_in_rounds() {
    let order = |order: &str| {
        let matrix = format!(
            "model = \"a\"\nprecision = [\"fp32\", \"fp16\"]\nbackend = \"cpu\"\nbatch = [1, 8]\n\
             [measure]\nprocesses = 2\norder = \"{order}\""
        );
        let plan = plan(&matrix, laptop()).unwrap();
        assert_eq!(plan.processes_of_each(), 2);
        let shown = plan.processes().map(|item| match item {
            PlannedCase::Case(case) => format!("{}.{}", case.index, case.process),
            PlannedCase::Gap { index, .. } => format!("gap {index}"),
        });
        shown.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(order("planned"), "0.0, 0.1, 1.0, 1.1, gap 2, gap 3");
    assert_eq!(order("interleaved"), "0.0, 1.0, gap 2, gap 3, 0.1, 1.1");
}

#[test]
fn each_precision_runs_the_file_that_is_named_for_it() {
    let text = r#"
schema = 1
experiment = { name = "test" }
model = [{ id = "a", path = { fp32 = "a.onnx", fp16 = "half.onnx" } }]
backend = [{ id = "cpu" }]
matrix = { precision = ["fp32", "fp16", "bf16"] }
"#;
    let cpu = || ready("cpu", &[device("cpu:0", Precision::ALL)]);
    let mut facts = facts([("cpu", cpu())]);
    let file =
        |name: &str| FileId { name: name.into(), sha256: name.repeat(4), ..FileId::default() };
    let files = [(Precision::Fp32, file("a.onnx")), (Precision::Fp16, file("half.onnx"))];
    facts.models.insert("a".into(), PerPrecision::Each(files.into()));
    let plan = Plan::new(&parse(text).unwrap(), facts).unwrap();
    let found: Vec<_> = plan
        .items()
        .map(|item| match item {
            PlannedCase::Case(case) => case.model.name,
            PlannedCase::Gap { gap, .. } => format!("{}: {gap}", gap.kind()),
        })
        .collect();
    assert_eq!(
        found,
        [
            "a.onnx",
            "half.onnx",
            "model-file-missing: the model `a` has no file for bf16, only for fp32 and fp16",
        ]
    );
    let ids: std::collections::BTreeSet<_> =
        plan.items().map(|item| item.id().to_owned()).collect();
    assert_eq!(ids.len(), 3);
}

#[test]
fn cases_of_one_model_and_shape_share_their_reference() {
    let text = r#"
schema = 1
experiment = { name = "test" }
model = [{ id = "a", path = "a.onnx" }, { id = "b", path = "b.onnx" }]
backend = [{ id = "cuda", device = ["cuda:0", "cuda:1"] }]
check = { reference = "cpu", tolerance = { fp16 = { of-scale = 0.5 } } }
matrix = { precision = ["fp32", "fp16"], batch = [1, 2] }
"#;
    let gpu = |id: &str| device(id, &[Precision::Fp32, Precision::Fp16]);
    let cuda = || ready("cuda", &[gpu("cuda:0"), gpu("cuda:1")]);
    let cpu = ready("cpu", &[device("cpu:0", &[Precision::Fp32])]);
    let experiment = parse(text).unwrap();
    let plan = Plan::new(&experiment, facts([("cuda", cuda()), ("cpu", cpu)])).unwrap();
    assert_eq!(plan.count(), Count { cases: 16, gaps: 0 });
    let checks: Vec<_> = plan
        .items()
        .map(|item| match item {
            PlannedCase::Case(case) => {
                let check = case.check.clone().expect("a check");
                assert_eq!(check.reference(), "cpu 0.1.0 on cpu:0 in fp32");
                let own = case.reference(&check);
                assert_eq!((&*own.key.device, own.key.batch), ("cpu:0", case.key.batch));
                let expected = if case.key.precision == Precision::Fp16 { 0.5 } else { 1e-4 };
                assert_eq!(check.tolerance.of_scale, expected);
                (case.key.model.clone(), case.key.batch, check.id)
            }
            PlannedCase::Gap { gap, .. } => panic!("{gap:?}"),
        })
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect();
    assert_eq!(checks.len(), 4, "one for each model and batch: {checks:?}");

    let nothing = ready("cpu", &[]);
    let error = Plan::new(&experiment, facts([("cuda", cuda()), ("cpu", nothing)])).unwrap_err();
    assert_eq!(
        error.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["the reference `cpu` cannot be used: the backend `cpu` found no device"]
    );
}

/// An `offline` query is the whole set of samples, so a latency limit does not apply to it.
#[test]
fn offline_has_no_limit_on_its_latency() {
    let matrix = "backend = \"cpu\"\nmodel = \"b\"\nscenario = [\"single-stream\", \"offline\"]\n\
                  [measure]\nlatency-limit = \"5ms\"";
    let cpu = ready("cpu", &[device("cpu:0", &[Precision::Fp32])]);
    let plan = plan(matrix, facts([("cpu", cpu), ("cuda", ready("cuda", &[]))])).expect("a plan");
    let limits: Vec<_> = plan
        .items()
        .map(|item| match item {
            PlannedCase::Case(case) => case.measure.latency_limit.map(|limit| limit.at_most_ns),
            PlannedCase::Gap { .. } => panic!("nothing is missing"),
        })
        .collect();
    assert_eq!(limits, [Some(5_000_000), None]);
}

#[test]
fn cases_are_paired_with_what_differs_in_the_pair_alone() {
    let pairs = |matrix: &str, facts: Facts| -> String {
        let plan = plan(matrix, facts).unwrap_or_else(|error| panic!("{error}"));
        let line = |item: PlannedPair| match item {
            PlannedPair::Pair([first, second]) => format!("{} with {}", first.key, second.key),
            PlannedPair::Gap(gap) => {
                format!(
                    "{} [{}]",
                    gap.key(),
                    gap.gap().map(ToString::to_string).unwrap_or_default()
                )
            }
        };
        plan.pairs().expect("pairs").map(line).collect::<Vec<_>>().join("\n")
    };
    let paired = |pair: &str| format!("[measure]\norder = \"paired\"\npair = {pair}");
    let device = |id: &str| device(id, &[Precision::Fp32]);
    let both = || {
        facts([
            ("cpu", ready("cpu", &[device("cpu:0")])),
            ("cuda", ready("cuda", &[device("cuda:0"), device("cuda:1")])),
        ])
    };
    // Two models.
    let matrix = format!("backend = \"cpu\"\nbatch = [1, 8]\n{}", paired(r#"["a", "b"]"#));
    assert_snapshot!(pairs(&matrix, both()), @"
    a · cpu · cpu:0 · fp32 · batch 1 · single-stream with b · cpu · cpu:0 · fp32 · batch 1 · single-stream
    a · cpu · cpu:0 · fp32 · batch 8 · single-stream with b · cpu · cpu:0 · fp32 · batch 8 · single-stream
    ");
    // One backend has two devices, and the other one.
    let matrix = format!("model = \"a\"\n{}", paired(r#"["cpu", "cuda"]"#));
    assert_snapshot!(pairs(&matrix, both()), @r#"
    a · cpu · cpu:0 · fp32 · batch 1 · single-stream [no other case differs from it in the backend alone, cpu or cuda; measure it without `order = "paired"`]
    a · cuda · cuda:0 · fp32 · batch 1 · single-stream [no other case differs from it in the backend alone, cpu or cuda; measure it without `order = "paired"`]
    a · cuda · cuda:1 · fp32 · batch 1 · single-stream [no other case differs from it in the backend alone, cpu or cuda; measure it without `order = "paired"`]
    "#);
    // A backend that is not there.
    let missing =
        Gap::PluginMissing { plugin: "cuda".into(), registry_message: "no `cuda`".into() };
    let alone = facts([
        ("cpu", ready("cpu", &[device("cpu:0")])),
        ("cuda", BackendFacts::Missing(missing)),
    ]);
    let matrix = format!(
        "model = \"a\"\nexclude = [{{ device = \"cuda:1\" }}]\n{}",
        paired(r#"["cpu", "cuda"]"#)
    );
    assert_snapshot!(pairs(&matrix, alone), @"
    a · cpu · cpu:0 · fp32 · batch 1 · single-stream [the other side of its pair, cuda, cannot run: no `cuda`]
    a · cuda · auto · fp32 · batch 1 · single-stream [no `cuda`]
    ");
}

#[test]
fn what_cannot_be_loaded_together_is_a_gap() {
    let text = |pair: &str| {
        format!("{BASE}backend = \"cpu\"\n[measure]\norder = \"paired\"\npair = {pair}")
    };
    let gap = |facts: Facts| {
        let experiment = parse(&text(r#"["a", "b"]"#)).unwrap_or_else(|e| panic!("{e:#?}"));
        let plan = Plan::new(&experiment, facts).unwrap();
        let gap = plan.items().next().and_then(|item| item.gap().map(ToString::to_string));
        gap.unwrap_or_default()
    };
    let on = |device: DeviceInfo| {
        facts([("cpu", ready("cpu", &[device])), ("cuda", ready("cuda", &[]))])
    };
    let plain = device("cpu:0", &[Precision::Fp32]);
    assert_eq!(gap(on(plain.clone())), "");
    let mut exclusive = plain.clone();
    exclusive.attributes.insert("exclusive".into(), "true".into());
    assert_snapshot!(gap(on(exclusive)), @r#"
    both sides need the device cpu:0, which one process at a time can use; measure them one after the other, with `order = "interleaved"`
    "#);
    let mut large = on(plain);
    large.memory_bytes = Some(1 << 30);
    let file = |facts: &Facts, id: &str| facts.models[id].values().next().cloned().expect("a file");
    for id in ["a", "b"] {
        let file = file(&large, id);
        let structure =
            ModelStructure { weights_bytes: Some(600 << 20), ..ModelStructure::default() };
        large.structures.insert(file, structure);
    }
    assert_snapshot!(gap(large), @r#"
    both sides are loaded at the same time, and take at least 1.17 GiB of 1 GiB; measure them one after the other, with `order = "interleaved"`
    "#);
}
