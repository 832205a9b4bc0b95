//! Rates and paces of the loop, as they are recorded.

use host_measure::{self as measure, Summary};
use host_record::{Failure, Lateness, Pace, Rate};

use crate::failure;

/// A rate of the loop, as it is recorded.
pub(super) fn rate(rate: measure::Rate) -> Result<Rate, Failure> {
    Rate::per_second(rate.get()).map_err(failure::input)
}

/// How an open loop was kept up, as it is recorded.
pub(crate) fn pace(summary: &Summary) -> Option<Pace> {
    let pace = summary.pace?;
    Some(Pace {
        asked: Rate::per_second(pace.asked.get()).ok()?,
        offered_per_second: pace.offered_per_second,
        achieved_per_second: pace.achieved_per_second,
        unserved: pace.unserved,
        lateness: pace.lateness.map(lateness),
    })
}

pub(super) fn lateness(late: measure::Lateness) -> Lateness {
    let measure::Lateness { median_ns, p99_ns, maximum_ns, .. } = late;
    Lateness { median_ns, p99_ns, maximum_ns }
}
