//! T5 (Raffel et al. 2020), as `transformers.T5ForConditionalGeneration` has it, over whole sequences: that of
//! the encoder and that of the decoder have the same length.

use crate::family::{Category, Family, size};
use crate::fill::{Element, Fill};
use crate::graph::{Axis, Graph, Legal, Value, cast_to, cast_to_integers, integer};
use crate::layers::BEHIND_RECTIFIER;
use crate::size::{Sizes, Unfit};

pub(super) const T5_SMALL: Family = Family {
    name: "t5_small",
    categories: &[Category::Text, Category::Generation],
    sizes: &[
        size("layers", 6, "blocks of the encoder, and of the decoder"),
        size("width", 512, "features of a position"),
        size("heads", 8, "heads of attention"),
        size("head-width", 64, "features of a head"),
        size("inner", 2048, "features inside a block's network"),
        size("vocabulary", 32128, "tokens that there are"),
    ],
    build,
};

const EPSILON: f32 = 1e-6;

/// Distances that the position bias tells apart, and the one from which on it tells none apart.
const BUCKETS: u64 = 32;
const FARTHEST: f32 = 128.0;

struct Widths {
    width: u64,
    heads: u64,
    of_head: u64,
    inner: u64,
}

fn build(graph: &mut Graph, sizes: &Sizes) -> Result<(), Unfit> {
    let widths = Widths {
        width: sizes.get("width"),
        heads: sizes.get("heads"),
        of_head: sizes.get("head-width"),
        inner: sizes.get("inner"),
    };
    let (vocabulary, width) = (sizes.get("vocabulary"), widths.width);
    let tokens = [Axis::Batch, Axis::Sequence];
    let ids = graph.input("input_ids", &tokens, Legal::Below(vocabulary));
    let mask = graph.input("attention_mask", &tokens, Legal::Ones);
    let answer = graph.input("decoder_input_ids", &tokens, Legal::Below(vocabulary));
    let words = graph.parameter("shared.weight", &[vocabulary, width], Fill::deviation(1.0));
    let masked = graph.mask_bias(&mask);

    let mut x = graph.look_up(&words, &ids);
    let length = graph.size(&ids, 1);
    let bias = position_bias(graph, "encoder", &length, &widths);
    let bias = graph.add(&bias, &masked);
    for layer in 0..sizes.get("layers") {
        let name = format!("encoder.block.{layer}.layer");
        x = attention(graph, &x, None, &format!("{name}.0"), "SelfAttention", &widths, &bias);
        x = network(graph, &x, &format!("{name}.1"), &widths);
    }
    let memory = graph.rms_norm(&x, "encoder.final_layer_norm.weight", width, EPSILON);

    let mut x = graph.look_up(&words, &answer);
    let length = graph.size(&answer, 1);
    let bias = position_bias(graph, "decoder", &length, &widths);
    let causal = graph.causal_bias(&length);
    let bias = graph.add(&bias, &causal);
    for layer in 0..sizes.get("layers") {
        let name = format!("decoder.block.{layer}.layer");
        x = attention(graph, &x, None, &format!("{name}.0"), "SelfAttention", &widths, &bias);
        let of = (format!("{name}.1"), "EncDecAttention");
        x = attention(graph, &x, Some(&memory), &of.0, of.1, &widths, &masked);
        x = network(graph, &x, &format!("{name}.2"), &widths);
    }
    let x = graph.rms_norm(&x, "decoder.final_layer_norm.weight", width, EPSILON);
    let x = graph.scale(&x, (width as f32).sqrt().recip());
    let logits = graph.by_table(&x, &words);
    let axes = [Axis::Batch, Axis::Sequence, Axis::Fixed(vocabulary)];
    graph.output("logits", &logits, &axes);
    Ok(())
}

