//! The word for a change.

use host_record::Direction;

/// Metric of a case whose rate was searched: the rate that was found.
pub const RATE: &str = "rate";

/// Returns the word for a change of a metric.
pub(crate) fn verdict(metric: &str, direction: Direction, is_larger: bool) -> &'static str {
    let plugin = metric.split('.').next();
    let is_speed = matches!(plugin, Some("latency" | "throughput" | "startup" | RATE));
    match (direction, is_larger, is_speed) {
        (Direction::Lower, true, true) | (Direction::Higher, false, true) => "slower",
        (Direction::Lower, false, true) | (Direction::Higher, true, true) => "faster",
        (Direction::Lower, true, false) | (Direction::Higher, false, false) => "worse",
        (Direction::Lower, false, false) | (Direction::Higher, true, false) => "better",
        (Direction::Neutral, true, _) => "larger",
        (Direction::Neutral, false, _) => "smaller",
    }
}
