//! The cost of one pass: shapes are inferred over the graph, and operations are counted.
//!
//! Two operations are counted for each product that is summed, in convolutions, products of matrices and recurrent
//! layers, as `torch.utils.flop_counter` does. Operators that work on single elements count as nothing. A count is of
//! the whole graph, or a gap that names the operators that prevent it.

use std::collections::{BTreeMap, BTreeSet};

use host_record::{Gap, ModelCost, NotMeasured};

use crate::element::element;
use crate::messages::{Attribute, Graph, Node, Tensor};
use crate::names::operator;

/// Operators with products, in the standard's domain.
const PRODUCTS: &[&str] = &[
    "Conv",
    "ConvInteger",
    "ConvTranspose",
    "DynamicQuantizeLSTM",
    "Einsum",
    "GRU",
    "Gemm",
    "LSTM",
    "MatMul",
    "MatMulInteger",
    "QLinearConv",
    "QLinearMatMul",
    "RNN",
];

/// Operators with products that ONNX Runtime puts in the place of the standard's, in its domain.
const OF_ONNX_RUNTIME: &[&str] = &["DynamicQuantizeLSTM"];

/// Operators without products that work on each element, or move elements. The shape of the first input is that of
/// the output.
const ELEMENTWISE: &[&str] = &[
    "Abs",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "BatchNormalization",
    "BitwiseNot",
    "Cast",
    "CastLike",
    "Ceil",
    "Celu",
    "Clip",
    "Cos",
    "Cosh",
    "CumSum",
    "DequantizeLinear",
    "Dropout",
    "DynamicQuantizeLinear",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "GroupNormalization",
    "HardSigmoid",
    "HardSwish",
    "Hardmax",
    "Identity",
    "InstanceNormalization",
    "IsInf",
    "IsNaN",
    "LRN",
    "LayerNormalization",
    "LeakyRelu",
    "Log",
    "LogSoftmax",
    "LpNormalization",
    "MeanVarianceNormalization",
    "Mish",
    "Neg",
    "Not",
    "QuantizeLinear",
    "RMSNormalization",
    "RandomNormalLike",
    "RandomUniformLike",
    "Reciprocal",
    "Relu",
    "ReverseSequence",
    "Round",
    "ScatterElements",
    "ScatterND",
    "Selu",
    "Shrink",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softmax",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Swish",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
    "Trilu",
];

/// Operators on pairs of elements, whose shapes are broadcast.
const PAIRWISE: &[&str] = &[
    "Add",
    "And",
    "BitShift",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "Div",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Max",
    "Mean",
    "Min",
    "Mod",
    "Mul",
    "Or",
    "PRelu",
    "Pow",
    "Sub",
    "Sum",
    "Xor",
];

/// Operators without products with a rule of their own for the shape of their outputs, or with none, because it
/// depends on values.
const OTHERS: &[&str] = &[
    "ArgMax",
    "ArgMin",
    "AveragePool",
    "Compress",
    "Concat",
    "Constant",
    "ConstantOfShape",
    "DepthToSpace",
    "Expand",
    "EyeLike",
    "Flatten",
    "Gather",
    "GatherElements",
    "GatherND",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "LpPool",
    "MaxPool",
    "Multinomial",
    "NonMaxSuppression",
    "NonZero",
    "OneHot",
    "Pad",
    "RandomNormal",
    "RandomUniform",
    "Range",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
    "Reshape",
    "Resize",
    "RoiAlign",
    "Shape",
    "Size",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Tile",
    "TopK",
    "Transpose",
    "Unique",
    "Unsqueeze",
    "Upsample",
    "Where",
];

/// Operators whose outputs are their inputs under another shape: nothing moves.
const VIEWS: &[&str] =
    &["Constant", "Flatten", "Identity", "Reshape", "Shape", "Size", "Squeeze", "Unsqueeze"];

fn is_of(list: &[&str], node: &Node) -> bool {
    list.contains(&node.operator.as_str())
}

/// Returns whether an operator is one of the standard whose products are known.
fn has_formula(node: &Node) -> bool {
    let is_known = is_of(OF_ONNX_RUNTIME, node) && node.domain == "com.microsoft";
    is_known
        || matches!(node.domain.as_str(), "" | "ai.onnx")
        && [PRODUCTS, ELEMENTWISE, PAIRWISE, OTHERS].iter().any(|list| is_of(list, node))
        // The products of more factors depend on the order in which an engine takes them.
        && (node.operator != "Einsum" || node.inputs.len() <= 2)
}

/// A value, as far as it is known.
#[derive(Debug, Clone, Default)]
struct Known {
    shape: Vec<u64>,
    bits: u64,
    /// Its content, if it is made of few whole numbers.
    whole: Option<Vec<i64>>,
    /// Its content, if it is made of few other numbers.
    real: Option<Vec<f32>>,
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
        Self { shape, bits: self.bits, whole: None, real: None }
    }

    /// Returns this value with elements of other bits.
    fn with_bits(self, bits: u64) -> Self {
        Self { bits, ..self }
    }
}

/// Whole numbers without fractions have this many bits in shapes.
const INTEGER_BITS: u64 = 64;

/// Truth values have this many bits.
const BOOLEAN_BITS: u64 = 8;

/// Longest content that is followed through the graph.
const FEW: u64 = 4096;

/// Returns the product of sizes, or the largest number if they are absurd.
fn product(sizes: &[u64]) -> u64 {
    sizes.iter().fold(1, |product, size| product.saturating_mul(*size))
}

fn sum(values: impl IntoIterator<Item = u64>) -> u64 {
    values.into_iter().fold(0, u64::saturating_add)
}

fn integers(whole: Vec<i64>) -> Known {
    Known { shape: vec![whole.len() as u64], bits: INTEGER_BITS, whole: Some(whole), real: None }
}

fn of_tensor(tensor: &Tensor) -> Known {
    let shape = tensor.sizes.iter().map(|size| u64::try_from(*size).unwrap_or(0)).collect();
    let (_, bits) = element(tensor.element);
    let is_few = tensor.count().is_some_and(|count| count <= FEW);
    let whole = tensor.whole().filter(|_| is_few);
    Known { shape, bits, whole, real: tensor.real().filter(|_| is_few) }
}

/// Costs from here on may have been cut to the largest number.
const LARGEST: u64 = 1 << 60;

/// Why a part of the cost is not known.
#[derive(Debug, Clone, Default)]
struct Obstacles {
    inputs: BTreeSet<String>,
    without_formula: BTreeSet<String>,
    without_shape: BTreeSet<String>,
    sparse: BTreeSet<String>,
}

