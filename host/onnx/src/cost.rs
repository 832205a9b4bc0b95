//! The cost of one pass: shapes are inferred over the graph, and operations are counted.
//!
//! Two operations are counted for each product that is summed, in convolutions and products of matrices, as
//! `torch.utils.flop_counter` does; what works on single elements is not counted.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::element::element;
use crate::messages::{Attribute, Graph, Node, Tensor};

/// The cost of one pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Cost {
    /// Floating-point operations of convolutions and products of matrices.
    pub operations: u64,
    /// Bytes that must move at least: weights, inputs and outputs once.
    pub least_bytes: u64,
    /// Bytes that move if each operator reads its inputs from memory and writes its outputs to it.
    pub unfused_bytes: u64,
}

impl Cost {
    /// Returns the arithmetic intensity if as few bytes move as can: operations for each byte.
    #[must_use]
    pub fn intensity(&self) -> f64 {
        self.operations as f64 / self.least_bytes.max(1) as f64
    }
}

/// Why the cost is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoCost {
    /// The shape of an operator's outputs is not known.
    #[error("the shape of outputs of `{operator}` is not known")]
    Operator {
        /// The operator.
        operator: String,
    },
    /// An input has no shape.
    #[error("the input `{name}` has no shape")]
    Input {
        /// Its name.
        name: String,
    },
}

/// A value, as far as it is known.
#[derive(Debug, Clone, Default)]
struct Known {
    shape: Vec<u64>,
    bits: u64,
    /// Its content, if it is made of few whole numbers.
    whole: Option<Vec<i64>>,
}

impl Known {
    fn count(&self) -> u64 {
        product(&self.shape)
    }

    fn bytes(&self) -> u64 {
        self.count().saturating_mul(self.bits).div_ceil(8)
    }

    /// Returns a value of another shape, and unknown content.
    fn shaped(&self, shape: Vec<u64>) -> Self {
        Self { shape, bits: self.bits, whole: None }
    }
}

/// Whole numbers without fractions have this many bits in shapes.
const INTEGER_BITS: u64 = 64;

/// Returns the product of sizes, or the largest number if they are absurd.
fn product(sizes: &[u64]) -> u64 {
    sizes.iter().fold(1, |product, size| product.saturating_mul(*size))
}

fn integers(whole: Vec<i64>) -> Known {
    Known { shape: vec![whole.len() as u64], bits: INTEGER_BITS, whole: Some(whole) }
}

fn of_tensor(tensor: &Tensor) -> Known {
    let shape = tensor.sizes.iter().map(|size| u64::try_from(*size).unwrap_or(0)).collect();
    let (name, bits) = element(tensor.element);
    let whole = match (name, tensor.integers.is_empty()) {
        ("int64", true) => tensor.raw.as_ref().filter(|raw| !raw.is_empty()).map(|raw| {
            let (chunks, _) = raw.as_chunks::<8>();
            chunks.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
        }),
        ("int64", false) => Some(tensor.integers.clone()),
        _ => None,
    };
    Known { shape, bits, whole }
}

pub(crate) fn of(graph: &Graph, shapes: &BTreeMap<String, Vec<u64>>) -> Result<Cost, NoCost> {
    let mut known: BTreeMap<&str, Known> =
        graph.initializers.iter().map(|tensor| (tensor.name.as_str(), of_tensor(tensor))).collect();
    let total = |values: &[u64]| values.iter().fold(0, |sum: u64, more| sum.saturating_add(*more));
    let mut least = total(&known.values().map(Known::bytes).collect::<Vec<_>>());
    for input in &graph.inputs {
        if known.contains_key(input.name.as_str()) {
            continue;
        }
        let kind = input.kind.as_ref().and_then(|kind| kind.tensor.as_ref());
        let (Some(shape), Some(kind)) = (shapes.get(&input.name), kind) else {
            return Err(NoCost::Input { name: input.name.clone() });
        };
        let bits = element(kind.element).1;
        let value = Known { shape: shape.clone(), bits, whole: None };
        least = least.saturating_add(value.bytes());
        known.insert(&input.name, value);
    }
    let (mut operations, mut unfused) = (0_u64, 0_u64);
    for node in &graph.nodes {
        let inputs: Vec<Known> = (node.inputs.iter())
            .map(|name| known.get(name.as_str()).cloned().unwrap_or_default())
            .collect();
        let unknown = || NoCost::Operator { operator: node.operator.clone() };
        let outputs = infer(node, &inputs).ok_or_else(unknown)?;
        operations = operations.saturating_add(products(node, &inputs, &outputs).saturating_mul(2));
        let moved: Vec<_> = inputs.iter().chain(&outputs).map(Known::bytes).collect();
        unfused = unfused.saturating_add(total(&moved));
        known.extend(node.outputs.iter().map(String::as_str).zip(outputs));
    }
    let outputs = graph.outputs.iter().filter_map(|output| known.get(output.name.as_str()));
    least = least.saturating_add(total(&outputs.map(Known::bytes).collect::<Vec<_>>()));
    Ok(Cost { operations, least_bytes: least, unfused_bytes: unfused })
}

