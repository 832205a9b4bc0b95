//! Typed advice about a measurement.

use serde::{Deserialize, Serialize};

use crate::names::names;

names! {
    /// What is doubtful about a measurement.
    WarningKind {
        /// The result is invalid: it broke its limit, or the rules, or its load was not kept up, or the work
        /// was not done.
        Invalid = "invalid",
        /// No hardware of its kind computed: the device is a simulator, or is made of software.
        Simulated = "simulated",
        /// Fewer queries than were asked for, or than a stated percentile needs.
        FewSamples = "few-samples",
        /// A query takes so little time that the harness's own cost shows.
        OverheadVisible = "overhead-visible",
        /// A query takes less than a few steps of the clock.
        ClockTooCoarse = "clock-too-coarse",
        /// The latencies reached no steady state: while warming up, or while measuring.
        NoSteadyState = "no-steady-state",
        /// Latencies drifted between the first and the last part of the measurement.
        Drift = "drift",
        /// The first of the measured queries belong to the warm-up.
        WarmingUp = "warming-up",
        /// From some query on all were slower, as on a machine that lowers its clocks.
        SlowedDown = "slowed-down",
        /// Queries take one of two times, so that no single number tells what one takes.
        Bimodal = "bimodal",
        /// Queries stall at regular distances.
        Stalls = "stalls",
        /// `run` returned before the work was done, so that latencies do not contain it.
        ReturnedEarly = "returned-early",
        /// The backend told figures that cannot be, which are refused.
        Impossible = "impossible",
        /// Operators ran elsewhere than on the device that was asked for.
        FellBack = "fell-back",
        /// Some of what the model answered is NaN.
        NotANumber = "not-a-number",
        /// Other work kept the machine busy.
        MachineBusy = "machine-busy",
        /// More threads compute than there are processors for them.
        Oversubscribed = "oversubscribed",
        /// The kernel kept taking the processor from the threads that were measured.
        Preempted = "preempted",
        /// A reading of the clock costs more than it should.
        ClockSlow = "clock-slow",
        /// Heat or a quota slowed the processors.
        Throttled = "throttled",
        /// The processors' frequency changed.
        FrequencyChanged = "frequency-changed",
        /// Pages of memory were missing while measuring.
        PageFaults = "page-faults",
        /// The backend used something else than it was asked for.
        NotAsAsked = "not-as-asked",
    }
}

/// A warning, with its evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Warning {
    /// What is doubtful.
    pub kind: WarningKind,
    /// The figures that say so, in one sentence.
    pub evidence: String,
}
