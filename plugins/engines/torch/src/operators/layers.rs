//! Convolutions, pools, normalisations and products of matrices.

use tch::{Kind, TchError, Tensor};

use super::{Call, Operation, axis_of, binary, one, unary, uses};
use crate::error::{Wrong, wrong};
use crate::fusion;
use crate::onnx::{Attributes, Node};

pub(super) fn operation(node: &Node) -> Result<Option<Operation>, Wrong> {
    let attributes = &node.attributes;
    let epsilon = attributes.float("epsilon").unwrap_or(1e-5);
    Ok(Some(match node.operator.as_str() {
        "Conv" => convolution(attributes)?,
        "ConvTranspose" => transposed_convolution(attributes)?,
        "MaxPool" if !uses(node, 1) => pool(attributes, Pool::Max)?,
        "AveragePool" => pool(attributes, Pool::Average)?,
        "GlobalAveragePool" => over_places(|x, axes| x.f_mean_dim(axes, true, None)),
        "GlobalMaxPool" => over_places(|x, axes| x.f_amax(axes, true)),
        "BatchNormalization" if !attributes.flag("training_mode") => {
            let momentum = 1.0 - attributes.float("momentum").unwrap_or(0.9);
            Box::new(move |call| {
                let inputs: [Option<&Tensor>; 4] =
                    std::array::from_fn(|index| call.maybe(index + 1));
                let [weight, bias, mean, variance] = inputs;
                let x = call.at(0)?;
                let training = call.training;
                let momentum = if call.follows { momentum } else { 0.0 };
                one(x.f_batch_norm(weight, bias, mean, variance, training, momentum, epsilon, true))
            })
        }
        "InstanceNormalization" => Box::new(move |call| {
            let (weight, bias) = (Some(call.at(1)?), Some(call.at(2)?));
            let none: Option<&Tensor> = None;
            one(call.at(0)?.f_instance_norm(weight, bias, none, none, true, 0.0, epsilon, true))
        }),
        "GroupNormalization" => {
            let groups = attributes.integer("num_groups");
            let groups = groups.ok_or_else(|| wrong!("the attribute `num_groups` is missing"))?;
            Box::new(move |call| {
                let x = call.at(0)?;
                let channels = x.size().get(1).copied().unwrap_or(0);
                // Before version 21 there is one scale for each group.
                let each = |tensor: &Tensor| {
                    let scales = tensor.numel() as i64;
                    match scales == channels || scales == 0 {
                        true => Ok(tensor.shallow_clone()),
                        false => tensor.f_repeat_interleave_self_int(channels / scales, 0, None),
                    }
                };
                let (weight, bias) = (each(call.at(1)?)?, each(call.at(2)?)?);
                one(x.f_group_norm(groups, Some(&weight), Some(&bias), epsilon, true))
            })
        }
        "LayerNormalization" => {
            let axis = attributes.integer("axis").unwrap_or(-1);
            let statistics = uses(node, 1) || uses(node, 2);
            Box::new(move |call| {
                let x = call.at(0)?;
                let shape = &x.size()[axis_of(axis, x.dim())? as usize..];
                let fit = |tensor: &Tensor| match tensor.size() == shape {
                    true => Ok(tensor.shallow_clone()),
                    false => tensor.f_expand(shape, false),
                };
                let weight = fit(call.at(1)?)?;
                let bias = call.maybe(2).map(fit).transpose()?;
                if !statistics {
                    return one(x.f_layer_norm(shape, Some(&weight), bias.as_ref(), epsilon, true));
                }
                let (y, mean, deviation) =
                    x.f_native_layer_norm(shape, Some(&weight), bias.as_ref(), epsilon)?;
                Ok(vec![y, mean, deviation])
            })
        }
        "RMSNormalization" => {
            let axis = attributes.integer("axis").unwrap_or(-1);
            Box::new(move |call| {
                let x = call.at(0)?;
                let shape = &x.size()[axis_of(axis, x.dim())? as usize..];
                let none: Option<&Tensor> = None;
                one(x.f_rms_norm(shape, none, epsilon)?.f_mul(call.at(1)?))
            })
        }
        "LpNormalization" => {
            let axis = attributes.integer("axis").unwrap_or(-1);
            let power = attributes.integer("p").unwrap_or(2) as f64;
            Box::new(move |call| {
                let x = call.at(0)?;
                let norm = x.f_norm_scalaropt_dim(power, [axis], true)?;
                // A vector of zeros stays one.
                one(x.f_div(&norm.f_where_self(&norm.f_ne(0.0)?, &norm.f_ones_like()?)?))
            })
        }
        "MatMul" => binary(Tensor::f_matmul),
        fusion::LINEAR => {
            Box::new(|call| one(call.at(0)?.f_linear(&call.at(1)?.f_tr()?, call.maybe(2))))
        }
        fusion::TURNED_LINEAR => {
            Box::new(|call| one(call.at(0)?.f_linear(call.at(1)?, call.maybe(2))))
        }
        fusion::GELU => unary(|x| x.f_gelu("none")),
        fusion::ATTENTION => {
            let scale = attributes.float("scale");
            Box::new(move |call| {
                let (query, turned, value) = (call.at(0)?, call.at(1)?, call.at(2)?);
                let bias = call.maybe(3);
                let ranks = [query.dim(), turned.dim(), value.dim()];
                if ranks[0] < 3 || ranks != [ranks[0]; 3] {
                    // Libtorch's function wants the same axes of all three.
                    let scores = query.f_matmul(turned)?.f_mul_scalar(scale.unwrap_or(1.0))?;
                    let scores =
                        bias.map_or(Ok(scores.shallow_clone()), |bias| scores.f_add(bias))?;
                    return one(scores.f_softmax(-1, None::<Kind>)?.f_matmul(value));
                }
                let key = turned.f_transpose(-2, -1)?;
                let attend = Tensor::f_scaled_dot_product_attention;
                one(attend(query, &key, value, bias, 0.0, false, scale, false))
            })
        }
        "Gemm" => product(attributes),
        "Einsum" => {
            let equation = attributes.text("equation");
            let equation =
                equation.ok_or_else(|| wrong!("the attribute `equation` is missing"))?.to_owned();
            Box::new(move |call| one(Tensor::f_einsum(&equation, &call.all()?, None::<&[i64]>)))
        }
        _ => return Ok(None),
    }))
}