impl Obstacles {
    fn add(&mut self, cause: &Cause) {
        match cause {
            Cause::Input(name) => self.inputs.insert(name.clone()),
            Cause::Formula(operator) => self.without_formula.insert(operator.clone()),
            Cause::Shape(operator) => self.without_shape.insert(operator.clone()),
            Cause::Sparse(name) => self.sparse.insert(name.clone()),
        };
    }

    fn is_empty(&self) -> bool {
        let all = [&self.inputs, &self.without_formula, &self.without_shape, &self.sparse];
        all.iter().all(|set| set.is_empty())
    }

    /// Returns the number, unless something prevents it.
    fn or(self, number: u64) -> Result<u64, Gap> {
        let list = |set: BTreeSet<String>| set.into_iter().collect();
        if !self.inputs.is_empty() {
            return Err(NotMeasured::NoInputShape { inputs: list(self.inputs) }.into());
        }
        if self.is_empty() {
            // Sums and products saturate, and bytes are an eighth of the bits.
            return if number < LARGEST { Ok(number) } else { Err(NotMeasured::TooCostly.into()) };
        }
        Err(NotMeasured::NoFormula {
            without_formula: list(self.without_formula),
            without_shape: list(self.without_shape),
            sparse: list(self.sparse),
        }
        .into())
    }
}

/// Why a value's shape is not known: the first operator or input on the way to it.
#[derive(Debug, Clone)]
enum Cause {
    /// An input has no shape.
    Input(String),
    /// An operator has no formula.
    Formula(String),
    /// The shape of an operator's outputs depends on values.
    Shape(String),
    /// A tensor is sparse: an engine may compute with few of its elements, or with all.
    Sparse(String),
}

/// A weight: its bytes, and those of them that are read.
struct Weight {
    bytes: u64,
    read: u64,
}

pub(crate) fn of(graph: &Graph, shapes: &BTreeMap<String, Vec<u64>>) -> ModelCost {
    let mut known: BTreeMap<&str, Result<Known, Cause>> = BTreeMap::new();
    let mut weights: BTreeMap<&str, Weight> = BTreeMap::new();
    for tensor in &graph.initializers {
        let value = of_tensor(tensor);
        weights.insert(&tensor.name, Weight { bytes: value.bytes(), read: 0 });
        known.insert(&tensor.name, Ok(value));
    }
    for tensor in &graph.sparse_initializers {
        let name = tensor.values.as_ref().map_or("", |values| values.name.as_str());
        known.insert(name, Err(Cause::Sparse(name.to_owned())));
    }
    let (mut operations, mut least, mut unfused) = (0_u64, 0_u64, 0_u64);
    let mut no_operations = Obstacles::default();
    let (mut no_least, mut no_unfused) = (Obstacles::default(), Obstacles::default());
    for input in &graph.inputs {
        if weights.contains_key(input.name.as_str()) {
            continue;
        }
        let kind = input.kind.as_ref().and_then(|kind| kind.tensor.as_ref());
        let is_sparse = input.kind.as_ref().is_some_and(|kind| kind.sparse.is_some());
        let value = match (shapes.get(&input.name), kind) {
            _ if is_sparse => Err(Cause::Sparse(input.name.clone())),
            (Some(shape), Some(kind)) => {
                let bits = element(kind.element).1;
                Ok(Known { shape: shape.clone(), bits, ..Known::default() })
            }
            _ => Err(Cause::Input(input.name.clone())),
        };
        match &value {
            Ok(value) => least = least.saturating_add(value.bytes()),
            Err(cause) => no_least.add(cause),
        }
        known.insert(&input.name, value);
    }
    for node in &graph.nodes {
        let name = operator(node);
        // An optional input that is left out has an empty name.
        let inputs: Result<Vec<Known>, Cause> = (node.inputs.iter())
            .map(|input| match input.as_str() {
                "" => Ok(Known::default()),
                input => {
                    known.get(input).cloned().unwrap_or_else(|| Err(Cause::Shape(name.clone())))
                }
            })
            .collect();
        let outputs = match &inputs {
            _ if !has_formula(node) => Err(Cause::Formula(name.clone())),
            _ if node.attributes.iter().any(|attribute| attribute.sparse.is_some()) => {
                Err(Cause::Sparse(node.outputs.first().cloned().unwrap_or_default()))
            }
            Ok(inputs) => infer(node, inputs).ok_or_else(|| Cause::Shape(name.clone())),
            Err(cause) => Err(cause.clone()),
        };
        let counted = match (&inputs, &outputs) {
            _ if !has_formula(node) => Err(Cause::Formula(name.clone())),
            _ if !is_of(PRODUCTS, node) => Ok(0),
            (Ok(inputs), Ok(outputs)) => {
                products(node, inputs, outputs).ok_or_else(|| Cause::Shape(name.clone()))
            }
            (_, Err(cause)) | (Err(cause), _) => Err(cause.clone()),
        };
        match counted {
            Ok(products) => operations = operations.saturating_add(products.saturating_mul(2)),
            Err(cause) => no_operations.add(&cause),
        }
        // A lookup reads rows of its table, as many as it writes.
        let is_lookup = node.operator.starts_with("Gather");
        let written = outputs.as_ref().map(|outputs| sum(outputs.iter().map(Known::bytes)));
        let written = written.map_err(Cause::clone);
        for (index, input) in node.inputs.iter().enumerate() {
            let Some(weight) = weights.get_mut(input.as_str()) else { continue };
            let read = match (&written, node.operator.as_str()) {
                (_, "Shape" | "Size") => 0,
                (Ok(written), _) if is_lookup && index == 0 => *written,
                _ => weight.bytes,
            };
            weight.read = weight.read.saturating_add(read).min(weight.bytes);
        }
        match (&inputs, &written) {
            (Ok(_), Ok(_)) if is_of(VIEWS, node) => {}
            (Ok(inputs), Ok(written)) => {
                let of_table = if is_lookup { *written } else { u64::MAX };
                let read = inputs.iter().enumerate().map(|(index, input)| match index {
                    0 => input.bytes().min(of_table),
                    _ => input.bytes(),
                });
                unfused = unfused.saturating_add(sum(read)).saturating_add(*written);
            }
            (_, Err(cause)) | (Err(cause), _) => no_unfused.add(cause),
        }
        match outputs {
            Ok(outputs) => {
                if node.operator == "Constant"
                    && let (Some(name), Some(value)) = (node.outputs.first(), outputs.first())
                {
                    weights.insert(name, Weight { bytes: value.bytes(), read: 0 });
                }
                known.extend(
                    node.outputs.iter().map(String::as_str).zip(outputs.into_iter().map(Ok)),
                );
            }
            Err(cause) => {
                known.extend(
                    node.outputs.iter().map(|output| (output.as_str(), Err(cause.clone()))),
                );
            }
        }
    }
    for output in &graph.outputs {
        match known.get(output.name.as_str()) {
            Some(Ok(value)) => least = least.saturating_add(value.bytes()),
            Some(Err(cause)) => no_least.add(cause),
            None => {}
        }
    }
    least = least.saturating_add(sum(weights.values().map(|weight| weight.read)));
    // A view costs nothing, unless it is an output: then its values are copied. So is an input that nothing reads.
    let unfused = if no_least.is_empty() { unfused.max(least) } else { unfused };
    ModelCost {
        flops: no_operations.or(operations),
        least_bytes: no_least.or(least),
        unfused_bytes: no_unfused.or(unfused),
    }
}

