/*!
Facts about the machine and the processes on it, from the operating system.

All other crates use this one instead of opening `/proc`, `/sys` or a control group. A [`Machine`] answers through one
trait, [`System`]. Its answers are readings: the caller compares, judges and describes them. A fact that a system does
not offer keeps the trait's default, which is `None`, so a gap needs no code and nothing is guessed.

On Linux the facts are files, and a machine can be made of files in a folder ([`Machine::at`]), so that tests can read
other machines than their own. [`fake::Files`] makes such a folder.

Changes to a process, such as binding it to processors, are in [`process`].
*/

mod commit;
// The meaning of the kernel's values is tested on every system.
#[cfg(any(target_os = "macos", test))]
mod darwin;
mod environment;
pub mod fake;
mod linux;
mod machine;
pub mod process;
mod system;

pub use commit::git_commit;
pub use environment::{environment, name};
pub use machine::Machine;
pub use system::{
    Activity, EnergyCounter, MachineActivity, Memory, NoEnergy, Place, Power, ProcessMemory,
    ProcessorActivity, QuotaThrottling, System, ThermalPressure, Turbo,
};
