//! Comparison of outputs with the reference's, before anything is timed.
//!
//! Two batches are run, so that outputs that do not follow their inputs are detected. A backend can be
//! fast by answering with zeros, with earlier outputs, or with NaN; each of
//! these is reported by name, with any tolerance.
//!
//! Other outputs are judged in four ways over all their values, because each is blind to something. Values one by one are blind to
//! errors that are small beside the tolerance of a coarse precision: any softmax over a thousand classes passes.
//! The cosine is blind if all values are nearly the same, as in a softmax that is nearly uniform. The correlation
//! is not. A wrong class can hide in any of these, so it is counted. None depends on the output's unit, unless all
//! values lie between 0 and 1, as probabilities do: these have a unit.
//!
//! All of these are over all rows, so a row of large values hides the others: the hidden states of a transformer's first
//! token are often a hundred times as large as all others. So the error of each row is held against the row's own size
//! as well.
//!
//! A reference can be wrong, too. If it answers with zeros, NaN or earlier outputs and the case does not, it is not
//! known which of the two is right, and the case is not blamed.

use host_record::{
    CaseSpec, Check, DifferenceKind, Failure, InputSource, OutputParity, Parity, Precision,
    Tolerance,
};
use host_statistics::{Quantile, order_statistics};
use plugin_api::client::{DataType, TensorData};

use crate::outputs::to_f32;
use crate::reference::Outputs;

/// Facts about a case whose outputs are compared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    /// The precision that it computes in.
    pub(crate) precision: Precision,
    /// Whether its examples have class labels, so that its first output is class scores.
    pub(crate) labelled: bool,
}

impl Case {
    pub(crate) fn of(case: &CaseSpec) -> Self {
        let labelled = matches!(case.inputs, InputSource::Files { labels: Some(_), .. });
        Self { precision: case.key.precision, labelled }
    }
}

/// Compares outputs with the reference's.
///
/// # Errors
///
/// [`Failure::Differs`], with the figures; [`Failure::NoReference`] if the reference's outputs are not results.
pub(crate) fn compare(
    check: &Check,
    case: Case,
    reference: &[Outputs],
    found: &[Outputs],
) -> Result<Parity, Failure> {
    let mut parity = Parity {
        reference: check.reference(),
        tolerance: check.tolerance,
        batches: found.len() as u64,
        outputs: Vec::new(),
    };
    let compared = figures(check.tolerance, case, reference, found, &mut parity.outputs);
    match compared.err().or_else(|| beyond(&parity)) {
        None => Ok(parity),
        Some(Difference::OfReference(detail)) => Err(Failure::NoReference {
            detail: format!(
                "{detail}. One of the two is wrong, and nothing tells which; compare with another reference (this \
                 one is {})",
                parity.reference
            ),
        }),
        Some(Difference::OfCase(kind, detail)) => {
            let detail =
                format!("{detail} (in {}; the reference is {})", case.precision, parity.reference);
            Err(Failure::Differs { difference: kind, detail, parity: Box::new(parity) })
        }
    }
}

/// Returns the same failure, marked as found after the case was timed.
pub(crate) fn after_measuring(failure: Failure) -> Failure {
    marked(failure, "the outputs agreed before timing, but not after")
}

/// Returns the same failure, marked as found in the first run.
pub(crate) fn of_first_run(failure: Failure) -> Failure {
    marked(failure, "in the first run")
}

fn marked(failure: Failure, when: &str) -> Failure {
    match failure {
        Failure::Differs { difference, detail, parity } => {
            Failure::Differs { difference, detail: format!("{when}: {detail}"), parity }
        }
        other => other,
    }
}

/// A difference, and the side that it is a fault of.
#[derive(Debug)]
enum Difference {
    OfCase(DifferenceKind, String),
    /// The reference's outputs are not results.
    OfReference(String),
}

