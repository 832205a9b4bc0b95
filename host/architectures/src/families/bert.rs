//! BERT (Devlin et al. 2018), as `transformers.BertModel` has it: hidden states and the pooled first one.

use crate::family::{Category, Family, size};
use crate::fill::Fill;
use crate::graph::{Axis, Graph, Legal, Value, integer};
use crate::size::{Sizes, Unfit};

pub(super) const BERT_BASE: Family = Family {
    name: "bert_base",
    categories: &[Category::Text],
    sizes: &[
        size("layers", 12, "blocks"),
        size("width", 768, "features of a position"),
        size("heads", 12, "heads of attention"),
        size("inner", 3072, "features inside a block's network"),
        size("vocabulary", 30522, "tokens that there are"),
        size("positions", 512, "longest sequence"),
    ],
    build,
};

const EPSILON: f32 = 1e-12;
const SEGMENTS: u64 = 2;

fn build(graph: &mut Graph, sizes: &Sizes) -> Result<(), Unfit> {
    let (width, inner, heads) = (sizes.get("width"), sizes.get("inner"), sizes.get("heads"));
    let of_head = sizes.divided("width", heads)?;
    let (vocabulary, positions) = (sizes.get("vocabulary"), sizes.get("positions"));
    let tokens = [Axis::Batch, Axis::Sequence];
    graph.longest = Some(positions);
    let ids = graph.input("input_ids", &tokens, Legal::Below(vocabulary));
    let mask = graph.input("attention_mask", &tokens, Legal::Ones);
    let segments = graph.input("token_type_ids", &tokens, Legal::Below(SEGMENTS));
    let embed = |graph: &mut Graph, name: &str, rows| {
        let name = format!("embeddings.{name}_embeddings.weight");
        graph.parameter(&name, &[rows, width], Fill::deviation(1.0))
    };
    let words = embed(graph, "word", vocabulary);
    let places = embed(graph, "position", positions);
    let kinds = embed(graph, "token_type", SEGMENTS);
    let words = graph.look_up(&words, &ids);
    let kinds = graph.look_up(&kinds, &segments);
    let length = graph.size(&ids, 1);
    let places = graph.first_rows(&places, &length);
    let x = graph.add(&words, &kinds);
    let x = graph.add(&x, &places);
    let mut x = graph.layer_norm(&x, "embeddings.LayerNorm", width, EPSILON);
    let bias = graph.mask_bias(&mask);
    for layer in 0..sizes.get("layers") {
        let name = format!("encoder.layer.{layer}");
        let part = |graph: &mut Graph, of: &str, x: &Value| {
            graph.linear(x, &format!("{name}.attention.self.{of}"), width, width)
        };
        let q = part(graph, "query", &x);
        let k = part(graph, "key", &x);
        let v = part(graph, "value", &x);
        let scale = Some((of_head as f32).sqrt().recip());
        let mixed = graph.attend([&q, &k, &v], (heads, of_head), scale, Some(&bias));
        let mixed = graph.linear(&mixed, &format!("{name}.attention.output.dense"), width, width);
        let sum = graph.add(&mixed, &x);
        let norm = format!("{name}.attention.output.LayerNorm");
        x = graph.layer_norm(&sum, &norm, width, EPSILON);
        let hidden = graph.linear(&x, &format!("{name}.intermediate.dense"), width, inner);
        let hidden = graph.gelu(&hidden);
        let hidden = graph.linear(&hidden, &format!("{name}.output.dense"), inner, width);
        let sum = graph.add(&hidden, &x);
        x = graph.layer_norm(&sum, &format!("{name}.output.LayerNorm"), width, EPSILON);
    }
    let first = graph.integer(0);
    let pooled = graph.node("Gather", &[&x, &first], vec![integer("axis", 1)]);
    let pooled = graph.linear_of_rows(&pooled, "pooler.dense", width, width);
    let pooled = graph.node("Tanh", &[&pooled], vec![]);
    let features = Axis::Fixed(width);
    graph.output("last_hidden_state", &x, &[Axis::Batch, Axis::Sequence, features]);
    graph.output("pooler_output", &pooled, &[Axis::Batch, features]);
    Ok(())
}
