/*!
int8: weights and inputs of convolutions and of products with weights, as pairs of `QuantizeLinear` and
`DequantizeLinear` (QDQ), which engines fuse into integer kernels. Everything else stays fp32.

The host has no engine to run the model on examples, so ranges are computed. Weights are drawn from known
distributions, so the distribution of each activation follows from those of its inputs, operator by operator. A sum of `n`
products with weights that are independent of it, and have mean 0, is normally distributed, with `n` times the product of
the mean squares; functions of it are integrated over the normal distribution. A range is five standard deviations around
the mean, made symmetric. Values beyond it are clipped.

- Weights: symmetric, from -63 to 63, so that sums fit on processors without VNNI. The greatest magnitude is the bound of the uniform distribution that they are
  drawn from. Each channel has the same one, so one scale for a tensor is what a scale for each channel would be.
- Inputs of these operators, and outputs of convolutions: symmetric, one scale.
- Biases: 32-bit integers at the product of the scales of input and weights, as integer kernels add them.
*/

use std::collections::BTreeMap;

use host_onnx::messages as onnx;

use crate::fill::{Fill, Stored};
use crate::graph::{Axis, Graph, Legal};

/// Standard deviations on each side of the mean that a range covers.
const REACH: f64 = 5.0;

/// Greatest magnitude of a quantised number.
const GREATEST: f64 = 127.0;

/// The same of weights. Processors without VNNI add two products of eight unsigned and eight signed bits in sixteen bits:
/// 2 × 255 × 63 fits.
const GREATEST_WEIGHT: f32 = 63.0;

/// Distribution of a value's elements: a function of a normally distributed number, by its values at fixed points of the
/// normal distribution. Functions of the same number are combined point by point, and others as independent ones.
#[derive(Debug, Clone)]
struct Known {
    /// The number that it is a function of; `None` for a constant.
    of: Option<usize>,
    at: [f64; POINTS],
    /// Sizes of the axes that kernels move along.
    sides: Vec<u64>,
    /// Whether its rows are shares that sum to one.
    is_share: bool,
}

/// Points of the normal distribution, evenly from -4 to 4 standard deviations.
const POINTS: usize = 65;

fn point(index: usize) -> f64 {
    index as f64 / (POINTS - 1) as f64 * 8.0 - 4.0
}

impl Known {
    /// A number of its own with this mean and mean square.
    fn new(of: usize, mean: f64, square: f64) -> Self {
        let deviation = (square - mean * mean).max(0.0).sqrt();
        let at = std::array::from_fn(|index| mean + deviation * point(index));
        Self { of: Some(of), at, sides: Vec::new(), is_share: false }
    }

    fn constant(value: f64) -> Self {
        Self { of: None, at: [value; POINTS], sides: Vec::new(), is_share: false }
    }

    /// Returns the mean of a function of it.
    fn expected(&self, function: impl Fn(f64) -> f64) -> f64 {
        let weight = |index: usize| (-point(index).powi(2) / 2.0).exp();
        let total: f64 = (0..POINTS).map(weight).sum();
        let values =
            self.at.iter().enumerate().map(|(index, value)| weight(index) * function(*value));
        values.sum::<f64>() / total
    }

    fn mean(&self) -> f64 {
        self.expected(|value| value)
    }

    fn square(&self) -> f64 {
        self.expected(|value| value * value)
    }

    fn variance(&self) -> f64 {
        (self.square() - self.mean().powi(2)).max(0.0)
    }

    /// Returns the step of symmetric whole numbers that cover its range.
    fn scale(&self) -> f32 {
        let greatest = self.mean().abs() + REACH * self.variance().sqrt();
        (greatest.max(f64::from(f32::MIN_POSITIVE)) / GREATEST) as f32
    }

    fn map(&self, function: impl Fn(f64) -> f64) -> Self {
        Self { at: self.at.map(function), ..self.clone() }
    }

