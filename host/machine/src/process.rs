//! System calls on this process: reading its usage and changing its priority and memory.

#[cfg(target_os = "macos")]
mod darwin;
#[cfg(target_os = "linux")]
mod linux;

use std::io;

#[cfg(target_os = "macos")]
use darwin as os;
#[cfg(target_os = "linux")]
use linux as os;

/// The kernel's counters of this process at a moment, over all its threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time in nanoseconds.
    pub processor_ns: u64,
    /// Number of times that a thread gave up its processor.
    pub voluntary_switches: u64,
    /// Number of times that the kernel took it away.
    pub involuntary_switches: u64,
    /// Pages mapped without reading a disk.
    pub minor_faults: u64,
    /// Pages that were read from a disk.
    pub major_faults: u64,
}

/// Reads the counters of this process.
#[must_use]
pub fn usage() -> Usage {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid, and a zeroed `rusage` is valid if the call fails.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let nanoseconds = |time: libc::timeval| {
        (time.tv_sec as u64).saturating_mul(1_000_000_000) + time.tv_usec as u64 * 1000
    };
    Usage {
        processor_ns: nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime),
        voluntary_switches: usage.ru_nvcsw as u64,
        involuntary_switches: usage.ru_nivcsw as u64,
        minor_faults: usage.ru_minflt as u64,
        major_faults: usage.ru_majflt as u64,
    }
}

/// Returns the nice value of this process.
#[must_use]
pub fn nice() -> Option<i32> {
    rustix::process::getpriority_process(None).ok()
}

/// Sets the nice value of this thread and of threads that it starts later.
///
/// # Errors
///
/// If this process may not set it.
pub fn set_nice(value: i32) -> io::Result<()> {
    Ok(rustix::process::setpriority_process(None, value)?)
}

/// Returns whether this process ignores a signal, for instance SIGHUP under `nohup`.
#[must_use]
pub fn ignores(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: nothing is changed, the pointer is valid, and zeroes are a valid `sigaction` if the call fails.
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

/// Returns whether this operating system lets a program choose processors.
#[must_use]
pub fn can_bind() -> bool {
    os::CAN_BIND
}

/// Binds this process to these processors; threads that it starts later inherit this.
///
/// # Errors
///
/// If there is no such processor, if this process may not use it, or if the system has no binding.
pub fn bind(processors: &[u32]) -> io::Result<()> {
    os::bind(processors)
}

/// Asks the scheduler to prefer this thread and to run it on fast processors, if the system supports this. Linux does
/// not; use [`bind`] instead.
pub fn prefer_fast_processors() {
    os::prefer_fast_processors();
}

/// Returns the scheduling policy of this thread by the kernel's name, if it is a known one: on
/// Linux one such as `other` or `fifo`, on macOS its quality of service, such as `default`.
#[must_use]
pub fn policy() -> Option<&'static str> {
    os::policy()
}

/// Makes the kernel kill this process when its parent ends, even while a plugin hangs. If the parent has already
/// ended, the closed pipe shows it.
pub fn end_with_parent() {
    os::end_with_parent();
}

/// Makes the kernel choose this process before its parent when memory runs out, if the system supports this.
pub fn be_first_to_go() {
    os::be_first_to_go();
}

/// Returns the C library that this process runs on, and its version.
#[must_use]
pub fn c_library() -> Option<String> {
    os::c_library()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_accounted_for() {
        assert!(usage().minor_faults > 0);
        assert!((-20..=19).contains(&nice().expect("every system tells")));
        assert!(policy().is_some());
        assert!(ignores(libc::SIGPIPE), "as every Rust program does");
        assert!(!ignores(libc::SIGTERM));
    }
}