/// Reduces all axes after those of examples and channels.
fn over_places(function: fn(&Tensor, &[i64]) -> Result<Tensor, TchError>) -> Operation {
    Box::new(move |call| {
        let x = call.at(0)?;
        let axes: Vec<i64> = (2..x.dim() as i64).collect();
        one(function(x, &axes))
    })
}

fn product(attributes: &Attributes) -> Operation {
    let number = |name| attributes.float(name).unwrap_or(1.0);
    let (alpha, beta) = (number("alpha"), number("beta"));
    let (first, second) = (attributes.flag("transA"), attributes.flag("transB"));
    let plain = alpha == 1.0 && beta == 1.0 && !first && second;
    Box::new(move |call| {
        let (a, b, c) = (call.at(0)?, call.at(1)?, call.maybe(2));
        if plain && c.is_none_or(|c| c.dim() == 1 && c.size()[0] == b.size()[0]) {
            return one(a.f_linear(b, c));
        }
        let a = if first { a.f_transpose(0, 1)? } else { a.shallow_clone() };
        let b = if second { b.f_transpose(0, 1)? } else { b.shallow_clone() };
        let mut y = a.f_matmul(&b)?;
        if alpha != 1.0 {
            y = y.f_mul_scalar(alpha)?;
        }
        match c {
            Some(c) if beta == 1.0 => y = y.f_add(c)?,
            Some(c) => y = y.f_add(&c.f_mul_scalar(beta)?)?,
            None => {}
        }
        Ok(vec![y])
    })
}

/// A window that moves over the places of an image.
#[derive(Debug, Clone)]
struct Window {
    strides: Option<Vec<i64>>,
    dilations: Option<Vec<i64>>,
    /// Beginnings of all axes, then ends.
    pads: Option<Vec<i64>>,
    automatic: Automatic,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Automatic {
    No,
    /// As many places as the input has, divided by the stride; an odd one is added at the end.
    SameUpper,
    /// The same, but an odd one is added at the beginning.
    SameLower,
    Valid,
}

impl Window {
    fn of(attributes: &Attributes) -> Result<Self, Wrong> {
        let automatic = match attributes.text("auto_pad") {
            None | Some("NOTSET") => Automatic::No,
            Some("SAME_UPPER") => Automatic::SameUpper,
            Some("SAME_LOWER") => Automatic::SameLower,
            Some("VALID") => Automatic::Valid,
            Some(other) => return Err(wrong!("the attribute `auto_pad` is `{other}`")),
        };
        Ok(Self {
            strides: attributes.integers("strides"),
            dilations: attributes.integers("dilations"),
            pads: attributes.integers("pads"),
            automatic,
        })
    }

