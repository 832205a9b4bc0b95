//! Stages of a whole query: from the host's memory to the device, on the device, and
//! back. The measured window contains the middle part alone, so this is a short pass of its own.

use std::time::{Duration, Instant};

use host_measure::{Clock, SystemClock};
use host_record::{Gap, Impossible, InsideRun, StageTimes};
use plugin_api::client::{Error, Model, Session, TensorData};

use crate::backend::tensors;
use crate::surroundings::{not_offered, refused};

/// Enough for a mean, and short compared with the measurement.
const QUERIES: u64 = 10;
/// For long queries fewer are enough; one is made in any case.
const LIMIT: Duration = Duration::from_millis(500);

/// Makes whole queries of this batch and times their stages.
///
/// # Errors
///
/// A gap with the backend's error: earlier measurements stay valid.
pub(crate) fn stages(
    clock: &SystemClock,
    model: &Model,
    session: &Session,
    batch: &[TensorData],
) -> Result<StageTimes, Gap> {
    let mut sums = [0_u64; 3];
    let mut inside: Option<Result<[u64; 3], Gap>> = None;
    let mut queries = 0;
    let start = Instant::now();
    while queries < QUERIES && (queries == 0 || start.elapsed() < LIMIT) {
        let times = query(clock, model, session, batch).map_err(|error| refused(&error))?;
        for (sum, time) in sums.iter_mut().zip(times) {
            *sum += time;
        }
        queries += 1;
    }
    for _ in 0..queries {
        let times = inside_run(model, session, batch);
        let known = inside.get_or_insert(Ok([0; 3]));
        match (&mut *known, times) {
            (Ok(sums), Ok(times)) => {
                sums.iter_mut().zip(times).for_each(|(sum, time)| *sum += time)
            }
            (Ok(_), Err(gap)) => *known = Err(gap),
            (Err(_), _) => {}
        }
        if known.is_err() {
            break;
        }
    }
    let mean = |sum: u64| sum as f64 / queries as f64;
    let inside_run = inside.unwrap_or_else(|| Err(not_offered(plugin_api::abi::STAGE_TIMES)));
    let inside_run = inside_run.map(|[copy_in, compute, copy_out]| InsideRun {
        copy_in_ns: mean(copy_in),
        compute_ns: mean(compute),
        copy_out_ns: mean(copy_out),
    });
    let [copy_in, compute, copy_out] = sums.map(mean);
    Ok(with_inside(queries, [copy_in, compute, copy_out], inside_run))
}

/// Moves a run's own copies from its time to the copies, by share, because a run
/// that reports its stages may be slower.
fn with_inside(
    queries: u64,
    [copy_in_ns, compute_ns, copy_out_ns]: [f64; 3],
    inside_run: Result<InsideRun, Gap>,
) -> StageTimes {
    let (into, out) = match &inside_run {
        Ok(InsideRun { copy_in_ns, compute_ns, copy_out_ns }) => {
            let whole = copy_in_ns + compute_ns + copy_out_ns;
            let share = |part: f64| if whole > 0.0 { part / whole } else { 0.0 };
            (share(*copy_in_ns), share(*copy_out_ns))
        }
        Err(_) => (0.0, 0.0),
    };
    StageTimes {
        queries,
        copy_in_ns: copy_in_ns + into * compute_ns,
        compute_ns: compute_ns * (1.0 - into - out),
        copy_out_ns: copy_out_ns + out * compute_ns,
        inside_run,
    }
}

/// Measures copying in, running and copying out, in nanoseconds.
fn query(
    clock: &SystemClock,
    model: &Model,
    session: &Session,
    batch: &[TensorData],
) -> Result<[u64; 3], Error> {
    let start = clock.now();
    let inputs = tensors(model, batch)?;
    let copied = clock.now();
    let mut call = session.call(inputs)?;
    // The outputs of a first run are made, and those of a second written again, as measured.
    call.run()?;
    let before = clock.now();
    call.run()?;
    let done = clock.now();
    for output in 0..model.info().outputs.len() {
        call.read_output(output)?;
    }
    let read = clock.now();
    let between = |from: u64, to: u64| to.saturating_sub(from);
    Ok([between(start, copied), between(before, done), between(done, read)])
}

/// Returns the stages of one run, as reported by the backend.
fn inside_run(model: &Model, session: &Session, batch: &[TensorData]) -> Result<[u64; 3], Gap> {
    let inputs = tensors(model, batch).map_err(|error| refused(&error))?;
    let mut call = session.call(inputs).map_err(|error| refused(&error))?;
    let name = plugin_api::abi::STAGE_TIMES;
    let started = Instant::now();
    let times = call.run_in_stages().ok_or_else(|| not_offered(name))?;
    let elapsed = started.elapsed();
    let times = times.map_err(|error| refused(&error))?;
    let stages = [times.copy_in_ns, times.compute_ns, times.copy_out_ns];
    let sum: u128 = stages.iter().map(|stage| u128::from(*stage)).sum();
    if sum > elapsed.as_nanos() {
        let saturated = |nanoseconds: u128| u64::try_from(nanoseconds).unwrap_or(u64::MAX);
        let (stages_ns, run_ns) = (saturated(sum), saturated(elapsed.as_nanos()));
        return Err(Impossible::StageTimes { stages_ns, run_ns }.into());
    }
    Ok(stages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_copies_is_counted_among_the_copies() {
        let inside = InsideRun { copy_in_ns: 25.0, compute_ns: 50.0, copy_out_ns: 25.0 };
        let stages = with_inside(3, [5.0, 50.0, 7.0], Ok(inside));
        assert_eq!((stages.copy_in_ns, stages.compute_ns, stages.copy_out_ns), (17.5, 25.0, 19.5));
        let gap = not_offered("x");
        let stages = with_inside(3, [5.0, 50.0, 7.0], Err(gap.clone()));
        assert_eq!((stages.copy_in_ns, stages.compute_ns, stages.copy_out_ns), (5.0, 50.0, 7.0));
        assert_eq!(stages.inside_run, Err(gap));
        let none = InsideRun { copy_in_ns: 0.0, compute_ns: 0.0, copy_out_ns: 0.0 };
        assert_eq!(with_inside(1, [1.0, 2.0, 3.0], Ok(none)).compute_ns, 2.0);
    }
}
