//! Breach of a case whose search found no rate.

use host_record::{Breach, RateSearch, SearchEnd};

/// Returns the breach if the search found no rate.
pub(super) fn not_found(search: &RateSearch, maximum_ns: u64) -> Option<Breach> {
    let rate = match search.end {
        SearchEnd::Found => return None,
        SearchEnd::Inconclusive => None,
        SearchEnd::GeneratorLate => search.probes.last().map(|probe| probe.rate),
        SearchEnd::NoAcceptedRate | SearchEnd::LimitedByDuration => search.rejected,
        SearchEnd::NoRejectedRate => search.accepted,
    };
    let probes = search.probes.len() as u64;
    Some(Breach::NotFound { end: search.end, rate, probes, maximum_ns })
}