/// Returns the products that an operator sums, or nothing if shapes that it takes are missing.
fn products(node: &Node, inputs: &[Known], outputs: &[Known]) -> Option<u64> {
    if !is_of(PRODUCTS, node) {
        return Some(0);
    }
    let output = outputs.first()?;
    // A kernel over its share of the channels.
    let kernel = |index: usize| Some(product(inputs.get(index)?.shape.get(1..)?));
    let columns = || inputs.first()?.shape.last().copied();
    let (each, times) = match node.operator.as_str() {
        // For each element of the output.
        "Conv" | "ConvInteger" => (kernel(1)?, output.count()),
        "QLinearConv" => (kernel(3)?, output.count()),
        // For each element of the input.
        "ConvTranspose" => (kernel(1)?, inputs.first()?.count()),
        "MatMul" | "MatMulInteger" | "QLinearMatMul" => (columns()?, output.count()),
        "Gemm" => {
            let axis = if integer(node, "transA", 0) == 0 { 1 } else { 0 };
            (*inputs.first()?.shape.get(axis)?, output.count())
        }
        // All weights, for each step and example.
        "LSTM" | "GRU" | "RNN" | "DynamicQuantizeLSTM" => {
            let weights = inputs.get(1)?.count().saturating_add(inputs.get(2)?.count());
            (weights, product(inputs.first()?.shape.get(..2)?))
        }
        // A single factor is only summed.
        "Einsum" if inputs.len() < 2 => (0, 0),
        "Einsum" => {
            (1, product(&Equation::of(node, inputs)?.sizes.into_values().collect::<Vec<_>>()))
        }
        _ => return None,
    };
    Some(each.saturating_mul(times))
}

/// The equation of an `Einsum` over one or two values.
struct Equation {
    output: Vec<char>,
    sizes: BTreeMap<char, u64>,
}

/// Axes of an ellipsis have labels from here on, counted from the last.
const ELLIPSIS: u32 = 0xe000;

impl Equation {
    fn of(node: &Node, inputs: &[Known]) -> Option<Self> {
        let text = attribute(node, "equation")?.text.as_deref()?;
        let text = std::str::from_utf8(text).ok()?;
        let text: String = text.chars().filter(|character| !character.is_whitespace()).collect();
        let (left, output) = match text.split_once("->") {
            Some((left, output)) => (left, Some(output)),
            None => (text.as_str(), None),
        };
        let terms: Vec<_> = left.split(',').collect();
        if terms.len() != inputs.len() {
            return None;
        }
        let mut sizes: BTreeMap<char, u64> = BTreeMap::new();
        let (mut used, mut widest) = (Vec::new(), 0);
        for (term, input) in terms.iter().zip(inputs) {
            let shape = &input.shape;
            let named = term.replace("...", "").chars().count();
            let covered = shape.len().checked_sub(named)?;
            widest = widest.max(covered);
            let labels = labels(term, covered)?;
            if labels.len() != shape.len() {
                return None;
            }
            for (label, size) in labels.iter().zip(shape) {
                let known = sizes.entry(*label).or_insert(1);
                *known = if *known == 1 { *size } else { *known };
            }
            used.extend(labels);
        }
        let output = match output {
            Some(output) => labels(output, widest)?,
            // The labels of an ellipsis, and then those that occur once, in alphabetical order.
            None => {
                let is_single = |label: &char| used.iter().filter(|it| *it == label).count() == 1;
                let named = sizes.keys().filter(|label| (**label as u32) < ELLIPSIS);
                let mut output = ellipsis(widest)?;
                output.extend(named.copied().filter(is_single));
                output
            }
        };
        Some(Self { output, sizes })
    }

    fn shape(&self) -> Option<Vec<u64>> {
        self.output.iter().map(|label| self.sizes.get(label).copied()).collect()
    }
}

/// Returns the labels of a term, whose ellipsis covers so many axes.
fn labels(term: &str, covered: usize) -> Option<Vec<char>> {
    let Some((before, after)) = term.split_once("...") else {
        return Some(term.chars().collect());
    };
    Some(before.chars().chain(ellipsis(covered)?).chain(after.chars()).collect())
}

