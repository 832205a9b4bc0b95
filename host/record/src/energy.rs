//! Energy that was taken while a case was measured.

use serde::{Deserialize, Serialize};

use crate::gap::Gap;

/// Energy of one part of the machine over the measured window of a case: everything that it used,
/// for this case and for other work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DomainEnergy {
    /// The part: `package-0` for a processor, `package-0/dram` for a part of one, a device's
    /// id for a device.
    pub domain: String,
    /// Energy in joules.
    pub joules: f64,
    /// Over how long, in seconds: from the reading before the first measured query to the one
    /// after the last.
    pub seconds: f64,
    /// Time between two changes of the counter, as measured just afterwards, in seconds. A counter that did not change
    /// meanwhile has at least this. Absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_seconds: Option<f64>,
}

/// Energy over the measured part of a case, or why it is not known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Energy {
    /// Of processors, their parts and memory, as the processor counts it.
    pub processor: Result<Vec<DomainEnergy>, Gap>,
    /// Of the device, as the backend counts it.
    pub device: Result<DomainEnergy, Gap>,
}

impl Energy {
    /// Returns the processors' packages, which include their parts. Their sum counts nothing twice.
    pub fn packages(&self) -> impl Iterator<Item = &DomainEnergy> {
        let domains = self.processor.as_deref().unwrap_or_default();
        domains.iter().filter(|one| one.domain.starts_with("package") && !one.domain.contains('/'))
    }
}
