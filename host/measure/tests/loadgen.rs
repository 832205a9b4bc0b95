//! Verdicts by MLPerf's rules against those of LoadGen's own code on the same latencies. `loadgen.py` makes them.

use host_measure::{Evidence, Rules};
use host_record::{Pace, Rate, Requirement, RuleSet, Scenario};
use host_statistics::{Quantile, over_limit_allowed, queries_needed};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Case {
    scenario: Scenario,
    queries: u64,
    /// Queries over the limit.
    over: u64,
    /// When the last query began, in seconds; in `offline`, how long its query took.
    lasted: f64,
    examples: u64,
    /// Rank of the latency that LoadGen states for the percentile; 0 if it states none.
    estimate: u64,
    valid: bool,
}

fn quantile(percentile: f64) -> Quantile {
    match percentile {
        0.9 => Quantile::P90,
        0.99 => Quantile::P99,
        other => panic!("{other} is not one of the rules'"),
    }
}

fn evidence(case: &Case) -> Evidence {
    let lasted_ns = (case.lasted * 1e9) as u64;
    let is_server = case.scenario == Scenario::Server;
    // The server is served as fast as queries arrive, and its last query ends a millisecond after it was due.
    let last_ns = if case.scenario == Scenario::Offline { lasted_ns } else { 1_000_000 };
    let timed_ns = match case.scenario {
        Scenario::SingleStream | Scenario::MultiStream => lasted_ns + last_ns,
        _ => lasted_ns,
    };
    let rate = Rate::per_second(case.queries as f64 / case.lasted).expect("a rate");
    let pace = Pace {
        asked: rate,
        offered_per_second: Some(rate.get()),
        achieved_per_second: Some(rate.get()),
        unserved: 0,
        lateness: None,
    };
    Evidence {
        timed_ns,
        last_ns,
        shortest_ns: if case.scenario == Scenario::Offline { lasted_ns } else { 1 },
        queries: case.queries,
        examples: case.examples,
        over_limit: is_server.then_some(case.over),
        cut_short: false,
        pace: is_server.then_some(pace),
    }
}

#[test]
fn verdicts_are_those_of_loadgen() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("loadgen.json")).expect("cases");
    assert!(cases.len() > 100 && cases.iter().any(|case| case.valid));
    for case in &cases {
        let rules = Rules::of(RuleSet::MlPerf, case.scenario).expect("MLPerf has it");
        let needed =
            |percentile, confidence, over| queries_needed(quantile(percentile), over, confidence);
        let judgement = rules.judge(&evidence(case), needed);
        let valid = judgement.breaches.is_empty();
        assert_eq!(valid, case.valid, "{case:?}: {:?}", judgement.breaches);
        // The estimate is stated at any number of queries.
        let Requirement::Percentile { percentile, confidence: Some(confidence), .. } =
            rules.requirement
        else {
            continue;
        };
        if case.estimate > 0 && valid {
            let allowed = over_limit_allowed(quantile(percentile), case.queries, confidence);
            let rank = case.queries - allowed.expect("enough").max(1) + 1;
            assert_eq!((rank, judgement.stops), (case.estimate, true), "{case:?}");
        }
    }
}
