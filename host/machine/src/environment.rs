//! The description of the machine that is recorded with every case.

use host_record::{Environment, list_of_processors};

use crate::{Machine, process};

/// Returns the current facts about this machine, with the commit of the user's repository ([`git_commit`](crate::git_commit)).
#[must_use]
pub fn environment(commit: Option<String>) -> Environment {
    let machine = Machine::this();
    let nodes = machine.memory_nodes().into_iter();
    Environment {
        machine: name(),
        variables: Vec::new(),
        processor: machine.processor(),
        memory_bytes: machine.memory().map(|memory| memory.total),
        memory_available_bytes: machine.available_memory(),
        operating_system: machine.operating_system(),
        kernel: machine.kernel(),
        load_average: machine.load_average(),
        virtualisation: machine.virtualisation().flatten(),
        c_library: process::c_library(),
        container: machine.container(),
        control_group: machine.control_group(),
        memory_nodes: nodes
            .map(|(node, processors)| (format!("node{node}"), list_of_processors(&processors)))
            .collect(),
        clock_source: machine.clock_source(),
        allocation: None,
        git_dirty: commit.as_ref().map(|commit| commit.ends_with("-dirty")),
        git_commit: commit,
    }
}

/// Returns the network name of this machine.
#[must_use]
pub fn name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_and_memory() {
        let environment = environment(None);
        assert!(environment.kernel.is_some());
        assert!(
            environment.memory_bytes > environment.memory_available_bytes.map(|bytes| bytes / 2)
        );
        assert_eq!((environment.git_commit, environment.git_dirty), (None, None));
        assert!(environment.c_library.is_some());
        assert_eq!(environment.processor.architecture, std::env::consts::ARCH);
    }
}
