//! GPT-2 (Radford et al. 2019), as `transformers.GPT2LMHeadModel` has it, over a whole sequence.

use crate::family::{Category, Family, size};
use crate::fill::Fill;
use crate::graph::{Axis, Graph, Legal, Value, integer};
use crate::size::{Sizes, Unfit};

pub(super) const GPT2: Family = Family {
    name: "gpt2",
    categories: &[Category::Text, Category::Generation],
    sizes: &[
        size("layers", 12, "blocks"),
        size("width", 768, "features of a position"),
        size("heads", 12, "heads of attention"),
        size("vocabulary", 50257, "tokens that there are"),
        size("positions", 1024, "longest sequence"),
    ],
    build,
};

const EPSILON: f32 = 1e-5;

fn build(graph: &mut Graph, sizes: &Sizes) -> Result<(), Unfit> {
    let (width, heads) = (sizes.get("width"), sizes.get("heads"));
    let of_head = sizes.divided("width", heads)?;
    let (vocabulary, positions) = (sizes.get("vocabulary"), sizes.get("positions"));
    graph.longest = Some(positions);
    let ids = graph.input("input_ids", &[Axis::Batch, Axis::Sequence], Legal::Below(vocabulary));
    // The table of tokens is also the last matrix, so its deviation keeps logits at unit variance.
    let tokens = [vocabulary, width];
    let words = graph.parameter("transformer.wte.weight", &tokens, Fill::fan_in(1.0, width));
    let places = [positions, width];
    let places = graph.parameter("transformer.wpe.weight", &places, Fill::fan_in(1.0, width));
    let x = graph.look_up(&words, &ids);
    let length = graph.size(&ids, 1);
    let places = graph.first_rows(&places, &length);
    let mut x = graph.add(&x, &places);
    let bias = graph.causal_bias(&length);
    for layer in 0..sizes.get("layers") {
        let name = format!("transformer.h.{layer}");
        let normal = graph.layer_norm(&x, &format!("{name}.ln_1"), width, EPSILON);
        let joined = linear(graph, &normal, &format!("{name}.attn.c_attn"), width, 3 * width);
        let parts = graph.integers(&[width as i64; 3]);
        let [q, k, v] = graph.node_with("Split", &[&joined, &parts], vec![integer("axis", 2)]);
        let scale = Some((of_head as f32).sqrt().recip());
        let mixed = graph.attend([&q, &k, &v], (heads, of_head), scale, Some(&bias));
        let mixed = linear(graph, &mixed, &format!("{name}.attn.c_proj"), width, width);
        x = graph.add(&mixed, &x);
        let normal = graph.layer_norm(&x, &format!("{name}.ln_2"), width, EPSILON);
        let hidden = linear(graph, &normal, &format!("{name}.mlp.c_fc"), width, 4 * width);
        let hidden = graph.gelu_by_tanh(&hidden);
        let hidden = linear(graph, &hidden, &format!("{name}.mlp.c_proj"), 4 * width, width);
        x = graph.add(&x, &hidden);
    }
    let x = graph.layer_norm(&x, "transformer.ln_f", width, EPSILON);
    let logits = graph.by_table(&x, &words);
    let axes = [Axis::Batch, Axis::Sequence, Axis::Fixed(vocabulary)];
    graph.output("logits", &logits, &axes);
    Ok(())
}

/// `Conv1D` of `transformers`, which stores its matrix as inputs by outputs.
fn linear(graph: &mut Graph, x: &Value, name: &str, inputs: u64, outputs: u64) -> Value {
    let fill = Fill::fan_in(1.0, inputs);
    let weight = graph.parameter(&format!("{name}.weight"), &[inputs, outputs], fill);
    let bias = graph.parameter(&format!("{name}.bias"), &[outputs], Fill::near(0.0, 0.05));
    let product = graph.node("MatMul", &[x, &weight], vec![]);
    graph.add(&product, &bias)
}
