//! Measures the peaks of the processors that this process may use.

use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use host_machine::Machine;
use host_record::{Calibration, ComputePeak, NotMeasured};

use crate::kernels::{self, Kernel};

/// Why processors cannot be calibrated.
#[derive(Debug)]
pub struct CalibrationError {
    /// The reason.
    pub reason: String,
}

/// Duration of one measurement. The fastest of several counts: whatever else the machine does only slows them down.
const ROUND: Duration = Duration::from_millis(20);
const ROUNDS: usize = 6;

/// Memory that is read, in sizes of the caches: as STREAM asks for (McCalpin 1995).
const CACHES: u64 = 4;

/// Size of caches that the system does not state.
const USUAL_CACHE: u64 = 64 << 20;

/// Measures with a thread for each processor, in about half a second.
///
/// # Errors
///
/// If a thread cannot be started.
pub fn calibrate(machine: &Machine) -> Result<Calibration, CalibrationError> {
    let failed = |error: std::io::Error| CalibrationError { reason: error.to_string() };
    let threads = thread::available_parallelism().map_err(failed)?.get();
    let compute = kernels::kernels().into_iter().map(|kernel| {
        let flops_per_second = compute(&kernel, threads)?;
        let instructions = kernel.instructions.to_owned();
        Ok((kernel.precision, ComputePeak { flops_per_second, instructions }))
    });
    let compute = compute.collect::<Result<_, std::io::Error>>().map_err(failed)?;
    let cache_bytes = machine.cache_bytes().unwrap_or(USUAL_CACHE);
    let buffer_bytes = buffer_bytes(machine);
    let available_bytes = machine.available_memory().unwrap_or(u64::MAX);
    let bytes_per_second = match buffer_bytes <= available_bytes / 2 {
        true => Ok(bandwidth(buffer_bytes, threads).map_err(failed)?),
        false => Err(NotMeasured::CalibrationMemory { cache_bytes, available_bytes }.into()),
    };
    let threads = u32::try_from(threads).unwrap_or(u32::MAX);
    Ok(Calibration { threads, compute, bytes_per_second, buffer_bytes })
}

/// Returns the memory to read, which the caches do not hold.
pub(crate) fn buffer_bytes(machine: &Machine) -> u64 {
    machine.cache_bytes().unwrap_or(USUAL_CACHE).saturating_mul(CACHES)
}

/// Returns the operations for each second of all threads.
fn compute(kernel: &Kernel, threads: usize) -> std::io::Result<f64> {
    // As many rounds as fit, by one thread, which also wakes the wide units up.
    let mut rounds = 1 << 12;
    let rounds = loop {
        let start = Instant::now();
        (kernel.run)(rounds);
        let elapsed = start.elapsed();
        if elapsed >= ROUND / 4 {
            let all = rounds as f64 * ROUND.as_secs_f64() / elapsed.as_secs_f64();
            break (all as u64).max(1);
        }
        rounds *= 2;
    };
    let seconds = fastest(threads, |_| (), |()| (kernel.run)(rounds))?;
    let operations = kernel.operations as f64 * rounds as f64 * threads as f64;
    Ok(operations / seconds)
}

/// Returns the bytes for each second that all threads read.
fn bandwidth(bytes: u64, threads: usize) -> std::io::Result<f64> {
    let numbers = usize::try_from(bytes / 8).unwrap_or(usize::MAX) / threads;
    // Each thread writes its own part first, so that it lies in the memory nearest to it.
    let part = |thread: usize| vec![thread as u64 + 1; numbers];
    let seconds = fastest(threads, part, |part| kernels::read(part))?;
    Ok((numbers * 8 * threads) as f64 / seconds)
}

/// Runs work in threads that begin together, several times. Returns the seconds of the fastest time.
fn fastest<T>(
    threads: usize,
    prepare: impl Fn(usize) -> T + Sync,
    work: impl Fn(&T) + Sync,
) -> std::io::Result<f64> {
    let spans = spans(threads, ROUNDS, prepare, work)?;
    Ok(spans.into_iter().fold(f64::INFINITY, f64::min))
}

/// Runs work in threads that begin together, so many times. Returns for each the seconds from the first beginning to the
/// last end.
pub(crate) fn spans<T>(
    threads: usize,
    rounds: usize,
    prepare: impl Fn(usize) -> T + Sync,
    work: impl Fn(&T) + Sync,
) -> std::io::Result<Vec<f64>> {
    let (barrier, gate) = (Barrier::new(threads), Mutex::new(false));
    let (barrier, gate, prepare, work) = (&barrier, &gate, &prepare, &work);
    let of_thread = move |thread| {
        let prepared = prepare(thread);
        let mut spans = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            barrier.wait();
            let start = Instant::now();
            work(&prepared);
            spans.push((start, Instant::now()));
        }
        spans
    };
    thread::scope(|scope| {
        // Threads wait at the gate until all are there: one that cannot be started would be missed at the barrier.
        let mut is_open = gate.lock().expect("no thread panics");
        let mut handles = Vec::with_capacity(threads - 1);
        for thread in 1..threads {
            let work = move || {
                let is_open = *gate.lock().expect("no thread panics");
                if is_open { of_thread(thread) } else { Vec::new() }
            };
            handles.push(thread::Builder::new().spawn_scoped(scope, work)?);
        }
        *is_open = true;
        drop(is_open);
        let mut all = vec![of_thread(0)];
        all.extend(handles.into_iter().map(|handle| handle.join().expect("it does not panic")));
        let of_round = |round: usize| {
            let spans = || all.iter().map(move |spans| spans[round]);
            let start = spans().map(|(start, _)| start).min().expect("a thread");
            let end = spans().map(|(_, end)| end).max().expect("a thread");
            end.duration_since(start).as_secs_f64()
        };
        Ok((0..rounds).map(of_round).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_has_positive_peaks_and_names_its_instructions() {
        let calibration = calibrate(&Machine::this()).expect("threads start");
        assert!(calibration.threads >= 1);
        for (precision, peak) in &calibration.compute {
            // Slower than any processor of the last twenty years, and faster than any.
            assert!((1e8..1e16).contains(&peak.flops_per_second), "{precision}: {peak:?}");
            assert!(!peak.instructions.is_empty());
        }
        if let Ok(bytes) = calibration.bytes_per_second {
            assert!((1e8..1e14).contains(&bytes), "{bytes}");
        }
    }

    #[test]
    fn all_threads_work_in_every_round() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let count = AtomicUsize::new(0);
        let prepared = AtomicUsize::new(0);
        let seconds = fastest(
            3,
            |_| prepared.fetch_add(1, Ordering::Relaxed),
            |_| {
                count.fetch_add(1, Ordering::Relaxed);
            },
        );
        assert!(seconds.expect("threads start").is_finite());
        assert_eq!(count.into_inner(), 3 * ROUNDS);
        assert_eq!(prepared.into_inner(), 3);
    }
}
