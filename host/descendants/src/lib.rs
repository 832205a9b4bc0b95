/*!
Finds, adopts and ends the processes below this one.

A plugin is someone else's code and may start processes. If one leaves its group and session and its parent ends, it
becomes a child of the machine's first process, and its origin is lost. On Linux a process can [adopt](adopt_orphans)
such orphans among its own descendants; it then finds all of them below itself, until it ends them. Such a process
must be a separate program without other children: the worker's overseer, and the program that runs the checks of
`host plugins test`.

Other systems have no such adoption. Only a child and its group are reached.
*/

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;
mod signals;

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

#[cfg(target_os = "linux")]
use linux as os;
#[cfg(not(target_os = "linux"))]
use other as os;

pub use signals::Signals;

/// Whether processes are found that have left their group and whose parents have ended.
pub const FINDS_ORPHANS: bool = os::FINDS_ORPHANS;

/// Makes this process the parent of each descendant whose own parent ends. Does nothing on systems other than Linux.
pub fn adopt_orphans() {
    os::adopt_orphans();
}

/// Requests a SIGTERM for this process when its parent ends. Does nothing on systems other than Linux.
pub fn be_asked_to_end_with_parent() {
    os::be_asked_to_end_with_parent();
}

/// Returns the ids of all running processes below a process. Empty on systems other than Linux.
#[must_use]
pub fn below(process: u32) -> Vec<u32> {
    os::below(process)
}

/// The processes that were ended below this one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Left {
    /// Processes that were not waited for, without `child`. Some had ended by themselves.
    pub processes: u64,
    /// Those of them that were still running, and were ended.
    pub running: u64,
}

/// Ends all processes below this one and reaps them. `child` has not been reaped and does not count. Others have
/// `grace` to end by themselves; without others, there is no wait.
///
/// Processes are stopped until no other one is found, and then ended. So a process that keeps starting others does
/// not escape: stopped processes start nothing, and still count towards the system's limit on processes. A process
/// that the kernel does not release is given up after some seconds.
pub fn end_all(child: Option<u32>, grace: Duration) -> Left {
    const PATIENCE: Duration = Duration::from_secs(5);
    const PAUSE: Duration = Duration::from_millis(1);

    let (start, own) = (Instant::now(), std::process::id());
    let mut reaped = BTreeSet::new();
    let mut killed = BTreeSet::new();
    loop {
        let is_last = reap(&mut reaped);
        let mut running = below(own);
        if let Some(child) = child.filter(|child| !reaped.contains(child)) {
            os::end_group(child);
            running.push(child);
        }
        let elapsed = start.elapsed();
        if (is_last && running.is_empty()) || elapsed >= grace + PATIENCE {
            break;
        }
        if elapsed >= grace {
            let mut stopped: BTreeSet<u32> = BTreeSet::new();
            while start.elapsed() < grace + PATIENCE {
                running.retain(|process| stopped.insert(*process));
                if running.is_empty() {
                    break;
                }
                running.iter().for_each(|process| send(*process, Signal::STOP));
                running = below(own);
            }
            stopped.iter().for_each(|process| send(*process, Signal::KILL));
            killed.append(&mut stopped);
        }
        thread::sleep(PAUSE);
    }
    let count = |processes: &BTreeSet<u32>| {
        processes.iter().filter(|process| child != Some(**process)).count() as u64
    };
    let running = count(&killed);
    Left { processes: count(&reaped.union(&killed).copied().collect()), running }
}

/// Ends the processes in the group that an ended child has led, on systems where [`end_all`] does not find them.
pub fn end_group(leader: u32) {
    os::end_group(leader);
}

/// Reaps the children that have ended. Returns whether none are left.
fn reap(reaped: &mut BTreeSet<u32>) -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((process, _))) => {
                reaped.insert(number(process));
            }
            Ok(None) => return false,
            Err(Errno::INTR) => {}
            Err(_) => return true,
        }
    }
}

fn send(process: u32, signal: Signal) {
    if let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        // It may have ended by itself.
        let _ = rustix::process::kill_process(process, signal);
    }
}

fn number(process: Pid) -> u32 {
    process.as_raw_nonzero().get().unsigned_abs()
}
