/*!
Facts about kinds of nodes.

A login node has no GPU, so what a plan needs to know of devices is asked on a node: a short job starts the same plugins
there as the local planner starts here. The answer is kept in the user's cache, by all that it depends on, as far as Slurm
and this host can see it: the partition, its nodes' features, resources and sizes, the plugins, and this executable.
*/

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use host_hash::sha256;
use host_plan::BackendFacts;
use host_record::{DeviceInfo, Failure, Gap, PluginIdentity};
use host_run::{DescribeError, Interrupt};
use host_slurm::{NodeKind, TaskState};
use serde::{Deserialize, Serialize};

use super::error::ClusterError;
use super::state::{Kind, State, read_json, write_json};
use super::submit::{Submitter, early_end};
use crate::backends::{ChosenBackend, Described};
use crate::error::{Error, Result};
use crate::observer::{Notice, Observer};
use crate::platform;

/// Time between two questions about a job that gathers facts.
const INTERVAL: Duration = Duration::from_millis(500);

/// How long facts are used again. Drivers are updated without Slurm's notice.
const FRESH: Duration = Duration::from_hours(24);

/// Facts about a backend on a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Backend {
    Ready { plugin: PluginIdentity, devices: Vec<DeviceInfo>, lacks: Option<Gap> },
    Missing(Gap),
}

/// Facts about a kind of node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct NodeFacts {
    /// The name of the machine that answered.
    pub(crate) machine: String,
    pub(crate) memory_bytes: Option<u64>,
    backends: BTreeMap<String, Backend>,
    /// Plugins that are there and could not be described, with their standard error.
    failures: BTreeMap<String, (Failure, String)>,
}

impl NodeFacts {
    /// Returns the facts of this node.
    pub(crate) fn of(described: Described, memory_bytes: Option<u64>) -> Self {
        let backend = |facts| match facts {
            BackendFacts::Ready { plugin, devices, lacks } => {
                Backend::Ready { plugin, devices, lacks }
            }
            BackendFacts::Missing(gap) => Backend::Missing(gap),
        };
        let Described { facts, failures } = described;
        let failed = |error: DescribeError| (error.failure, error.standard_error);
        Self {
            machine: host_machine::name(),
            memory_bytes,
            backends: facts.into_iter().map(|(id, facts)| (id, backend(facts))).collect(),
            failures: failures.into_iter().map(|(id, error)| (id, failed(error))).collect(),
        }
    }

    /// Returns how well a backend can be measured: 2 with devices and all that it needs, 0 if it is missing.
    fn rank(&self, id: &str) -> u8 {
        match self.backends.get(id) {
            Some(Backend::Ready { devices, lacks: None, .. }) if !devices.is_empty() => 2,
            Some(Backend::Ready { .. }) => 1,
            _ => 0,
        }
    }
}

/// The kinds of nodes of a run, and which of them each backend is measured on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kinds {
    pub(crate) facts: Vec<NodeFacts>,
    /// By the backend's id.
    place: BTreeMap<String, usize>,
}

impl Kinds {
    /// Chooses for each backend the first kind of node that can measure it.
    pub(crate) fn new(facts: Vec<NodeFacts>) -> Self {
        let ids = facts.iter().flat_map(|facts| facts.backends.keys());
        let best = |id: &String| {
            let ranks = facts.iter().enumerate().map(|(kind, facts)| (facts.rank(id), kind));
            // Of equals, the first.
            let (_, kind) = ranks.max_by_key(|(rank, kind)| (*rank, std::cmp::Reverse(*kind)))?;
            Some((id.clone(), kind))
        };
        let place = ids.filter_map(best).collect();
        Self { facts, place }
    }

    /// Returns the kind of node that a backend is measured on.
    pub(crate) fn of(&self, backend: &str) -> usize {
        self.place.get(backend).copied().unwrap_or(0)
    }

    /// Returns what a plan needs.
    pub(crate) fn described(&self) -> Described {
        let mut described = Described::default();
        for (id, kind) in &self.place {
            let facts = &self.facts[*kind];
            let backend = match facts.backends[id].clone() {
                Backend::Ready { plugin, devices, lacks } => {
                    BackendFacts::Ready { plugin, devices, lacks }
                }
                Backend::Missing(gap) => BackendFacts::Missing(gap),
            };
            described.facts.insert(id.clone(), backend);
            if let Some((failure, standard_error)) = facts.failures.get(id).cloned() {
                described.failures.insert(id.clone(), DescribeError { failure, standard_error });
            }
        }
        described
    }

