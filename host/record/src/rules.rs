/*!
What public sets of rules ask of a result, in one place: the manifest takes its defaults from here, and the
verdict its bounds.

MLPerf's are those of the MLCommons inference policies (`inference_rules.adoc`), of LoadGen's `mlperf.conf`, and of its
code (6.0.17: `results.cc`, `early_stopping.cc`), which decides where they differ. A development script compares
verdicts on the same latencies with that code: `host/measure/tests/loadgen.py`.
*/

use crate::key::Scenario;
use crate::names::names;
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
        /// Confidence of a binomial bound on it, as a share, which early stopping requires at any number of queries.
        /// `None`: the percentile itself counts.
        confidence: Option<f64>,
        /// Least number of queries, however few are over the limit.
        queries: u64,
    },
    /// Enough examples in a query, which takes the minimum duration by itself.
    Examples(u64),
}

names! {
    /// In what a measurement by rules always differs from what they ask for.
    RuleDeparture {
        /// Latencies begin with inputs on the device and end with outputs there; MLPerf's begin and end in the host's
        /// memory.
        CopiesExcluded = "copies-excluded",
        /// Examples are taken in turn; MLPerf draws them at random.
        ExamplesInTurn = "examples-in-turn",
        /// Arrivals are random by another generator than LoadGen's.
        OtherGenerator = "other-generator",
        /// MLPerf's compliance tests are not run.
        NoComplianceTests = "no-compliance-tests",
        /// The harness is not LoadGen, and the result was not reviewed.
        NotReviewed = "not-reviewed",
    }
}

impl RuleDeparture {
    /// Returns it in words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::CopiesExcluded => "copies to and from the device are not in the latencies",
            Self::ExamplesInTurn => "examples are taken in turn and not at random",
            Self::OtherGenerator => "arrivals are random by another generator",
            Self::NoComplianceTests => "no compliance tests",
            Self::NotReviewed => "another harness, and no review",
        }
    }
}

impl Scenario {
    /// Default number of samples in a query of `multi-stream`: MLPerf's number
    /// (`*.MultiStream.samples_per_query` in its `mlperf.conf`).
    pub const MULTI_STREAM_EXAMPLES: u64 = 8;
}

/// Samples that MLPerf measures in `offline`.
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

    /// Returns in what every measurement of a scenario differs from the rules.
    #[must_use]
    pub fn departures(self, scenario: Scenario) -> Vec<RuleDeparture> {
        use RuleDeparture as Departure;
        let Self::MlPerf = self;
        let mut all = vec![Departure::CopiesExcluded, Departure::ExamplesInTurn];
        if scenario == Scenario::Server {
            all.push(Departure::OtherGenerator);
        }
        all.extend([Departure::NoComplianceTests, Departure::NotReviewed]);
        all
    }

    /// Returns the requirement for a scenario; `None` if the rules do not cover it.
    #[must_use]
    pub fn requirement(self, scenario: Scenario) -> Option<Requirement> {
        let percentile = |percentile, queries| {
            Some(Requirement::Percentile { percentile, confidence: Some(0.99), queries })
        };
        match (self, scenario) {
            // `min_query_count`: LoadGen's default, and that of its `mlperf.conf`.
            (Self::MlPerf, Scenario::SingleStream) => percentile(0.9, 100),
            (Self::MlPerf, Scenario::MultiStream) => percentile(0.99, 662),
            (Self::MlPerf, Scenario::Server) => percentile(0.99, 100),
            (Self::MlPerf, Scenario::Offline) => {
                Some(Requirement::Examples(self.offline_examples()))
            }
            (Self::MlPerf, Scenario::ConstantRate | Scenario::ClosedLoop) => None,
        }
    }
}
