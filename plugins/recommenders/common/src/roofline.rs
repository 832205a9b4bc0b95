/*!
Times of a batch, predicted from those that were measured, with intervals.

# The shape

A roofline (S. Williams, A. Waterman and D. Patterson, "Roofline: An Insightful Visual Performance Model for Multicore
Architectures", *Communications of the ACM* 52(4), 2009) says that a pass takes at least as long as its operations at the
device's peak, and as its bytes at the memory's. A smooth form of it, with a part that does not depend on the work, has three
terms that are not negative:

> time = overhead + operations / (*a* · peak of operations) + bytes / (*b* · peak of bytes)

- **Within a family** (cases that differ in the batch alone) operations grow in proportion to the batch, and bytes in
  proportion beside the weights, which are read once. So the form is overhead + slope · batch. Departures of the measured
  times from it, such as a batch that no longer fits into a cache, are interpolated in the logarithm of the batch.
- **In a family that was not measured**, the operations, bytes and peaks must be known, and the terms are fitted to all
  families of the same backend, mode and scenario.

Both are least squares of relative errors with terms that are not negative (C. L. Lawson and R. J. Hanson, *Solving Least
Squares Problems*, 1974, chapter 23; with so few terms, each set of them is tried).

# The interval

The interval is conformal: it assumes nothing about the shape being right, only that the case to predict is like those that
were measured. Each measured case is left out and predicted from the rest, and the errors of these predictions, as factors,
say how far a prediction can be off. Within families that is the *jackknife+*, and for other families its form with folds,
*CV+*, where whole families are left out (R. F. Barber, E. J. Candès, A. Ramdas and R. J. Tibshirani, "Predictive inference
with the jackknife+", *Annals of Statistics* 49(1), 2021). Theory promises that 1 − 2α of such intervals hold at the least, and
about 1 − α do.

# Refusals

Nothing is predicted beyond what was measured: a batch outside of a family's smallest and largest; a family whose operations or
bytes, divided by the peaks, are outside of the measured ones; and from too few cases for an interval at the confidence: *n*
errors suffice for *n* / (*n* + 1).
*/

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A measured time of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// The case's id.
    pub case: String,
    /// Coordinates that are the same for all cases that differ in the batch alone.
    pub family: String,
    /// Coordinates that are the same for all families that are fitted together: backend, mode and scenario.
    pub group: String,
    /// Examples of a batch.
    pub batch: f64,
    /// Seconds for a batch.
    pub seconds: f64,
    /// The least seconds for a batch by the device's peaks, if operations, bytes and peaks are known.
    pub ideal: Option<Ideal>,
}

/// The least seconds that a batch takes by a device's peaks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ideal {
    /// For its operations.
    pub compute: f64,
    /// For its bytes.
    pub memory: f64,
}

/// Basis of a prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// Smaller and larger batches of the same family.
    Between,
    /// Other families.
    OtherFamilies,
}

/// A predicted time of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicted {
    /// Seconds.
    pub seconds: f64,
    /// Bounds of the interval.
    pub interval: (f64, f64),
    /// Its basis.
    pub basis: Basis,
    /// Errors that the interval is made of.
    pub errors: usize,
    /// Ids of the cases that it was made from.
    pub cases: Vec<String>,
}

