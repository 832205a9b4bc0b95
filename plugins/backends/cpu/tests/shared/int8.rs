//! Architectures in int8 against the same ones in fp32, on one backend. Tests of several backends share it.

use host_architectures::{Architecture, Axis, Element, Legal, Model};
use plugin_api::client::{Backend, DataType, LoadRequest, TensorView};

/// Families at small sizes. Their layers are those of the whole ones.
pub(crate) const SMALL: &[&str] = &[
    "resnet18:width=16,image=64,classes=100",
    "resnet50:width=16,image=64,classes=100",
    "mobilenet_v3_large:image=64,classes=100",
    "bert_base:layers=3,width=96,heads=4,inner=384,vocabulary=500,positions=32",
    "gpt2:layers=3,width=96,heads=4,vocabulary=500,positions=32",
    "vit_b_16:layers=3,width=96,heads=4,inner=384,image=64,classes=100",
];

/// Default tolerance of `[check]` for int8: the smallest cosine of any output.
const COSINE: f64 = 0.95;

const BATCH: usize = 4;
const LENGTH: usize = 16;

/// Returns each output of a model for inputs that are the same for each call, and the kinds of operators that have run.
fn run(
    backend: &Backend,
    options: &[(&str, &str)],
    model: &Model,
    precision: &str,
) -> (Vec<Vec<f32>>, Vec<String>) {
    let cache = tempfile::tempdir().expect("a folder");
    let path = model.ensure(cache.path(), &mut |_| {}).expect("it is written");
    let path = path.to_str().expect("UTF-8");
    let request = LoadRequest { path, device: "cpu:0", threads: Some(1), options };
    let loaded = backend.load(&request).expect("the engine loads it");
    let shape = |axes: &[Axis]| -> Vec<i64> {
        let size = |axis: &Axis| match axis {
            Axis::Batch => BATCH as i64,
            Axis::Sequence => LENGTH as i64,
            Axis::Fixed(size) => *size as i64,
        };
        axes.iter().map(size).collect()
    };
    let shapes: Vec<_> = model.inputs().iter().map(|input| shape(&input.axes)).collect();
    let session = loaded.prepare(precision, &shapes).expect("a session");
    let used = session.used().iter().find(|(key, _)| key == "precision");
    assert_eq!(used.map(|(_, value)| value.as_str()), Some(precision));
    // A linear congruential generator, by its upper bits.
    let mut state = 1_u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 40
    };
    let inputs = model.inputs().iter().zip(&shapes).map(|(input, shape)| {
        let count = shape.iter().product::<i64>() as usize;
        let (dtype, bytes): (_, Vec<u8>) = match input.legal {
            Legal::Numbers => {
                let numbers = (0..count).map(|_| next() as f32 / (1_u32 << 24) as f32);
                (DataType::F32, numbers.flat_map(f32::to_le_bytes).collect())
            }
            Legal::Below(most) => {
                let numbers = (0..count).map(|_| (next() % most) as i64);
                (DataType::I64, numbers.flat_map(i64::to_le_bytes).collect())
            }
            Legal::Ones => (DataType::I64, (0..count).flat_map(|_| 1_i64.to_le_bytes()).collect()),
        };
        let view = TensorView { dtype, shape, strides: None, bytes: &bytes };
        loaded.tensor(view).expect("a tensor")
    });
    let inputs: Vec<_> = inputs.collect();
    let mut call = session.call(inputs).expect("a call");
    call.run().expect("it runs");
    let outputs = (0..loaded.info().outputs.len()).map(|index| {
        let bytes = call.read_output(index).expect("an output").bytes;
        let (chunks, _) = bytes.as_chunks::<4>();
        chunks.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    });
    let outputs = outputs.collect();
    let profile = call.profile().expect("it is offered").expect("a profile");
    (outputs, profile.into_iter().map(|operator| operator.kind).collect())
}

/// Checks the outputs in int8 against those in fp32. `integer` returns whether an operator of this kind computes with
/// whole numbers, and each architecture must have one.
pub(crate) fn check(backend: &Backend, options: &[(&str, &str)], integer: impl Fn(&str) -> bool) {
    for name in SMALL {
        let architecture: Architecture = name.parse().expect("an architecture");
        let of = |element: Element| {
            run(backend, options, &architecture.model(element, 0), element.name())
        };
        let (full, _) = of(Element::Fp32);
        let (int8, kinds) = of(Element::Int8);
        assert!(kinds.iter().any(|kind| integer(kind)), "{name}: {kinds:?}");
        for (full, int8) in full.iter().zip(int8) {
            let sum = |one: &[f32], other: &[f32]| -> f64 {
                one.iter().zip(other).map(|(one, other)| f64::from(*one) * f64::from(*other)).sum()
            };
            let cosine = sum(full, &int8) / (sum(full, full) * sum(&int8, &int8)).sqrt();
            let difference: Vec<f32> =
                full.iter().zip(&int8).map(|(one, other)| one - other).collect();
            let relative = (sum(&difference, &difference) / sum(full, full)).sqrt();
            tell(name, cosine, relative);
            assert!(cosine > COSINE, "{name}: {cosine}");
            assert!(relative > 1e-6, "{name}: it was not quantised");
        }
    }
}

#[expect(clippy::print_stderr, reason = "figures for docs/reference/architectures.md")]
fn tell(name: &str, cosine: f64, relative: f64) {
    eprintln!("{name}: cosine {cosine:.5}, relative difference {relative:.4}");
}
