/*!
Statistics of measurements: exact, pure, without dependencies, and compiled both into the host
and into the WASM guests.

# Which quantile

There are nine definitions of a sample quantile in use (R. J. Hyndman and Y. Fan, "Sample Quantiles in
Statistical Packages", *The American Statistician* 50(4), 1996). This crate has one: their type 1, the
**nearest rank**. The *p*-quantile of *n* values is the ⌈*n p*⌉-th smallest: the smallest value that at
least the fraction *p* of all values does not exceed. NumPy calls it `method="inverted_cdf"`, SQL
`PERCENTILE_DISC`, and HdrHistogram and the load testers built on it report it. NumPy's default, type
7, interpolates between two values instead. We do not, for three reasons:

- The answer is a latency that some query really had, not one between two modes that none had.
- "99 % of the queries took at most *x*" is then literally true of the sample. Interpolation makes it
  false by up to one query, and tails are made of single queries.
- The interval around it is made of two of the same sorted values, so that the point is always inside
  and on the same footing.

The rank is computed in integers. A floating ⌈*n p*⌉ is off by one if *n p* is a whole number
that the product misses: 0.07 × 100 is 7.000000000000001.

# How many values a quantile needs

A sample of fifty has no meaningful 99.9th percentile: its nearest rank is its maximum. The rule
here is that a quantile is stated only where its two-sided distribution-free interval exists at
the asked confidence ([`Quantile::minimum_count`]), and is otherwise refused as [`TooFew`]: at
95 %, 6 values for the median, 36 for p90, 72 for p95, 368 for p99, 3688 for p99.9.

# The interval

Bounds are two of the sorted values, chosen by the binomial distribution of how many values lie
below the true quantile ([`Quantile::interval_ranks`]). They assume independent values from one
distribution, and nothing of its shape (H. A. David and H. N. Nagaraja, *Order Statistics*, 3rd
ed., 2003, § 7.1; G. J. Hahn and W. Q. Meeker, *Statistical Intervals*, 1991, § 5.2).

# Correlated series

Consecutive latencies are similar, and the interval for independent values is then too narrow.
[`effective_size`] returns the number of independent values that a series is worth (Geyer's initial
monotone sequence), and [`mean_interval`] and [`correlated_estimates`] widen their intervals to it. For
a quantile the correlation of "above it or not" matters, so each quantile has its own size. Batch means
were rejected: the size of a batch would be one more parameter. (Series of more than 131,072 values are
averaged in bins to save time, and correlation is estimated from the bins.)

# Processes

Variance between processes cannot be seen within one. [`processes_interval`] takes a statistic of each
process, and uses Student's *t*, whose coverage holds in simulation with any number of processes. The
hierarchical bootstrap covers the truth in 89 % instead of 95 % of the cases with 5 processes, and is no better with many. No
method helps if processes are of two kinds and few were run: with five processes, each half as slow again with a chance of
one in five, coverage is 69 %.

# Outliers

Counted and located by two rules, and never removed: [`tukey_outliers`] and [`deviation_outliers`].

An interval of the mean says where the mean lies. Where the next process will lie is another question, which
[`prediction_interval`] answers. With five processes it is 2.4 times as wide.

# Comparing two samples

[`ratio`] compares one value from each process, on logarithms, by Welch's test. It states the ratio with its
interval, and the smallest ratio that it could have told from 1. Whether two intervals overlap is not a test: with
five processes and intervals of ±14 %, it sees a change of 20 % in a fifth of the comparisons, and Welch's test
in more than half. [`false_discovery_rates`] corrects for many comparisons at once. [`sides`] says which of many
ratios are beyond a limit and which are surely within it, and [`Ratio::processes_to_tell`] how many processes it takes.

[`always_valid_interval`] may be looked at after each value, and measuring may stop at any of them: for two sides that are
measured in pairs until the answer is known.

[`mann_whitney`] tests whether one sample tends to be larger, and with which probability, without assumptions
on its shape. It suits the queries of a process, of which a single stall would decide a *t* test. With two
processes on each side it can find nothing at 95 %.

# The same examples

[`paired_outcomes`] compares two sets of answers to the same examples by McNemar's test.

# Steady state

[`steady_state`] finds change points in ranks, so that stalls and second modes are not mistaken for
changes. E-divisive was rejected for its permutations, which take long and need a seed; PELT on the
latencies themselves, because with heavy tails every large value is a segment of its own.

# Changes over runs

[`levels`] finds steps and slow drift in a series with one value from each run. Such series are short, have few outliers
and small steps, so permutations are cheap there, and values say more than ranks.

# Refusals

If a sample is too small for a statistic, the result is [`TooFew`] or [`Undefined`], never a zero. NaN
is a caller's mistake throughout.

# No sorting

Sorting ten million latencies to read fifteen of them is a waste: see [`order_statistics`].
*/

mod autocorrelation;
mod bootstrap;
mod comparison;
mod distribution;
mod early_stopping;
mod interval;
mod isotonic;
mod levels;
mod mann_whitney;
mod moments;
mod outliers;
mod paired;
mod proportion;
mod quantile;
mod random;
mod ranks;
mod select;
mod sequence;
mod steady_state;
mod thin;
mod undefined;

pub use autocorrelation::{autocorrelation, effective_size};
pub use bootstrap::{
    BcaInterval, Resampling, bca_interval, hierarchical_interval, percentile_interval,
    processes_interval, processes_needed, student_interval,
};
pub use comparison::{
    Ratio, Side, false_discovery_rates, mean_bound, prediction_bound, prediction_interval, ratio,
    sides, student_probability,
};
pub use distribution::{incomplete_beta, normal_quantile, normal_tail, student_quantile};
pub use early_stopping::{over_limit_allowed, queries_for_percentile, queries_needed};
pub use interval::{Interval, SizedEstimate, correlated_estimates, mean_interval, sized_estimates};
pub use isotonic::isotonic;
pub use levels::{Drift, FALSE_ALARMS, LEAST_VALUES, LevelChange, Levels, levels};
pub use mann_whitney::{MannWhitney, MannWhitneyMethod, least_probability, mann_whitney};
pub use moments::{Moments, Value, median, median_absolute_deviation, moments};
pub use outliers::{OutlierClass, Outliers, TukeyFences, deviation_outliers, tukey_outliers};
pub use paired::{PairedOutcomes, outcomes_of_text, outcomes_text, paired_outcomes};
pub use proportion::wilson_interval;
pub use quantile::{Estimate, Quantile, TooFew, estimates};
pub use random::Random;
pub use select::order_statistics;
pub use sequence::{AlwaysValid, always_valid_count, always_valid_interval, interquartile_mean};
pub use steady_state::{
    ProcessClass, STEADY_STATE_TOLERANCE, STEADY_STATE_VALUES, Segment, SteadyClass, SteadyState,
    classify_processes, drift, steady_state,
};
pub use thin::thinned;
pub use undefined::Undefined;
