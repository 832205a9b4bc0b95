/*!
The commands of Slurm: submit an array, ask for its tasks, cancel it.

Slurm is asked through its commands, as a user would ask it: `sbatch`, `squeue`, `sacct`, `scancel`, `sinfo` and
`scontrol`. They are on every cluster, they find the controller and the credentials themselves, and their options are kept
over versions. Its C library changes with each version, and its REST server is rarely installed. This crate knows nothing
of Tare.

Tasks are read as columns and not as JSON: `squeue --json` lists all jobs of the cluster whatever it is asked for (22.05),
needs a plugin that sites leave out, and its fields changed their types between 22.05, 23.02 and 24.05.
*/

mod command;
mod error;
mod nodes;
mod submit;
mod tasks;

pub use error::SlurmError;
pub use nodes::{NodeKind, jobs_on_node, node_kinds, partitions};
pub use submit::{Submission, cancel, largest_array, submit};
pub use tasks::{Ended, TaskState, Tasks, ends_in_accounting, tasks};

/// The result of a command.
pub type Result<T, E = SlurmError> = std::result::Result<T, E>;
