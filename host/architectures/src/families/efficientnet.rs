//! EfficientNet (Tan and Le 2019), as `torchvision.models.efficientnet` has it.

use crate::family::{Category, Family, scaled, size};
use crate::graph::{Axis, Graph, Legal, Value, integer};
use crate::layers::{BRANCH, Convolution};
use crate::size::{Sizes, Unfit};

pub(super) const EFFICIENTNET_B0: Family = Family {
    name: "efficientnet_b0",
    categories: &[Category::Vision],
    sizes: &[
        size("width", 100, "channels, in per cent"),
        size("depth", 100, "blocks, in per cent"),
        size("image", 224, "height and width of the image"),
        size("classes", 1000, "outputs"),
    ],
    build,
};

const EPSILON: f32 = 1e-5;

/// Expansion, kernel, stride, channels, channels after it, blocks (table 1 of the paper).
const STAGES: [(u64, u64, u64, u64, u64, u64); 7] = [
    (1, 3, 1, 32, 16, 1),
    (6, 3, 2, 16, 24, 2),
    (6, 5, 2, 24, 40, 2),
    (6, 3, 2, 40, 80, 3),
    (6, 5, 1, 80, 112, 3),
    (6, 5, 2, 112, 192, 4),
    (6, 3, 1, 192, 320, 1),
];

fn build(graph: &mut Graph, sizes: &Sizes) -> Result<(), Unfit> {
    let width = |count| scaled(count, sizes.get("width"));
    let side = Axis::Fixed(sizes.get("image"));
    let image = graph.input("image", &[Axis::Batch, Axis::Fixed(3), side, side], Legal::Numbers);
    let mut inputs = width(32);
    let stem = Convolution { stride: 2, ..Convolution::of_images(3, inputs, 3) };
    let x = layer(graph, &image, "features.0", stem, 1.0);
    let mut x = graph.silu(&x);
    for (number, (expansion, kernel, stride, _, outputs, blocks)) in (1..).zip(STAGES) {
        let outputs = width(outputs);
        for block in 0..(blocks * sizes.get("depth")).div_ceil(100) {
            let stride = if block == 0 { stride } else { 1 };
            let expanded = match expansion {
                1 => inputs,
                _ => scaled(inputs * expansion, 100),
            };
            let name = format!("features.{number}.{block}.block");
            let mut part = (0..).map(|part| format!("{name}.{part}"));
            let mut next = || part.next().expect("numbers do not end");
            let mut branch = x.clone();
            if expanded != inputs {
                let shape =
                    Convolution { gain: 1.0, ..Convolution::of_images(inputs, expanded, 1) };
                branch = layer(graph, &branch, &next(), shape, 1.0);
                branch = graph.silu(&branch);
            }
            let shape = Convolution::of_images(expanded, expanded, kernel);
            let shape = Convolution { stride, groups: expanded, ..shape };
            branch = layer(graph, &branch, &next(), shape, 1.0);
            branch = graph.silu(&branch);
            let gate = squeeze(graph, &branch, &next(), (expanded, (inputs / 4).max(1)));
            branch = graph.node("Mul", &[&gate, &branch], vec![]);
            let adds = stride == 1 && inputs == outputs;
            // The gate is near one half.
            let scale = if adds { 2.0 * BRANCH } else { 2.0 };
            let shape = Convolution::of_images(expanded, outputs, 1);
            branch = layer(graph, &branch, &next(), shape, scale);
            x = if adds { graph.add(&branch, &x) } else { branch };
            inputs = outputs;
        }
    }
    let features = 4 * inputs;
    let shape = Convolution { gain: 1.0, ..Convolution::of_images(inputs, features, 1) };
    let x = layer(graph, &x, "features.8", shape, 1.0);
    let x = graph.silu(&x);
    let x = graph.node("GlobalAveragePool", &[&x], vec![]);
    let x = graph.node("Flatten", &[&x], vec![integer("axis", 1)]);
    let classes = sizes.get("classes");
    let logits = graph.linear_of_rows(&x, "classifier.1", features, classes);
    graph.output("logits", &logits, &[Axis::Batch, Axis::Fixed(classes)]);
    Ok(())
}

fn layer(graph: &mut Graph, x: &Value, name: &str, shape: Convolution, scale: f32) -> Value {
    let x = graph.convolve(x, &format!("{name}.0"), shape);
    graph.batch_norm(&x, &format!("{name}.1"), shape.outputs, (EPSILON, scale, false))
}

fn squeeze(graph: &mut Graph, x: &Value, name: &str, (width, inner): (u64, u64)) -> Value {
    let x = graph.node("GlobalAveragePool", &[x], vec![]);
    let with_bias = |inputs, outputs| Convolution {
        bias: true,
        gain: 1.0,
        ..Convolution::of_images(inputs, outputs, 1)
    };
    let x = graph.convolve(&x, &format!("{name}.fc1"), with_bias(width, inner));
    let x = graph.silu(&x);
    let x = graph.convolve(&x, &format!("{name}.fc2"), with_bias(inner, width));
    graph.node("Sigmoid", &[&x], vec![])
}
