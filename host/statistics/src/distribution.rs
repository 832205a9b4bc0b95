/*!
Distributions for intervals and tests: normal, Student's *t*, and the regularised
incomplete beta function, which is the binomial distribution's.

Each is good to about 1e-13 of its value, tails included; the tests compare with SciPy at 1e-12.
*/

use std::f64::consts::TAU;

/// Returns the density of the standard normal distribution.
fn normal_density(deviate: f64) -> f64 {
    (-0.5 * deviate * deviate).exp() / TAU.sqrt()
}

/// Returns P(*Z* > `deviate`) for a standard normal *Z*.
///
/// Near the middle it uses the series of G. Marsaglia ("Evaluating the Normal Distribution",
/// *Journal of Statistical Software* 11(4), 2004), further out Laplace's continued fraction for
/// Mills' ratio (*Digital Library of Mathematical Functions*, 7.9.1).
#[must_use]
pub fn normal_tail(deviate: f64) -> f64 {
    /// From here the series would lose digits to subtraction.
    const FAR: f64 = 2.0;
    /// Fractions that are needed at `FAR`; further out fewer would do.
    const DEPTH: u32 = 100;

    if deviate < 0.0 {
        return 1.0 - normal_tail(-deviate);
    }
    if deviate > FAR {
        let below = (1..DEPTH).rev().fold(deviate, |rest, depth| deviate + f64::from(depth) / rest);
        return normal_density(deviate) / below;
    }
    let mut term = deviate;
    let mut sum = deviate;
    let mut odd = 1.0;
    while term > sum * f64::EPSILON * 0.1 {
        odd += 2.0;
        term *= deviate * deviate / odd;
        sum += term;
    }
    0.5 - normal_density(deviate) * sum
}

/// Returns the standard normal deviate that is exceeded with probability 1 − `probability`: −∞ for
/// 0 and ∞ for 1.
///
/// # Panics
///
/// If `probability` is not between 0 and 1.
#[must_use]
pub fn normal_quantile(probability: f64) -> f64 {
    assert!((0.0..=1.0).contains(&probability), "a probability lies between 0 and 1");
    if probability <= 0.5 {
        -upper_normal_quantile(probability)
    } else {
        upper_normal_quantile(1.0 - probability)
    }
}

/// Returns the deviate that is exceeded with probability `tail`, at most one half.
///
/// The logarithm of the tail is concave, so Newton's steps from the right of the solution approach
/// it without passing it. They begin where the bound exp(−z²/2) / 2 has that tail.
fn upper_normal_quantile(tail: f64) -> f64 {
    if tail == 0.0 {
        return f64::INFINITY;
    }
    let mut deviate = (-2.0 * (2.0 * tail).ln()).sqrt();
    while deviate > 0.0 {
        let above = normal_tail(deviate);
        let next = deviate - (tail / above).ln() * above / normal_density(deviate);
        if next >= deviate * (1.0 - f64::EPSILON) {
            break;
        }
        deviate = next;
    }
    deviate.max(0.0)
}

/// Returns the *p*-quantile of Student's *t* with `degrees` degrees of freedom, which need not be
/// whole; −∞ for 0 and ∞ for 1.
///
/// # Panics
///
/// If `probability` is not between 0 and 1, or `degrees` is not above 0.
#[must_use]
pub fn student_quantile(probability: f64, degrees: f64) -> f64 {
    assert!((0.0..=1.0).contains(&probability), "a probability lies between 0 and 1");
    assert!(degrees > 0.0, "degrees of freedom are above 0");
    if probability <= 0.5 {
        -upper_student_quantile(probability, degrees)
    } else {
        upper_student_quantile(1.0 - probability, degrees)
    }
}

/// The tail is convex, and the normal quantile lies to the left of the solution, so Newton's
/// steps approach it without passing it.
fn upper_student_quantile(tail: f64, degrees: f64) -> f64 {
    let mut deviate = upper_normal_quantile(tail);
    while deviate > 0.0 && deviate.is_finite() {
        let square = deviate * deviate;
        let (inside, outside) = (degrees / (degrees + square), square / (degrees + square));
        let above = 0.5 * beta_fraction(degrees / 2.0, 0.5, inside, outside);
        // The density, times the deviate, is the beta function's integrand at the same place.
        let density = beta_front(degrees / 2.0, 0.5, inside, outside) / deviate;
        let next = deviate + (above - tail) / density;
        if next <= deviate * (1.0 + f64::EPSILON) {
            break;
        }
        deviate = next;
    }
    deviate
}