/// Returns the figures of each output, unless a difference makes them meaningless.
fn figures(
    tolerance: Tolerance,
    case: Case,
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
        return Err(Difference::OfCase(DifferenceKind::Shape, detail));
    }
    for (index, name) in wanted.iter().enumerate() {
        let pair = |batch: usize| -> Result<Pair, Difference> {
            pair(name, &reference[batch][index].1, &found[batch][index].1)
        };
        let pairs: Vec<Pair> = (0..found.len()).map(pair).collect::<Result<_, _>>()?;
        let rules =
            Rules { tolerance, precision: case.precision, named: case.labelled && index == 0 };
        figures.push(rules.of_output(name, &pairs));
        if let Some(lie) = lie(smallest(case.precision), &pairs) {
            return Err(Difference::OfCase(lie.kind(), lie.of_case(name)));
        }
        // Any number may be a class.
        let is_whole = pairs.iter().all(|pair| pair.whole);
        let swapped: Vec<Pair> = pairs.into_iter().map(Pair::swapped).collect();
        // A sigmoid may round a small probability to zero.
        let least = match are_probabilities(&swapped) {
            true => step_of_one(Precision::Fp32),
            false => smallest(case.precision),
        };
        if let Some(lie) = lie(least, &swapped).filter(|_| !is_whole) {
            return Err(Difference::OfReference(lie.of_reference(name)));
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
    /// Length of the parts that are judged alone: rows along the last axis, or the whole example if it has more axes
    /// than a sequence of vectors, because a single line of an image says little.
    part: Option<usize>,
    /// Whether both are whole numbers that count or name something. Eight bits may be quantised numbers.
    whole: bool,
}

fn pair(name: &str, reference: &TensorData, found: &TensorData) -> Result<Pair, Difference> {
    if reference.shape != found.shape {
        let detail = format!(
            "output `{name}` has the shape {:?}, and the reference's {:?}",
            found.shape, reference.shape
        );
        return Err(Difference::OfCase(DifferenceKind::Shape, detail));
    }
    let row = found.shape.last().and_then(|size| usize::try_from(*size).ok());
    let row = row.filter(|row| *row > 1 && found.shape.len() > 1);
    let size = |size: &i64| usize::try_from(*size).unwrap_or(0);
    let part = match found.shape.as_slice() {
        [_, example @ ..] if example.len() > 2 => Some(example.iter().map(size).product()),
        _ => row,
    };
    let is_whole = |data: &TensorData| {
        use DataType as D;
        [D::I64, D::I32, D::I16, D::U64, D::U32, D::U16, D::BOOL].contains(&data.dtype)
    };
    let whole = is_whole(reference) && is_whole(found);
    match (to_f32(reference), to_f32(found)) {
        (Some(reference), Some(found)) => {
            Ok(Pair { reference, found, row, part: part.filter(|part| *part > 1), whole })
        }
        _ => {
            let detail = format!(
                "output `{name}` has elements of the type {}, and the reference's of {}, which cannot \
                 be compared",
                found.dtype, reference.dtype
            );
            Err(Difference::OfCase(DifferenceKind::Shape, detail))
        }
    }
}

impl Pair {
    /// Exchanges the two sides.
    fn swapped(self) -> Self {
        Self { reference: self.found, found: self.reference, ..self }
    }

    /// Returns the rows along the last axis, if there are any.
    fn rows(&self) -> impl Iterator<Item = (&[f32], &[f32])> {
        let rows = self.row.map(|row| self.reference.chunks(row).zip(self.found.chunks(row)));
        rows.into_iter().flatten()
    }

    /// Returns the root mean squares of the reference and of the error in each part, over values that are finite in
    /// the reference.
    fn parts(&self) -> impl Iterator<Item = (f64, f64)> {
        let parts = self.part.map(|part| self.reference.chunks(part).zip(self.found.chunks(part)));
        parts.into_iter().flatten().map(|(reference, found)| {
            let values = reference.iter().zip(found).filter(|(reference, _)| reference.is_finite());
            let (count, size, error) =
                values.fold((0.0, 0.0, 0.0), |(count, size, error), pair| {
                    let (reference, found) = (f64::from(*pair.0), f64::from(*pair.1));
                    let difference = found - reference;
                    (count + 1.0, size + reference * reference, error + difference * difference)
                });
            let count = f64::max(count, 1.0);
            ((size / count).sqrt(), (error / count).sqrt())
        })
    }

    fn values(&self) -> impl Iterator<Item = (f64, f64)> {
        self.reference
            .iter()
            .zip(&self.found)
            .map(|(reference, found)| (f64::from(*reference), f64::from(*found)))
    }
}

/// Returns the smallest size of a value that a precision can tell from zero, if outputs are ever as small: the
/// subnormal step of half a precision.
fn smallest(precision: Precision) -> f64 {
    if precision == Precision::Fp16 { f64::exp2(-24.0) } else { 0.0 }
}

/// Returns the greatest relative error that rounding in a precision causes. In fp32, sums of many terms are the
/// rule, and err by tens of steps.
fn rounding(precision: Precision) -> f64 {
    f64::exp2(match precision {
        Precision::Fp32 => -18.0,
        Precision::Fp16 => -11.0,
        Precision::Bf16 => -8.0,
        Precision::Int8 => -7.0,
    })
}

/// Outputs that differ by more than this part of their greatest value differ in 8 bits as well.
const STEPS: f64 = 0.1;

/// Outputs of one side that are not results, beside those of the other, which are.
#[derive(Debug, Clone, Copy)]
enum Lie {
    /// Values that are infinite or not a number.
    NotFinite { odd: usize, values: usize },
    /// All values are zero.
    Zeros,
    /// Rows that are zero.
    Unwritten { zero: usize, rows: usize },
    /// Two batches have the same outputs.
    Stale,
}

impl Lie {
    fn kind(self) -> DifferenceKind {
        match self {
            Self::NotFinite { .. } => DifferenceKind::NotFinite,
            Self::Zeros | Self::Unwritten { .. } => DifferenceKind::Zeros,
            Self::Stale => DifferenceKind::Stale,
        }
    }

    fn of_case(self, name: &str) -> String {
        match self {
            Self::NotFinite { odd, values } => {
                format!("output `{name}`: {odd} of {values} values are infinite or not a number")
            }
            Self::Zeros => {
                format!("output `{name}`: all values are zero, and the reference's are not")
            }
            Self::Unwritten { zero, rows } => {
                format!(
                    "output `{name}`: {zero} of {rows} rows are zero, and the reference's are not"
                )
            }
            Self::Stale => format!(
                "output `{name}` is the same for two batches whose outputs differ in the reference: it does not \
                 follow its input"
            ),
        }
    }

    fn of_reference(self, name: &str) -> String {
        match self {
            Self::NotFinite { odd, values } => format!(
                "the reference's output `{name}`: {odd} of {values} values are infinite or not a number, and here \
                 they are finite"
            ),
            Self::Zeros => {
                format!(
                    "the reference's output `{name}`: all values are zero, and here they are not"
                )
            }
            Self::Unwritten { zero, rows } => format!(
                "the reference's output `{name}`: {zero} of {rows} rows are zero, and here they are not"
            ),
            Self::Stale => format!(
                "the reference's output `{name}` is the same for two batches whose outputs differ here"
            ),
        }
    }
}

/// Returns whether outputs are not results at all. Sizes up to `least` may be zero.
fn lie(least: f64, pairs: &[Pair]) -> Option<Lie> {
    let values = || pairs.iter().flat_map(Pair::values);
    let odd = values().filter(|(reference, found)| reference.is_finite() && !found.is_finite());
    let odd = odd.count();
    if odd > 0 {
        return Some(Lie::NotFinite { odd, values: values().count() });
    }
    let scale = values().map(|(reference, _)| reference.abs()).filter(|size| size.is_finite());
    let scale = scale.fold(0.0, f64::max);
    if scale > least && values().all(|(_, found)| found == 0.0) {
        return Some(Lie::Zeros);
    }
    if let Some((zero, rows)) = unwritten_rows(pairs, least) {
        return Some(Lie::Unwritten { zero, rows });
    }
    let [first, second] = pairs else { return None };
    // By more than the steps of a precision with few of them, which can hide a small difference.
    let differ =
        first.reference.iter().zip(&second.reference).any(|(one, other)| {
            (f64::from(*one) - f64::from(*other)).abs() > least.max(STEPS * scale)
        });
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    (differ && bits(&first.found) == bits(&second.found)).then_some(Lie::Stale)
}

/// Returns how many rows are zero although the reference's are about as large as its others, and the number of rows;
/// `None` if there are no such rows. Measures over all rows do not see a few that were never written.
fn unwritten_rows(pairs: &[Pair], least: f64) -> Option<(usize, usize)> {
    let greatest = |row: &[f32]| {
        let sizes = row.iter().map(|value| f64::from(value.abs()));
        sizes.filter(|size| size.is_finite()).fold(0.0, f64::max)
    };
    let rows = pairs.iter().flat_map(Pair::rows).filter(|(reference, _)| reference.len() > 1);
    let rows: Vec<(f64, bool)> = rows
        .map(|(reference, found)| (greatest(reference), found.iter().all(|value| *value == 0.0)))
        .collect();
    let sizes: Vec<f64> = rows.iter().map(|(size, _)| *size).collect();
    let typical = host_statistics::median(&sizes)?;
    let is_unwritten =
        |(size, zero): &&(f64, bool)| *zero && *size > least && 2.0 * size >= typical;
    let unwritten = rows.iter().filter(is_unwritten).count();
    (unwritten > 0).then_some((unwritten, rows.len()))
}

/// How an output is judged.
struct Rules {
    tolerance: Tolerance,
    precision: Precision,
    /// Whether the output is known to be class scores.
    named: bool,
}

impl Rules {
    fn of_output(&self, name: &str, pairs: &[Pair]) -> OutputParity {
        let Tolerance { absolute, of_scale, relative, .. } = self.tolerance;
        let finite = |value: f64| value.is_finite().then_some(value);
        let moments = PairMoments::of(pairs.iter().flat_map(Pair::values));
        let scale = scale(pairs);
        // Values that are not finite in the reference must be equal.
        let base = (absolute + of_scale * scale).max(smallest(self.precision));
        let base = if are_probabilities(pairs) { base + step_of_one(self.precision) } else { base };
        let (mut values, mut beyond, mut far_beyond) = (0, 0, 0);
        let (mut greatest, mut greatest_relative) = (0.0_f64, 0.0_f64);
        for (reference, found) in pairs.iter().flat_map(Pair::values) {
            let error = (found - reference).abs();
            let same = reference == found || (reference.is_nan() && found.is_nan());
            values += 1;
            let allowed = base + relative * reference.abs();
            beyond += u64::from(!(same || error <= allowed));
            far_beyond += u64::from(!(same || error <= Tolerance::OUTLIER * allowed));
            if reference.is_finite() {
                // Unlike `f64::max`, a value that is not a number stays.
                greatest = if error > greatest || error.is_nan() { error } else { greatest };
                if reference.abs() > base {
                    let error = error / reference.abs();
                    let is_greater = error > greatest_relative || error.is_nan();
                    greatest_relative = if is_greater { error } else { greatest_relative };
                }
            }
        }
        OutputParity {
            name: name.to_owned(),
            values,
            beyond,
            far_beyond,
            max_absolute_error: finite(greatest),
            max_relative_error: finite(greatest_relative),
            scale: finite(scale),
            cosine: finite(moments.cosine()).filter(|_| scale > smallest(self.precision)),
            correlation: self.correlation(&moments),
            row_error: self.row_error(pairs),
            top1: share(
                pairs.iter().flat_map(Pair::rows).map(|(one, other)| place(one) == place(other)),
            ),
            same_class: self.same_class(pairs, scale),
        }
    }

    /// Returns the greatest error of a row as a part of its own size. A row that is much smaller than the typical one is
    /// held against a part of that: its values may be differences of larger ones, and inherit their rounding.
    fn row_error(&self, pairs: &[Pair]) -> Option<f64> {
        /// Part of the typical row's size that counts at least.
        const LEAST: f64 = 0.25;
        if pairs.iter().all(|pair| pair.whole) {
            return None;
        }
        let least = smallest(self.precision);
        let parts: Vec<(f64, f64)> = pairs.iter().flat_map(Pair::parts).collect();
        let sizes: Vec<f64> =
            parts.iter().map(|(size, _)| *size).filter(|it| *it > least).collect();
        // The lower of two medians: of two rows, the larger one must not hide the smaller.
        let typical = (!sizes.is_empty())
            .then(|| order_statistics(&sizes, &[Quantile::P50.rank(sizes.len())])[0])?;
        // A row of small probabilities has the error of a sigmoid. Steps of lower precisions could hide whole rows.
        let step = if are_probabilities(pairs) { step_of_one(Precision::Fp32) } else { 0.0 };
        let allowed = self.tolerance.absolute + step;
        let relative = |(size, error): &(f64, f64)| {
            if *error <= allowed { 0.0 } else { error / size.max(LEAST * typical) }
        };
        let errors = parts.iter().map(relative);
        errors.reduce(
            |greatest, error| if error > greatest || error.is_nan() { error } else { greatest },
        )
    }

    /// Returns the correlation. If the reference's values hardly differ, rounding alone takes it from 1, and it is
    /// not judged: noise of size ν beside values that spread by σ leaves 1 − (ν/σ)² / 2 of it.
    fn correlation(&self, moments: &PairMoments) -> Option<f64> {
        const FEWEST: f64 = 3.0;
        // The bound is reached at noise of 1 / MARGIN of this.
        const MARGIN: f64 = 1.5;
        // Of an error that is anywhere up to the greatest, root mean square.
        let noise = rounding(self.precision) / 3_f64.sqrt() * moments.reference_rms();
        let room = (2.0 * (1.0 - self.tolerance.cosine)).sqrt();
        let judged = moments.count >= FEWEST && moments.reference_spread() * room > MARGIN * noise;
        Some(moments.correlation()).filter(|found| judged && found.is_finite())
    }

    /// Returns the share of clear rows with the same class, or of whole numbers that are equal.
    fn same_class(&self, pairs: &[Pair], scale: f64) -> Option<f64> {
        if pairs.iter().all(|pair| pair.whole) {
            return share(pairs.iter().flat_map(Pair::values).map(|(one, other)| one == other));
        }
        let rows = || pairs.iter().flat_map(Pair::rows);
        if !self.named && !rows().all(|(reference, _)| is_distribution(reference)) {
            return None;
        }
        let clear = rows().filter(|(reference, _)| self.is_clear(reference, scale));
        share(clear.map(|(reference, found)| place(reference) == place(found)))
    }

    /// Returns whether the largest value stands out from the second. A smaller lead is lost to honest rounding.
    fn is_clear(&self, row: &[f32], scale: f64) -> bool {
        let place = place(row);
        let others = row.iter().enumerate().filter(|(index, _)| *index != place);
        let second = others.map(|(_, value)| f64::from(*value)).fold(f64::NEG_INFINITY, f64::max);
        let first = f64::from(row[place]);
        first - second > clear_lead(self.precision) * (scale + first.abs())
    }
}

/// Returns the lead of a class that rounding and quantisation do not take, as a part of its value and the output's scale
/// together: several times what they change.
fn clear_lead(precision: Precision) -> f64 {
    match precision {
        Precision::Fp32 => 1e-4,
        Precision::Fp16 => 1e-2,
        Precision::Bf16 => 8e-2,
        Precision::Int8 => 2e-1,
    }
}

/// Sums over pairs of values whose reference is finite, about the first pair, so that nearly equal values keep their
/// digits.
#[derive(Debug, Default)]
struct PairMoments {
    count: f64,
    reference_mean: f64,
    found_mean: f64,
    /// Sums of squared distances from the means, and of the products of the distances.
    reference_square: f64,
    found_square: f64,
    product: f64,
}

impl PairMoments {
    /// Adds pair after pair (Welford's method).
    fn of(values: impl Iterator<Item = (f64, f64)>) -> Self {
        let mut moments = Self::default();
        for (reference, found) in values.filter(|(reference, _)| reference.is_finite()) {
            moments.count += 1.0;
            let by_reference = reference - moments.reference_mean;
            let by_found = found - moments.found_mean;
            moments.reference_mean += by_reference / moments.count;
            moments.found_mean += by_found / moments.count;
            moments.reference_square += by_reference * (reference - moments.reference_mean);
            moments.found_square += by_found * (found - moments.found_mean);
            moments.product += by_reference * (found - moments.found_mean);
        }
        moments
    }

    fn reference_spread(&self) -> f64 {
        (self.reference_square / self.count.max(1.0)).sqrt()
    }

    fn reference_rms(&self) -> f64 {
        self.reference_spread().hypot(self.reference_mean)
    }

    fn cosine(&self) -> f64 {
        let Self { count, reference_mean, found_mean, .. } = self;
        let product = self.product + count * reference_mean * found_mean;
        let reference_square = self.reference_square + count * reference_mean * reference_mean;
        let found_square = self.found_square + count * found_mean * found_mean;
        product / (reference_square.sqrt() * found_square.sqrt())
    }

    /// Returns Pearson's correlation; 0 if the output is constant and the reference is not.
    fn correlation(&self) -> f64 {
        if self.found_square == 0.0 {
            return 0.0;
        }
        self.product / (self.reference_square.sqrt() * self.found_square.sqrt())
    }
}

/// Returns the contraharmonic mean of the sizes of the reference's finite values; 0 if all are 0.
fn scale(pairs: &[Pair]) -> f64 {
    let values = pairs.iter().flat_map(Pair::values).map(|(reference, _)| reference.abs());
    let sums = values
        .filter(|size| size.is_finite())
        .fold((0.0, 0.0), |(squares, sum), size| (squares + size * size, sum + size));
    if sums.1 > 0.0 { sums.0 / sums.1 } else { 0.0 }
}

/// Returns whether a row is a softmax, or the logarithm of one.
fn is_distribution(row: &[f32]) -> bool {
    // The precision of the reference may be low.
    const CLOSE: f64 = 0.02;
    let values = || row.iter().map(|value| f64::from(*value));
    let is_one = |sum: f64| (sum - 1.0).abs() <= CLOSE;
    let softmax =
        values().all(|value| (0.0..=1.0 + CLOSE).contains(&value)) && is_one(values().sum());
    let logarithm = || values().all(|value| value <= CLOSE) && is_one(values().map(f64::exp).sum());
    softmax || logarithm()
}

/// Returns the place of the largest value.
fn place(row: &[f32]) -> usize {
    (1..row.len()).fold(0, |best, index| if row[index] > row[best] { index } else { best })
}

/// Returns the share that is true.
fn share(items: impl Iterator<Item = bool>) -> Option<f64> {
    let (mut same, mut of) = (0_u64, 0_u64);
    for item in items {
        of += 1;
        same += u64::from(item);
    }
    (of > 0).then(|| same as f64 / of as f64)
}

/// Returns whether all values lie between 0 and 1, so that they may be probabilities.
fn are_probabilities(pairs: &[Pair]) -> bool {
    let is_of_unit = |(reference, _): (f64, f64)| (0.0..=1.0).contains(&reference);
    pairs.iter().flat_map(Pair::values).all(is_of_unit)
}

/// Returns the error of a function with values between 0 and 1 that is computed to the precision of 1 and not of its
/// value, as a sigmoid is.
fn step_of_one(precision: Precision) -> f64 {
    match precision {
        Precision::Fp32 => f64::exp2(-21.0),
        Precision::Fp16 => f64::exp2(-11.0),
        Precision::Bf16 => f64::exp2(-8.0),
        // Its tolerance is larger than any.
        Precision::Int8 => 0.0,
    }
}

/// Returns the first output that exceeds the tolerance.
fn beyond(parity: &Parity) -> Option<Difference> {
    let tolerance = parity.tolerance;
    let output = parity.outputs.iter().find(|output| {
        let below = |found: Option<f64>, bound: f64| found.is_some_and(|found| found < bound);
        output.far_beyond > 0
            || output.beyond as f64 > tolerance.outliers * output.values as f64
            || below(output.cosine, tolerance.cosine)
            || below(output.correlation, tolerance.cosine)
            || below(output.same_class, tolerance.top1)
            || output.row_error.is_some_and(|found| found.is_nan() || found > tolerance.row_error())
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
        "output `{}`: {} of {} values are beyond the tolerance{}{}{}{}{}{}{}{}; allowed: {tolerance}",
        output.name,
        output.beyond,
        output.values,
        figure("scale of the reference", output.scale),
        figure("greatest error", output.max_absolute_error),
        figure("relative", output.max_relative_error),
        share("cosine", output.cosine),
        share("correlation", output.correlation),
        figure("greatest error of a row beside its size", output.row_error),
        share("top-1 agreement", output.shown_top1()),
        share("of clear rows or whole numbers", output.same_class),
    );
    Some(Difference::OfCase(DifferenceKind::BeyondTolerance, detail))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use host_record::{DeviceInfo, FileId, PluginIdentity};
    use host_statistics::Random;

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

    fn in_precision(precision: Precision) -> Case {
        Case { precision, labelled: false }
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
        match compare(&check(Precision::Fp32), in_precision(Precision::Fp32), &reference, &found) {
            Err(Failure::Differs { difference, detail, .. }) => (difference, detail),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn outputs_within_the_tolerance_pass_with_their_figures() {
        let reference = batches(&FIRST, &SECOND);
        let found = batches(&[1.0005, -2.0, 3.0, 4.0], &SECOND);
        let parity =
            compare(&check(Precision::Fp32), in_precision(Precision::Fp32), &reference, &found);
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
        insta::assert_snapshot!(detail, @"output `logits`: 2 of 8 values are beyond the tolerance, scale of the reference 5.667e0, greatest error 1.600e1, relative 2.000e0, cosine 0.373856, correlation 0.387633, greatest error of a row beside its size 1.505e0; allowed: 1e-4 of the scale + 1e-3 of the value, 0.5 % of values ten times as much, cosine 0.9999, top-1 99.9 % (in fp32; the reference is cpu 0.1.0 on cpu:0 in fp32)");
        // Half a precision allows more.
        let reference = batches(&FIRST, &SECOND);
        let found = batches(&[1.01, -2.0, 3.0, 4.0], &SECOND);
        compare(&check(Precision::Fp16), in_precision(Precision::Fp16), &reference, &found)
            .expect("in fp16");
        compare(&check(Precision::Fp32), in_precision(Precision::Fp32), &reference, &found)
            .expect_err("in fp32");
    }

    #[test]
    fn values_that_are_not_outputs_are_named() {
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
    fn a_reference_that_is_not_a_result_is_told_and_the_case_not_blamed() {
        let told = |first: &[f32], second: &[f32]| {
            let (reference, found) = (batches(first, second), batches(&FIRST, &SECOND));
            let case = in_precision(Precision::Fp32);
            match compare(&check(Precision::Fp32), case, &reference, &found) {
                Err(Failure::NoReference { detail }) => detail,
                other => panic!("{other:?}"),
            }
        };
        insta::assert_snapshot!(told(&[0.0; 4], &[0.0; 4]), @"the reference's output `logits`: all values are zero, and here they are not. One of the two is wrong, and nothing tells which; compare with another reference (this one is cpu 0.1.0 on cpu:0 in fp32)");
        let odd = told(&FIRST, &[5.0, f32::NAN, -7.0, f32::INFINITY]);
        assert!(odd.contains("2 of 8 values are infinite or not a number, and here"), "{odd}");
        let stale = told(&FIRST, &FIRST);
        assert!(stale.contains("is the same for two batches whose outputs differ here"), "{stale}");
        let row = told(&[1.0, -2.0, 0.0, 0.0], &SECOND);
        assert!(row.contains("1 of 4 rows are zero, and here they are not"), "{row}");
    }

    #[test]
    fn a_few_values_may_be_off_by_more() {
        let reference = vec![1.0_f32; 1000];
        let with = |wrong: usize, error: f32| {
            let mut found = reference.clone();
            found[..wrong].iter_mut().for_each(|value| *value += error);
            judged(Precision::Fp32, false, &reference, &found, 1).is_ok()
        };
        assert!(with(5, 5e-3), "five times the tolerance, in one of 200 values");
        assert!(!with(6, 5e-3), "in more");
        assert!(!with(1, 2e-2), "twenty times");
    }

    #[test]
    fn probabilities_are_as_exact_as_those_near_one() {
        // A detector that sees nothing: a sigmoid's error is a step of 1, not of the value.
        let reference: Vec<f32> = (0..1000).map(|index| 1e-5 + 1e-8 * index as f32).collect();
        let found: Vec<f32> = reference.iter().map(|value| value + 2e-8).collect();
        judged(Precision::Fp32, false, &reference, &found, 1).expect("a sigmoid");
        let mut signed = reference.clone();
        signed[0] = -1e-5;
        let found: Vec<f32> = signed.iter().map(|value| value + 2e-8).collect();
        judged(Precision::Fp32, false, &signed, &found, 1).expect_err("not a probability");
        // A row with less to see than the others has the same error.
        let dim = |value: f32, row: usize| if row == 3 { value / 10.0 } else { value };
        let reference: Vec<f32> =
            reference.iter().enumerate().map(|(index, value)| dim(*value, index / 100)).collect();
        let wrong = |error: f32| {
            let found = reference.iter().enumerate();
            let found: Vec<f32> = found
                .map(|(at, value)| if at / 100 == 3 { value + error } else { *value })
                .collect();
            judged(Precision::Fp32, false, &reference, &found, 10)
        };
        wrong(1.2e-7).expect("a sigmoid");
        wrong(1.2e-6).expect_err("more than its error");
    }

    #[test]
    fn a_row_that_was_never_written_is_told() {
        let rows = |last: [f32; 2]| {
            let row = |index: usize| [index as f32 + 40.0, -3.0];
            let values = (0..63).flat_map(row).chain(last).collect::<Vec<_>>();
            vec![output(&[64, 2], &values), output(&[64, 2], &values[..])]
        };
        let compared = |reference: [f32; 2], found: [f32; 2]| {
            let int8 = Precision::Int8;
            compare(&check(int8), in_precision(int8), &rows(reference), &rows(found))
        };
        let error = compared([90.0, -3.0], [0.0, 0.0]).expect_err("the last row is missing");
        assert!(error.to_string().contains("2 of 128 rows are zero"), "{error}");
        compared([90.0, -3.0], [90.0, 0.0]).expect("a value may be rounded to zero");
        compared([0.1, -0.1], [0.0, 0.0]).expect("a small row may be rounded to zero");
    }

    #[test]
    fn other_shapes_and_names_are_no_numbers_to_compare() {
        let reference = batches(&FIRST, &SECOND);
        let mut found = reference.clone();
        found[1] = output(&[4, 1], &SECOND);
        let failure =
            compare(&check(Precision::Fp32), in_precision(Precision::Fp32), &reference, &found);
        let failure = failure.expect_err("another shape").to_string();
        insta::assert_snapshot!(failure, @"the outputs differ from the reference's (shape): output `logits` has the shape [4, 1], and the reference's [2, 2] (in fp32; the reference is cpu 0.1.0 on cpu:0 in fp32)");
        let mut found = reference.clone();
        found[0][0].0 = "other".into();
        compare(&check(Precision::Fp32), in_precision(Precision::Fp32), &reference, &found)
            .expect_err("a name");
    }

    #[test]
    fn a_model_that_answers_with_zeros_or_always_the_same_is_no_lie() {
        for values in [[0.0; 4], [1.0; 4]] {
            let same = batches(&values, &values);
            compare(&check(Precision::Fp32), in_precision(Precision::Fp32), &same, &same)
                .expect("as the reference");
        }
        // The same values that are not finite, on both sides, agree.
        let odd = batches(&[f32::NAN, f32::INFINITY, 1.0, 2.0], &SECOND);
        compare(&check(Precision::Fp32), in_precision(Precision::Fp32), &odd, &odd)
            .expect("as the reference");
    }

    /// Returns what a comparison of one batch says, in a precision, with its default tolerance.
    fn judged(
        precision: Precision,
        labelled: bool,
        reference: &[f32],
        found: &[f32],
        row: usize,
    ) -> Result<OutputParity, Box<OutputParity>> {
        let shape = [(reference.len() / row) as i64, row as i64];
        let batch = |values: &[f32]| vec![output(&shape, values)];
        let case = Case { precision, labelled };
        match compare(&check(precision), case, &batch(reference), &batch(found)) {
            Ok(parity) => Ok(parity.outputs[0].clone()),
            Err(Failure::Differs { parity, .. }) => Err(Box::new(parity.outputs[0].clone())),
            Err(other) => panic!("{other}"),
        }
    }

    fn normals(random: &mut Random, count: usize) -> Vec<f64> {
        // The sum of twelve uniform numbers is close enough.
        let mut one = || (0..12).map(|_| random.uniform()).sum::<f64>() - 6.0;
        (0..count).map(|_| one()).collect()
    }

    fn softmax(logits: &[f64]) -> Vec<f32> {
        let sum: f64 = logits.iter().map(|logit| logit.exp()).sum();
        logits.iter().map(|logit| (logit.exp() / sum) as f32).collect()
    }

    fn shuffled(random: &mut Random, values: &[f32]) -> Vec<f32> {
        let mut values = values.to_vec();
        for index in (1..values.len()).rev() {
            values.swap(index, random.below(index as u64 + 1) as usize);
        }
        values
    }

    fn unit(values: Vec<f64>) -> Vec<f32> {
        let length = values.iter().map(|value| value * value).sum::<f64>().sqrt();
        values.into_iter().map(|value| (value / length) as f32).collect()
    }

    fn noisy(random: &mut Random, values: &[f32], relative: f64) -> Vec<f32> {
        let noise = normals(random, values.len());
        let pairs = values.iter().zip(noise);
        pairs.map(|(value, noise)| (f64::from(*value) * (1.0 + relative * noise)) as f32).collect()
    }

    const ALL: [Precision; 4] =
        [Precision::Fp32, Precision::Fp16, Precision::Bf16, Precision::Int8];

    #[test]
    fn other_answers_differ_in_every_precision_however_small_the_values() {
        let mut random = Random::from_seed(1);
        for precision in ALL {
            for _ in 0..50 {
                let scores = softmax(&normals(&mut random, 10));
                let reversed: Vec<f32> = scores.iter().rev().copied().collect();
                judged(precision, false, &scores, &reversed, 10).expect_err("reversed");
                let scores = softmax(&normals(&mut random, 1000));
                let other = shuffled(&mut random, &scores);
                judged(precision, false, &scores, &other, 1000).expect_err("shuffled");
                let [one, other] = [(); 2].map(|()| unit(normals(&mut random, 768)));
                judged(precision, false, &one, &other, 768).expect_err("another direction");
                // Probabilities that differ by 3 %.
                let logits: Vec<f64> =
                    normals(&mut random, 1000).into_iter().map(|logit| 0.03 * logit).collect();
                let uniform = softmax(&logits);
                let other = shuffled(&mut random, &uniform);
                judged(precision, false, &uniform, &other, 1000).expect_err("nearly uniform");
            }
        }
    }

    /// The hidden states of a sequence: a row for each token, of which the first is by far the largest.
    #[test]
    fn a_large_row_does_not_hide_the_others() {
        type Wrong = fn(&[f32]) -> Vec<f32>;
        let mut random = Random::from_seed(4);
        let wrong: [Wrong; 3] = [
            |row| row.iter().map(|value| -value).collect(),
            |row| row.iter().rev().copied().collect(),
            |row| vec![row.iter().sum::<f32>() / row.len() as f32; row.len()],
        ];
        for (precision, error) in ALL.into_iter().zip([1e-6, 1e-3, 8e-3, 3e-2]) {
            for tokens in [2, 3, 16] {
                let row = |random: &mut Random, size: f64| -> Vec<f32> {
                    normals(random, 64).iter().map(|value| (size * value) as f32).collect()
                };
                let rows: Vec<Vec<f32>> = (0..tokens)
                    .map(|token| row(&mut random, if token == 0 { 300.0 } else { 1.0 }))
                    .collect();
                let honest: Vec<Vec<f32>> =
                    rows.iter().map(|row| noisy(&mut random, row, error)).collect();
                judged(precision, false, &rows.concat(), &honest.concat(), 64).expect("rounding");
                for make in wrong {
                    let mut found = honest.clone();
                    found[tokens - 1] = make(&rows[tokens - 1]);
                    let figures = judged(precision, false, &rows.concat(), &found.concat(), 64)
                        .expect_err("the last row is another one");
                    assert!(figures.row_error > Some(0.9), "{precision}: {figures:?}");
                    // Over all rows, a coarse precision hides it.
                    if [Precision::Bf16, Precision::Int8].contains(&precision) {
                        assert_eq!(figures.beyond, 0, "{precision}");
                        assert!(figures.cosine > Some(0.995), "{precision}: {figures:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_example_with_more_axes_than_a_sequence_is_judged_as_a_whole() {
        let images = |second: f32| {
            let image = |level: f32| (0..32).map(move |index| level * (index as f32 - 11.0));
            let values: Vec<f32> = image(300.0).chain(image(second)).collect();
            vec![output(&[2, 2, 4, 4], &values)]
        };
        let compared = |second: f32| {
            let case = in_precision(Precision::Int8);
            compare(&check(Precision::Int8), case, &images(1.0), &images(second)).is_ok()
        };
        assert!(compared(1.1), "rounding");
        assert!(!compared(-1.0), "another image");
    }

    #[test]
    fn honest_rounding_passes_in_every_precision() {
        let mut random = Random::from_seed(2);
        // Errors of the logits as the default tolerances allow for: several steps of rounding.
        let errors = [1e-6, 1e-3, 8e-3, 3e-2];
        for (precision, error) in ALL.into_iter().zip(errors) {
            for _ in 0..50 {
                for (spread, classes) in [(1.0, 10), (2.5, 1000), (6.0, 1000)] {
                    let logits = normals(&mut random, classes);
                    let logits: Vec<f64> = logits.iter().map(|logit| spread * logit).collect();
                    let noise = normals(&mut random, classes);
                    let found = logits.iter().zip(&noise);
                    let found: Vec<f64> =
                        found.map(|(logit, noise)| logit + error * spread * noise).collect();
                    judged(precision, false, &softmax(&logits), &softmax(&found), classes)
                        .unwrap_or_else(|figures| panic!("{precision}: {figures:?}"));
                    let narrow = |values: &[f64]| -> Vec<f32> {
                        values.iter().map(|value| *value as f32).collect()
                    };
                    judged(precision, false, &narrow(&logits), &narrow(&found), classes)
                        .unwrap_or_else(|figures| panic!("{precision}: {figures:?}"));
                }
                let one = unit(normals(&mut random, 768));
                let found = noisy(&mut random, &one, error);
                judged(precision, false, &one, &found, 768).expect("the same embedding");
                // Rounding takes all differences from probabilities that are nearly the same.
                let step = rounding(precision);
                let level = 1.0 + step / 4.0;
                let reference: Vec<f32> = normals(&mut random, 100)
                    .iter()
                    .map(|it| (level + step * it / 8.0) as f32)
                    .collect();
                judged(precision, false, &reference, &[level as f32; 100], 100).expect("rounded");
            }
        }
    }

    #[test]
    fn a_verdict_does_not_depend_on_the_unit_of_the_output() {
        let mut random = Random::from_seed(3);
        for precision in [Precision::Fp32, Precision::Bf16, Precision::Int8] {
            for error in [1e-6, 1e-4, 1e-2, 1.0] {
                let one: Vec<f32> = normals(&mut random, 64).iter().map(|it| *it as f32).collect();
                let found = noisy(&mut random, &one, error);
                let verdicts = [-40, -10, 0, 20].map(|power| {
                    let scaled = |values: &[f32]| -> Vec<f32> {
                        values.iter().map(|value| value * f32::exp2(power as f32)).collect()
                    };
                    judged(precision, false, &scaled(&one), &scaled(&found), 8).is_ok()
                });
                assert!(verdicts.iter().all(|it| *it == verdicts[0]), "{precision}: {verdicts:?}");
            }
        }
    }

    #[test]
    fn another_class_differs_where_an_output_is_class_scores() {
        // The first class of a row has lost its lead: the direction hardly changes.
        let scores = [0.9_f32, 0.05, 0.05, 0.6, 0.2, 0.2].repeat(8);
        let mut found = scores.clone();
        (found[3], found[4]) = (0.38, 0.42);
        let passed = |found: &[f32]| judged(Precision::Int8, false, &scores, found, 3);
        let figures = passed(&found).expect("one of 16 rows");
        assert_eq!((figures.top1, figures.same_class), (Some(0.9375), Some(0.9375)));
        (found[9], found[10]) = (0.38, 0.42);
        let figures = passed(&found).expect_err("two of 16 rows");
        assert_eq!((figures.beyond, figures.same_class), (0, Some(0.875)));
        assert!(figures.cosine > Some(0.95) && figures.correlation > Some(0.95), "{figures:?}");
        // Rows that hardly lead are not counted.
        let close = [0.400_f32, 0.399, 0.201].repeat(4);
        let other = [0.399_f32, 0.400, 0.201].repeat(4);
        let figures = judged(Precision::Fp16, false, &close, &other, 3).expect("a near tie");
        assert_eq!((figures.top1, figures.same_class), (Some(0.0), None));
        // Logits are class scores if the examples have labels. Otherwise it may be an embedding.
        let logits = [4.0_f32, 1.0, -5.0].repeat(16);
        let mut found = logits.clone();
        for row in [0, 5] {
            (found[3 * row], found[3 * row + 1]) = (2.4, 2.5);
        }
        judged(Precision::Int8, false, &logits, &found, 3).expect("no classes");
        judged(Precision::Int8, true, &logits, &found, 3).expect_err("other classes");
    }

    #[test]
    fn whole_numbers_are_the_same_or_not() {
        let output = |values: &[i64]| {
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let data = TensorData { dtype: DataType::I64, shape: vec![values.len() as i64], bytes };
            vec![vec![("label".to_owned(), data)]]
        };
        let labels: Vec<i64> = (0..20).map(|index| 500 + 7 * index).collect();
        let compared = |changed: usize| {
            let mut found = labels.clone();
            found.iter_mut().take(changed).for_each(|label| *label += 1);
            let case = in_precision(Precision::Int8);
            compare(&check(Precision::Int8), case, &output(&labels), &output(&found)).is_ok()
        };
        assert!(compared(2), "nine in ten are the same");
        assert!(!compared(3), "too few are the same");
    }
}
