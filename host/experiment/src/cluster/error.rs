//! Errors of runs on a cluster.

use std::path::PathBuf;

use host_record::PluginIdentity;
use host_slurm::SlurmError;

/// Errors of runs on a cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// Slurm refuses, or does not answer.
    #[error(transparent)]
    Slurm(#[from] SlurmError),
    /// A partition is not there.
    #[error("the cluster has no partition `{name}`; it has {}", known.join(", "))]
    NoPartition {
        /// Its name.
        name: String,
        /// The partitions that it has.
        known: Vec<String>,
    },
    /// The facts of a kind of node could not be gathered.
    #[error("no facts about nodes of {kind}: {reason}")]
    NoFacts {
        /// The kind of node.
        kind: String,
        /// Why.
        reason: String,
    },
    /// Both sides of a pair would be on different nodes.
    #[error(
        "`{first}` and `{second}` have their devices on different kinds of nodes, and a pair is measured on one node"
    )]
    PairApart {
        /// The first side's backend.
        first: String,
        /// The second side's backend.
        second: String,
    },
    /// A plugin on the node is another build than where the run was planned.
    #[error(
        "the plugin `{}` on node {node} has the SHA-256 {}, and the run was planned with {}", then.id, now.sha256,
        then.sha256
    )]
    OtherPlugin {
        /// The node.
        node: String,
        /// The plugin that the run was planned with.
        then: Box<PluginIdentity>,
        /// The plugin on the node.
        now: Box<PluginIdentity>,
    },
    /// A plugin is not on the node.
    #[error("node {node} does not have the plugin `{id}` with the SHA-256 {sha256}")]
    NoPlugin {
        /// The node.
        node: String,
        /// Its id.
        id: String,
        /// The hash that the run was planned with.
        sha256: String,
    },
    /// A file on the node has other contents.
    #[error("the file `{name}` on node {node} has the SHA-256 {}, and the run was planned with {then}", now.as_deref().unwrap_or("of no file that the manifest names"))]
    OtherFile {
        /// The node.
        node: String,
        /// The file's name.
        name: String,
        /// The hash that the run was planned with.
        then: String,
        /// The hash of the file of that name on the node.
        now: Option<String>,
    },
    /// A block of cases cannot be read.
    #[error("the block {} cannot be read: {detail}", path.display())]
    Block {
        /// The file.
        path: PathBuf,
        /// Why.
        detail: String,
    },
    /// Tasks could not begin, or were cancelled, so that cases are missing.
    #[error("{} of the run {run} could not be measured: {}", crate::units::count(*blocks, "block", "blocks"), problems.join("; "))]
    Unmeasured {
        /// The run.
        run: String,
        /// The results folder.
        results: PathBuf,
        /// Number of blocks.
        blocks: u64,
        /// The reasons, each once.
        problems: Vec<String>,
    },
    /// The run was not submitted to a cluster.
    #[error("the run {run} was not submitted to a cluster")]
    NotOfACluster {
        /// The run.
        run: String,
    },
}