/// Reason why nothing is predicted.
#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    /// The batch is outside of those measured in the family.
    BeyondBatches {
        /// The smallest.
        least: f64,
        /// The largest.
        most: f64,
    },
    /// The ideal time is outside of those measured.
    BeyondIdeal {
        /// `operations` or `bytes`.
        what: &'static str,
    },
    /// There are too few errors for an interval at the confidence.
    TooFew {
        /// Errors that there are.
        errors: usize,
        /// Errors that it takes.
        needed: usize,
        /// What they are of.
        basis: Basis,
    },
    /// No family is fit to learn from.
    NothingAlike,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeyondBatches { least, most } => write!(
                formatter,
                "beyond the measured batches, which go from {least} to {most}: nothing shows what happens there"
            ),
            Self::BeyondIdeal { what } => write!(
                formatter,
                "its {what}, at the device's peak, take longer or shorter than those of every measured case"
            ),
            Self::TooFew { errors, needed, basis: Basis::Between } => write!(
                formatter,
                "an interval needs {needed} cases with a smaller and a larger batch beside them, and the run has {errors}"
            ),
            Self::TooFew { errors, needed, basis: Basis::OtherFamilies } => write!(
                formatter,
                "an interval needs {needed} cases of at least two families with known operations, bytes and peaks, and the \
                 run has {errors}"
            ),
            Self::NothingAlike => formatter.write_str(
                "no case of the same backend, mode and scenario has known operations, bytes and peaks",
            ),
        }
    }
}

/// Errors of predictions of a family's cases, each left out and predicted from the rest.
#[derive(Debug, Clone, PartialEq)]
pub struct FamilyErrors {
    /// The family.
    pub family: String,
    /// Basis of the predictions.
    pub basis: Basis,
    /// Errors as factors minus 1, such as 0.05 for 5 %, the smallest first.
    pub errors: Vec<f64>,
}

impl FamilyErrors {
    /// Returns the median error.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.errors[(self.errors.len() - 1) / 2]
    }

    /// Returns the largest error.
    #[must_use]
    pub fn largest(&self) -> f64 {
        self.errors[self.errors.len() - 1]
    }
}

/// The measured times, and how well they predict each other.
#[derive(Debug, Clone)]
pub struct Predictor {
    families: BTreeMap<String, Vec<Observation>>,
    groups: BTreeMap<String, Vec<Observation>>,
    /// Logarithmic errors of inner cases of families, with the family and the place in it.
    inner: Vec<(String, usize, f64)>,
    /// Logarithmic errors of cases whose family was left out: group, family and error.
    outer: Vec<(String, String, f64)>,
}

impl Predictor {
    /// Takes the measured times. Of several for one batch of a family the first counts; a time that is not above zero is left
    /// out.
    #[must_use]
    pub fn new(observations: impl IntoIterator<Item = Observation>) -> Self {
        let mut families: BTreeMap<String, Vec<Observation>> = BTreeMap::new();
        let mut groups: BTreeMap<String, Vec<Observation>> = BTreeMap::new();
        let is_positive = |number: f64| number.is_finite() && number > 0.0;
        for one in observations {
            if !is_positive(one.seconds) || !is_positive(one.batch) {
                continue;
            }
            let family = families.entry(one.family.clone()).or_default();
            if family.iter().any(|other| other.batch == one.batch) {
                continue;
            }
            family.push(one.clone());
            if one.ideal.is_some_and(|it| is_positive(it.compute) && is_positive(it.memory)) {
                groups.entry(one.group.clone()).or_default().push(one);
            }
        }
        families.values_mut().for_each(|family| {
            family.sort_by(|one, other| one.batch.total_cmp(&other.batch));
        });
        let mut inner = Vec::new();
        for (name, family) in &families {
            for place in 1..family.len().saturating_sub(1) {
                let rest = without(family, &[place]);
                let own = &family[place];
                let error = within(&rest, own.batch) - own.seconds.ln();
                inner.push((name.clone(), place, error.abs()));
            }
        }
        let mut outer = Vec::new();
        for (name, group) in &groups {
            let of_group: BTreeSet<&String> = group.iter().map(|one| &one.family).collect();
            if of_group.len() < 2 {
                continue;
            }
            for family in of_group {
                let rest: Vec<&Observation> =
                    group.iter().filter(|one| one.family != *family).collect();
                let terms = terms_of(&rest);
                for one in group.iter().filter(|one| one.family == *family) {
                    // What would be refused says nothing of what is predicted.
                    let Some(ideal) = one.ideal.filter(|ideal| beyond(&rest, ideal).is_none())
                    else {
                        continue;
                    };
                    let error = across(&terms, &ideal) - one.seconds.ln();
                    outer.push((name.clone(), family.clone(), error.abs()));
                }
            }
        }
        Self { families, groups, inner, outer }
    }

