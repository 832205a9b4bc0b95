//! The source of time, and waiting for a moment.

use std::hint::spin_loop;
use std::time::Duration;

/// A clock that counts nanoseconds from some fixed origin and never goes back.
pub trait Clock {
    /// Nanoseconds since the origin.
    fn now(&self) -> u64;

    /// Waits for `deadline_ns` and returns the first reading at or after it. By default the clock
    /// is read repeatedly until then.
    fn wait_until(&self, deadline_ns: u64) -> u64 {
        loop {
            let now = self.now();
            if now >= deadline_ns {
                return now;
            }
            spin_loop();
        }
    }
}

/// The operating system's monotonic clock, counted from when this value was made.
///
/// Calls `clock_gettime` directly, which reads a register without entering the kernel. `std::time::Instant`
/// reads the same clock, but converting it to whole nanoseconds costs another 6 ns on a reading of 32 ns,
/// which the chain of readings would charge to every query. Reading the processor's counter directly would be
/// cheaper still, but we would then have to find its frequency and prove that it neither stops nor differs
/// between cores, which the kernel does.
///
/// A long wait sleeps until [`SystemClock::SPIN_NS`] before its end, and spins from there on. A
/// spinning thread keeps a core busy, which on one thread is a core that the target does not want:
/// it is not running then. Sleeping to the end would make a wait late by as much as the kernel
/// takes to wake a thread, tens of microseconds on an idle machine.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    origin: u64,
}

impl SystemClock {
    /// The clock's name.
    pub const SOURCE: &'static str =
        if cfg!(target_os = "macos") { "CLOCK_UPTIME_RAW" } else { "CLOCK_MONOTONIC" };

    /// Time before the end of a wait at which spinning replaces sleeping, in nanoseconds. Shorter
    /// sleeps are not worth their system call and are spun as well.
    pub const SPIN_NS: u64 = 1_000_000;

    /// Creates a clock whose origin is now.
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

    #[inline]
    fn wait_until(&self, deadline_ns: u64) -> u64 {
        loop {
            let now = self.now();
            if now >= deadline_ns {
                return now;
            }
            let left = deadline_ns - now;
            if left > 2 * Self::SPIN_NS {
                std::thread::sleep(Duration::from_nanos(left - Self::SPIN_NS));
            } else {
                spin_loop();
            }
        }
    }
}

#[cfg(not(target_os = "macos"))]
#[inline]
fn monotonic() -> u64 {
    use rustix::time::{ClockId, clock_gettime};

    let time = clock_gettime(ClockId::Monotonic);
    // Both parts are never negative on a monotonic clock, and the sum lasts for 584 years.
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Returns the clock's identifier. `CLOCK_MONOTONIC` of macOS counts microseconds. This clock counts ticks of
/// 42 ns on Apple's processors, as `std::time::Instant` does.
#[cfg(target_os = "macos")]
#[inline]
fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid for the call, which cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_UPTIME_RAW, &raw mut time) };
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

    #[test]
    fn waiting_never_ends_early() {
        let clock = SystemClock::new();
        for wait in [0, 1000, 3 * SystemClock::SPIN_NS] {
            let deadline = clock.now() + wait;
            assert!(clock.wait_until(deadline) >= deadline);
        }
        assert!(clock.wait_until(0) > 0, "what is past is not waited for");
    }
}