    fn strides(&self, axes: usize) -> Vec<i64> {
        self.strides.clone().unwrap_or_else(|| vec![1; axes])
    }

    fn dilations(&self, axes: usize) -> Vec<i64> {
        self.dilations.clone().unwrap_or_else(|| vec![1; axes])
    }

    /// Returns the places to add at the beginning and the end of each axis.
    fn pads(&self, places: &[i64], kernel: &[i64]) -> Result<Vec<(i64, i64)>, Wrong> {
        let axes = places.len();
        match self.automatic {
            Automatic::Valid => Ok(vec![(0, 0); axes]),
            Automatic::No => match &self.pads {
                None => Ok(vec![(0, 0); axes]),
                Some(pads) if pads.len() == 2 * axes => {
                    Ok((0..axes).map(|axis| (pads[axis], pads[axis + axes])).collect())
                }
                Some(pads) => Err(wrong!("there are {} pads for {axes} axes", pads.len())),
            },
            Automatic::SameUpper | Automatic::SameLower => {
                let (strides, dilations) = (self.strides(axes), self.dilations(axes));
                Ok((0..axes)
                    .map(|axis| {
                        let stride = strides[axis];
                        let wanted = (places[axis] + stride - 1) / stride;
                        let reach = (kernel[axis] - 1) * dilations[axis] + 1;
                        let total = ((wanted - 1) * stride + reach - places[axis]).max(0);
                        match self.automatic {
                            Automatic::SameLower => (total - total / 2, total / 2),
                            _ => (total / 2, total - total / 2),
                        }
                    })
                    .collect())
            }
        }
    }
}

/// Returns the pads in libtorch's order: the last axis first.
fn reversed(pads: &[(i64, i64)]) -> Vec<i64> {
    pads.iter().rev().flat_map(|(before, after)| [*before, *after]).collect()
}

fn is_symmetric(pads: &[(i64, i64)]) -> bool {
    pads.iter().all(|(before, after)| before == after)
}

fn padded(x: &Tensor, pads: &[(i64, i64)], value: f64) -> Result<Tensor, TchError> {
    x.f_pad(reversed(pads), "constant", value)
}

fn convolution(attributes: &Attributes) -> Result<Operation, Wrong> {
    let window = Window::of(attributes)?;
    let groups = attributes.integer("group").unwrap_or(1);
    Ok(Box::new(move |call| {
        let (x, weight, bias) = (call.at(0)?, call.at(1)?, call.maybe(2));
        let (places, kernel) = (&x.size()[2..], &weight.size()[2..]);
        let axes = places.len();
        let pads = window.pads(places, kernel)?;
        let (strides, dilations) = (window.strides(axes), window.dilations(axes));
        let none = vec![0; axes];
        let convolve = |x: &Tensor, pads: &[i64]| {
            x.f_convolution(weight, bias, &strides, pads, &dilations, false, &none, groups)
        };
        if is_symmetric(&pads) {
            let pads: Vec<i64> = pads.iter().map(|(before, _)| *before).collect();
            return one(convolve(x, &pads));
        }
        one(convolve(&padded(x, &pads, 0.0)?, &none))
    }))
}

fn transposed_convolution(attributes: &Attributes) -> Result<Operation, Wrong> {
    let window = Window::of(attributes)?;
    let groups = attributes.integer("group").unwrap_or(1);
    let more = attributes.integers("output_padding");
    let wanted = attributes.integers("output_shape");
    Ok(Box::new(move |call| {
        let (x, weight, bias) = (call.at(0)?, call.at(1)?, call.maybe(2));
        let (places, kernel) = (&x.size()[2..], &weight.size()[2..]);
        let axes = places.len();
        let (strides, dilations) = (window.strides(axes), window.dilations(axes));
        let mut more = more.clone().unwrap_or_else(|| vec![0; axes]);
        let reach = |axis: usize| {
            strides[axis] * (places[axis] - 1) + (kernel[axis] - 1) * dilations[axis] + 1
        };
        for (axis, wanted) in wanted.iter().flatten().enumerate().take(axes) {
            more[axis] = more[axis].max(wanted - reach(axis));
        }
        let full = |axis: usize| reach(axis) + more[axis];
        let automatic = window.automatic;
        let same = matches!(automatic, Automatic::SameUpper | Automatic::SameLower);
        let pads = match &wanted {
            None if !same => window.pads(places, kernel)?,
            _ => (0..axes)
                .map(|axis| {
                    let wanted = wanted.as_ref().and_then(|wanted| wanted.get(axis).copied());
                    let wanted = wanted.unwrap_or(places[axis] * strides[axis]);
                    let total = (full(axis) - wanted).max(0);
                    match automatic {
                        Automatic::SameUpper => (total / 2, total - total / 2),
                        _ => (total - total / 2, total / 2),
                    }
                })
                .collect(),
        };
        let none = vec![0; axes];
        let y = x.f_convolution(weight, bias, &strides, &none, &dilations, true, &none, groups)?;
        // Places beyond those that the kernel reaches have no sums, only the bias.
        let mut y = match (more.iter().any(|more| *more > 0), bias) {
            (false, _) => y,
            (true, bias) => {
                let more: Vec<_> = more.iter().map(|more| (0, *more)).collect();
                let y = match bias {
                    None => y,
                    Some(bias) => y.f_sub(&per_channel(bias, axes)?)?,
                };
                let y = padded(&y, &more, 0.0)?;
                match bias {
                    None => y,
                    Some(bias) => y.f_add(&per_channel(bias, axes)?)?,
                }
            }
        };
        for (axis, (before, after)) in pads.iter().enumerate() {
            let length = full(axis) - before - after;
            y = y.f_narrow(axis as i64 + 2, *before, length)?;
        }
        Ok(vec![y])
    }))
}

fn per_channel(bias: &Tensor, axes: usize) -> Result<Tensor, TchError> {
    let mut shape = vec![-1];
    shape.extend(std::iter::repeat_n(1, axes));
    bias.f_reshape(&shape)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pool {
    Max,
    Average,
}

fn pool(attributes: &Attributes, kind: Pool) -> Result<Operation, Wrong> {
    let window = Window::of(attributes)?;
    let kernel = attributes.integers("kernel_shape");
    let kernel = kernel.ok_or_else(|| wrong!("the attribute `kernel_shape` is missing"))?;
    let ceil = attributes.flag("ceil_mode");
    let count_pads = attributes.flag("count_include_pad");
    let dilated = window.dilations.iter().flatten().any(|dilation| *dilation != 1);
    if kind == Pool::Average && dilated {
        return Err(wrong!("an AveragePool with dilations is not imported"));
    }
    Ok(Box::new(move |call: &Call<'_>| {
        let x = call.at(0)?;
        let places = &x.size()[2..];
        let axes = places.len();
        let pads = window.pads(places, &kernel)?;
        let (strides, dilations) = (window.strides(axes), window.dilations(axes));
        let narrow = pads.iter().zip(&kernel).all(|((before, _), kernel)| 2 * before <= *kernel);
        let native = is_symmetric(&pads) && narrow;
        let none = vec![0; axes];
        let begins: Vec<i64> = pads.iter().map(|(before, _)| *before).collect();
        let one_pool = |x: &Tensor, pads: &[i64], count_pads: bool| match (kind, axes) {
            (Pool::Max, 1) => x.f_max_pool1d(&kernel, &strides, pads, &dilations, ceil),
            (Pool::Max, 2) => x.f_max_pool2d(&kernel, &strides, pads, &dilations, ceil),
            (Pool::Max, _) => x.f_max_pool3d(&kernel, &strides, pads, &dilations, ceil),
            (Pool::Average, 1) => x.f_avg_pool1d(&kernel, &strides, pads, ceil, count_pads),
            (Pool::Average, 2) => x.f_avg_pool2d(&kernel, &strides, pads, ceil, count_pads, None),
            (Pool::Average, _) => x.f_avg_pool3d(&kernel, &strides, pads, ceil, count_pads, None),
        };
        if native {
            return one(one_pool(x, &begins, count_pads));
        }
        match kind {
            Pool::Max => one(one_pool(&padded(x, &pads, f64::NEG_INFINITY)?, &none, true)),
            Pool::Average => {
                let sums = one_pool(&padded(x, &pads, 0.0)?, &none, true)?;
                if count_pads {
                    return Ok(vec![sums]);
                }
                // The part of each window that lies on the input.
                let parts = one_pool(&padded(&x.f_ones_like()?, &pads, 0.0)?, &none, true)?;
                one(sums.f_div(&parts))
            }
        }
    }))
}
