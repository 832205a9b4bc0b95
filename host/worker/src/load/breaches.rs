//! What a result breaks, as it is recorded.

use host_measure as measure;
use host_record::{Breach, RateSearch, SearchEnd};

/// Returns the breach of a search that found no rate, if it found none.
pub(super) fn not_found(search: &RateSearch, maximum_ns: u64) -> Option<Breach> {
    let rate = match search.end {
        SearchEnd::Found => return None,
        SearchEnd::Unsettled => None,
        SearchEnd::GeneratorLate => search.probes.last().map(|probe| probe.rate),
        SearchEnd::NotEvenLowest | SearchEnd::CutShort => search.too_much,
        SearchEnd::FineAtHighest => search.fine,
    };
    let measurements = search.probes.len() as u64;
    Some(Breach::NotFound { end: search.end, rate, measurements, maximum_ns })
}

/// Returns the breach for which the rules call a measurement invalid.
pub(super) fn breach(found: &measure::Reason) -> Breach {
    use measure::Reason;
    match *found {
        Reason::CutShort => Breach::CutShort,
        Reason::TooShort { timed_ns, minimum_ns } => Breach::TooShort { timed_ns, minimum_ns },
        Reason::TooFewQueries { queries, minimum } => {
            Breach::TooFewQueries { queries, minimum_queries: minimum }
        }
        Reason::TooFewSamples { samples, minimum } => {
            Breach::TooFewSamples { samples, minimum_samples: minimum }
        }
        Reason::OverLimit { over, queries, allowed } => {
            Breach::OverLimit { over_queries: over, queries, allowed_queries: allowed }
        }
        Reason::Late { p99_ns, bound_ns } => Breach::Late { p99_ns, bound_ns },
        Reason::TooSlow { offered, achieved, bound } => Breach::TooSlow {
            offered_per_second: offered,
            achieved_per_second: achieved,
            bound_ratio: bound,
        },
        Reason::Unserved { queries } => Breach::Unserved { queries },
    }
}
