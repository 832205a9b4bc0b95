//! Memory of this process on a GPU, from NVML.
//!
//! NVML lists processes by the machine's ids, which differ from those that a process in a container
//! sees. So the list is read before CUDA is first used: the process that is new afterwards is this one. In some
//! containers the list stays empty; then the difference in memory on the whole GPU is reported if no other process
//! uses it, else an error.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use plugin_api::backend::{Error, ErrorCode, MemoryUse, Result};

use crate::nvml::Gpu;

/// State of each GPU before this process used it.
#[derive(Debug, Default)]
pub(crate) struct Baseline {
    gpus: Mutex<BTreeMap<u32, Before>>,
}

#[derive(Debug, Clone, Default)]
struct Before {
    processes: Vec<(u32, u64)>,
    bytes: Option<u64>,
    peak: u64,
}

impl Baseline {
    /// Records the state of a GPU before its first use.
    pub(crate) fn take(&self, gpu: &Gpu) {
        let mut gpus = self.gpus.lock().unwrap_or_else(PoisonError::into_inner);
        gpus.entry(gpu.index).or_insert_with(|| Before {
            processes: gpu.processes().unwrap_or_default(),
            bytes: gpu.memory_in_use().ok(),
            peak: 0,
        });
    }

    /// Returns the current memory of this process, and its highest reading.
    pub(crate) fn used(&self, gpu: &Gpu) -> Result<MemoryUse> {
        let mut gpus = self.gpus.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(before) = gpus.get_mut(&gpu.index) else {
            return Ok(MemoryUse { used_bytes: 0, peak_bytes: None });
        };
        let used = own(before, &gpu.processes()?, gpu.memory_in_use().ok(), std::process::id())?;
        before.peak = before.peak.max(used);
        Ok(MemoryUse { used_bytes: used, peak_bytes: Some(before.peak) })
    }
}

/// Returns the part of the GPU's current memory that belongs to this process.
fn own(before: &Before, now: &[(u32, u64)], bytes: Option<u64>, id: u32) -> Result<u64> {
    if let Some((_, used)) = now.iter().find(|(process, _)| *process == id) {
        return Ok(*used);
    }
    let known = |process: u32| before.processes.iter().any(|(known, _)| *known == process);
    let mut new = now.iter().filter(|(process, _)| !known(*process));
    match (new.next(), new.next()) {
        (Some((_, used)), None) => Ok(*used),
        (None, _) if now.is_empty() && before.processes.is_empty() => {
            let difference = bytes.zip(before.bytes).map(|(now, then)| now.saturating_sub(then));
            difference.ok_or_else(|| unknown("the driver lists no processes and no memory"))
        }
        _ => Err(unknown("the driver lists other processes, but none that must be this one")),
    }
}

fn unknown(why: &str) -> Error {
    let message = format!("this process's memory on the GPU is unknown: {why}");
    Error::new(ErrorCode::Device, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_id_or_by_being_new() {
        let before = Before { processes: vec![(10, 5)], bytes: Some(100), peak: 0 };
        let own = |now: &[(u32, u64)]| own(&before, now, Some(900), 7).ok();
        assert_eq!(own(&[(10, 5), (7, 70)]), Some(70));
        assert_eq!(own(&[(10, 5), (4711, 60)]), Some(60));
        assert_eq!(own(&[(10, 5), (4711, 60), (4712, 1)]), None);
        assert_eq!(own(&[(10, 5)]), None);
        assert_eq!(own(&[]), None, "another process is known to be there");
    }

    #[test]
    fn without_a_list_the_whole_gpu_counts_from_before() {
        let before = Before { processes: Vec::new(), bytes: Some(100), peak: 0 };
        assert_eq!(own(&before, &[], Some(900), 7), Ok(800));
        own(&before, &[], None, 7).expect_err("nothing is known");
    }
}
