//! Operators that move, select, and make elements.

use tch::{Device, Kind, Tensor};

use super::{Call, Operation, Outputs, axis_of, one, scalar, unary};
use crate::error::{Wrong, wrong};
use crate::onnx::{Attributes, Node};

pub(super) fn operation(node: &Node) -> Result<Option<Operation>, Wrong> {
    let attributes = &node.attributes;
    let axis = attributes.integer("axis");
    Ok(Some(match node.operator.as_str() {
        "Constant" => match constant(attributes)? {
            Some(value) => Box::new(move |_| Ok(vec![value.shallow_clone()])),
            None => return Ok(None),
        },
        "ConstantOfShape" => {
            let value = match attributes.tensor("value") {
                Some(value) => value,
                None => Tensor::f_from_slice(&[0.0_f32])?,
            };
            Box::new(move |call| {
                let shape = call.whole(0)?;
                one(value.f_reshape([1_i64; 0])?.f_expand(&*shape, false)?.f_contiguous())
            })
        }
        "Shape" => {
            let (start, end) = (attributes.integer("start"), attributes.integer("end"));
            Box::new(move |call| {
                let sizes = call.at(0)?.size();
                let rank = sizes.len() as i64;
                let place = |at: i64| (if at < 0 { at + rank } else { at }).clamp(0, rank) as usize;
                let (start, end) = (place(start.unwrap_or(0)), place(end.unwrap_or(rank)));
                one(Tensor::f_from_slice(&sizes[start..end.max(start)]))
            })
        }
        "Size" => Box::new(|call| {
            let count = call.at(0)?.numel() as i64;
            one(Tensor::f_from_slice(&[count])?.f_reshape([1_i64; 0]))
        }),
        "Reshape" => {
            let keep_zero = attributes.flag("allowzero");
            Box::new(move |call| {
                let x = call.at(0)?;
                let mut shape = call.whole(1)?.into_owned();
                if !keep_zero {
                    for (wanted, size) in shape.iter_mut().zip(x.size()) {
                        *wanted = if *wanted == 0 { size } else { *wanted };
                    }
                }
                one(x.f_reshape(&shape))
            })
        }
        "Flatten" => {
            let axis = axis.unwrap_or(1);
            Box::new(move |call| {
                let x = call.at(0)?;
                let sizes = x.size();
                let rank = sizes.len() as i64;
                let axis = (if axis < 0 { axis + rank } else { axis }).clamp(0, rank) as usize;
                let (outer, inner) = sizes.split_at(axis);
                one(x.f_reshape([outer.iter().product::<i64>(), inner.iter().product()]))
            })
        }
        "Transpose" => {
            let order = attributes.integers("perm");
            Box::new(move |call| {
                let x = call.at(0)?;
                let rank = x.dim() as i64;
                match &order {
                    Some(order) => one(x.f_permute(order)),
                    None => one(x.f_permute((0..rank).rev().collect::<Vec<_>>())),
                }
            })
        }
        "Squeeze" => Box::new(|call| {
            let x = call.at(0)?;
            match call.integers(1)? {
                Some(axes) => one(x.f_squeeze_dims(&*axes)),
                None => one(x.f_squeeze()),
            }
        }),
        "Unsqueeze" => Box::new(|call| {
            let x = call.at(0)?;
            let axes = call.whole(1)?;
            let rank = x.dim() + axes.len();
            let mut axes: Vec<i64> =
                axes.iter().map(|axis| axis_of(*axis, rank)).collect::<Result<_, _>>()?;
            axes.sort_unstable();
            one(axes.iter().try_fold(x.shallow_clone(), |x, axis| x.f_unsqueeze(*axis)))
        }),
        "Concat" => {
            let axis = axis.ok_or_else(|| wrong!("the attribute `axis` is missing"))?;
            Box::new(move |call| one(Tensor::f_cat(&call.all()?, axis)))
        }
        "Split" => split(node),
        "Slice" => Box::new(slice),
        "Expand" => Box::new(|call| {
            let x = call.at(0)?;
            let shape = broadcast(&x.size(), &call.whole(1)?)?;
            one(x.f_expand(&shape, false))
        }),
        "Tile" => Box::new(|call| one(call.at(0)?.f_tile(&*call.whole(1)?))),
        "Pad" => {
            let mode = match attributes.text("mode").unwrap_or("constant") {
                "constant" => "constant",
                "reflect" => "reflect",
                "edge" => "replicate",
                "wrap" => "circular",
                _ => return Ok(None),
            };
            Box::new(move |call| pad(call, mode))
        }
        "Resize" => match resize(attributes) {
            Some(operation) => operation,
            None => return Ok(None),
        },
        "Gather" => {
            let axis = axis.unwrap_or(0);
            Box::new(move |call| {
                let (x, index) = (call.at(0)?, call.at(1)?);
                let axis = axis_of(axis, x.dim())? as usize;
                let index = index.f_to_kind(Kind::Int64)?;
                let mut all: Vec<Option<&Tensor>> = vec![None; axis];
                all.push(Some(&index));
                one(x.f_index(&all))
            })
        }
        "GatherElements" => {
            let axis = axis.unwrap_or(0);
            Box::new(move |call| {
                let (x, index) = (call.at(0)?, call.at(1)?);
                let axis = axis_of(axis, x.dim())?;
                one(x.f_gather(axis, &counted(index, x.size()[axis as usize])?, false))
            })
        }
        "GatherND" => {
            let shared = attributes.integer("batch_dims").unwrap_or(0) as usize;
            Box::new(move |call| {
                let (x, index) = (call.at(0)?, call.at(1)?);
                let places = places(index, shared, x.device())?;
                one(x.f_index(&places.iter().map(Some).collect::<Vec<_>>()))
            })
        }
        "ScatterND" => {
            let Some(add) = adds(attributes) else { return Ok(None) };
            Box::new(move |call| {
                let (x, index, updates) = (call.at(0)?, call.at(1)?, call.at(2)?);
                let places = places(index, 0, x.device())?;
                one(x.f_index_put(&places.iter().map(Some).collect::<Vec<_>>(), updates, add))
            })
        }
        "ScatterElements" => {
            let axis = axis.unwrap_or(0);
            let Some(add) = adds(attributes) else { return Ok(None) };
            Box::new(move |call| {
                let (x, index, updates) = (call.at(0)?, call.at(1)?, call.at(2)?);
                let axis = axis_of(axis, x.dim())?;
                let index = counted(index, x.size()[axis as usize])?;
                one(match add {
                    false => x.f_scatter(axis, &index, updates),
                    true => x.f_scatter_add(axis, &index, updates),
                })
            })
        }
        "Range" => Box::new(|call| {
            let [start, end, step] = [call.at(0)?, call.at(1)?, call.at(2)?];
            let options = (start.f_kind()?, Device::Cpu);
            let [first, limit, by] = [scalar(start)?, scalar(end)?, scalar(step)?];
            // Libtorch refuses a range in the wrong direction, which is empty here.
            let value = |tensor: &Tensor| tensor.f_reshape([-1])?.f_double_value(&[0]);
            let (start, end, step) = (value(start)?, value(end)?, value(step)?);
            if (end - start) * step <= 0.0 {
                return one(Tensor::f_zeros([0], options));
            }
            one(Tensor::f_arange_start_step(first, limit, by, options))
        }),
        "OneHot" => {
            let axis = axis.unwrap_or(-1);
            Box::new(move |call| {
                let (index, values) = (call.at(0)?, call.at(2)?);
                let depth = call.whole(1)?.first().copied();
                let depth = depth.ok_or_else(|| wrong!("the depth is missing"))?;
                let axis = axis_of(axis, index.dim() + 1)?;
                let index = counted(index, depth)?.f_unsqueeze(axis)?;
                let mut shape = vec![1; index.dim()];
                shape[axis as usize] = depth;
                let classes = Tensor::f_arange(depth, (Kind::Int64, index.device()))?;
                let hot = index.f_eq_tensor(&classes.f_reshape(&shape)?)?;
                one(values.f_select(0, 1)?.f_where_self(&hot, &values.f_select(0, 0)?))
            })
        }
        "Trilu" => {
            let upper = attributes.integer("upper").unwrap_or(1) != 0;
            Box::new(move |call| {
                let diagonal = call.integers(1)?.and_then(|k| k.first().copied()).unwrap_or(0);
                let x = call.at(0)?;
                one(if upper { x.f_triu(diagonal) } else { x.f_tril(diagonal) })
            })
        }
        "CumSum" => {
            let (exclusive, reverse) = (attributes.flag("exclusive"), attributes.flag("reverse"));
            Box::new(move |call| {
                let x = call.at(0)?;
                let axis = call.whole(1)?.first().copied().unwrap_or(0);
                let axis = axis_of(axis, x.dim())?;
                let turned = if reverse { x.f_flip([axis])? } else { x.shallow_clone() };
                let mut sums = turned.f_cumsum(axis, x.f_kind()?)?;
                if exclusive {
                    sums = sums.f_sub(&turned)?;
                }
                one(if reverse { sums.f_flip([axis]) } else { Ok(sums) })
            })
        }
        "TopK" => {
            let axis = axis.unwrap_or(-1);
            let largest = attributes.integer("largest").unwrap_or(1) != 0;
            Box::new(move |call| {
                let count = call.whole(1)?.first().copied();
                let count = count.ok_or_else(|| wrong!("the number of values is missing"))?;
                // Of equal values the first is taken, which libtorch's own function does not promise.
                let (values, places) = call.at(0)?.f_sort_stable(true, axis, largest)?;
                let values = values.f_narrow(axis, 0, count)?.f_contiguous()?;
                let places = places.f_narrow(axis, 0, count)?.f_contiguous()?;
                Ok(vec![values, places])
            })
        }
        "NonZero" => unary(|x| x.f_nonzero()?.f_transpose(0, 1)?.f_contiguous()),
        "EyeLike" => {
            let diagonal = attributes.integer("k").unwrap_or(0);
            let kind = match attributes.integer("dtype") {
                None => None,
                Some(element) => match crate::onnx::kind_of(element) {
                    None => return Ok(None),
                    kind => kind,
                },
            };
            Box::new(move |call| {
                let x = call.at(0)?;
                let options = (kind.unwrap_or(x.f_kind()?), x.device());
                let ones = Tensor::f_ones(x.size(), options)?;
                one(ones.f_triu(diagonal)?.f_tril(diagonal))
            })
        }
        "SpaceToDepth" if attributes.text("mode") == Some("CRD") => return Ok(None),
        "DepthToSpace" | "SpaceToDepth" => blocks(node)?,
        _ => return Ok(None),
    }))
}

