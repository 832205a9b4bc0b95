//! Linux: the kernel lists children, and gives orphans to the nearest ancestor that adopts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::LazyLock;

use rustix::process::{Signal, set_child_subreaper, set_parent_process_death_signal};

pub(crate) const FINDS_ORPHANS: bool = true;

pub(crate) fn adopt_orphans() {
    // Any non-zero value enables it. Kernels have it from 3.4 on.
    let _ = set_child_subreaper(Some(rustix::process::getpid()));
}

pub(crate) fn be_asked_to_end_with_parent() {
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
}

/// Does nothing: all descendants are found one by one.
pub(crate) fn end_group(_: u32) {}

/// Returns the running descendants.
pub(crate) fn below(process: u32) -> Vec<u32> {
    /// Whether this kernel lists the children of a process (`CONFIG_PROC_CHILDREN`).
    static LISTS: LazyLock<bool> =
        LazyLock::new(|| fs::exists("/proc/thread-self/children").unwrap_or(false));
    if *LISTS { collect(process, listed) } else { collect_all(process) }
}

/// Collects the descendants of a process by asking for the children of each.
fn collect(process: u32, children: impl Fn(u32) -> Vec<u32>) -> Vec<u32> {
    let mut found = BTreeSet::new();
    let mut open = vec![process];
    while let Some(parent) = open.pop() {
        // A list that changes while it is read may name a process twice.
        open.extend(children(parent).into_iter().filter(|child| found.insert(*child)));
    }
    let is_running = |process: &u32| stat(*process).is_some_and(|stat| stat.is_running);
    found.into_iter().filter(is_running).collect()
}

/// Returns the children that the kernel lists for the threads of a process.
fn listed(process: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    let numbers = |list: String| -> Vec<u32> {
        list.split_whitespace().filter_map(|number| number.parse().ok()).collect()
    };
    lists.flat_map(numbers).collect()
}

/// Collects the descendants of a process by asking each process of the machine for its parent.
fn collect_all(process: u32) -> Vec<u32> {
    let mut by_parent: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok) {
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some((number, stat)) = number.and_then(|number| Some((number, stat(number)?))) {
            by_parent.entry(stat.parent).or_default().push(number);
        }
    }
    collect(process, |parent| by_parent.get(&parent).cloned().unwrap_or_default())
}

struct Stat {
    is_running: bool,
    parent: u32,
}

fn stat(process: u32) -> Option<Stat> {
    // The program's name may have spaces and brackets: proc_pid_stat(5).
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    Some(Stat { is_running: !matches!(state, "Z" | "X"), parent: fields.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn children_and_theirs_are_found_in_both_ways() {
        // The shell waits for its child, which runs in a separate session.
        let mut shell = Command::new("sh")
            .args(["-c", "setsid sleep 60 & wait"])
            .stdin(Stdio::null())
            .spawn()
            .expect("a shell");
        let started = std::time::Instant::now();
        let found = loop {
            let found = collect(shell.id(), listed);
            if !found.is_empty() || started.elapsed().as_secs() > 30 {
                break found;
            }
        };
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(collect_all(shell.id()), found);
        assert!(below(std::process::id()).contains(&found[0]));
        crate::send(found[0], Signal::KILL);
        shell.wait().expect("it waits for its child");
        assert_eq!(below(shell.id()), Vec::<u32>::new());
    }
}
