/*!
The operators of ONNX's standard, built from those of libtorch.

[`operation`] reads a node's attributes once, and returns the function that computes it. Versions 13 to 28 of the
standard are read; a version that changed nothing but the element types of an operator needs no code here.
*/

mod elements;
mod layers;
mod reductions;
mod shapes;

use std::borrow::Cow;

use tch::{Device, Kind, Scalar, TchError, Tensor};

use crate::error::{Wrong, wrong};
use crate::onnx::Node;

/// Versions of the standard's operators that are read.
pub(crate) const OPSETS: std::ops::RangeInclusive<i64> = 13..=28;

/// Outputs of a node.
pub(crate) type Outputs = Result<Vec<Tensor>, Wrong>;

/// Computes a node.
pub(crate) type Operation = Box<dyn Fn(&Call<'_>) -> Outputs>;

/// Inputs of a node.
pub(crate) struct Call<'a> {
    /// In order; `None` for one that is left out.
    pub(crate) inputs: &'a [Option<&'a Tensor>],
    /// Elements of inputs that are constants and read as numbers. May be shorter than the inputs.
    pub(crate) known: &'a [Option<Known>],
    /// Whether normalisations use the statistics of the batch.
    pub(crate) training: bool,
    /// Whether running statistics follow those of the batch.
    pub(crate) follows: bool,
}

impl<'a> Call<'a> {
    /// Returns an input that must be there.
    fn at(&self, index: usize) -> Result<&'a Tensor, Wrong> {
        self.maybe(index).ok_or_else(|| wrong!("input {index} is missing"))
    }

    /// Returns an input that may be left out.
    fn maybe(&self, index: usize) -> Option<&'a Tensor> {
        self.inputs.get(index).copied().flatten()
    }

    /// Returns all inputs.
    fn all(&self) -> Result<Vec<&'a Tensor>, Wrong> {
        (0..self.inputs.len()).map(|index| self.at(index)).collect()
    }

    fn known(&self, index: usize) -> Option<&'a Known> {
        self.known.get(index)?.as_ref()
    }

    /// Returns whole numbers from an input in the host's memory, if it is there.
    fn integers(&self, index: usize) -> Result<Option<Cow<'a, [i64]>>, Wrong> {
        match self.known(index) {
            Some(Known::Integers(values)) => Ok(Some(Cow::Borrowed(values))),
            _ => Ok(self.maybe(index).map(integers).transpose()?.map(Cow::Owned)),
        }
    }

    /// Returns numbers from an input in the host's memory, if it is there and has elements.
    fn floats(&self, index: usize) -> Result<Option<Vec<f64>>, Wrong> {
        let Some(tensor) = self.maybe(index).filter(|tensor| tensor.numel() > 0) else {
            return Ok(None);
        };
        let flat = tensor.f_to_kind(Kind::Double)?.f_reshape([-1])?.f_to(Device::Cpu)?;
        Ok(Some(Vec::try_from(flat)?))
    }

    /// Returns whole numbers from an input in the host's memory that must be there.
    fn whole(&self, index: usize) -> Result<Cow<'a, [i64]>, Wrong> {
        self.integers(index)?.ok_or_else(|| wrong!("input {index} is missing"))
    }

    /// Returns whether an input can be read without waiting for a device.
    fn is_readable(&self, index: usize) -> bool {
        self.known(index).is_some()
            || self.maybe(index).is_none_or(|tensor| tensor.device() == Device::Cpu)
    }

    /// Returns the only element of an input, in its own kind of numbers, if it is there.
    fn scalar(&self, index: usize) -> Result<Option<Scalar>, Wrong> {
        match self.known(index) {
            Some(Known::Integers(values)) if values.len() == 1 => Ok(Some(values[0].into())),
            Some(Known::Floats(values)) if values.len() == 1 => Ok(Some(values[0].into())),
            _ => self.maybe(index).map(scalar).transpose(),
        }
    }
}

/// Elements of a constant, read when the model is loaded. Reading them takes libtorch several calls, so in a run it costs
/// as much as a small operator.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Known {
    Integers(Vec<i64>),
    Floats(Vec<f64>),
}

