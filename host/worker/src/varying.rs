//! Models that differ from themselves, as those with random numbers do: no engine can agree with such a model, and
//! none is to blame. So the reference runs each batch twice.

use host_record::{Failure, Precision, Tolerance};
use plugin_api::client::TensorData;

use crate::outputs::to_f32;

/// Outputs of one batch, by name.
type Outputs = Vec<(String, TensorData)>;

/// Compares two runs with the same inputs.
///
/// # Errors
///
/// [`Failure::Varies`] if they differ by more than a precision allows.
pub(crate) fn check(
    precision: Precision,
    once: &[Outputs],
    again: &[Outputs],
) -> Result<(), Failure> {
    let tolerance = Tolerance::of(precision);
    for (name, first, second) in pairs(once, again) {
        let same_shape = first.shape == second.shape;
        let (Some(one), Some(other)) = (to_f32(first), to_f32(second)) else { continue };
        let differs = |(one, other): &(&f32, &f32)| {
            let (one, other) = (f64::from(**one), f64::from(**other));
            let same = one == other || (one.is_nan() && other.is_nan());
            let error = (one - other).abs();
            let allowed = tolerance.absolute + tolerance.relative * one.abs();
            !same && (error.is_nan() || error > allowed)
        };
        let differing = one.iter().zip(&other).filter(differs).count() as u64;
        if differing > 0 || !same_shape {
            let (output, values) = (name.to_owned(), one.len() as u64);
            return Err(Failure::Varies { output, differing, values });
        }
    }
    Ok(())
}

fn pairs<'a>(
    once: &'a [Outputs],
    again: &'a [Outputs],
) -> impl Iterator<Item = (&'a str, &'a TensorData, &'a TensorData)> {
    let batches = once.iter().zip(again);
    batches.flat_map(|(once, again)| {
        once.iter().zip(again).map(|((name, first), (_, second))| (name.as_str(), first, second))
    })
}

#[cfg(test)]
mod tests {
    use plugin_api::client::DataType;

    use super::*;

    fn outputs(shape: &[i64], values: &[f32]) -> Vec<Outputs> {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let data = TensorData { dtype: DataType::F32, shape: shape.to_vec(), bytes };
        vec![vec![("noise".to_owned(), data)]]
    }

    #[test]
    fn a_model_that_differs_from_itself_is_told() {
        let judged = |one: &[f32], other: &[f32]| {
            check(Precision::Fp32, &outputs(&[2], one), &outputs(&[2], other))
        };
        assert_eq!(judged(&[1.0, f32::NAN], &[1.0, f32::NAN]), Ok(()));
        assert_eq!(judged(&[1.0, f32::INFINITY], &[1.000_01, f32::INFINITY]), Ok(()), "rounding");
        let varies =
            |differing| Err(Failure::Varies { output: "noise".into(), differing, values: 2 });
        assert_eq!(judged(&[1.0, 2.0], &[1.0, -2.0]), varies(1));
        assert_eq!(judged(&[1.0, 2.0], &[f32::NAN, f32::INFINITY]), varies(2));
        let (two, one) = (outputs(&[2], &[1.0, 2.0]), outputs(&[1], &[1.0]));
        assert_eq!(check(Precision::Fp32, &two, &one), varies(0), "another shape");
    }
}
