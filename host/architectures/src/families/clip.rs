//! CLIP (Radford et al. 2021), as `transformers.CLIPModel` has it: embeddings of images and of texts, and how
//! well they fit. The text's embedding is taken at its highest token, which is the one that ends it.

use crate::family::{Category, Family, size};
use crate::fill::Fill;
use crate::graph::{Axis, Graph, Legal, Value, integer};
use crate::layers::Convolution;
use crate::size::{Sizes, Unfit};

pub(super) const CLIP_VIT_B32: Family = Family {
    name: "clip_vit_b32",
    categories: &[Category::Vision, Category::Multimodal],
    sizes: &[
        size("layers", 12, "blocks of the image's encoder"),
        size("width", 768, "features of a patch"),
        size("heads", 12, "heads of the image's encoder"),
        size("patch", 32, "height and width of a patch"),
        size("image", 224, "height and width of the image"),
        size("text-layers", 12, "blocks of the text's encoder"),
        size("text-width", 512, "features of a token"),
        size("text-heads", 8, "heads of the text's encoder"),
        size("vocabulary", 49408, "tokens that there are"),
        size("positions", 77, "longest sequence"),
        size("embedding", 512, "features of an image or a text"),
    ],
    build,
};

const EPSILON: f32 = 1e-5;

fn build(graph: &mut Graph, sizes: &Sizes) -> Result<(), Unfit> {
    let embedding = sizes.get("embedding");
    let image = image_features(graph, sizes)?;
    let text = text_features(graph, sizes)?;
    let temperature = graph.parameter("logit_scale", &[], Fill::near(2.6592, 0.0));
    let temperature = graph.node("Exp", &[&temperature], vec![]);
    let turned = graph.transpose(&text, &[1, 0]);
    let fit = graph.node("MatMul", &[&image, &turned], vec![]);
    let fit = graph.node("Mul", &[&fit, &temperature], vec![]);
    let features = [Axis::Batch, Axis::Fixed(embedding)];
    graph.output("image_embeds", &image, &features);
    graph.output("text_embeds", &text, &features);
    graph.output("logits_per_image", &fit, &[Axis::Batch, Axis::Batch]);
    Ok(())
}

fn image_features(graph: &mut Graph, sizes: &Sizes) -> Result<Value, Unfit> {
    let (width, heads) = (sizes.get("width"), sizes.get("heads"));
    let of_head = sizes.divided("width", heads)?;
    let patches = sizes.divided("image", sizes.get("patch"))?.pow(2);
    let side = Axis::Fixed(sizes.get("image"));
    let axes = [Axis::Batch, Axis::Fixed(3), side, side];
    let image = graph.input("pixel_values", &axes, Legal::Numbers);
    let shape = Convolution {
        stride: sizes.get("patch"),
        padding: 0,
        ..Convolution::of_images(3, width, sizes.get("patch"))
    };
    let x = graph.convolve(&image, "vision_model.embeddings.patch_embedding", shape);
    let x = graph.reshape(&x, &[0, width as i64, patches as i64]);
    let x = graph.transpose(&x, &[0, 2, 1]);
    let class = "vision_model.embeddings.class_embedding";
    let class = graph.parameter(class, &[width], Fill::deviation(1.0));
    let class = graph.for_each_example(&class, &image, &[1, width as i64]);
    let x = graph.node("Concat", &[&class, &x], vec![integer("axis", 1)]);
    let places = "vision_model.embeddings.position_embedding.weight";
    let places = graph.parameter(places, &[patches + 1, width], Fill::deviation(0.3));
    let x = graph.add(&x, &places);
    let x = graph.layer_norm(&x, "vision_model.pre_layrnorm", width, EPSILON);
    let shape = (sizes.get("layers"), width, heads, of_head);
    let x = encoder(graph, &x, "vision_model", shape, None);
    let first = graph.integer(0);
    let pooled = graph.node("Gather", &[&x, &first], vec![integer("axis", 1)]);
    let pooled = graph.layer_norm(&pooled, "vision_model.post_layernorm", width, EPSILON);
    let features = graph.project(&pooled, "visual_projection", width, sizes.get("embedding"), 1.0);
    Ok(normalised(graph, &features))
}

