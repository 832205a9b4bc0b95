/*!
Facts about the machine and the processes on it, from the operating system.

Every other room uses this crate instead of opening `/proc`, `/sys` or a control group itself. A
[`Machine`] answers through one trait, [`System`]. Its answers are readings: the caller compares,
judges and describes them. A fact that a system does not offer keeps the trait's default, which is
`None`, so a gap needs no code and nothing is guessed.

On Linux the facts are files, and a machine can be made of files in a folder ([`Machine::at`]), so
that tests read machines that they do not run on. [`fake::Files`] makes such a folder.

Changes to a process, such as binding it to processors, are in [`process`].
*/

mod commit;
// The meaning of the kernel's values is tested on every system.
#[cfg(any(target_os = "macos", test))]
mod darwin;
mod environment;
pub mod fake;
mod linux;
pub mod process;
mod system;

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

pub use commit::git_commit;
pub use environment::{environment, name, with_commit};
pub use system::{
    Activity, EnergyCounter, MachineActivity, Memory, NoEnergy, Place, Power, ProcessMemory,
    ProcessorActivity, QuotaThrottling, System, ThermalPressure, Turbo,
};

/// A machine, which answers with what it says about itself.
#[derive(Debug, Clone)]
pub struct Machine(Arc<dyn System>);

impl Machine {
    /// Returns the machine that this process runs on.
    #[must_use]
    pub fn this() -> Self {
        #[cfg(target_os = "macos")]
        return Self(Arc::new(darwin::Mac));
        #[cfg(not(target_os = "macos"))]
        Self::at("/")
    }

    /// Returns a Linux machine whose `/proc`, `/sys` and `/etc` lie below `root`.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self(Arc::new(linux::Files::at(root)))
    }
}

impl Deref for Machine {
    type Target = dyn System;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}
