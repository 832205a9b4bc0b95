/*!
Runs on a cluster: the host on the login node plans, submits and merges; tasks on nodes measure.

Cases are cut into blocks, and a task of an array measures one block on one node, by the executor of that machine. Each
attempt at a block writes a part of the run folder for itself. The host follows: it asks the engine for the states of tasks,
takes over what parts have recorded, and submits again what a dead task has left. All state lies in the run folder, so that
the host may end at any time and go on later. `docs/design/executors.md` says why.
*/

mod blocks;
mod error;
mod facts;
mod follow;
mod state;
mod submit;
mod task;

use host_manifest::Execution;
use host_store::RunFolder;

pub(crate) use blocks::Work;
pub use error::ClusterError;
pub(crate) use facts::Kinds;
pub(crate) use follow::{Cluster, Followed};
pub(crate) use state::State;
pub(crate) use submit::Submitter;
pub use task::{TaskSummary, probe_node, run_block};

use crate::error::Result;

/// Checks that Slurm answers and has the partitions, before anything is made.
pub(crate) fn check(execution: &Execution) -> Result<()> {
    Ok(submit::check_partitions(execution)?)
}

/// Removes the parts and blocks of a run that has ended: its own journal has everything. The state, the script and the logs
/// stay.
pub(crate) fn tidy(folder: &RunFolder) -> Result<()> {
    folder.remove_parts()?;
    blocks::remove(folder.path())
}