    /// Returns the measured times of each family, by the batch.
    pub fn families(&self) -> impl Iterator<Item = (&str, &[Observation])> {
        self.families.iter().map(|(name, family)| (name.as_str(), family.as_slice()))
    }

    /// Predicts the time of a batch of a measured family.
    ///
    /// # Errors
    ///
    /// If the batch is beyond the measured ones, or there are too few errors.
    pub fn between(&self, family: &str, batch: f64, confidence: f64) -> Result<Predicted, Refusal> {
        let known = self.families.get(family).ok_or(Refusal::NothingAlike)?;
        let (least, most) = (known[0].batch, known[known.len() - 1].batch);
        if !(least..=most).contains(&batch) {
            return Err(Refusal::BeyondBatches { least, most });
        }
        let all: Vec<&Observation> = known.iter().collect();
        let middle = within(&all, batch);
        let bounds = self.inner.iter().map(|(of, place, error)| {
            // Leaving out a case of another family changes nothing here.
            let without_it = match of == family {
                true => within(&without(known, &[*place]), batch),
                false => middle,
            };
            (without_it - error, without_it + error)
        });
        let interval = interval(bounds.collect(), middle, confidence, Basis::Between)?;
        Ok(Predicted {
            seconds: middle.exp(),
            interval,
            basis: Basis::Between,
            errors: self.inner.len(),
            cases: known.iter().map(|one| one.case.clone()).collect(),
        })
    }

    /// Predicts the time of a batch of a family that was not measured, by its ideal times.
    ///
    /// # Errors
    ///
    /// If they are beyond the measured ones, or there are too few errors.
    pub fn elsewhere(
        &self,
        group: &str,
        ideal: &Ideal,
        confidence: f64,
    ) -> Result<Predicted, Refusal> {
        let known = self.groups.get(group).ok_or(Refusal::NothingAlike)?;
        let all: Vec<&Observation> = known.iter().collect();
        if let Some(what) = beyond(&all, ideal) {
            return Err(Refusal::BeyondIdeal { what });
        }
        let middle = across(&terms_of(&all), ideal);
        let mut fitted: BTreeMap<&String, f64> = BTreeMap::new();
        for (of, family, _) in &self.outer {
            if of == group && !fitted.contains_key(family) {
                let rest: Vec<&Observation> =
                    known.iter().filter(|one| one.family != *family).collect();
                fitted.insert(family, across(&terms_of(&rest), ideal));
            }
        }
        let bounds = self.outer.iter().map(|(of, family, error)| {
            let without_it =
                if of == group { fitted.get(family).copied().unwrap_or(middle) } else { middle };
            (without_it - error, without_it + error)
        });
        let interval = interval(bounds.collect(), middle, confidence, Basis::OtherFamilies)?;
        Ok(Predicted {
            seconds: middle.exp(),
            interval,
            basis: Basis::OtherFamilies,
            errors: self.outer.len(),
            cases: known.iter().map(|one| one.case.clone()).collect(),
        })
    }

    /// Returns the errors of each family's cases, left out and predicted from the rest.
    #[must_use]
    pub fn errors(&self) -> Vec<FamilyErrors> {
        let mut all: BTreeMap<(String, Basis), Vec<f64>> = BTreeMap::new();
        for (family, _, error) in &self.inner {
            all.entry((family.clone(), Basis::Between)).or_default().push(error.exp_m1());
        }
        for (_, family, error) in &self.outer {
            all.entry((family.clone(), Basis::OtherFamilies)).or_default().push(error.exp_m1());
        }
        let of_family = |((family, basis), mut errors): ((String, Basis), Vec<f64>)| {
            errors.sort_by(f64::total_cmp);
            FamilyErrors { family, basis, errors }
        };
        all.into_iter().map(of_family).collect()
    }

