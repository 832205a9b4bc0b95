//! Latency percentiles, mean and spread, with distribution-free intervals.
