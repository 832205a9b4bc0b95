//! Backends: a plugin, and a device that it finds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::key::{Mode, Precision};

/// Identity of a plugin: enough to tell that two results came from the same code.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PluginIdentity {
    /// The plugin's id.
    pub id: String,
    /// Its version, semver.
    pub version: String,
    /// SHA-256 of its library or component, in hexadecimal.
    pub sha256: String,
}

/// A device as a backend describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DeviceInfo {
    /// Id, stable within a machine, such as `cpu:0`.
    pub id: String,
    /// `cpu`, `gpu`, `npu` or another word for the kind of hardware.
    pub kind: String,
    /// The full name that the vendor gives it.
    pub name: String,
    /// Memory in bytes; `None` if the backend does not report it.
    pub memory_bytes: Option<u64>,
    /// Precisions in which it computes here.
    pub precisions: Vec<Precision>,
    /// Modes in which its backend runs models.
    #[serde(default = "inference", skip_serializing_if = "is_inference")]
    pub modes: Vec<Mode>,
    /// Other facts from the backend: driver, runtime, compute capability.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
}

/// Returns the mode of a backend that lists none.
fn inference() -> Vec<Mode> {
    vec![Mode::Inference]
}

fn is_inference(modes: &[Mode]) -> bool {
    modes == [Mode::Inference]
}