    /// Returns the logarithmic error that half of the predictions of a basis stay below; `None` without any.
    #[must_use]
    pub fn typical_error(&self, basis: Basis) -> Option<f64> {
        let mut errors: Vec<f64> = match basis {
            Basis::Between => self.inner.iter().map(|(.., error)| *error).collect(),
            Basis::OtherFamilies => self.outer.iter().map(|(.., error)| *error).collect(),
        };
        errors.sort_by(f64::total_cmp);
        errors.get(errors.len().checked_sub(1)? / 2).copied()
    }

    /// Returns the logarithm of the time of a batch by the family's overhead and slope, also beyond the measured batches. It has
    /// no interval: it is for choosing what to measure, and not a prediction.
    #[must_use]
    pub fn trend(&self, family: &str, batch: f64) -> Option<f64> {
        let known = self.families.get(family)?;
        Some(within(&known.iter().collect::<Vec<_>>(), batch))
    }
}

/// Returns a family without the cases at these places.
fn without<'a>(family: &'a [Observation], places: &[usize]) -> Vec<&'a Observation> {
    let kept = family.iter().enumerate().filter(|(place, _)| !places.contains(place));
    kept.map(|(_, one)| one).collect()
}

/// Returns the logarithm of a batch's time within a family of at least one case: overhead and slope, times the departures of
/// the neighbours, interpolated.
fn within(family: &[&Observation], batch: f64) -> f64 {
    let rows: Vec<[f64; 3]> = family.iter().map(|one| [1.0, one.batch, 0.0]).collect();
    let times: Vec<f64> = family.iter().map(|one| one.seconds).collect();
    let terms = fit(&rows, &times, 2);
    let shape = |batch: f64| (terms[0] + terms[1] * batch).max(f64::MIN_POSITIVE).ln();
    let departure = |one: &Observation| one.seconds.ln() - shape(one.batch);
    let next = family.partition_point(|one| one.batch < batch);
    let correction = match (next.checked_sub(1).map(|place| family[place]), family.get(next)) {
        (Some(below), Some(above)) => {
            let part = (batch / below.batch).ln() / (above.batch / below.batch).ln();
            departure(below) * (1.0 - part) + departure(above) * part
        }
        (Some(nearest), None) => departure(nearest),
        (None, Some(nearest)) => departure(nearest),
        (None, None) => 0.0,
    };
    shape(batch) + correction
}

/// Fits the three terms to cases with ideal times.
fn terms_of(cases: &[&Observation]) -> [f64; 3] {
    let with_ideal = cases.iter().filter_map(|one| Some((one.ideal?, one.seconds)));
    let (rows, times): (Vec<[f64; 3]>, Vec<f64>) =
        with_ideal.map(|(ideal, seconds)| ([1.0, ideal.compute, ideal.memory], seconds)).unzip();
    fit(&rows, &times, 3)
}

/// Returns the logarithm of the time by the three terms.
fn across(terms: &[f64; 3], ideal: &Ideal) -> f64 {
    let time = terms[0] + terms[1] * ideal.compute + terms[2] * ideal.memory;
    time.max(f64::MIN_POSITIVE).ln()
}

/// Returns which of the ideal times is outside of those of all cases.
fn beyond(cases: &[&Observation], ideal: &Ideal) -> Option<&'static str> {
    let outside = |of: fn(&Ideal) -> f64| {
        let times = cases.iter().filter_map(|one| one.ideal.as_ref().map(of));
        let (least, most) = times.fold((f64::INFINITY, 0.0_f64), |(least, most), time| {
            (least.min(time), most.max(time))
        });
        // The same ideal time, computed in another order, differs in its last digits.
        let slack = 1.0 + 1e-9;
        of(ideal) * slack < least || of(ideal) > most * slack
    };
    match () {
        () if outside(|ideal| ideal.compute) => Some("operations"),
        () if outside(|ideal| ideal.memory) => Some("bytes"),
        () => None,
    }
}

