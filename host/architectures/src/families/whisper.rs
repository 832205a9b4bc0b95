//! Whisper (Radford et al. 2022), as `transformers.WhisperForConditionalGeneration` has it: from a spectrogram
//! and the text so far to the scores of each next token.

use crate::family::{Category, Family, size};
use crate::fill::Fill;
use crate::graph::{Axis, Graph, Legal, Value};
use crate::layers::Convolution;
use crate::size::{Sizes, Unfit};

pub(super) const WHISPER_TINY: Family = Family {
    name: "whisper_tiny",
    categories: &[Category::Audio, Category::Generation],
    sizes: &[
        size("layers", 4, "blocks of the encoder, and of the decoder"),
        size("width", 384, "features of a position"),
        size("heads", 6, "heads of attention"),
        size("bands", 80, "bands of the spectrogram"),
        size("frames", 3000, "frames of the spectrogram, 100 for a second"),
        size("vocabulary", 51865, "tokens that there are"),
        size("positions", 448, "longest text"),
    ],
    build,
};

const EPSILON: f32 = 1e-5;

fn build(graph: &mut Graph, sizes: &Sizes) -> Result<(), Unfit> {
    let (width, heads) = (sizes.get("width"), sizes.get("heads"));
    let of_head = sizes.divided("width", heads)?;
    // The table of positions has sines in its first half and cosines in the other.
    let half = sizes.divided("width", 2)?;
    let seen = sizes.divided("frames", 2)?;
    let (vocabulary, positions) = (sizes.get("vocabulary"), sizes.get("positions"));
    graph.longest = Some(positions);
    let sound = [Axis::Batch, Axis::Fixed(sizes.get("bands")), Axis::Fixed(sizes.get("frames"))];
    let sound = graph.input("input_features", &sound, Legal::Numbers);
    let ids = [Axis::Batch, Axis::Sequence];
    let ids = graph.input("decoder_input_ids", &ids, Legal::Below(vocabulary));
    let shape = (width, heads, of_head);

    let along = |inputs, stride| Convolution {
        axes: 1,
        bias: true,
        stride,
        ..Convolution::of_images(inputs, width, 3)
    };
    let x = graph.convolve(&sound, "model.encoder.conv1", along(sizes.get("bands"), 1));
    let x = graph.gelu(&x);
    let x = graph.convolve(&x, "model.encoder.conv2", along(width, 2));
    let x = graph.gelu(&x);
    let x = graph.transpose(&x, &[0, 2, 1]);
    let wave = move |index: u64| {
        let (position, feature) = (index / width, index % width);
        let step = 10_000_f64.ln() / (half.max(2) - 1) as f64;
        let angle = position as f64 * (-step * (feature % half) as f64).exp();
        if feature < half { angle.sin() as f32 } else { angle.cos() as f32 }
    };
    let places = "model.encoder.embed_positions.weight";
    let places = graph.parameter(places, &[seen, width], Fill::Computed(Box::new(wave)));
    let mut x = graph.add(&x, &places);
    for layer in 0..sizes.get("layers") {
        let name = format!("model.encoder.layers.{layer}");
        x = attention(graph, &x, None, &name, "self_attn", shape, None);
        x = network(graph, &x, &name, width);
    }
    let memory = graph.layer_norm(&x, "model.encoder.layer_norm", width, EPSILON);

    // The table of tokens is also the last matrix, so its deviation keeps logits at unit variance.
    let words = "model.decoder.embed_tokens.weight";
    let words = graph.parameter(words, &[vocabulary, width], Fill::fan_in(1.0, width));
    let places = "model.decoder.embed_positions.weight";
    let places = graph.parameter(places, &[positions, width], Fill::fan_in(1.0, width));
    let x = graph.look_up(&words, &ids);
    let length = graph.size(&ids, 1);
    let places = graph.first_rows(&places, &length);
    let mut x = graph.add(&x, &places);
    let bias = graph.causal_bias(&length);
    for layer in 0..sizes.get("layers") {
        let name = format!("model.decoder.layers.{layer}");
        x = attention(graph, &x, None, &name, "self_attn", shape, Some(&bias));
        x = attention(graph, &x, Some(&memory), &name, "encoder_attn", shape, None);
        x = network(graph, &x, &name, width);
    }
    let x = graph.layer_norm(&x, "model.decoder.layer_norm", width, EPSILON);
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
    (width, heads, of_head): (u64, u64, u64),
    bias: Option<&Value>,
) -> Value {
    let normal = graph.layer_norm(x, &format!("{layer}.{kind}_layer_norm"), width, EPSILON);
    let memory = memory.unwrap_or(&normal).clone();
    let name = |part: &str| format!("{layer}.{kind}.{part}_proj");
    let q = graph.linear(&normal, &name("q"), width, width);
    let k = graph.project(&memory, &name("k"), width, width, 1.0);
    let v = graph.linear(&memory, &name("v"), width, width);
    let scale = Some((of_head as f32).sqrt().recip());
    let mixed = graph.attend([&q, &k, &v], (heads, of_head), scale, bias);
    let mixed = graph.linear(&mixed, &name("out"), width, width);
    graph.add(x, &mixed)
}

fn network(graph: &mut Graph, x: &Value, layer: &str, width: u64) -> Value {
    let normal = graph.layer_norm(x, &format!("{layer}.final_layer_norm"), width, EPSILON);
    let hidden = graph.linear(&normal, &format!("{layer}.fc1"), width, 4 * width);
    let hidden = graph.gelu(&hidden);
    let hidden = graph.linear(&hidden, &format!("{layer}.fc2"), 4 * width, width);
    graph.add(x, &hidden)
}
