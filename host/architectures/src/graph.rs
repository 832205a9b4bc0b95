//! A graph under construction: nodes, weights, constants, inputs and outputs.

use crate::fill::{Element, Fill, INT8, Stored};
use host_onnx::messages as onnx;

/// A value of the graph, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Value(pub(crate) String);

/// An axis of an input or output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Examples of the batch.
    Batch,
    /// Positions of the sequence.
    Sequence,
    /// A fixed number.
    Fixed(u64),
}

/// Values that an input may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Legal {
    /// Any numbers; they are drawn from 0 to 1.
    Numbers,
    /// Whole numbers below this one, which is the length of a table.
    Below(u64),
    /// Ones: nothing is masked.
    Ones,
}

/// An input of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its axes.
    pub axes: Vec<Axis>,
    /// Its values.
    pub legal: Legal,
}

/// Weights, which lie in a file beside the graph's.
#[derive(Debug)]
pub(crate) struct Weight {
    /// Its name in the library of reference; with [`TRANSPOSED`] at the end, it is the transpose of that.
    pub(crate) name: String,
    pub(crate) sizes: Vec<u64>,
    pub(crate) fill: Fill,
    pub(crate) stored: Stored,
    /// Whether it is among the parameters of the model. Running statistics and tables are not.
    pub(crate) is_parameter: bool,
}

impl Weight {
    pub(crate) fn count(&self) -> u64 {
        self.sizes.iter().product()
    }
}

/// End of the name of a matrix that is stored with its axes exchanged, as `MatMul` takes it.
pub(crate) const TRANSPOSED: &str = ".T";

/// Number of 64-bit integers in ONNX (`TensorProto.DataType`).
const INT64: i32 = 7;

/// A graph under construction.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) element: Element,
    pub(crate) nodes: Vec<onnx::Node>,
    pub(crate) constants: Vec<onnx::Tensor>,
    pub(crate) weights: Vec<Weight>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<(Value, Vec<Axis>)>,
    /// The longest sequence that there are positions for.
    pub(crate) longest: Option<u64>,
}

impl Graph {
    pub(crate) fn new(element: Element) -> Self {
        Self {
            element,
            nodes: Vec::new(),
            constants: Vec::new(),
            weights: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            longest: None,
        }
    }

    pub(crate) fn input(&mut self, name: &str, axes: &[Axis], legal: Legal) -> Value {
        self.inputs.push(Input { name: name.to_owned(), axes: axes.to_vec(), legal });
        Value(name.to_owned())
    }

    /// Makes a value an output, under a name of its own.
    pub(crate) fn output(&mut self, name: &str, value: &Value, axes: &[Axis]) {
        for node in &mut self.nodes {
            for used in node.inputs.iter_mut().chain(&mut node.outputs) {
                if *used == value.0 {
                    name.clone_into(used);
                }
            }
        }
        self.outputs.push((Value(name.to_owned()), axes.to_vec()));
    }

    /// Adds a parameter.
    pub(crate) fn parameter(&mut self, name: &str, sizes: &[u64], fill: Fill) -> Value {
        self.weight(name, sizes, fill, true)
    }

    /// Adds numbers that are not among the parameters.
    pub(crate) fn table(&mut self, name: &str, sizes: &[u64], fill: Fill) -> Value {
        self.weight(name, sizes, fill, false)
    }

    fn weight(&mut self, name: &str, sizes: &[u64], fill: Fill, is_parameter: bool) -> Value {
        debug_assert!(self.weights.iter().all(|weight| weight.name != name), "{name} twice");
        self.weights.push(Weight {
            name: name.to_owned(),
            sizes: sizes.to_vec(),
            fill,
            stored: Stored::As(self.element),
            is_parameter,
        });
        Value(name.to_owned())
    }

    /// Adds a node with one output.
    pub(crate) fn node(
        &mut self,
        operator: &str,
        inputs: &[&Value],
        attributes: Vec<onnx::Attribute>,
    ) -> Value {
        let [output] = self.node_with(operator, inputs, attributes);
        output
    }