/// Returns the products that an operator sums.
fn products(node: &Node, inputs: &[Known], outputs: &[Known]) -> u64 {
    let Some(output) = outputs.first() else { return 0 };
    let each = match node.operator.as_str() {
        // A kernel over its share of the channels, for each element of the output.
        "Conv" => inputs.get(1).map(|kernel| product(kernel.shape.get(1..).unwrap_or_default())),
        "MatMul" => inputs.first().and_then(|left| left.shape.last().copied()),
        "Gemm" => inputs.first().and_then(|left| {
            let axis = if integer(node, "transA", 0) == 0 { 1 } else { 0 };
            left.shape.get(axis).copied()
        }),
        _ => None,
    };
    each.unwrap_or(0).saturating_mul(output.count())
}

fn attribute<'a>(node: &'a Node, name: &str) -> Option<&'a Attribute> {
    node.attributes.iter().find(|attribute| attribute.name == name)
}

fn integer(node: &Node, name: &str, default: i64) -> i64 {
    attribute(node, name).and_then(|attribute| attribute.integer).unwrap_or(default)
}

fn list(node: &Node, name: &str) -> Option<Vec<i64>> {
    attribute(node, name).map(|attribute| attribute.integers.clone())
}

/// Returns an axis counted from the front.
fn axis_of(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(axis).ok()
}

/// Returns the shape of two values that are combined element by element.
fn broadcast(left: &[u64], right: &[u64]) -> Vec<u64> {
    let rank = left.len().max(right.len());
    let at = |shape: &[u64], index: usize| {
        (index + shape.len()).checked_sub(rank).map_or(1, |index| shape[index])
    };
    let size = |index| match (at(left, index), at(right, index)) {
        (1, other) | (other, 1) => other,
        (left, right) => left.max(right),
    };
    (0..rank).map(size).collect()
}