fn constant(attributes: &Attributes) -> Result<Option<Tensor>, Wrong> {
    let scalar = |tensor: Tensor| tensor.f_reshape([1_i64; 0]);
    Ok(Some(if let Some(value) = attributes.tensor("value") {
        value
    } else if let Some(value) = attributes.float("value_float") {
        scalar(Tensor::f_from_slice(&[value as f32])?)?
    } else if let Some(value) = attributes.integer("value_int") {
        scalar(Tensor::f_from_slice(&[value])?)?
    } else if let Some(values) = attributes.floats("value_floats") {
        Tensor::f_from_slice(values)?
    } else if let Some(values) = attributes.integers("value_ints") {
        Tensor::f_from_slice(&values)?
    } else {
        return Ok(None);
    }))
}

/// Returns indices counted from the front.
fn counted(index: &Tensor, length: i64) -> Result<Tensor, Wrong> {
    let index = index.f_to_kind(Kind::Int64)?;
    Ok(index.f_add_scalar(length)?.f_where_self(&index.f_lt(0)?, &index)?)
}

/// Returns indices for each indexed axis, from a tensor whose last axis counts these axes. The first `shared` axes of
/// both tensors are the same.
fn places(index: &Tensor, shared: usize, device: Device) -> Result<Vec<Tensor>, Wrong> {
    let index = index.f_to_kind(Kind::Int64)?;
    let sizes = index.size();
    let (depth, outer) = sizes.split_last().ok_or_else(|| wrong!("the indices have no axes"))?;
    let mut places = Vec::new();
    for axis in 0..shared {
        let mut shape = vec![1; outer.len()];
        shape[axis] = outer[axis];
        let count = Tensor::f_arange(outer[axis], (Kind::Int64, device))?;
        places.push(count.f_reshape(&shape)?);
    }
    for axis in 0..*depth {
        places.push(index.f_select(-1, axis)?);
    }
    Ok(places)
}

