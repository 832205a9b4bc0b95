//! Sentences on why a result is invalid.

use host_measure as measure;
use host_record::{InvalidKind, InvalidReason, Rate, RateSearch, RuleSet, Scenario, SearchEnd};

use crate::words::time;

/// Says what of a case is not as its rules have it.
pub(super) fn not_by_the_rules(rules: RuleSet, what: &str) -> InvalidReason {
    let evidence = format!("This is not by the rules of {rules}: {what}.");
    InvalidReason { kind: InvalidKind::NoRules, evidence }
}

/// Says that rules do not know a scenario.
pub(super) fn no_rules(rules: RuleSet, scenario: Scenario) -> InvalidReason {
    let evidence = format!("{rules} has no rules for {scenario}.");
    InvalidReason { kind: InvalidKind::NoRules, evidence }
}

/// Says why a search found no rate, if it found none.
pub(super) fn unfinished(search: &RateSearch, maximum_ns: u64) -> Option<InvalidReason> {
    let shown =
        |rate: Option<Rate>| rate.map_or(String::new(), |rate| format!("{:.1}/s", rate.get()));
    let what = match search.end {
        SearchEnd::Found => return None,
        SearchEnd::Unsettled => "No rate was settled on".to_owned(),
        SearchEnd::GeneratorLate => {
            let rate = shown(search.probes.last().map(|probe| probe.rate));
            format!("At {rate} the generator of the load itself could not keep up")
        }
        SearchEnd::NotEvenLowest => {
            let rate = shown(search.too_much);
            format!("Even the lowest rate that was tried, {rate}, is too much")
        }
        SearchEnd::CutShort => {
            let rate = shown(search.too_much);
            let maximum = time(maximum_ns as f64);
            format!(
                "At {rate} the load is too much, and {maximum} (`maximum-duration`) have no room for \
                 enough queries at a lower rate"
            )
        }
        SearchEnd::FineAtHighest => {
            let rate = shown(search.fine);
            format!("At the highest rate that is searched, {rate}, the limit was kept")
        }
    };
    let evidence = format!("{what}, after {} measurements.", search.probes.len());
    Some(InvalidReason { kind: InvalidKind::NotFound, evidence })
}

/// Says why the rules call a measurement invalid.
pub(super) fn reason(found: &measure::Reason) -> InvalidReason {
    use measure::Reason;
    let shown = |nanoseconds: u64| time(nanoseconds as f64);
    let (kind, evidence) = match *found {
        Reason::CutShort => {
            let evidence = "The maximum duration was over before there was enough.".to_owned();
            (InvalidKind::CutShort, evidence)
        }
        Reason::TooShort { timed_ns, minimum_ns } => (
            InvalidKind::TooShort,
            format!("{} were measured; it takes {}.", shown(timed_ns), shown(minimum_ns)),
        ),
        Reason::TooFewQueries { queries, minimum } => (
            InvalidKind::TooFewQueries,
            format!("{queries} queries were made; it takes {minimum}."),
        ),
        Reason::TooFewSamples { samples, minimum } => (
            InvalidKind::TooFewSamples,
            format!("{samples} samples were measured; it takes {minimum}."),
        ),
        Reason::OverLimit { over, queries, allowed } => (
            InvalidKind::OverLimit,
            format!(
                "{over} of {queries} queries were over the limit on their latency; at most {allowed} may be."
            ),
        ),
        Reason::Late { p99_ns, bound_ns } => (
            InvalidKind::Late,
            format!(
                "The load was not kept up: its generator was {} late (99th percentile), more than {}.",
                shown(p99_ns),
                shown(bound_ns)
            ),
        ),
        Reason::TooSlow { offered, achieved, bound } => (
            InvalidKind::TooSlow,
            format!(
                "The load was not kept up: {achieved:.1} of {offered:.1} queries per second ended, \
                 less than {:.0} %.",
                100.0 * bound
            ),
        ),
        Reason::Unserved { queries } => (
            InvalidKind::Unserved,
            format!("The load was not kept up: {queries} queries were due and never begun."),
        ),
    };
    InvalidReason { kind, evidence }
}
