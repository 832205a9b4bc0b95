//! The reason of a worker's end.

use std::process::ExitStatus;

use host_record::{Failure, Phase};

use crate::platform;

/// Facts about a worker's memory when it ended.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Memory {
    /// Its limit in bytes.
    pub(crate) limit: Option<u64>,
    /// Highest memory seen in use, in bytes.
    pub(crate) peak: Option<u64>,
    /// The kernel's count of processes that it killed for lack of memory, before and after.
    pub(crate) kills: Option<(u64, u64)>,
}

/// Messages of runtimes before they abort for lack of memory.
const ALLOCATION_FAILURES: &[&str] =
    &["memory allocation of ", "std::bad_alloc", "Cannot allocate memory", "out of memory"];

/// Returns why a worker exited before it had finished.
pub(crate) fn explain(
    status: ExitStatus,
    phase: Phase,
    memory: Memory,
    standard_error: &str,
) -> Failure {
    let out_of_memory = |detail: String| Failure::OutOfMemory {
        phase,
        limit_bytes: memory.limit,
        peak_bytes: memory.peak,
        detail,
    };
    let Some(signal) = platform::signal(status) else {
        return Failure::ExitCode { code: status.code().unwrap_or(-1), phase };
    };
    let name = platform::signal_name(signal);
    match (name.as_str(), memory.kills) {
        ("SIGKILL", Some((before, after))) if after > before => out_of_memory(format!(
            "the kernel ended the worker; its count of out-of-memory kills rose from {before} to \
             {after}"
        )),
        ("SIGABRT", _) => match last_allocation_failure(standard_error) {
            Some(line) => out_of_memory(format!("the worker aborted and said: {line}")),
            None => {
                let said = uncaught_exception(standard_error).unwrap_or_default();
                Failure::Signal { signal, name, phase, said }
            }
        },
        _ => Failure::Signal { signal, name, phase, said: String::new() },
    }
}

/// Returns C++'s message about an uncaught exception on one line: its type, and its text if it has one. It is the
/// worker's last output, apart from lines of other threads.
fn uncaught_exception(standard_error: &str) -> Option<String> {
    /// Lines of other threads that may follow.
    const LAST: usize = 20;
    /// Longest text in characters.
    const LONGEST: usize = 1000;

    /// Rust's message if the exception ended in a Rust thread.
    const FOREIGN: &str = "Rust cannot catch foreign exceptions";

    let lines: Vec<&str> = standard_error.lines().collect();
    let last = lines.len().saturating_sub(LAST);
    let is_it = |line: &&str| {
        ["terminate called", "terminating due to", "libc++abi: terminating"]
            .iter()
            .any(|text| line.contains(text))
    };
    let Some(start) = lines[last..].iter().rposition(is_it).map(|start| last + start) else {
        let is_foreign = lines[last..].iter().any(|line| line.contains(FOREIGN));
        return is_foreign.then(|| "an exception left a function of the backend".to_owned());
    };
    // The text follows on separate lines, with two spaces before the first.
    let mut said = vec![lines[start].trim()];
    if let Some(text) = lines.get(start + 1).filter(|line| line.trim_start().starts_with("what():"))
    {
        said.push(text.trim());
        said.extend(
            lines[start + 2..].iter().map(|line| line.trim()).filter(|line| !line.is_empty()),
        );
    }
    Some(said.join(" ").chars().take(LONGEST).collect())
}

/// Returns the line with such a message, if it is among the last ones: a runtime prints it just
/// before it aborts.
fn last_allocation_failure(standard_error: &str) -> Option<&str> {
    let mut last = standard_error.lines().rev().filter(|line| !line.trim().is_empty()).take(10);
    last.find(|line| ALLOCATION_FAILURES.iter().any(|text| line.contains(text))).map(str::trim)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    const PHASE: Phase = Phase::Load;

    fn explained(raw: i32, memory: Memory, standard_error: &str) -> String {
        explain(ExitStatus::from_raw(raw), PHASE, memory, standard_error).to_string()
    }

    #[test]
    fn every_end_has_its_reason() {
        let nothing = Memory::default();
        let killed = Memory { limit: Some(1 << 30), peak: Some(1 << 29), kills: Some((3, 4)) };
        let others = Memory { kills: Some((3, 3)), ..killed };
        let aborted = "loading\nmemory allocation of 8589934592 bytes failed\n\n";
        assert_eq!(explained(3 << 8, nothing, ""), "the worker exited with code 3 in phase load");
        assert_eq!(
            explained(11, killed, ""),
            "the worker was killed by signal 11 (SIGSEGV) in phase load"
        );
        assert_eq!(
            explained(9, killed, ""),
            "out of memory in phase load: the kernel ended the worker; its count of \
             out-of-memory kills rose from 3 to 4"
        );
        assert_eq!(
            explained(9, others, aborted),
            "the worker was killed by signal 9 (SIGKILL) in phase load"
        );
        assert_eq!(
            explained(6, nothing, aborted),
            "out of memory in phase load: the worker aborted and said: memory allocation of \
             8589934592 bytes failed"
        );
        assert_eq!(
            explained(6, nothing, "assertion failed"),
            "the worker was killed by signal 6 (SIGABRT) in phase load"
        );
        let thrown = "loading\nterminate called after throwing an instance of 'std::runtime_error'\n  \
                      what():  the licence server\ndoes not answer\n";
        assert_eq!(
            explained(6, nothing, thrown),
            "the worker was killed by signal 6 (SIGABRT) in phase load: terminate called after throwing an \
             instance of 'std::runtime_error' what():  the licence server does not answer"
        );
        let without = "terminate called after throwing an instance of 'int'\nloading\n";
        assert_eq!(
            explained(6, nothing, without),
            "the worker was killed by signal 6 (SIGABRT) in phase load: terminate called after throwing an \
             instance of 'int'"
        );
        let foreign = "fatal runtime error: Rust cannot catch foreign exceptions, aborting\n";
        assert_eq!(
            explained(6, nothing, foreign),
            "the worker was killed by signal 6 (SIGABRT) in phase load: an exception left a function of the backend"
        );
        let core_dumped = 0x80 | 4;
        assert_eq!(
            explained(core_dumped, nothing, ""),
            "the worker was killed by signal 4 (SIGILL) in phase load"
        );
    }
}
