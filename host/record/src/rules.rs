/*!
What public sets of rules ask of a result, in one place: the manifest takes its defaults from here, and the
verdict its bounds.

MLPerf's are those of the MLCommons inference policies (`inference_rules.adoc`, scenarios and "number of
queries") and of LoadGen's `mlperf.conf`. Their numbers of queries state a percentile to a twentieth of its
distance from 100 % at 99 % confidence.
*/

use crate::key::Scenario;
use crate::settings::RuleSet;

/// Required amount of measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Requirement {
    /// Anything will do.
    Nothing,
    /// Enough queries for a percentile.
    Percentile {
        /// Which, as a share: 0.99 is the 99th percentile.
        percentile: f64,
        /// With which confidence, as a share.
        confidence: f64,
        /// Number of queries that is always enough. Fewer suffice if the binomial bound shows it.
        queries: u64,
    },
    /// Enough examples.
    Examples(u64),
}

impl Scenario {
    /// Default number of samples in a query of `multi-stream`: MLPerf's number
    /// (`*.MultiStream.samples_per_query` in its `mlperf.conf`).
    pub const MULTI_STREAM_EXAMPLES: u64 = 8;
}

/// Samples that MLPerf measures in `offline`, and queries in `single-stream`.
const MLPERF_EXAMPLES: u64 = 24_576;

impl RuleSet {
    /// Returns the minimum duration of a measurement in nanoseconds.
    #[must_use]
    pub const fn minimum_duration_ns(self) -> u64 {
        match self {
            Self::MlPerf => 600_000_000_000,
        }
    }

    /// Examples in the one query of `offline`.
    #[must_use]
    pub const fn offline_examples(self) -> u64 {
        match self {
            Self::MlPerf => MLPERF_EXAMPLES,
        }
    }

    /// Returns the requirement for a scenario; `None` if the rules do not cover it.
    #[must_use]
    pub fn requirement(self, scenario: Scenario) -> Option<Requirement> {
        let percentile =
            |percentile, queries| Requirement::Percentile { percentile, confidence: 0.99, queries };
        match (self, scenario) {
            (Self::MlPerf, Scenario::SingleStream) => Some(percentile(0.9, MLPERF_EXAMPLES)),
            (Self::MlPerf, Scenario::MultiStream | Scenario::Server) => {
                Some(percentile(0.99, 270_336))
            }
            (Self::MlPerf, Scenario::Offline) => {
                Some(Requirement::Examples(self.offline_examples()))
            }
            (Self::MlPerf, Scenario::ConstantRate | Scenario::ClosedLoop) => None,
        }
    }
}
