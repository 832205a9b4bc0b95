//! Thread that samples the device's state while queries are timed, without disturbing them.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use host_measure::{Clock, SystemClock};
use host_record::{
    DeviceSample, DeviceStates, Doubt, Gap, NotMeasured, SlowedBy, Throttle, Warning,
};
use host_statistics::median;
use plugin_api::abi;
use plugin_api::client::{Backend, DeviceReading, DeviceStateReader};

use crate::exceptions;
use crate::surroundings::{not_offered, refused};

/// Number of samples that are kept, three hours of ten a second. Later ones are dropped.
const MAX_SAMPLES: usize = 1 << 17;

/// The summary, and every sample.
pub(crate) type Readings = (DeviceStates, Vec<DeviceSample>);

/// Thread that samples the device's state until it is stopped.
pub(crate) struct Sampler<'scope> {
    /// Dropped to end the thread.
    stop: Sender<()>,
    thread: ScopedJoinHandle<'scope, Result<Readings, Gap>>,
}

/// Starts sampling.
///
/// # Errors
///
/// A gap if the backend does not offer the extension, or the system no thread.
pub(crate) fn start<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    clock: &'env SystemClock,
    backend: &'env Backend,
    device: &'env str,
    period: Duration,
) -> Result<Sampler<'scope>, Gap> {
    let reader = backend.device_state(device).ok_or_else(|| not_offered(abi::DEVICE_STATE))?;
    let reader = reader.map_err(|error| refused(&error))?;
    // The first look of all may open a library, which should not happen in the timed part.
    reader.read().map_err(|error| refused(&error))?;
    let (stop, stopped) = channel();
    let thread = std::thread::Builder::new().name("device-state".into());
    let thread = thread.spawn_scoped(scope, move || {
        exceptions::end_search_above(|| {
            read_states(clock, &reader, period, || {
                stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout)
            })
        })
    });
    let thread =
        thread.map_err(|error| NotMeasured::NoThread { system_message: error.to_string() })?;
    Ok(Sampler { stop, thread })
}

impl Sampler<'_> {
    /// Ends sampling, and returns the result.
    ///
    /// # Errors
    ///
    /// A gap with the backend's error.
    pub(crate) fn end(self) -> Result<Readings, Gap> {
        drop(self.stop);
        self.thread.join().unwrap_or_else(|_| Err(NotMeasured::ThreadPanicked.into()))
    }
}

/// Reads the state at once, and again as long as `more` returns `true`.
fn read_states(
    clock: &SystemClock,
    reader: &DeviceStateReader<'_>,
    period: Duration,
    mut more: impl FnMut() -> bool,
) -> Result<Readings, Gap> {
    let (mut samples, mut times) = (Vec::with_capacity(1024), Vec::with_capacity(1024));
    let (mut failed, mut failure) = (0, None);
    loop {
        let started = Instant::now();
        let time_ns = clock.now();
        match reader.read() {
            Ok(reading) if samples.len() < MAX_SAMPLES => {
                times.push(started.elapsed().as_nanos() as u64);
                samples.push(sample(time_ns, reading));
            }
            Ok(_) => {}
            Err(error) => {
                failed += 1;
                failure = Some(error);
            }
        }
        if !more() {
            break;
        }
    }
    if let (true, Some(error)) = (samples.is_empty(), failure) {
        return Err(refused(&error));
    }
    let reading_ns = median(&times).expect("one reading at least") as u64;
    let states = DeviceStates::of(period.as_nanos() as u64, reading_ns, &samples);
    Ok((DeviceStates { failed_readings: failed, ..states }, samples))
}

fn sample(time_ns: u64, reading: DeviceReading) -> DeviceSample {
    let DeviceReading {
        utilisation,
        memory_utilisation,
        clock_hertz,
        memory_clock_hertz,
        temperature_celsius,
        power_watts,
        slowed_by,
    } = reading;
    DeviceSample {
        time_ns,
        utilisation,
        memory_utilisation,
        clock_hertz,
        memory_clock_hertz,
        temperature_celsius,
        power_watts,
        slowed_by: slowed_by.map(causes),
    }
}

fn causes(bits: u32) -> Vec<SlowedBy> {
    use abi::slowed_by::{HEAT, IDLENESS, POWER, SETTING};
    let known = [
        (IDLENESS, SlowedBy::Idleness),
        (SETTING, SlowedBy::Setting),
        (POWER, SlowedBy::Power),
        (HEAT, SlowedBy::Heat),
    ];
    let mut causes: Vec<_> =
        known.into_iter().filter(|(bit, _)| bits & bit != 0).map(|(_, cause)| cause).collect();
    // A bit that a later version names is something else to this one.
    if bits & !(IDLENESS | SETTING | POWER | HEAT) != 0 {
        causes.push(SlowedBy::Other);
    }
    causes
}

/// Warns about heat, power and other reasons that slow a busy device. Idling between queries and
/// settings by the user do not count.
pub(crate) fn warnings(states: &DeviceStates) -> impl Iterator<Item = Warning> + '_ {
    let shares = states.slowed_by.as_deref().unwrap_or_default().iter();
    shares
        .filter(|share| matches!(share.by, SlowedBy::Power | SlowedBy::Heat | SlowedBy::Other))
        .map(|share| {
            let (samples, of_samples) = (share.readings, states.readings);
            Doubt::Throttled { by: Throttle::Device { by: share.by, samples, of_samples } }.into()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_named_and_unknown_ones_are_something_else() {
        assert_eq!(causes(0), []);
        assert_eq!(
            causes(abi::slowed_by::HEAT | abi::slowed_by::IDLENESS),
            [SlowedBy::Idleness, SlowedBy::Heat]
        );
        assert_eq!(causes(1 << 20), [SlowedBy::Other]);
    }

    #[test]
    fn heat_and_power_are_told_and_idleness_is_not() {
        let states = |slowed_by: &[SlowedBy]| {
            let slowed_by = Some(slowed_by.to_vec());
            let sample = DeviceSample { slowed_by, ..DeviceSample::default() };
            DeviceStates::of(1, 1, &[sample, DeviceSample::default()])
        };
        let doubt = |slowed_by: &[SlowedBy]| {
            let states = states(slowed_by);
            warnings(&states).map(|warning| warning.doubt).collect::<Vec<_>>()
        };
        assert_eq!(doubt(&[SlowedBy::Idleness, SlowedBy::Setting]), []);
        assert_eq!(doubt(&[]), []);
        let slowed =
            |by| Doubt::Throttled { by: Throttle::Device { by, samples: 1, of_samples: 2 } };
        let both = [SlowedBy::Power, SlowedBy::Heat];
        assert_eq!(doubt(&both), both.map(slowed));
    }
}
