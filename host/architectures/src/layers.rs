//! Layers that several families share, as `torch.nn` defines them.

use crate::fill::Fill;
use crate::graph::{Graph, TRANSPOSED, Value, cast_to, float, integer, integers};

/// A score that no softmax gives weight to, in any of the formats.
const NEVER: f32 = -10_000.0;

/// Gain for weights behind a rectifier or one of its relatives, which lets about a third to a half of the
/// variance through.
pub(crate) const BEHIND_RECTIFIER: f32 = 1.6;

/// Scale of what a residual branch adds, so that a sum of many stays small.
pub(crate) const BRANCH: f32 = 0.25;

/// Shape of a convolution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Convolution {
    pub(crate) inputs: u64,
    pub(crate) outputs: u64,
    pub(crate) kernel: u64,
    pub(crate) stride: u64,
    pub(crate) groups: u64,
    pub(crate) padding: u64,
    pub(crate) bias: bool,
    /// Axes that the kernel moves along.
    pub(crate) axes: usize,
    pub(crate) gain: f32,
}

impl Convolution {
    /// A convolution of images with as much padding as keeps their size, without a bias.
    pub(crate) fn of_images(inputs: u64, outputs: u64, kernel: u64) -> Self {
        Self {
            inputs,
            outputs,
            kernel,
            stride: 1,
            groups: 1,
            padding: (kernel - 1) / 2,
            bias: false,
            axes: 2,
            gain: BEHIND_RECTIFIER,
        }
    }
}

impl Graph {
    pub(crate) fn convolve(&mut self, x: &Value, name: &str, shape: Convolution) -> Value {
        let Convolution { inputs, outputs, kernel, stride, groups, padding, bias, axes, gain } =
            shape;
        let kernels = vec![kernel; axes];
        let sizes = [&[outputs, inputs / groups][..], &kernels[..]].concat();
        let fill = Fill::fan_in(gain, sizes[1..].iter().product());
        let weight = self.parameter(&format!("{name}.weight"), &sizes, fill);
        let each = |value: u64, times: usize| vec![value as i64; times];
        let attributes = vec![
            integers("kernel_shape", &each(kernel, axes)),
            integers("strides", &each(stride, axes)),
            integers("pads", &each(padding, 2 * axes)),
            integer("group", groups as i64),
        ];
        if bias {
            let bias = self.bias(name, outputs);
            self.node("Conv", &[x, &weight, &bias], attributes)
        } else {
            self.node("Conv", &[x, &weight], attributes)
        }
    }

    fn bias(&mut self, name: &str, width: u64) -> Value {
        self.parameter(&format!("{name}.bias"), &[width], Fill::near(0.0, 0.05))
    }

    /// `BatchNorm2d` with its running statistics. If `is_frozen`, its scale and bias are not parameters.
    pub(crate) fn batch_norm(
        &mut self,
        x: &Value,
        name: &str,
        width: u64,
        (epsilon, scale, is_frozen): (f32, f32, bool),
    ) -> Value {
        let of = |graph: &mut Self, part: &str, fill, is_parameter: bool| {
            let name = format!("{name}.{part}");
            match is_parameter {
                true => graph.parameter(&name, &[width], fill),
                false => graph.table(&name, &[width], fill),
            }
        };
        let weight = of(self, "weight", Fill::near(scale, scale / 10.0), !is_frozen);
        let bias = of(self, "bias", Fill::near(0.0, 0.05), !is_frozen);
        let mean = of(self, "running_mean", Fill::near(0.0, 0.05), false);
        let variance = of(self, "running_var", Fill::near(1.0, 0.1), false);
        let attributes = vec![float("epsilon", epsilon)];
        self.node("BatchNormalization", &[x, &weight, &bias, &mean, &variance], attributes)
    }

    pub(crate) fn relu(&mut self, x: &Value) -> Value {
        self.node("Relu", &[x], vec![])
    }

    pub(crate) fn silu(&mut self, x: &Value) -> Value {
        let gate = self.node("Sigmoid", &[x], vec![]);
        self.node("Mul", &[x, &gate], vec![])
    }

    /// GELU by the error function.
    pub(crate) fn gelu(&mut self, x: &Value) -> Value {
        let root = self.number(2.0_f32.sqrt());
        let scaled = self.node("Div", &[x, &root], vec![]);
        let error = self.node("Erf", &[&scaled], vec![]);
        let one = self.number(1.0);
        let sum = self.node("Add", &[&error, &one], vec![]);
        let product = self.node("Mul", &[x, &sum], vec![]);
        let half = self.number(0.5);
        self.node("Mul", &[&product, &half], vec![])
    }

