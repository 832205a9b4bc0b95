//! The breach of a search that found no rate.

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