/// Returns the bounds of a conformal interval, from the bounds that each error alone would give.
fn interval(
    bounds: Vec<(f64, f64)>,
    middle: f64,
    confidence: f64,
    basis: Basis,
) -> Result<(f64, f64), Refusal> {
    let errors = bounds.len();
    let miss = 1.0 - confidence;
    // The epsilon is for whole numbers that the product misses.
    let upper = (confidence * (errors as f64 + 1.0) - 1e-9).ceil() as usize;
    if upper > errors || errors == 0 {
        let needed = (confidence / miss - 1e-9).ceil() as usize;
        return Err(Refusal::TooFew { errors, needed, basis });
    }
    let lower = ((miss * (errors as f64 + 1.0) + 1e-9).floor() as usize).max(1);
    let (mut lows, mut highs): (Vec<f64>, Vec<f64>) = bounds.into_iter().unzip();
    lows.sort_by(f64::total_cmp);
    highs.sort_by(f64::total_cmp);
    Ok((lows[lower - 1].min(middle).exp(), highs[upper - 1].max(middle).exp()))
}

/// Least squares of relative errors, with terms that are not negative, of which the first `count` are used.
fn fit(rows: &[[f64; 3]], times: &[f64], count: usize) -> [f64; 3] {
    let mut best = ([0.0; 3], f64::INFINITY);
    for set in 1..1_usize << count {
        let places: Vec<usize> = (0..count).filter(|place| (set >> place) & 1 == 1).collect();
        let Some(found) = solve(rows, times, &places) else { continue };
        if found.iter().any(|term| *term < 0.0 || !term.is_finite()) {
            continue;
        }
        let error: f64 = rows
            .iter()
            .zip(times)
            .map(|(row, time)| {
                let fitted: f64 = row.iter().zip(&found).map(|(one, term)| one * term).sum();
                (fitted / time - 1.0).powi(2)
            })
            .sum();
        // Fewer terms are kept unless more of them say more.
        if error < best.1 - 1e-12 {
            best = (found, error);
        }
    }
    best.0
}

/// Solves the normal equations of some of the terms, each row divided by its time.
fn solve(rows: &[[f64; 3]], times: &[f64], places: &[usize]) -> Option<[f64; 3]> {
    let size = places.len();
    // Columns are scaled, since bytes and batches differ by many powers of ten.
    let scale: Vec<f64> = places
        .iter()
        .map(|place| {
            let sum: f64 =
                rows.iter().zip(times).map(|(row, time)| (row[*place] / time).powi(2)).sum();
            sum.sqrt()
        })
        .collect();
    if scale.contains(&0.0) || rows.len() < size {
        return None;
    }
    let mut equations = vec![vec![0.0; size + 1]; size];
    for (row, time) in rows.iter().zip(times) {
        let scaled: Vec<f64> =
            places.iter().zip(&scale).map(|(place, scale)| row[*place] / time / scale).collect();
        for (equation, one) in equations.iter_mut().zip(&scaled) {
            for (cell, other) in equation.iter_mut().zip(&scaled) {
                *cell += one * other;
            }
            equation[size] += one;
        }
    }
    for step in 0..size {
        let pivot = (step..size).max_by(|one, other| {
            equations[*one][step].abs().total_cmp(&equations[*other][step].abs())
        })?;
        equations.swap(step, pivot);
        if equations[step][step].abs() < 1e-12 {
            return None;
        }
        let own = equations[step].clone();
        for (place, equation) in equations.iter_mut().enumerate() {
            if place != step {
                let factor = equation[step] / own[step];
                for (cell, own) in equation.iter_mut().zip(&own) {
                    *cell -= factor * own;
                }
            }
        }
    }
    let mut terms = [0.0; 3];
    for (step, place) in places.iter().enumerate() {
        terms[*place] = equations[step][size] / equations[step][step] / scale[step];
    }
    Some(terms)
}