/// Returns the shape that two shapes have together.
fn broadcast(first: &[i64], second: &[i64]) -> Result<Vec<i64>, Wrong> {
    let rank = first.len().max(second.len());
    let size = |shape: &[i64], axis: usize| match (axis + shape.len()).checked_sub(rank) {
        Some(axis) => shape[axis],
        None => 1,
    };
    (0..rank)
        .map(|axis| match (size(first, axis), size(second, axis)) {
            (1, size) | (size, 1) => Ok(size),
            (left, right) if left == right => Ok(left),
            _ => Err(wrong!("{first:?} cannot be expanded to {second:?}")),
        })
        .collect()
}

fn split(node: &Node) -> Operation {
    let axis = node.attributes.integer("axis").unwrap_or(0);
    let parts = node.attributes.integer("num_outputs").unwrap_or(node.outputs.len() as i64).max(1);
    Box::new(move |call| {
        let x = call.at(0)?;
        let axis = axis_of(axis, x.dim())?;
        let sizes = match call.integers(1)? {
            Some(sizes) => sizes.into_owned(),
            None => {
                let length = x.size()[axis as usize];
                let each = (length + parts - 1) / parts;
                (0..parts).map(|part| each.min(length - part * each).max(0)).collect()
            }
        };
        Ok(x.f_split_with_sizes(&sizes, axis)?)
    })
}

