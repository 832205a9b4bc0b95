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
/// which the chain of readings would charge to every query.
///
/// [`SystemClock::on_counter`] reads the same register itself, the processor's time-stamp counter, and scales it to
/// that clock. A reading then costs a third less, and a query that does nothing costs the less by as much.
///
/// A long wait sleeps until [`SystemClock::SPIN_NS`] before its end, and spins from there on. A
/// spinning thread keeps a core busy, which on one thread is a core that the target does not want:
/// it is not running then. Sleeping to the end would make a wait late by as much as the kernel
/// takes to wake a thread, tens of microseconds on an idle machine.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    origin: u64,
    counter: Option<Counter>,
}

impl SystemClock {
    /// Time before the end of a wait at which spinning replaces sleeping, in nanoseconds. Shorter
    /// sleeps are not worth their system call and are spun as well.
    pub const SPIN_NS: u64 = 1_000_000;

    /// Creates a clock whose origin is now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: monotonic(), counter: None }
    }

    /// Creates a clock whose origin is now and which reads the processor's counter, scaled by what both clocks
    /// counted since `anchor`. If that is less than 2 ms ago, waits until then: the ends of the stretch are known to
    /// some 15 ns each, so that the scale is right to about 15 millionths.
    ///
    /// Only for a counter that the kernel itself reads for its clock, which then has proved that it keeps its rate,
    /// never stops, and is the same on all processors.
    #[must_use]
    pub fn on_counter(anchor: Anchor) -> Self {
        const SHORTEST_NS: u64 = 2_000_000;
        let end = loop {
            let Some(end) = Anchor::take() else { return Self::new() };
            if end.ns.wrapping_sub(anchor.ns) >= SHORTEST_NS {
                break end;
            }
            spin_loop();
        };
        let ticks = end.ticks.wrapping_sub(anchor.ticks);
        let ns = end.ns - anchor.ns;
        // A counter that stood still cannot be scaled.
        let scale = (u128::from(ns) << Counter::SHIFT).checked_div(u128::from(ticks));
        let scale = scale.and_then(|scale| u64::try_from(scale).ok());
        Self { origin: end.ns, counter: scale.map(|scale| Counter { origin: end.ticks, scale }) }
    }

    /// Returns the clock's name.
    #[must_use]
    pub const fn source(&self) -> &'static str {
        match self.counter {
            Some(_) => "TSC, scaled to CLOCK_MONOTONIC",
            None if cfg!(target_os = "macos") => "CLOCK_UPTIME_RAW",
            None => "CLOCK_MONOTONIC",
        }
    }

    /// Returns by how much the counter has gone ahead of the operating system's clock since the origin, and how long
    /// that is, both in nanoseconds. `None` without a counter.
    ///
    /// The kernel steers its clock by up to 500 millionths to keep to the time of day. More than that is a counter
    /// that stopped or changed its rate, such as when a virtual machine moves to another host.
    #[must_use]
    pub fn disagreement(&self) -> Option<(i64, u64)> {
        let counter = self.counter?;
        let now = Anchor::take()?;
        let elapsed = now.ns.wrapping_sub(self.origin);
        Some((counter.ns_at(now.ticks).wrapping_sub(elapsed) as i64, elapsed))
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
        match &self.counter {
            Some(counter) => counter.ns_at(ticks()),
            None => monotonic().wrapping_sub(self.origin),
        }
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

/// A scale of the processor's counter.
#[derive(Debug, Clone, Copy)]
struct Counter {
    /// Ticks at the clock's origin.
    origin: u64,
    /// Nanoseconds of a tick, times 2 to the power of `SHIFT`.
    scale: u64,
}

impl Counter {
    /// Leaves 31 bits for the fraction of a scale below 2, and does not overflow within centuries.
    const SHIFT: u32 = 32;

    #[inline]
    fn ns_at(&self, ticks: u64) -> u64 {
        let ticks = ticks.wrapping_sub(self.origin);
        ((u128::from(ticks) * u128::from(self.scale)) >> Self::SHIFT) as u64
    }
}

/// One moment on the processor's counter and on the operating system's clock.
#[derive(Debug, Clone, Copy)]
pub struct Anchor {
    ticks: u64,
    ns: u64,
}

impl Anchor {
    /// Reads both clocks. `None` on processors without a counter that we read.
    #[must_use]
    pub fn take() -> Option<Self> {
        /// The tightest of a few attempts was hardly disturbed.
        const ATTEMPTS: u32 = 16;
        if !HAS_COUNTER {
            return None;
        }
        let attempts = (0..ATTEMPTS).map(|_| {
            let before = ticks();
            let ns = monotonic();
            let width = ticks().wrapping_sub(before);
            (width, Self { ticks: before.wrapping_add(width / 2), ns })
        });
        attempts.min_by_key(|(width, _)| *width).map(|(_, anchor)| anchor)
    }
}

const HAS_COUNTER: bool = cfg!(all(target_arch = "x86_64", target_os = "linux"));

/// Reads the time-stamp counter, after all that comes before it in the program.
#[cfg(target_arch = "x86_64")]
#[inline]
fn ticks() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};

    // SAFETY: every x86-64 processor has both instructions.
    unsafe {
        _mm_lfence();
        _rdtsc()
    }
}

/// Never called: [`HAS_COUNTER`] is false.
#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    0
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
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    fn the_counter_keeps_to_the_systems_clock() {
        let clock = SystemClock::on_counter(Anchor::take().expect("x86-64 has a counter"));
        assert_eq!(clock.source(), "TSC, scaled to CLOCK_MONOTONIC");
        assert!(clock.now() < 60_000_000_000);
        std::thread::sleep(Duration::from_millis(50));
        let (ahead_ns, elapsed_ns) = clock.disagreement().expect("it has a counter");
        assert!(elapsed_ns >= 50_000_000, "{elapsed_ns}");
        assert!(ahead_ns.unsigned_abs() < elapsed_ns / 1000, "{ahead_ns} of {elapsed_ns}");
        assert_eq!(SystemClock::new().disagreement(), None);
    }

    #[test]
    fn ticks_become_nanoseconds_without_overflow() {
        // 2.6 GHz, and one year.
        let scale = (1_u128 << 32) * 10 / 26;
        let counter = Counter { origin: u64::MAX - 5, scale: scale as u64 };
        assert_eq!(counter.ns_at(counter.origin), 0);
        assert_eq!(counter.ns_at(counter.origin.wrapping_add(2600)), 999);
        let year = 365 * 86_400 * 2_600_000_000;
        let ns = counter.ns_at(counter.origin.wrapping_add(year));
        assert!(ns.abs_diff(365 * 86_400 * 1_000_000_000) < 20_000_000, "{ns}");
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
