//! MobileNetV3 (Howard et al. 2019), as `torchvision.models.mobilenetv3` has it.

use crate::family::{Category, Family, channels, scaled, size};
use crate::graph::{Axis, Graph, Legal, Value, float, integer};
use crate::layers::{BRANCH, Convolution};
use crate::size::{Sizes, Unfit};

pub(super) const MOBILENET_V3_LARGE: Family = Family {
    name: "mobilenet_v3_large",
    categories: &[Category::Vision],
    sizes: &[
        size("width", 100, "channels, in per cent"),
        size("image", 224, "height and width of the image"),
        size("classes", 1000, "outputs"),
    ],
    build,
};

const EPSILON: f32 = 1e-3;

#[derive(Clone, Copy)]
enum Activation {
    Relu,
    HardSwish,
}

impl Activation {
    fn apply(self, graph: &mut Graph, x: &Value) -> Value {
        match self {
            Self::Relu => graph.relu(x),
            Self::HardSwish => graph.node("HardSwish", &[x], vec![]),
        }
    }
}

/// Kernel, expanded channels, channels, squeeze and excitation, activation, stride (table 1 of the paper).
const BLOCKS: [(u64, u64, u64, bool, Activation, u64); 15] = {
    use Activation::{HardSwish, Relu};
    [
        (3, 16, 16, false, Relu, 1),
        (3, 64, 24, false, Relu, 2),
        (3, 72, 24, false, Relu, 1),
        (5, 72, 40, true, Relu, 2),
        (5, 120, 40, true, Relu, 1),
        (5, 120, 40, true, Relu, 1),
        (3, 240, 80, false, HardSwish, 2),
        (3, 200, 80, false, HardSwish, 1),
        (3, 184, 80, false, HardSwish, 1),
        (3, 184, 80, false, HardSwish, 1),
        (3, 480, 112, true, HardSwish, 1),
        (3, 672, 112, true, HardSwish, 1),
        (5, 672, 160, true, HardSwish, 2),
        (5, 960, 160, true, HardSwish, 1),
        (5, 960, 160, true, HardSwish, 1),
    ]
};

fn build(graph: &mut Graph, sizes: &Sizes) -> Result<(), Unfit> {
    let width = |count| scaled(count, sizes.get("width"));
    let side = Axis::Fixed(sizes.get("image"));
    let image = graph.input("image", &[Axis::Batch, Axis::Fixed(3), side, side], Legal::Numbers);
    let swish = Some(Activation::HardSwish);
    let mut inputs = width(16);
    let stem = Convolution { stride: 2, ..Convolution::of_images(3, inputs, 3) };
    let mut x = layer(graph, &image, "features.0", stem, 1.0, swish);
    for (number, (kernel, expanded, outputs, squeezes, activation, stride)) in (1..).zip(BLOCKS) {
        let (expanded, outputs) = (width(expanded), width(outputs));
        let mut at = (0..).map(|part| format!("features.{number}.block.{part}"));
        let mut next = || at.next().expect("numbers do not end");
        let mut branch = x.clone();
        if expanded != inputs {
            let shape = Convolution { gain: 1.0, ..Convolution::of_images(inputs, expanded, 1) };
            branch = layer(graph, &branch, &next(), shape, 1.0, Some(activation));
        }
        let shape = Convolution::of_images(expanded, expanded, kernel);
        let shape = Convolution { stride, groups: expanded, ..shape };
        branch = layer(graph, &branch, &next(), shape, 1.0, Some(activation));
        if squeezes {
            let inner = channels((expanded / 4) as f64);
            let gate = squeeze(graph, &branch, &next(), (expanded, inner));
            branch = graph.node("Mul", &[&gate, &branch], vec![]);
        }
        let adds = stride == 1 && inputs == outputs;
        // The gate of an excitation is near one half.
        let scale = if squeezes { 2.0 } else { 1.0 } * if adds { BRANCH } else { 1.0 };
        let shape = Convolution::of_images(expanded, outputs, 1);
        branch = layer(graph, &branch, &next(), shape, scale, None);
        x = if adds { graph.add(&branch, &x) } else { branch };
        inputs = outputs;
    }
    let features = 6 * inputs;
    let shape = Convolution { gain: 1.0, ..Convolution::of_images(inputs, features, 1) };
    let x = layer(graph, &x, "features.16", shape, 1.0, swish);
    let x = graph.node("GlobalAveragePool", &[&x], vec![]);
    let x = graph.node("Flatten", &[&x], vec![integer("axis", 1)]);
    let (hidden, classes) = (width(1280), sizes.get("classes"));
    let x = graph.linear_of_rows(&x, "classifier.0", features, hidden);
    let x = Activation::HardSwish.apply(graph, &x);
    let logits = graph.linear_of_rows(&x, "classifier.3", hidden, classes);
    graph.output("logits", &logits, &[Axis::Batch, Axis::Fixed(classes)]);
    Ok(())
}

fn layer(
    graph: &mut Graph,
    x: &Value,
    name: &str,
    shape: Convolution,
    scale: f32,
    activation: Option<Activation>,
) -> Value {
    let x = graph.convolve(x, &format!("{name}.0"), shape);
    let x = graph.batch_norm(&x, &format!("{name}.1"), shape.outputs, (EPSILON, scale, false));
    match activation {
        Some(activation) => activation.apply(graph, &x),
        None => x,
    }
}

fn squeeze(graph: &mut Graph, x: &Value, name: &str, (width, inner): (u64, u64)) -> Value {
    let x = graph.node("GlobalAveragePool", &[x], vec![]);
    let with_bias = |inputs, outputs| Convolution {
        bias: true,
        gain: 1.0,
        ..Convolution::of_images(inputs, outputs, 1)
    };
    let x = graph.convolve(&x, &format!("{name}.fc1"), with_bias(width, inner));
    let x = graph.relu(&x);
    let x = graph.convolve(&x, &format!("{name}.fc2"), with_bias(inner, width));
    graph.node("HardSigmoid", &[&x], vec![float("alpha", 1.0 / 6.0), float("beta", 0.5)])
}
