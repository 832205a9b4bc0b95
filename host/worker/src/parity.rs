//! Comparison of outputs with the reference's, before anything is timed.
//!
//! Two batches are run, so that outputs that do not follow their inputs are detected. A backend can be
//! fast by answering with zeros, with earlier outputs, or with NaN; each of
//! these is reported by name, with any tolerance.

use host_record::{Check, DifferenceKind, Failure, OutputParity, Parity, Precision, Tolerance};
use plugin_api::client::TensorData;

use crate::outputs::to_f32;
use crate::reference::Outputs;

/// Compares outputs with the reference's.
///
/// # Errors
///
/// [`Failure::Differs`], with the figures.
pub(crate) fn compare(
    check: &Check,
    precision: Precision,
    reference: &[Outputs],
    found: &[Outputs],
) -> Result<Parity, Failure> {
    let mut parity = Parity {
        reference: check.reference(),
        tolerance: check.tolerance,
        batches: found.len() as u64,
        outputs: Vec::new(),
    };
    let compared = figures(check.tolerance, reference, found, &mut parity.outputs);
    match compared.err().or_else(|| beyond(&parity)) {
        None => Ok(parity),
        Some((kind, detail)) => {
            let detail =
                format!("{detail} (in {precision}; the reference is {})", parity.reference);
            Err(Failure::Differs { difference: kind, detail, parity: Box::new(parity) })
        }
    }
}

/// Returns the same failure, marked as found after the case was timed.
pub(crate) fn after_measuring(failure: Failure) -> Failure {
    match failure {
        Failure::Differs { difference, detail, parity } => {
            let detail = format!("the outputs agreed before timing, but not after: {detail}");
            Failure::Differs { difference, detail, parity }
        }
        other => other,
    }
}

type Difference = (DifferenceKind, String);

/// Returns the figures of each output, unless a difference makes them meaningless.
fn figures(
    tolerance: Tolerance,
    reference: &[Outputs],
    found: &[Outputs],
    figures: &mut Vec<OutputParity>,
) -> Result<(), Difference> {
    let names = |batches: &[Outputs]| -> Vec<String> {
        batches.first().into_iter().flatten().map(|(name, _)| name.clone()).collect()
    };
    let (wanted, given) = (names(reference), names(found));
    if wanted != given || reference.len() != found.len() {
        let detail = format!(
            "the outputs are `{}` of {} batches, and the reference's `{}` of {}",
            given.join("`, `"),
            found.len(),
            wanted.join("`, `"),
            reference.len()
        );
        return Err((DifferenceKind::Shape, detail));
    }
    for (index, name) in wanted.iter().enumerate() {
        let pair = |batch: usize| -> Result<Pair, Difference> {
            pair(name, &reference[batch][index].1, &found[batch][index].1)
        };
        let pairs: Vec<Pair> = (0..found.len()).map(pair).collect::<Result<_, _>>()?;
        figures.push(of_output(name, tolerance, &pairs));
        if let Some(difference) = lie(name, &pairs) {
            return Err(difference);
        }
    }
    Ok(())
}

/// An output of one batch, and the reference's.
struct Pair {
    reference: Vec<f32>,
    found: Vec<f32>,
    /// Length of the last axis, if there are rows along it.
    row: Option<usize>,
}

fn pair(name: &str, reference: &TensorData, found: &TensorData) -> Result<Pair, Difference> {
    if reference.shape != found.shape {
        let detail = format!(
            "output `{name}` has the shape {:?}, and the reference's {:?}",
            found.shape, reference.shape
        );
        return Err((DifferenceKind::Shape, detail));
    }
    let row = found.shape.last().and_then(|size| usize::try_from(*size).ok());
    let row = row.filter(|row| *row > 1 && found.shape.len() > 1);
    match (to_f32(reference), to_f32(found)) {
        (Some(reference), Some(found)) => Ok(Pair { reference, found, row }),
        _ => {
            let detail = format!(
                "output `{name}` has elements of the type {}, and the reference's of {}, which cannot \
                 be compared",
                found.dtype, reference.dtype
            );
            Err((DifferenceKind::Shape, detail))
        }
    }
}