    /// Combines it with another value; `of` is the number of an independent pair.
    fn with(
        &self,
        other: &Self,
        of: usize,
        point: impl Fn(f64, f64) -> f64,
        moments: impl Fn(&Self, &Self) -> (f64, f64),
    ) -> Self {
        let sides = if self.sides.len() < other.sides.len() { &other.sides } else { &self.sides };
        let combined = match (self.of, other.of) {
            (one, two) if one == two || one.is_none() || two.is_none() => Self {
                of: one.or(two),
                at: std::array::from_fn(|index| point(self.at[index], other.at[index])),
                ..self.clone()
            },
            _ => {
                let (mean, square) = moments(self, other);
                Self::new(of, mean, square)
            }
        };
        Self { sides: sides.clone(), is_share: false, ..combined }
    }

    fn plus(&self, other: &Self, of: usize) -> Self {
        let moments = |one: &Self, two: &Self| {
            let square = one.square() + two.square() + 2.0 * one.mean() * two.mean();
            (one.mean() + two.mean(), square)
        };
        self.with(other, of, |one, two| one + two, moments)
    }

    fn times(&self, other: &Self, of: usize) -> Self {
        let moments =
            |one: &Self, two: &Self| (one.mean() * two.mean(), one.square() * two.square());
        self.with(other, of, |one, two| one * two, moments)
    }

    /// The sum of products of `count` elements with weights that are independent of it.
    fn summed(&self, weights: &Self, count: f64, of: usize) -> Self {
        let mean = self.mean() * weights.mean();
        let variance = self.square() * weights.square() - mean * mean;
        Self::new(of, count * mean, count * variance + (count * mean).powi(2))
    }
}

fn of_fill(of: usize, fill: &Fill, count: u64) -> Known {
    match fill {
        Fill::Uniform { centre, spread } => {
            let (centre, spread) = (f64::from(*centre), f64::from(*spread));
            Known::new(of, centre, centre * centre + spread * spread / 3.0)
        }
        Fill::Computed(value) => {
            let (mut sum, mut squares) = (0.0, 0.0);
            for value in (0..count).map(value).map(f64::from) {
                sum += value;
                squares += value * value;
            }
            let count = count.max(1) as f64;
            Known::new(of, sum / count, squares / count)
        }
    }
}

/// Quantises a graph in place.
///
/// # Errors
///
/// The first operator with weights whose range does not follow from those before it.
pub(crate) fn quantise(graph: &mut Graph) -> Result<(), String> {
    let mut known = sources(graph);
    let mut pairs: BTreeMap<String, String> = BTreeMap::new();
    for (number, node) in std::mem::take(&mut graph.nodes).into_iter().enumerate() {
        let inputs: Vec<_> = node.inputs.iter().map(|name| known.get(name)).collect();
        let outputs = infer(graph, number, &node, &inputs);
        let scales = (
            inputs.first().copied().flatten().map(Known::scale),
            outputs.as_ref().map(Known::scale),
        );
        for name in &node.outputs {
            match &outputs {
                Some(output) => drop(known.insert(name.clone(), output.clone())),
                None => drop(known.remove(name)),
            }
        }
        if !matches!(node.operator.as_str(), "Conv" | "MatMul" | "Gemm")
            || !has_weights(graph, &node)
        {
            graph.nodes.push(node);
            continue;
        }
        let (Some(scale), Some(of_output)) = scales else {
            return Err(node.name);
        };
        let mut node = node;
        let x = node.inputs[0].clone();
        if !pairs.contains_key(&x) {
            let name = add_pair(graph, &x, &format!("{x}_dequantised"), scale);
            pairs.insert(x.clone(), name);
        }
        node.inputs[0].clone_from(&pairs[&x]);
        let of_weights = add_weights(graph, &mut node.inputs[1], None);
        if node.inputs.len() > 2 {
            add_weights(graph, &mut node.inputs[2], Some(scale * of_weights));
        }
        if node.operator == "Conv" {
            // Engines have integer convolutions only with integer outputs.
            let name = node.outputs[0].clone();
            let exact = format!("{name}_exact");
            node.outputs[0].clone_from(&exact);
            graph.nodes.push(node);
            add_pair(graph, &exact, &name, of_output);
        } else {
            graph.nodes.push(node);
        }
    }
    Ok(())
}

