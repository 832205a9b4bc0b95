/*!
Number of queries that MLPerf's inference rules require.

Both functions state how confident one may be, from the queries seen, that a percentile of all
queries' latencies is within a limit. The first fixes the number beforehand; the second lets it
depend on how many queries were over the limit.
*/

use crate::distribution::{incomplete_beta, normal_quantile};
use crate::quantile::Quantile;

/// Queries for a percentile, fixed beforehand: *z*² *p* (1 − *p*) / margin² with a margin of
/// (1 − *p*) / 20 and *z* the two-sided normal deviate at `confidence`, rounded up to a multiple of
/// 2¹³ (V. J. Reddi et al., "MLPerf Inference Benchmark", ISCA 2020). At 99 %: 24,576 for p90,
/// 270,336 for p99.
///
/// # Panics
///
/// If `confidence` is not strictly between 0 and 1.
#[must_use]
pub fn queries_for_percentile(quantile: Quantile, confidence: f64) -> u64 {
    const STEP: u64 = 1 << 13;

    assert!(confidence > 0.0 && confidence < 1.0, "a confidence lies between 0 and 1");
    let (within, over) = (quantile.probability(), quantile.complement());
    let margin = over / 20.0;
    let deviate = normal_quantile(0.5 + confidence / 2.0);
    let queries = deviate * deviate * within * over / (margin * margin);
    (queries.ceil() as u64).next_multiple_of(STEP)
}

/// Returns the total number of queries, those over the limit included, from which on the percentile is
/// within the limit with `confidence` even if `over_limit` of them are over it: *h* + *t* for *t* =
/// `over_limit` and the smallest *h* ≥ 1 with I(*p*; *h*, *t* + 1) ≤ 1 − *c*.
///
/// MLPerf's early stopping (*MLPerf Inference Rules*, "Early stopping"; LoadGen's
/// `early_stopping.cc`), with its tolerance *d* at 0. I(*p*; *h*, *t* + 1) is the probability that at
/// most *t* of *h* + *t* queries are over the limit if the percentile lies exactly on it. The figures
/// that MLPerf publishes for *t* = 1 at 99 %, 64 queries for p90, 662 for p99 and 6,636 for p99.9, are
/// *h* + *t*: *h* is one less.
///
/// # Panics
///
/// If `confidence` is not strictly between 0 and 1.
#[must_use]
pub fn queries_needed(quantile: Quantile, over_limit: u64, confidence: f64) -> u64 {
    assert!(confidence > 0.0 && confidence < 1.0, "a confidence lies between 0 and 1");
    let over = over_limit as f64 + 1.0;
    let enough = |within: u64| {
        incomplete_beta(quantile.probability(), within as f64, over) <= 1.0 - confidence
    };
    // The chance falls as queries are added: double, then halve.
    let mut too_few = 0;
    let mut within = 1;
    while !enough(within) {
        too_few = within;
        within *= 2;
    }
    while within - too_few > 1 {
        let middle = too_few + (within - too_few) / 2;
        if enough(middle) {
            within = middle;
        } else {
            too_few = middle;
        }
    }
    within + over_limit
}

/// Returns how many of `total` queries may be over the limit so that the percentile is still within
/// it with `confidence`: the largest *t* for which [`queries_needed`] is at most `total`. `None` if
/// the queries are too few even if none is over.
///
/// The percentile is then at most the (*t* + 1)-th largest latency, with that confidence. LoadGen
/// reports the *t*-th largest, which is one rank more than necessary.
///
/// # Panics
///
/// If `confidence` is not strictly between 0 and 1.
#[must_use]
pub fn over_limit_allowed(quantile: Quantile, total: u64, confidence: f64) -> Option<u64> {
    let allowed = |over_limit| queries_needed(quantile, over_limit, confidence) <= total;
    if !allowed(0) {
        return None;
    }
    let mut most = 0;
    let mut too_many = total;
    while too_many - most > 1 {
        let middle = most + (too_many - most) / 2;
        if allowed(middle) {
            most = middle;
        } else {
            too_many = middle;
        }
    }
    Some(most)
}
