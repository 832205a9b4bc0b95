//! DETR (Carion et al. 2020), as `transformers.DetrForObjectDetection` has it: boxes of objects, and their
//! classes. All of the image is seen, so the table of positions is computed beforehand.

use std::f64::consts::TAU;

use super::resnet;
use crate::family::{Category, Family, size};
use crate::fill::Fill;
use crate::graph::{Axis, Graph, Legal, Value};
use crate::layers::Convolution;
use crate::size::{Sizes, Unfit};

pub(super) const DETR_RESNET50: Family = Family {
    name: "detr_resnet50",
    categories: &[Category::Vision],
    sizes: &[
        size("depth", 50, "layers of the backbone: 18, 34, 50, 101 or 152"),
        size("layers", 6, "blocks of the encoder, and of the decoder"),
        size("width", 256, "features of a position"),
        size("heads", 8, "heads of attention"),
        size("inner", 2048, "features inside a block's network"),
        size("queries", 100, "most objects"),
        size("image-height", 800, "height of the image"),
        size("image-width", 1066, "width of the image"),
        size("classes", 2, "classes of objects; one more stands for none"),
    ],
    build,
};

const EPSILON: f32 = 1e-5;

fn build(graph: &mut Graph, sizes: &Sizes) -> Result<(), Unfit> {
    let (width, inner, heads) = (sizes.get("width"), sizes.get("inner"), sizes.get("heads"));
    let of_head = sizes.divided("width", heads)?;
    let half = 2 * sizes.divided("width", 4)?;
    let (height, across) = (sizes.get("image-height"), sizes.get("image-width"));
    let shape = resnet::Shape::of(sizes.get("depth"), 64)?;
    let axes = [Axis::Batch, Axis::Fixed(3), Axis::Fixed(height), Axis::Fixed(across)];
    let image = graph.input("pixel_values", &axes, Legal::Numbers);
    let x = shape.build(graph, &image, "model.backbone.conv_encoder.model.", true);
    let to_width =
        Convolution { bias: true, gain: 1.0, ..Convolution::of_images(shape.features(), width, 1) };
    let x = graph.convolve(&x, "model.input_projection", to_width);
    let (rows, columns) = (height.div_ceil(32), across.div_ceil(32));
    let x = graph.reshape(&x, &[0, width as i64, (rows * columns) as i64]);
    let mut x = graph.transpose(&x, &[0, 2, 1]);

    // Sines and cosines of the row in the first half of the features, and of the column in the other.
    let wave = move |index: u64| {
        let (position, feature) = (index / width, index % width);
        let (row, column) = (position / columns, position % columns);
        let (of, most) = if feature < half { (row, rows) } else { (column, columns) };
        let feature = feature % half;
        let place = (of + 1) as f64 / (most as f64 + 1e-6) * TAU;
        let angle = place / 10_000_f64.powf(2.0 * (feature / 2) as f64 / half as f64);
        if feature.is_multiple_of(2) { angle.sin() as f32 } else { angle.cos() as f32 }
    };
    let fill = Fill::Computed(Box::new(wave));
    let places = graph.table("positions", &[1, rows * columns, width], fill);
    let attention = Attention { width, heads, of_head };
    for layer in 0..sizes.get("layers") {
        let name = format!("model.encoder.layers.{layer}");
        let placed = graph.add(&x, &places);
        x = attention.add(graph, [&x, &placed, &placed, &x], &name, "self_attn");
        x = network(graph, &x, &name, (width, inner));
    }
    let (memory, placed_memory) = (x.clone(), graph.add(&x, &places));

    let queries = sizes.get("queries");
    let objects = "model.query_position_embeddings.weight";
    let objects = graph.parameter(objects, &[queries, width], Fill::deviation(1.0));
    let zero = graph.number(0.0);
    let mut x = graph.for_each_example(&zero, &image, &[queries as i64, width as i64]);
    for layer in 0..sizes.get("layers") {
        let name = format!("model.decoder.layers.{layer}");
        let placed = graph.add(&x, &objects);
        x = attention.add(graph, [&x, &placed, &placed, &x], &name, "self_attn");
        let placed = graph.add(&x, &objects);
        let seen = [&x, &placed, &placed_memory, &memory];
        x = attention.add(graph, seen, &name, "encoder_attn");
        x = network(graph, &x, &name, (width, inner));
    }
    let x = graph.layer_norm(&x, "model.decoder.layernorm", width, EPSILON);
    let classes = sizes.get("classes") + 1;
    let logits = graph.linear(&x, "class_labels_classifier", width, classes);
    let boxes = graph.linear(&x, "bbox_predictor.layers.0", width, width);
    let boxes = graph.relu(&boxes);
    let boxes = graph.linear(&boxes, "bbox_predictor.layers.1", width, width);
    let boxes = graph.relu(&boxes);
    let boxes = graph.linear(&boxes, "bbox_predictor.layers.2", width, 4);
    let boxes = graph.node("Sigmoid", &[&boxes], vec![]);
    let axes = |last| [Axis::Batch, Axis::Fixed(queries), Axis::Fixed(last)];
    graph.output("logits", &logits, &axes(classes));
    graph.output("pred_boxes", &boxes, &axes(4));
    Ok(())
}

struct Attention {
    width: u64,
    heads: u64,
    of_head: u64,
}

impl Attention {
    /// Attention of queries to keys and values, added to `x`, and normalised.
    fn add(&self, graph: &mut Graph, [x, q, k, v]: [&Value; 4], layer: &str, kind: &str) -> Value {
        let Self { width, heads, of_head } = *self;
        let part = |graph: &mut Graph, of: &str, x: &Value| {
            graph.linear(x, &format!("{layer}.{kind}.{of}_proj"), width, width)
        };
        let q = part(graph, "q", q);
        let k = part(graph, "k", k);
        let v = part(graph, "v", v);
        let scale = Some((of_head as f32).sqrt().recip());
        let mixed = graph.attend([&q, &k, &v], (heads, of_head), scale, None);
        let mixed = part(graph, "out", &mixed);
        let sum = graph.add(x, &mixed);
        graph.layer_norm(&sum, &format!("{layer}.{kind}_layer_norm"), width, EPSILON)
    }
}

fn network(graph: &mut Graph, x: &Value, layer: &str, (width, inner): (u64, u64)) -> Value {
    let hidden = graph.linear(x, &format!("{layer}.fc1"), width, inner);
    let hidden = graph.relu(&hidden);
    let hidden = graph.linear(&hidden, &format!("{layer}.fc2"), inner, width);
    let sum = graph.add(x, &hidden);
    graph.layer_norm(&sum, &format!("{layer}.final_layer_norm"), width, EPSILON)
}