/// Returns the outputs of an operator (ONNX's specification has the rules), or nothing if they are not known.
fn infer(node: &Node, inputs: &[Known]) -> Option<Vec<Known>> {
    let first = inputs.first();
    let whole = |index: usize| inputs.get(index)?.whole.clone();
    let one = |value: Known| Some(vec![value]);
    match node.operator.as_str() {
        "Shape" => one(integers(first?.shape.iter().map(|size| *size as i64).collect())),
        "Constant" => one(of_tensor(attribute(node, "value")?.tensor.as_ref()?)),
        "Relu" | "Sigmoid" | "HardSwish" | "HardSigmoid" | "Erf" | "Tanh" | "Sqrt" | "Exp"
        | "Log" | "Neg" | "Abs" | "Cast" | "Softmax" | "LayerNormalization"
        | "BatchNormalization" | "Identity" | "Clip" | "Gelu" | "Reciprocal" | "Floor"
        | "LeakyRelu" | "Elu" | "Not" | "Dropout" | "LogSoftmax" => one(first?.clone()),
        "Add" | "Sub" | "Mul" | "Div" | "Min" | "Max" | "Pow" | "Greater" | "Less" | "Equal"
        | "LessOrEqual" | "GreaterOrEqual" | "And" | "Or" | "PRelu" => {
            let shape = broadcast(&first?.shape, &inputs.get(1)?.shape);
            one(Known { whole: arithmetic(node, inputs), ..first?.shaped(shape) })
        }
        "QuantizeLinear" => one(Known { bits: 8, whole: None, ..first?.clone() }),
        "DequantizeLinear" => {
            one(Known { bits: inputs.get(1)?.bits, whole: None, ..first?.clone() })
        }
        "Where" => {
            let shape = broadcast(&inputs.get(1)?.shape, &inputs.get(2)?.shape);
            one(inputs[1].shaped(broadcast(&first?.shape, &shape)))
        }
        "MatMul" => {
            let (left, right) = (&first?.shape, &inputs.get(1)?.shape);
            if left.len() < 2 || right.len() < 2 {
                return None;
            }
            let (outer, rows) = left.split_at(left.len() - 2);
            let (other, columns) = right.split_at(right.len() - 2);
            one(first?.shaped([broadcast(outer, other), vec![rows[0], columns[1]]].concat()))
        }
        "Gemm" => {
            let size = |value: &Known, attribute: &str, axis: usize| {
                let axis = if integer(node, attribute, 0) == 0 { axis } else { 1 - axis };
                value.shape.get(axis).copied()
            };
            let (rows, columns) = (size(first?, "transA", 0)?, size(inputs.get(1)?, "transB", 1)?);
            one(first?.shaped(vec![rows, columns]))
        }
        "Conv" | "MaxPool" | "AveragePool" => {
            let channels = match inputs.get(1) {
                Some(kernel) => *kernel.shape.first()?,
                None => *first?.shape.get(1)?,
            };
            let sizes = windows(node, first?, inputs.get(1))?;
            one(first?.shaped([vec![*first?.shape.first()?, channels], sizes].concat()))
        }
        "GlobalAveragePool" => {
            let shape = &first?.shape;
            let sizes = shape.iter().enumerate();
            one(first?.shaped(sizes.map(|(axis, size)| if axis < 2 { *size } else { 1 }).collect()))
        }
        "ReduceMean" | "ReduceL2" | "ReduceSum" | "ReduceMax" | "ReduceMin" | "ArgMax" => {
            let rank = first?.shape.len();
            let axes = match node.operator.as_str() {
                "ArgMax" => vec![integer(node, "axis", 0)],
                _ => list(node, "axes").or_else(|| whole(1)).unwrap_or_default(),
            };
            let axes: Option<Vec<_>> = axes.iter().map(|axis| axis_of(*axis, rank)).collect();
            let axes = axes?;
            let is_reduced = |axis: &usize| axes.is_empty() || axes.contains(axis);
            let keeps = integer(node, "keepdims", 1) == 1;
            let sizes = first?.shape.iter().enumerate();
            let sizes = sizes.filter_map(|(axis, size)| match is_reduced(&axis) {
                true => keeps.then_some(1),
                false => Some(*size),
            });
            one(first?.shaped(sizes.collect()))
        }
        "Transpose" => {
            let rank = first?.shape.len();
            let order = list(node, "perm");
            let order = order.unwrap_or_else(|| (0..rank as i64).rev().collect());
            let sizes = order.iter().map(|axis| first?.shape.get(*axis as usize).copied());
            one(first?.shaped(sizes.collect::<Option<_>>()?))
        }
        "Reshape" => one(first?.shaped(reshaped(&first?.shape, &whole(1)?)?)),
        "Flatten" => {
            let shape = &first?.shape;
            let axis = axis_of(integer(node, "axis", 1), shape.len())?;
            let (rows, columns) = shape.split_at_checked(axis)?;
            one(first?.shaped(vec![product(rows), product(columns)]))
        }
        "Concat" => {
            let rank = first?.shape.len();
            let axis = axis_of(integer(node, "axis", 0), rank)?;
            let mut shape = first?.shape.clone();
            let sizes = inputs.iter().map(|input| input.shape.get(axis).copied());
            *shape.get_mut(axis)? =
                sizes.collect::<Option<Vec<_>>>()?.into_iter().fold(0, u64::saturating_add);
            let parts = inputs.iter().map(|input| input.whole.clone());
            let whole: Option<Vec<_>> = parts.collect();
            let whole = whole.filter(|_| rank == 1).map(|parts| parts.concat());
            one(Known { whole, ..first?.shaped(shape) })
        }
        "Split" => {
            let axis = axis_of(integer(node, "axis", 0), first?.shape.len())?;
            let size = *first?.shape.get(axis)?;
            let count = node.outputs.len();
            let each = size.checked_div(count as u64)? as i64;
            let sizes = whole(1).or_else(|| list(node, "split"));
            let part = |size: &i64| {
                let mut shape = first?.shape.clone();
                shape[axis] = u64::try_from(*size).ok()?;
                Some(first?.shaped(shape))
            };
            sizes.unwrap_or_else(|| vec![each; count]).iter().map(part).collect()
        }
        "Slice" => {
            let mut shape = first?.shape.clone();
            let (starts, ends) = (whole(1)?, whole(2)?);
            let axes = whole(3).unwrap_or_else(|| (0..starts.len() as i64).collect());
            let steps = whole(4).unwrap_or_else(|| vec![1; starts.len()]);
            let mut content = first?.whole.clone().filter(|_| shape.len() == 1);
            for (((start, end), axis), step) in starts.iter().zip(&ends).zip(&axes).zip(&steps) {
                let axis = axis_of(*axis, shape.len())?;
                let size = i64::try_from(*shape.get(axis)?).ok()?;
                let clamp = |at: i64| if at < 0 { at + size } else { at }.clamp(0, size);
                let (start, end) = (clamp(*start), clamp(*end));
                if *step < 1 {
                    return None;
                }
                shape[axis] = u64::try_from(end - start).unwrap_or(0).div_ceil(*step as u64);
                content = content.map(|all| {
                    let part = all.get(start as usize..(end.max(start)) as usize);
                    part.unwrap_or_default().iter().copied().step_by(*step as usize).collect()
                });
            }
            one(Known { whole: content, ..first?.shaped(shape) })
        }
        "Gather" => {
            let axis = axis_of(integer(node, "axis", 0), first?.shape.len())?;
            let (before, after) = first?.shape.split_at_checked(axis)?;
            let shape = [before, &inputs.get(1)?.shape, after.get(1..)?].concat();
            let pick = |all: &Vec<i64>| {
                let indices = inputs.get(1)?.whole.clone()?;
                indices.iter().map(|at| all.get(axis_of(*at, all.len())?).copied()).collect()
            };
            let whole = first?.whole.as_ref().and_then(pick);
            one(Known { whole, ..first?.shaped(shape) })
        }
        "GatherND" => {
            let (indices, batch) = (&inputs.get(1)?.shape, integer(node, "batch_dims", 0) as usize);
            let depth = *indices.last()? as usize;
            let outer = indices.get(..indices.len() - 1)?;
            one(first?.shaped([outer, first?.shape.get(batch.checked_add(depth)?..)?].concat()))
        }
        "Squeeze" => {
            let axes = whole(1).or_else(|| list(node, "axes"));
            let rank = first?.shape.len();
            let axes: Option<Vec<_>> =
                axes.map(|axes| axes.iter().filter_map(|axis| axis_of(*axis, rank)).collect());
            let goes = |axis: usize, size: u64| match &axes {
                Some(axes) => axes.contains(&axis),
                None => size == 1,
            };
            let sizes = first?.shape.iter().enumerate();
            let shape = sizes.filter(|(axis, size)| !goes(*axis, **size)).map(|(_, size)| *size);
            one(Known { whole: first?.whole.clone(), ..first?.shaped(shape.collect()) })
        }
        "Unsqueeze" => {
            let axes = whole(1).or_else(|| list(node, "axes"))?;
            let rank = first?.shape.len() + axes.len();
            let mut axes: Vec<_> =
                axes.iter().map(|axis| axis_of(*axis, rank)).collect::<Option<_>>()?;
            axes.sort_unstable();
            let mut shape = first?.shape.clone();
            axes.iter().for_each(|axis| shape.insert((*axis).min(shape.len()), 1));
            one(Known { whole: first?.whole.clone(), ..first?.shaped(shape) })
        }
        "Expand" => {
            let sizes: Option<Vec<u64>> =
                whole(1)?.iter().map(|size| u64::try_from(*size).ok()).collect();
            one(first?.shaped(broadcast(&first?.shape, &sizes?)))
        }
        "Range" => {
            let [start, end, step] = [0, 1, 2].map(|index| whole(index)?.first().copied());
            let (start, end, step) = (start?, end?, step.filter(|step| *step > 0)?);
            let count = u64::try_from(end.checked_sub(start)?).unwrap_or(0).div_ceil(step as u64);
            one(Known { shape: vec![count], bits: INTEGER_BITS, whole: None })
        }
        _ => None,
    }
}