/// Returns what is known of inputs, weights and constants. Their numbers follow those of the nodes.
fn sources(graph: &Graph) -> BTreeMap<String, Known> {
    let mut known = BTreeMap::new();
    let mut next = graph.nodes.len()..;
    let mut of = || next.next().expect("numbers do not end");
    for input in graph.inputs.iter().filter(|input| input.legal == Legal::Numbers) {
        let sides = input.axes.iter().skip(2).filter_map(|axis| match axis {
            Axis::Fixed(size) => Some(*size),
            Axis::Batch | Axis::Sequence => None,
        });
        // Uniform from 0 to 1.
        let uniform = Known::new(of(), 0.5, 1.0 / 3.0);
        known.insert(input.name.clone(), Known { sides: sides.collect(), ..uniform });
    }
    for weight in &graph.weights {
        known.insert(weight.name.clone(), of_fill(of(), &weight.fill, weight.count()));
    }
    let float = graph.element.code();
    for tensor in graph.constants.iter().filter(|tensor| tensor.element == float) {
        let (chunks, _) = tensor.raw.as_deref().unwrap_or_default().as_chunks::<4>();
        if let [value] = chunks {
            let value = f64::from(f32::from_le_bytes(*value));
            known.insert(tensor.name.clone(), Known::constant(value));
        }
    }
    known
}

/// Returns whether the second input of a node is drawn weights.
fn has_weights(graph: &Graph, node: &onnx::Node) -> bool {
    graph
        .weights
        .iter()
        .any(|weight| weight.name == node.inputs[1] && matches!(weight.fill, Fill::Uniform { .. }))
}

/// Puts a pair of operators between a value and the name of its rounded one, and returns that name.
fn add_pair(graph: &mut Graph, x: &str, name: &str, scale: f32) -> String {
    let scale = graph.number(scale).0;
    let zero = graph.zero_of_int8().0;
    let quantised = format!("{name}_quantised");
    let node = |operator: &str, input: &str, output: &str| onnx::Node {
        inputs: vec![input.to_owned(), scale.clone(), zero.clone()],
        outputs: vec![output.to_owned()],
        name: format!("{output}_node"),
        operator: operator.to_owned(),
        ..onnx::Node::default()
    };
    let pair = [node("QuantizeLinear", x, &quantised), node("DequantizeLinear", &quantised, name)];
    graph.nodes.extend(pair);
    name.to_owned()
}

/// Stores weights as whole numbers, and returns their scale. A bias is stored at a given scale, in 32 bits.
fn add_weights(graph: &mut Graph, name: &mut String, of_bias: Option<f32>) -> f32 {
    let weight = graph.weights.iter_mut().find(|weight| weight.name == *name);
    let weight = weight.expect("an operator's weights and bias are weights");
    let bound = match weight.fill {
        Fill::Uniform { centre, spread } => centre.abs() + spread,
        Fill::Computed(_) => 0.0,
    };
    let scale = of_bias.unwrap_or(bound.max(f32::MIN_POSITIVE) / GREATEST_WEIGHT);
    weight.stored = match of_bias {
        Some(_) => Stored::Int32 { scale },
        None => Stored::Int8 { scale },
    };
    let output = format!("{name}_dequantised");
    let mut inputs = vec![name.clone(), graph.number(scale).0];
    if of_bias.is_none() {
        inputs.push(graph.zero_of_int8().0);
    }
    graph.nodes.push(onnx::Node {
        inputs,
        outputs: vec![output.clone()],
        name: format!("{output}_node"),
        operator: "DequantizeLinear".to_owned(),
        ..onnx::Node::default()
    });
    *name = output;
    scale
}

