//! Operators that reduce axes.

use std::borrow::Cow;

use tch::{Kind, TchError, Tensor};

use super::{Operation, axis_of, one};
use crate::error::Wrong;
use crate::onnx::Node;

type Reduction = fn(&Tensor, &[i64], bool) -> Result<Tensor, TchError>;

fn sum(x: &Tensor, axes: &[i64], keep: bool) -> Result<Tensor, TchError> {
    x.f_sum_dim_intlist(axes, keep, x.f_kind()?)
}

/// Returns whether an axis to reduce has no elements.
fn is_empty(x: &Tensor, axes: &[i64]) -> bool {
    let sizes = x.size();
    axes.iter().any(|axis| sizes.get(*axis as usize) == Some(&0))
}

fn product(x: &Tensor, axes: &[i64], keep: bool) -> Result<Tensor, TchError> {
    let kind = x.f_kind()?;
    let mut sorted = axes.to_vec();
    // From the back, so that the other axes keep their places.
    sorted.sort_unstable_by(|left, right| right.cmp(left));
    sorted.iter().try_fold(x.shallow_clone(), |x, axis| x.f_prod_dim_int(*axis, keep, kind))
}

pub(super) fn operation(node: &Node) -> Result<Option<Operation>, Wrong> {
    let attributes = &node.attributes;
    let reduction: Reduction = match node.operator.as_str() {
        "ReduceL1" => |x, axes, keep| sum(&x.f_abs()?, axes, keep),
        "ReduceL2" => |x, axes, keep| sum(&x.f_mul(x)?, axes, keep)?.f_sqrt(),
        "ReduceLogSum" => |x, axes, keep| sum(x, axes, keep)?.f_log(),
        "ReduceLogSumExp" => |x, axes, keep| x.f_logsumexp(axes, keep),
        "ReduceMax" => |x, axes, keep| match x.f_kind()? {
            Kind::Bool => x.f_any_dims(axes, keep),
            _ if is_empty(x, axes) => sum(x, axes, keep)?.f_full_like(f64::NEG_INFINITY),
            _ => x.f_amax(axes, keep),
        },
        "ReduceMean" => |x, axes, keep| x.f_mean_dim(axes, keep, None),
        "ReduceMin" => |x, axes, keep| match x.f_kind()? {
            Kind::Bool => x.f_all_dims(axes, keep),
            _ if is_empty(x, axes) => sum(x, axes, keep)?.f_full_like(f64::INFINITY),
            _ => x.f_amin(axes, keep),
        },
        "ReduceProd" => product,
        "ReduceSum" => sum,
        "ReduceSumSquare" => |x, axes, keep| sum(&x.f_mul(x)?, axes, keep),
        "ArgMax" | "ArgMin" => return Ok(extremum(node)),
        _ => return Ok(None),
    };
    let keep = attributes.integer("keepdims").unwrap_or(1) != 0;
    let no_operation = attributes.flag("noop_with_empty_axes");
    // An attribute until version 13 or 18, an input since.
    let fixed = attributes.integers("axes");
    Ok(Some(Box::new(move |call| {
        let x = call.at(0)?;
        let axes = match &fixed {
            Some(axes) => Cow::Borrowed(axes.as_slice()),
            None => call.integers(1)?.unwrap_or_default(),
        };
        let rank = x.dim();
        let all = axes.is_empty() && !no_operation;
        let axes = if all { (0..rank as i64).collect() } else { axes };
        let axes: Vec<i64> =
            axes.iter().map(|axis| axis_of(*axis, rank)).collect::<Result<_, _>>()?;
        // Libtorch takes no axes for all of them. An axis of length 1 in front is one to reduce.
        if axes.is_empty() {
            return one(reduction(&x.f_unsqueeze(0)?, &[0], false));
        }
        one(reduction(x, &axes, keep))
    })))
}

fn extremum(node: &Node) -> Option<Operation> {
    let attributes = &node.attributes;
    let axis = attributes.integer("axis").unwrap_or(0);
    let keep = attributes.integer("keepdims").unwrap_or(1) != 0;
    let last = attributes.flag("select_last_index");
    let largest = node.operator == "ArgMax";
    Some(Box::new(move |call| {
        let x = call.at(0)?;
        let axis = axis_of(axis, x.dim())?;
        let find = |x: &Tensor| match largest {
            true => x.f_argmax(axis, keep),
            false => x.f_argmin(axis, keep),
        };
        if !last {
            return one(find(x));
        }
        let length = x.size()[axis as usize];
        one(find(&x.f_flip([axis])?)?.f_neg()?.f_add_scalar(length - 1))
    }))
}
