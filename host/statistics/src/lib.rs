/*!
Statistics of measurements: exact, pure, without dependencies, and compiled both into the host
and into the WASM guests.

# Which quantile

There are nine definitions of a sample quantile in use (R. J. Hyndman and Y. Fan, "Sample
Quantiles in Statistical Packages", *The American Statistician* 50(4), 1996). This crate has one:
their type 1, the **nearest rank**. The *p*-quantile of *n* values is the ⌈*n p*⌉-th smallest:
the smallest value that at least the fraction *p* of all values does not exceed. NumPy calls it
`method="inverted_cdf"`, SQL `PERCENTILE_DISC`, and it is what HdrHistogram and the load testers
built on it report. NumPy's default, type 7, interpolates between two values instead. We do not,
for three reasons:

- The answer is a latency that some query really had, not one between two modes that none had.
- "99 % of the queries took at most *x*" is then true of the sample as it is worded. Interpolation
  makes it false by up to one query, and tails are made of single queries.
- The interval around it is made of two of the same sorted values, so that the point is always
  inside and on the same footing.

The rank is computed in integers. A floating ⌈*n p*⌉ is off by one where *n p* is a whole number
that the product misses: 0.07 × 100 is 7.000000000000001.

# How many values a quantile needs

A sample of fifty has no 99.9th percentile to speak of: its nearest rank is its maximum. The rule
here is that a quantile is stated only where its two-sided distribution-free interval exists at
the asked confidence ([`Quantile::minimum_count`]), and is otherwise refused as [`TooFew`]: at
95 %, 6 values for the median, 36 for p90, 72 for p95, 368 for p99, 3688 for p99.9.

# The interval

Bounds are two of the sorted values, chosen by the binomial distribution of how many values lie
below the true quantile ([`Quantile::interval_ranks`]). They assume independent values from one
distribution, and nothing of its shape (H. A. David and H. N. Nagaraja, *Order Statistics*, 3rd
ed., 2003, § 7.1; G. J. Hahn and W. Q. Meeker, *Statistical Intervals*, 1991, § 5.2).

# No sorting

Sorting ten million latencies to read fifteen of them is a waste: see [`order_statistics`].
*/

mod autocorrelation;
mod bootstrap;
mod distribution;
mod early_stopping;
mod interval;
mod mann_whitney;
mod moments;
mod outliers;
mod proportion;
mod quantile;
mod random;
mod select;
mod steady_state;
mod undefined;

pub use autocorrelation::{autocorrelation, effective_size};
pub use bootstrap::{
    BcaInterval, MANY_PROCESSES, ProcessMethod, Resampling, bca_interval, hierarchical_interval,
    percentile_interval, processes_interval, student_interval,
};
pub use distribution::{incomplete_beta, normal_quantile, normal_tail, student_quantile};
pub use early_stopping::{over_limit_allowed, queries_for_percentile, queries_needed};
pub use interval::{Interval, correlated_estimates, mean_interval};
pub use mann_whitney::{MannWhitney, MannWhitneyMethod, mann_whitney};
pub use moments::{Moments, median, median_absolute_deviation, moments};
pub use outliers::{OutlierClass, Outliers, TukeyFences, deviation_outliers, tukey_outliers};
pub use proportion::wilson_interval;
pub use quantile::{Estimate, Quantile, TooFew, estimates};
pub use random::Random;
pub use select::{Value, order_statistics};
pub use steady_state::{
    ProcessClass, STEADY_STATE_TOLERANCE, STEADY_STATE_VALUES, Segment, SteadyClass, SteadyState,
    classify_processes, drift, steady_state,
};
pub use undefined::Undefined;
