//! Where time comes from.

use rustix::time::{ClockId, clock_gettime};

/// A clock that counts nanoseconds from some fixed origin and never goes back.
pub trait Clock {
    /// Nanoseconds since the origin.
    fn now(&self) -> u64;
}

/// The operating system's monotonic clock, counted from when this value was made.
///
/// It calls `clock_gettime` directly, which on Linux reads a register without entering the kernel.
/// `std::time::Instant` reads the same clock, but turning it into whole nanoseconds costs another
/// 6 ns on a reading of 32 ns, which the chain of readings would charge to every query. Reading
/// the processor's counter ourselves would be cheaper still; it would also leave us to find its
/// frequency, and to prove that it neither stops nor differs between cores, which the kernel does.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    origin: u64,
}

impl SystemClock {
    /// The clock's name.
    pub const SOURCE: &'static str = "CLOCK_MONOTONIC";

    /// A clock whose origin is now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: monotonic() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> u64 {
        monotonic().wrapping_sub(self.origin)
    }
}

#[inline]
fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // Both parts are never negative on a monotonic clock, and the sum lasts for 584 years.
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_starts_near_zero_and_moves_forward() {
        let clock = SystemClock::new();
        let first = clock.now();
        assert!(first < 60_000_000_000, "{first}");
        let mut previous = first;
        while previous == first {
            let now = clock.now();
            assert!(now >= previous);
            previous = now;
        }
    }
}