/// Returns the regularised incomplete beta function I(`x`; `a`, `b`): the probability that a beta
/// variable is at most `x`, and, for whole *h* and *t*, that a binomial one of *h* + *t* trials is
/// at least *h*: I(*p*; *h*, *t* + 1).
///
/// Uses the continued fraction of A. R. DiDonato and A. H. Morris ("Algorithm 708", *ACM
/// Transactions on Mathematical Software* 18(3), 1992, BFRAC), which takes about √max(`a`, `b`)
/// steps.
///
/// # Panics
///
/// If `x` is not between 0 and 1, or `a` or `b` is not above 0.
#[must_use]
pub fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    assert!((0.0..=1.0).contains(&x), "the argument lies between 0 and 1");
    assert!(a > 0.0 && b > 0.0, "both parameters are above 0");
    beta_fraction(a, b, x, 1.0 - x)
}

/// Returns I(x; a, b), with y = 1 − x passed in to keep its digits.
fn beta_fraction(a: f64, b: f64, x: f64, y: f64) -> f64 {
    if x == 0.0 || y == 0.0 {
        return if x == 0.0 { 0.0 } else { 1.0 };
    }
    // The fraction converges fast on this side of the mean only.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_fraction(b, a, y, x);
    }
    // Lentz's method, as modified by Thompson and Barnett.
    const TINY: f64 = 1e-300;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let distance = y * a - x * b;
    let mut fraction = away_from_zero(a * (distance + 1.0) / (a + 1.0));
    let mut numerator = fraction;
    let mut denominator = 0.0;
    let mut step = 0.0;
    loop {
        step += 1.0;
        let twice = a + 2.0 * step;
        let share = step * (b - step) * x / (twice - 1.0);
        let above = (a + step - 1.0) * (a + b + step - 1.0) * share * x / (twice - 1.0);
        let below = step + share + (a + step) * (distance + 1.0 + step * (1.0 + y)) / (twice + 1.0);
        denominator = 1.0 / away_from_zero(below + above * denominator);
        numerator = away_from_zero(below + above / numerator);
        let change = numerator * denominator;
        fraction *= change;
        if (change - 1.0).abs() <= f64::EPSILON {
            return beta_front(a, b, x, y) / fraction;
        }
    }
}

/// Returns xᵃ yᵇ / B(a, b), without the cancellation of three large logarithms of gamma functions
/// (C. Loader, "Fast and Accurate Computation of Binomial Probabilities", 2000).
fn beta_front(a: f64, b: f64, x: f64, y: f64) -> f64 {
    let (distance, sum) = (x * b - y * a, a + b);
    let exponent = a * logarithm_less_argument(distance / a, x * sum / a)
        + b * logarithm_less_argument(-distance / b, y * sum / b)
        + binet(sum)
        - binet(a)
        - binet(b);
    exponent.exp() * (a * b / (TAU * sum)).sqrt()
}

/// Returns ln(1 + x) − x, with 1 + x passed in to keep its digits if x is close to −1.
fn logarithm_less_argument(x: f64, one_more: f64) -> f64 {
    if x.abs() > 0.3 {
        return one_more.ln() - x;
    }
    // With r = x / (2 + x), ln(1 + x) is 2 (r + r³/3 + r⁵/5 + …), and 2 r − x is −x r.
    let ratio = x / (2.0 + x);
    let square = ratio * ratio;
    let mut power = 2.0 * ratio * square;
    let mut odd = 3.0;
    let mut sum = 0.0;
    while power.abs() > f64::MIN_POSITIVE && power.abs() / odd > (x * ratio).abs() * 1e-18 {
        sum += power / odd;
        power *= square;
        odd += 2.0;
    }
    sum - x * ratio
}

/// Returns Binet's function, the remainder of Stirling's formula for ln Γ(z) (*Digital Library of
/// Mathematical Functions*, 5.11.1).
fn binet(mut z: f64) -> f64 {
    /// B₂ₖ / (2k (2k − 1)) of the asymptotic series.
    const COEFFICIENTS: [f64; 7] = [
        1.0 / 12.0,
        -1.0 / 360.0,
        1.0 / 1260.0,
        -1.0 / 1680.0,
        1.0 / 1188.0,
        -691.0 / 360_360.0,
        1.0 / 156.0,
    ];
    // The series is for large arguments; small ones are led there by Γ(z + 1) = z Γ(z).
    let mut sum = 0.0;
    while z < 16.0 {
        sum += (z + 0.5) * (1.0 / z).ln_1p() - 1.0;
        z += 1.0;
    }
    let inverse_square = 1.0 / (z * z);
    let series = COEFFICIENTS
        .iter()
        .rev()
        .fold(0.0, |rest, coefficient| rest * inverse_square + coefficient);
    sum + series / z
}
