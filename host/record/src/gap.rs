//! Statements that something cannot be done or measured.

use serde::{Deserialize, Serialize};

use crate::names::names;

names! {
    /// Why something cannot be done or measured here.
    GapKind {
        /// No such plugin is installed, or none with a version that fits.
        PluginMissing = "plugin-missing",
        /// The plugin is there, and the vendor's runtime that it needs is not.
        RuntimeMissing = "runtime-missing",
        /// The plugin sees no such device on this machine.
        DeviceMissing = "device-missing",
        /// The device does not compute in this precision.
        PrecisionUnsupported = "precision-unsupported",
        /// The model has no file for this precision.
        ModelFileMissing = "model-file-missing",
        /// The backend cannot do this mode, scenario or shape.
        Unsupported = "unsupported",
        /// The machine, the backend or the case offers no such measurement.
        NotMeasured = "not-measured",
        /// What the backend said cannot be, and is refused.
        Impossible = "impossible",
    }
}

/// A typed statement that something cannot be done or measured. Never a zero, never a guess.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Gap {
    /// What kind of thing is missing.
    pub kind: GapKind,
    /// What was looked for and not found, in one sentence.
    pub reason: String,
}
