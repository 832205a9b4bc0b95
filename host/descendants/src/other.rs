//! Systems without adoption of orphans: only a child and its group are reached.

use rustix::process::{Pid, Signal};

pub(crate) const FINDS_ORPHANS: bool = false;

pub(crate) fn adopt_orphans() {}

pub(crate) fn be_asked_to_end_with_parent() {}

pub(crate) fn below(_: u32) -> Vec<u32> {
    Vec::new()
}

/// Ends all in the group that a child leads or has led.
pub(crate) fn end_group(leader: u32) {
    if let Some(id) = i32::try_from(leader).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process_group(id, Signal::KILL);
    }
}