/// Computes with shapes, which exporters do.
fn arithmetic(node: &Node, inputs: &[Known]) -> Option<Vec<i64>> {
    let [left, right] = [0, 1].map(|index| inputs.get(index)?.whole.as_ref());
    let (left, right) = (left?, right?);
    let count = left.len().max(right.len());
    let at = |values: &Vec<i64>, index: usize| {
        values.get(if values.len() == 1 { 0 } else { index }).copied()
    };
    let each = |index| {
        let (left, right) = (at(left, index)?, at(right, index)?);
        match node.operator.as_str() {
            "Add" => left.checked_add(right),
            "Sub" => left.checked_sub(right),
            "Mul" => left.checked_mul(right),
            "Div" => left.checked_div(right),
            _ => None,
        }
    };
    (0..count).map(each).collect()
}

/// Returns the places of a window along each axis of an image.
fn windows(node: &Node, image: &Known, kernel: Option<&Known>) -> Option<Vec<u64>> {
    let sizes = image.shape.get(2..)?;
    let of_kernel = || Some(kernel?.shape.iter().skip(2).map(|size| *size as i64).collect());
    let kernel = list(node, "kernel_shape").or_else(of_kernel)?;
    let usual = vec![1; sizes.len()];
    let strides = list(node, "strides").unwrap_or_else(|| usual.clone());
    let dilations = list(node, "dilations").unwrap_or(usual);
    let pads = list(node, "pads").unwrap_or_else(|| vec![0; 2 * sizes.len()]);
    let same = attribute(node, "auto_pad")
        .is_some_and(|it| it.text.as_ref().is_some_and(|text| text.starts_with(b"SAME")));
    let rounds_up = integer(node, "ceil_mode", 0) == 1;
    let place = |(axis, size): (usize, &u64)| {
        let stride = u64::try_from(*strides.get(axis)?).ok().filter(|stride| *stride > 0)?;
        if same {
            return Some(size.div_ceil(stride));
        }
        let pads = pads.get(axis)?.checked_add(*pads.get(axis + sizes.len())?)?;
        let padded = i64::try_from(*size).ok()?.checked_add(pads)?;
        let reach = kernel.get(axis)?.checked_sub(1)?.checked_mul(*dilations.get(axis)?)?;
        let room = u64::try_from(padded.checked_sub(reach)?.checked_sub(1)?).ok()?;
        Some(if rounds_up { room.div_ceil(stride) } else { room / stride }.saturating_add(1))
    };
    sizes.iter().enumerate().map(place).collect()
}

/// Returns the shape that `Reshape` makes: zero keeps a size, and -1 is what is left.
fn reshaped(shape: &[u64], wanted: &[i64]) -> Option<Vec<u64>> {
    let sizes = wanted.iter().enumerate().map(|(axis, size)| match size {
        0 => shape.get(axis).copied().map(Some),
        -1 => Some(None),
        size => u64::try_from(*size).ok().map(Some),
    });
    let sizes: Vec<Option<u64>> = sizes.collect::<Option<_>>()?;
    let given = sizes.iter().flatten().fold(1, |given: u64, size| given.saturating_mul(*size));
    let left = product(shape).checked_div(given)?;
    Some(sizes.into_iter().map(|size| size.unwrap_or(left)).collect())
}
