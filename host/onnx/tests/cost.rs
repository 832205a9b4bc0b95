//! Costs of well-known architectures against those that their authors publish.

use std::collections::BTreeMap;

use host_architectures::{Architecture, Axis, Element};
use host_onnx::Model;
use host_record::{ModelCost, NotMeasured};
use proptest::prelude::*;

/// Returns the cost for a batch and a length of sequences.
fn cost(name: &str, batch: u64, length: u64) -> ModelCost {
    let architecture: Architecture = name.parse().expect("an architecture");
    let model = architecture.model(Element::Fp32, 0);
    let shape = |axes: &[Axis]| -> Vec<u64> {
        let size = |axis: &Axis| match axis {
            Axis::Batch => batch,
            Axis::Sequence => length,
            Axis::Fixed(size) => *size,
        };
        axes.iter().map(size).collect()
    };
    let shapes = model.inputs().iter().map(|input| (input.name.clone(), shape(&input.axes)));
    let shapes: BTreeMap<_, _> = shapes.collect();
    let file = Model::of_bytes(model.file()).expect("a model");
    file.cost(&shapes)
}

fn flops(name: &str, batch: u64, length: u64) -> u64 {
    cost(name, batch, length).flops.unwrap_or_else(|gap| panic!("{name}: {gap}"))
}

fn is_near(name: &str, found: u64, published: f64) {
    let ratio = found as f64 / published;
    assert!((0.99..1.01).contains(&ratio), "{name}: {found} of {published}");
}

/// Products in 10⁹ for one image, which `torchvision` publishes with its weights, counted by fvcore's rules.
#[test]
fn operations_of_vision_are_the_published_ones() {
    let published = [
        ("resnet18", 1.814),
        ("resnet50", 4.089),
        ("mobilenet_v3_large", 0.217),
        ("efficientnet_b0", 0.386),
        ("vit_b_16", 17.564),
    ];
    for (name, products) in published {
        is_near(name, flops(name, 1, 1), 2e9 * products);
        assert_eq!(flops(name, 8, 1), 8 * flops(name, 1, 1), "{name}");
    }
}

/// Counts of `torch.utils.flop_counter`, by `host/architectures/tests/flops.py`.
#[test]
fn operations_are_those_of_torch() {
    let counted = [
        ("resnet18", 3_628_146_688_u64),
        ("resnet50", 8_178_368_512),
        ("mobilenet_v3_large", 433_179_520),
        ("efficientnet_b0", 771_629_504),
        ("vit_b_16", 35_127_656_448),
        ("detr_resnet50", 162_329_907_200),
        ("bert_base", 22_348_431_360),
        ("gpt2", 32_228_179_968),
        ("llama_1b", 267_764_367_360),
        ("t5_small", 16_089_350_144),
        ("clip_vit_b32", 14_777_164_800),
        ("whisper_tiny", 48_969_449_472),
    ];
    for (name, operations) in counted {
        let length = if name == "clip_vit_b32" { 77 } else { 128 };
        is_near(name, flops(name, 1, length), operations as f64);
    }
    assert_eq!(counted.map(|(name, _)| name).len(), host_architectures::names().len());
}

/// Two operations for each weight of a matrix and token, and the products of attention (Kaplan et al. 2020,
/// section 2.1).
#[test]
fn operations_of_text_follow_from_their_matrices() {
    let (tokens, width, layers) = (128, 768, 12);
    let attention = 2 * 2 * layers * tokens * tokens * width;
    let of_layers = 2 * tokens * layers * 12 * width * width + attention;
    let gpt2 = flops("gpt2", 1, tokens);
    is_near("gpt2", gpt2, (of_layers + 2 * tokens * width * 50257) as f64);
    let bert = flops("bert_base", 1, tokens);
    is_near("bert_base", bert, (of_layers + 2 * width * width) as f64);
    let llama = flops("llama_1b", 1, tokens);
    let matrices = 1_100_048_384 - 32000 * 2048;
    let attention = 2 * 2 * 22 * tokens * tokens * 2048;
    is_near("llama_1b", llama, (2 * tokens * matrices + attention) as f64);
}

#[test]
fn every_architecture_has_a_cost_and_moves_the_weights_that_it_reads() {
    for name in host_architectures::names() {
        let cost = cost(name, 2, 16);
        let architecture = name.parse::<Architecture>().expect("one");
        let model = architecture.model(Element::Fp32, 0);
        let file = Model::of_bytes(model.file()).expect("a model");
        let least = cost.least_bytes.clone().expect("it is known");
        // Rows of a table that are not looked up stay where they are.
        let weights = 4 * model.parameters();
        match file.facts.tables.is_empty() {
            true => assert!(least >= weights, "{name}: {least}"),
            false => assert!(least > weights / 4, "{name}: {least}"),
        }
        assert!(cost.unfused_bytes.clone().expect("it is known") > least, "{name}: {cost:?}");
        assert!(cost.intensity().expect("it is known") > 0.0, "{name}");
        assert_eq!(file.facts.parameters(), model.parameters(), "{name}");
    }
}

#[test]
fn an_input_without_a_shape_is_named() {
    let model = "resnet18".parse::<Architecture>().expect("one").model(Element::Fp32, 0);
    let file = Model::of_bytes(model.file()).expect("a model");
    let gap = NotMeasured::NoInputShape { inputs: vec!["image".into()] };
    assert_eq!(file.cost(&BTreeMap::new()), ModelCost::unknown(&gap.into()));
}

proptest! {
    /// A damaged file gives absurd facts, and never a crash.
    #[test]
    fn damaged_graphs_are_read_to_an_end(at: prop::sample::Index, with: u8, small in 0_usize..4) {
        let name = [
            "gpt2:layers=1,width=24,heads=2,vocabulary=50,positions=8",
            "resnet18",
            "t5_small:layers=1",
            "whisper_tiny:layers=1",
        ][small];
        let model = name.parse::<Architecture>().expect("one").model(Element::Fp32, 0);
        let mut bytes = model.file().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = with;
        if let Some(file) = Model::of_bytes(&bytes[..]) {
            let shapes = file.facts.inputs.iter().map(|input| (input.name.clone(), vec![2, 3, 64, 64]));
            let _ = file.cost(&shapes.collect());
        }
    }
}