#[cfg(test)]
mod tests {
    use host_statistics::Random;
    use proptest::prelude::*;

    use super::*;

    fn observation(family: &str, batch: f64, seconds: f64) -> Observation {
        Observation {
            case: format!("{family}-{batch}"),
            family: family.into(),
            group: "g".into(),
            batch,
            seconds,
            ideal: None,
        }
    }

    /// A normal deviate, by the central limit theorem: twelve uniform ones.
    fn deviate(random: &mut Random) -> f64 {
        (0..12).map(|_| random.bits() as f64 / u64::MAX as f64).sum::<f64>() - 6.0
    }

    #[test]
    fn a_line_is_found_and_terms_are_not_negative() {
        let rows: Vec<[f64; 3]> = [1.0, 2.0, 8.0].map(|batch| [1.0, batch, 0.0]).into();
        let found = fit(&rows, &[3.0, 5.0, 17.0], 2);
        assert!((found[0] - 1.0).abs() < 1e-9 && (found[1] - 2.0).abs() < 1e-9, "{found:?}");
        // Times that grow faster than the batch have no overhead, and not a negative one.
        let found = fit(&rows, &[1.0, 3.0, 20.0], 2);
        assert!(found[0] == 0.0 && found[1] > 0.0, "{found:?}");
        let ideal: Vec<[f64; 3]> = [(1e-3, 5e-6), (4e-3, 2e-6), (2e-4, 8e-5), (3e-3, 7e-5)]
            .map(|(c, m)| [1.0, c, m])
            .into();
        let times: Vec<f64> = ideal.iter().map(|row| 1e-4 + 2.0 * row[1] + 3.0 * row[2]).collect();
        let found = fit(&ideal, &times, 3);
        for (term, expected) in found.into_iter().zip([1e-4, 2.0, 3.0]) {
            assert!((term / expected - 1.0).abs() < 1e-6, "{found:?}");
        }
    }

    fn families(random: &mut Random, noise: f64) -> Vec<Observation> {
        let mut all = Vec::new();
        for family in 0..6 {
            let overhead = 1e-4 * (1.0 + family as f64);
            let slope = 1e-5 * (1.0 + (family % 3) as f64);
            for power in 0..6 {
                let batch = f64::from(1 << power);
                let time = (overhead + slope * batch) * (noise * deviate(random)).exp();
                all.push(observation(&family.to_string(), batch, time));
            }
        }
        all
    }

    /// The intervals hold as often as they say, for held-out batches of simulated families.
    #[test]
    fn intervals_hold_as_often_as_they_say() {
        let mut random = Random::from_seed(7);
        let (mut held, mut all) = (0, 0);
        for _ in 0..40 {
            let measured = families(&mut random, 0.05);
            for place in (0..measured.len()).filter(|place| ![0, 5].contains(&(place % 6))) {
                let mut rest = measured.clone();
                let out = rest.remove(place);
                let found = Predictor::new(rest).between(&out.family, out.batch, 0.9);
                let (low, high) = found.expect("a prediction").interval;
                held += usize::from((low..=high).contains(&out.seconds));
                all += 1;
            }
        }
        let part = f64::from(u32::try_from(held).expect("few")) / f64::from(all);
        assert!((0.85..=0.96).contains(&part), "{part}");
    }

