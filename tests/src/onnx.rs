/*! Small models, written as bytes: ONNX files are Protocol Buffers, of which a test needs little. */

/// Element types by their numbers in ONNX.
pub const FLOAT: u64 = 1;
/// As above.
pub const INT64: u64 = 7;

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn bytes(field: u64, inner: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(inner.len() as u64), inner.to_vec()].concat()
}

fn text(field: u64, inner: &str) -> Vec<u8> {
    bytes(field, inner.as_bytes())
}

/// An input or output: its name, its element type, and its axes, of which a number is a fixed one.
pub type Value<'a> = (&'a str, u64, &'a [&'a str]);

/// An operator, its inputs and its output.
pub type Node<'a> = (&'a str, &'a [&'a str], &'a str);

/// Weights.
#[derive(Debug, Clone, Copy)]
pub struct Weights<'a> {
    /// Their name.
    pub name: &'a str,
    /// Sizes of their axes.
    pub sizes: &'a [u64],
    /// The file that holds them, as 32-bit floats; all zeros without a file.
    pub file: Option<&'a str>,
}

fn value(field: u64, (name, element, axes): &Value<'_>) -> Vec<u8> {
    let axis = |axis: &&str| match axis.parse() {
        Ok(size) => bytes(1, &number(1, size)),
        Err(_) => bytes(1, &text(2, axis)),
    };
    let shape: Vec<u8> = axes.iter().flat_map(axis).collect();
    let tensor = [number(1, *element), bytes(2, &shape)].concat();
    bytes(field, &[text(1, name), bytes(2, &bytes(1, &tensor))].concat())
}

fn node((operator, inputs, output): &Node<'_>) -> Vec<u8> {
    let inputs: Vec<u8> = inputs.iter().flat_map(|input| text(1, input)).collect();
    bytes(1, &[inputs, text(2, output), text(4, operator)].concat())
}

fn weights(Weights { name, sizes, file }: &Weights<'_>) -> Vec<u8> {
    let count: u64 = sizes.iter().product();
    let data = match file {
        None => bytes(9, &vec![0; 4 * count as usize]),
        Some(file) => {
            let entry =
                |key: &str, value: &str| bytes(13, &[text(1, key), text(2, value)].concat());
            let length = (4 * count).to_string();
            [number(14, 1), entry("location", file), entry("offset", "0"), entry("length", &length)]
                .concat()
        }
    };
    let sizes: Vec<u8> = sizes.iter().flat_map(|size| number(1, *size)).collect();
    bytes(5, &[sizes, number(2, FLOAT), text(8, name), data].concat())
}

/// Returns the bytes of a model.
#[must_use]
pub fn model(
    nodes: &[Node<'_>],
    inputs: &[Value<'_>],
    outputs: &[Value<'_>],
    all_weights: &[Weights<'_>],
) -> Vec<u8> {
    let graph = [
        nodes.iter().flat_map(node).collect::<Vec<u8>>(),
        text(2, "graph"),
        all_weights.iter().flat_map(weights).collect(),
        inputs.iter().flat_map(|one| value(11, one)).collect(),
        outputs.iter().flat_map(|one| value(12, one)).collect(),
    ];
    let opset = [text(1, ""), number(2, 17)].concat();
    [number(1, 8), bytes(7, &graph.concat()), bytes(8, &opset)].concat()
}