/// Returns what is known of a node's outputs, if it follows from its inputs.
fn infer(
    graph: &Graph,
    number: usize,
    node: &onnx::Node,
    inputs: &[Option<&Known>],
) -> Option<Known> {
    let at = |index: usize| inputs.get(index).copied().flatten();
    let bias = |sum: Known| match node.inputs.len() {
        0..=2 => Some(sum),
        // It is as independent as the sum.
        _ => Some(Known { of: Some(number), ..sum.plus(at(2)?, number) }),
    };
    match node.operator.as_str() {
        "Conv" | "Gemm" | "MatMul" => {
            let weight = graph.weights.iter().find(|weight| weight.name == node.inputs[1]);
            let Some(weight) = weight else {
                // A mean of rows has at most their range.
                return at(0).filter(|shares| shares.is_share).and(at(1)).cloned();
            };
            let x = at(0)?;
            let (count, sides) = match node.operator.as_str() {
                "Conv" => {
                    let (sides, inside) = moved(node, &x.sides);
                    (weight.sizes[1..].iter().product::<u64>() as f64 * inside, sides)
                }
                "Gemm" => (weight.sizes[1] as f64, Vec::new()),
                _ => (weight.sizes[0] as f64, Vec::new()),
            };
            let sum = bias(x.summed(at(1)?, count, number))?;
            Some(Known { sides, ..sum })
        }
        "BatchNormalization" => {
            let (x, scale, bias, mean, variance) = (at(0)?, at(1)?, at(2)?, at(3)?, at(4)?);
            let deviation = variance.mean().sqrt();
            let centred = (x.mean() - mean.mean(), x.variance() + mean.variance());
            let (of_mean, of_square) = (
                centred.0 / deviation,
                (centred.1 + centred.0 * centred.0) / (deviation * deviation),
            );
            let mean = of_mean * scale.mean() + bias.mean();
            let square = of_square * scale.square()
                + bias.square()
                + 2.0 * of_mean * scale.mean() * bias.mean();
            Some(Known { sides: x.sides.clone(), ..Known::new(number, mean, square) })
        }
        "LayerNormalization" => {
            let (scale, bias) = (at(1)?, at(2)?);
            Some(Known::new(number, bias.mean(), scale.square() + bias.square()))
        }
        "Softmax" => Some(Known { is_share: true, ..Known::new(number, 0.0, 1.0) }),
        "Sigmoid" => Some(at(0)?.map(|x| 1.0 / (1.0 + (-x).exp()))),
        "HardSigmoid" => Some(at(0)?.map(hard_sigmoid)),
        "HardSwish" => Some(at(0)?.map(|x| x * hard_sigmoid(x))),
        "Relu" => Some(at(0)?.map(|x| x.max(0.0))),
        "Tanh" => Some(at(0)?.map(f64::tanh)),
        // Within 0.03 of the error function.
        "Erf" => Some(at(0)?.map(|x| (x * 2.0 / std::f64::consts::PI.sqrt()).tanh())),
        "Sqrt" => Some(at(0)?.map(|x| x.max(0.0).sqrt())),
        "Add" => Some(at(0)?.plus(at(1)?, number)),
        "Sub" => Some(at(0)?.plus(&at(1)?.map(|x| -x), number)),
        "Mul" => Some(at(0)?.times(at(1)?, number)),
        "Div" => {
            let divisor = at(1)?.mean();
            (divisor != 0.0).then(|| at(0).map(|x| x.map(|x| x / divisor)))?
        }
        // Of many elements, it is the mean.
        "ReduceMean" => Some(Known::constant(at(0)?.mean())),
        // The greatest of nine independent normal numbers is 1.5 standard deviations above the mean.
        "MaxPool" => {
            let x = at(0)?;
            let mean = x.mean() + 1.5 * x.variance().sqrt();
            let (sides, _) = moved(node, &x.sides);
            Some(Known { sides, ..Known::new(number, mean, mean * mean + x.variance()) })
        }
        "Concat" => {
            let all: Option<Vec<_>> = inputs.iter().copied().collect();
            all?.into_iter().max_by(|one, two| one.square().total_cmp(&two.square())).cloned()
        }
        "AveragePool" | "Cast" | "Clip" | "Expand" | "Flatten" | "Gather" | "GatherND"
        | "GlobalAveragePool" | "Identity" | "Reshape" | "Slice" | "Split" | "Squeeze"
        | "Transpose" | "Unsqueeze" => {
            // Elements have other places, so they are independent of what they were.
            Some(Known { of: Some(number), sides: Vec::new(), ..at(0)?.clone() })
        }
        _ => None,
    }
}

