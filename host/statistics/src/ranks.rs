//! Ranks of a series in the order in which it was measured.

use std::cmp::Ordering;

use crate::distribution::normal_quantile;
use crate::moments::Value;

/// Returns the ranks minus their mean; equal values have the mean of their ranks.
pub(crate) fn centred_ranks<T: Value>(values: &[T]) -> Vec<f64> {
    let count = values.len() as f64;
    let mut order: Vec<(T, u32)> = values.iter().copied().zip(0..).collect();
    order.sort_unstable_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal));
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0;
    for group in order.chunk_by(|a, b| a.0 == b.0) {
        let rank = (before as f64 + (group.len() as f64 + 1.0) / 2.0) - (count + 1.0) / 2.0;
        for &(_, index) in group {
            ranks[index as usize] = rank;
        }
        before += group.len();
    }
    ranks
}

/// Returns the normal deviates with the same ranks (C. I. Bliss, *Statistics in Biology*, 1967: the
/// quantile at (rank − 1/2) / *n*).
pub(crate) fn normal_scores<T: Value>(values: &[T]) -> Vec<f64> {
    let count = values.len() as f64;
    let mut scores = centred_ranks(values);
    scores.iter_mut().for_each(|rank| *rank = normal_quantile(0.5 + *rank / count));
    scores
}