fn text_features(graph: &mut Graph, sizes: &Sizes) -> Result<Value, Unfit> {
    let (width, heads) = (sizes.get("text-width"), sizes.get("text-heads"));
    let of_head = sizes.divided("text-width", heads)?;
    let (vocabulary, positions) = (sizes.get("vocabulary"), sizes.get("positions"));
    graph.longest = Some(positions);
    let ids = graph.input("input_ids", &[Axis::Batch, Axis::Sequence], Legal::Below(vocabulary));
    let embed = |graph: &mut Graph, name: &str, rows| {
        let name = format!("text_model.embeddings.{name}_embedding.weight");
        graph.parameter(&name, &[rows, width], Fill::deviation(1.0))
    };
    let words = embed(graph, "token", vocabulary);
    let places = embed(graph, "position", positions);
    let x = graph.look_up(&words, &ids);
    let length = graph.size(&ids, 1);
    let places = graph.first_rows(&places, &length);
    let x = graph.add(&x, &places);
    let bias = graph.causal_bias(&length);
    let shape = (sizes.get("text-layers"), width, heads, of_head);
    let x = encoder(graph, &x, "text_model", shape, Some(&bias));
    let x = graph.layer_norm(&x, "text_model.final_layer_norm", width, EPSILON);
    let end = graph.node("ArgMax", &[&ids], vec![integer("axis", 1), integer("keepdims", 1)]);
    let pooled = graph.node("GatherND", &[&x, &end], vec![integer("batch_dims", 1)]);
    let features = graph.project(&pooled, "text_projection", width, sizes.get("embedding"), 1.0);
    Ok(normalised(graph, &features))
}

fn encoder(
    graph: &mut Graph,
    x: &Value,
    model: &str,
    (layers, width, heads, of_head): (u64, u64, u64, u64),
    bias: Option<&Value>,
) -> Value {
    let mut x = x.clone();
    for layer in 0..layers {
        let name = format!("{model}.encoder.layers.{layer}");
        let normal = graph.layer_norm(&x, &format!("{name}.layer_norm1"), width, EPSILON);
        let part = |graph: &mut Graph, of: &str, x: &Value| {
            graph.linear(x, &format!("{name}.self_attn.{of}_proj"), width, width)
        };
        let q = part(graph, "q", &normal);
        let k = part(graph, "k", &normal);
        let v = part(graph, "v", &normal);
        let scale = Some((of_head as f32).sqrt().recip());
        let mixed = graph.attend([&q, &k, &v], (heads, of_head), scale, bias);
        let mixed = part(graph, "out", &mixed);
        x = graph.add(&x, &mixed);
        let normal = graph.layer_norm(&x, &format!("{name}.layer_norm2"), width, EPSILON);
        let hidden = graph.linear(&normal, &format!("{name}.mlp.fc1"), width, 4 * width);
        // The authors' approximation of GELU.
        let gate = graph.scale(&hidden, 1.702);
        let gate = graph.node("Sigmoid", &[&gate], vec![]);
        let hidden = graph.node("Mul", &[&hidden, &gate], vec![]);
        let hidden = graph.linear(&hidden, &format!("{name}.mlp.fc2"), 4 * width, width);
        x = graph.add(&x, &hidden);
    }
    x
}

/// Divides each row by its length.
fn normalised(graph: &mut Graph, x: &Value) -> Value {
    let last = graph.integers(&[-1]);
    let length = graph.node("ReduceL2", &[x, &last], vec![integer("keepdims", 1)]);
    graph.node("Div", &[x, &length], vec![])
}
