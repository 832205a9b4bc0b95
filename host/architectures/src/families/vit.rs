//! Vision Transformer (Dosovitskiy et al. 2020), as `torchvision.models.vision_transformer` has it.

use crate::family::{Category, Family, size};
use crate::fill::Fill;
use crate::graph::{Axis, Graph, Legal, TRANSPOSED, integer};
use crate::layers::Convolution;
use crate::size::{Sizes, Unfit};

pub(super) const VIT_B_16: Family = Family {
    name: "vit_b_16",
    categories: &[Category::Vision],
    sizes: &[
        size("layers", 12, "blocks"),
        size("width", 768, "features of a position"),
        size("heads", 12, "heads of attention"),
        size("inner", 3072, "features inside a block's network"),
        size("patch", 16, "height and width of a patch"),
        size("image", 224, "height and width of the image"),
        size("classes", 1000, "outputs"),
    ],
    build,
};

const EPSILON: f32 = 1e-6;

fn build(graph: &mut Graph, sizes: &Sizes) -> Result<(), Unfit> {
    let (width, inner, heads) = (sizes.get("width"), sizes.get("inner"), sizes.get("heads"));
    let of_head = sizes.divided("width", heads)?;
    let patches = sizes.divided("image", sizes.get("patch"))?.pow(2);
    let side = Axis::Fixed(sizes.get("image"));
    let image = graph.input("image", &[Axis::Batch, Axis::Fixed(3), side, side], Legal::Numbers);
    let shape = Convolution {
        stride: sizes.get("patch"),
        padding: 0,
        bias: true,
        ..Convolution::of_images(3, width, sizes.get("patch"))
    };
    let x = graph.convolve(&image, "conv_proj", shape);
    let x = graph.reshape(&x, &[0, width as i64, patches as i64]);
    let x = graph.transpose(&x, &[0, 2, 1]);
    let class = graph.parameter("class_token", &[1, 1, width], Fill::deviation(1.0));
    let class = graph.for_each_example(&class, &image, &[1, width as i64]);
    let x = graph.node("Concat", &[&class, &x], vec![integer("axis", 1)]);
    let table = [1, patches + 1, width];
    let positions = graph.parameter("encoder.pos_embedding", &table, Fill::deviation(0.3));
    let mut x = graph.add(&x, &positions);
    for layer in 0..sizes.get("layers") {
        let name = format!("encoder.layers.encoder_layer_{layer}");
        let normal = graph.layer_norm(&x, &format!("{name}.ln_1"), width, EPSILON);
        let joined = format!("{name}.self_attention.in_proj_weight{TRANSPOSED}");
        let weight = graph.parameter(&joined, &[width, 3 * width], Fill::fan_in(1.0, width));
        let joined = format!("{name}.self_attention.in_proj_bias");
        let bias = graph.parameter(&joined, &[3 * width], Fill::near(0.0, 0.05));
        let joined = graph.node("MatMul", &[&normal, &weight], vec![]);
        let joined = graph.add(&joined, &bias);
        let parts = graph.integers(&[width as i64; 3]);
        let [q, k, v] = graph.node_with("Split", &[&joined, &parts], vec![integer("axis", 2)]);
        let scale = Some((of_head as f32).sqrt().recip());
        let mixed = graph.attend([&q, &k, &v], (heads, of_head), scale, None);
        let mixed = graph.linear(&mixed, &format!("{name}.self_attention.out_proj"), width, width);
        x = graph.add(&mixed, &x);
        let normal = graph.layer_norm(&x, &format!("{name}.ln_2"), width, EPSILON);
        let hidden = graph.linear(&normal, &format!("{name}.mlp.0"), width, inner);
        let hidden = graph.gelu(&hidden);
        let hidden = graph.linear(&hidden, &format!("{name}.mlp.3"), inner, width);
        x = graph.add(&x, &hidden);
    }
    let x = graph.layer_norm(&x, "encoder.ln", width, EPSILON);
    let (first, second) = (graph.integers(&[0]), graph.integers(&[1]));
    let class = graph.node("Slice", &[&x, &first, &second, &second], vec![]);
    let class = graph.node("Flatten", &[&class], vec![integer("axis", 1)]);
    let classes = sizes.get("classes");
    let logits = graph.linear_of_rows(&class, "heads.head", width, classes);
    graph.output("logits", &logits, &[Axis::Batch, Axis::Fixed(classes)]);
    Ok(())
}
