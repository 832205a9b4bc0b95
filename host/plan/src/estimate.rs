//! Estimated time of a plan, from its settings alone.

use std::time::Duration;

use host_record::{MeasureSettings, Pair, WarmUp};

/// Estimated time of a plan, as far as the settings determine it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Estimate {
    /// Least duration, unless cases fail.
    pub at_least: Duration,
    /// Basis of the estimate, and time that comes on top.
    pub basis: String,
}

impl Estimate {
    /// Estimates the time of `cases`; the rate of `searched` of them is searched.
    pub(crate) fn new(cases: u64, searched: u64, measure: &MeasureSettings) -> Self {
        let (warm_up_ns, warm_up) = match measure.warm_up {
            WarmUp::Nanoseconds(time) => (time, format!("{} of warm-up", shown(time))),
            WarmUp::Auto => (0, "warming up for as long as it takes".to_owned()),
            WarmUp::Iterations(count) => (0, format!("{count} warm-up queries of unknown time")),
        };
        let case_ns = u128::from(warm_up_ns) + u128::from(measure.minimum_duration_ns);
        let processes = match measure.pair {
            // As many as it takes.
            Some(_) => Pair::LEAST_PROCESSES,
            None => measure.processes.max(1),
        };
        // Any search takes at least two probes.
        let probe_ns = measure.probe_ns();
        let search_ns = 2 * u128::from(probe_ns);
        let total_ns = u128::from(processes)
            * (u128::from(cases) * case_ns + u128::from(searched) * search_ns);
        let nanoseconds = u32::try_from(total_ns % 1_000_000_000).unwrap_or_default();
        let seconds = u64::try_from(total_ns / 1_000_000_000).unwrap_or(u64::MAX);
        let plural = if cases == 1 { "" } else { "s" };
        let in_processes = match processes {
            _ if measure.pair.is_some() => {
                format!("{processes} to {} processes × ", measure.processes)
            }
            1 => String::new(),
            count => format!("{count} processes × "),
        };
        let search = match searched {
            0 => String::new(),
            _ => format!(
                ", of which {searched} search{} the rate besides, in at least 2 measurements of {} or \
                 more, mostly in many more, none longer than {}, with five of {} or more where a rate is found",
                if searched == 1 { "es" } else { "" },
                shown(probe_ns),
                shown(measure.maximum_duration_ns),
                shown(measure.minimum_duration_ns),
            ),
        };
        Self {
            at_least: Duration::new(seconds, nanoseconds),
            basis: format!(
                "{cases} case{plural} × {in_processes}({warm_up} + {} of measuring){search}; starting, \
                 loading, preparing and collecting outputs come on top, and more measuring where {} queries \
                 take longer",
                shown(measure.minimum_duration_ns),
                measure.minimum_queries,
            ),
        }
    }
}

/// Formats a time such as `200ms` or `1.5s`.
fn shown(nanoseconds: u64) -> String {
    format!("{:?}", Duration::from_nanos(nanoseconds))
}