    /// GELU by the hyperbolic tangent, as GPT-2 has it.
    pub(crate) fn gelu_by_tanh(&mut self, x: &Value) -> Value {
        let square = self.node("Mul", &[x, x], vec![]);
        let cube = self.node("Mul", &[&square, x], vec![]);
        let factor = self.number(0.044_715);
        let cube = self.node("Mul", &[&cube, &factor], vec![]);
        let sum = self.node("Add", &[x, &cube], vec![]);
        let factor = self.number((2.0 / std::f32::consts::PI).sqrt());
        let scaled = self.node("Mul", &[&sum, &factor], vec![]);
        let tangent = self.node("Tanh", &[&scaled], vec![]);
        let one = self.number(1.0);
        let sum = self.node("Add", &[&tangent, &one], vec![]);
        let product = self.node("Mul", &[x, &sum], vec![]);
        let half = self.number(0.5);
        self.node("Mul", &[&product, &half], vec![])
    }

    /// Adds two values.
    pub(crate) fn add(&mut self, x: &Value, y: &Value) -> Value {
        self.node("Add", &[x, y], vec![])
    }

    /// Multiplies by a number.
    pub(crate) fn scale(&mut self, x: &Value, factor: f32) -> Value {
        let factor = self.number(factor);
        self.node("Mul", &[x, &factor], vec![])
    }

    /// `nn.Linear` of a matrix of examples by features, as `Gemm`.
    pub(crate) fn linear_of_rows(
        &mut self,
        x: &Value,
        name: &str,
        inputs: u64,
        outputs: u64,
    ) -> Value {
        let fill = Fill::fan_in(1.0, inputs);
        let weight = self.parameter(&format!("{name}.weight"), &[outputs, inputs], fill);
        let bias = self.bias(name, outputs);
        self.node("Gemm", &[x, &weight, &bias], vec![integer("transB", 1)])
    }

    /// `nn.Linear` without a bias, over the last axis.
    pub(crate) fn project(
        &mut self,
        x: &Value,
        name: &str,
        inputs: u64,
        outputs: u64,
        gain: f32,
    ) -> Value {
        let name = format!("{name}.weight{TRANSPOSED}");
        let weight = self.parameter(&name, &[inputs, outputs], Fill::fan_in(gain, inputs));
        self.node("MatMul", &[x, &weight], vec![])
    }

    /// `nn.Linear` over the last axis.
    pub(crate) fn linear(&mut self, x: &Value, name: &str, inputs: u64, outputs: u64) -> Value {
        let product = self.project(x, name, inputs, outputs, 1.0);
        let bias = self.bias(name, outputs);
        self.add(&product, &bias)
    }

    /// The product with a matrix that is stored as a table of embeddings.
    pub(crate) fn by_table(&mut self, x: &Value, table: &Value) -> Value {
        let turned = self.node("Transpose", &[table], vec![integers("perm", &[1, 0])]);
        self.node("MatMul", &[x, &turned], vec![])
    }

    pub(crate) fn layer_norm(&mut self, x: &Value, name: &str, width: u64, epsilon: f32) -> Value {
        let weight = self.parameter(&format!("{name}.weight"), &[width], Fill::near(1.0, 0.1));
        let bias = self.bias(name, width);
        let attributes = vec![integer("axis", -1), float("epsilon", epsilon)];
        self.node("LayerNormalization", &[x, &weight, &bias], attributes)
    }

    /// Normalisation by the root of the mean square (Zhang and Sennrich 2019).
    pub(crate) fn rms_norm(&mut self, x: &Value, name: &str, width: u64, epsilon: f32) -> Value {
        let weight = self.parameter(name, &[width], Fill::near(1.0, 0.1));
        let square = self.node("Mul", &[x, x], vec![]);
        let last = self.integers(&[-1]);
        let mean = self.node("ReduceMean", &[&square, &last], vec![integer("keepdims", 1)]);
        let epsilon = self.number(epsilon);
        let mean = self.add(&mean, &epsilon);
        let root = self.node("Sqrt", &[&mean], vec![]);
        let normal = self.node("Div", &[x, &root], vec![]);
        self.node("Mul", &[&normal, &weight], vec![])
    }

    /// Returns rows of a table.
    pub(crate) fn look_up(&mut self, table: &Value, rows: &Value) -> Value {
        self.node("Gather", &[table, rows], vec![integer("axis", 0)])
    }