impl Pair {
    fn values(&self) -> impl Iterator<Item = (f64, f64)> {
        self.reference
            .iter()
            .zip(&self.found)
            .map(|(reference, found)| (f64::from(*reference), f64::from(*found)))
    }
}

/// Returns whether a value is within the tolerance. Values that are not finite in the reference
/// must be equal.
fn within(tolerance: Tolerance, reference: f64, found: f64) -> bool {
    let same = reference == found || (reference.is_nan() && found.is_nan());
    same || (found - reference).abs() <= tolerance.absolute + tolerance.relative * reference.abs()
}

/// Smaller values may be zero in a precision with a narrow range.
const LEAST: f64 = 1e-6;
/// Outputs that differ by more than this part of their greatest value differ in 8 bits as well.
const STEPS: f64 = 0.1;

/// Returns the difference of outputs that are not results at all.
fn lie(name: &str, pairs: &[Pair]) -> Option<Difference> {
    let values = || pairs.iter().flat_map(Pair::values);
    let odd = values().filter(|(reference, found)| reference.is_finite() && !found.is_finite());
    let odd = odd.count();
    if odd > 0 {
        let count = values().count();
        let detail =
            format!("output `{name}`: {odd} of {count} values are infinite or not a number");
        return Some((DifferenceKind::NotFinite, detail));
    }
    let scale = values().map(|(reference, _)| reference.abs()).filter(|size| size.is_finite());
    let scale = scale.fold(0.0, f64::max);
    if scale > LEAST && values().all(|(_, found)| found == 0.0) {
        let detail = format!("output `{name}`: all values are zero, and the reference's are not");
        return Some((DifferenceKind::Zeros, detail));
    }
    let [first, second] = pairs else { return None };
    // By more than the steps of a precision with few of them, which can hide a small difference.
    let differ =
        first.reference.iter().zip(&second.reference).any(|(one, other)| {
            (f64::from(*one) - f64::from(*other)).abs() > LEAST.max(STEPS * scale)
        });
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    (differ && bits(&first.found) == bits(&second.found)).then(|| {
        let detail = format!(
            "output `{name}` is the same for two batches whose outputs differ in the reference: it does \
             not follow its input"
        );
        (DifferenceKind::Stale, detail)
    })
}

fn of_output(name: &str, tolerance: Tolerance, pairs: &[Pair]) -> OutputParity {
    let finite = |value: f64| value.is_finite().then_some(value);
    let (mut values, mut beyond) = (0, 0);
    let (mut absolute, mut relative) = (0.0_f64, 0.0_f64);
    let (mut product, mut reference_square, mut found_square) = (0.0, 0.0, 0.0);
    for (reference, found) in pairs.iter().flat_map(Pair::values) {
        values += 1;
        beyond += u64::from(!within(tolerance, reference, found));
        if reference.is_finite() {
            let error = (found - reference).abs();
            // Unlike `f64::max`, a value that is not a number stays.
            absolute = if error > absolute || error.is_nan() { error } else { absolute };
            if reference.abs() > tolerance.absolute {
                let error = error / reference.abs();
                relative = if error > relative || error.is_nan() { error } else { relative };
            }
            product += reference * found;
            reference_square += reference * reference;
            found_square += found * found;
        }
    }
    OutputParity {
        name: name.to_owned(),
        values,
        beyond,
        max_absolute_error: finite(absolute),
        max_relative_error: finite(relative),
        cosine: finite(product / (reference_square.sqrt() * found_square.sqrt())),
        top1: top1(pairs),
    }
}

