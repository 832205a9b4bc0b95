//! The shape of a case's latencies, with few enough points to draw.

use host_statistics::{Quantile, order_statistics};

/// Limit on the bins of a histogram.
const BINS: usize = 60;

/// Returns quantiles and their latencies in nanoseconds: the smallest, each percentile, finer and finer steps into
/// the tail while there are enough queries, and the largest. Uses the nearest rank, as everywhere in this program.
pub(crate) fn quantiles(latencies: &[u64]) -> Vec<(f64, u64)> {
    if latencies.is_empty() {
        return Vec::new();
    }
    let count = latencies.len();
    let mut fractions: Vec<(u32, u32)> = (1..100).map(|percent| (percent, 100)).collect();
    let mut denominator = 1000;
    // The last quantile before the maximum has at least one query above it.
    while count >= denominator as usize && denominator <= 1_000_000_000 {
        fractions.extend((1..10).map(|step| (denominator - 10 + step, denominator)));
        denominator *= 10;
    }
    let fractions: Vec<Quantile> =
        fractions.into_iter().filter_map(|(over, under)| Quantile::new(over, under)).collect();
    let mut ranks: Vec<usize> = fractions.iter().map(|quantile| quantile.rank(count)).collect();
    ranks.insert(0, 1);
    ranks.push(count);
    let probabilities = fractions.iter().map(|quantile| quantile.probability());
    let probabilities = std::iter::once(0.0).chain(probabilities).chain([1.0]);
    probabilities.zip(order_statistics(latencies, &ranks)).collect()
}

/// A bin of a histogram: from `low` to below `high`, except that the last one includes its upper bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bin {
    pub(crate) low_ns: f64,
    pub(crate) high_ns: f64,
    pub(crate) queries: u64,
}

/// Returns a histogram in bins of equal ratio between the smallest and the largest latency. No bin
/// is narrower than a nanosecond, because latencies are whole nanoseconds and a finer bin would be
/// empty only because of rounding.
pub(crate) fn histogram(latencies: &[u64]) -> Vec<Bin> {
    let (Some(low), Some(high)) = (latencies.iter().min(), latencies.iter().max()) else {
        return Vec::new();
    };
    if low == high {
        let (low_ns, high_ns) = (*low as f64, *high as f64);
        return vec![Bin { low_ns, high_ns, queries: latencies.len() as u64 }];
    }
    // A ratio needs a lower bound above zero; a query of zero nanoseconds falls into the first bin.
    let (from, to) = ((*low as f64).max(1.0), (*high as f64).max(2.0));
    // Rice's rule for the number of bins.
    let wanted = (2.0 * (latencies.len() as f64).cbrt()).ceil() as usize;
    let mut bins = wanted.clamp(1, BINS);
    while bins > 1 && from * ((to / from).powf(1.0 / bins as f64) - 1.0) < 1.0 {
        bins -= 1;
    }
    let ratio = (to / from).ln() / bins as f64;
    let edge = |index: usize| match index {
        0 => *low as f64,
        _ if index == bins => to,
        _ => from * (ratio * index as f64).exp(),
    };
    let edges: Vec<f64> = (0..=bins).map(edge).collect();
    let mut queries = vec![0_u64; bins];
    for latency in latencies {
        let value = *latency as f64;
        let guess = ((value.max(1.0) / from).ln() / ratio) as usize;
        // The logarithm can be wrong by one bin at an edge, so the edges decide.
        let mut bin = guess.min(bins - 1);
        while bin > 0 && value < edges[bin] {
            bin -= 1;
        }
        while bin + 1 < bins && value >= edges[bin + 1] {
            bin += 1;
        }
        queries[bin] += 1;
    }
    edges
        .windows(2)
        .zip(queries)
        .map(|(edge, queries)| Bin { low_ns: edge[0], high_ns: edge[1], queries })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_thousand_latencies_reach_three_nines() {
        let latencies: Vec<u64> = (1..=1000).rev().collect();
        let quantiles = quantiles(&latencies);
        let at = |wanted: f64| {
            quantiles.iter().find(|(quantile, _)| *quantile == wanted).map(|(_, value)| *value)
        };
        assert_eq!(at(0.0), Some(1));
        assert_eq!(at(0.5), Some(500));
        assert_eq!(at(0.99), Some(990));
        assert_eq!(at(0.999), Some(999));
        assert_eq!(at(0.9999), None);
        assert_eq!(at(1.0), Some(1000));
    }

    #[test]
    fn equal_latencies_have_one_bin() {
        let bins = histogram(&[7, 7, 7]);
        assert_eq!(bins, [Bin { low_ns: 7.0, high_ns: 7.0, queries: 3 }]);
        assert!(histogram(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn a_histogram_counts_every_query_where_it_belongs(
            latencies in prop::collection::vec(prop_oneof![0..50_u64, 0..5_000_000_u64, any::<u64>()], 1..300)
        ) {
            let bins = histogram(&latencies);
            prop_assert_eq!(bins.iter().map(|bin| bin.queries).sum::<u64>(), latencies.len() as u64);
            for (index, bin) in bins.iter().enumerate() {
                let last = index + 1 == bins.len();
                let inside = latencies.iter().filter(|latency| {
                    let value = **latency as f64;
                    value >= bin.low_ns && (value < bin.high_ns || last && value <= bin.high_ns)
                });
                prop_assert_eq!(inside.count() as u64, bin.queries);
            }
        }

        #[test]
        fn quantiles_rise_from_the_smallest_to_the_largest(
            latencies in prop::collection::vec(any::<u64>(), 1..3000)
        ) {
            let quantiles = quantiles(&latencies);
            prop_assert!(quantiles.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
            prop_assert_eq!(quantiles[0].1, *latencies.iter().min().expect("one"));
            prop_assert_eq!(quantiles.last().expect("one").1, *latencies.iter().max().expect("one"));
        }
    }
}
