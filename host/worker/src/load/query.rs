//! One query of a case: how much work it is, and by which pattern queries are issued.

use std::num::NonZeroU32;

use host_measure::Pattern;
use host_record::{CaseSpec, Failure, Rate, Scenario};

use crate::examples::Examples;
use crate::failure;

/// The load on the target, and the work of one query.
#[derive(Debug)]
pub(crate) struct Load<'a> {
    pub(super) case: &'a CaseSpec,
    /// `None` if the rate is searched.
    pub(super) pattern: Option<Pattern>,
    pub(super) items_per_query: u64,
}

impl<'a> Load<'a> {
    /// Creates the load of a case.
    ///
    /// # Errors
    ///
    /// If the case does not define its load.
    pub(crate) fn new(case: &'a CaseSpec, examples: &Examples) -> Result<Self, Failure> {
        let batch = u64::from(case.key.batch);
        let batches = |samples: u64| samples.div_ceil(batch).max(1);
        let (pattern, items_per_query) = match case.key.scenario {
            Scenario::SingleStream => (Some(Pattern::SingleStream), batch),
            Scenario::MultiStream => {
                let usual = Scenario::MULTI_STREAM_EXAMPLES;
                let batches = batches(case.measure.multi_stream_examples.unwrap_or(usual));
                (Some(Pattern::MultiStream { batches }), batches.saturating_mul(batch))
            }
            Scenario::Offline => {
                let batches = examples.offline_batches(case.measure.offline_examples);
                // Examples that only fill up the last batch of the data set do not count as work.
                let whole = batches.saturating_mul(batch);
                let items_per_query = match case.measure.offline_examples {
                    Some(_) => whole,
                    None => examples.count.unwrap_or(whole),
                };
                (Some(Pattern::Offline { batches }), items_per_query)
            }
            Scenario::Server | Scenario::ConstantRate => {
                let pattern = case.key.rate.map(|rate| open(case, rate, seed(case)));
                if pattern.is_none() && case.measure.find.is_none() {
                    return Err(failure::input("the case has no rate, and none is to be found"));
                }
                (pattern, batch)
            }
            Scenario::ClosedLoop => (Some(Pattern::ClosedLoop), batch),
        };
        Ok(Self { case, pattern, items_per_query })
    }

    /// Returns the runs of the model that a query is made of.
    pub(crate) fn runs(&self) -> u64 {
        match self.pattern {
            Some(Pattern::MultiStream { batches } | Pattern::Offline { batches }) => batches,
            _ => 1,
        }
    }

    /// Returns the number of threads that issue queries.
    pub(crate) fn lanes(&self) -> NonZeroU32 {
        self.case.key.clients.and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN)
    }
}

/// Returns the seed of a process's arrivals: each has its own.
pub(super) fn seed(case: &CaseSpec) -> u64 {
    case.seed ^ (u64::from(case.process) << 32)
}

/// Returns the open loop of a case at a rate.
pub(super) fn open(case: &CaseSpec, rate: Rate, seed: u64) -> Pattern {
    match case.key.scenario {
        Scenario::ConstantRate => Pattern::ConstantRate { rate },
        _ => Pattern::Server { rate, seed },
    }
}

pub(super) fn rate(queries_per_second: f64) -> Result<Rate, Failure> {
    Rate::per_second(queries_per_second).map_err(failure::input)
}