    /// Adds a node with several outputs.
    pub(crate) fn node_with<const OUTPUTS: usize>(
        &mut self,
        operator: &str,
        inputs: &[&Value],
        attributes: Vec<onnx::Attribute>,
    ) -> [Value; OUTPUTS] {
        let name = format!("{operator}_{}", self.nodes.len());
        let outputs = std::array::from_fn(|index| match OUTPUTS {
            1 => Value(name.clone()),
            _ => Value(format!("{name}_{index}")),
        });
        self.nodes.push(onnx::Node {
            inputs: inputs.iter().map(|value| value.0.clone()).collect(),
            outputs: outputs.iter().map(|value| value.0.clone()).collect(),
            name,
            operator: operator.to_owned(),
            attributes,
            ..onnx::Node::default()
        });
        outputs
    }

    /// Returns a list of whole numbers.
    pub(crate) fn integers(&mut self, values: &[i64]) -> Value {
        let raw = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(vec![values.len() as i64], INT64, raw)
    }

    /// Returns a whole number without axes.
    pub(crate) fn integer(&mut self, value: i64) -> Value {
        self.constant(Vec::new(), INT64, value.to_le_bytes().to_vec())
    }

    /// Returns a number without axes, in the format of the weights.
    pub(crate) fn number(&mut self, value: f32) -> Value {
        self.number_as(value, self.element)
    }

    /// Returns a number without axes.
    pub(crate) fn number_as(&mut self, value: f32, element: Element) -> Value {
        let mut raw = Vec::new();
        element.append(value, &mut raw);
        self.constant(Vec::new(), element.code(), raw)
    }

    /// Returns the zero of 8-bit integers.
    pub(crate) fn zero_of_int8(&mut self) -> Value {
        self.constant(Vec::new(), INT8, vec![0])
    }

    fn constant(&mut self, sizes: Vec<i64>, element: i32, raw: Vec<u8>) -> Value {
        let raw = onnx::Bytes::from(raw);
        let same = |tensor: &&onnx::Tensor| {
            tensor.sizes == sizes && tensor.element == element && tensor.raw.as_ref() == Some(&raw)
        };
        if let Some(tensor) = self.constants.iter().find(same) {
            return Value(tensor.name.clone());
        }
        let name = format!("constant_{}", self.constants.len());
        self.constants.push(onnx::Tensor {
            sizes,
            element,
            name: name.clone(),
            raw: Some(raw),
            ..onnx::Tensor::default()
        });
        Value(name)
    }
}

/// Returns an attribute that is a whole number.
pub(crate) fn integer(name: &str, value: i64) -> onnx::Attribute {
    let name = name.to_owned();
    onnx::Attribute { name, integer: Some(value), kind: 2, ..onnx::Attribute::default() }
}

/// Returns an attribute that is a list of whole numbers.
pub(crate) fn integers(name: &str, values: &[i64]) -> onnx::Attribute {
    let name = name.to_owned();
    onnx::Attribute { name, integers: values.to_vec(), kind: 7, ..onnx::Attribute::default() }
}

/// Returns an attribute that is a number.
pub(crate) fn float(name: &str, value: f32) -> onnx::Attribute {
    let name = name.to_owned();
    onnx::Attribute { name, float: Some(value), kind: 1, ..onnx::Attribute::default() }
}

/// Returns the attribute `to` of `Cast`.
pub(crate) fn cast_to(code: i32) -> Vec<onnx::Attribute> {
    vec![integer("to", i64::from(code))]
}

/// Returns the attribute `to` of `Cast` to whole numbers.
pub(crate) fn cast_to_integers() -> Vec<onnx::Attribute> {
    cast_to(INT64)
}

/// Returns the message of an input or output.
pub(crate) fn value_info(name: &str, element: i32, axes: &[Axis]) -> onnx::ValueInfo {
    let dimensions = axes.iter().map(|axis| {
        let named = |name: &str| onnx::Dimension { size: None, name: Some(name.to_owned()) };
        match axis {
            Axis::Batch => named("batch"),
            Axis::Sequence => named("sequence"),
            Axis::Fixed(size) => onnx::Dimension { size: Some(*size as i64), name: None },
        }
    });
    let shape = Some(onnx::Shape { dimensions: dimensions.collect() });
    let tensor = Some(onnx::TensorType { element, shape });
    onnx::ValueInfo {
        name: name.to_owned(),
        kind: Some(onnx::Type { tensor, ..onnx::Type::default() }),
    }
}

/// Returns the number of an input's element type in ONNX.
pub(crate) fn element_of(input: &Input, element: Element) -> i32 {
    match input.legal {
        Legal::Numbers => element.code(),
        Legal::Below(_) | Legal::Ones => INT64,
    }
}
