//! Partitions and nodes.

use crate::Result;
use crate::command::output;

/// Nodes of a partition that look alike to Slurm.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeKind {
    /// The partition.
    pub partition: String,
    /// Whether it is the default partition.
    pub is_default: bool,
    /// Features, separated by commas; `(null)` for none.
    pub features: String,
    /// Generic resources; `(null)` for none.
    pub gres: String,
    /// Processors.
    pub processors: String,
    /// Memory in mebibytes.
    pub memory: String,
}

/// Returns the kinds of nodes that the cluster has.
///
/// # Errors
///
/// If Slurm does not answer.
pub fn node_kinds() -> Result<Vec<NodeKind>> {
    let arguments = ["--noheader", "--format=%P|%f|%G|%c|%m"].map(str::to_owned);
    Ok(parse(&output("sinfo", &arguments)?))
}

fn parse(text: &str) -> Vec<NodeKind> {
    let mut kinds: Vec<_> = text
        .lines()
        .filter_map(|line| {
            let mut fields = line.trim().split('|');
            let mut next = || fields.next().map(str::to_owned);
            let named = next()?;
            let partition = named.strip_suffix('*').unwrap_or(&named).to_owned();
            Some(NodeKind {
                is_default: partition != named,
                partition,
                features: next()?,
                gres: next()?,
                processors: next()?,
                memory: next()?,
            })
        })
        .collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

/// Returns the names of the partitions.
///
/// # Errors
///
/// If Slurm does not answer.
pub fn partitions() -> Result<Vec<String>> {
    let mut names: Vec<_> = node_kinds()?.into_iter().map(|kind| kind.partition).collect();
    names.dedup();
    Ok(names)
}

/// Returns the ids of running jobs on a node.
///
/// # Errors
///
/// If Slurm does not answer.
pub fn jobs_on_node(node: &str) -> Result<Vec<u64>> {
    let arguments =
        ["--noheader", "--states=RUNNING", "--format=%A", "--nodelist", node].map(str::to_owned);
    let text = output("squeue", &arguments)?;
    Ok(text.lines().filter_map(|line| line.trim().parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_and_nodes_are_read() {
        let kinds = parse("bench*|(null)|gpu:fake:1|2|4000\ngpu|h100,ib|gpu:h100:8|96|1031000\n");
        assert_eq!(kinds.len(), 2);
        assert!(kinds[0].is_default && kinds[0].partition == "bench");
        assert_eq!((&*kinds[1].features, &*kinds[1].gres), ("h100,ib", "gpu:h100:8"));
    }
}