fn ellipsis(covered: usize) -> Option<Vec<char>> {
    let covered = u32::try_from(covered).ok()?;
    (0..covered).rev().map(|index| char::from_u32(ELLIPSIS.checked_add(index)?)).collect()
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
        "Shape" => {
            let rank = first?.shape.len();
            let at = |name, default| {
                let at = integer(node, name, default);
                (if at < 0 { at + rank as i64 } else { at }).clamp(0, rank as i64) as usize
            };
            let (start, end) = (at("start", 0), at("end", rank as i64));
            let sizes = first?.shape.get(start..end.max(start))?;
            one(integers(sizes.iter().map(|size| *size as i64).collect()))
        }
        "Size" => {
            one(Known { shape: Vec::new(), ..integers(vec![i64::try_from(first?.count()).ok()?]) })
        }
        "Constant" => one(constant(node)?),
        "ConstantOfShape" => {
            let sizes = whole(0)?.into_iter().map(|size| u64::try_from(size).ok());
            let shape = sizes.collect::<Option<Vec<_>>>()?;
            let tensor = attribute(node, "value").and_then(|value| value.tensor.as_ref());
            // Zeros in fp32, unless a value is given.
            let value = tensor.map_or(Known { bits: 32, ..Known::default() }, of_tensor);
            let count = product(&shape);
            let few = value.whole.as_ref().and_then(|whole| whole.first()).filter(|_| count <= FEW);
            let whole = few.map(|value| vec![*value; count as usize]);
            one(Known { whole, ..value.shaped(shape) })
        }
        "Identity" => one(first?.clone()),
        "Neg" => {
            let whole = whole(0).and_then(|all| all.iter().map(|it| it.checked_neg()).collect());
            one(Known { whole, ..first?.shaped(first?.shape.clone()) })
        }
        "Cast" => {
            let number = i32::try_from(integer(node, "to", 0)).ok()?;
            let (name, bits) = element(number);
            let is_whole = matches!(name, "int64" | "int32");
            let value = first?.clone();
            one(Known { whole: value.whole.filter(|_| is_whole), real: None, ..value }
                .with_bits(bits))
        }
        "CastLike" => one(first?.shaped(first?.shape.clone()).with_bits(inputs.get(1)?.bits)),
        "QuantizeLinear" => {
            let bits = inputs.get(2).map_or(8, |zero| zero.bits);
            one(first?.shaped(first?.shape.clone()).with_bits(bits))
        }
        "DequantizeLinear" => {
            one(first?.shaped(first?.shape.clone()).with_bits(inputs.get(1)?.bits))
        }
        "DynamicQuantizeLinear" => {
            let scalar = |bits| Known { bits, ..Known::default() };
            Some(vec![first?.shaped(first?.shape.clone()).with_bits(8), scalar(32), scalar(8)])
        }
        "Not" | "IsNaN" | "IsInf" => {
            one(first?.shaped(first?.shape.clone()).with_bits(BOOLEAN_BITS))
        }
        "Dropout" => {
            let mask = first?.shaped(first?.shape.clone()).with_bits(BOOLEAN_BITS);
            Some(vec![first?.shaped(first?.shape.clone()), mask])
        }
        _ if is_of(ELEMENTWISE, node) => one(first?.shaped(first?.shape.clone())),
        _ if is_of(PAIRWISE, node) => {
            let shapes = inputs.iter().map(|input| input.shape.clone());
            let shape = shapes.reduce(|left, right| broadcast(&left, &right))?;
            let compares = matches!(
                node.operator.as_str(),
                "Equal"
                    | "Greater"
                    | "GreaterOrEqual"
                    | "Less"
                    | "LessOrEqual"
                    | "And"
                    | "Or"
                    | "Xor"
            );
            let value = Known { whole: arithmetic(node, inputs), ..first?.shaped(shape) };
            one(if compares { value.with_bits(BOOLEAN_BITS) } else { value })
        }
        "Where" => {
            let (yes, no) = (inputs.get(1)?, inputs.get(2)?);
            let shape = broadcast(&first?.shape, &broadcast(&yes.shape, &no.shape));
            one(Known { whole: chosen(first?, yes, no), ..yes.shaped(shape) })
        }
        "MatMul" => one(first?.shaped(product_shape(&first?.shape, &inputs.get(1)?.shape)?)),
        "MatMulInteger" => {
            let shape = product_shape(&first?.shape, &inputs.get(1)?.shape)?;
            one(first?.shaped(shape).with_bits(32))
        }
        "QLinearMatMul" => one(first?.shaped(product_shape(&first?.shape, &inputs.get(3)?.shape)?)),
        "Einsum" => one(first?.shaped(Equation::of(node, inputs)?.shape()?)),
        "LSTM" | "GRU" | "RNN" | "DynamicQuantizeLSTM" => {
            let recurrent = inputs.get(2)?;
            let [steps, batch] = *first?.shape.get(..2)?.as_array()?;
            // Quantised weights are transposed.
            let of_width = if node.operator == "DynamicQuantizeLSTM" { 1 } else { 2 };
            let (directions, width) = (*recurrent.shape.first()?, *recurrent.shape.get(of_width)?);
            let last = first?.shaped(vec![directions, batch, width]);
            Some(vec![first?.shaped(vec![steps, directions, batch, width]), last.clone(), last])
        }
        "Gemm" => {
            let size = |value: &Known, attribute: &str, axis: usize| {
                let axis = if integer(node, attribute, 0) == 0 { axis } else { 1 - axis };
                value.shape.get(axis).copied()
            };
            let (rows, columns) = (size(first?, "transA", 0)?, size(inputs.get(1)?, "transB", 1)?);
            one(first?.shaped(vec![rows, columns]))
        }
        "Conv" | "ConvInteger" | "QLinearConv" | "MaxPool" | "AveragePool" | "LpPool" => {
            let kernel = match node.operator.as_str() {
                "QLinearConv" => Some(inputs.get(3)?),
                "Conv" | "ConvInteger" => Some(inputs.get(1)?),
                _ => None,
            };
            let channels = match kernel {
                Some(kernel) => *kernel.shape.first()?,
                None => *first?.shape.get(1)?,
            };
            let sizes = windows(node, first?, kernel)?;
            let output = first?.shaped([vec![*first?.shape.first()?, channels], sizes].concat());
            Some(match node.operator.as_str() {
                "ConvInteger" => vec![output.with_bits(32)],
                "MaxPool" => vec![output.clone(), output.with_bits(INTEGER_BITS)],
                _ => vec![output],
            })
        }
        "ConvTranspose" => {
            let kernel = inputs.get(1)?;
            let groups = u64::try_from(integer(node, "group", 1)).ok()?;
            let channels = kernel.shape.get(1)?.checked_mul(groups)?;
            let sizes = spread(node, first?, kernel)?;
            one(first?.shaped([vec![*first?.shape.first()?, channels], sizes].concat()))
        }
        "GlobalAveragePool" | "GlobalMaxPool" => {
            let shape = &first?.shape;
            let sizes = shape.iter().enumerate();
            one(first?.shaped(sizes.map(|(axis, size)| if axis < 2 { *size } else { 1 }).collect()))
        }
        name if name.starts_with("Reduce") || name.starts_with("Arg") => {
            let rank = first?.shape.len();
            let is_index = name.starts_with("Arg");
            let axes = match (is_index, list(node, "axes"), inputs.get(1)) {
                (true, ..) => vec![integer(node, "axis", 0)],
                (_, Some(axes), _) => axes,
                (_, None, Some(_)) => whole(1)?,
                (_, None, None) => Vec::new(),
            };
            if axes.is_empty() && integer(node, "noop_with_empty_axes", 0) == 1 {
                return one(first?.shaped(first?.shape.clone()));
            }
            let axes: Option<Vec<_>> = axes.iter().map(|axis| axis_of(*axis, rank)).collect();
            let axes = axes?;
            let is_reduced = |axis: &usize| axes.is_empty() || axes.contains(axis);
            let keeps = integer(node, "keepdims", 1) == 1;
            let sizes = first?.shape.iter().enumerate();
            let sizes = sizes.filter_map(|(axis, size)| match is_reduced(&axis) {
                true => keeps.then_some(1),
                false => Some(*size),
            });
            let output = first?.shaped(sizes.collect());
            one(if is_index { output.with_bits(INTEGER_BITS) } else { output })
        }
        "Transpose" => {
            let rank = first?.shape.len();
            let order = list(node, "perm");
            let order = order.unwrap_or_else(|| (0..rank as i64).rev().collect());
            let sizes = order.iter().map(|axis| first?.shape.get(*axis as usize).copied());
            one(first?.shaped(sizes.collect::<Option<_>>()?))
        }
        "Reshape" => {
            let shape = reshaped(&first?.shape, &whole(1)?)?;
            one(Known { shape, ..first?.clone() })
        }
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
                // Backwards, a slice may end before the first element.
                let (least, most) = if *step < 0 { (-1, size - 1) } else { (0, size) };
                let clamp =
                    |at: i64| if at < 0 { at.saturating_add(size) } else { at }.clamp(least, most);
                let (start, end) = (clamp(*start), clamp(*end));
                let reach = if *step < 0 { start - end } else { end - start };
                let count = u64::try_from(reach)
                    .unwrap_or(0)
                    .checked_div(step.unsigned_abs())
                    .map(|whole| {
                        whole
                            + u64::from(reach > 0 && reach.unsigned_abs() % step.unsigned_abs() > 0)
                    })?;
                shape[axis] = count;
                content = content.and_then(|all| {
                    let at = |index: u64| usize::try_from(start + index as i64 * step).ok();
                    (0..count).map(|index| all.get(at(index)?).copied()).collect()
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
            let few = (count <= FEW).then(|| (0..count as i64).map(|index| start + index * step));
            one(Known {
                shape: vec![count],
                whole: few.map(Iterator::collect),
                ..first?.shaped(vec![])
            })
        }
        "Tile" => {
            let sizes = first?.shape.iter().zip(whole(1)?);
            let sizes =
                sizes.map(|(size, times)| Some(size.saturating_mul(u64::try_from(times).ok()?)));
            one(first?.shaped(sizes.collect::<Option<_>>()?))
        }
        "Pad" => {
            let rank = first?.shape.len();
            let pads = list(node, "pads").or_else(|| whole(1))?;
            let axes = match inputs.get(3) {
                Some(_) => whole(3)?,
                None => (0..rank as i64).collect(),
            };
            let mut shape = first?.shape.clone();
            for (index, axis) in axes.iter().enumerate() {
                let size = shape.get_mut(axis_of(*axis, rank)?)?;
                let more = pads.get(index)?.checked_add(*pads.get(index + axes.len())?)?;
                *size = size.checked_add_signed(more)?;
            }
            one(first?.shaped(shape))
        }
        "Resize" | "Upsample" => one(first?.shaped(resized(node, inputs)?)),
        "TopK" => {
            let rank = first?.shape.len();
            let count = whole(1).and_then(|count| count.first().copied());
            let mut shape = first?.shape.clone();
            *shape.get_mut(axis_of(integer(node, "axis", -1), rank)?)? =
                u64::try_from(count?).ok()?;
            let values = first?.shaped(shape);
            Some(vec![values.clone(), values.with_bits(INTEGER_BITS)])
        }
        "RoiAlign" => {
            let [_, channels, _, _] = *first?.shape.as_array()?;
            let size = |name| u64::try_from(integer(node, name, 1)).ok();
            let regions = *inputs.get(1)?.shape.first()?;
            one(first?.shaped(vec![
                regions,
                channels,
                size("output_height")?,
                size("output_width")?,
            ]))
        }
        "Multinomial" => {
            let samples = u64::try_from(integer(node, "sample_size", 1)).ok()?;
            let bits = element(i32::try_from(integer(node, "dtype", 6)).ok()?).1;
            one(first?.shaped(vec![*first?.shape.first()?, samples]).with_bits(bits))
        }
        "GatherElements" => one(first?.shaped(inputs.get(1)?.shape.clone())),
        "EyeLike" => one(first?.shaped(first?.shape.clone())),
        "OneHot" => {
            let mut shape = first?.shape.clone();
            let depth = whole(1)?.first().copied()?;
            let axis = axis_of(integer(node, "axis", -1), shape.len() + 1)?;
            if axis > shape.len() {
                return None;
            }
            shape.insert(axis, u64::try_from(depth).ok()?);
            one(inputs.get(2)?.shaped(shape))
        }
        "DepthToSpace" | "SpaceToDepth" => {
            let block = u64::try_from(integer(node, "blocksize", 0)).ok().filter(|it| *it > 0)?;
            let [batch, channels, height, width] = *first?.shape.as_array()?;
            let area = block.checked_mul(block)?;
            one(first?.shaped(match node.operator.as_str() {
                "DepthToSpace" => vec![
                    batch,
                    channels / area,
                    height.saturating_mul(block),
                    width.saturating_mul(block),
                ],
                _ => vec![batch, channels.saturating_mul(area), height / block, width / block],
            }))
        }
        "RandomNormal" | "RandomUniform" => {
            let sizes = list(node, "shape")?;
            let sizes = sizes.iter().map(|size| u64::try_from(*size).ok());
            let value = Known { bits: 32, ..Known::default() };
            one(value.shaped(sizes.collect::<Option<_>>()?))
        }
        _ => None,
    }
}

