//! ResNet (He et al. 2015), as `torchvision.models.resnet` has it: the stride is in the 3×3 convolution.

use crate::family::{Category, Family, size};
use crate::graph::{Axis, Graph, Legal, Value, integer, integers};
use crate::layers::{BRANCH, Convolution};
use crate::size::{Size, Sizes, Unfit};

const fn sizes(depth: u64) -> [Size; 4] {
    [
        size("depth", depth, "layers: 18, 34, 50, 101 or 152"),
        size("width", 64, "channels of the first stage"),
        size("image", 224, "height and width of the image"),
        size("classes", 1000, "outputs"),
    ]
}

pub(super) const RESNET18: Family =
    Family { name: "resnet18", categories: &[Category::Vision], sizes: &sizes(18), build };

pub(super) const RESNET50: Family =
    Family { name: "resnet50", categories: &[Category::Vision], sizes: &sizes(50), build };

const EPSILON: f32 = 1e-5;

fn build(graph: &mut Graph, sizes: &Sizes) -> Result<(), Unfit> {
    let side = Axis::Fixed(sizes.get("image"));
    let image = [Axis::Batch, Axis::Fixed(3), side, side];
    let x = graph.input("image", &image, Legal::Numbers);
    let shape = Shape::of(sizes.get("depth"), sizes.get("width"))?;
    let x = shape.build(graph, &x, "", false);
    let x = graph.node("GlobalAveragePool", &[&x], vec![]);
    let x = graph.node("Flatten", &[&x], vec![integer("axis", 1)]);
    let logits = graph.linear_of_rows(&x, "fc", shape.features(), sizes.get("classes"));
    graph.output("logits", &logits, &[Axis::Batch, Axis::Fixed(sizes.get("classes"))]);
    Ok(())
}

/// Shape of a residual network without its classifier.
pub(super) struct Shape {
    blocks: [u64; 4],
    is_bottleneck: bool,
    width: u64,
}

impl Shape {
    pub(super) fn of(depth: u64, width: u64) -> Result<Self, Unfit> {
        let (blocks, is_bottleneck) = match depth {
            18 => ([2, 2, 2, 2], false),
            34 => ([3, 4, 6, 3], false),
            50 => ([3, 4, 6, 3], true),
            101 => ([3, 4, 23, 3], true),
            152 => ([3, 8, 36, 3], true),
            _ => {
                let choices = &[18, 34, 50, 101, 152];
                return Err(Unfit::NotAmong { size: "depth", choices });
            }
        };
        Ok(Self { blocks, is_bottleneck, width })
    }

    fn expansion(&self) -> u64 {
        if self.is_bottleneck { 4 } else { 1 }
    }

    /// Returns the channels of the last stage.
    pub(super) fn features(&self) -> u64 {
        self.width * 8 * self.expansion()
    }

    /// Adds the stages. Names of weights begin with `prefix`.
    pub(super) fn build(
        &self,
        graph: &mut Graph,
        image: &Value,
        prefix: &str,
        is_frozen: bool,
    ) -> Value {
        let stem = Convolution { stride: 2, ..Convolution::of_images(3, self.width, 7) };
        let x = graph.convolve(image, &format!("{prefix}conv1"), stem);
        let settings = (EPSILON, 1.0, is_frozen);
        let x = graph.batch_norm(&x, &format!("{prefix}bn1"), self.width, settings);
        let x = graph.relu(&x);
        let pool = vec![
            integers("kernel_shape", &[3, 3]),
            integers("strides", &[2, 2]),
            integers("pads", &[1, 1, 1, 1]),
        ];
        let mut x = graph.node("MaxPool", &[&x], pool);
        let mut inputs = self.width;
        for (stage, blocks) in self.blocks.into_iter().enumerate() {
            let width = self.width << stage;
            for block in 0..blocks {
                let name = format!("{prefix}layer{}.{block}", stage + 1);
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                x = self.block(graph, &x, &name, (inputs, width, stride, is_frozen));
                inputs = width * self.expansion();
            }
        }
        x
    }

    fn block(
        &self,
        graph: &mut Graph,
        x: &Value,
        name: &str,
        (inputs, width, stride, is_frozen): (u64, u64, u64, bool),
    ) -> Value {
        let outputs = width * self.expansion();
        let layers = match self.is_bottleneck {
            true => vec![
                Convolution::of_images(inputs, width, 1),
                Convolution { stride, ..Convolution::of_images(width, width, 3) },
                Convolution::of_images(width, outputs, 1),
            ],
            false => vec![
                Convolution { stride, ..Convolution::of_images(inputs, width, 3) },
                Convolution::of_images(width, width, 3),
            ],
        };
        let last = layers.len();
        let mut branch = x.clone();
        for (number, layer) in (1..).zip(layers) {
            let scale = if number == last { BRANCH } else { 1.0 };
            let settings = (EPSILON, scale, is_frozen);
            branch = graph.convolve(&branch, &format!("{name}.conv{number}"), layer);
            let norm = format!("{name}.bn{number}");
            branch = graph.batch_norm(&branch, &norm, layer.outputs, settings);
            if number < last {
                branch = graph.relu(&branch);
            }
        }
        let shortcut = if stride == 1 && inputs == outputs {
            x.clone()
        } else {
            let layer =
                Convolution { stride, gain: 1.0, ..Convolution::of_images(inputs, outputs, 1) };
            let shortcut = graph.convolve(x, &format!("{name}.downsample.0"), layer);
            let norm = format!("{name}.downsample.1");
            graph.batch_norm(&shortcut, &norm, outputs, (EPSILON, 1.0, is_frozen))
        };
        let sum = graph.add(&branch, &shortcut);
        graph.relu(&sum)
    }
}
