//! The coordinates of a case in the matrix.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::names::names;
use crate::number::Rate;
use crate::table::Cell;

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
    /// What is done with the model.
    Mode {
        /// Forward passes only.
        Inference = "inference",
        /// Steps that change the model: a query is a step.
        Training = "training",
        /// Answers token by token: a query is a prompt.
        Generation = "generation",
    }
}

names! {
    /// How queries are issued, with the meaning that MLPerf Inference gives these words.
    Scenario {
        /// One query of one batch at a time; the next is issued when the last completes.
        SingleStream = "single-stream",
        /// All samples are available at once; the backend may pipeline the batches.
        Offline = "offline",
        /// One query of several samples at a time; the next is issued when all of the last are
        /// done.
        MultiStream = "multi-stream",
        /// Queries of one batch arrive at random, as a Poisson process, whether or not the last is
        /// done.
        Server = "server",
        /// Queries of one batch arrive at equal intervals, whether or not the last is done.
        ConstantRate = "constant-rate",
        /// Several clients, each of which issues a query of one batch when its last one is done.
        ClosedLoop = "closed-loop",
    }
}

impl Scenario {
    /// Whether queries arrive by a schedule of their own, whether or not the backend is ready.
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
    /// The device as resolved, such as `cpu:0`.
    pub device: String,
    /// The precision asked for.
    pub precision: Precision,
    /// Samples per batch.
    pub batch: u32,
    /// Length of the sequence axis in tokens, where the matrix has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence_length: Option<u32>,
    /// What is done with the model.
    pub mode: Mode,
    /// How queries are issued.
    pub scenario: Scenario,
    /// Queries per second of an open loop; `None` where the rate is searched, and in every other
    /// scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Clients of a closed loop; `None` in every other scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
}

impl CaseKey {
    /// Names of the coordinates where they are columns of a table.
    pub const COLUMNS: [&'static str; 10] = [
        "model",
        "backend",
        "device",
        "precision",
        "batch",
        "sequence_length",
        "mode",
        "scenario",
        "rate",
        "clients",
    ];

    /// The scenario with what it is issued at or by: `server at 500/s`, `closed-loop of 4 clients`.
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

    /// The coordinates as cells, in the order of [`CaseKey::COLUMNS`].
    #[must_use]
    pub fn cells(&self) -> [Cell; 10] {
        let text = |text: &str| Cell::Text(text.to_owned());
        [
            text(&self.model),
            text(&self.backend),
            text(&self.device),
            text(self.precision.name()),
            Cell::Integer(self.batch.into()),
            self.sequence_length.map_or(Cell::Null, |length| Cell::Integer(length.into())),
            text(self.mode.name()),
            text(self.scenario.name()),
            self.rate.map_or(Cell::Null, |rate| Cell::Real(rate.get())),
            self.clients.map_or(Cell::Null, |clients| Cell::Integer(clients.into())),
        ]
    }
}

impl fmt::Display for CaseKey {
    /// `digits · cpu · cpu:0 · fp32 · batch 8 · offline`
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, backend, device, precision, batch, .. } = self;
        write!(formatter, "{model} · {backend} · {device} · {precision} · batch {batch}")?;
        if let Some(length) = self.sequence_length {
            write!(formatter, " · sequence {length}")?;
        }
        if self.mode != Mode::Inference {
            write!(formatter, " · {}", self.mode)?;
        }
        write!(formatter, " · {}", self.load())
    }
}