/// Computes with shapes, which exporters do.
fn arithmetic(node: &Node, inputs: &[Known]) -> Option<Vec<i64>> {
    let [left, right] = inputs.as_array()?;
    let (left, right) = (left.whole.as_ref(), right.whole.as_ref());
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
            "Mod" => left.checked_rem_euclid(right),
            "Min" => Some(left.min(right)),
            "Max" => Some(left.max(right)),
            "Equal" => Some(i64::from(left == right)),
            "Greater" => Some(i64::from(left > right)),
            "Less" => Some(i64::from(left < right)),
            _ => None,
        }
    };
    (0..count).map(each).collect()
}

/// Returns what `Where` chooses among whole numbers.
fn chosen(which: &Known, yes: &Known, no: &Known) -> Option<Vec<i64>> {
    let all = [which, yes, no].map(|value| value.whole.as_ref());
    let [which, yes, no] = [all[0]?, all[1]?, all[2]?];
    let count = which.len().max(yes.len()).max(no.len());
    let at = |values: &Vec<i64>, index: usize| {
        values.get(if values.len() == 1 { 0 } else { index }).copied()
    };
    (0..count).map(|index| at(if at(which, index)? == 0 { no } else { yes }, index)).collect()
}

/// Returns the value of a `Constant`.
fn constant(node: &Node) -> Option<Known> {
    let whole = |whole: Vec<i64>, shape| Known { shape, ..integers(whole) };
    let real = |real: Vec<f32>, shape| Known { shape, bits: 32, whole: None, real: Some(real) };
    node.attributes.iter().find_map(|it| match it.name.as_str() {
        "value" => it.tensor.as_ref().map(of_tensor),
        "value_int" => Some(whole(vec![it.integer.unwrap_or_default()], Vec::new())),
        "value_ints" => Some(integers(it.integers.clone())),
        "value_float" => Some(real(vec![it.float.unwrap_or_default()], Vec::new())),
        "value_floats" => Some(real(it.floats.clone(), vec![it.floats.len() as u64])),
        "value_string" => Some(Known::default()),
        _ => None,
    })
}