fn slice(call: &Call<'_>) -> Outputs {
    let x = call.at(0)?;
    let rank = x.dim();
    let (starts, ends) = (call.whole(1)?, call.whole(2)?);
    let axes = call.integers(3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = call.integers(4)?.unwrap_or_else(|| vec![1; starts.len()].into());
    let mut y = x.shallow_clone();
    for (((start, end), axis), step) in
        starts.iter().zip(ends.iter()).zip(axes.iter()).zip(steps.iter())
    {
        let axis = axis_of(*axis, rank)?;
        let length = y.size()[axis as usize];
        let place = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
        if *step > 0 {
            let (start, end) = (place(*start).clamp(0, length), place(*end).clamp(0, length));
            y = y.f_slice(axis, start, end.max(start), *step)?;
            continue;
        }
        if *step == 0 {
            return Err(wrong!("a step is 0"));
        }
        let (start, end) = (place(*start).clamp(-1, length - 1), place(*end).clamp(-1, length - 1));
        let mut index = Vec::new();
        let mut at = start;
        while at > end {
            index.push(at);
            at += step;
        }
        y = y.f_index_select(axis, &Tensor::f_from_slice(&index)?.f_to(x.device())?)?;
    }
    Ok(vec![y])
}

fn pad(call: &Call<'_>, mode: &str) -> Outputs {
    let x = call.at(0)?;
    let pads = call.whole(1)?;
    let axes = call.integers(3)?.unwrap_or_else(|| (0..x.dim() as i64).collect());
    let mut all = vec![(0, 0); x.dim()];
    for (at, axis) in axes.iter().enumerate() {
        let end = pads.get(at + axes.len()).ok_or_else(|| wrong!("there are too few pads"))?;
        all[axis_of(*axis, x.dim())? as usize] = (pads[at], *end);
    }
    // Libtorch counts axes from the last, and its other modes take only those that change.
    let first = all.iter().position(|pads| *pads != (0, 0)).unwrap_or(all.len());
    if first == all.len() {
        return Ok(vec![x.shallow_clone()]);
    }
    let counted: Vec<i64> =
        all[first..].iter().rev().flat_map(|(before, after)| [*before, *after]).collect();
    if mode != "constant" {
        return one(x.f_pad(&counted, mode, None));
    }
    let value = match call.maybe(2) {
        Some(value) => value.f_to_kind(Kind::Double)?.f_reshape([-1])?.f_double_value(&[0])?,
        None => 0.0,
    };
    one(x.f_pad(&counted, mode, value))
}

/// Resizes pictures as libtorch does; `None` for other ways to find the places of elements.
fn resize(attributes: &Attributes) -> Option<Operation> {
    let text =
        |name: &str, default: &'static str| attributes.text(name).unwrap_or(default).to_owned();
    let mode = text("mode", "nearest");
    let transformation = text("coordinate_transformation_mode", "half_pixel");
    let rounding = text("nearest_mode", "round_prefer_floor");
    // By the exporter's definition, a single element is the first one; by the standard's, the one in the middle.
    let first_of_one = transformation == "pytorch_half_pixel";
    let is_linear = match (mode.as_str(), transformation.as_str()) {
        ("nearest", "asymmetric") if rounding == "floor" => false,
        ("linear", "half_pixel" | "pytorch_half_pixel") => true,
        _ => return None,
    };
    let is_stretched = text("keep_aspect_ratio_policy", "stretch") == "stretch";
    if attributes.flag("antialias") || !is_stretched || attributes.integers("axes").is_some() {
        return None;
    }
    Some(Box::new(move |call| {
        let x = call.at(0)?;
        let sizes = x.size();
        let scales = call.floats(2)?;
        let wanted: Vec<i64> = match (call.integers(3)?, &scales) {
            (Some(wanted), _) if !wanted.is_empty() => wanted.into_owned(),
            (_, Some(scales)) => sizes
                .iter()
                .zip(scales)
                .map(|(size, scale)| (*size as f64 * scale).floor() as i64)
                .collect(),
            _ => return Err(wrong!("neither sizes nor scales are given")),
        };
        if wanted.len() != 4 || sizes.len() != 4 || wanted[..2] != sizes[..2] {
            return Err(wrong!(
                "{sizes:?} is resized to {wanted:?}, and only pictures are imported"
            ));
        }
        let is_first = |axis: usize| first_of_one && wanted[axis] == 1;
        let mut x = x.shallow_clone();
        for axis in [2, 3] {
            if is_first(axis) {
                x = x.f_narrow(axis as i64, 0, 1)?;
            }
        }
        let scale = |axis: usize| {
            let given = scales.as_ref().and_then(|scales| scales.get(axis).copied());
            given.filter(|_| !is_first(axis))
        };
        one(match is_linear {
            true => x.f_upsample_bilinear2d(&wanted[2..], false, scale(2), scale(3)),
            false => x.f_upsample_nearest2d(&wanted[2..], scale(2), scale(3)),
        })
    }))
}

/// Returns whether values that are scattered are added; `None` if they are combined in a way that libtorch lacks.
fn adds(attributes: &Attributes) -> Option<bool> {
    match attributes.text("reduction").unwrap_or("none") {
        "none" => Some(false),
        "add" => Some(true),
        _ => None,
    }
}

/// Moves blocks of places to channels, or back.
fn blocks(node: &Node) -> Result<Operation, Wrong> {
    let size = node.attributes.integer("blocksize");
    let size = size.ok_or_else(|| wrong!("the attribute `blocksize` is missing"))?;
    let to_space = node.operator == "DepthToSpace";
    let columns_first = node.attributes.text("mode") == Some("CRD");
    Ok(Box::new(move |call| {
        let x = call.at(0)?;
        let (n, c, h, w) = x.size4()?;
        if !to_space {
            let split = x.f_reshape([n, c, h / size, size, w / size, size])?;
            let moved = split.f_permute([0, 3, 5, 1, 2, 4])?;
            return one(moved.f_reshape([n, c * size * size, h / size, w / size]));
        }
        let deep = c / (size * size);
        let moved = match columns_first {
            true => x.f_reshape([n, deep, size, size, h, w])?.f_permute([0, 1, 4, 2, 5, 3])?,
            false => x.f_reshape([n, size, size, deep, h, w])?.f_permute([0, 3, 4, 1, 5, 2])?,
        };
        one(moved.f_reshape([n, deep, h * size, w * size]))
    }))
}