    /// Returns the machine and the memory that a plan names: those of the first kind, and the least.
    pub(crate) fn place(&self) -> (String, Option<u64>) {
        let machine = self.facts.first().map(|facts| facts.machine.clone()).unwrap_or_default();
        (machine, self.facts.iter().filter_map(|facts| facts.memory_bytes).min())
    }

    fn path(run: &Path) -> PathBuf {
        State::folder(run).join("facts.json")
    }

    /// Keeps the facts that a run was planned with.
    pub(crate) fn write(&self, run: &Path) -> Result<()> {
        write_json(&Self::path(run), &self.facts)
    }

    /// Reads the facts that a run was planned with.
    pub(crate) fn read(run: &Path) -> Result<Self> {
        Ok(Self::new(read_json(&Self::path(run))?.unwrap_or_default()))
    }

    /// Asks each kind of node, unless its facts are known. Plugins must be those that this host has.
    pub(crate) fn gather(
        run: &Path,
        kinds: &[Kind],
        backends: &[ChosenBackend],
        submitter: &Submitter,
        interrupt: &Interrupt,
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        let nodes = host_slurm::node_kinds().map_err(ClusterError::from)?;
        let keys: Vec<Option<PathBuf>> =
            kinds.iter().map(|kind| cached(kind, &nodes, backends, submitter)).collect();
        let mut facts: Vec<Option<NodeFacts>> =
            keys.iter().map(|path| fresh(path.as_deref()?)).collect();
        let mut jobs = Vec::new();
        for (number, kind) in kinds.iter().enumerate() {
            if facts[number].is_none() {
                let arguments = vec!["--facts".to_owned(), number.to_string()];
                let job = submitter.submit(kind, arguments, Vec::new())?;
                observer.notice(Notice::GatheringFacts { kind: &kind.to_string(), job });
                jobs.push((number, job));
            }
        }
        for (number, job) in &jobs {
            match wait(run, *number, *job, submitter, interrupt) {
                Ok(found) => {
                    if let Some(path) = &keys[*number] {
                        // Without it, they are asked for again.
                        drop(path.parent().map(std::fs::create_dir_all));
                        drop(write_json(path, &found));
                    }
                    facts[*number] = Some(found);
                }
                Err(error) => {
                    let all: Vec<u64> = jobs.iter().map(|(_, job)| *job).collect();
                    drop(host_slurm::cancel(&all));
                    return Err(match error {
                        Waited::Interrupted => Error::Interrupted,
                        Waited::Slurm(error) => ClusterError::from(error).into(),
                        Waited::Error(error) => error,
                        Waited::Failed(reason) => {
                            let kind = kinds[*number].to_string();
                            ClusterError::NoFacts { kind, reason }.into()
                        }
                    });
                }
            }
        }
        let gathered = Self::new(facts.into_iter().flatten().collect());
        for (facts, backend) in
            gathered.facts.iter().flat_map(|facts| backends.iter().map(move |it| (facts, it)))
        {
            if let (Ok(here), Some(Backend::Ready { plugin, .. })) =
                (&backend.plugin, facts.backends.get(&backend.id))
                && here.identity != *plugin
            {
                let (then, now) = (here.identity.clone(), plugin.clone());
                let node = facts.machine.clone();
                return Err(ClusterError::OtherPlugin { node, then, now }.into());
            }
        }
        gathered.write(run)?;
        Ok(gathered)
    }
}

/// Returns the file of the facts of a node's kind while they are gathered.
pub(crate) fn answer_path(run: &Path, number: usize) -> PathBuf {
    State::folder(run).join(format!("facts-{number}.json"))
}

enum Waited {
    Interrupted,
    Slurm(host_slurm::SlurmError),
    Error(Error),
    Failed(String),
}