/// Returns the shape of a product of matrices. A vector is a row on the left and a column on the right.
fn product_shape(left: &[u64], right: &[u64]) -> Option<Vec<u64>> {
    let (outer, rows) = left.split_at(left.len().saturating_sub(2));
    let (other, columns) = right.split_at(right.len().saturating_sub(2));
    let rows = if rows.len() == 2 { &rows[..1] } else { &[] };
    let columns = if columns.len() == 2 { &columns[1..] } else { &[] };
    let is_some = !left.is_empty() && !right.is_empty();
    is_some.then(|| [&broadcast(outer, other), rows, columns].concat())
}

/// Returns the shape that `Resize` or `Upsample` makes.
fn resized(node: &Node, inputs: &[Known]) -> Option<Vec<u64>> {
    let shape = &inputs.first()?.shape;
    let all: Vec<i64> = (0..shape.len() as i64).collect();
    let axes = list(node, "axes").unwrap_or(all);
    let axes: Vec<usize> =
        axes.iter().map(|axis| axis_of(*axis, shape.len())).collect::<Option<_>>()?;
    let mut resized = shape.clone();
    let sizes = inputs.get(3).and_then(|sizes| sizes.whole.as_ref());
    if let Some(sizes) = sizes.filter(|sizes| sizes.len() == axes.len()) {
        // The format has other policies, which keep the ratio of the sizes.
        if attribute(node, "keep_aspect_ratio_policy")
            .is_some_and(|it| it.text.as_deref() != Some(b"stretch"))
        {
            return None;
        }
        for (axis, size) in axes.iter().zip(sizes) {
            *resized.get_mut(*axis)? = u64::try_from(*size).ok()?;
        }
        return Some(resized);
    }
    let of_input = [2, 1].into_iter().find_map(|index| inputs.get(index)?.real.clone());
    let of_attribute = || attribute(node, "scales").map(|scales| scales.floats.clone());
    let scales = of_input.or_else(of_attribute).filter(|scales| scales.len() == axes.len())?;
    for (axis, scale) in axes.iter().zip(&scales) {
        let size = resized.get_mut(*axis)?;
        *size = (*size as f64 * f64::from(*scale)).floor() as u64;
    }
    Some(resized)
}

fn pads_to_the_same_size(node: &Node) -> bool {
    let text = attribute(node, "auto_pad").and_then(|it| it.text.as_deref());
    text.is_some_and(|text| text.starts_with(b"SAME"))
}

