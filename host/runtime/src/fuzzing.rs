//! Access to readers of untrusted files, for fuzzing only.

use std::collections::BTreeMap;
use std::path::Path;

use host_registry::LockedPackage;

use crate::error::RuntimeError;
use crate::wheel::Wheel;

/// Unpacks a wheel into a folder.
///
/// # Errors
///
/// If it is damaged, malicious, or lacks files that the lock names.
pub fn unpack(package: &LockedPackage, wheel: &Path, folder: &Path) -> Result<(), RuntimeError> {
    Wheel::open(package, wheel)?.unpack(folder, &mut BTreeMap::new(), &mut |_| {})
}