/// Most elements that are kept so: more are no shape.
const MOST_KNOWN: usize = 4096;

impl Known {
    /// Reads a constant; `None` if it has too many elements, or others than numbers.
    pub(crate) fn of(constant: &Tensor) -> Result<Option<Self>, Wrong> {
        if constant.numel() > MOST_KNOWN {
            return Ok(None);
        }
        Ok(Some(match constant.f_kind()? {
            kind if is_float(kind) => {
                let flat = constant.f_to_kind(Kind::Double)?.f_reshape([-1])?;
                Self::Floats(Vec::try_from(flat.f_to(Device::Cpu)?)?)
            }
            _ => Self::Integers(integers(constant)?),
        }))
    }
}

/// Returns the elements of a tensor of whole numbers.
pub(crate) fn integers(tensor: &Tensor) -> Result<Vec<i64>, Wrong> {
    let tensor = tensor.f_to_kind(Kind::Int64)?.f_reshape([-1])?.f_to(Device::Cpu)?;
    let mut values = vec![0_i64; tensor.numel()];
    tensor.f_contiguous()?.f_copy_data(&mut values, tensor.numel())?;
    Ok(values)
}

/// Returns the only element of a tensor, in its own kind of numbers.
fn scalar(tensor: &Tensor) -> Result<Scalar, Wrong> {
    let flat = tensor.f_reshape([-1])?;
    Ok(match is_float(tensor.kind()) {
        true => flat.f_double_value(&[0])?.into(),
        false => flat.f_int64_value(&[0])?.into(),
    })
}

fn is_float(kind: Kind) -> bool {
    matches!(kind, Kind::Float | Kind::Double | Kind::Half | Kind::BFloat16)
}

/// Returns an axis counted from the front.
fn axis_of(axis: i64, rank: usize) -> Result<i64, Wrong> {
    let rank = rank as i64;
    let counted = if axis < 0 { axis + rank } else { axis };
    match (0..rank.max(1)).contains(&counted) {
        true => Ok(counted),
        false => Err(wrong!("there is no axis {axis} of {rank}")),
    }
}

fn one(tensor: Result<Tensor, TchError>) -> Outputs {
    Ok(vec![tensor?])
}

fn unary(function: impl Fn(&Tensor) -> Result<Tensor, TchError> + 'static) -> Operation {
    Box::new(move |call| one(function(call.at(0)?)))
}

fn binary(function: fn(&Tensor, &Tensor) -> Result<Tensor, TchError>) -> Operation {
    Box::new(move |call| one(function(call.at(0)?, call.at(1)?)))
}

/// Positions of inputs whose values decide shapes. They stay in the host's memory.
pub(crate) fn host_inputs(operator: &str) -> &'static [usize] {
    match operator {
        "Reshape" | "Expand" | "Tile" | "Split" | "Squeeze" | "Unsqueeze" | "OneHot" | "TopK"
        | "Trilu" | "CumSum" => &[1],
        "ConstantOfShape" => &[0],
        "Range" => &[0, 1, 2],
        "Slice" => &[1, 2, 3, 4],
        "Pad" | "Resize" => &[1, 2, 3],
        _ if operator.starts_with("Reduce") => &[1],
        _ => &[],
    }
}

/// Positions of inputs that are read as numbers: those that decide shapes, and others that are often constants.
pub(crate) fn read_inputs(operator: &str) -> &'static [usize] {
    match operator {
        "Pow" => &[1],
        "Clip" => &[1, 2],
        _ => host_inputs(operator),
    }
}

/// Returns the function of a node; `None` for an operator, or a use of it, that is not imported.
///
/// # Errors
///
/// If the node's attributes contradict each other.
pub(crate) fn operation(node: &Node) -> Result<Option<Operation>, Wrong> {
    for family in [elements::operation, layers::operation, reductions::operation, shapes::operation]
    {
        if let Some(operation) = family(node)? {
            return Ok(Some(operation));
        }
    }
    Ok(None)
}

/// Returns whether a node uses an output.
fn uses(node: &Node, output: usize) -> bool {
    node.outputs.get(output).is_some_and(|name| !name.is_empty())
}
