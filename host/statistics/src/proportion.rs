//! Proportions.

use crate::distribution::normal_quantile;

/// Returns the Wilson score interval at `confidence` of the proportion `successes / trials`; `None` if
/// there are no trials or more successes than trials.
///
/// The interval stays inside 0 and 1, and keeps its coverage if the proportion is close to either, which the
/// textbook interval does not (E. B. Wilson, *Journal of the American Statistical Association* 22(158), 1927;
/// L. D. Brown, T. T. Cai and A. DasGupta, *Statistical Science* 16(2), 2001).
///
/// # Panics
///
/// If `confidence` is not strictly between 0 and 1.
#[must_use]
pub fn wilson_interval(successes: u64, trials: u64, confidence: f64) -> Option<(f64, f64)> {
    assert!(confidence > 0.0 && confidence < 1.0, "a confidence lies between 0 and 1");
    if trials == 0 || successes > trials {
        return None;
    }
    let (successes, trials) = (successes as f64, trials as f64);
    let deviate = normal_quantile(0.5 + confidence / 2.0);
    let square = deviate * deviate;
    let proportion = successes / trials;
    let scale = 1.0 / (1.0 + square / trials);
    let centre = (proportion + square / (2.0 * trials)) * scale;
    let spread = deviate
        * (proportion * (1.0 - proportion) / trials + square / (4.0 * trials * trials)).sqrt()
        * scale;
    // At either end the bound is the proportion itself; rounding must not push it past.
    let low = if successes == 0.0 { 0.0 } else { (centre - spread).clamp(0.0, proportion) };
    let high = if successes == trials { 1.0 } else { (centre + spread).clamp(proportion, 1.0) };
    Some((low, high))
}