/// Attention to `memory`, or to `x` itself, behind a normalisation, added to `x`.
fn attention(
    graph: &mut Graph,
    x: &Value,
    memory: Option<&Value>,
    layer: &str,
    kind: &str,
    widths: &Widths,
    bias: &Value,
) -> Value {
    let Widths { width, heads, of_head, .. } = *widths;
    let all = heads * of_head;
    let normal = graph.rms_norm(x, &format!("{layer}.layer_norm.weight"), width, EPSILON);
    let memory = memory.unwrap_or(&normal).clone();
    let name = |part: &str| format!("{layer}.{kind}.{part}");
    // Scores are not divided by the root of a head's width; the matrix of queries makes up for it.
    let small = (of_head as f32).sqrt().recip();
    let q = graph.project(&normal, &name("q"), width, all, small);
    let k = graph.project(&memory, &name("k"), width, all, 1.0);
    let v = graph.project(&memory, &name("v"), width, all, 1.0);
    let mixed = graph.attend([&q, &k, &v], (heads, of_head), None, Some(bias));
    let mixed = graph.project(&mixed, &name("o"), all, width, 1.0);
    graph.add(x, &mixed)
}

fn network(graph: &mut Graph, x: &Value, layer: &str, widths: &Widths) -> Value {
    let Widths { width, inner, .. } = *widths;
    let normal = graph.rms_norm(x, &format!("{layer}.layer_norm.weight"), width, EPSILON);
    let hidden = graph.project(&normal, &format!("{layer}.DenseReluDense.wi"), width, inner, 1.0);
    let hidden = graph.relu(&hidden);
    let name = format!("{layer}.DenseReluDense.wo");
    let hidden = graph.project(&hidden, &name, inner, width, BEHIND_RECTIFIER);
    graph.add(x, &hidden)
}

/// The bias of each head for the distance between two positions (section 2.1 of the paper): half of the
/// buckets are single distances, and the others grow with the logarithm.
fn position_bias(graph: &mut Graph, of: &str, length: &Value, widths: &Widths) -> Value {
    let is_encoder = of == "encoder";
    let name = format!("{of}.block.0.layer.0.SelfAttention.relative_attention_bias.weight");
    let table = graph.parameter(&name, &[BUCKETS, widths.heads], Fill::deviation(0.5));
    let positions = graph.positions(length);
    let rows = graph.unsqueeze(&positions, &[1]);
    let columns = graph.unsqueeze(&positions, &[0]);
    let ahead = graph.node("Sub", &[&columns, &rows], vec![]);
    let zero = graph.integer(0);
    // The encoder has half of its buckets for each direction, and the decoder looks back only.
    let (buckets, distance, first) = if is_encoder {
        let half = graph.integer((BUCKETS / 2) as i64);
        let is_later = graph.node("Greater", &[&ahead, &zero], vec![]);
        let first = graph.node("Where", &[&is_later, &half, &zero], vec![]);
        (BUCKETS / 2, graph.node("Abs", &[&ahead], vec![]), Some(first))
    } else {
        let back = graph.node("Neg", &[&ahead], vec![]);
        (BUCKETS, graph.node("Max", &[&back, &zero], vec![]), None)
    };
    let single = buckets / 2;
    let (exact, last) = (graph.integer(single as i64), graph.integer(buckets as i64 - 1));
    // Below this the logarithm is not used, and of zero there is none.
    let far = graph.node("Max", &[&distance, &exact], vec![]);
    let far = graph.node("Cast", &[&far], cast_to(Element::Fp32.code()));
    let number = |graph: &mut Graph, value| graph.number_as(value, Element::Fp32);
    let divisor = number(graph, single as f32);
    let ratio = graph.node("Div", &[&far, &divisor], vec![]);
    let logarithm = graph.node("Log", &[&ratio], vec![]);
    let divisor = number(graph, (FARTHEST / single as f32).ln());
    let share = graph.node("Div", &[&logarithm, &divisor], vec![]);
    let factor = number(graph, (buckets - single) as f32);
    let step = graph.node("Mul", &[&share, &factor], vec![]);
    let step = graph.node("Cast", &[&step], cast_to_integers());
    let step = graph.add(&step, &exact);
    let step = graph.node("Min", &[&step, &last], vec![]);
    let is_near = graph.node("Less", &[&distance, &exact], vec![]);
    let mut bucket = graph.node("Where", &[&is_near, &distance, &step], vec![]);
    if let Some(first) = first {
        bucket = graph.add(&bucket, &first);
    }
    let bias = graph.node("Gather", &[&table, &bucket], vec![integer("axis", 0)]);
    let bias = graph.transpose(&bias, &[2, 0, 1]);
    graph.unsqueeze(&bias, &[0])
}
