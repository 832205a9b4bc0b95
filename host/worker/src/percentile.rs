//! Shares of the manifest as exact fractions, and the percentile that a limit on the latency is about.

use host_record::{MeasureSettings, Share};
use host_statistics::Quantile;

/// Default percentile of a limit: that of MLPerf for servers.
pub(crate) const USUAL_PERCENTILE: f64 = 0.99;

/// Returns the percentile of the latency limit. `ruled` is that of the rules.
pub(crate) fn limited_percentile(measure: &MeasureSettings, ruled: Option<f64>) -> Quantile {
    let stated = measure.latency_limit.and_then(|limit| limit.percentile);
    quantile(stated.map(Share::get).or(ruled).unwrap_or(USUAL_PERCENTILE))
}

/// Converts a share of at most eight decimal places to a fraction.
pub(crate) fn quantile(share: f64) -> Quantile {
    const WHOLE: u32 = 100_000_000;
    let part = (share * f64::from(WHOLE)).round().clamp(1.0, f64::from(WHOLE - 1));
    Quantile::new(part as u32, WHOLE).unwrap_or(Quantile::P99)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact_fractions() {
        assert_eq!(quantile(0.99).rank(1000), 990);
        assert_eq!(quantile(0.999).rank(10_000), 9990);
        assert_eq!(quantile(0.9).rank(64), Quantile::P90.rank(64));
    }
}
