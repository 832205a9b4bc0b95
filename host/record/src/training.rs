//! Passes of a training case beside the timed steps.

use serde::{Deserialize, Serialize};

/// Steps with marks and steps without, made in turn after the measured part. Times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LookingCost {
    /// Number of steps of each kind.
    pub turns: u64,
    /// Mean time of a step in which the device is waited for after each phase.
    pub marked_ns: f64,
    /// Mean time of a step in which the device is waited for at its end alone.
    pub unmarked_ns: f64,
    /// Standard error of the mean difference within a turn; `None` with a single turn.
    pub error_ns: Option<f64>,
}

/// Memory that a phase of a training step takes on the device, from a step that was made after the measured part. What
/// the engine's allocator gave out, and not what it holds of the device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PhaseMemory {
    /// The phase.
    pub phase: String,
    /// The most that tensors took during it.
    pub peak_bytes: u64,
    /// Memory that they took at its end.
    pub used_bytes: u64,
}

/// Training from the weights of the file, epoch by epoch, in a session of its own after the measured part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Learning {
    /// Examples that it is trained on.
    pub examples: u64,
    /// Examples that it is tested on, which are not among them.
    pub test_examples: u64,
    /// Examples of each step.
    pub batch: u64,
    /// Steps of each epoch. Examples that do not fill a batch are left out, in each epoch others.
    pub steps: u64,
    /// Loss of each step before its update, in order; `None` if it is not a finite number. Empty if there are more than
    /// [`Learning::MOST_LOSSES`] steps.
    pub losses: Vec<Option<f32>>,
    /// Epochs, in order.
    pub epochs: Vec<Epoch>,
}

impl Learning {
    /// Limit on the steps whose losses are kept one by one.
    pub const MOST_LOSSES: usize = 1 << 14;

    /// Returns the number of examples that are trained on in each epoch.
    #[must_use]
    pub fn trained(&self) -> u64 {
        self.steps * self.batch
    }
}

/// An epoch: all examples once, in random order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Epoch {
    /// Time of its steps in nanoseconds, with reading the examples and the losses.
    pub time_ns: u64,
    /// Part of it in which batches were read and handed to the backend.
    pub reading_ns: u64,
    /// Mean loss of its steps; `None` if it is not a finite number.
    pub loss: Option<f64>,
    /// Time of the test after it in nanoseconds, which is not a part of `time-ns`.
    pub test_ns: u64,
    /// Mean loss of the test; `None` without test examples, or if it is not a finite number.
    pub test_loss: Option<f64>,
    /// Test examples whose label has the highest score; `None` without test examples or labels.
    pub right: Option<u64>,
}
