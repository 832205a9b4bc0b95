//! Operators on each element alone.

use tch::{Kind, Tensor};

use super::{Operation, axis_of, binary, is_float, one, unary};
use crate::error::{Wrong, wrong};
use crate::onnx::{Node, kind_of};

pub(super) fn operation(node: &Node) -> Result<Option<Operation>, Wrong> {
    let attributes = &node.attributes;
    let number = |name: &str, default: f64| attributes.float(name).unwrap_or(default);
    Ok(Some(match node.operator.as_str() {
        "Abs" => unary(Tensor::f_abs),
        "Acos" => unary(Tensor::f_acos),
        "Acosh" => unary(Tensor::f_acosh),
        "Asin" => unary(Tensor::f_asin),
        "Asinh" => unary(Tensor::f_asinh),
        "Atan" => unary(Tensor::f_atan),
        "Atanh" => unary(Tensor::f_atanh),
        "BitwiseNot" => unary(Tensor::f_bitwise_not),
        "Ceil" => unary(Tensor::f_ceil),
        "Cos" => unary(Tensor::f_cos),
        "Cosh" => unary(Tensor::f_cosh),
        "Erf" => unary(Tensor::f_erf),
        "Exp" => unary(Tensor::f_exp),
        "Floor" => unary(Tensor::f_floor),
        "Identity" => unary(|x| Ok(x.shallow_clone())),
        "IsNaN" => unary(Tensor::f_isnan),
        "Log" => unary(Tensor::f_log),
        "Mish" => unary(Tensor::f_mish),
        "Neg" => unary(Tensor::f_neg),
        "Not" => unary(Tensor::f_logical_not),
        "Reciprocal" => unary(Tensor::f_reciprocal),
        "Relu" => unary(Tensor::f_relu),
        "Round" => unary(Tensor::f_round),
        "Sigmoid" => unary(Tensor::f_sigmoid),
        "Sign" => unary(Tensor::f_sign),
        "Sin" => unary(Tensor::f_sin),
        "Sinh" => unary(Tensor::f_sinh),
        "Softplus" => unary(Tensor::f_softplus),
        "Softsign" => unary(|x| x.f_div(&x.f_abs()?.f_add_scalar(1.0)?)),
        "Sqrt" => unary(Tensor::f_sqrt),
        "Tan" => unary(Tensor::f_tan),
        "Tanh" => unary(Tensor::f_tanh),
        "HardSwish" => unary(Tensor::f_hardswish),
        "IsInf" => {
            let flag = |name| attributes.integer(name).unwrap_or(1) != 0;
            match (flag("detect_positive"), flag("detect_negative")) {
                (true, true) => unary(Tensor::f_isinf),
                (true, false) => unary(|x| x.f_eq(f64::INFINITY)),
                (false, true) => unary(|x| x.f_eq(f64::NEG_INFINITY)),
                (false, false) => unary(|x| x.f_zeros_like()?.f_to_kind(Kind::Bool)),
            }
        }
        "HardSigmoid" => {
            let (alpha, beta) = (number("alpha", 0.2), number("beta", 0.5));
            // The function of MobileNetV3, for which libtorch has one pass.
            if (alpha - 1.0 / 6.0).abs() < 1e-6 && beta == 0.5 {
                unary(Tensor::f_hardsigmoid)
            } else {
                unary(move |x| x.f_mul_scalar(alpha)?.f_add_scalar(beta)?.f_clamp(0.0, 1.0))
            }
        }
        "LeakyRelu" => {
            let alpha = number("alpha", 0.01);
            unary(move |x| x.f_clamp_min(0.0)?.f_add(&x.f_clamp_max(0.0)?.f_mul_scalar(alpha)?))
        }
        "ThresholdedRelu" => {
            let alpha = number("alpha", 1.0);
            unary(move |x| x.f_threshold(alpha, 0.0))
        }
        "Elu" => {
            let alpha = number("alpha", 1.0);
            unary(move |x| {
                x.f_clamp_min(0.0)?.f_add(&x.f_clamp_max(0.0)?.f_expm1()?.f_mul_scalar(alpha)?)
            })
        }
        "Celu" => {
            let alpha = number("alpha", 1.0);
            unary(move |x| {
                let below = x.f_clamp_max(0.0)?.f_div_scalar(alpha)?.f_expm1()?;
                x.f_clamp_min(0.0)?.f_add(&below.f_mul_scalar(alpha)?)
            })
        }
        "Selu" => {
            let alpha = number("alpha", 1.673_263_192_176_818_8);
            let gamma = number("gamma", 1.050_700_902_938_842_8);
            unary(move |x| {
                let below = x.f_clamp_max(0.0)?.f_expm1()?.f_mul_scalar(alpha)?;
                x.f_clamp_min(0.0)?.f_add(&below)?.f_mul_scalar(gamma)
            })
        }
        "Gelu" => {
            let approximate = attributes.text("approximate").unwrap_or("none").to_owned();
            unary(move |x| x.f_gelu(&approximate))
        }
        "PRelu" => binary(|x, slope| x.f_clamp_min(0.0)?.f_add(&x.f_clamp_max(0.0)?.f_mul(slope)?)),
        "Add" => binary(Tensor::f_add),
        "And" => binary(Tensor::f_logical_and),
        "BitwiseAnd" => binary(Tensor::f_bitwise_and_tensor),
        "BitwiseOr" => binary(Tensor::f_bitwise_or_tensor),
        "BitwiseXor" => binary(Tensor::f_bitwise_xor_tensor),
        "Div" => binary(|x, y| match is_float(x.f_kind()?) {
            true => x.f_div(y),
            false => x.f_div_tensor_mode(y, "trunc"),
        }),
        "Equal" => binary(Tensor::f_eq_tensor),
        "Greater" => binary(Tensor::f_gt_tensor),
        "GreaterOrEqual" => binary(Tensor::f_ge_tensor),
        "Less" => binary(Tensor::f_lt_tensor),
        "LessOrEqual" => binary(Tensor::f_le_tensor),
        "Mod" if attributes.flag("fmod") => binary(Tensor::f_fmod_tensor),
        "Mod" => binary(Tensor::f_remainder_tensor),
        "Mul" => binary(Tensor::f_mul),
        "Or" => binary(Tensor::f_logical_or),
        "Sub" => binary(Tensor::f_sub),
        "Xor" => binary(Tensor::f_logical_xor),
        "Pow" => Box::new(|call| {
            let (base, exponent) = (call.at(0)?, call.at(1)?);
            let kind = base.f_kind()?;
            let single = exponent.numel() == 1
                && exponent.dim() <= base.dim()
                && call.is_readable(1)
                && !exponent.requires_grad();
            let single = if single { call.scalar(1)? } else { None };
            let power = match single {
                Some(exponent) => base.f_pow_tensor_scalar(exponent)?,
                None => base.f_pow(exponent)?,
            };
            one(power.f_to_kind(kind))
        }),
        "Max" | "Min" | "Sum" | "Mean" => {
            let function = match node.operator.as_str() {
                "Max" => Tensor::f_maximum,
                "Min" => Tensor::f_minimum,
                _ => Tensor::f_add,
            };
            let is_mean = node.operator == "Mean";
            Box::new(move |call| {
                let inputs = call.all()?;
                let (first, rest) =
                    inputs.split_first().ok_or_else(|| wrong!("it has no inputs"))?;
                let folded = rest
                    .iter()
                    .try_fold(first.shallow_clone(), |sum, next| function(&sum, next))?;
                match is_mean {
                    true => one(folded.f_div_scalar(inputs.len() as f64)),
                    false => Ok(vec![folded]),
                }
            })
        }
        "Where" => Box::new(|call| one(call.at(1)?.f_where_self(call.at(0)?, call.at(2)?))),
        "Clip" => Box::new(|call| {
            let x = call.at(0)?;
            if !(call.is_readable(1) && call.is_readable(2)) {
                return one(x.f_clamp_tensor(call.maybe(1), call.maybe(2)));
            }
            let (low, high) = (call.scalar(1)?, call.scalar(2)?);
            // In the order of the standard, by which the upper limit wins.
            one(match (low, high) {
                (None, None) => Ok(x.shallow_clone()),
                (Some(low), None) => x.f_clamp_min(low),
                (None, Some(high)) => x.f_clamp_max(high),
                (Some(low), Some(high)) => x.f_clamp(low, high),
            })
        }),
        "Cast" => {
            let Some(kind) = attributes.integer("to").and_then(kind_of) else { return Ok(None) };
            unary(move |x| x.f_to_kind(kind))
        }
        "CastLike" => binary(|x, like| x.f_to_kind(like.f_kind()?)),
        // In training, the importer's own models have no dropout; others are run as the file says.
        "Dropout" if node.inputs.len() <= 2 && !super::uses(node, 1) => {
            unary(|x| Ok(x.shallow_clone()))
        }
        "Softmax" | "LogSoftmax" => {
            let axis = attributes.integer("axis").unwrap_or(-1);
            match node.operator.as_str() {
                "Softmax" => unary(move |x| x.f_softmax(axis, None)),
                _ => unary(move |x| x.f_log_softmax(axis, None)),
            }
        }
        "Hardmax" => {
            let axis = attributes.integer("axis").unwrap_or(-1);
            Box::new(move |call| {
                let x = call.at(0)?;
                let axis = axis_of(axis, x.dim())?;
                let first = x.f_argmax(axis, true)?;
                let zeros = x.f_zeros_like()?;
                one(zeros.f_scatter_value(axis, &first, 1.0))
            })
        }
        _ => return Ok(None),
    }))
}