/// Returns the share of rows whose largest value is in the same place.
fn top1(pairs: &[Pair]) -> Option<f64> {
    fn place(row: &[f32]) -> usize {
        let greatest =
            |best: usize, index: usize| if row[index] > row[best] { index } else { best };
        (1..row.len()).fold(0, greatest)
    }
    let (mut same, mut rows) = (0_u64, 0_u64);
    for pair in pairs {
        let row = pair.row?;
        for (reference, found) in pair.reference.chunks(row).zip(pair.found.chunks(row)) {
            rows += 1;
            same += u64::from(place(reference) == place(found));
        }
    }
    (rows > 0).then(|| same as f64 / rows as f64)
}

/// Returns the first output that exceeds the tolerance.
fn beyond(parity: &Parity) -> Option<Difference> {
    let Tolerance { absolute, relative, cosine } = parity.tolerance;
    let output = parity.outputs.iter().find(|output| {
        // If all values are within the absolute tolerance of zero, a direction means nothing.
        let turned = output.cosine.is_some_and(|found| found < cosine)
            && output.max_relative_error.is_some_and(|error| error > 0.0);
        output.beyond > 0 || turned
    })?;
    let figure = |name: &str, value: Option<f64>| match value {
        Some(value) => format!(", {name} {value:.3e}"),
        None => String::new(),
    };
    let share = |name: &str, value: Option<f64>| match value {
        Some(value) => format!(", {name} {value:.6}"),
        None => String::new(),
    };
    let detail = format!(
        "output `{}`: {} of {} values are beyond the tolerance of {absolute:e} + {relative:e} of the \
         reference{}{}{}{}; the cosine must be at least {cosine}",
        output.name,
        output.beyond,
        output.values,
        figure("greatest error", output.max_absolute_error),
        figure("relative", output.max_relative_error),
        share("cosine", output.cosine),
        share("top-1 agreement", output.top1),
    );
    Some((DifferenceKind::BeyondTolerance, detail))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use host_record::{DeviceInfo, FileId, PluginIdentity};
    use plugin_api::client::DataType;

    use super::*;

    fn check(precision: Precision) -> Check {
        Check {
            id: "0".into(),
            plugin: PluginIdentity {
                id: "cpu".into(),
                version: "0.1.0".into(),
                sha256: String::new(),
            },
            device: DeviceInfo {
                id: "cpu:0".into(),
                kind: "cpu".into(),
                name: String::new(),
                memory_bytes: None,
                modes: vec![host_record::Mode::Inference],
                precisions: vec![Precision::Fp32],
                attributes: BTreeMap::new(),
            },
            precision: Precision::Fp32,
            model: FileId { name: "model.onnx".into(), sha256: String::new(), ..FileId::default() },
            threads: None,
            options: BTreeMap::new(),
            tolerance: Tolerance::of(precision),
        }
    }

    fn output(shape: &[i64], values: &[f32]) -> Vec<(String, TensorData)> {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        vec![("logits".into(), TensorData { dtype: DataType::F32, shape: shape.into(), bytes })]
    }

    fn batches(first: &[f32], second: &[f32]) -> Vec<Outputs> {
        vec![output(&[2, 2], first), output(&[2, 2], second)]
    }

    const FIRST: [f32; 4] = [1.0, -2.0, 3.0, 4.0];
    const SECOND: [f32; 4] = [5.0, 6.0, -7.0, 8.0];

    fn difference(first: &[f32], second: &[f32]) -> (DifferenceKind, String) {
        let reference = batches(&FIRST, &SECOND);
        let found = batches(first, second);
        match compare(&check(Precision::Fp32), Precision::Fp32, &reference, &found) {
            Err(Failure::Differs { difference, detail, .. }) => (difference, detail),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn outputs_within_the_tolerance_pass_with_their_figures() {
        let reference = batches(&FIRST, &SECOND);
        let found = batches(&[1.0005, -2.0, 3.0, 4.0], &SECOND);
        let parity = compare(&check(Precision::Fp32), Precision::Fp32, &reference, &found);
        let output = &parity.expect("within the tolerance").outputs[0];
        assert_eq!((output.values, output.beyond, output.top1), (8, 0, Some(1.0)));
        let error = output.max_absolute_error.expect("finite");
        assert!((error - 5e-4).abs() < 1e-6 && output.max_relative_error == Some(error));
        assert!(output.cosine.expect("not zero") > 0.999_999);
    }

    #[test]
    fn outputs_beyond_the_tolerance_fail_with_their_figures() {
        let (kind, detail) = difference(&[1.5, -2.0, 3.0, 4.0], &[5.0, 6.0, -7.0, -8.0]);
        assert_eq!(kind, DifferenceKind::BeyondTolerance);
        insta::assert_snapshot!(detail, @"output `logits`: 2 of 8 values are beyond the tolerance of 1e-4 + 1e-3 of the reference, greatest error 1.600e1, relative 2.000e0, cosine 0.373856, top-1 agreement 0.750000; the cosine must be at least 0.9999 (in fp32; the reference is cpu 0.1.0 on cpu:0 in fp32)");
        // Half a precision allows more.
        let reference = batches(&FIRST, &SECOND);
        let found = batches(&[1.01, -2.0, 3.0, 4.0], &SECOND);
        compare(&check(Precision::Fp16), Precision::Fp16, &reference, &found).expect("in fp16");
        compare(&check(Precision::Fp32), Precision::Fp32, &reference, &found).expect_err("in fp32");
    }

    #[test]
    fn what_is_no_output_is_told_by_its_name() {
        let (kind, detail) = difference(&FIRST, &[5.0, f32::NAN, -7.0, f32::INFINITY]);
        assert_eq!(kind, DifferenceKind::NotFinite);
        insta::assert_snapshot!(detail, @"output `logits`: 2 of 8 values are infinite or not a number (in fp32; the reference is cpu 0.1.0 on cpu:0 in fp32)");
        let (kind, detail) = difference(&[0.0; 4], &[0.0; 4]);
        assert_eq!(kind, DifferenceKind::Zeros);
        insta::assert_snapshot!(detail, @"output `logits`: all values are zero, and the reference's are not (in fp32; the reference is cpu 0.1.0 on cpu:0 in fp32)");
        let (kind, detail) = difference(&FIRST, &FIRST);
        assert_eq!(kind, DifferenceKind::Stale);
        insta::assert_snapshot!(detail, @"output `logits` is the same for two batches whose outputs differ in the reference: it does not follow its input (in fp32; the reference is cpu 0.1.0 on cpu:0 in fp32)");
    }

    #[test]
    fn other_shapes_and_names_are_no_numbers_to_compare() {
        let reference = batches(&FIRST, &SECOND);
        let mut found = reference.clone();
        found[1] = output(&[4, 1], &SECOND);
        let failure = compare(&check(Precision::Fp32), Precision::Fp32, &reference, &found);
        let failure = failure.expect_err("another shape").to_string();
        insta::assert_snapshot!(failure, @"the outputs differ from the reference's (shape): output `logits` has the shape [4, 1], and the reference's [2, 2] (in fp32; the reference is cpu 0.1.0 on cpu:0 in fp32)");
        let mut found = reference.clone();
        found[0][0].0 = "other".into();
        compare(&check(Precision::Fp32), Precision::Fp32, &reference, &found).expect_err("a name");
    }

    #[test]
    fn a_model_that_answers_with_zeros_or_always_the_same_is_no_lie() {
        for values in [[0.0; 4], [1.0; 4]] {
            let same = batches(&values, &values);
            compare(&check(Precision::Fp32), Precision::Fp32, &same, &same)
                .expect("as the reference");
        }
        // The same values that are not finite, on both sides, agree.
        let odd = batches(&[f32::NAN, f32::INFINITY, 1.0, 2.0], &SECOND);
        compare(&check(Precision::Fp32), Precision::Fp32, &odd, &odd).expect("as the reference");
    }
}