fn hard_sigmoid(x: f64) -> f64 {
    (x / 6.0 + 0.5).clamp(0.0, 1.0)
}

/// Returns the sizes that a kernel leaves of `sides`, and the part of it that is not over padding.
fn moved(node: &onnx::Node, sides: &[u64]) -> (Vec<u64>, f64) {
    let list = |name: &str| {
        let attribute = node.attributes.iter().find(|attribute| attribute.name == name);
        attribute.map(|attribute| attribute.integers.clone()).unwrap_or_default()
    };
    let (kernel, strides, pads) = (list("kernel_shape"), list("strides"), list("pads"));
    let mut inside = 1.0;
    let left = sides.iter().enumerate().filter_map(|(axis, side)| {
        let side = i64::try_from(*side).ok()?;
        let (kernel, stride) = (*kernel.get(axis)?, *strides.get(axis)?);
        let (before, after) = (*pads.get(axis)?, *pads.get(axis + sides.len())?);
        let left = (side + before + after - kernel) / stride + 1;
        if left < 1 {
            return None;
        }
        let first = |place: i64| place * stride - before;
        let over = |place: i64| {
            (first(place) + kernel).min(side).saturating_sub(first(place).max(0)).max(0)
        };
        inside *= (0..left).map(over).sum::<i64>() as f64 / (left * kernel) as f64;
        u64::try_from(left).ok()
    });
    let left = left.collect();
    (left, inside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::integers;

    fn is_near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 0.01 * expected.abs().max(0.1), "{found} {expected}");
    }

    #[test]
    fn functions_of_a_normal_number_have_its_moments() {
        let x = Known::new(0, 0.0, 4.0);
        is_near(x.square(), 4.0);
        let positive = x.map(|x| x.max(0.0));
        is_near(positive.mean(), 2.0 / (2.0 * std::f64::consts::PI).sqrt());
        is_near(positive.square(), 2.0);
        is_near(x.times(&x, 1).square(), 3.0 * 16.0);
        // An independent one has another mean square.
        is_near(x.times(&Known::new(1, 0.0, 4.0), 2).square(), 16.0);
        is_near(x.plus(&x, 1).square(), 16.0);
        is_near(x.plus(&Known::new(1, 0.0, 4.0), 2).square(), 8.0);
    }

    #[test]
    fn sums_of_products_have_the_moments_of_their_parts() {
        let x = Known::new(0, 0.5, 1.0 / 3.0);
        let weights = of_fill(1, &Fill::Uniform { centre: 0.0, spread: 1.0 }, 1);
        let sum = x.summed(&weights, 64.0, 2);
        is_near(sum.mean(), 0.0);
        is_near(sum.square(), 64.0 / 9.0);
        // 5 standard deviations in 127 steps.
        is_near(f64::from(sum.scale()), 5.0 * (64.0_f64 / 9.0).sqrt() / 127.0);
    }

    #[test]
    fn a_kernel_is_partly_over_padding() {
        let attributes = vec![
            integers("kernel_shape", &[3, 3]),
            integers("strides", &[1, 2]),
            integers("pads", &[1, 1, 1, 1]),
        ];
        let node = onnx::Node { attributes, ..onnx::Node::default() };
        let (sides, inside) = moved(&node, &[4, 4]);
        assert_eq!(sides, [4, 2]);
        // Of rows, 2 + 3 + 3 + 2 of 12; of columns, 2 + 3 of 6.
        is_near(inside, 10.0 / 12.0 * 5.0 / 6.0);
    }
}