    #[test]
    fn nothing_is_predicted_beyond_what_was_measured() {
        let measured = families(&mut Random::from_seed(1), 0.01);
        let predictor = Predictor::new(measured.clone());
        assert!(predictor.between("0", 3.0, 0.9).is_ok());
        insta::assert_snapshot!(
            predictor.between("0", 64.0, 0.9).expect_err("beyond"),
            @"beyond the measured batches, which go from 1 to 32: nothing shows what happens there"
        );
        let few = Predictor::new(measured[..6].to_vec());
        insta::assert_snapshot!(
            few.between("0", 3.0, 0.9).expect_err("four errors"),
            @"an interval needs 9 cases with a smaller and a larger batch beside them, and the run has 4"
        );
        assert!(few.between("0", 3.0, 0.8).is_ok());
        insta::assert_snapshot!(
            predictor.elsewhere("g", &Ideal { compute: 1.0, memory: 1.0 }, 0.9).expect_err("no peaks"),
            @"no case of the same backend, mode and scenario has known operations, bytes and peaks"
        );
    }

    /// Families whose devices reach different parts of their peaks: the efficiency of a family is a factor of its own.
    fn with_ideal_times(random: &mut Random, families: usize) -> Vec<Observation> {
        let mut all = Vec::new();
        for family in 0..families {
            let name = family.to_string();
            let work = 1e-5 * (0.5 * deviate(random)).exp();
            let traffic = 1e-6 * (0.5 * deviate(random)).exp();
            let efficiency = (0.1 * deviate(random)).exp();
            for power in 0..6 {
                let batch = f64::from(1 << power);
                let ideal = Ideal { compute: work * batch, memory: traffic * (20.0 + batch) };
                let time = 5e-5 + 1.5 * ideal.compute + 2.0 * ideal.memory;
                let seconds = time * efficiency * (0.03 * deviate(random)).exp();
                all.push(Observation { ideal: Some(ideal), ..observation(&name, batch, seconds) });
            }
        }
        all
    }

    /// The cases of a family resemble each other, so the errors of eight families say less than their number. Theory promises
    /// 80 % of 90 % intervals at the least.
    #[test]
    fn a_family_that_was_not_measured_is_predicted_by_its_ideal_times() {
        let mut random = Random::from_seed(3);
        let (mut held, mut all) = (0_u32, 0_u32);
        for _ in 0..60 {
            let measured = with_ideal_times(&mut random, 9);
            let (held_out, rest): (Vec<_>, Vec<_>) =
                measured.into_iter().partition(|one| one.family == "8");
            let predictor = Predictor::new(rest);
            for out in &held_out {
                let ideal = out.ideal.expect("one");
                let Ok(found) = predictor.elsewhere("g", &ideal, 0.9) else { continue };
                assert_eq!((found.basis, found.cases.len()), (Basis::OtherFamilies, 48));
                held += u32::from((found.interval.0..=found.interval.1).contains(&out.seconds));
                all += 1;
            }
        }
        let part = f64::from(held) / f64::from(all);
        assert!(all > 200 && (0.8..=0.98).contains(&part), "{held} of {all}");
        let predictor = Predictor::new(with_ideal_times(&mut random, 4));
        let far = Ideal { compute: 1.0, memory: 3e-5 };
        insta::assert_snapshot!(
            predictor.elsewhere("g", &far, 0.9).expect_err("beyond"),
            @"its operations, at the device's peak, take longer or shorter than those of every measured case"
        );
    }

    proptest! {
        /// A prediction lies in its interval, and for a measured batch is the measured time.
        #[test]
        fn a_measured_batch_is_predicted_as_measured(
            times in prop::collection::vec(1e-6..1.0_f64, 14),
            batch in 1.0..64.0_f64,
        ) {
            let batches = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
            let all = times.iter().enumerate().map(|(place, time)| {
                observation(if place < 7 { "a" } else { "b" }, batches[place % 7], *time)
            });
            let predictor = Predictor::new(all);
            for (batch, time) in batches.iter().zip(&times) {
                let found = predictor.between("a", *batch, 0.9).expect("within");
                prop_assert!((found.seconds / time - 1.0).abs() < 1e-9);
            }
            let found = predictor.between("a", batch, 0.9).expect("within");
            let (low, high) = found.interval;
            prop_assert!(0.0 < low && low <= found.seconds && found.seconds <= high);
        }
    }
}
