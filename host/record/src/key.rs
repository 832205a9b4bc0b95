//! The coordinates of a case in the matrix.

use serde::{Deserialize, Serialize};

use crate::names::names;
use crate::number::Rate;

names! {
    /// The number format in which a model computes.
    Precision {
        /// IEEE 754 binary32.
        Fp32 = "fp32",
        /// IEEE 754 binary16.
        Fp16 = "fp16",
        /// bfloat16: the upper half of a binary32.
        Bf16 = "bf16",
        /// 8-bit integers with scales, from a quantised model.
        Int8 = "int8",
    }
}

names! {
    /// Kind of work.
    Mode {
        /// Forward passes only.
        Inference = "inference",
        /// Steps that change the model: a query is a step.
        Training = "training",
        /// Answers token by token: a query is a prompt.
        Generation = "generation",
    }
}

impl Mode {
    /// Returns the input that a model may have in this mode beside those of its file: the target of the loss.
    #[must_use]
    pub fn further_input(self) -> Option<&'static str> {
        (self == Self::Training).then_some("target")
    }

    /// Returns the output that a model has in this mode beside those of its file.
    #[must_use]
    pub fn further_output(self) -> Option<&'static str> {
        (self == Self::Training).then_some("loss")
    }
}

names! {
    /// Way of issuing queries, with the names' meaning in MLPerf Inference.
    Scenario {
        /// One query of one batch at a time; the next is issued when the last completes.
        SingleStream = "single-stream",
        /// All examples are available at once; the backend may pipeline the batches.
        Offline = "offline",
        /// One query of several examples at a time; the next is issued when all of the last are
        /// done.
        MultiStream = "multi-stream",
        /// Queries of one batch arrive at random, as a Poisson process, whether or not the last is
        /// done.
        Server = "server",
        /// Queries of one batch arrive at equal intervals, whether or not the last is done.
        ConstantRate = "constant-rate",
        /// Several clients, each issuing a query of one batch when its last one is done.
        ClosedLoop = "closed-loop",
    }
}

impl Scenario {
    /// Returns whether queries arrive by a schedule of their own, whether or not the backend is
    /// ready.
    #[must_use]
    pub fn is_open_loop(self) -> bool {
        matches!(self, Self::Server | Self::ConstantRate)
    }
}

/// The coordinates of a case in the matrix: what a reader calls the case by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CaseKey {
    /// The `id` of the `[[model]]`.
    pub model: String,
    /// The `id` of the `[[backend]]`.
    pub backend: String,
    /// The resolved device, such as `cpu:0`.
    pub device: String,
    /// The precision asked for.
    pub precision: Precision,
    /// Examples per batch.
    pub batch: u32,
    /// Length of the sequence axis in tokens, if the matrix has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence_length: Option<u32>,
    /// Kind of work.
    pub mode: Mode,
    /// Load scenario.
    pub scenario: Scenario,
    /// Queries per second of an open loop; `None` if the rate is searched, and in every other
    /// scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Clients of a closed loop; `None` in every other scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
}

impl CaseKey {
    /// Returns the length of sequences in tokens, if the case has one.
    #[must_use]
    pub fn tokens(&self) -> Option<u32> {
        self.sequence_length
    }

    /// Creates a key of inference in fp32 with batch 1 and one query after the other.
    #[must_use]
    pub fn new(
        model: impl Into<String>,
        backend: impl Into<String>,
        device: impl Into<String>,
    ) -> Self {
        Self {
            model: model.into(),
            backend: backend.into(),
            device: device.into(),
            precision: Precision::Fp32,
            batch: 1,
            sequence_length: None,
            mode: Mode::Inference,
            scenario: Scenario::SingleStream,
            rate: None,
            clients: None,
        }
    }

    /// Returns the scenario with its rate or clients: `server at 500/s`, `closed-loop of 4
    /// clients`.
    #[must_use]
    pub fn load(&self) -> String {
        let Self { scenario, rate, clients, .. } = self;
        match (rate, clients) {
            (Some(rate), _) => format!("{scenario} at {}/s", rate.rounded()),
            (None, Some(1)) => format!("{scenario} of 1 client"),
            (None, Some(clients)) => format!("{scenario} of {clients} clients"),
            (None, None) => scenario.to_string(),
        }
    }
}