    /// Returns the size of an axis, as a list of one number.
    pub(crate) fn size(&mut self, x: &Value, axis: i64) -> Value {
        let shape = self.node("Shape", &[x], vec![]);
        let axis = self.integers(&[axis]);
        self.node("Gather", &[&shape, &axis], vec![integer("axis", 0)])
    }

    /// Returns the first rows of a table, as many as `size` says.
    pub(crate) fn first_rows(&mut self, table: &Value, size: &Value) -> Value {
        let zero = self.integers(&[0]);
        self.node("Slice", &[table, &zero, size, &zero], vec![])
    }

    /// Returns the whole numbers from 0 to below `size`, a list of one number.
    pub(crate) fn positions(&mut self, size: &Value) -> Value {
        let zero = self.integers(&[0]);
        let size = self.node("Squeeze", &[size, &zero], vec![]);
        let (zero, one) = (self.integer(0), self.integer(1));
        self.node("Range", &[&zero, &size, &one], vec![])
    }

    pub(crate) fn unsqueeze(&mut self, x: &Value, axes: &[i64]) -> Value {
        let axes = self.integers(axes);
        self.node("Unsqueeze", &[x, &axes], vec![])
    }

    pub(crate) fn reshape(&mut self, x: &Value, sizes: &[i64]) -> Value {
        let sizes = self.integers(sizes);
        self.node("Reshape", &[x, &sizes], vec![])
    }

    pub(crate) fn transpose(&mut self, x: &Value, axes: &[i64]) -> Value {
        self.node("Transpose", &[x], vec![integers("perm", axes)])
    }

    /// Returns what is added to scores so that no position sees a later one: rows by columns.
    pub(crate) fn causal_bias(&mut self, size: &Value) -> Value {
        let positions = self.positions(size);
        let rows = self.unsqueeze(&positions, &[1]);
        let columns = self.unsqueeze(&positions, &[0]);
        let later = self.node("Greater", &[&columns, &rows], vec![]);
        let (never, zero) = (self.number(NEVER), self.number(0.0));
        self.node("Where", &[&later, &never, &zero], vec![])
    }

    /// Returns what is added to scores so that masked positions, which are 0 in `mask`, are not seen.
    pub(crate) fn mask_bias(&mut self, mask: &Value) -> Value {
        let mask = self.unsqueeze(mask, &[1, 2]);
        let mask = self.node("Cast", &[&mask], cast_to(self.element.code()));
        let one = self.number(1.0);
        let hidden = self.node("Sub", &[&one, &mask], vec![]);
        self.scale(&hidden, NEVER)
    }

    /// Splits the last axis into heads: `[batch, heads, positions, width]`.
    pub(crate) fn split_heads(&mut self, x: &Value, heads: u64, width: u64) -> Value {
        let split = self.reshape(x, &[0, 0, heads as i64, width as i64]);
        self.transpose(&split, &[0, 2, 1, 3])
    }

    /// Scaled dot-product attention of projected queries, keys and values, each
    /// `[batch, positions, heads × width]`.
    pub(crate) fn attend(
        &mut self,
        [q, k, v]: [&Value; 3],
        (heads, width): (u64, u64),
        scale: Option<f32>,
        bias: Option<&Value>,
    ) -> Value {
        let q = match scale {
            Some(scale) => self.scale(q, scale),
            None => q.clone(),
        };
        let q = self.split_heads(&q, heads, width);
        let k = self.reshape(k, &[0, 0, heads as i64, width as i64]);
        let k = self.transpose(&k, &[0, 2, 3, 1]);
        let v = self.split_heads(v, heads, width);
        let mut scores = self.node("MatMul", &[&q, &k], vec![]);
        if let Some(bias) = bias {
            scores = self.add(&scores, bias);
        }
        let shares = self.node("Softmax", &[&scores], vec![integer("axis", -1)]);
        let mixed = self.node("MatMul", &[&shares, &v], vec![]);
        let mixed = self.transpose(&mixed, &[0, 2, 1, 3]);
        self.reshape(&mixed, &[0, 0, (heads * width) as i64])
    }

    /// Returns a table of one example for every example of the batch of `like`.
    pub(crate) fn for_each_example(&mut self, one: &Value, like: &Value, sizes: &[i64]) -> Value {
        let batch = self.size(like, 0);
        let sizes = self.integers(sizes);
        let shape = self.node("Concat", &[&batch, &sizes], vec![integer("axis", 0)]);
        self.node("Expand", &[one, &shape], vec![])
    }
}
