//! Memory of a worker and of all processes that it starts.

use std::time::{Duration, Instant};

use host_machine::{Machine, ProcessMemory};
use host_record::StartedProcesses;
use host_record::protocol::Remains;

/// Interval at which processes are searched for. A search reads a file for each thread of the worker, on the measured
/// machine.
const INTERVAL: Duration = Duration::from_secs(1);

/// The processes below the one that was started.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    root: u32,
    worker: u32,
    others: Vec<u32>,
    looked: Option<Instant>,
    /// The highest number of processes seen at once beside the worker.
    most: u64,
    /// Their highest resident memory in bytes.
    peak_bytes: u64,
}

/// Memory of a worker and of all processes that it started, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TreeMemory {
    /// Resident memory. Shared pages count for each process.
    pub(crate) resident: u64,
    /// The part of it that the kernel cannot drop.
    pub(crate) kept: u64,
    /// Number of processes beside the worker.
    pub(crate) others: u64,
}

impl Tree {
    pub(crate) fn new(process: u32) -> Self {
        let (root, worker) = (process, process);
        Self { root, worker, ..Self::default() }
    }

    /// Sets the worker's process, if the process that was started is only its overseer.
    pub(crate) fn name_worker(&mut self, process: Option<u32>) {
        self.worker = process.unwrap_or(self.root);
    }

    /// Returns the current memory; `None` if the worker has ended or the system does not report it.
    pub(crate) fn memory(&mut self, machine: &Machine) -> Option<TreeMemory> {
        if self.looked.is_none_or(|looked| looked.elapsed() >= INTERVAL) {
            self.looked = Some(Instant::now());
            self.others = host_descendants::below(self.root);
            self.others.retain(|process| *process != self.worker);
        }
        let ProcessMemory { resident, kept } = machine.memory_of(self.worker)?;
        let others = self.others.iter().filter_map(|process| machine.memory_of(*process));
        let none = TreeMemory { resident: 0, kept: 0, others: 0 };
        let others = others.fold(none, |sum, one| TreeMemory {
            resident: sum.resident + one.resident,
            kept: sum.kept + one.kept,
            others: sum.others + 1,
        });
        self.most = self.most.max(others.others);
        self.peak_bytes = self.peak_bytes.max(others.resident);
        Some(TreeMemory {
            resident: resident + others.resident,
            kept: kept + others.kept,
            others: others.others,
        })
    }

    /// Returns the figures of the processes beside the worker; `None` if there were none.
    pub(crate) fn started(
        &self,
        Remains { processes, running, .. }: Remains,
    ) -> Option<StartedProcesses> {
        let started = StartedProcesses {
            most: self.most,
            peak_bytes: (self.most > 0).then_some(self.peak_bytes),
            left: processes,
            running,
        };
        (started.most > 0 || started.left > 0).then_some(started)
    }
}
