//! Processes on Linux.

use std::{fs, io};

use rustix::process::{Signal, set_parent_process_death_signal};

pub(super) const CAN_BIND: bool = true;

pub(super) fn bind(processors: &[u32]) -> io::Result<()> {
    /// Bits in a mask: more than any kernel uses. Further bits are ignored.
    const BITS: usize = 1 << 16;
    const WORD: usize = libc::c_ulong::BITS as usize;
    let mut mask: Vec<libc::c_ulong> = vec![0; BITS / WORD];
    for processor in processors {
        let index = *processor as usize;
        let word = mask.get_mut(index / WORD).ok_or(io::ErrorKind::InvalidInput)?;
        *word |= 1 << (index % WORD);
    }
    // SAFETY: the mask is valid and has the given length; the kernel only reads it.
    let result =
        unsafe { libc::sched_setaffinity(0, size_of_val(mask.as_slice()), mask.as_ptr().cast()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

pub(super) fn prefer_fast_processors() {}

pub(super) fn policy() -> Option<&'static str> {
    // SAFETY: it takes no pointers.
    let policy = unsafe { libc::sched_getscheduler(0) };
    Some(match policy & !libc::SCHED_RESET_ON_FORK {
        libc::SCHED_OTHER => "other",
        libc::SCHED_BATCH => "batch",
        libc::SCHED_IDLE => "idle",
        libc::SCHED_FIFO => "fifo",
        libc::SCHED_RR => "round-robin",
        libc::SCHED_DEADLINE => "deadline",
        _ => return None,
    })
}

pub(super) fn end_with_parent() {
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
}

pub(super) fn be_first_to_go() {
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
}

#[cfg(target_env = "gnu")]
pub(super) fn c_library() -> Option<String> {
    // SAFETY: it returns a string that lives as long as the process.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    Some(format!("glibc {}", version.to_str().ok()?))
}

/// Returns `None`: musl does not report its version.
#[cfg(not(target_env = "gnu"))]
pub(super) fn c_library() -> Option<String> {
    cfg!(target_env = "musl").then(|| "musl".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;

    /// This test uses a separate thread, because binding applies to a thread.
    #[test]
    fn this_thread_can_be_bound() {
        let one = std::thread::spawn(|| {
            let before = Machine::this().allowed_processors().expect("Linux tells");
            let last = *before.last().expect("a processor");
            bind(&[last]).expect("a processor that is allowed");
            let status = fs::read_to_string("/proc/thread-self/status").expect("Linux tells");
            let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            (last.to_string(), list.expect("a list").trim().to_owned())
        });
        let (last, now) = one.join().expect("the thread");
        assert_eq!(now, last);
        assert!(bind(&[1 << 20]).is_err(), "there is no such processor");
    }
}