/// Returns the sizes of what `ConvTranspose` makes.
fn spread(node: &Node, image: &Known, kernel: &Known) -> Option<Vec<u64>> {
    let positive = |sizes: Vec<i64>| sizes.iter().map(|size| u64::try_from(*size).ok()).collect();
    if let Some(sizes) = list(node, "output_shape") {
        return positive(sizes);
    }
    let sizes = image.shape.get(2..)?;
    let usual = vec![1; sizes.len()];
    let strides = list(node, "strides").unwrap_or_else(|| usual.clone());
    let dilations = list(node, "dilations").unwrap_or(usual);
    let pads = list(node, "pads").unwrap_or_else(|| vec![0; 2 * sizes.len()]);
    let more = list(node, "output_padding").unwrap_or_else(|| vec![0; sizes.len()]);
    let same = pads_to_the_same_size(node);
    let place = |(axis, size): (usize, &u64)| {
        let (size, stride) = (i64::try_from(*size).ok()?, *strides.get(axis)?);
        if same {
            return size.checked_mul(stride);
        }
        let kernel = i64::try_from(*kernel.shape.get(axis + 2)?).ok()?;
        let reach = kernel.checked_sub(1)?.checked_mul(*dilations.get(axis)?)?.checked_add(1)?;
        let pads = pads.get(axis)?.checked_add(*pads.get(axis + sizes.len())?)?;
        let steps = stride.checked_mul(size.checked_sub(1)?)?;
        steps.checked_add(reach)?.checked_add(*more.get(axis)?)?.checked_sub(pads)
    };
    positive(sizes.iter().enumerate().map(place).collect::<Option<_>>()?)
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
    let same = pads_to_the_same_size(node);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{Dimension, Shape, TensorType, Type, ValueInfo};

    fn node(operator: &str, inputs: &[&str], output: &str) -> Node {
        Node {
            inputs: inputs.iter().map(|&name| name.into()).collect(),
            outputs: vec![output.into()],
            operator: operator.into(),
            ..Node::default()
        }
    }

    fn with(mut node: Node, name: &str, integers: &[i64]) -> Node {
        let (integer, integers) = (Some(integers[0]), integers.to_vec());
        node.attributes.push(Attribute {
            name: name.into(),
            integer,
            integers,
            ..Attribute::default()
        });
        node
    }

    fn weight(name: &str, element: i32, sizes: &[i64]) -> Tensor {
        Tensor { name: name.into(), element, sizes: sizes.to_vec(), ..Tensor::default() }
    }

    fn content(name: &str, integers: &[i64]) -> Tensor {
        let sizes = vec![integers.len() as i64];
        Tensor { integers: integers.to_vec(), sizes, ..weight(name, 7, &[]) }
    }

    fn value(name: &str) -> ValueInfo {
        let dimensions = vec![Dimension { size: None, name: Some("n".into()) }];
        let tensor = Some(TensorType { element: 1, shape: Some(Shape { dimensions }) });
        ValueInfo { name: name.into(), kind: Some(Type { tensor, ..Type::default() }) }
    }

    /// Returns the cost of a graph from `x` to `y`.
    fn cost(x: &[u64], initializers: Vec<Tensor>, nodes: Vec<Node>) -> ModelCost {
        let (inputs, outputs) = (vec![value("x")], vec![value("y")]);
        let graph = Graph { nodes, initializers, inputs, outputs, ..Graph::default() };
        of(&graph, &[("x".to_owned(), x.to_vec())].into())
    }

    fn known(cost: &ModelCost) -> [u64; 3] {
        [&cost.flops, &cost.least_bytes, &cost.unfused_bytes]
            .map(|part| part.clone().expect("it is known"))
    }

    #[test]
    fn a_convolution_sums_a_kernel_for_each_element() {
        // 2 images of 4 channels, 8 × 8 → 6 channels, 4 × 4 in 2 groups; each element sums 2 × 3 × 3 products.
        let conv = with(node("Conv", &["x", "w"], "y"), "strides", &[2, 2]);
        let conv = with(with(conv, "pads", &[1, 1, 1, 1]), "group", &[2]);
        let found = cost(&[2, 4, 8, 8], vec![weight("w", 1, &[6, 2, 3, 3])], vec![conv]);
        let (x, w, y) = (4 * 512, 4 * 108, 4 * 192);
        assert_eq!(known(&found), [2 * 192 * 18, x + w + y, x + w + y]);
    }

    #[test]
    fn the_reverse_of_a_convolution_spreads_a_kernel_for_each_element_of_its_input() {
        // 3 channels of 5 × 5 → 2 channels of 10 × 10.
        let node = with(node("ConvTranspose", &["x", "w"], "y"), "strides", &[2, 2]);
        let found = cost(&[1, 3, 5, 5], vec![weight("w", 1, &[3, 2, 2, 2])], vec![node]);
        assert_eq!(known(&found)[0], 2 * 75 * 8);
        assert_eq!(known(&found)[1], 4 * (75 + 24 + 200));
    }

    #[test]
    fn products_of_matrices_are_counted_with_and_without_a_batch() {
        let matrix = |nodes| known(&cost(&[5, 7, 3], vec![weight("w", 1, &[3, 4])], nodes))[0];
        assert_eq!(matrix(vec![node("MatMul", &["x", "w"], "y")]), 2 * 5 * 7 * 4 * 3);
        let vector = vec![weight("w", 1, &[3])];
        let found = cost(&[5, 7, 3], vector, vec![node("MatMul", &["x", "w"], "y")]);
        assert_eq!(known(&found)[0], 2 * 5 * 7 * 3);
        let gemm = with(node("Gemm", &["x", "w"], "y"), "transB", &[1]);
        let found = cost(&[7, 3], vec![weight("w", 1, &[4, 3])], vec![gemm]);
        assert_eq!(known(&found), [2 * 7 * 4 * 3, 4 * (21 + 12 + 28), 4 * (21 + 12 + 28)]);
        let mut einsum = node("Einsum", &["x", "w"], "y");
        let text = Some(b"bij, jk -> bik".as_slice().into());
        einsum.attributes.push(Attribute { name: "equation".into(), text, ..Attribute::default() });
        let found = cost(&[5, 7, 3], vec![weight("w", 1, &[3, 4])], vec![einsum]);
        assert_eq!(known(&found)[0], 2 * 5 * 7 * 4 * 3);
        assert_eq!(known(&found)[1], 4 * (105 + 12 + 140));
    }

    #[test]
    fn equations_may_have_an_ellipsis_and_no_output() {
        let product = |equation: &str, x: &[u64], w: &[i64]| {
            let mut einsum = node("Einsum", &["x", "w"], "y");
            let text = Some(equation.as_bytes().to_vec().into());
            einsum.attributes.push(Attribute {
                name: "equation".into(),
                text,
                ..Attribute::default()
            });
            let [flops, least, _] = known(&cost(x, vec![weight("w", 1, w)], vec![einsum]));
            let (x, w) = (super::product(x), w.iter().product::<i64>() as u64);
            (flops / 2, least / 4 - x - w)
        };
        assert_eq!(product("...ij,jk->...ik", &[6, 2, 3, 4], &[4, 5]), (6 * 2 * 3 * 4 * 5, 180));
        assert_eq!(product("...ij,...jk->...ik", &[6, 1, 3, 4], &[2, 4, 5]), (720, 6 * 2 * 3 * 5));
        assert_eq!(product("i...j,j->...", &[3, 6, 4], &[4]), (72, 6));
        assert_eq!(product("ij,jk", &[3, 4], &[4, 5]), (60, 15));
        assert_eq!(product("ba,ca", &[3, 4], &[5, 4]), (60, 15));
        let told = |equation: &str, inputs: &[&str]| {
            let mut einsum = node("Einsum", inputs, "y");
            let text = Some(equation.as_bytes().to_vec().into());
            einsum.attributes.push(Attribute {
                name: "equation".into(),
                text,
                ..Attribute::default()
            });
            cost(&[3, 3], vec![], vec![einsum]).flops
        };
        assert_eq!(told("ii->i", &["x"]), Ok(0), "nothing is multiplied");
        let gap = told("ij,jk,kl->il", &["x", "x", "x"]).expect_err("it depends on the order");
        assert_eq!(gap.to_string(), "there is no formula for the cost of `Einsum`");
    }

    #[test]
    fn sparse_tensors_are_named() {
        let values = Some(weight("w", 1, &[2]));
        let sparse = crate::messages::SparseTensor { values, sizes: vec![4, 4], indices: None };
        let graph = Graph {
            nodes: vec![node("MatMul", &["x", "w"], "y")],
            sparse_initializers: vec![sparse],
            inputs: vec![value("x")],
            outputs: vec![value("y")],
            ..Graph::default()
        };
        let found = of(&graph, &[("x".to_owned(), vec![3, 4])].into());
        let told = "`w` is sparse, and costs are counted for tensors with all their elements";
        for part in [found.flops, found.least_bytes, found.unfused_bytes] {
            assert_eq!(part.expect_err("a gap").to_string(), told);
        }
    }

    #[test]
    fn a_pass_moves_no_less_than_its_inputs_and_outputs() {
        let flat = vec![node("Reshape", &["x", "flat"], "y")];
        let found = cost(&[3, 4], vec![content("flat", &[-1])], flat);
        assert_eq!(known(&found), [0, 48 + 8 + 48, 48 + 8 + 48]);
    }

    #[test]
    fn shapes_of_reversed_and_resized_values_do_not_depend_on_values() {
        let shape = |nodes: Vec<Node>, contents: Vec<Tensor>, x: &[u64]| {
            let x_bytes = 4 * super::product(x);
            let [_, least, _] = known(&cost(x, contents, nodes));
            least - x_bytes
        };
        let slice = node("Slice", &["x", "last", "first", "axis", "back"], "y");
        let contents = [("last", -1), ("first", i64::MIN), ("axis", 1), ("back", -2)]
            .map(|(name, value)| content(name, &[value]));
        assert_eq!(shape(vec![slice], contents.into(), &[2, 5]), 4 * 8 + 4 * 2 * 3);
        let mut resize = with(node("Resize", &["x", "", "", "sizes"], "y"), "axes", &[2, 3]);
        resize.attributes[0].integer = None;
        let contents = vec![content("sizes", &[10, 20])];
        assert_eq!(shape(vec![resize], contents, &[1, 3, 4, 4]), 16 + 4 * 3 * 200);
        let aligned = with(
            with(node("RoiAlign", &["x", "rois", "of"], "y"), "output_height", &[7]),
            "output_width",
            &[5],
        );
        let contents = vec![weight("rois", 1, &[6, 4]), weight("of", 7, &[6])];
        assert_eq!(shape(vec![aligned], contents, &[1, 3, 4, 4]), 96 + 48 + 4 * 6 * 3 * 35);
    }

    #[test]
    fn recurrent_layers_use_all_weights_in_each_step() {
        // 6 steps of 2 examples, 3 → 4 in both directions.
        let weights = vec![weight("w", 1, &[2, 16, 3]), weight("r", 1, &[2, 16, 4])];
        let found = cost(&[6, 2, 3], weights, vec![node("LSTM", &["x", "w", "r"], "y")]);
        assert_eq!(known(&found)[0], 2 * 6 * 2 * (2 * 16 * 3 + 2 * 16 * 4));
        assert_eq!(known(&found)[1], 4 * (36 + 96 + 128 + 6 * 2 * 2 * 4));
        let weights = vec![weight("w", 3, &[2, 3, 16]), weight("r", 3, &[2, 4, 16])];
        let mut quantised = node("DynamicQuantizeLSTM", &["x", "w", "r"], "y");
        quantised.domain = "com.microsoft".into();
        let found = cost(&[6, 2, 3], weights, vec![quantised]);
        assert_eq!(known(&found)[0], 2 * 6 * 2 * (2 * 16 * 3 + 2 * 16 * 4));
        assert_eq!(known(&found)[1], 4 * 36 + 96 + 128 + 4 * 6 * 2 * 2 * 4);
    }

    #[test]
    fn a_lookup_reads_the_rows_that_it_returns() {
        let table = || vec![weight("w", 10, &[1000, 8]), content("ids", &[1, 2, 3])];
        let lookup = || node("Gather", &["w", "ids"], "rows");
        let nodes = vec![lookup(), node("Add", &["rows", "x"], "y")];
        let found = cost(&[3, 8], table(), nodes);
        let (ids, rows, x) = (24, 2 * 24, 4 * 24);
        assert_eq!(known(&found), [0, x + ids + rows + rows, ids + 2 * rows + rows + x + rows]);
        // A table that is also a matrix is read as a whole.
        let product = node("MatMul", &["x", "w"], "y");
        let found = cost(&[3, 1000], table(), vec![lookup(), product]);
        assert_eq!(known(&found)[1], 4 * 3000 + ids + 2 * 8000 + 4 * 24);
    }

    #[test]
    fn quantised_weights_are_read_as_they_are_stored() {
        let weights = vec![weight("w", 3, &[3, 4]), weight("s", 1, &[])];
        let nodes = vec![
            node("DequantizeLinear", &["w", "s"], "real"),
            node("MatMul", &["x", "real"], "y"),
        ];
        let found = cost(&[7, 3], weights, nodes);
        assert_eq!(known(&found)[..2], [2 * 7 * 4 * 3, 4 * 21 + 12 + 4 + 4 * 28]);
        let weights = || vec![weight("w", 3, &[3, 4]), weight("s", 1, &[])];
        let quantised = vec![node("QLinearMatMul", &["x", "s", "s", "w", "s", "s", "s", "s"], "y")];
        assert_eq!(known(&cost(&[7, 3], weights(), quantised))[0], 2 * 7 * 4 * 3);
        let whole = vec![node("MatMulInteger", &["x", "w"], "y")];
        assert_eq!(known(&cost(&[7, 3], weights(), whole))[0], 2 * 7 * 4 * 3);
    }

    #[test]
    fn shapes_that_a_graph_computes_are_followed() {
        // x [2, 6] → [2, 3, 2] by its own size, expanded to four times as many rows.
        let nodes = vec![
            node("Shape", &["x"], "shape"),
            node("Gather", &["shape", "zero"], "batch"),
            node("Concat", &["batch", "inner"], "wanted"),
            node("Reshape", &["x", "wanted"], "cube"),
            node("ConstantOfShape", &["three"], "zeros"),
            node("Equal", &["four", "one"], "differs"),
            node("Where", &["differs", "one", "four"], "times"),
            node("Expand", &["cube", "times"], "wide"),
            node("MatMul", &["wide", "w"], "y"),
        ];
        let mut nodes = nodes;
        nodes[2] = with(nodes[2].clone(), "axis", &[0]);
        let contents = vec![
            content("zero", &[0]),
            content("inner", &[3, 2]),
            content("three", &[3]),
            content("one", &[1]),
            content("four", &[4, 1, 1, 1]),
            weight("w", 1, &[2, 5]),
        ];
        assert_eq!(known(&cost(&[2, 6], contents, nodes))[0], 2 * (4 * 2 * 3) * 5 * 2);
    }

    #[test]
    fn what_is_not_known_is_named_and_never_left_out_of_a_sum() {
        let told = |part: &Result<u64, Gap>| part.clone().expect_err("a gap").to_string();
        let product = || node("MatMul", &["x", "w"], "z");
        let weights = || vec![weight("w", 1, &[3, 4])];
        // Without products behind it, an operator whose shape depends on values costs no operations.
        let found = cost(&[7, 3], weights(), vec![product(), node("NonZero", &["z"], "y")]);
        assert_eq!(found.flops, Ok(2 * 7 * 4 * 3));
        assert_eq!(told(&found.least_bytes), "shapes behind `NonZero` depend on values");
        let nodes = vec![node("NonZero", &["x"], "n"), node("MatMul", &["n", "w"], "y")];
        let found = cost(&[7, 3], weights(), nodes);
        assert_eq!(told(&found.flops), "shapes behind `NonZero` depend on values");
        let mut fused = node("Conv", &["z"], "y");
        fused.domain = "com.example".into();
        let found = cost(&[7, 3], weights(), vec![product(), fused, node("Loop", &[], "k")]);
        assert_eq!(
            told(&found.flops),
            "there is no formula for the cost of `Loop` and `com.example.Conv`"
        );
    }
}
