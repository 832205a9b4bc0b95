//! State of a device while a case was measured, sampled repeatedly from a thread of its own.

use serde::{Deserialize, Serialize};

/// State of a device at a moment, as far as it is reported.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct DeviceSample {
    /// Time in nanoseconds of the clock that times queries.
    pub time_ns: u64,
    /// Part of the latest time in which it computed, 0 to 1.
    pub utilisation: Option<f64>,
    /// Part of that time in which its memory was read or written, 0 to 1.
    pub memory_utilisation: Option<f64>,
    /// Clock of what computes, in hertz.
    pub clock_hertz: Option<f64>,
    /// Clock of its memory, in hertz.
    pub memory_clock_hertz: Option<f64>,
    /// Temperature in degrees Celsius.
    pub temperature_celsius: Option<f64>,
    /// Power of the whole device, in watts.
    pub power_watts: Option<f64>,
    /// Reasons why its clocks were below their maximum; empty if there was none.
    pub slowed_by: Option<Vec<SlowedBy>>,
}

/// Reasons why a device's clocks are below their maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlowedBy {
    /// The device is idle.
    Idleness,
    /// Somebody has set them.
    Setting,
    /// A limit on power.
    Power,
    /// High temperature.
    Heat,
    /// Another reason.
    Other,
}

impl SlowedBy {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Idleness, Self::Setting, Self::Power, Self::Heat, Self::Other];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idleness => "idleness",
            Self::Setting => "setting",
            Self::Power => "power",
            Self::Heat => "heat",
            Self::Other => "other",
        }
    }
}

/// State of a device over the measured window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DeviceStates {
    /// Sampling interval in nanoseconds, as in the manifest.
    pub period_ns: u64,
    /// Number of successful readings.
    pub readings: u64,
    /// Number of failed readings.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed_readings: u64,
    /// Median duration of a reading, in nanoseconds.
    pub reading_ns: u64,
    /// Part of the time in which it computed, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<Spread>,
    /// Part of the time in which its memory was read or written, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_utilisation: Option<Spread>,
    /// Clock of what computes, in hertz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_hertz: Option<Spread>,
    /// Clock of its memory, in hertz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_clock_hertz: Option<Spread>,
    /// Temperature in degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<Spread>,
    /// Power of the whole device, in watts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_watts: Option<Spread>,
    /// Reasons for low clocks, each with its number of samples; `None` if the device does not
    /// report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowed_by: Option<Vec<SlowedShare>>,
}

/// Minimum, mean and maximum of the samples with data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Spread {
    /// The least.
    pub minimum: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The most.
    pub maximum: f64,
}

/// Number of samples with one reason for low clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SlowedShare {
    /// The cause.
    pub by: SlowedBy,
    /// Number of readings.
    pub readings: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl DeviceStates {
    /// Summarises readings that were taken every `period_ns` and took `reading_ns` at the median.
    #[must_use]
    pub fn of(period_ns: u64, reading_ns: u64, samples: &[DeviceSample]) -> Self {
        let spread = |of: fn(&DeviceSample) -> Option<f64>| {
            let values: Vec<f64> = samples.iter().filter_map(of).collect();
            Some(Spread {
                minimum: values.iter().copied().reduce(f64::min)?,
                mean: values.iter().sum::<f64>() / values.len() as f64,
                maximum: values.iter().copied().reduce(f64::max)?,
            })
        };
        let reported: Vec<&Vec<SlowedBy>> =
            samples.iter().filter_map(|sample| sample.slowed_by.as_ref()).collect();
        let shares = SlowedBy::ALL.into_iter().filter_map(|by| {
            let readings = reported.iter().filter(|causes| causes.contains(&by)).count() as u64;
            (readings > 0).then_some(SlowedShare { by, readings })
        });
        Self {
            period_ns,
            readings: samples.len() as u64,
            failed_readings: 0,
            reading_ns,
            utilisation: spread(|sample| sample.utilisation),
            memory_utilisation: spread(|sample| sample.memory_utilisation),
            clock_hertz: spread(|sample| sample.clock_hertz),
            memory_clock_hertz: spread(|sample| sample.memory_clock_hertz),
            temperature_celsius: spread(|sample| sample.temperature_celsius),
            power_watts: spread(|sample| sample.power_watts),
            slowed_by: (!reported.is_empty()).then(|| shares.collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_summed_up_and_what_is_not_told_stays_unknown() {
        let reading = |clock: Option<f64>, slowed_by: Option<&[SlowedBy]>| DeviceSample {
            clock_hertz: clock,
            slowed_by: slowed_by.map(<[_]>::to_vec),
            ..DeviceSample::default()
        };
        let states = DeviceStates::of(
            1000,
            5,
            &[
                reading(Some(2e9), Some(&[])),
                reading(None, None),
                reading(Some(1e9), Some(&[SlowedBy::Heat, SlowedBy::Power])),
                reading(Some(1.2e9), Some(&[SlowedBy::Heat])),
            ],
        );
        let clock = Spread { minimum: 1e9, mean: 1.4e9, maximum: 2e9 };
        assert_eq!(
            (states.readings, states.clock_hertz, states.power_watts),
            (4, Some(clock), None)
        );
        let share = |by, readings| SlowedShare { by, readings };
        let expected = vec![share(SlowedBy::Power, 1), share(SlowedBy::Heat, 2)];
        assert_eq!(states.slowed_by, Some(expected));
        let none = DeviceStates::of(1000, 5, &[reading(None, None)]);
        assert_eq!((none.clock_hertz, none.slowed_by), (None, None));
        let unhindered = DeviceStates::of(1000, 5, &[reading(None, Some(&[]))]);
        assert_eq!(unhindered.slowed_by, Some(Vec::new()));
    }
}
