//! How long a plan takes to run: what the settings promise, and no guess beyond.

use std::time::Duration;

use host_record::{MeasureSettings, WarmUp};

/// How long running a plan takes, as far as the settings tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Estimate {
    /// It takes at least this long, unless cases fail.
    pub at_least: Duration,
    /// How that was reckoned, and what comes on top.
    pub basis: String,
}

impl Estimate {
    pub(crate) fn new(cases: u64, measure: &MeasureSettings) -> Self {
        let (warm_up_ns, warm_up) = match measure.warm_up {
            WarmUp::Nanoseconds(time) => (time, format!("{} of warm-up", shown(time))),
            WarmUp::Auto => (0, "warming up for as long as it takes".to_owned()),
            WarmUp::Iterations(count) => (0, format!("{count} warm-up queries of unknown time")),
        };
        let case_ns = u128::from(warm_up_ns) + u128::from(measure.minimum_duration_ns);
        let processes = measure.processes.max(1);
        let total_ns = u128::from(cases) * u128::from(processes) * case_ns;
        let nanoseconds = u32::try_from(total_ns % 1_000_000_000).unwrap_or_default();
        let seconds = u64::try_from(total_ns / 1_000_000_000).unwrap_or(u64::MAX);
        let plural = if cases == 1 { "" } else { "s" };
        let in_processes = match processes {
            1 => String::new(),
            count => format!("{count} processes × "),
        };
        Self {
            at_least: Duration::new(seconds, nanoseconds),
            basis: format!(
                "{cases} case{plural} × {in_processes}({warm_up} + {} of measuring); starting, loading, \
                 preparing and collecting outputs come on top, and more measuring where {} queries \
                 take longer",
                shown(measure.minimum_duration_ns),
                measure.minimum_queries,
            ),
        }
    }
}

/// `200ms`, `1.5s`.
fn shown(nanoseconds: u64) -> String {
    format!("{:?}", Duration::from_nanos(nanoseconds))
}
