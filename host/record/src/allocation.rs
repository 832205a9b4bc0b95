//! The part of a cluster that a case was executed on.

use serde::{Deserialize, Serialize};

use crate::names::names;

names! {
    /// What executes the cases of a run.
    Engine {
        /// This machine.
        Local = "local",
        /// The nodes of a cluster, through the workload manager Slurm.
        Slurm = "slurm",
    }
}

/// The node, job and task that a case was executed in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Allocation {
    /// The engine, such as `slurm`.
    pub engine: String,
    /// The node's name in the cluster.
    pub node: String,
    /// The partition.
    pub partition: String,
    /// The job's id.
    pub job: u64,
    /// The task's number in the job's array.
    pub task: Option<u32>,
    /// The attempt at the task's block of cases, from 0.
    pub attempt: u32,
    /// Whether the job had its node for itself.
    pub exclusive: bool,
    /// Other jobs on the node when the case began, as far as the engine lists them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_jobs: Vec<u64>,
    /// Earlier attempts at the case that came to no result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierAttempt>,
}

/// An attempt at a case that came to no result, because its task ended first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct EarlierAttempt {
    /// The node.
    pub node: String,
    /// The job's id.
    pub job: u64,
    /// Start of the case in that attempt, RFC 3339 in UTC.
    pub started_at: String,
    /// How the task ended, such as `TIMEOUT`; `None` if nothing said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
}