fn wait(
    run: &Path,
    number: usize,
    job: u64,
    submitter: &Submitter,
    interrupt: &Interrupt,
) -> Result<NodeFacts, Waited> {
    let path = answer_path(run, number);
    let mut ended_at = None;
    loop {
        if interrupt.is_interrupted() {
            return Err(Waited::Interrupted);
        }
        let tasks = match host_slurm::tasks(&[job]) {
            Ok(tasks) => tasks,
            Err(error) if error.is_passing() => {
                std::thread::sleep(INTERVAL);
                continue;
            }
            Err(error) => return Err(Waited::Slurm(error)),
        };
        if let Some(facts) = read_json(&path).map_err(Waited::Error)? {
            return Ok(facts);
        }
        match tasks.into_values().next() {
            Some(TaskState::Ended(ended)) => {
                // A file that another node wrote may take a while to appear here.
                let since = *ended_at.get_or_insert_with(Instant::now);
                let patience = if ended.code == Some(0) { 60 } else { 3 };
                if since.elapsed() > Duration::from_secs(patience) {
                    return Err(Waited::Failed(early_end(&ended, &submitter.log(job, None))));
                }
            }
            Some(_) => {}
            None => return Err(Waited::Failed(format!("Slurm has forgotten the job {job}"))),
        }
        std::thread::sleep(INTERVAL);
    }
}

/// Returns the facts in a file of the cache, unless they are old.
fn fresh(path: &Path) -> Option<NodeFacts> {
    let age = std::fs::metadata(path).ok()?.modified().ok()?.elapsed().ok()?;
    if age > FRESH { None } else { read_json(path).ok()? }
}

/// Returns the file in the cache for the facts of a kind of node.
fn cached(
    kind: &Kind,
    nodes: &[NodeKind],
    backends: &[ChosenBackend],
    submitter: &Submitter,
) -> Option<PathBuf> {
    let is_of = |node: &&NodeKind| match &kind.partition {
        Some(partition) => node.partition == *partition,
        None => node.is_default,
    };
    let mut key = format!("{kind:?} {:?}", submitter.asked());
    for node in nodes.iter().filter(is_of) {
        key.push_str(&format!("\n{node:?}"));
    }
    for backend in backends {
        let plugin = backend.plugin.as_ref().ok().map(|plugin| &plugin.identity);
        key.push_str(&format!("\n{} {plugin:?} {:?}", backend.id, backend.local()));
    }
    let host = std::env::current_exe().ok().and_then(|path| host_hash::sha256_of_file(&path).ok());
    key.push_str(&format!("\n{host:?}"));
    let name = format!("{}.json", sha256(key.as_bytes()));
    Some(platform::cache_folder()?.join("nodes").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(machine: &str, ready: &[(&str, bool)]) -> NodeFacts {
        let plugin = PluginIdentity { id: "p".into(), version: "1.0.0".into(), sha256: "0".into() };
        let gap = || Gap::PluginMissing { plugin: "p".into(), registry_message: "nowhere".into() };
        let device: DeviceInfo = serde_json::from_value(serde_json::json!({
            "id": "d:0", "name": "d", "kind": "cpu", "memory-bytes": null, "precisions": [], "modes": [],
            "attributes": {},
        }))
        .expect("a device");
        let backend = |is_ready: bool| match is_ready {
            true => {
                let devices = vec![device.clone()];
                Backend::Ready { plugin: plugin.clone(), devices, lacks: None }
            }
            false => Backend::Missing(gap()),
        };
        NodeFacts {
            machine: machine.into(),
            backends: ready.iter().map(|(id, it)| ((*id).to_owned(), backend(*it))).collect(),
            ..NodeFacts::default()
        }
    }

    #[test]
    fn a_backend_goes_to_the_first_kind_of_node_that_can_measure_it() {
        let amd = node("a", &[("cpu", true), ("rocm", true), ("cuda", false), ("qnn", false)]);
        let nvidia = node("n", &[("cpu", true), ("rocm", false), ("cuda", true), ("qnn", false)]);
        let kinds = Kinds::new(vec![amd, nvidia]);
        assert_eq!(["cpu", "rocm", "cuda", "qnn"].map(|id| kinds.of(id)), [0, 0, 1, 0]);
        let facts = kinds.described().facts;
        assert!(matches!(facts["cuda"], BackendFacts::Ready { .. }));
        assert!(matches!(facts["qnn"], BackendFacts::Missing(_)));
    }
}
