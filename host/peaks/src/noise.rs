//! How far the same work takes a different time, within one process.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use host_machine::Machine;
use host_record::NoiseProbe;

use crate::calibration::{CalibrationError, buffer_bytes, spans};
use crate::kernels;

/// Duration of a round of arithmetic, on one thread.
const ROUND: Duration = Duration::from_millis(4);

/// Numbers of eight bytes that a thread reads in a round: 32 MiB, for some milliseconds.
const MEMORY_ROUND: usize = 4 << 20;

/// Most memory that is read: filling it takes time too.
const MOST_MEMORY: u64 = 512 << 20;

/// Fewest rounds.
const LEAST_ROUNDS: usize = 8;

/// A thread that reads the clock did not run if no reading came for this long.
const WAIT: Duration = Duration::from_micros(20);

/// Part of the time for the thread that reads the clock.
const LOOKING: f64 = 0.2;

/// Repeats the same work for this long: arithmetic in registers, and reads of memory, each with a thread for each
/// processor; and looks how often a thread has to wait.
///
/// # Errors
///
/// If a thread cannot be started.
pub fn probe(machine: &Machine, time: Duration) -> Result<NoiseProbe, CalibrationError> {
    let failed = |error: std::io::Error| CalibrationError { reason: error.to_string() };
    let threads = thread::available_parallelism().map_err(failed)?.get();
    let mut probe = look(time.mul_f64(LOOKING));
    probe.threads = u32::try_from(threads).unwrap_or(u32::MAX);
    let half = time.mul_f64((1.0 - LOOKING) / 2.0);
    if let Some(kernel) = kernels::kernels().first() {
        let mut rounds = 1 << 10;
        let elapsed = loop {
            let start = Instant::now();
            (kernel.run)(rounds);
            let elapsed = start.elapsed();
            if elapsed >= ROUND / 4 {
                break elapsed;
            }
            rounds *= 2;
        };
        let rounds = (rounds as f64 * ROUND.as_secs_f64() / elapsed.as_secs_f64()) as u64;
        let work = |(): &()| (kernel.run)(rounds.max(1));
        let count = (half.as_secs_f64() / ROUND.as_secs_f64()) as usize;
        probe.compute_seconds =
            spans(threads, count.max(LEAST_ROUNDS), |_| (), work).map_err(failed)?;
    }
    let bytes = buffer_bytes(machine).min(MOST_MEMORY);
    if bytes <= machine.available_memory().unwrap_or(u64::MAX) / 2 {
        let numbers = usize::try_from(bytes / 8).unwrap_or(usize::MAX) / threads;
        // A round reads a part, and the next round the next part.
        let part = |thread: usize| (vec![thread as u64 + 1; numbers], Cell::new(0));
        let read = |(numbers, next): &(Vec<u64>, Cell<usize>)| {
            let parts = numbers.len() / MEMORY_ROUND;
            let begin = (next.get() % parts.max(1)) * MEMORY_ROUND;
            next.set(next.get() + 1);
            kernels::read(&numbers[begin..numbers.len().min(begin + MEMORY_ROUND)]);
        };
        let count = (half.as_secs_f64() / ROUND.as_secs_f64()) as usize;
        probe.memory_seconds =
            spans(threads, count.max(LEAST_ROUNDS), part, read).map_err(failed)?;
    }
    Ok(probe)
}

/// Reads the clock again and again.
fn look(time: Duration) -> NoiseProbe {
    let mut probe = NoiseProbe { clock_step_ns: u64::MAX, ..NoiseProbe::default() };
    let (start, mut readings, mut waited) = (Instant::now(), 0_u64, Duration::ZERO);
    let mut last = start;
    let elapsed = loop {
        let now = Instant::now();
        readings += 1;
        let gap = now.duration_since(last);
        if gap >= WAIT {
            waited += gap;
            probe.longest_wait_ns = probe.longest_wait_ns.max(gap.as_nanos() as u64);
        } else if !gap.is_zero() {
            probe.clock_step_ns = probe.clock_step_ns.min(gap.as_nanos() as u64);
        }
        last = now;
        let elapsed = now.duration_since(start);
        if elapsed >= time {
            break elapsed;
        }
    };
    let seconds = elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    probe.waiting_share = waited.as_secs_f64() / seconds;
    probe.clock_read_ns = (elapsed - waited).as_nanos() as f64 / readings as f64;
    probe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_work_is_repeated_for_as_long_as_asked() {
        let probe = probe(&Machine::this(), Duration::from_millis(50)).expect("threads start");
        assert!(probe.threads >= 1);
        for seconds in [&probe.compute_seconds, &probe.memory_seconds] {
            assert!(seconds.is_empty() || seconds.len() >= LEAST_ROUNDS);
            assert!(seconds.iter().all(|time| *time > 0.0));
        }
        assert!((0.0..=1.0).contains(&probe.waiting_share));
        assert!(probe.clock_read_ns > 0.0 && probe.clock_step_ns < 1_000_000);
    }
}
