//! Curves that never fall.

/// Returns the non-decreasing sequence that is nearest to `values` by weighted least squares, by pooling adjacent
/// violators (M. Ayer et al., "An Empirical Distribution Function for Sampling with Incomplete Information", *Annals
/// of Mathematical Statistics* 26(4), 1955; R. E. Barlow et al., *Statistical Inference under Order Restrictions*,
/// 1972, § 1.2). Takes as many steps as there are values.
///
/// # Panics
///
/// If there are not as many weights as values, or a weight is not above zero.
#[must_use]
pub fn isotonic(values: &[f64], weights: &[f64]) -> Vec<f64> {
    assert_eq!(values.len(), weights.len(), "each value has a weight");
    assert!(weights.iter().all(|weight| *weight > 0.0), "weights are above zero");
    // Mean, weight and number of the values of each pool.
    let mut pools: Vec<(f64, f64, usize)> = Vec::with_capacity(values.len());
    for (value, weight) in values.iter().zip(weights) {
        let mut pool = (*value, *weight, 1);
        while let Some(&(mean, before, count)) = pools.last().filter(|(mean, ..)| *mean >= pool.0) {
            let sum = before + pool.1;
            pool = ((mean * before + pool.0 * pool.1) / sum, sum, count + pool.2);
            pools.pop();
        }
        pools.push(pool);
    }
    pools.into_iter().flat_map(|(mean, _, count)| std::iter::repeat_n(mean, count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_fall_are_pooled() {
        assert_eq!(isotonic(&[1.0, 2.0, 3.0], &[1.0; 3]), [1.0, 2.0, 3.0]);
        assert_eq!(isotonic(&[3.0, 2.0, 1.0], &[1.0; 3]), [2.0; 3]);
        assert_eq!(isotonic(&[1.0, 4.0, 2.0, 5.0], &[1.0, 1.0, 3.0, 1.0]), [1.0, 2.5, 2.5, 5.0]);
        assert!(isotonic(&[], &[]).is_empty());
    }
}
