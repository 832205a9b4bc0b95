//! Reasons why a loop ends early.

/// Reasons why the loop ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MeasureError<T, S> {
    /// The target failed. Queries that ended before are with the observer.
    #[error("the target failed: {0}")]
    Target(T),
    /// The observer failed.
    #[error("samples could not be passed on: {0}")]
    Sink(S),
    /// The clock went back, so no reading of this loop can be trusted.
    #[error("the clock went back from {before_ns} ns to {after_ns} ns")]
    ClockWentBack {
        /// The earlier reading.
        before_ns: u64,
        /// The later reading, which is smaller.
        after_ns: u64,
    },
}

/// Two readings in the wrong order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WentBack {
    before_ns: u64,
    after_ns: u64,
}

impl<T, S> From<WentBack> for MeasureError<T, S> {
    fn from(WentBack { before_ns, after_ns }: WentBack) -> Self {
        Self::ClockWentBack { before_ns, after_ns }
    }
}

/// Returns the time between two readings in nanoseconds, if they are in order.
pub(crate) fn between(before_ns: u64, after_ns: u64) -> Result<u64, WentBack> {
    after_ns.checked_sub(before_ns).ok_or(WentBack { before_ns, after_ns })
}

/// Checks whether readings are in order.
pub(crate) fn in_order(readings: impl IntoIterator<Item = u64>) -> Result<(), WentBack> {
    let mut before = 0;
    for reading in readings {
        between(before, reading)?;
        before = reading;
    }
    Ok(())
}

/// Checks whether the readings of a chain are in order. All pairs are looked at without a branch, which takes a fraction
/// of the time, and the wrong one is looked for only if there is one: a difference of readings in the wrong order wraps
/// around, and none in the right order is as large, since that would be 292 years.
pub(crate) fn chain_in_order(edges: &[u64]) -> Result<(), WentBack> {
    let following = edges.get(1..).unwrap_or_default();
    let pairs = edges.iter().zip(following);
    let wrapped = pairs.fold(0, |wrapped, (before, after)| wrapped | after.wrapping_sub(*before));
    if wrapped >> 63 == 0 { Ok(()) } else { in_order(edges.iter().copied()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_chain_is_checked_as_any_readings_are(
            mut edges in proptest::collection::vec(0_u64..1 << 62, 0..50),
            sorted: bool,
        ) {
            if sorted {
                edges.sort_unstable();
            }
            prop_assert_eq!(chain_in_order(&edges), in_order(edges.iter().copied()));
            prop_assert!(!sorted || chain_in_order(&edges).is_ok());
        }
    }
}
