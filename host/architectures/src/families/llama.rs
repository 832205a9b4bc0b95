//! Llama (Touvron et al. 2023), as `transformers.LlamaForCausalLM` has it, over a whole sequence. The default
//! sizes are those of TinyLlama 1.1B.

use crate::family::{Category, Family, size};
use crate::fill::Fill;
use crate::graph::{Axis, Graph, Legal, Value, integer};
use crate::layers::BEHIND_RECTIFIER;
use crate::size::{Sizes, Unfit};

pub(super) const LLAMA_1B: Family = Family {
    name: "llama_1b",
    categories: &[Category::Text, Category::Generation],
    sizes: &[
        size("layers", 22, "blocks"),
        size("width", 2048, "features of a position"),
        size("heads", 32, "heads of queries"),
        size("key-heads", 4, "heads of keys and values"),
        size("inner", 5632, "features inside a block's network"),
        size("vocabulary", 32000, "tokens that there are"),
        size("positions", 2048, "longest sequence"),
    ],
    build,
};

const EPSILON: f32 = 1e-5;

/// Base of the wavelengths of the rotary embedding (Su et al. 2021).
const BASE: f64 = 10_000.0;

fn build(graph: &mut Graph, sizes: &Sizes) -> Result<(), Unfit> {
    let (width, inner, heads) = (sizes.get("width"), sizes.get("inner"), sizes.get("heads"));
    let of_head = sizes.divided("width", heads)?;
    let half = sizes.divided("width", 2 * heads)? as i64;
    let key_heads = sizes.get("key-heads");
    let group = sizes.divided("heads", key_heads)?;
    let (vocabulary, positions) = (sizes.get("vocabulary"), sizes.get("positions"));
    graph.longest = Some(positions);
    let ids = graph.input("input_ids", &[Axis::Batch, Axis::Sequence], Legal::Below(vocabulary));
    let tokens = [vocabulary, width];
    let words = graph.parameter("model.embed_tokens.weight", &tokens, Fill::deviation(1.0));
    let mut x = graph.look_up(&words, &ids);
    let length = graph.size(&ids, 1);
    let bias = graph.causal_bias(&length);
    let [cosine, sine] = [f64::cos as fn(f64) -> f64, f64::sin].map(|of| {
        let angle = move |index: u64| {
            let (position, feature) = (index / of_head, index % of_head % (of_head / 2));
            position as f64 * BASE.powf(-2.0 * feature as f64 / of_head as f64)
        };
        Fill::Computed(Box::new(move |index| of(angle(index)) as f32))
    });
    let cosine = graph.table("rotary.cos", &[positions, of_head], cosine);
    let sine = graph.table("rotary.sin", &[positions, of_head], sine);
    let cosine = graph.first_rows(&cosine, &length);
    let sine = graph.first_rows(&sine, &length);
    let rotate = |graph: &mut Graph, x: &Value| {
        let parts = graph.integers(&[half, half]);
        let [first, second] = graph.node_with("Split", &[x, &parts], vec![integer("axis", -1)]);
        let second = graph.node("Neg", &[&second], vec![]);
        let turned = graph.node("Concat", &[&second, &first], vec![integer("axis", -1)]);
        let x = graph.node("Mul", &[x, &cosine], vec![]);
        let turned = graph.node("Mul", &[&turned, &sine], vec![]);
        graph.add(&x, &turned)
    };
    let keys = key_heads * of_head;
    // Queries of a group share a head of keys: [batch, key heads, group, positions, features].
    let spread = |graph: &mut Graph, x: &Value, group: u64| {
        let sizes = [0, 0, key_heads as i64, group as i64, of_head as i64];
        let x = graph.reshape(x, &sizes);
        graph.transpose(&x, &[0, 2, 3, 1, 4])
    };
    for layer in 0..sizes.get("layers") {
        let name = format!("model.layers.{layer}");
        let normal = graph.rms_norm(&x, &format!("{name}.input_layernorm.weight"), width, EPSILON);
        let q = graph.project(&normal, &format!("{name}.self_attn.q_proj"), width, width, 1.0);
        let k = graph.project(&normal, &format!("{name}.self_attn.k_proj"), width, keys, 1.0);
        let v = graph.project(&normal, &format!("{name}.self_attn.v_proj"), width, keys, 1.0);
        let q = spread(graph, &q, group);
        let k = spread(graph, &k, 1);
        let v = spread(graph, &v, 1);
        let q = rotate(graph, &q);
        let k = rotate(graph, &k);
        let q = graph.scale(&q, (of_head as f32).sqrt().recip());
        let k = graph.transpose(&k, &[0, 1, 2, 4, 3]);
        let scores = graph.node("MatMul", &[&q, &k], vec![]);
        let scores = graph.add(&scores, &bias);
        let shares = graph.node("Softmax", &[&scores], vec![integer("axis", -1)]);
        let mixed = graph.node("MatMul", &[&shares, &v], vec![]);
        let mixed = graph.transpose(&mixed, &[0, 3, 1, 2, 4]);
        let mixed = graph.reshape(&mixed, &[0, 0, width as i64]);
        let mixed = graph.project(&mixed, &format!("{name}.self_attn.o_proj"), width, width, 1.0);
        x = graph.add(&x, &mixed);
        let norm = format!("{name}.post_attention_layernorm.weight");
        let normal = graph.rms_norm(&x, &norm, width, EPSILON);
        let gate = graph.project(&normal, &format!("{name}.mlp.gate_proj"), width, inner, 1.0);
        let gate = graph.silu(&gate);
        let up = graph.project(&normal, &format!("{name}.mlp.up_proj"), width, inner, 1.0);
        let hidden = graph.node("Mul", &[&gate, &up], vec![]);
        let down = format!("{name}.mlp.down_proj");
        let hidden = graph.project(&hidden, &down, inner, width, BEHIND_RECTIFIER);
        x = graph.add(&x, &hidden);
    }
    let x = graph.rms_norm(&x, "model.norm.weight", width, EPSILON);
    let logits = graph.project(&x, "lm_head", width, vocabulary, 1.0);
    let axes = [Axis::Batch, Axis::Sequence, Axis::Fixed(vocabulary)];
    graph.output("logits", &logits, &axes);
    Ok(())
}
